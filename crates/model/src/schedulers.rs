//! [`SCHEDULERS`]: every scheduler there is, a row for each.
//!
//! A row says all that is to be known of a scheduler: its word, whose threads it takes, what its kernels can be told, and by which function
//! the simulator makes it, in a file of its own. A crate takes the columns that it needs ([`schedulers!`](macro@crate::schedulers)): this
//! one what workloads and platforms may say, the simulator the functions, which are its own.

use crate::topology::Topology;

/// What workloads, platforms and reports have to know of a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerRow {
    /// As platforms name it.
    pub word: &'static str,
    /// The policies of the threads it schedules, by their words in a workload.
    pub takes: &'static [&'static str],
    /// The one of these that no kernel has.
    pub brings: Option<PolicyRow>,
    /// Whether a kernel has it; what runs under one that none has is unvalidated.
    pub is_of_kernels: bool,
    /// What is to be known of it where it is the fair class of a kernel.
    pub fair: Option<FairVersion>,
}

impl SchedulerRow {
    /// That of a word.
    pub fn of(word: &str) -> Option<&'static SchedulerRow> {
        SCHEDULERS.iter().find(|row| row.word == word)
    }
}

/// A policy as a workload names it.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRow {
    /// The word: the `fifo` of `fifo:80`.
    pub word: &'static str,
    /// The parameters it takes: `priority`, which follows the word, the keys `nice`, `slice` and `latency_nice`, `reservation`, without which
    /// there is no such thread, and `deadline`, which is its reservation's, or where it has none that of each job.
    pub(crate) takes: &'static [&'static str],
}

impl PolicyRow {
    /// Whether it takes a parameter.
    pub fn takes(&self, parameter: &str) -> bool {
        self.takes.contains(&parameter)
    }
}

/// A feature of a fair class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    pub name: &'static str,
    /// Whether it is on where nothing is said: as that kernel starts, except for `CACHE_HOT_BUDDY` of CFS.
    pub is_on: bool,
    /// Why the simulator has it one way only, where it does.
    pub fixed: Option<&'static str>,
}

/// Something of a workload or a machine that the kernels of a fair class do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacks {
    Groups,
    LatencyNice,
    FairServer,
    RealtimeLimit,
    Reservations,
}

/// A fair class.
#[derive(Clone, Copy, Debug)]
pub struct FairVersion {
    /// The kernels that have it.
    pub kernels: &'static str,
    /// Whether it is CFS, which kernels before 6.6 have: later ones have EEVDF.
    pub is_cfs: bool,
    /// Whether a kernel with it was held against the simulator.
    pub is_validated: bool,
    /// The machines with a topology, each with its CPUs, on which one was.
    pub held_on: &'static [(u32, Topology)],
    /// The number of CPUs up to which its slices grow with them.
    pub scales_to: u32,
    /// What it has nothing for.
    pub lacks: &'static [Lacks],
    pub features: &'static [Feature],
}

/// One that kernels have.
const OF_KERNELS: SchedulerRow =
    SchedulerRow { word: "", takes: &[], brings: None, is_of_kernels: true, fair: None };
/// One that none has.
const SIMULATED: SchedulerRow = SchedulerRow { is_of_kernels: false, ..OF_KERNELS };

/// Policies of the fair class.
const FAIR: &[&str] = &["fair", "batch", "idle"];

/// Two cores of two threads.
const CORES: (u32, Topology) = (4, Topology { smt: 2, llc: None, nodes: 1 });
/// Two caches of two CPUs.
const CACHES: (u32, Topology) = (4, Topology { smt: 1, llc: Some(2), nodes: 1 });

const fn on(name: &'static str) -> Feature {
    Feature { name, is_on: true, fixed: None }
}

const fn off(name: &'static str) -> Feature {
    Feature { name, is_on: false, fixed: None }
}

/// One that the simulator has as the kernel starts with it, and no other way.
const fn fixed(name: &'static str, is_on: bool, why: &'static str) -> Feature {
    Feature { name, is_on, fixed: Some(why) }
}

const BUDDIES: &str = "the simulator moves buddies of CFS between CPUs as other threads";
const EARLY_TIMER: &str = "slices that end on a timer are simulated by the rule of 7.1 and later";
const BUDGETS: &str = "say `enforcement=exact` or `enforcement=tick`";
const FORKS: &str = "it is for processes that are forked, and the simulator's are threads of programs";
const LOADS: &str = "the simulator has the averages of later kernels for the load of a CPU";
const WAKERS: &str = "the simulator does not know on which CPU a waker runs";
const REWORKED: &str = "the simulator does not have the rule by which 6.19 and later nominate who was woken";

