//! [`Eevdf`]: Earliest Eligible Virtual Deadline First, the arithmetic of one queue at a time.
//!
//! After `kernel/sched/fair.c` (Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995). The queue's
//! virtual time is the mean weighted by `w`,
//!
//! ```text
//! V = zero + sum w (v - zero) / sum w        rounded down
//! ```
//!
//! and an entity is eligible, is owed service, while `v <= V`. Among those the earliest virtual deadline runs,
//! and once picked it runs on for a while (`RUN_TO_PARITY`). Sums are kept relative to `zero`, which follows V, so that they
//! stay small.
//!
//! What differs from kernel to kernel is in a [`Version`].

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::cpu::policy::Arrival;

use super::queue::{Queues, Rule, SLICE, VIRTUAL_TIME, scaled};
use super::weight::UNIT;

/// What a kernel makes of the rule.
pub(super) trait Version {
    /// Whether a picked entity is protected for all of its slice, unless one with a shorter slice and an earlier deadline joins;
    /// else until the end of the shortest slice in the queue.
    const PROTECTS_WHOLE_SLICE: bool = false;
    /// Whether lag is bounded by the longest slice in the queue and a tick, and what a sleeper in the queue owes by what it owed when
    /// it fell asleep; else by twice its own slice or a tick, whichever is longer.
    const LAG_BY_LONGEST_SLICE: bool = false;
    /// Whether a timer ends slices (`HRTICK`).
    const TIMED: bool = false;
    /// Whether a CPU that seldom idles looks at others each time (`NI_RATE`).
    const NEWLY_IDLE_BY_RATE: bool = false;
    /// Whether balancing leaves those alone at first that are not eligible (`task_is_ineligible_on_dst_cpu`).
    const GIVES_ELIGIBLE_FIRST: bool = true;
}

/// 6.12.
#[derive(Clone, Copy, Debug)]
pub(super) struct V6_12;

impl Version for V6_12 {
    const PROTECTS_WHOLE_SLICE: bool = true;
    const GIVES_ELIGIBLE_FIRST: bool = false;
}

/// 6.18.
#[derive(Clone, Copy, Debug)]
pub(super) struct V6_18;

impl Version for V6_18 {}

/// 7.2.
#[derive(Clone, Copy, Debug)]
pub(super) struct V7_2;

impl Version for V7_2 {
    const LAG_BY_LONGEST_SLICE: bool = true;
    const TIMED: bool = true;
    const NEWLY_IDLE_BY_RATE: bool = true;
}

/// Queues that choose by it.
pub(super) struct Eevdf<V> {
    queues: Queues,
    version: PhantomData<V>,
}

impl<V> Deref for Eevdf<V> {
    type Target = Queues;

    fn deref(&self) -> &Queues {
        &self.queues
    }
}

impl<V> DerefMut for Eevdf<V> {
    fn deref_mut(&mut self) -> &mut Queues {
        &mut self.queues
    }
}

impl<V: Version> Eevdf<V> {
    /// Weighted sum of virtual times relative to `zero`, and of weights, the running entity included.
    fn totals(&self, queue: usize) -> (i64, i64) {
        let q = &self.queues.queues[queue];
        match q.current.map(|c| &self.queues.entities[c]) {
            Some(c) if c.queued => (q.sum + c.weight * (c.virtual_time - q.zero), q.load + c.weight),
            _ => (q.sum, q.load),
        }
    }

    /// The queue's virtual time, V.
    fn virtual_time(&self, queue: usize) -> i64 {
        let (sum, load) = self.totals(queue);
        let mean = if load > 0 { sum.div_euclid(load) } else { 0 };
        self.queues.queues[queue].zero + mean
    }

    fn is_eligible_at(&self, queue: usize, (sum, load): (i64, i64), virtual_time: i64) -> bool {
        let key = virtual_time - self.queues.queues[queue].zero;
        i128::from(sum) >= i128::from(key) * i128::from(load)
    }

    /// Whether an entity is owed service.
    fn is_eligible(&self, entity: usize) -> bool {
        let e = &self.queues.entities[entity];
        self.is_eligible_at(e.queue, self.totals(e.queue), e.virtual_time)
    }

