//! From what was measured to a profile: the model that follows it best, as the text of its file.
//!
//! A device that turns is a hard disk ([`hdd`]). For any other both [`fixed`] and [`flash`] are fitted, and the simpler one is kept
//! unless the other is clearly nearer. Each number carries its source: what was measured, or the stored profile it is assumed from.

pub mod fixed;
pub mod flash;
pub mod hdd;

use surety_model::source::Diagnostics;
use surety_units::{Bytes, Nanos, Rate};

use super::plan::Measured;
use super::samples::{Group, Part, Sample, quantile, sorted};
use super::search::trial;
use crate::model::{Op, SECTOR};
use crate::profile::{Profile, SlowestRead};
use crate::worst::Asked;

/// What a profile says of the device it was measured on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Name of the profile.
    pub name: String,
    /// What it stands for, in a sentence.
    pub about: String,
    /// The day, as each number's source names it.
    pub date: String,
    /// What the kernel says of the device, and how it was reached.
    pub sources: Vec<String>,
    /// Commands the device takes at a time, where the kernel knows.
    pub depth: Option<u32>,
}

/// A profile with what is to be said about it.
#[derive(Clone, Debug)]
pub struct Fitted {
    pub profile: Profile,
    /// Its file.
    pub text: String,
    /// Why this model, and what could not be told.
    pub notes: Vec<String>,
}

/// Text of a profile with its device's numbers, and notes.
pub(super) struct Draft {
    pub text: String,
    pub notes: Vec<String>,
    /// About the relative error of its reads.
    pub error: f64,
}

/// The profile that follows what was measured.
///
/// # Errors
/// When too little was measured for one: in words, as of a profile that cannot be.
pub fn fit(measured: &Measured, origin: &Origin) -> Result<Fitted, Diagnostics> {
    let draft = match measured.turning {
        Some(turning) => hdd::draft(measured, turning, origin),
        None => of_solid(measured, origin),
    };
    let name = format!("{}.toml", origin.name);
    let profile = Profile::read(&origin.name, &name, &draft.text)?;
    let Some(read) = slowest_read(measured, &profile) else {
        return Ok(Fitted { profile, text: draft.text, notes: draft.notes });
    };
    let text = with_slowest_read(&draft.text, read);
    Ok(Fitted { profile: Profile::read(&origin.name, &name, &text)?, text, notes: draft.notes })
}

/// Of the reads that were made one at a time the one that took longest, as against what the model takes at most.
fn slowest_read(measured: &Measured, profile: &Profile) -> Option<SlowestRead> {
    let alone = measured.groups.iter().filter(|group| group.depth == 1 && group.part != Part::WarmUp);
    let reads = alone.flat_map(|group| &group.samples).filter(|sample| sample.request.op == Op::Read);
    let reads: Vec<&Sample> = reads.collect();
    let longest = reads.iter().map(|sample| sample.request.sectors).max()?;
    let worst = profile.worst(&Asked { range: 0..profile.sectors(), longest, writes: None }).ok()?;
    let beyond = |sample: &Sample| {
        let most = worst.read.of(u64::from(sample.request.sectors) * SECTOR);
        sample.completed - sample.issued - most
    };
    let slowest = reads.into_iter().max_by_key(|sample| beyond(sample))?;
    let took = slowest.completed - slowest.issued;
    Some(SlowestRead { sectors: slowest.request.sectors.into(), took })
}

/// The text of a profile with that read behind its sources.
fn with_slowest_read(text: &str, read: SlowestRead) -> String {
    const SOURCES: &str = "\n]\n";
    let line = format!(
        "# Of reads made one at a time the slowest, as against what this model takes at most: where it took longer, no guarantee is given.\n\
         slowest_read = {{ bytes = \"{}\", took = \"{}\" }}\n",
        Bytes(read.sectors * SECTOR).to_exact_string(),
        read.took.to_exact_string()
    );
    text.replacen(SOURCES, &format!("{SOURCES}{line}"), 1)
}

/// The simpler of two models, unless the other is nearer by more than a third and it is not near itself.
fn of_solid(measured: &Measured, origin: &Origin) -> Draft {
    /// Near enough.
    const NEAR: f64 = 0.02;
    let (mut fixed, mut flash) = (fixed::draft(measured, origin), flash::draft(measured, origin));
    let words = |draft: &Draft| format!("{:.1} %", draft.error * 100.0);
    let spread = spread(measured);
    let both = format!("`fixed` is {} off in the mean, `flash` {}", words(&fixed), words(&flash));
    if fixed.error > NEAR && flash.error < fixed.error * 2.0 / 3.0 {
        flash.notes.insert(0, format!("model `flash`: {both}"));
        flash.notes.extend(spread);
        flash
    } else {
        fixed.notes.insert(0, format!("model `fixed`, the simpler: {both}"));
        fixed.notes.extend(spread);
        fixed
    }
}

