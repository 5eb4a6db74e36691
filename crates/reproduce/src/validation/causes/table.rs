//! The causes: what is known of each, and which figures it explains.

use super::{Beside, Cause};

/// A thread of the kernel's that runs for `work_us` every `period_us` microseconds.
const fn every(period_us: u32, work_us: u32) -> Option<Beside> {
    Some(Beside::Kernel { period_us, work_us })
}

/// What is chance is drawn with another seed.
pub(super) const fn chance(seed: u64) -> Option<Beside> {
    Some(Beside::Chance { seed })
}

/// The hypervisor takes `work_us` every `period_us` microseconds.
const fn stolen(period_us: u32, work_us: u32) -> Option<Beside> {
    Some(Beside::Stolen { period_us, work_us })
}

const PASSED: &str = "a sleep to a release that has passed: the emulator's timer interrupts when the kernel is already in `schedule`, so the \
                      thread sleeps and one of its priority runs; where a timer interrupts at once (host) it goes on, as here. With a sleep of 1 us \
                      behind each job it has the kernel's figures. In traced guests, where all takes longer, all of its figures agreed on 6.1 and 6.12";
const GROWS: &str = "the queue of `heavy` grows from throttling to throttling, and how much of that is seen depends on where the window begins against the \
                     throttling period; the kernel's began with some realtime thread before, here it begins 0.1 s before the run. With the window 0.1 s \
                     later 2 % more are missed, and 0.4 s later as many as there";
const JOINED: &str = "threads of the kernel (rcu_preempt, kworker, ksoftirqd) join for microseconds every few ticks, shift which tick ends a slice and break a \
                      rhythm that lasts here";
const WAKES: &str = "in these runs a wake-up took longer than was measured before them: the median latency of `fast` is 26 us, simulated 22.6. Which of both threads is \
                     late depends on it: `slow` misses 16.6 % simulated, 12.8 to 14.4 with 102 to 108 % of a wake-up's cost, and 8.6 to 12.2 with 110 to 135 %, \
                     where `fast` misses 21.2 to 22.2 %";
const SERVED: &str = "the third longest of five waits for the fair server, whose budget ends on a tick: which one depends on microseconds (62.3 ms \
                      here with ticks of 12 us instead of 9)";
const ROUND: &str = "a round of all threads takes 0.75 s, and the run is no whole number of them: simulated `high` has 44.0 to 48.6 % in windows that begin up to \
                     0.5 s later";
const REST: &str = "a thread that is picked again at the end of its slice gets no timer and runs to the tick (`set_next_task_fair` sets it for \
                    another one only): 72 times in 3 s of a trace, where what was left of a slice is shorter than here";

const THROTTLED: &str = "a period of realtime throttling (one timer for all CPUs, `CONFIG_RT_GROUP_SCHED`) goes on from realtime threads before the run: in six \
                         traces it ended 120, 196, 272, 329, 400 and 897 ms after the hogs had begun, here 900 ms, where the first one begins as they are made. Where \
                         it ends decides whether a CPU is throttled while the server of the other one acts, which gives the fair thread 5 %, or at another time, when \
                         the throttled CPU takes it, 10 %: simulated with the start moved through the period in steps of 20 ms 5.2 to 10.7 %, 9.4 with a period that \
                         ends at 360 ms, which is shown. Where it ended in these runs was not recorded";

pub(super) const CHANCE: &str = "virtual CPUs take turns, so on a tick of all of them which one reads `jiffies` before the CPU that counts them has done so changes from tick to \
                      tick: it finds its balancing not due yet then and balances 4 ms later (`sched_balance_trigger`). Which threads share a CPU, and which CPU a \
                      fair server acts on, goes by that; without it balancing has a rhythm that lasts, as here. Shown is one of 400 seeds of a coin for each tick";

const ORDER: &str = "equal threads are woken at one instant, and the first to run is that whose timer was armed first, here the first by name: with another one \
                     first they have each other's shares, as measured";

const TURNS: &str = "virtual CPUs take turns: the first one wakes both of its threads, runs one and pushes the other to the second CPU before that one has \
                     woken its own, and these two share it; CPUs that run at once (host), as here, wake all of them first";
