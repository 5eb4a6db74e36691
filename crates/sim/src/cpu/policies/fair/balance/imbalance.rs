//! How uneven two CPUs are, and what evens them out (`sched_balance_find_src_group`, `calculate_imbalance` in `kernel/sched/fair.c`), where
//! each CPU is a group of its own and all share a cache.
//!
//! A CPU is of one of four kinds ([`Kind`]), by how many threads it has and by averages over some tens of milliseconds. One takes
//! threads from another only if that one is not of a lesser kind:
//!
//! - A CPU with spare capacity takes none while it is busy. An idle one takes half of the threads it has less than the other, at least
//!   two of which must be there.
//! - Any other takes load from an overloaded one, as much as brings either to the mean of the domain: with loads `L` and capacities
//!   `C`, `min((L_b / C_b - M) C_b, (M - L_a / C_a) C_a)` where `M` is the sum of all `L` over that of all `C`. Where it is
//!   overloaded too, the other must have 17 % more.
//! - A CPU that a realtime hog keeps from fair threads has capacity 1. It has none to spare then, and takes its part of them.
//! - An idle CPU also takes the only thread of one to which more important threads leave less than 1024 / 1.17.

/// What a CPU could give fair threads with nobody more important there.
pub(super) const CAPACITY: u64 = 1024;

/// Percent that make a difference (`imbalance_pct`).
pub(super) const MARGIN: u64 = 117;

/// How a CPU stands, the least loaded first (`group_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Spare,
    FullyBusy,
    /// One fair thread, where more important ones leave too little (`group_misfit_task`).
    Reduced,
    Overloaded,
}

/// What a CPU does that balances (`cpu_idle_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cpu::policies::fair) enum Looks {
    Busy,
    /// It is about to idle.
    NewlyIdle,
    Idle,
}

impl Looks {
    pub(super) fn is_idle(self) -> bool {
        self != Looks::Busy
    }
}

/// A CPU as others see it (`sg_lb_stats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) load: u64,
    pub(super) runnable: u64,
    pub(super) used: u64,
    /// Fair threads there, and threads of all schedulers.
    pub(super) fair: usize,
    pub(super) all: usize,
    pub(super) capacity: u64,
}

/// Any load but none: that of a CPU at which nobody has looked for it.
const ANY: u64 = 1;

impl Seen {
    /// A CPU with these averages, fair threads and threads of all schedulers, whose load was not looked at. How much of it was used is asked
    /// for where that tells its kind.
    #[inline]
    pub(super) fn without_load(
        runnable: u64,
        used: impl FnOnce() -> u64,
        (fair, all): (usize, usize),
        capacity: u64,
    ) -> Seen {
        let seen = Seen { load: ANY, runnable, used: 0, fair, all, capacity };
        if seen.is_crowded() && all > 1 { seen } else { Seen { used: used(), ..seen } }
    }

    /// A CPU with no thread.
    pub(super) fn empty(capacity: u64) -> Seen {
        Seen { load: ANY, runnable: 0, used: 0, fair: 0, all: 0, capacity }
    }

    /// Whether more threads want it, on average, than it has capacity for.
    #[inline]
    fn is_crowded(&self) -> bool {
        self.capacity * MARGIN < self.runnable * 100
    }

    /// The same with its load, where that is asked for to tell whether it is busier than another one.
    #[inline]
    pub(super) fn with_load(self, by: Looks, load: impl FnOnce() -> u64) -> Seen {
        match self.kind(Some(by)) {
            Kind::Overloaded | Kind::Reduced => Seen { load: load(), ..self },
            Kind::FullyBusy | Kind::Spare => self,
        }
    }

    /// Its kind; `by` is whoever asks about another CPU, nobody about its own.
    pub(super) fn kind(&self, by: Option<Looks>) -> Kind {
        let is_short = |capacity: u64, used: u64| capacity * 100 < used * MARGIN;
        let is_crowded = self.is_crowded();
        if self.all > 1 && (is_crowded || is_short(self.capacity, self.used)) {
            return Kind::Overloaded;
        }
        if by.is_some_and(Looks::is_idle) && self.fair == 1 && is_reduced(self.capacity) && self.load > 0 {
            return Kind::Reduced;
        }
        // Fair threads of the kernel's own leave a trace on every CPU.
        let has_room = self.all == 0 || !is_crowded && self.capacity * 100 > self.used.max(1) * MARGIN;
        if has_room { Kind::Spare } else { Kind::FullyBusy }
    }

    /// Load to capacity, times 1024.
    pub(super) fn density(&self) -> u64 {
        // Divided only where more important threads run at times.
        if self.capacity == CAPACITY { self.load } else { self.load * CAPACITY / self.capacity }
    }

    /// What tells whether it is busier than another one: its kind, then what decides among those of one kind.
    pub(super) fn rank(&self, by: Looks) -> (Kind, u64) {
        let kind = self.kind(Some(by));
        let figure = match kind {
            Kind::Overloaded => self.density(),
            Kind::Reduced => self.load,
            Kind::FullyBusy => 0,
            Kind::Spare => self.all as u64,
        };
        (kind, figure)
    }
}

/// Whether more important threads leave too little of a CPU (`check_cpu_capacity`).
pub(super) fn is_reduced(capacity: u64) -> bool {
    is_reduced_by(capacity, MARGIN)
}

/// The same with a margin in percent.
pub(super) fn is_reduced_by(capacity: u64, margin: u64) -> bool {
    capacity * margin < CAPACITY * 100
}

