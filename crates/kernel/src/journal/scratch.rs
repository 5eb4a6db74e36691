//! [`ScratchDir`]: a directory of a run's own, in the journal before it is made.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{Entry, EntryId, Journal, JournalError, SCRATCH_PREFIX};
use crate::error::{KernelError, Operation};
use crate::kernel::Kernel;

/// A directory that only this user can look into, removed with everything in it on drop, or at the next start.
pub struct ScratchDir<'a> {
    path: PathBuf,
    kernel: &'a dyn Kernel,
    entry: Option<(&'a Journal, EntryId)>,
}

impl<'a> ScratchDir<'a> {
    /// Makes one where temporary files are (`TMPDIR`), under a name that nobody can guess.
    ///
    /// # Errors
    /// A directory that cannot be written, a journal that takes no entry.
    pub fn make(
        kernel: &'a dyn Kernel,
        journal: Option<&'a Journal>,
    ) -> Result<ScratchDir<'a>, JournalError> {
        let parent = std::env::temp_dir();
        let parent = parent
            .canonicalize()
            .map_err(|e| KernelError::from_io(Operation::MakeDir, parent.display().to_string(), &e))?;
        let chance = kernel.read_text(Path::new("/proc/sys/kernel/random/uuid"))?;
        let path = parent.join(format!("{SCRATCH_PREFIX}{}", chance.trim()));
        let make = || {
            DirBuilder::new()
                .mode(0o700)
                .create(&path)
                .map_err(|e| KernelError::from_io(Operation::MakeDir, path.display().to_string(), &e))
        };
        let entry = match journal {
            Some(journal) => Some((journal, journal.change(Entry::Scratch { path: path.clone() }, make)?)),
            None => {
                make()?;
                None
            }
        };
        Ok(ScratchDir { path, kernel, entry })
    }

    /// Where it is, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir<'_> {
    fn drop(&mut self) {
        // What fails here stays in the journal, and the next start tries again.
        match self.entry.take() {
            Some((journal, id)) => drop(journal.undo(self.kernel, id)),
            None => drop(self.kernel.remove_tree(&self.path)),
        }
    }
}

impl std::fmt::Debug for ScratchDir<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ScratchDir").field(&self.path).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealKernel;
    use crate::journal::{RuntimeDir, recover_dead};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_in_the_journal_before_it_is_there_and_nobody_else_looks_in() {
        let base = tempfile::tempdir().unwrap();
        let directory = RuntimeDir::at(&base.path().join("run")).unwrap();
        let kernel = RealKernel::new();
        let journal = Journal::open(&kernel, &directory).unwrap();
        let scratch = ScratchDir::make(&kernel, Some(&journal)).unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
        let written = journal.open_entries();
        assert!(matches!(&written[..], [(_, Entry::Scratch { path: p })] if *p == path), "{written:?}");
        std::fs::write(path.join("file"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists() && journal.open_entries().is_empty());

        // A journal that takes nothing: no directory either. (The place is not a disk's, or the test would need one that is full.)
        let sealed = Journal::open(&kernel, &directory).unwrap();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        sealed.lock().file = full;
        let names = || {
            let found = std::fs::read_dir(std::env::temp_dir()).unwrap();
            found
                .filter_map(|e| e.ok()?.file_name().into_string().ok())
                .filter(|n| n.starts_with(SCRATCH_PREFIX))
                .count()
        };
        let before = names();
        assert!(ScratchDir::make(&kernel, Some(&sealed)).is_err());
        assert!(names() <= before, "no directory without its entry");
        drop((journal, sealed));
        let _ = recover_dead(&kernel, &directory);
    }
}
