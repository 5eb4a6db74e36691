//! Where the time of a wait for a disk went, piece by piece.
//!
//! While a request waits, the disk is at one of those it has: the one that it is done with next. That is so for a device that does one
//! at a time; of one that does several side by side it names the one whose completion came next. Where a trace does not
//! say how a device spent its time, a request's service begins when the device was done with the one before.

use surety_units::Nanos;

use super::{Awaited, Disk, DiskCause, Disks, RuleId, Submitter};
use crate::blame::Cause;

/// Requests in the device that are looked at for one instant.
const LOOKED_AT: usize = 1024;

impl Disks {
    /// Walks a sleep that this request ended: every instant of it once, in order.
    pub(in crate::blame) fn walk(
        &self,
        awaited: &Awaited,
        (from, until): (Nanos, Nanos),
        mut step: impl FnMut(Nanos, Nanos, Cause),
    ) {
        let Awaited { queued, scheduled, issued, completed, parts, rule, serial, .. } = *awaited;
        let disk = &self.disks[awaited.disk];
        let mut cursor = from;
        let mut tell = |to: Nanos, cause: Cause| {
            let to = to.clamp(cursor, until);
            if cursor < to {
                step(cursor, to, cause);
            }
            cursor = to;
            to
        };
        tell(queued, Cause::Blocked);
        let began = tell(scheduled.unwrap_or(issued), Cause::Disk(DiskCause::Unscheduled));
        disk.occupied((began, issued.min(until)), serial, |to, at| {
            let cause = match at {
                Some((by, rule)) => DiskCause::Scheduler(by, rule),
                None => DiskCause::Held(rule),
            };
            tell(to, Cause::Disk(cause));
        });
        let began = tell(issued, Cause::Disk(DiskCause::Held(rule)));
        let behind = match parts {
            Some([queue, ..]) => issued.saturating_add(queue),
            None => disk.last_before(issued, completed, serial),
        };
        disk.occupied((began, behind.min(completed).min(until)), serial, |to, at| {
            tell(to, Cause::Disk(DiskCause::Device(at.map_or(Submitter::default(), |(by, _)| by))));
        });
        let mut end = behind;
        let own = [DiskCause::Overhead, DiskCause::Seek, DiskCause::Rotation, DiskCause::Transfer];
        for (part, cause) in parts.iter().flat_map(|parts| parts.iter().skip(1)).zip(own) {
            end = end.saturating_add(*part);
            tell(end.min(completed), Cause::Disk(cause));
        }
        tell(completed, Cause::Disk(DiskCause::Service));
        tell(until, Cause::Disk(DiskCause::Completed));
    }
}

impl Disk {
    /// The last completion of another request between two instants, or the first of them.
    fn last_before(&self, from: Nanos, until: Nanos, serial: u64) -> Nanos {
        let behind = self.done.partition_point(|done| done.completed <= until);
        let others = self.done.range(..behind).rev().find(|done| done.serial != serial);
        others.map_or(from, |done| done.completed.max(from))
    }

    /// Walks a stretch of time: up to each instant whose request the device was at, not that of `serial`, and the rule it was
    /// dispatched by; `None`: it had no other.
    fn occupied(
        &self,
        (mut from, until): (Nanos, Nanos),
        serial: u64,
        mut step: impl FnMut(Nanos, Option<(Submitter, RuleId)>),
    ) {
        let mut first = self.done.partition_point(|done| done.completed <= from);
        while from < until {
            while self.done.get(first).is_some_and(|done| done.completed <= from) {
                first += 1;
            }
            let (to, at) = self.occupant(first, from, until, serial);
            step(to, at);
            from = to;
        }
    }

    /// Who has the device at an instant, and until when that is so; the completions from `first` on are later.
    fn occupant(
        &self,
        first: usize,
        now: Nanos,
        until: Nanos,
        serial: u64,
    ) -> (Nanos, Option<(Submitter, RuleId)>) {
        let mut changes = until;
        for done in self.done.range(first.min(self.done.len())..).take(LOOKED_AT) {
            if done.serial == serial {
                continue;
            }
            if done.issued <= now {
                return (changes.min(done.completed), Some((done.by, done.rule)));
            }
            // From then on the device is at that one.
            changes = changes.min(done.issued);
        }
        let open = self.flying.values().filter(|flying| flying.serial != serial);
        let oldest = open.clone().filter(|flying| flying.issued <= now).min_by_key(|flying| flying.serial);
        if let Some(flying) = oldest {
            let by = flying.bios.first().map_or(Submitter::default(), |(_, bio)| bio.by);
            return (changes, Some((by, RuleId(0))));
        }
        let next = open.map(|flying| flying.issued).filter(|issued| *issued > now).min();
        (next.map_or(changes, |next| changes.min(next)), None)
    }
}
