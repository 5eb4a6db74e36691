//! First in, first out: one queue, whoever an item is of.

use std::collections::VecDeque;

use surety_units::Nanos;

use super::{Item, Rule, Scheduler, SchedulerRow};

pub(super) const ROW: SchedulerRow = SchedulerRow {
    word: "fifo",
    source: "net/sched/sch_fifo.c",
    tc: Some("bfifo"),
    limits: None,
    make: |_| Box::new(Fifo::default()),
};

const ARRIVAL: Rule = Rule("order of arrival");

#[derive(Clone, Debug, Default)]
struct Fifo(VecDeque<Item>);

impl Scheduler for Fifo {
    fn enqueue(&mut self, _now: Nanos, item: Item) {
        self.0.push_back(item);
    }

    fn dequeue(&mut self, _now: Nanos) -> Option<(Item, Rule)> {
        self.0.pop_front().map(|item| (item, ARRIVAL))
    }

    fn queued(&self) -> usize {
        self.0.len()
    }
}
