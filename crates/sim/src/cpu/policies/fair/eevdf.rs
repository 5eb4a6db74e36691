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
//! What differs from kernel to kernel, and with its features, is in a [`Version`].

use std::ops::{Deref, DerefMut};

use surety_model::platform::Platform;
use surety_model::weight::nice_weight;

use crate::cpu::policy::Arrival;

use super::balance::Search;
use super::queue::{Entity, NEXT, Queue, Queues, Rule, SLICE, VIRTUAL_TIME, WakeupPreemption, scaled};
use super::version::Version;
use super::weight::UNIT;

/// Queues that choose by it.
pub(super) struct Eevdf<V> {
    queues: Queues,
    version: V,
    /// The base slice of one CPU, ns.
    unscaled_slice: i64,
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
    /// Empty root queues.
    pub(super) fn new(platform: &Platform, cpus: usize, version: V) -> Eevdf<V> {
        let queues = Queues::new(platform, cpus);
        let unscaled_slice = queues.base_slice / queues.scale();
        Eevdf { queues, version, unscaled_slice }
    }

    /// The queue's virtual time, V.
    #[inline]
    fn virtual_time(&self, queue: usize) -> i64 {
        let q = &self.queues.queues[queue];
        virtual_time_of(q, q.running(&self.queues.entities))
    }

    /// Whether an entity is owed service.
    #[inline]
    fn is_eligible(&self, entity: usize) -> bool {
        let e = &self.queues.entities[entity];
        let q = &self.queues.queues[e.queue];
        is_eligible_at(q, q.totals(q.running(&self.queues.entities)), e.virtual_time)
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
        let virtual_time = self.virtual_time(e.queue);
        let form = self.version.form();
        let longest = match form.lag_by_longest_slice {
            false => (2 * e.slice).max(self.queues.tick),
            true if self.queues.own_slices => {
                self.slices(e.queue).max().unwrap_or(e.slice) + self.queues.tick
            }
            true => self.queues.base_slice + self.queues.tick,
        };
        let limit = e.virtual_span(longest);
        let mut lag = (virtual_time - e.virtual_time).clamp(-limit, limit);
        if e.delayed {
            if form.lag_by_longest_slice {
                lag = lag.max(e.lag);
            }
            if form.delay_zero {
                lag = lag.min(0);
            }
        }
        self.queues.entities[entity].lag = lag;
    }

    /// Gives an entity that joins its virtual time, so that joining leaves it the lag it left with.
    ///
    /// With `W` in the queue, an entity of weight `w` placed at `V - l` moves V by `-l w / (W + w)`; so `l` is the
    /// old lag times `(W + w) / W`.
    fn place(&mut self, entity: usize, initial: bool) {
        let q = &self.queues.queues[self.queues.entities[entity].queue];
        let running = q.running(&self.queues.entities);
        let (mean, load) = (virtual_time_of(q, running), q.totals(running).1);
        let occupied = q.count > 0;
        let form = self.version.form();
        let e = &mut self.queues.entities[entity];
        let span = e.virtual_span(e.slice);
        let counts = occupied && e.lag != 0 && load > 0 && form.place_lag;
        let lag = if counts { scaled(e.lag, load + e.weight, load) } else { 0 };
        e.virtual_time = mean - lag;
        if std::mem::take(&mut e.relative) && form.place_rel_deadline {
            e.deadline += e.virtual_time;
        } else {
            let is_half = initial && form.place_deadline_initial;
            e.deadline = e.virtual_time + if is_half { span / 2 } else { span };
        }
    }

    fn join(&mut self, entity: usize, initial: bool) {
        self.place(entity, initial);
        self.queues.count(entity, true);
        if !self.queues.is_current(entity) {
            self.wait(entity);
        }
    }

