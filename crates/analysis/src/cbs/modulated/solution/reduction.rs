//! [`ModulatedReduction`]: cells and modes as one quasi-birth-death process, solved by logarithmic reduction.
//!
//! A level is `b = max(up, down)` cells, each in every mode, so blocks have `b m` states: `A_up((i, g), (j, g')) = M(g, g') P{X_g = b
//! + j - i}` and so on, as in [`crate::cbs::solver::reduction`], whose doubling it shares. It takes `(b m)^3` operations a step and
//! is the independent twin of [`crate::cbs::modulated::solution::by_modes`].

use crate::cbs::CbsError;
use crate::cbs::modulated::certificate::Step;
use crate::cbs::modulated::queue::ModulatedQueue;
use crate::cbs::modulated::solution::{ModulatedSolution, ModulatedSolver, is_good_enough};
use crate::cbs::solver::reduction::{Levels, descended};
use crate::dense::Matrix;

/// The most states of a level.
const BLOCK_MAX: usize = 512;
/// Cells of a tail at most.
const CELLS_MAX: f64 = (1u64 << 18) as f64;
/// `exp(-REACH)` is what a tail may have left beyond its last cell, tilted half way.
const REACH: f64 = 40.0;

/// The solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModulatedReduction {
    /// The most states of a level that it takes.
    pub block_max: usize,
}

impl Default for ModulatedReduction {
    fn default() -> ModulatedReduction {
        ModulatedReduction { block_max: BLOCK_MAX }
    }
}

impl ModulatedSolver for ModulatedReduction {
    fn name(&self) -> &'static str {
        "log-reduction-with-modes"
    }

    fn theorem(&self) -> &'static str {
        "matrix-geometric solution of a quasi-birth-death process of cells and modes by logarithmic reduction"
    }

    fn source(&self) -> &'static str {
        "Villalba Frias, Palopoli, Abeni and Fontanelli, RTAS 2017; Latouche and Ramaswami 1993; Neuts 1981"
    }

    fn solve(&self, queue: &ModulatedQueue) -> Result<ModulatedSolution, CbsError> {
        let Some(decay) = queue.decay() else {
            return Ok(ModulatedSolution::no_backlog(self, queue));
        };
        let (m, b) = (queue.modes(), queue.up().max(queue.down()).max(1));
        if b * m > self.block_max {
            return Err(CbsError::TooManyCells { points: b * m, limit: self.block_max });
        }
        let wanted = 2.0 * REACH / decay.tilt;
        if wanted > CELLS_MAX {
            return Err(CbsError::TooManyCells {
                points: wanted.min(1e15) as usize,
                limit: CELLS_MAX as usize,
            });
        }
        let levels = levels(queue, b);
        let (entry, steps) = descended(&levels);
        let (rate, mut level) = levels.ladder(&entry);
        let cells = (wanted as usize).max(2 * b + 2).div_ceil(b) * b;
        let mut masses = vec![vec![0.0; cells]; m];
        for from in (0..cells).step_by(b) {
            for (state, mass) in level.iter().enumerate() {
                masses[state % m][from + state / m] = *mass;
            }
            level = rate.after(&level);
        }
        let total: f64 = masses.iter().flatten().sum();
        let step = Step::new(queue, queue.weights(decay.tilt / 2.0), cells);
        let tilted = |mode: &Vec<f64>| {
            let mut above = 0.0;
            let mut tail = vec![0.0; cells];
            for (x, place) in tail.iter_mut().enumerate().rev() {
                *place = above / total * libm::exp(step.at.tilt * x as f64);
                above += mode[x];
            }
            tail
        };
        let tails: Vec<Vec<f64>> = masses.iter().map(tilted).collect();
        let certificate = step.certify(&tails, &mut step.room());
        is_good_enough(&certificate)?;
        Ok(ModulatedSolution::exact(self, queue, &tails, certificate, decay, steps))
    }
}

/// The blocks; the mode is the fastest index, so that state 0 is an empty queue.
fn levels(queue: &ModulatedQueue, b: usize) -> Levels {
    let m = queue.modes();
    let block = |up: i64| {
        Matrix::new(b * m, |from, to| {
            let (i, g, j, next) = (from / m, from % m, to / m, to % m);
            queue.transition(g, next) * queue.walk(g).mass(up * b as i64 + j as i64 - i as i64)
        })
    };
    // P{X_g <= -i}.
    let below: Vec<Vec<f64>> = (0..m)
        .map(|g| {
            let walk = queue.walk(g);
            (0..b).map(|i| walk.steps().filter(|(s, _)| *s <= -(i as i64)).map(|(_, p)| p).sum()).collect()
        })
        .collect();
    let boundary = Matrix::new(b * m, |from, to| {
        let (i, g, j, next) = (from / m, from % m, to / m, to % m);
        let mass = if j == 0 { below[g][i] } else { queue.walk(g).mass(j as i64 - i as i64) };
        queue.transition(g, next) * mass
    });
    Levels { up: block(1), local: block(0), down: block(-1), boundary }
}
