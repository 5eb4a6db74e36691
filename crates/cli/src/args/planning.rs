//! Arguments of `surety plan`.

use std::path::PathBuf;

use clap::Args;
use surety_units::Nanos;

use crate::args::{PlatformArgs, positive};

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Workload file
    #[arg(required_unless_present = "check")]
    pub workload: Option<PathBuf>,
    /// Verify a plan file, with another solver than it was made with and in the simulator
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["workload", "explain", "front", "tests", "output", "cpu_count", "root_domains", "platform", "samples", "any_phase"])]
    pub check: Option<PathBuf>,
    /// Print the proofs in full
    #[arg(long)]
    pub explain: bool,
    /// Print the reservations compared for each task: bandwidth against the length of the server period
    #[arg(long, conflicts_with = "explain")]
    pub front: bool,
    /// Print what every schedulability test says about the reserved and the real-time threads, and why others do not apply
    #[arg(long, conflicts_with_all = ["explain", "front"])]
    pub tests: bool,
    /// Try this server period too; may be given several times
    #[arg(long = "try", value_name = "PERIOD", value_parser = positive)]
    pub periods: Vec<Nanos>,
    /// Treat empirical work as samples of jobs: count their sampling error
    #[arg(long)]
    pub samples: bool,
    /// Plan for threads that may be reserved at any moment between their releases, as `surety apply` does: deadlines of
    /// reservations are the ends of their periods
    #[arg(long)]
    pub any_phase: bool,
    /// Write the plan to this file
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the plan and its proofs as one offline HTML page
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    pub html: Option<PathBuf>,
    /// Names CPUs in every verb, and a plan is of whole root domains: it is refused here
    #[arg(long, hide = true, value_name = "LIST", value_parser = no_list)]
    pub cpus: Option<String>,
    /// Plan for a mainline kernel on this many CPUs instead of this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cpu_count: Option<u32>,
    /// Plan for a mainline kernel whose cpuset partitions have these many CPUs, such as 2,1,1: a root domain each
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with = "cpu_count",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub root_domains: Vec<u32>,
    #[command(flatten)]
    pub platform: PlatformArgs,
    /// Limit of CPU time for the searches: half of it for smaller budgets and nearer feasible requests
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = positive)]
    pub search: Nanos,
    /// Length of the run that will verify it
    #[arg(long = "for", value_name = "TIME", default_value = "25s", value_parser = positive)]
    pub duration: Nanos,
}

fn no_list(_: &str) -> Result<String, String> {
    Err("a plan is of all CPUs of a machine; say of how many with --cpu-count N".to_owned())
}
