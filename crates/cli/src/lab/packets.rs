//! The probe of inter-packet times in a guest, between two cards.

use surety_lab::devices::{Device, Model};
use surety_lab::job::Job;
use surety_lab::store::StoredKernel;
use surety_lab::world::record_of;
use surety_model::record::Record;
use surety_model::world::RunOptions;
use surety_units::Nanos;

use super::args::GuestArgs;
use super::lab_of;
use super::latency::product_of;
use crate::exit::Failure;
use crate::session::Session;

/// Sends a packet each `interval` from one card of a guest to the other. A thread of the guest sends: its stamps are looked at, too.
pub fn on_kernel(
    interval: Nanos,
    options: &RunOptions,
    guest: &GuestArgs,
    stored: StoredKernel,
    session: &Session,
) -> Result<Record, Failure> {
    let mut guest = guest.options(options.seed);
    let cards = guest.devices.drain(..).find(|device| !device.model.is_disk());
    let cards = Device { sent: true, ..cards.unwrap_or_else(|| Device::new("packets", Model::Pcnet)) };
    let job = Job::Packets {
        interval,
        duration: options.duration,
        warm_up: options.warm_up,
        seed: options.seed,
        devices: vec![cards],
    };
    let lab = lab_of(stored, guest, &[], session)?;
    Ok(record_of(&product_of(&lab, &job, session)?, &lab)?)
}
