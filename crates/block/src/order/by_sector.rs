//! [`BySector`]: waiting requests in the order of their sectors.

use super::sorted::Sorted;
use crate::elevator::Side;
use crate::request::{RequestId, Requests};

/// Waiting requests by their first sector; of equal ones by the order in which they were made.
pub(crate) type BySector = Sorted<u64>;

impl BySector {
    /// Adds a request.
    pub(crate) fn insert(&mut self, requests: &Requests, id: RequestId) {
        self.add(requests, requests[id].sector, id);
    }

    /// Takes a request out.
    pub(crate) fn remove(&mut self, requests: &Requests, id: RequestId) {
        self.cut(requests, id, || requests[id].sector);
    }

    /// A request has grown at its front: it is looked for from its new first sector on, close behind which it stood.
    pub(crate) fn grown_at_front(&mut self, requests: &Requests, id: RequestId) {
        let mut place = self.search(requests[id].sector);
        while let Some((_, known)) = self.get(place) {
            if known == id {
                self.take(place);
                break;
            }
            place = self.normal((place.0, place.1 + 1));
        }
        self.insert(requests, id);
    }

    /// The first that begins at this sector or behind it.
    pub(crate) fn from(&self, sector: u64) -> Option<RequestId> {
        self.at_or_above(sector).map(|(_, id)| id)
    }

    /// The last that begins before this sector.
    pub(crate) fn below(&self, sector: u64) -> Option<RequestId> {
        self.under(sector).map(|(_, id)| id)
    }

    /// The first that begins exactly there.
    pub(crate) fn at(&self, sector: u64) -> Option<RequestId> {
        self.get(self.search(sector)).filter(|(of, _)| *of == sector).map(|(_, id)| id)
    }

    /// The request with the lowest sector.
    pub(crate) fn first(&self) -> Option<RequestId> {
        self.lowest().map(|(_, id)| id)
    }

    /// The one next to a request, which need not be in it.
    pub(crate) fn beside(&self, requests: &Requests, id: RequestId, side: Side) -> Option<RequestId> {
        let place = self.locate(requests, id, || requests[id].sector);
        let is_there = self.get(place).is_some_and(|(_, known)| known == id);
        let place = match side {
            Side::Back if is_there => Some(self.normal((place.0, place.1 + 1))),
            Side::Back => Some(place),
            Side::Front => self.before(place),
        };
        self.get(place?).map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use surety_units::Nanos;

    use super::*;
    use crate::request::{Bio, BioId, Op, Priority, ProcessId};

    fn request(requests: &mut Requests, sector: u64) -> RequestId {
        let (op, process) = (Op::Read, ProcessId(0));
        let bio =
            Bio { op, sync: true, meta: false, cached: false, sector, sectors: 1, process, deadline: None };
        requests.make(&bio, BioId(0), Priority::default(), Nanos::ZERO)
    }

    proptest! {
        /// As a map by sector and sequence would have it, whose requests come in any order, grow at their front and go.
        #[test]
        fn it_holds_what_a_map_holds(
            steps in prop::collection::vec((0..5_u8, 0..400_u64, any::<prop::sample::Index>()), 0..1500),
        ) {
            let (mut sorted, mut map) = (BySector::default(), BTreeMap::<(u64, u64), RequestId>::new());
            let (mut requests, mut made) = (Requests::default(), Vec::new());
            for (what, sector, which) in steps {
                let chosen = (!map.is_empty()).then(|| *map.iter().nth(which.index(map.len())).unwrap().0);
                match (what, chosen) {
                    (0, Some(key)) => {
                        let id: RequestId = map.remove(&key).unwrap();
                        sorted.remove(&requests, id);
                    }
                    (1, Some((of, sequence))) => {
                        let id = map.remove(&(of, sequence)).unwrap();
                        requests[id].sector = of.saturating_sub(3);
                        map.insert((requests[id].sector, sequence), id);
                        sorted.grown_at_front(&requests, id);
                    }
                    // Made, and inserted later.
                    (2, _) => made.push(request(&mut requests, sector)),
                    _ => {
                        let id = made.pop().unwrap_or_else(|| request(&mut requests, sector));
                        map.insert((requests[id].sector, requests[id].sequence), id);
                        sorted.insert(&requests, id);
                    }
                }
                prop_assert_eq!((sorted.len(), sorted.is_empty()), (map.len(), map.is_empty()));
                prop_assert_eq!(sorted.first(), map.values().next().copied());
                prop_assert_eq!(sorted.second().map(|(_, id)| id), map.values().nth(1).copied());
                let found = |key: Option<(&(u64, u64), &RequestId)>| key.map(|(_, id)| *id);
                prop_assert_eq!(sorted.from(sector), found(map.range((sector, 0)..).next()));
                prop_assert_eq!(sorted.below(sector), found(map.range(..(sector, 0)).next_back()));
                prop_assert_eq!(sorted.at(sector), found(map.range((sector, 0)..=(sector, u64::MAX)).next()));
                if let Some(key) = chosen.filter(|key| map.contains_key(key)) {
                    let id = map[&key];
                    let behind = found(map.range((key.0, key.1 + 1)..).next());
                    prop_assert_eq!(sorted.beside(&requests, id, Side::Back), behind);
                    prop_assert_eq!(sorted.beside(&requests, id, Side::Front), found(map.range(..key).next_back()));
                }
            }
        }
    }
}
