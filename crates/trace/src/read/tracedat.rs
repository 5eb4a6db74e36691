//! [`TraceDat`]: trace.dat files, as trace-cmd, other recorders and [`crate::write::tracedat`] make them.
//!
//! All versions begin alike; then version 6 is sequential (`tracedat/v6.rs`) and version 7 made of sections, which may be
//! compressed (`tracedat/v7.rs`). What the two have in common is here.
//!
//! Nothing in the file is trusted: every length is compared with what is left of the file before memory is asked for,
//! and what is packed is unpacked up to a stated size only. Damage in the part before the table of CPUs is an error with
//! its offset. Damage behind it costs what it hides: data the file no longer has counts as cut
//! ([`ReadSummary::truncated`]), bad pages as damaged, pages that cannot be unpacked as damaged with their place
//! ([`ReadSummary::faults`]), formats that cannot be used are listed ([`TraceDat::unusable`]) and their records counted
//! as unknown.

use std::collections::BTreeMap;
use std::io;

use surety_model::event::TraceSink;
use surety_units::CpuId;

use crate::decode::{EventTable, has_functions};
use crate::endian::Endian;
use crate::format::{FormatError, parse_header_page};
use crate::page::PageLayout;
use crate::read::raw_pages::RawPages;
use crate::read::{Description, ReadSummary, TraceError, TraceReader};
use crate::source::{ReadAt, Window};
use crate::symbols::{SymbolReader, Symbols};

use chunks::{Chunk, Packed, Unpacking};
use codec::Codec;
use cursor::Cursor;

pub(super) mod chunks;
pub(super) mod codec;
pub(super) mod cursor;
pub(crate) mod v6;
pub(crate) mod v7;

/// What every trace.dat file begins with.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Tags before the descriptions of pages.
pub(crate) const HEADER_PAGE: &[u8] = b"header_page\0";
pub(crate) const HEADER_EVENT: &[u8] = b"header_event\0";
/// Options by their number.
pub(crate) const OPTION_CPUSTAT: u16 = 2;
pub(crate) const OPTION_BUFFER: u16 = 3;
pub(crate) const OPTION_TRACECLOCK: u16 = 4;
/// No ring-buffer page is larger: the largest sub-buffer is 128 pages of 64 KiB.
pub(super) const PAGE_MAX: usize = 8 << 20;
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
        "byte 10: version {version} of trace.dat is not read by this version; \
         `trace-cmd convert --file-version 7 -i FILE -o NEW` makes a file that is"
    )]
    Version { version: String },
    /// The file is compressed in a way this reader does not have.
    #[error(
        "byte {offset}: the file is compressed with `{name}`, which is not read; \
         `trace-cmd convert --compression none -i FILE -o NEW` makes a file that is"
    )]
    Compression {
        /// Where it says so.
        offset: u64,
        /// The compression's name.
        name: String,
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

/// Everything of a file but its pages.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) table: EventTable,
    pub(super) unusable: Vec<FormatError>,
    /// The main buffer first, where there is one.
    pub(super) buffers: Vec<Buffer>,
    /// Further buffers that cannot be read, and why.
    pub(super) unread: Vec<String>,
    /// How pages are packed.
    pub(super) codec: Codec,
}

/// One buffer of events: the main one, or that of a tracer's instance.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// Empty for the main one.
    pub(super) name: String,
    pub(super) clock: Option<String>,
    pub(super) layout: PageLayout,
    pub(super) cpus: u32,
    pub(super) pages: Vec<CpuPages>,
    /// CPUs whose pages reach beyond the file's end.
    pub(super) cut: u64,
    pub(super) counted_lost: Option<u64>,
    /// What of the events was left out by choice.
    pub(super) left_out: Option<String>,
}

/// One CPU's pages.
#[derive(Clone, Debug)]
pub(super) struct CpuPages {
    pub(super) cpu: CpuId,
    pub(super) stored: Stored,
}

/// How the pages of a CPU are in the file.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    /// As the kernel made them.
    Plain { offset: u64, length: u64 },
    /// Packed in pieces.
    Packed(Vec<Chunk>),
}

