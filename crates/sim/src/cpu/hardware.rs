//! [`Hardware`]: what the machine and every scheduler see: the engine with time and timers, CPUs, threads. It decides nothing.

use std::collections::VecDeque;
use std::ops::Range;

use surety_model::event::Comm;
use surety_model::platform::Platform;
use surety_model::reservation::Reservation;
use surety_model::workload::{PolicySpec, Quota, Task, policies};
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use crate::cpu::at_disk::AtDisk;
use crate::cpu::domains::Domains;
pub(crate) use crate::cpu::places::Sets;
use crate::cpu::recorder::{Kept, Named, Recorder};
use crate::cpu::timers::{Timers, on_grid};
use crate::cpu::times::Times;
use crate::engine::{ComponentId, Engine, Slot};

/// A thread's place among the threads of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

impl ThreadId {
    /// As an index into per-thread arrays.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A scheduler's place among those of a machine, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(pub usize);

/// A policy by its place in [`policies`]: as short as that, since every thread has it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyPlace(u8);

impl PolicyPlace {
    /// That of a word; `None`: there is no such policy.
    pub fn of(word: &str) -> Option<PolicyPlace> {
        let place = policies().position(|row| row.word == word)?;
        u8::try_from(place).ok().map(PolicyPlace)
    }

    pub(crate) fn word(self) -> &'static str {
        policies().nth(usize::from(self.0)).expect("it is the place of one").word
    }
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// By a policy without reservation.
    Policy(PolicySpec),
    /// `SCHED_DEADLINE`.
    Deadline(Reservation),
    /// By a policy that no kernel has, with a reservation.
    Reserved(PolicyPlace, Reservation),
    /// By a policy that no kernel has, with this relative deadline for each job.
    Within(PolicyPlace, Nanos),
}

impl Scheduling {
    /// What a policy and a reservation come to; `None` for a policy without the reservation that it needs.
    pub fn of(policy: PolicySpec, reservation: Option<Reservation>) -> Option<Scheduling> {
        match (policy, reservation) {
            (PolicySpec::Simulated { word, .. }, Some(reservation)) if policy.takes_reservation() => {
                PolicyPlace::of(word).map(|place| Scheduling::Reserved(place, reservation))
            }
            (_, Some(reservation)) => Some(Scheduling::Deadline(reservation)),
            (_, None) => {
                let needs_none = !policy.needs_reservation() && !policy.has_deadlines();
                needs_none.then_some(Scheduling::Policy(policy))
            }
        }
    }

    /// Those of a task: a policy with deadlines takes those of its jobs where it has no reservation. `None` for a policy without what it
    /// needs.
    pub fn of_task(task: &Task) -> Option<Scheduling> {
        match task.reservation {
            None if task.policy.has_deadlines() => {
                let place = PolicyPlace::of(task.policy.word())?;
                task.relative_deadline().map(|within| Scheduling::Within(place, within))
            }
            reservation => Scheduling::of(task.policy, reservation),
        }
    }

    /// The word of its policy, by which a scheduler takes it.
    pub fn word(&self) -> &'static str {
        match self {
            Scheduling::Policy(policy) => policy.word(),
            Scheduling::Deadline(_) => PolicySpec::Deadline.word(),
            Scheduling::Reserved(place, _) | Scheduling::Within(place, _) => place.word(),
        }
    }

    /// Its realtime priority, 1..=99.
    pub fn realtime_priority(&self) -> Option<u32> {
        match self {
            Scheduling::Policy(policy) => policy.realtime_priority(),
            Scheduling::Deadline(_) | Scheduling::Reserved(..) | Scheduling::Within(..) => None,
        }
    }

    /// The priority of a realtime policy, else 0.
    pub(crate) fn priority(&self) -> u8 {
        self.realtime_priority().map_or(0, |priority| u8::try_from(priority).expect("priorities end at 99"))
    }

    /// The kernel's internal priority: below 0 deadline, 0..=98 realtime, 100..=139 all others.
    pub fn prio(&self) -> i32 {
        match self {
            Scheduling::Policy(policy) => match policy.realtime_priority() {
                Some(priority) => 99 - i32::try_from(priority).expect("priorities end at 99"),
                None => 120 + policy.parameters().nice,
            },
            Scheduling::Deadline(_) | Scheduling::Reserved(..) | Scheduling::Within(..) => -1,
        }
    }
}

