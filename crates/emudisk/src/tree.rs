//! The file system of an emulated disk: a directory with one file.

use surety_kernel::fuse::answers::{self, Attributes, DIRECTORY, REGULAR};
use surety_kernel::fuse::wire::ROOT;

/// The name of the file.
pub const NAME: &str = "disk";
/// Its number.
const FILE: u64 = 2;
/// Names and attributes do not change: they are kept this long, in seconds.
pub const VALID_S: u64 = 1 << 30;

/// A node by its number; the file has `bytes` bytes.
pub fn node(number: u64, bytes: u64) -> Option<Attributes> {
    let (bytes, mode) = match number {
        ROOT => (0, DIRECTORY | 0o700),
        FILE => (bytes, REGULAR | 0o600),
        _ => return None,
    };
    let of =
        Attributes { inode: number, bytes, blocks: bytes / 512, mode, links: 1, ..Attributes::default() };
    Some(Attributes { block_bytes: 4096, ..of })
}

/// The answer to a name in a directory.
pub fn lookup(directory: u64, name: &[u8], bytes: u64) -> Option<Vec<u8>> {
    let is_ours = directory == ROOT && name == NAME.as_bytes();
    node(FILE, bytes).filter(|_| is_ours).map(|of| answers::entry(FILE, &of, VALID_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_file_of_the_size_of_the_disk() {
        assert!(lookup(ROOT, b"disk", 512).is_some());
        assert!(lookup(ROOT, b"other", 512).is_none() && lookup(FILE, b"disk", 512).is_none());
        assert_eq!(node(FILE, 512).map(|node| node.bytes), Some(512));
        assert!(node(3, 512).is_none());
    }
}
