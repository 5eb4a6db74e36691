//! [`Cfs`]: the Completely Fair Scheduler of 6.5 and before, the arithmetic of one queue at a time.
//!
//! After `kernel/sched/fair.c` of 6.1. The waiting entity with the least virtual time runs. On the tick it gives way when it has run
//! longer than its slice, its part by weight of a period, or has got further ahead of the first waiting one than that; between ticks it is
//! preempted by one that wakes when that is behind by more than a granularity. A queue's `zero` follows the least
//! virtual time and never goes back (`min_vruntime`): one that wakes is placed half a period before it at most, a new one
//! a slice behind it.
//!
//! All times come from the smallest granularity, the platform's base slice, as the kernel's constants are to each other: period 8,
//! wake-up granularity 4/3. A latency nice `n` (V. Guittot's series of 2022) shifts that granularity: one that wakes may be `51.2 n / 1024` of what a sleeper
//! is placed before the least virtual time further ahead of the running one, or has to be that much further behind it. What its features (`kernel/sched/features.h`) change is in lengths and in [`Features`].

use std::ops::{Deref, DerefMut};

use surety_model::platform::Platform;
use surety_model::platform::features::FairVersion;

use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::{Arrival, CpuPolicy};

use super::Fair;
use super::balance::Search;
use super::queue::{LAST, NEXT, Queues, Rule, SKIP, WakeupPreemption, scaled};
use super::weight::IDLE;

/// Entities that share one period; with more it grows (`sched_nr_latency`).
const ENTITIES_OF_A_PERIOD: i64 = 8;

/// Queues that choose by it.
pub(super) struct Cfs {
    queues: Queues,
    /// Smallest time between two preemptions by the tick (`sched_min_granularity`).
    granularity: i64,
    /// The same for idle threads beside others: not scaled by the number of CPUs (`sched_idle_min_granularity`).
    idle_granularity: i64,
    /// By how much one that wakes must be behind (`sched_wakeup_granularity`).
    wakeup_granularity: i64,
    /// How far before the least virtual time one that wakes is placed at most, and an idle one (half of a period and of a granularity with
    /// `GENTLE_FAIR_SLEEPERS`).
    credit: i64,
    idle_credit: i64,
    features: Features,
}

/// Features that are no length, by their names.
#[derive(Clone, Copy, Debug)]
struct Features {
    start_debit: bool,
    next_buddy: bool,
    last_buddy: bool,
    wakeup_preemption: bool,
    alt_period: bool,
    base_slice: bool,
    search: Search,
}

impl Features {
    fn of(platform: &Platform, version: &FairVersion) -> Features {
        let has = |name: &str| platform.has_feature(version, name);
        Features {
            start_debit: has("START_DEBIT"),
            next_buddy: has("NEXT_BUDDY"),
            last_buddy: has("LAST_BUDDY"),
            wakeup_preemption: has("WAKEUP_PREEMPTION"),
            alt_period: has("ALT_PERIOD"),
            base_slice: has("BASE_SLICE"),
            search: Search::USUAL.with_features(platform, version),
        }
    }
}

/// Makes the scheduler, for a machine without threads.
pub(in crate::cpu::policies) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    let rule = Cfs::new(&hardware.platform, hardware.cpus.len());
    Box::new(Fair::new(hardware, rank, rule))
}

impl Deref for Cfs {
    type Target = Queues;

    fn deref(&self) -> &Queues {
        &self.queues
    }
}

impl DerefMut for Cfs {
    fn deref_mut(&mut self) -> &mut Queues {
        &mut self.queues
    }
}

impl Cfs {
    /// Empty root queues.
    fn new(platform: &Platform, cpus: usize) -> Cfs {
        let queues = Queues::new(platform, cpus);
        let granularity = queues.base_slice;
        let version = FairVersion::of("cfs-6.1").expect("the table has it");
        let part = if platform.has_feature(version, "GENTLE_FAIR_SLEEPERS") { 2 } else { 1 };
        Cfs {
            granularity,
            idle_granularity: granularity / queues.scale(),
            wakeup_granularity: granularity * 4 / 3,
            credit: granularity * ENTITIES_OF_A_PERIOD / part,
            idle_credit: granularity / part,
            features: Features::of(platform, version),
            queues,
        }
    }

    /// Whether a queue has as many entities as make its period longer.
    fn is_crowded(&self, queue: usize) -> bool {
        let entities = i64::try_from(self.queues.queues[queue].count).expect("fewer than 2^63 entities");
        entities >= ENTITIES_OF_A_PERIOD
    }

    fn is_idle(&self, entity: usize) -> bool {
        let e = &self.queues.entities[entity];
        e.thread.is_some() && e.weight == IDLE
    }

