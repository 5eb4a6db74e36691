//! Why the simulator is outside the tolerance where it is: what the kernel's code or the emulator does that is not simulated.
//!
//! Most often that is threads of the kernel's own (rcu_preempt, kworker), which run for microseconds every few ticks; on the host it is the
//! hypervisor, too. With one such thread in the workload ([`Beside`]), the scenario is simulated again, and the page
//! shows what that gives. When and how long the kernel's run is not known: of periods of 3 to 33 ms and runs of 3 to 50 us those are named
//! that leave the fewest figures outside. That shows what such threads can do to a figure, and foretells none.
//!
//! Others are shown otherwise: on a machine whose CPUs that go idle have one more tick, or whose wake-ups or ticks take other times, whose
//! throttling period has begun before the run, or whose accounts of bookings are not what is booked; by a window that begins later, or by another
//! number in the workload.

mod why;

use self::why::{
    ASIDE, BEHIND, COINCIDES, GROWS, IDLE_TICK, JOINED, ORDER, PASSED, REST, REST_OF_CPUS, ROUND, SERVED,
    SERVINGS, STALE, STOPPER, THROTTLED, TICKS, TIES, TURNED_ROUND, TURNS, WAKES,
};
use super::{Beside, Condition, Row};

/// A cause, and what it explains: scenarios, the beginning of a kernel's word, an activity, and the beginnings of figures' words; what is
/// empty stands for all. Of several the first holds.
pub(super) struct Cause {
    pub(super) why: &'static str,
    /// What is simulated beside the scenario to show it.
    pub(super) beside: Option<Beside>,
    scenarios: &'static [&'static str],
    kernel: &'static str,
    activity: &'static str,
    figures: &'static [&'static str],
}

/// A thread of the kernel's that runs for `work_us` every `period_us` microseconds.
const fn every(period_us: u32, work_us: u32) -> Option<Beside> {
    Some(Beside::Thread { period_us, work_us })
}

/// The hypervisor takes `work_us` every `period_us` microseconds.
const fn stolen(period_us: u32, work_us: u32) -> Option<Beside> {
    Some(Beside::Stolen { period_us, work_us })
}

