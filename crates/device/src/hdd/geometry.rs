//! [`Geometry`]: where on the platters a sector is.
//!
//! A zone has cylinders of equal tracks. Its sectors are counted physically from its first track on, spare and skipped ones
//! included; logical sectors are laid over them in *regions* (a track, a cylinder, some cylinders, the zone) at whose ends the
//! spare sectors are, and skip (*slip*) the defective ones. The angle of a physical sector follows from the skews: each switch
//! of heads and each step of cylinders moves the first sector on, so that a sequential transfer just makes it.
//!
//! The rules of layout, sparing and skew are those of DiskSim's `dm_layout_g1` (disk model library 1.0), with which the drives
//! of its validation were described.

mod divisor;

use std::ops::Range;

use divisor::Divisor;

/// Recording surfaces of a disk at most.
pub const HEADS_MAX: u32 = 255;
/// Cylinders of a disk at most.
pub const CYLINDERS_MAX: u32 = 1 << 24;
/// Sectors of a track at most.
pub const SECTORS_PER_TRACK_MAX: u32 = 1 << 16;
/// Sectors of a disk at most: 1 PiB.
pub const SECTORS_MAX: u64 = 1 << 41;

/// How logical sectors are laid over physical ones in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sparing {
    /// No spares.
    None,
    /// Whole tracks at the end of the zone; slips are numbers of tracks.
    Tracks,
    /// Sectors at the end of each so many tracks; a cylinder has as many as there are heads.
    Sectors {
        /// Tracks in a region; 0: all of the zone's.
        tracks: u32,
        /// A slip moves the angle of the tracks after it.
        moves_skew: bool,
    },
}

/// In which order the heads are used on the cylinders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadOrder {
    /// From the first on each.
    Same,
    /// Turned around on every second cylinder of the zone, so that a step of cylinders needs no other head.
    Alternating,
    /// The same, counted over the whole disk.
    AlternatingOverall,
}

/// A zone: cylinders whose tracks have equally many sectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    pub first_cylinder: u32,
    /// Included.
    pub last_cylinder: u32,
    pub sectors_per_track: u32,
    /// Angle of the first sector, in sectors.
    pub offset: f64,
    /// Skew of a switch of heads, in sectors.
    pub track_skew: f64,
    /// Skew of a step of cylinders, in sectors.
    pub cylinder_skew: f64,
    /// Sectors at the front that hold no logical ones.
    pub reserved: u64,
    /// Spare sectors in a region; with [`Sparing::Tracks`] spare tracks of the zone.
    pub spares: u64,
    /// Physical sectors (or tracks), from the start of the zone, that are skipped; rising.
    pub slips: Vec<u64>,
}

impl Zone {
    /// A zone without reserved, spare or skipped sectors.
    pub fn plain(cylinders: Range<u32>, sectors_per_track: u32, track_skew: f64, cylinder_skew: f64) -> Zone {
        Zone {
            first_cylinder: cylinders.start,
            last_cylinder: cylinders.end - 1,
            sectors_per_track,
            offset: 0.0,
            track_skew,
            cylinder_skew,
            reserved: 0,
            spares: 0,
            slips: Vec::new(),
        }
    }

    /// How many cylinders it has.
    pub fn cylinders(&self) -> u32 {
        self.last_cylinder - self.first_cylinder + 1
    }
}

/// Where a logical sector is, and how many go on from there on the same track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    pub cylinder: u32,
    /// The head, physically.
    pub head: u32,
    /// Its angle, in sectors of its track, from 0 to below `sectors_per_track`.
    pub angle: f64,
    pub sectors_per_track: u32,
    /// Logical sectors from it to the end of its track, itself included.
    pub run: u64,
    /// Physical sectors those take; more, where some are skipped.
    pub span: u64,
    /// Logical sectors before it on its track.
    pub before: u64,
}

/// A zone with what is computed once.
#[derive(Clone, Debug)]
struct Laid {
    zone: Zone,
    /// Its first logical sector.
    first: u64,
    /// Logical sectors of it.
    sectors: u64,
    /// Physical sectors of a track.
    track: Divisor,
    /// Physical sectors of a region.
    region: u64,
    /// Logical sectors of a region.
    usable: Divisor,
    /// What a sector is of a turn.
    turn: f64,
}

impl Laid {
    /// An angle without its whole turns.
    fn on_track(&self, angle: f64) -> f64 {
        let sectors = f64::from(self.zone.sectors_per_track);
        let without = |turns: f64| angle - sectors * turns;
        // Beside a whole turn the product may be rounded to the wrong side.
        let turns = floor(angle * self.turn);
        match without(turns) {
            under if under < 0.0 => without(turns - 1.0),
            over if over >= sectors => without(turns + 1.0),
            within => within,
        }
    }
}

