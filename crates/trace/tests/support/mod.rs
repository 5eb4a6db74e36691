//! What the integration tests, the benchmark and the fuzz target share: this kernel's formats, and the kernel's own text
//! of a trace as something to compare with.
#![allow(dead_code, clippy::unwrap_used)]

pub mod events;
pub mod perfdata;
pub mod synthetic;
pub mod tracedat;
pub mod tracedat_v7;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use surety_model::event::{Event, EventKind, LeaveState, TimerFunction};
use surety_trace::format::parse_header_page;
use surety_trace::symbols::timer_function;
use surety_trace::{Endian, EventTable, PageLayout, RawPages, Symbols};
use surety_units::CpuId;

/// The directory of the recorded fixtures.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// `(system:event, text)` of every format file below `dir`.
pub fn formats(dir: &Path) -> Vec<(String, String)> {
    let mut formats = Vec::new();
    for system in read_dir(dir).into_iter().filter(|p| p.is_dir()) {
        for file in read_dir(&system) {
            let name = |p: &Path| p.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&file).unwrap();
            formats.push((format!("{}:{}", name(&system), name(&file)), text));
        }
    }
    formats
}

fn read_dir(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}

/// A table of the formats below `dir`.
pub fn table(dir: &Path, kallsyms: &str) -> EventTable {
    let formats = formats(dir);
    let pairs = formats.iter().map(|(n, t)| (n.as_str(), t.as_str()));
    EventTable::new(Endian::Little, pairs, Symbols::parse(kallsyms)).unwrap()
}

/// The page layout in `dir/header_page.txt`.
pub fn layout(dir: &Path) -> PageLayout {
    parse_header_page(&std::fs::read_to_string(dir.join("header_page.txt")).unwrap()).unwrap()
}

/// A reader of `cpu0.raw`, `cpu1.raw`, ... in `dir`.
pub fn pages(dir: &Path, formats: &Path, kallsyms: &str) -> RawPages<Vec<u8>> {
    let sources =
        (0..).map(CpuId).map_while(|cpu| Some((cpu, std::fs::read(dir.join(format!("cpu{cpu}.raw"))).ok()?)));
    RawPages::new(table(formats, kallsyms), layout(formats), sources)
}

/// The most memory this process ever had, in KiB, where the system tells.
pub fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// One event as both sides can say it: CPU, microseconds, current thread, and what happened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// Microseconds, rounded as the kernel prints them.
    pub micros: i64,
    /// The CPU.
    pub cpu: u32,
    /// The current thread.
    pub current: i32,
    /// The event and those of its arguments that an [`Event`] keeps, in the kernel's words.
    pub what: String,
    /// A timer's address; the kernel's text has a hash of it, so only equality can be compared.
    pub timer: Option<String>,
}

/// The kernel's text, line by line, without what an [`Event`] does not keep. Its own comments are skipped.
pub fn parse_text(text: &str) -> Vec<Line> {
    text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()).map(parse_line).collect()
}

fn parse_line(line: &str) -> Line {
    // "  comm-PID   [CPU] flags  SECONDS.MICROS: event: arguments"
    let at = line.find(" [").unwrap_or_else(|| panic!("no CPU in {line:?}"));
    let (task, rest) = line.split_at(at);
    let current = task.trim().rsplit('-').next().unwrap().parse().unwrap();
    let (cpu, rest) = rest[2..].split_once(']').unwrap();
    let (stamp, rest) = rest.split_once(": ").unwrap();
    let (seconds, fraction) = stamp.split_whitespace().last().unwrap().split_once('.').unwrap();
    let micros = seconds.parse::<i64>().unwrap() * 1_000_000 + fraction.parse::<i64>().unwrap();
    let (event, arguments) = rest.split_once(": ").unwrap_or((rest.trim_end_matches(':'), ""));
    let (what, timer) = normal_form(event, arguments.trim_end());
    Line { micros, cpu: cpu.parse().unwrap(), current, what, timer }
}

/// The value of `key=` in arguments; it ends at the next ` word=` or at the end.
fn value<'a>(arguments: &'a str, key: &str, next: &str) -> &'a str {
    let start =
        arguments.find(&format!("{key}=")).unwrap_or_else(|| panic!("{key} in {arguments}")) + key.len() + 1;
    let rest = &arguments[start..];
    if next.is_empty() { rest } else { &rest[..rest.find(next).unwrap_or(rest.len())] }
}

fn normal_form(event: &str, arguments: &str) -> (String, Option<String>) {
    let timer = || Some(value(arguments, "hrtimer", " ").to_owned());
    let function = || format!("{:?}", timer_function(value(arguments, "function", " ")));
    match event {
        "sched_switch" => {
            let text =
                arguments.replace("prev_state=Z", "prev_state=X").replace("prev_state=t", "prev_state=T");
            (format!("{event}: {text}"), None)
        }
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => (format!("{event}: {arguments}"), None),
        "sched_migrate_task" => {
            let comm = value(arguments, "comm", " pid=");
            let [pid, from, to] = ["pid", "orig_cpu", "dest_cpu"].map(|key| value(arguments, key, " "));
            (format!("{event}: comm={comm} pid={pid} orig_cpu={from} dest_cpu={to}"), None)
        }
        "sched_process_fork" => {
            let parent = value(arguments, " pid", " ");
            let [comm, child] =
                [value(arguments, "child_comm", " child_pid="), value(arguments, "child_pid", "")];
            (format!("{event}: pid={parent} child_comm={comm} child_pid={child}"), None)
        }
        "sched_process_exec" => (format!("{event}: {}", &arguments[arguments.find("pid=").unwrap()..]), None),
        "sched_process_exit" => {
            let [comm, pid] = [value(arguments, "comm", " pid="), value(arguments, "pid", " ")];
            (format!("{event}: comm={comm} pid={pid}"), None)
        }
        "irq_handler_exit" | "softirq_raise" | "softirq_entry" | "softirq_exit" => {
            (format!("{event}: {}", arguments.split(' ').next().unwrap()), None)
        }
        "hrtimer_start" => {
            (format!("{event}: {} expires={}", function(), value(arguments, "expires", " ")), timer())
        }
        "hrtimer_expire_entry" => (format!("{event}: {}", function()), timer()),
        "hrtimer_cancel" => (event.to_owned(), timer()),
        _ if arguments.starts_with("vector=") => (event.to_owned(), None),
        _ => (format!("{event}: {arguments}"), None),
    }
}

