//! `surety plan`: reservations with their proofs from what the workload declares; and a plan verified again.

use std::collections::BTreeMap;
use std::path::Path;

use surety_host::platform_of;
use surety_kernel::facts::MachineFacts;
use surety_kernel::servers::ServersFound;
use surety_model::plan::Plan;
use surety_model::platform::Platform;
use surety_model::workload::Workload;
use surety_plan::check::{Checked, check_written, with_limit_of};
use surety_plan::tested::tested;
use surety_plan::{PlanOptions, plan_in_full};
use surety_report::plan_file::{claims_from_json, plan_from_json, planned_to_json};
use surety_report::{Report, table};

use crate::exit::{Code, Failure};
use crate::files;
use crate::input::{files_of, read_workload};
use crate::session::Session;
use surety_session::machine::this_machine;
use surety_session::permission::unlocked;
use surety_session::search::within;

use crate::args::planning::PlanArgs;

/// Name and version of the JSON form of fronts.
const FRONT_SCHEMA: &str = "surety.front/1";
/// Name and version of the JSON form of what the tests say.
const TESTS_SCHEMA: &str = "surety.tests/1";
/// Name and version of the JSON form of a check.
const CHECK_SCHEMA: &str = "surety.check/1";

/// The verb.
pub fn plan(args: &PlanArgs, session: &Session) -> Result<Code, Failure> {
    if let Some(path) = &args.check {
        return check_file(path, session);
    }
    let Some(path) = &args.workload else {
        return Err(Failure::new(Code::BadInput, "there is no workload to plan"));
    };
    let workload = read_workload(path)?;
    files::check_outputs([args.output.as_ref(), args.html.as_ref()])?;
    let options = options_of(args, &workload, session)?;
    let (front, tests, limit) = (args.front, args.tests, options.search.clone());
    let computed = {
        let workload = workload.clone();
        move || {
            let planned = plan_in_full(&workload, &BTreeMap::new(), &options, front);
            let sets = if tests { tested(&workload, &planned, &options) } else { Vec::new() };
            (planned, sets)
        }
    };
    let (planned, sets) = within(session, Some((args.search, &limit)), computed)?;
    let plan = &planned.plan;
    // Of a machine that is only described nobody knows what may be locked there.
    if args.cpu_count.is_none() && args.root_domains.is_empty() {
        let privileges = MachineFacts::read(&session.kernel).privileges;
        unlocked(plan, &workload, &privileges).iter().for_each(|note| session.note(note));
    }
    let code = Code::of_refusals(&plan.refusals);
    if let Some(path) = &args.output {
        files::write(path, &planned_to_json(plan, &planned.claims, &planned.left))?;
    }
    let report = Report {
        title: workload.title.as_deref(),
        file: workload.source.name(),
        plan: Some(plan),
        exit: Some(code as u8),
        ..Report::default()
    };
    if let Some(path) = &args.html {
        files::write(path, &surety_report::html::page(&report))?;
        session.step(&format!("page written to {}", path.display()));
    }
    if args.tests {
        if session.json {
            session.print_json(&serde_json::json!({ "schema": TESTS_SCHEMA, "sets": sets }))?;
        } else {
            session.print(&table::tested(plan, &sets, &session.style()))?;
        }
    } else if session.json && args.front {
        session.print_json(&serde_json::json!({ "schema": FRONT_SCHEMA, "fronts": planned.fronts }))?;
    } else if session.json {
        session.print_json(&surety_report::json::record_json(&report))?;
    } else if args.explain {
        session.print(&table::explain(plan, &session.style()))?;
    } else {
        let style = session.style();
        let mut text = String::new();
        if args.front {
            text = table::front(&planned.fronts, &style);
            text.push('\n');
        }
        text += &table::plan(plan, &style);
        session.print(&(text + &table::left(plan, &planned.left, &style)))?;
    }
    Ok(code)
}

fn options_of(args: &PlanArgs, workload: &Workload, session: &Session) -> Result<PlanOptions, Failure> {
    let platform = match (args.cpu_count, args.root_domains.as_slice()) {
        (Some(cpus), _) => Platform::linux_6_18(cpus),
        (None, []) => this_machine(&session.kernel).1,
        (None, domains) => {
            let cpus = domains.iter().fold(0u32, |sum, cpus| sum.saturating_add(*cpus));
            Platform::linux_6_18(cpus).partitioned(domains)
        }
    };
    let changes = args.platform.platform.clone().unwrap_or_default();
    let changed = changes.on(&platform);
    let mut options =
        PlanOptions::new(changed.map_err(|why| Failure::new(Code::BadInput, format!("--platform: {why}")))?);
    options.periods.clone_from(&args.periods);
    options.empirical_are_samples = args.samples;
    options.any_phase = args.any_phase;
    options.files = files_of(workload)?.into();
    Ok(options.verified_by(workload, args.duration))
}

