//! From an event's name and the text of its arguments to an [`EventKind`].
//!
//! Three forms are read: the kernel's own (`prev_comm=a prev_pid=1 ... ==> next_comm=b ...`), the raw fields of
//! `trace-cmd report -R` (the same keys, states as numbers) and the short form of trace-cmd's plugins
//! (`a:1 [120] R ==> b:2 [120]`, `a:1 [120] success=1 CPU:003`).
//!
//! A name stands between two keys and may itself look like them. It is at most 15 bytes long and what follows it has a
//! known form, so of all places where it could end the last one that leaves that form is taken.

mod block;

use surety_model::event::{BlockStep, EventKind, LeaveState, Woken};
use surety_units::{CpuId, Nanos, Tid};

use crate::decode::VECTORS;
use crate::jobs::interrupts::SOFTIRQS;
use crate::states::{StateTable, leave_state};
use crate::symbols::timer_function;

use super::head::{comm, number, position};

/// The longest name of a thread.
const NAME_MAX: usize = 15;

/// An event of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Migrate,
    Fork,
    Exec,
    Exit,
    IrqEntry,
    IrqExit,
    VectorEntry(&'static str),
    VectorExit(&'static str),
    SoftirqRaise,
    SoftirqEntry,
    SoftirqExit,
    TimerStart,
    TimerCancel,
    TimerExpire,
    Frequency,
    Block(BlockStep),
    /// The kernel prints it under the name of the function that wrote it.
    Mark,
    /// trace-cmd and perf name the event and then the function.
    Print,
}

impl Known {
    /// The event of that name, and its system.
    pub(super) fn of(name: &str) -> Option<(&'static str, Known)> {
        Some(match name {
            "sched_switch" => ("sched", Known::Switch),
            "sched_waking" => ("sched", Known::Waking),
            "sched_wakeup" => ("sched", Known::Wakeup),
            "sched_wakeup_new" => ("sched", Known::WakeupNew),
            "sched_migrate_task" => ("sched", Known::Migrate),
            "sched_process_fork" => ("sched", Known::Fork),
            "sched_process_exec" => ("sched", Known::Exec),
            "sched_process_exit" => ("sched", Known::Exit),
            "irq_handler_entry" => ("irq", Known::IrqEntry),
            "irq_handler_exit" => ("irq", Known::IrqExit),
            "softirq_raise" => ("irq", Known::SoftirqRaise),
            "softirq_entry" => ("irq", Known::SoftirqEntry),
            "softirq_exit" => ("irq", Known::SoftirqExit),
            "hrtimer_start" => ("timer", Known::TimerStart),
            "hrtimer_cancel" => ("timer", Known::TimerCancel),
            "hrtimer_expire_entry" => ("timer", Known::TimerExpire),
            "cpu_frequency" => ("power", Known::Frequency),
            "tracing_mark_write" => ("ftrace", Known::Mark),
            "print" => ("ftrace", Known::Print),
            _ if name.starts_with("block_") => ("block", Known::Block(BlockStep::of(name)?)),
            _ => {
                let vector = |stem: &str| VECTORS.iter().copied().find(|vector| *vector == stem);
                if let Some(vector) = name.strip_suffix("_entry").and_then(vector) {
                    ("irq_vectors", Known::VectorEntry(vector))
                } else {
                    ("irq_vectors", Known::VectorExit(name.strip_suffix("_exit").and_then(vector)?))
                }
            }
        })
    }
}

/// What an event's arguments say; `None` when they are cut or of no form known.
pub(super) fn kind<'l>(known: Known, arguments: &'l [u8], states: &StateTable) -> Option<EventKind<'l>> {
    let text = arguments.trim_ascii();
    Some(match known {
        Known::Switch => keyed_switch(text, states).or_else(|| short_switch(text, states))?,
        Known::Waking => EventKind::Waking(woken(text)?),
        Known::Wakeup => EventKind::Wakeup(woken(text)?),
        Known::WakeupNew => EventKind::WakeupNew(woken(text)?),
        Known::Migrate => {
            let (name, rest) = named(text, b"comm=", b" pid=", |rest| {
                let (pid, rest) = signed(rest)?;
                Some((pid, value(rest, b" orig_cpu=")?, value(rest, b" dest_cpu=")?))
            })?;
            let (tid, from, to) = rest;
            EventKind::Migrate { tid: Tid(tid), comm: comm(name), from: cpu(from)?, to: cpu(to)? }
        }
        Known::Fork => {
            let parent = |rest| signed(rest).filter(|(_, rest)| rest.starts_with(b" child"));
            let (_, (parent, rest)) = named(text, b"comm=", b" pid=", parent)
                .or_else(|| named(text, b"parent_comm=", b" parent_pid=", parent))?;
            let (name, child) = named(rest, b" child_comm=", b" child_pid=", whole)?;
            EventKind::Fork { parent: Tid(parent), child: Tid(child), child_comm: comm(name) }
        }
        Known::Exec => {
            let (before, old) = split_last(text, b" old_pid=")?;
            let (_, tid) = split_last(before, b" pid=")?;
            EventKind::Exec { tid: Tid(whole(tid)?), old: Tid(whole(old)?) }
        }
        Known::Exit => {
            let (name, tid) = named(text, b"comm=", b" pid=", |rest| {
                signed(rest).filter(|(_, rest)| rest.starts_with(b" prio=")).map(|(pid, _)| pid)
            })?;
            EventKind::Exit { tid: Tid(tid), comm: comm(name) }
        }
        Known::IrqEntry => {
            let (irq, rest) = number(text.strip_prefix(b"irq=")?)?;
            EventKind::IrqEntry {
                irq: u32::try_from(irq).ok()?,
                name: as_text(rest.strip_prefix(b" name=")?),
            }
        }
        Known::IrqExit => {
            EventKind::IrqExit { irq: u32::try_from(number(text.strip_prefix(b"irq=")?)?.0).ok()? }
        }
        Known::VectorEntry(name) => EventKind::VectorEntry { name },
        Known::VectorExit(name) => EventKind::VectorExit { name },
        Known::SoftirqRaise => EventKind::SoftirqRaise { vector: softirq(text)? },
        Known::SoftirqEntry => EventKind::SoftirqEntry { vector: softirq(text)? },
        Known::SoftirqExit => EventKind::SoftirqExit { vector: softirq(text)? },
        Known::TimerStart => EventKind::TimerStart {
            timer: address(text)?,
            function: timer_function(function(text)?),
            expires: Nanos::new(signed64(after(text, b" expires=")?)?),
        },
        Known::TimerCancel => EventKind::TimerCancel { timer: address(text)? },
        Known::TimerExpire => {
            EventKind::TimerExpire { timer: address(text)?, function: timer_function(function(text)?) }
        }
        Known::Frequency => {
            let (khz, rest) = number(text.strip_prefix(b"state=")?)?;
            EventKind::Frequency { of: cpu(value(rest, b" cpu_id=")?)?, khz: u32::try_from(khz).ok()? }
        }
        Known::Block(step) => EventKind::Block(block::event(step, text)?),
        // One space belongs to the form, further ones to the text.
        Known::Mark => EventKind::Marker { text: as_text(arguments) },
        Known::Print => EventKind::Marker { text: as_text(printed(arguments)?) },
    })
}

