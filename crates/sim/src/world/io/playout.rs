//! A stream with a buffer: one thread fetches batches of the file ahead, at real-time I/O priority, the other plays. Of a stream that writes, the one fills the buffer, and the other
//! writes what is full to the file.
//!
//! Here a fetcher for each stream: the kernel's prefetcher of 2004, and what a plan guarantees, of which each stream has its next batch in the block layer. Other streams of a disk on a
//! kernel of today have one [`Station`](super::Station).
//!
//! The fetcher has credit that accrues at the stream's rate, up to one batch and what the jitter allows; it fetches a batch when it
//! has credit for it and the buffer has room. It is a part of the kernel: where one batch is complete and there is credit and room for
//! another, that is asked for in the completion's interrupt, before the driver takes its next request. So a stream never takes more from the disk than its rate, however fast it is
//! played. This is the prefetcher of ABISS (de Nijs et al., Linux Symposium 2005), outside of the page cache.

use std::collections::VecDeque;

use surety_model::playout::{Batch, Credit, Inside, UnderRun, Waits, buffer_of, jitter_of};
use surety_model::record::StreamThread;
use surety_model::workload::{Direction, Stream};
use surety_units::Nanos;

use super::player::{Log, Plan};
use super::{Operation, Seat, Step, Storage, cost};
use crate::disk::{FileId, PAGE};

/// A buffer between a program and its file. Bytes are counted from the stream's beginning.
#[derive(Clone, Debug)]
pub(in crate::world) struct Playout {
    size: u64,
    pub batch: u64,
    pub writes: bool,
    /// What was moved between the buffer and the file ends here.
    pub fetched: u64,
    /// What the program took from it, or gave to it, ends here.
    pub played: u64,
    /// The same with what it has of the access at which it waits: a program takes what is there, and gives what there is room for.
    pub taken: u64,
    /// Whether the thread that plays waits for data, and that which fetches for room.
    pub player_waits: bool,
    pub fetcher_waits: bool,
    /// The events of the two.
    pub signals: (usize, usize),
    /// Batches that came since the program looked.
    came: Vec<(Batch, Inside)>,
    /// When the thread that moves them was woken to look again.
    pub woken: Option<Nanos>,
}

impl Playout {
    /// The buffer of a stream with batches; `signals` are the events of the thread that plays and of that which fetches.
    pub(in crate::world) fn new(stream: &Stream, batch: u64, signals: (usize, usize)) -> Playout {
        Playout {
            size: buffer_of(stream, batch),
            batch,
            writes: stream.direction == Direction::Write,
            fetched: 0,
            played: 0,
            taken: 0,
            player_waits: false,
            fetcher_waits: false,
            signals,
            came: Vec::new(),
            woken: None,
        }
    }

    /// A batch came, for the program to know what it waited for.
    pub(super) fn notes(&mut self, batch: Batch, inside: Inside) {
        if self.player_waits {
            self.came.push((batch, inside));
        }
    }

    /// Up to here batches may be moved: as far as there is room for what is read, or as far as the program has given.
    fn limit(&self) -> u64 {
        if self.writes { self.played } else { self.played + self.size }
    }

    /// Whether the program can take or give the bytes up to here; if not, it takes or gives those that it can.
    fn is_ready(&mut self, end: u64) -> bool {
        let most = if self.writes { self.fetched + self.size } else { self.fetched };
        if end > most {
            self.taken = self.taken.max(most);
        }
        end <= most
    }

    /// A batch is there. Where all of it was dropped meanwhile it brings nothing.
    pub(super) fn arrives(&mut self, from: u64) {
        if from <= self.fetched {
            self.fetched = self.fetched.max(from + self.batch);
        }
    }
}

/// The thread that fetches.
pub(in crate::world) struct Fetcher {
    seat: Seat,
    playout: usize,
    file: FileId,
    /// Batches in the file.
    batches: u64,
    /// Of what is played from the buffer: when a batch is late.
    plan: Plan,
    credit: Credit,
    /// Whether a bound counts on it to ask for a batch as soon as it may.
    is_guaranteed: bool,
    is_fetching: bool,
    /// Where the batches under way begin: that which is read, and one that follows.
    under_way: VecDeque<u64>,
    /// Batches that are there.
    complete: usize,
}

impl Fetcher {
    /// The fetcher of a stream whose file has so many bytes.
    pub(in crate::world) fn new(
        seat: Seat,
        playout: usize,
        stream: &Stream,
        batch: u64,
        (file, bytes): (FileId, u64),
    ) -> Fetcher {
        let batches = (bytes / batch).max(1);
        Fetcher {
            seat,
            playout,
            file,
            batches,
            plan: Plan::new(stream),
            credit: Credit::full(stream.rate, batch, jitter_of(stream), Nanos::ZERO),
            is_guaranteed: stream.is_reserved(),
            is_fetching: false,
            under_way: VecDeque::with_capacity(2),
            complete: 0,
        }
    }

