//! A recording as a trace.dat file of version 7: sections one behind the other, found through two lists of options.
//!
//! The layout stands in `read/tracedat/v7.rs`. Programs look for the names of sections by walking all of them from the
//! first on, so every byte behind the head belongs to a section and the names come last. The first list of options is
//! written before the pages and the second, which says where those are, behind them; the link between the two and the
//! lengths known only afterwards are put in at the end, which is why the output has to seek.
//!
//! Pages that are not compressed begin on a border of the page size, since programs map them. Compressed ones are packed
//! in pieces of [`PIECE_PAGES`] pages, so that no reader has to unpack more than that at one time.

use std::io::{Seek, SeekFrom, Write};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use surety_units::CpuId;

use crate::endian::Endian;
use crate::format::parse_header_page;
use crate::read::tracedat::v7::{
    CPUCOUNT, DONE, EVENT_FORMATS, FTRACE_EVENTS, HEADER_INFO, KALLSYMS, PACKED, PRINTK,
};
use crate::read::tracedat::{
    HEADER_EVENT, HEADER_PAGE, MAGIC, OPTION_BUFFER, OPTION_CPUSTAT, OPTION_TRACECLOCK,
};
use crate::source::{ReadAt, read_full};
use crate::write::tracedat::{Compression, Head, TraceDatContent, TraceDatWriteError, copy, pad};

/// Sections that only writers know.
const STRINGS: u16 = 15;
const CMDLINES: u16 = 21;
/// Pages of one packed piece.
const PIECE_PAGES: u64 = 10;
/// miniz_oxide's middle level: higher ones take more time than they save room.
const ZLIB_LEVEL: u8 = 6;

impl Compression {
    /// Name and version, as the head of a file says them. The version is that of the format's own library that writes
    /// the same; readers that compare look at its first number.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Compression::None => ("none", ""),
            Compression::Zlib => ("zlib", "1.3"),
            Compression::Zstd => ("zstd", "1.5.4"),
        }
    }

    fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Compression::None => bytes.to_vec(),
            Compression::Zlib => miniz_oxide::deflate::compress_to_vec_zlib(bytes, ZLIB_LEVEL),
            Compression::Zstd => compress_to_vec(bytes, CompressionLevel::Fastest),
        }
    }
}

/// Writes the whole file and returns its length.
pub(crate) fn write<S: ReadAt, W: Write + Seek>(
    content: &TraceDatContent<'_, S>,
    compression: Compression,
    out: &mut W,
) -> Result<u64, TraceDatWriteError> {
    let layout = parse_header_page(content.header_page)?;
    let page = layout.page_size() as u64;
    let cpus = content.cpus()?;
    let mut file = File { endian: content.endian, compression, out, at: 0, names: Vec::new() };
    let mut head = file.head();
    head.bytes.extend(MAGIC);
    head.bytes.extend(b"7\0");
    head.bytes.push(u8::from(content.endian == Endian::Big));
    head.bytes.push(layout.long_size());
    head.u32(page, "a page")?;
    let (name, version) = compression.words();
    for word in [name, version] {
        head.bytes.extend(word.bytes());
        head.bytes.push(0);
    }
    let first = head.bytes.len() as u64;
    head.u64(0);
    file.put(&head.bytes)?;

    let mut places = Head { endian: content.endian, bytes: Vec::new() };
    for (number, name, text) in texts(content)? {
        let at = file.text_section(number, name, &text)?;
        places.place(number, at);
    }
    for text in &content.statistics {
        places.option(OPTION_CPUSTAT, text)?;
    }
    places.option(OPTION_TRACECLOCK, &format!("[{}]", content.clock))?;
    places.u16(CPUCOUNT);
    places.u32(4, "an option")?;
    places.u32(cpus.into(), "the list of CPUs")?;
    let options = file.options(places)?;
    // The last eight bytes of a list say where the next one is.
    let link = file.at - 8;

    let packed = compression != Compression::None;
    let buffer = file.section(OPTION_BUFFER, u16::from(packed) * PACKED, "buffer flyrecord", 0)?;
    let start = file.at;
    let mut table = Vec::new();
    for (cpu, source) in &content.pages {
        let (at, length) =
            if packed { file.pieces(*cpu, source, page)? } else { file.plain(*cpu, source, page)? };
        table.push((*cpu, at, length));
    }
    if !packed {
        let end = file.at.next_multiple_of(page);
        pad(file.out, &mut file.at, end)?;
    }
    let length = file.at - start;

    let mut last = file.head();
    last.u16(OPTION_BUFFER);
    // The place, the main buffer's empty name, the clock, the page size, the number of CPUs, the CPUs.
    let bytes = 8 + 1 + content.clock.len() as u64 + 1 + 4 + 4 + 20 * table.len() as u64;
    last.u32(bytes, "the clock's name")?;
    last.u64(buffer);
    last.bytes.push(0);
    last.bytes.extend(content.clock.bytes());
    last.bytes.push(0);
    last.u32(page, "a page")?;
    last.u32(table.len() as u64, "the list of CPUs")?;
    for (cpu, at, length) in table {
        last.u32(cpu.0.into(), "a CPU")?;
        last.u64(at);
        last.u64(length);
    }
    let second = file.options(last)?;
    file.strings()?;
    let end = file.at;
    for (at, value) in [(first, options), (link, second), (buffer + 8, length)] {
        file.patch(at, value)?;
    }
    file.out.seek(SeekFrom::Start(end))?;
    file.out.flush()?;
    Ok(end)
}