    /// The slices of the queued entities.
    fn slices(&self, queue: usize) -> impl Iterator<Item = i64> {
        let q = &self.queues.queues[queue];
        let running = q.current.filter(|c| self.queues.entities[*c].queued);
        let waiting = q.tree.iter().map(|member| member.figures[SLICE]);
        waiting.chain(running.map(|c| self.queues.entities[c].slice))
    }

    /// Takes V as the new zero.
    fn rebase(&mut self, queue: usize) {
        let mean = self.virtual_time(queue);
        let q = &mut self.queues.queues[queue];
        q.sum -= q.load * (mean - q.zero);
        q.zero = mean;
    }

    /// What the entity is owed now, bounded.
    fn update_lag(&mut self, entity: usize) {
        let e = &self.queues.entities[entity];
        let longest = match V::LAG_BY_LONGEST_SLICE {
            false => (2 * e.slice).max(self.queues.tick),
            true if self.queues.own_slices => {
                self.slices(e.queue).max().unwrap_or(e.slice) + self.queues.tick
            }
            true => self.queues.base_slice + self.queues.tick,
        };
        let limit = self.queues.virtual_span(entity, longest);
        let mut lag = (self.virtual_time(e.queue) - e.virtual_time).clamp(-limit, limit);
        if e.delayed {
            if V::LAG_BY_LONGEST_SLICE {
                lag = lag.max(e.lag);
            }
            lag = lag.min(0);
        }
        self.queues.entities[entity].lag = lag;
    }

    /// Gives an entity that joins its virtual time, so that joining leaves it the lag it left with.
    ///
    /// With `W` in the queue, an entity of weight `w` placed at `V - l` moves V by `-l w / (W + w)`; so `l` is the
    /// old lag times `(W + w) / W`.
    fn place(&mut self, entity: usize, initial: bool) {
        let span = self.queues.virtual_span(entity, self.queues.entities[entity].slice);
        let queue = self.queues.entities[entity].queue;
        let mean = self.virtual_time(queue);
        let (_, load) = self.totals(queue);
        let occupied = self.queues.queues[queue].count > 0;
        let e = &mut self.queues.entities[entity];
        let lag = if occupied && e.lag != 0 && load > 0 { scaled(e.lag, load + e.weight, load) } else { 0 };
        e.virtual_time = mean - lag;
        if e.relative {
            e.relative = false;
            e.deadline += e.virtual_time;
        } else {
            e.deadline = e.virtual_time + if initial { span / 2 } else { span };
        }
    }

    fn join(&mut self, entity: usize, initial: bool) {
        self.place(entity, initial);
        self.queues.count(entity, true);
        if !self.queues.is_current(entity) {
            self.wait(entity);
        }
    }

    /// The entity to run, `protect`: the running one keeps on while it is protected.
    fn pick_when(&self, queue: usize, protect: bool) -> Option<usize> {
        let q = &self.queues.queues[queue];
        let entities = &self.queues.entities;
        let running = q.current.filter(|c| entities[*c].queued);
        if q.count <= 1 {
            return running.or_else(|| q.tree.first().map(|first| first.item as usize));
        }
        let totals = self.totals(queue);
        if let Some(next) = q.next.filter(|_| protect)
            && self.is_eligible_at(queue, totals, entities[next].virtual_time)
        {
            return Some(next);
        }
        let running = running.filter(|c| self.is_eligible_at(queue, totals, entities[*c].virtual_time));
        if let Some(c) = running.filter(|c| protect && entities[*c].virtual_time < entities[*c].protected) {
            return Some(c);
        }
        // Mostly the first is eligible, which is known without a division: v <= V is the same as sum >= (v - zero) W, all are integers.
        let first =
            q.tree.first().filter(|first| self.is_eligible_at(queue, totals, first.figures[VIRTUAL_TIME]));
        let best = first.or_else(|| q.tree.first_within(VIRTUAL_TIME, self.virtual_time(queue)));
        match (best, running) {
            (Some(best), Some(c)) if entities[c].deadline < best.key => Some(c),
            (Some(best), _) => Some(best.item as usize),
            (None, c) => c,
        }
    }

