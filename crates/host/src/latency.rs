//! [`LatencyProbe`]: threads that sleep until planned instants and say how late they woke.
//!
//! What is measured is kept in [`surety_model::latency`]; here are the threads, the clock and the ends of a run. A
//! recording thread allocates nothing, takes no lock and formats nothing: it reads the clock, records, and sleeps. Who
//! watches asks for a copy by a flag; the thread makes it after its next wake-up, where nothing is measured, unless the
//! watcher holds the place just then (`try_lock`), and so never waits for anybody.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use surety_enforce::Enforcer;
use surety_kernel::journal::Journal;
use surety_kernel::tracefs::{Marker, Tracefs};
use surety_kernel::{Kernel, clock, thread};
use surety_model::activation::tick_phase;
use surety_model::latency::{EFFECTIVE, LAG_ONE, LatencyAccount, LatencyGrid, LatencyTotals, RAW, Sleep};
use surety_model::record::{ActivityRecord, Basis, Distribution, Figure, Observed, Record, Share};
use surety_model::until::{Look, Looks, Until};
use surety_model::verdict::CONFIDENCE;
use surety_model::workload::{ActivityKind, Load};
use surety_model::world::{Cancel, WorldError};
use surety_stats::correlation::dependence;
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use crate::children::ChildrenEntry;
use crate::loads::crew::Crew;
use crate::loads::{Ground, LoadRun};
use crate::probe_setup::{ProbePolicy, Surroundings};
use crate::recorder::{JournalledRecording, RawTrace, RecordingError, RecordingOptions};
use crate::records::load_record;
use crate::threads::spawn_thread;
use crate::window::RUN_UP;
use crate::window::{Gate, Window};

mod threads;

use threads::ProbeThreads;

/// How often the main thread looks up.
const LOOK: Nanos = Nanos::from_millis(100);
/// How often it does while a spike would end the run: the trace goes on until then.
const LOOK_FOR_SPIKE: Nanos = Nanos::from_millis(20);
/// How long a thread sleeps without looking whether the run is over.
const LAST_STRETCH: Nanos = Nanos::from_millis(100);
/// What a flight recorder keeps before the end.
pub const TRACE_KEPT: Nanos = Nanos::from_secs(2);

/// What is asked of a latency probe.
#[derive(Clone, Debug)]
pub struct LatencyOptions {
    /// One thread for each; `None`: all this process may use.
    pub cpus: Option<CpuSet>,
    /// Between two activations.
    pub period: Nanos,
    /// On a grid, or each from the present.
    pub sleep: Sleep,
    /// What the threads run under.
    pub policy: ProbePolicy,
    /// Activations of each thread that are recorded.
    pub jobs: u64,
    /// How long it runs before that.
    pub warm_up: Nanos,
    /// Ends the run when every CPU's quantile is known so well.
    pub until: Option<Until>,
    /// Ends the run at a wake-up later than this, and keeps the trace that leads to it.
    pub stop_over: Option<Nanos>,
    /// What disturbs.
    pub loads: Vec<Load>,
    /// What the place between two ticks, and the loads' work, are drawn from.
    pub seed: u64,
    /// Ends the run early; what was measured until then counts.
    pub cancel: Cancel,
}

impl LatencyOptions {
    /// When it runs: whole periods of warm-up, begun on the tick.
    fn window(&self, tick: Nanos) -> Window {
        let period = self.period.max(Nanos::new(1));
        let warm_up = period * self.warm_up.div_ceil(period).max(0);
        let span = period.checked_mul(i64::try_from(self.jobs).unwrap_or(i64::MAX)).unwrap_or(Nanos::MAX);
        let begin = Window::aligned_begin(clock::monotonic() + RUN_UP, tick, tick_phase(self.seed, tick));
        let end = begin.saturating_add(warm_up).saturating_add(span).saturating_add(period);
        Window { begin, observe: begin + warm_up, end }
    }

