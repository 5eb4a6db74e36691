//! [`Timelines`]: what each CPU did and where each thread was, and a job's response read off the two.

use std::collections::{BTreeSet, VecDeque};

use surety_model::event::{Comm, SpanMarker};
use surety_model::job::{Job, Separation};
use surety_units::{CpuId, Nanos, Tid};

use super::around::{self, Around, CELLS, Cells, Holder, Lane};
use super::chain::parts;
use super::disks::Disks;
use super::on_cpu::{Contexts, OnCpu, changes_of_each};
use super::past::{Track, keep, room};
use super::tells::Tells;
use super::{
    Average, Blames, CPU_CHANGES_MAX, Cause, Chain, Culprit, DEAD_MAX, JobBlame, Piece, THREAD_CHANGES_MAX,
    THREADS_MAX, ThreadBlame, Worst,
};
use crate::jobs::interrupts::Context;
use crate::jobs::sink::{JobSink, ThreadKey, ThreadTotals};
use crate::jobs::watch::{Occupant, Seen, Waker, Watch, Whereabouts};
use crate::statistics::recorder::NAMES_MAX;
use crate::wanted::{Wanted, Window};

/// Who woke a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Woke {
    Thread(Waker),
    Interrupt(Context),
}

/// What a thread did in a stretch of time.
pub(super) enum Did {
    /// Nothing, for this reason.
    Waited(Cause),
    /// It slept; or, where it was not seen before, was not there yet or slept.
    Slept { is_seen: bool },
    /// It ran, with this priority.
    Ran { prio: i32 },
}

/// A thread that is watched.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    /// When it was first told of: what its slot did before, another thread did.
    pub(super) since: Nanos,
    pub(super) tid: Tid,
    pub(super) comm: Comm,
    pub(super) places: Track<Whereabouts>,
    is_dead: bool,
    /// Who woke it when.
    wakers: VecDeque<(Nanos, Woke)>,
    /// From when to when a replay did nothing as the program that was recorded thought.
    pub(super) thoughts: VecDeque<(Nanos, Nanos)>,
    /// The end of the last sleep that was told as a wait for a disk.
    told: Option<Nanos>,
    all: Average,
    worst: Vec<Worst>,
    /// As in [`Blames`].
    doubtful: u64,
    unknown: Nanos,
    inferred: u64,
}

impl Watched {
    fn new(since: Nanos, tid: Tid, comm: Comm) -> Watched {
        Watched {
            since,
            tid,
            comm,
            places: Track::new(),
            is_dead: false,
            wakers: VecDeque::new(),
            thoughts: VecDeque::new(),
            told: None,
            all: Average::default(),
            worst: Vec::new(),
            doubtful: 0,
            unknown: Nanos::ZERO,
            inferred: 0,
        }
    }
}

impl Watched {
    /// From when to when it slept before it got the CPU that it is on; `None`: it did not.
    fn last_sleep(&self) -> Option<(Nanos, Nanos)> {
        let mut later = self.places.changes.iter().rev();
        let mut woken = later.next()?.0;
        for (at, place) in later {
            match place {
                Whereabouts::Asleep => return Some((*at, woken)),
                Whereabouts::Queued(_) | Whereabouts::Throttled => woken = *at,
                Whereabouts::On(_) | Whereabouts::Unknown => return None,
            }
        }
        None
    }

    /// Who ended a sleep at `until`; `None`: nobody knows.
    pub(super) fn woken_by(&self, until: Nanos) -> Option<Woke> {
        let found = self.wakers.partition_point(|(at, _)| *at < until);
        self.wakers.get(found).filter(|(at, _)| *at == until).map(|(_, woke)| *woke)
    }

    /// What it waited for in a sleep that ended at `until`.
    fn awaited(&self, until: Nanos) -> Cause {
        match self.woken_by(until) {
            Some(Woke::Thread(waker)) => waker.cause(),
            Some(Woke::Interrupt(context)) => awaited_interrupt(context),
            None => Cause::Blocked,
        }
    }
}

impl Waker {
    /// That it was waited for.
    pub(super) fn cause(&self) -> Cause {
        let Waker { tid, comm, prio, lock, .. } = *self;
        let culprit = Culprit { tid, comm, prio };
        if lock { Cause::Lock(culprit) } else { Cause::Awaited(culprit) }
    }
}

