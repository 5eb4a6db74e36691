//! On which CPU a thread with a reservation runs: global EDF by push and pull, as in `kernel/sched/deadline.c`, as far as a [`Migration`] lets
//! it.
//!
//! A woken thread stays on its CPU when it would run there at once; else it goes to a CPU without entities of the class, of several the next in
//! turn, else to the one whose earliest deadline is the latest if its own is earlier. A CPU that switches to a thread of the class pushes its
//! first waiting thread on in the same way. One that a thread of the class has left pulls the earliest that waits elsewhere and beats its own
//! first one, but none that is about to take the CPU where it is (`need_pull_dl_task`, `pull_dl_task`). A thread that its timer replenishes
//! goes to another CPU without deadline threads if there is one: the kernel's timer enqueues it and then pushes it as one that waits.
//! (Measured: a lone reservation on two CPUs changes sides at every replenishment.)

use surety_units::Nanos;

use super::Deadline;
use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::CpuPolicy as _;

/// When threads change their CPU. Bandwidths have [`KERNEL_BANDWIDTH_SHIFT`](surety_units::bandwidth::KERNEL_BANDWIDTH_SHIFT) fractional bits;
/// what is booked on a CPU is that of all its reservations and servers.
pub(super) trait Migration: Sync {
    /// Whether the threads of a CPU with this booked stay there, however long they wait.
    fn keeps(&self, booked: u64) -> bool;

    /// Which of these CPUs, each with what is booked on it, a thread with this bandwidth goes to rather than to the one with the latest deadline.
    fn fitting(&self, bandwidth: u64, cpus: &mut dyn Iterator<Item = (usize, u64)>) -> Option<usize>;

    /// Whether a CPU pulls although it has deadline threads.
    fn pulls_beside(&self) -> bool;
}

/// The kernel's: wherever a thread runs sooner.
pub(super) struct Global;

impl Migration for Global {
    fn keeps(&self, _booked: u64) -> bool {
        false
    }

    fn fitting(&self, _: u64, _: &mut dyn Iterator<Item = (usize, u64)>) -> Option<usize> {
        None
    }

    fn pulls_beside(&self) -> bool {
        true
    }
}

/// Whether a CPU runs something more important, so that not even its first entity gets through.
#[inline]
fn is_outranked(hardware: &Hardware, rank: Rank, cpu: usize) -> bool {
    rank > Rank(0) && hardware.current(cpu).is_some_and(|t| hardware.thread(t).rank < rank)
}

impl Deadline {
    pub(super) fn is_outranked(&self, hardware: &Hardware, cpu: usize) -> bool {
        is_outranked(hardware, self.rank, cpu)
    }

    /// The earliest waiting thread of a CPU that may go to `target`, or to any other CPU.
    pub(super) fn movable(
        &self,
        hardware: &Hardware,
        cpu: usize,
        target: Option<usize>,
    ) -> Option<(Nanos, usize)> {
        let skipped = usize::from(!self.is_outranked(hardware, cpu));
        let current = hardware.current(cpu);
        self.queues.iter(cpu).skip(skipped).find_map(|(deadline, entity)| {
            let thread = self.thread_at(entity)?;
            let t = hardware.thread(thread);
            let may = target.map_or(!t.is_pinned(), |target| t.may_run_on(target));
            (may && Some(thread) != current).then_some((deadline, entity))
        })
    }

    /// Whether the thread of the class that a CPU runs leaves it: it sleeps, is throttled, or has left the class.
    pub(super) fn lowers(&self, hardware: &Hardware, cpu: usize) -> bool {
        let leaves = |current| !self.entities[self.entity_of(current)].is_queued();
        self.lowered.contains(cpu) || hardware.current_of(cpu, self.rank).is_some_and(leaves)
    }

    /// Whether a waiting thread with this deadline is about to take the place of the one that its CPU runs, or is the only one of the class there.
    pub(super) fn is_taken_over(&self, hardware: &Hardware, cpu: usize, deadline: Nanos) -> bool {
        let is_later = |current| deadline < self.entities[self.entity_of(current)].deadline;
        !self.queues.has_second(cpu) || hardware.current_of(cpu, self.rank).is_some_and(is_later)
    }

