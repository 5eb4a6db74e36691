//! [`Track`]: one stream that is read, as the thread that serves its disk sees it. It is told the time, and does nothing by itself.
//!
//! Its memory is some batches of pages. Each is free, under way, ready, or with the program; the stream's order is that of `queue`.
//! A batch is wanted when there is a free one, credit for it, and something left of the file.

use std::collections::VecDeque;
use std::sync::Arc;

use surety_kernel::pages::{PAGE, Pages};
use surety_kernel::ring::{Action, Transfer};
use surety_model::playout::Want;
use surety_units::{Nanos, Rate};

use crate::account::Account;
use crate::contract::Contract;
use crate::error::StreamError;
use crate::failure::{EIO, Failure};
use crate::source::{Grown, Layout, Piece, Source};
use crate::stats::Batch;

/// A batch in the order of the stream.
#[derive(Debug)]
enum Slot {
    UnderWay { tag: u64, piece: Piece, wanted: Nanos, submitted: Nanos, ready: Nanos },
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

/// A batch that the device failed is asked for again in smaller parts: what lies before the bad place is the program's.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// Of each part.
    bytes: u64,
    /// Where in the file that batch ended.
    end: u64,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) account: Account,
    pub(crate) source: Source,
    pub(crate) is_paused: bool,
    /// The program took something since it was opened or moved to another place.
    is_read: bool,
    free: Vec<Pages>,
    /// Since when there is a free one.
    room_since: Nanos,
    queue: VecDeque<Slot>,
    /// Where in the file the next batch begins.
    next: u64,
    search: Option<Search>,
    failure: Option<Failure>,
    /// When the batch came that the program has taken last.
    last_done: Nanos,
}

impl Track {
    /// A stream from the beginning of its file, with its memory.
    ///
    /// # Errors
    /// A contract that cannot be; ENOMEM.
    pub(crate) fn new(contract: &Contract, mut source: Source, now: Nanos) -> Result<Track, StreamError> {
        let (mut account, free) = Account::open((&source.path, contract), source.alignment, now)?;
        account.caveats.splice(0..0, source.caveats.drain(..));
        if !source.is_looked_up {
            account.may_change_metadata();
        }
        account.unbounded.extend(Layout::broken(&source.breaks, account.batch));
        Ok(Track {
            account,
            source,
            is_paused: contract.is_paused,
            is_read: false,
            free,
            room_since: now,
            queue: VecDeque::new(),
            next: 0,
            search: None,
            failure: None,
            last_done: now,
        })
    }

    /// What the next batch takes of the file; `None`: there is nothing left of it.
    fn piece(&self) -> Option<Piece> {
        let bytes = self.search.map_or(self.account.batch, |search| search.bytes);
        Some(self.source.piece(self.next, bytes)).filter(|piece| piece.bytes > 0)
    }

    pub(crate) fn wants(&mut self, now: Nanos) -> Want {
        let Some(piece) = self.piece().filter(|_| self.failure.is_none() && !self.is_paused) else {
            return Want::Nothing;
        };
        // Of parts that may be bad, one at a time: a disk tries each for long.
        let is_under_way = |slot: &Slot| matches!(slot, Slot::UnderWay { .. });
        if self.free.is_empty() || self.search.is_some() && self.queue.iter().any(is_under_way) {
            return Want::Nothing;
        }
        self.account.may_ask(piece.bytes, self.room_since, now)
    }

    /// Since when the batch is wanted that is wanted longest and is not there.
    pub(crate) fn waits_since(&mut self, now: Nanos) -> Option<Nanos> {
        let mut before = self.last_done;
        for slot in &self.queue {
            match slot {
                Slot::Ready(ready) => before = ready.batch.done,
                // As if it came now.
                Slot::UnderWay { wanted, .. } => return Some((*wanted).max(before)),
            }
        }
        match self.wants(now) {
            Want::Since(since) => Some(since.max(before)),
            Want::From(_) | Want::Nothing => None,
        }
    }

    /// How long what is there and on its way lasts.
    pub(crate) fn lasts(&self) -> Nanos {
        self.account.lasts(self.queue.iter().map(Slot::bytes).sum())
    }

