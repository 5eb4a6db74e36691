//! Arguments of `surety device`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use surety_emudisk::Fault;
use surety_model::workload::{self, Fails};
use surety_units::{Bytes, Nanos, QuantityError};

use crate::args::positive;

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
        /// Disk or I/O scheduler of `surety device list`, or a file: a profile (FILE.toml), or DiskSim's (FILE.diskspecs)
        name: String,
    },
    /// Measure a disk, by reading only, into a profile that the simulator loads; says how near the model is
    Characterise(CharacteriseArgs),
    /// Serve a block device that is as fast as a disk's model, until Ctrl-C
    Serve(ServeArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = SERVE_HELP)]
pub struct ServeArgs {
    /// Disk of `surety device list`, or a file: a profile (FILE.toml), or DiskSim's (FILE.diskspecs)
    #[arg(value_name = "PROFILE")]
    pub profile: String,
    /// Size of the device: the first part of the disk, a multiple of 4 KiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub size: Bytes,
    /// Sparse file to keep the data in; it stays [default: memory]
    #[arg(long, value_name = "FILE")]
    pub backing: Option<PathBuf>,
    /// Part of the device whose requests fail (EIO), such as 24MiB+64KiB, or 24MiB+64KiB:reads; `:writes` alike
    #[arg(long, value_name = "FROM+SIZE", value_parser = fault)]
    pub fail: Vec<Fault>,
    /// Seed of what the model leaves to chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

fn fault(text: &str) -> Result<Fault, String> {
    let (part, fails) = match text.split_once(':') {
        None => (text, Fails::Both),
        Some((part, word)) => {
            let known = Fails::WORDS.iter().find(|(known, _)| *known == word);
            (part, known.ok_or_else(|| format!("`{word}` is none of both, reads, writes"))?.1)
        }
    };
    let (at, bytes) = part.split_once('+').ok_or("write FROM+SIZE, such as 24MiB+64KiB")?;
    let size = |text: &str| text.parse::<Bytes>().map_err(|error: QuantityError| error.to_string());
    let fault = workload::Fault { at: size(at)?, bytes: size(bytes)?, fails };
    fault.check()?;
    Ok(surety_session::modelled::fault(&fault))
}

/// What `--help` of it says at its end.
const SERVE_HELP: &str = "\
The device is a loop device on a file of a FUSE file system that this process serves (root only). Answers come at the instants of the \
model; how much later they came is printed at the end. Where 1 % were later than 4 % of what a request takes, the disk was disturbed: \
what was measured on it decides nothing.

Unmount what is on it before Ctrl-C: who still uses it then gets errors. Nothing is left after that, nor after `kill -9`.";

#[derive(Debug, Args)]
#[command(after_long_help = CHARACTERISE_HELP)]
pub struct CharacteriseArgs {
    /// Block device, partition or file to measure; it is only read
    #[arg(value_name = "DEVICE")]
    pub device: PathBuf,
    /// Time to measure for, at most
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = positive)]
    pub duration: Nanos,
    /// Profile to write [default: standard output, with the comparison on standard error]
    #[arg(long, short, value_name = "FILE.toml")]
    pub output: Option<PathBuf>,
    /// Measure writes too, OVER WHAT IS IN this file or unused device, which should be on the same disk
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Seed of the places that are read
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What `--help` of it says at its end.
const CHARACTERISE_HELP: &str = "\
The profile is of the model `hdd` when the device turns (found by trying, not as the kernel says), else `fixed` or `flash`. Each \
number in it says what it was measured from, or which stored profile it is assumed from. In a workload: \
[disk.d] model = \"FILE.toml\".

Other requests to the disk meanwhile are measured with it. Nothing is written without --write, and a device that anything uses is \
not written over.";
