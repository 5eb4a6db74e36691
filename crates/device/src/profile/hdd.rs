//! Keys of the model `hdd`.

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::quantity::{Count, Sectors, Share, Shift, Skew, Speed, Time};
use super::{Device, Open, keys};
use crate::hdd::geometry::{Geometry, HeadOrder, Sparing, Zone};
use crate::hdd::seek::SeekCurve;
use crate::hdd::{Overheads, Parameters, ReadAhead, Retries, WriteBack};
use crate::model::SECTOR;
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
    depth: Count,
    age_limit: Time,
    interface: Speed,
    platters: Platters,
    zone: Vec<Spanned<ZoneKeys>>,
    seek: Spanned<Seek>,
    overheads: OverheadKeys,
    buffer: Buffer,
    write_back: Option<Back>,
    retries: Option<RetryKeys>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Platters {
    heads: Spanned<Count>,
    rpm: Spanned<f64>,
    head_switch: Time,
    write_settle: Shift,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneKeys {
    cylinders: Count,
    sectors_per_track: Count,
    /// Left out: what a switch takes, and a sector.
    track_skew: Option<Skew>,
    cylinder_skew: Option<Skew>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seek {
    constant: Option<Time>,
    single: Option<Time>,
    average: Option<Time>,
    full: Option<Time>,
    table: Option<Vec<Spanned<(u32, Time)>>>,
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
    segments: u16,
    segment: Sectors,
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
    runs: Count,
    size: Sectors,
    combines: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryKeys {
    probability: Share,
    most_revolutions: Count,
}

pub(super) fn read(text: &str, _: &mut Open<'_>) -> Result<Device, Diagnostic> {
    let keys: Keys = keys(text)?;
    let rpm = *keys.platters.rpm.as_ref();
    if !(60.0..=60_000.0).contains(&rpm) {
        let message = format!("{rpm} revolutions a minute are not between 60 and 60000");
        return Err(Diagnostic::new(keys.platters.rpm.span(), message));
    }
    let heads = keys.platters.heads.as_ref().0;
    if heads > 255 {
        return Err(Diagnostic::new(
            keys.platters.heads.span(),
            format!("{heads} heads are more than any drive has"),
        ));
    }
    let revolution = 60_000.0 / rpm;
    let cylinders: u64 = keys.zone.iter().map(|zone| u64::from(zone.as_ref().cylinders.0)).sum();
    if keys.zone.is_empty() || cylinders > 1 << 24 {
        return Err(Diagnostic::new(
            0..0,
            format!("{cylinders} cylinders are not between 1 and {}", 1 << 24),
        )
        .help("write [[zone]] with `cylinders` and `sectors_per_track`"));
    }
    let seek = seek(&keys.seek, cylinders as u32)?;
    let switch = keys.platters.head_switch.ms();
    let geometry = geometry(&keys.zone, heads, (switch, seek.time(1).max(switch)), revolution)?;
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
        segments: usize::from(keys.buffer.segments),
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

/// The zones one after the other; a skew that is left out just hides the switch.
fn geometry(
    zones: &[Spanned<ZoneKeys>],
    heads: u32,
    (switch, step): (f64, f64),
    revolution: f64,
) -> Result<Geometry, Diagnostic> {
    let mut first = 0;
    let made = zones.iter().map(|zone| {
        let keys = zone.as_ref();
        let spt = f64::from(keys.sectors_per_track.0);
        // A sector more than the time takes, and of a cylinder what the last head's switch does not hide.
        let hidden = |time: f64| libm::ceil(time / revolution * spt) + 1.0;
        let track_skew = keys.track_skew.map_or_else(|| hidden(switch), |skew| skew.0);
        let cylinder_skew = keys.cylinder_skew.map_or_else(|| hidden(step), |skew| skew.0);
        let made =
            Zone::plain(first..first + keys.cylinders.0, keys.sectors_per_track.0, track_skew, cylinder_skew);
        first += keys.cylinders.0;
        made
    });
    let made: Vec<Zone> = made.collect();
    Geometry::new(heads, HeadOrder::Same, Sparing::None, made).map_err(|(number, words)| {
        Diagnostic::new(zones[number].span(), format!("zone {number} cannot be: {words}"))
    })
}

fn seek(keys: &Spanned<Seek>, cylinders: u32) -> Result<SeekCurve, Diagnostic> {
    let seek = keys.as_ref();
    let given = (&seek.constant, &seek.single, &seek.average, &seek.full, &seek.table);
    match given {
        (Some(time), None, None, None, None) => Ok(SeekCurve::Constant(time.ms())),
        (None, Some(single), Some(average), None, None) if single.0 <= average.0 => {
            Ok(SeekCurve::of_average(single.ms(), average.ms(), cylinders))
        }
        (None, Some(single), None, Some(full), None) if single.0 <= full.0 => {
            Ok(SeekCurve::Root { single: single.ms(), full: full.ms(), cylinders })
        }
        (None, None, None, None, Some(table)) => {
            let mut points: Vec<(u32, f64)> = Vec::new();
            for point in table {
                let (distance, time) = *point.as_ref();
                if distance == 0 || points.last().is_some_and(|(before, _)| *before >= distance) {
                    let message = format!("distance {distance} is not beyond the one before it");
                    return Err(Diagnostic::new(point.span(), message));
                }
                points.push((distance, time.ms()));
            }
            if points.is_empty() {
                return Err(Diagnostic::new(keys.span(), "the seek table has no points"));
            }
            Ok(SeekCurve::Table(points))
        }
        _ => Err(Diagnostic::new(keys.span(), "these keys give no seek curve")
            .help("write `constant`; or `single` and a longer `average`; or `single` and a longer `full`; or `table`")),
    }
}

fn read_ahead(word: &Spanned<String>) -> Result<ReadAhead, Diagnostic> {
    match word.as_ref().as_str() {
        "none" => Ok(ReadAhead::None),
        "track" => Ok(ReadAhead::Track),
        "cylinder" => Ok(ReadAhead::Cylinder),
        size => {
            let surety_units::Bytes(bytes) = size.parse().map_err(|_| {
                Diagnostic::new(word.span(), format!("`{size}` is no way to read ahead"))
                    .help("use none, track, cylinder or a size such as 512KiB")
            })?;
            Ok(ReadAhead::Sectors(bytes / SECTOR))
        }
    }
}
