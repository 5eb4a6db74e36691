//! [`Shares`]: the load of CPUs as balancing sees it where threads are in groups: that of root's threads and of the entities which stand
//! for groups there (`calc_group_shares`, `update_tg_cfs_load`, `task_h_load` in `kernel/sched/fair.c`).
//!
//! An entity's load is its weight times the part of the time for which it wanted the CPU, and its weight on CPU `i` is that of
//! [`super::session`] with the weight of the group in place of 1024: `W m_i / (T - L_i + m_i)`. The weights on both CPUs change at
//! once when a thread moves. `L` of a group with groups in it is that of its threads and of their entities.
//!
//! A thread's part of the load of its CPU is its average times, for each group that it is in, the load of the entity over that of
//! all that is in the group there.
//!
//! *A model*: the kernel renews weights when a thread joins or leaves and on ticks, `T` when it has changed by a 64th, and parts once a tick.

use surety_units::Nanos;

use super::Average;
use super::session::{Loads, gains, loses, weight};
use crate::cpu::hardware::GroupSpec;
use crate::cpu::policies::fair::average::Instant;
use crate::cpu::policies::fair::weight::of_group;

/// What all groups load CPUs with.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    groups: Vec<GroupShare>,
    /// Those in no other one.
    top: Vec<usize>,
    cpus: usize,
    /// How many have groups in them.
    inner: usize,
}

#[derive(Clone, Debug)]
struct GroupShare {
    weight: u64,
    parent: Option<usize>,
    /// The groups in it, and its place among those that have any.
    below: Vec<usize>,
    inner: Option<usize>,
    /// What its threads load all CPUs with.
    total: Average,
    cpus: Vec<OnCpu>,
}

/// A group on a CPU.
#[derive(Clone, Debug, Default)]
struct OnCpu {
    /// Of the threads in it.
    load: Average,
    /// How many threads of it, and of the groups in it, want the CPU.
    wanting: usize,
    /// Whether any does, and whether one runs.
    wanted: Average,
    used: Average,
}

impl Shares {
    /// Of groups without threads.
    pub(super) fn new(groups: &[GroupSpec], cpus: usize) -> Shares {
        let (mut below, mut top) = (vec![Vec::new(); groups.len()], Vec::new());
        for (place, group) in groups.iter().enumerate() {
            group.parent.map_or(&mut top, |parent| &mut below[parent]).push(place);
        }
        let share = |(place, spec): (usize, &GroupSpec)| GroupShare {
            weight: of_group(spec).unsigned_abs(),
            parent: spec.parent,
            below: std::mem::take(&mut below[place]),
            inner: None,
            total: Average::default(),
            cpus: vec![OnCpu::default(); cpus],
        };
        let mut shares: Vec<GroupShare> = groups.iter().enumerate().map(share).collect();
        let mut inner = 0;
        for share in shares.iter_mut().filter(|share| !share.below.is_empty()) {
            share.inner = Some(inner);
            inner += 1;
        }
        Shares { groups: shares, top, cpus, inner }
    }

    /// Threads of a group load a CPU so from now on.
    pub(super) fn step(&mut self, (group, cpu): (usize, usize), load: u64, now: Nanos) {
        let GroupShare { total, cpus, .. } = &mut self.groups[group];
        total.step(now, (total.level() + load).saturating_sub(cpus[cpu].load.level()));
        cpus[cpu].load.step(now, load);
    }

    /// A thread of a group wants a CPU, or does no more.
    pub(super) fn wants(&mut self, (group, cpu): (Option<usize>, usize), wants: bool, now: Nanos) {
        let mut next = group;
        while let Some(group) = next {
            let on = &mut self.groups[group].cpus[cpu];
            on.wanting = if wants { on.wanting + 1 } else { on.wanting - 1 };
            on.wanted.step(now, u64::from(on.wanting > 0));
            next = self.groups[group].parent;
        }
    }

    /// A thread of a group runs on a CPU, or does no more.
    pub(super) fn runs(&mut self, (group, cpu): (Option<usize>, usize), runs: bool, now: Nanos) {
        let mut next = group;
        while let Some(group) = next {
            self.groups[group].cpus[cpu].used.step(now, u64::from(runs));
            next = self.groups[group].parent;
        }
    }

    /// What a thread of a group, of weight `own`, wanted and used of a CPU goes to another one.
    pub(super) fn moves(
        &mut self,
        (group, own): (usize, u64),
        [from, to]: [usize; 2],
        (queued, used): (&mut Average, &mut Average),
        now: Nanos,
    ) {
        let (at, mut loads) = (Instant::new(now), None);
        let mut next = Some(group);
        while let Some(above) = next {
            let cpus = &mut self.groups[above].cpus;
            let [here, there] = cpus.get_disjoint_mut([from, to]).expect("two CPUs of the machine");
            if above == group {
                here.load.hand_over(&mut there.load, queued, own, now);
            }
            here.used.hand_over(&mut there.used, used, 1, now);
            gains(&mut there.wanted, queued, &there.used, now);
            // What a group with no other in it has there is told without.
            if self.groups[above].inner.is_some() {
                match &mut loads {
                    None => loads = Some(self.loads(at)),
                    Some(loads) => self.tell(above, at, loads),
                }
            }
            let (load, level) = self.within(above, from, at, loads.as_ref().unwrap_or(&Loads::default()));
            let OnCpu { wanted, used, .. } = &mut self.groups[above].cpus[from];
            loses(wanted, |whole| (load * whole).checked_div(level).unwrap_or(0), used, now);
            next = self.groups[above].parent;
        }
    }

