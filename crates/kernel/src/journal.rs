//! [`Journal`]: every change of the machine is on disk, with the old value, before it is made.
//!
//! One file for each owner in the run-time directory, JSON lines, appended and synchronised before the change
//! they undo. The owner is told by process number, start time and boot, and holds a lock on the file while it
//! lives. A later start replays the journals of dead owners ([`recover_dead`]) in reverse, and restores only
//! what is still as the owner left it.
//!
//! Line 1: `{"surety_journal":1,"boot":"..."}`. Then `{"id":N,"entry":{...}}` and `{"done":N}`. A last line cut
//! short belongs to a change that was never made.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use surety_units::{CpuSet, Nanos};
use thiserror::Error;

use crate::error::KernelError;
use crate::kernel::{Kernel, ProcessIdentity};
use crate::sched::SchedAttr;
use crate::transition::Owed;

mod change;
mod directory;
mod given;
mod journalled;
mod recover;
mod scratch;
mod watchdog;

pub use change::Undone;
pub use directory::RuntimeDir;
pub use journalled::Journalled;
pub use recover::{Recovered, recover_dead};
pub use scratch::ScratchDir;
use watchdog::Watchdog;
pub use watchdog::{take_back_threads, watchdog_main};

/// The format's number in line 1.
const FORMAT: u32 = 1;
/// A journal longer than this is not ours.
const LENGTH_MAX: u64 = 16 << 20;

/// How the name of every directory of [`Entry::Scratch`] begins.
pub const SCRATCH_PREFIX: &str = "surety-scratch-";

/// One change, with what is needed to undo it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Entry {
    /// A thread's scheduling.
    Scheduler {
        thread: ProcessIdentity,
        /// As it was.
        old: SchedAttr,
        /// As we set it.
        set: SchedAttr,
    },
    /// A thread's CPU affinity.
    Affinity {
        thread: ProcessIdentity,
        /// As it was.
        #[serde(with = "cpu_list")]
        old: CpuSet,
        /// As we set it.
        #[serde(with = "cpu_list")]
        set: CpuSet,
    },
    /// The text of a file of /proc or /sys.
    File {
        /// The file.
        path: PathBuf,
        /// As it was.
        old: String,
        /// As we set it.
        set: String,
        /// Of a file of a block device's queue: which device had the name (`diskseq`), where the kernel says so (5.15 on). Loop devices come and
        /// go under the same name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disk: Option<String>,
    },
    /// A directory we made: a control group.
    Directory {
        /// The directory; its name begins with `surety`.
        path: PathBuf,
    },
    /// A directory of ordinary files we made for a run, with everything in it.
    Scratch {
        /// The directory; its name begins with `surety-scratch-`.
        path: PathBuf,
    },
    /// A control group we made for programs, with whoever is in it.
    Group {
        /// Its directory; its name begins with `surety`.
        path: PathBuf,
    },
    /// An instance we made in tracefs, by name: the mount it was made through may be gone.
    TraceInstance {
        /// The instance; begins with `surety`.
        name: String,
    },
    /// Processes we start, and whatever they start: they carry `SURETY_MARK=` with this in their environment.
    Marked {
        /// The mark; begins with `surety`.
        mark: String,
    },
    /// A process we started.
    Process { process: ProcessIdentity },
    /// A FUSE file system of ours that has a place in the file system.
    Mount {
        /// Its place.
        path: PathBuf,
        /// What it is called among the mounts; begins with `surety`, and no other one is called so.
        source: String,
    },
}

/// The number of an entry in its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(u64);

/// Why the journal cannot be used, or a change under it was not made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The run-time directory is not safe.
    #[error("the run-time directory {} is refused: {why}; remove it, or set SURETY_RUNTIME_DIR to a directory that only you can write", path.display())]
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Reading or writing failed.
    #[error("{operation} {} failed: {source}; nothing was changed, because a change that is not in the journal could not be undone", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Nobody would take the change back at its time.
    #[error(
        "no watchdog could be started: {0}; nothing was changed, because others' threads are not changed without one"
    )]
    Unwatched(KernelError),
    /// The kernel refused the change itself, or to say what was there before.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// Line 1 of a journal.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    surety_journal: u32,
    boot: String,
}

/// Every later line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Entry { id: EntryId, entry: Box<Entry> },
    Done { done: EntryId },
}

/// The journal of this process. Removed on drop when everything in it is done; left to recovery otherwise.
#[derive(Debug)]
pub struct Journal {
    directory: RuntimeDir,
    name: String,
    log: Mutex<Log>,
    watchdog: Watchdog,
    /// Of threads that were given back.
    owed: Owed,
}

#[derive(Debug)]
struct Log {
    file: File,
    length: u64,
    next: u64,
    open: BTreeMap<EntryId, Entry>,
}

impl Journal {
    /// Undoes what dead owners left, as [`recover_dead`] does at the start: before something is made under a name that they had.
    ///
    /// # Errors
    /// As [`recover_dead`].
    pub fn recover_dead(&self, kernel: &dyn Kernel) -> Result<Vec<Recovered>, JournalError> {
        recover_dead(kernel, &self.directory)
    }

    /// Begins a journal for this process in the run-time directory. A process may have several.
    pub fn open(kernel: &dyn Kernel, directory: &RuntimeDir) -> Result<Journal, JournalError> {
        let owner = kernel.identity(kernel.own_pid())?;
        let header = Header { surety_journal: FORMAT, boot: kernel.boot_id()? };
        let (name, file) = directory.create_journal(owner)?;
        let log = Log { file, length: 0, next: 0, open: BTreeMap::new() };
        let journal = Journal {
            directory: directory.clone(),
            name,
            log: Mutex::new(log),
            watchdog: Watchdog::default(),
            owed: Owed::default(),
        };
        // Locked before the first entry; until then recovery goes by the owner in the file's name.
        journal.lock().file.try_lock().map_err(|error| journal.failed("locking", error.into()))?;
        journal.append(&mut journal.lock(), &header)?;
        Ok(journal)
    }