/// The histories of all CPUs and threads, and the blame of the jobs completed so far.
#[derive(Clone, Debug)]
pub(super) struct Timelines {
    pub(super) wanted: Wanted,
    pub(super) window: Window,
    most: usize,
    pub(super) tells: Tells,
    pub(super) disks: Disks,
    /// Whether the CPUs around the longest response are kept; which thread's life it is of.
    draws: bool,
    drawn: Option<u64>,
    cpus: Vec<Track<OnCpu>>,
    contexts: Contexts,
    /// By slot; `None` where a slot has not been told of.
    pub(super) threads: Vec<Option<Watched>>,
    /// Of the threads that are gone.
    pub(super) blames: Blames,
    names: BTreeSet<Comm>,
}

impl Timelines {
    pub(super) fn new(tells: Tells, wanted: Wanted, most: usize) -> Timelines {
        Timelines {
            wanted,
            window: Window::ALL,
            most,
            blames: Blames { are_waits: matches!(tells, Tells::Waits), ..Blames::default() },
            tells,
            disks: Disks::default(),
            draws: false,
            drawn: None,
            cpus: Vec::new(),
            contexts: Contexts::default(),
            threads: Vec::new(),
            names: BTreeSet::new(),
        }
    }

    /// The CPUs around the longest response are kept from now on.
    pub(super) fn draw(&mut self) {
        self.draws = true;
    }

    /// What counts begins and ends at these instants, whatever part of the trace is wanted.
    pub(super) fn observes(&mut self, window: (Nanos, Nanos)) {
        self.window = Window::new(window);
    }

    /// The trace's first event came then.
    pub(super) fn begin(&mut self, first: Nanos) {
        self.window = self.wanted.window(first);
    }

    /// All threads have been told to be gone.
    pub(super) fn finish(mut self) -> Blames {
        self.blames.threads.sort_by_key(|thread| thread.tid);
        self.blames.names = self.names.into_iter().collect();
        self.blames.rules = self.disks.rules;
        self.blames.spans.unended += u64::from(self.disks.is_starting);
        self.blames
    }

