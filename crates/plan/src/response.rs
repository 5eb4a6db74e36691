//! Sizing a reservation for `response <= R @ p`.
//!
//! The period T is the smallest distance of releases, the deadline D the shorter of R and T; by R then
//! `k = floor((R - J - D)/T) + 1` budgets are complete. The runtime is the smallest that is sound:
//!
//! - every activation promised: the largest work declared, spread over `min(k, z)` budgets;
//! - declared work: the smallest runtime at which the proven fraction reaches what is required;
//! - fitted work: the larger of the order-statistic 95 % upper bound of the p-quantile, whatever the
//!   distribution, and what the accepted family with its parameters at their 95 % upper limits requires
//!   (without a family: the largest sample and 5 %).
//!
//! Required is p, or more where a verifying run of n activations is announced: it is judged by its own
//! one-sided 95 % bound, so with a true fraction of just p it would pass one time in twenty. The fraction of
//! failures aimed at is the largest with which a run of n passes 95 times in a hundred.

use surety_analysis::cbs::CbsError;
use surety_analysis::response::{Response, ServedTask, on_grid, release_distance};
use surety_analysis::work::{family, mean};
use surety_fit::WorkFit;
use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::plan::ProofInput;
use surety_model::platform::Enforcement;
use surety_model::reservation::{KERNEL_PERIOD_MAX, KERNEL_PERIOD_MIN, Reservation};
use surety_model::workload::Task;
use surety_stats::intervals::{
    design_failure_probability, failure_upper, max_failures, samples_needed_zero_failures,
};
use surety_units::{Nanos, Probability};

use crate::CONFIDENCE;
use crate::demand::{Demand, Knowledge, parameters};
use crate::refusal::Refused;

/// Without a family the largest sample is exceeded by this many thousandths.
const SAMPLE_MARGIN_PERMILLE: u64 = 50;
/// Jobs beyond the budget are assumed to need at most this many times the largest sample.
const LARGEST_TIMES: i64 = 2;

/// A promise about response times to be met by one reservation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseRequest {
    /// R.
    pub limit: Nanos,
    /// p; `None`: every activation.
    pub at: Option<Probability>,
}

/// D and T, and what they leave room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// D.
    pub deadline: Nanos,
    /// T.
    pub period: Nanos,
    /// Smallest distance of releases.
    pub gap: Nanos,
    /// Release jitter.
    pub jitter: Nanos,
}

/// The work a budget has to be worth for a promise, with the argument.
#[derive(Clone, Debug)]
pub struct Sizing {
    /// Work in one budget, overheads excluded.
    pub work: Nanos,
    /// The fraction aimed at.
    pub required: f64,
    /// The distribution the fraction is proven for.
    pub proven_for: TimeDistribution,
    /// How the runtime came about.
    pub steps: Vec<String>,
    /// What has to hold for it.
    pub assumptions: Vec<String>,
    /// Further numbers.
    pub inputs: Vec<ProofInput>,
}

/// D and T for the shortest of the limits.
pub fn frame(task: &Task, shortest: Nanos) -> Result<Frame, Refused> {
    let Some((gap, jitter)) = release_distance(task) else {
        return Err(Refused::plainly(
            "its releases are not known: give it a period or a gap, or measure it first",
        ));
    };
    if gap < KERNEL_PERIOD_MIN {
        return Err(Refused::plainly(format!(
            "releases may be {gap} apart, and the kernel reserves in periods of {KERNEL_PERIOD_MIN} or longer"
        )));
    }
    let period = gap / gap.div_ceil(KERNEL_PERIOD_MAX);
    let room = shortest - jitter;
    if !room.is_positive() {
        return Err(Refused::plainly(format!(
            "releases alone come up to {jitter} late, and {shortest} is promised"
        )));
    }
    Ok(Frame { deadline: room.min(period), period, gap, jitter })
}

impl Frame {
    /// The task served by budgets worth `work`.
    pub fn served(
        &self,
        task: &Task,
        distribution: &TimeDistribution,
        work: Nanos,
        enforcement: Enforcement,
    ) -> ServedTask {
        ServedTask {
            work: distribution.clone(),
            gap: self.gap,
            jitter: self.jitter,
            grid: on_grid(task),
            late: task.late,
            reservation: Reservation { deadline: self.deadline, ..Reservation::implicit(work, self.period) },
            enforcement,
        }
    }
}

