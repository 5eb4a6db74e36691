//! [`Backlog`]: proven upper bounds of the stationary backlog of a task that queues what it cannot do in
//! time.
//!
//! Let U be any variable that is stochastically at least the stationary backlog W, independent of the work c.
//! Then `max(0, U + c - zQ)` is at least `max(0, W + c - zQ)`, which has W's own distribution: one step of
//! Lindley's recursion makes a bound into another bound. Starting from the exponential bound
//! ([`crate::cbs::exponential`]) and taking at every point the better of the new and the old, the bounds
//! sharpen towards W and every one of them holds; stopping early costs sharpness, never truth. (Starting from
//! an empty queue, as is usual, approaches W from the wrong side.) The same holds point by point, `F(x) =
//! sum_c p(c) F(x + zQ - c)` with every F replaced by a lower bound of it, so each improved point is used at
//! once.
//!
//! Work that was cut off the grid: let E be the jobs beyond the cut, of probability e and partial mean m, and
//! replace their work by none. Backlogs differ from such a job until the full queue is next empty, by Wald's
//! identity at most `(m/e + E[W] + zQ) / (zQ - E[c])` jobs later on average, and `E[W] <= Var(c) / (2 (zQ -
//! E[c]))` (Kingman 1962). So at most the fraction `e + (m + e (E[W] + zQ)) / (zQ - E[c])` of jobs is
//! affected, and that is deducted.

use crate::cbs::CbsError;
use crate::cbs::exponential::decay;
use crate::cbs::grid::{CELLS, WorkGrid};
use surety_model::distribution::TimeDistribution;
use surety_units::Nanos;

/// Points of the backlog that are kept; beyond them the exponential bound stands.
const POINTS: usize = 4096;
/// Where the exponential bound is below this it is left as it is.
const NEGLIGIBLE: f64 = 1e-9;
/// No more improvement than this at any point ends the iteration.
const SETTLED: f64 = 1e-10;
/// Multiplications spent at most on one bound, and on one step of it before a coarser grid is taken.
const EFFORT: usize = 100_000_000;
const EFFORT_OF_A_STEP: usize = 2_000_000;
/// Deducted for the rounding of sums of up to 2^15 products.
const ROUNDING: f64 = 1e-11;

/// A stationary backlog, bounded from above.
#[derive(Clone, Debug)]
pub struct Backlog {
    grid: WorkGrid,
    /// Cells of budget between releases.
    served: usize,
    /// `at_most[x]`: a lower bound of `P{W <= x}`.
    at_most: Vec<f64>,
    /// Decay of the exponential bound per cell; `None` when there never is a backlog.
    pub decay: Option<f64>,
    /// Steps of the recursion taken.
    pub iterations: u32,
    /// Improvement of the last step: how far the bound may still be above the truth, roughly.
    pub residual: f64,
    /// Deducted for work beyond the grid and for rounding.
    pub deducted: f64,
}

impl Backlog {
    /// The bound for work served by `budgets` budgets of `runtime` between releases.
    pub fn stationary(work: &TimeDistribution, runtime: Nanos, budgets: u32) -> Result<Backlog, CbsError> {
        let mut coarsest = Err(CbsError::NoBudget);
        for cells in CELLS {
            coarsest =
                WorkGrid::new(work, runtime, cells).and_then(|grid| Backlog::exponential(grid, budgets));
            if coarsest.as_ref().is_ok_and(|b| b.effort_of_a_step() <= EFFORT_OF_A_STEP) {
                break;
            }
        }
        coarsest.map(Backlog::sharpened)
    }

