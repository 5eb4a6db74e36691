//! One `FtraceEvent`: which event it is, and its message turned into an [`EventKind`].
//!
//! The schema has no message for most of `irq_vectors`; those, and any event that a recorder did not know, come as a
//! generic message with names in text. Generic events this crate reasons with are decoded by their fields' names.

use surety_model::event::{
    BlockEvent, BlockStep, Comm, DiskNumber, EventKind, LeaveState, Rwbs, TimerFunction, Woken,
};
use surety_units::{CpuId, Nanos, Tid};

use super::wire::{Fields, Value, signed32, unsigned32};
use crate::decode::VECTORS;
use crate::perfetto::{event, generic};

/// Events that are counted by their kernel's name: their number in `FtraceEvent` and the name. The ones that become no
/// [`EventKind`] are at the end.
const EVENTS: &[(u32, &str)] = &[
    (event::PRINT, "ftrace:print"),
    (event::SCHED_SWITCH, "sched:sched_switch"),
    (event::SCHED_WAKING, "sched:sched_waking"),
    (event::SCHED_WAKEUP, "sched:sched_wakeup"),
    (event::SCHED_WAKEUP_NEW, "sched:sched_wakeup_new"),
    (event::SCHED_MIGRATE, "sched:sched_migrate_task"),
    (event::SCHED_FORK, "sched:sched_process_fork"),
    (event::SCHED_EXEC, "sched:sched_process_exec"),
    (event::SCHED_EXIT, "sched:sched_process_exit"),
    (event::IRQ_ENTRY, "irq:irq_handler_entry"),
    (event::IRQ_EXIT, "irq:irq_handler_exit"),
    (event::SOFTIRQ_RAISE, "irq:softirq_raise"),
    (event::SOFTIRQ_ENTRY, "irq:softirq_entry"),
    (event::SOFTIRQ_EXIT, "irq:softirq_exit"),
    (event::HRTIMER_START, "timer:hrtimer_start"),
    (event::HRTIMER_CANCEL, "timer:hrtimer_cancel"),
    (event::HRTIMER_EXPIRE, "timer:hrtimer_expire_entry"),
    (event::LOCAL_TIMER_ENTRY, "irq_vectors:local_timer_entry"),
    (event::LOCAL_TIMER_EXIT, "irq_vectors:local_timer_exit"),
    (event::IPI_ENTRY, "ipi:ipi_entry"),
    (event::IPI_EXIT, "ipi:ipi_exit"),
    (event::CPU_FREQUENCY, "power:cpu_frequency"),
    (event::BLOCK_BIO_QUEUE, "block:block_bio_queue"),
    (event::BLOCK_BIO_BACKMERGE, "block:block_bio_backmerge"),
    (event::BLOCK_BIO_FRONTMERGE, "block:block_bio_frontmerge"),
    (event::BLOCK_GETRQ, "block:block_getrq"),
    (event::BLOCK_RQ_INSERT, "block:block_rq_insert"),
    (event::BLOCK_RQ_MERGE, "block:block_rq_merge"),
    (event::BLOCK_RQ_ISSUE, "block:block_rq_issue"),
    (event::BLOCK_RQ_REQUEUE, "block:block_rq_requeue"),
    (event::BLOCK_RQ_COMPLETE, "block:block_rq_complete"),
    (event::CPU_IDLE, "power:cpu_idle"),
    (event::SCHED_BLOCKED_REASON, "sched:sched_blocked_reason"),
    (event::IPI_RAISE, "ipi:ipi_raise"),
    (event::TASK_NEWTASK, "task:task_newtask"),
    (event::TASK_RENAME, "task:task_rename"),
    (event::SCHED_FREE, "sched:sched_process_free"),
    (event::HRTIMER_EXPIRE_EXIT, "timer:hrtimer_expire_exit"),
];

