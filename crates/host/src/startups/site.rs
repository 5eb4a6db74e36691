//! Where a program is started: its directory on its disk, and what is in it.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use surety_kernel::command::{ChildSetup, Rights, spawn};
use surety_kernel::files::{evict, sync_file_system};
use surety_kernel::journal::RuntimeDir;
use surety_model::formats::io_trace::{IoTrace, IoTraceError};
use surety_model::workload::{Ready, Startup, StartupBody, Workload};
use surety_model::world::WorldError;

use super::replay::{RECORDED, Recorded};
use super::{Setting, Subject};
use crate::disks::Disks;
use crate::said::{remedy_of, said};
use crate::scratch::{await_preparation, command_of, give_to};

/// What this world cannot do of a start-up.
pub(super) fn check(startup: &Startup) -> Result<(), WorldError> {
    let refuse = |why: &str| {
        let object = format!("startup.{}", startup.name);
        Err(WorldError::Unsupported { world: "host".to_owned(), object, why: why.to_owned() })
    };
    let is_replay = matches!(startup.body, StartupBody::Replay(_));
    match &startup.disk {
        None if startup.cold => {
            refuse("`cold` needs a disk of its own: add `disk`; no cache of the whole machine is dropped")
        }
        None if is_replay => refuse("a replay needs a disk for its file: add `disk`"),
        None if startup.prepare.is_some() => refuse("`prepare` fills a directory on a disk: add `disk`"),
        _ if is_replay && startup.prepare.is_some() => {
            refuse("a replay makes its own file; leave out `prepare`")
        }
        _ if is_replay && startup.ready != Ready::Exit => {
            refuse("a replay is ready at its end; leave out `ready`")
        }
        _ => Ok(()),
    }
}

/// Reads a recording: the text that came with the run, else the file beside the workload's, or from here.
pub(super) fn read(
    startup: &Startup,
    file: &str,
    workload: &Workload,
    setting: &Setting<'_>,
) -> Result<Recorded, WorldError> {
    let parsed = |text: &str, path: &str| {
        let wrong = |error: IoTraceError| failed(startup, error.in_file(path));
        let trace = IoTrace::parse(text).map_err(wrong)?;
        Ok(Recorded { layout: trace.layout(), trace })
    };
    if let Some(text) = setting.files.get(file) {
        return parsed(text, file);
    }
    let beside = workload.source.name().and_then(|name| Path::new(name).parent()).map(|d| d.join(file));
    let path = beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(file));
    let failed = |why: String| failed(startup, format!("{}: {why}", path.display()));
    if !path.exists() {
        return Err(failed("there is no such file, beside the workload or here".to_owned()));
    }
    let text = setting.kernel.read_text(&path).map_err(|error| failed(error.to_string()))?;
    parsed(&text, &path.display().to_string())
}

pub(super) fn failed(startup: &Startup, why: impl Into<String>) -> WorldError {
    WorldError::Activity { object: format!("startup.{}", startup.name), why: why.into() }
}

/// Makes the directory on the disk, and what has to be in it; `None` without a disk.
pub(super) fn make(
    index: usize,
    startup: &Startup,
    subject: &Subject,
    disks: &mut Disks<'_>,
    setting: &Setting<'_>,
) -> Result<Option<String>, WorldError> {
    let Some(name) = &startup.disk else { return Ok(None) };
    let Some(disk) = disks.get_mut(name) else {
        return Err(failed(startup, format!("disk `{name}` is neither made nor bound here")));
    };
    let directory = format!("surety-startup-{index}");
    let in_words = |error: io::Error| WorldError::MachineFor {
        object: format!("startup.{}", startup.name),
        what: format!("startup.{} cannot be made ready: disk `{name}`: {}", startup.name, said(&error)),
        remedy: remedy_of(&error, true, false).to_owned(),
    };
    let path = disk.make_directory(&directory).map_err(in_words)?;
    match subject {
        Subject::Replay(recorded) => {
            let filled = fill(&path.join(RECORDED), recorded.layout.size, setting);
            let file = filled.map_err(in_words)?;
            disk.note(&format!("startup.{}", startup.name), &file, recorded.layout.size);
        }
        Subject::Program(_, rights) => {
            if let Some(user) = &rights.user {
                give_to(&path, user).map_err(in_words)?;
            }
            if let Some(line) = &startup.prepare {
                run(startup, line, &path, rights, setting)?;
            }
        }
    }
    if setting.cancel.is_cancelled() {
        return Err(WorldError::Interrupted);
    }
    File::open(&path).and_then(|directory| sync_file_system(&directory)).map_err(in_words)?;
    Ok(Some(directory))
}

/// A file of this size with something in every block.
fn fill(path: &Path, size: u64, setting: &Setting<'_>) -> io::Result<File> {
    const BLOCK: u64 = 64 << 10;
    let mut file = File::create(path)?;
    let mut bytes: Vec<u8> = (0..BLOCK).map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as u8 | 1).collect();
    let mut at = 0;
    while at < size && !setting.cancel.is_cancelled() {
        bytes[..8].copy_from_slice(&at.to_le_bytes());
        let length = BLOCK.min(size - at);
        file.write_all(&bytes[..length as usize])?;
        at += length;
    }
    Ok(file)
}

/// Runs `prepare`.
fn run(
    startup: &Startup,
    line: &str,
    directory: &Path,
    rights: &Rights,
    setting: &Setting<'_>,
) -> Result<(), WorldError> {
    let failed = |why: String| failed(startup, format!("`prepare` failed: {why}"));
    let mut errors = tempfile::tempfile().map_err(|e| failed(format!("no file for its messages: {e}")))?;
    let mut command = command_of(line, Some(directory), &errors).map_err(failed)?;
    let (mark, rights) = (setting.mark.clone(), Some(rights.clone()));
    let setup = ChildSetup { mark, rights, place: place_for(directory), ..ChildSetup::default() };
    let mut child = spawn(&mut command, &setup).map_err(|error| failed(error.to_string()))?;
    await_preparation(&mut child, &mut errors, setting.cancel, "", &failed)
}

/// Where a directory gets a path for its programs, where it is on a disk of ours, which has no place in the file system: over our own run-time
/// directory, for which no program looks.
pub(super) fn place_for(directory: &Path) -> Option<CString> {
    if !directory.starts_with("/proc/self/fd") {
        return None;
    }
    CString::new(RuntimeDir::find().ok()?.path().as_os_str().as_bytes()).ok()
}

/// Drops what the page cache holds of every ordinary file below a directory; links are not followed.
pub(super) fn forget(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            forget(&entry.path())?;
        } else if kind.is_file() {
            evict(&File::open(entry.path())?)?;
        }
    }
    Ok(())
}
