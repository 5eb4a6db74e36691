//! [`NoiseProbe`]: on each CPU a thread that does nothing but read the clock, and what was in the gaps between two
//! readings.
//!
//! The gaps are the machine's noise as a program sees it ([`surety_model::noise`]); the trace says what was in them
//! (`attribution.rs`). A gap in which the kernel saw nothing is below it: hypervisor, firmware or processor. The kernel's
//! count of stolen time is the cross check.
//!
//! A busy loop in a real-time class would starve the rest of its CPU. Such a loop pauses: of every 100 ms it runs 80 and
//! sleeps 20, which is no gap. A fair loop needs none: the scheduler gives everybody else their share, which is then the
//! noise that is seen.

use std::sync::Arc;

use surety_enforce::Enforcer;
use surety_kernel::journal::Journal;
use surety_kernel::tracefs::Tracefs;
use surety_kernel::{Kernel, clock};
use surety_model::event::TraceSink;
use surety_model::noise::{Cause, GAPS, Gap, NOISE, NoiseAccount, verdict};
use surety_model::record::{
    ActivityRecord, Basis, Distribution, Figure, Record, Share, ThreadInForce, TraceQuality,
};
use surety_model::workload::{ActivityKind, Load, PolicySpec};
use surety_model::world::{Cancel, WorldError};
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use crate::children::ChildrenEntry;
use crate::decode::read_raw;
use crate::loads::Ground;
use crate::loads::LoadRun;
use crate::loads::crew::Crew;
use crate::probe_setup::{ProbePolicy, Surroundings};
use crate::recorder::{JournalledRecording, RecordingError, RecordingOptions};
use crate::records::load_record;
use crate::threads::spawn_thread;
use crate::window::RUN_UP;
use crate::window::{Gate, Window};

use attribution::Attribution;

mod attribution;

/// Gaps of each CPU whose times are kept.
const ROOM: usize = 1 << 18;
/// A real-time loop runs for so long,
const BUSY: Nanos = Nanos::from_millis(80);
/// and then sleeps for so long.
const PAUSE: Nanos = Nanos::from_millis(20);
/// Readings between two looks at the stop flag.
const LOOK_EVERY: u64 = 4096;

/// What is asked of a noise probe.
#[derive(Clone, Debug)]
pub struct NoiseOptions {
    /// One thread for each; `None`: all this process may use.
    pub cpus: Option<CpuSet>,
    /// How long.
    pub duration: Nanos,
    /// The shortest gap that counts.
    pub threshold: Nanos,
    /// What the threads run under; not SCHED_DEADLINE, which cannot be pinned.
    pub policy: PolicySpec,
    /// What disturbs.
    pub loads: Vec<Load>,
    /// Whether the trace is to say what was in the gaps.
    pub trace: bool,
    /// Ends the run early; what was measured until then counts.
    pub cancel: Cancel,
}

impl NoiseOptions {
    /// Says how it was measured.
    fn note(&self, surroundings: &mut Surroundings<'_>) {
        let looping = match self.policy {
            PolicySpec::Fifo { .. } | PolicySpec::RoundRobin { .. } => "80 ms of every 100 ms",
            _ => "all the time",
        };
        surroundings.note("busy", looping);
        surroundings.note("threshold", &self.threshold.to_exact_string());
    }
}

/// What a run of the probe came to.
#[derive(Debug)]
pub struct NoiseRun {
    /// One activity for each CPU, and the loads.
    pub record: Record,
    /// What was in the gaps of each CPU, the largest first.
    pub causes: Vec<(CpuId, Vec<Cause>)>,
    /// Time in gaps.
    pub away: Nanos,
    /// Time the hypervisor says it took from these CPUs, to 10 ms.
    pub stolen: Option<Nanos>,
    /// Hardware or scheduler, in words.
    pub verdict: String,
}

/// The probe.
pub struct NoiseProbe<'a> {
    kernel: &'a dyn Kernel,
    journal: Option<&'a Journal>,
}

/// One thread, made.
struct Member {
    cpu: CpuId,
    tid: Tid,
    handle: std::thread::JoinHandle<Option<(NoiseAccount, Nanos)>>,
}

