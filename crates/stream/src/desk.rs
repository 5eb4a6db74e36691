//! [`Desk`]: what the thread that serves a disk and the programs that use it have in common.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use surety_kernel::KernelError;
use surety_kernel::ring::{Bell, Completed, Transfer};
use surety_model::playout::{Level, Pace, Rest, Served as Stream, Turn, Want};
use surety_units::{Nanos, Tid};

use crate::account::Account;
use crate::contract::Contract;
use crate::mode::Mode;
use crate::sink::Sink;
use crate::track::Track;

/// Batches at the device at a time at most, of all streams.
pub(crate) const BATCHES_MAX: usize = 255;

/// The thread, and what it shares with the programs.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    pub(crate) tid: Tid,
    /// What it was not given, in words.
    pub(crate) caveats: Vec<String>,
}

/// What programs and the thread have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    desk: Mutex<Desk>,
    pub(crate) bell: Bell,
}

/// A stream, either way.
#[derive(Debug)]
pub(crate) enum Way {
    In(Track),
    Out(Sink),
}

/// What a transfer under way is.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    tag: u64,
    /// `None`: of a stream that was closed meanwhile.
    stream: Option<usize>,
    is_sync: bool,
}

/// All streams, and whose batches are under way.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    ways: Vec<Option<Way>>,
    under_way: Vec<UnderWay>,
    last_tag: u64,
    pace: Pace,
    is_closing: bool,
    /// How long the thread was ready and had no CPU before it is here now.
    ready: Nanos,
    /// The thread ended: why.
    failure: Option<KernelError>,
}

impl Way {
    fn account(&mut self) -> &mut Account {
        match self {
            Way::In(track) => &mut track.account,
            Way::Out(sink) => &mut sink.account,
        }
    }

    fn contract(&self) -> &Contract {
        match self {
            Way::In(track) => &track.account.contract,
            Way::Out(sink) => &sink.account.contract,
        }
    }

    /// Batches of it at the device at a time, where it has its own.
    fn at_once(&self) -> usize {
        if self.contract().overlap { 2 } else { 1 }
    }

    fn ask(&mut self, tag: u64, times: (Nanos, Nanos)) -> Option<Transfer> {
        match self {
            Way::In(track) => track.ask(tag, times),
            Way::Out(sink) => sink.ask(tag, times),
        }
    }
}

impl Stream for Way {
    fn wants(&mut self, now: Nanos) -> Want {
        match self {
            Way::In(track) => track.wants(now),
            Way::Out(sink) => sink.wants(now),
        }
    }

    fn lasts(&self) -> Nanos {
        match self {
            Way::In(track) => track.lasts(),
            Way::Out(sink) => sink.lasts(),
        }
    }

    /// Also where its program waits for all of it.
    fn is_low(&mut self, now: Nanos) -> bool {
        let is_settling = matches!(self, Way::Out(sink) if sink.is_settling());
        let jitter = self.account().contract.jitter.max(Nanos::ZERO);
        self.wants(now) != Want::Nothing && (is_settling || self.lasts() <= jitter)
    }
}

