//! `SCHED_FIFO` and `SCHED_RR`, after `kernel/sched/rt.c`.
//!
//! The threads of a CPU stand in the order of their priorities and then of their coming. The first one runs; a thread that is
//! preempted keeps its place, one that wakes joins behind all of its priority. A round-robin thread whose slice is used up, which only
//! the tick sees, goes behind them as well and gets a new slice.
//!
//! *Throttling*, only where the platform has a limit: realtime threads of a CPU that have run longer than the
//! limit's runtime stop until the period's timer, one for all CPUs, takes a runtime off their account. Time of more important
//! threads is on that account, too (`update_curr_dl`). A period begins when a realtime thread is made or joins and none lasts:
//! threads are made some time before the run begins, as on a running kernel. One that lasts already ends when the platform says
//! ([`Platform::realtime_period_left`](surety_model::platform::Platform::realtime_period_left)): the timer goes on while realtime threads run.
//!
//! *Demotion*, only where the platform asks for it and no kernel's (J. Fernandes, "Rewriting RT throttling", OSPM 2023): threads in the queue of a
//! throttled CPU, and those that join it, go to the fair class with nice 0, where they may move to other CPUs, and come back when the CPU
//! they are on is not throttled at the end of a period.
//!
//! *Placement*: a woken thread stays on its CPU unless a thread of the class that is at least as important runs there and another CPU has only less important
//! ones; then it goes to one of those with the least important (`find_lowest_rq`). CPUs that are idle and those that run fair threads are alike there, and
//! each CPU chooses among alike ones in turn, those of the lowest domain of the thread's CPU first. A CPU that picks a thread of the class pushes those that wait on in the same way, and
//! so does one on which a thread joins behind a reservation; one that picks a reservation leaves them waiting. A CPU pulls
//! the most important waiting one only when a more important one has left it, and none that is about to take the CPU where it is (`need_pull_rt_task`,
//! `pull_rt_task`).

use surety_model::platform::RealtimeLimit;
use surety_model::workload::PolicySpec;
use surety_units::Nanos;

use crate::cpu::hardware::{Hardware, Rank, Scheduling, Thread, ThreadId};
use crate::cpu::places::{Places, Ranking};
use crate::cpu::policy::{Arrival, CpuPolicy, Departure, Pick};
use crate::cpu::sorted::Sorted;
use crate::engine::Slot;

/// Priorities are 1..=99.
const PRIORITIES: usize = 100;

/// The queue of one CPU.
#[derive(Default)]
struct Queue {
    /// Its threads by their priorities, negated.
    threads: Sorted<0>,
    /// CPU time on the account of throttling.
    time: Nanos,
    throttled: bool,
    /// The CPU's running thread has left the class, or another priority, since it last chose.
    lowered: bool,
}

impl Queue {
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
        let all = self.threads.iter().map(|member| (priority_at(member.key), ThreadId(member.item)));
        all.into_iter().find(|(_, thread)| Some(*thread) != current && fits(*thread))
    }

    /// Whether another thread has the priority of one.
    fn has_peers(&self, priority: usize) -> bool {
        let (key, threads) = (key_of(priority), self.threads.iter());
        threads.skip_while(|member| member.key < key).take_while(|member| member.key == key).nth(1).is_some()
    }
}

/// What queues are ordered by.
fn key_of(priority: usize) -> i64 {
    -i64::try_from(priority).expect("priorities end at 99")
}

fn priority_at(key: i64) -> usize {
    usize::try_from(-key).expect("a priority, negated")
}

/// What the class keeps of a thread.
#[derive(Clone, Copy, Default)]
struct Entity {
    /// Its priority and its order in its queue, while it stands there.
    place: Option<(u8, u64)>,
    slice: Nanos,
}