impl std::fmt::Display for Scheduling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scheduling::Policy(policy) => {
                write!(f, "{policy}")?;
                policy
                    .parameters()
                    .slice
                    .map_or(Ok(()), |slice| write!(f, " slice {}", slice.to_exact_string()))
            }
            Scheduling::Within(_, within) => {
                write!(f, "{} within {}", self.word(), within.to_exact_string())
            }
            Scheduling::Deadline(r) | Scheduling::Reserved(_, r) => {
                let times = [r.runtime, r.deadline, r.period].map(Nanos::to_exact_string).join("/");
                let flag = |set: bool, word: &'static str| if set { word } else { "" };
                write!(
                    f,
                    "{} {times}{}{}",
                    self.word(),
                    flag(r.reclaim, " reclaim"),
                    flag(r.demote, " demote")
                )
            }
        }
    }
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// Waits for a time, a lock or an event.
    Sleeping,
    /// Wants a CPU and has none: queued, or without budget.
    Ready,
    /// Has a CPU.
    Running,
    /// Is gone.
    Exited,
}

impl ThreadState {
    /// Whether it has a CPU or wants one.
    pub fn wants_cpu(self) -> bool {
        matches!(self, ThreadState::Ready | ThreadState::Running)
    }
}

/// A thread. What every event of it needs stands first, in one line of a cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Thread {
    /// What it is doing.
    pub state: ThreadState,
    /// It sleeps until a disk is done; no signal wakes it.
    pub(crate) is_blocked: bool,
    /// It has not wanted a CPU yet.
    pub(crate) is_new: bool,
    /// That of its scheduling, 1..=99; of others than realtime 0.
    pub(crate) priority: u8,
    /// Its sleep's end.
    pub(crate) alarm: Slot,
    /// CPU time left of its present step; [`Nanos::MAX`] never ends.
    pub remaining: Nanos,
    /// CPU time used.
    pub run: Nanos,
    /// Its scheduler now.
    pub rank: Rank,
    /// The CPU it is on or was last on.
    pub cpu: usize,
    /// Since when it has wanted a CPU, while [`ThreadState::Ready`].
    pub ready_since: Nanos,
    /// Time it wanted a CPU and had none, without the present wait.
    pub waited: Nanos,
    /// The longest such time that is over.
    pub longest_gap: Nanos,
    /// How it is scheduled now: what it asked for, or what it inherits from a waiter.
    pub scheduling: Scheduling,
    /// The places of the CPUs it may run on; `None`: all.
    pub allowed: Option<Box<CpuSet>>,
    /// Control group, by its place in the machine's list; `None` is the root.
    pub group: Option<usize>,
    /// Its id in events.
    pub tid: Tid,
    /// Its name in events.
    pub comm: Comm,
    /// How it asked to be scheduled.
    pub asked: Scheduling,
}

impl Thread {
    /// As events name it.
    pub fn named(&self) -> Named {
        Named { tid: self.tid, comm: self.comm, prio: self.scheduling.prio() }
    }

    /// Whether it may run on the CPU at a place.
    pub fn may_run_on(&self, cpu: usize) -> bool {
        let place = || CpuId(u32::try_from(cpu).expect("fewer than 2^32 CPUs"));
        self.allowed.as_ref().is_none_or(|allowed| allowed.contains(place()))
    }

    /// Whether it may run on one CPU only.
    pub fn is_pinned(&self) -> bool {
        self.allowed.as_ref().is_some_and(|allowed| allowed.len() == 1)
    }
}

