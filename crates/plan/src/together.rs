//! Putting reservations together: each request is kept if, with all kept before it, the kernel admits the
//! set, every scheduling deadline is kept and the fair server stays in the background. Proofs are written
//! when the set is complete.

use std::rc::Rc;

use surety_analysis::RootDomain;
use surety_analysis::cbs::Fineness;
use surety_analysis::foundation::{Foundation, ReservedThread, lent_reservation, realtime_hog};
use surety_model::claim::Claim;
use surety_model::plan::{Front, FrontPoint, Left, Mark, Plan, PlannedReservation, ProofInput};
use surety_model::platform::{Enforcement, FairServer, Platform};
use surety_model::promise::Promise;
use surety_model::reservation::{KERNEL_RUNTIME_MIN, Reservation};
use surety_model::workload::{Irq, Task, Workload};
use surety_units::{Bandwidth, Nanos, Probability};

use crate::demand::{Demand, Handler};
use crate::interrupt::{self, Sized, Source, Wish};
use crate::proofs::{self, bound};
use crate::refusal::Refused;
use crate::response::{Frame, ResponseRequest, Searched, Sizing, respond, size};
use crate::synthesis::{by_bandwidth, frames, pareto};
use crate::{GRAIN, PlanOptions, Request, claims, share};

/// A frame that needs this many times the least bandwidth on a rough grid is not the best on a fine one.
const ROUGHLY: f64 = 1.02;

/// On rough grids only so many frames are looked at: the task's own period and its largest parts.
const FRAMES_ROUGH: usize = 12;

/// The reservations kept so far.
pub(crate) struct Together<'a> {
    options: &'a PlanOptions,
    alone: bool,
    obstacle: Option<String>,
    kept: Vec<Kept>,
    irqs: Vec<KeptIrq>,
    handlers: Vec<Handler>,
    fineness: Fineness,
    searched: Rc<Searched>,
    /// What was tried, where that is asked for.
    fronts: Option<Vec<Front>>,
}

/// One task's reservation with what its proof needs.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) task: Task,
    pub(crate) demand: Demand,
    pub(crate) frame: Frame,
    pub(crate) runtime: Nanos,
    pub(crate) promises: Vec<(Promise, Argument)>,
}

/// An interrupt thread's reservation with what its proof needs.
pub(crate) struct KeptIrq {
    pub(crate) irq: Irq,
    pub(crate) worth: Nanos,
    pub(crate) reservation: Reservation,
    pub(crate) inputs: Vec<ProofInput>,
    pub(crate) promises: Vec<(Promise, Sized)>,
}

/// Why the runtime is enough for one promise.
#[derive(Clone)]
pub(crate) enum Argument {
    Response { limit: Nanos, at: Option<Probability>, sizing: Box<Sizing> },
    Share { share: Bandwidth, steps: Vec<String> },
}

impl Kept {
    pub(crate) fn reservation(&self) -> Reservation {
        self.frame.reservation(self.runtime)
    }

    pub(crate) fn worth(&self) -> Nanos {
        self.demand.worth(self.runtime, &self.frame)
    }

    fn bounded(&self, enforcement: Enforcement) -> bool {
        let worth = self.worth();
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
        let irqs = workload.irqs.iter().filter(|irq| !irq.promises.is_empty()).count();
        let threads = threads.saturating_add(u32::try_from(irqs).unwrap_or(u32::MAX));
        let lent = lent_reservation(workload, |task| task.reservation.is_some() || !task.promises.is_empty());
        let hog = platform.fair_server.and_then(|_| realtime_hog(workload));
        Together {
            options,
            alone: threads <= platform.cpus,
            obstacle: lent.or(hog),
            kept: Vec::new(),
            irqs: Vec::new(),
            handlers: workload.irqs.iter().filter_map(interrupt::handler).collect(),
            fineness: Fineness::Fine,
            searched: Rc::new(Searched::new(Fineness::Fine)),
            fronts: None,
        }
    }

