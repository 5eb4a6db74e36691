//! The lab: stock kernels of a distribution, booted under an emulator whose clock counts instructions.
//!
//! One value walked through: a [`job::Job`] (runs of workloads, or a probe with its options) goes with our own program and the
//! libraries it needs into an [`initramfs`]; a kernel from the [`store`] boots it in a [`vm`]; there [`guest::main`] is the
//! first process, makes the runs of the job, and says in frames of the [`protocol`] what came of each; [`lab::Lab::run_each`] puts the frames
//! together again, and [`world::LabWorld`] makes a `Record` of each; which of its runs share a boot [`boots`] says.
//!
//! In the deterministic mode the same kernel, program, job, emulator and seed give the same samples, to the nanosecond:
//! every instruction takes `2^shift` ns of a virtual clock, and nothing from outside reaches the guest. Those nanoseconds
//! count instructions. They are no measurement of any hardware.
//!
//! **Invariant:** this world knows no other. What the guest does with a job is handed in by who composes the program.

#![forbid(unsafe_code)]

mod apt;
pub mod boots;
pub mod devices;
pub mod digest;
pub mod disks;
pub mod elf;
pub mod emulator_threads;
mod error;
pub mod fetch;
pub mod golden;
pub mod guest;
pub mod initramfs;
pub mod job;
pub mod kernels;
pub mod lab;
pub mod machine;
pub mod modules;
mod packages;
pub mod programs;
pub mod protocol;
pub mod samples;
pub mod shown;
pub mod store;
mod transcript;
mod turns;
pub mod vm;
pub mod world;

pub use error::LabError;
pub use world::LabWorld;
