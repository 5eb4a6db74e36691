//! [`DetachedMount`]: a kernel file system mounted for this process alone.
//!
//! `fsopen`, `fsconfig`, `fsmount` give a mount without a place in the file system. It is reached through
//! `/proc/self/fd/N` and vanishes with its descriptor, so nothing is left behind however the process ends.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{KernelError, Operation, check};

/// A mount of our own, gone when dropped and nothing on it is open any more.
#[derive(Debug)]
pub struct DetachedMount {
    mount: OwnedFd,
}

impl DetachedMount {
    /// Mounts a file system type that needs no source, such as `tracefs`. The error is an errno: EPERM without
    /// CAP_SYS_ADMIN, ENODEV when the kernel has no such file system, ENOSYS before 5.2.
    pub(crate) fn of(file_system: &CStr) -> Result<DetachedMount, i32> {
        mount(file_system, None)
    }

    /// Mounts the file system of a block device.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, ENODEV where the kernel has no such file system, EINVAL where the device has none.
    pub fn of_device(file_system: &CStr, device: &Path) -> Result<DetachedMount, KernelError> {
        let failed = |errno| KernelError::new(Operation::Mount, device.display().to_string(), errno);
        let source = CString::new(device.as_os_str().as_bytes()).map_err(|_| failed(libc::EINVAL))?;
        mount(file_system, Some(&source)).map_err(failed)
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

fn mount(file_system: &CStr, source: Option<&CStr>) -> Result<DetachedMount, i32> {
    /// `FSCONFIG_SET_STRING` and `FSCONFIG_CMD_CREATE` of `include/uapi/linux/mount.h`.
    const SET_STRING: u32 = 1;
    const CREATE: u32 = 6;
    const CLOSE_ON_EXEC: u32 = 1;
    let own = |descriptor: libc::c_long| {
        let descriptor = i32::try_from(descriptor).expect("a descriptor fits 32 bits");
        // SAFETY: called only with descriptors the kernel just gave to us alone.
        unsafe { OwnedFd::from_raw_fd(descriptor) }
    };
    // SAFETY: the name is a C string that lives over the call.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, file_system.as_ptr(), CLOSE_ON_EXEC) };
    let context = own(check(context)?);
    let fd = context.as_raw_fd();
    if let Some(source) = source {
        let key = c"source";
        // SAFETY: key and value are C strings that live over the call.
        let set =
            unsafe { libc::syscall(libc::SYS_fsconfig, fd, SET_STRING, key.as_ptr(), source.as_ptr(), 0) };
        check(set)?;
    }
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: this command takes neither key nor value, both must be null.
    check(unsafe { libc::syscall(libc::SYS_fsconfig, fd, CREATE, nothing, nothing, 0) })?;
    // SAFETY: takes a descriptor and two integers.
    let mount = unsafe { libc::syscall(libc::SYS_fsmount, fd, CLOSE_ON_EXEC, 0) };
    Ok(DetachedMount { mount: own(check(mount)?) })
}
