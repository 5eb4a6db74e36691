//! [`Set`]: W, A and the buffer of each stream of a set, after the formulas of [the module](super).

use surety_units::{Nanos, common_divisor};

use super::{Admitted, DiskTerms, PAGE, SHARE, Service, StreamDemand, Why};

const SECOND: u128 = 1_000_000_000;
/// Longer spans are no guarantee that anybody waits for.
const LONGEST: u128 = 3_600 * SECOND;
/// Runs of batches that are looked at; a set with longer ones is as good as one that takes all of the disk.
const RUNS: u128 = 100_000;

/// A stream with its batch, in the numbers of the formulas.
struct Stream {
    count: u128,
    /// Bytes per second.
    rate: u128,
    batch: u128,
    /// Bytes of an access.
    access: u128,
    /// J and K, in nanoseconds.
    jitter: u128,
    cpu: u128,
    /// The most room, in bytes, with which it does not ask.
    room: u128,
    /// C, in nanoseconds.
    service: u128,
    /// Requests of a batch.
    requests: u128,
}

impl Stream {
    /// N: its batches in a span of nanoseconds.
    fn batches(&self, span: u128, phase: Phase) -> u128 {
        let credited = |span: u128| self.batch + self.rate * span / SECOND;
        let span = span + self.cpu;
        let played = self.access * (1 + self.rate * span / (self.access * SECOND));
        let most = match phase {
            Phase::Start => credited(span + self.jitter),
            Phase::Later => credited(span),
        };
        most.max(self.room + played) / self.batch
    }
}

/// When a stream's credit is what it was at the beginning, and when it is what was left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Start,
    Later,
}

/// Streams with their batches, on a disk.
pub(super) struct Set<'a> {
    demands: &'a [StreamDemand],
    disk: &'a DiskTerms,
    streams: Vec<Stream>,
}

fn ns(time: Nanos) -> u128 {
    u128::from(time.max(Nanos::ZERO).get_unsigned())
}

fn nanos(time: u128) -> Nanos {
    Nanos::new(i64::try_from(time).unwrap_or(i64::MAX))
}

fn bytes(of: u128) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}