/// Further buffers beyond these are not read.
pub(super) const BUFFERS_MAX: usize = 256;

/// What the options of a file say beside places.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) clock: Option<String>,
    /// By the buffer's name.
    counted_lost: BTreeMap<String, u64>,
    left_out: BTreeMap<String, String>,
}

impl Options {
    /// Takes the text of a CPU's `stats` of a buffer.
    pub(super) fn add_statistics(&mut self, buffer: &str, text: &str) {
        if let Some(lost) = lost_in(text) {
            let counted = self.counted_lost.entry(buffer.to_owned()).or_default();
            *counted = counted.saturating_add(lost);
        }
        if let Some(words) = text.lines().find_map(|line| line.strip_prefix(LEFT_OUT)) {
            self.left_out.insert(buffer.to_owned(), words.to_owned());
        }
    }

    /// Events of a buffer that its statistics call lost.
    pub(super) fn counted_lost(&self, buffer: &str) -> Option<u64> {
        self.counted_lost.get(buffer).copied()
    }

    /// What of a buffer's events was left out by choice.
    pub(super) fn left_out(&self, buffer: &str) -> Option<String> {
        self.left_out.get(buffer).cloned()
    }

    /// Takes the clock's name, which stands at `offset`.
    pub(super) fn set_clock(&mut self, clock: &str, offset: u64) -> Result<(), TraceDatError> {
        self.clock = Some(usable_clock(clock, offset)?);
        Ok(())
    }
}

/// The clock, whose name stands at `offset`, if it counts nanoseconds.
pub(super) fn usable_clock(clock: &str, offset: u64) -> Result<String, TraceDatError> {
    if OTHER_UNITS.contains(&clock) {
        return Err(TraceDatError::Clock { offset, clock: clock.to_owned() });
    }
    Ok(clock.to_owned())
}

/// Begins a line behind a CPU's statistics that says, in the options of `surety trace record`, which events were left out by choice.
pub const LEFT_OUT: &str = "left out: ";

/// The name of the buffer whose statistics a text holds, where it says so.
pub(super) fn buffer_of(statistics: &str) -> Option<&str> {
    statistics.lines().find_map(|line| line.trim().strip_prefix("Buffer:")).map(str::trim)
}

/// An opened trace.dat file: its texts are read, its pages not yet.
#[derive(Clone, Debug)]
pub struct TraceDat<S> {
    source: S,
    version: u8,
    parts: Parts,
    /// The buffer that is read.
    chosen: Buffer,
}

impl<S: ReadAt> TraceDat<S> {
    /// Reads everything but the pages.
    ///
    /// # Errors
    /// [`TraceDatError`], each with the place in the file.
    pub fn open(source: S) -> Result<TraceDat<S>, TraceDatError> {
        let mut cursor = Cursor::new(&source);
        let version = read_start(&mut cursor)?;
        let parts = match version {
            6 => v6::read(&mut cursor)?,
            _ => v7::read(&mut cursor)?,
        };
        let main = parts.buffers.iter().find(|b| b.name.is_empty());
        let mut with_pages = parts.buffers.iter().filter(|b| !b.pages.is_empty());
        // A main buffer without events beside the only one that has some is not what anybody wants to see.
        let only = with_pages.next().filter(|_| with_pages.next().is_none());
        let chosen = main.filter(|b| !b.pages.is_empty()).or(only).or(main).or(parts.buffers.first());
        let chosen = chosen.cloned().ok_or_else(|| {
            damaged(cursor.offset(), "the file holds no buffer of events that can be read".to_owned())
        })?;
        Ok(TraceDat { version, parts, chosen, source })
    }

    /// The version of the file's format: 6 or 7.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// The events the file describes, and how they are decoded.
    pub fn table(&self) -> &EventTable {
        &self.parts.table
    }

    /// How its pages are laid out.
    pub fn layout(&self) -> PageLayout {
        self.chosen.layout
    }

    /// How many CPUs were recorded.
    pub fn cpus(&self) -> u32 {
        self.chosen.cpus
    }

    /// The clock of its times, where the file says: `mono`.
    pub fn clock(&self) -> Option<&str> {
        self.chosen.clock.as_deref()
    }

