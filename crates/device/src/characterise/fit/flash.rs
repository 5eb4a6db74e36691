//! The model `flash`: dies, their cells, the link and the controller, so that the paces are those measured.
//!
//! What one read at a time takes is a sum; how it divides follows from many at a time, which wait for the same die (cells) or for
//! the same link, and from large reads, whose pages are read beside each other. Pages, blocks and what becomes of writes cannot be
//! told by reading.

use std::fmt::Write as _;

use surety_units::{Nanos, Rate};

use super::fixed::DEPTH_TRIED;
use super::{Draft, Origin, depth, exact, head, lone_write, median, rate, reads, source, writes};
use crate::characterise::plan::Measured;
use crate::characterise::samples::Part;
use crate::characterise::search::{descend, error};
use crate::flash::{Flash, Parameters};
use crate::model::SECTOR;
use crate::profile::{Device, Profile};

/// A drive that streams faster, in bytes a second, is no SATA drive.
const SATA_MAX: f64 = 600e6;

/// The stored profile that what is not measured is taken from, and its numbers.
fn assumed(bytes_per_second: f64) -> (&'static str, Parameters) {
    let name = if bytes_per_second > SATA_MAX { "nvme" } else { "ssd-sata" };
    match Profile::named(name).map(|profile| profile.device) {
        Some(Device::Flash(parameters)) => (name, *parameters),
        _ => unreachable!("a profile of our own that is flash"),
    }
}

/// The nearest.
pub(in crate::characterise) fn draft(measured: &Measured, origin: &Origin) -> Draft {
    let median = |part| median(measured, part);
    let random = median(Part::Random).unwrap_or(1.0).max(1.0);
    let pace = measured.group(Part::Stream).and_then(|group| Some(group.interval()? / group.bytes() as f64));
    let per_byte = pace.unwrap_or(1.0).max(1e-3);
    let (base, like) = assumed(1e9 / per_byte);
    let (write, flush) = (lone_write(measured), median(Part::Flush));
    // A flush that takes no longer than a write found nothing to do.
    let outlives = write.zip(flush).map(|(write, flush)| flush < 1.5 * write);
    // A card takes one at a time.
    let depth = origin.depth.unwrap_or(if depth(measured) == 1 { 1 } else { DEPTH_TRIED });
    let made = |numbers: &[f64], program: f64| {
        let dies = (numbers[3].round() as u32).clamp(1, 512);
        let channels = dies.min(like.channels);
        // A write takes the latency, and the link for its frame and its data; of a read alone its share is not known.
        let latency = match write {
            Some(write) => (write - numbers[2] - 4096.0 * numbers[4]).clamp(0.0, numbers[0]),
            None => numbers[0] * (1.0 - numbers[1].min(1.0)),
        };
        let mut made = Parameters {
            sectors: measured.scope.sectors,
            latency: Nanos::from_f64_rounded(latency),
            read: Nanos::from_f64_rounded(numbers[0] - latency),
            frame: Nanos::from_f64_rounded(numbers[2]),
            command: Nanos::ZERO,
            channels,
            dies_per_channel: dies.div_ceil(channels),
            program: Nanos::from_f64_rounded(program),
            link: Rate((1e9 / numbers[4].max(1e-9)) as u64),
            depth: depth as usize,
            ..like.clone()
        };
        if let Some((outlives, flush)) = outlives.zip(flush) {
            (made.protected, made.worn_in) = (outlives, false);
            made.flush = Nanos::from_f64_rounded((flush - made.program.get() as f64).max(0.0));
        }
        fitting(made)
    };
    // The time before the link, the share of the cells in it, the frame, the dies, the link.
    let start = |dies| vec![0.85 * random, 0.75, 0.03 * random, dies, per_byte];
    let starts = [8.0, 32.0, 128.0].map(start).to_vec();
    let (of_reads, of_writes) = (reads(measured), writes(measured));
    let assumed = like.program.get() as f64;
    let (numbers, off) =
        descend(starts, |numbers| error(&of_reads, &mut Flash::new(made(numbers, assumed), 1)));
    let program = match of_writes.is_empty() {
        true => assumed,
        false => {
            let off = |program: &[f64]| error(&of_writes, &mut Flash::new(made(&numbers, program[0]), 1));
            descend(vec![vec![assumed]], off).0[0]
        }
    };
    let found = made(&numbers, program);
    let mut notes = Vec::new();
    if outlives.is_none() {
        notes.push(format!(
            "nothing was written: everything about writes is assumed as in {base} (see --write)"
        ));
    }
    Draft { text: text(measured, origin, (base, &found), numbers[4]), notes, error: off }
}

