//! [`ServedTask`]: the fraction of a task's planned activations that respond within a limit, under a
//! reservation.
//!
//! With inter-release times of at least G there are `z = floor(G/T)` budgets between releases, and within a
//! limit R (release jitter J deducted) `k = floor((R - J - D)/T) + 1` budgets are complete. When no job needs
//! more than `min(k, z)` budgets every one is in time. Otherwise [`crate::cbs`] bounds the fraction.
//!
//! Releases that fall inside a server period need care. With D < T the kernel cuts what is left of a budget
//! at such a waking to `(Q/D)` of the time to the deadline, or lets it wait for the next period
//! (`update_dl_revised_wakeup` and `dl_check_constrained_dl` in `kernel/sched/deadline.c`). A job that needed more
//! than the budgets before the next release leaves the server out of step with the releases, and the jobs behind it
//! find that though they find no backlog. So unless releases stand on a grid of whole server periods, or no job
//! ever needs more, what is left of a begun period counts for nothing: the n-th whole budget after a release is
//! complete by n T + D ([`Counting`]). With D = T the waking rule of the server keeps the sums, as a processor of speed
//! Q/T would. Of a skipping task only jobs that find no backlog are counted, since it may begin a job on a leftover.
//! All of it stands on [`crate::foundation`], and on the server being idle for a period before the first release.

use surety_model::distribution::TimeDistribution;
use surety_model::platform::Enforcement;
use surety_model::reservation::Reservation;
use surety_model::workload::{Late, Release, Sleep, Task};
use surety_units::Nanos;

use crate::cbs::modulated::{
    ModulatedBacklog, ModulatedQueue, ModulatedSolution, ModulatedWork, solution, solve as solve_by_modes,
};
use crate::cbs::solver::solve_roughly;
use crate::cbs::{Backlog, CbsError, Fineness, Queue, Solution, in_order, skip, solve};
use crate::work::{at_most, declared_bound, family, maximum};

/// A task's activation and work beside its reservation.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedTask {
    /// CPU time of a job, interrupts on top included. Work that keeps its order is simulated in it, too, and the smaller answer counts.
    pub work: TimeDistribution,
    /// The modes it comes in, where it is not independent from job to job: then the smaller of both answers counts.
    pub modes: Option<ModulatedWork>,
    /// Releases are at least this far apart.
    pub gap: Nanos,
    /// A release comes up to this much after its planned time.
    pub jitter: Nanos,
    /// Releases come on a grid of exactly `gap`, not merely at least that far apart.
    pub grid: bool,
    /// What becomes of releases that pass.
    pub late: Late,
    /// (Q, D, T).
    pub reservation: Reservation,
    /// How budgets are enforced.
    pub enforcement: Enforcement,
}

/// The smallest inter-arrival time and their jitter; `None` when the task has no release rule.
pub fn release_distance(task: &Task) -> Option<(Nanos, Nanos)> {
    match task.release {
        Release::Unspecified | Release::BackToBack { .. } => None,
        Release::Periodic { period, jitter, .. } => Some((period - jitter, jitter)),
        Release::Sporadic { gap } => Some((gap, Nanos::ZERO)),
    }
}

/// Whether releases stand on a grid of their smallest distance. Those of a task that sleeps for a time move with its late jobs.
pub fn on_grid(task: &Task) -> bool {
    matches!(task.release, Release::Periodic { jitter: Nanos::ZERO, .. }) && task.sleep == Sleep::Absolute
}

/// How a task responds: solved once, asked for any limit.
#[derive(Clone, Debug)]
pub struct Response {
    task: ServedTask,
    /// Budgets between releases.
    between: u32,
    /// The backlog, where there may be one.
    backlog: Option<Backlog>,
    /// The backlog by mode, where work comes in modes.
    modulated: Option<ModulatedBacklog>,
    /// Every job in its order, where that is known.
    jobs: Option<Vec<Nanos>>,
}

/// A proven fraction with the argument for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseBound {
    /// Lower bound of the long-run fraction of planned activations within the limit.
    pub probability: f64,
    /// Which rule.
    pub theorem: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// The numbers.
    pub steps: Vec<String>,
    /// What the rule needs beside the foundation.
    pub assumptions: Vec<String>,
    /// Largest numerical error of an iteration.
    pub residual: Option<f64>,
}

