//! Plans as files: `surety.plan/1`, described in `docs/formats/plan.md`.
//!
//! A plan file is edited by hand and carried between machines, so reading trusts nothing in it: the schema, the form,
//! and every number on which arithmetic is done later.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use surety_model::claim::Claim;
use surety_model::plan::{Left, PLAN_SCHEMA, Plan};
use surety_model::reservation::{DiskReservation, ReservationError};
use surety_units::CpuSet;
use thiserror::Error;

use crate::json::RECORD_SCHEMA;

/// Why a text is no plan.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanFileError {
    /// Not JSON at all.
    #[error("this is not JSON: {0}")]
    NotJson(serde_json::Error),
    /// JSON without a schema.
    #[error("this is no plan: it has no `schema`; `surety plan WORKLOAD` writes one with \"{PLAN_SCHEMA}\"")]
    NoSchema,
    /// A record, which is the other file Surety writes.
    #[error("this is a record (\"{RECORD_SCHEMA}\"), not a plan; `surety plan WORKLOAD` makes one")]
    IsRecord,
    /// Another schema or version.
    #[error("schema \"{found}\" is not known: this program reads \"{PLAN_SCHEMA}\"; make the plan again")]
    OtherSchema {
        /// What the file says.
        found: String,
    },
    /// The right schema, but something in it is not as it should be.
    #[error("the plan is damaged: {0}")]
    Form(serde_json::Error),
    /// Three numbers that are no reservation.
    #[error("the reservation of `{activity}` cannot be: {source}")]
    Reservation {
        /// Whose.
        activity: String,
        /// Why.
        source: ReservationError,
    },
    /// Numbers that are no reservation of a disk.
    #[error("the disk reservation of `{activity}` cannot be: {why}")]
    Disk {
        /// Whose.
        activity: String,
        /// Which number, and what it should be.
        why: &'static str,
    },
    /// A platform no arithmetic can be done with.
    #[error("the plan's platform cannot be: {why}")]
    Platform {
        /// Which number, and what it should be.
        why: &'static str,
    },
}

/// A plan as the text of a plan file, indented, its last line ended.
pub fn plan_to_json(plan: &Plan) -> String {
    let mut text =
        serde_json::to_string_pretty(plan).expect("a plan has only text keys and no failing parts");
    text.push('\n');
    text
}

/// The whole of a plan file: the plan, what it claims in numbers, what it leaves to others.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    claims: &'a [Claim],
    left: &'a Left,
}

/// Only the claims of a plan file, and what it leaves; one without any has none.
#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    claims: Vec<Claim>,
    left: Option<Left>,
}

/// A plan with its claims as the text of a plan file, its proofs sealed.
pub fn planned_to_json(plan: &Plan, claims: &[Claim], left: &Left) -> String {
    let document = Document { plan: &plan.sealed(), claims, left };
    let mut text =
        serde_json::to_string_pretty(&document).expect("a plan has only text keys and no failing parts");
    text.push('\n');
    text
}

/// Reads the claims of a plan file's text, and what it says is left, for whoever verifies them.
pub fn claims_from_json(text: &str) -> Result<(Vec<Claim>, Option<Left>), PlanFileError> {
    serde_json::from_str(text).map(|read: Claims| (read.claims, read.left)).map_err(PlanFileError::Form)
}

/// Reads a plan file's text.
pub fn plan_from_json(text: &str) -> Result<Plan, PlanFileError> {
    let value: Value = serde_json::from_str(text).map_err(PlanFileError::NotJson)?;
    match value.get("schema").and_then(Value::as_str) {
        Some(PLAN_SCHEMA) => {}
        Some(RECORD_SCHEMA) => return Err(PlanFileError::IsRecord),
        Some(found) => return Err(PlanFileError::OtherSchema { found: found.to_owned() }),
        None => return Err(PlanFileError::NoSchema),
    }
    // From the text again, not from the value: only so does an error know its line.
    let plan: Plan = serde_json::from_str(text).map_err(PlanFileError::Form)?;
    for planned in &plan.reservations {
        planned
            .reservation
            .check()
            .map_err(|source| PlanFileError::Reservation { activity: planned.activity.clone(), source })?;
    }
    for other in &plan.platform.others {
        other
            .reservation
            .check()
            .map_err(|source| PlanFileError::Reservation { activity: other.name.clone(), source })?;
    }
    for planned in &plan.streams {
        disk_reservation(&planned.reservation)
            .map_err(|why| PlanFileError::Disk { activity: planned.activity.clone(), why })?;
    }
    let platform = |why| Err(PlanFileError::Platform { why });
    if plan.platform.cpus == 0 {
        return platform("`cpus` is 0, and something has to run");
    }
    let domains = &plan.platform.root_domains;
    let all = domains.iter().fold(CpuSet::EMPTY, |all, cpus| all.union(cpus));
    let sum: usize = domains.iter().map(CpuSet::len).sum();
    let parts = sum == all.len() && sum == plan.platform.cpus as usize;
    if !domains.is_empty() && (!parts || domains.iter().any(CpuSet::is_empty)) {
        return platform("`root_domains` are not sets of CPUs that share none and have `cpus` in all");
    }
    if plan.platform.has_unlike_cpus() {
        return platform("`cpu_specs` are unlike, and this version computes with CPUs that are alike");
    }
    if !plan.platform.tick.is_positive() {
        return platform("`tick` is not a positive number of nanoseconds");
    }
    if plan.platform.deadline_cap.ratio().1 == 0 {
        return platform("`deadline_cap` has the denominator 0");
    }
    Ok(plan)
}

/// What of a reservation of a disk cannot be.
fn disk_reservation(of: &DiskReservation) -> Result<(), &'static str> {
    let parts = [
        (of.rate.0 > 0, "`rate` is above 0"),
        (of.batch.0 > 0 && of.batch.0.is_multiple_of(4096), "`batch` is a multiple of 4096 bytes above 0"),
        (of.buffer.0 >= of.batch.0, "`buffer` holds a batch at least"),
        (of.priority < 8, "`priority` is between 0 and 7"),
        (!of.jitter.is_negative(), "`jitter` is 0 or more"),
        (of.bound.is_positive(), "`bound` is above 0"),
    ];
    parts.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err(why))
}
