//! Reads: from the buffer, from what streams past, from the medium; and reading ahead.

use super::buffer::SegmentId;
use super::mechanism::{Arm, Run, Wanted};
use super::{Hdd, Pending, ReadAhead, Stream, Then, Work};
use crate::model::{Hit, Op, Parts, Request};

impl Hdd {
    /// Where the arm is at an instant at which the moving parts are free: on its way ahead, perhaps.
    pub(super) fn arm_at(&self, at: f64) -> Arm {
        let known = self.stream.runs.last().copied();
        if known.is_some_and(|run| run.arrived > at) {
            let under_way = self.stream.runs.iter().rev().find(|run| run.arrived <= at);
            return under_way.map_or(self.arm, |run| run.arm);
        }
        let under_way = std::iter::successors(known, |run| self.next_of_stream(Some(run)))
            .take_while(|run| run.arrived <= at)
            .last();
        let first = || self.next_of_stream(None).filter(|run| run.arrived <= at);
        under_way.or_else(first).map_or(self.arm, |run| run.arm)
    }

    /// What is read ahead on the track behind a run, or at first.
    fn next_of_stream(&self, last: Option<&Run>) -> Option<Run> {
        let Stream { from, limit, begin, .. } = self.stream;
        let (sector, arm, free) =
            last.map_or((from, self.arm, begin), |run| (run.sector + run.sectors, run.arm, run.end));
        (sector < limit).then(|| self.mechanism.read_on(arm, free.max(begin), sector, limit - sector))
    }

    /// Follows reading ahead up to an instant.
    fn stream_until(&mut self, at: f64) {
        while self.stream.runs.last().is_none_or(|run| run.end <= at)
            && let Some(next) = self.next_of_stream(self.stream.runs.last())
        {
            self.stream.runs.push(next);
        }
    }

    /// Notes in the buffer what reading ahead has read by an instant.
    fn sync(&mut self, at: f64) {
        if let Some(segment) = self.stream.segment {
            self.stream_until(at);
            let start = self.buffer.segment(segment).start;
            let read = self.stream.runs.iter().map(|run| run.read_by(at)).sum::<u64>();
            self.buffer.set(segment, start, self.stream.from + read);
        }
    }

    /// Stops reading ahead.
    pub(super) fn stop_reading_ahead(&mut self, at: f64) {
        self.sync(at);
        self.arm = self.arm_at(at);
        self.stream.clear();
    }

    /// Begins to read ahead from the end of a segment to a limit.
    pub(super) fn read_ahead(&mut self, segment: SegmentId, limit: u64, at: f64) {
        let from = self.buffer.segment(segment).end;
        self.stream.clear();
        if limit > from && self.pending.is_empty() && self.dirty.is_empty() {
            (self.stream.segment, self.stream.from) = (Some(segment), from);
            (self.stream.limit, self.stream.begin) = (limit, at);
        }
    }

    /// Lets reading ahead go on to a limit.
    fn extend(&mut self, limit: u64, at: f64) {
        if limit > self.stream.limit {
            self.stream_until(f64::INFINITY);
            (self.stream.limit, self.stream.begin) = (limit, at);
        }
    }

