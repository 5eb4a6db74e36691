//! The model `flash`: dies, their cells, the link and the controller, so that the paces are those measured.
//!
//! What one read at a time takes is a sum; how it divides follows from many at a time, which wait for the same die (cells) or for
//! the same link, and from large reads, whose pages are read beside each other. Pages, blocks and what becomes of writes cannot be
//! told by reading.

use std::fmt::Write as _;

use surety_units::{Nanos, Rate};

use super::fixed::DEPTH_TRIED;
use super::{Draft, Origin, exact, head, paced, rate, source};
use crate::characterise::plan::Measured;
use crate::characterise::samples::{Part, quantile};
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
    let median = |part| measured.group(part).map(|group| quantile(&group.responses(), 0.5));
    let random = median(Part::Random).unwrap_or(1.0).max(1.0);
    let pace = measured.group(Part::Stream).and_then(|group| Some(group.interval()? / group.bytes() as f64));
    let per_byte = pace.unwrap_or(1.0).max(1e-3);
    let (base, like) = assumed(1e9 / per_byte);
    let (write, flush) = (median(Part::Write(1)), median(Part::Flush));
    // A flush that takes no longer than a write found nothing to do.
    let outlives = write.zip(flush).map(|(write, flush)| flush < 1.5 * write);
    let made = |numbers: &[f64]| {
        let dies = (numbers[3].round() as u32).clamp(1, 512);
        let channels = dies.min(like.channels);
        let mut made = Parameters {
            sectors: measured.scope.sectors,
            latency: Nanos::from_f64_rounded(numbers[0]),
            read: Nanos::from_f64_rounded(numbers[1]),
            frame: Nanos::from_f64_rounded(numbers[2]),
            command: Nanos::ZERO,
            channels,
            dies_per_channel: dies.div_ceil(channels),
            link: Rate((1e9 / numbers[4].max(1e-9)) as u64),
            depth: origin.depth.unwrap_or(DEPTH_TRIED) as usize,
            ..like.clone()
        };
        if let Some((outlives, flush)) = outlives.zip(flush) {
            (made.protected, made.worn_in) = (outlives, false);
            made.flush = Nanos::from_f64_rounded((flush - made.program.get() as f64).max(0.0));
        }
        fitting(made)
    };
    let start = vec![0.2 * random, 0.65 * random, 0.03 * random, 32.0, per_byte];
    let groups = paced(measured);
    let (numbers, off) = descend(start, |numbers| error(&groups, &mut Flash::new(made(numbers), 1)));
    let found = made(&numbers);
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
    let (told, written) = (
        if origin.depth.is_some() { "as the kernel says" } else { "the most that was tried" },
        measured.group(Part::Write(1)).is_some(),
    );
    let of_writes = |part| if written { of(part) } else { assumed.clone() };
    let mut text = head("flash", origin);
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "\nsize = \"{}B\" # as the kernel says\ndepth = {} # {told}\n\
         link = \"{}\" # fitted; reads of 128 KiB, 32 at a time: {}\n\
         frame = \"{}\" # fitted; 4 KiB, 64 at a time: {}\ncommand = \"0us\" # in `latency`\n\
         latency = \"{}\" # fitted with `read`; 4 KiB, one at a time: {}\n",
        measured.scope.sectors * SECTOR,
        found.depth,
        rate(per_byte),
        of(Part::Stream),
        get(found.frame),
        of(Part::Depth(64)),
        get(found.latency),
        of(Part::Random),
    );
    let _ = write!(
        text,
        "\n[cells]\nchannels = {} # {assumed} at most\n\
         dies_per_channel = {} # fitted: {} dies; 4 KiB, 32 at a time: {}\n\
         page = \"{}\" # {assumed}\npages_per_block = {} # {assumed} at most\n\
         read = \"{}\" # fitted; 4 KiB, one at a time: {}\n\
         program = \"{}\" # {assumed}\nerase = \"{}\" # {assumed}\nchannel = \"{}\" # {assumed}\n",
        found.channels,
        found.dies_per_channel,
        found.channels * found.dies_per_channel,
        of(Part::Depth(32)),
        size(u64::from(found.page_sectors)),
        found.pages_per_block,
        get(found.read),
        of(Part::Random),
        get(found.program),
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
        "protected = {} # {}\nflush = \"{}\" # {}\n\n[space]\nspare = {:?} # {assumed}\nfilled = {:?} # {assumed}\nworn_in = {} # assumed\n",
        found.protected,
        of_writes(Part::Flush),
        get(found.flush),
        of_writes(Part::Flush),
        found.spare,
        found.filled,
        found.worn_in,
    );
    text
}
