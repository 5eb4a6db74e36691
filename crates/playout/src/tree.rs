//! [`Tree`]: names, attributes, directories and links, as they are below at the moment of asking.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use surety_kernel::beneath::{At, Beneath, look_at};
use surety_kernel::fuse::answers::{self, Name};
use surety_kernel::fuse::wire::Forgotten;

use crate::nodes::{Nodes, Place};

/// The kernel keeps no names and attributes: others change files below without its knowledge.
const VALID_S: u64 = 0;
/// Error numbers of answers: ESTALE, EBADF.
const STALE: i32 = 116;
const NO_HANDLE: i32 = 9;

/// What is below a directory.
#[derive(Debug)]
pub(crate) struct Tree {
    beneath: Beneath,
    nodes: Mutex<Nodes>,
    directories: Mutex<Directories>,
}

/// Open directories: what was in each when it was read from its beginning last.
#[derive(Debug, Default)]
struct Directories {
    lists: HashMap<u64, Arc<Mutex<Vec<Name>>>>,
    last: u64,
}

impl Tree {
    pub(crate) fn new(beneath: Beneath) -> Tree {
        Tree { beneath, nodes: Mutex::default(), directories: Mutex::default() }
    }

    /// A mount of this process is refused from now on.
    pub(crate) fn refuse_mount(&self, connection: u32) {
        self.beneath.refuse_mount(connection);
    }

    pub(crate) fn lookup(&self, directory: u64, name: &[u8]) -> io::Result<Vec<u8>> {
        let found = self.beneath.look_in(at(&self.place(directory)?), name)?;
        let number = self.nodes().learn(directory, name, found.identity);
        Ok(answers::entry(number, &found.attributes, VALID_S))
    }

    /// Of a file that is open, where one is given.
    pub(crate) fn attributes(&self, node: u64, file: Option<&File>) -> io::Result<Vec<u8>> {
        let found = match file {
            Some(file) => look_at(file)?,
            None => self.beneath.look(at(&self.place(node)?))?,
        };
        Ok(answers::attributes(&found.attributes, VALID_S))
    }

    pub(crate) fn link(&self, node: u64) -> io::Result<Vec<u8>> {
        self.beneath.link(at(&self.place(node)?))
    }

    pub(crate) fn statistics(&self, node: u64) -> io::Result<Vec<u8>> {
        Ok(answers::statistics(&self.beneath.size(at(&self.place(node)?))?))
    }

    /// A regular file, and where it was found.
    pub(crate) fn open(&self, node: u64) -> io::Result<(File, PathBuf)> {
        let place = self.place(node)?;
        Ok((self.beneath.open_file(at(&place))?, place.path))
    }

    pub(crate) fn open_directory(&self) -> Vec<u8> {
        let mut directories = self.directories();
        directories.last += 1;
        let handle = directories.last;
        directories.lists.insert(handle, Arc::default());
        answers::opened_directory(handle)
    }

    /// Names from a place in the list on, which is made anew when read from its beginning.
    pub(crate) fn read_directory(
        &self,
        node: u64,
        handle: u64,
        (offset, bytes): (u64, u32),
    ) -> io::Result<Vec<u8>> {
        let list = self.directories().lists.get(&handle).cloned();
        let list = list.ok_or_else(|| io::Error::from_raw_os_error(NO_HANDLE))?;
        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 || list.is_empty() {
            *list = self.beneath.list(at(&self.place(node)?))?;
        }
        Ok(answers::names(&list, offset, usize::try_from(bytes).unwrap_or(usize::MAX)))
    }

    pub(crate) fn release_directory(&self, handle: u64) {
        self.directories().lists.remove(&handle);
    }

    pub(crate) fn forget(&self, node: u64, lookups: u64) {
        self.nodes().forget(node, lookups);
    }

    pub(crate) fn forget_many(&self, forgotten: Forgotten<'_>) {
        let mut nodes = self.nodes();
        forgotten.for_each(|(node, lookups)| nodes.forget(node, lookups));
    }

    fn place(&self, node: u64) -> io::Result<Place> {
        // The kernel looks the name up again.
        self.nodes().place(node).ok_or_else(|| io::Error::from_raw_os_error(STALE))
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn directories(&self) -> MutexGuard<'_, Directories> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn at(place: &Place) -> At<'_> {
    At { path: &place.path, identity: place.identity }
}
