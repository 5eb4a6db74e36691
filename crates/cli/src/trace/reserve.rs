//! `surety trace reserve`: the reservation for a thread of a trace, from the distributions of its work and of the distances of its
//! releases.

use serde_json::{Value, json};
use surety_fit::SourceFit;
use surety_model::distribution::TimeDistribution;
use surety_plan::Overhead;
use surety_plan::aperiodic::{Choice, choices, least};
use surety_report::table::{cells, led};

use super::{file, fit};
use crate::args::OrderArgs;
use crate::args::{FitArgs, ReserveArgs};
use crate::exit::{Code, Failure};
use crate::session::Session;

/// Name and version of the JSON form, described in `docs/formats/trace-fit.md`.
const SCHEMA: &str = "surety.trace-reservation/1";

/// The verb.
pub fn reserve(args: &ReserveArgs, session: &Session) -> Result<Code, Failure> {
    if !args.selection.wanted().chooses_threads() {
        let said = "a reservation is for one thread";
        return Err(Failure::new(Code::BadInput, said).help("choose it with --comm or --tid"));
    }
    let fitting = FitArgs {
        file: args.file.clone(),
        output: None,
        selection: args.selection.clone(),
        min_share: surety_units::Probability::ZERO,
        order: OrderArgs { no_irqs: true, in_order: false, shortest_job: surety_units::Nanos::ZERO },
    };
    let read = fit::read(&fitting, session)?;
    let [source] = read.fitted.sources.as_slice() else {
        let names: Vec<&str> = read.fitted.sources.iter().map(|s| s.seen_as.as_str()).collect();
        let left: Vec<String> =
            read.fitted.remainder.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();
        let said = match names.as_slice() {
            [] => "no thread to reserve for".to_owned(),
            _ => format!("several threads: {}", names.join(", ")),
        };
        let help = if names.is_empty() { left.join("; ") } else { "choose one with --tid".to_owned() };
        return Err(file::refused(&args.file, said).help(help));
    };
    let (Some(work), Some(distance)) = (&source.distribution, distance_of(source)) else {
        let said = format!("{} wants a CPU without end: its jobs cannot be told apart", source.seen_as);
        return Err(Failure::new(Code::BadInput, said).help("record it while it is not overloaded"));
    };
    let found = choices(work, &distance, args.response, args.at, &Overhead::default());
    let chosen = least(&found);
    if session.json {
        session.print_json(&document(args, source, &found, chosen))?;
    } else {
        print(args, source, &found, chosen, session)?;
    }
    Ok(if chosen.is_some() { Code::Kept } else { Code::Broken })
}

/// Distances of releases: their distribution, or the period.
fn distance_of(source: &SourceFit) -> Option<TimeDistribution> {
    source.spacing.clone().or_else(|| source.interval.map(TimeDistribution::Constant))
}

fn print(
    args: &ReserveArgs,
    source: &SourceFit,
    found: &[Choice],
    chosen: Option<&Choice>,
    session: &Session,
) -> Result<(), Failure> {
    let style = session.style();
    let promise = format!("response <= {} @ {}", args.response, args.at);
    let mut text = led("", &format!("{}: {} jobs, {promise}", source.seen_as, source.jobs), &style);
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|choice| {
            let word = if chosen == Some(choice) { "chosen" } else { "" };
            vec![
                word.to_owned(),
                choice.reservation.period.to_exact_string(),
                choice.reservation.runtime.to_exact_string(),
                format!("{:.1} %", choice.reservation.bandwidth().as_f64() * 100.0),
                choice.worth.to_exact_string(),
                format!("{:.4} %", choice.at_least * 100.0),
            ]
        })
        .collect();
    if rows.is_empty() {
        text += &led("refused  ", "no reservation of up to 90 % of a CPU is proven to keep it", &style);
    } else {
        text += &cells(&["", "period", "runtime", "bandwidth", "for work", "proven >="], &rows, &style);
    }
    text += &led(
        "- ",
        "proven for work and inter-arrival times that are independent, from job to job and of each other, and as in the \
         trace; `surety trace stats --distribution` says whether they are",
        &style,
    );
    text += &led(
        "- ",
        "work is what it took in the trace: a job takes longer under a reservation than in another class, so record it under a \
         generous one",
        &style,
    );
    if let Some(Choice { reservation, .. }) = chosen {
        let (q, t) = (reservation.runtime.to_exact_string(), reservation.period.to_exact_string());
        text += &format!("reservation = {{ runtime = \"{q}\", period = \"{t}\" }}\n");
    }
    session.print(&text)
}

fn document(args: &ReserveArgs, source: &SourceFit, found: &[Choice], chosen: Option<&Choice>) -> Value {
    let choice = |choice: &Choice| {
        json!({
            "runtime_ns": choice.reservation.runtime,
            "period_ns": choice.reservation.period,
            "for_work_ns": choice.worth,
            "at_least": choice.at_least,
            "steps": choice.steps,
        })
    };
    json!({
        "schema": SCHEMA,
        "file": args.file.display().to_string(),
        "thread": source.seen_as,
        "jobs": source.jobs,
        "response_ns": args.response,
        "at": args.at.as_f64(),
        "choices": found.iter().map(choice).collect::<Vec<_>>(),
        "chosen": chosen.map(choice),
    })
}