    /// Where the response of a job of this slot went.
    fn pieces(&self, slot: usize, thread: &Watched, job: &Job) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut add = |from: Nanos, until: Nanos, cpu: Option<CpuId>, cause: Cause| match pieces.last_mut() {
            Some(last) if last.cause == cause && last.cpu == cpu => last.until = until,
            _ if from < until => pieces.push(Piece { from, until, cpu, cause }),
            _ => {}
        };
        self.walk_thread(slot, thread, (job.release, job.completion), |from, until, cpu, did| match did {
            Did::Waited(cause) => add(from, until, cpu, cause),
            Did::Slept { is_seen: false } => add(from, until, None, Cause::Unknown),
            Did::Slept { is_seen: true } => {
                let border = job.start.clamp(from, until);
                add(from, border, None, Cause::Unwoken);
                match self.disks.awaited(thread.tid, (from, until)).filter(|_| border < until) {
                    Some(awaited) => {
                        self.disks.walk(awaited, (border, until), |from, until, cause| {
                            add(from, until, None, cause);
                        });
                    }
                    None => add(border, until, None, thread.awaited(until)),
                }
            }
            Did::Ran { .. } => {
                let border = job.start.clamp(from, until);
                add(from, border, cpu, Cause::Earlier);
                add(border, until, cpu, Cause::Own);
            }
        });
        pieces
    }

    /// Walks a stretch of time of a thread: every instant of it once, in order, with the CPU where it was on one or in its queue.
    pub(super) fn walk_thread(
        &self,
        slot: usize,
        thread: &Watched,
        (from, until): (Nanos, Nanos),
        mut step: impl FnMut(Nanos, Nanos, Option<CpuId>, Did),
    ) {
        thread.places.walk(from, until, |from, until, place| match place {
            None => step(from, until, None, Did::Slept { is_seen: false }),
            Some(Whereabouts::Unknown) => step(from, until, None, Did::Waited(Cause::Unknown)),
            Some(Whereabouts::Throttled) => step(from, until, None, Did::Waited(Cause::Throttled)),
            Some(Whereabouts::Asleep) => step(from, until, None, Did::Slept { is_seen: true }),
            Some(Whereabouts::On(cpu)) => self.walk_cpu(cpu, from, until, |from, until, on| {
                let did = match on.and_then(|on| self.contexts.of(on)) {
                    Some(context) => Did::Waited(interrupt(context)),
                    None => Did::Ran { prio: on.map_or(0, OnCpu::prio) },
                };
                step(from, until, Some(cpu), did);
            }),
            Some(Whereabouts::Queued(cpu)) => self.walk_cpu(cpu, from, until, |from, until, on| {
                step(from, until, Some(cpu), Did::Waited(self.occupation(slot, from, on)));
            }),
        });
    }

    fn walk_cpu(
        &self,
        cpu: CpuId,
        from: Nanos,
        until: Nanos,
        mut step: impl FnMut(Nanos, Nanos, Option<OnCpu>),
    ) {
        match self.cpus.get(cpu.index()) {
            Some(track) => track.walk(from, until, step),
            None => step(from, until, None),
        }
    }

    /// Why a thread in the queue of a CPU does not run.
    fn occupation(&self, slot: usize, from: Nanos, on: Option<OnCpu>) -> Cause {
        let Some(on) = on else { return Cause::Unknown };
        if let Some(context) = self.contexts.of(on) {
            return interrupt(context);
        }
        match on.occupant() {
            Occupant::Idle => Cause::Idle,
            Occupant::Thread(other) if other != slot => match self.threads.get(other) {
                // A stretch from before the thread's first is that of one whose slot it got.
                Some(Some(thread)) if thread.since <= from => {
                    Cause::Thread(Culprit { tid: thread.tid, comm: thread.comm, prio: on.prio() })
                }
                _ => Cause::Unknown,
            },
            Occupant::Thread(_) | Occupant::Unknown => Cause::Unknown,
        }
    }

    /// Takes a thread's jobs over when it is gone.
    fn close(&mut self, thread: &ThreadKey, watched: &mut Watched) {
        let all = std::mem::take(&mut watched.all);
        self.blames.doubtful += watched.doubtful;
        self.blames.unknown += watched.unknown;
        self.blames.inferred += watched.inferred;
        for worst in watched.worst.drain(..) {
            keep_worst(&mut self.blames.worst, self.most, worst);
        }
        if all.jobs == 0 {
            return;
        }
        self.blames.all.merge(&all);
        let threads = &mut self.blames.threads;
        let place = threads.partition_point(|listed| listed.jobs >= all.jobs);
        if place >= THREADS_MAX {
            self.blames.unlisted += 1;
            return;
        }
        let ThreadKey { tid, comm, separation, .. } = *thread;
        threads.insert(place, ThreadBlame { tid, comm, separation, jobs: all.jobs });
        if threads.len() > THREADS_MAX {
            threads.pop();
            self.blames.unlisted += 1;
        }
    }
}

impl Timelines {
    fn take(&mut self, thread: &ThreadKey, job: &Job, is_censored: bool) {
        let Some(mut watched) = self.threads.get_mut(thread.slot).and_then(Option::take) else { return };
        if self.wanted.thread(thread.tid, thread.comm) && self.wanted.job(self.window, job) {
            let pieces = self.pieces(thread.slot, &watched, job);
            let (response, parts) = (job.response(), parts(&pieces));
            let longest = self.blames.around.as_ref().map(|around| around.job.response());
            if self.draws && longest < Some(response) {
                self.blames.around = Some(self.around(thread, job, &pieces));
                self.drawn = Some(thread.life);
            }
            if is_censored {
                watched.doubtful += 1;
                watched.unknown += job.unknown;
            } else {
                watched.inferred += u64::from(job.inferred.is_positive());
                watched.all.add(response, &parts);
                if self.blames.slowest.takes(response) {
                    self.blames.slowest.add(thread.life, JobBlame { job: *job, parts });
                } else {
                    self.blames.slowest.pass(response);
                }
            }
            let chain = Chain { job: *job, pieces };
            let worst = Worst { tid: thread.tid, comm: thread.comm, chain, is_censored };
            keep_worst(&mut watched.worst, self.most, worst);
        }
        if thread.separation == Separation::BusyPeriod {
            // The next one may have been released before this one was off its CPU, but not before it started.
            watched.places.forget_before(job.start);
            while watched.wakers.front().is_some_and(|(at, _)| *at < job.start) {
                watched.wakers.pop_front();
            }
        }
        self.threads[thread.slot] = Some(watched);
    }
}

