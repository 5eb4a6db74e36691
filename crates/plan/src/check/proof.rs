//! Whether the proofs of a plan file, and what it says is left, are those of its claims.
//!
//! The theorems and their sources, the steps about admission, EDF and the fair server, the root domains and what is left are computed
//! again from the claims. The other texts tell how a budget was found: the seal they were written with tells whether they were edited.

use surety_analysis::foundation::{Foundation, ReservedThread};
use surety_analysis::overheads;
use surety_model::claim::{Claim, Subject};
use surety_model::plan::{Left, Plan, PlannedReservation};

use super::{CheckError, Look, reserved_threads};
use crate::proofs::{SUPPLY_SOURCE, SUPPLY_THEOREM};
use crate::reserved_set::left as left_by;

/// Parts of a CPU survive being written in decimals up to this.
const WRITTEN: f64 = 1e-9;

fn altered(planned: &PlannedReservation, one: String, other: String) -> CheckError {
    CheckError::Altered { activity: planned.activity.clone(), one, other }
}

/// Every proof is as it was written.
pub(super) fn sealed(plan: &Plan) -> Result<(), CheckError> {
    let of_cpus = plan.reservations.iter().map(|planned| (&planned.activity, &planned.proof));
    let of_disks = plan.streams.iter().map(|planned| (&planned.activity, &planned.proof));
    match of_cpus.chain(of_disks).find(|(_, proof)| !proof.is_as_sealed()) {
        None => Ok(()),
        Some((activity, proof)) => {
            let digest = proof.digest.as_deref().unwrap_or("none");
            let (one, other) = ("its proof".to_owned(), format!("the proof's digest ({digest})"));
            Err(CheckError::Altered { activity: activity.clone(), one, other })
        }
    }
}

/// The proofs name the theorems that the claims follow by, and say the same of all threads together. Where these do not hold no
/// proof has anything to say: that is found elsewhere.
pub(super) fn same_argument(
    plan: &Plan,
    looked: &[Look<'_>],
    threads: &[ReservedThread],
) -> Result<(), CheckError> {
    let foundation = Foundation::of(threads, &overheads::with_busy(&plan.platform));
    if !foundation.holds() {
        return Ok(());
    }
    let foundation = foundation.for_proof();
    let steps = foundation.steps();
    let mut place = 0;
    for planned in &plan.reservations {
        let own = || looked.iter().filter(|look| look.claim.activity == planned.activity);
        let count = own().map(|look| look.claim.threads).max().unwrap_or(1) as usize;
        let homes: Vec<_> = (place..place + count).filter_map(|at| foundation.home_of(at)).collect();
        place += count;
        if homes != planned.root_domains {
            let (one, other) = ("its root domains", "those in which everything holds");
            return Err(altered(planned, one.to_owned(), other.to_owned()));
        }
        let proof = &planned.proof;
        let (mut theorems, mut sources) = (Vec::new(), Vec::new());
        // Which rule an interrupt's proof was found by depends on handlers that no claim tells: the seal has to do.
        let mut is_known = true;
        for look in own() {
            match look.rule()? {
                Some((theorem, source)) => {
                    theorems.push(theorem);
                    sources.push(source);
                }
                None => is_known = false,
            }
        }
        if !is_known {
            (theorems, sources) = (Vec::new(), Vec::new());
        }
        theorems.push(foundation.edf.theorem);
        sources.push(foundation.edf.source);
        theorems.dedup();
        sources.dedup();
        for (what, stated, found) in
            [("theorem", &proof.theorem, theorems), ("source", &proof.source, sources)]
        {
            let found = found.join("; ");
            let is_same = if is_known { *stated == found } else { stated.ends_with(&found) };
            if !is_same {
                let one = format!("the {what} of its proof ({stated})");
                return Err(altered(planned, one, format!("that of its claims ({found})")));
            }
        }
        let mut stated = proof.steps.iter();
        if let Some(step) = steps.iter().find(|step| !stated.any(|s| s == *step)) {
            let one = "the steps of its proof".to_owned();
            return Err(altered(planned, one, format!("those of its claims (`{step}` is not there)")));
        }
    }
    Ok(())
}

/// What is left is what the claims leave.
pub(super) fn same_left(plan: &Plan, claims: &[Claim], left: Option<&Left>) -> Result<(), CheckError> {
    let Some(first) = plan.reservations.first() else { return Ok(()) };
    let found = left_by(&reserved_threads(plan, claims)?, &overheads::with_busy(&plan.platform));
    let words = |left: &Left| {
        let server = left.fair_server.map_or("no fair server".to_owned(), |server| {
            format!("a fair server of {} in {}", server.runtime, server.period)
        });
        format!("{:.6} CPUs, {server}", left.best_effort)
    };
    let is_same = |left: &Left| {
        (left.best_effort - found.best_effort).abs() <= WRITTEN && left.fair_server == found.fair_server
    };
    if left.is_some_and(is_same) {
        return Ok(());
    }
    let one =
        left.map_or("what is left (not said)".to_owned(), |left| format!("what is left ({})", words(left)));
    Err(altered(first, one, format!("what the reservations leave ({})", words(&found))))
}

impl Look<'_> {
    /// The theorem that a claim about a task follows by, and its source.
    fn rule(&self) -> Result<Option<(&'static str, &'static str)>, CheckError> {
        match &self.claim.about {
            Subject::Share { .. } => Ok(Some((SUPPLY_THEOREM, SUPPLY_SOURCE))),
            Subject::Response(claim) => {
                let task = self.served(claim, self.work_of(&claim.work)?);
                let response = task.solve().map_err(|source| self.unsolved(source))?;
                let bound = response.within(claim.limit);
                Ok(Some((bound.theorem, bound.source)))
            }
            Subject::Requests(_) => Ok(None),
        }
    }
}
