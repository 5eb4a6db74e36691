//! [`Perfetto`]: events as a Perfetto trace, which its viewer and its trace processor open.
//!
//! The file is a protobuf message `Trace`; every number here is a field's in Perfetto's published schema
//! (`protos/perfetto/trace`): `Trace.packet` 1, `TracePacket.ftrace_events` 1, `FtraceEventBundle` {`cpu` 1, `event` 2,
//! `lost_events` 3}, `FtraceEvent` {`timestamp` 1, `pid` 2, one message by kind}. A bundle holds events of one CPU in
//! order. Events the schema of those messages has no place for (markers, timers, vectors, threads made and ended) are
//! left out.

use std::collections::BTreeMap;
use std::io::{self, Write};

use surety_model::event::{Event, EventKind, LeaveState, TraceSink, Woken};
use surety_units::CpuId;

/// A bundle is written when it is this long, in bytes: what a CPU costs in memory.
const BUNDLE: usize = 1 << 15;

/// Writes the events it is given that Perfetto knows. After an error it writes no more; [`Perfetto::finish`] tells.
#[derive(Debug)]
pub struct Perfetto<W> {
    out: W,
    bundles: BTreeMap<CpuId, Vec<u8>>,
    written: io::Result<u64>,
}

impl<W: Write> Perfetto<W> {
    /// A writer into `out`.
    pub fn new(out: W) -> Perfetto<W> {
        Perfetto { out, bundles: BTreeMap::new(), written: Ok(0) }
    }

    /// Writes what is left, and returns how many events were written.
    ///
    /// # Errors
    /// The first that `out` gave.
    pub fn finish(mut self) -> io::Result<u64> {
        let written = self.written?;
        for (cpu, bundle) in &self.bundles {
            packet(&mut self.out, *cpu, bundle)?;
        }
        self.out.flush()?;
        Ok(written)
    }
}

impl<W: Write> TraceSink for Perfetto<W> {
    fn event(&mut self, event: &Event<'_>) {
        let Ok(written) = &mut self.written else { return };
        if let EventKind::Lost { .. } = event.kind {
            // A bundle says that events are missing before it.
            let bundle = self.bundles.insert(event.cpu, Vec::new()).unwrap_or_default();
            if let Err(error) = packet(&mut self.out, event.cpu, &bundle) {
                self.written = Err(error);
                return;
            }
            integer(self.bundles.entry(event.cpu).or_default(), 3, 1);
            return;
        }
        let Some((number, body)) = body(&event.kind) else { return };
        let mut message = Vec::with_capacity(body.len() + 24);
        integer(&mut message, 1, event.time.get());
        integer(&mut message, 2, event.current.0.into());
        bytes(&mut message, number, &body);
        let bundle = self.bundles.entry(event.cpu).or_default();
        bytes(bundle, 2, &message);
        *written += 1;
        if bundle.len() >= BUNDLE {
            let full = packet(&mut self.out, event.cpu, bundle);
            bundle.clear();
            if let Err(error) = full {
                self.written = Err(error);
            }
        }
    }
}

/// One packet with a bundle, if it holds anything.
fn packet(out: &mut dyn Write, cpu: CpuId, events: &[u8]) -> io::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let (mut bundle, mut packet, mut trace) = (Vec::new(), Vec::new(), Vec::new());
    integer(&mut bundle, 1, cpu.0.into());
    bundle.extend(events);
    bytes(&mut packet, 1, &bundle);
    bytes(&mut trace, 1, &packet);
    out.write_all(&trace)
}

/// The number of the kind's message in `FtraceEvent`, and the message.
fn body(kind: &EventKind<'_>) -> Option<(u32, Vec<u8>)> {
    let mut m = Vec::new();
    let number = match kind {
        EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio } => {
            bytes(&mut m, 1, prev_comm.text().as_bytes());
            integer(&mut m, 2, prev.0.into());
            integer(&mut m, 3, (*prev_prio).into());
            integer(&mut m, 4, state(*prev_state));
            bytes(&mut m, 5, next_comm.text().as_bytes());
            integer(&mut m, 6, next.0.into());
            integer(&mut m, 7, (*next_prio).into());
            4
        }
        EventKind::Wakeup(woken) => wake(&mut m, woken, 17),
        EventKind::Waking(woken) => wake(&mut m, woken, 20),
        EventKind::WakeupNew(woken) => wake(&mut m, woken, 114),
        EventKind::SoftirqEntry { vector } => softirq(&mut m, *vector, 24),
        EventKind::SoftirqExit { vector } => softirq(&mut m, *vector, 25),
        EventKind::SoftirqRaise { vector } => softirq(&mut m, *vector, 26),
        EventKind::IrqEntry { irq, name } => {
            integer(&mut m, 1, (*irq).into());
            bytes(&mut m, 2, name.as_bytes());
            36
        }
        EventKind::IrqExit { irq } => {
            integer(&mut m, 1, (*irq).into());
            37
        }
        _ => return None,
    };
    Some((number, m))
}

fn wake(m: &mut Vec<u8>, woken: &Woken, number: u32) -> u32 {
    bytes(m, 1, woken.comm.text().as_bytes());
    integer(m, 2, woken.tid.0.into());
    integer(m, 3, woken.prio.into());
    integer(m, 4, 1);
    integer(m, 5, woken.target.0.into());
    number
}

fn softirq(m: &mut Vec<u8>, vector: u32, number: u32) -> u32 {
    integer(m, 1, vector.into());
    number
}

/// The bits of `prev_state` since Linux 4.14 (`include/trace/events/sched.h`).
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

/// A field of an integer; one below 0 is as long as the longest.
fn integer(m: &mut Vec<u8>, field: u32, value: i64) {
    varint(m, u64::from(field) << 3);
    varint(m, value.cast_unsigned());
}

/// A field of bytes, a text or a message.
fn bytes(m: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(m, u64::from(field) << 3 | 2);
    varint(m, value.len() as u64);
    m.extend(value);
}

/// Seven bits to a byte, the lowest first; the top bit says that more follow.
fn varint(m: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        m.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    m.push(value as u8);
}
