//! [`Track`]: one stream as the thread that serves its disk sees it. It is told the time, and does nothing by itself.
//!
//! Its memory is some batches of pages. Each is free, under way, ready, or with the program; the stream's order is that of `queue`.
//! A batch is wanted when there is a free one, credit for it, and something left of the file.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar};

use surety_kernel::direct::Access;
use surety_kernel::pages::Pages;
use surety_kernel::ring::Transfer;
use surety_model::playout::Credit;
use surety_units::{Nanos, Rate};

use crate::contract::Contract;
use crate::error::StreamError;
use crate::source::{Piece, Source};
use crate::stats::{Batch, Stats};

/// Batches of a buffer at least: one that the program reads, and one that is fetched meanwhile.
const BATCHES_MIN: u64 = 2;
/// Bytes of a buffer at most.
const BUFFER_MAX: u64 = 1 << 34;
/// Batches that are noted at most.
const NOTES_MAX: usize = 1 << 20;

/// A batch in the order of the stream.
#[derive(Debug)]
enum Slot {
    UnderWay { tag: u64, piece: Piece, wanted: Nanos, submitted: Nanos },
    Ready(Ready),
}

/// A batch that is there.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) pages: Pages,
    /// The stream's bytes in the pages.
    pub(crate) from: usize,
    pub(crate) end: usize,
    pub(crate) batch: Batch,
}

impl Slot {
    fn bytes(&self) -> u64 {
        match self {
            Slot::UnderWay { piece, .. } => piece.bytes,
            Slot::Ready(ready) => (ready.end - ready.from) as u64,
        }
    }
}

/// Whether a stream wants a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Since an instant.
    Since(Nanos),
    /// From an instant on.
    From(Nanos),
    /// Not before something else happens.
    Nothing,
}

/// Why a stream cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The kernel's error number.
    Errno(i32),
    /// The file ends here now, and was longer when it was opened.
    Shrunk(u64),
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        match failure {
            Failure::Errno(errno) => io::Error::from_raw_os_error(errno),
            Failure::Shrunk(size) => io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the file was made shorter while it was read: it ends at {size} bytes"),
            ),
        }
    }
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) contract: Contract,
    pub(crate) source: Source,
    pub(crate) stats: Stats,
    pub(crate) notes: Vec<Batch>,
    /// Its program waits here.
    pub(crate) wake: Arc<Condvar>,
    /// What keeps it from a guarantee, beside what is wrong with the source.
    pub(crate) caveats: Vec<String>,
    pub(crate) is_paused: bool,
    /// The program took something since it was opened or moved to another place.
    pub(crate) is_read: bool,
    credit: Credit,
    /// Bytes of a batch.
    batch: u64,
    free: Vec<Pages>,
    /// Since when there is a free one, and credit for the next batch.
    room_since: Nanos,
    credit_since: Nanos,
    queue: VecDeque<Slot>,
    /// Where in the file the next batch begins.
    next: u64,
    failure: Option<Failure>,
    /// When the batch came that the program has taken last.
    last_done: Nanos,
    /// Bytes of its memory.
    pub(crate) memory: u64,
}

impl Track {
    /// A stream from the beginning of its file, with its memory.
    ///
    /// # Errors
    /// A contract that cannot be; ENOMEM.
    pub(crate) fn new(contract: &Contract, source: Source, now: Nanos) -> Result<Track, StreamError> {
        contract.check()?;
        let alignment = source.alignment.unwrap_or(surety_kernel::pages::PAGE as u64);
        let batch = contract.batch.max(1).next_multiple_of(alignment);
        let count = contract.wanted().div_ceil(batch).max(BATCHES_MIN);
        if count.saturating_mul(batch) > BUFFER_MAX {
            return Err(StreamError::Contract {
                key: "buffer",
                why: "is at most 16 GiB; lower its rate or jitter",
            });
        }
        let [count, bytes] = [count, batch].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let (free, refused) = Pages::parts(count, bytes, true)?;
        let caveats = refused.map(|error| format!("its buffer is not locked in memory: {error}"));
        Ok(Track {
            credit: Credit::full(contract.rate, batch, contract.jitter, now),
            contract: *contract,
            source,
            stats: Stats::default(),
            notes: Vec::new(),
            wake: Arc::new(Condvar::new()),
            caveats: caveats.into_iter().collect(),
            is_paused: contract.is_paused,
            is_read: false,
            batch,
            free,
            room_since: now,
            credit_since: now,
            queue: VecDeque::new(),
            next: 0,
            failure: None,
            last_done: now,
            memory: batch * count as u64,
        })
    }

