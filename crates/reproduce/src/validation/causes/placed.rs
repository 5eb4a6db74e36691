//! The causes of where threads are placed: of figures that a traced run has.

use super::table::{CHANCE, chance};
use super::{Beside, Cause};

const MOVES: &[&str] = &["on one CPU", "migrations"];

const TRACED: &str = "threads of the traced run itself, one every 100 ms for 0.09 ms and the one that keeps the trace every 250 ms for 0.16 ms: each has a CPU choose at \
                      another instant, the sleeping `audio` leaves its queue a tick earlier or later, and of the load that this is (1,576 to 2,709 of 4,145, by a probe of the \
                      kernel) balancing makes threads that move; without such a thread it finds all even, in the kernel as here. Shown are starts of two such threads, of 10,000 pairs";

const JOINED: &str = "threads of the traced run itself, one every 100 ms for 0.09 ms and the one that keeps the trace every 250 ms for 0.16 ms: a CPU that has one of them has a thread more, \
                      and balancing moves another one. Shown are starts of two such threads, of 10,000 pairs";

pub(super) const PLACED: [Cause; 10] = [
    Cause {
        why: CHANCE,
        beside: chance(67),
        scenarios: &["3 equal spinners on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: MOVES,
    },
    Cause {
        why: CHANCE,
        beside: chance(126),
        scenarios: &["2 FIFO hogs and a fair spinner on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: MOVES,
    },
    Cause {
        why: CHANCE,
        beside: chance(146),
        scenarios: &["3 FIFO tasks on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: MOVES,
    },
    Cause {
        why: CHANCE,
        beside: chance(126),
        scenarios: &["3 RR hogs and a fair one on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: MOVES,
    },
    Cause {
        why: TRACED,
        beside: Some(Beside::Traced { own_ms: 38, trace_ms: 228 }),
        scenarios: &["periodic beside 3 on 2 CPUs"],
        kernel: "lab:6.12",
        activity: "",
        figures: MOVES,
    },
    Cause {
        why: CHANCE,
        beside: chance(14),
        scenarios: &["3 RR hogs and a fair one on 2 CPUs", "2 FIFO hogs and a fair spinner on 2 CPUs"],
        kernel: "lab:7",
        activity: "",
        figures: MOVES,
    },
    Cause {
        why: CHANCE,
        beside: chance(40),
        scenarios: &["3 FIFO tasks on 2 CPUs"],
        kernel: "lab:6.1-",
        activity: "",
        figures: MOVES,
    },
    Cause {
        why: CHANCE,
        beside: chance(4),
        scenarios: &["periodic beside 3 on 2 CPUs"],
        kernel: "lab:6.1-",
        activity: "",
        figures: MOVES,
    },
    Cause {
        why: JOINED,
        beside: Some(Beside::Traced { own_ms: 95, trace_ms: 3 }),
        scenarios: &["3 RR hogs and a fair one on 2 CPUs"],
        kernel: "lab:6.1-",
        activity: "",
        figures: MOVES,
    },
    Cause {
        why: JOINED,
        beside: Some(Beside::Traced { own_ms: 100, trace_ms: 13 }),
        scenarios: &["nice 0, 0, 5 on 2 CPUs"],
        kernel: "lab:7",
        activity: "",
        figures: MOVES,
    },
];
