//! Why the simulator is outside the tolerance where it is: what the kernel's code or the emulator does that is not simulated.

/// A cause, for all it explains: a scenario, the beginning of a kernel's word, an activity and the beginning of a figure's word; what is
/// empty stands for all.
struct Cause {
    scenario: &'static str,
    kernel: &'static str,
    activity: &'static str,
    figure: &'static str,
    why: &'static str,
}

const PASSED: &str = "a sleep to a release that has passed: the emulator's timer interrupts when the kernel is already in `schedule`, so the \
                      thread sleeps and one of its priority runs; where a timer interrupts at once (host) it goes on, as here";
const GROWS: &str = "the queue grows all the time, since less is supplied than it asks for: 0.03 % of a CPU add up to milliseconds";
const RHYTHM: &str = "threads of the guest's kernel (rcu_preempt, kworker) join for microseconds every few ticks and break a rhythm that lasts \
                      here: with a fair thread of 5 us every 9 ms beside 700 us of 5 ms, 5.3 % are missed here (12.5 without, 6 to 7 measured)";
const SERVED: &str = "the third longest of five waits for the fair server, whose budget ends on a tick: which one hangs on microseconds (62.3 ms \
                      here with ticks of 12 us instead of 9)";
const ROUND: &str = "a round of all threads takes 0.75 s, and the run is no whole number of them: simulated 47.8 % in 5 s, 46.2 % in 5.2 s";
const REST: &str = "a thread that is picked again at the end of its slice gets no timer and runs to the tick (`set_next_task_fair` sets it for \
                    another one only): 72 times in 3 s of a trace, where what was left of a slice is shorter than here";
const TURNS: &str =
    "virtual CPUs run in turns: while one stands still its thread's CPU time goes on and its work does not";

const CAUSES: &[Cause] = &[
    Cause { scenario: "nice -20 beside 100", kernel: "lab:6.1-", activity: "", figure: "share", why: ROUND },
    Cause { scenario: "10 of 50 ms beside 2", kernel: "lab:7", activity: "", figure: "latency", why: REST },
    Cause { scenario: "10 of 40 ms beside 2", kernel: "lab:7", activity: "", figure: "latency", why: REST },
    Cause {
        scenario: "nice -3 beside nice 0, 5, -7",
        kernel: "lab:7",
        activity: "",
        figure: "response",
        why: REST,
    },
    Cause {
        scenario: "five fair tasks, no hog",
        kernel: "lab:7",
        activity: "",
        figure: "latency",
        why: REST,
    },
    Cause { scenario: "phases with sleeps", kernel: "lab:7", activity: "", figure: "", why: REST },
    Cause {
        scenario: "FIFO and RR of equal priority",
        kernel: "lab:",
        activity: "",
        figure: "",
        why: PASSED,
    },
    Cause { scenario: "FIFO of 97 %", kernel: "lab:", activity: "heavy", figure: "", why: GROWS },
    Cause {
        scenario: "DEADLINE, FIFO, RR and fair",
        kernel: "lab:6.12",
        activity: "periodic",
        figure: "",
        why: SERVED,
    },
];

/// Scenarios of the lab whose misses and tails hang on a rhythm.
const RHYTHMS: [&str; 5] = [
    "slices of 1 and 20 ms",
    "700 us of 5 ms, 200 us of 2 ms beside 2",
    "300 us of 1 ms beside 1",
    "batch of 21 ms and fair of 7 ms beside batch and idle",
    "drawn work beside 2",
];

/// Scenarios on several CPUs with threads that sleep.
const SLEEPERS: [&str; 6] = [
    "periodic beside 3 on 2 CPUs",
    "periodic beside 2 on 2 CPUs",
    "a spinner per CPU and periodic on 2 CPUs",
    "3 reservations on 2 CPUs",
    "3 FIFO tasks on 2 CPUs",
    "5 reservations on 4 CPUs",
];

/// Why a figure may be outside.
pub(super) fn cause(scenario: &str, kernel: &str, activity: &str, figure: &str) -> Option<&'static str> {
    let fits = |cause: &&Cause| {
        (cause.scenario.is_empty() || cause.scenario == scenario)
            && kernel.starts_with(cause.kernel)
            && (cause.activity.is_empty() || cause.activity == activity)
            && figure.starts_with(cause.figure)
    };
    let listed = CAUSES.iter().find(fits).map(|cause| cause.why);
    let in_lab = kernel.starts_with("lab:");
    let rhythm = (in_lab && figure != "share" && RHYTHMS.contains(&scenario)).then_some(RHYTHM);
    let turns = (in_lab && SLEEPERS.contains(&scenario)).then_some(TURNS);
    listed.or(rhythm).or(turns)
}
