//! Tasks made for a run: threads that release jobs on a grid, each a burst of CPU time or a sequence of phases.
//!
//! The thread stamps every job itself; what was skipped or still open is counted from the grid afterwards
//! ([`Activations::outcomes`]). Job markers in the trace let others split late jobs that ran into each other.
//!
//! A `run` phase uses the CPU time it draws; what the kernel charges for the phases in between comes on top. That is little,
//! but for a lock with inheritance whose holder runs on another CPU: there the kernel may spin instead of sleeping
//! (`rtmutex_spin_on_owner` in `kernel/locking/rtmutex.c`).

use std::sync::Arc;

use surety_kernel::KernelError;
use surety_kernel::clock::{self, ThreadTime};
use surety_kernel::futex::Waited;
use surety_kernel::tracefs::Marker;
use surety_model::activation::{Activations, Stamp, draw_key, run_key};
use surety_model::distribution::TimeDistribution;
use surety_model::event::{JobMarker, JobUse};
use surety_model::workload::{Phase, Task, TaskBody, Work};
use surety_units::Nanos;

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
}

/// One step of a job.
#[derive(Clone, Debug)]
enum Step {
    /// CPU time drawn under this name; `None`: never done.
    Run(Option<TimeDistribution>, String),
    Sleep(Nanos),
    Lock(usize),
    Unlock(usize),
    Wait(usize),
    Signal(usize),
}

/// What a made task does, ready to run.
#[derive(Clone, Debug)]
pub(crate) struct TaskBodySpec {
    /// The name draws are keyed by.
    key: String,
    /// What each job does.
    steps: Vec<Step>,
    /// Where it meets others.
    shared: Arc<SharedObjects>,
    /// When jobs come.
    plan: Activations,
    /// What work and jitter are drawn from.
    seed: u64,
}

/// Room for stamps made before a run begins.
const ROOM_MAX: u64 = 1 << 26;

impl TaskBodySpec {
    /// The body of instance `instance` of a task; `None` when it is not a made task this world can run.
    pub fn of(task: &Task, instance: u32, seed: u64, shared: &Arc<SharedObjects>) -> Option<TaskBodySpec> {
        let key = draw_key(&task.name, instance);
        let steps = match &task.body {
            TaskBody::Synthetic(Work::Forever) => vec![Step::Run(None, key.clone())],
            TaskBody::Synthetic(Work::Drawn(work)) => vec![Step::Run(Some(work.clone()), key.clone())],
            TaskBody::Phases(phases) => steps_of(phases, &key, shared)?,
            _ => return None,
        };
        let plan = Activations::of(task, &key, seed);
        Some(TaskBodySpec { key, steps, shared: Arc::clone(shared), plan, seed })
    }

    /// What is returned when there was no run.
    pub fn not_run(&self) -> TaskRun {
        TaskRun { plan: self.plan.clone(), stamps: Vec::new(), metered: Metered::default(), trouble: None }
    }

    /// Runs the task in the calling thread until the window ends.
    pub fn run(&self, gate: &Gate, window: &Window, marker: Option<&Marker>) -> TaskRun {
        let room = self.plan.room(window.end - window.begin).min(ROOM_MAX);
        let mut stamps = Vec::with_capacity(usize::try_from(room).expect("bounded above"));
        let mut thread = Thread {
            gate,
            window,
            marker,
            meter: ShareMeter::new(*window),
            held: Vec::with_capacity(self.steps.len()),
            time: ThreadTime::read(),
            trouble: None,
        };
        let mut works = Vec::with_capacity(self.steps.len());
        let mut next = (self.plan.jobs > 0).then_some((0, self.plan.start()));
        while let Some((job, release)) = next.filter(|(_, release)| window.begin + *release < window.end) {
            self.draw(job, &mut works);
            let due = window.begin + release + self.plan.jitter(self.seed, &self.key, job);
            thread.meter.slept();
            if !gate.sleep_until(due) || gate.is_over(window, clock::monotonic()) {
                break;
            }
            let stamp = thread.job(self, (job, release), &works);
            stamps.push(stamp);
            let Some(completion) = stamp.completion else { break };
            mark(marker, JobMarker::End { job });
            if let Some(marker) = marker {
                let mut buffer = [0; 64];
                let length = JobUse { job, cpu: stamp.execution }.write(&mut buffer);
                let _ = marker.mark(&buffer[..length]);
            }
            next = self.plan.after(job, release, completion);
        }
        let Thread { meter, trouble, .. } = thread;
        TaskRun { plan: self.plan.clone(), stamps, metered: meter.finish(), trouble }
    }

