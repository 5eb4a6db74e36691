//! Reservations for the promises of a workload, each with its proof, or why there are none.
//!
//! [`plan`] sizes one reservation for each task with a promise ([`response`], [`share`]) from what is known
//! of its work ([`demand`]), then puts them together: the kernel has to admit them all, all have to keep
//! their scheduling deadlines, and the fair server has to stay in the background
//! (`surety_analysis::foundation`). What does not fit is refused with the constraint that binds and the
//! nearest requests that would fit ([`refusal`]). [`profile`] gives the generous reservations under which
//! work is measured first.

#![forbid(unsafe_code)]

pub mod alternatives;
pub mod aperiodic;
pub mod check;
mod claims;
pub mod demand;
mod frame;
pub mod interrupt;
mod kept;
pub mod profile;
mod proofs;
pub mod refusal;
mod reserved_set;
pub mod response;
pub mod share;
pub mod streams;
pub mod synthesis;
pub mod tested;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::alternatives::Alternative;
use surety_analysis::cbs::Fineness;
use surety_analysis::foundation::ReservedThread;
use surety_analysis::streams::Sizes;
use surety_analysis::{beside, overheads, serving};
use surety_fit::WorkFit;
use surety_model::claim::Claim;
use surety_model::modes::{ModeFit, modes_of};
use surety_model::plan::{Front, Left, PLAN_SCHEMA, Plan, Refusal};
use surety_model::platform::Platform;
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::workload::{ActivityKind, Instances, Irq, PolicySpec, Task, Workload};
use surety_model::world::Cancel;
use surety_units::{Bandwidth, CpuSet, Nanos, Probability};

pub use profile::{generous_reservation, profile_passes};

/// Confidence of every statistical bound, and power of the verifying run.
pub const CONFIDENCE: f64 = 0.95;
/// Runtimes are rounded up to this.
pub const GRAIN: Nanos = Nanos::from_micros(10);

/// What a plan is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanOptions {
    /// The machine, with what others have reserved on it. What the workload declares is added.
    pub platform: Platform,
    /// How many activations the verifying run will have, by task; a task that is not in it is planned for its
    /// promise alone.
    pub verify_activations: BTreeMap<String, u64>,
    /// What budgets pay beside the work.
    pub overhead: Overhead,
    /// Server periods to try beside the fractions of the task's own.
    pub periods: Vec<Nanos>,
    /// Empirical work of the workload is a sample of jobs, not the distribution itself: its sampling error counts.
    pub empirical_are_samples: bool,
    /// Tasks whose work in the workload is what was fitted, not what somebody declared: it has no largest value.
    pub fitted: BTreeSet<String>,
    /// Ends the search for smaller budgets and for feasible requests early.
    pub search: SearchLimit,
    /// Every reservation is for a thread that may be reserved at any moment between its releases, not only those of programs.
    pub any_phase: bool,
    /// The modes of work that the workload declares in its order, by task ([`PlanOptions::with_modes`]).
    pub modes: BTreeMap<String, ModeFit>,
    /// Texts of the files that disks of the workload name as models, by these names ([`surety_model::world::RunOptions::files`]).
    pub files: Arc<BTreeMap<String, String>>,
}

/// Ends searches early when it is set from outside: what was found by then is planned. It is no part of the request.
#[derive(Clone, Debug, Default)]
pub struct SearchLimit {
    soon: Cancel,
    now: Cancel,
}

impl PartialEq for SearchLimit {
    fn eq(&self, _: &SearchLimit) -> bool {
        true
    }
}

impl SearchLimit {
    /// From now on the first that does is taken, and nothing better is looked for.
    pub fn hurry(&self) {
        self.soon.cancel();
    }

    /// Ends the searches: what has no budget yet gets none.
    pub fn end(&self) {
        self.hurry();
        self.now.cancel();
    }

    /// Whether nothing better is looked for.
    pub fn is_reached(&self) -> bool {
        self.soon.is_cancelled()
    }

    /// Whether they have ended.
    pub fn is_over(&self) -> bool {
        self.now.is_cancelled()
    }
}

/// What is added to a refusal whose search for feasible requests was ended.
const CUT_SHORT: &str = "the search for what would be feasible was ended by its time limit";

