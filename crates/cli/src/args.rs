//! The command line: one source for parsing, help and the manual.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use surety_model::event::Comm;
use surety_model::reservation::Reservation;
use surety_model::until::Until;
use surety_probe::probing::ProbePolicy;
use surety_trace::{Condition, Wanted};
use surety_units::{Bandwidth, Bytes, CpuSet, Nanos, Probability, Tid};

use crate::apply::ApplyArgs;
use crate::exit::{COMPARE_EXIT_CODES, EXIT_CODES};
use crate::gates::GateArgs;
use crate::lab::args::{GuestArgs, LabArgs};
use crate::load::{DiskArgs, LoadArgs};
use crate::planning::args::PlanArgs;
use crate::rights::RightsArgs;

/// Guaranteed time on Linux: say what each activity needs; measure what it gets, derive the reservations that
/// guarantee it, prove them, put them in force, and measure again.
#[derive(Debug, Parser)]
#[command(name = "surety", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Args)]
pub struct Common {
    /// Print one JSON document instead of tables
    #[arg(long, global = true)]
    pub json: bool,
    /// Use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// Print no progress and no notes
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Walk the whole loop: measure, profile, plan, prove, enforce, measure again, judge
    #[command(after_help = EXIT_CODES)]
    Guarantee(GuaranteeArgs),
    /// Run a workload in one or more worlds
    #[command(after_help = EXIT_CODES)]
    Run(RunArgs),
    /// Compare results: a verdict per metric, with an A/A floor
    #[command(after_help = COMPARE_EXIT_CODES)]
    Compare(CompareArgs),
    /// Derive reservations with their proofs
    #[command(after_help = EXIT_CODES)]
    Plan(PlanArgs),
    /// Put a plan in force, in the foreground; undo everything at the end
    #[command(after_help = EXIT_CODES)]
    Apply(ApplyArgs),
    /// Record scheduling events, and analyse what threads got
    #[command(after_help = EXIT_CODES)]
    Trace(TraceArgs),
    /// Measure wake-up latency: one sample for each planned activation, missed ones counted
    #[command(after_help = EXIT_CODES)]
    Latency(LatencyArgs),
    /// Run stock kernels under an emulator with a virtual clock: the same nanoseconds every time
    #[command(after_help = EXIT_CODES)]
    Lab(LabArgs),
    /// Measure interference with a busy thread, from hardware and from the scheduler
    #[command(after_help = EXIT_CODES)]
    Noise(NoiseArgs),
    /// Reproduce published experiments: published, computed, simulated and measured values side by side
    #[command(after_help = EXIT_CODES)]
    Reproduce(ReproduceArgs),
    /// Show results from files: our own JSON, or cyclictest, rtla, fio, HdrHistogram and others
    #[command(after_help = EXIT_CODES)]
    Report(ReportArgs),
    /// Check what this machine can guarantee, and how to mend what it cannot
    #[command(after_help = EXIT_CODES)]
    Doctor(DoctorArgs),
}

#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Experiments to reproduce [default: list them]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// World to run it in; may be given several times [default: those of the experiment]
    #[arg(long, value_name = "WORLD", requires = "names")]
    pub on: Vec<String>,
    /// Length of the measurement in each run [default: the experiment's]
    #[arg(long = "for", value_name = "TIME", value_parser = positive, requires = "names")]
    pub duration: Option<Nanos>,
    /// Warm-up before the measurement starts
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time)]
    pub warm_up: Nanos,
    /// Seed of the random generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Runs of each configuration, each with the next seed, in experiments on random variation
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// CPUs to run on [default: all]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Write the records of all runs into this file
    #[arg(long, value_name = "FILE", requires = "names")]
    pub records: Option<PathBuf>,
    /// Run nothing: read the records of all runs from such a file
    #[arg(long, value_name = "FILE", requires = "names", conflicts_with_all = ["on", "records"])]
    pub from: Option<PathBuf>,
    #[command(flatten)]
    pub guest: GuestArgs,
}