impl Shared {
    pub(crate) fn new(bell: Bell) -> Shared {
        Shared { desk: Mutex::default(), bell }
    }

    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Served {
    pub(crate) fn new(shared: Arc<Shared>, thread: JoinHandle<()>, tid: Tid, caveats: Vec<String>) -> Served {
        Served { shared, thread: Some(thread), tid, caveats }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shared.desk().is_closing = true;
        self.shared.bell.strike();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Desk {
    /// A stream comes: its number.
    pub(crate) fn attach(&mut self, mut way: Way, now: Nanos) -> usize {
        way.account().change_mode(self.pace.mode(), now);
        let others: usize = self.ways.iter().flatten().map(Way::at_once).sum();
        if others + way.at_once() > BATCHES_MAX {
            let why = format!(
                "more than {BATCHES_MAX} batches of streams may be on its disk: they wait for one another"
            );
            way.account().unbounded.push(why);
        }
        match self.ways.iter().position(Option::is_none) {
            Some(free) => {
                self.ways[free] = Some(way);
                free
            }
            None => {
                self.ways.push(Some(way));
                self.ways.len() - 1
            }
        }
    }

    /// So long the thread was ready and had no CPU before it came here.
    pub(crate) fn was_ready(&mut self, time: Nanos) {
        self.ready = time;
    }

    /// Whether the thread is to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// When streams are served, from now on.
    pub(crate) fn change_mode(&mut self, mode: Mode, now: Nanos) {
        self.pace.change(mode);
        self.ways.iter_mut().flatten().for_each(|way| way.account().change_mode(mode, now));
    }

    /// When streams are served.
    pub(crate) fn mode(&self) -> Mode {
        self.pace.mode()
    }

    /// What the disk had for itself.
    pub(crate) fn rest(&self, now: Nanos) -> Rest {
        self.pace.rest(now)
    }

    /// A transfer to ask for now, or how long to wait at most before there may be one (`None`: until something happens).
    pub(crate) fn next(&mut self, now: Nanos, in_device: usize) -> (Option<Transfer>, Option<Nanos>) {
        let next = self.wanted(now, in_device);
        match next.0 {
            Some(_) => self.pace.works(now),
            None if self.under_way.is_empty() => self.pace.rests(now),
            None => {}
        }
        next
    }

    fn wanted(&mut self, now: Nanos, in_device: usize) -> (Option<Transfer>, Option<Nanos>) {
        if let Some(sync) = self.sync(now) {
            return (Some(sync), None);
        }
        // A bound is on batches that are in the block layer: where one is promised each stream has its next one there, or its next two, and else some of all.
        let counts = |way: &Way| way.contract().bound.is_some() || way.contract().overlap;
        let is_bounded = in_device > 1 && self.ways.iter().flatten().any(counts);
        let most = if is_bounded { BATCHES_MAX } else { in_device };
        let under_way = &self.under_way;
        if under_way.iter().filter(|transfer| !transfer.is_sync).count() >= most {
            return (None, None);
        }
        let limits: Vec<usize> = self.ways.iter().map(|way| way.as_ref().map_or(1, Way::at_once)).collect();
        let is_busy = |stream| {
            let is_its = |transfer: &&UnderWay| !transfer.is_sync && transfer.stream == Some(stream);
            is_bounded && under_way.iter().filter(is_its).count() >= limits[stream]
        };
        let first = match self.pace.turn(&mut self.ways, now, is_busy) {
            Turn::Of(first) => first,
            Turn::From(at) => return (None, Some((at - now).max(Nanos::ZERO))),
            Turn::Nothing => return (None, None),
        };
        let tag = self.last_tag + 1;
        let ready = self.ready;
        let way = self.ways[first.stream].as_mut();
        let transfer = way.and_then(|way| {
            way.account().ready = ready;
            way.ask(tag, (first.since, now))
        });
        if transfer.is_some() {
            self.last_tag = tag;
            self.under_way.push(UnderWay { tag, stream: Some(first.stream), is_sync: false });
        }
        (transfer, None)
    }

    /// A sync that a stream wants, one at a time.
    fn sync(&mut self, now: Nanos) -> Option<Transfer> {
        if self.under_way.iter().any(|transfer| transfer.is_sync) {
            return None;
        }
        let tag = self.last_tag + 1;
        let (stream, sync) = self.ways.iter_mut().enumerate().find_map(|(stream, way)| match way {
            Some(Way::Out(sink)) => sink.sync(tag, now).map(|sync| (stream, sync)),
            _ => None,
        })?;
        self.last_tag = tag;
        self.under_way.push(UnderWay { tag, stream: Some(stream), is_sync: true });
        Some(sync)
    }

    /// A transfer came back.
    pub(crate) fn complete(&mut self, done: Completed, now: Nanos) {
        let Completed { transfer, result } = done;
        let Some(place) = self.under_way.iter().position(|other| other.tag == transfer.tag) else { return };
        let UnderWay { tag, stream, .. } = self.under_way.swap_remove(place);
        // Whose stream was closed meanwhile frees the memory here.
        let mut way = stream.and_then(|stream| self.ways[stream].as_mut());
        way.iter_mut().for_each(|way| way.account().ready = self.ready);
        match way {
            Some(Way::In(track)) => track.complete(tag, transfer.pages, result, now),
            Some(Way::Out(sink)) => sink.complete(tag, transfer.pages, result, now),
            None => {}
        }
    }

    /// The ring failed: no stream goes on.
    pub(crate) fn give_up(&mut self, error: KernelError) {
        self.failure = Some(error);
        self.ways.iter_mut().flatten().for_each(|way| way.account().wake.notify_all());
    }

    /// A stream that is read.
    pub(crate) fn track(&mut self, number: usize) -> &mut Track {
        match self.ways[number].as_mut() {
            Some(Way::In(track)) => track,
            _ => unreachable!("a reader's track is there until it is dropped"),
        }
    }

    /// A stream that is written.
    pub(crate) fn sink(&mut self, number: usize) -> &mut Sink {
        match self.ways[number].as_mut() {
            Some(Way::Out(sink)) => sink,
            _ => unreachable!("a writer's sink is there until it is dropped"),
        }
    }

    /// How long the batch of a stream has been wanted that is wanted longest and is not there.
    pub(crate) fn waits(&mut self, number: usize, now: Nanos) -> Option<Nanos> {
        let since = match self.ways[number].as_mut()? {
            Way::In(track) => track.waits_since(now),
            Way::Out(sink) => sink.waits_since(now),
        };
        since.map(|since| (now - since).max(Nanos::ZERO))
    }

    /// How much of a guarantee a stream has now, and what keeps it from a higher one.
    pub(crate) fn level(&mut self, number: usize, of_station: &[String], now: Nanos) -> (Level, Vec<String>) {
        let waits = self.waits(number, now);
        let faster = self.ways.iter_mut().flatten().find_map(|way| way.account().faster());
        self.account(number).level(of_station, waits, faster)
    }

    /// What a stream either way has.
    pub(crate) fn account(&mut self, number: usize) -> &mut Account {
        self.ways[number].as_mut().expect("a stream is there until it is dropped").account()
    }

    /// Why nothing is served any more.
    pub(crate) fn failure(&self) -> Option<&KernelError> {
        self.failure.as_ref()
    }

    /// A stream ends. What is under way for it comes back to nobody.
    pub(crate) fn detach(&mut self, number: usize) -> Option<Way> {
        let way = self.ways[number].take();
        for transfer in self.under_way.iter_mut().filter(|transfer| transfer.stream == Some(number)) {
            transfer.stream = None;
        }
        way
    }
}

#[cfg(test)]
mod tests;
