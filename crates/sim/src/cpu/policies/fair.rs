//! The fair class: `SCHED_OTHER`, `SCHED_BATCH` and `SCHED_IDLE`, after `kernel/sched/fair.c` of 6.18.
//!
//! `queue` holds the rule by which one queue chooses (EEVDF), `weight` what threads and groups are worth,
//! `balance` the model of where threads run. Here they meet: a group has a queue on each CPU and an entity that
//! stands for it in the queue above; a CPU descends from its root queue to a thread.
//!
//! A slice's end is noticed when time is booked: on ticks and when a thread joins or leaves. A woken thread takes
//! over when it would be picked; the running one's protection yields only to a shorter slice. A thread that
//! sleeps having had more than its share stays in the queue, delayed, until it is eligible.
//!
//! *Groups, a model*: the weight of a group's entity is the group's weight times the part of the group's load that
//! is on that CPU, taken at the instant a thread joins or leaves and on ticks; the kernel smooths the load over
//! tens of milliseconds first, as `balance` does.

mod average;
mod balance;
pub(super) mod cfs;
mod classes;
mod eevdf;
pub(super) mod eevdf_6_12;
pub(super) mod eevdf_6_18;
pub(super) mod eevdf_6_6;
pub(super) mod eevdf_7_2;
pub(super) mod fair_clock;
mod moving;
mod queue;
mod quota;
mod version;
mod weight;

use surety_model::workload::PolicySpec;
use surety_units::Nanos;

use crate::cpu::hardware::{Hardware, Rank, Scheduling, ThreadId};
use crate::cpu::policy::{Arrival, CpuPolicy, Departure, Pick};
use crate::engine::Slot;

use balance::{Balance, Taken};
use queue::{Entity, NEXT, Queue, Queues, Rule, WakeupPreemption};
use quota::Quotas;

/// The fair class.
struct Fair<R> {
    rank: Rank,
    /// Root queues first, one for each CPU; then each group's, CPU by CPU. A group's entities stand in the same
    /// order before those of threads.
    queues: R,
    cpus: usize,
    group_weights: Vec<i64>,
    quotas: Quotas,
    /// Entity of each thread.
    of_thread: Vec<usize>,
    balance: Balance,
    /// What a CPU that was about to idle found, at this instant.
    found: Option<(Nanos, usize, Taken)>,
    /// Ends of slices, per CPU, where a timer notices them.
    slice_ends: Vec<Slot>,
}

impl<R: Rule> Fair<R> {
    /// For a machine without threads, with empty root queues.
    fn new(hardware: &mut Hardware, rank: Rank, mut queues: R) -> Fair<R> {
        let cpus = hardware.cpus.len();
        queues.set_times(&hardware.times);
        let base_slice = queues.base_slice;
        let group_weights: Vec<i64> = hardware.groups.iter().map(weight::of_group).collect();
        for (group, spec) in hardware.groups.iter().enumerate() {
            for cpu in 0..cpus {
                let above = queue_of(cpus, spec.parent, cpu);
                let entity = queues.entities.len();
                queues.entities.push(Entity::new(group_weights[group], base_slice, above));
                queues.entities[entity].owns = Some(queues.queues.len());
                let depth = queues.queues[above].depth + 1;
                queues.queues.push(Queue::below(entity, depth));
            }
        }
        let balance = Balance::new(hardware, rank, queues.search());
        let timed = if queues.is_timed() { cpus } else { 0 };
        let number = |cpu: usize| u32::try_from(cpu).expect("fewer than 2^32 CPUs");
        let slice_ends = (0..timed).map(|cpu| hardware.add_timer(rank, number(cpu))).collect();
        let quotas = Quotas::new(hardware, rank, queues.queues.len());
        let of_thread = Vec::new();
        Fair { rank, queues, cpus, group_weights, quotas, of_thread, balance, found: None, slice_ends }
    }

    /// Has a timer end the slice of the running thread of a CPU, where one does and somebody waits (`hrtick_start_fair`).
    fn time_slice(&self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        let Some(timer) = self.slice_ends.get(cpu).filter(|_| self.queues.threads[cpu] > 1) else { return };
        let left = Nanos::new(self.queues.left_of_slice(self.of_thread[thread.index()]));
        let ends = hardware.free_from(cpu) + left.max(hardware.times.slice_timer_min);
        hardware.arm_timer(*timer, cpu, ends);
    }

