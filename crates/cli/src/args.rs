//! The command line: one source for parsing, help and the manual.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use surety_host::probe_setup::ProbePolicy;
use surety_model::platform::PlatformChanges;
use surety_model::platform::changes::keys_in_words;
use surety_model::until::Until;
use surety_units::{Bandwidth, CpuSet, Nanos, Probability};

use crate::args::lab::{GuestArgs, LabArgs};
use crate::args::planning::PlanArgs;
use crate::exit::{COMPARE_EXIT_CODES, EXIT_CODES, VALIDATE_EXIT_CODES};
use crate::load::{DiskArgs, LoadArgs};
use crate::rights::RightsArgs;

mod apply;
mod device;
mod gates;
mod init;
pub mod lab;
mod manual;
pub mod planning;
mod stream;
mod top;
mod trace;
mod validate;
mod workload;

pub use apply::*;
pub use device::*;
pub use gates::*;
pub use init::*;
pub use manual::*;
pub use stream::*;
pub use top::*;
pub use trace::*;
pub use validate::*;
pub use workload::*;

/// Guaranteed time on Linux: say what each activity needs; measure what it gets, derive the reservations that
/// guarantee it, prove them, put them in force, and measure again.
#[derive(Debug, Parser)]
#[command(name = "surety", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub verb: Option<Verb>,
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
    /// Print what was in force and the environment, too
    #[arg(long, short, global = true)]
    pub verbose: bool,
    /// Columns of text, 40 at least [default: COLUMNS, else those of the terminal; in a pipe tables have all their columns, and text
    /// has 100]
    #[arg(long, global = true, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..))]
    pub width: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write a workload file to start from: of a program that is watched, or a template
    Init(InitArgs),
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
    /// Show threads by latency and misses now, reservations with use and slack, CPUs with steal time
    #[command(after_help = EXIT_CODES)]
    Top(TopArgs),
    /// Measure wake-up latency: one sample for each planned activation, missed ones counted
    #[command(after_help = EXIT_CODES)]
    Latency(LatencyArgs),
    /// Run stock kernels under an emulator with a virtual clock: the same nanoseconds every time
    #[command(after_help = EXIT_CODES)]
    Lab(LabArgs),
    /// Measure interference with a busy thread, from hardware and from the scheduler
    #[command(after_help = EXIT_CODES)]
    Noise(NoiseArgs),
    /// Show the disks and I/O schedulers of the simulator
    #[command(after_help = EXIT_CODES)]
    Device(DeviceArgs),
    /// Let programs read files at a guaranteed rate
    #[command(after_help = EXIT_CODES)]
    Stream(StreamArgs),
    /// Reproduce published experiments: published, computed, simulated and measured values side by side
    #[command(after_help = EXIT_CODES)]
    Reproduce(ReproduceArgs),
    /// Compare the simulator with kernels, scenario by scenario
    #[command(after_help = VALIDATE_EXIT_CODES)]
    Validate(ValidateArgs),
    /// Write workload files of other programs as our own
    #[command(after_help = EXIT_CODES)]
    Workload(WorkloadArgs),
    /// Show results from files: our own JSON, or cyclictest, rtla, fio, HdrHistogram and others
    #[command(after_help = EXIT_CODES)]
    Report(ReportArgs),
    /// Check what this machine can guarantee, and how to mend what it cannot
    #[command(after_help = EXIT_CODES)]
    Doctor(DoctorArgs),
    /// Print the completions of a shell
    #[command(after_help = EXIT_CODES)]
    Completions(CompletionsArgs),
    /// Print a page of the manual, or write all of them
    #[command(after_help = EXIT_CODES)]
    Man(ManArgs),
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
    /// Recorded start-up of a program, for `startup`; may be given several times [default: one that is made]
    #[arg(long, value_name = "FILE", requires = "names")]
    pub replay: Vec<PathBuf>,
    /// Run only configurations with this word, such as a disk or a scheduler; may be given several times [default: all]
    #[arg(long, value_name = "WORD", requires = "names")]
    pub only: Vec<String>,
    /// Write the records of all runs into this file
    #[arg(long, value_name = "FILE", requires = "names")]
    pub records: Option<PathBuf>,
    /// Write the tables as one offline HTML page; of several experiments each puts its name before the ending
    #[arg(long, value_name = "FILE", requires = "names")]
    pub html: Option<PathBuf>,
    /// Run nothing on a kernel: read the records of all runs from such a file; with --on sim, simulate the machine of each record beside it
    #[arg(long, value_name = "FILE", requires = "names", conflicts_with = "records")]
    pub from: Option<PathBuf>,
    #[command(flatten)]
    pub guest: GuestArgs,
}

