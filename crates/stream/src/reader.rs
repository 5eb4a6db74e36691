//! [`Reader`]: the program's end of a stream.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, PoisonError};

use surety_kernel::clock;
use surety_model::playout::Level;
use surety_units::{Nanos, Rate};

use crate::desk::Served;
use crate::stats::{Batch, Stats, UnderRun};
use crate::track::{Ready, Track};

/// A stream that is read. Reading waits for bytes that are not there yet, and for credit where the program is faster than its contract;
/// at the end of the file it gives nothing, and goes on when the file has grown. While it is paused and nothing is on its way it would block for ever,
/// which is an error (`WouldBlock`).
#[derive(Debug)]
pub struct Reader {
    served: Arc<Served>,
    number: usize,
    wake: Arc<Condvar>,
    /// The batch that is read from.
    current: Option<Ready>,
    position: u64,
    /// When the first byte since the opening or the last seek was taken, and bytes taken since.
    begun: Option<Nanos>,
    taken: u64,
    /// Bytes that the program goes over as soon as they are there.
    skipped: u64,
    is_called: Arc<AtomicBool>,
}

/// Calls a thread back that waits in a read of a [`Reader`].
#[derive(Clone, Debug)]
pub struct Caller {
    served: Arc<Served>,
    wake: Arc<Condvar>,
    is_called: Arc<AtomicBool>,
}

impl Caller {
    /// The read that waits, or the next one that would, fails with `ErrorKind::TimedOut` and has taken nothing.
    pub fn call(&self) {
        // With the desk: who looked before waits by now.
        let desk = self.served.shared.desk();
        self.is_called.store(true, Ordering::Relaxed);
        self.wake.notify_all();
        drop(desk);
    }
}

impl Reader {
    pub(crate) fn new(served: Arc<Served>, number: usize, wake: Arc<Condvar>) -> Reader {
        let is_called = Arc::default();
        Reader {
            served,
            number,
            wake,
            current: None,
            position: 0,
            begun: None,
            taken: 0,
            skipped: 0,
            is_called,
        }
    }

    /// What calls the thread back that waits in a read.
    pub fn caller(&self) -> Caller {
        let (served, wake) = (Arc::clone(&self.served), Arc::clone(&self.wake));
        Caller { served, wake, is_called: Arc::clone(&self.is_called) }
    }

    /// Bytes of the stream before the next one that is read; in a file that repeats, those of all rounds.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of the file now.
    ///
    /// # Errors
    /// As `fstat`.
    pub fn size(&self) -> io::Result<u64> {
        let file = Arc::clone(&self.served.shared.desk().track(self.number).source.file);
        Ok(file.metadata()?.len())
    }

    /// The byte of the file that is read next: as [`Reader::position`], but within a file that repeats.
    pub fn place(&self) -> u64 {
        let mut desk = self.served.shared.desk();
        let track = desk.track(self.number);
        match track.account.contract.repeats {
            true => self.position % track.source.size.max(1),
            false => self.position,
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        self.served.shared.desk().account(self.number).stats
    }

    /// The batches so far, of a contract that notes them; they are handed out once.
    pub fn take_batches(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.served.shared.desk().account(self.number).notes)
    }

    /// The batches that its program waited for, of a contract that notes them; they are handed out once.
    pub fn take_under_runs(&mut self) -> Vec<UnderRun> {
        std::mem::take(&mut self.served.shared.desk().account(self.number).under_runs)
    }

    /// What keeps it from a higher level, in words.
    pub fn caveats(&self) -> Vec<String> {
        self.served.shared.desk().level(self.number, &self.served.caveats, clock::monotonic()).1
    }

    /// How much of a guarantee it has now.
    pub fn level(&self) -> Level {
        self.served.shared.desk().level(self.number, &self.served.caveats, clock::monotonic()).0
    }

    /// How long the batch has been wanted that is wanted longest and is not there yet: room and credit for it, and the one before it, were there by then.
    pub fn waits(&self) -> Option<Nanos> {
        self.served.shared.desk().waits(self.number, clock::monotonic())
    }

    /// Bytes of memory that batches are fetched into.
    pub fn buffer(&self) -> u64 {
        self.served.shared.desk().account(self.number).memory
    }

    /// Goes on at a byte of the file; what was fetched ahead is thrown away.
    pub fn seek(&mut self, to: u64) {
        let current = self.current.take();
        self.change(|track, now| {
            current.into_iter().for_each(|current| track.give_back(current.pages, now));
            track.seek(to, now);
        });
        (self.position, self.skipped) = (to, 0);
    }

