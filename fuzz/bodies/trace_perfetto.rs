//! Any bytes as a Perfetto trace: opened, read, turned into jobs and written again. Nothing may panic or hang, times do not
//! go back, and what was read reads back from what is written of it.
//!
//! An input whose first byte is even is a file as it is. Otherwise the rest is a list of changes to a whole file made by
//! our own writer, two bytes of place and one of a value; bit 1 of the first byte packs its packets.

use std::sync::OnceLock;

use surety_model::event::{Comm, Event, EventKind, LeaveState, TimerFunction, TraceSink, Woken};
use surety_trace::write::perfetto::Perfetto;
use surety_trace::{JobBuilder, PerfettoTrace, TraceReader};
use surety_units::{CpuId, Nanos, Tid};

/// A file of two CPUs with an event of every kind, and a bundle of compact events behind it.
fn whole() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let (comm, tid) = (Comm::new("worker"), Tid(7));
        let woken = Woken { tid, comm, prio: -1, target: CpuId(1) };
        let kinds = [
            EventKind::Waking(woken),
            EventKind::Wakeup(woken),
            EventKind::WakeupNew(woken),
            EventKind::Switch {
                prev: Tid(0),
                prev_comm: Comm::new("swapper/0"),
                prev_prio: 120,
                prev_state: LeaveState::Runnable { preempted: false },
                next: tid,
                next_comm: comm,
                next_prio: -1,
            },
            EventKind::Migrate { tid, comm, from: CpuId(0), to: CpuId(1) },
            EventKind::Fork { parent: tid, child: Tid(8), child_comm: comm },
            EventKind::Exec { tid, old: tid },
            EventKind::Exit { tid, comm },
            EventKind::IrqEntry { irq: 9, name: "nvme" },
            EventKind::IrqExit { irq: 9 },
            EventKind::VectorEntry { name: "local_timer" },
            EventKind::VectorExit { name: "local_timer" },
            EventKind::VectorEntry { name: "reschedule" },
            EventKind::SoftirqRaise { vector: 1 },
            EventKind::SoftirqEntry { vector: 1 },
            EventKind::SoftirqExit { vector: 1 },
            EventKind::TimerStart {
                timer: 99,
                function: TimerFunction::DeadlineReplenish,
                expires: Nanos::new(5000),
            },
            EventKind::TimerExpire { timer: 99, function: TimerFunction::DeadlineReplenish },
            EventKind::TimerCancel { timer: 99 },
            EventKind::Frequency { of: CpuId(1), khz: 1_000_000 },
            EventKind::Marker { text: "surety:b:1:1000" },
            EventKind::Lost { count: Some(3) },
            EventKind::Marker { text: "surety:e:1" },
        ];
        let mut file = Vec::new();
        let mut sink = Perfetto::new(&mut file);
        for (time, kind) in (1..).zip(kinds) {
            for cpu in 0..2 {
                let time = Nanos::new(time * 100 + cpu);
                sink.event(&Event { time, cpu: CpuId(u32::from(cpu != 0)), current: tid, kind });
            }
        }
        sink.finish("mono").expect("memory can be written");
        // CPU 0: names "a" and "b", two switches, one waking request.
        let compact: &[u8] = &[
            0x2a, 1, b'a', 0x2a, 1, b'b', 0x0a, 3, 0xd0, 0x0f, 9, 0x12, 2, 1, 0, 0x1a, 2, 7, 8, 0x22, 2, 120,
            121, 0x32, 2, 0, 1, 0x3a, 2, 0xd1, 0x0f, 0x42, 1, 7, 0x4a, 1, 0, 0x52, 1, 120, 0x5a, 1, 1,
        ];
        let length = compact.len() as u8;
        file.extend([0x0a, length + 6, 0x0a, length + 4, 0x08, 0, 0x22, length]);
        file.extend(compact);
        file
    })
}

/// Packets packed into one.
fn packed(file: &[u8]) -> Vec<u8> {
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(file, 1);
    let varint = |mut value: usize| {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    let field = [&[0x92, 0x03], varint(packed.len()).as_slice(), &packed].concat();
    [&[0x0a], varint(field.len()).as_slice(), &field].concat()
}

/// Checks that times do not go back, and passes on.
struct Checked<'w> {
    jobs: JobBuilder,
    again: Perfetto<&'w mut Vec<u8>>,
    last: Nanos,
    count: u64,
}

impl TraceSink for Checked<'_> {
    fn event(&mut self, event: &Event<'_>) {
        assert!(self.last <= event.time);
        self.last = event.time;
        self.count += u64::from(!matches!(event.kind, EventKind::Lost { .. }));
        self.jobs.event(event);
        self.again.event(event);
    }
}

/// One input.
pub fn survives(input: &[u8]) {
    let Some((shape, rest)) = input.split_first() else { return };
    let file = if shape & 1 == 0 {
        rest.to_vec()
    } else {
        let mut file = whole().to_vec();
        for change in rest.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
            if let Some(byte) = file.get_mut(at) {
                *byte = change[2];
            }
        }
        if shape & 2 == 0 { file } else { packed(&file) }
    };
    let Ok(mut trace) = PerfettoTrace::open(&file) else { return };
    let mut copy = Vec::new();
    let mut sink = Checked {
        jobs: JobBuilder::new(),
        again: Perfetto::with_overlays(&mut copy, Vec::new()),
        last: Nanos::ZERO,
        count: 0,
    };
    let summary = trace.read(&mut sink).expect("memory can be read");
    assert_eq!(summary.delivered, sink.count);
    for thread in sink.jobs.finish().threads {
        for job in &thread.jobs {
            assert!(job.release <= job.start && job.start <= job.completion, "{job:?}");
        }
    }
    let written = sink.again.finish("mono").expect("memory can be written");
    if written > 0 {
        let mut again = PerfettoTrace::open(&copy).expect("what was written is a trace");
        let summary = again.read(&mut |_: &Event<'_>| {}).expect("memory can be read");
        assert_eq!(summary.delivered, written);
    }
}