/// How a workload is run.
#[derive(Clone, Debug, Args)]
pub struct Running {
    /// Length of the measurement in each run
    #[arg(long = "for", value_name = "TIME", default_value = "25s", value_parser = positive)]
    pub duration: Nanos,
    /// Warm-up before the measurement starts
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time)]
    pub warm_up: Nanos,
    /// Seed of the random generator, the same in every world
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// CPUs to run on, such as 2-3 [default: all]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Write the report as one offline HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct GuaranteeArgs {
    /// Workload file
    #[arg(required_unless_present_any = ["share", "pid"], conflicts_with_all = ["share", "pid"])]
    pub workload: Option<PathBuf>,
    /// Guarantee this share of a CPU to the command, or to the process or thread of --pid
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    pub share: Option<Bandwidth>,
    /// Guarantee a response time or a share to a running process (all threads that do its work), or to one thread by its id
    #[arg(long, value_name = "N", conflicts_with = "command")]
    pub pid: Option<i32>,
    /// Response time to guarantee, from wake-up to completion, for --pid
    #[arg(long, value_name = "TIME", value_parser = positive, requires = "pid", conflicts_with = "share")]
    pub response: Option<Nanos>,
    /// Period of the activations, for --pid [default: found in a trace]
    #[arg(long, value_name = "TIME", value_parser = positive, requires = "pid")]
    pub period: Option<Nanos>,
    /// Fraction of activations to guarantee, for --pid
    #[arg(long, value_name = "PERCENT", default_value = "99%", value_parser = percent, requires = "pid")]
    pub at: Probability,
    #[command(flatten)]
    pub beside: LoadArgs,
    #[command(flatten)]
    pub disks: DiskArgs,
    #[command(flatten)]
    pub running: Running,
    #[command(flatten)]
    pub gates: GateArgs,
    #[command(flatten)]
    pub foreign: ForceArgs,
    #[command(flatten)]
    pub rights: RightsArgs,
    /// Write the plan to this file
    #[arg(long, value_name = "FILE")]
    pub save_plan: Option<PathBuf>,
    /// Print the proofs in full
    #[arg(long)]
    pub explain: bool,
    /// Command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Workload file
    pub workload: PathBuf,
    /// Worlds to run in: host, sim, analysis, lab:KERNEL [default: host]
    #[arg(long, value_name = "WORLD", num_args = 1..)]
    pub on: Vec<String>,
    #[command(flatten)]
    pub beside: LoadArgs,
    #[command(flatten)]
    pub disks: DiskArgs,
    #[command(flatten)]
    pub running: Running,
    #[command(flatten)]
    pub gates: GateArgs,
    #[command(flatten)]
    pub foreign: ForceArgs,
    #[command(flatten)]
    pub rights: RightsArgs,
    /// Do not trace the scheduler
    #[arg(long)]
    pub no_trace: bool,
    /// Write the scheduling events into this file, ending in .dat, .jsonl, .csv or .pftrace; with several worlds each
    /// puts its name before the ending
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_trace", "ab", "repeat"])]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    pub storing: Storing,
    /// Runs of each combination of [vary], interleaved
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Compare two sides in interleaved runs: KEY=VALUE_A,VALUE_B such as load.busy.count=2,8, or the workload file of B
    #[arg(long, value_name = "B", conflicts_with_all = ["repeat", "html", "expect"])]
    pub ab: Option<String>,
    /// Runs of each side of --ab
    #[arg(long, value_name = "N", default_value_t = 8, requires = "ab",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub pairs: u32,
    /// Keep disturbed pairs of --ab instead of running them again
    #[arg(long, requires = "ab")]
    pub keep_disturbed: bool,
    #[command(flatten)]
    pub judging: Judging,
    #[command(flatten)]
    pub guest: GuestArgs,
}

impl RunArgs {
    /// The worlds: those named, or this machine.
    pub fn worlds(&self) -> Vec<String> {
        if self.on.is_empty() { vec!["host".to_owned()] } else { self.on.clone() }
    }
}

