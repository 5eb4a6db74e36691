//! [`TraceDatContent`]: a recording as a trace.dat file, which trace-cmd and KernelShark open.
//!
//! The layouts stand in `read/tracedat/v6.rs` and `read/tracedat/v7.rs`; version 7 is written by `tracedat/v7.rs` beside
//! this file. Every release of those programs reads version 6; version 7 is smaller. The pages of version 6 are written
//! as the kernel made them, each CPU's on a border of the page size. The clock is there twice, as in trace-cmd's own
//! files: the option says that it follows the table of CPUs.

mod v7;

use std::io::{self, Seek, Write};

use surety_units::CpuId;

use crate::endian::Endian;
use crate::format::{FormatError, parse_header_page};
use crate::read::tracedat::v6::{FLYRECORD, OPTIONS};
use crate::read::tracedat::{CPUS_MAX, HEADER_EVENT, HEADER_PAGE, MAGIC, OPTION_CPUSTAT, OPTION_TRACECLOCK};
use crate::source::{ReadAt, read_full};

/// The system of the tracer's own events, which a file lists before the others.
const OWN_SYSTEM: &str = "ftrace";
/// Pages are carried over in steps of this size.
const STEP: usize = 1 << 16;

/// How a trace.dat file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceDatForm {
    /// Version 6: never compressed, read by every release of trace-cmd and KernelShark.
    V6,
    /// Version 7: read by trace-cmd 3.0 and later.
    V7(Compression),
}

/// What a file of version 7 is compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Nothing.
    None,
    /// zlib (RFC 1950); a trace-cmd may be built without it.
    Zlib,
    /// zstd (RFC 8878); a trace-cmd may be built without it.
    Zstd,
}

/// Everything a trace.dat file holds.
pub struct TraceDatContent<'a, S> {
    /// The recording machine's byte order.
    pub endian: Endian,
    /// Text of `events/header_page`.
    pub header_page: &'a str,
    /// Text of `events/header_event`.
    pub header_event: &'a str,
    /// `(system:event, format text)`; the events of one system one after the other.
    pub formats: Vec<(&'a str, &'a str)>,
    /// Text of `/proc/kallsyms`, empty where it is hidden.
    pub symbols: &'a str,
    /// Text of `printk_formats`.
    pub printk_formats: &'a str,
    /// Names of threads, one `TID NAME` a line.
    pub names: &'a str,
    /// The clock of the times: `mono`.
    pub clock: &'a str,
    /// Text of each CPU's `stats`.
    pub statistics: Vec<String>,
    /// Whole pages of each CPU.
    pub pages: Vec<(CpuId, S)>,
}

/// A trace.dat file that could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceDatWriteError {
    /// The description of the pages is none.
    #[error(transparent)]
    Layout(#[from] FormatError),
    /// A text is longer than the format has room for.
    #[error("{what} is longer than a trace.dat file has room for")]
    TooLong {
        /// Which text.
        what: &'static str,
    },
    /// The pages of a CPU could not be read.
    #[error("the pages of CPU {cpu} could not be read: {source}")]
    Pages {
        /// Whose.
        cpu: CpuId,
        /// Why.
        source: io::Error,
    },
    /// The file could not be written.
    #[error("{0}")]
    Write(#[from] io::Error),
}

impl<S: ReadAt> TraceDatContent<'_, S> {
    /// Writes the file in a form, from the beginning of `out`, and returns its length in bytes. `out` should be buffered
    /// or take large writes well.
    ///
    /// # Errors
    /// [`TraceDatWriteError`].
    pub fn write_as<W: Write + Seek>(
        &self,
        form: TraceDatForm,
        out: &mut W,
    ) -> Result<u64, TraceDatWriteError> {
        match form {
            TraceDatForm::V6 => self.write(out),
            TraceDatForm::V7(compression) => crate::write::tracedat::v7::write(self, compression, out),
        }
    }

    /// How many CPUs a table of all of them has.
    pub(super) fn cpus(&self) -> Result<u32, TraceDatWriteError> {
        let cpus = self.pages.iter().map(|(cpu, _)| cpu.0.saturating_add(1)).max().unwrap_or(0);
        if cpus > CPUS_MAX {
            return Err(TraceDatWriteError::TooLong { what: "the list of CPUs" });
        }
        Ok(cpus)
    }

    /// Writes the file in version 6 and returns its length in bytes. `out` should be buffered or take large writes well.
    ///
    /// # Errors
    /// [`TraceDatWriteError`].
    pub fn write(&self, out: &mut dyn Write) -> Result<u64, TraceDatWriteError> {
        let layout = parse_header_page(self.header_page)?;
        let page = layout.page_size() as u64;
        let mut head = Head { endian: self.endian, bytes: Vec::new() };
        head.bytes.extend(MAGIC);
        head.bytes.extend(b"6\0");
        head.bytes.push(u8::from(self.endian == Endian::Big));
        head.bytes.push(layout.long_size());
        head.u32(page, "a page")?;
        head.bytes.extend(HEADER_PAGE);
        head.text64(self.header_page);
        head.bytes.extend(HEADER_EVENT);
        head.text64(self.header_event);
        self.own_events(&mut head)?;
        self.systems(&mut head)?;
        head.text32(self.symbols, "the symbol table")?;
        head.text32(self.printk_formats, "the list of printk formats")?;
        head.text64(self.names);
        let cpus = self.cpus()?;
        head.u32(cpus.into(), "the list of CPUs")?;
        self.options(&mut head)?;
        head.bytes.extend(FLYRECORD);
        let clock = format!("[{}]", self.clock);
        let behind_table = head.bytes.len() as u64 + 16 * u64::from(cpus) + 8 + clock.len() as u64;
        let mut end = behind_table.next_multiple_of(page);
        let mut places = Vec::new();
        for cpu in (0..cpus).map(CpuId) {
            let source = self.pages.iter().find(|(c, _)| *c == cpu).map(|(_, source)| source);
            let length = source.map_or(0, ReadAt::len);
            head.u64(end);
            head.u64(length);
            places.extend(source.map(|source| (cpu, source, end)));
            end += length.next_multiple_of(page);
        }
        head.text64(&clock);
        out.write_all(&head.bytes)?;
        let mut written = head.bytes.len() as u64;
        for (cpu, source, start) in places {
            pad(out, &mut written, start)?;
            copy(cpu, source, out, &mut written)?;
        }
        // Programs map files by whole pages.
        pad(out, &mut written, end)?;
        out.flush()?;
        Ok(written)
    }

    /// The formats of the tracer's own events.
    pub(super) fn own_events(&self, head: &mut Head) -> Result<(), TraceDatWriteError> {
        let own = self.formats.iter().filter(|(name, _)| system_of(name) == OWN_SYSTEM);
        let own: Vec<&str> = own.map(|(_, text)| *text).collect();
        head.u32(own.len() as u64, "the list of events")?;
        own.iter().for_each(|text| head.text64(text));
        Ok(())
    }

    /// The formats of the others, system by system.
    pub(super) fn systems(&self, head: &mut Head) -> Result<(), TraceDatWriteError> {
        let others = self.formats.iter().filter(|(name, _)| system_of(name) != OWN_SYSTEM);
        let others: Vec<&(&str, &str)> = others.collect();
        let systems: Vec<_> = others.chunk_by(|a, b| system_of(a.0) == system_of(b.0)).collect();
        head.u32(systems.len() as u64, "the list of systems")?;
        for events in systems {
            head.bytes.extend(events.first().map(|(name, _)| system_of(name)).unwrap_or_default().bytes());
            head.bytes.push(0);
            head.u32(events.len() as u64, "the list of events")?;
            events.iter().for_each(|(_, text)| head.text64(text));
        }
        Ok(())
    }

    fn options(&self, head: &mut Head) -> Result<(), TraceDatWriteError> {
        head.bytes.extend(OPTIONS);
        for text in &self.statistics {
            head.option(OPTION_CPUSTAT, text)?;
        }
        head.option(OPTION_TRACECLOCK, &format!("[{}]", self.clock))?;
        head.u16(0);
        Ok(())
    }
}

