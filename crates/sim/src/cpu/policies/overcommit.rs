//! `overcommit`: reservations that are all admitted, and all miss by the same part when they are too many. A reconstruction of what was
//! asked for in talk; no kernel has it.
//!
//! Each thread asks for `Q` in every `T`. With the requests `U = sum Q/T` of all threads that have begun and not ended, and the
//! *room* of the machine, what its cap leaves beside reservations of `SCHED_DEADLINE` and the fair servers,
//!
//! ```text
//! s = min(1, room / U)        each has s Q in every T
//! ```
//!
//! A thread has a budget of `s Q` and a deadline, by the rules of constant-bandwidth servers: a thread whose budget is used up is
//! throttled until the deadline, which is then `T` later, with a new budget; one that wakes keeps what it has where that fits its deadline.
//! Each CPU runs the earliest deadlines of the machine. On one CPU `sum s Q/T` at most the room has every budget served in time, and each
//! misses the part `1 - s`; on several global EDF promises no such thing, and drawn sets are within a hundredth of it
//! (`crates/sim/tests/overcommit.rs`). Reservations count from the beginning to the end of a run. When `s` changes, what is left of every budget changes by the same factor.
//!
//! The end of a budget is seen as the platform enforces budgets: on the tick, with the overrun taken from the next budget, or by a timer.

use surety_model::platform::Enforcement;
use surety_model::reservation::Reservation;
use surety_units::{Bandwidth, Nanos};

use crate::cpu::hardware::{Hardware, Rank, Scheduling, ThreadId};
use crate::cpu::policy::{Arrival, CpuPolicy, Departure, Pick};
use crate::cpu::sorted::Sorted;
use crate::engine::Slot;

/// Requests, the room and their ratio are in parts of this of a CPU.
const ONE: i128 = 1 << 40;

/// What the scheduler keeps of a thread.
#[derive(Clone, Copy, Debug)]
struct Entity {
    /// What it asked for; `None`: it has another policy.
    asks: Option<Reservation>,
    /// Fires at its next budget.
    timer: Option<Slot>,
    deadline: Nanos,
    /// Below nothing after an overrun.
    budget: Nanos,
    /// Whether its request counts.
    counts: bool,
    throttled: bool,
    /// Its key and its order in its queue, while it stands there.
    place: Option<(i64, u64)>,
}

/// The scheduler.
pub struct Overcommit {
    rank: Rank,
    /// By CPU, in order of deadlines, the running thread included.
    queues: Vec<Sorted<0>>,
    entities: Vec<Entity>,
    /// What is asked for, and what there is; of a CPU, in parts of [`ONE`].
    asked: i128,
    room: i128,
    /// Ends of budgets, per CPU, where a timer ends them.
    ends: Vec<Slot>,
    found: Option<(ThreadId, usize)>,
}

/// `Q/T` in parts of [`ONE`].
fn part(reservation: &Reservation) -> i128 {
    i128::from(reservation.runtime.get()) * ONE / i128::from(reservation.period.get().max(1))
}

impl Overcommit {
    /// For a machine without threads.
    pub fn new(hardware: &mut Hardware, rank: Rank) -> Overcommit {
        let cpus = hardware.cpus.len();
        let platform = &hardware.platform;
        let servers = platform.booked_for_server().map_or(0, Bandwidth::to_kernel);
        let of_cpu = i128::from(platform.deadline_cap.to_kernel().saturating_sub(servers)) * (ONE >> 20);
        let is_exact = platform.enforcement == Enforcement::Exact;
        let number = |cpu: usize| u32::try_from(cpu).expect("fewer than 2^32 CPUs");
        Overcommit {
            rank,
            queues: (0..cpus).map(|_| Sorted::default()).collect(),
            entities: Vec::new(),
            asked: 0,
            room: of_cpu * cpus as i128,
            ends: (0..if is_exact { cpus } else { 0 })
                .map(|cpu| hardware.add_timer(rank, number(cpu)))
                .collect(),
            found: None,
        }
    }