const REST_OF_CPUS: &str = "all of the workload has 198.2 % of two CPUs, simulated 199.4: threads of the kernel and of the run itself take the rest from the \
                            spinners";

const BEHIND: &str = "more than one job in a hundred waits for a tick and 0.15 ms, behind threads that are not of the workload and that came as the spinner \
                      had just been chosen; no thread of the kernel that was tried beside it (96 of 5 to 4000 us every 3 to 250 ms) does it here";

const TIES: &str = "both are released at one instant here, and of equal deadlines none preempts the other; in the kernel the periods of one begin microseconds after those of the \
                    other, whose deadline is the earlier then, as with a period of 20.001 ms for 20 or 10.001 for 10 here. The reclaimer beside one that sleeps has 56.7 % \
                    simulated and 52.5 % where the other one is released 1 us later";

const COINCIDES: &str = "the longest of some hundred waits depends on whether a tick comes just before a budget is used up or just after it: with ticks that take 0 to 15 us \
                         the longest of `DEADLINE 2/10` is 17.9, 19.9, 25.9 or 27.9 ms simulated, and that of `normal` beside two reclaimers 16.1, 28.1 or 36.1 ms";

const STOPPER: &str = "a realtime thread behind a reservation stays there beside an idle CPU until a thread above it leaves that one \
                       (`need_pull_rt_task`): the kernel's own `migration/0` did so after 2.3 s in a trace of the host, as a FIFO thread of 5 us a \
                       second does here";

const IDLE_TICK: &str = "a CPU that goes idle has its next tick still and stops it when that has come, in the traces of 6.12 and 7 (`idle_call_stop_or_retain_tick`); here it stops at \
                         once (`nohz=late` is as there), and that tick takes timers with it whose slack goes on";

const ASIDE: &str = "a task that wakes while a thread that is not of the workload has its CPU (the run's own, which wakes ten times a second, or a kworker) goes to another \
                     one and stays there, and another pair is together from then on: after 0.4 and 1.1 s in a trace of 7. Simulated, the pairs share 24, 33 and 36 %; \
                     which one is together depends on such threads";

