//! [`EventTable`]: from a record's bytes to an [`Event`], by the formats of the kernel that recorded it.
//!
//! The table is built once from format texts; each event's fields are resolved to offsets then, so that decoding a
//! record is one look-up by id and a few loads. What has no decoder is passed over and counted by name.

use std::collections::BTreeMap;

use surety_model::event::{BlockStep, Event, EventKind, RawEvent, Woken};
use surety_units::{CpuId, Nanos, Tid};

use crate::endian::Endian;
use crate::format::{EventFormat, FormatError};
use crate::symbols::Symbols;

mod block;
mod fields;
mod printf;
mod sched;
mod usual;

use block::Block;
use fields::{Pointer, Scalar, Text, signed32, unsigned32};
use printf::PrintFormats;
use sched::{Switch, Wake};

/// The events to enable for a recording, as `system:name`. Those not in [`REQUIRED_EVENTS`] are optional: kernels
/// without them (no `irq_vectors` outside x86) only show less.
pub const EVENTS: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_raise",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "timer:hrtimer_start",
    "timer:hrtimer_cancel",
    "timer:hrtimer_expire_entry",
    "power:cpu_frequency",
    "irq_vectors:local_timer_entry",
    "irq_vectors:local_timer_exit",
    "irq_vectors:reschedule_entry",
    "irq_vectors:reschedule_exit",
    "irq_vectors:call_function_entry",
    "irq_vectors:call_function_exit",
    "irq_vectors:call_function_single_entry",
    "irq_vectors:call_function_single_exit",
    "irq_vectors:irq_work_entry",
    "irq_vectors:irq_work_exit",
    "irq_vectors:x86_platform_ipi_entry",
    "irq_vectors:x86_platform_ipi_exit",
    "irq_vectors:thermal_apic_entry",
    "irq_vectors:thermal_apic_exit",
    "irq_vectors:threshold_apic_entry",
    "irq_vectors:threshold_apic_exit",
    "irq_vectors:deferred_error_apic_entry",
    "irq_vectors:deferred_error_apic_exit",
    "irq_vectors:error_apic_entry",
    "irq_vectors:error_apic_exit",
    "irq_vectors:spurious_apic_entry",
    "irq_vectors:spurious_apic_exit",
];

/// Those of [`EVENTS`] without which there are no jobs.
pub const REQUIRED_EVENTS: &[&str] = &["sched:sched_switch", "sched:sched_waking"];

/// The event of text written by programs. It cannot be enabled, it is always on; its format must be in the table.
pub const MARKER_EVENT: &str = "ftrace:print";

/// Every vector of `irq_vectors` that pairs an `_entry` with an `_exit`.
pub(crate) const VECTORS: &[&str] = &[
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "x86_platform_ipi",
    "thermal_apic",
    "threshold_apic",
    "deferred_error_apic",
    "error_apic",
    "spurious_apic",
];

/// What an event's format says about an event of interest.
#[derive(Clone, Debug)]
enum Decoder {
    Switch(Box<Switch>),
    Wake {
        kind: Wake,
        tid: Scalar,
        comm: Text,
        prio: Scalar,
        target: Scalar,
        is_usual: bool,
    },
    Migrate {
        tid: Scalar,
        comm: Text,
        from: Scalar,
        to: Scalar,
    },
    Fork {
        parent: Scalar,
        child: Scalar,
        child_comm: Text,
    },
    Exec {
        tid: Scalar,
        old: Scalar,
    },
    Exit {
        tid: Scalar,
        comm: Text,
    },
    IrqEntry {
        irq: Scalar,
        name: Text,
    },
    IrqExit {
        irq: Scalar,
    },
    VectorEntry {
        name: &'static str,
    },
    VectorExit {
        name: &'static str,
    },
    Softirq {
        kind: Softirq,
        vector: Scalar,
    },
    TimerStart {
        timer: Pointer,
        function: Pointer,
        expires: Scalar,
    },
    TimerCancel {
        timer: Pointer,
    },
    TimerExpire {
        timer: Pointer,
        function: Pointer,
    },
    Frequency {
        of: Scalar,
        khz: Scalar,
    },
    FutexEnter {
        address: Pointer,
        operation: Scalar,
        value: Scalar,
    },
    FutexExit,
    Block(Box<Block>),
    Marker {
        text: Text,
    },
    /// Text of kernel code: a format and its arguments.
    Formatted {
        format: Pointer,
        arguments: Text,
    },
    /// Text of kernel code without arguments.
    Constant {
        text: Pointer,
    },
    /// Known by name, of no interest.
    Ignored,
}

