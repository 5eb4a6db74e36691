//! [`Account`]: what became of each open file that was read.

use std::path::PathBuf;

use surety_stream::{Level, Stats};
use surety_units::Nanos;

/// Open files that are told of one by one, at most.
const KEPT_MAX: usize = 1000;

/// How an open file was served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// As a stream.
    Stream {
        level: Level,
        /// What kept it from a higher level, in words.
        caveats: Vec<String>,
        /// Bytes of its play-out buffer.
        buffer: u64,
        stats: Stats,
    },
    /// Without a rate, because of this.
    Plainly { why: String },
    /// Not at all, because of this.
    NotAtAll { why: String },
}

/// One open file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Below the directory that is mounted.
    pub path: PathBuf,
    /// The name of the thread that opened it, and its number.
    pub program: String,
    pub how: How,
    /// Bytes that the program got.
    pub bytes: u64,
    /// Reads that did not go on where the one before it ended, nor a little behind or ahead of there.
    pub jumps: u64,
    /// From its first read until it was closed.
    pub time: Nanos,
}

/// All that were closed.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) served: Vec<Served>,
    /// Beyond those.
    pub(crate) more: u64,
}

impl Account {
    pub(crate) fn add(&mut self, served: Served) {
        match self.served.len() < KEPT_MAX {
            true => self.served.push(served),
            false => self.more += 1,
        }
    }
}
