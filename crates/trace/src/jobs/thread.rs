//! One thread's life as the events show it: where it is, what it has consumed, and the job that is open.
//!
//! Consumption is kept in running totals ([`Tally`]); a job is the difference of two of them.

use surety_model::event::{Comm, LeaveState};
use surety_model::job::{Job, Separation, ThreadHistory};
use surety_units::{CpuId, Nanos, Tid};

use super::REORDER_MAX;
use super::drain::Progress;
use super::watch::{Seen, Whereabouts};

/// Names of threads whose own work softirqs are; see [`super::interrupts`].
const SOFTIRQ_THREADS: [&[u8]; 4] = [b"ksoftirqd/", b"ktimers/", b"irq/", b"napi/"];

/// The CPU of a thread that was on none yet.
pub(super) const NOWHERE: CpuId = CpuId(u32::MAX);

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Not known.
    Unknown,
    /// It gave up the CPU.
    Asleep {
        /// When.
        since: Nanos,
    },
    /// It wants a CPU and has none.
    Waiting {
        /// Since when.
        since: Nanos,
    },
    /// It is on the CPU `last_cpu`.
    Running {
        /// Up to when its time has been counted.
        since: Nanos,
    },
}

/// Totals of a thread since it was first seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    run: Nanos,
    interrupted: Nanos,
    throttled: Nanos,
    preemptions: u32,
}

/// From waking to sleeping.
#[derive(Clone, Copy, Debug)]
struct Busy {
    /// `None`: its beginning was not seen.
    release: Option<Nanos>,
    start: Option<(Nanos, Tally)>,
    /// The thread was known to sleep before, so a wake-up recorded a little late may still come.
    reorderable: bool,
    /// A marked job began or ended in it.
    claimed: bool,
}

impl Busy {
    fn released(at: Nanos) -> Busy {
        Busy { release: Some(at), start: None, reorderable: false, claimed: false }
    }

    fn unreleased(reorderable: bool) -> Busy {
        Busy { release: None, start: None, reorderable, claimed: false }
    }
}

/// A job between its markers.
#[derive(Clone, Copy, Debug)]
struct Marked {
    index: u64,
    release: Nanos,
    start: Nanos,
    at_start: Tally,
    at_begin: Tally,
}

/// What a switch-in or a switch-out found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// It contradicts what was seen before.
    pub(super) inconsistent: bool,
    /// A busy period ended whose wake-up never came, though the thread was known to sleep before it.
    pub(super) unreleased: bool,
}

/// What a begin marker found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) misdated: bool,
    pub(super) unmatched: bool,
}

/// One thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) tid: Tid,
    pub(super) place: Place,
    /// The CPU it is on, was last on, or is queued on.
    pub(super) last_cpu: CpuId,
    /// Its priority when it was last woken or switched; below 0 in the deadline class.
    pub(super) prio: i32,
    /// Its replenishment timer, once known.
    pub(super) replenishment: Option<u64>,
    /// It was forked and has not been woken yet.
    pub(super) unborn: bool,
    /// It was switched out dead, or another thread bears its id now.
    pub(super) ended: bool,
    /// It was handed out whole and its slot is free.
    pub(super) forgotten: bool,
    /// Softirqs it runs are its own work.
    pub(super) runs_softirqs: bool,
    comm: Comm,
    tally: Tally,
    waited: Nanos,
    longest_wait: Nanos,
    throttled_since: Option<Nanos>,
    /// A wake-up that came while it was still on its CPU.
    pending: Option<Nanos>,
    /// Gaps of the trace when its busy period was released.
    gaps: u64,
    busy: Option<Busy>,
    marked: Option<Marked>,
    /// A marked job that was given up: its end is no surprise.
    dismissed: Option<u64>,
    separation: Separation,
    jobs: Vec<Job>,
    censored: u64,
    seen: (Nanos, Nanos),
}

impl Thread {
    pub(super) fn new(tid: Tid, at: Nanos) -> Thread {
        Thread {
            tid,
            place: Place::Unknown,
            last_cpu: NOWHERE,
            prio: 120,
            replenishment: None,
            unborn: false,
            ended: false,
            forgotten: false,
            runs_softirqs: false,
            comm: Comm::default(),
            tally: Tally::default(),
            waited: Nanos::ZERO,
            longest_wait: Nanos::ZERO,
            throttled_since: None,
            pending: None,
            gaps: 0,
            busy: None,
            marked: None,
            dismissed: None,
            separation: Separation::BusyPeriod,
            jobs: Vec::new(),
            censored: 0,
            seen: (at, at),
        }
    }

