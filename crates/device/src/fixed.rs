//! [`Fixed`]: every request takes the same time, and its bytes at a rate.
//!
//! The first rung of the ladder of models, and what `null_blk` and `scsi_debug` are: up to `depth` requests are served beside
//! each other, the others wait in the order they came.

use surety_units::{Nanos, Rate};

use crate::model::{Completion, Hit, Ledger, Model, Op, Request, Service};

/// What a fixed device is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    pub sectors: u64,
    /// Of a read.
    pub read: Nanos,
    /// Of a write or a discard.
    pub write: Nanos,
    pub flush: Nanos,
    /// Of the data, one request after the other; 0: they take no time.
    pub rate: Rate,
    /// Requests that are served at a time.
    pub lanes: usize,
    /// Requests it takes at a time.
    pub depth: usize,
}

/// A device of fixed times.
#[derive(Clone, Debug)]
pub struct Fixed {
    parameters: Parameters,
    /// When each lane is free.
    lanes: Vec<Nanos>,
    /// When the data of all taken so far have moved.
    wire_free: Nanos,
    ledger: Ledger,
}

/// Nanoseconds of some bytes at a rate, rounded up; none at rate 0.
pub(crate) fn transfer(bytes: u64, rate: Rate) -> Nanos {
    if rate.0 == 0 {
        return Nanos::ZERO;
    }
    let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.0));
    Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX))
}

impl Fixed {
    /// A device at rest.
    pub fn new(parameters: Parameters) -> Fixed {
        let lanes = vec![Nanos::ZERO; parameters.lanes.max(1)];
        Fixed { parameters, lanes, wire_free: Nanos::ZERO, ledger: Ledger::default() }
    }

    fn cost(&self, op: Op) -> Nanos {
        match op {
            Op::Read => self.parameters.read,
            Op::Write | Op::Discard => self.parameters.write,
            Op::Flush => self.parameters.flush,
        }
    }

    /// The bytes that move for a request.
    fn moved(request: &Request) -> u64 {
        if matches!(request.op, Op::Read | Op::Write) { request.bytes() } else { 0 }
    }
}

impl Model for Fixed {
    fn depth(&self) -> usize {
        self.parameters.depth
    }

    fn sectors(&self) -> u64 {
        self.parameters.sectors
    }

    fn queued(&self) -> usize {
        self.ledger.inside()
    }

    fn accept(&mut self, now: Nanos, tag: u32, request: &Request) {
        self.ledger.enter(now, tag, request, self.parameters.depth, self.parameters.sectors);
        let overhead = self.cost(request.op);
        let data = transfer(Fixed::moved(request), self.parameters.rate);
        let lane = (0..self.lanes.len()).min_by_key(|lane| self.lanes[*lane]).unwrap_or(0);
        let begin = now.max(self.lanes[lane]);
        // The data move when the request is served, one after the other.
        let moving = (begin + overhead).max(if data > Nanos::ZERO { self.wire_free } else { Nanos::ZERO });
        let completed = moving + data;
        self.wire_free = self.wire_free.max(completed);
        self.lanes[lane] = completed;
        let queue = moving - now - overhead;
        let service = Service { queue, overhead, transfer: data, ..Service::default() };
        let hit = if request.op == Op::Read { Hit::Miss } else { Hit::Whole };
        self.ledger.complete(Completion { tag, accepted: now, completed, hit, service });
    }

    fn next(&self) -> Option<Nanos> {
        self.ledger.next()
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        self.ledger.take(now)
    }

    fn foreseen(&self, after: usize) -> Option<(u32, Nanos)> {
        self.ledger.foreseen(after)
    }

    fn estimate(&self, now: Nanos, request: &Request) -> Option<Nanos> {
        let begin = self.lanes.iter().copied().min().unwrap_or(now).max(now);
        Some(begin - now + self.cost(request.op) + transfer(Fixed::moved(request), self.parameters.rate))
    }

    fn fork(&self) -> Box<dyn Model + Send> {
        Box::new(self.clone())
    }

    fn digest(&self) -> u64 {
        self.ledger.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: Parameters = Parameters {
        sectors: 1000,
        read: Nanos::new(100),
        write: Nanos::new(200),
        flush: Nanos::new(1000),
        rate: Rate(512_000_000),
        lanes: 1,
        depth: 4,
    };

    fn run(parameters: Parameters, requests: &[(i64, Op, u32)]) -> Vec<(u32, i64)> {
        let mut device = Fixed::new(parameters);
        for (tag, (at, op, sectors)) in requests.iter().enumerate() {
            device.accept(Nanos::new(*at), tag as u32, &Request::new(*op, 0, *sectors));
        }
        std::iter::from_fn(|| device.advance(device.next()?))
            .map(|done| (done.tag, done.completed.get()))
            .collect()
    }

    /// A sector takes 1000 ns at 512 MB/s.
    #[test]
    fn requests_take_what_is_said_one_after_the_other() {
        assert_eq!(run(DEVICE, &[(0, Op::Read, 2), (0, Op::Write, 1)]), [(0, 2_100), (1, 3_300)]);
        assert_eq!(run(DEVICE, &[(5, Op::Flush, 0)]), [(0, 1_005)]);
    }

    #[test]
    fn lanes_overlap_what_is_fixed_and_not_the_data() {
        let two = Parameters { lanes: 2, ..DEVICE };
        assert_eq!(run(two, &[(0, Op::Read, 2), (0, Op::Write, 1)]), [(0, 2_100), (1, 3_100)]);
        let endless = Parameters { rate: Rate(0), ..two };
        assert_eq!(run(endless, &[(0, Op::Write, 9), (0, Op::Read, 9)]), [(1, 100), (0, 200)]);
    }
}
