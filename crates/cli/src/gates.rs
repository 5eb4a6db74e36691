//! `--expect`: expectations held against every record of a command, printed before anything else.

use std::path::PathBuf;

use clap::Args;
use surety_model::expectation::{Expectation, Standing};
use surety_model::record::Record;
use surety_report::gates::{Gate, junit, tap, text, worst};

use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

/// What is expected of the results, and who is told.
#[derive(Clone, Debug, Args)]
pub struct GateArgs {
    /// Check this of every result, such as 'p99.9 < 50us' 'missed == 0' 'upper(p99.9) < 60us'; exit 1 if one fails
    #[arg(long, value_name = "EXPR", num_args = 1.., value_parser = expectation)]
    pub expect: Vec<Expectation>,
    /// Write what became of the expectations as JUnit XML
    #[arg(long, value_name = "FILE", requires = "expect")]
    pub junit: Option<PathBuf>,
    /// Write what became of the expectations as TAP
    #[arg(long, value_name = "FILE", requires = "expect")]
    pub tap: Option<PathBuf>,
}

fn expectation(text: &str) -> Result<Expectation, String> {
    text.parse().map_err(|e: surety_model::expectation::ExpectationError| e.to_string())
}

/// Holds every expectation against every record, prints and writes what came of it, and joins it to the code of the
/// verdicts: a failed one is worse than one that cannot be told, and that is worse than none.
pub fn check<'a>(
    args: &GateArgs,
    records: impl IntoIterator<Item = (&'a str, &'a Record)>,
    verdicts: Code,
    session: &Session,
) -> Result<Code, Failure> {
    if args.expect.is_empty() {
        return Ok(verdicts);
    }
    let gates: Vec<Gate<'_>> = records
        .into_iter()
        .map(|(label, record)| Gate { label, checked: args.expect.iter().map(|e| e.check(record)).collect() })
        .collect();
    if session.json {
        session.keep_gates(surety_report::gates::json(&gates));
    } else {
        session.print(&format!("{}\n", text(&gates, &session.style())))?;
    }
    if let Some(path) = &args.junit {
        files::write(path, &junit(&gates))?;
    }
    if let Some(path) = &args.tap {
        files::write(path, &tap(&gates))?;
    }
    Ok(match (worst(&gates), verdicts) {
        (Some(Standing::Failed), Code::Kept | Code::Undecided | Code::Broken) => Code::Broken,
        (Some(Standing::CannotTell) | None, Code::Kept) => Code::Undecided,
        (_, code) => code,
    })
}
