//! [`Levels`]: balancing where CPUs share some things and not others, domain by domain from the lowest one up (`sched_balance_domains`,
//! `sched_balance_rq`, `sched_balance_newidle` in `kernel/sched/fair.c`).
//!
//! - At each level one CPU of a group balances for all of it: the first idle one, from 6.6 on rather one of an idle core, else the first
//!   (`should_we_balance`). Another one stops there and leaves the levels above to it.
//! - It looks at the busiest other group of its domain ([`groups`]), then at the busiest CPU in it (`sched_balance_find_src_rq`). One whose
//!   threads may none of them come is left out, and the next one looked at.
//! - Where nothing was taken as threads may not come, the group counts as uneven at the level above (`group_imbalanced`).
//! - A CPU about to idle goes up until it has found something, with a die for each level.
//! - The tick of a busy CPU has idle ones balance also where another CPU of its last-level cache is busy: another cache may be idle.
//!
//! *Not modelled*: that another CPU of a group takes what may not come to the one that balances (`LBF_DST_PINNED`).

use std::ops::Range;

use super::groups::{Group, uneven};
use super::imbalance::{Amount, CAPACITY, Looks, Seen, is_reduced_by};
use super::interval::ticks_of;
use super::session::Totals;
use super::{Balance, Found, Taken};
use crate::cpu::domains::{Domains, Level};
use crate::cpu::hardware::{Hardware, ThreadId};
use crate::cpu::places::Places;
use crate::cpu::policies::fair::average::Instant;

/// The domains of a machine, as balancing knows them.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    /// The lowest first.
    pub(super) all: Vec<Level>,
    pub(super) domains: Domains,
    /// CPUs of each last-level cache that a woken thread looks at.
    pub(super) scanned: Vec<u64>,
    /// By level, CPUs that begin groups in which balancing failed as threads may not move.
    imbalanced: Vec<Places>,
    /// Whether threads of a core count: whether idle cores balance before idle threads of busy ones, and cores with several busy ones
    /// give (since 6.6).
    pub(super) minds_cores: bool,
}

impl Levels {
    pub(super) fn new(domains: &Domains, hardware: &Hardware) -> Levels {
        let cpus = hardware.cpus.len();
        let caches = cpus / domains.llc;
        let is_cfs = hardware.platform.fair_version().is_some_and(|version| version.is_cfs);
        Levels {
            all: domains.levels.clone(),
            domains: domains.clone(),
            scanned: vec![domains.llc as u64; caches],
            imbalanced: vec![Places::none(cpus); domains.levels.len()],
            minds_cores: !is_cfs,
        }
    }

    /// The lowest level at which two CPUs are in one domain.
    pub(super) fn common(&self, a: usize, b: usize) -> usize {
        let all = self.all.iter();
        all.take_while(|level| !level.span(a).contains(&b)).count().min(self.all.len() - 1)
    }
}

/// What a CPU looks at: one of its domains without CPUs that were left out.
struct View<'a> {
    cpu: usize,
    level: usize,
    looks: Looks,
    left_out: &'a Places,
    totals: &'a Totals,
}

impl Balance {
    pub(super) fn of_levels(&self) -> &Levels {
        self.levels.as_ref().expect("asked for where there are levels")
    }

    /// Whether another CPU behind the cache of a busy one is busy, and there are others than these (`nohz_balancer_kick`).
    pub(super) fn has_busy_neighbour(&self, hardware: &Hardware, cpu: usize) -> bool {
        let Some(levels) = self.levels.as_ref().filter(|levels| levels.all.len() > 1) else { return false };
        levels.domains.around(cpu).filter(|cpu| !hardware.sets.idle().contains(*cpu)).count() > 1
    }

    /// A CPU balances at a level: what is known of the machine is known anew where it balances all of it or a whole cache.
    pub(super) fn begins_at(&mut self, hardware: &Hardware, cpu: usize, level: usize) {
        let levels = self.of_levels();
        let (of, llc) = (levels.all[level], levels.domains.llc);
        if level + 1 == levels.all.len() {
            self.is_overloaded = self.is_crowded(hardware);
        }
        if of.size == llc && self.scans_by_use {
            let scanned = self.scanned_of(hardware, of.span(cpu), of.margin());
            self.levels.as_mut().expect("there are levels").scanned[cpu / llc] = scanned;
        }
    }

