//! Laws of the [engine](super::engine) with groups, over drawn arrivals.

use surety_units::Nanos;

use super::engine::{Engine, Entity};
use crate::request::{IoClass, IoGroup};

const NOW: Nanos = Nanos::ZERO;
/// Sectors of a budget at most.
const BUDGET: u64 = 1024;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// An engine with queues in its groups: the first queue of each group that has any is always busy, the others come and go.
struct Run {
    engine: Engine,
    random: Random,
    /// The group of each queue, and its weight.
    queues: Vec<(usize, u64)>,
    is_busy: Vec<bool>,
}

impl Run {
    fn new(seed: u64, groups: &[IoGroup], queues: &[(usize, u64)]) -> Run {
        let mut run = Run {
            engine: Engine::new(groups),
            random: Random(seed),
            queues: queues.to_vec(),
            is_busy: vec![false; queues.len()],
        };
        for (group, weight) in queues {
            run.engine.add(Entity::new(IoClass::BestEffort, *weight, *group));
        }
        let greedy: Vec<usize> = (0..queues.len()).filter(|q| run.is_greedy(*q)).collect();
        greedy.into_iter().for_each(|q| run.comes(q));
        run
    }

    fn is_greedy(&self, q: usize) -> bool {
        self.queues[..q].iter().all(|(group, _)| *group != self.queues[q].0)
    }

    fn comes(&mut self, q: usize) {
        self.is_busy[q] = true;
        let entity = self.engine.of_mut(q);
        (entity.budget, entity.service) = (1 + self.random.below(BUDGET), 0);
        self.engine.activate(q, false, (self.queues[q].1, 1), NOW);
    }

    /// Something may come, and a queue is served: which, and how much.
    fn step(&mut self) -> (usize, u64) {
        let q = usize::try_from(self.random.below(self.queues.len() as u64)).unwrap();
        match self.random.below(4) {
            0 if !self.is_busy[q] => self.comes(q),
            1 if self.is_busy[q] => {
                // Another budget, as for another next request.
                let budget = 1 + self.random.below(BUDGET);
                self.engine.rebudget(q, budget, self.queues[q].1, NOW);
            }
            2 if self.is_busy[q] && !self.is_greedy(q) => {
                self.is_busy[q] = false;
                self.engine.leave(q, NOW);
            }
            _ => {}
        }
        let q = self.engine.take(NOW).expect("one is always busy");
        assert!(self.is_busy[q]);
        let service = 1 + self.random.below(self.engine.of(q).budget);
        self.engine.serve(q, service);
        if self.is_greedy(q) || self.random.below(3) > 0 {
            self.engine.of_mut(q).budget = 1 + self.random.below(BUDGET);
            self.engine.requeue(q, self.queues[q].1, NOW);
            self.engine.of_mut(q).service = 0;
        } else {
            self.is_busy[q] = false;
            self.engine.leave(q, NOW);
        }
        self.engine.clears_service_above(q);
        (q, service)
    }
}

/// Groups that always have something to do get their parts, whatever goes on inside: none is ever further than three budgets from its
/// part of the fluid server (B-WF2Q+ has a lag of at most the own budget and the greatest).
#[test]
fn busy_groups_get_their_weights() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let groups: Vec<IoGroup> = (0..2 + random.below(8))
            .map(|_| IoGroup { weight: u32::try_from(1 + random.below(1000)).unwrap(), parent: None })
            .collect();
        let queues: Vec<(usize, u64)> =
            (0..groups.len() * 5).map(|q| (q % groups.len() + 1, 10 * (1 + random.below(8)))).collect();
        let mut run = Run::new(seed, &groups, &queues);
        let sum: u64 = groups.iter().map(|group| u64::from(group.weight)).sum();
        let (mut got, mut total) = (vec![0_u64; groups.len()], 0);
        for step in 0..4000 {
            let (q, service) = run.step();
            got[queues[q].0 - 1] += service;
            total += service;
            for (got, group) in got.iter().zip(&groups) {
                let fluid = total * u64::from(group.weight) / sum;
                assert!(got.abs_diff(fluid) <= 3 * BUDGET, "{got} of {fluid}, step {step} of seed {seed}");
            }
        }
    }
}

/// Groups in groups: each gets its part of what the one above gets.
#[test]
fn busy_groups_get_their_weights_of_the_group_above() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut weight = || u32::try_from(10 + random.below(990)).unwrap();
        let parents = [None, Some(0), Some(0), Some(1), Some(1), None];
        let groups: Vec<IoGroup> = parents.map(|parent| IoGroup { weight: weight(), parent }).to_vec();
        // Queues are where no groups are.
        let queues: Vec<(usize, u64)> = (0..20).map(|q| ([3, 4, 5, 6][q % 4], 40)).collect();
        let mut run = Run::new(seed, &groups, &queues);
        let (mut got, mut total) = (vec![0_u64; groups.len()], 0);
        for step in 0..4000 {
            let (q, service) = run.step();
            total += service;
            let mut at = Some(queues[q].0 - 1);
            while let Some(group) = at {
                got[group] += service;
                at = groups[group].parent;
            }
            for (place, group) in groups.iter().enumerate() {
                let beside = groups.iter().filter(|other| other.parent == group.parent);
                let sum: u64 = beside.map(|other| u64::from(other.weight)).sum();
                let fluid = group.parent.map_or(total, |parent| got[parent]) * u64::from(group.weight) / sum;
                assert!(
                    got[place].abs_diff(fluid) <= 3 * BUDGET,
                    "{place}: {} of {fluid}, step {step} of {seed}",
                    got[place]
                );
            }
        }
    }
}

/// With all queues in one group the engine serves as without groups.
#[test]
fn one_group_is_as_none() {
    for seed in 0..100 {
        let queues = |group| (0..12).map(|q| (group, 10 * (1 + q % 8))).collect::<Vec<_>>();
        let mut flat = Run::new(seed, &[], &queues(0));
        let mut grouped = Run::new(seed, &[IoGroup { weight: 7, parent: None }], &queues(1));
        for step in 0..2000 {
            assert_eq!(flat.step(), grouped.step(), "step {step} of seed {seed}");
        }
    }
}
