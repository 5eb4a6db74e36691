//! [`Connection`]: a file system of ours, by the protocol of `/dev/fuse` (`include/uapi/linux/fuse.h`, 7.31 and later).
//!
//! The mount has no place in the file system ([`DetachedMount`]) until it is given one, and the connection ends with the descriptor of
//! `/dev/fuse`: whatever waits for an answer then fails, so nothing is left of a mount without a place however the process ends. What is asked
//! stands in [`wire`] and how it is answered in [`answers`]; who serves decides what there is. [`control::Control`] ends a connection from another process.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

use crate::error::{KernelError, Operation};
use crate::mount::DetachedMount;

pub mod answers;
pub mod control;
mod helper;
pub mod wire;

use answers::out_header;
use wire::{Incoming, OUT_HEADER};

/// The device that file systems in user space are served through.
pub const DEVICE: &str = "/dev/fuse";
/// The descriptor of `/dev/fuse` is one of the last this many that a process may have by default.
const HIGH: u64 = 64;
/// What mounts of ours are among those of FUSE: `fuse.surety`.
pub const SUBTYPE: &str = "surety";
const DESCRIPTORS: u64 = 1024;

/// The serving end of a file system in user space. Threads may share it.
#[derive(Debug)]
pub struct Connection {
    device: File,
}

/// What became of waiting for a request.
#[derive(Debug)]
pub enum Received<'b> {
    /// The kernel asks something.
    Request(Incoming<'b>),
    /// The file system is unmounted and unused, or the connection was aborted.
    Over,
}

impl Connection {
    /// Opens `/dev/fuse`; nothing is mounted yet.
    ///
    /// The descriptor gets a high number. A process that ends closes its files in the order of their numbers, and the kernel
    /// releases them in the reverse order (`close_files` in fs/file.c, `task_work_add`): so the connection ends before a device on top
    /// of it is released, which would wait for answers that nobody gives any more.
    ///
    /// # Errors
    /// ENOENT without FUSE, EACCES for ordinary users.
    pub fn open() -> Result<Connection, KernelError> {
        let failed = |error: &io::Error| KernelError::from_io(Operation::OpenFuse, DEVICE, error);
        let device = OpenOptions::new().read(true).write(true).open(DEVICE).map_err(|e| failed(&e))?;
        Connection::of(device.into()).map_err(|errno| failed(&errno.into()))
    }

    /// Mounts a file system that is only read, as [`Connection::mount_to_read`] does, at a place, for users who may not mount: by `fusermount3`.
    /// It is unmounted by [`unmount`].
    ///
    /// # Errors
    /// In words: what the helper says, or that there is none.
    pub fn mounted_by_helper(
        bytes_max: u32,
        source: &str,
        is_shared: bool,
        place: &Path,
    ) -> Result<Connection, String> {
        let others = if is_shared { ",allow_other" } else { "" };
        let options = format!(
            "ro,nosuid,nodev,default_permissions,max_read={bytes_max},fsname={source},subtype={SUBTYPE}{others}"
        );
        Connection::of(helper::mount(place, &options)?).map_err(|errno| errno.to_string())
    }

    fn of(device: OwnedFd) -> Result<Connection, Errno> {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
        let number = i32::try_from(limit.saturating_sub(HIGH)).unwrap_or(0);
        Ok(Connection { device: fcntl_dupfd_cloexec(&device, number)?.into() })
    }

    /// Mounts the file system; its root is a directory, and one request carries at most `bytes_max` bytes. The kernel asks first for
    /// [`wire::Ask::Init`], and a thread that looks into the mount waits until that is answered.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, ENODEV without FUSE.
    pub fn mount(&self, bytes_max: u32) -> Result<DetachedMount, KernelError> {
        DetachedMount::with(c"fuse", &self.options(bytes_max))
            .map_err(|errno| KernelError::new(Operation::Mount, DEVICE, errno))
    }

    /// The same of a file system that is only read, named `source` among the mounts, in which nobody has rights that the modes of its files do not
    /// give; without `is_shared` only this user looks into it, root neither.
    ///
    /// # Errors
    /// As [`Connection::mount`].
    pub fn mount_to_read(
        &self,
        bytes_max: u32,
        source: &str,
        is_shared: bool,
    ) -> Result<DetachedMount, KernelError> {
        let mut options = self.options(bytes_max);
        options.push(("source", source.to_owned()));
        options.push(("subtype", SUBTYPE.to_owned()));
        let flags: &[&str] =
            if is_shared { &["default_permissions", "allow_other"] } else { &["default_permissions"] };
        DetachedMount::to_read(c"fuse", &options, flags)
            .map_err(|errno| KernelError::new(Operation::Mount, DEVICE, errno))
    }

