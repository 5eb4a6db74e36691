//! Arguments of `surety device`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct DeviceArgs {
    #[command(subcommand)]
    pub verb: DeviceVerb,
}

#[derive(Debug, Subcommand)]
pub enum DeviceVerb {
    /// List the disks that are simulated, and the I/O schedulers
    List,
    /// Show a disk's numbers with their sources, or an I/O scheduler's tunables
    Show {
        /// Disk or I/O scheduler of `surety device list`, or a profile's file (FILE.toml)
        name: String,
    },
}
