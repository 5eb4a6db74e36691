//! `surety validate`: the simulator beside kernels, scenario by scenario.

use std::path::Path;

use serde_json::json;
use surety_host::Bindings;
use surety_model::platform::PlatformChanges;
use surety_model::record::Record;
use surety_model::source::nearest;
use surety_model::workload::Workload;
use surety_model::world::{LAB_PREFIX, RunOptions, WorldError};
use surety_report::table::{cells, led};
use surety_reproduce::validation::{
    HOST, Kept, Kernel, NotCompared, Row, SCHEMA, Scenario, figures_of, judged, scenarios,
};
use surety_session::{Means, worlds};
use surety_units::{CpuId, CpuSet};

use crate::args::ValidateArgs;
use crate::args::lab::GuestArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

mod page;

/// The kernels, where none is named.
const KERNELS: [&str; 4] = ["lab:6.1-cloud", "lab:6.12-cloud", "lab:7-cloud", HOST];
/// Runs of one boot, and between two writes of the file.
const BATCH: usize = 6;
/// Between two runs on the host.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(500);
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
    let simulator = world(args, session, "sim", 1)?;
    for kernel in &kernels {
        let mut file = read(args, kernel)?;
        if !args.stored {
            run_missing(args, session, kernel, &chosen, &mut file)?;
        }
        for scenario in &chosen {
            let Some(kept) = file.scenarios.get(&scenario.title) else { continue };
            match (&kept.machine, &kept.unfit) {
                (Some(machine), None) => {
                    let options = RunOptions {
                        seed: kept.seed,
                        duration: kept.duration,
                        warm_up: kept.warm_up,
                        cpus: Some(kept.cpus),
                        cancel: session.cancel.clone(),
                        ..RunOptions::default()
                    };
                    let simulated =
                        simulator.run_on(machine, 0, &scenario.workload, &options, &scenario.title)?;
                    rows.extend(judged(scenario, kernel, kept, &simulated));
                }
                (_, why) => unfit.push(NotCompared {
                    scenario: scenario.title.clone(),
                    kernel: kernel.clone(),
                    why: why.clone().unwrap_or_default(),
                }),
            }
        }
    }
    if let Some(file) = &args.write {
        let text = files::read_text(file, LARGEST).map_err(|why| Failure::new(Code::BadInput, why))?;
        files::write_again(file, &page::within(&text, &page::tables(&rows, &unfit))?)?;
    }
    if session.json {
        session.print_json(&document(&rows, &unfit))?;
    } else {
        session.print(&text(&rows, &unfit, session))?;
    }
    Ok(match rows.iter().any(|row| !row.agrees() && row.cause.is_none()) {
        true => Code::Broken,
        false if rows.is_empty() => Code::Undecided,
        false => Code::Kept,
    })
}

fn chosen(args: &ValidateArgs) -> Result<Vec<Scenario>, Failure> {
    let all = scenarios();
    for name in &args.names {
        if !all.iter().any(|scenario| scenario.title == *name) {
            let near = nearest(name, all.iter().map(|s| s.title.as_str()));
            let help = near.map_or_else(
                || "see docs/validation.md".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(Failure::new(Code::BadInput, format!("there is no scenario `{name}`")).help(help));
        }
    }
    Ok(all.into_iter().filter(|s| args.names.is_empty() || args.names.contains(&s.title)).collect())
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

/// What of the scenarios is not in the file, or not as it is now.
fn missing<'s>(args: &ValidateArgs, chosen: &'s [Scenario], file: &Kernel, cpus: u32) -> Vec<&'s Scenario> {
    let is_kept = |scenario: &Scenario| {
        let kept = file.scenarios.get(&scenario.title);
        kept.is_some_and(|kept| {
            kept.workload == scenario.text
                && (kept.duration, kept.warm_up, kept.seed) == (args.duration, args.warm_up, args.seed)
                && kept.unfit.is_none()
        })
    };
    chosen.iter().filter(|s| s.cpus == cpus && (args.fresh || !is_kept(s))).collect()
}

