//! What an access would take if it came now and nothing else waited: a copy of the drive is given it.
//!
//! So all is in it that the drive does: what the buffer has or streams in, the controller's time, the track's end. Accesses that fail are not
//! foreseen.

use surety_units::Nanos;

use super::Hdd;
use crate::model::{Ledger, Request, serve};

impl Hdd {
    /// Time from `now` until an access would be complete that came then, before all others that wait.
    pub(super) fn estimated(&self, now: Nanos, request: &Request) -> Nanos {
        let mut copy = Hdd { pending: Vec::new(), ledger: Ledger::default(), retries: None, ..self.clone() };
        serve(&mut copy, now, 0, request).service.total()
    }
}
