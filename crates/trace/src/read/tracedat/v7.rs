//! The trace.dat file of version 7, as trace-cmd 3 makes it: sections, found through lists of options.
//!
//! The file (trace-cmd's `Documentation/trace-cmd/trace-cmd.dat.v7.5.txt`); numbers are in the file's byte order:
//!
//! ```text
//! 17 08 44 "tracing" "7\0"   u8 big endian?   u8 size of a user's long   u32 page size
//! "none", "zlib" or "zstd" \0   its version \0        u64 offset of the first list of options
//!
//! section: u16 number   u16 flags (1: packed)   u32 place of its name   u64 length        then so many bytes
//! packed:  u32 packed length   u32 length   packed bytes
//! list of options, a section: (u16 number, u32 length, bytes)*   u16 0   u32 8   u64 offset of the next list, 0 for none
//! ```
//!
//! | option | bytes | section or meaning |
//! |---|---|---|
//! | 2 | text | a CPU's statistics |
//! | 3 | u64 offset, name \0, clock \0, u32 page size, u32 count, each: u32 CPU, u64 offset, u64 length | a buffer; its section's flag says whether the pages are packed ([`crate::read::tracedat::chunks`]) |
//! | 4 | text | clocks, the one used in brackets |
//! | 8 | u32 | CPUs |
//! | 16 | u64 offset | `header_page\0`, u64 length, text, `header_event\0`, u64 length, text |
//! | 17 | u64 offset | u32 count of the tracer's own events, each: u64 length, format text |
//! | 18 | u64 offset | u32 count of systems, each: name \0, u32 count, each: u64 length, format text |
//! | 19 | u64 offset | u32 length, kallsyms |
//! | 20 | u64 offset | u32 length, printk formats |
//! | 22 | | a latency tracer's text |
//!
//! Options not named here are passed over by their length. The buffer without a name is the main one.
//!
//! Lists of options have to follow each other, a text is read once, and unpacked texts share one limit: so the work is
//! bounded by the file's length and that limit.

use ruzstd::decoding::FrameDecoder;
use surety_units::CpuId;

use crate::decode::EventTable;
use crate::page::PageLayout;
use crate::read::tracedat::chunks::read_chunks;
use crate::read::tracedat::codec::Codec;
use crate::read::tracedat::cursor::Cursor;
use crate::read::tracedat::{
    BUFFERS_MAX, Buffer, CPUS_MAX, CpuPages, HEADER_EVENT, HEADER_PAGE, OPTION_BUFFER, OPTION_CPUSTAT,
    OPTION_TRACECLOCK, Options, PAGE_MAX, Parts, Stored, TraceDatError, buffer_of, chosen_clock, damaged,
    read_cpus, read_events, read_layout, read_symbols, read_systems, usable_clock,
};
use crate::source::ReadAt;
use crate::symbols::Symbols;

/// Options by their number; those of version 6 keep theirs.
pub(crate) const DONE: u16 = 0;
pub(crate) const CPUCOUNT: u16 = 8;
pub(crate) const HEADER_INFO: u16 = 16;
pub(crate) const FTRACE_EVENTS: u16 = 17;
pub(crate) const EVENT_FORMATS: u16 = 18;
pub(crate) const KALLSYMS: u16 = 19;
pub(crate) const PRINTK: u16 = 20;
const BUFFER_TEXT: u16 = 22;
/// The flag of a packed section.
pub(crate) const PACKED: u16 = 1;
/// All unpacked texts of a file together. Symbols of large kernels take about 20 MiB.
const TEXTS_MAX: u64 = 128 << 20;
/// Pages and unpacked pieces held at one time, one of each for every CPU.
const HELD_MAX: u64 = 256 << 20;

/// A section of texts.
struct Section {
    bytes: Vec<u8>,
    /// Where its bytes are in the file.
    offset: u64,
    packed: bool,
}

