//! [`BySector`]: waiting requests in the order of their sectors.
//!
//! Sectors lie side by side in leaves, and above them the lowest sector of each leaf in one list. Searches have no branch to guess, and with thousands
//! that wait they touch few lines of memory: these two are what a tree of nodes costs. What is put in and taken out allocates nothing once
//! there were as many.

use crate::elevator::Side;
use crate::request::{RequestId, Requests};

/// Requests of a leaf.
const ROOM: usize = 32;

/// A request with its sector.
type Entry = (u64, RequestId);

#[derive(Clone, Debug)]
struct Leaf {
    len: usize,
    entries: [Entry; ROOM],
}

const EMPTY: Leaf = Leaf { len: 0, entries: [(0, RequestId(0)); ROOM] };

impl Leaf {
    #[inline]
    fn entries(&self) -> &[Entry] {
        &self.entries[..self.len]
    }

    fn insert(&mut self, at: usize, entry: Entry) {
        self.entries.copy_within(at..self.len, at + 1);
        self.entries[at] = entry;
        self.len += 1;
    }

    fn remove(&mut self, at: usize) {
        self.entries.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }

    /// Moves what stands from `from` on behind the last of another.
    fn give(&mut self, from: usize, to: &mut Leaf) {
        let (count, end) = (self.len - from, to.len);
        to.entries[end..end + count].copy_from_slice(&self.entries[from..self.len]);
        (self.len, to.len) = (from, end + count);
    }
}

/// Where a request stands: the place of its leaf in the order, and its own in the leaf.
type Place = (usize, usize);

/// Waiting requests by their first sector; of equal ones by the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct BySector {
    /// The lowest sector each leaf may have, in order; that of the first is 0. Leaves are empty only where there is no request at all.
    lowest: Vec<u64>,
    /// Their places among `leaves`.
    order: Vec<u32>,
    leaves: Vec<Leaf>,
    free: Vec<u32>,
    len: usize,
}

impl BySector {
    #[inline]
    fn leaf(&self, place: usize) -> &Leaf {
        &self.leaves[self.order[place] as usize]
    }

    #[inline]
    fn leaf_mut(&mut self, place: usize) -> &mut Leaf {
        &mut self.leaves[self.order[place] as usize]
    }

    /// The first place whose sector is this one or above it; behind the last where there is none.
    #[inline]
    fn search(&self, sector: u64) -> Place {
        // Equal sectors may begin in the leaf before the first that may have them.
        let leaf = match self.order.len() {
            0 => return (0, 0),
            1 => 0,
            _ => self.lowest.partition_point(|lowest| *lowest < sector).saturating_sub(1),
        };
        let at = self.leaf(leaf).entries().partition_point(|(other, _)| *other < sector);
        self.normal((leaf, at))
    }

    /// The same place, where it is behind the last of a leaf the first of the next.
    #[inline]
    fn normal(&self, (leaf, at): Place) -> Place {
        if at == self.leaf(leaf).len && leaf + 1 < self.order.len() { (leaf + 1, 0) } else { (leaf, at) }
    }

    fn before(&self, (leaf, at): Place) -> Option<Place> {
        match (leaf, at) {
            (0, 0) => None,
            (leaf, 0) => Some((leaf - 1, self.leaf(leaf - 1).len - 1)),
            (leaf, at) => Some((leaf, at - 1)),
        }
    }

    #[inline]
    fn get(&self, (leaf, at): Place) -> Option<Entry> {
        let leaf = *self.order.get(leaf)?;
        self.leaves[leaf as usize].entries().get(at).copied()
    }

    /// The first place behind all requests that come before a sector and a sequence.
    fn place(&self, requests: &Requests, sector: u64, sequence: u64) -> Place {
        let mut place = self.search(sector);
        while let Some((of, id)) = self.get(place)
            && of == sector
            && requests[id].sequence < sequence
        {
            place = self.normal((place.0, place.1 + 1));
        }
        place
    }

    /// Adds a request.
    pub(crate) fn insert(&mut self, requests: &Requests, id: RequestId) {
        let (sector, sequence) = (requests[id].sector, requests[id].sequence);
        if self.order.is_empty() {
            let leaf = self.fresh();
            self.order.push(leaf);
            self.lowest.push(0);
        }
        let (mut leaf, mut at) = self.place(requests, sector, sequence);
        if at == 0 && leaf > 0 && sector < self.lowest[leaf] {
            (leaf, at) = (leaf - 1, self.leaf(leaf - 1).len);
        }
        if self.leaf(leaf).len == ROOM {
            self.split(leaf);
            if at > ROOM / 2 {
                (leaf, at) = (leaf + 1, at - ROOM / 2);
            }
        }
        self.leaf_mut(leaf).insert(at, (sector, id));
        self.len += 1;
    }

