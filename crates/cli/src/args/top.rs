//! Arguments of `surety top`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use surety_report::top::Sort;
use surety_units::Nanos;

use super::{positive, time};

#[derive(Debug, Args)]
pub struct TopArgs {
    /// Length of an interval, 100ms at least
    #[arg(long, short = 'i', value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Nanos,
    /// End after this number of intervals [default: at q or Ctrl-C, a replay at its end]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// What threads are ordered by
    #[arg(long, value_name = "KEY", default_value = "latency", value_parser = sort_parser())]
    pub sort: Sort,
    /// Show only threads with this in their name, or with this thread or process id
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Count a wake-up as missed when it is later than this; a reservation's jobs when they end after their deadline
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = positive)]
    pub late: Nanos,
    /// Read /proc alone: no wake-up latency, and nobody who ran instead
    #[arg(long)]
    pub no_trace: bool,
    /// Write every interval into this file, one JSON document a line
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Show the intervals of such a file, or of standard input for -, in place of this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "no_trace", "late"])]
    pub replay: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Nanos, String> {
    let interval = time(text)?;
    let least = Nanos::from_millis(100);
    if interval < least { Err(format!("an interval of {least} at least is needed")) } else { Ok(interval) }
}

fn sort_parser() -> impl TypedValueParser<Value = Sort> {
    let of_word = |word: String| Sort::ALL.into_iter().find(|sort| sort.word() == word).unwrap_or_default();
    PossibleValuesParser::new(Sort::ALL.map(Sort::word)).map(of_word)
}
