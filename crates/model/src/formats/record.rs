//! Records read back from the JSON that `--json` writes: `surety.record/1`, described in `docs/formats/record.md`.
//!
//! What is derived there (means, quantiles, verdicts) is not read: it is computed anew from histograms, moments and
//! evidence, so a record that was read says what the one that was written said. Keys this version does not know are
//! passed over, as the format promises.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use surety_stats::bounds::Ranked;
use surety_stats::{Blocks, Failures, Histogram, Moments, Sequence};
use surety_units::{CpuSet, Nanos, Tid};
use thiserror::Error;

use crate::environment::Check;
use crate::platform::Platform;
use crate::promise::Promise;
use crate::record::{
    ActivityRecord, Basis, Caveat, Distribution, Disturbance, Evidence, Figure, InForce, Observed, Promised,
    Record, Share, ThreadInForce, ThreadSeen, TraceQuality,
};
use crate::workload::{ActivityKind, ThreadRole};

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
    in_force: InForceForm,
    degraded: Vec<String>,
    hash: Option<String>,
    trace: Option<TraceForm>,
    activities: Vec<ActivityForm>,
}

/// An integer, as text where a double would not hold it.
#[derive(Deserialize)]
#[serde(untagged)]
enum IntegerForm {
    Number(u64),
    Text(String),
}

#[derive(Deserialize)]
struct InForceForm {
    kernel: String,
    cpus: String,
    #[serde(default)]
    machine: Option<Platform>,
    threads: Vec<ThreadForm>,
    environment: BTreeMap<String, String>,
    #[serde(default)]
    checks: Vec<Check>,
    #[serde(default)]
    disturbance: Option<Disturbance>,
}

#[derive(Deserialize)]
struct ThreadForm {
    activity: String,
    tid: Option<Tid>,
    policy: String,
    affinity: String,
    as_requested: bool,
}

#[derive(Deserialize)]
struct TraceForm {
    events: u64,
    lost: u64,
    censored_jobs: u64,
}

#[derive(Deserialize)]
struct ActivityForm {
    name: String,
    kind: String,
    basis: String,
    activations: u64,
    completed: u64,
    skipped: u64,
    unfinished: u64,
    missed: u64,
    #[serde(default)]
    misses: Option<CellsForm>,
    deadline_ns: Option<Nanos>,
    response_ns: Option<DistributionForm>,
    latency_ns: Option<DistributionForm>,
    execution_ns: Option<DistributionForm>,
    #[serde(default)]
    series: BTreeMap<String, DistributionForm>,
    share: Option<ShareForm>,
    #[serde(default)]
    threads: Vec<ThreadSeenForm>,
    longest_gap_ns: Option<Nanos>,
    figures: Vec<FigureForm>,
    #[serde(default)]
    caveats: Vec<Caveat>,
    promises: Vec<PromiseForm>,
}

#[derive(Deserialize)]
struct DistributionForm {
    histogram: Option<Vec<(u64, u64, u64)>>,
    moments: Option<Moments>,
    min: Option<u64>,
    max: Option<u64>,
    quantiles: Vec<QuantileForm>,
    sequence: Option<SequenceForm>,
    #[serde(default)]
    never: u64,
    #[serde(default)]
    open: u64,
    #[serde(default)]
    blocks: Option<BlocksForm>,
}

/// Rough histograms of the parts of a run, one of every so many values: part, bucket, count.
#[derive(Deserialize)]
struct BlocksForm {
    every: u64,
    cells: Vec<(u64, u64, u32)>,
}

/// Failures in the order of the trials, one cell for every so many: place, count.
#[derive(Deserialize)]
struct CellsForm {
    every: u64,
    cells: Vec<(u64, u64)>,
}

impl CellsForm {
    fn into_failures(self, trials: u64) -> Result<Failures, String> {
        Failures::of_kept(&self.cells, self.every, trials)
            .ok_or_else(|| format!("its cells are no part of {trials} activations, {} in each", self.every))
    }
}

#[derive(Deserialize)]
struct SequenceForm {
    every: u64,
    values: Vec<u64>,
}

#[derive(Deserialize)]
struct QuantileForm {
    q: f64,
    value: Option<Nanos>,
}

#[derive(Deserialize)]
struct ShareForm {
    span_ns: Nanos,
    threads: Vec<ShareThreadForm>,
}

