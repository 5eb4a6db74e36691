//! Arguments of `surety init`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use surety_units::Nanos;

use super::{positive, time};
use crate::rights::RightsArgs;

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("subject").required(true).args(["command", "pid", "template"])))]
#[command(after_long_help = INIT_HELP)]
pub struct InitArgs {
    /// Command to start and watch, in words as a shell splits them; it is ended afterwards
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// Running process or thread to watch; it is only read
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// Workload to start from
    #[arg(long, value_name = "NAME")]
    pub template: Option<Template>,
    /// How long a program is watched
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = positive)]
    pub duration: Nanos,
    /// How long a command may start before it is watched
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time)]
    pub warm_up: Nanos,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file where there is one
    #[arg(long, requires = "output")]
    pub force: bool,
    #[command(flatten)]
    pub rights: RightsArgs,
}

/// Workloads to start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Template {
    /// A frame every 40 ms beside busy programs
    Player,
    /// Work with an upper bound and a response that always holds
    ControlLoop,
    /// A short period and a click for each buffer that is late
    Audio,
    /// Requests that come at any time: a share of a CPU
    Server,
    /// A file read at a rate beside other readers
    Disk,
    /// A device that must lose no request
    Irq,
}

const INIT_HELP: &str = "\
Examples:
  surety init --template player --output player.toml
  surety init --command 'ffmpeg -re -i clip.mkv -f null -' --output ffmpeg.toml
  surety init --pid $(pidof redis-server) --for 10s

A period that was found becomes a promised response within it; without one a share of a CPU is promised. Where there is
nothing to promise, such as of a program that slept all the time, no file is written and the exit code is 4.
docs/first-minute.md says what is seen with which rights.

Exit codes:
  0    a workload was written
  2    bad input or usage: the command ended before it could be watched, the file is there
  3    this machine or this user cannot do it
  4    too little was seen: watch longer, or give the program work
  5    an error of this program
  130  interrupted";
