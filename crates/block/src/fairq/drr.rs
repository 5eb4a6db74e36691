//! Deficit round robin: flows in turn, each sends what its quantum and what it did not use before allow.
//!
//! M. Shreedhar, G. Varghese, *Efficient Fair Queuing Using Deficit Round Robin*, 1995; `net/sched/sch_drr.c`. A flow that becomes backlogged goes
//! to the end of the round with a quantum; one whose next item is longer than what is left gets another quantum and goes to
//! the end; one that runs empty loses what is left. The quantum is the making's times the weight, divided by the lightest weight.

use std::collections::VecDeque;

use surety_units::Nanos;

use super::flows::Queues;
use super::{FlowId, Item, Making, Rule, Scheduler, SchedulerRow};

pub(super) const ROW: SchedulerRow = SchedulerRow {
    word: "drr",
    source: "M. Shreedhar, G. Varghese, 1995; net/sched/sch_drr.c",
    tc: Some("drr"),
    limits: None,
    make: |making| Box::new(Drr::new(making)),
};

const TURN: Rule = Rule("its turn, and its deficit allows it");

#[derive(Clone, Debug)]
struct Drr {
    quanta: Vec<u64>,
    deficits: Vec<u64>,
    queues: Queues,
    round: VecDeque<FlowId>,
}

impl Drr {
    fn new(making: &Making) -> Drr {
        let lightest = making.flows.iter().map(|flow| flow.weight).min().unwrap_or(1);
        let quantum = |weight: u32| u64::from(making.quantum) * u64::from(weight) / u64::from(lightest);
        let quanta: Vec<u64> = making.flows.iter().map(|flow| quantum(flow.weight)).collect();
        Drr {
            deficits: vec![0; quanta.len()],
            queues: Queues::new(quanta.len()),
            round: VecDeque::with_capacity(quanta.len()),
            quanta,
        }
    }
}

impl Scheduler for Drr {
    fn enqueue(&mut self, _now: Nanos, item: Item) {
        if self.queues.push(item) {
            self.deficits[item.flow.index()] = self.quanta[item.flow.index()];
            self.round.push_back(item.flow);
        }
    }

    fn dequeue(&mut self, _now: Nanos) -> Option<(Item, Rule)> {
        loop {
            let flow = *self.round.front()?;
            let length = u64::from(self.queues.head(flow)?);
            let deficit = &mut self.deficits[flow.index()];
            if length > *deficit {
                *deficit += self.quanta[flow.index()];
                self.round.rotate_left(1);
                continue;
            }
            *deficit -= length;
            let item = self.queues.pop(flow);
            if self.queues.head(flow).is_none() {
                self.round.pop_front();
            }
            return Some((item, TURN));
        }
    }

    fn queued(&self) -> usize {
        self.queues.len()
    }
}
