//! The model `fixed`: a time, a rate, and how many requests are served beside each other.

use std::fmt::Write as _;

use surety_units::{Nanos, Rate};

use super::{Draft, Origin, exact, head, median, rate, reads, source};
use crate::characterise::plan::Measured;
use crate::characterise::samples::Part;
use crate::characterise::search::{descend, error};
use crate::fixed::{Fixed, Parameters};
use crate::model::SECTOR;

/// The most requests that were tried at a time.
pub(super) const DEPTH_TRIED: u32 = 64;

/// A request of 1 MiB that takes less longer than one of 4 KiB: its data take no time.
const FREE: f64 = 1.02;

/// The nearest.
pub(in crate::characterise) fn draft(measured: &Measured, origin: &Origin) -> Draft {
    let median = |part| median(measured, part);
    let random = median(Part::Random).unwrap_or(1.0).max(1.0);
    let large = median(Part::Size(2048)).unwrap_or(random);
    let moves = large > FREE * random;
    let per_byte = if moves { (large - random) / f64::from(2048 - 8) / SECTOR as f64 } else { 0.0 };
    let fastest = measured.groups.iter().filter(|group| matches!(group.part, Part::Depth(_)));
    let fastest = fastest.filter_map(|group| group.interval()).fold(random, f64::min);
    let depth = origin.depth.unwrap_or(DEPTH_TRIED);
    let write = median(Part::Write(1)).map(|write| (write - 4096.0 * per_byte).max(0.0));
    let made = |numbers: &[f64]| Parameters {
        sectors: measured.scope.sectors,
        read: Nanos::from_f64_rounded(numbers[0]),
        write: Nanos::from_f64_rounded(write.unwrap_or(numbers[0])),
        flush: Nanos::from_f64_rounded(median(Part::Flush).unwrap_or(numbers[0])),
        rate: if moves { Rate((1e9 / numbers[1].max(1e-9)) as u64) } else { Rate(0) },
        lanes: (numbers[2].round() as usize).clamp(1, depth as usize),
        depth: depth as usize,
    };
    let groups = reads(measured);
    let start = vec![(random - 4096.0 * per_byte).max(1.0), per_byte, (random / fastest).max(1.0)];
    let (numbers, off) = descend(vec![start], |numbers| error(&groups, &mut Fixed::new(made(numbers))));
    let found = made(&numbers);
    Draft { text: text(measured, origin, &found, numbers[1]), notes: Vec::new(), error: off }
}

fn text(measured: &Measured, origin: &Origin, found: &Parameters, per_byte: f64) -> String {
    let of = |part| source(origin, measured.group(part));
    let is_written = measured.group(Part::Write(1)).is_some();
    let beside =
        if is_written { of(Part::Write(1)) } else { "assumed as a read: nothing was written".to_owned() };
    let flushed = if is_written { of(Part::Flush) } else { beside.clone() };
    let told = if origin.depth.is_some() { "as the kernel says" } else { "the most that was tried" };
    let mut text = head("fixed", origin);
    let get = |time: Nanos| exact(time.get() as f64);
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "\nsize = \"{}B\" # as the kernel says\n\
         read = \"{}\" # fitted; 4 KiB, one at a time: {}\n\
         write = \"{}\" # {beside}\n\
         flush = \"{}\" # {flushed}\n",
        measured.scope.sectors * SECTOR,
        get(found.read),
        of(Part::Random),
        get(found.write),
        get(found.flush),
    );
    if found.rate.0 > 0 {
        let _ = writeln!(
            text,
            "rate = \"{}\" # fitted to reads of up to 1 MiB; 1 MiB: {}",
            rate(per_byte),
            of(Part::Size(2048))
        );
    }
    let lanes = format!("fitted to reads at depths of up to {DEPTH_TRIED}; at 32: {}", of(Part::Depth(32)));
    let _ = write!(text, "lanes = {} # {lanes}\ndepth = {} # {told}\n", found.lanes, found.depth);
    text
}
