//! `surety guarantee`: the whole loop of [`surety_session::guarantee`] on a terminal.

use surety_model::plan::Refusal;
use surety_report::plan_file::{plan_to_json, planned_to_json};
use surety_report::{Report, Row, Timeline};
use surety_session::Stage;
use surety_session::guarantee::{Guarantee, Request, State};

use crate::args::GuaranteeArgs;
use crate::exit::{Code, Failure, located};
use crate::files;
use crate::gates;
use crate::input::workload_of;
use crate::run::{WITHOUT_TIMELINE, options_of};
use crate::session::Session;

/// The verb.
pub fn guarantee(args: &GuaranteeArgs, session: &Session) -> Result<Code, Failure> {
    let workload = workload_of(args, &session.kernel)?;
    let request = Request {
        options: options_of(&args.running, &workload, session)?,
        force: args.foreign.force,
        bindings: args.disks.bindings(),
        draws: args.running.html.is_some(),
    };
    let mut walk =
        Guarantee::new(workload.clone(), request, session).map_err(|error| located(error, &workload))?;
    let outputs = [&args.running.html, &args.gates.told.junit, &args.gates.told.tap, &args.save_plan];
    files::check_outputs(outputs.map(Option::as_ref))?;
    match walk.walk() {
        Ok(conclusion) => {
            // The state in force is what counts: the last.
            let last = walk.results.last().map(|(state, record)| (state.to_string(), record));
            let named = last.iter().map(|(label, record)| (label.as_str(), *record));
            let code = gates::check(&args.gates, named, Code::of_outcome(Some(conclusion.outcome)), session)?;
            publish(&walk, Some(conclusion.stage), code, args, session)?;
            Ok(code)
        }
        Err(failure) if walk.results.is_empty() => Err(located(failure, &walk.workload)),
        Err(failure) => {
            let failure = located(failure, &walk.workload);
            let why = failure.ended_by();
            session.note(&format!("{why}: what is finished is shown; nothing stays in force"));
            publish(&walk, None, failure.code, args, session)?;
            Ok(failure.code)
        }
    }
}

/// Prints and writes everything that was found out.
fn publish(
    walk: &Guarantee<'_>,
    stage: Option<Stage>,
    code: Code,
    args: &GuaranteeArgs,
    session: &Session,
) -> Result<(), Failure> {
    let results = walk.results.iter().map(|(state, record)| (state.to_string(), record));
    let results: Vec<_> = results.collect();
    let rows: Vec<Row<'_>> = results.iter().map(|(label, record)| Row::new(label, record)).collect();
    let timelines: Vec<Timeline> = walk
        .longest
        .iter()
        .map(|(state, around, deadline)| Timeline {
            label: state.to_string(),
            around: around.clone(),
            deadline: *deadline,
        })
        .collect();
    let report = Report {
        timelines: &timelines,
        without_timeline: Some(WITHOUT_TIMELINE),
        title: walk.workload.title.as_deref(),
        file: walk.workload.source.name(),
        rows: &rows,
        plan: walk.plan.as_ref(),
        exit: Some(code as u8),
        ..Report::default()
    };
    if let (Some(plan), Some(path)) = (&walk.plan, &args.save_plan) {
        let text = match &walk.claims {
            Some((claims, left)) => planned_to_json(plan, claims, left),
            None => plan_to_json(plan),
        };
        files::write(path, &text)?;
    }
    if let (Some(plan), false) = (&walk.plan, session.json) {
        let style = session.style();
        let plan_text = match args.explain {
            true => surety_report::table::explain(plan, &style),
            false => surety_report::table::plan(plan, &style),
        };
        session.print(&format!("{plan_text}\n"))?;
    }
    session.publish(&report, &args.running)?;
    if let (Some(advice), false) = (advice(walk, stage, code), session.json) {
        session.print(&format!("\n{advice}\n"))?;
    }
    Ok(())
}

/// What is to be added to the verdict in the last row, and what to do.
fn advice(walk: &Guarantee<'_>, stage: Option<Stage>, code: Code) -> Option<&'static str> {
    match walk.plan.as_ref().map(|p| (p.refusals.as_slice(), p.is_empty())) {
        Some((refusals @ [_, ..], _)) if refusals.iter().all(Refusal::is_undecided) => {
            return Some(
                "Undecided: too few jobs were measured to plan every promise; see above how many more it takes: \
                 measure longer with --for.",
            );
        }
        Some(([_, ..], true)) => {
            return Some(
                "Refused: no reservation was found that keeps any promise; see above why, and what would be \
                 feasible where that is known.",
            );
        }
        Some(([_, ..], false)) => {
            return Some(
                "Refused in part: the other promises have their reservations; see above why not all, and what \
                 would be feasible where that is known.",
            );
        }
        _ => {}
    }
    if stage.is_some() && walk.result(State::HostReserved).is_none() {
        return Some(if walk.result(State::SimReserved).is_some() {
            "Not enforced: this user may not reserve CPU time, so the promise is kept in simulation only. Run as \
             root, or give the program CAP_SYS_NICE."
        } else {
            "Not enforced: this user may not reserve CPU time. Run as root, or give the program CAP_SYS_NICE."
        });
    }
    let is_whole = stage == Some(Stage::Enforcing);
    (is_whole && code == Code::Undecided).then_some("Undecided: measure longer with --for.")
}
