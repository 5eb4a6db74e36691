//! Is a busy period one job?
//!
//! A periodic thread that is late asks to sleep until a time that has passed: it does not sleep, and the
//! trace shows one busy period of several jobs. With a release interval P known, a busy period that reaches
//! the next release, `completion - release >= P`, may hold more than one job; one that does not holds exactly
//! one.
//!
//! Such periods begin with a job that is late, so leaving them out cuts the upper tail of the work. They are
//! therefore kept as counts above every other sample: quantile bounds by ranks stay true, and none exists for
//! a quantile that lies among them. A family fitted to the rest misses at most their fraction of the mass;
//! beyond 1 % that is more than a promise at 99 % allows in all, and the fit is refused.

use surety_model::job::{Job, Separation, ThreadHistory};
use surety_units::Nanos;

use crate::FitError;

/// The largest fraction of busy periods that may be left out where a promise is to be planned.
pub const MERGED_MAX: f64 = 0.01;
/// A thread that is busy for more than this fraction of the time does not sleep between jobs to any purpose.
const BUSY_MAX: f64 = 0.98;

/// Busy periods that hold one job each, and how many do not.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleJobs {
    pub jobs: Vec<Job>,
    /// Busy periods that reach the next release.
    pub merged: u64,
}

/// Refuses a thread that never sleeps, unless markers tell its jobs apart: those of an overloaded thread overlap
/// from release to completion without running into each other.
pub fn check_sleeps(history: &ThreadHistory, thread: &str) -> Result<(), FitError> {
    let refuse = |why: String| Err(FitError::Inseparable { thread: thread.to_owned(), why });
    if history.jobs.is_empty() && history.run.is_positive() {
        return refuse(format!("it ran for {} and never slept", history.run));
    }
    if history.separation == Separation::Markers {
        return Ok(());
    }
    let (Some(first), Some(last)) = (history.jobs.first(), history.jobs.last()) else { return Ok(()) };
    let span = last.completion - first.release;
    let busy: Nanos = history.jobs.iter().map(Job::response).sum();
    if history.jobs.len() > 1 && busy.get() as f64 > BUSY_MAX * span.get() as f64 {
        return refuse(format!(
            "it wanted a CPU for {busy} of {span}, so nearly every job ran into the next"
        ));
    }
    Ok(())
}

/// The busy periods that hold exactly one job, given the interval of releases; at most this part of them may be others.
pub fn single_jobs(
    busy: &[Job],
    interval: Nanos,
    thread: &str,
    merged_max: f64,
) -> Result<SingleJobs, FitError> {
    let (jobs, merged): (Vec<Job>, Vec<Job>) = busy.iter().partition(|job| job.response() < interval);
    let merged = merged.len() as u64;
    let all = busy.len();
    if merged as f64 > merged_max * all as f64 {
        return Err(FitError::Inseparable {
            thread: thread.to_owned(),
            why: format!(
                "{merged} of {all} busy periods last until the next release, {} later, or longer, and may hold several \
                 jobs (at most {:.0} % may)",
                interval.to_exact_string(),
                merged_max * 100.0
            ),
        });
    }
    Ok(SingleJobs { jobs, merged })
}
