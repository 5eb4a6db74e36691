//! [`DetachedMount`]: a kernel file system mounted for this process alone.
//!
//! `fsopen`, `fsconfig`, `fsmount` give a mount without a place in the file system. It is reached through
//! `/proc/self/fd/N` and vanishes with its descriptor, so nothing is left behind however the process ends.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::mount::{fsconfig_create, fsconfig_set_string, fsmount, fsopen};

use crate::error::{KernelError, Operation};

/// A mount of our own, gone when dropped and nothing on it is open any more.
#[derive(Debug)]
pub struct DetachedMount {
    mount: OwnedFd,
}

impl DetachedMount {
    /// Mounts a file system type that needs no source, such as `tracefs`. The error is an errno: EPERM without
    /// CAP_SYS_ADMIN, ENODEV when the kernel has no such file system, ENOSYS before 5.2.
    pub(crate) fn of(file_system: &CStr) -> Result<DetachedMount, i32> {
        mount(file_system, &[]).map_err(Errno::raw_os_error)
    }

    /// The same with options. The error is an errno, EINVAL for an option or a value that it has not.
    pub(crate) fn with(file_system: &CStr, options: &[(&str, String)]) -> Result<DetachedMount, i32> {
        let options: Vec<(&str, &Path)> =
            options.iter().map(|(key, value)| (*key, Path::new(value))).collect();
        mount(file_system, &options).map_err(Errno::raw_os_error)
    }

    /// Mounts the file system of a block device.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, ENODEV where the kernel has no such file system, EINVAL where the device has none.
    pub fn of_device(file_system: &CStr, device: &Path) -> Result<DetachedMount, KernelError> {
        mount(file_system, &[("source", device)]).map_err(|error| {
            KernelError::new(Operation::Mount, device.display().to_string(), error.raw_os_error())
        })
    }

    /// Its root directory; valid in this process while `self` lives.
    pub fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.mount.as_raw_fd()))
    }
}

impl AsFd for DetachedMount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mount.as_fd()
    }
}

fn mount(file_system: &CStr, options: &[(&str, &Path)]) -> Result<DetachedMount, Errno> {
    let context = fsopen(file_system, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value)?;
    }
    fsconfig_create(&context)?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(DetachedMount { mount })
}
