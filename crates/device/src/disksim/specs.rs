//! `disksim_disk`: buffer, command queue and overheads of a drive.

use super::convert::{Fields, Mechanics};
use super::syntax::{Block, Kind};
use crate::hdd::{Overheads, Parameters, RUNS_MAX, ReadAhead, SEGMENT_MAX, SEGMENTS_MAX, WriteBack};
use crate::model::DEPTH_MAX;
use surety_model::source::Diagnostic;
use surety_units::Nanos;

/// Keys with the only value that is modelled, and what another would mean.
const ONLY: &[(&str, f64, &str)] = &[
    ("Per-request overhead time", 0.0, "an overhead of every request"),
    ("Allow sneaky full read hits", 0.0, "hits that pass the command under way"),
    ("Allow sneaky partial read hits", 0.0, "hits that pass the command under way"),
    ("Allow sneaky intermediate read hits", 0.0, "hits that pass the command under way"),
    ("Allow write prebuffering", 0.0, "taking data of writes before their turn"),
    ("Preseeking level", 0.0, "moving the arm for the next command early"),
    ("Never disconnect", 0.0, "holding the bus from the command to the end"),
    ("Use separate write segment", 0.0, "a segment that only writes use"),
    ("Low (write) water mark", 0.0, "waiting for a part of the data before asking for the bus"),
    ("High (read) water mark", 0.0, "waiting for a part of the data before asking for the bus"),
    ("Minimum read-ahead (blks)", 0.0, "read-ahead that no command cuts short"),
    ("Data preparation overhead", 0.0, "an overhead of each transfer"),
    ("First reselect overhead", 0.0, "an overhead of each return to the bus"),
    ("Other reselect overhead", 0.0, "an overhead of each return to the bus"),
    ("Read disconnect afterread", 0.0, "an overhead of leaving the bus"),
    ("Read disconnect afterwrite", 0.0, "an overhead of leaving the bus"),
    ("Write disconnect overhead", 0.0, "an overhead of leaving the bus"),
    ("Extra write disconnect", 0.0, "leaving the bus once more in a write"),
    ("Minimum seek delay", 0.0, "a shortest seek"),
];

/// Keys that are of no effect on a single drive, or only with one of the above.
const PASSED_OVER: &[&str] = &[
    "Model",
    "Hold bus entire read xfer",
    "Hold bus entire write xfer",
    "Print stats",
    "Avg sectors per cylinder",
    "Scheduler",
    "Set watermark by reqsize",
    "Calc sector by sector",
    "Read-ahead over requested",
    "Stop prefetch in sector",
    "Disconnect write if seek",
    "Write hit stop prefetch",
    "Read directly to buffer",
    "Immed transfer partial hit",
    "Extradisc command overhead",
    "Extradisc disconnect overhead",
    "Extradisc inter-disconnect delay",
    "Extradisc 2nd disconnect overhead",
    "Extradisc seek delta",
];

/// Keys that are read.
const READ: &[&str] = &[
    "Allow almost read hits",
    "Time scale for overheads",
    "Bulk sector transfer time",
    "Allow read hits on write data",
    "Max queue length",
    "Number of buffer segments",
    "Maximum number of write segments",
    "Segment size (in blks)",
    "Enable caching in buffer",
    "Buffer continuous read",
    "Maximum read-ahead (blks)",
    "Read-ahead on idle hit",
    "Read any free blocks",
    "Fast write level",
    "Immediate buffer read",
    "Immediate buffer write",
    "Combine seq writes",
    "Read hit over. after read",
    "Read hit over. after write",
    "Read miss over. after read",
    "Read miss over. after write",
    "Write hit over. after read",
    "Write hit over. after write",
    "Write miss over. after read",
    "Write miss over. after write",
    "Read completion overhead",
    "Write completion overhead",
];

