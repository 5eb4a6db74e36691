//! The model `hdd`, from what a turning disk answered.
//!
//! | number | from |
//! |---|---|
//! | revolution | times between reads of the same sector ([`crate::characterise::turning`]) |
//! | overhead, interface | reads of what was read just before, of two sizes |
//! | zones | sequential reads at places over the disk |
//! | seek table | reads at a distance, see below |
//! | commands at a time | the depth from which on more gain nothing, unless the kernel knows |
//! | segments | how many places are still held when they are read again |
//! | zero-latency reads | with or without, whichever is nearer to random reads of up to 1 MiB |
//!
//! A read at a distance takes the overhead, the seek, a wait for the sector, and the transfer. The wait is anything between 0 and a
//! revolution T, all alike, so the times fill an interval of length T: it begins no later than the least of them and no earlier than
//! T before the largest, and its beginning is taken in the middle. Of n reads that is about T / n off at most.
//!
//! The rate of a sequential read holds the switches of heads and the steps of cylinders, which nothing here divides: heads, head
//! switch and skews are assumed, and the sectors of a track are those with which that rate comes out.

use std::fmt::Write as _;

use super::{Draft, Origin, depth, exact, head, lone_write, median, reads, source, time};
use crate::characterise::plan::{BLOCK, Measured};
use crate::characterise::samples::{Group, Part, Sample, quantile};
use crate::characterise::search::error;
use crate::characterise::turning::{Turning, held_below};
use crate::hdd::Hdd;
use crate::model::{Model, SECTOR};
use crate::profile::{Device, Profile};

/// The stored profile that what is not measured is taken from.
const BASE: &str = "hdd-7200";
/// Assumed as there.
const HEADS: u32 = 10;
/// Milliseconds; a shorter step of one cylinder makes it shorter.
const HEAD_SWITCH: f64 = 0.6;
/// Reads at a distance give a point of the seek curve from so many on.
const READS_MIN: usize = 8;
/// Zones whose tracks differ by less are one.
const ALIKE: f64 = 0.01;
/// The stored way to read is left only for one that is off by less than this share of it: single reads differ by a revolution.
const CLEARLY: f64 = 0.8;
/// A share of the time of a random read from which on a write waited for the medium.
const WAITED: f64 = 0.5;
/// Bytes a second of the interface where it cannot be measured.
const INTERFACE: f64 = 600e6;

/// Cylinders of equal tracks.
#[derive(Clone, Copy, Debug)]
struct Zone {
    first_sector: u64,
    cylinders: u32,
    sectors_per_track: u32,
}

/// What was found. Times are nanoseconds.
struct Found {
    turning: Turning,
    overhead: f64,
    /// Of a sector over the interface.
    wire: f64,
    /// It keeps what it has just read.
    holds: bool,
    zones: Vec<Zone>,
    head_switch: f64,
    /// Distance in cylinders and time, with the reads it is from.
    seeks: Vec<(u32, f64, usize)>,
    segments: u32,
    depth: u32,
    zero_latency: bool,
    /// Of a write, where some were made, and whether it is complete before it is on the medium.
    write: Option<(f64, bool)>,
}

/// The profile of a disk that turns.
pub(in crate::characterise) fn draft(measured: &Measured, turning: Turning, origin: &Origin) -> Draft {
    let mut notes = Vec::new();
    let mut found = found(measured, turning, origin, &mut notes);
    let groups = reads(measured);
    let sizes: Vec<Group> =
        groups.iter().filter(|group| matches!(group.part, Part::Size(_))).cloned().collect();
    let mut off = |groups: &[Group], zero_latency| {
        found.zero_latency = zero_latency;
        let text = text(measured, origin, &found);
        let read = Profile::read(&origin.name, &origin.name, &text);
        read.map_or(f64::INFINITY, |profile| match profile.device {
            Device::Hdd(parameters) => error(groups, &mut Hdd::new(*parameters, 1) as &mut dyn Model),
            _ => f64::INFINITY,
        })
    };
    let zero_latency = off(&sizes, false) >= CLEARLY * off(&sizes, true);
    let error = off(&groups, zero_latency);
    notes.push(format!("model `hdd`: it turns, {:.1} % off in the mean", error * 100.0));
    notes.push(format!(
        "heads, head switch and skews cannot be told by reading: they are assumed as in {BASE}"
    ));
    if found.write.is_none() {
        notes.push(format!(
            "nothing was written: everything about writes is assumed as in {BASE} (see --write)"
        ));
    }
    Draft { text: text(measured, origin, &found), notes, error }
}

