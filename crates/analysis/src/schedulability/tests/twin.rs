//! The twin of every test: a schedule simulated unit by unit, with nothing assumed but the rule of the scheduler.

use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::generate::{Deadlines, random_set};
use crate::schedulability::SporadicTask;

/// A job: which task, planned when, released when.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub task: usize,
    pub planned: i64,
    pub release: i64,
    pub work: i64,
    pub due: i64,
}

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The task with the lowest index.
    Fixed,
    /// The earliest deadline.
    Edf,
}

/// What was seen of each task up to the end: its longest response from the planned release. A job that is not done
/// counts as far as it got.
pub fn play(jobs: &[Job], tasks: usize, cpus: usize, rule: Rule, preemptive: bool, end: i64) -> Vec<i64> {
    let mut jobs = jobs.to_vec();
    jobs.sort_by_key(|j| (j.release, j.task, j.planned));
    let mut next = 0;
    let mut open: Vec<(Job, i64, bool)> = Vec::new();
    let mut longest = vec![0; tasks];
    let mut now = jobs.first().map_or(0, |j| j.release);
    while now < end && (next < jobs.len() || !open.is_empty()) {
        while next < jobs.len() && jobs[next].release <= now {
            open.push((jobs[next], jobs[next].work, false));
            next += 1;
        }
        if open.is_empty() {
            now = jobs[next].release;
            continue;
        }
        let key = |j: &Job| match rule {
            Rule::Fixed => (j.task as i64, j.planned, 0),
            Rule::Edf => (j.due, j.planned, j.task as i64),
        };
        open.sort_by_key(|(job, _, begun)| (!*begun || preemptive, key(job)));
        // Jobs of one task run one after the other.
        let mut running: Vec<usize> = Vec::new();
        for at in 0..open.len() {
            if running.len() < cpus && !running.iter().any(|r: &usize| open[*r].0.task == open[at].0.task) {
                running.push(at);
            }
        }
        now += 1;
        for at in running {
            open[at].1 -= 1;
            open[at].2 = true;
            if open[at].1 == 0 {
                let job = open[at].0;
                longest[job.task] = longest[job.task].max(now - job.planned);
            }
        }
        open.retain(|(_, left, _)| *left > 0);
    }
    for (job, _, _) in open {
        longest[job.task] = longest[job.task].max(end - job.planned);
    }
    longest
}

/// Jobs planned at `start`, `start + T`, ... up to `end`, each released `late` after the plan but not before `from`.
pub fn periodic(task: usize, of: &SporadicTask, start: i64, late: i64, from: i64, end: i64) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut planned = start;
    while planned < end {
        jobs.push(Job {
            task,
            planned,
            release: (planned + late).max(from),
            work: of.work.get(),
            due: planned + of.deadline.get(),
        });
        planned += of.period.get();
    }
    jobs
}

/// The pattern of the most work from time 0 on: the first job is released as late as it may be, later ones as early.
pub fn densest(task: usize, of: &SporadicTask, end: i64) -> Vec<Job> {
    periodic(task, of, -of.jitter.get(), 0, 0, end)
}

/// A legal pattern drawn at random: any offset, gaps of at least T, any lateness within the jitter.
pub fn sporadic(task: usize, of: &SporadicTask, end: i64, random: &mut Pcg) -> Vec<Job> {
    let period = of.period.get();
    let mut planned = random.below(period as u64) as i64;
    let mut jobs: Vec<Job> = Vec::new();
    while planned < end {
        let late = random.below(of.jitter.get() as u64 + 1) as i64;
        let earliest = jobs.last().map_or(0, |j| j.release);
        jobs.push(Job {
            task,
            planned,
            release: (planned + late).max(earliest),
            work: of.work.get(),
            due: planned + of.deadline.get(),
        });
        let dense = random.below(3) > 0;
        planned += period + if dense { 0 } else { random.below(period as u64 / 2 + 1) as i64 };
    }
    jobs
}

/// Whether every response is within its deadline.
pub fn in_time(tasks: &[SporadicTask], responses: &[i64]) -> bool {
    tasks.iter().zip(responses).all(|(task, response)| *response <= task.deadline.get())
}

/// Periods whose least common multiple is 120.
pub const PERIODS: [i64; 10] = [4, 5, 6, 8, 10, 12, 15, 20, 24, 30];

/// The hyperperiod of [`PERIODS`].
pub const HYPERPERIOD: i64 = 120;

/// Any set over [`PERIODS`].
pub fn draw(count: usize, total: f64, deadlines: Deadlines, random: &mut Pcg) -> Vec<SporadicTask> {
    let periods = PERIODS.map(Nanos::new);
    random_set(count, total, &periods, Nanos::new(1), deadlines, random).expect("a set can be drawn")
}

pub fn task(c: i64, d: i64, t: i64) -> SporadicTask {
    SporadicTask::new(Nanos::new(c), Nanos::new(d), Nanos::new(t))
}

pub fn utilisation(tasks: &[SporadicTask]) -> f64 {
    tasks.iter().map(|t| t.work.get() as f64 / t.period.get() as f64).sum()
}
