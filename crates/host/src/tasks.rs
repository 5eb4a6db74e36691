//! Tasks made for a run: threads that release jobs on a grid, or for what chains deliver, each a burst of CPU time or a sequence of phases.
//!
//! The thread stamps every job itself; what was skipped or still open is counted from the grid afterwards
//! ([`Activations::outcomes`]). Job markers in the trace let others split late jobs that ran into each other.
//!
//! A `run` phase uses the CPU time it draws; what the kernel charges for the phases in between comes on top. That is little,
//! but for a lock with inheritance whose holder runs on another CPU: there the kernel may spin instead of sleeping
//! (`rtmutex_spin_on_owner` in `kernel/locking/rtmutex.c`).

use std::sync::Arc;

use surety_enforce::{attr_of_policy, attr_of_reservation, verify_scheduler};
use surety_kernel::clock::{self, ThreadTime};
use surety_kernel::futex::{Event, Waited};
use surety_kernel::thread::{give_way, set_own_affinity};
use surety_kernel::tracefs::Marker;
use surety_kernel::transition::{Left, set_own_scheduler};
use surety_kernel::{Kernel as _, KernelError, RealKernel, SchedAttr};
use surety_model::activation::{Activations, Stamp, again_key, draw_key, run_key};
use surety_model::distribution::TimeDistribution;
use surety_model::event::{JobMarker, JobUse};
use surety_model::record::JobOutcome;
use surety_model::workload::{Course, Cursor, Fill, Phase, Schedule, Task, TaskBody, Timer, Work, leaves};
use surety_units::{CpuSet, Nanos};

use crate::chains::{Chains, Handled, Place, Seat};
use crate::fills::Fillers;
use crate::meter::{Metered, ShareMeter};
use crate::shared::SharedObjects;
use crate::window::{Gate, Window};

/// What the thread of a made task returns.
#[derive(Clone, Debug)]
pub struct TaskRun {
    /// The plan its jobs were released by.
    pub plan: Activations,
    /// Its jobs in the order they ran, in workload time.
    pub stamps: Vec<Stamp>,
    /// What it got inside the observed window.
    pub metered: Metered,
    /// Why it ended before its time.
    pub trouble: Option<String>,
    /// How often it waited to come back to SCHED_DEADLINE, and how long in all.
    pub waited: (u32, Nanos),
    /// What it took from chains.
    pub(crate) handled: Vec<Handled>,
    /// Whether chains released its jobs.
    pub(crate) is_fed: bool,
}

impl TaskRun {
    /// What became of every planned activation from `observe` on, and of what was delivered to it.
    pub(crate) fn outcomes(&self, chains: &Chains, (observe, end): (Nanos, Nanos)) -> Vec<JobOutcome> {
        let mut outcomes = self.plan.outcomes(&self.stamps, observe, end);
        if self.is_fed {
            outcomes.retain(|outcome| outcome.release() >= observe);
            outcomes.extend(chains.open(&self.handled, (observe, end)));
        }
        outcomes
    }
}

/// One step of a job.
#[derive(Clone, Debug)]
enum Step {
    /// CPU time drawn under this name; `None`: never done.
    Run(Option<TimeDistribution>, String),
    Busy(Nanos),
    Sleep(Nanos),
    /// Of the timer of this place: how far it moves on, and whether a late use leaves it where it is.
    Timer(usize, Nanos, bool),
    /// The same of a timer of several threads.
    SharedTimer(usize, Nanos, bool),
    Lock(usize),
    Unlock(usize),
    Wait(usize),
    Signal(usize),
    /// A condition, and the lock that is given back meanwhile.
    Await(usize, usize),
    Notify(usize),
    NotifyAll(usize),
    Barrier(usize),
    Yield,
    Fill(Fill),
    Cpus(CpuSet),
    Become(SchedAttr),
}

/// What a made task does, ready to run.
#[derive(Clone, Debug)]
pub(crate) struct TaskBodySpec {
    /// The name draws are keyed by.
    key: String,
    /// What each job does.
    steps: Vec<Step>,
    course: Course,
    /// Where it meets others.
    shared: Arc<SharedObjects>,
    /// Where chains deliver to it.
    place: Option<Place>,
    /// When jobs come.
    plan: Activations,
    /// What work and jitter are drawn from.
    seed: u64,
}

