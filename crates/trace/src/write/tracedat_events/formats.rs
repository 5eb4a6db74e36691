//! The formats of the events we write ourselves, and records of them.
//!
//! One table, [`DESCRIBED`], says for each event its fields; their offsets follow from C's rule that a value of n bytes
//! stands on a multiple of n. [`Record`] puts values at the same offsets, so table and records cannot disagree as long as
//! the order of fields is the same; a test reads every kind back. Names of events and fields are the kernel's, so that
//! other programs and their plugins know them.

use surety_model::event::{BlockEvent, Comm, EventKind, LeaveState, TimerFunction, Woken};
use surety_units::Tid;

use super::TEXT_MAX;
use crate::decode::VECTORS;

/// What the kernel says of a page with a long of eight bytes.
pub(super) const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
/// And of the records in it.
pub(super) const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\
    \ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
/// Names of the addresses that stand for timer functions.
pub(super) const SYMBOLS: &str = "ffffffff81000100 t dl_task_timer\nffffffff81000200 t hrtimer_wakeup\n\
    ffffffff81000300 t tick_nohz_handler\nffffffff81000400 t other_timer\nffffffff81000500 t end_of_timers\n";

fn address(function: TimerFunction) -> u64 {
    match function {
        TimerFunction::DeadlineReplenish => 0xffff_ffff_8100_0100,
        TimerFunction::Wakeup => 0xffff_ffff_8100_0200,
        TimerFunction::Tick => 0xffff_ffff_8100_0300,
        TimerFunction::Other => 0xffff_ffff_8100_0400,
    }
}

/// A field's type.
#[derive(Clone, Copy, Debug)]
enum Type {
    Int,
    Unsigned,
    Long,
    Address,
    Name,
    /// A word that says where in the record the text is and how long.
    Text,
    /// Text to the record's end.
    Tail,
    /// The number of a disk, a sector, an I/O priority, the letters of what is done.
    Disk,
    Sector,
    Priority,
    Letters,
}

impl Type {
    /// The declaration of a field, its size, its alignment, and whether it has a sign.
    fn of(self, name: &str) -> (String, usize, usize, u8) {
        match self {
            Type::Int => (format!("int {name}"), 4, 4, 1),
            Type::Unsigned => (format!("unsigned int {name}"), 4, 4, 0),
            Type::Long => (format!("s64 {name}"), 8, 8, 1),
            Type::Address => (format!("void * {name}"), 8, 8, 0),
            Type::Name => (format!("char {name}[16]"), 16, 1, 0),
            Type::Text => (format!("__data_loc char[] {name}"), 4, 4, 0),
            Type::Tail => (format!("char {name}[]"), 0, 1, 0),
            Type::Disk => (format!("dev_t {name}"), 4, 4, 0),
            Type::Sector => (format!("sector_t {name}"), 8, 8, 0),
            Type::Priority => (format!("unsigned short {name}"), 2, 2, 0),
            Type::Letters => (format!("char {name}[10]"), 10, 1, 0),
        }
    }
}

/// System, name, fields, print format.
type Described = (&'static str, &'static str, &'static [(Type, &'static str)], &'static str);

const WOKEN: &[(Type, &str)] =
    &[(Type::Name, "comm"), (Type::Int, "pid"), (Type::Int, "prio"), (Type::Int, "target_cpu")];
const WOKEN_PRINT: &str =
    "\"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, REC->target_cpu";
const SOFTIRQ: &[(Type, &str)] = &[(Type::Unsigned, "vec")];
const SOFTIRQ_PRINT: &str = "\"vec=%u\", REC->vec";

