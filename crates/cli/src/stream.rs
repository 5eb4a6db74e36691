//! `surety stream mount`: a directory's files as streams for any program, until Ctrl-C or `umount`.

mod disk;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use surety_device::power::ULTRASTAR_36Z15;
use surety_kernel::clock;
use surety_playout::{How, Mount, MountError, Plan, Served};
use surety_report::table::cells;
use surety_stream::{Cause, Contract, Mode, Rest, StationSettings, Waits};
use surety_units::{Bytes, Nanos};

use crate::args::{StreamArgs, StreamMountArgs, StreamVerb};
use crate::exit::{Code, Failure};
use crate::session::Session;

/// Between two looks at Ctrl-C.
const LOOK: Nanos = Nanos::from_millis(50);

/// The verb.
pub fn stream(args: &StreamArgs, session: &Session) -> Result<Code, Failure> {
    match &args.verb {
        StreamVerb::Mount(args) => mount(args, session),
    }
}

fn mount(args: &StreamMountArgs, session: &Session) -> Result<Code, Failure> {
    let contract =
        Contract::new(args.rate).with_access(args.access.0).with_batch(args.batch.0).with_jitter(args.jitter);
    let plan = Plan {
        directory: args.directory.clone(),
        place: args.place.clone(),
        contract: Contract { buffer: args.buffer.map(|bytes| bytes.0), ..contract },
        is_shared: args.allow_others,
        station: StationSettings { mode: args.mode, ..StationSettings::default() },
    };
    // Given back when the mount is no more.
    let _prepared = disk::prepared(args, session)?;
    let mut mount = Mount::make(&plan, &session.kernel, session.need_journal()?).map_err(refused)?;
    announce(&mount, args, session)?;
    while !session.cancel.is_cancelled() && !mount.is_over() {
        clock::sleep_for(LOOK)?;
    }
    if !mount.is_over() && !mount.unmount()? {
        let open = match mount.open_files() {
            1 => "a file is still open and is served until it is closed".to_owned(),
            // A directory, or a program's own.
            0 => "it is still in use, and taken away when it is not any more".to_owned(),
            open => format!("{open} files are still open and are served until they are closed"),
        };
        session.note(&format!("{open}; a second Ctrl-C ends that"));
        mount.detach();
    }
    while !mount.is_over() {
        clock::sleep_for(LOOK)?;
    }
    let (served, more) = mount.take_served();
    let trouble = mount.trouble();
    // Only the longest batches are to leave it alone.
    let rest = Some(mount.rest()).filter(|_| plan.station.mode == Mode::Longest);
    drop(mount);
    if session.json {
        session.print_json(&document(args, &served, more, rest.as_ref()))?;
    } else {
        session.print(&told(&served, more, session))?;
        if let Some(rest) = rest.filter(|rest| rest.span.is_positive()) {
            session.print(&format!("the mount {}\n", ULTRASTAR_36Z15.rested(&rest)))?;
        }
    }
    match trouble {
        Some(why) => Err(Failure::new(Code::Machine, format!("the mount did not serve as it should: {why}"))),
        None => Ok(Code::Kept),
    }
}

fn refused(error: MountError) -> Failure {
    let code = match &error {
        MountError::Directory { .. }
        | MountError::Place { .. }
        | MountError::Taken { .. }
        | MountError::Nested { .. }
        | MountError::Stream(surety_stream::StreamError::Contract { .. }) => Code::BadInput,
        _ => Code::Machine,
    };
    Failure::new(code, error.to_string())
}

/// The place first: a script reads the first word.
fn announce(mount: &Mount<'_>, args: &StreamMountArgs, session: &Session) -> Result<(), Failure> {
    let place = mount.place().display();
    let line = format!(
        "{place} shows {}, each open file at {} at most; Ctrl-C or `umount {place}` ends it",
        args.directory.display(),
        args.rate
    );
    for caveat in mount.caveats() {
        session.note(&format!("streams are observed, not scheduled: {caveat}"));
    }
    if session.json {
        session.note(&line);
        return Ok(());
    }
    session.print(&format!("{line}\n"))
}