    /// The same when a thread has joined or left and no timer runs (`hrtick_update`).
    #[inline]
    fn time_slice_unless_timed(&self, hardware: &mut Hardware, cpu: usize) {
        if self.queues.is_timed()
            && let (Some(timer), Some(current)) =
                (self.slice_ends.get(cpu), hardware.current_of(cpu, self.rank))
            && !hardware.engine.is_armed(*timer)
        {
            self.time_slice(hardware, cpu, current);
        }
    }

    /// The slice that a thread asks for, or that of all.
    fn slice_of(&mut self, hardware: &Hardware, asked: &Scheduling) -> i64 {
        match asked {
            Scheduling::Policy(PolicySpec::Fair { slice: Some(slice), .. })
                if self.queues.has_own_slices() =>
            {
                self.queues.own_slices = true;
                (*slice).clamp(hardware.times.slice_min, hardware.times.slice_max).get()
            }
            _ => self.queues.base_slice,
        }
    }

    /// A thread of a slice of its own that asks for another, or for none (`__setparam_fair`).
    fn take_slice(&mut self, hardware: &Hardware, thread: ThreadId) {
        let asked = hardware.thread(thread).asked;
        if let Scheduling::Policy(PolicySpec::Fair { .. }) = asked {
            let slice = self.slice_of(hardware, &asked);
            self.queues.set_slice(self.of_thread[thread.index()], slice);
        }
    }

    fn depth(&self, entity: usize) -> u32 {
        self.queues.queues[self.queues.entities[entity].queue].depth
    }

    /// The entity of a group takes a new weight.
    #[inline]
    fn update_group(&mut self, entity: usize) {
        if let Some(queue) = self.queues.entities[entity].owns {
            self.weigh_group(entity, queue);
        }
    }

    /// Weight of a group's entity: the group's weight times the part of its load that is here.
    fn weigh_group(&mut self, entity: usize, queue: usize) {
        let place = queue - self.cpus;
        let (group, first) = (place / self.cpus, queue - place % self.cpus);
        let whole: i64 = (first..first + self.cpus).map(|q| self.queues.load(q)).sum();
        let here = self.queues.load(queue);
        if here == 0 {
            return;
        }
        let weight = self.group_weights[group];
        let share = (weight * here / whole).clamp(weight::GROUP_MIN, weight.max(weight::GROUP_MIN));
        self.queues.reweight(entity, share);
    }

    /// The entity and all above it take new weights and slices.
    #[inline]
    fn update_above(&mut self, entity: Option<usize>) {
        let mut next = entity;
        while let Some(entity) = next {
            self.update_group(entity);
            self.take_shortest_slice(entity);
            next = self.queues.parent(entity);
        }
    }

    #[inline]
    fn take_shortest_slice(&mut self, entity: usize) {
        if let Some(owned) = self.queues.entities[entity].owns {
            self.queues.set_slice(entity, self.queues.shortest_slice(owned));
        }
    }

    /// A thread's entity joins, with those groups above it that were empty here.
    #[inline(always)]
    fn join(&mut self, hardware: &mut Hardware, entity: usize, arrival: Arrival) {
        if !self.group_weights.is_empty() {
            return self.join_groups(hardware, entity, arrival);
        }
        let e = &self.queues.entities[entity];
        if !e.queued {
            self.queues.enqueue(entity, arrival);
        } else if e.delayed {
            self.queues.requeue(entity);
        }
    }

    fn join_groups(&mut self, hardware: &mut Hardware, entity: usize, arrival: Arrival) {
        let (mut next, mut arrival) = (Some(entity), arrival);
        while let Some(entity) = next {
            if self.queues.entities[entity].queued {
                if self.queues.entities[entity].delayed {
                    self.queues.requeue(entity);
                }
                break;
            }
            self.take_shortest_slice(entity);
            self.update_group(entity);
            self.queues.enqueue(entity, arrival);
            if !self.may_begin(hardware, self.queues.entities[entity].queue) {
                return;
            }
            arrival = Arrival::Woken;
            next = self.queues.parent(entity);
        }
        self.update_above(next);
    }

