//! Block devices: loop devices made for a run, and devices that somebody names.
//!
//! A loop device of ours clears itself when its last descriptor is closed (`LO_FLAGS_AUTOCLEAR`), and its file has no
//! name, so both are gone however the process ends. The file system on it is mounted detached
//! ([`crate::mount::DetachedMount`]) and goes with its descriptor too.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{KernelError, Operation, check};

/// Requests of `include/uapi/linux/loop.h` and `fs.h`.
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const BLKFLSBUF: libc::c_ulong = 0x1261;
const FLAG_AUTOCLEAR: u32 = 4;
const FLAG_DIRECT_IO: u32 = 16;
/// Others may take the free device first; so often another is tried.
const TRIES: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    special: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encryption: u32,
    key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    file: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const NO_INFO: LoopInfo = LoopInfo {
    device: 0,
    inode: 0,
    special: 0,
    offset: 0,
    size_limit: 0,
    number: 0,
    encryption: 0,
    key_size: 0,
    flags: 0,
    file_name: [0; 64],
    crypt_name: [0; 64],
    key: [0; 32],
    init: [0; 2],
};

/// A block device, held open.
#[derive(Debug)]
pub struct BlockDevice {
    file: File,
    path: PathBuf,
    sysfs: PathBuf,
}

/// What stands at the beginning of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Zeros: nothing that could be lost.
    Nothing,
    /// A file system of the ext family.
    Ext,
    /// Something else.
    Other,
}