#[derive(Clone, Copy, Debug)]
enum Softirq {
    Raise,
    Entry,
    Exit,
}

/// An event of the table: where it stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventIndex(u16);

impl EventIndex {
    /// The position, for arrays of counts as long as [`EventTable::names`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One event the table knows.
#[derive(Clone, Debug)]
struct Entry {
    name: String,
    current: Scalar,
    decoder: Decoder,
    /// The format's text, where there is no decoder.
    text: Box<str>,
}

/// All formats of one kernel, ready to decode its records.
#[derive(Clone, Debug)]
pub struct EventTable {
    endian: Endian,
    symbols: Symbols,
    print_formats: PrintFormats,
    /// Where each record keeps its event's id.
    kind: Scalar,
    /// By event id: position in `entries` plus 1, 0 for none.
    by_id: Vec<u16>,
    entries: Vec<Entry>,
    names: Vec<String>,
    /// What has no decoder becomes [`EventKind::Raw`].
    keeps_undecoded: bool,
    /// All records begin as usual ([`usual::is_head`]).
    has_usual_heads: bool,
}

impl EventTable {
    /// Builds the table from pairs of `system:name` and format text.
    ///
    /// Any event may be given; those without a decoder are only counted. The name in the text wins over the one given,
    /// of which only the system counts.
    ///
    /// # Errors
    /// [`FormatError`]: a text that is no format, an event of interest without a field it needs, an id used twice.
    pub fn new<'a, F>(endian: Endian, formats: F, symbols: Symbols) -> Result<EventTable, FormatError>
    where
        F: IntoIterator<Item = (&'a str, &'a str)>,
    {
        let (table, mut unusable) = EventTable::of_usable(endian, formats, symbols);
        if unusable.is_empty() { Ok(table) } else { Err(unusable.swap_remove(0)) }
    }

    /// The same of texts from elsewhere, a trace file for instance: what cannot be used is left out and said in the
    /// order met. Records of an event left out are unknown to the table.
    pub fn of_usable<'a, F>(endian: Endian, formats: F, symbols: Symbols) -> (EventTable, Vec<FormatError>)
    where
        F: IntoIterator<Item = (&'a str, &'a str)>,
    {
        let mut table = EventTable {
            endian,
            symbols,
            print_formats: PrintFormats::default(),
            kind: Scalar { offset: 0, size: 2, signed: false },
            by_id: Vec::new(),
            entries: Vec::new(),
            names: Vec::new(),
            keeps_undecoded: false,
            has_usual_heads: endian == Endian::Little,
        };
        let mut taken: BTreeMap<u16, String> = BTreeMap::new();
        let mut unusable = Vec::new();
        for (name, text) in formats {
            let system = name.split(':').next().unwrap_or_default();
            let added = EventFormat::parse(system, text).and_then(|format| {
                if let Some(other) = taken.get(&format.id) {
                    let other = other.clone();
                    return Err(FormatError::Duplicate { event: format.full_name(), id: format.id, other });
                }
                table.add(&format, text)?;
                taken.insert(format.id, format.full_name());
                Ok(())
            });
            unusable.extend(added.err());
        }
        (table, unusable)
    }

    /// With the formats of `trace_printk`, lines of `0xADDRESS : "FORMAT"`, of a kernel whose long has `long` bytes.
    pub fn with_print_formats(mut self, text: &str, long: u8) -> EventTable {
        self.print_formats = PrintFormats::parse(text, long);
        self
    }

    /// From now on records without a decoder become events too ([`EventKind::Raw`]).
    pub fn keep_undecoded(&mut self) {
        self.keeps_undecoded = true;
    }

