//! The command line of the validation.

use std::path::PathBuf;

use clap::Args;
use clap::builder::TypedValueParser as _;
use surety_lab::vm::CPUS_MAX;
use surety_units::Nanos;

use super::{positive, time};
use crate::args::lab::GuestArgs;

#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Scenarios to compare, by their titles, and workload files [default: all scenarios of the list]
    #[arg(value_name = "SCENARIO|FILE")]
    pub names: Vec<String>,
    /// Number of CPUs that workload files are run on, on the host the last ones
    #[arg(long, value_name = "N", default_value_t = 1, requires = "names", value_parser = clap::value_parser!(u32).range(1..=i64::from(CPUS_MAX)))]
    pub cpu_count: u32,
    /// Kernel to compare with: host or lab:KERNEL; may be given several times [default: lab:6.1-cloud, lab:6.12-cloud, lab:7-cloud and host]
    #[arg(long, value_name = "WORLD")]
    pub on: Vec<String>,
    /// Directory of what the kernels did, a file each; scenarios found there are not run again
    #[arg(long, value_name = "DIR", default_value = "validation")]
    pub records: PathBuf,
    /// Run no kernel: compare with what the directory holds
    #[arg(long, conflicts_with = "fresh")]
    pub stored: bool,
    /// Run scenarios again that the directory holds
    #[arg(long)]
    pub fresh: bool,
    /// Length of the measurement in each run [default: that of the workload's `duration`, else 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = positive)]
    pub duration: Option<Nanos>,
    /// Warm-up before the measurement starts
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time)]
    pub warm_up: Nanos,
    /// Undisturbed runs of each scenario on the host, of which the middle one is compared
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99).map(usize::from))]
    pub runs: usize,
    /// Seed of the random generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the tables into this Markdown page, between its comments
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    #[command(flatten)]
    pub guest: GuestArgs,
}
