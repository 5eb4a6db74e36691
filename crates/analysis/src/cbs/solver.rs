//! [`Solver`]: what finds a stationary backlog, or bounds it; [`solve`] asks the exact ones in turn.
//!
//! An exact answer ships with the residual of its own equation, an error that is proven from it
//! ([`crate::cbs::certificate`]), and a lower bound below it. A solver that does not get there says by how
//! much, and the next one is asked; the last resort is a bound that always holds, never a guess.

pub mod analytic;
pub mod exponential;
pub mod iteration;
pub mod reduction;
pub mod wiener_hopf;

use crate::cbs::CbsError;
use crate::cbs::certificate::{Certificate, Masses};
use crate::cbs::queue::Queue;
use crate::cbs::solver::analytic::Analytic;
use crate::cbs::solver::exponential::Exponential;
use crate::cbs::solver::iteration::Iteration;
use crate::cbs::solver::reduction::{CyclicReduction, LogReduction};
use crate::cbs::solver::wiener_hopf::WienerHopf;

/// An exact answer is taken up to this proven error.
pub const ERROR_MAX: f64 = 1e-6;
/// Deducted from every lower bound for the rounding of its sums.
const ROUNDING: f64 = 1e-13;

/// A way to find or bound the stationary backlog of a [`Queue`].
pub trait Solver {
    /// A short name, as `wiener-hopf`.
    fn name(&self) -> &'static str;
    /// What it rests on.
    fn theorem(&self) -> &'static str;
    /// Where that comes from.
    fn source(&self) -> &'static str;
    /// The answer. Errors: [`CbsError::NoConvergence`] with how far it got, [`CbsError::TooManyCells`] when the
    /// instance is larger than the solver takes.
    fn solve(&self, queue: &Queue) -> Result<Solution, CbsError>;
}

/// The most points for a first look.
const POINTS_ROUGH: usize = 1 << 16;

/// Every solver, exact ones first.
pub fn solvers() -> Vec<Box<dyn Solver>> {
    vec![
        Box::new(WienerHopf::default()),
        Box::new(CyclicReduction::default()),
        Box::new(LogReduction::default()),
        Box::new(Iteration::default()),
        Box::new(Exponential),
        Box::new(Analytic::default()),
    ]
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Worth {
    /// The backlog itself up to a proven error.
    Exact(Certificate),
    /// An upper bound of the backlog, proven, of unknown sharpness.
    Bound,
}

/// A solver that was asked and gave no answer.
#[derive(Clone, Debug, PartialEq)]
pub struct PassedOver {
    /// Its name.
    pub solver: &'static str,
    /// Why, with the numbers.
    pub because: CbsError,
}

/// A probability as computed, and a proven lower bound of the true one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fraction {
    /// Exact up to the certificate's error; of a bound the same as `at_least`.
    pub value: f64,
    /// Never above the truth.
    pub at_least: f64,
}

/// The stationary backlog of a queue, or an upper bound of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Who found it.
    pub solver: &'static str,
    /// What it rests on.
    pub theorem: &'static str,
    /// Where that comes from.
    pub source: &'static str,
    pub worth: Worth,
    /// Decay of the exponential bound per cell; `None` when there never is a backlog.
    pub decay: Option<f64>,
    /// Steps, doublings or points it took.
    pub effort: u64,
    /// Who was asked before.
    pub passed_over: Vec<PassedOver>,
    work: Vec<f64>,
    budget: usize,
    at_most: Vec<f64>,
    proven: Vec<f64>,
}

impl Solution {
    /// An exact answer; nowhere below the exponential bound with this decay.
    pub(crate) fn exact(
        solver: &dyn Solver,
        queue: &Queue,
        masses: &Masses,
        certificate: Certificate,
        decay: f64,
    ) -> Solution {
        let at_most = masses.at_most();
        let proven = (at_most.iter().enumerate())
            .map(|(x, p)| {
                let less = p - certificate.error * libm::exp(-certificate.tilt * x as f64) - ROUNDING;
                less.max(exponential(decay, x)).max(0.0)
            })
            .collect();
        Solution::of(solver, queue, Worth::Exact(certificate), at_most, proven, Some(decay))
    }

    /// A bound: `proven[x] <= P{W <= x}`, and beyond it the exponential bound.
    pub(crate) fn bound(
        solver: &dyn Solver,
        queue: &Queue,
        proven: Vec<f64>,
        decay: Option<f64>,
    ) -> Solution {
        Solution::of(solver, queue, Worth::Bound, proven.clone(), proven, decay)
    }

