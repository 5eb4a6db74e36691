//! [`Recording`]: everything the scheduler does while a run lasts, as raw pages on disk.
//!
//! A tracefs instance of our own records into its own buffers; one thread carries full pages to files without
//! names a few times a second, so that a long run needs no large buffers and nothing is left behind. Decoding
//! waits until the run is over: it would disturb what is measured. [`JournalledRecording`] is the same with an entry
//! in the journal, so that a killed run leaves no instance either.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use surety_kernel::journal::{Entry, Journal, JournalError};
use surety_kernel::tracefs::{CpuStats, Marker, RawPages, TraceInstance, Tracefs};
use surety_kernel::{Kernel, KernelError, clock};
use surety_trace::write::tracedat::{TraceDatContent, TraceDatWriteError};
use surety_trace::{Endian, MARKER_EVENT, ReadAt, Symbols, TraceDatForm};
use surety_units::{Bytes, CpuId, CpuSet, Nanos};

use crate::journalled::Journalled;

/// Buffer of each CPU. A busy CPU makes about 1 MB of scheduling events a second.
const BUFFER: Bytes = Bytes(8 << 20);
/// Time between two rounds of carrying pages off.
const ROUND: Duration = Duration::from_millis(250);
/// The clock of every recording: CLOCK_MONOTONIC, the clock of the tasks' own stamps.
const CLOCK: &str = "mono";

/// A recording that is going on.
#[derive(Debug)]
pub struct Recording {
    // Dropped in this order: the kernel keeps an instance that somebody still reads or writes.
    marker: Marker,
    collector: Collector,
    instance: TraceInstance,
    cpus: CpuSet,
}

/// The thread that carries pages to files.
#[derive(Debug)]
struct Collector {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::io::Result<Collected>>>,
}

/// What the collector's thread brings home.
#[derive(Debug, Default)]
struct Collected {
    files: CpuFiles,
    cpu_time: Nanos,
}

/// One file of pages for each CPU.
type CpuFiles = Vec<(CpuId, File)>;

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
    /// `/proc/kallsyms`, where it can be read.
    pub symbols: Option<String>,
    /// `printk_formats`, empty where it cannot be read.
    pub printk_formats: String,
    /// Names of threads seen lately, one `TID NAME` a line; empty where they cannot be read.
    pub names: String,
    /// CPU time of the thread that carried the pages off.
    pub cpu_time: Nanos,
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

    /// Writes a trace.dat file of any form and returns its length in bytes.
    ///
    /// # Errors
    /// Those of [`RawTrace::write_trace_dat`].
    pub fn write_trace_dat_as<W: Write + Seek>(
        &self,
        form: TraceDatForm,
        out: &mut W,
    ) -> Result<u64, TraceDatWriteError> {
        self.content().write_as(form, out)
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
            statistics: self.stats.iter().map(|(cpu, stats)| statistics_text(*cpu, stats)).collect(),
            pages: self.pages.iter().map(|(cpu, file)| (*cpu, file)).collect(),
        }
    }
}

/// A CPU's counts in the words of its `stats` file.
fn statistics_text(cpu: CpuId, stats: &CpuStats) -> String {
    format!(
        "CPU: {cpu}\nentries: {}\noverrun: {}\ncommit overrun: {}\ndropped events: {}\nread events: {}\n",
        stats.entries, stats.overrun, stats.commit_overrun, stats.dropped, stats.read
    )
}

/// A file read page by page.
#[derive(Debug)]
pub struct PageFile {
    file: File,
    length: u64,
}

impl PageFile {
    /// A file, as long as it is now.
    ///
    /// # Errors
    /// When its length cannot be told.
    pub fn new(file: File) -> std::io::Result<PageFile> {
        let length = file.metadata()?.len();
        Ok(PageFile { file, length })
    }
}

impl ReadAt for PageFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        FileExt::read_at(&self.file, buffer, offset)
    }

    fn len(&self) -> u64 {
        self.length
    }
}

impl Recording {
    /// Starts recording `events` (`system:event`) on all of `cpus` in an instance called `name`.
    ///
    /// The clock is CLOCK_MONOTONIC, the clock of the tasks' own stamps. When a buffer overflows the oldest events
    /// are overwritten: only then do the pages say where events are missing, and the jobs around the hole are
    /// censored.
    pub fn start(
        tracefs: &Tracefs,
        name: &str,
        events: &[&str],
        cpus: CpuSet,
    ) -> Result<Recording, KernelError> {
        let instance = tracefs.create_instance(name)?;
        instance.set_clock(CLOCK)?;
        instance.set_buffer_size(BUFFER)?;
        instance.set_option("overwrite", true)?;
        instance.enable_events(events)?;
        let marker = instance.marker()?;
        let readers: Vec<RawPages> =
            cpus.iter().map(|cpu| instance.raw_pages(cpu)).collect::<Result<_, _>>()?;
        instance.set_recording(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let stop = Arc::clone(&stop);
            std::thread::Builder::new()
                .name("surety-recorder".to_owned())
                .spawn(move || collect(readers, &stop))
        };
        let thread = thread.map_err(|error| {
            KernelError::from_io(surety_kernel::Operation::Open, "a thread for the recorder", &error)
        })?;
        Ok(Recording { marker, collector: Collector { stop, thread: Some(thread) }, instance, cpus })
    }