    /// The next batch, which was wanted since an instant, goes to the device.
    pub(crate) fn ask(&mut self, tag: u64, (wanted, now): (Nanos, Nanos)) -> Option<Transfer> {
        let (piece, pages) = (self.piece()?, self.free.pop()?);
        self.account.credit.take(piece.bytes);
        self.next += piece.bytes;
        if self.next >= self.source.size && self.account.contract.repeats {
            self.next = 0;
        }
        self.search = self.search.filter(|search| piece.begin + piece.length < search.end);
        self.account.credit_since = self.account.credit.enough_at(self.price());
        let ready = self.account.ready;
        self.queue.push_back(Slot::UnderWay { tag, piece, wanted, submitted: now, ready });
        let length = usize::try_from(piece.length).unwrap_or(usize::MAX);
        let file = Arc::clone(&self.source.file);
        Some(Transfer { tag, file, action: Action::Read, offset: piece.begin, length, pages })
    }

    /// A transfer is complete, or was not begun.
    pub(crate) fn complete(&mut self, tag: u64, pages: Pages, result: Result<usize, i32>, now: Nanos) {
        let is_it = |slot: &Slot| matches!(slot, Slot::UnderWay { tag: other, .. } if *other == tag);
        let place = self.queue.iter().position(is_it);
        // Of a place that the program has left since.
        let Some(place) = place else { return self.give_back(pages, now) };
        let Slot::UnderWay { piece, wanted, submitted, ready, .. } = self.queue[place] else { return };
        if let Some(failure) = self.failure_of(&piece, result) {
            // What comes before it is still the program's; what is behind it is nobody's.
            self.account.failed(&failure);
            if !self.searches(&failure, &piece) {
                self.failure = Some(failure);
            }
            for slot in self.queue.split_off(place) {
                if let Slot::Ready(ready) = slot {
                    self.give_back(ready.pages, now);
                }
            }
            self.give_back(pages, now);
            self.begin_to_want(now);
        } else {
            let from = usize::try_from(piece.skipped).unwrap_or(0);
            let end = from + usize::try_from(piece.bytes).unwrap_or(0);
            // A stream's batches come one after another: behind the one before it, it was not waiting for the disk.
            let before = match place.checked_sub(1).map(|before| &self.queue[before]) {
                // Of two, all before the one that is still under way were there when this one was asked for.
                _ if self.account.contract.overlap => self.last_there(place),
                None => self.last_done,
                Some(Slot::Ready(before)) => before.batch.done,
                Some(Slot::UnderWay { .. }) => wanted,
            };
            let (ready, through) = ((ready, self.account.ready), self.account.through);
            let wanted = wanted.max(before);
            let batch = Batch { wanted, submitted, done: now, bytes: piece.bytes, ready, through };
            self.note(batch);
            self.queue[place] = Slot::Ready(Ready { pages, from, end, batch });
        }
        self.account.wake.notify_all();
    }

    /// When the last of the batches before a place was there that are.
    fn last_there(&self, place: usize) -> Nanos {
        let done = |slot: &Slot| match slot {
            Slot::Ready(ready) => Some(ready.batch.done),
            Slot::UnderWay { .. } => None,
        };
        self.queue.range(..place).filter_map(done).fold(self.last_done, Nanos::max)
    }

    /// Whether what failed is asked for again, in parts of half its size: so that its first byte that cannot be had is found in the end.
    fn searches(&mut self, failure: &Failure, piece: &Piece) -> bool {
        let unit = self.source.alignment.unwrap_or(PAGE as u64);
        let is_bad = matches!(failure, Failure::Transfer { errno: EIO, .. });
        if !is_bad || piece.length <= unit {
            return false;
        }
        let end = self.search.map_or(0, |search| search.end).max(piece.begin + piece.length);
        self.search = Some(Search { bytes: (piece.length / 2 / unit).max(1) * unit, end });
        self.next = piece.begin + piece.skipped;
        true
    }

    /// Why a transfer did not bring what it was for.
    fn failure_of(&mut self, piece: &Piece, result: Result<usize, i32>) -> Option<Failure> {
        let wanted = piece.skipped + piece.bytes;
        let offset = piece.begin + piece.skipped;
        let failed = |errno| Failure::Transfer { action: Action::Read, offset, errno };
        match result {
            Ok(moved) if moved as u64 >= wanted => None,
            Ok(_) => Some(match self.source.look_again() {
                Ok(size) if size < piece.begin + wanted => Failure::Shrunk(size),
                _ => failed(EIO),
            }),
            Err(errno) => Some(failed(errno)),
        }
    }

    fn note(&mut self, batch: Batch) {
        self.account.note(batch);
        if self.is_read {
            let ready = self.queue.iter().take_while(|slot| matches!(slot, Slot::Ready(_)));
            let ahead = ready.map(Slot::bytes).sum();
            self.account.ahead(ahead);
        }
    }

