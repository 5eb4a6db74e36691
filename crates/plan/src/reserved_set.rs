//! Putting reservations together: each request is kept if, with all kept before it, the kernel admits the
//! set, every scheduling deadline is kept and the fair server stays in the background. Proofs are written
//! when the set is complete.

mod at_once;
pub(crate) mod placing;

use std::rc::Rc;

use surety_analysis::RootDomain;
use surety_analysis::cbs::Fineness;
use surety_analysis::foundation::{Foundation, ReservedThread, lent_reservation};
use surety_analysis::overheads::Interruption;
use surety_model::claim::Claim;
use surety_model::plan::{Front, Left, Plan, PlannedReservation};
use surety_model::platform::{FairServer, OtherReservation, Platform};
use surety_model::promise::Promise;
use surety_model::reservation::{KERNEL_RUNTIME_MIN, Reservation};
use surety_model::workload::{Irq, Workload, unanalysed_group};
use surety_units::{CpuSet, Nanos, Probability};

use crate::interrupt::{self, Source, Wish};
use crate::kept::{Argument, Kept, KeptIrq};
use crate::proofs::{self, bound};
use crate::refusal::{Refused, in_full};
use crate::reserved_set::placing::{Search, Wanted};
use crate::response::{ResponseRequest, Searched, size};
use crate::synthesis::by_bandwidth;
use crate::{GRAIN, PlanOptions, Request, claims, share};

/// The reservations kept so far.
pub(crate) struct ReservedSet<'a> {
    options: &'a PlanOptions,
    alone: bool,
    obstacle: Option<String>,
    kept: Vec<Kept>,
    irqs: Vec<KeptIrq>,
    handlers: Vec<Interruption>,
    fineness: Fineness,
    searched: Rc<Searched>,
    /// What was tried, where that is asked for.
    fronts: Option<Vec<Front>>,
    /// Whether deadlines are at the ends of periods.
    implicit: bool,
    /// Whether anything is objected to; else it only sizes.
    objects: bool,
    /// What was refused would take these threads.
    wanted: Vec<(String, ReservedThread)>,
}

/// Why nothing of a workload is proven: what it has that is for simulation alone, or that the kernel of the machine lacks.
fn unproven(workload: &Workload, platform: &Platform) -> Option<String> {
    if let Some(why) = platform.without_reservations() {
        return Some(why);
    }
    let lacking = workload.lacking_on(platform).into_iter().next();
    let policy = workload.simulated_policy();
    let policy = policy.map(|path| format!("{path}: its policy has no analysis; try `surety run --on sim`"));
    let changing = workload.changes_policy();
    let changing = changing.map(|path| {
        format!("{path}: it changes its policy, which no analysis covers; measure it with `surety run`")
    });
    let group = unanalysed_group(workload).map(|(group, why)| (group, why.to_owned()));
    policy.or(changing).or_else(|| group.or(lacking).map(|(object, why)| format!("{object}: {why}")))
}

impl<'a> ReservedSet<'a> {
    /// Nothing kept yet of a workload.
    pub(crate) fn new(workload: &Workload, options: &'a PlanOptions) -> ReservedSet<'a> {
        let platform = &options.platform;
        let promised = workload.tasks.iter().filter(|task| !task.promises.is_empty());
        let threads = promised.map(|task| task.instances.on(platform.cpus)).fold(0u32, u32::saturating_add);
        let irqs = workload.irqs.iter().filter(|irq| !irq.promises.is_empty()).count();
        let others = platform.others.iter().map(|other| other.threads).fold(0u32, u32::saturating_add);
        let threads = threads.saturating_add(u32::try_from(irqs).unwrap_or(u32::MAX)).saturating_add(others);
        // A fair server that acts takes turns with reserved threads.
        let acts = platform.realtime.as_ref().is_some_and(|realtime| realtime.takes.is_none());
        let lent = lent_reservation(workload, |task| task.reservation.is_some() || !task.promises.is_empty());
        ReservedSet {
            options,
            // Root domains may put two threads on one CPU though others are free.
            alone: threads <= platform.cpus && platform.root_domains.len() < 2 && !acts,
            obstacle: lent.or_else(|| unproven(workload, platform)),
            kept: Vec::new(),
            irqs: Vec::new(),
            handlers: interrupt::handlers(workload, &options.platform),
            fineness: Fineness::Fine,
            searched: Rc::new(Searched::new(Fineness::Fine, options.search.clone())),
            fronts: None,
            implicit: false,
            objects: true,
            wanted: Vec::new(),
        }
    }

    /// The same, which remembers what was tried.
    pub(crate) fn with_fronts(self) -> ReservedSet<'a> {
        ReservedSet { fronts: Some(Vec::new()), ..self }
    }

