//! [`TraceDatEvents`]: events from any source (a simulated run, a text, a part of a trace) as a trace.dat file.
//!
//! Events of other kinds ([`EventKind::Raw`]) are carried over as they are, with their formats, under numbers of their own.
//!
//! Events come one by one and become records of ring-buffer pages (of the formats in
//! `tracedat_events/formats.rs`, which are written into the file, so that any reader of trace.dat decodes them). Full
//! pages go to a [`Spool`], in the order they fill; which page is whose is kept in memory, eight bytes a page. At the end
//! the file is put together from the spool.
//!
//! What is read back is what was written, with these limits: times before the clock's zero cannot be written, texts
//! longer than [`TEXT_MAX`] bytes are cut, and a mark of lost events stands at the time of the CPU's next event, where the
//! kernel puts it too. [`Written`] counts what was cut or left out.

use std::collections::BTreeMap;
use std::io::{self, Seek, Write};

use surety_model::event::{Comm, Event, EventKind, RawEvent, TraceSink, Woken};
use surety_units::{CpuId, Tid};

use self::formats::{Formats, Letters, Record};
use super::tracedat::{TraceDatContent, TraceDatForm, TraceDatWriteError, system_of};
use crate::endian::Endian;
use crate::read::tracedat::CPUS_MAX;
use crate::source::ReadAt;

mod formats;

/// Bytes of a page, as nearly every kernel has them.
const PAGE: usize = 4096;
/// Time and fill come before the records.
const HEAD: usize = 16;
/// What `commit` says of a page before which events were lost, and that their number stands behind the records.
const MISSING: u64 = 1 << 31;
const MISSING_STORED: u64 = 1 << 30;
/// A record's first word holds so many bits of time.
const TIME_BITS: u32 = 27;
/// An extended time holds so many.
const EXTENDED_BITS: u32 = 59;
/// Type of a record that extends the time.
const TIME_EXTEND: u64 = 30;
/// Records of so many words and fewer have their length in the type.
const WORDS_MAX: usize = 28;
/// Longer texts are cut: a record has to fit a page.
pub const TEXT_MAX: usize = 3072;
/// So many names of threads are kept.
const NAMES_MAX: usize = 1 << 18;

/// Where full pages are kept until the file is put together: bytes that are added at the end and read at any place.
pub trait Spool: ReadAt {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// What the medium reports.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl Spool for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend(bytes);
        Ok(())
    }
}

/// What became of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Events in the file; marks of lost events count.
    pub events: u64,
    /// Events that a trace.dat file has no room for: before the clock's zero, on a CPU no machine has, of a kind without
    /// a format.
    pub left_out: u64,
    /// Texts that were cut.
    pub cut: u64,
    /// The file's length.
    pub bytes: u64,
}

/// Takes events and writes a trace.dat file at the end. After an error it takes no more; [`TraceDatEvents::finish`] tells.
#[derive(Debug)]
pub struct TraceDatEvents<S> {
    spool: S,
    pages: u64,
    failed: Option<io::Error>,
    cpus: BTreeMap<CpuId, Buffer>,
    formats: Formats,
    letters: Letters,
    /// The formats of events that are carried over as they are, by name, each with its number in the file.
    carried: BTreeMap<String, (u16, String)>,
    names: BTreeMap<Tid, Comm>,
    record: Record,
    written: Written,
}

/// One CPU's page in the making.
#[derive(Debug, Default)]
struct Buffer {
    body: Vec<u8>,
    start: u64,
    last: u64,
    /// Events lost before this page; the inner `None` is an unknown number.
    lost: Option<Option<u64>>,
    /// Full pages, by their place in the spool.
    full: Vec<u64>,
    entries: u64,
    overrun: u64,
}

impl<S: Spool> TraceDatEvents<S> {
    /// Keeps pages in `spool`, which must be empty.
    pub fn new(spool: S) -> TraceDatEvents<S> {
        TraceDatEvents {
            spool,
            pages: 0,
            failed: None,
            cpus: BTreeMap::new(),
            formats: Formats::new(),
            letters: Letters::default(),
            carried: BTreeMap::new(),
            names: BTreeMap::new(),
            record: Record::default(),
            written: Written::default(),
        }
    }

