//! Files and directories: those of the kernel as texts, ordinary ones past the page cache.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use surety_units::Nanos;

use crate::error::{KernelError, Operation};

fn object(path: &Path) -> String {
    path.display().to_string()
}

/// A file's whole text; bytes that are not UTF-8 are replaced.
///
/// The first read asks for 64 KiB: some files of the kernel (tracefs' `header_page`) end after one read, however
/// little it asked for, and `read_to_end` into an empty vector begins with a few bytes.
pub(crate) fn read_text(path: &Path) -> Result<String, KernelError> {
    const FIRST_READ: usize = 64 << 10;
    let failed = |error: &std::io::Error| KernelError::from_io(Operation::Read, object(path), error);
    let mut bytes = Vec::with_capacity(FIRST_READ);
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(|e| failed(&e))?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Writes an existing file in one `write`.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), KernelError> {
    let failed = |error: &std::io::Error| KernelError::from_io(Operation::Write, object(path), error);
    let mut file = OpenOptions::new().write(true).open(path).map_err(|e| failed(&e))?;
    let written = file.write(text.as_bytes()).map_err(|e| failed(&e))?;
    if written != text.len() {
        return Err(KernelError::new(Operation::Write, object(path), libc::EIO));
    }
    Ok(())
}

/// The names in a directory, in ascending order.
pub(crate) fn list_dir(path: &Path) -> Result<Vec<String>, KernelError> {
    let failed = |error: &std::io::Error| KernelError::from_io(Operation::List, object(path), error);
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(|e| failed(&e))? {
        names.push(entry.map_err(|e| failed(&e))?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Makes one directory.
pub(crate) fn make_dir(path: &Path) -> Result<(), KernelError> {
    fs::create_dir(path).map_err(|error| KernelError::from_io(Operation::MakeDir, object(path), &error))
}

/// Removes one empty directory.
pub(crate) fn remove_dir(path: &Path) -> Result<(), KernelError> {
    fs::remove_dir(path).map_err(|error| KernelError::from_io(Operation::RemoveDir, object(path), &error))
}

/// Removes a directory with everything in it; links are not followed.
pub(crate) fn remove_tree(path: &Path) -> Result<(), KernelError> {
    fs::remove_dir_all(path).map_err(|error| KernelError::from_io(Operation::RemoveDir, object(path), &error))
}

/// The same file, opened for reading and, where `writable`, for writing past the page cache (`O_DIRECT`). Works for
/// files without a name.
///
/// Offsets, lengths and buffers must then be multiples of the device's logical block.
///
/// # Errors
/// EINVAL where the file system has no direct access (tmpfs before 6.6, for instance).
pub fn reopen_direct(file: &File, writable: bool) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().read(true).write(writable).custom_flags(libc::O_DIRECT).open(path)
}

/// Opens a file for reading without waiting for the writer of a pipe.
///
/// # Errors
/// As `open`.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Whether a read of a pipe gives bytes or its end at once; waits for that, but no longer than this and no longer than until a
/// signal. A named pipe that nobody has opened for writing yet has neither.
///
/// # Errors
/// As `poll`.
pub fn has_input(file: &File, within: Nanos) -> io::Result<bool> {
    let millis = i32::try_from(within.div_ceil(Nanos::MILLISECOND)).unwrap_or(i32::MAX);
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor in a structure that lives over the call.
    match unsafe { libc::poll(&raw mut poll, 1, millis) } {
        0.. => Ok(poll.revents != 0),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}

/// A file in memory, without a name, for this process and whoever inherits its descriptor.
pub fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a C string that lives over the call.
    let file = unsafe { libc::memfd_create(c"surety".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `memfd_create` just gave this descriptor to us alone.
    Ok(unsafe { File::from_raw_fd(file) })
}

/// Drops what the page cache holds of a file and has been written; of nothing else. A no-op on tmpfs.
pub fn evict(file: &File) -> io::Result<()> {
    // SAFETY: takes a descriptor and integers; a length of 0 means to the end.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Asks for a part of a file in the page cache and does not wait for it: the reads are issued in the caller's name, marked as
/// read ahead of need.
pub fn read_ahead(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let (offset, length) = (libc::off_t::try_from(offset), libc::off_t::try_from(length));
    let (Ok(offset), Ok(length)) = (offset, length) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    // SAFETY: takes a descriptor and integers.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, length, libc::POSIX_FADV_WILLNEED) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// A file in `directory` that has no name (`O_TMPFILE`): it is gone with its last descriptor unless
/// [`give_name`] is called. Readable and writable, with the permissions of an ordinary new file.
///
/// # Errors
/// EOPNOTSUPP or EISDIR where the file system has no such files.
pub fn nameless_in(directory: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o666).open(directory)
}

/// Gives a file of [`nameless_in`] a name in its file system.
///
/// # Errors
/// EEXIST when the name is taken, ENOENT for a file that had a name and lost it.
pub fn give_name(file: &File, path: &Path) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(path.as_os_str().as_bytes())?;
    let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both names are C strings that live over the call.
    let linked = unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) };
    if linked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_file_without_a_name_gets_one_once() {
        let directory = tempfile::tempdir().unwrap();
        let Ok(mut file) = nameless_in(directory.path()) else {
            eprintln!("SKIPPED: the file system of temporary files has no files without names");
            return;
        };
        file.write_all(b"held").unwrap();
        assert_eq!(list_dir(directory.path()).unwrap(), [] as [String; 0]);
        let path = directory.path().join("name");
        give_name(&file, &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"held");
        assert_eq!(give_name(&file, &path).unwrap_err().raw_os_error(), Some(libc::EEXIST));
    }

    #[test]
    fn direct_reads_want_whole_blocks() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 8192]).unwrap();
        file.sync_all().unwrap();
        let Ok(direct) = reopen_direct(&file, false) else {
            eprintln!("SKIPPED: the file system of temporary files has no direct access");
            return;
        };
        let mut buffer = vec![0; 4096 * 3];
        let start = buffer.as_ptr().align_offset(4096);
        assert_eq!(direct.read_at(&mut buffer[start..start + 8192], 0).unwrap(), 8192);
        assert!(buffer[start..start + 8192].iter().all(|b| *b == 7));
        assert!(direct.read_at(&mut buffer[start..start + 100], 0).is_err());
    }
}
