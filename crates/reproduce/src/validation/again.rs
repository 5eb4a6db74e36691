//! [`Condition`]: what is otherwise when a kernel runs a scenario once more.
//!
//! A trace gives what is not in a record ([`super::Placement`]) and delays all that the kernel does; so what is taken from it is taken from a run
//! of its own. Where a cause is a race between the kernel's work and a timer, a run under another condition in which the race ends otherwise shows
//! it: then the figure of that run is the simulator's.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use surety_model::platform::Platform;

use super::{Figures, HOST, Kept, Scenario, causes};

/// What is otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// The run is traced.
    Traced,
    /// It is drawn from another seed: it begins elsewhere between two ticks.
    Seed(u64),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Traced => f.write_str("traced"),
            Condition::Seed(seed) => write!(f, "seed {seed}"),
        }
    }
}

impl Condition {
    /// The seed of such a run.
    pub fn seed(self, seed: u64) -> u64 {
        match self {
            Condition::Traced => seed,
            Condition::Seed(other) => other,
        }
    }
}

/// What is kept of the runs of a scenario under a condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Again {
    /// The kernel, and what else its figures depend on, by name.
    pub environment: BTreeMap<String, String>,
    /// The machine that is simulated; none where it could not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Platform>,
    /// Why it could not be run, or decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// One run, or several of a kernel whose runs differ.
    pub runs: Vec<Vec<Figures>>,
}

impl Kept {
    /// What is kept of its runs under a condition, where they decide anything, with the machine that is simulated.
    pub fn under(&self, condition: Condition) -> Option<(&Again, &Platform)> {
        let again = self.again.get(&condition.to_string()).filter(|again| again.unfit.is_none())?;
        Some((again, again.machine.as_ref()?))
    }
}

/// Under which conditions a kernel is to run a scenario once more: traced where there is something to choose from, and as its causes want it.
pub fn conditions(scenario: &Scenario, kernel: &str) -> Vec<Condition> {
    let mut wanted = Vec::new();
    if scenario.cpus > 1 {
        wanted.push(Condition::Traced);
    }
    if scenario.is_listed && kernel != HOST {
        wanted.extend(causes::conditions(&scenario.title, kernel));
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}
