//! `SCHED_FIFO` and `SCHED_RR`, after `kernel/sched/rt.c`.
//!
//! Each CPU has a list for each priority. The first thread of the most important list that is not empty runs; a
//! thread that is preempted stays first, one that wakes joins at the end. A round-robin thread whose slice is used
//! up, which only the tick sees, goes to the end of its list and gets a new slice.
//!
//! *Throttling*, only where the platform has a limit: realtime threads of a CPU that have run longer than the
//! limit's runtime stop until the period's timer, one for all CPUs, takes a runtime off their account. Time of more important
//! threads is on that account, too (`update_curr_dl`). A period begins when a realtime thread is made or joins and none lasts:
//! threads are made some time before the run begins, as on a running kernel.
//!
//! *Placement, a model*: a woken thread stays on its CPU unless a thread at least as important runs there and
//! another CPU runs something less important; it then goes to the one with the least important thread, the lowest
//! number among equals. A CPU that has chosen pushes a waiting unpinned thread on in the same way, and one that is
//! about to choose takes the most important waiting thread that beats its own.

use std::collections::VecDeque;

use surety_model::platform::RealtimeLimit;
use surety_model::workload::PolicySpec;
use surety_units::Nanos;

use crate::cpu::hardware::{Hardware, Rank, Scheduling, Thread, ThreadId};
use crate::cpu::places::{Places, Ranking};
use crate::cpu::policy::{Arrival, CpuPolicy, Departure, Pick};
use crate::engine::Slot;

/// Priorities are 1..=99.
const PRIORITIES: usize = 100;

/// The queue of one CPU.
struct Queue {
    lists: Vec<VecDeque<ThreadId>>,
    /// Bit `p` is set when list `p` holds a thread.
    occupied: u128,
    /// CPU time on the account of throttling.
    time: Nanos,
    throttled: bool,
    /// Threads in its lists.
    count: usize,
}

impl Queue {
    fn highest(&self) -> Option<usize> {
        (self.occupied != 0).then(|| 127 - self.occupied.leading_zeros() as usize)
    }

    fn first(&self) -> Option<(usize, ThreadId)> {
        let priority = self.highest()?;
        let thread = *self.lists[priority].front().expect("an occupied list is not empty");
        Some((priority, thread))
    }

    fn push_back(&mut self, priority: usize, thread: ThreadId) {
        self.lists[priority].push_back(thread);
        self.occupied |= 1 << priority;
        self.count += 1;
    }

    fn remove(&mut self, priority: usize, thread: ThreadId) {
        let list = &mut self.lists[priority];
        let place = list.iter().position(|t| *t == thread).expect("a queued thread is in its list");
        list.remove(place);
        self.count -= 1;
        if list.is_empty() {
            self.occupied &= !(1 << priority);
        }
    }

    /// The most important thread that is not `current` and may go to `target`.
    fn movable(
        &self,
        hardware: &Hardware,
        current: Option<ThreadId>,
        target: usize,
    ) -> Option<(usize, ThreadId)> {
        self.first_but(current, |thread| hardware.thread(thread).may_run_on(target))
    }

    /// The most important thread that is not `current` and fits.
    fn first_but(
        &self,
        current: Option<ThreadId>,
        fits: impl Fn(ThreadId) -> bool,
    ) -> Option<(usize, ThreadId)> {
        let mut left = self.occupied;
        while left != 0 {
            let priority = 127 - left.leading_zeros() as usize;
            let mut list = self.lists[priority].iter();
            let found = list.find(|t| Some(**t) != current && fits(**t));
            if let Some(thread) = found {
                return Some((priority, *thread));
            }
            left &= !(1 << priority);
        }
        None
    }
}

/// What the class keeps of a thread.
#[derive(Clone, Copy, Default)]
struct Entity {
    queued: bool,
    slice: Nanos,
}

