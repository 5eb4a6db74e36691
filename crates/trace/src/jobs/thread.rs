//! One thread's life as the events show it: where it is, what it has consumed, and the job that is open.
//!
//! Consumption is kept in running totals ([`Tally`]); a job is the difference of two of them.

use surety_model::event::{Comm, LeaveState};
use surety_model::job::{Job, Separation};
use surety_units::{CpuId, Nanos, Tid};

use super::REORDER_MAX;
use super::sink::{JobSink, ThreadKey, Throughout, Wait};
use super::watch::{Seen, Whereabouts};

mod ending;

/// Names of threads that do the work of interrupts: softirqs they run are their own work ([`super::interrupts`]), and
/// what they wait for without a signal being able to wake them is a lock in the midst of a job, never the next one
/// (`irq_wait_for_interrupt`, `napi_thread_wait`, `smpboot_thread_fn` sleep interruptibly).
const INTERRUPT_THREADS: [&[u8]; 4] = [b"ksoftirqd/", b"ktimers/", b"irq/", b"napi/"];

/// The CPU of a thread that was on none yet.
pub(super) const NOWHERE: CpuId = CpuId(u32::MAX);

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Not known.
    Unknown,
    /// It gave up the CPU: between two busy periods, or, where one is open, in the midst of it.
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
    inferred: Nanos,
    unknown: Nanos,
    preemptions: u32,
    /// Waiting after preemptions.
    preempted: Nanos,
}

/// The first instant of a busy period on a CPU.
#[derive(Clone, Copy, Debug)]
struct Start {
    at: Nanos,
    cpu: CpuId,
    tally: Tally,
}

/// From waking to sleeping.
#[derive(Clone, Copy, Debug)]
struct Busy {
    /// `None`: its beginning was not seen.
    release: Option<Nanos>,
    start: Option<Start>,
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
    start: Start,
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
    pub(super) key: ThreadKey,
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
    /// It does the work of interrupts.
    pub(super) serves_interrupts: bool,
    /// It asked the kernel to wait for a lock.
    pub(super) wants_lock: bool,
    tally: Tally,
    waited: Nanos,
    longest_wait: Nanos,
    throttled_since: Option<Nanos>,
    /// Why it waits, while it does.
    why: Wait,
    /// It ran and slept at this instant, and why was not seen: its wake-up is recorded on another CPU, whose events of it come later.
    unexplained: Option<Nanos>,
    /// A wake-up that came while it was still on its CPU.
    pending: Option<Nanos>,
    /// Gaps of the trace when its busy period was released.
    gaps: u64,
    busy: Option<Busy>,
    marked: Option<Marked>,
    /// A marked job that was given up: its end is no surprise.
    dismissed: Option<u64>,
    censored: u64,
    seen: (Nanos, Nanos),
    /// What it has done ever since it was first seen.
    throughout: Option<Throughout>,
}

