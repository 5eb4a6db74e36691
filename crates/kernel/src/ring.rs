//! [`Ring`]: transfers between files and memory that the kernel carries out while the caller goes on (io_uring), and a bell that
//! wakes whoever waits for them.
//!
//! A transfer takes its memory with it and brings it back when it is complete, so nobody can look at bytes that the device is
//! writing. The I/O priority of a transfer is that of the thread that asks for it.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use surety_units::Nanos;

use crate::clock::{self, timespec};
use crate::error::{KernelError, Operation};
use crate::pages::Pages;

/// Marks the completion of the poll of the bell, which is no transfer.
const BELL: u64 = u64::MAX;
/// How long a ring that is dropped waits for its transfers before it leaves them and their memory to the kernel.
const LAST_WAIT: Nanos = Nanos::from_secs(2);
/// How long a wait ends late where the kernel cannot take what is asked.
const NO_ROOM: Nanos = Nanos::from_millis(1);

/// Wakes a thread that waits for transfers, from any thread.
#[derive(Clone, Debug)]
pub struct Bell(Arc<OwnedFd>);

impl Bell {
    /// A bell that does not ring.
    ///
    /// # Errors
    /// EMFILE, ENFILE.
    pub fn new() -> Result<Bell, KernelError> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        made.map(|fd| Bell(Arc::new(fd))).map_err(|errno| refused(errno.into()))
    }

    /// Rings: who waits is woken, who waits next does not wait.
    pub fn strike(&self) {
        // It cannot fail but by a counter that is full, and then the bell rings already.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Whether it rang; it rings no more.
    pub fn silence(&self) -> bool {
        rustix::io::read(&*self.0, &mut [0_u8; 8]).is_ok()
    }

    /// Waits until it rings, no longer than this (`None`: for ever); a signal ends it early. It rings no more after.
    pub fn wait(&self, within: Option<Nanos>) {
        let within = within.map(timespec);
        let _ = poll(&mut [PollFd::new(&*self.0, PollFlags::IN)], within.as_ref());
        self.silence();
    }
}

/// What a transfer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// From the file into the memory.
    Read,
    /// From the memory into the file.
    Write,
    /// Nothing of its own: it is complete when all that was complete before it is on the medium (`fdatasync`). Its place, length and memory do not count.
    Sync,
}

/// A transfer that is asked for: where in which file, and the memory it takes along.
#[derive(Debug)]
pub struct Transfer {
    /// Names it in its completion.
    pub tag: u64,
    pub file: Arc<File>,
    pub action: Action,
    pub offset: u64,
    /// Bytes of the memory's beginning.
    pub length: usize,
    pub pages: Pages,
}

/// A transfer that is complete, and the bytes it moved or the kernel's error number.
#[derive(Debug)]
pub struct Completed {
    pub transfer: Transfer,
    pub result: Result<usize, i32>,
}

/// Transfers under way.
pub struct Ring {
    ring: IoUring,
    bell: Bell,
    /// By their number in the ring. Memory in here belongs to the kernel.
    under_way: Vec<Option<Transfer>>,
    free: Vec<usize>,
    is_bell_polled: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("under_way", &self.len()).finish_non_exhaustive()
    }
}

fn refused(error: io::Error) -> KernelError {
    KernelError::from_io(Operation::Open, "a ring for transfers (io_uring)", &error)
}

