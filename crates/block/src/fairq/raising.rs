//! BFQ's raising of weights for interactive work, carried over from disks to flows: B-WF2Q+, and a flow that comes back after
//! a pause weighs thirty times as much for a while.
//!
//! The rule is that of `block/bfq-iosched.c` for interactive queues (6.12):
//!
//! - A flow of the weight 1, which is that of flows that name none, is raised when its first item ever comes, and when an item comes
//!   more than 2 s after its last one was done (`bfq_wr_min_idle_time`). It weighs 30 times as much (`bfq_wr_coeff`).
//! - It ends after a time that is the shorter the faster the server is: 644.5 MB divided by the server's rate, no less than
//!   3 s and no more than 25 s (`bfq_wr_duration`; `ref_rate` and `ref_wr_duration` of drives that do not turn, 257.8 MB/s and 2.5 s). It ends
//!   earlier once 61.44 MB were sent so (`max_service_from_wr`, 120,000 sectors). A pause of more than 2 s begins the time anew, not the bytes.
//! - Eight flows that are new within 180 ms, each of the one before, the first while nothing else waits (`bfq_large_burst_thresh`,
//!   `bfq_burst_interval`), are a large burst: neither they nor those that follow as closely are raised. After a pause of 10 s they
//!   are as others, from the time after next on.
//! - Where a flow is raised and the one in service is not, that one is put back at once.
//!
//! A weight changes with the next budget. Left out of BFQ: raising of soft real-time work, budgets that learn, idling and injection, which
//! are about disks.

use surety_units::{Nanos, Rate};

use super::budget::BudgetFair;
use super::{FlowId, Item, SchedulerRow};

pub(super) const ROW: SchedulerRow = SchedulerRow {
    word: "bfq-raising",
    source: "block/bfq-iosched.c (6.12)",
    tc: None,
    limits: None,
    make: |making| {
        let raising = Raising::new(making.rate, making.flows.iter().map(|flow| flow.weight));
        Box::new(BudgetFair::new(making, Some(raising)))
    },
};

/// What a flow weighs that names no weight: who names one wants that, and is not raised.
const DEFAULT_WEIGHT: u32 = 1;
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
    /// New flows, each within the interval of the one before, while they are no large burst.
    burst: Vec<FlowId>,
    /// How many there are or were.
    burst_size: usize,
    is_large: bool,
    /// When the last of these came.
    newest: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Whether its weight is the one that may be raised.
    may_be_raised: bool,
    /// When its last item was done; `None`: there was none.
    done: Option<Nanos>,
    is_known: bool,
    in_large_burst: bool,
    /// Since when it is raised, and what it sent since.
    raised: Option<(Nanos, u64)>,
}

