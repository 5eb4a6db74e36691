//! [`Timelines`]: what each CPU did and where each thread was, and a job's response read off the two.

use std::collections::VecDeque;

use surety_model::event::Comm;
use surety_model::job::{Job, Separation};
use surety_units::{CpuId, Nanos, Tid};

use super::{
    CPU_CHANGES_MAX, Cause, Chain, Choice, Culprit, JobBlame, Part, Piece, THREAD_CHANGES_MAX, ThreadBlame,
};
use crate::jobs::interrupts::Context;
use crate::jobs::watch::{Occupant, Seen, Watch, Whereabouts};

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
    tid: Tid,
    comm: Comm,
    places: Track<Whereabouts>,
    separation: Separation,
    /// Of the thread's jobs, how many have been looked at.
    looked_at: usize,
    jobs: Vec<JobBlame>,
    worst: Vec<Chain>,
}

/// The histories of all CPUs and threads, and the blame of the jobs completed so far.
#[derive(Clone, Debug)]
pub(super) struct Timelines {
    choice: Choice,
    worst: usize,
    cpus: Vec<Track<OnCpu>>,
    /// By slot; `None` where a slot has not been told of.
    threads: Vec<Option<Watched>>,
}

impl Timelines {
    pub(super) fn new(choice: Choice, worst: usize) -> Timelines {
        Timelines { choice, worst, cpus: Vec::new(), threads: Vec::new() }
    }

    pub(super) fn finish(self) -> Vec<ThreadBlame> {
        let mut threads: Vec<ThreadBlame> = self
            .threads
            .into_iter()
            .flatten()
            .filter(|thread| !thread.jobs.is_empty())
            .map(|thread| ThreadBlame {
                tid: thread.tid,
                comm: thread.comm,
                separation: thread.separation,
                jobs: thread.jobs,
                worst: thread.worst,
            })
            .collect();
        // Slots are in the order of appearance, and the sort is stable.
        threads.sort_by_key(|thread| thread.tid);
        threads
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
                add(border, until, None, Cause::Blocked);
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
                add(from, until, Some(cpu), self.occupation(slot, on));
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
    fn occupation(&self, slot: usize, on: Option<OnCpu>) -> Cause {
        let Some(on) = on else { return Cause::Unknown };
        if let Some(context) = on.context {
            return interrupt(context);
        }
        match on.occupant {
            Occupant::Idle => Cause::Idle,
            Occupant::Thread(other) if other != slot => match self.threads.get(other) {
                Some(Some(thread)) => {
                    Cause::Thread(Culprit { tid: thread.tid, comm: thread.comm, prio: on.prio })
                }
                _ => Cause::Unknown,
            },
            Occupant::Thread(_) | Occupant::Unknown => Cause::Unknown,
        }
    }

    /// Looks at the jobs of a thread that were not there before.
    fn look_at(&mut self, slot: usize, mut thread: Watched, seen: &Seen<'_>) -> Watched {
        if thread.separation != seen.separation {
            // The busy periods before the first marker were no jobs.
            thread.separation = seen.separation;
            thread.looked_at = 0;
            thread.jobs.clear();
            thread.worst.clear();
        }
        let chosen = self.choice.tid.is_none_or(|tid| tid == seen.tid)
            && self.choice.comm.is_none_or(|comm| comm == seen.comm);
        for job in seen.jobs.iter().skip(thread.looked_at) {
            if chosen {
                let pieces = self.pieces(slot, &thread, job);
                thread.jobs.push(JobBlame { job: *job, parts: parts(&pieces) });
                keep_worst(&mut thread.worst, self.worst, job, pieces);
            }
            if seen.separation == Separation::BusyPeriod {
                // The next one may have been released before this one was off its CPU, but not before it started.
                thread.places.forget_before(job.start);
            }
        }
        thread.looked_at = seen.jobs.len();
        thread
    }
}

impl Watch for Timelines {
    const WATCHES: bool = true;

    fn cpu(&mut self, cpu: CpuId, at: Nanos, occupant: Occupant, prio: i32, context: Option<Context>) {
        if self.cpus.len() <= cpu.index() {
            self.cpus.resize_with(cpu.index() + 1, Track::new);
        }
        self.cpus[cpu.index()].change(at, OnCpu { occupant, prio, context }, CPU_CHANGES_MAX);
    }

    fn thread(&mut self, slot: usize, at: Nanos, seen: &Seen<'_>) {
        if self.threads.len() <= slot {
            self.threads.resize_with(slot + 1, || None);
        }
        let mut thread = self.threads[slot].take().unwrap_or_else(|| Watched {
            tid: seen.tid,
            comm: seen.comm,
            places: Track::new(),
            separation: seen.separation,
            looked_at: 0,
            jobs: Vec::new(),
            worst: Vec::new(),
        });
        (thread.tid, thread.comm) = (seen.tid, seen.comm);
        thread.places.change(at, seen.place, THREAD_CHANGES_MAX);
        if thread.looked_at != seen.jobs.len() || thread.separation != seen.separation {
            thread = self.look_at(slot, thread, seen);
        }
        self.threads[slot] = Some(thread);
    }
}

fn interrupt(context: Context) -> Cause {
    match context {
        Context::Irq(irq) => Cause::Irq(irq),
        Context::Vector(name) => Cause::Vector(name),
        Context::Softirq(vector) => Cause::Softirq(vector),
    }
}

/// Pieces with the same cause together.
fn parts(pieces: &[Piece]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for piece in pieces {
        match parts.iter_mut().find(|part| part.cause == piece.cause) {
            Some(part) => part.time += piece.time(),
            None => parts.push(Part { cause: piece.cause, time: piece.time() }),
        }
    }
    parts
}

/// Keeps the chain when it is one of the longest; of two equal ones the earlier.
fn keep_worst(worst: &mut Vec<Chain>, most: usize, job: &Job, pieces: Vec<Piece>) {
    let place = worst.partition_point(|chain| chain.job.response() >= job.response());
    if place < most {
        worst.truncate(most - 1);
        worst.insert(place, Chain { job: *job, pieces });
    }
}
