//! What those that wait for a lock lend to its holder: their priority, or the budget of their reservation.

use surety_model::workload::PolicySpec;

use super::Machine;
use crate::cpu::hardware::Rank;
use crate::cpu::program::Programs;

impl<P: Programs> Machine<P> {
    /// Passes on what a lock's waiters lend to its holder, and to those the holder waits for.
    pub(super) fn inherit(&mut self, lock: usize) {
        if !self.resources.inherits(lock) {
            return;
        }
        for holder in self.resources.holders_reached(lock) {
            let scheduling = self.resources.inherited(&self.hardware, holder);
            self.change(holder, scheduling);
        }
        if self.hardware.platform.bandwidth_inheritance {
            let lendings = self.resources.lendings(&self.hardware);
            let Rank(rank) = self.hardware.rank_of(PolicySpec::Deadline.word());
            self.policies[rank].lend(&mut self.hardware, &lendings);
        }
    }
}
