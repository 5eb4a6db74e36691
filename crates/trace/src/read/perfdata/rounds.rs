//! [`Rounds`]: records of many CPUs' buffers as one stream in time, in bounded memory.
//!
//! perf empties one CPU's buffer after the other and then writes that a round is finished. What a round brings is at
//! most as old as the end of the round before the last, so at the end of a round everything up to the latest time of
//! the round before can be handed out. Compressed records come out of their unpacking later than their round's end says,
//! and a recorder may write no rounds: then everything waits until memory's bound. Beyond it the earliest half goes
//! first; a record that comes after its time gets its predecessor's, and the reader counts it.
//!
//! Each CPU's records come in order of time, so they wait in a queue of their own and the queues are merged: the one whose
//! head is first is drained until another's head comes before its own. Their bytes wait in one buffer for each CPU. What
//! comes out of order, and what is no record, waits in a heap beside them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use surety_units::CpuId;

use crate::read::tracedat::CPUS_MAX;

/// Memory that waiting records may take.
const WAITING_MAX: usize = 64 << 20;

/// Something with a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting<'r> {
    pub(super) time: u64,
    pub(super) cpu: Option<CpuId>,
    pub(super) what: What<'r>,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What<'r> {
    /// A tracepoint's record.
    Record(&'r [u8]),
    /// Records were lost before.
    Lost(Option<u64>),
}

/// Where something stands among what waits: by time, of equal times as they came.
type Position = (u64, u64);

/// Records that wait for earlier ones.
#[derive(Default)]
pub(super) struct Rounds {
    queues: Vec<Queue>,
    /// By CPU: its queue plus 1, 0 for none.
    of_cpu: Vec<u16>,
    /// The queues that are not empty, by their heads.
    heads: BinaryHeap<Reverse<(Position, usize)>>,
    strays: BinaryHeap<Reverse<Stray>>,
    memory: usize,
    number: u64,
    latest: u64,
    /// The latest time when the last round ended.
    latest_before: Option<u64>,
}

/// The records of one CPU, in order of time.
struct Queue {
    cpu: CpuId,
    records: VecDeque<Record>,
    /// Their bytes, from `taken` on.
    bytes: Vec<u8>,
    taken: usize,
    /// Time of the last that came.
    latest: u64,
}

/// A record whose bytes are the next in its queue.
#[derive(Clone, Copy)]
struct Record {
    position: Position,
    length: usize,
}

/// What waits outside of the queues.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Stray {
    position: Position,
    cpu: Option<CpuId>,
    /// `Err`: records were lost, this number where it is known.
    record: Result<Box<[u8]>, Option<u64>>,
}