impl Timelines {
    /// The CPUs around a job.
    fn around(&self, thread: &ThreadKey, job: &Job, pieces: &[Piece]) -> Around {
        let time = around::shown(job);
        let cpus = around::chosen(pieces, self.cpus.len());
        let lanes = cpus.iter().filter_map(|cpu| {
            let mut cells = Cells::new(time, CELLS);
            self.cpus.get(cpu.index())?.walk(time.0, time.1, |from, until, on| {
                cells.add(from, until, on.map_or(Some(Holder::Unknown), |on| self.holder(thread, from, on)));
            });
            Some(Lane { cpu: *cpu, held: cells.finish() })
        });
        let lanes: Vec<Lane> = lanes.collect();
        let hidden = self.cpus.iter().filter(|track| !track.changes.is_empty()).count();
        Around {
            tid: thread.tid,
            comm: thread.comm,
            job: *job,
            from: time.0,
            until: time.1,
            states: around::states(pieces, time),
            hidden: hidden.saturating_sub(lanes.len()),
            lanes,
        }
    }

    /// Who has a CPU, whatever interrupts are on top; `None`: nobody.
    fn holder(&self, own: &ThreadKey, at: Nanos, on: OnCpu) -> Option<Holder> {
        match on.occupant() {
            Occupant::Idle => None,
            Occupant::Thread(slot) if slot == own.slot => Some(Holder::Own),
            Occupant::Thread(slot) => match self.threads.get(slot) {
                Some(Some(other)) if other.since <= at => {
                    Some(Holder::Other(Culprit { tid: other.tid, comm: other.comm, prio: on.prio() }))
                }
                _ => Some(Holder::Unknown),
            },
            Occupant::Unknown => Some(Holder::Unknown),
        }
    }

    /// A thread is on a CPU: tells its sleep before that, where a disk ended it.
    fn wait_ends(&mut self, slot: usize, at: Nanos, cpu: CpuId) {
        let Some(Some(thread)) = self.threads.get(slot) else { return };
        let Some((slept, woken)) = thread.last_sleep() else { return };
        let is_told = thread.told.is_some_and(|told| told >= woken);
        if is_told || self.disks.awaited(thread.tid, (slept, woken)).is_none() {
            return;
        }
        let (tid, comm) = (thread.tid, thread.comm);
        self.threads[slot].as_mut().expect("it is there").told = Some(woken);
        let none = Nanos::ZERO;
        let job = Job {
            release: slept,
            start: slept,
            cpu,
            completion: at,
            execution: none,
            interrupted: none,
            preemptions: 0,
            preempted: none,
            throttled: none,
            inferred: none,
            unknown: none,
            index: None,
        };
        let separation = Separation::BusyPeriod;
        self.take(&ThreadKey { slot, life: 0, tid, comm, separation }, &job, false);
    }
}

impl JobSink for Timelines {
    fn job(&mut self, thread: &ThreadKey, job: &Job) {
        if matches!(self.tells, Tells::Jobs) {
            self.take(thread, job, false);
        }
    }

    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        if matches!(self.tells, Tells::Jobs) {
            self.take(thread, job, true);
        }
    }

    fn forget(&mut self, thread: &ThreadKey) {
        if !matches!(self.tells, Tells::Jobs) {
            return;
        }
        self.blames.slowest.forget(thread.life);
        if self.drawn == Some(thread.life) {
            (self.blames.around, self.drawn) = (None, None);
        }
        if let Some(Some(watched)) = self.threads.get_mut(thread.slot) {
            watched.all = Average::default();
            watched.worst.clear();
            (watched.doubtful, watched.unknown, watched.inferred) = (0, Nanos::ZERO, 0);
        }
    }

    fn ended(&mut self, thread: &ThreadKey, _: &ThreadTotals) {
        if self.names.len() < NAMES_MAX {
            self.names.insert(thread.comm);
        }
        self.blames.is_there |= self.wanted.thread(thread.tid, thread.comm);
        if let Some(mut watched) = self.threads.get_mut(thread.slot).and_then(Option::take) {
            self.close(thread, &mut watched);
        }
    }
}

