//! [`Eligible`]: the smallest virtual finish time among those whose virtual start time has come (SEFF).

use super::FlowId;
use super::heap::Heap;

/// Work divided by weight, in units of 2^-[`FRACTION_BITS`] of a byte of a flow of weight 1.
pub(super) type Virtual = u128;

/// Bits after the point. Times of 128 bits do not wrap.
pub(super) const FRACTION_BITS: u32 = 32;

/// Virtual time that bytes take a flow of this weight, rounded down.
pub(super) fn span(bytes: u32, weight: u64) -> Virtual {
    Virtual::from((u64::from(bytes) << FRACTION_BITS) / weight)
}

/// Flows that wait, by their virtual times.
#[derive(Clone, Debug)]
pub(super) struct Eligible {
    /// Those whose start has not been seen to have come, by it.
    early: Heap<Virtual>,
    /// The others, by their finish.
    ready: Heap<Virtual>,
    finish: Vec<Virtual>,
}

impl Eligible {
    pub(super) fn new(flows: usize) -> Eligible {
        Eligible { early: Heap::new(flows), ready: Heap::new(flows), finish: vec![0; flows] }
    }

    /// Adds a flow with its times.
    pub(super) fn insert(&mut self, flow: FlowId, start: Virtual, finish: Virtual) {
        self.finish[flow.index()] = finish;
        self.early.set(flow, start);
    }

    /// Takes the flow out that finishes first among those with a start up to `now`, which moves to the earliest start where there
    /// would be none.
    pub(super) fn pop(&mut self, now: &mut Virtual) -> Option<FlowId> {
        if self.ready.is_empty() {
            let (earliest, _) = self.early.first()?;
            *now = (*now).max(earliest);
        }
        while let Some((start, flow)) = self.early.first()
            && start <= *now
        {
            self.early.remove(flow);
            self.ready.set(flow, self.finish[flow.index()]);
        }
        self.ready.pop().map(|(_, flow)| flow)
    }
}

/// Virtual time that advances with the work of a server shared by flows; what a division leaves is kept for the next, so that
/// nothing is lost by rounding while the sum of weights stays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    pub(super) now: Virtual,
    rest: u64,
}

impl Clock {
    /// So many bytes were served to flows of this weight in all.
    pub(super) fn advance(&mut self, bytes: u32, weights: u64) {
        let work = (u64::from(bytes) << FRACTION_BITS) + self.rest;
        self.now += Virtual::from(work / weights);
        self.rest = work % weights;
    }

    /// The weights are others now: what was left of a division by the old ones is given up.
    pub(super) fn reweigh(&mut self) {
        self.rest = 0;
    }
}
