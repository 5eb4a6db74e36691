//! The steps of a job in a file: one table for each, with the one key that says what it is and what belongs to that.

use surety_units::Bytes;

use super::keys::{self, policy, reservation};
use super::table::{Field, Reading, Table};
use super::times::{ANY_COUNT, distribution};
use crate::workload::{Fill, Phase, Schedule, Timer};

/// Keys that say what a step is.
const KINDS: [&str; 22] = [
    "run",
    "busy",
    "sleep",
    "memory",
    "write",
    "timer",
    "lock",
    "unlock",
    "wait",
    "signal",
    "await",
    "notify",
    "notify-all",
    "barrier",
    "yield",
    "cpus",
    "policy",
    "util-min",
    "util-max",
    "group",
    "loop",
    "phases",
];
/// In place of the name of a group: in that of the run.
pub(super) const ROOT: &str = "/";
/// Loops inside each other, at most.
const DEPTH_MAX: usize = 16;

/// The steps of a task.
pub(super) fn phases(reading: &mut Reading, field: &Field<'_>) -> Vec<Phase> {
    inside(reading, field, 0)
}

fn inside(reading: &mut Reading, field: &Field<'_>, depth: usize) -> Vec<Phase> {
    if depth > DEPTH_MAX {
        let message = format!("loops are at most {DEPTH_MAX} deep");
        reading.wrong(field.span.clone(), message, "too deep", None);
        return Vec::new();
    }
    field.items().iter().filter_map(|item| phase(reading, item, depth)).collect()
}

fn phase(reading: &mut Reading, item: &Field<'_>, depth: usize) -> Option<Phase> {
    reading.places.insert(item.path.clone(), item.span.clone());
    let table = item.table(reading)?;
    let span = table.span.clone();
    let before = reading.diagnostics.len();
    let steps = steps(reading, &table, depth);
    table.finish(reading);
    let mut steps = steps.into_iter();
    match (steps.next(), steps.next()) {
        (Some(step), None) => Some(step),
        (None, _) if reading.diagnostics.len() > before => None,
        _ => {
            let kinds = KINDS.iter().filter(|kind| **kind != "phases").copied().collect::<Vec<_>>();
            let message = format!("a phase is exactly one of {}", kinds.join(", "));
            reading.wrong(span, message, "here", Some("write `{ run = \"2ms\" }`".to_owned()));
            None
        }
    }
}

/// What a table says it is; of a whole one exactly one.
fn steps(reading: &mut Reading, table: &Table<'_>, depth: usize) -> Vec<Phase> {
    let run = table.field(reading, "run").and_then(|field| distribution(reading, &field)).map(Phase::Run);
    let busy = table.quantity(reading, "busy", "1ms").map(Phase::Busy);
    let sleep = table.quantity(reading, "sleep", "1ms").map(Phase::Sleep);
    let fill = fill(reading, table).map(Phase::Fill);
    let timer = timer(reading, table).map(Phase::Timer);
    let lock_key = table.text(reading, "lock");
    let waits = table.text(reading, "await");
    let (lock, waits) = match (waits, lock_key) {
        (Some(condition), Some(lock)) => (None, Some(Phase::Await { condition, lock })),
        (Some(_), None) => {
            let help = "write `{ await = \"ready\", lock = \"m\" }`".to_owned();
            let message = "`await` needs the `lock` that it gives back meanwhile".to_owned();
            reading.wrong(table.span.clone(), message, "without a lock", Some(help));
            (None, None)
        }
        (None, lock) => (lock.map(Phase::Lock), None),
    };
    let unlock = table.text(reading, "unlock").map(Phase::Unlock);
    let wait = table.text(reading, "wait").map(Phase::Wait);
    let signal = table.text(reading, "signal").map(Phase::Signal);
    let notify = table.text(reading, "notify").map(Phase::Notify);
    let notify_all = table.text(reading, "notify-all").map(Phase::NotifyAll);
    let barrier = table.text(reading, "barrier").map(Phase::Barrier);
    let yields = table.field(reading, "yield").and_then(|field| {
        let yields = table.boolean(reading, "yield")?;
        if !yields {
            reading.wrong(field.span, "`yield` is true".to_owned(), "here", None);
        }
        yields.then_some(Phase::Yield)
    });
    let (cpus, becomes) = (cpus(reading, table), becomes(reading, table));
    let clamp = keys::util(reading, table);
    let clamp = clamp.is_given().then_some(Phase::Clamp(clamp));
    let group = table.text(reading, "group").map(|name| Phase::Group((name != ROOT).then_some(name)));
    let again = again(reading, table, depth);
    let all = [
        run, busy, sleep, fill, timer, lock, unlock, wait, signal, waits, notify, notify_all, barrier,
        yields, cpus, becomes, clamp, group, again,
    ];
    all.into_iter().flatten().collect()
}

