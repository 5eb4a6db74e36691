//! `bfq`, Budget Fair Queueing (`block/bfq-iosched.c` of 6.1 to 7.2; Valente and Avanzini, 2015).
//!
//! Each process has a queue for what it waits for, and shares one for each priority for what it does not. The
//! [engine](engine) chooses a queue, which then has the device to itself until its budget of sectors or its time of 125 ms is used up,
//! or it has nothing more to do. Where that pays, the device is kept idle for the next request of the queue
//! ([`Bfq::idles_for`]), and requests of others are injected meanwhile. A budget that was used up grows, one that was not shrinks.
//!
//! Queues of applications that start, and of those that take little at regular times, have their weight raised for a while
//! (`low_latency`); not where many queues come at once.
//!
//! Each part can be switched off for comparison: the tunables from `wr_interactive` on are of this simulator alone. Not modelled:
//! merging of queues whose processes read interleaved (EQM), groups, wakers, several actuators.

mod engine;
mod idling;
mod queue;
mod raising;
mod rate;
mod service;

use std::collections::BTreeMap;

use surety_units::Nanos;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Rule, Side};
use crate::request::{Bio, IoClass, Op, Priority, ProcessId, RequestId, Requests};
use crate::tunable::Tunable;
use engine::{Engine, Entity, Standing};
use queue::{LARGE, LONG_AGO, Queue, RAISED, RAISED_SOFT};
use rate::PeakRate;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "bfq",
    source: "block/bfq-iosched.c and bfq-wf2q.c of Linux 6.1 to 7.2",
    front: Front::BlkMq,
    tunables: TUNABLES,
    make: |making| Box::new(Bfq::new(making)),
};

const TUNABLES: &[Tunable] = &[
    Tunable::number(
        "slice_idle",
        8,
        "ms",
        "the device is kept idle for a queue's next request for at most this",
    ),
    Tunable::number("fifo_expire_sync", 125, "ms", "a synchronous request has expired after this"),
    Tunable::number("fifo_expire_async", 250, "ms", "any other request has expired after this"),
    Tunable::number("timeout_sync", 125, "ms", "time of a queue in service"),
    Tunable::number(
        "max_budget",
        0,
        "sectors",
        "the greatest budget; 0: what the device serves in timeout_sync",
    ),
    Tunable::number("back_seek_max", 16 * 1024, "KiB", "requests this far back are near"),
    Tunable::number("back_seek_penalty", 2, "", "how much longer a way back counts"),
    Tunable::switch("low_latency", 1, "weights are raised"),
    Tunable::switch("strict_guarantees", 0, "one request in the device at a time, and always idling"),
    Tunable::switch("wr_interactive", 1, "weights of applications that start are raised"),
    Tunable::switch("wr_soft_rt", 1, "weights of soft real-time applications are raised"),
    Tunable::switch("bursts", 1, "queues that come in large numbers are not raised"),
    Tunable::switch("idling", 1, "the device is kept idle for a queue's next request"),
    Tunable::switch("injection", 1, "requests of others go while one is waited for"),
    Tunable::switch("feedback", 1, "budgets follow what queues use"),
    Tunable::switch("charge_time", 1, "slow queues are charged their time"),
];

const RAISED_FIRST: Rule = Rule("queue with a raised weight, least finish time");
const BUDGET: Rule = Rule("queue in service, within its budget");
const NEXT: Rule = Rule("queue with the least finish time of those eligible");
const INJECTED: Rule = Rule("injected while the queue in service has none");

/// What nobody waits for is charged so many times (`bfq_async_charge_factor`).
const ASYNC_CHARGE: u64 = 3;
/// Sectors served to an interactive queue after which it is not raised any more (`max_service_from_wr`).
const RAISED_SERVICE: u64 = 120_000;
/// A queue that was idle for less is not an application that starts (`bfq_wr_min_idle_time`).
const RAISED_IDLE: Nanos = Nanos::from_secs(2);
/// A soft real-time queue is raised for this, anew with each batch (`bfq_wr_rt_max_time`).
const SOFT_TIME: Nanos = Nanos::from_millis(300);
/// Sectors a second up to which a queue is soft real-time (`bfq_wr_max_softrt_rate`).
const SOFT_RATE: u64 = 7000;
/// So many queues made within this of one another are a large burst (`bfq_large_burst_thresh`, `bfq_burst_interval`).
const BURST: usize = 8;
const BURST_INTERVAL: Nanos = Nanos::from_millis(180);
/// The idle class is served once in this, whoever else wants to be (`BFQ_CL_IDLE_TIMEOUT`).
const IDLE_CLASS: Nanos = Nanos::from_millis(200);
/// Requests in time, in a row, after which a queue is bound by I/O (`bfq_requests_within_timer`).
const IN_TIME: u32 = 120;
/// More requests than this at a time, and the device queues (`BFQ_HW_QUEUE_THRESHOLD`), seen in so many samples.
const QUEUEING: u32 = 3;
const QUEUEING_SAMPLES: u32 = 32;
/// Budgets assigned before the device's rate says how large they may be.
const FIRST_BUDGETS: u64 = 194;

