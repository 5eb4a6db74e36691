//! The thread that carries pages to disk, a few times a second, and ends the recording where a limit is reached.
//!
//! Without a condition full pages are spliced and nobody looks at them. With one every page is read, written and decoded:
//! what was recorded before a round began has come when it is over, less what a CPU was in the middle of writing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use surety_kernel::tracefs::{RawPages, Splice, TraceInstance};
use surety_kernel::{KernelError, Operation, clock};
use surety_trace::{JobBuilder, LivePages, Lookout, Met};
use surety_units::{CpuId, Nanos};

use super::segments::{PageFile, Segments};
use super::{Ending, RecordingOptions, StopWhen};

/// Time between two rounds of carrying pages off.
const ROUND: Duration = Duration::from_millis(250);
/// The same while somebody waits for a condition.
const LIVE_ROUND: Duration = Duration::from_millis(100);
/// An event gets its time before it can be read. A CPU that a hypervisor stops between the two takes that long at most;
/// what takes longer comes late and is counted.
pub(super) const BEING_WRITTEN: Nanos = Nanos::from_millis(10);

/// An error of this program, which took the thread with it.
pub(super) fn lost_thread() -> KernelError {
    let error = std::io::Error::other("its thread is gone");
    KernelError::from_io(Operation::Wait, "the recorder's thread", &error)
}

/// The thread, from outside.
#[derive(Debug)]
pub(super) struct Collector {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Collected, KernelError>>>,
}

/// What the thread brings home.
#[derive(Debug)]
pub(super) struct Collected {
    pub pages: Vec<(CpuId, PageFile)>,
    /// CPU time of the thread.
    pub cpu_time: Nanos,
    /// Of that, decoding for the condition.
    pub watching: Nanos,
    /// Bytes carried, kept or not.
    pub carried: u64,
    /// Less than the window was kept, to stay within the size.
    pub shortened: bool,
    /// The limit that ended the recording, and when.
    pub ending: Option<(Ending, Nanos)>,
    /// The condition's first job, wherever the recording ended.
    pub met: Option<Met>,
    /// Full pages went by splice to the end.
    pub spliced: bool,
}

/// A condition and the pages it is looked for in.
pub(super) struct Live {
    pages: LivePages,
    jobs: JobBuilder<Lookout>,
    stop_when: StopWhen,
    met: Option<Met>,
    cpu_time: Nanos,
}

impl Live {
    pub(super) fn new(pages: LivePages, stop_when: StopWhen) -> Live {
        let jobs = JobBuilder::into_sink(Lookout::new(stop_when.condition));
        Live { pages, jobs, stop_when, met: None, cpu_time: Nanos::ZERO }
    }

    /// Decodes what was recorded before `until` and looks for the condition.
    fn look(&mut self, until: Nanos) {
        let begin = clock::thread_cpu_time();
        self.pages.flush(until, &mut self.jobs);
        self.met = self.jobs.sink().met();
        self.cpu_time += clock::thread_cpu_time() - begin;
    }
}

/// Everything the thread works with.
struct Work {
    instance: Arc<TraceInstance>,
    options: RecordingOptions,
    cpus: Vec<Segments>,
    splice: Option<Splice>,
    live: Option<Live>,
    page: Vec<u8>,
    carried: u64,
    /// When the files that grow were begun, and those before them.
    begun: Nanos,
    previous_begun: Option<Nanos>,
    shortened: bool,
}

