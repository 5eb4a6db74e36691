//! [`Writer`]: the program's end of a stream that is written.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, PoisonError};

use surety_kernel::clock;
use surety_kernel::pages::Pages;
use surety_kernel::ring::Action;
use surety_model::playout::Level;
use surety_units::{Nanos, Rate};

use crate::contract::Contract;
use crate::desk::{Desk, Served};
use crate::failure::{EIO, Failure, errno_of};
use crate::sink::Part;
use crate::stats::{Batch, Cause, Stats, UnderRun};
use crate::target::Target;

/// A stream that is written. What is given to it is in its buffer at once, and goes to the device in batches at its rate; a program that is faster than its contract, or
/// whose buffer is full, waits. Until it is finished the file may be longer than what was written: the room that was allocated for it reads as zeros. After [`Writer::finish`] all is on the medium; a writer that is dropped writes what it has, and errors are lost.
#[derive(Debug)]
pub struct Writer {
    served: Arc<Served>,
    number: usize,
    wake: Arc<Condvar>,
    target: Target,
    /// Bytes of a batch.
    batch: u64,
    /// The batch that is filled, and how far.
    current: Option<(Pages, usize)>,
    /// Where in the file that begins.
    offset: u64,
    position: u64,
    /// Most that was written of the file.
    end: u64,
    repeats: bool,
    is_beyond: bool,
    /// When the first byte was given, and bytes given since.
    begun: Option<Nanos>,
    given: u64,
    is_finished: bool,
}

impl Writer {
    pub(crate) fn new(
        (served, number, wake): (Arc<Served>, usize, Arc<Condvar>),
        target: Target,
        batch: u64,
        contract: &Contract,
    ) -> Writer {
        Writer {
            served,
            number,
            wake,
            target,
            batch,
            current: None,
            offset: 0,
            position: 0,
            end: 0,
            repeats: contract.repeats,
            is_beyond: false,
            begun: None,
            given: 0,
            is_finished: false,
        }
    }

    /// Bytes given to the stream so far; in a file that repeats, those of all rounds.
    pub fn position(&self) -> u64 {
        self.position
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

    /// Bytes of memory that batches are written from.
    pub fn buffer(&self) -> u64 {
        self.served.shared.desk().account(self.number).memory
    }

    /// What it failed with so far; a write that comes later fails with the same.
    ///
    /// # Errors
    /// Of the file.
    pub fn check(&self) -> io::Result<()> {
        fail_if_failed(&mut self.served.shared.desk(), self.number)
    }

    /// Another rate from now on, 1 B/s at least. Its buffer stays as large as it is.
    pub fn change_rate(&mut self, rate: Rate) {
        let shared = &self.served.shared;
        shared.desk().sink(self.number).change_rate(Rate(rate.0.max(1)), clock::monotonic());
        shared.bell.strike();
        (self.begun, self.given) = (None, 0);
    }

    /// Writes what is left, gives the file its length, and waits until all of it is on the medium.
    ///
    /// # Errors
    /// Of the file: of any batch that was not reported yet, of the rest, or of the sync.
    pub fn finish(mut self) -> io::Result<()> {
        self.end_file()?;
        self.target.sync()
    }

    /// Writes what is left and gives the file its length; after an error, that of what was written without a gap.
    fn end_file(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_finished, true) {
            return Ok(());
        }
        let settled = self.settle();
        let end = match settled {
            Ok(()) => self.end,
            Err(_) => self.served.shared.desk().sink(self.number).written,
        };
        settled.and(self.target.close(end))
    }