fn found(measured: &Measured, turning: Turning, origin: &Origin, notes: &mut Vec<String>) -> Found {
    let revolution = turning.revolution;
    let median = |part| median(measured, part);
    let repeats = median(Part::Repeat(BLOCK)).zip(median(Part::Repeat(128)));
    let held = repeats.filter(|(short, _)| *short < revolution / 4.0);
    let wire_assumed = SECTOR as f64 * 1e9 / INTERFACE;
    let (overhead, wire) = match held {
        Some((short, long)) => {
            let wire = ((long - short) / f64::from(128 - BLOCK)).max(wire_assumed / 20.0);
            ((short - f64::from(BLOCK) * wire).max(0.0), wire)
        }
        None => {
            notes.push(
                "what was just read is read from the medium again: overhead and interface are assumed"
                    .to_owned(),
            );
            (30_000.0, wire_assumed)
        }
    };
    let (mut zones, mut seeks, mut head_switch) = (Vec::new(), Vec::new(), HEAD_SWITCH * 1e6);
    // The skews hide the shortest seek, and the distances of seeks are in cylinders: each follows from the other.
    for _ in 0..3 {
        let step = seeks.first().map_or(head_switch, |seek: &(u32, f64, usize)| seek.1);
        head_switch = head_switch.min(step);
        zones = self::zones(measured, revolution, (head_switch, step));
        seeks = self::seeks(measured, revolution, &zones, overhead + wire);
    }
    if seeks.is_empty() {
        notes.push("too few reads at a distance for a seek curve: give it more time (--for)".to_owned());
        seeks = vec![(1, 0.6e6, 0)];
    }
    let segments = match measured.held {
        (Some(all), Some(none)) => libm::sqrt(f64::from(all) * f64::from(none)) as u32,
        (Some(all), None) => all,
        (None, _) if held.is_some() => 4,
        (None, _) => 0,
    };
    let random = median(Part::Random).unwrap_or(revolution);
    let write = lone_write(measured).map(|write| (write, write < WAITED * random));
    Found {
        turning,
        overhead,
        wire,
        holds: held.is_some(),
        zones,
        head_switch,
        seeks,
        segments,
        depth: origin.depth.unwrap_or_else(|| depth(measured)),
        zero_latency: true,
        write,
    }
}

/// The zones around the places of sequential reads, each as far as to the middle between two.
fn zones(measured: &Measured, revolution: f64, (switch, step): (f64, f64)) -> Vec<Zone> {
    let mut places: Vec<(u64, f64)> = Vec::new();
    for group in &measured.groups {
        let Part::Sequential(first) = group.part else { continue };
        let Some(interval) = group.interval() else { continue };
        let pace = interval * SECTOR as f64 / group.bytes() as f64;
        let spt = sectors_per_track(pace, revolution, (switch, step));
        match places.last_mut() {
            Some(last) if (spt / last.1 - 1.0).abs() < ALIKE => {}
            _ => places.push((first, spt)),
        }
    }
    if places.is_empty() {
        let pace = measured.group(Part::Random).map_or(1e3, |group| quantile(&group.responses(), 0.5) / 1e4);
        places.push((0, revolution / pace));
    }
    let end = measured.scope.sectors;
    let border = |at: usize| match places.get(at) {
        Some(place) if at > 0 => (places[at - 1].0 + place.0) / 2,
        Some(_) => 0,
        None => end,
    };
    let zone = |(at, (_, spt)): (usize, &(u64, f64))| {
        let sectors_per_track = (spt.round() as u32).max(1);
        let of_cylinder = f64::from(HEADS * sectors_per_track);
        let cylinders = ((border(at + 1) - border(at)) as f64 / of_cylinder).round().max(1.0);
        Zone { first_sector: border(at), cylinders: cylinders as u32, sectors_per_track }
    };
    places.iter().enumerate().map(zone).collect()
}

