//! [`Queues`]: what every fair scheduler keeps of its threads and groups, and [`Rule`]: how one of them chooses.
//!
//! An entity of weight `w` that runs for `t` moves its virtual time by `1024 t / w`. The running entity of a queue is not in its
//! tree; it is added where it counts.

use std::ops::DerefMut;

use surety_model::platform::Platform;

use crate::cpu::hardware::ThreadId;
use crate::cpu::policy::Arrival;
use crate::cpu::sorted::Sorted;
use crate::cpu::times::Times;

use super::balance::Search;
use super::weight::UNIT;

/// A thread, or a group on one CPU, as a queue sees it.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Entity {
    pub(super) weight: i64,
    pub(super) virtual_time: i64,
    /// Virtual deadline (EEVDF); a distance from the virtual time while `relative`.
    pub(super) deadline: i64,
    /// Whether what is kept of it is a distance: it left its queue awake.
    pub(super) relative: bool,
    /// `V - v` when it left, bounded (EEVDF).
    pub(super) lag: i64,
    /// Length of a request, ns.
    pub(super) slice: i64,
    /// Virtual time up to which no other is picked instead (EEVDF).
    pub(super) protected: i64,
    /// How long it has run since it was picked, ns (CFS).
    pub(super) ran: i64,
    /// Counted in its queue, running or not.
    pub(super) queued: bool,
    /// Asleep, but in the queue until its lag is made up for.
    pub(super) delayed: bool,
    /// Whether it has just been made; known where woken ones are nominated (`NEXT_BUDDY`).
    pub(super) is_new: bool,
    /// Whether its thread asked for `SCHED_BATCH`.
    pub(super) is_batch: bool,
    /// By how much more another one that runs may be ahead of it until it gives way, ns (CFS with latency nice).
    pub(super) latency_offset: i64,
    pub(super) queue: usize,
    /// Its order among those that wait in it.
    pub(super) order: u64,
    /// The queue a group's entity stands for.
    pub(super) owns: Option<usize>,
    /// The thread, of an entity that is no group's.
    pub(super) thread: Option<ThreadId>,
}

impl Entity {
    /// One that has not run.
    pub(super) fn new(weight: i64, slice: i64, queue: usize) -> Entity {
        Entity {
            weight,
            virtual_time: 0,
            deadline: 0,
            relative: false,
            lag: 0,
            slice,
            protected: 0,
            ran: 0,
            queued: false,
            delayed: false,
            is_new: false,
            is_batch: false,
            latency_offset: 0,
            queue,
            order: 0,
            owns: None,
            thread: None,
        }
    }
}

/// What a tree knows of those that wait beside their keys.
pub(super) const VIRTUAL_TIME: usize = 0;
pub(super) const SLICE: usize = 1;

/// The entities of a group, or of the root, on one CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) current: Option<usize>,
    /// Those that do not run, in the order of the rule and then of coming.
    pub(super) tree: Sorted<2>,
    /// Sum of weights times virtual times of the tree, relative to `zero`.
    pub(super) sum: i64,
    /// Sum of the tree's weights.
    pub(super) load: i64,
    /// Sum of the weights of queued groups, a running one included.
    group_load: i64,
    /// A virtual time near all of the queue's: EEVDF's sums are relative to it, CFS places at it.
    pub(super) zero: i64,
    /// Queued entities, the running one included.
    pub(super) count: usize,
    /// Threads among them.
    threads: usize,
    /// Whether it may not run: it is of a group with a quota.
    pub(super) throttled: bool,
    /// How many of the queues from here up to the root may not.
    held: u32,
    /// The entity that stands for this queue one level up.
    pub(super) entity: Option<usize>,
    pub(super) depth: u32,
    /// Who is picked where that is fair: a group one of whose threads has just gone to sleep, or who preempts.
    pub(super) next: Option<usize>,
    /// Who was preempted last, and who gave way (CFS).
    pub(super) last: Option<usize>,
    pub(super) skip: Option<usize>,
}

impl Queue {
    /// The queue that `entity` stands for.
    pub(super) fn below(entity: usize, depth: u32) -> Queue {
        Queue { entity: Some(entity), depth, ..Queue::default() }
    }