    /// Writes the file from the beginning of `out`. `clock` names the clock of the events' times.
    ///
    /// # Errors
    /// What the spool gave while events came, and [`TraceDatWriteError`].
    pub fn finish<W: Write + Seek>(
        mut self,
        form: TraceDatForm,
        clock: &str,
        out: &mut W,
    ) -> Result<Written, TraceDatWriteError> {
        let cpus: Vec<CpuId> = self.cpus.keys().copied().collect();
        cpus.into_iter().for_each(|cpu| self.turn(cpu));
        if let Some(error) = self.failed.take() {
            return Err(TraceDatWriteError::Write(error));
        }
        let spool = &self.spool;
        let pages = self.cpus.iter().map(|(cpu, buffer)| (*cpu, Pages { spool, full: &buffer.full }));
        let mut texts = self.formats.texts(&self.letters);
        texts.extend(self.carried.iter().map(|(name, (_, text))| (name.clone(), text.clone())));
        // The events of one system stand together.
        texts.sort_by(|(a, _), (b, _)| system_of(a).cmp(system_of(b)));
        let names: String =
            self.names.iter().map(|(tid, comm)| format!("{tid} {}\n", one_line(comm))).collect();
        let content = TraceDatContent {
            endian: Endian::Little,
            header_page: formats::HEADER_PAGE,
            header_event: formats::HEADER_EVENT,
            formats: texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect(),
            symbols: formats::SYMBOLS,
            printk_formats: "",
            names: &names,
            clock,
            statistics: self.cpus.iter().map(|(cpu, buffer)| buffer.statistics(*cpu)).collect(),
            pages: pages.collect(),
        };
        let bytes = content.write_as(form, out)?;
        Ok(Written { bytes, ..self.written })
    }

    /// Puts the page of a CPU away and begins a new one.
    fn turn(&mut self, cpu: CpuId) {
        let Some(buffer) = self.cpus.get_mut(&cpu) else { return };
        if self.failed.is_some() || (buffer.body.is_empty() && buffer.lost.is_none()) {
            return;
        }
        let page = buffer.page();
        match self.spool.append(&page) {
            Ok(()) => {
                buffer.full.push(self.pages);
                self.pages += 1;
            }
            Err(error) => self.failed = Some(error),
        }
    }

    /// Adds the record in `self.record`; whether a page had room for it.
    fn add(&mut self, cpu: CpuId, time: u64) {
        let bytes = std::mem::take(&mut self.record.bytes);
        let buffer = self.cpus.entry(cpu).or_default();
        // Within a CPU time does not go back.
        let time = time.max(buffer.last);
        let extended = time - buffer.last >= 1 << TIME_BITS;
        // An extension, the first word, the length, the record, and the number of lost events behind all.
        let room = bytes.len() + 8 + 8 + if extended { 8 } else { 0 };
        if HEAD + buffer.body.len() + room > PAGE || time - buffer.last >= 1 << EXTENDED_BITS {
            self.turn(cpu);
        }
        let buffer = self.cpus.entry(cpu).or_default();
        if buffer.body.is_empty() {
            buffer.start = time;
            buffer.last = time;
        }
        buffer.put(time - buffer.last, &bytes);
        buffer.last = time;
        buffer.entries += 1;
        self.written.events += 1;
        self.record.bytes = bytes;
    }

    /// Makes the record of an event that is carried over: as it is, under a number of its own. `false` where a page has no room for
    /// it, where its numbers are the other way round, or where no number is left.
    fn carry(&mut self, raw: &RawEvent<'_>) -> bool {
        let padded = raw.record.len().next_multiple_of(4);
        if !raw.is_little_endian || raw.record.len() < 2 || HEAD + padded + 24 > PAGE {
            return false;
        }
        let number = match self.carried.get(raw.name) {
            Some((number, _)) => *number,
            None => {
                let next = usize::from(formats::FIRST_CARRIED) + self.carried.len();
                let (Ok(number), Some(text)) = (u16::try_from(next), formats::renumbered(raw.format, next))
                else {
                    return false;
                };
                self.carried.insert(raw.name.to_owned(), (number, text));
                number
            }
        };
        self.record = Record::default();
        self.record.bytes.extend(number.to_le_bytes());
        self.record.bytes.extend(&raw.record[2..]);
        self.record.bytes.resize(padded, 0);
        true
    }

