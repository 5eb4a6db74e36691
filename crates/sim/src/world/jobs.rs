//! [`Jobs`]: what the threads of a workload do: jobs on a grid, each a sequence of phases, or CPU time for ever.
//!
//! The rules are the host world's: job `k` of instance `i` draws its work under the task's name, `NAME#i` for
//! `i > 0`; the second and later `run` phases of a job draw under `NAME/1`, `NAME/2`, ... A job starts when its
//! thread first runs after the release, and one whose release has passed starts where the one before ended.

use surety_model::distribution::TimeDistribution;
use surety_model::event::JobMarker;
use surety_model::job::{next_activation, planned_release, release_jitter};
use surety_model::record::JobOutcome;
use surety_model::workload::{Late, Release, Sleep, Task};
use surety_stats::random::{Pcg, stream_of};
use surety_units::Nanos;

use crate::cpu::program::{Moment, Programs, Step};

/// One step of a job.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// CPU time drawn from a stream of its own; `None` never ends.
    Run(Option<TimeDistribution>, u64),
    Sleep(Nanos),
    Lock(usize),
    Unlock(usize),
    Wait(usize),
    Signal(usize),
}

/// One job as its thread saw it.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    job: u64,
    release: Nanos,
    start: Nanos,
    completion: Option<Nanos>,
    execution: Nanos,
}

/// Where a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Has a job planned and is to sleep until its release.
    Planned,
    /// Is to begin the planned job.
    Due,
    /// Is to take this phase of its job.
    In(usize),
    /// Has no more jobs.
    Over,
}

/// The jobs of one thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    key: String,
    seed: u64,
    phases: Vec<Phase>,
    release: Release,
    late: Late,
    sleep: Sleep,
    jobs: u64,
    end: Nanos,
    stage: Stage,
    job: u64,
    planned: Nanos,
    run_before: Nanos,
    stamps: Vec<Stamp>,
}

/// Room for stamps made before a run begins.
const ROOM_MAX: u64 = 1 << 20;

impl Thread {
    /// Instance `instance` of a task.
    pub(super) fn of_task(task: &Task, instance: u32, phases: Vec<Phase>, seed: u64, end: Nanos) -> Thread {
        let planned = match task.release {
            Release::Periodic { start, .. } => start,
            _ => Nanos::ZERO,
        };
        let jobs = task.jobs.unwrap_or(u64::MAX);
        let room = task.release.interval().map_or(1, |i| end.div_ceil(i).unsigned_abs() + 1);
        Thread {
            key: key(&task.name, instance),
            seed,
            phases,
            release: task.release,
            late: task.late,
            sleep: task.sleep,
            jobs,
            end,
            stage: if jobs == 0 || planned >= end { Stage::Over } else { Stage::Due },
            job: 0,
            planned,
            run_before: Nanos::ZERO,
            stamps: Vec::with_capacity(usize::try_from(room.min(jobs).min(ROOM_MAX)).expect("bounded")),
        }
    }

    /// CPU time for ever, without jobs.
    pub(super) fn hog() -> Thread {
        Thread {
            key: String::new(),
            seed: 0,
            phases: vec![Phase::Run(None, 0)],
            release: Release::Unspecified,
            late: Late::Queue,
            sleep: Sleep::Absolute,
            jobs: 1,
            end: Nanos::MAX,
            stage: Stage::In(0),
            job: 0,
            planned: Nanos::ZERO,
            run_before: Nanos::ZERO,
            stamps: Vec::new(),
        }
    }

    /// When it wakes for the first time.
    pub(super) fn first_release(&self) -> Nanos {
        self.planned + self.jitter()
    }

    fn jitter(&self) -> Nanos {
        match self.release {
            Release::Periodic { jitter, .. } => release_jitter(jitter, self.seed, &self.key, self.job),
            _ => Nanos::ZERO,
        }
    }

    /// The job is done: plans the next one.
    fn complete(&mut self, now: Nanos, run: Nanos) {
        if let Some(stamp) = self.stamps.last_mut() {
            stamp.completion = Some(now);
            stamp.execution = run - self.run_before;
        }
        let next = self.release.interval().map(|interval| match self.sleep {
            Sleep::Absolute => next_activation(&self.release, self.late, self.job, now),
            Sleep::Relative => (self.job + 1, (self.planned + interval).max(now)),
        });
        self.stage = Stage::Over;
        if let Some((job, planned)) = next.filter(|(job, planned)| *job < self.jobs && *planned < self.end) {
            (self.job, self.planned, self.stage) = (job, planned, Stage::Planned);
        }
    }

