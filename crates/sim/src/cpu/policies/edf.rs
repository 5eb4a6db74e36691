//! `edf`: earliest deadline first as textbooks and real-time simulators have it, on one CPU, on some, or on all of a machine. No kernel has it: a
//! thread may have CPUs of its own under a reservation, and a budget ends when it is used up, not on a tick.
//!
//! A thread without a reservation has the deadline of its job: the release and the relative deadline, however late the job begins; while it
//! waits inside the job it keeps it. A thread with one runs in a hard constant-bandwidth server (Abeni, Buttazzo, Integrating Multimedia
//! Applications in Hard Real-Time Systems, RTSS 1998; hard as in PARTSim's `CBServer`): with a budget `q` of `Q` and a deadline `d`,
//!
//! ```text
//! it wakes at t     q = Q, d = t + T where q T >= (d - t) Q; else both stay
//! q is used up      it waits until d; then q = Q and d is T later
//! ```
//!
//! A job that was released before the one ahead of it was done goes on with what is left: the server was never idle.
//!
//! Of equal deadlines who joined first is first, and at one instant who was made first. Nothing but work takes time: a thread that wakes another ends
//! its job first where no work is left. `earliest` is on which CPU a thread runs.

use surety_model::event::JobMarker;
use surety_model::reservation::Reservation;
use surety_units::Nanos;

use crate::cpu::earliest::{Due, Earliest};
use crate::cpu::hardware::{Hardware, Rank, Scheduling, ThreadId};
use crate::cpu::policy::{Arrival, CpuPolicy, Departure, Pick};
use crate::engine::Slot;

/// What the scheduler keeps of a thread.
#[derive(Clone, Copy, Debug)]
struct Entity {
    has: Option<Has>,
    /// Its job is done.
    is_done: bool,
}

/// What a thread's deadlines are from.
#[derive(Clone, Copy, Debug)]
enum Has {
    /// Each job's release, and this.
    Within(Nanos),
    Server {
        reservation: Reservation,
        budget: Nanos,
        throttled: bool,
        /// Fires at its next budget.
        timer: Slot,
    },
}

/// The scheduler.
pub struct Edf {
    rank: Rank,
    order: Earliest,
    entities: Vec<Entity>,
    /// Ends of budgets, per CPU.
    ends: Vec<Slot>,
}

impl Edf {
    /// For a machine without threads.
    pub fn new(hardware: &mut Hardware, rank: Rank) -> Edf {
        let cpus = hardware.cpus.len();
        let ends = (0..cpus).map(|cpu| hardware.add_timer(rank, Due::End(cpu).number(cpus))).collect();
        Edf { rank, order: Earliest::new(cpus, rank), entities: Vec::new(), ends }
    }

    /// A thread wakes: the deadline, and the budget, it has from now on.
    fn arrives(&mut self, thread: ThreadId, now: Nanos) {
        let entity = &mut self.entities[thread.index()];
        let wide = |a: Nanos, b: Nanos| i128::from(a.get()) * i128::from(b.get());
        match &mut entity.has {
            Some(Has::Within(within)) if entity.is_done => self.order.set_deadline(thread, now + *within),
            Some(Has::Server { reservation, budget, throttled: false, .. }) => {
                let Reservation { runtime, period, .. } = *reservation;
                let left = self.order.deadline(thread) - now;
                if wide(*budget, period) >= wide(left, runtime) {
                    *budget = runtime;
                    self.order.set_deadline(thread, now + period);
                }
            }
            _ => {}
        }
    }

    fn has_budget(&self, thread: ThreadId) -> bool {
        match self.entities[thread.index()].has {
            Some(Has::Server { budget, .. }) => budget.is_positive(),
            _ => true,
        }
    }

    fn is_throttled(&self, thread: ThreadId) -> bool {
        matches!(self.entities[thread.index()].has, Some(Has::Server { throttled: true, .. }))
    }

    /// A thread on a CPU whose deadline has changed.
    fn requeue(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        if self.order.is_queued(thread) {
            let cpu = hardware.thread(thread).cpu;
            self.order.remove(cpu, thread);
            self.order.insert_in_turn(cpu, thread, hardware.now());
            hardware.reschedule(cpu);
        }
    }

    /// Its budget is used up, or given up.
    fn throttle(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let cpu = hardware.thread(thread).cpu;
        self.order.remove(cpu, thread);
        hardware.reschedule(cpu);
        let at = self.order.deadline(thread).max(hardware.now());
        if let Some(Has::Server { throttled, timer, .. }) = &mut self.entities[thread.index()].has {
            *throttled = true;
            hardware.arm_timer(*timer, cpu, at);
        }
    }

    /// Throttles a thread without budget; one whose step ends at this very instant takes the next one before.
    fn look_at_budget(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        let Some(Has::Server { budget, throttled: false, .. }) = self.entities[thread.index()].has else {
            return;
        };
        if budget.is_positive() {
            return;
        }
        let ends = !hardware.thread(thread).remaining.is_positive();
        if ends && hardware.engine.is_armed(hardware.cpus[cpu].completion) {
            hardware.engine.arm(self.ends[cpu], hardware.now());
        } else {
            self.throttle(hardware, thread);
        }
    }

