//! [`RuntimeDir`]: where journals are, and what makes a directory or a file there trustworthy.
//!
//! Replaying a journal acts with the privileges of whoever replays it. So the directory must be ours and
//! writable by us alone, and a file in it must be a plain file of ours with one name. Files are reached through
//! the directory's descriptor, so swapping the directory behind our back changes nothing.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use surety_units::Tid;

use super::{JournalError, LENGTH_MAX};
use crate::kernel::ProcessIdentity;

/// A directory for run-time files that only this user can write. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RuntimeDir {
    path: PathBuf,
    descriptor: Arc<OwnedFd>,
    user: u32,
}

impl RuntimeDir {
    /// The run-time directory of this user: `$SURETY_RUNTIME_DIR`, else `/run/surety` for root, else
    /// `$XDG_RUNTIME_DIR/surety`, else `/tmp/surety-UID`. Made, with mode 0700, when it is not there.
    pub fn find() -> Result<RuntimeDir, JournalError> {
        let user = effective_user();
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = match (variable("SURETY_RUNTIME_DIR"), variable("XDG_RUNTIME_DIR")) {
            (Some(path), _) => path,
            (None, _) if user == 0 => PathBuf::from("/run/surety"),
            (None, Some(path)) => path.join("surety"),
            (None, None) => PathBuf::from(format!("/tmp/surety-{user}")),
        };
        RuntimeDir::at(&path)
    }

    /// A given directory, made when it is not there.
    ///
    /// # Errors
    /// When it is a symbolic link, another user's, or writable by others.
    pub fn at(path: &Path) -> Result<RuntimeDir, JournalError> {
        let failed = |operation, source| JournalError::File { operation, path: path.to_owned(), source };
        let refused = |why| JournalError::UnsafeDirectory { path: path.to_owned(), why };
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("making the directory", error));
            }
            _ => {}
        }
        let directory = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(path)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::ELOOP | libc::ENOTDIR) => refused("it is not a directory itself"),
                _ => failed("opening", error),
            })?;
        let found = directory.metadata().map_err(|error| failed("examining", error))?;
        let user = effective_user();
        if found.uid() != user {
            return Err(refused("it belongs to another user"));
        }
        if found.mode() & 0o022 != 0 {
            return Err(refused("others can write in it"));
        }
        Ok(RuntimeDir { path: path.to_owned(), descriptor: Arc::new(directory.into()), user })
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A name in this very directory, whatever its path leads to by now.
    fn inside(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.descriptor.as_raw_fd()))
    }

    /// A new, empty journal file of an owner.
    pub(super) fn create_journal(&self, owner: ProcessIdentity) -> Result<(String, File), JournalError> {
        let failed =
            |source| JournalError::File { operation: "making a journal in", path: self.path.clone(), source };
        for number in 0..1000 {
            let name = journal_name(owner, number);
            let made = OpenOptions::new()
                .append(true)
                .create_new(true)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(self.inside(&name));
            match made {
                Ok(file) => {
                    // The name must survive too.
                    File::open(self.inside(".")).and_then(|dir| dir.sync_all()).map_err(failed)?;
                    return Ok((name, file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// The journals here with the owners their names tell, in ascending order of name.
    pub(super) fn journals(&self) -> Result<Vec<(String, ProcessIdentity)>, JournalError> {
        let failed = |source| JournalError::File { operation: "listing", path: self.path.clone(), source };
        let mut journals = Vec::new();
        for entry in fs::read_dir(self.inside(".")).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(name) = name.to_str()
                && let Some(owner) = owner_of_name(name)
            {
                journals.push((name.to_owned(), owner));
            }
        }
        journals.sort_unstable();
        Ok(journals)
    }

    /// Opens a journal that may be replayed; `Ok(Err(why))` when it must not be.
    pub(super) fn open_trusted(&self, name: &str) -> io::Result<Result<File, &'static str>> {
        let opened = OpenOptions::new()
            .read(true)
            .append(true)
            // Not waiting: somebody may have put a pipe here.
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(self.inside(name));
        let file = match opened {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Ok(Err("it is a symbolic link"));
            }
            opened => opened?,
        };
        let found = file.metadata()?;
        Ok(if !found.is_file() {
            Err("it is not a plain file")
        } else if found.uid() != self.user {
            Err("it belongs to another user")
        } else if found.mode() & 0o022 != 0 {
            Err("others can write it")
        } else if found.nlink() > 1 {
            Err("it has a second name")
        } else if found.len() > LENGTH_MAX {
            Err("it is too long for a journal")
        } else {
            Ok(file)
        })
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.inside(name))
    }
}

fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn journal_name(owner: ProcessIdentity, number: u32) -> String {
    format!("journal-{}-{}-{number}.jsonl", owner.pid, owner.start_time)
}

fn owner_of_name(name: &str) -> Option<ProcessIdentity> {
    let mut parts = name.strip_prefix("journal-")?.strip_suffix(".jsonl")?.split('-');
    let owner = ProcessIdentity {
        pid: Tid(parts.next()?.parse().ok().filter(|pid| *pid > 0)?),
        start_time: parts.next()?.parse().ok()?,
    };
    parts.next()?.parse::<u32>().ok()?;
    parts.next().is_none().then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn unsafe_directories_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let good = base.path().join("good");
        let dir = RuntimeDir::at(&good).unwrap();
        assert_eq!(fs::metadata(&good).unwrap().mode() & 0o777, 0o700);
        assert!(RuntimeDir::at(&good).is_ok(), "a second time too");
        assert_eq!(dir.path(), good);

        let link = base.path().join("link");
        symlink(&good, &link).unwrap();
        let shared = base.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o770)).unwrap();
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [link, shared, file] {
            let error = RuntimeDir::at(&path).unwrap_err();
            assert!(matches!(error, JournalError::UnsafeDirectory { .. }), "{error}");
        }
        if effective_user() == 0 {
            let foreign = base.path().join("foreign");
            fs::create_dir(&foreign).unwrap();
            std::os::unix::fs::chown(&foreign, Some(65_534), None).unwrap();
            assert!(matches!(RuntimeDir::at(&foreign), Err(JournalError::UnsafeDirectory { .. })));
        } else {
            eprintln!("SKIPPED another user's directory: not root");
        }
    }

    #[test]
    fn names_tell_their_owner_or_are_no_journals() {
        let owner = ProcessIdentity { pid: Tid(12), start_time: 99 };
        assert_eq!(owner_of_name(&journal_name(owner, 3)), Some(owner));
        for name in [
            "journal-12-99.jsonl",
            "journal--12-99-0.jsonl",
            "journal-12-99-0-1.jsonl",
            "x",
            "journal-a-b-c.jsonl",
        ] {
            assert_eq!(owner_of_name(name), None, "{name}");
        }
    }
}