/// The realtime class.
pub struct Realtime {
    rank: Rank,
    queues: Vec<Queue>,
    /// The first of each CPU and its priority: what every choice asks for, side by side.
    firsts: Vec<Option<(u8, ThreadId)>>,
    entities: Vec<Entity>,
    limit: Option<RealtimeLimit>,
    /// Threads that are fair until their CPU is throttled no more.
    demoted: Vec<ThreadId>,
    /// End of the throttling period.
    period_end: Slot,
    slice: Nanos,
    /// CPUs with a thread in their queue that does not run there.
    crowded: Places,
    /// CPUs by their importance, negated.
    ranking: Ranking,
    /// CPUs whose queue has changed since they were ranked.
    changed: Places,
    /// A thread that is alone in its queue goes nowhere, though it waits (`update_rt_migration` up to 6.6).
    lone_ones_stay: bool,
}

impl Realtime {
    /// For a machine without threads.
    pub fn new(hardware: &mut Hardware, rank: Rank) -> Realtime {
        let cpus = hardware.cpus.len();
        Realtime {
            rank,
            queues: (0..cpus).map(|_| Queue::default()).collect(),
            firsts: vec![None; cpus],
            entities: Vec::new(),
            limit: hardware.platform.realtime_limit,
            demoted: Vec::new(),
            period_end: hardware.add_timer(rank, 0),
            slice: hardware.platform.round_robin_slice,
            crowded: Places::none(cpus),
            ranking: Ranking::new(cpus, 0),
            changed: Places::none(cpus),
            // Its fair class tells such a kernel.
            lone_ones_stay: hardware.platform.fair_version().is_some_and(|version| version.is_cfs),
        }
    }

    /// One inside the reservation of a group, which no limit is above.
    pub fn inside(hardware: &mut Hardware, rank: Rank) -> Realtime {
        Realtime { limit: None, ..Realtime::new(hardware, rank) }
    }

    /// A throttling period begins, some time ago, unless one lasts (`start_rt_bandwidth`).
    fn begin_period(&self, hardware: &mut Hardware, ago: Nanos) {
        if let Some(limit) = self.limit.filter(|_| !hardware.engine.is_armed(self.period_end)) {
            let left = (limit.period - ago).max(Nanos::new(1));
            hardware.arm_timer(self.period_end, 0, hardware.now() + left);
        }
    }

    /// A thread of a throttled CPU goes to the fair class, where the platform says so.
    fn demote(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        if hardware.platform.realtime_demoted {
            self.demoted.push(thread);
            hardware.changes.push((thread, Scheduling::Policy(PolicySpec::default())));
        }
    }

    /// Those on CPUs that are throttled no more come back, as they were.
    fn promote(&mut self, hardware: &mut Hardware) {
        let queues = &self.queues;
        self.demoted.retain(|thread| {
            let t = &hardware.threads[thread.index()];
            let stays = queues[t.cpu].throttled;
            if !stays {
                hardware.changes.push((*thread, t.asked));
            }
            stays
        });
    }

    /// A thread joins the queue of a CPU, behind all of its priority.
    fn insert(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        let priority = hardware.thread(thread).priority;
        hardware.stirs(cpu, self.rank);
        let order = self.queues[cpu].threads.insert(key_of(priority.into()), thread.0, []);
        self.entities[thread.index()].place = Some((priority, order));
        if self.firsts[cpu].is_none_or(|first| first.0 < priority) {
            self.firsts[cpu] = Some((priority, thread));
            self.changed.set(cpu, true);
        }
    }

    /// A thread leaves the queue of a CPU.
    fn remove(&mut self, cpu: usize, thread: ThreadId) {
        let place = self.entities[thread.index()].place.take();
        let (priority, order) = place.expect("a queued thread is in its queue");
        let threads = &mut self.queues[cpu].threads;
        threads.remove(key_of(priority.into()), order);
        if self.firsts[cpu].is_some_and(|(_, first)| first == thread) {
            let priority = |key| u8::try_from(priority_at(key)).expect("priorities end at 99");
            self.firsts[cpu] = threads.first().map(|first| (priority(first.key), ThreadId(first.item)));
            self.changed.set(cpu, true);
        }
    }

