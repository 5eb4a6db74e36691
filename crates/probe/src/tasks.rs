//! Synthetic tasks: threads that release jobs on a grid and burn the CPU time each job draws.
//!
//! The thread stamps every job itself; nothing is left out: what was skipped or still open is counted from the
//! grid afterwards ([`outcomes`]). Job markers in the trace let others split late jobs that ran into each other.

use surety_kernel::clock;
use surety_kernel::tracefs::Marker;
use surety_model::event::JobMarker;
use surety_model::job::{next_activation, planned_release, release_jitter};
use surety_model::record::JobOutcome;
use surety_model::workload::{Late, Release, Sleep, Task, TaskBody, Work};
use surety_units::Nanos;

use crate::meter::{Metered, ShareMeter};
use crate::window::{Gate, Window};

/// Work is burnt in pieces of this, so that a starved thread notices the end of the run.
const PIECE: Nanos = Nanos::from_millis(1);

/// One job as its thread saw it, in workload time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Index on the grid.
    pub job: u64,
    /// Planned release.
    pub release: Nanos,
    /// First instant on a CPU.
    pub start: Nanos,
    /// End; `None` while open when the run ended.
    pub completion: Option<Nanos>,
    /// CPU time used.
    pub execution: Nanos,
}

/// What the thread of a synthetic task returns.
#[derive(Clone, Debug, Default)]
pub struct TaskRun {
    /// Its jobs in the order they ran.
    pub stamps: Vec<Stamp>,
    /// What it got inside the observed window.
    pub metered: Metered,
}

/// What a synthetic task does, ready to run.
#[derive(Clone, Debug)]
pub(crate) struct TaskBodySpec {
    /// The name draws are keyed by.
    pub key: String,
    /// The work of each job; `None`: never done.
    pub work: Option<surety_model::distribution::TimeDistribution>,
    /// When jobs come.
    pub release: Release,
    /// What a late job does to the next ones.
    pub late: Late,
    /// How it sleeps.
    pub sleep: Sleep,
    /// How many jobs.
    pub jobs: u64,
    /// What work and jitter are drawn from.
    pub seed: u64,
}

impl TaskBodySpec {
    /// The body of instance `instance` of a task; `None` when it is not synthetic work this world can run.
    pub fn of(task: &Task, instance: u32, seed: u64) -> Option<TaskBodySpec> {
        let TaskBody::Synthetic(work) = &task.body else { return None };
        let work = match work {
            Work::Forever => None,
            Work::Drawn(distribution) => Some(distribution.clone()),
            Work::Trace(_) => return None,
        };
        let key = if instance == 0 { task.name.clone() } else { format!("{}#{instance}", task.name) };
        Some(TaskBodySpec {
            key,
            work,
            release: task.release,
            late: task.late,
            sleep: task.sleep,
            jobs: task.jobs.unwrap_or(u64::MAX),
            seed,
        })
    }

    /// How many stamps a run can need: room is made before it begins.
    pub fn stamps_max(&self, duration: Nanos) -> usize {
        let planned = match self.release.interval() {
            Some(interval) => duration.div_ceil(interval).max(0) as u64 + 2,
            None => 2,
        };
        usize::try_from(planned.min(self.jobs).min(1 << 26)).expect("bounded above")
    }

    /// Runs the task in the calling thread until the window ends.
    pub fn run(&self, gate: &Gate, window: &Window, marker: Option<&Marker>) -> TaskRun {
        let room = self.stamps_max(window.end - window.begin);
        let mut result = TaskRun { stamps: Vec::with_capacity(room), ..TaskRun::default() };
        let mut meter = ShareMeter::new(*window);
        if self.release.interval().is_none() {
            self.run_once(gate, window, &mut meter, &mut result);
        } else {
            self.run_jobs(gate, window, marker, &mut meter, &mut result);
        }
        result.metered = meter.finish();
        result
    }

    /// A task without releases: one job that starts with the run.
    fn run_once(&self, gate: &Gate, window: &Window, meter: &mut ShareMeter, result: &mut TaskRun) {
        if !gate.sleep_until(window.begin) {
            return;
        }
        let amount = self.work.as_ref().map_or(Nanos::MAX, |w| w.draw(self.seed, &self.key, 0));
        let job = self.burn(gate, window, meter, 0, Nanos::ZERO, amount);
        result.stamps.push(job);
    }

    fn run_jobs(
        &self,
        gate: &Gate,
        window: &Window,
        marker: Option<&Marker>,
        meter: &mut ShareMeter,
        result: &mut TaskRun,
    ) {
        let (start, interval) = self.grid();
        let (mut job, mut release) = (0, planned_release(start, interval, 0));
        while job < self.jobs && window.begin + release < window.end {
            let amount = self.work.as_ref().map_or(Nanos::MAX, |w| w.draw(self.seed, &self.key, job));
            meter.slept();
            if !gate.sleep_until(window.begin + release + self.jitter_of(job)) {
                return;
            }
            if gate.is_over(window, clock::monotonic()) {
                return;
            }
            mark(marker, JobMarker::Begin { job, release: window.begin + release });
            let stamp = self.burn(gate, window, meter, job, release, amount);
            let completion = stamp.completion;
            result.stamps.push(stamp);
            let Some(completion) = completion else { return };
            mark(marker, JobMarker::End { job });
            (job, release) = match self.sleep {
                Sleep::Absolute => next_activation(&self.release, self.late, job, completion),
                // The rest of the period from when it looks: a late job moves the whole grid.
                Sleep::Relative => (job + 1, (release + interval).max(completion)),
            };
        }
    }

