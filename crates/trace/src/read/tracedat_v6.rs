//! [`TraceDat`]: trace.dat files of version 6, as trace-cmd, other recorders and [`crate::write::tracedat`] make them.
//!
//! The file is sequential (trace-cmd's `Documentation/trace-cmd/trace-cmd.dat.v6.5.txt`); every number but the two
//! single bytes is in the file's byte order:
//!
//! ```text
//! 17 08 44 "tracing" "6\0"   u8 big endian?   u8 size of a user's long   u32 page size
//! "header_page\0"  u64 length, text           "header_event\0"  u64 length, text
//! u32 count of the tracer's own events        each: u64 length, format text
//! u32 count of systems                        each: name\0, u32 count, each: u64 length, format text
//! u32 length, kallsyms     u32 length, printk formats     u64 length, "TID NAME" lines
//! u32 CPUs
//! "options  \0"  (u16 id, u32 length, bytes)*  u16 0                                 (may be absent)
//! "flyrecord\0"  for each CPU: u64 offset, u64 length                                (or "latency  \0": text)
//! ```
//!
//! The kernel's long is the one of the header_page text; the user's may differ and is of no use.
//!
//! Nothing in the file is trusted: every length is compared with what is left of the file before memory is asked for.
//! Damage in the part before the table of CPUs is an error with its offset. Damage behind it costs what it hides: data
//! the file no longer has counts as cut ([`ReadSummary::truncated`]), bad pages as damaged, formats that cannot be used
//! are listed ([`TraceDat::unusable`]) and their records counted as unknown.

use std::io;

use surety_model::event::TraceSink;
use surety_units::CpuId;

use crate::decode::EventTable;
use crate::endian::Endian;
use crate::format::{FormatError, parse_header_page};
use crate::page::PageLayout;
use crate::read::raw_pages::RawPages;
use crate::read::{ReadSummary, TraceError, TraceReader};
use crate::source::{ReadAt, Window};
use crate::symbols::Symbols;

use cursor::Cursor;

mod cursor;

/// What every trace.dat file begins with.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Tags between the parts of a file.
pub(crate) const HEADER_PAGE: &[u8] = b"header_page\0";
pub(crate) const HEADER_EVENT: &[u8] = b"header_event\0";
pub(crate) const OPTIONS: &[u8] = b"options  \0";
pub(crate) const FLYRECORD: &[u8] = b"flyrecord\0";
const LATENCY: &[u8] = b"latency  \0";
/// Options by their number.
pub(crate) const OPTION_CPUSTAT: u16 = 2;
const OPTION_BUFFER: u16 = 3;
pub(crate) const OPTION_TRACECLOCK: u16 = 4;
/// No ring-buffer page is larger: the largest sub-buffer is 128 pages of 64 KiB.
const PAGE_MAX: usize = 8 << 20;
/// CPU numbers from here on are no CPU's ([`crate::jobs`] passes them over too).
pub(crate) const CPUS_MAX: u32 = 1 << 16;
/// Clocks that do not count nanoseconds.
const OTHER_UNITS: &[&str] = &["counter", "x86-tsc", "ppc-tb"];

/// A trace.dat file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceDatError {
    /// Another kind of file.
    #[error(
        "byte 0: this is no trace.dat file, it does not begin as one; record one with `surety trace record`"
    )]
    Foreign,
    /// A version of the format this reader does not have.
    #[error(
        "byte 10: version {version} of trace.dat{compression} is not read by this version; \
         `trace-cmd convert --file-version 6 --compression none -i FILE -o NEW` makes a file that is"
    )]
    Version {
        /// The version.
        version: String,
        /// How the file is compressed, in words, where it says so.
        compression: String,
    },
    /// The file holds the text of a latency tracer.
    #[error("byte {offset}: the file holds a latency tracer's text, no events")]
    Latency {
        /// Where it says so.
        offset: u64,
    },
    /// Its times are no nanoseconds.
    #[error(
        "byte {offset}: the times are of the clock `{clock}`, not in nanoseconds; record with the clock mono"
    )]
    Clock {
        /// Where it says so.
        offset: u64,
        /// The clock's name.
        clock: String,
    },
    /// The file is cut or was changed.
    #[error("byte {offset}: {what}; the file is cut or damaged there")]
    Damaged {
        /// Where.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The medium failed.
    #[error("byte {offset}: {source}")]
    Read {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
}

/// Where one CPU's pages are in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuPages {
    cpu: CpuId,
    offset: u64,
    length: u64,
}

/// An opened trace.dat file of version 6: its texts are read, its pages not yet.
#[derive(Clone, Debug)]
pub struct TraceDat<S> {
    source: S,
    layout: PageLayout,
    table: EventTable,
    unusable: Vec<FormatError>,
    cpus: u32,
    pages: Vec<CpuPages>,
    /// CPUs whose pages reach beyond the file's end.
    cut: u64,
    options: Options,
}

