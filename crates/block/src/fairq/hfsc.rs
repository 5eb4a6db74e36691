//! HFSC: what was guaranteed by the clock first, and what is left by weight.
//!
//! I. Stoica, H. Zhang, T. S. E. Ng, *A Hierarchical Fair Service Curve Algorithm for Link-Sharing, Real-Time and Priority Service*, 1997;
//! `net/sched/sch_hfsc.c`. Here all flows are children of the root. With C(t) a flow's service curve, c what it was served by the
//! first criterion, and for each instant t at which it became backlogged:
//!
//! ```text
//! deadline curve  D = min over t of (C moved to t, c(t))     eligible curve  E = D if C is concave, else its second slope
//! eligible        e = E^-1(c)          deadline  d = D^-1(c + length of the first item)
//! ```
//!
//! Real time: the smallest d among the flows with e passed. Link-sharing, where there is none: the smallest virtual time, which grows
//! by length / weight with whatever a flow is sent; one that becomes backlogged begins no earlier than in the middle of
//! the others' (the paper's `(vmin + vmax) / 2`). Where the curves together are below that of the server, every item is done at
//! most the time of the largest item after its deadline. There are no upper limits here: the server never waits.

use surety_units::Nanos;

use super::eligible::{Virtual, span};
use super::flows::Queues;
use super::heap::Heap;
use super::{Curve, FlowId, Item, Making, Rule, Scheduler, SchedulerRow};

pub(super) const ROW: SchedulerRow = SchedulerRow {
    word: "hfsc",
    source: "I. Stoica, H. Zhang, T. S. E. Ng, 1997; net/sched/sch_hfsc.c",
    tc: Some("hfsc"),
    limits: None,
    make: |making| Box::new(Hfsc::new(making)),
};

const REAL_TIME: Rule = Rule("real time: earliest deadline among the eligible");
const LINK_SHARING: Rule = Rule("link-sharing: smallest virtual time");

/// Nanobytes in a byte: what a rate in bytes per second does in a nanosecond is a whole number of them.
const NANO: u128 = 1_000_000_000;

/// A curve of two pieces from a point on: instants in ns, work in nanobytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runtime {
    x: u128,
    y: u128,
    /// The first piece, relative to the point.
    bend: (u128, u128),
    first: u128,
    then: u128,
}

impl Runtime {
    fn at(curve: Curve, x: u128, y: u128) -> Runtime {
        let (first, then) = (u128::from(curve.first.0), u128::from(curve.then.0));
        let bend = u128::from(curve.bend.get_unsigned());
        Runtime { x, y, bend: (bend, bend * first), first, then }
    }

    fn work_at(&self, x: u128) -> u128 {
        let dx = x.saturating_sub(self.x);
        let first = dx.min(self.bend.0);
        self.y + (first * self.first).min(self.bend.1) + (dx - first) * self.then
    }

    /// The first instant, in whole ns, at which it has reached so much.
    fn instant_of(&self, y: u128) -> u128 {
        let Some(dy) = y.checked_sub(self.y) else { return self.x };
        if dy == 0 {
            return self.x;
        }
        let reach = |work: u128, rate: u128| if rate == 0 { u128::MAX >> 1 } else { work.div_ceil(rate) };
        if dy <= self.bend.1 {
            self.x + reach(dy, self.first)
        } else {
            self.x + self.bend.0 + reach(dy - self.bend.1, self.then)
        }
    }

    /// The smaller of this and the curve begun anew at a point, for each instant from there on.
    fn lower(&mut self, curve: Curve, x: u128, y: u128) {
        let fresh = Runtime::at(curve, x, y);
        let here = self.work_at(x);
        if self.first <= self.then {
            // Convex: one is below the other all the way.
            if here >= y {
                *self = Runtime { bend: self.bend, ..fresh };
            }
            return;
        }
        if here <= y {
            return;
        }
        if self.work_at(x + fresh.bend.0) >= y + fresh.bend.1 {
            *self = fresh;
            return;
        }
        // The fresh one is below until its first piece meets the second one of this.
        let left = (self.x + self.bend.0).saturating_sub(x);
        let dx = (here - y) / (self.first - self.then) + left;
        *self = Runtime { bend: (dx, dx * fresh.first), ..fresh };
    }
}

#[derive(Clone, Copy, Debug)]
struct RealTime {
    curve: Curve,
    deadline: Runtime,
    eligible: Runtime,
    /// Nanobytes sent by this criterion.
    served: u128,
    e: u128,
    d: u128,
    is_begun: bool,
}

impl RealTime {
    fn new(curve: Curve) -> RealTime {
        let fresh = Runtime::at(curve, 0, 0);
        RealTime { curve, deadline: fresh, eligible: fresh, served: 0, e: 0, d: 0, is_begun: false }
    }

    fn activate(&mut self, now: u128) {
        if std::mem::replace(&mut self.is_begun, true) {
            self.deadline.lower(self.curve, now, self.served);
        } else {
            self.deadline = Runtime::at(self.curve, now, self.served);
        }
        self.eligible = self.deadline;
        if self.curve.first <= self.curve.then {
            self.eligible.bend = (0, 0);
        }
    }

    fn update(&mut self, head: u32) {
        self.e = self.eligible.instant_of(self.served);
        self.update_deadline(head);
    }