    /// The same, which remembers what was tried.
    pub(crate) fn with_fronts(self) -> Together<'a> {
        Together { fronts: Some(Vec::new()), ..self }
    }

    /// The same on rough grids: faster, and asks for a little more.
    ///
    /// `searched`: what was searched for in other rough plans, and is in this one.
    pub(crate) fn roughly(self, searched: &Rc<Searched>) -> Together<'a> {
        Together { fineness: Fineness::Rough, searched: Rc::clone(searched), ..self }
    }

    /// What was tried.
    pub(crate) fn fronts(&mut self) -> Vec<Front> {
        self.fronts.take().unwrap_or_default()
    }

    /// Keeps what it can of a task's requests and says why not the rest.
    ///
    /// The frame with the least bandwidth in which all requests can be kept; where there is none, the task's own period.
    pub(crate) fn place(
        &mut self,
        task: &Task,
        demand: &Demand,
        requests: &[(Promise, Request)],
    ) -> Vec<(Promise, Refused)> {
        let limits = requests.iter().filter_map(|(_, r)| match r {
            Request::Response { limit, .. } => Some(*limit),
            Request::Share { .. } => None,
        });
        let framed = match limits.min() {
            Some(limit) => frames(task, limit, &self.options.platform, &self.options.periods),
            None => Ok(vec![self.share_frame(task, requests)]),
        };
        let is_rough = self.fineness == Fineness::Rough;
        let frames = match framed {
            Ok(mut frames) => {
                frames.truncate(if is_rough { FRAMES_ROUGH } else { frames.len() });
                frames
            }
            Err(why) => return requests.iter().map(|(promise, _)| (*promise, why.clone())).collect(),
        };
        let searched = Rc::clone(&self.searched);
        let nothing = |frame| Kept {
            task: task.clone(),
            demand: demand.clone(),
            frame,
            runtime: Nanos::ZERO,
            promises: Vec::new(),
        };
        // What is rough already needs no rougher look before.
        let few = (!is_rough).then(|| self.promising(&frames, &nothing, requests)).flatten();
        let chosen = few.and_then(|few| self.cheapest(&few, &nothing, requests, &searched, false));
        let chosen = chosen.or_else(|| self.cheapest(&frames, &nothing, requests, &searched, true));
        let mut refused = Vec::new();
        let kept = chosen.unwrap_or_else(|| {
            let mut kept = nothing(frames[0]);
            for (promise, request) in requests {
                if let Err(why) = self.try_one(&mut kept, promise, *request, &searched) {
                    refused.push((*promise, why));
                }
            }
            kept
        });
        if self.fronts.is_some() {
            let front = self.front(&frames, &nothing, requests, &searched, &kept);
            self.fronts.iter_mut().for_each(|fronts| fronts.push(front.clone()));
        }
        if !kept.promises.is_empty() {
            self.kept.push(kept);
        }
        refused
    }

    /// The frames in which all requests can be sized, within their deadlines.
    fn all_sized(
        &self,
        frames: &[Frame],
        nothing: &impl Fn(Frame) -> Kept,
        requests: &[(Promise, Request)],
        searched: &Searched,
    ) -> Vec<Kept> {
        let in_frame = |frame: &Frame| {
            let mut kept = nothing(*frame);
            for (promise, request) in requests {
                self.sized(&mut kept, promise, *request, searched).ok()?;
            }
            let fits = kept.runtime <= frame.deadline && !self.is_lumpy(&kept, frames[0].period);
            fits.then_some(kept)
        };
        frames.iter().filter_map(in_frame).collect()
    }

    /// The frames that a rough look leaves in question for the least bandwidth; the task's own stays first.
    fn promising(
        &self,
        frames: &[Frame],
        nothing: &impl Fn(Frame) -> Kept,
        requests: &[(Promise, Request)],
    ) -> Option<Vec<Frame>> {
        let rough = self.all_sized(frames, nothing, requests, &Searched::new(Fineness::Rough));
        let least = rough.iter().map(Kept::reservation).min_by(by_bandwidth)?;
        let limit = least.bandwidth().as_f64() * ROUGHLY;
        let is_near = |kept: &&Kept| kept.reservation().bandwidth().as_f64() <= limit;
        let near = rough.iter().filter(is_near).map(|kept| kept.frame).filter(|frame| *frame != frames[0]);
        Some(std::iter::once(frames[0]).chain(near).collect())
    }

    /// All requests kept in the frame with the least bandwidth, if nothing objects; `all`: else in the next one.
    fn cheapest(
        &self,
        frames: &[Frame],
        nothing: &impl Fn(Frame) -> Kept,
        requests: &[(Promise, Request)],
        searched: &Searched,
        all: bool,
    ) -> Option<Kept> {
        let mut sized = self.all_sized(frames, nothing, requests, searched);
        sized.sort_by(|a, b| by_bandwidth(&a.reservation(), &b.reservation()));
        let few = if all { sized.len() } else { 1 };
        sized.into_iter().take(few).find(|kept| self.objection(kept).is_none() && self.is_proven(kept))
    }

    /// Whether budgets are below the tick in a period shorter than need be: the kernel would give several at once and then
    /// none for several periods.
    fn is_lumpy(&self, kept: &Kept, own: Nanos) -> bool {
        kept.frame.period < own && kept.runtime < self.options.platform.enforcement.overrun_max()
    }

    /// What all frames need.
    fn front(
        &self,
        frames: &[Frame],
        nothing: &impl Fn(Frame) -> Kept,
        requests: &[(Promise, Request)],
        searched: &Searched,
        chosen: &Kept,
    ) -> Front {
        let mut sized = self.all_sized(frames, nothing, requests, searched);
        sized.sort_by(|a, b| {
            b.frame.period.cmp(&a.frame.period).then(b.frame.deadline.cmp(&a.frame.deadline))
        });
        let reservations: Vec<Reservation> = sized.iter().map(Kept::reservation).collect();
        let undominated = pareto(&reservations);
        let points = sized.iter().zip(undominated).map(|(kept, undominated)| {
            let reservation = kept.reservation();
            let is_chosen = !chosen.promises.is_empty() && reservation == chosen.reservation();
            let (proven, exact) = self.fractions(kept);
            FrontPoint {
                reservation,
                bandwidth: reservation.bandwidth().as_f64(),
                without_costs: kept.worth().get() as f64 / reservation.period.get() as f64,
                proven,
                exact,
                mark: match (is_chosen, undominated) {
                    (true, _) => Mark::Chosen,
                    (false, true) => Mark::Front,
                    (false, false) => Mark::Dominated,
                },
                objection: self.objection(kept),
            }
        });
        Front {
            activity: chosen.task.name.clone(),
            promises: requests.iter().map(|(promise, _)| promise.to_string()).collect(),
            points: points.collect(),
        }
    }

    /// The smallest proven fraction of its response promises, and the exact one where it is known.
    fn fractions(&self, kept: &Kept) -> (Option<f64>, Option<f64>) {
        let enforcement = self.options.platform.enforcement;
        let mut least: Option<(f64, Option<f64>)> = None;
        for (_, argument) in &kept.promises {
            let Argument::Response { limit, sizing, .. } = argument else { continue };
            let Ok(response) = respond(&kept.task, kept.frame, sizing, kept.worth(), enforcement) else {
                continue;
            };
            let within = response.task().budgets_within(*limit);
            let found = (response.probability(within), response.exact(within));
            if least.is_none_or(|(p, _)| found.0 < p) {
                least = Some(found);
            }
        }
        least.map_or((None, None), |(proven, exact)| (Some(proven), exact))
    }

    /// Whether the bound at the chosen runtime keeps every promise.
    fn is_proven(&self, kept: &Kept) -> bool {
        kept.promises.iter().all(|(_, argument)| self.unproven(kept, argument).is_none())
    }

    /// Why a promise is not proven with the runtime.
    fn unproven(&self, kept: &Kept, argument: &Argument) -> Option<String> {
        let Argument::Response { limit, at, sizing } = argument else { return None };
        // A rough search has asked for more than the bound needs.
        if self.fineness == Fineness::Rough {
            return None;
        }
        let promised = at.map_or(1.0, Probability::as_f64);
        match bound(kept, sizing, *limit, self.options.platform.enforcement) {
            Err(why) => Some(why),
            Ok(bound) if bound.probability < promised => Some(format!(
                "only a fraction of {:.5} is proven with {} and {promised} is promised: more measured jobs narrow the \
                 bound",
                bound.probability, kept.runtime
            )),
            Ok(_) => None,
        }
    }

    fn share_frame(&self, task: &Task, requests: &[(Promise, Request)]) -> Frame {
        let window = requests.iter().filter_map(|(_, r)| match r {
            Request::Share { over, .. } => *over,
            Request::Response { .. } => None,
        });
        let period = share::period(task.release.interval(), window.min(), &self.options.platform);
        Frame { deadline: period, period, gap: period, jitter: Nanos::ZERO, spread: 1 }
    }

    /// Raises a task's runtime to what one more request needs, feasible or not.
    fn sized(
        &self,
        kept: &mut Kept,
        promise: &Promise,
        request: Request,
        searched: &Searched,
    ) -> Result<(), Refused> {
        let enforcement = self.options.platform.enforcement;
        let frame = kept.frame;
        let (runtime, argument) = match request {
            Request::Response { limit, at } => {
                let verify = self.options.verify_activations.get(&kept.task.name).copied();
                let wanted = ResponseRequest { limit, at };
                let sizing = size(&kept.task, wanted, frame, &kept.demand, verify, (enforcement, searched))?;
                let runtime = kept.demand.budget_for(sizing.work, &frame);
                (runtime, Argument::Response { limit, at, sizing: Box::new(sizing) })
            }
            Request::Share { share, over } => {
                let in_frame = (frame.deadline, frame.period);
                let (runtime, steps) = share::runtime(share, over, in_frame, enforcement, self.alone)?;
                (runtime, Argument::Share { share, steps })
            }
        };
        kept.runtime = runtime.max(kept.runtime).max(KERNEL_RUNTIME_MIN);
        kept.promises.push((*promise, argument));
        Ok(())
    }

    /// Raises a task's runtime to what one more request needs, if that is feasible.
    fn try_one(
        &self,
        kept: &mut Kept,
        promise: &Promise,
        request: Request,
        searched: &Searched,
    ) -> Result<(), Refused> {
        let mut candidate = kept.clone();
        self.sized(&mut candidate, promise, request, searched)?;
        let argument = candidate.promises.last().map(|(_, a)| a.clone()).expect("just added");
        if let Some(objection) = self.objection(&candidate) {
            return Err(self.refuse(candidate, objection));
        }
        if let Some(why) = self.unproven(&candidate, &argument) {
            return Err(Refused::plainly(why));
        }
        *kept = candidate;
        Ok(())
    }

    /// What speaks against keeping a candidate beside all kept before.
    fn objection(&self, candidate: &Kept) -> Option<String> {
        let platform = &self.options.platform;
        self.objection_to(candidate.reservation(), &candidate.threads(platform.cpus, platform.enforcement))
    }

    fn objection_to(&self, reservation: Reservation, threads: &[ReservedThread]) -> Option<String> {
        if reservation.runtime > reservation.deadline {
            return Some(format!(
                "a runtime of {} is needed and the deadline is {} after the release",
                reservation.runtime, reservation.deadline
            ));
        }
        let names = self
            .kept
            .iter()
            .map(|k| k.task.name.as_str())
            .chain(self.irqs.iter().map(|i| i.irq.name.as_str()));
        let others = names.collect::<Vec<_>>();
        let objection = self.foundation(threads).objection().or_else(|| self.obstacle.clone())?;
        let beside = if others.is_empty() { String::new() } else { format!(" beside {}", others.join(", ")) };
        Some(format!(
            "{} in every {} are needed{beside}: {objection}",
            reservation.runtime, reservation.period
        ))
    }

    /// Every reserved thread so far.
    fn threads(&self) -> Vec<ReservedThread> {
        let platform = &self.options.platform;
        let tasks = self.kept.iter().flat_map(|kept| kept.threads(platform.cpus, platform.enforcement));
        tasks.chain(self.irqs.iter().map(KeptIrq::thread)).collect()
    }

    /// All kept so far and these.
    fn foundation(&self, more: &[ReservedThread]) -> Foundation {
        let mut threads = self.threads();
        threads.extend_from_slice(more);
        Foundation::of(&threads, &self.options.platform, self.options.admitted)
    }

    /// The hard handlers of the workload.
    pub(crate) fn handlers(&self) -> &[Handler] {
        &self.handlers
    }

    /// Keeps what it can of the wishes about an interrupt thread: all of them in the frame with the least bandwidth, or one
    /// after another where there is none for all.
    pub(crate) fn place_irq(&mut self, irq: &Irq, wishes: &[(Promise, Wish)]) -> Vec<(Promise, Refused)> {
        let source = Source { irq, handlers: &self.handlers, options: self.options, alone: self.alone };
        let mut refused = Vec::new();
        let mut kept: Option<KeptIrq> = self.cheapest_irq(&source, wishes).ok();
        if kept.is_none() {
            let mut some: Vec<(Promise, Wish)> = Vec::new();
            for wished in wishes {
                some.push(*wished);
                match self.cheapest_irq(&source, &some) {
                    Ok(found) => kept = Some(found),
                    Err(why) => {
                        refused.push((wished.0, why));
                        some.pop();
                    }
                }
            }
        }
        self.irqs.extend(kept);
        refused
    }

    fn cheapest_irq(&self, source: &Source<'_>, wishes: &[(Promise, Wish)]) -> Result<KeptIrq, Refused> {
        let mut found: Vec<KeptIrq> = Vec::new();
        let mut why: Option<Refused> = None;
        for frame in source.frames() {
            let sized: Result<Vec<_>, Refused> =
                wishes.iter().map(|(promise, wish)| Ok((*promise, source.size(*wish, frame)?))).collect();
            match sized {
                Ok(promises) => found.extend(KeptIrq::of(source, promises)),
                Err(refused) => why = Some(why.unwrap_or(refused)),
            }
        }
        found.sort_by(|a, b| by_bandwidth(&a.reservation, &b.reservation));
        for kept in found {
            match self.objection_to(kept.reservation, &[kept.thread()]) {
                None => return Ok(kept),
                Some(objection) => why = Some(Refused::infeasible(objection)),
            }
        }
        Err(why.unwrap_or_else(|| Refused::plainly("no server period fits the tick and the source")))
    }

    /// The refusal of a candidate, with the largest feasible runtime.
    fn refuse(&self, mut candidate: Kept, because: String) -> Refused {
        let Some(feasible) = self.largest_feasible(&mut candidate) else {
            return Refused::infeasible(because);
        };
        Refused::infeasible(format!(
            "{because}; at most {feasible} in every {} is feasible",
            candidate.frame.period
        ))
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

    /// Writes the reservations with their proofs; what they claim, and what is left.
    pub(crate) fn finish(self, plan: &mut Plan) -> (Vec<Claim>, Left) {
        let mut claims = Vec::new();
        if self.fineness == Fineness::Rough {
            // Only the refusals are asked for.
            return (claims, Left { best_effort: 0.0, fair_server: None });
        }
        let foundation = self.foundation(&[]);
        let enforcement = self.options.platform.enforcement;
        for kept in &self.kept {
            claims.extend(claims::of_task(kept, &self.options.platform));
            plan.reservations.push(PlannedReservation {
                activity: kept.task.name.clone(),
                promises: kept.promises.iter().map(|(promise, _)| promise.to_string()).collect(),
                reservation: kept.reservation(),
                proof: proofs::of_task(kept, &foundation, enforcement),
            });
        }
        for kept in &self.irqs {
            claims.extend(claims::of_irq(kept));
            plan.reservations.push(PlannedReservation {
                activity: kept.irq.name.clone(),
                promises: kept.promises.iter().map(|(promise, _)| promise.to_string()).collect(),
                reservation: kept.reservation,
                proof: proofs::of_irq(kept, &foundation, enforcement),
            });
        }
        (claims, left(&self.threads(), &self.options.platform, self.options.admitted))
    }
}

