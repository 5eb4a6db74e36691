//! [`StreamError`]: why a file cannot be a stream, in words.

use std::path::PathBuf;

use surety_kernel::KernelError;
use thiserror::Error;

/// Why a stream was not opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The file cannot be opened or looked at.
    #[error("`{}` cannot be opened: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// It is no file with bytes in it.
    #[error("`{}` {why}", path.display())]
    NoStream {
        /// Which.
        path: PathBuf,
        /// What it is, and what to do.
        why: String,
    },
    /// The contract contradicts itself.
    #[error("a stream's {key} {why}")]
    Contract {
        /// Which part of it.
        key: &'static str,
        /// What it must be.
        why: &'static str,
    },
    /// No memory, no thread, no descriptors.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}
