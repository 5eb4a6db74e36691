//! [`ModulatedSolution`]: what a solver found of a backlog by mode, never given out above what is proven.
//!
//! Beside the certificate of an exact answer stands a bound that needs none. With weights h and `sum_g M(g, g') E[exp(theta X_g)]
//! h_g <= h_g'`, the function `min(P{mode g}, C h_g exp(-theta (x + 1)))`, `C = max_g P{mode g} / h_g`, is nowhere below its own
//! step T, and T is monotone; so it is nowhere below the limit of steps from an empty queue, which is the tail (Kingman's
//! argument for walks, 1964, with modes).

pub mod by_modes;
pub mod reduction;

use crate::cbs::CbsError;
use crate::cbs::modulated::certificate::ModulatedCertificate;
use crate::cbs::modulated::queue::{ModulatedQueue, Weights};
use crate::cbs::modulated::solution::by_modes::ByModes;
use crate::cbs::modulated::solution::reduction::ModulatedReduction;
use crate::cbs::solver::{ERROR_MAX, Fraction, PassedOver, first};

/// Deducted from every lower bound for the rounding of its sums.
const ROUNDING: f64 = 1e-13;
/// States of a level up to which dense reduction is asked: it takes their cube.
const SMALL: usize = 128;

/// A way to find the stationary backlog of a [`ModulatedQueue`].
pub trait ModulatedSolver {
    /// A short name.
    fn name(&self) -> &'static str;
    /// What it rests on.
    fn theorem(&self) -> &'static str;
    /// Where that comes from.
    fn source(&self) -> &'static str;
    /// The answer. Errors: as [`crate::cbs::Solver::solve`].
    fn solve(&self, queue: &ModulatedQueue) -> Result<ModulatedSolution, CbsError>;
}

/// The stationary backlog by mode, or an upper bound of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModulatedSolution {
    /// Who found it.
    pub solver: &'static str,
    /// What it rests on.
    pub theorem: &'static str,
    /// Where that comes from.
    pub source: &'static str,
    /// How far it can be off; `None`: it is a bound of unknown sharpness.
    pub certificate: Option<ModulatedCertificate>,
    /// Decay for each cell with its weights; `None` when there never is a backlog.
    pub decay: Option<Weights>,
    /// Rounds or steps it took.
    pub effort: u64,
    /// Who was asked before.
    pub passed_over: Vec<PassedOver>,
    work: Vec<Vec<f64>>,
    shares: Vec<f64>,
    budget: usize,
    /// `P{w > x, mode}`.
    tails: Vec<Vec<f64>>,
}

/// The exponential bound.
struct Bound;

impl ModulatedSolver for Bound {
    fn name(&self) -> &'static str {
        "exponential-by-modes"
    }

    fn theorem(&self) -> &'static str {
        "exponential bound of a walk modulated by a chain"
    }

    fn source(&self) -> &'static str {
        "Lundberg; Kingman 1964; Asmussen, Applied Probability and Queues, 2003"
    }

    fn solve(&self, queue: &ModulatedQueue) -> Result<ModulatedSolution, CbsError> {
        let Some(decay) = queue.decay() else {
            return Ok(ModulatedSolution::no_backlog(self, queue));
        };
        Ok(ModulatedSolution { decay: Some(decay), ..ModulatedSolution::of(self, queue) })
    }
}

impl ModulatedSolution {
    fn of(solver: &dyn ModulatedSolver, queue: &ModulatedQueue) -> ModulatedSolution {
        ModulatedSolution {
            solver: solver.name(),
            theorem: solver.theorem(),
            source: solver.source(),
            certificate: None,
            decay: None,
            effort: 0,
            passed_over: Vec::new(),
            work: (0..queue.modes()).map(|mode| queue.work(mode).to_vec()).collect(),
            shares: queue.shares().to_vec(),
            budget: queue.budget(),
            tails: vec![Vec::new(); queue.modes()],
        }
    }

    /// No job ever needs more than the budgets before the next release.
    pub(super) fn no_backlog(solver: &dyn ModulatedSolver, queue: &ModulatedQueue) -> ModulatedSolution {
        let at = Weights { tilt: 0.0, weights: vec![1.0; queue.modes()], gap: 1.0 };
        let certificate = Some(ModulatedCertificate { residual: 0.0, error: 0.0, at });
        ModulatedSolution { certificate, ..ModulatedSolution::of(solver, queue) }
    }

    /// From tails tilted by the certificate's tilt.
    pub(super) fn exact(
        solver: &dyn ModulatedSolver,
        queue: &ModulatedQueue,
        tilted: &[Vec<f64>],
        certificate: ModulatedCertificate,
        decay: Weights,
        effort: u64,
    ) -> ModulatedSolution {
        let plain = |tail: &Vec<f64>| {
            tail.iter()
                .enumerate()
                .map(|(x, v)| (v * libm::exp(-certificate.at.tilt * x as f64)).clamp(0.0, 1.0))
                .collect()
        };
        ModulatedSolution {
            tails: tilted.iter().map(plain).collect(),
            certificate: Some(certificate),
            decay: Some(decay),
            effort,
            ..ModulatedSolution::of(solver, queue)
        }
    }