    /// One with a shorter slice joined and waits: protection ends after that slice.
    fn shorten_protection(&mut self, entity: usize) {
        let slice = self.shortest_slice(self.queues.entities[entity].queue);
        let span = self.queues.virtual_span(entity, slice);
        let e = &mut self.queues.entities[entity];
        e.protected = e.protected.min(e.virtual_time + span);
    }

    /// From now on another may be picked instead of an entity.
    fn end_protection(&mut self, entity: usize) {
        let e = &mut self.queues.entities[entity];
        e.protected = e.protected.min(e.virtual_time);
    }
}

impl<V: Version> Rule for Eevdf<V> {
    const OWN_SLICES: bool = true;
    const TIMED: bool = V::TIMED;
    const NEWLY_IDLE_BY_RATE: bool = V::NEWLY_IDLE_BY_RATE;
    // What 7.2 owes a sleeper it looks up with the time up to now.
    const BOOKS_BEFORE_REQUEUE: bool = V::LAG_BY_LONGEST_SLICE;

    fn new(cpus: usize, base_slice: i64, tick: i64) -> Eevdf<V> {
        Eevdf { queues: Queues::new(cpus, base_slice, tick), version: PhantomData }
    }

    fn stays_at_first(&self, entity: usize) -> bool {
        V::GIVES_ELIGIBLE_FIRST && !self.is_eligible(entity)
    }

    fn key(&self, entity: usize) -> i64 {
        self.queues.entities[entity].deadline
    }

    fn set_slice(&mut self, entity: usize, slice: i64) {
        let e = &mut self.queues.entities[entity];
        if e.slice == slice {
            return;
        }
        e.slice = slice;
        if e.queued && self.queues.queues[e.queue].current != Some(entity) {
            self.queues.queues[e.queue].tree.change(e.deadline, e.order, SLICE, slice);
        }
    }

    fn shortest_slice(&self, queue: usize) -> i64 {
        if !self.queues.own_slices {
            return self.queues.base_slice;
        }
        let q = &self.queues.queues[queue];
        let running = q.current.filter(|c| self.queues.entities[*c].queued);
        let running = running.map(|e| self.queues.entities[e].slice);
        q.tree.least(SLICE).into_iter().chain(running).min().unwrap_or(self.queues.base_slice)
    }

    fn enqueue(&mut self, entity: usize, arrival: Arrival) {
        self.join(entity, arrival == Arrival::New);
    }

    fn dequeue(&mut self, entity: usize, sleeps: bool, may_delay: bool) -> bool {
        self.queues.forget_favours(entity);
        if sleeps && may_delay && !self.is_eligible(entity) {
            if V::LAG_BY_LONGEST_SLICE {
                self.update_lag(entity);
            }
            self.queues.entities[entity].delayed = true;
            return false;
        }
        self.update_lag(entity);
        if !self.queues.is_current(entity) {
            self.stop_waiting(entity);
        }
        let e = &mut self.queues.entities[entity];
        if !sleeps {
            e.deadline -= e.virtual_time;
            e.relative = true;
        }
        e.delayed = false;
        self.queues.count(entity, false);
        true
    }

    /// What it is owed by now is forgotten.
    fn requeue(&mut self, entity: usize) {
        let is_ahead =
            self.virtual_time(self.queues.entities[entity].queue) > self.queues.entities[entity].virtual_time;
        self.update_lag(entity);
        let e = &mut self.queues.entities[entity];
        e.delayed = false;
        let (queue, virtual_time, lag) = (e.queue, e.virtual_time, e.lag);
        let stands =
            if V::LAG_BY_LONGEST_SLICE { self.virtual_time(queue) - lag == virtual_time } else { !is_ahead };
        if stands {
            return;
        }
        if !self.queues.is_current(entity) {
            self.stop_waiting(entity);
        }
        self.queues.count(entity, false);
        self.join(entity, false);
    }

