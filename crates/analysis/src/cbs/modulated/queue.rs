//! [`ModulatedQueue`]: a queue whose work depends on a mode, in cells of a grid, checked before anything is computed from it.

use crate::cbs::CbsError;
use crate::cbs::queue::{complete, distribution};
use crate::cbs::walk::{WIDEST, Walk};
use crate::dense::Matrix;

/// The most modes.
pub const MODES_MAX: usize = 16;
/// Doublings of a power of the matrix: more than its slowest mode can need.
const SQUARINGS: u32 = 64;
/// Halvings on the way to the decay.
const HALVINGS: u32 = 80;
/// Ratios are taken to be below 1 when they are by this much.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// Work in each mode, how modes follow each other, and the budgets between releases.
#[derive(Clone, Debug, PartialEq)]
pub struct ModulatedQueue {
    work: Vec<Vec<f64>>,
    transitions: Vec<f64>,
    shares: Vec<f64>,
    walks: Vec<Walk>,
    between: u32,
    budget: usize,
}

/// A tilt with the vector that proves it: `sum_g M(g, g') E[exp(tilt X_g)] weights_g <= (1 - gap) weights_g'`.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// Per cell.
    pub tilt: f64,
    /// One for each mode, positive, the largest 1.
    pub weights: Vec<f64>,
    /// Not negative where the tilt is proven.
    pub gap: f64,
}

impl ModulatedQueue {
    /// `work[g][h]`: probability of h cells of work in mode g; `transitions[g][g']`: probability that a job in mode g is
    /// followed by one in mode g'; `between` budgets of `budget` cells between releases.
    ///
    /// Every mode has to be reached from every other one.
    pub fn new(
        work: Vec<Vec<f64>>,
        transitions: &[Vec<f64>],
        between: u32,
        budget: usize,
    ) -> Result<ModulatedQueue, CbsError> {
        let m = work.len();
        if m == 0 {
            return Err(CbsError::Empty { what: "modes" });
        }
        if m > MODES_MAX {
            return Err(CbsError::TooManyCells { points: m, limit: MODES_MAX });
        }
        if budget == 0 {
            return Err(CbsError::ZeroBudget);
        }
        if between == 0 {
            return Err(CbsError::NoBudget);
        }
        if transitions.len() != m || transitions.iter().any(|row| row.len() != m) {
            return Err(CbsError::Transitions {
                modes: m,
                why: "there is one row and one column for each mode",
            });
        }
        let mut rows = Vec::with_capacity(m * m);
        for row in transitions {
            let mut row = row.clone();
            // Zeros at the end are cut off by the check.
            let mut checked = distribution(std::mem::take(&mut row), "transitions")?;
            checked.resize(m, 0.0);
            let total: f64 = checked.iter().sum();
            rows.extend(checked.iter().map(|p| p / total));
        }
        if !is_irreducible(&rows, m) {
            return Err(CbsError::Transitions {
                modes: m,
                why: "every mode has to be reached from every other one",
            });
        }
        let mut checked = Vec::with_capacity(m);
        for masses in work {
            let mut masses = distribution(masses, "work")?;
            complete(&mut masses, true);
            checked.push(masses);
        }
        let points = (between as usize)
            .saturating_mul(budget)
            .saturating_add(checked.iter().map(Vec::len).max().unwrap_or(0));
        if points > WIDEST {
            return Err(CbsError::TooManyCells { points, limit: WIDEST });
        }
        let mut spacing = vec![0.0; between as usize + 1];
        spacing[between as usize] = 1.0;
        let walks: Vec<Walk> = checked.iter().map(|work| Walk::new(work, &spacing, budget)).collect();
        let shares = Matrix::new(m, |from, to| rows[from * m + to]).stationary();
        let queue = ModulatedQueue { work: checked, transitions: rows, shares, walks, between, budget };
        let stands_still = queue.walks.iter().all(|walk| walk.up() == 0) && queue.drift() <= 0.0;
        if queue.drift() >= 0.0 && !stands_still {
            let supply = queue.supply() as f64;
            return Err(CbsError::Overload { work: queue.drift() + supply, budget: supply });
        }
        Ok(queue)
    }

