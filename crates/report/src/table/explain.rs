//! Proofs in full: everything an engineer needs to redo them by hand.

use surety_model::plan::{Plan, PlannedReservation, PlannedStream, Proof};
use surety_model::promise::Promise;

use crate::quantity::{chosen_time, percent, probability};
use crate::text::{Style, Tone, paragraph};

/// Every reservation with its whole proof, then every refusal.
pub fn explain(plan: &Plan, style: &Style) -> String {
    let mut out = String::new();
    for planned in &plan.reservations {
        if !out.is_empty() {
            out.push('\n');
        }
        one(planned, &mut out, style);
    }
    for planned in &plan.streams {
        if !out.is_empty() {
            out.push('\n');
        }
        of_disk(planned, &mut out, style);
    }
    for disk in &plan.disks {
        out.push('\n');
        out += &paragraph(style, &format!("disk {}: ", disk.disk), Tone::Strong, &disk.in_words());
        for because in &disk.because {
            out += &paragraph(style, "  ", Tone::Faint, because);
        }
    }
    super::refusals(plan, &mut out, style);
    if out.is_empty() {
        out += &paragraph(style, "", Tone::Plain, "The plan holds neither a reservation nor a refusal.");
    }
    out
}

fn one(planned: &PlannedReservation, out: &mut String, style: &Style) {
    let r = &planned.reservation;
    let exact = format!(
        "runtime {} ({} ns) within {} of each {} ({} of a CPU){}{}",
        chosen_time(r.runtime),
        r.runtime.get(),
        chosen_time(r.deadline),
        chosen_time(r.period),
        super::bandwidth(planned),
        if r.reclaim { ", reclaims unused bandwidth" } else { "" },
        if r.demote { ", runs on as a fair task when the budget is used up" } else { "" },
    );
    *out += &paragraph(style, &format!("{}: ", planned.activity), Tone::Strong, &exact);
    argument(&planned.promises, &planned.proof, out, style);
}

fn of_disk(planned: &PlannedStream, out: &mut String, style: &Style) {
    let r = &planned.reservation;
    let exact = format!(
        "{} in batches of {}, each there within {} ({} ns), from a buffer of {}, jitter {}; I/O priority real-time {}",
        r.rate,
        r.batch,
        chosen_time(r.bound),
        r.bound.get(),
        r.buffer,
        chosen_time(r.jitter),
        r.priority
    );
    *out += &paragraph(style, &format!("{}: ", planned.activity), Tone::Strong, &exact);
    argument(&planned.promises, &planned.proof, out, style);
}

/// A proof, entry by entry.
fn argument(promises: &[Promise], proof: &Proof, out: &mut String, style: &Style) {
    let mut entry = |word: &str, text: &str| {
        *out += &paragraph(style, &format!("  {word:<12}"), Tone::Faint, text);
    };
    for promise in promises {
        entry("promise", &promise.to_string());
    }
    entry("conclusion", &proof.conclusion);
    if let Some(p) = proof.probability {
        let sure = proof.confidence.map_or(String::new(), |c| format!(", with {} confidence", percent(c)));
        entry("probability", &format!("at least {} of the activations{sure}", probability(p)));
    }
    entry("theorem", &proof.theorem);
    entry("source", &proof.source);
    for (index, input) in proof.inputs.iter().enumerate() {
        entry(if index == 0 { "given" } else { "" }, &format!("{} = {}", input.name, input.value));
    }
    for (index, step) in proof.steps.iter().enumerate() {
        entry(&format!("step {}", index + 1), step);
    }
    for (index, assumption) in proof.assumptions.iter().enumerate() {
        entry(if index == 0 { "provided" } else { "" }, assumption);
    }
    if let Some(residual) = proof.residual.filter(|r| r.is_finite()) {
        entry("residual", &format!("at most {residual:.1e}"));
    }
    for simulation in &proof.simulations {
        let text = format!(
            "{}, seed {}: {} of {} activations missed, hash {}",
            simulation.profile, simulation.seed, simulation.missed, simulation.activations, simulation.hash
        );
        entry("simulated", &text);
    }
}
