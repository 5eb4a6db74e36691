//! [`Set`]: W, A and the buffer of each stream of a set, after the formulas of [the module](super).

use surety_device::worst::{Cost, Held};
use surety_model::workload::Direction;
use surety_units::{Nanos, common_divisor};

use super::{Admitted, DiskTerms, PAGE, SHARE, Service, StreamDemand, Why};

const SECOND: u128 = 1_000_000_000;
/// Longer spans are no guarantee that anybody waits for.
const LONGEST: u128 = 20 * SECOND;
/// Runs of batches that are looked at; a set with longer ones is as good as one that takes all of the disk.
const RUNS: u128 = 100_000;
/// Steps towards a span: where it takes more, the disk has next to no time left.
const STEPS: usize = 200;
/// Batches of a stream before a run of others, of which each is looked at.
const EARLIER: u128 = 32;
/// How often the lags of all are looked at again.
const LAGS: usize = 8;
/// The same where best effort may get in between the batches of one.
const RUNS_WITH_GAPS: u128 = 64;

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
    /// L: how far it is behind at most when one of its batches is there, in bytes.
    lag: u128,
    /// Whether two of its batches are in the block layer at a time, and it begins with credit for one.
    overlaps: bool,
    /// Whether one of its batches may be served before an earlier one.
    passes: bool,
    /// Whether best effort may get in between its batches.
    gaps: bool,
    /// C, in nanoseconds.
    service: u128,
    /// Of that, what its longest request takes.
    longest: u128,
    /// What the device does later for a batch that is written, at most, in nanoseconds.
    later: u128,
    /// Requests of a batch, and how many of them write.
    requests: u128,
    writes: u128,
}

impl Stream {
    /// Bytes beyond which it has no credit for more, however far it is behind.
    fn full_credit(&self) -> u128 {
        self.batch + (self.rate * self.jitter).div_ceil(SECOND)
    }

    /// When the last of `count` batches may be asked for at the earliest, in a span of no more nanoseconds than `longest`.
    fn earliest(&self, count: u128, longest: u128, phase: Phase) -> u128 {
        let (mut before, mut at) = (None, longest);
        while before.map_or(0, |before| before + 1) < at {
            let from = before.map_or(0, |before| before + 1);
            let middle = from + (at - from) / 2;
            if self.batches(middle, phase) >= count { at = middle } else { before = Some(middle) }
        }
        at
    }

    /// N: its batches in a span of nanoseconds, at whose beginning it is behind by no more than L.
    fn batches(&self, span: u128, phase: Phase) -> u128 {
        let span = span + self.cpu;
        let flown = self.bytes_in(span);
        let played = self.room + self.access * (1 + short_ratio(flown, self.access));
        let saved = if self.overlaps { 0 } else { self.bytes_in(span + self.jitter) };
        let full = (self.batch + saved.max(flown)).max(played);
        let later = || ((self.batch + flown).max(played) + self.lag).min(full);
        short_ratio(if phase == Phase::Start { full } else { later() }, self.batch)
    }

    /// Bytes at its rate in a span of nanoseconds.
    fn bytes_in(&self, span: u128) -> u128 {
        short_ratio(self.rate * span, SECOND)
    }
}

