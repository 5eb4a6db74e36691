//! `bfq`, Budget Fair Queueing (`block/bfq-iosched.c` of 6.1 to 7.2; Valente and Avanzini, 2015).
//!
//! Each process has a queue for what it waits for, and shares one for each priority for what it does not; queues of processes that
//! read close to each other, or that were made together, [become one](merging). The [engine](engine) chooses a queue, which then has the device to itself until its budget of sectors or its time of 125 ms is used up,
//! or it has nothing more to do. Where that pays, the device is kept idle for the next request of the queue
//! ([`Bfq::idles_for`]), and requests of others are injected meanwhile. A budget that was used up grows, one that was not shrinks.
//!
//! Queues of applications that start, and of those that take little at regular times, have their weight raised for a while
//! (`low_latency`); not where many queues come at once.
//!
//! Processes of a control group share what the group gets by its weight, and queues are merged within a group alone. A queue, or a group,
//! that has its part of the tags by weight has to wait for the first of them ([`Engine::has_its_part`]): beside one that is raised 30-fold others
//! have one or two requests.
//!
//! Each part can be switched off for comparison: the tunables from `wr_interactive` on are of this simulator alone. Not modelled:
//! several actuators.

mod close;
mod engine;
mod groups;
mod idling;
mod merging;
mod queue;
mod raising;
mod rate;
mod service;
mod set;
mod tree;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use surety_units::Nanos;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Rule, Side};
use crate::kernels::Rules;
use crate::request::{Bio, IoClass, Op, Priority, ProcessId, RequestId, Requests};
use crate::tick::Tick;
use crate::tunable::Tunable;
use engine::{Engine, Entity};
use queue::{LONG_AGO, Member, Queue, RAISED, RAISED_SOFT, Raising};
use rate::PeakRate;
use set::Set;

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
    Tunable::positive("fifo_expire_sync", 125, "ms", "a synchronous request has expired after this"),
    Tunable::positive("fifo_expire_async", 250, "ms", "any other request has expired after this"),
    Tunable::positive("timeout_sync", 125, "ms", "time of a queue in service"),
    Tunable::number(
        "max_budget",
        0,
        "sectors",
        "the greatest budget; 0: what the device serves in timeout_sync",
    ),
    Tunable::number("back_seek_max", 16 * 1024, "KiB", "requests this far back are near"),
    Tunable::positive("back_seek_penalty", 2, "", "how much longer a way back counts"),
    Tunable::switch("low_latency", 1, "weights are raised"),
    Tunable::switch("strict_guarantees", 0, "one request in the device at a time, and always idling"),
    Tunable::switch("wr_interactive", 1, "weights of applications that start are raised"),
    Tunable::switch("wr_soft_rt", 1, "weights of soft real-time applications are raised"),
    Tunable::switch("bursts", 1, "queues that come in large numbers are not raised"),
    Tunable::switch("idling", 1, "the device is kept idle for a queue's next request"),
    Tunable::switch("injection", 1, "requests of others go while one is waited for"),
    Tunable::switch("wakers", 1, "requests of a queue that another waits for go while that one is served"),
    Tunable::switch("merging", 1, "queues of processes that belong together are one"),
    Tunable::switch("feedback", 1, "budgets follow what queues use"),
    Tunable::switch("charge_time", 1, "slow queues are charged their time"),
    Tunable::switch("groups", 1, "control groups share by weight"),
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
/// A queue that was idle for longer is not of the burst any more in which it was made.
const BURST_OVER: Nanos = Nanos::from_secs(10);
/// What nobody waits for is raised where it comes after a pause of this (`bfq_wr_min_inter_arr_async`).
const ASYNC_PAUSE: Nanos = Nanos::from_millis(500);
/// More requests than this at a time, and the device queues (`BFQ_HW_QUEUE_THRESHOLD`), seen in so many samples.
const QUEUEING: u32 = 3;
const QUEUEING_SAMPLES: u32 = 32;
/// The moving count of services (up to 256) from which on the device's rate says how large budgets may be (`bfq_stats_min_budgets`), and
/// their size until then (`bfq_default_max_budget`).
const FIRST_BUDGETS: u64 = 194;
const FIRST_BUDGET: u64 = 16 * 1024;

