//! `high`: `SCHED_HIGH`, a fair class of its own between realtime and fair threads, with a guard that leaves those their share. A
//! reconstruction of what was proposed in talk; no kernel has it.
//!
//! Within the class threads share by the weights of their nice values, by a fair scheduler's rules (EEVDF); on a CPU they come before
//! all fair threads. The *guard*: of the time that both classes have of a CPU, fair threads that want it get a twentieth at least.
//! What they are owed,
//!
//! ```text
//! owed = time of this class / 19 - time of fair threads          never below 0 where they have more by themselves
//! ```
//!
//! is served as soon as it is 5 ms, whatever the fair class would run, until it is nothing: 5 ms behind 95. Both ends are seen on ticks,
//! and what was served beyond it is taken from the next. Time of this class counts whether a fair thread waits or not; where none wants the
//! CPU when it is to be served, nothing is owed. A machine with the fair server has
//! that for a guard, with its own runtime and period.
//!
//! *Placement*: as the fair scheduler places, but a thread that would wait behind a more important one goes to a CPU that runs less
//! important ones.

use surety_model::workload::PolicySpec;
use surety_units::Nanos;

use crate::cpu::hardware::{Hardware, Rank, ThreadId};
use crate::cpu::policy::{Arrival, CpuPolicy, Departure, Pick};

/// Times as long as fair threads this class may run.
const TO_ONE: i64 = 19;
/// How long it runs until what it owes is served.
const RUNS: Nanos = Nanos::from_millis(95);

/// What a CPU owes to fair threads.
#[derive(Clone, Copy, Debug, Default)]
struct Guard {
    /// [`TO_ONE`] times what is owed; below nothing by what was served too much.
    owed: Nanos,
    serves: bool,
}

impl Guard {
    /// The class has run.
    fn runs(&mut self, ran: Nanos) {
        self.owed += ran;
        self.serves |= self.owed >= RUNS;
    }

    /// A fair thread has run; whether that was the last of what was owed.
    fn serves(&mut self, ran: Nanos) -> bool {
        let least = if self.serves { Nanos::new(i64::MIN) } else { self.owed.min(Nanos::ZERO) };
        self.owed = (self.owed - ran * TO_ONE).max(least);
        let ends = self.serves && !self.owed.is_positive();
        self.serves &= !ends;
        ends
    }

    /// No fair thread wants the CPU.
    fn forgets(&mut self) {
        (self.owed, self.serves) = (self.owed.min(Nanos::ZERO), false);
    }
}

/// The scheduler.
pub struct High {
    rank: Rank,
    /// Whom the guard serves.
    below: Rank,
    /// Whether there is no fair server.
    has_guard: bool,
    guards: Vec<Guard>,
    /// What shares the class among its threads.
    fair: Box<dyn CpuPolicy>,
    hears: bool,
}

impl High {
    /// For a machine without threads, with a fair scheduler's rules at this rank.
    pub fn new(hardware: &mut Hardware, rank: Rank, fair: Box<dyn CpuPolicy>) -> High {
        let guards = vec![Guard::default(); hardware.cpus.len()];
        let below = hardware.rank_of(PolicySpec::default().word());
        let has_guard = hardware.platform.fair_server.is_none() && below > rank;
        High { rank, below, has_guard, guards, hears: fair.watches(), fair }
    }
}

impl CpuPolicy for High {
    fn admit(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        self.fair.admit(hardware, thread);
    }

    fn select_cpu(&mut self, hardware: &mut Hardware, thread: ThreadId, arrival: Arrival) -> usize {
        let chosen = self.fair.select_cpu(hardware, thread, arrival);
        let cpus = hardware.cpus.len();
        let (t, rank) = (hardware.thread(thread), |cpu: usize| {
            hardware.current(cpu).map(|thread| hardware.thread(thread).rank)
        });
        if rank(chosen).is_none_or(|rank| rank > self.rank) {
            return chosen;
        }
        let is_below = |cpu: &usize| rank(*cpu).is_none_or(|rank| rank > self.rank) && t.may_run_on(*cpu);
        let Some(other) = (1..cpus).map(|step| (chosen + step) % cpus).find(is_below) else { return chosen };
        // One that fell asleep owing may still stand in the queue that it leaves.
        self.fair.forget(hardware, thread);
        other
    }