    /// `s` of what a thread asks for.
    fn scaled(&self, time: Nanos) -> Nanos {
        if self.asked <= self.room {
            return time;
        }
        let scaled = i128::from(time.get()) * self.room / self.asked;
        Nanos::new(i64::try_from(scaled).expect("less than what it was"))
    }

    /// The request of a thread counts from now on, or no longer: the budgets of all change with `s`.
    fn count(&mut self, hardware: &mut Hardware, thread: ThreadId, counts: bool) {
        let entity = &mut self.entities[thread.index()];
        let Some(asks) = entity.asks.filter(|_| entity.counts != counts) else { return };
        entity.counts = counts;
        let before = self.asked.max(self.room);
        self.asked += if counts { part(&asks) } else { -part(&asks) };
        let after = self.asked.max(self.room);
        if before == after {
            return;
        }
        for entity in self.entities.iter_mut().filter(|entity| entity.budget.is_positive()) {
            let budget = i128::from(entity.budget.get()) * before / after;
            entity.budget = Nanos::new(i64::try_from(budget).unwrap_or(i64::MAX)).max(Nanos::new(1));
        }
        for cpu in 0..self.queues.len() {
            if hardware.current_of(cpu, self.rank).is_some() {
                hardware.reschedule(cpu);
            }
        }
    }

    /// A budget from now on.
    fn begin(&mut self, thread: ThreadId, now: Nanos) {
        let entity = &self.entities[thread.index()];
        let Some(asks) = entity.asks else { return };
        let budget = self.scaled(asks.runtime).max(Nanos::new(1));
        let entity = &mut self.entities[thread.index()];
        (entity.deadline, entity.budget) = (now + asks.period, budget);
    }

    /// Whether what is left of a budget is more than its part of the time up to the deadline.
    fn overflows(&self, thread: ThreadId, now: Nanos) -> bool {
        let entity = &self.entities[thread.index()];
        let Some(asks) = entity.asks else { return false };
        let wide = |a: Nanos, b: Nanos| i128::from(a.get()) * i128::from(b.get());
        wide(entity.budget, asks.period) > wide(entity.deadline - now, self.scaled(asks.runtime))
    }

    /// The rule of a constant-bandwidth server for one that wakes.
    fn wakes(&mut self, thread: ThreadId, now: Nanos) {
        let Entity { throttled, deadline, budget, .. } = self.entities[thread.index()];
        if !throttled && (deadline <= now || !budget.is_positive() || self.overflows(thread, now)) {
            self.begin(thread, now);
        }
    }

    fn insert(&mut self, cpu: usize, thread: ThreadId) {
        let key = self.entities[thread.index()].deadline.get();
        let order = self.queues[cpu].insert(key, thread.0, []);
        self.entities[thread.index()].place = Some((key, order));
    }

    fn remove(&mut self, cpu: usize, thread: ThreadId) {
        if let Some((key, order)) = self.entities[thread.index()].place.take() {
            self.queues[cpu].remove(key, order);
        }
    }

    /// The budget of a thread is used up.
    fn throttle(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let cpu = hardware.thread(thread).cpu;
        self.remove(cpu, thread);
        hardware.reschedule(cpu);
        let entity = &mut self.entities[thread.index()];
        entity.throttled = true;
        let at = entity.deadline.max(hardware.now());
        if let Some(timer) = entity.timer {
            hardware.arm_timer(timer, cpu, at);
        }
    }

