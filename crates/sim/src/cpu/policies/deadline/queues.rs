//! [`Queues`]: the entities that may run on each CPU, by deadline and then by order of coming, and which CPUs have the
//! latest first and the earliest second ones: where a thread goes to, and where one comes from.

use surety_units::Nanos;

use super::entity::Entity;
use crate::cpu::places::Ranking;
use crate::cpu::sorted::Sorted;

/// The figure of a CPU from which nothing is to be had.
const NOTHING: i64 = i64::MIN + 1;

/// The queues of all CPUs.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    queues: Vec<Sorted<0>>,
    /// By the first deadline, without one [`Nanos::MAX`].
    latest: Ranking,
    /// By the first deadline of those that may have to wait, negated.
    earliest: Ranking,
    /// Whether the first of a CPU may have to wait as well, for a more important scheduler.
    may_be_outranked: bool,
}

impl Queues {
    pub(super) fn new(cpus: usize, may_be_outranked: bool) -> Queues {
        Queues {
            queues: vec![Sorted::default(); cpus],
            latest: Ranking::new(cpus, Nanos::MAX.get()),
            earliest: Ranking::new(cpus, NOTHING),
            may_be_outranked,
        }
    }

    /// How many CPUs.
    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    /// The first entity of a CPU.
    #[inline]
    pub(super) fn first(&self, cpu: usize) -> Option<usize> {
        self.queues[cpu].first().map(|first| first.item as usize)
    }

    /// The first deadline of a CPU; without one [`Nanos::MAX`].
    #[inline]
    pub(super) fn first_deadline(&self, cpu: usize) -> Nanos {
        self.queues[cpu].first().map_or(Nanos::MAX, |first| Nanos::new(first.key))
    }

    pub(super) fn is_empty(&self, cpu: usize) -> bool {
        self.queues[cpu].is_empty()
    }

    /// Deadlines and entities of a CPU in order.
    pub(super) fn iter(&self, cpu: usize) -> impl Iterator<Item = (Nanos, usize)> {
        self.queues[cpu].iter().map(|member| (Nanos::new(member.key), member.item as usize))
    }

    /// An entity joins the queue of its CPU.
    pub(super) fn insert(&mut self, index: usize, entity: &mut Entity) {
        let item = u32::try_from(index).expect("fewer than 2^32 entities");
        let key = entity.deadline.get();
        entity.place = Some((key, self.queues[entity.cpu].insert(key, item, [])));
        self.rank(entity.cpu);
    }

    /// An entity leaves the queue of its CPU; false when it is in none.
    pub(super) fn remove(&mut self, entity: &mut Entity) -> bool {
        let Some((key, order)) = entity.place.take() else { return false };
        self.queues[entity.cpu].remove(key, order);
        self.rank(entity.cpu);
        true
    }

    fn rank(&mut self, cpu: usize) {
        if self.queues.len() == 1 {
            return;
        }
        self.latest.set(cpu, self.first_deadline(cpu).get());
        let queue = &self.queues[cpu];
        let waits = if self.may_be_outranked { queue.first() } else { queue.second() };
        self.earliest.set(cpu, waits.map_or(NOTHING, |member| -member.key));
    }

    /// The CPU whose first deadline is the latest and later than this one, of those that fit; one without any comes first.
    pub(super) fn latest(&self, deadline: Nanos, fits: impl Fn(usize) -> bool) -> Option<usize> {
        self.latest.best(deadline.get(), fits)
    }

    /// Whether one of the CPUs fits where an entity with an earlier deadline than this one may wait.
    pub(super) fn any_earlier(&self, deadline: Nanos, fits: impl FnMut(usize) -> bool) -> bool {
        self.earliest.any_above(-deadline.get(), fits)
    }
}
