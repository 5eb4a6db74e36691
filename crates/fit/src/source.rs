//! One thread of a trace as a source of CPU time: the rule by which its jobs come, and what each needs.
//!
//! In this order: exact jobs by markers are always taken. Else a thread that lives for half the trace or more, wants a
//! CPU for 95 % of that time and hardly sleeps is *endless*. Else its busy periods are its jobs. On a grid they are *periodic*, if at most one in
//! a hundred may hold several jobs ([`crate::separation`]) and at most one grid point in ten is empty. Otherwise they
//! are *spaced*: a busy period then is what the thread does between being woken and sleeping again, and the distances
//! of wake-ups are kept as a distribution.

use std::fmt;

use surety_model::job::{Job, Separation, ThreadHistory};
use surety_model::workload::{Late, Release};
use surety_units::Nanos;

use crate::release::{self, ReleaseFit};
use crate::separation::{check_sleeps, single_jobs};
use crate::{FitError, JOBS_MIN};

/// A thread that wants a CPU for this fraction of its life or more may be endless.
const ENDLESS: f64 = 0.95;
/// If it lives for this fraction of the trace or more.
const LIVES: f64 = 0.5;
/// More empty grid points than this, in busy periods, are no grid.
const ABSENT_MAX: f64 = 0.1;
/// Releases the phase of a grid is taken from: later ones show the error of the period.
const PHASE_FROM: usize = 50;

/// Why something in a trace is in no workload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// Another choice was made.
    NotChosen,
    /// It used less of a CPU than was asked for.
    BelowShare,
    /// Too few jobs, or arrivals of an interrupt.
    TooFew(u64),
    /// Its jobs cannot be told apart; what was seen.
    Inseparable(String),
    /// Ticks, interrupts between processors and softirqs: every kernel makes its own.
    Kernel,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NotChosen => f.write_str("not chosen"),
            Why::BelowShare => f.write_str("it used too little CPU time to matter"),
            Why::TooFew(seen) => {
                write!(
                    f,
                    "{seen} of its jobs or arrivals were seen whole, {JOBS_MIN} are needed: record longer"
                )
            }
            Why::Inseparable(why) => write!(
                f,
                "its jobs cannot be told apart: {why}; record it under a generous reservation, or let it write markers"
            ),
            Why::Kernel => f.write_str("the kernel's own, made anew wherever the workload runs"),
        }
    }
}

/// By which rule a thread's jobs come.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// On a grid.
    Periodic { period: Nanos, start: Nanos, jitter: Nanos, fit: ReleaseFit },
    /// At these distances, in order.
    Spaced(Vec<Nanos>),
    /// Always.
    Endless,
}

/// A thread whose rule is known.
#[derive(Clone, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) history: &'a ThreadHistory,
    pub(crate) rule: Rule,
    /// CPU time of its own, job by job in order of completion.
    pub(crate) work: Vec<Nanos>,
    pub(crate) late: Late,
    pub(crate) notes: Vec<String>,
}

/// Finds the rule of a thread in a trace that spans `(begin, end)`.
pub(crate) fn analyse(history: &ThreadHistory, span: (Nanos, Nanos)) -> Result<Source<'_>, Why> {
    let exact = history.separation == Separation::Markers;
    let jobs = history.jobs.len();
    let length = (span.1 - span.0).get() as f64;
    let wants = (history.run + history.waited).get() as f64;
    let life = (history.seen.1 - history.seen.0).get() as f64;
    let always = !exact && wants >= (ENDLESS * life).max(LIVES * length);
    if always && jobs < JOBS_MIN {
        let note = format!("it slept {jobs} times, so it is taken to want a CPU without end");
        return Ok(endless(history, (jobs > 0).then_some(note)));
    }
    if jobs < JOBS_MIN {
        return Err(Why::TooFew(jobs as u64));
    }
    let mut releases: Vec<Nanos> = history.jobs.iter().map(|job| job.release).collect();
    releases.sort_unstable();
    let found = release::fit(&releases, None).ok_or(Why::TooFew(jobs as u64))?;
    let late = late_rule(history, &found);
    let grid = match found.release {
        Release::Periodic { period, jitter, .. } => Some((period, jitter)),
        _ => None,
    };
    let (kept, beyond) = match grid {
        Some((period, _)) if !exact && late == Late::Queue => {
            // On a grid, full or not, busy periods that reach the next point hide jobs.
            let kept = single_jobs(history, period, "").map_err(inseparable)?;
            (kept.jobs, kept.merged)
        }
        _ => (history.jobs.clone(), 0),
    };
    let Some((period, jitter)) = grid.filter(|_| exact || is_full(&found, jobs)) else {
        if always || check_sleeps(history, "").is_err() {
            let text = format!(
                "it slept {jobs} times, but wanted a CPU for {:.1} % of its life: taken as wanting one without end",
                100.0 * wants / life.max(1.0)
            );
            return if always { Ok(endless(history, Some(text))) } else { Err(Why::Inseparable(text)) };
        }
        return Ok(spaced(history, &releases));
    };
    let start = phase(&releases, period, span.0);
    let mut notes = Vec::new();
    if beyond > 0 {
        notes.push(format!("{beyond} busy periods may hold several jobs and are left out"));
    }
    Ok(Source {
        history,
        rule: Rule::Periodic { period, start, jitter, fit: found },
        work: works(&kept),
        late,
        notes,
    })
}