    /// Memory to fill: waits for a batch that is written.
    fn begin_batch(&mut self) -> io::Result<()> {
        let needed = clock::monotonic();
        let mut desk = self.served.shared.desk();
        loop {
            fail_if_failed(&mut desk, self.number)?;
            let sink = desk.sink(self.number);
            if let Some(pages) = sink.take() {
                if let (Some(owed), Some(freed)) = (sink.account.owed(self.begun, self.given), sink.last_done)
                {
                    sink.account.waited(needed.max(owed), &freed, clock::monotonic());
                }
                self.current = Some((pages, 0));
                return Ok(());
            }
            desk = self.wake.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Bytes that the current batch takes in all: to the end of a file that begins again there.
    fn room(&self) -> usize {
        let to_end = if self.repeats { self.target.length() - self.offset } else { u64::MAX };
        usize::try_from(self.batch.min(to_end)).unwrap_or(usize::MAX)
    }

    /// Hands so many bytes of the current batch over.
    fn send(&mut self, bytes: usize) {
        let Some((pages, _)) = self.current.take() else { return };
        let part = Part { offset: self.offset, bytes: bytes as u64 };
        self.offset += part.bytes;
        self.end = self.end.max(self.offset);
        if self.repeats && self.offset >= self.target.length() {
            self.offset = 0;
        }
        let shared = &self.served.shared;
        shared.desk().sink(self.number).push(pages, part, clock::monotonic());
        shared.bell.strike();
    }

    /// Room for the next batch where the file has none yet.
    fn make_room(&mut self) {
        let to = self.offset + self.batch;
        if self.repeats || to <= self.target.room() {
            return;
        }
        let (before, begun) = (self.target.room(), clock::monotonic());
        self.target.grow(to);
        let grown = clock::monotonic();
        let mut desk = self.served.shared.desk();
        let account = desk.account(self.number);
        if let Some(owed) = account.owed(self.begun, self.given).filter(|_| self.target.room() > before) {
            account.stats.waits.add_call(Cause::Metadata, begun.max(owed), grown);
        }
        account.caveats.append(&mut self.target.caveats);
        if before > 0 && !self.is_beyond {
            self.is_beyond = true;
            account.may_change_metadata();
            let why = format!("it is longer than {before} bytes, for which there was room at the beginning");
            account.unbounded.push(why);
        }
    }

    /// Everything given so far is written. What fills no unit of direct access goes through the page cache and stays here, to be written with what follows it.
    fn settle(&mut self) -> io::Result<()> {
        let unit = usize::try_from(self.target.alignment.unwrap_or(1)).unwrap_or(usize::MAX);
        let mut rest = Vec::new();
        if let Some((pages, filled)) = &self.current {
            let whole = filled / unit * unit;
            rest.extend_from_slice(&pages[whole..*filled]);
            if whole > 0 {
                self.send(whole);
            } else if let Some((pages, _)) = self.current.take() {
                self.served.shared.desk().sink(self.number).give_back(pages);
            }
        }
        let mut desk = self.served.shared.desk();
        loop {
            let failed = fail_if_failed(&mut desk, self.number);
            let sink = desk.sink(self.number);
            if failed.is_err() && sink.is_still() {
                return failed;
            }
            if failed.is_ok() && sink.settle() {
                break;
            }
            self.served.shared.bell.strike();
            desk = self.wake.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
        drop(desk);
        if !rest.is_empty() {
            if let Err(error) = self.target.write_rest(&rest, self.offset) {
                let (action, errno) = (Action::Write, errno_of(&error).unwrap_or(EIO));
                let failure = Failure::Transfer { action, offset: self.offset, errno };
                self.served.shared.desk().sink(self.number).fail(failure);
                return Err(error);
            }
            self.end = self.end.max(self.offset + rest.len() as u64);
            if !self.is_finished {
                self.begin_batch()?;
                if let Some((pages, filled)) = &mut self.current {
                    pages[..rest.len()].copy_from_slice(&rest);
                    *filled = rest.len();
                }
            }
        }
        Ok(())
    }
}

/// What a stream, or its station, failed with.
fn fail_if_failed(desk: &mut Desk, number: usize) -> io::Result<()> {
    if let Some(error) = desk.failure() {
        return Err(io::Error::other(error.to_string()));
    }
    let sink = desk.sink(number);
    sink.failure.map_or(Ok(()), |failure| Err(failure.of(&sink.account.path)))
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if self.current.is_none() {
            self.make_room();
            self.begin_batch()?;
        }
        let room = self.room();
        let Some((pages, filled)) = &mut self.current else { return Ok(0) };
        let taken = bytes.len().min(room - *filled);
        pages[*filled..*filled + taken].copy_from_slice(&bytes[..taken]);
        *filled += taken;
        let is_full = *filled == room;
        self.begun.get_or_insert_with(clock::monotonic);
        self.given += taken as u64;
        self.position += taken as u64;
        if is_full {
            self.send(room);
        }
        Ok(taken)
    }

    /// All that was given is on the medium afterwards.
    fn flush(&mut self) -> io::Result<()> {
        self.settle()?;
        self.target.sync()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Who panics waits for nobody.
        if std::thread::panicking() && !self.is_finished {
            let written = self.served.shared.desk().sink(self.number).written;
            let _ = self.target.close(written);
        } else {
            let _ = self.end_file();
        }
        let stream = self.served.shared.desk().detach(self.number);
        // Its memory goes when the desk is free again.
        drop(stream);
    }
}