    fn next(&mut self, at: Moment, mark: &mut dyn FnMut(JobMarker)) -> Step {
        loop {
            match self.stage {
                Stage::Over => return Step::Exit,
                Stage::Planned => {
                    self.stage = Stage::Due;
                    return Step::SleepUntil(self.planned + self.jitter());
                }
                Stage::Due => {
                    self.run_before = at.run;
                    let (job, release) = (self.job, self.planned);
                    self.stamps.push(Stamp {
                        job,
                        release,
                        start: at.now,
                        completion: None,
                        execution: Nanos::ZERO,
                    });
                    mark(JobMarker::Begin { job, release });
                    self.stage = Stage::In(0);
                }
                Stage::In(place) => {
                    self.stage = Stage::In(place + 1);
                    match self.phases.get(place) {
                        Some(Phase::Run(Some(work), stream)) => {
                            let mut chance = Pcg::for_job(self.seed, *stream, self.job);
                            return Step::Run(work.draw_from(&mut chance));
                        }
                        Some(Phase::Run(None, _)) => return Step::RunForever,
                        Some(Phase::Sleep(length)) => return Step::SleepUntil(at.now + *length),
                        Some(Phase::Lock(lock)) => return Step::Lock(*lock),
                        Some(Phase::Unlock(lock)) => return Step::Unlock(*lock),
                        Some(Phase::Wait(signal)) => return Step::Wait(*signal),
                        Some(Phase::Signal(signal)) => return Step::Signal(*signal),
                        None => {
                            mark(JobMarker::End { job: self.job });
                            self.complete(at.now, at.run);
                        }
                    }
                }
            }
        }
    }

    /// What became of every planned activation whose release lies in the observed part of the run, which begins at
    /// `observe`. An activation that did not run was skipped when a later one ran or when, under `skip`, a job was
    /// still open past its release; else it is open.
    pub(super) fn outcomes(&self, observe: Nanos, mut take: impl FnMut(JobOutcome)) {
        let end = self.end;
        let outcome = |s: &Stamp| match s.completion {
            Some(completion) => JobOutcome::Completed {
                release: s.release,
                start: s.start,
                completion,
                execution: s.execution,
            },
            None => JobOutcome::Unfinished { release: s.release, until: end },
        };
        let Some(interval) = self.release.interval() else {
            self.stamps.iter().for_each(|s| take(outcome(s)));
            return;
        };
        if self.sleep == Sleep::Relative {
            self.stamps.iter().filter(|s| s.release >= observe).for_each(|s| take(outcome(s)));
            return;
        }
        let start = match self.release {
            Release::Periodic { start, .. } => start,
            _ => Nanos::ZERO,
        };
        let last = self.stamps.last();
        let mut stamps = self.stamps.iter().peekable();
        for job in 0..self.jobs {
            let release = planned_release(start, interval, job);
            if release >= end {
                break;
            }
            let stamp = stamps.next_if(|s| s.job == job);
            if release < observe {
                continue;
            }
            take(match (stamp, last) {
                (Some(stamp), _) => outcome(stamp),
                (None, Some(last)) if job < last.job => JobOutcome::Skipped { release },
                (None, Some(last)) if self.late == Late::Skip && last.completion.is_none() => {
                    JobOutcome::Skipped { release }
                }
                (None, _) => JobOutcome::Unfinished { release, until: end },
            });
        }
    }
}

/// The name an instance draws under.
pub(super) fn key(name: &str, instance: u32) -> String {
    if instance == 0 { name.to_owned() } else { format!("{name}#{instance}") }
}

/// The stream the `place`-th `run` phase of a job draws from.
pub(super) fn stream(key: &str, place: usize) -> u64 {
    if place == 0 { stream_of(key) } else { stream_of(&format!("{key}/{place}")) }
}

/// The jobs of all threads of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Jobs {
    pub(super) threads: Vec<Thread>,
}

impl Programs for Jobs {
    fn next(&mut self, at: Moment, mark: &mut dyn FnMut(JobMarker)) -> Step {
        self.threads[at.thread.index()].next(at, mark)
    }
}