/// Bios, and requests that are made of them.
const BIO: &[(Type, &str)] = &[
    (Type::Disk, "dev"),
    (Type::Sector, "sector"),
    (Type::Unsigned, "nr_sector"),
    (Type::Letters, "rwbs"),
    (Type::Name, "comm"),
];
/// Requests on their way to the driver.
const REQUEST: &[(Type, &str)] = &[
    (Type::Disk, "dev"),
    (Type::Sector, "sector"),
    (Type::Unsigned, "nr_sector"),
    (Type::Unsigned, "bytes"),
    (Type::Priority, "ioprio"),
    (Type::Letters, "rwbs"),
    (Type::Name, "comm"),
    (Type::Text, "cmd"),
];
/// Requests that come back; of one that was not done the kernel prints no error.
const BACK: &[(Type, &str)] = &[
    (Type::Disk, "dev"),
    (Type::Sector, "sector"),
    (Type::Unsigned, "nr_sector"),
    (Type::Int, "error"),
    (Type::Priority, "ioprio"),
    (Type::Letters, "rwbs"),
    (Type::Text, "cmd"),
];
/// A disk's numbers, and an I/O priority, in arguments of a print format.
macro_rules! disk {
    () => {
        "((unsigned int) ((REC->dev) >> 20)), ((unsigned int) ((REC->dev) & ((1U << 20) - 1)))"
    };
}
macro_rules! priority {
    () => {
        "__print_symbolic((((REC->ioprio) >> 13) & (8 - 1)), { 0, \"none\" }, { 1, \"rt\" }, { 2, \"be\" }, \
         { 3, \"idle\" }, { 7, \"invalid\" }), (((REC->ioprio) >> 3) & ((1 << 10) - 1)), ((REC->ioprio) & ((1 << 3) - 1))"
    };
}
const BIO_PRINT: &str = concat!(
    "\"%d,%d %s %llu + %u [%s]\", ",
    disk!(),
    ", REC->rwbs, (unsigned long long)REC->sector, REC->nr_sector, REC->comm"
);
const REQUEST_PRINT: &str = concat!(
    "\"%d,%d %s %u (%s) %llu + %u %s,%u,%u [%s]\", ",
    disk!(),
    ", REC->rwbs, REC->bytes, __get_str(cmd), (unsigned long long)REC->sector, REC->nr_sector, ",
    priority!(),
    ", REC->comm"
);
const BACK_PRINT: &str = concat!(
    "\"%d,%d %s (%s) %llu + %u %s,%u,%u [%d]\", ",
    disk!(),
    ", REC->rwbs, __get_str(cmd), (unsigned long long)REC->sector, REC->nr_sector, ",
    priority!(),
    ", REC->error"
);

/// Every event but the vectors, which differ in name only.
const DESCRIBED: &[Described] = &[
    (
        "ftrace",
        "print",
        &[(Type::Address, "ip"), (Type::Tail, "buf")],
        "\"%ps: %s\", (void *)REC->ip, REC->buf",
    ),
    (
        "sched",
        "sched_switch",
        &[
            (Type::Name, "prev_comm"),
            (Type::Int, "prev_pid"),
            (Type::Int, "prev_prio"),
            (Type::Long, "prev_state"),
            (Type::Name, "next_comm"),
            (Type::Int, "next_pid"),
            (Type::Int, "next_prio"),
        ],
        // The table of states comes from the letters that occur.
        "",
    ),
    ("sched", "sched_waking", WOKEN, WOKEN_PRINT),
    ("sched", "sched_wakeup", WOKEN, WOKEN_PRINT),
    ("sched", "sched_wakeup_new", WOKEN, WOKEN_PRINT),
    (
        "sched",
        "sched_migrate_task",
        &[(Type::Name, "comm"), (Type::Int, "pid"), (Type::Int, "orig_cpu"), (Type::Int, "dest_cpu")],
        "\"comm=%s pid=%d orig_cpu=%d dest_cpu=%d\", REC->comm, REC->pid, REC->orig_cpu, REC->dest_cpu",
    ),
    (
        "sched",
        "sched_process_fork",
        &[(Type::Int, "parent_pid"), (Type::Name, "child_comm"), (Type::Int, "child_pid")],
        "\"pid=%d child_comm=%s child_pid=%d\", REC->parent_pid, REC->child_comm, REC->child_pid",
    ),
    (
        "sched",
        "sched_process_exec",
        &[(Type::Int, "pid"), (Type::Int, "old_pid")],
        "\"pid=%d old_pid=%d\", REC->pid, REC->old_pid",
    ),
    (
        "sched",
        "sched_process_exit",
        &[(Type::Name, "comm"), (Type::Int, "pid")],
        "\"comm=%s pid=%d\", REC->comm, REC->pid",
    ),
    (
        "irq",
        "irq_handler_entry",
        &[(Type::Unsigned, "irq"), (Type::Text, "name")],
        "\"irq=%u name=%s\", REC->irq, __get_str(name)",
    ),
    ("irq", "irq_handler_exit", &[(Type::Unsigned, "irq")], "\"irq=%u\", REC->irq"),
    ("irq", "softirq_raise", SOFTIRQ, SOFTIRQ_PRINT),
    ("irq", "softirq_entry", SOFTIRQ, SOFTIRQ_PRINT),
    ("irq", "softirq_exit", SOFTIRQ, SOFTIRQ_PRINT),
    (
        "timer",
        "hrtimer_start",
        &[(Type::Address, "hrtimer"), (Type::Address, "function"), (Type::Long, "expires")],
        "\"hrtimer=%p function=%ps expires=%lld\", REC->hrtimer, REC->function, REC->expires",
    ),
    ("timer", "hrtimer_cancel", &[(Type::Address, "hrtimer")], "\"hrtimer=%p\", REC->hrtimer"),
    (
        "timer",
        "hrtimer_expire_entry",
        &[(Type::Address, "hrtimer"), (Type::Address, "function")],
        "\"hrtimer=%p function=%ps\", REC->hrtimer, REC->function",
    ),
    (
        "power",
        "cpu_frequency",
        &[(Type::Unsigned, "state"), (Type::Unsigned, "cpu_id")],
        "\"state=%u cpu_id=%u\", REC->state, REC->cpu_id",
    ),
    (
        "syscalls",
        "sys_enter_futex",
        &[(Type::Address, "uaddr"), (Type::Unsigned, "op"), (Type::Unsigned, "val")],
        "\"uaddr: %p, op: 0x%x, val: 0x%x\", REC->uaddr, REC->op, REC->val",
    ),
    ("syscalls", "sys_exit_futex", &[], "\"%s\", \"\""),
    ("block", "block_bio_queue", BIO, BIO_PRINT),
    ("block", "block_bio_backmerge", BIO, BIO_PRINT),
    ("block", "block_bio_frontmerge", BIO, BIO_PRINT),
    ("block", "block_getrq", BIO, BIO_PRINT),
    ("block", "block_rq_insert", REQUEST, REQUEST_PRINT),
    ("block", "block_rq_merge", REQUEST, REQUEST_PRINT),
    ("block", "block_rq_issue", REQUEST, REQUEST_PRINT),
    ("block", "block_rq_requeue", BACK, BACK_PRINT),
    ("block", "block_rq_complete", BACK, BACK_PRINT),
];

