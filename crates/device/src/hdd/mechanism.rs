//! [`Mechanism`]: arm, heads and platters; how long an access takes from where they are.
//!
//! The platters turn evenly: at instant t the track is at `frac(t / revolution)`. An access moves the arm (seek curve, or the
//! switch of heads when that is longer; a write settles in addition), waits for the sector, and goes on track by track. With
//! zero-latency access a head that comes down inside the wanted sectors reads on from there and takes the missed ones at the
//! end of the revolution.
//!
//! Times are fractions of nanoseconds: a sector of a fast drive takes 5000 of them, and a revolution is seldom a whole number.

use super::geometry::{Geometry, Place, floor};
use super::seek::SeekCurve;

/// Where the arm is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arm {
    pub cylinder: u32,
    pub head: u32,
}

/// A part of an access on one track.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub sector: u64,
    pub sectors: u64,
    /// When the arm was there.
    pub arrived: f64,
    /// When its first sector began to pass, had it been read from there on.
    pub begin: f64,
    pub end: f64,
    /// Nanoseconds of a sector.
    pub pace: f64,
    /// Sectors that were missed at first and came at the end; 0: read in order.
    pub missed: u64,
    pub arm: Arm,
}

impl Run {
    /// Sectors in order that have been read by an instant.
    pub fn read_by(&self, now: f64) -> u64 {
        match now {
            now if now >= self.end => self.sectors,
            now if now <= self.begin || self.missed > 0 => 0,
            now => (((now - self.begin) / self.pace) as u64).min(self.sectors),
        }
    }

    /// When the first `sectors` of it have passed over an interface that is free from an instant on and takes `each` for a sector.
    pub fn delivered(&self, free: f64, each: f64, sectors: u64) -> f64 {
        let (n, first) = (sectors as f64, self.begin + self.pace);
        let streamed = free.max(first) + n * each;
        if self.missed == 0 {
            let last = if sectors == self.sectors { self.end } else { self.begin + n * self.pace };
            streamed.max(last + each)
        } else {
            let after = sectors.saturating_sub(self.missed) + 1;
            streamed.max(self.end + after as f64 * each)
        }
    }
}

/// What the parts of an access took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Access {
    pub seek: f64,
    pub rotation: f64,
    pub end: f64,
    pub arm: Arm,
}

/// What is wanted of the medium.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub sector: u64,
    pub sectors: u64,
    pub write: bool,
    /// Read or write from where the head comes down.
    pub zero_latency: bool,
    /// The medium begins no earlier: data to write are not there before.
    pub ready: f64,
}

/// The moving parts.
#[derive(Clone, Debug)]
pub struct Mechanism {
    pub geometry: Geometry,
    pub seek: SeekCurve,
    /// Milliseconds.
    pub head_switch: f64,
    /// Milliseconds that a write takes longer after a movement; may be negative.
    pub write_settle: f64,
    /// Nanoseconds.
    pub revolution: f64,
}

/// What is below this many sectors is rounding, not a rotation.
const GRAZE: f64 = 1e-4;

impl Mechanism {
    /// Nanoseconds from one place of the arm to another.
    pub fn movement(&self, from: Arm, to: Arm, write: bool) -> f64 {
        let switch = if from.head == to.head { 0.0 } else { self.head_switch };
        let time = self.seek.time(from.cylinder.abs_diff(to.cylinder)).max(switch);
        let settle = if write && time > 0.0 { self.write_settle } else { 0.0 };
        (time + settle).max(0.0) * 1e6
    }

    /// Sectors that pass between an instant and the sector at a place.
    fn ahead(&self, place: &Place, at: f64) -> f64 {
        let (turns, spt) = (at / self.revolution, f64::from(place.sectors_per_track));
        let now = (turns - floor(turns)) * spt;
        let ahead = if place.angle >= now { place.angle - now } else { place.angle - now + spt };
        if spt - ahead < GRAZE { 0.0 } else { ahead }
    }

    /// Makes an access from a place of the arm and an instant; its parts on each track are appended to `runs`.
    pub fn access(&self, from: Arm, at: f64, wanted: &Wanted, runs: &mut Vec<Run>) -> Access {
        let mut access = Access { end: at, arm: from, ..Access::default() };
        let (mut sector, mut left) = (wanted.sector, wanted.sectors);
        while left > 0 {
            let place = self.geometry.place(sector);
            let run = self.on_track((access.arm, access.end), &place, sector, left, wanted);
            access.seek += run.arrived - access.end;
            let moving = run.sectors as f64 * run.pace;
            access.rotation += (run.end - run.arrived - moving).max(0.0);
            (access.end, access.arm) = (run.end, run.arm);
            sector += run.sectors;
            left -= run.sectors;
            runs.push(run);
        }
        access
    }

    /// Reads on in order from a place of the arm and an instant: the part on the first track of `sectors` sectors.
    pub fn read_on(&self, from: Arm, at: f64, sector: u64, sectors: u64) -> Run {
        let wanted = Wanted { sector, sectors, write: false, zero_latency: false, ready: at };
        self.on_track((from, at), &self.geometry.place(sector), sector, sectors, &wanted)
    }

    /// The part of an access on the track of a place.
    fn on_track(
        &self,
        (from, at): (Arm, f64),
        place: &Place,
        sector: u64,
        left: u64,
        wanted: &Wanted,
    ) -> Run {
        let arm = Arm { cylinder: place.cylinder, head: place.head };
        let arrived = at + self.movement(from, arm, wanted.write);
        let from = if sector == wanted.sector { arrived.max(wanted.ready) } else { arrived };
        let pace = self.revolution / f64::from(place.sectors_per_track);
        let sectors = left.min(place.run);
        let span = if sectors == place.run { place.span } else { sectors };
        let ahead = self.ahead(place, from);
        let passed = f64::from(place.sectors_per_track) - ahead;
        let mut run =
            Run { sector, sectors, arrived, begin: from + ahead * pace, end: 0.0, pace, missed: 0, arm };
        run.end = run.begin + span as f64 * pace;
        if wanted.zero_latency && passed < sectors as f64 {
            run.missed = (libm::ceil(passed) as u64).clamp(1, sectors);
            run.end = run.begin + run.missed as f64 * pace;
        }
        run
    }

    /// Nanoseconds until the first sector of a request would be under the head.
    pub fn positioning(&self, from: Arm, at: f64, sector: u64, write: bool) -> f64 {
        let place = self.geometry.place(sector);
        let moved = self.movement(from, Arm { cylinder: place.cylinder, head: place.head }, write);
        let pace = self.revolution / f64::from(place.sectors_per_track);
        moved + self.ahead(&place, at + moved) * pace
    }
}