pub(super) const CAUSES: &[Cause] = &[
    Cause {
        why: CHANCE,
        beside: chance(4),
        scenarios: &["3 equal spinners on 2 CPUs"],
        kernel: "lab:6.1-",
        activity: "",
        figures: &["spread"],
    },
    Cause {
        why: CHANCE,
        beside: chance(6),
        scenarios: &["3 equal spinners on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["spread"],
    },
    Cause {
        why: CHANCE,
        beside: chance(4),
        scenarios: &["3 equal spinners on 2 CPUs"],
        kernel: "lab:7",
        activity: "",
        figures: &["spread"],
    },
    Cause {
        why: CHANCE,
        beside: chance(5),
        scenarios: &["5 equal spinners on 4 CPUs"],
        kernel: "lab:6.1-",
        activity: "",
        figures: &["spread"],
    },
    Cause {
        why: CHANCE,
        beside: chance(4),
        scenarios: &["5 equal spinners on 4 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["spread"],
    },
    Cause {
        why: CHANCE,
        beside: chance(7),
        scenarios: &["5 equal spinners on 4 CPUs"],
        kernel: "lab:7",
        activity: "",
        figures: &["spread"],
    },
    Cause {
        why: CHANCE,
        beside: chance(48),
        scenarios: &["nice 0, 0, 5 on 2 CPUs"],
        kernel: "lab:6.1-",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: CHANCE,
        beside: chance(8),
        scenarios: &["nice 0, 0, 5 on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: CHANCE,
        beside: chance(35),
        scenarios: &["nice 0, 0, 5 on 2 CPUs"],
        kernel: "lab:7",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: CHANCE,
        beside: chance(91),
        scenarios: &["6 spinners of mixed nice on 4 CPUs"],
        kernel: "lab:6.1-",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: CHANCE,
        beside: chance(54),
        scenarios: &["6 spinners of mixed nice on 4 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: CHANCE,
        beside: chance(223),
        scenarios: &["6 spinners of mixed nice on 4 CPUs"],
        kernel: "lab:7",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: CHANCE,
        beside: chance(104),
        scenarios: &["2 FIFO hogs and a fair spinner on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: CHANCE,
        beside: chance(1),
        scenarios: &["2 FIFO hogs and a fair spinner on 2 CPUs"],
        kernel: "lab:7",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: CHANCE,
        beside: chance(11),
        scenarios: &["3 RR hogs and a fair one on 2 CPUs"],
        kernel: "lab:7",
        activity: "",
        figures: &["share"],
    },
    Cause {
        why: ASIDE,
        beside: stolen(17_200, 3),
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
        beside: stolen(30_000, 3),
        scenarios: &["FIFO below DEADLINE of 5 ms on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "hog",
        figures: &["share"],
    },
    Cause {
        why: STOPPER,
        beside: stolen(3_000, 3),
        scenarios: &["FIFO below DEADLINE of 5 ms on 2 CPUs"],
        kernel: "lab:7",
        activity: "hog",
        figures: &["share"],
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
        why: TIES,
        beside: Some(Beside::Reads { here: "\"10ms\"", there: "\"10001us\"" }),
        scenarios: &["a reclaimer beside one that sleeps"],
        kernel: "host",
        activity: "",
        figures: &["share"],
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
        beside: every(24_000, 3),
        scenarios: &["10 of 50 ms beside 2"],
        kernel: "lab:7",
        activity: "",
        figures: &["latency"],
    },
    Cause {
        why: REST,
        beside: every(12_000, 10),
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
        beside: every(16_100, 5),
        scenarios: &["nice -3 beside nice 0, 5, -7"],
        kernel: "lab:7",
        activity: "",
        figures: &["response"],
    },
    Cause {
        why: REST,
        beside: every(5_200, 3),
        scenarios: &["phases with sleeps"],
        kernel: "lab:7",
        activity: "",
        figures: &[],
    },
    Cause {
        why: PASSED,
        beside: Some(Beside::Reads {
            here: "work = \"6ms\"",
            there: "phases = [{ run = \"6ms\" }, { sleep = \"1us\" }]",
        }),
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
        beside: every(3_000, 3),
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
        beside: every(23_200, 3),
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
        beside: every(6_000, 3),
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
        beside: every(38_200, 3),
        scenarios: &["slices of 3 and 10 ms, periodic"],
        kernel: "lab:7",
        activity: "",
        figures: &[],
    },
    Cause {
        why: JOINED,
        beside: every(4_100, 3),
        scenarios: &["slices of 3 and 10 ms, periodic"],
        kernel: "lab:",
        activity: "",
        figures: &[],
    },
    Cause {
        why: JOINED,
        beside: every(15_000, 3),
        scenarios: &["idle and fair of 25 ms beside batch"],
        kernel: "lab:7",
        activity: "",
        figures: &[],
    },
    Cause {
        why: ORDER,
        beside: Some(Beside::Reads {
            here: "name = \"first\"\nwork = \"forever\"",
            there: "name = \"first\"\nperiod = \"1000s\"\nstart = \"10us\"\nwork = \"999s\"",
        }),
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
        why: TURNS,
        beside: Some(Beside::Reads {
            here: "name = \"b\"\nwork = \"forever\"",
            there: "name = \"b\"\nperiod = \"1000s\"\nstart = \"10us\"\nwork = \"999s\"",
        }),
        scenarios: &["3 RR hogs and a fair one on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "a",
        figures: &["share"],
    },
    Cause {
        why: TURNS,
        beside: Some(Beside::Reads {
            here: "name = \"b\"\nwork = \"forever\"",
            there: "name = \"b\"\nperiod = \"1000s\"\nstart = \"10us\"\nwork = \"999s\"",
        }),
        scenarios: &["3 RR hogs and a fair one on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "b",
        figures: &["share"],
    },
    Cause {
        why: CHANCE,
        beside: chance(95),
        scenarios: &["3 RR hogs and a fair one on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: &["share"],
    },
];