impl BlockDevice {
    /// A loop device on a file, its size being that of the file; direct where the file system below can do that, so that
    /// what is read is not held twice. Detached when dropped and no longer in use, or with the process.
    ///
    /// # Errors
    /// ENOENT without `/dev/loop-control`, EACCES or EPERM for ordinary users.
    pub fn on_file(backing: &File) -> Result<BlockDevice, KernelError> {
        let control = "/dev/loop-control";
        let failed = |error: &io::Error| KernelError::from_io(Operation::AttachLoop, control, error);
        let control = OpenOptions::new().read(true).write(true).open(control).map_err(|e| failed(&e))?;
        let mut last = libc::EBUSY;
        for _ in 0..TRIES {
            // SAFETY: takes no argument.
            let number = check(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) }.into())
                .map_err(|errno| KernelError::new(Operation::AttachLoop, "/dev/loop-control", errno))?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            match attach(&path, backing) {
                Ok(file) => return BlockDevice::of(file, path),
                // Taken by another since the kernel named it.
                Err(libc::EBUSY) => last = libc::EBUSY,
                Err(errno) => {
                    return Err(KernelError::new(Operation::AttachLoop, path.display().to_string(), errno));
                }
            }
        }
        Err(KernelError::new(Operation::AttachLoop, "a loop device", last))
    }

    /// A device by its path, if nothing uses it: no mount, no swap, no other device on top of it or of a part of it.
    ///
    /// # Errors
    /// ENOTBLK for what is no block device, EBUSY for one in use.
    pub fn unused(path: &Path) -> Result<BlockDevice, KernelError> {
        let failed =
            |error: &io::Error| KernelError::from_io(Operation::Open, path.display().to_string(), error);
        let metadata = std::fs::metadata(path).map_err(|e| failed(&e))?;
        if !metadata.file_type().is_block_device() {
            return Err(KernelError::new(Operation::Open, path.display().to_string(), libc::ENOTBLK));
        }
        let sysfs = sysfs_of(metadata.rdev()).map_err(|e| failed(&e))?;
        // Looked for before it is even opened: what is mounted is left alone.
        if is_used_in_part(&sysfs) {
            return Err(KernelError::new(Operation::Open, path.display().to_string(), libc::EBUSY));
        }
        let claim = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(path);
        drop(claim.map_err(|e| failed(&e))?);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|e| failed(&e))?;
        Ok(BlockDevice { file, path: path.to_owned(), sysfs })
    }

    /// The whole disk that the file system of a file or directory is on, for its settings: the device itself is not opened (`O_PATH`), so what looks into it fails
    /// (EBADF).
    ///
    /// # Errors
    /// ENOTBLK for a file system that is on no one disk.
    pub fn below(place: &Path) -> Result<BlockDevice, KernelError> {
        let failed =
            |error: &io::Error| KernelError::from_io(Operation::Open, place.display().to_string(), error);
        let number = std::fs::metadata(place).map_err(|e| failed(&e))?.dev();
        let none = || KernelError::new(Operation::Open, place.display().to_string(), libc::ENOTBLK);
        let sysfs = sysfs_of(number).map_err(|_| none())?;
        // The kernel writes `!` where a name in /dev has `/`.
        let name = sysfs.file_name().and_then(|name| name.to_str()).ok_or_else(none)?.replace('!', "/");
        let path = Path::new("/dev").join(name);
        let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&path);
        let failed =
            |error: io::Error| KernelError::from_io(Operation::Open, path.display().to_string(), &error);
        Ok(BlockDevice { file: file.map_err(failed)?, path, sysfs })
    }

    fn of(file: File, path: PathBuf) -> Result<BlockDevice, KernelError> {
        let sysfs = file.metadata().and_then(|metadata| sysfs_of(metadata.rdev()));
        match sysfs {
            Ok(sysfs) => Ok(BlockDevice { file, path, sysfs }),
            Err(error) => Err(KernelError::from_io(Operation::Open, path.display().to_string(), &error)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that says and sets the I/O scheduler.
    pub fn scheduler_file(&self) -> PathBuf {
        self.sysfs.join("queue/scheduler")
    }

    /// The same device by another descriptor.
    ///
    /// # Errors
    /// EMFILE at the limit of open files.
    pub fn again(&self) -> Result<BlockDevice, KernelError> {
        let failed =
            |e: io::Error| KernelError::from_io(Operation::Open, self.path.display().to_string(), &e);
        let file = self.file.try_clone().map_err(failed)?;
        Ok(BlockDevice { file, path: self.path.clone(), sysfs: self.sysfs.clone() })
    }

    /// The file of a setting of its queue.
    pub fn queue_file(&self, name: &str) -> PathBuf {
        self.sysfs.join("queue").join(name)
    }

    /// Requests that its driver takes at a time; `None` where it has no tags.
    pub fn tags(&self) -> Option<u32> {
        std::fs::read_to_string(self.sysfs.join("mq/0/nr_tags")).ok()?.trim().parse().ok()
    }

    /// A setting of its queue as text, `nr_requests` for instance; `None` where it has none of that name.
    pub fn queue(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.sysfs.join("queue").join(name)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Does something that may have the kernel compute anew how far it reads ahead, as a mount does on 6.18 (seen: twice `max_sectors_kb`); it is as before
    /// afterwards, where it may be written.
    pub fn keeping_read_ahead<T>(&self, change: impl FnOnce() -> T) -> T {
        const NAME: &str = "read_ahead_kb";
        let before = self.queue(NAME);
        let changed = change();
        if let Some(before) = before.filter(|before| self.queue(NAME).as_ref() != Some(before)) {
            let _ = std::fs::write(self.queue_file(NAME), before);
        }
        changed
    }

    /// Of a loop device: whether it goes past the page cache to its file. `None` for other devices.
    pub fn is_direct(&self) -> Option<bool> {
        let mut info = NO_INFO;
        // SAFETY: the request fills a structure of exactly this layout.
        let asked = unsafe { libc::ioctl(self.file.as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut info) };
        (asked == 0).then_some(info.flags & FLAG_DIRECT_IO != 0)
    }

    /// What stands on it. Of more than 1 GiB, beside the first 256 MiB, one piece of 1 MiB in every 64th of it is read
    /// before it is taken for empty.
    pub fn content(&self) -> io::Result<Content> {
        /// Where the ext family keeps its magic number.
        const MAGIC_AT: usize = 0x438;
        /// Read at a time.
        const PIECE: u64 = 1 << 20;
        let size = (&self.file).seek(SeekFrom::End(0))?;
        let (mut bytes, zeros) = (vec![0; PIECE as usize], vec![0; PIECE as usize]);
        let mut magic = None;
        let pieces = size.div_ceil(PIECE);
        let (all, first, parts) = (1024, 256, 64);
        let read_of = |piece: &u64| {
            pieces <= all || *piece < first || piece.is_multiple_of(pieces / parts) || *piece == pieces - 1
        };
        for piece in (0..pieces).filter(read_of) {
            let read = self.file.read_at(&mut bytes, piece * PIECE)?;
            let bytes = &bytes[..read];
            magic = magic.or_else(|| Some(bytes.get(MAGIC_AT..MAGIC_AT + 2)? == [0x53, 0xef]));
            // Compared as a whole: byte by byte takes a hundred times as long.
            if bytes != &zeros[..read] {
                return Ok(if magic == Some(true) { Content::Ext } else { Content::Other });
            }
        }
        Ok(Content::Nothing)
    }

    /// Writes what the page cache holds of this device and forgets it; nothing else of the machine's is touched.
    pub fn flush(&self) -> Result<(), KernelError> {
        // SAFETY: takes no argument.
        let flushed = unsafe { libc::ioctl(self.file.as_raw_fd(), BLKFLSBUF as _, 0) };
        let failed = |errno| KernelError::new(Operation::Write, self.path.display().to_string(), errno);
        check(flushed.into()).map(|_| ()).map_err(failed)
    }

    /// Whether a file system on it is mounted, or something else has it to itself.
    pub fn is_claimed(&self) -> bool {
        let claim = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&self.path);
        claim.is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY))
    }
}

