//! `surety trace convert`: the events of a trace file in another format: trace.dat, JSON lines, CSV
//! (`docs/formats/trace-events.md`) or a Perfetto trace.

use serde_json::json;
use surety_report::number_of;
use surety_trace::write::keep::Kept;
use surety_trace::write::perfetto::{Overlay, OverlayOf};
use surety_units::Tid;

use super::file;
use super::missing_threads::MissingThreads;
use super::output::{TraceOutput, has_tracks};
use crate::args::ConvertArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// The clock of a trace that does not name its own: the one the kernel's tracer has unless told otherwise.
const UNNAMED_CLOCK: &str = "local";

/// The verb. A file that was there keeps what it holds until all of the new one is written.
pub fn convert(args: &ConvertArgs, session: &Session) -> Result<Code, Failure> {
    let overlays = overlays(args);
    if !overlays.is_empty() && !has_tracks(&args.output) {
        return Err(file::refused(&args.output, "only a Perfetto trace has tracks for promises")
            .help("end it in .pftrace, or leave the promises out"));
    }
    let named: Vec<OverlayOf> = overlays.iter().map(|overlay| overlay.of.clone()).collect();
    // Opened first: the output may not take its place.
    let mut trace = file::open(&args.file, &args.selection, session)?;
    let output = TraceOutput::create(&args.output, &args.storing, overlays)?;
    trace.keep_undecoded();
    let mut kept = Kept::new(args.selection.wanted(), MissingThreads::new(named, output));
    let summary = trace.read(&mut kept).map_err(|e| file::unfinished(&args.file, session, &e))?;
    let clock = trace.description().clock;
    file::within(&args.file, &args.selection, &summary)?;
    let (output, missing) = kept.into_inner().finish();
    let written = output.finish(clock.as_deref().unwrap_or(UNNAMED_CLOCK))?;
    let total: u64 = summary.events.iter().map(|event| event.count).sum();
    // Formats without records of their own, such as texts, hand over only what is decoded.
    let undecoded = total.saturating_sub(summary.delivered);
    let left_out = written.left_out + undecoded;
    if session.json {
        session.print_json(&json!({
            "schema": "surety.trace-convert/1",
            "file": args.file.display().to_string(),
            "output": args.output.display().to_string(),
            "events": total,
            "written": written.events,
            "left_out": left_out,
            "complete": summary.is_complete() && left_out == 0,
        }))?;
    }
    let output = args.output.display();
    session.step(&format!("{output}: {} of {}", written.events, number_of(total, "event")));
    if written.events == 0 && summary.delivered > 0 {
        session.note("no event fits what was chosen; `surety trace stats` shows threads, CPUs and times");
    }
    for thread in missing {
        let asked = match thread {
            OverlayOf::Thread(tid) => format!("thread {tid}"),
            OverlayOf::Named(name) => format!("thread named `{name}`"),
        };
        session.note(&format!("there is no {asked} among these events: it got no tracks of its promise"));
    }
    if let Some(missing) = written.missing() {
        session.note(&missing);
    }
    if undecoded > 0 {
        session.note(&format!("left out, as they could not be decoded: {}", number_of(undecoded, "event")));
    }
    file::note_missing(&summary, session);
    Ok(Code::Kept)
}

/// What threads were promised, one overlay for each thread that is named.
fn overlays(args: &ConvertArgs) -> Vec<Overlay> {
    let mut overlays: Vec<Overlay> = Vec::new();
    let reserved = args.reservation.iter().map(|(thread, reservation)| (thread, Some(*reservation), None));
    let due = args.deadline.iter().map(|(thread, limit)| (thread, None, Some(*limit)));
    for (thread, reservation, response_limit) in reserved.chain(due) {
        let of = match thread.parse() {
            Ok(tid) => OverlayOf::Thread(Tid(tid)),
            Err(_) => OverlayOf::Named(thread.clone()),
        };
        match overlays.iter_mut().find(|overlay| overlay.of == of) {
            Some(known) => {
                known.reservation = known.reservation.or(reservation);
                known.response_limit = known.response_limit.or(response_limit);
            }
            None => overlays.push(Overlay { of, reservation, response_limit }),
        }
    }
    overlays
}
