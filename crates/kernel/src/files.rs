//! Files and directories: those of the kernel as texts, ordinary ones past the page cache.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Advice, AtFlags, CWD, FallocateFlags, MemfdFlags};
use rustix::io::Errno;
use surety_units::Nanos;

use crate::clock::timespec;
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

/// The same for reading alone, and without a note of when it was read (`O_NOATIME`): such a note is a change of the file system, and a read
/// that makes one may wait until its journal is written. `false`: its owner is another, so notes are made (EPERM without
/// CAP_FOWNER).
///
/// # Errors
/// As [`reopen_direct`].
pub fn reopen_direct_unnoted(file: &File) -> io::Result<(File, bool)> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let open = |flags| OpenOptions::new().read(true).custom_flags(libc::O_DIRECT | flags).open(&path);
    match open(libc::O_NOATIME) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok((open(0)?, false)),
        opened => Ok((opened?, true)),
    }
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
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&timespec(within))) {
        Ok(ready) => Ok(ready != 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A file in memory, without a name, for this process and whoever inherits its descriptor.
pub fn memory_file() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("surety", MemfdFlags::CLOEXEC)?.into())
}

/// Drops what the page cache holds of a file and has been written; of nothing else. A no-op on tmpfs.
pub fn evict(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Waits until what of a part of a file is in the page cache alone is at its device (`sync_file_range(2)`); its length and place are not brought there.
///
/// # Errors
/// EIO, ENOSPC of the writing.
pub fn write_back(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let [offset, length] = [offset, length].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let all =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: numbers alone are handed over.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, all) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits until all that was written to the file system of an open file or directory is on its disk.
pub fn sync_file_system(of: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(of)?)
}

/// Asks for a part of a file in the page cache and does not wait for it: the reads are issued in the caller's name, marked as
/// read ahead of need.
pub fn read_ahead(file: &File, offset: u64, length: u64) -> io::Result<()> {
    // A length of 0 means to the end.
    Ok(rustix::fs::fadvise(file, offset, NonZeroU64::new(length), Advice::WillNeed)?)
}

/// Makes a part of a file read as zeros and gives its room back; the file keeps its length.
///
/// # Errors
/// EOPNOTSUPP where the file system cannot.
pub fn punch_hole(file: &File, offset: u64, length: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)?)
}

/// Gives a file room on its device from a byte on, which reads as zeros until it is written; the file becomes as long as that.
///
/// # Errors
/// EOPNOTSUPP where the file system cannot, ENOSPC, EFBIG.
pub fn allocate(file: &File, offset: u64, length: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), offset, length)?)
}

/// Opens a file for reading and writing without waiting for the other end of a pipe; one that is not there is made if it may be.
///
/// # Errors
/// As `open`.
pub fn open_to_write(path: &Path, is_made: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(is_made).truncate(false).custom_flags(libc::O_NONBLOCK).open(path)
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
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, from, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
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