impl ServedTask {
    /// Budgets between two releases.
    pub fn budgets_between(&self) -> u32 {
        budgets(self.gap.div_floor(self.reservation.period))
    }

    /// Budgets complete within a time after the planned release.
    pub fn budgets_within(&self, limit: Nanos) -> u32 {
        let after_first = limit - self.jitter - self.reservation.deadline;
        if after_first.is_negative() {
            0
        } else {
            budgets(after_first.div_floor(self.reservation.period) + 1)
        }
    }

    /// By when this many budgets are complete, after the planned release.
    pub fn complete_after(&self, budgets: u32) -> Nanos {
        let reservation = self.reservation;
        self.jitter + reservation.deadline + reservation.period * (i64::from(budgets) - 1)
    }

    /// Whether no job needs more than the budgets before the next release: then there never is a backlog.
    ///
    /// With D < T and releases off the grid it has to need less: a budget that ends with the job is replenished at the period's
    /// end all the same, and a release after that is left with a part of it.
    pub fn is_bounded(&self) -> bool {
        let Reservation { runtime, deadline, period, .. } = self.reservation;
        let served = runtime * i64::from(self.budgets_between());
        let least_left = if deadline == period || self.is_aligned() { Nanos::ZERO } else { Nanos::new(1) };
        self.needs_at_most(served - least_left)
    }

    /// Whether no job ever needs more than one budget, and none finds a backlog, by what is declared of its work.
    pub fn needs_one_budget(&self) -> bool {
        self.is_surely_bounded() && self.needs_at_most(self.reservation.runtime)
    }

    /// Whether a waking may find a budget begun: not where releases stand on a grid of whole server periods, nor where every
    /// job is declared to be done with the budgets before the next release. Jobs are taken not to wait inside.
    pub fn wakes_inside(&self) -> bool {
        !self.is_aligned() && !self.is_surely_bounded()
    }

    /// [`ServedTask::is_bounded`] by declared work: other threads rely on it, so values seen are not enough.
    fn is_surely_bounded(&self) -> bool {
        declared_bound(&self.work).is_some() && self.is_bounded()
    }

    fn needs_at_most(&self, amount: Nanos) -> bool {
        let fits = |most: Option<Nanos>| most.is_some_and(|most| most <= amount);
        fits(maximum(&self.work)) && self.modes.as_ref().is_none_or(|modes| fits(modes.maximum()))
    }

    /// Solves for the backlog.
    pub fn solve(self) -> Result<Response, CbsError> {
        let between = self.budgets_between();
        if between == 0 {
            return Err(CbsError::NoBudget);
        }
        let needs_backlog = !self.is_bounded() && !self.starts_afresh();
        let backlog = if needs_backlog {
            Some(Backlog::stationary(&self.work, self.reservation.runtime, between)?)
        } else {
            None
        };
        let of_modes = |modes| ModulatedBacklog::stationary(modes, self.reservation.runtime, between);
        let modulated = match self.modes.as_ref().map(of_modes).transpose() {
            // Without a backlog nothing has to be known of the order.
            Err(_) if self.is_bounded() => None,
            found => found?,
        };
        let jobs = in_order::jobs_of(&self.work);
        Ok(Response { task: self, between, backlog, modulated, jobs })
    }

    /// Every release falls on the beginning of a server period, if the server is running at all.
    pub fn is_aligned(&self) -> bool {
        self.grid && self.gap % self.reservation.period == Nanos::ZERO
    }

    fn starts_afresh(&self) -> bool {
        self.late == Late::Skip && self.enforcement == Enforcement::Exact && self.is_aligned()
    }

    /// Whether jobs may be counted that find a backlog, if there is any.
    fn counts_backlogs(&self) -> bool {
        self.late == Late::Queue || self.is_bounded()
    }