/// Between two tries to come back to SCHED_DEADLINE while bandwidth is booked of before.
const BOOKED_LOOK: Nanos = Nanos::MILLISECOND;

/// Room for stamps made before a run begins.
const ROOM_MAX: u64 = 1 << 26;

impl TaskBodySpec {
    /// The body of instance `instance` of a task; `None` when it is not a made task this world can run.
    pub fn of(task: &Task, instance: u32, seed: u64, shared: &Arc<SharedObjects>) -> Option<TaskBodySpec> {
        let key = draw_key(&task.name, instance);
        let only = |work| (vec![Step::Run(work, key.clone())], Course::straight(1));
        let (steps, course) = match &task.body {
            TaskBody::Synthetic(Work::Forever) => only(None),
            TaskBody::Synthetic(Work::Drawn(work)) => only(Some(work.clone())),
            TaskBody::Phases(phases) => (steps_of(phases, &key, shared)?, Course::of(phases)),
            _ => return None,
        };
        let plan = Activations::of(task, &key, seed);
        let place = shared.chains().place_of(&task.name).cloned();
        Some(TaskBodySpec { key, steps, course, shared: Arc::clone(shared), place, plan, seed })
    }

    /// What is returned when there was no run.
    pub fn not_run(&self) -> TaskRun {
        TaskRun {
            plan: self.plan.clone(),
            stamps: Vec::new(),
            metered: Metered::default(),
            trouble: None,
            waited: (0, Nanos::ZERO),
            handled: Vec::new(),
            is_fed: self.is_fed(),
        }
    }

    fn is_fed(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.is_fed)
    }

    /// What its steps write from and to; made before the run begins, so that no job pays for it.
    pub fn fillers(&self) -> Result<Fillers, String> {
        Fillers::of(self.steps.iter().map(|step| match step {
            Step::Fill(fill) => Some(fill),
            _ => None,
        }))
    }

    /// Runs the task in the calling thread until the window ends, with its [fillers](TaskBodySpec::fillers).
    pub fn run(
        &self,
        gate: &Gate,
        window: &Window,
        marker: Option<&Marker>,
        fillers: Result<Fillers, String>,
    ) -> TaskRun {
        let fillers = match fillers {
            Ok(fillers) => fillers,
            Err(why) => return TaskRun { trouble: Some(why), ..self.not_run() },
        };
        let seat = self.place.as_ref().map(|place| Seat::of(self.shared.chains(), place));
        let room = match seat.as_ref().filter(|_| self.is_fed()) {
            Some(seat) => seat.room() as u64,
            None => self.plan.room(window.end - window.begin),
        };
        let mut stamps = Vec::with_capacity(usize::try_from(room.min(ROOM_MAX)).expect("bounded above"));
        let mut thread = Thread {
            gate,
            window,
            marker,
            meter: ShareMeter::new(*window),
            held: Vec::with_capacity(self.steps.len()),
            cursor: self.course.cursor(),
            timers: vec![None; self.steps.len()],
            fillers,
            own: Arc::default(),
            seat,
            left: None,
            waited: (0, Nanos::ZERO),
            time: ThreadTime::read(),
            trouble: None,
        };
        let mut works = Vec::with_capacity(self.steps.len());
        let mut next = (self.plan.jobs > 0).then_some((0, self.plan.start()));
        while let Some((job, planned)) = next.filter(|(_, release)| window.begin + *release < window.end) {
            self.draw(job, &mut works);
            let Some(release) = thread.released(self, job, planned) else { break };
            let stamp = thread.job(self, (job, release), &works);
            stamps.push(stamp);
            let Some(completion) = stamp.completion else { break };
            mark(marker, JobMarker::End { job });
            if let Some(marker) = marker {
                let mut buffer = [0; 64];
                let length = JobUse { job, cpu: stamp.execution }.write(&mut buffer);
                let _ = marker.mark(&buffer[..length]);
            }
            if let Some(seat) = &mut thread.seat {
                seat.hand_on(&stamp);
            }
            next = if self.is_fed() {
                Some((job + 1, planned))
            } else {
                self.plan.after(job, release, completion)
            };
        }
        let Thread { meter, trouble, seat, waited, .. } = thread;
        let handled = seat.map(Seat::finish).unwrap_or_default();
        TaskRun { stamps, metered: meter.finish(), trouble, waited, handled, ..self.not_run() }
    }

    /// The work of each `run` phase of a job by its place among the steps, drawn before the job begins.
    fn draw(&self, job: u64, works: &mut Vec<Nanos>) {
        works.clear();
        works.extend(self.steps.iter().map(|step| match step {
            Step::Run(work, key) => work.as_ref().map_or(Nanos::MAX, |w| w.draw(self.seed, key, job)),
            _ => Nanos::ZERO,
        }));
    }

    /// That of a `run` in a later pass of a loop: the same where it is constant.
    fn draw_again(&self, job: u64, step: usize, before: u64, first: Nanos) -> Nanos {
        match &self.steps[step] {
            Step::Run(Some(TimeDistribution::Constant(_)), _) => first,
            Step::Run(Some(work), key) => work.draw(self.seed, &again_key(key, before), job),
            _ => first,
        }
    }
}