    /// Says how it was measured.
    fn note(&self, surroundings: &mut Surroundings<'_>, warm_up: Nanos) {
        if !self.policy.is_pinned() {
            let note = "threads under SCHED_DEADLINE use every CPU: the kernel refuses to pin them";
            surroundings.note("pinning", note);
        }
        let grid = match self.sleep {
            Sleep::Absolute => "absolute: planned instants stand, missed ones are counted",
            Sleep::Relative => "relative: each sleep begins when the last ended",
        };
        surroundings.note("grid", &format!("{grid}; period {}", self.period.to_exact_string()));
        surroundings.note("warm-up", &format!("{} discarded", warm_up.to_exact_string()));
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyEnd {
    /// Everything planned is done.
    Done,
    /// The rule was met on every CPU.
    Until,
    /// A wake-up was too late.
    Spike,
    /// By the user.
    Cancelled,
}

/// A wake-up that was later than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spike {
    /// The probe's CPU; of probes that are not pinned, their number.
    pub cpu: CpuId,
    /// Its thread.
    pub tid: Tid,
    /// The activation, from 0, warm-up excluded.
    pub activation: u64,
    /// When it was planned, on CLOCK_MONOTONIC.
    pub planned: Nanos,
    /// How late it came.
    pub latency: Nanos,
}

/// What a run of the probe came to.
#[derive(Debug)]
pub struct LatencyRun {
    /// One activity for each CPU, and the loads.
    pub record: Record,
    /// Why it ended.
    pub end: LatencyEnd,
    /// The wake-up that ended it.
    pub spike: Option<Spike>,
    /// The trace that leads to it.
    pub trace: Option<RawTrace>,
    /// The last look at each CPU, with a rule.
    pub looks: Vec<(CpuId, Look)>,
    /// The intended-time values of each CPU in their order, the latest [`surety_model::latency::RECENT`] of them, in ns.
    pub samples: Vec<(CpuId, Vec<u64>)>,
}

/// Is shown every CPU now and then.
pub type Watcher<'w> = &'w mut dyn FnMut(&[Live<'_>]);

/// What a watcher is shown of one CPU.
#[derive(Debug)]
pub struct Live<'a> {
    /// The probe's CPU.
    pub cpu: CpuId,
    /// Everything so far.
    pub totals: &'a LatencyTotals,
}

/// The probe.
pub struct LatencyProbe<'a> {
    kernel: &'a dyn Kernel,
    journal: Option<&'a Journal>,
}

/// What a recording thread shares with the one that watches.
#[derive(Debug)]
struct Shared {
    /// A copy is wanted.
    wanted: AtomicBool,
    copy: Mutex<LatencyTotals>,
    spike: Arc<OnceLock<Spike>>,
    /// Threads that are done.
    done: Arc<AtomicUsize>,
}

/// What a recording thread returns.
struct ThreadRun {
    account: LatencyAccount,
    cpu: Nanos,
    waited: Option<Nanos>,
    end: Nanos,
}

/// A recording thread, ready to run.
struct ThreadSpec {
    cpu: CpuId,
    /// Its place among the threads, which do not all wake at the same instant.
    offset: Nanos,
    period: Nanos,
    sleep: Sleep,
    warm_up: u64,
    jobs: u64,
    stop_over: Option<Nanos>,
    marker: Option<Marker>,
    shared: Arc<Shared>,
}

impl ThreadSpec {
    /// Runs in the calling thread until the plan is done or the gate stops.
    fn run(&self, gate: &Gate, mut account: LatencyAccount) -> ThreadRun {
        let Some(window) = gate.wait() else {
            return ThreadRun { account, cpu: Nanos::ZERO, waited: None, end: Nanos::ZERO };
        };
        let tid = thread::own_tid();
        let mut grid =
            LatencyGrid::new(window.begin + self.offset, self.period, self.sleep, self.warm_up, self.jobs);
        let mut used = None;
        let mut now = window.begin;
        while let Some(due) = grid.due() {
            let Some(woke) = self.rest(gate, &mut grid, due) else { break };
            now = woke;
            let wake = grid.woke(now);
            account.record(&wake, now);
            if used.is_none() && wake.activation.is_some() {
                used = Some((clock::thread_cpu_time(), thread::own_wait_time()));
            }
            if let (Some(limit), Some(activation)) = (self.stop_over, wake.activation)
                && wake.latency > limit
            {
                let spike =
                    Spike { cpu: self.cpu, tid, activation, planned: wake.planned, latency: wake.latency };
                // Another thread may have had one just before.
                if self.shared.spike.set(spike).is_ok() {
                    self.mark(&spike);
                }
                break;
            }
            self.publish(&account);
        }
        let (cpu, waited) = used.map_or((Nanos::ZERO, None), |(cpu, waited)| {
            (
                clock::thread_cpu_time() - cpu,
                thread::own_wait_time().zip(waited).map(|(end, start)| end - start),
            )
        });
        self.shared.done.fetch_add(1, Ordering::Release);
        ThreadRun { account, cpu, waited, end: now }
    }

