//! Models of disks, without a clock of their own.

#![forbid(unsafe_code)]

pub mod demerit;
pub mod diagnose;
pub mod disksim;
pub mod fixed;
pub mod flash;
pub mod hdd;
pub mod model;
pub mod profile;
pub mod virtio;

pub use model::{Completion, Hit, Model, Op, Request, SECTOR, Service};