    #[inline]
    pub(super) fn touch(&mut self, at: Nanos) {
        self.seen.1 = at;
    }

    /// Time of the last event that names it.
    pub(super) fn last_seen(&self) -> Nanos {
        self.seen.1
    }

    /// What a watcher is told of it.
    pub(super) fn seen_as(&self) -> Seen<'_> {
        let place = match self.place {
            Place::Unknown => Whereabouts::Unknown,
            // Woken while it was on its way off its CPU: it is to be queued again at once.
            Place::Asleep { .. } if self.pending.is_some() => Whereabouts::Queued(self.last_cpu),
            Place::Asleep { .. } => Whereabouts::Asleep,
            Place::Waiting { .. } if self.throttled_since.is_some() => Whereabouts::Throttled,
            Place::Waiting { .. } if self.last_cpu == NOWHERE => Whereabouts::Unknown,
            Place::Waiting { .. } => Whereabouts::Queued(self.last_cpu),
            Place::Running { .. } => Whereabouts::On(self.last_cpu),
        };
        Seen { tid: self.tid, comm: self.comm, place, separation: self.separation, jobs: &self.jobs }
    }

    /// The name an event gives it.
    #[inline]
    pub(super) fn name(&mut self, comm: Comm) {
        if self.comm != comm {
            self.comm = comm;
            self.runs_softirqs = SOFTIRQ_THREADS.iter().any(|prefix| comm.0.starts_with(prefix));
        }
    }

    /// Whether it bears this id and is alive.
    pub(super) fn is_living(&self, tid: Tid) -> bool {
        self.tid == tid && !self.ended
    }

    pub(super) fn on_cpu_elsewhere(&self, cpu: CpuId) -> bool {
        matches!(self.place, Place::Running { .. }) && self.last_cpu != cpu
    }

    /// It is found on a CPU of which nothing was known: since when, and for which job, nobody saw.
    pub(super) fn adopt(&mut self, at: Nanos, cpu: CpuId) {
        self.touch(at);
        self.end_wait(at);
        self.replenish(at);
        self.run_on(at, cpu);
        self.busy = Some(Busy { start: Some((at, self.tally)), ..Busy::unreleased(false) });
    }

    pub(super) fn switch_in(&mut self, at: Nanos, cpu: CpuId) -> Outcome {
        self.touch(at);
        let mut outcome = Outcome::default();
        match self.place {
            Place::Waiting { .. } => self.end_wait(at),
            Place::Asleep { since } => {
                self.busy = Some(match self.pending.take() {
                    Some(release) => {
                        self.wait(release.max(since), at);
                        Busy::released(release)
                    }
                    None => Busy::unreleased(true),
                });
            }
            Place::Unknown => self.busy = Some(Busy::unreleased(false)),
            Place::Running { since } => {
                outcome.inconsistent = true;
                self.lose(since);
                self.busy = Some(Busy::unreleased(false));
            }
        }
        self.replenish(at);
        self.run_on(at, cpu);
        let tally = self.tally;
        let busy = self.busy.get_or_insert(Busy::unreleased(false));
        busy.start.get_or_insert((at, tally));
        outcome
    }

    pub(super) fn switch_out(
        &mut self,
        at: Nanos,
        cpu: CpuId,
        state: LeaveState,
        throttled: bool,
    ) -> Outcome {
        self.touch(at);
        let mut outcome = Outcome::default();
        match self.place {
            Place::Running { .. } if self.last_cpu == cpu => self.settle(at),
            Place::Unknown => {}
            Place::Running { since } | Place::Asleep { since } | Place::Waiting { since } => {
                outcome.inconsistent = true;
                self.lose(since);
            }
        }
        self.last_cpu = cpu;
        let busy = *self.busy.get_or_insert(Busy::unreleased(false));
        if state.is_blocked() {
            self.busy = None;
            self.place = Place::Asleep { since: at };
            if self.separation == Separation::BusyPeriod {
                outcome.unreleased = busy.release.is_none() && busy.reorderable;
                self.complete(busy, at);
            }
            if state == LeaveState::Dead {
                self.ended = true;
                self.dismiss();
            }
        } else {
            self.place = Place::Waiting { since: at };
            self.pending = None;
            if throttled {
                self.throttled_since = Some(at);
            } else {
                self.tally.preemptions = self.tally.preemptions.saturating_add(1);
            }
        }
        outcome
    }

    /// The request to wake. True when it only explains, a little late, why the thread is on a CPU already.
    pub(super) fn waking(&mut self, at: Nanos, gaps: u64) -> bool {
        self.touch(at);
        match self.place {
            Place::Asleep { .. } | Place::Unknown => self.release(at, at, gaps),
            Place::Waiting { .. } => {
                // A thread that waits cannot be woken unless it had got ready to sleep when it was preempted. One that
                // never ran since its release had not; one whose trace has a hole may have slept inside it.
                let never_ran = self.busy.is_none_or(|busy| busy.start.is_none());
                if never_ran || self.gaps != gaps {
                    self.lose(at);
                    self.release(at, at, gaps);
                }
            }
            Place::Running { .. } => {
                if self.explain(at) {
                    return true;
                }
                self.pending = Some(at);
            }
        }
        false
    }

    /// The thread is queued. True as for [`Thread::waking`].
    pub(super) fn wakeup(&mut self, at: Nanos, target: CpuId, gaps: u64) -> bool {
        self.touch(at);
        match self.place {
            Place::Asleep { since } => {
                let release = self.pending.take().unwrap_or(at);
                self.release(release, release.max(since), gaps);
            }
            Place::Unknown => self.release(at, at, gaps),
            Place::Waiting { .. } => {}
            Place::Running { .. } => {
                if self.explain(at) {
                    return true;
                }
                // It was woken before it had gone to sleep: it just goes on.
                self.pending = None;
                return false;
            }
        }
        self.last_cpu = target;
        false
    }

    /// Time under interrupts, as far as the thread was on its CPU.
    #[inline]
    pub(super) fn interrupt(&mut self, from: Nanos, until: Nanos) {
        if let Place::Running { since } = self.place {
            self.tally.interrupted += (until - from.max(since)).max(Nanos::ZERO);
        }
    }

    /// Its budget is back.
    #[inline]
    pub(super) fn replenish(&mut self, at: Nanos) {
        if let Some(since) = self.throttled_since.take() {
            self.touch(at);
            self.tally.throttled += at - since;
        }
    }

    pub(super) fn begin(&mut self, at: Nanos, index: u64, release: Nanos) -> Begun {
        self.touch(at);
        self.separate_by_markers();
        let unmatched = self.dismiss();
        let misdated = release > at || release.is_negative();
        if misdated || !matches!(self.place, Place::Running { .. }) {
            self.censored += 1;
            self.dismissed = Some(index);
            return Begun { misdated, unmatched };
        }
        self.settle(at);
        let now = (at, self.tally);
        let (start, at_start) = match &mut self.busy {
            Some(busy) if !busy.claimed => {
                busy.claimed = true;
                busy.start.filter(|(start, _)| *start >= release).unwrap_or(now)
            }
            _ => now,
        };
        self.marked = Some(Marked { index, release, start, at_start, at_begin: self.tally });
        Begun { misdated, unmatched }
    }

    /// False when no such job began.
    pub(super) fn end(&mut self, at: Nanos, index: u64) -> bool {
        self.touch(at);
        self.separate_by_markers();
        if self.dismissed.take() == Some(index) {
            return true;
        }
        if let Some(busy) = &mut self.busy {
            busy.claimed = true;
        }
        if self.marked.is_none_or(|marked| marked.index != index) {
            // The trace began inside this job, or its begin marker was lost.
            self.dismiss();
            self.censored += 1;
            self.dismissed = None;
            return false;
        }
        self.settle(at);
        if let Some(marked) = self.marked.take() {
            self.jobs.push(Job {
                release: marked.release,
                start: marked.start,
                completion: at,
                execution: self.tally.run - marked.at_begin.run,
                interrupted: self.tally.interrupted - marked.at_begin.interrupted,
                preemptions: self.tally.preemptions - marked.at_start.preemptions,
                throttled: self.tally.throttled - marked.at_start.throttled,
                index: Some(index),
            });
        }
        true
    }

    /// From `until` on nothing is known of it.
    pub(super) fn lose(&mut self, until: Nanos) {
        match self.place {
            Place::Running { since } => self.settle(until.max(since)),
            Place::Waiting { since } => self.wait(since, until),
            _ => {}
        }
        // A switch-in that is inferred later must not count that time again.
        if !matches!(self.place, Place::Unknown) {
            self.touch(until.max(self.seen.1));
        }
        if self.busy.take().is_some() && self.separation == Separation::BusyPeriod {
            self.censored += 1;
        }
        self.dismiss();
        self.throttled_since = None;
        self.pending = None;
        self.place = Place::Unknown;
    }

    /// Another thread bears its id: whatever is open ended unseen.
    pub(super) fn retire(&mut self) {
        self.lose(self.seen.1);
        self.ended = true;
    }

    /// What is known of it by now.
    pub(super) fn progress(&self) -> Progress<'_> {
        Progress {
            tid: self.tid,
            comm: self.comm,
            jobs: &self.jobs,
            longest_wait: self.longest_wait,
            seen: self.seen.1,
        }
    }

    /// Forgets the jobs that are complete.
    pub(super) fn forget_jobs(&mut self) {
        self.jobs.clear();
    }

    /// The trace ends.
    pub(super) fn finish(mut self, end: Nanos) -> ThreadHistory {
        let seen = self.seen;
        self.lose(end);
        ThreadHistory {
            tid: self.tid,
            comm: self.comm,
            prio: self.prio,
            separation: self.separation,
            jobs: self.jobs,
            censored: self.censored,
            run: self.tally.run,
            interrupted: self.tally.interrupted,
            waited: self.waited,
            longest_wait: self.longest_wait,
            seen,
        }
    }

    /// A new busy period; the thread waits from `waits` on.
    fn release(&mut self, at: Nanos, waits: Nanos, gaps: u64) {
        self.pending = None;
        self.busy = Some(Busy::released(at));
        self.place = Place::Waiting { since: waits };
        self.gaps = gaps;
    }

    /// Takes a wake-up as the late-recorded cause of a switch-in that had none.
    fn explain(&mut self, at: Nanos) -> bool {
        let Some(busy) = &mut self.busy else { return false };
        match busy.start {
            Some((start, _)) if busy.release.is_none() && busy.reorderable && at - start <= REORDER_MAX => {
                busy.release = Some(start);
                true
            }
            _ => false,
        }
    }

    fn complete(&mut self, busy: Busy, at: Nanos) {
        let (Some(release), Some((start, before))) = (busy.release, busy.start) else {
            self.censored += 1;
            return;
        };
        self.jobs.push(Job {
            release,
            start,
            completion: at,
            execution: self.tally.run - before.run,
            interrupted: self.tally.interrupted - before.interrupted,
            preemptions: self.tally.preemptions - before.preemptions,
            throttled: self.tally.throttled - before.throttled,
            index: None,
        });
    }

    /// From the first marker on, busy periods count no more, and those before it were set-up.
    fn separate_by_markers(&mut self) {
        if self.separation == Separation::BusyPeriod {
            self.separation = Separation::Markers;
            self.jobs.clear();
            self.censored = 0;
        }
    }

    /// Gives up the marked job that is open; true when there was one.
    fn dismiss(&mut self) -> bool {
        let Some(marked) = self.marked.take() else { return false };
        self.dismissed = Some(marked.index);
        self.censored += 1;
        true
    }

    fn run_on(&mut self, at: Nanos, cpu: CpuId) {
        self.place = Place::Running { since: at };
        self.last_cpu = cpu;
    }

    /// Counts its time on the CPU up to now.
    #[inline]
    fn settle(&mut self, at: Nanos) {
        if let Place::Running { since } = &mut self.place {
            self.tally.run += at - *since;
            *since = at;
        }
    }

    fn end_wait(&mut self, at: Nanos) {
        if let Place::Waiting { since } = self.place {
            self.wait(since, at);
        }
    }

    fn wait(&mut self, since: Nanos, until: Nanos) {
        let wait = (until - since).max(Nanos::ZERO);
        self.waited += wait;
        self.longest_wait = self.longest_wait.max(wait);
    }
}
