//! [`check`]: a plan verified again by somebody else: from its claims alone, with another solver than the plan used, and in
//! the simulator.
//!
//! Of every claim three things are asked: does it fit its reservation (an altered file is told by its numbers), does an
//! independent computation agree, and does a simulation of the whole plan beside busy loops on every CPU, on the plan's own
//! platform with its enforcement, contradict it. The simulation has a fixed seed; it runs the work alone, without the costs the
//! budgets pay beside, and refutes a fraction when its upper confidence limit is below what is claimed.

use surety_analysis::Supply;
use surety_analysis::cbs::reduction::{CyclicReduction, LogReduction};
use surety_analysis::cbs::solver::{Solver, in_turn};
use surety_analysis::cbs::wiener_hopf::WienerHopf;
use surety_analysis::cbs::{Backlog, CbsError, Fineness, Queue, Solution, WorkGrid};
use surety_analysis::foundation::{Domain, Foundation, ReservedThread};
use surety_analysis::interrupts::throughput::{closed, open};
use surety_analysis::response::{Counting, ServedTask};
use surety_analysis::work::{at_most, maximum, mean};
use surety_model::claim::{Claim, ClaimedArrivals, ClaimedWorkError, RequestClaim, ResponseClaim, Subject};
use surety_model::distribution::TimeDistribution;
use surety_model::plan::Plan;
use surety_model::reservation::Reservation;
use surety_model::workload::Late;
use surety_units::{Bandwidth, Nanos};
use thiserror::Error;

use crate::modes;
use crate::played::{Played, play};

/// A plan's fraction and an independent one differ by at most their proven errors and this.
const ROUNDING: f64 = 1e-9;

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
        /// What.
        promise: String,
    },
    /// A promise that is none.
    #[error("{activity}: `{promise}` is no promise: {why}")]
    Promise {
        /// Whose.
        activity: String,
        /// As given.
        promise: String,
        /// Why.
        why: String,
    },
    /// A number that cannot be.
    #[error("{activity}: {what} is {value}: {rule}")]
    Number {
        /// Whose.
        activity: String,
        /// Which.
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
    /// The simulator does not run it.
    #[error("the plan cannot be simulated: {0}")]
    Simulation(String),
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// By whom.
    pub by: &'static str,
    /// Whether it agrees.
    pub agrees: bool,
    /// The numbers.
    pub words: String,
}

/// A claim with what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Whose.
    pub activity: String,
    /// What.
    pub promise: String,
    /// Each thing that was looked at.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// Whether everything agrees.
    pub fn agrees(&self) -> bool {
        self.findings.iter().all(|finding| finding.agrees)
    }
}

/// Verifies a plan again.
///
/// Errors: the plan is malformed or altered, with the number that tells it.
pub fn check(plan: &Plan, claims: &[Claim]) -> Result<Vec<Checked>, CheckError> {
    for planned in &plan.reservations {
        if !claims.iter().any(|claim| claim.activity == planned.activity) {
            return Err(CheckError::Nothing(planned.activity.clone()));
        }
    }
    let mut looked = Vec::new();
    for claim in claims {
        let planned = plan.reservation_of(&claim.activity).ok_or_else(|| CheckError::NoReservation {
            activity: claim.activity.clone(),
            promise: claim.promise.clone(),
        })?;
        looked.push(Look { plan, claim, reservation: planned.reservation });
    }
    for look in &looked {
        look.well_formed()?;
    }
    let named: Vec<(&str, ReservedThread)> = plan
        .reservations
        .iter()
        .flat_map(|planned| {
            let own = claims.iter().filter(|claim| claim.activity == planned.activity);
            let count = own.map(|claim| claim.threads).max().unwrap_or(1);
            let bounded = looked.iter().any(|l| l.claim.activity == planned.activity && l.is_bounded());
            let thread = ReservedThread { reservation: planned.reservation, bounded };
            vec![(planned.activity.as_str(), thread); count as usize]
        })
        .collect();
    let threads: Vec<ReservedThread> = named.iter().map(|(_, thread)| *thread).collect();
    let foundation = Foundation::of(&threads, &plan.platform, 0);
    let together = Finding {
        by: "admission, EDF, fair server",
        agrees: foundation.holds(),
        words: foundation.objection().unwrap_or_else(|| foundation.edf.theorem.to_owned()),
    };
    let alone = foundation.edf.alone;
    let played = played(plan, claims, &named, &foundation)?;
    looked
        .iter()
        .map(|look| {
            let mut findings = vec![together.clone(), look.computed(alone)?, look.simulated(&played)];
            findings.extend(look.played_in_modes()?);
            Ok(Checked {
                activity: look.claim.activity.clone(),
                promise: look.claim.promise.clone(),
                findings,
            })
        })
        .collect()
}

