//! Arguments of `surety trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use surety_model::event::Comm;
use surety_model::reservation::Reservation;
use surety_trace::{Condition, Wanted};
use surety_units::{Bytes, CpuSet, Nanos, Probability, Tid};

use super::{GateArgs, cpus, percent, positive, time};
use crate::rights::RightsArgs;

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
    /// Print who had a CPU for how long, and how long each waited for it: a line for each switch-out, or sums by thread
    Timehist(TimehistArgs),
    /// Print who has which CPU: a column for each CPU, a line for each change
    Map(MapArgs),
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
    /// Record only this process or thread, and what it makes from then on; may be given several times
    #[arg(long, value_name = "N")]
    pub pid: Vec<i32>,
    /// Record only these CPUs, such as 2-3
    #[arg(long, value_name = "LIST", value_parser = cpus, visible_alias = "cpu")]
    pub cpus: Option<CpuSet>,
    /// Record an event only where this filter of the kernel's holds, such as 'sched_switch:prev_prio < 100'
    #[arg(long, value_name = "EVENT:EXPRESSION")]
    pub filter: Vec<String>,
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
    /// Trace file, packed with gzip or zstd or not; - is standard input
    #[arg(default_value = "trace.dat")]
    pub file: PathBuf,
    #[command(flatten)]
    pub selection: Selection,
    /// Show at most this many threads, busiest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    #[command(flatten)]
    pub closely: Closely,
    #[command(flatten)]
    pub gates: GateArgs,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Trace file, packed with gzip or zstd or not; - is standard input
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
pub struct TimehistArgs {
    /// Trace file, packed with gzip or zstd or not; - is standard input
    #[arg(default_value = "trace.dat")]
    pub file: PathBuf,
    #[command(flatten)]
    pub selection: Selection,
    /// Print at most this many lines
    #[arg(long, value_name = "N", conflicts_with = "summary")]
    pub limit: Option<u64>,
    /// Print sums by thread in place of lines
    #[arg(long)]
    pub summary: bool,
    /// Show at most this many threads with --summary, busiest first
    #[arg(long, value_name = "N", default_value_t = 20, requires = "summary")]
    pub top: usize,
}

#[derive(Debug, Args)]
pub struct MapArgs {
    /// Trace file, packed with gzip or zstd or not; - is standard input
    #[arg(default_value = "trace.dat")]
    pub file: PathBuf,
    #[command(flatten)]
    pub selection: Selection,
    /// Print at most this many lines
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Trace file, packed with gzip or zstd or not; - is standard input
    #[arg(default_value = "trace.dat")]
    pub file: PathBuf,
    #[command(flatten)]
    pub selection: Selection,
    /// Number of worst jobs to explain
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub worst: usize,
    /// Explain waits for disks instead of jobs: from falling asleep to being on a CPU again
    #[arg(long)]
    pub disk: bool,
    /// Explain the start-ups of this name instead of jobs, over all threads that they waited for: the median one and the slowest
    #[arg(long, value_name = "NAME", conflicts_with_all = SPANS_EXCLUDE)]
    pub startup: Option<String>,
    /// Explain the late and dropped accesses (frames) of the stream of this name instead of jobs
    #[arg(long, value_name = "NAME", conflicts_with_all = SPANS_EXCLUDE, conflicts_with = "startup")]
    pub stream: Option<String>,
    /// Write the worst jobs and the causes as one offline HTML page
    #[arg(long, value_name = "FILE", conflicts_with_all = ["startup", "stream"])]
    pub html: Option<PathBuf>,
}

/// What chooses among threads and jobs, and nothing of a start-up or a stream.
const SPANS_EXCLUDE: [&str; 5] = ["disk", "tid", "comm", "cpus", "worst"];

#[derive(Debug, Args)]
pub struct IrqsArgs {
    /// Trace file, packed with gzip or zstd or not; - is standard input
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
    /// Trace file, packed with gzip or zstd or not; - is standard input
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
    pub order: OrderArgs,
}

#[derive(Debug, Args)]
pub struct ReserveArgs {
    /// Trace file, packed with gzip or zstd or not; - is standard input
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
    /// Trace file, packed with gzip or zstd or not; - is standard input
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

/// What becomes of interrupts and of the order of jobs.
#[derive(Debug, Args)]
pub struct OrderArgs {
    /// Leave interrupts out; their threads become tasks
    #[arg(long)]
    pub no_irqs: bool,
    /// Keep the work of jobs in their order, so that a run plays it again
    #[arg(long)]
    pub in_order: bool,
    /// With --in-order and for modes: wake-ups that need less are no jobs, as of a program that polls
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = time)]
    pub shortest_job: Nanos,
}