/// A CPU. What every event of it needs stands first, in one line of a cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Cpu {
    /// The thread it runs.
    pub current: Option<ThreadId>,
    /// Its time up to here is in its threads' accounts; beyond the present where what the kernel does of its own is booked.
    pub accounted: Nanos,
    /// What of that no scheduler has been told of.
    pub(crate) untold: Nanos,
    /// The end of the interrupts that it has taken, which is not before a choice of what runs next.
    pub(crate) busy_until: Nanos,
    pub(crate) tick: Slot,
    pub(crate) completion: Slot,
    /// The scheduler that was told that this thread runs: its own, unless that changed when it had just gone to sleep.
    pub(crate) entered: Option<Rank>,
    /// Whether a more important scheduler chose that thread of another one, as the fair server does.
    pub serves: bool,
    /// Whether it must choose again; [`Hardware::reschedule`] says so.
    pub(crate) reschedule: bool,
    /// Schedulers that need not be asked what to run ([`Hardware::rests`]), a bit for each of the first 16.
    pub(crate) resting: u16,
    /// The device whose hard handler it runs; it changes hands only when that is over.
    pub handling: Option<u32>,
    /// Devices whose handlers come next, each once: an interrupt that is pending is not counted twice.
    pub(crate) handlers: VecDeque<usize>,
    pub(crate) handler_end: Slot,
    /// The CPU that its running thread is to leave it for.
    pub(crate) pushes_to: Option<u32>,
    /// First instant of its grid of ticks.
    pub tick_phase: Nanos,
    /// Its number in events and affinities, which is not its place among the machine's.
    pub id: CpuId,
}

/// What happens to CPUs: what a number of their slots stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// The tick of a CPU.
    Tick(u32),
    /// The end of the present step of a CPU's thread.
    Completion(u32),
    /// The end of a thread's sleep.
    Alarm(ThreadId),
    /// The interrupt of a device.
    Interrupt(u32),
    /// The end of the hard handler on a CPU.
    HandlerEnd(u32),
    /// A timer of the scheduler of this rank, with its own number for it.
    Policy(u8, u32),
}

impl Occasion {
    /// Bits of a number that say whose it is; those above say what it is.
    const INDEX_BITS: u32 = 28;

    /// The number it is known by to the engine.
    ///
    /// # Panics
    /// Beyond 2^28 of a kind, or 11 schedulers.
    fn number(self) -> u32 {
        let (kind, index) = match self {
            Occasion::Tick(cpu) => (0, cpu),
            Occasion::Completion(cpu) => (1, cpu),
            Occasion::Alarm(thread) => (2, thread.0),
            Occasion::Interrupt(device) => (3, device),
            Occasion::HandlerEnd(cpu) => (4, cpu),
            Occasion::Policy(rank, number) => (5 + u32::from(rank), number),
        };
        assert!(index >> Self::INDEX_BITS == 0 && kind < 16, "fewer than 2^28 of a kind, a few schedulers");
        kind << Self::INDEX_BITS | index
    }

    /// What a number stands for.
    #[inline]
    pub(crate) fn of(number: u32) -> Occasion {
        let index = number & ((1 << Self::INDEX_BITS) - 1);
        match (number >> Self::INDEX_BITS) as u8 {
            0 => Occasion::Tick(index),
            1 => Occasion::Completion(index),
            2 => Occasion::Alarm(ThreadId(index)),
            3 => Occasion::Interrupt(index),
            4 => Occasion::HandlerEnd(index),
            kind => Occasion::Policy(kind - 5, index),
        }
    }
}

/// A policy of the realtime scheduler.
const REALTIME: &str = "fifo";

/// A group threads share the CPU through: its weight and the group it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// `cpu.weight`, 1..=10000.
    pub weight: u32,
    /// `cpu.max`.
    pub quota: Option<Quota>,
    /// `cpu.idle`: it has no weight of its own beside others.
    pub idle: bool,
    /// What realtime threads in it have of each CPU.
    pub reservation: Option<Reservation>,
    /// The group above, an earlier one of the list.
    pub parent: Option<usize>,
}