/// The realtime class.
pub struct Realtime {
    rank: Rank,
    queues: Vec<Queue>,
    entities: Vec<Entity>,
    limit: Option<RealtimeLimit>,
    /// End of the throttling period.
    period_end: Slot,
    slice: Nanos,
    /// Threads in queues, running or not.
    queued: usize,
    /// CPUs with a thread in their queue that does not run there.
    crowded: Places,
    /// CPUs by their importance, negated.
    ranking: Ranking,
    /// CPUs whose queue has changed since they were ranked.
    changed: Places,
}

impl Realtime {
    /// For a machine without threads.
    pub fn new(hardware: &mut Hardware, rank: Rank) -> Realtime {
        let cpus = hardware.cpus.len();
        let queues = (0..cpus)
            .map(|_| Queue {
                lists: vec![VecDeque::new(); PRIORITIES],
                occupied: 0,
                time: Nanos::ZERO,
                throttled: false,
                count: 0,
            })
            .collect();
        Realtime {
            rank,
            queues,
            entities: Vec::new(),
            limit: hardware.platform.realtime_limit,
            period_end: hardware.add_timer(rank, 0),
            slice: hardware.platform.round_robin_slice,
            queued: 0,
            crowded: Places::none(cpus),
            ranking: Ranking::new(cpus, 0),
            changed: Places::none(cpus),
        }
    }

    /// A throttling period begins, some time ago, unless one lasts (`start_rt_bandwidth`).
    fn begin_period(&self, hardware: &mut Hardware, ago: Nanos) {
        if let Some(limit) = self.limit.filter(|_| !hardware.engine.is_armed(self.period_end)) {
            let left = (limit.period - ago).max(Nanos::new(1));
            hardware.engine.arm(self.period_end, hardware.now() + left);
        }
    }

    /// The queue of a CPU, or what of it runs, has changed.
    fn look_at(&mut self, hardware: &Hardware, cpu: usize) {
        if self.queues.len() > 1 {
            let running = hardware.current_of(cpu, self.rank).filter(|t| self.entities[t.index()].queued);
            self.crowded.set(cpu, self.queues[cpu].count > usize::from(running.is_some()));
            self.changed.set(cpu, true);
        }
    }

    /// The least important CPU that may run `thread` of `priority`, with what it runs below it.
    fn less_important(
        &mut self,
        hardware: &mut Hardware,
        thread: ThreadId,
        priority: usize,
    ) -> Option<usize> {
        let is_free = |cpu: &usize| self.queues[*cpu].count == 0 && hardware.thread(thread).may_run_on(*cpu);
        if let Some(idle) = hardware.sets.idle.iter().find(is_free) {
            return Some(idle);
        }
        while let Some(cpu) = self.changed.pop().or_else(|| hardware.sets.changed.pop()) {
            let importance = self.importance(hardware, cpu);
            self.ranking.set(cpu, -i64::try_from(importance).expect("priorities end at 99"));
        }
        let above = -i64::try_from(priority).expect("priorities end at 99");
        self.ranking.best(above, |cpu| hardware.thread(thread).may_run_on(cpu))
    }

    /// The most important thread of a CPU that waits and may go to another one.
    fn pushable(&self, hardware: &Hardware, cpu: usize) -> Option<(usize, ThreadId)> {
        let (queue, current) = (&self.queues[cpu], hardware.current(cpu));
        let first = queue.first_but(current, |_| true)?;
        if hardware.thread(first.1).allowed.is_none() {
            return Some(first);
        }
        let others = (0..self.queues.len()).filter(|other| *other != cpu);
        others
            .filter_map(|other| queue.movable(hardware, current, other))
            .max_by_key(|(priority, _)| *priority)
    }