/// The first number of an event; lower ones are the tracer's own on every kernel.
const FIRST: u16 = 32;
/// The number that the tracer's own event of text has on every kernel.
const PRINT: u16 = 5;
/// The first number of an event that is carried over: above all that are described here.
pub(super) const FIRST_CARRIED: u16 = 1024;

/// The kernel's text of a format under another number; `None` where the event's number is not the first two bytes of a record.
pub(super) fn renumbered(text: &str, number: usize) -> Option<String> {
    let kind = text.lines().find(|line| line.contains(" common_type;"))?;
    if !kind.contains("offset:0;") || !kind.contains("size:2;") {
        return None;
    }
    let line = text.lines().find(|line| line.starts_with("ID:"))?;
    Some(text.replacen(line, &format!("ID: {number}"), 1))
}

/// Bytes of the fields that every record begins with.
const COMMON: usize = 8;
const COMMON_FIELDS: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// The letters of `prev_state` and their bits, as the kernel has them since 4.14; letters it does not have get a bit
/// above when they first occur.
#[derive(Clone, Debug, Default)]
pub(super) struct Letters {
    others: Vec<u8>,
}

/// Letters of the kernel, from bit 0 on. Several mean the same to us; the first is written.
const KERNEL_LETTERS: &[u8] = b"SDTtXZPI";
/// The bit of a preempted thread.
const PREEMPTED: i64 = 1 << KERNEL_LETTERS.len();
/// Letters beyond the kernel's have the bits up to the sign.
const OTHERS_MAX: usize = 63 - 1 - KERNEL_LETTERS.len();

impl Letters {
    fn bits(&mut self, state: LeaveState) -> i64 {
        let of = |letter: u8| KERNEL_LETTERS.iter().position(|l| *l == letter).map(|bit| 1 << bit);
        match state {
            LeaveState::Runnable { preempted: true } => PREEMPTED,
            LeaveState::Runnable { preempted: false } => 0,
            LeaveState::Sleeping => 1,
            LeaveState::Uninterruptible => 1 << 1,
            LeaveState::Stopped => 1 << 2,
            LeaveState::Dead => 1 << 4,
            LeaveState::Other(letter) => {
                let letter = if letter.is_ascii_alphanumeric() { letter } else { b'?' };
                of(letter).unwrap_or_else(|| self.other(letter))
            }
        }
    }

    fn other(&mut self, letter: u8) -> i64 {
        let place = self.others.iter().position(|l| *l == letter).unwrap_or_else(|| {
            if self.others.len() < OTHERS_MAX {
                self.others.push(letter);
            }
            self.others.len() - 1
        });
        PREEMPTED << 1 << place
    }