    /// The work of each `run` phase of a job, drawn before the job begins.
    fn draw(&self, job: u64, works: &mut Vec<Nanos>) {
        works.clear();
        for step in &self.steps {
            if let Step::Run(work, key) = step {
                works.push(work.as_ref().map_or(Nanos::MAX, |w| w.draw(self.seed, key, job)));
            }
        }
    }
}

/// Phases with the places of what they name.
fn steps_of(phases: &[Phase], key: &str, shared: &SharedObjects) -> Option<Vec<Step>> {
    let mut runs = 0;
    let step = |phase: &Phase| {
        Some(match phase {
            Phase::Run(work) => {
                runs += 1;
                Step::Run(Some(work.clone()), run_key(key, runs - 1))
            }
            Phase::Sleep(length) => Step::Sleep(*length),
            Phase::Lock(name) => Step::Lock(shared.lock_named(name)?),
            Phase::Unlock(name) => Step::Unlock(shared.lock_named(name)?),
            Phase::Wait(name) => Step::Wait(shared.event_named(name)?),
            Phase::Signal(name) => Step::Signal(shared.event_named(name)?),
        })
    };
    phases.iter().map(step).collect()
}

/// The thread of a task while it runs.
struct Thread<'a> {
    gate: &'a Gate,
    window: &'a Window,
    marker: Option<&'a Marker>,
    meter: ShareMeter,
    /// The locks it holds.
    held: Vec<usize>,
    time: ThreadTime,
    trouble: Option<String>,
}

impl Thread<'_> {
    /// Goes through the steps of a job; the marker is part of it. What is still held when the run ends is given back.
    fn job(&mut self, body: &TaskBodySpec, (job, release): (u64, Nanos), works: &[Nanos]) -> Stamp {
        let (begun, used_before) = self.time.now();
        mark(self.marker, JobMarker::Begin { job, release: self.window.begin + release });
        self.meter.look(begun);
        let mut works = works.iter();
        // The first phase pays for the marker; the others begin where they begin.
        let mut begin = Some(used_before);
        let mut done = true;
        let mut end = None;
        for step in &body.steps {
            let phase_begin = begin.take();
            end = None;
            done = match step {
                Step::Run(..) => {
                    let work = *works.next().expect("one is drawn for each");
                    let begin = phase_begin.unwrap_or_else(|| self.time.now().1);
                    let target = begin.saturating_add(work);
                    let (now, used) = self.burn(target);
                    end = Some((now, used));
                    used >= target
                }
                Step::Sleep(length) => self.sleep(*length),
                Step::Lock(lock) => {
                    let taken = self.wait_for(body.shared.lock(*lock, self.window.end));
                    if taken {
                        self.held.push(*lock);
                    }
                    taken
                }
                Step::Unlock(lock) => {
                    self.held.retain(|held| held != lock);
                    self.note(body.shared.unlock(*lock))
                }
                Step::Wait(event) => self.wait_for(body.shared.wait(*event, self.window.end)),
                Step::Signal(event) => {
                    body.shared.signal(*event);
                    true
                }
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

    /// Uses CPU time until it amounts to `target`, or less when the run ends before; the instant, and what it amounts to.
    fn burn(&mut self, target: Nanos) -> (Nanos, Nanos) {
        let Thread { time, meter, gate, window, .. } = self;
        time.spin_until(target, |now| {
            meter.look(now);
            !gate.is_over(window, now)
        })
    }

    /// Sleeps; false when the run ended meanwhile.
    fn sleep(&mut self, length: Nanos) -> bool {
        let until = clock::monotonic().saturating_add(length);
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
        let run = body.run(&gate, &window, None);
        assert!(!run.stamps.is_empty() && run.stamps.len() <= 10, "{}", run.stamps.len());
        for stamp in run.stamps.iter().filter(|s| s.completion.is_some()) {
            assert!(stamp.execution >= ms(1));
            assert!(stamp.start >= stamp.release && stamp.completion.unwrap() - stamp.start >= ms(1));
        }
        let total = run.plan.outcomes(&run.stamps, Nanos::ZERO, ms(50)).len();
        assert_eq!(total, 10);
    }
}