/// The layout of a disk.
#[derive(Clone, Debug)]
pub struct Geometry {
    heads: u32,
    /// Tracks of a cylinder: as many.
    tracks: Divisor,
    cylinders: u32,
    sectors: u64,
    sparing: Sparing,
    order: HeadOrder,
    zones: Vec<Laid>,
}

/// The greatest whole number that is not greater, as `libm::floor` has it, in a few instructions: added to 1.5 times 2^52 a number is rounded
/// to a whole one. Of numbers below 2^51.
pub(super) fn floor(number: f64) -> f64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    debug_assert!(number.abs() < SHIFT / 3.0);
    let rounded = number + SHIFT - SHIFT;
    if rounded > number { rounded - 1.0 } else { rounded }
}

impl Geometry {
    /// Lays out a disk; or says which zone cannot be, and why.
    pub fn new(
        heads: u32,
        order: HeadOrder,
        sparing: Sparing,
        zones: Vec<Zone>,
    ) -> Result<Geometry, (usize, String)> {
        let (mut laid, mut first, mut cylinder): (Vec<Laid>, u64, u32) = (Vec::new(), 0, 0);
        for (number, zone) in zones.into_iter().enumerate() {
            if zone.last_cylinder < zone.first_cylinder || zone.first_cylinder < cylinder {
                let words = format!(
                    "its cylinders {} to {} are not after those before",
                    zone.first_cylinder, zone.last_cylinder
                );
                return Err((number, words));
            }
            if !(1..=SECTORS_PER_TRACK_MAX).contains(&zone.sectors_per_track) {
                let words = format!("its tracks have not between 1 and {SECTORS_PER_TRACK_MAX} sectors");
                return Err((number, words));
            }
            if zone.last_cylinder >= CYLINDERS_MAX {
                return Err((number, format!("a disk has at most {CYLINDERS_MAX} cylinders")));
            }
            cylinder = zone.last_cylinder + 1;
            let made = lay(zone, first, heads, sparing).map_err(|words| (number, words))?;
            first += made.sectors;
            if first > SECTORS_MAX {
                let words = format!("with it the disk has {first} sectors, of at most {SECTORS_MAX} (1 PiB)");
                return Err((number, words));
            }
            laid.push(made);
        }
        let tracks = Divisor::new(u64::from(heads));
        Ok(Geometry { heads, tracks, cylinders: cylinder, sectors: first, sparing, order, zones: laid })
    }

    /// Logical sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Cylinders, from 0 to the last of the last zone.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Recording surfaces.
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// Whether logical sectors follow each other as the physical ones do, but for those that are skipped.
    pub fn is_plain(&self) -> bool {
        self.sparing == Sparing::None
    }

    /// The zones with the first logical sector and the number of those of each.
    pub fn zones(&self) -> impl Iterator<Item = (&Zone, u64, u64)> {
        self.zones.iter().map(|laid| (&laid.zone, laid.first, laid.sectors))
    }

    /// Where a logical sector is. It must be below [`Geometry::sectors`].
    pub fn place(&self, sector: u64) -> Place {
        debug_assert!(sector < self.sectors);
        let at = self.zones.partition_point(|laid| laid.first <= sector) - 1;
        let laid = &self.zones[at];
        let zone = &laid.zone;
        let inside = sector - laid.first + zone.reserved;
        let (physical, run, span, before) = match self.sparing {
            Sparing::Tracks => {
                let (mut track, within) = laid.track.divide(inside);
                track +=
                    zone.slips.iter().fold(0, |slipped, slip| slipped + u64::from(*slip <= track + slipped));
                let left = laid.first + laid.sectors - sector;
                let spt = laid.track.get();
                let run = (spt - within).min(left);
                (track * spt + within, run, run, within)
            }
            _ => self.spared(laid, inside, sector),
        };
        let (track, on_track) = laid.track.divide(physical);
        let (cylinder, ordinal) = self.tracks.divide(track);
        let (cylinder, ordinal) = (cylinder as u32, ordinal as u32);
        let turned = match self.order {
            HeadOrder::Same => false,
            HeadOrder::Alternating => cylinder % 2 == 1,
            HeadOrder::AlternatingOverall => (cylinder + zone.first_cylinder) % 2 == 1,
        };
        let head = if turned { self.heads - 1 - ordinal } else { ordinal };
        let switches = f64::from(ordinal) + f64::from(self.heads - 1) * f64::from(cylinder);
        let mut angle = zone.offset + switches * zone.track_skew + f64::from(cylinder) * zone.cylinder_skew;
        angle += on_track as f64 + self.pushed(zone, track);
        Place {
            cylinder: cylinder + zone.first_cylinder,
            head,
            angle: laid.on_track(angle),
            sectors_per_track: zone.sectors_per_track,
            run,
            span,
            before,
        }
    }

