//! [`Line`]: the armed slots that come soon, in order.
//!
//! Entries lie side by side in memory, the next one first, with room on both sides: what comes or goes moves the shorter part of
//! the others by one place. Of a few entries that is less than what a heap compares, and nobody's place has to be written down:
//! an entry is found by its key.

use super::Entry;

/// Entries in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// Room for entries; those from `begin` to before `end` are in it.
    room: Vec<Entry>,
    begin: usize,
    end: usize,
}

impl Line {
    /// Makes room for this many entries. Two thirds of it are spare, so that moving all of them to its middle is seldom.
    pub(super) fn reserve(&mut self, entries: usize) {
        if self.room.len() < 3 * entries {
            self.room.resize((6 * entries).max(64), Entry::default());
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.end - self.begin
    }

    /// What comes next.
    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.room[..self.end].get(self.begin)
    }

    /// Takes out what comes next.
    #[inline]
    pub(super) fn drop_first(&mut self) {
        self.begin += 1;
    }

    /// The place of what does not come before this entry.
    #[inline]
    fn place(&self, entry: &Entry) -> usize {
        let key = entry.key();
        self.begin + self.room[self.begin..self.end].partition_point(|other| other.key() < key)
    }

    /// An entry joins: those on its side of the middle that stand nearer to the end of their side make room, one by one.
    #[inline]
    pub(super) fn insert(&mut self, entry: Entry) {
        if self.begin == 0 || self.end == self.room.len() {
            self.move_to_middle();
        }
        let key = entry.key();
        let middle = self.begin + self.len() / 2;
        // With the free places on both sides.
        let room = &mut self.room[self.begin - 1..=self.end];
        let last = room.len() - 1;
        if middle < self.end && room[middle + 1 - self.begin].key() < key {
            let mut place = last;
            while place > 1 && key < room[place - 1].key() {
                room[place] = room[place - 1];
                place -= 1;
            }
            room[place] = entry;
            self.end += 1;
        } else {
            let mut place = 0;
            while place + 1 < last && room[place + 1].key() < key {
                room[place] = room[place + 1];
                place += 1;
            }
            room[place] = entry;
            self.begin -= 1;
        }
    }

    /// An entry leaves.
    #[inline]
    pub(super) fn remove(&mut self, entry: &Entry) {
        let place = self.place(entry);
        if place - self.begin < self.end - place {
            self.room.copy_within(self.begin..place, self.begin + 1);
            self.begin += 1;
        } else {
            self.room.copy_within(place + 1..self.end, place);
            self.end -= 1;
        }
    }

    #[cold]
    fn move_to_middle(&mut self) {
        let begin = (self.room.len() - self.len()) / 2;
        self.room.copy_within(self.begin..self.end, begin);
        self.end = begin + self.len();
        self.begin = begin;
    }
}