/// Whether there are loop devices.
///
/// # Errors
/// As [`BlockDevice::on_file`].
pub fn has_loop_devices() -> Result<(), KernelError> {
    let control = "/dev/loop-control";
    let open = OpenOptions::new().read(true).write(true).open(control);
    open.map(|_| ()).map_err(|error| KernelError::from_io(Operation::AttachLoop, control, &error))
}

/// The directory of the whole disk of a device number.
pub(crate) fn sysfs_of(number: u64) -> io::Result<PathBuf> {
    let link = format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number));
    let mut sysfs = std::fs::canonicalize(link)?;
    // A partition has no queue of its own.
    if sysfs.join("partition").exists() {
        sysfs.pop();
    }
    Ok(sysfs)
}

/// Whether a disk holds a mounted file system or swap anywhere.
fn is_used_in_part(sysfs: &Path) -> bool {
    let mut numbers = Vec::new();
    let inside = std::fs::read_dir(sysfs).into_iter().flatten().flatten().map(|entry| entry.path());
    for directory in std::iter::once(sysfs.to_owned()).chain(inside) {
        let number = std::fs::read_to_string(directory.join("dev")).unwrap_or_default();
        numbers.extend(Some(number.trim().to_owned()).filter(|n| !n.is_empty()));
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_mounted = |line: &str| {
        line.split_ascii_whitespace().nth(2).is_some_and(|number| numbers.iter().any(|n| n == number))
    };
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let is_swap = |line: &str| {
        let device = line.split_ascii_whitespace().next().and_then(|path| std::fs::metadata(path).ok());
        let number = device.filter(|d| d.file_type().is_block_device()).map(|d| d.rdev());
        number.is_some_and(|n| numbers.contains(&format!("{}:{}", libc::major(n), libc::minor(n))))
    };
    mounts.lines().any(is_mounted) || swaps.lines().skip(1).any(is_swap)
}

/// Configures the loop device at `path`; the error is an errno.
fn attach(path: &Path, backing: &File) -> Result<File, i32> {
    let errno = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let device = OpenOptions::new().read(true).write(true).open(path).map_err(errno)?;
    let file = u32::try_from(backing.as_raw_fd()).map_err(|_| libc::EBADF)?;
    let mut info = LoopInfo { flags: FLAG_AUTOCLEAR | FLAG_DIRECT_IO, ..NO_INFO };
    info.file_name[..6].copy_from_slice(b"surety");
    let mut config = LoopConfig { file, block_size: 0, info, reserved: [0; 8] };
    const { assert!(size_of::<LoopConfig>() == 8 + 232 + 64) };
    // SAFETY: the structure has the layout the request reads and lives over the call.
    let mut set = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) };
    if set != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        // The file system of the file has no direct access.
        config.info.flags = FLAG_AUTOCLEAR;
        // SAFETY: as above.
        set = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) };
    }
    check(set.into()).map(|_| device)
}

