//! [`Queues`]: Earliest Eligible Virtual Deadline First, the arithmetic of one queue at a time.
//!
//! After `kernel/sched/fair.c` (Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995). An
//! entity of weight `w` that runs for `t` moves its virtual time by `1024 t / w`. The queue's virtual time is
//! the mean weighted by `w`,
//!
//! ```text
//! V = zero + sum w (v - zero) / sum w        rounded down
//! ```
//!
//! and an entity is eligible, is owed service, while `v <= V`. Among those the earliest virtual deadline runs,
//! and once picked it runs on until its slice, or the shortest slice in the queue, is used up (`RUN_TO_PARITY`).
//! Sums are kept relative to `zero`, which follows V, so that they stay small. The running entity is not in the
//! tree; it is added where it counts.

use crate::cpu::hardware::ThreadId;
use crate::cpu::sorted::Sorted;

use super::weight::UNIT;

/// A thread, or a group on one CPU, as a queue sees it.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Entity {
    pub(super) weight: i64,
    pub(super) virtual_time: i64,
    /// Virtual deadline; a distance from the virtual time while `relative`.
    pub(super) deadline: i64,
    pub(super) relative: bool,
    /// `V - v` when it left, bounded.
    pub(super) lag: i64,
    /// Length of a request, ns.
    pub(super) slice: i64,
    /// Virtual time up to which no other is picked instead.
    pub(super) protected: i64,
    /// Counted in its queue, running or not.
    pub(super) queued: bool,
    /// Asleep, but in the queue until its lag is made up for.
    pub(super) delayed: bool,
    pub(super) queue: usize,
    /// Its order among those that wait in it.
    order: u64,
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
            queued: false,
            delayed: false,
            queue,
            order: 0,
            owns: None,
            thread: None,
        }
    }
}

/// What a tree knows of those that wait beside their deadlines.
const VIRTUAL_TIME: usize = 0;
const SLICE: usize = 1;

/// The entities of a group, or of the root, on one CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) current: Option<usize>,
    /// Those that do not run, by virtual deadline and then by order of coming.
    tree: Sorted<2>,
    sum: i64,
    load: i64,
    zero: i64,
    /// Queued entities, the running one included.
    pub(super) count: usize,
    /// The entity that stands for this queue one level up.
    pub(super) entity: Option<usize>,
    pub(super) depth: u32,
}

impl Queue {
    /// The queue that `entity` stands for.
    pub(super) fn below(entity: usize, depth: u32) -> Queue {
        Queue { entity: Some(entity), depth, ..Queue::default() }
    }
}

/// All queues and entities of a machine.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    pub(super) entities: Vec<Entity>,
    pub(super) queues: Vec<Queue>,
    /// Slice of an entity without one of its own, ns.
    pub(super) base_slice: i64,
    /// The tick, ns: how far lag may go at least.
    pub(super) tick: i64,
    /// Whether any entity has a slice of its own, so that the shortest must be looked for.
    pub(super) own_slices: bool,
}

/// `a * b / c`, rounded towards zero, through 128 bits where 64 do not hold the product.
fn scaled(a: i64, b: i64, c: i64) -> i64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => {
            i64::try_from(i128::from(a) * i128::from(b) / i128::from(c)).expect("a scaled virtual time fits")
        }
    }
}

impl Queues {
    /// `span` ns of an entity's time in virtual time.
    pub(super) fn virtual_span(&self, entity: usize, span: i64) -> i64 {
        let weight = self.entities[entity].weight;
        if weight == UNIT { span } else { scaled(span, UNIT, weight) }
    }

    /// Weighted sum of virtual times relative to `zero`, and of weights, the running entity included.
    fn totals(&self, queue: usize) -> (i64, i64) {
        let q = &self.queues[queue];
        match q.current.map(|c| &self.entities[c]) {
            Some(c) if c.queued => (q.sum + c.weight * (c.virtual_time - q.zero), q.load + c.weight),
            _ => (q.sum, q.load),
        }
    }

    /// Weight of all queued entities.
    pub(super) fn load(&self, queue: usize) -> i64 {
        self.totals(queue).1
    }

    /// V.
    pub(super) fn virtual_time(&self, queue: usize) -> i64 {
        let (sum, load) = self.totals(queue);
        let mean = if load > 0 { sum.div_euclid(load) } else { 0 };
        self.queues[queue].zero + mean
    }

    /// Gives an entity a slice; one that waits keeps its place.
    pub(super) fn set_slice(&mut self, entity: usize, slice: i64) {
        let e = &mut self.entities[entity];
        if e.slice == slice {
            return;
        }
        e.slice = slice;
        if e.queued && self.queues[e.queue].current != Some(entity) {
            self.queues[e.queue].tree.change(e.deadline, e.order, SLICE, slice);
        }
    }

