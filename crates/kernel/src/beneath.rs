//! [`Beneath`]: a directory, looked at for somebody else: what is in it and below, and nothing outside.
//!
//! Names are followed from the open directory on by `openat2` (Linux 5.6): symbolic links on the way are not, `..` cannot be, so that no name leads
//! out of it, whatever is changed in it meanwhile. File systems that are mounted below are a part of it, but for one that is served by
//! this process itself: waiting for an answer of our own we would wait for ever.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::fs::{fstatfs, makedev, openat2, readlinkat, statx};
use rustix::io::Errno;

use crate::files::open_at_once;
use crate::fuse::answers::{Attributes, Name, Size};

/// No mount: device numbers of FUSE have minors above 0.
const NONE: u32 = 0;

/// An open directory.
#[derive(Debug)]
pub struct Beneath {
    root: OwnedFd,
    /// The minor of the device of the mount that this process serves.
    ours: AtomicU32,
}

/// Which file it is, whatever its name: its device and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

/// A file as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub identity: Identity,
    pub attributes: Attributes,
}

/// A path below the directory, and which file was found there; `None`: whichever is.
#[derive(Clone, Copy, Debug)]
pub struct At<'p> {
    /// The empty one is the directory itself.
    pub path: &'p Path,
    pub identity: Option<Identity>,
}

impl Beneath {
    /// Opens a directory.
    ///
    /// # Errors
    /// As `open`: ENOTDIR for what is none.
    pub fn open(path: &Path) -> io::Result<Beneath> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::empty())?;
        Ok(Beneath { root, ours: AtomicU32::new(NONE) })
    }

    /// A mount of this process is refused from now on, by its number ([`crate::fuse::connection_of`]).
    pub fn refuse_mount(&self, connection: u32) {
        self.ours.store(connection, Ordering::Relaxed);
    }

    /// What is there. A symbolic link is itself.
    ///
    /// # Errors
    /// As `open`: ENOENT; ELOOP for a link on the way, and for a mount of this process; ESTALE where another file is there.
    pub fn look(&self, at: At<'_>) -> io::Result<Found> {
        Ok(self.find(at)?.1)
    }

    /// What has a name in a directory.
    ///
    /// # Errors
    /// As [`Beneath::look`]; EINVAL for what is no name of one file.
    pub fn look_in(&self, directory: At<'_>, name: &[u8]) -> io::Result<Found> {
        if !is_name(name) {
            return Err(Errno::INVAL.into());
        }
        let (directory, _) = self.find(directory)?;
        look_at(self.place(&directory, Path::new(OsStr::from_bytes(name)))?)
    }

    /// Opens a regular file to read.
    ///
    /// # Errors
    /// As [`Beneath::look`]; EINVAL for what is no regular file.
    pub fn open_file(&self, at: At<'_>) -> io::Result<File> {
        let (place, found) = self.find(at)?;
        if FileType::from_raw_mode(found.attributes.mode) != FileType::RegularFile {
            return Err(Errno::INVAL.into());
        }
        // The same file: nobody can put another one behind a descriptor.
        open_at_once(Path::new(&format!("/proc/self/fd/{}", place.as_raw_fd())))
    }

    /// The names in a directory, `.` and `..` too.
    ///
    /// # Errors
    /// As [`Beneath::look`], and as `getdents`.
    pub fn list(&self, at: At<'_>) -> io::Result<Vec<Name>> {
        let (place, _) = self.find(at)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat2(&place, c".", flags, Mode::empty(), ResolveFlags::empty())?;
        let mut names = Vec::new();
        for entry in Dir::new(opened)? {
            let entry = entry?;
            let mode = match entry.file_type() {
                FileType::Unknown => 0,
                kind => kind.as_raw_mode(),
            };
            names.push(Name { inode: entry.ino(), mode, name: entry.file_name().to_bytes().to_vec() });
        }
        Ok(names)
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// As [`Beneath::look`]; EINVAL for what is none.
    pub fn link(&self, at: At<'_>) -> io::Result<Vec<u8>> {
        let (place, _) = self.find(at)?;
        Ok(readlinkat(&place, c"", Vec::new())?.into_bytes())
    }

    /// How large the file system is.
    ///
    /// # Errors
    /// As [`Beneath::look`], and as `statfs`.
    pub fn size(&self, at: At<'_>) -> io::Result<Size> {
        let of = fstatfs(self.find(at)?.0)?;
        let number = |number: i64| u32::try_from(number).unwrap_or(0);
        Ok(Size {
            blocks: of.f_blocks,
            free: of.f_bfree,
            available: of.f_bavail,
            files: of.f_files,
            files_free: of.f_ffree,
            block_bytes: number(of.f_bsize),
            fragment_bytes: number(of.f_frsize),
            name_bytes: number(of.f_namelen),
        })
    }

    fn find(&self, at: At<'_>) -> io::Result<(OwnedFd, Found)> {
        let path = if at.path.as_os_str().is_empty() { Path::new(".") } else { at.path };
        let place = self.place(&self.root, path)?;
        let found = look_at(&place)?;
        match at.identity.is_none_or(|identity| identity == found.identity) {
            true => Ok((place, found)),
            false => Err(Errno::STALE.into()),
        }
    }

    fn place(&self, from: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = |resolve| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat2(from, path, flags, Mode::empty(), resolve)
        };
        match open(within | ResolveFlags::NO_XDEV) {
            Err(Errno::XDEV) => {}
            opened => return Ok(opened?),
        }
        let opened = open(within)?;
        // The number of its device is known without asking who serves it.
        let at = statx(&opened, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::empty())?;
        let ours = self.ours.load(Ordering::Relaxed);
        if ours != NONE && (at.stx_dev_major, at.stx_dev_minor) == (0, ours) {
            return Err(Errno::LOOP.into());
        }
        Ok(opened)
    }
}

