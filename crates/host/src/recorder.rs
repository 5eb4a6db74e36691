//! [`Recording`]: everything the scheduler does while a run lasts, as raw pages on disk.
//!
//! A tracefs instance of our own records into its own buffers; one thread carries full pages to files without
//! names a few times a second, so that a long run needs no large buffers and nothing is left behind. Decoding
//! waits until the run is over: it would disturb what is measured. Only a condition that is to end the recording has it
//! decoded as it comes. [`JournalledRecording`] is the same with an entry in the journal, so that a killed run leaves no
//! instance either.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use surety_kernel::journal::JournalError;
use surety_kernel::tracefs::{CpuStats, FilterError, Marker, RawPages, TraceInstance, Tracefs};
use surety_kernel::{KernelError, Operation, clock};
use surety_trace::format::parse_header_page;
use surety_trace::read::tracedat::LEFT_OUT;
use surety_trace::write::tracedat::{TraceDatContent, TraceDatWriteError};
use surety_trace::{Condition, Endian, EventTable, LivePages, MARKER_EVENT, Met, Symbols};
use surety_units::{Bytes, CpuId, CpuSet, Nanos, Tid};

use collector::{Collector, Live};

mod collector;
mod journalled;
mod live;
mod notes;
mod segments;

pub use journalled::JournalledRecording;
pub use live::LiveRecording;
pub use notes::note_threads;
pub use segments::PageFile;

/// Buffer of each CPU unless another is asked for. A busy CPU makes about 1 MB of scheduling events a second.
pub const BUFFER: Bytes = Bytes(8 << 20);
/// The clock of every recording: CLOCK_MONOTONIC, the clock of the tasks' own stamps.
const CLOCK: &str = "mono";

/// What is recorded, how much of it, and until when.
#[derive(Clone, Debug)]
pub struct RecordingOptions {
    /// Events by `system:event`; those the kernel does not have are left out and named.
    pub events: Vec<String>,
    /// Buffer of each CPU.
    pub buffer: Bytes,
    /// Where the pages lie until the recording is over; `None`: where temporary files are.
    pub directory: Option<PathBuf>,
    /// With `keep` at most about so much is on disk and the window is shortened to that; without it the recording ends
    /// in the round in which so much was carried off.
    pub size: Option<Bytes>,
    /// Only so much before the end is kept.
    pub keep: Option<Nanos>,
    /// Ends the recording.
    pub stop_when: Option<StopWhen>,
    /// Full pages go by `splice(2)` where that works; otherwise they are read and written.
    pub splice: bool,
    /// Only events of these threads, and of what they make from then on; none: of all. A number that is a process means
    /// all its threads.
    pub pids: Vec<Tid>,
    /// Of these events only those that meet the expression.
    pub filters: Vec<EventFilter>,
}

/// An expression in the kernel's grammar that an event has to meet to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    /// `system:event`.
    pub event: String,
    /// In the kernel's grammar: `prev_prio < 100`.
    pub expression: String,
}

impl RecordingOptions {
    /// These events, all of them, until the recording is finished.
    pub fn of<E: AsRef<str>>(events: &[E]) -> RecordingOptions {
        RecordingOptions {
            events: events.iter().map(|event| event.as_ref().to_owned()).collect(),
            buffer: BUFFER,
            directory: None,
            size: None,
            keep: None,
            stop_when: None,
            splice: true,
            pids: Vec::new(),
            filters: Vec::new(),
        }
    }
}

/// A condition that ends a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopWhen {
    /// What is looked for.
    pub condition: Condition,
    /// How long the recording goes on after it was met.
    pub after: Nanos,
}

/// A limit that ended a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// So many bytes were carried off.
    Size,
    /// The condition was met, and the time after it is over.
    Condition,
}

/// A recording that is going on.
#[derive(Debug)]
pub struct Recording {
    // Dropped in this order: the kernel keeps an instance that somebody still reads or writes.
    marker: Marker,
    collector: Collector,
    instance: Arc<TraceInstance>,
    cpus: CpuSet,
    keep: Option<Nanos>,
    texts: Texts,
}

