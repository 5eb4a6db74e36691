//! [`Station`]: the thread that serves the streams of one disk, as that of crate `stream` does on a kernel of today.
//!
//! It has two batches at the disk at most, of all its streams, and asks for the next one by the host's rule ([`Pace`]): the stream first whose buffer is empty first, when there is
//! room for a batch and credit; or, with the longest batches, all of them when one is low. Then it sleeps until a batch is there, until there is credit, or until a program has made
//! room. A batch is a direct access of a process of its own, so that two can be under way.

use std::collections::VecDeque;

use surety_block::ProcessId;
use surety_model::playout::{Batch, Inside, Ledger, Pace, Rest, Served, Turn, Want};
use surety_model::workload::{BatchMode, Direction, Stream};
use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::player::Plan;
use super::playout::Playout;
use super::{Operation, Step, Storage, cost};
use crate::disk::{FileId, PAGE};

/// Batches at the disk at a time, as many as the host's station has there.
pub(in crate::world) const IN_DEVICE: usize = 2;
/// Batches of one stream that overlap.
pub(in crate::world) const OVERLAPPING: usize = 2;

/// One stream.
#[derive(Debug)]
struct Track {
    /// Which buffer.
    playout: usize,
    ledger: Ledger,
    /// Batches at the disk at a time, where each stream has its own.
    at_once: usize,
    writes: bool,
    batch: u64,
    /// The account of its requests.
    account: usize,
    file: FileId,
    /// Batches in the file.
    in_file: u64,
    /// Of what is played from the buffer: when a batch is late.
    plan: Plan,
    /// Since when each batch was waited for, and when it was there.
    batches: Vec<(Nanos, Nanos)>,
}

/// The process of a batch, and the stream and first byte of the one that it is at.
#[derive(Debug)]
struct Lane {
    process: ProcessId,
    at: Option<(usize, u64)>,
    /// When it was asked for, and how long the thread had been ready for that.
    asked: (Nanos, Nanos),
}

/// The thread.
pub(in crate::world) struct Station {
    signal: usize,
    lanes: Vec<Lane>,
    tracks: Vec<Track>,
    pace: Pace,
    /// Events to be raised: whose programs wait for what is there now.
    wakes: VecDeque<usize>,
    /// It sleeps until then, if nothing else happens.
    sleeps_until: Option<Nanos>,
    /// Since when it had been ready when it came here.
    ready_since: Nanos,
}

impl Track {
    /// The access of the next batch, which was wanted since an instant, and when it is late: when the program's access to its first byte is.
    fn ask(&mut self, wanted: Nanos) -> (u64, Operation, Nanos) {
        let (from, batch) = (self.ledger.ask(wanted), self.batch);
        let first = from / batch % self.in_file * batch;
        self.plan.number = from / self.plan.access;
        let late = self.plan.release() + self.plan.deadline;
        let (first, end) = (first / PAGE, (first + batch).div_ceil(PAGE));
        (from, Operation::direct(self.file, self.writes, first, end), late)
    }
}

impl Served for Track {
    fn wants(&mut self, now: Nanos) -> Want {
        self.ledger.wants(now)
    }

    fn lasts(&self) -> Nanos {
        self.ledger.lasts()
    }

    fn is_low(&mut self, now: Nanos) -> bool {
        self.ledger.is_low(now)
    }
}

impl Station {
    /// A station that is woken by an event.
    pub(in crate::world) fn new(signal: usize, mode: BatchMode) -> Station {
        let mut pace = Pace::default();
        pace.change(mode);
        Station {
            signal,
            lanes: Vec::new(),
            tracks: Vec::new(),
            pace,
            wakes: VecDeque::new(),
            sleeps_until: None,
            ready_since: Nanos::MAX,
        }
    }

    /// Further processes of its batches: as many may be under way as there are.
    pub(in crate::world) fn serve_with(&mut self, processes: &[ProcessId]) {
        let none = (Nanos::ZERO, Nanos::ZERO);
        self.lanes.extend(processes.iter().map(|process| Lane { process: *process, at: None, asked: none }));
    }

    /// The event that wakes it.
    pub(in crate::world) fn signal(&self) -> usize {
        self.signal
    }

    /// The mode of its streams.
    pub(in crate::world) fn mode(&self) -> BatchMode {
        self.pace.mode()
    }

    /// Another stream, whose file has `bytes` bytes; its requests are counted in an account. Of those that are as urgent, who comes first is drawn: on a kernel
    /// it is whose thread is woken first.
    pub(in crate::world) fn attach(
        &mut self,
        stream: &Stream,
        (playout, batch): (usize, u64),
        (file, bytes): (FileId, u64),
        account: usize,
        chance: &mut Pcg,
    ) {
        let place = chance.below(self.tracks.len() as u64 + 1) as usize;
        let track = Track {
            playout,
            ledger: Ledger::new(stream, batch, self.pace.mode(), Nanos::ZERO),
            at_once: if stream.overlap { OVERLAPPING } else { usize::MAX },
            writes: stream.direction == Direction::Write,
            batch,
            account,
            file,
            in_file: (bytes / batch).max(1),
            plan: Plan::new(stream),
            batches: Vec::new(),
        };
        self.tracks.insert(place, track);
    }