/// Reads a plan file.
pub fn read_plan(path: &Path) -> Result<Plan, Failure> {
    let name = path.display();
    let text = files::read_text(path, files::DOCUMENT_MAX).map_err(|error| {
        Failure::new(Code::BadInput, format!("{name} cannot be read: {error}"))
            .help("`surety plan WORKLOAD --output FILE` writes a plan")
    })?;
    plan_from_json(&text).map_err(|error| Failure::new(Code::BadInput, format!("{name}: {error}")))
}

/// Refuses a plan that does not stand with what this kernel lets reservations have.
pub fn check_limit(path: &Path, plan: &Plan, running: &Platform) -> Result<(), Failure> {
    if plan.platform.admitted_per_cpu() == running.admitted_per_cpu() {
        return Ok(());
    }
    let bad = |words: String| Failure::new(Code::BadInput, format!("{}: {words}", path.display()));
    let text = files::read_text(path, files::DOCUMENT_MAX)
        .map_err(|why| bad(format!("it cannot be read: {why}")))?;
    let (claims, _) = claims_from_json(&text).map_err(|error| bad(error.to_string()))?;
    let found = with_limit_of(running, plan, &claims).map_err(|error| bad(error.to_string()))?;
    match found.filter(|finding| !finding.agrees) {
        Some(finding) => {
            Err(bad(finding.words).help("plan for this machine: `surety plan WORKLOAD --output PLAN`"))
        }
        None => Ok(()),
    }
}

/// Verifies a plan file: kept when everything agrees, broken when something does not, bad input when it is malformed or its
/// numbers do not fit each other.
fn check_file(path: &Path, session: &Session) -> Result<Code, Failure> {
    let name = path.display();
    let bad = |words: String| Failure::new(Code::BadInput, format!("{name}: {words}"));
    let text = files::read_text(path, files::DOCUMENT_MAX)
        .map_err(|why| bad(format!("it cannot be read: {why}")))?;
    let plan = plan_from_json(&text).map_err(|error| bad(error.to_string()))?;
    let (claims, left) = claims_from_json(&text).map_err(|error| bad(error.to_string()))?;
    session.step("solving again and simulating");
    // Nothing of it runs: what has to be tried makes no difference.
    let facts = MachineFacts::read(&session.kernel);
    // Servers that could not be read are assumed, which contradicts no plan.
    let are_read = facts.scheduler.servers.found != ServersFound::Assumed;
    let running = platform_of(&facts);
    let running = if are_read { running } else { running.with_servers_of(&plan.platform) };
    let checked =
        within(session, None, move || check_written(&plan, &claims, left.as_ref(), Some(&running)))?;
    let checked = checked.map_err(|error| bad(error.to_string()))?;
    let agrees = checked.iter().all(Checked::agrees);
    if session.json {
        let claims: Vec<_> = checked.iter().map(as_json).collect();
        session
            .print_json(&serde_json::json!({ "schema": CHECK_SCHEMA, "agrees": agrees, "claims": claims }))?;
    } else {
        session.print(&in_words(&checked))?;
    }
    Ok(if agrees { Code::Kept } else { Code::Broken })
}

fn as_json(checked: &Checked) -> serde_json::Value {
    let finding = |f: &surety_plan::check::Finding| serde_json::json!({ "by": f.by, "agrees": f.agrees, "decided": f.decided, "words": f.words });
    serde_json::json!({
        "activity": checked.activity,
        "promise": checked.promise,
        "agrees": checked.agrees(),
        "findings": checked.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn in_words(checked: &[Checked]) -> String {
    let mut out = String::new();
    for claim in checked {
        let verdict = if claim.agrees() { "agrees" } else { "DISAGREES" };
        out += &format!("{}: {}: {verdict}\n", claim.activity, claim.promise);
        for finding in &claim.findings {
            let word = match (finding.agrees, finding.decided) {
                (false, _) => "disagrees",
                (true, false) => "undecided",
                (true, true) => "agrees   ",
            };
            out += &format!("  {word}  {}: {}\n", finding.by, finding.words);
        }
    }
    let wrong = checked.iter().filter(|claim| !claim.agrees()).count();
    out += &match (checked.len(), wrong) {
        (0, _) => "The plan reserves nothing: there is nothing to verify.\n".to_owned(),
        (all, 0) => format!("All {all} claim(s) verified again.\n"),
        (all, wrong) => format!("{wrong} of {all} claim(s) could not be verified.\n"),
    };
    out
}