/// Why a queue is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    TooIdle,
    Timeout,
    Exhausted,
    NoMoreRequests,
    Preempted,
}

/// What is set.
#[derive(Clone, Debug)]
struct Set {
    slice_idle: Nanos,
    fifo_expire: [Nanos; 2],
    timeout: Nanos,
    max_budget: u64,
    back_max: u64,
    back_penalty: u64,
    low_latency: bool,
    strict: bool,
    interactive: bool,
    soft: bool,
    bursts: bool,
    idling: bool,
    injection: bool,
    feedback: bool,
    charge_time: bool,
}

#[derive(Debug)]
struct Bfq {
    set: Set,
    rotational: bool,
    tags: u32,
    tick: Nanos,
    engine: Engine,
    queues: Vec<Queue>,
    /// The queue of each process, and of each priority for what nobody waits for.
    of_process: BTreeMap<(ProcessId, Priority), usize>,
    of_priority: BTreeMap<Priority, usize>,
    /// The queue of each request, by its number.
    owner: Vec<usize>,
    in_service: Option<usize>,
    service_began: Nanos,
    /// Whether the queue in service has had its expired request looked at.
    looked_at_fifo: bool,
    rate: PeakRate,
    budgets: u64,
    queued: usize,
    busy: usize,
    raised_busy: usize,
    busy_class: [usize; IoClass::COUNT],
    in_driver: u32,
    most_in_driver: u32,
    samples: u32,
    /// Whether the device queues, once that is known.
    device_queues: bool,
    position: u64,
    timer: Option<Nanos>,
    idle_class_served: Nanos,
    burst: Vec<usize>,
    burst_last: Nanos,
    is_large_burst: bool,
    /// The request whose service time is taken, and whether others were injected meanwhile.
    waited: Option<RequestId>,
    waits_for_dispatch: bool,
    was_injected: bool,
}

impl Bfq {
    fn new(making: &Making) -> Bfq {
        let get = |name| making.settings.get(name);
        let on = |name| making.settings.is_on(name);
        let ms = |name| making.settings.millis(name);
        let set = Set {
            slice_idle: ms("slice_idle"),
            fifo_expire: [ms("fifo_expire_async"), ms("fifo_expire_sync")],
            timeout: ms("timeout_sync"),
            max_budget: get("max_budget"),
            back_max: get("back_seek_max") * 2,
            back_penalty: get("back_seek_penalty"),
            low_latency: on("low_latency"),
            strict: on("strict_guarantees"),
            interactive: on("wr_interactive"),
            soft: on("wr_soft_rt"),
            bursts: on("bursts"),
            idling: on("idling"),
            injection: on("injection"),
            feedback: on("feedback"),
            charge_time: on("charge_time"),
        };
        Bfq {
            set,
            rotational: making.rotational,
            tags: making.requests,
            tick: Nanos::new(1_000_000_000 / i64::from(making.hz.max(1))),
            engine: Engine::default(),
            queues: Vec::new(),
            of_process: BTreeMap::new(),
            of_priority: BTreeMap::new(),
            owner: Vec::new(),
            in_service: None,
            service_began: Nanos::ZERO,
            looked_at_fifo: false,
            rate: PeakRate::new(making.rotational),
            budgets: 0,
            queued: 0,
            busy: 0,
            raised_busy: 0,
            busy_class: [0; IoClass::COUNT],
            in_driver: 0,
            most_in_driver: 0,
            samples: 0,
            device_queues: false,
            position: 0,
            timer: None,
            idle_class_served: Nanos::ZERO,
            burst: Vec::new(),
            burst_last: LONG_AGO,
            is_large_burst: false,
            waited: None,
            waits_for_dispatch: false,
            was_injected: false,
        }
    }

    /// The greatest budget, and the least (`bfq_max_budget`, `bfq_min_budget`).
    fn max_budget(&self) -> u64 {
        match self.set.max_budget {
            0 if self.budgets < FIRST_BUDGETS => 16 * 1024,
            0 => self.rate.budget(self.set.timeout).max(1),
            set => set,
        }
    }

    fn min_budget(&self) -> u64 {
        (self.max_budget() / 32).max(1)
    }