    /// Descriptions of events that could not be used; their records are counted as unknown.
    pub fn unusable(&self) -> &[FormatError] {
        &self.parts.unusable
    }

    /// Names of all buffers, the one of the main buffer empty. One is read: the main one, or the only one that has
    /// events, or what [`TraceDat::choose_buffer`] chose.
    pub fn buffers(&self) -> impl Iterator<Item = &str> {
        self.parts.buffers.iter().map(|buffer| buffer.name.as_str())
    }

    /// Names of the buffers that are not read.
    pub fn other_buffers(&self) -> Vec<&str> {
        self.buffers().filter(|name| *name != self.chosen.name).collect()
    }

    /// Reads this buffer from now on; whether there is one of that name.
    pub fn choose_buffer(&mut self, name: &str) -> bool {
        let Some(buffer) = self.parts.buffers.iter().find(|b| b.name == name) else { return false };
        self.chosen = buffer.clone();
        true
    }

    /// The pages of each CPU that has some.
    pub fn pages(&self) -> impl Iterator<Item = (CpuId, CpuSource<'_, S>)> {
        self.pages_with(Unpacking::new(self.parts.codec))
    }

    fn pages_with(&self, unpacking: Unpacking) -> impl Iterator<Item = (CpuId, CpuSource<'_, S>)> {
        self.chosen.pages.iter().map(move |pages| {
            let source = match &pages.stored {
                Stored::Plain { offset, length } => {
                    CpuSource::Plain(Window::new(&self.source, *offset, *length))
                }
                Stored::Packed(chunks) => CpuSource::Packed(Packed::new(&self.source, chunks, &unpacking)),
            };
            (pages.cpu, source)
        })
    }

    /// Reads all of it into `sink`; see [`RawPages::read_into`].
    ///
    /// # Errors
    /// A source that fails.
    pub fn read_into<K: TraceSink + ?Sized>(&mut self, sink: &mut K) -> Result<ReadSummary, TraceError> {
        let unpacking = Unpacking::new(self.parts.codec);
        let pages = self.pages_with(unpacking.clone());
        let mut summary =
            RawPages::new(self.parts.table.clone(), self.chosen.layout, pages).read_into(sink)?;
        // A CPU cut between two pages ends as if it were whole.
        summary.truncated = summary.truncated.max(self.chosen.cut);
        summary.counted_lost = self.chosen.counted_lost;
        summary.left_out.clone_from(&self.chosen.left_out);
        summary.faults = unpacking.faults();
        Ok(summary)
    }
}

impl<S: ReadAt> TraceReader for TraceDat<S> {
    fn description(&self) -> Description {
        Description {
            format: format!("trace.dat, version {}", self.version),
            cpus: Some(self.cpus()),
            clock: self.clock().map(str::to_owned),
        }
    }

    fn unread(&self) -> Vec<String> {
        let mut unread: Vec<String> = self.unusable().iter().map(ToString::to_string).collect();
        unread.extend(self.parts.unread.iter().cloned());
        unread.extend(self.other_buffers().into_iter().map(|name| match name {
            "" => "the main buffer".to_owned(),
            name => format!("the further buffer {name}"),
        }));
        unread
    }

    fn buffers(&self) -> Vec<String> {
        TraceDat::buffers(self).map(str::to_owned).collect()
    }

    fn choose_buffer(&mut self, name: &str) -> bool {
        TraceDat::choose_buffer(self, name)
    }

    fn keep_undecoded(&mut self) {
        self.parts.table.keep_undecoded();
    }

    fn read(&mut self, sink: &mut dyn TraceSink) -> Result<ReadSummary, TraceError> {
        self.read_into(sink)
    }
}

/// The pages of one CPU of a file, packed or not, as a source of whole pages.
#[derive(Debug)]
pub enum CpuSource<'a, S> {
    /// They stand in the file as the kernel made them.
    Plain(Window<'a, S>),
    /// They are unpacked piece by piece.
    Packed(Packed<'a, S>),
}

impl<S: ReadAt> ReadAt for CpuSource<'_, S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            CpuSource::Plain(window) => window.read_at(offset, buf),
            CpuSource::Packed(packed) => packed.read_at(offset, buf),
        }
    }

    fn len(&self) -> u64 {
        match self {
            CpuSource::Plain(window) => window.len(),
            CpuSource::Packed(packed) => packed.len(),
        }
    }
}

