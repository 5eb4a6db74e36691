//! [`Wheel`]: slots that come later, not yet in order (a hierarchical timing wheel: Varghese and Lauck, SOSP 1987).
//!
//! Time is counted in grains. A slot stands in a list of the lowest level on which its grain and the present one are in the
//! same turn: on level `k` a turn has 1024 lists of `1024^k` grains each. When the lower levels are empty the next list of a
//! higher one is dealt out among them. So a slot is moved a few times in all, whatever the number of slots.

use surety_units::Nanos;

use super::Entry;

/// ns in a grain, as a shift.
const GRAIN_SHIFT: u32 = 16;

/// Lists of a level, as a shift.
const LEVEL_SHIFT: u32 = 10;
const LISTS: usize = 1 << LEVEL_SHIFT;

/// Levels that hold 63 bits of ns.
const LEVELS: usize = (63 - GRAIN_SHIFT).div_ceil(LEVEL_SHIFT) as usize;

/// No slot.
const NONE: u32 = u32::MAX;

/// A slot in a list.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Node {
    time: Nanos,
    sequence: u64,
    list: u32,
    before: u32,
    behind: u32,
    number: u32,
}

impl Node {
    fn entry(&self, slot: u32) -> Entry {
        Entry { time: self.time, sequence: self.sequence, slot, number: self.number }
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
    /// By slot.
    nodes: Vec<Node>,
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
            nodes: Vec::new(),
            due: NONE,
            count: 0,
        }
    }
}

fn grain(time: Nanos) -> u64 {
    time.max(Nanos::ZERO).get_unsigned() >> GRAIN_SHIFT
}

impl Wheel {
    pub(super) fn add_slot(&mut self) {
        self.nodes.push(Node::default());
    }

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
    pub(super) fn insert(&mut self, entry: Entry) {
        self.count += 1;
        self.put(entry);
    }

    /// Puts a slot into the list that its grain and the present one ask for.
    fn put(&mut self, entry: Entry) {
        let grain = grain(entry.time);
        let level = (63 - (grain ^ self.now).leading_zeros()) / LEVEL_SHIFT;
        let place = (grain >> (level * LEVEL_SHIFT)) as usize % LISTS;
        let list = level as usize * LISTS + place;
        let first = std::mem::replace(&mut self.lists[list], entry.slot);
        if first != NONE {
            self.nodes[first as usize].before = entry.slot;
        }
        self.occupied[level as usize][place / 64] |= 1 << (place % 64);
        let list = u32::try_from(list).expect("a few hundred lists");
        let Entry { time, sequence, slot, number } = entry;
        self.nodes[slot as usize] = Node { time, sequence, list, before: NONE, behind: first, number };
    }

    /// A slot leaves.
    pub(super) fn remove(&mut self, slot: u32) {
        self.count -= 1;
        let Node { list, before, behind, .. } = self.nodes[slot as usize];
        let list = list as usize;
        if behind != NONE {
            self.nodes[behind as usize].before = before;
        }
        if before != NONE {
            self.nodes[before as usize].behind = behind;
        } else {
            self.lists[list] = behind;
            if behind == NONE {
                self.occupied[list / LISTS][list % LISTS / 64] &= !(1 << (list % 64));
            }
        }
    }

    /// Goes on to the next grain with slots, which are due then.
    pub(super) fn turn(&mut self) {
        while self.due == NONE
            && let Some(word) = self.occupied.as_flattened().iter().position(|lists| *lists != 0)
        {
            let lists = &mut self.occupied.as_flattened_mut()[word];
            let list = word * 64 + lists.trailing_zeros() as usize;
            *lists &= *lists - 1;
            let (level, place) = (list / LISTS, (list % LISTS) as u64);
            let mut next = std::mem::replace(&mut self.lists[list], NONE);
            let shift = u32::try_from(level).expect("a few levels") * LEVEL_SHIFT;
            self.now = (self.now >> shift >> LEVEL_SHIFT << LEVEL_SHIFT | place) << shift;
            while next != NONE {
                let node = self.nodes[next as usize];
                if grain(node.time) == self.now {
                    self.nodes[next as usize].behind = std::mem::replace(&mut self.due, next);
                } else {
                    self.put(node.entry(next));
                }
                next = node.behind;
            }
        }
    }

    /// Takes a slot out that is due.
    pub(super) fn take_due(&mut self) -> Option<Entry> {
        let slot = self.due;
        let node = *self.nodes.get(slot as usize)?;
        self.due = node.behind;
        self.count -= 1;
        Some(node.entry(slot))
    }
}