/// Sectors of a track with which a long read takes `pace` nanoseconds a sector: a cylinder takes a revolution for each head, the
/// skews between them and the one to the next. Skews as [`crate::profile`] has them where a file leaves them out.
fn sectors_per_track(pace: f64, revolution: f64, (switch, step): (f64, f64)) -> f64 {
    let (heads, mut spt) = (f64::from(HEADS), revolution / pace);
    for _ in 0..20 {
        let skew = |time: f64| libm::ceil(time / revolution * spt) + 1.0;
        let skews = (heads - 1.0) * skew(switch) + skew(step.max(switch));
        spt = revolution / pace * (1.0 + skews / (heads * spt));
    }
    spt
}

/// The cylinder of a sector.
fn cylinder(zones: &[Zone], sector: u64) -> f64 {
    let mut before = 0.0;
    let mut at = 0.0;
    for zone in zones.iter().take_while(|zone| zone.first_sector <= sector) {
        let of_cylinder = f64::from(HEADS * zone.sectors_per_track);
        at = before + (sector - zone.first_sector) as f64 / of_cylinder;
        before += f64::from(zone.cylinders);
    }
    at
}

/// Points of the seek curve, rising in distance and not falling in time.
fn seeks(measured: &Measured, revolution: f64, zones: &[Zone], before: f64) -> Vec<(u32, f64, usize)> {
    let held = held_below(&measured.groups).min(revolution / 8.0);
    let mut points: Vec<(f64, f64, usize)> = Vec::new();
    for group in measured.groups.iter().filter(|group| matches!(group.part, Part::Distance(_))) {
        let pairs = group.samples.iter().zip(group.samples.iter().skip(1));
        let reads: Vec<(&Sample, &Sample)> =
            pairs.filter(|(_, read)| read.counts && read.response() > held).collect();
        if reads.len() < READS_MIN {
            continue;
        }
        let far = |(from, to): &(&Sample, &Sample)| {
            cylinder(zones, to.request.sector) - cylinder(zones, from.request.sector)
        };
        let distance = reads.iter().map(far).sum::<f64>() / reads.len() as f64;
        let place = |(_, to): &(&Sample, &Sample)| pace_at(zones, to.request.sector, revolution);
        let transfer = f64::from(BLOCK) * reads.iter().map(place).sum::<f64>() / reads.len() as f64;
        // Distances differ by an eighth, and seeks by the root of that: each time is brought to the mean distance.
        let mut seek = 0.0;
        for _ in 0..4 {
            let times = reads.iter().map(|read| {
                let root = libm::sqrt(far(read).max(0.0) / distance.max(1e-9));
                read.1.response() - seek * (root - 1.0)
            });
            seek = (beginning(&times.collect::<Vec<f64>>(), revolution) - before - transfer).max(0.0);
        }
        points.push((distance, seek, reads.len()));
    }
    let mut made: Vec<(u32, f64, usize)> = Vec::new();
    for (distance, seek, reads) in rising(points) {
        let distance = (distance.round() as u32).max(1);
        if made.last().is_none_or(|last| last.0 < distance) {
            made.push((distance, seek, reads));
        }
    }
    made
}

/// Nanoseconds of a sector at a place.
fn pace_at(zones: &[Zone], sector: u64, revolution: f64) -> f64 {
    let zone = zones.iter().rev().find(|zone| zone.first_sector <= sector);
    zone.map_or(0.0, |zone| revolution / f64::from(zone.sectors_per_track))
}

