//! Where the time of a wait for a disk went, piece by piece.
//!
//! While a request waits, the disk is at one of those it has: the one that it is done with next. That is so for a device that does one
//! at a time; of one that does several side by side it names the one whose completion came next. Where a trace does not
//! say how a device spent its time, a request's service begins when the device was done with the one before.

use surety_model::event::Comm;
use surety_units::Nanos;

use super::{Awaited, Disk, DiskCause, Disks, RuleId, Submitter, Way};
use crate::blame::Cause;

/// Requests in the device that are looked at for one instant.
pub(super) const LOOKED_AT: usize = 1024;
/// No request has this number.
const NONE: u64 = 0;

/// Tells a sleep piece by piece: every instant of it once, in order.
struct Teller<F> {
    cursor: Nanos,
    until: Nanos,
    step: F,
}

impl<F: FnMut(Nanos, Nanos, Cause)> Teller<F> {
    /// It was this up to an instant, as far as that is not told yet.
    fn tell(&mut self, to: Nanos, cause: DiskCause) {
        self.tell_of(to, Cause::Disk(cause));
    }

    fn tell_of(&mut self, to: Nanos, cause: Cause) {
        let to = to.clamp(self.cursor, self.until);
        if self.cursor < to {
            (self.step)(self.cursor, to, cause);
        }
        self.cursor = to;
    }

    /// The same up to an instant, piece by piece by whose request the disk is at, beside the one of `serial`.
    fn tell_occupied(
        &mut self,
        (disk, serial): (&Disk, u64),
        to: Nanos,
        cause: impl Fn(Option<(Submitter, RuleId)>) -> DiskCause,
    ) {
        disk.occupied((self.cursor, to.min(self.until)), serial, |to, at| self.tell(to, cause(at)));
    }
}

impl Disks {
    /// Walks a sleep that ended so: every instant of it once, in order.
    pub(in crate::blame) fn walk(
        &self,
        awaited: &Awaited,
        (from, until): (Nanos, Nanos),
        step: impl FnMut(Nanos, Nanos, Cause),
    ) {
        let mut teller = Teller { cursor: from, until, step };
        let (way, host) = match awaited {
            Awaited::Free { disk, queued } => {
                teller.tell_of(*queued, Cause::Blocked);
                return teller.tell_occupied((&self.disks[*disk], NONE), until, without_request);
            }
            Awaited::Bio(way) => (way, None),
            Awaited::OfGuest(ways) => (&ways[0], Some(&ways[1])),
        };
        match way.by.comm == Comm::default() {
            true => teller.tell_of(way.queued, Cause::Blocked),
            false => teller.tell(way.queued, DiskCause::Unsubmitted(way.by)),
        }
        self.walk_queue(way, &mut teller);
        if let Some(host) = host {
            self.walk_queue(host, &mut teller);
        }
        self.walk_device(host.unwrap_or(way), &mut teller);
        teller.tell(way.completed, DiskCause::Service);
        teller.tell(until, DiskCause::Completed);
    }

    /// From queueing the bio until the device has its request.
    fn walk_queue(&self, way: &Way, teller: &mut Teller<impl FnMut(Nanos, Nanos, Cause)>) {
        let Way { made, scheduled, issued, rule, serial, .. } = *way;
        let disk = &self.disks[way.disk];
        let scheduled = scheduled.unwrap_or(issued);
        if let Some(made) = made {
            teller.tell_occupied((disk, serial), made.min(scheduled), without_request);
        }
        teller.tell(scheduled, DiskCause::Unscheduled(None));
        teller.tell_occupied((disk, serial), issued, |at| match at {
            Some((by, rule)) => DiskCause::Scheduler(by, rule),
            None => DiskCause::Held(rule),
        });
        teller.tell(issued, DiskCause::Held(rule));
    }

    /// From there until the device is done with it.
    fn walk_device(&self, way: &Way, teller: &mut Teller<impl FnMut(Nanos, Nanos, Cause)>) {
        let Way { issued, completed, parts, serial, .. } = *way;
        let disk = &self.disks[way.disk];
        let behind = match parts {
            Some([queue, ..]) => issued.saturating_add(queue),
            None => disk.last_before(issued, completed, serial),
        };
        teller.tell_occupied((disk, serial), behind.min(completed), |at| {
            DiskCause::Device(at.map_or(Submitter::default(), |(by, _)| by))
        });
        let mut end = behind;
        let own = [DiskCause::Overhead, DiskCause::Seek, DiskCause::Rotation, DiskCause::Transfer];
        for (part, cause) in parts.iter().flat_map(|parts| parts.iter().skip(1)).zip(own) {
            end = end.saturating_add(*part);
            teller.tell(end.min(completed), cause);
        }
        teller.tell(completed, DiskCause::Service);
    }
}

/// There is no request for a bio, and the disk is at that one's.
fn without_request(at: Option<(Submitter, RuleId)>) -> DiskCause {
    DiskCause::Unscheduled(at.map(|(by, _)| by))
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