    /// What the next batch takes of the file; `None`: there is nothing left of it.
    fn piece(&self) -> Option<Piece> {
        Some(self.source.piece(self.next, self.batch)).filter(|piece| piece.bytes > 0)
    }

    pub(crate) fn wants(&mut self, now: Nanos) -> Want {
        let Some(piece) = self.piece().filter(|_| self.failure.is_none() && !self.is_paused) else {
            return Want::Nothing;
        };
        if self.free.is_empty() {
            return Want::Nothing;
        }
        self.credit.accrue(now);
        match self.credit.is_enough(piece.bytes) {
            true => Want::Since(self.credit_since.max(self.room_since).min(now)),
            false => Want::From(self.credit.enough_at(piece.bytes)),
        }
    }

    /// How long what is there and on its way lasts.
    pub(crate) fn lasts(&self) -> Nanos {
        let bytes = self.queue.iter().map(Slot::bytes).sum();
        Nanos::SECOND.mul_ratio(bytes, self.contract.rate.0.max(1))
    }

    /// The next batch, which was wanted since an instant, goes to the device.
    pub(crate) fn ask(&mut self, tag: u64, (wanted, now): (Nanos, Nanos)) -> Option<Transfer> {
        let (piece, pages) = (self.piece()?, self.free.pop()?);
        self.credit.take(piece.bytes);
        self.next += piece.bytes;
        if self.next >= self.source.size && self.contract.repeats {
            self.next = 0;
        }
        self.credit_since = self.credit.enough_at(self.price());
        self.queue.push_back(Slot::UnderWay { tag, piece, wanted, submitted: now });
        let length = usize::try_from(piece.length).unwrap_or(usize::MAX);
        let file = Arc::clone(&self.source.file);
        Some(Transfer { tag, file, access: Access::Read, offset: piece.begin, length, pages })
    }

    /// A transfer is complete, or was not begun.
    pub(crate) fn complete(&mut self, tag: u64, pages: Pages, result: Result<usize, i32>, now: Nanos) {
        let is_it = |slot: &Slot| matches!(slot, Slot::UnderWay { tag: other, .. } if *other == tag);
        let place = self.queue.iter().position(is_it);
        // Of a place that the program has left since.
        let Some(place) = place else { return self.give_back(pages, now) };
        let Slot::UnderWay { piece, wanted, submitted, .. } = self.queue[place] else { return };
        if let Some(failure) = self.failure_of(&piece, result) {
            // What comes before it is still the program's; what is behind it is nobody's.
            self.failure = Some(failure);
            for slot in self.queue.split_off(place) {
                if let Slot::Ready(ready) = slot {
                    self.give_back(ready.pages, now);
                }
            }
            self.give_back(pages, now);
        } else {
            let from = usize::try_from(piece.skipped).unwrap_or(0);
            let end = from + usize::try_from(piece.bytes).unwrap_or(0);
            // A stream's batches come one after another: behind the one before it, it was not waiting for the disk.
            let before = match place.checked_sub(1).map(|before| &self.queue[before]) {
                None => self.last_done,
                Some(Slot::Ready(before)) => before.batch.done,
                Some(Slot::UnderWay { .. }) => wanted,
            };
            let batch = Batch { wanted: wanted.max(before), submitted, done: now, bytes: piece.bytes };
            self.note(batch);
            self.queue[place] = Slot::Ready(Ready { pages, from, end, batch });
        }
        self.wake.notify_all();
    }

