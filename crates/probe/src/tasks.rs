//! Synthetic tasks: threads that release jobs on a grid and burn the CPU time each job draws.
//!
//! The thread stamps every job itself; what was skipped or still open is counted from the grid afterwards
//! ([`Activations::outcomes`]). Job markers in the trace let others split late jobs that ran into each other.

use surety_kernel::clock;
use surety_kernel::tracefs::Marker;
use surety_model::activation::{Activations, Stamp, draw_key};
use surety_model::distribution::TimeDistribution;
use surety_model::event::{JobMarker, JobUse};
use surety_model::workload::{Task, TaskBody, Work};
use surety_units::Nanos;

use crate::meter::{Metered, ShareMeter};
use crate::window::{Gate, Window};

/// What the thread of a synthetic task returns.
#[derive(Clone, Debug)]
pub struct TaskRun {
    /// The plan its jobs were released by.
    pub plan: Activations,
    /// Its jobs in the order they ran, in workload time.
    pub stamps: Vec<Stamp>,
    /// What it got inside the observed window.
    pub metered: Metered,
}

/// What a synthetic task does, ready to run.
#[derive(Clone, Debug)]
pub(crate) struct TaskBodySpec {
    /// The name draws are keyed by.
    key: String,
    /// The work of each job; `None`: never done.
    work: Option<TimeDistribution>,
    /// When jobs come.
    plan: Activations,
    /// What work and jitter are drawn from.
    seed: u64,
}

/// Room for stamps made before a run begins.
const ROOM_MAX: u64 = 1 << 26;

impl TaskBodySpec {
    /// The body of instance `instance` of a task; `None` when it is not synthetic work this world can run.
    pub fn of(task: &Task, instance: u32, seed: u64) -> Option<TaskBodySpec> {
        let TaskBody::Synthetic(work) = &task.body else { return None };
        let work = match work {
            Work::Forever => None,
            Work::Drawn(distribution) => Some(distribution.clone()),
            Work::Trace(_) => return None,
        };
        let key = draw_key(&task.name, instance);
        let plan = Activations::of(task, &key, seed);
        Some(TaskBodySpec { key, work, plan, seed })
    }

    /// What is returned when there was no run.
    pub fn not_run(&self) -> TaskRun {
        TaskRun { plan: self.plan.clone(), stamps: Vec::new(), metered: Metered::default() }
    }

    /// Runs the task in the calling thread until the window ends.
    pub fn run(&self, gate: &Gate, window: &Window, marker: Option<&Marker>) -> TaskRun {
        let room = self.plan.room(window.end - window.begin).min(ROOM_MAX);
        let mut stamps = Vec::with_capacity(usize::try_from(room).expect("bounded above"));
        let mut meter = ShareMeter::new(*window);
        let mut next = (self.plan.jobs > 0).then_some((0, self.plan.start()));
        while let Some((job, release)) = next.filter(|(_, release)| window.begin + *release < window.end) {
            let amount = self.work.as_ref().map_or(Nanos::MAX, |w| w.draw(self.seed, &self.key, job));
            let due = window.begin + release + self.plan.jitter(self.seed, &self.key, job);
            meter.slept();
            if !gate.sleep_until(due) || gate.is_over(window, clock::monotonic()) {
                break;
            }
            let stamp = self.burn(gate, window, &mut meter, marker, (job, release), amount);
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
        TaskRun { plan: self.plan.clone(), stamps, metered: meter.finish() }
    }

    /// Burns `amount` of CPU time as one job; the marker is part of it.
    fn burn(
        &self,
        gate: &Gate,
        window: &Window,
        meter: &mut ShareMeter,
        marker: Option<&Marker>,
        (job, release): (u64, Nanos),
        amount: Nanos,
    ) -> Stamp {
        let begun = clock::monotonic();
        let cpu_begin = clock::thread_cpu_time();
        mark(marker, JobMarker::Begin { job, release: window.begin + release });
        meter.look(begun);
        let used = clock::spin_cpu_time_while(cpu_begin, amount, |now| {
            meter.look(now);
            !gate.is_over(window, now)
        });
        let now = clock::monotonic();
        let done = used >= amount && now <= window.end;
        Stamp {
            job,
            release,
            start: window.since_begin(begun),
            completion: done.then(|| window.since_begin(now)),
            execution: used,
        }
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
        let body = TaskBodySpec::of(&task, 0, 1).unwrap();
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
