//! BFQ's raising of weights for interactive work, carried over from disks to flows: B-WF2Q+, and a flow that comes back after
//! a pause weighs thirty times as much for a while.
//!
//! The rule is that of `block/bfq-iosched.c` for interactive queues (6.12):
//!
//! - A flow is raised when its first item ever comes, and when an item comes more than 2 s after its last one was done
//!   (`bfq_wr_min_idle_time`). Its weight is times 30 (`bfq_wr_coeff`).
//! - It ends after a time that is the shorter the faster the server is: 644.5 MB divided by the server's rate, no less than
//!   3 s and no more than 25 s (`bfq_wr_duration`; `ref_rate` and `ref_wr_duration` of drives that do not turn, 257.8 MB/s and 2.5 s). It ends
//!   earlier once 61.44 MB were sent so (`max_service_from_wr`, 120,000 sectors).
//! - Eight flows that are new within 180 ms, each of the one before (`bfq_large_burst_thresh`, `bfq_burst_interval`), are a large burst: neither they nor
//!   those that follow as closely are raised, until they have paused for 10 s.
//! - Where a flow is raised and the one in service is not, that one is put back at once.
//!
//! Left out of BFQ: raising of soft real-time work, budgets that learn, idling and injection, which are about disks.

use surety_units::{Nanos, Rate};

use super::budget::BudgetFair;
use super::{FlowId, Item, SchedulerRow};

pub(super) const ROW: SchedulerRow = SchedulerRow {
    word: "bfq-raising",
    source: "block/bfq-iosched.c (6.12)",
    tc: None,
    limits: None,
    make: |making| {
        let raising = Raising::new(making.rate, making.flows.len());
        Box::new(BudgetFair::new(making, Some(raising)))
    },
};

/// `bfq_wr_coeff`.
const FACTOR: u64 = 30;
/// `bfq_wr_min_idle_time`.
const PAUSE: Nanos = Nanos::from_secs(2);
/// `ref_rate` times `ref_wr_duration` of drives that do not turn, in bytes.
const REFERENCE: u128 = 644_500_000;
/// The limits of `bfq_wr_duration`.
const DURATION: (Nanos, Nanos) = (Nanos::from_secs(3), Nanos::from_secs(25));
/// `max_service_from_wr`, in bytes.
const SERVICE: u64 = 120_000 * 512;
/// `bfq_burst_interval`.
const BURST_INTERVAL: Nanos = Nanos::from_millis(180);
/// `bfq_large_burst_thresh`.
const LARGE_BURST: usize = 8;
/// How long a flow of a large burst must have paused to be as any other.
const BURST_PAUSE: Nanos = Nanos::from_secs(10);

/// Which flows are raised.
#[derive(Clone, Debug)]
pub struct Raising {
    duration: Nanos,
    flows: Vec<State>,
    /// New flows, each within the interval of the one before.
    burst: Vec<FlowId>,
    /// When the last of these came.
    newest: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// When its last item was done; `None`: there was none.
    done: Option<Nanos>,
    is_known: bool,
    in_large_burst: bool,
    /// Since when it is raised, and what it sent since.
    raised: Option<(Nanos, u64)>,
}

impl Raising {
    /// Of a server's flows, none of which has come.
    pub fn new(rate: Rate, flows: usize) -> Raising {
        let ns = REFERENCE * 1_000_000_000 / u128::from(rate.0.max(1));
        let duration = Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX)).clamp(DURATION.0, DURATION.1);
        let flows = vec![State::default(); flows];
        Raising { duration, flows, burst: Vec::with_capacity(LARGE_BURST), newest: Nanos::ZERO }
    }

    /// How long a flow is raised.
    pub fn duration(&self) -> Nanos {
        self.duration
    }

    /// Whether a flow is raised.
    pub fn is_raised(&self, flow: FlowId) -> bool {
        self.flows[flow.index()].raised.is_some()
    }

    /// What its weight is multiplied by.
    pub(super) fn factor(&self, flow: FlowId) -> u64 {
        if self.is_raised(flow) { FACTOR } else { 1 }
    }

    /// A flow that had no item has one.
    pub(super) fn comes_back(&mut self, now: Nanos, flow: FlowId) {
        let state = &mut self.flows[flow.index()];
        let is_new = !std::mem::replace(&mut state.is_known, true);
        let paused = state.done.map_or(Nanos::MAX, |done| now - done);
        if paused > BURST_PAUSE {
            state.in_large_burst = false;
        }
        if is_new {
            self.add_new(now, flow);
        }
        let state = &mut self.flows[flow.index()];
        if state.in_large_burst {
            state.raised = None;
        } else if paused > PAUSE {
            state.raised = Some((now, 0));
        } else if state.raised.is_some_and(|(since, _)| now - since > self.duration) {
            state.raised = None;
        }
    }

    fn add_new(&mut self, now: Nanos, flow: FlowId) {
        if now - self.newest > BURST_INTERVAL {
            self.burst.clear();
        }
        self.newest = now;
        if self.burst.len() < LARGE_BURST {
            self.burst.push(flow);
        }
        if self.burst.len() == LARGE_BURST {
            for flow in self.burst.iter().chain([&flow]) {
                self.flows[flow.index()].in_large_burst = true;
            }
        }
    }

    /// An item went into service and will be done at `end`.
    pub(super) fn served(&mut self, now: Nanos, end: Nanos, item: Item) {
        let state = &mut self.flows[item.flow.index()];
        state.done = Some(end);
        let Some((since, bytes)) = state.raised else { return };
        let bytes = bytes + u64::from(item.length);
        let is_over = state.in_large_burst || now - since > self.duration || bytes > SERVICE;
        state.raised = (!is_over).then_some((since, bytes));
    }
}
