//! The command line of the lab.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use surety_lab::devices::Device;
use surety_lab::machine::GuestMachine;
use surety_lab::vm::{CPUS_MAX, LabOptions, MEMORY_MAX_MIB, MEMORY_MIN_MIB, Mode, SHIFT_MAX};
use surety_model::world::LAB_PREFIX;
use surety_units::{Bytes, Nanos};

use crate::args::{RunArgs, positive};

#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    pub verb: LabVerb,
}

#[derive(Debug, Subcommand)]
pub enum LabVerb {
    /// List the kernels, and which of them are fetched
    List,
    /// Fetch the newest version of kernels from this machine's Debian mirror
    Fetch(LabFetchArgs),
    /// Run a workload on a kernel: `surety run --on lab:KERNEL`
    Run(Box<LabRunArgs>),
    /// Open a shell in a guest
    Shell(LabShellArgs),
    /// Record a scenario: its samples with everything they depend on
    Record(LabRecordArgs),
    /// Check a recorded scenario: run it again, and show which wake-ups changed and by how much
    Check(LabCheckArgs),
}

/// What a guest is given.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Guests of the lab")]
pub struct GuestArgs {
    /// Number of virtual CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(CPUS_MAX)))]
    pub lab_cpus: u32,
    /// Make each virtual CPU a root domain of its own (cpuset partitions): interrupt threads on the first CPU of the run, tasks on
    /// the last
    #[arg(long)]
    pub lab_partition: bool,
    /// Memory of the guest
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = memory)]
    pub lab_memory: u64,
    /// Let an instruction take 2^N ns of the guest's clock [default: 0, or the experiment's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(SHIFT_MAX)))]
    pub lab_shift: Option<u32>,
    /// Use the host's clock instead of the virtual one: faster, and different every time
    #[arg(long, conflicts_with = "lab_shift")]
    pub lab_fast: bool,
    /// Load this kernel module first, such as null_blk or null_blk:queue_mode=2,irqmode=2; may be given several times
    #[arg(long, value_name = "MODULE")]
    pub lab_module: Vec<String>,
    /// Device of an interrupt source: sd-card, sd-card-pio, virtio-blk, e1000, pcnet or virtio-net [default: sd-card for closed
    /// loops, e1000 for arrivals]; a disk's with `:BYTES` read at once, cards with `:softirqs` instead of a thread; may be given several times
    #[arg(long, value_name = "ROLE=MODEL[:MORE]", value_parser = device)]
    pub lab_device: Vec<Device>,
    /// Time limit of a guest, on the host's clock [default: 180s, and 40 times the run with its warm-up]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub lab_within: Option<Nanos>,
    /// Write the console of the guest's kernel to this file
    #[arg(long, value_name = "FILE")]
    pub lab_console: Option<PathBuf>,
}

impl GuestArgs {
    /// The same for those who boot it.
    pub fn options(&self, seed: u64) -> LabOptions {
        let shift = self.lab_shift.unwrap_or_default();
        let mode = if self.lab_fast { Mode::Fast } else { Mode::Deterministic { shift } };
        LabOptions {
            cpus: self.lab_cpus,
            partitioned: self.lab_partition,
            memory_mib: self.lab_memory,
            machine: GuestMachine::default(),
            mode,
            seed,
            within: self.lab_within,
            devices: self.lab_device.clone(),
            modules: self.lab_module.clone(),
            console: self.lab_console.clone(),
        }
    }
}

#[derive(Debug, Args)]
pub struct LabFetchArgs {
    /// Kernels, as `surety lab list` names them
    #[arg(required = true, value_name = "KERNEL")]
    pub kernels: Vec<String>,
    /// Time limit of each kernel
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = positive)]
    pub within: Nanos,
}

#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// Kernel, as `surety lab list` names it
    #[arg(value_name = "KERNEL")]
    pub kernel: String,
    #[command(flatten)]
    pub run: RunArgs,
}

impl LabRunArgs {
    /// The same as arguments of `run`: the kernel first, then whatever else was named.
    pub fn on_lab(&self) -> RunArgs {
        let mut run = self.run.clone();
        run.on.insert(0, format!("{LAB_PREFIX}{}", self.kernel));
        run
    }
}

#[derive(Debug, Args)]
pub struct LabShellArgs {
    /// Kernel, as `surety lab list` names it
    #[arg(value_name = "KERNEL")]
    pub kernel: String,
    /// Seed of the emulator's random generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub guest: GuestArgs,
}

#[derive(Debug, Args)]
pub struct LabRecordArgs {
    /// Kernel, as `surety lab list` names it
    #[arg(value_name = "KERNEL")]
    pub kernel: String,
    /// File to write
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Command to record, as arguments of surety: `run FILE ...` or `latency ...`
    #[arg(last = true, required = true, value_name = "SCENARIO")]
    pub scenario: Vec<String>,
}

#[derive(Debug, Args)]
pub struct LabCheckArgs {
    /// File of `surety lab record`
    pub file: PathBuf,
    /// Run it on this kernel [default: the newest here of the name it was recorded on]
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Option<String>,
}

/// Whole MiB.
fn memory(text: &str) -> Result<u64, String> {
    let bytes: Bytes = text.parse().map_err(|e: surety_units::QuantityError| e.to_string())?;
    let mib = bytes.0 >> 20;
    if (MEMORY_MIN_MIB..=MEMORY_MAX_MIB).contains(&mib) {
        Ok(mib)
    } else {
        Err(format!("{MEMORY_MIN_MIB}MiB to {MEMORY_MAX_MIB}MiB are possible"))
    }
}

/// A role with a model, and what more is said of it.
fn device(text: &str) -> Result<Device, String> {
    Device::of_words(text).map_err(|error| match error.remedy() {
        Some(remedy) => format!("{error}; {remedy}"),
        None => error.to_string(),
    })
}
