//! `surety reproduce`: published experiments again, side by side with what was published.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use surety_host::Bindings;
use surety_host::latency::{LatencyOptions, LatencyProbe as HostProbe};
use surety_host::probe_setup::ProbePolicy;
use surety_lab::devices::Device;
use surety_model::formats::io_trace::{IoTrace, IoTraceError};
use surety_model::latency::Sleep;
use surety_model::platform::{Platform, PlatformChanges};
use surety_model::record::{Distribution, Record};
use surety_model::source::nearest;
use surety_model::workload::{Load, LoadKind, PolicySpec, Workload};
use surety_model::world::{LAB_PREFIX, RunOptions, WorldError};
use surety_report::Paper;
use surety_report::table::{amount, cells};
use surety_reproduce::{
    Bench, Cell, EXPERIMENTS, Experiment, LatencyProbe, Mark, Origin, Planned, Probe, Request, Sheet,
};

use surety_session::probe::on_kernel;
use surety_session::{Means, worlds};
use surety_units::Bytes;

use stored::{Beside, FromRecords, Keeping};

use crate::args::ReproduceArgs;
use crate::args::lab::GuestArgs;
use crate::exit::{Code, Failure, Message};
use crate::files;
use crate::session::Session;

mod stored;

/// A recording longer than this is no start of a program.
const RECORDING_MAX: u64 = 64 << 20;

/// The schema of reproductions, described in `docs/reproduce.md`.
const SCHEMA: &str = "surety.reproduction/1";

/// The verb.
pub fn reproduce(args: &ReproduceArgs, session: &Session) -> Result<Code, Failure> {
    if args.names.is_empty() {
        return list(session);
    }
    let experiments = args.names.iter().map(|name| experiment_of(name)).collect::<Result<Vec<_>, _>>()?;
    let one_file = [("--json", session.json), ("--records", args.records.is_some())];
    if let (true, Some((option, _))) = (experiments.len() > 1, one_file.iter().find(|(_, is_set)| *is_set)) {
        let said = format!("{option} is of one experiment, and {} are asked for", experiments.len());
        return Err(Failure::new(Code::BadInput, said).help("reproduce them one by one"));
    }
    let mut code = Code::Kept;
    for (number, experiment) in experiments.into_iter().enumerate() {
        if number > 0 {
            session.print("\n")?;
        }
        if one(args, experiment, session)? != Code::Kept {
            code = Code::Undecided;
        }
    }
    Ok(code)
}

/// One experiment.
fn one(args: &ReproduceArgs, experiment: &Experiment, session: &Session) -> Result<Code, Failure> {
    let in_lab = args.from.is_some() || args.on.iter().any(|word| word.starts_with(LAB_PREFIX));
    let default =
        if in_lab { experiment.lab_duration.unwrap_or(experiment.duration) } else { experiment.duration };
    let request = Request {
        seeds: args.seeds,
        only: selected(args, experiment)?,
        options: RunOptions {
            seed: args.seed,
            duration: args.duration.unwrap_or(default),
            warm_up: args.warm_up,
            cpus: args.cpus,
            cancel: session.cancel.clone(),
            files: Arc::new(recordings(&args.replay)?),
        },
    };
    let page = args.html.as_ref().map(|path| match args.names.len() {
        1 => path.clone(),
        _ => path.with_extension(format!("{}.html", experiment.name)),
    });
    files::check_outputs([args.records.as_ref(), page.as_ref()])?;
    let sheet = match (&args.from, &args.records) {
        (Some(file), _) if args.on.is_empty() => {
            experiment.run(&mut FromRecords::read(file, experiment.name)?, &request)?
        }
        (Some(file), _) => {
            let records = FromRecords::read(file, experiment.name)?;
            let models = models(args, experiment, session)?;
            experiment.run(&mut Beside::new(records, models), &request)?
        }
        (None, None) => experiment.run(&mut bench(args, experiment, session)?, &request)?,
        (None, Some(file)) => {
            let mut bench = Keeping::new(bench(args, experiment, session)?);
            let sheet = experiment.run(&mut bench, &request)?;
            files::write(file, &bench.into_document(experiment.name))?;
            sheet
        }
    };
    if let Some(path) = page {
        files::write(&path, &paper(experiment, &sheet).page(&heading(experiment.title)))?;
    }
    if session.json {
        session.print_json(&document(experiment, &request, &sheet))?;
    } else {
        session.print(&paper(experiment, &sheet).text(&session.style()))?;
    }
    let refused = sheet.rows.iter().flat_map(|row| &row.cells).any(|cell| matches!(cell, Cell::Refused(_)));
    Ok(if refused { Code::Undecided } else { Code::Kept })
}