    /// A thread that was throttled has a budget again.
    fn replenish(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let now = hardware.now();
        let Some(asks) = self.entities[thread.index()].asks else { return };
        let budget = self.scaled(asks.runtime).max(Nanos::new(1));
        let entity = &mut self.entities[thread.index()];
        while !entity.budget.is_positive() {
            entity.deadline += asks.period;
            entity.budget += budget;
        }
        entity.throttled = false;
        if entity.deadline <= now {
            self.begin(thread, now);
        }
        let t = hardware.thread(thread);
        if t.rank != self.rank || !t.state.wants_cpu() {
            return;
        }
        // One that its CPU has not left yet stays there.
        let stays = hardware.current(t.cpu) == Some(thread);
        let target = self.target(hardware, thread).filter(|_| !stays).unwrap_or(t.cpu);
        hardware.migrate(thread, target);
        self.insert(target, thread);
        if self.comes_before(hardware, target, thread) {
            hardware.reschedule(target);
        }
    }

    /// Whether a thread comes before what a CPU runs.
    fn comes_before(&self, hardware: &Hardware, cpu: usize, thread: ThreadId) -> bool {
        let Some(current) = hardware.current(cpu) else { return true };
        let rank = hardware.thread(current).rank;
        let [own, other] = [thread, current].map(|thread| &self.entities[thread.index()]);
        rank > self.rank || rank == self.rank && (other.place.is_none() || own.deadline < other.deadline)
    }

    /// The CPU for a thread: its own where that has nothing of the class or more important, else one without, else the one with the latest
    /// deadline, where that is later.
    fn target(&self, hardware: &Hardware, thread: ThreadId) -> Option<usize> {
        let t = hardware.thread(thread);
        let runs = |cpu: usize| hardware.current(cpu).map(|current| hardware.thread(current).rank);
        let is_free =
            |cpu: usize| runs(cpu).is_none_or(|rank| rank > self.rank) && self.queues[cpu].is_empty();
        let cpus = self.queues.len();
        let nearest = (0..cpus).map(|step| (t.cpu + step) % cpus).filter(|cpu| t.may_run_on(*cpu));
        let latest = |cpu: &usize| self.queues[*cpu].first().map_or(i64::MAX, |first| first.key);
        nearest.clone().find(|cpu| is_free(*cpu)).or_else(|| {
            let candidates = nearest.filter(|cpu| runs(*cpu).is_none_or(|rank| rank >= self.rank));
            let found = candidates.max_by_key(latest)?;
            (latest(&found) > self.entities[thread.index()].deadline.get()).then_some(found)
        })
    }

    /// Has a timer end the budget of what a CPU is about to run, where budgets end so.
    fn arm(&self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        if let Some(timer) = self.ends.get(cpu) {
            let left = self.entities[thread.index()].budget.max(Nanos::new(1));
            hardware.arm_timer(*timer, cpu, hardware.free_from(cpu) + left);
        }
    }
}

impl CpuPolicy for Overcommit {
    fn admit(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let (asks, timer) = match hardware.thread(thread).asked {
            Scheduling::Reserved(_, asks) => {
                let number = self.queues.len() + thread.index();
                let number = u32::try_from(number).expect("fewer than 2^28 threads");
                (Some(asks), Some(hardware.add_timer(self.rank, number)))
            }
            Scheduling::Deadline(hard) => {
                self.room = (self.room - part(&hard)).max(0);
                (None, None)
            }
            Scheduling::Policy(_) => (None, None),
        };
        let (deadline, budget) = (Nanos::ZERO, Nanos::ZERO);
        self.entities.push(Entity {
            asks,
            timer,
            deadline,
            budget,
            counts: false,
            throttled: false,
            place: None,
        });
    }

    fn select_cpu(&mut self, hardware: &mut Hardware, thread: ThreadId, _arrival: Arrival) -> usize {
        let now = hardware.now();
        self.count(hardware, thread, true);
        self.wakes(thread, now);
        self.target(hardware, thread).unwrap_or(hardware.thread(thread).cpu)
    }

