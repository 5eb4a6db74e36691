//! [`ThreadTable`]: the threads of a trace by id, where ids are reused.
//!
//! A slot is one thread's life. `sched_process_fork` and `sched_wakeup_new` begin a new life under an id that had one;
//! so does a wake-up of a thread that was seen to die.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use surety_units::{Nanos, Tid};

use super::thread::Thread;

/// All threads ever seen, and which one bears each id now.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadTable {
    pub(super) slots: Vec<Thread>,
    /// Only looked up, never iterated.
    by_tid: HashMap<i32, usize, BuildHasherDefault<TidHasher>>,
    /// Slots of forgotten threads, to be used again.
    free: Vec<usize>,
}

impl ThreadTable {
    /// The living thread that bears this id, or a new one that was running or sleeping before the trace saw it.
    #[inline]
    pub(super) fn slot(&mut self, tid: Tid, at: Nanos) -> usize {
        match self.by_tid.get(&tid.0) {
            Some(slot) if !self.slots[*slot].ended => *slot,
            _ => self.insert(Thread::new(tid, at)),
        }
    }

    /// A thread that has just been made. `fork` and the first wake-up tell of the same one: the second of the two finds
    /// it untouched.
    pub(super) fn newborn(&mut self, tid: Tid, at: Nanos, woken: bool) -> usize {
        let slot = match self.by_tid.get(&tid.0) {
            Some(slot) if self.slots[*slot].unborn => *slot,
            _ => self.insert(Thread::new(tid, at)),
        };
        self.slots[slot].unborn = !woken;
        slot
    }

    /// The thread of `slot` bears another's id from now on.
    pub(super) fn rename(&mut self, slot: usize, tid: Tid) {
        self.by_tid.remove(&self.slots[slot].tid.0);
        self.slots[slot].tid = tid;
        if let Some(leader) = self.by_tid.insert(tid.0, slot) {
            self.slots[leader].retire();
        }
    }

    fn insert(&mut self, thread: Thread) -> usize {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if let Some(before) = self.by_tid.insert(thread.tid.0, slot) {
            self.slots[before].retire();
        }
        match self.slots.get_mut(slot) {
            Some(free) => *free = thread,
            None => self.slots.push(thread),
        }
        slot
    }

    /// Gives up an ended thread's slot; nobody may name it any more.
    pub(super) fn forget(&mut self, slot: usize) {
        let thread = &mut self.slots[slot];
        if thread.ended && !thread.forgotten {
            thread.forgotten = true;
            if self.by_tid.get(&thread.tid.0) == Some(&slot) {
                self.by_tid.remove(&thread.tid.0);
            }
            self.free.push(slot);
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