/// How many bytes an ordinary user may still put in the file system of a directory.
pub fn room_in(directory: &Path) -> io::Result<u64> {
    let told = rustix::fs::statvfs(directory)?;
    Ok(told.f_bavail.saturating_mul(told.f_frsize))
}

/// The disk that a device number (`st_dev` of a file) is a partition of; the number itself where it is none.
pub fn disk_of(device: u64) -> u64 {
    disk_below(Path::new("/sys/dev/block"), device).unwrap_or(device)
}

/// The disks that a block device lies on, through partitions and what is made of others (LVM, LUKS, md); none where the number is of no block device, as of btrfs,
/// overlay or tmpfs.
pub fn disks_below(device: u64) -> Vec<u64> {
    let (mut found, mut open) = (Vec::new(), vec![disk_of(device)]);
    // Devices lie on one another a few deep; more is a sysfs that cannot be believed.
    while let Some(device) = open.pop().filter(|_| found.len() < 64) {
        let at = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        if found.contains(&device) || !Path::new(&at).exists() {
            continue;
        }
        found.push(device);
        let below = fs::read_dir(Path::new(&at).join("slaves")).into_iter().flatten().flatten();
        let numbers = below.filter_map(|entry| {
            let text = fs::read_to_string(entry.path().join("dev")).ok()?;
            let (major, minor) = text.trim().split_once(':')?;
            Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
        });
        open.extend(numbers.map(disk_of));
    }
    found
}

/// Whether a write to a file that is there may wait for a commit of its file system's journal, which notes when it was written. Only ext4 without a journal is
/// known not to: `/proc/fs/jbd2` lists those that have one by their devices.
pub fn waits_for_journal(file: &fs::File) -> bool {
    waits_for_journal_in(file, Path::new("/proc/fs/jbd2")).unwrap_or(true)
}

/// The same with the list anywhere; `None`: it cannot be told.
fn waits_for_journal_in(file: &fs::File, journals: &Path) -> Option<bool> {
    use std::os::unix::fs::MetadataExt;
    if rustix::fs::fstatfs(file).ok()?.f_type != EXT4_SUPER_MAGIC {
        return Some(true);
    }
    let device = file.metadata().ok()?.dev();
    let place = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    let device = fs::canonicalize(place).ok()?;
    // A journal's directory is called by its device and its inode.
    let mark = format!("{}-", device.file_name()?.to_str()?);
    let listed = |name: &str| name.strip_prefix(&mark).is_some_and(|inode| inode.parse::<u64>().is_ok());
    let mut names = fs::read_dir(journals).ok()?.flatten();
    Some(names.any(|entry| entry.file_name().to_str().is_some_and(listed)))
}

