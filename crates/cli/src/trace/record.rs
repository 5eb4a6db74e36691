//! `surety trace record`: the scheduling events of the whole machine into a trace.dat file.
//!
//! Everything that can be refused is refused before the recording begins. It ends with its command, after its time, at a
//! limit or at Ctrl-C, which is how one ends a recording and so no failure. The file is read back before it is called good.

use std::os::fd::AsFd;
use std::process::ExitStatus;

use surety_host::recorder::{
    JournalledRecording, RawTrace, RecordingError, RecordingOptions, StopWhen, note_threads,
};
use surety_host::{ChildrenEntry, lacked, rights_of};
use surety_kernel::clock;
use surety_kernel::command::{ChildSetup, Command, Spawned, Stream, spawn};
use surety_kernel::tracefs::{Marker, Tracefs};
use surety_units::Nanos;

use crate::args::RecordArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;
use surety_session::Context;

use output::Output;
use summary::Made;

mod events;
pub mod output;
mod restricted;
mod summary;

/// Between two looks at the clock, the signals and the command.
const LOOK: Nanos = Nanos::from_millis(100);
/// How long a command that is told to end has for it.
const GRACE: Nanos = Nanos::from_secs(1);
/// SIGTERM of `signal(7)`.
const TERMINATE: i32 = 15;

/// How a recording ended.
enum End {
    Command(ExitStatus),
    Time,
    Interrupted,
    /// One of its own: the recording says which.
    Limit,
}

/// The verb. A command that fails ends in 1.
pub fn record(args: &RecordArgs, session: &Session) -> Result<Code, Failure> {
    if let (Some(keep), Some(duration)) = (args.keep, args.duration)
        && keep >= duration
    {
        let what =
            format!("--keep {keep} is no shorter than --for {duration}: there is nothing to leave out");
        return Err(Failure::new(Code::BadInput, what).help("leave --keep out"));
    }
    let ending = args.output.extension().and_then(|ending| ending.to_str());
    if let Some(ending @ ("jsonl" | "csv" | "pftrace" | "perfetto-trace")) = ending {
        let what = format!("a recording is a trace.dat file, not .{ending}");
        let help = format!("end it in .dat, then `surety trace convert FILE.dat FILE.{ending}`");
        return Err(super::file::refused(&args.output, what).help(help));
    }
    let tracefs = Tracefs::open()?;
    let events = events::chosen(args, &tracefs)?;
    let cpus = restricted::cpus(args, &session.kernel)?;
    let mut options = options_of(args, &events, session)?;
    let journal = session.need_journal()?;
    let mut output = Output::open(&args.output)?;
    options.directory = Some(output.directory());
    let recording = JournalledRecording::start(&tracefs, Some(journal), &session.kernel, &options, cpus)
        .map_err(refused)?;
    let (started, own) = (clock::monotonic(), clock::thread_cpu_time());
    let children = (!args.command.is_empty())
        .then(|| ChildrenEntry::of_command(Some(journal), &session.kernel))
        .flatten();
    let mut child = start_command(args, children.as_ref(), session)?;
    let end = wait(args, session, &recording, &mut child)?;
    note_still(args, &options, &recording.marker(), session);
    let own = clock::thread_cpu_time() - own;
    let raw = RawTrace { left_out: restricted::in_words(args), ..recording.finish()? };
    if let Some(child) = child {
        end_command(child)?;
    }
    drop(children);
    let bytes = output.write(&raw)?;
    let summary = output.read_back()?;
    if summary.events.is_empty() && matches!(end, End::Interrupted) {
        session.step("nothing was recorded");
        return Ok(Code::Interrupted);
    }
    output.keep()?;
    let code = match end {
        End::Command(status) if !status.success() => {
            let rights = rights_of(&args.command[0], &args.rights.rights())?;
            lacked(&rights).iter().for_each(|note| session.note(note));
            Code::Broken
        }
        _ => Code::Kept,
    };
    let made = Made {
        raw: &raw,
        summary: &summary,
        elapsed: (raw.end - started).max(Nanos::ZERO),
        bytes,
        overhead: own + raw.cpu_time,
        cpus,
        options: &options,
    };
    made.tell(args, &end, code, session)?;
    Ok(code)
}

/// What is recorded, but for the place of its pages.
fn options_of(args: &RecordArgs, events: &[String], session: &Session) -> Result<RecordingOptions, Failure> {
    Ok(RecordingOptions {
        buffer: args.buffer,
        size: args.size,
        keep: args.keep,
        stop_when: args.stop_when.map(|condition| StopWhen { condition, after: args.after }),
        pids: restricted::pids(args, &session.kernel)?,
        filters: restricted::filters(args, events)?,
        ..RecordingOptions::of(events)
    })
}

fn refused(error: RecordingError) -> Failure {
    match error {
        RecordingError::Kernel(error) => error.into(),
        RecordingError::Journal(error) => error.into(),
        refused @ RecordingError::NoForks => Failure::new(Code::Machine, refused.to_string()),
        refused @ RecordingError::Filter { .. } => Failure::new(Code::BadInput, refused.to_string())
            .help("`cat /sys/kernel/tracing/events/SYSTEM/EVENT/format` names an event's fields"),
        other => Failure::new(Code::Machine, other.to_string()),
    }
}

/// Notes where each thread is, for readers of threads of which no event tells.
fn note_still(args: &RecordArgs, options: &RecordingOptions, marker: &Marker, session: &Session) {
    // Where events are left out, a thread without any may have run.
    if args.only_events || !args.filter.is_empty() || args.cpus.is_some() {
        return;
    }
    match note_threads(&session.kernel, (&options.pids, options.buffer), marker) {
        Ok(true) => {}
        Ok(false) => session.note("threads without events are not all listed: they would fill the buffer"),
        Err(error) => session.note(&format!("threads without events are not listed: {error}")),
    }
}

fn start_command(
    args: &RecordArgs,
    children: Option<&ChildrenEntry<'_>>,
    session: &Session,
) -> Result<Option<Spawned>, Failure> {
    let Some((program, arguments)) = args.command.split_first() else {
        match (args.stop_when, args.duration) {
            (Some(condition), _) => session.step(&format!("recording until {condition}; Ctrl-C ends it")),
            (None, None) => session.step("recording; Ctrl-C ends it"),
            (None, Some(_)) => {}
        }
        return Ok(None);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    if session.json {
        // Standard output is for the one document.
        let messages = std::io::stderr().as_fd().try_clone_to_owned();
        command.stdout(messages.map_or(Stream::Null, Stream::File));
    }
    let mark = children.map(|children| children.mark().to_owned());
    let rights = Some(rights_of(program, &args.rights.rights())?);
    let setup = ChildSetup { mark, rights, ..ChildSetup::default() };
    let child = spawn(&mut command, &setup).map_err(|error| {
        Failure::new(Code::BadInput, error.to_string()).help("check the command's name and path")
    })?;
    Ok(Some(child))
}

/// Sleeps until the recording is to end.
fn wait(
    args: &RecordArgs,
    session: &Session,
    recording: &JournalledRecording<'_>,
    child: &mut Option<Spawned>,
) -> Result<End, Failure> {
    let mut watch = session.watch("recording", None);
    let begin = clock::monotonic();
    let until = args.duration.map(|d| begin.saturating_add(d));
    loop {
        let now = clock::monotonic();
        if session.cancel.is_cancelled() {
            return Ok(End::Interrupted);
        }
        if recording.is_over() {
            return Ok(End::Limit);
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
