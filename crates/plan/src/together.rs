//! Putting reservations together: each request is kept if, with all kept before it, the kernel admits the
//! set, every scheduling deadline is kept and the fair server stays in the background. Proofs are written
//! when the set is complete.

use surety_analysis::foundation::{Foundation, ReservedThread, realtime_hog};
use surety_analysis::response::ResponseBound;
use surety_analysis::{RootDomain, work};
use surety_model::plan::{Plan, PlannedReservation, Proof, ProofInput};
use surety_model::platform::Enforcement;
use surety_model::promise::Promise;
use surety_model::reservation::{KERNEL_RUNTIME_MIN, Reservation};
use surety_model::workload::{Task, Workload};
use surety_units::{Bandwidth, Nanos, Probability};

use crate::demand::Demand;
use crate::refusal::{Refused, nearest};
use crate::response::{Frame, ResponseRequest, Sizing, frame, respond, size};
use crate::{GRAIN, PlanOptions, Request, share};

/// The reservations kept so far.
pub(crate) struct Together<'a> {
    options: &'a PlanOptions,
    alone: bool,
    hog: Option<String>,
    kept: Vec<Kept>,
}

/// One task's reservation with what its proof needs.
struct Kept {
    task: Task,
    demand: Demand,
    frame: Frame,
    runtime: Nanos,
    promises: Vec<(Promise, Argument)>,
}

/// Why the runtime is enough for one promise.
#[derive(Clone)]
enum Argument {
    Response { limit: Nanos, at: Option<Probability>, sizing: Box<Sizing> },
    Share { share: Bandwidth, steps: Vec<String> },
}

impl Kept {
    fn reservation(&self) -> Reservation {
        Reservation {
            deadline: self.frame.deadline,
            ..Reservation::implicit(self.runtime, self.frame.period)
        }
    }

    fn bounded(&self, enforcement: Enforcement) -> bool {
        let worth = self.demand.worth(self.runtime);
        self.promises.iter().any(|(_, argument)| match argument {
            Argument::Response { sizing, .. } => {
                self.frame.served(&self.task, &sizing.proven_for, worth, enforcement).is_bounded()
            }
            Argument::Share { .. } => false,
        })
    }

    fn threads(&self, cpus: u32, enforcement: Enforcement) -> Vec<ReservedThread> {
        let thread = ReservedThread { reservation: self.reservation(), bounded: self.bounded(enforcement) };
        vec![thread; self.task.instances.on(cpus) as usize]
    }
}

