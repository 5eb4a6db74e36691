//! [`Demand`]: what is known of a task's work, and what a budget has to hold beside it.
//!
//! Work comes from a fit (interrupts on top included) or from the workload's declaration. Overheads are kept
//! out of the distribution: a budget Q pays `(c (1 + rho) + o)` for work c, so it is worth `(Q - o) / (1 +
//! rho)` of work. For a job of several budgets this deducts o from each, more than it takes.

use surety_analysis::work::{family, maximum};
use surety_analysis::world::drawn_work;
use surety_fit::WorkFit;
use surety_model::distribution::TimeDistribution;
use surety_model::plan::ProofInput;
use surety_model::workload::Task;
use surety_units::Nanos;

use crate::{GRAIN, Overhead, PlanOptions};

/// The work of a task's jobs.
#[derive(Clone, Debug, PartialEq)]
pub enum Knowledge {
    /// Measured.
    Fitted(Box<WorkFit>),
    /// Declared in the workload.
    Declared(TimeDistribution),
    /// Neither.
    Unknown,
}

/// The work of a task's jobs and what comes on top.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The work.
    pub knowledge: Knowledge,
    /// The largest work the workload declares, where it has one.
    pub declared_maximum: Option<Nanos>,
    per_job: Nanos,
    interrupts_permille: u32,
}

impl Demand {
    /// Of a task: measured where there is a fit, else declared.
    pub fn of(task: &Task, fit: Option<&WorkFit>, options: &PlanOptions) -> Demand {
        let declared = drawn_work(task);
        let knowledge = match (fit, declared) {
            (Some(fit), _) => Knowledge::Fitted(Box::new(fit.clone())),
            (None, Some(work)) => Knowledge::Declared(work.clone()),
            (None, None) => Knowledge::Unknown,
        };
        let Overhead { per_job, interrupts_permille } = options.overhead;
        let in_it = matches!(knowledge, Knowledge::Fitted(_));
        Demand {
            knowledge,
            declared_maximum: declared.and_then(maximum),
            per_job: per_job + options.platform.switch_cost * 2,
            interrupts_permille: if in_it { 0 } else { interrupts_permille },
        }
    }

    /// The budget that is worth this much work, rounded up to the grain.
    pub fn budget_for(&self, work: Nanos) -> Nanos {
        let factor = 1000 + i64::from(self.interrupts_permille);
        let gross =
            Nanos::new(work.get().saturating_mul(factor).div_euclid(1000) + 1).saturating_add(self.per_job);
        GRAIN * gross.div_ceil(GRAIN)
    }

    /// What a budget is worth in work.
    pub fn worth(&self, budget: Nanos) -> Nanos {
        (budget - self.per_job).max(Nanos::ZERO).mul_ratio(1000, 1000 + u64::from(self.interrupts_permille))
    }

    /// The work in words, and where that comes from.
    pub fn inputs(&self) -> Vec<ProofInput> {
        let mut inputs = Vec::new();
        match &self.knowledge {
            Knowledge::Fitted(fit) => {
                inputs.push(ProofInput::new("work, interrupts included", fit.gross.describe()));
                if let Some(found) = &fit.independence {
                    inputs.push(ProofInput::new(
                        "correlation of neighbouring jobs",
                        format!("{:.3}", found.lag_one),
                    ));
                }
            }
            Knowledge::Declared(work) => {
                inputs.push(ProofInput::new(
                    "work",
                    format!("declared {}: {}", family(work), parameters(work)),
                ));
                inputs.push(ProofInput::new(
                    "interrupts on top",
                    format!("{:.1} % of the work", f64::from(self.interrupts_permille) / 10.0),
                ));
            }
            Knowledge::Unknown => {}
        }
        inputs.push(ProofInput::new("switches and calls of each job", self.per_job));
        inputs
    }
}

/// A distribution's parameters in words.
pub fn parameters(work: &TimeDistribution) -> String {
    match work {
        TimeDistribution::Constant(value) => value.to_string(),
        TimeDistribution::Uniform { low, high } => format!("{low} to {high}"),
        TimeDistribution::Normal { mean, std_dev } => format!("mean {mean}, deviation {std_dev}"),
        TimeDistribution::LogNormal { mean, p99 } => format!("mean {mean}, 99 % quantile {p99}"),
        TimeDistribution::Exponential { mean } => format!("mean {mean}"),
        TimeDistribution::Empirical(empirical) => {
            format!("{} values, largest {}", empirical.total(), empirical.quantile(1.0))
        }
    }
}
