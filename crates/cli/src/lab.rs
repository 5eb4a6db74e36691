//! `surety lab`: stock kernels under an emulator with a virtual clock.

use std::path::PathBuf;

use serde_json::json;
use surety_lab::LabError;
use surety_lab::kernels::CATALOGUE;
use surety_lab::modules::module_name;
use surety_lab::programs::program_in_path;
use surety_report::table::cells;
use surety_session::guests::{lab_of, store};

use crate::exit::{Code, Failure};
use crate::session::Session;

mod golden;
pub mod in_guest;

use crate::args::lab::{LabArgs, LabFetchArgs, LabShellArgs, LabVerb};

/// Programs a shell in the guest is more use with, as far as this machine has them.
const TOOLS: &[&str] = &[
    "sh", "cat", "chrt", "dmesg", "grep", "head", "kill", "ls", "mount", "ps", "sleep", "tail", "taskset",
    "uname",
];

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        let code = match &error {
            LabError::UnknownKernel { .. } | LabError::Options { .. } => Code::BadInput,
            LabError::Interrupted => Code::Interrupted,
            LabError::Guest(inner) => return inner.clone().into(),
            _ => Code::Machine,
        };
        let failure = Failure::new(code, error.to_string());
        match error.remedy() {
            Some(remedy) => failure.help(remedy),
            None => failure,
        }
    }
}

/// The verb.
pub fn lab(args: &LabArgs, session: &Session) -> Result<Code, Failure> {
    match &args.verb {
        LabVerb::List => list(session),
        LabVerb::Fetch(args) => fetch(args, session),
        LabVerb::Run(args) => crate::run::run(&args.on_lab(), session),
        LabVerb::Shell(args) => shell(args, session),
        LabVerb::Record(args) => golden::record(args, session),
        LabVerb::Check(args) => golden::check(args, session),
    }
}

fn list(session: &Session) -> Result<Code, Failure> {
    let store = store(session)?;
    let mut rows = Vec::new();
    let mut entries = Vec::new();
    for kernel in CATALOGUE {
        let stored = store.kernel(kernel.name).and_then(|stored| stored.check().map(|()| stored));
        let (state, size) = match &stored {
            Ok(stored) => (stored.in_words(), Some(stored.size())),
            Err(LabError::NotFetched { .. }) => ("-".to_owned(), None),
            Err(error) => (error.to_string(), None),
        };
        let shown = size.map_or_else(String::new, shown);
        let row = [kernel.name, kernel.about, kernel.suite, &state, &shown];
        rows.push(row.map(str::to_owned).to_vec());
        entries.push(json!({
            "name": kernel.name,
            "about": kernel.about,
            "suite": kernel.suite,
            "package": kernel.package,
            "stored": stored.as_ref().ok().map(|s| json!({
                "package": s.manifest().package,
                "version": s.manifest().version,
                "content": s.content(),
                "bytes": size,
                "modules": s.files().filter_map(module_name).count(),
            })),
            "damaged": stored.as_ref().err().filter(|e| matches!(e, LabError::Corrupt { .. })).map(ToString::to_string),
        }));
    }
    if session.json {
        session.print_json(&json!({
            "schema": "surety.lab-list/1",
            "directory": store.root(),
            "kernels": entries,
        }))?;
    } else {
        session.print(&cells(&["kernel", "what", "suite", "stored", "size"], &rows, &session.style()))?;
        session.step(&format!("in {}", store.root().display()));
    }
    Ok(Code::Kept)
}

fn fetch(args: &LabFetchArgs, session: &Session) -> Result<Code, Failure> {
    let store = store(session)?;
    // Every name is looked at before the first is fetched.
    for name in &args.kernels {
        surety_lab::kernels::find(name)?;
    }
    let mut fetched = Vec::new();
    for name in &args.kernels {
        let mut said = |text: &str| session.step(text);
        let stored = surety_lab::fetch::fetch(&store, name, args.within, &session.cancel, &mut said)?;
        session.step(&format!("{name}: {} in {}", shown(stored.size()), stored.path("").display()));
        fetched.push(json!({
            "name": name,
            "package": stored.manifest().package,
            "version": stored.manifest().version,
            "content": stored.content(),
        }));
    }
    if session.json {
        session.print_json(&json!({ "schema": "surety.lab-fetch/1", "kernels": fetched }))?;
    }
    Ok(Code::Kept)
}

fn shown(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn shell(args: &LabShellArgs, session: &Session) -> Result<Code, Failure> {
    let stored = store(session)?.kernel(&args.kernel)?;
    let tools: Vec<PathBuf> = TOOLS.iter().filter_map(|tool| program_in_path(tool)).collect();
    let lab = lab_of(stored, args.guest.options(args.seed), &tools, session)?;
    session.step(&format!(
        "a shell in {}; `exit` switches the guest off, Ctrl-a x ends the emulator",
        lab.stored().in_words()
    ));
    lab.shell(&session.cancel)?;
    Ok(Code::Kept)
}
