//! [`Desk`]: what the thread that serves a disk and the programs that read from it have in common.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use surety_kernel::KernelError;
use surety_kernel::ring::{Bell, Completed, Transfer};
use surety_units::{Nanos, Tid};

use crate::order::Candidate;
use crate::track::{Track, Want};

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

/// All streams, and whose batches are under way.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    tracks: Vec<Option<Track>>,
    /// Batches by their tags, and whose they are; `None`: of a stream that was closed meanwhile.
    under_way: Vec<(u64, Option<usize>)>,
    last_tag: u64,
    is_closing: bool,
    /// The thread ended: why.
    failure: Option<KernelError>,
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
    pub(crate) fn attach(&mut self, track: Track) -> usize {
        match self.tracks.iter().position(Option::is_none) {
            Some(free) => {
                self.tracks[free] = Some(track);
                free
            }
            None => {
                self.tracks.push(Some(track));
                self.tracks.len() - 1
            }
        }
    }

    /// Whether the thread is to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// A batch to ask for now, or how long to wait at most before there may be one (`None`: until something happens).
    pub(crate) fn next(&mut self, now: Nanos, in_device: usize) -> (Option<Transfer>, Option<Nanos>) {
        if self.under_way.len() >= in_device {
            return (None, None);
        }
        let mut soonest: Option<Nanos> = None;
        let mut first: Option<Candidate> = None;
        for (stream, track) in self.tracks.iter_mut().enumerate() {
            let Some(track) = track else { continue };
            match track.wants(now) {
                Want::Since(since) => {
                    let candidate = Candidate { stream, lasts: track.lasts(), since };
                    if first.is_none_or(|first| candidate.is_before(&first)) {
                        first = Some(candidate);
                    }
                }
                Want::From(at) => soonest = Some(soonest.map_or(at, |soonest| soonest.min(at))),
                Want::Nothing => {}
            }
        }
        let Some(first) = first else {
            return (None, soonest.map(|at| (at - now).max(Nanos::ZERO)));
        };
        let tag = self.last_tag + 1;
        let track = self.tracks[first.stream].as_mut();
        let transfer = track.and_then(|track| track.ask(tag, (first.since, now)));
        if transfer.is_some() {
            self.last_tag = tag;
            self.under_way.push((tag, Some(first.stream)));
        }
        (transfer, None)
    }

    /// A transfer came back.
    pub(crate) fn complete(&mut self, done: Completed, now: Nanos) {
        let Completed { transfer, result } = done;
        let Some(place) = self.under_way.iter().position(|(tag, _)| *tag == transfer.tag) else { return };
        let (tag, stream) = self.under_way.swap_remove(place);
        // Whose stream was closed meanwhile frees the memory here.
        if let Some(track) = stream.and_then(|stream| self.tracks[stream].as_mut()) {
            track.complete(tag, transfer.pages, result, now);
        }
    }

    /// The ring failed: no stream goes on.
    pub(crate) fn give_up(&mut self, error: KernelError) {
        self.failure = Some(error);
        self.tracks.iter().flatten().for_each(|track| track.wake.notify_all());
    }

    /// A stream.
    pub(crate) fn track(&mut self, number: usize) -> &mut Track {
        self.tracks[number].as_mut().expect("a reader's track is there until it is dropped")
    }

    /// Why nothing is served any more.
    pub(crate) fn failure(&self) -> Option<&KernelError> {
        self.failure.as_ref()
    }

    /// A stream ends. What is under way for it comes back to nobody.
    pub(crate) fn detach(&mut self, number: usize) -> Option<Track> {
        let track = self.tracks[number].take();
        for (_, stream) in self.under_way.iter_mut().filter(|(_, stream)| *stream == Some(number)) {
            *stream = None;
        }
        track
    }
}