/// What is judged of two sides, and how strictly.
#[derive(Clone, Debug, Args)]
pub struct Judging {
    /// Compare only metrics whose name contains these words, such as p50 or 'player response p99'
    #[arg(long, value_name = "WORDS")]
    pub metric: Vec<String>,
    /// Probability of finding no difference between equal sides
    #[arg(long, value_name = "PERCENT", default_value = "95%", value_parser = confidence)]
    pub confidence: Probability,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Results of A, written by --json; without --against the second file is B
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Results of B
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub against: Vec<PathBuf>,
    /// Compare only results whose label starts with this; given twice: for A, for B
    #[arg(long, value_name = "LABEL")]
    pub result: Vec<String>,
    #[command(flatten)]
    pub judging: Judging,
}

#[derive(Clone, Debug, Args)]
pub struct LatencyArgs {
    /// Measure one thread on each of these CPUs, such as 2-3 [default: all]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Period of the activations, 10us to 10s
    #[arg(long, short = 'i', value_name = "TIME", default_value = "1ms", value_parser = probe_period)]
    pub period: Nanos,
    /// Policy of the measured threads: fair, batch, idle, fifo:N, rr:N or deadline:RUNTIME/DEADLINE/PERIOD
    #[arg(long, value_name = "POLICY", default_value = "fifo:80")]
    pub policy: ProbePolicy,
    /// Length of the measurement [default: 10s; with --until at most 10min]
    #[arg(long = "for", value_name = "TIME", value_parser = positive)]
    pub duration: Option<Nanos>,
    /// Activations to measure on each CPU, in place of --for
    #[arg(long, value_name = "N", conflicts_with_all = ["duration", "until"], value_parser = clap::value_parser!(u64).range(1..=JOBS_MAX))]
    pub jobs: Option<u64>,
    /// Measure until the quantile of every CPU is known this precisely, such as 'ci(p99.9) < 5%'
    #[arg(long, value_name = "RULE")]
    pub until: Option<Until>,
    /// Warm-up before the measurement starts
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time)]
    pub warm_up: Nanos,
    /// Sleep for one period at a time (relative) instead of until planned instants (absolute)
    #[arg(long)]
    pub relative: bool,
    /// Stop at a wake-up latency above this, and keep the trace that leads to it
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub stop_over: Option<Nanos>,
    /// File of the trace, with --stop-over
    #[arg(long, short, value_name = "FILE", default_value = "trace.dat", requires = "stop_over")]
    pub output: PathBuf,
    #[command(flatten)]
    pub beside: LoadArgs,
    /// Seed of the random generator: loads, and the place of activations between two ticks
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the report as one offline HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// World to measure in: host or lab:KERNEL
    #[arg(long, value_name = "WORLD", default_value = "host")]
    pub on: String,
    #[command(flatten)]
    pub guest: GuestArgs,
}

#[derive(Debug, Args)]
pub struct NoiseArgs {
    /// Run one busy thread on each of these CPUs, such as 2-3 [default: all]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Length of the measurement
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = positive)]
    pub duration: Nanos,
    /// Shortest gap that is counted
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = positive)]
    pub threshold: Nanos,
    /// Policy of the busy threads: fair, batch, idle, fifo:N or rr:N; a real-time one sleeps 20 ms in every 100 ms
    #[arg(long, value_name = "POLICY", default_value = "fair")]
    pub policy: ProbePolicy,
    #[command(flatten)]
    pub beside: LoadArgs,
    /// Do not trace: the causes of gaps are not named
    #[arg(long)]
    pub no_trace: bool,
    /// Write the report as one offline HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    pub verb: TraceVerb,
}

#[derive(Debug, Subcommand)]
pub enum TraceVerb {
    /// Record scheduling events of the whole machine into a file
    Record(RecordArgs),
    /// Show the jobs of threads: counts, execution and response times, inter-arrival times
    Stats(StatsArgs),
    /// Explain delays of a thread: its worst jobs step by step, and what the slowest have in common
    Explain(ExplainArgs),
    /// Show interrupts: counts, inter-arrival and handler times, and the threads they wake
    Irqs(IrqsArgs),
    /// Print the events, or the jobs of threads, as lines of text
    Show(ShowArgs),
    /// Turn a trace into a workload file: its tasks, loads and interrupts, and what fits none
    Fit(FitArgs),
    /// Compute the smallest reservation for a thread, from the distributions of its work and inter-arrival times
    Reserve(ReserveArgs),
    /// Write a trace's events as a trace.dat file, JSON lines, CSV or a Perfetto trace
    Convert(ConvertArgs),
}