    fn account(&mut self, entity: usize, ran: i64) -> bool {
        let passed = self.queues.virtual_span(entity, ran);
        let e = &mut self.queues.entities[entity];
        let queue = e.queue;
        e.virtual_time += passed;
        let is_protected = e.virtual_time < e.protected;
        let is_over = e.virtual_time >= e.deadline;
        if is_over {
            let (from, slice) = (e.virtual_time, e.slice);
            let span = self.queues.virtual_span(entity, slice);
            self.queues.entities[entity].deadline = from + span;
            self.rebase(queue);
        }
        if self.queues.queues[queue].count == 1 || !is_over && is_protected {
            return false;
        }
        let due = is_over || !V::PROTECTS_WHOLE_SLICE || !self.is_eligible(entity);
        if due {
            self.queues.forget_favours(entity);
        }
        due
    }

    fn pick(&self, queue: usize) -> Option<usize> {
        self.pick_when(queue, true)
    }

    fn set_current(&mut self, entity: usize) {
        self.queues.forget_favours(entity);
        let queue = self.queues.entities[entity].queue;
        if self.queues.entities[entity].queued {
            self.stop_waiting(entity);
            let slice = self.shortest_slice(queue);
            let e = &self.queues.entities[entity];
            let protected = if slice < e.slice && !V::PROTECTS_WHOLE_SLICE {
                e.deadline.min(e.virtual_time + self.queues.virtual_span(entity, slice))
            } else {
                e.deadline
            };
            self.queues.entities[entity].protected = protected;
        }
        self.queues.queues[queue].current = Some(entity);
    }

    fn preempts(&mut self, current: usize, woken: usize) -> bool {
        let [c, w] = [current, woken].map(|e| &self.queues.entities[e]);
        let (queue, shorter) = (c.queue, w.slice < c.slice);
        if V::PROTECTS_WHOLE_SLICE {
            let is_due = w.deadline < c.deadline || !self.is_eligible(current);
            if shorter && is_due && self.is_eligible(woken) {
                self.end_protection(current);
            }
            return self.pick_when(queue, true) == Some(woken);
        }
        let takes_over = self.pick_when(queue, !shorter) == Some(woken);
        match (shorter, takes_over) {
            (true, true) => self.outranked(current, woken),
            (true, false) => self.shorten_protection(current),
            _ => {}
        }
        takes_over
    }

    fn outranked(&mut self, current: usize, _woken: usize) {
        self.end_protection(current);
    }

    fn yield_now(&mut self, entity: usize) {
        let queue = self.queues.entities[entity].queue;
        if self.queues.queues[queue].count > 1 && self.is_eligible(entity) {
            let span = self.queues.virtual_span(entity, self.queues.entities[entity].slice);
            let e = &mut self.queues.entities[entity];
            e.virtual_time = e.deadline;
            e.deadline += span;
        }
    }

    /// Lag and distance to the deadline keep their length in real time.
    fn reweight(&mut self, entity: usize, weight: i64) {
        let old = self.queues.entities[entity].weight;
        if old == weight {
            return;
        }
        let queued = self.queues.entities[entity].queued;
        if queued {
            self.update_lag(entity);
            if !self.queues.is_current(entity) {
                self.stop_waiting(entity);
            }
            self.queues.count(entity, false);
            let e = &mut self.queues.entities[entity];
            e.deadline -= e.virtual_time;
            e.protected -= e.virtual_time;
            e.relative = true;
        }
        let e = &mut self.queues.entities[entity];
        e.lag = scaled(e.lag, old, weight);
        if e.relative {
            e.deadline = scaled(e.deadline, old, weight);
            e.protected = scaled(e.protected, old, weight);
        }
        e.weight = weight;
        if queued {
            self.join(entity, false);
            let e = &mut self.queues.entities[entity];
            e.protected += e.virtual_time;
        }
    }

    fn left_of_slice(&self, entity: usize) -> i64 {
        let e = &self.queues.entities[entity];
        let left = i128::from(e.deadline - e.virtual_time) * i128::from(e.weight);
        // Rounded up: the interrupt comes after the slice's end, not a nanosecond before it.
        let left = (left + i128::from(UNIT) - 1) / i128::from(UNIT);
        i64::try_from(left).expect("a slice is short")
    }
}
