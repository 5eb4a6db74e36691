//! [`at_most`]: a fraction of jobs that cannot be exceeded, from a grid on the other side.
//!
//! Work is rounded down, budgets are rounded up, and work beyond a high quantile counts as that quantile: every job becomes
//! cheaper and every budget larger, so the fraction in time only grows.

use surety_analysis::cbs::Queue;
use surety_analysis::cbs::solver::{Solver, in_turn};
use surety_analysis::response::{Counting, ServedTask};
use surety_analysis::work::{at_most as part_up_to, maximum};
use surety_model::distribution::TimeDistribution;
use surety_units::Nanos;

/// Work beyond this quantile counts as this quantile.
const QUANTILE: f64 = 0.9999;
/// Cells from the least to the most work, finest first.
const CELLS: [i64; 4] = [400, 200, 100, 50];

/// The fraction within this many budgets worth `worth` each is at most this; 1 where no solver gets there.
pub(super) fn at_most(task: &ServedTask, worth: Nanos, within: u32, solvers: &[&dyn Solver]) -> f64 {
    let between = task.budgets_between();
    let highest = highest(&task.work).max(worth);
    let mut least = 1.0;
    for cells in CELLS {
        // The level of the walk is as wide as the longest job or all budgets between two releases.
        let widest = highest.max(worth * i64::from(between));
        let step = Nanos::new(widest.div_ceil(Nanos::new(cells)).max(1));
        let last = highest.div_floor(step);
        let below = |h: i64| part_up_to(&task.work, step * h - Nanos::new(1));
        let mut masses: Vec<f64> = (0..last).map(|h| (below(h + 1) - below(h)).max(0.0)).collect();
        masses.push((1.0 - masses.iter().sum::<f64>()).max(0.0));
        let Ok(budget) = usize::try_from(worth.div_ceil(step)) else { continue };
        // Overloaded on this grid or empty: it tells nothing.
        let Ok(queue) = Queue::periodic(masses, between, budget) else { continue };
        let solution = in_turn(solvers, &queue);
        if solution.residual().is_none() {
            continue;
        }
        let found = match task.counting() {
            Counting::All { .. } => solution.within(within).value,
            _ => {
                let jobs = part_up_to(&task.work, worth * i64::from(within));
                solution.backlog_at_most(0).value * jobs
            }
        };
        least = f64::min(least, found);
        break;
    }
    least
}

fn highest(work: &TimeDistribution) -> Nanos {
    let quantile = work.quantile(QUANTILE);
    maximum(work).map_or(quantile, |most| most.min(quantile)).max(Nanos::new(1))
}
