//! [`Iteration`]: proven upper bounds of the backlog that sharpen step by step.
//!
//! Let U be any variable that is stochastically at least the stationary backlog W, independent of the work c.
//! Then `max(0, U + c - zQ)` is at least `max(0, W + c - zQ)`, which has W's own distribution: one step of
//! Lindley's recursion makes a bound into another bound. Starting from the exponential bound
//! ([`crate::cbs::solver::exponential`]) and taking at every point the better of the new and the old, the bounds
//! sharpen towards W and every one of them holds; stopping early costs sharpness, never truth. (Starting from
//! an empty queue, as is usual, approaches W from the wrong side.) The same holds point by point, `F(x) =
//! sum_k P{X = k} F(x - k)` with every F replaced by a lower bound of it, so each improved point is used at
//! once. It needs no convergence and so is the last resort of [`crate::cbs::solver::solve`].

use crate::cbs::CbsError;
use crate::cbs::queue::Queue;
use crate::cbs::solver::{Solution, Solver, exponential};

/// Where the exponential bound is below this it is left as it is.
const NEGLIGIBLE: f64 = 1e-9;
/// No more improvement than this at any point ends the iteration.
const SETTLED: f64 = 1e-10;
/// Deducted for the rounding of sums of many products.
const ROUNDING: f64 = 1e-11;

/// The solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// Points of the backlog that are improved; beyond them the exponential bound stands.
    pub points: usize,
    /// Multiplications spent at most, beside eight steps that are always taken.
    pub effort: usize,
}

impl Default for Iteration {
    /// 4096 points, 10^8 multiplications.
    fn default() -> Iteration {
        Iteration { points: 4096, effort: 100_000_000 }
    }
}

impl Solver for Iteration {
    fn name(&self) -> &'static str {
        "iteration"
    }

    fn theorem(&self) -> &'static str {
        "backlog bounded from above, sharpened by steps of its recursion"
    }

    fn source(&self) -> &'static str {
        "Lindley 1952; Kingman 1964"
    }

    fn solve(&self, queue: &Queue) -> Result<Solution, CbsError> {
        Ok(self.bound(queue))
    }
}

impl Iteration {
    /// The bound; there always is one.
    pub fn bound(&self, queue: &Queue) -> Solution {
        let walk = queue.walk();
        let Some(theta) = walk.decay() else {
            return Solution::no_backlog(self, queue);
        };
        let down = walk.down();
        let enough = (-libm::log(NEGLIGIBLE) / theta.max(1e-12)).min(self.points as f64);
        let points = (enough as usize).max(1);
        // A step looks `down` points beyond the last one that it improves.
        let mut now: Vec<f64> = (0..points + down).map(|x| exponential(theta, x)).collect();
        // Terms too small to matter are left out, which only weakens the bound.
        let reversed: Vec<f64> = {
            let mut masses: Vec<f64> =
                walk.steps().map(|(_, mass)| if mass > 1e-17 { mass } else { 0.0 }).collect();
            masses.reverse();
            masses
        };
        let steps = (self.effort / (points * reversed.len()).max(1)).clamp(8, 20_000);
        let mut taken = 0;
        for _ in 0..steps {
            taken += 1;
            if step(&mut now, &reversed, points, down) < SETTLED {
                break;
            }
        }
        // A distribution function never falls, so neither need a bound of it.
        for x in 1..now.len() {
            now[x] = now[x].max(now[x - 1]);
        }
        let mut solution = Solution::bound(self, queue, now, Some(theta));
        solution.effort = taken;
        solution
    }
}

/// Improves every point once; the largest improvement.
fn step(now: &mut [f64], reversed: &[f64], points: usize, down: usize) -> f64 {
    let width = reversed.len();
    let mut improvement = 0.0f64;
    for x in 0..points {
        // `P{X = up}` meets F(x - up), ..., `P{X = -down}` meets F(x + down); below 0 there is nothing.
        let reach = x + down;
        let outside = width.saturating_sub(reach + 1);
        let from = reach + 1 + outside - width;
        let found = (dot(&reversed[outside..], &now[from..=reach]) - ROUNDING).min(1.0);
        if found > now[x] {
            improvement = improvement.max(found - now[x]);
            now[x] = found;
        }
    }
    improvement
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
