//! [`PerfData`]: what `perf record -a -e 'sched:*'` writes, as a file or into a pipe.
//!
//! Tracepoints' samples hold the kernel's raw records, and the file holds the kernel's formats of them (perf calls that
//! part tracing data; it is laid out like the beginning of a trace.dat file), so they are decoded as those of trace.dat
//! are. Layouts are those of perf's `Documentation/perf.data-file-format.txt`:
//!
//! ```text
//! file:  "PERFILE2"  u64 104  u64 length of an attribute  (u64 offset, u64 length) of attributes, records, unused
//!        u64[4] bits of the further parts, whose (u64 offset, u64 length) stand behind the records
//! pipe:  "PERFILE2"  u64 16   records, of which some hold the attributes and the formats
//! ```
//!
//! Samples of other kinds of events are passed over and counted as unknown. Records are put in the order of time in
//! bounded memory (`rounds.rs`); compressed ones are unpacked (`records.rs`). Lost records are told on the CPU whose
//! buffer was full; where the file does not say which that was, on every CPU seen so far.
//!
//! Nothing in the file is trusted: lengths are compared with what is left of it before memory is asked for.

use surety_model::event::{Event, EventKind, TraceSink};
use surety_units::{CpuId, Nanos, Tid};

use crate::decode::EventTable;
use crate::endian::Endian;
use crate::format::FormatError;
use crate::read::tracedat::cursor::Cursor;
use crate::read::tracedat::{
    HEADER_EVENT, HEADER_PAGE, MAGIC, TraceDatError, damaged, read_events, read_layout, read_symbols,
    read_systems,
};
use crate::read::{Description, EventCount, ReadSummary, TraceError, TraceReader};
use crate::source::ReadAt;

use attributes::{ATTRIBUTE_MIN, Attribute, Attributes, Sampled};
use records::{Next, Records, Unpacker};
use rounds::{Rounds, Waiting, What};

mod attributes;
mod records;
mod rounds;

/// What a file begins with, by the recording machine's byte order.
const LITTLE: &[u8] = b"PERFILE2";
const BIG: &[u8] = b"2ELIFREP";
/// The length a pipe's beginning gives itself.
const PIPE: u64 = 16;
/// Further parts of a file by their bit.
const FORMATS: u32 = 1;
const CPUS: u32 = 7;
/// Attributes and ids beyond these no machine has.
const ATTRIBUTES_MAX: u64 = 1 << 16;
const IDS_MAX: usize = 1 << 20;
/// How many places that could not be read are told.
const FAULTS_MAX: usize = 8;

/// A perf.data file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfDataError {
    /// The file is cut or was changed.
    #[error(transparent)]
    Damaged(#[from] TraceDatError),
    /// It holds no tracepoints, or perf was killed before it wrote their formats.
    #[error(
        "byte {offset}: there are no formats of tracepoints in it; record with `perf record -a -e 'sched:*'` \
         and let perf end by itself"
    )]
    NoFormats {
        /// Where they should be.
        offset: u64,
    },
    /// Samples cannot be used.
    #[error("attribute {attribute}: its samples have no {part}; record with `perf record -a -e 'sched:*'`")]
    Missing {
        /// Which, from 0.
        attribute: usize,
        /// What they lack.
        part: &'static str,
    },
    /// Records cannot be told apart.
    #[error(
        "the attributes differ and their records hold no id at a common place, so they cannot be told apart; \
         record with perf 4.0 or later"
    )]
    Unidentified,
}

/// Whether a file begins as perf's do.
pub(super) fn is_perf_data(beginning: &[u8]) -> bool {
    beginning.starts_with(LITTLE) || beginning.starts_with(BIG)
}

/// An opened perf.data file: its formats are read, its records not yet.
#[derive(Debug)]
pub struct PerfData<S> {
    source: S,
    endian: Endian,
    pipe: bool,
    attributes: Attributes,
    table: EventTable,
    unusable: Vec<FormatError>,
    cpus: Option<u32>,
    /// Where the records begin and end.
    records: (u64, u64),
}

