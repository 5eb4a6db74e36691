//! Proofs written out: theorem, inputs, numbers, residual, so that an engineer can redo them by hand.

use surety_analysis::foundation::Foundation;
use surety_analysis::response::ResponseBound;
use surety_analysis::work;
use surety_model::plan::{Proof, ProofInput};
use surety_model::platform::Enforcement;
use surety_model::reservation::Reservation;
use surety_units::Nanos;

use crate::CONFIDENCE;
use crate::kept::{Argument, Kept, KeptIrq};
use crate::response::{Searched, Sizing};

/// The rule for shares.
pub(crate) const SUPPLY_THEOREM: &str = "supply bound of a constant-bandwidth server";
/// Where that comes from.
pub(crate) const SUPPLY_SOURCE: &str = "Abeni and Buttazzo, RTSS 1998; Easwaran, Anand and Lee, RTSS 2007";

/// The proven fraction with its argument.
pub(crate) fn bound(
    kept: &Kept,
    sizing: &Sizing,
    limit: Nanos,
    enforcement: Enforcement,
    searched: &Searched,
) -> Result<ResponseBound, String> {
    let worth = kept.worth();
    let response = searched.respond(&kept.task, kept.frame, sizing, worth, enforcement);
    let mut bound = response.map(|response| response.within(limit)).map_err(|error| error.to_string())?;
    if bound.probability > sizing.at_most {
        bound.probability = sizing.at_most;
        bound.steps.push(format!(
            "jobs longer than the largest measured count as late: with 95 % confidence at most {:.6} are none",
            bound.probability
        ));
    }
    Ok(bound)
}

/// Why a task's reservation is enough.
pub(crate) fn of_task(
    kept: &Kept,
    foundation: &Foundation,
    enforcement: Enforcement,
    searched: &Searched,
) -> Proof {
    let Reservation { runtime, period, .. } = kept.reservation();
    let mut proof = started(kept.reservation(), enforcement);
    if kept.frame.deadline < period {
        proof.assumptions.push(format!(
            "the first release comes {period} or later after the thread was reserved and last ran, so that it finds a whole budget, \
             as in a run of Surety's own threads; a release that comes late delays those behind it by as much, until one comes \
             {period} or more after the last budget began"
        ));
    } else if !kept.demand.in_step {
        proof.assumptions.push(
            "releases count from the first one that finds no more of a budget than the server's bandwidth until its deadline: a \
             job that ran while the thread was reserved may delay those before"
                .to_owned(),
        );
    }
    proof.inputs.extend(kept.demand.inputs(&kept.frame));
    let (mut theorems, mut sources) = (Vec::new(), Vec::new());
    let mut conclusions: Vec<String> = Vec::new();
    for (promise, argument) in &kept.promises {
        match argument {
            Argument::Response { limit, sizing, .. } => {
                let worth = kept.worth();
                let Ok(bound) = bound(kept, sizing, *limit, enforcement, searched) else { continue };
                theorems.push(bound.theorem);
                sources.push(bound.source);
                proof.inputs.extend(sizing.inputs.iter().cloned());
                proof.steps.extend(sizing.steps.iter().cloned());
                proof
                    .steps
                    .push(format!("a budget of {runtime} is worth {worth} of work, the rest pays overheads"));
                proof.steps.extend(bound.steps);
                proof.assumptions.extend(sizing.assumptions.iter().cloned());
                proof.assumptions.extend(bound.assumptions);
                let smallest = proof.probability.map_or(bound.probability, |p: f64| p.min(bound.probability));
                proof.probability = Some(smallest);
                proof.residual = match (proof.residual, bound.residual) {
                    (Some(a), Some(b)) => Some(a.max(b)),
                    (a, b) => a.or(b),
                };
                let mean = work::mean(&sizing.proven_for) / 1e6;
                let measured = sizing.measured.map_or(String::new(), |jobs| {
                    proof.confidence = Some(CONFIDENCE);
                    format!(" with {:.0} % confidence, from {jobs} measured jobs", CONFIDENCE * 100.0)
                });
                conclusions.push(format!(
                    "{promise}: at least {:.4} % of the activations{measured}, with a mean work of {mean:.3} ms",
                    (bound.probability * 1e6).floor() / 1e4
                ));
            }
            Argument::Share { steps, .. } => {
                theorems.push(SUPPLY_THEOREM);
                sources.push(SUPPLY_SOURCE);
                proof.steps.extend(steps.iter().cloned());
                proof.assumptions.push(
                    "the work is done by the thread that has the reservation: what others of its program do \
                         comes on top and is not guaranteed"
                        .to_owned(),
                );
                conclusions
                    .push(format!("{promise}: {runtime} in every {period} whenever the thread wants it"));
            }
        }
    }
    proof.conclusion = conclusions.join("; ");
    finished(proof, theorems, sources, foundation)
}

/// Why an interrupt thread's reservation is enough.
pub(crate) fn of_irq(kept: &KeptIrq, foundation: &Foundation, enforcement: Enforcement) -> Proof {
    let mut proof = started(kept.reservation, enforcement);
    proof.inputs.extend(kept.inputs.iter().cloned());
    let (mut theorems, mut sources, mut conclusions) = (Vec::new(), Vec::new(), Vec::new());
    for (promise, sized) in &kept.promises {
        theorems.push(sized.argument.theorem);
        sources.push(sized.argument.source);
        let runtime = sized.reservation.runtime;
        proof.steps.push(format!("{promise}: {runtime} in every {} are enough", kept.reservation.period));
        proof.steps.extend(sized.argument.steps.iter().cloned());
        proof.assumptions.extend(sized.argument.assumptions.iter().cloned());
        conclusions.push(format!("{promise}: {}", sized.conclusion));
    }
    proof.conclusion = conclusions.join("; ");
    finished(proof, theorems, sources, foundation)
}

/// A proof with the reservation's own numbers.
fn started(reservation: Reservation, enforcement: Enforcement) -> Proof {
    let how = match enforcement {
        Enforcement::Tick(tick) => format!("on the tick ({tick})"),
        Enforcement::Exact => "by a timer, exactly".to_owned(),
    };
    Proof {
        theorem: String::new(),
        source: String::new(),
        conclusion: String::new(),
        probability: None,
        confidence: None,
        inputs: vec![
            ProofInput::new("runtime Q", reservation.runtime),
            ProofInput::new("deadline D", reservation.deadline),
            ProofInput::new("period T", reservation.period),
            ProofInput::new("budgets are enforced", how),
        ],
        steps: Vec::new(),
        assumptions: Vec::new(),
        residual: None,
        simulations: Vec::new(),
        digest: None,
    }
}

/// The same with what every proof stands on.
fn finished<'a>(
    mut proof: Proof,
    mut theorems: Vec<&'a str>,
    mut sources: Vec<&'a str>,
    foundation: &Foundation,
) -> Proof {
    theorems.push(foundation.edf.theorem);
    sources.push(foundation.edf.source);
    theorems.dedup();
    sources.dedup();
    proof.theorem = theorems.join("; ");
    proof.source = sources.join("; ");
    proof.steps.extend(foundation.steps());
    for assumption in foundation.assumptions() {
        if !proof.assumptions.contains(&assumption) {
            proof.assumptions.push(assumption);
        }
    }
    proof
}