#[derive(Debug, Args)]
pub struct RecordArgs {
    /// File to write
    #[arg(long, short, value_name = "FILE", default_value = "trace.dat")]
    pub output: PathBuf,
    /// Length of the recording [default: until COMMAND ends, or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = positive)]
    pub duration: Option<Nanos>,
    /// Record these events too: system:name or system, with * and ?
    #[arg(long, value_name = "EVENT")]
    pub event: Vec<String>,
    /// Record only the events of --event
    #[arg(long, requires = "event")]
    pub only_events: bool,
    /// Stop when this much was recorded; with --keep, hold no more than this on disk
    #[arg(long, value_name = "BYTES", value_parser = room)]
    pub size: Option<Bytes>,
    /// Size of the kernel's trace buffer of each CPU
    #[arg(long, value_name = "BYTES", default_value = "8MiB", value_parser = room)]
    pub buffer: Bytes,
    /// Flight recorder: keep only this long before the end
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub keep: Option<Nanos>,
    /// Stop when a job meets this condition, such as 'response(player) > 40ms'; also latency, execution, throttled, wait
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    pub stop_when: Option<Condition>,
    /// Record this long after --stop-when was met
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = time, requires = "stop_when")]
    pub after: Nanos,
    #[command(flatten)]
    pub rights: RightsArgs,
    /// Command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Which part of a trace is wanted. Every event is read all the same: what happens elsewhere says where a thread is.
#[derive(Clone, Debug, Default, Args)]
pub struct Selection {
    /// Select only this thread; may be given several times
    #[arg(long, value_name = "N", visible_alias = "pid")]
    pub tid: Vec<i32>,
    /// Select only threads with this name; may be given several times
    #[arg(long, value_name = "NAME", visible_alias = "name")]
    pub comm: Vec<String>,
    /// Select only these CPUs, such as 2-3: events, jobs that started there, CPU time and waiting there
    #[arg(long, value_name = "LIST", value_parser = cpus, visible_alias = "cpu")]
    pub cpus: Option<CpuSet>,
    /// Select only what is at or after this time since the first event: events, jobs released, CPU time, waiting
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<Nanos>,
    /// Select only what is before this time since the first event
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub to: Option<Nanos>,
    /// Read the buffer of this tracing instance, of a file that holds several [default: the main one]
    #[arg(long, value_name = "NAME")]
    pub buffer: Option<String>,
}

impl Selection {
    /// The same for those who apply it.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            tids: self.tid.iter().copied().map(Tid).collect(),
            names: self.comm.iter().map(|name| Comm::new(name)).collect(),
            cpus: self.cpus,
            from: self.from,
            to: self.to,
        }
    }
}

/// A close look at one thread or interrupt.
#[derive(Clone, Debug, Args)]
pub struct Closely {
    /// Draw the distributions of one thread or interrupt, with quantiles, dependence, stationarity and changes
    #[arg(long)]
    pub distribution: bool,
    /// Grid of the distributions, such as 1ms [default: a round one with about 40 to 80 bars]
    #[arg(long, value_name = "TIME", value_parser = positive, requires = "distribution")]
    pub grid: Option<Nanos>,
    /// Write the distributions as one offline HTML page
    #[arg(long, value_name = "FILE", requires = "distribution")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Trace file
    #[arg(default_value = "trace.dat")]
    pub file: PathBuf,
    #[command(flatten)]
    pub selection: Selection,
    /// Show at most this many threads, busiest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    #[command(flatten)]
    pub closely: Closely,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Trace file
    #[arg(default_value = "trace.dat")]
    pub file: PathBuf,
    #[command(flatten)]
    pub selection: Selection,
    /// Print at most this many lines
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Print jobs instead of events, each at its completion
    #[arg(long)]
    pub jobs: bool,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Trace file
    #[arg(default_value = "trace.dat")]
    pub file: PathBuf,
    #[command(flatten)]
    pub selection: Selection,
    /// Number of worst jobs to explain
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub worst: usize,
}