    /// An entity leaves, with those groups above it that are then empty here.
    #[inline]
    fn quit(&mut self, hardware: &mut Hardware, entity: usize, sleeps: bool, may_delay: bool) {
        if self.group_weights.is_empty() {
            self.queues.dequeue(entity, sleeps, may_delay);
        } else {
            self.let_go(hardware, entity, (sleeps, may_delay), sleeps);
        }
    }

    /// The same; `falls_asleep`: the first group that is not empty is to be picked next.
    fn let_go(
        &mut self,
        hardware: &mut Hardware,
        entity: usize,
        (mut sleeps, mut may_delay): (bool, bool),
        falls_asleep: bool,
    ) {
        let mut next = Some(entity);
        while let Some(entity) = next {
            if !self.queues.dequeue(entity, sleeps, may_delay) {
                break;
            }
            self.give_back(hardware, self.queues.entities[entity].queue);
            next = self.queues.parent(entity);
            if self.queues.queues[self.queues.entities[entity].queue].throttled {
                return;
            }
            if self.queues.queues[self.queues.entities[entity].queue].count > 0 {
                if let Some(group) = next.filter(|_| falls_asleep) {
                    self.queues.mark(group, NEXT);
                }
                break;
            }
            (sleeps, may_delay) = (true, true);
        }
        self.update_above(next);
    }

    /// The thread to run on a CPU; entities that only waited to become eligible are let go on the way.
    fn descend(&mut self, hardware: &mut Hardware, cpu: usize) -> Option<ThreadId> {
        let mut queue = cpu;
        loop {
            if self.throttle_if_due(hardware, queue, false) {
                queue = cpu;
            }
            let entity = self.queues.pick(queue)?;
            let picked = &self.queues.entities[entity];
            if picked.delayed {
                let thread = picked.thread;
                self.quit(hardware, entity, true, false);
                self.let_go_of(hardware, thread);
                queue = cpu;
            } else if let Some(owned) = picked.owns {
                queue = owned;
            } else {
                return picked.thread;
            }
        }
    }

    /// A thread that was left in its queue has gone from it.
    fn let_go_of(&mut self, hardware: &Hardware, thread: Option<ThreadId>) {
        if self.cpus == 1 {
            return;
        }
        if let Some(thread) = thread.filter(|thread| !self.is_held(self.of_thread[thread.index()])) {
            self.balance.leaves(hardware, thread, false, self.load_beside(thread));
        }
    }

    /// The entities of two threads, or of the groups they are in, that meet in one queue.
    #[inline]
    fn meeting(&self, a: usize, b: usize) -> Option<(usize, usize)> {
        if self.group_weights.is_empty() { Some((a, b)) } else { self.meeting_above(a, b) }
    }

    fn meeting_above(&self, a: usize, b: usize) -> Option<(usize, usize)> {
        let (mut a, mut b) = (a, b);
        while self.queues.entities[a].queue != self.queues.entities[b].queue {
            let (depth_a, depth_b) = (self.depth(a), self.depth(b));
            if depth_a >= depth_b {
                a = self.queues.parent(a)?;
            }
            if depth_b >= depth_a {
                b = self.queues.parent(b)?;
            }
        }
        Some((a, b))
    }

    fn set_chain(&mut self, entity: usize, until: Option<usize>) {
        let mut next = Some(entity);
        while let Some(entity) = next.filter(|e| Some(*e) != until) {
            self.queues.set_current(entity);
            next = self.queues.parent(entity);
        }
    }

    fn put_chain(&mut self, entity: usize, until: Option<usize>) {
        let mut next = Some(entity);
        while let Some(entity) = next.filter(|e| Some(*e) != until) {
            self.queues.put_current(entity);
            next = self.queues.parent(entity);
        }
    }

    /// Whether an entity waits for the quota of a group.
    fn is_held(&self, entity: usize) -> bool {
        self.queues.queues[self.queues.entities[entity].queue].is_held()
    }