/// A decoded event in the same form.
pub fn render(event: &Event<'_>) -> Line {
    let mut timer = None;
    let mut address = |value: u64| timer = Some(format!("{value:x}"));
    let named = |function: TimerFunction| format!("{function:?}");
    let woken = |name: &str, w: &surety_model::event::Woken| {
        format!("{name}: comm={} pid={} prio={} target_cpu={:03}", w.comm, w.tid, w.prio, w.target.0)
    };
    let what = match &event.kind {
        EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio } => {
            let state = match prev_state {
                LeaveState::Runnable { preempted: true } => "R+".to_owned(),
                LeaveState::Runnable { preempted: false } => "R".to_owned(),
                LeaveState::Sleeping => "S".to_owned(),
                LeaveState::Uninterruptible => "D".to_owned(),
                LeaveState::Stopped => "T".to_owned(),
                LeaveState::Dead => "X".to_owned(),
                LeaveState::Other(letter) => char::from(*letter).to_string(),
            };
            format!(
                "sched_switch: prev_comm={prev_comm} prev_pid={prev} prev_prio={prev_prio} prev_state={state} \
                 ==> next_comm={next_comm} next_pid={next} next_prio={next_prio}"
            )
        }
        EventKind::Waking(w) => woken("sched_waking", w),
        EventKind::Wakeup(w) => woken("sched_wakeup", w),
        EventKind::WakeupNew(w) => woken("sched_wakeup_new", w),
        EventKind::Migrate { tid, comm, from, to } => {
            format!("sched_migrate_task: comm={comm} pid={tid} orig_cpu={from} dest_cpu={to}")
        }
        EventKind::Fork { parent, child, child_comm } => {
            format!("sched_process_fork: pid={parent} child_comm={child_comm} child_pid={child}")
        }
        EventKind::Exec { tid, old } => format!("sched_process_exec: pid={tid} old_pid={old}"),
        EventKind::Exit { tid, comm } => format!("sched_process_exit: comm={comm} pid={tid}"),
        EventKind::IrqEntry { irq, name } => format!("irq_handler_entry: irq={irq} name={name}"),
        EventKind::IrqExit { irq } => format!("irq_handler_exit: irq={irq}"),
        EventKind::VectorEntry { name } => format!("{name}_entry"),
        EventKind::VectorExit { name } => format!("{name}_exit"),
        EventKind::SoftirqRaise { vector } => format!("softirq_raise: vec={vector}"),
        EventKind::SoftirqEntry { vector } => format!("softirq_entry: vec={vector}"),
        EventKind::SoftirqExit { vector } => format!("softirq_exit: vec={vector}"),
        EventKind::TimerStart { timer, function, expires } => {
            address(*timer);
            format!("hrtimer_start: {} expires={}", named(*function), expires.get())
        }
        EventKind::TimerCancel { timer } => {
            address(*timer);
            "hrtimer_cancel".to_owned()
        }
        EventKind::TimerExpire { timer, function } => {
            address(*timer);
            format!("hrtimer_expire_entry: {}", named(*function))
        }
        EventKind::Marker { text } => format!("tracing_mark_write: {text}"),
        other => format!("{other:?}"),
    };
    let micros = (event.time.get() + 500) / 1000;
    Line { micros, cpu: event.cpu.0, current: event.current.0, what, timer }
}

/// Asserts that both say the same, and that timers' addresses are renamed one to one.
pub fn assert_same(decoded: &[Line], text: &[Line]) {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    // Lines of one CPU are in order on both sides; between CPUs, equal microseconds may be printed in either.
    for cpu in decoded.iter().chain(text).map(|l| l.cpu).collect::<std::collections::BTreeSet<_>>() {
        let of = |lines: &'_ [Line]| lines.iter().filter(|l| l.cpu == cpu).cloned().collect::<Vec<_>>();
        for (k, (ours, theirs)) in of(decoded).iter().zip(&of(text)).enumerate() {
            let bare = |line: &Line| Line { timer: None, ..line.clone() };
            assert_eq!(bare(ours), bare(theirs), "CPU {cpu}, event {k}");
            assert_eq!(ours.timer.is_some(), theirs.timer.is_some(), "CPU {cpu}, event {k}");
        }
        assert_eq!(of(decoded).len(), of(text).len(), "events of CPU {cpu}");
    }
    let sorted = |lines: &'_ [Line]| {
        let mut lines: Vec<Line> = lines.to_vec();
        lines.sort_by_key(|l| (l.cpu, l.micros));
        lines
    };
    let (decoded, text) = (sorted(decoded), sorted(text));
    for (ours, theirs) in decoded.iter().zip(&text) {
        if let (Some(address), Some(hash)) = (&ours.timer, &theirs.timer) {
            assert_eq!(names.entry(address).or_insert(hash), hash, "one address, two names");
            assert_eq!(taken.entry(hash).or_insert(address), address, "one name, two addresses");
        }
    }
}
