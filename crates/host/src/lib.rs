//! The host world: a workload on the kernel that is running, with real threads, real programs and real loads.
//!
//! One value walked through: a [`world::HostWorld`] makes the [`participants`](world) of a workload, opens the
//! [`window::Gate`], lets [`tasks`] stamp their jobs while a [`recorder::Recording`] takes down what the scheduler
//! does, and turns stamps, counts and trace into a `Record`.
//!
//! **Invariant:** nothing here knows another world, prints, or touches Linux but through `surety-kernel`.

#![forbid(unsafe_code)]

mod chains;
pub mod characterise;
mod children;
mod command_line;
mod decode;
pub mod disks;
pub mod environment;
pub mod fills;
mod groups;
pub mod interpacket;
mod interrupts;
pub mod latency;
mod loads;
mod locked_memory;
mod measurer;
mod meter;
mod noise;
pub mod noise_probe;
mod outcome;
pub mod overheads;
mod participants;
pub mod platform;
mod prepared;
pub mod probe_setup;
mod program_threads;
mod programs;
pub mod recorder;
mod records;
pub mod request_cost;
mod returned;
mod rights;
mod said;
pub mod scratch;
mod shared;
mod spans;
mod startups;
mod streams;
mod switches;
pub mod tasks;
mod threads;
pub mod top;
pub mod watching;
pub mod window;
pub mod world;

pub use children::ChildrenEntry;
pub use command_line::split_command;
pub use disks::Bindings;
pub use environment::checks_of;
pub use interrupts::{Equipment, Hardware, at_place};
pub use loads::{HELPER_WORD, helper_main};
pub use meter::Metered;
pub use platform::{environment_of, platform_of};
pub use rights::{lacked, rights_of};
pub use scratch::Scratch;
pub use world::HostWorld;