/// What a budget pays beside the work of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// For each job: waking up, the call that sleeps, the caches found cold.
    pub per_job: Nanos,
    /// For each server period: switched to and from, the timer that replenishes it.
    pub per_period: Nanos,
    /// For each tick while it runs. Fitted work has its own in it.
    pub per_tick: Nanos,
    /// Interrupts on top of declared work, in thousandths of it. Fitted work has its own in it.
    pub interrupts_permille: u32,
}

impl Default for Overhead {
    /// Stated, not measured: 50 us a job, 10 us a server period, 4 us a tick, and 1 % of declared work.
    fn default() -> Overhead {
        Overhead {
            per_job: Nanos::from_micros(50),
            per_period: Nanos::from_micros(10),
            per_tick: Nanos::from_micros(4),
            interrupts_permille: 10,
        }
    }
}

impl PlanOptions {
    /// A plan for a machine, with the default overheads.
    pub fn new(platform: Platform) -> PlanOptions {
        PlanOptions {
            platform,
            verify_activations: BTreeMap::new(),
            overhead: Overhead::default(),
            periods: Vec::new(),
            empirical_are_samples: false,
            fitted: BTreeSet::new(),
            search: SearchLimit::default(),
            any_phase: false,
            modes: BTreeMap::new(),
            files: Arc::default(),
        }
    }

    /// What is stated, or what was measured of the platform where that is more: an overhead never makes a budget smaller. What is
    /// stated of a server period has no switch in it that was measured.
    pub(crate) fn costs(&self) -> Overhead {
        let (stated, measured) = (self.overhead, self.platform.overheads);
        Overhead {
            per_job: stated.per_job.max(measured.per_job()),
            per_period: stated.per_period.max(measured.timer * 3) + measured.switch * 2,
            per_tick: stated.per_tick.max(measured.tick),
            interrupts_permille: stated.interrupts_permille,
        }
    }
}

impl PlanOptions {
    /// The same with the modes of what a workload declares as a sequence: learnt once, however often is planned.
    pub fn with_modes(mut self, workload: &Workload) -> PlanOptions {
        for task in &workload.tasks {
            if let Some(found) = surety_analysis::work::drawn_work(task).and_then(modes_of) {
                self.modes.insert(task.name.clone(), found);
            }
        }
        self
    }

    /// The same, verified by a run of this length: each task is planned for the activations it will have in it.
    pub fn verified_by(mut self, workload: &Workload, duration: Nanos) -> PlanOptions {
        for task in &workload.tasks {
            if let Some(interval) = task.release.interval() {
                let count = duration.div_floor(interval).max(0).unsigned_abs();
                self.verify_activations.insert(task.name.clone(), count);
            }
        }
        self
    }
}

/// Plans every promise of a workload.
///
/// `fits`: measured work by task; a task without one is planned from the work the workload declares.
pub fn plan(workload: &Workload, fits: &BTreeMap<String, WorkFit>, options: &PlanOptions) -> Plan {
    plan_in_full(workload, fits, options, false).plan
}

/// A plan with all that is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub plan: Plan,
    /// What it claims, in numbers.
    pub claims: Vec<Claim>,
    /// What it leaves to others.
    pub left: Left,
    /// The threads it reserves, each with its activity's name.
    pub threads: Vec<(String, ReservedThread)>,
    /// The same with what the refused promises would take, as far as that is known; empty where nothing of it was refused.
    pub threads_wanted: Vec<(String, ReservedThread)>,
    /// What was compared for each task, where that was asked for.
    pub fronts: Vec<Front>,
    /// What is feasible instead of each refused promise that other numbers mend.
    pub alternatives: Vec<(Refusal, Vec<Alternative>)>,
}

