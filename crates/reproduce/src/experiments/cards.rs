//! The network card of the lab, for the experiments with packets.
//!
//! The emulator itself repeats a packet every [`GAP`], and a card that loses what its ring has no place for gets them. The
//! thread takes 0.16 of a CPU for all of them, as the published rows imply of theirs; a packet takes it long enough that
//! waking up for one is a small part.

use surety_model::distribution::TimeDistribution;
use surety_model::reservation::Reservation;
use surety_model::workload::{Arrivals, Irq, Workload};
use surety_units::Nanos;

use super::interrupts::SOURCE_NAME;

/// What stands for the source in a guest.
pub(super) const DEVICE: &str = "device=pcnet";
/// Between two packets.
pub(super) const GAP: Nanos = Nanos::from_millis(2);
/// CPU time of a packet, without waking up for it.
pub(super) const WORK: Nanos = Nanos::from_micros(320);
/// The largest ring: it holds what comes in a period of the reservations and more.
pub(super) const RING_MAX: u64 = 512;

/// The card with a ring of so many places.
pub(super) fn card(ring: u64, reservation: Option<Reservation>) -> Workload {
    let irq = Irq {
        buffer: Some(ring),
        reservation,
        ..Irq::new(SOURCE_NAME, Arrivals::Periodic { period: GAP }, TimeDistribution::Constant(WORK))
    };
    Workload { irqs: vec![irq], ..Workload::default() }
}