    fn update_deadline(&mut self, head: u32) {
        self.d = self.deadline.instant_of(self.served + u128::from(head) * NANO);
    }
}

#[derive(Clone, Debug)]
struct Hfsc {
    queues: Queues,
    weights: Vec<u64>,
    real_time: Vec<Option<RealTime>>,
    /// By eligible time, those for which it is ahead; the others by deadline.
    early: Heap<u128>,
    ready: Heap<u128>,
    virtual_times: Vec<Virtual>,
    smallest: Heap<Virtual>,
    largest: Heap<std::cmp::Reverse<Virtual>>,
    /// The largest virtual time there was.
    reached: Virtual,
}

impl Hfsc {
    fn new(making: &Making) -> Hfsc {
        let flows = making.flows.len();
        Hfsc {
            queues: Queues::new(flows),
            weights: making.flows.iter().map(|flow| u64::from(flow.weight)).collect(),
            real_time: making.flows.iter().map(|flow| flow.curve.map(RealTime::new)).collect(),
            early: Heap::new(flows),
            ready: Heap::new(flows),
            virtual_times: vec![0; flows],
            smallest: Heap::new(flows),
            largest: Heap::new(flows),
            reached: 0,
        }
    }

    fn activate(&mut self, now: Nanos, item: Item) {
        let flow = item.flow;
        if let Some(real_time) = &mut self.real_time[flow.index()] {
            real_time.activate(u128::from(now.get_unsigned()));
            real_time.update(item.length);
            self.early.set(flow, real_time.e);
        }
        let middle = match (self.smallest.first(), self.largest.first()) {
            (Some((smallest, _)), Some((largest, _))) => (smallest + largest.0) / 2,
            _ => self.reached,
        };
        let time = &mut self.virtual_times[flow.index()];
        *time = (*time).max(middle);
        self.smallest.set(flow, *time);
        self.largest.set(flow, std::cmp::Reverse(*time));
    }

    fn choose(&mut self, now: Nanos) -> Option<(FlowId, Rule)> {
        while let Some((e, flow)) = self.early.first()
            && e <= u128::from(now.get_unsigned())
        {
            self.early.remove(flow);
            let d = self.real_time[flow.index()].map_or(0, |real_time| real_time.d);
            self.ready.set(flow, d);
        }
        let by_clock = self.ready.first().map(|(_, flow)| (flow, REAL_TIME));
        by_clock.or_else(|| self.smallest.first().map(|(_, flow)| (flow, LINK_SHARING)))
    }

    /// Both criteria after an item was sent.
    fn account(&mut self, flow: FlowId, length: u32, rule: Rule) {
        let next = self.queues.head(flow);
        let time = &mut self.virtual_times[flow.index()];
        *time += span(length, self.weights[flow.index()]);
        self.reached = self.reached.max(*time);
        if next.is_some() {
            self.smallest.set(flow, *time);
            self.largest.set(flow, std::cmp::Reverse(*time));
        } else {
            self.smallest.remove(flow);
            self.largest.remove(flow);
        }
        let Some(real_time) = &mut self.real_time[flow.index()] else { return };
        if rule == REAL_TIME {
            real_time.served += u128::from(length) * NANO;
        }
        match next {
            None => {
                self.early.remove(flow);
                self.ready.remove(flow);
            }
            Some(head) if rule == REAL_TIME => {
                real_time.update(head);
                self.ready.remove(flow);
                self.early.set(flow, real_time.e);
            }
            Some(head) => {
                real_time.update_deadline(head);
                if self.ready.contains(flow) {
                    self.ready.set(flow, real_time.d);
                }
            }
        }
    }
}

impl Scheduler for Hfsc {
    fn enqueue(&mut self, now: Nanos, item: Item) {
        if self.queues.push(item) {
            self.activate(now, item);
        }
    }

    fn dequeue(&mut self, now: Nanos) -> Option<(Item, Rule)> {
        let (flow, rule) = self.choose(now)?;
        let item = self.queues.pop(flow);
        self.account(flow, item.length, rule);
        Some((item, rule))
    }

    fn queued(&self) -> usize {
        self.queues.len()
    }
}

#[cfg(test)]
mod tests {
    use surety_units::Rate;

    use super::*;

    /// The lower of two is the lower at every instant, for curves and points of every kind.
    #[test]
    fn lowering_takes_the_smaller_at_every_instant() {
        let mut chance = surety_stats::random::Pcg::new(11, 3);
        for _ in 0..3_000 {
            let (a, b) = (1 + chance.below(9), 1 + chance.below(9));
            let bend = Nanos::new(i64::try_from(chance.below(50)).expect("small"));
            let curve = Curve { first: Rate(a.max(b)), bend, then: Rate(a.min(b)) };
            let mut runtime = Runtime::at(curve, 0, 0);
            let x = u128::from(chance.below(80));
            let y = runtime.work_at(x) * u128::from(chance.below(100)) / 100;
            let (old, fresh) = (runtime, Runtime::at(curve, x, y));
            runtime.lower(curve, x, y);
            for at in x..x + 200 {
                let least = old.work_at(at).min(fresh.work_at(at));
                // Less than a nanosecond of the steepest rate is lost where they meet between two instants.
                let off = runtime.work_at(at).abs_diff(least);
                assert!(off <= u128::from(a.max(b)), "{curve:?} at {x}, {y}: {at} off by {off}");
            }
        }
    }
}
