//! `surety trace timehist`: who had a CPU for how long, and how long each waited for it (`docs/formats/trace-timehist.md`).

use std::io::Write as _;

use surety_report::traces::TraceTimehist;
use surety_trace::SliceBuilder;
use surety_trace::slices::SliceSummary;
use surety_trace::write::timehist::{HEADER, SliceLines};

use super::file;
use super::lines::{self, Input};
use crate::args::TimehistArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// Prints a line for each switch-out, or sums by thread and CPU.
pub fn timehist(args: &TimehistArgs, session: &Session) -> Result<Code, Failure> {
    if args.summary {
        return summary(args, session);
    }
    let input = Input::open(&args.file, &args.selection, session)?;
    let mut out = lines::out();
    if !session.json {
        // A reader that is gone shows with the first line.
        let _ = writeln!(out, "{HEADER}");
    }
    let written = SliceLines::new(out, args.selection.wanted(), session.json, args.limit);
    let (summary, builder) = input.read(SliceBuilder::new(written), |builder| builder.sink().is_done())?;
    let written = builder.finish().finish();
    lines::ended(&args.file, &args.selection, session, (summary, written), ("switch-out", true))
}

fn summary(args: &TimehistArgs, session: &Session) -> Result<Code, Failure> {
    let mut builder = SliceBuilder::new(SliceSummary::new(args.selection.wanted()));
    let read = file::read(&args.file, &args.selection, session, &mut builder)?;
    let summary = builder.finish();
    if summary.totals().0.is_empty() && read.chosen.chooses_threads() {
        return Err(file::nobody(&args.file, &args.selection, &[]));
    }
    file::print(&TraceTimehist { read, summary, top: args.top }, session)
}
