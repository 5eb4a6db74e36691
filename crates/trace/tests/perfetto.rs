//! A Perfetto trace, taken apart by a decoder of the wire format that knows nothing of the writer.

#![allow(clippy::unwrap_used)]

mod support;

use surety_model::event::{Comm, Event, EventKind, LeaveState, TraceSink, Woken};
use surety_trace::write::perfetto::Perfetto;
use surety_trace::{TraceDat, TraceReader};
use surety_units::{CpuId, Nanos, Tid};

/// A field's value: an integer, or bytes.
#[derive(Clone, Debug, PartialEq)]
enum Field {
    Integer(i64),
    Bytes(Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        shift += 7;
        if first & 0x80 == 0 {
            return value;
        }
    }
}

fn message(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Field::Integer(varint(&mut bytes).cast_signed()),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn inside(field: &Field) -> Vec<(u64, Field)> {
    let Field::Bytes(bytes) = field else { panic!("{field:?} is no message") };
    message(bytes)
}

fn number(fields: &[(u64, Field)], wanted: u64) -> i64 {
    let found = fields.iter().find(|(number, _)| *number == wanted);
    let Some((_, Field::Integer(value))) = found else { panic!("no {wanted} in {fields:?}") };
    *value
}

fn text(fields: &[(u64, Field)], wanted: u64) -> String {
    let found = fields.iter().find(|(number, _)| *number == wanted);
    let Some((_, Field::Bytes(value))) = found else { panic!("no {wanted} in {fields:?}") };
    String::from_utf8(value.clone()).unwrap()
}

/// CPU, time, current thread, number of the kind, its message; -1 for a bundle that says events are lost before it.
type Decoded = (i64, i64, i64, i64, Vec<(u64, Field)>);

fn decode(trace: &[u8]) -> Vec<Decoded> {
    let mut events = Vec::new();
    for (number_of_packet, packet) in message(trace) {
        assert_eq!(number_of_packet, 1);
        let packet = inside(&packet);
        assert_eq!((packet.len(), packet[0].0), (1, 1));
        let bundle = inside(&packet[0].1);
        let cpu = number(&bundle, 1);
        for (field, value) in &bundle {
            match field {
                1 => {}
                2 => {
                    let event = inside(value);
                    let (kind, body) = event.last().unwrap();
                    let kind = i64::try_from(*kind).unwrap();
                    events.push((cpu, number(&event, 1), number(&event, 2), kind, inside(body)));
                }
                3 => events.push((cpu, 0, 0, -1, Vec::new())),
                other => panic!("field {other} of a bundle"),
            }
        }
    }
    events
}

#[test]
fn switches_and_wake_ups_are_the_ones_of_the_trace() {
    let file = support::tracedat::fixture();
    let (mut out, mut expected) = (Vec::new(), Vec::new());
    let mut sink = Perfetto::new(&mut out);
    let mut both = |event: &Event<'_>| {
        sink.event(event);
        let (kind, what) = match &event.kind {
            EventKind::Switch { prev, prev_comm, prev_prio, next, next_comm, next_prio, .. } => {
                (4, format!("{prev_comm} {prev} {prev_prio} {next_comm} {next} {next_prio}"))
            }
            EventKind::Waking(w) => (20, format!("{} {} {} {}", w.comm, w.tid, w.prio, w.target.0)),
            EventKind::Wakeup(w) => (17, format!("{} {} {} {}", w.comm, w.tid, w.prio, w.target.0)),
            EventKind::WakeupNew(w) => (114, format!("{} {} {} {}", w.comm, w.tid, w.prio, w.target.0)),
            EventKind::SoftirqEntry { vector } => (24, vector.to_string()),
            EventKind::SoftirqExit { vector } => (25, vector.to_string()),
            EventKind::SoftirqRaise { vector } => (26, vector.to_string()),
            EventKind::IrqEntry { irq, name } => (36, format!("{irq} {name}")),
            EventKind::IrqExit { irq } => (37, irq.to_string()),
            _ => return,
        };
        expected.push((i64::from(event.cpu.0), event.time.get(), i64::from(event.current.0), kind, what));
    };
    TraceDat::open(&file).unwrap().read(&mut both).unwrap();
    let written = sink.finish().unwrap();
    let mut decoded: Vec<(i64, i64, i64, i64, String)> = decode(&out)
        .into_iter()
        .map(|(cpu, time, tid, kind, m)| {
            let n = |field| number(&m, field);
            let what = match kind {
                4 => format!("{} {} {} {} {} {}", text(&m, 1), n(2), n(3), text(&m, 5), n(6), n(7)),
                17 | 20 | 114 => format!("{} {} {} {}", text(&m, 1), n(2), n(3), n(5)),
                36 => format!("{} {}", n(1), text(&m, 2)),
                _ => n(1).to_string(),
            };
            (cpu, time, tid, kind, what)
        })
        .collect();
    assert_eq!(written, expected.len() as u64);
    assert!(expected.len() > 150);
    decoded.sort_by_key(|e| e.0);
    expected.sort_by_key(|e| e.0);
    assert_eq!(decoded, expected);
}

#[test]
fn states_losses_negative_priorities_and_full_bundles() {
    let mut out = Vec::new();
    let mut sink = Perfetto::new(&mut out);
    let event = |time, kind| Event { time: Nanos::new(time), cpu: CpuId(1), current: Tid(7), kind };
    let woken = Woken { tid: Tid(5), comm: Comm::new("d"), prio: -1, target: CpuId(3) };
    let states = [
        (LeaveState::Runnable { preempted: false }, 0),
        (LeaveState::Runnable { preempted: true }, 0x100),
        (LeaveState::Sleeping, 1),
        (LeaveState::Uninterruptible, 2),
        (LeaveState::Dead, 0x10),
        (LeaveState::Other(b'I'), 0x80),
    ];
    for (k, (prev_state, _)) in (0..).zip(states) {
        sink.event(&event(
            k,
            EventKind::Switch {
                prev: Tid(7),
                prev_comm: Comm::new("a"),
                prev_prio: -1,
                prev_state,
                next: Tid(0),
                next_comm: Comm::new("swapper/1"),
                next_prio: 120,
            },
        ));
    }
    sink.event(&event(10, EventKind::Lost { count: Some(3) }));
    for k in 0..5000 {
        sink.event(&event(i64::MAX - 5000 + k, EventKind::Waking(woken)));
    }
    assert_eq!(sink.finish().unwrap(), 5006);
    let events = decode(&out);
    for ((_, expected), (.., m)) in states.iter().zip(&events) {
        assert_eq!((number(m, 4), number(m, 3)), (*expected, -1));
    }
    assert_eq!(events[6].3, -1, "the loss stands between what came before and behind it");
    assert_eq!(events.len(), 5007);
    let times: Vec<i64> = events[7..].iter().map(|e| e.1).collect();
    assert_eq!(times, (0..5000).map(|k| i64::MAX - 5000 + k).collect::<Vec<_>>());
    assert!(message(&out).len() > 3, "full bundles are written before the end");
}
