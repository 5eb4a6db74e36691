//! `muqss`: the Multiple Queue Skiplist Scheduler, after `kernel/sched/MuQSS.c` of 4.12 (C. Kolivas). No kernel of the lab has it:
//! it is held against its rules alone.
//!
//! A thread has a slice and a virtual deadline,
//!
//! ```text
//! deadline = now + ratio(nice) rr_interval 2^20/128 ns      ratio(-20) = 128, times 11/10 for each nice, rounded down
//! slice    = rr_interval 2^10 us                            rr_interval = 6
//! ```
//!
//! and both are refilled together, only when less than 100 us of the slice are left: they are kept while it sleeps or is preempted.
//! Each CPU has a queue in the order of deadlines; the skip list is how the kernel keeps it sorted, and no more than that. A CPU that
//! chooses takes the earliest deadline of all queues (`interactive`), its own first and then the others in order of locality. It
//! looks at the first of each without a lock, and goes by a queue whose lock another CPU holds.
//!
//! *Classes*: `iso` stands above all others and runs in turns, while it takes no more than 70 % of a CPU in the mean of 5 s; beyond that
//! its threads are as others until it is below 115/128 of that. `idle` stands below all. `batch` takes over from nobody and has its slice
//! and deadline refilled each time the CPU chooses.
//!
//! *Wake-ups*: to an idle CPU, else to the first in order of locality whose thread comes later; a thread that would run nowhere
//! waits on its own CPU. One that is preempted wakes an idle CPU to be taken there.
//!
//! *A model*: that a lock is held is a matter of chance here, seeded: the time it is held for, times how often that CPU changes hands.
//! All CPUs share a cache, so locality is the order of their numbers from a CPU's own on. A new thread has a whole slice; the kernel
//! divides its parent's.

use surety_model::workload::PolicySpec;
use surety_stats::random::Pcg;
use surety_units::Nanos;

use crate::cpu::hardware::{Hardware, Rank, Scheduling, ThreadId};
use crate::cpu::policy::{Arrival, CpuPolicy, Departure, Pick};
use crate::cpu::sorted::Sorted;
use crate::engine::Slot;

/// `rr_interval`, in what the kernel takes for milliseconds.
const RR_INTERVAL: i64 = 6;
/// A slice, ns.
const SLICE: i64 = (RR_INTERVAL << 10) * 1_000;
/// A slice with less than this is used up, ns (`RESCHED_US`).
const USED_UP: i64 = 100_000;
/// What `iso` may have of a CPU, percent (`sched_iso_cpu`), and from where on it may again.
const ISO_PERCENT: i64 = 70;
const ISO_AGAIN: i64 = ISO_PERCENT * 115 / 128;
/// The time over which that is the mean.
const ISO_PERIOD: Nanos = Nanos::from_secs(5);
/// How long the lock of a queue is held for a choice.
const LOCK_HELD: Nanos = Nanos::from_micros(1);
/// Stream of the chance by which a lock is held.
const LOCK_STREAM: u128 = 0x006d_7571_7373;
/// Keys of `idle` threads lie behind those of all others, and those of `iso` before them.
const BEYOND: i64 = 1 << 61;

/// What a thread comes before or behind, whatever the deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Iso,
    Normal,
    Idle,
}

/// What the scheduler keeps of a thread.
#[derive(Clone, Copy, Debug)]
struct Entity {
    deadline: i64,
    /// What is left of it, ns.
    slice: i64,
    /// Its key and its order in its queue, while it stands there.
    place: Option<(i64, u64)>,
}

/// The queue of one CPU, its running thread included.
#[derive(Default)]
struct Queue {
    threads: Sorted<0>,
    /// When the CPU last changed hands, and how long it has lately been from one change to the next.
    changed: Nanos,
    between: Nanos,
    /// Percent of the time that `iso` ran, times the ticks of the mean; the tick it was last looked at.
    iso: i64,
    iso_at: Nanos,
    /// Whether `iso` has had more than it may.
    is_refractory: bool,
}

