//! From a thread's jobs in a trace to a task: when it is released, how much work its jobs need, and how sure
//! that is.
//!
//! [`fit_thread`] first makes sure that the jobs are jobs ([`separation`]: a late thread does not sleep
//! between two jobs, so one busy period may hold several), then finds the release rule ([`release`]), then
//! the distribution of work ([`work`], [`family`]). What cannot be told apart is refused in words, with the
//! remedy.
//!
//! [`fit_trace`] does that for a whole trace: threads and interrupts become a workload, and what does not fit is named.

#![forbid(unsafe_code)]

pub mod condense;
mod drift;
pub mod family;
mod irq;
mod line;
pub mod naming;
pub mod policy;
pub mod release;
pub mod separation;
pub mod sleep;
mod source;
pub mod trace;
pub mod work;
pub mod worker;

use surety_model::job::{Separation, ThreadHistory};
use surety_model::modes::{ModeFit, modes};
use surety_model::workload::{Late, Release, Task, TaskBody, Work};
use surety_stats::goodness::independence;
use surety_units::Nanos;
use thiserror::Error;

pub use family::{Family, FamilyFit};
pub use release::ReleaseFit;
pub use source::Why;
pub use trace::{
    Accounts, FitOptions, FittedWorkload, Kind, Left, LeftGroup, SourceFit, TraceView, Unfitted, fit_trace,
    summary,
};
pub use work::{Series, WorkFit};

/// The fewest jobs anything is concluded from.
pub const JOBS_MIN: usize = 20;

/// A task as a trace shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedTask {
    /// Ready for a workload file: the hint's name and promises, the release found, the work as a
    /// distribution.
    pub task: Task,
    /// The work of its jobs.
    pub work: WorkFit,
    /// Its releases.
    pub release: Option<ReleaseFit>,
    /// What a reader has to know about the fit, in sentences.
    pub notes: Vec<String>,
}

/// Why a history gives no task.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FitError {
    /// Too little was seen.
    #[error(
        "thread {thread}: {jobs} complete jobs are too few to fit anything, {JOBS_MIN} are needed: record longer"
    )]
    TooFew {
        /// Its name.
        thread: String,
        /// Complete jobs.
        jobs: usize,
    },
    /// Jobs cannot be told apart.
    #[error(
        "thread {thread}: its jobs cannot be told apart: {why}; record a profile pass under a generous reservation, or \
         let the program write a marker at the begin and end of each job"
    )]
    Inseparable {
        /// Its name.
        thread: String,
        /// What was seen, with the numbers.
        why: String,
    },
}