/// How a workload is run.
#[derive(Clone, Debug, Args)]
pub struct Running {
    /// Length of the measurement in each run [default: that of the workload's `duration`, else 25s]
    #[arg(long = "for", value_name = "TIME", value_parser = positive)]
    pub duration: Option<Nanos>,
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
    /// Workload file, or one of rt-app (.json), rtdag or PARTSim (.yaml, .yml)
    pub workload: PathBuf,
    /// System file of PARTSim (system.yml) for its tasks: CPUs, schedulers, speeds; `sim` then has these CPUs and no overheads
    #[arg(long, value_name = "FILE", conflicts_with = "ab")]
    pub platform_file: Option<PathBuf>,
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
    pub platform: PlatformArgs,
    #[command(flatten)]
    pub gates: GateArgs,
    #[command(flatten)]
    pub foreign: ForceArgs,
    #[command(flatten)]
    pub rights: RightsArgs,
    /// Run it as this plan sets it: reservations, streams fetched ahead, disks
    #[arg(long, value_name = "PLAN", conflicts_with = "ab")]
    pub plan: Option<PathBuf>,
    /// Do not trace the scheduler
    #[arg(long)]
    pub no_trace: bool,
    /// Write the scheduling events into this file, ending in .dat, .jsonl, .csv or .pftrace; with several worlds each
    /// puts its name before the ending
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_trace", "ab", "repeat"])]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    pub storing: Storing,
    /// Runs of each combination that the workload varies, interleaved
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Compare two sides in interleaved runs: KEY=VALUE_A,VALUE_B such as load.busy.count=2,8, or the workload file of B
    #[arg(long, value_name = "B", conflicts_with_all = ["repeat", "expect"])]
    pub ab: Option<String>,
    /// Compare the runs with stored ones, which `surety run --repeat 8 --json` wrote: the exit code is that of the comparison and of
    /// expectations then, 1 if a metric is worse; promises are shown and not judged
    #[arg(long, value_name = "FILE", conflicts_with = "ab")]
    pub baseline: Option<PathBuf>,
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

/// Another machine than this one for models.
#[derive(Clone, Debug, Args)]
pub struct PlatformArgs {
    #[arg(long, value_name = "KEY=VALUE,...", help = platform_help())]
    pub platform: Option<PlatformChanges>,
}

fn platform_help() -> String {
    format!(
        "Change the machine of sim and analysis, and with cpus, smt, llc, nodes, hrtimers, nohz and features that of guests: {}, separated by commas",
        keys_in_words()
    )
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
    #[command(flatten)]
    pub gates: ChangeArgs,
    /// Write the report as one offline HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
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
    /// [default: fifo:80; for who may not, the highest fifo:N allowed, else fair]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<ProbePolicy>,
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
    #[command(flatten)]
    pub gates: GateArgs,
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
    #[command(flatten)]
    pub gates: GateArgs,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Files of results, - for standard input; docs/formats/import.md lists their formats
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

/// Whether threads may be changed that are not the caller's.
#[derive(Clone, Copy, Debug, Args)]
pub struct ForceArgs {
    /// Change threads of process 1, of the kernel and of other users too, and reserve more than half of the CPUs for
    /// running threads
    #[arg(long)]
    pub force: bool,
}

#[cfg(test)]
mod tests;