    /// A thread that was throttled has a budget again.
    fn replenish(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let Some(Has::Server { reservation, budget, throttled, .. }) = &mut self.entities[thread.index()].has
        else {
            return;
        };
        // What the kernel's own work took beyond it is paid back.
        (*budget, *throttled) = ((*budget + reservation.runtime).max(Nanos::new(1)), false);
        self.order.set_deadline(thread, self.order.deadline(thread) + reservation.period);
        let t = hardware.thread(thread);
        if t.rank != self.rank || !t.state.wants_cpu() {
            return;
        }
        // One that its CPU has not left yet stays there.
        let stays = hardware.current(t.cpu) == Some(thread);
        let target = self.order.target(hardware, thread).filter(|_| !stays).unwrap_or(t.cpu);
        hardware.migrate(thread, target);
        self.order.insert_in_turn(target, thread, hardware.now());
        if self.order.comes_before(hardware, target, thread) {
            hardware.reschedule(target);
        }
    }
}

/// Makes the scheduler, for a machine without threads.
pub(super) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    Box::new(Edf::new(hardware, rank))
}

impl CpuPolicy for Edf {
    fn admit(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let asked = hardware.thread(thread).asked;
        let is_own = hardware.thread(thread).rank == self.rank;
        let has = match asked {
            Scheduling::Within(_, within) if is_own => Some(Has::Within(within)),
            Scheduling::Reserved(_, reservation) if is_own => {
                let number = Due::Replenishment(thread).number(self.order.cpus());
                let timer = hardware.add_timer(self.rank, number);
                Some(Has::Server { reservation, budget: Nanos::ZERO, throttled: false, timer })
            }
            _ => None,
        };
        self.order.admit();
        self.entities.push(Entity { has, is_done: true });
    }

    fn select_cpu(&mut self, hardware: &mut Hardware, thread: ThreadId, _arrival: Arrival) -> usize {
        self.arrives(thread, hardware.now());
        self.order.target(hardware, thread).unwrap_or(hardware.thread(thread).cpu)
    }

    fn enqueue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, arrival: Arrival) {
        if self.is_throttled(thread) {
            return;
        }
        // Its CPU was not chosen where it had not left it yet; one from another policy kept what it had.
        if arrival != Arrival::Changed {
            self.arrives(thread, hardware.now());
        }
        self.order.insert_in_turn(cpu, thread, hardware.now());
    }

    fn dequeue(&mut self, _: &mut Hardware, cpu: usize, thread: ThreadId, _: Departure) {
        self.order.remove(cpu, thread);
    }

    fn pick(&mut self, hardware: &mut Hardware, cpu: usize) -> Pick {
        let thread = loop {
            let Some(first) = self.order.first(cpu) else { return Pick::Nothing };
            if self.has_budget(first) {
                break first;
            }
            // It has begun another step at the instant at which its budget ended.
            self.throttle(hardware, first);
        };
        match self.entities[thread.index()].has {
            Some(Has::Server { budget, .. }) => {
                let ends = hardware.free_from(cpu) + budget.max(Nanos::new(1));
                hardware.arm_timer(self.ends[cpu], cpu, ends);
            }
            _ => hardware.engine.cancel(self.ends[cpu]),
        }
        Pick::Thread(thread)
    }

    fn switch(
        &mut self,
        hardware: &mut Hardware,
        cpu: usize,
        prev: Option<ThreadId>,
        next: Option<ThreadId>,
    ) {
        if next.is_none() {
            hardware.engine.cancel(self.ends[cpu]);
        }
        if let Some(prev) = prev {
            self.order.preempted(hardware, cpu, prev);
        }
    }

    fn account(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, ran: Nanos) {
        if let Some(Has::Server { budget, .. }) = &mut self.entities[thread.index()].has {
            *budget -= ran;
            self.look_at_budget(hardware, cpu, thread);
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

    /// It goes behind those with its deadline; what is left of a budget is given up.
    fn yield_now(&mut self, hardware: &mut Hardware, _cpu: usize, thread: ThreadId) {
        match self.entities[thread.index()].has {
            Some(Has::Server { throttled: false, .. }) => self.throttle(hardware, thread),
            _ => self.requeue(hardware, thread),
        }
    }

    fn finishes_steps(&self) -> bool {
        true
    }

    fn hears_of_jobs(&self) -> bool {
        true
    }

    fn job(&mut self, hardware: &mut Hardware, thread: ThreadId, marker: JobMarker) {
        let entity = &mut self.entities[thread.index()];
        match (marker, entity.has) {
            (JobMarker::End { .. }, _) => entity.is_done = true,
            (JobMarker::Begin { release, .. }, Some(Has::Within(within))) => {
                entity.is_done = false;
                if self.order.deadline(thread) != release + within {
                    self.order.set_deadline(thread, release + within);
                    self.requeue(hardware, thread);
                }
            }
            (JobMarker::Begin { .. }, _) => entity.is_done = false,
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
            Due::End(cpu) => match hardware.current_of(cpu, self.rank) {
                Some(thread) if !self.has_budget(thread) => self.look_at_budget(hardware, cpu, thread),
                _ => hardware.reschedule(cpu),
            },
        }
    }

    fn pulls_from(&mut self, hardware: &Hardware, cpu: usize) -> Option<usize> {
        self.order.pulls_from(hardware, cpu)
    }

    fn pull(&mut self, hardware: &mut Hardware, cpu: usize) {
        self.order.pull(hardware, cpu);
    }
}
