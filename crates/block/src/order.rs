//! Requests that wait, in two orders: [`BySector`] (or by another key, [`Sorted`]), and [`ByArrival`] with the instants at which they
//! expire; [`Lane`] is both.

mod by_sector;
mod sorted;

use surety_units::Nanos;

pub(crate) use by_sector::BySector;
pub(crate) use sorted::Sorted;

pub(crate) use crate::request::ByArrival;
use crate::request::{Ends, RequestId, Requests};

/// Waiting requests in both orders; the links are in the list of all requests, of which each stands in one lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) sorted: BySector,
    fifo: Ends,
}

impl Lane {
    /// Adds a request that expires at an instant.
    pub(crate) fn insert(&mut self, requests: &mut Requests, id: RequestId, expires: Nanos) {
        self.sorted.insert(requests, id);
        self.fifo.push(&mut requests.links, id, expires);
    }

    /// Takes a request out.
    pub(crate) fn remove(&mut self, requests: &mut Requests, id: RequestId) {
        self.sorted.remove(requests, id);
        self.fifo.remove(&mut requests.links, id);
    }

    /// `gone` is about to become a part of `kept`.
    pub(crate) fn join(&mut self, requests: &mut Requests, kept: RequestId, gone: RequestId) {
        self.fifo.join(&mut requests.links, kept, gone);
        self.sorted.remove(requests, gone);
    }

    /// The one that has waited longest.
    pub(crate) fn oldest(&self, requests: &Requests) -> Option<RequestId> {
        self.fifo.oldest(&requests.links).map(|(id, _)| id)
    }

    /// The one that has waited longest, where it has expired.
    pub(crate) fn expired(&self, requests: &Requests, now: Nanos) -> Option<RequestId> {
        self.fifo.oldest(&requests.links).filter(|(_, expires)| *expires < now).map(|(id, _)| id)
    }

    /// The next upwards from a sector, or one that lies up to `back` below, for which the way counts twice; else the lowest
    /// (`as_choose_req`, `cfq_choose_req`).
    pub(crate) fn nearest(&self, requests: &Requests, from: u64, back: u64) -> Option<RequestId> {
        let above = self.sorted.from(from);
        let below = self.sorted.below(from).filter(|id| requests[*id].sector + back >= from);
        match (above, below) {
            (Some(above), Some(below)) => {
                let is_nearer = 2 * (from - requests[below].sector) < requests[above].sector - from;
                Some(if is_nearer { below } else { above })
            }
            (above, below) => above.or(below).or(self.sorted.first()),
        }
    }

    /// Requests in it.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }
}