/// Phases with the places of what they name.
fn steps_of(phases: &[Phase], key: &str, shared: &SharedObjects) -> Option<Vec<Step>> {
    let mut runs = 0;
    let mut timers: Vec<&str> = Vec::new();
    let mut steps = Vec::new();
    for phase in leaves(phases) {
        steps.push(match phase {
            Phase::Run(work) => {
                runs += 1;
                Step::Run(Some(work.clone()), run_key(key, runs - 1))
            }
            Phase::Busy(length) => Step::Busy(*length),
            Phase::Sleep(length) => Step::Sleep(*length),
            Phase::Timer(timer) if timer.shared => {
                Step::SharedTimer(shared.timer_named(&timer.name)?, timer.period, timer.absolute)
            }
            Phase::Timer(timer) => {
                Step::Timer(place_of(&mut timers, &timer.name), timer.period, timer.absolute)
            }
            Phase::Lock(name) => Step::Lock(shared.lock_named(name)?),
            Phase::Unlock(name) => Step::Unlock(shared.lock_named(name)?),
            Phase::Wait(name) => Step::Wait(shared.event_named(name)?),
            Phase::Signal(name) => Step::Signal(shared.event_named(name)?),
            Phase::Await { condition, lock } => {
                Step::Await(shared.condition_named(condition)?, shared.lock_named(lock)?)
            }
            Phase::Notify(name) => Step::Notify(shared.condition_named(name)?),
            Phase::NotifyAll(name) => Step::NotifyAll(shared.condition_named(name)?),
            Phase::Barrier(name) => Step::Barrier(shared.barrier_named(name)?),
            Phase::Yield => Step::Yield,
            Phase::Fill(fill) => Step::Fill(fill.clone()),
            Phase::Cpus(cpus) => Step::Cpus(cpus.unwrap_or(shared.cpus())),
            Phase::Become(schedule) => Step::Become(attr_of_schedule(schedule)),
            Phase::Loop { .. } => return None,
        });
    }
    Some(steps)
}

/// What the kernel is asked for to schedule a thread so.
fn attr_of_schedule(schedule: &Schedule) -> SchedAttr {
    match &schedule.reservation {
        Some(reservation) => attr_of_reservation(reservation),
        None => attr_of_policy(schedule.policy),
    }
}

/// The place of a name among those that were met.
fn place_of<'n>(names: &mut Vec<&'n str>, name: &'n str) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

/// The thread of a task while it runs.
struct Thread<'a> {
    gate: &'a Gate,
    window: &'a Window,
    marker: Option<&'a Marker>,
    meter: ShareMeter,
    /// The locks it holds.
    held: Vec<usize>,
    /// Where its job stands.
    cursor: Cursor,
    /// Its timers, in workload time, where they were used.
    timers: Vec<Option<Nanos>>,
    /// What its steps write, by their places.
    fillers: Fillers,
    /// What it waits for at conditions and barriers.
    own: Arc<Event>,
    /// Where chains deliver to it.
    seat: Option<Seat<'a>>,
    /// What it left behind in SCHED_DEADLINE, where it is not back.
    left: Option<Left>,
    /// How often it waited to come back, and how long in all.
    waited: (u32, Nanos),
    time: ThreadTime,
    trouble: Option<String>,
}