    /// The physical sector, the run and the span of one that spares sectors by region.
    fn spared(&self, laid: &Laid, inside: u64, sector: u64) -> (u64, u64, u64, u64) {
        let spt = laid.track.get();
        let (region, mut within) = laid.usable.divide(inside);
        let (base, region_left) = (region * laid.region, laid.usable.get() - within);
        let slips = &laid.zone.slips;
        let mut next = slips.partition_point(|slip| *slip < base);
        while next < slips.len() && slips[next] <= base + within {
            within += 1;
            next += 1;
        }
        let physical = base + within;
        let end = (laid.track.divide(physical).0 + 1) * spt;
        let ahead = slips[next..].iter().take_while(|slip| **slip < end).count() as u64;
        let left = laid.first + laid.sectors - sector;
        let run = (end - physical - ahead).min(region_left).min(left);
        let behind = slips[..next].iter().rev().take_while(|slip| **slip >= end - spt).count() as u64;
        let before = (physical - (end - spt) - behind).min(sector - laid.first);
        // Slips beyond the last logical sector of the run take no time.
        let span = if ahead == 0 { run } else { (end - physical).min(run + ahead) };
        (physical, run, span, before)
    }

    /// By how many sectors slips have moved the angle of a track.
    fn pushed(&self, zone: &Zone, track: u64) -> f64 {
        let Sparing::Sectors { tracks, moves_skew: true } = self.sparing else { return 0.0 };
        let track = if tracks == 1 { track } else { track - track % u64::from(self.heads) };
        let cutoff = track * u64::from(zone.sectors_per_track);
        zone.slips.partition_point(|slip| *slip < cutoff) as f64
    }
}

/// Lays a zone out from a first logical sector on.
fn lay(mut zone: Zone, first: u64, heads: u32, sparing: Sparing) -> Result<Laid, String> {
    zone.slips.sort_unstable();
    let spt = u64::from(zone.sectors_per_track);
    let tracks = u64::from(zone.cylinders()) * u64::from(heads);
    let physical = tracks * spt;
    let (region, spares) = match sparing {
        Sparing::None => (physical, 0),
        Sparing::Tracks => (physical, zone.spares.saturating_mul(spt)),
        Sparing::Sectors { tracks: 0, .. } => (physical, zone.spares),
        Sparing::Sectors { tracks, .. } => (u64::from(tracks) * spt, zone.spares),
    };
    if spares >= region {
        return Err(format!("it has {spares} spare sectors for every {region}"));
    }
    let usable = region - spares;
    // A region at the end that is not whole has its sectors, and no spares.
    let kept = (physical / region * usable + physical % region).checked_sub(zone.reserved);
    let sectors = kept.filter(|sectors| *sectors > 0).ok_or("nothing is left of it for data")?;
    if zone.slips.last().is_some_and(|slip| *slip >= physical) {
        return Err(format!("it skips sector {}, and has {physical}", zone.slips[zone.slips.len() - 1]));
    }
    check_slips(&zone, sparing, region, physical / region)?;
    let (track, usable) = (Divisor::new(spt), Divisor::new(usable));
    let turn = f64::from(zone.sectors_per_track).recip();
    Ok(Laid { zone, first, sectors, track, region, usable, turn })
}

/// Refuses more skipped sectors in a region than it has spare ones; the rest of a zone behind its whole regions has none.
fn check_slips(zone: &Zone, sparing: Sparing, region: u64, whole: u64) -> Result<(), String> {
    if matches!(sparing, Sparing::Tracks) {
        let (slips, spares) = (zone.slips.len() as u64, zone.spares);
        return if slips <= spares {
            Ok(())
        } else {
            Err(format!("it skips {slips} tracks and has {spares} spare ones"))
        };
    }
    let of_region = zone.slips.chunk_by(|a, b| a / region == b / region);
    for slips in of_region {
        let number = slips[0] / region;
        let spares = if number < whole { zone.spares } else { 0 };
        if slips.len() as u64 > spares {
            return Err(format!(
                "from sector {} on it skips {} sectors and has {spares} spare ones",
                number * region,
                slips.len()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