/// A section of text: its number, its name, its bytes.
type Section = (u16, &'static str, Vec<u8>);

/// Every section of texts.
fn texts<S: ReadAt>(content: &TraceDatContent<'_, S>) -> Result<[Section; 6], TraceDatWriteError> {
    let text = |fill: &dyn Fn(&mut Head) -> Result<(), TraceDatWriteError>| {
        let mut head = Head { endian: content.endian, bytes: Vec::new() };
        fill(&mut head)?;
        Ok::<_, TraceDatWriteError>(head.bytes)
    };
    Ok([
        (
            HEADER_INFO,
            "headers",
            text(&|head| {
                head.bytes.extend(HEADER_PAGE);
                head.text64(content.header_page);
                head.bytes.extend(HEADER_EVENT);
                head.text64(content.header_event);
                Ok(())
            })?,
        ),
        (FTRACE_EVENTS, "ftrace events", text(&|head| content.own_events(head))?),
        (EVENT_FORMATS, "events format", text(&|head| content.systems(head))?),
        (KALLSYMS, "kallsyms", text(&|head| head.text32(content.symbols, "the symbol table"))?),
        (PRINTK, "printk", text(&|head| head.text32(content.printk_formats, "the list of printk formats"))?),
        (
            CMDLINES,
            "command lines",
            text(&|head| {
                head.text64(content.names);
                Ok(())
            })?,
        ),
    ])
}

/// A file that is being written.
struct File<'w, W> {
    endian: Endian,
    compression: Compression,
    out: &'w mut W,
    /// Where the next byte goes.
    at: u64,
    /// Names of sections, each with its zero byte.
    names: Vec<u8>,
}

