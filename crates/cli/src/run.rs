//! `surety run`: a workload in one or more worlds, one table; with `--trace` also what the scheduler did in each.

mod repeated;

use std::path::{Path, PathBuf};

use surety_kernel::Kernel as _;
use surety_model::event::{Comm, Event, TraceSink};
use surety_model::formats::foreign::partsim::System;
use surety_model::plan::Plan;
use surety_model::platform::PlatformChanges;
use surety_model::promise::Promise;
use surety_model::workload::{Task, Workload};
use surety_model::world::{RunOptions, WorldError};
use surety_report::{Timeline, number_of};
use surety_session::gather::Gathered;
use surety_session::longest::{Longest, deadline_of};
use surety_session::machine::this_machine;
use surety_session::permission::{check_disks, check_guest};
use surety_session::runs::{self, Finished, Variant};
use surety_session::worlds::{Means, Worlds};
use surety_trace::write::perfetto::{Overlay, OverlayOf};
use surety_units::Nanos;

use crate::args::{RunArgs, Running};
use crate::exit::{Code, Failure};
use crate::files;
use crate::input::{files_of, read_on, read_system};
use crate::load::append_loads;
use crate::planning::{check_limit, read_plan};
use crate::session::Session;
use crate::trace::output::TraceOutput;

/// What a page says where nothing is known of who ran.
pub const WITHOUT_TIMELINE: &str = "Who ran around the longest response is drawn of tasks in a traced world: run as root, or with --on sim, without --no-trace.";

/// Length of the measurement where neither the command nor the workload says it.
const DURATION: Nanos = Nanos::from_secs(25);

/// The options of one run.
pub fn options_of(running: &Running, workload: &Workload, session: &Session) -> Result<RunOptions, Failure> {
    Ok(RunOptions {
        seed: running.seed,
        duration: running.duration.or(workload.duration).unwrap_or(DURATION),
        warm_up: running.warm_up,
        cpus: running.cpus,
        cancel: session.cancel.clone(),
        files: files_of(workload)?.into(),
    })
}

/// The verb.
pub fn run(args: &RunArgs, session: &Session) -> Result<Code, Failure> {
    let system = args.platform_file.as_deref().map(read_system).transpose()?;
    let mut workload = read_on(&args.workload, system.as_ref())?;
    append_loads(&mut workload, &args.beside.load)?;
    args.rights.give(&mut workload)?;
    if let Some(path) = &args.plan {
        let plan = planned(&workload, path)?;
        if args.worlds().iter().any(|world| world.starts_with("lab:")) {
            check_guest(&plan)?;
        }
        if args.worlds().iter().any(|world| world == "host") {
            let (facts, running) = this_machine(&session.kernel);
            check_limit(path, &plan, &running)?;
            check_disks(&plan, &facts.scheduler, session.kernel.online_cpus()?.len())?;
        }
        workload = plan.apply_to(&workload);
    }
    files::check_outputs(
        [&args.running.html, &args.gates.told.junit, &args.gates.told.tap, &args.trace].map(Option::as_ref),
    )?;
    let means = Means {
        traced: !args.no_trace,
        force: args.foreign.force,
        bindings: args.disks.bindings(),
        platform: platform_of(args, system.as_ref())?,
        guest: args.guest.options(args.running.seed),
    };
    let worlds = Worlds::new(&args.worlds(), means, session)?;
    let baseline = args.baseline.as_ref();
    let baseline = baseline.map(|path| repeated::baseline(path, &workload, &worlds)).transpose()?;
    if let Some(ab) = &args.ab {
        return repeated::ab(ab, &workload, args, &worlds, session);
    }
    if args.repeat > 1 || !workload.vary.is_empty() {
        if args.trace.is_some() {
            let said = "--trace: the runs of [vary] would overwrite each other's file";
            return Err(Failure::new(Code::BadInput, said).help("trace a workload without [vary]"));
        }
        return repeated::varied(&workload, baseline.as_ref(), args, &worlds, session);
    }
    once(&workload, baseline.as_ref(), args, &worlds, session)
}

