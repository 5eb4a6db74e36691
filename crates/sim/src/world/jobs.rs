//! [`Jobs`]: what the threads of a workload do: jobs on a grid, each a sequence of phases, or CPU time for ever.
//!
//! The rules are the host world's: job `k` of instance `i` draws its work under the task's name, `NAME#i` for
//! `i > 0`; the second and later `run` phases of a job draw under `NAME/1`, `NAME/2`, ..., and the later passes of a loop
//! under `NAME~1`, `NAME~2`, ... A job starts when its
//! thread first runs after the release, and one whose release has passed starts where the one before ended.
//!
//! A thread knows nothing of the run's end: it sleeps until a release that lies beyond it, so that a run is the beginning
//! of every longer one.

use surety_model::activation::{Activations, Stamp, again_key, draw_key, run_key};
use surety_model::distribution::TimeDistribution;
use surety_model::event::JobMarker;
use surety_model::record::JobOutcome;
use surety_model::workload::{Course, Cursor, Late, Phase as TaskPhase, Release, Sleep, Task, Timer};
use surety_stats::random::stream_of;
use surety_units::Nanos;

use super::chains::{Chains, Delivery, Seat};
use super::io::Io;
use super::meetings::{Meetings, Met};
use crate::cpu::at_disk::AtDisk;
use crate::cpu::program::{Moment, Programs, Step};

/// One step of a job.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// CPU time drawn as the `place`-th `run` of a job; `None` never ends.
    Run(Option<TimeDistribution>, RunPlace),
    Busy(Nanos),
    Sleep(Nanos),
    /// Moves a timer of the thread on by a period, and sleeps until then; whether a late use leaves it where it is.
    Timer {
        timer: usize,
        period: Nanos,
        absolute: bool,
    },
    /// The same of a timer of several threads.
    SharedTimer {
        timer: usize,
        period: Nanos,
        absolute: bool,
    },
    Lock(usize),
    Unlock(usize),
    Wait(usize),
    Signal(usize),
    /// Gives a lock back while it waits for a condition.
    Await {
        condition: usize,
        lock: usize,
    },
    Notify(usize),
    NotifyAll(usize),
    Barrier(usize),
    Yield,
    /// By the machine's number for the CPUs, or for what the thread becomes.
    Confine(usize),
    Become(usize),
    /// By the machine's place of the group.
    Regroup(Option<usize>),
    /// Clamps of utilisation: nothing follows from them where CPUs have one speed.
    Clamp,
}

/// Which `run` of its jobs a phase is: its place, and the stream that draws where no pass of a loop came before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunPlace {
    place: usize,
    stream: u64,
}

impl RunPlace {
    /// The `place`-th of the thread that draws under `key`.
    pub(super) fn of(key: &str, place: usize) -> RunPlace {
        RunPlace { place, stream: stream_of(&run_key(key, place)) }
    }
}

/// Where a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Is to wake all who wait for this event.
    Opening(usize),
    /// Has a job planned and is to sleep until its release.
    Planned,
    /// Is to begin the planned job.
    Due,
    /// Is to take the next phase of its job.
    Within,
    /// Is to take what chains deliver to it, or to wait for it.
    Listening,
    /// Is to wake those that its job delivered to.
    HandingOn,
    /// Takes the requests of a device, one after another, for ever.
    Serving(usize),
    /// Has no more jobs.
    Over,
}

/// The jobs of one thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    key: String,
    seed: u64,
    phases: Vec<Phase>,
    course: Course,
    cursor: Cursor,
    /// What it does before its next phase, the last first.
    ahead: Vec<Step>,
    /// When what it is busy with ends.
    busy_until: Option<Nanos>,
    /// Its timers, where they were used.
    timers: Vec<Option<Nanos>>,
    plan: Activations,
    end: Nanos,
    stage: Stage,
    job: u64,
    planned: Nanos,
    run_before: Nanos,
    stamps: Vec<Stamp>,
    /// Who does its work in place of jobs: its place among the actors.
    actor: Option<usize>,
    /// Where chains deliver to it, what its job took of that, and what it does when that is handed on.
    seat: Option<Seat>,
    taken: Vec<Delivery>,
    then: Stage,
}

/// Room for stamps made before a run begins.
const ROOM_MAX: u64 = 1 << 20;