const CAUSES: &[Cause] = &[
    Cause {
        why: ASIDE,
        beside: every(16_000, 5),
        scenarios: &["periodic on 2 cores of 2 threads"],
        kernel: "lab:6.12",
        activity: "all tasks",
        figures: &["core shared"],
    },
    Cause {
        why: ASIDE,
        beside: every(9_000, 5),
        scenarios: &["periodic on 2 cores of 2 threads"],
        kernel: "lab:",
        activity: "all tasks",
        figures: &["core shared"],
    },
    Cause {
        why: IDLE_TICK,
        beside: Some(Beside::IdleTicks),
        scenarios: &["timer slack of 2 ms"],
        kernel: "lab:7",
        activity: "",
        figures: &["response", "latency"],
    },
    Cause {
        why: JOINED,
        beside: every(3_000, 3),
        scenarios: &["groups in groups, periodic"],
        kernel: "lab:6.1-",
        activity: "frames",
        figures: &["response"],
    },
    Cause {
        why: JOINED,
        beside: every(3_000, 3),
        scenarios: &["an idle group beside a normal one"],
        kernel: "lab:",
        activity: "editor",
        figures: &["response", "latency"],
    },
    Cause {
        why: JOINED,
        beside: every(5_000, 10),
        scenarios: &["quota of 12 of 40 ms with burst, jobs of 16 ms"],
        kernel: "lab:7",
        activity: "jobs",
        figures: &["response"],
    },
    Cause {
        why: JOINED,
        beside: every(5_000, 15),
        scenarios: &["a chain of three fed stages beside 1"],
        kernel: "lab:7",
        activity: "present",
        figures: &["latency"],
    },
    Cause {
        why: JOINED,
        beside: every(17_000, 10),
        scenarios: &["a chain of FIFO and fair stages"],
        kernel: "lab:7",
        activity: "other",
        figures: &["response", "latency"],
    },
    Cause {
        why: STOPPER,
        beside: stolen(1_001_000, 5),
        scenarios: &["FIFO below DEADLINE of 5 ms on 2 CPUs"],
        kernel: "",
        activity: "hog",
        figures: &["share"],
    },
    Cause {
        why: STALE,
        beside: Some(Beside::Stale { thousandths: 559 }),
        scenarios: &["DEADLINE 2/10, reclaiming", "two reclaimers", "a reclaimer beside one that sleeps"],
        kernel: "host",
        activity: "",
        figures: &[],
    },
    Cause {
        why: TIES,
        beside: Some(Beside::Reads { here: "\"20ms\"", there: "\"20001us\"" }),
        scenarios: &["two reclaimers"],
        kernel: "lab:7",
        activity: "",
        figures: &["longest wait"],
    },
    Cause {
        why: TIES,
        beside: Some(Beside::Reads { here: "\"10ms\"", there: "\"10001us\"" }),
        scenarios: &["a reclaimer beside one that sleeps"],
        kernel: "lab:6.1-",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: TURNED_ROUND,
        beside: every(26_000, 10),
        scenarios: &["3 equal spinners on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["spread"],
    },
    Cause {
        why: TURNED_ROUND,
        beside: every(3_000, 30),
        scenarios: &["5 equal spinners on 4 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["spread"],
    },
    Cause {
        why: TURNED_ROUND,
        beside: every(26_000, 5),
        scenarios: &["3 equal spinners on 2 CPUs"],
        kernel: "lab:7",
        activity: "",
        figures: &["spread"],
    },
    Cause {
        why: TURNED_ROUND,
        beside: every(7_000, 15),
        scenarios: &["5 equal spinners on 4 CPUs"],
        kernel: "lab:7",
        activity: "",
        figures: &["spread"],
    },
    Cause {
        why: COINCIDES,
        beside: Some(Beside::Costs { wakeups: 100, ticks: 0 }),
        scenarios: &["two reclaimers"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["longest wait"],
    },
    Cause {
        why: COINCIDES,
        beside: Some(Beside::Costs { wakeups: 100, ticks: 96 }),
        scenarios: &["DEADLINE 2/10"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["longest wait"],
    },
    Cause {
        why: JOINED,
        beside: every(9_000, 15),
        scenarios: &["two RR hogs below FIFO of 15 ms"],
        kernel: "host",
        activity: "above",
        figures: &["response"],
    },
    Cause {
        why: BEHIND,
        beside: None,
        scenarios: &["periodic beside 3 on 2 CPUs"],
        kernel: "host",
        activity: "audio",
        figures: &["response"],
    },
    Cause {
        why: THROTTLED,
        beside: Some(Beside::Period { left_ms: 360 }),
        scenarios: &["3 RR hogs and a fair one on 2 CPUs"],
        kernel: "host",
        activity: "normal",
        figures: &["share"],
    },
    Cause {
        why: THROTTLED,
        beside: Some(Beside::Period { left_ms: 360 }),
        scenarios: &["2 FIFO hogs and a fair spinner on 2 CPUs"],
        kernel: "host",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: ROUND,
        beside: Some(Beside::Later { ms: 100 }),
        scenarios: &["nice -20 beside 100"],
        kernel: "lab:6.1-",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: REST,
        beside: every(20_000, 30),
        scenarios: &["10 of 50 ms beside 2"],
        kernel: "lab:7",
        activity: "",
        figures: &["latency"],
    },
    Cause {
        why: REST,
        beside: every(26_000, 30),
        scenarios: &["10 of 40 ms beside 2"],
        kernel: "lab:7",
        activity: "",
        figures: &["latency"],
    },
    Cause {
        why: REST,
        beside: every(13_000, 10),
        scenarios: &["five fair tasks, no hog"],
        kernel: "lab:7",
        activity: "",
        figures: &["latency"],
    },
    Cause {
        why: REST,
        beside: every(17_000, 20),
        scenarios: &["nice -3 beside nice 0, 5, -7"],
        kernel: "lab:7",
        activity: "",
        figures: &["response"],
    },
    Cause {
        why: REST,
        beside: every(13_000, 10),
        scenarios: &["phases with sleeps"],
        kernel: "lab:7",
        activity: "",
        figures: &[],
    },
    Cause {
        why: PASSED,
        beside: Some(Beside::Kernel(Condition::Traced)),
        scenarios: &["FIFO and RR of equal priority"],
        kernel: "lab:",
        activity: "",
        figures: &[],
    },
    Cause {
        why: GROWS,
        beside: Some(Beside::Later { ms: 400 }),
        scenarios: &["FIFO of 97 %"],
        kernel: "lab:",
        activity: "heavy",
        figures: &[],
    },
    Cause {
        why: SERVED,
        beside: every(4_100, 10),
        scenarios: &["DEADLINE, FIFO, RR and fair"],
        kernel: "lab:6.12",
        activity: "periodic",
        figures: &[],
    },
    Cause {
        why: JOINED,
        beside: every(9_000, 5),
        scenarios: &["50 us of 200 us beside 1"],
        kernel: "host",
        activity: "",
        figures: &["missed", "response", "latency"],
    },
    Cause {
        why: JOINED,
        beside: every(13_000, 5),
        scenarios: &["10 of 40 ms beside 2"],
        kernel: "lab:6.1-",
        activity: "",
        figures: &["response"],
    },
    Cause {
        why: JOINED,
        beside: every(11_000, 15),
        scenarios: &["100 us of 500 us beside 1"],
        kernel: "lab:7",
        activity: "",
        figures: &["missed"],
    },
    Cause {
        why: WAKES,
        beside: Some(Beside::Costs { wakeups: 115, ticks: 100 }),
        scenarios: &["700 us of 5 ms, 200 us of 2 ms beside 2"],
        kernel: "host",
        activity: "",
        figures: &["missed"],
    },
    Cause {
        why: JOINED,
        beside: every(11_000, 10),
        scenarios: &["700 us of 5 ms, 200 us of 2 ms beside 2"],
        kernel: "lab:",
        activity: "",
        figures: &["missed"],
    },
    Cause {
        why: JOINED,
        beside: every(13_000, 20),
        scenarios: &["300 us of 1 ms beside 1"],
        kernel: "lab:",
        activity: "",
        figures: &["missed"],
    },
    Cause {
        why: JOINED,
        beside: every(26_000, 10),
        scenarios: &["batch of 21 ms and fair of 7 ms beside batch and idle"],
        kernel: "lab:7",
        activity: "",
        figures: &["latency"],
    },
    Cause {
        why: JOINED,
        beside: every(11_000, 10),
        scenarios: &["batch of 21 ms and fair of 7 ms beside batch and idle"],
        kernel: "lab:",
        activity: "",
        figures: &["missed"],
    },
    Cause {
        why: JOINED,
        beside: every(13_000, 10),
        scenarios: &["drawn work beside 2"],
        kernel: "lab:6.1-",
        activity: "",
        figures: &["latency"],
    },
    Cause {
        why: JOINED,
        beside: every(9_000, 5),
        scenarios: &["drawn work beside 2"],
        kernel: "lab:7",
        activity: "",
        figures: &["latency"],
    },
    Cause {
        why: JOINED,
        beside: every(9_000, 10),
        scenarios: &["drawn work beside 2"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["response", "missed"],
    },
    Cause {
        why: JOINED,
        beside: every(26_000, 5),
        scenarios: &["slices of 3 and 10 ms, periodic"],
        kernel: "lab:7",
        activity: "",
        figures: &[],
    },
    Cause {
        why: JOINED,
        beside: every(5_000, 10),
        scenarios: &["slices of 3 and 10 ms, periodic"],
        kernel: "lab:",
        activity: "",
        figures: &[],
    },
    Cause {
        why: JOINED,
        beside: every(13_000, 5),
        scenarios: &["idle and fair of 25 ms beside batch"],
        kernel: "lab:7",
        activity: "",
        figures: &[],
    },
    Cause {
        why: ORDER,
        beside: None,
        scenarios: &["two RR hogs below FIFO of 15 ms"],
        kernel: "lab:7",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: JOINED,
        beside: every(13_000, 10),
        scenarios: &["slices of 1 and 20 ms"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["missed"],
    },
    Cause {
        why: REST_OF_CPUS,
        beside: every(3_000, 30),
        scenarios: &["FIFO and 2 reservations beside 2 on 2 CPUs"],
        kernel: "lab:6.1-",
        activity: "normal",
        figures: &["share"],
    },
    Cause {
        why: TICKS,
        beside: every(20_000, 15),
        scenarios: &["nice 0, 0, 5 on 2 CPUs"],
        kernel: "lab:6.1-",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: TICKS,
        beside: every(4_100, 15),
        scenarios: &["nice 0, 0, 5 on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: TICKS,
        beside: every(7_000, 30),
        scenarios: &["nice 0, 0, 5 on 2 CPUs"],
        kernel: "lab:7",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: TICKS,
        beside: None,
        scenarios: &["6 spinners of mixed nice on 4 CPUs"],
        kernel: "lab:",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: SERVINGS,
        beside: every(11_000, 15),
        scenarios: &["2 FIFO hogs and a fair spinner on 2 CPUs"],
        kernel: "lab:",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: TURNS,
        beside: None,
        scenarios: &["3 RR hogs and a fair one on 2 CPUs"],
        kernel: "lab:",
        activity: "a",
        figures: &["share"],
    },
    Cause {
        why: TURNS,
        beside: None,
        scenarios: &["3 RR hogs and a fair one on 2 CPUs"],
        kernel: "lab:",
        activity: "b",
        figures: &["share"],
    },
    Cause {
        why: SERVINGS,
        beside: None,
        scenarios: &["3 RR hogs and a fair one on 2 CPUs"],
        kernel: "lab:",
        activity: "",
        figures: &["share"],
    },
];

/// Why a figure may be outside.
pub(super) fn cause(scenario: &str, kernel: &str, activity: &str, figure: &str) -> Option<&'static Cause> {
    let fits = |cause: &&Cause| {
        (cause.scenarios.is_empty() || cause.scenarios.contains(&scenario))
            && kernel.starts_with(cause.kernel)
            && (cause.activity.is_empty() || cause.activity == activity)
            && (cause.figures.is_empty() || cause.figures.iter().any(|begin| figure.starts_with(begin)))
    };
    CAUSES.iter().find(fits)
}

/// Under which conditions a kernel is to run a scenario once more, to show causes.
pub(super) fn conditions(scenario: &str, kernel: &str) -> impl Iterator<Item = Condition> {
    let is_of = move |cause: &&Cause| cause.scenarios.contains(&scenario) && kernel.starts_with(cause.kernel);
    CAUSES.iter().filter(is_of).filter_map(|cause| match cause.beside {
        Some(Beside::Kernel(condition)) => Some(condition),
        _ => None,
    })
}

/// The causes of scenarios and kernels among the rows that excuse none of them.
pub fn without_use(rows: &[Row]) -> Vec<String> {
    let is_of = |cause: &Cause, row: &Row| {
        (cause.scenarios.is_empty() || cause.scenarios.contains(&row.scenario.as_str()))
            && row.kernel.starts_with(cause.kernel)
    };
    let excuses = |of: &Cause, row: &Row| {
        let found = cause(&row.scenario, &row.kernel, &row.activity, row.figure);
        !row.agrees() && found.is_some_and(|found| std::ptr::eq(found, of))
    };
    let idle = CAUSES.iter().filter(|cause| {
        rows.iter().any(|row| is_of(cause, row)) && !rows.iter().any(|row| excuses(cause, row))
    });
    idle.map(|cause| format!("{} on {}*: {}", cause.scenarios.join(", "), cause.kernel, cause.why)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::scenarios;

    #[test]
    fn every_cause_is_of_scenarios_that_there_are() {
        let titles: Vec<String> = scenarios().into_iter().map(|scenario| scenario.title).collect();
        for name in CAUSES.iter().flat_map(|cause| cause.scenarios) {
            assert!(titles.iter().any(|title| title == name), "{name}");
        }
    }
}