impl Thread<'_> {
    /// Waits until a job is released, at `planned` or by what a chain delivers; its release, or `None` when the run is over.
    fn released(&mut self, body: &TaskBodySpec, job: u64, planned: Nanos) -> Option<Nanos> {
        self.meter.slept();
        let (gate, window) = (self.gate, self.window);
        if let Some(seat) = self.seat.as_mut().filter(|_| body.is_fed()) {
            return seat.listen(gate, window).unwrap_or_else(|error| {
                self.trouble = Some(error.to_string());
                None
            });
        }
        let due = window.begin + planned + body.plan.jitter(body.seed, &body.key, job);
        (gate.sleep_until(due) && !gate.is_over(window, clock::monotonic())).then_some(planned)
    }

    /// Goes through the steps of a job; the marker is part of it. What is still held when the run ends is given back.
    fn job(&mut self, body: &TaskBodySpec, (job, release): (u64, Nanos), works: &[Nanos]) -> Stamp {
        let (begun, used_before) = self.time.now();
        mark(self.marker, JobMarker::Begin { job, release: self.window.begin + release });
        self.meter.look(begun);
        if let Some(seat) = self.seat.as_mut().filter(|_| !body.is_fed()) {
            seat.sample(self.window.since_begin(begun));
        }
        // The first phase pays for the marker; the others begin where they begin.
        let mut begin = Some(used_before);
        let mut done = true;
        let mut end = None;
        self.cursor.restart();
        while let Some(taken) = self.cursor.next(&body.course) {
            let phase_begin = begin.take();
            end = None;
            done = match body.steps[taken.leaf] {
                Step::Run(..) => {
                    let first = works[taken.leaf];
                    let work = match taken.before {
                        0 => first,
                        before => body.draw_again(job, taken.leaf, before, first),
                    };
                    let begin = phase_begin.unwrap_or_else(|| self.time.now().1);
                    let target = begin.saturating_add(work);
                    let (now, used) = self.burn(target);
                    end = Some((now, used));
                    used >= target
                }
                Step::Fill(..) => self.fill(taken.leaf),
                ref step => self.step(step, body),
            };
            if !done {
                break;
            }
        }
        while let Some(lock) = self.held.pop() {
            self.note(body.shared.unlock(lock));
        }
        let (now, used) = end.unwrap_or_else(|| self.time.now());
        let done = done && now <= self.window.end;
        Stamp {
            job,
            release,
            start: self.window.since_begin(begun),
            completion: done.then(|| self.window.since_begin(now)),
            execution: used - used_before,
        }
    }

    /// A step that is no run; false when the run ended meanwhile.
    fn step(&mut self, step: &Step, body: &TaskBodySpec) -> bool {
        let shared = &body.shared;
        match *step {
            Step::Run(..) | Step::Fill(..) => true,
            Step::Busy(length) => self.keep_busy(length),
            Step::Sleep(length) => self.sleep_until(clock::monotonic().saturating_add(length)),
            Step::Timer(timer, period, absolute) => {
                let now = self.window.since_begin(clock::monotonic());
                let last = self.timers[timer].unwrap_or(body.plan.start());
                let (next, stands) = Timer::moves_on(last, (period, absolute), now);
                self.timers[timer] = Some(stands);
                next <= now || self.sleep_until(self.window.begin + next)
            }
            Step::SharedTimer(timer, period, absolute) => {
                let now = self.window.since_begin(clock::monotonic());
                let next = shared.use_timer(timer, (period, absolute), body.plan.start(), now);
                next <= now || self.sleep_until(self.window.begin + next)
            }
            Step::Cpus(ref cpus) => self.note(set_own_affinity(cpus)),
            Step::Become(ref attr) => self.become_scheduled(attr),
            Step::Lock(lock) => self.take(lock, body),
            Step::Unlock(lock) => self.give_back(lock, body),
            Step::Wait(event) => self.wait_for(shared.wait(event, self.window.end)),
            Step::Await(condition, lock) => {
                shared.join(condition, &self.own);
                self.give_back(lock, body)
                    && self.wait_for(self.own.wait(self.window.end))
                    && self.take(lock, body)
            }
            Step::Barrier(barrier) => {
                !shared.arrive(barrier, &self.own) || self.wait_for(self.own.wait(self.window.end))
            }
            Step::Signal(event) => {
                shared.signal(event);
                true
            }
            Step::Notify(condition) => {
                shared.notify(condition);
                true
            }
            Step::NotifyAll(condition) => {
                shared.notify_all(condition);
                true
            }
            Step::Yield => {
                give_way();
                true
            }
        }
    }

    /// Writes what the step of this place writes; false when the run ended meanwhile, or the file takes it not.
    fn fill(&mut self, step: usize) -> bool {
        let Thread { fillers, time, meter, gate, window, trouble, .. } = self;
        let done = fillers.fill(step, || {
            let (now, _) = time.now();
            meter.look(now);
            !gate.is_over(window, now)
        });
        done.unwrap_or_else(|why| {
            *trouble = Some(why);
            false
        })
    }

    /// Is scheduled otherwise; false when the run ended before it could be, or the kernel did something else.
    fn become_scheduled(&mut self, attr: &SchedAttr) -> bool {
        if !attr.policy.is_deadline() || self.left.is_none() {
            return self.set_scheduled(attr).unwrap_or_else(|refusal| self.note(Err(refusal)));
        }
        let begun = clock::monotonic();
        let mut until = self.left.and_then(|left| left.owes_until).filter(|until| *until > begun);
        let (goes_on, has_waited) = loop {
            if until.is_some_and(|until| !self.sleep_until(until)) {
                break (false, true);
            }
            match self.set_scheduled(attr) {
                // Beside the bandwidth that is still booked of before there is no room for it.
                Err(refusal)
                    if refusal.is_busy()
                        && self.left.is_some_and(|left| clock::monotonic() < left.booked_until) =>
                {
                    until = Some(clock::monotonic() + BOOKED_LOOK);
                }
                Err(refusal) => break (self.note(Err(refusal)), until.is_some()),
                Ok(goes_on) => break (goes_on, until.is_some()),
            }
        };
        if has_waited {
            self.waited = (self.waited.0 + 1, self.waited.1 + (clock::monotonic() - begun));
        }
        goes_on
    }

    /// Asks for it once and reads back what came of it.
    fn set_scheduled(&mut self, attr: &SchedAttr) -> Result<bool, KernelError> {
        let kernel = RealKernel::new();
        let left = set_own_scheduler(&kernel, attr, clock::thread_cpu_time)?;
        self.left = if attr.policy.is_deadline() { None } else { left.or(self.left) };
        let verified = verify_scheduler(&kernel, kernel.own_tid(), attr);
        if let Err(refusal) = &verified {
            self.trouble = Some(refusal.to_string());
        }
        Ok(verified.is_ok())
    }

    fn take(&mut self, lock: usize, body: &TaskBodySpec) -> bool {
        let taken = self.wait_for(body.shared.lock(lock, self.window.end));
        if taken {
            self.held.push(lock);
        }
        taken
    }

    fn give_back(&mut self, lock: usize, body: &TaskBodySpec) -> bool {
        self.held.retain(|held| *held != lock);
        self.note(body.shared.unlock(lock))
    }

    /// Uses CPU time in pieces until so long has passed.
    fn keep_busy(&mut self, length: Nanos) -> bool {
        let (begun, mut used) = self.time.now();
        let until = begun.saturating_add(length);
        let mut now = begun;
        while now < until {
            let target = used + Phase::PIECE;
            (now, used) = self.burn(target);
            if used < target {
                return false;
            }
        }
        true
    }

    /// Uses CPU time until it amounts to `target`, or less when the run ends before; the instant, and what it amounts to.
    fn burn(&mut self, target: Nanos) -> (Nanos, Nanos) {
        let Thread { time, meter, gate, window, .. } = self;
        time.spin_until(target, |now| {
            meter.look(now);
            !gate.is_over(window, now)
        })
    }

    /// Sleeps until an instant; false when the run ended meanwhile.
    fn sleep_until(&mut self, until: Nanos) -> bool {
        let slept = self.gate.sleep_until(until.min(self.window.end));
        self.meter.slept();
        slept && until < self.window.end
    }

    /// Whether a wait ended with what was waited for, the run not being over.
    fn wait_for(&mut self, waited: Result<Waited, KernelError>) -> bool {
        self.meter.slept();
        match waited {
            Ok(Waited::Taken) => true,
            Ok(Waited::Over) => false,
            Ok(Waited::Deadlock) => {
                self.trouble = Some(
                    "it waits in a ring: every task there waits for a lock that the next one holds; take the locks in \
                     the same order everywhere"
                        .to_owned(),
                );
                false
            }
            Err(error) => self.note(Err(error)),
        }
    }

    fn note(&mut self, result: Result<(), KernelError>) -> bool {
        if let Err(error) = &result {
            self.trouble = Some(error.to_string());
        }
        result.is_ok()
    }
}

