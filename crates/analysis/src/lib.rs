//! Theory: what can be said about a workload without running it.
//!
//! [`admission`] predicts the kernel's answer to a reservation; [`supply`] says how little CPU time a
//! reservation may give in a window, [`inside_reservation`] which tasks fit into that, and [`interrupts`] what it means
//! for a device; [`edf`] decides whether a set of reservations keeps its scheduling deadlines and
//! [`fair_server`] why the kernel's own reservation does not get in the way; [`schedulability`] holds the
//! tests of sporadic task sets; [`cbs`] bounds the probability that a job is done within a number of budgets, and [`sampled`] carries the error of samples into it;
//! [`response`] puts these together for one task, and [`world`] for a whole workload; [`chains`] bounds events that pass through tasks; [`streams`] admits streams to a disk. Every number given out
//! is a proven bound under the assumptions stated beside it.

#![forbid(unsafe_code)]

pub mod admission;
pub mod beside;
pub mod cbs;
pub mod chains;
mod dense;
pub mod edf;
pub mod fair_server;
pub mod foundation;
mod guaranteed;
pub mod inside_reservation;
pub mod interrupts;
pub mod overheads;
pub mod response;
pub mod sampled;
pub mod schedulability;
pub mod serving;
pub mod streams;
pub mod supply;
pub mod work;
pub mod world;

pub use admission::{AdmissionError, RootDomain};
pub use supply::Supply;
pub use world::AnalysisWorld;