/// What the options of a file say.
#[derive(Clone, Debug, Default)]
struct Options {
    clock: Option<String>,
    counted_lost: Option<u64>,
    other_buffers: Vec<String>,
}

impl<S: ReadAt> TraceDat<S> {
    /// Reads everything but the pages.
    ///
    /// # Errors
    /// [`TraceDatError`], each with the place in the file.
    pub fn open(source: S) -> Result<TraceDat<S>, TraceDatError> {
        let mut cursor = Cursor::new(&source);
        read_start(&mut cursor)?;
        cursor.tag(HEADER_PAGE)?;
        let at = cursor.offset();
        let text = cursor.text64("the description of pages")?;
        let layout = parse_header_page(&text)
            .map_err(|error| TraceDatError::Damaged { offset: at, what: error.to_string() })?;
        if layout.page_size() > PAGE_MAX {
            return Err(damaged(at, format!("no kernel has pages of {} bytes", layout.page_size())));
        }
        cursor.tag(HEADER_EVENT)?;
        cursor.skip64("the description of event headers")?;
        let formats = read_formats(&mut cursor)?;
        let symbols = Symbols::parse(&cursor.text32("the symbol table")?);
        cursor.skip32("the printk formats")?;
        cursor.skip64("the names of threads")?;
        let pairs = formats.iter().map(|(system, text)| (system.as_str(), text.as_str()));
        let (table, unusable) = EventTable::of_usable(cursor.endian, pairs, symbols);
        let at = cursor.offset();
        let cpus = cursor.u32("the number of CPUs")?;
        if cpus > CPUS_MAX {
            return Err(damaged(at, format!("no machine has {cpus} CPUs")));
        }
        let (options, tag_at, tag) = read_options(&mut cursor)?;
        match tag.as_slice() {
            FLYRECORD => {}
            LATENCY => return Err(TraceDatError::Latency { offset: tag_at }),
            _ => return Err(damaged(tag_at, "neither options nor pages begin here".to_owned())),
        }
        let (pages, cut) = read_table(&mut cursor, cpus, layout)?;
        Ok(TraceDat { layout, table, unusable, cpus, pages, cut, options, source })
    }

    /// The events the file describes, and how they are decoded.
    pub fn table(&self) -> &EventTable {
        &self.table
    }

    /// How its pages are laid out.
    pub fn layout(&self) -> PageLayout {
        self.layout
    }

    /// How many CPUs were recorded.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// The clock of its times, where the file says: `mono`.
    pub fn clock(&self) -> Option<&str> {
        self.options.clock.as_deref()
    }

    /// Descriptions of events that could not be used; their records are counted as unknown.
    pub fn unusable(&self) -> &[FormatError] {
        &self.unusable
    }

    /// Names of further buffers in the file; only the main one is read.
    pub fn other_buffers(&self) -> &[String] {
        &self.options.other_buffers
    }

    /// The pages of each CPU that has some.
    pub fn pages(&self) -> impl Iterator<Item = (CpuId, Window<'_, S>)> {
        self.pages.iter().map(|p| (p.cpu, Window::new(&self.source, p.offset, p.length)))
    }

    /// Reads all of it into `sink`; see [`RawPages::read_into`].
    ///
    /// # Errors
    /// A source that fails.
    pub fn read_into<K: TraceSink + ?Sized>(&mut self, sink: &mut K) -> Result<ReadSummary, TraceError> {
        let mut summary = RawPages::new(self.table.clone(), self.layout, self.pages()).read_into(sink)?;
        // A CPU cut between two pages ends as if it were whole.
        summary.truncated = summary.truncated.max(self.cut);
        summary.counted_lost = self.options.counted_lost;
        Ok(summary)
    }
}

impl<S: ReadAt> TraceReader for TraceDat<S> {
    fn read(&mut self, sink: &mut dyn TraceSink) -> Result<ReadSummary, TraceError> {
        self.read_into(sink)
    }
}

fn damaged(offset: u64, what: String) -> TraceDatError {
    TraceDatError::Damaged { offset, what }
}

/// The magic, the version, the byte order; the sizes behind them are the recording program's.
fn read_start<S: ReadAt + ?Sized>(cursor: &mut Cursor<'_, S>) -> Result<(), TraceDatError> {
    if !cursor.is_next(MAGIC)? {
        return Err(TraceDatError::Foreign);
    }
    let version = cursor.name("the version")?;
    let at = cursor.offset();
    cursor.endian = match cursor.u8("the byte order")? {
        0 => Endian::Little,
        1 => Endian::Big,
        other => return Err(damaged(at, format!("{other} is no byte order"))),
    };
    cursor.u8("the size of a long")?;
    cursor.u32("the page size")?;
    if version == "6" {
        return Ok(());
    }
    // Since version 7 the compression's name stands here.
    let compression = match cursor.name("the compression") {
        Ok(name) if version == "7" && name != "none" => format!(", compressed with {name},"),
        _ => String::new(),
    };
    Err(TraceDatError::Version { version, compression })
}

