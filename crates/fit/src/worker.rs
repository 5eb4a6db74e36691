//! Which of a program's threads does its work, and in what rhythm.
//!
//! The worker is the thread role with the most CPU time. What of its wake-ups is a job, and which of them belong to one
//! planned activation, says [`surety_model::wakeups`]. What is left is laid on a grid. Where [`release::fit`] finds none,
//! because polling blurs every release by up to one poll, the period is looked for on whose grid the releases concentrate
//! most; how far they lie beside it is the jitter.

use surety_model::job::{Job, ThreadHistory};
use surety_model::record::ThreadSeen;
use surety_model::wakeups::{NOISE, Pieces, on_grid};
use surety_model::workload::{Release, ThreadRole};
use surety_units::{Nanos, Tid};

use crate::drift;
use crate::line::Line;
use crate::release::{self, ReleaseFit, rounded};
use crate::{JOBS_MIN, WorkFit};

/// Releases concentrate on a grid from this length of their mean vector on: spread evenly over half a period they
/// reach 0.64, over a quarter 0.90.
const CONCENTRATED: f64 = 0.7;
/// Frequencies are looked at up to this part away from the usual one.
const NEAR: f64 = 0.3;
/// In so many steps to either side.
const STEPS: i32 = 4000;

/// The thread that does a program's work.
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// What it is recognised by.
    pub role: ThreadRole,
    /// The threads that had this role, one after another.
    pub tids: Vec<Tid>,
    /// Its part of the program's CPU time.
    pub part: f64,
    /// The roles of the program's other threads with theirs, the busiest first.
    pub others: Vec<(ThreadRole, f64)>,
}

/// The role whose threads used the most CPU time; `None` when none of them ran.
pub fn busiest(threads: &[ThreadSeen]) -> Option<Worker> {
    let mut roles: Vec<(ThreadRole, Nanos, Vec<Tid>)> = Vec::new();
    for thread in threads {
        match roles.iter_mut().find(|(role, ..)| *role == thread.role) {
            Some((_, run, tids)) => {
                *run += thread.run;
                tids.push(thread.tid);
            }
            None => roles.push((thread.role.clone(), thread.run, vec![thread.tid])),
        }
    }
    let total: Nanos = roles.iter().map(|(_, run, _)| *run).sum();
    if !total.is_positive() {
        return None;
    }
    let part = |run: Nanos| run.get() as f64 / total.get() as f64;
    roles.sort_by_key(|(_, run, _)| std::cmp::Reverse(*run));
    let mut roles = roles.into_iter();
    let (role, run, tids) = roles.next()?;
    let others = roles.map(|(role, run, _)| (role, part(run))).collect();
    Some(Worker { role, tids, part: part(run), others })
}

/// The jobs of a worker without what it does between them, and how they are released.
#[derive(Clone, Debug, PartialEq)]
pub struct Rhythm {
    /// The history with its activations as jobs: with a period one each, however many pieces their work came in.
    pub history: ThreadHistory,
    /// Wake-ups left out.
    pub small: u64,
    /// What was left out, in words; `None`: nothing.
    pub left_out: Option<String>,
    /// The rule found, or declared with the jitter found; `None`: too few jobs.
    pub release: Option<ReleaseFit>,
    /// Whether its period is a mean alone: what one release is late moves all that follow.
    pub drifts: bool,
}

impl Rhythm {
    /// Mean CPU time of a job, interrupts excluded.
    pub fn mean_work(&self) -> Option<Nanos> {
        let count = i64::try_from(self.history.jobs.len()).ok().filter(|n| *n > 0)?;
        let sum: Nanos = self.history.jobs.iter().map(Job::execution_net).sum();
        Some(sum / count)
    }

    /// The rhythm in words, with the work where it was fitted.
    pub fn describe(&self, work: Option<&WorkFit>) -> String {
        let mean = work.map(|w| Nanos::from_f64_rounded(w.net.mean)).or_else(|| self.mean_work());
        let each = mean.map_or_else(String::new, |mean| format!(", {mean} each"));
        match self.release.as_ref().map(|fit| fit.release) {
            Some(Release::Periodic { period, .. }) if self.drifts => {
                format!("a job about every {period}, on no grid{each}")
            }
            Some(Release::Periodic { period, jitter, .. }) if jitter.is_positive() => {
                format!("a job every {period} (release jitter {jitter}){each}")
            }
            Some(Release::Periodic { period, .. }) => format!("a job every {period}{each}"),
            _ => format!("{} jobs without a period{each}", self.history.jobs.len()),
        }
    }