impl<'a> Set<'a> {
    pub(super) fn new(demands: &'a [StreamDemand], batches: &[u64], disk: &'a DiskTerms) -> Set<'a> {
        let stream = |(demand, batch): (&StreamDemand, &u64)| {
            let batch = (*batch).max(1);
            let request = disk.request_bytes.max(1);
            let (whole, rest) = (batch / request, batch % request);
            let one = u128::from(whole) * ns(disk.read.of(request));
            let last = if rest > 0 { ns(disk.read.of(rest)) } else { 0 };
            let rate = u128::from(demand.rate.0.max(1));
            let access = demand.access.max(1);
            // Batches, accesses and so the room are multiples of this, but for what the buffer has beyond.
            let grain = common_divisor(batch, access);
            let room = batch - grain + demand.buffer.map_or(0, |buffer| buffer % grain);
            Stream {
                count: demand.count.into(),
                rate,
                batch: batch.into(),
                access: access.into(),
                jitter: ns(demand.jitter),
                cpu: ns(disk.cpu),
                room: room.into(),
                service: one + last,
                requests: u128::from(batch.div_ceil(request)),
            }
        };
        Set { demands, disk, streams: demands.iter().zip(batches).map(stream).collect() }
    }

    /// The share of the disk's time of the streams of a place, in 2^-40, rounded up.
    pub(super) fn share(&self, place: usize) -> u64 {
        let stream = &self.streams[place];
        let (time, period) = (stream.service * stream.rate * stream.count, stream.batch * SECOND);
        // Below 2^88 as long as a batch takes less than a day at 2^40 B/s.
        bytes(time.saturating_mul(1 << SHARE).div_ceil(period))
    }

    pub(super) fn shares(&self) -> u64 {
        (0..self.streams.len()).fold(0, |sum, place| sum.saturating_add(self.share(place)))
    }

    /// Requests that all of them may have in the queue at once.
    pub(super) fn requests(&self) -> u64 {
        bytes(self.streams.iter().map(|stream| stream.requests * stream.count).sum())
    }

    /// Best effort that goes first: requests, and nanoseconds.
    fn first(&self) -> (u64, u128) {
        let disk = self.disk;
        let requests = match disk.service {
            Service::ByClass { aged } => disk.inside + aged,
            Service::InOrder => disk.requests,
        };
        (requests, u128::from(requests) * ns(disk.beside.of(disk.beside_bytes)))
    }

    pub(super) fn blocking(&self) -> Nanos {
        let (requests, time) = self.first();
        nanos(time + self.held(u128::from(requests)))
    }

    /// What the device does on its own account while it serves so many requests.
    fn held(&self, requests: u128) -> u128 {
        let writes = match self.disk.service {
            Service::ByClass { aged } => {
                self.disk.inside_writes + if self.disk.inside_writes > 0 { aged } else { 0 }
            }
            Service::InOrder if self.disk.inside_writes > 0 => self.disk.requests,
            Service::InOrder => 0,
        };
        ns(self.disk.held.time(bytes(requests), writes))
    }

    /// The least span in which best effort that goes first, `runs` batches of a stream of one place and all that the others may ask for are
    /// served, where `before` nanoseconds of it were over; `None`: there is none, or it is no guarantee.
    fn served(&self, place: Option<usize>, runs: u128, before: u128, phase: Phase) -> Option<u128> {
        let (best_effort, first) = self.first();
        let own = place.map(|place| &self.streams[place]);
        let base = first + own.map_or(0, |stream| runs * stream.service);
        let of_own = own.map_or(0, |stream| runs * stream.requests);
        let mut span = base;
        while span < LONGEST {
            let (mut time, mut requests) = (base, u128::from(best_effort) + of_own);
            for (other, stream) in self.streams.iter().enumerate() {
                let count = stream.count - u128::from(Some(other) == place);
                let batches = count * stream.batches(before + span, phase);
                time += batches * stream.service;
                requests += batches * stream.requests;
            }
            time += self.held(requests);
            if time <= span {
                return Some(span);
            }
            span = time;
        }
        None
    }

    /// x: the longest that a stream is served before a run of its batches begins.
    fn earlier(&self, stream: &Stream, phase: Phase) -> Option<u128> {
        let mut span = 0;
        while span < LONGEST {
            let time = stream.service * (stream.batches(span, phase) - 1);
            if time <= span {
                return Some(span);
            }
            span = time;
        }
        None
    }

    /// F(q) of a stream.
    fn finished(&self, place: usize, runs: u128, phase: Phase) -> Option<u128> {
        match self.disk.service {
            Service::ByClass { .. } => {
                let before = self.earlier(&self.streams[place], phase)?;
                self.served(Some(place), runs, before, phase)
            }
            Service::InOrder => {
                let (requests, first) = self.first();
                let one = first + self.streams[place].service;
                Some(runs * (one + self.held(u128::from(requests) + self.streams[place].requests)))
            }
        }
    }

    /// A, in bytes, rounded up; `None`: it has no end.
    fn behind(&self, place: usize, phase: Phase) -> Option<u128> {
        let stream = &self.streams[place];
        let runs = match self.disk.service {
            // No more of its batches than there may be while the disk serves streams without a pause.
            Service::ByClass { .. } => stream.batches(self.served(None, 0, 0, phase)?, phase),
            Service::InOrder => {
                let one = self.finished(place, 1, phase)?;
                if one * stream.rate > stream.batch * SECOND {
                    return None;
                }
                1
            }
        };
        if runs > RUNS {
            return None;
        }
        let mut most = 0;
        for run in 1..=runs {
            let late = (self.finished(place, run, phase)? + ns(self.disk.cpu)) * stream.rate;
            most = most.max(late.div_ceil(SECOND).saturating_sub((run - 1) * stream.batch));
        }
        Some(most)
    }

    /// What a stream is given; or why not.
    pub(super) fn admit(&self, place: usize) -> Result<Admitted, Why> {
        let (demand, stream) = (&self.demands[place], &self.streams[place]);
        let endless = || Why::Bandwidth(self.shares());
        let latency = |phase| self.finished(place, 1, phase).ok_or_else(endless);
        let (at_start, later) = (latency(Phase::Start)?, latency(Phase::Later)?);
        let falls = self.behind(place, Phase::Later).ok_or_else(endless)?;
        let behind = self.behind(place, Phase::Start).ok_or_else(endless)?.max(falls);
        let credit = stream.batch + stream.rate * ns(demand.jitter) / SECOND;
        let cpu = ns(self.disk.cpu);
        let lost = falls.max(stream.batch + (stream.rate * cpu).div_ceil(SECOND));
        if lost > credit {
            return Err(Why::Credit { behind: bytes(lost), credit: bytes(credit) });
        }
        let access = u128::from(demand.access);
        let due = behind + access + (stream.rate * cpu).div_ceil(SECOND);
        let takes = (due * SECOND).div_ceil(stream.rate);
        if let Some(limit) = demand.deadline.filter(|limit| ns(*limit) < takes) {
            return Err(Why::Late { takes: nanos(takes), limit });
        }
        // With a limit of its own the buffer only has to hold what is fetched.
        let least = stream.batch + access;
        let needed = bytes(if demand.deadline.is_some() { least } else { least.max(due) });
        let grain = common_divisor(bytes(stream.batch), demand.access.max(1));
        let buffer = demand
            .buffer
            .unwrap_or_else(|| needed.next_multiple_of(PAGE / common_divisor(PAGE, grain) * grain));
        if buffer < needed {
            return Err(Why::Buffer { needed, given: buffer });
        }
        Ok(Admitted {
            batch: bytes(stream.batch),
            buffer,
            needed,
            service: nanos(stream.service),
            latency: nanos(later),
            at_start: nanos(at_start),
            behind: nanos((behind * SECOND).div_ceil(stream.rate)),
            share: self.share(place),
        })
    }
}
