//! [`TraceReader`]: what every trace format does, and what it reports of the reading.
//!
//! One format is one file beside this module that implements the trait and one line in the table of [`detect`].

use serde::Serialize;
use surety_model::event::TraceSink;
use surety_units::Nanos;

use crate::format::FormatError;
use crate::merge::PageReadError;

pub mod detect;
pub mod live;
pub mod packed;
pub mod perfdata;
pub mod perfetto;
pub mod raw_pages;
pub mod text;
pub mod tracedat;

/// What a trace says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The format in words: `trace.dat, version 6`.
    pub format: String,
    /// How many CPUs were recorded, where that is known.
    pub cpus: Option<u32>,
    /// The clock of its times, where that is known: `mono`.
    pub clock: Option<String>,
}

/// A recorded trace that can be read.
pub trait TraceReader {
    /// What the trace says of itself; formats without a table of contents know all of it only once they were read.
    fn description(&self) -> Description;

    /// What is in the file and is not read, in words, each with its place where there is one.
    fn unread(&self) -> Vec<String> {
        Vec::new()
    }

    /// Names of the buffers it holds, where a format can hold several; that of the main one is empty.
    fn buffers(&self) -> Vec<String> {
        Vec::new()
    }

    /// Reads the buffer of that name from now on; whether there is one.
    fn choose_buffer(&mut self, _name: &str) -> bool {
        false
    }

    /// Hands over events without a decoder too from now on, as [`EventKind::Raw`](surety_model::event::EventKind::Raw), where
    /// the format holds their records.
    fn keep_undecoded(&mut self) {}

    /// Hands every event to `sink`, all CPUs merged by time, and says what was read.
    ///
    /// # Errors
    /// A source that fails, or formats that cannot be used. Damage inside the trace is no error: it is counted.
    fn read(&mut self, sink: &mut dyn TraceSink) -> Result<ReadSummary, TraceError>;
}

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The source of pages failed.
    #[error(transparent)]
    Read(#[from] PageReadError),
    /// The kernel's description of its records cannot be used.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The medium failed.
    #[error("byte {offset}: {source}")]
    Source {
        /// Where.
        offset: u64,
        /// Why.
        source: std::io::Error,
    },
}

/// How often an event occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventCount {
    /// `system:name`.
    pub event: String,
    /// How many records.
    pub count: u64,
}

/// What a reading met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReadSummary {
    /// Records by event, those that occurred only, in the order of the formats.
    pub events: Vec<EventCount>,
    /// Events handed to the sink, losses not counted.
    pub delivered: u64,
    /// Records of events without a format, passed over by their length.
    pub unknown: u64,
    /// Records too short for their format.
    pub malformed: u64,
    /// Places where the tracer lost events, or a damaged page hides some.
    pub gaps: u64,
    /// Events lost there, as far as the tracer knows.
    pub lost: u64,
    /// Events lost by the tracer's own statistics at the end of the recording, where the trace holds them: mostly the
    /// same ones, but also those that left no mark in the pages.
    pub counted_lost: Option<u64>,
    /// What of the events the recording left out by choice, in the options that did; known of trace.dat files of `surety trace record`.
    pub left_out: Option<String>,
    /// Records whose time lay before their predecessor's on the same CPU; they were given that one's time.
    pub disordered: u64,
    /// The largest such step back.
    pub disorder_max: Nanos,
    /// Pages that could not be read to their end.
    pub damaged_pages: u64,
    /// CPUs whose pages end in the middle of one.
    pub truncated: u64,
    /// Places in the file that could not be read and why, the first of them: each with its offset. Compressed pages
    /// among them are also counted as damaged.
    pub faults: Vec<String>,
    /// Time of the first and the last record; `None` when there are none.
    pub span: Option<(Nanos, Nanos)>,
}

impl ReadSummary {
    /// Events lost, by the marks in the pages or by the tracer's statistics, whichever says more.
    pub fn lost_at_least(&self) -> u64 {
        self.lost.max(self.counted_lost.unwrap_or(0))
    }

    /// Whether the trace is all there: nothing lost, damaged or cut.
    pub fn is_complete(&self) -> bool {
        self.gaps == 0
            && self.lost_at_least() == 0
            && self.damaged_pages == 0
            && self.truncated == 0
            && self.malformed == 0
    }
}