fn inseparable(error: FitError) -> Why {
    match error {
        FitError::Inseparable { why, .. } => Why::Inseparable(why),
        FitError::TooFew { jobs, .. } => Why::TooFew(jobs as u64),
    }
}

fn is_full(found: &ReleaseFit, jobs: usize) -> bool {
    let points = found.absent as f64 + jobs as f64;
    found.absent as f64 <= ABSENT_MAX * points
}

/// Markers that name every job show whether releases that passed were given up.
fn late_rule(history: &ThreadHistory, found: &ReleaseFit) -> Late {
    let skipped = history.jobs.windows(2).any(|pair| match (pair[0].index, pair[1].index) {
        (Some(before), Some(after)) => {
            after > before + 1 && pair[1].release > pair[0].release && history.censored <= 1
        }
        _ => false,
    });
    if found.absent > 0 && skipped { Late::Skip } else { Late::Queue }
}

fn works(jobs: &[Job]) -> Vec<Nanos> {
    jobs.iter().map(|job| job.execution_net().max(Nanos::ZERO)).collect()
}

fn endless(history: &ThreadHistory, note: Option<String>) -> Source<'_> {
    Source {
        history,
        rule: Rule::Endless,
        work: Vec::new(),
        late: Late::Queue,
        notes: note.into_iter().collect(),
    }
}

fn spaced<'a>(history: &'a ThreadHistory, releases: &[Nanos]) -> Source<'a> {
    let distances = releases.windows(2).map(|w| w[1] - w[0]).filter(|d| d.is_positive()).collect();
    Source {
        history,
        rule: Rule::Spaced(distances),
        work: works(&history.jobs),
        late: Late::Queue,
        notes: Vec::new(),
    }
}

/// Where the grid of ascending releases lies, counted from `begin`: between 0 and the period.
fn phase(releases: &[Nanos], period: Nanos, begin: Nanos) -> Nanos {
    let Some(first) = releases.first().copied() else { return Nanos::ZERO };
    let mut off: Vec<i64> = releases
        .iter()
        .take(PHASE_FROM)
        .map(|release| {
            let distance = (*release - first).get();
            let nearest = distance.saturating_add(period.get() / 2).div_euclid(period.get());
            distance - nearest * period.get()
        })
        .collect();
    off.sort_unstable();
    let median = off.get(off.len() / 2).copied().unwrap_or(0);
    Nanos::new(((first - begin).get() + median).rem_euclid(period.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_is_that_of_the_grid_and_not_of_a_late_first_release() {
        let ms = Nanos::from_millis;
        // Grid at 3 + 10 k after the begin at 100; the first release is 2 late, the others up to 0.1.
        let mut releases = vec![ms(105)];
        releases.extend((1..40).map(|k| ms(103 + 10 * k) + Nanos::from_micros(k % 3 * 50)));
        let found = phase(&releases, ms(10), ms(100));
        assert!((found - ms(3)).get().abs() <= 100_000, "{found}");
        assert_eq!(phase(&[], ms(10), ms(0)), Nanos::ZERO);
    }
}