    /// The highest priority of a CPU's threads.
    fn highest(&self, cpu: usize) -> Option<usize> {
        self.firsts[cpu].map(|(priority, _)| usize::from(priority))
    }

    /// The queue of a CPU has changed.
    fn look_at(&mut self, hardware: &Hardware, cpu: usize) {
        if self.queues.len() > 1 {
            let is_queued = |thread: ThreadId| self.entities[thread.index()].place.is_some();
            self.runs(cpu, hardware.current_of(cpu, self.rank).is_some_and(is_queued));
        }
    }

    /// One of the queue of a CPU runs there, or none does: who else is in it waits.
    fn runs(&mut self, cpu: usize, runs: bool) {
        let waits = self.queues[cpu].threads.len() > usize::from(runs || self.lone_ones_stay);
        self.crowded.set(cpu, waits);
    }

    /// One of the least important CPUs that may run `thread` of `priority` and have what is below it, chosen by CPU `from`.
    fn lowest(
        &mut self,
        hardware: &mut Hardware,
        from: usize,
        thread: ThreadId,
        priority: usize,
    ) -> Option<usize> {
        let fits = |cpu: usize| hardware.thread(thread).may_run_on(cpu);
        let is_least = |cpu: usize| self.firsts[cpu].is_none() && !hardware.cpus[cpu].serves && fits(cpu);
        let (below, last) = (hardware.sets.below(self.rank.0), hardware.sets.chosen[from]);
        let chosen = hardware
            .near_to_far(hardware.thread(thread).cpu)
            .find_map(|cpus| Places::next_of(below, last, |cpu| cpus.contains(&cpu) && is_least(cpu)));
        if let Some(chosen) = chosen {
            hardware.sets.chosen[from] = chosen;
            return Some(chosen);
        }
        while let Some(cpu) = self.changed.pop().or_else(|| hardware.sets.changed.pop()) {
            let importance = self.importance(hardware, cpu);
            self.ranking.set(cpu, -i64::try_from(importance).expect("priorities end at 99"));
        }
        let above = -i64::try_from(priority).expect("priorities end at 99");
        let (own, fits) = (hardware.thread(thread).cpu, |cpu: usize| hardware.thread(thread).may_run_on(cpu));
        let least = self.ranking.get(self.ranking.best(above, fits)?);
        if self.ranking.get(own) == least && fits(own) {
            return Some(own);
        }
        let last = hardware.sets.chosen[from];
        let chosen = hardware
            .near_to_far(own)
            .find_map(|cpus| self.ranking.next_behind(last, least, |cpu| cpus.contains(&cpu) && fits(cpu)))?;
        hardware.sets.chosen[from] = chosen;
        Some(chosen)
    }

    /// Whether the thread that a CPU runs leaves it to less important ones.
    fn lowers(&self, hardware: &Hardware, cpu: usize) -> bool {
        let is_lower = |thread: ThreadId| {
            let (t, is_queued) = (hardware.thread(thread), self.entities[thread.index()].place.is_some());
            let above = self.highest(cpu).is_none_or(|highest| priority_of(t) > highest);
            t.rank < self.rank || t.rank == self.rank && !is_queued && above
        };
        self.queues[cpu].lowered || hardware.current(cpu).is_some_and(is_lower)
    }