    /// The most important thread that waits elsewhere, may run on a CPU and comes before its own there, and where it waits.
    fn pullable(&self, hardware: &Hardware, cpu: usize) -> Option<((usize, ThreadId), usize)> {
        if self.queues[cpu].throttled {
            return None;
        }
        let own = self.queues[cpu].highest().unwrap_or(0);
        let (mut least, mut best) = (own, None);
        for other in self.crowded.iter().filter(|other| *other != cpu) {
            let queue = &self.queues[other];
            // A CPU whose highest priority is no higher has nothing; among equals the first one stays.
            if queue.highest().is_some_and(|highest| highest > least)
                && let Some(movable) = queue.movable(hardware, hardware.current(other), cpu)
                && movable.0 > least
            {
                (least, best) = (movable.0, Some((movable, other)));
            }
        }
        best
    }

    /// How important what a CPU runs or is about to run is: 0 for idle, 1 for a less important scheduler's thread, the
    /// priority plus one of a realtime one, above all of them for a more important scheduler's.
    fn importance(&self, hardware: &Hardware, cpu: usize) -> usize {
        let waiting = self.queues[cpu].highest().map_or(0, |p| p + 1);
        let running = match hardware.current(cpu).map(|t| hardware.thread(t)) {
            None => 0,
            // Who is served stays: a thread pushed there would wait, and two such CPUs would push it to each other for ever.
            Some(_) if hardware.cpus[cpu].serves => PRIORITIES + 1,
            Some(t) if t.rank == self.rank => priority_of(t) + 1,
            Some(t) if t.rank < self.rank => PRIORITIES + 1,
            Some(_) => 1,
        };
        waiting.max(running)
    }
}

fn priority_of(thread: &Thread) -> usize {
    usize::from(thread.priority)
}

impl CpuPolicy for Realtime {
    fn admit(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        self.entities.push(Entity { queued: false, slice: self.slice });
        if hardware.thread(thread).rank == self.rank {
            self.begin_period(hardware, hardware.times.made_before);
        }
    }

    fn select_cpu(&mut self, hardware: &mut Hardware, thread: ThreadId, _arrival: Arrival) -> usize {
        let t = hardware.thread(thread);
        let cpu = t.cpu;
        if self.queues.len() == 1 || t.is_pinned() {
            return cpu;
        }
        let priority = priority_of(t) + 1;
        if self.importance(hardware, cpu) < priority {
            return cpu;
        }
        self.less_important(hardware, thread, priority).unwrap_or(cpu)
    }

