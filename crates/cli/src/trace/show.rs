//! `surety trace show`: the events of a trace file, or the jobs of its threads, one to a line; with `--json` as JSON lines
//! (`docs/formats/trace-show.md`).

use std::io::Write;

use surety_model::event::{Event, TraceSink};
use surety_trace::write::jsonl::JsonLines;
use surety_trace::write::keep::Kept;
use surety_trace::write::lines::{JobLines, Lines};
use surety_trace::{JobBuilder, ReadSummary};

use super::lines::{self as input, Input};
use crate::args::ShowArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// The verb. Ends quietly when whoever reads the output wants no more.
pub fn show(args: &ShowArgs, session: &Session) -> Result<Code, Failure> {
    let wanted = args.selection.wanted();
    let (summary, written) = match (args.jobs, session.json) {
        (true, json) => {
            let lines = JobLines::new(input::out(), wanted, json, args.limit);
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
            let lines = Limited { lines: JsonLines::new(input::out()), left: args.limit.unwrap_or(u64::MAX) };
            let sink = Kept::new(wanted, lines);
            let is_done = |sink: &Kept<Limited<_>>| sink.sink().left == 0 || sink.sink().lines.has_failed();
            let (summary, sink) = read(args, session, sink, is_done)?;
            (summary, sink.into_inner().lines.finish())
        }
        (false, false) => {
            let sink = Kept::new(wanted, Lines::new(input::out(), args.limit));
            let (summary, sink) = read(args, session, sink, |sink| sink.sink().is_done())?;
            (summary, sink.into_inner().finish())
        }
    };
    let what = if args.jobs { "job" } else { "event" };
    let may_be_nobody = !args.jobs;
    input::ended(&args.file, &args.selection, session, (summary, written), (what, may_be_nobody))
}

/// Reads the trace into `sink` until it is done, and gives it back; the summary is that of a trace read to its end.
fn read<K: TraceSink>(
    args: &ShowArgs,
    session: &Session,
    sink: K,
    is_done: impl Fn(&K) -> bool,
) -> Result<(Option<ReadSummary>, K), Failure> {
    Input::open(&args.file, &args.selection, session)?.read(sink, is_done)
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
