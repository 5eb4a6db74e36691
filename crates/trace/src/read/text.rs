//! [`TextTrace`]: traces as text: what the kernel's `trace` and `trace_pipe` show, what `trace-cmd report` and
//! `perf script` print.
//!
//! One line is one event (`head.rs` reads what all lines have, `arguments.rs` what is the event's own), so a file of
//! any size is read through one buffer. Lines stand in the order of time; where a printed time goes back the event gets
//! its predecessor's, and that is counted.
//!
//! What a text does not hold: times finer than it prints (mostly microseconds, so events of one microsecond are told
//! apart by their order only), the addresses of timers (the kernel prints hashes: still an identity), the flag table of
//! states given as numbers (those are read by the flags that kernels mostly have), the rest of a marker that holds a
//! line end (that rest counts as malformed).

use std::collections::{BTreeMap, HashMap};
use std::io;

use surety_model::event::{Event, EventKind, TraceSink};
use surety_units::{CpuId, Nanos, Tid};

use crate::read::tracedat::CPUS_MAX;
use crate::read::{Description, EventCount, ReadSummary, TraceError, TraceReader};
use crate::source::{ReadAt, read_full};
use crate::states::StateTable;

use arguments::Known;
use head::{Head, NoHead, number};
use lines::{LINE_MAX, Line, Lines};

mod arguments;
mod head;
mod lines;

/// How many malformed lines are told with their place.
const FAULTS_MAX: usize = 8;
/// How many different names of events are counted one by one.
const NAMES_MAX: usize = 4096;
/// How much of a file's beginning is looked at before it is read.
const BEGINNING: usize = 4096;

/// A text that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The text of a latency tracer: times from its own beginning, and other columns.
    #[error("byte 0: this is the text of a latency tracer, no events; record with the tracer nop")]
    Latency,
    /// The medium failed.
    #[error("byte {offset}: {source}")]
    Read {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
}

/// Comments that `perf script --header` begins with. Other lines with a hash are in shell scripts and programs too.
const PERF_HEADER: [&[u8]; 2] = [b"# ========", b"# captured on"];

/// Whether a file that begins like this is a trace as text: no zero byte, and a line every such text has.
pub(super) fn is_text(beginning: &[u8]) -> bool {
    !beginning.contains(&0)
        && beginning.split(|byte| *byte == b'\n').any(|line| match note(line) {
            Some(Note::Other) => {
                !line.starts_with(b"#") || PERF_HEADER.iter().any(|header| line.starts_with(header))
            }
            Some(_) => true,
            None => head::parse(line).is_ok(),
        })
}

/// A trace as text.
#[derive(Debug)]
pub struct TextTrace<S> {
    source: S,
    /// What its first lines say.
    notes: Notes,
    /// Lines of further buffers, by their buffer's name; known once the trace was read.
    other_buffers: Vec<(String, u64)>,
}

/// What lines that are no events say of the trace.
#[derive(Clone, Debug, Default)]
struct Notes {
    tracer: Option<String>,
    cpus: Option<u32>,
    counted_lost: Option<u64>,
}

/// A line that is no event and is meant so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note<'l> {
    /// `# tracer: nop`.
    Tracer(&'l [u8]),
    /// `# entries-in-buffer/entries-written: 1/2   #P:3`: events lost before the first, CPUs.
    Entries(u64, Option<u32>),
    /// `cpus=3`.
    Cpus(u32),
    /// `CPU:1 [LOST 2 EVENTS]`.
    Lost(CpuId, Option<u64>),
    /// Says nothing that is needed.
    Other,
}

impl Notes {
    fn take(&mut self, note: Note<'_>) {
        match note {
            Note::Tracer(name) => self.tracer = Some(String::from_utf8_lossy(name).into_owned()),
            Note::Entries(lost, cpus) => {
                self.cpus = self.cpus.max(cpus);
                self.counted_lost = Some(self.counted_lost.unwrap_or(0).saturating_add(lost));
            }
            Note::Cpus(cpus) => self.cpus = self.cpus.max(Some(cpus)),
            Note::Lost(..) | Note::Other => {}
        }
    }
}

/// What a line says that is no event; `None` when it is one, or nothing known.
fn note(line: &[u8]) -> Option<Note<'_>> {
    match line.first() {
        Some(b'#') => Some(comment(line)),
        Some(b'c') => {
            let (cpus, rest) = number(line.strip_prefix(b"cpus=")?)?;
            let cpus = u32::try_from(cpus).ok()?;
            rest.is_empty().then_some(Note::Cpus(cpus))
        }
        Some(b'C') => lost(line),
        // A stack below its event.
        Some(b' ') => line.trim_ascii_start().starts_with(b"=> ").then_some(Note::Other),
        Some(_) => None,
        None => None,
    }
}