/// With blocks so small that what cleaning needs fits: a device may be smaller than the one whose blocks are assumed.
fn fitting(mut made: Parameters) -> Parameters {
    let dies = u64::from(made.channels) * u64::from(made.dies_per_channel);
    let room = (made.sectors as f64 * made.spare / (3 * dies * u64::from(made.page_sectors)) as f64) as u32;
    made.pages_per_block = made.pages_per_block.min(room).max(1);
    if room == 0 {
        (made.channels, made.dies_per_channel) = (1, 1);
    }
    made
}

fn text(measured: &Measured, origin: &Origin, (base, found): (&str, &Parameters), per_byte: f64) -> String {
    let of = |part| source(origin, measured.group(part));
    let get = |time: Nanos| exact(time.get() as f64);
    let size = |sectors: u64| surety_units::Bytes(sectors * SECTOR).to_exact_string();
    let assumed = format!("assumed as in {base}");
    let written = measured.group(Part::Write(1)).is_some();
    let of_writes = |part| if written { of(part) } else { assumed.clone() };
    let mut text = head("flash", origin);
    text += &in_front(measured, origin, found, per_byte);
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "\n[cells]\nchannels = {} # {assumed} at most\n\
         dies_per_channel = {} # fitted: {} dies; 4 KiB, 32 at a time: {}\n\
         page = \"{}\" # {assumed}\npages_per_block = {} # {assumed} at most\n\
         read = \"{}\" # fitted; 4 KiB, one at a time: {}\n\
         program = \"{}\" # {}\nerase = \"{}\" # {assumed}\nchannel = \"{}\" # {assumed}\n",
        found.channels,
        found.dies_per_channel,
        found.channels * found.dies_per_channel,
        of(Part::Depth(32)),
        size(u64::from(found.page_sectors)),
        found.pages_per_block,
        get(found.read),
        of(Part::Random),
        get(found.program),
        if written {
            format!("fitted; 128 KiB written, 32 at a time: {}", of(Part::WriteStream))
        } else {
            assumed.clone()
        },
        get(found.erase),
        found.channel.to_exact_string(),
    );
    if let Some(suspend) = found.suspend {
        let _ = writeln!(text, "suspend = \"{}\" # {assumed}", get(suspend));
    }
    let _ = writeln!(text, "\n[buffer]");
    if found.buffer_sectors > 0 {
        let _ = writeln!(text, "size = \"{}\" # {assumed}", size(found.buffer_sectors));
    }
    let _ = write!(
        text,
        "protected = {} # {}\nflush = \"{}\" # {}\n\n[space]\nspare = {:?} # {assumed}\nfilled = {:?} # {assumed}\nworn_in = {} # assumed\nstreams = {} # {assumed}\n",
        found.protected,
        of_writes(Part::Flush),
        get(found.flush),
        of_writes(Part::Flush),
        found.spare,
        found.filled,
        found.worn_in,
        found.streams,
    );
    text
}

/// What is in front of the cells.
fn in_front(measured: &Measured, origin: &Origin, found: &Parameters, per_byte: f64) -> String {
    let of = |part| source(origin, measured.group(part));
    let get = |time: Nanos| exact(time.get() as f64);
    let told = match (origin.depth, found.depth) {
        (Some(_), _) => "as the kernel says",
        (None, 1) => "more at a time gain nothing",
        _ => "the most that was tried",
    };
    let of_latency = match measured.group(Part::Flush) {
        Some(flushes) => format!("what a write takes; flushes: {}", source(origin, Some(flushes))),
        None => format!("fitted with `read`; 4 KiB, one at a time: {}", of(Part::Random)),
    };
    format!(
        "\nsize = \"{}B\" # as the kernel says\ndepth = {} # {told}\n\
         link = \"{}\" # fitted; reads of 128 KiB, 32 at a time: {}\n\
         frame = \"{}\" # fitted; 4 KiB, 64 at a time: {}\ncommand = \"0us\" # in `latency`\n\
         latency = \"{}\" # {of_latency}\n",
        measured.scope.sectors * SECTOR,
        found.depth,
        rate(per_byte),
        of(Part::Stream),
        get(found.frame),
        of(Part::Depth(64)),
        get(found.latency),
    )
}
