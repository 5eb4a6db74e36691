//! [`Rounds`]: records of many CPUs' buffers as one stream in time, in bounded memory.
//!
//! perf empties one CPU's buffer after the other and then writes that a round is finished. What a round brings is at
//! most as old as the end of the round before the last, so at the end of a round everything up to the latest time of
//! the round before can be handed out. Compressed records come out of their unpacking later than their round's end says,
//! and a recorder may write no rounds: then everything waits until memory's bound. Beyond it the earliest half goes
//! first; a record that comes after its time gets its predecessor's, and the reader counts it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use surety_units::CpuId;

/// Memory that waiting records may take.
const WAITING_MAX: usize = 64 << 20;

/// Something with a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    pub(super) time: u64,
    /// Equal times keep their order.
    number: u64,
    pub(super) cpu: Option<CpuId>,
    pub(super) what: What,
}

/// What waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// A tracepoint's record.
    Record(Box<[u8]>),
    /// Records were lost before.
    Lost(Option<u64>),
}

/// Records that wait for earlier ones.
#[derive(Default)]
pub(super) struct Rounds {
    waiting: BinaryHeap<Reverse<Waiting>>,
    memory: usize,
    number: u64,
    latest: u64,
    /// The latest time when the last round ended.
    latest_before: Option<u64>,
}

impl Rounds {
    /// Lets something wait, and hands out the earliest half when there is no more room.
    pub(super) fn add(&mut self, time: u64, cpu: Option<CpuId>, what: What, emit: &mut impl FnMut(Waiting)) {
        self.latest = self.latest.max(time);
        let waiting = Waiting { time, number: self.number, cpu, what };
        self.number += 1;
        self.memory += waiting.memory();
        self.waiting.push(Reverse(waiting));
        if self.memory > WAITING_MAX {
            while self.memory > WAITING_MAX / 2 {
                let Some(first) = self.take() else { break };
                emit(first);
            }
        }
    }

    /// The latest time so far.
    pub(super) fn latest(&self) -> u64 {
        self.latest
    }

    /// A round is finished.
    pub(super) fn round(&mut self, emit: &mut impl FnMut(Waiting)) {
        if let Some(limit) = self.latest_before {
            while self.waiting.peek().is_some_and(|Reverse(first)| first.time <= limit) {
                let Some(first) = self.take() else { break };
                emit(first);
            }
        }
        self.latest_before = Some(self.latest);
    }

    /// Nothing follows.
    pub(super) fn finish(&mut self, emit: &mut impl FnMut(Waiting)) {
        while let Some(first) = self.take() {
            emit(first);
        }
    }

    fn take(&mut self) -> Option<Waiting> {
        let Reverse(first) = self.waiting.pop()?;
        self.memory -= first.memory();
        Some(first)
    }
}

impl Waiting {
    fn memory(&self) -> usize {
        let own = match &self.what {
            What::Record(record) => record.len(),
            What::Lost(_) => 0,
        };
        size_of::<Waiting>() + own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Rounds of buffers that are each in order, emptied one after the other, come out in order of time.
        #[test]
        fn rounds_are_merged_by_time(steps in prop::collection::vec((0usize..3, 1u64..50), 0..200), rounds in 1usize..20) {
            let mut times = [0u64; 3];
            let mut events: Vec<(u64, usize)> = Vec::new();
            let mut now = 0;
            for (cpu, step) in &steps {
                now += step;
                times[*cpu] = now;
                events.push((now, *cpu));
            }
            let mut merged = Rounds::default();
            let mut out = Vec::new();
            let mut emit = |waiting: Waiting| out.push(waiting.time);
            for part in events.chunks(events.len().div_ceil(rounds).max(1)) {
                for cpu in 0..3 {
                    for (time, _) in part.iter().filter(|(_, c)| *c == cpu) {
                        merged.add(*time, None, What::Lost(None), &mut emit);
                    }
                }
                merged.round(&mut emit);
            }
            merged.finish(&mut emit);
            prop_assert_eq!(out, events.iter().map(|(time, _)| *time).collect::<Vec<_>>());
        }
    }

    #[test]
    fn without_rounds_memory_is_bounded() {
        let mut rounds = Rounds::default();
        let mut count = 0u64;
        let mut emit = |_| count += 1;
        let each = 60_000;
        for time in 0..2500 {
            rounds.add(time, None, What::Record(vec![0; each].into()), &mut emit);
            assert!(rounds.memory <= WAITING_MAX);
        }
        rounds.finish(&mut emit);
        assert_eq!((count, rounds.memory), (2500, 0));
    }
}
