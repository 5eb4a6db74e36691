//! From a parsed TOML document to a [`Workload`].

use std::ops::Range;

use surety_units::Nanos;
use toml::de::{DeTable, DeValue};

use super::FORMAT;
use super::rights::{KEEP, rights, rights_of_command};
use super::table::{Field, Reading, Table};
use super::times::{ANY_COUNT, distribution, distribution_table};
use crate::distribution::TimeDistribution;
use crate::promise::Promise;
use crate::reservation::Reservation;
use crate::workload::*;

const COUNT_32: Range<i64> = 1..u32::MAX as i64;
/// More threads of one kind than this, in all or on a CPU, measure nothing any more.
const INSTANCES: Range<i64> = 1..10_001;

/// Reads the whole document. `None` when nothing can be made of it.
pub(super) fn workload(reading: &mut Reading, text: &str) -> Option<Workload> {
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        reading.wrong(span, error.message().to_owned(), "this is not TOML", None);
    }
    if !reading.diagnostics.is_empty() {
        return None;
    }
    let root = Table::new(document.get_ref(), 0..0, "");
    if let Some(format) = root.required(reading, "format", "1")
        && let Some(version) = format.integer(reading, i64::MIN..i64::MAX)
        && version != FORMAT
    {
        let message = format!("format {version} is not known: this program reads format {FORMAT}");
        reading.wrong(format.span, message, "unknown format", None);
    }
    let mut workload = Workload { title: root.text(reading, "title"), ..Workload::default() };
    workload.tasks = named(reading, &root, "task", task);
    workload.irqs = named(reading, &root, "irq", irq);
    workload.streams = named(reading, &root, "stream", stream);
    workload.startups = named(reading, &root, "startup", startup);
    workload.loads = named(reading, &root, "load", load);
    workload.groups = named(reading, &root, "group", group);
    workload.chains = named(reading, &root, "chain", chain);
    workload.resources = named(reading, &root, "resource", resource);
    if let Some(disks) = root.table(reading, "disk") {
        for (name, span, field) in disks.entries() {
            reading.places.insert(field.path.clone(), span);
            if let Some(table) = field.table(reading) {
                workload.disks.push(disk(reading, table, name));
            }
        }
    }
    if let Some(table) = root.table(reading, "vary") {
        workload.vary = vary(reading, table);
    }
    root.finish(reading);
    Some(workload)
}