    /// First release and interval.
    fn grid(&self) -> (Nanos, Nanos) {
        let start = match self.release {
            Release::Periodic { start, .. } => start,
            _ => Nanos::ZERO,
        };
        (start, self.release.interval().expect("run_jobs is for tasks with an interval"))
    }

    /// How much later than the grid's point job `job` is released.
    fn jitter_of(&self, job: u64) -> Nanos {
        match self.release {
            Release::Periodic { jitter, .. } => release_jitter(jitter, self.seed, &self.key, job),
            _ => Nanos::ZERO,
        }
    }

    /// Burns `amount` of CPU time as job `job`, in pieces.
    fn burn(
        &self,
        gate: &Gate,
        window: &Window,
        meter: &mut ShareMeter,
        job: u64,
        release: Nanos,
        amount: Nanos,
    ) -> Stamp {
        let begun = clock::monotonic();
        let cpu_begin = clock::thread_cpu_time();
        meter.look(begun);
        let mut used = Nanos::ZERO;
        let mut now = begun;
        while used < amount && !gate.is_over(window, now) {
            used = clock::spin_cpu_time_from(cpu_begin, amount.min(used.saturating_add(PIECE)));
            now = clock::monotonic();
            meter.look(now);
        }
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

/// What became of every planned activation whose release lies in the observed part of the run.
///
/// `observe` and `end` are in workload time. An activation without a stamp was skipped when a later one ran or
/// when, under `late = "skip"`, a job was still open past its release; else it is open. Endless work has none.
pub fn outcomes(task: &Task, stamps: &[Stamp], observe: Nanos, end: Nanos) -> Vec<JobOutcome> {
    if task.is_endless() {
        return Vec::new();
    }
    let completed = |s: &Stamp| match s.completion {
        Some(completion) => {
            JobOutcome::Completed { release: s.release, start: s.start, completion, execution: s.execution }
        }
        None => JobOutcome::Unfinished { release: s.release, until: end },
    };
    let Some(interval) = task.release.interval() else {
        return stamps.iter().map(completed).collect();
    };
    if task.sleep == Sleep::Relative {
        // The grid moves with every job: what ran is all there was.
        return stamps.iter().filter(|s| s.release >= observe).map(completed).collect();
    }
    let start = match task.release {
        Release::Periodic { start, .. } => start,
        _ => Nanos::ZERO,
    };
    let ran_last = stamps.last();
    let mut stamps = stamps.iter().peekable();
    let mut outcomes = Vec::new();
    for job in 0..task.jobs.unwrap_or(u64::MAX) {
        let release = planned_release(start, interval, job);
        if release >= end {
            break;
        }
        let stamp = stamps.next_if(|s| s.job == job);
        if release < observe {
            continue;
        }
        outcomes.push(match (stamp, ran_last) {
            (Some(stamp), _) => completed(stamp),
            (None, Some(last)) if job < last.job => JobOutcome::Skipped { release },
            (None, Some(last)) if task.late == Late::Skip && last.completion.is_none() => {
                JobOutcome::Skipped { release }
            }
            (None, _) => JobOutcome::Unfinished { release, until: end },
        });
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;

    fn ms(n: i64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn stamp(job: u64, completion: Option<i64>) -> Stamp {
        Stamp {
            job,
            release: ms(10) * job as i64,
            start: ms(10) * job as i64,
            completion: completion.map(ms),
            execution: ms(1),
        }
    }

    #[test]
    fn every_planned_activation_has_an_outcome() {
        let mut task = Task::periodic("t", ms(10), TimeDistribution::Constant(ms(1)));
        // Jobs 0 and 3 ran, 1 and 2 were passed, 4 was open at 55 ms, 5 came while it was.
        let stamps = [stamp(0, Some(25)), stamp(3, Some(31)), stamp(4, None)];
        let kinds = |task: &Task| -> String {
            outcomes(task, &stamps, ms(10), ms(55))
                .iter()
                .map(|o| match o {
                    JobOutcome::Completed { .. } => 'c',
                    JobOutcome::Skipped { .. } => 's',
                    JobOutcome::Unfinished { .. } => 'u',
                })
                .collect()
        };
        task.late = Late::Skip;
        assert_eq!(kinds(&task), "ssc us".replace(' ', ""));
        task.late = Late::Queue;
        assert_eq!(kinds(&task), "sscuu");
    }

    #[test]
    fn a_task_on_the_host_runs_its_jobs_with_the_work_it_draws() {
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
        let total = outcomes(&task, &run.stamps, Nanos::ZERO, ms(50)).len();
        assert_eq!(total, 10);
    }
}