    /// When each batch of a buffer was asked for, and when it was there; `None`: it is another fetcher's.
    pub(in crate::world) fn batches<'a>(
        &self,
        playout: usize,
        storage: &'a Storage,
    ) -> Option<&'a [(Nanos, Nanos)]> {
        (self.playout == playout).then(|| storage.accesses(self.seat.process))
    }

    /// When the batch of a buffer was asked for that is not there yet.
    pub(in crate::world) fn open(&self, playout: usize, storage: &Storage) -> Option<Nanos> {
        storage.open_access(self.seat.process).filter(|_| self.playout == playout)
    }

    pub(in crate::world) fn next(
        &mut self,
        now: Nanos,
        storage: &mut Storage,
        playouts: &mut [Playout],
    ) -> Step {
        let playout = &mut playouts[self.playout];
        let mut wait = None;
        if self.is_fetching {
            wait = self.seat.waits(now, storage);
            self.is_fetching = wait.is_some();
            let complete = storage.take_passed(self.seat.process) + u64::from(wait.is_none());
            for from in self.under_way.drain(..usize::try_from(complete).expect("two at most")) {
                playout.arrives(from);
                if let Some(&(asked, complete)) = storage.accesses(self.seat.process).get(self.complete) {
                    let device = storage.take_requests(self.seat.process, complete);
                    // What is asked for in a completion's interrupt is wanted then.
                    let batch = Batch { wanted: asked, submitted: asked, done: now, ..Batch::default() };
                    playout.notes(batch, Inside { queued: asked, device });
                }
                self.complete += 1;
            }
            if complete > 0 && std::mem::take(&mut playout.player_waits) {
                return Step::Signal(playout.signals.0);
            }
        }
        self.credit.accrue(now);
        let price = playout.batch;
        if let Some(wait) = wait {
            let behind = self.under_way.back().map_or(0, |from| from + playout.batch).max(playout.fetched);
            if behind + playout.batch <= playout.limit()
                && self.credit.is_enough(price)
                && !storage.is_chained(self.seat.process)
            {
                self.credit.take(price);
                let (operation, late) = self.batch(behind, playout);
                self.under_way.push_back(behind);
                storage.chain(self.seat.process, operation, late);
            }
            return wait;
        }
        if playout.fetched + playout.batch > playout.limit() {
            playout.fetcher_waits = true;
            return Step::Wait(self.seat.signal);
        }
        if !self.credit.is_enough(price) {
            // Who is not guaranteed looks again when the next access is played, by which it has the credit at the latest.
            if !(playout.player_waits || self.is_guaranteed) {
                playout.fetcher_waits = true;
                return Step::Wait(self.seat.signal);
            }
            return Step::SleepUntil(self.credit.enough_at(price));
        }
        self.credit.take(price);
        let (operation, late) = self.batch(playout.fetched, playout);
        self.under_way.push_back(playout.fetched);
        storage.begin(self.seat.process, operation, late);
        self.is_fetching = true;
        Step::Run(cost(playout.batch, true))
    }

    /// The access of the batch from a byte of the stream on, and when it is late: when the program's access to its first byte is.
    fn batch(&mut self, from: u64, playout: &Playout) -> (Operation, Option<Nanos>) {
        let bytes = playout.batch;
        let first = from / bytes % self.batches * bytes;
        let (first, end) = (first / PAGE, (first + bytes).div_ceil(PAGE));
        self.plan.number = from / self.plan.access;
        let late = self.plan.release() + self.plan.deadline;
        (Operation::direct(self.file, playout.writes, first, end), Some(late))
    }
}

/// The thread that plays.
pub(in crate::world) struct Viewer {
    seat: Seat,
    playout: usize,
    plan: Plan,
    /// Since when it is at its access; `None`: it is to begin it.
    begun: Option<Nanos>,
    is_copied: bool,
    log: Log,
    /// Since when it waits for a batch.
    needs: Option<Nanos>,
    /// When it had its first bytes, and which access that was.
    first: Option<(Nanos, u64)>,
    waits: Waits,
}

impl Viewer {
    /// The thread of a stream that takes its accesses from a buffer.
    pub(in crate::world) fn new(seat: Seat, playout: usize, (stream, activity): (&Stream, usize)) -> Viewer {
        let log = Log::new(activity);
        let (begun, needs, first, waits) = (None, None, None, Waits::default());
        Viewer { seat, playout, plan: Plan::new(stream), begun, is_copied: false, log, needs, first, waits }
    }

