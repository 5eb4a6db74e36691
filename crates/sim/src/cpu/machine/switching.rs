//! A CPU of a [`Machine`] chooses what to run and changes hands (`__schedule` in `kernel/sched/core.c`).

use surety_model::event::LeaveState;
use surety_units::Nanos;

use super::Machine;
use crate::cpu::hardware::{Cpu, Hardware, Rank, ThreadId, ThreadState};
use crate::cpu::policy::Pick;
use crate::cpu::program::Programs;
use crate::cpu::recorder::{Kept, Named};

impl<P: Programs> Machine<P> {
    /// Whether a thread that joined a queue takes over (`wakeup_preempt` in `kernel/sched/core.c`).
    #[inline]
    pub(super) fn check_preempt(&mut self, cpu: usize, thread: ThreadId) {
        let rank = self.rank_of(thread);
        if !self.policies[rank].is_queued(thread) {
            return;
        }
        match self.hardware.current(cpu) {
            None => self.hardware.reschedule(cpu),
            Some(current) => match self.rank_of(current).cmp(&rank) {
                std::cmp::Ordering::Greater => self.hardware.reschedule(cpu),
                std::cmp::Ordering::Equal => {
                    self.account_of(cpu, rank, thread);
                    self.policies[rank].wakeup_preempt(&mut self.hardware, cpu, current, thread);
                }
                std::cmp::Ordering::Less => {}
            },
        }
    }

    /// A CPU chooses what to run.
    pub(super) fn schedule(&mut self, cpu: usize) {
        self.account(cpu);
        let slot = self.hardware.cpus[cpu].completion;
        let ends = |t: ThreadId| !self.hardware.thread(t).remaining.is_positive();
        if self.hardware.engine.is_armed(slot) && self.hardware.current(cpu).is_some_and(ends) {
            // Its step ends at this very instant, and it may not get the CPU back for long.
            self.advance(cpu);
        }
        // Whose work ends in an interrupt sees it when it next runs.
        self.finish_interrupts(cpu);
        self.make_changes();
        if let Some(to) = self.hardware.cpus[cpu].pushes_to.take() {
            self.stop(cpu, to as usize);
        }
        self.hardware.chooses(cpu);
        let prev = self.hardware.current(cpu);
        let next = self.choose(cpu);
        if next != prev {
            self.switch(cpu, prev, next);
        } else if let Some(thread) = next {
            // It slept and was woken, or was throttled and replenished, before it had left the CPU.
            self.hardware.threads[thread.index()].state = ThreadState::Running;
        }
        if let Some(entered) = next.filter(|_| next != prev && self.hardware.cpus.len() > 1) {
            // The class of who is picked pushes others on, and no other one (`set_next_task`).
            let Rank(rank) = self.hardware.thread(entered).rank;
            self.policies[rank].push(&mut self.hardware, cpu);
        }
        if let Some(thread) = next {
            let is_done = !self.hardware.thread(thread).remaining.is_positive();
            let cost = if next == prev { Nanos::ZERO } else { self.hardware.platform.overheads.switch };
            if is_done {
                self.advance_behind(cpu, cost);
            }
            if next != prev && (!is_done || cost.is_positive()) {
                // What it resumes has the switch in its CPU time.
                self.charge(cpu, thread, if is_done { cost } else { Nanos::ZERO });
            }
        }
    }

    /// The running thread of a CPU stops, and a scheduler takes one that waits there then to another CPU.
    fn stop(&mut self, cpu: usize, to: usize) {
        if let Some(current) =
            self.hardware.current(cpu).filter(|t| self.hardware.thread(*t).state.wants_cpu())
        {
            self.switch(cpu, Some(current), None);
        }
        for policy in &mut self.policies {
            policy.push_stopped(&mut self.hardware, cpu, to);
        }
        self.tell_moved();
    }

    /// A thread that has been switched to has so much more to do; when it will be done is known then.
    fn charge(&mut self, cpu: usize, thread: ThreadId, cost: Nanos) {
        let t = &mut self.hardware.threads[thread.index()];
        if t.remaining.is_positive() {
            t.remaining = t.remaining.saturating_add(cost);
        }
        self.arm_completion(cpu);
    }