/// The table, as `function: row` in turn, given to a macro: the function below `sim::cpu::policies` that makes the scheduler, and its
/// [`SchedulerRow`].
///
/// Of two that take the same policy a platform names the one it has; where it names none of those that take a policy, the first does, behind those
/// that stand above it here. Those whose policies no kernel has take part where the platform names them or a workload uses their policy.
#[macro_export]
macro_rules! schedulers {
    ($with:ident) => {
        $with! {
            deadline::make: SchedulerRow { word: "deadline", takes: &["deadline"], ..OF_KERNELS },
            deadline::adaptive::make: SchedulerRow { word: "apedf", takes: &["deadline"], ..SIMULATED },
            overcommit::make: SchedulerRow {
                word: "overcommit",
                takes: &["overcommit"],
                brings: Some(PolicyRow { word: "overcommit", takes: &["reservation"] }),
                ..SIMULATED
            },
            edf::make: SchedulerRow {
                word: "edf",
                takes: &["edf"],
                brings: Some(PolicyRow { word: "edf", takes: &["deadline"] }),
                ..SIMULATED
            },
            realtime::make: SchedulerRow { word: "realtime", takes: &["fifo", "rr"], ..OF_KERNELS },
            high_with_fair: SchedulerRow {
                word: "high",
                takes: &["high"],
                brings: Some(PolicyRow { word: "high", takes: &["nice"] }),
                ..SIMULATED
            },
            fair::eevdf_6_18::make: SchedulerRow {
                word: "fair",
                takes: FAIR,
                fair: Some(FairVersion {
                    kernels: "6.17 to 7.0",
                    is_cfs: false,
                    is_validated: true,
                    held_on: &[],
                    scales_to: 8,
                    lacks: &[],
                    features: &[
                        on("PLACE_LAG"),
                        on("PLACE_DEADLINE_INITIAL"),
                        on("PLACE_REL_DEADLINE"),
                        on("RUN_TO_PARITY"),
                        on("PREEMPT_SHORT"),
                        off("NEXT_BUDDY"),
                        on("PICK_BUDDY"),
                        on("CACHE_HOT_BUDDY"),
                        on("DELAY_DEQUEUE"),
                        on("DELAY_ZERO"),
                        on("WAKEUP_PREEMPTION"),
                        fixed("HRTICK", false, EARLY_TIMER),
                        fixed("HRTICK_DL", false, BUDGETS),
                        on("SIS_UTIL"),
                        fixed("WA_IDLE", true, WAKERS),
                        fixed("WA_WEIGHT", true, WAKERS),
                        fixed("WA_BIAS", true, WAKERS),
                        on("NI_RANDOM"),
                    ],
                }),
                ..OF_KERNELS
            },
            fair::cfs::make: SchedulerRow {
                word: "cfs-6.1",
                takes: FAIR,
                fair: Some(FairVersion {
                    kernels: "2.6.24 to 6.5",
                    is_cfs: true,
                    is_validated: true,
                    held_on: &[CORES],
                    scales_to: 8,
                    lacks: &[],
                    features: &[
                        on("GENTLE_FAIR_SLEEPERS"),
                        on("START_DEBIT"),
                        off("NEXT_BUDDY"),
                        on("LAST_BUDDY"),
                        fixed("CACHE_HOT_BUDDY", false, BUDDIES),
                        on("WAKEUP_PREEMPTION"),
                        fixed("HRTICK", false, EARLY_TIMER),
                        fixed("HRTICK_DL", false, BUDGETS),
                        on("SIS_UTIL"),
                        fixed("WA_IDLE", true, WAKERS),
                        fixed("WA_WEIGHT", true, WAKERS),
                        fixed("WA_BIAS", true, WAKERS),
                        on("NI_RANDOM"),
                        on("ALT_PERIOD"),
                        on("BASE_SLICE"),
                    ],
                }),
                ..OF_KERNELS
            },
            fair::fair_clock::make: SchedulerRow {
                word: "cfs-2.6.23",
                takes: FAIR,
                fair: Some(FairVersion {
                    kernels: "2.6.23",
                    is_cfs: true,
                    is_validated: false,
                    held_on: &[],
                    scales_to: u32::MAX,
                    lacks: &[
                        Lacks::Groups,
                        Lacks::LatencyNice,
                        Lacks::FairServer,
                        Lacks::RealtimeLimit,
                        Lacks::Reservations,
                    ],
                    features: &[
                        on("FAIR_SLEEPERS"),
                        fixed("SLEEPER_AVG", false, LOADS),
                        fixed("SLEEPER_LOAD_AVG", true, LOADS),
                        fixed("PRECISE_CPU_LOAD", false, LOADS),
                        fixed("START_DEBIT", true, FORKS),
                        fixed("SKIP_INITIAL", false, FORKS),
                    ],
                }),
                ..OF_KERNELS
            },
            fair::eevdf_6_6::make: SchedulerRow {
                word: "eevdf-6.6",
                takes: FAIR,
                fair: Some(FairVersion {
                    kernels: "6.6 to 6.11",
                    is_cfs: false,
                    is_validated: false,
                    held_on: &[],
                    scales_to: 8,
                    lacks: &[],
                    features: &[
                        on("PLACE_LAG"),
                        on("PLACE_DEADLINE_INITIAL"),
                        on("RUN_TO_PARITY"),
                        off("NEXT_BUDDY"),
                        on("CACHE_HOT_BUDDY"),
                        on("WAKEUP_PREEMPTION"),
                        fixed("HRTICK", false, EARLY_TIMER),
                        fixed("HRTICK_DL", false, BUDGETS),
                        on("SIS_UTIL"),
                        fixed("WA_IDLE", true, WAKERS),
                        fixed("WA_WEIGHT", true, WAKERS),
                        fixed("WA_BIAS", true, WAKERS),
                        on("NI_RANDOM"),
                    ],
                }),
                ..OF_KERNELS
            },
            fair::eevdf_6_12::make: SchedulerRow {
                word: "eevdf-6.12",
                takes: FAIR,
                fair: Some(FairVersion {
                    kernels: "6.12 to 6.16",
                    is_cfs: false,
                    is_validated: true,
                    held_on: &[CORES, CACHES],
                    scales_to: 8,
                    lacks: &[],
                    features: &[
                        on("PLACE_LAG"),
                        on("PLACE_DEADLINE_INITIAL"),
                        on("PLACE_REL_DEADLINE"),
                        on("RUN_TO_PARITY"),
                        on("PREEMPT_SHORT"),
                        off("NEXT_BUDDY"),
                        on("PICK_BUDDY"),
                        on("CACHE_HOT_BUDDY"),
                        on("DELAY_DEQUEUE"),
                        on("DELAY_ZERO"),
                        on("WAKEUP_PREEMPTION"),
                        fixed("HRTICK", false, EARLY_TIMER),
                        fixed("HRTICK_DL", false, BUDGETS),
                        on("SIS_UTIL"),
                        fixed("WA_IDLE", true, WAKERS),
                        fixed("WA_WEIGHT", true, WAKERS),
                        fixed("WA_BIAS", true, WAKERS),
                        on("NI_RANDOM"),
                    ],
                }),
                ..OF_KERNELS
            },
            fair::eevdf_7_2::make: SchedulerRow {
                word: "eevdf-7.2",
                takes: FAIR,
                fair: Some(FairVersion {
                    kernels: "7.1 and later",
                    is_cfs: false,
                    is_validated: true,
                    held_on: &[CORES],
                    scales_to: 8,
                    lacks: &[],
                    features: &[
                        on("PLACE_LAG"),
                        on("PLACE_DEADLINE_INITIAL"),
                        on("PLACE_REL_DEADLINE"),
                        on("RUN_TO_PARITY"),
                        on("PREEMPT_SHORT"),
                        fixed("NEXT_BUDDY", false, REWORKED),
                        on("PICK_BUDDY"),
                        fixed("CACHE_HOT_BUDDY", true, REWORKED),
                        on("DELAY_DEQUEUE"),
                        on("DELAY_ZERO"),
                        on("WAKEUP_PREEMPTION"),
                        on("HRTICK"),
                        fixed("HRTICK_DL", true, BUDGETS),
                        on("SIS_UTIL"),
                        fixed("WA_IDLE", true, WAKERS),
                        fixed("WA_WEIGHT", true, WAKERS),
                        fixed("WA_BIAS", true, WAKERS),
                        on("NI_RANDOM"),
                        on("NI_RATE"),
                    ],
                }),
                ..OF_KERNELS
            },
            muqss::make: SchedulerRow {
                word: "muqss",
                takes: &["fair", "batch", "idle", "iso"],
                brings: Some(PolicyRow { word: "iso", takes: &["nice"] }),
                ..SIMULATED
            },
        }
    };
}

macro_rules! rows {
    ($($make:path: $row:expr,)*) => {
        /// Every scheduler.
        pub const SCHEDULERS: &[SchedulerRow] = &[$($row),*];
    };
}
schedulers!(rows);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::policies;

    /// A scheduler takes policies that there are, and the one that it brings; only one brings it.
    #[test]
    fn every_policy_that_is_taken_is_there() {
        for row in SCHEDULERS {
            let is_there = |word: &&str| policies().any(|policy| policy.word == *word);
            assert!(!row.takes.is_empty() && row.takes.iter().all(is_there), "{}", row.word);
            assert!(row.brings.is_none_or(|policy| row.takes.contains(&policy.word)), "{}", row.word);
            assert!(row.is_of_kernels || row.fair.is_none(), "{}", row.word);
            assert_eq!(SCHEDULERS.iter().filter(|other| other.word == row.word).count(), 1, "{}", row.word);
        }
    }
}
