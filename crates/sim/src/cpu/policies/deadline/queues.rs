//! [`Queues`]: the entities that may run on each CPU, by deadline and then by order of coming, and which CPUs have the
//! latest first and the earliest second ones: where a thread goes to, and where one comes from.

use surety_units::Nanos;

use super::entity::Entity;
use crate::cpu::places::{Places, Ranking};
use crate::cpu::sorted::{Member, Sorted};

/// The figure of a CPU from which nothing is to be had.
const NOTHING: i64 = i64::MIN + 1;

/// The two that come first on a CPU: what every choice asks for, side by side for all CPUs.
#[derive(Clone, Copy, Debug)]
struct Front {
    /// The first deadline; without one [`Nanos::MAX`].
    deadline: Nanos,
    /// The deadline of the second.
    second: Nanos,
    entity: u32,
}

const EMPTY: Front = Front { deadline: Nanos::MAX, second: Nanos::MAX, entity: u32::MAX };

/// The queues of all CPUs.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    queues: Vec<Sorted<0>>,
    fronts: Vec<Front>,
    /// CPUs without any entity.
    empty: Places,
    /// By the first deadline, without one [`Nanos::MAX`]; but for those whose first has changed since they were ranked.
    latest: Ranking,
    changed: Places,
    /// By the first deadline of those that may have to wait, negated.
    earliest: Ranking,
    /// Whether the first of a CPU may have to wait as well, for a more important scheduler.
    may_be_outranked: bool,
}

impl Queues {
    pub(super) fn new(cpus: usize, may_be_outranked: bool) -> Queues {
        let mut empty = Places::none(cpus);
        (0..cpus).for_each(|cpu| empty.set(cpu, true));
        Queues {
            queues: vec![Sorted::default(); cpus],
            fronts: vec![EMPTY; cpus],
            empty,
            latest: Ranking::new(cpus, Nanos::MAX.get()),
            changed: Places::none(cpus),
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
        let Front { deadline, entity, .. } = self.fronts[cpu];
        (deadline != Nanos::MAX).then_some(entity as usize)
    }

    /// The first deadline of a CPU; without one [`Nanos::MAX`].
    #[inline]
    pub(super) fn first_deadline(&self, cpu: usize) -> Nanos {
        self.fronts[cpu].deadline
    }

    /// Whether an entity may have to wait somewhere.
    #[inline]
    pub(super) fn some_may_wait(&self) -> bool {
        self.earliest.greatest() != NOTHING
    }

    /// Whether one stands behind the first of a CPU.
    #[inline]
    pub(super) fn has_second(&self, cpu: usize) -> bool {
        self.fronts[cpu].second != Nanos::MAX
    }

    #[inline]
    pub(super) fn is_empty(&self, cpu: usize) -> bool {
        self.first(cpu).is_none()
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
        let queue = &self.queues[cpu];
        let key = |member: &Member<0>| Nanos::new(member.key);
        let second = queue.second().map_or(Nanos::MAX, key);
        let now =
            queue.first().map_or(EMPTY, |first| Front { deadline: key(first), second, entity: first.item });
        let before = std::mem::replace(&mut self.fronts[cpu], now);
        if self.queues.len() == 1 {
            return;
        }
        if now.deadline != before.deadline {
            self.empty.set(cpu, now.deadline == Nanos::MAX);
            self.changed.set(cpu, true);
        }
        let waits = |front: Front| if self.may_be_outranked { front.deadline } else { front.second };
        if waits(now) != waits(before) {
            let waits = waits(now);
            self.earliest.set(cpu, if waits == Nanos::MAX { NOTHING } else { -waits.get() });
        }
    }

    /// A CPU without any entity that fits, the next one behind that which was chosen last, which it becomes; else the CPU whose first
    /// deadline is the latest and later than this one.
    pub(super) fn latest(
        &mut self,
        deadline: Nanos,
        chosen: &mut usize,
        fits: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if let Some(empty) = self.empty.next_behind(*chosen, &fits) {
            *chosen = empty;
            return Some(empty);
        }
        while let Some(cpu) = self.changed.pop() {
            self.latest.set(cpu, self.fronts[cpu].deadline.get());
        }
        self.latest.best(deadline.get(), fits)
    }

    /// Shows CPUs where an entity with an earlier deadline than this one may wait, or with that of the last entity found: nothing later
    /// than what is found is looked for.
    #[inline]
    pub(super) fn earlier(&self, deadline: Nanos, mut find: impl FnMut(usize) -> Option<Nanos>) {
        self.earliest.visit_above(-deadline.get(), |cpu, bound| {
            if let Some(found) = find(cpu) {
                *bound = -found.get() - 1;
            }
        });
    }
}
