//! Constant-bandwidth servers with chance in the work: lower bounds of the fraction of jobs done within k
//! budgets.
//!
//! A thread with reservation (Q, T) whose releases are at least `z T` apart (`z` whole) leaves behind, in
//! budgets not yet given, the backlog of Lindley's recursion ("The theory of queues with a single server",
//! 1952):
//!
//! ```text
//! w' = max(0, w + c - z Q)           v = w + c           P{done within k budgets} >= P{v <= k Q}
//! ```
//!
//! (Abeni and Buttazzo, "Resource reservation in dynamic real-time systems", 2004; Palopoli et al., IEEE TPDS
//! 27(3), 2016.) The n-th budget after a release is given by `(n-1) T + D`. Work is independent from job to
//! job. Overruns on the tick do not matter here: what was taken early is missing later, by those instants the
//! sum is the same.
//!
//! [`grid`] puts work on a grid, rounded up; [`queue`] checks what is to be solved; [`solver`] lists who solves it:
//! exactly by [`wiener_hopf`](solver::wiener_hopf) or [`reduction`](solver::reduction), with a proven error ([`certificate`]), or as a bound
//! ([`exponential`](solver::exponential), [`analytic`](solver::analytic), [`iteration`](solver::iteration)). [`backlog`] does all of it for a distribution of times;
//! [`skip`] is for tasks that give up releases that pass. [`modulated`] is for work that is not independent from job to job,
//! [`in_order`] for work of which every job is known.

pub mod backlog;
pub mod certificate;
pub mod grid;
pub mod in_order;
pub mod modulated;
pub mod queue;
pub mod skip;
pub mod solver;
pub mod walk;

#[cfg(test)]
mod tests;

use surety_units::Nanos;
use thiserror::Error;

pub use backlog::Backlog;
pub use grid::{Fineness, WorkGrid};
pub use queue::Queue;
pub use solver::{Fraction, Solution, Solver, Worth, solve, solvers};

/// Why nothing can be bounded.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CbsError {
    /// Budgets are below the demand in the long run.
    #[error(
        "the mean work of {mean_ms:.3} ms is not below the {budget_ms:.3} ms of budget between releases: the backlog \
         grows without limit; give a larger runtime"
    )]
    Unstable {
        /// Mean work, rounded up to the grid.
        mean_ms: f64,
        /// Budget between releases.
        budget_ms: f64,
    },
    /// The reservation gives less than one budget between releases.
    #[error(
        "releases may be closer together than one server period: take a shorter period for the reservation"
    )]
    NoBudget,
    /// Budgets that no time holds.
    #[error("{count} budgets of {runtime} are longer than what is computed with: a job would need years")]
    TooLong {
        /// Runtime of one budget.
        runtime: Nanos,
        /// Number of budgets.
        count: u32,
    },
    /// A search was given up.
    #[error("the search for a budget was ended by its time limit: give it more time")]
    Ended,
    /// The budget is nothing.
    #[error("the budget is 0: a server without a budget serves no job; give a runtime of at least one cell")]
    ZeroBudget,
    /// A list without a single positive mass.
    #[error("the distribution of {what} has no mass: give at least one value with a positive probability")]
    Empty { what: &'static str },
    /// A mass is negative, infinite or not a number.
    #[error("mass {index} of {what} is {mass}: a probability is finite and not negative")]
    Mass {
        what: &'static str,
        /// Its place, from 0.
        index: usize,
        mass: f64,
    },
    /// The masses are not a whole distribution.
    #[error(
        "the masses of {what} sum to {total}, not to 1: divide them by their sum, or find what is missing"
    )]
    Total {
        what: &'static str,
        /// Their sum.
        total: f64,
    },
    /// As [`CbsError::Unstable`], in cells of a grid.
    #[error(
        "the mean work of {work:.6} cells is not below the {budget:.6} cells of budget between releases: the backlog \
         grows without limit; give a larger runtime"
    )]
    Overload {
        /// Mean work.
        work: f64,
        /// Mean budget between releases.
        budget: f64,
    },
    /// More cells than a solver takes.
    #[error("it spans {points} cells or points, limit {limit}: take a coarser grid")]
    TooManyCells {
        /// How many it would be.
        points: usize,
        /// How many are taken.
        limit: usize,
    },
    /// A solver's answer is not good enough to be given out.
    #[error("the answer is only known to be within {error:.1e}, and {limit:.1e} is wanted")]
    NoConvergence {
        /// Proven error.
        error: f64,
        /// Largest error that is given out.
        limit: f64,
    },
    /// Modes do not follow each other as those of a chain.
    #[error("the transitions between {modes} modes are no chain: {why}")]
    Transitions {
        modes: usize,
        /// What they lack.
        why: &'static str,
    },
    /// Work of a mode has no largest value.
    #[error("the work of mode {mode} has no largest value, and modes are solved for bounded work only")]
    UnboundedMode {
        /// Its place, from 0.
        mode: usize,
    },
    /// The work spans too many budgets for the grid.
    #[error("work of up to {times:.0} budgets is too far spread for the grid: give a larger runtime")]
    TooWide {
        /// Largest work over Q.
        times: f64,
    },
}
