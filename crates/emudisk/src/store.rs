//! [`Store`]: where the data of an emulated disk are: in memory, or in a sparse file.
//!
//! In memory is a file too, without a name: what was never written reads as zeros and takes no memory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use surety_kernel::RealKernel;
use surety_kernel::facts::available_memory;
use surety_kernel::files::{memory_file, punch_hole};

use crate::error::EmulationError;

/// The data of a disk.
#[derive(Debug)]
pub struct Store {
    file: File,
    path: Option<PathBuf>,
    /// Whether its file was made for it and is of no use to anybody yet.
    is_spare: AtomicBool,
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(path) = self.path.as_ref().filter(|_| *self.is_spare.get_mut()) {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Store {
    /// In memory, of which `needs` bytes have to be available.
    ///
    /// # Errors
    /// Where that much memory is not available now.
    pub fn in_memory(bytes: u64, needs: u64) -> Result<Store, EmulationError> {
        if let Some(available) = available_memory(&RealKernel::new()).filter(|available| available.0 < needs)
        {
            return Err(EmulationError::Memory { bytes, available: available.0 });
        }
        let file = memory_file().and_then(|file| file.set_len(bytes).map(|()| file));
        let file = file.map_err(EmulationError::Data)?;
        Ok(Store { file, path: None, is_spare: AtomicBool::new(false) })
    }

    /// In a file, which is made sparse where there is none, and goes again where it is not kept; one that is there keeps what is in it, and has this
    /// size already.
    ///
    /// # Errors
    /// A file of another size, one that another disk uses, and those of the file system.
    pub fn in_file(path: &Path, bytes: u64) -> Result<Store, EmulationError> {
        let refused = |why: String| EmulationError::Backing { path: path.to_owned(), why };
        let failed = |error: io::Error| refused(error.to_string());
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let (file, is_new) = match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (options.open(path), false),
            opened => (opened, true),
        };
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(refused("another emulated disk uses it".to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(refused("it is no ordinary file".to_owned()));
        }
        match metadata.len() {
            0 => file.set_len(bytes).map_err(failed)?,
            length if length == bytes => {}
            length => {
                return Err(refused(format!("it has {length} bytes, and the disk has {bytes}")));
            }
        }
        Ok(Store { file, path: Some(path.to_owned()), is_spare: AtomicBool::new(is_new) })
    }

    /// Its file stays.
    pub(crate) fn keep(&self) {
        self.is_spare.store(false, Ordering::Relaxed);
    }

    /// Where it is, where it has a name.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads from a place on.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    /// Writes from a place on.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Makes a part read as zeros, and gives its room back.
    pub(crate) fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        punch_hole(&self.file, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_written_or_was_discarded_reads_as_zeros() {
        let store = Store::in_memory(1 << 20, 1 << 20).unwrap();
        store.write(4096, &[7; 8192]).unwrap();
        store.discard(4096, 4096).unwrap();
        let mut bytes = [1; 16384];
        store.read(0, &mut bytes).unwrap();
        assert!(bytes[..8192].iter().chain(&bytes[12288..]).all(|byte| *byte == 0));
        assert!(bytes[8192..12288].iter().all(|byte| *byte == 7));
        assert!(store.read((1 << 20) - 1, &mut bytes).is_err(), "beyond its end");
    }

    #[test]
    fn a_file_is_made_kept_and_not_shared() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        drop(Store::in_file(&path, 1 << 20).unwrap());
        assert!(!path.exists(), "of no use to anybody");
        let store = Store::in_file(&path, 1 << 20).unwrap();
        store.keep();
        store.write(0, b"kept").unwrap();
        assert!(Store::in_file(&path, 1 << 20).unwrap_err().to_string().contains("another emulated disk"));
        drop(store);
        let mut bytes = [0; 4];
        Store::in_file(&path, 1 << 20).unwrap().read(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"kept");
        assert!(Store::in_file(&path, 1 << 21).unwrap_err().to_string().contains("1048576 bytes"));
        assert!(Store::in_memory(1 << 20, u64::MAX >> 1).unwrap_err().to_string().contains("memory"));
    }
}
