//! [`CyclicReduction`] and [`LogReduction`]: the backlog as a quasi-birth-death process, solved by doubling.
//!
//! With levels of `b = max(up, down)` cells a step leads at most one level up or down: the blocks `A_up(i, j) =
//! P{X = b + j - i}`, `A_loc(i, j) = P{X = j - i}`, `A_down(i, j) = P{X = j - i - b}`, and on level 0 what would
//! fall below cell 0 stays in it. From G, the distribution of where the level below is first entered, follow `R =
//! A_up (I - A_loc - A_up G)^-1`, the cells of level 0 as the stationary distribution of `B + R A_down`, and
//! each further level as the one before times R (Neuts, "Matrix-geometric solutions in stochastic models", 1981).
//!
//! Both iterations double the number of levels looked at in each step, so they need some ten steps even near
//! full load. They take `b^3` operations each: [`crate::cbs::solver::wiener_hopf`], which uses that all blocks come
//! from one walk, is far faster on wide levels, and these are its independent twins.

use crate::cbs::CbsError;
use crate::cbs::certificate::{Masses, Tilted};
use crate::cbs::queue::Queue;
use crate::cbs::solver::{ERROR_MAX, Solution, Solver};
use crate::cbs::walk::Walk;
use crate::dense::Matrix;

/// The widest levels.
const BLOCK_MAX: usize = 512;
/// Levels double with each step: this many are more than there are cells.
const STEPS_MAX: u64 = 60;
/// What is left to reach at the end.
const SETTLED: f64 = 1e-15;
/// Cells of backlog beyond which the geometric tail stands.
const HEAD_MAX: f64 = (1u64 << 18) as f64;

/// Cyclic reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CyclicReduction {
    /// The widest level it takes.
    pub block_max: usize,
}

/// Logarithmic reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogReduction {
    /// The widest level it takes.
    pub block_max: usize,
}

impl Default for CyclicReduction {
    fn default() -> CyclicReduction {
        CyclicReduction { block_max: BLOCK_MAX }
    }
}

impl Default for LogReduction {
    fn default() -> LogReduction {
        LogReduction { block_max: BLOCK_MAX }
    }
}

impl Solver for CyclicReduction {
    fn name(&self) -> &'static str {
        "cyclic-reduction"
    }

    fn theorem(&self) -> &'static str {
        "matrix-geometric solution of a quasi-birth-death process by cyclic reduction"
    }

    fn source(&self) -> &'static str {
        "Bini and Meini, SIAM J. Matrix Anal. Appl. 17(4), 1996; Neuts 1981"
    }

    fn solve(&self, queue: &Queue) -> Result<Solution, CbsError> {
        by_levels(self, queue, self.block_max, |levels| {
            let (mut local, mut up, mut down) =
                (levels.local.clone(), levels.up.clone(), levels.down.clone());
            let mut first = levels.local.clone();
            for step in 1..=STEPS_MAX {
                let mut solved = local.identity_less().solve(vec![up.clone(), down.clone()]);
                let (then_down, then_up) = (solved.remove(1), solved.remove(0));
                let there_and_back = up.times(&then_down);
                first.add(&there_and_back);
                local.add(&there_and_back);
                local.add(&down.times(&then_up));
                (up, down) = (up.times(&then_up), down.times(&then_down));
                // What is no number counts as nothing and ends it too; the certificate will say so.
                if up.norm().min(down.norm()) <= SETTLED {
                    return (first.identity_less().solve(vec![levels.down.clone()]).remove(0), step);
                }
            }
            (first.identity_less().solve(vec![levels.down.clone()]).remove(0), STEPS_MAX)
        })
    }
}

impl Solver for LogReduction {
    fn name(&self) -> &'static str {
        "log-reduction"
    }

    fn theorem(&self) -> &'static str {
        "matrix-geometric solution of a quasi-birth-death process by logarithmic reduction"
    }

    fn source(&self) -> &'static str {
        "Latouche and Ramaswami, J. Appl. Prob. 30(3), 1993; Neuts 1981"
    }

    fn solve(&self, queue: &Queue) -> Result<Solution, CbsError> {
        by_levels(self, queue, self.block_max, descended)
    }
}

