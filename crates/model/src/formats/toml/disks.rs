//! Sections of files and disks: `[disk.NAME]`, `[[stream]]`, `[[startup]]`.

use std::collections::BTreeMap;
use std::ops::Range;

use surety_units::Bytes;
use toml::de::DeValue;

use super::keys::{COUNT_32, command_text, promises};
use super::rights::rights_of_command;
use super::table::{Field, Reading, Table};
use crate::workload::*;

pub(super) fn disk(reading: &mut Reading, table: Table<'_>, name: &str) -> Disk {
    let disk = Disk {
        name: name.to_owned(),
        make: table.quantity(reading, "make", "1GiB"),
        model: table.text(reading, "model"),
        scheduler: table.text(reading, "scheduler"),
        depth: table.integer(reading, "depth", DEPTH).and_then(|depth| u32::try_from(depth).ok()),
        request: request(reading, &table),
        wbt: table.quantity(reading, "wbt", "1ms"),
        best_effort: table.quantity(reading, "best-effort", "2MB/s"),
        journal: table.boolean(reading, "journal"),
        on: table.text(reading, "on"),
        io_priority: io_priority(reading, &table),
        read_ahead: table.text(reading, "read-ahead"),
        group: table.text(reading, "group"),
        tunables: table.table(reading, "tunables").map(|all| tunables(reading, &all)).unwrap_or_default(),
        faults: faults(reading, &table),
    };
    table.finish(reading);
    disk
}

/// Requests that a driver takes at a time.
const DEPTH: Range<i64> = 1..65_537;

/// The largest request: whole pages, which is what the kernel's limit is told in at least.
fn request(reading: &mut Reading, table: &Table<'_>) -> Option<Bytes> {
    let field = table.field(reading, "request")?;
    let size: Bytes = field.quantity(reading, "128KiB")?;
    if size.0 < 4096 || !size.0.is_multiple_of(4096) {
        let message = format!("{size} is no number of whole pages");
        let help = "a multiple of 4KiB".to_owned();
        reading.wrong(field.span.clone(), message, "here", Some(help));
        return None;
    }
    Some(size)
}

pub(super) fn io_priority(reading: &mut Reading, table: &Table<'_>) -> Option<IoPriority> {
    let field = table.field(reading, "io-priority")?;
    let text = field.text(reading, "\"rt:0\"")?;
    match text.parse() {
        Ok(priority) => Some(priority),
        Err(why) => {
            reading.wrong(
                field.span.clone(),
                format!("`{text}` is no I/O priority"),
                "here",
                Some(why.to_owned()),
            );
            None
        }
    }
}

/// Parts that fail, of a disk that can be had fail.
fn faults(reading: &mut Reading, table: &Table<'_>) -> Vec<Fault> {
    let all = table.tables(reading, "faults");
    if let (Some(first), None) = (all.first(), table.field(reading, "model")) {
        let help = "give the disk a `model`: no other disk fails where it is told to".to_owned();
        reading.wrong(
            first.span.clone(),
            "`faults` of a disk without a model".to_owned(),
            "here",
            Some(help),
        );
    }
    all.into_iter().filter_map(|one| fault(reading, one)).collect()
}

fn fault(reading: &mut Reading, table: Table<'_>) -> Option<Fault> {
    let at = table.required(reading, "at", "\"24MiB\"");
    let bytes = table.required(reading, "bytes", "\"64KiB\"");
    let fails = table.word(reading, "fails", &Fails::WORDS).unwrap_or_default();
    let span = table.span.clone();
    table.finish(reading);
    let at = at.and_then(|field| field.quantity(reading, "24MiB"))?;
    let fault = Fault { at, bytes: bytes.and_then(|field| field.quantity(reading, "64KiB"))?, fails };
    match fault.check() {
        Ok(()) => Some(fault),
        Err(why) => {
            reading.wrong(span, why, "here", None);
            None
        }
    }
}

/// Whole numbers by name; which names there are is known where the I/O scheduler is.
fn tunables(reading: &mut Reading, table: &Table<'_>) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for (name, span, field) in table.entries() {
        reading.places.insert(field.path.clone(), span);
        if let Some(value) = field.integer(reading, 0..i64::MAX) {
            found.insert(name.to_owned(), value.unsigned_abs());
        }
    }
    found
}

