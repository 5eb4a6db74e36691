//! [`Finding`]: whether an assumption of an analysis holds for a run, said so that a reader can act on it.
//!
//! Confidence intervals, fits and extrapolations are true under assumptions. A tool that checks one returns a
//! [`Finding`]: it holds, it is rejected, or there are too few samples to tell and so many more are needed.
//! "Holds" means *not rejected at this confidence*: no test can prove an assumption, and the words say so.

use std::fmt;

/// What an analysis assumes of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// The distribution does not change during the run.
    Stationarity,
    /// One sample tells nothing about the next.
    Independence,
    /// The samples come from the fitted distribution.
    Fit,
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Assumption::Stationarity => "stationarity",
            Assumption::Independence => "independence",
            Assumption::Fit => "goodness of fit",
        })
    }
}

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not rejected.
    Holds,
    Rejected,
    /// The check cannot tell from so few samples.
    TooFew {
        /// How many samples more it needs.
        needs_more: u64,
    },
}

/// One assumption, what became of it, and the figures behind that, in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The assumption that was checked.
    pub assumption: Assumption,
    /// What the check came to.
    pub outcome: Outcome,
    /// The tests and their figures, as a clause without a full stop.
    pub reason: String,
}

impl Finding {
    /// Whether the assumption was checked and not rejected.
    pub fn holds(&self) -> bool {
        self.outcome == Outcome::Holds
    }

    /// The finding that `have` samples are fewer than the `need` of a check.
    pub fn too_few(assumption: Assumption, have: u64, need: u64) -> Finding {
        let needs_more = need.saturating_sub(have);
        let reason = format!("{have} usable samples, the check takes at least {need}");
        Finding { assumption, outcome: Outcome::TooFew { needs_more }, reason }
    }

    /// The finding of a check that could be made.
    pub fn checked(assumption: Assumption, holds: bool, reason: String) -> Finding {
        let outcome = if holds { Outcome::Holds } else { Outcome::Rejected };
        Finding { assumption, outcome, reason }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { assumption, outcome, reason } = self;
        match outcome {
            Outcome::Holds => write!(f, "{assumption} is not rejected: {reason}"),
            Outcome::Rejected => write!(f, "{assumption} is rejected: {reason}"),
            Outcome::TooFew { needs_more } => {
                write!(f, "{assumption} cannot be told, needs {needs_more} more samples: {reason}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_explains_itself() {
        for (finding, text) in [
            (
                Finding::checked(Assumption::Stationarity, true, "KPSS 0.1".into()),
                "stationarity is not rejected: KPSS 0.1",
            ),
            (
                Finding::checked(Assumption::Fit, false, "p = 0.001".into()),
                "goodness of fit is rejected: p = 0.001",
            ),
            (
                Finding::too_few(Assumption::Independence, 5, 20),
                "independence cannot be told, needs 15 more samples: 5 usable samples, the check takes at \
                 least 20",
            ),
        ] {
            assert_eq!(finding.to_string(), text);
        }
        assert!(!Finding::too_few(Assumption::Fit, 0, 1).holds());
    }
}