/// What is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    Load(u64),
    Threads(u64),
    /// CPU time, in parts of a CPU's capacity (`migrate_util`).
    Used(u64),
}

impl Amount {
    /// Whether there is nothing more.
    pub(super) fn is_none(self) -> bool {
        matches!(self, Amount::Load(0) | Amount::Threads(0) | Amount::Used(0))
    }
}

/// What a CPU takes from the busiest other one; nothing where both are even. `mean` is the density of the domain.
pub(super) fn amount(looks: Looks, local: &Seen, busiest: &Seen, mean: u64) -> Option<Amount> {
    let (here, there) = (local.kind(None), busiest.kind(Some(looks)));
    if there == Kind::Reduced {
        return Some(Amount::Load(busiest.load));
    }
    if here > there {
        return None;
    }
    if here == Kind::Overloaded {
        let (own, theirs) = (local.density(), busiest.density());
        if own >= theirs || own >= mean || 100 * theirs <= MARGIN * own {
            return None;
        }
    }
    if there != Kind::Overloaded && (!looks.is_idle() || busiest.fair == 1) {
        return None;
    }
    if here == Kind::Spare {
        let more = if looks.is_idle() { busiest.all.saturating_sub(local.all) as u64 / 2 } else { 0 };
        return (more > 0).then_some(Amount::Threads(more));
    }
    let own = local.density();
    if here != Kind::Overloaded && (own >= busiest.density() || own >= mean) {
        return None;
    }
    // The kernel's difference has no sign: where the busiest is below the mean, which one heavy thread can make high, it bounds nothing.
    let surplus = busiest.density().checked_sub(mean).map_or(u64::MAX, |more| more * busiest.capacity);
    let room = mean.saturating_sub(own) * local.capacity;
    let load = surplus.min(room) / CAPACITY;
    (load > 0).then_some(Amount::Load(load))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spinning(threads: usize) -> Seen {
        let load = 1024 * threads as u64;
        let used = if threads > 0 { 1024 } else { 0 };
        Seen { load, runnable: load, used, fair: threads, all: threads, capacity: CAPACITY }
    }

    #[test]
    fn kinds_are_by_threads_and_averages() {
        let short_of_time = Seen { capacity: 700, ..spinning(1) };
        for (seen, by, kind) in [
            (spinning(0), None, Kind::Spare),
            (spinning(1), None, Kind::FullyBusy),
            (Seen { used: 500, ..spinning(1) }, None, Kind::Spare),
            (spinning(2), None, Kind::Overloaded),
            (Seen { used: 300, runnable: 400, ..spinning(2) }, None, Kind::Spare),
            (short_of_time, Some(Looks::Idle), Kind::Reduced),
            (short_of_time, Some(Looks::Busy), Kind::FullyBusy),
        ] {
            assert_eq!(seen.kind(by), kind, "{seen:?} {by:?}");
        }
    }

    /// A bound of the averages and of the number of threads is one of the rank.
    #[test]
    fn with_greater_averages_and_more_threads_nobody_is_less_busy() {
        let mut state = 5_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..50_000 {
            let fair = next(4) as usize;
            let (load, runnable, used) = (next(3) * next(3000), next(4000), next(1025));
            let (all, capacity) = (fair + next(2) as usize, 1 + next(1024));
            let seen = Seen { load, runnable, used, fair, all, capacity };
            let (load, runnable, used) = (load + next(50), runnable + next(50), used + next(50));
            let more = Seen { load, runnable, used, all: all + next(2) as usize, ..seen };
            for looks in [Looks::Busy, Looks::NewlyIdle, Looks::Idle] {
                assert!(seen.rank(looks) <= more.rank(looks), "{seen:?} {more:?}");
            }
        }
    }

    #[test]
    fn amounts_even_out() {
        for (looks, here, there, mean, taken) in [
            (Looks::Busy, 1, 2, 1536, Some(Amount::Load(512))),
            (Looks::Busy, 2, 2, 2048, None),
            (Looks::Busy, 1, 1, 1024, None),
            (Looks::Busy, 2, 4, 3072, Some(Amount::Load(1024))),
            (Looks::NewlyIdle, 0, 2, 1024, Some(Amount::Threads(1))),
            (Looks::Idle, 0, 5, 2560, Some(Amount::Threads(2))),
            (Looks::Idle, 0, 1, 512, None),
        ] {
            let found = amount(looks, &spinning(here), &spinning(there), mean);
            assert_eq!(found, taken, "{looks:?} with {here}, {there} elsewhere");
        }
    }

    #[test]
    fn a_busy_cpu_takes_nothing_while_it_has_capacity_to_spare() {
        let hog = Seen { load: 0, runnable: 0, used: 0, fair: 0, all: 1, capacity: 2 };
        let shared = Seen { fair: 1, all: 2, capacity: 1, ..spinning(1) };
        assert_eq!(amount(Looks::Busy, &hog, &shared, 1024 * 1024 / 3), None);
        let hog = Seen { capacity: 1, ..hog };
        assert_eq!(amount(Looks::Busy, &hog, &shared, 1024 * 1024 / 2), Some(Amount::Load(512)));
    }

    /// A heavy thread alone makes the mean high: what the crowded CPU has beyond it bounds nothing.
    #[test]
    fn a_heavy_thread_elsewhere_sets_others_free() {
        assert_eq!(amount(Looks::Busy, &spinning(1), &spinning(2), 3000), Some(Amount::Load(3000 - 1024)));
    }
}
