//! [`Nodes`]: the numbers by which the kernel asks for files, and where those files are.
//!
//! A node is one file, whatever its names: its device and number there. It keeps the place where it was found last; who goes there looks whether it is
//! still that file. So nothing is held open for files that the kernel has only seen the names of.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use surety_kernel::beneath::Identity;
use surety_kernel::fuse::wire::ROOT;

/// Directories above one another at most; more are a circle, of directories that were moved since.
const DEPTH_MAX: usize = 2048;

#[derive(Debug)]
struct Node {
    identity: Identity,
    directory: u64,
    name: Vec<u8>,
    /// How often the kernel was told of it, and has not forgotten that.
    lookups: u64,
}

/// All files that the kernel knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    by_number: HashMap<u64, Node>,
    by_identity: HashMap<Identity, u64>,
    last: u64,
}

/// Where a node was found last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Below the directory that is mounted; the empty path is that itself.
    pub(crate) path: PathBuf,
    /// Which file; `None`: the directory that is mounted.
    pub(crate) identity: Option<Identity>,
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes { by_number: HashMap::new(), by_identity: HashMap::new(), last: ROOT }
    }
}

impl Nodes {
    /// The kernel is told of a file that was found in a directory: its number.
    pub(crate) fn learn(&mut self, directory: u64, name: &[u8], identity: Identity) -> u64 {
        let number = *self.by_identity.entry(identity).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        let node = self.by_number.entry(number).or_insert_with(|| Node {
            identity,
            directory,
            name: Vec::new(),
            lookups: 0,
        });
        node.directory = directory;
        name.clone_into(&mut node.name);
        node.lookups += 1;
        number
    }

    /// The kernel does not know so many of the times it was told of a file any more.
    pub(crate) fn forget(&mut self, number: u64, lookups: u64) {
        let Some(node) = self.by_number.get_mut(&number) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 {
            self.by_identity.remove(&node.identity);
            self.by_number.remove(&number);
        }
    }

    /// Where a file was found last; `None`: not known any more.
    pub(crate) fn place(&self, number: u64) -> Option<Place> {
        let identity = match number {
            ROOT => None,
            number => Some(self.by_number.get(&number)?.identity),
        };
        let (mut names, mut at) = (Vec::new(), number);
        while at != ROOT {
            let node = self.by_number.get(&at)?;
            names.push(OsStr::from_bytes(&node.name));
            at = node.directory;
            if names.len() > DEPTH_MAX {
                return None;
            }
        }
        Some(Place { path: names.iter().rev().collect(), identity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(inode: u64) -> Identity {
        Identity { device: 1, inode }
    }

    #[test]
    fn a_file_has_one_number_and_its_last_place() {
        let mut nodes = Nodes::default();
        let directory = nodes.learn(ROOT, b"films", identity(7));
        let film = nodes.learn(directory, b"a.mpg", identity(8));
        let path = |nodes: &Nodes, number| nodes.place(number).map(|place| place.path);
        assert_eq!(path(&nodes, film), Some("films/a.mpg".into()));
        assert_eq!(nodes.place(ROOT), Some(Place { path: "".into(), identity: None }));
        assert_eq!(nodes.learn(ROOT, b"link.mpg", identity(8)), film, "another name of it");
        assert_eq!(nodes.place(film), Some(Place { path: "link.mpg".into(), identity: Some(identity(8)) }));
        nodes.forget(film, 1);
        assert!(nodes.place(film).is_some(), "told twice");
        nodes.forget(film, 1);
        assert!(nodes.place(film).is_none() && nodes.by_identity.len() == 1);
        assert_ne!(nodes.learn(ROOT, b"link.mpg", identity(8)), film);
        nodes.forget(99, 1);
    }

    #[test]
    fn directories_that_were_moved_into_each_other_are_no_endless_path() {
        let mut nodes = Nodes::default();
        let a = nodes.learn(ROOT, b"a", identity(1));
        let b = nodes.learn(a, b"b", identity(2));
        assert_eq!(nodes.learn(b, b"a", identity(1)), a);
        assert!(nodes.place(a).is_none() && nodes.place(b).is_none());
        assert_eq!(nodes.learn(ROOT, b"b", identity(2)), b);
        assert_eq!(nodes.place(a).map(|place| place.path), Some("b/a".into()));
    }
}
