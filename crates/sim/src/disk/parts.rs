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

/// The name of the time in which the weight of a process that starts was raised, where that ended before it did.
pub const RAISED: &str = "I/O weight raised";

/// The parts of the requests of one account, and how long weights of its processes were raised.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts([Observed; PARTS.len()], Observed);

impl Parts {
    /// Takes a request that was queued for so long before the device took it.
    pub fn add(&mut self, queued: Nanos, service: &Service) {
        let Service { queue, overhead, seek, rotation, transfer } = *service;
        let parts = [queued, queue, overhead, seek, rotation, transfer];
        self.0.iter_mut().zip(parts).for_each(|(observed, part)| observed.record(part));
    }

    /// The raising of a process that starts has ended after so long.
    pub fn add_raised(&mut self, time: Nanos) {
        self.1.record(time);
    }

    /// Each part by its name; nothing where there was no request.
    pub fn series(&self) -> impl Iterator<Item = (String, Distribution)> + '_ {
        let raised = std::iter::once((&RAISED, &self.1));
        let seen =
            PARTS.iter().zip(&self.0).chain(raised).filter(|(_, observed)| observed.histogram.count() > 0);
        seen.map(|(name, observed)| ((*name).to_owned(), Distribution::from(observed.clone())))
    }
}