    /// Which jobs may be counted.
    pub fn counting(&self) -> Counting {
        let inside = self.reservation.deadline < self.reservation.period && !self.is_aligned();
        match self.late {
            Late::Skip if self.starts_afresh() => Counting::Afresh,
            Late::Skip => Counting::WithoutBacklog { inside },
            Late::Queue => Counting::All { inside },
        }
    }

    /// The whole budgets a job may count on where `within` are complete within the limit of one that finds its server idle.
    pub fn whole(&self, within: u32) -> u32 {
        if self.is_bounded() { within } else { self.counting().whole(within) }
    }
}

/// Which jobs a fraction may count (see the header).
///
/// `inside`: their releases may fall into a server period whose deadline comes before its end, and a job may have to wait for
/// the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// All: the backlog's sums tell when each is done.
    All {
        /// Whether one budget less is complete.
        inside: bool,
    },
    /// Those that find no backlog.
    WithoutBacklog {
        /// Whether one budget less is complete.
        inside: bool,
    },
    /// Every job starts afresh, late ones cost the releases they run over.
    Afresh,
}

impl Counting {
    /// Whether jobs count that find a backlog.
    pub fn is_all(self) -> bool {
        matches!(self, Counting::All { .. })
    }

    /// Whether releases may fall into a begun server period whose deadline comes before its end.
    pub fn is_inside(self) -> bool {
        matches!(self, Counting::All { inside: true } | Counting::WithoutBacklog { inside: true })
    }

    /// Whether jobs that need at most so much never leave anything over at the next release, when so much is served before it.
    ///
    /// With a release inside a period it has to be less: a budget that ends with the job is replenished at the period's end all
    /// the same, and a release after that is left with a part of it.
    fn never_waits(self, most: Option<Nanos>, served: Nanos) -> bool {
        most.is_some_and(|most| if self.is_inside() { most < served } else { most <= served })
    }

    /// The whole budgets a job may count on, of those complete for one that finds its server idle.
    pub fn whole(self, within: u32) -> u32 {
        within.saturating_sub(u32::from(self.is_inside()))
    }
}

/// Longer sums of budgets are refused, so that no sum with another time overflows.
const LONGEST_SERVED: Nanos = Nanos::new(i64::MAX / 8);

/// Budgets that nothing can be computed for are refused.
fn check_budgets(runtime: Nanos, (between, within): (u32, u32)) -> Result<(), CbsError> {
    let count = between.max(within);
    match (between, runtime.is_positive(), runtime.checked_mul(i64::from(count))) {
        (0, _, _) => Err(CbsError::NoBudget),
        (_, false, _) => Err(CbsError::ZeroBudget),
        (_, _, Some(all)) if all <= LONGEST_SERVED => Ok(()),
        _ => Err(CbsError::TooLong { runtime, count }),
    }
}

/// The proven fraction done within `within` budgets worth `runtime` each, `between` of them between releases.
///
/// Only the sums `between x runtime` and `within x runtime` matter, so servers whose counts of budgets are in the same ratio
/// need the same bandwidth for the same fraction.
pub fn proven_fraction(
    work: &TimeDistribution,
    runtime: Nanos,
    (between, within): (u32, u32),
    counting: Counting,
    fineness: Fineness,
) -> Result<f64, CbsError> {
    check_budgets(runtime, (between, within))?;
    if within == 0 {
        return Ok(0.0);
    }
    if counting.never_waits(maximum(work), runtime * i64::from(between)) {
        return Ok(at_most(work, runtime * i64::from(within)));
    }
    let within = counting.whole(within);
    if within == 0 {
        return Ok(0.0);
    }
    if counting == Counting::Afresh {
        return Ok(skip::exact(work, runtime, between, within));
    }
    let solver: &dyn Fn(&Queue) -> Solution = match fineness {
        Fineness::Fine => &solve,
        Fineness::Rough => &solve_roughly,
    };
    let backlog = Backlog::with(work, runtime, between, fineness, solver)?;
    Ok(match counting {
        Counting::All { .. } => backlog.within(within),
        _ => skip::without_backlog(work, runtime, within, &backlog),
    })
}

