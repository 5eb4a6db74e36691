//! `surety apply`: a plan put in force in the foreground, and taken back at the end.

use surety_enforce::{Applied, Binding, Enforcer, Inspector, Owner, put_in_force};
use surety_host::{ChildrenEntry, lacked, rights_of};
use surety_kernel::command::{ChildSetup, Command, Rights, Spawned, spawn};
use surety_kernel::{Kernel, clock};
use surety_model::plan::Plan;
use surety_model::promise::{Metric, Promise};
use surety_model::reservation::Reservation;
use surety_units::{Nanos, Tid};

use crate::args::ApplyArgs;
use crate::exit::{Code, Failure};
use crate::planning::read_plan;
use crate::session::Session;
use surety_session::permission;

/// Between two looks at the clock, the signals and the command.
const LOOK: Nanos = Nanos::from_millis(100);
/// What was not taken back so long after its time, because this process stands still, the watchdog takes back.
const TAKE_BACK: Nanos = Nanos::SECOND;

/// The verb. With a command, its failure ends in 1; so does a plan that did not stay in force.
pub fn apply(args: &ApplyArgs, session: &Session) -> Result<Code, Failure> {
    let plan = plan_of(args)?;
    check_names(args, &plan)?;
    let activity = activity_of_command(args, &plan)?;
    check_phase(args.bind.iter().map(|(name, _)| name).chain(&activity), &plan)?;
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
    if !args.foreign.force {
        for (_, tid) in &args.bind {
            permission::check_thread(&session.kernel, Tid(*tid))?;
        }
        let bound = args.bind.iter().filter_map(|(name, _)| plan.reservation_of(name));
        permission::check_cap(bound, u32::try_from(domain.len()).unwrap_or(u32::MAX))?;
    }
    if let (Some(journal), Some(duration)) = (journal, args.duration) {
        journal.until(Some(clock::monotonic() + duration + TAKE_BACK));
    }
    let mut enforcer = Enforcer::new(&session.kernel, journal);
    let children = activity.as_ref().and_then(|_| ChildrenEntry::of_command(journal, &session.kernel));
    let rights = activity.as_ref().map(|_| rights_of(&args.command[0], &args.rights.rights())).transpose()?;
    let mut child = match activity {
        Some(name) => {
            let child = start(args, children.as_ref(), rights.clone())?;
            bindings.push(Binding { activity: name, tid: child.pid(), owner: Owner::Ours });
            Some(child)
        }
        None => None,
    };
    let applied = put_in_force(&plan, &bindings, domain, &session.kernel, &mut enforcer)?;
    announce(&applied, session)?;
    let mut inspector = Inspector::new(&session.kernel);
    applied.iter().for_each(|a| inspector.expect(a.post.clone()));
    let until = args.duration.map(|d| clock::monotonic() + d);
    let code = loop {
        let now = clock::monotonic();
        if session.cancel.is_cancelled() {
            break Code::Interrupted;
        }
        inspector.look(&session.kernel);
        if until.is_some_and(|t| now >= t) {
            break Code::Kept;
        }
        let next = until.map_or(now + LOOK, |t| t.min(now + LOOK));
        match &mut child {
            Some(child) => {
                if let Some(ended) = child.wait_until(next)? {
                    session.step(&format!("the command ended with {}", ended.status));
                    if ended.status.success() {
                        break Code::Kept;
                    }
                    rights.as_ref().and_then(lacked).iter().for_each(|note| session.note(note));
                    break Code::Broken;
                }
            }
            None if applied.iter().all(|a| session.kernel.name(a.tid).is_err()) => {
                session.step("every thread of the plan has ended");
                break Code::Kept;
            }
            None => drop(clock::sleep_until(next, None)?),
        }
    };
    inspector.read(&session.kernel);
    drop(child);
    drop(children);
    inspector.differences().for_each(|what| session.note(&format!("the plan did not stay in force: {what}")));
    let code = if inspector.differences().next().is_some() { code.worse(Code::Broken) } else { code };
    for failure in enforcer.undo() {
        session.note(&format!("not taken back, the next start will try again: {failure}"));
    }
    Ok(code)
}

fn start(
    args: &ApplyArgs,
    children: Option<&ChildrenEntry<'_>>,
    rights: Option<Rights>,
) -> Result<Spawned, Failure> {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    let mark = children.map(|children| children.mark().to_owned());
    let setup = ChildSetup { mark, rights, ..ChildSetup::default() };
    spawn(&mut command, &setup).map_err(|error| {
        Failure::new(Code::BadInput, error.to_string()).help("check the command's name and path")
    })
}

/// A plan of CPUs alone.
fn plan_of(args: &ApplyArgs) -> Result<Plan, Failure> {
    let plan = read_plan(&args.plan)?;
    if let Some(stream) = plan.streams.first() {
        let (name, activity) = (args.plan.display(), &stream.activity);
        let said = format!(
            "{name}: it reserves a disk for `{activity}`, and `apply` puts plans of CPUs alone in force"
        );
        return Err(Failure::new(Code::BadInput, said).help(
            "run its workload with `surety run WORKLOAD --plan PLAN`, or `surety guarantee WORKLOAD`",
        ));
    }
    Ok(plan)
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

/// Refuses reservations that keep a promise of response times only for releases in step with their periods: nobody knows when
/// threads that are not ours are released.
fn check_phase<'a>(names: impl Iterator<Item = &'a String>, plan: &Plan) -> Result<(), Failure> {
    let of_responses = |promise: &Promise| promise.metric != Metric::Share;
    for planned in names.filter_map(|name| plan.reservation_of(name)) {
        let Reservation { deadline, period, .. } = planned.reservation;
        if deadline < period && planned.promises.iter().any(of_responses) {
            let why = format!(
                "`{}` has a deadline of {deadline} in a period of {period}, and its promise holds only where the releases are in \
                 step with the periods: a thread that is reserved between two releases may wait up to {} for its budget",
                planned.activity,
                period - deadline
            );
            let help = "plan it again with `surety plan --any-phase`";
            return Err(Failure::new(Code::BadInput, why).help(help));
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
