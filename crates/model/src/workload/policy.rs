//! [`PolicySpec`]: the policy a thread asks for, and [`policies`], a row for each word that names one.

use surety_units::Nanos;

use crate::reservation::{Reservation, ReservationError};
pub use crate::schedulers::PolicyRow;
use crate::schedulers::SCHEDULERS;

/// The policy a thread asks for without a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySpec {
    /// `SCHED_OTHER`.
    Fair {
        /// -20..=19.
        nice: i32,
        /// Slice of its own, 0.1 to 100 ms.
        slice: Option<Nanos>,
    },
    /// `SCHED_OTHER` with a latency nice, which two series of patches proposed and no mainline kernel has.
    LatencyNice {
        /// -20..=19.
        nice: i32,
        /// -20..=19.
        latency_nice: i32,
    },
    /// `SCHED_BATCH`.
    Batch {
        /// -20..=19.
        nice: i32,
    },
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`.
    Fifo {
        /// 1..=99.
        priority: u32,
    },
    /// `SCHED_RR`.
    RoundRobin {
        /// 1..=99.
        priority: u32,
    },
    /// `SCHED_DEADLINE`, with the task's reservation.
    Deadline,
    /// One that no kernel has, but a scheduler of the simulator.
    Simulated {
        /// Its word in [`policies`].
        word: &'static str,
        /// 1..=99; 0 where its row has no priority.
        priority: u32,
        /// -20..=19.
        nice: i32,
    },
}

/// What a workload may say beside a policy's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyParameters {
    /// After the word and a colon, 1..=99.
    pub priority: u32,
    /// The key `nice`, -20..=19.
    pub nice: i32,
    /// The key `slice`.
    pub slice: Option<Nanos>,
    /// The key `latency_nice`, -20..=19.
    pub latency_nice: Option<i32>,
}

/// Those of kernels.
const OF_KERNELS: &[PolicyRow] = &[
    PolicyRow { word: "fair", takes: &["nice", "slice", "latency_nice"] },
    PolicyRow { word: "batch", takes: &["nice"] },
    PolicyRow { word: "idle", takes: &[] },
    PolicyRow { word: "deadline", takes: &["reservation"] },
    PolicyRow { word: "fifo", takes: &["priority"] },
    PolicyRow { word: "rr", takes: &["priority"] },
];

/// Every policy a workload can name: those of kernels, then those that schedulers of [`SCHEDULERS`] bring, each
/// [`PolicySpec::Simulated`].
pub fn policies() -> impl Iterator<Item = &'static PolicyRow> {
    OF_KERNELS.iter().chain(SCHEDULERS.iter().filter_map(|row| row.brings.as_ref()))
}

impl PolicyRow {
    /// Whether no kernel has it, but a scheduler of the simulator.
    pub fn is_simulated(&self) -> bool {
        matches!(self.with(PolicyParameters::default()), PolicySpec::Simulated { .. })
    }

    /// The policy with those of these parameters that it takes.
    pub fn with(&self, parameters: PolicyParameters) -> PolicySpec {
        let PolicyParameters { priority, nice, .. } = parameters;
        match self.word {
            "fair" => PolicySpec::fair(parameters),
            "batch" => PolicySpec::Batch { nice },
            "idle" => PolicySpec::Idle,
            "deadline" => PolicySpec::Deadline,
            "fifo" => PolicySpec::Fifo { priority },
            "rr" => PolicySpec::RoundRobin { priority },
            word => PolicySpec::Simulated {
                word,
                priority: if self.takes("priority") { priority } else { 0 },
                nice: if self.takes("nice") { nice } else { 0 },
            },
        }
    }
}

impl PolicySpec {
    /// That of a thread that names none, with these parameters.
    pub(crate) fn fair(parameters: PolicyParameters) -> PolicySpec {
        let PolicyParameters { nice, slice, latency_nice, .. } = parameters;
        match latency_nice {
            Some(latency_nice) => PolicySpec::LatencyNice { nice, latency_nice },
            None => PolicySpec::Fair { nice, slice },
        }
    }

    /// Earliest deadline first as no kernel has it: a thread may have CPUs of its own under a reservation.
    pub const fn edf() -> PolicySpec {
        PolicySpec::Simulated { word: "edf", priority: 0, nice: 0 }
    }

    /// Whether it is SCHED_FIFO or SCHED_RR.
    pub const fn is_realtime(self) -> bool {
        matches!(self, PolicySpec::Fifo { .. } | PolicySpec::RoundRobin { .. })
    }

    /// The word of its row.
    pub fn word(self) -> &'static str {
        match self {
            PolicySpec::Fair { .. } | PolicySpec::LatencyNice { .. } => "fair",
            PolicySpec::Batch { .. } => "batch",
            PolicySpec::Idle => "idle",
            PolicySpec::Fifo { .. } => "fifo",
            PolicySpec::RoundRobin { .. } => "rr",
            PolicySpec::Deadline => "deadline",
            PolicySpec::Simulated { word, .. } => word,
        }
    }

    fn takes(self, parameter: &str) -> bool {
        let word = self.word();
        policies().any(|row| row.word == word && row.takes(parameter))
    }

    /// Whether a thread has it only with a reservation.
    pub fn needs_reservation(self) -> bool {
        self.takes("reservation")
    }

    /// Whether its threads have deadlines: those of their reservations, else of their jobs. Only tasks have jobs.
    pub fn has_deadlines(self) -> bool {
        self.takes("deadline")
    }

    /// Whether a reservation of its threads is one of this policy, not of `SCHED_DEADLINE`.
    pub fn takes_reservation(self) -> bool {
        self.needs_reservation() || self.has_deadlines()
    }

    /// Whether a thread of this policy may have a reservation: what no kernel has knows no limits of a kernel's.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_reservation(self, reservation: &Reservation) -> Result<(), ReservationError> {
        if self.has_deadlines() { reservation.check_order() } else { reservation.check() }
    }

    /// Its parameters; 0 and none for those it does not take.
    pub fn parameters(self) -> PolicyParameters {
        let none = PolicyParameters::default();
        match self {
            PolicySpec::Fair { nice, slice } => PolicyParameters { nice, slice, ..none },
            PolicySpec::LatencyNice { nice, latency_nice } => {
                PolicyParameters { nice, latency_nice: Some(latency_nice), ..none }
            }
            PolicySpec::Batch { nice } => PolicyParameters { nice, ..none },
            PolicySpec::Fifo { priority } | PolicySpec::RoundRobin { priority } => {
                PolicyParameters { priority, ..none }
            }
            PolicySpec::Simulated { priority, nice, .. } => PolicyParameters { priority, nice, ..none },
            PolicySpec::Idle | PolicySpec::Deadline => none,
        }
    }

    /// The priority of a realtime policy of the kernel, 1..=99.
    pub fn realtime_priority(self) -> Option<u32> {
        match self {
            PolicySpec::Fifo { priority } | PolicySpec::RoundRobin { priority } => Some(priority),
            _ => None,
        }
    }
}

impl Default for PolicySpec {
    fn default() -> PolicySpec {
        PolicySpec::Fair { nice: 0, slice: None }
    }
}

impl std::fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PolicyParameters { priority, nice, latency_nice, .. } = self.parameters();
        f.write_str(self.word())?;
        if priority != 0 {
            write!(f, ":{priority}")?;
        }
        if nice != 0 {
            write!(f, " nice {nice}")?;
        }
        if let Some(latency_nice) = latency_nice {
            write!(f, " latency nice {latency_nice}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row makes the policy of its own word, with the parameters it says it takes and no others.
    #[test]
    fn rows_and_policies_say_the_same() {
        let slice = Some(Nanos::from_millis(2));
        let all = PolicyParameters { priority: 7, nice: -3, slice, latency_nice: None };
        assert!(policies().any(|row| row.with(all) == PolicySpec::edf()));
        for row in policies() {
            let policy = row.with(all);
            let taken = policy.parameters();
            assert_eq!(policy.word(), row.word);
            let takes = (taken.priority == 7, taken.nice == -3, taken.slice.is_some());
            assert_eq!(takes, (row.takes("priority"), row.takes("nice"), row.takes("slice")), "{}", row.word);
            let latency = row.with(PolicyParameters { latency_nice: Some(-5), slice: None, ..all });
            assert_eq!(
                latency.parameters().latency_nice.is_some(),
                row.takes("latency_nice"),
                "{}",
                row.word
            );
            assert_eq!(latency.word(), row.word);
            assert_eq!(policies().filter(|other| other.word == row.word).count(), 1, "{}", row.word);
        }
    }

    #[test]
    fn a_policy_no_kernel_has_is_its_row_with_its_parameters() {
        let row = PolicyRow { word: "iso", takes: &["nice"] };
        let policy = row.with(PolicyParameters { nice: 5, priority: 9, ..PolicyParameters::default() });
        assert_eq!(policy, PolicySpec::Simulated { word: "iso", priority: 0, nice: 5 });
        assert_eq!((policy.to_string().as_str(), policy.realtime_priority()), ("iso nice 5", None));
    }
}
