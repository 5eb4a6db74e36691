//! The simulator: a deterministic discrete-event model of Linux scheduling, and the world [`SimWorld`].
//!
//! [`engine`] keeps simulated time and the events to come, of whatever components a simulation has. [`cpu`] is one of them: a
//! machine of alike CPUs whose schedulers stand behind one trait. [`link`] is another: packets of flows on links. [`world`] builds threads from a workload, runs them on such a machine
//! and returns a record. Nothing here does I/O, reads a clock, starts a thread or depends on the machine it runs
//! on: the same workload, options and platform give the same record and the same hash everywhere.

#![forbid(unsafe_code)]

pub mod cpu;
pub mod disk;
pub mod engine;
pub mod link;
pub mod world;

pub use world::SimWorld;
