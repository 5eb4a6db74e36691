//! `command`: any program; started again whenever it ends, or run `once`.
//!
//! What a run of it leaves in its process group is killed before the next one starts, and all it started at the end.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use surety_kernel::clock;
use surety_kernel::command::{ChildSetup, Command as Program, Stream, spawn};
use surety_model::record::Figure;
use surety_model::workload::{Load, LoadKind, Rights};
use surety_model::world::WorldError;
use surety_units::Nanos;

use crate::command_line::split_command;
use crate::loads::helper::{Employer, Shift, Task, refusal};
use crate::loads::{
    Counts, Ground, LoadDriver, LoadWorker, Trouble, Workers, completion, number, per_second, refused,
};
use crate::rights::rights_of;
use crate::said::it_said;

/// The row of the kind.
pub(crate) const DRIVER: LoadDriver = LoadDriver { kind: LoadKind::Command, most: 256, prepare, figures };

fn prepare(load: &Load, count: u32, ground: &Ground<'_>) -> Result<Workers, WorldError> {
    let failed = |why: String| WorldError::Activity { object: format!("load.{}", load.name), why };
    let line = load.command.clone().unwrap_or_default();
    let words = split_command(&line).map_err(failed)?;
    let program = words.first().map_or("", String::as_str);
    if !is_there(program) {
        return Err(failed(format!("no program `{program}` was found; check its name and path")));
    }
    if let Some(why) = refusal() {
        return Err(refused(load, why));
    }
    rights_of(&format!("load.{}", load.name), &load.rights)?;
    let task = Task::Command { line, once: load.once, rights: load.rights.clone() };
    let make =
        |_| Box::new(Employer { task: task.clone(), mark: ground.mark.clone() }) as Box<dyn LoadWorker>;
    Ok((0..count).map(make).collect())
}

fn figures(done: &Counts, observed: Nanos) -> Vec<Figure> {
    let counts = [
        number("completions", done.rounds),
        per_second("completed", done.rounds, "/s", observed),
        number("failures", done.lost),
    ];
    counts.into_iter().chain(completion(done)).collect()
}

/// Whether a program can be found as the system looks for it, and started.
fn is_there(program: &str) -> bool {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return is_program(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    !program.is_empty() && std::env::split_paths(&path).any(|directory| is_program(&directory.join(program)))
}

/// What the helper does.
pub(crate) fn work(
    shift: &Shift,
    line: &str,
    once: bool,
    rights: &Rights,
    mark: Option<&str>,
) -> Result<(), String> {
    let words = split_command(line)?;
    let (program, arguments) = words.split_first().ok_or("the command is empty")?;
    let rights = Some(rights_of("load", rights).map_err(|error| error.to_string())?);
    let setup = ChildSetup { mark: mark.map(str::to_owned), rights, ..ChildSetup::default() };
    let mut counts = Counts::default();
    while !shift.is_over() {
        let mut command = Program::new(program);
        command.args(arguments).stdin(Stream::Null).stdout(Stream::Null);
        if counts != Counts::default() {
            // The words of the first are enough, and a file that grows for ever is too much.
            command.stderr(Stream::Null);
        }
        let begun = clock::monotonic();
        let mut running = spawn(&mut command, &setup).map_err(|e| e.to_string())?;
        let ended = loop {
            if let Some(ended) = running.wait_until(shift.next_look()).map_err(|e| e.to_string())? {
                break ended;
            }
            if shift.is_over() {
                return Ok(());
            }
        };
        match ended.status.success() {
            true => {
                counts.rounds += 1;
                counts.taken += clock::monotonic() - begun;
            }
            false => counts.lost += 1,
        }
        shift.count(0, counts);
        if once {
            shift.sleep();
        }
    }
    Ok(())
}

/// A program that failed whenever it was run.
pub(crate) fn never_succeeded(failures: u64, words: Option<String>) -> Trouble {
    let words = it_said(words);
    let times = if failures == 1 { "the one time".to_owned() } else { format!("all {failures} times") };
    Trouble {
        what: format!("its command failed {times} it was run{words}"),
        remedy: "run it by itself to see what it needs".to_owned(),
    }
}