    /// Keeps the names that an event tells.
    fn learn(&mut self, kind: &EventKind<'_>) {
        let mut keep = |tid: Tid, comm: Comm| {
            // The idle threads share a number, and every reader knows it.
            if tid != Tid::IDLE && (self.names.len() < NAMES_MAX || self.names.contains_key(&tid)) {
                self.names.insert(tid, comm);
            }
        };
        match *kind {
            EventKind::Switch { prev, prev_comm, next, next_comm, .. } => {
                keep(prev, prev_comm);
                keep(next, next_comm);
            }
            EventKind::Waking(Woken { tid, comm, .. })
            | EventKind::Wakeup(Woken { tid, comm, .. })
            | EventKind::WakeupNew(Woken { tid, comm, .. })
            | EventKind::Migrate { tid, comm, .. }
            | EventKind::Exit { tid, comm } => keep(tid, comm),
            EventKind::Fork { child, child_comm, .. } => keep(child, child_comm),
            _ => {}
        }
    }
}

impl<S: Spool> TraceSink for TraceDatEvents<S> {
    fn event(&mut self, event: &Event<'_>) {
        let Ok(time) = u64::try_from(event.time.get()) else {
            self.written.left_out += 1;
            return;
        };
        if event.cpu.0 >= CPUS_MAX {
            self.written.left_out += 1;
            return;
        }
        if let EventKind::Lost { count } = event.kind {
            self.turn(event.cpu);
            let buffer = self.cpus.entry(event.cpu).or_default();
            buffer.start = time.max(buffer.last);
            buffer.last = buffer.start;
            buffer.lose(count);
            self.written.events += 1;
            return;
        }
        self.learn(&event.kind);
        let fits = match &event.kind {
            EventKind::Raw(raw) => self.carry(raw),
            kind => self.formats.fill(event.current, kind, &mut self.letters, &mut self.record),
        };
        if fits {
            self.written.cut += u64::from(self.record.cut);
            self.add(event.cpu, time);
        } else {
            self.written.left_out += 1;
        }
    }
}

impl Buffer {
    /// Adds a record, `step` after the one before.
    fn put(&mut self, step: u64, bytes: &[u8]) {
        let word = |kind: u64, time: u64| {
            let word = kind | (time & ((1 << TIME_BITS) - 1)) << 5;
            // Five bits and 27 bits.
            (word as u32).to_le_bytes()
        };
        let mut step = step;
        if step >= 1 << TIME_BITS {
            self.body.extend(word(TIME_EXTEND, step));
            self.body.extend(((step >> TIME_BITS) as u32).to_le_bytes());
            step = 0;
        }
        let words = bytes.len() / 4;
        if words <= WORDS_MAX {
            self.body.extend(word(words as u64, step));
        } else {
            self.body.extend(word(0, step));
            // The word that says so counts.
            self.body.extend((bytes.len() as u32 + 4).to_le_bytes());
        }
        self.body.extend(bytes);
    }

    /// The page, whole; the buffer is empty then.
    fn page(&mut self) -> Vec<u8> {
        let (flags, count) = match self.lost.take() {
            None => (0, None),
            Some(None) => (MISSING, None),
            Some(Some(count)) => (MISSING | MISSING_STORED, Some(count)),
        };
        let mut page = Vec::with_capacity(PAGE);
        page.extend(self.start.to_le_bytes());
        page.extend((self.body.len() as u64 | flags).to_le_bytes());
        page.append(&mut self.body);
        page.extend(count.unwrap_or_default().to_le_bytes());
        page.resize(PAGE, 0);
        page
    }

    fn lose(&mut self, count: Option<u64>) {
        self.overrun = self.overrun.saturating_add(count.unwrap_or(0));
        self.lost = Some(match self.lost {
            None => count,
            Some(before) => before.zip(count).map(|(a, b)| a.saturating_add(b)),
        });
    }

    /// In the words of the kernel's `stats`.
    fn statistics(&self, cpu: CpuId) -> String {
        let (entries, overrun) = (self.entries, self.overrun);
        format!("CPU: {cpu}\nentries: {entries}\noverrun: {overrun}\ncommit overrun: 0\ndropped events: 0\n")
    }
}

/// One CPU's pages in the spool.
#[derive(Debug)]
struct Pages<'a, S> {
    spool: &'a S,
    full: &'a [u64],
}

impl<S: ReadAt> ReadAt for Pages<'_, S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let page = PAGE as u64;
        let index = usize::try_from(offset / page).unwrap_or(usize::MAX);
        let Some(place) = self.full.get(index) else { return Ok(0) };
        let within = offset % page;
        let count = buf.len().min((page - within) as usize);
        self.spool.read_at(place * page + within, &mut buf[..count])
    }

    fn len(&self) -> u64 {
        self.full.len() as u64 * PAGE as u64
    }
}

/// A name that does not break its line.
fn one_line(comm: &Comm) -> String {
    comm.text().replace(|c: char| c.is_control(), "?")
}
