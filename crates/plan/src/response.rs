//! Sizing a reservation for `response <= R @ p`.
//!
//! In a frame of deadline D and period T ([`crate::synthesis`] chooses it) `k = floor((R - J - D)/T) + 1` budgets are
//! complete by R, and z between releases. The runtime is the smallest that is sound:
//!
//! - every activation promised: the largest work declared, spread over `min(k, z)` budgets;
//! - declared work: the smallest runtime at which the proven fraction reaches what is required;
//! - fitted work: the larger of the order-statistic 95 % upper bound of the p-quantile, whatever the
//!   distribution, and what the accepted family with its parameters at their 95 % upper limits requires;
//! - without a family, and for samples declared as such: what the longest work requires that the samples leave possible
//!   (`surety_analysis::sampled`), their error bounded by Dvoretzky, Kiefer and Wolfowitz and by Clopper and Pearson.
//!
//! What a search finds depends on `k Q` and `z Q` only, so it is made once for each ratio k/z and taken over by every other
//! frame with the same ([`Searched`]).
//!
//! Required is p, or more where a verifying run of n activations is announced: it is judged by its own
//! one-sided 95 % bound, so with a true fraction of just p it would pass one time in twenty. The fraction of
//! failures aimed at is the largest with which a run of n passes 95 times in a hundred.

pub mod modes;

use std::cell::RefCell;

use surety_analysis::cbs::modulated::ModulatedWork;
use surety_analysis::cbs::{CbsError, Fineness, in_order};
use surety_analysis::response::{
    Counting, Response, ServedTask, proven_fraction, proven_fraction_in_order, proven_fraction_with_modes,
};
use surety_analysis::sampled::worst_in_the_tail;
use surety_analysis::work::{family, mean};
use surety_fit::{Series, WorkFit};
use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::plan::ProofInput;
use surety_model::platform::Enforcement;
use surety_model::workload::Task;
use surety_stats::intervals::{
    design_failure_probability, failure_upper, max_failures, samples_needed_zero_failures,
};
use surety_units::{Nanos, Probability, common_divisor};

use crate::demand::{Demand, Knowledge, parameters};
use crate::frame::Frame;
use crate::refusal::Refused;
use crate::{CONFIDENCE, SearchLimit};

/// Without a family the largest sample is exceeded by this many thousandths.
const SAMPLE_MARGIN_PERMILLE: u64 = 50;
/// Budgets are found to this, or to one part in 3000 where that is more.
const STEP_MIN: Nanos = Nanos::from_micros(1);
/// Doublings of the step upwards: from 1/64 of the least to more than 2^20 times it.
const DOUBLINGS: u32 = 30;
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

/// The work a budget has to be worth for a promise, with the argument.
#[derive(Clone, Debug)]
pub struct Sizing {
    /// Work in one budget, overheads excluded.
    pub work: Nanos,
    /// The fraction aimed at.
    pub required: f64,
    /// The distribution the fraction is proven for.
    pub proven_for: TimeDistribution,
    /// The modes it is proven for as well, where work is not independent.
    pub modes: Option<ModulatedWork>,
    /// How many jobs were measured, where the work was; none: it is as declared.
    pub measured: Option<u64>,
    /// No larger fraction is claimed: jobs longer than the largest measured are none that are in time.
    pub at_most: f64,
    /// How the runtime came about.
    pub steps: Vec<String>,
    /// What has to hold for it.
    pub assumptions: Vec<String>,
    /// Further numbers.
    pub inputs: Vec<ProofInput>,
}

/// What was searched for before, by the ratio of budgets.
pub struct Searched {
    fineness: Fineness,
    found: RefCell<Vec<Search>>,
    /// Tasks that were solved: equal ones are not solved again.
    solved: RefCell<Vec<(ServedTask, Result<Response, CbsError>)>>,
    search: SearchLimit,
}

/// One search: for which fraction of which work, counted how, with which budgets; and the work all budgets between releases
/// have to be worth.
struct Search {
    work: Sought,
    required: f64,
    counting: Counting,
    ratio: (u32, u32),
    found: Result<Nanos, CbsError>,
}

