//! [`Backlog`]: the stationary backlog of a task whose work is a distribution of times.
//!
//! Work and releases are put on a grid on the safe side ([`crate::cbs::grid`]) and the queue is solved
//! ([`crate::cbs::solver`]); every number given out is a proven lower bound.
//!
//! Work that was cut off the grid: let E be the jobs beyond the cut, of probability e and partial mean m, and
//! replace their work by none. Backlogs differ from such a job until the full queue is next empty, by Wald's
//! identity at most `(m/e + E[W] + zQ) / (E[z] Q - E[c])` jobs later on average, z here the most budgets between
//! releases, and `E[W] <= Var(c - zQ) / (2 (E[z] Q - E[c]))` (Kingman 1962). So at most the fraction `e + (m + e
//! (E[W] + zQ)) / (E[z] Q - E[c])` of jobs is affected, and that is deducted.

use surety_model::distribution::TimeDistribution;
use surety_units::Nanos;

use crate::cbs::CbsError;
use crate::cbs::grid::{Fineness, WorkGrid, budgets_between};
use crate::cbs::queue::Queue;
use crate::cbs::solver::{Solution, solve};

/// Wider walks are put on a coarser grid, where there is one.
const WIDE: usize = 1 << 13;

/// A stationary backlog, bounded from above.
#[derive(Clone, Debug)]
pub struct Backlog {
    step: Nanos,
    lossless: bool,
    /// Deducted for work beyond the grid.
    pub deducted: f64,
    /// The queue solved, with who solved it and how well.
    pub solution: Solution,
}

impl Backlog {
    /// For work served by `budgets` budgets of `runtime` between releases.
    pub fn stationary(work: &TimeDistribution, runtime: Nanos, budgets: u32) -> Result<Backlog, CbsError> {
        Backlog::with(work, runtime, budgets, Fineness::Fine, &solve)
    }

    /// The same on a grid of this fineness, solved by this solver: [`solve`], or another one to check it.
    pub fn with(
        work: &TimeDistribution,
        runtime: Nanos,
        budgets: u32,
        fineness: Fineness,
        solver: &dyn Fn(&Queue) -> Solution,
    ) -> Result<Backlog, CbsError> {
        if budgets == 0 {
            return Err(CbsError::NoBudget);
        }
        let mut spacing = vec![0.0; budgets as usize + 1];
        spacing[budgets as usize] = 1.0;
        Backlog::on_a_grid(work, runtime, &spacing, fineness, solver)
    }

    /// For releases whose distances are independent draws, those below `least` as long as that, served by one budget in each
    /// `period`.
    ///
    /// Releases in one server period count as a batch: no budget between them.
    pub fn aperiodic(
        work: &TimeDistribution,
        runtime: Nanos,
        (distance, least): (&TimeDistribution, Nanos),
        period: Nanos,
    ) -> Result<Backlog, CbsError> {
        let spacing = budgets_between(distance, least, period)?;
        Backlog::on_a_grid(work, runtime, &spacing, Fineness::Fine, &solve)
    }

    fn on_a_grid(
        work: &TimeDistribution,
        runtime: Nanos,
        spacing: &[f64],
        fineness: Fineness,
        solver: &dyn Fn(&Queue) -> Solution,
    ) -> Result<Backlog, CbsError> {
        if !runtime.is_positive() {
            return Err(CbsError::ZeroBudget);
        }
        let most = spacing.len() - 1;
        let coarsest = fineness.cells(most).last().copied().unwrap_or_default();
        let mut found = WorkGrid::on_lattice(work, runtime, most, fineness).ok_or(CbsError::NoBudget);
        for cells in fineness.cells(most) {
            if found.is_ok() {
                break;
            }
            found = WorkGrid::new(work, runtime, cells);
            let is_wide = |grid: &WorkGrid| grid.masses.len() + most * grid.budget > WIDE;
            if found.as_ref().is_ok_and(is_wide) && cells != coarsest {
                found = Err(CbsError::NoBudget);
            }
        }
        let grid = found?;
        let deducted = affected(&grid, spacing)?;
        let cut = grid.cut();
        let mut masses = grid.masses;
        masses[0] += cut;
        let queue = Queue::new(masses, spacing.to_vec(), grid.budget).map_err(|error| match error {
            CbsError::Overload { work, budget } => {
                let cell = grid.step.as_millis_f64();
                CbsError::Unstable { mean_ms: work * cell, budget_ms: budget * cell }
            }
            other => other,
        })?;
        Ok(Backlog { step: grid.step, lossless: grid.lossless, deducted, solution: solver(&queue) })
    }

    /// Length of a grid cell.
    pub fn step(&self) -> Nanos {
        self.step
    }