impl Section {
    /// Reads it; an error inside gets its place in the file.
    fn read<T>(
        &self,
        cursor: &Cursor<'_, impl ReadAt + ?Sized>,
        read: impl FnOnce(&mut Cursor<'_, Vec<u8>>) -> Result<T, TraceDatError>,
    ) -> Result<T, TraceDatError> {
        let mut inside = Cursor::new(&self.bytes);
        inside.endian = cursor.endian;
        read(&mut inside).map_err(|error| match error {
            TraceDatError::Damaged { offset, what } if self.packed => {
                damaged(self.offset, format!("byte {offset} of what is packed here: {what}"))
            }
            TraceDatError::Damaged { offset, what } => damaged(self.offset.saturating_add(offset), what),
            other => other,
        })
    }
}

/// What the lists of options say.
#[derive(Default)]
struct Found {
    options: Options,
    cpus: Option<u32>,
    /// Offsets of sections.
    header: Option<u64>,
    own_events: Option<u64>,
    formats: Option<u64>,
    symbols: Option<u64>,
    print_formats: Option<u64>,
    buffers: Vec<BufferOption>,
    latency: Option<u64>,
    /// Statistics that follow and do not say whose they are are of this buffer.
    statistics_of: String,
}

/// What a list of options says of a buffer.
struct BufferOption {
    /// Where the option is.
    at: u64,
    section: u64,
    name: String,
    clock: String,
    page_size: u32,
    /// CPU, offset, length.
    cpus: Vec<(u32, u64, u64)>,
}

/// Everything but the pages; the cursor stands behind the start that all versions share.
pub(super) fn read<S: ReadAt + ?Sized>(cursor: &mut Cursor<'_, S>) -> Result<Parts, TraceDatError> {
    let offset = cursor.offset();
    let name = cursor.name("the compression's name")?;
    let codec = Codec::of(&name).ok_or(TraceDatError::Compression { offset, name })?;
    cursor.name("the compression's version")?;
    let at = cursor.offset();
    let first = cursor.u64("where the options are")?;
    if first == 0 {
        return Err(damaged(at, "the file has no options, its recording was not finished".to_owned()));
    }
    let mut unpacker = Unpacker { codec, decoder: FrameDecoder::new(), left: TEXTS_MAX };
    let mut found = Found::default();
    let mut next = first;
    while next != 0 {
        if next < cursor.offset() {
            return Err(damaged(next, "this list of options lies before what leads to it".to_owned()));
        }
        let section = unpacker.section(cursor, next, DONE, "a list of options")?;
        next = section.read(cursor, |inside| read_options(inside, section.offset, &mut found))?;
    }
    let missing = |what: &str| damaged(first, format!("no option of the file says where {what} is"));
    let header = found.header.ok_or_else(|| missing("the description of pages"))?;
    let header = unpacker.section(cursor, header, HEADER_INFO, "the description of pages")?;
    let layout = header.read(cursor, |inside| {
        inside.tag(HEADER_PAGE)?;
        let layout = read_layout(inside)?;
        inside.tag(HEADER_EVENT)?;
        Ok(layout)
    })?;
    let mut formats = Vec::new();
    if let Some(offset) = found.own_events {
        let section = unpacker.section(cursor, offset, FTRACE_EVENTS, "the tracer's own events")?;
        formats.extend(section.read(cursor, read_events)?);
    }
    if let Some(offset) = found.formats {
        let section = unpacker.section(cursor, offset, EVENT_FORMATS, "the events' formats")?;
        formats.extend(section.read(cursor, read_systems)?);
    }
    let mut symbols = Symbols::default();
    if let Some(offset) = found.symbols {
        let section = unpacker.section(cursor, offset, KALLSYMS, "the symbol table")?;
        symbols = section.read(cursor, |inside| read_symbols(inside, &formats))?;
    }
    let mut print_formats = String::new();
    if let Some(offset) = found.print_formats {
        let section = unpacker.section(cursor, offset, PRINTK, "the printk formats")?;
        print_formats = section.read(cursor, |inside| inside.text32("the printk formats"))?;
    }
    let pairs = formats.iter().map(|(system, text)| (system.as_str(), text.as_str()));
    let (table, unusable) = EventTable::of_usable(cursor.endian, pairs, symbols);
    let table = table.with_print_formats(&print_formats, layout.long_size());
    if found.buffers.is_empty() {
        return Err(match found.latency {
            Some(offset) => TraceDatError::Latency { offset },
            None => missing("a buffer of events"),
        });
    }
    let main = found.buffers.iter().position(|b| b.name.is_empty()).unwrap_or(0);
    let (mut buffers, mut unread, mut claimed) = (Vec::new(), Vec::new(), 0);
    // The main buffer first: what is wrong with it is wrong with the file.
    let others = found.buffers.iter().enumerate().filter(|(place, _)| *place != main).map(|(_, b)| b);
    for (place, option) in found.buffers.get(main).into_iter().chain(others).enumerate() {
        let read = if place < BUFFERS_MAX {
            read_whole_buffer(cursor, option, &found, layout, &mut claimed)
        } else {
            Err(damaged(option.at, format!("more than {BUFFERS_MAX} buffers are not read")))
        };
        match read {
            Ok(buffer) => buffers.push(buffer),
            Err(error) if place == 0 => return Err(error),
            Err(error) if unread.len() < BUFFERS_MAX => {
                unread.push(format!("the further buffer {}: {error}", option.name));
            }
            Err(_) => {}
        }
    }
    Ok(Parts { table, unusable, buffers, unread, codec })
}

/// A buffer with its clock, its layout and its pages.
fn read_whole_buffer<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    option: &BufferOption,
    found: &Found,
    layout: PageLayout,
    claimed: &mut u64,
) -> Result<Buffer, TraceDatError> {
    let clock = usable_clock(&option.clock, option.at)?;
    let layout = page_layout(layout, option)?;
    let (pages, cut) = read_buffer(cursor, option, layout, claimed)?;
    let most = option.cpus.iter().map(|(cpu, ..)| cpu + 1).max().unwrap_or(0);
    Ok(Buffer {
        counted_lost: found.options.counted_lost(&option.name),
        left_out: found.options.left_out(&option.name),
        name: option.name.clone(),
        clock: Some(clock),
        layout,
        cpus: found.cpus.unwrap_or(0).max(most),
        pages,
        cut,
    })
}