/// An event by name, the number its message would have, and the numbers of its fields.
type Generic = (&'static str, u32, &'static [(&'static str, usize)]);

/// Generic events that have a message elsewhere.
const GENERIC: &[Generic] = &[
    ("hrtimer_start", event::HRTIMER_START, &[("hrtimer", 1), ("function", 2), ("expires", 3)]),
    ("hrtimer_cancel", event::HRTIMER_CANCEL, &[("hrtimer", 1)]),
    ("hrtimer_expire_entry", event::HRTIMER_EXPIRE, &[("hrtimer", 1), ("function", 3)]),
    (
        "sched_migrate_task",
        event::SCHED_MIGRATE,
        &[("comm", 1), ("pid", 2), ("orig_cpu", 4), ("dest_cpu", 5)],
    ),
    (
        "block_rq_merge",
        event::BLOCK_RQ_MERGE,
        &[("dev", 1), ("sector", 2), ("nr_sector", 3), ("bytes", 4), ("rwbs", 5), ("comm", 6)],
    ),
];

/// Names of unknown generic events that are kept; further ones are counted as unknown.
const NAMES_MAX: usize = 256;

/// How often each event occurred.
#[derive(Debug)]
pub(super) struct Counts {
    /// By event number: position in [`EVENTS`] plus 1, 0 for none.
    by_number: Vec<u8>,
    counts: Vec<u64>,
    vectors: Vec<[u64; 2]>,
    others: Vec<(String, u64)>,
    pub(super) unknown: u64,
}

impl Counts {
    pub(super) fn new() -> Counts {
        let length = EVENTS.iter().map(|(number, _)| *number as usize + 1).max().unwrap_or(0);
        let mut by_number = vec![0; length];
        for ((number, _), position) in EVENTS.iter().zip(1..) {
            by_number[*number as usize] = position;
        }
        let (counts, vectors) = (vec![0; EVENTS.len()], vec![[0; 2]; VECTORS.len()]);
        Counts { by_number, counts, vectors, others: Vec::new(), unknown: 0 }
    }

    /// Counts an event; `false` for a number without a name here.
    #[inline]
    pub(super) fn add(&mut self, number: u32) -> bool {
        let position = self.by_number.get(number as usize).copied().unwrap_or(0);
        match self.counts.get_mut(usize::from(position).wrapping_sub(1)) {
            Some(count) => *count += 1,
            None => self.unknown += 1,
        }
        position != 0
    }

    fn add_other(&mut self, name: &str) {
        if let Some((_, count)) = self.others.iter_mut().find(|(known, _)| known == name) {
            *count += 1;
        } else if self.others.len() < NAMES_MAX && name.len() < NAMES_MAX {
            self.others.push((name.to_owned(), 1));
        } else {
            self.unknown += 1;
        }
    }

    /// Name and count of every event that occurred.
    pub(super) fn occurred(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let known = EVENTS.iter().zip(&self.counts).map(|((_, name), count)| ((*name).to_owned(), *count));
        let vectors = VECTORS.iter().zip(&self.vectors).flat_map(|(name, counts)| {
            let name = |end| format!("irq_vectors:{name}_{end}");
            [(name("entry"), counts[0]), (name("exit"), counts[1])]
        });
        let others = self.others.iter().map(|(name, count)| (format!("generic:{name}"), *count));
        known.chain(vectors).chain(others).filter(|(_, count)| *count > 0)
    }
}

/// The fields of an event's message: every one of interest has a number below 8.
#[derive(Default)]
struct Body<'a> {
    integers: [u64; 8],
    texts: [&'a [u8]; 8],
}

impl<'a> Body<'a> {
    fn put(&mut self, number: usize, value: Value<'a>) {
        match value {
            Value::Integer(value) => drop(self.integers.get_mut(number).map(|place| *place = value)),
            Value::Bytes(bytes) => drop(self.texts.get_mut(number).map(|place| *place = bytes)),
        }
    }

    fn tid(&self, number: usize) -> Tid {
        Tid(signed32(self.integers[number]))
    }

    fn prio(&self, number: usize) -> i32 {
        signed32(self.integers[number])
    }

    fn unsigned(&self, number: usize) -> u32 {
        unsigned32(self.integers[number])
    }

    fn comm(&self, number: usize) -> Comm {
        comm(self.texts[number])
    }

    /// An event of the block layer. The error was `errors` before Linux 4.11; I/O priorities are not in the schema.
    fn block(&self, step: BlockStep) -> BlockEvent {
        let letters = if step.has_priority() { 5 } else { 4 };
        let error = if self.integers[7] != 0 { self.prio(7) } else { self.prio(4) };
        BlockEvent {
            step,
            disk: DiskNumber::from_user(self.integers[1]),
            sector: self.integers[2],
            sectors: self.unsigned(3),
            bytes: if step.has_bytes() { self.unsigned(4) } else { 0 },
            priority: 0,
            rwbs: Rwbs::new(self.texts[letters]),
            comm: if step.has_name() { self.comm(letters + 1) } else { Comm::default() },
            error: if step.has_error() { error } else { 0 },
        }
    }

    fn woken(&self) -> Woken {
        Woken { tid: self.tid(2), comm: self.comm(1), prio: self.prio(3), target: CpuId(self.unsigned(5)) }
    }
}

/// What became of an event's message.
pub(super) enum Decoded<'a> {
    /// An event of interest.
    Event(EventKind<'a>),
    /// Known, or unknown and counted; of no interest.
    Passed,
    /// Its message cannot be read.
    Malformed,
}

/// Decodes and counts the message `number` of an event. `function` names the function of an interned symbol.
pub(super) fn decode<'a>(
    number: u32,
    message: &'a [u8],
    counts: &mut Counts,
    function: impl Fn(u64) -> TimerFunction,
) -> Decoded<'a> {
    if number == event::GENERIC {
        return decode_generic(message, counts, function);
    }
    if !counts.add(number) {
        return Decoded::Passed;
    }
    let mut body = Body::default();
    let mut fields = Fields::new(message);
    for (number, value) in fields.by_ref() {
        body.put(number as usize, value);
    }
    if fields.is_broken() {
        return Decoded::Malformed;
    }
    kind(number, &body, function).map_or(Decoded::Passed, Decoded::Event)
}

fn kind<'a>(number: u32, body: &Body<'a>, function: impl Fn(u64) -> TimerFunction) -> Option<EventKind<'a>> {
    let integers = &body.integers;
    Some(match number {
        event::SCHED_SWITCH => EventKind::Switch {
            prev: body.tid(2),
            prev_comm: body.comm(1),
            prev_prio: body.prio(3),
            prev_state: state(integers[4]),
            next: body.tid(6),
            next_comm: body.comm(5),
            next_prio: body.prio(7),
        },
        event::SCHED_WAKING => EventKind::Waking(body.woken()),
        event::SCHED_WAKEUP => EventKind::Wakeup(body.woken()),
        event::SCHED_WAKEUP_NEW => EventKind::WakeupNew(body.woken()),
        event::SCHED_MIGRATE => EventKind::Migrate {
            tid: body.tid(2),
            comm: body.comm(1),
            from: CpuId(body.unsigned(4)),
            to: CpuId(body.unsigned(5)),
        },
        event::SCHED_FORK => {
            EventKind::Fork { parent: body.tid(2), child: body.tid(4), child_comm: body.comm(3) }
        }
        event::SCHED_EXEC => EventKind::Exec { tid: body.tid(2), old: body.tid(3) },
        event::SCHED_EXIT => EventKind::Exit { tid: body.tid(2), comm: body.comm(1) },
        event::IRQ_ENTRY => EventKind::IrqEntry { irq: body.unsigned(1), name: text(body.texts[2]) },
        event::IRQ_EXIT => EventKind::IrqExit { irq: body.unsigned(1) },
        event::SOFTIRQ_RAISE => EventKind::SoftirqRaise { vector: body.unsigned(1) },
        event::SOFTIRQ_ENTRY => EventKind::SoftirqEntry { vector: body.unsigned(1) },
        event::SOFTIRQ_EXIT => EventKind::SoftirqExit { vector: body.unsigned(1) },
        event::HRTIMER_START => EventKind::TimerStart {
            timer: integers[1],
            function: function(integers[2]),
            expires: Nanos::new(integers[3].cast_signed()),
        },
        event::HRTIMER_CANCEL => EventKind::TimerCancel { timer: integers[1] },
        event::HRTIMER_EXPIRE => {
            EventKind::TimerExpire { timer: integers[1], function: function(integers[3]) }
        }
        event::LOCAL_TIMER_ENTRY => EventKind::VectorEntry { name: "local_timer" },
        event::LOCAL_TIMER_EXIT => EventKind::VectorExit { name: "local_timer" },
        event::IPI_ENTRY => EventKind::VectorEntry { name: interrupt_of(body.texts[1]) },
        event::IPI_EXIT => EventKind::VectorExit { name: interrupt_of(body.texts[1]) },
        event::CPU_FREQUENCY => EventKind::Frequency { of: CpuId(body.unsigned(2)), khz: body.unsigned(1) },
        event::BLOCK_BIO_QUEUE => EventKind::Block(body.block(BlockStep::BioQueued)),
        event::BLOCK_BIO_BACKMERGE => EventKind::Block(body.block(BlockStep::BioAppended)),
        event::BLOCK_BIO_FRONTMERGE => EventKind::Block(body.block(BlockStep::BioPrepended)),
        event::BLOCK_GETRQ => EventKind::Block(body.block(BlockStep::RequestMade)),
        event::BLOCK_RQ_INSERT => EventKind::Block(body.block(BlockStep::Inserted)),
        event::BLOCK_RQ_MERGE => EventKind::Block(body.block(BlockStep::Joined)),
        event::BLOCK_RQ_ISSUE => EventKind::Block(body.block(BlockStep::Issued)),
        event::BLOCK_RQ_REQUEUE => EventKind::Block(body.block(BlockStep::Returned)),
        event::BLOCK_RQ_COMPLETE => EventKind::Block(body.block(BlockStep::Completed)),
        event::PRINT => EventKind::Marker { text: text(body.texts[2]).trim_end_matches('\n') },
        _ => return None,
    })
}

