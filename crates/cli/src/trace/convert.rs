//! `surety trace convert`: the events of a trace file as JSON lines, CSV (`docs/formats/trace-events.md`) or
//! a Perfetto trace.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use serde_json::json;
use surety_model::event::TraceSink;
use surety_trace::write::csv::Csv;
use surety_trace::write::jsonl::JsonLines;
use surety_trace::write::keep::{Kept, Wanted};
use surety_trace::write::perfetto::{Overlay, OverlayOf, Perfetto};
use surety_trace::{ReadSummary, TraceReader};
use surety_units::Tid;

use super::file;
use crate::args::ConvertArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// What can be written.
#[derive(Clone, Copy)]
enum Format {
    JsonLines,
    Csv,
    Perfetto,
}

impl Format {
    fn of(path: &Path) -> Result<Format, Failure> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("jsonl") => Ok(Format::JsonLines),
            Some("csv") => Ok(Format::Csv),
            Some("pftrace" | "perfetto-trace") => Ok(Format::Perfetto),
            _ => {
                let said = format!("{}: its ending names no format that is written", path.display());
                Err(Failure::new(Code::BadInput, said)
                    .help("end it in .jsonl, .csv, .pftrace or .perfetto-trace"))
            }
        }
    }
}

/// The verb. A file that was there keeps what it holds until all of the new one is written.
pub fn convert(args: &ConvertArgs, session: &Session) -> Result<Code, Failure> {
    let format = Format::of(&args.output)?;
    let overlays = overlays(args);
    if !overlays.is_empty() && !matches!(format, Format::Perfetto) {
        let said = format!("{}: only a Perfetto trace has tracks for promises", args.output.display());
        return Err(Failure::new(Code::BadInput, said).help("end it in .pftrace, or leave the promises out"));
    }
    let mut trace = file::open(&args.file)?;
    let output = Output::create(&args.output)?;
    let wanted = || args.selection.wanted();
    let out = BufWriter::with_capacity(1 << 18, &output.file);
    let (summary, written) = match format {
        Format::JsonLines => {
            let (summary, sink) = read(trace.as_mut(), wanted(), JsonLines::new(out), &args.file)?;
            (summary, sink.finish())
        }
        Format::Csv => {
            let (summary, sink) = read(trace.as_mut(), wanted(), Csv::new(out), &args.file)?;
            (summary, sink.finish())
        }
        Format::Perfetto => {
            let (summary, sink) = {
                let sink = Perfetto::with_overlays(out, overlays);
                read(trace.as_mut(), wanted(), sink, &args.file)?
            };
            (summary, sink.finish())
        }
    };
    let written = written.map_err(|e| output.failed(&e))?;
    output.keep()?;
    let complete = summary.is_complete();
    if session.json {
        session.print_json(&json!({
            "schema": "surety.trace-convert/1",
            "file": args.file.display().to_string(),
            "output": args.output.display().to_string(),
            "events": summary.delivered,
            "written": written,
            "complete": complete,
        }));
    }
    session.step(&format!("{}: {written} of {} events", args.output.display(), summary.delivered));
    if !complete {
        session.note("the trace is not complete; `surety trace stats` says what is lost or damaged");
    }
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

/// Reads all of the trace into `sink` and gives it back.
fn read<K: TraceSink>(
    trace: &mut dyn TraceReader,
    wanted: Wanted,
    sink: K,
    path: &Path,
) -> Result<(ReadSummary, K), Failure> {
    let mut kept = Kept::new(wanted, sink);
    let summary = trace.read(&mut kept).map_err(|e| file::unreadable(path, &e))?;
    Ok((summary, kept.into_inner()))
}

/// The new file beside its final place; it goes away unless it is kept.
struct Output<'a> {
    target: &'a Path,
    path: PathBuf,
    file: File,
}

impl Output<'_> {
    fn create(target: &Path) -> Result<Output<'_>, Failure> {
        let refused = |why: &dyn std::fmt::Display| {
            Failure::new(Code::BadInput, format!("{} cannot be written: {why}", target.display()))
                .help("choose a place you can write to")
        };
        if std::fs::metadata(target).is_ok_and(|m| !m.is_file()) {
            return Err(refused(&"it is no ordinary file"));
        }
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let path = PathBuf::from(name);
        let file = File::create_new(&path).map_err(|e| refused(&e))?;
        Ok(Output { target, path, file })
    }

    fn failed(&self, why: &io::Error) -> Failure {
        Failure::new(Code::Machine, format!("{} could not be written: {why}", self.target.display()))
            .help("make room, or choose another place")
    }

    fn keep(self) -> Result<(), Failure> {
        std::fs::rename(&self.path, self.target).map_err(|e| self.failed(&e))
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        // After it was kept there is nothing under this name.
        let _ = std::fs::remove_file(&self.path);
    }
}
