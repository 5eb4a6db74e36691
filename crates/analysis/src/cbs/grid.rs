//! [`WorkGrid`]: a distribution of work on a grid of fractions of a budget, never below the truth.
//!
//! The step is `floor(Q / cells)`, so that a budget loses less than one step when it is rounded down to the
//! grid; work is rounded up: cell h holds `P{(h-1) step < c <= h step}`. Families without a maximum are cut
//! where `P{c > x}` is below 1e-12, and what was cut is kept as a [`Tail`] to be accounted for.
//!
//! Work that is a list of values stands on the lattice of their greatest common divisor. Where that of the values and the budget is
//! coarse enough, it is the grid ([`WorkGrid::on_lattice`]), and nothing is rounded: what is solved is the queue itself. Else a part of the
//! values' own divisor is taken, if one is near the step above, and only the budget loses anything.

use surety_model::distribution::TimeDistribution;
use surety_units::{Nanos, common_divisor};

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
/// The most cells of work and of all budgets between two releases on a lattice, and on that of a rough grid.
const LATTICE_MAX: i64 = 1 << 12;
const LATTICE_ROUGH_MAX: i64 = 1 << 8;
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
    /// Whether neither work nor a budget was rounded, nor anything cut.
    pub lossless: bool,
}

impl WorkGrid {
    /// The grid for work served by budgets of `runtime`, each of `cells` cells.
    pub fn new(work: &TimeDistribution, runtime: Nanos, cells: i64) -> Result<WorkGrid, CbsError> {
        if !runtime.is_positive() || cells <= 0 {
            return Err(CbsError::ZeroBudget);
        }
        WorkGrid::with_step(work, runtime, (runtime / cells).max(Nanos::new(1)))
    }

    /// The grid on the lattice of work that is a list of values, for `between` budgets between releases; `None`: there is none, or
    /// it is too fine.
    pub fn on_lattice(
        work: &TimeDistribution,
        runtime: Nanos,
        between: usize,
        fineness: Fineness,
    ) -> Option<WorkGrid> {
        let data = divisor_of(work)?;
        let (most, budgets) = (maximum(work)?, i64::try_from(between).ok()?);
        let widest = match fineness {
            Fineness::Fine => LATTICE_MAX,
            Fineness::Rough => LATTICE_ROUGH_MAX,
        };
        let fits = |step: i64| {
            let cells = most.get() / step + (runtime.get() / step).saturating_mul(budgets);
            cells <= widest && runtime.get() >= step
        };
        let common = common_divisor(data, runtime.get());
        let step = if fits(common) {
            common
        } else {
            // As fine as the first grid that is tried without a lattice, or up to twice that: a finer one takes its time for little.
            let cells = fineness.cells(between).first().copied()?;
            let budget = i128::from(runtime.get().max(1));
            let wanted = i128::from(data) * i128::from(cells);
            if wanted * 2 < budget {
                return None;
            }
            let least = (wanted + budget - 1) / budget;
            let least = i64::try_from(least).ok()?.max(1);
            let parts = (least..=least.saturating_mul(2)).find(|parts| data % parts == 0)?;
            Some(data / parts).filter(|step| fits(*step))?
        };
        let grid = WorkGrid::with_step(work, runtime, Nanos::new(step)).ok()?;
        Some(WorkGrid { lossless: step == common && grid.beyond.probability <= 0.0, ..grid })
    }

    fn with_step(work: &TimeDistribution, runtime: Nanos, step: Nanos) -> Result<WorkGrid, CbsError> {
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
            lossless: false,
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
/// fewer. Distances drawn below `least` count as that.
pub fn budgets_between(
    distance: &TimeDistribution,
    least: Nanos,
    period: Nanos,
) -> Result<Vec<f64>, CbsError> {
    if !period.is_positive() {
        return Err(CbsError::NoBudget);
    }
    let before = |z: i64| {
        let longest = period * z - Nanos::new(1);
        if longest < least { 0.0 } else { at_most(distance, longest) }
    };
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

/// The greatest common divisor of the values of work that is a list of them.
fn divisor_of(work: &TimeDistribution) -> Option<i64> {
    let found = match work {
        TimeDistribution::Constant(value) => value.get(),
        TimeDistribution::Empirical(values) => {
            values.pairs().map(|(value, _)| value.get()).fold(0, common_divisor)
        }
        _ => 0,
    };
    (found > 0).then_some(found)
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
