//! The only crate of Surety that touches Linux: safe, typed access behind one trait, with a scripted double.
//!
//! - [`Kernel`] is everything that changes or asks the machine and that enforcement, the guard and `doctor`
//!   decide by; [`RealKernel`] is this machine, [`ScriptedKernel`] one in memory with faults at every call.
//! - [`clock`], [`thread`], [`futex`], [`idle`], [`command`], [`perf`], [`tracefs`] and [`signals`] are what a measured
//!   run uses directly, because a trait object between two clock readings would be measured too.
//! - [`direct`] carries requests to a disk past the page cache, [`ring`] transfers of files together with their memory.
//! - [`beneath`] looks at a directory and what is in it, and at nothing else.
//! - [`net`], [`block`], [`mount`], [`process`], [`timers`] make what loads and disks of a run need, so that it goes with
//!   the process; [`boot`] is what the first process of a virtual machine's guest does.
//! - [`facts`] says what this machine is; [`deadline`] takes stock of its SCHED_DEADLINE bandwidth and mends leaks.
//! - [`journal`] makes every change survive a `kill -9`: the old value is on disk before the new one is set.
//!
//! **Invariant:** unsafe code is allowed here, and where C calls in (`capi`), and each block says why it is sound. Nothing here decides
//! what is promised, planned or measured.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod beneath;
pub mod block;
pub mod boot;
pub mod clock;
pub mod command;
pub mod cpu_group;
pub mod cpu_times;
pub mod deadline;
pub mod direct;
pub mod error;
pub mod extents;
pub mod facts;
pub mod files;
pub mod fuse;
pub mod futex;
pub mod idle;
pub mod io_priority;
pub mod journal;
pub mod kernel;
pub mod mount;
pub mod net;
pub mod pages;
pub mod partition;
pub mod perf;
mod pidfd;
pub mod process;
pub mod real;
pub mod ring;
pub mod root_domains;
pub mod sched;
pub mod schedstat;
pub mod scripted;
pub mod servers;
pub mod signals;
#[cfg(test)]
mod testing;
pub mod thread;
pub mod timers;
pub mod tracefs;
pub mod transition;

pub use error::{KernelError, Operation};
pub use kernel::{Kernel, ProcessIdentity, SleepingThread, ThreadOwner};
pub use real::RealKernel;
pub use sched::{SchedAttr, SchedPolicy};
pub use scripted::ScriptedKernel;