/// Why a queue is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    TooIdle,
    Timeout,
    Exhausted,
    NoMoreRequests,
    Preempted,
}

#[derive(Debug)]
struct Bfq {
    set: Set,
    rules: &'static Rules,
    rotational: bool,
    tags: u32,
    tick: Tick,
    engine: Engine,
    queues: Vec<Queue>,
    members: Vec<Member>,
    /// The queue of each group and priority for what nobody waits for.
    of_priority: BTreeMap<(usize, Priority), usize>,
    /// The queue of each request, by its number.
    owner: Vec<usize>,
    in_service: Option<usize>,
    service_began: Nanos,
    /// Behind the last request of the queue in service.
    served_position: u64,
    /// Since when it is waited for the next one.
    idling_since: Nanos,
    /// Whether the queue in service has had its expired request looked at.
    looked_at_fifo: bool,
    rate: PeakRate,
    /// How many times a queue was served, as a moving count up to 256.
    budgets: u64,
    queued: usize,
    busy: usize,
    raised_busy: usize,
    busy_class: [usize; IoClass::COUNT],
    /// Queues that are not raised and have requests, here or in the device, by weight.
    weights: BTreeMap<u64, usize>,
    /// Where the next request of each queue begins, by group.
    begins: BTreeSet<(usize, u64, usize)>,
    /// Queues that are not where they were.
    moved: Vec<usize>,
    in_driver: u32,
    most_in_driver: u32,
    samples: u32,
    /// Whether the device takes several requests at a time, once that is known.
    device_queues: Option<bool>,
    position: u64,
    timer: Option<Nanos>,
    /// Queues made in a burst that is not large so far, and how many were.
    burst: Vec<usize>,
    burst_size: usize,
    burst_last: Nanos,
    burst_group: usize,
    is_large_burst: bool,
    /// The first of those that were made together last, in each group.
    made_last: Vec<Option<usize>>,
    /// Queues of each group that have something to do, here or in the device, and groups with any.
    pending: Vec<usize>,
    groups_pending: usize,
    /// The queue whose request ended last, unless it is shared.
    completed_last: Option<usize>,
    /// The request whose service time is taken, since when, and whether others were injected meanwhile.
    waited: Option<RequestId>,
    sampled_since: Nanos,
    waits_for_dispatch: bool,
    was_injected: bool,
    /// Interactive raising that has ended: whose, and how long it was.
    ended: VecDeque<(ProcessId, Nanos)>,
    /// The request complete last left the device idle, and nothing is waited for (`bfq_schedule_dispatch`).
    runs_queue: bool,
}

impl Bfq {
    fn new(making: &Making) -> Bfq {
        let set = Set::of(making);
        let groups = if set.groups { &making.groups[..] } else { &[] };
        Bfq {
            rate: PeakRate::new(making.rotational, set.timeout),
            set,
            rules: making.rules,
            rotational: making.rotational,
            tags: making.requests,
            tick: Tick::at(making.hz),
            engine: Engine::new(groups),
            queues: Vec::new(),
            members: Vec::new(),
            of_priority: BTreeMap::new(),
            owner: Vec::new(),
            in_service: None,
            service_began: Nanos::ZERO,
            served_position: 0,
            idling_since: Nanos::ZERO,
            looked_at_fifo: false,
            budgets: 0,
            queued: 0,
            busy: 0,
            raised_busy: 0,
            busy_class: [0; IoClass::COUNT],
            weights: BTreeMap::new(),
            begins: BTreeSet::new(),
            moved: Vec::new(),
            in_driver: 0,
            most_in_driver: 0,
            samples: 0,
            device_queues: None,
            position: 0,
            timer: None,
            burst: Vec::new(),
            burst_size: 0,
            burst_last: LONG_AGO,
            burst_group: 0,
            is_large_burst: false,
            made_last: vec![None; groups.len() + 1],
            pending: vec![0; groups.len() + 1],
            groups_pending: 0,
            completed_last: None,
            waited: None,
            sampled_since: Nanos::ZERO,
            waits_for_dispatch: false,
            was_injected: false,
            ended: VecDeque::new(),
            runs_queue: false,
        }
    }

