//! [`Analytic`]: the analytic bound, from a backlog that falls by one unit at a time.
//!
//! Let a step that goes down at all go down by one unit only. The backlog only grows by that, and it is now skip-free
//! downwards, which can be written down. With `a = P{X < 0}` and `alpha_i = P{X = i}/a` the drift of the
//! stationary chain is zero, so
//!
//! ```text
//! P{W = 0} >= pi_0 = 1 - sum_i i alpha_i
//! pi_l = sum_{i < l} pi_i sum_{j >= l - i} alpha_j
//! ```
//!
//! the second from the flow across the cut below l, which gives the longer deadlines (Palopoli, Fontanelli, Abeni and
//! Villalba Frias, IEEE TPDS 27(3), 2016, there for periodic tasks and as a recursion with subtractions). It says
//! nothing (0) where `sum_i i alpha_i >= 1`, and it depends strongly on the unit: with a finer one less falls in
//! each step. So several units that divide the budget are tried, work rounded up to each; every one gives a
//! bound, and the best at each point is taken.

use crate::cbs::CbsError;
use crate::cbs::queue::Queue;
use crate::cbs::solver::{Solution, Solver};

/// Points of the backlog that are kept for one unit.
const POINTS: usize = 4096;

/// The solver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Analytic {
    /// The unit in cells, a divisor of the budget; `None`: the best of all.
    pub unit: Option<usize>,
}

impl Solver for Analytic {
    fn name(&self) -> &'static str {
        "analytic"
    }

    fn theorem(&self) -> &'static str {
        "analytic bound: a backlog that falls by one unit at a time"
    }

    fn source(&self) -> &'static str {
        "Palopoli, Fontanelli, Abeni and Villalba Frias, IEEE TPDS 27(3), 2016"
    }

    fn solve(&self, queue: &Queue) -> Result<Solution, CbsError> {
        let Some(theta) = queue.walk().decay() else {
            return Ok(Solution::no_backlog(self, queue));
        };
        let mut proven = vec![0.0f64; 1];
        let budget = queue.budget();
        let units: Vec<usize> = match self.unit {
            Some(unit) => vec![unit],
            None => (1..=budget).filter(|unit| budget.is_multiple_of(*unit)).collect(),
        };
        let mut refused = None;
        for unit in units {
            match queue.coarser(unit) {
                Ok(coarse) => raise(&mut proven, &skip_free(&coarse), unit),
                // Rounding up to a coarse unit may leave no room: that unit says nothing.
                Err(error) => refused = Some(error),
            }
        }
        if let (Some(_), Some(error)) = (self.unit, refused) {
            return Err(error);
        }
        // A distribution function never falls, and so a bound need not either.
        for x in 0..proven.len() {
            let before = if x == 0 { 0.0 } else { proven[x - 1] };
            proven[x] = proven[x].max(before);
        }
        Ok(Solution::bound(self, queue, proven, Some(theta)))
    }
}

/// Distribution function of the skip-free chain, in the queue's cells; empty where it has none.
fn skip_free(queue: &Queue) -> Vec<f64> {
    let walk = queue.walk();
    let a: f64 = walk.steps().filter(|(step, _)| *step < 0).map(|(_, mass)| mass).sum();
    let up = walk.up();
    if a <= 0.0 {
        return Vec::new();
    }
    // reaching[j] = sum_{i >= j} alpha_i.
    let mut reaching = vec![0.0; up + 2];
    for j in (1..=up).rev() {
        reaching[j] = reaching[j + 1] + walk.mass(j as i64) / a;
    }
    // sum_i i alpha_i is the sum of these.
    let none = 1.0 - reaching[1..].iter().sum::<f64>();
    if none <= 0.0 {
        return Vec::new();
    }
    let mut masses = vec![none];
    let mut at_most = vec![none];
    let points = (POINTS / up.max(1)).clamp(64, POINTS);
    for l in 1..points {
        let from = l.saturating_sub(up);
        let mass: f64 = (from..l).map(|i| masses[i] * reaching[l - i]).sum();
        masses.push(mass);
        at_most.push((at_most[l - 1] + mass).min(1.0));
    }
    at_most
}

/// Takes over what is better; point l of the bound holds from `l unit` cells on.
fn raise(proven: &mut Vec<f64>, bound: &[f64], unit: usize) {
    let reach = (bound.len() * unit).min(POINTS);
    if proven.len() < reach {
        let last = proven.last().copied().unwrap_or(0.0);
        proven.resize(reach, last);
    }
    for (x, p) in proven.iter_mut().enumerate().take(reach) {
        *p = p.max(bound[x / unit]);
    }
}
