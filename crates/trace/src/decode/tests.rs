//! Records built by hand through the format texts, in both byte orders; tables that must be refused.

use surety_model::event::{Comm, LeaveState, TimerFunction};

use super::*;

impl EventTable {
    /// Decodes a record field by field, whatever its layout: what [`EventTable::decode_to`] is held to.
    pub(super) fn decode<'a>(
        &'a self,
        index: EventIndex,
        cpu: CpuId,
        time: Nanos,
        record: &'a [u8],
        scratch: &'a mut String,
    ) -> Option<Event<'a>> {
        let entry = self.entries.get(index.index())?;
        let current = Tid(signed32(entry.current.signed(self.endian, record)?));
        Some(Event { time, cpu, current, kind: self.event_kind(entry, record, scratch)? })
    }

    /// Whether the heads of records are as usual, and each of the events.
    pub(super) fn has_usual_layouts(&self) -> [bool; 4] {
        let usual = |entry: &Entry| match &entry.decoder {
            Decoder::Switch(switch) => switch.is_usual,
            Decoder::Wake { is_usual, .. } => *is_usual,
            _ => false,
        };
        let usual = |at: usize| self.entries.get(at).is_some_and(usual);
        [self.has_usual_heads, usual(0), usual(1), usual(2)]
    }

    /// The number of an event, by its place among those given.
    pub(super) fn id_of(&self, index: usize) -> u16 {
        let id = self.by_id.iter().position(|position| usize::from(*position) == index + 1);
        u16::try_from(id.unwrap()).unwrap()
    }
}

/// A format text of fields `(declaration, size, signed)` laid out behind the common ones.
fn text(name: &str, id: u16, fields: &[(&str, usize, bool)], print: &str) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let common = [
        ("unsigned short common_type", 2, false),
        ("short common_spare", 2, false),
        ("int common_pid", 4, true),
    ];
    let mut offset = 0;
    for (declaration, size, signed) in common.iter().chain(fields) {
        text += &format!(
            "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{};\n",
            i32::from(*signed)
        );
        offset += size;
    }
    text + &format!("\nprint fmt: {print}\n")
}

/// A record as a machine of either order writes it.
struct Record {
    endian: Endian,
    bytes: Vec<u8>,
}

impl Record {
    fn new(endian: Endian, id: u16, current: i32) -> Record {
        Record { endian, bytes: Vec::new() }
            .put(id.into(), 2)
            .put(0, 2)
            .put(i64::from(current).cast_unsigned(), 4)
    }

    fn put(mut self, value: u64, size: usize) -> Record {
        match self.endian {
            Endian::Little => self.bytes.extend(&value.to_le_bytes()[..size]),
            Endian::Big => self.bytes.extend(&value.to_be_bytes()[8 - size..]),
        }
        self
    }

    fn text(mut self, text: &[u8]) -> Record {
        self.bytes.extend(text);
        self
    }
}

const STATES: &str = r#""", __print_flags(REC->prev_state & 3, "|", { 1, "S" }, { 2, "D" }) : "R", REC->prev_state & 4 ? "+" : """#;

/// A kernel of its own: other ids, other sizes, other places than today's.
fn formats() -> Vec<(String, String)> {
    let int = |name: &'static str| (name, 4, true);
    let wake =
        [int("pid_t pid"), ("__rel_loc char[] comm", 4, false), int("int prio"), int("int target_cpu")];
    let switch = [
        int("pid_t prev_pid"),
        int("int prev_prio"),
        ("long prev_state", 4, true),
        ("char prev_comm[16]", 16, false),
        ("char next_comm[16]", 16, false),
        ("short next_pid", 2, true),
        int("int next_prio"),
    ];
    let pointer = |name: &'static str| (name, 4, true);
    vec![
        ("sched:sched_switch".to_owned(), text("sched_switch", 7, &switch, STATES)),
        ("sched:sched_waking".to_owned(), text("sched_waking", 9, &wake, "")),
        (
            "timer:hrtimer_start".to_owned(),
            text(
                "hrtimer_start",
                11,
                &[pointer("void * hrtimer"), pointer("void * function"), ("s64 expires", 8, true)],
                "",
            ),
        ),
        ("irq_vectors:local_timer_entry".to_owned(), text("local_timer_entry", 12, &[int("int vector")], "")),
        ("irq_vectors:vector_alloc".to_owned(), text("vector_alloc", 13, &[int("int vector")], "")),
        ("ftrace:print".to_owned(), text("print", 14, &[("char buf[]", 0, false)], "")),
        ("other:sched_switch".to_owned(), text("sched_switch", 15, &[int("int a")], "")),
    ]
}

fn table(endian: Endian, symbols: &str) -> EventTable {
    let formats = formats();
    let pairs = formats.iter().map(|(n, t)| (n.as_str(), t.as_str()));
    EventTable::new(endian, pairs, Symbols::parse(symbols)).unwrap()
}

fn decode(table: &EventTable, record: &Record) -> Option<EventKind<'static>> {
    let index = table.identify(&record.bytes)?;
    let mut scratch = String::new();
    let event = table.decode(index, CpuId(2), Nanos::new(5), &record.bytes, &mut scratch)?;
    assert_eq!((event.time, event.cpu, event.current), (Nanos::new(5), CpuId(2), Tid(-3)));
    Some(match event.kind {
        EventKind::Marker { text } => EventKind::Marker { text: text.to_owned().leak() },
        EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio } => {
            EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio }
        }
        EventKind::Waking(woken) => EventKind::Waking(woken),
        EventKind::VectorEntry { name } => EventKind::VectorEntry { name },
        EventKind::TimerStart { timer, function, expires } => {
            EventKind::TimerStart { timer, function, expires }
        }
        other => panic!("{other:?}"),
    })
}

