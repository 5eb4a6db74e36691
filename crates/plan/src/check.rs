//! [`check`]: a plan verified again by somebody else: from its claims alone, with another solver than the plan used, and in
//! the simulator.
//!
//! First the parts of the file are compared with each other (`altered`). Of every claim two things are asked then: does an
//! independent computation agree, and does a simulation of the whole plan beside busy loops on every CPU, on the plan's own
//! platform with its enforcement, contradict it. The simulation has a fixed seed; it runs the work alone, without the costs the
//! budgets pay beside, and refutes a fraction when its upper confidence limit is below what is claimed.
//!
//! A computation refutes a fraction only with an upper bound below it. Where what it found leaves both possible it says so, and
//! the simulation decides.

mod altered;
mod in_order;
mod proof;
mod running;
mod simulated;
mod streams;
mod upper;

#[cfg(test)]
mod tests;

use surety_analysis::Supply;
use surety_analysis::cbs::grid::SPACING_MAX;
use surety_analysis::cbs::solver::reduction::{CyclicReduction, LogReduction};
use surety_analysis::cbs::solver::wiener_hopf::WienerHopf;
use surety_analysis::cbs::solver::{Solver, in_turn};
use surety_analysis::cbs::{Backlog, CbsError, Fineness, Queue, Solution};
use surety_analysis::foundation::{Domain, Foundation, ReservedThread};
use surety_analysis::interrupts::throughput::{closed, open};
use surety_analysis::overheads;
use surety_analysis::response::{Counting, ServedTask};
use surety_analysis::work::{at_most, maximum, mean};
use surety_model::claim::{
    Claim, ClaimedArrivals, ClaimedWork, ClaimedWorkError, RequestClaim, ResponseClaim, Subject,
};
use surety_model::distribution::TimeDistribution;
use surety_model::plan::{Left, Plan};
use surety_model::platform::{Enforcement, Platform};
use surety_model::promise::Promise;
use surety_model::reservation::Reservation;
use surety_model::workload::Late;
use surety_units::{Bandwidth, Nanos};
use thiserror::Error;

use crate::check::in_order::JobsInOrder;
pub use crate::check::running::with_limit_of;
use crate::check::simulated::{Simulated, simulate};
use crate::interrupt::Arriving;
use crate::kept::may_wake_inside;
use crate::response::modes;

/// A plan's fraction and an independent one differ by at most their proven errors and this.
const ROUNDING: f64 = 1e-9;
/// More room than this in a device counts as this.
const HELD_MAX: u64 = 1_000_000;
/// Interrupts farther apart than this count as this far: it is more than two of the kernel's longest periods.
const DISTANCE_MAX: Nanos = Nanos::from_secs(10);

