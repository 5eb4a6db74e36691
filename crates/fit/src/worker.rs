//! Which of a program's threads does its work, and in what rhythm.
//!
//! The worker is the thread role with the most CPU time. A program that waits by polling wakes many times for
//! next to nothing between two pieces of work; [`rhythm`] tells those wake-ups from the jobs by the widest gap
//! between execution times, if it is at least [`GAP`]-fold and everything below it makes no more than
//! [`SMALL_MAX`] of the CPU time. What is left is laid on a grid. Where [`release::fit`] finds none, because polling
//! blurs every release by up to one poll, the period is looked for on whose grid the releases concentrate most; their
//! spread about it is the jitter.

use surety_model::job::{Job, ThreadHistory};
use surety_model::record::ThreadSeen;
use surety_model::workload::{Release, ThreadRole};
use surety_units::{Nanos, Tid};

use crate::release::{self, ReleaseFit, rounded};
use crate::{JOBS_MIN, WorkFit};

/// Wake-ups for next to nothing are this many times shorter than the shortest job.
pub const GAP: f64 = 3.0;
/// They make at most this part of the CPU time.
pub const SMALL_MAX: f64 = 0.05;
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
    /// The history with these jobs only.
    pub history: ThreadHistory,
    /// Wake-ups left out.
    pub small: usize,
    /// The rule found; `None`: too few jobs.
    pub release: Option<ReleaseFit>,
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
        let between = match self.small {
            0 => String::new(),
            small => format!(" ({small} wake-ups between them did next to nothing)"),
        };
        match self.release.as_ref().map(|fit| fit.release) {
            Some(Release::Periodic { period, .. }) => format!("a job every {period}{each}{between}"),
            _ => format!("{} jobs without a period{each}{between}", self.history.jobs.len()),
        }
    }
}

/// The jobs of a thread and their rhythm.
pub fn rhythm(history: &ThreadHistory) -> Rhythm {
    let smallest = smallest_job(&history.jobs);
    let jobs: Vec<Job> = history.jobs.iter().filter(|job| job.execution >= smallest).copied().collect();
    let mut releases: Vec<Nanos> = jobs.iter().map(|job| job.release).collect();
    releases.sort_unstable();
    let found = release::fit(&releases, None);
    let release = match &found {
        Some(ReleaseFit { release: Release::Periodic { .. }, .. }) => found,
        _ => steady(&releases).or(found),
    };
    Rhythm {
        small: history.jobs.len() - jobs.len(),
        history: ThreadHistory { jobs, ..history.clone() },
        release,
    }
}

/// The execution time from which on a busy period is a job.
fn smallest_job(jobs: &[Job]) -> Nanos {
    let mut sorted: Vec<Nanos> = jobs.iter().map(|job| job.execution.max(Nanos::new(1))).collect();
    sorted.sort_unstable();
    let total: f64 = sorted.iter().map(|e| e.get() as f64).sum();
    let (mut below, mut widest) = (0.0, (GAP, Nanos::ZERO));
    for pair in sorted.windows(2) {
        let (low, high) = (pair[0].get() as f64, pair[1].get() as f64);
        below += low;
        if below > SMALL_MAX * total {
            break;
        }
        if high / low >= widest.0 {
            widest = (high / low, pair[1]);
        }
    }
    widest.1
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
    let mut residuals: Vec<f64> =
        index.iter().zip(&times).map(|(i, t)| t - line.offset - line.slope * i).collect();
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

/// A straight line by least squares.
struct Line {
    slope: f64,
    offset: f64,
    /// Standard error of the slope.
    error: f64,
}

impl Line {
    /// `None` where it does not rise.
    fn through(index: &[f64], times: &[f64]) -> Option<Line> {
        let n = index.len() as f64;
        let (mean_i, mean_t) = (index.iter().sum::<f64>() / n, times.iter().sum::<f64>() / n);
        let square: f64 = index.iter().map(|i| (i - mean_i) * (i - mean_i)).sum();
        let cross: f64 = index.iter().zip(times).map(|(i, t)| (i - mean_i) * (t - mean_t)).sum();
        let slope = cross / square;
        let offset = mean_t - slope * mean_i;
        let rest = index.iter().zip(times).map(|(i, t)| t - offset - slope * i).map(|r| r * r).sum::<f64>();
        let error = (rest / (n - 2.0).max(1.0) / square).sqrt();
        (slope.is_finite() && slope > 0.0).then_some(Line { slope, offset, error })
    }
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
            interrupted: Nanos::ZERO,
            prio: 120,
            censored: 0,
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
        let found = rhythm(&history(jobs));
        let release = found.release.as_ref().expect("frames come on a grid");
        let Release::Periodic { period, jitter, .. } = release.release else { panic!("{release:?}") };
        assert_eq!(period, Nanos::from_millis(40));
        assert!(jitter > Nanos::from_millis(5), "{jitter}");
        assert_eq!(found.history.jobs.len(), 400 + split.len());
        assert!(found.small > 400);
        let text = found.describe(None);
        assert!(text.contains("every 40") && text.contains("next to nothing"), "{text}");
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
        let found = rhythm(&history(random));
        assert_eq!(found.small, 0);
        let release = found.release.unwrap().release;
        assert!(!matches!(release, Release::Periodic { .. }), "{release:?}");
        assert_eq!(rhythm(&history(Vec::new())).release, None);
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