/// Reads a `disksim_disk` whose mechanics are read.
pub fn drive(block: &Block, mechanics: Mechanics) -> Result<Parameters, Diagnostic> {
    let fields = Fields(block);
    refuse(&fields)?;
    let scale = fields.number("Time scale for overheads", 0.0..=1000.0)?;
    let pair = |a: &str, b: &str| -> Result<[f64; 2], Diagnostic> {
        Ok([fields.time(a)? * scale, fields.time(b)? * scale])
    };
    let is_on = |key: &str| fields.count(key, 0..=u32::MAX).map(|value| value > 0);
    let segment_sectors = u64::from(fields.count("Segment size (in blks)", 1..=SEGMENT_MAX)?);
    let fast = fields.count("Fast write level", 0..=u32::MAX)?;
    let write = match fast {
        0 => pair("Write miss over. after read", "Write miss over. after write")?,
        _ => pair("Write hit over. after read", "Write hit over. after write")?,
    };
    let runs = fields.count("Maximum number of write segments", 1..=RUNS_MAX)? as usize;
    let combines = is_on("Combine seq writes")?;
    let write_back = WriteBack { runs, sectors: segment_sectors * runs as u64, combines };
    let depth = fields.count("Max queue length", 1..=DEPTH_MAX)? as usize;
    Ok(Parameters {
        geometry: mechanics.geometry,
        seek: mechanics.seek,
        head_switch: mechanics.head_switch,
        write_settle: mechanics.write_settle,
        revolution: mechanics.revolution,
        overheads: Overheads {
            read_hit: pair("Read hit over. after read", "Read hit over. after write")?,
            read_miss: pair("Read miss over. after read", "Read miss over. after write")?,
            write,
            read_completion: fields.time("Read completion overhead")? * scale,
            write_completion: fields.time("Write completion overhead")? * scale,
        },
        sector_transfer: fields.number("Bulk sector transfer time", 0.0..=1000.0)?,
        segments: if is_on("Enable caching in buffer")? {
            fields.count("Number of buffer segments", 1..=SEGMENTS_MAX)? as usize
        } else {
            0
        },
        segment_sectors,
        read_ahead: read_ahead(&fields, segment_sectors)?,
        read_ahead_after_hit: is_on("Read-ahead on idle hit")?,
        joins_stream: is_on("Allow almost read hits")?,
        reads_while_waiting: is_on("Read any free blocks")?,
        zero_latency_read: is_on("Immediate buffer read")?,
        zero_latency_write: is_on("Immediate buffer write")?,
        hits_on_writes: is_on("Allow read hits on write data")?,
        write_back: (fast > 0).then_some(write_back),
        answers_while_busy: false,
        depth,
        age_limit: Nanos::MAX,
        retries: None,
    })
}

/// Refuses what is not modelled.
fn refuse(fields: &Fields<'_>) -> Result<(), Diagnostic> {
    let all: Vec<&str> =
        ONLY.iter().map(|row| row.0).chain(PASSED_OVER.iter().copied()).chain(READ.iter().copied()).collect();
    fields.known(&all)?;
    for (key, only, meaning) in ONLY {
        let Some(field) = fields.get(key) else { continue };
        match field.value.kind {
            Kind::Number(number) if number == *only => {}
            Kind::Number(number) => {
                let message = format!("`{key}` is {number}: {meaning} is not modelled");
                return Err(
                    Diagnostic::new(field.value.span.clone(), message).help(format!("set it to {only}"))
                );
            }
            _ => {
                let message = format!("`{key}` should be a number");
                return Err(Diagnostic::new(field.value.span.clone(), message));
            }
        }
    }
    Ok(())
}

fn read_ahead(fields: &Fields<'_>, segment: u64) -> Result<ReadAhead, Diagnostic> {
    let most = u64::from(fields.count("Maximum read-ahead (blks)", 0..=SEGMENT_MAX)?);
    Ok(match fields.count("Buffer continuous read", 0..=u32::MAX)? {
        0 => ReadAhead::None,
        1 => ReadAhead::Track,
        2 => ReadAhead::Cylinder,
        3 if most > 0 => ReadAhead::Sectors(most),
        3 => ReadAhead::Sectors(segment),
        4 => ReadAhead::TrackThenNext,
        other => {
            let span = fields.get("Buffer continuous read").map_or(0..0, |field| field.value.span.clone());
            return Err(Diagnostic::new(span, format!("`Buffer continuous read` is {other}, of 0 to 4")));
        }
    })
}
