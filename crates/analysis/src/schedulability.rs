//! Schedulability: do the jobs of a set of sporadic tasks keep their deadlines? One file for each family of tests.
//!
//! | family | file | tests |
//! |---|---|---|
//! | fixed priorities, one CPU | [`fixed`] | response times; hyperbolic bound |
//! | EDF, one CPU | [`uniprocessor`] | utilisation, density, processor demand (QPA) |
//! | global EDF | [`global_edf`], [`forced_forward`](global_edf::forced_forward), [`tardiness`] | GFB, BAK, BCL, iterated BCL, response times, FF-DBF; how late jobs are |
//! | global fixed priorities | [`global_fixed`] | response times with limited carry-in |
//! | partitioned | [`partition`] | first, best and worst fit decreasing with an exact test for each CPU |
//! | reservations that reclaim | [`grub`] | bandwidths within the cap on one CPU; the most each can take on several |
//! | work that is not independent | [`suspension`], [`resources`] | self-suspension; blocking under inheritance |
//!
//! The rules of all of them: time is integer nanoseconds ([`surety_units::Nanos`]); a verdict is reached in integers or in
//! exact fractions, never in floats; a test that does not cover what a set holds (jitter, blocking, suspension, long
//! deadlines, another number of CPUs) answers [`Outcome::NotApplicable`] and says why. Every verdict carries its
//! [`Theorem`].
//!
//! [`catalogue`] puts a set to all tests at once and says which is the least pessimistic.

pub mod catalogue;
pub mod exact;
pub mod fixed;
pub mod global_edf;
pub mod global_fixed;
pub mod grub;
mod interference;
pub mod partition;
mod recheck;
pub mod resources;
pub mod suspension;
pub mod tardiness;
pub mod task;
pub mod uniprocessor;

use surety_units::Nanos;

pub use task::{Server, SporadicTask, TaskError};

/// What a theorem says where it does not say yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Necessary and sufficient: a set that does not pass can miss a deadline.
    Exact,
    /// Sufficient only: a set that does not pass may yet keep its deadlines.
    Sufficient,
}

/// A schedulability test as a proof names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theorem {
    /// Its name in the literature.
    pub name: &'static str,
    /// Where it is stated and proven.
    pub source: &'static str,
    /// For the sets it is made for.
    pub strength: Strength,
}

/// The answer of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Proven: no deadline is missed.
    Holds,
    /// Proven: some legal sequence of releases misses a deadline.
    Fails,
    /// The test does not show it; another may.
    NotShown,
    /// The test is not made for this set.
    NotApplicable,
}

/// The answer of a test with the numbers that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The test.
    pub theorem: Theorem,
    /// Its answer.
    pub outcome: Outcome,
    /// The numbers, line by line; the last one is the result.
    pub steps: Vec<String>,
    /// Bounds of the response times from the planned release, in the order of the tasks, as far as the test gives them.
    pub responses: Vec<Nanos>,
}

impl Verdict {
    /// Whether deadlines are proven to be kept.
    pub fn holds(&self) -> bool {
        self.outcome == Outcome::Holds
    }

    /// An answer with one step.
    pub(crate) fn of(theorem: Theorem, outcome: Outcome, step: impl Into<String>) -> Verdict {
        Verdict { theorem, outcome, steps: vec![step.into()], responses: Vec::new() }
    }

    /// A no: a proof of it where the theorem is exact for the set.
    pub(crate) fn no(theorem: Theorem, exact: bool, step: impl Into<String>) -> Verdict {
        let proven = exact && theorem.strength == Strength::Exact;
        Verdict::of(theorem, if proven { Outcome::Fails } else { Outcome::NotShown }, step)
    }

    /// An answer to a set that the test is not made for.
    pub(crate) fn not_applicable(theorem: Theorem, why: impl Into<String>) -> Verdict {
        Verdict::of(theorem, Outcome::NotApplicable, why)
    }
}

#[cfg(test)]
mod tests;