    /// How long an entity may run at a time, ns (`sched_slice`).
    fn slice(&self, entity: usize) -> i64 {
        let e = &self.queues.entities[entity];
        let root = e.queue % self.queues.cpus;
        let of_cpu = self.features.alt_period;
        let threads = if of_cpu { self.queues.threads[root] } else { self.queues.queues[e.queue].count };
        let threads = i64::try_from(threads).expect("fewer than 2^63 threads") + i64::from(!e.queued);
        let mut slice = self.granularity * threads.max(ENTITIES_OF_A_PERIOD);
        let mut next = Some(entity);
        while let Some(entity) = next {
            let e = &self.queues.entities[entity];
            let load = self.queues.load(e.queue) + if e.queued { 0 } else { e.weight };
            slice = scaled(slice, e.weight, load.max(1));
            next = self.queues.parent(entity);
        }
        if !self.features.base_slice {
            return slice;
        }
        let root = &self.queues.queues[root];
        let others_are_idle = || {
            let running = root.current.filter(|c| self.queues.entities[*c].queued);
            root.tree.iter().map(|member| member.item as usize).chain(running).all(|e| self.is_idle(e))
        };
        let shortest = match self.is_idle(entity) && !others_are_idle() {
            true => self.idle_granularity,
            false => self.granularity,
        };
        slice.max(shortest)
    }

    /// The least virtual time moves on (`update_min_vruntime`).
    fn advance(&mut self, queue: usize) {
        let q = &self.queues.queues[queue];
        let running = q.current.map(|c| &self.queues.entities[c]).filter(|c| c.queued);
        let least = running.map(|c| c.virtual_time).into_iter().chain(q.tree.first().map(|m| m.key)).min();
        let Some(ahead) = least.map(|least| least - q.zero).filter(|ahead| *ahead > 0) else { return };
        let q = &mut self.queues.queues[queue];
        q.sum -= q.load * ahead;
        q.zero += ahead;
    }

    /// By how much an entity is ahead of another, in granularities: 1 more than one, 0 less, -1 not at all
    /// (`wakeup_preempt_entity`).
    fn ahead(&self, entity: usize, of: usize) -> i32 {
        let [e, o] = [entity, of].map(|e| &self.queues.entities[e]);
        let ahead = e.virtual_time - o.virtual_time - self.latency_offset(e.latency_offset, o.latency_offset);
        if ahead <= 0 { -1 } else { i32::from(ahead > self.queues.virtual_span(of, self.wakeup_granularity)) }
    }
}

impl Cfs {
    /// By how much more an entity may be ahead of another: the other's offset, less its own where either is in a hurry
    /// (`wakeup_latency_gran`).
    #[inline]
    fn latency_offset(&self, own: i64, other: i64) -> i64 {
        let offset = if own < 0 || other < 0 { other - own } else { other };
        offset.min(self.granularity * (ENTITIES_OF_A_PERIOD - 1))
    }
}

impl Rule for Cfs {
    fn search(&self) -> Search {
        self.features.search
    }

    fn wakeup_preemption(&self) -> WakeupPreemption {
        if self.features.wakeup_preemption { WakeupPreemption::All } else { WakeupPreemption::OfIdle }
    }

    fn nominates(&self) -> bool {
        self.features.next_buddy
    }

    fn nominate(&mut self, current: usize, woken: usize) {
        if self.is_crowded(self.queues.entities[current].queue) && !self.queues.entities[woken].is_new {
            self.queues.mark(woken, NEXT);
        }
    }

    fn key(&self, entity: usize) -> i64 {
        self.queues.entities[entity].virtual_time
    }

    fn set_slice(&mut self, _entity: usize, _slice: i64) {}

    /// `51.2 n` rounded, from -1024 to 973.
    fn set_latency_nice(&mut self, entity: usize, latency_nice: i32) {
        let rounded = (i64::from(latency_nice) * 512 + 5 * i64::from(latency_nice.signum())) / 10;
        self.queues.entities[entity].latency_offset = rounded * self.credit / 1024;
    }

    fn shortest_slice(&self, _queue: usize) -> i64 {
        self.queues.base_slice
    }

    /// Virtual times of two queues have nothing in common: what goes along is the distance from the least.
    fn move_to(&mut self, entity: usize, queue: usize) {
        let e = &mut self.queues.entities[entity];
        let old = std::mem::replace(&mut e.queue, queue);
        if old != queue && !e.relative {
            e.virtual_time -= self.queues.queues[old].zero;
            e.relative = true;
        }
    }