/// What is collected while a file is opened.
#[derive(Default)]
struct Found {
    attributes: Vec<Attribute>,
    ids: Vec<(u64, usize)>,
    formats: Option<(EventTable, Vec<FormatError>)>,
    cpus: Option<u32>,
}

impl<S: ReadAt> PerfData<S> {
    /// Reads everything but the records.
    ///
    /// # Errors
    /// [`PerfDataError`], with the place in the file.
    pub fn open(source: S) -> Result<PerfData<S>, PerfDataError> {
        let mut cursor = Cursor::new(&source);
        if cursor.is_next(BIG)? {
            cursor.endian = Endian::Big;
        } else if !cursor.is_next(LITTLE)? {
            return Err(damaged(0, "it does not begin as a perf.data file".to_owned()).into());
        }
        let endian = cursor.endian;
        let pipe = cursor.u64("the length of the beginning")? == PIPE;
        let mut found = Found::default();
        let records = if pipe {
            found.read_pipe(&source, endian)?;
            (PIPE, source.len())
        } else {
            found.read_file(&mut cursor)?
        };
        for (attribute, of) in found.attributes.iter().enumerate() {
            if let Some(part) = of.missing() {
                return Err(PerfDataError::Missing { attribute, part });
            }
        }
        let tracepoints = found.attributes.iter().any(|attribute| attribute.is_tracepoint());
        let Some((table, unusable)) = found.formats.filter(|_| tracepoints) else {
            return Err(PerfDataError::NoFormats { offset: records.1 });
        };
        let attributes =
            Attributes::new(endian, found.attributes, found.ids).ok_or(PerfDataError::Unidentified)?;
        Ok(PerfData { endian, pipe, attributes, table, unusable, cpus: found.cpus, records, source })
    }

    /// The events the file describes, and how they are decoded.
    pub fn table(&self) -> &EventTable {
        &self.table
    }

    /// Reads all of it into `sink`.
    ///
    /// # Errors
    /// A source that fails.
    pub fn read_into<K: TraceSink + ?Sized>(&mut self, sink: &mut K) -> Result<ReadSummary, TraceError> {
        let mut reading = Reading {
            table: &self.table,
            sink,
            summary: ReadSummary::default(),
            counts: vec![0; self.table.names().len()],
            cpus: Vec::new(),
            first: None,
            last: Nanos::ZERO,
            scratch: String::new(),
        };
        let mut rounds = Rounds::default();
        let mut unpacker: Option<Unpacker> = None;
        let (start, end) = self.records;
        let mut records = Records::new(&self.source, self.endian, self.pipe, start, end);
        loop {
            let offset = records.offset();
            match records.next().map_err(|source| TraceError::Source { offset, source })? {
                Next::End => break,
                Next::Cut => {
                    reading.summary.truncated += 1;
                    break;
                }
                Next::Broken { at } => {
                    reading.damage(at, "a record of an impossible length; what follows is not read");
                    break;
                }
                Next::Record { at, kind: kind @ (records::COMPRESSED | records::COMPRESSED2), body } => {
                    let unpacker = unpacker.get_or_insert_with(|| Unpacker::new(self.endian));
                    let pushed = unpacker.push(kind, body);
                    if let Err(why) = pushed.and_then(|()| self.unpacked(unpacker, &mut rounds, &mut reading))
                    {
                        reading.damage(at, &format!("{why}; what follows is not read"));
                        break;
                    }
                }
                // Compressed records come later than the end of their round.
                Next::Record { kind: records::FINISHED_ROUND, .. } if unpacker.is_none() => {
                    rounds.round(&mut |waiting| reading.emit(waiting));
                }
                Next::Record { kind, body, .. } => self.record(kind, body, &mut rounds, &mut reading),
            }
        }
        if let Some(mut unpacker) = unpacker {
            unpacker.finish();
            match self.unpacked(&mut unpacker, &mut rounds, &mut reading) {
                Ok(()) => reading.summary.truncated += u64::from(unpacker.is_cut()),
                Err(why) => reading.damage(records.offset(), &why),
            }
        }
        rounds.finish(&mut |waiting| reading.emit(waiting));
        Ok(reading.finish())
    }