/// The plan played: root domain by root domain where there are several, each with its threads on its CPUs.
fn played(
    plan: &Plan,
    claims: &[Claim],
    threads: &[(&str, ReservedThread)],
    foundation: &Foundation,
) -> Result<Vec<Played>, CheckError> {
    if plan.platform.root_domains.is_empty() {
        return Ok(vec![play(plan, claims)?]);
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
        play(&part, &claims)
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
        if self.claim.threads == 0 {
            return Err(self.wrong("its number of threads", 0, "at least one has the reservation"));
        }
        match &self.claim.about {
            Subject::Share { .. } => Ok(()),
            Subject::Requests(claim) => {
                if !claim.worth.is_positive() || claim.worth > self.reservation.runtime {
                    let rule = "a budget leaves more than nothing and at most itself for requests";
                    return Err(self.wrong(
                        "what a budget leaves for requests",
                        claim.worth.to_exact_string(),
                        rule,
                    ));
                }
                let apart = match claim.arrivals {
                    ClaimedArrivals::Apart(time) | ClaimedArrivals::Closed(_, time) => time.is_positive(),
                    ClaimedArrivals::Independent(rate) => rate.is_normal() && rate > 0.0,
                };
                if !apart {
                    return Err(self.wrong("the distance of interrupts", "0", "it has to be positive"));
                }
                self.work_of(&claim.work).map(|_| ())
            }
            Subject::Response(claim) => self.response_well_formed(claim),
        }
    }

    fn response_well_formed(&self, claim: &ResponseClaim) -> Result<(), CheckError> {
        for (what, value) in
            [("the promised fraction", claim.promised), ("the proven fraction", claim.proven)]
        {
            if !(0.0..=1.0).contains(&value) {
                return Err(self.wrong(what, value, "a fraction lies between 0 and 1"));
            }
        }
        for (what, time) in [("the distance of releases", claim.gap), ("the limit", claim.limit)] {
            if !time.is_positive() {
                return Err(self.wrong(what, time.to_exact_string(), "it has to be positive"));
            }
        }
        if claim.jitter.is_negative() || claim.beside.is_negative() {
            return Err(self.wrong("a jitter or cost", "negative", "times are not negative"));
        }
        if !claim.worth.is_positive() {
            let rule = "a server without a budget serves nobody";
            return Err(self.wrong("the budget left for work", claim.worth.to_exact_string(), rule));
        }
        let costs = claim.worth.mul_ratio(1000 + u64::from(claim.permille), 1000) + claim.beside;
        if costs > self.reservation.runtime + Nanos::new(1) {
            return Err(self.wrong(
                "the runtime",
                self.reservation.runtime.to_exact_string(),
                "with its costs deducted it is not worth the work that is claimed: the plan was altered",
            ));
        }
        let work = self.work_of(&claim.work)?;
        let task = self.served(claim, work);
        let between = task.budgets_between();
        if between == 0 {
            return Err(self.unsolved(CbsError::NoBudget));
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
            jitter: claim.jitter,
            grid: claim.grid,
            late: if claim.skips { Late::Skip } else { Late::Queue },
            reservation: Reservation { runtime: claim.worth, ..self.reservation },
            enforcement: self.plan.platform.enforcement,
        }
    }

    fn is_bounded(&self) -> bool {
        let Subject::Response(claim) = &self.claim.about else { return false };
        claim.work.distribution().is_ok_and(|work| self.served(claim, work).is_bounded())
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
        let within = task.budgets_within(claim.limit);
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
            return Ok(Finding {
                by: "the distribution itself",
                agrees: all + ROUNDING >= claim.promised.max(claim.proven),
                words: format!(
                    "no backlog: a fraction of {all:.6} is done within {reach} of work; {:.6} claimed",
                    claim.proven
                ),
            });
        }
        let other: [&dyn Solver; 2] = match claim.solver.as_deref() {
            Some("wiener-hopf") | None => [&CyclicReduction::default(), &LogReduction::default()],
            _ => [&WienerHopf::default(), &LogReduction::default()],
        };
        let solver = |queue: &Queue| -> Solution { in_turn(&other, queue) };
        let backlog = Backlog::with(&task.work, claim.worth, between, Fineness::Fine, &solver)
            .map_err(|source| self.unsolved(source))?;
        let (at_least, value) = match task.counting() {
            Counting::All => {
                let found = backlog.solution.within(within);
                (backlog.within(within), found.value)
            }
            _ => {
                let jobs = at_most(&task.work, reach);
                (backlog.none() * jobs, backlog.solution.backlog_at_most(0).value * jobs)
            }
        };
        let residual = backlog.solution.residual();
        let (agrees, words) = match residual {
            Some(residual) => (
                claim.proven <= value + ROUNDING && at_least + 1e-6 >= claim.promised,
                format!(
                    "{value:.6}, at least {at_least:.6} (residual {residual:.1e}); {:.6} claimed",
                    claim.proven
                ),
            ),
            None => {
                let most = self.at_most(&task, claim.worth, within, &other)?;
                (
                    at_least + 1e-6 >= claim.promised && claim.proven <= most + ROUNDING,
                    format!(
                        "too wide to be solved as it is: a bound of at least {at_least:.6}, and at most {most:.6} with work \
                         rounded down; {:.6} claimed",
                        claim.proven
                    ),
                )
            }
        };
        Ok(Finding { by: backlog.solution.solver, agrees, words })
    }

    /// Modes played in exact times, where the claim has some.
    fn played_in_modes(&self) -> Result<Option<Finding>, CheckError> {
        let Subject::Response(claim) = &self.claim.about else { return Ok(None) };
        let Some(claimed) = &claim.modes else { return Ok(None) };
        let work = modes::work_of(claimed)
            .map_err(|source| CheckError::Work { activity: self.claim.activity.clone(), source })?;
        let task = self.served(claim, self.work_of(&claim.work)?);
        let budgets = (task.budgets_between(), task.budgets_within(claim.limit));
        let found =
            modes::play(&work, claim.worth, budgets, claim.proven).map_err(|source| self.unsolved(source))?;
        let words = format!(
            "{} of {} jobs in time, {} modes following each other by chance; {:.6} claimed",
            found.done,
            found.jobs,
            work.work.len(),
            claim.proven
        );
        Ok(Some(Finding { by: "modes played in exact times", agrees: found.agrees, words }))
    }

    /// An upper bound of the fraction from a coarser grid, with work rounded down and budgets rounded up.
    fn at_most(
        &self,
        task: &ServedTask,
        worth: Nanos,
        within: u32,
        solvers: &[&dyn Solver],
    ) -> Result<f64, CheckError> {
        let between = task.budgets_between();
        let failed = |source| self.unsolved(source);
        let mut found = 1.0;
        for cells in [200, 100, 50, 25] {
            let grid =
                WorkGrid::new(&task.work, worth, (cells / i64::from(between)).max(2)).map_err(failed)?;
            let mut masses = grid.masses.clone();
            let cut = grid.cut();
            let first = masses.remove(0);
            if masses.is_empty() {
                masses.push(0.0);
            }
            masses[0] += first + cut;
            let queue = Queue::periodic(masses, between, grid.budget + 1).map_err(failed)?;
            let solution = in_turn(solvers, &queue);
            if solution.residual().is_some() {
                found = match task.counting() {
                    Counting::All => solution.within(within).value,
                    _ => {
                        let jobs = at_most(&task.work, worth * i64::from(within));
                        solution.backlog_at_most(0).value * jobs
                    }
                };
                break;
            }
        }
        Ok(found)
    }

    fn supplied(&self, share: Bandwidth, over: Option<Nanos>, alone: bool) -> Finding {
        let Reservation { runtime, period, .. } = self.reservation;
        let (numerator, denominator) = share.ratio();
        let wanted = |span: Nanos| span.mul_ratio(numerator, denominator);
        let supply = Supply::new(self.reservation, self.plan.platform.enforcement, alone);
        let (agrees, words) = match over {
            None => (
                runtime >= wanted(period),
                format!("{runtime} in every {period}, {} are {share} of it", wanted(period)),
            ),
            // The inverse of what the plan asked: how long until as much is guaranteed?
            Some(window) => (
                supply.time_for(wanted(window)) <= window,
                format!("{} are guaranteed within {}", wanted(window), supply.time_for(wanted(window))),
            ),
        };
        Finding { by: "supply bound, inverted", agrees, words }
    }

    fn requests(&self, claim: &RequestClaim, alone: bool) -> Result<Finding, CheckError> {
        let work = self.work_of(&claim.work)?;
        let most = maximum(&work).unwrap_or(Nanos::from_f64_rounded(mean(&work))).max(Nanos::new(1));
        let useful = Reservation { runtime: claim.worth, ..self.reservation };
        let supply = Supply::new(useful, self.plan.platform.enforcement, alone);
        let number = |error: surety_analysis::interrupts::InterruptError| {
            self.wrong("its device", error.to_string(), "nothing follows from it")
        };
        let finding = match (claim.rate, claim.arrivals) {
            (Some(rate), ClaimedArrivals::Closed(outstanding, service)) => {
                let in_device = service * i64::from(outstanding);
                let found = closed(outstanding, in_device, most, &supply).map_err(number)?;
                let words =
                    format!("{:.1} to {:.1} a second; {rate:.1} promised", found.at_least, found.at_most);
                Finding { by: "bounds of a closed loop", agrees: found.at_least >= rate, words }
            }
            (Some(rate), arrivals) => {
                let offered = match arrivals {
                    ClaimedArrivals::Independent(offered) => offered,
                    ClaimedArrivals::Apart(distance) | ClaimedArrivals::Closed(_, distance) => {
                        1e9 / distance.get() as f64
                    }
                };
                let found = open(offered, most, &useful).map_err(number)?;
                let words = format!(
                    "work is conserved: at most {:.1} a second with this budget; {rate:.1} promised",
                    found.at_most
                );
                Finding { by: "utilisation law", agrees: found.at_most * (1.0 + ROUNDING) >= rate, words }
            }
            (None, ClaimedArrivals::Closed(outstanding, _))
                if claim.buffer.is_none_or(|held| held >= u64::from(outstanding)) =>
            {
                let words = format!("at most {outstanding} are in flight");
                Finding { by: "the loop itself", agrees: true, words }
            }
            (None, ClaimedArrivals::Independent(_)) => Finding {
                by: "arrivals",
                agrees: false,
                words: "interrupts without a smallest distance fill any buffer at last".to_owned(),
            },
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
                Finding { by: "supply bound, inverted", agrees, words }
            }
        };
        Ok(finding)
    }

    fn simulated(&self, played: &[Played]) -> Finding {
        let said: Vec<(bool, String)> =
            played.iter().filter(|p| p.ran(&self.claim.activity)).map(|p| p.says(self.claim)).collect();
        let agrees = !said.is_empty() && said.iter().all(|(agrees, _)| *agrees);
        let words: Vec<String> = said.into_iter().map(|(_, words)| words).collect();
        let words = if words.is_empty() { "it did not run".to_owned() } else { words.join("; ") };
        Finding { by: "simulation", agrees, words }
    }
}

/// Releases that a job of a skipping task uses up on average: 1 and what it runs over.
fn releases_of_a_job(work: &TimeDistribution, served: Nanos) -> f64 {
    let beyond = |j: i64| 1.0 - at_most(work, served * j);
    1.0 + (1..=10_000).map(beyond).take_while(|p| *p > 1e-15).sum::<f64>()
}

/// Whether room for `held` is always enough: when request n comes, n - held have been handled, by the inverse of the supply.
fn keeps_up(supply: &Supply, distance: Nanos, work: Nanos, held: u64) -> bool {
    let Ok(held) = i64::try_from(held) else { return true };
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
