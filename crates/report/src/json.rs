//! Records as JSON: `surety.record/1`, described key by key in `docs/formats/record.md`.
//!
//! Times are integer nanoseconds. What is not known is `null`, and so is what is not finite: there is no NaN and no
//! infinity. Every key is always there.

use serde_json::{Map, Value, json};
use surety_model::plan::{Plan, PlannedReservation};
use surety_model::record::{
    ActivityRecord, Basis, Distribution, Evidence, InForce, Observed, Share, ThreadSeen,
};
use surety_model::verdict::{CONFIDENCE, Outcome, Verdict};
use surety_stats::Failures;
use surety_stats::bounds::quantile_interval;
use surety_units::Nanos;

use crate::row::{Report, Row};

pub use surety_model::formats::record::RECORD_SCHEMA;

/// The quantiles an observed distribution is written with.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// Integers beyond this are not exact in a reader that keeps numbers as doubles (RFC 8259, section 6).
const EXACT_MAX: u64 = 1 << 53;

/// The whole report as one value.
pub fn record_json(report: &Report<'_>) -> Value {
    let summary = report.summary();
    let [kept, broken, undecided, not_observable] = summary.counts;
    json!({
        "schema": RECORD_SCHEMA,
        "workload": { "title": report.title, "file": report.file },
        "made": report.made,
        "verdict": {
            "outcome": summary.outcome.map(outcome_word),
            "row": summary.row,
            "kept": kept,
            "broken": broken,
            "undecided": undecided,
            "not_observable": not_observable,
            "by_proof": summary.by_proof,
            "sentence": summary.sentence,
        },
        "results": report.rows.iter().map(result).collect::<Vec<_>>(),
        "plan": report.plan.map(plan),
        "exit": report.exit,
    })
}

/// An outcome as one word.
fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Kept => "kept",
        Outcome::Broken => "broken",
        Outcome::Undecided => "undecided",
        Outcome::NotObservable => "not-observable",
    }
}

fn basis_word(basis: Basis) -> &'static str {
    match basis {
        Basis::Sample => "sample",
        Basis::Exact => "exact",
        Basis::Bound => "bound",
    }
}

fn result(row: &Row<'_>) -> Value {
    let record = row.record;
    json!({
        "label": row.label,
        "world": record.world,
        "reserved": record.reserved,
        "seed": record.seed.map(exact_integer),
        "duration_ns": record.duration,
        "in_force": in_force(&record.in_force),
        "trusted": record.is_trusted(),
        "degraded": record.degraded,
        "hash": record.hash.map(|h| format!("{h:016x}")),
        "trace": record.trace.map(|t| json!({
            "events": t.events,
            "lost": t.lost,
            "censored_jobs": t.censored_jobs,
        })),
        "activities": record.activities.iter().map(|a| activity(a, row)).collect::<Vec<_>>(),
    })
}

/// A number where every reader keeps it exactly, else its decimal text.
fn exact_integer(value: u64) -> Value {
    if value <= EXACT_MAX { json!(value) } else { json!(value.to_string()) }
}

fn in_force(in_force: &InForce) -> Value {
    let threads = in_force.threads.iter().map(|t| {
        json!({
            "activity": t.activity,
            "tid": t.tid,
            "policy": t.policy,
            "affinity": t.affinity.to_string(),
            "as_requested": t.as_requested,
        })
    });
    json!({
        "kernel": in_force.kernel,
        "cpus": in_force.cpus.to_string(),
        "machine": in_force.machine,
        "threads": threads.collect::<Vec<_>>(),
        "environment": in_force.environment,
        "checks": in_force.checks,
        "disturbance": in_force.disturbance,
    })
}

fn activity(activity: &ActivityRecord, row: &Row<'_>) -> Value {
    let of = |d: &Option<Distribution>| d.as_ref().map(|d| distribution(d, activity.basis));
    let figures =
        activity.figures.iter().map(|f| json!({ "name": f.name, "value": f.value, "unit": f.unit }));
    let series = activity.series.iter().map(|(name, d)| (name.clone(), distribution(d, activity.basis)));
    let verdicts = row.verdicts.iter().filter(|v| v.activity == activity.name);
    let promises = verdicts.zip(&activity.promised).map(|(v, promised)| promise(v, &promised.evidence));
    json!({
        "name": activity.name,
        "kind": activity.kind.word(),
        "basis": basis_word(activity.basis),
        "activations": activity.activations,
        "completed": activity.completed,
        "skipped": activity.skipped,
        "unfinished": activity.unfinished,
        "missed": activity.missed,
        "misses": (activity.misses.trials() == activity.activations).then(|| cells(&activity.misses)),
        "deadline_ns": activity.deadline,
        "response_ns": of(&activity.response),
        "latency_ns": of(&activity.latency),
        "execution_ns": of(&activity.execution),
        "series": series.collect::<Map<String, Value>>(),
        "share": activity.share.as_ref().map(share),
        "threads": activity.threads.iter().map(thread_seen).collect::<Vec<_>>(),
        "longest_gap_ns": activity.longest_gap,
        "figures": figures.collect::<Vec<_>>(),
        "caveats": activity.caveats,
        "promises": promises.collect::<Vec<_>>(),
    })
}

