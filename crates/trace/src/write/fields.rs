//! The words for an event: its name and its fields, the same in every text format (`docs/formats/trace-events.md`).

use surety_model::event::{BlockEvent, Comm, DiskNumber, EventKind, LeaveState, Rwbs, TimerFunction, Woken};
use surety_units::Tid;

/// Every field an event can have beside `time_ns`, `cpu`, `tid` and `event`, in the order of the columns.
pub const FIELDS: &[&str] = &[
    "prev_tid",
    "prev_name",
    "prev_prio",
    "prev_state",
    "next_tid",
    "next_name",
    "next_prio",
    "thread",
    "name",
    "prio",
    "from_cpu",
    "to_cpu",
    "parent",
    "old",
    "irq",
    "handler",
    "vector",
    "softirq",
    "timer",
    "function",
    "expires_ns",
    "text",
    "count",
    "of_cpu",
    "khz",
    "futex",
    "operation",
    "value",
    "disk",
    "sector",
    "sectors",
    "bytes",
    "ioprio",
    "rwbs",
    "error",
    "system",
    "raw",
];

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Integer(i64),
    Count(u64),
    Text(&'a str),
    Name(Comm),
    Letter(char),
    /// A few visible letters of ASCII.
    Letters(Rwbs),
    Disk(DiskNumber),
    /// Written with 0x: too large for the numbers of some readers.
    Address(u64),
    /// Bytes, two digits of base 16 each.
    Bytes(&'a [u8]),
}

/// The text of [`Value::Bytes`].
pub(super) fn hexadecimal(line: &mut String, bytes: &[u8]) {
    use std::fmt::Write as _;
    for byte in bytes {
        let _ = write!(line, "{byte:02x}");
    }
}

/// The event's name: the kernel's own where it has one.
pub(super) fn name<'a>(kind: &EventKind<'a>) -> &'a str {
    match kind {
        EventKind::Raw(raw) => raw.name.split_once(':').map_or(raw.name, |(_, name)| name),
        EventKind::Switch { .. } => "sched_switch",
        EventKind::Waking(_) => "sched_waking",
        EventKind::Wakeup(_) => "sched_wakeup",
        EventKind::WakeupNew(_) => "sched_wakeup_new",
        EventKind::Migrate { .. } => "sched_migrate_task",
        EventKind::Fork { .. } => "sched_process_fork",
        EventKind::Exec { .. } => "sched_process_exec",
        EventKind::Exit { .. } => "sched_process_exit",
        EventKind::IrqEntry { .. } => "irq_handler_entry",
        EventKind::IrqExit { .. } => "irq_handler_exit",
        EventKind::VectorEntry { .. } => "vector_entry",
        EventKind::VectorExit { .. } => "vector_exit",
        EventKind::SoftirqRaise { .. } => "softirq_raise",
        EventKind::SoftirqEntry { .. } => "softirq_entry",
        EventKind::SoftirqExit { .. } => "softirq_exit",
        EventKind::TimerStart { .. } => "hrtimer_start",
        EventKind::TimerCancel { .. } => "hrtimer_cancel",
        EventKind::TimerExpire { .. } => "hrtimer_expire_entry",
        EventKind::Frequency { .. } => "cpu_frequency",
        EventKind::FutexEnter { .. } => "sys_enter_futex",
        EventKind::FutexExit => "sys_exit_futex",
        EventKind::Block(block) => block.step.name(),
        EventKind::Marker { .. } => "print",
        EventKind::Lost { .. } => "lost",
        _ => "other",
    }
}

