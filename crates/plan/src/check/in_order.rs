//! [`JobsInOrder`]: a claim about jobs whose order is known, redone without the recursion that made it.
//!
//! The backlog that job i finds is the sum of `c - z Q` over the jobs before it less the smallest such sum that ever was: two
//! running sums, no maximum with 0.

use surety_units::Nanos;

/// Jobs in their order and what they are served by.
pub(super) struct JobsInOrder {
    pub(super) jobs: Vec<Nanos>,
    pub(super) worth: Nanos,
    /// Budgets between releases, and within the limit.
    pub(super) budgets: (u32, u32),
    /// Jobs that find a backlog count, too.
    pub(super) all: bool,
    /// Threads that each play them.
    pub(super) threads: u64,
}

impl JobsInOrder {
    /// Jobs in time among those with these numbers, counted from 0 and from an empty queue.
    fn done_of(&self, from: u64, to: u64) -> u64 {
        let (between, within) = (i128::from(self.budgets.0), i128::from(self.budgets.1));
        let worth = i128::from(self.worth.get());
        let (mut sum, mut least, mut done) = (0i128, 0i128, 0);
        for job in 0..to {
            let work = i128::from(self.jobs[(job % self.jobs.len() as u64) as usize].get());
            let found = sum - least;
            let counts = job >= from && (self.all || found == 0);
            done += u64::from(counts && found + work <= within * worth);
            sum += work - between * worth;
            least = least.min(sum);
        }
        done
    }

    /// Jobs in time in a round, once the queue has settled.
    pub(super) fn done(&self) -> u64 {
        let n = self.jobs.len() as u64;
        self.done_of(2 * n, 3 * n)
    }

    /// Jobs in time of the first so many of all threads; the last of each may still have been on its way.
    pub(super) fn least(&self, of: u64) -> u64 {
        let each = of / self.threads;
        (self.done_of(0, each) * self.threads).saturating_sub(self.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_analysis::cbs::in_order::settled;
    use surety_stats::random::Pcg;

    #[test]
    fn sums_agree_with_the_recursion() {
        let mut generator = Pcg::new(9, 1);
        for _ in 0..300 {
            let n = 1 + generator.next_u64() % 30;
            let jobs: Vec<Nanos> = (0..n).map(|_| Nanos::new((generator.next_u64() % 40) as i64)).collect();
            let q = 1 + (generator.next_u64() % 30) as i64;
            let budgets = (1 + (generator.next_u64() % 3) as u32, 1 + (generator.next_u64() % 3) as u32);
            let Some(round) = settled(&jobs, Nanos::new(q), budgets) else { continue };
            for all in [true, false] {
                let summed =
                    JobsInOrder { jobs: jobs.clone(), worth: Nanos::new(q), budgets, all, threads: 2 };
                let expected = if all { round.done } else { round.without_backlog };
                assert_eq!(summed.done(), expected, "{jobs:?} {q} {budgets:?}");
                assert!(summed.least(2 * n) <= 2 * n);
            }
        }
    }
}