/// The scheduler.
pub struct Muqss {
    rank: Rank,
    queues: Vec<Queue>,
    entities: Vec<Entity>,
    /// Ends of slices, per CPU.
    slice_ends: Vec<Slot>,
    /// What a CPU that is about to choose found elsewhere.
    found: Option<(ThreadId, usize)>,
    chance: Pcg,
}

/// How far ahead the deadline of a nice value is, ns.
pub fn deadline_ahead(nice: i32) -> i64 {
    let ratio = (-20..nice).fold(128, |ratio: i64, _| ratio * 11 / 10);
    ratio * RR_INTERVAL * ((1 << 20) / 128)
}

fn policy_of(hardware: &Hardware, thread: ThreadId) -> PolicySpec {
    match hardware.thread(thread).scheduling {
        Scheduling::Policy(policy) => policy,
        _ => PolicySpec::default(),
    }
}

impl Muqss {
    /// For a machine without threads.
    pub fn new(hardware: &mut Hardware, rank: Rank) -> Muqss {
        let cpus = hardware.cpus.len();
        let number = |cpu: usize| u32::try_from(cpu).expect("fewer than 2^32 CPUs");
        Muqss {
            rank,
            queues: (0..cpus).map(|_| Queue::default()).collect(),
            entities: Vec::new(),
            slice_ends: (0..cpus).map(|cpu| hardware.add_timer(rank, number(cpu))).collect(),
            found: None,
            chance: Pcg::new(hardware.seed.into(), LOCK_STREAM),
        }
    }

    fn class(&self, hardware: &Hardware, cpu: usize, thread: ThreadId) -> Class {
        match policy_of(hardware, thread) {
            PolicySpec::Idle => Class::Idle,
            PolicySpec::Simulated { word: "iso", .. } if !self.queues[cpu].is_refractory => Class::Iso,
            _ => Class::Normal,
        }
    }

    /// CPUs from one on, the nearest first.
    fn nearest(&self, cpu: usize) -> impl Iterator<Item = usize> + use<> {
        let cpus = self.queues.len();
        (0..cpus).map(move |step| (cpu + step) % cpus)
    }

    fn insert(&mut self, hardware: &Hardware, cpu: usize, thread: ThreadId) {
        let key = match self.class(hardware, cpu, thread) {
            Class::Iso => -BEYOND,
            Class::Normal => self.entities[thread.index()].deadline,
            Class::Idle => BEYOND + self.entities[thread.index()].deadline,
        };
        let order = self.queues[cpu].threads.insert(key, thread.0, []);
        self.entities[thread.index()].place = Some((key, order));
    }

    fn remove(&mut self, cpu: usize, thread: ThreadId) {
        if let Some((key, order)) = self.entities[thread.index()].place.take() {
            self.queues[cpu].threads.remove(key, order);
        }
    }

    /// A new slice and deadline (`time_slice_expired`).
    fn refill(&mut self, hardware: &Hardware, thread: ThreadId) {
        let nice = policy_of(hardware, thread).parameters().nice;
        let entity = &mut self.entities[thread.index()];
        (entity.slice, entity.deadline) = (SLICE, hardware.now().get() + deadline_ahead(nice));
    }

    /// The same for one that the CPU may leave, where it is due (`check_deadline`); whether it was.
    fn refill_if_due(&mut self, hardware: &Hardware, thread: ThreadId) -> bool {
        let is_batch = matches!(policy_of(hardware, thread), PolicySpec::Batch { .. });
        let is_due = is_batch || self.entities[thread.index()].slice < USED_UP;
        if is_due {
            self.refill(hardware, thread);
        }
        is_due
    }

    /// The running thread of a CPU goes where it stands when the CPU chooses.
    fn put_back(&mut self, hardware: &Hardware, cpu: usize) {
        let current = hardware.current_of(cpu, self.rank);
        if let Some(current) = current.filter(|thread| self.is_queued(*thread))
            && self.refill_if_due(hardware, current)
        {
            self.remove(cpu, current);
            self.insert(hardware, cpu, current);
        }
    }

