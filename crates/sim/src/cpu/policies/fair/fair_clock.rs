//! [`FairClock`]: the Completely Fair Scheduler as it came in with 2.6.23, the arithmetic of one queue at a time.
//!
//! After `kernel/sched_fair.c` and `kernel/sched.c` of 2.6.23. A queue has a *fair clock*: where the load is `W`, it goes on by `1024 / W` of the time that
//! is run, as one thread of nice 0 among them would if all ran at once. A thread is owed what the fair clock gave it while it waited, and
//! owes what it ran beyond its part (`wait_runtime`); neither is ever more than the latency. Its key is the fair clock less what it is owed, by
//! weight, taken when it joins, on its ticks and when it gives way. The least key runs.
//!
//! - *Preemption*: on the tick the first one waiting takes over if its key is before the running one's by more than `L / n - L / n^2` of the latency `L` and `n` threads, and at least
//!   the smallest granularity; one that wakes if by more than half of that granularity, one of `SCHED_BATCH` by 25 ms. For a thread
//!   with another weight than nice 0 it is less, in proportion. Who has run for longer than `L / n` gives way to any that is before it.
//! - *Sleepers* (`FAIR_SLEEPERS`) are owed what the fair clock gave in their sleep, those of `SCHED_BATCH` excepted. What was given so is the queue's
//!   bonus: while it is more than the granularity, who runs pays for it with its part, and beyond the latency nobody is given more.
//! - *New threads* are owed nothing and owe nothing. `START_DEBIT` is for processes that are forked, not for threads of a program (`CLONE_VM`).
//!
//! The platform's base slice is the smallest granularity; the latency is 10 of it, at most 100 ms. Products are divided exactly, where the kernel multiplies by a rounded inverse
//! of 32 bits. Groups are none of its, nor is where threads run: that is `balance`, by the rules of later kernels.
//!
//! Of an entity `virtual_time` is the key, `lag` what it is owed, and `deadline` the fair clock since which it waits or sleeps. The running one
//! stays in the tree and is out of its load.

use std::ops::{Deref, DerefMut};

use surety_model::platform::Platform;
use surety_model::platform::features::FairVersion;

use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::{Arrival, CpuPolicy};
use crate::cpu::times::Times;

use super::Fair;
use super::balance::Search;
use super::queue::{Queues, Rule, WakeupPreemption, scaled};
use super::weight::{IDLE, UNIT};

/// Its name in the tables.
const SCHEDULER: &str = "cfs-2.6.23";

/// The weight of a thread of `SCHED_IDLE` (`WEIGHT_IDLEPRIO`).
const WEIGHT_IDLE: i64 = 2;

/// The latency in granularities: 20 ms and 2 ms.
const LATENCY: i64 = 10;

/// Makes the scheduler, for a machine without threads.
pub(in crate::cpu::policies) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    let rule = FairClock::new(&hardware.platform, hardware.cpus.len());
    Box::new(Fair::new(hardware, rank, rule))
}

/// Queues that choose by it; `zero` of each is its fair clock.
pub(super) struct FairClock {
    queues: Queues,
    /// Within which all threads of a queue should have run (`sched_latency`), and the most that a thread is owed or owes.
    latency: i64,
    /// Smallest time between two preemptions by the tick (`sched_min_granularity`).
    granularity: i64,
    /// By how much one of `SCHED_BATCH` must be before the running one.
    batch_granularity: i64,
    /// What sleepers of each queue were given and nobody has paid for (`sleeper_bonus`).
    bonus: Vec<i64>,
    fair_sleepers: bool,
}

impl Deref for FairClock {
    type Target = Queues;

    fn deref(&self) -> &Queues {
        &self.queues
    }
}

impl DerefMut for FairClock {
    fn deref_mut(&mut self) -> &mut Queues {
        &mut self.queues
    }
}

impl FairClock {
    /// Empty root queues.
    fn new(platform: &Platform, cpus: usize) -> FairClock {
        let queues = Queues::new(platform, cpus);
        let version = FairVersion::of(SCHEDULER).expect("the table has it");
        FairClock {
            granularity: queues.base_slice,
            latency: queues.base_slice * LATENCY,
            batch_granularity: 0,
            bonus: vec![0; cpus],
            fair_sleepers: platform.has_feature(version, "FAIR_SLEEPERS"),
            queues,
        }
    }

