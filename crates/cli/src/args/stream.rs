//! Arguments of `surety stream`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use surety_model::workload::BatchMode;
use surety_units::{Bytes, Nanos, Rate};

use crate::args::time;

#[derive(Debug, Args)]
pub struct StreamArgs {
    #[command(subcommand)]
    pub verb: StreamVerb,
}

#[derive(Debug, Subcommand)]
pub enum StreamVerb {
    /// Show a directory at another place, where any program reads its files as streams, until Ctrl-C or umount
    Mount(StreamMountArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = MOUNT_HELP)]
pub struct StreamMountArgs {
    /// Directory to show
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Directory to show it at, outside of DIR; what is in it is hidden meanwhile
    #[arg(value_name = "MOUNT")]
    pub place: PathBuf,
    /// Rate that each open file is fetched at, at most, such as 4MB/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Rate,
    /// Bytes to fetch at once
    #[arg(long, value_name = "SIZE", default_value = "80KiB", value_parser = size)]
    pub batch: Bytes,
    /// Play-out buffer of each open file, in locked memory [default: what the rate gives in the jitter, a batch and an access]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub buffer: Option<Bytes>,
    /// How much of the stream is fetched ahead, in time, and caught up on after a delay
    #[arg(long, value_name = "TIME", default_value = "430ms", value_parser = time)]
    pub jitter: Nanos,
    /// Most that one read is answered with, up to 1MiB; longer ones come in parts
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = size)]
    pub access: Bytes,
    /// When to fetch: a batch as soon as there is room and credit for it, or, for the disk to rest in between, all buffers at once when one has no more than the jitter ahead
    #[arg(long, value_name = "MODE", default_value = BatchMode::default().word(), value_parser = mode_parser())]
    pub mode: BatchMode,
    /// Set the disk below DIR for streams while the mount is there: I/O scheduler, requests in its driver and their size (root; not the root file system's disk)
    #[arg(long)]
    pub prepare: bool,
    /// Let other users look into it, as far as the modes of files and directories let them; access control lists are not looked at
    #[arg(long)]
    pub allow_others: bool,
}

/// Reads when the mount's streams are fetched.
fn mode_parser() -> impl TypedValueParser<Value = BatchMode> {
    let of_word = |word: String| {
        let found = BatchMode::ALL.into_iter().find(|(_, known)| *known == word);
        found.map_or(BatchMode::default(), |(mode, _)| mode)
    };
    PossibleValuesParser::new(BatchMode::ALL.map(|(_, word)| word)).map(of_word)
}

/// What `--help` of it says at its end.
const MOUNT_HELP: &str = "\
The mount is only read. Each open file is a stream from its first read on: fetched ahead past the page cache into memory of its own, and never \
faster than the rate, however fast the program reads. At its end, or when it is unmounted, it prints what became of each.

Ctrl-C unmounts it; files that are open then are served until they are closed, or until a second Ctrl-C. After `kill -9` the next start of \
surety takes the mount away; `umount MOUNT` does so at once.";

fn rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|e: surety_units::QuantityError| e.to_string())?;
    if rate.0 > 0 { Ok(rate) } else { Err("a rate above nothing is needed".to_owned()) }
}

fn size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|e: surety_units::QuantityError| e.to_string())?;
    if size.0 > 0 { Ok(size) } else { Err("a size above nothing is needed".to_owned()) }
}