/// An open file as it is now.
///
/// # Errors
/// As `statx`.
pub fn look_at(file: impl AsFd) -> io::Result<Found> {
    let found = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    Ok(Found {
        identity: Identity {
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
        },
        attributes: attributes(&found),
    })
}

fn attributes(of: &Statx) -> Attributes {
    let [accessed, modified, changed] =
        [of.stx_atime, of.stx_mtime, of.stx_ctime].map(|time| (time.tv_sec, time.tv_nsec));
    Attributes {
        inode: of.stx_ino,
        bytes: of.stx_size,
        blocks: of.stx_blocks,
        accessed,
        modified,
        changed,
        mode: of.stx_mode.into(),
        links: of.stx_nlink,
        user: of.stx_uid,
        group: of.stx_gid,
        device: in_32_bits(of.stx_rdev_major, of.stx_rdev_minor),
        block_bytes: of.stx_blksize,
    }
}

/// A device's number as the kernel hands it on in 32 bits (`new_encode_dev`).
fn in_32_bits(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// Whether a name is one of a single file in a directory.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn nothing_outside_is_found_by_any_name() {
        let base = tempfile::tempdir().unwrap();
        let inside = base.path().join("inside");
        std::fs::create_dir_all(inside.join("sub")).unwrap();
        std::fs::write(base.path().join("secret"), "x").unwrap();
        std::fs::write(inside.join("sub/file"), "abc").unwrap();
        symlink("..", inside.join("up")).unwrap();
        symlink("sub/file", inside.join("link")).unwrap();
        let beneath = Beneath::open(&inside).unwrap();
        fn at(path: &str) -> At<'_> {
            At { path: Path::new(path), identity: None }
        }
        let errno = |path: &str| beneath.look(at(path)).unwrap_err().raw_os_error();
        assert_eq!(errno("../secret"), Some(libc::EXDEV));
        assert_eq!(errno("/etc/passwd"), Some(libc::EXDEV));
        assert_eq!(errno("up/secret"), Some(libc::ELOOP));
        assert_eq!(errno("none"), Some(libc::ENOENT));
        let found = beneath.look(at("sub/file")).unwrap();
        let real = std::fs::metadata(inside.join("sub/file")).unwrap();
        assert_eq!(
            (found.attributes.bytes, found.attributes.mode, found.attributes.modified),
            (3, real.mode(), (real.mtime(), real.mtime_nsec() as u32))
        );
        assert_eq!(found.identity, Identity { device: real.dev(), inode: real.ino() });
        assert_eq!(beneath.look_in(at("sub"), b"file").unwrap(), found);
        assert!(
            ["..", "../secret", ""].iter().all(|name| beneath.look_in(at("sub"), name.as_bytes()).is_err())
        );
        assert_eq!(beneath.link(at("link")).unwrap(), b"sub/file");
        assert_eq!(beneath.look(at("link")).unwrap().attributes.mode & 0o170_000, 0o120_000);
        let mut names: Vec<_> = beneath.list(at("")).unwrap().into_iter().map(|n| n.name).collect();
        names.sort();
        assert_eq!(names, [&b"."[..], b"..", b"link", b"sub", b"up"]);
        assert!(beneath.size(at("sub")).unwrap().block_bytes > 0);

        let file = At { identity: Some(found.identity), ..at("sub/file") };
        assert!(beneath.open_file(file).is_ok());
        std::fs::write(inside.join("other"), "other").unwrap();
        std::fs::rename(inside.join("other"), inside.join("sub/file")).unwrap();
        assert_eq!(beneath.open_file(file).unwrap_err().raw_os_error(), Some(libc::ESTALE), "another file");
        assert_eq!(beneath.open_file(at("sub")).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert!(Beneath::open(&inside.join("sub/file")).is_err());
    }

    #[test]
    fn names_are_of_one_file() {
        assert!(is_name(b"a") && is_name(b"..."));
        assert!(![&b""[..], b".", b"..", b"a/b", b"a\0"].iter().any(|name| is_name(name)));
        assert_eq!(in_32_bits(8, 1), 0x801);
    }
}