    /// Whether neither work nor budgets were rounded to a grid: then what was solved is the queue itself.
    pub fn is_lossless(&self) -> bool {
        self.lossless
    }

    /// What the grid makes of the answer, in words.
    pub fn grid_in_words(&self) -> String {
        if self.lossless {
            format!("on the lattice of work and budget, {}: nothing is rounded", self.step)
        } else {
            format!("on a grid of {}, work rounded up and the budget down: a bound", self.step)
        }
    }

    /// Lower bound of the probability that a release finds no backlog.
    pub fn none(&self) -> f64 {
        (self.solution.backlog_at_most(0).at_least - self.deducted).max(0.0)
    }

    /// Lower bound of the probability that a job is done within this many budgets, `P{w + c <= k Q}`.
    pub fn within(&self, budgets: u32) -> f64 {
        (self.solution.within(budgets).at_least - self.deducted).max(0.0)
    }
}

/// The fraction of jobs that work beyond the grid may affect.
fn affected(grid: &WorkGrid, spacing: &[f64]) -> Result<f64, CbsError> {
    let budget_ns = grid.budget as f64 * grid.step.get() as f64;
    let mean =
        |power: i32| -> f64 { spacing.iter().enumerate().map(|(z, p)| p * (z as f64).powi(power)).sum() };
    let (first, second) = (mean(1), mean(2));
    let slack = first * budget_ns - grid.mean;
    if slack <= 0.0 {
        return Err(CbsError::Unstable { mean_ms: grid.mean / 1e6, budget_ms: first * budget_ns / 1e6 });
    }
    let beyond = grid.beyond;
    if beyond.probability <= 0.0 {
        return Ok(0.0);
    }
    let variance = grid.variance + (second - first * first).max(0.0) * budget_ns * budget_ns;
    let reach = variance / (2.0 * slack) + (spacing.len() - 1) as f64 * budget_ns;
    Ok(beyond.probability + (beyond.partial_mean + beyond.probability * reach) / slack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use surety_model::distribution::Empirical;
    use surety_stats::random::Pcg;

    fn bound(work: &TimeDistribution, runtime: Nanos, z: u32, k: u32) -> f64 {
        Backlog::stationary(work, runtime, z).unwrap().within(k)
    }

    /// The fraction of jobs done within k budgets when Lindley's recursion is played with exact nanoseconds.
    fn played(work: &TimeDistribution, runtime: Nanos, z: u32, k: u32, jobs: u32) -> f64 {
        let mut generator = Pcg::new(11, 3);
        let (mut backlog, mut done) = (Nanos::ZERO, 0);
        for _ in 0..jobs {
            let v = backlog + work.draw_from(&mut generator);
            done += u32::from(v <= runtime * i64::from(k));
            backlog = (v - runtime * i64::from(z)).max(Nanos::ZERO);
        }
        f64::from(done) / f64::from(jobs)
    }

    #[test]
    fn known_queues() {
        // Work of 0 or 2 budgets with 0.7 and 0.3: the backlog is geometric with ratio 3/7, so P{w = 0} =
        // 4/7, and a job is done within one budget when it needs none and at most one is waiting: 0.7 (1 -
        // (3/7)^2).
        let ms = Nanos::from_millis;
        let work = TimeDistribution::Empirical(Empirical::new(vec![(ms(0), 7), (ms(8), 3)]).unwrap());
        let backlog = Backlog::stationary(&work, ms(4), 1).unwrap();
        assert!((backlog.none() - 4.0 / 7.0).abs() < 1e-6, "{}", backlog.none());
        assert!((backlog.within(1) - 0.7 * (1.0 - 9.0 / 49.0)).abs() < 1e-6, "{}", backlog.within(1));
        let never = TimeDistribution::Constant(ms(4));
        assert!(bound(&never, ms(5), 1, 1) > 1.0 - 1e-9);
        let error = Backlog::stationary(&never, ms(3), 1).unwrap_err();
        assert!(matches!(error, CbsError::Unstable { .. }));
        assert!(error.to_string().contains("larger runtime"));
    }

    #[test]
    fn bounds_stay_below_and_near_what_a_million_jobs_did() {
        let us = Nanos::from_micros;
        let player = TimeDistribution::LogNormal { mean: us(14_000), p99: us(22_000) };
        let exponential = TimeDistribution::Exponential { mean: us(6_000) };
        let uniform = TimeDistribution::Uniform { low: us(4_000), high: us(16_000) };
        for (work, runtime, z, k) in [
            (&player, us(26_500), 1, 1),
            (&player, us(20_000), 1, 1),
            (&player, us(15_500), 1, 1),
            (&player, us(9_000), 2, 2),
            (&player, us(9_000), 2, 3),
            (&exponential, us(12_000), 1, 1),
            (&exponential, us(8_000), 1, 3),
            (&uniform, us(11_000), 1, 1),
        ] {
            let (proven, seen) = (bound(work, runtime, z, k), played(work, runtime, z, k, 1_000_000));
            // Late jobs come in clusters: three standard errors of a sample a hundred times smaller are
            // generous.
            let noise = 3.0 * (seen * (1.0 - seen) / 1e4).sqrt().max(1e-5);
            assert!(proven <= seen + noise, "{work:?} {runtime} {z} {k}: {proven} > {seen}");
            assert!(proven >= seen - 0.02 - noise, "{work:?} {runtime} {z} {k}: {proven} far below {seen}");
        }
    }

    /// The pictures of a film, in tenths of a millisecond, served with 5.6 ms: on a grid of 14 us each was rounded up, which cost 0.7
    /// points of 33.2. On their lattice the answer is that of the recursion itself, iterated here until it stands.
    #[test]
    fn work_on_a_lattice_is_solved_as_it_is() {
        let us = Nanos::from_micros;
        let film = [(31, 4), (37, 9), (43, 18), (49, 23), (54, 19), (61, 14), (73, 8), (89, 4), (127, 1)];
        let total: f64 = film.iter().map(|(_, count)| *count as f64).sum();
        let pairs = film.iter().map(|(value, count)| (us(value * 100), *count)).collect();
        let work = TimeDistribution::Empirical(Empirical::new(pairs).unwrap());
        let found = Backlog::stationary(&work, us(5_600), 1).unwrap();
        assert!(found.is_lossless() && found.step() == us(100), "{}", found.grid_in_words());
        // P{w} in tenths of a millisecond; beyond 200 ms there is next to nothing.
        let mut masses = vec![0.0; 2_000];
        masses[0] = 1.0;
        for _ in 0..20_000 {
            let mut next = vec![0.0; masses.len()];
            for (w, p) in masses.iter().enumerate().filter(|(_, p)| **p > 1e-18) {
                for (value, count) in film {
                    let after = (w + value as usize).saturating_sub(56).min(masses.len() - 1);
                    next[after] += p * count as f64 / total;
                }
            }
            masses = next;
        }
        for budgets in 1..4u32 {
            let reach = 56 * budgets as usize;
            let done = |value: usize| masses.iter().take((reach + 1).saturating_sub(value)).sum::<f64>();
            let truth: f64 = film.iter().map(|(v, count)| done(*v as usize) * *count as f64 / total).sum();
            let solved = found.solution.within(budgets).value;
            assert!((solved - truth).abs() < 1e-6, "{budgets}: {solved} {truth}");
            assert!(found.within(budgets) <= truth + 1e-12);
        }
        let masses = WorkGrid::new(&work, us(5_600), 400).unwrap().masses;
        let rounded = solve(&Queue::new(masses, vec![0.0, 1.0], 400).unwrap()).within(1).value;
        let lost = found.solution.within(1).value - rounded;
        assert!(lost > 0.003, "{lost}");
        // Whatever the budget, the values stay on their lattice, and the answer below the truth.
        let odd = Backlog::stationary(&work, Nanos::new(5_599_999), 1).unwrap();
        assert!(!odd.is_lossless() && odd.step() < us(20) && 100_000 % odd.step().get() == 0);
        assert!(odd.within(1) <= found.solution.within(1).value);
        let fine =
            TimeDistribution::Empirical(Empirical::new(vec![(Nanos::new(1), 1), (us(7_001), 1)]).unwrap());
        assert!(!Backlog::stationary(&fine, us(5_600), 1).unwrap().is_lossless());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        #[test]
        fn more_runtime_and_more_budgets_never_promise_less(
            values in proptest::collection::vec(1i64..30, 2..6), runtime in 16i64..30, more in 1i64..10,
        ) {
            let work = TimeDistribution::Empirical(
                Empirical::new(values.iter().map(|v| (Nanos::from_millis(*v), 1)).collect()).unwrap(),
            );
            prop_assume!(work.mean_ns() < 0.9 * runtime as f64 * 1e6);
            let at = |q: i64, k| bound(&work, Nanos::from_millis(q), 1, k);
            prop_assert!(at(runtime, 1) <= at(runtime + more, 1) + 1e-9);
            prop_assert!(at(runtime, 1) <= at(runtime, 2) + 1e-9);
            prop_assert!(at(runtime, 1) <= played(&work, Nanos::from_millis(runtime), 1, 1, 200_000) + 0.02);
        }
    }
}