/// A quotient, which of numbers of 64 bits is much faster.
fn short_ratio(number: u128, by: u128) -> u128 {
    match (u64::try_from(number), u64::try_from(by)) {
        (Ok(number), Ok(by)) => u128::from(number / by),
        _ => number / by,
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
        let streams =
            demands.iter().zip(batches).map(|(demand, batch)| Self::stream(demand, (*batch).max(1), disk));
        Set { demands, disk, streams: streams.collect() }
    }

    /// The set with L of each, where best effort gets in between batches: what is asked of latencies needs it. An error is the place of a stream that never
    /// catches up, nor does it with longer lags of the others.
    pub(super) fn with_lags(mut self) -> Result<Set<'a>, usize> {
        let gaps = self.streams.iter().any(|stream| stream.gaps);
        if gaps && matches!(self.disk.service, Service::ByClass { .. }) {
            self.find_lags()?;
        }
        Ok(self)
    }

    /// L of each: no less than what follows from those of all.
    fn find_lags(&mut self) -> Result<(), usize> {
        for _ in 0..LAGS {
            let lag = |place: usize| match self.streams[place].gaps {
                true => self.behind(place, Phase::Later).map(|(_, lag)| lag).ok_or(place),
                false => Ok(0),
            };
            let lags = (0..self.streams.len()).map(lag).collect::<Result<Vec<u128>, usize>>()?;
            let is_same = |(stream, lag): (&Stream, &u128)| *lag <= stream.lag;
            if self.streams.iter().zip(&lags).all(is_same) {
                return Ok(());
            }
            for (stream, lag) in self.streams.iter_mut().zip(lags) {
                stream.lag = stream.lag.max(lag.min(stream.full_credit()));
            }
        }
        let late = self.streams.iter_mut().filter(|stream| stream.gaps);
        late.for_each(|stream| stream.lag = stream.full_credit());
        Ok(())
    }

    fn stream(demand: &StreamDemand, batch: u64, disk: &DiskTerms) -> Stream {
        let request = disk.request_bytes.max(1);
        let (whole, rest) = (u128::from(batch / request), batch % request);
        let writes = demand.direction == Direction::Write;
        let cost = if writes { disk.write.unwrap_or_default() } else { disk.read };
        let sum = |cost: Cost| whole * ns(cost.of(request)) + if rest > 0 { ns(cost.of(rest)) } else { 0 };
        let access = demand.access.max(1);
        // Batches, accesses and so the room are multiples of this, but for what the buffer has beyond.
        let grain = common_divisor(batch, access);
        let beyond = demand.buffer.filter(|_| !writes).map_or(0, |buffer| buffer % grain);
        let requests = u128::from(batch.div_ceil(request));
        Stream {
            count: demand.count.into(),
            rate: u128::from(demand.rate.0.max(1)),
            batch: batch.into(),
            access: access.into(),
            jitter: ns(demand.jitter),
            cpu: ns(disk.cpu),
            lag: 0,
            overlaps: demand.overlap,
            passes: demand.overlap && !disk.in_turn,
            gaps: disk.gaps && !demand.overlap,
            room: (batch - grain + beyond).into(),
            service: sum(cost),
            longest: ns(cost.of(request.min(batch))),
            later: if writes && disk.held.most > 0 { sum(disk.held.each) } else { 0 },
            requests,
            writes: if writes { requests } else { 0 },
        }
    }

    /// The share of the disk's time of the streams of a place, in 2^-40, rounded up.
    pub(super) fn share(&self, place: usize) -> u64 {
        let stream = &self.streams[place];
        let each = stream.service + stream.later;
        let (time, period) = (each * stream.rate * stream.count, stream.batch * SECOND);
        // Below 2^88 as long as a batch takes less than a day at 2^40 B/s.
        bytes(time.saturating_mul(1 << SHARE).div_ceil(period))
    }

    pub(super) fn shares(&self) -> u64 {
        (0..self.streams.len()).fold(0, |sum, place| sum.saturating_add(self.share(place)))
    }

    /// Requests that all of them may have in the queue at once, and how many of those write.
    pub(super) fn requests(&self) -> (u64, u64) {
        let at_once = |one: &Stream| if one.overlaps { 2 * one.count } else { one.count };
        let sum =
            |of: fn(&Stream) -> u128| bytes(self.streams.iter().map(|one| of(one) * at_once(one)).sum());
        (sum(|stream| stream.requests), sum(|stream| stream.writes))
    }

    /// Best-effort requests that go first in their class, and how many of them may write; where all go in the order of coming, any of the queue.
    fn first(&self) -> (u64, u64) {
        let disk = self.disk;
        match disk.service {
            Service::ByClass { aged } => {
                let may_write = disk.inside_writes > 0;
                (disk.inside + aged, disk.inside_writes + if may_write { aged } else { 0 })
            }
            Service::InOrder => {
                let is_written =
                    disk.inside_writes > 0 || self.streams.iter().any(|stream| stream.writes > 0);
                (disk.requests, if is_written { disk.requests } else { 0 })
            }
        }
    }

    /// H: `times` the best effort that goes first, and what the device does on its own account between that and requests of streams, of which
    /// some write, `last` of them as the last of all.
    ///
    /// A best-effort request that may write is a read or, with what it adds to the device's own work, a write; or it is either, and all of them
    /// add to that. Both are bounds.
    fn blocked(&self, (times, last): (u64, u64), (requests, writes): (u128, u128)) -> u128 {
        let ((count, of_which), disk) = (self.first(), self.disk);
        let longest = match disk.service {
            Service::ByClass { .. } => disk.beside_bytes,
            Service::InOrder => disk.beside_bytes.max(disk.request_bytes),
        };
        let written = disk.write.unwrap_or_default();
        let (read, write) = (ns(disk.read.of(longest)), ns(written.of(longest)));
        let (commits, block) = (u64::from(disk.commits), ns(written.of(PAGE)));
        let before_all = commits + disk.flushes;
        let (requests, writes) =
            (bytes(requests).saturating_add((count + before_all) * times), bytes(writes));
        // Each time the device may hold as much as it can.
        let again = if of_which + commits > 0 { times } else { 1 };
        let held = Held { most: disk.held.most * again, bytes: disk.held.bytes * again, ..disk.held };
        let own = |written: u64| ns(held.time_but(requests, writes.saturating_add(written), last));
        let added = if held.flushes { 1 } else { held.per_write.max(1) };
        let added = if held.most > 0 { u128::from(added) * (ns(held.each.of(held.longest)) + 2) } else { 0 };
        let flushes = u128::from(disk.flushes) * ns(disk.flush);
        let all = |each: u128, block: u128, own: u128| {
            let once = u128::from(count - of_which) * read + u128::from(of_which) * each;
            u128::from(times) * (once + u128::from(commits) * block + flushes) + own
        };
        let either = all(read.max(write), block, own((of_which + commits) * times));
        either.min(all(read.max(write + added), block + added, own(0)))
    }

    pub(super) fn blocking(&self) -> Nanos {
        nanos(self.blocked((1, 0), (0, 0)))
    }

    /// The least span in which best effort that goes first, `runs` batches of a stream of one place and all that the others may ask for are
    /// served, where `before` nanoseconds of it were over, with `earlier` batches of that stream, and which is known to be no less than `least`; `None`: there
    /// is none, or it is no guarantee.
    fn served(
        &self,
        place: Option<usize>,
        (runs, least): (u128, u128),
        (earlier, before): (u128, u128),
        phase: Phase,
    ) -> Option<u128> {
        let own = place.map(|place| &self.streams[place]);
        let last = u64::from(own.is_some_and(|stream| runs * stream.writes > 0));
        let times = if own.is_some_and(|stream| stream.gaps) { bytes(runs.max(1)) } else { 1 };
        let asking = ns(self.disk.cpu) * u128::from(times - 1);
        let mut span = least;
        for _ in 0..STEPS {
            if span >= LONGEST {
                return None;
            }
            let (mut time, mut requests, mut writes) = (asking, 0, 0);
            if let Some(stream) = own {
                // Those behind the run may pass it, all that are asked for by then; in turn the next one, while a request is handed on.
                let asked = if stream.passes { stream.batches(before + span, phase) } else { 0 };
                let next = u128::from(stream.overlaps && !stream.passes);
                let batches = (runs + next).max(asked.saturating_sub(earlier));
                time += batches * stream.service;
                (requests, writes) = (batches * stream.requests, batches * stream.writes);
            }
            for (other, stream) in self.streams.iter().enumerate() {
                let count = stream.count - u128::from(Some(other) == place);
                let batches = count * stream.batches(before + span, phase);
                time += batches * stream.service;
                requests += batches * stream.requests;
                writes += batches * stream.writes;
            }
            time += self.blocked((times, last), (requests, writes));
            if time <= span {
                return Some(span);
            }
            span = time;
        }
        None
    }

    /// The longest that the disk serves streams without a pause.
    fn busy(&self, phase: Phase) -> Option<u128> {
        match self.disk.service {
            Service::ByClass { .. } => self.served(None, (0, 0), (0, 0), phase),
            Service::InOrder => Some(0),
        }
    }

    /// F(q) of a stream, in spans that last for no longer than `busy`; `known` is that of fewer batches, for each m, with what was over when the run began.
    fn finished(
        &self,
        place: usize,
        runs: u128,
        (phase, busy): (Phase, u128),
        known: &mut Vec<(u128, u128)>,
    ) -> Option<u128> {
        let stream = &self.streams[place];
        let before = |m: u128| {
            let own = self.disk.held.time(bytes(m * stream.requests), bytes(m * stream.writes));
            m * stream.service + ns(own)
        };
        if self.disk.service == Service::InOrder {
            let one = stream.service + self.blocked((1, 0), (stream.requests, stream.writes));
            return Some(runs * one);
        }
        let last = stream.batches(busy, phase) - 1;
        if last > EARLIER {
            // As if none of those that may pass were among the earlier ones.
            let earlier = if stream.passes { 0 } else { last };
            return self.served(Some(place), (runs, 0), (earlier, before(last)), phase);
        }
        if known.is_empty() {
            let over = |m: u128| stream.earliest(m + 1, busy, phase).saturating_sub(before(m));
            known.extend((0..=last).map(|m| (0, over(m))));
        }
        let (mut most, mut finished, mut waits) = (0, 0, 0);
        for (m, (known, over)) in (0..).zip(known) {
            // Where others pass, behind fewer earlier ones there may be more of those.
            let least = if stream.passes { *known } else { finished.max(*known) };
            finished = self.served(Some(place), (runs, least), (m, before(m)), phase)?;
            *known = finished;
            most = most.max(finished.saturating_sub(*over));
            waits = waits.max(self.in_turn(place, runs, before(m) + finished, phase));
        }
        Some(if self.disk.in_turn && stream.overlaps { most.min(waits) } else { most })
    }

    /// The time in which a run of a stream is served that ends within a span, where those that go the same way are served in the order of coming: before each
    /// batch of the run go as many of another stream as it has in the block layer at a time, and one request before each of its own while that is handed on.
    fn in_turn(&self, place: usize, runs: u128, span: u128, phase: Phase) -> u128 {
        let own = &self.streams[place];
        let mut time = runs * own.service;
        let (mut requests, mut writes) = (runs * own.requests, runs * own.writes);
        let last = u64::from(writes > 0);
        for (other, stream) in self.streams.iter().enumerate() {
            let count = stream.count - u128::from(other == place);
            let at_once = if stream.overlaps { 2 } else { 1 };
            let is_in_turn = (stream.writes > 0) == (own.writes > 0);
            let most = if is_in_turn { runs * at_once } else { u128::MAX };
            let batches = count * stream.batches(span, phase).min(most);
            time += batches * stream.service;
            requests += batches * stream.requests;
            writes += batches * stream.writes;
        }
        let passing = self.streams.iter().filter(|stream| (stream.writes > 0) == (own.writes > 0));
        time += runs * own.requests * passing.map(|stream| stream.longest).max().unwrap_or(0);
        requests += runs * own.requests;
        writes += runs * own.writes;
        time + self.blocked((1, last), (requests, writes))
    }

    /// How many batches a run of a stream may have.
    fn runs(&self, place: usize, (phase, busy): (Phase, u128)) -> Option<u128> {
        let stream = &self.streams[place];
        match self.disk.service {
            // What best effort has between its batches leaves no time for them: it never catches up.
            Service::ByClass { .. } if stream.gaps => {
                let more = (self.blocked((1, 0), (0, 0)) + ns(self.disk.cpu)) * stream.rate;
                let more = (more << SHARE).div_ceil(stream.batch * SECOND);
                (u128::from(self.shares()) + more < 1 << SHARE).then_some(RUNS_WITH_GAPS)
            }
            // No more of its batches than there may be while the disk serves streams without a pause.
            Service::ByClass { .. } => Some(stream.batches(busy, phase)).filter(|runs| *runs <= RUNS),
            Service::InOrder => {
                let one = self.finished(place, 1, (phase, busy), &mut Vec::new())?;
                (one * stream.rate <= stream.batch * SECOND).then_some(1)
            }
        }
    }

    /// A and L, in bytes, rounded up; `None`: it has no end.
    fn behind(&self, place: usize, phase: Phase) -> Option<(u128, u128)> {
        let stream = &self.streams[place];
        let during = (phase, self.busy(phase)?);
        let (runs, gaps) = (self.runs(place, during)?, stream.gaps);
        let (mut most, mut lag, mut known) = (0, 0, Vec::new());
        for run in 1..=runs {
            let finished = self.finished(place, run, during, &mut known)?;
            let late = ((finished + ns(self.disk.cpu)) * stream.rate).div_ceil(SECOND);
            most = most.max(late.saturating_sub((run - 1) * stream.batch));
            lag = lag.max(late.saturating_sub(run * stream.batch));
            if gaps && late <= run * stream.batch {
                return Some((most, lag));
            }
        }
        (!gaps || self.disk.service == Service::InOrder).then_some((most, lag))
    }

    /// What a stream is given; or why not.
    pub(super) fn admit(&self, place: usize) -> Result<Admitted, Why> {
        let (demand, stream) = (&self.demands[place], &self.streams[place]);
        let endless = || match stream.gaps && matches!(self.disk.service, Service::ByClass { .. }) {
            true => Why::Behind(self.shares()),
            false => Why::Bandwidth(self.shares()),
        };
        let latency = |phase| {
            let during = (phase, self.busy(phase).ok_or_else(endless)?);
            self.finished(place, 1, during, &mut Vec::new()).ok_or_else(endless)
        };
        let (at_start, later) = (latency(Phase::Start)?, latency(Phase::Later)?);
        let (falls, _) = self.behind(place, Phase::Later).ok_or_else(endless)?;
        let (behind, _) = self.behind(place, Phase::Start).ok_or_else(endless)?;
        let behind = behind.max(falls);
        let credit = stream.batch + stream.rate * ns(demand.jitter) / SECOND;
        let cpu = ns(self.disk.cpu);
        let (access, is_written) = (u128::from(demand.access), stream.writes > 0);
        let falls = falls + if is_written { access } else { 0 };
        let lost = falls.max(stream.batch + (stream.rate * cpu).div_ceil(SECOND));
        if lost > credit {
            return Err(Why::Credit { behind: bytes(lost), credit: bytes(credit) });
        }
        let own = if is_written { stream.batch + 2 * access } else { access };
        let due = behind + own + (stream.rate * cpu).div_ceil(SECOND);
        let takes = (due * SECOND).div_ceil(stream.rate);
        if let Some(limit) = demand.deadline.filter(|limit| ns(*limit) < takes) {
            return Err(Why::Late { takes: nanos(takes), limit });
        }
        // Whatever is promised besides, an access is late when the buffer is empty; what is written never waits for room.
        let needed = bytes((stream.batch + access).max(due));
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
