//! [`Timelines`]: what each CPU did and where each thread was, and a job's response read off the two.

use std::collections::{BTreeSet, VecDeque};

use surety_model::event::Comm;
use surety_model::job::{Job, Separation};
use surety_units::{CpuId, Nanos, Tid};

use super::chain::parts;
use super::disks::Disks;
use super::{
    Average, Blames, CPU_CHANGES_MAX, Cause, Chain, Culprit, DEAD_MAX, JobBlame, Piece, THREAD_CHANGES_MAX,
    THREADS_MAX, ThreadBlame, Worst,
};
use crate::jobs::interrupts::Context;
use crate::jobs::sink::{JobSink, ThreadKey, ThreadTotals};
use crate::jobs::watch::{Occupant, Seen, Waker, Watch, Whereabouts};
use crate::statistics::recorder::NAMES_MAX;
use crate::wanted::{Wanted, Window};

/// What was the case, from which instant on.
#[derive(Clone, Debug)]
struct Track<T> {
    changes: VecDeque<(Nanos, T)>,
}

impl<T: Copy + PartialEq> Track<T> {
    fn new() -> Track<T> {
        Track { changes: VecDeque::new() }
    }

    /// From `at` on it is `now`. A change that is learned late cannot reach back behind the last one.
    fn change(&mut self, at: Nanos, now: T, max: usize) {
        match self.changes.back_mut() {
            Some((_, last)) if *last == now => {}
            Some((since, last)) if *since >= at => *last = now,
            _ => {
                if self.changes.len() >= max {
                    self.changes.pop_front();
                }
                self.changes.push_back((at, now));
            }
        }
    }

    /// Forgets what ended before `at`.
    fn forget_before(&mut self, at: Nanos) {
        while self.changes.get(1).is_some_and(|(next, _)| *next <= at) {
            self.changes.pop_front();
        }
    }

    /// Walks `from..until`: every instant of it once, in order; `None` where nothing is known.
    fn walk(&self, from: Nanos, until: Nanos, mut step: impl FnMut(Nanos, Nanos, Option<T>)) {
        let first = self.changes.partition_point(|(at, _)| *at <= from);
        let mut now = first.checked_sub(1).map(|k| self.changes[k].1);
        let mut cursor = from;
        for (at, next) in self.changes.range(first..) {
            if *at >= until {
                break;
            }
            step(cursor, *at, now);
            (cursor, now) = (*at, Some(*next));
        }
        if cursor < until {
            step(cursor, until, now);
        }
    }
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OnCpu {
    occupant: Occupant,
    prio: i32,
    context: Option<Context>,
}

/// A thread that is watched.
#[derive(Clone, Debug)]
struct Watched {
    /// When it was first told of: what its slot did before, another thread did.
    since: Nanos,
    tid: Tid,
    comm: Comm,
    places: Track<Whereabouts>,
    /// Who woke it when.
    wakers: VecDeque<(Nanos, Waker)>,
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
            wakers: VecDeque::new(),
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

    /// What it waited for in a sleep that ended at `until`.
    fn awaited(&self, until: Nanos) -> Cause {
        let found = self.wakers.partition_point(|(at, _)| *at < until);
        match self.wakers.get(found) {
            Some((at, Waker { tid, comm, prio, lock })) if *at == until => {
                let culprit = Culprit { tid: *tid, comm: *comm, prio: *prio };
                if *lock { Cause::Lock(culprit) } else { Cause::Awaited(culprit) }
            }
            _ => Cause::Blocked,
        }
    }
}

/// The histories of all CPUs and threads, and the blame of the jobs completed so far.
#[derive(Clone, Debug)]
pub(super) struct Timelines {
    wanted: Wanted,
    window: Window,
    most: usize,
    /// Waits for disks are told, and no jobs.
    tells_waits: bool,
    pub(super) disks: Disks,
    cpus: Vec<Track<OnCpu>>,
    /// By slot; `None` where a slot has not been told of.
    threads: Vec<Option<Watched>>,
    /// Of the threads that are gone.
    blames: Blames,
    names: BTreeSet<Comm>,
}

impl Timelines {
    pub(super) fn new(wanted: Wanted, most: usize) -> Timelines {
        Timelines {
            wanted,
            window: Window::ALL,
            most,
            tells_waits: false,
            disks: Disks::default(),
            cpus: Vec::new(),
            threads: Vec::new(),
            blames: Blames::default(),
            names: BTreeSet::new(),
        }
    }

    pub(super) fn of_waits(wanted: Wanted, most: usize) -> Timelines {
        let blames = Blames { are_waits: true, ..Blames::default() };
        Timelines { tells_waits: true, blames, ..Timelines::new(wanted, most) }
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
        thread.places.walk(job.release, job.completion, |from, until, place| match place {
            None | Some(Whereabouts::Unknown) => add(from, until, None, Cause::Unknown),
            Some(Whereabouts::Throttled) => add(from, until, None, Cause::Throttled),
            Some(Whereabouts::Asleep) => {
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
            Some(Whereabouts::On(cpu)) => self.walk_cpu(cpu, from, until, |from, until, on| {
                if let Some(context) = on.and_then(|on| on.context) {
                    return add(from, until, Some(cpu), interrupt(context));
                }
                let border = job.start.clamp(from, until);
                add(from, border, Some(cpu), Cause::Earlier);
                add(border, until, Some(cpu), Cause::Own);
            }),
            Some(Whereabouts::Queued(cpu)) => self.walk_cpu(cpu, from, until, |from, until, on| {
                add(from, until, Some(cpu), self.occupation(slot, from, on));
            }),
        });
        pieces
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
        if let Some(context) = on.context {
            return interrupt(context);
        }
        match on.occupant {
            Occupant::Idle => Cause::Idle,
            Occupant::Thread(other) if other != slot => match self.threads.get(other) {
                // A stretch from before the thread's first is that of one whose slot it got.
                Some(Some(thread)) if thread.since <= from => {
                    Cause::Thread(Culprit { tid: thread.tid, comm: thread.comm, prio: on.prio })
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
        if !self.tells_waits {
            self.take(thread, job, false);
        }
    }

    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        if !self.tells_waits {
            self.take(thread, job, true);
        }
    }

    fn forget(&mut self, thread: &ThreadKey) {
        if self.tells_waits {
            return;
        }
        self.blames.slowest.forget(thread.life);
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
        self.cpus[cpu.index()].change(at, OnCpu { occupant, prio, context }, CPU_CHANGES_MAX);
    }

    fn woken(&mut self, slot: usize, at: Nanos, waker: Waker) {
        if let Some(Some(thread)) = self.threads.get_mut(slot) {
            if thread.wakers.len() >= THREAD_CHANGES_MAX {
                thread.wakers.pop_front();
            }
            thread.wakers.push_back((at, waker));
        }
    }

    fn thread(&mut self, slot: usize, at: Nanos, seen: Seen) {
        if self.threads.len() <= slot {
            self.threads.resize_with(slot + 1, || None);
        }
        let thread = self.threads[slot].get_or_insert_with(|| Watched::new(at, seen.tid, seen.comm));
        (thread.tid, thread.comm) = (seen.tid, seen.comm);
        if seen.ended {
            // Its jobs are told; only its name is still wanted.
            thread.places = Track::new();
        } else {
            thread.places.change(at, seen.place, THREAD_CHANGES_MAX);
        }
        if self.tells_waits
            && let Whereabouts::On(cpu) = seen.place
            && !seen.ended
        {
            self.wait_ends(slot, at, cpu);
        }
    }
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
