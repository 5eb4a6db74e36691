//! [`Agenda`]: the armed slots of an [`Engine`](super::Engine), in the order in which they come.
//!
//! A few slots stand in a [`Line`]. What comes later, where there are many, waits in a [`Wheel`] and goes into the line in time:
//! so the line stays short, and what a slot costs does not grow with their number.
//!
//! The line never holds a stale entry, and arming allocates nothing. Instants that
//! are equal come in the order in which they were armed: a sequence number breaks the tie, on every machine alike.

mod line;
mod wheel;

use surety_units::Nanos;

use super::{ComponentId, Event};
use line::Line;
use wheel::{FIRST_LIST, Node, Wheel};

/// Something that can happen, armed for at most one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub(super) u32);

impl Slot {
    /// Slots are numbered from 0 in the order in which they were added.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The place of a slot that is not armed.
const ABSENT: u32 = u32::MAX;

/// Entries that stand in the line before any waits in the wheel.
const FEW: usize = 16;

/// The same for those that come late, in more than 17 ms: they would stand in the way of all others for long.
const FEW_LATE: usize = 4;
const LATE: Nanos = Nanos::new(1 << 24);

/// An armed slot. It has with it what it stands for: whoever takes it has nothing to look up, which with many slots
/// would be to wait for memory.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    time: Nanos,
    /// When it was armed, among all; and the component, in the lowest 8 bits.
    sequence: u64,
    slot: u32,
    number: u32,
}

impl Entry {
    fn event(&self) -> Event {
        let component = ComponentId(self.sequence.to_le_bytes()[0]);
        Event { component, number: self.number }
    }

    /// What it is ordered by: its instant, none before 0, and then its sequence. One number is compared without a branch.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.time.get().cast_unsigned()) << 64 | u128::from(self.sequence)
    }
}

/// Armed slots, ordered by time and then by the order of arming.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    line: Line,
    wheel: Wheel,
    slots: Vec<Node>,
    sequence: u64,
    /// The instant of what was taken last.
    now: Nanos,
}

impl Agenda {
    /// Adds a slot, not armed.
    ///
    /// # Panics
    /// Beyond some thousand less than 2^32 slots.
    pub(super) fn add_slot(&mut self, event: Event) -> Slot {
        let slot = u32::try_from(self.slots.len()).ok().filter(|slot| *slot < FIRST_LIST);
        let slot = slot.expect("a place for every slot");
        self.slots.push(Node::new(u64::from(event.component.0), event.number));
        // Arming never allocates: the line has room for every slot.
        self.line.reserve(self.slots.len());
        Slot(slot)
    }

    /// Lets a slot happen at `time`, and at no other time.
    pub(super) fn arm(&mut self, slot: Slot, time: Nanos) {
        // Mostly it stands nowhere.
        if self.slots[slot.index()].place != ABSENT {
            self.leave(slot);
        }
        self.sequence += 1;
        let node = &mut self.slots[slot.index()];
        let sequence = self.sequence << 8 | node.sequence & 0xff;
        let entry = Entry { time, sequence, slot: slot.0, number: node.number };
        let few = if time - self.now > LATE { FEW_LATE } else { FEW };
        if self.line.len() >= few && self.wheel.is_later(time) {
            self.wheel.insert(&mut self.slots, entry);
        } else {
            node.stand_in_line(&entry);
            self.line.insert(entry);
        }
    }

    /// An armed slot leaves its place.
    #[inline]
    fn leave(&mut self, slot: Slot) {
        let node = &self.slots[slot.index()];
        match node.place {
            ABSENT => {}
            FIRST_LIST.. => {
                let place = node.place;
                self.wheel.remove(&mut self.slots, (slot.0, place));
            }
            _ => self.line.remove(&node.entry(slot.0)),
        }
    }

    /// Has what comes next in the line: what the wheel still has comes later.
    fn turn(&mut self) {
        while !self.wheel.is_empty() && self.line.first().is_none_or(|first| self.wheel.is_later(first.time))
        {
            self.wheel.turn(&mut self.slots);
            while let Some(entry) = self.wheel.take_due(&self.slots) {
                self.slots[entry.slot as usize].stand_in_line(&entry);
                self.line.insert(entry);
            }
        }
    }