/// The work a budget is looked for.
#[derive(Clone, PartialEq)]
enum Sought {
    Independent(TimeDistribution),
    /// Only budgets worth this or more are wanted.
    InModes(ModulatedWork, Nanos),
    /// Jobs in their order, alike.
    InOrder(Vec<Nanos>, Nanos),
}

impl Sought {
    fn fraction(
        &self,
        runtime: Nanos,
        budgets: (u32, u32),
        counting: Counting,
        fineness: Fineness,
    ) -> Result<f64, CbsError> {
        match self {
            Sought::Independent(work) => proven_fraction(work, runtime, budgets, counting, fineness),
            Sought::InModes(work, _) => {
                proven_fraction_with_modes(work, runtime, budgets, counting, fineness)
            }
            Sought::InOrder(jobs, _) => proven_fraction_in_order(jobs, runtime, budgets, counting),
        }
    }

    /// No budget is worth less.
    fn at_least(&self, required: f64, budgets: (u32, u32)) -> Nanos {
        match self {
            Sought::Independent(work) => at_least(work, required, budgets),
            Sought::InModes(_, from) | Sought::InOrder(_, from) => *from,
        }
    }
}

impl Searched {
    /// Nothing yet, on grids of this fineness.
    pub fn new(fineness: Fineness, search: SearchLimit) -> Searched {
        Searched { fineness, found: RefCell::default(), solved: RefCell::default(), search }
    }

    /// The same with nothing found, on grids of another fineness.
    pub fn anew(&self, fineness: Fineness) -> Searched {
        Searched::new(fineness, self.search.clone())
    }

    /// How the task responds when its budgets are worth this much work.
    pub fn respond(
        &self,
        task: &Task,
        frame: Frame,
        sizing: &Sizing,
        work: Nanos,
        enforcement: Enforcement,
    ) -> Result<Response, CbsError> {
        let served = frame.served(task, &sizing.proven_for, work, enforcement);
        let served = ServedTask { modes: sizing.modes.clone(), ..served };
        let known = self.solved.borrow().iter().find(|(task, _)| *task == served).map(|(_, r)| r.clone());
        known.unwrap_or_else(|| {
            let response = served.clone().solve();
            self.solved.borrow_mut().push((served, response.clone()));
            response
        })
    }

    /// The smallest work a budget has to be worth so that the proven fraction reaches `required`.
    ///
    /// Errors: nothing is proven with any budget, with the last reason.
    fn smallest(
        &self,
        work: &TimeDistribution,
        required: f64,
        counting: Counting,
        budgets: (u32, u32),
    ) -> Result<Nanos, CbsError> {
        self.look(Sought::Independent(work.clone()), required, counting, budgets)
    }

    /// The same for work in modes, from a work on that a budget is worth anyway.
    fn smallest_with_modes(
        &self,
        (work, from): (&ModulatedWork, Nanos),
        required: f64,
        counting: Counting,
        budgets: (u32, u32),
    ) -> Result<Nanos, CbsError> {
        let from = all_of(from, divisor(budgets, counting))?;
        self.look(Sought::InModes(work.clone(), from), required, counting, budgets)
    }

    /// The same for jobs in their order.
    fn smallest_in_order(
        &self,
        (jobs, from): (&[Nanos], Nanos),
        required: f64,
        counting: Counting,
        budgets: (u32, u32),
    ) -> Result<Nanos, CbsError> {
        let from = all_of(from, divisor(budgets, counting))?;
        self.look(Sought::InOrder(jobs.to_vec(), from), required, counting, budgets)
    }

    fn look(
        &self,
        work: Sought,
        required: f64,
        counting: Counting,
        (between, within): (u32, u32),
    ) -> Result<Nanos, CbsError> {
        let divisor = divisor((between, within), counting);
        let ratio = (between / divisor, within / divisor);
        let same = |s: &&Search| {
            s.required.to_bits() == required.to_bits()
                && s.counting == counting
                && s.ratio == ratio
                && s.work == work
        };
        let known = self.found.borrow().iter().find(same).map(|s| s.found.clone());
        let found = known.unwrap_or_else(|| {
            let found = smallest(&work, required, counting, ratio, (self.fineness, &self.search));
            self.found.borrow_mut().push(Search { work, required, counting, ratio, found: found.clone() });
            found
        })?;
        Ok(Nanos::new(found.div_ceil(Nanos::new(i64::from(divisor)))))
    }
}