#[derive(Debug, Args)]
pub struct IrqsArgs {
    /// Trace file
    #[arg(default_value = "trace.dat")]
    pub file: PathBuf,
    /// Select only the interrupt with this number or name, such as 29, local_timer or NET_RX
    #[arg(long, value_name = "N|NAME")]
    pub irq: Option<String>,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub closely: Closely,
}

#[derive(Debug, Args)]
pub struct FitArgs {
    /// Trace file
    #[arg(default_value = "trace.dat")]
    pub file: PathBuf,
    /// Workload file to write
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub selection: Selection,
    /// Fit only threads that use at least this share of a CPU
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = percent)]
    pub min_share: Probability,
    #[command(flatten)]
    pub order: crate::trace::fit::OrderArgs,
}

#[derive(Debug, Args)]
pub struct ReserveArgs {
    /// Trace file
    #[arg(default_value = "trace.dat")]
    pub file: PathBuf,
    #[command(flatten)]
    pub selection: Selection,
    /// Response time to guarantee, from the release of a job
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub response: Nanos,
    /// Fraction of jobs to guarantee
    #[arg(long, value_name = "PERCENT", default_value = "99%", value_parser = percent)]
    pub at: Probability,
}

#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// Trace file
    pub file: PathBuf,
    /// File to write, ending in .dat, .jsonl, .csv, .pftrace or .perfetto-trace
    pub output: PathBuf,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub storing: Storing,
    /// Add tracks of a thread's reservation to a Perfetto trace: THREAD=RUNTIME/[DEADLINE/]PERIOD
    #[arg(long, value_name = "PROMISE", value_parser = reserved)]
    pub reservation: Vec<(String, Reservation)>,
    /// Add tracks of a thread's deadlines and misses to a Perfetto trace: THREAD=TIME after each release
    #[arg(long, value_name = "PROMISE", value_parser = due)]
    pub deadline: Vec<(String, Nanos)>,
}

