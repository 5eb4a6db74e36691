//! Work of which every job is known: a declared sequence, played over and over through the budgets.
//!
//! Nothing is left to chance, so Lindley's recursion `w' = max(0, w + c - z Q)` is played job by job. The backlog that job i finds
//! is the largest sum of `c - z Q` over the jobs before it, from any beginning; where all jobs together need no more than their
//! budgets, no beginning farther back than one round is worse than the same one a round later. So the second round, begun
//! with what the first left behind, is every further one, and its fraction is that of the long run. Where they need more the
//! backlog grows for ever, and no fraction is claimed.

use surety_model::distribution::TimeDistribution;
use surety_units::Nanos;

/// What came of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Jobs done within the budgets.
    pub done: u64,
    /// Of them, those that found no backlog.
    pub without_backlog: u64,
    pub jobs: u64,
    /// What is left behind.
    pub left: Nanos,
}

impl Round {
    /// The fraction done; `all`: those that found a backlog count, too.
    pub fn fraction(&self, all: bool) -> f64 {
        let done = if all { self.done } else { self.without_backlog };
        done as f64 / self.jobs.max(1) as f64
    }
}

/// The jobs of a distribution that keeps their order.
pub fn jobs_of(work: &TimeDistribution) -> Option<Vec<Nanos>> {
    match work {
        TimeDistribution::Empirical(empirical) => empirical.sequence(),
        _ => None,
    }
}

/// One round through the jobs, which find this backlog.
pub fn round(jobs: &[Nanos], runtime: Nanos, (between, within): (u32, u32), found: Nanos) -> Round {
    let served = runtime * i64::from(between);
    let reach = runtime * i64::from(within);
    let mut played = Round { done: 0, without_backlog: 0, jobs: jobs.len() as u64, left: found };
    for work in jobs {
        let all = played.left.saturating_add(*work);
        let is_done = all <= reach;
        played.done += u64::from(is_done);
        played.without_backlog += u64::from(is_done && played.left == Nanos::ZERO);
        played.left = (all - served).max(Nanos::ZERO);
    }
    played
}

/// Every round in the long run; `None` where the jobs need more than their budgets.
pub fn settled(jobs: &[Nanos], runtime: Nanos, budgets: (u32, u32)) -> Option<Round> {
    let first = round(jobs, runtime, budgets, Nanos::ZERO);
    let second = round(jobs, runtime, budgets, first.left);
    (second.left == first.left).then_some(second)
}

/// The fraction of jobs done in the long run, exactly; 0 where the backlog grows for ever. `all`: those that find a backlog
/// count, too.
pub fn fraction(jobs: &[Nanos], runtime: Nanos, budgets: (u32, u32), all: bool) -> f64 {
    settled(jobs, runtime, budgets).map_or(0.0, |round| round.fraction(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounds_settle_and_overload_claims_nothing() {
        let ms = |list: &[i64]| -> Vec<Nanos> { list.iter().map(|v| Nanos::from_millis(*v)).collect() };
        let q = Nanos::from_millis(10);
        // Light jobs first: the backlog of the heavy ones is found by the light ones of the next round.
        let jobs = ms(&[2, 2, 2, 2, 25, 15]);
        let found = settled(&jobs, q, (1, 1)).unwrap();
        // They leave 15, then 20; the light ones find 20, 12, 4, 0.
        assert_eq!(
            (found.done, found.without_backlog, found.jobs, found.left),
            (2, 1, 6, Nanos::from_millis(20))
        );
        assert_eq!(round(&jobs, q, (1, 1), Nanos::ZERO).done, 4, "the first round is no measure");
        assert!((fraction(&jobs, q, (1, 2), true) - 0.5).abs() < 1e-12);
        assert_eq!(fraction(&ms(&[11, 10]), q, (1, 1), true), 0.0);
        assert_eq!(fraction(&ms(&[11, 9]), q, (1, 1), true), 0.5);
    }

    proptest! {
        /// The second round is the tenth, and more budget never does less.
        #[test]
        fn what_settles_stays(jobs in proptest::collection::vec(0i64..40, 1..12), q in 5i64..30, z in 1u32..3, k in 1u32..4) {
            let jobs: Vec<Nanos> = jobs.into_iter().map(Nanos::new).collect();
            let q = Nanos::new(q);
            let mut left = Nanos::ZERO;
            let mut tenth = None;
            for _ in 0..10 {
                let played = round(&jobs, q, (z, k), left);
                left = played.left;
                tenth = Some(played);
            }
            let sum: Nanos = jobs.iter().copied().sum();
            match settled(&jobs, q, (z, k)) {
                Some(found) => {
                    prop_assert!(sum <= q * i64::from(z) * jobs.len() as i64);
                    prop_assert_eq!(Some(found), tenth);
                }
                None => prop_assert!(sum > q * i64::from(z) * jobs.len() as i64),
            }
            for all in [true, false] {
                let at = |q| fraction(&jobs, q, (z, k), all);
                prop_assert!(at(q) <= at(q + Nanos::new(1)));
            }
        }
    }
}