    /// The print format of `sched_switch`.
    fn print(&self) -> String {
        let entry = |(bit, letter): (i64, u8)| format!("{{ {bit:#x}, \"{}\" }}", char::from(letter));
        let kernel = (0..).zip(KERNEL_LETTERS).map(|(bit, letter)| (1 << bit, *letter));
        let others = (1..).zip(&self.others).map(|(bit, letter)| (PREEMPTED << bit, *letter));
        let table: Vec<String> = kernel.chain(others).map(entry).collect();
        let mask = !PREEMPTED & i64::MAX;
        format!(
            "\"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d\", \
             REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & {mask:#x}) ? \
             __print_flags(REC->prev_state & {mask:#x}, \"|\", {}) : \"R\", \
             REC->prev_state & {PREEMPTED:#x} ? \"+\" : \"\", REC->next_comm, REC->next_pid, REC->next_prio",
            table.join(", ")
        )
    }
}

/// The numbers of the events we write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Formats;

impl Formats {
    pub(super) fn new() -> Formats {
        Formats
    }

    /// `system:event` and text of every format.
    pub(super) fn texts(self, letters: &Letters) -> Vec<(String, String)> {
        let mut texts: Vec<(String, String)> = DESCRIBED
            .iter()
            .map(|(system, name, fields, print)| {
                let print = if *name == "sched_switch" { letters.print() } else { (*print).to_owned() };
                (format!("{system}:{name}"), text(name, number(name), fields, &print))
            })
            .collect();
        for (place, vector) in VECTORS.iter().enumerate() {
            for (end, name) in ["entry", "exit"].into_iter().enumerate() {
                let name = format!("{vector}_{name}");
                let text = text(&name, vector_number(place, end), &[], "\"%s\", \"\"");
                texts.push((format!("irq_vectors:{name}"), text));
            }
        }
        texts
    }

    /// Fills `record`; `false` for a kind without a format.
    pub(super) fn fill(
        self,
        current: Tid,
        kind: &EventKind<'_>,
        letters: &mut Letters,
        record: &mut Record,
    ) -> bool {
        let known = |name: &str| record_of(name, current);
        let vector = |name: &str, end| {
            let place = VECTORS.iter().position(|v| *v == name)?;
            Some(Record::new(vector_number(place, end), current))
        };
        let woken = |name, woken: Woken| {
            let target = woken.target.0.cast_signed();
            known(name).name(woken.comm).int(woken.tid.0).int(woken.prio).int(target)
        };
        let softirq = |name, vector: u32| known(name).int(vector.cast_signed());
        let made = match *kind {
            EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio } => {
                known("sched_switch")
                    .name(prev_comm)
                    .int(prev.0)
                    .int(prev_prio)
                    .long(letters.bits(prev_state))
                    .name(next_comm)
                    .int(next.0)
                    .int(next_prio)
            }
            EventKind::Waking(thread) => woken("sched_waking", thread),
            EventKind::Wakeup(thread) => woken("sched_wakeup", thread),
            EventKind::WakeupNew(thread) => woken("sched_wakeup_new", thread),
            EventKind::Migrate { tid, comm, from, to } => known("sched_migrate_task")
                .name(comm)
                .int(tid.0)
                .int(from.0.cast_signed())
                .int(to.0.cast_signed()),
            EventKind::Fork { parent, child, child_comm } => {
                known("sched_process_fork").int(parent.0).name(child_comm).int(child.0)
            }
            EventKind::Exec { tid, old } => known("sched_process_exec").int(tid.0).int(old.0),
            EventKind::Exit { tid, comm } => known("sched_process_exit").name(comm).int(tid.0),
            EventKind::IrqEntry { irq, name } => known("irq_handler_entry").int(irq.cast_signed()).text(name),
            EventKind::IrqExit { irq } => known("irq_handler_exit").int(irq.cast_signed()),
            EventKind::SoftirqRaise { vector } => softirq("softirq_raise", vector),
            EventKind::SoftirqEntry { vector } => softirq("softirq_entry", vector),
            EventKind::SoftirqExit { vector } => softirq("softirq_exit", vector),
            EventKind::TimerStart { timer, function, expires } => known("hrtimer_start")
                .long(timer.cast_signed())
                .long(address(function).cast_signed())
                .long(expires.get()),
            EventKind::TimerCancel { timer } => known("hrtimer_cancel").long(timer.cast_signed()),
            EventKind::TimerExpire { timer, function } => {
                known("hrtimer_expire_entry").long(timer.cast_signed()).long(address(function).cast_signed())
            }
            EventKind::Frequency { of, khz } => {
                known("cpu_frequency").int(khz.cast_signed()).int(of.0.cast_signed())
            }
            EventKind::FutexEnter { address, operation, value } => known("sys_enter_futex")
                .long(address.cast_signed())
                .int(operation.cast_signed())
                .int(value.cast_signed()),
            EventKind::FutexExit => known("sys_exit_futex"),
            EventKind::Block(event) => block(known(event.step.name()), &event),
            EventKind::Marker { text } => known("print").long(0).tail(text),
            EventKind::VectorEntry { name } => match vector(name, 0) {
                Some(made) => made,
                None => return false,
            },
            EventKind::VectorExit { name } => match vector(name, 1) {
                Some(made) => made,
                None => return false,
            },
            _ => return false,
        };
        *record = made.finish();
        true
    }
}

