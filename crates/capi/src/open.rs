//! [`Open`]: an open stream, used by one thread at a time as a file of stdio is.

use std::ffi::{CStr, OsStr};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use surety_kernel::files::open_to_write;
use surety_stream::{Level, Mode as BatchMode, Reader, Station, StreamError, Writer};
use surety_units::Rate;

use crate::abi::{Contract, Stats};
use crate::failure::Failure;
use crate::stations;

/// An open stream; none in it: it was closed while another thread waited for it.
pub(crate) struct Open(Mutex<Option<Ends>>);

/// The stream, and how its last transfer went. The station goes after it.
struct Ends {
    end: End,
    is_at_end: bool,
    has_failed: bool,
    station: Arc<Station>,
}

/// The program's end of a stream.
enum End {
    Reader(Reader),
    Writer(Writer),
}

/// What a stream is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Write,
    WriteOver,
}

/// From where a place in a file is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whence {
    Begin,
    Current,
    End,
}

impl Whence {
    /// Of SEEK_SET, SEEK_CUR, SEEK_END.
    ///
    /// # Errors
    /// EINVAL for anything else.
    pub(crate) fn of(number: i32) -> Result<Whence, Failure> {
        match number {
            libc::SEEK_SET => Ok(Whence::Begin),
            libc::SEEK_CUR => Ok(Whence::Current),
            libc::SEEK_END => Ok(Whence::End),
            _ => Err(Failure::invalid(format!("whence is {number}; it is SEEK_SET, SEEK_CUR or SEEK_END"))),
        }
    }
}

/// The words of a level, as `surety_level` numbers them.
pub(crate) const LEVELS: [(Level, &CStr); 4] = [
    (Level::Observed, c"observed"),
    (Level::Scheduled, c"scheduled"),
    (Level::Admitted, c"admitted"),
    (Level::Verified, c"verified"),
];

/// What `surety_set_mode` takes, by number.
const MODES: [BatchMode; 2] = [BatchMode::Steady, BatchMode::Longest];

impl Open {
    /// Opens a file to read, to write anew, or to write over.
    ///
    /// # Errors
    /// Those of the file and of the contract.
    pub(crate) fn file(path: &CStr, mode: &CStr, contract: &Contract) -> Result<Open, Failure> {
        let contract = contract.promised()?;
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let (mode, is_new) = match mode.to_bytes() {
            b"r" | b"rb" => (Mode::Read, false),
            b"w" | b"wb" => (Mode::Write, true),
            b"r+" | b"rb+" | b"r+b" => (Mode::WriteOver, false),
            _ => {
                let words = format!("there is no mode `{}`", mode.to_string_lossy());
                return Err(Failure::invalid(words + "; \"r\" reads, \"w\" writes anew, \"r+\" writes over"));
            }
        };
        if mode != Mode::Read && contract.is_paused {
            return Err(Failure::invalid("SURETY_PAUSED is for streams that are read"));
        }
        let station = stations::of(path, is_new)?;
        let end = match mode {
            Mode::Read => End::Reader(station.open(path, &contract)?),
            Mode::Write => End::Writer(station.create(path, &contract)?),
            Mode::WriteOver => {
                let failed = |error| StreamError::File { path: path.to_owned(), error };
                let file = open_to_write(path, false).map_err(failed)?;
                End::Writer(station.write_over(&file, path, &contract)?)
            }
        };
        let ends = Ends { end, is_at_end: false, has_failed: false, station };
        Ok(Open(Mutex::new(Some(ends))))
    }

    /// Does something with the stream.
    fn with<T>(&self, act: impl FnOnce(&mut Ends) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(ends.as_mut().ok_or_else(closed)?)
    }

