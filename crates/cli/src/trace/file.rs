//! What every verb that reads a trace file does: open it, say how far it can be trusted, and say that nobody asked for
//! is in it.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;

use serde_json::{Value, json};
use surety_host::recorder::PageFile;
use surety_model::event::Comm;
use surety_model::source::nearest;
use surety_model::world::{Cancel, WorldError};
use surety_report::number_of;
use surety_report::table::{Check, CheckVerdict};
use surety_trace::jobs::Anomalies;
use surety_trace::jobs::inference::INFERRED_MAX;
use surety_trace::{ReadAt, ReadSummary, TraceReader};

use crate::args::Selection;
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

/// Opens a trace file of any format, to read the buffer that is chosen. Reading it fails once Ctrl-C is pressed.
pub fn open(path: &Path, selection: &Selection, session: &Session) -> Result<Box<dyn TraceReader>, Failure> {
    open_stoppable(path, selection, session, Rc::default())
}

/// The same of a file that is no longer read once `stop` is set either.
pub fn open_stoppable(
    path: &Path,
    selection: &Selection,
    session: &Session,
    stop: Rc<Cell<bool>>,
) -> Result<Box<dyn TraceReader>, Failure> {
    let file = Stoppable { file: pages(path)?, cancel: session.cancel.clone(), stop };
    let trace = surety_trace::open(file).map_err(|e| unfinished(path, session, &e))?;
    of_buffer(trace, path, selection)
}

/// A file that can be told to give no more.
struct Stoppable {
    file: PageFile,
    cancel: Cancel,
    stop: Rc<Cell<bool>>,
}

impl ReadAt for Stoppable {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if self.stop.get() || self.cancel.is_cancelled() {
            return Err(io::Error::other("no more is wanted"));
        }
        self.file.read_at(offset, buf)
    }

    fn len(&self) -> u64 {
        self.file.len()
    }
}

/// Why a file was not read to its end: Ctrl-C, or what is wrong with it.
pub fn unfinished(path: &Path, session: &Session, why: &dyn std::fmt::Display) -> Failure {
    if session.cancel.is_cancelled() { WorldError::Interrupted.into() } else { unreadable(path, why) }
}

fn pages(path: &Path) -> Result<PageFile, Failure> {
    // Opening a pipe would wait for its writer.
    let known = std::fs::metadata(path).map_err(|e| unreadable(path, &e))?;
    if !known.is_file() {
        return Err(unreadable(path, &"it is no ordinary file"));
    }
    files::is_input(&known);
    File::open(path).and_then(PageFile::new).map_err(|e| unreadable(path, &e))
}