    /// The running entity, while it counts as queued.
    #[inline]
    pub(super) fn running<'a>(&self, entities: &'a [Entity]) -> Option<&'a Entity> {
        self.current.map(|current| &entities[current]).filter(|current| current.queued)
    }

    /// Weighted sum of virtual times relative to `zero`, and of weights, with the running entity.
    #[inline]
    pub(super) fn totals(&self, running: Option<&Entity>) -> (i64, i64) {
        match running {
            Some(c) => (self.sum + c.weight * (c.virtual_time - self.zero), self.load + c.weight),
            None => (self.sum, self.load),
        }
    }

    /// An entity joins the tree at a key.
    #[inline]
    fn insert(&mut self, entity: &mut Entity, item: u32, key: i64) {
        self.sum += entity.weight * (entity.virtual_time - self.zero);
        self.load += entity.weight;
        entity.order = self.tree.insert(key, item, [entity.virtual_time, entity.slice]);
    }

    /// An entity leaves the tree, where it stands at a key.
    #[inline]
    pub(super) fn remove(&mut self, entity: &Entity, key: i64) {
        self.sum -= entity.weight * (entity.virtual_time - self.zero);
        self.load -= entity.weight;
        self.tree.remove(key, entity.order);
    }

    /// Whether what is in it may not run.
    pub(super) fn is_held(&self) -> bool {
        self.held > 0
    }
}

/// One of the parts that an entity may have in a queue.
pub(super) type Buddy = fn(&mut Queue) -> &mut Option<usize>;

pub(super) const NEXT: Buddy = |q| &mut q.next;
pub(super) const LAST: Buddy = |q| &mut q.last;
pub(super) const SKIP: Buddy = |q| &mut q.skip;

/// All queues and entities of a machine.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    pub(super) entities: Vec<Entity>,
    pub(super) queues: Vec<Queue>,
    /// The first queues are the roots of this many CPUs.
    pub(super) cpus: usize,
    /// Threads in queues of each CPU, the running ones included.
    pub(super) threads: Vec<usize>,
    /// Slice of an entity without one of its own, ns.
    pub(super) base_slice: i64,
    /// The tick, ns: how far lag may go at least.
    pub(super) tick: i64,
    /// Whether any entity has a slice of its own, so that the shortest must be looked for.
    pub(super) own_slices: bool,
}

/// `a * b / c`, rounded towards zero, through 128 bits where 64 do not hold the product.
pub(super) fn scaled(a: i64, b: i64, c: i64) -> i64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => {
            i64::try_from(i128::from(a) * i128::from(b) / i128::from(c)).expect("a scaled virtual time fits")
        }
    }
}

impl Entity {
    /// `span` ns of its time in virtual time.
    #[inline]
    pub(super) fn virtual_span(&self, span: i64) -> i64 {
        if self.weight == UNIT { span } else { scaled(span, UNIT, self.weight) }
    }
}

impl Queues {
    /// Empty root queues.
    pub(super) fn new(platform: &Platform, cpus: usize) -> Queues {
        let (base_slice, tick) = (platform.base_slice.get().max(1), platform.tick.get());
        let queues = vec![Queue::default(); cpus];
        Queues {
            entities: Vec::new(),
            queues,
            cpus,
            threads: vec![0; cpus],
            base_slice,
            tick,
            own_slices: false,
        }
    }

    /// By how much the base slice is longer than that of one CPU (`get_update_sysctl_factor`).
    pub(super) fn scale(&self) -> i64 {
        1 + i64::from(u32::try_from(self.cpus.clamp(1, 8)).expect("at most 8").ilog2())
    }

    /// `span` ns of an entity's time in virtual time.
    #[inline]
    pub(super) fn virtual_span(&self, entity: usize, span: i64) -> i64 {
        self.entities[entity].virtual_span(span)
    }

    /// The entity of the group that an entity is in, on its CPU.
    #[inline]
    pub(super) fn parent(&self, entity: usize) -> Option<usize> {
        self.queues[self.entities[entity].queue].entity
    }

    /// Weight of all queued entities.
    pub(super) fn load(&self, queue: usize) -> i64 {
        let q = &self.queues[queue];
        let running = q.current.map(|c| &self.entities[c]).filter(|c| c.queued);
        q.load + running.map_or(0, |c| c.weight)
    }

    /// Weight of the queued threads among them.
    pub(super) fn load_of_threads(&self, queue: usize) -> i64 {
        self.load(queue) - self.queues[queue].group_load
    }

    #[inline]
    pub(super) fn is_current(&self, entity: usize) -> bool {
        self.queues[self.entities[entity].queue].current == Some(entity)
    }

