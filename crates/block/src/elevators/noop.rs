//! `noop` (`block/noop-iosched.c` of 2.6.20): requests go to the driver in the order in which they came.
//!
//! Whoever asks for one is given the oldest; it is sorted among those that the driver has not taken yet, which with a device that takes
//! one at a time are none.

use std::collections::VecDeque;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Outgoing, Rule};
use crate::request::RequestId;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "noop",
    source: "block/noop-iosched.c of Linux 2.6.20",
    front: Front::Legacy,
    tunables: &[],
    make: |_| Box::new(Noop::default()),
};

const ARRIVAL: Rule = Rule("order of arrival");

#[derive(Clone, Debug, Default)]
struct Noop {
    queue: VecDeque<RequestId>,
}

impl Elevator for Noop {
    fn insert(&mut self, _context: &mut Context<'_>, id: RequestId) {
        self.queue.push_back(id);
    }

    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing) {
        if let Some(id) = self.queue.pop_front() {
            out.sort_in(context.requests, id, ARRIVAL);
        }
    }

    fn queued(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use crate::script::Script;

    #[test]
    fn requests_go_in_the_order_in_which_they_came() {
        let order = Script::of(&super::ROW).text("0ms a r 100 8\n0ms b r 10 8\n0ms a w 50 8").run();
        assert_eq!(order.sectors(), [100, 10, 50]);
    }
}
