//! `surety trace record`: the scheduling events of the whole machine into a trace.dat file.
//!
//! Everything that can be refused is refused before the recording begins. It ends with its command, after its time or at
//! Ctrl-C, which is how one ends a recording and so no failure. The file is read back before it is called good.

use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use serde_json::json;
use surety_kernel::command::{ChildSetup, Spawned, spawn};
use surety_kernel::tracefs::Tracefs;
use surety_kernel::{Kernel, clock};
use surety_model::event::Event;
use surety_model::world::Observer;
use surety_probe::recorder::{JournalledRecording, PageFile, RawTrace, RecordingError};
use surety_trace::{EVENTS, ReadSummary, TraceDat, TraceReader};
use surety_units::{CpuSet, Nanos};

use crate::args::RecordArgs;
use crate::exit::{Code, Failure};
use crate::session::{Session, Watch};

/// Between two looks at the clock, the signals and the command.
const LOOK: Nanos = Nanos::from_millis(100);
/// How long a command that is told to end has for it.
const GRACE: Nanos = Nanos::from_secs(1);
/// SIGTERM of `signal(7)`.
const TERMINATE: i32 = 15;

/// The verb. A command that fails ends in 1.
pub fn record(args: &RecordArgs, session: &Session) -> Result<Code, Failure> {
    let tracefs = Tracefs::open()?;
    let cpus = session.kernel.online_cpus()?;
    let mut output = Output::open(&args.output)?;
    let recording = JournalledRecording::start(&tracefs, session.journal(), &session.kernel, EVENTS, cpus)
        .map_err(refused)?;
    let (started, own) = (clock::monotonic(), clock::thread_cpu_time());
    let mut child = start_command(args, session)?;
    let end = wait(args, session, &mut child)?;
    let (elapsed, own) = (clock::monotonic() - started, clock::thread_cpu_time() - own);
    let raw = recording.finish(EVENTS)?;
    let overhead = own + raw.cpu_time;
    if let Some(child) = child {
        end_command(child)?;
    }
    let bytes = output.write(&raw)?;
    let summary = output.read_back()?;
    let events = summary.events.iter().map(|e| e.count).sum();
    if events == 0 && matches!(end, End::Interrupted) {
        session.step("nothing was recorded");
        return Ok(Code::Interrupted);
    }
    output.keep();
    let code = match end {
        End::Command(status) if !status.success() => Code::Broken,
        _ => Code::Kept,
    };
    let made = Made { events, lost: summary.lost_at_least().max(raw.lost()), elapsed, bytes, overhead, cpus };
    made.tell(args, &end, code, session);
    Ok(code)
}

/// How a recording ended.
enum End {
    Command(ExitStatus),
    Time,
    Interrupted,
}

/// What was made.
struct Made {
    events: u64,
    lost: u64,
    elapsed: Nanos,
    bytes: u64,
    overhead: Nanos,
    cpus: CpuSet,
}

impl Made {
    fn tell(&self, args: &RecordArgs, end: &End, code: Code, session: &Session) {
        let file = args.output.display();
        let status = match end {
            End::Command(status) => Some(status.to_string()),
            _ => None,
        };
        if session.json {
            session.print_json(&json!({
                "schema": "surety.trace-record/1",
                "file": file.to_string(),
                "bytes": self.bytes,
                "events": self.events,
                "lost": self.lost,
                "duration_ns": self.elapsed,
                "own_cpu_time_ns": self.overhead,
                "cpus": self.cpus.to_string(),
                "command": status,
                "interrupted": matches!(end, End::Interrupted),
                "exit": code as u8,
            }));
        }
        if let Some(status) = status.filter(|_| code != Code::Kept) {
            session.step(&format!("the command ended with {status}"));
        }
        let lost = if self.lost == 0 { "none lost".to_owned() } else { format!("{} lost", self.lost) };
        session.step(&format!(
            "{file}: {} events of CPUs {} in {}, {lost}, {:.1} MB",
            self.events,
            self.cpus,
            self.elapsed,
            self.bytes as f64 / 1e6
        ));
        session.step(&format!(
            "recording took {} of CPU time, {:.2} % of one CPU, beside the time of each event where it happens",
            self.overhead,
            100.0 * self.overhead.get() as f64 / self.elapsed.get().max(1) as f64
        ));
        if self.lost > 0 {
            session.note(
                "events came faster than they could be carried off; jobs around the holes are given up",
            );
        }
    }
}

