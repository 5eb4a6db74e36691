//! `surety trace explain`: who delayed a thread.

use surety_model::source::nearest;
use surety_report::traces::{TraceAttribution, TraceExplanation};
use surety_trace::BlameBuilder;
use surety_trace::blame::{Blames, Spans, SpansWanted};

use super::file;
use crate::args::ExplainArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

/// The verb.
pub fn explain(args: &ExplainArgs, session: &Session) -> Result<Code, Failure> {
    if let Some(name) = args.startup.as_ref().or(args.stream.as_ref()) {
        let wanted = SpansWanted { are_startups: args.startup.is_some(), name: name.clone() };
        return attribute(args, wanted, session);
    }
    files::check_outputs([args.html.as_ref()])?;
    let make = if args.disk { BlameBuilder::of_waits } else { BlameBuilder::new };
    let mut builder = make(args.selection.wanted(), args.worst);
    if args.html.is_some() && !args.disk {
        builder = builder.with_around();
    }
    let read = file::read(&args.file, &args.selection, session, &mut builder)?;
    let blames = builder.finish();
    if blames.threads.is_empty() && blames.doubtful == 0 {
        return Err(no_jobs(args, &blames, read.lacks_wake_ups()));
    }
    let explanation = TraceExplanation { read, blames };
    if let Some(path) = &args.html {
        files::write(
            path,
            &explanation.paper().page(&format!("Who delayed threads: {}", args.file.display())),
        )?;
    }
    file::print(&explanation, session)
}

/// Why there is nothing to explain.
fn no_jobs(args: &ExplainArgs, blames: &Blames, lacks_wake_ups: bool) -> Failure {
    if blames.is_there && args.disk {
        let whose = if args.selection.wanted().chooses_threads() { " of that thread" } else { "" };
        let what = format_args!("no wait{whose} for a disk is in it");
        return file::refused(&args.file, what)
            .help("record the events of disks too: `surety trace record --event block`, or `surety run --on sim --trace FILE`");
    }
    if blames.is_there && lacks_wake_ups {
        let what = "no wake-up is in it, so no job has a release and no response is known to explain";
        return file::refused(&args.file, what).help(
            "record sched_waking too, as `surety trace record` does; of this file `surety trace stats` shows execution and period, and \
             `surety trace timehist` how long threads had a CPU and were preempted",
        );
    }
    if blames.is_there {
        let whose = if args.selection.wanted().chooses_threads() { " of that thread" } else { "" };
        return file::refused(&args.file, format_args!("no job{whose} is in it from release to completion"))
            .help("`surety trace stats` shows which threads have jobs; record longer");
    }
    file::nobody(&args.file, &args.selection, &blames.names)
}

/// Where the time of start-ups went, or of late and dropped accesses of a stream.
fn attribute(args: &ExplainArgs, wanted: SpansWanted, session: &Session) -> Result<Code, Failure> {
    let mut builder = BlameBuilder::of_spans(args.selection.wanted(), wanted.clone());
    let read = file::read(&args.file, &args.selection, session, &mut builder)?;
    let blames = builder.finish();
    if blames.spans.told.is_empty() {
        return Err(no_spans(args, &wanted, &blames.spans));
    }
    file::print(&TraceAttribution { read, wanted, blames }, session)
}

/// Why there is no start-up and no access to explain.
fn no_spans(args: &ExplainArgs, wanted: &SpansWanted, spans: &Spans) -> Failure {
    let SpansWanted { are_startups, name } = wanted;
    let known: Vec<&str> =
        spans.names.iter().filter(|(is, _)| is == are_startups).map(|(_, name)| name.as_str()).collect();
    if known.contains(&name.as_str()) {
        let (what, help) = match (args.selection.from.or(args.selection.to), are_startups) {
            (Some(_), true) => ("start-up", "leave out --from and --to, which choose by when it began"),
            (Some(_), false) => ("access", "leave out --from and --to, which choose by its release"),
            (None, _) => ("start-up", "it is still under way at the end: record longer"),
        };
        return file::refused(
            &args.file,
            format_args!("no {what} of `{name}` ends in the part that is read"),
        )
        .help(help);
    }
    let what = match are_startups {
        true => format!("no start-up of `{name}` is in it"),
        false => format!("no access of a stream `{name}` was late or dropped in it"),
    };
    let help = match (nearest(name, known.iter().copied()), known.as_slice(), are_startups) {
        (Some(near), ..) => format!("did you mean {near}?"),
        (None, [_, ..], _) => format!("it holds those of {}", known.join(", ")),
        (None, [], true) => {
            "`surety run WORKLOAD --trace FILE` writes them, of a workload with a [[startup]]; docs/markers.md says how others do".to_owned()
        }
        (None, [], false) => {
            "`surety run WORKLOAD --trace FILE` writes them, of a workload with a [[stream]] that misses deadlines".to_owned()
        }
    };
    file::refused(&args.file, what).help(help)
}
