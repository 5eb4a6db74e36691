//! `--distribution` of `surety trace stats` and `surety trace irqs`.

use surety_report::traces::{ReadTrace, Subject, TraceDistribution};
use surety_trace::jobs::Anomalies;

use super::file;
use crate::args::Closely;
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

/// Prints the distributions of a thread or an interrupt, and writes their page.
pub fn publish(
    read: ReadTrace,
    anomalies: Anomalies,
    subject: Subject,
    closely: &Closely,
    session: &Session,
) -> Result<Code, Failure> {
    let shown = TraceDistribution::new(read, anomalies, subject, closely.grid).map_err(|error| {
        Failure::new(Code::BadInput, error.to_string())
            .help("choose a larger --grid, or none: a round one is found then")
    })?;
    if let Some(path) = &closely.html {
        files::write(path, &shown.html())?;
    }
    let code = file::print(&shown, session)?;
    if let Some(path) = &closely.html {
        session.step(&format!("page written to {}", path.display()));
    }
    Ok(code)
}
