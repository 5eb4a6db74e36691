//! The longest that a hard disk takes.
//!
//! ```text
//! fixed    overhead + retries + longest movement + revolution + a change of tracks + completion
//! sector   pace + changes of tracks / sectors of a track      (+ interface, where that is slower than the medium)
//! ```
//!
//! An access over `n` sectors changes tracks at most `n / sectors_per_track + 1` times. A change takes its skew, where the switch of heads or
//! the step of the arm fits in it, else whole revolutions more; where sectors are skipped or spared that is not computed, and each change
//! counts as one that just missed.
//!
//! A write that the buffer takes is complete when it is there: `overhead + sectors * interface`. What the buffer holds goes to the medium on
//! the drive's own account, a write at a time.
//!
//! **A drive that takes one command at a time and answers none while its arm is busy holds one write at most.** A write is served when the arm is
//! free, and no other command is inside then, so that the drive begins at that instant to put it on the medium, and the arm is busy until it
//! is there: a write that is served finds the buffer empty. So before a command there is one write of its own at most, also before a flush.

use super::{Asked, Cost, Held, Worst};
use crate::hdd::geometry::{Geometry, Zone};
use crate::hdd::{Parameters, ReadAhead, WriteBack};
use crate::model::SECTOR;

pub(super) fn worst(parameters: &Parameters, asked: &Asked) -> Worst {
    let arm = Arm::over(parameters, asked);
    let revolution = parameters.revolution * 1e6;
    let retries = parameters.retries.map_or(0.0, |retries| f64::from(retries.most_revolutions) * revolution);
    let wire = parameters.sector_transfer * 1e6;
    let (change, sector) = data(parameters, asked);
    // With zero-latency access, and where data come over the interface, up to one sector more at either end.
    let ends = 2.0 * (sector + wire);
    let medium = |settle: f64| arm.longest + settle + retries + revolution + change + ends;
    let overheads = &parameters.overheads;
    let most = |of: [f64; 2]| of[0].max(of[1]) * 1e6;
    let command = most(overheads.read_hit).max(most(overheads.read_miss));
    let read = command + medium(0.0) + overheads.read_completion * 1e6;
    let settle = parameters.write_settle.max(0.0) * 1e6;
    let each = Cost::new(medium(settle), sector);
    let flush = Cost::new(most(overheads.write), 0.0).fixed;
    let write = most(overheads.write) + overheads.write_completion * 1e6;
    let write = if is_reported(parameters, asked) {
        Cost::new(write, wire)
    } else {
        Cost::new(write + medium(settle), sector)
    };
    Worst { read: Cost::new(read, sector), write, flush, held: held(parameters, asked, each) }
}

/// Whether every write is complete when the buffer has it: one for which there is no room lets others by until there is.
fn is_reported(parameters: &Parameters, asked: &Asked) -> bool {
    let fits = |limit: WriteBack| u64::from(asked.longest) <= limit.sectors;
    parameters.write_back.is_some_and(fits) && asked.writes.is_some_and(|writes| !writes.through)
}

/// What the drive holds, each write on the medium by itself.
fn held(parameters: &Parameters, asked: &Asked, each: Cost) -> Held {
    let (Some(limit), Some(writes)) = (parameters.write_back, asked.writes) else { return Held::default() };
    let (longest, bytes) = (u64::from(asked.longest) * SECTOR, limit.sectors * SECTOR);
    if parameters.depth == 1 && !parameters.answers_while_busy {
        return Held { most: 1, per_request: 1, per_write: 0, flushes: false, each, longest, bytes };
    }
    let most = (limit.sectors / u64::from(writes.shortest.max(1))).max(1);
    let per_write = if writes.overlap { most } else { for_room(limit, most, asked.longest, writes.shortest) };
    Held { most, per_request: 2, per_write, flushes: writes.flushes, each, longest, bytes }
}

/// Writes that have to go to the medium before there is room for one more, of `most` that are held.
fn for_room(limit: WriteBack, most: u64, longest: u32, shortest: u32) -> u64 {
    let of_sectors = u64::from(longest).div_ceil(u64::from(shortest.max(1)));
    let of_runs = (most + 1).saturating_sub(limit.runs as u64);
    of_sectors.max(of_runs).min(most)
}