/// `memory` or `write` with its buffer, file and time.
fn fill(reading: &mut Reading, table: &Table<'_>) -> Option<Fill> {
    let memory: Option<Bytes> = table.quantity(reading, "memory", "5MB");
    let write: Option<Bytes> = table.quantity(reading, "write", "64KiB");
    let Some(bytes) = memory.or(write) else {
        for key in ["file", "buffer", "takes"] {
            if let Some(field) = table.field(reading, key) {
                let message = format!("`{key}` belongs to `memory` or `write`");
                reading.wrong(field.span, message, "without either", None);
            }
        }
        return None;
    };
    if memory.is_some() && write.is_some() {
        let message = "a step writes into memory or into a file".to_owned();
        reading.wrong(table.span.clone(), message, "both", Some("make two steps of it".to_owned()));
    }
    let file = match write {
        Some(_) => table.required(reading, "file", "\"/dev/null\"").and(table.text(reading, "file")),
        None => None,
    };
    let buffer = table.quantity(reading, "buffer", "4MiB").unwrap_or(Fill::BUFFER);
    if !(Bytes(1)..=Fill::BUFFER_MAX).contains(&buffer) {
        reading.wrong(table.span.clone(), "`buffer` is 1B to 1GiB".to_owned(), "here", None);
    }
    Some(Fill { bytes, buffer, file, takes: table.quantity(reading, "takes", "1ms") })
}

/// `cpus`: a list, or all of the run.
fn cpus(reading: &mut Reading, table: &Table<'_>) -> Option<Phase> {
    let field = table.field(reading, "cpus")?;
    if field.text(reading, "CPUs such as \"0,2-3\", or \"all\"")? == "all" {
        return Some(Phase::Cpus(None));
    }
    keys::cpus(reading, table).map(|cpus| Phase::Cpus(Some(cpus)))
}

/// `policy` with what belongs to it.
fn becomes(reading: &mut Reading, table: &Table<'_>) -> Option<Phase> {
    table.field(reading, "policy")?;
    let policy = policy(reading, table);
    let reservation = reservation(reading, table, policy);
    Some(Phase::Become(Schedule { policy, reservation }))
}

/// `timer` with its period and mode.
fn timer(reading: &mut Reading, table: &Table<'_>) -> Option<Timer> {
    let Some(name) = table.text(reading, "timer") else {
        for key in ["period", "mode", "shared"] {
            if let Some(field) = table.field(reading, key) {
                reading.wrong(field.span, format!("`{key}` belongs to a `timer`"), "without a timer", None);
            }
        }
        return None;
    };
    let period = table.required(reading, "period", "\"10ms\"")?.quantity(reading, "10ms");
    let absolute = table.word(reading, "mode", &[("relative", false), ("absolute", true)]);
    let shared = table.boolean(reading, "shared").unwrap_or(false);
    Some(Timer { name, period: period?, absolute: absolute.unwrap_or(false), shared })
}

/// `loop` with its phases.
fn again(reading: &mut Reading, table: &Table<'_>, depth: usize) -> Option<Phase> {
    let Some(field) = table.field(reading, "loop") else {
        if let Some(field) = table.field(reading, "phases") {
            let help = "write `{ loop = 4, phases = [...] }`".to_owned();
            reading.wrong(field.span, "`phases` needs a `loop`".to_owned(), "here", Some(help));
        }
        return None;
    };
    let times = match field.value {
        toml::de::DeValue::String(word) if word == "forever" => None,
        toml::de::DeValue::String(word) => {
            let message = format!("`{word}` is no number of times");
            reading.wrong(field.span, message, "here", Some("write 4 or \"forever\"".to_owned()));
            return None;
        }
        _ => Some(field.integer(reading, ANY_COUNT)?.unsigned_abs()),
    };
    let inner = table.required(reading, "phases", "[{ run = \"2ms\" }]")?;
    Some(Phase::Loop { times, phases: inside(reading, &inner, depth + 1) })
}

