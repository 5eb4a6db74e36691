//! [`Wheel`]: slots that come later, not yet in order (a hierarchical timing wheel: Varghese and Lauck, SOSP 1987).
//!
//! Time is counted in grains. A slot stands in a list of the lowest level on which its grain and the present one are in the
//! same turn: on level `k` a turn has 1024 lists of `1024^k` grains each. When the lower levels are empty the next list of a
//! higher one is dealt out among them. So a slot is moved a few times in all, whatever the number of slots.

use surety_units::Nanos;

use super::{ABSENT, Entry};

/// ns in a grain, as a shift.
const GRAIN_SHIFT: u32 = 14;

/// Lists of a level, as a shift.
const LEVEL_SHIFT: u32 = 10;
const LISTS: usize = 1 << LEVEL_SHIFT;

/// Levels that hold 63 bits of ns.
const LEVELS: usize = (63 - GRAIN_SHIFT).div_ceil(LEVEL_SHIFT) as usize;

const _: () = assert!(LEVELS * LISTS / 64 <= u128::BITS as usize, "a bit for each word of lists");

/// No slot.
const NONE: u32 = u32::MAX;

/// The place of a slot in a line.
const IN_LINE: u32 = 0;

/// The place of a slot in the first of the lists.
pub(super) const FIRST_LIST: u32 = ABSENT - (LEVELS * LISTS) as u32;

/// All that is known of a slot, in one line of a cache: where it stands and what it stands for, and its neighbours in a list.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Node {
    time: Nanos,
    /// When it was armed last, among all; and the component, in the lowest 8 bits.
    pub(super) sequence: u64,
    /// [`ABSENT`], [`IN_LINE`], or from [`FIRST_LIST`] on a list.
    pub(super) place: u32,
    before: u32,
    behind: u32,
    pub(super) number: u32,
}

impl Node {
    /// A slot that is not armed.
    pub(super) fn new(sequence: u64, number: u32) -> Node {
        Node { time: Nanos::ZERO, sequence, place: ABSENT, before: NONE, behind: NONE, number }
    }

    /// What stands for it in a line.
    pub(super) fn entry(&self, slot: u32) -> Entry {
        Entry { time: self.time, sequence: self.sequence, slot, number: self.number }
    }

    /// It stands in a line, by this entry.
    #[inline]
    pub(super) fn stand_in_line(&mut self, entry: &Entry) {
        (self.time, self.sequence, self.place) = (entry.time, entry.sequence, IN_LINE);
    }
}

/// Slots by when they come, roughly.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    /// The present grain: whatever is here comes after it.
    now: u64,
    /// The first slot of each list.
    lists: [u32; LEVELS * LISTS],
    /// The lists of each level that are not empty.
    occupied: [[u64; LISTS / 64]; LEVELS],
    /// The words of that in which there is any: nobody goes over all of them to the next list.
    words: u128,
    /// The first of the slots that are due.
    due: u32,
    count: usize,
}

impl Default for Wheel {
    fn default() -> Wheel {
        Wheel {
            now: 0,
            lists: [NONE; LEVELS * LISTS],
            occupied: [[0; LISTS / 64]; LEVELS],
            words: 0,
            due: NONE,
            count: 0,
        }
    }
}

fn grain(time: Nanos) -> u64 {
    time.max(Nanos::ZERO).get_unsigned() >> GRAIN_SHIFT
}

impl Wheel {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether an instant lies behind the present grain.
    #[inline]
    pub(super) fn is_later(&self, time: Nanos) -> bool {
        grain(time) > self.now
    }

    /// A slot that comes later joins.
    #[inline]
    pub(super) fn insert(&mut self, nodes: &mut [Node], entry: Entry) {
        self.count += 1;
        self.put(nodes, entry);
    }

    /// Puts a slot into the list that its grain and the present one ask for.
    fn put(&mut self, nodes: &mut [Node], entry: Entry) {
        let grain = grain(entry.time);
        let apart = grain ^ self.now;
        let level = if apart < LISTS as u64 { 0 } else { (63 - apart.leading_zeros()) / LEVEL_SHIFT };
        let place = (grain >> (level * LEVEL_SHIFT)) as usize % LISTS;
        let list = level as usize * LISTS + place;
        let first = std::mem::replace(&mut self.lists[list], entry.slot);
        if first != NONE {
            nodes[first as usize].before = entry.slot;
        }
        self.occupied.as_flattened_mut()[list / 64] |= 1 << (list % 64);
        self.words |= 1 << (list / 64);
        let place = FIRST_LIST + u32::try_from(list).expect("a few thousand lists");
        let Entry { time, sequence, slot, number } = entry;
        nodes[slot as usize] = Node { time, sequence, place, before: NONE, behind: first, number };
    }

    /// A slot leaves its place.
    pub(super) fn remove(&mut self, nodes: &mut [Node], (slot, place): (u32, u32)) {
        self.count -= 1;
        let Node { before, behind, .. } = nodes[slot as usize];
        let list = (place - FIRST_LIST) as usize;
        if behind != NONE {
            nodes[behind as usize].before = before;
        }
        if before != NONE {
            nodes[before as usize].behind = behind;
        } else {
            self.lists[list] = behind;
            if behind == NONE {
                self.empties(list);
            }
        }
    }

    /// A list has no slot any more.
    #[inline]
    fn empties(&mut self, list: usize) {
        let word = &mut self.occupied.as_flattened_mut()[list / 64];
        *word &= !(1 << (list % 64));
        if *word == 0 {
            self.words &= !(1 << (list / 64));
        }
    }

    /// Goes on to the next grain with slots, which are due then.
    pub(super) fn turn(&mut self, nodes: &mut [Node]) {
        while self.due == NONE && self.words != 0 {
            let word = self.words.trailing_zeros() as usize;
            let list = word * 64 + self.occupied.as_flattened()[word].trailing_zeros() as usize;
            self.empties(list);
            let (level, place) = (list / LISTS, (list % LISTS) as u64);
            let mut next = std::mem::replace(&mut self.lists[list], NONE);
            let shift = u32::try_from(level).expect("a few levels") * LEVEL_SHIFT;
            self.now = (self.now >> shift >> LEVEL_SHIFT << LEVEL_SHIFT | place) << shift;
            while next != NONE {
                let node = nodes[next as usize];
                if grain(node.time) == self.now {
                    nodes[next as usize].behind = std::mem::replace(&mut self.due, next);
                } else {
                    self.put(nodes, node.entry(next));
                }
                next = node.behind;
            }
        }
    }

    /// Takes a slot out that is due.
    pub(super) fn take_due(&mut self, nodes: &[Node]) -> Option<Entry> {
        let slot = self.due;
        let node = nodes.get(slot as usize)?;
        self.due = node.behind;
        self.count -= 1;
        Some(node.entry(slot))
    }
}