/// `ip=WHERE buf=TEXT` or `WHERE: TEXT`.
fn printed(arguments: &[u8]) -> Option<&[u8]> {
    let start = arguments.iter().position(|byte| *byte != b' ')?;
    let text = &arguments[start..];
    if text.starts_with(b"ip=") {
        return after(text, b" buf=");
    }
    match after(text, b": ") {
        Some(text) => Some(text),
        // A program wrote nothing but a line end.
        None => text.strip_suffix(b":").map(|_| b"".as_slice()),
    }
}

fn keyed_switch<'l>(text: &'l [u8], states: &StateTable) -> Option<EventKind<'l>> {
    let (prev_comm, (prev, prev_prio, prev_state, rest)) =
        named(text, b"prev_comm=", b" prev_pid=", |rest| {
            let (pid, rest) = signed(rest)?;
            let (prio, rest) = signed(rest.strip_prefix(b" prev_prio=")?)?;
            let rest = rest.strip_prefix(b" prev_state=")?;
            let end = position(rest, b' ')?;
            let (state, rest) = rest.split_at(end);
            let rest = rest.strip_prefix(b" ==>").unwrap_or(rest);
            Some((pid, prio, state, rest.strip_prefix(b" ")?))
        })?;
    let (next_comm, (next, next_prio)) = named(rest, b"next_comm=", b" next_pid=", |rest| {
        let (pid, rest) = signed(rest)?;
        Some((pid, whole(rest.strip_prefix(b" next_prio=")?)?))
    })?;
    Some(EventKind::Switch {
        prev: Tid(prev),
        prev_comm: comm(prev_comm),
        prev_prio,
        prev_state: state(prev_state, states)?,
        next: Tid(next),
        next_comm: comm(next_comm),
        next_prio,
    })
}

fn short_switch<'l>(text: &'l [u8], states: &StateTable) -> Option<EventKind<'l>> {
    let (prev_comm, (prev, prev_prio, prev_state, rest)) = named(text, b"", b":", |rest| {
        let (pid, prio, rest) = short_thread(rest)?;
        let rest = rest.strip_prefix(b" ")?;
        let end = position(rest, b' ')?;
        let (state, rest) = rest.split_at(end);
        Some((pid, prio, state, rest.strip_prefix(b" ==> ")?))
    })?;
    let (next_comm, (next, next_prio)) = named(rest, b"", b":", |rest| {
        let (pid, prio, rest) = short_thread(rest)?;
        rest.is_empty().then_some((pid, prio))
    })?;
    Some(EventKind::Switch {
        prev: Tid(prev),
        prev_comm: comm(prev_comm),
        prev_prio,
        prev_state: state(prev_state, states)?,
        next: Tid(next),
        next_comm: comm(next_comm),
        next_prio,
    })
}