/// The work a budget has to be worth for a promise in this frame, or why none is enough.
///
/// A budget longer than D is refused by the caller, who knows what is feasible.
pub fn size(
    task: &Task,
    request: ResponseRequest,
    frame: Frame,
    demand: &Demand,
    verify: Option<u64>,
    enforcement: Enforcement,
) -> Result<Sizing, Refused> {
    let probe = frame.served(task, &TimeDistribution::Constant(Nanos::ZERO), Nanos::new(1), enforcement);
    let (within, between) = (probe.budgets_within(request.limit), probe.budgets_between());
    let Some(at) = request.at else {
        return every(demand, within.min(between));
    };
    let mut sizing = Sizing {
        work: Nanos::ZERO,
        required: at.as_f64(),
        proven_for: TimeDistribution::Constant(Nanos::ZERO),
        steps: Vec::new(),
        assumptions: Vec::new(),
        inputs: vec![ProofInput::new("promised fraction", at)],
    };
    if let Some(n) = verify {
        aim(&mut sizing, at, n);
    }
    let search = |distribution: &TimeDistribution, required: f64| {
        let at_work = |work: Nanos| {
            frame.served(task, distribution, work, enforcement).solve().map(|r| r.probability(within))
        };
        smallest(at_work, distribution, within, between, required, frame.deadline)
    };
    match &demand.knowledge {
        Knowledge::Unknown => {
            return Err(Refused::plainly(
                "the work of its jobs is not known: declare it, or measure it first in a profile pass",
            ));
        }
        Knowledge::Declared(work) => {
            sizing.work = search(work, sizing.required)?;
            sizing.steps.push(format!(
                "budgets worth {} of work are the smallest that prove a fraction of {:.6}",
                sizing.work, sizing.required
            ));
            sizing.assumptions.push(format!(
                "work is {} with {}, as declared",
                family(work),
                parameters(work)
            ));
            sizing.proven_for = work.clone();
        }
        Knowledge::Fitted(fit) => from_fit(&mut sizing, fit, at, within, search)?,
    }
    Ok(sizing)
}

/// Every activation: the largest declared work.
fn every(demand: &Demand, budgets: u32) -> Result<Sizing, Refused> {
    let (seen, word) = match &demand.knowledge {
        Knowledge::Fitted(fit) => (fit.gross.maximum(), "measured"),
        Knowledge::Declared(work) => (Nanos::ZERO, family(work)),
        Knowledge::Unknown => (Nanos::ZERO, "not known"),
    };
    let Some(declared) = demand.declared_maximum else {
        return Err(Refused {
            because: format!(
                "every activation is promised but work is {word}, without a largest value: promise a percentage, or \
                 declare bounded work"
            ),
            nearest: vec!["the same promise with a percentage, such as @ 99.9%".to_owned()],
        });
    };
    let most = declared.max(seen);
    let work = Nanos::new(most.div_ceil(Nanos::new(i64::from(budgets.max(1)))));
    let mut steps = vec![format!("the largest work is {most}: {work} in each of {budgets} budget(s)")];
    if seen > declared {
        steps.push(format!("{declared} was declared as the largest, but {seen} was seen"));
    }
    Ok(Sizing {
        work,
        required: 1.0,
        proven_for: TimeDistribution::Constant(most),
        steps,
        assumptions: Vec::new(),
        inputs: vec![ProofInput::new("promised fraction", "every activation")],
    })
}

/// Raises what is required so that a verifying run of n activations would pass.
fn aim(sizing: &mut Sizing, at: Probability, n: u64) {
    let promised = at.as_f64();
    let Some(most) = max_failures(n, promised, CONFIDENCE) else {
        let enough = samples_needed_zero_failures(promised, CONFIDENCE).unwrap_or(u64::MAX);
        sizing.steps.push(format!(
            "a verifying run of {n} activations is too short to show {at}: {enough} without a failure would be needed"
        ));
        return;
    };
    let aimed = design_failure_probability(n, promised, CONFIDENCE, CONFIDENCE);
    sizing.required = sizing.required.max(1.0 - aimed);
    sizing.inputs.push(ProofInput::new("activations of the verifying run", n));
    sizing.inputs.push(ProofInput::new("failures aimed at", format!("{:.4} %", aimed * 100.0)));
    sizing.steps.push(format!(
        "a verifying run of {n} shows {at} with at most {most} failure(s); a true fraction of failures of {:.4} % stays \
         within that 95 times in a hundred",
        aimed * 100.0
    ));
}

