//! [`ReadAt`]: bytes at an offset, the only way this crate sees a file.
//!
//! The callers that may do I/O implement it for their files; here it is implemented for bytes in memory.

use std::io;

/// A source of bytes that can be read at any offset, so files larger than memory are read page by page.
pub trait ReadAt {
    /// Reads at most `buf.len()` bytes at `offset` and returns how many; 0 means the end. A short read is not the
    /// end: the reader asks again.
    ///
    /// # Errors
    /// What the medium reports.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// The length in bytes.
    fn len(&self) -> u64;

    /// Whether there is nothing in it.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or(&[]);
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.as_slice().read_at(offset, buf)
    }

    fn len(&self) -> u64 {
        Vec::len(self) as u64
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buf)
    }

    fn len(&self) -> u64 {
        (**self).len()
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Box<T> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buf)
    }

    fn len(&self) -> u64 {
        (**self).len()
    }
}

/// A part of a source, as a source of its own.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a, S: ?Sized> {
    source: &'a S,
    start: u64,
    length: u64,
}

impl<'a, S: ReadAt + ?Sized> Window<'a, S> {
    /// `length` bytes of `source` from `start` on, fewer where the source ends before.
    pub fn new(source: &'a S, start: u64, length: u64) -> Window<'a, S> {
        Window { source, start, length: length.min(source.len().saturating_sub(start)) }
    }
}

impl<S: ReadAt + ?Sized> ReadAt for Window<'_, S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = rest.min(buf.len());
        if count == 0 {
            return Ok(0);
        }
        self.source.read_at(self.start.saturating_add(offset), &mut buf[..count])
    }

    fn len(&self) -> u64 {
        self.length
    }
}

/// Fills `buf` from `offset` as far as the source reaches and returns how many bytes there were.
pub(crate) fn read_full<S: ReadAt + ?Sized>(source: &S, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match source.read_at(offset.saturating_add(filled as u64), &mut buf[filled..]) {
            Ok(0) => break,
            // A source that claims more than it was asked for is taken at the length it was given.
            Ok(count) => filled = (filled + count).min(buf.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time and fails with "interrupted" before each.
    struct Stutter {
        bytes: Vec<u8>,
        refused: std::cell::Cell<bool>,
    }

    impl ReadAt for Stutter {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            if !self.refused.replace(!self.refused.get()) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.bytes.read_at(offset, &mut buf[..1])
        }

        fn len(&self) -> u64 {
            self.bytes.len() as u64
        }
    }

    #[test]
    fn a_window_shows_its_part_and_no_more() {
        let bytes = vec![0, 1, 2, 3, 4, 5];
        let read = |start, length, offset| {
            let mut buf = [9; 4];
            let count = Window::new(&bytes, start, length).read_at(offset, &mut buf).unwrap();
            buf[..count].to_vec()
        };
        assert_eq!(read(1, 3, 0), [1, 2, 3]);
        assert_eq!(read(1, 3, 2), [3]);
        assert_eq!(read(4, 100, 0), [4, 5]);
        assert_eq!(read(4, 100, u64::MAX), [] as [u8; 0]);
        assert_eq!((Window::new(&bytes, 4, 100).len(), Window::new(&bytes, 100, 1).len()), (2, 0));
    }

    #[test]
    fn short_and_interrupted_reads_are_repeated_until_the_end() {
        let source = Stutter { bytes: vec![1, 2, 3, 4, 5], refused: false.into() };
        let mut buf = [0; 8];
        assert_eq!(read_full(&source, 2, &mut buf).unwrap(), 3);
        assert_eq!(&buf[..3], &[3, 4, 5]);
        assert_eq!(read_full(&source, u64::MAX, &mut buf).unwrap(), 0);
        assert!(!source.is_empty());
    }
}
