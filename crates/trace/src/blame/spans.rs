//! Where the time of a whole start-up went, or of a late or dropped access of a stream: over all threads that it waited for.
//!
//! What is told is the *critical path*, found backward from the end. The time from begin to end is what the thread did that ended it; a
//! sleep of it that another thread ended is what that one did meanwhile, and so on ([`Timelines::path`]). A sleep that a disk ended is
//! told by its causes at the disk, one that the clock ended is a wait for the clock, or think time where the thread of a replay says so.
//! A thread that was not there yet is one that sleeps until it is made.
//!
//! So every instant has one cause, and the parts sum to the whole exactly. The windows only ever get narrower: what another thread did
//! before it was waited for is no part of it. The method is that of F. Giraldeau and M. Dagenais, Wait analysis of distributed systems
//! using kernel tracing, IEEE TPDS 27(8), 2016, of one machine.
//!
//! A program is waited for by a thread that only looks at it now and then: its marker names the program's first thread, and the path
//! goes back from the last instant at which that one was awake.

use std::collections::BTreeSet;

use surety_model::event::{Span, SpanFate, SpanMarker};
use surety_units::Nanos;

use super::past::{keep, room};
use super::tells::Tells;
use super::timeline::{Did, Timelines, Watched, Woke, awaited_interrupt};
use super::{Average, Cause, Culprit, THREAD_CHANGES_MAX};
use crate::jobs::watch::Waker;

/// Start-ups, or accesses of a stream, that are told.
pub const SPANS_MAX: usize = 1 << 12;
/// Names of others that are remembered.
const NAMES_MAX: usize = 256;
/// Threads that wait for one another at one instant: more than in any trace whose clocks agree.
const DEPTH_MAX: usize = 64;

/// A start-up or an access, and where its time went.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanBlame {
    /// What became of it.
    pub span: Span<()>,
    /// Its causes, which sum to its time.
    pub average: Average,
}

impl SpanBlame {
    /// How long it took.
    pub fn time(&self) -> Nanos {
        self.span.end - self.span.begin
    }
}

/// All that a trace shows of an activity's start-ups or accesses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spans {
    /// In order of time, at most [`SPANS_MAX`].
    pub told: Vec<SpanBlame>,
    /// How many more there are.
    pub untold: u64,
    /// Start-ups that began and whose end is not in the trace.
    pub unended: u64,
    /// Every activity of which there is something, and whether that is a start-up.
    pub names: BTreeSet<(bool, String)>,
}

impl Timelines {
    /// A thread says something of a start-up or a stream.
    pub(super) fn take_span(&mut self, slot: usize, worker: Option<usize>, marker: &SpanMarker<&str>) {
        let Tells::Spans(wanted) = &self.tells else { return };
        match marker {
            SpanMarker::Thought { from, until } => {
                let most = room(THREAD_CHANGES_MAX, self.disks.is_starting);
                if let Some(Some(thread)) = self.threads.get_mut(slot) {
                    keep(&mut thread.thoughts, (*from, *until), most);
                }
            }
            SpanMarker::Begun(name) => {
                let is_wanted = wanted.are_startups && wanted.name == *name;
                self.name(true, name);
                if is_wanted {
                    self.blames.spans.unended += u64::from(self.disks.is_starting);
                    self.remember(true);
                }
            }
            SpanMarker::Over(span) => {
                let is_startup = span.fate.is_startup();
                let is_wanted = wanted.are_startups == is_startup && wanted.name == span.name;
                self.name(is_startup, span.name);
                if is_wanted && self.window.contains(span.begin) {
                    self.tell_span(slot, worker, span);
                }
                if is_wanted && is_startup {
                    self.remember(false);
                }
            }
        }
    }

    fn name(&mut self, is_startup: bool, name: &str) {
        let names = &mut self.blames.spans.names;
        if names.len() < NAMES_MAX && !names.contains(&(is_startup, name.to_owned())) {
            names.insert((is_startup, name.to_owned()));
        }
    }