    /// Has the CPU choose when the slice of the thread that it runs is over (`hrexpiry_start`).
    fn time_slice(&self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        let left = Nanos::new(self.entities[thread.index()].slice.max(1));
        hardware.arm_timer(self.slice_ends[cpu], cpu, hardware.free_from(cpu) + left);
    }

    /// Whether a thread comes before what a CPU runs (`can_preempt`).
    fn takes_over(&self, hardware: &Hardware, cpu: usize, thread: ThreadId) -> bool {
        let Some(current) = hardware.current(cpu) else { return true };
        let rank = hardware.thread(current).rank;
        if rank != self.rank {
            return rank > self.rank;
        }
        let [own, other] = [thread, current].map(|thread| self.class(hardware, cpu, thread));
        let [own_end, other_end] = [thread, current].map(|thread| self.entities[thread.index()].deadline);
        match policy_of(hardware, thread) {
            PolicySpec::Idle => false,
            PolicySpec::Batch { .. } => own < other,
            _ => own < other || own == other && own_end < other_end,
        }
    }

    /// Whether the lock of a queue is held at this moment.
    fn is_locked(&mut self, cpu: usize) -> bool {
        let between = self.queues[cpu].between;
        between.is_positive() && self.chance.below(between.get_unsigned()) < LOCK_HELD.get_unsigned()
    }

    /// An idle CPU that a thread may run on, the nearest first.
    fn idle_cpu(&self, hardware: &Hardware, thread: ThreadId) -> Option<usize> {
        let t = hardware.thread(thread);
        self.nearest(t.cpu).find(|cpu| hardware.is_idle(*cpu) && t.may_run_on(*cpu))
    }

    /// The tick of a CPU: how much of the time `iso` had (`iso_tick`, `no_iso_tick`).
    fn count_iso(&mut self, hardware: &Hardware, cpu: usize, is_iso: bool) {
        let tick = hardware.platform.tick;
        let ticks_of_mean = ISO_PERIOD.div_floor(tick).max(1);
        let queue = &mut self.queues[cpu];
        let ticks = (hardware.now() - queue.iso_at).div_floor(tick).clamp(1, ticks_of_mean);
        queue.iso_at = hardware.now();
        queue.iso = queue.iso * (ticks_of_mean - ticks) / ticks_of_mean;
        if is_iso {
            queue.iso += 100;
        }
        if queue.iso > ticks_of_mean * ISO_PERCENT {
            queue.is_refractory = true;
        } else if !is_iso && queue.iso < ticks_of_mean * ISO_AGAIN {
            queue.is_refractory = false;
        }
    }

    /// Threads of `iso` stand elsewhere in the queue of a CPU from now on.
    fn sort_again(&mut self, hardware: &mut Hardware, cpu: usize) {
        let threads: Vec<ThreadId> =
            self.queues[cpu].threads.iter().map(|member| ThreadId(member.item)).collect();
        for thread in threads {
            self.remove(cpu, thread);
            self.insert(hardware, cpu, thread);
        }
        hardware.reschedule(cpu);
    }
}

/// Makes the scheduler, for a machine without threads.
pub(super) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    Box::new(Muqss::new(hardware, rank))
}

impl CpuPolicy for Muqss {
    fn admit(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        self.entities.push(Entity { deadline: 0, slice: 0, place: None });
        self.refill(hardware, thread);
    }

    fn select_cpu(&mut self, hardware: &mut Hardware, thread: ThreadId, arrival: Arrival) -> usize {
        if arrival == Arrival::New {
            self.refill(hardware, thread);
        }
        let t = hardware.thread(thread);
        let fits = |cpu: &usize| t.may_run_on(*cpu) && self.takes_over(hardware, *cpu, thread);
        let is_free = |cpu: usize| !hardware.cpus[cpu].reschedule;
        self.idle_cpu(hardware, thread)
            .or_else(|| self.nearest(t.cpu).find(|cpu| is_free(*cpu) && fits(cpu)))
            .unwrap_or(t.cpu)
    }

