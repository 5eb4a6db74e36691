//! How the kernel is answered through `/dev/fuse`, as bytes: the structures of `include/uapi/linux/fuse.h`.

use super::wire::{MAJOR, MINOR, OUT_HEADER};

/// `FUSE_ASYNC_READ`, `FUSE_BIG_WRITES`, `FUSE_ASYNC_DIO`, `FUSE_MAX_PAGES`.
const WANTED: u32 = 1 | 1 << 5 | 1 << 15 | 1 << 22;
/// `FUSE_PARALLEL_DIROPS`, and `FUSE_INIT_EXT`: there is a second word.
const OF_TREES: u32 = 1 << 18 | 1 << 30;
/// `FUSE_DIRECT_IO_ALLOW_MMAP`, of the second word: files past the page cache may be mapped and shared (Linux 6.6).
const SHARED_MAPPINGS: u32 = 1 << 4;
/// `FOPEN_DIRECT_IO`, `FOPEN_NOFLUSH`, `FOPEN_PARALLEL_DIRECT_WRITES`.
const OPENED: u32 = 1 | 1 << 5 | 1 << 6;
/// Bytes of `struct fuse_dirent` before the name.
const DIRENT: usize = 24;
const PAGE: u32 = 4096;
/// `S_IFDIR`, of a mode.
pub const DIRECTORY: u32 = 0o040_000;
/// `S_IFREG`, of a mode.
pub const REGULAR: u32 = 0o100_000;
/// The bits of a mode that say the type.
pub const TYPE: u32 = 0o170_000;

/// A file or a directory as `stat` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The number that `stat` shows, which need not be the one the kernel asks by.
    pub inode: u64,
    pub bytes: u64,
    /// Of 512 bytes.
    pub blocks: u64,
    /// Seconds and nanoseconds since 1970: of the last read, change of contents, change of anything.
    pub accessed: (i64, u32),
    pub modified: (i64, u32),
    pub changed: (i64, u32),
    /// Type and permissions.
    pub mode: u32,
    pub links: u32,
    pub user: u32,
    pub group: u32,
    /// Of a device file: which device, in the kernel's 32 bits.
    pub device: u32,
    pub block_bytes: u32,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub inode: u64,
    /// The type, as of a mode; 0: not known.
    pub mode: u32,
    pub name: Vec<u8>,
}

/// What a file system is able to, for [`init`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One file, as a disk.
    Disk,
    /// Directories, looked at by several at a time, and files that may be mapped.
    Tree,
}

/// How large a file system is (`statfs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub blocks: u64,
    pub free: u64,
    pub available: u64,
    pub files: u64,
    pub files_free: u64,
    pub block_bytes: u32,
    pub fragment_bytes: u32,
    pub name_bytes: u32,
}

impl Size {
    /// A file system of blocks of 4 KiB that is full.
    pub fn full(bytes: u64) -> Size {
        Size {
            blocks: bytes / u64::from(PAGE),
            files: 1,
            block_bytes: PAGE,
            fragment_bytes: PAGE,
            name_bytes: 255,
            ..Size::default()
        }
    }
}

/// The header of an answer with `bytes` bytes of data, or with an error (negative errno).
pub fn out_header(unique: u64, error: i32, bytes: usize) -> [u8; OUT_HEADER] {
    let mut header = [0; OUT_HEADER];
    let length = u32::try_from(OUT_HEADER + bytes).expect("answers are shorter than 4 GiB");
    header[..4].copy_from_slice(&length.to_ne_bytes());
    header[4..8].copy_from_slice(&error.to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// The answer to [`super::wire::Ask::Init`]: at most `requests_max` requests at a time, of at most `bytes_max` bytes each.
pub fn init(kind: Kind, bytes_max: u32, requests_max: u16) -> Vec<u8> {
    let pages = u16::try_from(bytes_max.div_ceil(PAGE)).unwrap_or(u16::MAX);
    let (more, second) = match kind {
        Kind::Disk => (0, 0),
        Kind::Tree => (OF_TREES, SHARED_MAPPINGS),
    };
    let mut out = Vec::new();
    put(&mut out, &[MAJOR, MINOR, bytes_max, WANTED | more]);
    // The queue is never called congested: who is served is the I/O scheduler's affair.
    out.extend([requests_max, requests_max].iter().flat_map(|n| n.to_ne_bytes()));
    put(&mut out, &[bytes_max, 1]);
    out.extend([pages, 0].iter().flat_map(|n| n.to_ne_bytes()));
    put(&mut out, &[second]);
    out.resize(64, 0);
    out
}

/// The answer to [`super::wire::Ask::Lookup`]: the number that the kernel asks by from now on, and for how many seconds it need not ask again.
pub fn entry(node: u64, attributes: &Attributes, valid_s: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put64(&mut out, &[node, 0, valid_s, valid_s]);
    put(&mut out, &[0, 0]);
    attributes_of(&mut out, attributes);
    out
}

/// The answer to [`super::wire::Ask::Attributes`], valid for `valid_s` seconds.
pub fn attributes(attributes: &Attributes, valid_s: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put64(&mut out, &[valid_s]);
    put(&mut out, &[0, 0]);
    attributes_of(&mut out, attributes);
    out
}

/// The answer to [`super::wire::Ask::Open`]: by what number it is read, past the page cache, writes at the same time, nothing asked on `close`.
pub fn opened(handle: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put64(&mut out, &[handle]);
    put(&mut out, &[OPENED, 0]);
    out
}

/// The answer to [`super::wire::Ask::OpenDirectory`].
pub fn opened_directory(handle: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put64(&mut out, &[handle, 0]);
    out
}

/// The answer to [`super::wire::Ask::ReadDirectory`]: as many names from a place in the list on as go into `bytes`.
pub fn names(list: &[Name], from: u64, bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, name) in list.iter().enumerate().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
        let length = (DIRENT + name.name.len()).next_multiple_of(8);
        if out.len() + length > bytes {
            break;
        }
        let end = out.len() + length;
        put64(&mut out, &[name.inode, at as u64 + 1]);
        put(&mut out, &[u32::try_from(name.name.len()).unwrap_or(0), (name.mode & TYPE) >> 12]);
        out.extend(&name.name);
        out.resize(end, 0);
    }
    out
}

