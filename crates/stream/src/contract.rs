//! [`Contract`]: what a stream is promised.

use surety_model::playout::AHEAD;
use surety_units::{Nanos, Rate};

use crate::error::StreamError;

/// Bytes of a batch where none are given: 20 pages, as in the reference's measurements.
const BATCH: u64 = 80 << 10;
/// Bytes of one access where none are given.
const ACCESS: u64 = 64 << 10;

/// Bytes of a buffer at most.
const BUFFER_MAX: u64 = 1 << 34;

/// What a stream asks for. Bytes that are fetched ahead of the program, or not written yet, are `buffer`, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Bytes per second.
    pub rate: Rate,
    /// Bytes that the program takes or gives at once.
    pub access: u64,
    /// How much the program, or the disk, may be late without a loss of what it is owed.
    pub jitter: Nanos,
    /// Bytes moved at once; rounded up to whole pages.
    pub batch: u64,
    /// Bytes of the play-out buffer; `None`: an access, a batch, and what the rate gives in the jitter.
    pub buffer: Option<u64>,
    /// The file begins again at its end.
    pub repeats: bool,
    /// Bytes that will be written, to have room for them from the beginning; `None`: not known. Of no meaning to who reads.
    pub length: Option<u64>,
    /// What is written is brought to the medium (`fdatasync`) each time so much of the stream was; `None`: when the program asks for it.
    pub flush: Option<Nanos>,
    /// The next batch is asked for while one is under way, two at a time at most; it begins with credit for one batch.
    pub overlap: bool,
    /// The longest time from asking for a batch until it is there, where that was admitted.
    pub bound: Option<Nanos>,
    /// Nothing is fetched before [`Reader::go_on`](crate::Reader::go_on).
    pub is_paused: bool,
    /// Whether each batch is noted, for whoever looks at them afterwards.
    pub notes_batches: bool,
}

impl Contract {
    /// At a rate: 64 KiB at once, fetched in batches of 80 KiB, with 430 ms of the stream ahead.
    pub fn new(rate: Rate) -> Contract {
        Contract {
            rate,
            access: ACCESS,
            jitter: AHEAD,
            batch: BATCH,
            buffer: None,
            repeats: false,
            length: None,
            flush: None,
            overlap: false,
            bound: None,
            is_paused: false,
            notes_batches: false,
        }
    }

    /// The same for a program that takes so many bytes at once.
    pub fn with_access(self, access: u64) -> Contract {
        Contract { access, ..self }
    }

    /// The same with another jitter.
    pub fn with_jitter(self, jitter: Nanos) -> Contract {
        Contract { jitter, ..self }
    }

    /// The same fetched in batches of so many bytes.
    pub fn with_batch(self, batch: u64) -> Contract {
        Contract { batch, ..self }
    }

    /// The same with a play-out buffer of so many bytes.
    pub fn with_buffer(self, buffer: u64) -> Contract {
        Contract { buffer: Some(buffer), ..self }
    }

    /// The same with room for so many bytes from the beginning.
    pub fn with_length(self, length: u64) -> Contract {
        Contract { length: Some(length), ..self }
    }

    /// The same brought to the medium each time so much of the stream was written.
    pub fn with_flush(self, flush: Nanos) -> Contract {
        Contract { flush: Some(flush), ..self }
    }

    /// Whether it can be.
    ///
    /// # Errors
    /// Which part of it cannot, and what that must be.
    pub fn check(&self) -> Result<(), StreamError> {
        let refuse = |key, why| Err(StreamError::Contract { key, why });
        if self.rate.0 == 0 {
            return refuse("rate", "is above nothing");
        }
        if self.access == 0 || self.access > 1 << 30 {
            return refuse("access", "is between 1 B and 1 GiB");
        }
        if self.batch == 0 || self.batch > 1 << 30 {
            return refuse("batch", "is between 1 B and 1 GiB");
        }
        if self.flush.is_some_and(|flush| flush <= Nanos::ZERO) {
            return refuse("flush", "is above nothing");
        }
        if self.wanted() > BUFFER_MAX {
            return refuse("buffer", "is at most 16 GiB; lower its rate or jitter");
        }
        Ok(())
    }

    /// Bytes of its buffer as asked for, before they are rounded up to batches.
    pub(crate) fn wanted(&self) -> u64 {
        let ahead = i128::from(self.rate.0) * i128::from(self.jitter.max(Nanos::ZERO).get()) / 1_000_000_000;
        let computed =
            self.access.saturating_add(self.batch).saturating_add(u64::try_from(ahead).unwrap_or(u64::MAX));
        self.buffer.unwrap_or(computed).max(self.access.saturating_add(self.batch))
    }
}