    fn enqueue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, arrival: Arrival) {
        self.count(hardware, thread, true);
        let now = hardware.now();
        let entity = &self.entities[thread.index()];
        if entity.throttled {
            return;
        }
        match arrival {
            Arrival::Changed if entity.deadline > now && entity.budget.is_positive() => {}
            Arrival::Changed => self.begin(thread, now),
            // Its CPU was not chosen where it had not left it yet.
            Arrival::New | Arrival::Woken => self.wakes(thread, now),
        }
        self.insert(cpu, thread);
    }

    fn dequeue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, departure: Departure) {
        self.remove(cpu, thread);
        if departure == Departure::Exits {
            self.count(hardware, thread, false);
        }
    }

    fn pick(&mut self, hardware: &mut Hardware, cpu: usize) -> Pick {
        let Some(first) = self.queues[cpu].first() else { return Pick::Nothing };
        let thread = ThreadId(first.item);
        self.arm(hardware, cpu, thread);
        Pick::Thread(thread)
    }

    fn switch(
        &mut self,
        hardware: &mut Hardware,
        cpu: usize,
        prev: Option<ThreadId>,
        next: Option<ThreadId>,
    ) {
        if let (None, Some(timer)) = (next, self.ends.get(cpu)) {
            hardware.engine.cancel(*timer);
        }
        // Who was preempted may run where a later deadline does.
        if let Some(prev) = prev.filter(|prev| self.is_queued(*prev))
            && let Some(target) = self.target(hardware, prev).filter(|target| *target != cpu)
        {
            hardware.reschedule(target);
        }
    }

    fn account(&mut self, hardware: &mut Hardware, _cpu: usize, thread: ThreadId, ran: Nanos) {
        let entity = &mut self.entities[thread.index()];
        entity.budget -= ran;
        if !entity.budget.is_positive() && !entity.throttled {
            self.throttle(hardware, thread);
        }
    }

    fn wakeup_preempt(&mut self, hardware: &mut Hardware, cpu: usize, _current: ThreadId, woken: ThreadId) {
        if self.comes_before(hardware, cpu, woken) {
            hardware.reschedule(cpu);
        }
    }

    fn is_queued(&self, thread: ThreadId) -> bool {
        self.entities[thread.index()].place.is_some()
    }

    /// What is left of the budget is given up.
    fn yield_now(&mut self, hardware: &mut Hardware, _cpu: usize, thread: ThreadId) {
        let entity = &mut self.entities[thread.index()];
        entity.budget = entity.budget.min(Nanos::ZERO);
        if !entity.throttled {
            self.throttle(hardware, thread);
        }
    }

    fn timer_cpu(&self, number: u32) -> Option<usize> {
        Some(number as usize).filter(|cpu| *cpu < self.queues.len())
    }

    fn accounts_for_timer(&self, number: u32) -> bool {
        (number as usize) < self.queues.len()
    }

    fn timer(&mut self, hardware: &mut Hardware, number: u32) {
        let cpus = self.queues.len();
        match (number as usize).checked_sub(cpus) {
            Some(thread) => {
                let thread = ThreadId(u32::try_from(thread).expect("it was one"));
                self.replenish(hardware, thread);
            }
            // Time is booked; what is left has its timer again when the CPU has chosen.
            None => hardware.reschedule(number as usize),
        }
    }

    fn pulls_from(&mut self, hardware: &Hardware, cpu: usize) -> Option<usize> {
        let mut best = self.queues[cpu].first().map_or(i64::MAX, |first| first.key);
        self.found = None;
        for (other, queue) in self.queues.iter().enumerate().filter(|(other, _)| *other != cpu) {
            let current = hardware.current(other).map(|thread| thread.0);
            let fits = |item: u32| Some(item) != current && hardware.thread(ThreadId(item)).may_run_on(cpu);
            if let Some(member) = queue.iter().find(|member| fits(member.item))
                && member.key < best
            {
                (best, self.found) = (member.key, Some((ThreadId(member.item), other)));
            }
        }
        self.found.map(|(_, from)| from)
    }

    fn pull(&mut self, hardware: &mut Hardware, cpu: usize) {
        if let Some((thread, from)) = self.found.take() {
            self.remove(from, thread);
            hardware.move_waiting(thread, cpu);
            self.insert(cpu, thread);
        }
    }
}