/// What is otherwise on computed machines: as asked, and beside that as a system file says.
fn platform_of(args: &RunArgs, system: Option<&System>) -> Result<PlatformChanges, Failure> {
    let asked = args.platform.platform.clone().unwrap_or_default();
    let Some(system) = system else { return Ok(asked) };
    let said = format!("cpus={},overheads=off", system.cpus()).parse::<PlatformChanges>();
    let said = said.map_err(|why| Failure::new(Code::BadInput, format!("--platform-file: {why}")))?;
    Ok(asked.over(&said))
}

/// The plan of a file, which was made for this workload.
fn planned(workload: &Workload, path: &Path) -> Result<Plan, Failure> {
    let plan = read_plan(path)?;
    let activities = plan.reservations.iter().map(|planned| (&planned.activity, &planned.promises));
    let streams = plan.streams.iter().map(|planned| (&planned.activity, &planned.promises));
    for (name, promises) in activities.chain(streams) {
        if workload.promises_of(name) != promises.as_slice() {
            let said =
                format!("{}: it was made for `{name}` as another workload declares it", path.display());
            return Err(Failure::new(Code::BadInput, said)
                .help("plan this workload: `surety plan WORKLOAD --output PLAN`"));
        }
    }
    if plan.asked.as_ref().is_some_and(|asked| *asked != surety_plan::streams::asked_of(workload)) {
        let said = format!(
            "{}: its streams were admitted beside other streams, loads, disks or realtime threads than this workload has",
            path.display()
        );
        return Err(Failure::new(Code::BadInput, said)
            .help("plan this workload: `surety plan WORKLOAD --output PLAN`"));
    }
    let models = surety_plan::streams::models_of(workload, &files_of(workload)?);
    if plan.asked.is_some() && plan.models != models {
        let differs = |file: &&String| plan.models.get(*file) != models.get(*file);
        let file = plan.models.keys().chain(models.keys()).find(differs).map_or("", String::as_str);
        let said = format!(
            "{}: its streams were admitted to a disk as `{file}` described it then, and that file is another now",
            path.display()
        );
        return Err(Failure::new(Code::BadInput, said)
            .help("plan this workload: `surety plan WORKLOAD --output PLAN`, or take the file back as the plan has it (`models`)"));
    }
    Ok(plan)
}

/// One run in each world that can make it, traced where that is asked for.
fn once(
    workload: &Workload,
    baseline: Option<&Gathered>,
    args: &RunArgs,
    worlds: &Worlds<'_>,
    session: &Session,
) -> Result<Code, Failure> {
    let traced = (0..worlds.names().len()).filter(|world| worlds.kind(*world).clock.is_some()).count();
    if args.trace.is_some() && traced == 0 {
        let said = "--trace: no world of this run has a scheduler whose events could be written";
        return Err(Failure::new(Code::BadInput, said.to_owned()).help("add `host` or `sim` to --on"));
    }
    let mut variants = runs::variants(workload, worlds)?;
    let asked = variants.len();
    let mut finished = variants.iter().filter(|variant| variant.refused.is_some()).count();
    let path_of = |world: usize, label: &str| {
        let path = args.trace.as_ref().filter(|_| worlds.kind(world).clock.is_some())?;
        Some(if traced > 1 { path_in(path, label) } else { path.clone() })
    };
    let paths: Vec<Option<PathBuf>> =
        variants.iter().enumerate().map(|(world, variant)| path_of(world, &variant.label)).collect();
    files::check_outputs(paths.iter().map(Option::as_ref))?;
    let (mut unwritten, mut timelines) = (false, Vec::new());
    for world in worlds.order() {
        let variant = &mut variants[world];
        if variant.refused.is_some() {
            continue;
        }
        let is_drawn = args.running.html.is_some() && worlds.kind(world).clock.is_some();
        let mut longest = is_drawn.then(|| Longest::of(&variant.workload)).flatten();
        let to = (paths[world].as_deref(), &mut unwritten, longest.as_mut());
        if !run_in(variant, to, args, worlds, session)? {
            break;
        }
        timelines.extend(longest.and_then(Longest::finish).map(|around| Timeline {
            label: if asked > 1 { variant.label.clone() } else { String::new() },
            deadline: deadline_of(&variant.workload, &around),
            around,
        }));
        finished += 1;
    }
    let finished = runs::interrupt_rest(&mut variants, Finished { finished, asked })?;
    variants.retain(|variant| variant.refused != Some(WorldError::Interrupted));
    let code = repeated::present(workload, (&variants, finished, &timelines), baseline, args, session)?;
    Ok(if unwritten && code == Code::Kept { Code::Machine } else { code })
}