fn comment(line: &[u8]) -> Note<'_> {
    if let Some(name) = line.strip_prefix(b"# tracer: ") {
        return Note::Tracer(name.trim_ascii_end());
    }
    let entries = || {
        let (kept, rest) = number(line.strip_prefix(b"# entries-in-buffer/entries-written: ")?)?;
        let (written, rest) = number(rest.strip_prefix(b"/")?)?;
        let cpus = rest.trim_ascii().strip_prefix(b"#P:").and_then(number);
        let cpus = cpus.and_then(|(cpus, _)| u32::try_from(cpus).ok());
        Some(Note::Entries(u64::try_from(written.saturating_sub(kept)).unwrap_or(0), cpus))
    };
    entries().unwrap_or(Note::Other)
}

/// `CPU:1 [LOST 2 EVENTS]` and `CPU:1 [LOST EVENTS]` of the kernel, `CPU:1 [2 EVENTS DROPPED]` and `CPU:1 [EVENTS
/// DROPPED]` of trace-cmd, which also says `CPU 1 is empty`.
fn lost(line: &[u8]) -> Option<Note<'_>> {
    let Some(rest) = line.strip_prefix(b"CPU:") else {
        let (_, rest) = number(line.strip_prefix(b"CPU ")?)?;
        return (rest == b" is empty").then_some(Note::Other);
    };
    let (cpu, rest) = number(rest)?;
    let cpu = u32::try_from(cpu).ok().filter(|cpu| *cpu < CPUS_MAX).map(CpuId)?;
    let said = rest.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")?;
    let said = said.strip_prefix(b"LOST ").or_else(|| said.strip_suffix(b" DROPPED"))?;
    if said == b"EVENTS" {
        return Some(Note::Lost(cpu, None));
    }
    let (count, rest) = number(said)?;
    (rest == b" EVENTS").then(|| Note::Lost(cpu, u64::try_from(count).ok()))
}

/// An event's name as it is met, and how often it was.
struct Name {
    full: String,
    known: Option<Known>,
    count: u64,
}

impl Name {
    /// Of the name on a line, with or without its system.
    fn new(event: &[u8]) -> Name {
        let text = String::from_utf8_lossy(event).into_owned();
        let (said, name) = match text.split_once(':') {
            Some((system, name)) => (Some(system), name),
            None => (None, text.as_str()),
        };
        match Known::of(name) {
            Some((system, known)) if said.is_none_or(|said| said == system) => {
                let name = if known == Known::Mark { "print" } else { name };
                Name { full: format!("{system}:{name}"), known: Some(known), count: 1 }
            }
            _ => Name { full: text, known: None, count: 1 },
        }
    }
}

/// The state of one reading.
struct Reading<'k, K: ?Sized> {
    sink: &'k mut K,
    summary: ReadSummary,
    names: HashMap<Vec<u8>, Name>,
    other_buffers: Vec<(String, u64)>,
    states: StateTable,
    /// Told with the next event: only that says when.
    losses: BTreeMap<CpuId, Option<u64>>,
    /// Who has each CPU after its last event.
    currents: Vec<Option<Tid>>,
    first: Option<Nanos>,
    last: Nanos,
}

impl<S: ReadAt> TextTrace<S> {
    /// Looks at the first lines.
    ///
    /// # Errors
    /// [`TextError`].
    pub fn open(source: S) -> Result<TextTrace<S>, TextError> {
        let mut beginning = [0; BEGINNING];
        let length =
            read_full(&source, 0, &mut beginning).map_err(|source| TextError::Read { offset: 0, source })?;
        let mut notes = Notes::default();
        for line in beginning[..length].split(|byte| *byte == b'\n') {
            if line.starts_with(b"# latency trace") {
                return Err(TextError::Latency);
            }
            if let Some(note) = note(line) {
                notes.take(note);
            }
        }
        Ok(TextTrace { source, notes, other_buffers: Vec::new() })
    }

    /// Reads all of it into `sink`.
    ///
    /// # Errors
    /// A source that fails.
    pub fn read_into<K: TraceSink + ?Sized>(&mut self, sink: &mut K) -> Result<ReadSummary, TraceError> {
        let mut reading = Reading {
            sink,
            summary: ReadSummary::default(),
            names: HashMap::new(),
            other_buffers: Vec::new(),
            states: StateTable::usual(),
            losses: BTreeMap::new(),
            currents: Vec::new(),
            first: None,
            last: Nanos::ZERO,
        };
        let mut notes = Notes::default();
        let mut lines = Lines::new(&self.source);
        loop {
            let at = lines.offset();
            let line = lines.next().map_err(|source| TraceError::Source { offset: at, source })?;
            match line {
                None => break,
                Some(Line::Overlong(at)) => {
                    reading.malformed(at, &format!("a line of more than {LINE_MAX} bytes"));
                }
                Some(Line::Whole(at, line)) => match note(line) {
                    Some(Note::Lost(cpu, count)) => reading.lost(cpu, count),
                    Some(note) => notes.take(note),
                    None => reading.line(at, line),
                },
            }
        }
        let (mut summary, other_buffers) = reading.finish();
        summary.counted_lost = notes.counted_lost;
        self.notes = notes;
        self.other_buffers = other_buffers;
        Ok(summary)
    }
}

