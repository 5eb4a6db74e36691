//! [`Outgoing`]: requests between the elevator and the driver.

use std::collections::VecDeque;

use super::Rule;
use crate::request::{Op, RequestId, Requests};

/// What an elevator has given to the driver, which takes it from the front (`hctx->dispatch`).
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    queue: VecDeque<(RequestId, Rule)>,
    /// Behind the request that the driver took last (`q->end_sector`).
    boundary: u64,
    /// Behind all of `queue`, where the last is of another operation: of one operation, in the order in which they came. They are sorted
    /// when somebody looks, which is many times as fast as to look for the place of each.
    unsorted: Vec<Unsorted>,
    of: Option<Op>,
}

#[derive(Clone, Copy, Debug)]
struct Unsorted {
    /// How far upwards from the boundary, round the end.
    way: u64,
    /// Its place among them before they are sorted.
    came: u32,
    id: RequestId,
    rule: Rule,
}

impl Outgoing {
    /// At the end.
    pub fn append(&mut self, id: RequestId, rule: Rule) {
        self.settle();
        self.queue.push_back((id, rule));
    }

    /// In the order of sectors from where the driver is, round the end (`elv_dispatch_sort`); not past a request of the other
    /// direction.
    pub fn sort_in(&mut self, requests: &Requests, id: RequestId, rule: Rule) {
        let of = &requests[id];
        let boundary = self.boundary;
        let way = |sector: u64| sector.wrapping_sub(boundary);
        if self.unsorted.is_empty() || self.of != Some(of.op) {
            self.settle();
            if self.queue.back().is_some_and(|(last, _)| requests[*last].op == of.op) {
                let before = self.queue.iter().rposition(|(other, _)| {
                    requests[*other].op != of.op || way(requests[*other].sector) <= way(of.sector)
                });
                return self.queue.insert(before.map_or(0, |before| before + 1), (id, rule));
            }
            self.of = Some(of.op);
        }
        let came = u32::try_from(self.unsorted.len()).expect("fewer than 2^32 requests");
        self.unsorted.push(Unsorted { way: way(of.sector), came, id, rule });
    }

    #[inline]
    fn settle(&mut self) {
        if !self.unsorted.is_empty() {
            self.sort();
        }
    }

    /// Sorts those that are not.
    #[inline(never)]
    fn sort(&mut self) {
        self.unsorted.sort_unstable_by_key(|it| (it.way, it.came));
        self.queue.extend(self.unsorted.drain(..).map(|it| (it.id, it.rule)));
    }

    /// The driver took a request that ends there.
    pub fn set_boundary(&mut self, end: u64) {
        self.settle();
        self.boundary = end;
    }

    /// All of them, in any order.
    pub fn ids(&self) -> impl Iterator<Item = RequestId> + '_ {
        let unsorted = self.unsorted.iter().map(|it| it.id);
        self.queue.iter().map(|(id, _)| *id).chain(unsorted)
    }

    /// The next for the driver, and why.
    pub fn take(&mut self) -> Option<(RequestId, Rule)> {
        if self.unsorted.len() == 1 && self.queue.is_empty() {
            return self.unsorted.pop().map(|it| (it.id, it.rule));
        }
        self.settle();
        self.queue.pop_front()
    }

    /// The next for the driver.
    pub fn first(&mut self) -> Option<RequestId> {
        self.settle();
        self.queue.front().map(|(id, _)| *id)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queue.len() + self.unsorted.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surety_units::Nanos;

    use super::*;
    use crate::request::{Bio, BioId, Priority, ProcessId};

    const RULE: Rule = Rule("a rule");

    fn request(requests: &mut Requests, op: Op, sector: u64) -> RequestId {
        let process = ProcessId(0);
        let bio =
            Bio { op, sync: true, meta: false, cached: false, sector, sectors: 1, process, deadline: None };
        requests.make(&bio, BioId(0), Priority::default(), Nanos::ZERO)
    }

    /// `elv_dispatch_sort` itself: from the end on, to behind the first that may not be passed.
    fn walk(queue: &mut Vec<RequestId>, requests: &Requests, boundary: u64, id: RequestId) {
        let of = &requests[id];
        let key = |sector: u64| (sector < boundary, sector);
        let before = queue.iter().rposition(|other| {
            let other = &requests[*other];
            other.op != of.op || key(other.sector) <= key(of.sector)
        });
        queue.insert(before.map_or(0, |before| before + 1), id);
    }

    proptest! {
        /// In the order in which looking for each place gives them, whatever is done in between.
        #[test]
        fn it_sorts_as_the_kernel_does(
            steps in prop::collection::vec((0..14_u8, 0..60_u64, 0..8_u8), 0..300),
        ) {
            let (mut out, mut queue) = (Outgoing::default(), Vec::new());
            let (mut requests, mut boundary) = (Requests::default(), 0);
            for (what, sector, op) in steps {
                let op = if op == 0 { Op::Write } else { Op::Read };
                match what {
                    0 => {
                        let id = request(&mut requests, op, sector);
                        out.append(id, RULE);
                        queue.push(id);
                    }
                    1 => {
                        out.set_boundary(sector);
                        boundary = sector;
                    }
                    2 => prop_assert_eq!(out.first(), queue.first().copied()),
                    3 | 4 => {
                        let next = (!queue.is_empty()).then(|| queue.remove(0));
                        prop_assert_eq!(out.take(), next.map(|id| (id, RULE)));
                    }
                    _ => {
                        let id = request(&mut requests, op, sector);
                        out.sort_in(&requests, id, RULE);
                        walk(&mut queue, &requests, boundary, id);
                    }
                }
                let (mut all, mut expected): (Vec<_>, _) = (out.ids().collect(), queue.clone());
                all.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!((out.len(), out.is_empty()), (queue.len(), queue.is_empty()));
                prop_assert_eq!(all, expected);
            }
            let left: Vec<_> = std::iter::from_fn(|| out.take()).map(|(id, _)| id).collect();
            prop_assert_eq!(left, queue);
        }
    }
}
