//! The planned activations of a program, told from the busy periods a trace shows of its threads.
//!
//! A program that was not made for the run stamps nothing. What is known of it is when each of its threads was woken, when
//! it slept again, and the CPU time in between. Three rules make activations of that:
//!
//! - **Wake-ups for next to nothing are no jobs.** A program that waits by polling wakes many times between two jobs. Where
//!   there are more wake-ups than the window holds activations, those that used less than [`SMALL_PART`] of the median work
//!   are no jobs. The median is by CPU time: half of it was used in busy periods at least that long, so that no number of
//!   polls moves it. What a poll used is charged to the job before it, whose budget it takes.
//! - **Activations are planned ones.** With a period there is one at each point of a grid, which follows the releases seen.
//!   Pieces of work less than half a period after a release belong to it: its response ends with the last of them. Points
//!   that passed while the thread was busy were skipped; points at which it slept are missed as well, and counted apart.
//! - **What is open at the end counts** as long as it has been open.
//!
//! What was seen is held against what a proof assumes: one job in each period, that does not sleep inside, released no
//! earlier than its jitter allows ([`Account::contradictions`]).

use surety_units::Nanos;

use crate::job::Job;
use crate::promise::{Metric, Promise};
use crate::record::JobOutcome;
use crate::workload::Release;

mod grid;

pub use grid::{Activation, on_grid};

/// Busy periods that used less than this part of the median work are no jobs.
pub const SMALL_PART: f64 = 0.1;
/// With so many times the wake-ups that a window holds activations, or fewer, all of them are jobs.
const CROWDED: f64 = 1.1;
/// More of the CPU time than this part in wake-ups below the limit is not next to nothing.
const SMALL_MAX: f64 = 0.25;
/// CPU time outside the counted jobs, as a part of theirs, from which on the counts are no evidence.
pub const OUTSIDE_MAX: f64 = 0.02;
/// Planned activations without a release while the thread slept, as a part of all, from which on the period is wrong.
const ABSENT_MAX: f64 = 0.02;
/// Releases this part of the period before their time are the timer's noise.
pub const NOISE: f64 = 0.02;
/// Of what a promise allows, this part of the activations may contradict a proof's assumptions.
pub const CONTRADICTING: f64 = 0.1;

/// Busy periods with work, and what was left out between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pieces {
    /// In order of their releases, each with the CPU time of the wake-ups left out after it.
    pub jobs: Vec<Job>,
    /// Wake-ups left out.
    pub small: u64,
    /// Their CPU time.
    pub small_time: Nanos,
    /// A busy period of less is no job; zero: all of them are.
    pub smallest: Nanos,
}

impl Pieces {
    /// Leaves wake-ups for next to nothing out, unless all of them are jobs: no more than `planned` activations are known of,
    /// or markers name them.
    pub fn of(busy: &[Job], planned: Option<u64>) -> Pieces {
        let mut busy = busy.to_vec();
        busy.sort_by_key(|job| job.release);
        let is_crowded = planned.is_none_or(|planned| busy.len() as f64 > CROWDED * planned as f64);
        let is_marked = busy.iter().any(|job| job.index.is_some());
        let smallest = if is_crowded && !is_marked { smallest_job(&busy) } else { Nanos::ZERO };
        let mut pieces = Pieces { smallest, ..Pieces::default() };
        for job in busy {
            if job.execution >= smallest {
                pieces.jobs.push(job);
                continue;
            }
            pieces.small += 1;
            pieces.small_time = pieces.small_time.saturating_add(job.execution);
            if let Some(before) = pieces.jobs.last_mut() {
                before.execution = before.execution.saturating_add(job.execution);
                before.interrupted = before.interrupted.saturating_add(job.interrupted);
            }
        }
        pieces
    }

    /// CPU time of the jobs, what was left out between them included.
    pub fn time(&self) -> Nanos {
        self.jobs.iter().fold(Nanos::ZERO, |sum, job| sum.saturating_add(job.execution))
    }

    /// What was left out, in words; `None`: nothing.
    pub fn describe(&self) -> Option<String> {
        let total = self.time();
        (self.small > 0).then(|| {
            format!(
                "{} wake-ups of less than {} ({:.0} % of the median work) are no jobs; their {:.2} % of the CPU time is \
                 counted as work of the jobs before them",
                self.small,
                self.smallest,
                SMALL_PART * 100.0,
                part(self.small_time, total) * 100.0
            )
        })
    }

    /// Why that is not next to nothing, if so.
    fn objection(&self) -> Option<String> {
        let total = self.time();
        (part(self.small_time, total) > SMALL_MAX).then(|| {
            format!(
                "its jobs cannot be told from its other wake-ups: {} wake-ups of less than {} ({:.0} % of the median work) \
                 used {:.1} % of its CPU time; let it write a marker at the begin and end of each job",
                self.small,
                self.smallest,
                SMALL_PART * 100.0,
                part(self.small_time, total) * 100.0
            )
        })
    }
}