    /// What a thread of weight `own` wanted of a CPU goes from one group to another there; `root` is the load of those in none.
    pub(super) fn regroups(
        &mut self,
        (from, to): (Option<usize>, Option<usize>),
        cpu: usize,
        (queued, own): (&mut Average, u64),
        root: &mut Average,
        now: Nanos,
    ) {
        let mut none = Average::default();
        if let Some(from) = from {
            let GroupShare { total, cpus, .. } = &mut self.groups[from];
            total.hand_over(&mut none, queued, own, now);
            cpus[cpu].load.hand_over(&mut none, queued, own, now);
        } else {
            root.hand_over(&mut none, queued, own, now);
        }
        if let Some(to) = to {
            let GroupShare { total, cpus, .. } = &mut self.groups[to];
            none.hand_over(total, queued, own, now);
            none.hand_over(&mut cpus[cpu].load, queued, own, now);
        } else {
            none.hand_over(root, queued, own, now);
        }
    }

    /// The load of all groups.
    pub(super) fn loads(&self, at: Instant) -> Loads {
        let mut loads =
            Loads { all: vec![0; self.groups.len()], within: vec![(0, 0); self.inner * self.cpus] };
        // A group comes after the one it is in.
        (0..self.groups.len()).rev().for_each(|group| self.tell(group, at, &mut loads));
        loads
    }

    /// Tells the load of a group by that of those in it.
    fn tell(&self, group: usize, at: Instant, loads: &mut Loads) {
        let GroupShare { below, inner, total, cpus, .. } = &self.groups[group];
        let mut all = total.at(at, 1);
        if let Some(inner) = inner {
            for (cpu, on) in cpus.iter().enumerate() {
                let (load, level) = self.entities(below, cpu, at, loads);
                all += load;
                loads.within[inner * self.cpus + cpu] = (on.load.at(at, 1) + load, on.load.level() + level);
            }
        }
        loads.all[group] = all;
    }

    /// The average load in a group on a CPU, and the weight of what wants it there at this instant.
    fn within(&self, group: usize, cpu: usize, at: Instant, loads: &Loads) -> (u64, u64) {
        let GroupShare { inner, cpus, .. } = &self.groups[group];
        match inner {
            Some(inner) => loads.within[inner * self.cpus + cpu],
            None => (cpus[cpu].load.at(at, 1), cpus[cpu].load.level()),
        }
    }

    /// The same of the entities of groups.
    fn entities(&self, groups: &[usize], cpu: usize, at: Instant, loads: &Loads) -> (u64, u64) {
        groups.iter().fold((0, 0), |(load, level), group| {
            let wanted = &self.groups[*group].cpus[cpu].wanted;
            let weight = self.weigh(*group, cpu, at, loads);
            (load + wanted.at(at, weight), level + wanted.level() * weight)
        })
    }

    /// What the entity of a group weighs on a CPU.
    fn weigh(&self, group: usize, cpu: usize, at: Instant, loads: &Loads) -> u64 {
        let (own, level) = self.within(group, cpu, at, loads);
        weight(self.groups[group].weight, own, level, loads.all[group])
    }

    /// What the groups load a CPU with.
    pub(super) fn load(&self, cpu: usize, at: Instant, loads: &Loads) -> u64 {
        self.entities(&self.top, cpu, at, loads).0
    }

    /// No less than that until the end of a period.
    pub(super) fn load_in_period(&self, cpu: usize, at: Instant) -> u64 {
        let of = |group: &usize| {
            let GroupShare { weight, cpus, .. } = &self.groups[*group];
            cpus[cpu].wanted.at_most_in_period(at, *weight)
        };
        self.top.iter().map(of).sum()
    }

