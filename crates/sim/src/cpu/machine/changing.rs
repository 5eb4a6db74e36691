//! Threads of a [`Machine`] are scheduled otherwise, or given other CPUs, whatever they are doing.

use surety_units::{CpuId, CpuSet, Nanos};

use super::Machine;
use crate::cpu::hardware::{Hardware, Rank, Scheduling, ThreadId, ThreadState};
use crate::cpu::policy::{Arrival, Departure};
use crate::cpu::program::{Programs, Step};

/// What steps of threads choose from, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    /// Places of CPUs; `None`: all.
    places: Vec<Option<CpuSet>>,
    schedules: Vec<Scheduling>,
}

impl<P: Programs> Machine<P> {
    /// Adds CPUs that threads confine themselves to, `None` for all, and says by which number steps name them.
    pub fn add_place(&mut self, allowed: Option<CpuSet>) -> usize {
        self.choices.places.push(allowed);
        self.choices.places.len() - 1
    }

    /// Adds what threads become, and says by which number steps name it.
    pub fn add_schedule(&mut self, scheduling: Scheduling) -> usize {
        self.choices.schedules.push(scheduling);
        self.choices.schedules.len() - 1
    }

    /// Has a thread that was just added wait for an event instead of an instant.
    pub fn begins_waiting(&mut self, thread: ThreadId, signal: usize) {
        let alarm = self.hardware.thread(thread).alarm;
        self.hardware.engine.cancel(alarm);
        self.resources.wait(signal, thread);
    }

    /// The running thread of a CPU takes such a step; whether the CPU has to choose again.
    pub(super) fn changes_itself(&mut self, cpu: usize, thread: ThreadId, step: Step) -> bool {
        match step {
            Step::Confine(choice) => self.confine(cpu, thread, choice),
            Step::Become(choice) => {
                if let Some(until) = self.refused_until(thread, choice) {
                    self.resources.take_again(thread, step);
                    self.arm_alarm(cpu, thread, until);
                    self.leave(cpu, thread, Departure::Sleeps);
                    return false;
                }
                self.take_choice(thread, choice);
                self.is_preempted(cpu, thread)
            }
            Step::Regroup(group) => self.regroup(thread, group),
            _ => false,
        }
    }

    /// The running thread of a CPU goes to another control group: one that shares by weight leaves the queue of the old one and joins that of
    /// the new one with what it is owed, and its CPU chooses again (`sched_move_task` in `kernel/sched/core.c`). Whether it has to.
    fn regroup(&mut self, thread: ThreadId, group: Option<usize>) -> bool {
        let now = self.hardware.thread(thread);
        if now.group == group {
            return false;
        }
        let by_weight = now.scheduling.prio() >= 100;
        let set = |hardware: &mut Hardware| hardware.threads[thread.index()].group = group;
        if by_weight {
            self.queue_again(thread, set);
        } else {
            set(&mut self.hardware);
        }
        by_weight
    }

    /// Until when a thread has to wait for the reservation that it asks for.
    fn refused_until(&self, thread: ThreadId, choice: usize) -> Option<Nanos> {
        let Scheduling::Deadline(asked) = self.choices.schedules[choice] else { return None };
        let refusals = self.policies.iter().map(|policy| policy.refuses_until(&self.hardware, thread, asked));
        refusals.flatten().max()
    }

    /// A thread asks to be scheduled otherwise (`sched_setattr`); what a lock lends it, it keeps.
    fn take_choice(&mut self, thread: ThreadId, choice: usize) {
        self.hardware.threads[thread.index()].asked = self.choices.schedules[choice];
        let scheduling = self.resources.inherited(&self.hardware, thread);
        self.change(thread, scheduling);
    }

    /// Schedules a thread otherwise from now on (`__sched_setscheduler`, `rt_mutex_setprio`).
    pub(super) fn change(&mut self, thread: ThreadId, scheduling: Scheduling) {
        let now = self.hardware.thread(thread);
        if now.scheduling != scheduling && now.state != ThreadState::Exited {
            self.queue_again(thread, |hardware| hardware.set_scheduling(thread, scheduling));
        }
    }

    /// Takes a thread out of its queue and puts it back where it then belongs on its CPU.
    fn queue_again(&mut self, thread: ThreadId, apply: impl FnOnce(&mut Hardware)) {
        let now = self.hardware.thread(thread);
        let (cpu, state) = (now.cpu, now.state);
        let awake = state != ThreadState::Sleeping;
        let runs = self.hardware.current(cpu) == Some(thread);
        let rank = self.rank_of(thread);
        if awake {
            self.account(cpu);
            self.policies[rank].dequeue(&mut self.hardware, cpu, thread, Departure::Changes);
        } else {
            self.account_of(cpu, rank, thread);
            self.policies[rank].forget(&mut self.hardware, thread);
        }
        if runs && let Some(Rank(entered)) = self.hardware.cpus[cpu].entered.take() {
            self.policies[entered].switch(&mut self.hardware, cpu, Some(thread), None);
        }
        apply(&mut self.hardware);
        if awake {
            let rank = self.rank_of(thread);
            self.policies[rank].enqueue(&mut self.hardware, cpu, thread, Arrival::Changed);
            self.tell_enqueued(cpu, thread);
            if runs {
                self.hardware.cpus[cpu].entered = Some(Rank(rank));
                self.policies[rank].switch(&mut self.hardware, cpu, None, Some(thread));
                self.hardware.reschedule(cpu);
            } else {
                self.check_preempt(cpu, thread);
            }
        }
    }

    /// The running thread of a CPU may use other CPUs from now on (`__set_cpus_allowed_ptr`): where its own is none of them it is stopped
    /// and goes to the next one (`cpumask_any_and_distribute`), whoever runs there. Whether its CPU
    /// has to choose again.
    fn confine(&mut self, cpu: usize, thread: ThreadId, choice: usize) -> bool {
        let allowed = self.choices.places[choice];
        if self.hardware.thread(thread).allowed.as_deref() == allowed.as_ref() {
            return false;
        }
        let set = |hardware: &mut Hardware| {
            hardware.threads[thread.index()].allowed = allowed.map(Box::new);
        };
        let place = |cpu: usize| CpuId(u32::try_from(cpu).expect("fewer than 2^32 CPUs"));
        let Some(cpus) = allowed.filter(|allowed| !allowed.contains(place(cpu))) else {
            self.queue_again(thread, set);
            return true;
        };
        let before = self.hardware.sets.chosen[cpu];
        let behind = cpus.iter().find(|cpu| cpu.index() > before).or(cpus.lowest());
        let to = behind.expect("a thread may run somewhere").index();
        self.hardware.sets.chosen[cpu] = to;
        self.account(cpu);
        self.switch(cpu, Some(thread), None);
        let rank = self.rank_of(thread);
        self.policies[rank].dequeue(&mut self.hardware, cpu, thread, Departure::Changes);
        set(&mut self.hardware);
        self.hardware.reschedule(cpu);
        self.hardware.migrate(thread, to);
        self.account_of(to, rank, thread);
        self.policies[rank].enqueue(&mut self.hardware, to, thread, Arrival::Changed);
        self.tell_enqueued(to, thread);
        self.check_preempt(to, thread);
        true
    }
}