    /// The period with its jitter.
    pub fn period(&self) -> Option<Release> {
        let release = self.release.as_ref()?.release;
        matches!(release, Release::Periodic { .. }).then_some(release)
    }
}

/// The jobs of a thread and their rhythm.
///
/// A declared period is believed. `trimmed`: this part of the releases may lie farther beside the grid than the jitter says.
pub fn rhythm(history: &ThreadHistory, declared: Release, trimmed: f64) -> Rhythm {
    let busy = &history.jobs;
    if let Release::Periodic { period, .. } = declared {
        let span =
            busy.last().zip(busy.first()).map_or(Nanos::ZERO, |(last, first)| last.release - first.release);
        let pieces = Pieces::of(busy, Some(span.div_ceil(period).max(1).unsigned_abs()));
        let rule = release::fit(&releases(&pieces.jobs), Some(period));
        // A period that is declared is no mean.
        return Rhythm { drifts: false, ..on_period(history, &pieces, (period, rule), trimmed) };
    }
    let all = Pieces::of(busy, Some(busy.len() as u64));
    let found = release::fit(&releases(&all.jobs), None);
    if let Some((period, found)) = found.filter(|found| found.is_full()).and_then(periodic) {
        return on_period(history, &all, (period, Some(found)), trimmed);
    }
    let pieces = Pieces::of(busy, None);
    let list = releases(&pieces.jobs);
    let found = release::fit(&list, None);
    match found.clone().and_then(periodic).or_else(|| steady(&list).and_then(periodic)) {
        Some((period, found)) => on_period(history, &pieces, (period, Some(found)), trimmed),
        None => with(history, pieces.jobs.clone(), &pieces, found),
    }
}

/// The rhythm with this period.
fn on_period(
    history: &ThreadHistory,
    pieces: &Pieces,
    (period, rule): (Nanos, Option<ReleaseFit>),
    trimmed: f64,
) -> Rhythm {
    let activations = on_grid(&pieces.jobs, period);
    let mut point = 0;
    let places: Vec<(f64, f64)> = activations
        .iter()
        .map(|activation| {
            let place = (point as f64, activation.job.release.get() as f64);
            point += 1 + activation.passed + activation.absent;
            place
        })
        .collect();
    let spread = jitter(&places, trimmed);
    // Who polls comes late by up to a poll, however short.
    let is_noise = spread <= NOISE * period.get() as f64 && pieces.small == 0;
    let jitter = if is_noise { Nanos::ZERO } else { Nanos::from_f64_rounded(spread).min(period) };
    let absent: i64 = activations.iter().map(|activation| activation.passed + activation.absent).sum();
    let release = Release::Periodic { period, start: Nanos::ZERO, jitter };
    let of_rule = |get: fn(&ReleaseFit) -> Nanos| rule.as_ref().map_or(Nanos::ZERO, get);
    let found = ReleaseFit {
        release,
        distances: activations.len().saturating_sub(1),
        period_error: of_rule(|rule| rule.period_error),
        spread: Nanos::from_f64_rounded(spread),
        absent: absent.unsigned_abs(),
    };
    let jobs = activations.iter().map(|activation| activation.job).collect();
    // The polls of who polls come beside the grid in their own rhythm.
    let drifts = pieces.small == 0 && drift::drifts(&places);
    Rhythm { drifts, ..with(history, jobs, pieces, Some(found)) }
}

fn with(history: &ThreadHistory, jobs: Vec<Job>, pieces: &Pieces, release: Option<ReleaseFit>) -> Rhythm {
    let history = ThreadHistory { jobs, ..history.clone() };
    Rhythm { history, small: pieces.small, left_out: pieces.describe(), release, drifts: false }
}

fn releases(jobs: &[Job]) -> Vec<Nanos> {
    jobs.iter().map(|job| job.release).collect()
}

fn periodic(found: ReleaseFit) -> Option<(Nanos, ReleaseFit)> {
    match found.release {
        Release::Periodic { period, .. } => Some((period, found)),
        _ => None,
    }
}