fn promise(verdict: &Verdict, found: &Evidence) -> Value {
    json!({
        "text": verdict.promise.to_string(),
        "verdict": outcome_word(verdict.outcome),
        "because": verdict.because,
        "evidence": evidence(found),
    })
}

fn thread_seen(thread: &ThreadSeen) -> Value {
    json!({ "tid": thread.tid, "comm": thread.role.comm, "rank": thread.role.rank, "run_ns": thread.run })
}

fn evidence(evidence: &Evidence) -> Value {
    match evidence {
        Evidence::Counted(outside) => json!({
            "within": outside.trials() - outside.failures(),
            "of": outside.trials(),
            "outside": cells(outside),
        }),
        Evidence::Runs(runs) => json!({ "runs": runs }),
        Evidence::Value { value, of_demand } => json!({ "value": value, "of_demand": of_demand }),
        Evidence::Proven { at_least, because } => json!({ "at_least": at_least, "because": because }),
        Evidence::NotObservable { because } => json!({ "not_observable": because }),
    }
}

/// Failures by their place in the order of the trials.
fn cells(failures: &Failures) -> Value {
    json!({ "every": failures.every(), "cells": failures.kept().collect::<Vec<_>>() })
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

fn distribution(distribution: &Distribution, basis: Basis) -> Value {
    match distribution {
        Distribution::Observed(observed) => observed_values(observed, basis),
        Distribution::Limits(limits) => {
            let quantiles =
                limits.iter().map(|(q, value)| json!({ "q": q, "value": value, "low": null, "high": value }));
            json!({ "basis": "bound", "quantiles": quantiles.collect::<Vec<_>>() })
        }
    }
}

fn observed_values(observed: &Observed, basis: Basis) -> Value {
    let (histogram, moments) = (&observed.histogram, &observed.moments);
    let quantiles = QUANTILES.iter().map(|&q| {
        // Two-sided, distribution free: the order statistics between which the quantile lies. What is exact has no
        // interval: it is not a sample of anything. What never came is null, above every number.
        let finite = |value: u64| (value != u64::MAX).then_some(value);
        let value = observed.quantile(q).map(Nanos::get_unsigned).filter(|v| *v != Nanos::MAX.get_unsigned());
        let interval = quantile_interval(observed, q, CONFIDENCE).filter(|_| basis == Basis::Sample);
        let (low, high) = match interval {
            Some(interval) => (interval.low.value().and_then(finite), interval.high.value().and_then(finite)),
            None => (value, value),
        };
        json!({ "q": q, "value": value, "low": low, "high": high })
    });
    let sequence = observed.in_order().map(|kept| json!({ "every": kept.every(), "values": kept.values() }));
    json!({
        "basis": basis_word(basis),
        "count": histogram.count(),
        "mean": moments.mean(),
        "std_dev": moments.std_dev(),
        "min": histogram.min(),
        "max": histogram.max(),
        "moments": moments,
        "quantiles": quantiles.collect::<Vec<_>>(),
        "histogram": histogram.buckets().map(|(low, high, n)| json!([low, high, n])).collect::<Vec<_>>(),
        "sequence": sequence,
        "never": observed.never,
        "open": observed.open,
        "blocks": observed.has_order().then(|| {
            let (every, cells) = (observed.blocks.every(), observed.blocks.kept().collect::<Vec<_>>());
            json!({ "every": every, "cells": cells })
        }),
    })
}

fn plan(plan: &Plan) -> Value {
    json!({
        "platform": plan.platform.name,
        "reservations": plan.reservations.iter().map(reservation).collect::<Vec<_>>(),
        "refusals": plan.refusals,
    })
}

fn reservation(planned: &PlannedReservation) -> Value {
    let r = &planned.reservation;
    let proof = &planned.proof;
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
        "activity": planned.activity,
        "promises": planned.promises,
        "runtime_ns": r.runtime,
        "deadline_ns": r.deadline,
        "period_ns": r.period,
        "reclaim": r.reclaim,
        "demote": r.demote,
        "proof": {
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
        },
    })
}