fn decode_generic<'a>(
    message: &'a [u8],
    counts: &mut Counts,
    function: impl Fn(u64) -> TimerFunction,
) -> Decoded<'a> {
    let mut fields = Fields::new(message);
    let name =
        text(fields.by_ref().find(|(number, _)| *number == generic::NAME).map_or(&[], |(_, v)| v.bytes()));
    if fields.is_broken() {
        return Decoded::Malformed;
    }
    // Some recorders write `system/name`.
    let bare = name.rsplit(['/', ':']).next().unwrap_or(name);
    if let Some((number, known)) = GENERIC.iter().find(|(known, ..)| *known == bare).map(|(_, n, f)| (n, f)) {
        let mut body = Body::default();
        for (_, field) in Fields::new(message).filter(|(number, _)| *number == generic::FIELD) {
            let mut place = None;
            for (number, value) in Fields::new(field.bytes()) {
                match number {
                    generic::FIELD_NAME => {
                        let name = value.bytes();
                        place = known.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, n)| *n);
                    }
                    generic::FIELD_TEXT | generic::FIELD_INTEGER | generic::FIELD_COUNT => {
                        if let Some(place) = place {
                            body.put(place, value);
                        }
                    }
                    _ => {}
                }
            }
        }
        counts.add(*number);
        return kind(*number, &body, function).map_or(Decoded::Passed, Decoded::Event);
    }
    // What the message of arm64 becomes when its reason has no word here.
    for (name, number, kind) in [
        ("ipi_entry", event::IPI_ENTRY, EventKind::VectorEntry { name: "ipi" }),
        ("ipi_exit", event::IPI_EXIT, EventKind::VectorExit { name: "ipi" }),
    ] {
        if bare == name {
            counts.add(number);
            return Decoded::Event(kind);
        }
    }
    let vector = |end: &str| VECTORS.iter().position(|vector| bare.strip_suffix(end) == Some(*vector));
    if let Some(index) = vector("_entry") {
        counts.vectors[index][0] += 1;
        return Decoded::Event(EventKind::VectorEntry { name: VECTORS[index] });
    }
    if let Some(index) = vector("_exit") {
        counts.vectors[index][1] += 1;
        return Decoded::Event(EventKind::VectorExit { name: VECTORS[index] });
    }
    counts.add_other(bare);
    Decoded::Passed
}