/// Fits a task to what a trace shows of one thread.
///
/// The hint is the task as a workload declares it: its period, if any, is believed, its promises and name are
/// kept.
pub fn fit_thread(history: &ThreadHistory, hint: Option<&Task>) -> Result<FittedTask, FitError> {
    let declared = hint.map_or(Release::Unspecified, |task| task.release);
    let late = hint.map_or(Late::Queue, |task| task.late);
    let thread = hint.map_or_else(|| history.comm.to_string(), |task| task.name.clone());
    separation::check_sleeps(history, &thread)?;
    if history.jobs.len() < JOBS_MIN {
        return Err(FitError::TooFew { thread, jobs: history.jobs.len() });
    }
    let mut notes = Vec::new();
    let mut releases: Vec<Nanos> = history.jobs.iter().map(|job| job.release).collect();
    releases.sort_unstable();
    let found = release::fit(&releases, declared.interval());
    let interval = declared.interval().or(found.as_ref().and_then(|f| f.release.interval()));
    if let (Some(declared), Some(found)) = (declared.interval(), &found)
        && let Some(warning) = found.disagreement(declared)
    {
        notes.push(warning);
    }
    let (jobs, beyond) = match (history.separation, interval) {
        (Separation::BusyPeriod, Some(interval)) if late == Late::Queue => {
            let kept = separation::single_jobs(&history.jobs, interval, &thread, separation::MERGED_MAX)?;
            if kept.merged > 0 {
                notes.push(format!(
                    "{} of {} busy periods ran into the next release and may hold several jobs: left out, counted as \
                     longer than every other",
                    kept.merged,
                    history.jobs.len()
                ));
            }
            (kept.jobs, kept.merged)
        }
        _ => (history.jobs.clone(), 0),
    };
    if jobs.len() < JOBS_MIN {
        return Err(FitError::TooFew { thread, jobs: jobs.len() });
    }
    if history.censored > 0 {
        notes.push(format!(
            "jobs given up because events were lost or the trace ended inside: {}",
            history.censored
        ));
    }
    let inferred: Vec<Nanos> = jobs.iter().map(|job| job.inferred).filter(|i| i.is_positive()).collect();
    if let Some(most) = inferred.iter().max() {
        notes.push(format!(
            "a switch to the thread was not recorded in {} of {} jobs: their work is the most it can have been, up to {most} \
             too much",
            inferred.len(),
            jobs.len()
        ));
    }
    let net: Vec<Nanos> = jobs.iter().map(|job| job.execution_net().max(Nanos::ZERO)).collect();
    let gross: Vec<Nanos> = jobs.iter().map(|job| job.execution.max(Nanos::ZERO)).collect();
    let in_order: Vec<f64> = net.iter().map(|t| t.get() as f64).collect();
    let independence = independence(&in_order, 0.95);
    if let Some(found) = independence.filter(|i| !i.holds()) {
        notes.push(format!(
            "work of neighbouring jobs is correlated (r1 = {:.3}, independent work stays within {:.3}): {} jobs are worth \
             about {:.0} independent ones, and probabilities hold for the long run only",
            found.lag_one,
            found.bound,
            net.len(),
            found.effective_samples
        ));
    }
    let in_modes = modes(&gross);
    notes.extend(in_modes.iter().map(ModeFit::describe));
    let work = WorkFit {
        net: Series::new(&net),
        gross: Series::new(&gross),
        beyond,
        wakes_between: false,
        independence,
        modes: in_modes,
    };
    notes.push(work.net.describe());
    let mut task =
        hint.cloned().unwrap_or_else(|| Task::periodic(&thread, Nanos::SECOND, work.net.distribution()));
    task.body = TaskBody::Synthetic(Work::Drawn(work.net.distribution()));
    if declared == Release::Unspecified {
        task.release = found.as_ref().map_or(Release::Unspecified, |f| f.release);
    }
    notes.extend(found.as_ref().map(ReleaseFit::describe));
    Ok(FittedTask { task, work, release: found, notes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::{TimeDistribution, log_normal_parameters};
    use surety_model::event::Comm;
    use surety_model::job::Job;
    use surety_stats::random::Pcg;
    use surety_units::Tid;

    fn history(jobs: Vec<Job>, separation: Separation) -> ThreadHistory {
        let last = jobs.last().map_or(Nanos::SECOND, |j| j.completion);
        ThreadHistory {
            tid: Tid(7),
            comm: Comm::new("player"),
            prio: 120,
            separation,
            open: None,
            run: jobs.iter().map(|j| j.execution).sum(),
            interrupted: jobs.iter().map(|j| j.interrupted).sum(),
            waited: Nanos::ZERO,
            longest_wait: Nanos::ZERO,
            unknown: Nanos::ZERO,
            censored: 0,
            doubtful: Vec::new(),
            seen: (Nanos::ZERO, last),
            jobs,
        }
    }

    /// A task of 40 ms alone on a CPU, as a busy-period trace shows it: late jobs merge, wake-ups jitter by
    /// 60 us.
    fn traced(work: &TimeDistribution, n: u64) -> Vec<Job> {
        let ms = Nanos::from_millis;
        let mut generator = Pcg::new(3, 4);
        let mut jobs: Vec<Job> = Vec::new();
        for k in 0..n {
            let planned = ms(1_000) + ms(40) * i64::try_from(k).unwrap();
            let need = work.draw(2, "player", k);
            let interrupted = Nanos::from_micros(50);
            if let Some(last) = jobs.last_mut().filter(|last| last.completion >= planned) {
                last.execution += need + interrupted;
                last.interrupted += interrupted;
                last.completion += need + interrupted;
                continue;
            }
            let release = planned + Nanos::new(generator.below(60_000) as i64);
            jobs.push(Job {
                release,
                start: release,
                cpu: surety_units::CpuId(0),
                completion: release + need + interrupted,
                execution: need + interrupted,
                interrupted,
                preemptions: 0,
                preempted: Nanos::ZERO,
                throttled: Nanos::ZERO,
                inferred: Nanos::ZERO,
                unknown: Nanos::ZERO,
                index: None,
            });
        }
        jobs
    }

    fn player() -> TimeDistribution {
        TimeDistribution::LogNormal { mean: Nanos::from_millis(14), p99: Nanos::from_millis(22) }
    }

    #[test]
    fn a_log_normal_player_is_recovered_without_a_hint() {
        let n = 5_000;
        let fitted = fit_thread(&history(traced(&player(), n), Separation::BusyPeriod), None).unwrap();
        let work = &fitted.work.net;
        let family = work.family.as_ref().expect("log-normal work is recognised");
        assert!(family.p_value > 0.05);
        let TimeDistribution::LogNormal { mean, p99 } = family.distribution() else { panic!("{family:?}") };
        // Three standard errors of the mean (2.9 ms / sqrt n) are below 2 %, and of the 99 % quantile as
        // well.
        assert!((mean.as_millis_f64() / 14.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((p99.as_millis_f64() / 22.0 - 1.0).abs() < 0.02, "{p99}");
        let sigma = |w| {
            let (m, p) = w;
            log_normal_parameters(m, p).unwrap().1
        };
        let truth = sigma((Nanos::from_millis(14), Nanos::from_millis(22)));
        assert!((sigma((mean, p99)) / truth - 1.0).abs() < 0.05);
        assert_eq!(
            fitted.task.release,
            Release::Periodic { period: Nanos::from_millis(40), start: Nanos::ZERO, jitter: Nanos::ZERO }
        );
        let (low, high) = work.mean_interval;
        assert!(low < 14e6 && 14e6 < high && high - low < 0.4e6);
        assert_eq!(fitted.work.gross.mean - work.mean, 50_000.0);
        assert!(fitted.work.independence.unwrap().holds());
        assert_eq!(fitted.work.beyond, 0);
        assert!(fitted.notes.iter().any(|n| n.contains("40ms")), "{:?}", fitted.notes);
    }

    #[test]
    fn the_hint_gives_name_promises_and_period() {
        let mut hint =
            Task::periodic("viewer", Nanos::from_millis(40), TimeDistribution::Constant(Nanos::ZERO));
        hint.promises = vec![surety_model::promise::Promise::parse("response <= 40ms @ 99%").unwrap()];
        let fitted =
            fit_thread(&history(traced(&player(), 400), Separation::BusyPeriod), Some(&hint)).unwrap();
        assert_eq!((fitted.task.name.as_str(), fitted.task.promises.len()), ("viewer", 1));
        assert_eq!(fitted.task.release, hint.release);
        // A declared period far from what was seen is said.
        hint.release =
            Release::Periodic { period: Nanos::from_millis(25), start: Nanos::ZERO, jitter: Nanos::ZERO };
        hint.late = Late::Skip;
        let fitted =
            fit_thread(&history(traced(&player(), 400), Separation::BusyPeriod), Some(&hint)).unwrap();
        assert!(fitted.notes[0].contains("25ms") && fitted.notes[0].contains("40"), "{:?}", fitted.notes);
    }

    #[test]
    fn merged_jobs_are_dropped_when_few_and_refused_when_many() {
        let ms = Nanos::from_millis;
        let hint = Task::periodic("player", ms(40), TimeDistribution::Constant(Nanos::ZERO));
        // 38 ms on average: every other job runs into the next release.
        let busy = TimeDistribution::Uniform { low: ms(30), high: ms(46) };
        let error =
            fit_thread(&history(traced(&busy, 2_000), Separation::BusyPeriod), Some(&hint)).unwrap_err();
        assert!(error.to_string().contains("profile pass"), "{error}");
        // With markers each job stands alone, merged or not, even when every job waits for many before it.
        let marked: Vec<Job> = traced(&player(), 200);
        assert!(fit_thread(&history(marked.clone(), Separation::Markers), Some(&hint)).is_ok());
        let mut late = marked;
        for (index, job) in late.iter_mut().enumerate() {
            let delay = ms(30) * index as i64;
            (job.start, job.completion) = (job.start + delay, job.completion + delay);
        }
        assert!(fit_thread(&history(late, Separation::Markers), Some(&hint)).is_ok());
        let rare = TimeDistribution::LogNormal { mean: ms(17), p99: ms(36) };
        let jobs = traced(&rare, 2_000);
        let fitted = fit_thread(&history(jobs, Separation::BusyPeriod), Some(&hint)).unwrap();
        assert!((1..20).contains(&fitted.work.beyond), "{}", fitted.work.beyond);
        assert!(fitted.work.net.quantile_upper(0.999, 0.95, fitted.work.beyond).is_none());
    }

    #[test]
    fn a_thread_that_never_sleeps_is_refused_in_words() {
        let mut spinner = history(Vec::new(), Separation::BusyPeriod);
        spinner.run = Nanos::SECOND;
        let error = fit_thread(&spinner, None).unwrap_err();
        assert!(matches!(error, FitError::Inseparable { .. }));
        assert!(error.to_string().contains("never slept"), "{error}");
        let error = fit_thread(&history(traced(&player(), 5), Separation::BusyPeriod), None).unwrap_err();
        assert!(error.to_string().contains("record longer"), "{error}");
    }
}
