//! Weighted fair queueing, as PGPS: the item that would be done first in the fluid server, were nothing more to come.
//!
//! A. Demers, S. Keshav, S. Shenker, *Analysis and Simulation of a Fair Queueing Algorithm*, 1989; A. K. Parekh, R. G. Gallager, 1993.
//! It keeps the fluid server beside itself. Every item is done at most the time of the largest item later than in the fluid
//! server, but may be done much earlier: a flow can be served ahead of its share by as much as it has queued.

use std::collections::VecDeque;

use surety_units::Nanos;

use super::flows::Queues;
use super::gps::Gps;
use super::heap::Heap;
use super::{Item, Making, Rule, Scheduler, SchedulerRow};

pub(super) const ROW: SchedulerRow = SchedulerRow {
    word: "wfq",
    source: "A. K. Parekh, R. G. Gallager, 1993",
    tc: None,
    limits: None,
    make: |making| Box::new(Wfq::new(making)),
};

const FINISH: Rule = Rule("done first in the fluid server");

#[derive(Clone, Debug)]
struct Wfq {
    fluid: Gps,
    queues: Queues,
    /// Virtual finish times of the items of each flow.
    finishes: Vec<VecDeque<u128>>,
    heads: Heap<u128>,
}

impl Wfq {
    fn new(making: &Making) -> Wfq {
        let flows = making.flows.len();
        Wfq {
            fluid: Gps::new(making.rate, making.flows.iter().map(|flow| flow.weight).collect()),
            queues: Queues::new(flows),
            finishes: vec![VecDeque::new(); flows],
            heads: Heap::new(flows),
        }
    }
}

impl Scheduler for Wfq {
    fn enqueue(&mut self, now: Nanos, item: Item) {
        let (_, finish) = self.fluid.arrive(now, item);
        self.finishes[item.flow.index()].push_back(finish);
        if self.queues.push(item) {
            self.heads.set(item.flow, finish);
        }
    }

    fn dequeue(&mut self, _now: Nanos) -> Option<(Item, Rule)> {
        let (_, flow) = self.heads.first()?;
        let finishes = &mut self.finishes[flow.index()];
        finishes.pop_front();
        match finishes.front() {
            Some(next) => self.heads.set(flow, *next),
            None => self.heads.remove(flow),
        }
        Some((self.queues.pop(flow), FINISH))
    }

    fn queued(&self) -> usize {
        self.queues.len()
    }
}