/// The words of configurations that are asked for.
fn selected(args: &ReproduceArgs, experiment: &Experiment) -> Result<Vec<String>, Failure> {
    let known = experiment.selects;
    let Some(word) = args.only.iter().find(|word| !known.contains(&word.as_str())) else {
        return Ok(args.only.clone());
    };
    let said = format!("`{}` has no configuration `{word}`", experiment.name);
    let help = match (nearest(word, known.iter().copied()), known) {
        (_, []) => "leave --only out: it runs as a whole".to_owned(),
        (Some(near), _) => format!("did you mean {near}?"),
        (None, known) => format!("use {}", known.join(", ")),
    };
    Err(Failure::new(Code::BadInput, said).help(help))
}

/// Recordings by the names of their files.
fn recordings(files: &[PathBuf]) -> Result<BTreeMap<String, String>, Failure> {
    let read = |path: &PathBuf| {
        let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let failed = |why: String| Failure::new(Code::BadInput, format!("{}: {why}", path.display()));
        let text = files::read_text(path, RECORDING_MAX).map_err(failed)?;
        let wrong =
            |why: IoTraceError| Failure::new(Code::BadInput, why.in_file(&path.display().to_string()));
        IoTrace::parse(&text).map_err(wrong)?;
        Ok((name, text))
    };
    files.iter().map(read).collect()
}

/// The worlds an experiment is reproduced in.
fn bench<'a>(
    args: &ReproduceArgs,
    experiment: &Experiment,
    session: &'a Session,
) -> Result<Worlds<'a>, Failure> {
    let named = experiment.worlds.iter().map(|word| (*word).to_owned());
    let words: Vec<String> = if args.on.is_empty() { named.collect() } else { args.on.clone() };
    let lab_shift = args.guest.lab_shift.or(Some(experiment.lab_shift).filter(|_| !args.guest.lab_fast));
    let mut guest = GuestArgs { lab_shift, ..args.guest.clone() };
    guest.lab_cpus = guest.lab_cpus.max(experiment.lab_cpus);
    guest.lab_memory = guest.lab_memory.max(experiment.lab_memory_mib);
    if guest.lab_device.is_empty() {
        let devices = experiment.lab_devices.iter().map(|words| Device::of_words(words));
        guest.lab_device = devices.collect::<Result<_, _>>()?;
    }
    let guest_options = guest.options(args.seed);
    let means = Means {
        platform: PlatformChanges::default(),
        traced: experiment.is_traced,
        force: false,
        bindings: Bindings::default(),
        guest: guest_options,
    };
    Ok(Worlds { session, guest, runner: worlds::Worlds::new(&words, means, session)? })
}

/// The same, all of which compute what a kernel would do.
fn models<'a>(
    args: &ReproduceArgs,
    experiment: &Experiment,
    session: &'a Session,
) -> Result<Worlds<'a>, Failure> {
    let worlds = bench(args, experiment, session)?;
    let names = worlds.worlds();
    match (0..names.len()).find(|world| !worlds.runner.kind(*world).is_model) {
        None => Ok(worlds),
        Some(kernel) => {
            let what = format!("records are read with --from, and {} is a running kernel", names[kernel]);
            Err(Failure::new(Code::BadInput, what).help("use --on sim beside records, or leave --from out"))
        }
    }
}

fn experiment_of(name: &str) -> Result<&'static Experiment, Failure> {
    EXPERIMENTS.iter().copied().find(|e| e.name == name).ok_or_else(|| {
        let names = EXPERIMENTS.iter().map(|e| e.name);
        let help = nearest(name, names.clone()).map_or_else(
            || format!("use {}", names.collect::<Vec<_>>().join(", ")),
            |near| format!("did you mean {near}?"),
        );
        Failure::new(Code::BadInput, format!("there is no experiment `{name}`")).help(help)
    })
}

fn list(session: &Session) -> Result<Code, Failure> {
    if session.json {
        let list = EXPERIMENTS
            .iter()
            .map(|e| json!({ "name": e.name, "title": e.title, "source": e.source, "worlds": e.worlds }));
        session.print_json(&json!({ "schema": SCHEMA, "experiments": list.collect::<Vec<_>>() }))?;
        return Ok(Code::Kept);
    }
    let rows: Vec<Vec<String>> = EXPERIMENTS
        .iter()
        .map(|e| vec![e.name.to_owned(), e.title.to_owned(), e.source.to_owned()])
        .collect();
    session.print(&cells(&["experiment", "what it is about", "published in"], &rows, &session.style()))?;
    Ok(Code::Kept)
}

/// The worlds of a command line as an experiment sees them.
struct Worlds<'a> {
    session: &'a Session,
    guest: GuestArgs,
    runner: worlds::Worlds<'a>,
}

