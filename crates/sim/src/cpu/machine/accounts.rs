//! Whose account the time of a CPU is on: its thread's at once, its scheduler's where the kernel would call `update_curr`.

use surety_units::Nanos;

use super::Machine;
use crate::cpu::hardware::{Rank, Thread, ThreadId};
use crate::cpu::program::Programs;

impl<P: Programs> Machine<P> {
    /// Books the time a CPU has run since it was last looked at.
    #[inline(always)]
    pub(super) fn account(&mut self, cpu: usize) {
        if self.is_behind(cpu) {
            self.account_now(cpu);
        }
    }

    /// Whether a CPU has run since then.
    #[inline]
    fn is_behind(&self, cpu: usize) -> bool {
        let state = &self.hardware.cpus[cpu];
        self.hardware.now() > state.accounted || state.untold.is_positive()
    }

    #[inline(never)]
    fn account_now(&mut self, cpu: usize) {
        self.account_thread(cpu);
        let untold = std::mem::take(&mut self.hardware.cpus[cpu].untold);
        if untold.is_positive() {
            self.tell(cpu, untold, |_| true);
        }
    }

    /// The same on the account of the current thread alone: its step may have ended, which the kernel does not see.
    pub(super) fn account_thread(&mut self, cpu: usize) {
        let now = self.hardware.now();
        let state = &mut self.hardware.cpus[cpu];
        let ran = now - state.accounted;
        if ran.is_positive() {
            (state.accounted, state.untold) = (now, state.untold + ran);
            self.book(cpu, ran);
        }
    }

    /// Books time on the current thread of a CPU.
    pub(super) fn book(&mut self, cpu: usize, ran: Nanos) {
        if let Some(id) = self.hardware.cpus[cpu].current {
            let thread = &mut self.hardware.threads[id.index()];
            thread.run += ran;
            if thread.remaining != Nanos::MAX {
                thread.remaining -= ran;
            }
        }
    }

    /// Tells the scheduler of the current thread of a CPU of time it has run, if it `counts`, and those that watch.
    pub(super) fn tell(&mut self, cpu: usize, ran: Nanos, counts: impl Fn(&Thread) -> bool) {
        let current = self.hardware.cpus[cpu].current.map(|id| {
            let thread = self.hardware.thread(id);
            (id, thread.rank, counts(thread))
        });
        if let Some((thread, Rank(rank), true)) = current {
            self.policies[rank].account(&mut self.hardware, cpu, thread, ran);
        }
        for watcher in &self.watchers {
            self.policies[*watcher].ran(&mut self.hardware, cpu, current.map(|(_, rank, _)| rank), ran);
        }
    }

    /// Books the time of a CPU before a thread joins a queue of the scheduler of a rank there, when that looks at it.
    #[inline(always)]
    pub(super) fn account_of(&mut self, cpu: usize, rank: usize, joins: ThreadId) {
        let is_its_own = || self.hardware.current_of(cpu, Rank(rank)).is_some();
        if self.is_behind(cpu) && is_its_own() && self.policies[rank].accounts_on_enqueue(joins) {
            self.account_now(cpu);
        }
    }

    pub(super) fn account_all(&mut self) {
        for cpu in 0..self.hardware.cpus.len() {
            self.account(cpu);
        }
    }
}