    /// Of the stream with a buffer, when each batch was wanted and when it was there; `None`: it is another station's.
    pub(in crate::world) fn batches(&self, playout: usize) -> Option<&[(Nanos, Nanos)]> {
        Some(&self.track(playout)?.batches)
    }

    /// Since when the first batch of such a stream is waited for that is not there.
    pub(in crate::world) fn open(&self, playout: usize) -> Option<Nanos> {
        self.track(playout)?.ledger.waits_since()
    }

    /// Bytes of the buffer of such a stream, in whole batches.
    pub(in crate::world) fn buffer(&self, playout: usize) -> Option<u64> {
        Some(self.track(playout)?.ledger.memory())
    }

    fn track(&self, playout: usize) -> Option<&Track> {
        self.tracks.iter().find(|track| track.playout == playout)
    }

    /// What the disk had for itself until an instant.
    pub(in crate::world) fn rest(&self, now: Nanos) -> Rest {
        self.pace.rest(now)
    }

    pub(in crate::world) fn next(
        &mut self,
        now: Nanos,
        storage: &mut Storage,
        playouts: &mut [Playout],
    ) -> Step {
        self.wakes_up(now, playouts);
        self.collect(now, storage, playouts);
        if let Some(player) = self.wakes.pop_front() {
            return Step::Signal(player);
        }
        let Some(lane) = self.lanes.iter().position(|lane| lane.at.is_none()) else {
            return self.wait(playouts, Nanos::MAX);
        };
        for track in &mut self.tracks {
            let playout = &playouts[track.playout];
            track.ledger.look((playout.fetched, playout.taken), now);
        }
        let limits: Vec<usize> = self.tracks.iter().map(|track| track.at_once).collect();
        let under_way =
            |stream| self.lanes.iter().filter(|lane| lane.at.is_some_and(|(of, _)| of == stream)).count();
        let is_busy = |stream: usize| limits[stream] < usize::MAX && under_way(stream) >= limits[stream];
        let until = match self.pace.turn(&mut self.tracks, now, is_busy) {
            Turn::Of(first) => {
                self.pace.works(now);
                let track = &mut self.tracks[first.stream];
                let (from, operation, late) = track.ask(first.since);
                let Lane { process, at, asked } = &mut self.lanes[lane];
                *at = Some((first.stream, from));
                // It runs from here on.
                let ready = (now - std::mem::replace(&mut self.ready_since, Nanos::MAX)).max(Nanos::ZERO);
                *asked = (now, ready);
                storage.count_in(*process, track.account);
                storage.begin(*process, operation, Some(late));
                return Step::Run(cost(track.batch, true));
            }
            Turn::From(at) => at,
            Turn::Nothing => Nanos::MAX,
        };
        if self.lanes.iter().all(|lane| lane.at.is_none()) {
            self.pace.rests(now);
        }
        self.wait(playouts, until)
    }

    /// Goes on with what is under way, and takes what is there.
    fn collect(&mut self, now: Nanos, storage: &mut Storage, playouts: &mut [Playout]) {
        for lane in &mut self.lanes {
            let Some((stream, from)) = lane.at else { continue };
            if storage.is_at_disk(lane.process) || !storage.poll(now, lane.process) {
                continue;
            }
            lane.at = None;
            let track = &mut self.tracks[stream];
            let playout = &mut playouts[track.playout];
            let since = track.ledger.complete(from, now, |from| playout.arrives(from));
            track.batches.extend(since.map(|since| (since, now)));
            let device = storage.take_requests(lane.process, now);
            let complete = device.iter().map(|(_, complete)| *complete).max();
            self.ready_since = self.ready_since.min(complete.unwrap_or(now));
            let (submitted, ready) = lane.asked;
            let (wanted, ready) = (since.unwrap_or(submitted), (ready, Nanos::ZERO));
            let batch = Batch { wanted, submitted, done: now, ready, ..Batch::default() };
            playout.notes(batch, Inside { queued: submitted, device });
            if std::mem::take(&mut playout.player_waits) {
                self.wakes.push_back(playout.signals.0);
            }
        }
    }

    /// It has the CPU: since when it was ready, where it slept.
    fn wakes_up(&mut self, now: Nanos, playouts: &mut [Playout]) {
        let Some(until) = self.sleeps_until.take() else { return };
        let woken = self.tracks.iter().filter_map(|track| playouts[track.playout].woken.take());
        self.ready_since = woken.chain((until <= now).then_some(until)).min().unwrap_or(Nanos::MAX);
    }

    /// Sleeps until something of its streams happens, or until an instant.
    fn wait(&mut self, playouts: &mut [Playout], until: Nanos) -> Step {
        self.sleeps_until = Some(until);
        for track in &self.tracks {
            let playout = &mut playouts[track.playout];
            (playout.fetcher_waits, playout.woken) = (true, None);
        }
        Step::WaitUntil(self.signal, until)
    }
}
