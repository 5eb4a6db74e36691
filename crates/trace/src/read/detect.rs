//! [`open`]: a trace of any format, told by how it begins.

use std::io;

use crate::read::TraceReader;
use crate::read::perfdata::{PerfData, PerfDataError, is_perf_data};
use crate::read::perfetto::{PerfettoError, PerfettoTrace, packets};
use crate::read::text::{TextError, TextTrace, is_text};
use crate::read::tracedat::{MAGIC, TraceDat, TraceDatError};
use crate::source::{ReadAt, read_full};

/// How much of a file's beginning tells its format.
const BEGINNING: usize = 4096;

/// A trace that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No format begins like this.
    #[error("byte 0: this is no trace that can be read; known are {known}")]
    Unknown {
        /// The formats, in words.
        known: String,
    },
    /// A damaged or foreign trace.dat file.
    #[error(transparent)]
    TraceDat(#[from] TraceDatError),
    /// A damaged perf.data file, or one without tracepoints.
    #[error(transparent)]
    PerfData(#[from] PerfDataError),
    /// A foreign Perfetto trace.
    #[error(transparent)]
    Perfetto(#[from] PerfettoError),
    /// A text that is no events.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The medium failed.
    #[error("byte {offset}: {source}")]
    Read {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
}

/// A source of any type. The readers are compiled once, for it: a program that is built for size would otherwise build
/// their loops anew for its own type of file, and for size. A call through the pointer is one for some pages.
type Source<'s> = Box<dyn ReadAt + 's>;

/// A format: its name, how to tell it by a file's first bytes, and how to open one.
struct Format<'s> {
    name: &'static str,
    is: fn(&[u8]) -> bool,
    open: fn(Source<'s>) -> Result<Box<dyn TraceReader + 's>, OpenError>,
}

/// Every format, the surest to tell first.
fn formats<'s>() -> [Format<'s>; 4] {
    [
        Format {
            name: "trace.dat",
            is: |beginning| beginning.starts_with(MAGIC),
            open: |source| Ok(Box::new(TraceDat::open(source)?)),
        },
        Format { name: "perf.data", is: is_perf_data, open: |source| Ok(Box::new(PerfData::open(source)?)) },
        Format {
            name: "Perfetto",
            is: packets::is_trace,
            open: |source| Ok(Box::new(PerfettoTrace::open(source)?)),
        },
        Format {
            name: "the text of the kernel, trace-cmd report or perf script",
            is: is_text,
            open: |source| Ok(Box::new(TextTrace::open(source)?)),
        },
    ]
}

/// Opens a trace of any format.
///
/// # Errors
/// [`OpenError`]: what it is not, or where it is damaged.
pub fn open<'s, S: ReadAt + 's>(source: S) -> Result<Box<dyn TraceReader + 's>, OpenError> {
    open_any(Box::new(source))
}

fn open_any(source: Source<'_>) -> Result<Box<dyn TraceReader + '_>, OpenError> {
    let mut beginning = [0; BEGINNING];
    let length =
        read_full(&source, 0, &mut beginning).map_err(|source| OpenError::Read { offset: 0, source })?;
    let formats = formats();
    match formats.iter().find(|format| (format.is)(&beginning[..length])) {
        Some(format) => (format.open)(source),
        None => {
            let names: Vec<&str> = formats.iter().map(|format| format.name).collect();
            Err(OpenError::Unknown { known: names.join(", ") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_is_refused_with_what_would_be() {
        let said = |bytes: &[u8]| open(bytes.to_vec()).map(|_| ()).unwrap_err().to_string();
        assert!(said(b"GIF89a").contains("known are trace.dat"), "{}", said(b"GIF89a"));
        assert!(said(b"").starts_with("byte 0"));
        // One that begins well is judged by its own reader.
        assert!(said(b"\x17\x08\x44tracing9\0").contains("version 9"));
    }
}
