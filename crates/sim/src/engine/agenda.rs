//! [`Agenda`]: the armed slots of an [`Engine`](super::Engine), in the order in which they come.
//!
//! A few slots stand in a heap. What comes later, where there are many, waits in a [`Wheel`] and goes into the heap in time:
//! so the heap stays small, and what a slot costs does not grow with their number.
//!
//! The heap never holds a stale entry, and arming allocates nothing. Instants that
//! are equal come in the order in which they were armed: a sequence number breaks the tie, on every machine alike.

mod wheel;

use surety_units::Nanos;

use super::{ComponentId, Event};
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

/// Entries that stand in the heap before any waits in the wheel.
const FEW: usize = 48;

/// The same for those that come late, in more than 17 ms: they would stand in the way of all others for long.
const FEW_LATE: usize = 4;
const LATE: Nanos = Nanos::new(1 << 24);

/// An armed slot. It has with it what it stands for: whoever takes it has nothing to look up, which with many slots
/// would be to wait for memory.
#[derive(Clone, Copy, Debug)]
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

    #[inline]
    fn precedes(&self, other: &Entry) -> bool {
        self.key() < other.key()
    }
}

/// Entries below each of the heap's: it is half as deep as with two, and they are side by side in memory.
const BELOW: usize = 4;

/// A heap of armed slots, ordered by time and then by the order of arming.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    heap: Vec<Entry>,
    wheel: Wheel,
    slots: Vec<Node>,
    sequence: u64,
    /// The instant of what was taken last.
    now: Nanos,
    /// The first entry has been taken and nothing has come into its place yet. What happens next mostly arms
    /// something, and one descent from there costs less than closing the gap and rising from below.
    vacant: bool,
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
        // Arming never allocates: the heap has room for every slot.
        self.heap.reserve(self.slots.len() - self.heap.len());
        Slot(slot)
    }

    /// Lets a slot happen at `time`, and at no other time.
    pub(super) fn arm(&mut self, slot: Slot, time: Nanos) {
        self.sequence += 1;
        let Node { place, sequence: known, number, .. } = self.slots[slot.index()];
        let sequence = self.sequence << 8 | known & 0xff;
        let entry = Entry { time, sequence, slot: slot.0, number };
        match place {
            ABSENT => self.insert(entry),
            FIRST_LIST.. => {
                self.wheel.remove(&mut self.slots, (slot.0, place));
                self.insert(entry);
            }
            _ => {
                self.close_gap();
                self.replace(self.slots[slot.index()].place as usize, entry);
            }
        }
    }

    fn insert(&mut self, entry: Entry) {
        let few = if entry.time - self.now > LATE { FEW_LATE } else { FEW };
        if self.heap.len() >= few && self.wheel.is_later(entry.time) {
            self.wheel.insert(&mut self.slots, entry);
        } else if self.vacant {
            self.vacant = false;
            self.sink(0, entry);
        } else {
            self.heap.push(entry);
            self.rise(self.heap.len() - 1, entry);
        }
    }

    /// Has what comes next in the heap: what the wheel still has comes later.
    fn turn(&mut self) {
        while !self.wheel.is_empty() && self.heap.first().is_none_or(|first| self.wheel.is_later(first.time))
        {
            self.wheel.turn(&mut self.slots);
            while let Some(entry) = self.wheel.take_due(&self.slots) {
                self.heap.push(entry);
                self.rise(self.heap.len() - 1, entry);
            }
        }
    }

    /// Keeps a slot from happening.
    pub(super) fn cancel(&mut self, slot: Slot) {
        if !self.is_armed(slot) {
            return;
        }
        self.close_gap();
        let place = std::mem::replace(&mut self.slots[slot.index()].place, ABSENT);
        if place >= FIRST_LIST {
            return self.wheel.remove(&mut self.slots, (slot.0, place));
        }
        let last = self.heap.pop().expect("an armed slot is in the heap");
        if last.slot != slot.0 {
            self.replace(place as usize, last);
        }
    }

    /// Whether a slot is armed.
    pub(super) fn is_armed(&self, slot: Slot) -> bool {
        self.slots[slot.index()].place != ABSENT
    }

    /// Takes the next slot up to and including `end` out: its instant, and what it stands for.
    pub(super) fn pop(&mut self, end: Nanos) -> Option<(Nanos, Event)> {
        self.close_gap();
        if !self.wheel.is_empty() {
            self.turn();
        }
        let first = *self.heap.first().filter(|first| first.time <= end)?;
        self.slots[first.slot as usize].place = ABSENT;
        self.vacant = true;
        self.now = first.time;
        Some((first.time, first.event()))
    }

    /// What comes next, when it comes at this instant.
    pub(super) fn next_at(&self, time: Nanos) -> Option<Event> {
        // What the wheel holds comes later than what is due.
        let places = if self.vacant { 1..self.heap.len().min(1 + BELOW) } else { 0..self.heap.len().min(1) };
        let due = self.heap[places].iter().filter(|entry| entry.time == time);
        due.min_by_key(|entry| entry.sequence).map(Entry::event)
    }

    fn close_gap(&mut self) {
        if !self.vacant {
            return;
        }
        self.vacant = false;
        let last = self.heap.pop().expect("the gap is a place in the heap");
        if !self.heap.is_empty() {
            self.sink(0, last);
        }
    }

    fn replace(&mut self, place: usize, entry: Entry) {
        let rises = place > 0 && entry.precedes(&self.heap[(place - 1) / BELOW]);
        if rises { self.rise(place, entry) } else { self.sink(place, entry) }
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.slots[entry.slot as usize].place = u32::try_from(place).expect("as many places as slots");
    }

    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / BELOW;
            if !entry.precedes(&self.heap[parent]) {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: Entry) {
        let key = entry.key();
        loop {
            let first = BELOW * place + 1;
            let below = &self.heap[first.min(self.heap.len())..self.heap.len().min(first + BELOW)];
            let least = match below {
                [] => break,
                [a, b, c, d] => least(least((0, a.key()), (1, b.key())), least((2, c.key()), (3, d.key()))),
                few => {
                    few.iter().enumerate().map(|(at, entry)| (at, entry.key())).reduce(least).expect("some")
                }
            };
            if least.1 >= key {
                break;
            }
            self.put(place, self.heap[first + least.0]);
            place = first + least.0;
        }
        self.put(place, entry);
    }
}

/// The one with the lesser key.
#[inline]
fn least(a: (usize, u128), b: (usize, u128)) -> (usize, u128) {
    if b.1 < a.1 { b } else { a }
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

        /// Too many for the heap alone, at distances of any size.
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