/// The smallest budget worth of work whose proven fraction reaches `required`, up to `longest`.
fn smallest(
    fraction: impl Fn(Nanos) -> Result<f64, CbsError>,
    distribution: &TimeDistribution,
    within: u32,
    between: u32,
    required: f64,
    longest: Nanos,
) -> Result<Nanos, Refused> {
    let reaches = |work: Nanos| fraction(work).is_ok_and(|found| found >= required);
    // Below the mean nothing is stable; below the quantile spread over the limit's budgets nothing suffices.
    let stable = mean(distribution) / f64::from(between.max(1));
    let quantile = distribution.quantile(required.clamp(1e-9, 1.0 - 1e-12)) / i64::from(within.max(1));
    let mut low = Nanos::from_f64_rounded(stable).max(quantile) - Nanos::new(1);
    // Even if the reservation could never be this long, the number says how far off the promise is.
    let mut high = longest.max(low * 2);
    if within == 0 || !reaches(high) {
        let best = fraction(longest).map_or(0.0, |p| p);
        return Err(Refused::plainly(format!(
            "no runtime up to {high} proves a fraction of {required:.5} ({best:.5} with {longest})"
        )));
    }
    while high - low > Nanos::from_micros(10).max(high / 2000) {
        let middle = low + (high - low) / 2;
        if reaches(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

/// Sizes from a fit: ranks and family.
fn from_fit(
    sizing: &mut Sizing,
    fit: &WorkFit,
    at: Probability,
    within: u32,
    search: impl Fn(&TimeDistribution, f64) -> Result<Nanos, Refused>,
) -> Result<(), Refused> {
    let promised = at.as_f64();
    let series = &fit.gross;
    let seen = series.n + fit.beyond;
    let by_ranks = series.quantile_upper(promised, CONFIDENCE, fit.beyond);
    let needed = samples_needed_zero_failures(promised, CONFIDENCE).unwrap_or(u64::MAX);
    let budgets = i64::from(within.max(1));
    let mut work = Nanos::ZERO;
    match by_ranks {
        Some(bound) => {
            work = bound / budgets + Nanos::new(1);
            sizing.steps.push(format!(
                "whatever the distribution: the {at} quantile of {seen} jobs is at most {bound} with 95 % confidence"
            ));
        }
        None if series.family.is_none() => {
            return Err(Refused::plainly(format!(
                "{seen} measured jobs{} do not bound the {at} quantile, and no family fits: it needs {} more jobs",
                if fit.beyond > 0 {
                    format!(", {} of them of unknown length,", fit.beyond)
                } else {
                    String::new()
                },
                needed.saturating_sub(seen).max(1)
            )));
        }
        None => sizing.steps.push(format!(
            "{seen} jobs do not bound the {at} quantile by themselves ({} more would): the family has to",
            needed.saturating_sub(seen).max(1)
        )),
    }
    match &series.family {
        Some(family_fit) => {
            let pessimistic = family_fit.pessimistic(CONFIDENCE);
            let by_family = search(&pessimistic, sizing.required)?;
            sizing.steps.push(format!(
                "{} not rejected (p = {:.2}); with parameters at their 95 % upper limits ({}) a fraction of {:.6} needs {}",
                family_fit.family.word(),
                family_fit.p_value,
                parameters(&pessimistic),
                sizing.required,
                by_family
            ));
            sizing.assumptions.push(format!(
                "work is {} with parameters within their 95 % limits ({} jobs)",
                family_fit.family.word(),
                family_fit.n
            ));
            sizing.work = work.max(by_family);
            sizing.proven_for = pessimistic;
        }
        None => {
            let largest = series.maximum();
            let with_margin = largest.mul_ratio(1000 + SAMPLE_MARGIN_PERMILLE, 1000) / budgets;
            sizing.work = work.max(with_margin);
            sizing.steps.push(format!(
                "no family fits: the largest of {} jobs, {largest}, and {} % on top",
                series.n,
                SAMPLE_MARGIN_PERMILLE / 10
            ));
            sizing.proven_for = beyond_counted(fit, sizing.work * budgets);
            // Few jobs leave room for many long ones: then a budget for the jobs seen is not enough.
            if let Ok(enough) = search(&sizing.proven_for, promised)
                && enough > sizing.work
            {
                sizing.work = enough;
                sizing.steps.push(format!(
                    "as many longer jobs as {seen} measured ones leave possible need budgets worth {enough}"
                ));
            }
            sizing.assumptions.push(format!(
                "no job needs more than {LARGEST_TIMES} times the largest seen ({})",
                largest * LARGEST_TIMES
            ));
        }
    }
    sizing.assumptions.push("jobs will be like those measured".to_owned());
    if let Some(found) = fit.independence.filter(|found| !found.holds()) {
        sizing.assumptions.push(format!(
            "the measured jobs are correlated (r1 = {:.3}, independent ones stay within {:.3}): the fraction is proven only \
             as far as work is independent",
            found.lag_one, found.bound
        ));
    }
    Ok(())
}

/// The samples up to a limit, with the 95 % upper bound of the fraction beyond it placed at twice the
/// largest.
fn beyond_counted(fit: &WorkFit, limit: Nanos) -> TimeDistribution {
    const UNIT: u64 = 1_000_000;
    let series = &fit.gross;
    let inside: Vec<(Nanos, u64)> = series.samples.pairs().filter(|(v, _)| *v <= limit).collect();
    let within: u64 = inside.iter().map(|(_, count)| count).sum();
    let all = series.n + fit.beyond;
    let upper = failure_upper(all - within, all, CONFIDENCE);
    let far = (upper / (1.0 - upper).max(1e-9) * (within * UNIT) as f64).ceil() as u64;
    let mut pairs: Vec<(Nanos, u64)> = inside.into_iter().map(|(v, count)| (v, count * UNIT)).collect();
    pairs.push((series.maximum() * LARGEST_TIMES, far.max(1)));
    Empirical::new(pairs)
        .map_or(TimeDistribution::Constant(series.maximum() * LARGEST_TIMES), TimeDistribution::Empirical)
}

/// How the task responds when its budgets are worth this much work.
pub fn respond(
    task: &Task,
    frame: Frame,
    sizing: &Sizing,
    work: Nanos,
    enforcement: Enforcement,
) -> Result<Response, CbsError> {
    frame.served(task, &sizing.proven_for, work, enforcement).solve()
}
