//! The watchdog: a process that takes changes of others' threads back when their owner cannot.
//!
//! An owner that is killed, or stopped (SIGSTOP, Ctrl-Z, a debugger), undoes nothing, and a foreign thread would keep its
//! reservation until the next start. So before the first such change this program is started anew as a process that only
//! waits: for the time at which the changes are to end, or for the end of the pipe from its owner, which is the owner's end.
//! Then it undoes what the journal says of threads. It writes nothing there: the owner, when it goes on, and the next start find those
//! threads as they were.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use surety_units::Nanos;

use super::change::{is_same_object, undo};
use super::recover::open_entries;
use super::{Entry, JournalError, RuntimeDir};
use crate::clock;
use crate::command::{ChildSetup, Command, Spawned, Stream, spawn};
use crate::error::{KernelError, Operation};
use crate::kernel::Kernel;
use crate::real::RealKernel;
use crate::transition::Owed;

/// The argument that makes this program a watchdog.
const WORD: &str = "take-back-watchdog";
/// So often it tries to take back what it could not, a [`PAUSE`] apart.
const TRIES: u32 = 50;
const PAUSE: Nanos = Nanos::from_millis(100);
/// The owner's last word; a time in ns, or this, comes before it.
const OVER: &str = "over";
const NO_TIME: &str = "none";

/// The watchdog of a journal, started when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What is started as one; `None`: none is wanted.
    program: Option<PathBuf>,
    until: Option<Nanos>,
    running: Option<(Spawned, File)>,
}

impl Watchdog {
    /// From now on there is one before a thread of others is changed.
    pub fn want(&self, program: &Path) {
        self.lock().program = Some(program.to_owned());
    }

    /// When changes are to end that their owner has not undone by then; `None`: only with the owner.
    pub fn until(&self, until: Option<Nanos>) {
        let mut state = self.lock();
        state.until = until;
        if let Some((_, pipe)) = &mut state.running {
            // One that is gone is found out before the next change.
            let _ = pipe.write_all(line(until).as_bytes());
        }
    }

    /// Sees to it that there is one, where one is wanted.
    pub fn watch(&self, directory: &Path, journal: &str) -> Result<(), KernelError> {
        let mut state = self.lock();
        let Some(program) = &state.program else { return Ok(()) };
        let failed = |error: std::io::Error| KernelError::from_io(Operation::Spawn, "a watchdog", &error);
        let told = line(state.until);
        let program = program.clone();
        if let Some((_, pipe)) = &mut state.running
            && pipe.write_all(told.as_bytes()).is_ok()
        {
            return Ok(());
        }
        let (reader, writer) = std::io::pipe().map_err(failed)?;
        let mut command = Command::new(&program);
        command.arg(WORD).arg(directory).arg(journal);
        command.stdin(Stream::File(reader.into())).stdout(Stream::Null).stderr(Stream::Null);
        let setup = ChildSetup { outlives_us: true, ..ChildSetup::default() };
        let process = spawn(&mut command, &setup)?;
        let mut pipe = File::from(OwnedFd::from(writer));
        pipe.write_all(told.as_bytes()).map_err(failed)?;
        state.running = Some((process, pipe));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some((mut process, mut pipe)) = self.lock().running.take() {
            let _ = pipe.write_all(format!("{OVER}\n").as_bytes());
            // It ends by itself; what does not is ended when it is dropped.
            let _ = process.wait_until(clock::monotonic() + Nanos::SECOND);
        }
    }
}

fn line(until: Option<Nanos>) -> String {
    until.map_or_else(|| format!("{NO_TIME}\n"), |until| format!("{}\n", until.get()))
}

/// To be called first thing by a program whose journal has a watchdog: where it was started as one, watches and returns the
/// exit code; else `None`.
pub fn watchdog_main() -> Option<u8> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_none_or(|word| word != WORD) {
        return None;
    }
    let (Some(directory), Some(journal)) = (words.next(), words.next()) else { return Some(2) };
    let kernel = RealKernel::new();
    let _ = crate::thread::set_name("surety-watchdog");
    crate::signals::ignore_endings();
    let Ok(directory) = RuntimeDir::at(Path::new(&directory)) else { return Some(3) };
    Some(match watch(&kernel, &directory, &journal.to_string_lossy()) {
        Ok(()) => 0,
        Err(_) => 3,
    })
}

/// Waits for the owner's word, its end, or the time.
fn watch(kernel: &RealKernel, directory: &RuntimeDir, journal: &str) -> Result<(), JournalError> {
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(|source| {
        JournalError::File { operation: "watching", path: directory.path().to_owned(), source }
    })?);
    let (mut until, mut heard) = (None, String::new());
    loop {
        if !readable(&input, until) {
            take_back_until_done(kernel, directory, journal)?;
            until = None;
            continue;
        }
        let mut buffer = [0; 4096];
        let length = input.read(&mut buffer).unwrap_or(0);
        if length == 0 {
            return take_back_until_done(kernel, directory, journal);
        }
        heard += &String::from_utf8_lossy(&buffer[..length]);
        while let Some((line, rest)) = heard.split_once('\n') {
            match line {
                OVER => return Ok(()),
                time => until = time.parse().ok().map(Nanos::new),
            }
            heard = rest.to_owned();
        }
    }
}

