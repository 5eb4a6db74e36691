//! QFQ+: fair queueing at a cost that does not grow with the number of flows, by rounding.
//!
//! F. Checconi, L. Rizzo, P. Valente, *QFQ: Efficient Packet Scheduling with Tight Guarantees*, 2013; P. Valente, *Reducing the Execution Time
//! of Fair-Queueing Packet Schedulers*, 2014; `net/sched/sch_qfq.c` (6.12), whose order this is, packet by packet, as long as the flows stay
//! as they are (`tests/fairq/kernel.rs`).
//!
//! Flows of one weight and one largest item are put together, up to eight, into an *aggregate*, which has their weight and a
//! budget of one largest item for each; inside it flows go by DRR. Aggregates have the S and F of B-WF2Q+. Those with a like
//! ratio of budget to weight are a *group*: group i has slots of s = 2^(25 + i) units of virtual time, the smallest that is no
//! less than budget / weight. A group's S is the one of its first aggregate rounded down to s, its F is `S + 2 s`. It is
//! ready or not by `S <= V`, and blocked where one of a higher index is ready with a smaller F; so within each of these four sets
//! groups are in the order of F by their index, and the next one is the lowest bit of a word.
//!
//! Over every interval in which it is backlogged, an aggregate of share p gets at least `p W - w 3 s - 2 p Bmax` of the
//! work W (B-WFI of the paper, with budgets for items); a flow of m in it the m-th part of that, less `3 L` by DRR.

use std::collections::VecDeque;

use surety_units::Nanos;

use super::flows::Queues;
use super::{FlowId, Item, Making, Rule, Scheduler, SchedulerRow};

pub(super) const ROW: SchedulerRow = SchedulerRow {
    word: "qfq",
    source: "P. Valente, 2014; net/sched/sch_qfq.c (6.12)",
    tc: Some("qfq"),
    limits: Some((MAX_WEIGHT, MAX_LARGEST)),
    make: |making| Box::new(QfqPlus::new(making)),
};

const BEGUN: Rule = Rule("first of the ready group that finishes first");
const GOES_ON: Rule = Rule("its aggregate's budget is not used up");

/// `QFQ_MAX_INDEX` and one.
const GROUPS: usize = 25;
/// `QFQ_MAX_SLOTS`.
const SLOTS: u64 = 32;
/// `QFQ_MAX_WEIGHT`.
const MAX_WEIGHT: u32 = 1 << 10;
/// `FRAC_BITS`.
const FRACTION_BITS: u32 = 30;
/// `QFQ_MIN_LMAX`.
const MIN_LARGEST: u32 = 512;
/// `QFQ_MAX_LMAX`.
const MAX_LARGEST: u32 = 1 << 16;
/// `QFQ_MAX_AGG_CLASSES`.
const FLOWS_OF_AGGREGATE: usize = 8;
/// Logarithm of the slots of group 0: `FRAC_BITS + QFQ_MTU_SHIFT + log2(QFQ_MAX_AGG_CLASSES) - QFQ_MAX_INDEX`.
const SLOT_SHIFT: u32 = 30 + 16 + 3 - 24;

/// The four sets of groups, as bits: not yet eligible, and blocked.
const READY: usize = 0;
const EARLY: usize = 1;
const BLOCKED: usize = 2;
const BOTH: usize = EARLY | BLOCKED;

/// No aggregate.
const NONE: u32 = u32::MAX;

/// Whether one virtual time is after another: they wrap.
fn after(a: u64, b: u64) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// The group for so much virtual time of a budget.
fn group_of(span: u64) -> usize {
    let slots = span.div_ceil(1 << SLOT_SHIFT).max(1);
    (slots.next_power_of_two().trailing_zeros() as usize).min(GROUPS - 1)
}

#[derive(Clone, Debug)]
struct Aggregate {
    start: u64,
    finish: u64,
    group: usize,
    /// Virtual time of a byte.
    inverse: u64,
    /// Bytes, in whole.
    whole: u32,
    left: u32,
    largest: u32,
    /// Its backlogged flows in the order of their turns.
    round: VecDeque<FlowId>,
    /// The next in its slot.
    next: u32,
}

#[derive(Clone, Debug)]
struct Group {
    start: u64,
    finish: u64,
    shift: u32,
    /// The slot of its start.
    front: u64,
    /// Which slots from there on hold something.
    full: u32,
    /// The first aggregate of each.
    slots: [u32; SLOTS as usize],
}

