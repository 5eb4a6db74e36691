//! [`Gps`]: generalized processor sharing, the fluid server that serves all backlogged flows at once by their weights (A. K. Parekh,
//! R. G. Gallager, *A Generalized Processor Sharing Approach to Flow Control in Integrated Services Networks: The Single-Node
//! Case*, 1993).
//!
//! With `B(t)` the flows that are backlogged in the fluid server itself and `r` its rate:
//!
//! ```text
//! dV/dt = r / sum of w_j over B(t)        S_k = max(V(arrival), F_(k-1))        F_k = S_k + length_k / w
//! ```
//!
//! An item is done when V reaches its F. Work is counted in 2^-16 of a nanobyte, which is what the server does in 2^-16 ns at 1 B/s;
//! instants, work and virtual times are integers, and less than one unit of virtual time is lost at each change of B.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use surety_units::{Nanos, Rate};

use super::{FlowId, Item};

/// Units of work in a nanobyte.
const FRACTION_BITS: u32 = 16;

/// Nanobytes in a byte.
const NANO: u128 = 1_000_000_000;

/// The fluid server.
#[derive(Clone, Debug)]
pub struct Gps {
    rate: Rate,
    weights: Vec<u32>,
    /// Work it could have done since time 0 up to the instant that `virtual_now` is of.
    work_now: u128,
    virtual_now: u128,
    /// Of the flows that are backlogged.
    sum: u64,
    flows: Vec<Fluid>,
    /// Items not yet done, by their virtual finish time.
    waiting: BinaryHeap<Reverse<(u128, FlowId, u64)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fluid {
    /// Virtual finish of its last item.
    finish: u128,
    /// Bytes that have come.
    arrived: u64,
    /// Items not done.
    open: u32,
}

/// An item that is done in the fluid server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub flow: FlowId,
    pub number: u64,
    /// Rounded up.
    pub at: Nanos,
}

impl Gps {
    /// An idle server of flows with these weights, at time 0.
    pub fn new(rate: Rate, weights: Vec<u32>) -> Gps {
        let flows = vec![Fluid::default(); weights.len()];
        Gps { rate, weights, work_now: 0, virtual_now: 0, sum: 0, flows, waiting: BinaryHeap::new() }
    }

    /// Work that the server could do from time 0 to an instant.
    fn work_at(&self, now: Nanos) -> u128 {
        (u128::from(now.get_unsigned()) * u128::from(self.rate.0)) << FRACTION_BITS
    }

    fn instant_of(&self, work: u128) -> Nanos {
        let ns = work.div_ceil(u128::from(self.rate.0) << FRACTION_BITS);
        Nanos::new(i64::try_from(ns).expect("not beyond an instant asked for"))
    }

    /// Serves up to an instant; what is done by then goes to `done`, in its order.
    pub fn advance(&mut self, now: Nanos, mut done: impl FnMut(Done)) {
        let target = self.work_at(now);
        while let Some(&Reverse((finish, flow, number))) = self.waiting.peek() {
            let at = self.work_now + finish.saturating_sub(self.virtual_now) * u128::from(self.sum);
            if at > target {
                break;
            }
            (self.work_now, self.virtual_now) = (at, finish.max(self.virtual_now));
            self.waiting.pop();
            let fluid = &mut self.flows[flow.index()];
            fluid.open -= 1;
            if fluid.open == 0 {
                self.sum -= u64::from(self.weights[flow.index()]);
            }
            done(Done { flow, number, at: self.instant_of(at) });
        }
        if self.sum == 0 {
            self.work_now = target;
        } else {
            // What the division leaves stays undone in `work_now`, and is counted the next time.
            let passed = (target - self.work_now) / u128::from(self.sum);
            self.virtual_now += passed;
            self.work_now += passed * u128::from(self.sum);
        }
    }

    /// An item comes; its virtual start and finish. What is done before it is forgotten: [`Gps::advance`] first where that matters.
    pub fn arrive(&mut self, now: Nanos, item: Item) -> (u128, u128) {
        self.advance(now, |_| ());
        let weight = self.weights[item.flow.index()];
        let fluid = &mut self.flows[item.flow.index()];
        let start = fluid.finish.max(self.virtual_now);
        let length = (u128::from(item.length) * NANO) << FRACTION_BITS;
        let finish = start + length / u128::from(weight);
        if fluid.open == 0 {
            self.sum += u64::from(weight);
        }
        *fluid = Fluid { finish, arrived: fluid.arrived + u64::from(item.length), open: fluid.open + 1 };
        self.waiting.push(Reverse((finish, item.flow, item.number)));
        (start, finish)
    }

    /// Nanobytes a flow was served from time 0 up to the instant it was advanced to last, rounded up.
    pub fn served(&self, flow: FlowId) -> u128 {
        let Fluid { finish, arrived, open } = self.flows[flow.index()];
        let left = if open == 0 { 0 } else { finish.saturating_sub(self.virtual_now) };
        let left = (left * u128::from(self.weights[flow.index()])) >> FRACTION_BITS;
        (u128::from(arrived) * NANO).saturating_sub(left)
    }
}
