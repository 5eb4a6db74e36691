//! [`Stream`]: sequential file access at a rate, and whether what it says of sizes goes together.

use surety_units::{Bytes, Nanos, Rate};

use super::IoPriority;
use crate::promise::Promise;

/// A file of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamFile {
    /// Made for the run with this size.
    Make(Bytes),
    /// There already.
    Path(String),
}

/// When the batches of a disk's streams are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchMode {
    /// Each as soon as there is room and credit for it.
    #[default]
    Steady,
    /// All buffers at once, and then nothing for as long as they last, so that the disk can sleep.
    Longest,
}

impl BatchMode {
    /// All, with their words.
    pub const ALL: [(BatchMode, &'static str); 2] =
        [(BatchMode::Steady, "steady"), (BatchMode::Longest, "longest")];

    /// Its word.
    pub fn word(self) -> &'static str {
        BatchMode::ALL[self as usize].1
    }
}

/// Which way a stream's bytes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the disk.
    #[default]
    Read,
    /// To the disk.
    Write,
}

/// Sequential file access at a promised byte rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Its role.
    pub name: String,
    pub count: u32,
    /// Disk, by name.
    pub disk: Option<String>,
    /// Of its threads; `None`: that of their scheduling class.
    pub io_priority: Option<IoPriority>,
    /// Control group of its threads, by name.
    pub group: Option<String>,
    pub file: StreamFile,
    /// Bytes per second.
    pub rate: Rate,
    /// Read or written.
    pub direction: Direction,
    /// Bytes of one access; computed where not given.
    pub access: Option<Bytes>,
    /// How much an access may come late at the disk.
    pub jitter: Option<Nanos>,
    /// Play-out buffer.
    pub buffer: Option<Bytes>,
    /// Bytes fetched at once.
    pub batch: Option<Bytes>,
    /// Its next batch is asked for while one is under way, two at a time at most; it begins with credit for one batch.
    pub overlap: bool,
    /// The longest that a batch takes, as admission found: the stream is guaranteed with it.
    pub bound: Option<Nanos>,
    /// Whether an admission stands behind its bound: a plan set it. No file says so.
    pub admitted: bool,
    /// When batches are moved.
    pub mode: BatchMode,
    /// What was promised about it.
    pub promises: Vec<Promise>,
}

impl Stream {
    /// Bytes of one access: 64 KiB where none are given.
    pub fn access_bytes(&self) -> u64 {
        self.access.map_or(64 << 10, |bytes| bytes.0)
    }

    /// Whether its sizes go together; else the key that does not, and why.
    pub fn check_sizes(&self) -> Result<(), (&'static str, &'static str)> {
        let access = self.access_bytes();
        if self.rate.0 == 0 {
            return Err(("rate", "its `rate` must be above 0"));
        }
        if access == 0 || access > 1 << 30 {
            let key = if self.direction == Direction::Write { "write" } else { "read" };
            return Err((key, "one access must have 1 B to 1GiB"));
        }
        if self.buffer.is_some_and(|buffer| buffer.0 < access) {
            return Err(("buffer", "its `buffer` must hold at least one access"));
        }
        if let StreamFile::Make(size) = self.file {
            if size.0 < access {
                let why = "its file is smaller than one access; make it larger, or `read` less at a time";
                return Err(("file.make", why));
            }
            if self.batch.is_some_and(|batch| batch > size) {
                return Err(("batch", "its `batch` is larger than its file; make it smaller"));
            }
        }
        if self.jitter.is_some() && self.batch.is_none() && self.promises.is_empty() {
            return Err(("jitter", "it has `jitter` only with a `batch`; leave it out, or give both"));
        }
        if self.bound.is_some() && self.batch.is_none() {
            return Err(("bound", "its `bound` is of batches; give it a `batch`"));
        }
        if self.overlap && self.batch.is_none() && self.promises.is_empty() {
            return Err(("overlap", "batches `overlap`; give it a `batch`"));
        }
        if self.overlap && self.mode == BatchMode::Longest {
            return Err((
                "overlap",
                "the longest batches are asked for one behind the other; leave `overlap` out, or `mode`",
            ));
        }
        Ok(())
    }

    /// Whether a plan guarantees it: what it plays from and who fetches run as [`STREAM_PRIORITY`] says.
    pub fn is_reserved(&self) -> bool {
        self.bound.is_some()
    }

    /// From the release of an access to the instant from which on it is late: when the buffer is empty, or before that the shortest limit promised for
    /// its response. Where no buffer is given that limit stands alone, or one access is played from.
    pub fn deadline(&self) -> Nanos {
        let lasts = |bytes: u64| Nanos::SECOND.mul_ratio(bytes, self.rate.0.max(1));
        let buffer = self.buffer.map(|bytes| lasts(bytes.0));
        let promised = self.promises.iter().filter_map(Promise::response_limit);
        promised.chain(buffer).min().unwrap_or_else(|| lasts(self.access_bytes()))
    }
}

/// Priority of SCHED_FIFO of the threads that fetch a stream ahead, and of those that read it where a plan guarantees it.
pub const STREAM_PRIORITY: u32 = 1;

/// When an access of a stream is released, by its number from 0, since the beginning: when all before it are consumed.
pub fn release_of(rate: Rate, access: u64, number: u64) -> Nanos {
    let bytes = i128::from(number) * i128::from(access) * 1_000_000_000;
    Nanos::new(i64::try_from(bytes / i128::from(rate.0.max(1))).unwrap_or(i64::MAX))
}