impl Bench for Worlds<'_> {
    fn worlds(&self) -> Vec<String> {
        self.runner.names().into_iter().map(str::to_owned).collect()
    }

    fn run(
        &mut self,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        self.runner.run(world, workload, options, label, None)
    }

    fn run_first(&mut self, count: usize, world: usize, runs: &[Planned]) -> Vec<Result<Record, WorldError>> {
        let runs = runs.iter().map(|run| (run.workload.clone(), run.options.clone(), run.label.clone()));
        self.runner.run_first(count, world, &runs.collect::<Vec<_>>())
    }

    fn probe(
        &mut self,
        world: usize,
        probe: &Probe,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        match probe {
            Probe::Interpacket { interval } => self.runner.packets(world, *interval, options, label),
            Probe::Latency(latency) => self.latency(world, latency, options),
            Probe::RequestCost { schedulers } => {
                self.session.step(&format!("{label}: measuring"));
                self.runner.requests(world, schedulers, options)
            }
        }
    }

    fn run_on(
        &mut self,
        platform: &Platform,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        self.runner.run_on(platform, world, workload, options, label)
    }
}

impl Worlds<'_> {
    fn latency(
        &self,
        world: usize,
        probe: &LatencyProbe,
        options: &RunOptions,
    ) -> Result<Record, WorldError> {
        let options = LatencyOptions {
            cpus: options.cpus,
            period: probe.period,
            sleep: Sleep::Absolute,
            policy: ProbePolicy::Class(PolicySpec::Fifo { priority: probe.priority.into() }),
            jobs: probe.jobs,
            warm_up: options.warm_up,
            until: None,
            stop_over: None,
            loads: probe.loads.iter().map(load).collect(),
            seed: options.seed,
            cancel: self.session.cancel.clone(),
        };
        let entry = self.runner.entry(world);
        match entry.kernel() {
            None if entry.is_this_machine() => {
                let probe = HostProbe::new(&self.session.kernel, self.session.journal());
                Ok(probe.run(&options, None)?.record)
            }
            Some(stored) => {
                let guest = self.guest.options(options.seed);
                on_kernel(&options, &guest, stored.clone(), self.session).map_err(|e| as_world(e.into()))
            }
            None => Err(WorldError::Unsupported {
                world: self.runner.names()[world].to_owned(),
                object: "the probe".to_owned(),
                why: "it measures threads of a real kernel".to_owned(),
            }),
        }
    }
}

fn as_world(failure: Failure) -> WorldError {
    if failure.code == Code::Interrupted {
        return WorldError::Interrupted;
    }
    match failure.message {
        Message::Words { what, help } => {
            WorldError::Machine { what, remedy: help.unwrap_or_else(|| "run it alone".to_owned()) }
        }
        Message::Input(why) => {
            WorldError::Machine { what: why.to_string(), remedy: "see what it names".to_owned() }
        }
    }
}

/// A load of a probe, under the name of its kind.
fn load(&(kind, count, block): &(LoadKind, u32, Option<Bytes>)) -> Load {
    Load { block, ..Load::new(kind.word(), kind, count) }
}

/// A title as a page's heading.
fn heading(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A table with every error beside its value, the largest error of each column, and the notes.
fn paper(experiment: &Experiment, sheet: &Sheet) -> Paper {
    let mut titles: Vec<&str> = sheet.keys.clone();
    let mut shown = keys(sheet);
    let mut errors = Vec::new();
    for (index, column) in sheet.columns.iter().enumerate() {
        titles.push(&column.title);
        let worst = match column.unit {
            "%" => sheet.worst_error(index).map(|part| Error::Points(part * 100.0)),
            _ => sheet.worst_relative_error(index).map(|part| Error::Percent(part * 100.0)),
        };
        for (line, row) in shown.iter_mut().zip(&sheet.rows) {
            line.push(cell_text(&row.cells[index], column.unit));
        }
        let Some(worst) = worst else { continue };
        titles.push("error");
        for (line, row) in shown.iter_mut().zip(&sheet.rows) {
            line.push(error_of(&row.cells[index], column.unit).map_or_else(String::new, error_text));
        }
        errors.push(format!("{} {}", column.title, error_text(worst).trim_start_matches('+')));
    }
    if sheet.rows.iter().any(|row| row.mark.is_some()) {
        titles.push("");
        for (line, row) in shown.iter_mut().zip(&sheet.rows) {
            line.push(row.mark.as_ref().map_or_else(String::new, |mark| mark.word().to_owned()));
        }
    }
    let mut paper = Paper::default();
    paper.led("", format!("{}: {} ({})", experiment.name, experiment.title, experiment.source)).gap();
    paper.keyed_cells(sheet.keys.len(), &titles, shown).gap();
    if !errors.is_empty() {
        paper.led("", format!("largest error: {}", errors.join("; ")));
    }
    for row in &sheet.rows {
        if let Some(Mark::NotExplained(why)) = &row.mark {
            paper.led("not explained: ", format!("{}: {why}", row.keys.join(" ")));
        }
    }
    for (lead, why) in unseen(sheet) {
        paper.led(lead, why);
    }
    paper.notes(sheet.notes.clone());
    if !sheet.drawn.is_empty() {
        paper.gap().distributions("samples of all seeds", sheet.drawn.clone());
    }
    paper
}

/// Why cells have no value, each reason once.
fn unseen(sheet: &Sheet) -> Vec<(&str, &String)> {
    let reasons = sheet.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| match cell {
        Cell::Refused(why) => Some(("not run: ", why)),
        Cell::NotObservable(why) => Some(("not observable: ", why)),
        _ => None,
    });
    let mut said: Vec<(&str, &String)> = Vec::new();
    for reason in reasons {
        if !said.contains(&reason) {
            said.push(reason);
        }
    }
    said
}

