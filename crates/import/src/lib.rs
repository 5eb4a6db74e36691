//! Results of other measuring programs as records: what was measured elsewhere is compared, reported and gated like
//! our own.
//!
//! [`read`] looks at the content, finds the format in one table (`FORMATS`) and gives one record. Each format is a
//! file of its own that says what it reads, in which unit, and what of the original cannot be known. Three rules hold
//! for all:
//!
//! - Every sample counts. What lies beyond a program's last bucket takes part in the count and the ranks, as late as
//!   the program's maximum says, and the record says that the tail between is not known.
//! - A bucket stands for its upper edge, cut to the extremes: no imported result is better than the measured one.
//! - What a program concluded (averages of averages, confidence, interpolated percentiles) is not taken over where it
//!   can be computed from counts.
//!
//! Input is hostile: memory is bounded by the input's size, and every mistake is an error with its line or byte.

#![forbid(unsafe_code)]

mod assemble;
mod cyclictest;
mod fio;
mod fio_log;
mod hackbench;
mod hdr;
mod hdr_log;
mod hdr_table;
mod hyperfine;
mod input;
mod jitterdebugger;
mod json;
mod oslat;
mod perf_bench;
mod perf_sched;
mod rt_app;
mod rt_tests;
mod rtla;
mod s_suite;
mod schbench;
mod totals;
mod wrk;

use surety_model::formats::record::LabelledRecord;
use surety_model::record::{ActivityRecord, Record};
use thiserror::Error;

use input::Input;

/// A text or some bytes that are no result of a known program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// No format's mark was found.
    #[error("no known format: {}", names())]
    Unknown,
    /// A file of a format, without a single result.
    #[error("{format}: it holds no value: no sample, no figure")]
    Empty { format: &'static str },
    /// A line is not what the format has there.
    #[error("{format}, line {line}: {why}")]
    Line {
        format: &'static str,
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// Some bytes are not what the format has there.
    #[error("{format}, byte {at}: {why}")]
    Byte {
        format: &'static str,
        /// From 0.
        at: usize,
        /// What is wrong.
        why: String,
    },
    /// An object of a document is not what the format has there.
    #[error("{format}, {object}: {why}")]
    Object {
        format: &'static str,
        /// Keys on the way to it.
        object: String,
        /// What is wrong.
        why: String,
    },
}

/// One member of the family.
struct Format {
    /// Its name in messages.
    name: &'static str,
    /// Whether an input bears its mark.
    detect: fn(&Input<'_>) -> bool,
    read: fn(&Input<'_>) -> Result<Record, ImportError>,
}

/// Every format, the surest mark first.
const FORMATS: [Format; 19] = [
    Format { name: fio::NAME, detect: fio::detect, read: fio::read },
    Format { name: hyperfine::NAME, detect: hyperfine::detect, read: hyperfine::read },
    Format { name: schbench::JSON, detect: schbench::detect_json, read: schbench::read_json },
    Format {
        name: jitterdebugger::JSON,
        detect: jitterdebugger::detect_json,
        read: jitterdebugger::read_json,
    },
    Format { name: rt_tests::NAME, detect: rt_tests::detect, read: rt_tests::read },
    Format { name: rtla::NAME, detect: rtla::detect, read: rtla::read },
    Format { name: hdr_log::NAME, detect: hdr_log::detect, read: hdr_log::read },
    Format { name: wrk::NAME, detect: wrk::detect, read: wrk::read },
    Format { name: hdr::NAME, detect: hdr::detect, read: hdr::read },
    Format { name: schbench::TEXT, detect: schbench::detect_text, read: schbench::read_text },
    Format { name: oslat::NAME, detect: oslat::detect, read: oslat::read },
    Format { name: rt_app::NAME, detect: rt_app::detect, read: rt_app::read },
    Format { name: s_suite::NAME, detect: s_suite::detect, read: s_suite::read },
    Format { name: perf_sched::NAME, detect: perf_sched::detect, read: perf_sched::read },
    Format { name: perf_bench::TEXT, detect: perf_bench::detect_text, read: perf_bench::read_text },
    Format { name: hackbench::NAME, detect: hackbench::detect, read: hackbench::read },
    Format { name: cyclictest::NAME, detect: cyclictest::detect, read: cyclictest::read },
    Format { name: fio_log::NAME, detect: fio_log::detect, read: fio_log::read },
    Format { name: perf_bench::SIMPLE, detect: perf_bench::detect_simple, read: perf_bench::read_simple },
];

/// The binary format, which has no mark and is tried last.
const SAMPLES: Format =
    Format { name: jitterdebugger::RAW, detect: jitterdebugger::detect_raw, read: jitterdebugger::read_raw };

fn names() -> String {
    let names: Vec<&str> = FORMATS.iter().chain([&SAMPLES]).map(|f| f.name).collect();
    format!("there are {}", names.join(", "))
}

/// Reads the results in a file of another program. The file's name is the label, without directories and the last
/// ending, and says what was measured where the format does not.
///
/// # Errors
/// [`ImportError`], with the place.
pub fn read(name: &str, bytes: &[u8]) -> Result<LabelledRecord, ImportError> {
    let input = Input::new(name, bytes);
    let format = FORMATS.iter().chain([&SAMPLES]).find(|f| (f.detect)(&input));
    let format = format.ok_or(ImportError::Unknown)?;
    let record = (format.read)(&input)?;
    let holds_a_value = |a: &ActivityRecord| {
        a.latency.is_some() || a.response.is_some() || !a.series.is_empty() || !a.figures.is_empty()
    };
    if !record.activities.iter().any(holds_a_value) {
        return Err(ImportError::Empty { format: format.name });
    }
    Ok(LabelledRecord { label: input.stem().to_owned(), record })
}