    /// Goes over bytes without taking them, and waits for none: those that are not there yet are gone over when they are.
    pub fn skip(&mut self, bytes: u64) {
        self.skipped += bytes;
        self.position += bytes;
        // First what nobody has asked for: going over what is there makes room for more of it.
        let here = self.current.as_ref().map_or(0, |current| (current.end - current.from) as u64);
        let behind = self.skipped.saturating_sub(here);
        if behind > 0 {
            self.skipped -= self.served.shared.desk().track(self.number).pass_over(behind);
            self.served.shared.bell.strike();
        }
        self.go_over();
    }

    /// Fetches no more until [`Reader::go_on`].
    pub fn pause(&mut self) {
        self.change(|track, _| track.is_paused = true);
    }

    /// Fetches again.
    pub fn go_on(&mut self) {
        self.change(|track, now| track.go_on(now));
    }

    /// Another rate from now on, 1 B/s at least. Its buffer stays as large as it is.
    pub fn change_rate(&mut self, rate: Rate) {
        self.change(|track, now| track.change_rate(Rate(rate.0.max(1)), now));
    }

    /// Changes the track; the station looks at it again, and the program begins anew to be owed bytes.
    fn change(&mut self, how: impl FnOnce(&mut Track, Nanos)) {
        let shared = &self.served.shared;
        how(shared.desk().track(self.number), clock::monotonic());
        shared.bell.strike();
        (self.begun, self.taken) = (None, 0);
    }

    /// Goes over what is to be gone over and is there.
    fn go_over(&mut self) {
        while self.skipped > 0 {
            if self.current.is_none() {
                self.current = self.served.shared.desk().track(self.number).take();
            }
            let bytes = usize::try_from(self.skipped).unwrap_or(usize::MAX);
            match self.consume(bytes) {
                0 => return,
                gone => self.skipped -= gone as u64,
            }
        }
    }

    /// Takes the next batch; false at the end of the file.
    fn turn(&mut self) -> io::Result<bool> {
        let needed = clock::monotonic();
        let shared = &self.served.shared;
        let mut desk = shared.desk();
        loop {
            if let Some(error) = desk.failure() {
                return Err(io::Error::other(error.to_string()));
            }
            let track = desk.track(self.number);
            if let Some(ready) = track.take() {
                if let Some(owed) = track.account.owed(self.begun, self.taken) {
                    track.account.waited(needed.max(owed), &ready.batch, clock::monotonic());
                }
                self.current = Some(ready);
                return Ok(true);
            }
            if let Some(mut grown) = track.grown() {
                drop(desk);
                grown.look_up();
                desk = shared.desk();
                let track = desk.track(self.number);
                let owed = track.account.owed(self.begun, self.taken);
                track.go_on_to(&grown, owed.map(|owed| owed.max(needed)), clock::monotonic());
                shared.bell.strike();
                continue;
            }
            match track.end(clock::monotonic()) {
                Some(Ok(())) => return Ok(false),
                Some(Err(failure)) => return Err(failure.of(&track.account.path)),
                None if track.is_at_rest() => return Err(io::ErrorKind::WouldBlock.into()),
                None if self.is_called.swap(false, Ordering::Relaxed) => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                None => {
                    // The file may have grown: the station has not seen that.
                    shared.bell.strike();
                    desk = self.wake.wait(desk).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// So many bytes of the current batch, or what is left of it, are done with.
    fn consume(&mut self, bytes: usize) -> usize {
        let Some(current) = &mut self.current else { return 0 };
        let consumed = bytes.min(current.end - current.from);
        current.from += consumed;
        self.begun.get_or_insert_with(clock::monotonic);
        self.taken += consumed as u64;
        if current.from == current.end
            && let Some(done) = self.current.take()
        {
            let shared = &self.served.shared;
            shared.desk().track(self.number).give_back(done.pages, clock::monotonic());
            shared.bell.strike();
        }
        consumed
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if self.current.is_none() && !self.turn()? {
                return Ok(0);
            }
            self.go_over();
            let Some(current) = &self.current else { continue };
            let bytes = into.len().min(current.end - current.from);
            into[..bytes].copy_from_slice(&current.pages[current.from..current.from + bytes]);
            self.position += bytes as u64;
            return Ok(self.consume(bytes));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let stream = self.served.shared.desk().detach(self.number);
        // Its memory goes when the desk is free again.
        drop(stream);
    }
}
