//! [`Recording`]: everything the scheduler does while a run lasts, as raw pages on disk.
//!
//! A tracefs instance of our own records into its own buffers; one thread carries full pages to files without
//! names a few times a second, so that a long run needs no large buffers and nothing is left behind. Decoding
//! waits until the run is over: it would disturb what is measured.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use surety_kernel::KernelError;
use surety_kernel::tracefs::{CpuStats, Marker, RawPages, TraceInstance, Tracefs};
use surety_trace::{MARKER_EVENT, ReadAt};
use surety_units::{Bytes, CpuId, CpuSet};

/// Buffer of each CPU. A busy CPU makes about 1 MB of scheduling events a second.
const BUFFER: Bytes = Bytes(8 << 20);
/// Time between two rounds of carrying pages off.
const ROUND: Duration = Duration::from_millis(250);

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
    thread: Option<JoinHandle<std::io::Result<CpuFiles>>>,
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
    /// Format text of each event recorded, by `system:event`.
    pub formats: BTreeMap<String, String>,
    /// Events this kernel does not have.
    pub missing: Vec<String>,
    /// The kernel's own counts, by CPU.
    pub stats: Vec<(CpuId, CpuStats)>,
    /// `/proc/kallsyms`, where it can be read.
    pub symbols: Option<String>,
}

impl RawTrace {
    /// Events the tracer lost.
    pub fn lost(&self) -> u64 {
        self.stats.iter().map(|(_, s)| s.lost()).sum()
    }
}

/// A file of raw pages.
#[derive(Debug)]
pub struct PageFile {
    file: File,
    length: u64,
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
        instance.set_clock("mono")?;
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
        let files = self.collector.finish().map_err(|error| {
            KernelError::from_io(surety_kernel::Operation::Read, "the pages of the recording", &error)
        })?;
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
            .map(|(cpu, file)| {
                let length = file.metadata().map(|m| m.len()).map_err(|error| {
                    KernelError::from_io(surety_kernel::Operation::Read, "the pages of the recording", &error)
                })?;
                Ok((cpu, PageFile { file, length }))
            })
            .collect::<Result<_, KernelError>>()?;
        Ok(RawTrace {
            pages,
            page_size,
            header_page: tracefs.header_page()?,
            formats,
            missing,
            stats,
            symbols: std::fs::read_to_string("/proc/kallsyms").ok(),
        })
    }
}

impl Collector {
    fn finish(&mut self) -> std::io::Result<CpuFiles> {
        self.stop.store(true, Ordering::SeqCst);
        match self.thread.take() {
            Some(thread) => {
                thread.thread().unpark();
                thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the recorder's thread died")))
            }
            None => Ok(Vec::new()),
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
fn collect(readers: Vec<RawPages>, stop: &AtomicBool) -> std::io::Result<CpuFiles> {
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
            return Ok(targets.into_iter().map(|(reader, file)| (reader.cpu(), file)).collect());
        }
        std::thread::park_timeout(ROUND);
    }
}