impl Watch for Timelines {
    const WATCHES: bool = true;
    const REMEMBERED: usize = DEAD_MAX;
    type Sink = Timelines;

    fn sink(&mut self) -> &mut Timelines {
        self
    }

    fn cpu(&mut self, cpu: CpuId, at: Nanos, occupant: Occupant, prio: i32, context: Option<Context>) {
        if self.cpus.len() <= cpu.index() {
            self.cpus.resize_with(cpu.index() + 1, Track::new);
        }
        let on = self.contexts.pack(occupant, prio, context);
        let most = if self.disks.is_starting { CPU_CHANGES_MAX } else { changes_of_each(self.cpus.len()) };
        self.cpus[cpu.index()].change(at, on, most);
    }

    fn woken(&mut self, slot: usize, at: Nanos, waker: Waker) {
        self.woke(slot, at, Woke::Thread(waker));
    }

    fn woken_in(&mut self, slot: usize, at: Nanos, context: Context) {
        self.woke(slot, at, Woke::Interrupt(context));
    }

    fn thread(&mut self, slot: usize, at: Nanos, seen: Seen) {
        let thread = watched(&mut self.threads, slot, || Watched::new(at, seen.tid, seen.comm));
        (thread.tid, thread.comm, thread.is_dead) = (seen.tid, seen.comm, seen.ended);
        let is_starting = self.disks.is_starting;
        if seen.ended && !is_starting {
            // Its jobs are told; only its name is still wanted.
            thread.places = Track::new();
        } else {
            let place = if seen.ended { Whereabouts::Asleep } else { seen.place };
            thread.places.change(at, place, room(THREAD_CHANGES_MAX, is_starting));
        }
        if matches!(self.tells, Tells::Waits)
            && let Whereabouts::On(cpu) = seen.place
            && !seen.ended
        {
            self.wait_ends(slot, at, cpu);
        }
    }

    fn span(&mut self, slot: usize, worker: Option<usize>, marker: &SpanMarker<&str>) {
        self.take_span(slot, worker, marker);
    }
}

impl Timelines {
    /// Of threads that were not told of before it is the first that is known.
    fn woke(&mut self, slot: usize, at: Nanos, woke: Woke) {
        let most = room(THREAD_CHANGES_MAX, self.disks.is_starting);
        let thread = watched(&mut self.threads, slot, || Watched::new(at, Tid::IDLE, Comm::default()));
        keep(&mut thread.wakers, (at, woke), most);
    }

    /// More, or no more than otherwise, is remembered from here on.
    pub(super) fn remember(&mut self, is_starting: bool) {
        self.disks.is_starting = is_starting;
        for thread in self.threads.iter_mut().flatten().filter(|thread| thread.is_dead && !is_starting) {
            thread.places = Track::new();
        }
    }
}

/// What is known of the thread of a slot; `new`, where nothing was.
fn watched(threads: &mut Vec<Option<Watched>>, slot: usize, new: impl FnOnce() -> Watched) -> &mut Watched {
    if threads.len() <= slot {
        threads.resize_with(slot + 1, || None);
    }
    threads[slot].get_or_insert_with(new)
}

/// What was waited for in a sleep that an interrupt ended.
pub(super) fn awaited_interrupt(context: Context) -> Cause {
    if context.is_clock() { Cause::Clock } else { Cause::Device(context) }
}

fn interrupt(context: Context) -> Cause {
    match context {
        Context::Irq(irq) => Cause::Irq(irq),
        Context::Vector(name) => Cause::Vector(name),
        Context::Softirq(vector) => Cause::Softirq(vector),
    }
}

/// Keeps the chain when it is one of the longest; of two equal ones the earlier.
fn keep_worst(worst: &mut Vec<Worst>, most: usize, new: Worst) {
    let rank = |w: &Worst| (std::cmp::Reverse(w.chain.job.response()), w.chain.job.completion);
    let place = worst.partition_point(|kept| rank(kept) <= rank(&new));
    if place < most {
        worst.truncate(most - 1);
        worst.insert(place, new);
    }
}
