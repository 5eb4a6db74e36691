//! [`RawPages`] reads one CPU's ring buffer page by page; [`CpuStats`] says what the buffer lost.
//!
//! A page is a time stamp (u64), a commit word (`long`) and data; the commit word says how much of the page is
//! filled. A non-blocking `read` of `trace_pipe_raw` hands out a page that is only partly filled too, so nothing
//! is left behind once recording has stopped; bytes beyond the commit mean nothing.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use surety_units::CpuId;

use crate::error::{KernelError, Operation};

/// A reader of one CPU's ring buffer. Reading consumes.
#[derive(Debug)]
pub struct RawPages {
    file: File,
    cpu: CpuId,
    page_size: usize,
}

impl RawPages {
    pub(super) fn open(path: &Path, cpu: CpuId, page_size: usize) -> Result<RawPages, KernelError> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(|error| KernelError::from_io(Operation::Open, path.display().to_string(), &error))?;
        Ok(RawPages { file, cpu, page_size })
    }

    /// The CPU whose buffer this is.
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Bytes of a page: the least length of a buffer for [`RawPages::read_page`].
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// Takes the next page, whole, without waiting; `None` when nothing is there now.
    ///
    /// While recording goes on, reading at once hands out small pages and makes work for the CPU; let events
    /// gather between rounds of reading.
    ///
    /// # Panics
    /// When `buffer` is shorter than a page: a shorter read would split the page.
    pub fn read_page<'a>(&mut self, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, KernelError> {
        assert!(buffer.len() >= self.page_size, "a buffer of at least one page");
        let failed =
            |errno| KernelError::new(Operation::Read, format!("the trace buffer of CPU {}", self.cpu), errno);
        let page = &mut buffer[..self.page_size];
        loop {
            return match self.file.read(page) {
                Ok(0) => Ok(None),
                Ok(length) if length == self.page_size => Ok(Some(&buffer[..length])),
                Ok(_) => Err(failed(libc::EIO)),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => Ok(None),
                    Some(libc::EINTR) => continue,
                    errno => Err(failed(errno.unwrap_or(libc::EIO))),
                },
            };
        }
    }
}

impl AsFd for RawPages {
    /// For `poll`: readable when the buffer is as full as the instance's `buffer_percent`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// One CPU's `stats` file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CpuStats {
    /// Events in the buffer now.
    pub entries: u64,
    /// Events that newer ones overwrote.
    pub overrun: u64,
    /// Events lost because an interrupt filled the buffer while one was being written.
    pub commit_overrun: u64,
    /// Events not taken because the buffer was full.
    pub dropped: u64,
    /// Events read so far.
    pub read: u64,
}

impl CpuStats {
    /// Events that are in no reader's hands and never will be.
    pub fn lost(&self) -> u64 {
        self.overrun.saturating_add(self.commit_overrun).saturating_add(self.dropped)
    }

    /// Reads the file's text; `None` when a count is missing or no number.
    pub(super) fn parse(text: &str) -> Option<CpuStats> {
        let count = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line?.trim().parse().ok()
        };
        Some(CpuStats {
            entries: count("entries")?,
            overrun: count("overrun")?,
            commit_overrun: count("commit overrun")?,
            dropped: count("dropped events")?,
            read: count("read events")?,
        })
    }
}

/// A page's size by the text of `events/header_page`: where its data starts, plus how much there is.
pub(super) fn page_size_of_header(text: &str) -> Option<usize> {
    let line = text.lines().find(|line| line.contains("char data;"))?;
    let number = |key: &str| {
        line.split(';').find_map(|part| part.trim().strip_prefix(key)).and_then(|n| n.parse::<usize>().ok())
    };
    number("offset:")?.checked_add(number("size:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel_are_read() {
        let header = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                      \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                      \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(page_size_of_header(header), Some(4096));
        assert_eq!(page_size_of_header("nothing"), None);
        let stats = "entries: 7\noverrun: 1\ncommit overrun: 2\nbytes: 9\noldest event ts:  1.5\n\
                     now ts:  2.5\ndropped events: 4\nread events: 5\n";
        let parsed = CpuStats::parse(stats).unwrap();
        assert_eq!(parsed, CpuStats { entries: 7, overrun: 1, commit_overrun: 2, dropped: 4, read: 5 });
        assert_eq!(parsed.lost(), 7);
        assert_eq!(CpuStats::parse("entries: x"), None);
    }
}
