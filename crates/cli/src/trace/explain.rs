//! `surety trace explain`: who delayed a thread.

use surety_report::traces::TraceExplanation;
use surety_trace::BlameBuilder;
use surety_trace::blame::Blames;

use super::file;
use crate::args::ExplainArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// The verb.
pub fn explain(args: &ExplainArgs, session: &Session) -> Result<Code, Failure> {
    let make = if args.disk { BlameBuilder::of_waits } else { BlameBuilder::new };
    let mut builder = make(args.selection.wanted(), args.worst);
    let read = file::read(&args.file, &args.selection, session, &mut builder)?;
    let blames = builder.finish();
    if blames.threads.is_empty() && blames.doubtful == 0 {
        return Err(no_jobs(args, &blames));
    }
    file::print(&TraceExplanation { read, blames }, session)
}

/// Why there is nothing to explain.
fn no_jobs(args: &ExplainArgs, blames: &Blames) -> Failure {
    if blames.is_there && args.disk {
        let whose = if args.selection.wanted().chooses_threads() { " of that thread" } else { "" };
        let what = format_args!("no wait{whose} for a disk is in it");
        return file::refused(&args.file, what)
            .help("record the events of disks too: `surety trace record --event block`, or `surety run --on sim --trace FILE`");
    }
    if blames.is_there {
        let whose = if args.selection.wanted().chooses_threads() { " of that thread" } else { "" };
        return file::refused(&args.file, format_args!("no job{whose} is in it from release to completion"))
            .help("`surety trace stats` shows which threads have jobs; record longer");
    }
    file::nobody(&args.file, &args.selection, &blames.names)
}
