//! [`Domains`]: the scheduling domains of CPUs that do not share all there is to share (`kernel/sched/topology.c`).
//!
//! Each level cuts the CPUs into domains, and each domain into groups, which are the domains of the level below: threads of a core, cores of a
//! last-level cache, caches of a node, nodes. A level whose domains are those of the one below is left out (`sd_parent_degenerate`),
//! so a core that has a cache of its own is a level of cores. CPUs of a domain follow each other.

use std::ops::Range;

use surety_model::platform::{Platform, Topology};

/// What the CPUs of a domain share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shared {
    /// A core: they are its hardware threads.
    Core,
    /// The last-level cache.
    Cache,
    /// The memory of a node.
    Node,
    /// Nothing: they are of several nodes.
    Machine,
}

/// The domains of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub shared: Shared,
    /// CPUs of a domain.
    pub size: usize,
    /// CPUs of a group of it.
    pub group: usize,
    /// Whether a group is a core with several threads.
    pub of_cores: bool,
    /// Up to how many threads of a node another one may have two more (`imb_numa_nr`).
    pub lone_threads: usize,
}

impl Level {
    /// The CPUs of the domain of a CPU.
    #[inline]
    pub fn span(&self, cpu: usize) -> Range<usize> {
        let first = cpu - cpu % self.size;
        first..first + self.size
    }

    /// Those of its group.
    #[inline]
    pub fn own_group(&self, cpu: usize) -> Range<usize> {
        let first = cpu - cpu % self.group;
        first..first + self.group
    }

    /// The other groups of its domain, the next one first.
    pub fn other_groups(&self, cpu: usize) -> impl Iterator<Item = Range<usize>> {
        let (span, own, group) = (self.span(cpu), self.own_group(cpu), self.group);
        let firsts = (own.end..span.end).chain(span.start..own.start).step_by(group);
        firsts.map(move |first| first..first + group)
    }

    /// Percent that make a difference (`imbalance_pct`).
    pub fn margin(&self) -> u64 {
        if self.shared == Shared::Core { 110 } else { 117 }
    }

    /// Failures up to which a warm cache counts (`cache_nice_tries`).
    pub fn tries(&self) -> u32 {
        match self.shared {
            Shared::Core => 0,
            Shared::Cache | Shared::Node => 1,
            Shared::Machine => 2,
        }
    }

    /// Whether its CPUs share a last-level cache (`SD_SHARE_LLC`).
    pub fn shares_cache(&self) -> bool {
        self.shared <= Shared::Cache
    }
}

/// The levels of a machine, the lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    pub levels: Vec<Level>,
    /// CPUs of a core, and of a last-level cache.
    pub core: usize,
    pub llc: usize,
}

impl Domains {
    /// Those of a platform, where it says what its CPUs share.
    pub fn of(platform: &Platform, cpus: usize) -> Option<Box<Domains>> {
        platform.topology.map(|topology| Box::new(Domains::new(&topology, cpus)))
    }

    /// Those of a machine with this many CPUs, which its topology divides.
    pub fn new(topology: &Topology, cpus: usize) -> Domains {
        let count = u32::try_from(cpus).expect("fewer than 2^32 CPUs");
        let places = |cpus: u32| usize::try_from(cpus).expect("no more than there are");
        let (core, llc, node) =
            (places(topology.smt), places(topology.llc(count)), places(topology.node(count)));
        let mut levels: Vec<Level> = Vec::new();
        for (shared, size) in
            [(Shared::Core, core), (Shared::Cache, llc), (Shared::Node, node), (Shared::Machine, cpus)]
        {
            let group = levels.last().map_or(1, |level| level.size);
            if size > group {
                let of_cores = levels.last().is_some_and(|level| level.shared == Shared::Core);
                let lone_threads = if shared == Shared::Machine { lone_threads(llc, node) } else { 0 };
                levels.push(Level { shared, size, group, of_cores, lone_threads });
            }
        }
        Domains { levels, core, llc }
    }

    /// CPUs that share the last-level cache of one.
    #[inline]
    pub fn around(&self, cpu: usize) -> Range<usize> {
        let first = cpu - cpu % self.llc;
        first..first + self.llc
    }

    /// CPUs that share its core.
    #[inline]
    pub fn core_of(&self, cpu: usize) -> Range<usize> {
        let first = cpu - cpu % self.core;
        first..first + self.core
    }
}

/// `imb_numa_nr`: an eighth of the CPUs of a node that has one cache, else as many as a node has caches (`build_sched_domains`, since 5.18).
fn lone_threads(llc: usize, node: usize) -> usize {
    let caches = node / llc;
    if caches == 1 { (node / 8).max(1) } else { caches }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(smt: u32, llc: Option<u32>, nodes: u32, cpus: usize) -> Domains {
        Domains::new(&Topology { smt, llc, nodes }, cpus)
    }

    #[test]
    fn levels_are_those_that_divide_something() {
        let levels = |domains: &Domains| -> Vec<(Shared, usize, usize)> {
            domains.levels.iter().map(|level| (level.shared, level.size, level.group)).collect()
        };
        use Shared::{Cache, Core, Machine, Node};
        for (domains, wanted) in [
            (of(1, None, 1, 1), &[][..]),
            (of(1, None, 1, 4), &[(Cache, 4, 1)]),
            (of(1, Some(2), 1, 4), &[(Cache, 2, 1), (Node, 4, 2)]),
            (of(2, Some(2), 1, 4), &[(Core, 2, 1), (Node, 4, 2)]),
            (of(1, Some(1), 2, 4), &[(Node, 2, 1), (Machine, 4, 2)]),
            (of(2, Some(4), 2, 16), &[(Core, 2, 1), (Cache, 4, 2), (Node, 8, 4), (Machine, 16, 8)]),
        ] {
            assert_eq!(levels(&domains), wanted);
        }
        let of_cores: Vec<bool> = of(2, Some(4), 2, 16).levels.iter().map(|level| level.of_cores).collect();
        assert_eq!(of_cores, [false, true, false, false]);
    }

    #[test]
    fn groups_of_a_domain_come_in_turn() {
        let machine = of(1, Some(2), 1, 8);
        let top = machine.levels[1];
        let others: Vec<Range<usize>> = top.other_groups(5).collect();
        assert_eq!((top.own_group(5), others), (4..6, vec![6..8, 0..2, 2..4]));
        assert_eq!((machine.around(5), machine.core_of(5)), (4..6, 5..6));
    }

    #[test]
    fn a_node_may_keep_an_eighth_or_a_thread_for_each_cache() {
        for (llc, nodes, cpus, threads) in [(None, 2, 4, 1), (None, 2, 32, 2), (Some(4), 2, 32, 4)] {
            let top = *of(1, llc, nodes, cpus).levels.last().unwrap();
            assert_eq!((top.shared, top.lone_threads), (Shared::Machine, threads));
        }
    }
}