    /// `P{w <= x, mode}`, x in cells.
    pub fn backlog_at_most(&self, mode: usize, cells: usize) -> Fraction {
        let share = self.shares[mode];
        let Some(decay) = &self.decay else {
            return Fraction { value: share, at_least: share };
        };
        let ratio = |g: usize| self.shares[g] / decay.weights[g];
        let most = (0..self.shares.len()).map(ratio).fold(0.0, f64::max);
        let bounded =
            share - most * decay.weights[mode] * libm::exp(-decay.tilt * (cells as f64 + 1.0)) - ROUNDING;
        let bounded = bounded.max(0.0);
        match &self.certificate {
            None => Fraction { value: bounded, at_least: bounded },
            Some(certificate) => {
                let at = &certificate.at;
                let value = share - self.tails[mode].get(cells).copied().unwrap_or(0.0);
                let error = certificate.error * at.weights[mode] * libm::exp(-at.tilt * cells as f64);
                Fraction { value, at_least: (value - error - ROUNDING).max(bounded) }
            }
        }
    }

    /// The probability that a release finds no backlog.
    pub fn none(&self) -> Fraction {
        self.sum(|mode| self.backlog_at_most(mode, 0))
    }

    /// `P{w + c <= k Q}`: the fraction of jobs done within k budgets.
    pub fn within(&self, budgets: u32) -> Fraction {
        self.sum(|mode| self.within_in(mode, budgets))
    }

    /// The fraction of jobs done within k budgets that find no backlog.
    pub fn within_without_backlog(&self, budgets: u32) -> Fraction {
        let reach = self.budget.saturating_mul(budgets as usize);
        self.sum(|mode| {
            let done: f64 = self.work[mode].iter().take(reach.saturating_add(1)).sum();
            let none = self.backlog_at_most(mode, 0);
            Fraction { value: none.value * done, at_least: none.at_least * done }
        })
    }

    /// `P{w + c <= k Q, mode}`.
    pub fn within_in(&self, mode: usize, budgets: u32) -> Fraction {
        let reach = self.budget.saturating_mul(budgets as usize);
        let mut sum = Fraction { value: 0.0, at_least: 0.0 };
        for (h, mass) in self.work[mode].iter().enumerate().take(reach.saturating_add(1)) {
            if *mass > 0.0 {
                let here = self.backlog_at_most(mode, reach - h);
                sum.value += mass * here.value;
                sum.at_least += mass * here.at_least;
            }
        }
        sum
    }

    fn sum(&self, of: impl Fn(usize) -> Fraction) -> Fraction {
        let (mut value, mut at_least) = (0.0, 0.0);
        for mode in 0..self.shares.len() {
            let found = of(mode);
            value += found.value;
            at_least += found.at_least;
        }
        let value = f64::min(value, 1.0);
        let at_least = (at_least - ROUNDING).clamp(0.0, value);
        Fraction { value: if self.certificate.is_none() { at_least } else { value }, at_least }
    }

    /// How it was found, in words.
    pub fn steps(&self) -> Vec<String> {
        let mut steps: Vec<String> =
            self.passed_over.iter().map(|p| format!("{} gave no answer: {}", p.solver, p.because)).collect();
        steps.push(match &self.certificate {
            Some(found) => format!(
                "{} ({}): residual {:.1e}, so the distribution is off by at most {:.1e}",
                self.theorem, self.solver, found.residual, found.error
            ),
            None => format!("{} ({}): a bound, not the value", self.theorem, self.solver),
        });
        steps
    }
}

/// Refuses an answer whose proven error is too large to be given out.
pub(super) fn is_good_enough(certificate: &ModulatedCertificate) -> Result<(), CbsError> {
    if certificate.error <= ERROR_MAX {
        return Ok(());
    }
    Err(CbsError::NoConvergence { error: certificate.error, limit: ERROR_MAX })
}

/// The backlog by mode: exact where one of the solvers gets there, otherwise a bound.
pub fn solve(queue: &ModulatedQueue) -> ModulatedSolution {
    in_turn(&[&ByModes::default(), &ModulatedReduction { block_max: SMALL }], queue)
}

/// The same for a first look: where the quicker solver gives no answer, only a bound.
pub fn solve_roughly(queue: &ModulatedQueue) -> ModulatedSolution {
    in_turn(&[&ByModes::default()], queue)
}

/// Asks these solvers in turn, at last for a bound.
pub fn in_turn(exact: &[&dyn ModulatedSolver], queue: &ModulatedQueue) -> ModulatedSolution {
    let (found, passed_over) = first(exact.iter().map(|solver| (solver.name(), solver.solve(queue))));
    let bound = || Bound.solve(queue).unwrap_or_else(|_| ModulatedSolution::of(&Bound, queue));
    ModulatedSolution { passed_over, ..found.unwrap_or_else(bound) }
}