    /// An entity counts as queued from now on, or no longer.
    #[inline(always)]
    pub(super) fn count(&mut self, entity: usize, queued: bool) {
        let e = &mut self.entities[entity];
        e.queued = queued;
        // Mostly it is a root queue.
        let cpu = if e.queue < self.cpus { e.queue } else { e.queue % self.cpus };
        let (threads, q) = (&mut self.threads[cpu], &mut self.queues[e.queue]);
        let is_thread = usize::from(e.owns.is_none());
        let is_seen = if q.held == 0 { is_thread } else { 0 };
        if queued {
            (*threads, q.threads, q.count) = (*threads + is_seen, q.threads + is_thread, q.count + 1);
        } else {
            (*threads, q.threads, q.count) = (*threads - is_seen, q.threads - is_thread, q.count - 1);
        }
        if is_thread == 0 {
            self.count_group(entity, queued);
        }
    }

    /// The weight of a group counts from now on, or no longer.
    #[inline(never)]
    fn count_group(&mut self, entity: usize, queued: bool) {
        let e = &self.entities[entity];
        self.queues[e.queue].group_load += if queued { e.weight } else { -e.weight };
    }

    /// An entity gets another weight; what a tree it waits in sums up is left to the rule.
    #[inline]
    pub(super) fn set_weight(&mut self, entity: usize, weight: i64) {
        let e = &mut self.entities[entity];
        let old = std::mem::replace(&mut e.weight, weight);
        if e.owns.is_some() && e.queued {
            self.queues[e.queue].group_load += weight - old;
        }
    }

    /// A queue may not run from now on, or may again; nor may those below it.
    pub(super) fn set_throttled(&mut self, queue: usize, throttled: bool) {
        self.queues[queue].throttled = throttled;
        for below in (self.cpus..self.queues.len()).filter(|below| below % self.cpus == queue % self.cpus) {
            if !self.is_below(below, queue) {
                continue;
            }
            let (q, threads) = (&mut self.queues[below], &mut self.threads[queue % self.cpus]);
            if throttled {
                *threads -= if q.held == 0 { q.threads } else { 0 };
                q.held += 1;
            } else {
                q.held -= 1;
                *threads += if q.held == 0 { q.threads } else { 0 };
            }
        }
    }

    /// Whether a queue is this one or below it.
    pub(super) fn is_below(&self, queue: usize, top: usize) -> bool {
        let mut next = Some(queue);
        while let Some(queue) = next {
            if queue == top {
                return true;
            }
            next = self.queues[queue].entity.map(|entity| self.entities[entity].queue);
        }
        false
    }

    /// An entity joins the tree of its queue at a key.
    #[inline]
    fn insert(&mut self, entity: usize, key: i64) {
        let e = &mut self.entities[entity];
        let item = u32::try_from(entity).expect("fewer than 2^32 entities");
        self.queues[e.queue].insert(e, item, key);
    }

    /// An entity leaves the tree of its queue, where it stands at a key.
    #[inline]
    fn remove(&mut self, entity: usize, key: i64) {
        let e = &self.entities[entity];
        self.queues[e.queue].remove(e, key);
    }

    /// A queued entity and the groups it is in get a part in their queues (`set_next_buddy`, `set_last_buddy`, `set_skip_buddy`).
    pub(super) fn mark(&mut self, entity: usize, buddy: Buddy) {
        let mut next = Some(entity);
        while let Some(entity) = next.filter(|e| self.entities[*e].queued) {
            let q = &mut self.queues[self.entities[entity].queue];
            *buddy(q) = Some(entity);
            next = q.entity;
        }
    }

    /// An entity is no longer preferred to others, nor are the groups it is in because of it (`clear_buddies`).
    #[inline]
    pub(super) fn forget_favours(&mut self, entity: usize) {
        let q = &self.queues[self.entities[entity].queue];
        // Mostly nobody has a part.
        if q.next.is_some() | q.last.is_some() | q.skip.is_some() {
            self.forget_parts(entity);
        }
    }

    fn forget_parts(&mut self, entity: usize) {
        for buddy in [NEXT, LAST, SKIP] {
            let mut up = Some(entity);
            while let Some(entity) = up {
                let q = &mut self.queues[self.entities[entity].queue];
                up = q.entity;
                if *buddy(q) != Some(entity) {
                    break;
                }
                *buddy(q) = None;
            }
        }
    }
}

/// Who gives way to a thread that wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeupPreemption {
    /// All over whom the rule lets it.
    All,
    /// Threads of `SCHED_IDLE` only.
    OfIdle,
    Nobody,
}