/// The answer to [`super::wire::Ask::Write`].
pub fn written(bytes: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&bytes.to_ne_bytes());
    out
}

/// The answer to [`super::wire::Ask::Statistics`].
pub fn statistics(size: &Size) -> Vec<u8> {
    let mut out = Vec::new();
    put64(&mut out, &[size.blocks, size.free, size.available, size.files, size.files_free]);
    put(&mut out, &[size.block_bytes, size.name_bytes, size.fragment_bytes, 0]);
    out.resize(80, 0);
    out
}

/// `struct fuse_attr`.
fn attributes_of(out: &mut Vec<u8>, of: &Attributes) {
    let times = [of.accessed, of.modified, of.changed];
    put64(out, &[of.inode, of.bytes, of.blocks]);
    put64(out, &times.map(|(seconds, _)| seconds.cast_unsigned()));
    put(out, &times.map(|(_, nanoseconds)| nanoseconds));
    put(out, &[of.mode, of.links, of.user, of.group, of.device, of.block_bytes, 0]);
}

pub(super) fn put(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
}

pub(super) fn put64(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
}

#[cfg(test)]
mod tests {
    use super::super::wire::{u32_at, u64_at};
    use super::*;

    #[test]
    fn answers_have_the_lengths_of_the_protocol() {
        let of = Attributes { inode: 2, bytes: 1 << 30, mode: REGULAR | 0o640, ..Attributes::default() };
        for kind in [Kind::Disk, Kind::Tree] {
            assert_eq!(init(kind, 1 << 20, 256).len(), 64);
        }
        assert_eq!(entry(7, &of, 1).len(), 128);
        assert_eq!(attributes(&of, 1).len(), 104);
        assert_eq!(opened(3).len(), 16);
        assert_eq!(opened_directory(3).len(), 16);
        assert_eq!(statistics(&Size::full(1 << 30)).len(), 80);
        assert_eq!(u64_at(&entry(7, &of, 1), 0), Some(7));
        assert_eq!(u64_at(&attributes(&of, 1), 16 + 8), Some(1 << 30));
        assert_eq!(u32_at(&attributes(&of, 1), 16 + 60), Some(of.mode));
        assert_eq!(u32_at(&init(Kind::Disk, 1 << 20, 256), 28).map(|pages| pages & 0xffff), Some(256));
        assert_eq!(u32_at(&init(Kind::Tree, 1 << 20, 256), 32), Some(SHARED_MAPPINGS));
        assert_eq!(u32_at(&out_header(5, -libc::EIO, 0), 0), Some(16));
    }

    /// A list goes out in parts, whatever their size, and each name once.
    #[test]
    fn a_directory_is_listed_in_parts() {
        let name = |n: usize| Name { inode: n as u64, mode: DIRECTORY, name: vec![b'a'; 1 + n * 17 % 255] };
        let list: Vec<Name> = (0..40).map(name).collect();
        for bytes in [300, 1000, 1 << 20] {
            let (mut found, mut from) = (Vec::new(), 0);
            loop {
                let part = names(&list, from, bytes);
                assert!(part.len() <= bytes && part.len().is_multiple_of(8));
                let mut at = 0;
                while at < part.len() {
                    let length = u32_at(&part, at + 16).unwrap() as usize;
                    found.push((u64_at(&part, at).unwrap(), length, u32_at(&part, at + 20)));
                    from = u64_at(&part, at + 8).unwrap();
                    at += (DIRENT + length).next_multiple_of(8);
                }
                if part.is_empty() {
                    break;
                }
            }
            let wanted: Vec<_> = list.iter().map(|name| (name.inode, name.name.len(), Some(4))).collect();
            assert_eq!(found, wanted, "in parts of {bytes}");
        }
    }
}