/// Ring buffers of an instance of our own, with their events enabled, that record nothing yet.
struct Buffers {
    // Dropped first: the kernel keeps an instance that somebody still reads.
    readers: Vec<RawPages>,
    instance: Arc<TraceInstance>,
    texts: Texts,
}

impl Buffers {
    fn make(
        tracefs: &Tracefs,
        name: &str,
        options: &RecordingOptions,
        cpus: &CpuSet,
    ) -> Result<Buffers, RecordingError> {
        let instance = Arc::new(tracefs.create_instance(name)?);
        instance.set_clock(CLOCK)?;
        instance.set_buffer_size(options.buffer)?;
        instance.set_option("overwrite", true)?;
        // Programs write their markers to the tracer's own file; kernels before 6.10 cannot copy them here.
        let _ = instance.set_option("copy_trace_marker", true);
        restrict(&instance, options, cpus)?;
        let events: Vec<&str> = options.events.iter().map(String::as_str).collect();
        instance.enable_events(&events)?;
        let readers = cpus.iter().map(|cpu| instance.raw_pages(cpu)).collect::<Result<_, KernelError>>()?;
        let texts = Texts::read(tracefs, &options.events)?;
        Ok(Buffers { readers, instance, texts })
    }
}

/// Leaves out what is not asked for, before anything is recorded.
fn restrict(
    instance: &TraceInstance,
    options: &RecordingOptions,
    cpus: &CpuSet,
) -> Result<(), RecordingError> {
    instance.set_cpus(cpus)?;
    if !options.pids.is_empty() {
        if !instance.follow_forks()? {
            return Err(RecordingError::NoForks);
        }
        instance.add_threads(&options.pids)?;
    }
    for EventFilter { event, expression } in &options.filters {
        instance.set_filter(event, expression).map_err(|error| match error {
            FilterError::Kernel(error) => RecordingError::Kernel(error),
            other => RecordingError::Filter { event: event.clone(), said: other.to_string() },
        })?;
    }
    Ok(())
}

/// The texts records are read by.
#[derive(Debug)]
struct Texts {
    header_page: String,
    header_event: String,
    formats: BTreeMap<String, String>,
    missing: Vec<String>,
}

/// A finished recording: one file of raw pages for each CPU, and the texts needed to read them.
#[derive(Debug)]
pub struct RawTrace {
    /// Pages of each CPU, in ascending order of CPU.
    pub pages: Vec<(CpuId, PageFile)>,
    /// Bytes of a page.
    pub page_size: usize,
    /// `events/header_page`.
    pub header_page: String,
    /// `events/header_event`.
    pub header_event: String,
    /// Format text of each event recorded, by `system:event`.
    pub formats: BTreeMap<String, String>,
    /// Events this kernel does not have.
    pub missing: Vec<String>,
    /// The kernel's own counts, by CPU.
    pub stats: Vec<(CpuId, CpuStats)>,
    /// What of the events was left out by choice, in words on one line.
    pub left_out: Option<String>,
    /// `/proc/kallsyms`, where it can be read.
    pub symbols: Option<String>,
    /// `printk_formats`, empty where it cannot be read.
    pub printk_formats: String,
    /// Names of threads seen lately, one `TID NAME` a line; empty where they cannot be read.
    pub names: String,
    /// CPU time of the thread that carried the pages off.
    pub cpu_time: Nanos,
    /// Of that, decoding for a condition.
    pub watching: Nanos,
    /// Bytes carried off, kept or not.
    pub carried: u64,
    /// Full pages went by `splice(2)` to the end.
    pub spliced: bool,
    /// Less than the window was kept, to stay within the size.
    pub shortened: bool,
    /// The limit that ended the recording.
    pub ending: Option<Ending>,
    /// The first job in time that met the condition, whatever ended the recording.
    pub met: Option<Met>,
    /// When recording was switched off.
    pub end: Nanos,
}

