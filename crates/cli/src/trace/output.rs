//! [`TraceOutput`]: events into a file of the format that its ending names; `convert` and `run` write through it.
//!
//! The new file is made beside its final place and takes that only when it is whole, so a file that was there keeps what
//! it holds until then.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use surety_kernel::files::nameless_in;
use surety_model::event::{Event, EventKind, TraceSink};
use surety_report::number_of;
use surety_trace::write::csv::Csv;
use surety_trace::write::jsonl::JsonLines;
use surety_trace::write::perfetto::{Overlay, Perfetto};
use surety_trace::{Compression, ReadAt, Spool, TraceDatEvents, TraceDatForm};

use crate::args::{FileVersion, Packing, Storing};
use crate::exit::{Code, Failure};
use crate::files::NewFile;

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    JsonLines,
    Csv,
    Perfetto,
    TraceDat(TraceDatForm),
}

impl Format {
    fn of(path: &Path, storing: &Storing) -> Result<Format, Failure> {
        let form = form_of(storing)?;
        let format = match path.extension().and_then(|e| e.to_str()) {
            Some("jsonl") => Format::JsonLines,
            Some("csv") => Format::Csv,
            Some("pftrace" | "perfetto-trace") => Format::Perfetto,
            Some("dat") => Format::TraceDat(form),
            _ => {
                let said = format!("{}: its ending names no format that is written", path.display());
                return Err(
                    Failure::new(Code::BadInput, said).help("end it in .dat, .jsonl, .csv or .pftrace")
                );
            }
        };
        let chosen = storing.file_version.is_some() || storing.compression.is_some();
        if chosen && !matches!(format, Format::TraceDat(_)) {
            let said = "--file-version and --compression are of trace.dat files only";
            return Err(Failure::new(Code::BadInput, said.to_owned()).help("end the file in .dat"));
        }
        Ok(format)
    }
}

/// Whether the ending names a format with tracks of what was promised.
pub fn has_tracks(path: &Path) -> bool {
    matches!(path.extension().and_then(|e| e.to_str()), Some("pftrace" | "perfetto-trace"))
}

/// The form of trace.dat files: version 7 packed with zstd unless something else is asked for.
pub fn form_of(storing: &Storing) -> Result<TraceDatForm, Failure> {
    let packing = storing.compression.map(|packing| match packing {
        Packing::None => Compression::None,
        Packing::Zlib => Compression::Zlib,
        Packing::Zstd => Compression::Zstd,
    });
    match (storing.file_version.unwrap_or(FileVersion::V7), packing) {
        (FileVersion::V7, packing) => Ok(TraceDatForm::V7(packing.unwrap_or(Compression::Zstd))),
        (FileVersion::V6, None | Some(Compression::None)) => Ok(TraceDatForm::V6),
        (FileVersion::V6, Some(_)) => {
            Err(Failure::new(Code::BadInput, "version 6 of trace.dat is never compressed".to_owned())
                .help("leave --compression away, or write version 7"))
        }
    }
}

/// A file in the making; it goes away unless it is finished.
pub struct TraceOutput {
    new: NewFile,
    sink: Sink,
    /// Events that came and that the sink has no room for, where it does not count them.
    left_out: u64,
}

type Buffered = BufWriter<File>;

enum Sink {
    JsonLines(JsonLines<Buffered>),
    Csv(Csv<Buffered>),
    Perfetto(Box<Perfetto<Buffered>>),
    TraceDat(Box<TraceDatEvents<SpoolFile>>, TraceDatForm),
    /// Finished.
    Done,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenTrace {
    pub events: u64,
    /// Events the format has no room for.
    pub left_out: u64,
    /// Texts the format has no room for.
    pub cut: u64,
}

impl TraceOutput {
    /// A new file beside `target`, in the format its ending names.
    ///
    /// Only a Perfetto trace has tracks for `overlays`.
    pub fn create(target: &Path, storing: &Storing, overlays: Vec<Overlay>) -> Result<TraceOutput, Failure> {
        let format = Format::of(target, storing)?;
        let new = NewFile::ordinary(target)?;
        let made = (|| {
            let out = || Ok::<_, io::Error>(BufWriter::with_capacity(1 << 18, new.file().try_clone()?));
            Ok::<_, io::Error>(match format {
                Format::JsonLines => Sink::JsonLines(JsonLines::new(out()?)),
                Format::Csv => Sink::Csv(Csv::new(out()?)),
                Format::Perfetto => Sink::Perfetto(Box::new(Perfetto::with_overlays(out()?, overlays))),
                Format::TraceDat(form) => {
                    let spool = SpoolFile::create(&new.directory())?;
                    Sink::TraceDat(Box::new(TraceDatEvents::new(spool)), form)
                }
            })
        })();
        let sink = made.map_err(|e| new.failed(&e))?;
        Ok(TraceOutput { new, sink, left_out: 0 })
    }