#[derive(Deserialize)]
struct ShareThreadForm {
    run_ns: Nanos,
    waited_ns: Option<Nanos>,
}

#[derive(Deserialize)]
struct ThreadSeenForm {
    tid: Tid,
    comm: String,
    rank: u32,
    run_ns: Nanos,
}

#[derive(Deserialize)]
struct FigureForm {
    name: String,
    value: Option<f64>,
    unit: String,
}

#[derive(Deserialize)]
struct PromiseForm {
    text: String,
    evidence: Option<EvidenceForm>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum EvidenceForm {
    Counted { within: u64, of: u64, outside: Option<CellsForm> },
    Value { value: f64, of_demand: Option<f64> },
    Runs { runs: Vec<f64> },
    Proven { at_least: f64, because: String },
    NotObservable { not_observable: String },
}

impl EvidenceForm {
    fn into_evidence(self) -> Result<Evidence, String> {
        Ok(match self {
            EvidenceForm::Counted { within, of, outside } => {
                let failures = of
                    .checked_sub(within)
                    .ok_or_else(|| format!("{within} of {of} activations are within"))?;
                let outside = match outside {
                    Some(cells) => cells.into_failures(of)?,
                    None => Failures::unordered(failures, of),
                };
                if outside.failures() != failures {
                    return Err(format!(
                        "its cells hold {} activations, {failures} are outside",
                        outside.failures()
                    ));
                }
                Evidence::Counted(outside)
            }
            EvidenceForm::Value { value, of_demand } => Evidence::Value { value, of_demand },
            EvidenceForm::Runs { runs } => Evidence::Runs(runs),
            EvidenceForm::Proven { at_least, because } => Evidence::Proven { at_least, because },
            EvidenceForm::NotObservable { not_observable } => {
                Evidence::NotObservable { because: not_observable }
            }
        })
    }
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
        let cpus = |text: &str| text.parse::<CpuSet>().map_err(|e| wrong(format!("the CPUs `{text}`: {e}")));
        let threads = self
            .in_force
            .threads
            .iter()
            .map(|t| {
                Ok(ThreadInForce {
                    activity: t.activity.clone(),
                    tid: t.tid,
                    policy: t.policy.clone(),
                    affinity: cpus(&t.affinity)?,
                    as_requested: t.as_requested,
                })
            })
            .collect::<Result<_, RecordFileError>>()?;
        let in_force = InForce {
            kernel: self.in_force.kernel.clone(),
            cpus: cpus(&self.in_force.cpus)?,
            machine: self.in_force.machine,
            threads,
            environment: self.in_force.environment,
            checks: self.in_force.checks,
            disturbance: self.in_force.disturbance,
        };
        let activities = self
            .activities
            .into_iter()
            .map(|activity| activity.into_record(&self.label))
            .collect::<Result<_, _>>()?;
        let trace = self.trace.map(|t| TraceQuality {
            events: t.events,
            lost: t.lost,
            censored_jobs: t.censored_jobs,
        });
        let record = Record {
            world: self.world,
            reserved: self.reserved,
            seed,
            duration: self.duration_ns,
            in_force,
            degraded: self.degraded,
            activities,
            trace,
            hash,
        };
        Ok(LabelledRecord { label: self.label, record })
    }
}

