//! An event's message in `FtraceEvent`.
//!
//! Vectors other than the tick's have no message in the schema; they are generic events with the kernel's name.

use surety_model::event::{BlockEvent, BlockStep, Comm, EventKind, LeaveState, TimerFunction, Woken};

use super::protobuf::Message;
use crate::perfetto::{event, generic};

/// Timer functions with a name, in the order of their indexes from 1: the kernel's symbols as they are since Linux 6.9.
pub(super) const FUNCTIONS: &[&str] = &["dl_task_timer", "hrtimer_wakeup", "tick_nohz_handler"];

/// Fills `m` with the event's message and returns its number; `None` for what has no message.
pub(super) fn body(m: &mut Message, kind: &EventKind<'_>) -> Option<u32> {
    Some(match kind {
        EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio } => {
            name(m, 1, *prev_comm);
            m.integer(2, prev.0.into());
            m.integer(3, (*prev_prio).into());
            m.integer(4, state(*prev_state));
            name(m, 5, *next_comm);
            m.integer(6, next.0.into());
            m.integer(7, (*next_prio).into());
            event::SCHED_SWITCH
        }
        EventKind::Wakeup(woken) => wake(m, woken, event::SCHED_WAKEUP),
        EventKind::Waking(woken) => wake(m, woken, event::SCHED_WAKING),
        EventKind::WakeupNew(woken) => wake(m, woken, event::SCHED_WAKEUP_NEW),
        EventKind::Migrate { tid, comm, from, to } => {
            name(m, 1, *comm);
            m.integer(2, tid.0.into());
            m.integer(4, from.0.into());
            m.integer(5, to.0.into());
            event::SCHED_MIGRATE
        }
        EventKind::Fork { parent, child, child_comm } => {
            m.integer(2, parent.0.into());
            name(m, 3, *child_comm);
            m.integer(4, child.0.into());
            event::SCHED_FORK
        }
        EventKind::Exec { tid, old } => {
            m.integer(2, tid.0.into());
            m.integer(3, old.0.into());
            event::SCHED_EXEC
        }
        EventKind::Exit { tid, comm } => {
            name(m, 1, *comm);
            m.integer(2, tid.0.into());
            event::SCHED_EXIT
        }
        EventKind::SoftirqEntry { vector } => softirq(m, *vector, event::SOFTIRQ_ENTRY),
        EventKind::SoftirqExit { vector } => softirq(m, *vector, event::SOFTIRQ_EXIT),
        EventKind::SoftirqRaise { vector } => softirq(m, *vector, event::SOFTIRQ_RAISE),
        EventKind::IrqEntry { irq, name } => {
            m.integer(1, (*irq).into());
            m.put(2, name.as_bytes());
            event::IRQ_ENTRY
        }
        EventKind::IrqExit { irq } => {
            m.integer(1, (*irq).into());
            event::IRQ_EXIT
        }
        EventKind::VectorEntry { name: "local_timer" } => event::LOCAL_TIMER_ENTRY,
        EventKind::VectorExit { name: "local_timer" } => event::LOCAL_TIMER_EXIT,
        EventKind::VectorEntry { name } => vector(m, name, "entry"),
        EventKind::VectorExit { name } => vector(m, name, "exit"),
        EventKind::TimerStart { timer, function, expires } => {
            m.count(1, *timer);
            m.count(2, symbol(*function));
            m.integer(3, expires.get());
            event::HRTIMER_START
        }
        EventKind::TimerCancel { timer } => {
            m.count(1, *timer);
            event::HRTIMER_CANCEL
        }
        EventKind::TimerExpire { timer, function } => {
            m.count(1, *timer);
            m.count(3, symbol(*function));
            event::HRTIMER_EXPIRE
        }
        EventKind::Frequency { of, khz } => {
            m.integer(1, (*khz).into());
            m.integer(2, of.0.into());
            event::CPU_FREQUENCY
        }
        EventKind::Block(event) => block(m, event),
        EventKind::Marker { text } => {
            m.put(2, text.as_bytes());
            event::PRINT
        }
        _ => return None,
    })
}