    fn enqueue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, _arrival: Arrival) {
        let priority = priority_of(hardware.thread(thread));
        self.queues[cpu].push_back(priority, thread);
        self.entities[thread.index()].queued = true;
        self.queued += 1;
        self.look_at(hardware, cpu);
        self.begin_period(hardware, Nanos::ZERO);
    }

    fn dequeue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, _departure: Departure) {
        self.queues[cpu].remove(priority_of(hardware.thread(thread)), thread);
        self.entities[thread.index()].queued = false;
        self.queued -= 1;
        self.look_at(hardware, cpu);
    }

    fn switch(
        &mut self,
        hardware: &mut Hardware,
        cpu: usize,
        _prev: Option<ThreadId>,
        _next: Option<ThreadId>,
    ) {
        self.look_at(hardware, cpu);
    }

    fn pick(&mut self, _hardware: &mut Hardware, cpu: usize) -> Pick {
        let queue = &self.queues[cpu];
        match queue.first() {
            Some((_, thread)) if !queue.throttled => Pick::Thread(thread),
            _ => Pick::Nothing,
        }
    }

    fn account(&mut self, hardware: &mut Hardware, cpu: usize, _thread: ThreadId, ran: Nanos) {
        if let Some(limit) = self.limit {
            let queue = &mut self.queues[cpu];
            queue.time += ran;
            if queue.time > limit.runtime && limit.runtime < limit.period && !queue.throttled {
                queue.throttled = true;
                hardware.reschedule(cpu);
            }
        }
    }

    fn tick(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        let Scheduling::Policy(PolicySpec::RoundRobin { priority }) = hardware.thread(thread).scheduling
        else {
            return;
        };
        let entity = &mut self.entities[thread.index()];
        entity.slice -= hardware.platform.tick;
        if entity.slice.is_positive() {
            return;
        }
        entity.slice = self.slice;
        if entity.queued && self.queues[cpu].lists[priority as usize].len() > 1 {
            self.yield_now(hardware, cpu, thread);
            hardware.reschedule(cpu);
        }
    }

    fn wakeup_preempt(&mut self, hardware: &mut Hardware, cpu: usize, current: ThreadId, woken: ThreadId) {
        if priority_of(hardware.thread(woken)) > priority_of(hardware.thread(current)) {
            hardware.reschedule(cpu);
        }
    }

    fn is_queued(&self, thread: ThreadId) -> bool {
        self.entities[thread.index()].queued
    }

    fn yield_now(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        let priority = priority_of(hardware.thread(thread));
        self.queues[cpu].remove(priority, thread);
        self.queues[cpu].push_back(priority, thread);
    }

    fn timer_cpu(&self, _number: u32) -> Option<usize> {
        // One timer for all, on the first of them.
        Some(0)
    }

    fn timer(&mut self, hardware: &mut Hardware, _number: u32) {
        let Some(limit) = self.limit else { return };
        let mut is_idle = true;
        for (cpu, queue) in self.queues.iter_mut().enumerate() {
            queue.time = (queue.time - limit.runtime).max(Nanos::ZERO);
            if queue.throttled && queue.time < limit.runtime {
                queue.throttled = false;
                hardware.reschedule(cpu);
            }
            is_idle &= queue.occupied == 0 && !queue.time.is_positive();
        }
        if !is_idle {
            hardware.engine.arm(self.period_end, hardware.now() + limit.period);
        }
    }

    fn watches(&self) -> bool {
        self.limit.is_some()
    }

    fn ran(&mut self, hardware: &mut Hardware, cpu: usize, of: Option<Rank>, ran: Nanos) {
        let Some(limit) = self.limit.filter(|_| of.is_some_and(|of| of < self.rank)) else { return };
        let queue = &mut self.queues[cpu];
        if queue.time < limit.runtime || hardware.engine.is_armed(self.period_end) {
            queue.time += ran;
        }
    }

    fn may_be_pulled(&self, _hardware: &Hardware) -> bool {
        !self.crowded.is_empty()
    }

    fn pulls_from(&self, hardware: &Hardware, cpu: usize) -> Option<usize> {
        self.pullable(hardware, cpu).map(|(_, from)| from)
    }

    fn pull(&mut self, hardware: &mut Hardware, cpu: usize) {
        let best = self.pullable(hardware, cpu);
        if let Some(((priority, thread), from)) = best {
            self.queues[from].remove(priority, thread);
            hardware.move_waiting(thread, cpu);
            self.queues[cpu].push_back(priority, thread);
            self.look_at(hardware, from);
            self.look_at(hardware, cpu);
        }
    }

    fn push(&mut self, hardware: &mut Hardware, cpu: usize) {
        for _ in 0..self.queues.len() {
            // The kernel pushes where it has picked a realtime thread (`set_next_task_rt`), which a throttled CPU does not: two of
            // them would push a thread to each other for ever.
            if !self.crowded.contains(cpu) || self.queues[cpu].throttled {
                return;
            }
            let Some((priority, thread)) = self.pushable(hardware, cpu) else { return };
            let Some(target) = self.less_important(hardware, thread, priority + 1).filter(|t| *t != cpu)
            else {
                return;
            };
            self.queues[cpu].remove(priority, thread);
            hardware.move_waiting(thread, target);
            self.queues[target].push_back(priority, thread);
            self.look_at(hardware, cpu);
            self.look_at(hardware, target);
            hardware.reschedule(target);
        }
    }
}