pub(super) fn damaged(offset: u64, what: String) -> TraceDatError {
    TraceDatError::Damaged { offset, what }
}

/// The magic, the version, the byte order; the sizes behind them are the recording program's. Returns the version.
fn read_start<S: ReadAt + ?Sized>(cursor: &mut Cursor<'_, S>) -> Result<u8, TraceDatError> {
    if !cursor.is_next(MAGIC)? {
        return Err(TraceDatError::Foreign);
    }
    let version = match cursor.name("the version")?.as_str() {
        "6" => 6,
        "7" => 7,
        other => return Err(TraceDatError::Version { version: other.to_owned() }),
    };
    let at = cursor.offset();
    cursor.endian = match cursor.u8("the byte order")? {
        0 => Endian::Little,
        1 => Endian::Big,
        other => return Err(damaged(at, format!("{other} is no byte order"))),
    };
    cursor.u8("the size of a long")?;
    cursor.u32("the page size")?;
    Ok(version)
}

/// The text that describes pages, behind its tag.
pub(super) fn read_layout<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
) -> Result<PageLayout, TraceDatError> {
    let at = cursor.offset();
    let text = cursor.text64("the description of pages")?;
    let layout = parse_header_page(&text).map_err(|error| damaged(at, error.to_string()))?;
    if layout.page_size() > PAGE_MAX {
        return Err(damaged(at, format!("no kernel has pages of {} bytes", layout.page_size())));
    }
    Ok(layout)
}

/// `(system, format text)` of the tracer's own events.
pub(super) fn read_events<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
) -> Result<Vec<(String, String)>, TraceDatError> {
    let own = cursor.u32("the number of the tracer's own events")?;
    (0..own).map(|_| Ok(("ftrace".to_owned(), cursor.text64("an event's format")?))).collect()
}

/// `(system, format text)` of every other event.
pub(super) fn read_systems<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
) -> Result<Vec<(String, String)>, TraceDatError> {
    let mut formats = Vec::new();
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

/// The kernel's symbol table, behind its length. It is passed over where none of these events, `(system, format text)`, has
/// the address of a function.
pub(super) fn read_symbols<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    formats: &[(String, String)],
) -> Result<Symbols, TraceDatError> {
    if !formats.iter().any(|(system, _)| has_functions(system)) {
        cursor.skip32("the symbol table")?;
        return Ok(Symbols::default());
    }
    let mut reader = SymbolReader::default();
    cursor.pieces32("the symbol table", |piece| reader.take(piece))?;
    Ok(reader.finish())
}

/// How many CPUs were recorded.
pub(super) fn read_cpus<S: ReadAt + ?Sized>(cursor: &mut Cursor<'_, S>) -> Result<u32, TraceDatError> {
    let at = cursor.offset();
    let cpus = cursor.u32("the number of CPUs")?;
    if cpus > CPUS_MAX { Err(damaged(at, format!("no machine has {cpus} CPUs"))) } else { Ok(cpus) }
}

/// The clock in brackets: `local global [mono] boot`.
pub(super) fn chosen_clock(text: &str) -> Option<&str> {
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

    #[test]
    fn the_symbol_table_is_read_where_an_event_has_functions() {
        let text = b"ffffffff8141e4b0 t hrtimer_wakeup\n";
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(text);
        for (system, is_read) in [("timer", true), ("sched", false)] {
            let formats = [("ftrace".to_owned(), String::new()), (system.to_owned(), String::new())];
            let mut cursor = Cursor::new(&bytes);
            let symbols = read_symbols(&mut cursor, &formats).unwrap();
            assert_eq!((!symbols.is_empty(), cursor.offset()), (is_read, bytes.len() as u64));
            let cut = bytes[..bytes.len() - 1].to_vec();
            assert!(read_symbols(&mut Cursor::new(&cut), &formats).is_err(), "{system}");
        }
    }
}