    /// The greatest budget as the device's rate has it (`bfqd->bfq_max_budget`).
    fn greatest_budget(&self) -> u64 {
        match self.set.max_budget {
            0 => self.rate.budget().unwrap_or(FIRST_BUDGET).max(1),
            set => set,
        }
    }

    /// The greatest budget, and the least: the first ones before enough were served (`bfq_max_budget`, `bfq_min_budget`).
    fn max_budget(&self) -> u64 {
        if self.budgets < FIRST_BUDGETS { FIRST_BUDGET } else { self.greatest_budget() }
    }

    fn min_budget(&self) -> u64 {
        (self.max_budget() / 32).max(1)
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

    /// The next request of a queue after one has gone: once in a service one that has expired (`bfq_find_next_rq`).
    fn next_of(&mut self, context: &Context<'_>, q: usize, gone: RequestId) -> Option<RequestId> {
        let (queue, requests) = (&self.queues[q], &context.requests);
        let looks = self.in_service == Some(q) && !std::mem::replace(&mut self.looked_at_fifo, true);
        let oldest = queue.fifo.oldest().filter(|(oldest, _)| looks && *oldest != gone);
        if let Some((oldest, _)) = oldest.filter(|(_, expires)| *expires <= context.now) {
            return Some(oldest);
        }
        let behind = queue.sorted.beside(requests, gone, Side::Back).or_else(|| queue.sorted.first());
        let behind = behind.filter(|behind| *behind != gone);
        match (behind, queue.sorted.beside(requests, gone, Side::Front)) {
            (Some(one), Some(other)) => Some(self.nearer(requests, one, other, requests[gone].sector)),
            (one, other) => one.or(other),
        }
    }

    /// A request goes to the driver.
    fn removes(&mut self, context: &Context<'_>, q: usize, id: RequestId) {
        self.passes(context, q, id);
        self.queues[q].fifo.remove(id);
        self.queues[q].sorted.remove(context.requests, id);
        self.forgets(q, context.now);
    }

    /// A request is about to leave its queue: another is the next.
    fn passes(&mut self, context: &Context<'_>, q: usize, id: RequestId) {
        if self.queues[q].next == Some(id) {
            let next = self.next_of(context, q, id);
            self.has_next(q, next);
            self.updates_budget(context, q);
        }
    }

    /// A queue has another next request: its budget is enough for it (`bfq_updated_next_req`).
    fn updates_budget(&mut self, context: &Context<'_>, q: usize) {
        let Some(next) = self.queues[q].next.filter(|_| self.in_service != Some(q)) else { return };
        let charge = self.charge(context.requests, q, next);
        let budget = self.queues[q].max_budget.max(charge).max(self.engine.of(q).service);
        let weight = self.queues[q].weight();
        self.engine.rebudget(q, budget, weight, context.now);
    }

    /// A request is not among those of its queue any more.
    fn forgets(&mut self, q: usize, now: Nanos) {
        self.queued -= 1;
        // The last request of a queue that is not in service was injected, or joined another.
        if !self.queues[q].has_requests() {
            self.has_next(q, None);
            if self.queues[q].is_busy && self.in_service != Some(q) {
                self.leaves(q, now);
                let entity = self.engine.of_mut(q);
                (entity.budget, entity.service) = (0, 0);
            }
        }
    }

    /// A queue has nothing to do any more.
    fn leaves(&mut self, q: usize, now: Nanos) {
        let queue = &mut self.queues[q];
        queue.is_busy = false;
        self.busy -= 1;
        self.busy_class[queue.priority.class.place()] -= 1;
        self.raised_busy -= usize::from(queue.is_raised());
        if queue.dispatched == 0 {
            self.weighs_no_more(q);
        }
        self.engine.leave(q, now);
        if self.queues[q].dispatched == 0 {
            self.pends_no_more(q);
        }
    }

    /// Whether the device takes several requests at a time: as soon as it was seen to, or was given the chance often and did not
    /// (`bfq_update_hw_tag`).
    fn looks_at_depth(&mut self) {
        self.most_in_driver = self.most_in_driver.max(self.in_driver);
        if self.device_queues == Some(true) || self.in_driver as usize + self.queued <= QUEUEING as usize {
            return;
        }
        let has_few =
            |q: usize| self.queues[q].dispatched as usize + self.queues[q].sorted.len() < QUEUEING as usize;
        let waits = self.in_service.is_some_and(|q| self.queues[q].has_short_think && has_few(q));
        if waits && self.in_driver < QUEUEING {
            return;
        }
        self.samples += 1;
        if self.samples > QUEUEING_SAMPLES {
            self.device_queues = Some(self.most_in_driver > QUEUEING);
            (self.samples, self.most_in_driver) = (0, 0);
        }
    }
}

impl Elevator for Bfq {
    /// A queue that has its part of the tags has the first tag alone for more (`bfq_limit_depth`).
    fn depth_limit(&mut self, context: &mut Context<'_>, bio: &Bio) -> Option<u32> {
        let is_read = bio.sync && bio.op == Op::Read;
        let limit = (!is_read).then(|| self.rules.bfq_depth(self.tags, self.raised_busy > 0, bio.sync));
        let tags = limit.map_or(u64::from(self.tags), |limit| self.rules.of_all(self.tags, limit));
        let queue = self.known_queue_of(context, bio);
        if queue.is_some_and(|q| self.engine.has_its_part(q, tags)) { Some(1) } else { limit }
    }

