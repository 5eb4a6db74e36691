//! [`Sink`]: one stream that is written, as the thread that serves its disk sees it. It is told the time, and does nothing by itself.
//!
//! The program fills batches of pages; a full one is wanted at the device as soon as there is credit. What is first there is who has the least room left.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;

use surety_kernel::pages::{PAGE, Pages};
use surety_kernel::ring::{Action, Transfer};
use surety_model::playout::Want;
use surety_units::{Nanos, Rate};

use crate::account::Account;
use crate::error::StreamError;
use crate::failure::Failure;
use crate::stats::Batch;

/// A batch on its way to the device, in the order of the stream.
#[derive(Debug)]
enum Slot {
    Full {
        pages: Pages,
        part: Part,
        since: Nanos,
    },
    UnderWay {
        tag: u64,
        part: Part,
        wanted: Nanos,
        submitted: Nanos,
        ready: Nanos,
    },
    /// Since when it is there, or whether it is not.
    Done(Part, Option<Nanos>),
}

impl Slot {
    /// Whether it is at the device, for some of the same bytes.
    fn is_at(&self, other: &Part) -> bool {
        let overlaps =
            |part: &Part| part.offset < other.offset + other.bytes && other.offset < part.offset + part.bytes;
        matches!(self, Slot::UnderWay { part, .. } if overlaps(part))
    }
}

/// Where a batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// A sync of what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Syncing {
    tag: u64,
    submitted: Nanos,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) account: Account,
    file: Arc<File>,
    free: Vec<Pages>,
    queue: VecDeque<Slot>,
    /// Up to here the file is written without a gap.
    pub(crate) written: u64,
    /// When the batch was there behind which the queue begins.
    front_done: Nanos,
    /// The last batch that made room.
    pub(crate) last_done: Option<Batch>,
    pub(crate) failure: Option<Failure>,
    is_settling: bool,
    /// Bytes written since the last sync was asked for.
    unsynced: u64,
    syncing: Option<Syncing>,
    /// What a sync takes along: its memory does not count.
    sync_pages: Option<Pages>,
}