/// A thread's name. Texts of the format are UTF-8: in others what is none is replaced.
fn name(m: &mut Message, field: u32, comm: Comm) {
    m.put(field, comm.text().as_bytes());
}

fn wake(m: &mut Message, woken: &Woken, number: u32) -> u32 {
    name(m, 1, woken.comm);
    m.integer(2, woken.tid.0.into());
    m.integer(3, woken.prio.into());
    m.integer(4, 1);
    m.integer(5, woken.target.0.into());
    number
}

/// An event of the block layer; of the messages each kind has its fields in another order.
fn block(m: &mut Message, of: &BlockEvent) -> u32 {
    let number = match of.step {
        BlockStep::BioQueued => event::BLOCK_BIO_QUEUE,
        BlockStep::BioAppended => event::BLOCK_BIO_BACKMERGE,
        BlockStep::BioPrepended => event::BLOCK_BIO_FRONTMERGE,
        BlockStep::RequestMade => event::BLOCK_GETRQ,
        BlockStep::Inserted => event::BLOCK_RQ_INSERT,
        BlockStep::Joined => return block_merge(m, of),
        BlockStep::Issued => event::BLOCK_RQ_ISSUE,
        BlockStep::Returned => event::BLOCK_RQ_REQUEUE,
        BlockStep::Completed => event::BLOCK_RQ_COMPLETE,
    };
    m.count(1, of.disk.to_user());
    m.count(2, of.sector);
    m.count(3, of.sectors.into());
    if of.step.has_bytes() {
        m.count(4, of.bytes.into());
    }
    let letters = if of.step.has_priority() { 5 } else { 4 };
    m.put(letters, of.rwbs.text().as_bytes());
    if of.step.has_name() {
        name(m, letters + 1, of.comm);
    }
    if of.step.has_error() {
        m.integer(7, of.error.into());
    }
    number
}

/// A request that became a part of another has no message.
fn block_merge(m: &mut Message, of: &BlockEvent) -> u32 {
    m.put(generic::NAME, of.step.name().as_bytes());
    for (key, value) in [
        ("dev", of.disk.to_user()),
        ("sector", of.sector),
        ("nr_sector", of.sectors.into()),
        ("bytes", of.bytes.into()),
    ] {
        m.message(generic::FIELD, |m| {
            m.put(generic::FIELD_NAME, key.as_bytes());
            m.count(generic::FIELD_COUNT, value);
        });
    }
    for (key, value) in [("rwbs", of.rwbs.text()), ("comm", &of.comm.text())] {
        m.message(generic::FIELD, |m| {
            m.put(generic::FIELD_NAME, key.as_bytes());
            m.put(generic::FIELD_TEXT, value.as_bytes());
        });
    }
    event::GENERIC
}

fn softirq(m: &mut Message, vector: u32, number: u32) -> u32 {
    m.integer(1, vector.into());
    number
}

fn vector(m: &mut Message, name: &str, end: &str) -> u32 {
    m.put(generic::NAME, format!("{name}_{end}").as_bytes());
    event::GENERIC
}

/// The index of a function's symbol; 0 is none.
fn symbol(function: TimerFunction) -> u64 {
    match function {
        TimerFunction::DeadlineReplenish => 1,
        TimerFunction::Wakeup => 2,
        TimerFunction::Tick => 3,
        TimerFunction::Other => 0,
    }
}

/// The bits of `prev_state` since Linux 4.14 (`include/linux/sched.h`).
fn state(state: LeaveState) -> i64 {
    match state {
        LeaveState::Runnable { preempted: false } => 0,
        LeaveState::Runnable { preempted: true } => 0x100,
        LeaveState::Sleeping => 1,
        LeaveState::Uninterruptible => 2,
        LeaveState::Stopped => 4,
        LeaveState::Dead => 0x10,
        LeaveState::Other(b'P') => 0x40,
        LeaveState::Other(_) => 0x80,
    }
}
