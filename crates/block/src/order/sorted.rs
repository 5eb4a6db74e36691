//! [`Sorted`]: waiting requests in the order of a key that is a number.
//!
//! Keys lie side by side in leaves, and above them the lowest key of each leaf in one list. Searches have no branch to guess, and with thousands
//! that wait they touch few lines of memory: these two are what a tree of nodes costs. What is put in and taken out allocates nothing once
//! there were as many.

use std::cell::Cell;
use std::fmt::Debug;

use crate::request::{RequestId, Requests};

/// Requests of a leaf.
const ROOM: usize = ROWS * ROW;
const ROWS: usize = 4;
/// Keys of a row; sectors fill a line of memory.
const ROW: usize = 8;

/// What requests are sorted by.
pub(crate) trait Key: Copy + Ord + Debug + Default {
    /// The highest there is.
    const HIGHEST: Self;
}

impl Key for u64 {
    const HIGHEST: u64 = u64::MAX;
}

impl Key for u128 {
    const HIGHEST: u128 = u128::MAX;
}

/// A request with its key.
pub(crate) type Entry<K> = (K, RequestId);

/// Keys in order, and whose they are: six lines of memory, if they are sectors.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Leaf<K> {
    /// Behind the last one the highest there is, so that a search need not know how many there are.
    keys: [[K; ROW]; ROWS],
    ids: [RequestId; ROOM],
}

impl<K: Key> Leaf<K> {
    const EMPTY: Leaf<K> = Leaf { keys: [[K::HIGHEST; ROW]; ROWS], ids: [RequestId(0); ROOM] };

    /// How many keys are below one.
    #[inline]
    fn below(&self, key: K) -> usize {
        let row: usize = self.keys[..ROWS - 1].iter().map(|row| usize::from(row[ROW - 1] < key)).sum();
        let rest: usize = self.keys[row].iter().map(|other| usize::from(*other < key)).sum();
        row * ROW + rest
    }

    fn insert(&mut self, at: usize, len: usize, (key, id): Entry<K>) {
        let keys = self.keys.as_flattened_mut();
        keys.copy_within(at..len, at + 1);
        keys[at] = key;
        self.ids.copy_within(at..len, at + 1);
        self.ids[at] = id;
    }

    fn remove(&mut self, at: usize, len: usize) {
        let keys = self.keys.as_flattened_mut();
        keys.copy_within(at + 1..len, at);
        keys[len - 1] = K::HIGHEST;
        self.ids.copy_within(at + 1..len, at);
    }

    /// Moves what stands from `from` up to `len` behind the first `count` of another.
    fn give(&mut self, from: usize, len: usize, to: &mut Leaf<K>, count: usize) {
        let end = count + len - from;
        let keys = &mut self.keys.as_flattened_mut()[from..len];
        to.keys.as_flattened_mut()[count..end].copy_from_slice(keys);
        keys.fill(K::HIGHEST);
        to.ids[count..end].copy_from_slice(&self.ids[from..len]);
    }
}

/// Where a request stands: the place of its leaf in the order, and its own in the leaf.
pub(super) type Place = (usize, usize);

/// A leaf in the order: its place among `leaves`, and how many requests it has.
#[derive(Clone, Copy, Debug)]
struct Part {
    leaf: u32,
    len: u32,
}

/// Waiting requests by a key of each; of equal ones by the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sorted<K> {
    /// The lowest key each leaf may have, in order; that of the first is the lowest there is. Leaves are empty only where there is no request at all.
    lowest: Vec<K>,
    order: Vec<Part>,
    leaves: Vec<Leaf<K>>,
    free: Vec<u32>,
    len: usize,
    /// The places in the order of the last two leaves that were found: what comes and what goes is mostly looked for twice.
    recent: Cell<(usize, usize)>,
    /// Where the last request was found that may be the next to go: mostly it is.
    found: Cell<Place>,
}

impl<K: Key> Sorted<K> {
    #[inline]
    fn leaf(&self, place: usize) -> &Leaf<K> {
        &self.leaves[self.order[place].leaf as usize]
    }

    #[inline]
    fn leaf_mut(&mut self, place: usize) -> &mut Leaf<K> {
        &mut self.leaves[self.order[place].leaf as usize]
    }

    #[inline]
    fn len_of(&self, place: usize) -> usize {
        self.order[place].len as usize
    }

    /// The last leaf that may have keys below this one; equal ones may begin there, before the first leaf that may have them.
    #[inline]
    fn search_leaf(&self, key: K) -> usize {
        let lowest = &self.lowest[..];
        if lowest.len() <= 1 {
            return 0;
        }
        let is_it = |leaf: usize| {
            lowest.get(leaf).is_some_and(|low| *low < key)
                && lowest.get(leaf + 1).is_none_or(|next| *next >= key)
        };
        let (last, other) = self.recent.get();
        if is_it(last) {
            return last;
        }
        let leaf = if is_it(other) {
            other
        } else {
            lowest.partition_point(|lowest| *lowest < key).saturating_sub(1)
        };
        self.recent.set((leaf, last));
        leaf
    }

    /// The first place whose key is this one or above it; behind the last where there is none.
    #[inline]
    pub(super) fn search(&self, key: K) -> Place {
        if self.order.is_empty() {
            return (0, 0);
        }
        let leaf = self.search_leaf(key);
        self.normal((leaf, self.leaf(leaf).below(key)))
    }