impl Collector {
    /// Makes the files and starts the thread; recording is on already.
    pub(super) fn start(
        instance: Arc<TraceInstance>,
        readers: Vec<RawPages>,
        options: RecordingOptions,
        live: Option<Live>,
    ) -> Result<Collector, KernelError> {
        let directory: Option<&Path> = options.directory.as_deref();
        let page_size = readers.iter().map(RawPages::page_size).max().unwrap_or(4096);
        let cpus = readers.into_iter().map(|reader| Segments::begin(reader, directory));
        let cpus = cpus.collect::<Result<Vec<_>, _>>()?;
        // Pages that are looked at are in memory anyway.
        let splice = (options.splice && live.is_none()).then(|| Splice::new(page_size)).transpose()?;
        let begun = clock::monotonic();
        let work = Work {
            instance,
            options,
            cpus,
            splice,
            live,
            page: vec![0; page_size],
            carried: 0,
            begun,
            previous_begun: None,
            shortened: false,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("surety-recorder".to_owned());
        let thread = thread
            .spawn(move || work.run(&told))
            .map_err(|error| KernelError::from_io(Operation::Spawn, "a thread for the recorder", &error))?;
        Ok(Collector { stop, thread: Some(thread) })
    }

    /// Whether a limit was reached, or something failed: there is nothing more to wait for.
    pub(super) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Carries the rest.
    pub(super) fn finish(&mut self) -> Result<Option<Collected>, KernelError> {
        self.stop.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.take() else { return Ok(None) };
        thread.thread().unpark();
        let died = |_| Err(lost_thread());
        thread.join().unwrap_or_else(died).map(Some)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // The instance can only be removed once its readers are closed.
        let _ = self.finish();
    }
}

impl Work {
    /// Rounds until told to stop or a limit is reached, then once more.
    fn run(mut self, stop: &AtomicBool) -> Result<Collected, KernelError> {
        let round = if self.live.is_some() { LIVE_ROUND } else { ROUND };
        let ending = loop {
            // Looked at first: what comes after is in the last round.
            let told = stop.load(Ordering::SeqCst);
            let now = clock::monotonic();
            if told {
                break None;
            }
            let all = self.round(now, self.options.buffer.0.max(1))?;
            if let Some(ending) = self.limit() {
                self.instance.set_recording(false)?;
                break Some((ending, clock::monotonic()));
            }
            self.drop_old()?;
            if all {
                let met = self.live.as_ref().and_then(|live| Some(live.met?.at + live.stop_when.after));
                let left = met.map(|at| (at - clock::monotonic()).max(Nanos::MILLISECOND).get_unsigned());
                std::thread::park_timeout(left.map_or(round, |left| Duration::from_nanos(left).min(round)));
            }
        };
        self.round(Nanos::MAX, u64::MAX)?;
        let met = self.met();
        let watching = self.live.as_ref().map_or(Nanos::ZERO, |live| live.cpu_time);
        Ok(Collected {
            pages: self.cpus.into_iter().map(Segments::finish).collect(),
            cpu_time: clock::thread_cpu_time(),
            watching,
            carried: self.carried,
            shortened: self.shortened,
            ending,
            met,
            spliced: self.splice.is_some_and(|splice| splice.works()),
        })
    }

    fn met(&self) -> Option<Met> {
        self.live.as_ref()?.met
    }

    /// Carries what is there, at most about `most` bytes of each CPU; `false` when that left something.
    fn round(&mut self, now: Nanos, most: u64) -> Result<bool, KernelError> {
        let last = most == u64::MAX;
        let mut all = true;
        let mut until = if last { Nanos::MAX } else { now - BEING_WRITTEN };
        for cpu in &mut self.cpus {
            let mut exhausted = true;
            if let Some(splice) = &mut self.splice {
                let round = cpu.splice(splice, most)?;
                self.carried += round.bytes;
                exhausted = round.exhausted;
            }
            let spliced = self.splice.as_ref().is_some_and(Splice::works);
            // A page that is not full would stay; in a window by time it must not become old.
            if exhausted && (!spliced || last || self.options.keep.is_some()) {
                let mut begin = [0; 8];
                let number = cpu.cpu();
                let live = &mut self.live;
                let round = cpu.read(&mut self.page, most, |page| {
                    if let Some(live) = live.as_mut().filter(|live| live.met.is_none()) {
                        live.pages.push(number, page);
                        begin.copy_from_slice(&page[..8]);
                    }
                })?;
                self.carried += round.bytes;
                exhausted = round.exhausted;
                if !exhausted {
                    let begin = i64::try_from(u64::from_ne_bytes(begin)).unwrap_or(i64::MAX);
                    until = until.min(Nanos::new(begin));
                }
            }
            all &= exhausted;
        }
        if let Some(live) = self.live.as_mut().filter(|live| live.met.is_none()) {
            live.look(until);
        }
        Ok(all)
    }

    /// The limit that is reached.
    fn limit(&self) -> Option<Ending> {
        if let Some(live) = &self.live
            && let Some(met) = live.met
            && clock::monotonic() >= met.at + live.stop_when.after
        {
            return Some(Ending::Condition);
        }
        let size = self.options.size.filter(|_| self.options.keep.is_none())?;
        (self.carried >= size.0).then_some(Ending::Size)
    }

    /// Drops what a flight recorder need not keep.
    fn drop_old(&mut self) -> Result<(), KernelError> {
        // What met the condition stays, and what leads to it.
        let Some(keep) = self.options.keep.filter(|_| self.met().is_none()) else { return Ok(()) };
        let now = clock::monotonic();
        let bytes: u64 = self.cpus.iter().map(Segments::current_bytes).sum();
        let full = self.options.size.is_some_and(|size| bytes >= size.0 / 2);
        if now - self.begun >= keep || full {
            self.shortened |= self.previous_begun.is_some() && now - self.begun < keep;
            for cpu in &mut self.cpus {
                cpu.turn()?;
            }
            self.previous_begun = Some(self.begun);
            self.begun = now;
        }
        Ok(())
    }
}
