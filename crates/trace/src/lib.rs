//! Kernel traces: from the bytes of the tracer's ring buffers to the jobs of threads.
//!
//! The flow, walked once: a [`read::TraceReader`] takes pages through a [`source::ReadAt`], walks them ([`page`]),
//! merges the CPUs by time ([`merge`]), decodes records by the kernel's own format texts ([`mod@format`], [`decode`]) and
//! hands [`surety_model::event::Event`]s to a sink. The sink that matters is [`jobs::JobBuilder`]: it returns each
//! thread's history, which [`statistics`] condenses. [`blame`] watches the same rules at work and says who delayed whom.
//!
//! A new file format is one new file under `read/` that implements the trait, or one under `write/`. Nothing here does
//! I/O, reads a clock or starts a thread, and no input, however broken, makes it panic or loop: what cannot be read is
//! counted.

#![forbid(unsafe_code)]

pub mod blame;
pub mod decode;
pub mod endian;
pub mod format;
pub mod interrupts;
pub mod jobs;
pub mod merge;
pub mod page;
mod perfetto;
pub mod read;
pub mod source;
pub mod states;
pub mod statistics;
pub mod symbols;
pub mod write;

pub use blame::BlameBuilder;
pub use decode::{EVENTS, EventTable, MARKER_EVENT, REQUIRED_EVENTS};
pub use endian::Endian;
pub use format::{EventFormat, FormatError};
pub use interrupts::InterruptBuilder;
pub use jobs::{JobBuilder, Jobs};
pub use page::PageLayout;
pub use read::detect::{OpenError, open};
pub use read::perfetto::{PerfettoError, PerfettoTrace};
pub use read::raw_pages::RawPages;
pub use read::tracedat::{TraceDat, TraceDatError};
pub use read::{Description, ReadSummary, TraceError, TraceReader};
pub use source::ReadAt;
pub use statistics::ThreadStatistics;
pub use symbols::Symbols;
pub use write::tracedat::TraceDatContent;
