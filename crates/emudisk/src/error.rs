//! [`EmulationError`]: why there is no emulated disk, each a sentence with what to do.

use std::io;
use std::path::PathBuf;

use surety_kernel::KernelError;
use surety_kernel::journal::JournalError;
use thiserror::Error;

/// Why an emulated disk cannot be made, or no longer serves.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmulationError {
    /// Ordinary users mount nothing.
    #[error("a modelled disk is a mount and a loop device of its own: run as root")]
    NotRoot,
    /// More data than memory.
    #[error(
        "a disk of {bytes} bytes does not fit in memory, of which {available} bytes are available: make it smaller, or \
         keep its data in a sparse file"
    )]
    Memory { bytes: u64, available: u64 },
    /// More than the device has, or too little for anything.
    #[error(
        "the size has to be a multiple of 4096 bytes, from 1 MiB to the {capacity} bytes that the modelled device has"
    )]
    Size { capacity: u64 },
    /// A part that fails and is not there.
    #[error(
        "the part that is to fail ends at byte {end}, and the disk has {bytes} bytes: name a part of the disk"
    )]
    Fault { end: u64, bytes: u64 },
    /// The file for the data.
    #[error("{} cannot hold the data: {why}; name another file, or none for data in memory", path.display())]
    Backing { path: PathBuf, why: String },
    /// The data.
    #[error("no file for the data of the disk could be made: {0}")]
    Data(io::Error),
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A setting of its queue could not be written down first.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is none.
    #[error(
        "there is no journal to write down what is set of its queue: set SURETY_RUNTIME_DIR to a directory that only you can write"
    )]
    NoJournal,
    /// Nobody would end its connection.
    #[error(
        "no watchdog could be started: {0}; nothing was made, because a server that stands still would stop others with it"
    )]
    Unwatched(String),
    /// The kernel speaks another protocol.
    #[error(
        "the kernel and this program do not agree on the protocol of /dev/fuse; Linux 5.4 or later is needed"
    )]
    Protocol,
}