/// Why a plan cannot be checked: it is malformed, or was altered.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A reservation without any claim.
    #[error("the plan claims nothing about `{0}`: make it again with `surety plan WORKLOAD --output FILE`")]
    Nothing(String),
    /// A claim without its reservation.
    #[error("the plan claims `{promise}` of `{activity}` and has no reservation for it")]
    NoReservation {
        /// Whose.
        activity: String,
        promise: Promise,
    },
    /// A number that cannot be.
    #[error("{activity}: {what} is {value}: {rule}")]
    Number {
        /// Whose.
        activity: String,
        what: &'static str,
        /// As given.
        value: String,
        /// What it has to be.
        rule: &'static str,
    },
    /// The work is no distribution.
    #[error("{activity}: {source}")]
    Work {
        /// Whose.
        activity: String,
        /// Why.
        source: ClaimedWorkError,
    },
    /// Nothing can be said about the reservation.
    #[error("{activity}: {source}")]
    Unsolved {
        /// Whose.
        activity: String,
        /// Why.
        source: CbsError,
    },
    /// Two places of the file that say the same say different things.
    #[error("{activity}: {one} and {other} differ: the plan was altered")]
    Altered {
        /// Whose.
        activity: String,
        /// What one place says.
        one: String,
        /// What the other says.
        other: String,
    },
    /// The costs were taken away.
    #[error(
        "{activity}: a budget pays {value}, and `surety plan` deducts at least {least}: the plan was altered"
    )]
    Costs {
        /// Whose.
        activity: String,
        /// What it pays beside its work.
        value: String,
        /// What it has to.
        least: String,
    },
    /// A budget is worth more than it holds.
    #[error(
        "{activity}: a runtime of {runtime} leaves {left} with its costs deducted, not {worth}: the plan was altered"
    )]
    Worth {
        /// Whose.
        activity: String,
        /// Q.
        runtime: String,
        left: String,
        /// What is claimed to be.
        worth: String,
    },
    /// More than is computed or simulated.
    #[error("{what}: {value}, outside what is checked ({most})")]
    TooMuch {
        /// Which number.
        what: &'static str,
        /// As given.
        value: String,
        /// The most, or the range.
        most: String,
    },
    /// What was asked of disks cannot be read.
    #[error("what streams were planned for (`asked`) cannot be used: {0}")]
    Asked(String),
    /// The simulator does not run it.
    #[error("the plan cannot be simulated: {0}")]
    Simulation(String),
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// By whom.
    pub by: &'static str,
    /// Whether nothing it found is against the claim.
    pub agrees: bool,
    /// Whether it could tell; else the simulation decides.
    pub decided: bool,
    /// The numbers.
    pub words: String,
}

impl Finding {
    fn told(by: &'static str, agrees: bool, words: String) -> Finding {
        Finding { by, agrees, decided: true, words }
    }
}

/// A claim with what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Whose.
    pub activity: String,
    pub promise: Promise,
    /// Each thing that was looked at.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// Whether everything agrees.
    pub fn agrees(&self) -> bool {
        self.findings.iter().all(|finding| finding.agrees)
    }
}

/// Verifies a plan again as it was written to a file: its proofs are sealed, and it says what it leaves. Where it was made for the running
/// machine, it has to stand with the deadline servers that this one has now, too.
///
/// Errors: as [`check`]; a proof is not as it was sealed, or something else is left.
pub fn check_written(
    plan: &Plan,
    claims: &[Claim],
    left: Option<&Left>,
    running: Option<&Platform>,
) -> Result<Vec<Checked>, CheckError> {
    proof::sealed(plan)?;
    proof::same_left(plan, claims, left)?;
    let mut checked = check(plan, claims)?;
    let mut found = Vec::new();
    if let Some(running) = running {
        found.extend(running::with_servers_of(running, plan, claims)?);
        if running::is_of(running, plan) {
            found.extend(with_limit_of(running, plan, claims)?);
        }
        found.extend(running::with_cpus_of(running, plan));
    }
    for finding in found {
        checked.iter_mut().for_each(|claim| claim.findings.push(finding.clone()));
    }
    Ok(checked)
}

/// Verifies a plan again.
///
/// Errors: the plan is malformed or altered, with the number that tells it.
pub fn check(plan: &Plan, claims: &[Claim]) -> Result<Vec<Checked>, CheckError> {
    let looked = looks(plan, claims)?;
    let named = threads(plan, claims, &looked);
    let threads: Vec<ReservedThread> = named.iter().map(|(_, thread)| *thread).collect();
    let foundation = Foundation::of(&threads, &overheads::with_busy(&plan.platform));
    let together = Finding::told(
        "admission, EDF, fair server",
        foundation.holds(),
        foundation.objection().unwrap_or_else(|| foundation.edf.theorem.to_owned()),
    );
    let alone = foundation.edf.alone;
    proof::same_argument(plan, &looked, &threads)?;
    // What the kernel would not admit cannot run.
    let played = match foundation.refused {
        Some(_) => Vec::new(),
        None if looked.is_empty() => Vec::new(),
        None => played(plan, claims, &named, &foundation)?,
    };
    let streams = streams::checked(plan, &named)?;
    let mut checked = looked
        .iter()
        .map(|look| {
            let mut findings = vec![together.clone(), look.computed(alone)?, look.simulated(&played)];
            findings.extend(look.played_in_modes()?);
            findings.extend(look.in_order());
            Ok(Checked { activity: look.claim.activity.clone(), promise: look.claim.promise, findings })
        })
        .collect::<Result<Vec<_>, CheckError>>()?;
    checked.extend(streams);
    Ok(checked)
}