impl RawTrace {
    /// Events the tracer lost.
    pub fn lost(&self) -> u64 {
        self.stats.iter().map(|(_, s)| s.lost()).sum()
    }

    /// Writes a trace.dat file (version 6) and returns its length in bytes.
    ///
    /// # Errors
    /// A page description that is none, pages that cannot be read, and what `out` reports.
    pub fn write_trace_dat(&self, out: &mut dyn Write) -> Result<u64, TraceDatWriteError> {
        self.content().write(out)
    }

    fn content(&self) -> TraceDatContent<'_, &PageFile> {
        let symbols = self.symbols.as_deref().unwrap_or_default();
        // A table of nothing but zeros, as a restricted kernel shows it, is not worth its megabytes.
        let hidden = Symbols::parse(symbols).is_empty();
        TraceDatContent {
            endian: Endian::NATIVE,
            header_page: &self.header_page,
            header_event: &self.header_event,
            formats: self.formats.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect(),
            symbols: if hidden { "" } else { symbols },
            printk_formats: &self.printk_formats,
            names: &self.names,
            clock: CLOCK,
            statistics: self.statistics(),
            pages: self.pages.iter().map(|(cpu, file)| (*cpu, file)).collect(),
        }
    }
}

impl RawTrace {
    /// The counts of each CPU, and what was left out behind those of the first.
    fn statistics(&self) -> Vec<String> {
        let mut texts: Vec<String> =
            self.stats.iter().map(|(cpu, stats)| statistics_text(*cpu, stats)).collect();
        if let (Some(first), Some(words)) = (texts.first_mut(), &self.left_out) {
            *first += &format!("{LEFT_OUT}{words}\n");
        }
        texts
    }
}

/// A CPU's counts in the words of its `stats` file.
fn statistics_text(cpu: CpuId, stats: &CpuStats) -> String {
    format!(
        "CPU: {cpu}\nentries: {}\noverrun: {}\ncommit overrun: {}\ndropped events: {}\nread events: {}\n",
        stats.entries, stats.overrun, stats.commit_overrun, stats.dropped, stats.read
    )
}

impl Texts {
    /// Of these events and the marker.
    fn read(tracefs: &Tracefs, events: &[String]) -> Result<Texts, KernelError> {
        let (mut formats, mut missing) = (BTreeMap::new(), Vec::new());
        for event in events.iter().map(String::as_str).chain([MARKER_EVENT]) {
            match tracefs.event_format(event) {
                Ok(text) => {
                    formats.insert(event.to_owned(), text);
                }
                Err(_) => missing.push(event.to_owned()),
            }
        }
        let (header_page, header_event) = (tracefs.header_page()?, tracefs.header_event()?);
        Ok(Texts { header_page, header_event, formats, missing })
    }

    /// What decodes the pages as they come.
    fn live(&self, page_size: usize) -> Result<LivePages, KernelError> {
        let unusable =
            |what: &str| KernelError::from_io(Operation::Read, what, &std::io::ErrorKind::InvalidData.into());
        let layout = parse_header_page(&self.header_page).ok().and_then(|l| l.with_page_size(page_size));
        let layout = layout.ok_or_else(|| unusable("events/header_page"))?;
        // Only functions that timers call have addresses here.
        let has_timers = self.formats.keys().any(|name| name.starts_with("timer:"));
        let symbols = has_timers.then(|| std::fs::read_to_string("/proc/kallsyms").unwrap_or_default());
        let symbols = symbols.unwrap_or_default();
        let formats = self.formats.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let table = EventTable::new(Endian::NATIVE, formats, Symbols::parse(&symbols));
        Ok(LivePages::new(table.map_err(|e| unusable(&e.to_string()))?, layout))
    }
}