impl Raising {
    /// Of a server's flows with their weights, none of which has come.
    pub fn new(rate: Rate, weights: impl Iterator<Item = u32>) -> Raising {
        let ns = REFERENCE * 1_000_000_000 / u128::from(rate.0.max(1));
        let duration = Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX)).clamp(DURATION.0, DURATION.1);
        let state = |weight| State { may_be_raised: weight == DEFAULT_WEIGHT, ..State::default() };
        Raising {
            duration,
            flows: weights.map(state).collect(),
            burst: Vec::with_capacity(LARGE_BURST),
            burst_size: 0,
            is_large: false,
            newest: Nanos::ZERO,
        }
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

    /// A flow that had no item has one; `are_others`: so have others.
    pub(super) fn comes_back(&mut self, now: Nanos, flow: FlowId, are_others: bool) {
        let state = &mut self.flows[flow.index()];
        let paused = state.done.map_or(Nanos::MAX, |done| now - done);
        if !std::mem::replace(&mut state.is_known, true) {
            self.add_new(now, flow, are_others);
        }
        let state = &mut self.flows[flow.index()];
        if state.in_large_burst {
            state.raised = None;
            // It counts from the next time on.
            state.in_large_burst = state.done.is_none() || paused <= BURST_PAUSE;
        } else if paused > PAUSE && state.may_be_raised {
            let bytes = state.raised.map_or(0, |(_, bytes)| bytes);
            state.raised = Some((now, bytes));
        }
    }

    fn add_new(&mut self, now: Nanos, flow: FlowId, are_others: bool) {
        if self.burst_size == 0 && are_others {
            return;
        }
        if now - self.newest > BURST_INTERVAL {
            self.is_large = false;
            self.burst.clear();
            self.burst_size = 0;
        }
        self.newest = now;
        if self.is_large {
            self.flows[flow.index()].in_large_burst = true;
        } else if self.burst_size > 0 || !are_others {
            self.burst_size += 1;
            self.burst.push(flow);
            if self.burst_size == LARGE_BURST {
                self.is_large = true;
                self.burst.drain(..).for_each(|flow| self.flows[flow.index()].in_large_burst = true);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows 0 to 9 of weight 1, 10 of weight 2, at 12.5 MB/s.
    fn raising() -> Raising {
        Raising::new(Rate(12_500_000), (0..11).map(|flow| 1 + flow / 10))
    }

    fn ms(ms: i64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn item(flow: u32, length: u32) -> Item {
        Item { flow: FlowId(flow), length, number: 0 }
    }

    /// Which of the flows that come are raised: when each comes first, and whether others have items then.
    #[test]
    fn a_burst_begins_on_an_idle_server_and_is_large_with_its_eighth_flow() {
        let raised = |gap: i64, count: u32, others: bool| {
            let mut raising = raising();
            (0..count).for_each(|flow| {
                raising.comes_back(ms(500 + gap * i64::from(flow)), FlowId(flow), others || flow > 0)
            });
            // Those that are found to be of a burst later end with their next item.
            (0..count).for_each(|flow| raising.served(ms(3_000), ms(3_000), item(flow, 1)));
            (0..count).filter(|flow| raising.is_raised(FlowId(*flow))).count()
        };
        assert_eq!(raised(180, 7, false), 7);
        assert_eq!(raised(180, 8, false), 0);
        assert_eq!(raised(180, 10, false), 0);
        assert_eq!(raised(181, 10, false), 10, "each begins a burst of its own");
        assert_eq!(raised(1, 10, true), 10, "none begins while others have items");
    }

    #[test]
    fn raising_ends_by_time_and_by_bytes_and_a_pause_begins_the_time_anew() {
        let mut raising = raising();
        assert_eq!(raising.duration(), Nanos::from_secs(25));
        let flow = FlowId(0);
        raising.comes_back(ms(0), flow, true);
        raising.served(ms(25_000), ms(25_000), item(0, 60_000_000));
        assert_eq!(raising.factor(flow), 30);
        raising.comes_back(ms(27_001), flow, true);
        raising.served(ms(40_000), ms(40_000), item(0, 1_440_000));
        assert!(raising.is_raised(flow), "by then 61.44 MB");
        raising.served(ms(40_000), ms(40_000), item(0, 1));
        assert_eq!(raising.factor(flow), 1);
        raising.comes_back(ms(42_000), flow, true);
        assert!(!raising.is_raised(flow), "a pause of 2 s is not more than 2 s");
        raising.comes_back(ms(42_001), flow, true);
        raising.served(ms(67_002), ms(67_002), item(0, 1));
        assert!(!raising.is_raised(flow), "25 s are over");
        raising.comes_back(ms(0), FlowId(10), true);
        assert!(!raising.is_raised(FlowId(10)), "its weight is its own wish");
    }

    #[test]
    fn a_flow_of_a_large_burst_is_as_others_the_time_after_a_long_pause() {
        let mut raising = raising();
        (0..8).for_each(|flow| raising.comes_back(ms(0), FlowId(flow), flow > 0));
        for (at, raised) in [(9_000, false), (20_000, false), (23_000, true)] {
            raising.served(ms(at - 3_000), ms(at - 3_000), item(0, 1));
            if at == 20_000 {
                raising.served(ms(9_000), ms(9_000), item(0, 1));
            }
            raising.comes_back(ms(at), FlowId(0), true);
            assert_eq!(raising.is_raised(FlowId(0)), raised, "at {at} ms");
        }
    }
}
