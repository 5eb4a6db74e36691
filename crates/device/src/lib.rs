//! Models of disks, without a clock of their own: what a request costs on a fixed device, a hard disk, flash, a card and a
//! virtual disk.
//!
//! [`Model`] is what each does, [`profile::MODELS`] lists them, [`profile::PROFILES`] the devices that come with the program; one's
//! own are TOML files of the same form, or DiskSim's descriptions of drives ([`disksim`]). A simulator and a server that emulates a
//! disk drive them the same way. They are bit-exact: the same seed, requests and instants give the same on every machine.
//!
//! ```
//! use surety_device::profile::Profile;
//! use surety_device::{Op, Request};
//! use surety_units::Nanos;
//!
//! let mut disk = Profile::named("hdd-7200").expect("it comes with the program").build(1);
//! disk.accept(Nanos::ZERO, 7, &Request::new(Op::Read, 1_000_000, 8));
//! let done = loop {
//!     let at = disk.next().expect("a request is inside");
//!     if let Some(done) = disk.advance(at) {
//!         break done;
//!     }
//! };
//! assert_eq!((done.tag, done.service.total()), (7, done.completed - done.accepted));
//! ```
//!
//! What each model has and has not, and how near it is to real drives: `docs/disk-models.md`.

#![forbid(unsafe_code)]

pub mod characterise;
pub mod demerit;
pub mod disksim;
pub mod fixed;
pub mod flash;
pub mod hdd;
pub mod model;
pub mod power;
pub mod profile;
pub mod virtio;
pub mod worst;

pub use model::{Completion, Hit, Model, Op, Request, SECTOR, Service};
