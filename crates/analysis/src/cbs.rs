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
//! [`grid`] puts work on a grid, rounded up; [`exponential`] bounds the backlog in closed form; [`queue`]
//! sharpens that bound step by step, every step a bound itself; [`skip`] is for tasks that give up releases
//! that pass.

pub mod exponential;
pub mod grid;
pub mod queue;
pub mod skip;

use thiserror::Error;

pub use grid::WorkGrid;
pub use queue::Backlog;

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
    /// The work spans too many budgets for the grid.
    #[error("work of up to {times:.0} budgets is too far spread for the grid: give a larger runtime")]
    TooWide {
        /// Largest work over Q.
        times: f64,
    },
}
