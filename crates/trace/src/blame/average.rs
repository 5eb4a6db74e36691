//! [`Average`] and [`Slowest`]: where the responses of many jobs went, all of them or the slowest only, in bounded memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use surety_units::Nanos;

use super::{Cause, DiskCause, JobBlame, Part};

/// Causes that are told apart; threads beyond are [`Cause::Others`].
pub const CAUSES_MAX: usize = 4096;
/// Jobs that are kept, the slowest: 1 % of 1.6 million jobs.
pub const SLOWEST_MAX: usize = 1 << 14;

/// Where the responses of some jobs went together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Average {
    pub jobs: u64,
    /// Sum of their responses.
    pub response: Nanos,
    /// Sum of each cause, by cause; together they are `response`. At most [`CAUSES_MAX`] and one.
    pub causes: BTreeMap<Cause, Nanos>,
}

impl Average {
    /// Counts a job with what its response went to.
    pub fn add(&mut self, response: Nanos, parts: &[Part]) {
        self.jobs += 1;
        self.response = self.response.saturating_add(response);
        for part in parts {
            self.add_time(part.cause, part.time);
        }
    }

    /// Counts what another counted.
    pub fn merge(&mut self, other: &Average) {
        self.jobs += other.jobs;
        self.response = self.response.saturating_add(other.response);
        for (cause, time) in &other.causes {
            self.add_time(*cause, *time);
        }
    }

    pub(super) fn add_time(&mut self, mut cause: Cause, time: Nanos) {
        let is_full = self.causes.len() >= CAUSES_MAX;
        let names_thread = matches!(
            cause,
            Cause::Thread(_)
                | Cause::Ran(_)
                | Cause::Lock(_)
                | Cause::Awaited(_)
                | Cause::Disk(
                    DiskCause::Scheduler(..) | DiskCause::Device(_) | DiskCause::Unscheduled(Some(_))
                )
        );
        if is_full && names_thread && !self.causes.contains_key(&cause) {
            cause = Cause::Others;
        }
        let sum = self.causes.entry(cause).or_insert(Nanos::ZERO);
        *sum = sum.saturating_add(time);
    }

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
    for blamed in jobs {
        average.add(blamed.job.response(), &blamed.parts);
    }
    average
}

/// A job that is among the slowest; the slower is the greater, of equally slow ones the earlier.
#[derive(Clone, Debug)]
struct Slow {
    life: u64,
    number: u64,
    blamed: JobBlame,
}

impl Slow {
    fn rank(&self) -> (Nanos, Reverse<u64>) {
        (self.blamed.job.response(), Reverse(self.number))
    }
}

impl PartialEq for Slow {
    fn eq(&self, other: &Slow) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Slow {}

impl PartialOrd for Slow {
    fn partial_cmp(&self, other: &Slow) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slow {
    fn cmp(&self, other: &Slow) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// The slowest jobs of all, at most [`SLOWEST_MAX`].
#[derive(Clone, Debug, Default)]
pub struct Slowest {
    /// The least slow on top.
    kept: BinaryHeap<Reverse<Slow>>,
    seen: u64,
    /// The longest response that was let go: only what is slower is known to be complete.
    let_go: Option<Nanos>,
}

impl Slowest {
    pub(super) fn add(&mut self, life: u64, blamed: JobBlame) {
        let number = self.seen;
        self.seen += 1;
        self.kept.push(Reverse(Slow { life, number, blamed }));
        if self.kept.len() > SLOWEST_MAX
            && let Some(Reverse(least)) = self.kept.pop()
        {
            self.let_go = self.let_go.max(Some(least.blamed.job.response()));
        }
    }

    /// Whether a job of this response would be kept.
    pub(super) fn takes(&self, response: Nanos) -> bool {
        let least = self.kept.peek().map(|Reverse(least)| least.blamed.job.response());
        self.kept.len() < SLOWEST_MAX || least.is_none_or(|least| response > least)
    }

    /// One that is not kept.
    pub(super) fn pass(&mut self, response: Nanos) {
        self.seen += 1;
        self.let_go = self.let_go.max(Some(response));
    }

    /// The jobs of that life were none.
    pub(super) fn forget(&mut self, life: u64) {
        self.kept.retain(|Reverse(slow)| slow.life != life);
    }

    /// The slowest of `jobs` jobs: `ceil(per_mille n / 1000)` of them, the slowest first, of equally slow ones the
    /// earlier; fewer where not so many are kept.
    ///
    /// A quantile's causes are the means over these, not the causes of the one job that is the quantile: that one is
    /// chance.
    pub fn of(&self, jobs: u64, per_mille: u64) -> Vec<&JobBlame> {
        let mut kept: Vec<&Slow> = self.kept.iter().map(|Reverse(slow)| slow).collect();
        kept.retain(|slow| self.let_go.is_none_or(|let_go| slow.blamed.job.response() >= let_go));
        kept.sort_by(|a, b| b.cmp(a));
        let wanted = jobs.saturating_mul(per_mille).div_ceil(1000);
        kept.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        kept.into_iter().map(|slow| &slow.blamed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::job::Job;
    use surety_units::CpuId;

    fn blamed(response: i64) -> JobBlame {
        let completion = Nanos::new(response);
        let job = Job {
            release: Nanos::ZERO,
            start: Nanos::ZERO,
            cpu: CpuId(0),
            completion,
            execution: completion,
            interrupted: Nanos::ZERO,
            preemptions: 0,
            preempted: Nanos::ZERO,
            throttled: Nanos::ZERO,
            inferred: Nanos::ZERO,
            unknown: Nanos::ZERO,
            index: None,
        };
        JobBlame { job, parts: vec![Part { cause: Cause::Own, time: completion }] }
    }

    #[test]
    fn the_slowest_are_exact_as_far_as_they_are_kept() {
        let mut slowest = Slowest::default();
        let jobs = 3 * SLOWEST_MAX as i64;
        // Every response once, in an order that is no order: 7 has no factor in common with the number of jobs.
        for k in 0..jobs {
            let response = k * 7 % jobs;
            if slowest.takes(Nanos::new(response)) {
                slowest.add(u64::from(response % 2 == 1), blamed(response));
            } else {
                slowest.pass(Nanos::new(response));
            }
        }
        let responses = |slowest: &Slowest, per_mille| -> Vec<i64> {
            slowest.of(jobs as u64, per_mille).iter().map(|b| b.job.response().get()).collect()
        };
        let first = jobs - (jobs + 99) / 100;
        assert_eq!(responses(&slowest, 10), (first..jobs).rev().collect::<Vec<_>>());
        assert_eq!(responses(&slowest, 1000).len(), SLOWEST_MAX, "no more are kept");
        // Every second one is void: below the fastest kept nobody knows.
        slowest.forget(1);
        let evens = responses(&slowest, 1000);
        assert_eq!(evens.len(), SLOWEST_MAX / 2);
        assert!(evens.iter().all(|response| response % 2 == 0));
    }

    #[test]
    fn causes_beyond_the_bound_are_one() {
        let mut average = Average::default();
        for tid in 0..CAUSES_MAX as i32 + 10 {
            let culprit =
                super::super::Culprit { tid: surety_units::Tid(tid), comm: Default::default(), prio: 120 };
            average.add(Nanos::new(3), &[Part { cause: Cause::Thread(culprit), time: Nanos::new(3) }]);
        }
        assert_eq!(average.causes.len(), CAUSES_MAX + 1);
        assert_eq!(average.causes.get(&Cause::Others), Some(&Nanos::new(30)));
        assert_eq!(average.causes.values().copied().sum::<Nanos>(), average.response);
    }
}
