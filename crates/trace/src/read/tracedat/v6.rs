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
//! A further buffer (option 3: u64 offset, name) has a table of its own, with its tag, at that offset; it may have options
//! before it. The kernel's long is the one of the header_page text; the user's may differ and is of no use.

use surety_units::CpuId;

use crate::decode::EventTable;
use crate::page::PageLayout;
use crate::read::tracedat::codec::Codec;
use crate::read::tracedat::cursor::Cursor;
use crate::read::tracedat::{
    BUFFERS_MAX, Buffer, CpuPages, HEADER_EVENT, HEADER_PAGE, OPTION_BUFFER, OPTION_CPUSTAT,
    OPTION_TRACECLOCK, Options, Parts, Stored, TraceDatError, buffer_of, chosen_clock, damaged, read_cpus,
    read_events, read_layout, read_symbols, read_systems,
};
use crate::source::ReadAt;

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
    let symbols = read_symbols(cursor, &formats)?;
    let print_formats = cursor.text32("the printk formats")?;
    cursor.skip64("the names of threads")?;
    let pairs = formats.iter().map(|(system, text)| (system.as_str(), text.as_str()));
    let (table, unusable) = EventTable::of_usable(cursor.endian, pairs, symbols);
    let table = table.with_print_formats(&print_formats, layout.long_size());
    let cpus = read_cpus(cursor)?;
    let mut options = Options::default();
    let mut further = Vec::new();
    read_tag(cursor, &mut options, &mut further)?;
    let mut claimed = Claimed::default();
    let (pages, cut) = read_table(cursor, cpus, layout, &mut claimed)?;
    let of = |name: String, (pages, cut)| Buffer {
        clock: options.clock.clone(),
        counted_lost: options.counted_lost(&name),
        left_out: options.left_out(&name),
        name,
        layout,
        cpus,
        pages,
        cut,
    };
    let mut buffers = vec![of(String::new(), (pages, cut))];
    let mut unread = Vec::new();
    for (count, (offset, name)) in further.into_iter().enumerate() {
        let mut table = || {
            cursor.seek(offset, "a further buffer")?;
            if count >= BUFFERS_MAX {
                return Err(damaged(offset, format!("more than {BUFFERS_MAX} buffers are not read")));
            }
            read_tag(cursor, &mut Options::default(), &mut Vec::new())?;
            read_table(cursor, cpus, layout, &mut claimed)
        };
        match table() {
            Ok(table) => buffers.push(of(name, table)),
            Err(error) => {
                if unread.len() < BUFFERS_MAX {
                    unread.push(format!("the further buffer {name}: {error}"));
                }
            }
        }
    }
    Ok(Parts { table, unusable, buffers, unread, codec: Codec::None })
}

/// Everything before a table of pages: options, if there are any, and the tag.
fn read_tag<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    options: &mut Options,
    further: &mut Vec<(u64, String)>,
) -> Result<(), TraceDatError> {
    let mut at = cursor.offset();
    let mut tag = cursor.bytes(OPTIONS.len() as u64, "the kind of the data")?;
    if tag == OPTIONS {
        read_options(cursor, options, further)?;
        at = cursor.offset();
        tag = cursor.bytes(FLYRECORD.len() as u64, "the kind of the data")?;
    }
    match tag.as_slice() {
        FLYRECORD => Ok(()),
        LATENCY => Err(TraceDatError::Latency { offset: at }),
        _ => Err(damaged(at, "neither options nor pages begin here".to_owned())),
    }
}

/// The options up to their end; names of further buffers with the places of their tables.
fn read_options<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    options: &mut Options,
    further: &mut Vec<(u64, String)>,
) -> Result<(), TraceDatError> {
    loop {
        let id = cursor.u16("an option's number")?;
        if id == 0 {
            return Ok(());
        }
        let length = cursor.u32("an option's length")?;
        let offset = cursor.offset();
        match id {
            OPTION_CPUSTAT => {
                let text = cursor.text(length.into(), "the statistics of a CPU")?;
                // Those that do not say whose they are stand behind their buffer's option.
                let last = further.last().map_or("", |(_, name)| name.as_str());
                options.add_statistics(buffer_of(&text).unwrap_or(last), &text);
            }
            OPTION_TRACECLOCK => {
                let text = cursor.text(length.into(), "the clock")?;
                if let Some(clock) = chosen_clock(&text) {
                    options.set_clock(clock, offset)?;
                }
            }
            OPTION_BUFFER if length >= 8 => {
                let place = cursor.u64("where a buffer is")?;
                let bytes = cursor.bytes(u64::from(length) - 8, "the name of a buffer")?;
                // The main buffer's is empty.
                let name = bytes.split(|b| *b == 0).next().unwrap_or_default();
                if !name.is_empty() {
                    further.push((place, String::from_utf8_lossy(name).into_owned()));
                }
            }
            _ => cursor.skip(length.into(), "an option")?,
        }
    }
}

/// What the CPUs of all buffers say they have.
#[derive(Default)]
struct Claimed {
    bytes: u64,
    cpus: u64,
}

/// Where the pages of each CPU are, and how many CPUs the file's end cuts.
fn read_table<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    cpus: u32,
    layout: PageLayout,
    claimed: &mut Claimed,
) -> Result<(Vec<CpuPages>, u64), TraceDatError> {
    let (at, file) = (cursor.offset(), cursor.length());
    let (mut pages, mut cut) = (Vec::new(), 0);
    for cpu in 0..cpus {
        let offset = cursor.u64("where the pages of a CPU are")?;
        let length = cursor.u64("how long the pages of a CPU are")?;
        let there = length.min(file.saturating_sub(offset));
        cut += u64::from(there < length);
        if there > 0 {
            claimed.bytes = claimed.bytes.saturating_add(there);
            claimed.cpus += 1;
            pages.push(CpuPages { cpu: CpuId(cpu), stored: Stored::Plain { offset, length: there } });
        }
    }
    // CPUs share no byte, so what all of them claim fits the file, and so does the page of memory that each costs while
    // it is read (the last one's may be cut).
    let memory = claimed.cpus.saturating_sub(1) * layout.page_size() as u64;
    if claimed.bytes.max(memory) > file {
        return Err(damaged(at, format!("{} CPUs have more pages than the file has room for", pages.len())));
    }
    Ok((pages, cut))
}