    fn enqueue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, arrival: Arrival) {
        if arrival == Arrival::Changed {
            self.refill(hardware, thread);
        }
        self.insert(hardware, cpu, thread);
    }

    fn dequeue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, _departure: Departure) {
        self.refill_if_due(hardware, thread);
        self.remove(cpu, thread);
    }

    fn pick(&mut self, hardware: &mut Hardware, cpu: usize) -> Pick {
        self.put_back(hardware, cpu);
        let Some(first) = self.queues[cpu].threads.first() else { return Pick::Nothing };
        let thread = ThreadId(first.item);
        if hardware.current(cpu) == Some(thread) {
            self.time_slice(hardware, cpu, thread);
        }
        Pick::Thread(thread)
    }

    fn switch(
        &mut self,
        hardware: &mut Hardware,
        cpu: usize,
        prev: Option<ThreadId>,
        next: Option<ThreadId>,
    ) {
        let (now, queue) = (hardware.now(), &mut self.queues[cpu]);
        queue.between = (queue.between * 7 + (now - queue.changed)) / 8;
        queue.changed = now;
        match next {
            Some(next) => self.time_slice(hardware, cpu, next),
            None => hardware.engine.cancel(self.slice_ends[cpu]),
        }
        if let Some(prev) = prev.filter(|prev| self.entities[prev.index()].place.is_some())
            && let Some(idle) = self.idle_cpu(hardware, prev)
        {
            hardware.reschedule(idle);
        }
    }

    fn account(&mut self, _hardware: &mut Hardware, _cpu: usize, thread: ThreadId, ran: Nanos) {
        self.entities[thread.index()].slice -= ran.get();
    }

    fn tick(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        let was_refractory = self.queues[cpu].is_refractory;
        let is_iso = self.class(hardware, cpu, thread) == Class::Iso;
        self.count_iso(hardware, cpu, is_iso);
        if self.queues[cpu].is_refractory != was_refractory {
            self.sort_again(hardware, cpu);
        }
        if self.entities[thread.index()].slice < USED_UP {
            hardware.reschedule(cpu);
        }
    }

    fn wakeup_preempt(&mut self, hardware: &mut Hardware, cpu: usize, _current: ThreadId, woken: ThreadId) {
        if self.takes_over(hardware, cpu, woken) {
            hardware.reschedule(cpu);
        }
    }

    fn is_queued(&self, thread: ThreadId) -> bool {
        self.entities[thread.index()].place.is_some()
    }

    fn timer_cpu(&self, number: u32) -> Option<usize> {
        Some(number as usize)
    }

    fn accounts_for_timer(&self, _number: u32) -> bool {
        true
    }

    fn timer(&mut self, hardware: &mut Hardware, number: u32) {
        hardware.reschedule(number as usize);
    }

    /// Whoever runs is put back before the CPU looks at others.
    fn looks(&mut self, hardware: &Hardware, cpu: usize) -> bool {
        self.put_back(hardware, cpu);
        true
    }

    fn pulls_from(&mut self, hardware: &Hardware, cpu: usize) -> Option<usize> {
        self.found = None;
        let mut best = self.queues[cpu].threads.first().map_or(i64::MAX, |first| first.key);
        for other in self.nearest(cpu).skip(1) {
            let current = hardware.current(other).map(|thread| thread.0);
            let queue = &self.queues[other].threads;
            let waiting = || queue.iter().filter(|member| Some(member.item) != current);
            if waiting().next().is_none_or(|first| first.key >= best) {
                continue;
            }
            let fits = waiting().find(|member| hardware.thread(ThreadId(member.item)).may_run_on(cpu));
            let fits = fits.filter(|member| member.key < best).copied();
            if self.is_locked(other) {
                continue;
            }
            if let Some(member) = fits {
                (best, self.found) = (member.key, Some((ThreadId(member.item), other)));
            }
        }
        self.found.map(|(_, from)| from)
    }

    fn pull(&mut self, hardware: &mut Hardware, cpu: usize) {
        if let Some((thread, from)) = self.found.take() {
            self.remove(from, thread);
            hardware.move_waiting(thread, cpu);
            self.insert(hardware, cpu, thread);
        }
    }
}
