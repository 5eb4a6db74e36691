//! [`Sampler`]: what all threads and CPUs get now, an interval at a time.
//!
//! `/proc` says it to everybody: for each thread `schedstat` and its policy, for each CPU `/proc/stat`. Where the tracer may be used,
//! scheduling events of the interval are read as well, and kept nowhere. What cannot be had is named in every snapshot, with what would
//! give it.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use surety_kernel::cpu_times::CpuTimes;
use surety_kernel::deadline::is_reservation;
use surety_kernel::journal::Journal;
use surety_kernel::schedstat::Schedstat;
use surety_kernel::tracefs::Tracefs;
use surety_kernel::{Kernel, KernelError, SchedPolicy, clock};
use surety_model::top::{
    Counters, CpuReading, Reading, SCHEMA, Scheduling, Snapshot, ThreadReading, difference,
};
use surety_trace::IntervalBuilder;
use surety_units::{Nanos, Tid};

use crate::recorder::{LiveRecording, RecordingError, RecordingOptions};

/// What is recorded: who runs, and who wants to. Interrupts and timers would be half of all events and say nothing here.
fn events() -> Vec<&'static str> {
    surety_trace::EVENTS.iter().copied().filter(|event| event.starts_with("sched:")).collect()
}

/// Readings of a thread's name until it is read again though the thread did nothing.
const NAME_KEPT: u32 = 32;

/// What only scheduling events tell.
const TRACED: &str = "latency, misses, who ran instead";

/// Reads the machine at the end of each interval.
pub struct Sampler<'a> {
    kernel: &'a dyn Kernel,
    late: Nanos,
    before: Option<Reading>,
    names: BTreeMap<Tid, String>,
    tracing: Option<Tracing<'a>>,
    missing: Vec<String>,
    own: Nanos,
    round: u32,
}

struct Tracing<'a> {
    recording: LiveRecording<'a>,
    interval: IntervalBuilder,
}

impl<'a> Sampler<'a> {
    /// Reads the machine for the first time. Wake-ups later than `late` count as missed. Without a journal nothing is traced: a killed
    /// run would leave its trace instance.
    ///
    /// # Errors
    /// Where `/proc` cannot be read.
    pub fn begin(
        kernel: &'a dyn Kernel,
        journal: Option<&'a Journal>,
        trace: bool,
        late: Nanos,
    ) -> Result<Sampler<'a>, KernelError> {
        let mut missing = Vec::new();
        let tracing = match (trace, journal) {
            (false, _) => None,
            (true, None) => {
                missing.push(format!("{TRACED}: no journal; set SURETY_RUNTIME_DIR to a directory of yours"));
                None
            }
            (true, Some(journal)) => match Tracing::start(kernel, journal, late) {
                Ok(tracing) => Some(tracing),
                Err(RecordingError::Kernel(error)) if error.is_refused() => {
                    missing.push(format!("{TRACED}: tracing needs root: `sudo surety top`"));
                    None
                }
                Err(error) => {
                    missing.push(format!("{TRACED}: {error}"));
                    None
                }
            },
        };
        let (names, own) = (BTreeMap::new(), clock::thread_cpu_time());
        let mut sampler = Sampler { kernel, late, before: None, names, tracing, missing, own, round: 0 };
        let reading = sampler.read()?;
        if !reading.threads.iter().any(|thread| thread.counters.is_some()) {
            let why = "CPU time, waits of threads: the kernel has no schedstat (CONFIG_SCHED_INFO)";
            sampler.missing.push(why.to_owned());
        }
        if reading.cpus.is_empty() {
            sampler.missing.push("use of CPUs: /proc/stat cannot be read".to_owned());
        }
        sampler.before = Some(reading);
        Ok(sampler)
    }

    /// Ends an interval, and begins the next.
    ///
    /// # Errors
    /// Where `/proc` or the trace cannot be read.
    pub fn sample(&mut self) -> Result<Snapshot, KernelError> {
        let reading = self.read()?;
        let mut lost = 0;
        let mut traced = BTreeMap::new();
        if let Some(Tracing { recording, interval }) = &mut self.tracing {
            interval.set_deadlines(reading.threads.iter().filter_map(deadline_of).collect());
            let until = recording.round(reading.at, interval)?;
            interval.retain_waits(|tid| self.kernel.can_run(tid));
            traced = interval.take(until);
            lost = recording.lost()?;
        }
        self.round += 1;
        let before = self.before.take().unwrap_or_default();
        let (kernel, names) = (self.kernel, &mut self.names);
        let (cpus, threads) = difference(&before, &reading, &mut traced, |thread| {
            // Whoever did something may have a new name since: of a new program, or one of its own.
            let name = kernel.name(thread.tid).unwrap_or_default();
            match name.is_empty() {
                true => names.get(&thread.tid).cloned().unwrap_or_default(),
                false => {
                    names.insert(thread.tid, name.clone());
                    name
                }
            }
        });
        if self.round.is_multiple_of(NAME_KEPT) {
            names.retain(|tid, _| reading.threads.binary_search_by_key(tid, |thread| thread.tid).is_ok());
        }
        let own = clock::thread_cpu_time();
        let snapshot = Snapshot {
            schema: SCHEMA.to_owned(),
            unix_ns: since_1970(),
            interval: reading.at - before.at,
            threads_seen: reading.threads.len(),
            is_traced: self.tracing.is_some(),
            lost,
            late: self.late,
            own: own - self.own,
            missing: self.missing.clone(),
            cpus,
            threads,
        };
        (self.own, self.before) = (own, Some(reading));
        Ok(snapshot)
    }

    fn read(&self) -> Result<Reading, KernelError> {
        let mut threads = Vec::new();
        for process in self.kernel.processes()? {
            // It may have ended meanwhile.
            for tid in self.kernel.threads(process).unwrap_or_default() {
                let counters = Schedstat::read(self.kernel, process, tid).ok().map(counters);
                let scheduling = scheduling(self.kernel, tid);
                threads.push(ThreadReading { process, tid, scheduling, counters });
            }
        }
        threads.sort_by_key(|thread| thread.tid);
        threads.dedup_by_key(|thread| thread.tid);
        let cpus = CpuTimes::read(self.kernel).unwrap_or_default();
        let cpus = cpus.into_iter().map(|(cpu, times)| CpuReading {
            cpu,
            busy: times.busy,
            stolen: times.stolen,
            idle: times.idle,
        });
        Ok(Reading { at: clock::monotonic(), threads, cpus: cpus.collect() })
    }
}