/// Reads each table of `[[kind]]`; its places are known by the name in it.
fn named<T>(
    reading: &mut Reading,
    root: &Table<'_>,
    kind: &'static str,
    read: fn(&mut Reading, &Table<'_>, String) -> Option<T>,
) -> Vec<T> {
    let mut list = Vec::new();
    for mut table in root.tables(reading, kind) {
        let Some(field) = table.required(reading, "name", &format!("\"my-{kind}\"")) else { continue };
        let Some(name) = field.text(reading, "text").map(str::to_owned) else { continue };
        let is_fine = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
        if !is_fine {
            let message = format!("`{name}` is no name: names are letters, digits, - and _");
            reading.wrong(field.span.clone(), message, "here", None);
        }
        table.path = format!("{kind}.{name}");
        reading.places.insert(table.path.clone(), field.span);
        let value = read(reading, &table, name);
        table.finish(reading);
        list.extend(value);
    }
    list
}

fn task(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Task> {
    let release = release(reading, table);
    let spacing = spacing(reading, table, &release);
    let work = table.field(reading, "work");
    let phases = table.field(reading, "phases");
    let command = table.field(reading, "command");
    let matched = table.field(reading, "match");
    let given: Vec<&Field<'_>> = [&work, &phases, &command, &matched].into_iter().flatten().collect();
    if given.len() != 1 {
        let span = given.get(1).map_or(table.span.clone(), |f| f.span.clone());
        let message = format!("task `{name}` needs exactly one of work, phases, command, match");
        let help =
            "write `work = \"5ms\"` for a synthetic task, `command = \"...\"` for a program".to_owned();
        reading.wrong(span, message, "here", Some(help));
    }
    let body = if let Some(field) = work {
        work_of(reading, &field).map(TaskBody::Synthetic)
    } else if let Some(field) = phases {
        Some(TaskBody::Phases(field.items().iter().filter_map(|item| phase(reading, item)).collect()))
    } else if let Some(field) = command {
        command_text(reading, &field).map(|line| TaskBody::Command(program(reading, table, line)))
    } else if let Some(field) = matched {
        thread_match(reading, &field).map(TaskBody::Match)
    } else {
        None
    };
    if !matches!(body, Some(TaskBody::Command(_))) {
        for key in ["prepare", "package", "worker", "user", KEEP] {
            if let Some(field) = table.field(reading, key) {
                let message = format!("`{key}` belongs to a task with a `command`");
                reading.wrong(field.span, message, "without a command", None);
            }
        }
    }
    let late = table.word(reading, "late", &[("queue", Late::Queue), ("skip", Late::Skip)]);
    let sleep = table.word(reading, "sleep", &[("absolute", Sleep::Absolute), ("relative", Sleep::Relative)]);
    let task = Task {
        policy: policy(reading, table),
        group: table.text(reading, "group"),
        instances: instances(reading, table, "instances").unwrap_or(Instances::Count(1)),
        jobs: table.integer(reading, "jobs", ANY_COUNT).map(|n| n as u64),
        promises: promises(reading, table),
        reservation: reservation(reading, table),
        late: late.unwrap_or_default(),
        sleep: sleep.unwrap_or_default(),
        release,
        spacing,
        name,
        body: body?,
    };
    Some(task)
}

/// `spacing`, which says more about a `gap`.
fn spacing(reading: &mut Reading, table: &Table<'_>, release: &Release) -> Option<TimeDistribution> {
    let field = table.field(reading, "spacing")?;
    if !matches!(release, Release::Sporadic { .. }) {
        let help = "`gap = \"1ms\"` is the smallest inter-arrival time, `spacing` how they are distributed";
        let message = "`spacing` needs a `gap`".to_owned();
        reading.wrong(field.span, message, "without a gap", Some(help.to_owned()));
        return None;
    }
    distribution(reading, &field)
}

fn release(reading: &mut Reading, table: &Table<'_>) -> Release {
    let period = table.field(reading, "period");
    let gap = table.field(reading, "gap");
    let start = table.quantity(reading, "start", "0s");
    let jitter = table.quantity(reading, "jitter", "1ms");
    let positive = |reading: &mut Reading, field: &Field<'_>| {
        let time: Nanos = field.quantity(reading, "40ms")?;
        if time.is_positive() {
            return Some(time);
        }
        let key = field.path.rsplit('.').next().unwrap_or_default();
        reading.wrong(field.span.clone(), format!("`{key}` is zero"), "longer than nothing", None);
        None
    };
    match (period, gap) {
        (Some(_), Some(gap)) => {
            let message = "a task has a period or a gap, not both".to_owned();
            let help = "period: releases on a grid; gap: releases at least this far apart".to_owned();
            reading.wrong(gap.span, message, "second of the two", Some(help));
            Release::Unspecified
        }
        (Some(field), None) => match positive(reading, &field) {
            Some(period) => Release::Periodic {
                period,
                start: start.unwrap_or(Nanos::ZERO),
                jitter: jitter.unwrap_or(Nanos::ZERO),
            },
            None => Release::Unspecified,
        },
        (None, gap) => {
            for (key, given) in [("start", start.is_some()), ("jitter", jitter.is_some())] {
                if given && let Some(field) = table.field(reading, key) {
                    let message = format!("`{key}` needs a `period`");
                    reading.wrong(field.span, message, "without a period", None);
                }
            }
            let gap = gap.and_then(|field| positive(reading, &field));
            gap.map_or(Release::Unspecified, |gap| Release::Sporadic { gap })
        }
    }
}

fn work_of(reading: &mut Reading, field: &Field<'_>) -> Option<Work> {
    match field.value {
        DeValue::String(text) if text == "forever" => Some(Work::Forever),
        DeValue::Table(_) => {
            let table = field.table(reading)?;
            if let Some(file) = table.text(reading, "trace") {
                table.finish(reading);
                return Some(Work::Trace(file));
            }
            distribution_table(reading, table).map(Work::Drawn)
        }
        _ => distribution(reading, field).map(Work::Drawn),
    }
}

fn phase(reading: &mut Reading, item: &Field<'_>) -> Option<Phase> {
    reading.places.insert(item.path.clone(), item.span.clone());
    let table = item.table(reading)?;
    let run = table.field(reading, "run").and_then(|f| distribution(reading, &f)).map(Phase::Run);
    let sleep = table.quantity(reading, "sleep", "1ms").map(Phase::Sleep);
    let lock = table.text(reading, "lock").map(Phase::Lock);
    let unlock = table.text(reading, "unlock").map(Phase::Unlock);
    let wait = table.text(reading, "wait").map(Phase::Wait);
    let signal = table.text(reading, "signal").map(Phase::Signal);
    let span = table.span.clone();
    let before = reading.diagnostics.len();
    table.finish(reading);
    let mut steps = [run, sleep, lock, unlock, wait, signal].into_iter().flatten();
    match (steps.next(), steps.next()) {
        (Some(step), None) => Some(step),
        (None, _) if reading.diagnostics.len() > before => None,
        _ => {
            let message = "a phase is exactly one of run, sleep, lock, unlock, wait, signal".to_owned();
            reading.wrong(span, message, "here", Some("write `{ run = \"2ms\" }`".to_owned()));
            None
        }
    }
}

fn command_text(reading: &mut Reading, field: &Field<'_>) -> Option<String> {
    let text = field.text(reading, "a command line")?;
    if text.trim().is_empty() {
        reading.wrong(field.span.clone(), "the command is empty".to_owned(), "nothing to run", None);
        return None;
    }
    Some(text.to_owned())
}

/// What belongs to a command.
fn program(reading: &mut Reading, table: &Table<'_>, line: String) -> Program {
    let prepare = table.field(reading, "prepare").and_then(|field| command_text(reading, &field));
    let package = table.text(reading, "package");
    let worker = table.table(reading, "worker").and_then(|role| {
        let comm = role.required(reading, "comm", "\"ffmpeg\"");
        let comm = comm.and_then(|field| field.text(reading, "text").map(str::to_owned));
        let rank = rank_of(reading, &role);
        role.finish(reading);
        Some(ThreadRole { comm: comm?, rank })
    });
    Program { line, prepare, package, worker, rights: rights(reading, table) }
}

fn rank_of(reading: &mut Reading, table: &Table<'_>) -> u32 {
    table.integer(reading, "rank", 0..i64::from(u16::MAX) + 1).unwrap_or(0) as u32
}

fn thread_match(reading: &mut Reading, field: &Field<'_>) -> Option<ThreadMatch> {
    let table = field.table(reading)?;
    let comm = table.text(reading, "comm");
    let number =
        |reading: &mut Reading, key| table.integer(reading, key, 1..i64::from(i32::MAX)).map(|id| id as i32);
    let (pid, process) = (number(reading, "pid"), number(reading, "process"));
    let task = table.text(reading, "task");
    let has_rank = table.field(reading, "rank").is_some();
    let rank = rank_of(reading, &table);
    let span = table.span.clone();
    table.finish(reading);
    let mut wrong = |message: &str, help: &str| {
        reading.wrong(span.clone(), message.to_owned(), "here", Some(help.to_owned()));
        None
    };
    match (task, process, pid, comm) {
        (None, ..) if has_rank => wrong(
            "`rank` belongs to `task`",
            "write `match = { task = \"encoder\", comm = \"worker\", rank = 1 }`",
        ),
        (Some(task), None, None, Some(comm)) => {
            Some(ThreadMatch::Of { task, role: ThreadRole { comm, rank } })
        }
        (Some(_), ..) => wrong(
            "`task` needs `comm`, and goes with `rank` alone",
            "write `match = { task = \"encoder\", comm = \"worker\" }`",
        ),
        (None, Some(process), None, None) => Some(ThreadMatch::Process(process)),
        (None, Some(_), ..) => wrong("`process` stands alone", "write `match = { process = 1234 }`"),
        (None, None, Some(pid), _) => Some(ThreadMatch::Thread(pid)),
        (None, None, None, Some(comm)) => Some(ThreadMatch::Named(comm)),
        (None, None, None, None) => wrong("nothing to match by", "write `match = { comm = \"pipewire\" }`"),
    }
}

/// `policy`, `nice` and `slice` together.
fn policy(reading: &mut Reading, table: &Table<'_>) -> PolicySpec {
    let nice_field = table.field(reading, "nice");
    let nice = nice_field.as_ref().and_then(|f| f.integer(reading, -20..20)).map(|n| n as i32);
    let slice_field = table.field(reading, "slice");
    let slice: Option<Nanos> = slice_field.as_ref().and_then(|f| f.quantity(reading, "3ms"));
    if let (Some(field), Some(time)) = (&slice_field, slice)
        && !(Nanos::from_micros(100)..=Nanos::from_millis(100)).contains(&time)
    {
        let message =
            format!("slice {} is outside the kernel's range of 100us to 100ms", time.to_exact_string());
        reading.wrong(field.span.clone(), message, "out of range", None);
    }
    let given = PolicyParameters { nice: nice.unwrap_or(0), slice, priority: 0 };
    let fair = PolicySpec::Fair { nice: given.nice, slice };
    let Some(field) = table.field(reading, "policy") else { return fair };
    let Some(text) = field.text(reading, "a policy such as \"fifo:80\"") else { return fair };
    let (word, priority) = text.split_once(':').map_or((text, None), |(w, p)| (w, Some(p)));
    let priority = priority.map(|p| p.parse().ok().filter(|p| (1..=99).contains(p)).unwrap_or(0));
    let is_named = |row: &&PolicyRow| row.word == word && row.takes("priority") == priority.is_some();
    let Some(row) = POLICIES.iter().find(is_named).filter(|_| priority != Some(0)) else {
        reading.wrong(field.span, format!("`{text}` is no policy"), "not known", Some(known_policies()));
        return fair;
    };
    for (given, name) in [(nice_field, "nice"), (slice_field, "slice")] {
        if let Some(field) = given
            && !row.takes(name)
        {
            let message = format!("policy `{text}` takes no `{name}`");
            reading.wrong(field.span, message, "has no effect", None);
        }
    }
    row.with(PolicyParameters { priority: priority.unwrap_or(0), ..given })
}

/// Help that lists the words of all policies.
fn known_policies() -> String {
    let number = |row: &PolicyRow| if row.takes("priority") { ":N" } else { "" };
    let words = POLICIES.iter().map(|row| format!("{}{}", row.word, number(row)));
    let mut words: Vec<String> = words.collect();
    let last = words.pop().unwrap_or_default();
    format!("use {} or {last} with N from 1 to 99", words.join(", "))
}

fn instances(reading: &mut Reading, table: &Table<'_>, key: &'static str) -> Option<Instances> {
    let field = table.field(reading, key)?;
    match field.value {
        DeValue::String(text) => {
            let each = match text.strip_suffix("per-cpu").map(str::trim) {
                Some("") => Some(1),
                Some(number) => number.parse().ok().filter(|n: &u32| INSTANCES.contains(&i64::from(*n))),
                None => None,
            };
            if each.is_none() {
                let message = format!("`{text}` is no number of instances");
                let help =
                    format!("write 4, \"per-cpu\", or \"4 per-cpu\" with at most {}", INSTANCES.end - 1);
                reading.wrong(field.span, message, "here", Some(help));
            }
            each.map(Instances::PerCpu)
        }
        _ => field.integer(reading, INSTANCES).map(|n| Instances::Count(n as u32)),
    }
}

fn promises(reading: &mut Reading, table: &Table<'_>) -> Vec<Promise> {
    let Some(field) = table.field(reading, "promise") else { return Vec::new() };
    let mut list = Vec::new();
    for item in field.items() {
        reading.places.insert(item.path.clone(), item.span.clone());
        let Some(text) = item.text(reading, "a promise such as \"response <= 40ms @ 99%\"") else { continue };
        match Promise::parse(text) {
            Ok(promise) => list.push(promise),
            Err(error) => {
                let help = "a promise is METRIC OP VALUE [@ PERCENT] [over DURATION]".to_owned();
                reading.wrong(item.inside(error.span.clone()), error.message, "here", Some(help));
            }
        }
    }
    list
}

fn reservation(reading: &mut Reading, table: &Table<'_>) -> Option<Reservation> {
    let table = table.table(reading, "reservation")?;
    let runtime = table.required(reading, "runtime", "\"5ms\"").and_then(|f| f.quantity(reading, "5ms"));
    let period = table.required(reading, "period", "\"40ms\"").and_then(|f| f.quantity(reading, "40ms"));
    let deadline = table.quantity(reading, "deadline", "40ms");
    let reclaim = table.boolean(reading, "reclaim").unwrap_or(false);
    let demote = table.boolean(reading, "demote").unwrap_or(false);
    let span = table.span.clone();
    let path = table.path.clone();
    table.finish(reading);
    let (runtime, period) = (runtime?, period?);
    let reservation = Reservation { runtime, deadline: deadline.unwrap_or(period), period, reclaim, demote };
    if let Err(error) = reservation.check() {
        use crate::reservation::ReservationError::*;
        let key = match error {
            PeriodOutOfRange(_) => "period",
            DeadlineAbovePeriod { .. } => "deadline",
            _ => "runtime",
        };
        let span = reading.places.get(&format!("{path}.{key}")).cloned().unwrap_or(span);
        let help = "the kernel takes 1024ns <= runtime <= deadline <= period, 100us <= period <= 4194304us";
        reading.wrong(span, error.to_string(), "the kernel refuses this", Some(help.to_owned()));
        return None;
    }
    Some(reservation)
}

fn irq(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Irq> {
    let arrivals = table.required(reading, "arrivals", "{ kind = \"sporadic\", gap = \"95us\" }");
    let work = table.required(reading, "work", "\"9us\"");
    let irq = Irq {
        device: table.text(reading, "device"),
        hard: table.quantity(reading, "hard", "2us"),
        buffer: table.integer(reading, "buffer", ANY_COUNT).map(|n| n as u64),
        promises: promises(reading, table),
        reservation: reservation(reading, table),
        name,
        arrivals: arrivals.and_then(|f| arrivals_of(reading, &f))?,
        work: work.and_then(|f| distribution(reading, &f))?,
    };
    Some(irq)
}

fn arrivals_of(reading: &mut Reading, field: &Field<'_>) -> Option<Arrivals> {
    let table = field.table(reading)?;
    #[derive(Clone, Copy)]
    enum Kind {
        Periodic,
        Sporadic,
        Poisson,
        Closed,
    }
    let kinds = [
        ("periodic", Kind::Periodic),
        ("sporadic", Kind::Sporadic),
        ("poisson", Kind::Poisson),
        ("closed", Kind::Closed),
    ];
    table.required(reading, "kind", "\"sporadic\"")?;
    let kind = table.word(reading, "kind", &kinds)?;
    let positive = |reading: &mut Reading, key: &'static str| -> Option<Nanos> {
        let field = table.required(reading, key, "\"95us\"")?;
        let time: Nanos = field.quantity(reading, "95us")?;
        if !time.is_positive() {
            reading.wrong(field.span, format!("`{key}` is zero"), "longer than nothing", None);
            return None;
        }
        Some(time)
    };
    let arrivals = match kind {
        Kind::Periodic => positive(reading, "period").map(|period| Arrivals::Periodic { period }),
        Kind::Sporadic => positive(reading, "gap").map(|gap| Arrivals::Sporadic { gap }),
        Kind::Poisson => {
            let rate = table.required(reading, "rate", "\"5/s\"").and_then(|f| f.quantity(reading, "5/s"));
            rate.map(|rate| Arrivals::Poisson { rate })
        }
        Kind::Closed => {
            let outstanding =
                table.required(reading, "outstanding", "8").and_then(|f| f.integer(reading, COUNT_32));
            let service = positive(reading, "service");
            outstanding.zip(service).map(|(n, service)| Arrivals::Closed { outstanding: n as u32, service })
        }
    };
    table.finish(reading);
    arrivals
}

fn disk(reading: &mut Reading, table: Table<'_>, name: &str) -> Disk {
    let disk = Disk {
        name: name.to_owned(),
        make: table.quantity(reading, "make", "1GiB"),
        model: table.text(reading, "model"),
        scheduler: table.text(reading, "scheduler"),
    };
    table.finish(reading);
    disk
}

fn stream(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Stream> {
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
        direction,
        access: access.and_then(|f| f.quantity(reading, "64KiB")),
        jitter: table.quantity(reading, "jitter", "10ms"),
        buffer: table.quantity(reading, "buffer", "256KiB"),
        batch: table.quantity(reading, "batch", "160KiB"),
        promises: promises(reading, table),
        name,
        file: file.and_then(|f| stream_file(reading, &f))?,
        rate: rate.and_then(|f| f.quantity(reading, "1MB/s"))?,
    };
    Some(stream)
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

fn startup(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Startup> {
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
        promises: promises(reading, table),
        name,
        body: body?,
    };
    Some(startup)
}

fn load(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Load> {
    let has_kind = table.required(reading, "kind", "\"spinners\"").is_some();
    let kind = if has_kind { table.word(reading, "kind", &LoadKind::words()) } else { None };
    let command = table.field(reading, "command");
    if let Some(kind) = kind {
        match (&command, kind.row().is_program) {
            (None, true) => {
                let help = Some("write `command = \"...\"`".to_owned());
                reading.wrong(table.span.clone(), "`command` is missing".to_owned(), "in this load", help);
            }
            (Some(field), false) => {
                let message = format!("a load of kind `{}` takes no `command`", kind.word());
                reading.wrong(field.span.clone(), message, "has no effect", None);
            }
            _ => {}
        }
    }
    let load = Load {
        rights: rights_of_command(reading, table, kind.is_some_and(|kind| kind.row().is_program), "load"),
        count: instances(reading, table, "count").unwrap_or(Instances::Count(1)),
        policy: policy(reading, table),
        group: table.text(reading, "group"),
        size: table.quantity(reading, "size", "64MiB"),
        block: table.quantity(reading, "block", "64KiB"),
        rate: table.quantity(reading, "rate", "10MB/s"),
        disk: table.text(reading, "disk"),
        direct: table.boolean(reading, "direct").unwrap_or(false),
        random: table.boolean(reading, "random").unwrap_or(false),
        period: table.quantity(reading, "period", "1ms"),
        once: table.boolean(reading, "once").unwrap_or(false),
        command: command.and_then(|f| command_text(reading, &f)),
        promises: promises(reading, table),
        name,
        kind: kind?,
    };
    Some(load)
}

fn group(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Group> {
    let weight = table.integer(reading, "weight", 1..10_001).unwrap_or(100) as u32;
    Some(Group { name, weight, parent: table.text(reading, "parent") })
}

fn chain(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Chain> {
    let start = table.required(reading, "start", "{ kind = \"poisson\", rate = \"5/s\" }");
    let through = table.required(reading, "through", "[\"task-a\", \"task-b\"]");
    let mut tasks = Vec::new();
    for item in through.iter().flat_map(Field::items) {
        reading.places.insert(item.path.clone(), item.span.clone());
        tasks.extend(item.text(reading, "a task's name").map(str::to_owned));
    }
    let promises = promises(reading, table);
    Some(Chain { name, start: start.and_then(|f| arrivals_of(reading, &f))?, through: tasks, promises })
}

fn resource(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Resource> {
    let protocols = [("none", LockProtocol::None), ("inherit", LockProtocol::Inherit)];
    Some(Resource { name, protocol: table.word(reading, "protocol", &protocols).unwrap_or_default() })
}

fn vary(reading: &mut Reading, table: Table<'_>) -> Vary {
    let mut vary = Vary::default();
    for (key, span, field) in table.entries() {
        reading.places.insert(format!("vary.{key}"), span);
        if key == "rows" {
            for row in field.items() {
                let Some(row) = row.table(reading) else { continue };
                let pairs: Vec<(String, Field<'_>)> =
                    row.entries().map(|(k, _, f)| (k.to_owned(), f)).collect();
                let values = pairs.into_iter().filter_map(|(k, f)| Some((k, vary_value(reading, &f)?)));
                let row = values.collect();
                vary.rows.push(row);
            }
            continue;
        }
        let values: Vec<VaryValue> = field.items().iter().filter_map(|f| vary_value(reading, f)).collect();
        if values.is_empty() {
            reading.wrong(field.span, format!("`{key}` has no values to try"), "empty", None);
        }
        vary.product.insert(key.to_owned(), values);
    }
    vary
}

fn vary_value(reading: &mut Reading, field: &Field<'_>) -> Option<VaryValue> {
    match field.value {
        DeValue::String(text) => Some(VaryValue::Text(text.to_string())),
        DeValue::Boolean(yes) => Some(VaryValue::Boolean(*yes)),
        DeValue::Integer(_) => field.integer(reading, i64::MIN..i64::MAX).map(VaryValue::Integer),
        _ => {
            field.wrong_type(reading, "text, a whole number, true or false");
            None
        }
    }
}