/// The claims of a file whose parts fit each other, each beside its reservation.
fn looks<'a>(plan: &'a Plan, claims: &'a [Claim]) -> Result<Vec<Look<'a>>, CheckError> {
    altered::unaltered(plan, claims)?;
    let mut looked = Vec::new();
    for claim in claims {
        let planned = plan.reservation_of(&claim.activity).ok_or_else(|| CheckError::NoReservation {
            activity: claim.activity.clone(),
            promise: claim.promise,
        })?;
        looked.push(Look { plan, claim, reservation: planned.reservation });
    }
    for look in &looked {
        look.well_formed()?;
    }
    Ok(looked)
}

/// The threads of an unaltered plan that have reservations.
fn reserved_threads(plan: &Plan, claims: &[Claim]) -> Result<Vec<ReservedThread>, CheckError> {
    let looked = looks(plan, claims)?;
    Ok(threads(plan, claims, &looked).into_iter().map(|(_, thread)| thread).collect())
}

/// Every reserved thread with its activity's name, in the order of the plan.
fn threads<'a>(plan: &'a Plan, claims: &[Claim], looked: &[Look<'_>]) -> Vec<(&'a str, ReservedThread)> {
    plan.reservations
        .iter()
        .flat_map(|planned| {
            let own = claims.iter().filter(|claim| claim.activity == planned.activity);
            let count = own.map(|claim| claim.threads).max().unwrap_or(1);
            let looks = || looked.iter().filter(|l| l.claim.activity == planned.activity);
            let one_budget = |task: &ServedTask, measured: bool| !measured && task.needs_one_budget();
            let bounded = looks().any(|look| !look.claim.wakes_inside && look.is_served(one_budget));
            let inside = |look: &&Look<'_>| look.is_served(may_wake_inside);
            let responses = || looks().filter(|look| matches!(look.claim.about, Subject::Response(_)));
            let sleeps = looks().any(|look| look.claim.wakes_inside)
                || (responses().next().is_some() && responses().all(|look| inside(&look)));
            let thread = ReservedThread { reservation: planned.reservation, bounded, sleeps };
            vec![(planned.activity.as_str(), thread); count as usize]
        })
        .collect()
}

/// The plan played: root domain by root domain where there are several, each with its threads on its CPUs.
fn played(
    plan: &Plan,
    claims: &[Claim],
    threads: &[(&str, ReservedThread)],
    foundation: &Foundation,
) -> Result<Vec<Simulated>, CheckError> {
    if plan.platform.root_domains.is_empty() {
        return Ok(vec![simulate(plan, claims)?]);
    }
    let in_domain = |domain: &Domain| {
        let own =
            |activity: &str| domain.threads.iter().filter(|at| threads[**at].0 == activity).count() as u32;
        let mut part = plan.clone();
        part.reservations.retain(|planned| own(&planned.activity) > 0);
        let platforms = plan.platform.domains().into_iter();
        let mut platform = platforms.filter(|(cpus, _)| *cpus == domain.cpus).map(|(_, platform)| platform);
        part.platform = platform.next().unwrap_or_else(|| plan.platform.clone());
        let claims: Vec<Claim> = (claims.iter().filter(|claim| own(&claim.activity) > 0))
            .map(|claim| Claim { threads: own(&claim.activity), ..claim.clone() })
            .collect();
        simulate(&part, &claims)
    };
    foundation.domains().iter().map(in_domain).collect()
}

