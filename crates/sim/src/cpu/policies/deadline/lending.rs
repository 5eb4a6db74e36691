//! Bandwidth inheritance: who holds a lock runs on the budgets of those that wait for it.
//!
//! After G. Lipari, G. Lamastra, L. Abeni, "Task synchronization in reservation-based real-time systems", IEEE Transactions on Computers
//! 53(12), 2004, on one CPU. A thread that waits for a lock leaves its server to the holder, or to whom that one waits for in turn; its server goes
//! on as if it had not stopped. So the holder is in several servers, its own among them, and runs in the one of them that comes first with a
//! budget, which pays for it. Whoever shares no lock with them has a CPU of servers beside it that are what they were reserved as.
//!
//! Picking the server first and then who runs for it is what proxy execution does (`CONFIG_SCHED_PROXY_EXEC`, `find_proxy_task` in
//! `kernel/sched/core.c`): this is that mechanism, for threads with reservations on one CPU. The kernel's own locks with inheritance do
//! otherwise: they give the holder the waiter's parameters and do not throttle it meanwhile.

use super::Deadline;
use crate::cpu::hardware::{Hardware, ThreadId};
use crate::cpu::policy::Arrival;

impl Deadline {
    /// Who runs on an entity, if it is no server of a scheduler.
    #[inline]
    pub(super) fn runs_for(&self, index: usize) -> Option<ThreadId> {
        if self.lent.is_empty() {
            return self.thread_at(index);
        }
        self.lent.get(&index).copied().or_else(|| self.thread_at(index))
    }

    /// The entity that the running thread runs on.
    #[inline]
    pub(super) fn runs_on(&self, current: ThreadId) -> usize {
        self.acts_for.unwrap_or_else(|| self.entity_of(current))
    }

    /// Of the entities that a thread may run on, the queued one with the earliest deadline; its own where none is.
    #[inline]
    pub(super) fn first_of(&self, thread: ThreadId) -> usize {
        let own = self.entity_of(thread);
        if self.lent.is_empty() {
            return own;
        }
        let all = self.lent_to(thread).into_iter().chain([own]);
        let queued = all.filter(|index| self.entities[*index].is_queued());
        queued.min_by_key(|index| self.entities[*index].deadline).unwrap_or(own)
    }

    /// The entities lent to a thread.
    fn lent_to(&self, thread: ThreadId) -> Vec<usize> {
        self.lent.iter().filter(|(_, to)| **to == thread).map(|(index, _)| *index).collect()
    }

    /// A thread wants the CPU again: what is lent to it does too, by the rule of a wake-up.
    pub(super) fn join_lent(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        if !self.lent.is_empty() {
            for index in self.lent_to(thread) {
                self.join(hardware, (index, self.entities[index].cpu), Arrival::Woken);
            }
        }
    }

    /// A thread wants the CPU no longer: nor does what is lent to it.
    pub(super) fn leave_lent(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        if !self.lent.is_empty() {
            for index in self.lent_to(thread) {
                self.remove(index);
                self.stop_contending(hardware, index);
            }
        }
    }

    /// These threads lend what they have to these others from now on, and nobody else does. All time is booked.
    pub(super) fn lends(&mut self, hardware: &mut Hardware, lendings: &[(ThreadId, ThreadId)]) {
        let before = std::mem::take(&mut self.lent);
        self.lent = lendings.iter().map(|(from, to)| (self.entity_of(*from), *to)).collect();
        if self.lent == before {
            return;
        }
        (0..hardware.cpus.len()).for_each(|cpu| hardware.stirs(cpu, self.rank));
        for (index, to) in self.lent.clone() {
            let runs = hardware.thread(to).state.wants_cpu();
            if before.get(&index) == Some(&to) {
                continue;
            }
            if !runs {
                self.remove(index);
                self.stop_contending(hardware, index);
            } else if !self.entities[index].is_queued() {
                // It goes on where its thread has just stopped.
                self.contend(hardware, index);
                if !self.entities[index].throttled {
                    self.insert(hardware, index);
                }
            }
            hardware.reschedule(self.entities[index].cpu);
        }
        for index in before.into_keys() {
            let wants = |thread| hardware.thread(thread).state.wants_cpu();
            if !self.runs_for(index).is_some_and(wants) {
                self.remove(index);
            }
            hardware.reschedule(self.entities[index].cpu);
        }
    }
}