impl Sink {
    /// A stream to a file, with its memory.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn new(account: Account, free: Vec<Pages>, file: Arc<File>) -> Result<Sink, StreamError> {
        let sync_pages = account.contract.flush.map(|_| Pages::new(PAGE)).transpose()?;
        Ok(Sink {
            account,
            file,
            free,
            queue: VecDeque::new(),
            written: 0,
            front_done: Nanos::ZERO,
            last_done: None,
            failure: None,
            is_settling: false,
            unsynced: 0,
            syncing: None,
            sync_pages,
        })
    }

    /// The first batch that nobody has asked for.
    fn first(&self) -> Option<(usize, Part, Nanos)> {
        self.queue.iter().enumerate().find_map(|(place, slot)| match slot {
            Slot::Full { part, since, .. } => Some((place, *part, *since)),
            _ => None,
        })
    }

    pub(crate) fn wants(&mut self, now: Nanos) -> Want {
        // In a file that repeats a batch waits for the one of an earlier round at its place.
        let is_free = |part: &Part| !self.queue.iter().any(|slot| slot.is_at(part));
        match self.first().filter(|(_, part, _)| self.failure.is_none() && is_free(part)) {
            Some((_, part, since)) => self.account.may_ask(part.bytes, since, now),
            None => Want::Nothing,
        }
    }

    /// Since when the batch is wanted that is wanted longest and is not at the device.
    pub(crate) fn waits_since(&mut self, now: Nanos) -> Option<Nanos> {
        let mut before = self.front_done;
        for slot in &self.queue {
            match slot {
                Slot::Done(_, done) => before = done.unwrap_or(before),
                Slot::UnderWay { wanted, .. } => return Some((*wanted).max(before)),
                Slot::Full { .. } => break,
            }
        }
        match self.wants(now) {
            Want::Since(since) => Some(since.max(before)),
            Want::From(_) | Want::Nothing => None,
        }
    }

    /// How long the room lasts that is left to the program.
    pub(crate) fn lasts(&self) -> Nanos {
        self.account.lasts(self.free.len() as u64 * self.account.batch)
    }

    /// The next batch, which was wanted since an instant, goes to the device.
    pub(crate) fn ask(&mut self, tag: u64, (wanted, now): (Nanos, Nanos)) -> Option<Transfer> {
        let (place, part, _) = self.first()?;
        let way = Slot::UnderWay { tag, part, wanted, submitted: now, ready: self.account.ready };
        let Slot::Full { pages, .. } = std::mem::replace(&mut self.queue[place], way) else { return None };
        self.account.credit.take(part.bytes);
        let next = self.first().map_or(self.account.batch, |(_, part, _)| part.bytes);
        self.account.credit_since = self.account.credit.enough_at(next);
        let length = usize::try_from(part.bytes).unwrap_or(usize::MAX);
        let file = Arc::clone(&self.file);
        Some(Transfer { tag, file, action: Action::Write, offset: part.offset, length, pages })
    }

    /// A transfer is complete, or was not begun.
    pub(crate) fn complete(&mut self, tag: u64, pages: Pages, result: Result<usize, i32>, now: Nanos) {
        if self.syncing.is_some_and(|syncing| syncing.tag == tag) {
            return self.synced(pages, result, now);
        }
        let is_it = |slot: &Slot| matches!(slot, Slot::UnderWay { tag: other, .. } if *other == tag);
        let place = self.queue.iter().position(is_it);
        self.free.push(pages);
        let Some(place) = place else { return };
        let Slot::UnderWay { part, wanted, submitted, ready, .. } = self.queue[place] else { return };
        let failure = match result {
            Ok(moved) if moved as u64 == part.bytes => None,
            Ok(_) => Some(Failure::Short),
            Err(errno) => Some(Failure::Transfer { action: Action::Write, offset: part.offset, errno }),
        };
        failure.iter().for_each(|failure| self.fail(*failure));
        if failure.is_none() {
            // A stream's batches come one after another: behind the one before it, it was not waiting for the disk.
            let before = match place.checked_sub(1).map(|before| &self.queue[before]) {
                _ if self.account.contract.overlap => self.last_there(place),
                None => self.front_done,
                Some(Slot::Done(_, Some(done))) => *done,
                Some(_) => wanted,
            };
            let wanted = wanted.max(before);
            let (ready, through) = ((ready, self.account.ready), self.account.through);
            let batch = Batch { wanted, submitted, done: now, bytes: part.bytes, ready, through };
            self.account.note(batch);
            self.account.ahead(self.free.len() as u64 * self.account.batch);
            self.last_done = Some(batch);
            self.unsynced += part.bytes;
        }
        self.queue[place] = Slot::Done(part, failure.is_none().then_some(now));
        // What is not there is a gap: what is behind it does not count.
        while let Some(Slot::Done(part, Some(done))) = self.queue.front() {
            let before = if self.account.contract.overlap { self.front_done } else { *done };
            self.front_done = before.max(*done);
            self.written = self.written.max(part.offset + part.bytes);
            self.queue.pop_front();
        }
        self.account.wake.notify_all();
    }

    /// When the last of the batches before a place was there that are.
    fn last_there(&self, place: usize) -> Nanos {
        let done = |slot: &Slot| match slot {
            Slot::Done(_, done) => *done,
            Slot::Full { .. } | Slot::UnderWay { .. } => None,
        };
        self.queue.range(..place).filter_map(done).fold(self.front_done, Nanos::max)
    }

    fn synced(&mut self, pages: Pages, result: Result<usize, i32>, now: Nanos) {
        if let Some(syncing) = self.syncing.take() {
            self.account.stats.synced(now - syncing.submitted);
        }
        if let Err(errno) = result {
            self.fail(Failure::Transfer { action: Action::Sync, offset: 0, errno });
        }
        self.sync_pages = Some(pages);
        self.account.wake.notify_all();
    }

    /// It goes on no more; the first failure is told.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.account.failed(&failure);
        self.failure = self.failure.or(Some(failure));
    }

    /// A sync of what was written, where the contract wants one now.
    pub(crate) fn sync(&mut self, tag: u64, now: Nanos) -> Option<Transfer> {
        let flush = self.account.contract.flush?;
        if self.failure.is_some() || self.account.lasts(self.unsynced) < flush {
            return None;
        }
        let pages = self.sync_pages.take()?;
        self.unsynced = 0;
        self.syncing = Some(Syncing { tag, submitted: now });
        let file = Arc::clone(&self.file);
        Some(Transfer { tag, file, action: Action::Sync, offset: 0, length: 0, pages })
    }

    /// Memory for the program to fill.
    pub(crate) fn take(&mut self) -> Option<Pages> {
        self.free.pop()
    }

    /// The program filled a batch.
    pub(crate) fn push(&mut self, pages: Pages, part: Part, now: Nanos) {
        if self.first().is_none() {
            self.account.credit.accrue(now);
            self.account.credit_since = self.account.credit.enough_at(part.bytes).max(now);
        }
        self.queue.push_back(Slot::Full { pages, part, since: now });
    }

    /// Memory that the program did not fill.
    pub(crate) fn give_back(&mut self, pages: Pages) {
        self.free.push(pages);
    }

    /// The program waits until all that it filled is written; whether that is so.
    pub(crate) fn settle(&mut self) -> bool {
        self.is_settling = !self.queue.is_empty() || self.syncing.is_some();
        !self.is_settling
    }

    /// Whether the program waits for that.
    pub(crate) fn is_settling(&self) -> bool {
        self.is_settling
    }

    /// Whether nothing of it is at the device.
    pub(crate) fn is_still(&self) -> bool {
        self.syncing.is_none() && !self.queue.iter().any(|slot| matches!(slot, Slot::UnderWay { .. }))
    }

    /// Another rate from now on.
    pub(crate) fn change_rate(&mut self, rate: Rate, now: Nanos) {
        self.account.change_rate(rate, now);
        let next = self.first().map_or(self.account.batch, |(_, part, _)| part.bytes);
        self.account.credit_since = self.account.credit.enough_at(next).max(now);
    }
}