    /// Whether the thread that a CPU runs comes after one of a priority, which is about to take its place.
    fn is_taken_over(&self, hardware: &Hardware, cpu: usize, priority: usize) -> bool {
        let current = hardware.current(cpu).map(|thread| hardware.thread(thread));
        current.is_none_or(|t| t.rank > self.rank || t.rank == self.rank && priority_of(t) < priority)
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
        if self.crowded.is_empty() || self.queues[cpu].throttled || !self.lowers(hardware, cpu) {
            return None;
        }
        let own = self.highest(cpu).unwrap_or(0);
        let (mut least, mut best) = (own, None);
        for other in self.crowded.iter().filter(|other| *other != cpu) {
            // A CPU whose highest priority is no higher has nothing; among equals the first one stays.
            if self.highest(other).is_some_and(|highest| highest > least)
                && let Some(movable) = self.queues[other].movable(hardware, hardware.current(other), cpu)
                && movable.0 > least
                && !self.is_taken_over(hardware, other, movable.0)
            {
                (least, best) = (movable.0, Some((movable, other)));
            }
        }
        best
    }

    /// How important what a CPU runs or is about to run is (`cpupri`): 0 for idle and less important schedulers' threads, the
    /// priority plus one of a realtime one, above all of them for a more important scheduler's.
    fn importance(&self, hardware: &Hardware, cpu: usize) -> usize {
        let waiting = self.highest(cpu).map_or(0, |p| p + 1);
        let running = match hardware.current(cpu).map(|t| hardware.thread(t)) {
            None => 0,
            // Who is served stays: a thread pushed there would wait, and two such CPUs would push it to each other for ever.
            Some(_) if hardware.cpus[cpu].serves => PRIORITIES + 1,
            Some(t) if t.rank == self.rank => priority_of(t) + 1,
            Some(t) if t.rank < self.rank => PRIORITIES + 1,
            Some(_) => 0,
        };
        waiting.max(running)
    }
}

fn priority_of(thread: &Thread) -> usize {
    usize::from(thread.priority)
}

/// Makes the scheduler, for a machine without threads.
pub(super) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    Box::new(Realtime::new(hardware, rank))
}

impl CpuPolicy for Realtime {
    fn admit(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        self.entities.push(Entity { place: None, slice: self.slice });
        if hardware.thread(thread).rank == self.rank {
            let left = hardware.platform.realtime_period_left.zip(self.limit);
            let ago = left.map_or(hardware.times.made_before, |(left, limit)| limit.period - left);
            self.begin_period(hardware, ago);
        }
    }

    fn select_cpu(&mut self, hardware: &mut Hardware, thread: ThreadId, _arrival: Arrival) -> usize {
        let t = hardware.thread(thread);
        let cpu = t.cpu;
        if self.queues.len() == 1 || t.is_pinned() {
            return cpu;
        }
        let priority = priority_of(t);
        let is_behind = |current: ThreadId| {
            let current = hardware.thread(current);
            match current.rank.cmp(&self.rank) {
                // Up to 6.11 `rt_task` is of reservations, too; these kernels have no fair server.
                std::cmp::Ordering::Less => hardware.platform.fair_server.is_none(),
                std::cmp::Ordering::Equal => current.is_pinned() || priority_of(current) >= priority,
                std::cmp::Ordering::Greater => false,
            }
        };
        if !hardware.current(cpu).is_some_and(is_behind) {
            return cpu;
        }
        self.lowest(hardware, cpu, thread, priority + 1).unwrap_or(cpu)
    }

