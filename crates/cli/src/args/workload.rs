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
        /// Workload file: of rt-app (FILE.json), or one of ours
        #[arg(value_name = "FILE")]
        workload: PathBuf,
        /// File to write [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}