impl<'a> NoiseProbe<'a> {
    /// A probe of this kernel. With a journal a killed run leaves no trace instance behind.
    pub fn new(kernel: &'a dyn Kernel, journal: Option<&'a Journal>) -> NoiseProbe<'a> {
        NoiseProbe { kernel, journal }
    }

    /// Runs the probe.
    ///
    /// # Errors
    /// [`WorldError`]: CPUs that are not there, a policy the user may not have.
    pub fn run(&self, options: &NoiseOptions) -> Result<NoiseRun, WorldError> {
        let mut surroundings = Surroundings::enter(self.kernel, options.cpus, false)?;
        let cpus = surroundings.cpus();
        let mut degraded = Vec::new();
        let recording = options.trace.then(|| self.start_recording(&mut degraded)).flatten();
        let gate = Arc::new(Gate::default());
        let mut enforcer = Enforcer::new(self.kernel, self.journal);
        let children = ChildrenEntry::of_loads(&options.loads, self.journal, self.kernel);
        let mark = children.as_ref().map(|children| children.mark().to_owned());
        let ground = Ground { disks: None, mark, cancel: &options.cancel };
        let (mut members, mut crew) = (Vec::new(), Crew::default());
        let made = crew
            .gather(&options.loads, cpus, &gate, &ground)
            .and_then(|()| make(options, cpus, &gate, &mut members))
            .and_then(|()| place(&surroundings, &mut enforcer, options, (&crew, &members)));
        let threads = match made {
            Ok(threads) => threads,
            Err(error) => {
                gate.stop();
                members.into_iter().for_each(|m| drop(m.handle.join()));
                let _ = crew.collect(&options.loads);
                return Err(error);
            }
        };
        let window = Window::new(clock::monotonic() + RUN_UP, Nanos::ZERO, options.duration);
        gate.open(window);
        watch(&mut surroundings, &window, &options.cancel);
        gate.stop();
        let stolen = surroundings.stolen();
        let tids: Vec<(CpuId, Tid)> = members.iter().map(|m| (m.cpu, m.tid)).collect();
        let results: Vec<(CpuId, NoiseAccount, Nanos)> = members
            .into_iter()
            .filter_map(|m| m.handle.join().ok().flatten().map(|(account, cpu)| (m.cpu, account, cpu)))
            .collect();
        let loads = crew.collect(&options.loads)?;
        surroundings.count_loads(loads.iter().flatten().map(LoadRun::elsewhere).sum());
        drop(children);
        let gaps = tids.iter().map(|(cpu, tid)| {
            let found = results.iter().find(|(c, _, _)| c == cpu);
            (*cpu, *tid, found.map_or(Vec::new(), |(_, account, _)| account.gaps.clone()))
        });
        let read = recording.map(|recording| attribute(recording, gaps.collect(), &mut degraded));
        let read = read.transpose().unwrap_or_else(|why| {
            degraded.push(format!("the trace could not be read: {why}"));
            None
        });
        let (causes, quality) = read.unzip();
        let causes: CausesByCpu = causes.unwrap_or_default();
        let away: Nanos = results.iter().map(|(_, account, _)| account.away).sum();
        degraded.extend(untold(&results).filter(|_| !causes.is_empty()));
        options.note(&mut surroundings);
        // What others used is what this probe is there to show, and nothing against it.
        let (mut record, inspector) = surroundings.finish(threads, &gate);
        let activities = results.iter().map(|(cpu, account, used)| {
            let causes = causes.iter().find(|(c, _)| c == cpu).map_or(&[][..], |(_, causes)| causes);
            activity(*cpu, account, *used, causes)
        });
        let loads =
            options.loads.iter().zip(&loads).map(|(load, runs)| load_record(load, runs, &window, cpus));
        record.duration = results.iter().map(|(_, account, _)| account.observed).max();
        record.degraded = degraded;
        record.activities = activities.chain(loads).collect();
        record.trace = quality;
        inspector.mark(&mut record);
        let verdict = verdict(&causes, away, stolen);
        Ok(NoiseRun { record, causes, away, stolen, verdict })
    }

    /// Everything that can take a CPU from a thread, on every CPU.
    fn start_recording(&self, degraded: &mut Vec<String>) -> Option<JournalledRecording<'a>> {
        let is_wanted = |event: &&&str| {
            let needed = surety_trace::REQUIRED_EVENTS.contains(event);
            needed
                || ((event.starts_with("irq:") || event.starts_with("irq_vectors:"))
                    && !event.ends_with("raise"))
        };
        let events: Vec<&str> = surety_trace::EVENTS.iter().filter(is_wanted).copied().collect();
        let options = RecordingOptions::of(&events);
        let started = || {
            let cpus = self.kernel.online_cpus().map_err(RecordingError::from)?;
            let tracefs = Tracefs::open().map_err(RecordingError::from)?;
            JournalledRecording::start(&tracefs, self.journal, self.kernel, &options, cpus)
        };
        started().map_err(|why| degraded.push(format!("what was in the gaps is not known: {why}"))).ok()
    }
}

fn make(
    options: &NoiseOptions,
    cpus: CpuSet,
    gate: &Arc<Gate>,
    members: &mut Vec<Member>,
) -> Result<(), WorldError> {
    let pauses = matches!(options.policy, PolicySpec::Fifo { .. } | PolicySpec::RoundRobin { .. });
    for cpu in cpus.iter() {
        let of_probe = Arc::clone(gate);
        let room = if options.trace { ROOM } else { 0 };
        let account = NoiseAccount::new(options.threshold, room);
        let body = move || of_probe.wait().map(|window| watch_clock(account, &of_probe, &window, pauses));
        let (tid, handle) = spawn_thread(&format!("surety-noise{cpu}"), gate, body)?;
        members.push(Member { cpu, tid, handle });
    }
    Ok(())
}

