//! [`BySector`]: waiting requests in the order of their sectors.
//!
//! Sectors lie side by side in leaves, and above them the lowest sector of each leaf in one list. Searches have no branch to guess, and with thousands
//! that wait they touch few lines of memory: these two are what a tree of nodes costs. What is put in and taken out allocates nothing once
//! there were as many.

use std::cell::Cell;

use crate::elevator::Side;
use crate::request::{RequestId, Requests};

/// Requests of a leaf.
const ROOM: usize = ROWS * ROW;
const ROWS: usize = 4;
/// Sectors of a line of memory.
const ROW: usize = 8;

/// A request with its sector.
type Entry = (u64, RequestId);

/// Six lines of memory: sectors in order, and whose they are.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Leaf {
    /// Behind the last one the highest there is, so that a search need not know how many there are.
    sectors: [[u64; ROW]; ROWS],
    ids: [RequestId; ROOM],
}

const EMPTY: Leaf = Leaf { sectors: [[u64::MAX; ROW]; ROWS], ids: [RequestId(0); ROOM] };

impl Leaf {
    /// How many sectors are below one.
    #[inline]
    fn below(&self, sector: u64) -> usize {
        let row: usize = self.sectors[..ROWS - 1].iter().map(|row| usize::from(row[ROW - 1] < sector)).sum();
        let rest: usize = self.sectors[row].iter().map(|other| usize::from(*other < sector)).sum();
        row * ROW + rest
    }

    fn insert(&mut self, at: usize, len: usize, (sector, id): Entry) {
        let sectors = self.sectors.as_flattened_mut();
        sectors.copy_within(at..len, at + 1);
        sectors[at] = sector;
        self.ids.copy_within(at..len, at + 1);
        self.ids[at] = id;
    }

    fn remove(&mut self, at: usize, len: usize) {
        let sectors = self.sectors.as_flattened_mut();
        sectors.copy_within(at + 1..len, at);
        sectors[len - 1] = u64::MAX;
        self.ids.copy_within(at + 1..len, at);
    }

    /// Moves what stands from `from` up to `len` behind the first `count` of another.
    fn give(&mut self, from: usize, len: usize, to: &mut Leaf, count: usize) {
        let end = count + len - from;
        let sectors = &mut self.sectors.as_flattened_mut()[from..len];
        to.sectors.as_flattened_mut()[count..end].copy_from_slice(sectors);
        sectors.fill(u64::MAX);
        to.ids[count..end].copy_from_slice(&self.ids[from..len]);
    }
}

/// Where a request stands: the place of its leaf in the order, and its own in the leaf.
type Place = (usize, usize);

/// A leaf in the order: its place among `leaves`, and how many requests it has.
#[derive(Clone, Copy, Debug)]
struct Part {
    leaf: u32,
    len: u32,
}

/// Waiting requests by their first sector; of equal ones by the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct BySector {
    /// The lowest sector each leaf may have, in order; that of the first is 0. Leaves are empty only where there is no request at all.
    lowest: Vec<u64>,
    order: Vec<Part>,
    leaves: Vec<Leaf>,
    free: Vec<u32>,
    len: usize,
    /// The places in the order of the last two leaves that were found: what comes and what goes is mostly looked for twice.
    recent: Cell<(usize, usize)>,
}

impl BySector {
    #[inline]
    fn leaf(&self, place: usize) -> &Leaf {
        &self.leaves[self.order[place].leaf as usize]
    }

    #[inline]
    fn leaf_mut(&mut self, place: usize) -> &mut Leaf {
        &mut self.leaves[self.order[place].leaf as usize]
    }

    #[inline]
    fn len_of(&self, place: usize) -> usize {
        self.order[place].len as usize
    }

