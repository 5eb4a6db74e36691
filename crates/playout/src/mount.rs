//! [`Mount`]: a directory shown at another place, every open file of it a stream.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use surety_kernel::beneath::Beneath;
use surety_kernel::fuse::control::Control;
use surety_kernel::fuse::{Connection, SUBTYPE, connection_at, connection_of, unmount};
use surety_kernel::journal::{Journal, Journalled};
use surety_kernel::mount::{DetachedMount, MOUNTS, source_at};
use surety_kernel::{Kernel, KernelError};
use surety_stream::{Contract, Rest, Station, StationSettings};

use crate::account::Served;
use crate::error::MountError;
use crate::server::serve;
use crate::shared::{Shared, bytes_max};
use crate::tree::Tree;

/// So long those who serve open files may take to end.
const LET_GO: Duration = Duration::from_secs(2);
/// Error numbers: ENOTCONN, of a mount whose server is gone; EBUSY.
const NO_SERVER: i32 = 107;
const BUSY: i32 = 16;

/// Mounts of this process so far.
static MADE: AtomicU32 = AtomicU32::new(0);

/// What is to be shown where, and how fast.
#[derive(Clone, Debug)]
pub struct Plan {
    pub directory: PathBuf,
    /// A directory; what is in it is hidden meanwhile.
    pub place: PathBuf,
    /// Of each open file. One read is answered with as much as its `access` at most; `is_paused` and `repeats` are not looked at.
    pub contract: Contract,
    /// Other users look into it too, as far as the modes of files and directories let them.
    pub is_shared: bool,
    pub station: StationSettings,
}

/// A mount. Dropping takes it away; who still reads from it gets errors.
pub struct Mount<'a> {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    control: Option<Control>,
    /// That it is there.
    entry: Option<Journalled<'a>>,
    place: PathBuf,
    source: String,
    kernel: &'a dyn Kernel,
}

