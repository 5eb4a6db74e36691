//! [`Exponential`]: the exponential bound of a backlog, `P{W > x} <= exp(-theta (x + 1))` for whole x.
//!
//! For the steps `X = c - z Q` of a random walk with negative mean and any `theta > 0` with `E[exp(theta X)]
//! <= 1` (Kingman 1964 after Lundberg): the walk's maximum, which is the stationary backlog, exceeds x with
//! at most this probability; on whole numbers to exceed x is to reach x + 1. The largest such theta gives the
//! best bound; [`crate::cbs::walk::Walk::decay`] finds it from below to the last digits. It always holds,
//! whatever the work and the spacing of releases, and costs next to nothing.

use crate::cbs::CbsError;
use crate::cbs::queue::Queue;
use crate::cbs::solver::{Solution, Solver, exponential};

/// The solver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exponential;

impl Solver for Exponential {
    fn name(&self) -> &'static str {
        "exponential"
    }

    fn theorem(&self) -> &'static str {
        "exponential bound of a random walk's maximum"
    }

    fn source(&self) -> &'static str {
        "Lundberg; Kingman, Proc. Cambridge Phil. Soc. 60, 1964"
    }

    fn solve(&self, queue: &Queue) -> Result<Solution, CbsError> {
        Ok(match queue.walk().decay() {
            None => Solution::no_backlog(self, queue),
            Some(theta) => Solution::bound(self, queue, vec![exponential(theta, 0)], Some(theta)),
        })
    }
}
