//! The file system of an emulated disk: a directory with one file.

use surety_kernel::fuse::wire::{self, Node, ROOT};

/// The name of the file.
pub const NAME: &str = "disk";
/// Its number.
const FILE: u64 = 2;

/// A node by its number; the file has `bytes` bytes.
pub fn node(number: u64, bytes: u64) -> Option<Node> {
    match number {
        ROOT => Some(Node { number, bytes: 0, is_directory: true }),
        FILE => Some(Node { number, bytes, is_directory: false }),
        _ => None,
    }
}

/// The answer to a name in a directory.
pub fn lookup(directory: u64, name: &[u8], bytes: u64) -> Option<Vec<u8>> {
    let is_ours = directory == ROOT && name == NAME.as_bytes();
    node(FILE, bytes).filter(|_| is_ours).map(wire::entry)
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
