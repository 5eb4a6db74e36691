//! [`Queues`]: a queue in the order of arrival for each flow.

use std::collections::VecDeque;

use super::{FlowId, Item};

/// Items that wait, by flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    of_flow: Vec<VecDeque<Item>>,
    count: usize,
}

impl Queues {
    pub(super) fn new(flows: usize) -> Queues {
        Queues { of_flow: vec![VecDeque::new(); flows], count: 0 }
    }

    /// Appends an item; whether it is the only one of its flow.
    pub(super) fn push(&mut self, item: Item) -> bool {
        let queue = &mut self.of_flow[item.flow.index()];
        queue.push_back(item);
        self.count += 1;
        queue.len() == 1
    }

    /// Takes the first of a flow.
    ///
    /// # Panics
    /// Where there is none.
    pub(super) fn pop(&mut self, flow: FlowId) -> Item {
        self.count -= 1;
        self.of_flow[flow.index()].pop_front().expect("a flow that is chosen has an item")
    }

    /// Length of the first of a flow.
    pub(super) fn head(&self, flow: FlowId) -> Option<u32> {
        self.of_flow[flow.index()].front().map(|item| item.length)
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }
}