    /// Sleeps until the next activation and says when it woke; `None` when the run is over.
    fn rest(&self, gate: &Gate, grid: &mut LatencyGrid, due: Nanos) -> Option<Nanos> {
        let woke = match grid.sleep() {
            Sleep::Absolute => {
                // Only a long sleep is cut into pieces; the last of them ends at the instant itself.
                let near = due - LAST_STRETCH;
                if near > clock::monotonic() && !gate.sleep_until(near) {
                    return None;
                }
                clock::wake_at(due)
            }
            Sleep::Relative => {
                grid.asked(clock::monotonic());
                clock::sleep_for(self.period).map(|()| clock::monotonic())
            }
        };
        woke.ok().filter(|_| !gate.is_stopped())
    }

    /// Makes the copy somebody waits for, unless they look at the last one just now.
    fn publish(&self, account: &LatencyAccount) {
        if self.shared.wanted.load(Ordering::Relaxed)
            && let Ok(mut copy) = self.shared.copy.try_lock()
        {
            copy.copy_from(&account.totals);
            self.shared.wanted.store(false, Ordering::Release);
        }
    }

    /// Writes a mark into the trace, from memory on the stack.
    fn mark(&self, spike: &Spike) {
        if let Some(marker) = &self.marker {
            let mut buffer = [0; 96];
            let mut rest = &mut buffer[..];
            let written = writeln!(
                rest,
                "surety spike cpu{} activation {} late {}ns",
                spike.cpu,
                spike.activation,
                spike.latency.get()
            );
            let left = rest.len();
            if written.is_ok() {
                let _ = marker.mark(&buffer[..buffer.len() - left]);
            }
        }
    }
}

impl<'a> LatencyProbe<'a> {
    /// A probe of this kernel. With a journal a killed run leaves no trace instance behind.
    pub fn new(kernel: &'a dyn Kernel, journal: Option<&'a Journal>) -> LatencyProbe<'a> {
        LatencyProbe { kernel, journal }
    }

    /// Runs the probe. `watcher`, where there is one, is shown every CPU about twice a second; copies are made only for
    /// it and for a rule.
    ///
    /// # Errors
    /// [`WorldError`]: CPUs that are not there, a policy the user may not have, a load that cannot run.
    pub fn run(
        &self,
        options: &LatencyOptions,
        mut watcher: Option<Watcher<'_>>,
    ) -> Result<LatencyRun, WorldError> {
        let mut surroundings = Surroundings::enter(self.kernel, options.cpus, true)?;
        let cpus = surroundings.cpus();
        let mut degraded = Vec::new();
        let recording = options.stop_over.and_then(|_| self.start_recording(&mut degraded));
        let gate = Arc::new(Gate::default());
        let mut enforcer = Enforcer::new(self.kernel, self.journal);
        let marker = recording.as_ref().map(JournalledRecording::marker);
        let children = ChildrenEntry::of_loads(&options.loads, self.journal, self.kernel);
        let mark = children.as_ref().map(|children| children.mark().to_owned());
        let ground = Ground { disks: None, mark, cancel: &options.cancel };
        let probes = ProbeThreads::gather(options, cpus, &gate, marker.as_ref(), &ground)?;
        drop(marker);
        let threads = probes.place(&surroundings, &mut enforcer, options);
        let threads = match threads {
            Ok(threads) => threads,
            Err(error) => {
                probes.send_home(&gate, options);
                return Err(error);
            }
        };
        let window = options.window(surroundings.tick());
        gate.open(window);
        let _ = clock::sleep_until(window.observe, Some(options.cancel.flag()));
        surroundings.begin();
        let mut looks = probes.looks(options.until);
        let ended = self.watch(options, (&surroundings, &probes), &mut looks, &mut watcher);
        let stopped = clock::monotonic();
        gate.stop();
        let spike = probes.spike.get().copied();
        let ended = if spike.is_some() { LatencyEnd::Spike } else { ended };
        let trace = match recording.map(JournalledRecording::finish) {
            Some(Ok(trace)) => spike.map(|_| trace),
            Some(Err(error)) => {
                degraded.push(format!("the trace could not be read: {error}"));
                None
            }
            None => None,
        };
        let (runs, loads) = probes.collect(options);
        drop(children);
        let undo_failures = enforcer.undo();
        let loads = loads?;
        surroundings.count_loads(loads.iter().flatten().map(LoadRun::elsewhere).sum());
        degraded.extend(undo_failures.iter().map(|e| format!("a change could not be taken back: {e}")));
        options.note(&mut surroundings, window.observe - window.begin);
        let (mut record, inspector) = surroundings.finish(threads, &gate);
        degraded.append(&mut record.degraded);
        let end = runs.iter().map(|(_, run)| run.end).max().unwrap_or(stopped);
        let observed = (end - window.observe).max(Nanos::ZERO);
        let probes = runs.iter().map(|(cpu, run)| activity(*cpu, run, observed));
        let seen = Window { end: end.max(window.observe), ..window };
        let loads = options.loads.iter().zip(&loads).map(|(load, runs)| load_record(load, runs, &seen, cpus));
        record.reserved = !options.policy.is_pinned();
        record.seed = Some(options.seed);
        record.duration = Some(observed);
        record.degraded = degraded;
        record.activities = probes.chain(loads).collect();
        inspector.mark(&mut record);
        let looks = looks.into_iter().filter_map(|(cpu, _, look)| Some((cpu, look?))).collect();
        let samples = runs.iter().map(|(cpu, run)| (*cpu, run.account.values())).collect();
        Ok(LatencyRun { record, end: ended, spike, trace, looks, samples })
    }