    /// From now on no thread of others is changed before a process watches that would take the change back if this one could not:
    /// this program (`/proc/self/exe`), which must call [`watchdog_main`] first thing.
    pub fn watched(self, program: &Path) -> Journal {
        self.watchdog.want(program);
        self
    }

    /// When changes of others' threads are to end at the latest, on CLOCK_MONOTONIC: the watchdog undoes them then, whether this
    /// process is stopped or not. `None`: only when this process has ended.
    pub fn until(&self, until: Option<Nanos>) {
        self.watchdog.until(until);
    }

    /// Puts an entry on disk. Only after this returned may the change be made.
    pub fn record(&self, entry: Entry) -> Result<EntryId, JournalError> {
        let mut log = self.lock();
        let id = EntryId(log.next);
        let line = Line::Entry { id, entry: Box::new(entry) };
        self.append(&mut log, &line)?;
        log.next += 1;
        if let Line::Entry { id, entry } = line {
            log.open.insert(id, *entry);
        }
        Ok(id)
    }

    /// Records a mark for processes about to be started ([`crate::command::ChildSetup::mark`]): recovery kills
    /// every process that carries it, grandchildren that outlived their parent too.
    pub fn mark_children(&self, kernel: &dyn Kernel) -> Result<(EntryId, String), JournalError> {
        let mark = self.own_name(kernel)?;
        Ok((self.record(Entry::Marked { mark: mark.clone() })?, mark))
    }

    /// A name for what the next entry makes: no other entry of any process has it.
    fn own_name(&self, kernel: &dyn Kernel) -> Result<String, JournalError> {
        let owner = kernel.identity(kernel.own_pid())?;
        Ok(format!("surety-{}-{}-{}", owner.pid, owner.start_time, self.lock().next))
    }

    /// Makes the control group that programs with a mark join ([`crate::command::group`]): recovery ends everybody in it, also who
    /// dropped the mark. `None` where there is no place for one, or this user may not make any.
    pub fn group_children(&self, kernel: &dyn Kernel, mark: &str) -> Option<EntryId> {
        let path = crate::command::group::parent(kernel)?.join(mark);
        let id = self.change(Entry::Group { path: path.clone() }, || kernel.make_dir(&path)).ok()?;
        crate::command::group::open(mark, &path);
        Some(id)
    }

    /// Says that a change has been undone, or was never made, or need not be undone any more.
    pub fn done(&self, id: EntryId) -> Result<(), JournalError> {
        let mut log = self.lock();
        if log.open.remove(&id).is_some() {
            self.append(&mut log, &Line::Done { done: id })?;
        }
        Ok(())
    }

    /// The entries not done yet, oldest first.
    pub fn open_entries(&self) -> Vec<(EntryId, Entry)> {
        self.lock().open.iter().map(|(id, entry)| (*id, entry.clone())).collect()
    }

    /// Where the journal is.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    fn entry(&self, id: EntryId) -> Option<Entry> {
        self.lock().open.get(&id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn append(&self, log: &mut Log, line: &impl Serialize) -> Result<(), JournalError> {
        let mut text = serde_json::to_vec(line).expect("maps with string keys are representable");
        text.push(b'\n');
        let written = log.file.write_all(&text).and_then(|()| log.file.sync_data());
        if let Err(error) = written {
            // What follows must not be glued to half a line.
            let _ = log.file.set_len(log.length);
            return Err(self.failed("writing", error));
        }
        log.length += text.len() as u64;
        Ok(())
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> JournalError {
        JournalError::File { operation, path: self.path(), source }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.lock().open.is_empty() {
            // A journal left behind that says "all done" is removed by the next recovery.
            let _ = self.directory.remove(&self.name);
        }
    }
}

/// CPU sets in the kernel's list notation.
mod cpu_list {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use surety_units::CpuSet;

    pub(super) fn serialize<S: Serializer>(cpus: &CpuSet, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(cpus)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CpuSet, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Whether an entry names only what an undo may touch: files of the kernel, directories and instances of ours.
fn is_permitted(entry: &Entry) -> bool {
    let inside = |path: &Path, roots: &[&str]| {
        roots.iter().any(|root| path.starts_with(root))
            && path
                .components()
                .all(|part| matches!(part, std::path::Component::RootDir | std::path::Component::Normal(_)))
    };
    match entry {
        Entry::File { path, .. } => inside(path, &["/sys", "/proc/sys", "/proc/irq"]),
        Entry::Directory { path } | Entry::Group { path } => {
            inside(path, &["/sys/fs/cgroup"])
                && path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"surety"))
        }
        Entry::Scratch { path } => {
            inside(path, &["/"])
                && path
                    .file_name()
                    .is_some_and(|name| name.as_encoded_bytes().starts_with(SCRATCH_PREFIX.as_bytes()))
        }
        Entry::TraceInstance { name } | Entry::Marked { mark: name } => {
            crate::tracefs::is_plain_name(name) && name.starts_with("surety")
        }
        Entry::Mount { path, source } => inside(path, &["/"]) && source.starts_with("surety"),
        Entry::Scheduler { .. } | Entry::Affinity { .. } | Entry::Process { .. } => true,
    }
}
