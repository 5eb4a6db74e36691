//! [`BudgetFair`]: B-WF2Q+, the engine that B-WF2Q+ itself and the raising of weights share.
//!
//! P. Valente, F. Checconi, *High Throughput Disk Scheduling with Fair Bandwidth Distribution*, 2010; `block/bfq-wf2q.c`. WF2Q+ with
//! budgets in the place of items: a flow that is chosen is served until its next item does not fit into its budget B or
//! it has none.
//!
//! ```text
//! becomes backlogged: S = max(V, F)      F = S + B / w          V += length / sum of w with each item that is taken
//! put back:           F = S + served / w, by what it really got; S = F; F = S + B / w
//! chosen:             smallest F among those with S <= V; V moves to the smallest S where there is none
//! ```
//!
//! The sum is over the flows that are backlogged or whose F is still ahead of V. Over every interval in which it is backlogged a flow
//! of share p (of all weights) gets at least `p W - 2 B - p Bmax` of the server's work W: `S + served / w` is never beyond
//! `V + B / w`, as a budget begins with `S <= V`, and `V` is never beyond `S + B / w + Bmax / sum`, as SEFF ends each budget by its F
//! but for the one that was in service; so while V grows by at least `W / sum` it grows by no more than `2 B / w + Bmax / sum` less.

use surety_units::{Nanos, Rate};

use super::eligible::{Clock, Eligible, Virtual, span};
use super::flows::Queues;
use super::heap::Heap;
use super::{FlowId, Item, Making, Raising, Rule, Scheduler};

const BEGUN: Rule = Rule("smallest virtual finish among the eligible");
const GOES_ON: Rule = Rule("its budget is not used up");

#[derive(Clone, Copy, Debug)]
struct Entity {
    start: Virtual,
    finish: Virtual,
    /// Bytes of the budget that are used.
    served: u32,
    budget: u32,
    /// In force: raised or not.
    weight: u64,
    /// Its own.
    own: u64,
}

/// B-WF2Q+ over items, with a rule for weights if there is one.
#[derive(Clone, Debug)]
pub(super) struct BudgetFair {
    rate: Rate,
    entities: Vec<Entity>,
    queues: Queues,
    eligible: Eligible,
    /// Empty flows whose F is ahead of V, by it.
    resting: Heap<Virtual>,
    clock: Clock,
    /// Weights of the flows that are backlogged, in service or resting.
    sum: u64,
    serving: Option<FlowId>,
    raising: Option<Raising>,
}

impl BudgetFair {
    pub(super) fn new(making: &Making, raising: Option<Raising>) -> BudgetFair {
        let entity = |flow: &super::Flow| Entity {
            start: 0,
            finish: 0,
            served: 0,
            budget: making.quantum.max(flow.largest),
            weight: u64::from(flow.weight),
            own: u64::from(flow.weight),
        };
        let flows = making.flows.len();
        BudgetFair {
            rate: making.rate,
            entities: making.flows.iter().map(entity).collect(),
            queues: Queues::new(flows),
            eligible: Eligible::new(flows),
            resting: Heap::new(flows),
            clock: Clock::default(),
            sum: 0,
            serving: None,
            raising,
        }
    }

    fn is_raised(&self, flow: FlowId) -> bool {
        self.raising.as_ref().is_some_and(|raising| raising.is_raised(flow))
    }

    /// The weight that its next budget is of.
    fn weigh(&mut self, flow: FlowId) {
        let raised = self.raising.as_ref().map_or(1, |raising| raising.factor(flow));
        let entity = &mut self.entities[flow.index()];
        entity.weight = entity.own * raised;
    }

    fn activate(&mut self, now: Nanos, flow: FlowId) {
        if self.resting.contains(flow) {
            self.resting.remove(flow);
            self.sum -= self.entities[flow.index()].weight;
        }
        if let Some(raising) = &mut self.raising {
            raising.comes_back(now, flow, self.queues.len() > 1);
        }
        let start = self.entities[flow.index()].finish.max(self.clock.now);
        self.schedule(flow, start);
        if let Some(serving) = self.serving
            && self.is_raised(flow)
            && !self.is_raised(serving)
        {
            self.put_back(serving);
        }
    }

    /// Into the tree with a whole budget; its weight is not in the sum.
    fn schedule(&mut self, flow: FlowId, start: Virtual) {
        self.weigh(flow);
        let entity = &mut self.entities[flow.index()];
        entity.served = 0;
        entity.start = start;
        entity.finish = start + span(entity.budget, entity.weight);
        self.eligible.insert(flow, start, entity.finish);
        self.sum += entity.weight;
        self.clock.reweigh();
    }

    /// The flow in service is served no more for now.
    fn put_back(&mut self, flow: FlowId) {
        self.serving = None;
        let entity = &mut self.entities[flow.index()];
        entity.finish = entity.start + span(entity.served, entity.weight);
        let Entity { finish, weight, .. } = *entity;
        if self.queues.head(flow).is_some() {
            self.sum -= weight;
            self.schedule(flow, finish);
        } else {
            self.resting.set(flow, finish);
            self.forget();
        }
    }

    /// Resting flows that V has reached count no more.
    fn forget(&mut self) {
        while let Some((finish, flow)) = self.resting.first()
            && finish <= self.clock.now
        {
            self.resting.remove(flow);
            self.sum -= self.entities[flow.index()].weight;
            self.clock.reweigh();
        }
    }

    /// Nobody is backlogged: V moves past all that was.
    fn rest(&mut self) {
        while let Some((finish, flow)) = self.resting.pop() {
            self.clock.now = self.clock.now.max(finish);
            self.sum -= self.entities[flow.index()].weight;
        }
        self.clock.reweigh();
    }
}

impl Scheduler for BudgetFair {
    fn enqueue(&mut self, now: Nanos, item: Item) {
        if self.queues.push(item) && self.serving != Some(item.flow) {
            self.activate(now, item.flow);
        }
    }

    fn dequeue(&mut self, now: Nanos) -> Option<(Item, Rule)> {
        let mut rule = GOES_ON;
        if let Some(flow) = self.serving {
            let entity = self.entities[flow.index()];
            let fits = |length| length <= entity.budget.saturating_sub(entity.served);
            if !self.queues.head(flow).is_some_and(fits) {
                self.put_back(flow);
            }
        }
        if self.serving.is_none() {
            if self.queues.len() == 0 {
                self.rest();
                return None;
            }
            self.serving = self.eligible.pop(&mut self.clock.now);
            self.forget();
            rule = BEGUN;
        }
        let flow = self.serving?;
        let item = self.queues.pop(flow);
        self.entities[flow.index()].served += item.length;
        self.clock.advance(item.length, self.sum);
        self.forget();
        if let Some(raising) = &mut self.raising {
            let ns = (u128::from(item.length) * 1_000_000_000).div_ceil(u128::from(self.rate.0));
            let end = now.saturating_add(Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX)));
            raising.served(now, end, item);
        }
        Some((item, rule))
    }

    fn queued(&self) -> usize {
        self.queues.len()
    }
}