/// [`proven_fraction`] for work in modes, on a grid of this fineness.
///
/// Of a task that gives up releases only jobs that find no backlog are counted, the mode moving on with every release.
pub fn proven_fraction_with_modes(
    work: &ModulatedWork,
    runtime: Nanos,
    (between, within): (u32, u32),
    counting: Counting,
    fineness: Fineness,
) -> Result<f64, CbsError> {
    check_budgets(runtime, (between, within))?;
    let is_bounded = counting.never_waits(work.maximum(), runtime * i64::from(between));
    let within = if is_bounded { within } else { counting.whole(within) };
    if within == 0 {
        return Ok(0.0);
    }
    let solver: &dyn Fn(&ModulatedQueue) -> ModulatedSolution = match fineness {
        Fineness::Fine => &solve_by_modes,
        Fineness::Rough => &solution::solve_roughly,
    };
    let backlog = ModulatedBacklog::with(work, runtime, between, fineness, solver)?;
    Ok(match counting {
        Counting::All { .. } => backlog.within(within),
        _ => backlog.without_backlog(within),
    })
}

/// [`proven_fraction`] for jobs that come in this order, over and over.
///
/// Of a task that gives up releases only jobs that find no backlog are counted, the sequence moving on with every release.
pub fn proven_fraction_in_order(
    jobs: &[Nanos],
    runtime: Nanos,
    (between, within): (u32, u32),
    counting: Counting,
) -> Result<f64, CbsError> {
    check_budgets(runtime, (between, within))?;
    let is_bounded = counting.never_waits(jobs.iter().max().copied(), runtime * i64::from(between));
    let within = if is_bounded { within } else { counting.whole(within) };
    Ok(in_order::fraction(jobs, runtime, (between, within), is_bounded || counting.is_all()))
}

/// The fraction of jobs of a queueing task that respond within a limit when the distances of its releases are
/// independent draws, those below `least` as long as that.
///
/// `z = floor(t/T)` budgets lie between a release and one t later, none within a server period. With D = T the n-th budget
/// after a release is complete by n T, with D < T by `n T + D`: what is left of the period it falls into counts for nothing.
///
/// Errors: as [`Backlog::aperiodic`].
pub fn aperiodic(
    work: &TimeDistribution,
    (distance, least): (&TimeDistribution, Nanos),
    reservation: Reservation,
    limit: Nanos,
) -> Result<ResponseBound, CbsError> {
    let Reservation { runtime, deadline, period, .. } = reservation;
    let backlog = Backlog::aperiodic(work, runtime, (distance, least), period)?;
    let whole = if deadline == period { limit } else { limit - deadline };
    let within = if whole.is_negative() { 0 } else { budgets(whole.div_floor(period)) };
    let probability = if within == 0 { 0.0 } else { backlog.within(within) };
    let mut steps = vec![
        format!(
            "inter-arrival times are {}: z whole server periods of {period} between them",
            family(distance)
        ),
        format!("by {limit} after a release {within} budget(s) of {runtime} are complete"),
    ];
    steps.extend(backlog.solution.steps());
    steps.push(format!("P{{response <= {limit}}} >= {probability:.6}"));
    Ok(ResponseBound {
        probability,
        theorem: "constant-bandwidth server, stationary backlog, aperiodic releases",
        source: "Lindley 1952; Abeni and Buttazzo, Real-Time Systems 27, 2004; Palopoli et al., IEEE TPDS 27(3), 2016",
        steps,
        assumptions: vec![
            "work and inter-arrival times are independent, from job to job and of each other, and distributed as given"
                .to_owned(),
        ],
        residual: backlog.solution.residual(),
    })
}

/// Counts of budgets are small; a limit of ages is as good as this many.
fn budgets(count: i64) -> u32 {
    u32::try_from(count.clamp(0, 1 << 16)).expect("clamped to 17 bits")
}

impl Response {
    /// The task it is about.
    pub fn task(&self) -> &ServedTask {
        &self.task
    }

    /// Lower bound of the fraction of planned activations done within this many budgets, counted from an idle server's release.
    pub fn probability(&self, within: u32) -> f64 {
        if within == 0 {
            return 0.0;
        }
        let independent = self.independent(within);
        independent.min(self.by_modes(within).unwrap_or(1.0)).min(self.in_order(within).unwrap_or(1.0))
    }