impl<W: Write + Seek> File<'_, W> {
    fn head(&self) -> Head {
        Head { endian: self.endian, bytes: Vec::new() }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TraceDatWriteError> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn patch(&mut self, at: u64, value: u64) -> Result<(), TraceDatWriteError> {
        let mut head = self.head();
        head.u64(value);
        self.out.seek(SeekFrom::Start(at))?;
        self.out.write_all(&head.bytes)?;
        Ok(())
    }

    /// The head of a section; returns where it begins.
    fn section(
        &mut self,
        number: u16,
        flags: u16,
        name: &str,
        length: u64,
    ) -> Result<u64, TraceDatWriteError> {
        let at = self.at;
        let mut head = self.head();
        head.u16(number);
        head.u16(flags);
        head.u32(self.names.len() as u64, "the names of sections")?;
        head.u64(length);
        self.names.extend(name.bytes());
        self.names.push(0);
        self.put(&head.bytes)?;
        Ok(at)
    }

    /// A section of text, packed if the file is; returns where it begins.
    fn text_section(&mut self, number: u16, name: &str, text: &[u8]) -> Result<u64, TraceDatWriteError> {
        if self.compression == Compression::None {
            let at = self.section(number, 0, name, text.len() as u64)?;
            self.put(text)?;
            return Ok(at);
        }
        let packed = self.piece(text)?;
        let at = self.section(number, PACKED, name, packed.len() as u64)?;
        self.put(&packed)?;
        Ok(at)
    }

    /// A list of options, to which the end is put here; returns where it begins.
    fn options(&mut self, mut options: Head) -> Result<u64, TraceDatWriteError> {
        options.place(DONE, 0);
        let at = self.section(DONE, 0, "options", options.bytes.len() as u64)?;
        self.put(&options.bytes)?;
        Ok(at)
    }

    /// Both lengths and the packed bytes.
    fn piece(&self, bytes: &[u8]) -> Result<Vec<u8>, TraceDatWriteError> {
        let packed = self.compression.pack(bytes);
        let mut head = self.head();
        head.u32(packed.len() as u64, "a packed text")?;
        head.u32(bytes.len() as u64, "a text")?;
        head.bytes.extend(packed);
        Ok(head.bytes)
    }

    /// One CPU's pages as they are; returns where they are and how long.
    fn plain<S: ReadAt>(
        &mut self,
        cpu: CpuId,
        source: &S,
        page: u64,
    ) -> Result<(u64, u64), TraceDatWriteError> {
        let start = self.at.next_multiple_of(page);
        pad(self.out, &mut self.at, start)?;
        copy(cpu, source, self.out, &mut self.at)?;
        Ok((start, source.len()))
    }

    /// One CPU's pages in pieces; returns where they are and how long the pieces are, the word before them not counted.
    fn pieces<S: ReadAt>(
        &mut self,
        cpu: CpuId,
        source: &S,
        page: u64,
    ) -> Result<(u64, u64), TraceDatWriteError> {
        let failed = |source| TraceDatWriteError::Pages { cpu, source };
        let (start, length, step) = (self.at, source.len(), PIECE_PAGES * page);
        let mut count = self.head();
        count.u32(length.div_ceil(step), "the pages of a CPU")?;
        self.put(&count.bytes)?;
        let mut done = 0;
        while done < length {
            // Pages are at most 128 MiB, so ten of them fit.
            let size = (length - done).min(step) as usize;
            let mut bytes = vec![0; size];
            if read_full(source, done, &mut bytes).map_err(failed)? < size {
                return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
            }
            let piece = self.piece(&bytes)?;
            self.put(&piece)?;
            done += size as u64;
        }
        Ok((start, self.at - start - 4))
    }

    /// The names of all sections, the last section.
    fn strings(&mut self) -> Result<(), TraceDatWriteError> {
        let mut names = self.names.clone();
        names.extend(b"strings\0");
        let (flags, bytes) = match self.compression {
            Compression::None => (0, names),
            _ => (PACKED, self.piece(&names)?),
        };
        self.section(STRINGS, flags, "strings", bytes.len() as u64)?;
        self.put(&bytes)
    }
}

impl Head {
    /// An option that says where something is.
    fn place(&mut self, number: u16, at: u64) {
        self.u16(number);
        // Eight bytes always fit the length of an option.
        let (little, big) = (8u32.to_le_bytes(), 8u32.to_be_bytes());
        self.bytes.extend(if self.endian == Endian::Little { little } else { big });
        self.u64(at);
    }
}