    /// Ends the file and puts it in its place. `clock` names the clock of the events' times.
    pub fn finish(mut self, clock: &str) -> Result<WrittenTrace, Failure> {
        let left_out = self.left_out;
        let counted = |events| WrittenTrace { events, left_out, ..WrittenTrace::default() };
        let written = match std::mem::replace(&mut self.sink, Sink::Done) {
            Sink::JsonLines(sink) => sink.finish().map(counted),
            Sink::Csv(sink) => sink.finish().map(counted),
            Sink::Perfetto(sink) => sink.finish(clock).map(counted),
            Sink::TraceDat(sink, form) => {
                let mut out = BufWriter::with_capacity(1 << 18, self.new.file());
                let written = sink.finish(form, clock, &mut out).map_err(io::Error::other);
                written.and_then(|written| {
                    out.flush()?;
                    let (events, left_out, cut) = (written.events, written.left_out, written.cut);
                    Ok(WrittenTrace { events, left_out, cut })
                })
            }
            Sink::Done => Ok(WrittenTrace::default()),
        };
        let written = written.map_err(|e| self.new.failed(&e))?;
        self.new.keep()?;
        Ok(written)
    }
}

impl WrittenTrace {
    /// What the format had no room for, in words; nothing when all is there.
    pub fn missing(&self) -> Option<String> {
        let events = (self.left_out > 0).then(|| number_of(self.left_out, "event"));
        let texts = (self.cut > 0).then(|| match self.cut {
            1 => "the end of 1 text".to_owned(),
            cut => format!("the ends of {cut} texts"),
        });
        let parts: Vec<String> = events.into_iter().chain(texts).collect();
        (!parts.is_empty())
            .then(|| format!("left out, as this format has no room for it: {}", parts.join(" and ")))
    }
}

/// Kinds that a Perfetto trace has no room for.
fn has_no_message(kind: &EventKind<'_>) -> bool {
    matches!(kind, EventKind::Raw(_) | EventKind::FutexEnter { .. } | EventKind::FutexExit)
}

impl TraceSink for TraceOutput {
    fn event(&mut self, event: &Event<'_>) {
        match &mut self.sink {
            Sink::JsonLines(sink) => sink.event(event),
            Sink::Perfetto(_) if has_no_message(&event.kind) => self.left_out += 1,
            Sink::Csv(sink) => sink.event(event),
            Sink::Perfetto(sink) => sink.event(event),
            Sink::TraceDat(sink, _) => sink.event(event),
            Sink::Done => {}
        }
    }
}

/// Pages that wait for the end of a trace.dat file: a file that has no name once it is open.
#[derive(Debug)]
struct SpoolFile {
    file: File,
    length: u64,
}

impl SpoolFile {
    fn create(directory: &Path) -> io::Result<SpoolFile> {
        let file = nameless_in(directory).or_else(|_| {
            let path = directory.join(format!(".surety-{}.pages", std::process::id()));
            let file = File::options().read(true).write(true).create_new(true).open(&path)?;
            std::fs::remove_file(&path).map(|()| file)
        })?;
        Ok(SpoolFile { file, length: 0 })
    }
}

impl ReadAt for SpoolFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(&self.file, buffer, offset)
    }

    fn len(&self) -> u64 {
        self.length
    }
}

impl Spool for SpoolFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}
