//! Disks as they are: a block device or a file opened past the page cache, and several requests at a time to it.
//!
//! The requests go by the kernel's own asynchronous I/O (`io_setup(2)` and its like), which every kernel since 2.6 has and which
//! needs no thread for each request. What is read is thrown away: all reads go into one buffer.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use surety_units::Nanos;

use crate::block::{BlockDevice, sysfs_of};
use crate::clock::to_timespec;
use crate::error::{KernelError, Operation, check};
use crate::pages::Pages;

/// A block device, a partition, or a regular file, for reading or for writing past the page cache.
#[derive(Debug)]
pub struct Medium {
    file: File,
    path: PathBuf,
    is_device: bool,
    bytes: u64,
    /// Bytes of a file that are on the disk.
    allocated: u64,
    /// Of the whole disk it is, or is on, where that is one.
    sysfs: Option<PathBuf>,
}

impl Medium {
    /// Opens it for reading only.
    ///
    /// # Errors
    /// ENOTBLK for what is neither a block device nor a file, EINVAL where the file system has no direct access.
    pub fn open(path: &Path) -> Result<Medium, KernelError> {
        Medium::of(path, OpenOptions::new().read(true).custom_flags(libc::O_DIRECT))
    }

    /// Opens it for writing over what is there; a file keeps its size.
    ///
    /// # Errors
    /// As [`Medium::open`]; EBUSY for a device that anything uses (a mount, swap, another device, on it or on a part of it), and
    /// for a file that a loop device or swap stands on.
    pub fn open_to_write(path: &Path) -> Result<Medium, KernelError> {
        let failed = |error: &io::Error| KernelError::from_io(Operation::Open, object(path), error);
        let metadata = std::fs::metadata(path).map_err(|e| failed(&e))?;
        if metadata.file_type().is_block_device() {
            // Claimed for a moment, with what is on its parts looked at.
            BlockDevice::unused(path)?;
        } else if is_stood_on(path) {
            return Err(KernelError::new(Operation::Open, object(path), libc::EBUSY));
        }
        Medium::of(path, OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT))
    }

    fn of(path: &Path, options: &OpenOptions) -> Result<Medium, KernelError> {
        let failed = |error: &io::Error| KernelError::from_io(Operation::Open, object(path), error);
        let metadata = std::fs::metadata(path).map_err(|e| failed(&e))?;
        let is_device = metadata.file_type().is_block_device();
        // Not even opened: opening some devices does something.
        if !is_device && !metadata.is_file() {
            return Err(KernelError::new(Operation::Open, object(path), libc::ENOTBLK));
        }
        let mut file = options.open(path).map_err(|e| failed(&e))?;
        let bytes =
            if is_device { file.seek(SeekFrom::End(0)).map_err(|e| failed(&e))? } else { metadata.len() };
        let number = if is_device { metadata.rdev() } else { metadata.dev() };
        let allocated = if is_device { bytes } else { metadata.blocks() * 512 };
        Ok(Medium { file, path: path.to_owned(), is_device, bytes, allocated, sysfs: sysfs_of(number).ok() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A device or a partition, rather than a file.
    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether parts of a file are not on the disk: reads of them do not reach it.
    pub fn has_holes(&self) -> bool {
        self.allocated < self.bytes
    }

    /// The kernel's name of the whole disk, `sda`; `None` for a file on a file system without one.
    pub fn disk(&self) -> Option<String> {
        Some(self.sysfs.as_ref()?.file_name()?.to_string_lossy().into_owned())
    }

    /// A property of the whole disk by its file below `/sys/block/NAME`, `queue/rotational` for instance.
    pub fn property(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.sysfs.as_ref()?.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Waits until what was written is on the medium.
    ///
    /// # Errors
    /// As `fdatasync`.
    pub fn flush(&self) -> Result<(), KernelError> {
        self.file.sync_data().map_err(|e| KernelError::from_io(Operation::Write, object(&self.path), &e))
    }
}

fn object(path: &Path) -> String {
    path.display().to_string()
}

/// Whether a loop device or swap stands on a file.
fn is_stood_on(path: &Path) -> bool {
    let same = |other: &str| {
        let (ours, its) = (std::fs::metadata(path), std::fs::metadata(other));
        ours.ok().zip(its.ok()).is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()))
    };
    let loops = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let backing =
        |disk: std::fs::DirEntry| std::fs::read_to_string(disk.path().join("loop/backing_file")).ok();
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    loops.filter_map(backing).any(|file| same(file.trim_end()))
        || swaps.lines().skip(1).any(|line| line.split_ascii_whitespace().next().is_some_and(same))
}

/// `struct iocb` of `include/uapi/linux/aio_abi.h`.
#[repr(C)]
struct Control {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    rw_flags: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: u32,
}

/// `struct io_event` of the same.
#[repr(C)]
#[derive(Clone, Copy)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

const READ: u16 = 0;
const WRITE: u16 = 1;
/// Filled with bytes that do not compress.
fn filled(bytes: usize) -> Result<Pages, KernelError> {
    let mut pages = Pages::new(bytes)?;
    // One step of xorshift for each word (Marsaglia 2003).
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    for into in pages.chunks_exact_mut(8) {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        into.copy_from_slice(&word.to_ne_bytes());
    }
    Ok(pages)
}

/// What is done to a part of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// A request that is complete: its tag, and the bytes it moved or the kernel's error number.
pub type Done = (u32, Result<usize, i32>);

/// Requests under way. Dropping it waits for them.
#[derive(Debug)]
pub struct DirectQueue {
    context: libc::c_ulong,
    // Dropped after the context is destroyed, when the kernel does not write to them any more.
    read: Pages,
    write: Pages,
    inside: usize,
    /// Completed, not handed out: tag and result.
    done: Vec<(u32, i64)>,
}

impl DirectQueue {
    /// For so many requests at a time, of at most so many bytes.
    ///
    /// # Errors
    /// EAGAIN when the machine's limit is reached (`fs.aio-max-nr`), ENOSYS on a kernel without it; ENOMEM.
    pub fn new(depth: u32, bytes_max: usize) -> Result<DirectQueue, KernelError> {
        let (read, write) = (filled(bytes_max)?, filled(bytes_max)?);
        let mut context: libc::c_ulong = 0;
        // SAFETY: the place for the context is valid and holds zero, as the call wants.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) };
        check(made)
            .map_err(|errno| KernelError::new(Operation::Open, "a queue of asynchronous I/O", errno))?;
        Ok(DirectQueue { context, read, write, inside: 0, done: Vec::new() })
    }

    /// Issues a request. `tag` names it in its completion.
    ///
    /// # Errors
    /// As the access; EINVAL for a length beyond the queue's.
    pub fn submit(
        &mut self,
        tag: u32,
        medium: &Medium,
        access: Access,
        (offset, length): (u64, usize),
    ) -> Result<(), KernelError> {
        let (operation, opcode, buffer) = match access {
            Access::Read => (Operation::Read, READ, &mut self.read),
            Access::Write => (Operation::Write, WRITE, &mut self.write),
        };
        let failed = |errno| KernelError::new(operation, object(&medium.path), errno);
        if length > buffer.len() {
            return Err(failed(libc::EINVAL));
        }
        let mut control = Control {
            data: u64::from(tag),
            key: 0,
            rw_flags: 0,
            opcode,
            priority: 0,
            descriptor: medium.file.as_raw_fd() as u32,
            buffer: buffer.address() as u64,
            length: length as u64,
            offset: offset as i64,
            reserved: 0,
            flags: 0,
            event_descriptor: 0,
        };
        let mut list = [&raw mut control];
        const { assert!(size_of::<Control>() == 64) };
        // SAFETY: the kernel copies the one control block during the call. The buffer it names has the length, holds plain bytes of
        // which nobody has a reference, and lives until the context is destroyed, which waits for the request.
        let taken = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1_i64, list.as_mut_ptr()) };
        check(taken).map_err(failed)?;
        self.inside += 1;
        Ok(())
    }

    /// The next request that is complete; `None` after a time, or a signal.
    ///
    /// # Errors
    /// As `io_getevents`.
    pub fn wait(&mut self, within: Nanos) -> Result<Option<Done>, KernelError> {
        if self.done.is_empty() && self.inside > 0 {
            let mut events = [Event { data: 0, object: 0, result: 0, result2: 0 }; 64];
            let mut time = to_timespec(within);
            // SAFETY: there is room for as many events as are asked for, and both places live over the call.
            let count = unsafe {
                let (room, time) = (events.as_mut_ptr(), &raw mut time);
                libc::syscall(libc::SYS_io_getevents, self.context, 1_i64, events.len(), room, time)
            };
            let count = match check(count) {
                Ok(count) => count as usize,
                Err(libc::EINTR) => 0,
                Err(errno) => return Err(KernelError::new(Operation::Wait, "asynchronous I/O", errno)),
            };
            self.inside -= count;
            self.done.extend(events[..count].iter().rev().map(|event| (event.data as u32, event.result)));
        }
        Ok(self.done.pop().map(|(tag, result)| {
            let result = usize::try_from(result).map_err(|_| i32::try_from(-result).unwrap_or(libc::EIO));
            (tag, result)
        }))
    }
}