/// Writes a job marker; a trace that cannot take it loses it, which the trace's own counts show.
fn mark(marker: Option<&Marker>, text: JobMarker) {
    if let Some(marker) = marker {
        let mut buffer = [0; 64];
        let length = text.write(&mut buffer);
        let _ = marker.mark(&buffer[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_on_the_host_runs_its_jobs_with_the_work_it_draws() {
        let ms = Nanos::from_millis;
        let task = Task::periodic("t", ms(5), TimeDistribution::Constant(ms(1)));
        let body = TaskBodySpec::of(&task, 0, 1, &Arc::default()).unwrap();
        let gate = Gate::default();
        let window = Window::new(clock::monotonic() + ms(2), Nanos::ZERO, ms(50));
        let run = body.run(&gate, &window, None, body.fillers());
        assert!(!run.stamps.is_empty() && run.stamps.len() <= 10, "{}", run.stamps.len());
        for stamp in run.stamps.iter().filter(|s| s.completion.is_some()) {
            assert!(stamp.execution >= ms(1));
            assert!(stamp.start >= stamp.release && stamp.completion.unwrap() - stamp.start >= ms(1));
        }
        let total = run.plan.outcomes(&run.stamps, Nanos::ZERO, ms(50)).len();
        assert_eq!(total, 10);
    }

    #[test]
    fn a_thread_takes_the_cpus_and_the_policy_of_its_steps() {
        use surety_kernel::{Kernel as _, SchedPolicy};
        use surety_model::workload::PolicySpec;
        use surety_units::Tid;
        let ms = Nanos::from_millis;
        let kernel = RealKernel::new();
        let all = kernel.affinity(Tid(0)).expect("one's own");
        let one = CpuSet::single(all.iter().last().expect("a thread runs somewhere"));
        let mut task = Task::periodic("t", ms(5), TimeDistribution::Constant(ms(1)));
        task.jobs = Some(2);
        let becomes =
            |nice| Phase::Become(Schedule { policy: PolicySpec::Batch { nice }, reservation: None });
        let run = || Phase::Run(TimeDistribution::Constant(ms(1)));
        task.body = TaskBody::Phases(vec![
            Phase::Cpus(None),
            becomes(3),
            run(),
            Phase::Cpus(Some(one)),
            becomes(4),
            run(),
        ]);
        let body = TaskBodySpec::of(&task, 0, 1, &Arc::new(SharedObjects::on(all))).unwrap();
        let thread = std::thread::spawn(move || {
            let gate = Gate::default();
            let window = Window::new(clock::monotonic() + ms(2), Nanos::ZERO, Nanos::SECOND);
            let run = body.run(&gate, &window, None, body.fillers());
            (
                run.trouble,
                kernel.affinity(Tid(0)).unwrap(),
                kernel.scheduler(Tid(0)).unwrap().policy,
                run.stamps.len(),
            )
        });
        let (trouble, cpus, policy, jobs) = thread.join().expect("it ends");
        assert_eq!((trouble, cpus, policy), (None, one, SchedPolicy::Batch { nice: 4 }));
        assert_eq!(jobs, 2);
    }
}
