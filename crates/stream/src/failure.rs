//! [`Failure`]: why a stream cannot go on; and [`TransferError`], what its program is told where the kernel or the device failed.

use std::io;
use std::path::{Path, PathBuf};

use surety_kernel::ring::Action;
use thiserror::Error;

/// `EINTR`.
const EINTR: i32 = 4;
/// `EIO`.
pub(crate) const EIO: i32 = 5;

/// Why a stream cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The kernel's error number for a transfer at a byte of the file.
    Transfer { action: Action, offset: u64, errno: i32 },
    /// The file ends here now, and was longer when it was opened.
    Shrunk(u64),
    /// A write moved less than it was given.
    Short,
}

impl Failure {
    /// As the error of a stream of this file.
    pub(crate) fn of(self, path: &Path) -> io::Error {
        match self {
            Failure::Transfer { action, offset, errno } => {
                // Not to be tried again: the stream has failed.
                let errno = if errno == EINTR { EIO } else { errno };
                TransferError { path: path.to_owned(), action, offset, errno }.into()
            }
            Failure::Shrunk(size) => io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the file was made shorter while it was read: it ends at {size} bytes"),
            ),
            Failure::Short => io::Error::new(
                io::ErrorKind::WriteZero,
                "the file took a part of a batch only: its file system is full, or its device failed",
            ),
        }
    }

    /// Why no guarantee is left, where a device is why.
    pub(crate) fn caveat(&self) -> Option<String> {
        match self {
            Failure::Transfer { action, offset, errno } => Some(failed(*action, *offset, *errno)),
            Failure::Shrunk(_) | Failure::Short => None,
        }
    }
}

/// The kernel or the device failed to move bytes of a stream. An [`io::Error`] of a reader or a writer holds it, and [`errno_of`] looks into that.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}`: {}", path.display(), failed(*action, *offset, *errno))]
pub struct TransferError {
    path: PathBuf,
    action: Action,
    offset: u64,
    errno: i32,
}

impl TransferError {
    /// Of a call that was no transfer of the ring.
    pub(crate) fn at(path: &Path, (action, offset): (Action, u64), error: &io::Error) -> TransferError {
        let errno = error.raw_os_error().unwrap_or(EIO);
        TransferError { path: path.to_owned(), action, offset, errno }
    }

    /// The file, as it was named when its stream was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first byte of the file that was not moved, or may not have been.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The kernel's error number.
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

impl From<TransferError> for io::Error {
    fn from(error: TransferError) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(error.errno).kind(), error)
    }
}

/// The kernel's error number in an error of a stream; `None`: it is no error of the kernel.
pub fn errno_of(error: &io::Error) -> Option<i32> {
    let transfer = || error.get_ref()?.downcast_ref::<TransferError>();
    error.raw_os_error().or_else(|| transfer().map(TransferError::errno))
}

fn failed(action: Action, offset: u64, errno: i32) -> String {
    let words = io::Error::from_raw_os_error(errno).to_string();
    let words = words.split(" (os error").next().unwrap_or_default();
    match action {
        Action::Read => format!("reading at byte {offset} failed: {words}"),
        Action::Write => format!("writing at byte {offset} failed: {words}"),
        Action::Sync => format!("what was written is not on the medium: {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_failed_where_and_keeps_its_number() {
        let failure = Failure::Transfer { action: Action::Read, offset: 8192, errno: EIO };
        let error = failure.of(Path::new("film"));
        assert_eq!(error.to_string(), "`film`: reading at byte 8192 failed: Input/output error");
        assert_eq!(errno_of(&error), Some(EIO));
        let held = error.get_ref().unwrap().downcast_ref::<TransferError>().unwrap();
        assert_eq!((held.path(), held.offset()), (Path::new("film"), 8192));
        let full = Failure::Transfer { action: Action::Write, offset: 0, errno: 28 }.of(Path::new("film"));
        assert_eq!((full.kind(), errno_of(&full)), (io::ErrorKind::StorageFull, Some(28)));
        let interrupted = Failure::Transfer { action: Action::Sync, offset: 0, errno: EINTR };
        assert_eq!(errno_of(&interrupted.of(Path::new("film"))), Some(EIO));
        assert_eq!(errno_of(&Failure::Short.of(Path::new("film"))), None);
        assert_eq!(errno_of(&io::Error::from_raw_os_error(13)), Some(13));
    }
}