impl Ring {
    /// For so many transfers at a time; the bell ends a wait.
    ///
    /// # Errors
    /// ENOSYS on a kernel before 5.1 or without it; EPERM where `kernel.io_uring_disabled` or a filter of system calls forbids
    /// it; EOPNOTSUPP before 5.11, which cannot end a wait at a time.
    pub fn new(depth: u32, bell: Bell) -> Result<Ring, KernelError> {
        // One entry more, for the poll of the bell.
        let ring = IoUring::new(depth.saturating_add(1)).map_err(refused)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(refused(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
        }
        let depth = depth as usize;
        let under_way = std::iter::repeat_with(|| None).take(depth).collect();
        Ok(Ring { ring, bell, under_way, free: (0..depth).rev().collect(), is_bell_polled: false })
    }

    /// Transfers under way.
    pub fn len(&self) -> usize {
        self.under_way.len() - self.free.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands a transfer to the kernel.
    ///
    /// # Errors
    /// The transfer comes back with EAGAIN when as many are under way as the ring is for, EINVAL when it is longer than its memory.
    pub fn submit(&mut self, mut transfer: Transfer) -> Result<(), (Transfer, KernelError)> {
        let failed = |errno| KernelError::new(Operation::Read, "a transfer", errno);
        if transfer.length > transfer.pages.len() {
            return Err((transfer, failed(libc::EINVAL)));
        }
        let Some(number) = self.free.pop() else { return Err((transfer, failed(libc::EAGAIN))) };
        let length = u32::try_from(transfer.length).unwrap_or(u32::MAX);
        let (fd, address) = (Fd(transfer.file.as_raw_fd()), transfer.pages.address());
        let entry = match transfer.action {
            Action::Read => opcode::Read::new(fd, address, length).offset(transfer.offset).build(),
            Action::Write => opcode::Write::new(fd, address, length).offset(transfer.offset).build(),
            Action::Sync => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        };
        self.under_way[number] = Some(transfer);
        // SAFETY: the file and the memory are in `under_way` until the kernel says that the transfer is complete: nobody has a
        // reference to them, and they are neither dropped nor moved (the mapping does not move with its value).
        let pushed = unsafe { self.push(&entry.user_data(number as u64)) };
        match pushed {
            Ok(()) => Ok(()),
            Err(error) => {
                // Taken by nobody: an entry that is in the queue is taken by a later call at the latest.
                let transfer = self.under_way[number].take().expect("put there above");
                self.free.push(number);
                Err((transfer, KernelError::from_io(Operation::Read, "a transfer", &error)))
            }
        }
    }

    /// Puts an entry into the queue and tells the kernel.
    ///
    /// # Errors
    /// What the kernel answers; the entry is not in the queue then.
    ///
    /// # Safety
    /// What the entry names must live until its completion.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: by the caller's promise.
        if unsafe { self.ring.submission().push(entry) }.is_err() {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        // Refused for now (EAGAIN, EBUSY, EINTR), the entry stays in the queue and goes with the next call, which each wait makes.
        let _ = self.ring.submit();
        Ok(())
    }

    /// The next transfer that is complete; `None` when the bell rang, after this time (`None`: any), or after a signal.
    ///
    /// # Errors
    /// As `io_uring_enter`, but for what a later call mends.
    pub fn wait(&mut self, within: Option<Nanos>) -> Result<Option<Completed>, KernelError> {
        if let Some(done) = self.take() {
            return Ok(Some(done));
        }
        if self.bell.silence() {
            return Ok(None);
        }
        if !self.is_bell_polled {
            let entry = opcode::PollAdd::new(Fd(self.bell.0.as_raw_fd()), libc::POLLIN as u32).build();
            // SAFETY: the bell's descriptor lives as long as the ring.
            self.is_bell_polled = unsafe { self.push(&entry.user_data(BELL)) }.is_ok();
        }
        let time = within.map(|time| {
            let time = timespec(time.max(Nanos::ZERO));
            Timespec::new().sec(time.tv_sec.unsigned_abs()).nsec(u32::try_from(time.tv_nsec).unwrap_or(0))
        });
        let args = match &time {
            Some(time) => SubmitArgs::new().timespec(time),
            None => SubmitArgs::new(),
        };
        match self.ring.submitter().submit_with_args(1, &args) {
            Ok(_) => {}
            // The kernel has no room for now: not at once again.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {
                let _ = clock::sleep_for(NO_ROOM);
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {}
            Err(error) => return Err(KernelError::from_io(Operation::Wait, "transfers", &error)),
        }
        let done = self.take();
        if done.is_none() {
            self.bell.silence();
        }
        Ok(done)
    }

    /// A transfer whose completion is there.
    fn take(&mut self) -> Option<Completed> {
        loop {
            let entry = self.ring.completion().next()?;
            if entry.user_data() == BELL {
                // Not silenced here: a strike since then is heard by the next look.
                self.is_bell_polled = false;
                continue;
            }
            let number = usize::try_from(entry.user_data()).unwrap_or(usize::MAX);
            let Some(transfer) = self.under_way.get_mut(number).and_then(Option::take) else { continue };
            self.free.push(number);
            let result = usize::try_from(entry.result()).map_err(|_| -entry.result());
            return Some(Completed { transfer, result });
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let until = clock::monotonic() + LAST_WAIT;
        while !self.is_empty() && clock::monotonic() < until {
            if self.wait(Some(until - clock::monotonic())).is_err() {
                break;
            }
        }
        // A device that does not answer may write later: what it would write to stays mapped for ever.
        self.under_way.drain(..).flatten().for_each(mem::forget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::thread;

    fn ring(depth: u32) -> Option<(Ring, Bell)> {
        let bell = Bell::new().unwrap();
        match Ring::new(depth, bell.clone()) {
            Ok(ring) => Some((ring, bell)),
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                None
            }
        }
    }

    fn read(file: &Arc<File>, tag: u64, offset: u64, length: usize) -> Transfer {
        let pages = Pages::new(length).unwrap();
        Transfer { tag, file: Arc::clone(file), action: Action::Read, offset, length, pages }
    }

    fn numbered() -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..64_u8).flat_map(|page| [page; 4096]).collect();
        file.write_all(&bytes).unwrap();
        Arc::new(file)
    }

    #[test]
    fn transfers_bring_their_memory_back_with_what_was_read() {
        let Some((mut ring, _bell)) = ring(4) else { return };
        let file = numbered();
        for tag in 0..4 {
            ring.submit(read(&file, tag, tag * 8192, 8192)).unwrap();
        }
        let (back, error) = ring.submit(read(&file, 9, 0, 4096)).unwrap_err();
        assert_eq!((back.tag, error.errno, ring.len()), (9, libc::EAGAIN, 4));
        let mut tags = Vec::new();
        while !ring.is_empty() {
            let done = ring.wait(Some(Nanos::from_secs(5))).unwrap().unwrap();
            let tag = done.transfer.tag;
            assert_eq!(done.result, Ok(8192));
            assert!(done.transfer.pages[..4096].iter().all(|b| u64::from(*b) == 2 * tag));
            assert!(done.transfer.pages[4096..].iter().all(|b| u64::from(*b) == 2 * tag + 1));
            tags.push(tag);
        }
        tags.sort_unstable();
        assert_eq!(tags, [0, 1, 2, 3]);
    }

    #[test]
    fn what_is_written_is_in_the_file_and_errors_come_back() {
        let Some((mut ring, _bell)) = ring(2) else { return };
        let file = numbered();
        let mut transfer = read(&file, 1, 4096, 4096);
        transfer.action = Action::Write;
        transfer.pages.fill(200);
        ring.submit(transfer).unwrap();
        assert_eq!(ring.wait(Some(Nanos::from_secs(5))).unwrap().unwrap().result, Ok(4096));
        ring.submit(read(&file, 2, 4096, 4096)).unwrap();
        let done = ring.wait(Some(Nanos::from_secs(5))).unwrap().unwrap();
        assert!(done.transfer.pages.iter().all(|b| *b == 200));
        // At the end of a file nothing comes; of a directory nothing can be read.
        ring.submit(read(&file, 3, 64 * 4096, 4096)).unwrap();
        assert_eq!(ring.wait(Some(Nanos::from_secs(5))).unwrap().unwrap().result, Ok(0));
        let directory = Arc::new(File::open("/").unwrap());
        ring.submit(read(&directory, 4, 0, 4096)).unwrap();
        let done = ring.wait(Some(Nanos::from_secs(5))).unwrap().unwrap();
        assert_eq!(done.result, Err(libc::EISDIR));
        let mut sync = read(&file, 6, 0, 4096);
        sync.action = Action::Sync;
        ring.submit(sync).unwrap();
        assert_eq!(ring.wait(Some(Nanos::from_secs(30))).unwrap().unwrap().result, Ok(0));
        let mut long = read(&file, 5, 0, 4096);
        long.length = 4097;
        assert_eq!(ring.submit(long).unwrap_err().1.errno, libc::EINVAL);
    }

    #[test]
    fn the_bell_ends_a_wait_whenever_it_is_struck() {
        let Some((mut ring, bell)) = ring(2) else { return };
        for _ in 0..100 {
            let other = bell.clone();
            let striker = thread::spawn(move || other.strike());
            assert!(ring.wait(None).unwrap().is_none());
            striker.join().unwrap();
        }
        // Struck before, and while a poll of an earlier wait is armed: nobody waits, each time.
        for _ in 0..100 {
            assert!(ring.wait(Some(Nanos::from_micros(50))).unwrap().is_none());
            bell.strike();
            thread::sleep(std::time::Duration::from_micros(100));
            let before = clock::monotonic();
            assert!(ring.wait(Some(Nanos::from_secs(30))).unwrap().is_none());
            assert!(clock::monotonic() - before < Nanos::from_secs(20));
        }
        while bell.silence() {}
        let before = clock::monotonic();
        assert!(ring.wait(Some(Nanos::from_millis(5))).unwrap().is_none());
        assert!(clock::monotonic() - before >= Nanos::from_millis(5));
        bell.wait(Some(Nanos::from_millis(1)));
        bell.strike();
        bell.wait(None);
        assert!(!bell.silence());
    }

    /// An end of a pipe that nobody writes to: the transfer does not end by itself.
    #[test]
    fn a_ring_that_is_dropped_leaves_what_does_not_end() {
        let Some((mut ring, _bell)) = ring(2) else { return };
        let (reader, _writer) = std::io::pipe().unwrap();
        let file = Arc::new(File::from(OwnedFd::from(reader)));
        ring.submit(read(&file, 1, 0, 4096)).unwrap();
        let before = clock::monotonic();
        drop(ring);
        assert!(clock::monotonic() - before >= LAST_WAIT);
    }
}