    /// The earliest thread that waits elsewhere, may run on a CPU and comes before its first one.
    pub(super) fn pullable(&self, hardware: &Hardware, cpu: usize) -> Option<usize> {
        let own = self.queues.first_deadline(cpu);
        let mut best = (own, 0);
        let pulls = self.queues.is_empty(cpu) || self.migration.pulls_beside();
        if self.waiting > 1 && pulls && self.lowers(hardware, cpu) {
            self.queues.earlier(own, |other| {
                if self.keeps(other) {
                    return None;
                }
                let movable = self.movable(hardware, other, Some(cpu)).filter(|_| other != cpu)?;
                if self.is_taken_over(hardware, other, movable.0) {
                    return None;
                }
                best = movable.min(best);
                (best.0 < own).then_some(best.0)
            });
        }
        (best.0 < own).then_some(best.1)
    }

    /// Whether the threads of a CPU stay there.
    pub(super) fn keeps(&self, cpu: usize) -> bool {
        self.migration.keeps(self.bandwidths.booked(cpu))
    }

    /// The CPU beside its own that the migrations have for an entity, before deadlines are looked at.
    pub(super) fn fitting(&self, hardware: &Hardware, index: usize) -> Option<usize> {
        let thread = hardware.thread(self.thread_at(index)?);
        let entity = &self.entities[index];
        let others = (0..self.queues.len()).filter(|cpu| *cpu != entity.cpu && thread.may_run_on(*cpu));
        let mut booked = others.map(|cpu| (cpu, self.bandwidths.booked(cpu)));
        self.migration.fitting(entity.bandwidth(), &mut booked)
    }

    /// Where a thread with this deadline would run at once: a CPU without deadline threads, its own first, else
    /// the CPU whose earliest deadline is the latest and later than its own.
    pub(super) fn later_cpu(
        &mut self,
        hardware: &mut Hardware,
        own: usize,
        deadline: Nanos,
    ) -> Option<usize> {
        let rank = self.rank;
        let is_open = |cpu: usize| !is_outranked(hardware, rank, cpu);
        if self.queues.is_empty(own) && is_open(own) {
            return Some(own);
        }
        let mut chosen = hardware.sets.chosen[own];
        let latest = self.queues.latest(deadline, &mut chosen, |cpu| cpu != own && is_open(cpu));
        hardware.sets.chosen[own] = chosen;
        latest
    }

    /// Whether the timer pushes the thread it replenishes away from a CPU: it is not current there, so it counts as
    /// one to be pushed although it would run at once, unless another deadline thread runs.
    pub(super) fn replenished_moves(&self, hardware: &Hardware, cpu: usize) -> bool {
        self.queues.len() > 1 && hardware.current_of(cpu, self.rank).is_none()
    }

    /// An entity has joined a queue by itself: the CPU chooses again if it comes first, else the thread may go
    /// elsewhere.
    pub(super) fn offer(&mut self, hardware: &mut Hardware, index: usize) {
        let (cpu, deadline) = (self.entities[index].cpu, self.entities[index].deadline);
        let first = match hardware.current_of(cpu, self.rank) {
            Some(current) => {
                let current = &self.entities[self.runs_on(current)];
                !current.is_queued() || deadline < current.deadline
            }
            None => true,
        };
        if first {
            hardware.reschedule(cpu);
        } else {
            self.push(hardware, cpu);
        }
    }

    pub(super) fn move_to(&mut self, hardware: &mut Hardware, index: usize, to: usize) {
        let Some(thread) = self.thread_at(index) else { return };
        let queued = self.entities[index].is_queued();
        if queued {
            self.remove(index);
        }
        self.follow(index, to);
        if queued {
            hardware.move_waiting(thread, to);
            self.insert(hardware, index);
        } else {
            hardware.migrate(thread, to);
        }
    }
}