    /// Ends it, after what another thread is doing with it. What was written is on the medium then.
    ///
    /// # Errors
    /// EBADF; of what was written.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Ends { end, station: _station, .. } = ends.ok_or_else(closed)?;
        match end {
            End::Reader(reader) => drop(reader),
            End::Writer(writer) => writer.finish()?,
        }
        Ok(())
    }

    /// Fills memory with what comes next: how much of it, and why not all of it where that is not the file's end.
    ///
    /// # Errors
    /// EBADF.
    pub(crate) fn read(&self, into: &mut [u8]) -> Result<(usize, Option<Failure>), Failure> {
        self.with(|ends| {
            let mut filled = 0;
            let End::Reader(reader) = &mut ends.end else { return Err(written()) };
            (ends.is_at_end, ends.has_failed) = (false, false);
            while filled < into.len() {
                match reader.read(&mut into[filled..]) {
                    Ok(0) => {
                        ends.is_at_end = true;
                        break;
                    }
                    Ok(bytes) => filled += bytes,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        ends.has_failed = true;
                        return Ok((filled, Some(error.into())));
                    }
                }
            }
            Ok((filled, None))
        })
    }

    /// Gives bytes to the stream: how many, and why not all of them.
    ///
    /// # Errors
    /// EBADF.
    pub(crate) fn write(&self, from: &[u8]) -> Result<(usize, Option<Failure>), Failure> {
        self.with(|ends| {
            let mut given = 0;
            let End::Writer(writer) = &mut ends.end else { return Err(read()) };
            ends.has_failed = false;
            while given < from.len() {
                match writer.write(&from[given..]) {
                    Ok(bytes) if bytes > 0 => given += bytes,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    failed => {
                        ends.has_failed = true;
                        let error = failed.err().unwrap_or(io::ErrorKind::WriteZero.into());
                        return Ok((given, Some(error.into())));
                    }
                }
            }
            Ok((given, None))
        })
    }

    /// Waits until all that was written is on the medium.
    ///
    /// # Errors
    /// EBADF; of what was written.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.with(|ends| {
            let End::Writer(writer) = &mut ends.end else { return Err(read()) };
            let flushed = writer.flush();
            ends.has_failed = flushed.is_err();
            Ok(flushed?)
        })
    }

    /// Whether the last read ended at the end of the file.
    pub(crate) fn is_at_end(&self) -> Result<bool, Failure> {
        self.with(|ends| Ok(ends.is_at_end))
    }

    /// Whether the last read or write failed.
    pub(crate) fn has_failed(&self) -> Result<bool, Failure> {
        self.with(|ends| Ok(ends.has_failed))
    }

    /// Moves the play-out point forward and says where it is.
    ///
    /// # Errors
    /// EINVAL backward; EBADF anywhere else in what is written; EOVERFLOW.
    pub(crate) fn position(&self, offset: i64, whence: Whence) -> Result<i64, Failure> {
        self.with(|ends| {
            let from = ends.position();
            let to =
                if (offset, whence) == (0, Whence::Current) { from } else { ends.place(offset, whence)? };
            if to < from {
                let words =
                    format!("the play-out point is at byte {from} and goes forward only, not to {to}");
                return Err(Failure::invalid(words + "; surety_seek goes back"));
            }
            if let End::Reader(reader) = &mut ends.end {
                reader.skip(to - from);
            }
            i64::try_from(to).map_err(|_| no_place(to.into()))
        })
    }

    /// Goes on at another place; what was fetched ahead is thrown away.
    ///
    /// # Errors
    /// EINVAL before the beginning; EBADF in what is written; EOVERFLOW.
    pub(crate) fn seek(&self, offset: i64, whence: Whence) -> Result<(), Failure> {
        self.with(|ends| {
            let to = ends.place(offset, whence)?;
            (ends.is_at_end, ends.has_failed) = (false, false);
            ends.reader()?.seek(to);
            Ok(())
        })
    }

    /// Fetches no more.
    ///
    /// # Errors
    /// EBADF of what is written.
    pub(crate) fn pause(&self) -> Result<(), Failure> {
        self.with(|ends| {
            ends.reader()?.pause();
            Ok(())
        })
    }

    /// Fetches again.
    ///
    /// # Errors
    /// EBADF of what is written.
    pub(crate) fn resume(&self) -> Result<(), Failure> {
        self.with(|ends| {
            ends.reader()?.go_on();
            Ok(())
        })
    }

    /// Another rate from now on.
    ///
    /// # Errors
    /// EINVAL for 0.
    pub(crate) fn change_rate(&self, rate: u64) -> Result<(), Failure> {
        if rate == 0 {
            return Err(Failure::invalid("a stream's rate is above nothing; surety_pause stops it"));
        }
        self.with(|ends| {
            match &mut ends.end {
                End::Reader(reader) => reader.change_rate(Rate(rate)),
                End::Writer(writer) => writer.change_rate(Rate(rate)),
            }
            Ok(())
        })
    }

    /// When the streams of its disk are served, from now on.
    ///
    /// # Errors
    /// EINVAL: there is no such mode.
    pub(crate) fn set_mode(&self, number: i32) -> Result<(), Failure> {
        let mode = usize::try_from(number).ok().and_then(|number| MODES.get(number));
        let Some(mode) = mode else {
            let words =
                format!("there is no mode {number}; they are SURETY_MODE_STEADY and SURETY_MODE_LONGEST");
            return Err(Failure::invalid(words));
        };
        self.with(|ends| {
            ends.station.set_mode(*mode);
            Ok(())
        })
    }

    /// What happened so far.
    pub(crate) fn stats(&self) -> Result<Stats, Failure> {
        self.with(|ends| {
            Ok(match &ends.end {
                End::Reader(reader) => Stats::of(&reader.stats(), reader.buffer(), &ends.station.rest()),
                End::Writer(writer) => Stats::of(&writer.stats(), writer.buffer(), &ends.station.rest()),
            })
        })
    }

    /// How much of a guarantee it has: its place in [`LEVELS`].
    pub(crate) fn level(&self) -> Result<usize, Failure> {
        self.with(|ends| {
            let level = match &ends.end {
                End::Reader(reader) => reader.level(),
                End::Writer(writer) => writer.level(),
            };
            Ok(LEVELS.iter().position(|(other, _)| *other == level).unwrap_or(0))
        })
    }

    /// What keeps it from a higher level, one of several.
    pub(crate) fn caveat(&self, index: usize) -> Result<Option<String>, Failure> {
        self.with(|ends| {
            let caveats = match &ends.end {
                End::Reader(reader) => reader.caveats(),
                End::Writer(writer) => writer.caveats(),
            };
            Ok(caveats.into_iter().nth(index))
        })
    }
}