/// What is said of a device whose single requests differ by more than those of one that has nothing else to do.
fn spread(measured: &Measured) -> Option<String> {
    /// So many times the median.
    const WIDE: f64 = 3.0;
    let responses = measured.group(Part::Random)?.responses();
    let (middle, late) = (quantile(&responses, 0.5), quantile(&responses, 0.99));
    (late > WIDE * middle).then(|| {
        format!(
            "one read at a time takes {} in the median and {} in the 99th percentile: something else uses the disk, or what carries \
             it, and no model here has that",
            time(middle),
            time(late)
        )
    })
}

/// What the numbers of reads are fitted on.
fn reads(measured: &Measured) -> Vec<Group> {
    trial(&of_parts(measured, |part| {
        matches!(part, Part::Random | Part::Depth(_) | Part::Size(_) | Part::Sequential(_) | Part::Stream)
    }))
}

/// What the numbers of writes are fitted on.
fn writes(measured: &Measured) -> Vec<Group> {
    trial(&of_parts(measured, |part| matches!(part, Part::Write(_) | Part::WriteStream | Part::Flush)))
}

fn of_parts(measured: &Measured, is_wanted: fn(Part) -> bool) -> Vec<&Group> {
    let is_wanted = |group: &&Group| is_wanted(group.part) && group.interval().is_some();
    measured.groups.iter().filter(is_wanted).collect()
}

/// The median response of a part.
fn median(measured: &Measured, part: Part) -> Option<f64> {
    let responses = measured.group(part)?.responses();
    (!responses.is_empty()).then(|| quantile(&responses, 0.5))
}

/// The median time of a write that finds nothing else to be written: those before each flush.
fn lone_write(measured: &Measured) -> Option<f64> {
    let group = measured.group(Part::Flush)?;
    let writes = group.samples.iter().filter(|sample| sample.request.op == Op::Write);
    let responses = sorted(writes.map(Sample::response).collect());
    (!responses.is_empty()).then(|| quantile(&responses, 0.5))
}

/// The fewest at a time with which the rate is the best, or nearly; 1 where it gains nothing.
fn depth(measured: &Measured) -> u32 {
    /// A depth with this share of the best rate is as good.
    const FULL: f64 = 0.97;
    /// Less than this is no gain.
    const GAIN: f64 = 1.1;
    let rates = measured.groups.iter().filter_map(|group| match group.part {
        Part::Random => Some((1, 1.0 / group.interval()?)),
        Part::Depth(depth) => Some((depth, 1.0 / group.interval()?)),
        _ => None,
    });
    let rates: Vec<(u32, f64)> = rates.collect();
    let best = rates.iter().map(|rate| rate.1).fold(0.0, f64::max);
    match rates.first() {
        Some(one) if best > one.1 * GAIN => {
            rates.iter().find(|rate| rate.1 >= FULL * best).map_or(1, |rate| rate.0)
        }
        _ => 1,
    }
}

/// The first lines of a profile.
fn head(model: &str, origin: &Origin) -> String {
    let sources: Vec<String> =
        origin.sources.iter().map(|source| format!("    {},\n", quoted(source))).collect();
    format!(
        "# Measured by `surety device characterise`. Each number has its source beside it; what was not measured says so.\n\
         format = 1\nmodel = \"{model}\"\nabout = {}\nsources = [\n{}]\n",
        quoted(&origin.about),
        sources.concat()
    )
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The source of a number that a group gave.
fn source(origin: &Origin, group: Option<&Group>) -> String {
    let Some(group) = group else { return "not measured".to_owned() };
    let responses = group.responses();
    let of = |q| time(quantile(&responses, q));
    format!("measured {}: {} requests, p50 {}, p99 {}", origin.date, responses.len(), of(0.5), of(0.99))
}

/// A time of some nanoseconds with four digits, for people.
fn time(ns: f64) -> String {
    Nanos::from_f64_rounded(ns).to_string()
}

/// A time of some nanoseconds as a file has it, with four digits.
fn exact(ns: f64) -> String {
    Nanos::from_f64_rounded(four_digits(ns.max(0.0))).to_exact_string()
}

/// A rate of so many nanoseconds a byte as a file has it, with four digits.
fn rate(ns_per_byte: f64) -> String {
    Rate(four_digits(1e9 / ns_per_byte.max(1e-9)).max(1.0) as u64).to_exact_string()
}

/// Rounded to four digits.
fn four_digits(value: f64) -> f64 {
    let mut unit = 1.0;
    while value / unit >= 10_000.0 {
        unit *= 10.0;
    }
    (value / unit).round() * unit
}
