//! [`MountError`]: why there is no mount, each a sentence with what to do.

use std::io;
use std::path::PathBuf;

use surety_kernel::KernelError;
use surety_kernel::journal::JournalError;
use surety_stream::StreamError;
use thiserror::Error;

/// Why files are not played out.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// What is to be shown.
    #[error("`{}` cannot be shown: {error}; name a directory", path.display())]
    Directory { path: PathBuf, error: io::Error },
    /// Where.
    #[error("`{}` cannot be a mount's place: {error}; name a directory", path.display())]
    Place { path: PathBuf, error: io::Error },
    /// A server before this one was killed.
    #[error(
        "at `{0}` is the mount of a server that is gone: unmount it first (`umount {0}`, or `fusermount3 -u {0}`)",
        path.display()
    )]
    Dead { path: PathBuf },
    /// There is one already.
    #[error("at `{}` files are played out already: unmount it first, or name another directory", path.display())]
    Taken { path: PathBuf },
    /// The mount would show itself, or hide what it shows.
    #[error(
        "`{}` and `{}` are inside one another: choose a place for the mount outside of what it shows",
        directory.display(),
        place.display()
    )]
    Nested { directory: PathBuf, place: PathBuf },
    /// The kernel speaks another protocol.
    #[error(
        "the kernel and this program do not agree on the protocol of /dev/fuse; Linux 5.6 or later is needed"
    )]
    Protocol,
    /// The helper of users who may not mount.
    #[error("mounting as an ordinary user failed: {why}")]
    Helper { why: String },
    /// A contract that cannot be, no thread.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The mount could not be written down first.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