/// A claim beside its reservation.
struct Look<'a> {
    plan: &'a Plan,
    claim: &'a Claim,
    reservation: Reservation,
}

impl Look<'_> {
    fn wrong(&self, what: &'static str, value: impl ToString, rule: &'static str) -> CheckError {
        CheckError::Number { activity: self.claim.activity.clone(), what, value: value.to_string(), rule }
    }

    fn work_of(&self, work: &surety_model::claim::ClaimedWork) -> Result<TimeDistribution, CheckError> {
        work.distribution()
            .map_err(|source| CheckError::Work { activity: self.claim.activity.clone(), source })
    }

    fn well_formed(&self) -> Result<(), CheckError> {
        match &self.claim.about {
            Subject::Share { .. } => Ok(()),
            Subject::Requests(claim) => {
                let most = longest(&self.work_of(&claim.work)?);
                if most > claim.worth {
                    let rule = "one budget has to be enough for a request";
                    return Err(self.wrong("the work of a request", most.to_string(), rule));
                }
                Ok(())
            }
            Subject::Response(claim) => self.response_well_formed(claim),
        }
    }

    fn response_well_formed(&self, claim: &ResponseClaim) -> Result<(), CheckError> {
        if claim.proven < claim.promised - ROUNDING {
            let rule = "less than is promised: the plan was altered";
            return Err(self.wrong("the proven fraction", claim.proven, rule));
        }
        let work = self.work_of(&claim.work)?;
        let task = self.served(claim, work);
        let between = task.budgets_between();
        if between == 0 {
            return Err(self.unsolved(CbsError::NoBudget));
        }
        if i64::from(between) > SPACING_MAX {
            let rule = "at most 128 are told apart";
            return Err(self.wrong("the number of budgets between releases", between, rule));
        }
        let budget_ns = claim.worth.get() as f64 * f64::from(between);
        if mean(&task.work) >= budget_ns {
            let (mean_ms, budget_ms) = (mean(&task.work) / 1e6, budget_ns / 1e6);
            return Err(self.unsolved(CbsError::Unstable { mean_ms, budget_ms }));
        }
        Ok(())
    }

    fn unsolved(&self, source: CbsError) -> CheckError {
        CheckError::Unsolved { activity: self.claim.activity.clone(), source }
    }

    fn served(&self, claim: &ResponseClaim, work: TimeDistribution) -> ServedTask {
        ServedTask {
            work,
            modes: claim.modes.as_ref().and_then(|modes| modes::work_of(modes).ok()),
            gap: claim.gap,
            jitter: claim.jitter + overheads::busy(&self.plan.platform.overheads),
            grid: claim.grid,
            late: if claim.skips { Late::Skip } else { Late::Queue },
            reservation: Reservation { runtime: claim.worth, ..self.reservation },
            enforcement: self.enforcement(),
        }
    }

    /// How budgets end where the CPU may be busy when one is used up.
    fn enforcement(&self) -> Enforcement {
        overheads::enforcement(&self.plan.platform)
    }

    fn is_served(&self, is_so: impl Fn(&ServedTask, bool) -> bool) -> bool {
        let Subject::Response(claim) = &self.claim.about else { return false };
        claim.work.distribution().is_ok_and(|work| is_so(&self.served(claim, work), claim.measured))
    }

    /// The independent computation.
    fn computed(&self, alone: bool) -> Result<Finding, CheckError> {
        match &self.claim.about {
            Subject::Response(claim) => self.recomputed(claim),
            Subject::Share { share, over } => Ok(self.supplied(*share, *over, alone)),
            Subject::Requests(claim) => self.requests(claim, alone),
        }
    }

    fn recomputed(&self, claim: &ResponseClaim) -> Result<Finding, CheckError> {
        let task = self.served(claim, self.work_of(&claim.work)?);
        let within = task.whole(task.budgets_within(claim.limit));
        let reach = claim.worth * i64::from(within);
        let between = task.budgets_between();
        if task.is_bounded() || task.counting() == Counting::Afresh {
            // Without a backlog one value of the distribution decides; late jobs of a skipping task cost releases.
            let jobs = at_most(&task.work, reach);
            let all = if task.is_bounded() {
                jobs
            } else {
                jobs / releases_of_a_job(&task.work, claim.worth * i64::from(between))
            };
            return Ok(Finding::told(
                "the distribution itself",
                all + ROUNDING >= claim.promised.max(claim.proven),
                format!(
                    "no backlog: a fraction of {all:.6} is done within {reach} of work; {:.6} claimed",
                    claim.proven
                ),
            ));
        }
        let other: [&dyn Solver; 2] = match claim.solver.as_deref() {
            Some("wiener-hopf") | None => [&CyclicReduction::default(), &LogReduction::default()],
            _ => [&WienerHopf::default(), &LogReduction::default()],
        };
        let solver = |queue: &Queue| -> Solution { in_turn(&other, queue) };
        let solved = |fineness| {
            Backlog::with(&task.work, claim.worth, between, fineness, &solver)
                .map_err(|source| self.unsolved(source))
        };
        // What is too wide for the other solvers on the fine grid may not be on a rough one, as safe.
        let fine = solved(Fineness::Fine)?;
        let is_exact = fine.solution.residual().is_some();
        let rough = if is_exact { None } else { solved(Fineness::Rough).ok() };
        let fraction = |backlog: &Backlog| match task.counting() {
            Counting::All { .. } => backlog.within(within),
            _ => backlog.none() * at_most(&task.work, reach),
        };
        let backlog = match rough {
            Some(rough) if fraction(&rough) > fraction(&fine) => rough,
            _ => fine,
        };
        let at_least = fraction(&backlog);
        let most = if is_exact {
            let exact = match task.counting() {
                Counting::All { .. } => backlog.solution.within(within).value,
                _ => backlog.solution.backlog_at_most(0).value * at_most(&task.work, reach),
            };
            exact + ROUNDING
        } else {
            upper::at_most(&task, claim.worth, within, &other) + ROUNDING
        };
        let refuted = claim.proven > most;
        let residual = backlog.solution.residual().map_or(String::new(), |r| format!(", residual {r:.1e}"));
        let numbers = format!(
            "at least {at_least:.6}, at most {:.6}{residual}; {:.6} claimed",
            most.min(1.0),
            claim.proven
        );
        let decided = refuted || at_least + 1e-6 >= claim.promised;
        let words = if decided {
            numbers
        } else {
            format!("{numbers}: not decided by this solver, the simulation decides")
        };
        Ok(Finding { by: backlog.solution.solver, agrees: !refuted, decided, words })
    }

    /// What is claimed of jobs whose order is known.
    fn jobs_in_order(&self) -> Option<JobsInOrder> {
        let Subject::Response(claim) = &self.claim.about else { return None };
        let ClaimedWork::Sequence(jobs) = &claim.work else { return None };
        let task = self.served(claim, claim.work.distribution().ok()?);
        Some(JobsInOrder {
            jobs: jobs.clone(),
            worth: claim.worth,
            budgets: (task.budgets_between(), task.whole(task.budgets_within(claim.limit))),
            all: task.is_bounded() || task.counting().is_all(),
            threads: u64::from(self.claim.threads.max(1)),
        })
    }

    /// Jobs summed up in their order, where the claim has one.
    fn in_order(&self) -> Option<Finding> {
        let Subject::Response(claim) = &self.claim.about else { return None };
        let jobs = self.jobs_in_order()?;
        let done = jobs.done();
        let fraction = done as f64 / jobs.jobs.len().max(1) as f64;
        let words = format!(
            "{done} of {} jobs in time in every round through them; {:.6} claimed",
            jobs.jobs.len(),
            claim.proven
        );
        Some(Finding::told("jobs in their order, summed up", fraction + ROUNDING >= claim.proven, words))
    }

    /// Modes played in exact times, where the claim has some.
    fn played_in_modes(&self) -> Result<Option<Finding>, CheckError> {
        let Subject::Response(claim) = &self.claim.about else { return Ok(None) };
        let Some(claimed) = &claim.modes else { return Ok(None) };
        let work = modes::work_of(claimed)
            .map_err(|source| CheckError::Work { activity: self.claim.activity.clone(), source })?;
        let task = self.served(claim, self.work_of(&claim.work)?);
        let budgets = (task.budgets_between(), task.whole(task.budgets_within(claim.limit)));
        let found =
            modes::play(&work, claim.worth, budgets, claim.proven).map_err(|source| self.unsolved(source))?;
        let words = format!(
            "{} of {} jobs in time, {} modes following each other by chance; {:.6} claimed",
            found.done,
            found.jobs,
            work.work.len(),
            claim.proven
        );
        Ok(Some(Finding::told("modes simulated in exact times", found.agrees, words)))
    }

    fn supplied(&self, share: Bandwidth, over: Option<Nanos>, alone: bool) -> Finding {
        let Reservation { runtime, period, .. } = self.reservation;
        let (numerator, denominator) = share.ratio();
        let wanted = |span: Nanos| span.mul_ratio(numerator, denominator);
        let supply = Supply::new(self.reservation, self.enforcement(), alone);
        let in_the_long_run = runtime >= wanted(period);
        let (agrees, words) = match over.filter(|_| in_the_long_run) {
            None => (
                in_the_long_run,
                format!("{runtime} in every {period}, {} are {share} of it", wanted(period)),
            ),
            // The inverse of what the plan asked: how long until as much is guaranteed?
            Some(window) => (
                supply.time_for(wanted(window)) <= window,
                format!("{} are guaranteed within {}", wanted(window), supply.time_for(wanted(window))),
            ),
        };
        Finding::told("supply bound, inverted", agrees, words)
    }

    fn requests(&self, claim: &RequestClaim, alone: bool) -> Result<Finding, CheckError> {
        let work = self.work_of(&claim.work)?;
        let most = longest(&work);
        let useful = Reservation { runtime: claim.worth, ..self.reservation };
        let supply = Supply::new(useful, self.enforcement(), alone);
        let number = |error: surety_analysis::interrupts::InterruptError| {
            self.wrong("its device", error.to_string(), "nothing follows from it")
        };
        let finding = match (claim.rate, claim.arrivals) {
            (Some(rate), ClaimedArrivals::Closed(outstanding, service)) => {
                let in_device = service * i64::from(outstanding);
                let found = closed(outstanding, in_device, most, &supply).map_err(number)?;
                let words =
                    format!("{:.1} to {:.1} a second; {rate:.1} promised", found.at_least, found.at_most);
                Finding::told("bounds of a closed loop", found.at_least >= rate, words)
            }
            (Some(rate), arrivals) => {
                let offered = match arrivals {
                    ClaimedArrivals::Independent(offered) => offered,
                    ClaimedArrivals::Apart(distance) | ClaimedArrivals::Closed(_, distance) => {
                        1e9 / distance.get() as f64
                    }
                };
                let capacity = open(offered, most, &useful).map_err(number)?.at_most;
                let apart = match arrivals {
                    ClaimedArrivals::Apart(distance) => Some(distance),
                    _ => None,
                };
                let keeps = |held| apart.is_some_and(|distance| keeps_up(&supply, distance, most, held));
                let (least, how) = match claim.buffer {
                    None => (offered.min(capacity), "any number is held".to_owned()),
                    Some(held) if keeps(held) => (offered, format!("none is lost with room for {held}")),
                    Some(held) => {
                        let source = Arriving { offered, apart };
                        let overrun = self.enforcement().overrun_max();
                        let least = source.through(&useful, most, held, overrun).map_err(number)?;
                        (least.map_or(0.0, |(least, _)| least), format!("with room for {held}"))
                    }
                };
                let words = format!(
                    "at least {least:.1} a second, at most {:.1}, {how}; {rate:.1} promised",
                    offered.min(capacity)
                );
                Finding::told(
                    "utilisation law and loss of the queue",
                    least * (1.0 + ROUNDING) >= rate,
                    words,
                )
            }
            (None, ClaimedArrivals::Closed(outstanding, _))
                if claim.buffer.is_none_or(|held| held >= u64::from(outstanding)) =>
            {
                let words = format!("at most {outstanding} are in flight");
                Finding::told("the loop itself", true, words)
            }
            (None, ClaimedArrivals::Independent(_)) => Finding::told(
                "arrivals",
                false,
                "interrupts without a minimum inter-arrival time fill any buffer at last".to_owned(),
            ),
            (None, ClaimedArrivals::Apart(distance) | ClaimedArrivals::Closed(_, distance)) => {
                let held = claim.buffer.unwrap_or(u64::MAX);
                let agrees = keeps_up(&supply, distance, most, held);
                let words = match claim.buffer {
                    Some(held) => format!(
                        "request n comes after {distance} x (n - 1), and n - {held} requests of {most} are guaranteed by \
                         then{}",
                        if agrees { "" } else { ": not always" }
                    ),
                    None => "any number is held".to_owned(),
                };
                Finding::told("supply bound, inverted", agrees, words)
            }
        };
        Ok(finding)
    }

    fn simulated(&self, played: &[Simulated]) -> Finding {
        let least = self.jobs_in_order().map(|jobs| move |of| jobs.least(of));
        let least = least.as_ref().map(|least| least as &dyn Fn(u64) -> u64);
        let said: Vec<(bool, String)> = (played.iter().filter(|p| p.ran(&self.claim.activity)))
            .map(|p| p.says(self.claim, least))
            .collect();
        let agrees = !said.is_empty() && said.iter().all(|(agrees, _)| *agrees);
        let words: Vec<String> = said.into_iter().map(|(_, words)| words).collect();
        let words = if words.is_empty() { "it did not run".to_owned() } else { words.join("; ") };
        Finding::told("simulation", agrees, words)
    }
}