    /// The same with the jobs simulated in their order, where that is known: no chance is left.
    pub fn in_order(&self, within: u32) -> Option<f64> {
        let jobs = self.jobs.as_ref()?;
        let budgets = (self.between, self.task.whole(within));
        Some(in_order::fraction(jobs, self.task.reservation.runtime, budgets, self.task.counts_backlogs()))
    }

    /// The same as if work were independent from job to job.
    pub fn independent(&self, within: u32) -> f64 {
        let task = &self.task;
        let runtime = task.reservation.runtime;
        let within = task.whole(within);
        if within == 0 {
            return 0.0;
        }
        if task.is_bounded() {
            // No backlog, and `at_most` is exactly 1 from the maximum on.
            return at_most(&task.work, runtime * i64::from(within));
        }
        match &self.backlog {
            Some(backlog) if task.counting().is_all() => backlog.within(within),
            Some(backlog) => skip::without_backlog(&task.work, runtime, within, backlog),
            None => skip::exact(&task.work, runtime, self.between, within),
        }
    }

    /// The same by mode, where work comes in modes.
    pub fn by_modes(&self, within: u32) -> Option<f64> {
        let modulated = self.modulated.as_ref()?;
        let within = self.task.whole(within);
        if within == 0 {
            return Some(0.0);
        }
        let is_summed = self.task.counts_backlogs();
        Some(if is_summed { modulated.within(within) } else { modulated.without_backlog(within) })
    }

    /// The fraction itself where an exact solver found it, nothing was rounded and it counts all jobs, up to the solution's
    /// error; `None` where only bounds are known.
    pub fn exact(&self, within: u32) -> Option<f64> {
        let task = &self.task;
        if self.jobs.is_some() && task.counts_backlogs() {
            return self.in_order(within);
        }
        // Out of step, budgets are a bound of what is done; so is work rounded to a grid, as that of modes always is.
        let is_counted = task.counting() == Counting::All { inside: false };
        if self.modulated.is_some() {
            return None;
        }
        let Some(backlog) = &self.backlog else {
            return task.is_bounded().then(|| self.probability(within));
        };
        let is_exact = backlog.solution.residual().is_some() && backlog.is_lossless() && is_counted;
        is_exact.then(|| backlog.solution.within(within).value)
    }

