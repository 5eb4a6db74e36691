//! [`Segments`]: the pages of one CPU on disk, all of them or the last of them.
//!
//! A recording that keeps everything has one file a CPU. A flight recorder has two: pages go into the current one; when
//! that covers the window that is kept, the one before it is dropped and a new one begins. So what is on disk is at least
//! the window and at most twice that. The files have no name and are gone with the process, however it ends.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use surety_kernel::files::nameless_in;
use surety_kernel::tracefs::{RawPages, Splice};
use surety_kernel::{KernelError, Operation};
use surety_trace::page::Records;
use surety_trace::source::ReadAt;
use surety_trace::{Endian, PageLayout};
use surety_units::{CpuId, Nanos};

/// What the files hold, in the words of errors.
const PAGES: &str = "the pages of the recording";

/// One CPU's pages.
#[derive(Debug)]
pub(super) struct Segments {
    reader: RawPages,
    directory: Option<PathBuf>,
    previous: Option<Segment>,
    current: Segment,
}

/// A file of whole pages.
#[derive(Debug)]
struct Segment {
    file: File,
    bytes: u64,
}

/// What one round found in a CPU's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// Bytes carried.
    pub bytes: u64,
    /// Nothing is left of what was there.
    pub exhausted: bool,
}

impl Segment {
    /// A file without a name in `directory`, or where temporary files are.
    fn begin(directory: Option<&Path>) -> Result<Segment, KernelError> {
        let file = match directory {
            // Where the file system has no files without names, one is made and its name removed.
            Some(directory) => nameless_in(directory).or_else(|_| tempfile::tempfile_in(directory)),
            None => tempfile::tempfile(),
        };
        let file = file.map_err(|error| KernelError::from_io(Operation::Open, "a file for pages", &error))?;
        Ok(Segment { file, bytes: 0 })
    }
}

impl Segments {
    pub(super) fn begin(reader: RawPages, directory: Option<&Path>) -> Result<Segments, KernelError> {
        let current = Segment::begin(directory)?;
        Ok(Segments { reader, directory: directory.map(Path::to_owned), previous: None, current })
    }

    pub(super) fn cpu(&self) -> CpuId {
        self.reader.cpu()
    }

    /// Bytes in the file that grows.
    pub(super) fn current_bytes(&self) -> u64 {
        self.current.bytes
    }

    /// Begins a new file and drops the one before the current.
    pub(super) fn turn(&mut self) -> Result<(), KernelError> {
        let next = Segment::begin(self.directory.as_deref())?;
        self.previous = Some(std::mem::replace(&mut self.current, next));
        Ok(())
    }

    /// Carries full pages without looking at them, at most about `most` bytes. The page that is not full stays.
    pub(super) fn splice(&mut self, splice: &mut Splice, most: u64) -> Result<Round, KernelError> {
        let bytes = splice.carry(&self.reader, &self.current.file, most)?;
        self.current.bytes += bytes;
        Ok(Round { bytes, exhausted: bytes < most })
    }

    /// Carries all pages, the one that is not full too, at most about `most` bytes, and shows each to `look`.
    pub(super) fn read(
        &mut self,
        page: &mut [u8],
        most: u64,
        mut look: impl FnMut(&[u8]),
    ) -> Result<Round, KernelError> {
        let mut bytes = 0;
        while bytes < most {
            let Some(filled) = self.reader.read_page(page)? else {
                return Ok(Round { bytes, exhausted: true });
            };
            let written = self.current.file.write_all(filled);
            written.map_err(|error| KernelError::from_io(Operation::Write, PAGES, &error))?;
            look(filled);
            bytes += filled.len() as u64;
            self.current.bytes += filled.len() as u64;
        }
        Ok(Round { bytes, exhausted: false })
    }

    /// What is on disk; the reader is closed.
    pub(super) fn finish(self) -> (CpuId, PageFile) {
        let cpu = self.cpu();
        let segments = self.previous.into_iter().chain([self.current]);
        let parts = segments.map(|s| Part { file: s.file, start: 0, bytes: s.bytes });
        (cpu, PageFile { parts: parts.collect() })
    }
}

/// Pages in one file or in several, read as one.
#[derive(Debug)]
pub struct PageFile {
    parts: Vec<Part>,
}

/// A stretch of a file.
#[derive(Debug)]
struct Part {
    file: File,
    start: u64,
    bytes: u64,
}

