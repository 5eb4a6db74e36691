//! Switches that were not recorded, inferred from who is current at the next event of their CPU.
//!
//! Such a switch-in lies between two instants. The earlier is the latest of the CPU's last event (somebody else was current),
//! the thread's last event and its readiness; the later is the event that shows the thread on the CPU. What lies between them
//! may be the thread's work, or a CPU on its way out of a deep sleep, or a guest the hypervisor had stopped. So:
//! - bounds of at most [`INFERRED_MAX`] are *used*: the switch-in is taken at the earlier instant and the job carries their
//!   width;
//! - some kernels record no switch out of the idle thread at all on some CPUs. Where that is so (`FromIdle::is_blind`), a CPU
//!   that had an event of its own at or after the thread's readiness was awake and had nothing to do but to switch: the
//!   switch-in is taken to follow that event. (Where switches out of idle are recorded they follow it after 2 us, 99.9 % of
//!   them within 20 us.) Else every job that starts there would be lost;
//! - what lies between other bounds is *unknown*, and the job it is part of is censored.

use surety_model::event::Event;
use surety_units::{Nanos, Tid};

use super::Machine;
use super::throttle::Replenishments;
use super::watch::{Occupant, Watch};

/// Widest bounds of an unrecorded switch-in that are used: about what a wake-up takes.
pub const INFERRED_MAX: Nanos = Nanos::from_micros(50);
/// So many switches out of idle are missing, and none is there, before a CPU counts as one that records none.
const BLIND_MIN: u64 = 4;

/// Switches out of idle on a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FromIdle {
    pub(super) recorded: u64,
    missing: u64,
}

impl FromIdle {
    /// The CPU leaves them all out: a missing one means nothing.
    fn is_blind(&self) -> bool {
        self.recorded == 0 && self.missing >= BLIND_MIN
    }
}

impl<W: Watch> Machine<W> {
    /// The event's CPU runs another thread than the switches say: one was not recorded.
    pub(super) fn infer(&mut self, event: &Event<'_>) {
        let (cpu, current) = (event.cpu, event.current);
        let state = &mut self.cpus[cpu.index()];
        let (last, was) = (state.last, state.occupant);
        state.replenishments = Replenishments::default();
        match was {
            Occupant::Idle => state.from_idle.missing += 1,
            Occupant::Thread(slot) => {
                self.anomalies.inconsistent += 1;
                state.interrupts.clear(last);
                self.threads.slots[slot].lose(last, self.watch.sink());
                self.tell_thread(slot, last);
            }
            Occupant::Unknown => {}
        }
        if current == Tid::IDLE {
            self.cpus[cpu.index()].occupant = Occupant::Idle;
            self.tell_cpu(cpu, last);
            return;
        }
        let slot = self.slot(current, last);
        let ready = self.threads.slots[slot].last_seen();
        let (from, until) = (last.max(ready), event.time);
        let was_awake = was == Occupant::Idle && last >= ready && self.cpus[cpu.index()].from_idle.is_blind();
        let is_usable = until - from <= INFERRED_MAX || was_awake;
        let outcome = self.threads.slots[slot].found((from, until), cpu, is_usable, self.watch.sink());
        self.anomalies.inconsistent += u64::from(outcome.inconsistent);
        self.anomalies.inferred += u64::from(was == Occupant::Idle && is_usable);
        self.anomalies.doubtful += u64::from(!is_usable);
        self.throttles.end_of(slot);
        let mut since = from;
        if !is_usable {
            self.doubt(slot, from);
            self.cpus[cpu.index()].occupant = Occupant::Unknown;
            self.tell_cpu(cpu, from);
            since = until;
        }
        self.tell_thread(slot, since);
        self.cpus[cpu.index()].occupant = Occupant::Thread(slot);
        self.tell_cpu(cpu, since);
    }

    /// Tells the watcher that nobody knows where the thread is from `at` on.
    fn doubt(&mut self, slot: usize, at: Nanos) {
        if W::WATCHES {
            self.watch.thread(slot, at, self.threads.slots[slot].seen_nowhere());
        }
    }
}
