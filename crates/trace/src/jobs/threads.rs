//! [`ThreadTable`]: the threads of a trace by id, where ids are reused.
//!
//! A slot is one thread's life. `sched_process_fork` and `sched_wakeup_new` begin a new life under an id that had one;
//! so does a wake-up of a thread that was seen to die. The slots of the dead are used again, so the table is as long as
//! the most threads alive at one time.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use surety_units::{Nanos, Tid};

use super::sink::JobSink;
use super::thread::Thread;

/// The threads alive, some dead ones, and which one bears each id now.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadTable {
    pub(super) slots: Vec<Thread>,
    /// Slots of the dead, the first to die first.
    dead: VecDeque<usize>,
    /// Lives begun so far.
    lives: u64,
    /// Only looked up, never iterated.
    by_tid: HashMap<i32, usize, BuildHasherDefault<TidHasher>>,
    recent: Recent,
}

/// By the last byte of the id, the slot in which such a thread was found last. A guess, looked at before it is trusted:
/// no two living threads bear one id, so a living one that bears it is the one.
#[derive(Clone, Debug)]
struct Recent([usize; 256]);

impl Default for Recent {
    fn default() -> Recent {
        Recent([0; 256])
    }
}

impl ThreadTable {
    /// The living thread that bears this id.
    #[inline]
    pub(super) fn living(&mut self, tid: Tid) -> Option<usize> {
        let [last, ..] = tid.0.to_le_bytes();
        let recent = &mut self.recent.0[usize::from(last)];
        if self.slots.get(*recent).is_some_and(|thread| thread.is_living(tid)) {
            return Some(*recent);
        }
        let found = self.by_tid.get(&tid.0).copied().filter(|slot| !self.slots[*slot].ended)?;
        *recent = found;
        Some(found)
    }

    /// The thread that bears this id, or bore it last and is remembered.
    pub(super) fn last(&self, tid: Tid) -> Option<usize> {
        self.by_tid.get(&tid.0).copied()
    }

    /// The thread of this id that was forked and has not been woken yet.
    pub(super) fn unborn(&self, tid: Tid) -> Option<usize> {
        self.by_tid.get(&tid.0).copied().filter(|slot| self.slots[*slot].unborn && !self.slots[*slot].ended)
    }

    /// The thread of `slot` bears another's id from now on.
    pub(super) fn rename<S: JobSink>(&mut self, slot: usize, tid: Tid, sink: &mut S) {
        self.by_tid.remove(&self.slots[slot].key.tid.0);
        self.slots[slot].key.tid = tid;
        if let Some(leader) = self.by_tid.insert(tid.0, slot) {
            self.retire(leader, sink);
        }
    }

    /// A new life, in a slot that is free or in a new one.
    pub(super) fn insert<S: JobSink>(
        &mut self,
        tid: Tid,
        at: Nanos,
        free: Option<usize>,
        sink: &mut S,
    ) -> usize {
        let slot = free.unwrap_or(self.slots.len());
        let thread = Thread::new(slot, self.lives, tid, at);
        self.lives += 1;
        if slot < self.slots.len() {
            self.slots[slot] = thread
        } else {
            self.slots.push(thread)
        }
        if let Some(before) = self.by_tid.insert(tid.0, slot) {
            self.retire(before, sink);
        }
        slot
    }

    /// The thread was seen to die.
    pub(super) fn bury(&mut self, slot: usize) {
        self.dead.push_back(slot);
    }

    /// The slot of the dead that has been so the longest, where more than `remembered` are, unless it is `held`.
    pub(super) fn exhume(&mut self, remembered: usize, held: impl Fn(usize) -> bool) -> Option<usize> {
        if self.dead.len() <= remembered {
            return None;
        }
        let slot = self.dead.pop_front()?;
        if held(slot) {
            self.dead.push_back(slot);
            return None;
        }
        let tid = self.slots[slot].key.tid.0;
        if self.by_tid.get(&tid) == Some(&slot) {
            self.by_tid.remove(&tid);
        }
        Some(slot)
    }

    fn retire<S: JobSink>(&mut self, slot: usize, sink: &mut S) {
        if !self.slots[slot].ended {
            self.slots[slot].retire(sink);
            self.dead.push_back(slot);
        }
    }
}

/// Spreads an id by multiplication with 2^64 / golden ratio (Knuth, TAOCP 3, 6.4). The default hasher's resistance to
/// chosen keys is not needed: ids are 32 bits, and a collision only costs a comparison.
#[derive(Clone, Copy, Debug, Default)]
struct TidHasher(u64);

impl Hasher for TidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_i32(i32::from(*byte));
        }
    }

    fn write_i32(&mut self, id: i32) {
        let key = self.0.rotate_left(32) ^ u64::from(id.cast_unsigned());
        let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The table takes its position from the low bits, which a product spreads least.
        self.0 = spread ^ spread >> 32;
    }
}
