//! `surety trace show`: the events of a trace file, or the jobs of its threads, one to a line; with `--json` as JSON lines
//! (`docs/formats/trace-show.md`).

use std::cell::Cell;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::rc::Rc;

use surety_model::event::{Event, TraceSink};
use surety_trace::write::jsonl::JsonLines;
use surety_trace::write::keep::Kept;
use surety_trace::write::lines::{JobLines, Lines};
use surety_trace::{JobBuilder, ReadSummary, TraceError};

use super::file;
use crate::args::ShowArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// Bytes gathered before they are written.
const BUFFER: usize = 1 << 18;

/// The verb. Ends quietly when whoever reads the output wants no more.
pub fn show(args: &ShowArgs, session: &Session) -> Result<Code, Failure> {
    let out = || BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let wanted = args.selection.wanted();
    let (summary, written) = match (args.jobs, session.json) {
        (true, json) => {
            let lines = JobLines::new(out(), wanted, json, args.limit);
            let sink = Jobs { builder: JobBuilder::into_sink(lines), begun: false };
            let (summary, sink) = read(args, session, sink, |sink| sink.builder.sink().is_done())?;
            let written = sink.builder.end().0.finish();
            if let Ok((_, void @ 1..)) = written {
                session.note(&format!(
                    "{void} of these lines are busy periods from before their threads began to mark jobs"
                ));
            }
            (summary, written.map(|(lines, _)| lines))
        }
        (false, true) => {
            let lines = Limited { lines: JsonLines::new(out()), left: args.limit.unwrap_or(u64::MAX) };
            let sink = Kept::new(wanted, lines);
            let is_done = |sink: &Kept<Limited<_>>| sink.sink().left == 0 || sink.sink().lines.has_failed();
            let (summary, sink) = read(args, session, sink, is_done)?;
            (summary, sink.into_inner().lines.finish())
        }
        (false, false) => {
            let sink = Kept::new(wanted, Lines::new(out(), args.limit));
            let (summary, sink) = read(args, session, sink, |sink| sink.sink().is_done())?;
            (summary, sink.into_inner().finish())
        }
    };
    match written {
        Ok(written) => told(args, session, summary.as_ref(), written)?,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Code::Kept),
        Err(error) => {
            return Err(Failure::new(Code::Machine, format!("the lines could not be written: {error}"))
                .help("make room, or write them elsewhere"));
        }
    }
    summary.iter().for_each(|summary| file::note_missing(summary, session));
    Ok(Code::Kept)
}

/// Says where nothing fits what was chosen; a trace that was not read to its end had enough.
fn told(
    args: &ShowArgs,
    session: &Session,
    summary: Option<&ReadSummary>,
    written: u64,
) -> Result<(), Failure> {
    let Some(summary) = summary.filter(|summary| written == 0 && summary.delivered > 0) else {
        return Ok(());
    };
    let chosen = &args.selection;
    file::within(&args.file, chosen, summary)?;
    let in_part = chosen.cpus.is_some() || chosen.from.is_some() || chosen.to.is_some();
    if chosen.wanted().chooses_threads() && !in_part && !args.jobs {
        return Err(file::nobody(&args.file, chosen, &[]));
    }
    let what = if args.jobs { "job" } else { "event" };
    session
        .note(&format!("no {what} fits what was chosen; `surety trace stats` shows threads, CPUs and times"));
    Ok(())
}

/// Reads the trace into `sink` until it is done, and gives it back; the summary is that of a trace read to its end.
fn read<K: TraceSink>(
    args: &ShowArgs,
    session: &Session,
    sink: K,
    is_done: impl Fn(&K) -> bool,
) -> Result<(Option<ReadSummary>, K), Failure> {
    let stop = Rc::new(Cell::new(false));
    let mut trace = file::open_stoppable(&args.file, &args.selection, session, Rc::clone(&stop))?;
    let mut until = Until { sink, is_done, stop: Rc::clone(&stop) };
    let summary: Result<ReadSummary, TraceError> = trace.read(&mut until);
    match summary {
        Ok(summary) => Ok((Some(summary), until.sink)),
        Err(_) if stop.get() => Ok((None, until.sink)),
        Err(error) => Err(file::unfinished(&args.file, session, &error)),
    }
}

/// A sink that ends the reading when it is done.
struct Until<K, F> {
    sink: K,
    is_done: F,
    stop: Rc<Cell<bool>>,
}

impl<K: TraceSink, F: Fn(&K) -> bool> TraceSink for Until<K, F> {
    fn event(&mut self, event: &Event<'_>) {
        self.sink.event(event);
        if (self.is_done)(&self.sink) {
            self.stop.set(true);
        }
    }
}

/// So many events, and no more.
struct Limited<W> {
    lines: JsonLines<W>,
    left: u64,
}

impl<W: Write> TraceSink for Limited<W> {
    fn event(&mut self, event: &Event<'_>) {
        if self.left > 0 {
            self.left -= 1;
            self.lines.event(event);
        }
    }
}

/// Jobs as they complete.
struct Jobs<W: Write> {
    builder: JobBuilder<JobLines<W>>,
    begun: bool,
}

impl<W: Write> TraceSink for Jobs<W> {
    fn event(&mut self, event: &Event<'_>) {
        if !self.begun {
            self.begun = true;
            self.builder.sink_mut().begin(event.time);
        }
        self.builder.event(event);
    }
}