/// Where the interval of a revolution begins that times fill; those beyond it were tried again, or waited for something else.
fn beginning(times: &[f64], revolution: f64) -> f64 {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let inside = times.iter().copied().filter(|time| *time <= least + revolution);
    (least + inside.fold(least, f64::max) - revolution) / 2.0
}

/// Times made not to fall with distance: neighbours that do become their mean, weighted by reads (pool adjacent violators).
fn rising(points: Vec<(f64, f64, usize)>) -> Vec<(f64, f64, usize)> {
    /// Points that share a time: its sum over their reads, the reads, and the points.
    type Block = (f64, usize, Vec<(f64, usize)>);
    let mut blocks: Vec<Block> = Vec::new();
    for (distance, time, reads) in points {
        blocks.push((time * reads as f64, reads, vec![(distance, reads)]));
        while let [.., before, last] = blocks.as_mut_slice()
            && before.0 / before.1 as f64 > last.0 / last.1 as f64
        {
            before.0 += last.0;
            before.1 += last.1;
            before.2.append(&mut last.2);
            blocks.pop();
        }
    }
    let of_block = |(sum, reads, points): Block| {
        points.into_iter().map(move |(distance, own)| (distance, sum / reads as f64, own))
    };
    blocks.into_iter().flat_map(of_block).collect()
}

fn text(measured: &Measured, origin: &Origin, found: &Found) -> String {
    let of = |part| source(origin, measured.group(part));
    let assumed = format!("assumed as in {BASE}");
    let turning = &found.turning;
    let told = if origin.depth.is_some() { "as the kernel says".to_owned() } else { of(Part::Depth(64)) };
    let of_hits = if found.holds { of(Part::Repeat(BLOCK)) } else { assumed.clone() };
    let mut text = head("hdd", origin);
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "\ndepth = {} # {told}\nage_limit = \"500ms\" # {assumed}\ninterface = \"{}\" # {}\n\
         \n[platters]\nheads = {HEADS} # {assumed}\n\
         rpm = {:?} # measured {}: {} times between reads of the same sector, coherence {:.3}\n\
         head_switch = \"{}\" # {assumed}, and no longer than the shortest seek\nwrite_settle = \"0us\" # {assumed}\n",
        found.depth,
        super::rate(found.wire / SECTOR as f64),
        if found.holds { of(Part::Repeat(128)) } else { assumed.clone() },
        (60e9 / turning.revolution * 100.0).round() / 100.0,
        origin.date,
        turning.times,
        turning.coherence,
        exact(found.head_switch),
    );
    let _ = writeln!(text, "\n[seek]\ntable = [");
    let mut before = None;
    for point in &found.seeks {
        for (distance, seek) in before.map_or_else(Vec::new, |before| between(before, *point)) {
            let _ = writeln!(
                text,
                "    [{distance}, \"{}\"], # between them, by the root of the distance",
                exact(seek)
            );
        }
        let (distance, seek, reads) = point;
        let _ = writeln!(
            text,
            "    [{distance}, \"{}\"], # measured {}: {reads} reads",
            exact(*seek),
            origin.date
        );
        before = Some(*point);
    }
    let _ = writeln!(
        text,
        "]\n\n# The cylinders are those that give the size. Skews are left out, so that they hide the switches: {assumed}."
    );
    for zone in &found.zones {
        let _ = writeln!(
            text,
            "[[zone]]\ncylinders = {}\nsectors_per_track = {} # {}",
            zone.cylinders,
            zone.sectors_per_track,
            of_zone(measured, origin, zone),
        );
    }
    let overhead = exact(found.overhead);
    let (write, of_writes) = match found.write {
        Some((write, true)) => {
            (exact((write - f64::from(BLOCK) * found.wire).max(0.0)), "measured with the flushes".to_owned())
        }
        Some((_, false)) => (overhead.clone(), "assumed as of a read: writes wait for the medium".to_owned()),
        None => (overhead.clone(), "assumed as of a read: nothing was written".to_owned()),
    };
    let _ = write!(
        text,
        "\n[overheads]\nread_hit = \"{overhead}\" # {of_hits}\nread_miss = \"{overhead}\" # assumed as of a hit\nwrite = \"{write}\" # {of_writes}\n"
    );
    buffer(&mut text, measured, origin, found);
    text
}