    fn add(&mut self, format: &EventFormat, text: &str) -> Result<(), FormatError> {
        // Everything that can fail comes before the first change.
        let kind = Scalar::of(format, "common_type")?;
        let decoder = decoder(format, self.endian)?;
        let entry = Entry {
            name: format.full_name(),
            current: Scalar::of(format, "common_pid")?,
            text: if matches!(decoder, Decoder::Ignored) { text.into() } else { Box::default() },
            decoder,
        };
        self.kind = kind;
        self.has_usual_heads &= usual::is_head(&kind, &entry.current);
        let id = usize::from(format.id);
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, 0);
        }
        self.names.push(entry.name.clone());
        self.entries.push(entry);
        // At most 65536 distinct ids exist, and an id of 65535 entries before it is still a u16.
        self.by_id[id] = u16::try_from(self.entries.len()).unwrap_or(0);
        Ok(())
    }

    /// `system:name` of every event, by [`EventIndex`].
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The byte order records are read in.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Which event a record is; `None` for an id the table does not have.
    #[inline]
    pub fn identify(&self, record: &[u8]) -> Option<EventIndex> {
        let id = match record.first_chunk().filter(|_| self.has_usual_heads) {
            Some(head) => usual::kind(head).into(),
            None => usize::try_from(self.kind.unsigned(self.endian, record)?).ok()?,
        };
        match self.by_id.get(id) {
            None | Some(0) => None,
            Some(position) => Some(EventIndex(position - 1)),
        }
    }

    /// Whether events of this index become an [`Event`] at all.
    #[inline]
    pub fn is_decoded(&self, index: EventIndex) -> bool {
        self.entries.get(index.index()).is_some_and(|e| !matches!(e.decoder, Decoder::Ignored))
    }

    /// What a record of this event says.
    #[inline]
    fn event_kind<'a>(
        &'a self,
        entry: &'a Entry,
        record: &'a [u8],
        scratch: &'a mut String,
    ) -> Option<EventKind<'a>> {
        match entry.decoder {
            Decoder::Formatted { .. } | Decoder::Constant { .. } => {
                self.printed(&entry.decoder, record, scratch)
            }
            Decoder::Ignored if self.keeps_undecoded => Some(EventKind::Raw(RawEvent {
                name: &entry.name,
                format: &entry.text,
                record,
                is_little_endian: self.endian == Endian::Little,
            })),
            _ => self.kind_of(&entry.decoder, record),
        }
    }

    /// Decodes a record that [`EventTable::identify`] knew and has it looked at. False: an event of no interest, or a record shorter than its format.
    /// Texts that have to be put together first are made in `scratch`.
    #[inline]
    pub(crate) fn decode_to(
        &self,
        index: EventIndex,
        (cpu, time): (CpuId, Nanos),
        record: &[u8],
        scratch: &mut String,
        take: impl FnOnce(&Event<'_>),
    ) -> bool {
        let Some(entry) = self.entries.get(index.index()) else { return false };
        let current = match record.first_chunk().filter(|_| self.has_usual_heads) {
            Some(head) => usual::current(head),
            None => match entry.current.signed(self.endian, record) {
                Some(current) => Tid(signed32(current)),
                None => return false,
            },
        };
        // Each event is made where it is shown: one that is put together first would be copied in other parts than it was written
        // in, and wait for them.
        match &entry.decoder {
            Decoder::Switch(s) if s.is_usual => {
                let Some(record) = record.first_chunk() else { return false };
                take(&Event { time, cpu, current, kind: usual::switch(record, &s.states) });
            }
            Decoder::Wake { kind, is_usual: true, .. } => {
                let Some(record) = record.first_chunk() else { return false };
                take(&Event { time, cpu, current, kind: kind.event(usual::woken(record)) });
            }
            _ => {
                let Some(kind) = self.event_kind(entry, record, scratch) else { return false };
                take(&Event { time, cpu, current, kind });
            }
        }
        true
    }

    /// What kernel code printed into the trace.
    #[cold]
    fn printed<'a>(
        &self,
        decoder: &Decoder,
        record: &[u8],
        scratch: &'a mut String,
    ) -> Option<EventKind<'a>> {
        scratch.clear();
        match decoder {
            Decoder::Formatted { format, arguments } => {
                let address = format.read(self.endian, record)?;
                let arguments = arguments.bytes(self.endian, record)?;
                self.print_formats.format(address, arguments, self.endian, scratch);
            }
            Decoder::Constant { text } => {
                self.print_formats.plain(text.read(self.endian, record)?, scratch);
            }
            _ => return None,
        }
        Some(EventKind::Marker { text: scratch.trim_end_matches('\n') })
    }

    #[inline]
    fn kind_of<'a>(&self, decoder: &Decoder, record: &'a [u8]) -> Option<EventKind<'a>> {
        let endian = self.endian;
        let tid = |field: &Scalar| field.signed(endian, record).map(|v| Tid(signed32(v)));
        let prio = |field: &Scalar| field.signed(endian, record).map(signed32);
        let number = |field: &Scalar| field.unsigned(endian, record).map(unsigned32);
        let cpu = |field: &Scalar| number(field).map(CpuId);
        let comm = |field: &Text| field.comm(endian, record);
        Some(match decoder {
            Decoder::Switch(s) => EventKind::Switch {
                prev: tid(&s.prev)?,
                prev_comm: comm(&s.prev_comm)?,
                prev_prio: prio(&s.prev_prio)?,
                prev_state: s.states.state(s.prev_state.unsigned(endian, record)?),
                next: tid(&s.next)?,
                next_comm: comm(&s.next_comm)?,
                next_prio: prio(&s.next_prio)?,
            },
            Decoder::Wake { kind, tid: id, comm: name, prio: priority, target, .. } => kind.event(Woken {
                tid: tid(id)?,
                comm: comm(name)?,
                prio: prio(priority)?,
                target: cpu(target)?,
            }),
            Decoder::Migrate { tid: id, comm: name, from, to } => {
                EventKind::Migrate { tid: tid(id)?, comm: comm(name)?, from: cpu(from)?, to: cpu(to)? }
            }
            Decoder::Fork { parent, child, child_comm } => {
                EventKind::Fork { parent: tid(parent)?, child: tid(child)?, child_comm: comm(child_comm)? }
            }
            Decoder::Exec { tid: id, old } => EventKind::Exec { tid: tid(id)?, old: tid(old)? },
            Decoder::Exit { tid: id, comm: name } => EventKind::Exit { tid: tid(id)?, comm: comm(name)? },
            Decoder::IrqEntry { irq, name } => {
                EventKind::IrqEntry { irq: number(irq)?, name: name.text(endian, record)? }
            }
            Decoder::IrqExit { irq } => EventKind::IrqExit { irq: number(irq)? },
            Decoder::VectorEntry { name } => EventKind::VectorEntry { name },
            Decoder::VectorExit { name } => EventKind::VectorExit { name },
            Decoder::Softirq { kind, vector } => {
                let vector = number(vector)?;
                match kind {
                    Softirq::Raise => EventKind::SoftirqRaise { vector },
                    Softirq::Entry => EventKind::SoftirqEntry { vector },
                    Softirq::Exit => EventKind::SoftirqExit { vector },
                }
            }
            Decoder::TimerStart { timer, function, expires } => EventKind::TimerStart {
                timer: timer.read(endian, record)?,
                function: self.symbols.timer_function(function.read(endian, record)?),
                expires: Nanos::new(expires.signed(endian, record)?),
            },
            Decoder::TimerCancel { timer } => EventKind::TimerCancel { timer: timer.read(endian, record)? },
            Decoder::TimerExpire { timer, function } => EventKind::TimerExpire {
                timer: timer.read(endian, record)?,
                function: self.symbols.timer_function(function.read(endian, record)?),
            },
            Decoder::Frequency { of, khz } => EventKind::Frequency { of: cpu(of)?, khz: number(khz)? },
            Decoder::FutexEnter { address, operation, value } => EventKind::FutexEnter {
                address: address.read(endian, record)?,
                operation: number(operation)?,
                value: number(value)?,
            },
            Decoder::FutexExit => EventKind::FutexExit,
            Decoder::Block(block) => EventKind::Block(block.event(endian, record)?),
            Decoder::Marker { text } => {
                EventKind::Marker { text: text.text(endian, record)?.trim_end_matches('\n') }
            }
            // What is put together has its own function.
            Decoder::Formatted { .. } | Decoder::Constant { .. } | Decoder::Ignored => return None,
        })
    }
}

