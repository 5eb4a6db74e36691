//! [`Feed`]: where the bytes of one open file come from: its stream, at whatever place the program reads.
//!
//! A read that goes on where the last one ended takes what was fetched ahead. One a little back is answered from what the stream gave last ([`Past`]); one
//! ahead within the buffer goes over what lies between; any other is a jump: what was fetched is thrown away, and the stream goes on there.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use surety_stream::{Caller, Contract, Reader, Station, StreamError, errno_of};

use crate::account::How;
use crate::past::Past;

/// A file that is made shorter again and again while it is read ends where it ends the last of so many times.
const SHORTER_MAX: u32 = 8;

/// Error numbers of answers: EINTR, EIO, ENOMEM.
const INTERRUPTED: i32 = 4;
const BROKEN: i32 = 5;
const NO_MEMORY: i32 = 12;

/// The bytes of an open file.
#[derive(Debug)]
pub(crate) struct Feed<'a> {
    file: &'a File,
    path: &'a Path,
    station: &'a Station,
    contract: &'a Contract,
    source: Source,
    past: Past,
    /// The stream is not where it says: a read failed, or the file is another one than what is ahead.
    is_lost: bool,
    /// Bytes of the file, when it was read last.
    size: u64,
    pub(crate) jumps: u64,
    /// Bytes that were given.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
enum Source {
    Unopened,
    Stream(Box<Reader>),
    Plain(String),
    Refused(String),
}