/// How far releases lie beside the line through (point, release), the farthest of them left out.
fn jitter(places: &[(f64, f64)], trimmed: f64) -> f64 {
    let (index, times): (Vec<f64>, Vec<f64>) = places.iter().copied().unzip();
    let Some(line) = Line::through(&index, &times) else { return 0.0 };
    let mut residuals = line.residuals(&index, &times);
    residuals.sort_unstable_by(f64::total_cmp);
    let last = residuals.len() - 1;
    let out = (trimmed * residuals.len() as f64) as usize;
    residuals[last - out.min(last)] - residuals[0]
}

/// The grid on which releases concentrate, however much each of them is late for its point.
///
/// A period P puts each release t at the angle `2 pi t / P`; the length of the mean of these unit vectors is 1 when all
/// have the same phase and near 0 when they have none (Rayleigh's test). The best period near the usual distance is
/// looked for in steps too small to slip by a quarter turn over the whole time.
fn steady(releases: &[Nanos]) -> Option<ReleaseFit> {
    if releases.len() < JOBS_MIN {
        return None;
    }
    let origin = releases.first()?.get();
    let times: Vec<f64> = releases.iter().map(|r| (r.get() - origin) as f64).collect();
    let span = *times.last()?;
    let mut distances: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    distances.sort_unstable_by(f64::total_cmp);
    let usual = *distances.get(distances.len() / 2)?;
    if usual <= 0.0 {
        return None;
    }
    let rate = |turn: i32| (1.0 + f64::from(turn) / f64::from(STEPS) * NEAR) / usual;
    if span * NEAR / usual > f64::from(STEPS) / 4.0 {
        // Longer than the steps are fine for: the first part says enough.
        let enough = releases.partition_point(|r| ((r.get() - origin) as f64) < span / 2.0);
        return steady(releases.get(..enough)?);
    }
    let candidates = (-STEPS..=STEPS).map(|turn| (concentration(&times, rate(turn)), rate(turn)));
    let ((length, phase), rate) = candidates.max_by(|a, b| a.0.0.total_cmp(&b.0.0))?;
    if length < CONCENTRATED {
        return None;
    }
    let mut index: Vec<f64> = times.iter().map(|t| (t * rate - phase).round()).collect();
    let line = Line::through(&index, &times)?;
    let mut residuals = line.residuals(&index, &times);
    residuals.sort_unstable_by(f64::total_cmp);
    let at = |q: f64| residuals[((q * residuals.len() as f64) as usize).min(residuals.len() - 1)];
    let spread = (at(0.99) - at(0.01)).min(line.slope);
    index.dedup();
    let points = index.last()? - index.first()? + 1.0;
    Some(ReleaseFit {
        release: Release::Periodic {
            period: rounded(line.slope, line.error),
            start: Nanos::ZERO,
            jitter: Nanos::from_f64_rounded(spread),
        },
        distances: releases.len() - 1,
        period_error: Nanos::from_f64_rounded(line.error),
        spread: Nanos::from_f64_rounded(spread),
        absent: (points as u64).saturating_sub(index.len() as u64),
    })
}