/// Plans every promise of a workload and tells all that is known about it; `fronts`: what was compared, too.
pub fn plan_in_full(
    workload: &Workload,
    fits: &BTreeMap<String, WorkFit>,
    options: &PlanOptions,
    fronts: bool,
) -> Planned {
    let options = &options.clone().with_modes(workload);
    let searched = Rc::new(response::Searched::new(Fineness::Rough, options.search.clone()));
    let in_full = Looks { fronts, roughly: None };
    let (mut planned, infeasible) = beside_what_stays(workload, fits, options, in_full);
    let planner = |workload: &Workload, options: &PlanOptions, rough: bool| {
        let looks = Looks { fronts: false, roughly: rough.then_some(&searched) };
        beside_what_stays(workload, fits, options, looks).0.plan
    };
    let plan = planned.plan.clone();
    for (refusal, _) in plan.refusals.iter().zip(infeasible).filter(|(_, infeasible)| *infeasible) {
        let search =
            alternatives::Search { workload, fits, options, plan: &plan, refusal, planner: &planner };
        // A stream is refused with all of its promises, and what it may ask for instead serves each of them.
        let is_same = |(known, _): &&(Refusal, Vec<Alternative>)| known.activity == refusal.activity;
        let is_stream = workload.streams.iter().any(|stream| stream.name == refusal.activity);
        let found = match planned.alternatives.iter().find(is_same).filter(|_| is_stream) {
            Some((_, known)) => known.clone(),
            None => search.all(),
        };
        let same = |r: &&mut Refusal| (&r.activity, &r.promise) == (&refusal.activity, &refusal.promise);
        for refusal in planned.plan.refusals.iter_mut().filter(same) {
            refusal.nearest.extend(found.iter().map(ToString::to_string));
            if search.has_ended() {
                refusal.because = format!("{}; {CUT_SHORT}", refusal.because);
            }
        }
        planned.alternatives.push((refusal.clone(), found));
    }
    planned
}

/// How closely is looked.
#[derive(Clone, Copy)]
struct Looks<'s> {
    /// What was compared is wanted, too.
    fronts: bool,
    /// On rough grids, with what was searched for on them before.
    roughly: Option<&'s Rc<response::Searched>>,
}

/// Plans beside the reservations and the realtime threads of the workload that stay as they are: those of activities that get
/// no reservation from the plan.
fn beside_what_stays(
    workload: &Workload,
    fits: &BTreeMap<String, WorkFit>,
    options: &PlanOptions,
    looks: Looks<'_>,
) -> (Planned, Vec<bool>) {
    let activities = || workload.activities().into_iter().map(|activity| activity.name.to_owned());
    let mut stays: BTreeSet<String> =
        activities().filter(|name| workload.promises_of(name).is_empty()).collect();
    loop {
        let mut options = options.clone();
        let platform = &mut options.platform;
        platform.others.extend(beside::declared(workload, platform, |name| stays.contains(name)));
        let is_realtime = |task: &Task| task.reservation.is_none() && stays.contains(&task.name);
        let threads = beside::realtime(workload, platform, is_realtime);
        platform.realtime = serving::with_streams(threads, workload, platform, streams::is_served);
        let proven = PlanOptions { platform: overheads::with_busy(&options.platform), ..options.clone() };
        let set = reserved_set::ReservedSet::new(workload, &proven);
        let set = if looks.fronts { set.with_fronts() } else { set };
        let set = match looks.roughly {
            Some(searched) => set.roughly(searched),
            None => set,
        };
        let sizes = if looks.roughly.is_some() { Sizes::Few } else { Sizes::All };
        let found = planned(workload, fits, (&options, sizes), set);
        let is_planned = |name: &String| found.0.threads.iter().any(|(planned, _)| planned == name);
        let more: Vec<String> =
            activities().filter(|name| !stays.contains(name) && !is_planned(name)).collect();
        let alters = more.iter().any(|name| workload.holds_bandwidth(name));
        if !alters {
            return found;
        }
        stays.extend(more);
    }
}