/// Runs a variant in its world, its events to a file where one is named; whether it came to its end or was refused. A file that
/// could not be written does not end the command.
fn run_in(
    variant: &mut Variant,
    (path, unwritten, longest): (Option<&Path>, &mut bool, Option<&mut Longest>),
    args: &RunArgs,
    worlds: &Worlds<'_>,
    session: &Session,
) -> Result<bool, Failure> {
    let options = options_of(&args.running, &variant.workload, session)?;
    let overlays = || promised(&variant.workload);
    let mut output = path.map(|path| TraceOutput::create(path, &args.storing, overlays())).transpose()?;
    let mut sinks = Sinks { output: output.as_mut(), longest };
    let sink = sinks.wants_any().then_some(&mut sinks as &mut dyn TraceSink);
    let made = worlds.run(variant.world, &variant.workload, &options, &variant.label, sink);
    if let (Some(output), Some(path), true) = (output, path, made.is_ok()) {
        match output.finish(worlds.kind(variant.world).clock.unwrap_or_default()) {
            Ok(written) => {
                session.step(&format!("{}: {} events of {}", path.display(), written.events, variant.label));
                written.missing().iter().for_each(|missing| session.note(missing));
            }
            Err(failure) => {
                *unwritten = true;
                session.note(&format!("the events of {} were not written: {failure}", variant.label));
            }
        }
    }
    Ok(variant.take(made))
}

/// Where the events of a run go: to a file, and to what is drawn of them.
struct Sinks<'a> {
    output: Option<&'a mut TraceOutput>,
    longest: Option<&'a mut Longest>,
}

impl Sinks<'_> {
    fn wants_any(&self) -> bool {
        self.output.is_some() || self.longest.is_some()
    }
}

impl TraceSink for Sinks<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.output.iter_mut().for_each(|output| output.event(event));
        self.longest.iter_mut().for_each(|longest| longest.event(event));
    }

    fn observes(&mut self, window: (Nanos, Nanos)) {
        self.longest.iter_mut().for_each(|longest| longest.observes(window));
    }
}

/// The file of one world: `name.dat` becomes `name.sim.dat`.
fn path_in(path: &Path, world: &str) -> PathBuf {
    let world: String = world.chars().map(|c| if c == ':' || c == ' ' { '-' } else { c }).collect();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}.{world}.{ending}"))
}

/// What the workload reserves for its tasks and promises of them, as tracks beside their events.
fn promised(workload: &Workload) -> Vec<Overlay> {
    let of = |task: &Task| Overlay {
        of: OverlayOf::Named(Comm::new(&task.name).to_string()),
        reservation: task.reservation,
        response_limit: task.promises.iter().find_map(Promise::response_limit),
    };
    let overlays = workload.tasks.iter().map(of);
    overlays.filter(|o| o.reservation.is_some() || o.response_limit.is_some()).collect()
}

/// The code of what is finished of a command: of its own, or that of an interruption, which is told.
pub fn unless_cut_short(code: Code, of: Finished, session: &Session) -> Code {
    if of.finished == of.asked {
        return code;
    }
    session.note(&format!(
        "interrupted: {} of {} are finished and shown",
        of.finished,
        number_of(of.asked, "run")
    ));
    Code::Interrupted
}