/// Chooses the buffer, where one is named. A choice of no time is a slip.
fn of_buffer(
    mut trace: Box<dyn TraceReader>,
    path: &Path,
    selection: &Selection,
) -> Result<Box<dyn TraceReader>, Failure> {
    if let (Some(from), Some(to)) = (selection.from, selection.to)
        && from >= to
    {
        let said = format!("--from {from} is not before --to {to}: there is nothing in between");
        return Err(Failure::new(Code::BadInput, said).help("both count from the trace's first event"));
    }
    let Some(buffer) = selection.buffer.as_deref() else { return Ok(trace) };
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
fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
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
pub fn quality(summary: &ReadSummary, unread: &[String], anomalies: &Anomalies) -> Value {
    json!({
        "complete": summary.is_complete() && anomalies.doubtful == 0,
        "lost": summary.lost_at_least(),
        "gaps": summary.gaps,
        "damaged_pages": summary.damaged_pages,
        "cut_cpus": summary.truncated,
        "malformed": summary.malformed,
        "unknown": summary.unknown,
        "disordered": summary.disordered,
        "disorder_max_ns": summary.disorder_max,
        "inferred_switches": anomalies.inferred,
        "doubtful_switches": anomalies.doubtful,
        "not_read": unread,
    })
}

/// Lines about a trace that is not whole; none when it is. `missed` says what that does to the numbers.
pub fn incomplete(summary: &ReadSummary, anomalies: &Anomalies, missed: &str) -> Vec<Check> {
    let parts = [
        lost(summary),
        some(summary.damaged_pages, "damaged page"),
        some(summary.truncated, "CPU").map(|cpus| format!("{cpus} cut")),
        some(summary.malformed, "record").map(|records| format!("{records} too short for their event")),
    ];
    let missing = (!summary.is_complete()).then(|| Check {
        name: "not whole".to_owned(),
        verdict: CheckVerdict::Limited,
        found: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
        remedy: Some(missed.to_owned()),
    });
    missing.into_iter().chain(switches(anomalies)).collect()
}

/// A line about switches that were not recorded.
pub fn switches(anomalies: &Anomalies) -> Option<Check> {
    let (inferred, doubtful) = (anomalies.inferred, anomalies.doubtful);
    let used = format!("{inferred} out of idle were not recorded and are placed by the events around");
    let wide = format!(
        "{doubtful} were not recorded and lie between events more than {INFERRED_MAX} apart: time there is unknown"
    );
    let found = match (inferred, doubtful) {
        (0, 0) => return None,
        (_, 0) => used,
        (0, _) => wide,
        _ => format!("{used}; {wide}"),
    };
    Some(Check {
        name: "switches".to_owned(),
        verdict: if doubtful > 0 { CheckVerdict::Limited } else { CheckVerdict::Good },
        found,
        remedy: (doubtful > 0).then(|| {
            "jobs with unknown time are given up and are in no average; more events (`surety trace record`) make it less".to_owned()
        }),
    })
}

/// How many events are missing, and at how many places; `None` when no event is known to be.
pub fn lost(summary: &ReadSummary) -> Option<String> {
    let places = some(summary.gaps, "place");
    match (summary.lost_at_least(), places) {
        (0, None) => None,
        // The tracer says that there are some, and not how many.
        (0, Some(places)) => Some(format!("an unknown number of events lost at {places}")),
        (lost, places) => {
            let lost = format!("at least {} lost", number_of(lost, "event"));
            Some(places.map_or_else(|| lost.clone(), |places| format!("{lost} at {places}")))
        }
    }
}

/// A count with its noun, unless it is none.
fn some(count: u64, noun: &str) -> Option<String> {
    (count > 0).then(|| number_of(count, noun))
}

/// Refuses a choice that begins behind the end of the trace.
pub fn within(path: &Path, chosen: &Selection, summary: &ReadSummary) -> Result<(), Failure> {
    let length = summary.span.map(|(first, last)| last - first);
    match (chosen.from, length) {
        (Some(from), Some(length)) if from > length => {
            let said = format!("{}: --from {from}: the trace ends at {length}", path.display());
            Err(Failure::new(Code::BadInput, said).help("times count from the trace's first event"))
        }
        _ => Ok(()),
    }
}

/// A choice that fits no thread.
pub fn nobody(path: &Path, chosen: &Selection, names: &[Comm]) -> Failure {
    let tids: Vec<String> = chosen.tid.iter().map(i32::to_string).collect();
    let quoted: Vec<String> = chosen.comm.iter().map(|name| format!("`{name}`")).collect();
    let (tids, quoted) = (tids.join(" or "), quoted.join(" or "));
    let asked = match (tids.is_empty(), quoted.is_empty()) {
        (false, false) => format!("thread {tids} named {quoted}"),
        (false, true) => format!("thread {tids}"),
        _ => format!("thread named {quoted}"),
    };
    let names: Vec<String> = names.iter().map(|name| name.text().into_owned()).collect();
    let near = chosen.comm.iter().find_map(|comm| nearest(comm, names.iter().map(String::as_str)));
    let help = match near {
        Some(near) => format!("did you mean {near}?"),
        None => "without --tid and --comm every thread is shown".to_owned(),
    };
    Failure::new(Code::BadInput, format!("{}: there is no {asked} in it", path.display())).help(help)
}

/// What was chosen beside threads, for the keys `cpus`, `from_ns` and `to_ns` of documents.
pub fn chosen(selection: &Selection) -> Value {
    json!({
        "cpus": selection.cpus.map(|cpus| cpus.to_string()),
        "from_ns": selection.from,
        "to_ns": selection.to,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_named() {
        let found = |summary: ReadSummary| {
            incomplete(&summary, &Anomalies::default(), "").into_iter().next().map(|check| check.found)
        };
        assert_eq!(found(ReadSummary::default()), None);
        let damaged = ReadSummary { damaged_pages: 1, ..ReadSummary::default() };
        assert_eq!(found(damaged).unwrap(), "1 damaged page");
        let gap = ReadSummary { gaps: 2, truncated: 1, ..ReadSummary::default() };
        assert_eq!(found(gap).unwrap(), "an unknown number of events lost at 2 places, 1 CPU cut");
        let lost = ReadSummary { lost: 7, gaps: 1, malformed: 3, ..ReadSummary::default() };
        let words = "at least 7 events lost at 1 place, 3 records too short for their event";
        assert_eq!(found(lost).unwrap(), words);
        let counted = ReadSummary { counted_lost: Some(1), ..ReadSummary::default() };
        assert_eq!(found(counted).unwrap(), "at least 1 event lost");
    }
}
