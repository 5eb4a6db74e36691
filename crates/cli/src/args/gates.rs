//! Arguments of `--expect`.

use std::path::PathBuf;

use clap::Args;
use surety_model::expectation::{Change, Expectation};

/// What is expected of the results, and who is told.
#[derive(Clone, Debug, Args)]
pub struct GateArgs {
    /// Check this of every result, such as 'p99.9 < 50us' 'missed == 0' 'upper(p99.9) < 60us'; exit 1 if one fails
    #[arg(long, value_name = "EXPR", num_args = 1.., value_parser = expectation)]
    pub expect: Vec<Expectation>,
    #[command(flatten)]
    pub told: Told,
}

/// What is expected of the difference of two sides, and who is told.
#[derive(Clone, Debug, Args)]
pub struct ChangeArgs {
    /// Check this of the difference, such as 'p99 <= +5%' 'upper(p50) <= +50us'; it alone decides the exit code then
    #[arg(long, value_name = "EXPR", num_args = 1.., value_parser = change)]
    pub expect: Vec<Change>,
    #[command(flatten)]
    pub told: Told,
}

/// Who is told what became of expectations.
#[derive(Clone, Debug, Args)]
pub struct Told {
    /// Write what became of the expectations as JUnit XML
    #[arg(long, value_name = "FILE", requires = "expect")]
    pub junit: Option<PathBuf>,
    /// Write what became of the expectations as TAP
    #[arg(long, value_name = "FILE", requires = "expect")]
    pub tap: Option<PathBuf>,
}

fn change(text: &str) -> Result<Change, String> {
    text.parse().map_err(|e: surety_model::expectation::ExpectationError| e.to_string())
}

fn expectation(text: &str) -> Result<Expectation, String> {
    text.parse().map_err(|e: surety_model::expectation::ExpectationError| e.to_string())
}