    /// The queue of a request, made where there is none.
    fn queue_of(&mut self, context: &Context<'_>, id: RequestId) -> usize {
        let request = &context.requests[id];
        let (priority, now) = (request.priority, context.now);
        let known = match request.sync {
            true => self.of_process.get(&(request.process, priority)),
            false => self.of_priority.get(&priority),
        };
        if let Some(known) = known {
            return *known;
        }
        let budget = self.max_budget() * 2 / 3;
        let queue = Queue::new(priority, request.sync, now, budget);
        self.engine.entities.push(Entity::new(priority.class, queue.weight()));
        self.queues.push(queue);
        let id = self.queues.len() - 1;
        if request.sync {
            self.of_process.insert((request.process, priority), id);
        } else {
            self.of_priority.insert(priority, id);
        }
        id
    }

    /// Of two requests the one to go first from a position (`bfq_choose_req`).
    fn nearer(&self, requests: &Requests, one: RequestId, other: RequestId, from: u64) -> RequestId {
        let (a, b) = (&requests[one], &requests[other]);
        if a.sync != b.sync {
            return if a.sync { one } else { other };
        }
        if a.meta != b.meta {
            return if a.meta { one } else { other };
        }
        let way = |sector: u64| match sector.checked_sub(from) {
            Some(ahead) => (false, ahead),
            None if from - sector <= self.set.back_max => (false, (from - sector) * self.set.back_penalty),
            // Far behind: after everything ahead, the lowest first.
            None => (true, sector),
        };
        if way(b.sector) < way(a.sector) { other } else { one }
    }

    /// Sectors that a request counts for.
    fn charge(&self, requests: &Requests, q: usize, id: RequestId) -> u64 {
        let sectors = u64::from(requests[id].sectors);
        let queue = &self.queues[q];
        if queue.sync || queue.is_raised() || self.is_asymmetric(q) {
            sectors
        } else {
            sectors * ASYNC_CHARGE
        }
    }

    /// The next request of a queue after one has gone.
    fn next_of(&self, requests: &Requests, q: usize, gone: RequestId) -> Option<RequestId> {
        let sorted = &self.queues[q].sorted;
        let behind = sorted.beside(requests, gone, Side::Back).or_else(|| sorted.first());
        match (behind, sorted.beside(requests, gone, Side::Front)) {
            (Some(one), Some(other)) => Some(self.nearer(requests, one, other, requests[gone].sector)),
            (one, other) => one.or(other),
        }
    }

    fn removes(&mut self, requests: &Requests, q: usize, id: RequestId) {
        self.queues[q].sorted.remove(requests, id);
        self.queues[q].fifo.remove(id);
        self.forgets(requests, q, id);
    }

    /// A request is not among those of its queue any more.
    fn forgets(&mut self, requests: &Requests, q: usize, id: RequestId) {
        self.queued -= 1;
        let next = self.next_of(requests, q, id);
        if self.queues[q].next == Some(id) {
            self.queues[q].next = next;
        }
        // The last request of a queue that is not in service was injected, or joined another.
        if !self.queues[q].has_requests() && self.queues[q].is_busy && self.in_service != Some(q) {
            self.leaves(q);
            let entity = &mut self.engine.entities[q];
            (entity.budget, entity.service) = (0, 0);
        }
    }

    /// A queue has nothing to do any more.
    fn leaves(&mut self, q: usize) {
        let queue = &mut self.queues[q];
        queue.is_busy = false;
        self.busy -= 1;
        self.busy_class[queue.priority.class.place()] -= 1;
        self.raised_busy -= usize::from(queue.is_raised());
        self.engine.leave(q);
    }
}

impl Elevator for Bfq {
    fn depth_limit(&mut self, _context: &mut Context<'_>, bio: &Bio) -> Option<u32> {
        let part = |eighths: u32| (self.tags * eighths / 16).max(1);
        let raised = self.raised_busy > 0;
        match (bio.op, bio.sync) {
            (Op::Read, true) => None,
            (_, true) => Some(part(if raised { 6 } else { 12 })),
            (_, false) => Some(part(if raised { 3 } else { 8 })),
        }
    }

    fn may_merge(&mut self, context: &mut Context<'_>, into: RequestId, bio: &Bio) -> bool {
        let request = &context.requests[into];
        request.sync == bio.sync && (!bio.sync || request.process == bio.process)
    }

    fn front_merge(&mut self, context: &mut Context<'_>, bio: &Bio) -> Option<RequestId> {
        let priority = context.processes[bio.process.index()].priority;
        let q = match bio.sync {
            true => self.of_process.get(&(bio.process, priority)),
            false => self.of_priority.get(&priority),
        };
        self.queues[*q?].sorted.at(bio.end())
    }

    fn neighbour(&self, requests: &Requests, id: RequestId, side: Side) -> Option<RequestId> {
        self.queues[self.owner[id.index()]].sorted.beside(requests, id, side)
    }

