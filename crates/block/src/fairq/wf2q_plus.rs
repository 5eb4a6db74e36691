//! WF2Q+: the smallest virtual finish time among the flows whose virtual start time has come.
//!
//! J. C. R. Bennett, H. Zhang, *Hierarchical Packet Fair Queueing Algorithms*, 1996. A flow has times for its first item alone:
//!
//! ```text
//! S = F where an item left and another is there;  max(F, V(arrival)) where the flow was empty;  F = S + length / w
//! V(t + d) = max(V(t) + work(t, t + d) / sum of all w,  smallest S of the flows that have items)
//! ```
//!
//! The second part of V is taken when the server chooses. From any instant at which it is backlogged to the end of an item of
//! its own, a flow of share p (its weight in that of all) gets at least `p W - L - p (Lmax - L)` of the work W of the server (B-WFI),
//! with L its largest item.

use surety_units::{Nanos, Rate};

use super::eligible::{Clock, Eligible, Virtual, span};
use super::flows::Queues;
use super::{FlowId, Item, Making, Rule, Scheduler, SchedulerRow};

pub(super) const ROW: SchedulerRow = SchedulerRow {
    word: "wf2q+",
    source: "J. C. R. Bennett, H. Zhang, 1996",
    tc: None,
    limits: None,
    make: |making| Box::new(Wf2qPlus::new(making)),
};

const FINISH: Rule = Rule("smallest virtual finish among the eligible");

#[derive(Clone, Debug)]
struct Wf2qPlus {
    rate: Rate,
    weights: Vec<u64>,
    sum: u64,
    queues: Queues,
    eligible: Eligible,
    finish: Vec<Virtual>,
    /// V at the beginning of what is in service.
    clock: Clock,
    /// What is in service: its beginning and its length.
    serving: (Nanos, u32),
}

impl Wf2qPlus {
    fn new(making: &Making) -> Wf2qPlus {
        let weights: Vec<u64> = making.flows.iter().map(|flow| u64::from(flow.weight)).collect();
        let flows = weights.len();
        Wf2qPlus {
            rate: making.rate,
            sum: weights.iter().sum(),
            weights,
            queues: Queues::new(flows),
            eligible: Eligible::new(flows),
            finish: vec![0; flows],
            clock: Clock::default(),
            serving: (Nanos::ZERO, 0),
        }
    }

    /// V while an item is in service.
    fn virtual_at(&self, now: Nanos) -> Virtual {
        let (begun, length) = self.serving;
        let nanobytes = u128::from((now - begun).get_unsigned()) * u128::from(self.rate.0);
        let done = u32::try_from(nanobytes / 1_000_000_000).unwrap_or(u32::MAX).min(length);
        let mut clock = self.clock;
        clock.advance(done, self.sum);
        clock.now
    }

    fn schedule(&mut self, flow: FlowId, start: Virtual) {
        let Some(length) = self.queues.head(flow) else { return };
        let finish = start + span(length, self.weights[flow.index()]);
        self.finish[flow.index()] = finish;
        self.eligible.insert(flow, start, finish);
    }
}

impl Scheduler for Wf2qPlus {
    fn enqueue(&mut self, now: Nanos, item: Item) {
        if self.queues.push(item) {
            let start = self.finish[item.flow.index()].max(self.virtual_at(now));
            self.schedule(item.flow, start);
        }
    }

    fn dequeue(&mut self, now: Nanos) -> Option<(Item, Rule)> {
        self.clock.advance(std::mem::take(&mut self.serving.1), self.sum);
        let flow = self.eligible.pop(&mut self.clock.now)?;
        let item = self.queues.pop(flow);
        self.serving = (now, item.length);
        self.schedule(flow, self.finish[flow.index()]);
        Some((item, FINISH))
    }

    fn queued(&self) -> usize {
        self.queues.len()
    }
}