    /// A flight recorder of everything the scheduler does on every CPU.
    fn start_recording(&self, degraded: &mut Vec<String>) -> Option<JournalledRecording<'a>> {
        let options =
            RecordingOptions { keep: Some(TRACE_KEPT), ..RecordingOptions::of(surety_trace::EVENTS) };
        let started = || {
            let cpus = self.kernel.online_cpus().map_err(RecordingError::from)?;
            let tracefs = Tracefs::open().map_err(RecordingError::from)?;
            JournalledRecording::start(&tracefs, self.journal, self.kernel, &options, cpus)
        };
        started().map_err(|why| degraded.push(format!("no trace leads to a spike: {why}"))).ok()
    }

    /// Looks on until the run is over.
    fn watch(
        &self,
        options: &LatencyOptions,
        (surroundings, probes): (&Surroundings<'_>, &ProbeThreads),
        looks: &mut [(CpuId, Looks, Option<Look>)],
        watcher: &mut Option<Watcher<'_>>,
    ) -> LatencyEnd {
        const SHOWN_EVERY: u32 = 5;
        let pause = if options.stop_over.is_some() { LOOK_FOR_SPIKE } else { LOOK };
        let mut next_copy = clock::monotonic();
        let mut copies = 0u32;
        loop {
            if probes.spike.get().is_some() {
                return LatencyEnd::Spike;
            }
            if probes.is_done() {
                return LatencyEnd::Done;
            }
            if options.cancel.is_cancelled() {
                return LatencyEnd::Cancelled;
            }
            surroundings.look();
            let now = clock::monotonic();
            if now >= next_copy && (options.until.is_some() || watcher.is_some()) {
                next_copy = now + LOOK;
                copies = copies.wrapping_add(1);
                if options.until.is_some() && probes.look(looks) {
                    return LatencyEnd::Until;
                }
                if copies.is_multiple_of(SHOWN_EVERY)
                    && let Some(watcher) = watcher
                {
                    probes.show(watcher);
                }
                probes.ask();
            }
            // A sleep of the main thread that fails ends early; the next look tells.
            let _ = clock::sleep_until(now + pause, Some(options.cancel.flag()));
        }
    }
}

/// The record of one thread.
fn activity(cpu: CpuId, run: &ThreadRun, observed: Nanos) -> ActivityRecord {
    let totals = &run.account.totals;
    let mut record = ActivityRecord::new(&format!("cpu{cpu}"), ActivityKind::Probe, Basis::Sample);
    record.activations = totals.planned;
    record.completed = totals.planned - totals.missed;
    (record.skipped, record.missed) = (totals.missed, totals.missed);
    let distribution = |o: &Observed| Distribution::from(o.clone());
    if totals.planned > 0 {
        record.latency = Some(distribution(&totals.intended));
        record.series.insert(RAW.to_owned(), distribution(&totals.raw));
    }
    record.share = Some(Share { threads: vec![(run.cpu, run.waited)], span: observed });
    if let Some(dependence) = dependence(&run.account.recent()) {
        let figure = |name: &str, value| Figure { name: name.to_owned(), value, unit: "".into() };
        record.figures = vec![figure(LAG_ONE, dependence.lag_one), figure(EFFECTIVE, dependence.effective)];
    }
    record
}
