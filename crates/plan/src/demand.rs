//! [`Demand`]: what is known of a task's work, and what a budget has to hold beside it.
//!
//! Work comes from a fit (interrupts on top included) or from the workload's declaration. Overheads are kept
//! out of the distribution: a budget Q is worth
//!
//! ```text
//! (Q - s - t ceil(Q/tick) - h - o/m) / (1 + rho)
//! ```
//!
//! of work, with s for the switches of each server period, t for each tick, h for the hard handlers of declared interrupts in
//! a server period, rho for other interrupts, and o for each job. m is the smaller of the budgets between releases (z) and
//! within the limit (k): a job's `w + c + o <= k Q` and the backlog's `w + c + o - z Q` are then both covered, since `o <= m
//! (o/m)`.

use surety_analysis::overheads::{Interruption, all_at_most};
use surety_analysis::work::drawn_work;
use surety_analysis::work::{declared_bound, family};
use surety_fit::WorkFit;
use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::modes::ModeFit;
use surety_model::plan::ProofInput;
use surety_model::workload::{Phase, Task, TaskBody, leaves};
use surety_units::Nanos;

use crate::frame::Frame;
use crate::{GRAIN, Overhead, PlanOptions, Request, request};

/// The work of a task's jobs.
#[derive(Clone, Debug, PartialEq)]
pub enum Knowledge {
    /// Measured.
    Fitted(Box<WorkFit>),
    /// Declared in the workload.
    Declared(TimeDistribution),
    /// Values that are samples of jobs: so declared, or by [`PlanOptions::empirical_are_samples`].
    Samples(Empirical),
    /// Neither.
    Unknown,
}

/// The first step that writes bytes: how long that takes is the machine's, and what one was seen to take is no bound.
fn unbounded_step(task: &Task) -> Option<&'static str> {
    let TaskBody::Phases(phases) = &task.body else { return None };
    leaves(phases).into_iter().find_map(|phase| match phase {
        Phase::Fill(fill) => Some(fill.word()),
        _ => None,
    })
}

/// The work of a task's jobs and what comes on top.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The work.
    pub knowledge: Knowledge,
    /// The largest work the workload declares, where it has one.
    pub declared_maximum: Option<Nanos>,
    /// A step of its jobs that nothing bounds, by its key in the file: `memory`.
    pub unbounded_step: Option<&'static str>,
    /// The modes it comes in, where it is not independent from job to job.
    pub modes: Option<ModeFit>,
    /// Whether its first release comes a period or more after its thread was reserved and last ran: so it is where Surety releases
    /// its jobs, and not with a program or a thread that runs already.
    pub in_step: bool,
    costs: Overhead,
    tick: Nanos,
    handlers: Vec<Interruption>,
}

impl Demand {
    /// Of a task: measured where there is a fit, else declared.
    pub fn of(
        task: &Task,
        fit: Option<&WorkFit>,
        handlers: &[Interruption],
        options: &PlanOptions,
    ) -> Demand {
        let declared = drawn_work(task);
        let knowledge = match (fit, declared) {
            (Some(fit), _) => Knowledge::Fitted(Box::new(fit.clone())),
            (None, Some(TimeDistribution::Empirical(samples)))
                if options.empirical_are_samples || samples.is_measured() =>
            {
                Knowledge::Samples(samples.clone())
            }
            (None, Some(work)) => Knowledge::Declared(work.clone()),
            (None, None) => Knowledge::Unknown,
        };
        // Measured work has its ticks and interrupts in it, the largest work declared has not.
        let is_every = |promise| matches!(request(task, promise), Ok(Request::Response { at: None, .. }));
        let is_measured = matches!(knowledge, Knowledge::Fitted(_)) && !task.promises.iter().any(is_every);
        let all = options.costs();
        let measured = Overhead { interrupts_permille: 0, per_tick: Nanos::ZERO, ..all };
        Demand {
            knowledge,
            declared_maximum: declared
                .filter(|_| !options.fitted.contains(&task.name))
                .and_then(declared_bound),
            unbounded_step: unbounded_step(task),
            modes: match fit {
                Some(fit) => fit.modes.clone(),
                None => options.modes.get(&task.name).cloned(),
            },
            in_step: task.body.is_made() && !options.any_phase && !options.fitted.contains(&task.name),
            costs: if is_measured { measured } else { all },
            tick: options.platform.tick,
            handlers: if is_measured { Vec::new() } else { handlers.to_vec() },
        }
    }