    /// How far to read on after a request that ends before a sector, in a segment from `start` on.
    fn limit(&self, start: u64, end: u64) -> u64 {
        let geometry = &self.mechanism.geometry;
        let sectors = geometry.sectors();
        let last = || geometry.place(end.min(sectors) - 1);
        let limit = match self.parameters.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Track => end - 1 + last().run,
            ReadAhead::Cylinder => {
                let last = last();
                let mut to = end - 1 + last.run;
                while to < sectors {
                    let place = geometry.place(to);
                    if place.cylinder != last.cylinder {
                        break;
                    }
                    to += place.run;
                }
                to
            }
            ReadAhead::Sectors(count) => end + count,
            ReadAhead::TrackThenNext => {
                let next = geometry.place(end.min(sectors - 1));
                let (first, after) = (end - next.before.min(end), end + next.run);
                if start < first { after + u64::from(next.sectors_per_track) } else { after }
            }
        };
        limit.min(sectors)
    }

    /// Whether the buffer has all of a read.
    pub(super) fn holds_all(&self, request: &Request) -> bool {
        self.buffer
            .find(request.sector)
            .is_some_and(|id| self.usable(id) && self.buffer.segment(id).end >= request.end())
    }

    fn usable(&self, id: SegmentId) -> bool {
        self.parameters.hits_on_writes || self.buffer.segment(id).dirty == 0
    }

    /// Whether a sector is the one that is being read ahead, and the drive goes on with it.
    fn joins(&self, sector: u64) -> bool {
        let reached = self.stream.segment.map(|segment| self.buffer.segment(segment).end);
        self.parameters.joins_stream && sector < self.stream.limit && reached == Some(sector)
    }

    /// Serves a read.
    pub(super) fn read(&mut self, command: &Pending, at: f64) {
        self.sync(at);
        let request = command.request;
        let found = self.buffer.find(request.sector).filter(|id| self.usable(*id));
        let found = found.or_else(|| self.stream.segment.filter(|_| self.joins(request.sector)));
        let Some(segment) = found else { return self.read_missed(command, at) };
        self.buffer.touch(segment);
        let parts = self.commanded(command, at, self.parameters.overheads.read_hit);
        let from = command.accepted.get() as f64 + parts.queue + parts.overhead;
        let is_streaming = self.stream.segment == Some(segment) && matches!(self.work, Work::Free);
        let held = self.buffer.segment(segment).end;
        if held >= request.end() {
            self.deliver(command, from, parts, Hit::Whole, f64::from(request.sectors));
            if matches!(self.work, Work::Free) {
                self.after_hit(segment, is_streaming, request.end(), at);
            }
        } else if is_streaming {
            let limit = self.limit(self.buffer.segment(segment).start, request.end());
            self.extend(limit.max(request.end()), at);
            self.deliver_stream(command, segment, from, parts, limit);
        } else {
            self.stop_reading_ahead(at);
            self.read_rest(command, segment, at, parts);
        }
    }

    /// What reading ahead does after the buffer had all of a read.
    fn after_hit(&mut self, segment: SegmentId, is_streaming: bool, end: u64, at: f64) {
        let limit = self.limit(self.buffer.segment(segment).start, end);
        if is_streaming {
            self.extend(limit, at);
        } else {
            self.stop_reading_ahead(at);
            if self.parameters.read_ahead_after_hit {
                self.read_ahead(segment, limit, at);
            }
        }
    }

    /// Completes a command whose data are in the buffer.
    pub(super) fn deliver(&mut self, command: &Pending, from: f64, mut parts: Parts, hit: Hit, sectors: f64) {
        parts.queue += (self.wire_free - from).max(0.0);
        let end = from.max(self.wire_free) + sectors * self.parameters.sector_transfer * 1e6;
        self.wire_free = end;
        let after = match command.request.op {
            Op::Read => self.parameters.overheads.read_completion,
            _ => self.parameters.overheads.write_completion,
        };
        self.finish(command, end + after * 1e6, hit, parts);
    }

    /// Completes a read of which the end streams past while the drive reads ahead.
    fn deliver_stream(&mut self, command: &Pending, segment: SegmentId, from: f64, parts: Parts, limit: u64) {
        let (request, each) = (command.request, self.parameters.sector_transfer * 1e6);
        let mut out = from.max(self.wire_free);
        let buffered = self.stream.from.clamp(request.sector, request.end()) - request.sector;
        out += buffered as f64 * each;
        let mut media_end = from;
        self.stream_until(f64::INFINITY);
        for run in self.stream.runs.iter().filter(|run| run.sector < request.end()) {
            let wanted = run.sectors.min(request.end() - run.sector);
            let skipped = request.sector.saturating_sub(run.sector).min(wanted);
            let last = if wanted == run.sectors { run.end } else { run.begin + wanted as f64 * run.pace };
            out = (out + (wanted - skipped) as f64 * each).max(last + each);
            media_end = last;
        }
        self.wire_free = out;
        let completion = self.parameters.overheads.read_completion * 1e6;
        self.finish(command, out + completion, Hit::Partial, parts);
        // Until the last wanted sector is read the moving parts are this command's.
        let start = self.buffer.segment(segment).start;
        self.arm = self.arm_at(media_end);
        self.buffer.set(segment, start, request.end());
        self.stream.clear();
        self.work = Work::Busy { until: media_end, then: Then::ReadAhead(segment, limit) };
    }

    /// Reads from the medium what a segment does not have.
    fn read_rest(&mut self, command: &Pending, segment: SegmentId, at: f64, parts: Parts) {
        let request = command.request;
        let held = self.buffer.segment(segment).end;
        let sent = (held - request.sector) as f64 * self.parameters.sector_transfer * 1e6;
        let from = command.accepted.get() as f64 + parts.queue + parts.overhead;
        self.wire_free = self.wire_free.max(from) + sent;
        let start = self.buffer.segment(segment).start;
        self.reach_medium(command, (held, request.end()), (Some(segment), start), at, parts, Hit::Partial);
    }

    /// Serves a read of which the buffer has nothing.
    fn read_missed(&mut self, command: &Pending, at: f64) {
        self.stop_reading_ahead(at);
        let request = command.request;
        if self.writes_first(request.sector, request.end(), at) {
            self.pending.insert(0, *command);
            return;
        }
        let parts = self.commanded(command, at, self.parameters.overheads.read_miss);
        let segment = self.buffer.take(request.sector);
        self.reach_medium(
            command,
            (request.sector, request.end()),
            (segment, request.sector),
            at,
            parts,
            Hit::Miss,
        );
    }

    /// Reads a run from the medium, delivers the command's data as they come, and reads ahead after it.
    fn reach_medium(
        &mut self,
        command: &Pending,
        (first, end): (u64, u64),
        (segment, start): (Option<SegmentId>, u64),
        at: f64,
        mut parts: Parts,
        hit: Hit,
    ) {
        let understood = command.accepted.get() as f64 + parts.queue + parts.overhead;
        let begin = understood.max(at) + self.retries();
        let wanted = Wanted {
            sector: first,
            sectors: end - first,
            write: false,
            zero_latency: self.parameters.zero_latency_read,
            ready: begin,
        };
        self.runs.clear();
        let access = self.mechanism.access(self.arm, begin, &wanted, &mut self.runs);
        parts.seek = access.seek;
        parts.rotation = access.rotation + (begin - understood.max(at));
        let each = self.parameters.sector_transfer * 1e6;
        let delivered =
            |free: f64| self.runs.iter().fold(free, |free, run| run.delivered(free, each, run.sectors));
        let out = delivered(self.wire_free);
        // Data of other requests were on the wire.
        parts.queue += out - delivered(0.0);
        self.wire_free = out;
        self.arm = access.arm;
        let then = match segment {
            Some(id) => {
                let start = start - self.read_while_waiting(start);
                self.buffer.set(id, start, end);
                Then::ReadAhead(id, self.limit(start, end))
            }
            None => Then::Nothing,
        };
        self.work = Work::Busy { until: access.end, then };
        self.finish(command, out + self.parameters.overheads.read_completion * 1e6, hit, parts);
    }

    /// Sectors before a wanted one that were read while it had not come.
    fn read_while_waiting(&self, sector: u64) -> u64 {
        let Some(run) = self.runs.first().filter(|run| run.sector == sector) else { return 0 };
        if !self.parameters.reads_while_waiting || run.missed > 0 {
            return 0;
        }
        let passed = ((run.begin - run.arrived) / run.pace) as u64;
        passed.min(self.mechanism.geometry.place(sector).before)
    }
}