    /// The last leaf that may have sectors below this one; equal ones may begin there, before the first leaf that may have them.
    #[inline]
    fn search_leaf(&self, sector: u64) -> usize {
        let lowest = &self.lowest[..];
        if lowest.len() <= 1 {
            return 0;
        }
        let is_it = |leaf: usize| {
            lowest.get(leaf).is_some_and(|low| *low < sector)
                && lowest.get(leaf + 1).is_none_or(|next| *next >= sector)
        };
        let (last, other) = self.recent.get();
        if is_it(last) {
            return last;
        }
        let leaf = if is_it(other) {
            other
        } else {
            lowest.partition_point(|lowest| *lowest < sector).saturating_sub(1)
        };
        self.recent.set((leaf, last));
        leaf
    }

    /// The first place whose sector is this one or above it; behind the last where there is none.
    #[inline]
    fn search(&self, sector: u64) -> Place {
        if self.order.is_empty() {
            return (0, 0);
        }
        let leaf = self.search_leaf(sector);
        self.normal((leaf, self.leaf(leaf).below(sector)))
    }

    /// The same place, where it is behind the last of a leaf the first of the next.
    #[inline]
    fn normal(&self, (leaf, at): Place) -> Place {
        if at == self.len_of(leaf) && leaf + 1 < self.order.len() { (leaf + 1, 0) } else { (leaf, at) }
    }

    fn before(&self, (leaf, at): Place) -> Option<Place> {
        match (leaf, at) {
            (0, 0) => None,
            (leaf, 0) => Some((leaf - 1, self.len_of(leaf - 1) - 1)),
            (leaf, at) => Some((leaf, at - 1)),
        }
    }

    #[inline]
    fn get(&self, (leaf, at): Place) -> Option<Entry> {
        let part = *self.order.get(leaf)?;
        if at >= part.len as usize {
            return None;
        }
        let leaf = &self.leaves[part.leaf as usize];
        Some((*leaf.sectors.as_flattened().get(at)?, *leaf.ids.get(at)?))
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
            self.order.push(Part { leaf, len: 0 });
            self.lowest.push(0);
        }
        let (mut leaf, mut at) = self.place(requests, sector, sequence);
        if at == 0 && leaf > 0 && sector < self.lowest[leaf] {
            (leaf, at) = (leaf - 1, self.len_of(leaf - 1));
        }
        if self.len_of(leaf) == ROOM {
            self.split(leaf);
            if at > ROOM / 2 {
                (leaf, at) = (leaf + 1, at - ROOM / 2);
            }
        }
        let len = self.len_of(leaf);
        self.leaf_mut(leaf).insert(at, len, (sector, id));
        self.order[leaf].len += 1;
        self.len += 1;
    }

    fn fresh(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.leaves.push(EMPTY);
            u32::try_from(self.leaves.len() - 1).expect("fewer than 2^32 requests")
        })
    }

    /// Makes two leaves of a full one.
    fn split(&mut self, place: usize) {
        const HALF: u32 = ROOM as u32 / 2;
        let leaf = self.fresh();
        let mut upper = EMPTY;
        self.leaf_mut(place).give(ROOM / 2, ROOM, &mut upper, 0);
        self.lowest.insert(place + 1, upper.sectors[0][0]);
        self.order[place].len = HALF;
        self.order.insert(place + 1, Part { leaf, len: HALF });
        self.leaves[leaf as usize] = upper;
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
        let len = self.len_of(leaf);
        self.leaf_mut(leaf).remove(at, len);
        self.order[leaf].len -= 1;
        let left = len - 1;
        if left < ROOM / 4 && leaf + 1 < self.order.len() && left + self.len_of(leaf + 1) <= ROOM / 2 {
            self.join(leaf);
        } else if left == 0 && self.order.len() > 1 {
            self.drop_leaf(leaf);
            self.lowest[0] = 0;
        }
    }

    /// Puts a leaf and the next into one.
    fn join(&mut self, place: usize) {
        let next = self.order[place + 1];
        let len = self.len_of(place);
        let mut upper = std::mem::replace(&mut self.leaves[next.leaf as usize], EMPTY);
        upper.give(0, next.len as usize, self.leaf_mut(place), len);
        self.order[place].len += next.len;
        self.drop_leaf(place + 1);
    }

    fn drop_leaf(&mut self, place: usize) {
        self.lowest.remove(place);
        self.free.push(self.order.remove(place).leaf);
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
