//! [`Pages`]: memory of whole pages that direct access takes and that can be locked.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};

use crate::error::{KernelError, Operation};

/// Bytes of a page, and more than any device wants memory or offsets to be aligned to for direct access.
pub const PAGE: usize = 4096;

/// One mapping of this process alone. It is gone with its last part.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: nothing is done with the address but unmapping it, once.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference can do nothing at all.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no part of it, let alone a reference to one, outlives it. Unmapping unlocks.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }
}

/// Whole pages of this process, zeros at first. They are not inherited by children.
pub struct Pages {
    start: NonNull<u8>,
    length: usize,
    /// Holds what `start` points to.
    _mapping: Arc<Mapping>,
}

// SAFETY: a part of a mapping is owned by one value alone and holds plain bytes, so whoever has the value may be any thread.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives shared references to the bytes only.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least so many bytes, rounded up to pages, and one page at least.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(bytes: usize) -> Result<Pages, KernelError> {
        let (mut pages, _) = Pages::parts(1, bytes, false)?;
        Ok(pages.pop().expect("one was asked for"))
    }

    /// Some of at least so many bytes each, in one mapping, which is kept in memory if it is to be locked and may be.
    ///
    /// # Errors
    /// ENOMEM. Why they are not locked is no error: ENOMEM beyond RLIMIT_MEMLOCK, EPERM where that is 0.
    pub fn parts(
        count: usize,
        bytes: usize,
        is_locked: bool,
    ) -> Result<(Vec<Pages>, Option<KernelError>), KernelError> {
        let part = bytes.max(1).checked_next_multiple_of(PAGE);
        let length = part.and_then(|part| part.checked_mul(count.max(1)));
        let (Some(part), Some(length)) = (part, length) else { return Err(failed(bytes, Errno::NOMEM)) };
        // SAFETY: a new mapping, placed by the kernel, touches no other.
        let start = unsafe {
            mmap_anonymous(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let start = start.map_err(|errno| failed(length, errno))?;
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at address 0 unless asked to");
        let mapping = Arc::new(Mapping { start, length });
        // A child with a copy would have each page copied that a device writes to. Where that is unknown it only takes longer.
        // SAFETY: the range is the mapping just made.
        let _ = unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxDontFork) };
        // SAFETY: the range is the mapping just made.
        let locked = is_locked.then(|| unsafe { mlock(start.as_ptr().cast(), length) });
        let parts = (0..count).map(|number| {
            // SAFETY: `number` parts before it, and itself, lie within the mapping.
            let start = unsafe { start.add(number * part) };
            Pages { start, length: part, _mapping: Arc::clone(&mapping) }
        });
        Ok((parts.collect(), locked.and_then(Result::err).map(|errno| failed(length, errno))))
    }

    /// Where they are, for a transfer by the kernel that outlasts a borrow.
    pub(crate) fn address(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

fn failed(bytes: usize, errno: Errno) -> KernelError {
    KernelError::new(Operation::LockMemory, format!("{bytes} bytes"), errno.raw_os_error())
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the part has this length and is initialised, by zeros or what was written.
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
        f.debug_struct("Pages").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// kB at an address that are locked.
    fn locked(at: *const u8) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let head = |line: &str| {
            let (from, rest) = line.split_once('-')?;
            let (to, _) = rest.split_once(' ')?;
            let of = |text| usize::from_str_radix(text, 16).ok();
            Some((of(from)?..of(to)?).contains(&(at as usize)))
        };
        let mapping = maps.lines().skip_while(|line| head(line) != Some(true));
        let line = mapping.skip(1).find_map(|line| line.strip_prefix("Locked:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn pages_are_whole_and_zero_and_apart() {
        let mut pages = Pages::new(5000).unwrap();
        assert_eq!((pages.len(), pages.as_ptr().align_offset(PAGE)), (8192, 0));
        assert!(pages.iter().all(|byte| *byte == 0));
        pages[8191] = 7;
        assert_eq!(Pages::new(0).unwrap().len(), PAGE);
        assert_eq!(Pages::parts(2, usize::MAX, true).unwrap_err().errno, libc::ENOMEM);
        assert!(Pages::parts(0, 10, false).unwrap().0.is_empty());

        let (mut parts, refused) = Pages::parts(3, 4097, true).unwrap();
        for (part, byte) in parts.iter_mut().zip(1..) {
            part.fill(byte);
        }
        assert!(
            parts.iter().zip(1..).all(|(part, byte)| part.len() == 8192 && part.iter().all(|b| *b == byte))
        );
        match refused {
            None => assert!(locked(parts[0].as_ptr()) >= 24),
            Some(error) => eprintln!("SKIPPED: {error}"),
        }
        // Each part holds all of them.
        let last = parts.pop().unwrap();
        drop(parts);
        assert!(last.iter().all(|byte| *byte == 3));
    }
}
