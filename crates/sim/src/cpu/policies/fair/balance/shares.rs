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
use super::session::{gains, loses, weight};
use crate::cpu::hardware::GroupSpec;
use crate::cpu::policies::fair::average::Instant;
use crate::cpu::policies::fair::weight::of_group;

/// What all groups load CPUs with.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    groups: Vec<GroupShare>,
    /// Those in no other one.
    top: Vec<usize>,
}

#[derive(Clone, Debug)]
struct GroupShare {
    weight: u64,
    parent: Option<usize>,
    /// The groups in it.
    below: Vec<usize>,
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
        let below = |above: Option<usize>| {
            let groups = groups.iter().enumerate();
            groups.filter(|(_, group)| group.parent == above).map(|(place, _)| place).collect::<Vec<usize>>()
        };
        let share = |(place, spec): (usize, &GroupSpec)| GroupShare {
            weight: of_group(spec).unsigned_abs(),
            parent: spec.parent,
            below: below(Some(place)),
            total: Average::default(),
            cpus: vec![OnCpu::default(); cpus],
        };
        Shares { groups: groups.iter().enumerate().map(share).collect(), top: below(None) }
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
        let at = Instant::new(now);
        let mut next = Some(group);
        while let Some(above) = next {
            let cpus = &mut self.groups[above].cpus;
            let [here, there] = cpus.get_disjoint_mut([from, to]).expect("two CPUs of the machine");
            if above == group {
                here.load.hand_over(&mut there.load, queued, own, now);
            }
            here.used.hand_over(&mut there.used, used, 1, now);
            gains(&mut there.wanted, queued, &there.used, now);
            let (load, level) = self.within(above, from, at, &self.totals(at));
            let OnCpu { wanted, used, .. } = &mut self.groups[above].cpus[from];
            loses(wanted, |whole| (load * whole).checked_div(level).unwrap_or(0), used, now);
            next = self.groups[above].parent;
        }
    }

    /// The load of all groups on all CPUs.
    pub(super) fn totals(&self, at: Instant) -> Vec<u64> {
        let mut totals = vec![0; self.groups.len()];
        // A group comes after the one it is in.
        for (place, group) in self.groups.iter().enumerate().rev() {
            let on = |cpu: usize| self.entities(&group.below, cpu, at, &totals).0;
            let below: u64 = if group.below.is_empty() { 0 } else { (0..group.cpus.len()).map(on).sum() };
            totals[place] = group.total.at(at, 1) + below;
        }
        totals
    }

    /// The average load in a group on a CPU, and the weight of what wants it there at this instant.
    fn within(&self, group: usize, cpu: usize, at: Instant, totals: &[u64]) -> (u64, u64) {
        let GroupShare { below, cpus, .. } = &self.groups[group];
        let (load, level) = self.entities(below, cpu, at, totals);
        (cpus[cpu].load.at(at, 1) + load, cpus[cpu].load.level() + level)
    }

    /// The same of the entities of groups.
    fn entities(&self, groups: &[usize], cpu: usize, at: Instant, totals: &[u64]) -> (u64, u64) {
        groups.iter().fold((0, 0), |(load, level), group| {
            let wanted = &self.groups[*group].cpus[cpu].wanted;
            let weight = self.weigh(*group, cpu, at, totals);
            (load + wanted.at(at, weight), level + wanted.level() * weight)
        })
    }

    /// What the entity of a group weighs on a CPU.
    fn weigh(&self, group: usize, cpu: usize, at: Instant, totals: &[u64]) -> u64 {
        let (own, level) = self.within(group, cpu, at, totals);
        weight(self.groups[group].weight, own, level, totals[group])
    }

    /// What the groups load a CPU with.
    pub(super) fn load(&self, cpu: usize, at: Instant, totals: &[u64]) -> u64 {
        self.entities(&self.top, cpu, at, totals).0
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
        let totals = self.totals(at);
        let above = |group: &usize| self.groups[*group].parent;
        let mut chain: Vec<usize> = std::iter::successors(Some(group), above).collect();
        chain.reverse();
        let (mut part, mut whole) = (load, load);
        for group in chain {
            let wanted = &self.groups[group].cpus[cpu].wanted;
            part = part * wanted.at(at, self.weigh(group, cpu, at, &totals)) / (whole + 1);
            whole = self.within(group, cpu, at, &totals).0;
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
        [0, 1].map(|cpu| shares.load(cpu, at, &shares.totals(at)))
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
        let load = shares.load(0, later, &shares.totals(later));
        assert!((511..=513).contains(&load), "{load}");
    }
}