    fn enqueue(&mut self, entity: usize, arrival: Arrival) {
        let e = &mut self.queues.entities[entity];
        let queue = e.queue;
        let least = self.queues.queues[queue].zero;
        if std::mem::take(&mut e.relative) {
            e.virtual_time += least;
        }
        let placed = match arrival {
            Arrival::New if self.features.start_debit => {
                Some(least + self.queues.virtual_span(entity, self.slice(entity)))
            }
            Arrival::New => Some(least),
            Arrival::Woken => Some(least - if self.is_idle(entity) { self.idle_credit } else { self.credit }),
            Arrival::Changed => None,
        };
        let e = &mut self.queues.entities[entity];
        e.is_new = arrival == Arrival::New;
        e.virtual_time = placed.map_or(e.virtual_time, |placed| placed.max(e.virtual_time));
        self.queues.count(entity, true);
        if !self.queues.is_current(entity) {
            self.wait(entity);
        }
    }

    fn dequeue(&mut self, entity: usize, sleeps: bool, _may_delay: bool) -> bool {
        self.queues.forget_favours(entity);
        if !self.queues.is_current(entity) {
            self.stop_waiting(entity);
        }
        self.queues.count(entity, false);
        let e = &mut self.queues.entities[entity];
        let queue = e.queue;
        if !sleeps {
            e.virtual_time -= self.queues.queues[queue].zero;
            e.relative = true;
        }
        self.advance(queue);
        true
    }

    fn requeue(&mut self, _entity: usize) {}

    fn account(&mut self, entity: usize, ran: i64) -> bool {
        let passed = self.queues.virtual_span(entity, ran);
        let e = &mut self.queues.entities[entity];
        e.virtual_time += passed;
        e.ran += ran;
        let queue = e.queue;
        self.advance(queue);
        false
    }

    fn tick(&mut self, entity: usize) -> bool {
        let e = &self.queues.entities[entity];
        let (ran, virtual_time, q) = (e.ran, e.virtual_time, &self.queues.queues[e.queue]);
        if q.count <= 1 {
            return false;
        }
        let first = q.tree.first().map(|member| member.key);
        let slice = self.slice(entity);
        if ran > slice {
            self.queues.forget_favours(entity);
            return true;
        }
        ran >= self.granularity && first.is_some_and(|first| virtual_time - first > slice)
    }

    fn pick(&self, queue: usize) -> Option<usize> {
        let q = &self.queues.queues[queue];
        let virtual_time = |entity: usize| self.queues.entities[entity].virtual_time;
        let running = q.current.filter(|c| self.queues.entities[*c].queued);
        let first = q.tree.first().map(|member| member.item as usize);
        let earlier = |waiting: Option<usize>| match (running, waiting) {
            (Some(c), Some(w)) if virtual_time(c) < virtual_time(w) => Some(c),
            (c, w) => w.or(c),
        };
        let left = earlier(first)?;
        let fair = |buddy: &usize| self.ahead(*buddy, left) < 1;
        if let Some(next) = q.next.filter(fair) {
            return Some(next);
        }
        if let Some(last) = q.last.filter(fair) {
            return Some(last);
        }
        if q.skip == Some(left) {
            let second = || earlier(q.tree.second().map(|member| member.item as usize));
            let other = if running == Some(left) { first } else { second() };
            return Some(other.filter(fair).unwrap_or(left));
        }
        Some(left)
    }

    fn set_current(&mut self, entity: usize) {
        self.queues.forget_favours(entity);
        if self.queues.entities[entity].queued {
            self.stop_waiting(entity);
        }
        let e = &mut self.queues.entities[entity];
        e.ran = 0;
        let queue = e.queue;
        self.queues.queues[queue].current = Some(entity);
    }

    fn preempts(&mut self, current: usize, woken: usize) -> bool {
        if self.ahead(current, woken) < 1 {
            return false;
        }
        self.queues.mark(woken, NEXT);
        let e = &self.queues.entities[current];
        let is_crowded = self.is_crowded(e.queue);
        if e.queued && e.thread.is_some() && is_crowded && !self.is_idle(current) && self.features.last_buddy
        {
            self.queues.mark(current, LAST);
        }
        true
    }

    fn outranked(&mut self, _current: usize, _woken: usize) {}

    fn yield_now(&mut self, entity: usize) {
        self.queues.forget_favours(entity);
        self.queues.mark(entity, SKIP);
    }

    /// Virtual times stay: what weight changes is how fast they go on.
    fn reweight(&mut self, entity: usize, weight: i64) {
        let waits = self.queues.entities[entity].queued && !self.queues.is_current(entity);
        if waits {
            self.stop_waiting(entity);
        }
        self.queues.set_weight(entity, weight);
        if waits {
            self.wait(entity);
        }
    }
}