    fn tell_span(&mut self, slot: usize, worker: Option<usize>, span: &Span<&str>) {
        if self.blames.spans.told.len() >= SPANS_MAX {
            self.blames.spans.untold += 1;
            return;
        }
        let Span { fate, number, begin, end, thread, .. } = *span;
        let mut average = Average { jobs: 1, response: end - begin, ..Average::default() };
        let mut tell = |from: Nanos, until: Nanos, cause| {
            if from < until {
                average.add_time(cause, until - from);
            }
        };
        let worker = worker.filter(|worker| *worker != slot);
        let awake = worker.map_or(begin, |worker| self.awake_until(worker, (begin, end)));
        if let Some(worker) = worker {
            self.path(worker, (begin, awake), 0, &mut tell);
        }
        match fate {
            // What its first thread waited for then is known once that is over.
            SpanFate::GivenUp if worker.is_some() => tell(awake, end, Cause::Unknown),
            _ => self.path(slot, (awake, end), 0, &mut tell),
        }
        let span = Span { fate, number, begin, end, thread, name: () };
        self.blames.spans.told.push(SpanBlame { span, average });
    }

    /// The last instant of a time at which a thread was there and did not sleep.
    fn awake_until(&self, slot: usize, (begin, end): (Nanos, Nanos)) -> Nanos {
        let mut awake = begin;
        if let Some(Some(thread)) = self.threads.get(slot) {
            self.walk_thread(slot, thread, (begin, end), |_, until, _, did| {
                if !matches!(did, Did::Slept { .. }) {
                    awake = until;
                }
            });
        }
        awake
    }

    /// Walks a stretch of time of a thread, and of those it waited for: every instant of it once.
    fn path(
        &self,
        slot: usize,
        (from, until): (Nanos, Nanos),
        depth: usize,
        tell: &mut dyn FnMut(Nanos, Nanos, Cause),
    ) {
        let Some(Some(thread)) = self.threads.get(slot) else {
            return tell(from, until, Cause::Unknown);
        };
        self.walk_thread(slot, thread, (from, until), |from, until, _, did| match did {
            Did::Waited(cause) => tell(from, until, cause),
            Did::Slept { is_seen } => self.sleep(slot, (from, until), (is_seen, depth), tell),
            Did::Ran { prio } => {
                let ran = Cause::Ran(Culprit { tid: thread.tid, comm: thread.comm, prio });
                thread.thinks((from, until), ran, tell);
            }
        });
    }

    /// Tells a sleep.
    fn sleep(
        &self,
        slot: usize,
        (from, until): (Nanos, Nanos),
        (is_seen, depth): (bool, usize),
        tell: &mut dyn FnMut(Nanos, Nanos, Cause),
    ) {
        let Some(Some(thread)) = self.threads.get(slot) else { return };
        // One that went on behind the end of what is told is told as far.
        let woken = thread.places.lasts(until);
        if let Some(awaited) = self.disks.awaited(thread.tid, (from, woken)) {
            return self.disks.walk(awaited, (from, until), tell);
        }
        match thread.woken_by(woken) {
            Some(Woke::Thread(waker)) if depth < DEPTH_MAX && self.is_remembered(slot, &waker) => {
                self.path(waker.slot, (from, until), depth + 1, tell);
            }
            Some(Woke::Thread(waker)) => tell(from, until, waker.cause()),
            Some(Woke::Interrupt(context)) => {
                thread.thinks((from, until), awaited_interrupt(context), tell);
            }
            None if is_seen => thread.thinks((from, until), Cause::Blocked, tell),
            None => tell(from, until, Cause::Unknown),
        }
    }

    /// Whether what a waker did is remembered, and not that of another that got its slot since.
    fn is_remembered(&self, slot: usize, waker: &Waker) -> bool {
        let known = self.threads.get(waker.slot).and_then(Option::as_ref);
        known.is_some_and(|thread| waker.slot != slot && thread.tid == waker.tid)
    }
}

impl Watched {
    /// Tells a time that is think time as far as the thread says so, and else what is given.
    fn thinks(&self, (from, until): (Nanos, Nanos), cause: Cause, tell: &mut dyn FnMut(Nanos, Nanos, Cause)) {
        let mut cursor = from;
        let first = self.thoughts.partition_point(|(_, end)| *end <= from);
        for (begin, end) in self.thoughts.range(first..) {
            let (begin, end) = (*begin.max(&cursor), *end.min(&until));
            if begin >= end {
                break;
            }
            if cursor < begin {
                tell(cursor, begin, cause);
            }
            tell(begin, end, Cause::Think);
            cursor = end;
        }
        if cursor < until {
            tell(cursor, until, cause);
        }
    }
}

#[cfg(test)]
mod tests;