    fn choose(&mut self, cpu: usize) -> Option<ThreadId> {
        let mut place = 0;
        while let Some(rank) = self.asked.get(place).copied() {
            self.pull(cpu, rank);
            if self.hardware.is_resting(cpu, Rank(rank)) {
                place += 1;
                continue;
            }
            let mut pick = self.policies[rank].pick(&mut self.hardware, cpu);
            // Where a more important scheduler has had the CPU, only what stood in the queue before counts (`balance_fair`); else what is
            // left when sleepers that were kept there are gone (`pick_next_task_fair`).
            let is_outranked = self.hardware.current(cpu).is_some_and(|prev| self.rank_of(prev) < rank);
            if pick == Pick::Emptied && !is_outranked && self.pull(cpu, rank) {
                pick = self.policies[rank].pick(&mut self.hardware, cpu);
            }
            match pick {
                Pick::Nothing | Pick::Emptied => place += 1,
                Pick::Thread(thread) => return Some(thread),
                Pick::Serve(Rank(served)) => match self.policies[served].pick(&mut self.hardware, cpu) {
                    Pick::Thread(thread) => {
                        self.hardware.serves(cpu);
                        return Some(thread);
                    }
                    _ => self.policies[rank].unserved(&mut self.hardware, cpu),
                },
            }
        }
        None
    }

    /// What a scheduler takes from another CPU before it picks for one; whether it took any.
    fn pull(&mut self, cpu: usize, rank: usize) -> bool {
        if self.hardware.cpus.len() > 1
            && self.policies[rank].looks(&self.hardware, cpu)
            && let Some(from) = self.policies[rank].pulls_from(&self.hardware, cpu)
        {
            self.account(from);
            self.policies[rank].pull(&mut self.hardware, cpu);
            return true;
        }
        false
    }

    pub(super) fn switch(&mut self, cpu: usize, prev: Option<ThreadId>, next: Option<ThreadId>) {
        self.counts.switches += 1;
        let now = self.hardware.now();
        let hardware = &mut self.hardware;
        let word = |t: Option<ThreadId>| t.map_or(u64::from(u32::MAX), |t| u64::from(t.0));
        hardware.recorder.mix(now.get_unsigned());
        hardware.recorder.mix((cpu as u64) << 48 ^ word(prev) << 24 ^ word(next));
        if hardware.recorder.is_wanted() {
            keep(hardware, cpu, prev, next);
        }
        if let Some(prev) = prev {
            let thread = &mut hardware.threads[prev.index()];
            if thread.state == ThreadState::Running {
                thread.state = ThreadState::Ready;
                thread.ready_since = now;
            }
        }
        let entered = next.map(|next| {
            let thread = &mut hardware.threads[next.index()];
            let gap = now - thread.ready_since;
            thread.waited += gap;
            thread.longest_gap = thread.longest_gap.max(gap);
            thread.state = ThreadState::Running;
            thread.rank
        });
        hardware.set_current(cpu, next);
        if prev.is_none() || next.is_none() {
            begin_or_end_idling(hardware, cpu, (prev, next));
        }
        let left = std::mem::replace(&mut self.hardware.cpus[cpu].entered, entered);
        if let Some(Rank(rank)) = left {
            let same = next.filter(|_| entered == left);
            self.policies[rank].switch(&mut self.hardware, cpu, prev, same);
        }
        if let Some(Rank(rank)) = entered.filter(|_| entered != left) {
            self.policies[rank].switch(&mut self.hardware, cpu, None, next);
        }
    }
}

/// A CPU that idled has a thread from now on, or idles.
fn begin_or_end_idling(
    hardware: &mut Hardware,
    cpu: usize,
    (prev, next): (Option<ThreadId>, Option<ThreadId>),
) {
    let now = hardware.now();
    if let Some(timers) = &mut hardware.timers {
        match prev {
            None => timers.count_idle_exit(cpu, now),
            Some(_) => timers.enters_idle(cpu, now),
        }
    }
    let Cpu { tick, completion, tick_phase: phase, .. } = hardware.cpus[cpu];
    if next.is_none() {
        if hardware.stops_tick_at_once() {
            hardware.engine.cancel(tick);
        }
        hardware.engine.cancel(completion);
    } else if !hardware.ticks_while_idle() {
        let period = hardware.platform.tick;
        let first = phase + period * ((now - phase).div_floor(period) + 1);
        hardware.engine.arm(tick, first);
    }
}

/// A change of hands as an event.
fn keep(hardware: &mut Hardware, cpu: usize, prev: Option<ThreadId>, next: Option<ThreadId>) {
    let id = hardware.cpus[cpu].id;
    let named = |t: Option<ThreadId>| t.map_or(Named::idle(id), |t| hardware.thread(t).named());
    let (leaves, enters) = (named(prev), named(next));
    let state = match prev.map(|t| hardware.thread(t)) {
        None => LeaveState::Runnable { preempted: false },
        Some(t) => match t.state {
            ThreadState::Sleeping if t.is_blocked => LeaveState::Uninterruptible,
            ThreadState::Sleeping => LeaveState::Sleeping,
            ThreadState::Exited => LeaveState::Dead,
            _ => LeaveState::Runnable { preempted: true },
        },
    };
    let kept = Kept::Switch { prev: leaves, state, next: enters };
    hardware.recorder.keep((hardware.now(), id, leaves.tid), kept);
}