/// The name of an interrupt between processors by the reason arm64 gives it (`arch/arm64/kernel/smp.c`): the words x86
/// has for the same.
fn interrupt_of(reason: &[u8]) -> &'static str {
    match reason {
        b"Rescheduling interrupts" => "reschedule",
        b"Function call interrupts" => "call_function",
        b"IRQ work interrupts" => "irq_work",
        _ => "ipi",
    }
}

/// Why a thread left, from the bits of `prev_state` since Linux 4.14 (`include/linux/sched.h`, `TASK_REPORT`): the trace
/// holds them as they are, without the kernel's own table. Several bits: the lowest tells.
pub(super) fn state(raw: u64) -> LeaveState {
    if raw & 0x100 != 0 {
        return LeaveState::Runnable { preempted: true };
    }
    match raw & 0xff {
        0 => LeaveState::Runnable { preempted: false },
        bits => match bits & bits.wrapping_neg() {
            0x01 => LeaveState::Sleeping,
            0x02 => LeaveState::Uninterruptible,
            0x04 | 0x08 => LeaveState::Stopped,
            0x10 | 0x20 => LeaveState::Dead,
            0x40 => LeaveState::Other(b'P'),
            _ => LeaveState::Other(b'I'),
        },
    }
}

/// A thread's name; what does not fit is cut, as the kernel does.
pub(super) fn comm(bytes: &[u8]) -> Comm {
    let mut raw = [0; 16];
    let length = bytes.len().min(15);
    let end = bytes[..length].iter().position(|byte| *byte == 0).unwrap_or(length);
    raw[..end].copy_from_slice(&bytes[..end]);
    Comm(raw)
}

/// Text up to what is no UTF-8.
pub(super) fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_the_kernels_table() {
        let format = include_str!("../../../tests/fixtures/formats/sched/sched_switch.txt");
        let format = crate::EventFormat::parse("sched", format).unwrap();
        let table = crate::states::StateTable::parse(&format.print_fmt).unwrap();
        for raw in 0..0x200 {
            assert_eq!(state(raw), table.state(raw), "{raw:#x}");
        }
    }

    #[test]
    fn names_are_cut_and_text_ends_where_it_is_none() {
        assert_eq!(comm(b"a-very-long-thread-name").text(), "a-very-long-thr");
        assert_eq!(comm(b"ab\0cd").text(), "ab");
        assert_eq!(text(b"ab\xff"), "ab");
    }
}
