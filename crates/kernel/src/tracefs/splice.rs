//! [`Splice`]: whole pages from a CPU's ring buffer into a file without a way through this program's memory.
//!
//! `splice(2)` moves the buffer's pages into a pipe and from there into the file (`tracing_buffers_splice_read` of
//! `kernel/trace/trace.c`). It hands out full pages only; what is in a page not yet full is read by
//! [`RawPages::read_page`]. Not every file takes pages from a pipe: where one refuses, what is in the pipe already is
//! written the ordinary way, and the caller reads from then on.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with};

use super::raw::RawPages;
use crate::error::{KernelError, Operation};

/// Pages the pipe holds; a pipe has 16 places unless it is told otherwise.
const PAGES: usize = 64;

/// A pipe that pages go through. One serves all CPUs, one after the other.
#[derive(Debug)]
pub struct Splice {
    read: File,
    write: OwnedFd,
    works: bool,
}

impl Splice {
    /// A pipe for pages of `page_size` bytes.
    ///
    /// # Errors
    /// EMFILE when this process may not open more files.
    pub fn new(page_size: usize) -> Result<Splice, KernelError> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|e| KernelError::new(Operation::Open, "a pipe", e.raw_os_error()))?;
        // A user's limit on pipes may refuse it: then the pipe stays small, and pages take more calls.
        let _ = fcntl_setpipe_size(&write, PAGES * page_size);
        Ok(Splice { read: File::from(read), write, works: true })
    }

    /// Whether nothing has refused yet.
    pub fn works(&self) -> bool {
        self.works
    }

    /// Moves the full pages that are there now, at most `most` bytes but a pipe's worth more, to where `file` stands,
    /// and returns how many bytes that were. Does not wait. After a refusal ([`Splice::works`]) it moves none.
    ///
    /// # Errors
    /// What the file reports, ENOSPC for instance: pages in the pipe are lost then.
    pub fn carry(&mut self, pages: &RawPages, file: &File, most: u64) -> Result<u64, KernelError> {
        let mut carried = 0;
        while self.works && carried < most {
            let asked = PAGES * pages.page_size();
            let count = match splice(pages, &self.write, asked) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(Errno::INVAL | Errno::NOSYS) => {
                    self.works = false;
                    break;
                }
                Err(errno) => {
                    let object = format!("the trace buffer of CPU {}", pages.cpu());
                    return Err(KernelError::new(Operation::Read, object, errno.raw_os_error()));
                }
            };
            self.deliver(count, file)?;
            carried += count as u64;
        }
        Ok(carried)
    }

    /// Empties the pipe of `count` bytes into the file.
    fn deliver(&mut self, count: usize, mut file: &File) -> Result<(), KernelError> {
        let failed = |errno| KernelError::new(Operation::Write, "the pages of the recording", errno);
        let mut left = count;
        while left > 0 {
            match splice(&self.read, file, left) {
                Ok(0) => return Err(failed(libc::EIO)),
                Ok(moved) => left -= moved.min(left),
                Err(Errno::INTR) => {}
                Err(Errno::INVAL | Errno::NOSYS) => {
                    self.works = false;
                    let mut rest = vec![0; left];
                    let written = self.read.read_exact(&mut rest).and_then(|()| file.write_all(&rest));
                    return written.map_err(|e| {
                        KernelError::from_io(Operation::Write, "the pages of the recording", &e)
                    });
                }
                Err(errno) => return Err(failed(errno.raw_os_error())),
            }
        }
        Ok(())
    }
}

/// One `splice(2)` from where `from` stands to where `to` stands, or the errno.
fn splice(from: impl AsFd, to: impl AsFd, length: usize) -> Result<usize, Errno> {
    rustix::pipe::splice(from, None, to, None, length, SpliceFlags::NONBLOCK)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;
    use crate::tracefs::Tracefs;
    use surety_units::{Bytes, CpuId};

    /// An instance whose buffers hold `marks` marks of 100 bytes, or a loud reason why not.
    fn marked(label: &str, marks: usize) -> Option<crate::tracefs::TraceInstance> {
        let name = format!("surety-test-{}-{label}", std::process::id());
        let instance = match Tracefs::open().and_then(|tracefs| tracefs.create_instance(&name)) {
            Ok(instance) => instance,
            Err(error) if error.is_refused() => {
                eprintln!("SKIPPED: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        instance.set_buffer_size(Bytes(1 << 20)).unwrap();
        instance.set_recording(true).unwrap();
        let marker = instance.marker().unwrap();
        (0..marks).for_each(|_| marker.mark(&[b'x'; 100]).unwrap());
        instance.set_recording(false).unwrap();
        Some(instance)
    }

    fn cpus() -> Vec<CpuId> {
        crate::sched::read_affinity(surety_units::Tid(0)).unwrap().iter().collect()
    }

    /// Marks found in bytes.
    fn count(bytes: &[u8]) -> usize {
        bytes.windows(100).filter(|w| w.iter().all(|b| *b == b'x')).count()
    }

    #[test]
    fn full_pages_go_by_splice_and_the_rest_is_read() {
        let Some(instance) = marked("splice", 1_000) else { return };
        let page_size = instance.page_size().unwrap();
        let mut splice = Splice::new(page_size).unwrap();
        let (mut spliced, mut found) = (0, 0);
        for cpu in cpus() {
            let mut file = tempfile::tempfile().unwrap();
            let mut pages = instance.raw_pages(cpu).unwrap();
            let carried = splice.carry(&pages, &file, u64::MAX).unwrap();
            assert_eq!(carried % page_size as u64, 0);
            spliced += carried;
            let mut page = vec![0; page_size];
            let mut rest = 0;
            while let Some(bytes) = pages.read_page(&mut page).unwrap() {
                file.write_all(bytes).unwrap();
                rest += bytes.len();
            }
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.len() as u64, carried + rest as u64);
            found += count(&bytes);
            if splice.works() {
                assert!(rest <= page_size, "only the page not full is left: {rest}");
            }
        }
        assert!(spliced > 0 || !splice.works());
        assert_eq!(found, 1_000);
    }

    #[test]
    fn a_file_that_refuses_gets_what_is_in_the_pipe_already() {
        let Some(instance) = marked("refuse", 1_000) else { return };
        let mut splice = Splice::new(instance.page_size().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("appended");
        // The kernel refuses to splice into a file opened for appending.
        let file = std::fs::OpenOptions::new().create(true).append(true).custom_flags(0).open(&path).unwrap();
        let carried: Vec<u64> = cpus()
            .into_iter()
            .map(|cpu| splice.carry(&instance.raw_pages(cpu).unwrap(), &file, u64::MAX).unwrap())
            .collect();
        assert!(!splice.works());
        let total: u64 = carried.iter().sum();
        assert!(total > 0 && carried.iter().filter(|c| **c > 0).count() == 1, "{carried:?}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), total);
        assert!(count(&std::fs::read(&path).unwrap()) > 0);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let Some(instance) = marked("enospc", 1_000) else { return };
        let mut splice = Splice::new(instance.page_size().unwrap()).unwrap();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let failed = cpus()
            .into_iter()
            .find_map(|cpu| splice.carry(&instance.raw_pages(cpu).unwrap(), &full, u64::MAX).err());
        assert_eq!(failed.map(|e| e.errno), Some(libc::ENOSPC));
    }
}