    fn options(&self, bytes_max: u32) -> Vec<(&'static str, String)> {
        vec![
            ("fd", self.device.as_raw_fd().to_string()),
            ("rootmode", "40000".to_owned()),
            ("user_id", rustix::process::geteuid().as_raw().to_string()),
            ("group_id", rustix::process::getegid().as_raw().to_string()),
            ("max_read", bytes_max.to_string()),
        ]
    }

    /// Waits for what the kernel asks next. The buffer holds [`wire::buffer_bytes`] at least.
    ///
    /// # Errors
    /// EIO for what is no request; else as `read`.
    pub fn receive<'b>(&self, buffer: &'b mut [u8]) -> Result<Received<'b>, KernelError> {
        let failed = |errno| KernelError::new(Operation::Read, DEVICE, errno);
        let length = loop {
            match (&self.device).read(buffer) {
                Ok(length) => break length,
                Err(error) => match error.raw_os_error() {
                    // ENOENT: who asked has been interrupted before we saw it.
                    Some(libc::EINTR | libc::EAGAIN | libc::ENOENT) => {}
                    Some(libc::ENODEV | libc::ECONNABORTED) => return Ok(Received::Over),
                    errno => return Err(failed(errno.unwrap_or(libc::EIO))),
                },
            }
        };
        wire::read(&buffer[..length]).map(Received::Request).ok_or_else(|| failed(libc::EIO))
    }

    /// Answers a request with these bytes. One that nobody waits for any more is let go.
    ///
    /// # Errors
    /// As `write`: EINVAL for an answer of the wrong length.
    pub fn answer(&self, unique: u64, bytes: &[u8]) -> Result<(), KernelError> {
        self.send(&out_header(unique, 0, bytes.len()), bytes)
    }

    /// Answers a request with an error number.
    ///
    /// # Errors
    /// As [`Connection::answer`].
    pub fn refuse(&self, unique: u64, errno: i32) -> Result<(), KernelError> {
        self.send(&out_header(unique, -errno, 0), &[])
    }

    fn send(&self, header: &[u8; OUT_HEADER], bytes: &[u8]) -> Result<(), KernelError> {
        loop {
            let sent = (&self.device).write_vectored(&[IoSlice::new(header), IoSlice::new(bytes)]);
            let errno = match sent {
                Ok(length) if length == header.len() + bytes.len() => return Ok(()),
                // The kernel takes an answer as a whole or not at all.
                Ok(_) => libc::EIO,
                Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
            };
            match errno {
                libc::EINTR => {}
                libc::ENOENT | libc::ENODEV | libc::ECONNABORTED | libc::EPERM => return Ok(()),
                errno => return Err(KernelError::new(Operation::Write, DEVICE, errno)),
            }
        }
    }
}

/// The number of a mount's connection, as [`control::Control`] names it: the minor of its device.
///
/// # Errors
/// As `statx`.
pub fn connection_of(mount: &DetachedMount) -> Result<u32, KernelError> {
    let told = statx(mount.as_fd(), c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::empty());
    let told = told.map_err(|e| KernelError::new(Operation::Read, "the FUSE mount", e.raw_os_error()))?;
    Ok(told.stx_dev_minor)
}

/// The same of what is mounted at a place. Asks nobody who serves it.
///
/// # Errors
/// As `statx`.
pub fn connection_at(place: &Path) -> Result<u32, KernelError> {
    let told = statx(CWD, place, AtFlags::STATX_DONT_SYNC, StatxFlags::empty());
    let failed = |e: Errno| KernelError::new(Operation::Read, place.display().to_string(), e.raw_os_error());
    Ok(told.map_err(failed)?.stx_dev_minor)
}

/// Takes what is mounted last at a place away, with the helper for users who may not; `is_lazy`: from the place alone, while what is open in it goes on.
///
/// # Errors
/// EBUSY while something in it is open; as [`crate::mount::unmount`].
pub fn unmount(place: &Path, is_lazy: bool) -> Result<(), KernelError> {
    match crate::mount::unmount(place, is_lazy) {
        Err(error) if error.errno == libc::EPERM => helper::unmount(place, is_lazy),
        unmounted => unmounted,
    }
}

/// Whether `/dev/fuse` is there and may be opened.
///
/// # Errors
/// As [`Connection::open`].
pub fn is_offered() -> Result<(), KernelError> {
    let open = OpenOptions::new().read(true).write(true).open(Path::new(DEVICE));
    open.map(|_| ()).map_err(|error| KernelError::from_io(Operation::OpenFuse, DEVICE, &error))
}