    fn clock(&self, entity: usize) -> i64 {
        self.queues.queues[self.queues.entities[entity].queue].zero
    }

    fn bonus(&mut self, queue: usize) -> &mut i64 {
        if self.bonus.len() <= queue {
            self.bonus.resize(queue + 1, 0);
        }
        &mut self.bonus[queue]
    }

    fn count(&self, entity: usize) -> i64 {
        let count = self.queues.queues[self.queues.entities[entity].queue].count;
        i64::try_from(count).expect("fewer than 2^63 entities").max(1)
    }

    /// What the fair clock gave an entity since it began to wait or sleep, by weight and at most twice the latency.
    fn given(&self, entity: usize) -> i64 {
        let e = &self.queues.entities[entity];
        scaled((self.clock(entity) - e.deadline).min(2 * self.latency), e.weight, UNIT)
    }

    /// It is owed more, or less; by how much, within the limit.
    fn owe(&mut self, entity: usize, more: i64) -> i64 {
        let limit = self.latency;
        let owed = &mut self.queues.entities[entity].lag;
        let before = std::mem::replace(owed, (*owed + more).clamp(-limit, limit));
        *owed - before
    }

    /// Its key, and its place in the tree behind those with the same (`update_stats_enqueue`, `__enqueue_entity`).
    fn place(&mut self, entity: usize) {
        let owed = self.queues.virtual_span(entity, self.queues.entities[entity].lag);
        let key = self.clock(entity) - owed;
        let e = &mut self.queues.entities[entity];
        e.virtual_time = key;
        let item = u32::try_from(entity).expect("fewer than 2^32 entities");
        e.order = self.queues.queues[e.queue].tree.insert(key, item, [key, e.slice]);
    }

    fn displace(&mut self, entity: usize) {
        let e = &self.queues.entities[entity];
        self.queues.queues[e.queue].tree.remove(e.virtual_time, e.order);
    }

    /// It waits from now on.
    fn begins_to_wait(&mut self, entity: usize) {
        let e = &mut self.queues.entities[entity];
        let queue = &mut self.queues.queues[e.queue];
        e.deadline = queue.zero;
        queue.load += e.weight;
    }

    /// It no longer waits, and is owed that (`update_stats_wait_end`).
    fn has_waited(&mut self, entity: usize) {
        let given = self.given(entity);
        self.owe(entity, given);
        let e = &self.queues.entities[entity];
        self.queues.queues[e.queue].load -= e.weight;
    }

    /// One that slept is owed that, unless too many were already (`enqueue_sleeper`).
    fn has_slept(&mut self, entity: usize) {
        let e = &self.queues.entities[entity];
        let (queue, is_batch) = (e.queue, e.is_batch);
        if !self.fair_sleepers || is_batch || *self.bonus(queue) > self.latency {
            return;
        }
        let given = self.given(entity);
        let more = self.owe(entity, given);
        *self.bonus(queue) += more;
    }

    /// Whether the running entity gives way to another that has to be before it by some granularity (`__check_preempt_curr_fair`).
    fn gives_way(&self, current: usize, to: usize, granularity: i64) -> bool {
        let [e, first] = [current, to].map(|entity| &self.queues.entities[entity]);
        let is_over = e.ran > (self.latency / self.count(current)).max(self.granularity);
        let granularity = match e.weight {
            _ if is_over => 0,
            less if less < UNIT => scaled(granularity, less, UNIT),
            more => scaled(granularity, UNIT, more),
        };
        e.virtual_time - first.virtual_time > granularity
    }
}

impl Rule for FairClock {
    fn set_times(&mut self, times: &Times) {
        self.latency = self.latency.min(times.latency_max.get());
        self.batch_granularity = times.batch_granularity.get();
    }

    fn search(&self) -> Search {
        Search { by_rate: false, by_chance: false, by_use: false, sees_left: false }
    }

    fn wakeup_preemption(&self) -> WakeupPreemption {
        WakeupPreemption::All
    }

    fn heeds_policies(&self) -> bool {
        false
    }

    fn key(&self, entity: usize) -> i64 {
        self.queues.entities[entity].virtual_time
    }

    fn set_slice(&mut self, _entity: usize, _slice: i64) {}

    fn set_latency_nice(&mut self, _entity: usize, _latency_nice: i32) {}

    fn shortest_slice(&self, _queue: usize) -> i64 {
        self.queues.base_slice
    }

