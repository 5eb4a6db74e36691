//! [`ModulatedBacklog`]: the stationary backlog of a task whose work is one distribution of times for each mode.
//!
//! Work is rounded up to a grid of fractions of a budget and budgets down, as [`crate::cbs::backlog`] does; the same grid
//! carries the independent queue of the mixture of all modes, so that both answers differ by the memory alone. Work has to have
//! a largest value in each mode, as measured work has.

use surety_model::distribution::TimeDistribution;
use surety_units::Nanos;

use crate::cbs::CbsError;
use crate::cbs::grid::{Fineness, LAST_CELLS, WorkGrid};
use crate::cbs::modulated::queue::ModulatedQueue;
use crate::cbs::modulated::solution::{ModulatedSolution, solve};
use crate::cbs::queue::Queue;
use crate::cbs::solver::{self, Solution};
use crate::work::maximum;

/// Tails of more cells than this are put on a coarser grid, where there is one.
const WIDE: f64 = (1u64 << 14) as f64;
/// The longest tail that is looked for.
const WIDEST_TAIL: f64 = (1u64 << 15) as f64;
/// Cells that a tail takes for a decay of 1.
const CELLS: f64 = 80.0;

/// Work in modes, and how the modes follow each other.
#[derive(Clone, Debug, PartialEq)]
pub struct ModulatedWork {
    /// CPU time of a job in each mode.
    pub work: Vec<TimeDistribution>,
    /// `transitions[g][g']`: probability that a job in mode g is followed by one in mode g'.
    pub transitions: Vec<Vec<f64>>,
}

impl ModulatedWork {
    /// The largest work of any mode, where all have one.
    pub fn maximum(&self) -> Option<Nanos> {
        self.work.iter().map(maximum).try_fold(Nanos::ZERO, |most, mode| mode.map(|time| most.max(time)))
    }

    /// The queue in front of budgets of `runtime`, each of `cells` cells, and the length of a cell.
    pub fn queue(
        &self,
        runtime: Nanos,
        budgets: u32,
        cells: i64,
    ) -> Result<(ModulatedQueue, Nanos), CbsError> {
        if let Some(mode) = self.work.iter().position(|work| maximum(work).is_none()) {
            return Err(CbsError::UnboundedMode { mode });
        }
        let mut masses = Vec::with_capacity(self.work.len());
        let (mut step, mut budget) = (Nanos::ZERO, 0);
        for work in &self.work {
            let grid = WorkGrid::new(work, runtime, cells)?;
            (step, budget) = (grid.step, grid.budget);
            masses.push(grid.masses);
        }
        Ok((ModulatedQueue::new(masses, &self.transitions, budgets, budget)?, step))
    }
}

/// A stationary backlog by mode, bounded from above, beside the one of independent jobs.
#[derive(Clone, Debug)]
pub struct ModulatedBacklog {
    step: Nanos,
    shares: Vec<f64>,
    /// The queue solved, with who solved it and how well.
    pub solution: ModulatedSolution,
    /// The same jobs in an order without memory, on the same grid.
    pub independent: Solution,
}

impl ModulatedBacklog {
    /// For work served by `budgets` budgets of `runtime` between releases.
    pub fn stationary(
        work: &ModulatedWork,
        runtime: Nanos,
        budgets: u32,
    ) -> Result<ModulatedBacklog, CbsError> {
        ModulatedBacklog::with(work, runtime, budgets, Fineness::Fine, &solve)
    }

    /// The same on a grid of this fineness, solved by this solver.
    pub fn with(
        work: &ModulatedWork,
        runtime: Nanos,
        budgets: u32,
        fineness: Fineness,
        modulated: &dyn Fn(&ModulatedQueue) -> ModulatedSolution,
    ) -> Result<ModulatedBacklog, CbsError> {
        let (queue, step) = on_a_grid(work, runtime, budgets, fineness)?;
        let independent = Queue::periodic(queue.mixture(), budgets, queue.budget())?;
        Ok(ModulatedBacklog {
            step,
            shares: queue.shares().to_vec(),
            solution: modulated(&queue),
            independent: solver::solve(&independent),
        })
    }

    /// Length of a grid cell.
    pub fn step(&self) -> Nanos {
        self.step
    }

    /// The fraction of jobs in each mode.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// Lower bound of the probability that a job is done within this many budgets, `P{w + c <= k Q}`.
    pub fn within(&self, budgets: u32) -> f64 {
        self.solution.within(budgets).at_least
    }

    /// Lower bound of the fraction done within this many budgets from the jobs alone that find no backlog.
    pub fn without_backlog(&self, budgets: u32) -> f64 {
        self.solution.within_without_backlog(budgets).at_least
    }
}

/// The queue on the finest grid on which its tail is not too long to be found.
///
/// Where it is too long on all of the usual ones there are coarser ones, on which work is rounded up further; where it is on
/// these, too, or the work is too much there, the finest is the sharpest for a bound.
fn on_a_grid(
    work: &ModulatedWork,
    runtime: Nanos,
    budgets: u32,
    fineness: Fineness,
) -> Result<(ModulatedQueue, Nanos), CbsError> {
    let usual = fineness.cells(budgets as usize);
    let coarser: Vec<i64> =
        LAST_CELLS.into_iter().filter(|cells| usual.iter().all(|usual| cells < usual)).collect();
    let (mut finest, mut found, mut why) = (None, None, None);
    for (place, cells) in usual.iter().chain(&coarser).enumerate() {
        // What is found is good enough to do without the coarser ones.
        if place >= usual.len() && found.is_some() {
            break;
        }
        match work.queue(runtime, budgets, *cells) {
            Ok((queue, step)) => {
                let tail = queue.decay().map_or(0.0, |decay| CELLS / decay.tilt);
                if tail <= WIDE {
                    return Ok((queue, step));
                }
                let place = if tail <= WIDEST_TAIL { &mut found } else { &mut finest };
                place.get_or_insert((queue, step));
            }
            Err(error) => why = why.or(Some(error)),
        }
    }
    found.or(finest).ok_or_else(|| match why {
        Some(error @ CbsError::Overload { .. }) => {
            overload(work, runtime, budgets, fineness).unwrap_or(error)
        }
        Some(error) => error,
        None => CbsError::NoBudget,
    })
}

/// The overload in times rather than cells.
fn overload(work: &ModulatedWork, runtime: Nanos, budgets: u32, fineness: Fineness) -> Option<CbsError> {
    let cells = fineness.cells(budgets as usize)[0];
    match work.queue(runtime, budgets, cells) {
        Err(CbsError::Overload { work: mean, budget }) => {
            let cell = (runtime / cells).max(Nanos::new(1)).as_millis_f64();
            Some(CbsError::Unstable { mean_ms: mean * cell, budget_ms: budget * cell })
        }
        _ => None,
    }
}