    fn unpacked<K: TraceSink + ?Sized>(
        &self,
        unpacker: &mut Unpacker,
        rounds: &mut Rounds,
        reading: &mut Reading<'_, K>,
    ) -> Result<(), String> {
        while let Some((kind, body)) = unpacker.next()? {
            self.record(kind, body, rounds, reading);
        }
        Ok(())
    }

    fn record<K: TraceSink + ?Sized>(
        &self,
        kind: u32,
        body: &[u8],
        rounds: &mut Rounds,
        reading: &mut Reading<'_, K>,
    ) {
        let lost = match kind {
            records::SAMPLE => {
                match self.attributes.sample(body) {
                    Sampled::Record(sample) => {
                        let (time, cpu, what) = (sample.time, Some(sample.cpu), What::Record(sample.record));
                        rounds.add(Waiting { time, cpu, what }, &mut |w| reading.emit(w));
                    }
                    Sampled::Foreign => reading.summary.unknown += 1,
                    Sampled::Malformed => reading.summary.malformed += 1,
                }
                return;
            }
            records::LOST => self.endian.u64(body, 8),
            records::LOST_SAMPLES => self.endian.u64(body, 0),
            records::THROTTLE => None,
            _ => return,
        };
        let (time, cpu) = self.attributes.trailer(body);
        let time = time.unwrap_or(rounds.latest());
        rounds.add(Waiting { time, cpu, what: What::Lost(lost) }, &mut |waiting| reading.emit(waiting));
    }
}

impl Found {
    /// The parts of a file; the cursor stands behind the beginning's length. Returns where the records are.
    fn read_file<S: ReadAt + ?Sized>(
        &mut self,
        cursor: &mut Cursor<'_, S>,
    ) -> Result<(u64, u64), PerfDataError> {
        let endian = cursor.endian;
        let size_at = cursor.offset();
        let size = cursor.u64("the length of an attribute")?;
        let attributes = section(cursor, "the attributes")?;
        let records = section(cursor, "the records")?;
        section(cursor, "an unused part")?;
        let mut bits = 0u128;
        for word in 0..2 {
            bits |= u128::from(cursor.u64("the further parts")?) << (64 * word);
        }
        // Behind each attribute stands where its ids are.
        let shortest = ATTRIBUTE_MIN as u64 + 16;
        if size < shortest || attributes.1 / size > ATTRIBUTES_MAX {
            let what = format!("attributes of {size} bytes each, {} bytes in all", attributes.1);
            return Err(damaged(size_at, what).into());
        }
        for index in 0..attributes.1 / size {
            let at = attributes.0.saturating_add(index * size);
            cursor.seek(at, "an attribute")?;
            let bytes = cursor.bytes(size - 16, "an attribute")?;
            let (offset, length) = section(cursor, "the ids of an attribute")?;
            cursor.seek(offset, "the ids of an attribute")?;
            let ids = cursor.bytes(length, "the ids of an attribute")?;
            self.add(&bytes, &ids, at, endian)?;
        }
        let mut at = records.0.saturating_add(records.1);
        for bit in (0..128).filter(|bit| bits >> bit & 1 == 1) {
            if bit > FORMATS.max(CPUS) {
                break;
            }
            cursor.seek(at, "the table of further parts")?;
            let (offset, _) = section(cursor, "a further part")?;
            at = cursor.offset();
            cursor.seek(offset, "a further part")?;
            match bit {
                FORMATS => self.formats = Some(read_formats(cursor)?),
                CPUS => {
                    cursor.u32("the number of CPUs")?;
                    self.cpus = Some(cursor.u32("the number of CPUs")?);
                }
                _ => {}
            }
            cursor.endian = endian;
        }
        Ok((records.0, records.0.saturating_add(records.1)))
    }

