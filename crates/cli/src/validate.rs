//! `surety validate`: the simulator beside kernels, scenario by scenario.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use surety_host::Bindings;
use surety_model::activation::first_tick;
use surety_model::platform::{Overheads, Platform, PlatformChanges, Topology};
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::{LAB_PREFIX, RunOptions, WorldError};
use surety_report::table::{cells, led};
use surety_reproduce::validation::{
    Counts, Figures, HOST, Kept, Kernel, NotCompared, Placement, Row, SCHEMA, Scenario, Unit, figures_of,
    judged, note_counters, shown_beside, without_use,
};
use surety_session::{Means, worlds};
use surety_units::{CpuId, CpuSet, Nanos};

use crate::args::ValidateArgs;
use crate::args::lab::GuestArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::input::files_of;
use crate::session::Session;

mod builds;
mod chosen;
mod host;
mod page;
mod traced;

use self::chosen::chosen;

/// The kernels, where none is named.
const KERNELS: [&str; 4] = ["lab:6.1-cloud", "lab:6.12-cloud", "lab:7-cloud", HOST];
/// How long a scenario is measured that does not say.
const DURATION: Nanos = Nanos::from_secs(10);
/// Runs of one boot, and between two writes of the file.
const BATCH: usize = 6;
/// A file of what a kernel did.
const LARGEST: u64 = 64 << 20;

/// The verb.
pub fn validate(args: &ValidateArgs, session: &Session) -> Result<Code, Failure> {
    let chosen = chosen(args)?;
    let named = KERNELS.map(str::to_owned).to_vec();
    let kernels = if args.on.is_empty() { named } else { args.on.clone() };
    if let Some(word) = kernels.iter().find(|word| *word != HOST && !word.starts_with(LAB_PREFIX)) {
        let said = format!("`{word}` is no kernel that runs");
        return Err(Failure::new(Code::BadInput, said).help("use host or lab:KERNEL"));
    }
    let mut rows = Vec::new();
    let mut unfit = Vec::new();
    let (mut said, mut of_builds) = (None, Vec::new());
    let simulator = world(args, session, "sim", (1, "", false))?;
    for kernel in &kernels {
        let mut file = read(args, kernel)?;
        if !args.stored {
            match kernel == HOST {
                true => host::run_missing(args, session, &chosen, &mut file)?,
                false => {
                    run_missing(args, session, kernel, &chosen, &mut file)?;
                    traced::run_missing(args, session, kernel, &chosen, &mut file)?;
                }
            }
        }
        let of_chosen = || chosen.iter().filter_map(|scenario| file.scenarios.get(&scenario.title));
        of_builds.extend(builds::in_words(kernel, of_chosen()));
        if kernel == HOST {
            said = host::in_words(of_chosen());
        }
        for scenario in &chosen {
            let kept = file.scenarios.get(&scenario.title);
            match kept.map(|kept| beside_kernel(args, session, &simulator, (scenario, kernel, kept))) {
                Some(Ok(found)) => rows.extend(found),
                Some(Err(NotBeside::Failed(failure))) => return Err(failure),
                Some(Err(NotBeside::Unfit(why))) => unfit.push(not_compared(scenario, kernel, why)),
                None if scenario.is_listed => {}
                None => {
                    let why = format!("nothing is kept of it in {}", args.records.display());
                    unfit.push(not_compared(scenario, kernel, why));
                }
            }
        }
    }
    if let Some(file) = &args.write {
        let text = files::read_text(file, LARGEST).map_err(|why| Failure::new(Code::BadInput, why))?;
        files::write_again(
            file,
            &page::within(&text, &page::tables(&rows, &unfit, (&of_builds, said.as_deref())))?,
        )?;
    }
    if session.json {
        session.print_json(&document(&rows, &unfit))?;
    } else {
        session.print(&text(&rows, &unfit, session))?;
    }
    let is_open = |not: &NotCompared| chosen.iter().any(|s| !s.is_listed && s.title == not.scenario);
    Ok(match rows.iter().any(|row| !row.agrees() && row.cause.is_none()) {
        true => Code::Broken,
        false if rows.is_empty() || unfit.iter().any(is_open) => Code::Undecided,
        false => Code::Kept,
    })
}

/// Why a scenario is not beside a kernel.
enum NotBeside {
    /// The command ends.
    Failed(Failure),
    /// It could not be run or simulated, or decides nothing.
    Unfit(String),
}

fn not_compared(scenario: &Scenario, kernel: &str, why: String) -> NotCompared {
    NotCompared { scenario: scenario.title.clone(), kernel: kernel.to_owned(), why }
}