fn planned(
    workload: &Workload,
    fits: &BTreeMap<String, WorkFit>,
    (options, sizes): (&PlanOptions, Sizes),
    mut set: reserved_set::ReservedSet<'_>,
) -> (Planned, Vec<bool>) {
    let mut plan = Plan {
        schema: PLAN_SCHEMA.to_owned(),
        platform: options.platform.clone(),
        reservations: Vec::new(),
        streams: Vec::new(),
        disks: Vec::new(),
        asked: None,
        models: BTreeMap::new(),
        refusals: Vec::new(),
    };
    let mut refused: Vec<(String, Promise, refusal::Refused)> = Vec::new();
    let asked: Vec<Asked<'_>> = workload
        .tasks
        .iter()
        .filter(|task| !task.promises.is_empty())
        .map(|task| Asked::of(task, fits.get(&task.name), options, &set))
        .collect();
    let wanted: Vec<reserved_set::placing::Wanted<'_>> = asked.iter().filter_map(Asked::wanted).collect();
    let mut placed = set.place_all(&wanted).into_iter();
    for asked in &asked {
        let why = if asked.wanted().is_some() { placed.next().unwrap_or_default() } else { Vec::new() };
        let all = asked.refused.iter().cloned().chain(why);
        refused.extend(all.map(|(promise, why)| (asked.task.name.clone(), promise, why)));
    }
    for irq in workload.irqs.iter().filter(|irq| !irq.promises.is_empty()) {
        let why = plan_irq(irq, &mut set);
        refused.extend(why.into_iter().map(|(promise, why)| (irq.name.clone(), promise, why)));
    }
    let fronts = set.fronts();
    let threads = set.named_threads();
    let ground = streams::Ground { workload, platform: &options.platform, files: &options.files, sizes };
    let streams = streams::plan_streams(&ground, &threads);
    (plan.streams, plan.disks) = (streams.streams, streams.disks);
    (plan.asked, plan.models) = (streams.asked, streams.models);
    refused.extend(streams.refused);
    let threads_wanted = set.threads_wanted();
    let (claims, left) = set.finish(&mut plan);
    let is_other = |kind: ActivityKind| !kind.is_planned() && kind != ActivityKind::Stream;
    for activity in workload.activities().into_iter().filter(|activity| is_other(activity.kind)) {
        for promise in activity.promises {
            let why = match activity.kind {
                ActivityKind::Load => {
                    streams::best_effort::objection(workload, &plan.disks, activity.name, promise)
                }
                kind => Some(refusal::Refused::plainly(format!(
                    "not planned by this version: promises about a {kind}"
                ))),
            };
            refused.extend(why.map(|why| (activity.name.to_owned(), *promise, why)));
        }
    }
    let infeasible = refused.iter().map(|(_, _, why)| why.infeasible).collect();
    plan.refusals.extend(refused.into_iter().map(|(activity, promise, why)| Refusal {
        activity,
        promise,
        because: why.because,
        nearest: why.nearest,
        more_jobs: why.more_jobs,
    }));
    (Planned { plan, claims, left, threads, threads_wanted, fronts, alternatives: Vec::new() }, infeasible)
}

/// What a promise about a task asks of its reservation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Request {
    /// This fraction of the activations within a limit; `None`: every one.
    Response { limit: Nanos, at: Option<Probability> },
    /// A share of one CPU, in every window or in the long run.
    Share { share: Bandwidth, over: Option<Nanos> },
}

/// Why a task is not planned that asks to reclaim.
const RECLAIMS: &str = "its reservation reclaims (`reclaim = true`), and a plan reserves nothing that does: what it takes of \
                        others' bandwidth only GRUB's theorem bounds, on one CPU with exact enforcement; leave `reclaim` out to \
                        have it planned, or keep the reservation and ask `surety run --on analysis`";

/// A promise as a request, or why it is none this version plans.
fn request(task: &Task, promise: &Promise) -> Result<Request, String> {
    if task.reservation.is_some_and(|reservation| reservation.reclaim) {
        return Err(RECLAIMS.to_owned());
    }
    let exclusive = if promise.comparison == Comparison::Below { Nanos::new(1) } else { Nanos::ZERO };
    let at_most = matches!(promise.comparison, Comparison::AtMost | Comparison::Below);
    match (promise.metric, promise.bound) {
        (Metric::Response, Bound::TimesIdle(_)) => {
            Err("a response relative to the idle machine has to be measured there first: promise a time"
                .to_owned())
        }
        (Metric::Response, Bound::Time(limit)) if at_most && promise.over.is_none() => {
            // 100 % is every activation.
            let at = promise.at.filter(|at| at.as_f64() < 1.0);
            Ok(Request::Response { limit: limit - exclusive, at })
        }
        (Metric::Missed | Metric::Late, Bound::Count(0))
            if matches!(promise.comparison, Comparison::Equal | Comparison::AtMost) =>
        {
            match task.relative_deadline() {
                Some(limit) => Ok(Request::Response { limit, at: None }),
                None => Err("it has no deadline: give it a period, or promise a response".to_owned()),
            }
        }
        (Metric::Share, Bound::Share(share))
            if promise.comparison == Comparison::AtLeast && promise.at.is_none() =>
        {
            Ok(Request::Share { share, over: promise.over })
        }
        _ => Err(format!("not planned by this version: promises of the form `{promise}` about a task")),
    }
}