    /// How many modes.
    pub fn modes(&self) -> usize {
        self.work.len()
    }

    /// `P{c = h}` cells in a mode.
    pub fn work(&self, mode: usize) -> &[f64] {
        &self.work[mode]
    }

    /// `P{next mode | mode}`.
    pub fn transition(&self, from: usize, to: usize) -> f64 {
        self.transitions[from * self.modes() + to]
    }

    /// The fraction of jobs in each mode, in the long run.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// The steps of the backlog in a mode.
    pub fn walk(&self, mode: usize) -> &Walk {
        &self.walks[mode]
    }

    /// Q in cells.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Budgets between releases.
    pub fn between(&self) -> u32 {
        self.between
    }

    /// Cells served between releases.
    pub fn supply(&self) -> usize {
        self.budget * self.between as usize
    }

    /// The longest step up of any mode.
    pub fn up(&self) -> usize {
        self.walks.iter().map(Walk::up).max().unwrap_or(0)
    }

    /// The longest step down of any mode.
    pub fn down(&self) -> usize {
        self.walks.iter().map(Walk::down).max().unwrap_or(0)
    }

    /// The mean step in the long run, in cells.
    pub fn drift(&self) -> f64 {
        self.walks.iter().zip(&self.shares).map(|(walk, share)| share * walk.mean()).sum()
    }

    /// Mean work over the budgets between releases.
    pub fn load(&self) -> f64 {
        1.0 + self.drift() / self.supply() as f64
    }

    /// The mixture of all modes: the work of a job of which nothing is known, as if jobs were independent.
    pub fn mixture(&self) -> Vec<f64> {
        let len = self.work.iter().map(Vec::len).max().unwrap_or(0);
        let mut masses = vec![0.0; len];
        for (work, share) in self.work.iter().zip(&self.shares) {
            masses.iter_mut().zip(work).for_each(|(sum, p)| *sum += share * p);
        }
        masses
    }

    /// Weights and gap at a tilt.
    ///
    /// Whatever the weights, `max_g' (sum_g M(g, g') E[exp(tilt X_g)] weights_g) / weights_g'` bounds the growth (Collatz
    /// 1942); the vector of Perron and Frobenius makes it the growth itself.
    pub fn weights(&self, tilt: f64) -> Weights {
        let m = self.modes();
        let growth: Vec<f64> = self.walks.iter().map(|walk| 1.0 + walk.growth(tilt)).collect();
        let step = Matrix::new(m, |to, from| self.transition(from, to) * growth[from]);
        let unproven = || Weights { tilt, weights: vec![1.0; m], gap: f64::NEG_INFINITY };
        // With the identity added, powers settle even where modes take turns.
        let mut power = step.clone();
        power.add(&Matrix::new(m, |i, j| f64::from(i == j)));
        for _ in 0..SQUARINGS {
            let norm = power.norm();
            if !(norm.is_finite() && norm > 0.0) {
                return unproven();
            }
            power.scale(1.0 / norm);
            power = power.times(&power);
        }
        let mut weights: Vec<f64> = (0..m).map(|row| power.row(row).iter().sum()).collect();
        let most = weights.iter().fold(0.0, |a: f64, b| a.max(*b));
        weights.iter_mut().for_each(|w| *w /= most);
        if weights.iter().any(|w| !(w.is_finite() && *w > f64::MIN_POSITIVE)) {
            return unproven();
        }
        let ratio =
            |to: usize| step.row(to).iter().zip(&weights).map(|(a, w)| a * w).sum::<f64>() / weights[to];
        let largest = (0..m).map(ratio).fold(0.0, f64::max);
        Weights { tilt, weights, gap: 1.0 - largest - ROUNDING }
    }