/// What is kept of a scenario on a kernel beside its simulation there.
fn beside_kernel(
    args: &ValidateArgs,
    session: &Session,
    simulator: &worlds::Worlds<'_>,
    (scenario, kernel, kept): (&Scenario, &str, &Kept),
) -> Result<Vec<Row>, NotBeside> {
    let machine = match (&kept.machine, &kept.unfit) {
        (Some(machine), None) => machine,
        (_, why) => return Err(NotBeside::Unfit(why.clone().unwrap_or_default())),
    };
    if kept.workload != scenario.text {
        let why = "what is kept of it is of another workload: run it again, without --stored";
        return Err(NotBeside::Unfit(why.to_owned()));
    }
    let (machine, cpus) = alone(machine, kept.cpus);
    let options = RunOptions {
        seed: kept.seed,
        duration: kept.duration,
        warm_up: kept.warm_up,
        ..options(args, session, cpus, scenario).map_err(NotBeside::Failed)?
    };
    // Ticks come where they did, whatever else is drawn.
    let ticking = |machine: &Platform| {
        let tick_phase = Some(first_tick(machine, kept.seed));
        Platform { tick_phase, ..machine.clone() }
    };
    let machine = ticking(&machine);
    let traced = match &kept.traced {
        Some(traced) => Some((ticking(&traced.machine), traced.duration)),
        // Where CPUs share things, a record without a traced run of its own may have what threads shared in this one.
        None => machine.topology.is_some().then(|| (machine.clone(), kept.duration)),
    };
    let simulated = |workload: &Workload, on: &dyn Fn(&Platform) -> Platform, options: &RunOptions| {
        let traced = traced.as_ref().map(|(machine, duration)| (on(machine), *duration));
        simulated(simulator, (scenario, workload), (on(&machine), traced), options)
    };
    let rows = compared((scenario, kernel, kept), &options, simulated).map_err(|why| match why {
        // The list is what the simulator has to play.
        why if scenario.is_listed || why == WorldError::Interrupted => NotBeside::Failed(why.into()),
        why => NotBeside::Unfit(why.to_string()),
    })?;
    if rows.is_empty() && !scenario.is_listed {
        return Err(NotBeside::Unfit("nothing of it has a figure that is compared".to_owned()));
    }
    Ok(rows)
}

/// The figures of a workload of a scenario, simulated on a machine, and of where its threads are placed on that of the traced run.
fn simulated(
    simulator: &worlds::Worlds<'_>,
    (scenario, workload): (&Scenario, &Workload),
    (machine, traced): (Platform, Option<(Platform, Nanos)>),
    options: &RunOptions,
) -> Result<Vec<Figures>, WorldError> {
    let mut figures = figures_of(&simulator.run_on(&machine, 0, workload, options, &scenario.title)?);
    if let Some((machine, duration)) = traced {
        let options = RunOptions { duration, ..options.clone() };
        let cpus = options.cpus.unwrap_or(CpuSet::first(machine.cpus));
        let mut placement = Placement::of(&scenario.workload, machine.topology, cpus);
        simulator.run_on_traced(&machine, 0, (workload, &options), &mut placement)?;
        figures.extend(placement.figures());
    }
    Ok(figures)
}

/// The figures of a scenario on a kernel beside those of its simulation, and of those that show causes.
fn compared(
    (scenario, kernel, kept): (&Scenario, &str, &Kept),
    options: &RunOptions,
    simulated: impl Fn(&Workload, &dyn Fn(&Platform) -> Platform, &RunOptions) -> Result<Vec<Figures>, WorldError>,
) -> Result<Vec<Row>, WorldError> {
    let plain = simulated(&scenario.workload, &Platform::clone, options)?;
    let mut rows = judged(scenario, kernel, kept, &plain);
    for beside in shown_beside(&rows) {
        let Some(workload) = beside.with(&scenario.text) else { continue };
        let found = simulated(&workload, &|machine| beside.on(machine), &beside.options(options))?;
        note_counters(&mut rows, beside, &found);
    }
    Ok(rows)
}

fn path(args: &ValidateArgs, kernel: &str) -> std::path::PathBuf {
    args.records.join(format!("{}.json", kernel.replace(':', "-")))
}

fn read(args: &ValidateArgs, kernel: &str) -> Result<Kernel, Failure> {
    let path = path(args, kernel);
    if !Path::exists(&path) {
        return Ok(Kernel { schema: SCHEMA.to_owned(), kernel: kernel.to_owned(), ..Kernel::default() });
    }
    let bad = |why: String| Failure::new(Code::BadInput, format!("{}: {why}", path.display()));
    let text = files::read_text(&path, LARGEST).map_err(bad)?;
    let file: Kernel = serde_json::from_str(&text).map_err(|why| bad(why.to_string()))?;
    if file.schema != SCHEMA || file.kernel != kernel {
        return Err(bad(format!("it is `{}` of {}, not `{SCHEMA}` of {kernel}", file.schema, file.kernel)));
    }
    Ok(file)
}

