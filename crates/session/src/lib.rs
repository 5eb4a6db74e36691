//! The loop as a library: measure, fit, plan, prove, predict, enforce, judge; and the one table of worlds.
//!
//! Nothing here prints or ends the process. Whoever calls brings a [`Context`]: the kernel, the journal, a cancellation, and
//! who is told what happens meanwhile. Every step returns a value: [`guarantee::Guarantee`] walks the whole loop on this machine,
//! [`runs`] makes runs of a workload in any of the [`worlds`], [`pairs`] those of two sides that are compared.

#![forbid(unsafe_code)]

pub mod context;
pub mod division;
pub mod failure;
pub mod gather;
pub mod guarantee;
pub mod guests;
pub mod histories;
pub mod longest;
pub mod machine;
pub mod modelled;
pub mod pairs;
pub mod permission;
pub mod probe;
pub mod runs;
pub mod search;
pub mod wakers;
pub mod workers;
pub mod worlds;

pub use context::{Context, Stage, Watch};
pub use failure::Failure;
pub use worlds::{Means, Worlds};
