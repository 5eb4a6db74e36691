//! What every verb that reads a trace file does: open it, say how far it can be trusted, and say that nobody asked for
//! is in it.

use std::fs::File;
use std::path::Path;

use serde_json::{Value, json};
use surety_model::source::nearest;
use surety_probe::recorder::PageFile;
use surety_report::table::{Check, CheckVerdict};
use surety_trace::{ReadSummary, TraceReader};

use crate::args::Selection;
use crate::exit::{Code, Failure};

/// Opens a trace file of any format.
pub fn open(path: &Path) -> Result<Box<dyn TraceReader>, Failure> {
    // Opening a pipe would wait for its writer.
    let known = std::fs::metadata(path).map_err(|e| unreadable(path, &e))?;
    if !known.is_file() {
        return Err(unreadable(path, &"it is no ordinary file"));
    }
    let file = File::open(path).and_then(PageFile::new).map_err(|e| unreadable(path, &e))?;
    surety_trace::open(file).map_err(|e| unreadable(path, &e))
}

/// The same, reading one of its buffers if one is named.
pub fn open_buffer(path: &Path, buffer: Option<&str>) -> Result<Box<dyn TraceReader>, Failure> {
    let mut trace = open(path)?;
    let Some(buffer) = buffer else { return Ok(trace) };
    if trace.choose_buffer(buffer) {
        return Ok(trace);
    }
    let known = trace.buffers();
    let named: Vec<&str> = known.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let help = match (nearest(buffer, named.iter().copied()), named.as_slice()) {
        (Some(near), _) => format!("did you mean {near}?"),
        (None, []) => "it holds one buffer, which has no name: leave --buffer away".to_owned(),
        (None, named) => format!("it holds {}, and the main one, which has no name", named.join(", ")),
    };
    let said = format!("{}: there is no buffer `{buffer}` in it", path.display());
    Err(Failure::new(Code::BadInput, said).help(help))
}

/// A file that cannot be read, and why.
pub fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::BadInput, format!("{}: {why}", path.display()))
        .help("`surety trace record` writes files that can be read")
}

/// What of a file was not read, in words.
pub fn unread(trace: &dyn TraceReader, summary: &ReadSummary) -> Vec<String> {
    let mut unread = trace.unread();
    unread.extend(summary.faults.iter().cloned());
    unread
}

/// `quality` of the JSON documents.
pub fn quality(summary: &ReadSummary, unread: &[String]) -> Value {
    json!({
        "complete": summary.is_complete(),
        "lost": summary.lost_at_least(),
        "gaps": summary.gaps,
        "damaged_pages": summary.damaged_pages,
        "cut_cpus": summary.truncated,
        "malformed": summary.malformed,
        "unknown": summary.unknown,
        "disordered": summary.disordered,
        "disorder_max_ns": summary.disorder_max,
        "not_read": unread,
    })
}

/// A line about a trace that is not whole; none when it is. `missed` says what that does to the numbers.
pub fn incomplete(summary: &ReadSummary, missed: &str) -> Option<Check> {
    (!summary.is_complete()).then(|| Check {
        name: "not whole".to_owned(),
        verdict: CheckVerdict::Limited,
        found: format!(
            "at least {} events lost at {} places, {} damaged pages, {} CPUs cut",
            summary.lost_at_least(),
            summary.gaps,
            summary.damaged_pages,
            summary.truncated
        ),
        remedy: Some(missed.to_owned()),
    })
}

/// A choice that fits no thread.
pub fn nobody(path: &Path, chosen: &Selection, names: &[String]) -> Failure {
    let comm = chosen.comm.as_deref();
    let asked = match (chosen.tid, comm) {
        (Some(tid), Some(comm)) => format!("thread {tid} named `{comm}`"),
        (Some(tid), None) => format!("thread {tid}"),
        (None, comm) => format!("thread named `{}`", comm.unwrap_or_default()),
    };
    let help = match comm.and_then(|comm| nearest(comm, names.iter().map(String::as_str))) {
        Some(near) => format!("did you mean {near}?"),
        None => "without --tid and --comm every thread is shown".to_owned(),
    };
    Failure::new(Code::BadInput, format!("{}: there is no {asked} in it", path.display())).help(help)
}
