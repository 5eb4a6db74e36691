//! Keys of the model `hdd`.

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::quantity::{BUFFER_MAX, Count, Number, Share, Shift, Size, Speed, Time, sectors};
use super::{Device, Open, keys};
use crate::hdd::geometry::{
    CYLINDERS_MAX, Geometry, HEADS_MAX, HeadOrder, SECTORS_PER_TRACK_MAX, Sparing, Zone,
};
use crate::hdd::seek::SeekCurve;
use crate::hdd::{Overheads, Parameters, RUNS_MAX, ReadAhead, Retries, SEGMENT_MAX, SEGMENTS_MAX, WriteBack};
use crate::model::{DEPTH_MAX, SECTOR};
use surety_model::source::Diagnostic;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(rename = "format")]
    _format: IgnoredAny,
    #[serde(rename = "model")]
    _model: IgnoredAny,
    #[serde(rename = "about")]
    _about: IgnoredAny,
    #[serde(rename = "sources")]
    _sources: IgnoredAny,
    #[serde(rename = "slowest_read")]
    _slowest_read: Option<IgnoredAny>,
    depth: Count<DEPTH_MAX>,
    age_limit: Time<3600>,
    interface: Speed,
    platters: Platters,
    zone: Spanned<Vec<ZoneKeys>>,
    seek: Spanned<Seek>,
    overheads: OverheadKeys,
    buffer: Buffer,
    write_back: Option<Back>,
    retries: Option<RetryKeys>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Platters {
    heads: Count<HEADS_MAX>,
    rpm: Number<60_000, 60>,
    head_switch: Time,
    write_settle: Shift,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneKeys {
    cylinders: Spanned<Count<CYLINDERS_MAX>>,
    sectors_per_track: Spanned<Count<SECTORS_PER_TRACK_MAX>>,
    /// Left out: what a switch takes, and a sector.
    track_skew: Option<Number<SECTORS_PER_TRACK_MAX>>,
    cylinder_skew: Option<Number<SECTORS_PER_TRACK_MAX>>,
}

/// A distance in cylinders and the time of a seek over it.
type Point = Spanned<(Count<CYLINDERS_MAX>, Time)>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seek {
    constant: Option<Time>,
    single: Option<Time>,
    average: Option<Spanned<Time>>,
    full: Option<Spanned<Time>>,
    table: Option<Spanned<Vec<Point>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverheadKeys {
    read_hit: Time,
    read_miss: Time,
    write: Time,
    read_completion: Option<Time>,
    write_completion: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Buffer {
    segments: Count<SEGMENTS_MAX, 0>,
    segment: Size<{ SEGMENT_MAX as u64 }>,
    read_ahead: Spanned<String>,
    read_ahead_after_hit: bool,
    joins_stream: bool,
    reads_while_waiting: bool,
    zero_latency_read: bool,
    zero_latency_write: bool,
    hits_on_writes: bool,
    answers_while_busy: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Back {
    runs: Count<RUNS_MAX>,
    size: Size<BUFFER_MAX>,
    combines: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryKeys {
    probability: Share,
    most_revolutions: Count<1000>,
}

pub(super) fn read(text: &str, _: &mut Open<'_>) -> Result<Device, Diagnostic> {
    let keys: Keys = keys(text)?;
    let heads = keys.platters.heads.0;
    let revolution = 60_000.0 / keys.platters.rpm.0;
    let cylinders = cylinders(&keys.zone)?;
    let seek = seek(&keys.seek, cylinders)?;
    let switch = keys.platters.head_switch.ms();
    let geometry = geometry(keys.zone.as_ref(), heads, (switch, seek.time(1).max(switch)), revolution)?;
    let each = |time: Time| [time.ms(); 2];
    let late = |time: Option<Time>| time.map_or(0.0, Time::ms);
    Ok(Device::Hdd(Box::new(Parameters {
        geometry,
        seek,
        head_switch: switch,
        write_settle: keys.platters.write_settle.0.get() as f64 / 1e6,
        revolution,
        overheads: Overheads {
            read_hit: each(keys.overheads.read_hit),
            read_miss: each(keys.overheads.read_miss),
            write: each(keys.overheads.write),
            read_completion: late(keys.overheads.read_completion),
            write_completion: late(keys.overheads.write_completion),
        },
        sector_transfer: SECTOR as f64 * 1e3 / keys.interface.0.0 as f64,
        segments: keys.buffer.segments.0 as usize,
        segment_sectors: keys.buffer.segment.0,
        read_ahead: read_ahead(&keys.buffer.read_ahead)?,
        read_ahead_after_hit: keys.buffer.read_ahead_after_hit,
        joins_stream: keys.buffer.joins_stream,
        reads_while_waiting: keys.buffer.reads_while_waiting,
        zero_latency_read: keys.buffer.zero_latency_read,
        zero_latency_write: keys.buffer.zero_latency_write,
        hits_on_writes: keys.buffer.hits_on_writes,
        write_back: keys.write_back.map(|back| WriteBack {
            runs: back.runs.0 as usize,
            sectors: back.size.0,
            combines: back.combines,
        }),
        answers_while_busy: keys.buffer.answers_while_busy,
        depth: keys.depth.0 as usize,
        age_limit: keys.age_limit.0,
        retries: keys.retries.map(|retries| Retries {
            probability: retries.probability.0,
            most_revolutions: retries.most_revolutions.0,
        }),
    })))
}

/// The cylinders of all zones.
fn cylinders(zones: &Spanned<Vec<ZoneKeys>>) -> Result<u32, Diagnostic> {
    let mut all = 0;
    for zone in zones.as_ref() {
        all += zone.cylinders.as_ref().0;
        if all > CYLINDERS_MAX {
            let message = format!("`cylinders`: with those of the zones before they are {all}");
            return Err(Diagnostic::new(zone.cylinders.span(), message)
                .help(format!("a disk has at most {CYLINDERS_MAX}")));
        }
    }
    if all == 0 {
        return Err(Diagnostic::new(zones.span(), "`zone`: a disk has one or more")
            .help("write [[zone]] with `cylinders` and `sectors_per_track`"));
    }
    Ok(all)
}

/// The zones one after the other; a skew that is left out just hides the switch.
fn geometry(
    zones: &[ZoneKeys],
    heads: u32,
    (switch, step): (f64, f64),
    revolution: f64,
) -> Result<Geometry, Diagnostic> {
    let mut first = 0;
    let made = zones.iter().map(|keys| {
        let (cylinders, sectors) = (keys.cylinders.as_ref().0, keys.sectors_per_track.as_ref().0);
        // A sector more than the time takes, and of a cylinder what the last head's switch does not hide.
        let hidden = |time: f64| libm::ceil(time / revolution * f64::from(sectors)) + 1.0;
        let track_skew = keys.track_skew.map_or_else(|| hidden(switch), |skew| skew.0);
        let cylinder_skew = keys.cylinder_skew.map_or_else(|| hidden(step), |skew| skew.0);
        let made = Zone::plain(first..first + cylinders, sectors, track_skew, cylinder_skew);
        first += cylinders;
        made
    });
    let made: Vec<Zone> = made.collect();
    Geometry::new(heads, HeadOrder::Same, Sparing::None, made).map_err(|(number, words)| {
        let place = zones[number].sectors_per_track.span();
        Diagnostic::new(place, format!("`sectors_per_track`: zone {number} cannot be: {words}"))
    })
}

fn seek(keys: &Spanned<Seek>, cylinders: u32) -> Result<SeekCurve, Diagnostic> {
    let seek = keys.as_ref();
    let given = (&seek.constant, &seek.single, &seek.average, &seek.full, &seek.table);
    match given {
        (Some(time), None, None, None, None) => Ok(SeekCurve::Constant(time.ms())),
        (None, Some(single), Some(average), None, None) => {
            longer("average", average, *single)?;
            Ok(SeekCurve::of_average(single.ms(), average.as_ref().ms(), cylinders))
        }
        (None, Some(single), None, Some(full), None) => {
            longer("full", full, *single)?;
            Ok(SeekCurve::Root { single: single.ms(), full: full.as_ref().ms(), cylinders })
        }
        (None, None, None, None, Some(table)) => seek_table(table, cylinders),
        _ => Err(Diagnostic::new(keys.span(), "these keys give no seek curve")
            .help("write `constant`; or `single` and a longer `average`; or `single` and a longer `full`; or `table`")),
    }
}

/// Refuses a seek over more cylinders that takes less time than one over a single one.
fn longer(key: &str, time: &Spanned<Time>, single: Time) -> Result<(), Diagnostic> {
    let (time_words, least) = (time.as_ref().0.to_exact_string(), single.0.to_exact_string());
    if time.as_ref().0 >= single.0 {
        return Ok(());
    }
    let message =
        format!("`{key}`: {time_words} is shorter than `single`, {least}, a seek to the next cylinder");
    Err(Diagnostic::new(time.span(), message).help(format!("from {least} to 10s")))
}

fn seek_table(table: &Spanned<Vec<Point>>, cylinders: u32) -> Result<SeekCurve, Diagnostic> {
    let mut points: Vec<(u32, f64)> = Vec::new();
    for point in table.as_ref() {
        let (Count(distance), time) = *point.as_ref();
        if points.last().is_some_and(|(before, _)| *before >= distance) {
            let message = format!("`table`: distance {distance} is not beyond the one before it");
            return Err(Diagnostic::new(point.span(), message).help("distances rise"));
        }
        points.push((distance, time.ms()));
    }
    let Some(last) = table.as_ref().last() else {
        return Err(Diagnostic::new(table.span(), "`table`: it has no points").help("write `[[1, \"1ms\"]]`"));
    };
    let curve = SeekCurve::Table(points);
    curve.check(cylinders).map_err(|why| Diagnostic::new(last.span(), format!("`table`: {why}")))?;
    Ok(curve)
}

fn read_ahead(word: &Spanned<String>) -> Result<ReadAhead, Diagnostic> {
    match word.as_ref().as_str() {
        "none" => Ok(ReadAhead::None),
        "track" => Ok(ReadAhead::Track),
        "cylinder" => Ok(ReadAhead::Cylinder),
        size => sectors(size, SEGMENT_MAX.into()).map(ReadAhead::Sectors).map_err(|why| {
            Diagnostic::new(word.span(), format!("`read_ahead`: {why}"))
                .help("use none, track, cylinder or a size such as \"512KiB\"")
        }),
    }
}