/// What the arm does between requests of a range.
struct Arm {
    /// Nanoseconds of the longest movement, or switch of heads.
    longest: f64,
}

impl Arm {
    fn over(parameters: &Parameters, asked: &Asked) -> Arm {
        let geometry = &parameters.geometry;
        let last = (asked.range.end - 1 + ahead(parameters)).min(geometry.sectors() - 1);
        let span = geometry.place(last).cylinder - geometry.place(asked.range.start).cylinder;
        // A measured curve need not rise.
        let seek = parameters.seek.longest_within(span);
        Arm { longest: seek.max(parameters.head_switch) * 1e6 }
    }
}

/// Sectors that the drive reads on behind a request, at most.
fn ahead(parameters: &Parameters) -> u64 {
    let geometry = &parameters.geometry;
    let track = geometry.zones().map(|(zone, ..)| u64::from(zone.sectors_per_track)).max().unwrap_or(0);
    match parameters.read_ahead {
        ReadAhead::None => 0,
        ReadAhead::Track => track,
        ReadAhead::Cylinder => track * u64::from(geometry.heads()),
        ReadAhead::Sectors(count) => count,
        ReadAhead::TrackThenNext => 2 * track,
    }
}

/// Nanoseconds of the change of tracks that an access may begin with, and of each sector with its share of them, in the slowest zone.
fn data(parameters: &Parameters, asked: &Asked) -> (f64, f64) {
    let geometry = &parameters.geometry;
    let is_in = |first: u64, sectors: u64| first < asked.range.end && asked.range.start < first + sectors;
    let zones: Vec<&Zone> = geometry
        .zones()
        .filter(|(_, first, sectors)| is_in(*first, *sectors))
        .map(|(zone, ..)| zone)
        .collect();
    let revolution = parameters.revolution * 1e6;
    let (mut change, mut sector) = (0.0_f64, 0.0_f64);
    for zone in &zones {
        let spt = f64::from(zone.sectors_per_track);
        let pace = revolution / spt;
        let (head, step) = changes(parameters, geometry, zone);
        let more = (step - head).max(0.0);
        let each = pace + head / spt + more / (spt * f64::from(geometry.heads()));
        // Sectors that are skipped pass, too.
        let skipped = zone.slips.len().min(asked.longest as usize) as f64 * pace;
        change = change.max(head + more + skipped);
        sector = sector.max(each);
    }
    if zones.len() > 1 {
        // An access that goes on in the next zone finds its first sector where it may be.
        let gap =
            zones.windows(2).map(|pair| pair[1].first_cylinder - pair[0].last_cylinder).max().unwrap_or(1);
        change += parameters.seek.longest_within(gap).max(parameters.head_switch) * 1e6 + revolution;
    }
    let wire = parameters.sector_transfer * 1e6;
    (change, if wire > sector { sector + wire } else { sector })
}

/// Nanoseconds from the end of a track to the beginning of the next, of the same cylinder and of the next one.
fn changes(parameters: &Parameters, geometry: &Geometry, zone: &Zone) -> (f64, f64) {
    let revolution = parameters.revolution * 1e6;
    let pace = revolution / f64::from(zone.sectors_per_track);
    let settle = parameters.write_settle.max(0.0) * 1e6;
    let missed = !geometry.is_plain() || !zone.slips.is_empty();
    let after = |movement: f64, skew: f64| {
        let movement = movement * 1e6 + if movement > 0.0 { settle } else { 0.0 };
        let lead = skew * pace % revolution;
        match movement {
            movement if missed => movement + revolution,
            movement if movement <= lead => lead,
            movement => lead + libm::ceil((movement - lead) / revolution) * revolution,
        }
    };
    let head = if geometry.heads() > 1 { after(parameters.head_switch, zone.track_skew) } else { 0.0 };
    let step = parameters.seek.longest_within(1).max(parameters.head_switch);
    (head, after(step, zone.cylinder_skew))
}