/// G by logarithmic reduction, and in how many steps.
pub(crate) fn descended(levels: &Levels) -> (Matrix, u64) {
    let mut first = levels.local.identity_less().solve(vec![levels.up.clone(), levels.down.clone()]);
    let (mut low, mut high) = (first.remove(1), first.remove(0));
    let (mut entry, mut still_above) = (low.clone(), high.clone());
    for step in 1..=STEPS_MAX {
        let mut back = high.times(&low);
        back.add(&low.times(&high));
        let mut doubled = back.identity_less().solve(vec![high.times(&high), low.times(&low)]);
        (low, high) = (doubled.remove(1), doubled.remove(0));
        entry.add(&still_above.times(&low));
        still_above = still_above.times(&high);
        if still_above.norm() <= SETTLED || 1.0 - entry.least_row_sum() <= SETTLED {
            return (entry, step);
        }
    }
    (entry, STEPS_MAX)
}

/// The blocks of a quasi-birth-death process.
pub(crate) struct Levels {
    pub(crate) up: Matrix,
    pub(crate) local: Matrix,
    pub(crate) down: Matrix,
    pub(crate) boundary: Matrix,
}

impl Levels {
    fn of(walk: &Walk) -> Levels {
        let b = walk.block();
        let block = |levels: i64| Matrix::new(b, |i, j| walk.mass(levels * b as i64 + j as i64 - i as i64));
        // P{X <= -i}.
        let below: Vec<f64> =
            (0..b).map(|i| walk.steps().filter(|(s, _)| *s <= -(i as i64)).map(|(_, p)| p).sum()).collect();
        let boundary = Matrix::new(b, |i, j| if j == 0 { below[i] } else { walk.mass(j as i64 - i as i64) });
        Levels { up: block(1), local: block(0), down: block(-1), boundary }
    }

    /// R and the cells of level 0, from G.
    pub(crate) fn ladder(&self, entry: &Matrix) -> (Matrix, Vec<f64>) {
        let mut stays = self.up.times(entry);
        stays.add(&self.local);
        // R N = A_up, solved for the transposes.
        let solved = stays.identity_less().transposed().solve(vec![self.up.transposed()]).remove(0);
        let rate = solved.transposed();
        let mut bottom = rate.times(&self.down);
        bottom.add(&self.boundary);
        let level = bottom.stationary();
        (rate, level)
    }
}

/// The backlog from G, which `descend` finds in so many steps.
fn by_levels(
    solver: &dyn Solver,
    queue: &Queue,
    block_max: usize,
    descend: impl Fn(&Levels) -> (Matrix, u64),
) -> Result<Solution, CbsError> {
    let walk = queue.walk();
    let Some(theta) = walk.decay() else {
        return Ok(Solution::no_backlog(solver, queue));
    };
    let block = walk.block();
    if block > block_max {
        return Err(CbsError::TooManyCells { points: block, limit: block_max });
    }
    if theta <= 0.0 {
        return Err(CbsError::NoConvergence { error: f64::INFINITY, limit: ERROR_MAX });
    }
    let levels = Levels::of(walk);
    let (entry, steps) = descend(&levels);
    let (rate, mut level) = levels.ladder(&entry);
    // Far enough for the tail to be geometric and, tilted, next to nothing.
    let cells = (72.0 / theta).min(HEAD_MAX);
    let mut head = Vec::new();
    while (head.len() as f64) < cells || head.len() < 2 * block {
        let next = rate.after(&level);
        head.append(&mut level);
        level = next;
    }
    let points = (head.len() + 2 * (walk.up() + walk.down())).next_power_of_two().max(4);
    let masses = Masses::normalised(head, libm::exp(-theta));
    let certificate = Tilted::new(walk, theta, points).certify(&masses);
    if certificate.error <= ERROR_MAX {
        let mut solution = Solution::exact(solver, queue, &masses, certificate, theta);
        solution.effort = steps;
        return Ok(solution);
    }
    Err(CbsError::NoConvergence { error: certificate.error, limit: ERROR_MAX })
}
