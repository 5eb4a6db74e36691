//! `--expect`: expectations held against every record of a command, or against the difference of two sides, printed before
//! anything else.

use surety_model::expectation::Standing;
use surety_model::record::Record;
use surety_report::gates::{Gate, junit, tap, text, worst};

use crate::args::{GateArgs, Told};
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

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
    conclude(&gates, &args.told, verdicts, session)
}

/// Prints and writes what came of expectations, and joins it to a code: of those that were held already.
pub fn conclude(gates: &[Gate<'_>], told: &Told, verdicts: Code, session: &Session) -> Result<Code, Failure> {
    if session.json {
        session.keep_gates(surety_report::gates::json(gates));
    } else {
        session.print(&format!("{}\n", text(gates, &session.style())))?;
    }
    if let Some(path) = &told.junit {
        files::write(path, &junit(gates))?;
    }
    if let Some(path) = &told.tap {
        files::write(path, &tap(gates))?;
    }
    Ok(match (worst(gates), verdicts) {
        (Some(Standing::Failed), Code::Kept | Code::Undecided | Code::Broken) => Code::Broken,
        (Some(Standing::CannotTell) | None, Code::Kept) => Code::Undecided,
        (_, code) => code,
    })
}