fn write(args: &ValidateArgs, file: &Kernel) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.records).map_err(|why| {
        Failure::new(Code::Machine, format!("{} cannot be made: {why}", args.records.display()))
    })?;
    let text =
        serde_json::to_string_pretty(file).map_err(|why| Failure::new(Code::Internal, why.to_string()))?;
    files::write_again(&path(args, &file.kernel), &(text + "\n"))
}

/// What of the scenarios is not in the file, or not as it is now and as it is wanted.
fn missing<'s>(
    args: &ValidateArgs,
    chosen: &'s [Scenario],
    file: &Kernel,
    (cpus, platform): (u32, &str),
    is_whole: impl Fn(&Kept) -> bool,
) -> Vec<&'s Scenario> {
    let is_kept = |scenario: &Scenario| {
        let kept = file.scenarios.get(&scenario.title);
        kept.is_some_and(|kept| {
            kept.workload == scenario.text
                && kept.platform == scenario.platform
                && (kept.duration, kept.warm_up, kept.seed)
                    == (duration(args, scenario), args.warm_up, args.seed)
                && (scenario.is_listed || kept.cpus.len() == scenario.cpus as usize)
                && kept.unfit.is_none()
                && is_whole(kept)
        })
    };
    chosen
        .iter()
        .filter(|s| (s.cpus, s.platform.as_str()) == (cpus, platform) && (args.fresh || !is_kept(s)))
        .collect()
}

/// Runs in a guest what is not in the file.
fn run_missing(
    args: &ValidateArgs,
    session: &Session,
    kernel: &str,
    chosen: &[Scenario],
    file: &mut Kernel,
) -> Result<(), Failure> {
    let of = |s: &'_ Scenario| (s.cpus, s.platform.clone(), s.has_waits());
    let mut machines: Vec<(u32, String, bool)> = chosen.iter().map(of).collect();
    machines.sort_by_key(|(cpus, platform, has_waits)| (!platform.is_empty(), *cpus, *has_waits));
    machines.dedup();
    for (cpus, platform, has_waits) in machines {
        let is_whole = |kept: &Kept| !has_waits || kept.has_waits();
        let mut missing = missing(args, chosen, file, (cpus, &platform), is_whole);
        missing.retain(|scenario| scenario.has_waits() == has_waits);
        if missing.is_empty() {
            continue;
        }
        let world = world(args, session, kernel, (cpus, &platform, has_waits))?;
        let set: CpuSet = (0..cpus).map(CpuId).collect();
        for scenarios in missing.chunks(BATCH) {
            let run =
                |s: &&Scenario| Ok((s.workload.clone(), options(args, session, set, s)?, s.title.clone()));
            let runs: Vec<_> = scenarios.iter().map(run).collect::<Result<_, Failure>>()?;
            for (scenario, run) in scenarios.iter().zip(world.run_first(runs.len(), 0, &runs)) {
                let mut kept = empty(args, set, scenario);
                // What a guest's own threads take is part of what its kernel does, the same every time.
                match run {
                    Ok(record) => {
                        kept.machine.clone_from(&record.in_force.machine);
                        kept.environment = own_environment(&record);
                        kept.runs = vec![figures_of(&record)];
                    }
                    Err(WorldError::Interrupted) => return Err(WorldError::Interrupted.into()),
                    Err(why) => kept.unfit = Some(why.to_string()),
                }
                file.scenarios.insert(scenario.title.clone(), kept);
            }
            write(args, file)?;
        }
    }
    Ok(())
}

fn options(
    args: &ValidateArgs,
    session: &Session,
    cpus: CpuSet,
    scenario: &Scenario,
) -> Result<RunOptions, Failure> {
    Ok(RunOptions {
        seed: args.seed,
        duration: duration(args, scenario),
        warm_up: args.warm_up,
        cpus: Some(cpus),
        cancel: session.cancel.clone(),
        files: files_of(&scenario.workload)?.into(),
    })
}

/// How long a scenario is measured.
fn duration(args: &ValidateArgs, scenario: &Scenario) -> Nanos {
    args.duration.or(scenario.workload.duration).unwrap_or(DURATION)
}

/// What is kept of a scenario before it is run.
fn empty(args: &ValidateArgs, cpus: CpuSet, scenario: &Scenario) -> Kept {
    Kept {
        workload: scenario.text.clone(),
        platform: scenario.platform.clone(),
        seed: args.seed,
        cpus,
        duration: duration(args, scenario),
        warm_up: args.warm_up,
        ..Kept::default()
    }
}

