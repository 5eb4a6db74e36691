//! `none` of blk-mq: requests go to the driver in the order in which they came.
//!
//! Each CPU has a software queue of its own in the kernel; with the one queue of a disk they are taken in turn, which is
//! the order of arrival where one CPU submits.

use std::collections::VecDeque;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Outgoing, Rule};
use crate::request::RequestId;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "none",
    source: "block/blk-mq-sched.c",
    front: Front::BlkMq,
    tunables: &[],
    make: |_| Box::new(None::default()),
};

const ARRIVAL: Rule = Rule("order of arrival");

#[derive(Clone, Debug, Default)]
struct None {
    queue: VecDeque<RequestId>,
}

impl Elevator for None {
    fn insert(&mut self, _context: &mut Context<'_>, id: RequestId) {
        self.queue.push_back(id);
    }

    fn dispatch(&mut self, _context: &mut Context<'_>, out: &mut Outgoing) {
        if let Some(id) = self.queue.pop_front() {
            out.append(id, ARRIVAL);
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