impl<'a> Tracing<'a> {
    fn start(
        kernel: &'a dyn Kernel,
        journal: &'a Journal,
        late: Nanos,
    ) -> Result<Tracing<'a>, RecordingError> {
        let tracefs = Tracefs::open()?;
        let cpus = kernel.online_cpus()?;
        let options = RecordingOptions::of(&events());
        let recording = LiveRecording::start(&tracefs, Some(journal), kernel, &options, &cpus)?;
        Ok(Tracing { recording, interval: IntervalBuilder::new(clock::monotonic(), late) })
    }
}

fn counters(read: Schedstat) -> Counters {
    Counters { run: read.run, waited: read.waited, switches: read.timeslices }
}

fn deadline_of(thread: &ThreadReading) -> Option<(Tid, Nanos)> {
    match thread.scheduling {
        Scheduling::Deadline { deadline, .. } => Some((thread.tid, deadline)),
        _ => None,
    }
}

fn scheduling(kernel: &dyn Kernel, tid: Tid) -> Scheduling {
    let Ok(attr) = kernel.scheduler(tid) else { return Scheduling::Unknown };
    match attr.policy {
        SchedPolicy::Other { nice, .. } => Scheduling::Fair { nice },
        SchedPolicy::Batch { nice } => Scheduling::Batch { nice },
        SchedPolicy::Idle => Scheduling::Idle,
        SchedPolicy::Fifo { priority } => Scheduling::Fifo { priority },
        SchedPolicy::RoundRobin { priority } => Scheduling::RoundRobin { priority },
        policy @ SchedPolicy::Deadline { runtime, deadline, period, .. }
            if is_reservation(kernel, tid, &policy) =>
        {
            Scheduling::Deadline { runtime, deadline, period }
        }
        // A frequency thread of the kernel's: in the class, but with no reservation.
        SchedPolicy::Deadline { .. } => Scheduling::Unknown,
        SchedPolicy::Ext { nice } => Scheduling::Ext { nice },
    }
}

fn since_1970() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