    /// Why a transfer did not bring what it was for.
    fn failure_of(&mut self, piece: &Piece, result: Result<usize, i32>) -> Option<Failure> {
        let wanted = piece.skipped + piece.bytes;
        match result {
            Ok(moved) if moved as u64 >= wanted => None,
            Ok(_) => Some(match self.source.look_again() {
                Ok(size) if size < piece.begin + wanted => Failure::Shrunk(size),
                _ => Failure::Errno(EIO),
            }),
            Err(errno) => Some(Failure::Errno(errno)),
        }
    }

    fn note(&mut self, batch: Batch) {
        self.stats.came(&batch, self.contract.bound);
        if self.is_read {
            let ready = self.queue.iter().take_while(|slot| matches!(slot, Slot::Ready(_)));
            let ahead = ready.map(Slot::bytes).sum();
            self.stats.least_ahead = Some(self.stats.least_ahead.map_or(ahead, |least| least.min(ahead)));
        }
        if self.contract.notes_batches && self.notes.len() < NOTES_MAX {
            self.notes.push(batch);
        }
    }

    /// The next batch for the program.
    pub(crate) fn take(&mut self) -> Option<Ready> {
        if !matches!(self.queue.front(), Some(Slot::Ready(_))) {
            return None;
        }
        let Some(Slot::Ready(ready)) = self.queue.pop_front() else { return None };
        (self.is_read, self.last_done) = (true, ready.batch.done);
        Some(ready)
    }

    /// Whether nothing comes any more: why, where that is not the file's end.
    pub(crate) fn end(&mut self, now: Nanos) -> Option<Result<(), Failure>> {
        if !self.queue.is_empty() {
            return None;
        }
        if let Some(failure) = self.failure {
            return Some(Err(failure));
        }
        if self.piece().is_some() {
            return None;
        }
        // It may have grown since.
        let _ = self.source.look_again();
        if self.piece().is_none() {
            return Some(Ok(()));
        }
        self.begin_to_want(now);
        None
    }

    /// Pages that the program has done with.
    pub(crate) fn give_back(&mut self, pages: Pages, now: Nanos) {
        if self.free.is_empty() {
            self.room_since = now;
        }
        self.free.push(pages);
    }

    /// The program goes on at a byte of the file. What is under way for another place comes back unused.
    pub(crate) fn seek(&mut self, to: u64, now: Nanos) {
        for slot in std::mem::take(&mut self.queue) {
            if let Slot::Ready(ready) = slot {
                self.give_back(ready.pages, now);
            }
        }
        (self.next, self.is_read, self.failure) = (to, false, None);
        let _ = self.source.look_again();
        self.begin_to_want(now);
    }

    /// Goes on fetching.
    pub(crate) fn go_on(&mut self, now: Nanos) {
        self.is_paused = false;
        self.begin_to_want(now);
    }

    /// The next batch is wanted from now on, or when there is credit for it.
    fn begin_to_want(&mut self, now: Nanos) {
        self.credit.accrue(now);
        self.credit_since = self.credit.enough_at(self.price()).max(now);
    }

    /// Bytes of credit that the next batch takes.
    fn price(&self) -> u64 {
        self.piece().map_or(self.batch, |piece| piece.bytes)
    }

    /// Of bytes that the program goes over, those that nobody has asked for are fetched by nobody: how many.
    pub(crate) fn pass_over(&mut self, bytes: u64) -> u64 {
        let asked: u64 = self.queue.iter().map(Slot::bytes).sum();
        let size = self.source.size.max(1);
        let most = if self.contract.repeats { u64::MAX } else { size.saturating_sub(self.next) };
        let passed = bytes.saturating_sub(asked).min(most);
        self.next += passed;
        if self.contract.repeats {
            self.next %= size;
        }
        passed
    }

    /// Another rate from now on; its memory stays as it is.
    pub(crate) fn change_rate(&mut self, rate: Rate, now: Nanos) {
        self.contract.rate = rate;
        self.credit.change(rate, self.batch, self.contract.jitter, now);
        self.begin_to_want(now);
    }

    /// Whether a program that waits would wait for ever: it is paused and nothing is on its way.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_paused && self.queue.is_empty()
    }
}

/// `EIO`.
const EIO: i32 = 5;