impl ActivityForm {
    fn into_record(self, label: &str) -> Result<ActivityRecord, RecordFileError> {
        let object = format!("result `{label}`, activity `{}`", self.name);
        let wrong = |why: String| RecordFileError::Value { object: object.clone(), why };
        let kind = ActivityKind::of_word(&self.kind);
        let kind = kind.ok_or_else(|| wrong(format!("there is no kind of activity `{}`", self.kind)))?;
        let basis = match self.basis.as_str() {
            "sample" => Basis::Sample,
            "exact" => Basis::Exact,
            "bound" => Basis::Bound,
            other => return Err(wrong(format!("there is no basis `{other}`"))),
        };
        let distribution = |form: Option<DistributionForm>| -> Result<Option<Distribution>, RecordFileError> {
            form.map(|form| form.into_distribution().map_err(&wrong)).transpose()
        };
        let mut record = ActivityRecord::new(&self.name, kind, basis);
        for PromiseForm { text, evidence } in self.promises {
            let promise = Promise::parse(&text).map_err(|e| wrong(format!("the promise `{text}`: {e}")))?;
            let evidence = match evidence {
                Some(form) => form.into_evidence().map_err(&wrong)?,
                None => Evidence::NotObservable {
                    because: "the file does not hold what it was judged by".to_owned(),
                },
            };
            record.promised.push(Promised { promise, evidence });
        }
        record.activations = self.activations;
        record.completed = self.completed;
        record.skipped = self.skipped;
        record.unfinished = self.unfinished;
        record.missed = self.missed;
        record.misses = match self.misses {
            Some(cells) => cells.into_failures(self.activations).map_err(&wrong)?,
            None => Failures::unordered(self.missed, self.activations),
        };
        // Activations that are only counted have no order, and no cells.
        if record.misses.failures() != 0 && record.misses.failures() != self.missed {
            return Err(wrong(format!(
                "the cells of its misses hold {} activations, {} are missed",
                record.misses.failures(),
                self.missed
            )));
        }
        record.deadline = self.deadline_ns;
        record.response = distribution(self.response_ns)?;
        record.latency = distribution(self.latency_ns)?;
        record.execution = distribution(self.execution_ns)?;
        for (name, form) in self.series {
            record.series.insert(name, form.into_distribution().map_err(&wrong)?);
        }
        record.share = self.share.map(|share| Share {
            threads: share.threads.iter().map(|t| (t.run_ns, t.waited_ns)).collect(),
            span: share.span_ns,
        });
        record.threads = self
            .threads
            .into_iter()
            .map(|t| ThreadSeen {
                tid: t.tid,
                role: ThreadRole { comm: t.comm, rank: t.rank },
                run: t.run_ns,
            })
            .collect();
        record.longest_gap = self.longest_gap_ns;
        record.caveats = self.caveats;
        record.figures = self
            .figures
            .into_iter()
            .map(|f| Figure { name: f.name, value: f.value.unwrap_or(f64::NAN), unit: Cow::Owned(f.unit) })
            .collect();
        Ok(record)
    }
}

impl DistributionForm {
    fn into_distribution(self) -> Result<Distribution, String> {
        let Some(buckets) = self.histogram else {
            let limits = self.quantiles.iter().filter_map(|quantile| Some((quantile.q, quantile.value?)));
            return Ok(Distribution::Limits(limits.collect()));
        };
        let mut histogram = Histogram::new();
        for (low, high, count) in buckets {
            if low > high || count == 0 {
                return Err(format!("[{low}, {high}, {count}] is no bucket of a histogram"));
            }
            // The extremes are known exactly: each stands for itself in its bucket.
            let (min, max) = (self.min.unwrap_or(low), self.max.unwrap_or(high));
            let holds = |value: u64| low <= value && value <= high;
            let mut rest = count;
            for extreme in [min, max].into_iter().filter(|value| holds(*value)) {
                if rest > 0 {
                    histogram.record(extreme);
                    rest -= 1;
                }
            }
            histogram.record_n(low.clamp(min, max.max(min)), rest);
        }
        if (histogram.min(), histogram.max()) != (self.min, self.max) {
            return Err("the histogram and its extremes contradict each other".to_owned());
        }
        let mut observed = match self.moments {
            Some(moments) if moments.count() == histogram.count() => {
                Observed { histogram, moments, ..Observed::default() }
            }
            Some(moments) => {
                return Err(format!(
                    "the moments are of {} values, the histogram of {}",
                    moments.count(),
                    histogram.count()
                ));
            }
            None => Observed::of_histogram(histogram),
        };
        if let Some(SequenceForm { every, values }) = self.sequence {
            let count = observed.histogram.count();
            let kept = Sequence::of_kept(values, every, count);
            observed.sequence = kept
                .ok_or_else(|| format!("its sequence is no part of {count} values, one of every {every}"))?;
        }
        (observed.never, observed.open) = (self.never, self.open);
        if let Some(BlocksForm { every, cells }) = self.blocks {
            let count = observed.count();
            let kept = Blocks::of_kept(&cells, every, count);
            observed.blocks = kept
                .ok_or_else(|| format!("its blocks are no part of {count} activations, {every} in each"))?;
        }
        Ok(Distribution::Observed(Box::new(observed)))
    }
}
