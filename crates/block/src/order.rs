//! Requests that wait, in two orders: [`BySector`] (or by another key, [`Sorted`]), and [`ByArrival`] with the instants at which they expire; [`Lane`] is both.

mod by_sector;
mod sorted;

use surety_units::Nanos;

pub(crate) use by_sector::BySector;
pub(crate) use sorted::Sorted;

use crate::request::{RequestId, Requests};

/// Waiting requests in the order in which they came: a list through places that are numbered as the requests.
#[derive(Clone, Debug)]
pub(crate) struct ByArrival {
    links: Vec<Link>,
    first: u32,
    last: u32,
}

/// No request has this number.
const NONE: u32 = u32::MAX;

/// The place of a request in the list.
#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    behind: u32,
    expires: Nanos,
}

impl Default for ByArrival {
    fn default() -> ByArrival {
        ByArrival { links: Vec::new(), first: NONE, last: NONE }
    }
}

impl ByArrival {
    /// A request comes, and expires at an instant.
    pub(crate) fn push(&mut self, id: RequestId, expires: Nanos) {
        if self.links.len() <= id.index() {
            self.links.resize(id.index() + 1, Link { before: NONE, behind: NONE, expires });
        }
        self.links[id.index()] = Link { before: self.last, behind: NONE, expires };
        *self.behind(self.last) = id.0;
        self.last = id.0;
    }

    /// What says who is behind one; the first of all is behind none.
    fn behind(&mut self, number: u32) -> &mut u32 {
        if number == NONE { &mut self.first } else { &mut self.links[number as usize].behind }
    }

    /// What says who is before one; the last of all is before none.
    fn before(&mut self, number: u32) -> &mut u32 {
        if number == NONE { &mut self.last } else { &mut self.links[number as usize].before }
    }

    /// Takes a request out, which is in it.
    pub(crate) fn remove(&mut self, id: RequestId) {
        let Link { before, behind, .. } = self.links[id.index()];
        *self.behind(before) = behind;
        *self.before(behind) = before;
    }

    /// The one that has waited longest, and when it expires.
    pub(crate) fn oldest(&self) -> Option<(RequestId, Nanos)> {
        let first = self.links.get(self.first as usize)?;
        Some((RequestId(self.first), first.expires))
    }

    /// A request is about to become a part of another: the one that is left has the place of the one that expires first.
    pub(crate) fn join(&mut self, kept: RequestId, gone: RequestId) {
        let expires = self.links[gone.index()].expires;
        if expires >= self.links[kept.index()].expires {
            return self.remove(gone);
        }
        self.remove(kept);
        let before = self.links[gone.index()].before;
        self.links[kept.index()] = Link { before, behind: gone.0, expires };
        self.links[gone.index()].before = kept.0;
        *self.behind(before) = kept.0;
        self.remove(gone);
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

/// Waiting requests in both orders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) sorted: BySector,
    pub(crate) fifo: ByArrival,
}

impl Lane {
    /// Adds a request that expires at an instant.
    pub(crate) fn insert(&mut self, requests: &Requests, id: RequestId, expires: Nanos) {
        self.sorted.insert(requests, id);
        self.fifo.push(id, expires);
    }

    /// Takes a request out.
    pub(crate) fn remove(&mut self, requests: &Requests, id: RequestId) {
        self.sorted.remove(requests, id);
        self.fifo.remove(id);
    }

    /// `gone` is about to become a part of `kept`.
    pub(crate) fn join(&mut self, requests: &Requests, kept: RequestId, gone: RequestId) {
        self.fifo.join(kept, gone);
        self.sorted.remove(requests, gone);
    }

    /// The one that has waited longest, where it has expired.
    pub(crate) fn expired(&self, now: Nanos) -> Option<RequestId> {
        self.fifo.oldest().filter(|(_, expires)| *expires < now).map(|(id, _)| id)
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