#[derive(Clone, Debug)]
struct QfqPlus {
    queues: Queues,
    /// By flow: its aggregate and its deficit.
    flows: Vec<(u32, u32)>,
    aggregates: Vec<Aggregate>,
    groups: Vec<Group>,
    /// The four sets, a bit for each group.
    sets: [u32; 4],
    now: u64,
    /// V when the last aggregate was chosen.
    chosen_at: u64,
    /// 2^30 by the sum of all weights.
    inverse_sum: u64,
    serving: Option<u32>,
}

impl QfqPlus {
    fn new(making: &Making) -> QfqPlus {
        let mut aggregates: Vec<Aggregate> = Vec::new();
        // Weight, largest item and flows of each; one that is full takes no more.
        let mut kinds: Vec<(u32, u32, usize)> = Vec::new();
        let mut flows = Vec::new();
        for flow in &making.flows {
            // The kernel keeps the weight that its inverse gives back.
            let one = 1 << FRACTION_BITS;
            let (weight, largest) = (one / (one / flow.weight), flow.largest.max(MIN_LARGEST));
            let is_open =
                |(w, l, n): &(u32, u32, usize)| (*w, *l) == (weight, largest) && *n < FLOWS_OF_AGGREGATE;
            let place = kinds.iter().rposition(is_open).unwrap_or_else(|| {
                kinds.push((weight, largest, 0));
                kinds.len() - 1
            });
            kinds[place].2 += 1;
            flows.push((u32::try_from(place).expect("as many flows"), 0));
        }
        for (weight, largest, count) in &kinds {
            let of_one = (1u64 << FRACTION_BITS) / u64::from(*weight);
            let count = u32::try_from(*count).expect("up to eight");
            let inverse = (1u64 << FRACTION_BITS) / u64::from(weight * count);
            aggregates.push(Aggregate {
                start: 0,
                finish: 0,
                // By its first flow alone, as the kernel, which does not move it when others come.
                group: group_of(u64::from(*largest) * of_one),
                inverse,
                whole: count * largest,
                left: 0,
                largest: *largest,
                round: VecDeque::with_capacity(FLOWS_OF_AGGREGATE),
                next: NONE,
            });
        }
        let sum: u64 = kinds.iter().map(|(weight, _, count)| u64::from(*weight) * *count as u64).sum();
        let group = |index| Group {
            start: 0,
            finish: 0,
            shift: SLOT_SHIFT + index,
            front: 0,
            full: 0,
            slots: [NONE; SLOTS as usize],
        };
        QfqPlus {
            queues: Queues::new(flows.len()),
            flows,
            aggregates,
            groups: (0..GROUPS as u32).map(group).collect(),
            sets: [0; 4],
            now: 0,
            chosen_at: 0,
            inverse_sum: (1 << FRACTION_BITS) / sum.max(1),
            serving: None,
        }
    }

    /// The ready group of the lowest index from this one on.
    fn first_ready(&self, from: usize) -> Option<&Group> {
        let mask = self.sets[READY] & (u32::MAX << from);
        (mask != 0).then(|| &self.groups[mask.trailing_zeros() as usize])
    }

    fn set_of(&self, index: usize) -> usize {
        let group = &self.groups[index];
        let early = if after(group.start, self.now) { EARLY } else { READY };
        let blocked = self.first_ready(index).is_some_and(|next| after(group.finish, next.finish));
        early | if blocked { BLOCKED } else { READY }
    }

    fn move_groups(&mut self, mask: u32, from: usize, to: usize) {
        self.sets[to] |= self.sets[from] & mask;
        self.sets[from] &= !mask;
    }

    /// Start and finish for an aggregate that becomes backlogged.
    fn stamp(&mut self, place: u32) {
        let aggregate = &self.aggregates[place as usize];
        let slot = 1u64 << self.groups[aggregate.group].shift;
        let rounded = aggregate.finish & !(slot - 1);
        let limit = (self.now & !(slot - 1)).wrapping_add(slot);
        let is_stale = !after(aggregate.finish, self.now) || after(rounded, limit);
        let blocking = self.first_ready(aggregate.group).filter(|next| after(rounded, next.finish));
        let start = match blocking {
            _ if !is_stale => aggregate.finish,
            Some(next) if after(limit, next.finish) => next.finish,
            Some(_) => limit,
            None => self.now,
        };
        self.restart(place, start);
    }