    fn is_eligible_at(&self, queue: usize, (sum, load): (i64, i64), virtual_time: i64) -> bool {
        let key = virtual_time - self.queues[queue].zero;
        i128::from(sum) >= i128::from(key) * i128::from(load)
    }

    /// Whether an entity is owed service.
    pub(super) fn is_eligible(&self, entity: usize) -> bool {
        let e = &self.entities[entity];
        self.is_eligible_at(e.queue, self.totals(e.queue), e.virtual_time)
    }

    /// The shortest slice of the queued entities.
    pub(super) fn shortest_slice(&self, queue: usize) -> i64 {
        if !self.own_slices {
            return self.base_slice;
        }
        let q = &self.queues[queue];
        let running = q.current.filter(|c| self.entities[*c].queued);
        let running = running.map(|e| self.entities[e].slice);
        q.tree.least(SLICE).into_iter().chain(running).min().unwrap_or(self.base_slice)
    }

    fn insert(&mut self, entity: usize) {
        let e = &mut self.entities[entity];
        let q = &mut self.queues[e.queue];
        q.sum += e.weight * (e.virtual_time - q.zero);
        q.load += e.weight;
        let item = u32::try_from(entity).expect("fewer than 2^32 entities");
        e.order = q.tree.insert(e.deadline, item, [e.virtual_time, e.slice]);
    }

    fn remove(&mut self, entity: usize) {
        let e = &self.entities[entity];
        let q = &mut self.queues[e.queue];
        q.sum -= e.weight * (e.virtual_time - q.zero);
        q.load -= e.weight;
        q.tree.remove(e.deadline, e.order);
    }

    fn is_current(&self, entity: usize) -> bool {
        self.queues[self.entities[entity].queue].current == Some(entity)
    }

    /// Takes V as the new zero.
    fn rebase(&mut self, queue: usize) {
        let mean = self.virtual_time(queue);
        let q = &mut self.queues[queue];
        q.sum -= q.load * (mean - q.zero);
        q.zero = mean;
    }

    /// What the entity is owed now, bounded by twice its slice or a tick, whichever is longer.
    fn update_lag(&mut self, entity: usize) {
        let e = &self.entities[entity];
        let limit = self.virtual_span(entity, (2 * e.slice).max(self.tick));
        let lag = self.virtual_time(e.queue) - e.virtual_time;
        self.entities[entity].lag = lag.clamp(-limit, limit);
    }

    /// Gives an entity that joins its virtual time, so that joining leaves it the lag it left with.
    ///
    /// With `W` in the queue, an entity of weight `w` placed at `V - l` moves V by `-l w / (W + w)`; so `l` is the
    /// old lag times `(W + w) / W`.
    fn place(&mut self, entity: usize, initial: bool) {
        let span = self.virtual_span(entity, self.entities[entity].slice);
        let queue = self.entities[entity].queue;
        let mean = self.virtual_time(queue);
        let (_, load) = self.totals(queue);
        let occupied = self.queues[queue].count > 0;
        let e = &mut self.entities[entity];
        let lag = if occupied && e.lag != 0 && load > 0 { scaled(e.lag, load + e.weight, load) } else { 0 };
        e.virtual_time = mean - lag;
        if e.relative {
            e.relative = false;
            e.deadline += e.virtual_time;
        } else {
            e.deadline = e.virtual_time + if initial { span / 2 } else { span };
        }
    }

    /// An entity joins its queue.
    pub(super) fn enqueue(&mut self, entity: usize, initial: bool) {
        self.place(entity, initial);
        let queue = self.entities[entity].queue;
        self.queues[queue].count += 1;
        self.entities[entity].queued = true;
        if !self.is_current(entity) {
            self.insert(entity);
        }
    }

    /// An entity leaves its queue; false when, falling asleep while it has had more than its share, it stays until
    /// it is eligible.
    pub(super) fn dequeue(&mut self, entity: usize, sleeps: bool, may_delay: bool) -> bool {
        if sleeps && may_delay && !self.is_eligible(entity) {
            self.entities[entity].delayed = true;
            return false;
        }
        self.update_lag(entity);
        if !self.is_current(entity) {
            self.remove(entity);
        }
        let e = &mut self.entities[entity];
        if !sleeps {
            e.deadline -= e.virtual_time;
            e.relative = true;
        }
        if e.delayed {
            e.delayed = false;
            e.lag = e.lag.min(0);
        }
        e.queued = false;
        let queue = e.queue;
        self.queues[queue].count -= 1;
        true
    }

