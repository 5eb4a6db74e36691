//! [`DetachedMount`]: a kernel file system mounted for this process alone.
//!
//! `fsopen`, `fsconfig`, `fsmount` give a mount without a place in the file system. It is reached through
//! `/proc/self/fd/N` and vanishes with its descriptor, so nothing is left behind however the process ends: unless it is given a place
//! ([`DetachedMount::attach`]), which [`crate::journal::Entry::Mount`] is for.

use std::ffi::{CStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags};
use rustix::mount::{fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount};

use crate::error::{KernelError, Operation};

/// The list of mounts that this process sees.
pub const MOUNTS: &str = "/proc/self/mountinfo";

/// A mount of our own, gone when dropped and nothing on it is open any more.
#[derive(Debug)]
pub struct DetachedMount {
    mount: OwnedFd,
}

impl DetachedMount {
    /// Mounts a file system type that needs no source, such as `tracefs`. The error is an errno: EPERM without
    /// CAP_SYS_ADMIN, ENODEV when the kernel has no such file system, ENOSYS before 5.2.
    pub(crate) fn of(file_system: &CStr) -> Result<DetachedMount, i32> {
        mount(file_system, (&[], &[]), MountAttrFlags::empty()).map_err(Errno::raw_os_error)
    }

    /// The same with options. The error is an errno, EINVAL for an option or a value that it has not.
    pub(crate) fn with(file_system: &CStr, options: &[(&str, String)]) -> Result<DetachedMount, i32> {
        mount(file_system, (&paths_of(options), &[]), MountAttrFlags::empty()).map_err(Errno::raw_os_error)
    }

    /// The same with options that have no value; nothing is written there, and no program of another user or device file counts.
    pub(crate) fn to_read(
        file_system: &CStr,
        options: &[(&str, String)],
        flags: &[&str],
    ) -> Result<DetachedMount, i32> {
        let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV;
        mount(file_system, (&paths_of(options), flags), attributes).map_err(Errno::raw_os_error)
    }

    /// Mounts the file system of a block device; that something is read there leaves no note, which would be a write.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, ENODEV where the kernel has no such file system, EINVAL where the device has none.
    pub fn of_device(file_system: &CStr, device: &Path) -> Result<DetachedMount, KernelError> {
        let unnoted = MountAttrFlags::MOUNT_ATTR_NOATIME;
        mount(file_system, (&[("source", device)], &[]), unnoted).map_err(|error| {
            KernelError::new(Operation::Mount, device.display().to_string(), error.raw_os_error())
        })
    }

    /// Gives it a place in the file system, over a directory. It stays there until it is unmounted.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR for what is no directory; EPERM without CAP_SYS_ADMIN.
    pub fn attach(self, place: &Path) -> Result<(), KernelError> {
        move_mount(&self.mount, c"", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(|error| {
            KernelError::new(Operation::Mount, place.display().to_string(), error.raw_os_error())
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

fn paths_of<'a>(options: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a Path)> {
    options.iter().map(|(key, value)| (*key, Path::new(value))).collect()
}

fn mount(
    file_system: &CStr,
    (options, flags): (&[(&str, &Path)], &[&str]),
    attributes: MountAttrFlags,
) -> Result<DetachedMount, Errno> {
    let context = fsopen(file_system, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value)?;
    }
    for flag in flags {
        fsconfig_set_flag(&context, *flag)?;
    }
    fsconfig_create(&context)?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    Ok(DetachedMount { mount })
}

/// Takes what is mounted last at a place away; `is_lazy`: from the place alone, while what is open in it goes on.
///
/// # Errors
/// EBUSY while something in it is open, EINVAL where nothing is mounted, EPERM without CAP_SYS_ADMIN.
pub fn unmount(place: &Path, is_lazy: bool) -> Result<(), KernelError> {
    let flags = if is_lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    rustix::mount::unmount(place, flags | UnmountFlags::NOFOLLOW).map_err(|error| {
        KernelError::new(Operation::Unmount, place.display().to_string(), error.raw_os_error())
    })
}

/// What is mounted last at a place: the source of a mount of a file system type (`fuse.surety`); `None`: another type, or nothing. Asks
/// nobody who serves a file system. The text is that of `/proc/self/mountinfo`.
pub fn source_at(mountinfo: &str, place: &Path, file_system: &str) -> Option<String> {
    let of_line = |line: &str| {
        let (mount, of) = line.split_once(" - ")?;
        let at = PathBuf::from(unescaped(mount.split(' ').nth(4)?));
        let mut of = of.split(' ');
        let (kind, source) = (of.next()?, of.next()?);
        (at == place).then(|| (kind == file_system).then(|| unescaped(source).to_string_lossy().into_owned()))
    };
    // Later lines are of later mounts.
    mountinfo.lines().rev().find_map(of_line).flatten()
}

/// Spaces, tabs, ends of lines and backslashes are octal in the kernel's lists.
fn unescaped(text: &str) -> OsString {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_last_at_a_place_is_what_counts() {
        let list = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                    40 20 0:50 / /m\\040n rw - fuse.surety surety-7-8 ro,user_id=0\n\
                    41 20 0:51 / /b rw shared:2 - fuse.surety surety-9 ro\n\
                    42 41 0:52 / /b rw - tmpfs tmpfs rw\n";
        let at = |place: &str| source_at(list, Path::new(place), "fuse.surety");
        assert_eq!(at("/m n"), Some("surety-7-8".to_owned()));
        assert_eq!([at("/b"), at("/"), at("/none")], [None, None, None]);
    }
}
