//! [`checked`]: the streams of a plan admitted again from what the plan says was asked, and simulated as it sets them.
//!
//! The admission is the same computation, made anew with the plan's own platform and reservations: what it says of batch, buffer, bound and the
//! disk has to be what the plan says. The simulation is independent of it: no batch may take longer than the bound, and no promise be broken.

use std::sync::Arc;

use surety_analysis::foundation::ReservedThread;
use surety_analysis::streams::Sizes;
use surety_model::formats::toml;
use surety_model::plan::{Plan, PlannedStream, Proof};
use surety_model::record::{ActivityRecord, BATCH_LATENCY};
use surety_model::verdict::{Outcome, judge};
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_sim::SimWorld;
use surety_units::Nanos;

use super::{CheckError, Checked, Finding};
use crate::streams::{Ground, PlannedStreams, plan_streams};

/// So long streams are simulated.
const SIMULATED: Nanos = Nanos::from_secs(5);
const SEED: u64 = 1;

fn altered(activity: &str, one: String, other: String) -> CheckError {
    CheckError::Altered { activity: activity.to_owned(), one, other }
}

/// Admits the streams of a plan again beside its reserved threads, and simulates them.
pub(super) fn checked(plan: &Plan, threads: &[(&str, ReservedThread)]) -> Result<Vec<Checked>, CheckError> {
    if plan.streams.is_empty() && plan.disks.is_empty() {
        return Ok(Vec::new());
    }
    let workload = asked(plan)?;
    let threads: Vec<_> = threads.iter().map(|(name, thread)| ((*name).to_owned(), *thread)).collect();
    let ground =
        Ground { workload: &workload, platform: &plan.platform, files: &plan.models, sizes: Sizes::All };
    let again = plan_streams(&ground, &threads);
    for planned in &plan.streams {
        same(planned, &again)?;
    }
    if let Some(other) = again.streams.iter().find(|again| plan.stream_of(&again.activity).is_none()) {
        let one = "the streams of the plan (without it)".to_owned();
        return Err(altered(&other.activity, one, "those that are admitted".to_owned()));
    }
    if plan.streams.len() != again.streams.len() {
        let one = format!("the streams of the plan ({})", plan.streams.len());
        return Err(altered("streams", one, format!("those that are admitted ({})", again.streams.len())));
    }
    for (planned, found) in plan.disks.iter().zip(&again.disks) {
        if planned != found {
            let one = format!("its settings ({})", planned.in_words());
            let other = format!("those of the admission made again ({})", found.in_words());
            return Err(altered(&format!("disk {}", planned.disk), one, other));
        }
    }
    if plan.disks.len() != again.disks.len() {
        let one = format!("the disks of the plan ({})", plan.disks.len());
        return Err(altered("disks", one, format!("those that are planned ({})", again.disks.len())));
    }
    simulated(plan, &workload)
}

fn asked(plan: &Plan) -> Result<Workload, CheckError> {
    let text = plan.asked.as_deref().ok_or_else(|| CheckError::Asked("it is not there".to_owned()))?;
    toml::read("asked", text).map_err(|wrong| CheckError::Asked(wrong.to_string()))
}

/// A stream of the plan is what its admission made again gives.
fn same(planned: &PlannedStream, again: &PlannedStreams) -> Result<(), CheckError> {
    let name = &planned.activity;
    let Some(found) = again.streams.iter().find(|found| found.activity == *name) else {
        let refused = again.refused.iter().find(|(refused, ..)| refused == name);
        let why = refused.map_or("nothing of that name is asked for", |(_, _, why)| &*why.because);
        return Err(altered(name, "its place in the plan".to_owned(), format!("its admission ({why})")));
    };
    let (one, two) = (&planned.reservation, &found.reservation);
    let texts = |of: &PlannedStream| of.promises.iter().map(ToString::to_string).collect::<Vec<_>>();
    let parts = [
        ("promises", texts(planned).join("; "), texts(found).join("; ")),
        ("rate", one.rate.to_string(), two.rate.to_string()),
        ("batch", one.batch.to_exact_string(), two.batch.to_exact_string()),
        ("buffer", one.buffer.to_exact_string(), two.buffer.to_exact_string()),
        ("jitter", one.jitter.to_exact_string(), two.jitter.to_exact_string()),
        ("overlap", one.overlap.to_string(), two.overlap.to_string()),
        ("I/O priority", one.priority.to_string(), two.priority.to_string()),
        ("bound", one.bound.to_exact_string(), two.bound.to_exact_string()),
    ];
    for (what, stated, computed) in parts {
        if stated != computed {
            let (one, other) =
                (format!("its {what} ({stated})"), format!("that of its admission made again ({computed})"));
            return Err(altered(name, one, other));
        }
    }
    let bare = |proof: &Proof| Proof { simulations: Vec::new(), digest: None, ..proof.clone() };
    if bare(&planned.proof) != bare(&found.proof) {
        return Err(altered(name, "its proof".to_owned(), "that of its admission made again".to_owned()));
    }
    Ok(())
}

/// What the simulator says of the streams as the plan sets them.
fn simulated(plan: &Plan, asked: &Workload) -> Result<Vec<Checked>, CheckError> {
    let mut workload = plan.apply_to(asked);
    // What has no reservation of this plan would be judged without its own.
    workload.tasks.iter_mut().for_each(|task| task.promises.clear());
    workload.irqs.iter_mut().for_each(|irq| irq.promises.clear());
    let files = Arc::new(plan.models.clone());
    let options = RunOptions { seed: SEED, duration: SIMULATED, files, ..RunOptions::default() };
    let record = SimWorld::new(plan.platform.clone())
        .run(&workload, &options, &mut Unobserved)
        .map_err(|error| CheckError::Simulation(error.to_string()))?;
    let mut found = Vec::new();
    for planned in &plan.streams {
        let seen = record.activity(&planned.activity).ok_or_else(|| {
            CheckError::Simulation(format!("{} is not in its own record", planned.activity))
        })?;
        for promise in &planned.promises {
            let r = &planned.reservation;
            let again = Finding::told(
                "admission made again",
                true,
                format!("batches of {} are there within {}, from a buffer of {}", r.batch, r.bound, r.buffer),
            );
            let activity = planned.activity.clone();
            found.push(Checked { activity, promise: *promise, findings: vec![again, of_run(seen, planned)] });
        }
    }
    Ok(found)
}

fn of_run(seen: &ActivityRecord, planned: &PlannedStream) -> Finding {
    let batches = seen.series.get(BATCH_LATENCY).and_then(|series| series.observed());
    let longest = batches.and_then(|batches| batches.moments.max()).unwrap_or(0.0);
    let (longest, bound) = (Nanos::from_f64_rounded(longest), planned.reservation.bound);
    let is_broken = judge(seen).iter().any(|verdict| verdict.outcome == Outcome::Broken);
    let words = format!(
        "{} accesses in {SIMULATED}, {} late, {} dropped; the longest of {} batches {longest}, at most {bound}",
        seen.activations,
        seen.missed,
        seen.skipped,
        batches.map_or(0, |batches| batches.moments.count()),
    );
    Finding::told("simulation", !is_broken && longest <= bound, words)
}