/// `(system, format text)` of every event.
fn read_formats<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
) -> Result<Vec<(String, String)>, TraceDatError> {
    let mut formats = Vec::new();
    let own = cursor.u32("the number of the tracer's own events")?;
    for _ in 0..own {
        formats.push(("ftrace".to_owned(), cursor.text64("an event's format")?));
    }
    let systems = cursor.u32("the number of event systems")?;
    for _ in 0..systems {
        let system = cursor.name("the name of an event system")?;
        let events = cursor.u32("the number of events of a system")?;
        for _ in 0..events {
            formats.push((system.clone(), cursor.text64("an event's format")?));
        }
    }
    Ok(formats)
}

/// The options, if there are any, and the tag behind them with its place.
fn read_options<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
) -> Result<(Options, u64, Vec<u8>), TraceDatError> {
    let mut options = Options::default();
    let mut at = cursor.offset();
    let mut tag = cursor.bytes(OPTIONS.len() as u64, "the kind of the data")?;
    if tag != OPTIONS {
        return Ok((options, at, tag));
    }
    loop {
        let id = cursor.u16("an option's number")?;
        if id == 0 {
            break;
        }
        let length = cursor.u32("an option's length")?;
        let offset = cursor.offset();
        match id {
            // Statistics behind the name of a further buffer are of that buffer.
            OPTION_CPUSTAT if options.other_buffers.is_empty() => {
                let text = cursor.text(length.into(), "the statistics of a CPU")?;
                if !text.contains("Buffer:")
                    && let Some(lost) = lost_in(&text)
                {
                    let sum = options.counted_lost.unwrap_or(0).saturating_add(lost);
                    options.counted_lost = Some(sum);
                }
            }
            OPTION_TRACECLOCK => {
                let text = cursor.text(length.into(), "the clock")?;
                if let Some(clock) = chosen_clock(&text) {
                    if OTHER_UNITS.contains(&clock) {
                        return Err(TraceDatError::Clock { offset, clock: clock.to_owned() });
                    }
                    options.clock = Some(clock.to_owned());
                }
            }
            OPTION_BUFFER => {
                let bytes = cursor.bytes(length.into(), "the name of a buffer")?;
                // Eight bytes of offset, then the name; the main buffer's is empty.
                let name = bytes.get(8..).unwrap_or_default().split(|b| *b == 0).next().unwrap_or_default();
                if !name.is_empty() {
                    options.other_buffers.push(String::from_utf8_lossy(name).into_owned());
                }
            }
            _ => cursor.skip(length.into(), "an option")?,
        }
    }
    at = cursor.offset();
    tag = cursor.bytes(FLYRECORD.len() as u64, "the kind of the data")?;
    Ok((options, at, tag))
}

/// The clock in brackets: `local global [mono] boot`.
fn chosen_clock(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(clock, _)| clock)
}

/// Events one CPU's `stats` text calls lost: overwritten, not written for want of room, dropped.
fn lost_in(text: &str) -> Option<u64> {
    let count = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().parse::<u64>().ok()
    };
    let counts = ["overrun", "commit overrun", "dropped events"].map(count);
    let known: Vec<u64> = counts.into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.iter().fold(0u64, |sum, n| sum.saturating_add(*n)))
}

/// Where the pages of each CPU are, and how many CPUs the file's end cuts.
fn read_table<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    cpus: u32,
    layout: PageLayout,
) -> Result<(Vec<CpuPages>, u64), TraceDatError> {
    let (at, file) = (cursor.offset(), cursor.length());
    let (mut pages, mut cut) = (Vec::new(), 0);
    for cpu in 0..cpus {
        let offset = cursor.u64("where the pages of a CPU are")?;
        let length = cursor.u64("how long the pages of a CPU are")?;
        let there = length.min(file.saturating_sub(offset));
        cut += u64::from(there < length);
        if there > 0 {
            pages.push(CpuPages { cpu: CpuId(cpu), offset, length: there });
        }
    }
    // CPUs share no byte, so what all of them claim fits the file, and so does the page of memory that each costs while
    // it is read (the last one's may be cut).
    let claimed = pages.iter().fold(0u64, |sum, p| sum.saturating_add(p.length));
    let memory = (pages.len() as u64).saturating_sub(1) * layout.page_size() as u64;
    if claimed.max(memory) > file {
        return Err(damaged(at, format!("{} CPUs have more pages than the file has room for", pages.len())));
    }
    Ok((pages, cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_told_by_their_text() {
        assert_eq!(chosen_clock("local global [mono] boot"), Some("mono"));
        assert_eq!(chosen_clock("local global"), None);
        let stats = "CPU: 0\nentries: 9\noverrun: 1\ncommit overrun: 2\nbytes: 7\ndropped events: 4\n";
        assert_eq!(lost_in(stats), Some(7));
        assert_eq!(lost_in("entries: 9\n"), None);
        let many = format!("overrun: {0}\ncommit overrun: {0}\n", u64::MAX);
        assert_eq!(lost_in(&many), Some(u64::MAX));
    }
}
