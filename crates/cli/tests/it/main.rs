//! The program as its users run it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

mod attribution;
mod bad_disks;
mod bad_input;
mod characterising;
mod choosing;
mod common;
mod comparing;
mod disk_waits;
mod disks;
mod emulated_disk;
mod failing_disks;
mod first_minute;
mod fitting;
mod guarantee;
mod guaranteed_streams;
mod in_force;
mod in_modes;
mod installing;
mod interrupts;
mod job_by_job;
mod lab;
mod lab_disks;
mod lab_interrupts;
mod latency;
mod leaves_nothing;
mod loads;
mod objections;
mod pages;
mod planning;
mod playing_out;
mod prepared_disks;
mod programs;
mod recording;
mod reports;
mod reproducing;
mod rights;
mod robust;
mod schemas;
mod simulated;
mod startups;
mod streams;
mod top;
mod truth;
mod validation;