    /// The same place, where it is behind the last of a leaf the first of the next.
    #[inline]
    pub(super) fn normal(&self, (leaf, at): Place) -> Place {
        if at == self.len_of(leaf) && leaf + 1 < self.order.len() { (leaf + 1, 0) } else { (leaf, at) }
    }

    pub(super) fn before(&self, (leaf, at): Place) -> Option<Place> {
        match (leaf, at) {
            (0, 0) => None,
            (leaf, 0) => Some((leaf - 1, self.len_of(leaf - 1) - 1)),
            (leaf, at) => Some((leaf, at - 1)),
        }
    }

    #[inline]
    pub(super) fn get(&self, (leaf, at): Place) -> Option<Entry<K>> {
        let part = *self.order.get(leaf)?;
        if at >= part.len as usize {
            return None;
        }
        let leaf = &self.leaves[part.leaf as usize];
        Some((*leaf.keys.as_flattened().get(at)?, *leaf.ids.get(at)?))
    }

    /// The first place behind all requests that come before a key and a sequence.
    pub(super) fn place(&self, requests: &Requests, key: K, sequence: u64) -> Place {
        let mut place = self.search(key);
        while let Some((of, id)) = self.get(place)
            && of == key
            && requests[id].sequence < sequence
        {
            place = self.normal((place.0, place.1 + 1));
        }
        place
    }

    /// Adds a request.
    pub(crate) fn add(&mut self, requests: &Requests, key: K, id: RequestId) {
        if self.order.is_empty() {
            let leaf = self.fresh();
            self.order.push(Part { leaf, len: 0 });
            self.lowest.push(K::default());
        }
        let (mut leaf, mut at) = self.place(requests, key, requests[id].sequence);
        if at == 0 && leaf > 0 && key < self.lowest[leaf] {
            (leaf, at) = (leaf - 1, self.len_of(leaf - 1));
        }
        if self.len_of(leaf) == ROOM {
            self.split(leaf);
            if at > ROOM / 2 {
                (leaf, at) = (leaf + 1, at - ROOM / 2);
            }
        }
        let len = self.len_of(leaf);
        self.leaf_mut(leaf).insert(at, len, (key, id));
        self.order[leaf].len += 1;
        self.len += 1;
    }

    fn fresh(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.leaves.push(Leaf::EMPTY);
            u32::try_from(self.leaves.len() - 1).expect("fewer than 2^32 requests")
        })
    }

    /// Makes two leaves of a full one.
    fn split(&mut self, place: usize) {
        const HALF: u32 = ROOM as u32 / 2;
        let leaf = self.fresh();
        let mut upper = Leaf::EMPTY;
        self.leaf_mut(place).give(ROOM / 2, ROOM, &mut upper, 0);
        self.lowest.insert(place + 1, upper.keys[0][0]);
        self.order[place].len = HALF;
        self.order.insert(place + 1, Part { leaf, len: HALF });
        self.leaves[leaf as usize] = upper;
    }

    /// Takes a request out.
    pub(crate) fn cut(&mut self, requests: &Requests, id: RequestId, key: impl FnOnce() -> K) {
        let place = self.locate(requests, id, key);
        if self.get(place).is_some_and(|(_, known)| known == id) {
            self.take(place);
        }
    }

    /// Where a request stands, or would stand; its key is asked only where it is not the one that was found.
    #[inline]
    pub(super) fn locate(&self, requests: &Requests, id: RequestId, key: impl FnOnce() -> K) -> Place {
        let found = self.found.get();
        if self.get(found).is_some_and(|(_, known)| known == id) {
            return found;
        }
        let place = self.place(requests, key(), requests[id].sequence);
        self.found.set(place);
        place
    }

    pub(super) fn take(&mut self, (leaf, at): Place) {
        self.len -= 1;
        let len = self.len_of(leaf);
        self.leaf_mut(leaf).remove(at, len);
        self.order[leaf].len -= 1;
        let left = len - 1;
        if left < ROOM / 4 && leaf + 1 < self.order.len() && left + self.len_of(leaf + 1) <= ROOM / 2 {
            self.join(leaf);
        } else if left == 0 && self.order.len() > 1 {
            self.drop_leaf(leaf);
            self.lowest[0] = K::default();
        }
    }

    /// Puts a leaf and the next into one.
    fn join(&mut self, place: usize) {
        let next = self.order[place + 1];
        let len = self.len_of(place);
        let mut upper = std::mem::replace(&mut self.leaves[next.leaf as usize], Leaf::EMPTY);
        upper.give(0, next.len as usize, self.leaf_mut(place), len);
        self.order[place].len += next.len;
        self.drop_leaf(place + 1);
    }

    fn drop_leaf(&mut self, place: usize) {
        self.lowest.remove(place);
        self.free.push(self.order.remove(place).leaf);
    }

    /// The first whose key is this one or above it.
    pub(crate) fn at_or_above(&self, key: K) -> Option<Entry<K>> {
        let place = self.search(key);
        self.found.set(place);
        self.get(place)
    }

    /// The last whose key is below this one.
    pub(crate) fn under(&self, key: K) -> Option<Entry<K>> {
        let place = self.before(self.search(key))?;
        self.found.set(place);
        self.get(place)
    }

    /// The first of all.
    pub(crate) fn lowest(&self) -> Option<Entry<K>> {
        self.get((0, 0))
    }

    /// The one behind the first of all.
    pub(crate) fn second(&self) -> Option<Entry<K>> {
        if self.len < 2 { None } else { self.get(self.normal((0, 1))) }
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