fn place(
    surroundings: &Surroundings<'_>,
    enforcer: &mut Enforcer<'_>,
    options: &NoiseOptions,
    (crew, members): (&Crew, &[Member]),
) -> Result<Vec<ThreadInForce>, WorldError> {
    let mut threads = crew.place(surroundings, enforcer, &options.loads)?;
    let policy = ProbePolicy::Class(options.policy);
    let mut one = |m: &Member| {
        surroundings.place(enforcer, (&format!("cpu{}", m.cpu), m.tid), CpuSet::single(m.cpu), &policy)
    };
    for member in members {
        threads.push(one(member)?);
    }
    Ok(threads)
}

/// Reads the clock until the window ends; returns the CPU time used too.
fn watch_clock(
    mut account: NoiseAccount,
    gate: &Gate,
    window: &Window,
    pauses: bool,
) -> (NoiseAccount, Nanos) {
    let cpu = clock::thread_cpu_time();
    gate.sleep_until(window.begin);
    let mut busy_since = clock::monotonic();
    loop {
        let now = clock::monotonic();
        account.look(now);
        if now >= window.end || (account.readings.is_multiple_of(LOOK_EVERY) && gate.is_stopped()) {
            break;
        }
        if pauses && now - busy_since >= BUSY {
            account.pause();
            if !gate.sleep_until(now + PAUSE) {
                break;
            }
            busy_since = clock::monotonic();
        }
    }
    (account, clock::thread_cpu_time() - cpu)
}

/// What took each CPU away.
type CausesByCpu = Vec<(CpuId, Vec<Cause>)>;

/// That more gaps were seen than are kept and told apart.
fn untold(results: &[(CpuId, NoiseAccount, Nanos)]) -> Option<String> {
    let kept: u64 = results.iter().map(|(_, account, _)| account.gaps.len() as u64).sum();
    let all: u64 = results.iter().map(|(_, account, _)| account.lengths.histogram.count()).sum();
    let words =
        || format!("only the first {kept} of {all} gaps are told apart; raise --threshold or run for less");
    (kept < all).then(words)
}

/// Sleeps through the run.
fn watch(surroundings: &mut Surroundings<'_>, window: &Window, cancel: &Cancel) {
    let _ = clock::sleep_until(window.begin, Some(cancel.flag()));
    surroundings.begin();
    while clock::monotonic() < window.end && !cancel.is_cancelled() {
        let next = (clock::monotonic() + Nanos::from_millis(100)).min(window.end);
        let _ = clock::sleep_until(next, Some(cancel.flag()));
        surroundings.look();
    }
}

/// What a recording says of the gaps of each probe.
fn attribute(
    recording: JournalledRecording<'_>,
    probes: Vec<(CpuId, Tid, Vec<Gap>)>,
    degraded: &mut Vec<String>,
) -> Result<(CausesByCpu, TraceQuality), String> {
    let raw = recording.finish().map_err(|e| e.to_string())?;
    let mut attribution = Attribution::new(probes);
    let sink: &mut dyn TraceSink = &mut attribution;
    let summary = read_raw(&raw, sink)?;
    let lost = summary.lost.max(raw.lost());
    if lost > 0 {
        degraded.push(format!("the tracer lost {lost} events; what they were in is called unseen"));
    }
    Ok((attribution.finish(), TraceQuality { events: summary.delivered, lost, censored_jobs: 0 }))
}

/// The record of one thread.
fn activity(cpu: CpuId, account: &NoiseAccount, used: Nanos, causes: &[Cause]) -> ActivityRecord {
    let mut record = ActivityRecord::new(&format!("cpu{cpu}"), ActivityKind::Probe, Basis::Sample);
    let lengths = account.lengths.clone();
    if lengths.histogram.count() > 0 {
        record.series.insert(GAPS.to_owned(), Distribution::from(lengths));
    }
    record.longest_gap =
        account.lengths.histogram.max().and_then(|max| i64::try_from(max).ok()).map(Nanos::new);
    record.share = Some(Share { threads: vec![(used, None)], span: account.observed });
    let figure = |name: String, value, unit: &'static str| Figure { name, value, unit: unit.into() };
    record.figures = vec![
        figure(NOISE.to_owned(), account.share(), ""),
        figure("readings".to_owned(), account.readings as f64, ""),
        figure("shortest reading".to_owned(), account.shortest.get() as f64, "ns"),
    ];
    record.figures.extend(
        causes.iter().map(|c| {
            figure(format!("{} by {}: {}", NOISE, c.kind.word(), c.name), c.time.get() as f64, "ns")
        }),
    );
    record
}