/// The state the machine and its policies share.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Simulated time and what is to come, on CPUs and on what else is simulated with them.
    pub engine: Engine,
    /// What the machine is.
    pub platform: Platform,
    /// What no platform sets.
    pub times: Times,
    /// What is left to chance is drawn from it.
    pub seed: u64,
    pub cpus: Vec<Cpu>,
    pub threads: Vec<Thread>,
    pub groups: Vec<GroupSpec>,
    /// The policies each scheduler takes, by rank.
    pub takes: Vec<&'static [&'static str]>,
    /// Realtime schedulers inside reservations of groups, and those reservations.
    pub inside: Vec<(Rank, Reservation)>,
    /// For each group that of its realtime threads, where there is one.
    pub inside_group: Vec<Option<Rank>>,
    /// What happened.
    pub recorder: Recorder,
    /// Threads that a policy wants scheduled otherwise from now on, in the order of what it wants; the machine does it.
    pub changes: Vec<(ThreadId, Scheduling)>,
    /// The last of the CPUs whose threads used disks at this instant, where events are wanted.
    pub(crate) submits: Option<usize>,
    /// Of a machine that says how its timers expire.
    pub(crate) timers: Option<Box<Timers>>,
    /// Queues that waiting threads were moved to, by CPU and scheduler; the machine tells those that watch.
    pub(crate) joined: Vec<(usize, Rank)>,
    pub(crate) sets: Sets,
    /// Where the platform says what its CPUs share.
    pub(crate) domains: Option<Box<Domains>>,
    /// The CPU in whose context a thread was last woken.
    pub(crate) waker: usize,
    pub(crate) component: ComponentId,
}

impl Default for GroupSpec {
    /// The kernel's, below the root.
    fn default() -> GroupSpec {
        GroupSpec { weight: 100, quota: None, idle: false, reservation: None, parent: None }
    }
}

impl Hardware {
    pub(crate) fn add_slot(&mut self, occasion: Occasion) -> Slot {
        self.engine.add_slot(self.component, occasion.number())
    }

    /// Simulated time.
    pub fn now(&self) -> Nanos {
        self.engine.now()
    }

    /// From when on the time of a CPU is not booked: the present, or when what the kernel does of its own is over.
    pub fn free_from(&self, cpu: usize) -> Nanos {
        self.cpus[cpu].accounted.max(self.now())
    }

    /// A timer for a scheduler, which gets `number` back when it fires.
    pub fn add_timer(&mut self, rank: Rank, number: u32) -> Slot {
        let rank = u8::try_from(rank.0).expect("a few schedulers");
        self.add_slot(Occasion::Policy(rank, number))
    }

    /// Whether idle CPUs have ticks.
    pub(crate) fn ticks_while_idle(&self) -> bool {
        self.timers.as_ref().is_some_and(|timers| !timers.rules.stops_idle_tick)
    }

    /// Whether a CPU that goes idle loses its tick at once.
    pub(crate) fn stops_tick_at_once(&self) -> bool {
        self.timers.as_ref().is_none_or(|t| t.rules.stops_idle_tick && !t.rules.idle_tick_comes_once)
    }

    /// When a timer of a CPU that is due at an instant expires: without high resolution on its first tick from then on.
    pub(crate) fn timer_instant(&self, cpu: usize, due: Nanos) -> Nanos {
        match &self.timers {
            Some(timers) if !timers.rules.high_resolution => {
                on_grid(due, self.cpus[cpu].tick_phase, self.platform.tick)
            }
            _ => due,
        }
    }

    /// Arms a timer of a scheduler, which expires on a CPU; those of the whole machine on the first.
    pub(crate) fn arm_timer(&mut self, timer: Slot, cpu: usize, due: Nanos) {
        let at = self.timer_instant(cpu, due);
        self.engine.arm(timer, at);
    }

    /// The scheduler that takes threads of a policy.
    ///
    /// # Panics
    /// Where the machine has none for it.
    pub fn rank_of(&self, policy: &str) -> Rank {
        let taken = self.takes.iter().position(|takes| takes.contains(&policy));
        Rank(taken.unwrap_or_else(|| panic!("no scheduler of the machine takes the policy `{policy}`")))
    }