fn part(time: Nanos, of: Nanos) -> f64 {
    if of.is_positive() { time.get() as f64 / of.get() as f64 } else { 0.0 }
}

/// The CPU time from which on a busy period is a job.
fn smallest_job(busy: &[Job]) -> Nanos {
    let mut sorted: Vec<f64> = busy.iter().map(|job| job.execution.get() as f64).collect();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let half = sorted.iter().sum::<f64>() / 2.0;
    let mut longer = 0.0;
    let median = sorted.iter().find(|execution| {
        longer += **execution;
        longer >= half
    });
    median.map_or(Nanos::ZERO, |median| Nanos::from_f64_rounded(SMALL_PART * median))
}

/// What a window shows of one thread, or of several that did the same work one after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// What became of every planned activation, in the order of their releases.
    pub outcomes: Vec<JobOutcome>,
    /// The wake-ups that were jobs.
    pub pieces: Pieces,
    /// Activations whose work came in several pieces.
    pub in_pieces: u64,
    pub most_pieces: u32,
    /// The shortest distance of two wake-ups for work.
    pub closest: Option<Nanos>,
    /// Distances of activations that are shorter than assumed, beyond the timer's noise.
    pub early: u64,
    /// Planned activations without a release while the thread slept.
    pub absent: u64,
    release: Release,
}

/// What is known of a thread in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View<'a> {
    /// Its complete busy periods, before the window and after it too.
    pub busy: &'a [Job],
    /// The release of what was open when the trace ended.
    pub open: Option<Nanos>,
    /// Begin and end of the window.
    pub window: (Nanos, Nanos),
    /// The rule by which its activations are planned.
    pub release: Release,
}

impl Account {
    /// Of a thread that a trace shows.
    pub fn of(view: &View<'_>) -> Account {
        let (observe, end) = view.window;
        let planned = match view.release {
            Release::Periodic { period, .. } => Some((end - observe).div_floor(period).max(0).unsigned_abs()),
            _ => None,
        };
        let inside: Vec<Job> =
            view.busy.iter().filter(|job| (observe..end).contains(&job.release)).copied().collect();
        let pieces = Pieces::of(&inside, planned);
        let mut account = Account { release: view.release, pieces, ..Account::default() };
        let releases = account.pieces.jobs.windows(2).map(|pair| pair[1].release - pair[0].release);
        account.closest = releases.min();
        match (view.release, planned) {
            (Release::Periodic { period, jitter, .. }, Some(planned)) => {
                account.lay(view, (period, jitter), planned);
            }
            _ => account.list(view),
        }
        account
    }

    /// Without a period every job is an activation.
    fn list(&mut self, view: &View<'_>) {
        let end = view.window.1;
        self.outcomes = self.pieces.jobs.iter().map(|job| outcome(job, end)).collect();
        let open = view.open.filter(|release| (view.window.0..end).contains(release));
        self.outcomes.extend(open.map(|release| JobOutcome::Unfinished { release, until: end }));
        if let Some(gap) = view.release.interval() {
            let slack = Nanos::from_f64_rounded(NOISE * gap.get() as f64);
            let early = |pair: &&[Job]| pair[1].release - pair[0].release < gap - slack;
            self.early = self.pieces.jobs.windows(2).filter(early).count() as u64;
        }
    }

    /// On a grid.
    fn lay(&mut self, view: &View<'_>, (period, jitter): (Nanos, Nanos), planned: u64) {
        let (observe, end) = view.window;
        let mut activations = on_grid(&self.pieces.jobs, period);
        // What is open at the end is as long as a busy period gets.
        let open = view.open.filter(|release| *release < end);
        let busy_until = |job: &Job| if job.completion > end { end } else { job.completion };
        let before = view.busy.iter().filter(|job| job.release < observe).map(busy_until).max();
        let first = activations.first().map(|activation| activation.job.release).or(open).unwrap_or(end);
        let (passed, absent) = points((observe, first), before.unwrap_or(observe), period, true);
        let mut outcomes = skipped((0..passed + absent).map(|k| observe + period * k));
        self.absent += absent.unsigned_abs();
        if let Some(last) = activations.last_mut() {
            let next = open.filter(|open| *open >= observe).unwrap_or(end);
            (last.passed, last.absent) =
                points((last.job.release, next), busy_until(&last.job), period, next == end);
        }
        let slack = period - jitter - Nanos::from_f64_rounded(NOISE * period.get() as f64);
        let early = |pair: &&[Activation]| pair[1].job.release - pair[0].job.release < slack;
        self.early = activations.windows(2).filter(early).count() as u64;
        for activation in &activations {
            self.in_pieces += u64::from(activation.pieces > 1);
            self.most_pieces = self.most_pieces.max(activation.pieces);
            self.absent += activation.absent.unsigned_abs();
            outcomes.push(outcome(&activation.job, end));
            let points = activation.passed + activation.absent;
            outcomes.extend(skipped((1..=points).map(|k| activation.job.release + period * k)));
        }
        if let Some(release) = open {
            // Released before the window it is no activation of it, but the points it ran over are.
            if release >= observe {
                outcomes.push(JobOutcome::Unfinished { release, until: end });
            }
            let points = (end - Nanos::new(1) - release.max(observe)).div_floor(period);
            outcomes.extend(skipped((1..=points).map(|k| release.max(observe) + period * k)));
        }
        // The window holds so many, however releases fall beside its borders.
        while outcomes.len() as u64 > planned {
            let shortest = (0..outcomes.len()).min_by_key(|index| weight(&outcomes[*index]));
            outcomes.remove(shortest.expect("there are more than none"));
        }
        self.outcomes = outcomes;
    }