fn block(record: Record, event: &BlockEvent) -> Record {
    let step = event.step;
    let place = record.int(event.disk.to_kernel().cast_signed()).long(event.sector.cast_signed());
    let mut record = place.int(event.sectors.cast_signed());
    if step.has_bytes() {
        record = record.int(event.bytes.cast_signed());
    } else if step.has_priority() {
        record = record.int(event.error);
    }
    if step.has_priority() {
        record = record.short(event.priority);
    }
    record = record.letters(event.rwbs.text());
    if step.has_name() {
        record = record.name(event.comm);
    }
    if step.has_priority() { record.text("") } else { record }
}

fn record_of(name: &str, current: Tid) -> Record {
    Record::new(number(name), current)
}

/// The number of an event of [`DESCRIBED`].
fn number(name: &str) -> u16 {
    match DESCRIBED.iter().position(|(_, n, ..)| *n == name) {
        Some(0) | None => PRINT,
        Some(place) => FIRST + place as u16,
    }
}

fn vector_number(place: usize, end: usize) -> u16 {
    FIRST + (DESCRIBED.len() + 2 * place + end) as u16
}

/// A format in the kernel's words.
fn text(name: &str, number: u16, fields: &[(Type, &str)], print: &str) -> String {
    let mut at = COMMON;
    let mut lines = String::new();
    for (kind, name) in fields {
        let (declaration, size, alignment, sign) = kind.of(name);
        at = at.next_multiple_of(alignment);
        lines.push_str(&format!("\tfield:{declaration};\toffset:{at};\tsize:{size};\tsigned:{sign};\n"));
        at += size;
    }
    format!("name: {name}\nID: {number}\nformat:\n{COMMON_FIELDS}{lines}\nprint fmt: {print}\n")
}

/// The bytes of one record.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) bytes: Vec<u8>,
    /// Whether a text was too long.
    pub(super) cut: bool,
    /// A text that goes behind all fields, and where its word is.
    behind: Option<(usize, Vec<u8>)>,
}

impl Record {
    fn new(number: u16, current: Tid) -> Record {
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(current.0.to_le_bytes());
        Record { bytes, ..Record::default() }
    }

    fn align(&mut self, alignment: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), 0);
    }

    fn int(mut self, value: i32) -> Record {
        self.align(4);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    fn long(mut self, value: i64) -> Record {
        self.align(8);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    fn short(mut self, value: u16) -> Record {
        self.align(2);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Ten places for letters.
    fn letters(mut self, text: &str) -> Record {
        let end = self.bytes.len() + 10;
        self.bytes.extend(text.bytes().take(10));
        self.bytes.resize(end, 0);
        self
    }

    fn name(mut self, comm: Comm) -> Record {
        self.bytes.extend(comm.0);
        self
    }

    fn text(mut self, text: &str) -> Record {
        let text = self.shortened(text);
        self.align(4);
        self.behind = Some((self.bytes.len(), text));
        self.bytes.extend([0; 4]);
        self
    }

    fn tail(mut self, text: &str) -> Record {
        let text = self.shortened(text);
        self.bytes.extend(text);
        self
    }

    /// At most [`TEXT_MAX`] bytes, and the zero behind them.
    fn shortened(&mut self, text: &str) -> Vec<u8> {
        let end = (0..=text.len().min(TEXT_MAX)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.cut = end < text.len();
        let mut bytes = text.as_bytes()[..end].to_vec();
        bytes.push(0);
        bytes
    }

    /// With the text behind the fields, in whole words.
    fn finish(mut self) -> Record {
        if let Some((at, text)) = self.behind.take() {
            // A record fits a page, so both halves fit 16 bits.
            let word = (text.len() as u32) << 16 | self.bytes.len() as u32;
            self.bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            self.bytes.extend(text);
        }
        self.align(4);
        self
    }
}