/// What reads sections of texts.
struct Unpacker {
    codec: Codec,
    decoder: FrameDecoder,
    /// So many bytes may still be unpacked.
    left: u64,
}

impl Unpacker {
    /// The section at `offset`, which must have this number; the cursor stands behind it then.
    fn section<S: ReadAt + ?Sized>(
        &mut self,
        cursor: &mut Cursor<'_, S>,
        offset: u64,
        number: u16,
        what: &str,
    ) -> Result<Section, TraceDatError> {
        let (flags, length) = section_head(cursor, offset, number, what)?;
        let offset = cursor.offset();
        if flags & PACKED == 0 {
            return Ok(Section { bytes: cursor.bytes(length, what)?, offset, packed: false });
        }
        let packed = u64::from(cursor.u32(what)?);
        let unpacked = u64::from(cursor.u32(what)?);
        if packed.checked_add(8) != Some(length) {
            return Err(damaged(
                offset,
                format!("{what} of {length} bytes cannot hold {packed} packed ones"),
            ));
        }
        let left = self.left.checked_sub(unpacked);
        self.left = left.ok_or_else(|| {
            damaged(offset, format!("{what} would unpack to {unpacked} bytes, more than are read"))
        })?;
        let bytes = cursor.bytes(packed, what)?;
        // Bounded by the limit above, so it fits.
        let bytes = self
            .codec
            .unpack(&mut self.decoder, &bytes, unpacked as usize)
            .map_err(|why| damaged(offset, format!("{what}: {why}")))?;
        Ok(Section { bytes, offset, packed: true })
    }
}

/// Flags and length of the section at `offset`; the cursor stands behind its head then.
fn section_head<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    offset: u64,
    number: u16,
    what: &str,
) -> Result<(u16, u64), TraceDatError> {
    cursor.seek(offset, what)?;
    let found = cursor.u16(what)?;
    if found != number {
        return Err(damaged(offset, format!("{what} should begin here, not section {found}")));
    }
    let flags = cursor.u16(what)?;
    cursor.skip(4, what)?;
    Ok((flags, cursor.u64(what)?))
}

/// One list of options, whose first byte is at `base` in the file; returns where the next one is.
fn read_options(
    cursor: &mut Cursor<'_, Vec<u8>>,
    base: u64,
    found: &mut Found,
) -> Result<u64, TraceDatError> {
    loop {
        let at = base.saturating_add(cursor.offset());
        let id = cursor.u16("an option's number")?;
        let length = u64::from(cursor.u32("an option's length")?);
        let end = cursor.offset().saturating_add(length);
        let mut place = |slot: &mut Option<u64>| -> Result<(), TraceDatError> {
            let offset = cursor.u64("where a section is")?;
            slot.get_or_insert(offset);
            Ok(())
        };
        match id {
            DONE => return cursor.u64("where the next options are"),
            HEADER_INFO => place(&mut found.header)?,
            FTRACE_EVENTS => place(&mut found.own_events)?,
            EVENT_FORMATS => place(&mut found.formats)?,
            KALLSYMS => place(&mut found.symbols)?,
            PRINTK => place(&mut found.print_formats)?,
            BUFFER_TEXT => found.latency = found.latency.or(Some(at)),
            CPUCOUNT => found.cpus = Some(read_cpus(cursor)?),
            OPTION_BUFFER => found.buffers.push(read_buffer_option(cursor, at, end)?),
            OPTION_CPUSTAT => {
                let text = cursor.text(length, "the statistics of a CPU")?;
                if let Some(name) = buffer_of(&text) {
                    found.statistics_of = name.to_owned();
                }
                found.options.add_statistics(&found.statistics_of, &text);
            }
            OPTION_TRACECLOCK => {
                let text = cursor.text(length, "the clock")?;
                if let Some(clock) = chosen_clock(&text) {
                    found.options.set_clock(clock, at)?;
                }
            }
            _ => {}
        }
        if cursor.offset() > end {
            return Err(damaged(cursor.offset(), format!("option {id} is longer than it says")));
        }
        cursor.seek(end, "an option")?;
    }
}

