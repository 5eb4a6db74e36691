//! The trace.dat file of version 6, as trace-cmd, other recorders and [`crate::write::tracedat`] make it.
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

use surety_units::CpuId;

use super::tracedat::codec::Codec;
use super::tracedat::cursor::Cursor;
use super::tracedat::{
    CpuPages, HEADER_EVENT, HEADER_PAGE, OPTION_BUFFER, OPTION_CPUSTAT, OPTION_TRACECLOCK, Options, Parts,
    Stored, TraceDatError, chosen_clock, damaged, read_cpus, read_events, read_layout, read_systems,
};
use crate::decode::EventTable;
use crate::page::PageLayout;
use crate::source::ReadAt;
use crate::symbols::Symbols;

/// Tags between the parts of a file.
pub(crate) const OPTIONS: &[u8] = b"options  \0";
pub(crate) const FLYRECORD: &[u8] = b"flyrecord\0";
const LATENCY: &[u8] = b"latency  \0";

/// Everything but the pages; the cursor stands behind the start that all versions share.
pub(super) fn read<S: ReadAt + ?Sized>(cursor: &mut Cursor<'_, S>) -> Result<Parts, TraceDatError> {
    cursor.tag(HEADER_PAGE)?;
    let layout = read_layout(cursor)?;
    cursor.tag(HEADER_EVENT)?;
    cursor.skip64("the description of event headers")?;
    let mut formats = read_events(cursor)?;
    formats.extend(read_systems(cursor)?);
    let symbols = Symbols::parse(&cursor.text32("the symbol table")?);
    cursor.skip32("the printk formats")?;
    cursor.skip64("the names of threads")?;
    let pairs = formats.iter().map(|(system, text)| (system.as_str(), text.as_str()));
    let (table, unusable) = EventTable::of_usable(cursor.endian, pairs, symbols);
    let cpus = read_cpus(cursor)?;
    let (options, tag_at, tag) = read_options(cursor)?;
    match tag.as_slice() {
        FLYRECORD => {}
        LATENCY => return Err(TraceDatError::Latency { offset: tag_at }),
        _ => return Err(damaged(tag_at, "neither options nor pages begin here".to_owned())),
    }
    let (pages, cut) = read_table(cursor, cpus, layout)?;
    Ok(Parts { layout, table, unusable, cpus, pages, cut, options, codec: Codec::None })
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
                options.add_statistics(&cursor.text(length.into(), "the statistics of a CPU")?);
            }
            OPTION_TRACECLOCK => {
                let text = cursor.text(length.into(), "the clock")?;
                if let Some(clock) = chosen_clock(&text) {
                    options.set_clock(clock, offset)?;
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

/// Where the pages of each CPU are, and how many CPUs the file's end cuts.
fn read_table<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    cpus: u32,
    layout: PageLayout,
) -> Result<(Vec<CpuPages>, u64), TraceDatError> {
    let (at, file) = (cursor.offset(), cursor.length());
    let (mut pages, mut cut, mut claimed) = (Vec::new(), 0, 0u64);
    for cpu in 0..cpus {
        let offset = cursor.u64("where the pages of a CPU are")?;
        let length = cursor.u64("how long the pages of a CPU are")?;
        let there = length.min(file.saturating_sub(offset));
        cut += u64::from(there < length);
        if there > 0 {
            claimed = claimed.saturating_add(there);
            pages.push(CpuPages { cpu: CpuId(cpu), stored: Stored::Plain { offset, length: there } });
        }
    }
    // CPUs share no byte, so what all of them claim fits the file, and so does the page of memory that each costs while
    // it is read (the last one's may be cut).
    let memory = (pages.len() as u64).saturating_sub(1) * layout.page_size() as u64;
    if claimed.max(memory) > file {
        return Err(damaged(at, format!("{} CPUs have more pages than the file has room for", pages.len())));
    }
    Ok((pages, cut))
}