impl<'a> Together<'a> {
    /// Nothing kept yet of a workload.
    pub(crate) fn new(workload: &Workload, options: &'a PlanOptions) -> Together<'a> {
        let platform = &options.platform;
        let promised = workload.tasks.iter().filter(|task| !task.promises.is_empty());
        let threads = promised.map(|task| task.instances.on(platform.cpus)).fold(0u32, u32::saturating_add);
        let hog = platform.fair_server.and_then(|_| realtime_hog(workload));
        Together { options, alone: threads <= platform.cpus, hog, kept: Vec::new() }
    }

    /// Keeps what it can of a task's requests and says why not the rest.
    pub(crate) fn place(
        &mut self,
        task: &Task,
        demand: Demand,
        requests: &[(Promise, Request)],
    ) -> Vec<(Promise, Refused)> {
        let mut refused = Vec::new();
        let shortest = requests.iter().filter_map(|(_, r)| match r {
            Request::Response { limit, .. } => Some(*limit),
            Request::Share { .. } => None,
        });
        let framed = match shortest.min() {
            Some(limit) => frame(task, limit),
            None => Ok(self.share_frame(task, requests)),
        };
        let frame = match framed {
            Ok(frame) => frame,
            Err(why) => return requests.iter().map(|(promise, _)| (*promise, why.clone())).collect(),
        };
        let mut kept = Kept { task: task.clone(), demand, frame, runtime: Nanos::ZERO, promises: Vec::new() };
        for (promise, request) in requests {
            if let Err(why) = self.try_one(&mut kept, promise, *request) {
                refused.push((*promise, why));
            }
        }
        if !kept.promises.is_empty() {
            self.kept.push(kept);
        }
        refused
    }

    fn share_frame(&self, task: &Task, requests: &[(Promise, Request)]) -> Frame {
        let window = requests.iter().filter_map(|(_, r)| match r {
            Request::Share { over, .. } => *over,
            Request::Response { .. } => None,
        });
        let period = share::period(task.release.interval(), window.min(), &self.options.platform);
        Frame { deadline: period, period, gap: period, jitter: Nanos::ZERO }
    }

    /// Raises a task's runtime to what one more request needs, if that is feasible.
    fn try_one(&self, kept: &mut Kept, promise: &Promise, request: Request) -> Result<(), Refused> {
        let enforcement = self.options.platform.enforcement;
        let frame = kept.frame;
        let (runtime, argument) = match request {
            Request::Response { limit, at } => {
                let verify = self.options.verify_activations.get(&kept.task.name).copied();
                let sizing = size(
                    &kept.task,
                    ResponseRequest { limit, at },
                    frame,
                    &kept.demand,
                    verify,
                    enforcement,
                )?;
                let runtime = kept.demand.budget_for(sizing.work);
                (runtime, Argument::Response { limit, at, sizing: Box::new(sizing) })
            }
            Request::Share { share, over } => {
                let in_frame = (frame.deadline, frame.period);
                let (runtime, steps) = share::runtime(share, over, in_frame, enforcement, self.alone)?;
                (runtime, Argument::Share { share, steps })
            }
        };
        let mut candidate = Kept {
            task: kept.task.clone(),
            demand: kept.demand.clone(),
            frame,
            runtime: runtime.max(kept.runtime).max(KERNEL_RUNTIME_MIN),
            promises: kept.promises.clone(),
        };
        candidate.promises.push((*promise, argument.clone()));
        if let Some(objection) = self.objection(&candidate) {
            return Err(self.refuse(candidate, &argument, objection));
        }
        if let Argument::Response { limit, at, sizing } = &argument {
            let bound = bound(&candidate, sizing, *limit, enforcement).map_err(Refused::plainly)?;
            let promised = at.map_or(1.0, Probability::as_f64);
            if bound.probability < promised {
                return Err(Refused::plainly(format!(
                    "only a fraction of {:.5} is proven with {} and {promised} is promised: more measured jobs narrow the \
                     bound",
                    bound.probability, candidate.runtime
                )));
            }
        }
        *kept = candidate;
        Ok(())
    }

    /// What speaks against keeping a candidate beside all kept before.
    fn objection(&self, candidate: &Kept) -> Option<String> {
        let reservation = candidate.reservation();
        if reservation.runtime > reservation.deadline {
            return Some(format!(
                "a runtime of {} is needed and the deadline is {} after the release",
                reservation.runtime, reservation.deadline
            ));
        }
        let others = self.kept.iter().map(|k| k.task.name.as_str()).collect::<Vec<_>>();
        let objection = self.foundation(Some(candidate)).objection().or_else(|| self.hog.clone())?;
        let beside = if others.is_empty() { String::new() } else { format!(" beside {}", others.join(", ")) };
        Some(format!(
            "{} in every {} are needed{beside}: {objection}",
            reservation.runtime, reservation.period
        ))
    }

    fn foundation(&self, candidate: Option<&Kept>) -> Foundation {
        let platform = &self.options.platform;
        let threads: Vec<ReservedThread> = self
            .kept
            .iter()
            .chain(candidate)
            .flat_map(|kept| kept.threads(platform.cpus, platform.enforcement))
            .collect();
        Foundation::of(&threads, platform, self.options.admitted)
    }

    /// The refusal of a candidate, with the nearest requests that the largest feasible runtime allows.
    fn refuse(&self, mut candidate: Kept, argument: &Argument, because: String) -> Refused {
        let enforcement = self.options.platform.enforcement;
        let needed = candidate.runtime;
        let Some(feasible) = self.largest_feasible(&mut candidate) else {
            return Refused::plainly(because);
        };
        candidate.runtime = feasible;
        let because =
            format!("{because}; at most {feasible} in every {} is feasible", candidate.frame.period);
        let nearest = match argument {
            Argument::Response { limit, at, sizing } => {
                let worth = candidate.demand.worth(feasible);
                let response = respond(&candidate.task, candidate.frame, sizing, worth, enforcement).ok();
                let work = (worth, candidate.demand.worth(needed));
                nearest(response.as_ref(), *limit, sizing.required, *at, Some(work))
            }
            Argument::Share { share, .. } => {
                let tenths = feasible.get() as f64 / needed.get() as f64 * share.as_f64() * 1000.0;
                vec![format!("share >= {}%", tenths.floor() / 10.0)]
            }
        };
        Refused { because, nearest }
    }

    /// The largest runtime in the candidate's frame to which nothing objects.
    fn largest_feasible(&self, candidate: &mut Kept) -> Option<Nanos> {
        let platform = &self.options.platform;
        let domain = RootDomain { admitted: self.options.admitted, ..RootDomain::of(platform) };
        let longest = candidate.frame.deadline.min(domain.largest_runtime(candidate.frame.period));
        let mut feasible = |runtime: Nanos| {
            candidate.runtime = runtime;
            runtime >= KERNEL_RUNTIME_MIN && self.objection(candidate).is_none()
        };
        let (mut low, mut high) = (GRAIN, longest);
        if !feasible(low) {
            return None;
        }
        if feasible(high) {
            return Some(high);
        }
        while high - low > GRAIN {
            let middle = low + (high - low) / 2;
            if feasible(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(GRAIN * low.div_floor(GRAIN))
    }

    /// Writes the reservations with their proofs.
    pub(crate) fn finish(self, plan: &mut Plan) {
        let foundation = self.foundation(None);
        for kept in &self.kept {
            plan.reservations.push(PlannedReservation {
                activity: kept.task.name.clone(),
                promises: kept.promises.iter().map(|(promise, _)| promise.to_string()).collect(),
                reservation: kept.reservation(),
                proof: proof(kept, &foundation, &self.options.platform.enforcement),
            });
        }
    }
}

fn bound(
    kept: &Kept,
    sizing: &Sizing,
    limit: Nanos,
    enforcement: Enforcement,
) -> Result<ResponseBound, String> {
    let worth = kept.demand.worth(kept.runtime);
    let response = respond(&kept.task, kept.frame, sizing, worth, enforcement);
    response.map(|response| response.within(limit)).map_err(|error| error.to_string())
}

fn proof(kept: &Kept, foundation: &Foundation, enforcement: &Enforcement) -> Proof {
    let Reservation { runtime, deadline, period, .. } = kept.reservation();
    let how = match enforcement {
        Enforcement::Tick(tick) => format!("on the tick ({tick})"),
        Enforcement::Exact => "by a timer, exactly".to_owned(),
    };
    let mut inputs = vec![
        ProofInput::new("runtime Q", runtime),
        ProofInput::new("deadline D", deadline),
        ProofInput::new("period T", period),
        ProofInput::new("budgets are enforced", how),
    ];
    inputs.extend(kept.demand.inputs());
    let mut proof = Proof {
        theorem: String::new(),
        source: String::new(),
        conclusion: String::new(),
        probability: None,
        inputs,
        steps: Vec::new(),
        assumptions: Vec::new(),
        residual: None,
        simulations: Vec::new(),
    };
    let mut theorems: Vec<&str> = Vec::new();
    let mut sources: Vec<&str> = Vec::new();
    let mut conclusions: Vec<String> = Vec::new();
    for (promise, argument) in &kept.promises {
        match argument {
            Argument::Response { limit, sizing, .. } => {
                let worth = kept.demand.worth(runtime);
                let Ok(bound) = bound(kept, sizing, *limit, *enforcement) else { continue };
                theorems.push(bound.theorem);
                sources.push(bound.source);
                proof.inputs.extend(sizing.inputs.iter().cloned());
                proof.steps.extend(sizing.steps.iter().cloned());
                proof
                    .steps
                    .push(format!("a budget of {runtime} is worth {worth} of work, the rest pays overheads"));
                proof.steps.extend(bound.steps);
                proof.assumptions.extend(sizing.assumptions.iter().cloned());
                proof.assumptions.extend(bound.assumptions);
                let smallest = proof.probability.map_or(bound.probability, |p: f64| p.min(bound.probability));
                proof.probability = Some(smallest);
                proof.residual = match (proof.residual, bound.residual) {
                    (Some(a), Some(b)) => Some(a.max(b)),
                    (a, b) => a.or(b),
                };
                let mean = work::mean(&sizing.proven_for) / 1e6;
                conclusions.push(format!(
                    "{promise}: at least {:.4} % of the activations, with a mean work of {mean:.3} ms",
                    bound.probability * 100.0
                ));
            }
            Argument::Share { steps, .. } => {
                theorems.push("supply bound of a constant-bandwidth server");
                sources.push("Abeni and Buttazzo, RTSS 1998; Easwaran, Anand and Lee, RTSS 2007");
                proof.steps.extend(steps.iter().cloned());
                proof.assumptions.push(
                    "the work is done by the thread that has the reservation: what others of its program do \
                         comes on top and is not guaranteed"
                        .to_owned(),
                );
                conclusions
                    .push(format!("{promise}: {runtime} in every {period} whenever the thread wants it"));
            }
        }
    }
    theorems.push(foundation.edf.theorem);
    sources.push(foundation.edf.source);
    theorems.dedup();
    sources.dedup();
    proof.theorem = theorems.join("; ");
    proof.source = sources.join("; ");
    proof.conclusion = conclusions.join("; ");
    proof.steps.extend(foundation.steps());
    for assumption in foundation.assumptions() {
        if !proof.assumptions.contains(&assumption) {
            proof.assumptions.push(assumption);
        }
    }
    proof
}