fn refused(error: RecordingError) -> Failure {
    match error {
        RecordingError::Kernel(error) => error.into(),
        RecordingError::Journal(error) => error.into(),
        other => Failure::new(Code::Machine, other.to_string()),
    }
}

fn start_command(args: &RecordArgs, session: &Session) -> Result<Option<Spawned>, Failure> {
    let Some((program, arguments)) = args.command.split_first() else {
        if args.duration.is_none() {
            session.step("recording; Ctrl-C ends it");
        }
        return Ok(None);
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::inherit());
    if session.json {
        // Standard output is for the one document.
        command.stdout(std::io::stderr());
    }
    let child = spawn(command, &ChildSetup::default()).map_err(|error| {
        Failure::new(Code::BadInput, error.to_string()).help("check the command's name and path")
    })?;
    Ok(Some(child))
}

/// Sleeps until the recording is to end.
fn wait(args: &RecordArgs, session: &Session, child: &mut Option<Spawned>) -> Result<End, Failure> {
    let mut watch: Watch<'_> = session.watch("recording", None);
    let begin = clock::monotonic();
    let until = args.duration.map(|d| begin.saturating_add(d));
    loop {
        let now = clock::monotonic();
        if session.cancel.is_cancelled() {
            return Ok(End::Interrupted);
        }
        if until.is_some_and(|until| now >= until) {
            return Ok(End::Time);
        }
        watch.progress(now - begin, args.duration.unwrap_or(Nanos::ZERO));
        let next = until.map_or(now + LOOK, |until| until.min(now + LOOK));
        match child {
            Some(child) => {
                if let Some(ended) = child.wait_until(next)? {
                    return Ok(End::Command(ended.status));
                }
            }
            None => drop(clock::sleep_until(next, None)?),
        }
    }
}

/// Ends a command that outlived the recording, by word first; what is left is killed when it is dropped.
fn end_command(mut child: Spawned) -> Result<(), Failure> {
    if child.signal(TERMINATE)? {
        child.wait_until(clock::monotonic() + GRACE)?;
    }
    Ok(())
}

/// The file to write. One that was there keeps what it holds until there is something to write; one that was not is
/// removed unless it is kept.
struct Output<'a> {
    path: &'a Path,
    file: File,
    remove: bool,
}

impl Output<'_> {
    fn open(path: &Path) -> Result<Output<'_>, Failure> {
        let refused = |why: String| {
            Failure::new(Code::BadInput, format!("{} cannot be written: {why}", path.display()))
                .help("choose a place you can write to with --output")
        };
        let known = std::fs::metadata(path).ok();
        if known.as_ref().is_some_and(|m| !m.is_file()) {
            return Err(refused("it is no ordinary file".to_owned()));
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|e| refused(e.to_string()))?;
        Ok(Output { path, file, remove: known.is_none() })
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::new(Code::Machine, format!("{} could not be written: {why}", self.path.display()))
            .help("what was recorded is gone; make room, or choose another place with --output")
    }

    fn write(&mut self, raw: &RawTrace) -> Result<u64, Failure> {
        self.file.set_len(0).map_err(|e| self.failed(&e.to_string()))?;
        let written = raw.write_trace_dat(&mut BufWriter::with_capacity(1 << 18, &self.file));
        written.map_err(|e| {
            // Half a file is worse than none.
            self.remove = true;
            self.failed(&e.to_string())
        })
    }

    /// What a reader finds in the file.
    fn read_back(&self) -> Result<ReadSummary, Failure> {
        let wrong = |why: String| {
            Failure::new(Code::Internal, format!("{} does not read back: {why}", self.path.display()))
        };
        let file = File::open(self.path).and_then(PageFile::new).map_err(|e| wrong(e.to_string()))?;
        let mut read = TraceDat::open(file).map_err(|e| wrong(e.to_string()))?;
        read.read(&mut |_: &Event<'_>| {}).map_err(|e| wrong(e.to_string()))
    }

    fn keep(&mut self) {
        self.remove = false;
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if self.remove {
            let _ = std::fs::remove_file(self.path);
        }
    }
}
