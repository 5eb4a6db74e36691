//! [`Parts`]: where the time of requests went, from the queue to the medium.

use surety_device::model::Service;
use surety_model::record::{Distribution, Observed};
use surety_units::Nanos;

/// Names of the parts in records: in the queue of the I/O scheduler; then in the device: behind others, in its controller, of the
/// arm, of the medium, of the data.
pub const PARTS: [&str; 6] = [
    "request queued",
    "request in device queue",
    "request overhead",
    "request seek",
    "request rotation",
    "request transfer",
];

/// The parts of the requests of one account.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts([Observed; PARTS.len()]);

impl Parts {
    /// Takes a request that was queued for so long before the device took it.
    pub fn add(&mut self, queued: Nanos, service: &Service) {
        let Service { queue, overhead, seek, rotation, transfer } = *service;
        let parts = [queued, queue, overhead, seek, rotation, transfer];
        self.0.iter_mut().zip(parts).for_each(|(observed, part)| observed.record(part));
    }

    /// Each part by its name; nothing where there was no request.
    pub fn series(&self) -> impl Iterator<Item = (String, Distribution)> + '_ {
        let seen = PARTS.iter().zip(&self.0).filter(|(_, observed)| observed.histogram.count() > 0);
        seen.map(|(name, observed)| ((*name).to_owned(), Distribution::Observed(Box::new(observed.clone()))))
    }
}
