//! Arguments of `surety workload`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct WorkloadArgs {
    #[command(subcommand)]
    pub verb: WorkloadVerb,
}

#[derive(Debug, Subcommand)]
pub enum WorkloadVerb {
    /// Write a workload file of another program, such as rt-app, as one of ours
    Convert {
        /// Workload file: of rt-app (.json), rtdag or PARTSim (.yaml, .yml), or one of ours
        #[arg(value_name = "FILE")]
        workload: PathBuf,
        /// System file of PARTSim (system.yml) for its tasks
        #[arg(long, value_name = "FILE")]
        platform_file: Option<PathBuf>,
        /// File to write [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}