/// The option of a buffer, which ends at `end`.
fn read_buffer_option(
    cursor: &mut Cursor<'_, Vec<u8>>,
    at: u64,
    end: u64,
) -> Result<BufferOption, TraceDatError> {
    let section = cursor.u64("where a buffer is")?;
    let name = cursor.name("the name of a buffer")?;
    let clock = cursor.name("the clock of a buffer")?;
    // A buffer that holds text has no more.
    if cursor.offset() >= end {
        return Ok(BufferOption { at, section, name, clock, page_size: 0, cpus: Vec::new() });
    }
    let page_size = cursor.u32("the page size of a buffer")?;
    let count = cursor.u32("the number of CPUs of a buffer")?;
    let mut cpus = Vec::new();
    for _ in 0..count {
        let place = cursor.offset();
        let cpu = cursor.u32("the number of a CPU")?;
        if cpu >= CPUS_MAX {
            return Err(damaged(place, format!("no machine has a CPU {cpu}")));
        }
        let offset = cursor.u64("where the pages of a CPU are")?;
        cpus.push((cpu, offset, cursor.u64("how long the pages of a CPU are")?));
    }
    Ok(BufferOption { at, section, name, clock, page_size, cpus })
}

/// The layout of a buffer's pages, which may be larger than the kernel's own.
fn page_layout(layout: PageLayout, buffer: &BufferOption) -> Result<PageLayout, TraceDatError> {
    let size = buffer.page_size as usize;
    if size == 0 || size == layout.page_size() {
        return Ok(layout);
    }
    let other = layout.with_page_size(size).filter(|_| size <= PAGE_MAX);
    other.ok_or_else(|| damaged(buffer.at, format!("no kernel has pages of {size} bytes")))
}

/// Where the pages of each CPU are, and how many CPUs the file's end cuts.
fn read_buffer<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    buffer: &BufferOption,
    layout: PageLayout,
    claimed: &mut u64,
) -> Result<(Vec<CpuPages>, u64), TraceDatError> {
    let (flags, _) = section_head(cursor, buffer.section, OPTION_BUFFER, "a buffer of events")?;
    let file = cursor.length();
    let (mut pages, mut cut, mut held) = (Vec::new(), 0, 0u64);
    for &(cpu, offset, length) in &buffer.cpus {
        let there = length.min(file.saturating_sub(offset));
        *claimed = claimed.saturating_add(there);
        // CPUs and buffers share no byte: this also bounds the work below.
        if *claimed > file {
            let what = format!("{} CPUs have more pages than the file has room for", buffer.cpus.len());
            return Err(damaged(buffer.at, what));
        }
        if length == 0 {
            continue;
        }
        held += layout.page_size() as u64;
        let stored = if flags & PACKED == 0 {
            cut += u64::from(there < length);
            Stored::Plain { offset, length: there }
        } else {
            cursor.seek(offset.min(file), "the pages of a CPU")?;
            // The length counts the pieces, not the word before them.
            let (chunks, is_cut) = read_chunks(cursor, offset.saturating_add(length).saturating_add(4))?;
            cut += u64::from(is_cut);
            held += chunks.iter().map(|c| u64::from(c.length)).max().unwrap_or(0);
            Stored::Packed(chunks)
        };
        if held > HELD_MAX {
            let what = "the pages of so many CPUs at one time are more than are held".to_owned();
            return Err(damaged(buffer.at, what));
        }
        pages.push(CpuPages { cpu: CpuId(cpu), stored });
    }
    Ok((pages, cut))
}
