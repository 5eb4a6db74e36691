//! Reports as JSON: `surety.record/1`, described key by key in `docs/formats/record.md`.

use serde_json::{Value, json};
use surety_model::formats::record::{exact_integer, write_result};
use surety_model::plan::{Plan, PlannedDisk, PlannedReservation, PlannedStream, Proof};

use crate::row::Report;

pub use surety_model::formats::record::{QUANTILES, RECORD_SCHEMA};

/// The whole report as one value.
pub fn record_json(report: &Report<'_>) -> Value {
    let summary = report.summary();
    let results = report.rows.iter().map(|row| write_result(&row.label, row.record));
    let [kept, broken, undecided, not_observable] = summary.counts;
    json!({
        "schema": RECORD_SCHEMA,
        "workload": { "title": report.title, "file": report.file },
        "made": report.made,
        "verdict": {
            "outcome": summary.outcome,
            "row": summary.row,
            "kept": kept,
            "broken": broken,
            "undecided": undecided,
            "not_observable": not_observable,
            "by_proof": summary.by_proof,
            "sentence": summary.sentence,
        },
        "results": results.collect::<Vec<_>>(),
        "plan": report.plan.map(plan),
        "exit": report.exit,
    })
}

fn plan(plan: &Plan) -> Value {
    json!({
        "platform": plan.platform.name,
        "reservations": plan.reservations.iter().map(reservation).collect::<Vec<_>>(),
        "streams": plan.streams.iter().map(stream).collect::<Vec<_>>(),
        "disks": plan.disks.iter().map(disk).collect::<Vec<_>>(),
        "refusals": plan.refusals,
    })
}

fn stream(planned: &PlannedStream) -> Value {
    let r = &planned.reservation;
    json!({
        "activity": planned.activity,
        "promises": planned.promises,
        "rate": r.rate.0,
        "batch": r.batch.0,
        "buffer": r.buffer.0,
        "jitter_ns": r.jitter,
        "io_priority": r.priority,
        "bound_ns": r.bound,
        "proof": proof(&planned.proof),
    })
}

fn disk(planned: &PlannedDisk) -> Value {
    json!({
        "disk": planned.disk,
        "scheduler": planned.scheduler,
        "depth": planned.depth,
        "request": planned.request.map(|bytes| bytes.0),
        "wbt_ns": planned.wbt,
        "tunables": planned.tunables,
        "best_effort": planned.best_effort.map(|rate| rate.0),
        "because": planned.because,
    })
}

fn reservation(planned: &PlannedReservation) -> Value {
    let r = &planned.reservation;
    json!({
        "activity": planned.activity,
        "promises": planned.promises,
        "runtime_ns": r.runtime,
        "deadline_ns": r.deadline,
        "period_ns": r.period,
        "reclaim": r.reclaim,
        "demote": r.demote,
        "proof": proof(&planned.proof),
    })
}

fn proof(proof: &Proof) -> Value {
    let inputs: Vec<Value> =
        proof.inputs.iter().map(|i| json!({ "name": i.name, "value": i.value })).collect();
    let simulations = proof.simulations.iter().map(|s| {
        json!({
            "profile": s.profile,
            "seed": exact_integer(s.seed),
            "hash": s.hash,
            "activations": s.activations,
            "missed": s.missed,
        })
    });
    json!({
            "theorem": proof.theorem,
            "source": proof.source,
            "conclusion": proof.conclusion,
            "probability": proof.probability,
            "confidence": proof.confidence,
            "inputs": inputs,
            "steps": proof.steps,
            "assumptions": proof.assumptions,
            "residual": proof.residual,
            "simulations": simulations.collect::<Vec<_>>(),
    })
}
