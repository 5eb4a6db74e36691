//! Why the simulator is outside the tolerance where it is: what the kernel's code or the emulator does that is not simulated.

/// A cause, and what it explains: scenarios, the beginning of a kernel's word, an activity, and the beginnings of figures' words; what is
/// empty stands for all. Of several the first holds.
struct Cause {
    why: &'static str,
    scenarios: &'static [&'static str],
    kernel: &'static str,
    activity: &'static str,
    figures: &'static [&'static str],
}

const PASSED: &str = "a sleep to a release that has passed: the emulator's timer interrupts when the kernel is already in `schedule`, so the \
                      thread sleeps and one of its priority runs; where a timer interrupts at once (host) it goes on, as here";
const GROWS: &str = "the queue grows all the time, since less is supplied than it asks for: 0.03 % of a CPU add up to milliseconds";
const RHYTHM: &str = "threads of the guest's kernel (rcu_preempt, kworker) join for microseconds every few ticks and break a rhythm that lasts \
                      here: with a fair thread of 5 us every 9 ms beside 700 us of 5 ms, 5.3 % are missed here (12.5 without, 6 to 7 measured)";
const JOINED: &str = "threads of the kernel (rcu_preempt, kworker, ksoftirqd) join for microseconds: with a fair thread of 5 us every 4 ms the simulated latency \
                      p99 is 2.83 ms and 2.9 % are missed (0.011 ms and none without; 2.89 to 3.06 ms and 3.8 to 5.2 % measured)";
const TICKED: &str = "threads of the guest's kernel (rcu_preempt, kworker) join for microseconds and shift which tick ends a slice: with a fair thread of \
                      5 us every 13 ms 21.955 ms are simulated, as measured (26.003 without)";
const FINER: &str = "threads of the guest's kernel (rcu_preempt, kworker) join for microseconds: with a fair thread of 5 us every 7 or 13 ms 14.5 and 15.5 % are \
                     missed (16.7 without)";
const UNTAKEN: &str = "what is reserved is not taken from the bandwidth to reclaim (`extra_bw`) of this boot of 6.18.44, so every reclaimer drains at \
                       u / Umax: one of 0.5 % of a CPU gets 94 % of it beside fair threads, where the rule leaves it 9";
const SERVED: &str = "the third longest of five waits for the fair server, whose budget ends on a tick: which one hangs on microseconds (62.3 ms \
                      here with ticks of 12 us instead of 9)";
const ROUND: &str = "a round of all threads takes 0.75 s, and the run is no whole number of them: simulated 47.8 % in 5 s, 46.2 % in 5.2 s";
const REST: &str = "a thread that is picked again at the end of its slice gets no timer and runs to the tick (`set_next_task_fair` sets it for \
                    another one only): 72 times in 3 s of a trace, where what was left of a slice is shorter than here";
const TURNS: &str =
    "virtual CPUs run in turns: while one stands still its thread's CPU time goes on and its work does not";

const CAUSES: &[Cause] = &[
    Cause {
        why: ROUND,
        scenarios: &["nice -20 beside 100"],
        kernel: "lab:6.1-",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: REST,
        scenarios: &["10 of 50 ms beside 2", "10 of 40 ms beside 2", "five fair tasks, no hog"],
        kernel: "lab:7",
        activity: "",
        figures: &["latency"],
    },
    Cause {
        why: REST,
        scenarios: &["nice -3 beside nice 0, 5, -7"],
        kernel: "lab:7",
        activity: "",
        figures: &["response"],
    },
    Cause { why: REST, scenarios: &["phases with sleeps"], kernel: "lab:7", activity: "", figures: &[] },
    Cause {
        why: PASSED,
        scenarios: &["FIFO and RR of equal priority"],
        kernel: "lab:",
        activity: "",
        figures: &[],
    },
    Cause { why: GROWS, scenarios: &["FIFO of 97 %"], kernel: "lab:", activity: "heavy", figures: &[] },
    Cause {
        why: SERVED,
        scenarios: &["DEADLINE, FIFO, RR and fair"],
        kernel: "lab:6.12",
        activity: "periodic",
        figures: &[],
    },
    Cause {
        why: UNTAKEN,
        scenarios: &["two reclaimers", "a reclaimer beside one that sleeps"],
        kernel: "host",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: JOINED,
        scenarios: &["50 us of 200 us beside 1"],
        kernel: "host",
        activity: "",
        figures: &["missed", "response", "latency"],
    },
    Cause {
        why: TICKED,
        scenarios: &["10 of 40 ms beside 2"],
        kernel: "lab:6.1-",
        activity: "",
        figures: &["response"],
    },
    Cause {
        why: FINER,
        scenarios: &["100 us of 500 us beside 1"],
        kernel: "lab:7",
        activity: "",
        figures: &["missed"],
    },
    Cause {
        why: RHYTHM,
        scenarios: &["700 us of 5 ms, 200 us of 2 ms beside 2"],
        kernel: "host",
        activity: "",
        figures: &["missed"],
    },
    Cause {
        why: RHYTHM,
        scenarios: &[
            "slices of 1 and 20 ms",
            "700 us of 5 ms, 200 us of 2 ms beside 2",
            "300 us of 1 ms beside 1",
            "batch of 21 ms and fair of 7 ms beside batch and idle",
            "drawn work beside 2",
        ],
        kernel: "lab:",
        activity: "",
        figures: &["missed", "response", "latency", "longest wait"],
    },
    Cause {
        why: TURNS,
        scenarios: &[
            "periodic beside 3 on 2 CPUs",
            "periodic beside 2 on 2 CPUs",
            "a spinner per CPU and periodic on 2 CPUs",
            "3 reservations on 2 CPUs",
            "3 FIFO tasks on 2 CPUs",
            "5 reservations on 4 CPUs",
        ],
        kernel: "lab:",
        activity: "",
        figures: &[],
    },
];

/// Why a figure may be outside.
pub(super) fn cause(scenario: &str, kernel: &str, activity: &str, figure: &str) -> Option<&'static str> {
    let fits = |cause: &&Cause| {
        (cause.scenarios.is_empty() || cause.scenarios.contains(&scenario))
            && kernel.starts_with(cause.kernel)
            && (cause.activity.is_empty() || cause.activity == activity)
            && (cause.figures.is_empty() || cause.figures.iter().any(|begin| figure.starts_with(begin)))
    };
    CAUSES.iter().find(fits).map(|cause| cause.why)
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
