//! From a parsed TOML document to a [`Workload`].

use std::ops::Range;

use surety_units::Nanos;
use toml::de::{DeTable, DeValue};

use super::FORMAT;
use super::disks::{disk, io_priority, startup, stream};
use super::keys::{command_text, cpus, instances, policy, promises, reservation, timer_slack, util};
use super::links::{flow, link};
use super::phases;
use super::rights::{KEEP, rights, rights_of_command};
use super::table::{Field, Reading, Table};
use super::times::{ANY_COUNT, arrivals_of, distribution, distribution_table};
use crate::distribution::TimeDistribution;
use crate::reservation::Reservation;
use crate::workload::*;

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
    let mut workload = Workload {
        title: root.text(reading, "title"),
        duration: duration(reading, &root),
        ..Workload::default()
    };
    workload.tasks = named(reading, &root, "task", task);
    workload.irqs = named(reading, &root, "irq", irq);
    workload.streams = named(reading, &root, "stream", stream);
    workload.startups = named(reading, &root, "startup", startup);
    workload.flows = named(reading, &root, "flow", flow);
    workload.loads = named(reading, &root, "load", load);
    workload.groups = named(reading, &root, "group", group);
    workload.chains = named(reading, &root, "chain", chain);
    workload.resources = named(reading, &root, "resource", resource);
    workload.events = named(reading, &root, "event", event);
    if let Some(disks) = root.table(reading, "disk") {
        for (name, span, field) in disks.entries() {
            reading.places.insert(field.path.clone(), span);
            if let Some(table) = field.table(reading) {
                workload.disks.push(disk(reading, table, name));
            }
        }
    }
    if let Some(links) = root.table(reading, "link") {
        for (name, span, field) in links.entries() {
            reading.places.insert(field.path.clone(), span);
            if let Some(table) = field.table(reading) {
                workload.links.extend(link(reading, table, name));
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
    let steps = table.field(reading, "phases");
    let command = table.field(reading, "command");
    let matched = table.field(reading, "match");
    let given: Vec<&Field<'_>> = [&work, &steps, &command, &matched].into_iter().flatten().collect();
    if given.len() != 1 {
        let span = given.get(1).map_or(table.span.clone(), |f| f.span.clone());
        let message = format!("task `{name}` needs exactly one of work, phases, command, match");
        let help =
            "write `work = \"5ms\"` for a synthetic task, `command = \"...\"` for a program".to_owned();
        reading.wrong(span, message, "here", Some(help));
    }
    let body = if let Some(field) = work {
        work_of(reading, &field).map(TaskBody::Synthetic)
    } else if let Some(field) = steps {
        Some(TaskBody::Phases(phases::phases(reading, &field)))
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
    let policy = policy(reading, table);
    let task = Task {
        timer_slack: timer_slack(reading, table),
        policy,
        group: table.text(reading, "group"),
        instances: instances(reading, table, "instances").unwrap_or(Instances::Count(1)),
        cpus: cpus(reading, table),
        jobs: table.integer(reading, "jobs", ANY_COUNT).map(|n| n as u64),
        util: util(reading, table),
        together: table.boolean(reading, "together").unwrap_or(false),
        promises: promises(reading, table),
        reservation: reservation(reading, table, policy),
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

/// `duration`, which is longer than nothing.
fn duration(reading: &mut Reading, root: &Table<'_>) -> Option<Nanos> {
    let field = root.field(reading, "duration")?;
    let duration: Nanos = field.quantity(reading, "10s")?;
    if !duration.is_positive() {
        reading.wrong(field.span, "`duration` is zero".to_owned(), "longer than nothing", None);
        return None;
    }
    Some(duration)
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
    let back_to_back = table.field(reading, "release");
    let is_back_to_back = table.word(reading, "release", &[("back-to-back", ())]).is_some();
    if let Some(other) = back_to_back.as_ref().and(period.as_ref().or(gap.as_ref())) {
        let message = "jobs back to back have no period and no gap".to_owned();
        reading.wrong(other.span.clone(), message, "beside `release`", None);
        return Release::Unspecified;
    }
    if is_back_to_back {
        if let Some(field) = table.field(reading, "jitter") {
            reading.wrong(field.span, "`jitter` needs a `period`".to_owned(), "without a period", None);
        }
        return Release::BackToBack { start: start.unwrap_or(Nanos::ZERO) };
    }
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

fn irq(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Irq> {
    let arrivals = table.required(reading, "arrivals", "{ kind = \"sporadic\", gap = \"95us\" }");
    let work = table.required(reading, "work", "\"9us\"");
    let irq = Irq {
        device: table.text(reading, "device"),
        hard: table.quantity(reading, "hard", "2us"),
        buffer: table.integer(reading, "buffer", ANY_COUNT).map(|n| n as u64),
        promises: promises(reading, table),
        reservation: reservation(reading, table, PolicySpec::Deadline),
        name,
        arrivals: arrivals.and_then(|f| arrivals_of(reading, &f))?,
        work: work.and_then(|f| distribution(reading, &f))?,
    };
    Some(irq)
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
        io_priority: io_priority(reading, table),
        period: table.quantity(reading, "period", "1ms"),
        message_cost: table.quantity(reading, "message-cost", "1.6us"),
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
    let io_weight = table.integer(reading, "io-weight", 1..1001).map(|weight| weight as u32);
    let quota = quota(reading, table);
    let idle = table.boolean(reading, "idle").unwrap_or(false);
    let (cpus, reservation) = (cpus(reading, table), reservation_of_group(reading, table));
    let parent = table.text(reading, "parent");
    Some(Group { name, weight, io_weight, quota, idle, cpus, reservation, parent })
}

/// A reservation whose deadline is its period and that nothing is added to.
fn reservation_of_group(reading: &mut Reading, table: &Table<'_>) -> Option<Reservation> {
    let found = reservation(reading, table, PolicySpec::Deadline)?;
    let plain = Reservation::implicit(found.runtime, found.period);
    for (key, differs) in
        [("deadline", found.deadline != plain.deadline), ("reclaim", found.reclaim), ("demote", found.demote)]
    {
        if differs {
            let place = reading.places.get(&format!("{}.reservation.{key}", table.path)).cloned();
            let message = format!("a group's reservation has no `{key}`");
            let help = "give it a runtime and a period".to_owned();
            reading.wrong(place.unwrap_or(table.span.clone()), message, "leave it out", Some(help));
        }
    }
    Some(plain)
}

/// `quota`, `quota-period` and `burst` of a group, as the kernel takes them.
fn quota(reading: &mut Reading, table: &Table<'_>) -> Option<Quota> {
    let mut times = [("quota", "20ms"), ("quota-period", "100ms"), ("burst", "5ms")].map(|(key, example)| {
        let field = table.field(reading, key)?;
        Some((field.quantity(reading, example)?, field))
    });
    let [runtime, period, burst] = times.each_mut().map(|time: &mut Option<(Nanos, Field<'_>)>| time.take());
    let Some((runtime, at)) = runtime else {
        for (_, field) in [period, burst].into_iter().flatten() {
            let help = "give the group a `quota`, the CPU time it gets in each period".to_owned();
            reading.wrong(field.span, "there is no quota".to_owned(), "of no use", Some(help));
        }
        return None;
    };
    let (shortest, longest) = Quota::PERIODS;
    let found = Quota {
        runtime,
        period: period.as_ref().map_or(Quota::PERIOD, |(period, _)| *period),
        burst: burst.as_ref().map_or(Nanos::ZERO, |(burst, _)| *burst),
    };
    if runtime < Quota::LEAST {
        let message = format!("a quota of {runtime} is below the kernel's least, {}", Quota::LEAST);
        reading.wrong(at.span, message, "too short", None);
    }
    if let Some((_, field)) = period.filter(|(period, _)| *period < shortest || *period > longest) {
        let message = format!("the kernel fills quotas every {shortest} to {longest}");
        reading.wrong(field.span, message, "outside", None);
    }
    if let Some((_, field)) = burst.filter(|(burst, _)| *burst > runtime) {
        let message = format!("a group saves no more than its quota of {runtime}");
        reading.wrong(field.span, message, "too long", None);
    }
    Some(found)
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

fn event(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<RaisedEvent> {
    let field = table.required(reading, "raised", "1")?;
    let times = field.integer(reading, 1..i64::from(RaisedEvent::MAX) + 1)?;
    Some(RaisedEvent { name, times: u32::try_from(times).expect("within its limits") })
}

fn vary(reading: &mut Reading, table: Table<'_>) -> Vary {
    let mut vary = Vary::default();
    for (key, span, field) in table.entries() {
        reading.places.insert(format!("vary.{key}"), span);
        if key == "rows" {
            for row in field.items() {
                let Some(row) = row.table(reading) else { continue };
                let pairs: Vec<(String, Range<usize>, Field<'_>)> =
                    row.entries().map(|(k, span, f)| (k.to_owned(), span, f)).collect();
                let values = pairs.into_iter().filter_map(|(k, span, f)| {
                    reading.places.entry(format!("vary.{k}")).or_insert(span);
                    Some((k.clone(), vary_value(reading, &k, &f)?))
                });
                let row = values.collect();
                vary.rows.push(row);
            }
            continue;
        }
        let values: Vec<VaryValue> =
            field.items().iter().filter_map(|f| vary_value(reading, key, f)).collect();
        if values.is_empty() {
            reading.wrong(field.span, format!("`{key}` has no values to try"), "empty", None);
        }
        vary.product.insert(key.to_owned(), values);
    }
    vary
}

/// A value that a path is set to; where it stands is noted.
fn vary_value(reading: &mut Reading, path: &str, field: &Field<'_>) -> Option<VaryValue> {
    let value = match field.value {
        DeValue::String(text) => Some(VaryValue::Text(text.to_string())),
        DeValue::Boolean(yes) => Some(VaryValue::Boolean(*yes)),
        DeValue::Integer(_) => field.integer(reading, i64::MIN..i64::MAX).map(VaryValue::Integer),
        _ => {
            field.wrong_type(reading, "text, a whole number, true or false");
            None
        }
    }?;
    reading.places.entry(value.place(path)).or_insert(field.span.clone());
    Some(value)
}