impl Plan {
    /// The directory and the place without links.
    ///
    /// # Errors
    /// What cannot be shown, or shown there.
    fn places(&self, kernel: &dyn Kernel) -> Result<(PathBuf, PathBuf), MountError> {
        let directory = self.directory.canonicalize();
        let directory =
            directory.map_err(|error| MountError::Directory { path: self.directory.clone(), error })?;
        let place = self.place.canonicalize().and_then(|place| match std::fs::metadata(&place)?.is_dir() {
            true => Ok(place),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        let place = place.map_err(|error| match error.raw_os_error() {
            Some(NO_SERVER) => MountError::Dead { path: self.place.clone() },
            _ => MountError::Place { path: self.place.clone(), error },
        })?;
        if directory.starts_with(&place) || place.starts_with(&directory) {
            return Err(MountError::Nested { directory, place });
        }
        if source_at(&kernel.read_text(Path::new(MOUNTS))?, &place, &kind()).is_some() {
            return Err(MountError::Taken { path: place });
        }
        Ok((directory, place))
    }
}

impl<'a> Mount<'a> {
    /// Shows a directory at a place.
    ///
    /// # Errors
    /// In words: no directories, a place inside of what is shown or the other way round, no FUSE, no right to mount, a contract that cannot be.
    pub fn make(plan: &Plan, kernel: &'a dyn Kernel, journal: &'a Journal) -> Result<Mount<'a>, MountError> {
        let (directory, place) = plan.places(kernel)?;
        let failed = |error| MountError::Directory { path: directory.clone(), error };
        let tree = Tree::new(Beneath::open(&directory).map_err(failed)?);
        let contract = Contract { is_paused: false, repeats: false, notes_batches: false, ..plan.contract };
        contract.check()?;
        let source = source(kernel)?;
        let bytes_max = bytes_max(&contract);
        let may_mount = kernel.effective_user() == 0;
        let (connection, detached, mut entry) = if may_mount {
            let connection = Connection::open()?;
            let mount = connection.mount_to_read(bytes_max, &source, plan.is_shared)?;
            (connection, Some(mount), None)
        } else {
            let make = || Connection::mounted_by_helper(bytes_max, &source, plan.is_shared, &place);
            let (id, made) = journal.attach_by(&place, &source, make)?;
            let connection = made.map_err(|why| MountError::Helper { why })?;
            (connection, None, Some(Journalled::of(journal, kernel, id)))
        };
        let number = match &detached {
            Some(mount) => connection_of(mount)?,
            None => connection_at(&place)?,
        };
        tree.refuse_mount(number);
        let station = Station::start(plan.station)?;
        let shared = Arc::new(Shared::new(connection, station, contract, tree));
        // From here on what is made is dropped with it.
        let threads = serve(&shared)?;
        let control = Control::of(number).ok();
        let mut made = Mount { shared, threads, control, entry: entry.take(), place, source, kernel };
        // The first question is answered before anybody else asks.
        let root = detached.as_ref().map_or_else(|| made.place.clone(), DetachedMount::root);
        if std::fs::metadata(root).is_err() {
            return Err(MountError::Protocol);
        }
        if let Some(mount) = detached {
            let id = journal.attach(mount, &made.place, &made.source)?;
            made.entry = Some(Journalled::of(journal, kernel, id));
        }
        Ok(made)
    }

    /// Where it is.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// What none of its streams has, in words: a lower level.
    pub fn caveats(&self) -> &[String] {
        self.shared.station.caveats()
    }

    /// The times so far in which nothing of its streams was at the disk.
    pub fn rest(&self) -> Rest {
        self.shared.station.rest()
    }

    /// Open files now.
    pub fn open_files(&self) -> usize {
        self.shared.files().len()
    }

    /// Of those, the ones that have been read: each has its stream.
    pub fn read_files(&self) -> usize {
        self.shared.workers()
    }

    /// Whether it is no more: unmounted, and nothing in it is open; or its connection was ended.
    pub fn is_over(&self) -> bool {
        self.shared.is_over()
    }

    /// Unmounts it; `false`, and nothing is done, while something in it is open.
    ///
    /// # Errors
    /// As `umount`.
    pub fn unmount(&mut self) -> Result<bool, KernelError> {
        if self.is_there()? {
            match unmount(&self.place, false) {
                Err(error) if error.errno == BUSY => return Ok(false),
                unmounted => unmounted?,
            }
        }
        self.entry = None;
        Ok(true)
    }

    /// Takes it from its place; what is open in it is served on until it is closed.
    pub fn detach(&mut self) {
        // The journal knows what is left to do.
        self.entry = None;
    }

    fn is_there(&self) -> Result<bool, KernelError> {
        let mounts = self.kernel.read_text(Path::new(MOUNTS))?;
        Ok(source_at(&mounts, &self.place, &kind()).as_deref() == Some(self.source.as_str()))
    }

    /// What became of each open file that was read and is closed, handed out once; and how many beyond those that are told of.
    pub fn take_served(&self) -> (Vec<Served>, u64) {
        if self.is_over() {
            self.shared.wait_for_workers(LET_GO);
        }
        let account = self.shared.take_account();
        (account.served, account.more)
    }

    /// What did not go as it should, the first of all.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble_met()
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        self.entry = None;
        if !self.is_over() {
            // Who has a file open would keep it.
            match &self.control {
                Some(control) => control.abort(),
                None => return,
            }
        }
        // One that panicked has said so.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        self.shared.wait_for_workers(LET_GO);
    }
}

impl fmt::Debug for Mount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.source, self.place.display())
    }
}

/// What mounts of ours are among the mounts.
fn kind() -> String {
    format!("fuse.{SUBTYPE}")
}

/// A name that no other mount has.
fn source(kernel: &dyn Kernel) -> Result<String, KernelError> {
    let owner = kernel.identity(kernel.own_pid())?;
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    Ok(format!("surety-{}-{}-{number}", owner.pid, owner.start_time))
}