/// Whether events of interest of that system have addresses of functions, which the symbol table names.
pub(crate) fn has_functions(system: &str) -> bool {
    system == "timer"
}

/// Resolves the fields an event of interest needs.
fn decoder(format: &EventFormat, endian: Endian) -> Result<Decoder, FormatError> {
    let scalar = |name| Scalar::of(format, name);
    let text = |name| Text::of(format, name);
    let pointer = |name| Pointer::of(format, name);
    let wake = |kind| -> Result<Decoder, FormatError> {
        let (tid, comm) = (scalar("pid")?, text("comm")?);
        let (prio, target) = (scalar("prio")?, scalar("target_cpu")?);
        let is_usual = usual::is_wake(endian, &comm, [&tid, &prio, &target]);
        Ok(Decoder::Wake { kind, tid, comm, prio, target, is_usual })
    };
    let softirq = |kind| Ok(Decoder::Softirq { kind, vector: scalar("vec")? });
    match (format.system.as_str(), format.name.as_str()) {
        ("sched", "sched_switch") => Ok(Decoder::Switch(Box::new(Switch::of(format, endian)?))),
        ("sched", "sched_waking") => wake(Wake::Waking),
        ("sched", "sched_wakeup") => wake(Wake::Wakeup),
        ("sched", "sched_wakeup_new") => wake(Wake::New),
        ("sched", "sched_migrate_task") => Ok(Decoder::Migrate {
            tid: scalar("pid")?,
            comm: text("comm")?,
            from: scalar("orig_cpu")?,
            to: scalar("dest_cpu")?,
        }),
        ("sched", "sched_process_fork") => Ok(Decoder::Fork {
            parent: scalar("parent_pid")?,
            child: scalar("child_pid")?,
            child_comm: text("child_comm")?,
        }),
        ("sched", "sched_process_exec") => Ok(Decoder::Exec { tid: scalar("pid")?, old: scalar("old_pid")? }),
        ("sched", "sched_process_exit") => Ok(Decoder::Exit { tid: scalar("pid")?, comm: text("comm")? }),
        ("irq", "irq_handler_entry") => Ok(Decoder::IrqEntry { irq: scalar("irq")?, name: text("name")? }),
        ("irq", "irq_handler_exit") => Ok(Decoder::IrqExit { irq: scalar("irq")? }),
        ("irq", "softirq_raise") => softirq(Softirq::Raise),
        ("irq", "softirq_entry") => softirq(Softirq::Entry),
        ("irq", "softirq_exit") => softirq(Softirq::Exit),
        ("timer", "hrtimer_start") => Ok(Decoder::TimerStart {
            timer: pointer("hrtimer")?,
            function: pointer("function")?,
            expires: scalar("expires")?,
        }),
        ("timer", "hrtimer_cancel") => Ok(Decoder::TimerCancel { timer: pointer("hrtimer")? }),
        ("timer", "hrtimer_expire_entry") => {
            Ok(Decoder::TimerExpire { timer: pointer("hrtimer")?, function: pointer("function")? })
        }
        ("power", "cpu_frequency") => Ok(Decoder::Frequency { of: scalar("cpu_id")?, khz: scalar("state")? }),
        ("syscalls", "sys_enter_futex") => Ok(Decoder::FutexEnter {
            address: pointer("uaddr")?,
            operation: scalar("op")?,
            value: scalar("val")?,
        }),
        ("syscalls", "sys_exit_futex") => Ok(Decoder::FutexExit),
        ("ftrace", "print") => Ok(Decoder::Marker { text: text("buf")? }),
        ("ftrace", "bprint") => Ok(Decoder::Formatted { format: pointer("fmt")?, arguments: text("buf")? }),
        ("ftrace", "bputs") => Ok(Decoder::Constant { text: pointer("str")? }),
        ("irq_vectors", name) => Ok(vector_decoder(name)),
        ("block", name) => block_decoder(name, format),
        _ => Ok(Decoder::Ignored),
    }
}

/// A step of a bio or a request.
fn block_decoder(name: &str, format: &EventFormat) -> Result<Decoder, FormatError> {
    match BlockStep::of(name) {
        Some(step) => Ok(Decoder::Block(Box::new(Block::of(step, format)?))),
        None => Ok(Decoder::Ignored),
    }
}

/// Entry or exit of a vector with a known name.
fn vector_decoder(name: &str) -> Decoder {
    let known = |stem: &str| VECTORS.iter().copied().find(|v| *v == stem);
    if let Some(name) = name.strip_suffix("_entry").and_then(known) {
        Decoder::VectorEntry { name }
    } else if let Some(name) = name.strip_suffix("_exit").and_then(known) {
        Decoder::VectorExit { name }
    } else {
        Decoder::Ignored
    }
}

#[cfg(test)]
mod tests;