    /// The exponential bound, nothing sharpened.
    fn exponential(grid: WorkGrid, budgets: u32) -> Result<Backlog, CbsError> {
        if budgets == 0 {
            return Err(CbsError::NoBudget);
        }
        let served = grid.budget * budgets as usize;
        let served_ns = served as f64 * grid.step.get() as f64;
        let slack_ns = served_ns - grid.mean;
        if grid.mean_cells() >= served as f64 || slack_ns <= 0.0 {
            return Err(CbsError::Unstable {
                mean_ms: grid.mean_cells() * grid.step.as_millis_f64(),
                budget_ms: served_ns / 1e6,
            });
        }
        let mean_backlog = grid.variance / (2.0 * slack_ns);
        let beyond = grid.beyond;
        let affected = if beyond.probability > 0.0 {
            beyond.probability
                + (beyond.partial_mean + beyond.probability * (mean_backlog + served_ns)) / slack_ns
        } else {
            0.0
        };
        let decay = decay(&grid.masses, served);
        let at_most = match decay {
            None => vec![1.0],
            Some(theta) => {
                let enough = (-libm::log(NEGLIGIBLE) / theta.max(1e-12)).min(POINTS as f64);
                // A step looks `served` points beyond the last one that it improves.
                let points = (enough as usize).max(1) + served;
                (0..=points).map(|x| -libm::expm1(-theta * (x as f64 + 1.0))).collect()
            }
        };
        Ok(Backlog {
            grid,
            served,
            at_most,
            decay,
            iterations: 0,
            residual: 0.0,
            deducted: affected + ROUNDING,
        })
    }

    /// Points that are improved.
    fn points(&self) -> usize {
        self.at_most.len().saturating_sub(self.served + 1)
    }

    fn effort_of_a_step(&self) -> usize {
        self.points() * self.grid.masses.len()
    }

    fn sharpened(mut self) -> Backlog {
        let points = self.points();
        let served = self.served;
        // Terms too small to matter are left out at both ends, which only weakens the bound.
        let matters = |p: &f64| *p > 1e-17;
        let first = self.grid.masses.iter().position(matters).unwrap_or(0);
        let last = self.grid.masses.iter().rposition(matters).unwrap_or(0);
        let reversed: Vec<f64> = self.grid.masses[first..=last].iter().rev().copied().collect();
        let rest = self.grid.cut();
        let steps = (EFFORT / (points * reversed.len()).max(1)).clamp(8, 20_000);
        let now = &mut self.at_most;
        for _ in 0..steps {
            let mut improvement = 0.0f64;
            for x in 0..points {
                let reach = x + served;
                // p(last) meets F(reach - last), ..., p(first) meets F(reach - first); below 0 there is
                // nothing.
                let outside = last.saturating_sub(reach).min(reversed.len());
                let from = (reach + outside).saturating_sub(last);
                let count = reversed.len() - outside;
                let sum = dot(&reversed[outside..], &now[from..from + count]);
                let found = (sum + rest * now[reach] - ROUNDING).min(1.0);
                if found > now[x] {
                    improvement = improvement.max(found - now[x]);
                    now[x] = found;
                }
            }
            self.iterations += 1;
            self.residual = improvement;
            if improvement < SETTLED {
                break;
            }
        }
        // A distribution function never falls, so neither need a bound of it.
        for x in 1..now.len() {
            now[x] = now[x].max(now[x - 1]);
        }
        self
    }

    /// Length of a grid cell.
    pub fn step(&self) -> Nanos {
        self.grid.step
    }

    /// Lower bound of the probability that a release finds no backlog.
    pub fn none(&self) -> f64 {
        (self.at_most[0] - self.deducted).max(0.0)
    }

    /// Lower bound of the probability that a job is done within this many budgets, `P{w + c <= k Q}`.
    pub fn within(&self, budgets: u32) -> f64 {
        let reach = self.grid.budget * budgets as usize;
        let last = self.at_most.len() - 1;
        let rest = self.grid.cut();
        let sum: f64 = (self.grid.masses.iter().take(reach + 1))
            .enumerate()
            .map(|(h, p)| p * self.at_most[(reach - h).min(last)])
            .sum();
        (sum + rest * self.at_most[reach.min(last)] - self.deducted).clamp(0.0, 1.0)
    }
}

/// A sum of products in four independent chains, which a processor works on at the same time.
fn dot(left: &[f64], right: &[f64]) -> f64 {
    let (left4, left_rest) = left.as_chunks::<4>();
    let (right4, right_rest) = right.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (l, r) in left4.iter().zip(right4) {
        for lane in 0..4 {
            sums[lane] += l[lane] * r[lane];
        }
    }
    let rest: f64 = left_rest.iter().zip(right_rest).map(|(l, r)| l * r).sum();
    sums[0] + sums[1] + (sums[2] + sums[3]) + rest
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