    fn fresh(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.leaves.push(EMPTY);
            u32::try_from(self.leaves.len() - 1).expect("fewer than 2^32 requests")
        })
    }

    /// Makes two leaves of a full one.
    fn split(&mut self, leaf: usize) {
        let new = self.fresh();
        let mut upper = EMPTY;
        self.leaf_mut(leaf).give(ROOM / 2, &mut upper);
        self.lowest.insert(leaf + 1, upper.entries[0].0);
        self.order.insert(leaf + 1, new);
        self.leaves[new as usize] = upper;
    }

    /// Takes a request out.
    pub(crate) fn remove(&mut self, requests: &Requests, id: RequestId) {
        let (sector, sequence) = (requests[id].sector, requests[id].sequence);
        let place = self.place(requests, sector, sequence);
        if self.get(place) == Some((sector, id)) {
            self.take(place);
        }
    }

    fn take(&mut self, (leaf, at): Place) {
        self.len -= 1;
        self.leaf_mut(leaf).remove(at);
        let left = self.leaf(leaf).len;
        if left < ROOM / 4 && leaf + 1 < self.order.len() && left + self.leaf(leaf + 1).len <= ROOM / 2 {
            self.join(leaf);
        } else if left == 0 && self.order.len() > 1 {
            self.drop_leaf(leaf);
            self.lowest[0] = 0;
        }
    }

    /// Puts a leaf and the next into one.
    fn join(&mut self, leaf: usize) {
        let mut next = std::mem::replace(self.leaf_mut(leaf + 1), EMPTY);
        next.give(0, self.leaf_mut(leaf));
        self.drop_leaf(leaf + 1);
    }

    fn drop_leaf(&mut self, leaf: usize) {
        self.lowest.remove(leaf);
        self.free.push(self.order.remove(leaf));
    }

    /// A request has grown at its front: it is looked for from its new first sector on, close behind which it stood.
    pub(crate) fn grown_at_front(&mut self, requests: &Requests, id: RequestId) {
        let mut place = self.search(requests[id].sector);
        while let Some((_, known)) = self.get(place) {
            if known == id {
                self.take(place);
                break;
            }
            place = self.normal((place.0, place.1 + 1));
        }
        self.insert(requests, id);
    }

    /// The first that begins at this sector or behind it.
    pub(crate) fn from(&self, sector: u64) -> Option<RequestId> {
        self.get(self.search(sector)).map(|(_, id)| id)
    }

    /// The last that begins before this sector.
    pub(crate) fn below(&self, sector: u64) -> Option<RequestId> {
        self.get(self.before(self.search(sector))?).map(|(_, id)| id)
    }

    /// The first that begins exactly there.
    pub(crate) fn at(&self, sector: u64) -> Option<RequestId> {
        self.get(self.search(sector)).filter(|(of, _)| *of == sector).map(|(_, id)| id)
    }

    /// The request with the lowest sector.
    pub(crate) fn first(&self) -> Option<RequestId> {
        self.get((0, 0)).map(|(_, id)| id)
    }

    /// The one next to a request, which need not be in it.
    pub(crate) fn beside(&self, requests: &Requests, id: RequestId, side: Side) -> Option<RequestId> {
        let (sector, sequence) = (requests[id].sector, requests[id].sequence);
        let place = match side {
            Side::Back => Some(self.place(requests, sector, sequence + 1)),
            Side::Front => self.before(self.place(requests, sector, sequence)),
        };
        self.get(place?).map(|(_, id)| id)
    }

    /// Requests in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use surety_units::Nanos;

    use super::*;
    use crate::request::{Bio, BioId, Op, Priority, ProcessId};

    fn request(requests: &mut Requests, sector: u64) -> RequestId {
        let (op, process) = (Op::Read, ProcessId(0));
        let bio = Bio { op, sync: true, meta: false, sector, sectors: 1, process, deadline: None };
        requests.make(&bio, BioId(0), Priority::default(), Nanos::ZERO)
    }

    proptest! {
        /// As a map by sector and sequence would have it, whose requests come in any order, grow at their front and go.
        #[test]
        fn it_holds_what_a_map_holds(
            steps in prop::collection::vec((0..5_u8, 0..400_u64, any::<prop::sample::Index>()), 0..1500),
        ) {
            let (mut sorted, mut map) = (BySector::default(), BTreeMap::<(u64, u64), RequestId>::new());
            let (mut requests, mut made) = (Requests::default(), Vec::new());
            for (what, sector, which) in steps {
                let chosen = (!map.is_empty()).then(|| *map.iter().nth(which.index(map.len())).unwrap().0);
                match (what, chosen) {
                    (0, Some(key)) => {
                        let id: RequestId = map.remove(&key).unwrap();
                        sorted.remove(&requests, id);
                    }
                    (1, Some((of, sequence))) => {
                        let id = map.remove(&(of, sequence)).unwrap();
                        requests[id].sector = of.saturating_sub(3);
                        map.insert((requests[id].sector, sequence), id);
                        sorted.grown_at_front(&requests, id);
                    }
                    // Made, and inserted later.
                    (2, _) => made.push(request(&mut requests, sector)),
                    _ => {
                        let id = made.pop().unwrap_or_else(|| request(&mut requests, sector));
                        map.insert((requests[id].sector, requests[id].sequence), id);
                        sorted.insert(&requests, id);
                    }
                }
                prop_assert_eq!((sorted.len(), sorted.is_empty()), (map.len(), map.is_empty()));
                prop_assert_eq!(sorted.first(), map.values().next().copied());
                let found = |key: Option<(&(u64, u64), &RequestId)>| key.map(|(_, id)| *id);
                prop_assert_eq!(sorted.from(sector), found(map.range((sector, 0)..).next()));
                prop_assert_eq!(sorted.below(sector), found(map.range(..(sector, 0)).next_back()));
                prop_assert_eq!(sorted.at(sector), found(map.range((sector, 0)..=(sector, u64::MAX)).next()));
                if let Some(key) = chosen.filter(|key| map.contains_key(key)) {
                    let id = map[&key];
                    let behind = found(map.range((key.0, key.1 + 1)..).next());
                    prop_assert_eq!(sorted.beside(&requests, id, Side::Back), behind);
                    prop_assert_eq!(sorted.beside(&requests, id, Side::Front), found(map.range(..key).next_back()));
                }
            }
        }
    }
}