impl Ends {
    fn reader(&mut self) -> Result<&mut Reader, Failure> {
        match &mut self.end {
            End::Reader(reader) => Ok(reader),
            End::Writer(_) => Err(written()),
        }
    }

    /// Bytes of the stream that the program has behind it.
    fn position(&self) -> u64 {
        match &self.end {
            End::Reader(reader) => reader.position(),
            End::Writer(writer) => writer.position(),
        }
    }

    /// A byte of the file to go to.
    fn place(&mut self, offset: i64, whence: Whence) -> Result<u64, Failure> {
        let reader = self.reader()?;
        let from = match whence {
            Whence::Begin => 0,
            Whence::Current => reader.place(),
            Whence::End => reader.size()?,
        };
        let to = i128::from(from) + i128::from(offset);
        if to < 0 {
            return Err(Failure::invalid(format!("{offset} from byte {from} is before the beginning")));
        }
        i64::try_from(to).map(i64::unsigned_abs).map_err(|_| no_place(to))
    }
}

fn no_place(to: i128) -> Failure {
    Failure::new(libc::EOVERFLOW, format!("byte {to} is beyond what a file can have"))
}

fn closed() -> Failure {
    Failure::new(libc::EBADF, "the stream was closed meanwhile")
}

fn written() -> Failure {
    Failure::new(
        libc::EBADF,
        "the stream is written: it is neither read, nor paused, nor moved to another place",
    )
}

fn read() -> Failure {
    Failure::new(libc::EBADF, "the stream is read: it is not written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_their_words_in_their_order() {
        for (number, (level, words)) in LEVELS.iter().enumerate() {
            assert_eq!(words.to_str().unwrap(), level.to_string());
            assert!(number == 0 || LEVELS[number - 1].0 < *level);
        }
    }
}