    /// The entity to run, `protect`: the running one keeps on while it is protected, `buddies`: a nominated one goes first.
    fn pick_when(&self, queue: usize, protect: bool, buddies: bool) -> Option<usize> {
        let q = &self.queues.queues[queue];
        let entities = &self.queues.entities;
        let running = q.running(entities);
        if q.count <= 1 {
            let first = || q.tree.first().map(|first| first.item as usize);
            return q.current.filter(|_| running.is_some()).or_else(first);
        }
        let totals = q.totals(running);
        let form = self.version.form();
        if let Some(next) = q.next.filter(|_| buddies && form.pick_buddy)
            && is_eligible_at(q, totals, entities[next].virtual_time)
        {
            return Some(next);
        }
        let eligible = running.filter(|c| is_eligible_at(q, totals, c.virtual_time));
        let protect = protect && (form.run_to_parity || !form.protects_whole_slice);
        if eligible.is_some_and(|c| protect && c.virtual_time < c.protected) {
            return q.current;
        }
        // Mostly the first is eligible, which is known without a division: v <= V is the same as sum >= (v - zero) W, all are integers.
        let first = q.tree.first().filter(|first| is_eligible_at(q, totals, first.figures[VIRTUAL_TIME]));
        let best = first.or_else(|| q.tree.first_within(VIRTUAL_TIME, virtual_time_of(q, running)));
        match (best, eligible) {
            (Some(best), Some(c)) if c.deadline < best.key => q.current,
            (Some(best), _) => Some(best.item as usize),
            (None, c) => q.current.filter(|_| c.is_some()),
        }
    }

    /// One with a shorter slice joined and waits: protection ends after that slice.
    fn shorten_protection(&mut self, entity: usize) {
        let slice = self.shortest_slice(self.queues.entities[entity].queue);
        let span = self.queues.virtual_span(entity, slice);
        let e = &mut self.queues.entities[entity];
        e.protected = e.protected.min(e.virtual_time + span);
    }

    /// A queued entity takes another weight where it is; its distance to the deadline keeps its length in real time.
    fn reweight_in_place(&mut self, entity: usize, weight: i64) {
        let waits = !self.queues.is_current(entity);
        if waits {
            self.stop_waiting(entity);
        }
        let e = &mut self.queues.entities[entity];
        let was_whole = e.protected == e.deadline;
        e.deadline = e.virtual_time + scaled(e.deadline - e.virtual_time, e.weight, weight);
        e.protected = if was_whole { e.deadline } else { e.protected };
        self.queues.set_weight(entity, weight);
        if waits {
            self.wait(entity);
        }
    }

    /// Another weight: lag and distance to the deadline keep their length in real time.
    fn take_weight(&mut self, entity: usize, weight: i64) {
        let old = self.queues.entities[entity].weight;
        let queued = self.queues.entities[entity].queued;
        if queued && !self.version.form().keeps_lag_in_time {
            return self.reweight_in_place(entity, weight);
        }
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

    /// From now on another may be picked instead of an entity.
    fn end_protection(&mut self, entity: usize) {
        let e = &mut self.queues.entities[entity];
        e.protected = e.protected.min(e.virtual_time);
    }
}

/// The virtual time of a queue, V, in which this entity runs.
#[inline]
fn virtual_time_of(q: &Queue, running: Option<&Entity>) -> i64 {
    if q.load == 0 {
        // It is alone, if there is one: no division.
        return running.map_or(q.zero, |c| c.virtual_time);
    }
    let (sum, load) = q.totals(running);
    q.zero + sum.div_euclid(load)
}

/// Whether an entity of a queue with these totals is owed service, that stands at a virtual time.
#[inline]
fn is_eligible_at(q: &Queue, (sum, load): (i64, i64), virtual_time: i64) -> bool {
    i128::from(sum) >= i128::from(virtual_time - q.zero) * i128::from(load)
}

impl<V: Version> Rule for Eevdf<V> {
    fn has_own_slices(&self) -> bool {
        self.version.form().own_slices
    }

    fn is_timed(&self) -> bool {
        self.version.form().hrtick
    }

    fn search(&self) -> Search {
        self.version.form().search
    }

    // What 7.2 owes a sleeper it looks up with the time up to now.
    fn books_before_requeue(&self) -> bool {
        self.version.form().lag_by_longest_slice
    }

    fn stays_at_first(&self, entity: usize) -> bool {
        self.version.form().gives_eligible_first && !self.is_eligible(entity)
    }

    fn is_buddy(&self, entity: usize) -> bool {
        let form = self.version.form();
        let queue = self.queues.entities[entity].queue;
        form.next_buddy && form.cache_hot_buddy && self.queues.queues[queue].next == Some(entity)
    }

    fn wakeup_preemption(&self) -> WakeupPreemption {
        let form = self.version.form();
        match (form.wakeup_preemption, form.idle_gives_way) {
            (true, _) => WakeupPreemption::All,
            (false, true) => WakeupPreemption::OfIdle,
            (false, false) => WakeupPreemption::Nobody,
        }
    }

    fn nominates(&self) -> bool {
        self.version.form().next_buddy
    }