/// Waits until there is something to read, or it has ended; false when the time came first.
fn readable(input: &File, until: Option<Nanos>) -> bool {
    loop {
        let left = until.map(|until| until.saturating_sub(clock::monotonic()).max(Nanos::ZERO));
        match poll(&mut [PollFd::new(input, PollFlags::IN)], left.map(clock::timespec).as_ref()) {
            Ok(0) if left == Some(Nanos::ZERO) => return false,
            Ok(0) | Err(Errno::INTR) => {}
            _ => return true,
        }
    }
}

fn take_back_until_done(
    kernel: &dyn Kernel,
    directory: &RuntimeDir,
    journal: &str,
) -> Result<(), JournalError> {
    for _ in 0..TRIES {
        if take_back_threads(kernel, directory, journal)? == 0 {
            break;
        }
        let _ = clock::sleep_for(PAUSE);
    }
    Ok(())
}

/// Undoes what a journal says of threads, newest first, without writing there; how many changes could not be undone. Nothing is
/// left to do where the journal is gone.
///
/// # Errors
/// A journal that cannot be read or is not to be trusted.
pub fn take_back_threads(
    kernel: &dyn Kernel,
    directory: &RuntimeDir,
    journal: &str,
) -> Result<usize, JournalError> {
    let (mut failed, owed): (Vec<Entry>, Owed) = Default::default();
    for entry in open_entries(kernel, directory, journal)?.into_iter().rev() {
        let is_of_thread = matches!(entry, Entry::Scheduler { .. } | Entry::Affinity { .. });
        if !is_of_thread {
            continue;
        }
        let is_blocked = failed.iter().any(|later| is_same_object(later, &entry));
        if is_blocked || undo(kernel, &owed, &entry).is_err() {
            failed.push(entry);
        }
    }
    Ok(failed.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;
    use crate::{SchedPolicy, ScriptedKernel};
    use surety_units::{CpuId, CpuSet, Tid};

    #[test]
    fn threads_are_taken_back_while_their_owner_lives_and_nothing_else_is() {
        let base = tempfile::tempdir().unwrap();
        let directory = RuntimeDir::at(&base.path().join("run")).unwrap();
        let kernel = ScriptedKernel::new(2);
        kernel.add_thread(Tid(10), Tid(10), "theirs");
        kernel.set_affinity(Tid(10), &CpuSet::single(CpuId(1))).unwrap();
        kernel.add_file("/sys/file", "old\n");
        let before = kernel.thread(Tid(10)).unwrap();
        let journal = Journal::open(&kernel, &directory).unwrap();
        let file = Path::new("/sys/file");
        journal.write_text(&kernel, file, "new").unwrap();
        journal.set_affinity(&kernel, Tid(10), CpuSet::first(2)).unwrap();
        let ms = Nanos::MILLISECOND;
        let reservation = SchedPolicy::deadline(ms, ms * 10, ms * 10);
        journal.set_scheduler(&kernel, Tid(10), reservation.into()).unwrap();
        let entries = journal.open_entries();
        let path = journal.path();
        let text = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();

        // As long as the class cannot be taken back, neither can the CPUs.
        kernel.fail_on(Operation::SetFair, "thread 10", libc::EPERM);
        assert_eq!(take_back_threads(&kernel, &directory, name).unwrap(), 2);
        kernel.clear_faults();
        assert_eq!(take_back_threads(&kernel, &directory, name).unwrap(), 0);
        assert_eq!(kernel.thread(Tid(10)).unwrap(), before);
        assert_eq!(kernel.read_text(file).unwrap().trim(), "new", "the owner's own affair");
        assert_eq!(std::fs::read(&path).unwrap(), text, "the owner writes there, nobody else");

        // The owner goes on, and finds nothing left to do but its file.
        assert_eq!(journal.open_entries(), entries);
        assert!(journal.undo_all(&kernel).iter().all(|(_, result)| result.is_ok()));
        assert_eq!(kernel.thread(Tid(10)).unwrap(), before);
        assert_eq!(kernel.read_text(file).unwrap().trim(), "old");
        drop(journal);
        assert_eq!(take_back_threads(&kernel, &directory, name).unwrap(), 0, "a journal that is gone");
    }

    #[test]
    fn without_a_watchdog_no_thread_of_others_is_changed() {
        let base = tempfile::tempdir().unwrap();
        let directory = RuntimeDir::at(&base.path().join("run")).unwrap();
        let kernel = ScriptedKernel::new(1);
        kernel.add_thread(Tid(10), Tid(10), "theirs");
        let before = kernel.state();
        let journal = Journal::open(&kernel, &directory).unwrap();
        let journal = journal.watched(Path::new("/no/such/program"));
        let refused = journal.set_scheduler(&kernel, Tid(10), SchedPolicy::Idle.into());
        assert!(matches!(refused, Err(JournalError::Unwatched(_))), "{refused:?}");
        assert_eq!(kernel.state(), before);
        assert!(journal.open_entries().is_empty());
    }
}
