//! [`DetachedMount`]: a kernel file system mounted for this process alone.
//!
//! `fsopen`, `fsconfig`, `fsmount` give a mount without a place in the file system. It is reached through
//! `/proc/self/fd/N` and vanishes with its descriptor, so nothing is left behind however the process ends.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use crate::error::check;

/// A mount of our own, gone when dropped.
#[derive(Debug)]
pub(crate) struct DetachedMount {
    mount: OwnedFd,
}

impl DetachedMount {
    /// Mounts a file system type that needs no source, such as `tracefs`. The error is an errno: EPERM without
    /// CAP_SYS_ADMIN, ENODEV when the kernel has no such file system, ENOSYS before 5.2.
    pub fn of(file_system: &CStr) -> Result<DetachedMount, i32> {
        /// `FSCONFIG_CMD_CREATE` of `include/uapi/linux/mount.h`.
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
        let nothing = std::ptr::null::<libc::c_void>();
        // SAFETY: this command takes neither key nor value, both must be null.
        let created =
            unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, nothing, nothing, 0) };
        check(created)?;
        // SAFETY: takes a descriptor and two integers.
        let mount = unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOSE_ON_EXEC, 0) };
        Ok(DetachedMount { mount: own(check(mount)?) })
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
