//! Records as JSON: `surety.record/1`, described key by key in `docs/formats/record.md`.
//!
//! Times are integer nanoseconds. What is not known is `null`, and so is what is not finite: there is no NaN and no infinity. Every
//! key is always there. What is derived (means, quantiles, verdicts) is not read: it is computed anew from histograms, moments
//! and evidence, so a record that was read says what the one that was written said. Keys this version does not know are passed
//! over, as the format promises.

mod activity;
mod distribution;

use serde::Deserialize;
use serde_json::{Value, json};
use surety_units::Nanos;
use thiserror::Error;

use crate::record::{InForce, Record, TraceQuality};

use activity::ActivityForm;
pub use distribution::QUANTILES;

/// The schema's name and version.
pub const RECORD_SCHEMA: &str = "surety.record/1";

/// What a file of results holds.
#[derive(Clone, Debug)]
pub struct RecordFile {
    /// The workload's title.
    pub title: Option<String>,
    /// The file the workload was read from.
    pub workload: Option<String>,
    /// Every result in the order in which it was made.
    pub results: Vec<LabelledRecord>,
}

/// A result with its name in tables.
#[derive(Clone, Debug)]
pub struct LabelledRecord {
    /// `host unreserved`.
    pub label: String,
    /// The result.
    pub record: Record,
}

/// A text that is no file of results.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordFileError {
    /// No JSON, or not of this form.
    #[error("line {}, column {}: {source}", source.line(), source.column())]
    Json {
        /// Where and why.
        #[from]
        source: serde_json::Error,
    },
    /// Another document.
    #[error("its schema is `{found}`, expected `{RECORD_SCHEMA}`: write one with `surety run --json`")]
    Schema {
        /// What it says it is.
        found: String,
    },
    /// A value that cannot be.
    #[error("{object}: {why}")]
    Value {
        /// Which result and activity.
        object: String,
        /// What is wrong.
        why: String,
    },
}

/// Reads a file of results.
///
/// # Errors
/// [`RecordFileError`], with the place.
pub fn read(text: &str) -> Result<RecordFile, RecordFileError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let head: Head = serde_json::from_str(text)?;
    if head.schema != RECORD_SCHEMA {
        return Err(RecordFileError::Schema { found: head.schema });
    }
    let form: FileForm = serde_json::from_str(text)?;
    let results = form.results.into_iter().map(ResultForm::into_record).collect::<Result<_, _>>()?;
    Ok(RecordFile { title: form.workload.title, workload: form.workload.file, results })
}

/// Integers beyond this are not exact in a reader that keeps numbers as doubles (RFC 8259, section 6).
const EXACT_MAX: u64 = 1 << 53;

/// A number where every reader keeps it exactly, else its decimal text.
pub fn exact_integer(value: u64) -> Value {
    if value <= EXACT_MAX { json!(value) } else { json!(value.to_string()) }
}

/// A record as an element of the document's `results`.
pub fn write_result(label: &str, record: &Record) -> Value {
    json!({
        "label": label,
        "world": record.world,
        "reserved": record.reserved,
        "seed": record.seed.map(exact_integer),
        "duration_ns": record.duration,
        "in_force": record.in_force,
        "trusted": record.is_trusted(),
        "degraded": record.degraded,
        "hash": record.hash.map(|h| format!("{h:016x}")),
        "trace": record.trace,
        "activities": record.activities.iter().map(activity::write).collect::<Vec<_>>(),
    })
}

#[derive(Deserialize)]
struct FileForm {
    workload: WorkloadForm,
    results: Vec<ResultForm>,
}

#[derive(Deserialize)]
struct WorkloadForm {
    title: Option<String>,
    file: Option<String>,
}

#[derive(Deserialize)]
struct ResultForm {
    label: String,
    world: String,
    reserved: bool,
    seed: Option<IntegerForm>,
    duration_ns: Option<Nanos>,
    in_force: InForce,
    degraded: Vec<String>,
    hash: Option<String>,
    trace: Option<TraceQuality>,
    activities: Vec<ActivityForm>,
}

/// An integer, as text where a double would not hold it.
#[derive(Deserialize)]
#[serde(untagged)]
enum IntegerForm {
    Number(u64),
    Text(String),
}

impl ResultForm {
    fn into_record(self) -> Result<LabelledRecord, RecordFileError> {
        let object = format!("result `{}`", self.label);
        let wrong = |why: String| RecordFileError::Value { object: object.clone(), why };
        let seed = match self.seed {
            None => None,
            Some(IntegerForm::Number(seed)) => Some(seed),
            Some(IntegerForm::Text(text)) => {
                Some(text.parse().map_err(|_| wrong(format!("`{text}` is no seed")))?)
            }
        };
        let hash = self
            .hash
            .map(|text| u64::from_str_radix(&text, 16).map_err(|_| wrong(format!("`{text}` is no hash"))))
            .transpose()?;
        let read = |activity: ActivityForm| {
            let object = format!("{object}, activity `{}`", activity.name);
            activity.into_record().map_err(|why| RecordFileError::Value { object, why })
        };
        let record = Record {
            world: self.world,
            reserved: self.reserved,
            seed,
            duration: self.duration_ns,
            in_force: self.in_force,
            degraded: self.degraded,
            activities: self.activities.into_iter().map(read).collect::<Result<_, _>>()?,
            trace: self.trace,
            hash,
        };
        Ok(LabelledRecord { label: self.label, record })
    }
}
