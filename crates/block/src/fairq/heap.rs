//! [`Heap`]: flows by a key, the smallest first; a flow's key can change and a flow can be taken out from anywhere.

use super::FlowId;

/// Not in the heap.
const ABSENT: u32 = u32::MAX;

/// Children of an entry: four are beside each other in memory, and the heap is half as deep as with two.
const CHILDREN: usize = 4;

/// A heap that knows where each flow is. Equal keys are in the order of flows.
#[derive(Clone, Debug)]
pub(super) struct Heap<K> {
    entries: Vec<(K, FlowId)>,
    /// By flow: its place among the entries.
    places: Vec<u32>,
}

impl<K: Copy + Ord> Heap<K> {
    pub(super) fn new(flows: usize) -> Heap<K> {
        Heap { entries: Vec::with_capacity(flows), places: vec![ABSENT; flows] }
    }

    /// The flow with the smallest key.
    pub(super) fn first(&self) -> Option<(K, FlowId)> {
        self.entries.first().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn contains(&self, flow: FlowId) -> bool {
        self.places[flow.index()] != ABSENT
    }

    /// Puts a flow in, or gives it another key.
    pub(super) fn set(&mut self, flow: FlowId, key: K) {
        let place = match self.places[flow.index()] {
            ABSENT => {
                self.entries.push((key, flow));
                self.entries.len() - 1
            }
            place => {
                self.entries[place as usize].0 = key;
                place as usize
            }
        };
        self.settle(place);
    }

    /// Takes a flow out, if it is in.
    pub(super) fn remove(&mut self, flow: FlowId) {
        let place = std::mem::replace(&mut self.places[flow.index()], ABSENT);
        if place == ABSENT {
            return;
        }
        self.entries.swap_remove(place as usize);
        if (place as usize) < self.entries.len() {
            self.settle(place as usize);
        }
    }

    /// Takes the smallest out.
    pub(super) fn pop(&mut self) -> Option<(K, FlowId)> {
        let first = self.first()?;
        self.remove(first.1);
        Some(first)
    }

    fn settle(&mut self, mut place: usize) {
        while place > 0 && self.entries[place] < self.entries[(place - 1) / CHILDREN] {
            self.swap(place, (place - 1) / CHILDREN);
            place = (place - 1) / CHILDREN;
        }
        loop {
            let left = CHILDREN * place + 1;
            let Some(child) =
                (left..self.entries.len().min(left + CHILDREN)).min_by_key(|at| self.entries[*at])
            else {
                break;
            };
            if self.entries[place] <= self.entries[child] {
                break;
            }
            self.swap(place, child);
            place = child;
        }
        self.mark(place);
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.entries.swap(a, b);
        self.mark(a);
        self.mark(b);
    }

    fn mark(&mut self, place: usize) {
        let flow = self.entries[place].1;
        self.places[flow.index()] = u32::try_from(place).expect("fewer than 2^32 flows");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use surety_stats::random::Pcg;

    use super::*;

    #[test]
    fn the_smallest_is_that_of_a_sorted_set_after_every_change() {
        let (mut heap, mut set) = (Heap::new(20), BTreeSet::new());
        let mut keys = [0u64; 20];
        let mut chance = Pcg::new(5, 1);
        for _ in 0..20_000 {
            let flow = FlowId(u32::try_from(chance.below(20)).expect("small"));
            set.remove(&(keys[flow.index()], flow));
            if chance.below(3) == 0 {
                heap.remove(flow);
            } else {
                keys[flow.index()] = chance.below(8);
                heap.set(flow, keys[flow.index()]);
                set.insert((keys[flow.index()], flow));
            }
            assert_eq!(heap.first(), set.first().copied());
            assert_eq!(heap.contains(flow), set.contains(&(keys[flow.index()], flow)));
        }
    }
}