impl PageFile {
    /// A file, as long as it is now.
    ///
    /// # Errors
    /// When its length cannot be told.
    pub fn new(file: File) -> io::Result<PageFile> {
        let bytes = file.metadata()?.len();
        Ok(PageFile { parts: vec![Part { file, start: 0, bytes }] })
    }

    /// Leaves out the pages from the beginning that hold nothing from `since` on.
    pub(super) fn keep_from(&mut self, since: Nanos, layout: PageLayout) -> io::Result<()> {
        let size = layout.page_size() as u64;
        let mut page = vec![0; layout.page_size()];
        // A page's first eight bytes are the time it begins; they ascend.
        let (mut before, mut after) = (0, self.len() / size);
        while before < after {
            let middle = before.midpoint(after);
            let mut begin = [0; 8];
            self.read_exact_at(middle * size, &mut begin)?;
            if u64::from_ne_bytes(begin) <= since.get_unsigned() {
                before = middle + 1
            } else {
                after = middle
            }
        }
        // The last page that begins before may reach into it.
        let mut dropped = before;
        if let Some(last) = before.checked_sub(1) {
            self.read_exact_at(last * size, &mut page)?;
            let end = Records::new(&page, layout, Endian::NATIVE).last().map(|record| record.time);
            if end.is_some_and(|end| end >= since.get_unsigned()) {
                dropped = last;
            }
        }
        let mut left = dropped * size;
        for part in &mut self.parts {
            let here = left.min(part.bytes);
            part.start += here;
            part.bytes -= here;
            left -= here;
        }
        Ok(())
    }

    fn read_exact_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(offset, buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => {
                    offset += count as u64;
                    buffer = &mut buffer[count..];
                }
            }
        }
        Ok(())
    }
}

impl ReadAt for PageFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut before = 0;
        for part in &self.parts {
            if let Some(rest) = (before + part.bytes).checked_sub(offset).filter(|rest| *rest > 0) {
                let count = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len());
                return part.file.read_at(&mut buffer[..count], part.start + (offset - before));
            }
            before += part.bytes;
        }
        Ok(0)
    }

    fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 64;

    /// A page with records of 4 bytes at these times.
    fn page(times: &[u64]) -> Vec<u8> {
        let mut bytes = times[0].to_ne_bytes().to_vec();
        bytes.extend((8 * times.len() as u64).to_ne_bytes());
        let mut before = times[0];
        for time in times {
            let delta = (time - before) as u32;
            let word = if cfg!(target_endian = "little") { 1 | delta << 5 } else { 1 << 27 | delta };
            bytes.extend(word.to_ne_bytes());
            bytes.extend([7; 4]);
            before = *time;
        }
        bytes.resize(SIZE, 0);
        bytes
    }

    fn file(parts: &[Vec<Vec<u8>>]) -> PageFile {
        let part = |pages: &Vec<Vec<u8>>| {
            let mut file = tempfile::tempfile().unwrap();
            let bytes = pages.concat();
            file.write_all(&bytes).unwrap();
            Part { file, start: 0, bytes: bytes.len() as u64 }
        };
        PageFile { parts: parts.iter().map(part).collect() }
    }

    /// When the pages that are left begin.
    fn begins(file: &PageFile) -> Vec<u64> {
        let mut begins = Vec::new();
        let mut page = [0; SIZE];
        for offset in (0..file.len()).step_by(SIZE) {
            file.read_exact_at(offset, &mut page).unwrap();
            begins.push(u64::from_ne_bytes(page[..8].try_into().unwrap()));
        }
        begins
    }

    #[test]
    fn pages_before_the_window_are_left_out_across_files() {
        let layout = PageLayout::new(8, 8, 16, SIZE).unwrap();
        for (since, expected) in [
            (0, &[10, 20, 30, 40][..]),
            (10, &[10, 20, 30, 40]),
            (15, &[10, 20, 30, 40]),
            (16, &[20, 30, 40]),
            (30, &[30, 40]),
            (36, &[40]),
            (45, &[40]),
            (46, &[]),
            (u64::MAX >> 1, &[]),
        ] {
            let mut file = file(&[
                vec![page(&[10, 15]), page(&[20, 25])],
                vec![],
                vec![page(&[30, 35]), page(&[40, 45])],
            ]);
            file.keep_from(Nanos::new(since as i64), layout).unwrap();
            assert_eq!(begins(&file), expected, "{since}");
        }
        let mut nothing = file(&[]);
        nothing.keep_from(Nanos::new(5), layout).unwrap();
        assert!(nothing.is_empty());
    }
}