    fn merged(&mut self, context: &mut Context<'_>, id: RequestId, side: Side) {
        let q = self.owner[id.index()];
        if side == Side::Front {
            self.queues[q].sorted.grown_at_front(context.requests, id);
            let next =
                self.queues[q].next.map_or(id, |next| self.nearer(context.requests, next, id, self.position));
            self.queues[q].next = Some(next);
        }
    }

    fn joining(&mut self, context: &mut Context<'_>, kept: RequestId, gone: RequestId) {
        let q = self.owner[gone.index()];
        self.queues[q].fifo.join(kept, gone);
        self.queues[q].sorted.remove(context.requests, gone);
        self.forgets(context.requests, q, gone);
        if self.queues[q].next.is_none() {
            self.queues[q].next = Some(kept);
        }
    }

    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        let (now, q) = (context.now, self.queue_of(context, id));
        let room = self.owner.len().max(id.index() + 1);
        self.owner.resize(room, 0);
        self.owner[id.index()] = q;
        let request = &context.requests[id];
        let (sync, sectors) = (request.sync, request.sectors);
        let idle = self.set.slice_idle;
        let queue = &mut self.queues[q];
        if queue.sync && queue.dispatched == 0 && !queue.is_busy {
            queue.think.add(now, idle);
        }
        if queue.sync && queue.priority.class != IoClass::Idle {
            queue.has_short_think = !queue.think.is_longer(Nanos::new(idle.get() / 2));
        }
        queue.look_at_seek(request, self.rotational);
        if queue.sync && !queue.has_requests() {
            self.begins_sample(q, now);
        }
        let queue = &mut self.queues[q];
        queue.sorted.insert(context.requests, id);
        queue.fifo.push(id, now + self.set.fifo_expire[usize::from(sync)]);
        self.queued += 1;
        let before = self.queues[q].next;
        let next = before.map_or(id, |next| self.nearer(context.requests, next, id, self.position));
        self.queues[q].next = Some(next);
        if !self.queues[q].is_busy {
            self.gets_busy(context, q, id);
        } else {
            if before != Some(next) && self.in_service != Some(q) {
                let charge = self.charge(context.requests, q, next);
                let budget = self.queues[q].max_budget.max(charge).max(self.engine.entities[q].service);
                self.engine.rebudget(q, budget);
            }
            self.came_to_served(context, q, sectors);
        }
    }

    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing) {
        if self.queued == 0 || (self.set.strict && self.in_driver > 0) {
            return;
        }
        if let Some((q, rule)) = self.selects(context)
            && let Some(id) = self.sends(context, q)
        {
            out.append(id, rule);
        }
    }

    fn completed(&mut self, context: &mut Context<'_>, id: RequestId) {
        let (now, q) = (context.now, self.owner[id.index()]);
        self.most_in_driver = self.most_in_driver.max(self.in_driver);
        if self.in_driver + u32::try_from(self.queued).unwrap_or(u32::MAX) > QUEUEING {
            self.samples += 1;
            if self.samples >= QUEUEING_SAMPLES {
                self.device_queues = self.most_in_driver > QUEUEING;
                (self.samples, self.most_in_driver) = (0, 0);
            }
        }
        if self.waited == Some(id) {
            self.looks_at_injection(q, now);
        }
        self.in_driver -= 1;
        self.rate.completed(now);
        let queue = &mut self.queues[q];
        queue.dispatched -= 1;
        if queue.dispatched == 0 && !queue.is_busy {
            queue.idle_since = now;
        }
        queue.think.last_end = now;
        if queue.updates_soft && queue.dispatched == 0 && !queue.has_requests() {
            self.queues[q].soft_next = self.soft_next(q, now);
            self.queues[q].updates_soft = false;
        }
        if self.in_service == Some(q) {
            if self.must_idle(q) {
                if self.queues[q].dispatched == 0 {
                    self.awaits(q, now);
                }
            } else if now >= self.queues[q].slice_end {
                self.expires(context, q, false, End::Timeout);
            } else if !self.queues[q].has_requests() && (self.queues[q].dispatched == 0 || !self.idles_for(q))
            {
                self.expires(context, q, false, End::NoMoreRequests);
            }
        }
    }

    fn timer(&self) -> Option<Nanos> {
        self.timer
    }

    fn expired(&mut self, context: &mut Context<'_>) {
        self.timer = None;
        let Some(q) = self.in_service.filter(|q| self.queues[*q].is_awaited) else { return };
        self.queues[q].is_awaited = false;
        if context.now >= self.queues[q].slice_end {
            self.expires(context, q, true, End::Timeout);
        } else if !self.queues[q].has_requests() {
            self.expires(context, q, true, End::TooIdle);
        }
    }

    fn queued(&self) -> usize {
        self.queued
    }
}

#[cfg(test)]
mod tests;
