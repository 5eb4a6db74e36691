//! [`Target`]: a file that a stream writes, opened past the page cache, with room allocated in advance.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use surety_kernel::block::waits_for_journal;
use surety_kernel::extents::direct_alignment;
use surety_kernel::files::{allocate, open_to_write, reopen_direct};
use surety_kernel::pages::PAGE;
use surety_kernel::ring::Action;

use crate::contract::Contract;
use crate::error::StreamError;
use crate::failure::TransferError;
use crate::source::{Layout, check};

/// Room that is allocated at a time where the length is not given: for these seconds at the rate, within these bytes.
const STEP_S: u64 = 30;
const STEP_MIN: u64 = 4 << 20;
const STEP_MAX: u64 = 256 << 20;

/// An open file, and what of it exists.
#[derive(Debug)]
pub(crate) struct Target {
    /// What it is called in errors.
    pub(crate) path: PathBuf,
    /// What batches are written to.
    pub(crate) file: Arc<File>,
    /// Through the page cache, for what is no multiple of the alignment.
    cached: File,
    pub(crate) alignment: Option<u64>,
    /// Bytes of it that have room; writes within them change nothing but data.
    allocated: u64,
    /// Bytes allocated at a time beyond that; 0: the file system does it as they are written.
    step: u64,
    /// Its length before, which is kept where less is written.
    length: u64,
    pub(crate) caveats: Vec<String>,
    pub(crate) unbounded: Vec<String>,
    /// As of a [`Source`](crate::source::Source).
    pub(crate) breaks: Vec<u64>,
}

impl Target {
    /// A file to be [emptied](Target::empty), which is made where there is none.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn create(path: &Path) -> Result<Target, StreamError> {
        let failed = |error| StreamError::File { path: path.to_owned(), error };
        if let Ok(metadata) = std::fs::metadata(path) {
            check(path, &metadata)?;
        }
        let file = open_to_write(path, true).map_err(failed)?;
        check(path, &file.metadata().map_err(failed)?)?;
        Target::of_open(path, &file)
    }

    /// What is in it is gone; it has room for the contract's `length`, or for the first seconds.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn empty(&mut self, path: &Path, contract: &Contract) -> Result<(), StreamError> {
        let failed = |error| StreamError::File { path: path.to_owned(), error };
        self.cached.set_len(0).map_err(failed)?;
        self.step = contract.rate.0.saturating_mul(STEP_S).clamp(STEP_MIN, STEP_MAX);
        self.grow(contract.length.unwrap_or(self.step));
        let why = "its room is allocated and was never written: completing a batch changes metadata of its file system, which may wait for its journal";
        self.unbounded.push(why.to_owned());
        Ok(())
    }

    /// A file that is there, to be written over from its beginning; nothing of it but its data changes.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn over(path: &Path, file: &File) -> Result<Target, StreamError> {
        let failed = |error| StreamError::File { path: path.to_owned(), error };
        let metadata = file.metadata().map_err(failed)?;
        check(path, &metadata)?;
        let mut target = Target::of_open(path, file)?;
        (target.length, target.allocated) = (metadata.len(), metadata.len());
        if waits_for_journal(file) {
            let why = "each write notes its time in its file system, which may wait for a commit of its journal; ext4 without one does not";
            target.unbounded.push(why.to_owned());
        }
        match Layout::of(file, target.length) {
            Err(why) => target.caveats.push(why),
            Ok(layout) => {
                if let Some(oddity) = layout.oddity {
                    let why = format!("it is {oddity}: a part of it is not written as it lies on the device");
                    target.caveats.push(why);
                }
                if layout.unwritten > 0 {
                    let holes = layout.unwritten;
                    target.unbounded.push(format!(
                        "{holes} bytes of it were never written: completing a batch changes metadata of its file system, which may wait for its journal"
                    ));
                }
                target.breaks = layout.breaks;
            }
        }
        Ok(target)
    }

    fn of_open(path: &Path, file: &File) -> Result<Target, StreamError> {
        let failed = |error| StreamError::File { path: path.to_owned(), error };
        let alignment = direct_alignment(file);
        let direct = alignment.and_then(|alignment| Some((alignment, reopen_direct(file, true).ok()?)));
        let mut caveats = Vec::new();
        let (direct, alignment) = match direct {
            Some((alignment, direct)) => (direct, Some(alignment.max(PAGE as u64))),
            None => {
                let why = "its file system has no direct access: it goes through the page cache";
                caveats.push(why.to_owned());
                (reopened(file).map_err(failed)?, None)
            }
        };
        Ok(Target {
            path: path.to_owned(),
            file: Arc::new(direct),
            cached: reopened(file).map_err(failed)?,
            alignment,
            allocated: 0,
            step: 0,
            length: 0,
            caveats,
            unbounded: Vec::new(),
            breaks: Vec::new(),
        })
    }

    /// Makes sure of room for some bytes of the file; the step beyond is allocated now where they have none.
    pub(crate) fn grow(&mut self, to: u64) {
        if to <= self.allocated || self.step == 0 {
            return;
        }
        let more = (to - self.allocated).next_multiple_of(PAGE as u64);
        let more = if self.allocated == 0 { more } else { more.max(self.step) };
        match allocate(&self.cached, self.allocated, more) {
            Ok(()) => self.allocated += more,
            Err(error) => {
                self.step = 0;
                self.caveats.push(format!("its room is not allocated in advance: {error}"));
            }
        }
    }

    /// Bytes from here on are beyond what there was room for at the beginning.
    pub(crate) fn room(&self) -> u64 {
        self.allocated
    }

    /// Writes some bytes that no batch is for.
    pub(crate) fn write_rest(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let written = self.cached.write_all_at(bytes, offset);
        written.map_err(|error| TransferError::at(&self.path, (Action::Write, offset), &error).into())
    }

    /// Waits until all that was written is on the medium, what is needed to find it as well.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let synced = self.cached.sync_data();
        synced.map_err(|error| TransferError::at(&self.path, (Action::Sync, 0), &error).into())
    }

    /// Gives the file its length: what was written, or what it had.
    pub(crate) fn close(&self, written: u64) -> io::Result<()> {
        let length = written.max(self.length);
        match self.cached.metadata()?.len() {
            now if now == length => Ok(()),
            _ => self.cached.set_len(length),
        }
    }

    /// Whether it ends at a multiple of what batches must be multiples of.
    pub(crate) fn is_whole(&self) -> bool {
        self.length > 0 && self.length.is_multiple_of(self.alignment.unwrap_or(1))
    }

    /// Its length when it was opened.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}

/// The same file with an open of its own, for reading and writing.
fn reopened(file: &File) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    File::options().read(true).write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
