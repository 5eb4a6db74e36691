//! Arguments of `surety plan`.

use std::path::PathBuf;

use clap::Args;
use surety_units::Nanos;

use crate::args::positive;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Workload file
    #[arg(required_unless_present = "check")]
    pub workload: Option<PathBuf>,
    /// Verify a plan file again, with another solver than it was made with and in the simulator
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["workload", "explain", "front", "tests", "output", "cpus", "root_domains", "samples"])]
    pub check: Option<PathBuf>,
    /// Print the proofs in full
    #[arg(long)]
    pub explain: bool,
    /// Print what was compared for each task: bandwidth against the length of the server period
    #[arg(long, conflicts_with = "explain")]
    pub front: bool,
    /// Print what every schedulability test says about the reserved and the real-time threads, and why others do not apply
    #[arg(long, conflicts_with_all = ["explain", "front"])]
    pub tests: bool,
    /// Try this server period too; may be given several times
    #[arg(long = "try", value_name = "PERIOD", value_parser = positive)]
    pub periods: Vec<Nanos>,
    /// Take empirical work as samples of jobs: their sampling error counts
    #[arg(long)]
    pub samples: bool,
    /// Write the plan to this file
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Plan for this many CPUs of a mainline kernel instead of this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cpus: Option<u32>,
    /// Plan for a mainline kernel whose cpuset partitions have these many CPUs, such as 2,1,1: a root domain each
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with = "cpus",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub root_domains: Vec<u32>,
    /// How long the run that verifies it will be
    #[arg(long = "for", value_name = "TIME", default_value = "25s", value_parser = positive)]
    pub duration: Nanos,
}