impl<K: TraceSink + ?Sized> Reading<'_, K> {
    fn line(&mut self, at: u64, line: &[u8]) {
        match head::parse(line) {
            Ok(Head { buffer: Some(buffer), .. }) => self.other_buffer(buffer),
            Ok(head) => self.event(at, &head),
            Err(NoHead::Unnamed) => self.summary.unknown += 1,
            Err(NoHead::Foreign(_)) if line.trim_ascii().is_empty() => {}
            Err(NoHead::Foreign(why)) => self.malformed(at, why),
        }
    }

    fn event(&mut self, at: u64, head: &Head<'_>) {
        let time = head.time.max(self.last);
        if head.time < self.last {
            self.summary.disordered += 1;
            self.summary.disorder_max = self.summary.disorder_max.max(self.last - head.time);
        }
        self.first.get_or_insert(time);
        self.last = time;
        self.tell_losses();
        let known = if let Some(name) = self.names.get_mut(head.event) {
            name.count += 1;
            name.known
        } else if self.names.len() < NAMES_MAX {
            let name = Name::new(head.event);
            self.names.entry(head.event.to_vec()).or_insert(name).known
        } else {
            self.summary.unknown += 1;
            None
        };
        let Some(known) = known else { return };
        match arguments::kind(known, head.arguments, &self.states) {
            Some(kind) => {
                self.summary.delivered += 1;
                let current = self.current(head, &kind);
                self.sink.event(&Event { time, cpu: head.cpu, current, kind });
            }
            None => {
                let event = String::from_utf8_lossy(head.event).into_owned();
                self.malformed(at, &format!("{event} with arguments of no form known"));
            }
        }
    }

    /// Whose context an event is in. A thread that is ending has lost its number already where perf asks for it, and is
    /// written as -1: who leaves tells it, or else who had the CPU last.
    fn current(&mut self, head: &Head<'_>, kind: &EventKind<'_>) -> Tid {
        let index = head.cpu.index();
        if index >= self.currents.len() {
            // `head` refuses numbers from `CPUS_MAX` on.
            self.currents.resize(index + 1, None);
        }
        let current = match *kind {
            _ if head.current >= Tid::IDLE => head.current,
            EventKind::Switch { prev, .. } => prev,
            _ => self.currents[index].unwrap_or(head.current),
        };
        self.currents[index] = Some(match *kind {
            EventKind::Switch { next, .. } => next,
            _ => current,
        });
        current
    }

    fn lost(&mut self, cpu: CpuId, count: Option<u64>) {
        self.summary.gaps += 1;
        self.summary.lost = self.summary.lost.saturating_add(count.unwrap_or(0));
        // Two of one CPU without an event between them are one.
        let untold = self.losses.entry(cpu).or_insert(Some(0));
        *untold = untold.zip(count).map(|(untold, count)| untold.saturating_add(count));
    }

    fn tell_losses(&mut self) {
        while let Some((cpu, count)) = self.losses.pop_first() {
            let kind = EventKind::Lost { count };
            if let Some(current) = self.currents.get_mut(cpu.index()) {
                *current = None;
            }
            self.sink.event(&Event { time: self.last, cpu, current: Tid::IDLE, kind });
        }
    }

    fn other_buffer(&mut self, name: &[u8]) {
        let name = String::from_utf8_lossy(name);
        if let Some((_, lines)) = self.other_buffers.iter_mut().find(|(other, _)| *other == name) {
            *lines += 1;
        } else if self.other_buffers.len() < FAULTS_MAX {
            self.other_buffers.push((name.into_owned(), 1));
        } else {
            self.summary.unknown += 1;
        }
    }

    fn malformed(&mut self, at: u64, why: &str) {
        self.summary.malformed += 1;
        if self.summary.faults.len() < FAULTS_MAX {
            self.summary.faults.push(format!("byte {at}: {why}"));
        }
    }

    fn finish(mut self) -> (ReadSummary, Vec<(String, u64)>) {
        self.tell_losses();
        // Two names may be one event's: a marker's, with and without its system.
        let mut events: Vec<EventCount> = Vec::new();
        let mut names: Vec<Name> = self.names.into_values().collect();
        names.sort_by(|a, b| a.full.cmp(&b.full));
        for Name { full, count, .. } in names {
            match events.last_mut() {
                Some(last) if last.event == full => last.count += count,
                _ => events.push(EventCount { event: full, count }),
            }
        }
        self.summary.events = events;
        self.summary.span = self.first.map(|first| (first, self.last));
        (self.summary, self.other_buffers)
    }
}

impl<S: ReadAt> TraceReader for TextTrace<S> {
    fn description(&self) -> Description {
        let format = match &self.notes.tracer {
            Some(tracer) => format!("text, tracer {tracer}"),
            None => "text".to_owned(),
        };
        Description { format, cpus: self.notes.cpus, clock: None }
    }

    fn unread(&self) -> Vec<String> {
        let said = |(name, lines): &(String, u64)| format!("the further buffer {name} ({lines} lines)");
        self.other_buffers.iter().map(said).collect()
    }

    fn read(&mut self, sink: &mut dyn TraceSink) -> Result<ReadSummary, TraceError> {
        self.read_into(sink)
    }
}

#[cfg(test)]
mod tests;