/// How a trace.dat file is written.
#[derive(Clone, Debug, Default, Args)]
pub struct Storing {
    /// Version of a trace.dat file: 6, which every trace-cmd reads, or 7 [default: 7]
    #[arg(long, value_name = "N")]
    pub file_version: Option<FileVersion>,
    /// Compression of a trace.dat file of version 7 [default: zstd]
    #[arg(long, value_name = "NAME")]
    pub compression: Option<Packing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FileVersion {
    #[value(name = "6")]
    V6,
    #[value(name = "7")]
    V7,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Packing {
    None,
    Zlib,
    Zstd,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Files of results; docs/formats/import.md lists their formats
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the report as one offline HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub gates: GateArgs,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Have the kernel count deadline bandwidth anew: leaked bandwidth is given back
    #[arg(long)]
    pub repair: bool,
}

pub fn time(text: &str) -> Result<Nanos, String> {
    text.parse().map_err(|e: surety_units::QuantityError| e.to_string())
}

pub fn positive(text: &str) -> Result<Nanos, String> {
    let time = time(text)?;
    if time.is_positive() { Ok(time) } else { Err("a time longer than nothing is needed".to_owned()) }
}

/// The most activations of one run.
pub const JOBS_MAX: u64 = 1 << 40;

fn probe_period(text: &str) -> Result<Nanos, String> {
    let period = time(text)?;
    if (Nanos::from_micros(10)..=Nanos::from_secs(10)).contains(&period) {
        Ok(period)
    } else {
        Err("a period of 10us to 10s is needed".to_owned())
    }
}

/// Room for pages: less than this is no recording.
const ROOM_MIN: Bytes = Bytes(64 << 10);

fn room(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|e: surety_units::QuantityError| e.to_string())?;
    if bytes >= ROOM_MIN { Ok(bytes) } else { Err(format!("at least {ROOM_MIN} are needed")) }
}

fn condition(text: &str) -> Result<Condition, String> {
    Condition::parse(text).map_err(|e| e.to_string())
}

/// `THREAD=RUNTIME/PERIOD` or `THREAD=RUNTIME/DEADLINE/PERIOD`.
fn reserved(text: &str) -> Result<(String, Reservation), String> {
    let (thread, times) = promised(text)?;
    let times: Vec<Nanos> = times.split('/').map(positive).collect::<Result<_, _>>()?;
    let reservation = match times[..] {
        [runtime, period] => Reservation::implicit(runtime, period),
        [runtime, deadline, period] => Reservation { deadline, ..Reservation::implicit(runtime, period) },
        _ => return Err("RUNTIME/PERIOD or RUNTIME/DEADLINE/PERIOD is needed, such as 4ms/10ms".to_owned()),
    };
    reservation.check().map_err(|e| e.to_string())?;
    Ok((thread, reservation))
}

/// `THREAD=TIME`.
fn due(text: &str) -> Result<(String, Nanos), String> {
    let (thread, limit) = promised(text)?;
    Ok((thread, positive(limit)?))
}

/// The thread, by name or id, and what it was promised; a name may hold `=`.
fn promised(text: &str) -> Result<(String, &str), String> {
    let parts = text.rsplit_once('=').filter(|(thread, _)| !thread.is_empty());
    let (thread, promise) = parts.ok_or("THREAD=PROMISE is needed, such as player=40ms")?;
    Ok((thread.to_owned(), promise))
}

fn cpus(text: &str) -> Result<CpuSet, String> {
    let set: CpuSet = text.parse().map_err(|e: surety_units::QuantityError| e.to_string())?;
    if set.is_empty() { Err("at least one CPU is needed".to_owned()) } else { Ok(set) }
}

fn share(text: &str) -> Result<Bandwidth, String> {
    let share: Bandwidth = text.parse().map_err(|e: surety_units::QuantityError| e.to_string())?;
    match share {
        share if share == Bandwidth::ZERO => Err("a share of nothing needs no guarantee".to_owned()),
        share => Ok(share),
    }
}

fn percent(text: &str) -> Result<Probability, String> {
    text.parse().map_err(|e: surety_units::QuantityError| e.to_string())
}

fn confidence(text: &str) -> Result<Probability, String> {
    let confidence = percent(text)?;
    let value = confidence.as_f64();
    if (0.5..=0.9999).contains(&value) {
        Ok(confidence)
    } else {
        Err("a confidence is from 50% to 99.99%".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// Every `$ surety ...` of the documentation is a command this program takes.
    #[test]
    fn commands_in_the_documentation_parse() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut commands = 0;
        for file in [
            "README.md",
            "docs/latency.md",
            "docs/lab.md",
            "docs/compare.md",
            "docs/expectations.md",
            "docs/formats/import.md",
            "docs/formats/workload.md",
            "docs/formats/plan.md",
            "docs/formats/record.md",
        ] {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            for line in text.lines().map(str::trim_start) {
                let command = line.strip_prefix("$ sudo ").or(line.strip_prefix("$ "));
                let Some(command) = command.filter(|c| c.starts_with("surety ")) else { continue };
                let words = surety_probe::split_command(command).unwrap();
                let parsed = Arguments::try_parse_from(&words);
                assert!(parsed.is_ok(), "{file}: {command}: {}", parsed.unwrap_err());
                commands += 1;
                for example in words.iter().filter(|w| w.starts_with("examples/")) {
                    assert!(root.join(example).exists(), "{file} names {example}");
                }
            }
        }
        assert!(commands >= 10, "{commands}");
    }
}

/// Whether threads may be changed that are not the caller's.
#[derive(Clone, Copy, Debug, Args)]
pub struct ForceArgs {
    /// Change threads of process 1, of the kernel and of other users too, and reserve more than half of the CPUs for
    /// running threads
    #[arg(long)]
    pub force: bool,
}