impl<'a> Feed<'a> {
    pub(crate) fn new(
        (file, path): (&'a File, &'a Path),
        station: &'a Station,
        contract: &'a Contract,
    ) -> Feed<'a> {
        let most = usize::try_from(contract.access + contract.batch).unwrap_or(usize::MAX);
        let past = Past::new(most);
        Feed {
            file,
            path,
            station,
            contract,
            source: Source::Unopened,
            past,
            is_lost: false,
            size: 0,
            jumps: 0,
            bytes: 0,
        }
    }

    /// The places in the file between which a read costs no jump; nowhere, while there is no stream.
    pub(crate) fn span(&self) -> (u64, u64) {
        match &self.source {
            Source::Stream(reader) => (self.past.begin(), reader.position() + reader.buffer()),
            _ => (1, 0),
        }
    }

    /// Opens the stream where there is none yet, at a place of the file; what calls back who waits for it, once.
    ///
    /// # Errors
    /// The error number of an answer.
    pub(crate) fn open(&mut self, offset: u64) -> Result<Option<Caller>, i32> {
        if matches!(self.source, Source::Stream(_)) {
            return Ok(None);
        }
        // Nothing is fetched from its beginning where that is not read.
        let contract = Contract { is_paused: true, ..*self.contract };
        let (refused, errno) = match self.station.open_file(self.file, self.path, &contract) {
            Ok(mut reader) => {
                reader.seek(offset);
                reader.go_on();
                let caller = reader.caller();
                self.source = Source::Stream(Box::new(reader));
                return Ok(Some(caller));
            }
            Err(StreamError::NoStream { why, .. }) => {
                self.source = Source::Plain(why);
                return Ok(None);
            }
            Err(error) => {
                let errno = match &error {
                    StreamError::File { error, .. } => error.raw_os_error().unwrap_or(BROKEN),
                    StreamError::Kernel(error) => error.errno,
                    _ => NO_MEMORY,
                };
                (error.to_string(), errno)
            }
        };
        self.source = Source::Refused(refused);
        Err(errno)
    }

    /// Fills a buffer with what is at a place of the file, less than all of it at its end only; gives up when called back and it is called off.
    ///
    /// # Errors
    /// The error number of an answer.
    pub(crate) fn read(
        &mut self,
        offset: u64,
        into: &mut [u8],
        is_called_off: &dyn Fn() -> bool,
    ) -> Result<usize, i32> {
        let count = match self.source {
            Source::Stream(_) => {
                let size = self.size_now()?;
                let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
                let until = left.min(into.len());
                if until == 0 { 0 } else { self.stream(offset, &mut into[..until], is_called_off)? }
            }
            _ => self.file.read_at(into, offset).map_err(|error| error.raw_os_error().unwrap_or(BROKEN))?,
        };
        self.bytes += count as u64;
        Ok(count)
    }

    /// Bytes of the file now. Where it was made shorter, nothing that was fetched before is read any more: what is written behind its new end is something else.
    fn size_now(&mut self) -> Result<u64, i32> {
        let metadata = self.file.metadata().map_err(|error| error.raw_os_error().unwrap_or(BROKEN))?;
        let size = metadata.len();
        if size < self.size {
            self.is_lost = true;
            self.past.forget();
        }
        self.size = size;
        Ok(size)
    }

    fn stream(
        &mut self,
        offset: u64,
        into: &mut [u8],
        is_called_off: &dyn Fn() -> bool,
    ) -> Result<usize, i32> {
        let mut done = self.past.copy(offset, into);
        if done == into.len() || !self.go_to(offset + done as u64) {
            return Ok(done);
        }
        let Source::Stream(reader) = &mut self.source else { return Ok(done) };
        let mut shorter = 0;
        while done < into.len() {
            if is_called_off() {
                return Err(INTERRUPTED);
            }
            match reader.read(&mut into[done..]) {
                Ok(0) => break,
                Ok(count) => {
                    self.past.keep(offset + done as u64, &into[done..done + count]);
                    done += count;
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                // It is read to its new end.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && shorter < SHORTER_MAX => {
                    shorter += 1;
                    reader.seek(reader.position());
                }
                // A short answer would be the end of the file for a mapping, whose page is zeros then.
                Err(error) => {
                    self.is_lost = true;
                    return Err(errno_of(&error).unwrap_or(BROKEN));
                }
            }
        }
        Ok(done)
    }

    /// Goes to a place of the file; `false`, and nothing is done, where that is behind its end.
    fn go_to(&mut self, to: u64) -> bool {
        let Source::Stream(reader) = &mut self.source else { return false };
        let position = reader.position();
        if to == position && !self.is_lost {
            return true;
        }
        if to >= self.size {
            return false;
        }
        match to.checked_sub(position) {
            Some(gap) if gap <= reader.buffer() && !self.is_lost => reader.skip(gap),
            _ => {
                reader.seek(to);
                self.jumps += 1;
            }
        }
        self.is_lost = false;
        true
    }

    /// How it was served.
    pub(crate) fn how(&self) -> How {
        match &self.source {
            Source::Stream(reader) => How::Stream {
                level: reader.level(),
                caveats: reader.caveats(),
                buffer: reader.buffer(),
                stats: reader.stats(),
            },
            Source::Plain(why) => How::Plainly { why: why.clone() },
            Source::Unopened => How::NotAtAll { why: "it was not read".to_owned() },
            Source::Refused(why) => How::NotAtAll { why: why.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use surety_stream::StationSettings;
    use surety_units::{Nanos, Rate};

    fn byte(at: u64) -> u8 {
        (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }

    fn file(length: u64) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&(0..length).map(byte).collect::<Vec<_>>()).unwrap();
        file.sync_all().unwrap();
        file
    }

    fn contract(batch: u64) -> Contract {
        let fast = Contract::new(Rate(4_000_000_000)).with_access(16_384).with_batch(batch);
        fast.with_jitter(Nanos::from_micros(20))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// Reads at any places, in any order, give what is there.
        #[test]
        fn every_read_is_the_file(
            reads in prop::collection::vec((0_u64..140_000, 1_usize..16_384, 0..4_u8), 1..30),
            batch in 1_u64..30_000,
        ) {
            const LENGTH: u64 = 120_001;
            let file = file(LENGTH);
            let station = Station::start(StationSettings::default()).unwrap();
            let contract = contract(batch);
            let mut feed = Feed::new((&file, Path::new("film")), &station, &contract);
            let mut end = 0;
            for (place, length, how) in reads {
                let offset = match how {
                    0 => place,
                    1 => end,
                    2 => end.saturating_sub(place / 100),
                    _ => end + place / 100,
                };
                let mut into = vec![0; length];
                feed.open(offset).unwrap();
                let count = feed.read(offset, &mut into, &|| false).unwrap();
                prop_assert_eq!(count as u64, LENGTH.saturating_sub(offset).min(length as u64));
                prop_assert!(into[..count].iter().zip(offset..).all(|(got, at)| *got == byte(at)));
                end = offset + count as u64;
            }
        }
    }

    #[test]
    fn a_file_that_changes_ends_where_it_ends_now() {
        let file = file(200_000);
        let station = Station::start(StationSettings::default()).unwrap();
        let contract = contract(8192).with_buffer(24_576);
        let mut feed = Feed::new((&file, Path::new("film")), &station, &contract);
        let mut into = vec![0; 16_384];
        feed.open(0).unwrap();
        assert_eq!(feed.read(0, &mut into, &|| false), Ok(16_384));
        file.set_len(20_000).unwrap();
        assert_eq!(feed.read(16_384, &mut into, &|| false), Ok(20_000 - 16_384));
        assert!(into[..20_000 - 16_384].iter().zip(16_384..).all(|(got, at)| *got == byte(at)));
        assert_eq!(feed.read(20_000, &mut into, &|| false), Ok(0));
        // Nothing of what was ahead, or read before, behind the new end is left when there is something else.
        file.write_all_at(&[7; 50_000], 20_000).unwrap();
        assert_eq!(feed.read(20_000, &mut into, &|| false), Ok(16_384));
        assert!(into.iter().all(|byte| *byte == 7));
        file.set_len(25_000).unwrap();
        assert_eq!(feed.read(24_000, &mut into, &|| false), Ok(1_000));
        file.write_all_at(&[8; 50_000], 25_000).unwrap();
        assert_eq!(feed.read(25_000, &mut into, &|| false), Ok(16_384));
        assert!(into.iter().all(|byte| *byte == 8));
    }

    #[test]
    fn an_empty_file_is_plain_until_there_is_something_in_it() {
        let file = tempfile::tempfile().unwrap();
        let station = Station::start(StationSettings::default()).unwrap();
        let contract = contract(8192);
        let mut feed = Feed::new((&file, Path::new("film")), &station, &contract);
        let mut into = [0; 10];
        assert!(feed.open(0).unwrap().is_none());
        assert_eq!(feed.read(0, &mut into, &|| false), Ok(0));
        assert!(matches!(feed.how(), How::Plainly { why } if why == "is empty"));
        file.write_all_at(b"0123456789abc", 0).unwrap();
        assert!(feed.open(0).unwrap().is_some());
        assert_eq!(feed.read(0, &mut into, &|| false), Ok(10));
        assert!(into == *b"0123456789" && matches!(feed.how(), How::Stream { .. }));
        assert_eq!(feed.read(10, &mut into, &|| false), Ok(3));
        assert_eq!(feed.read(500, &mut into, &|| false), Ok(0));
    }
}