    fn enqueue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, arrival: Arrival) {
        self.fair.enqueue(hardware, cpu, thread, arrival);
    }

    fn dequeue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, departure: Departure) {
        self.fair.dequeue(hardware, cpu, thread, departure);
    }

    fn forget(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        self.fair.forget(hardware, thread);
    }

    fn pick(&mut self, hardware: &mut Hardware, cpu: usize) -> Pick {
        if self.guards[cpu].serves {
            return Pick::Serve(self.below);
        }
        self.fair.pick(hardware, cpu)
    }

    fn unserved(&mut self, _hardware: &mut Hardware, cpu: usize) {
        self.guards[cpu].forgets();
    }

    fn watches(&self) -> bool {
        self.has_guard || self.hears
    }

    fn ran(&mut self, hardware: &mut Hardware, cpu: usize, of: Option<Rank>, ran: Nanos) {
        let guard = &mut self.guards[cpu];
        match of {
            _ if !self.has_guard => {}
            None => guard.forgets(),
            Some(of) if of == self.rank => {
                guard.runs(ran);
                if guard.serves {
                    hardware.reschedule(cpu);
                }
            }
            Some(of) if of == self.below => {
                if guard.serves(ran) {
                    hardware.reschedule(cpu);
                }
            }
            Some(_) => {}
        }
        if self.hears {
            self.fair.ran(hardware, cpu, of, ran);
        }
    }

    fn enqueued(&mut self, hardware: &mut Hardware, cpu: usize, of: Rank) {
        if self.hears {
            self.fair.enqueued(hardware, cpu, of);
        }
    }

    fn switch(
        &mut self,
        hardware: &mut Hardware,
        cpu: usize,
        prev: Option<ThreadId>,
        next: Option<ThreadId>,
    ) {
        self.fair.switch(hardware, cpu, prev, next);
    }

    fn account(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, ran: Nanos) {
        self.fair.account(hardware, cpu, thread, ran);
    }

    fn tick(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        self.fair.tick(hardware, cpu, thread);
    }

    fn wakeup_preempt(&mut self, hardware: &mut Hardware, cpu: usize, current: ThreadId, woken: ThreadId) {
        self.fair.wakeup_preempt(hardware, cpu, current, woken);
    }

    fn is_queued(&self, thread: ThreadId) -> bool {
        self.fair.is_queued(thread)
    }

    fn yield_now(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        self.fair.yield_now(hardware, cpu, thread);
    }

    fn timer(&mut self, hardware: &mut Hardware, number: u32) {
        self.fair.timer(hardware, number);
    }

    fn timer_cpu(&self, number: u32) -> Option<usize> {
        self.fair.timer_cpu(number)
    }

    fn accounts_for_timer(&self, number: u32) -> bool {
        self.fair.accounts_for_timer(number)
    }

    fn accounts_on_enqueue(&self, thread: ThreadId) -> bool {
        self.fair.accounts_on_enqueue(thread)
    }

    fn looks(&mut self, hardware: &Hardware, cpu: usize) -> bool {
        !self.guards[cpu].serves && self.fair.looks(hardware, cpu)
    }

    fn pulls_from(&mut self, hardware: &Hardware, cpu: usize) -> Option<usize> {
        self.fair.pulls_from(hardware, cpu)
    }

    fn pull(&mut self, hardware: &mut Hardware, cpu: usize) {
        self.fair.pull(hardware, cpu);
    }

    fn push_stopped(&mut self, hardware: &mut Hardware, cpu: usize, to: usize) {
        self.fair.push_stopped(hardware, cpu, to);
    }

    fn push(&mut self, hardware: &mut Hardware, cpu: usize) {
        self.fair.push(hardware, cpu);
    }

    fn wants_balance(&mut self, hardware: &Hardware, cpu: usize) -> bool {
        self.fair.wants_balance(hardware, cpu)
    }

    fn balance(&mut self, hardware: &mut Hardware, cpu: usize) {
        self.fair.balance(hardware, cpu);
    }
}