impl Rounds {
    /// Lets something wait, and hands out the earliest half when there is no more room.
    pub(super) fn add(&mut self, waiting: Waiting<'_>, emit: &mut impl FnMut(Waiting<'_>)) {
        let Waiting { time, cpu, what } = waiting;
        self.latest = self.latest.max(time);
        let position = (time, self.number);
        self.number += 1;
        self.memory += memory(what);
        match (what, cpu) {
            (What::Record(record), Some(cpu)) => self.push(position, cpu, record),
            (What::Record(record), None) => {
                self.strays.push(Reverse(Stray { position, cpu, record: Ok(record.into()) }));
            }
            (What::Lost(count), cpu) => {
                self.strays.push(Reverse(Stray { position, cpu, record: Err(count) }));
            }
        }
        if self.memory > WAITING_MAX {
            self.drain(|rounds, _| rounds.memory > WAITING_MAX / 2, emit);
        }
    }

    #[inline]
    fn push(&mut self, position: Position, cpu: CpuId, record: &[u8]) {
        let index = self.queue(cpu);
        match index.and_then(|index| Some((index, self.queues.get_mut(index)?))) {
            Some((index, queue)) if queue.latest <= position.0 => {
                if queue.records.is_empty() {
                    self.heads.push(Reverse((position, index)));
                }
                queue.latest = position.0;
                queue.records.push_back(Record { position, length: record.len() });
                queue.bytes.extend_from_slice(record);
            }
            _ => {
                let (cpu, record) = (Some(cpu), Ok(record.into()));
                self.strays.push(Reverse(Stray { position, cpu, record }));
            }
        }
    }

    /// The CPU's queue; `None` for a number no CPU has.
    #[inline]
    fn queue(&mut self, cpu: CpuId) -> Option<usize> {
        match self.of_cpu.get(cpu.index()) {
            Some(place) if *place > 0 => Some(usize::from(place - 1)),
            _ => self.new_queue(cpu),
        }
    }

    #[cold]
    fn new_queue(&mut self, cpu: CpuId) -> Option<usize> {
        let place = u16::try_from(self.queues.len() + 1).ok().filter(|_| cpu.0 < CPUS_MAX)?;
        if self.of_cpu.len() <= cpu.index() {
            self.of_cpu.resize(cpu.index() + 1, 0);
        }
        self.of_cpu[cpu.index()] = place;
        let (records, bytes) = (VecDeque::new(), Vec::new());
        self.queues.push(Queue { cpu, records, bytes, taken: 0, latest: 0 });
        Some(self.queues.len() - 1)
    }

    /// The latest time so far.
    pub(super) fn latest(&self) -> u64 {
        self.latest
    }

    /// A round is finished.
    pub(super) fn round(&mut self, emit: &mut impl FnMut(Waiting<'_>)) {
        if let Some(limit) = self.latest_before {
            self.drain(|_, time| time <= limit, emit);
        }
        self.latest_before = Some(self.latest);
    }

    /// Nothing follows.
    pub(super) fn finish(&mut self, emit: &mut impl FnMut(Waiting<'_>)) {
        self.drain(|_, _| true, emit);
    }

    /// Hands out the earliest, while `wanted` says so of the next one's time.
    fn drain(&mut self, wanted: impl Fn(&Rounds, u64) -> bool, emit: &mut impl FnMut(Waiting<'_>)) {
        loop {
            let head = self.heads.peek().map(|Reverse(head)| *head);
            let stray = self.strays.peek().map(|Reverse(stray)| stray.position);
            match (head, stray) {
                (Some((position, index)), _) if stray.is_none_or(|stray| position < stray) => {
                    self.heads.pop();
                    let next = self.heads.peek().map(|Reverse((next, _))| *next);
                    let limit = next.into_iter().chain(stray).min();
                    if !self.drain_queue(index, limit, &wanted, emit) {
                        break;
                    }
                }
                (_, Some((time, _))) if wanted(self, time) => {
                    let Some(Reverse(stray)) = self.strays.pop() else { break };
                    let what = stray.record.as_deref().map_or_else(|count| What::Lost(*count), What::Record);
                    self.memory -= memory(what);
                    emit(Waiting { time, cpu: stray.cpu, what });
                }
                _ => break,
            }
        }
    }

    /// The same of one queue, up to what comes before its own at `limit`. `false`: nothing more is wanted.
    #[inline]
    fn drain_queue(
        &mut self,
        index: usize,
        limit: Option<Position>,
        wanted: &impl Fn(&Rounds, u64) -> bool,
        emit: &mut impl FnMut(Waiting<'_>),
    ) -> bool {
        while let Some(Record { position, length }) = self.queues[index].records.front().copied() {
            let is_next = limit.is_none_or(|limit| position < limit);
            if !is_next || !wanted(self, position.0) {
                self.heads.push(Reverse((position, index)));
                return !is_next;
            }
            let queue = &mut self.queues[index];
            queue.records.pop_front();
            let end = queue.taken + length;
            let what = What::Record(&queue.bytes[queue.taken..end]);
            self.memory -= memory(what);
            emit(Waiting { time: position.0, cpu: Some(queue.cpu), what });
            queue.taken = end;
            if queue.taken > queue.bytes.len() / 2 {
                let room = WAITING_MAX / self.queues.len();
                self.queues[index].compact(room);
            }
        }
        true
    }
}

impl Queue {
    /// Gives the room of what was taken to what comes; keeps no more than `room` bytes for it, or twice what waits.
    fn compact(&mut self, room: usize) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.shrink_to((2 * self.bytes.len()).max(room));
        self.records.shrink_to((2 * self.records.len()).max(room / size_of::<Record>()));
    }
}

/// Bytes that it takes while it waits.
fn memory(what: What<'_>) -> usize {
    match what {
        What::Record(record) => size_of::<Waiting<'_>>() + record.len(),
        What::Lost(_) => size_of::<Waiting<'_>>(),
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(time: u64, cpu: u32, what: What<'_>) -> Waiting<'_> {
        Waiting { time, cpu: Some(CpuId(cpu)), what }
    }

    proptest! {
        /// Rounds of buffers that are each in order, emptied one after the other, come out in order of time, of equal times
        /// in the order in which they came, with the bytes they came with.
        #[test]
        fn rounds_are_merged_by_time(steps in prop::collection::vec((0u32..3, 0u64..50, any::<bool>()), 0..200), rounds in 1usize..20) {
            let mut now = 0;
            let events = steps.iter().map(|(cpu, step, lost)| {
                now += step;
                (now, *cpu, *lost)
            });
            let events: Vec<(u64, u32, bool)> = events.collect();
            let mut merged = Rounds::default();
            let (mut out, mut came) = (Vec::new(), Vec::new());
            let mut emit = |waiting: Waiting<'_>| match waiting.what {
                What::Record(record) => out.push((waiting.time, waiting.cpu, Some(record.to_vec()))),
                What::Lost(_) => out.push((waiting.time, waiting.cpu, None)),
            };
            for part in events.chunks(events.len().div_ceil(rounds).max(1)) {
                for of in 0..3 {
                    for (time, cpu, lost) in part.iter().filter(|(_, cpu, _)| *cpu == of) {
                        let bytes = vec![came.len().to_le_bytes()[0]; came.len() % 7];
                        let what = if *lost { What::Lost(None) } else { What::Record(&bytes) };
                        merged.add(record(*time, *cpu, what), &mut emit);
                        came.push((*time, Some(CpuId(*cpu)), (!lost).then_some(bytes)));
                    }
                }
                merged.round(&mut emit);
            }
            merged.finish(&mut emit);
            prop_assert_eq!(merged.memory, 0);
            // One round may begin at the instant at which the one before ended; only what waits together is in order.
            let times: Vec<u64> = out.iter().map(|(time, ..)| *time).collect();
            prop_assert!(times.is_sorted());
            let key = |(time, cpu, bytes): &(u64, Option<CpuId>, Option<Vec<u8>>)| (*time, *cpu, bytes.clone());
            if rounds == 1 {
                came.sort_by_key(|(time, ..)| *time);
            } else {
                came.sort_by_key(key);
                out.sort_by_key(key);
            }
            prop_assert_eq!(out, came);
        }

        /// Whatever comes, and in whatever order: it waits and comes out as from one heap of all.
        #[test]
        fn queues_are_one_heap(steps in prop::collection::vec((0u32..4, 0u64..100, 0u32..20), 0..300)) {
            let mut merged = Rounds::default();
            let (mut heap, mut before, mut latest) = (BinaryHeap::new(), None, 0);
            let (mut out, mut expected) = (Vec::new(), Vec::new());
            let mut emit = |waiting: Waiting<'_>| match waiting.what {
                What::Record(record) => out.push((waiting.time, record.to_vec())),
                What::Lost(_) => out.push((waiting.time, Vec::new())),
            };
            let mut expect = |heap: &mut BinaryHeap<Reverse<(u64, usize)>>, limit: u64| {
                while let Some(Reverse((time, number))) = heap.peek().copied().filter(|Reverse((time, _))| *time <= limit) {
                    heap.pop();
                    expected.push((time, number.to_le_bytes().to_vec()));
                }
            };
            for (number, (cpu, time, ends)) in steps.iter().enumerate() {
                let bytes = number.to_le_bytes();
                merged.add(record(*time, *cpu, What::Record(&bytes)), &mut emit);
                heap.push(Reverse((*time, number)));
                latest = latest.max(*time);
                if *ends == 0 {
                    merged.round(&mut emit);
                    if let Some(limit) = before.replace(latest) {
                        expect(&mut heap, limit);
                    }
                }
            }
            merged.finish(&mut emit);
            expect(&mut heap, u64::MAX);
            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn without_rounds_memory_is_bounded() {
        let mut rounds = Rounds::default();
        let mut count = 0u64;
        let mut emit = |_: Waiting<'_>| count += 1;
        let bytes = vec![0; 60_000];
        for time in 0..2500 {
            // One CPU after the other fills its queue.
            let cpu = u32::try_from(time / 500).unwrap();
            rounds.add(record(time, cpu, What::Record(&bytes)), &mut emit);
            assert!(rounds.memory <= WAITING_MAX);
            let kept: usize = rounds.queues.iter().map(|queue| queue.bytes.capacity()).sum();
            assert!(kept <= 4 * WAITING_MAX, "{kept} bytes are held");
        }
        rounds.finish(&mut emit);
        assert_eq!((count, rounds.memory), (2500, 0));
    }
}
