//! Arguments of `surety apply`.

use std::path::PathBuf;

use clap::Args;
use surety_units::Nanos;

use super::{ForceArgs, positive};
use crate::rights::RightsArgs;

#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Plan file, as `surety plan --output` writes it
    pub plan: PathBuf,
    /// Which activity COMMAND is [default: the only one]
    #[arg(long, value_name = "NAME", requires = "command")]
    pub activity: Option<String>,
    /// Running threads: activity=TID
    #[arg(long, value_name = "NAME=TID", value_parser = binding)]
    pub bind: Vec<(String, i32)>,
    #[command(flatten)]
    pub foreign: ForceArgs,
    #[command(flatten)]
    pub rights: RightsArgs,
    /// Take it back after this [default: at Ctrl-C or the command's end]
    #[arg(long = "for", value_name = "TIME", value_parser = positive)]
    pub duration: Option<Nanos>,
    /// Command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

fn binding(text: &str) -> Result<(String, i32), String> {
    let wrong = || format!("`{text}` is no binding such as player=1234");
    let (name, tid) = text.split_once('=').ok_or_else(wrong)?;
    let tid: i32 = tid.parse().ok().filter(|t| *t > 0).ok_or_else(wrong)?;
    Ok((name.to_owned(), tid))
}
