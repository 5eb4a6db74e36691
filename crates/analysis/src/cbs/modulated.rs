//! Work with a memory: the backlog of a constant-bandwidth server whose jobs come in modes.
//!
//! A hidden chain with transition matrix M is in mode g when a job is released, and the job's work is drawn from the mode's
//! own distribution; then the chain moves, once for each job. Backlog and mode together are a Markov chain (Villalba Frías,
//! Palopoli, Abeni and Fontanelli, "Probabilistic real-time guarantees: there is life beyond the i.i.d. assumption", RTAS 2017):
//!
//! ```text
//! w' = max(0, w + c_g - z Q),  g' ~ M(g, .)          P{done within k budgets} >= sum_g P{w + c_g <= k Q, mode g}
//! ```
//!
//! Its tail `V_g(x) = P{w > x, mode g}` is the fixed point of a monotone step T on functions of cell and mode,
//!
//! ```text
//! (T V)_g'(x) = sum_g M(g, g') sum_k P{X_g = k} V_g(x - k),     V_g(y) = P{mode g} for y < 0
//! ```
//!
//! [`queue`] checks what is to be solved and finds its decay; [`by_modes`](solution::by_modes) solves it by factorising each mode's walk,
//! [`reduction`](solution::reduction) as a quasi-birth-death process of cells and modes; [`certificate`] proves how far an answer can be off,
//! and [`solution`] never gives out more than is proven. [`backlog`] does it for distributions of times; [`limits`](crate::sampled::modes) makes
//! modes that were measured worse than they can be with a confidence.

pub mod backlog;
pub mod certificate;
pub mod queue;
pub mod solution;

#[cfg(test)]
mod tests;

pub use backlog::{ModulatedBacklog, ModulatedWork};
pub use queue::ModulatedQueue;
pub use solution::{ModulatedSolution, solve};
