//! `surety plan`: reservations with their proofs from what the workload declares; and a plan verified again.

pub mod args;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use surety_kernel::Kernel;
use surety_kernel::clock::{monotonic, process_cpu_time};
use surety_model::platform::Platform;
use surety_model::workload::Workload;
use surety_model::world::WorldError;
use surety_plan::check::{Checked, check_written};
use surety_plan::tested::tested;
use surety_plan::{PlanOptions, SearchLimit, plan_in_full};
use surety_report::plan_file::{claims_from_json, plan_from_json, planned_to_json};
use surety_report::{Report, table};
use surety_units::Nanos;

use crate::exit::{Code, Failure};
use crate::files;
use crate::input::read_workload;
use crate::run::host_platform;
use crate::session::Session;

use self::args::PlanArgs;

/// Between two looks at the signals.
const LOOK: Duration = Duration::from_millis(2);
/// As much as the main thread has.
const STACK: usize = 8 << 20;
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
    let options = options_of(args, &workload, session);
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
    let code = Code::of_refusals(&plan.refusals);
    if let Some(path) = &args.output {
        files::write(path, &planned_to_json(plan, &planned.claims, &planned.left))?;
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
        let report = Report {
            title: workload.title.as_deref(),
            file: workload.source.name(),
            rows: &[],
            all_rows: false,
            judged: None,
            plan: Some(plan),
            exit: Some(code as u8),
            made: None,
        };
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

/// Computes in a thread of its own, cuts its searches short after half of a limit of CPU time, ends them after all of it, and gives up at the first signal:
/// nothing computed here has to be undone.
///
/// Errors: it was interrupted.
pub fn within<T: Send + 'static>(
    session: &Session,
    limit: Option<(Nanos, &SearchLimit)>,
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let worker = std::thread::Builder::new().name("plan".to_owned()).stack_size(STACK).spawn(compute);
    let worker =
        worker.map_err(|error| Failure::new(Code::Machine, format!("no thread to plan in: {error}")))?;
    let own = session.kernel.own_pid();
    let used = || process_cpu_time(own).unwrap_or_else(monotonic);
    let begin = used();
    while !worker.is_finished() {
        let spent = used() - begin;
        if let Some((time, search)) = limit
            && spent >= time
            && !search.is_over()
        {
            search.end();
        }
        // The last half is for what has no budget yet.
        if let Some((time, search)) = limit
            && spent >= time / 2
            && !search.is_reached()
        {
            search.hurry();
            session.note(&format!(
                "the search was cut short after {} of CPU time: smaller budgets or nearer feasible requests may exist",
                time / 2
            ));
        }
        if session.cancel.is_cancelled() {
            // The thread ends with the program.
            return Err(WorldError::Interrupted.into());
        }
        std::thread::sleep(LOOK);
    }
    worker.join().map_err(|panic| std::panic::resume_unwind(panic))
}

fn options_of(args: &PlanArgs, workload: &Workload, session: &Session) -> PlanOptions {
    let mut options = PlanOptions::new(match (args.cpu_count, args.root_domains.as_slice()) {
        (Some(cpus), _) => Platform::linux_6_18(cpus),
        (None, []) => host_platform(session).1,
        (None, domains) => {
            let cpus = domains.iter().fold(0u32, |sum, cpus| sum.saturating_add(*cpus));
            Platform::linux_6_18(cpus).partitioned(domains)
        }
    });
    options.periods.clone_from(&args.periods);
    options.empirical_are_samples = args.samples;
    options.any_phase = args.any_phase;
    options.verified_by(workload, args.duration)
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
    let checked = within(session, None, move || check_written(&plan, &claims, left.as_ref()))?;
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