/// The same with sysfs anywhere; `None`: no partition.
fn disk_below(numbers: &Path, device: u64) -> Option<u64> {
    let partition = numbers.join(format!("{}:{}", libc::major(device), libc::minor(device)));
    if !partition.join("partition").exists() {
        return None;
    }
    // The directory of a partition is in that of its disk.
    let number = fs::read_to_string(partition.join("../dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// `EXT4_SUPER_MAGIC` of `include/uapi/linux/magic.h`: of ext2 to ext4.
const EXT4_SUPER_MAGIC: rustix::fs::FsWord = 0xef53;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_of_its_disk() {
        let sysfs = tempfile::tempdir().unwrap();
        let (disk, numbers) = (sysfs.path().join("devices/sda"), sysfs.path().join("dev/block"));
        fs::create_dir_all(disk.join("sda3")).unwrap();
        fs::create_dir_all(&numbers).unwrap();
        fs::write(disk.join("dev"), "8:0\n").unwrap();
        fs::write(disk.join("sda3/partition"), "3\n").unwrap();
        std::os::unix::fs::symlink("../../devices/sda", numbers.join("8:0")).unwrap();
        std::os::unix::fs::symlink("../../devices/sda/sda3", numbers.join("8:3")).unwrap();
        assert_eq!(disk_below(&numbers, libc::makedev(8, 3)), Some(libc::makedev(8, 0)));
        assert_eq!(disk_below(&numbers, libc::makedev(8, 0)), None);
        assert_eq!(disk_below(&numbers, libc::makedev(0, 44)), None);
        // No device of this machine is of another's kind.
        assert_eq!(disk_of(libc::makedev(0, 44)), libc::makedev(0, 44));
    }

    #[test]
    fn a_file_system_with_a_journal_is_in_the_kernels_list() {
        let (directory, list) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = fs::File::create(directory.path().join("f")).unwrap();
        let told = waits_for_journal_in(&file, list.path());
        assert!(waits_for_journal_in(&file, Path::new("/no/such/list")).is_none_or(|waits| waits));
        // On ext4 nothing is listed here; on what else there is, nothing is known.
        let is_ext4 = rustix::fs::fstatfs(&file).unwrap().f_type == EXT4_SUPER_MAGIC;
        assert_eq!(told, Some(!is_ext4));
        if is_ext4 {
            use std::os::unix::fs::MetadataExt;
            let device = file.metadata().unwrap().dev();
            let place = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
            let name = fs::canonicalize(place).unwrap();
            let name = name.file_name().unwrap().to_str().unwrap();
            fs::create_dir(list.path().join(format!("{name}-8"))).unwrap();
            assert_eq!(waits_for_journal_in(&file, list.path()), Some(true));
        }
    }

    #[test]
    fn a_loop_device_comes_with_its_file_and_goes_with_its_descriptor() {
        let backing = tempfile::tempfile().unwrap();
        backing.set_len(8 << 20).unwrap();
        let device = match BlockDevice::on_file(&backing) {
            Ok(device) => device,
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                return;
            }
        };
        assert_eq!(device.content().unwrap(), Content::Nothing);
        assert!(device.is_direct().is_some());
        assert!(std::fs::read_to_string(device.scheduler_file()).unwrap().contains('['));
        assert_eq!(device.queue("rotational").map(|t| t.len()), Some(1));
        assert!(!device.is_claimed());
        device.file.write_all_at(&[0x53, 0xef], 0x438).unwrap();
        assert_eq!(device.content().unwrap(), Content::Ext);
        device.file.write_all_at(b"x", 0x438).unwrap();
        assert_eq!(device.content().unwrap(), Content::Other);
        device.flush().unwrap();
        let mut byte = [0];
        backing.read_at(&mut byte, 0x438).unwrap();
        assert_eq!(byte, *b"x");
        let backing_file = device.sysfs.join("loop/backing_file");
        assert!(backing_file.exists());
        drop(device);
        // A child that another test is making has the descriptor until it runs its program.
        let goes = |_| {
            !backing_file.exists() || {
                std::thread::sleep(std::time::Duration::from_millis(10));
                false
            }
        };
        assert!((0..500).any(goes), "detached with its last descriptor");
    }

    #[test]
    fn what_is_no_device_or_in_use_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(BlockDevice::unused(file.path()).unwrap_err().errno, libc::ENOTBLK);
        assert_eq!(BlockDevice::unused(Path::new("/dev/surety-none")).unwrap_err().errno, libc::ENOENT);
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let of_root = mounts.lines().find(|l| l.split(' ').nth(4) == Some("/")).unwrap();
        let number = of_root.split(' ').nth(2).unwrap();
        let name = std::fs::canonicalize(format!("/sys/dev/block/{number}"));
        let Some(name) = name.ok().and_then(|p| Some(p.file_name()?.to_owned())) else {
            eprintln!("SKIPPED: the root file system is on no device");
            return;
        };
        let refused = BlockDevice::unused(&Path::new("/dev").join(name)).unwrap_err();
        assert_eq!(refused.errno, libc::EBUSY, "{refused}");
    }

    #[test]
    fn room_is_told() {
        assert!(room_in(Path::new("/")).unwrap() > 0);
        assert!(room_in(Path::new("/no/such")).is_err());
    }
}