/// What each row is named by; what stands above already is not said again.
fn keys(sheet: &Sheet) -> Vec<Vec<String>> {
    let mut above: &[String] = &[];
    let said = sheet.rows.iter().map(|row| {
        let same = row.keys.iter().zip(above).take_while(|(key, above)| key == above).count();
        above = &row.keys;
        // The last key tells rows apart even where one looks at a single line.
        let silent = same.min(row.keys.len().saturating_sub(1));
        row.keys
            .iter()
            .enumerate()
            .map(|(i, key)| if i < silent { String::new() } else { key.clone() })
            .collect()
    });
    said.collect()
}

fn cell_text(cell: &Cell, unit: &str) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Value { value, .. } => amount(*value, unit),
        Cell::Below(limit) => format!("< {}", amount(*limit, unit)),
        Cell::Above(limit) => format!("> {}", amount(*limit, unit)),
        Cell::Refused(_) => "-".to_owned(),
        Cell::NotObservable(_) => "not observable".to_owned(),
    }
}

/// An error as people compare it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Error {
    /// Of a fraction: percentage points.
    Points(f64),
    /// Of anything else: percent of what it is held against.
    Percent(f64),
}

fn error_of(cell: &Cell, unit: &str) -> Option<Error> {
    match unit {
        "%" => cell.error().map(|part| Error::Points(part * 100.0)),
        _ => cell.relative_error().map(|part| Error::Percent(part * 100.0)),
    }
}

/// With its sign.
fn error_text(error: Error) -> String {
    // What rounds to nothing has no sign worth a minus.
    let signed = |value: f64| format!("{:+.2}", if value.abs() < 0.005 { 0.0 } else { value });
    match error {
        Error::Points(points) => signed(points),
        Error::Percent(percent) => format!("{} %", signed(percent)),
    }
}

/// A distribution as the counts of its histogram's buckets.
fn drawn((name, distribution): &(String, Distribution)) -> Value {
    let buckets = distribution.observed().map(|o| o.histogram.buckets().collect::<Vec<_>>());
    json!({ "name": name, "unit": "ns", "buckets": buckets })
}

fn document(experiment: &Experiment, request: &Request, sheet: &Sheet) -> Value {
    let columns = sheet.columns.iter().map(|column| {
        let origin = match column.origin {
            Origin::Published => "published",
            Origin::Theory => "theory",
            Origin::World => "world",
        };
        json!({ "title": column.title, "unit": column.unit, "origin": origin })
    });
    let rows = sheet.rows.iter().map(|row| {
        let cells = row.cells.iter().map(|cell| match cell {
            Cell::Empty => Value::Null,
            Cell::Value { value, error } => json!({ "value": value, "error": error }),
            Cell::Below(limit) => json!({ "below": limit }),
            Cell::Above(limit) => json!({ "above": limit }),
            Cell::Refused(why) => json!({ "refused": why }),
            Cell::NotObservable(why) => json!({ "not_observable": why }),
        });
        let why = match &row.mark {
            Some(Mark::NotExplained(why)) => Some(why),
            _ => None,
        };
        let mark = row.mark.as_ref().map(Mark::word);
        json!({ "keys": row.keys, "cells": cells.collect::<Vec<_>>(), "mark": mark, "why": why })
    });
    json!({
        "schema": SCHEMA,
        "experiment": experiment.name,
        "source": experiment.source,
        "seed": request.options.seed,
        "duration_ns": request.options.duration,
        "keys": sheet.keys,
        "columns": columns.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
        "notes": sheet.notes,
        "distributions": sheet.drawn.iter().map(drawn).collect::<Vec<_>>(),
    })
}
