//! [`Group`]: how the CPUs of a group stand together, and what one group takes from another (`update_sg_lb_stats`, `update_sd_pick_busiest`,
//! `sched_balance_find_src_group` and `calculate_imbalance` in `kernel/sched/fair.c`).
//!
//! As [`super::imbalance`] for groups of several CPUs, with what only these have:
//!
//! - A group has room while it has fewer threads than CPUs. One with spare capacity takes half of the threads that a group of the level
//!   below has more (`SD_PREFER_SIBLING`): so threads spread over cores, caches and nodes before they share them.
//! - Behind another cache it fills its own spare capacity from an overloaded group (`migrate_util`).
//! - A core with two busy threads gives one to an idle core (`group_smt_balance`, since 6.6).
//! - A node keeps two threads more than another one, while that would have no more than [`Level::lone_threads`] (`adjust_numa_imbalance`).
//!
//! Up to 6.5 a busy CPU of a group with spare capacity takes threads, too; here it does not, as from 6.6 on.

use std::ops::Range;

use super::imbalance::{Amount, CAPACITY, Looks, Seen};
use crate::cpu::domains::{Level, Shared};

/// How a group stands, the least loaded first (`group_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GroupKind {
    Spare,
    FullyBusy,
    /// More important threads leave too little of one of its CPUs (`group_misfit_task`).
    Reduced,
    /// Several threads run on one core (`group_smt_balance`).
    CoreShared,
    /// Threads in it may not move (`group_imbalanced`).
    Imbalanced,
    Overloaded,
}

/// A group (`sg_lb_stats`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) cpus: Range<usize>,
    pub(super) load: u64,
    runnable: u64,
    pub(super) used: u64,
    /// Fair threads there, threads of all schedulers, and CPUs without any.
    pub(super) fair: usize,
    pub(super) all: usize,
    pub(super) idle: usize,
    pub(super) capacity: u64,
    /// The load of a CPU of which more important threads leave too little.
    pub(super) reduced: u64,
    pub(super) kind: GroupKind,
}

impl Group {
    /// One of which nothing is known yet.
    pub(super) fn new(cpus: Range<usize>) -> Group {
        let (load, runnable, used, capacity, reduced) = (0, 0, 0, 0, 0);
        let (fair, all, idle) = (0, 0, 0);
        Group { cpus, load, runnable, used, fair, all, idle, capacity, reduced, kind: GroupKind::Spare }
    }

    /// Counts a CPU of it.
    pub(super) fn add(&mut self, seen: &Seen, is_idle: bool) {
        self.load += seen.load;
        self.runnable += seen.runnable;
        self.used += seen.used;
        self.fair += seen.fair;
        self.all += seen.all;
        self.idle += usize::from(is_idle);
    }

    /// Says of what kind it is (`group_classify`).
    pub(super) fn classify(&mut self, margin: u64, is_imbalanced: bool, shares_cores: bool) {
        let (threads, cpus) = (self.all, self.cpus.len());
        let is_crowded = self.capacity * margin < self.runnable * 100;
        let is_short = self.capacity * 100 < self.used * margin;
        // Fair threads of the kernel's own leave a trace on every CPU.
        let has_room = threads < cpus || !is_crowded && self.capacity * 100 > self.used.max(1) * margin;
        self.kind = match () {
            () if threads > cpus && (is_crowded || is_short) => GroupKind::Overloaded,
            () if is_imbalanced => GroupKind::Imbalanced,
            () if shares_cores && self.fair > 1 => GroupKind::CoreShared,
            () if self.reduced > 0 => GroupKind::Reduced,
            () if has_room => GroupKind::Spare,
            () => GroupKind::FullyBusy,
        };
    }

    /// Load to capacity, times 1024.
    pub(super) fn density(&self) -> u64 {
        self.load * CAPACITY / self.capacity.max(1)
    }