/// Points of the curve between two that were measured: the arm speeds up and slows down, so its time goes by the root of the
/// distance, where a table is straight from point to point.
fn between(from: (u32, f64, usize), to: (u32, f64, usize)) -> Vec<(u32, f64)> {
    let root = |distance: u32| libm::sqrt(f64::from(distance));
    let (first, last) = (root(from.0), root(to.0));
    let inside = (1..4).map(|part| {
        let at = first + (last - first) * f64::from(part) / 4.0;
        ((at * at).round() as u32, from.1 + (to.1 - from.1) * f64::from(part) / 4.0)
    });
    let mut points: Vec<(u32, f64)> = inside.filter(|(at, _)| *at > from.0 && *at < to.0).collect();
    points.dedup_by_key(|point| point.0);
    points
}

/// The buffer and what becomes of writes.
fn buffer(text: &mut String, measured: &Measured, origin: &Origin, found: &Found) {
    let of = |part| source(origin, measured.group(part));
    let assumed = format!("assumed as in {BASE}");
    let held = |count: Option<u32>| count.map_or_else(|| "none tried".to_owned(), |count| count.to_string());
    let (all, few) = measured.held;
    let segments = format!(
        "measured {}: {} places were all held when read again, {} were not",
        origin.date,
        held(all),
        held(few)
    );
    let queued = found.depth > 1;
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "\n[buffer]\nsegments = {} # {segments}\nsegment = \"2MiB\" # {assumed}\nread_ahead = \"2MiB\" # {assumed}\n\
         read_ahead_after_hit = true # {assumed}\njoins_stream = true # {assumed}\nreads_while_waiting = true # {assumed}\n\
         zero_latency_read = {} # {}\n\
         zero_latency_write = true # {assumed}\nhits_on_writes = true # {assumed}\n\
         answers_while_busy = {queued} # assumed of a disk that takes {} at a time\n",
        found.segments,
        found.zero_latency,
        match found.zero_latency {
            true => format!("{assumed}: random reads of up to 1 MiB do not tell otherwise"),
            false => format!("nearer to random reads of up to 1 MiB; 64 KiB: {}", of(Part::Size(128))),
        },
        if queued { "several commands" } else { "one command" },
    );
    let kept = match found.write {
        Some((write, true)) => format!("a write takes {}, less than any access", time(write)),
        Some((_, false)) => return,
        None => assumed.clone(),
    };
    let (runs, of_runs) = match runs(measured, WAITED * median(measured, Part::Random).unwrap_or(0.0)) {
        Some(runs) => (runs, of(Part::Write(1))),
        None => (1024, assumed.clone()),
    };
    let _ = write!(
        text,
        "\n[write_back] # {kept}\nruns = {runs} # {of_runs}\nsize = \"64MiB\" # {assumed}\ncombines = true # {assumed}\n"
    );
}

/// Writes at random places that were complete at once before one waited for the medium; `None`: none waited.
fn runs(measured: &Measured, waits_from: f64) -> Option<usize> {
    let samples = &measured.group(Part::Write(1))?.samples;
    let runs = samples.iter().position(|sample| sample.response() >= waits_from)?;
    Some(runs.max(1))
}

/// The source of a zone: the sequential reads in it.
fn of_zone(measured: &Measured, origin: &Origin, zone: &Zone) -> String {
    let inside = |group: &&Group| matches!(group.part, Part::Sequential(first) if first >= zone.first_sector);
    let Some(group) = measured.groups.iter().find(inside) else { return "not measured".to_owned() };
    let Some(interval) = group.interval() else { return "not measured".to_owned() };
    let megabytes = group.bytes() as f64 / interval * 1e3;
    format!("fitted to {megabytes:.1} MB/s; {}", source(origin, Some(group)))
}