    pub(in crate::world) fn next(
        &mut self,
        now: Nanos,
        storage: &mut Storage,
        playouts: &mut [Playout],
    ) -> Step {
        let playout = &mut playouts[self.playout];
        let release = self.plan.release();
        let Some(start) = self.begun else {
            if now < release {
                return Step::SleepUntil(release);
            }
            if now > release + self.plan.deadline {
                self.log.add(&self.plan, None, now, storage);
                return self.go_on(now, playout, false);
            }
            self.begun = Some(now);
            return self.next(now, storage, playouts);
        };
        self.account(now, playout);
        if !playout.is_ready(playout.played + self.plan.access) {
            self.needs = Some(now);
            // It waits for this one, which does not come before it has fetched; it is told once.
            let is_told = std::mem::replace(&mut playout.player_waits, true);
            if !is_told && std::mem::take(&mut playout.fetcher_waits) {
                playout.woken = Some(now);
                return Step::Signal(playout.signals.1);
            }
            return Step::Wait(self.seat.signal);
        }
        if !std::mem::replace(&mut self.is_copied, true) {
            return Step::Run(cost(self.plan.access, false));
        }
        (self.begun, self.is_copied) = (None, false);
        self.log.add(&self.plan, Some(start), now, storage);
        self.go_on(now, playout, true)
    }

    /// What it waited for until now. As on the host, one that has not had its first byte waits for the beginning.
    fn account(&mut self, now: Nanos, playout: &mut Playout) {
        let owed = self
            .first
            .map(|(at, number)| at + self.plan.release() - Plan { number, ..self.plan.clone() }.release());
        if let (Some(needs), Some(owed)) = (self.needs.take(), owed) {
            let mut needed = needs.max(owed);
            for (batch, inside) in playout.came.drain(..) {
                if let Some(under_run) = UnderRun::of(needed, &batch, now) {
                    self.waits.add(&under_run, Some(&inside));
                    // What came behind it was there by then.
                    needed = now;
                }
            }
        }
        playout.came.clear();
        if self.first.is_none() && (playout.writes || playout.fetched > 0) {
            self.first = Some((now, self.plan.number));
        }
    }

    /// What it waited for, and how often.
    pub(in crate::world) fn waits(&self) -> Waits {
        self.waits
    }

    /// The access is over: its bytes leave the buffer, or are in it.
    fn go_on(&mut self, now: Nanos, playout: &mut Playout, is_done: bool) -> Step {
        self.plan.number += 1;
        if playout.writes {
            // What was dropped was given to nobody.
            playout.played += u64::from(is_done) * self.plan.access;
        } else {
            playout.played = self.plan.number * self.plan.access;
            // Dropped before it was fetched: nobody fetches it any more.
            playout.fetched = playout.fetched.max(playout.played / playout.batch * playout.batch);
        }
        playout.taken = playout.taken.max(playout.played);
        if std::mem::take(&mut playout.fetcher_waits) {
            playout.woken = Some(now);
            return Step::Signal(playout.signals.1);
        }
        Step::SleepUntil(self.plan.release())
    }

    /// Which buffer it plays from.
    pub(in crate::world) fn playout(&self) -> usize {
        self.playout
    }

    /// What it did until the run's end, with its CPU time and the time it waited for one.
    pub(in crate::world) fn close(&self, end: Nanos, got: (Nanos, Nanos)) -> StreamThread {
        self.log.close(&self.plan, self.begun, end, got)
    }
}

#[cfg(test)]
mod tests {
    use surety_model::formats::toml;

    use super::*;

    /// A program takes what is there of an access that it waits for, and gives what there is room for, as one of the host does.
    #[test]
    fn an_access_is_taken_in_parts() {
        let text = "format = 1\n[[stream]]\nname = 's'\nfile = { make = '1MB' }\nrate = '1MB/s'\nread = '64KiB'\nbatch = '40KiB'\n";
        let mut stream =
            toml::read("s.toml", text).unwrap_or_else(|wrong| panic!("{wrong}")).streams.remove(0);
        let (batch, access) = (40 << 10, 64 << 10);
        let mut reads = Playout::new(&stream, batch, (0, 1));
        reads.arrives(0);
        assert!(!reads.is_ready(access));
        assert_eq!((reads.taken, reads.played), (batch, 0));
        reads.arrives(batch);
        assert!(reads.is_ready(access));
        // The rest when it is copied.
        assert_eq!(reads.taken, batch);
        stream.direction = Direction::Write;
        let mut writes = Playout::new(&stream, batch, (0, 1));
        let end = writes.size + access - 1;
        assert!(!writes.is_ready(end));
        assert_eq!(writes.taken, writes.size);
    }

    /// A batch that was dropped while it came is none of those behind it.
    #[test]
    fn what_was_dropped_brings_nothing() {
        let batch = 100;
        let (played, fetched, waits) = (0, 100, false);
        let (player_waits, fetcher_waits) = (waits, waits);
        let mut playout = Playout {
            size: 1_000,
            batch,
            writes: false,
            fetched,
            played,
            taken: played,
            player_waits,
            fetcher_waits,
            signals: (0, 0),
            came: Vec::new(),
            woken: None,
        };
        playout.arrives(100);
        assert_eq!(playout.fetched, 200);
        playout.fetched = 500;
        playout.arrives(200);
        assert_eq!(playout.fetched, 500);
        playout.arrives(600);
        assert_eq!(playout.fetched, 500);
    }
}