    /// Whether it is busier than another one that comes before it; of those that are fully busy, alike to the kernel, whether the last is.
    pub(super) fn is_busier(&self, other: &Group, last_fully_busy: bool) -> bool {
        if self.kind != other.kind {
            return self.kind > other.kind;
        }
        let has_fewer_idle = (other.idle, self.all) > (self.idle, other.all);
        match self.kind {
            GroupKind::Overloaded => self.density() > other.density(),
            GroupKind::Imbalanced => false,
            GroupKind::Reduced => self.reduced > other.reduced,
            GroupKind::CoreShared if self.idle == 0 && other.idle == 0 => false,
            GroupKind::FullyBusy => last_fully_busy,
            GroupKind::CoreShared | GroupKind::Spare => has_fewer_idle,
        }
    }

    /// How many threads it has more than another one, if nothing runs where that is asked for (`sibling_imbalance`).
    fn more_than(&self, other: &Group, looks: Looks) -> u64 {
        if looks.is_idle() { self.all.saturating_sub(other.all) as u64 } else { 0 }
    }
}

/// What a CPU takes for its group from the busiest other one; nothing where both are even. `total` is the load and the capacity of the domain.
pub(super) fn uneven(
    of: &Level,
    prefers_sibling: bool,
    looks: Looks,
    (local, busiest): (&Group, &Group),
    (load, capacity): (u64, u64),
) -> Option<Amount> {
    let (here, there) = (local.kind, busiest.kind);
    let mean = load * CAPACITY / capacity.max(1);
    match there {
        GroupKind::Reduced => return Some(Amount::Load(busiest.reduced)),
        GroupKind::Imbalanced => return Some(Amount::Threads(1)),
        _ if here > there => return None,
        _ => {}
    }
    if here == GroupKind::Overloaded {
        let (own, theirs) = (local.density(), busiest.density());
        if own >= theirs || own >= mean || 100 * theirs <= of.margin() * own {
            return None;
        }
    }
    let spreads = prefers_sibling && here == GroupKind::Spare && busiest.more_than(local, looks) > 1;
    if !spreads && there != GroupKind::Overloaded {
        let is_even_in_idle_cpus = busiest.cpus.len() > 1 && local.idle <= busiest.idle + 1;
        if !looks.is_idle() || is_even_in_idle_cpus || busiest.fair == 1 {
            return None;
        }
    }
    if there == GroupKind::CoreShared {
        return Some(Amount::Threads(1));
    }
    let amount = match here {
        GroupKind::Spare => for_spare(of, prefers_sibling, looks, (local, busiest)),
        _ => load_between((local, busiest), mean)?,
    };
    (!amount.is_none()).then_some(amount)
}

/// What fills a group with spare capacity.
fn for_spare(of: &Level, prefers_sibling: bool, looks: Looks, (local, busiest): (&Group, &Group)) -> Amount {
    if busiest.kind > GroupKind::FullyBusy && !of.shares_cache() {
        let room = local.capacity.saturating_sub(local.used);
        return if room == 0 && looks.is_idle() { Amount::Threads(1) } else { Amount::Used(room) };
    }
    let more = if busiest.cpus.len() == 1 || prefers_sibling {
        busiest.more_than(local, looks)
    } else {
        local.idle.saturating_sub(busiest.idle) as u64
    };
    let is_kept = of.shared == Shared::Machine && is_kept_by_node(local.all, of.lone_threads, more);
    Amount::Threads(if is_kept { 0 } else { more / 2 })
}

/// Whether a node that has these threads leaves a difference to another one as it is (`adjust_numa_imbalance`).
pub(super) fn is_kept_by_node(threads: usize, lone_threads: usize, more: u64) -> bool {
    threads < lone_threads && more <= KEPT
}

/// Threads that a node may have more (`NUMA_IMBALANCE_MIN`).
const KEPT: u64 = 2;