    /// Whether it is this CPU that balances for its group (`should_we_balance`).
    pub(super) fn is_responsible(
        &self,
        hardware: &Hardware,
        (cpu, level): (usize, usize),
        looks: Looks,
    ) -> bool {
        let Some(levels) = self.levels.as_ref().filter(|_| looks != Looks::NewlyIdle) else { return true };
        let of = levels.all[level];
        let is_idle = |cpu: &usize| self.is_unused(hardware, *cpu);
        let within_core = of.size <= levels.domains.core;
        let has_idle_core = |cpu: &usize| {
            within_core || !levels.minds_cores || levels.domains.core_of(*cpu).all(|cpu| is_idle(&cpu))
        };
        let group = of.own_group(cpu);
        let first_idle = || group.clone().find(is_idle);
        let first_of_idle_core = group.clone().find(|cpu| is_idle(cpu) && has_idle_core(cpu));
        first_of_idle_core.or_else(first_idle).unwrap_or(group.start) == cpu
    }

    /// Whether a CPU is idle, and no thread wants it.
    pub(super) fn is_unused(&self, hardware: &Hardware, cpu: usize) -> bool {
        self.cpus[cpu].wanting.is_empty() && hardware.is_idle(cpu)
    }

    /// What a CPU takes when it balances at a level, and whether it goes on with the level above.
    pub(super) fn balance_at(
        &mut self,
        hardware: &Hardware,
        (cpu, level, looks): (usize, usize, Looks),
        load_of: impl Fn(ThreadId) -> Option<i64>,
    ) -> (Option<Taken>, bool) {
        if !self.is_responsible(hardware, (cpu, level), looks) {
            self.leaves_to_others(hardware, cpu, level);
            self.even(cpu, level, 0);
            return (None, false);
        }
        self.begin(hardware, cpu, level);
        let found = self.look_at(hardware, (cpu, level, looks), load_of);
        (self.ends(cpu, level, found), true)
    }

    /// What a CPU about to idle takes, at the first level where there is something.
    pub(in crate::cpu::policies::fair) fn for_newly_idle_by_levels(
        &mut self,
        hardware: &Hardware,
        cpu: usize,
        load_of: impl Fn(ThreadId) -> Option<i64>,
    ) -> Option<Taken> {
        for level in 0..self.of_levels().all.len() {
            if !self.cpus[cpu].domain_mut(level).newly_idle.looks(hardware.now()) {
                continue;
            }
            if level == 0 && ticks_of(hardware) >= self.cpus[cpu].capacity_until {
                self.weigh(hardware, cpu);
            }
            if level + 1 == self.of_levels().all.len() {
                self.is_overloaded = self.is_crowded(hardware);
            }
            match self.look_at(hardware, (cpu, level, Looks::NewlyIdle), &load_of) {
                Found::Uneven(taken) if taken.stops || !taken.threads.is_empty() => return Some(taken),
                _ => {}
            }
        }
        None
    }

    /// Whether domains are of several levels, or are said to be.
    pub(in crate::cpu::policies::fair) fn has_levels(&self) -> bool {
        self.levels.is_some()
    }

    /// What a CPU finds at a level.
    fn look_at(
        &mut self,
        hardware: &Hardware,
        (cpu, level, looks): (usize, usize, Looks),
        load_of: impl Fn(ThreadId) -> Option<i64>,
    ) -> Found {
        let mut left_out = Places::none(self.cpus.len());
        let totals = self.totals(Instant::new(hardware.now()));
        loop {
            let view = View { cpu, level, looks, left_out: &left_out, totals: &totals };
            let Some((from, seen, amount)) = self.source(hardware, &view) else {
                // Those that may not come are still there where all were left out.
                if !left_out.is_empty() {
                    return Found::Bound;
                }
                self.mark_imbalanced(cpu, level, false);
                return Found::Even;
            };
            let threads = self.fitting(hardware, (from, cpu, level), looks, (&seen, amount), &load_of);
            if threads.is_empty() && seen.all > 1 {
                if self.are_bound(hardware, (from, cpu), &seen) {
                    left_out.set(from, true);
                    continue;
                }
                let is_bound = |thread: &ThreadId| !hardware.thread(*thread).may_run_on(cpu);
                if self.cpus[from].wanting.iter().any(is_bound) {
                    self.mark_imbalanced(cpu, level, true);
                }
            }
            let stops =
                threads.is_empty() && self.stops(hardware, (from, cpu, level), looks, (&seen, amount));
            return Found::Uneven(Taken { from, threads, stops, level });
        }
    }

    /// Whether the domain of a CPU could not be balanced, as the level above is to know.
    fn mark_imbalanced(&mut self, cpu: usize, level: usize, is_imbalanced: bool) {
        let levels = self.levels.as_mut().expect("there are levels");
        if let Some(above) = levels.all.get(level + 1) {
            let group = above.own_group(cpu).start;
            levels.imbalanced[level + 1].set(group, is_imbalanced);
        }
    }