impl Thread {
    /// Instance `instance` of a task.
    pub(super) fn of_task(
        task: &Task,
        instance: u32,
        (phases, course): (Vec<Phase>, Course),
        seed: u64,
        end: Nanos,
    ) -> Thread {
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
            cursor: course.cursor(),
            course,
            ahead: Vec::new(),
            busy_until: None,
            timers: Vec::new(),
            plan,
            end,
            stage,
            job: 0,
            planned,
            run_before: Nanos::ZERO,
            stamps: Vec::with_capacity(usize::try_from(room).expect("bounded")),
            actor: None,
            seat: None,
            taken: Vec::new(),
            then: Stage::Over,
        }
    }

    /// The same as a stage of chains.
    pub(super) fn seated(self, seat: Option<Seat>) -> Thread {
        let stage = if seat.is_some_and(|seat| seat.is_fed) { Stage::Listening } else { self.stage };
        Thread { seat, stage, ..self }
    }

    /// The same as one that begins together with others: the last of them is to raise this event for all others, which wait for it.
    pub(super) fn together(self, opens: Option<usize>) -> Thread {
        let stage = match (self.stage, opens) {
            (Stage::Due, Some(event)) => Stage::Opening(event),
            (Stage::Due, None) => Stage::Planned,
            (other, _) => other,
        };
        Thread { stage, ..self }
    }

    /// CPU time for ever, without jobs.
    pub(super) fn hog() -> Thread {
        let course = Course::straight(1);
        Thread {
            key: String::new(),
            seed: 0,
            phases: vec![Phase::Run(None, RunPlace::default())],
            cursor: course.cursor(),
            course,
            ahead: Vec::new(),
            busy_until: None,
            timers: Vec::new(),
            plan: Activations {
                release: Release::Unspecified,
                spacing: None,
                late: Late::Queue,
                sleep: Sleep::Absolute,
                jobs: 1,
                endless: true,
                pass: None,
            },
            end: Nanos::MAX,
            stage: Stage::Within,
            job: 0,
            planned: Nanos::ZERO,
            run_before: Nanos::ZERO,
            stamps: Vec::new(),
            actor: None,
            seat: None,
            taken: Vec::new(),
            then: Stage::Over,
        }
    }

    /// The handling thread of a device.
    pub(super) fn of_device(device: usize) -> Thread {
        Thread { stage: Stage::Serving(device), ..Thread::hog() }
    }

    /// The thread of an actor.
    pub(super) fn of_actor(actor: usize) -> Thread {
        Thread { actor: Some(actor), ..Thread::hog() }
    }

    /// Its actor, if it has one.
    pub(super) fn actor(&self) -> Option<usize> {
        self.actor
    }

    /// When it wakes for the first time.
    pub(super) fn first_release(&self) -> Nanos {
        if matches!(self.stage, Stage::Opening(_)) { Nanos::ZERO } else { self.planned + self.jitter() }
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
        if self.seat.is_some_and(|seat| seat.is_fed) {
            (self.job, self.stage) = (self.job + 1, Stage::Listening);
            return;
        }
        let next = self.plan.after(self.job, self.planned, now);
        self.stage = Stage::Over;
        if let Some((job, planned)) = next {
            (self.job, self.planned, self.stage) = (job, planned, Stage::Planned);
        }
    }

    /// Hands on what the job took that is complete.
    fn hand_on(&mut self, chains: &mut Chains) {
        let Some(stamp) = self.stamps.last() else { return };
        let woken = self.taken.drain(..).filter_map(|delivery| chains.hand_on(delivery, stamp));
        self.ahead.extend(woken.map(Step::Signal));
        (self.then, self.stage) = (self.stage, Stage::HandingOn);
    }

    fn next(
        &mut self,
        at: Moment,
        (meetings, chains): (&mut Meetings, &mut Chains),
        mark: &mut dyn FnMut(JobMarker),
    ) -> Step {
        loop {
            match self.stage {
                Stage::Over => return Step::Exit,
                Stage::Serving(device) => return Step::Serve(device),
                Stage::Listening => {
                    let inbox = self.seat.expect("only a stage of chains listens").inbox;
                    let Some(delivery) = chains.take_one(inbox, at.now) else { return chains.listen(inbox) };
                    (self.planned, self.stage) = (delivery.at, Stage::Due);
                    self.taken.push(delivery);
                }
                Stage::HandingOn => match self.ahead.pop() {
                    Some(step) => return step,
                    None => self.stage = self.then,
                },
                Stage::Opening(event) => {
                    self.stage = Stage::Planned;
                    return Step::SignalAll(event);
                }
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
                    if let Some(Seat { inbox, is_fed: false }) = self.seat {
                        self.taken = chains.take_all(inbox, at.now);
                    }
                    self.cursor.restart();
                    self.stage = Stage::Within;
                }
                Stage::Within => {
                    if let Some(step) = self.ahead.pop().or_else(|| self.busy(at.now)) {
                        return step;
                    }
                    match self.cursor.next(&self.course) {
                        Some(taken) => {
                            if let Some(step) = self.take(taken.leaf, taken.before, at, meetings) {
                                return step;
                            }
                        }
                        None => {
                            mark(JobMarker::End { job: self.job });
                            self.complete(at.now, at.run);
                            if self.seat.is_some() {
                                self.hand_on(chains);
                            }
                        }
                    }
                }
            }
        }
    }

    /// The next piece of what it is busy with, until its time has passed.
    fn busy(&mut self, now: Nanos) -> Option<Step> {
        let is_on = self.busy_until.is_some_and(|until| now < until);
        if !is_on {
            self.busy_until = None;
        }
        is_on.then_some(Step::Run(TaskPhase::PIECE))
    }

    /// What a phase begins with; `None` where it is nothing.
    fn take(&mut self, leaf: usize, before: u64, at: Moment, meetings: &mut Meetings) -> Option<Step> {
        Some(match &self.phases[leaf] {
            Phase::Run(Some(TimeDistribution::Constant(work)), _) => Step::Run(*work),
            Phase::Run(Some(work), place) => {
                let again = || stream_of(&again_key(&run_key(&self.key, place.place), before));
                let stream = if before == 0 { place.stream } else { again() };
                Step::Run(work.draw_of_job(self.seed, stream, self.job))
            }
            Phase::Run(None, _) => Step::RunForever,
            Phase::Busy(length) => {
                self.busy_until = Some(at.now + *length);
                return self.busy(at.now);
            }
            Phase::Sleep(length) => Step::SleepUntil(at.now + *length),
            Phase::Timer { timer, period, absolute } => {
                let (timer, period, absolute) = (*timer, *period, *absolute);
                if self.timers.len() <= timer {
                    self.timers.resize(timer + 1, None);
                }
                let last = self.timers[timer].unwrap_or(self.plan.start());
                let (next, stands) = Timer::moves_on(last, (period, absolute), at.now);
                self.timers[timer] = Some(stands);
                Step::SleepUntil(next)
            }
            Phase::SharedTimer { timer, period, absolute } => {
                let begin = self.plan.start();
                Step::SleepUntil(meetings.timer(*timer, (*period, *absolute), begin, at.now))
            }
            Phase::Lock(lock) => Step::Lock(*lock),
            Phase::Unlock(lock) => Step::Unlock(*lock),
            Phase::Wait(signal) => Step::Wait(*signal),
            Phase::Signal(signal) => Step::Signal(*signal),
            Phase::Await { condition, lock } => {
                let own = meetings.join(*condition, at.thread);
                self.ahead.extend([Step::Lock(*lock), Step::Wait(own)]);
                Step::Unlock(*lock)
            }
            Phase::Notify(condition) => return meetings.first(*condition).map(Step::Signal),
            Phase::NotifyAll(condition) => {
                self.ahead.extend(meetings.all(*condition).rev().map(Step::Signal));
                return self.ahead.pop();
            }
            Phase::Barrier(barrier) => match meetings.arrive(*barrier, at.thread) {
                Met::Waits(own) => Step::Wait(own),
                Met::Last(others) => {
                    self.ahead.extend(others.into_iter().rev().map(Step::Signal));
                    return self.ahead.pop();
                }
            },
            Phase::Yield => Step::Yield,
            Phase::Confine(place) => Step::Confine(*place),
            Phase::Become(schedule) => Step::Become(*schedule),
            Phase::Regroup(group) => Step::Regroup(*group),
            Phase::Clamp => return None,
        })
    }

    /// What became of every planned activation from `observe` on.
    fn outcomes(&self, observe: Nanos, chains: &Chains) -> Vec<JobOutcome> {
        // A job that is released at the very end is none of the run's.
        let released = self.stamps.partition_point(|stamp| stamp.release < self.end);
        let Some(Seat { inbox, is_fed: true }) = self.seat else {
            return self.plan.outcomes(&self.stamps[..released], observe, self.end);
        };
        let mut outcomes = self.plan.outcomes(&self.stamps[..released], observe, self.end);
        let open = |release: Nanos| JobOutcome::Unfinished { release, until: self.end };
        outcomes.extend(chains.waiting(inbox).filter(|at| *at < self.end).map(open));
        outcomes.retain(|outcome| outcome.release() >= observe);
        outcomes
    }
}

/// The jobs of all threads of a run.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) threads: Vec<Thread>,
    pub(super) meetings: Meetings,
    pub(super) chains: Chains,
    pub(super) io: Io,
}

impl Jobs {
    /// What became of every planned activation of a thread from `observe` on.
    pub(super) fn outcomes(&self, thread: usize, observe: Nanos) -> Vec<JobOutcome> {
        self.threads[thread].outcomes(observe, &self.chains)
    }
}

impl Programs for Jobs {
    fn next(&mut self, at: Moment, mark: &mut dyn FnMut(JobMarker)) -> Step {
        let thread = &mut self.threads[at.thread.index()];
        match thread.actor {
            None => thread.next(at, (&mut self.meetings, &mut self.chains), mark),
            Some(actor) => self.io.next(actor, at),
        }
    }

    fn tell(&mut self, tell: &mut dyn FnMut(AtDisk)) {
        self.io.storage.take_told().for_each(tell);
    }
}