    /// What the load of a thread in a group is of a CPU's.
    pub(super) fn part(&self, (group, cpu): (usize, usize), at: Instant, load: u64, own: u64) -> u64 {
        let loads = self.loads(at);
        let above = |group: &usize| self.groups[*group].parent;
        let mut chain: Vec<usize> = std::iter::successors(Some(group), above).collect();
        chain.reverse();
        let (mut part, mut whole) = (load, load);
        for group in chain {
            let wanted = &self.groups[group].cpus[cpu].wanted;
            part = part * wanted.at(at, self.weigh(group, cpu, at, &loads)) / (whole + 1);
            whole = self.within(group, cpu, at, &loads).0;
        }
        own * part / (whole + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_millis(500);

    /// Groups of these weights and parents on two CPUs, where threads of nice 0 have always been, with the number of threads of each group on each CPU.
    fn of(groups: &[(u32, Option<usize>, [usize; 2])]) -> Shares {
        let spec = |(weight, parent, _): &(u32, Option<usize>, [usize; 2])| GroupSpec {
            weight: *weight,
            quota: None,
            idle: false,
            reservation: None,
            parent: *parent,
        };
        let specs: Vec<GroupSpec> = groups.iter().map(spec).collect();
        let mut shares = Shares::new(&specs, 2);
        for (group, (_, _, threads)) in groups.iter().enumerate() {
            for (cpu, threads) in threads.iter().enumerate() {
                (0..*threads).for_each(|_| shares.wants((Some(group), cpu), true, NOW));
                shares.step((group, cpu), 1024 * *threads as u64, NOW);
            }
        }
        for group in &mut shares.groups {
            group.total.always(NOW, group.total.level());
            for OnCpu { load, wanted, .. } in &mut group.cpus {
                load.always(NOW, load.level());
                wanted.always(NOW, wanted.level());
            }
        }
        shares
    }

    fn loads(shares: &Shares) -> [u64; 2] {
        let at = Instant::new(NOW);
        [0, 1].map(|cpu| shares.load(cpu, at, &shares.loads(at)))
    }

    /// By hand: two light threads weigh 1024 together, and each of two heavy ones on two CPUs 1536. Beside one of these the light ones make
    /// 2560, and the mean is 2048: one light thread, of 512, is what is to go, and both CPUs are even at once.
    #[test]
    fn the_light_thread_too_many_is_what_is_wanted() {
        let mut shares = of(&[(100, None, [2, 0]), (300, None, [1, 1])]);
        assert_eq!(loads(&shares), [2560, 1536]);
        let part = |group, own| shares.part((group, 0), Instant::new(NOW), 2560, own);
        assert_eq!(
            (part(0, 1024), part(1, 1024)),
            (511, 1533),
            "each quotient of the kernel is rounded down"
        );
        let (mut queued, mut used) = (Average::default(), Average::default());
        queued.always(NOW, 1);
        used.always(NOW, 0);
        shares.wants((Some(0), 0), false, NOW);
        shares.step((0, 0), 1024, NOW);
        shares.moves((0, 1024), [0, 1], (&mut queued, &mut used), NOW);
        shares.step((0, 1), 1024, NOW);
        shares.wants((Some(0), 1), true, NOW);
        assert_eq!(loads(&shares), [2048, 2048]);
    }

    /// By hand: of a group of weight 2048 one in it, of 1024, has a thread on each CPU, the other one a thread on the second CPU. So
    /// the first has 512 on each, the other one 1024 there, and of 2048 a quarter is on the first CPU.
    #[test]
    fn groups_in_groups_count_for_what_they_weigh() {
        let shares = of(&[(200, None, [0, 0]), (100, Some(0), [1, 1]), (100, Some(0), [0, 1])]);
        assert_eq!(loads(&shares), [512, 1536]);
        let part = |group| shares.part((group, 1), Instant::new(NOW), 1536, 1024);
        assert_eq!((part(1), part(2)), (510, 1021));
    }

    /// By hand: whatever stands between, the thread on each of two CPUs is half of the top's weight. Told level by level from below, once
    /// each: twenty thousand of them are told at once.
    #[test]
    fn groups_nested_deep_are_told_once_each() {
        let deepest = 20_000 - 1;
        let chain: Vec<_> = (0..=deepest)
            .map(|level: usize| (100, level.checked_sub(1), if level == deepest { [1, 1] } else { [0, 0] }))
            .collect();
        let mut shares = of(&chain);
        assert_eq!(loads(&shares), [512, 512]);
        let (mut queued, mut used) = (Average::default(), Average::default());
        queued.always(NOW, 1);
        shares.wants((Some(deepest), 0), false, NOW);
        shares.step((deepest, 0), 0, NOW);
        shares.moves((deepest, 1024), [0, 1], (&mut queued, &mut used), NOW);
        shares.step((deepest, 1), 2048, NOW);
        shares.wants((Some(deepest), 1), true, NOW);
        assert_eq!(loads(&shares), [0, 1024]);
    }

    #[test]
    fn a_load_is_within_its_bound() {
        let shares = of(&[(100, None, [2, 0]), (300, None, [1, 1])]);
        let at = Instant::new(NOW);
        assert!(loads(&shares).iter().zip([0, 1]).all(|(load, cpu)| *load <= shares.load_in_period(cpu, at)));
    }

    /// Half a life after its last thread slept half of its weight is left.
    #[test]
    fn a_group_that_sleeps_is_forgotten() {
        let mut shares = of(&[(100, None, [1, 0])]);
        shares.wants((Some(0), 0), false, NOW);
        shares.step((0, 0), 0, NOW);
        let later = Instant::new(NOW + Nanos::new(32 << 20));
        let load = shares.load(0, later, &shares.loads(later));
        assert!((511..=513).contains(&load), "{load}");
    }
}