/// Hands the event's fields to `put`, in the order of [`FIELDS`].
pub(super) fn each<'a>(kind: &EventKind<'a>, mut put: impl FnMut(&'static str, Value<'a>)) {
    use Value::{Address, Count, Integer, Name, Text};
    let tid = |tid: Tid| Integer(tid.0.into());
    match *kind {
        EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio } => {
            put("prev_tid", tid(prev));
            put("prev_name", Name(prev_comm));
            put("prev_prio", Integer(prev_prio.into()));
            put("prev_state", state(prev_state));
            put("next_tid", tid(next));
            put("next_name", Name(next_comm));
            put("next_prio", Integer(next_prio.into()));
        }
        EventKind::Waking(woken) | EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => {
            let Woken { tid: thread, comm, prio, target } = woken;
            put("thread", tid(thread));
            put("name", Name(comm));
            put("prio", Integer(prio.into()));
            put("to_cpu", Integer(target.0.into()));
        }
        EventKind::Migrate { tid: thread, comm, from, to } => {
            put("thread", tid(thread));
            put("name", Name(comm));
            put("from_cpu", Integer(from.0.into()));
            put("to_cpu", Integer(to.0.into()));
        }
        EventKind::Fork { parent, child, child_comm } => {
            put("thread", tid(child));
            put("name", Name(child_comm));
            put("parent", tid(parent));
        }
        EventKind::Exec { tid: thread, old } => {
            put("thread", tid(thread));
            put("old", tid(old));
        }
        EventKind::Exit { tid: thread, comm } => {
            put("thread", tid(thread));
            put("name", Name(comm));
        }
        EventKind::IrqEntry { irq, name } => {
            put("irq", Integer(irq.into()));
            put("handler", Text(name));
        }
        EventKind::IrqExit { irq } => put("irq", Integer(irq.into())),
        EventKind::VectorEntry { name } | EventKind::VectorExit { name } => put("vector", Text(name)),
        EventKind::SoftirqRaise { vector }
        | EventKind::SoftirqEntry { vector }
        | EventKind::SoftirqExit { vector } => put("softirq", Integer(vector.into())),
        EventKind::TimerStart { timer, function: called, expires } => {
            put("timer", Address(timer));
            put("function", function(called));
            put("expires_ns", Integer(expires.get()));
        }
        EventKind::TimerCancel { timer } => put("timer", Address(timer)),
        EventKind::TimerExpire { timer, function: called } => {
            put("timer", Address(timer));
            put("function", function(called));
        }
        EventKind::Frequency { of, khz } => {
            put("of_cpu", Integer(of.0.into()));
            put("khz", Integer(khz.into()));
        }
        EventKind::FutexEnter { address, operation, value } => {
            put("futex", Address(address));
            put("operation", Count(operation.into()));
            put("value", Count(value.into()));
        }
        EventKind::Block(block) => each_of_block(&block, put),
        EventKind::Marker { text } => put("text", Text(text)),
        EventKind::Lost { count: Some(count) } => put("count", Count(count)),
        EventKind::Raw(raw) => {
            put("system", Text(raw.name.split_once(':').map_or("", |(system, _)| system)));
            put("raw", Value::Bytes(raw.record));
        }
        _ => {}
    }
}

fn each_of_block<'a>(event: &BlockEvent, mut put: impl FnMut(&'static str, Value<'a>)) {
    let step = event.step;
    if step.has_name() {
        put("name", Value::Name(event.comm));
    }
    put("disk", Value::Disk(event.disk));
    put("sector", Value::Count(event.sector));
    put("sectors", Value::Count(event.sectors.into()));
    if step.has_bytes() {
        put("bytes", Value::Count(event.bytes.into()));
    }
    if step.has_priority() {
        put("ioprio", Value::Count(event.priority.into()));
    }
    put("rwbs", Value::Letters(event.rwbs));
    if step.has_error() {
        put("error", Value::Integer(event.error.into()));
    }
}

/// The kernel's letter; `R+` for preempted.
fn state(state: LeaveState) -> Value<'static> {
    match state {
        LeaveState::Runnable { preempted: true } => Value::Text("R+"),
        LeaveState::Runnable { preempted: false } => Value::Text("R"),
        LeaveState::Sleeping => Value::Text("S"),
        LeaveState::Uninterruptible => Value::Text("D"),
        LeaveState::Stopped => Value::Text("T"),
        LeaveState::Dead => Value::Text("X"),
        LeaveState::Other(letter) => Value::Letter(char::from(letter)),
    }
}

fn function(function: TimerFunction) -> Value<'static> {
    Value::Text(match function {
        TimerFunction::DeadlineReplenish => "dl_task_timer",
        TimerFunction::Wakeup => "hrtimer_wakeup",
        TimerFunction::Tick => "tick",
        TimerFunction::Other => "other",
    })
}