    /// Why nothing can be said of a task whose work is not known.
    pub(crate) fn is_not_known(&self) -> String {
        match self.unbounded_step {
            None => "the work of its jobs is not known: declare it, or measure it first in a profile pass"
                .to_owned(),
            Some(step) => format!(
                "the work of its jobs is not known, since nothing says how long its step `{step}` takes: measure it first in a \
                 profile pass"
            ),
        }
    }

    /// Why not every activation can be promised; `work`: how its work is known.
    pub(crate) fn has_no_largest(&self, work: &str) -> String {
        match self.unbounded_step {
            None => format!(
                "every activation is promised but work is {work}, without a largest value that is declared: the largest job \
                 seen bounds no other; promise a percentage, or declare bounded work"
            ),
            Some(step) => format!(
                "every activation is promised and nothing bounds its step `{step}`: the longest time seen bounds no other; \
                 promise a percentage, or leave the step out"
            ),
        }
    }

    /// Whether its thread wakes between its jobs, to what they left of a budget.
    pub fn wakes_between(&self) -> bool {
        matches!(&self.knowledge, Knowledge::Fitted(fit) if fit.wakes_between)
    }

    /// What a budget pays beside the work of its jobs, the part proportional to it excluded.
    pub fn beside(&self, budget: Nanos, frame: &Frame) -> Nanos {
        let jobs = self.costs.per_job.div_ceil(Nanos::new(i64::from(frame.spread.max(1))));
        let handlers = all_at_most(&self.handlers, frame.period);
        self.costs.per_period + self.costs.per_tick * budget.div_ceil(self.tick) + handlers + Nanos::new(jobs)
    }

    /// What a job of this work may measure: its calls, and a hundredth for what interrupts left in it.
    pub fn beside_one_job(&self, work: Nanos) -> Nanos {
        work.saturating_add(work / 100).saturating_add(self.costs.per_job)
    }

    /// What a budget pays in proportion to work, in thousandths.
    pub fn permille(&self) -> u32 {
        self.costs.interrupts_permille
    }

    /// The smallest budget on the grain that is worth this much work.
    pub fn budget_for(&self, work: Nanos, frame: &Frame) -> Nanos {
        let factor = 1000 + i64::from(self.costs.interrupts_permille);
        let gross = Nanos::new(work.get().saturating_mul(factor).div_euclid(1000) + 1);
        let mut budget = GRAIN * gross.saturating_add(self.beside(gross, frame)).div_ceil(GRAIN);
        while self.worth(budget, frame) < work {
            // A larger budget pays for more ticks, and none smaller than this is worth the work.
            let least = gross.saturating_add(self.beside(budget, frame)) - Nanos::new(1);
            budget = (GRAIN * least.div_ceil(GRAIN)).max(budget + GRAIN);
        }
        budget
    }

    /// What a budget is worth in work.
    pub fn worth(&self, budget: Nanos, frame: &Frame) -> Nanos {
        let left = (budget - self.beside(budget, frame)).max(Nanos::ZERO);
        left.mul_ratio(1000, 1000 + u64::from(self.costs.interrupts_permille))
    }

    /// The costs in words.
    fn cost_inputs(&self, frame: &Frame) -> Vec<ProofInput> {
        let mut inputs = vec![
            ProofInput::new("cost of each job (calls, wake-up)", self.costs.per_job),
            ProofInput::new("cost of each server period (switches, timer)", self.costs.per_period),
            ProofInput::new("cost of each tick", self.costs.per_tick),
        ];
        for handler in &self.handlers {
            let words = format!("{} in each {}", handler.at_most(frame.period), frame.period);
            inputs.push(ProofInput::new("hard interrupt handlers", words));
        }
        inputs
    }

    /// The work in words, and where that comes from.
    pub fn inputs(&self, frame: &Frame) -> Vec<ProofInput> {
        let mut inputs = Vec::new();
        match &self.knowledge {
            Knowledge::Fitted(fit) => {
                inputs.push(ProofInput::new("work, interrupts included", fit.gross.describe()));
                if fit.wakes_between {
                    let words = "their CPU time is in the work; they find what a job left of its budget";
                    inputs.push(ProofInput::new("wake-ups between jobs", words));
                }
                inputs
                    .extend(self.declared_maximum.map(|most| ProofInput::new("largest work declared", most)));
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
                    format!("{:.1} % of the work", f64::from(self.costs.interrupts_permille) / 10.0),
                ));
            }
            Knowledge::Samples(samples) => inputs.push(ProofInput::new(
                "work",
                format!("{} samples, largest {}", samples.total(), samples.quantile(1.0)),
            )),
            Knowledge::Unknown => {}
        }
        inputs.extend(self.cost_inputs(frame));
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