impl Thread {
    pub(super) fn new(slot: usize, life: u64, tid: Tid, at: Nanos) -> Thread {
        let separation = Separation::BusyPeriod;
        Thread {
            key: ThreadKey { slot, life, tid, comm: Comm::default(), separation },
            place: Place::Unknown,
            last_cpu: NOWHERE,
            prio: 120,
            replenishment: None,
            unborn: false,
            ended: false,
            serves_interrupts: false,
            wants_lock: false,
            tally: Tally::default(),
            waited: Nanos::ZERO,
            longest_wait: Nanos::ZERO,
            throttled_since: None,
            why: Wait::Woken,
            unexplained: None,
            pending: None,
            gaps: 0,
            busy: None,
            marked: None,
            dismissed: None,
            censored: 0,
            seen: (at, at),
            throughout: None,
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
    pub(super) fn seen_as(&self) -> Seen {
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
        Seen { tid: self.key.tid, comm: self.key.comm, place, ended: self.ended }
    }

    /// What a watcher is told while nobody knows where it is.
    pub(super) fn seen_nowhere(&self) -> Seen {
        Seen { place: Whereabouts::Unknown, ..self.seen_as() }
    }

    /// The name an event gives it.
    #[inline]
    pub(super) fn name(&mut self, comm: Comm) {
        if self.key.comm != comm {
            self.key.comm = comm;
            self.serves_interrupts = INTERRUPT_THREADS.iter().any(|prefix| comm.0.starts_with(prefix));
        }
    }

    /// Whether it bears this id and is alive.
    pub(super) fn is_living(&self, tid: Tid) -> bool {
        self.key.tid == tid && !self.ended
    }

    pub(super) fn on_cpu_elsewhere(&self, cpu: CpuId) -> bool {
        matches!(self.place, Place::Running { .. }) && self.last_cpu != cpu
    }

    /// It is found on a CPU of which nothing was known: since when, and for which job, nobody saw.
    pub(super) fn adopt<S: JobSink>(&mut self, at: Nanos, cpu: CpuId, sink: &mut S) {
        self.touch(at);
        let is_new = self.place == Place::Unknown && self.tally == Tally::default() && self.censored == 0;
        self.throughout = is_new.then_some(Throughout::Running);
        self.end_wait(at, sink);
        self.replenish(at);
        self.run_on(at, cpu);
        let start = Start { at, cpu, tally: self.tally };
        self.busy = Some(Busy { start: Some(start), ..Busy::unreleased(false) });
    }

    pub(super) fn switch_in<S: JobSink>(&mut self, at: Nanos, cpu: CpuId, sink: &mut S) -> Outcome {
        self.touch(at);
        self.throughout = None;
        let mut outcome = Outcome::default();
        match self.place {
            Place::Waiting { .. } => self.end_wait(at, sink),
            Place::Asleep { since } => {
                let pending = self.pending.take();
                if let Some(release) = pending {
                    self.why = Wait::Woken;
                    self.wait(release.max(since), at, sink);
                }
                // One that had to wait for a lock goes on with its job.
                self.busy.get_or_insert(pending.map_or(Busy::unreleased(true), Busy::released));
            }
            Place::Unknown => self.busy = Some(Busy::unreleased(false)),
            Place::Running { since } => {
                outcome.inconsistent = true;
                self.lose(since, sink);
                self.busy = Some(Busy::unreleased(false));
            }
        }
        self.replenish(at);
        self.run_on(at, cpu);
        let tally = self.tally;
        let busy = self.busy.get_or_insert(Busy::unreleased(false));
        busy.start.get_or_insert(Start { at, cpu, tally });
        outcome
    }

    /// It is found on the CPU, and its switch-in was not recorded: it came between the two instants. Within `usable` bounds
    /// it is taken at the earlier one; else the time between them is unknown.
    pub(super) fn found<S: JobSink>(
        &mut self,
        (from, until): (Nanos, Nanos),
        cpu: CpuId,
        usable: bool,
        sink: &mut S,
    ) -> Outcome {
        let outcome = self.switch_in(from, cpu, sink);
        self.touch(until);
        if usable {
            self.tally.inferred += until - from;
            return outcome;
        }
        self.tally.unknown += until - from;
        self.run_on(until, cpu);
        if let Some(start) = self.busy.as_mut().and_then(|busy| busy.start.as_mut())
            && start.at == from
        {
            start.at = until;
        }
        outcome
    }

    pub(super) fn switch_out<S: JobSink>(
        &mut self,
        at: Nanos,
        cpu: CpuId,
        state: LeaveState,
        throttled: bool,
        sink: &mut S,
    ) -> Outcome {
        self.touch(at);
        self.throughout = None;
        let mut outcome = Outcome::default();
        match self.place {
            Place::Running { .. } if self.last_cpu == cpu => self.settle(at, sink),
            Place::Unknown => {}
            Place::Running { since } | Place::Asleep { since } | Place::Waiting { since } => {
                outcome.inconsistent = true;
                self.lose(since, sink);
            }
        }
        self.last_cpu = cpu;
        let is_inside = self.wants_lock && state != LeaveState::Dead
            || self.serves_interrupts && state == LeaveState::Uninterruptible;
        if state.is_blocked() && is_inside {
            self.busy.get_or_insert(Busy::unreleased(false));
            self.place = Place::Asleep { since: at };
        } else if state.is_blocked() {
            let busy = self.busy.take().unwrap_or(Busy::unreleased(false));
            self.place = Place::Asleep { since: at };
            let is_unexplained = busy.release.is_none() && busy.reorderable;
            self.unexplained = busy.start.filter(|start| is_unexplained && start.at == at).map(|_| at);
            if self.key.separation == Separation::BusyPeriod {
                outcome.unreleased = busy.release.is_none() && busy.reorderable;
                self.complete(busy, at, sink);
            }
            if state == LeaveState::Dead {
                self.dismiss(at, sink);
                self.ended = true;
            }
        } else {
            self.busy.get_or_insert(Busy::unreleased(false));
            self.place = Place::Waiting { since: at };
            self.pending = None;
            if throttled {
                self.why = Wait::Throttled;
                self.throttled_since = Some(at);
            } else {
                self.why = Wait::Preempted;
                self.tally.preemptions = self.tally.preemptions.saturating_add(1);
            }
        }
        outcome
    }

    /// The request to wake. True when it only explains, a little late, why the thread is on a CPU already.
    pub(super) fn waking<S: JobSink>(&mut self, at: Nanos, gaps: u64, sink: &mut S) -> bool {
        self.touch(at);
        match self.place {
            Place::Asleep { .. } if self.unexplained == Some(at) => return true,
            Place::Asleep { .. } | Place::Unknown => {
                self.wants_lock = false;
                self.release(at, at, gaps);
            }
            Place::Waiting { .. } => {
                // A thread that waits cannot be woken unless it had got ready to sleep when it was preempted. One that
                // never ran since its release had not; one whose trace has a hole may have slept inside it.
                let never_ran = self.busy.is_none_or(|busy| busy.start.is_none());
                if never_ran || self.gaps != gaps {
                    // It ran and slept unrecorded, at some time: how long it waited is not known.
                    self.place = Place::Unknown;
                    self.lose(at, sink);
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
            Place::Asleep { .. } if self.unexplained == Some(at) => return false,
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

    pub(super) fn begin<S: JobSink>(&mut self, at: Nanos, index: u64, release: Nanos, sink: &mut S) -> Begun {
        self.touch(at);
        self.separate_by_markers(sink);
        let unmatched = self.dismiss(at, sink);
        let misdated = release > at || release.is_negative();
        if misdated || !matches!(self.place, Place::Running { .. }) {
            self.censor(at, sink);
            self.dismissed = Some(index);
            return Begun { misdated, unmatched };
        }
        self.settle(at, sink);
        let now = Start { at, cpu: self.last_cpu, tally: self.tally };
        let start = match &mut self.busy {
            Some(busy) if !busy.claimed => {
                busy.claimed = true;
                busy.start.filter(|start| start.at >= release).unwrap_or(now)
            }
            _ => now,
        };
        self.marked = Some(Marked { index, release, start, at_begin: self.tally });
        Begun { misdated, unmatched }
    }

    /// False when no such job began.
    pub(super) fn end<S: JobSink>(&mut self, at: Nanos, index: u64, sink: &mut S) -> bool {
        self.touch(at);
        self.separate_by_markers(sink);
        if self.dismissed.take() == Some(index) {
            return true;
        }
        if let Some(busy) = &mut self.busy {
            busy.claimed = true;
        }
        if self.marked.is_none_or(|marked| marked.index != index) {
            // The trace began inside this job, or its begin marker was lost.
            self.dismiss(at, sink);
            self.censor(at, sink);
            self.dismissed = None;
            return false;
        }
        self.settle(at, sink);
        if let Some(marked) = self.marked.take() {
            let Marked { index, release, start, at_begin } = marked;
            let mut job = self.since(start, release, at);
            job.execution = self.tally.run - at_begin.run;
            job.interrupted = self.tally.interrupted - at_begin.interrupted;
            job.unknown = self.tally.unknown - at_begin.unknown;
            job.index = Some(index);
            self.tell(&job, sink);
        }
        true
    }

    /// From `until` on nothing is known of it.
    pub(super) fn lose<S: JobSink>(&mut self, until: Nanos, sink: &mut S) {
        self.throughout = None;
        match self.place {
            Place::Running { since } => self.settle(until.max(since), sink),
            Place::Waiting { since } => self.wait(since, until, sink),
            _ => {}
        }
        // A switch-in that is inferred later must not count that time again.
        if !matches!(self.place, Place::Unknown) {
            self.touch(until.max(self.seen.1));
        }
        if self.busy.take().is_some() && self.key.separation == Separation::BusyPeriod {
            self.censor(until, sink);
        }
        self.dismiss(until, sink);
        self.throttled_since = None;
        self.pending = None;
        self.wants_lock = false;
        self.place = Place::Unknown;
    }

    /// A new busy period, where none is open that waited for a lock; the thread waits from `waits` on.
    fn release(&mut self, at: Nanos, waits: Nanos, gaps: u64) {
        self.pending = None;
        self.throughout = None;
        self.busy.get_or_insert(Busy::released(at));
        self.place = Place::Waiting { since: waits };
        self.why = Wait::Woken;
        self.gaps = gaps;
    }

    /// Takes a wake-up as the late-recorded cause of a switch-in that had none. Where nobody knows when that was, neither does it say.
    fn explain(&mut self, at: Nanos) -> bool {
        let Some(busy) = &mut self.busy else { return false };
        match busy.start {
            Some(start) if start.tally.unknown < self.tally.unknown => false,
            Some(start) if busy.release.is_none() && busy.reorderable && at - start.at <= REORDER_MAX => {
                busy.release = Some(start.at);
                true
            }
            _ => false,
        }
    }

    fn complete<S: JobSink>(&mut self, busy: Busy, at: Nanos, sink: &mut S) {
        match (busy.release, busy.start) {
            (Some(release), Some(start)) => self.tell(&self.since(start, release, at), sink),
            (None, Some(start)) if busy.reorderable && start.tally.unknown == self.tally.unknown => {
                self.censored += 1;
                sink.activation(&self.key, &self.since(start, start.at, at));
            }
            _ => self.censor(at, sink),
        }
    }

    /// Hands a complete job over, as one that can be relied on or as a doubtful one.
    fn tell<S: JobSink>(&mut self, job: &Job, sink: &mut S) {
        if job.unknown.is_positive() {
            sink.doubtful(&self.key, job);
            self.censor(job.completion, sink);
        } else {
            sink.job(&self.key, job);
        }
    }

    /// The job that began so and is complete now.
    fn since(&self, start: Start, release: Nanos, at: Nanos) -> Job {
        let Start { at: started, cpu, tally } = start;
        Job {
            release,
            start: started,
            cpu,
            completion: at,
            execution: self.tally.run - tally.run,
            interrupted: self.tally.interrupted - tally.interrupted,
            preemptions: self.tally.preemptions - tally.preemptions,
            preempted: self.tally.preempted - tally.preempted,
            throttled: self.tally.throttled - tally.throttled,
            inferred: self.tally.inferred - tally.inferred,
            unknown: self.tally.unknown - tally.unknown,
            index: None,
        }
    }

    fn censor<S: JobSink>(&mut self, at: Nanos, sink: &mut S) {
        self.censored += 1;
        sink.censored(&self.key, at);
    }

    /// From the first marker on, busy periods count no more, and those before it were set-up.
    fn separate_by_markers<S: JobSink>(&mut self, sink: &mut S) {
        if self.key.separation == Separation::BusyPeriod {
            self.key.separation = Separation::Markers;
            self.censored = 0;
            sink.forget(&self.key);
        }
    }

    /// Gives up the marked job that is open; true when there was one.
    fn dismiss<S: JobSink>(&mut self, at: Nanos, sink: &mut S) -> bool {
        let Some(marked) = self.marked.take() else { return false };
        self.dismissed = Some(marked.index);
        self.censor(at, sink);
        true
    }

    fn run_on(&mut self, at: Nanos, cpu: CpuId) {
        self.place = Place::Running { since: at };
        self.last_cpu = cpu;
    }

    /// Counts its time on the CPU up to now.
    #[inline]
    fn settle<S: JobSink>(&mut self, at: Nanos, sink: &mut S) {
        if let Place::Running { since } = &mut self.place {
            self.tally.run += at - *since;
            sink.ran(&self.key, self.last_cpu, *since, at);
            *since = at;
        }
    }

    fn end_wait<S: JobSink>(&mut self, at: Nanos, sink: &mut S) {
        if let Place::Waiting { since } = self.place {
            self.wait(since, at, sink);
        }
    }

    /// Counts a wait.
    fn wait<S: JobSink>(&mut self, since: Nanos, until: Nanos, sink: &mut S) {
        let until = until.max(since);
        let wait = until - since;
        self.waited += wait;
        self.longest_wait = self.longest_wait.max(wait);
        if self.why == Wait::Preempted {
            self.tally.preempted += wait;
        }
        sink.waited(&self.key, self.last_cpu, since, until, self.why);
    }
}
