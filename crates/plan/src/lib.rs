//! Reservations for the promises of a workload, each with its proof, or why there are none.
//!
//! [`plan`] sizes one reservation for each task with a promise ([`response`], [`share`]) from what is known
//! of its work ([`demand`]), then puts them together: the kernel has to admit them all, all have to keep
//! their scheduling deadlines, and the fair server has to stay in the background
//! (`surety_analysis::foundation`). What does not fit is refused with the constraint that binds and the
//! nearest requests that would fit ([`refusal`]). [`profile`] gives the generous reservations under which
//! work is measured first.

#![forbid(unsafe_code)]

pub mod demand;
pub mod profile;
pub mod refusal;
pub mod response;
pub mod share;
mod together;

use std::collections::BTreeMap;

use surety_fit::WorkFit;
use surety_model::plan::{PLAN_SCHEMA, Plan, Refusal};
use surety_model::platform::Platform;
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::workload::{Instances, Task, Workload};
use surety_units::{Bandwidth, Nanos, Probability};

pub use profile::{generous_reservation, profile_passes};

/// Confidence of every statistical bound, and power of the verifying run.
pub const CONFIDENCE: f64 = 0.95;
/// Runtimes are rounded up to this.
pub const GRAIN: Nanos = Nanos::from_micros(10);

/// What a plan is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanOptions {
    /// The machine.
    pub platform: Platform,
    /// How many activations the verifying run will have, by task; a task that is not in it is planned for its
    /// promise alone.
    pub verify_activations: BTreeMap<String, u64>,
    /// What deadline tasks outside the workload have booked, in kernel units (2^-20 of a CPU).
    pub admitted: u64,
    /// What budgets pay beside the work.
    pub overhead: Overhead,
}

/// What a budget pays beside the work of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// For each job: switches in and out, the call that sleeps.
    pub per_job: Nanos,
    /// Interrupts on top of declared work, in thousandths of it. Fitted work has its own in it.
    pub interrupts_permille: u32,
}

impl Default for Overhead {
    /// 50 us a job and 1 % of declared work.
    fn default() -> Overhead {
        Overhead { per_job: Nanos::from_micros(50), interrupts_permille: 10 }
    }
}

impl PlanOptions {
    /// A plan for a machine on which nothing is booked, with the default overheads.
    pub fn new(platform: Platform) -> PlanOptions {
        PlanOptions {
            platform,
            verify_activations: BTreeMap::new(),
            admitted: 0,
            overhead: Overhead::default(),
        }
    }
}

impl PlanOptions {
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
    let mut plan = Plan {
        schema: PLAN_SCHEMA.to_owned(),
        platform: options.platform.clone(),
        reservations: Vec::new(),
        refusals: Vec::new(),
    };
    let mut together = together::Together::new(workload, options);
    for task in workload.tasks.iter().filter(|task| !task.promises.is_empty()) {
        plan_task(task, fits.get(&task.name), options, &mut together, &mut plan);
    }
    together.finish(&mut plan);
    for (kind, name) in workload.activities().into_iter().filter(|(kind, _)| *kind != "task") {
        for promise in workload.promises_of(name) {
            plan.refusals.push(Refusal {
                activity: name.to_owned(),
                promise: promise.to_string(),
                because: format!("not planned by this version: promises about a {kind}"),
                nearest: Vec::new(),
            });
        }
    }
    plan
}

/// What a promise about a task asks of its reservation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Request {
    /// This fraction of the activations within a limit; `None`: every one.
    Response { limit: Nanos, at: Option<Probability> },
    /// A share of one CPU, in every window or in the long run.
    Share { share: Bandwidth, over: Option<Nanos> },
}

/// A promise as a request, or why it is none this version plans.
fn request(task: &Task, promise: &Promise) -> Result<Request, String> {
    let exclusive = if promise.comparison == Comparison::Below { Nanos::new(1) } else { Nanos::ZERO };
    let at_most = matches!(promise.comparison, Comparison::AtMost | Comparison::Below);
    match (promise.metric, promise.bound) {
        (Metric::Response, Bound::TimesIdle(_)) => {
            Err("a response relative to the idle machine has to be measured there first: promise a time"
                .to_owned())
        }
        (Metric::Response, Bound::Time(limit)) if at_most && promise.over.is_none() => {
            Ok(Request::Response { limit: limit - exclusive, at: promise.at })
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

fn plan_task(
    task: &Task,
    fit: Option<&WorkFit>,
    options: &PlanOptions,
    together: &mut together::Together<'_>,
    plan: &mut Plan,
) {
    let mut refuse = |promise: &Promise, refused: refusal::Refused| {
        plan.refusals.push(Refusal {
            activity: task.name.clone(),
            promise: promise.to_string(),
            because: refused.because,
            nearest: refused.nearest,
        });
    };
    let mut requests = Vec::new();
    for promise in &task.promises {
        let pinned = matches!(task.instances, Instances::PerCpu(_)).then(|| {
            "instances pinned to one CPU each cannot be reserved: the kernel admits deadline threads only where they may \
             run on every CPU (EPERM)"
                .to_owned()
        });
        match pinned.map_or_else(|| request(task, promise), Err) {
            Ok(request) => requests.push((*promise, request)),
            Err(because) => refuse(promise, refusal::Refused::plainly(because)),
        }
    }
    if requests.is_empty() {
        return;
    }
    let demand = demand::Demand::of(task, fit, options);
    for (promise, why) in together.place(task, demand, &requests) {
        refuse(&promise, why);
    }
}

#[cfg(test)]
mod tests;
