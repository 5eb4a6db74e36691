//! [`Queue`]: the queue in front of a constant-bandwidth server in cells of a grid, checked before anything is
//! computed from it.

use crate::cbs::CbsError;
use crate::cbs::walk::{WIDEST, Walk};

/// Masses may miss a total of 1 by this much.
const TOTAL_TOLERANCE: f64 = 1e-9;
/// What is missing up to here is rounding of the sum and spread over all masses.
const ROUNDING: f64 = 1e-12;

/// Work c of a job, z budgets between a release and the next, and the budget Q, all independent.
///
/// `w' = max(0, w + c - z Q)`; a job is done within k budgets when `w + c <= k Q`. To be on the safe side work is
/// rounded up to the grid, budgets and the time between releases down ([`crate::cbs::grid`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    work: Vec<f64>,
    spacing: Vec<f64>,
    budget: usize,
    walk: Walk,
}

impl Queue {
    /// `work[h]`: probability of h cells of work; `spacing[z]`: probability that z whole server periods lie
    /// between a release and the next, 0 for releases in one period; `budget`: Q in cells.
    ///
    /// A total within 10^-9 of 1 is made 1: what is more than rounding against the claim, by adding it to the most
    /// work and the fewest budgets.
    pub fn new(work: Vec<f64>, spacing: Vec<f64>, budget: usize) -> Result<Queue, CbsError> {
        let mut work = distribution(work, "work")?;
        let mut spacing = distribution(spacing, "budgets between releases")?;
        if budget == 0 {
            return Err(CbsError::ZeroBudget);
        }
        // Wide grids are refused before they fill the memory.
        let points = spacing.len().saturating_sub(1).saturating_mul(budget).saturating_add(work.len());
        if points > WIDEST {
            return Err(CbsError::TooManyCells { points, limit: WIDEST });
        }
        complete(&mut work, true);
        complete(&mut spacing, false);
        let mean = |masses: &[f64]| masses.iter().enumerate().map(|(i, p)| i as f64 * p).sum::<f64>();
        let walk = Walk::new(&work, &spacing, budget);
        let (demand, supply) = (mean(&work), mean(&spacing) * budget as f64);
        let stands_still = walk.up() == 0 && walk.down() == 0;
        if (demand >= supply || walk.mean() >= 0.0) && !stands_still {
            return Err(CbsError::Overload { work: demand, budget: supply });
        }
        Ok(Queue { work, spacing, budget, walk })
    }

    /// Releases exactly `z` server periods apart.
    pub fn periodic(work: Vec<f64>, z: u32, budget: usize) -> Result<Queue, CbsError> {
        let mut spacing = vec![0.0; (z as usize).min(WIDEST) + 1];
        *spacing.last_mut().expect("one longer than z") = 1.0;
        Queue::new(work, spacing, budget)
    }

    /// `P{c = h}` cells.
    pub fn work(&self) -> &[f64] {
        &self.work
    }

    /// Q in cells.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// `P{z budgets between releases}`.
    pub fn spacing(&self) -> &[f64] {
        &self.spacing
    }

    /// The steps of the backlog.
    pub fn walk(&self) -> &Walk {
        &self.walk
    }

    /// Mean work over mean budget between releases, below 1.
    pub fn load(&self) -> f64 {
        let mean = |masses: &[f64]| masses.iter().enumerate().map(|(i, p)| i as f64 * p).sum::<f64>();
        mean(&self.work) / (mean(&self.spacing) * self.budget as f64)
    }

    /// The same on a grid `factor` times as coarse, work rounded up; `factor` divides the budget.
    pub fn coarser(&self, factor: usize) -> Result<Queue, CbsError> {
        if factor == 0 || !self.budget.is_multiple_of(factor) {
            return Err(CbsError::ZeroBudget);
        }
        let mut work = vec![0.0; (self.work.len() - 1).div_ceil(factor) + 1];
        for (h, mass) in self.work.iter().enumerate() {
            work[h.div_ceil(factor)] += mass;
        }
        Queue::new(work, self.spacing.clone(), self.budget / factor)
    }
}