impl KeptIrq {
    /// One reservation for all: the largest runtime.
    fn of(source: &Source<'_>, promises: Vec<(Promise, Sized)>) -> Option<KeptIrq> {
        let largest = promises.iter().map(|(_, sized)| sized.reservation).max_by_key(|r| r.runtime)?;
        Some(KeptIrq {
            irq: source.irq.clone(),
            worth: source.useful(largest).runtime,
            reservation: largest,
            inputs: source.inputs(largest),
            promises,
        })
    }

    fn thread(&self) -> ReservedThread {
        ReservedThread { reservation: self.reservation, bounded: false }
    }
}

/// What these threads leave to others.
fn left(threads: &[ReservedThread], platform: &Platform, admitted: u64) -> Left {
    let reserved: f64 = threads.iter().map(|t| t.reservation.bandwidth().as_f64()).sum();
    let with = |server: FairServer, runtime: Nanos| {
        let platform = Platform { fair_server: Some(FairServer { runtime, ..server }), ..platform.clone() };
        Foundation::of(threads, &platform, admitted).objection().is_none()
    };
    let fair_server = platform.fair_server.and_then(|server| {
        let (mut low, mut high) = (server.runtime, server.period);
        if !with(server, low) {
            return None;
        }
        while high - low > Nanos::from_millis(1) {
            let middle = low + (high - low) / 2;
            if with(server, middle) { low = middle } else { high = middle }
        }
        let low = Nanos::from_millis(1) * low.div_floor(Nanos::from_millis(1));
        Some(FairServer { runtime: low.max(server.runtime), ..server })
    });
    Left { best_effort: f64::from(platform.cpus) - reserved, fair_server }
}
