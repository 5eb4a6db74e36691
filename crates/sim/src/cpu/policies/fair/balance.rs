//! [`Balance`]: on which CPU a fair thread runs. This is a model, stated here, not the kernel's code.
//!
//! The kernel's choice depends on caches, domains and averages over tens of milliseconds. The model keeps its
//! outcome on a machine of alike CPUs that share a cache:
//!
//! - A new thread goes to an idle CPU, else to the one with the least weight.
//! - A woken thread stays on its CPU if that is idle, else goes to an idle one, else stays.
//! - A CPU about to idle takes a waiting thread from the CPU with most of them; on its tick a busy CPU with a
//!   waiting thread hands it to an idle one.
//! - Every 16 ms times the number of CPUs a busy CPU looks at the one with the most weight and takes a waiting
//!   thread worth at most what evens both out. Each time in a row it finds none, it is content with one worth
//!   twice as much, but never more than the whole difference (`sd->nr_balance_failed`): so three equal threads
//!   on two CPUs take turns.
//! - What evens CPUs `a` and `b` out counts what more important schedulers leave of them, averaged over some tens of
//!   milliseconds ([`Average`], `scale_rt_capacity`): `(L_b C_a - L_a C_b) / (C_a + C_b)` for weights `L` and capacities
//!   `C` (`calculate_imbalance`), half the difference where both are alike. Of two CPUs with realtime hogs the one that
//!   served its fair thread last keeps the next one for longer.
//! - A CPU that more important threads keep busy and that has no fair one takes none while its capacity is above the least:
//!   it counts as one with spare capacity, and such a one pulls only when it is idle (`sibling_imbalance`). At the
//!   least, any remnant of fair time there makes it count as fully busy.
//!
//! Among equal CPUs the lowest number wins, among threads the one that joined last.

use surety_units::Nanos;

use super::average::Average;
use crate::cpu::hardware::{Hardware, Rank, Thread, ThreadId};
use crate::cpu::places::Places;
use crate::cpu::policy::Arrival;

/// Time between two looks at the other CPUs, for each CPU there is (`busy_factor` times the domain's weight, ms).
const INTERVAL_PER_CPU: Nanos = Nanos::from_millis(16);

/// Where fair threads are.
#[derive(Clone, Debug)]
pub(super) struct Balance {
    rank: Rank,
    /// Threads that want each CPU, the running one included, in the order they joined. Empty on one CPU.
    wanting: Vec<Vec<ThreadId>>,
    /// CPUs that exactly one of them wants, and those that several do.
    by_one: Places,
    by_several: Places,
    next: Vec<Nanos>,
    failures: Vec<u32>,
    /// How much of each CPU more important schedulers use.
    outranked: Vec<Average>,
    interval: Nanos,
}

/// What a CPU finds when it looks at the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A thread that evens them out.
    Thread(ThreadId),
    /// None that does.
    Nothing,
    /// Nothing to even out.
    Even,
}

/// What a CPU could give fair threads with nobody more important there.
const CAPACITY: u64 = 1024;

impl Balance {
    pub(super) fn new(hardware: &Hardware, rank: Rank) -> Balance {
        let cpus = hardware.cpus.len();
        let interval = INTERVAL_PER_CPU * i64::try_from(cpus).expect("fewer than 2^63 CPUs");
        let wanting = if cpus > 1 { vec![Vec::new(); cpus] } else { Vec::new() };
        let outranked = vec![Average::default(); cpus];
        let (by_one, by_several) = (Places::none(cpus), Places::none(cpus));
        Balance {
            rank,
            wanting,
            by_one,
            by_several,
            next: vec![interval; cpus],
            failures: vec![0; cpus],
            outranked,
            interval,
        }
    }

    /// A thread of the scheduler `of`, or nothing, has run on a CPU for `ran`.
    pub(super) fn ran(&mut self, cpu: usize, of: Option<Rank>, ran: Nanos, now: Nanos) {
        self.outranked[cpu].turn(now - ran, of.is_some_and(|of| of < self.rank));
    }

    /// What more important schedulers leave of a CPU, 1..=1024.
    fn capacity(&self, cpu: usize, now: Nanos) -> u64 {
        (CAPACITY - self.outranked[cpu].get(now).min(CAPACITY)).max(1)
    }

    pub(super) fn joins(&mut self, cpu: usize, thread: ThreadId) {
        if let Some(list) = self.wanting.get_mut(cpu) {
            list.push(thread);
            self.count(cpu);
        }
    }

    pub(super) fn leaves(&mut self, cpu: usize, thread: ThreadId) {
        if let Some(list) = self.wanting.get_mut(cpu) {
            // Mostly one that joined last.
            if let Some(place) = list.iter().rposition(|t| *t == thread) {
                list.remove(place);
            }
            self.count(cpu);
        }
    }

    fn count(&mut self, cpu: usize) {
        let wanting = self.wanting[cpu].len();
        self.by_one.set(cpu, wanting == 1);
        self.by_several.set(cpu, wanting > 1);
    }