    /// The records of a pipe up to the first that holds events.
    fn read_pipe<S: ReadAt + ?Sized>(&mut self, source: &S, endian: Endian) -> Result<(), PerfDataError> {
        let mut records = Records::new(source, endian, true, PIPE, source.len());
        loop {
            let offset = records.offset();
            let next = records.next().map_err(|error| TraceDatError::Read { offset, source: error })?;
            match next {
                Next::Record { at, kind: records::ATTRIBUTE, body } => {
                    // Its own length stands in it; ids follow.
                    let size = endian.u32(body, 4).and_then(|size| usize::try_from(size).ok());
                    let parts = size.and_then(|size| body.split_at_checked(size));
                    let Some((bytes, ids)) = parts else {
                        return Err(damaged(at, "an attribute longer than its record".to_owned()).into());
                    };
                    self.add(bytes, ids, at, endian)?;
                }
                Next::Record { at, kind: records::TRACING_DATA, body } => {
                    let behind = (records::HEADER + body.len()) as u64;
                    let mut cursor = Cursor::new(source);
                    cursor.endian = endian;
                    cursor.seek(at.saturating_add(behind), "the formats")?;
                    self.formats = Some(read_formats(&mut cursor)?);
                }
                Next::Record { kind: records::PART, body, .. }
                    if endian.u64(body, 0) == Some(u64::from(CPUS)) =>
                {
                    self.cpus = endian.u32(body, 12);
                }
                Next::Record {
                    kind: records::SAMPLE | records::COMPRESSED | records::COMPRESSED2, ..
                }
                | Next::End
                | Next::Cut
                | Next::Broken { .. } => return Ok(()),
                Next::Record { .. } => {}
            }
        }
    }

    fn add(&mut self, bytes: &[u8], ids: &[u8], at: u64, endian: Endian) -> Result<(), PerfDataError> {
        let index = self.attributes.len();
        let attribute = Attribute::parse(bytes, endian)
            .filter(|_| bytes.len() >= ATTRIBUTE_MIN && (index as u64) < ATTRIBUTES_MAX)
            .ok_or_else(|| damaged(at, format!("an attribute of {} bytes", bytes.len())))?;
        self.attributes.push(attribute);
        let ids = ids.as_chunks::<8>().0.iter().filter_map(|id| endian.u64(id, 0));
        self.ids.extend(ids.map(|id| (id, index)));
        if self.ids.len() > IDS_MAX {
            return Err(damaged(at, format!("more than {IDS_MAX} ids of attributes")).into());
        }
        Ok(())
    }
}

/// Offset and length of a part.
fn section<S: ReadAt + ?Sized>(cursor: &mut Cursor<'_, S>, what: &str) -> Result<(u64, u64), TraceDatError> {
    Ok((cursor.u64(what)?, cursor.u64(what)?))
}

/// The formats, which begin as a trace.dat file does; the cursor's byte order becomes theirs.
fn read_formats<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
) -> Result<(EventTable, Vec<FormatError>), PerfDataError> {
    cursor.tag(MAGIC)?;
    cursor.name("the version of the formats")?;
    let at = cursor.offset();
    cursor.endian = match cursor.u8("the byte order of the formats")? {
        0 => Endian::Little,
        1 => Endian::Big,
        other => return Err(damaged(at, format!("{other} is no byte order")).into()),
    };
    cursor.u8("the size of a long")?;
    cursor.u32("the page size")?;
    cursor.tag(HEADER_PAGE)?;
    read_layout(cursor)?;
    cursor.tag(HEADER_EVENT)?;
    cursor.skip64("the description of event headers")?;
    let mut formats = read_events(cursor)?;
    formats.extend(read_systems(cursor)?);
    let symbols = read_symbols(cursor, &formats)?;
    let pairs = formats.iter().map(|(system, text)| (system.as_str(), text.as_str()));
    Ok(EventTable::of_usable(cursor.endian, pairs, symbols))
}