    /// No job ever needs more than the budgets before the next release.
    pub(crate) fn no_backlog(solver: &dyn Solver, queue: &Queue) -> Solution {
        let nothing = Certificate { residual: 0.0, error: 0.0, tilt: 0.0 };
        Solution::of(solver, queue, Worth::Exact(nothing), vec![1.0], vec![1.0], None)
    }

    fn of(
        solver: &dyn Solver,
        queue: &Queue,
        worth: Worth,
        at_most: Vec<f64>,
        proven: Vec<f64>,
        decay: Option<f64>,
    ) -> Solution {
        Solution {
            solver: solver.name(),
            theorem: solver.theorem(),
            source: solver.source(),
            worth,
            decay,
            effort: 0,
            passed_over: Vec::new(),
            work: queue.work().to_vec(),
            budget: queue.budget(),
            at_most,
            proven,
        }
    }

    /// The residual of an exact answer.
    pub fn residual(&self) -> Option<f64> {
        match self.worth {
            Worth::Exact(certificate) => Some(certificate.residual),
            Worth::Bound => None,
        }
    }

    /// `P{W <= x}`, x in cells.
    pub fn backlog_at_most(&self, cells: usize) -> Fraction {
        let beyond = || self.decay.map_or(1.0, |theta| exponential(theta, cells));
        let last = self.at_most.len() - 1;
        match (self.at_most.get(cells), self.proven.get(cells)) {
            (Some(value), Some(proven)) => Fraction { value: *value, at_least: *proven },
            _ => {
                let at_least = self.proven[last].max(beyond());
                Fraction { value: self.at_most[last].max(at_least), at_least }
            }
        }
    }

    /// `P{w + c <= k Q}`: the fraction of jobs done within k budgets.
    pub fn within(&self, budgets: u32) -> Fraction {
        let reach = self.budget.saturating_mul(budgets as usize);
        let (mut value, mut at_least) = (0.0, 0.0);
        for (h, mass) in self.work.iter().enumerate().take(reach.saturating_add(1)) {
            let here = self.backlog_at_most(reach - h);
            value += mass * here.value;
            at_least += mass * here.at_least;
        }
        let at_least = if self.decay.is_none() { at_least } else { at_least - ROUNDING };
        let value = f64::min(value, 1.0);
        let at_least = at_least.clamp(0.0, value);
        let value = if self.worth == Worth::Bound { at_least } else { value };
        Fraction { value, at_least }
    }

    /// How it was found, in words.
    pub fn steps(&self) -> Vec<String> {
        let mut steps: Vec<String> =
            self.passed_over.iter().map(|p| format!("{} gave no answer: {}", p.solver, p.because)).collect();
        steps.push(match self.worth {
            Worth::Exact(Certificate { residual, error, .. }) => format!(
                "{} ({}): residual {residual:.1e}, so the distribution is off by at most {error:.1e}",
                self.theorem, self.solver
            ),
            Worth::Bound => format!("{} ({}): a bound, not the value", self.theorem, self.solver),
        });
        steps
    }
}

/// `1 - exp(-theta (x + 1))`.
pub(crate) fn exponential(theta: f64, x: usize) -> f64 {
    -libm::expm1(-theta * (x as f64 + 1.0))
}

/// The backlog of a queue: exact where one of the exact solvers gets there, otherwise the best bound.
///
/// Never fails for a [`Queue`]: the last resort always holds.
pub fn solve(queue: &Queue) -> Solution {
    let exact: [&dyn Solver; 3] =
        [&WienerHopf::default(), &CyclicReduction::default(), &LogReduction::default()];
    in_turn(&exact, queue)
}

/// The same for a first look: where the quickest solver would need long, near overload, only a bound.
pub fn solve_roughly(queue: &Queue) -> Solution {
    in_turn(&[&WienerHopf { points_max: POINTS_ROUGH }], queue)
}

/// Asks these solvers in turn, at last for a bound.
pub fn in_turn(exact: &[&dyn Solver], queue: &Queue) -> Solution {
    let (found, passed_over) = first(exact.iter().map(|solver| (solver.name(), solver.solve(queue))));
    let solution = found.unwrap_or_else(|| Iteration::default().bound(queue));
    Solution { passed_over, ..solution }
}

/// The first answer, and who was asked in vain before; nobody is asked behind it.
pub(super) fn first<S>(
    answers: impl Iterator<Item = (&'static str, Result<S, CbsError>)>,
) -> (Option<S>, Vec<PassedOver>) {
    let mut passed_over = Vec::new();
    for (solver, answer) in answers {
        match answer {
            Ok(solution) => return (Some(solution), passed_over),
            Err(because) => passed_over.push(PassedOver { solver, because }),
        }
    }
    (None, passed_over)
}