    fn restart(&mut self, place: u32, start: u64) {
        let aggregate = &mut self.aggregates[place as usize];
        aggregate.left = aggregate.whole;
        aggregate.start = start;
        aggregate.finish = start.wrapping_add(u64::from(aggregate.whole) * aggregate.inverse);
    }

    fn activate(&mut self, place: u32) {
        self.stamp(place);
        if self.serving.is_none() {
            self.serving = Some(place);
            self.now = self.aggregates[place as usize].start;
            self.chosen_at = self.now;
        } else {
            self.schedule(place);
        }
    }

    fn schedule(&mut self, place: u32) {
        let Aggregate { start, group: index, .. } = self.aggregates[place as usize];
        let group = &mut self.groups[index];
        let rounded = start & !((1 << group.shift) - 1);
        if group.full == 0 || after(group.start, start) {
            if group.full != 0 {
                // It begins earlier than the group, which was therefore not eligible.
                let slots = group.start.wrapping_sub(rounded) >> group.shift;
                group.full <<= slots;
                group.front = group.front.wrapping_sub(slots) % SLOTS;
                self.sets[EARLY] &= !(1 << index);
                self.sets[BOTH] &= !(1 << index);
            } else if self.sets[READY] == 0 && after(rounded, self.now) && self.serving.is_none() {
                self.now = rounded;
            }
            self.begin_group(index, rounded);
        }
        self.insert(place, rounded);
    }

    fn begin_group(&mut self, index: usize, rounded: u64) {
        let group = &mut self.groups[index];
        group.start = rounded;
        group.finish = rounded.wrapping_add(2 << group.shift);
        let set = self.set_of(index);
        self.sets[set] |= 1 << index;
    }

    fn insert(&mut self, place: u32, rounded: u64) {
        let aggregate = &mut self.aggregates[place as usize];
        let group = &mut self.groups[aggregate.group];
        let mut slot = rounded.wrapping_sub(group.start) >> group.shift;
        if slot > SLOTS - 2 {
            // After a service out of order: earlier than it should be, which postpones nobody who could have gone before.
            let back = (slot - (SLOTS - 2)) << group.shift;
            aggregate.start = aggregate.start.wrapping_sub(back);
            aggregate.finish = aggregate.finish.wrapping_sub(back);
            slot = SLOTS - 2;
        }
        let at = ((group.front + slot) % SLOTS) as usize;
        aggregate.next = std::mem::replace(&mut group.slots[at], place);
        group.full |= 1 << slot;
    }

    /// Groups whose start V has reached since it was `chosen_at` are early no more; V moves on where nobody would be ready.
    fn update_eligible(&mut self) {
        let early = self.sets[EARLY] | self.sets[BOTH];
        if early == 0 {
            return;
        }
        if self.sets[READY] == 0 {
            let first = &self.groups[early.trailing_zeros() as usize];
            if after(first.start, self.now) {
                self.now = first.start;
            }
        }
        let changed = (self.now >> SLOT_SHIFT) ^ (self.chosen_at >> SLOT_SHIFT);
        if changed != 0 {
            // Slots of group i begin where bit i of V, counted in the smallest slots, changes.
            let highest = u64::BITS - changed.leading_zeros();
            let mask = if highest > 31 { u32::MAX } else { (1 << highest) - 1 };
            self.move_groups(mask, EARLY, READY);
            self.move_groups(mask, BOTH, BLOCKED);
        }
    }

    fn choose(&mut self) -> Option<u32> {
        self.update_eligible();
        self.chosen_at = self.now;
        if self.sets[READY] == 0 {
            return None;
        }
        let index = self.sets[READY].trailing_zeros() as usize;
        let group = &mut self.groups[index];
        let old_finish = group.finish;
        let front = group.front as usize;
        let chosen = group.slots[front];
        let next = self.aggregates[chosen as usize].next;
        group.slots[front] = next;
        if next == NONE {
            group.full &= !1;
        }
        if group.full == 0 {
            self.sets[READY] &= !(1 << index);
        } else {
            let slots = group.full.trailing_zeros();
            group.full >>= slots;
            group.front = (group.front + u64::from(slots)) % SLOTS;
            let head = group.slots[group.front as usize];
            let rounded = self.aggregates[head as usize].start & !((1 << group.shift) - 1);
            if rounded == group.start {
                return Some(chosen);
            }
            self.sets[READY] &= !(1 << index);
            self.begin_group(index, rounded);
        }
        self.unblock(index, old_finish);
        Some(chosen)
    }