/// The longest work of a request, at least 1 ns; of work without a longest its mean.
fn longest(work: &TimeDistribution) -> Nanos {
    maximum(work).unwrap_or(Nanos::from_f64_rounded(mean(work))).max(Nanos::new(1))
}

/// Releases that a job of a skipping task uses up on average: 1 and what it runs over.
fn releases_of_a_job(work: &TimeDistribution, served: Nanos) -> f64 {
    let beyond = |j: i64| 1.0 - at_most(work, served * j);
    1.0 + (1..=10_000).map(beyond).take_while(|p| *p > 1e-15).sum::<f64>()
}

/// Whether room for `held` is always enough: when request n comes, n - held have been handled, by the inverse of the supply.
fn keeps_up(supply: &Supply, distance: Nanos, work: Nanos, held: u64) -> bool {
    // Less room and interrupts closer together are harder.
    let held = i64::try_from(held.min(HELD_MAX)).expect("a million fits");
    let distance = distance.min(DISTANCE_MAX);
    let mut n = held + 1;
    loop {
        let now = distance * (n - 1);
        let handled = n - held;
        if supply.time_for(work * handled) > now {
            return false;
        }
        // The line below the supply is above all that have come: it stays so.
        if supply.linear(now) > work * n {
            return true;
        }
        n += 1;
        if n > 10_000_000 {
            return false;
        }
    }
}