    /// The busiest CPU of the busiest group, and what is to be taken.
    fn source(&self, hardware: &Hardware, view: &View<'_>) -> Option<(usize, Seen, Amount)> {
        let of = self.of_levels().all[view.level];
        // The kernel compares averages of those that it has not computed; cores, and CPUs, are left to the first of them.
        let last_fully_busy = self.of_levels().minds_cores && !of.of_cores && of.group > 1;
        let local = self.group(hardware, view, of.own_group(view.cpu));
        let (mut total, mut busiest): (_, Option<Group>) = ((local.load, local.capacity), None);
        for cpus in of.other_groups(view.cpu) {
            let group = self.group(hardware, view, cpus);
            total = (total.0 + group.load, total.1 + group.capacity);
            if group.fair > 0
                && busiest.as_ref().is_none_or(|busiest| group.is_busier(busiest, last_fully_busy))
            {
                busiest = Some(group);
            }
        }
        let busiest = busiest?;
        let amount = uneven(&of, view.level > 0, view.looks, (&local, &busiest), total)?;
        let (from, seen) = self.busiest_in(hardware, view, busiest.cpus, amount)?;
        Some((from, seen, amount))
    }

    /// A group as others see it, or its own CPU.
    fn group(&self, hardware: &Hardware, view: &View<'_>, cpus: Range<usize>) -> Group {
        let levels = self.of_levels();
        let of = &levels.all[view.level];
        let is_own = cpus.contains(&view.cpu);
        let mut group = Group::new(cpus.clone());
        group.capacity = self.cpus[cpus.clone()].iter().map(|cpu| cpu.capacity).sum();
        for cpu in cpus.clone().filter(|cpu| !view.left_out.contains(*cpu)) {
            let mut seen = self.figures(hardware, cpu, view.totals);
            let is_looker = cpu == view.cpu && view.looks == Looks::NewlyIdle;
            if is_looker {
                // What ran there has left its queue, and it is not idle yet.
                (seen.fair, seen.all) = (0, 0);
            }
            group.add(&seen, !is_looker && self.is_unused(hardware, cpu));
            if !is_own && view.looks.is_idle() && seen.fair == 1 && is_reduced_by(seen.capacity, of.margin())
            {
                group.reduced = group.reduced.max(seen.load);
            }
        }
        let shares_cores = of.of_cores && levels.minds_cores && view.looks.is_idle() && !is_own;
        group.classify(of.margin(), levels.imbalanced[view.level].contains(cpus.start), shares_cores);
        group
    }

    /// A CPU with all its averages, also where it is idle.
    pub(super) fn figures(&self, hardware: &Hardware, cpu: usize, totals: &Totals) -> Seen {
        let (at, state) = (Instant::new(hardware.now()), &self.cpus[cpu]);
        Seen {
            load: self.load(cpu, at, totals),
            runnable: state.runnable.at(at, CAPACITY),
            used: state.used.at(at, CAPACITY),
            fair: self.fair(cpu),
            all: state.wanting.len() + usize::from(self.runs_other(hardware, cpu)),
            capacity: state.capacity,
        }
    }

    /// The CPU of a group that gives (`sched_balance_find_src_rq`): the first of equal ones.
    fn busiest_in(
        &self,
        hardware: &Hardware,
        view: &View<'_>,
        cpus: Range<usize>,
        amount: Amount,
    ) -> Option<(usize, Seen)> {
        let margin = self.of_levels().all[view.level].margin();
        let mut busiest: Option<(usize, Seen)> = None;
        for cpu in cpus.filter(|cpu| !view.left_out.contains(*cpu)) {
            let seen = self.figures(hardware, cpu, view.totals);
            let most = busiest.as_ref().map(|(_, most)| most);
            let gives = seen.fair > 0
                && match amount {
                    Amount::Load(load) => {
                        let (theirs, capacity) = most.map_or((0, 1), |most| (most.load, most.capacity));
                        let stays =
                            seen.fair == 1 && seen.load > load && !is_reduced_by(seen.capacity, margin);
                        !stays && seen.load * capacity > theirs * seen.capacity
                    }
                    Amount::Used(_) => seen.fair > 1 && seen.used > most.map_or(0, |most| most.used),
                    Amount::Threads(_) => seen.fair > most.map_or(0, |most| most.fair),
                };
            if gives {
                busiest = Some((cpu, seen));
            }
        }
        busiest
    }
}
