//! [`Taken`]: which threads go from the busiest CPU to one that looks (`detach_tasks`, `need_active_balance` in `kernel/sched/fair.c`).

use std::slice;

use surety_units::Nanos;

use super::Balance;
use super::imbalance::{Amount, CAPACITY, Looks, MARGIN, Seen, is_reduced_by};
use crate::cpu::domains::Shared;
use crate::cpu::hardware::{Hardware, ThreadId};

/// How long a cache stays warm (`sysctl_sched_migration_cost`).
const WARM: Nanos = Nanos::from_micros(500);

/// Failures up to which a warm cache counts, where all share one (`cache_nice_tries`).
const TRIES: u32 = 1;

/// Threads looked at in one go (`sched_nr_migrate`).
const LOOKED_AT: usize = 32;

/// What a CPU takes, and from whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cpu::policies::fair) struct Taken {
    pub(in crate::cpu::policies::fair) from: usize,
    pub(in crate::cpu::policies::fair) threads: Threads,
    /// Whether the running thread is stopped, so that one can be taken.
    pub(in crate::cpu::policies::fair) stops: bool,
    /// The level at which that was found.
    pub(in crate::cpu::policies::fair) level: usize,
}

/// Threads that are taken: mostly one, for which nothing is allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cpu::policies::fair) enum Threads {
    One(ThreadId),
    Several(Vec<ThreadId>),
}

impl Threads {
    fn none() -> Threads {
        Threads::Several(Vec::new())
    }

    pub(in crate::cpu::policies::fair) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    pub(in crate::cpu::policies::fair) fn as_slice(&self) -> &[ThreadId] {
        match self {
            Threads::One(thread) => slice::from_ref(thread),
            Threads::Several(threads) => threads,
        }
    }
}

/// How often a CPU that balances a domain has failed, and what that is held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    failures: u32,
    tries: u32,
    /// Percent that make a difference.
    margin: u64,
    /// Whether its CPUs are of one core, so that no cache is left behind.
    in_core: bool,
}

impl Patience {
    /// Whether a warm cache does not count any more.
    pub(super) fn is_over(self) -> bool {
        self.failures > self.tries
    }
}

impl Balance {
    /// That of a CPU with one of its domains.
    pub(super) fn patience(&self, cpu: usize, level: usize) -> Patience {
        let failures = self.cpus[cpu].domain(level).failures;
        match self.levels.as_ref().map(|levels| levels.all[level]) {
            None => Patience { failures, tries: TRIES, margin: MARGIN, in_core: false },
            Some(of) => Patience {
                failures,
                tries: of.tries(),
                margin: of.margin(),
                in_core: of.shared == Shared::Core,
            },
        }
    }

    /// The threads that a CPU takes from another at a level (`detach_tasks`), none of which `load_of` tells no load.
    pub(super) fn fitting(
        &self,
        hardware: &Hardware,
        (from, to, level): (usize, usize, usize),
        looks: Looks,
        (busiest, amount): (&Seen, Amount),
        load_of: impl Fn(ThreadId) -> Option<i64>,
    ) -> Threads {
        if busiest.all < 2 {
            return Threads::none();
        }
        let (now, patience) = (hardware.now(), self.patience(to, level));
        let keeps_warm = !patience.in_core && !patience.is_over();
        let takes_left = self.sees_left || matches!(amount, Amount::Load(_));
        let stays = |thread: ThreadId| {
            let state = &self.threads[thread.index()];
            let is_warm = state.left_at.is_some_and(|at| now - at < WARM) && keeps_warm && !state.is_idler;
            hardware.current(from) == Some(thread)
                || !hardware.thread(thread).may_run_on(to)
                || is_warm
                || state.is_left && !takes_left
        };
        let stamp = |thread: &ThreadId| self.threads[thread.index()].stamp;
        let wanting = &self.cpus[from].wanting;
        if looks == Looks::NewlyIdle && matches!(amount, Amount::Threads(_)) && wanting.len() <= LOOKED_AT {
            // It takes the first that may come.
            let come = wanting.iter().copied().filter(|thread| !stays(*thread) && load_of(*thread).is_some());
            return come.min_by_key(stamp).map_or_else(Threads::none, Threads::One);
        }
        if wanting.iter().all(|thread| stays(*thread)) {
            return Threads::none();
        }
        let mut there = wanting.clone();
        there.sort_unstable_by_key(stamp);
        let (mut taken, mut left) = (Vec::new(), amount);
        for thread in there.into_iter().take(LOOKED_AT) {
            if stays(thread) {
                continue;
            }
            let state = &self.threads[thread.index()];
            let Some(own) = load_of(thread) else { continue };
            left = match left {
                Amount::Threads(threads) => Amount::Threads(threads - 1),
                Amount::Load(load) => {
                    let own = state.queued.get(now, own.unsigned_abs());
                    let own = self.part_of_load((thread, from), now, busiest.load, own).max(1);
                    if own >> patience.failures.min(63) > load {
                        continue;
                    }
                    Amount::Load(load.saturating_sub(own))
                }
                Amount::Used(room) => {
                    let own = state.used.get(now, CAPACITY);
                    if own >> patience.failures.min(63) > room {
                        continue;
                    }
                    Amount::Used(room.saturating_sub(own))
                }
            };
            taken.push(thread);
            let is_last = looks.is_idle() && busiest.all - taken.len() <= 1;
            if is_last || looks == Looks::NewlyIdle || left.is_none() {
                break;
            }
        }
        Threads::Several(taken)
    }

    /// Whether none of several threads of a CPU may come to another.
    pub(super) fn are_bound(&self, hardware: &Hardware, (from, to): (usize, usize), seen: &Seen) -> bool {
        let there = &self.cpus[from].wanting;
        let is_bound = |thread: &ThreadId| !hardware.thread(*thread).may_run_on(to);
        seen.all > 1 && !there.is_empty() && there.iter().all(is_bound)
    }

    /// Whether the running thread of a CPU is stopped to be taken, as nothing that waits there may be (`need_active_balance`).
    pub(super) fn stops(
        &self,
        hardware: &Hardware,
        (from, to, level): (usize, usize, usize),
        looks: Looks,
        (busiest, amount): (&Seen, Amount),
    ) -> bool {
        let Patience { failures, tries, margin, .. } = self.patience(to, level);
        let is_stuck = matches!(amount, Amount::Threads(_))
            && failures + u32::from(looks != Looks::NewlyIdle) > tries + 2;
        let is_short = looks.is_idle()
            && busiest.fair == 1
            && is_reduced_by(busiest.capacity, margin)
            && busiest.capacity * margin < self.cpus[to].capacity * 100;
        let is_allowed = hardware.current(from).is_none_or(|thread| hardware.thread(thread).may_run_on(to));
        (is_stuck || is_short) && is_allowed
    }

    /// The thread that goes from a CPU whose running one was stopped to another.
    pub(in crate::cpu::policies::fair) fn stopped(
        &self,
        hardware: &Hardware,
        from: usize,
        to: usize,
    ) -> Option<ThreadId> {
        let there = self.cpus[from].wanting.iter().copied();
        there
            .filter(|thread| hardware.thread(*thread).may_run_on(to))
            .min_by_key(|thread| self.threads[thread.index()].stamp)
    }
}