    /// The scheduler of a thread of a group: for realtime threads below a group with a reservation the one inside that.
    pub(crate) fn rank_in(&self, scheduling: Scheduling, group: Option<usize>) -> Rank {
        let rank = self.rank_of(scheduling.word());
        let inside = group.and_then(|group| self.inside_group[group]);
        inside.filter(|_| rank == self.rank_of(REALTIME)).unwrap_or(rank)
    }

    /// A thread.
    pub fn thread(&self, thread: ThreadId) -> &Thread {
        &self.threads[thread.index()]
    }

    /// The thread a CPU runs.
    pub fn current(&self, cpu: usize) -> Option<ThreadId> {
        self.cpus[cpu].current
    }

    /// The thread a CPU runs, when it is one of this scheduler.
    pub fn current_of(&self, cpu: usize, rank: Rank) -> Option<ThreadId> {
        self.cpus[cpu].current.filter(|t| self.thread(*t).rank == rank)
    }

    /// Whether a CPU has nothing to run and is not about to choose.
    pub fn is_idle(&self, cpu: usize) -> bool {
        self.cpus[cpu].current.is_none() && !self.cpus[cpu].reschedule
    }

    /// Has a CPU choose again as soon as the present event is over.
    #[inline]
    pub fn reschedule(&mut self, cpu: usize) {
        let was_due = std::mem::replace(&mut self.cpus[cpu].reschedule, true);
        if !was_due && self.cpus.len() > 1 {
            self.sets.due.0.set(cpu, true);
            self.sets.due.1 += 1;
        }
    }

    /// Stops the running thread of a CPU, so that a thread can go from there to another one (`stop_one_cpu_nowait`).
    pub fn stop_for(&mut self, cpu: usize, to: usize) {
        let to = u32::try_from(to).expect("fewer than 2^32 CPUs");
        self.cpus[cpu].pushes_to.get_or_insert(to);
        self.reschedule(cpu);
    }

    /// A CPU chooses now.
    #[inline]
    pub(crate) fn chooses(&mut self, cpu: usize) {
        let was_due = std::mem::replace(&mut self.cpus[cpu].reschedule, false);
        let served = std::mem::replace(&mut self.cpus[cpu].serves, false);
        if self.cpus.len() > 1 {
            if was_due {
                self.sets.due.0.set(cpu, false);
                self.sets.due.1 -= 1;
            }
            if served {
                self.sets.changed.set(cpu, true);
            }
        }
    }

    /// The thread a CPU is about to run is one that a more important scheduler serves.
    pub(crate) fn serves(&mut self, cpu: usize) {
        self.cpus[cpu].serves = true;
        if self.cpus.len() > 1 {
            self.sets.changed.set(cpu, true);
        }
    }

    /// The first CPU that must choose and may change hands.
    pub(crate) fn first_due(&self) -> Option<usize> {
        if let [cpu] = &self.cpus[..] {
            return (cpu.reschedule && cpu.handling.is_none()).then_some(0);
        }
        match self.sets.due.1 {
            0 => None,
            _ => self.sets.due.0.find(|cpu| self.cpus[cpu].handling.is_none()),
        }
    }

    /// CPUs without a thread that are not about to choose, the lowest first.
    pub fn idle_cpus(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.sets.idle().iter().filter(|cpu| !self.cpus[*cpu].reschedule)
    }

    /// The CPUs of the domains of one, the smallest first; all are one domain where nothing is said of them.
    pub(crate) fn near_to_far(&self, cpu: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let levels = self.domains.as_ref().map_or(&[][..], |domains| &domains.levels);
        let whole = levels.is_empty().then_some(0..self.cpus.len());
        levels.iter().map(move |level| level.span(cpu)).chain(whole)
    }

    /// Gives a CPU to a thread, or to none.
    #[inline]
    pub(crate) fn set_current(&mut self, cpu: usize, thread: Option<ThreadId>) {
        if self.cpus.len() > 1 {
            self.ranks_change(cpu, thread);
        }
        self.cpus[cpu].current = thread;
    }

