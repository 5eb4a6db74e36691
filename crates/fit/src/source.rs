//! One thread of a trace as a source of CPU time: the rule by which its jobs come, and what each needs.
//!
//! In this order: exact jobs by markers are always taken. Else a thread that lives for half the trace or more, wants a
//! CPU for 95 % of that time and hardly sleeps is *endless*. Else its busy periods are its jobs. On a grid they are *periodic*, if at most one in
//! a hundred may hold several jobs ([`crate::separation`]) and at most one grid point in ten is empty. Otherwise they
//! are *spaced*: a busy period then is what the thread does between being woken and sleeping again, and the distances
//! of wake-ups are kept as a distribution.
//!
//! **A start-up is none of that.** Where the first busy periods, up to a quarter of all, hide a grid that the others keep, they
//! are left out as a transient; a thread that never slept again for half of the trace is endless, whatever it did before. Both
//! are said.

use std::fmt;

use surety_model::job::{Job, Separation, ThreadHistory};
use surety_model::workload::{Late, Release};
use surety_units::Nanos;

use crate::release::{self, ReleaseFit};
use crate::separation::{check_sleeps, single_jobs};
use crate::{FitError, JOBS_MIN};

/// A thread that wants a CPU for this fraction of its life or more may be endless.
const ENDLESS: f64 = 0.95;
/// Busy periods at the start that may be a transient, as a part of all.
const TRANSIENT_MAX: f64 = 0.25;
/// A workload needs the usual work: this part of the busy periods may be left out as merged ones. What is promised needs more
/// ([`crate::separation::MERGED_MAX`]).
const MERGED_MAX: f64 = 0.05;
/// If it lives for this fraction of the trace or more.
const LIVES: f64 = 0.5;
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
    /// Wake-ups were not recorded, so that no job has a release.
    Unreleased,
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
            Why::Unreleased => f.write_str("wake-ups were not recorded, so none of its jobs has a release"),
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
    let longest = longest_busy(history, span.1);
    if !exact && longest.is_positive() && longest.get() as f64 >= LIVES * length {
        let note =
            format!("it wanted a CPU for {longest} without sleeping: taken as wanting one without end");
        let before =
            (jobs > 0).then(|| format!("{note}; {jobs} shorter busy periods beside that are left out"));
        return Ok(endless(history, Some(before.unwrap_or(note))));
    }
    let always = !exact && wants >= (ENDLESS * life).max(LIVES * length);
    if always && jobs < JOBS_MIN {
        let note = format!("it slept {jobs} times, so it is taken to want a CPU without end");
        return Ok(endless(history, (jobs > 0).then_some(note)));
    }
    if jobs < JOBS_MIN {
        return Err(Why::TooFew(jobs as u64));
    }
    let mut busy = history.jobs.clone();
    busy.sort_by_key(|job| job.release);
    let (transient, found) = settled(&busy, exact).ok_or(Why::TooFew(jobs as u64))?;
    let mut notes = Vec::new();
    if let (Some(first), true) = (busy.get(transient), transient > 0) {
        let lasts = first.release - busy[0].release;
        notes.push(format!("a start-up of {transient} busy periods in {lasts} is left out: no period yet"));
    }
    let busy = &busy[transient..];
    let releases = releases_of(busy);
    let late = late_rule(history, &found);
    let grid = match found.release {
        Release::Periodic { period, jitter, .. } => Some((period, jitter)),
        _ => None,
    };
    let (kept, beyond) = match grid {
        Some((period, _)) if !exact && late == Late::Queue => {
            // On a grid, full or not, busy periods that reach the next point hide jobs.
            let kept = single_jobs(busy, period, "", MERGED_MAX).map_err(inseparable)?;
            (kept.jobs, kept.merged)
        }
        _ => (busy.to_vec(), 0),
    };
    let Some((period, jitter)) = grid.filter(|_| exact || found.is_full()) else {
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

/// The longest time in which it did not sleep, what was open at the end included.
fn longest_busy(history: &ThreadHistory, end: Nanos) -> Nanos {
    let complete = history.jobs.iter().map(Job::response).max().unwrap_or(Nanos::ZERO);
    complete.max(history.open.map_or(Nanos::ZERO, |open| end - open.release))
}

fn releases_of(busy: &[Job]) -> Vec<Nanos> {
    busy.iter().map(|job| job.release).collect()
}

/// The rule of releases, and how many busy periods at the start are left out for it: none where all have a full grid, or
/// where none is found without them; `None`: too few.
fn settled(busy: &[Job], exact: bool) -> Option<(usize, ReleaseFit)> {
    let rule = |from: usize| release::fit(&releases_of(&busy[from..]), None);
    let is_grid = |found: &ReleaseFit, from: usize| match found.release {
        Release::Periodic { period, .. } => {
            found.is_full() && single_jobs(&busy[from..], period, "", MERGED_MAX).is_ok()
        }
        _ => false,
    };
    let all = rule(0)?;
    if exact || is_grid(&all, 0) {
        return Some((0, all));
    }
    let most = ((TRANSIENT_MAX * busy.len() as f64) as usize).min(busy.len().saturating_sub(JOBS_MIN));
    let steps = std::iter::successors(Some(1), |from| Some(from + (from / 4).max(1)));
    let found = steps.take_while(|from| *from <= most).find_map(|from| {
        let found = rule(from).filter(|found| is_grid(found, from))?;
        Some((from, found))
    });
    Some(found.unwrap_or((0, all)))
}

fn inseparable(error: FitError) -> Why {
    match error {
        FitError::Inseparable { why, .. } => Why::Inseparable(why),
        FitError::TooFew { jobs, .. } => Why::TooFew(jobs as u64),
    }
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
    use surety_model::job::OpenJob;

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
    fn us(n: i64) -> Nanos {
        Nanos::from_micros(n)
    }

    fn busy(release: i64, length: i64) -> Job {
        Job {
            release: us(release),
            start: us(release),
            cpu: surety_units::CpuId(0),
            completion: us(release + length),
            execution: us(length),
            interrupted: Nanos::ZERO,
            preemptions: 0,
            preempted: Nanos::ZERO,
            throttled: Nanos::ZERO,
            inferred: Nanos::ZERO,
            unknown: Nanos::ZERO,
            index: None,
        }
    }

    fn history(jobs: Vec<Job>, open: Option<(i64, i64)>) -> ThreadHistory {
        let open = open.map(|(at, run)| OpenJob { release: us(at), execution: us(run) });
        let run = jobs.iter().map(|j| j.execution).sum::<Nanos>() + open.map_or(Nanos::ZERO, |o| o.execution);
        ThreadHistory {
            tid: surety_units::Tid(7),
            comm: surety_model::event::Comm::new("t"),
            prio: 120,
            separation: Separation::BusyPeriod,
            jobs,
            open,
            censored: 0,
            doubtful: Vec::new(),
            run,
            interrupted: Nanos::ZERO,
            waited: Nanos::ZERO,
            longest_wait: Nanos::ZERO,
            unknown: Nanos::ZERO,
            seen: (Nanos::ZERO, us(2_000_000)),
        }
    }

    /// A textbook task of 2 ms every 10 ms is one, whatever it did while it started, and though one busy period is long.
    #[test]
    fn a_start_up_or_one_merged_job_does_not_hide_a_period() {
        let span = (Nanos::ZERO, us(2_000_000));
        let steady = |from: i64| (0..66).map(move |k| busy(from + k * 10_000 + k % 3 * 40, 2_000));
        // It loads its libraries: a long busy period and a dozen short ones at any distance.
        let start_up = || {
            let waits = (0..14).map(|k| busy(80_000 + k * 2_700 + k * k * 130, 90 + k * 35));
            std::iter::once(busy(0, 75_000)).chain(waits)
        };
        let mut merged: Vec<Job> = steady(0).collect();
        merged[30].completion = merged[30].release + us(12_500);
        merged[30].execution = us(4_000);
        merged.remove(31);
        for (jobs, said) in [
            (steady(0).collect(), None),
            (start_up().chain(steady(145_300)).collect(), Some("start-up of")),
            (merged, Some("1 busy periods may hold several jobs")),
        ] {
            let history = history(jobs, None);
            let found = analyse(&history, span).unwrap_or_else(|why| panic!("{said:?}: {why}"));
            let Rule::Periodic { period, .. } = found.rule else { panic!("{said:?}: {:?}", found.rule) };
            assert_eq!(period, us(10_000), "{said:?}");
            assert!(found.work.iter().all(|work| *work == us(2_000)), "{said:?}: {:?}", found.work);
            assert!(
                said.is_none_or(|said| found.notes.iter().any(|note| note.contains(said))),
                "{:?}",
                found.notes
            );
        }
    }

    #[test]
    fn a_hog_is_endless_whatever_it_did_before() {
        let span = (Nanos::ZERO, us(2_000_000));
        let before: Vec<Job> = (0..30).map(|k| busy(k * 9_000 + k * k * 37, 300)).collect();
        // It never slept again; or it was killed at the end.
        let mut killed = before.clone();
        killed.push(busy(400_000, 1_590_000));
        for history in [history(before, Some((400_000, 1_500_000))), history(killed, None)] {
            let found = analyse(&history, span).unwrap();
            assert!(matches!(found.rule, Rule::Endless), "{:?}", found.rule);
            assert!(found.notes[0].contains("without sleeping"), "{:?}", found.notes);
        }
    }
}