    /// The largest proven tilt at which nothing grows: backlogs decay by `exp(-tilt)` for each cell. `None` when no step of
    /// any mode leads up, so that there never is a backlog.
    pub fn decay(&self) -> Option<Weights> {
        if self.up() == 0 {
            return None;
        }
        let holds = |tilt: f64| self.weights(tilt).gap >= 0.0;
        let mut low = 0.0;
        let mut high = 1.0 / (self.up() + self.down()) as f64;
        while holds(high) && high < 700.0 {
            low = high;
            high *= 2.0;
        }
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if holds(middle) {
                low = middle;
            } else {
                high = middle;
            }
            if high - low <= 1e-14 * high {
                break;
            }
        }
        Some(if low > 0.0 { self.weights(low) } else { Weights { gap: 0.0, ..self.weights(0.0) } })
    }
}

fn is_irreducible(rows: &[f64], m: usize) -> bool {
    let reached = |forward: bool| {
        let mut seen = vec![false; m];
        let mut open = vec![0];
        while let Some(here) = open.pop() {
            if std::mem::replace(&mut seen[here], true) {
                continue;
            }
            let leads = |to: &usize| rows[if forward { here * m + to } else { to * m + here }] > 0.0;
            open.extend((0..m).filter(leads));
        }
        seen.into_iter().all(|s| s)
    };
    reached(true) && reached(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_modulated_queue_is_refused_in_words() {
        let one = || vec![0.0, 1.0];
        let stay = || vec![vec![0.5, 0.5], vec![0.5, 0.5]];
        for (work, transitions, between, budget, word) in [
            (vec![], vec![], 1, 4, "modes has no mass"),
            (vec![one(), one()], vec![vec![1.0]], 1, 4, "one row and one column"),
            (vec![one(), one()], vec![vec![1.0, 0.0], vec![0.5, 0.5]], 1, 4, "reached from every other"),
            (vec![one(), one()], vec![vec![0.7, 0.7], vec![0.5, 0.5]], 1, 4, "transitions sum to 1.4"),
            (vec![one(), vec![0.5]], stay(), 1, 4, "work sum to 0.5"),
            (vec![one(), one()], stay(), 0, 4, "closer together"),
            (vec![one(), one()], stay(), 1, 0, "budget is 0"),
            (vec![one(), vec![0.0, 0.0, 0.0, 1.0]], stay(), 1, 2, "2.000000 cells is not below the 2.000000"),
        ] {
            let error = ModulatedQueue::new(work, &transitions, between, budget).unwrap_err();
            assert!(error.to_string().contains(word), "{error} ({word})");
        }
    }

    #[test]
    fn one_mode_decays_as_a_walk_does_and_the_weights_prove_it() {
        let work = vec![0.7, 0.0, 0.3];
        let queue = ModulatedQueue::new(vec![work.clone()], &[vec![1.0]], 1, 1).unwrap();
        let theta = Walk::new(&work, &[0.0, 1.0], 1).decay().unwrap();
        let found = queue.decay().unwrap();
        assert!((found.tilt - theta).abs() < 1e-9, "{} {theta}", found.tilt);
        assert!(found.gap >= 0.0 && queue.weights(theta / 2.0).gap > 0.01);
        // Modes that take turns: work 2, then 0, of 1.5: never more than one job waits half a budget.
        let turns = vec![vec![0.0, 1.0], vec![1.0, 0.0]];
        let queue =
            ModulatedQueue::new(vec![vec![0.0, 0.0, 0.0, 0.0, 1.0], vec![1.0]], &turns, 1, 3).unwrap();
        let found = queue.decay().unwrap();
        assert!(found.tilt > 10.0, "nothing exceeds one cell: {}", found.tilt);
        assert!(ModulatedQueue::new(vec![one(), one()], &turns, 1, 4).unwrap().decay().is_none());
    }

    fn one() -> Vec<f64> {
        vec![0.0, 1.0]
    }
}