fn woken(text: &[u8]) -> Option<Woken> {
    let keyed = || {
        named(text, b"comm=", b" pid=", |rest| {
            let (pid, rest) = signed(rest)?;
            let (prio, rest) = signed(rest.strip_prefix(b" prio=")?)?;
            Some((pid, prio, value(rest, b" target_cpu=")?))
        })
    };
    let short = || {
        named(text, b"", b":", |rest| {
            let (pid, prio, rest) = short_thread(rest)?;
            Some((pid, prio, value(rest, b" CPU:")?))
        })
    };
    let (name, (tid, prio, target)) = keyed().or_else(short)?;
    Some(Woken { tid: Tid(tid), comm: comm(name), prio, target: cpu(target)? })
}

/// `PID [PRIO]` and what follows.
fn short_thread(text: &[u8]) -> Option<(i32, i32, &[u8])> {
    let (pid, rest) = signed(text)?;
    let (prio, rest) = signed(rest.strip_prefix(b" [")?)?;
    Some((pid, prio, rest.strip_prefix(b"]")?))
}

/// `start NAME end REST`, where `read` understands the rest: of all ends the last one it does.
fn named<'l, T>(
    text: &'l [u8],
    start: &[u8],
    end: &[u8],
    read: impl Fn(&'l [u8]) -> Option<T>,
) -> Option<(&'l [u8], T)> {
    let text = text.strip_prefix(start)?;
    let mut longest = text.len().checked_sub(end.len())?.min(NAME_MAX);
    loop {
        let (name, rest) = text.split_at(longest);
        if let Some(value) = rest.strip_prefix(end).and_then(&read) {
            return Some((name, value));
        }
        longest = longest.checked_sub(1)?;
    }
}

/// A state by its letters (`S`, `D|K`, `R+`), or by its number: then by the flags kernels mostly have, for a text holds
/// no flag table.
fn state(text: &[u8], states: &StateTable) -> Option<LeaveState> {
    let first = *text.first()?;
    if first.is_ascii_digit() {
        let (value, rest) = number(text)?;
        return rest.is_empty().then(|| states.state(value.unsigned_abs()));
    }
    Some(if text.ends_with(b"+") { LeaveState::Runnable { preempted: true } } else { leave_state(first) })
}

/// A number with or without a sign and what follows it.
fn signed(text: &[u8]) -> Option<(i32, &[u8])> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (value, rest) = number(digits)?;
    Some((i32::try_from(if negative { -value } else { value }).ok()?, rest))
}

/// A number and nothing behind it.
fn whole(text: &[u8]) -> Option<i32> {
    signed(text).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

/// The number behind a key, which ends at a space or at the end.
fn value(text: &[u8], key: &[u8]) -> Option<i32> {
    let (value, rest) = signed(after(text, key)?)?;
    (rest.is_empty() || rest.starts_with(b" ")).then_some(value)
}

/// Times of timers; the kernel prints its largest as it is, and negative ones too.
fn signed64(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => number(digits).map(|(value, _)| -value),
        None => number(text).map(|(value, _)| value),
    }
}

fn cpu(value: i32) -> Option<CpuId> {
    u32::try_from(value).ok().map(CpuId)
}

/// What stands behind the first `key`.
fn after<'l>(text: &'l [u8], key: &[u8]) -> Option<&'l [u8]> {
    let first = *key.first()?;
    let mut rest = text;
    while let Some(found) = position(rest, first) {
        rest = &rest[found..];
        if let Some(value) = rest.strip_prefix(key) {
            return Some(value);
        }
        rest = &rest[1..];
    }
    None
}

/// What stands before and behind the last `key`.
fn split_last<'l>(text: &'l [u8], key: &[u8]) -> Option<(&'l [u8], &'l [u8])> {
    let at = text.windows(key.len()).rposition(|window| window == key)?;
    Some((&text[..at], &text[at + key.len()..]))
}

/// The softirq's number, `vec=1 [action=TIMER]`, or by its name where the number is missing.
fn softirq(text: &[u8]) -> Option<u32> {
    if let Some(rest) = text.strip_prefix(b"vec=") {
        return u32::try_from(number(rest)?.0).ok();
    }
    let name = after(text, b"action=")?;
    let end = name.iter().position(|byte| matches!(byte, b']' | b' ')).unwrap_or(name.len());
    SOFTIRQS
        .iter()
        .position(|known| known.as_bytes() == &name[..end])
        .and_then(|number| u32::try_from(number).ok())
}

/// The timer's address, which the kernel hashes in its text: an identity, no place.
fn address(text: &[u8]) -> Option<u64> {
    let word = text.strip_prefix(b"hrtimer=")?;
    let word = word.strip_prefix(b"0x").unwrap_or(word);
    let end = position(word, b' ').unwrap_or(word.len());
    u64::from_str_radix(std::str::from_utf8(&word[..end]).ok()?, 16).ok()
}

/// The function's name without its offset.
fn function(text: &[u8]) -> Option<&str> {
    let word = after(text, b" function=")?;
    let end = word.iter().position(|byte| matches!(byte, b' ' | b'/' | b'+')).unwrap_or(word.len());
    std::str::from_utf8(&word[..end]).ok()
}

/// As text; what follows a byte that is no UTF-8 is cut off, as for records.
fn as_text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