/// The system in `system:event`.
pub(super) fn system_of(name: &str) -> &str {
    name.split_once(':').map_or("", |(system, _)| system)
}

/// Bytes that are put together before they are written.
pub(super) struct Head {
    pub(super) endian: Endian,
    pub(super) bytes: Vec<u8>,
}

impl Head {
    pub(super) fn u16(&mut self, value: u16) {
        let (little, big) = (value.to_le_bytes(), value.to_be_bytes());
        self.bytes.extend(if self.endian == Endian::Little { little } else { big });
    }

    pub(super) fn u32(&mut self, value: u64, what: &'static str) -> Result<(), TraceDatWriteError> {
        let value = u32::try_from(value).map_err(|_| TraceDatWriteError::TooLong { what })?;
        let (little, big) = (value.to_le_bytes(), value.to_be_bytes());
        self.bytes.extend(if self.endian == Endian::Little { little } else { big });
        Ok(())
    }

    pub(super) fn u64(&mut self, value: u64) {
        let (little, big) = (value.to_le_bytes(), value.to_be_bytes());
        self.bytes.extend(if self.endian == Endian::Little { little } else { big });
    }

    pub(super) fn text32(&mut self, text: &str, what: &'static str) -> Result<(), TraceDatWriteError> {
        self.u32(text.len() as u64, what)?;
        self.bytes.extend(text.as_bytes());
        Ok(())
    }

    pub(super) fn text64(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    /// An option that is a text; readers expect its zero byte.
    pub(super) fn option(&mut self, id: u16, text: &str) -> Result<(), TraceDatWriteError> {
        self.u16(id);
        self.u32(text.len() as u64 + 1, "an option")?;
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
        Ok(())
    }
}

/// Zeros up to `target`.
pub(super) fn pad(out: &mut dyn Write, written: &mut u64, target: u64) -> io::Result<()> {
    const ZEROS: [u8; 512] = [0; 512];
    while *written < target {
        let count = (target - *written).min(ZEROS.len() as u64);
        out.write_all(&ZEROS[..count as usize])?;
        *written += count;
    }
    Ok(())
}

/// One CPU's pages.
pub(super) fn copy<S: ReadAt>(
    cpu: CpuId,
    source: &S,
    out: &mut dyn Write,
    written: &mut u64,
) -> Result<(), TraceDatWriteError> {
    let failed = |source| TraceDatWriteError::Pages { cpu, source };
    let mut buffer = vec![0; STEP];
    let (length, mut done) = (source.len(), 0);
    while done < length {
        let count = (length - done).min(STEP as u64) as usize;
        let filled = read_full(source, done, &mut buffer[..count]).map_err(failed)?;
        if filled < count {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        out.write_all(&buffer[..count])?;
        done += count as u64;
    }
    *written += length;
    Ok(())
}