    /// The next batch for the program.
    pub(crate) fn take(&mut self) -> Option<Ready> {
        if !matches!(self.queue.front(), Some(Slot::Ready(_))) {
            return None;
        }
        let Some(Slot::Ready(ready)) = self.queue.pop_front() else { return None };
        let overlap = self.account.contract.overlap;
        let before = if overlap { self.last_done } else { ready.batch.done };
        (self.is_read, self.last_done) = (true, ready.batch.done.max(before));
        Some(ready)
    }

    /// What the file has grown by where all before that is with the program.
    pub(crate) fn grown(&self) -> Option<Grown> {
        let is_over = self.queue.is_empty() && self.failure.is_none() && self.piece().is_none();
        is_over.then(|| self.source.grown()).flatten()
    }

    /// That was looked up, and the program needed it from an instant on (`None`: it has just begun).
    pub(crate) fn go_on_to(&mut self, grown: &Grown, needed: Option<Nanos>, now: Nanos) {
        for (cause, from, until) in grown.calls {
            let from = needed.map_or(until, |needed| needed.max(from));
            self.account.stats.waits.add_call(cause, from, until);
        }
        if !grown.is_looked_up {
            self.account.may_change_metadata();
        }
        self.source.size = grown.end;
        self.begin_to_want(now);
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
        (self.next, self.is_read, self.failure, self.search) = (to, false, None, None);
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
        self.account.credit.accrue(now);
        self.account.credit_since = self.account.credit.enough_at(self.price()).max(now);
    }

    /// Bytes of credit that the next batch takes.
    fn price(&self) -> u64 {
        self.piece().map_or(self.account.batch, |piece| piece.bytes)
    }

    /// Of bytes that the program goes over, those that nobody has asked for are fetched by nobody: how many.
    pub(crate) fn pass_over(&mut self, bytes: u64) -> u64 {
        let asked: u64 = self.queue.iter().map(Slot::bytes).sum();
        let size = self.source.size.max(1);
        let most = if self.account.contract.repeats { u64::MAX } else { size.saturating_sub(self.next) };
        let passed = bytes.saturating_sub(asked).min(most);
        self.next += passed;
        if self.account.contract.repeats {
            self.next %= size;
        }
        passed
    }

    /// Another rate from now on; its memory stays as it is.
    pub(crate) fn change_rate(&mut self, rate: Rate, now: Nanos) {
        self.account.change_rate(rate, now);
        self.begin_to_want(now);
    }

    /// Whether a program that waits would wait for ever: it is paused and nothing is on its way.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_paused && self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use surety_model::playout::Level;

    const MS: fn(i64) -> Nanos = Nanos::from_millis;

    /// A batch that is not there counts from when it was wanted, and the bound is over when it is older.
    #[test]
    fn a_batch_under_way_is_as_old_as_it_is() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        let source = Source::of(file.path(), file.as_file()).unwrap();
        let batch = source.alignment.unwrap_or(PAGE as u64);
        let contract = Contract { bound: Some(MS(10)), ..Contract::new(Rate(1_000_000)).with_batch(batch) };
        let mut track = Track::new(&contract, source, MS(100)).unwrap();
        // Of the bound alone.
        (track.account.caveats, track.account.unbounded) = (Vec::new(), Vec::new());
        // There is room and credit for it from the beginning.
        assert_eq!(track.waits_since(MS(103)), Some(MS(100)));
        let Want::Since(since) = track.wants(MS(104)) else { panic!("it is wanted") };
        let transfer = track.ask(1, (since, MS(104))).unwrap();
        assert_eq!(track.waits_since(MS(110)), Some(MS(100)));
        let level = |track: &Track, waits| track.account.level(&[], Some(waits), track.account.faster()).0;
        assert_eq!((level(&track, MS(10)), level(&track, MS(11))), (Level::Admitted, Level::Scheduled));
        track.complete(1, transfer.pages, Ok(batch as usize), MS(108));
        assert_eq!(track.account.stats.worst_batch, MS(8));
        // The next one was waiting for that one until then.
        assert_eq!(track.waits_since(MS(109)), Some(MS(108)));
        // A bound is of the rate that it was admitted with, or a lower one.
        for (rate, is) in
            [(500_000, Level::Admitted), (1_000_001, Level::Scheduled), (1_000_000, Level::Admitted)]
        {
            track.change_rate(Rate(rate), MS(109));
            assert_eq!(level(&track, MS(1)), is, "{rate}");
        }
        track.is_paused = true;
        assert_eq!(track.waits_since(MS(200)), None);
    }
}
