//! [`Control`]: a connection of FUSE from outside: how many requests wait in it, and its end.
//!
//! The kernel shows its connections in the file system `fusectl` (`Documentation/filesystems/fuse.rst`), which is mounted for this process
//! alone here. Nothing in it waits for whoever serves the connection.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use crate::error::{KernelError, Operation};
use crate::mount::DetachedMount;

/// One connection, by its number.
#[derive(Debug)]
pub struct Control {
    waiting: PathBuf,
    abort: File,
    // The path leads through it.
    _mount: DetachedMount,
}

impl Control {
    /// Of the connection of a mount of this number ([`super::connection_of`]).
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, ENODEV without FUSE, ENOENT where there is no such connection.
    pub fn of(connection: u32) -> Result<Control, KernelError> {
        let object = || format!("FUSE connection {connection}");
        let mount = DetachedMount::of(c"fusectl")
            .map_err(|errno| KernelError::new(Operation::Mount, "fusectl", errno))?;
        let directory = mount.root().join(connection.to_string());
        let failed = |error: io::Error| KernelError::from_io(Operation::Open, object(), &error);
        let waiting = directory.join("waiting");
        File::open(&waiting).map_err(failed)?;
        let abort = OpenOptions::new().write(true).open(directory.join("abort")).map_err(failed)?;
        Ok(Control { waiting, abort, _mount: mount })
    }

    /// Requests that nobody has answered; 0 where the connection is no more.
    pub fn waiting(&self) -> u32 {
        // Opened anew: the kernel lets nobody go back in it.
        let text = std::fs::read_to_string(&self.waiting);
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Ends the connection: whoever waits for an answer gets an error. One that is no more is left alone.
    pub fn abort(&self) {
        // The kernel refuses nothing here but what is gone.
        let _ = (&self.abort).write(b"1");
    }
}