    /// A sleeper takes along how long it has slept (`set_task_cpu`).
    fn move_to(&mut self, entity: usize, queue: usize) {
        let e = &mut self.queues.entities[entity];
        let old = std::mem::replace(&mut e.queue, queue);
        e.deadline += self.queues.queues[queue].zero - self.queues.queues[old].zero;
    }

    fn enqueue(&mut self, entity: usize, arrival: Arrival) {
        if arrival == Arrival::Woken {
            self.has_slept(entity);
        }
        self.place(entity);
        self.queues.count(entity, true);
        if !self.queues.is_current(entity) {
            self.begins_to_wait(entity);
        }
    }

    fn dequeue(&mut self, entity: usize, _sleeps: bool, _may_delay: bool) -> bool {
        if !self.queues.is_current(entity) {
            self.has_waited(entity);
        }
        self.queues.entities[entity].deadline = self.clock(entity);
        self.displace(entity);
        self.queues.count(entity, false);
        true
    }

    fn requeue(&mut self, _entity: usize) {}

    /// `__update_curr`.
    fn account(&mut self, entity: usize, ran: i64) -> bool {
        let e = &mut self.queues.entities[entity];
        e.ran += ran;
        let (queue, weight, owed) = (e.queue, e.weight, e.lag);
        let load = self.queues.load(queue);
        if ran == 0 || load == 0 {
            return false;
        }
        let mut part = scaled(ran, weight, load);
        let (granularity, room) = (self.granularity, self.latency - owed);
        let bonus = self.bonus(queue);
        if *bonus > granularity {
            let paid = part.min(*bonus).min(room);
            *bonus -= paid;
            part -= paid;
        }
        self.queues.queues[queue].zero += scaled(ran, UNIT, load);
        self.owe(entity, part - ran);
        false
    }

    /// `entity_tick`.
    fn tick(&mut self, entity: usize) -> bool {
        if !self.queues.entities[entity].queued {
            return false;
        }
        self.displace(entity);
        self.place(entity);
        let first = self.queues.queues[self.queues.entities[entity].queue].tree.first();
        let first = first.map_or(entity, |member| member.item as usize);
        let (latency, count) = (self.latency, self.count(entity));
        let granularity = if count > 1 {
            (latency / count - latency / count / count).max(self.granularity)
        } else {
            latency
        };
        first != entity && self.gives_way(entity, first, granularity)
    }

    fn pick(&self, queue: usize) -> Option<usize> {
        self.queues.queues[queue].tree.first().map(|member| member.item as usize)
    }

    fn set_current(&mut self, entity: usize) {
        if self.queues.entities[entity].queued {
            self.has_waited(entity);
        }
        let e = &mut self.queues.entities[entity];
        e.ran = 0;
        let queue = e.queue;
        self.queues.queues[queue].current = Some(entity);
    }

    /// Its key stays what it was at its last tick (`put_prev_entity`).
    fn put_current(&mut self, entity: usize) {
        let e = &self.queues.entities[entity];
        let is_queued = e.queued;
        self.queues.queues[e.queue].current = None;
        if is_queued {
            self.begins_to_wait(entity);
        }
    }

    fn preempts(&mut self, current: usize, woken: usize) -> bool {
        let is_batch = self.queues.entities[woken].is_batch;
        let granularity = if is_batch { self.batch_granularity } else { self.granularity / 2 };
        self.gives_way(current, woken, granularity)
    }

    fn outranked(&mut self, _current: usize, _woken: usize) {}

    /// It goes behind those with its key, and whoever is first runs (`yield_task_fair`).
    fn yield_now(&mut self, entity: usize) {
        if self.queues.entities[entity].queued {
            self.displace(entity);
            self.place(entity);
            self.queues.entities[entity].ran = 0;
        }
    }

    /// What it is owed stays as long as it is in real time; its key is taken anew when it next joins or ticks.
    fn reweight(&mut self, entity: usize, weight: i64) {
        let weight = if weight == IDLE { WEIGHT_IDLE } else { weight };
        let old = self.queues.entities[entity].weight;
        self.queues.set_weight(entity, weight);
        let e = &self.queues.entities[entity];
        if e.queued && self.queues.queues[e.queue].current != Some(entity) {
            self.queues.queues[e.queue].load += weight - old;
        }
    }
}
