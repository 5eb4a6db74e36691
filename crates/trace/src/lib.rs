//! Kernel traces: from the bytes of the tracer's ring buffers to the jobs of threads.
//!
//! The flow, walked once: a [`read::TraceReader`] takes pages through a [`source::ReadAt`], walks them ([`page`]),
//! merges the CPUs by time ([`merge`]), decodes records by the kernel's own format texts ([`mod@format`], [`decode`]) and
//! hands [`surety_model::event::Event`]s to a sink. The sink that matters is [`jobs::JobBuilder`]: it hands each job that
//! completes to a [`jobs::sink::JobSink`]. [`statistics`] condenses them, [`distribution`] looks at one thread closely,
//! [`condition`] waits for one that is too late, and [`blame`] watches the same rules at work and says who delayed whom.
//! [`slices`] says who had which CPU when, from switches alone.
//! [`wanted`] says which part of a trace counts. A trace that is still being recorded comes page by page through
//! [`read::live::LivePages`].
//!
//! A new file format is one new file under `read/` that implements the trait, or one under `write/`. Nothing here does
//! I/O, reads a clock or starts a thread, and no input, however broken, makes it panic or loop: what cannot be read is
//! counted.

#![forbid(unsafe_code)]

pub mod blame;
pub mod condition;
pub mod decode;
pub mod distribution;
pub mod endian;
pub mod format;
pub mod interrupts;
pub mod interval;
pub mod jobs;
pub mod measured;
pub mod merge;
pub mod page;
mod perfetto;
pub mod read;
pub mod slices;
pub mod source;
pub mod states;
pub mod statistics;
pub mod symbols;
pub mod wanted;
pub mod write;

pub use blame::BlameBuilder;
pub use condition::{Condition, ConditionError, Lookout, Met};
pub use decode::{EVENTS, EventTable, MARKER_EVENT, REQUIRED_EVENTS};
pub use distribution::DistributionBuilder;
pub use endian::Endian;
pub use format::{EventFormat, FormatError};
pub use interrupts::InterruptBuilder;
pub use interval::IntervalBuilder;
pub use jobs::{JobBuilder, Jobs};
pub use measured::MeasuredBuilder;
pub use page::PageLayout;
pub use read::detect::{OpenError, open};
pub use read::live::LivePages;
pub use read::perfdata::{PerfData, PerfDataError};
pub use read::perfetto::{PerfettoError, PerfettoTrace};
pub use read::raw_pages::RawPages;
pub use read::text::{TextError, TextTrace};
pub use read::tracedat::{TraceDat, TraceDatError};
pub use read::{Description, ReadSummary, TraceError, TraceReader};
pub use slices::{Slice, SliceBuilder};
pub use source::ReadAt;
pub use statistics::{StatisticsBuilder, ThreadStatistics};
pub use symbols::Symbols;
pub use wanted::Wanted;
pub use write::tracedat::{Compression, TraceDatContent, TraceDatForm};
pub use write::tracedat_events::{Spool, TraceDatEvents};