    /// What speaks against the counts as evidence: the jobs are not what was promised about.
    pub fn objections(&self) -> Vec<String> {
        let mut all: Vec<String> = self.pieces.objection().into_iter().collect();
        let count = self.outcomes.len() as f64;
        if let (Release::Periodic { period, .. }, true) =
            (self.release, self.absent as f64 > ABSENT_MAX * count)
        {
            all.push(format!(
                "{} of {} planned activations had no release while the thread slept: it is not released every {}; declare \
                 the period it has, or leave the period out to have it found",
                self.absent,
                self.outcomes.len(),
                period.to_exact_string()
            ));
        }
        all
    }

    /// What contradicts a proof that assumes one job per release that does not sleep inside, released by its rule. `allowed`:
    /// the part of activations that may be outside what is promised.
    pub fn contradictions(&self, allowed: f64) -> Vec<String> {
        let count = self.outcomes.len();
        let some = CONTRADICTING * allowed * count as f64;
        let closest = self.closest.unwrap_or(Nanos::ZERO);
        let mut all = Vec::new();
        if self.in_pieces as f64 > some {
            let Some(period) = self.release.interval() else { return all };
            all.push(format!(
                "{} of {count} activations are woken for work more than once in a period of {} (up to {} times, as close as \
                 {closest}): a proof assumes one release in each period and a job that does not sleep inside",
                self.in_pieces,
                period.to_exact_string(),
                self.most_pieces
            ));
        }
        if self.early as f64 > some {
            all.push(match self.release {
                Release::Periodic { period, jitter, .. } => format!(
                    "{} of {count} releases came sooner after the one before than a period of {} with a release jitter of \
                     {jitter} allows (as close as {closest})",
                    self.early,
                    period.to_exact_string()
                ),
                _ => format!(
                    "{} of {count} releases came sooner after the one before than the declared smallest inter-arrival time \
                     (as close as {closest})",
                    self.early
                ),
            });
        }
        all
    }
}

/// The smallest part of the activations that promises about jobs allow to be outside; `None`: there is no such promise.
pub fn allowed_outside(promises: &[Promise]) -> Option<f64> {
    let about_jobs = promises.iter().filter(|promise| is_about_jobs(promise.metric));
    about_jobs.map(|promise| promise.at.map_or(0.0, |at| at.complement().as_f64())).min_by(f64::total_cmp)
}

/// Whether a promise is about activations one by one.
pub fn is_about_jobs(metric: Metric) -> bool {
    matches!(metric, Metric::Response | Metric::Latency | Metric::Missed | Metric::Late | Metric::Dropped)
}

/// Points of a grid between two releases, both excluded: those passed before `busy_until`, and those at which the thread slept.
/// Before the first release and after the last one it is not known how far they lie beside the grid (`is_open`): half a period is
/// left to that.
fn points((from, to): (Nanos, Nanos), busy_until: Nanos, period: Nanos, is_open: bool) -> (i64, i64) {
    let all = if is_open {
        (to - from - period / 2).div_floor(period)
    } else {
        ((to - from) + period / 2).div_floor(period) - 1
    };
    let passed = (busy_until.min(to) - from).div_floor(period).max(0);
    let all = all.max(passed).max(0);
    (passed.min(all), all - passed.min(all))
}

fn skipped(releases: impl Iterator<Item = Nanos>) -> Vec<JobOutcome> {
    releases.map(|release| JobOutcome::Skipped { release }).collect()
}

fn outcome(job: &Job, end: Nanos) -> JobOutcome {
    if job.completion > end {
        return JobOutcome::Unfinished { release: job.release, until: end };
    }
    JobOutcome::Completed {
        release: job.release,
        start: job.start,
        completion: job.completion,
        execution: job.execution_net(),
    }
}

/// How long an activation took at least: the one that took least says least.
fn weight(outcome: &JobOutcome) -> Nanos {
    match outcome {
        JobOutcome::Completed { release, completion, .. } => *completion - *release,
        JobOutcome::Unfinished { release, until } => *until - *release,
        JobOutcome::Skipped { .. } => Nanos::MAX,
    }
}

#[cfg(test)]
mod tests;