/// How the queues of a fair scheduler choose.
///
/// The scheduler keeps to this: time is booked ([`Rule::account`]) before anything else happens to a queue, and what
/// concerns an entity concerns the groups it is in, level by level, by calls of its own.
pub(super) trait Rule: DerefMut<Target = Queues> {
    /// Takes what it needs of the times that no platform sets.
    fn set_times(&mut self, _times: &Times) {}

    /// Whether a thread may ask for a slice of its own.
    fn has_own_slices(&self) -> bool {
        false
    }

    /// Whether a timer ends slices (`HRTICK`).
    fn is_timed(&self) -> bool {
        false
    }

    /// How CPUs look for threads, and threads for CPUs.
    fn search(&self) -> Search;

    /// Whether time is booked before one that stayed although it sleeps wakes.
    fn books_before_requeue(&self) -> bool {
        false
    }

    /// Whether a thread counts as warm in its queue because it was nominated (`CACHE_HOT_BUDDY`).
    fn is_buddy(&self, _entity: usize) -> bool {
        false
    }

    /// Who gives way to one that wakes (`WAKEUP_PREEMPTION`).
    fn wakeup_preemption(&self) -> WakeupPreemption {
        WakeupPreemption::All
    }

    /// Whether threads of `SCHED_IDLE` give way to others, and neither they nor those of `SCHED_BATCH` take over, whatever the rule is.
    fn heeds_policies(&self) -> bool {
        true
    }

    /// Whether who wakes is to be picked next (`NEXT_BUDDY`).
    fn nominates(&self) -> bool {
        false
    }

    /// One that woke is to be picked next, while a thread of its CPU runs.
    fn nominate(&mut self, _current: usize, _woken: usize) {}

    /// Whether balancing gives a thread away only after it failed, where others want the CPU that takes.
    fn stays_at_first(&self, _entity: usize) -> bool {
        false
    }

    /// What those that wait in a queue are ordered by.
    fn key(&self, entity: usize) -> i64;

    /// An entity waits in its queue from now on.
    fn wait(&mut self, entity: usize) {
        let key = self.key(entity);
        self.insert(entity, key);
    }

    /// An entity no longer waits in its queue.
    fn stop_waiting(&mut self, entity: usize) {
        let key = self.key(entity);
        self.remove(entity, key);
    }

    /// Gives an entity a slice; one that waits keeps its place.
    fn set_slice(&mut self, entity: usize, slice: i64);

    /// Gives a thread's entity, in no queue yet, a latency nice of -20..=19.
    fn set_latency_nice(&mut self, entity: usize, latency_nice: i32);

    /// The shortest slice of the queued entities.
    fn shortest_slice(&self, queue: usize) -> i64;

    /// An entity that is not queued goes to another queue.
    fn move_to(&mut self, entity: usize, queue: usize) {
        self.entities[entity].queue = queue;
    }

    /// An entity joins its queue.
    fn enqueue(&mut self, entity: usize, arrival: Arrival);

    /// An entity leaves its queue; false when, falling asleep while it has had more than its share, it stays until
    /// it is eligible.
    fn dequeue(&mut self, entity: usize, sleeps: bool, may_delay: bool) -> bool;

    /// An entity that stayed although it sleeps wakes.
    fn requeue(&mut self, entity: usize);

    /// The running entity of a queue has run for `ran` ns; whether another may be due.
    fn account(&mut self, entity: usize, ran: i64) -> bool;

    /// The tick of the running entity of a queue; whether another is due.
    fn tick(&mut self, _entity: usize) -> bool {
        false
    }

    /// The entity to run.
    fn pick(&self, queue: usize) -> Option<usize>;

    /// An entity is run.
    fn set_current(&mut self, entity: usize);

    /// An entity is no longer run.
    fn put_current(&mut self, entity: usize) {
        let queue = self.entities[entity].queue;
        self.queues[queue].current = None;
        if self.entities[entity].queued {
            self.wait(entity);
        }
    }

    /// Whether an entity that joined the queue of a running one takes over.
    fn preempts(&mut self, current: usize, woken: usize) -> bool;

    /// An idle entity runs and one that is not joined: it takes over.
    fn outranked(&mut self, current: usize, woken: usize);

    /// The running entity of a queue gives way.
    fn yield_now(&mut self, entity: usize);

    /// Changes an entity's weight.
    fn reweight(&mut self, entity: usize, weight: i64);

    /// How long the running entity may run until its slice ends, ns, where a timer ends slices.
    fn left_of_slice(&self, _entity: usize) -> i64 {
        0
    }
}
