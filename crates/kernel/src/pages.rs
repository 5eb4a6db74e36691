//! [`Pages`]: memory of whole pages that direct access takes and that can be locked.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};

use crate::error::{KernelError, Operation};

/// Bytes of a page, and more than any device wants memory or offsets to be aligned to for direct access.
pub const PAGE: usize = 4096;

/// Whole pages of this process, zeros at first. They are not inherited by children.
pub struct Pages {
    start: NonNull<u8>,
    length: usize,
    is_locked: bool,
}

// SAFETY: the mapping is owned by this value alone and holds plain bytes, so whoever has the value may be any thread.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives shared references to the bytes only.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least so many bytes, rounded up to pages, and one page at least.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(bytes: usize) -> Result<Pages, KernelError> {
        let length = bytes.max(1).next_multiple_of(PAGE);
        // SAFETY: a new mapping, placed by the kernel, touches no other.
        let start = unsafe {
            mmap_anonymous(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let start = start.map_err(|errno| failed(length, errno))?;
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at address 0 unless asked to");
        Ok(Pages { start, length, is_locked: false })
    }

    /// Keeps them in memory until they are dropped, and makes them present now.
    ///
    /// # Errors
    /// ENOMEM beyond RLIMIT_MEMLOCK; EPERM where that is 0.
    pub fn lock(&mut self) -> Result<(), KernelError> {
        // SAFETY: the range is the mapping of this value.
        unsafe { mlock(self.start.as_ptr().cast(), self.length) }
            .map_err(|errno| failed(self.length, errno))?;
        self.is_locked = true;
        Ok(())
    }

    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Where they are, for a transfer by the kernel that outlasts a borrow.
    pub(crate) fn address(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

fn failed(bytes: usize, errno: rustix::io::Errno) -> KernelError {
    KernelError::new(Operation::LockMemory, format!("{bytes} bytes"), errno.raw_os_error())
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has this length and is initialised, by zeros or what was written.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the value is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pages { length, is_locked, .. } = self;
        f.debug_struct("Pages").field("length", length).field("is_locked", is_locked).finish()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference to it outlives it. Unmapping unlocks.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_and_zero_and_can_be_locked() {
        let mut pages = Pages::new(5000).unwrap();
        assert_eq!((pages.len(), pages.as_ptr().align_offset(PAGE)), (8192, 0));
        assert!(pages.iter().all(|byte| *byte == 0) && !pages.is_locked());
        pages[8191] = 7;
        match pages.lock() {
            Ok(()) => assert!(pages.is_locked()),
            Err(error) => eprintln!("SKIPPED: {error}"),
        }
        assert_eq!(pages[8191], 7);
        assert_eq!(Pages::new(0).unwrap().len(), PAGE);
    }
}