    fn nominate(&mut self, _current: usize, woken: usize) {
        if !self.queues.entities[woken].is_new {
            self.queues.mark(woken, NEXT);
        }
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

    /// The base slice over the weight of a thread of that nice (the EEVDF series of 2023, P. Zijlstra), in whole ns.
    fn set_latency_nice(&mut self, entity: usize, latency_nice: i32) {
        let slice = scaled(self.queues.base_slice, UNIT, nice_weight(latency_nice)).max(1);
        self.queues.own_slices |= slice != self.queues.base_slice;
        self.queues.entities[entity].slice = slice;
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
        if self.version.form().next_buddy {
            self.queues.entities[entity].is_new = arrival == Arrival::New;
        }
        self.join(entity, arrival == Arrival::New);
    }

    fn dequeue(&mut self, entity: usize, sleeps: bool, may_delay: bool) -> bool {
        self.queues.forget_favours(entity);
        if sleeps && may_delay && self.version.form().delay_dequeue && !self.is_eligible(entity) {
            if self.version.form().lag_by_longest_slice {
                self.update_lag(entity);
            }
            self.queues.entities[entity].delayed = true;
            return false;
        }
        if !sleeps && !self.version.form().lag_by_longest_slice {
            // A sleeper that goes to another queue is forgiven nothing yet (`finish_delayed_dequeue_entity`).
            self.queues.entities[entity].delayed = false;
        }
        self.update_lag(entity);
        if !self.queues.is_current(entity) {
            self.stop_waiting(entity);
        }
        let keeps_deadline = self.version.form().place_rel_deadline;
        let e = &mut self.queues.entities[entity];
        if !sleeps && keeps_deadline {
            e.deadline -= e.virtual_time;
            e.relative = true;
        }
        e.delayed = false;
        self.queues.count(entity, false);
        true
    }

    /// What it is owed by now is forgotten (`DELAY_ZERO`).
    fn requeue(&mut self, entity: usize) {
        if !self.version.form().delay_zero {
            self.queues.entities[entity].delayed = false;
            return;
        }
        let is_ahead =
            self.virtual_time(self.queues.entities[entity].queue) > self.queues.entities[entity].virtual_time;
        self.update_lag(entity);
        let e = &mut self.queues.entities[entity];
        e.delayed = false;
        let (queue, virtual_time, lag) = (e.queue, e.virtual_time, e.lag);
        let stands = match self.version.form().lag_by_longest_slice {
            true => self.virtual_time(queue) - lag == virtual_time,
            false => !is_ahead,
        };
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
        let e = &mut self.queues.entities[entity];
        let queue = e.queue;
        let is_alone = self.queues.queues[queue].count == 1;
        e.virtual_time += e.virtual_span(ran);
        let is_over = e.virtual_time >= e.deadline;
        if is_over {
            e.deadline = e.virtual_time + e.virtual_span(e.slice);
            self.rebase(queue);
        } else if e.virtual_time < e.protected {
            return false;
        }
        if is_alone {
            return false;
        }
        let form = self.version.form();
        let due = is_over || !form.protects_whole_slice || form.preempt_short && !self.is_eligible(entity);
        if due {
            self.queues.forget_favours(entity);
        }
        due
    }

    fn pick(&self, queue: usize) -> Option<usize> {
        self.pick_when(queue, true, true)
    }

    fn set_current(&mut self, entity: usize) {
        self.queues.forget_favours(entity);
        let form = self.version.form();
        let e = &self.queues.entities[entity];
        let queue = e.queue;
        if e.queued {
            self.queues.queues[queue].remove(e, e.deadline);
            let slice = if form.run_to_parity { self.shortest_slice(queue) } else { self.unscaled_slice };
            let e = &mut self.queues.entities[entity];
            e.protected = if slice < e.slice && !form.protects_whole_slice {
                e.deadline.min(e.virtual_time + e.virtual_span(slice))
            } else {
                e.deadline
            };
        }
        self.queues.queues[queue].current = Some(entity);
    }

    fn preempts(&mut self, current: usize, woken: usize) -> bool {
        let form = self.version.form();
        let [c, w] = [current, woken].map(|e| &self.queues.entities[e]);
        let (queue, shorter) = (c.queue, form.preempt_short && w.slice < c.slice);
        if form.protects_whole_slice {
            let is_due = w.deadline < c.deadline || !self.is_eligible(current);
            if shorter && is_due && self.is_eligible(woken) {
                self.end_protection(current);
            }
            // Whom `NEXT_BUDDY` nominates is picked first only when the CPU chooses.
            return self.pick_when(queue, true, !form.next_buddy) == Some(woken);
        }
        let takes_over = self.pick_when(queue, !shorter, !shorter) == Some(woken);
        match (shorter, takes_over) {
            (true, true) => self.outranked(current, woken),
            (true, false) if form.run_to_parity => self.shorten_protection(current),
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

    #[inline]
    fn reweight(&mut self, entity: usize, weight: i64) {
        if self.queues.entities[entity].weight != weight {
            self.take_weight(entity, weight);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::policies::fair::eevdf_6_6;
    use crate::cpu::policies::fair::version::{Changed, Form};

    type Kernel = (fn(u32) -> Platform, Form);
    const V6_18: Kernel = (Platform::linux_6_18, Form::USUAL);
    const V6_6: Kernel = (Platform::linux_6_6, eevdf_6_6::FORM);

    const SLICE_NS: i64 = 3_000_000;

    /// Queues of two CPUs whose base slice is 3 ms, and on the first of them two threads, of which the first has run for 1 ms.
    fn two_threads((of, form): Kernel, features: &[&str]) -> Eevdf<Changed> {
        let mut platform = Platform { base_slice: surety_units::Nanos::new(SLICE_NS), ..of(2) };
        platform.set_features(features).unwrap();
        let version = Changed::of(form, &platform);
        let mut rule = Eevdf::new(&platform, 2, version);
        for entity in 0..2 {
            rule.queues.entities.push(Entity::new(UNIT, SLICE_NS, 0));
            rule.enqueue(entity, Arrival::Woken);
        }
        rule.set_current(0);
        rule.account(0, 1_000_000);
        rule.put_current(0);
        rule
    }

    /// 2 ms are left to the deadline: on the other CPU again, or a whole slice.
    #[test]
    fn a_deadline_goes_along_with_place_rel_deadline() {
        for (of, features, left) in [
            (V6_18, &[][..], 2_000_000),
            (V6_18, &["NO_PLACE_REL_DEADLINE"], SLICE_NS),
            (V6_6, &[], SLICE_NS),
        ] {
            let mut rule = two_threads(of, features);
            rule.dequeue(0, false, false);
            rule.move_to(0, 1);
            rule.enqueue(0, Arrival::Changed);
            let e = &rule.queues.entities[0];
            assert_eq!(e.deadline - e.virtual_time, left, "{features:?}");
        }
    }

    /// Its lag is `(1 + 0) / 2 - 1 = -0.5` ms. Of half the weight it stands 1 ms behind the mean, which is then `V = 0.5` as before; in
    /// 6.6 it stays at 1 ms. The 2 ms to its deadline are 4 in both.
    #[test]
    fn another_weight_keeps_lag_in_time_but_in_6_6() {
        for (of, at) in [(V6_18, 1_500_000), (V6_6, 1_000_000)] {
            let mut rule = two_threads(of, &[]);
            rule.reweight(0, UNIT / 2);
            let e = &rule.queues.entities[0];
            assert_eq!((e.virtual_time, e.deadline - e.virtual_time), (at, 4_000_000));
        }
    }

    /// Of a base slice of 3 ms, as the series has it: `3 ms * 1024 / weight`.
    #[test]
    fn a_latency_nice_is_a_slice() {
        let platform = Platform { base_slice: surety_units::Nanos::new(SLICE_NS), ..Platform::linux_6_18(1) };
        let mut rule = Eevdf::new(&platform, 1, Changed::of(Form::USUAL, &platform));
        rule.queues.entities.push(Entity::new(UNIT, SLICE_NS, 0));
        for (latency_nice, slice) in [(-20, 34_609), (-10, 321_742), (0, SLICE_NS), (19, 204_800_000)] {
            rule.set_latency_nice(0, latency_nice);
            assert_eq!(rule.queues.entities[0].slice, slice, "{latency_nice}");
            assert!(latency_nice == -20 || rule.queues.own_slices);
        }
    }

    #[test]
    fn a_nominated_thread_is_warm_in_its_queue() {
        for (features, is_warm) in
            [(&["NEXT_BUDDY"][..], true), (&["NEXT_BUDDY", "NO_CACHE_HOT_BUDDY"], false), (&[], false)]
        {
            let mut rule = two_threads(V6_18, features);
            if rule.nominates() {
                rule.nominate(0, 1);
            }
            assert_eq!((rule.is_buddy(1), rule.is_buddy(0)), (is_warm, false), "{features:?}");
        }
    }
}