/// The state of one reading.
struct Reading<'k, K: ?Sized> {
    table: &'k EventTable,
    sink: &'k mut K,
    summary: ReadSummary,
    counts: Vec<u64>,
    /// By CPU: whether it had an event.
    cpus: Vec<bool>,
    first: Option<Nanos>,
    last: Nanos,
    /// Where texts are put together.
    scratch: String,
}

impl<K: TraceSink + ?Sized> Reading<'_, K> {
    fn emit(&mut self, waiting: Waiting<'_>) {
        let time = Nanos::new(i64::try_from(waiting.time).unwrap_or(i64::MAX));
        if time < self.last {
            self.summary.disordered += 1;
            self.summary.disorder_max = self.summary.disorder_max.max(self.last - time);
        }
        let time = time.max(self.last);
        self.last = time;
        self.first.get_or_insert(time);
        match (waiting.what, waiting.cpu) {
            (What::Record(record), Some(cpu)) => {
                self.seen(cpu);
                let Some(index) = self.table.identify(record) else {
                    self.summary.unknown += 1;
                    return;
                };
                self.counts[index.index()] += 1;
                let sink = &mut *self.sink;
                let take = |event: &Event<'_>| sink.event(event);
                if self.table.decode_to(index, (cpu, time), record, &mut self.scratch, take) {
                    self.summary.delivered += 1;
                } else {
                    self.summary.malformed += u64::from(self.table.is_decoded(index));
                }
            }
            // Every record comes with its CPU.
            (What::Record(_), None) => {}
            (What::Lost(count), cpu) => {
                self.summary.gaps += 1;
                self.summary.lost = self.summary.lost.saturating_add(count.unwrap_or(0));
                let mut tell = |cpu, count| {
                    let kind = EventKind::Lost { count };
                    self.sink.event(&Event { time, cpu, current: Tid::IDLE, kind });
                };
                match cpu {
                    Some(cpu) => tell(cpu, count),
                    None => (0..)
                        .zip(&self.cpus)
                        .filter(|(_, seen)| **seen)
                        .for_each(|(cpu, _)| tell(CpuId(cpu), None)),
                }
            }
        }
    }

    /// The CPU, whose number is below [`CPUS_MAX`](crate::read::tracedat::CPUS_MAX), had an event.
    #[inline]
    fn seen(&mut self, cpu: CpuId) {
        if self.cpus.len() <= cpu.index() {
            self.cpus.resize(cpu.index() + 1, false);
        }
        self.cpus[cpu.index()] = true;
    }

    fn damage(&mut self, at: u64, why: &str) {
        self.summary.damaged_pages += 1;
        if self.summary.faults.len() < FAULTS_MAX {
            self.summary.faults.push(format!("byte {at}: {why}"));
        }
    }

    fn finish(mut self) -> ReadSummary {
        self.summary.events = self
            .table
            .names()
            .iter()
            .zip(self.counts)
            .filter(|(_, count)| *count > 0)
            .map(|(event, count)| EventCount { event: event.clone(), count })
            .collect();
        self.summary.span = self.first.map(|first| (first, self.last));
        self.summary
    }
}

impl<S: ReadAt> TraceReader for PerfData<S> {
    fn description(&self) -> Description {
        let format = if self.pipe { "perf.data, from a pipe" } else { "perf.data" };
        // The numbers of `clock_gettime`.
        let clock = match self.attributes.all().first().and_then(|attribute| attribute.clock) {
            None => "perf",
            Some(0) => "realtime",
            Some(1) => "mono",
            Some(4) => "mono_raw",
            Some(7) => "boot",
            Some(11) => "tai",
            Some(_) => "another",
        };
        Description { format: format.to_owned(), cpus: self.cpus, clock: Some(clock.to_owned()) }
    }

    fn unread(&self) -> Vec<String> {
        self.unusable.iter().map(ToString::to_string).collect()
    }

    fn keep_undecoded(&mut self) {
        self.table.keep_undecoded();
    }

    fn read(&mut self, sink: &mut dyn TraceSink) -> Result<ReadSummary, TraceError> {
        self.read_into(sink)
    }
}
