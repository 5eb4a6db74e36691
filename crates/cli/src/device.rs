//! `surety device`: the disks and I/O schedulers of the simulator.

mod characterise;
mod serve;

use std::path::Path;

use serde_json::json;
use surety_block::elevators::{ELEVATORS, by_word};
use surety_block::kernels::{DIFFERENCES, Difference, KERNELS, Rules};
use surety_block::{ElevatorRow, Front};
use surety_device::profile::{Profile, list as profiles, show};
use surety_report::table::cells;

use crate::args::{DeviceArgs, DeviceVerb};
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

/// A profile longer than this is something else.
const LENGTH_MAX: u64 = 1 << 20;

/// The verb.
pub fn device(args: &DeviceArgs, session: &Session) -> Result<Code, Failure> {
    match &args.verb {
        DeviceVerb::List => list(session),
        DeviceVerb::Show { name } => show_one(name, session),
        DeviceVerb::Characterise(args) => characterise::characterise(args, session),
        DeviceVerb::Serve(args) => serve::serve(args, session),
    }
}

fn list(session: &Session) -> Result<Code, Failure> {
    let lines = profiles();
    if session.json {
        let disks: Vec<_> = lines
            .iter()
            .map(|line| json!({ "name": line.name, "model": line.model, "capacity": line.capacity, "depth": line.depth, "about": line.about }))
            .collect();
        let schedulers: Vec<_> = ELEVATORS.iter().map(|row| scheduler(row)).collect();
        session
            .print_json(&json!({ "schema": "surety.devices/1", "disks": disks, "schedulers": schedulers }))?;
        return Ok(Code::Kept);
    }
    let disks: Vec<Vec<String>> = lines
        .into_iter()
        .map(|line| vec![line.name, line.model.to_owned(), line.capacity, line.depth.to_string(), line.about])
        .collect();
    session.print(&cells(&["disk", "model", "capacity", "depth", "what"], &disks, &session.style()))?;
    let schedulers: Vec<Vec<String>> = ELEVATORS
        .iter()
        .map(|row| {
            let tunables: Vec<&str> = row.tunables.iter().map(|tunable| tunable.name).collect();
            let tunables = if tunables.is_empty() { "-".to_owned() } else { tunables.join(", ") };
            vec![row.word.to_owned(), row.source.to_owned(), tunables]
        })
        .collect();
    session.print("\n")?;
    session.print(&cells(&["scheduler", "rules of", "tunables"], &schedulers, &session.style()))?;
    Ok(Code::Kept)
}

fn scheduler(row: &ElevatorRow) -> serde_json::Value {
    let tunables = row.tunables.iter().map(|tunable| {
        json!({
            "name": tunable.name,
            "default": tunable.default,
            "min": tunable.min,
            "max": tunable.max,
            "unit": tunable.unit,
            "meaning": tunable.meaning,
        })
    });
    json!({ "name": row.word, "source": row.source, "tunables": tunables.collect::<Vec<_>>() })
}

fn show_one(name: &str, session: &Session) -> Result<Code, Failure> {
    if session.json {
        return Err(Failure::new(Code::BadInput, "this prints no JSON document")
            .help("use `surety device list --json`"));
    }
    if let Some(row) = by_word(name) {
        let rows: Vec<Vec<String>> = row
            .tunables
            .iter()
            .map(|tunable| {
                let default = format!("{} {}", tunable.default, tunable.unit).trim_end().to_owned();
                vec![tunable.name.to_owned(), default, tunable.meaning.to_owned()]
            })
            .collect();
        session.print(&format!("{}: {}\n", row.word, row.source))?;
        if !rows.is_empty() {
            session.print(&cells(&["tunable", "default", "what it does"], &rows, &session.style()))?;
        }
        session.print(&by_kernel(row, session))?;
        return Ok(Code::Kept);
    }
    session.print(&show(&profile(name, "disk and no I/O scheduler")?))?;
    Ok(Code::Kept)
}

/// The profile of a name or a file; `what` there is not of another name.
fn profile(name: &str, what: &str) -> Result<Profile, Failure> {
    match Profile::named(name) {
        Some(profile) => Ok(profile),
        None if Profile::is_file(name) => read(name),
        None => Err(Failure::new(Code::BadInput, format!("there is no {what} `{name}`"))
            .help("see `surety device list`, or name a file FILE.toml or FILE.diskspecs")),
    }
}

/// What differs from kernel to kernel under a scheduler of blk-mq.
fn by_kernel(row: &ElevatorRow, session: &Session) -> String {
    let is_of = |difference: &&Difference| {
        difference.schedulers.is_empty() || difference.schedulers.contains(&row.word)
    };
    if row.front != Front::BlkMq {
        return String::new();
    }
    let rows: Vec<Vec<String>> = DIFFERENCES
        .iter()
        .filter(is_of)
        .flat_map(|difference| {
            let mut rule = difference.rule;
            let of = |rules: &Rules| {
                let rule = std::mem::take(&mut rule).to_owned();
                vec![rule, format!("linux-{}", rules.kernel), (difference.says)(rules)]
            };
            KERNELS.iter().map(of).collect::<Vec<_>>()
        })
        .collect();
    format!("\n{}", cells(&["what differs", "on", ""], &rows, &session.style()))
}

fn read(file: &str) -> Result<Profile, Failure> {
    let failed = |why: String| Failure::new(Code::BadInput, format!("{file}: {why}"));
    let text = files::read_text(Path::new(file), LENGTH_MAX).map_err(failed)?;
    let name = Path::new(file)
        .file_stem()
        .map_or_else(|| file.to_owned(), |stem| stem.to_string_lossy().into_owned());
    let mut open = |path: &str| files::read_text(Path::new(path), LENGTH_MAX);
    Profile::of_file(&name, file, &text, &mut open)
        .map_err(|wrong| Failure::new(Code::BadInput, wrong.to_string()))
}
