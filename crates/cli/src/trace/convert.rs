//! `surety trace convert`: the events of a trace file in another format: trace.dat, JSON lines, CSV
//! (`docs/formats/trace-events.md`) or a Perfetto trace.

use serde_json::json;
use surety_trace::write::keep::Kept;

use super::file;
use super::output::TraceOutput;
use crate::args::ConvertArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// The clock of a trace that does not name its own: the one the kernel's tracer has unless told otherwise.
const UNNAMED_CLOCK: &str = "local";

/// The verb. A file that was there keeps what it holds until all of the new one is written.
pub fn convert(args: &ConvertArgs, session: &Session) -> Result<Code, Failure> {
    let output = TraceOutput::create(&args.output, &args.storing)?;
    let mut trace = file::open(&args.file, &args.selection)?;
    let mut kept = Kept::new(args.selection.wanted(), output);
    let summary = trace.read(&mut kept).map_err(|e| file::unreadable(&args.file, &e))?;
    let clock = trace.description().clock;
    let written = kept.into_inner().finish(clock.as_deref().unwrap_or(UNNAMED_CLOCK))?;
    let complete = summary.is_complete();
    if session.json {
        session.print_json(&json!({
            "schema": "surety.trace-convert/1",
            "file": args.file.display().to_string(),
            "output": args.output.display().to_string(),
            "events": summary.delivered,
            "written": written.events,
            "complete": complete,
        }));
    }
    session.step(&format!("{}: {} of {} events", args.output.display(), written.events, summary.delivered));
    if let Some(missing) = written.missing() {
        session.note(&missing);
    }
    if !complete {
        session.note("the trace is not complete; `surety trace stats` says what is lost or damaged");
    }
    Ok(Code::Kept)
}
