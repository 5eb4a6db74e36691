//! [`Ledger`]: a stream's buffer as who moves its batches accounts for it, without memory, file and disk: what is wanted when, and how long what is there lasts.
//!
//! The simulator's stations are made of these. Those of crate `stream` have memory and files in their place, and a test there holds one against the other. Bytes are counted from the
//! stream's beginning.

use std::collections::VecDeque;

use surety_units::{Nanos, Rate};

use super::{Credit, Served, Want, buffer_of, jitter_of};
use crate::workload::{BatchMode, Direction, Stream};

/// Batches of a buffer at least: one that the program has, and one that is moved meanwhile.
const BATCHES_MIN: u64 = 2;

/// A batch that was asked for and is not the program's yet.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    from: u64,
    wanted: Nanos,
    done: Option<Nanos>,
}

/// The account of one stream's buffer.
#[derive(Clone, Debug)]
pub struct Ledger {
    rate: Rate,
    writes: bool,
    overlap: bool,
    batch: u64,
    /// Batches of its memory.
    count: u64,
    jitter: Nanos,
    credit: Credit,
    /// Since when there is credit for the next batch, and room.
    credit_since: Nanos,
    room_since: Nanos,
    had_room: bool,
    /// In the order of the stream.
    under_way: VecDeque<UnderWay>,
    /// What was moved between the buffer and the file ends here, and what the program took or gave.
    moved: u64,
    played: u64,
    /// When the last batch came that is the program's.
    last_done: Nanos,
}

impl Ledger {
    /// Of a stream that moves batches of `batch` bytes in a mode, with all of its credit.
    pub fn new(stream: &Stream, batch: u64, mode: BatchMode, now: Nanos) -> Ledger {
        let batch = batch.max(1);
        let count = buffer_of(stream, batch).div_ceil(batch).max(BATCHES_MIN);
        let burst = match mode {
            BatchMode::Steady => batch,
            BatchMode::Longest => count * batch,
        };
        let jitter = jitter_of(stream);
        let credit = Credit::full(stream.rate, burst, jitter, now);
        Ledger {
            rate: stream.rate,
            writes: stream.direction == Direction::Write,
            overlap: stream.overlap,
            batch,
            count,
            jitter,
            credit: if stream.overlap { credit.of_one(batch) } else { credit },
            credit_since: now,
            room_since: now,
            had_room: true,
            under_way: VecDeque::new(),
            moved: 0,
            played: 0,
            last_done: now,
        }
    }

    /// Bytes of its memory.
    pub fn memory(&self) -> u64 {
        self.count * self.batch
    }

    /// Where the next batch begins: behind what is there or under way, and behind what nobody needs any more.
    pub fn next(&self) -> u64 {
        self.under_way.back().map_or(0, |last| last.from + self.batch).max(self.moved)
    }

    /// So far the buffer was filled from its file, or emptied, and the program has come.
    pub fn look(&mut self, (moved, played): (u64, u64), now: Nanos) {
        (self.moved, self.played) = (moved, played);
        let has_room = self.has_room();
        if has_room && !self.had_room {
            self.room_since = now;
        }
        self.had_room = has_room;
    }

    /// Whether a batch can be moved: there is a free one to read into, or a full one to write.
    fn has_room(&self) -> bool {
        if self.writes {
            return self.next() + self.batch <= self.played;
        }
        // A batch that the program has begun is its own until it has all of it.
        self.next().saturating_sub(self.played / self.batch * self.batch) < self.memory()
    }

    /// The next batch, which was wanted since an instant, goes to the disk: its first byte.
    ///
    /// # Panics
    /// Where there is no credit for it.
    pub fn ask(&mut self, wanted: Nanos) -> u64 {
        let from = self.next();
        self.credit.take(self.batch);
        self.credit_since = self.credit.enough_at(self.batch);
        self.under_way.push_back(UnderWay { from, wanted, done: None });
        self.had_room = self.has_room();
        from
    }

    /// The batch from a byte on is there; `arrives` is told the first byte of each that is the program's now. Since when it was wanted, or the one before it was there.
    pub fn complete(&mut self, from: u64, now: Nanos, mut arrives: impl FnMut(u64)) -> Option<Nanos> {
        let place = self.under_way.iter().position(|batch| batch.from == from)?;
        let wanted = self.under_way[place].wanted;
        // Behind the one before it, it was not waiting for the disk.
        let before = match place.checked_sub(1) {
            // Of two, all before the one that is still under way were there when this one was asked for.
            _ if self.overlap => {
                let done = self.under_way.range(..place).filter_map(|other| other.done);
                done.fold(self.last_done, Nanos::max)
            }
            None => self.last_done,
            Some(before) => self.under_way[before].done.unwrap_or(wanted),
        };
        self.under_way[place].done = Some(now);
        while let Some(UnderWay { from, done: Some(done), .. }) = self.under_way.front().copied() {
            self.under_way.pop_front();
            self.last_done = if self.overlap { self.last_done.max(done) } else { done };
            arrives(from);
        }
        Some(wanted.max(before))
    }
}

impl Ledger {
    /// Since when the first batch is waited for that is under way.
    pub fn waits_since(&self) -> Option<Nanos> {
        self.under_way.front().map(|batch| batch.wanted.max(self.last_done))
    }
}

impl Served for Ledger {
    fn wants(&mut self, now: Nanos) -> Want {
        if !self.has_room() {
            return Want::Nothing;
        }
        self.credit.accrue(now);
        match self.credit.is_enough(self.batch) {
            true => Want::Since(self.credit_since.max(self.room_since).min(now)),
            false => Want::From(self.credit.enough_at(self.batch)),
        }
    }

    fn lasts(&self) -> Nanos {
        let batches_of = |bytes: u64| bytes.div_ceil(self.batch);
        let bytes = match self.writes {
            false => self.next().saturating_sub(batches_of(self.played) * self.batch),
            true => {
                self.count.saturating_sub(batches_of(self.played.saturating_sub(self.moved))) * self.batch
            }
        };
        Nanos::SECOND.mul_ratio(bytes, self.rate.0.max(1))
    }

    fn is_low(&mut self, now: Nanos) -> bool {
        self.wants(now) != Want::Nothing && self.lasts() <= self.jitter
    }
}