fn run_missing(
    args: &ValidateArgs,
    session: &Session,
    kernel: &str,
    chosen: &[Scenario],
    file: &mut Kernel,
) -> Result<(), Failure> {
    let here = u32::try_from(std::thread::available_parallelism().map_or(1, usize::from)).unwrap_or(1);
    for cpus in [1, 2, 4] {
        let missing = missing(args, chosen, file, cpus);
        if missing.is_empty() || (kernel == HOST && cpus > here) {
            continue;
        }
        let world = world(args, session, kernel, cpus)?;
        // On a machine of its own the last CPUs are the quietest.
        let first = if kernel == HOST { here - cpus } else { 0 };
        let set: CpuSet = (first..first + cpus).map(CpuId).collect();
        let batch = if kernel == HOST { 1 } else { BATCH };
        for scenarios in missing.chunks(batch) {
            let plain = RunOptions {
                seed: args.seed,
                duration: args.duration,
                warm_up: args.warm_up,
                cpus: Some(set),
                cancel: session.cancel.clone(),
                ..RunOptions::default()
            };
            let runs = scenarios.iter().map(|s| (s.workload.clone(), plain.clone(), s.title.clone()));
            let runs: Vec<_> = runs.collect();
            let made = world.run_first(runs.len(), 0, &runs);
            // The runs of a host differ: a second one tells by how much.
            let again = if kernel == HOST { again(&world, &runs) } else { Vec::new() };
            let mut again = again.into_iter();
            for (scenario, first) in scenarios.iter().zip(made) {
                let runs = std::iter::once(first).chain(again.next()).collect::<Result<Vec<_>, _>>();
                let mut kept = kept(args, set, scenario, runs)?;
                // What a guest's own threads take is part of what its kernel does, the same every time.
                kept.unfit = kept.unfit.filter(|_| kernel == HOST || kept.runs.is_empty());
                file.scenarios.insert(scenario.title.clone(), kept);
            }
            write(args, file)?;
        }
    }
    Ok(())
}

/// The same runs once more, when reservations of the first have given their bandwidth back: the kernel keeps it to their zero-lag time.
fn again(
    world: &worlds::Worlds<'_>,
    runs: &[(Workload, RunOptions, String)],
) -> Vec<Result<Record, WorldError>> {
    std::thread::sleep(PAUSE);
    world.run_first(runs.len(), 0, runs)
}

/// What is kept of the runs of a scenario.
fn kept(
    args: &ValidateArgs,
    cpus: CpuSet,
    scenario: &Scenario,
    runs: Result<Vec<Record>, WorldError>,
) -> Result<Kept, Failure> {
    let mut kept = Kept {
        workload: scenario.text.to_owned(),
        seed: args.seed,
        cpus,
        duration: args.duration,
        warm_up: args.warm_up,
        ..Kept::default()
    };
    match runs {
        Ok(runs) => {
            let first = &runs[0].in_force;
            kept.machine.clone_from(&first.machine);
            let wanted = ["lab kernel", "lab emulator", "lab clock", "processor"];
            kept.environment = first.environment.clone();
            kept.environment.retain(|name, _| wanted.contains(&name.as_str()));
            kept.environment.insert("kernel".to_owned(), first.kernel.clone());
            kept.unfit = runs.iter().find_map(|run| run.degraded.first().cloned());
            kept.runs = runs.iter().map(figures_of).collect();
        }
        Err(WorldError::Interrupted) => return Err(WorldError::Interrupted.into()),
        Err(why) => kept.unfit = Some(why.to_string()),
    }
    Ok(kept)
}

fn world<'a>(
    args: &ValidateArgs,
    session: &'a Session,
    word: &str,
    cpus: u32,
) -> Result<worlds::Worlds<'a>, Failure> {
    let guest = GuestArgs { lab_cpus: cpus, ..args.guest.clone() };
    let means = Means {
        platform: PlatformChanges::default(),
        traced: false,
        force: false,
        bindings: Bindings::default(),
        guest: guest.options(args.seed),
    };
    Ok(worlds::Worlds::new(&[word.to_owned()], means, session)?)
}

/// A figure with its unit.
fn value(row: &Row, value: f64) -> String {
    match row.is_time {
        false => format!("{value:.2} %"),
        true if value >= surety_units::Nanos::MAX.get() as f64 => "never".to_owned(),
        true => format!("{:.3} ms", value / 1e6),
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
    let agree = rows.iter().filter(|row| row.agrees()).count();
    let open = rows.iter().filter(|row| !row.agrees() && row.cause.is_none()).count();
    out += &led(
        "",
        &format!("{agree} of {} figures agree, {open} disagree without a cause", rows.len()),
        &style,
    );
    out
}

fn document(rows: &[Row], unfit: &[NotCompared]) -> serde_json::Value {
    let row = |row: &Row| {
        let mut value = json!(row);
        value["agrees"] = json!(row.agrees());
        value
    };
    json!({
        "schema": "surety.validity/1",
        "figures": rows.iter().map(row).collect::<Vec<_>>(),
        "not_compared": unfit,
    })
}