    /// Who found the backlog; `None` where there never is one, or none is asked for.
    pub fn solver(&self) -> Option<&'static str> {
        if let Some(modulated) = &self.modulated {
            return Some(modulated.solution.solver);
        }
        self.backlog.as_ref().map(|backlog| backlog.solution.solver)
    }

    /// The shortest proven limit for a fraction, if one of up to 64 budgets will do.
    pub fn limit(&self, fraction: f64) -> Option<Nanos> {
        (1..=64).find(|k| self.probability(*k) >= fraction).map(|k| self.task.complete_after(k))
    }

    /// The fraction within a limit with its argument.
    pub fn within(&self, limit: Nanos) -> ResponseBound {
        let task = &self.task;
        let Reservation { runtime, deadline, period, .. } = task.reservation;
        let within = task.budgets_within(limit);
        let probability = self.probability(within);
        let whole = task.whole(within);
        let place = if whole < within { "n" } else { "(n-1)" };
        let mut steps = vec![
            format!(
                "releases are at least {} apart: {} budget(s) of {runtime} before the next one",
                task.gap, self.between
            ),
            format!(
                "by {limit} after a release {whole} budget(s) are complete: the n-th by {place} x {period} + {deadline}{}{}",
                if task.jitter.is_positive() { format!(" + {} jitter", task.jitter) } else { String::new() },
                if whole < within { ", since a release may fall into a begun period" } else { "" }
            ),
        ];
        let mut bound = ResponseBound {
            probability,
            theorem: "",
            source: "Abeni and Buttazzo, Real-Time Systems 27, 2004",
            steps: Vec::new(),
            assumptions: Vec::new(),
            residual: None,
        };
        let independent = || {
            "work is independent from job to job and distributed as given (identically, for ever)".to_owned()
        };
        if task.is_bounded() {
            let most = maximum(&task.work).unwrap_or(Nanos::ZERO);
            bound.theorem = "constant-bandwidth server, bounded work";
            steps.push(format!("no job needs more than {most}, so nothing is ever left over at a release"));
            bound.assumptions.push(format!("no job ever needs more than {most}"));
            if probability < 1.0 {
                bound.assumptions.push(independent());
            }
        } else if let Some(backlog) = &self.backlog {
            bound.theorem = "constant-bandwidth server, stationary backlog";
            bound.source =
                "Lindley 1952; Kingman 1964; Abeni and Buttazzo 2004; Palopoli et al., IEEE TPDS 27(3), 2016";
            bound.residual = backlog.solution.residual();
            bound.assumptions.push(independent());
            steps.push(format!(
                "backlog w' = max(0, w + c - {} x {runtime}), c {}, {}",
                self.between,
                family(&task.work),
                backlog.grid_in_words()
            ));
            if let Some(decay) = backlog.solution.decay {
                let per_ms = decay / backlog.step().as_millis_f64();
                steps.push(format!("exponential bound P{{w > x}} <= exp(-{per_ms:.4} x/ms)"));
            }
            steps.extend(backlog.solution.steps());
            if !task.counting().is_all() {
                steps.push(
                    "only jobs that find no backlog are counted: P{w = 0} x P{c within the budgets}"
                        .to_owned(),
                );
            }
            steps.push(format!(
                "P{{w = 0}} >= {:.6}, {:.1e} deducted for cuts and rounding",
                backlog.none(),
                backlog.deducted
            ));
        } else {
            bound.theorem = "constant-bandwidth server, releases skipped while late";
            bound.assumptions.push(independent());
            steps.push(
                "every job starts without backlog; a late one costs the releases it runs over".to_owned(),
            );
        }
        if let Some(modulated) = &self.modulated {
            bound.theorem = "constant-bandwidth server, stationary backlog of work in modes";
            bound.source = modulated.solution.source;
            bound.residual = modulated.solution.certificate.as_ref().map(|found| found.residual);
            bound.assumptions.clear();
            bound.assumptions.push(format!(
                "work is independent from job to job as long as the mode is the same, and {} modes follow each other as a \
                 Markov chain",
                modulated.shares().len()
            ));
            steps.push(format!(
                "as if work were independent from job to job: P{{response <= {limit}}} >= {:.6}",
                self.independent(within)
            ));
            let shares: Vec<String> =
                modulated.shares().iter().map(|share| format!("{:.2} %", share * 100.0)).collect();
            steps.push(format!(
                "backlog by mode, w' = max(0, w + c_g - {} x {runtime}), modes in {} of the jobs",
                self.between,
                shares.join(", ")
            ));
            steps.extend(modulated.solution.steps());
            steps.push(format!(
                "with modes: P{{response <= {limit}}} >= {:.6}; the smaller of both counts",
                self.by_modes(within).unwrap_or(0.0)
            ));
        }
        if let (Some(jobs), Some(in_order)) = (&self.jobs, self.in_order(within)) {
            let counted = if task.counts_backlogs() { "" } else { ", those that find no backlog counted" };
            steps.push(format!(
                "its {} jobs in their order, over and over, w' = max(0, w + c - {} x {runtime}): P{{response <= {limit}}} \
                 = {in_order:.6} in the long run{counted}; the smallest counts",
                jobs.len(),
                self.between
            ));
            if !task.is_bounded() && in_order <= probability {
                bound.theorem = "constant-bandwidth server, every job in its order";
                bound.source = "Lindley 1952; Abeni and Buttazzo, Real-Time Systems 27, 2004";
                bound.residual = None;
            }
            // The answers by chance are no greater, so this is all that has to hold.
            bound.assumptions =
                vec![format!("its {} jobs come in the order declared, over and over", jobs.len())];
        }
        steps.push(format!("P{{response <= {limit}}} >= {probability:.6}"));
        bound.steps = steps;
        bound
    }
}

#[cfg(test)]
mod tests;