    /// The same on rough grids: faster, and asks for a little more.
    ///
    /// `searched`: what was searched for in other rough plans, and is in this one.
    pub(crate) fn roughly(self, searched: &Rc<Searched>) -> ReservedSet<'a> {
        ReservedSet { fineness: Fineness::Rough, searched: Rc::clone(searched), ..self }
    }

    /// What it is made for.
    pub(crate) fn options(&self) -> &'a PlanOptions {
        self.options
    }

    /// What was searched for already.
    pub(crate) fn searched(&self) -> &Rc<Searched> {
        &self.searched
    }

    /// Whether deadlines are at the ends of periods.
    pub(crate) fn is_implicit(&self) -> bool {
        self.implicit
    }

    /// Whether grids are rough.
    pub(crate) fn is_rough(&self) -> bool {
        self.fineness == Fineness::Rough
    }

    /// What was tried.
    pub(crate) fn fronts(&mut self) -> Vec<Front> {
        self.fronts.take().unwrap_or_default()
    }

    /// Keeps what it can of a task's requests and says why not the rest.
    pub(crate) fn place(&mut self, wanted: &Wanted<'_>) -> Vec<(Promise, Refused)> {
        let found = Search::new(self, wanted).run(self.fronts.is_some());
        self.fronts.iter_mut().for_each(|fronts| fronts.extend(found.front.clone()));
        self.kept.extend(found.kept);
        found.refused
    }

    /// Whether the bound at the chosen runtime keeps every promise.
    pub(crate) fn is_proven(&self, kept: &Kept) -> bool {
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
        match bound(kept, sizing, *limit, self.options.platform.enforcement, &self.searched) {
            Err(why) => Some(why),
            Ok(bound) if bound.probability < promised => Some(format!(
                "only a fraction of {:.5} is proven with {} and {promised} is promised: more measured jobs narrow the \
                 bound",
                bound.probability, kept.runtime
            )),
            Ok(_) => None,
        }
    }

    /// Raises a task's runtime to what one more request needs, feasible or not.
    pub(crate) fn sized(
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
    pub(crate) fn try_one(
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
    pub(crate) fn objection(&self, candidate: &Kept) -> Option<String> {
        let platform = &self.options.platform;
        self.objection_to(candidate.reservation(), &candidate.threads(platform.cpus, platform.enforcement))
    }

    fn objection_to(&self, reservation: Reservation, threads: &[ReservedThread]) -> Option<String> {
        if !self.objects {
            return None;
        }
        if reservation.runtime > reservation.deadline {
            return Some(format!(
                "a runtime of {} is needed and the deadline is {} after the release",
                in_full(reservation.runtime),
                in_full(reservation.deadline)
            ));
        }
        let names = self
            .kept
            .iter()
            .map(|k| k.task.name.as_str())
            .chain(self.irqs.iter().map(|i| i.irq.name.as_str()));
        let standing = self.options.platform.others.iter().map(|other| other.name.as_str());
        let others = names.chain(standing).collect::<Vec<_>>();
        let objection = self.against(threads).or_else(|| self.obstacle.clone())?;
        let beside = if others.is_empty() { String::new() } else { format!(" beside {}", others.join(", ")) };
        Some(format!(
            "{} in every {} are needed{beside}: {objection}",
            in_full(reservation.runtime),
            in_full(reservation.period)
        ))
    }

    /// What does not hold of all kept so far and these.
    fn against(&self, more: &[ReservedThread]) -> Option<String> {
        let foundation = self.foundation(more);
        // It was sized as one that has a CPU whenever it wants one.
        let taken_alone = self.alone && !foundation.edf.alone;
        let turns = || "a fair server that has to act takes turns with it".to_owned();
        // What is feasible is looked for: what the kernel alone would admit is another number.
        let refused = foundation.refused.as_ref().map(|(_, error)| error.reason());
        refused.or_else(|| foundation.objection()).or_else(|| taken_alone.then(turns))
    }

    /// Every reserved thread so far.
    fn threads(&self) -> Vec<ReservedThread> {
        self.named_threads().into_iter().map(|(_, thread)| thread).collect()
    }

    /// All kept so far and these.
    fn foundation(&self, more: &[ReservedThread]) -> Foundation {
        let mut threads = self.threads();
        threads.extend_from_slice(more);
        Foundation::of(&threads, &self.options.platform)
    }

    /// The hard handlers of the workload.
    pub(crate) fn handlers(&self) -> &[Interruption] {
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
        let wanted = (!refused.is_empty()).then(|| self.wanted_irq(&source, wishes)).flatten();
        self.wanted.extend(wanted);
        self.irqs.extend(kept);
        refused
    }

    fn cheapest_irq(&self, source: &Source<'_>, wishes: &[(Promise, Wish)]) -> Result<KeptIrq, Refused> {
        let mut found: Vec<KeptIrq> = Vec::new();
        let mut why: Option<Refused> = None;
        for frame in source.frames() {
            if self.options.search.is_reached() && (why.is_some() || !found.is_empty()) {
                break;
            }
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
        if self.options.search.is_reached() {
            return Refused::infeasible(because);
        }
        let Some(feasible) = self.largest_feasible(&mut candidate) else {
            return Refused::infeasible(because);
        };
        Refused::infeasible(format!(
            "{because}; at most {} in every {} is feasible",
            in_full(feasible),
            in_full(candidate.frame.period)
        ))
    }

    /// The largest runtime in the candidate's frame to which nothing objects.
    fn largest_feasible(&self, candidate: &mut Kept) -> Option<Nanos> {
        let platform = &self.options.platform;
        let domain = RootDomain::of(platform);
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
            return Some(GRAIN * high.div_floor(GRAIN));
        }
        while high - low > GRAIN && !self.options.search.is_reached() {
            let middle = low + (high - low) / 2;
            if feasible(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(GRAIN * low.div_floor(GRAIN))
    }

    /// Every reserved thread so far with its activity's name.
    pub(crate) fn named_threads(&self) -> Vec<(String, ReservedThread)> {
        let irqs = self.irqs.iter().map(|kept| (kept.irq.name.clone(), kept.thread()));
        self.kept.iter().flat_map(|kept| self.named(kept)).chain(irqs).collect()
    }

    /// Writes the reservations with their proofs; what they claim, and what is left.
    pub(crate) fn finish(self, plan: &mut Plan) -> (Vec<Claim>, Left) {
        let mut claims = Vec::new();
        if self.fineness == Fineness::Rough {
            // Only the refusals are asked for.
            return (claims, Left { best_effort: 0.0, fair_server: None });
        }
        let foundation = self.foundation(&[]).for_proof();
        let enforcement = self.options.platform.enforcement;
        let names = self.named_threads();
        let homes = |name: &str| -> Vec<CpuSet> {
            let own = names.iter().enumerate().filter(|(_, (of, _))| of == name);
            own.filter_map(|(place, _)| foundation.home_of(place)).collect()
        };
        for kept in &self.kept {
            claims.extend(claims::of_task(kept, &self.options.platform, &self.searched));
            plan.reservations.push(PlannedReservation {
                activity: kept.task.name.clone(),
                promises: kept.promises.iter().map(|(promise, _)| *promise).collect(),
                reservation: kept.reservation(),
                root_domains: homes(&kept.task.name),
                proof: proofs::of_task(kept, &foundation, enforcement, &self.searched),
            });
        }
        for kept in &self.irqs {
            claims.extend(claims::of_irq(kept));
            plan.reservations.push(PlannedReservation {
                activity: kept.irq.name.clone(),
                promises: kept.promises.iter().map(|(promise, _)| *promise).collect(),
                reservation: kept.reservation,
                root_domains: homes(&kept.irq.name),
                proof: proofs::of_irq(kept, &foundation, enforcement),
            });
        }
        (claims, left(&self.threads(), &self.options.platform))
    }
}

/// What these threads leave, beside what others have reserved.
pub(crate) fn left(threads: &[ReservedThread], platform: &Platform) -> Left {
    let own: f64 = threads.iter().map(|t| t.reservation.bandwidth().as_f64()).sum();
    let others: f64 = platform.others.iter().map(OtherReservation::bandwidth).sum();
    // Every CPU has it: fair threads are kept no more than the smallest of unlike servers keeps them.
    let with = |server: FairServer, runtime: Nanos| {
        let fair_server = Some(FairServer { runtime, ..server });
        let platform = Platform { fair_server, fair_servers: Vec::new(), ..platform.clone() };
        // Deadlines are kept or not, whatever a fair server in the background may do.
        let is_cheap = platform.root_domains.is_empty() && platform.realtime.is_none();
        if runtime > server.runtime && is_cheap {
            return Foundation::stays_in_background(threads, &platform);
        }
        Foundation::of(threads, &platform).objection().is_none()
    };
    let fair_server = platform.least_fair_server().and_then(|server| {
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
    Left { best_effort: f64::from(platform.cpus) - own - others, fair_server }
}