    fn least_limit(&self) -> u32 {
        1
    }

    fn may_merge(&mut self, context: &mut Context<'_>, into: RequestId, bio: &Bio) -> bool {
        let Some(mut q) = self.known_queue_of(context, bio) else { return false };
        if bio.sync {
            q = self.cooperates(context, bio.process, q, bio.sector);
        }
        self.owner[into.index()] == q
    }

    fn front_merge(&mut self, context: &mut Context<'_>, bio: &Bio) -> Option<RequestId> {
        self.queues[self.known_queue_of(context, bio)?].sorted.at(bio.end())
    }

    fn neighbour(&self, requests: &Requests, id: RequestId, side: Side) -> Option<RequestId> {
        self.queues[self.owner[id.index()]].sorted.beside(requests, id, side)
    }

    fn merged(&mut self, context: &mut Context<'_>, id: RequestId, side: Side) {
        let q = self.owner[id.index()];
        if side == Side::Front {
            self.queues[q].sorted.grown_at_front(context.requests, id);
            let before = self.queues[q].next;
            let next = before.map_or(id, |next| self.nearer(context.requests, next, id, self.position));
            self.has_next(q, Some(next));
            if before != Some(next) {
                self.updates_budget(context, q);
            }
        }
    }

    fn joining(&mut self, context: &mut Context<'_>, kept: RequestId, gone: RequestId) {
        let q = self.owner[gone.index()];
        if self.queues[q].next == Some(gone) {
            self.has_next(q, Some(kept));
        }
        self.members[context.requests[gone].process.index()].requests -= 1;
        self.engine.counts(q, false);
        self.queues[q].fifo.join(kept, gone);
        self.queues[q].sorted.remove(context.requests, gone);
        self.forgets(q, context.now);
    }

    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        let now = context.now;
        let (process, sync) = (context.requests[id].process, context.requests[id].sync);
        let (sector, sectors) = (context.requests[id].sector, context.requests[id].sectors);
        let room = self.members.len().max(process.index() + 1);
        self.members.resize_with(room, Member::default);
        let mut q = self.queue_of(context, process, sync);
        self.members[process.index()].requests += 1;
        if sync {
            q = self.cooperates(context, process, q, sector);
        }
        let room = self.owner.len().max(id.index() + 1);
        self.owner.resize(room, 0);
        self.owner[id.index()] = q;
        self.engine.counts(q, true);
        self.looks_at_think_time(q, now);
        self.queues[q].look_at_seek(&context.requests[id], self.rotational);
        self.looks_at_seeks(q, now);
        if self.queues[q].sync {
            if self.members[process.index()].requests <= 1 {
                self.begins_sample(q, now);
            }
            self.queues[q].look_at_intensity(now);
        }
        let queue = &mut self.queues[q];
        let was_raised = queue.is_raised();
        queue.sorted.insert(context.requests, id);
        queue.fifo.push(id, now + self.set.fifo_expire[usize::from(sync)]);
        self.queued += 1;
        let before = queue.next;
        let next = before.map_or(id, |next| self.nearer(context.requests, next, id, self.position));
        self.has_next(q, Some(next));
        let mut starts = false;
        if !self.queues[q].is_busy {
            starts = self.gets_busy(context, q, id);
        } else {
            self.raises_async(q, now);
            if before != Some(next) {
                self.updates_budget(context, q);
            }
        }
        let queue = &mut self.queues[q];
        if self.set.low_latency && (!was_raised || !queue.is_raised() || starts) {
            queue.raising.since = now;
        }
        queue.position = Some(sector + u64::from(sectors));
        self.came_to_served(context, q, sectors);
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
        if self.waited == Some(id) {
            self.looks_at_injection(q, now);
        }
        self.looks_at_depth();
        self.members[context.requests[id].process.index()].requests -= 1;
        self.engine.counts(q, false);
        self.in_driver -= 1;
        let queue = &mut self.queues[q];
        queue.dispatched -= 1;
        if queue.dispatched == 0 && !queue.is_busy {
            queue.timeout = self.tick.before(now);
            self.weighs_no_more(q);
            self.pends_no_more(q);
        }
        self.rate.completed(now);
        let queue = &mut self.queues[q];
        queue.think.last_end = now;
        self.completed_last = (!queue.is_shared).then_some(q);
        let is_interactive = queue.raising.coefficient == RAISED;
        if queue.updates_soft && queue.dispatched == 0 && !queue.has_requests() && !is_interactive {
            self.queues[q].soft_next = self.soft_next(q, now);
        }
        self.runs_queue = self.in_driver == 0;
        if self.in_service == Some(q) {
            if self.must_idle(q) {
                if self.queues[q].dispatched == 0 {
                    self.awaits(q, now);
                }
                self.runs_queue = false;
            } else if self.may_time_out(q, now) {
                self.expires(context, q, false, End::Timeout);
            } else if !self.queues[q].has_requests() && (self.queues[q].dispatched == 0 || !self.idles_for(q))
            {
                self.expires(context, q, false, End::NoMoreRequests);
            }
        }
    }

    fn runs_queue(&mut self) -> bool {
        std::mem::take(&mut self.runs_queue)
    }

    fn raised(&mut self) -> Option<(ProcessId, Nanos)> {
        self.ended.pop_front()
    }

    fn exited(&mut self, context: &mut Context<'_>, process: ProcessId) {
        self.lets_go(context, process);
    }

    fn timer(&self) -> Option<Nanos> {
        self.timer
    }

    fn expired(&mut self, context: &mut Context<'_>) -> bool {
        self.timer = None;
        let Some(q) = self.in_service.filter(|q| self.queues[*q].is_awaited) else { return true };
        self.queues[q].is_awaited = false;
        if context.now >= self.queues[q].timeout {
            self.expires(context, q, true, End::Timeout);
        } else if !self.queues[q].has_requests() {
            self.expires(context, q, true, End::TooIdle);
        }
        true
    }

    fn queued(&self) -> usize {
        self.queued
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
