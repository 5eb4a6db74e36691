//! Activities with their promises.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use surety_stats::Failures;
use surety_units::Nanos;

use super::distribution::{self, DistributionForm};
use crate::promise::Promise;
use crate::record::{
    ActivityRecord, Basis, Caveat, Distribution, Evidence, Figure, NextLargest, Promised, Share, ThreadSeen,
};
use crate::verdict::judge;
use crate::workload::ActivityKind;

pub(super) fn write(activity: &ActivityRecord) -> Value {
    let of = |d: &Option<Distribution>| d.as_ref().map(|d| distribution::write(d, activity.basis));
    let series =
        activity.series.iter().map(|(name, d)| (name.clone(), distribution::write(d, activity.basis)));
    let promises = judge(activity).into_iter().zip(&activity.promised).map(|(verdict, promised)| {
        json!({
            "text": promised.promise,
            "verdict": verdict.outcome,
            "because": verdict.because,
            "evidence": EvidenceForm::of(&promised.evidence),
        })
    });
    json!({
        "name": activity.name,
        "kind": activity.kind.word(),
        "basis": activity.basis,
        "activations": activity.activations,
        "completed": activity.completed,
        "skipped": activity.skipped,
        "unfinished": activity.unfinished,
        "missed": activity.missed,
        "misses": (activity.misses.trials() == activity.activations).then(|| CellsForm::of(&activity.misses)),
        "deadline_ns": activity.deadline,
        "response_ns": of(&activity.response),
        "latency_ns": of(&activity.latency),
        "execution_ns": of(&activity.execution),
        "series": series.collect::<Map<String, Value>>(),
        "share": activity.share.as_ref().map(share),
        "threads": activity.threads,
        "longest_gap_ns": activity.longest_gap,
        "figures": activity.figures,
        "next_largest": activity.next_largest,
        "caveats": activity.caveats,
        "promises": promises.collect::<Vec<_>>(),
    })
}

fn share(share: &Share) -> Value {
    let threads = share.threads.iter().map(|(run, waited)| json!({ "run_ns": run, "waited_ns": waited }));
    json!({
        "fraction": share.fraction(),
        "of_demand": share.of_demand(),
        "span_ns": share.span,
        "threads": threads.collect::<Vec<_>>(),
    })
}

#[derive(Deserialize)]
pub(super) struct ActivityForm {
    pub name: String,
    kind: String,
    basis: Basis,
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
    threads: Vec<ThreadSeen>,
    longest_gap_ns: Option<Nanos>,
    figures: Vec<Figure>,
    #[serde(default)]
    next_largest: Option<NextLargest>,
    #[serde(default)]
    caveats: Vec<Caveat>,
    promises: Vec<PromiseForm>,
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

/// Failures in the order of the trials, one cell for every so many: place, count.
#[derive(Serialize, Deserialize)]
struct CellsForm {
    every: u64,
    cells: Vec<(u64, u64)>,
}

impl CellsForm {
    fn of(failures: &Failures) -> CellsForm {
        CellsForm { every: failures.every(), cells: failures.kept().collect() }
    }

    fn into_failures(self, trials: u64) -> Result<Failures, String> {
        Failures::of_kept(&self.cells, self.every, trials)
            .ok_or_else(|| format!("its cells are no part of {trials} activations, {} in each", self.every))
    }
}

#[derive(Deserialize)]
struct PromiseForm {
    text: String,
    evidence: Option<EvidenceForm>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum EvidenceForm {
    Counted { within: u64, of: u64, outside: Option<CellsForm> },
    Value { value: f64, of_demand: Option<f64> },
    Runs { runs: Vec<f64> },
    Proven { at_least: f64, because: String },
    NotObservable { not_observable: String },
}

impl EvidenceForm {
    fn of(evidence: &Evidence) -> EvidenceForm {
        match evidence {
            Evidence::Counted(outside) => EvidenceForm::Counted {
                within: outside.trials() - outside.failures(),
                of: outside.trials(),
                outside: Some(CellsForm::of(outside)),
            },
            Evidence::Runs(runs) => EvidenceForm::Runs { runs: runs.clone() },
            Evidence::Value { value, of_demand } => {
                EvidenceForm::Value { value: *value, of_demand: *of_demand }
            }
            Evidence::Proven { at_least, because } => {
                EvidenceForm::Proven { at_least: *at_least, because: because.clone() }
            }
            Evidence::NotObservable { because } => {
                EvidenceForm::NotObservable { not_observable: because.clone() }
            }
        }
    }

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

impl ActivityForm {
    /// The record; the error says what is wrong with it.
    pub(super) fn into_record(self) -> Result<ActivityRecord, String> {
        let kind = ActivityKind::of_word(&self.kind);
        let kind = kind.ok_or_else(|| format!("there is no kind of activity `{}`", self.kind))?;
        let distribution = |form: Option<DistributionForm>| -> Result<Option<Distribution>, String> {
            form.map(|form| form.into_distribution()).transpose()
        };
        let mut record = ActivityRecord::new(&self.name, kind, self.basis);
        for PromiseForm { text, evidence } in self.promises {
            let promise = Promise::parse(&text).map_err(|e| format!("the promise `{text}`: {e}"))?;
            let evidence = match evidence {
                Some(form) => form.into_evidence()?,
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
            Some(cells) => cells.into_failures(self.activations)?,
            None => Failures::unordered(self.missed, self.activations),
        };
        // Activations that are only counted have no order, and no cells.
        if record.misses.failures() != 0 && record.misses.failures() != self.missed {
            return Err(format!(
                "the cells of its misses hold {} activations, {} are missed",
                record.misses.failures(),
                self.missed
            ));
        }
        record.deadline = self.deadline_ns;
        record.response = distribution(self.response_ns)?;
        record.latency = distribution(self.latency_ns)?;
        record.execution = distribution(self.execution_ns)?;
        for (name, form) in self.series {
            record.series.insert(name, form.into_distribution()?);
        }
        record.share = self.share.map(|share| Share {
            threads: share.threads.iter().map(|t| (t.run_ns, t.waited_ns)).collect(),
            span: share.span_ns,
        });
        record.threads = self.threads;
        record.longest_gap = self.longest_gap_ns;
        record.caveats = self.caveats;
        record.figures = self.figures;
        record.next_largest = self.next_largest;
        Ok(record)
    }
}
