//! What the kernel's own work takes of a CPU of a [`Machine`]: [`surety_model::platform::Overheads`].
//!
//! No event is made for it. Work is CPU time as the kernel accounts it, and without accounting of interrupt time that has in it what
//! interrupts and switches take while the work lasts: so it is in every other world, whose threads look at their CPU time. A
//! switch to a thread that begins comes before its work, and what it does on its way to sleep comes behind it.
//!
//! A CPU chooses on the way out of its interrupts, so what is left of them then is booked before it is over, and so is what a thread does
//! on its way to sleep: the time of the next thread begins behind it ([`Hardware::free_from`]).
//!
//! [`Hardware::free_from`]: crate::cpu::hardware::Hardware::free_from

use surety_units::Nanos;

use super::Machine;
use crate::cpu::hardware::ThreadState;
use crate::cpu::program::Programs;

impl<P: Programs> Machine<P> {
    /// An interrupt takes this long of a CPU. Whose work ends meanwhile sees it when the interrupt is over.
    #[inline]
    pub(super) fn interrupted_for(&mut self, cpu: usize, cost: Nanos) {
        if cost.is_positive() {
            self.is_taken_for(cpu, cost);
        }
    }

    fn is_taken_for(&mut self, cpu: usize, cost: Nanos) {
        let hardware = &mut self.hardware;
        let end = hardware.cpus[cpu].busy_until.max(hardware.free_from(cpu)).saturating_add(cost);
        let state = &mut hardware.cpus[cpu];
        state.busy_until = end;
        let (slot, accounted) = (state.completion, state.accounted);
        let left = state.current.map_or(Nanos::MAX, |current| hardware.threads[current.index()].remaining);
        if left != Nanos::MAX && accounted + left < end && hardware.engine.is_armed(slot) {
            hardware.engine.arm(slot, end);
        }
    }

    /// The thread of a CPU goes on for this long before it leaves.
    #[inline]
    pub(super) fn goes_on_for(&mut self, cpu: usize, cost: Nanos) {
        if cost.is_positive() {
            self.finish_interrupts(cpu);
            self.book_ahead(cpu, cost);
            let state = &mut self.hardware.cpus[cpu];
            state.busy_until = state.accounted;
        }
    }

    /// A CPU whose time is booked up to now comes to the end of its interrupts.
    pub(super) fn finish_interrupts(&mut self, cpu: usize) {
        let left = self.hardware.cpus[cpu].busy_until - self.hardware.free_from(cpu);
        if left.is_positive() {
            self.book_ahead(cpu, left);
        }
    }

    /// Books time of a CPU that is yet to pass.
    #[inline(never)]
    fn book_ahead(&mut self, cpu: usize, time: Nanos) {
        let hardware = &mut self.hardware;
        hardware.cpus[cpu].accounted = hardware.free_from(cpu).saturating_add(time);
        // One that has left its queue is on nobody's account but its own.
        self.book(cpu, time);
        self.tell(cpu, time, |thread| thread.state == ThreadState::Running);
    }
}
