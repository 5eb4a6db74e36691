//! Arguments of `surety completions` and `surety man`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that reads them
    pub shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Verb whose page is printed, such as run or trace record [default: the program's own page]
    #[arg(value_name = "VERB", conflicts_with = "output")]
    pub verb: Vec<String>,
    /// Write all pages into this directory: surety.1, surety-run.1 and so on
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
}