pub(super) fn stream(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Stream> {
    let file = table.required(reading, "file", "{ make = \"105MB\" }");
    let rate = table.required(reading, "rate", "\"1MB/s\"");
    let read = table.field(reading, "read");
    let write = table.field(reading, "write");
    if let (Some(_), Some(write)) = (&read, &write) {
        let message = "a stream reads or writes, not both".to_owned();
        reading.wrong(write.span.clone(), message, "second of the two", Some("make two streams".to_owned()));
    }
    let direction = if write.is_some() { Direction::Write } else { Direction::Read };
    // `true` in place of a size: that way, with a size computed.
    let access = read.or(write).filter(|f| !matches!(f.value, DeValue::Boolean(true)));
    let stream = Stream {
        count: table.integer(reading, "count", COUNT_32).unwrap_or(1) as u32,
        disk: table.text(reading, "disk"),
        io_priority: io_priority(reading, table),
        group: table.text(reading, "group"),
        direction,
        access: access.and_then(|f| f.quantity(reading, "64KiB")),
        jitter: table.quantity(reading, "jitter", "10ms"),
        buffer: table.quantity(reading, "buffer", "256KiB"),
        batch: table.quantity(reading, "batch", "160KiB"),
        overlap: table.boolean(reading, "overlap").unwrap_or(false),
        bound: table.quantity(reading, "bound", "120ms"),
        admitted: false,
        mode: batch_mode(reading, table),
        promises: promises(reading, table),
        name,
        file: file.and_then(|f| stream_file(reading, &f))?,
        rate: rate.and_then(|f| f.quantity(reading, "1MB/s"))?,
    };
    Some(stream)
}

fn batch_mode(reading: &mut Reading, table: &Table<'_>) -> BatchMode {
    let Some(field) = table.field(reading, "mode") else { return BatchMode::default() };
    let Some(text) = field.text(reading, "\"longest\"") else { return BatchMode::default() };
    let known = BatchMode::ALL.iter().find(|(_, word)| *word == text);
    known.map_or_else(
        || {
            let help = "\"steady\" or \"longest\"".to_owned();
            reading.wrong(field.span.clone(), format!("`{text}` is no mode"), "here", Some(help));
            BatchMode::default()
        },
        |(mode, _)| *mode,
    )
}

fn stream_file(reading: &mut Reading, field: &Field<'_>) -> Option<StreamFile> {
    match field.value {
        DeValue::String(path) => Some(StreamFile::Path(path.to_string())),
        _ => {
            let table = field.table(reading)?;
            let make =
                table.required(reading, "make", "\"105MB\"").and_then(|f| f.quantity(reading, "105MB"));
            table.finish(reading);
            make.map(StreamFile::Make)
        }
    }
}

pub(super) fn startup(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Startup> {
    let command = table.field(reading, "command");
    let replay = table.field(reading, "replay");
    let body = match (command, replay) {
        (Some(field), None) => command_text(reading, &field).map(StartupBody::Command),
        (None, Some(field)) => field.text(reading, "a file name").map(|f| StartupBody::Replay(f.to_owned())),
        (_, second) => {
            let span = second.map_or(table.span.clone(), |f| f.span);
            let message = format!("start-up `{name}` needs exactly one of command, replay");
            reading.wrong(span, message, "here", None);
            None
        }
    };
    let ready = table.field(reading, "ready").and_then(|field| {
        let text = field.text(reading, "\"exit\", \"stdout:TEXT\" or \"socket:PATH\"")?;
        match text.split_once(':') {
            None if text == "exit" => Some(Ready::Exit),
            Some(("stdout", what)) if !what.is_empty() => Some(Ready::Stdout(what.to_owned())),
            Some(("socket", path)) if !path.is_empty() => Some(Ready::Socket(path.to_owned())),
            _ => {
                let message = format!("`{text}` says nothing about readiness");
                let help = "use \"exit\", \"stdout:TEXT\" or \"socket:PATH\"".to_owned();
                reading.wrong(field.span, message, "not known", Some(help));
                None
            }
        }
    });
    let prepare = table.field(reading, "prepare").and_then(|field| command_text(reading, &field));
    let is_command = matches!(body, Some(StartupBody::Command(_)));
    let startup = Startup {
        prepare,
        rights: rights_of_command(reading, table, is_command, "start-up"),
        ready: ready.unwrap_or_default(),
        cold: table.boolean(reading, "cold").unwrap_or(false),
        repeat: table.integer(reading, "repeat", COUNT_32).unwrap_or(1) as u32,
        gap: table.quantity(reading, "gap", "1s").unwrap_or(Startup::GAP),
        timeout: table.quantity(reading, "timeout", "120s"),
        disk: table.text(reading, "disk"),
        io_priority: io_priority(reading, table),
        group: table.text(reading, "group"),
        promises: promises(reading, table),
        name,
        body: body?,
    };
    Some(startup)
}
