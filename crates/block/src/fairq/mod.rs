//! Fair queueing of one server: packets of flows on a link, or requests of processes at a device.
//!
//! A [`Scheduler`] is told of each item that comes, and is asked for the next one whenever the server is idle; what it answers
//! is in service from then on, to its end. One file and one row of [`SCHEDULERS`] each; none knows another, and the budget
//! fair ones share their engine (`budget.rs`). The fluid reference all of them approximate is [`gps::Gps`].
//!
//! Lengths are in bytes here; whatever the rate of the server counts will do. Virtual times are work divided by weight, in
//! fixed point; no decision is made in floating point. Who is equal by a rule goes in the order of flows.

mod b_wf2q_plus;
mod budget;
mod drr;
mod eligible;
mod fifo;
mod flows;
pub mod gps;
mod heap;
mod hfsc;
mod qfq_plus;
mod raising;
mod wf2q_plus;
mod wfq;

use surety_units::{Nanos, Rate};
use thiserror::Error;

pub use crate::elevator::Rule;
pub use raising::Raising;

/// A flow, by its place in the list of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Index into lists that have an entry for every flow.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A packet or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub flow: FlowId,
    /// Bytes: above zero, and no more than the flow's largest.
    pub length: u32,
    /// Given by whoever enqueues it.
    pub number: u64,
}

/// A service curve of two pieces (H. Zhang et al.; `tc-hfsc`'s m1, d, m2): `first` until `bend`, `then` from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Curve {
    pub first: Rate,
    pub bend: Nanos,
    pub then: Rate,
}

impl Curve {
    /// The same rate all the time.
    pub fn linear(rate: Rate) -> Curve {
        Curve { first: rate, bend: Nanos::ZERO, then: rate }
    }
}

impl Curve {
    /// Nanobytes that are due so long after its beginning.
    fn due(&self, after: Nanos) -> u128 {
        let first = after.min(self.bend);
        let part = |time: Nanos, rate: Rate| u128::from(time.get_unsigned()) * u128::from(rate.0);
        part(first, self.first) + part(after - first, self.then)
    }
}

/// Whether a server of this rate can keep all curves: together they are nowhere above it.
pub fn curves_fit(curves: &[Curve], rate: Rate) -> bool {
    let last: u128 = curves.iter().map(|curve| u128::from(curve.then.0)).sum();
    // Between two bends the sum is straight.
    let fits = |at: Nanos| {
        let due: u128 = curves.iter().map(|curve| curve.due(at)).sum();
        due <= u128::from(at.get_unsigned()) * u128::from(rate.0)
    };
    last <= u128::from(rate.0) && curves.iter().all(|curve| fits(curve.bend))
}

/// What a scheduler is told of a flow beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its part of the server, relative to the others'; above zero.
    pub weight: u32,
    /// Length of its largest item, above zero.
    pub largest: u32,
    /// What it is guaranteed in real time (HFSC).
    pub curve: Option<Curve>,
}

impl Flow {
    /// A flow with a weight alone.
    pub fn new(weight: u32, largest: u32) -> Flow {
        Flow { weight, largest, curve: None }
    }
}

/// What a scheduler is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Making {
    /// Of the server.
    pub rate: Rate,
    pub flows: Vec<Flow>,
    /// Bytes of a turn: the quantum of the lightest flow (DRR), the budget of every flow (B-WF2Q+ and what stands on it).
    pub quantum: u32,
}

/// What cannot be made.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MakingError {
    /// A server without a rate, a flow without a weight or a length, or a turn of no bytes.
    #[error("the {0} must be above zero")]
    Zero(&'static str),
    /// QFQ+ has groups for so much.
    #[error("the weight {weight} is beyond {max}, the largest that `{word}` takes")]
    Weight { word: &'static str, weight: u32, max: u32 },
    /// The same of lengths.
    #[error("items of {largest} bytes are beyond {max}, the most that `{word}` takes")]
    Largest { word: &'static str, largest: u32, max: u32 },
}

/// The order in which a server takes items.
pub trait Scheduler {
    /// An item comes at an instant; instants do not decrease.
    fn enqueue(&mut self, now: Nanos, item: Item);

    /// The server is idle: the item it begins with at this instant, and why it is this one; `None`: there is none.
    fn dequeue(&mut self, now: Nanos) -> Option<(Item, Rule)>;

    /// Items that wait, without the one in service.
    fn queued(&self) -> usize;
}

/// A scheduler: what it is called, where its rule is from, what it is on Linux.
pub struct SchedulerRow {
    /// Its word in workload files.
    pub word: &'static str,
    pub source: &'static str,
    /// What `tc qdisc` calls it; `None`: no kernel has it for links.
    pub tc: Option<&'static str>,
    /// Heaviest weight and largest item it takes, where it has such limits.
    pub limits: Option<(u32, u32)>,
    make: fn(&Making) -> Box<dyn Scheduler>,
}

impl SchedulerRow {
    /// A scheduler with nothing in it.
    ///
    /// # Errors
    /// Where a number is zero or beyond what the scheduler takes.
    pub fn make(&self, making: &Making) -> Result<Box<dyn Scheduler>, MakingError> {
        let zero = [
            (making.rate.0 == 0, "rate"),
            (making.quantum == 0, "bytes of a turn"),
            (making.flows.iter().any(|flow| flow.weight == 0), "weight of a flow"),
            (making.flows.iter().any(|flow| flow.largest == 0), "largest item of a flow"),
        ];
        if let Some((_, what)) = zero.into_iter().find(|(is, _)| *is) {
            return Err(MakingError::Zero(what));
        }
        let word = self.word;
        for flow in self.limits.iter().flat_map(|_| &making.flows) {
            let (heaviest, longest) = self.limits.unwrap_or((u32::MAX, u32::MAX));
            if flow.weight > heaviest {
                return Err(MakingError::Weight { word, weight: flow.weight, max: heaviest });
            }
            if flow.largest > longest {
                return Err(MakingError::Largest { word, largest: flow.largest, max: longest });
            }
        }
        Ok((self.make)(making))
    }
}

/// All of them.
pub const SCHEDULERS: &[&SchedulerRow] = &[
    &fifo::ROW,
    &wfq::ROW,
    &wf2q_plus::ROW,
    &b_wf2q_plus::ROW,
    &drr::ROW,
    &qfq_plus::ROW,
    &hfsc::ROW,
    &raising::ROW,
];

/// The one of a word.
pub fn by_word(word: &str) -> Option<&'static SchedulerRow> {
    SCHEDULERS.iter().copied().find(|row| row.word == word)
}