/// A table with a row for each open file, and why levels are not higher.
fn told(served: &[Served], more: u64, session: &Session) -> String {
    if served.is_empty() {
        return "no file was read\n".to_owned();
    }
    let header = [
        "file",
        "read by",
        "level",
        "bytes",
        "jumps",
        "longest batch",
        "least ahead",
        "under-runs",
        "waited for them",
    ];
    let rows: Vec<Vec<String>> = served.iter().map(row).collect();
    let mut text = cells(&header, &rows, &session.style());
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in served {
        let (level, why) = match &one.how {
            How::Stream { level, caveats, .. } => (level.to_string(), caveats.clone()),
            How::Plainly { why } => ("plain".to_owned(), vec![format!("it {why}")]),
            How::NotAtAll { why } => ("not served".to_owned(), vec![why.clone()]),
        };
        for why in why {
            let files = reasons.entry(format!("{level}: {why}")).or_default();
            let name = one.path.display().to_string();
            if !files.contains(&name) {
                files.push(name);
            }
        }
    }
    for (reason, files) in reasons {
        text += &format!("{reason} ({})\n", files.join(", "));
    }
    if more > 0 {
        text += &format!("and {more} open files more\n");
    }
    text
}

fn row(one: &Served) -> Vec<String> {
    let bytes = Bytes(one.bytes).to_string();
    let mut row = vec![one.path.display().to_string(), one.program.clone()];
    let none = "-".to_owned();
    match &one.how {
        How::Stream { level, stats, .. } => row.extend([
            level.to_string(),
            bytes,
            one.jumps.to_string(),
            stats.worst_batch.to_string(),
            stats.least_ahead.map_or(none, |bytes| Bytes(bytes).to_string()),
            stats.waits.under_runs.to_string(),
            waited(&stats.waits),
        ]),
        How::Plainly { .. } => row.extend(["plain".to_owned(), bytes]),
        How::NotAtAll { .. } => row.extend(["not served".to_owned(), bytes]),
    }
    row.resize(9, "-".to_owned());
    row
}

/// What the time of under-runs went for.
fn waited(waits: &Waits) -> String {
    let parts: Vec<String> = Cause::ALL
        .iter()
        .filter(|cause| waits.of(**cause).is_positive())
        .map(|cause| format!("{} {}", waits.of(*cause), cause.words()))
        .collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

fn document(args: &StreamMountArgs, served: &[Served], more: u64, rest: Option<&Rest>) -> Value {
    json!({
        "schema": "surety.stream-mount/1",
        "directory": args.directory.to_string_lossy(),
        "mount": args.place.to_string_lossy(),
        "rate": args.rate.0,
        "files": served.iter().map(file).collect::<Vec<_>>(),
        "more_files": more,
        "rest": rest.map(|rest| json!({
            "count": rest.count,
            "total_ns": rest.total.get(),
            "longest_ns": rest.longest.get(),
            "span_ns": rest.span.get(),
        })),
    })
}

fn file(one: &Served) -> Value {
    let (level, caveats, stream) = match &one.how {
        How::Stream { level, caveats, buffer, stats } => {
            let waited: BTreeMap<&str, i64> =
                Cause::ALL.iter().map(|cause| (cause.key(), stats.waits.of(*cause).get())).collect();
            let stream = json!({
                "buffer_bytes": buffer,
                "batches": stats.batches,
                "fetched_bytes": stats.bytes,
                "longest_batch_ns": stats.worst_batch.get(),
                "longest_in_device_ns": stats.worst_in_device.get(),
                "least_ahead_bytes": stats.least_ahead,
                "under_runs": stats.waits.under_runs,
                "waited_ns": waited,
            });
            (level.to_string(), caveats.clone(), stream)
        }
        How::Plainly { why } => ("plain".to_owned(), vec![format!("it {why}")], Value::Null),
        How::NotAtAll { why } => ("not served".to_owned(), vec![why.clone()], Value::Null),
    };
    json!({
        "file": one.path.to_string_lossy(),
        "read_by": one.program,
        "level": level,
        "caveats": caveats,
        "bytes": one.bytes,
        "jumps": one.jumps,
        "time_ns": one.time.get(),
        "stream": stream,
    })
}