#[cfg(test)]
mod tests {
    use super::super::{read, write};
    use crate::workload::{Phase, Release, TaskBody, Timer};
    use surety_units::Nanos;

    fn of(keys: &str) -> String {
        format!(
            "format = 1\n[[task]]\nname = \"t\"\n{keys}\n[[resource]]\nname = \"m\"\n[[group]]\nname = \"g\"\n"
        )
    }

    #[test]
    fn every_step_reads_and_writes_back() {
        let text = of("release = \"back-to-back\"\nstart = \"5ms\"\ncpus = \"0,2-3\"\nphases = [
            { busy = \"2ms\" }, { timer = \"a\", period = \"9ms\" }, { timer = \"a\", period = \"9ms\", mode = \"absolute\" },
            { lock = \"m\" }, { await = \"c\", lock = \"m\" }, { unlock = \"m\" }, { notify = \"c\" }, { notify-all = \"c\" },
            { barrier = \"b\" }, { yield = true }, { cpus = \"1\" }, { cpus = \"all\" }, { policy = \"fair\", nice = 3, slice = \"2ms\" },
            { memory = \"5MB\" }, { write = \"9kB\", file = \"/dev/null\", buffer = \"1KiB\", takes = \"3us\" }, { policy = \"fifo:7\" }, { util-min = 0, util-max = 300 }, { util-max = 1024 }, { group = \"g\" }, { group = \"/\" }, { timer = \"s\", period = \"9ms\", shared = true }, { loop = 4, phases = [{ run = \"1ms\" }, { loop = \"forever\", phases = { run = \"2ms\" } }] },
        ]");
        let workload = read("t", &text).unwrap_or_else(|error| panic!("{error}"));
        let task = &workload.tasks[0];
        assert_eq!(task.release, Release::BackToBack { start: Nanos::from_millis(5) });
        assert_eq!(task.cpus.map(|cpus| cpus.to_string()).as_deref(), Some("0,2-3"));
        let TaskBody::Phases(phases) = &task.body else { panic!("no phases") };
        let absolute = |phase: &Phase| matches!(phase, Phase::Timer(Timer { absolute: true, .. }));
        assert_eq!((phases.len(), phases.iter().position(absolute)), (22, Some(2)));
        let Phase::Loop { times: Some(4), phases } = &phases[21] else { panic!("{phases:?}") };
        assert!(matches!(&phases[1], Phase::Loop { times: None, phases } if phases.len() == 1));
        let written = write(&workload);
        assert_eq!(read("w", &written).unwrap_or_else(|error| panic!("{error}\n{written}")), workload);
    }

    #[test]
    fn a_group_that_is_not_there_is_told_once() {
        let text =
            of("phases = [{ run = \"1ms\" }, { loop = 2, phases = [{ group = \"h\" }, { util-max = 9 }] }]");
        let told = read("t", &text).unwrap_err().to_string();
        assert_eq!(told.matches("there is no group `h`").count(), 1, "{told}");
    }

    #[test]
    fn steps_that_cannot_be_are_told_at_their_place() {
        for (keys, expected) in [
            ("phases = [{ loop = 0, phases = [{ run = \"1ms\" }] }]", "t:4:20: `loop` is 1 or more"),
            ("phases = [{ util-min = 1025 }]", "t:4:24: `util-min` is"),
            ("phases = [{ util-min = 9, util-max = 8 }]", "t:4:24: `util-min` is more than `util-max`"),
            (
                "util-max = 8\nphases = [{ run = \"1ms\" }, { util-min = 9 }]",
                "t:5:28: `util-min` is more than `util-max` from here on",
            ),
            (
                "phases = [{ util-max = 8 }, { run = \"1ms\" }, { util-min = 9, util-max = 10 }]",
                "t:4:11: `util-min` is more than `util-max` from here on",
            ),
            (
                "policy = \"fifo:3\"\nphases = [{ run = \"1ms\" }, { util-max = 9 }]",
                "t:5:28: `util-min` (1024 of FIFO and RR) is more than `util-max`",
            ),
            ("phases = [{ run = \"1ms\" }, { group = \"h\" }]", "t:4:28: there is no group `h`"),
            (
                "period = \"9ms\"\ntogether = true\nphases = [{ run = \"1ms\" }]",
                "only threads whose jobs come back to back begin together",
            ),
            ("phases = [{ loop = 2 }]", "`phases` is missing"),
            ("phases = [{ loop = \"ever\", phases = [] }]", "t:4:20: `ever` is no number of times"),
            ("phases = [{ phases = [{ run = \"1ms\" }] }]", "t:4:22: `phases` needs a `loop`"),
            ("phases = [{ run = \"1ms\", period = \"1ms\" }]", "`period` belongs to a `timer`"),
            ("phases = [{ timer = \"a\" }]", "`period` is missing"),
            ("phases = [{ await = \"c\" }]", "`await` needs the `lock`"),
            (
                "phases = [{ notify = \"c\" }, { await = \"c\", lock = \"m\" }]",
                "t:4:29: `m` is given back by `await` but not held",
            ),
            (
                "phases = [{ lock = \"m\" }, { await = \"c\", lock = \"m\" }, { unlock = \"m\" }]",
                "t:4:27: no task notifies of the condition `c`",
            ),
            ("phases = [{ yield = false }]", "`yield` is true"),
            ("phases = [{ write = \"9B\" }]", "`file` is missing"),
            ("phases = [{ memory = \"9B\", write = \"9B\", file = \"f\" }]", "into memory or into a file"),
            ("phases = [{ memory = \"9B\", file = \"f\" }]", "unknown key `file`"),
            ("phases = [{ memory = \"9B\", buffer = \"0B\" }]", "`buffer` is 1B to 1GiB"),
            ("phases = [{ run = \"1ms\", takes = \"1ms\" }]", "`takes` belongs to `memory` or `write`"),
            (
                "release = \"back-to-back\"\nphases = [{ memory = \"0B\" }]",
                "come back to back and take no time",
            ),
            ("phases = [{ run = \"1ms\", nice = 3 }]", "unknown key `nice`"),
            ("phases = [{ policy = \"deadline\" }]", "t:4:11: policy `deadline` needs a reservation"),
            ("phases = [{ policy = \"high\" }]", "a step has a policy that kernels have"),
            (
                "phases = [{ policy = \"fifo:3\", reservation = { runtime = \"1ms\", period = \"9ms\" } }]",
                "a reservation needs the policy `deadline`",
            ),
            (
                "phases = [{ policy = \"deadline\", reservation = { runtime = \"1ms\", period = \"9ms\", demote = true } }]",
                "t:4:11: the reservation of a step has no `demote`",
            ),
            (
                "reservation = { runtime = \"1ms\", period = \"9ms\", demote = true }\nphases = [{ policy = \"other\" }]",
                "`demote` beside steps that change the policy is not played",
            ),
            ("phases = [{ run = \"1ms\", shared = true }]", "`shared` belongs to a `timer`"),
            (
                "phases = [{ loop = 3, phases = [{ lock = \"m\" }] }, { unlock = \"m\" }]",
                "ends with other locks than it begins with",
            ),
            (
                "phases = [{ loop = \"forever\", phases = [{ yield = true }] }]",
                "t:4:11: the loop takes no time",
            ),
            ("release = \"back-to-back\"\nphases = [{ yield = true }]", "come back to back and take no time"),
            (
                "release = \"back-to-back\"\nperiod = \"1ms\"\nwork = \"1ms\"",
                "t:5:10: jobs back to back have no period",
            ),
            ("release = \"back-to-back\"\njitter = \"1ms\"\nwork = \"1ms\"", "`jitter` needs a `period`"),
            ("cpus = \"\"\nwork = \"1ms\"", "t:4:8: `cpus` is no CPU at all"),
            (
                "cpus = \"0\"\nreservation = { runtime = \"1ms\", period = \"9ms\" }\nwork = \"1ms\"",
                "refuses SCHED_DEADLINE",
            ),
        ] {
            let told = read("t", &of(keys)).expect_err(keys).to_string();
            assert!(told.contains(expected), "{keys}\n{told}");
        }
        let deep = (0..20)
            .fold("{ run = \"1ms\" }".to_owned(), |inner, _| format!("{{ loop = 2, phases = [{inner}] }}"));
        assert!(
            read("t", &of(&format!("phases = [{deep}]")))
                .unwrap_err()
                .to_string()
                .contains("at most 16 deep")
        );
        assert!(
            read("t", "format = 1\nduration = \"0s\"")
                .unwrap_err()
                .to_string()
                .contains("`duration` is zero")
        );
    }
}
