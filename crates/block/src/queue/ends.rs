//! [`Ends`]: queued requests by the sector behind them, to be found by a bio that begins there (the kernel's `rqhash`).

use crate::request::RequestId;

/// A request and the sector behind it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    end: u64,
    id: RequestId,
}

/// No request has this number.
const FREE: Entry = Entry { end: 0, id: RequestId(u32::MAX) };

impl Entry {
    #[inline]
    fn is_free(&self) -> bool {
        self.id == FREE.id
    }
}

/// Of two that end there the one that came last is found. Entries lie in a table of a power of two places, at most a third full, each at
/// the first free place from its own on.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    places: Vec<Entry>,
    count: usize,
}

impl Ends {
    #[inline]
    fn place_of(&self, end: u64) -> usize {
        let spread = end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        usize::try_from(spread).expect("32 bits") & (self.places.len() - 1)
    }

    /// Where an end stands, or the free place it would take.
    #[inline]
    fn find(&self, end: u64) -> usize {
        let mut place = self.place_of(end);
        while !self.places[place].is_free() && self.places[place].end != end {
            place = (place + 1) & (self.places.len() - 1);
        }
        place
    }

    /// The request that ends there.
    pub(super) fn get(&self, end: u64) -> Option<RequestId> {
        if self.count == 0 {
            return None;
        }
        let entry = &self.places[self.find(end)];
        (!entry.is_free()).then_some(entry.id)
    }

    /// A request ends there.
    pub(super) fn insert(&mut self, end: u64, id: RequestId) {
        if self.places.len() < 3 * (self.count + 1) {
            self.grow();
        }
        let place = self.find(end);
        self.count += usize::from(self.places[place].is_free());
        self.places[place] = Entry { end, id };
    }

    #[cold]
    fn grow(&mut self) {
        let room = (3 * (self.count + 1)).next_power_of_two();
        let old = std::mem::replace(&mut self.places, vec![FREE; room]);
        for entry in old.into_iter().filter(|entry| !entry.is_free()) {
            let place = self.find(entry.end);
            self.places[place] = entry;
        }
    }

    /// A request does not end there any more, if it was the one.
    pub(super) fn remove(&mut self, end: u64, id: RequestId) {
        if self.count == 0 {
            return;
        }
        let mut hole = self.find(end);
        if self.places[hole].id != id {
            return;
        }
        let last = self.places.len() - 1;
        self.count -= 1;
        // Those behind it move up where their own place is not behind the hole.
        let mut place = (hole + 1) & last;
        while !self.places[place].is_free() {
            let own = self.place_of(self.places[place].end);
            if (place.wrapping_sub(own) & last) >= (place.wrapping_sub(hole) & last) {
                self.places[hole] = self.places[place];
                hole = place;
            }
            place = (place + 1) & last;
        }
        self.places[hole] = FREE;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As a map would have it, and with it a removal by somebody else.
        #[test]
        fn it_holds_what_a_map_holds(steps in prop::collection::vec((0..40u64, 0..30u32, any::<bool>()), 0..400)) {
            let (mut ends, mut map) = (Ends::default(), BTreeMap::new());
            for (end, id, inserts) in steps {
                let id = RequestId(id);
                if inserts {
                    ends.insert(end, id);
                    map.insert(end, id);
                } else {
                    ends.remove(end, id);
                    if map.get(&end) == Some(&id) {
                        map.remove(&end);
                    }
                }
                prop_assert_eq!(ends.count, map.len());
                for end in 0..40 {
                    prop_assert_eq!(ends.get(end), map.get(&end).copied());
                }
            }
        }
    }
}
