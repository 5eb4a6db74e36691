//! [`average`]: where the responses of many jobs went, all of them or the slowest only.

use std::collections::BTreeMap;

use surety_units::Nanos;

use super::{Cause, JobBlame};

/// Where the responses of some jobs went together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Average {
    /// How many jobs.
    pub jobs: u64,
    /// Sum of their responses.
    pub response: Nanos,
    /// Sum of each cause, by cause; together they are `response`.
    pub causes: BTreeMap<Cause, Nanos>,
}

impl Average {
    /// A sum's mean over the jobs, rounded down; 0 without jobs.
    pub fn mean(&self, sum: Nanos) -> Nanos {
        let jobs = i64::try_from(self.jobs).unwrap_or(i64::MAX);
        Nanos::new(sum.get().checked_div(jobs).unwrap_or(0))
    }

    /// The mean time of one cause.
    pub fn mean_of(&self, cause: Cause) -> Nanos {
        self.mean(self.causes.get(&cause).copied().unwrap_or(Nanos::ZERO))
    }
}

/// Where the responses of these jobs went.
pub fn average<'a>(jobs: impl IntoIterator<Item = &'a JobBlame>) -> Average {
    let mut average = Average::default();
    for job in jobs {
        average.jobs += 1;
        average.response = average.response.saturating_add(job.job.response());
        for part in &job.parts {
            let sum = average.causes.entry(part.cause).or_insert(Nanos::ZERO);
            *sum = sum.saturating_add(part.time);
        }
    }
    average
}

/// The slowest jobs: `ceil(per_mille n / 1000)` of them, the slowest first, of equally slow ones the earlier.
///
/// A quantile's causes are the means over these, not the causes of the one job that is the quantile: that one is
/// chance.
pub fn slowest<'a>(jobs: impl IntoIterator<Item = &'a JobBlame>, per_mille: usize) -> Vec<&'a JobBlame> {
    let mut jobs: Vec<&JobBlame> = jobs.into_iter().collect();
    let kept = jobs.len().saturating_mul(per_mille).div_ceil(1000);
    jobs.sort_by_key(|job| std::cmp::Reverse(job.job.response()));
    jobs.truncate(kept);
    jobs
}