    fn enqueue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, arrival: Arrival) {
        self.insert(hardware, cpu, thread);
        self.look_at(hardware, cpu);
        self.begin_period(hardware, Nanos::ZERO);
        if self.queues[cpu].throttled {
            self.demote(hardware, thread);
        }
        let runs_more = |current: ThreadId| hardware.thread(current).rank < self.rank;
        let is_behind = hardware.current(cpu).is_some_and(runs_more) && !hardware.cpus[cpu].reschedule;
        if arrival != Arrival::Changed && is_behind && !hardware.thread(thread).is_pinned() {
            self.push(hardware, cpu);
        }
    }

    fn dequeue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, departure: Departure) {
        self.remove(cpu, thread);
        self.look_at(hardware, cpu);
        if departure == Departure::Changes && self.queues.len() > 1 && hardware.current(cpu) == Some(thread) {
            self.queues[cpu].lowered = true;
            hardware.stirs(cpu, self.rank);
        }
    }

    fn switch(
        &mut self,
        _hardware: &mut Hardware,
        cpu: usize,
        _prev: Option<ThreadId>,
        next: Option<ThreadId>,
    ) {
        self.runs(cpu, next.is_some());
    }

    fn pick(&mut self, hardware: &mut Hardware, cpu: usize) -> Pick {
        let queue = &mut self.queues[cpu];
        queue.lowered = false;
        match self.firsts[cpu] {
            Some((_, thread)) if !queue.throttled => Pick::Thread(thread),
            _ => {
                hardware.rests(cpu, self.rank);
                Pick::Nothing
            }
        }
    }

    fn account(&mut self, hardware: &mut Hardware, cpu: usize, _thread: ThreadId, ran: Nanos) {
        if let Some(limit) = self.limit {
            let queue = &mut self.queues[cpu];
            queue.time += ran;
            if queue.time > limit.runtime && limit.runtime < limit.period && !queue.throttled {
                queue.throttled = true;
                hardware.reschedule(cpu);
                let threads: Vec<ThreadId> =
                    queue.threads.iter().map(|member| ThreadId(member.item)).collect();
                threads.into_iter().for_each(|thread| self.demote(hardware, thread));
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
        if entity.place.is_some() && self.queues[cpu].has_peers(priority as usize) {
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
        self.entities[thread.index()].place.is_some()
    }

    fn yield_now(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        self.remove(cpu, thread);
        self.insert(hardware, cpu, thread);
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
                hardware.stirs(cpu, self.rank);
                hardware.reschedule(cpu);
            }
            is_idle &= queue.threads.is_empty() && !queue.time.is_positive();
        }
        self.promote(hardware);
        if !is_idle {
            hardware.arm_timer(self.period_end, 0, hardware.now() + limit.period);
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

    fn looks(&mut self, hardware: &Hardware, cpu: usize) -> bool {
        !self.crowded.is_empty() && self.lowers(hardware, cpu)
    }

    fn pulls_from(&mut self, hardware: &Hardware, cpu: usize) -> Option<usize> {
        self.pullable(hardware, cpu).map(|(_, from)| from)
    }

    fn pull(&mut self, hardware: &mut Hardware, cpu: usize) {
        let best = self.pullable(hardware, cpu);
        if let Some(((_, thread), from)) = best {
            self.remove(from, thread);
            hardware.move_waiting(thread, cpu);
            self.insert(hardware, cpu, thread);
            self.look_at(hardware, from);
            self.look_at(hardware, cpu);
        }
    }

    fn push_stopped(&mut self, hardware: &mut Hardware, cpu: usize, _to: usize) {
        // Who stopped the CPU leaves it, and comes before all of the class.
        self.queues[cpu].lowered = true;
        hardware.stirs(cpu, self.rank);
    }

    fn push(&mut self, hardware: &mut Hardware, cpu: usize) {
        for _ in 0..self.queues.len() {
            // The kernel pushes where it has picked a realtime thread (`set_next_task_rt`), which a throttled CPU does not: two of
            // them would push a thread to each other for ever.
            if !self.crowded.contains(cpu) || self.queues[cpu].throttled {
                return;
            }
            let Some((priority, thread)) = self.pushable(hardware, cpu) else { return };
            let Some(target) = self.lowest(hardware, cpu, thread, priority + 1).filter(|t| *t != cpu) else {
                return;
            };
            self.remove(cpu, thread);
            hardware.move_waiting(thread, target);
            self.insert(hardware, target, thread);
            self.look_at(hardware, cpu);
            self.look_at(hardware, target);
            if self.queues[target].throttled {
                self.demote(hardware, thread);
            }
            hardware.reschedule(target);
        }
    }
}
