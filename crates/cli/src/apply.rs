//! `surety apply`: a plan put in force in the foreground, and taken back at the end.

use surety_enforce::{Applied, Binding, Enforcer, Owner, put_in_force};
use surety_kernel::command::{ChildSetup, Command, spawn};
use surety_kernel::{Kernel, clock};
use surety_model::plan::Plan;
use surety_report::plan_file::plan_from_json;
use surety_units::{Nanos, Tid};

use crate::args::ApplyArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// Between two looks at the clock, the signals and the command.
const LOOK: Nanos = Nanos::from_millis(100);

/// The verb. With a command, its failure ends in 1.
pub fn apply(args: &ApplyArgs, session: &Session) -> Result<Code, Failure> {
    let plan = read_plan(args)?;
    check_names(args, &plan)?;
    let activity = activity_of_command(args, &plan)?;
    let mut bindings: Vec<Binding> = args
        .bind
        .iter()
        .map(|(name, tid)| Binding { activity: name.clone(), tid: Tid(*tid), owner: Owner::Others })
        .collect();
    if bindings.is_empty() && args.command.is_empty() {
        let names: Vec<&str> = plan.reservations.iter().map(|r| r.activity.as_str()).collect();
        return Err(Failure::new(Code::BadInput, "there is nothing to put the plan on".to_owned())
            .help(format!("add `-- COMMAND`, or `--bind NAME=TID` for {}", names.join(", "))));
    }
    let journal = session.journal();
    let domain = session.kernel.online_cpus()?;
    let mut enforcer = Enforcer::new(&session.kernel, journal);
    let mut child = match activity {
        Some(name) => {
            let mut command = Command::new(&args.command[0]);
            command.args(&args.command[1..]);
            let child = spawn(&mut command, &ChildSetup::default()).map_err(|e| {
                Failure::new(Code::BadInput, e.to_string()).help("check the command's name and path")
            })?;
            bindings.push(Binding { activity: name, tid: child.pid(), owner: Owner::Ours });
            Some(child)
        }
        None => None,
    };
    let applied = put_in_force(&plan, &bindings, domain, &session.kernel, &mut enforcer)?;
    announce(&applied, session)?;
    let until = args.duration.map(|d| clock::monotonic() + d);
    let code = loop {
        let now = clock::monotonic();
        if session.cancel.is_cancelled() {
            break Code::Interrupted;
        }
        if until.is_some_and(|t| now >= t) {
            break Code::Kept;
        }
        let next = until.map_or(now + LOOK, |t| t.min(now + LOOK));
        match &mut child {
            Some(child) => {
                if let Some(ended) = child.wait_until(next)? {
                    session.step(&format!("the command ended with {}", ended.status));
                    break if ended.status.success() { Code::Kept } else { Code::Broken };
                }
            }
            None if applied.iter().all(|a| session.kernel.name(a.tid).is_err()) => {
                session.step("every thread of the plan has ended");
                break Code::Kept;
            }
            None => drop(clock::sleep_until(next, None)?),
        }
    };
    drop(child);
    for failure in enforcer.undo() {
        session.note(&format!("not taken back, the next start will try again: {failure}"));
    }
    Ok(code)
}

fn read_plan(args: &ApplyArgs) -> Result<Plan, Failure> {
    let name = args.plan.display();
    let text = std::fs::read_to_string(&args.plan).map_err(|error| {
        Failure::new(Code::BadInput, format!("{name} cannot be read: {error}"))
            .help("`surety plan WORKLOAD --output FILE` writes a plan")
    })?;
    plan_from_json(&text).map_err(|error| Failure::new(Code::BadInput, format!("{name}: {error}")))
}

fn check_names(args: &ApplyArgs, plan: &Plan) -> Result<(), Failure> {
    let names: Vec<&str> = plan.reservations.iter().map(|r| r.activity.as_str()).collect();
    let asked = args.bind.iter().map(|(name, _)| name).chain(&args.activity);
    for name in asked {
        if !names.contains(&name.as_str()) {
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(Failure::new(Code::BadInput, format!("the plan has no reservation for `{name}`"))
                .help(format!("it has: {there}")));
        }
    }
    Ok(())
}

/// Which activity the command is; `None` without a command.
fn activity_of_command(args: &ApplyArgs, plan: &Plan) -> Result<Option<String>, Failure> {
    if args.command.is_empty() {
        return Ok(None);
    }
    if let Some(name) = &args.activity {
        return Ok(Some(name.clone()));
    }
    match plan.reservations.as_slice() {
        [only] => Ok(Some(only.activity.clone())),
        [] => Err(Failure::new(Code::Broken, "the plan holds no reservation: it was refused")),
        many => {
            let names: Vec<&str> = many.iter().map(|r| r.activity.as_str()).collect();
            Err(Failure::new(Code::BadInput, "the plan holds several reservations")
                .help(format!("say which the command is with --activity: {}", names.join(", "))))
        }
    }
}

fn announce(applied: &[Applied], session: &Session) -> Result<(), Failure> {
    if session.json {
        let rows: Vec<_> = applied
            .iter()
            .map(|a| serde_json::json!({ "activity": a.activity, "tid": a.tid, "policy": a.policy }))
            .collect();
        session.print_json(&serde_json::json!({ "schema": "surety.applied/1", "applied": rows }))?;
    }
    for a in applied {
        session.step(&format!("{} (thread {}): {}", a.activity, a.tid, a.policy));
    }
    Ok(())
}