/// Refuses what is no distribution, by its number; cuts zeros off the far end.
pub(super) fn distribution(mut masses: Vec<f64>, what: &'static str) -> Result<Vec<f64>, CbsError> {
    if let Some(index) = masses.iter().position(|p| !(p.is_finite() && *p >= 0.0)) {
        return Err(CbsError::Mass { what, index, mass: masses[index] });
    }
    let Some(last) = masses.iter().rposition(|p| *p > 0.0) else {
        return Err(CbsError::Empty { what });
    };
    masses.truncate(last + 1);
    let total: f64 = masses.iter().sum();
    if (total - 1.0).abs() > TOTAL_TOLERANCE {
        return Err(CbsError::Total { what, total });
    }
    Ok(masses)
}

/// Makes the total 1 by changing the end on the safe side.
pub(super) fn complete(masses: &mut [f64], most_is_safe: bool) {
    let mut missing = 1.0 - masses.iter().sum::<f64>();
    if missing.abs() <= ROUNDING {
        let total = 1.0 - missing;
        masses.iter_mut().for_each(|p| *p /= total);
        return;
    }
    let safe = if most_is_safe { masses.len() - 1 } else { 0 };
    if missing >= 0.0 {
        masses[safe] += missing;
        return;
    }
    // Too much: taken from the end that is good for the claim.
    let mut order: Vec<usize> = (0..masses.len()).collect();
    if !most_is_safe {
        order.reverse();
    }
    for place in order {
        let taken = masses[place].min(-missing);
        masses[place] -= taken;
        missing += taken;
        if missing >= 0.0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_queue_is_refused_by_its_number() {
        let one = || vec![0.0, 1.0];
        for (queue, word) in [
            (Queue::new(vec![], one(), 4), "work has no mass"),
            (Queue::new(vec![0.0, 0.0], one(), 4), "work has no mass"),
            (Queue::new(vec![0.5, -0.25, 0.75], one(), 4), "mass 1 of work is -0.25"),
            (Queue::new(vec![0.5, f64::NAN], one(), 4), "mass 1 of work is NaN"),
            (Queue::new(vec![0.5, 0.4], one(), 4), "sum to 0.9"),
            (Queue::new(one(), vec![0.0, 2.0], 4), "budgets between releases sum to 2"),
            (Queue::new(one(), one(), 0), "budget is 0"),
            (Queue::periodic(one(), 0, 4), "mean work of 1.000000 cells is not below the 0.000000"),
            (
                Queue::new(vec![0.0, 0.0, 0.0, 0.0, 0.0, 1.0], one(), 4),
                "5.000000 cells is not below the 4.000000",
            ),
            (Queue::new(vec![0.0, 0.0, 1.0], one(), 2), "the mean work of 2.000000"),
            (Queue::periodic(one(), u32::MAX, 1_000_000), "limit 1048576"),
            (Queue::new(vec![1.0 / (1 << 21) as f64; 1 << 21], one(), 4), "spans 2097156 cells"),
        ] {
            match queue {
                // Work that always equals the budget never waits.
                Ok(queue) => assert_eq!((queue.walk().up(), word), (0, "the mean work of 2.000000")),
                Err(error) => assert!(error.to_string().contains(word), "{error} ({word})"),
            }
        }
    }

    #[test]
    fn a_total_near_one_is_completed_against_the_claim() {
        let queue = Queue::new(vec![0.5, 0.5 - 5e-10], vec![0.0, 1.0], 4).unwrap();
        assert_eq!(queue.work(), [0.5, 0.5]);
        let queue = Queue::new(vec![0.5 + 5e-10, 0.5], vec![0.5, 0.5 + 5e-10], 4).unwrap();
        assert!((queue.work()[1] - 0.5).abs() < 1e-15 && (queue.spacing()[0] - 0.5).abs() < 1e-15);
        let coarse = Queue::periodic(vec![0.25; 4], 1, 4).unwrap().coarser(2).unwrap();
        assert_eq!((coarse.work(), coarse.budget()), ([0.25, 0.5, 0.25].as_slice(), 2));
        assert!((coarse.load() - 0.5).abs() < 1e-15);
    }
}