impl Drop for DirectQueue {
    fn drop(&mut self) {
        // SAFETY: the context is ours; the call returns when nothing of it is under way.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: usize) -> Option<tempfile::NamedTempFile> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![7; bytes]).unwrap();
        file.as_file().sync_all().unwrap();
        let direct = Medium::open(file.path());
        if direct.is_err() {
            eprintln!("SKIPPED: the file system of temporary files has no direct access");
        }
        direct.ok().map(|_| file)
    }

    #[test]
    fn requests_come_back_by_their_tags_and_writes_reach_the_file() {
        let Some(file) = file(1 << 20) else { return };
        let medium = Medium::open_to_write(file.path()).unwrap();
        assert_eq!((medium.bytes(), medium.is_device()), (1 << 20, false));
        let mut queue = DirectQueue::new(8, 65_536).unwrap();
        for tag in 0..7_u32 {
            queue.submit(tag, &medium, Access::Read, (u64::from(tag) * 65_536, 65_536)).unwrap();
        }
        queue.submit(7, &medium, Access::Write, (983_040, 4096)).unwrap();
        let mut tags = Vec::new();
        while tags.len() < 8 {
            if let Some((tag, result)) = queue.wait(Nanos::from_secs(1)).unwrap() {
                assert_eq!(result, Ok(if tag == 7 { 4096 } else { 65_536 }));
                tags.push(tag);
            }
        }
        tags.sort_unstable();
        assert_eq!(tags, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(queue.wait(Nanos::ZERO).unwrap(), None);
        medium.flush().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(bytes[..983_040].iter().all(|b| *b == 7) && bytes[983_040..987_136].iter().any(|b| *b != 7));
        assert!(bytes[987_136..].iter().all(|b| *b == 7) && bytes.len() == 1 << 20);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let Some(file) = file(1 << 20) else { return };
        let medium = Medium::open(file.path()).unwrap();
        let mut queue = DirectQueue::new(2, 4096).unwrap();
        let long = queue.submit(0, &medium, Access::Read, (0, 8192)).unwrap_err();
        assert_eq!(long.errno, libc::EINVAL);
        // It was opened for reading.
        let written =
            queue.submit(1, &medium, Access::Write, (0, 4096)).map(|()| queue.wait(Nanos::from_secs(1)));
        assert!(match written {
            Err(error) => error.errno == libc::EBADF,
            Ok(done) => matches!(done, Ok(Some((1, Err(libc::EBADF))))),
        });
        assert_eq!(Medium::open(Path::new("/dev/null")).unwrap_err().errno, libc::ENOTBLK);
        assert_eq!(Medium::open(Path::new("/no/such")).unwrap_err().errno, libc::ENOENT);
    }

    #[test]
    fn a_file_that_a_loop_device_stands_on_is_not_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8 << 20).unwrap();
        let device = match BlockDevice::on_file(file.as_file()) {
            Ok(device) => device,
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        assert_eq!(Medium::open_to_write(file.path()).unwrap_err().errno, libc::EBUSY);
        let medium = Medium::open(device.path()).unwrap();
        assert!(medium.is_device() && medium.property("queue/rotational").is_some());
        assert_eq!(medium.disk().map(|disk| format!("/dev/{disk}").into()), Some(device.path().to_owned()));
    }
}