#[test]
fn records_of_a_foreign_kernel_in_both_orders() {
    for endian in [Endian::Little, Endian::Big] {
        let table = table(endian, "00000000c0de0000 t dl_task_timer\n");
        let new = |id| Record::new(endian, id, -3);
        let name = |text: &str| Comm::new(text).0;
        let switch = new(7)
            .put(300, 4)
            .put(u64::MAX, 4)
            .put(4, 4)
            .text(&name("leaving"))
            .text(b"coming\0leftover!")
            .put(7, 2)
            .put(98, 4);
        assert_eq!(
            decode(&table, &switch),
            Some(EventKind::Switch {
                prev: Tid(300),
                prev_comm: Comm::new("leaving"),
                prev_prio: -1,
                prev_state: LeaveState::Runnable { preempted: true },
                next: Tid(7),
                next_comm: Comm::new("coming"),
                next_prio: 98,
            })
        );
        // The name lies 8 bytes behind its word's end.
        let waking = new(9).put(44, 4).put(6 << 16 | 8, 4).put(120, 4).put(3, 4).text(b"sleep\0\0\0");
        let woken = Woken { tid: Tid(44), comm: Comm::new("sleep"), prio: 120, target: CpuId(3) };
        assert_eq!(decode(&table, &waking), Some(EventKind::Waking(woken)));
        // Pointers are unsigned even where the kernel calls them signed.
        let start = new(11).put(0xffff_0000, 4).put(0xc0de_0000, 4).put(99, 8);
        assert_eq!(
            decode(&table, &start),
            Some(EventKind::TimerStart {
                timer: 0xffff_0000,
                function: TimerFunction::DeadlineReplenish,
                expires: Nanos::new(99)
            })
        );
        assert_eq!(
            decode(&table, &new(12).put(236, 4)),
            Some(EventKind::VectorEntry { name: "local_timer" })
        );
        let marker = new(14).text(b"surety:e:1\n\0\xff\xff");
        assert_eq!(decode(&table, &marker), Some(EventKind::Marker { text: "surety:e:1" }));
    }
}

#[test]
fn what_is_not_decoded_is_told_apart() {
    let table = table(Endian::Little, "");
    let record = |id| Record::new(Endian::Little, id, 1).put(0, 4);
    // Another event of the vectors' system, and another system's event of a known name: known, of no interest.
    for id in [13, 15] {
        let index = table.identify(&record(id).bytes).unwrap();
        assert!(!table.is_decoded(index));
        assert_eq!(table.decode(index, CpuId(0), Nanos::ZERO, &record(id).bytes, &mut String::new()), None);
    }
    for id in [0, 8, 16, u16::MAX] {
        assert_eq!(table.identify(&record(id).bytes), None, "{id}");
    }
    assert_eq!(table.identify(&[]), None);
    // Cut short: no event, at every length.
    let whole = Record::new(Endian::Little, 7, 1).put(300, 4).text(&[0; 46]);
    for length in 2..whole.bytes.len() {
        let short = &whole.bytes[..length];
        let index = table.identify(short).unwrap();
        assert_eq!(
            table.decode(index, CpuId(0), Nanos::ZERO, short, &mut String::new()).is_some(),
            length >= 58,
            "{length}"
        );
    }
}

#[test]
fn tables_that_cannot_be_right_are_refused() {
    let build = |pairs: &[(&str, &str)]| {
        EventTable::new(Endian::Little, pairs.iter().copied(), Symbols::default()).unwrap_err().to_string()
    };
    let waking = text("sched_waking", 1, &[("pid_t pid", 4, true), ("char comm[16]", 16, false)], "");
    assert!(
        build(&[("sched:sched_waking", &waking)]).contains("sched:sched_waking: there is no field `prio`")
    );
    let array = text("irq_handler_exit", 1, &[("int irq[2]", 8, true)], "");
    assert!(build(&[("irq:irq_handler_exit", &array)]).contains("no field `irq` of the kind needed"));
    let scalar = text("print", 1, &[("int buf", 4, true)], "");
    assert!(build(&[("ftrace:print", &scalar)]).contains("no field `buf` of the kind needed"));
    let [one, two] = ["a", "b"].map(|name| text(name, 1, &[], ""));
    assert!(build(&[("s:a", &one), ("s:b", &two)]).contains("its id 1 is already taken by s:a"));
    let switch = formats().remove(0).1.replace("__print_flags", "");
    assert!(build(&[("sched:sched_switch", &switch)]).contains("no flag table for prev_state"));
}

#[test]
fn the_lists_of_events_agree_with_the_decoders() {
    for required in REQUIRED_EVENTS {
        assert!(EVENTS.contains(required), "{required}");
    }
    for event in EVENTS {
        if let Some(name) = event.strip_prefix("irq_vectors:") {
            assert!(!matches!(vector_decoder(name), Decoder::Ignored), "{event}");
        }
    }
    for vector in VECTORS {
        for half in ["entry", "exit"] {
            let name = format!("irq_vectors:{vector}_{half}");
            assert!(EVENTS.contains(&name.as_str()), "{name}");
        }
    }
}
