//! [`WorkGrid`]: a distribution of work on a grid of fractions of a budget, never below the truth.
//!
//! The step is `floor(Q / cells)`, so that a budget loses less than one step when it is rounded down to the
//! grid; work is rounded up: cell h holds `P{(h-1) step < c <= h step}`. Families without a maximum are cut
//! where `P{c > x}` is below 1e-12, and what was cut is kept as a [`Tail`] to be accounted for.

use surety_model::distribution::TimeDistribution;
use surety_units::Nanos;

use crate::cbs::CbsError;
use crate::work::{Tail, at_most, maximum, mean, tail, variance_at_most};

/// How fine a grid is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fineness {
    /// For what is given out.
    Fine,
    /// For a first look: as safe, a few percent further from the truth, many times faster.
    Rough,
}

/// Cells of all budgets between two releases, finest first; coarser ones are for work spread over many budgets.
const CELLS: [i64; 4] = [400, 200, 100, 50];
/// One budget has at least this many.
const CELLS_OF_ONE: i64 = 32;
/// The same of a rough grid.
const ROUGH: (i64, i64) = (64, 2);

impl Fineness {
    /// The numbers of cells of one budget to try, with this many budgets between releases.
    pub fn cells(self, between: usize) -> Vec<i64> {
        let between = i64::try_from(between).unwrap_or(i64::MAX).max(1);
        match self {
            Fineness::Fine => CELLS.iter().map(|all| (all / between).max(CELLS_OF_ONE)).collect(),
            Fineness::Rough => vec![(ROUGH.0 / between).max(ROUGH.1)],
        }
    }
}
/// Cells of one budget where the tail of a backlog is too long for all of these, finest first.
pub(super) const LAST_CELLS: [i64; 4] = [32, 16, 8, 4];
/// The most cells of work.
const WIDEST: i64 = 1 << 15;
/// The most budgets between two releases that are told apart.
pub const SPACING_MAX: i64 = 128;
/// Unbounded work is cut at this tail.
const CUT: f64 = 1e-12;

/// Work in cells, budgets in cells, and what was cut off.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkGrid {
    /// Length of a cell.
    pub step: Nanos,
    /// A budget in cells, rounded down.
    pub budget: usize,
    /// `masses[h]`: probability of work in cell h; sums to one minus the tail.
    pub masses: Vec<f64>,
    /// What lies beyond the last cell.
    pub beyond: Tail,
    /// Mean of the work in ns, nothing rounded, nothing cut.
    pub mean: f64,
    /// Upper bound of the variance in ns².
    pub variance: f64,
}

impl WorkGrid {
    /// The grid for work served by budgets of `runtime`, each of `cells` cells.
    pub fn new(work: &TimeDistribution, runtime: Nanos, cells: i64) -> Result<WorkGrid, CbsError> {
        if !runtime.is_positive() || cells <= 0 {
            return Err(CbsError::ZeroBudget);
        }
        let step = (runtime / cells).max(Nanos::new(1));
        let highest = match maximum(work) {
            Some(most) => most,
            None => cut_point(work, runtime),
        };
        let last = highest.div_ceil(step).max(0);
        if last > WIDEST {
            return Err(CbsError::TooWide { times: highest.get() as f64 / runtime.get() as f64 });
        }
        let mut below = 0.0;
        let mut difference = |here: f64| {
            let mass = (here - below).max(0.0);
            below = here;
            mass
        };
        let masses = match work {
            TimeDistribution::Empirical(samples) => {
                let total = samples.total() as f64;
                let (mut pairs, mut counted) = (samples.pairs().peekable(), 0);
                (0..=last)
                    .map(|h| {
                        while let Some((_, count)) = pairs.next_if(|(value, _)| *value <= step * h) {
                            counted += count;
                        }
                        difference(counted as f64 / total)
                    })
                    .collect()
            }
            _ => (0..=last).map(|h| difference(at_most(work, step * h))).collect(),
        };
        let budget = usize::try_from(runtime.div_floor(step)).expect("a runtime is positive");
        Ok(WorkGrid {
            step,
            budget,
            masses,
            beyond: tail(work, step * last),
            mean: mean(work),
            variance: variance_at_most(work),
        })
    }

    /// Mean in cells of what is on the grid.
    pub fn mean_cells(&self) -> f64 {
        self.masses.iter().enumerate().map(|(h, p)| h as f64 * p).sum()
    }

    /// Probability of work beyond the grid.
    pub fn cut(&self) -> f64 {
        (1.0 - self.masses.iter().sum::<f64>()).max(0.0)
    }
}

/// The probabilities of z whole server periods between a release and the next, for z = 0, 1, ...
///
/// `z = floor(t / T)`; what would be more than [`SPACING_MAX`] periods, or has next to no probability, counts as
/// fewer.
pub fn budgets_between(distance: &TimeDistribution, period: Nanos) -> Result<Vec<f64>, CbsError> {
    if !period.is_positive() {
        return Err(CbsError::NoBudget);
    }
    let before = |z: i64| at_most(distance, period * z - Nanos::new(1));
    let mut spacing = Vec::new();
    let mut below = 0.0;
    for z in 0..=SPACING_MAX {
        let to_next = before(z + 1);
        if z == SPACING_MAX || 1.0 - to_next <= CUT {
            spacing.push(1.0 - below);
            break;
        }
        spacing.push((to_next - below).max(0.0));
        below = to_next;
    }
    Ok(spacing)
}

/// The first doubling of the runtime, then a bisection in it, beyond which next to nothing lies.
fn cut_point(work: &TimeDistribution, runtime: Nanos) -> Nanos {
    let beyond = |x: Nanos| tail(work, x).probability > CUT;
    let mut high = runtime.max(Nanos::new(1));
    while beyond(high) && high.get() < i64::MAX / 4 {
        high = high * 2;
    }
    let mut low = high / 2;
    for _ in 0..20 {
        let middle = low + (high - low) / 2;
        if beyond(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_and_nothing_becomes_cheaper() {
        let ms = Nanos::from_millis;
        for work in [
            TimeDistribution::Constant(ms(14)),
            TimeDistribution::Uniform { low: ms(5), high: ms(20) },
            TimeDistribution::LogNormal { mean: ms(14), p99: ms(22) },
            TimeDistribution::Exponential { mean: ms(6) },
            TimeDistribution::Normal { mean: ms(2), std_dev: ms(3) },
        ] {
            let grid = WorkGrid::new(&work, Nanos::new(26_500_123), 400).unwrap();
            let total: f64 = grid.masses.iter().sum::<f64>() + grid.beyond.probability;
            assert!((total - 1.0).abs() < 1e-9, "{work:?}: {total}");
            assert!(grid.beyond.probability <= CUT);
            let mean = grid.mean_cells() * grid.step.get() as f64;
            assert!(mean + grid.beyond.partial_mean >= grid.mean - 1.0, "{work:?}: {mean} {}", grid.mean);
            assert!(mean <= grid.mean + grid.step.get() as f64 + 1.0);
            assert!(grid.budget as i64 * grid.step.get() <= 26_500_123);
        }
    }

    #[test]
    fn work_far_beyond_the_budget_is_refused() {
        let work = TimeDistribution::Constant(Nanos::from_secs(1));
        let error = WorkGrid::new(&work, Nanos::from_millis(1), 50).unwrap_err();
        assert!(error.to_string().contains("1000 budgets"), "{error}");
    }
}