/// The kernel, and what else figures depend on.
fn own_environment(record: &Record) -> BTreeMap<String, String> {
    let wanted = ["lab kernel", "lab emulator", "lab clock", "processor"];
    let mut environment = record.in_force.environment.clone();
    environment.retain(|name, _| wanted.contains(&name.as_str()));
    environment.insert("kernel".to_owned(), record.in_force.kernel.clone());
    environment
}

/// The machine of several runs: its kernel's own work as the middle of what was measured before each.
fn middle_machine(machines: Vec<Platform>) -> Option<Platform> {
    let middle = |of: fn(&Overheads) -> Nanos| {
        let mut costs: Vec<Nanos> = machines.iter().map(|machine| of(&machine.overheads)).collect();
        costs.sort_unstable();
        costs.get(costs.len() / 2).copied().unwrap_or(Nanos::ZERO)
    };
    let overheads = Overheads {
        switch: middle(|o| o.switch),
        wakeup: middle(|o| o.wakeup),
        sleep: middle(|o| o.sleep),
        tick: middle(|o| o.tick),
        timer: middle(|o| o.timer),
    };
    machines.into_iter().next().map(|machine| Platform { overheads, ..machine })
}

/// What a run on these CPUs of a machine is simulated on: where they are a root domain, it alone, which reserved threads do not leave.
fn alone(machine: &Platform, cpus: CpuSet) -> (Platform, CpuSet) {
    match machine.domains().into_iter().find(|(domain, _)| *domain == cpus) {
        Some((_, domain)) => {
            let cpus = CpuSet::first(domain.cpus);
            (domain, cpus)
        }
        None => (machine.clone(), cpus),
    }
}

fn world<'a>(
    args: &ValidateArgs,
    session: &'a Session,
    word: &str,
    (cpus, platform, traced): (u32, &str, bool),
) -> Result<worlds::Worlds<'a>, Failure> {
    let guest = GuestArgs { lab_cpus: cpus, ..args.guest.clone() };
    let platform = changes(platform)?;
    let means = Means {
        traced,
        platform,
        force: false,
        bindings: Bindings::default(),
        guest: guest.options(args.seed),
    };
    Ok(worlds::Worlds::new(&[word.to_owned()], means, session)?)
}

/// What a scenario's machine is to be.
fn changes(platform: &str) -> Result<PlatformChanges, Failure> {
    if platform.is_empty() {
        return Ok(PlatformChanges::default());
    }
    platform.parse().map_err(|why| Failure::new(Code::Internal, why))
}

/// What CPUs of such a machine share, where that is asked.
fn divided(platform: &PlatformChanges, cpus: u32) -> Option<Topology> {
    platform.on(&Platform::linux_6_18(cpus)).ok()?.topology
}

/// A figure with its unit.
fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Percent => format!("{value:.2} %"),
        Unit::PerSecond => format!("{value:.2} /s"),
        Unit::Nanoseconds if value >= Nanos::MAX.get() as f64 => "never".to_owned(),
        Unit::Nanoseconds => format!("{:.3} ms", value / 1e6),
    }
}

fn text(rows: &[Row], unfit: &[NotCompared], session: &Session) -> String {
    let style = session.style();
    let shown: Vec<Vec<String>> = page::summary(rows, unfit);
    let titles: Vec<String> = page::titles(rows, unfit);
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let mut out = cells(&titles, &shown, &style);
    let outside: Vec<Vec<String>> = rows.iter().filter(|row| !row.agrees()).map(page::line).collect();
    if !outside.is_empty() {
        out.push('\n');
        out += &cells(&page::OUTSIDE, &outside, &style);
    }
    out.push('\n');
    for NotCompared { scenario, kernel, why } in unfit {
        out += &led("not compared: ", &format!("{scenario} on {kernel}: {why}"), &style);
    }
    for cause in without_use(rows) {
        out += &led("a cause that excuses nothing: ", &cause, &style);
    }
    let Counts { all, agree, shown, named, nearer, open } = Counts::of(rows);
    let said = format!(
        "{agree} of {all} figures agree; outside: {shown} with a cause that a counter-run shows, {named} with a cause that is named only ({nearer} \
         nearer with the counter-run), {open} without a cause"
    );
    out += &led("", &said, &style);
    out
}

fn document(rows: &[Row], unfit: &[NotCompared]) -> serde_json::Value {
    let row = |row: &Row| {
        let mut value = json!(row);
        value["is_time"] = json!(row.unit == Unit::Nanoseconds);
        value["agrees"] = json!(row.agrees());
        value["shown"] = json!(row.shown());
        value
    };
    json!({
        "schema": "surety.validity/1",
        "figures": rows.iter().map(row).collect::<Vec<_>>(),
        "not_compared": unfit,
        "causes_without_use": without_use(rows),
    })
}