/// Length of the mean of the unit vectors at `times * rate` turns, and its angle in turns.
fn concentration(times: &[f64], rate: f64) -> (f64, f64) {
    let turn = std::f64::consts::TAU;
    let (mut x, mut y) = (0.0, 0.0);
    for time in times {
        let (sin, cos) = ((time * rate).fract() * turn).sin_cos();
        x += cos;
        y += sin;
    }
    let n = times.len() as f64;
    ((x * x + y * y).sqrt() / n, y.atan2(x) / turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::event::Comm;
    use surety_model::job::Separation;
    use surety_stats::random::Pcg;
    use surety_units::CpuId;

    fn job(release_us: i64, execution_us: i64) -> Job {
        let us = Nanos::from_micros;
        Job {
            release: us(release_us),
            start: us(release_us),
            completion: us(release_us + execution_us),
            execution: us(execution_us),
            interrupted: Nanos::ZERO,
            cpu: CpuId(0),
            preemptions: 0,
            preempted: Nanos::ZERO,
            throttled: Nanos::ZERO,
            inferred: Nanos::ZERO,
            unknown: Nanos::ZERO,
            index: None,
        }
    }

    fn history(jobs: Vec<Job>) -> ThreadHistory {
        ThreadHistory {
            tid: Tid(7),
            comm: Comm::new("ffmpeg"),
            separation: Separation::BusyPeriod,
            run: jobs.iter().map(|j| j.execution).sum(),
            waited: Nanos::ZERO,
            longest_wait: Nanos::ZERO,
            unknown: Nanos::ZERO,
            interrupted: Nanos::ZERO,
            prio: 120,
            open: None,
            censored: 0,
            doubtful: Vec::new(),
            seen: (Nanos::ZERO, Nanos::SECOND),
            jobs,
        }
    }

    /// A program that looks every 10.1 ms whether the next frame of its 40 ms grid is due, and then encodes it.
    fn polling(frames: i64) -> Vec<Job> {
        let mut generator = Pcg::new(5, 6);
        let mut jobs = Vec::new();
        let (mut now, mut frame) = (1_000_000, 0);
        while frame < frames {
            if now >= 1_000_000 + frame * 40_000 {
                let work = 12_000 + generator.below(8_000) as i64;
                jobs.push(job(now, work));
                now += work;
                frame += 1;
            } else {
                jobs.push(job(now, 30 + generator.below(60) as i64));
                now += 90;
            }
            now += 10_080 + generator.below(40) as i64;
        }
        jobs
    }

    #[test]
    fn the_rhythm_of_a_program_that_polls_is_that_of_its_work() {
        let mut jobs = polling(400);
        // Now and then the encoder sleeps in the middle of a frame, or a frame is lost with the events it was in.
        let middle = |at: &Job| job(at.release.get() / 1000 + 17_000, at.execution.get() / 1000);
        let split: Vec<Job> =
            jobs.iter().filter(|j| j.execution > Nanos::from_millis(12)).step_by(25).copied().collect();
        jobs.extend(split.iter().map(middle));
        jobs.sort_by_key(|job| job.release);
        let found = rhythm(&history(jobs), Release::Unspecified, 0.0);
        let release = found.release.as_ref().expect("frames come on a grid");
        let Release::Periodic { period, jitter, .. } = release.release else { panic!("{release:?}") };
        assert_eq!(period, Nanos::from_millis(40));
        assert!(jitter > Nanos::from_millis(5), "{jitter}");
        assert_eq!(found.history.jobs.len(), 400, "pieces of a frame are put together");
        assert!(found.small > 400 && split.len() == 16);
        let text = found.describe(None);
        assert!(text.contains("every 40") && text.contains("release jitter"), "{text}");
        assert!(found.left_out.unwrap().contains("are no jobs"));
    }

    #[test]
    fn a_thread_without_rhythm_gets_no_period_and_jobs_alike_are_all_kept() {
        let mut generator = Pcg::new(9, 2);
        let mut now = 0;
        let random: Vec<Job> = (0..300)
            .map(|_| {
                now += 8_000 + generator.below(80_000) as i64;
                job(now, 4_000 + generator.below(3_000) as i64)
            })
            .collect();
        let found = rhythm(&history(random), Release::Unspecified, 0.0);
        assert_eq!(found.small, 0);
        let release = found.release.unwrap().release;
        assert!(!matches!(release, Release::Periodic { .. }), "{release:?}");
        assert_eq!(rhythm(&history(Vec::new()), Release::Unspecified, 0.0).release, None);
    }

    #[test]
    fn the_worker_is_the_role_with_the_most_time_even_when_threads_take_turns() {
        let seen = |tid, comm: &str, rank, ms| ThreadSeen {
            tid: Tid(tid),
            role: ThreadRole { comm: comm.to_owned(), rank },
            run: Nanos::from_millis(ms),
        };
        let threads =
            [seen(1, "sh", 0, 50), seen(2, "busy", 0, 40), seen(3, "busy", 0, 40), seen(4, "busy", 1, 30)];
        let worker = busiest(&threads).unwrap();
        assert_eq!((worker.role.comm.as_str(), worker.role.rank), ("busy", 0));
        assert_eq!(worker.tids, [Tid(2), Tid(3)]);
        assert_eq!(worker.part, 0.5);
        assert_eq!(worker.others[0].0.comm, "sh");
        assert_eq!(busiest(&[seen(1, "sh", 0, 0)]), None);
    }
}
