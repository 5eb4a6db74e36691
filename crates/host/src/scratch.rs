//! [`Scratch`]: the directory in which programs run that have to be prepared, with what they need in it.
//!
//! Made, for this user alone, and filled once, before the first run; used by every run of the workload; removed with everything in it when
//! dropped, or at the next start.

use std::fs::File;
use std::path::Path;

use surety_kernel::command::{ChildSetup, Command, Spawned, Stream, User, spawn};
use surety_kernel::journal::{Journal, ScratchDir};
use surety_kernel::{Kernel, clock};
use surety_model::workload::{Program, TaskBody, Workload};
use surety_model::world::{Cancel, WorldError};
use surety_units::Nanos;

use crate::children::ChildrenEntry;
use crate::command_line::split_command;
use crate::rights::{rights_of, shared_user};
use crate::said::{it_said, last_words};

/// A preparation that takes longer is ended and the run refused.
pub const PREPARE_MAX: Nanos = Nanos::from_secs(120);
/// Between two looks at Ctrl-C.
const LOOK: Nanos = Nanos::from_millis(50);

/// A directory for the programs of a workload.
#[derive(Debug)]
pub struct Scratch<'a> {
    directory: ScratchDir<'a>,
}

impl<'a> Scratch<'a> {
    /// Makes the directory and runs in it what the workload's programs have to be prepared with, one after another.
    /// `None` when no program of the workload needs anything.
    ///
    /// # Errors
    /// In words: a preparation that is not found, fails, or takes longer than [`PREPARE_MAX`].
    pub fn prepare(
        workload: &Workload,
        kernel: &'a dyn Kernel,
        journal: Option<&'a Journal>,
        cancel: &Cancel,
    ) -> Result<Option<Scratch<'a>>, WorldError> {
        let programs = || {
            workload.tasks.iter().filter_map(|task| match &task.body {
                TaskBody::Command(program) => {
                    Some((task.name.as_str(), program, program.prepare.as_deref()?))
                }
                _ => None,
            })
        };
        if programs().next().is_none() {
            return Ok(None);
        }
        let failed = |why: String| WorldError::Machine {
            what: format!("no directory for the programs of the workload: {why}"),
            remedy: "set TMPDIR to a directory that can be written".to_owned(),
        };
        let user = shared_user(workload)?;
        let directory = ScratchDir::make(kernel, journal).map_err(|e| failed(e.to_string()))?;
        if let Some(user) = user {
            give_to(directory.path(), &user).map_err(|e| failed(e.to_string()))?;
        }
        let scratch = Scratch { directory };
        let children = ChildrenEntry::of_command(journal, kernel);
        for (name, program, line) in programs() {
            let mark = children.as_ref().map(|children| children.mark().to_owned());
            scratch.run(name, program, line, mark, cancel)?;
        }
        Ok(Some(scratch))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    fn run(
        &self,
        name: &str,
        program: &Program,
        line: &str,
        mark: Option<String>,
        cancel: &Cancel,
    ) -> Result<(), WorldError> {
        let failed = |why: String| WorldError::Activity {
            object: format!("task.{name}"),
            why: format!("`prepare` failed: {why}"),
        };
        let mut errors =
            tempfile::tempfile().map_err(|e| failed(format!("no file for its messages: {e}")))?;
        let mut command = command_of(line, Some(self.path()), &errors).map_err(failed)?;
        let rights = Some(rights_of(&format!("task.{name}"), &program.rights)?);
        let setup = ChildSetup { mark, rights, ..ChildSetup::default() };
        let mut child =
            spawn(&mut command, &setup).map_err(|error| failed(not_started(line, program, &error)))?;
        let advice = format!("; run it by itself to see what it needs: {line}");
        await_preparation(&mut child, &mut errors, cancel, &advice, &failed)
    }
}

/// Lets a user work in a directory of ours.
pub(crate) fn give_to(directory: &Path, user: &User) -> std::io::Result<()> {
    std::os::unix::fs::chown(directory, Some(user.uid), Some(user.gid))
}

/// Waits until a preparation is done, at most [`PREPARE_MAX`]; one that fails is told with its last words and the
/// advice.
pub(crate) fn await_preparation(
    child: &mut Spawned,
    errors: &mut File,
    cancel: &Cancel,
    advice: &str,
    failed: &dyn Fn(String) -> WorldError,
) -> Result<(), WorldError> {
    let until = clock::monotonic() + PREPARE_MAX;
    loop {
        let now = clock::monotonic();
        if cancel.is_cancelled() {
            return Err(WorldError::Interrupted);
        }
        if now >= until {
            return Err(failed(format!("it was not done after {PREPARE_MAX}; let it make less")));
        }
        let ended = child.wait_until(until.min(now + LOOK)).map_err(|e| failed(e.to_string()))?;
        let Some(ended) = ended else { continue };
        if ended.status.success() {
            return Ok(());
        }
        let words = it_said(last_words(errors));
        return Err(failed(format!("it ended with {}{words}{advice}", ended.status)));
    }
}

/// A command line as a command, in a directory or where we are, its messages going to a file.
pub(crate) fn command_of(line: &str, directory: Option<&Path>, errors: &File) -> Result<Command, String> {
    let words = split_command(line)?;
    let (program, arguments) = words.split_first().ok_or("the command is empty")?;
    let errors = errors.try_clone().map_err(|e| format!("no file for its messages: {e}"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    command.stdin(Stream::Null).stdout(Stream::Null).stderr(errors);
    Ok(command)
}

/// Why a program did not start, and what to do: to install it, where the workload says what brings it.
pub(crate) fn not_started(line: &str, program: &Program, error: &surety_kernel::KernelError) -> String {
    let word = split_command(line).ok().and_then(|words| words.into_iter().next()).unwrap_or_default();
    match (&program.package, error.is_gone()) {
        (Some(package), true) => {
            format!(
                "`{word}` is not installed; it comes with the package `{package}`: apt-get install {package}"
            )
        }
        _ => format!("{error}; check the command's name and path"),
    }
}
