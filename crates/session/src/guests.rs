//! Guests of the lab: the world of a stored kernel, and single jobs in it.

use std::path::PathBuf;

use surety_kernel::Kernel;
use surety_lab::devices::{Device, Model};
use surety_lab::job::{Job, Product};
use surety_lab::lab::Lab;
use surety_lab::store::{Store, StoredKernel};
use surety_lab::vm::LabOptions;
use surety_lab::world::record_of;
use surety_lab::{LabError, LabWorld};
use surety_model::record::Record;
use surety_model::world::{Observer, RunOptions, Unobserved, WorldError};
use surety_units::Nanos;

use crate::context::Context;

/// Where kernels are kept on this machine.
///
/// # Errors
/// There is no directory for them.
pub fn store(context: &dyn Context) -> Result<Store, LabError> {
    Store::find(context.kernel().effective_user() == 0)
}

/// A lab for one kernel, whose guests run the calling program.
///
/// # Errors
/// The program's own file is not known, or [`Lab::new`] refuses.
pub fn lab_of<'c>(
    stored: StoredKernel,
    options: LabOptions,
    tools: &[PathBuf],
    context: &'c dyn Context,
) -> Result<Lab<'c>, LabError> {
    let program = std::env::current_exe().map_err(|e| LabError::File {
        what: "looking for the program itself".to_owned(),
        why: e.to_string(),
    })?;
    Lab::new(context.kernel(), context.journal(), stored, options, &program, tools)
}

/// The world of one kernel; its emulator draws from the seed.
///
/// # Errors
/// As [`lab_of`].
pub fn world_of<'c>(
    stored: &StoredKernel,
    guest: &LabOptions,
    seed: u64,
    context: &'c dyn Context,
) -> Result<LabWorld<'c>, LabError> {
    Ok(LabWorld::new(lab_of(stored.clone(), LabOptions { seed, ..guest.clone() }, &[], context)?))
}

/// One boot for a job.
///
/// # Errors
/// As [`Lab::run`].
pub fn product_of(lab: &Lab<'_>, job: &Job, context: &dyn Context) -> Result<Product, WorldError> {
    let mut watch = context.watch(lab.stored().name(), None);
    let mut unobserved = Unobserved;
    let observer: &mut dyn Observer =
        if matches!(job, Job::Workload { .. }) { &mut *watch } else { &mut unobserved };
    lab.run(job, context.cancel(), observer)
}

/// Sends a packet each `interval` from one card of a guest to the other. A thread of the guest sends: its stamps are looked at, too.
///
/// # Errors
/// As [`product_of`]; what came back is no record.
pub fn packets(
    interval: Nanos,
    options: &RunOptions,
    guest: &LabOptions,
    stored: StoredKernel,
    context: &dyn Context,
) -> Result<Record, WorldError> {
    let mut guest = LabOptions { seed: options.seed, ..guest.clone() };
    let cards = guest.devices.drain(..).find(|device| !device.model.is_disk());
    let cards = Device { sent: true, ..cards.unwrap_or_else(|| Device::new("packets", Model::Pcnet)) };
    let job = Job::Packets {
        interval,
        duration: options.duration,
        warm_up: options.warm_up,
        seed: options.seed,
        devices: vec![cards],
    };
    let lab = lab_of(stored, guest, &[], context)?;
    record_of(&product_of(&lab, &job, context)?, &lab)
}

/// Measures the CPU time of requests under I/O schedulers in a guest.
///
/// # Errors
/// As [`product_of`]; what came back is no record.
pub fn requests(
    schedulers: &[String],
    options: &RunOptions,
    guest: &LabOptions,
    stored: StoredKernel,
    context: &dyn Context,
) -> Result<Record, WorldError> {
    let guest = LabOptions { seed: options.seed, devices: Vec::new(), ..guest.clone() };
    let job = Job::Requests { schedulers: schedulers.to_vec(), seed: options.seed };
    let lab = lab_of(stored, guest, &[], context)?;
    record_of(&product_of(&lab, &job, context)?, &lab)
}
