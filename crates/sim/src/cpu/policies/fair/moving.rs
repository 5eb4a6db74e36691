//! Fair threads go from one CPU to another: what a CPU finds when it balances or is about to idle, and how it comes.

use super::balance::{Looks, Taken};
use super::queue::Rule;
use super::{Fair, is_held_at, queue_of};
use crate::cpu::hardware::{Hardware, ThreadId};
use crate::cpu::policy::{Arrival, CpuPolicy};

impl<R: Rule> Fair<R> {
    /// A thread that waits goes to another CPU; one that sleeps and was left in the queue is left in the other one.
    pub(super) fn move_to(&mut self, hardware: &mut Hardware, thread: ThreadId, to: usize) {
        let entity = self.of_thread[thread.index()];
        let is_left = self.queues.entities[entity].delayed;
        self.quit(hardware, entity, false, false);
        if !self.is_held(entity) {
            self.balance.leaves(hardware, thread, false, self.load_beside(thread));
        }
        hardware.move_waiting(thread, to);
        self.queues.move_to(entity, queue_of(self.cpus, hardware.thread(thread).group, to));
        self.join(hardware, entity, Arrival::Changed);
        self.queues.entities[entity].delayed = is_left;
        if self.is_held(entity) {
            return;
        }
        self.balance.joins(hardware, thread, self.weight_of(thread), self.load_beside(thread));
        if is_left {
            self.balance.leaves(hardware, thread, true, self.load_beside(thread));
        }
        match hardware.current_of(to, self.rank) {
            Some(current) => self.wakeup_preempt(hardware, to, current, thread),
            None if hardware.current(to).is_none() => hardware.reschedule(to),
            None => {}
        }
    }

    /// What a CPU found elsewhere comes.
    pub(super) fn take(&mut self, hardware: &mut Hardware, taken: Taken, to: usize) {
        for thread in taken.threads.as_slice() {
            self.move_to(hardware, *thread, to);
        }
        if taken.stops {
            hardware.stop_for(taken.from, to);
        }
    }

    /// A CPU balances each of its domains whose time has come, from the lowest on.
    pub(super) fn balance_domains(&mut self, hardware: &mut Hardware, cpu: usize, mut looks: Looks) {
        let mut from = 0;
        while let Some(level) = self.balance.next_due(hardware, (cpu, from), looks) {
            let (rule, of_thread) = (&self.queues, &self.of_thread);
            let is_choosy = self.balance.is_choosy(cpu, level);
            let leaves_buddies = self.balance.leaves_buddies(cpu, level);
            let (taken, goes_on) = self.balance.balance(hardware, (cpu, level, looks), |thread| {
                let stays = is_choosy && rule.stays_at_first(of_thread[thread.index()])
                    || leaves_buddies && rule.is_buddy(of_thread[thread.index()])
                    || is_held_at(rule, hardware, thread, cpu);
                (!stays).then(|| rule.entities[of_thread[thread.index()]].weight)
            });
            if let Some(taken) = taken {
                if !taken.threads.is_empty() {
                    looks = Looks::Busy;
                }
                self.take(hardware, taken, cpu);
            }
            if !goes_on {
                return;
            }
            from = level + 1;
        }
    }

    /// What a CPU about to idle takes from another.
    pub(super) fn for_newly_idle(&self, hardware: &Hardware, cpu: usize) -> Option<Taken> {
        self.balance.for_newly_idle(hardware, cpu, |thread| {
            (!is_held_at(&self.queues, hardware, thread, cpu)).then(|| self.weight_of(thread))
        })
    }

    /// The same; looks at the domains that are said are counted.
    pub(super) fn find_newly_idle(&mut self, hardware: &Hardware, cpu: usize) -> Option<Taken> {
        if !self.balance.has_levels() {
            self.balance.bound(hardware);
            return self.for_newly_idle(hardware, cpu);
        }
        let (queues, of_thread) = (&self.queues, &self.of_thread);
        self.balance.for_newly_idle_by_levels(hardware, cpu, |thread| {
            (!is_held_at(queues, hardware, thread, cpu))
                .then(|| queues.entities[of_thread[thread.index()]].weight)
        })
    }
}
