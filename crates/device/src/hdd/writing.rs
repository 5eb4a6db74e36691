//! Writes: reported when the buffer has them, or when the medium has.

use super::mechanism::Wanted;
use super::{Dirty, Hdd, Pending, Then, Work};
use crate::model::{Hit, Parts, Request};

/// Of the runs that wait to be written, so many of the oldest are looked at.
const LOOKED_AT: usize = 32;

impl Hdd {
    /// Whether a write would be complete as soon as the buffer has it.
    pub(super) fn is_reported_at_once(&self, request: &Request) -> bool {
        let Some(limit) = self.parameters.write_back else { return false };
        !request.through && u64::from(request.sectors) <= limit.sectors && self.admits(request)
    }

    /// Whether a write can be begun: the buffer has room for it, or it goes to the medium at once.
    pub(super) fn admits(&self, request: &Request) -> bool {
        let Some(limit) = self.parameters.write_back else { return true };
        let sectors = u64::from(request.sectors);
        if self.dirty.is_empty() {
            return true;
        }
        let goes_on = limit.combines && self.dirty.last().is_some_and(|last| last.end == request.sector);
        let is_clash =
            self.dirty.iter().any(|dirty| dirty.start < request.end() && request.sector < dirty.end);
        let is_room = self.dirty_sectors + sectors <= limit.sectors;
        !is_clash && is_room && (goes_on || self.dirty.len() < limit.runs || self.runs_held() < limit.runs)
    }

    /// Runs of adjacent sectors that the buffer holds.
    fn runs_held(&self) -> usize {
        self.dirty.windows(2).filter(|pair| pair[0].end != pair[1].start).count() + 1
    }

    /// Serves a write.
    pub(super) fn write(&mut self, command: &Pending, at: f64) {
        let is_free = matches!(self.work, Work::Free);
        if is_free {
            self.stop_reading_ahead(at);
        }
        let request = command.request;
        let parts = self.commanded(command, at, self.parameters.overheads.write);
        let known = command.accepted.get() as f64 + parts.queue + parts.overhead;
        let arrived =
            known.max(self.wire_free) + f64::from(request.sectors) * self.parameters.sector_transfer * 1e6;
        let dirty = Dirty { start: request.sector, end: request.end(), known, arrived, segment: None };
        if !self.is_reported_at_once(&request) {
            if self.writes_first(request.sector, request.end(), at) {
                self.pending.insert(0, *command);
                return;
            }
            self.keep(&dirty);
            return self.write_through(command, &dirty, parts);
        }
        let segment = self.keep(&dirty);
        if let Some(id) = segment {
            self.buffer.mark(id, true);
        }
        self.dirty.push(Dirty { segment, ..dirty });
        self.dirty_sectors += dirty.end - dirty.start;
        self.deliver(command, known, parts, Hit::Whole, f64::from(request.sectors));
    }

    /// Puts written sectors in the buffer, and takes away what they make stale.
    fn keep(&mut self, dirty: &Dirty) -> Option<usize> {
        let appendable = self.buffer.find_appendable(dirty.start);
        let segment = appendable
            .or_else(|| self.buffer.take_stale(dirty.start, dirty.end))
            .or_else(|| self.buffer.take(dirty.start))?;
        let start = self.buffer.segment(segment).start;
        self.buffer.touch(segment);
        self.buffer.set(segment, start, dirty.end);
        self.buffer.forget(dirty.start, dirty.end, Some(segment));
        Some(segment)
    }

    /// Writes to the medium at once; the command is complete when it is there.
    fn write_through(&mut self, command: &Pending, dirty: &Dirty, mut parts: Parts) {
        let (seek, rotation, end) = self.put_on_medium(dirty, dirty.known);
        (parts.seek, parts.rotation) = (seek, rotation);
        self.wire_free = dirty.arrived;
        self.work = Work::Busy { until: end, then: Then::Nothing };
        let completed = end.max(dirty.arrived) + self.parameters.overheads.write_completion * 1e6;
        self.finish(command, completed, Hit::Miss, parts);
    }

    /// Moves the arm and writes; the medium begins when the data come in time.
    fn put_on_medium(&mut self, dirty: &Dirty, at: f64) -> (f64, f64, f64) {
        let sectors = dirty.end - dirty.start;
        let place = self.mechanism.geometry.place(dirty.start);
        let pace = self.mechanism.revolution / f64::from(place.sectors_per_track);
        let each = self.parameters.sector_transfer * 1e6;
        let lead = (sectors - 1) as f64 * pace.min(each.max(pace));
        let ready = (dirty.arrived - lead).max(dirty.known);
        let begin = at.max(dirty.known) + self.retries();
        let wanted = Wanted {
            sector: dirty.start,
            sectors,
            write: true,
            zero_latency: self.parameters.zero_latency_write && dirty.arrived <= begin,
            ready,
        };
        self.runs.clear();
        let access = self.mechanism.access(self.arm, begin, &wanted, &mut self.runs);
        self.arm = access.arm;
        (access.seek, access.rotation + (begin - at.max(dirty.known)), access.end)
    }

    /// Begins to write one of the runs the buffer holds: the one that goes on, else the one under the head soonest.
    pub(super) fn write_back(&mut self, at: f64) {
        self.stop_reading_ahead(at);
        let looked = self.dirty.len().min(LOOKED_AT);
        let arm = self.arm;
        let positioning = |place: usize| {
            let dirty = &self.dirty[place];
            let from = at.max(dirty.known);
            from - at + self.mechanism.positioning(arm, from, dirty.start, true)
        };
        let chosen = (0..looked)
            .map(|place| (positioning(place), place))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
            .map_or(0, |(_, place)| place);
        self.write_run(chosen, at);
    }

    /// Begins to write one run.
    fn write_run(&mut self, chosen: usize, at: f64) {
        self.dirty[..=chosen].rotate_right(1);
        let dirty = self.dirty[0];
        let (_, _, end) = self.put_on_medium(&dirty, at);
        self.work = Work::Busy { until: end, then: Then::Written };
    }

    /// Writes a run first that overlaps what is wanted of the medium; says whether there was one.
    pub(super) fn writes_first(&mut self, start: u64, end: u64, at: f64) -> bool {
        let clash = self.dirty.iter().position(|dirty| dirty.start < end && start < dirty.end);
        if let Some(place) = clash {
            self.write_run(place, at);
        }
        clash.is_some()
    }

    /// Notes that the run under way is on the medium.
    pub(super) fn written(&mut self) {
        let dirty = self.dirty.remove(0);
        self.dirty_sectors -= dirty.end - dirty.start;
        if let Some(segment) = dirty.segment {
            self.buffer.mark(segment, false);
        }
    }
}