    /// What a thread weighs in its queue.
    fn weight_of(&self, thread: ThreadId) -> i64 {
        self.queues.entities[self.of_thread[thread.index()]].weight
    }

    /// Weight of the threads in the queue of one.
    fn load_beside(&self, thread: ThreadId) -> i64 {
        self.queues.load_of_threads(self.queues.entities[self.of_thread[thread.index()]].queue)
    }
}

fn is_batch(asked: &Scheduling) -> bool {
    matches!(asked, Scheduling::Policy(PolicySpec::Batch { .. }))
}

/// Whether a thread would wait for the quota of a group on a CPU (`throttled_lb_pair`).
fn is_held_at(queues: &Queues, hardware: &Hardware, thread: ThreadId, cpu: usize) -> bool {
    queues.queues[queue_of(queues.cpus, hardware.thread(thread).group, cpu)].is_held()
}

/// The queue of a group, or of the root, on a CPU.
fn queue_of(cpus: usize, group: Option<usize>, cpu: usize) -> usize {
    group.map_or(0, |group| (group + 1) * cpus) + cpu
}

impl<R: Rule> CpuPolicy for Fair<R> {
    fn admit(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let t = hardware.thread(thread);
        let slice = self.slice_of(hardware, &t.asked);
        let queue = queue_of(self.cpus, t.group, t.cpu);
        let mut entity = Entity::new(weight::of(&t.asked), slice, queue);
        entity.thread = Some(thread);
        entity.is_batch = is_batch(&t.asked);
        let place = self.queues.entities.len();
        self.balance.admit(hardware, thread);
        self.of_thread.push(place);
        self.queues.entities.push(entity);
        if let Scheduling::Policy(PolicySpec::LatencyNice { latency_nice, .. }) = t.asked {
            self.queues.set_latency_nice(place, latency_nice);
        }
    }

    fn select_cpu(&mut self, hardware: &mut Hardware, thread: ThreadId, arrival: Arrival) -> usize {
        let t = hardware.thread(thread);
        if self.cpus == 1 || t.is_pinned() || self.queues.entities[self.of_thread[thread.index()]].queued {
            return t.cpu;
        }
        let queues = &self.queues;
        self.balance.place(hardware, thread, arrival, |cpu| queues.load(cpu))
    }