/// A request, unless no proof of it would hold: a job that stands still inside gets no response bound from its budget.
fn without_waits(task: &Task, request: Request) -> Result<Request, String> {
    match (request, task.waits_inside()) {
        (Request::Response { .. }, Some(phase)) => Err(format!(
            "its jobs stand still inside ({phase}), and no bound on responses here covers that: measure it with `surety run`"
        )),
        _ => Ok(request),
    }
}

/// Why a task cannot be reserved on a machine where its threads do not have all of its CPUs all the time. So no plan has a task with CPUs of its
/// own, and its check need not ask for them.
fn confined(task: &Task, platform: &Platform) -> Option<String> {
    // What no kernel has is refused for that.
    if matches!(task.policy, PolicySpec::Simulated { .. }) {
        return None;
    }
    if task.is_clamped() {
        return Some(
            "clamps of utilisation mean nothing to a deadline thread, so it is not reserved: leave `util-min` and `util-max` out, or measure it \
             with `surety run`"
                .to_owned(),
        );
    }
    let (what, change) = if matches!(task.instances, Instances::PerCpu(_)) {
        ("instances pinned to one CPU each", "give a number of instances")
    } else if task.cpus.is_some_and(|own| !has_all(&own, platform)) {
        ("threads with CPUs of their own", "leave `cpus` out")
    } else if task.changes().0 {
        ("threads whose steps give them CPUs", "leave `cpus` out of its phases")
    } else {
        return None;
    };
    Some(format!(
        "{what} cannot be reserved: the kernel admits deadline threads only where they may run on every CPU (EPERM), and changes \
         their CPUs no more (EBUSY): {change}, or measure it with `surety run`"
    ))
}

/// Whether these CPUs are all of a machine's, by their numbers.
fn has_all(own: &CpuSet, platform: &Platform) -> bool {
    let all = platform.domains().iter().fold(CpuSet::EMPTY, |all, (cpus, _)| all.union(cpus));
    *own == all
}

/// What is asked of one task's reservation.
struct Asked<'w> {
    task: &'w Task,
    demand: demand::Demand,
    requests: Vec<(Promise, Request)>,
    /// What no reservation can be asked for, and why.
    refused: Vec<(Promise, refusal::Refused)>,
}

impl<'w> Asked<'w> {
    fn of(
        task: &'w Task,
        fit: Option<&WorkFit>,
        options: &PlanOptions,
        set: &reserved_set::ReservedSet<'_>,
    ) -> Asked<'w> {
        let (mut requests, mut refused) = (Vec::new(), Vec::new());
        for promise in &task.promises {
            let confined = confined(task, &options.platform);
            match confined.map_or_else(|| request(task, promise), Err).and_then(|r| without_waits(task, r)) {
                Ok(request) => requests.push((*promise, request)),
                Err(because) => refused.push((*promise, refusal::Refused::plainly(because))),
            }
        }
        let demand = demand::Demand::of(task, fit, set.handlers(), options);
        Asked { task, demand, requests, refused }
    }

    fn wanted(&self) -> Option<reserved_set::placing::Wanted<'_>> {
        let Asked { task, demand, requests, .. } = self;
        (!requests.is_empty()).then_some(reserved_set::placing::Wanted { task, demand, requests })
    }
}

fn plan_irq(irq: &Irq, set: &mut reserved_set::ReservedSet<'_>) -> Vec<(Promise, refusal::Refused)> {
    let (mut wishes, mut refused) = (Vec::new(), Vec::new());
    for promise in &irq.promises {
        match interrupt::wish(irq, promise) {
            Ok(wish) => wishes.push((*promise, wish)),
            Err(because) => refused.push((*promise, refusal::Refused::plainly(because))),
        }
    }
    if !wishes.is_empty() {
        refused.extend(set.place_irq(irq, &wishes));
    }
    refused
}

#[cfg(test)]
mod tests;
