//! A modelled disk under the real kernel: a block device whose requests a device model times.
//!
//! ```text
//! page cache, I/O scheduler -> /dev/loopN (direct) -> FUSE READ or WRITE -> reader thread ---- moves the data
//!          ^                                                                     |  accept
//!          |                                                                     v
//!          '------------------- answer at that instant <- reply thread <- Core: queue, device::Model
//! ```
//!
//! One request walked through it: the block layer gives it to the loop device, which gives it to the one file of a FUSE file system that this
//! process serves. A reader thread stamps it, with the instant at which it would have come without that way (`way`), and hands it to the [`core::Core`], which passes it to the [`surety_device::Model`] as soon as that has room,
//! as a simulator does; then it moves the data from or to the [`store::Store`]. The reply thread sleeps until 100 us before the instant at which the
//! model completes the next request, spins for the rest ([`disk::Plan::spin`]), and answers, in the order of those instants and not of arrival. How much later than that each
//! answer came is counted ([`account::Account`]); beyond 4 % of what requests take the disk is *disturbed*, and what was measured on it decides nothing.
//!
//! Nothing is left of it, however the process ends. The mount has no place in the file system, the loop device detaches itself with its last
//! descriptor, the data are in memory or in a file without a name; settings of the queue, which would stay, are in the journal. A process of its own
//! ([`watchdog`]) ends the connection of a server that stands still, so that nobody waits for it.
//!
//! [`disk::EmulatedDisk`] is all of that together.

#![forbid(unsafe_code)]

pub mod account;
pub mod core;
pub mod disk;
pub mod error;
mod fault;
mod inside;
mod leads;
mod server;
pub mod store;
mod tree;
pub mod watchdog;
mod way;

pub use account::{Account, Summary};
pub use disk::{EmulatedDisk, Plan};
pub use error::EmulationError;
pub use fault::Fault;
pub use server::SPIN;
pub use watchdog::watchdog_main;