    /// Keeps a slot from happening.
    pub(super) fn cancel(&mut self, slot: Slot) {
        if self.slots[slot.index()].place != ABSENT {
            self.leave(slot);
            self.slots[slot.index()].place = ABSENT;
        }
    }

    /// Whether a slot is armed.
    pub(super) fn is_armed(&self, slot: Slot) -> bool {
        self.slots[slot.index()].place != ABSENT
    }

    /// Takes the next slot up to and including `end` out: its instant, and what it stands for.
    pub(super) fn pop(&mut self, end: Nanos) -> Option<(Nanos, Event)> {
        if !self.wheel.is_empty() {
            self.turn();
        }
        let first = *self.line.first().filter(|first| first.time <= end)?;
        self.line.drop_first();
        self.slots[first.slot as usize].place = ABSENT;
        self.now = first.time;
        Some((first.time, first.event()))
    }

    /// What comes next, when it comes at this instant.
    pub(super) fn next_at(&self, time: Nanos) -> Option<Event> {
        // What the wheel holds comes later than what is due.
        self.line.first().filter(|entry| entry.time == time).map(Entry::event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Arm(usize, i64),
        Cancel(usize),
        Pop(i64),
    }

    fn steps(slots: usize, unit: i64) -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..slots, 0i64..20).prop_map(move |(slot, time)| Step::Arm(slot, time * unit)),
            (0..slots).prop_map(Step::Cancel),
            (0i64..25).prop_map(move |end| Step::Pop(end * unit)),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        /// The agenda against the obvious model: a list searched for its smallest (time, order of arming).
        #[test]
        fn agrees_with_a_searched_list(steps in steps(12, 1)) {
            compare(steps, 12)?;
        }

        /// Too many for the line alone, at distances of any size.
        #[test]
        fn agrees_with_a_searched_list_of_many(
            size in 0u32..40,
            first in steps(300, 1),
            mut second in proptest::collection::vec((0usize..300, 0i64..1000), 100..600),
            third in steps(300, 1),
        ) {
            let scaled = |step| match step {
                Step::Arm(slot, time) => Step::Arm(slot, time << size),
                Step::Pop(end) => Step::Pop(end << size),
                other => other,
            };
            second.iter_mut().for_each(|(_, time)| *time = (*time << size) / 50);
            let many = second.into_iter().map(|(slot, time)| Step::Arm(slot, time));
            let mut steps: Vec<Step> = first.into_iter().map(scaled).collect();
            steps.extend(many);
            steps.extend(third.into_iter().map(scaled));
            steps.extend((0..300).map(|_| Step::Pop(i64::MAX)));
            compare(steps, 300)?;
        }
    }

    fn compare(steps: Vec<Step>, count: usize) -> Result<(), TestCaseError> {
        let mut agenda = Agenda::default();
        let component = |number: u32| ComponentId((number % 7) as u8);
        let event = |number| Event { component: component(number), number };
        let slots: Vec<Slot> = (0..count as u32).map(|slot| agenda.add_slot(event(slot))).collect();
        let mut list: Vec<(i64, usize, usize)> = Vec::new();
        for (order, step) in steps.into_iter().enumerate() {
            match step {
                Step::Arm(slot, time) => {
                    list.retain(|e| e.2 != slot);
                    list.push((time, order, slot));
                    agenda.arm(slots[slot], Nanos::new(time));
                }
                Step::Cancel(slot) => {
                    list.retain(|e| e.2 != slot);
                    agenda.cancel(slots[slot]);
                }
                Step::Pop(end) => {
                    list.sort_unstable();
                    let is_due = list.first().is_some_and(|first| first.0 <= end);
                    let expected = is_due.then(|| list.remove(0));
                    let popped = agenda.pop(Nanos::new(end)).map(|(t, event)| (t.get(), event));
                    prop_assert_eq!(popped, expected.map(|e| (e.0, event(e.2 as u32))));
                    if let Some((time, ..)) = expected {
                        let next =
                            list.first().filter(|next| next.0 == time).map(|next| event(next.2 as u32));
                        prop_assert_eq!(agenda.next_at(Nanos::new(time)), next);
                    }
                }
            }
            let armed = (0..count).filter(|s| agenda.is_armed(slots[*s])).count();
            prop_assert_eq!(armed, list.len());
        }
        Ok(())
    }
}