    /// Groups below one that was ready up to `old_finish` may be blocked no more.
    fn unblock(&mut self, index: usize, old_finish: u64) {
        if self.first_ready(index + 1).is_some_and(|next| !after(next.finish, old_finish)) {
            return;
        }
        let mask = (1 << index) - 1;
        self.move_groups(mask, BLOCKED, READY);
        self.move_groups(mask, BOTH, EARLY);
    }

    /// The next item by DRR within an aggregate.
    fn take(&mut self, place: u32) -> Option<Item> {
        let aggregate = &mut self.aggregates[place as usize];
        let flow = *aggregate.round.front()?;
        let item = self.queues.pop(flow);
        let deficit = &mut self.flows[flow.index()].1;
        *deficit = deficit.saturating_sub(item.length);
        match self.queues.head(flow) {
            None => {
                aggregate.round.pop_front();
            }
            Some(head) if *deficit < head => {
                *deficit += aggregate.largest;
                aggregate.round.rotate_left(1);
            }
            Some(_) => {}
        }
        aggregate.left = aggregate.left.saturating_sub(item.length);
        self.now = self.now.wrapping_add(u64::from(item.length) * self.inverse_sum);
        Some(item)
    }
}

impl Scheduler for QfqPlus {
    fn enqueue(&mut self, _now: Nanos, item: Item) {
        if !self.queues.push(item) {
            return;
        }
        let (place, deficit) = &mut self.flows[item.flow.index()];
        let aggregate = &mut self.aggregates[*place as usize];
        *deficit = aggregate.largest;
        aggregate.round.push_back(item.flow);
        if aggregate.round.len() == 1 && self.serving != Some(*place) {
            let place = *place;
            self.activate(place);
        }
    }

    fn dequeue(&mut self, _now: Nanos) -> Option<(Item, Rule)> {
        let mut place = self.serving?;
        let mut rule = GOES_ON;
        let aggregate = &mut self.aggregates[place as usize];
        let head = aggregate.round.front().and_then(|flow| self.queues.head(*flow));
        if head.is_none_or(|length| length > aggregate.left) {
            let served = u64::from(aggregate.whole - aggregate.left);
            aggregate.finish = aggregate.start.wrapping_add(served * aggregate.inverse);
            if head.is_some() {
                let start = aggregate.finish;
                self.restart(place, start);
                self.schedule(place);
            } else if self.queues.len() == 0 {
                self.serving = None;
                return None;
            }
            self.serving = self.choose();
            place = self.serving?;
            rule = BEGUN;
        }
        self.take(place).map(|item| (item, rule))
    }

    fn queued(&self) -> usize {
        self.queues.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logarithm of the ratio of the largest item to the weight, in slots: by the definition in `qfq_calc_index`.
    #[test]
    fn the_group_is_the_smallest_whose_slots_hold_a_budget() {
        for (largest, weight, expected) in [
            (512u64, 1024u64, 4),
            (512, 1, 14),
            (1500, 100, 9),
            (1514, 1, 16),
            (2048, 1, 16),
            (2049, 1, 17),
            (65536, 1, 21),
            (8 * 65536, 1, 24),
        ] {
            let span = largest * ((1 << FRACTION_BITS) / weight);
            let index = group_of(span);
            assert_eq!(index, expected, "{largest} bytes, weight {weight}");
            assert!(span <= 1 << (SLOT_SHIFT as usize + index));
        }
    }

    #[test]
    fn flows_alike_are_put_together_in_eights() {
        let like = super::super::Flow::new(3, 1500);
        let mut flows = vec![like; 17];
        flows.push(super::super::Flow::new(3, 9000));
        let making = Making { rate: surety_units::Rate(1), flows, quantum: 1 };
        let qfq = QfqPlus::new(&making);
        let sizes: Vec<u32> =
            qfq.aggregates.iter().map(|aggregate| aggregate.whole / aggregate.largest).collect();
        assert_eq!(sizes, [8, 8, 1, 1]);
    }

    #[test]
    fn virtual_times_may_wrap() {
        assert!(after(1, 0) && after(0, u64::MAX) && !after(0, 0) && !after(0, 1) && !after(u64::MAX, 0));
    }
}