impl Recording {
    /// Starts recording on all of `cpus` in an instance called `name`.
    ///
    /// The clock is CLOCK_MONOTONIC, the clock of the tasks' own stamps. When a buffer overflows the oldest events
    /// are overwritten: only then do the pages say where events are missing, and the jobs around the hole are
    /// censored.
    ///
    /// # Errors
    /// What the kernel refuses, and filters it does not understand.
    pub fn start(
        tracefs: &Tracefs,
        name: &str,
        options: &RecordingOptions,
        cpus: CpuSet,
    ) -> Result<Recording, RecordingError> {
        let Buffers { readers, instance, texts } = Buffers::make(tracefs, name, options, &cpus)?;
        let marker = instance.marker()?;
        let live = match options.stop_when {
            Some(stop_when) => Some(Live::new(texts.live(instance.page_size()?)?, stop_when)),
            None => None,
        };
        instance.set_recording(true)?;
        let collector = Collector::start(Arc::clone(&instance), readers, options.clone(), live)?;
        Ok(Recording { marker, collector, instance, cpus, keep: options.keep, texts })
    }

    /// Records these threads too, where not all are.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn add_threads(&self, tids: &[Tid]) -> Result<(), KernelError> {
        self.instance.add_threads(tids)
    }

    /// A handle that writes markers into this recording.
    pub fn marker(&self) -> Marker {
        self.marker.clone()
    }

    /// Whether a limit of its own ended it, or something failed: [`Recording::finish`] says which.
    pub fn is_over(&self) -> bool {
        self.collector.is_over()
    }

    /// Stops recording, carries off the rest and removes the instance.
    ///
    /// # Errors
    /// What the kernel refuses, and pages that cannot be read or kept.
    pub fn finish(mut self) -> Result<RawTrace, KernelError> {
        self.instance.set_recording(false)?;
        let end = clock::monotonic();
        let failed = |error: std::io::Error| {
            KernelError::from_io(Operation::Read, "the pages of the recording", &error)
        };
        let collected = self.collector.finish()?;
        let mut collected = collected.ok_or_else(collector::lost_thread)?;
        let page_size = self.instance.page_size()?;
        let end = collected.ending.map_or(end, |(_, off)| off);
        if let Some(keep) = self.keep
            && let Some(layout) = parse_header_page(&self.texts.header_page).ok()
            && let Some(layout) = layout.with_page_size(page_size)
        {
            // The job that met the condition is kept from its release on, however long ago that was.
            let begun = collected.met.map_or(end, |met| met.since);
            let since = (end - keep).min(begun);
            for (_, pages) in &mut collected.pages {
                pages.keep_from(since, layout).map_err(failed)?;
            }
        }
        let tracefs = self.instance.tracefs().clone();
        let stats =
            self.cpus.iter().map(|cpu| Ok((cpu, self.instance.stats(cpu)?))).collect::<Result<_, _>>()?;
        let Texts { header_page, header_event, formats, missing } = self.texts;
        Ok(RawTrace {
            pages: collected.pages,
            page_size,
            header_page,
            header_event,
            formats,
            missing,
            stats,
            left_out: None,
            symbols: std::fs::read_to_string("/proc/kallsyms").ok(),
            printk_formats: tracefs.printk_formats().unwrap_or_default(),
            names: tracefs.saved_names().unwrap_or_default(),
            cpu_time: collected.cpu_time,
            watching: collected.watching,
            carried: collected.carried,
            spliced: collected.spliced,
            shortened: collected.shortened,
            ending: collected.ending.map(|(ending, _)| ending),
            met: collected.met,
            end,
        })
    }
}

/// A recording that could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The instance could not be put in the journal, so it was not made.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel does not understand a filter.
    #[error("the kernel refuses the filter of {event}:\n{said}")]
    Filter {
        /// `system:event`.
        event: String,
        /// The kernel's own words.
        said: String,
    },
    /// What chosen threads make could not be followed (`options/event-fork`).
    #[error("this kernel cannot follow what chosen processes begin (Linux 4.12 can)")]
    NoForks,
}
