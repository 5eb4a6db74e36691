//! What every verb that reads a trace file does: open it, read it, print what is in it, and say that nobody asked for is
//! in it.

use std::cell::Cell;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::rc::Rc;

use surety_host::recorder::PageFile;
use surety_model::event::{Comm, TraceSink};
use surety_model::source::nearest;
use surety_model::world::{Cancel, WorldError};
use surety_report::traces::{ReadTrace, TraceReport};
use surety_trace::{ReadAt, ReadSummary, TraceReader};

use crate::args::Selection;
use crate::exit::{Code, Failure};
use crate::session::Session;

use super::spool;

/// Opens a trace file of any format, or standard input, to read the buffer that is chosen. Reading it fails once Ctrl-C is pressed.
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
    let file = spool::pages(path, &session.cancel).map_err(|e| unfinished(path, session, &e))?;
    let file = Stoppable { file, cancel: session.cancel.clone(), stop };
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
pub fn unfinished(path: &Path, session: &Session, why: &dyn Display) -> Failure {
    if session.cancel.is_cancelled() { WorldError::Interrupted.into() } else { unreadable(path, why) }
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
    Err(refused(path, format_args!("there is no buffer `{buffer}` in it")).help(help))
}

/// A file that cannot be read, and why.
fn unreadable(path: &Path, why: &dyn Display) -> Failure {
    refused(path, why).help("`surety trace record` writes files that can be read")
}

/// A file that does not suit, and why.
pub fn refused(path: &Path, why: impl Display) -> Failure {
    let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
    Failure::new(Code::BadInput, format!("{name}: {why}"))
}

/// Reads the part of a trace file that is chosen into `sink`.
pub fn read(
    path: &Path,
    chosen: &Selection,
    session: &Session,
    sink: &mut dyn TraceSink,
) -> Result<ReadTrace, Failure> {
    let read = read_whole(open(path, chosen, session)?, path, chosen, session, sink)?;
    within(path, chosen, &read.summary)?;
    Ok(read)
}

/// The same of an open file, in which what is chosen need not be.
pub fn read_whole(
    mut trace: Box<dyn TraceReader>,
    path: &Path,
    chosen: &Selection,
    session: &Session,
    sink: &mut dyn TraceSink,
) -> Result<ReadTrace, Failure> {
    let summary = trace.read(sink).map_err(|e| unfinished(path, session, &e))?;
    let mut unread = trace.unread();
    unread.extend(summary.faults.iter().cloned());
    let (file, description) = (path.display().to_string(), trace.description());
    Ok(ReadTrace { file, description, summary, unread, chosen: chosen.wanted() })
}

/// Says that a trace is not all there, where it is not.
pub fn note_missing(summary: &ReadSummary, session: &Session) {
    if !summary.is_complete() {
        session.note("the trace is not complete; `surety trace stats` says what is lost or damaged");
    }
}

/// Prints what was found in a trace.
pub fn print(report: &dyn TraceReport, session: &Session) -> Result<Code, Failure> {
    if session.json {
        session.print_document(report.json())?;
    } else {
        session.print(&report.text(&session.style()))?;
    }
    Ok(Code::Kept)
}

/// Refuses a choice that begins behind the end of the trace.
pub fn within(path: &Path, chosen: &Selection, summary: &ReadSummary) -> Result<(), Failure> {
    let length = summary.span.map(|(first, last)| last - first);
    match (chosen.from, length) {
        (Some(from), Some(length)) if from > length => {
            Err(refused(path, format_args!("--from {from}: the trace ends at {length}"))
                .help("times count from the trace's first event"))
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
    refused(path, format_args!("there is no {asked} in it")).help(help)
}