/// The load that brings one of two groups to the mean.
fn load_between((local, busiest): (&Group, &Group), mean: u64) -> Option<Amount> {
    let own = local.density();
    // Of a group that is not overloaded nobody has computed it.
    let theirs = if busiest.kind == GroupKind::Overloaded { busiest.density() } else { 0 };
    if local.kind != GroupKind::Overloaded && (own >= theirs || own >= mean) {
        return None;
    }
    // The kernel's difference has no sign: see `imbalance`.
    let surplus = theirs.checked_sub(mean).map_or(u64::MAX, |more| more * busiest.capacity);
    let room = mean.saturating_sub(own) * local.capacity;
    Some(Amount::Load(surplus.min(room) / CAPACITY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::domains::Domains;
    use surety_model::platform::Topology;

    /// A group of CPUs of which the first ones run the spinners.
    fn spinning(cpus: usize, spinners: usize, margin: u64, shares_cores: bool) -> Group {
        let mut group = Group::new(0..cpus);
        group.capacity = CAPACITY * cpus as u64;
        for cpu in 0..cpus {
            let here = spinners / cpus + usize::from(cpu < spinners % cpus);
            let load = CAPACITY * here as u64;
            let used = load.min(CAPACITY);
            let seen = Seen { load, runnable: load, used, fair: here, all: here, capacity: CAPACITY };
            group.add(&seen, here == 0);
        }
        group.classify(margin, false, shares_cores);
        group
    }

    #[test]
    fn kinds_are_by_threads_and_cpus() {
        for (cpus, spinners, shares_cores, kind) in [
            (2, 0, false, GroupKind::Spare),
            (2, 1, false, GroupKind::Spare),
            (2, 2, false, GroupKind::FullyBusy),
            (2, 2, true, GroupKind::CoreShared),
            (2, 3, true, GroupKind::Overloaded),
            (4, 5, false, GroupKind::Overloaded),
        ] {
            assert_eq!(spinning(cpus, spinners, 117, shares_cores).kind, kind, "{spinners} on {cpus}");
        }
        let mut bound = spinning(2, 1, 117, false);
        bound.classify(117, true, false);
        assert_eq!(bound.kind, GroupKind::Imbalanced);
        let order = [spinning(2, 1, 117, false), bound, spinning(2, 3, 117, false)];
        assert!(order.windows(2).all(|pair| pair[1].is_busier(&pair[0], false)));
    }

    /// By the rules of `calculate_imbalance`, worked out by hand: spinners here and in the busiest other group.
    #[test]
    fn amounts_are_by_what_is_shared() {
        let top = |smt, llc, nodes, cpus| {
            let topology = Topology { smt, llc, nodes };
            *Domains::new(&topology, cpus).levels.last().expect("it has levels")
        };
        let (cores, caches) = (top(2, None, 1, 4), top(1, Some(4), 1, 8));
        let (nodes, wide) = (top(1, None, 2, 8), top(1, None, 2, 64));
        for (of, looks, here, there, amount) in [
            (&cores, Looks::Idle, 0, 2, Some(Amount::Threads(1))),
            (&cores, Looks::Idle, 1, 2, None),
            (&cores, Looks::Busy, 1, 2, None),
            (&cores, Looks::Idle, 0, 1, None),
            // Half of what is more.
            (&caches, Looks::Idle, 0, 2, Some(Amount::Threads(1))),
            (&caches, Looks::Idle, 0, 4, Some(Amount::Threads(2))),
            (&caches, Looks::Idle, 1, 2, None),
            // The spare time of four CPUs, three of them idle.
            (&caches, Looks::Idle, 1, 5, Some(Amount::Used(3 * CAPACITY))),
            (&caches, Looks::Busy, 4, 6, Some(Amount::Load(1024))),
            (&caches, Looks::Busy, 5, 6, Some(Amount::Load(512))),
            // 16.7 %.
            (&caches, Looks::Busy, 6, 7, None),
            // An eighth of a node, but at least one: of four CPUs one thread, of 32 four.
            (&nodes, Looks::Idle, 0, 2, None),
            (&nodes, Looks::Idle, 1, 3, Some(Amount::Threads(1))),
            (&wide, Looks::Idle, 3, 5, None),
            (&wide, Looks::Idle, 4, 6, Some(Amount::Threads(1))),
            (&wide, Looks::Idle, 0, 3, Some(Amount::Threads(1))),
        ] {
            let local = spinning(of.group, here, of.margin(), false);
            let busiest = spinning(of.group, there, of.margin(), of.of_cores && looks.is_idle());
            let total = (local.load + busiest.load, local.capacity + busiest.capacity);
            let found = uneven(of, true, looks, (&local, &busiest), total);
            assert_eq!(found, amount, "{looks:?} with {here}, {there} elsewhere, {of:?}");
        }
    }
}
