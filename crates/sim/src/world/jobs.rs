//! [`Jobs`]: what the threads of a workload do: jobs on a grid, each a sequence of phases, or CPU time for ever.
//!
//! The rules are the host world's: job `k` of instance `i` draws its work under the task's name, `NAME#i` for
//! `i > 0`; the second and later `run` phases of a job draw under `NAME/1`, `NAME/2`, ... A job starts when its
//! thread first runs after the release, and one whose release has passed starts where the one before ended.
//!
//! A thread knows nothing of the run's end: it sleeps until a release that lies beyond it, so that a run is the beginning
//! of every longer one.

use surety_model::activation::{Activations, Stamp, draw_key, run_key};
use surety_model::distribution::TimeDistribution;
use surety_model::event::JobMarker;
use surety_model::record::JobOutcome;
use surety_model::workload::{Late, Release, Sleep, Task};
use surety_stats::random::stream_of;
use surety_units::Nanos;

use super::io::Io;
use crate::cpu::at_disk::AtDisk;
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
    /// The requests of a device, one after another, for ever.
    Serve(usize),
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
    plan: Activations,
    end: Nanos,
    stage: Stage,
    job: u64,
    planned: Nanos,
    run_before: Nanos,
    stamps: Vec<Stamp>,
    /// Who does its work in place of jobs: its place among the actors.
    actor: Option<usize>,
}

/// Room for stamps made before a run begins.
const ROOM_MAX: u64 = 1 << 20;

impl Thread {
    /// Instance `instance` of a task.
    pub(super) fn of_task(task: &Task, instance: u32, phases: Vec<Phase>, seed: u64, end: Nanos) -> Thread {
        let key = draw_key(&task.name, instance);
        let plan = Activations::of(task, &key, seed);
        let planned = plan.start();
        // Endless work never comes to a second job.
        let room = if task.is_endless() { 1 } else { plan.room(end).min(ROOM_MAX) };
        let stage = if plan.jobs == 0 { Stage::Over } else { Stage::Due };
        Thread {
            key,
            seed,
            phases,
            plan,
            end,
            stage,
            job: 0,
            planned,
            run_before: Nanos::ZERO,
            stamps: Vec::with_capacity(usize::try_from(room).expect("bounded")),
            actor: None,
        }
    }

    /// CPU time for ever, without jobs.
    pub(super) fn hog() -> Thread {
        Thread::endless(Phase::Run(None, 0))
    }

    /// The handling thread of a device.
    pub(super) fn of_device(device: usize) -> Thread {
        Thread::endless(Phase::Serve(device))
    }

    /// The thread of an actor.
    pub(super) fn of_actor(actor: usize) -> Thread {
        Thread { actor: Some(actor), ..Thread::hog() }
    }

    /// Its actor, if it has one.
    pub(super) fn actor(&self) -> Option<usize> {
        self.actor
    }

    fn endless(phase: Phase) -> Thread {
        Thread {
            key: String::new(),
            seed: 0,
            phases: vec![phase],
            plan: Activations {
                release: Release::Unspecified,
                spacing: None,
                late: Late::Queue,
                sleep: Sleep::Absolute,
                jobs: 1,
                endless: true,
            },
            end: Nanos::MAX,
            stage: Stage::In(0),
            job: 0,
            planned: Nanos::ZERO,
            run_before: Nanos::ZERO,
            stamps: Vec::new(),
            actor: None,
        }
    }

    /// When it wakes for the first time.
    pub(super) fn first_release(&self) -> Nanos {
        self.planned + self.jitter()
    }

    fn jitter(&self) -> Nanos {
        self.plan.jitter(self.seed, &self.key, self.job)
    }

    /// The job is done: plans the next one.
    fn complete(&mut self, now: Nanos, run: Nanos) {
        if let Some(stamp) = self.stamps.last_mut() {
            stamp.completion = Some(now);
            stamp.execution = run - self.run_before;
        }
        let next = self.plan.after(self.job, self.planned, now);
        self.stage = Stage::Over;
        if let Some((job, planned)) = next {
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
                            return Step::Run(work.draw_of_job(self.seed, *stream, self.job));
                        }
                        Some(Phase::Run(None, _)) => return Step::RunForever,
                        Some(Phase::Sleep(length)) => return Step::SleepUntil(at.now + *length),
                        Some(Phase::Lock(lock)) => return Step::Lock(*lock),
                        Some(Phase::Unlock(lock)) => return Step::Unlock(*lock),
                        Some(Phase::Wait(signal)) => return Step::Wait(*signal),
                        Some(Phase::Signal(signal)) => return Step::Signal(*signal),
                        Some(Phase::Serve(device)) => {
                            let device = *device;
                            self.stage = Stage::In(place);
                            return Step::Serve(device);
                        }
                        None => {
                            mark(JobMarker::End { job: self.job });
                            self.complete(at.now, at.run);
                        }
                    }
                }
            }
        }
    }

    /// What became of every planned activation from `observe` on.
    pub(super) fn outcomes(&self, observe: Nanos) -> Vec<JobOutcome> {
        // A job that is released at the very end is none of the run's.
        let released = self.stamps.partition_point(|stamp| stamp.release < self.end);
        self.plan.outcomes(&self.stamps[..released], observe, self.end)
    }
}

/// The stream the `place`-th `run` phase of a job draws from.
pub(super) fn stream(key: &str, place: usize) -> u64 {
    stream_of(&run_key(key, place))
}

/// The jobs of all threads of a run.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) threads: Vec<Thread>,
    pub(super) io: Io,
}

impl Programs for Jobs {
    fn next(&mut self, at: Moment, mark: &mut dyn FnMut(JobMarker)) -> Step {
        let thread = &mut self.threads[at.thread.index()];
        match thread.actor {
            None => thread.next(at, mark),
            Some(actor) => self.io.next(actor, at),
        }
    }

    fn tell(&mut self, tell: &mut dyn FnMut(AtDisk)) {
        self.io.storage.take_told().for_each(tell);
    }
}