    /// CPUs where a thread may wait and not run when they choose; of all others that is known.
    pub(super) fn crowded<'a>(&'a self, hardware: &'a Hardware) -> impl Iterator<Item = usize> + 'a {
        let others = (0..hardware.sets.running.len()).filter(|rank| *rank != self.rank.0);
        self.by_several.joined(&self.by_one, others.map(|rank| &hardware.sets.running[rank]))
    }

    /// The CPU for a new or woken thread.
    pub(super) fn place(
        &self,
        hardware: &Hardware,
        thread: &Thread,
        arrival: Arrival,
        load: impl Fn(usize) -> i64,
    ) -> usize {
        let previous = thread.cpu;
        if arrival != Arrival::New && hardware.is_idle(previous) && self.wanting[previous].is_empty() {
            return previous;
        }
        let cpus = (0..hardware.cpus.len()).filter(|cpu| thread.may_run_on(*cpu));
        let idle = self.free(hardware).find(|cpu| thread.may_run_on(*cpu));
        match arrival {
            Arrival::New => idle.or_else(|| cpus.min_by_key(|cpu| load(*cpu))).unwrap_or(previous),
            _ => idle.unwrap_or(previous),
        }
    }

    /// Idle CPUs that no thread wants, the lowest first.
    fn free(&self, hardware: &Hardware) -> impl Iterator<Item = usize> {
        hardware.idle_cpus().filter(|cpu| self.wanting[*cpu].is_empty())
    }

    /// How many threads of a CPU wait and will not run when it chooses.
    fn spare(&self, hardware: &Hardware, cpu: usize) -> usize {
        let elsewhere = hardware.current(cpu).is_some_and(|t| hardware.thread(t).rank != self.rank);
        self.wanting[cpu].len() - usize::from(!elsewhere && !self.wanting[cpu].is_empty())
    }

    fn movable(&self, hardware: &Hardware, from: usize, to: usize) -> impl Iterator<Item = ThreadId> {
        let current = hardware.current(from);
        let may = move |t: &&ThreadId| Some(**t) != current && hardware.thread(**t).may_run_on(to);
        self.wanting[from].iter().rev().filter(may).copied()
    }

    /// The CPU with most waiting threads, and the one of them that would go to `cpu`.
    pub(super) fn busiest_spare(&self, hardware: &Hardware, cpu: usize) -> Option<(usize, ThreadId)> {
        self.crowded(hardware)
            .filter(|other| *other != cpu)
            .filter_map(|other| {
                let spare = self.spare(hardware, other);
                let thread = (spare > 0).then(|| self.movable(hardware, other, cpu).next())??;
                Some((spare, other, thread))
            })
            .max_by_key(|(spare, other, _)| (*spare, std::cmp::Reverse(*other)))
            .map(|(_, other, thread)| (other, thread))
    }

    /// A waiting thread of a busy CPU for an idle one.
    pub(super) fn spare_for_idle(&self, hardware: &Hardware, cpu: usize) -> Option<(ThreadId, usize)> {
        if self.spare(hardware, cpu) == 0 {
            return None;
        }
        self.free(hardware)
            .find_map(|idle| self.movable(hardware, cpu, idle).next().map(|thread| (thread, idle)))
    }

    /// Whether a busy CPU has to balance on this tick.
    pub(super) fn is_due(&mut self, hardware: &Hardware, cpu: usize) -> bool {
        if hardware.now() >= self.next[cpu] {
            self.next[cpu] = hardware.now() + self.interval;
            return true;
        }
        self.spare_for_idle(hardware, cpu).is_some()
    }

    /// What a CPU finds when it looks at the one with the most load.
    pub(super) fn relieve_busiest(
        &self,
        hardware: &Hardware,
        cpu: usize,
        load: impl Fn(usize) -> i64,
        load_of: impl Fn(ThreadId) -> i64,
    ) -> Found {
        let others = self.crowded(hardware).filter(|other| *other != cpu && self.spare(hardware, *other) > 0);
        let others = others.map(|other| (load(other), std::cmp::Reverse(other)));
        let (Some((theirs, std::cmp::Reverse(busiest))), own) = (others.max(), load(cpu)) else {
            return Found::Even;
        };
        if own == 0 && self.capacity(cpu, hardware.now()) > 1 {
            return Found::Even;
        }
        let difference = theirs - own;
        let [here, there] = [cpu, busiest].map(|cpu| i128::from(self.capacity(cpu, hardware.now())));
        let uneven = (i128::from(theirs) * here - i128::from(own) * there) / (here + there);
        let fits = |thread: &ThreadId| {
            let load = load_of(*thread);
            load <= difference && i128::from(load >> self.failures[cpu].min(32)) <= uneven
        };
        match self.movable(hardware, busiest, cpu).find(fits) {
            Some(thread) => Found::Thread(thread),
            None if uneven > 0 => Found::Nothing,
            None => Found::Even,
        }
    }

    /// Remembers what a CPU found.
    pub(super) fn looked(&mut self, cpu: usize, found: Found) {
        self.failures[cpu] = if found == Found::Nothing { self.failures[cpu] + 1 } else { 0 };
    }
}