    /// A handle that writes markers into this recording.
    pub fn marker(&self) -> Marker {
        self.marker.clone()
    }

    /// Stops recording, carries off the rest and removes the instance.
    pub fn finish(mut self, events: &[&str]) -> Result<RawTrace, KernelError> {
        self.instance.set_recording(false)?;
        let failed = |error: std::io::Error| {
            KernelError::from_io(surety_kernel::Operation::Read, "the pages of the recording", &error)
        };
        let Collected { files, cpu_time } = self.collector.finish().map_err(failed)?;
        let page_size = self.instance.page_size()?;
        let tracefs = self.instance.tracefs().clone();
        let stats =
            self.cpus.iter().map(|cpu| Ok((cpu, self.instance.stats(cpu)?))).collect::<Result<_, _>>()?;
        let (mut formats, mut missing) = (BTreeMap::new(), Vec::new());
        for event in events.iter().chain([&MARKER_EVENT]) {
            match tracefs.event_format(event) {
                Ok(text) => {
                    formats.insert((*event).to_owned(), text);
                }
                Err(_) => missing.push((*event).to_owned()),
            }
        }
        let pages = files
            .into_iter()
            .map(|(cpu, file)| Ok((cpu, PageFile::new(file).map_err(failed)?)))
            .collect::<Result<_, KernelError>>()?;
        Ok(RawTrace {
            pages,
            page_size,
            header_page: tracefs.header_page()?,
            header_event: tracefs.header_event()?,
            formats,
            missing,
            stats,
            symbols: std::fs::read_to_string("/proc/kallsyms").ok(),
            printk_formats: tracefs.printk_formats().unwrap_or_default(),
            names: tracefs.saved_names().unwrap_or_default(),
            cpu_time,
        })
    }
}

/// A recording with its entry in the journal. The entry is closed once the instance is gone.
#[derive(Debug)]
pub struct JournalledRecording<'a> {
    // Dropped in this order.
    recording: Recording,
    entry: Option<Journalled<'a>>,
}

impl<'a> JournalledRecording<'a> {
    /// Starts a recording of `events` in an instance named after this process; with a journal, the name is in it
    /// before the instance is made. See [`Recording::start`].
    ///
    /// # Errors
    /// [`RecordingError`].
    pub fn start(
        tracefs: &Tracefs,
        journal: Option<&'a Journal>,
        kernel: &'a dyn Kernel,
        events: &[&str],
        cpus: CpuSet,
    ) -> Result<JournalledRecording<'a>, RecordingError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("surety-{}-{number}", kernel.own_pid());
        let entry = journal
            .map(|journal| Journalled::record(journal, kernel, Entry::TraceInstance { name: name.clone() }))
            .transpose()?;
        let recording = Recording::start(tracefs, &name, events, cpus)?;
        Ok(JournalledRecording { recording, entry })
    }

    /// A handle that writes markers into this recording.
    pub fn marker(&self) -> Marker {
        self.recording.marker()
    }

    /// Stops recording, carries off the rest, removes the instance and closes the entry.
    ///
    /// # Errors
    /// What the kernel refuses, and pages that cannot be read or kept.
    pub fn finish(self, events: &[&str]) -> Result<RawTrace, KernelError> {
        let JournalledRecording { recording, entry } = self;
        let finished = recording.finish(events);
        drop(entry);
        finished
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
}

impl Collector {
    fn finish(&mut self) -> std::io::Result<Collected> {
        self.stop.store(true, Ordering::SeqCst);
        match self.thread.take() {
            Some(thread) => {
                thread.thread().unpark();
                thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the recorder's thread died")))
            }
            None => Ok(Collected::default()),
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // The instance can only be removed once its readers are closed.
        let _ = self.finish();
    }
}

/// Carries pages to files until told to stop, then once more.
fn collect(readers: Vec<RawPages>, stop: &AtomicBool) -> std::io::Result<Collected> {
    let mut targets: Vec<(RawPages, File)> = Vec::new();
    for reader in readers {
        targets.push((reader, tempfile::tempfile()?));
    }
    let page_size = targets.iter().map(|(r, _)| r.page_size()).max().unwrap_or(4096);
    let mut page = vec![0; page_size];
    loop {
        let last = stop.load(Ordering::SeqCst);
        for (reader, file) in &mut targets {
            while let Some(bytes) = reader.read_page(&mut page).map_err(std::io::Error::other)? {
                file.write_all(bytes)?;
            }
        }
        if last {
            let files = targets.into_iter().map(|(reader, file)| (reader.cpu(), file)).collect();
            return Ok(Collected { files, cpu_time: clock::thread_cpu_time() });
        }
        std::thread::park_timeout(ROUND);
    }
}