    /// A delayed entity wakes: what it is owed by now is forgotten.
    pub(super) fn requeue(&mut self, entity: usize) {
        self.update_lag(entity);
        self.entities[entity].delayed = false;
        if self.entities[entity].lag <= 0 {
            return;
        }
        let (queue, current) = (self.entities[entity].queue, self.is_current(entity));
        if !current {
            self.remove(entity);
        }
        self.queues[queue].count -= 1;
        self.entities[entity].queued = false;
        self.entities[entity].lag = 0;
        self.enqueue(entity, false);
    }

    /// The running entity of a queue has run for `ran` ns; whether another may be due.
    pub(super) fn account(&mut self, entity: usize, ran: i64) -> bool {
        let passed = self.virtual_span(entity, ran);
        let queue = self.entities[entity].queue;
        let e = &mut self.entities[entity];
        e.virtual_time += passed;
        let mut due = e.virtual_time >= e.protected;
        if e.virtual_time >= e.deadline {
            let (from, slice) = (e.virtual_time, e.slice);
            let span = self.virtual_span(entity, slice);
            self.entities[entity].deadline = from + span;
            self.rebase(queue);
            due = true;
        }
        due && self.queues[queue].count > 1
    }

    /// The entity to run, `protect`: the running one keeps on while it is protected.
    pub(super) fn pick(&self, queue: usize, protect: bool) -> Option<usize> {
        let q = &self.queues[queue];
        let running = q.current.filter(|c| self.entities[*c].queued);
        if q.count <= 1 {
            return running.or_else(|| q.tree.first().map(|first| first.item as usize));
        }
        let totals = self.totals(queue);
        let running = running.filter(|c| self.is_eligible_at(queue, totals, self.entities[*c].virtual_time));
        if let Some(c) =
            running.filter(|c| protect && self.entities[*c].virtual_time < self.entities[*c].protected)
        {
            return Some(c);
        }
        // v <= V is the same as sum >= (v - zero) W: all are integers.
        let best = q.tree.first_within(VIRTUAL_TIME, self.virtual_time(queue));
        match (best, running) {
            (Some(best), Some(c)) if self.entities[c].deadline < best.key => Some(c),
            (Some(best), _) => Some(best.item as usize),
            (None, c) => c,
        }
    }

    /// An entity is run: protected until the end of its slice, or of the shortest slice in the queue.
    pub(super) fn set_current(&mut self, entity: usize) {
        let queue = self.entities[entity].queue;
        if self.entities[entity].queued {
            self.remove(entity);
            let slice = self.shortest_slice(queue);
            let e = &self.entities[entity];
            let protected = if slice < e.slice {
                e.deadline.min(e.virtual_time + self.virtual_span(entity, slice))
            } else {
                e.deadline
            };
            self.entities[entity].protected = protected;
        }
        self.queues[queue].current = Some(entity);
    }

    /// An entity is no longer run.
    pub(super) fn put_current(&mut self, entity: usize) {
        let queue = self.entities[entity].queue;
        self.queues[queue].current = None;
        if self.entities[entity].queued {
            self.insert(entity);
        }
    }

    /// One with a shorter slice joined and waits: protection ends after that slice.
    pub(super) fn shorten_protection(&mut self, entity: usize) {
        let slice = self.shortest_slice(self.entities[entity].queue);
        let span = self.virtual_span(entity, slice);
        let e = &mut self.entities[entity];
        e.protected = e.protected.min(e.virtual_time + span);
    }

    /// Protection ends.
    pub(super) fn end_protection(&mut self, entity: usize) {
        let e = &mut self.entities[entity];
        e.protected = e.protected.min(e.virtual_time);
    }

    /// Changes an entity's weight; lag and distance to the deadline keep their length in real time.
    pub(super) fn reweight(&mut self, entity: usize, weight: i64) {
        let old = self.entities[entity].weight;
        if old == weight {
            return;
        }
        let (queued, queue) = (self.entities[entity].queued, self.entities[entity].queue);
        if queued {
            self.update_lag(entity);
            if !self.is_current(entity) {
                self.remove(entity);
            }
            self.queues[queue].count -= 1;
            let e = &mut self.entities[entity];
            e.queued = false;
            e.deadline -= e.virtual_time;
            e.protected -= e.virtual_time;
            e.relative = true;
        }
        let e = &mut self.entities[entity];
        e.lag = scaled(e.lag, old, weight);
        if e.relative {
            e.deadline = scaled(e.deadline, old, weight);
            e.protected = scaled(e.protected, old, weight);
        }
        e.weight = weight;
        if queued {
            self.enqueue(entity, false);
            let e = &mut self.entities[entity];
            e.protected += e.virtual_time;
        }
    }
}
