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
use surety_units::Nanos;

use crate::cpu::earliest::{Due, Earliest};
use crate::cpu::hardware::{Hardware, Rank, Scheduling, ThreadId};
use crate::cpu::policy::{Arrival, CpuPolicy, Departure, Pick};
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
    /// Below nothing after an overrun.
    budget: Nanos,
    /// Whether its request counts.
    counts: bool,
    throttled: bool,
}

/// The scheduler.
pub struct Overcommit {
    rank: Rank,
    order: Earliest,
    entities: Vec<Entity>,
    /// What is asked for, and what there is; of a CPU, in parts of [`ONE`].
    asked: i128,
    room: i128,
    /// Ends of budgets, per CPU, where a timer ends them.
    ends: Vec<Slot>,
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
        let cap = platform.deadline_cap.to_kernel() * cpus as u64;
        let room = i128::from(cap.saturating_sub(platform.booked_for_servers())) * (ONE >> 20);
        let is_exact = platform.enforcement == Enforcement::Exact;
        Overcommit {
            rank,
            order: Earliest::new(cpus, rank),
            entities: Vec::new(),
            asked: 0,
            room,
            ends: (0..if is_exact { cpus } else { 0 })
                .map(|cpu| hardware.add_timer(rank, Due::End(cpu).number(cpus)))
                .collect(),
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
        for cpu in 0..self.order.cpus() {
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
        entity.budget = budget;
        self.order.set_deadline(thread, now + asks.period);
    }

    /// Whether what is left of a budget is more than its part of the time up to the deadline.
    fn overflows(&self, thread: ThreadId, now: Nanos) -> bool {
        let entity = &self.entities[thread.index()];
        let Some(asks) = entity.asks else { return false };
        let wide = |a: Nanos, b: Nanos| i128::from(a.get()) * i128::from(b.get());
        wide(entity.budget, asks.period) > wide(self.order.deadline(thread) - now, self.scaled(asks.runtime))
    }

    /// The rule of a constant-bandwidth server for one that wakes.
    fn wakes(&mut self, thread: ThreadId, now: Nanos) {
        let Entity { throttled, budget, .. } = self.entities[thread.index()];
        let deadline = self.order.deadline(thread);
        if !throttled && (deadline <= now || !budget.is_positive() || self.overflows(thread, now)) {
            self.begin(thread, now);
        }
    }

    /// The budget of a thread is used up.
    fn throttle(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let cpu = hardware.thread(thread).cpu;
        self.order.remove(cpu, thread);
        hardware.reschedule(cpu);
        let entity = &mut self.entities[thread.index()];
        entity.throttled = true;
        let at = self.order.deadline(thread).max(hardware.now());
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
        let mut deadline = self.order.deadline(thread);
        while !entity.budget.is_positive() {
            deadline += asks.period;
            entity.budget += budget;
        }
        entity.throttled = false;
        self.order.set_deadline(thread, deadline);
        if deadline <= now {
            self.begin(thread, now);
        }
        let t = hardware.thread(thread);
        if t.rank != self.rank || !t.state.wants_cpu() {
            return;
        }
        // One that its CPU has not left yet stays there.
        let stays = hardware.current(t.cpu) == Some(thread);
        let target = self.order.target(hardware, thread).filter(|_| !stays).unwrap_or(t.cpu);
        hardware.migrate(thread, target);
        self.order.insert(target, thread);
        if self.order.comes_before(hardware, target, thread) {
            hardware.reschedule(target);
        }
    }

    /// Has a timer end the budget of what a CPU is about to run, where budgets end so.
    fn arm(&self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        if let Some(timer) = self.ends.get(cpu) {
            let left = self.entities[thread.index()].budget.max(Nanos::new(1));
            hardware.arm_timer(*timer, cpu, hardware.free_from(cpu) + left);
        }
    }
}

/// Makes the scheduler, for a machine without threads.
pub(super) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    Box::new(Overcommit::new(hardware, rank))
}

impl CpuPolicy for Overcommit {
    fn admit(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let is_own = hardware.thread(thread).rank == self.rank;
        let (asks, timer) = match hardware.thread(thread).asked {
            Scheduling::Reserved(_, asks) if is_own => {
                let number = Due::Replenishment(thread).number(self.order.cpus());
                (Some(asks), Some(hardware.add_timer(self.rank, number)))
            }
            Scheduling::Deadline(hard) => {
                self.room = (self.room - part(&hard)).max(0);
                (None, None)
            }
            Scheduling::Reserved(..) | Scheduling::Within(..) | Scheduling::Policy(_) => (None, None),
        };
        self.order.admit();
        self.entities.push(Entity { asks, timer, budget: Nanos::ZERO, counts: false, throttled: false });
    }

    fn select_cpu(&mut self, hardware: &mut Hardware, thread: ThreadId, _arrival: Arrival) -> usize {
        let now = hardware.now();
        self.count(hardware, thread, true);
        self.wakes(thread, now);
        self.order.target(hardware, thread).unwrap_or(hardware.thread(thread).cpu)
    }

    fn enqueue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, arrival: Arrival) {
        self.count(hardware, thread, true);
        let now = hardware.now();
        let entity = &self.entities[thread.index()];
        if entity.throttled {
            return;
        }
        match arrival {
            Arrival::Changed if self.order.deadline(thread) > now && entity.budget.is_positive() => {}
            Arrival::Changed => self.begin(thread, now),
            // Its CPU was not chosen where it had not left it yet.
            Arrival::New | Arrival::Woken => self.wakes(thread, now),
        }
        self.order.insert(cpu, thread);
    }

    fn dequeue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, departure: Departure) {
        self.order.remove(cpu, thread);
        if departure == Departure::Exits {
            self.count(hardware, thread, false);
        }
    }

    fn pick(&mut self, hardware: &mut Hardware, cpu: usize) -> Pick {
        let Some(thread) = self.order.first(cpu) else { return Pick::Nothing };
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
        if let Some(prev) = prev {
            self.order.preempted(hardware, cpu, prev);
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
        if self.order.comes_before(hardware, cpu, woken) {
            hardware.reschedule(cpu);
        }
    }

    fn is_queued(&self, thread: ThreadId) -> bool {
        self.order.is_queued(thread)
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
        self.order.interrupts(number)
    }

    fn accounts_for_timer(&self, number: u32) -> bool {
        self.order.interrupts(number).is_some()
    }

    fn timer(&mut self, hardware: &mut Hardware, number: u32) {
        match self.order.due(number) {
            Due::Replenishment(thread) => self.replenish(hardware, thread),
            // Time is booked; what is left has its timer again when the CPU has chosen.
            Due::End(cpu) => hardware.reschedule(cpu),
        }
    }

    fn pulls_from(&mut self, hardware: &Hardware, cpu: usize) -> Option<usize> {
        self.order.pulls_from(hardware, cpu)
    }

    fn pull(&mut self, hardware: &mut Hardware, cpu: usize) {
        self.order.pull(hardware, cpu);
    }
}