    fn enqueue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, arrival: Arrival) {
        let entity = self.of_thread[thread.index()];
        let t = hardware.thread(thread);
        if !self.queues.entities[entity].queued {
            self.queues.move_to(entity, queue_of(self.cpus, t.group, cpu));
            self.queues.reweight(entity, weight::of(&t.scheduling));
            if arrival == Arrival::Changed {
                self.take_slice(hardware, thread);
                let asked = hardware.thread(thread).asked;
                self.queues.entities[entity].is_batch = is_batch(&asked);
            }
        }
        let was_delayed = self.queues.entities[entity].delayed;
        self.join(hardware, entity, arrival);
        if self.cpus > 1 && !self.is_held(entity) {
            self.balance.joins(hardware, thread, self.weight_of(thread), self.load_beside(thread));
        }
        if !was_delayed {
            self.time_slice_unless_timed(hardware, cpu);
        }
    }

    fn dequeue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, departure: Departure) {
        let entity = self.of_thread[thread.index()];
        let is_held = self.cpus > 1 && self.is_held(entity);
        self.quit(hardware, entity, departure != Departure::Changes, departure == Departure::Sleeps);
        if self.cpus > 1 && !is_held {
            let is_left = self.queues.entities[entity].delayed;
            self.balance.leaves(hardware, thread, is_left, self.load_beside(thread));
        }
        self.time_slice_unless_timed(hardware, cpu);
    }

    fn forget(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let entity = self.of_thread[thread.index()];
        if self.queues.entities[entity].queued {
            self.quit(hardware, entity, true, false);
            self.let_go_of(hardware, Some(thread));
        }
    }

    fn pick(&mut self, hardware: &mut Hardware, cpu: usize) -> Pick {
        self.throttle_current(hardware, cpu);
        let none = if self.queues.queues[cpu].count == 0 { Pick::Nothing } else { Pick::Emptied };
        self.descend(hardware, cpu).map_or(none, Pick::Thread)
    }

    fn switch(
        &mut self,
        hardware: &mut Hardware,
        cpu: usize,
        prev: Option<ThreadId>,
        next: Option<ThreadId>,
    ) {
        if self.queues.is_timed() && hardware.current(cpu).is_none() {
            hardware.engine.cancel(self.slice_ends[cpu]);
        }
        if self.cpus > 1 {
            self.balance.switches(cpu, prev, next, hardware.now());
        }
        let entity = |t: ThreadId| self.of_thread[t.index()];
        match (prev.map(entity), next.map(entity)) {
            (Some(prev), Some(next)) if self.group_weights.is_empty() => {
                self.queues.put_current(prev);
                self.queues.set_current(next);
            }
            (Some(prev), Some(next)) => {
                let (until_prev, until_next) = match self.meeting(prev, next) {
                    Some((p, n)) if p == n => (Some(p), Some(n)),
                    Some((p, n)) => (self.queues.parent(p), self.queues.parent(n)),
                    None => (None, None),
                };
                self.put_chain(prev, until_prev);
                self.set_chain(next, until_next);
            }
            (Some(prev), None) if self.group_weights.is_empty() => self.queues.put_current(prev),
            (None, Some(next)) if self.group_weights.is_empty() => self.queues.set_current(next),
            (Some(prev), None) => self.put_chain(prev, None),
            (None, Some(next)) => self.set_chain(next, None),
            (None, None) => {}
        }
        if let Some(next) = next {
            self.time_slice(hardware, cpu, next);
        }
    }

    fn account(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, ran: Nanos) {
        let entity = self.of_thread[thread.index()];
        if self.group_weights.is_empty() {
            if self.queues.account(entity, ran.get()) {
                hardware.reschedule(cpu);
            }
            return;
        }
        let mut next = Some(entity);
        while let Some(entity) = next {
            let is_due = self.queues.account(entity, ran.get());
            if self.pay(hardware, self.queues.entities[entity].queue, ran) || is_due {
                hardware.reschedule(cpu);
            }
            next = self.queues.parent(entity);
        }
    }

    fn tick(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        let entity = self.of_thread[thread.index()];
        self.update_above(self.queues.parent(entity));
        let mut next = Some(entity);
        while let Some(entity) = next {
            if self.queues.tick(entity) {
                hardware.reschedule(cpu);
            }
            next = self.queues.parent(entity);
        }
    }

    fn wakeup_preempt(&mut self, hardware: &mut Hardware, cpu: usize, current: ThreadId, woken: ThreadId) {
        let is_idler = |s: &Scheduling| matches!(s, Scheduling::Policy(PolicySpec::Idle));
        if self.queues.nominates() && !is_idler(&hardware.thread(woken).scheduling) {
            self.queues.nominate(self.of_thread[current.index()], self.of_thread[woken.index()]);
        }
        if hardware.cpus[cpu].reschedule {
            return;
        }
        let (running, new) = (&hardware.thread(current).scheduling, &hardware.thread(woken).scheduling);
        let (current, woken) = (self.of_thread[current.index()], self.of_thread[woken.index()]);
        match self.queues.wakeup_preemption() {
            WakeupPreemption::All => {}
            WakeupPreemption::OfIdle if is_idler(running) && !is_idler(new) => {
                return hardware.reschedule(cpu);
            }
            WakeupPreemption::OfIdle | WakeupPreemption::Nobody => return,
        }
        let Some((current, woken)) = self.meeting(current, woken) else { return };
        if current == woken {
            return;
        }
        if self.queues.heeds_policies() {
            // An idle thread, or group, never stands in the way of another, nor does it take over.
            let is_idle = |entity: usize, s: &Scheduling| match self.queues.entities[entity].owns {
                Some(owned) => hardware.groups[owned / self.cpus - 1].idle,
                None => is_idler(s),
            };
            match (is_idle(current, running), is_idle(woken, new)) {
                (true, false) => {
                    self.queues.outranked(current, woken);
                    hardware.reschedule(cpu);
                    return;
                }
                (false, true) => return,
                _ => {}
            }
            if matches!(new, Scheduling::Policy(PolicySpec::Batch { .. } | PolicySpec::Idle)) {
                return;
            }
        }
        if self.queues.preempts(current, woken) {
            hardware.reschedule(cpu);
        }
    }

    fn is_queued(&self, thread: ThreadId) -> bool {
        let entity = &self.queues.entities[self.of_thread[thread.index()]];
        entity.queued && !entity.delayed && !self.queues.queues[entity.queue].is_held()
    }

    fn yield_now(&mut self, _hardware: &mut Hardware, _cpu: usize, thread: ThreadId) {
        self.queues.yield_now(self.of_thread[thread.index()]);
    }

    /// One that was left in the queue is only marked awake: its lag is computed with what was booked last of the running thread
    /// (`requeue_delayed_entity` calls no `update_curr`).
    fn accounts_on_enqueue(&self, thread: ThreadId) -> bool {
        self.queues.books_before_requeue() || !self.queues.entities[self.of_thread[thread.index()]].delayed
    }

    fn timer_cpu(&self, number: u32) -> Option<usize> {
        // Of a group: the first.
        Some(number as usize).map(|number| if number < self.cpus { number } else { 0 })
    }

    fn accounts_all_for_timer(&self, number: u32) -> bool {
        number as usize >= self.cpus
    }

    fn accounts_for_timer(&self, _number: u32) -> bool {
        true
    }

    /// The end of a slice: the CPU chooses again (`entity_tick`).
    fn timer(&mut self, hardware: &mut Hardware, number: u32) {
        let cpu = number as usize;
        if let Some(of_groups) = cpu.checked_sub(self.cpus) {
            return self.quota_timer(hardware, of_groups);
        }
        if hardware.current_of(cpu, self.rank).is_some() {
            hardware.reschedule(cpu);
        }
    }

    fn pulls_from(&mut self, hardware: &Hardware, cpu: usize) -> Option<usize> {
        debug_assert_eq!(self.queues.queues[cpu].count, 0, "it looks when it is about to idle");
        let taken = self.find_newly_idle(hardware, cpu);
        self.found = taken.map(|taken| (hardware.now(), cpu, taken));
        self.found.as_ref().map(|(.., taken)| taken.from)
    }

    fn looks(&mut self, hardware: &Hardware, cpu: usize) -> bool {
        self.queues.queues[cpu].count == 0 && self.balance.looks(hardware, cpu)
    }

    fn pull(&mut self, hardware: &mut Hardware, cpu: usize) {
        let Some((at, by, taken)) = self.found.take() else { return };
        debug_assert_eq!((at, by), (hardware.now(), cpu), "it was asked before");
        debug_assert!(
            self.balance.has_levels() || Some(&taken) == self.for_newly_idle(hardware, cpu).as_ref(),
            "nothing has changed"
        );
        if !taken.stops {
            self.balance.took_newly_idle(cpu, taken.level);
        }
        self.take(hardware, taken, cpu);
    }

    fn push_stopped(&mut self, hardware: &mut Hardware, cpu: usize, to: usize) {
        if let Some(thread) = self.balance.stopped(hardware, cpu, to) {
            self.move_to(hardware, thread, to);
            self.balance.took_stopped(cpu, to);
        }
    }

    fn enqueued(&mut self, hardware: &mut Hardware, cpu: usize, of: Rank) {
        if of != self.rank {
            self.balance.comes(hardware, cpu);
        }
    }

    fn watches(&self) -> bool {
        self.cpus > 1
    }

    fn ran(&mut self, hardware: &mut Hardware, cpu: usize, of: Option<Rank>, ran: Nanos) {
        self.balance.ran(cpu, of, ran, hardware.now());
    }

    fn wants_balance(&mut self, hardware: &Hardware, cpu: usize) -> bool {
        self.balance.wants_balance(hardware, cpu)
    }

    fn balance(&mut self, hardware: &mut Hardware, cpu: usize) {
        for (cpu, looks) in self.balance.balancing(hardware, cpu) {
            self.balance_domains(hardware, cpu, looks);
        }
    }
}
