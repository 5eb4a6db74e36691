//! Profiles as people read them: the table of all, and one on a page.

use std::fmt::Write as _;

use surety_units::{Nanos, Rate};

use super::{Device, PROFILES, Profile};
use crate::hdd::geometry::Geometry;
use crate::hdd::{Parameters, ReadAhead};
use crate::model::SECTOR;

/// A profile in the table of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    pub model: &'static str,
    /// In words, such as `960.2 GB`.
    pub capacity: String,
    pub depth: usize,
    pub about: String,
}

/// The profiles that come with the program, by name.
pub fn list() -> Vec<Line> {
    PROFILES.iter().filter_map(|(name, _)| Profile::named(name)).map(|profile| line(&profile)).collect()
}

fn line(profile: &Profile) -> Line {
    Line {
        name: profile.name.clone(),
        model: profile.model,
        capacity: capacity(profile.sectors()),
        depth: profile.depth(),
        about: profile.about.clone(),
    }
}

/// A profile on a page: a key and its value on each line.
pub fn show(profile: &Profile) -> String {
    let mut page = Page(String::new());
    page.row("profile", &profile.name);
    page.row("what", &profile.about);
    page.row("model", profile.model);
    device(&mut page, profile);
    if let Some(read) = profile.slowest_read {
        page.row("slowest read", &format!("{} in {}", size(read.sectors), time(read.took)));
    }
    for (number, source) in profile.sources.iter().enumerate() {
        page.row(if number == 0 { "sources" } else { "" }, source);
    }
    page.0
}

/// Text being written.
struct Page(String);

impl Page {
    fn row(&mut self, key: &str, value: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{}", format!("{key:<16}{value}").trim_end());
    }
}

fn device(page: &mut Page, profile: &Profile) {
    page.row("capacity", &format!("{} ({} sectors)", capacity(profile.sectors()), profile.sectors()));
    page.row("commands", &format!("{} at a time", profile.depth()));
    match &profile.device {
        Device::Fixed(fixed) => {
            page.row("read", &time(fixed.read));
            page.row("write", &time(fixed.write));
            page.row("flush", &time(fixed.flush));
            page.row("beside others", &fixed.lanes.to_string());
        }
        Device::Hdd(hdd) => disk(page, hdd),
        Device::Flash(flash) => {
            let dies = flash.channels * flash.dies_per_channel;
            page.row("dies", &format!("{dies} on {} channels of {}", flash.channels, rate(flash.channel)));
            page.row(
                "pages",
                &format!("{}, {} in a block", size(u64::from(flash.page_sectors)), flash.pages_per_block),
            );
            page.row(
                "cells",
                &format!(
                    "read {}, program {}, erase {}",
                    time(flash.read),
                    time(flash.program),
                    time(flash.erase)
                ),
            );
            page.row(
                "link",
                &format!("{}, {} of a command", rate(flash.link), time(flash.latency + flash.command)),
            );
            let kind = if flash.protected { "outlives a loss of power" } else { "volatile" };
            let buffer = match flash.buffer_sectors {
                0 => "none".to_owned(),
                sectors => format!("{}, {kind}", size(sectors)),
            };
            page.row("write buffer", &buffer);
            if let Some(fast) = flash.fast {
                page.row("fast cells", &format!("{}, program {}", size(fast.sectors), time(fast.program)));
            }
            let worn = if flash.worn_in { "worn in" } else { "new" };
            page.row(
                "space",
                &format!("{:.1} % spare, {:.0} % in use, {worn}", flash.spare * 100.0, flash.filled * 100.0),
            );
            page.row("streams", &format!("{} runs of writes beside each other", flash.streams));
        }
        Device::Virtio(virtio, behind) => {
            page.row(
                "host's thread",
                &format!(
                    "wakes in {}, submits in {}, completes in {}",
                    time(virtio.wake),
                    time(virtio.submit),
                    time(virtio.complete)
                ),
            );
            page.row("behind", &behind.name);
            device(page, behind);
        }
    }
}

fn disk(page: &mut Page, hdd: &Parameters) {
    let rpm = 60_000.0 / hdd.revolution;
    page.row("rotation", &format!("{rpm:.0} rpm, {:.2} ms", hdd.revolution));
    let geometry = &hdd.geometry;
    page.row("platters", &format!("{} heads, {} cylinders", geometry.heads(), geometry.cylinders()));
    let (least, mean, most) = hdd.seek.summary(geometry.cylinders());
    page.row("seek", &format!("{least:.2} ms shortest, {mean:.2} ms mean, {most:.2} ms longest"));
    page.row("head switch", &format!("{:.2} ms", hdd.head_switch));
    zones(page, geometry, hdd);
    let read_ahead = match hdd.read_ahead {
        ReadAhead::None => "no read-ahead".to_owned(),
        ReadAhead::Track => "reads ahead to the end of the track".to_owned(),
        ReadAhead::Cylinder => "reads ahead to the end of the cylinder".to_owned(),
        ReadAhead::Sectors(sectors) => format!("reads ahead {}", size(sectors)),
        ReadAhead::TrackThenNext => "reads ahead to the end of the track, then of the next".to_owned(),
    };
    page.row("buffer", &format!("{} segments of {}, {read_ahead}", hdd.segments, size(hdd.segment_sectors)));
    let writes = match hdd.write_back {
        None => "complete on the medium".to_owned(),
        Some(back) => format!("reported at once, up to {} in {} runs", size(back.sectors), back.runs),
    };
    page.row("writes", &writes);
}

/// Each zone with its sectors of a track and the rate of a long sequential read, switches included.
fn zones(page: &mut Page, geometry: &Geometry, hdd: &Parameters) {
    for (number, (zone, first, sectors)) in geometry.zones().enumerate() {
        let spt = f64::from(zone.sectors_per_track);
        let heads = f64::from(geometry.heads());
        // A cylinder takes a revolution for each head, the skews between them, and the skew to the next.
        let turns = heads + ((heads - 1.0) * zone.track_skew + zone.cylinder_skew) / spt;
        let bytes = heads * spt * SECTOR as f64;
        let rate = bytes / (turns * hdd.revolution) / 1e3;
        let key = if number == 0 { "zones" } else { "" };
        page.row(
            key,
            &format!(
                "sectors {first} to {}: {} on a track, {rate:.1} MB/s",
                first + sectors - 1,
                zone.sectors_per_track
            ),
        );
    }
}

/// Decimal bytes of some sectors with four digits: `40.03 GB`.
pub fn capacity(sectors: u64) -> String {
    let bytes = sectors as f64 * SECTOR as f64;
    let (scale, unit) = match bytes {
        bytes if bytes >= 1e12 => (1e12, "TB"),
        bytes if bytes >= 1e9 => (1e9, "GB"),
        _ => (1e6, "MB"),
    };
    let value = bytes / scale;
    let digits = if value >= 100.0 { 1 } else { 2 };
    format!("{value:.digits$} {unit}")
}

/// Binary bytes of some sectors.
fn size(sectors: u64) -> String {
    surety_units::Bytes(sectors * SECTOR).to_exact_string()
}

fn time(time: Nanos) -> String {
    time.to_exact_string()
}

fn rate(rate: Rate) -> String {
    rate.to_exact_string()
}
