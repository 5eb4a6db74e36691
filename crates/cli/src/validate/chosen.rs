//! Which scenarios are compared: those of the list by their titles, and workload files.

use std::fmt::Write as _;
use std::path::Path;

use surety_model::source::nearest;
use surety_reproduce::validation::{Scenario, scenarios};

use crate::args::ValidateArgs;
use crate::exit::{Code, Failure};
use crate::input::{files_of, read_workload_and_text};

/// The named ones, those of the list first; none is named: all of the list.
pub(super) fn chosen(args: &ValidateArgs) -> Result<Vec<Scenario>, Failure> {
    let mut chosen = scenarios();
    if args.names.is_empty() {
        return Ok(chosen);
    }
    let mut files: Vec<&String> = Vec::new();
    for name in &args.names {
        if chosen.iter().any(|scenario| scenario.title == *name) || files.contains(&name) {
            continue;
        }
        if !is_file(name) {
            return Err(unknown(name, &chosen));
        }
        files.push(name);
    }
    chosen.retain(|scenario| args.names.contains(&scenario.title));
    for name in files {
        chosen.push(of_file(name, args.cpu_count)?);
    }
    Ok(chosen)
}

/// Whether a word that is no title is meant for a file.
fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    path.exists() || name.contains('/') || path.extension().is_some_and(|ending| ending == "toml")
}

/// The workload of a file. What other files it names is part of its text: where that is another one now, it has to be run again.
fn of_file(name: &str, cpus: u32) -> Result<Scenario, Failure> {
    let (workload, mut text) = read_workload_and_text(Path::new(name))?;
    for (file, inner) in files_of(&workload)? {
        let _ = write!(text, "\n# {file}\n{inner}");
    }
    Ok(Scenario { title: name.to_owned(), is_listed: false, cpus, platform: String::new(), text, workload })
}

fn unknown(name: &str, all: &[Scenario]) -> Failure {
    let near = nearest(name, all.iter().map(|scenario| scenario.title.as_str()));
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "see docs/validation.md for those of the list, or name a workload file".to_owned(),
    };
    Failure::new(Code::BadInput, format!("there is no scenario and no file `{name}`")).help(help)
}