    /// A CPU goes from its thread to another one: what is known of all CPUs by the schedulers of what they run.
    fn ranks_change(&mut self, cpu: usize, thread: Option<ThreadId>) {
        let idle = self.sets.running.len() - 1;
        let place = |thread: Option<ThreadId>| thread.map_or(idle, |thread| self.thread(thread).rank.0);
        let (left, entered) = (place(self.cpus[cpu].current), place(thread));
        if left != entered {
            self.sets.running[left].set(cpu, false);
            self.sets.running[entered].set(cpu, true);
        }
        self.sets.changed.set(cpu, true);
    }

    /// Schedules a thread otherwise, that may be running.
    pub(crate) fn set_scheduling(&mut self, thread: ThreadId, scheduling: Scheduling) {
        let Thread { group, asked, cpu, .. } = *self.thread(thread);
        // Who runs with what it is lent does so outside of its group's reservation.
        let rank = self.rank_in(scheduling, group.filter(|_| scheduling == asked));
        let runs = self.current(cpu) == Some(thread);
        let t = &mut self.threads[thread.index()];
        let old = std::mem::replace(&mut t.rank, rank);
        (t.scheduling, t.priority) = (scheduling, scheduling.priority());
        if runs {
            self.sets.running[old.0].set(cpu, false);
            self.sets.running[rank.0].set(cpu, true);
            self.sets.changed.set(cpu, true);
        }
    }

    /// The instant, CPU and thread an event on a CPU is recorded with.
    pub fn here(&self, cpu: usize) -> (Nanos, CpuId, Tid) {
        let current = self.cpus[cpu].current.map_or(Tid::IDLE, |t| self.thread(t).tid);
        (self.now(), self.cpus[cpu].id, current)
    }

    /// Records what happened on a CPU, where events are wanted.
    #[inline]
    pub(crate) fn keep(&mut self, cpu: usize, kept: Kept) {
        if self.recorder.is_wanted() {
            let here = self.here(cpu);
            self.recorder.keep(here, kept);
        }
    }

    /// Records what happened at a disk in the context of a CPU.
    pub(crate) fn keep_at_disk(&mut self, cpu: usize, mut at_disk: AtDisk) {
        if let AtDisk::Step(event) = &mut at_disk
            && event.step.has_name()
            && event.comm == Comm::default()
        {
            let current = self.cpus[cpu].current.map(|thread| self.thread(thread).comm);
            event.comm = current.unwrap_or_else(|| Named::idle(self.cpus[cpu].id).comm);
        }
        let here = self.here(cpu);
        self.recorder.keep(here, Kept::AtDisk(at_disk));
        self.submits = self.submits.max(Some(cpu));
    }

    /// Puts a thread that is in no queue on another CPU, or leaves it on its own.
    #[inline]
    pub fn migrate(&mut self, thread: ThreadId, to: usize) {
        if self.thread(thread).cpu != to {
            self.put_on(thread, to);
        }
    }

    fn put_on(&mut self, thread: ThreadId, to: usize) {
        let from = self.thread(thread).cpu;
        debug_assert!(self.thread(thread).may_run_on(to), "a pinned thread moves nowhere");
        if self.recorder.is_wanted() {
            let named = self.thread(thread).named();
            let (from, to) = (self.cpus[from].id, self.cpus[to].id);
            let here = self.here(self.thread(thread).cpu);
            self.recorder.keep(here, Kept::Migrate { thread: named, from, to });
        }
        self.threads[thread.index()].cpu = to;
    }

    /// Threads that a scheduler kept from a CPU stand in its queue again: schedulers that watch hear of it.
    pub fn rejoins(&mut self, cpu: usize, rank: Rank) {
        self.joined.push((cpu, rank));
    }

    /// Puts a thread that waits in a queue on another CPU, whose queue it joins: schedulers that watch hear of it.
    pub fn move_waiting(&mut self, thread: ThreadId, to: usize) {
        self.migrate(thread, to);
        self.joined.push((to, self.thread(thread).rank));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an event needs stands in the first line of a cache, and no thread takes more than three.
    #[test]
    fn a_thread_is_three_lines_of_a_cache() {
        assert_eq!(size_of::<Thread>(), 192);
    }
}