/// Searches upwards from what no budget can be below, in steps that double, and then between the last two.
///
/// First on a rough grid, which is as safe and needs a little more; what that finds is close above the answer.
fn smallest(
    work: &Sought,
    required: f64,
    counting: Counting,
    budgets: (u32, u32),
    (fineness, search): (Fineness, &SearchLimit),
) -> Result<Nanos, CbsError> {
    let least = work.at_least(required, budgets);
    let fraction = |runtime| work.fraction(runtime, budgets, counting, Fineness::Rough);
    let rough = upwards(fraction, least, required, search)?;
    // It is as safe, and needs a little more.
    if fineness == Fineness::Rough || search.is_reached() {
        return Ok(rough);
    }
    let fraction = |runtime| work.fraction(runtime, budgets, counting, Fineness::Fine);
    let mut high = rough;
    let mut step = (rough / 64).max(STEP_MIN);
    if !fraction(high).is_ok_and(|found| found >= required) {
        return upwards(fraction, rough, required, search);
    }
    while high > least && !search.is_reached() {
        let low = (high - step).max(least);
        match fraction(low) {
            Ok(found) if found >= required => high = low,
            _ => return Ok(between(fraction, low, high, required)),
        }
        step = step * 2;
    }
    Ok(high)
}

/// By what counts of budgets are divided for a search: a ratio tells all, but where a job has to wait for a whole budget.
fn divisor((between, within): (u32, u32), counting: Counting) -> u32 {
    if counting.is_inside() { 1 } else { common_divisor(between, within).max(1) }
}

/// What all budgets between releases are worth, as the search counts.
fn all_of(runtime: Nanos, count: u32) -> Result<Nanos, CbsError> {
    runtime.checked_mul(i64::from(count)).ok_or(CbsError::TooLong { runtime, count })
}

/// The smallest runtime from `low` on with the fraction.
fn upwards(
    fraction: impl Fn(Nanos) -> Result<f64, CbsError>,
    low: Nanos,
    required: f64,
    search: &SearchLimit,
) -> Result<Nanos, CbsError> {
    let (mut low, mut high) = (low - Nanos::new(1), low);
    let mut step = (high / 64).max(STEP_MIN);
    let mut last = CbsError::NoBudget;
    for _ in 0..DOUBLINGS {
        if search.is_over() {
            return Err(CbsError::Ended);
        }
        match fraction(high) {
            Ok(found) if found >= required => return Ok(between(fraction, low, high, required)),
            Ok(_) => {}
            Err(error @ CbsError::TooLong { .. }) => return Err(error),
            Err(error) => last = error,
        }
        low = high;
        high = high.saturating_add(step);
        step = step * 2;
    }
    Err(last)
}

/// The smallest runtime with the fraction between one that has not and one that has it: by the secant of the logarithm of
/// what is missing, which is nearly straight, and by halves where that is no help.
fn between(
    fraction: impl Fn(Nanos) -> Result<f64, CbsError>,
    mut low: Nanos,
    mut high: Nanos,
    required: f64,
) -> Nanos {
    let tolerance = STEP_MIN.max(high / 3000);
    let mut halve = false;
    let missing = |found: f64| libm::log((1.0 - found).max(1e-15));
    let wanted = missing(required);
    let at = |runtime| fraction(runtime).ok();
    let (mut below, mut above) = (at(low), at(high));
    while high - low > tolerance {
        let secant = match (below, above) {
            (Some(below), Some(above)) if !halve && missing(above) < missing(below) => {
                // A little above the crossing, so that the next step closes the interval from there.
                (missing(below) - wanted) / (missing(below) - missing(above))
            }
            _ => 0.5,
        };
        let width = (high - low).get() as f64;
        let part = Nanos::from_f64_rounded(width * secant.clamp(0.02, 0.98)) + tolerance / 2;
        let middle = (low + part).max(low + Nanos::new(1)).min(high - Nanos::new(1));
        let found = at(middle);
        let before = high - low;
        if found.is_some_and(|found| found >= required) {
            (high, above) = (middle, found);
        } else {
            (low, below) = (middle, found);
        }
        halve = (high - low) * 3 > before;
    }
    high
}

/// No budget is worth less: below the mean nothing is stable, below the quantile spread over the limit's budgets nothing is
/// enough.
pub fn at_least(work: &TimeDistribution, required: f64, (between, within): (u32, u32)) -> Nanos {
    let stable = Nanos::from_f64_rounded(mean(work) / f64::from(between.max(1)));
    let quantile = work.quantile(required.clamp(1e-9, 1.0 - 1e-12)) / i64::from(within.max(1));
    stable.max(quantile).max(Nanos::new(1))
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
    (enforcement, searched): (Enforcement, &Searched),
) -> Result<Sizing, Refused> {
    let (between, within) = frame.budgets(task, request.limit);
    let Some(at) = request.at else {
        return every(demand, within.min(between));
    };
    let mut sizing = Sizing {
        work: Nanos::ZERO,
        required: at.as_f64(),
        proven_for: TimeDistribution::Constant(Nanos::ZERO),
        modes: None,
        measured: None,
        at_most: 1.0,
        steps: Vec::new(),
        assumptions: Vec::new(),
        inputs: vec![ProofInput::new("promised fraction", at)],
    };
    if let Some(n) = verify {
        aim(&mut sizing, at, n);
    }
    let counting = frame.probe(task, enforcement).counting();
    let search = |distribution: &TimeDistribution, required: f64| {
        if within == 0 {
            return Err(Refused::infeasible(format!(
                "no budget is complete {} after a release",
                request.limit
            )));
        }
        let found = searched.smallest(distribution, required, counting, (between, within));
        found.map_err(|error| {
            Refused::infeasible(format!("no runtime proves a fraction of {required:.5}: {error}"))
        })
    };
    match &demand.knowledge {
        Knowledge::Unknown => {
            return Err(Refused::plainly(demand.is_not_known()));
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
        Knowledge::Samples(samples) => from_samples(&mut sizing, samples, 0, at, search)?,
        Knowledge::Fitted(fit) => from_fit(&mut sizing, fit, at, within, search)?,
    }
    let jobs = in_order::jobs_of(&sizing.proven_for);
    let in_order = match &jobs {
        Some(jobs) => {
            let from = (jobs.as_slice(), Nanos::new(1));
            let found = searched.smallest_in_order(from, sizing.required, counting, (between, within));
            found.map_err(|error| {
                Refused::infeasible(format!(
                    "no runtime proves a fraction of {:.5} of its jobs in their order: {error}",
                    sizing.required
                ))
            })?
        }
        None => Nanos::ZERO,
    };
    if let Some(fit) = &demand.modes {
        let sampled = !matches!(demand.knowledge, Knowledge::Declared(_));
        modes::raise(&mut sizing, fit, sampled, |work, required, from| {
            // What the jobs in their order need is planned anyway.
            let from = from.max(in_order);
            let found = searched.smallest_with_modes((work, from), required, counting, (between, within));
            found.map_err(|error| {
                Refused::infeasible(format!(
                    "no runtime proves a fraction of {required:.5} with its modes: {error}"
                ))
            })
        })?;
    }
    if let Some(jobs) = jobs {
        sizing.work = sizing.work.max(in_order);
        sizing.steps.push(format!(
            "its {} jobs, in the order declared, need {in_order}; {} is planned, the most of all",
            jobs.len(),
            sizing.work
        ));
    }
    Ok(sizing)
}

/// Every activation: the largest work declared. Jobs measured prove nothing about it, but may contradict it.
fn every(demand: &Demand, budgets: u32) -> Result<Sizing, Refused> {
    let (seen, word) = match &demand.knowledge {
        Knowledge::Fitted(fit) => (Some(&fit.net), "measured"),
        Knowledge::Declared(work) => (None, family(work)),
        Knowledge::Samples(_) => (None, "sampled"),
        Knowledge::Unknown => (None, "not known"),
    };
    let sampled = matches!(demand.knowledge, Knowledge::Samples(_));
    let Some(most) = demand.declared_maximum.filter(|_| !sampled) else {
        let because = demand.has_no_largest(word);
        // Which percentage is feasible is looked for.
        let is_known = demand.knowledge != Knowledge::Unknown;
        return Err(Refused { infeasible: is_known, ..Refused::plainly(because) });
    };
    let longest = seen.map_or(Nanos::ZERO, Series::maximum);
    if longest > demand.beside_one_job(most) {
        return Err(Refused::plainly(format!(
            "every activation is promised and {most} is declared as the largest work, but a job of {longest} was measured: \
             declare what its jobs need at the most"
        )));
    }
    let work = Nanos::new(most.div_ceil(Nanos::new(i64::from(budgets.max(1)))));
    let mut steps =
        vec![format!("the largest work declared is {most}: {work} in each of {budgets} budget(s)")];
    if let Some(seen) = seen {
        steps.push(format!("{} measured jobs, the largest {longest}, do not contradict it", seen.n));
    }
    Ok(Sizing {
        work,
        required: 1.0,
        proven_for: TimeDistribution::Constant(most),
        modes: None,
        measured: None,
        at_most: 1.0,
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
    sizing.measured = Some(seen);
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
            let more = needed.saturating_sub(seen).max(1);
            let because = format!(
                "{seen} measured jobs{} do not bound the {at} quantile, and no family fits: it needs {more} more jobs",
                if fit.beyond > 0 {
                    format!(", {} of them of unknown length,", fit.beyond)
                } else {
                    String::new()
                },
            );
            return Err(Refused { more_jobs: Some(more), ..Refused::plainly(because) });
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
            sizing.steps.push(format!(
                "no family fits: the largest of {} jobs, {largest}, and {} % on top",
                series.n,
                SAMPLE_MARGIN_PERMILLE / 10
            ));
            sizing.required = promised;
            from_samples(sizing, &series.samples, fit.beyond, at, search)?;
            sizing.work = sizing.work.max(with_margin).max(work);
        }
    }
    sizing.assumptions.push("jobs will be like those measured".to_owned());
    if let Some(found) = fit.independence.filter(|found| !found.holds() && fit.modes.is_none()) {
        sizing.assumptions.push(format!(
            "the measured jobs are correlated (r1 = {:.3}, independent ones stay within {:.3}): the fraction is proven only \
             as far as work is independent",
            found.lag_one, found.bound
        ));
    }
    Ok(())
}

/// Sizes from samples alone: for the longest work they leave possible.
fn from_samples(
    sizing: &mut Sizing,
    samples: &Empirical,
    unknown: u64,
    at: Probability,
    search: impl Fn(&TimeDistribution, f64) -> Result<Nanos, Refused>,
) -> Result<(), Refused> {
    let n = samples.total() + unknown;
    sizing.measured = Some(n);
    sizing.at_most = 1.0 - failure_upper(unknown, n, CONFIDENCE);
    if sizing.at_most < at.as_f64() {
        let more = max_more(n, at);
        let because = format!(
            "{n} measured jobs bound no more than the {:.4} % quantile of its work with 95 % confidence: it needs {more} more jobs",
            (sizing.at_most * 1e6).floor() / 1e4
        );
        return Err(Refused { more_jobs: Some(more), ..Refused::plainly(because) });
    }
    let largest = samples.quantile(1.0);
    let worst = worst_in_the_tail(samples, unknown, largest * LARGEST_TIMES, CONFIDENCE)
        .map_err(|error| Refused::plainly(error.to_string()))?;
    sizing.work = search(&worst.work, sizing.required)?;
    sizing.inputs.push(ProofInput::new("sampling error", worst.method));
    sizing.steps.extend(worst.steps);
    sizing.steps.push(format!("for that work budgets worth {} are the smallest that prove it", sizing.work));
    sizing.assumptions.extend(worst.assumptions);
    sizing.proven_for = worst.work;
    Ok(())
}

/// How many more jobs than these bound the quantile, if none of them is beyond the largest.
fn max_more(n: u64, at: Probability) -> u64 {
    let needed = samples_needed_zero_failures(at.as_f64(), CONFIDENCE).unwrap_or(u64::MAX);
    needed.saturating_sub(n).max(1)
}
