//! [`Perfetto`]: events as a Perfetto trace, which its viewer and its trace processor open, and
//! [`crate::read::perfetto`] reads back.
//!
//! Every event becomes the message that Perfetto's schema has for it; vectors beside the tick's become generic events,
//! and the functions of timers interned symbols. A bundle holds events of one CPU in order. What the format has no place
//! for: how many events a single loss is of (the sum is in the statistics at the end), letters of rare thread states (`I`
//! stands for all but `P`), and the clock: times are written as they are, and Perfetto takes them for boot times.
//!
//! Three packets say how the rest is to be read (`preamble.rs`): the kernel release whose bits of `prev_state` are written, the
//! processes that the events name for certain, and which clock the times are of, where that is known.
//!
//! Requests of disks are drawn on tracks of their own (`disks.rs`), beside their events.
//!
//! [`Perfetto::with_overlays`] adds tracks (`tracks.rs`): what threads were promised and whether they got it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use surety_model::event::{Event, EventKind, TraceSink};
use surety_units::{CpuId, Nanos};

use crate::perfetto::{PACKET, bundle, event as numbers, interned, packet, stats, track};

use disks::DiskTracks;
use preamble::Lineage;
use protobuf::Message;
use tracks::Tracks;
pub use tracks::{Overlay, OverlayOf};

mod disks;
mod event;
mod preamble;
mod protobuf;
mod tracks;

/// A bundle is written when it is this long, in bytes: what a CPU costs in memory.
const BUNDLE: usize = 1 << 15;
/// The sequences of packets: bundles, and tracks.
const BUNDLES_SEQUENCE: u64 = 1;
const TRACKS_SEQUENCE: u64 = 2;
/// Values of `sequence_flags`: names begin anew here, and names of before are needed.
const NAMES_CLEARED: u64 = 1;
const NAMES_NEEDED: u64 = 2;

/// What a trace file is written into, packet by packet.
#[derive(Debug)]
struct Packets<W> {
    out: W,
    packet: Message,
    trace: Message,
    /// Symbols were written.
    named: bool,
    /// The tracks' sequence began.
    tracked: bool,
}

impl<W: Write> Packets<W> {
    /// Writes the packet that was filled.
    fn write(&mut self) -> io::Result<()> {
        self.trace.clear();
        self.trace.put(PACKET, self.packet.bytes());
        self.packet.clear();
        self.out.write_all(self.trace.bytes())
    }

    /// A bundle of one CPU, if it holds anything.
    fn bundle(&mut self, cpu: CpuId, events: &[u8]) -> io::Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        self.packet.message(packet::FTRACE_EVENTS, |m| {
            m.count(bundle::CPU, cpu.0.into());
            m.append(events);
        });
        self.packet.count(packet::SEQUENCE_ID, BUNDLES_SEQUENCE);
        if self.named {
            self.packet.count(packet::SEQUENCE_FLAGS, NAMES_NEEDED);
        } else {
            self.named = true;
            self.packet.count(packet::SEQUENCE_FLAGS, NAMES_CLEARED | NAMES_NEEDED);
            self.packet.message(packet::INTERNED_DATA, |m| {
                for (name, index) in event::FUNCTIONS.iter().zip(1..) {
                    m.message(interned::KERNEL_SYMBOLS, |m| {
                        m.count(interned::INDEX, index);
                        m.put(interned::TEXT, name.as_bytes());
                    });
                }
            });
        }
        self.write()
    }

    /// A packet of the tracks.
    fn track(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        fill(&mut self.packet);
        self.packet.count(packet::SEQUENCE_ID, TRACKS_SEQUENCE);
        if !self.tracked {
            self.tracked = true;
            self.packet.count(packet::SEQUENCE_FLAGS, NAMES_CLEARED);
        }
        self.write()
    }

    /// An event of a track.
    fn point(&mut self, at: Nanos, kind: u64, id: u64, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        self.track(|m| {
            m.integer(packet::TIMESTAMP, at.get());
            m.message(packet::TRACK_EVENT, |m| {
                m.count(track::EVENT_TYPE, kind);
                m.count(track::EVENT_TRACK, id);
                fill(m);
            });
        })
    }

    /// A slice of a track, with numbers as its annotations.
    fn slice(
        &mut self,
        id: u64,
        (from, to): (Nanos, Nanos),
        name: &str,
        numbers: &[(&str, i64)],
    ) -> io::Result<()> {
        self.point(from, track::SLICE_BEGIN, id, |m| {
            m.put(track::EVENT_NAME, name.as_bytes());
            for (name, value) in numbers {
                m.message(track::EVENT_ANNOTATION, |m| {
                    m.put(track::ANNOTATION_NAME, name.as_bytes());
                    m.integer(track::ANNOTATION_INTEGER, *value);
                });
            }
        })?;
        self.point(to, track::SLICE_END, id, |_| {})
    }

    /// A value of a counter's track from an instant on.
    fn counted(&mut self, at: Nanos, id: u64, value: i64) -> io::Result<()> {
        self.point(at, track::COUNTER_VALUE, id, |m| m.integer(track::EVENT_COUNTER, value))
    }

    /// The tracer's counters at the end: events lost on each CPU.
    fn statistics(&mut self, lost: &BTreeMap<CpuId, u64>) -> io::Result<()> {
        if lost.is_empty() {
            return Ok(());
        }
        self.packet.message(packet::FTRACE_STATS, |m| {
            m.count(stats::PHASE, stats::PHASE_END);
            for (cpu, lost) in lost {
                m.message(stats::CPU, |m| {
                    m.count(stats::CPU_NUMBER, cpu.0.into());
                    m.count(stats::OVERRUN, *lost);
                });
            }
        });
        self.write()
    }
}

/// Writes the events it is given. After an error it writes no more; [`Perfetto::finish`] tells.
#[derive(Debug)]
pub struct Perfetto<W> {
    packets: Packets<W>,
    lineage: Lineage,
    /// Time of the first event, once one came.
    first: Option<Nanos>,
    bundles: BTreeMap<CpuId, Message>,
    body: Message,
    message: Message,
    lost: BTreeMap<CpuId, u64>,
    tracks: Option<Box<Tracks>>,
    disks: DiskTracks,
    written: io::Result<u64>,
}

impl<W: Write> Perfetto<W> {
    /// A writer of events into `out`, which should be buffered.
    pub fn new(out: W) -> Perfetto<W> {
        Perfetto {
            packets: Packets {
                out,
                packet: Message::default(),
                trace: Message::default(),
                named: false,
                tracked: false,
            },
            lineage: Lineage::default(),
            first: None,
            bundles: BTreeMap::new(),
            body: Message::default(),
            message: Message::default(),
            lost: BTreeMap::new(),
            tracks: None,
            disks: DiskTracks::default(),
            written: Ok(0),
        }
    }

    /// The same, with tracks of what these threads were promised, and of the throttling of every deadline thread. Events
    /// must come in one order of time.
    pub fn with_overlays(out: W, overlays: Vec<Overlay>) -> Perfetto<W> {
        Perfetto { tracks: Some(Box::new(Tracks::new(overlays))), ..Perfetto::new(out) }
    }

    /// Writes what is left, and returns how many events were written. `clock` names the clock of their times as the tracer
    /// does: `mono`.
    ///
    /// # Errors
    /// The first that `out` gave.
    pub fn finish(mut self, clock: &str) -> io::Result<u64> {
        let written = self.written?;
        if let Some(first) = self.first {
            self.packets.clocks(first, clock)?;
            self.packets.processes(first, &self.lineage)?;
        }
        for (cpu, bundle) in &self.bundles {
            self.packets.bundle(*cpu, bundle.bytes())?;
        }
        if let Some(tracks) = self.tracks {
            tracks.finish(&mut self.packets)?;
        }
        self.packets.statistics(&self.lost)?;
        self.packets.out.flush()?;
        Ok(written)
    }

    fn put(&mut self, event: &Event<'_>) -> io::Result<bool> {
        if self.first.is_none() {
            self.first = Some(event.time);
            self.packets.system()?;
        }
        self.lineage.learn(&event.kind);
        if let Some(tracks) = &mut self.tracks {
            tracks.event(event, &mut self.packets)?;
        }
        self.disks.event(event, &mut self.packets)?;
        let bundle = self.bundles.entry(event.cpu).or_default();
        if let EventKind::Lost { count } = event.kind {
            // A bundle says that events are missing before it.
            self.packets.bundle(event.cpu, bundle.bytes())?;
            bundle.clear();
            bundle.count(bundle::LOST, 1);
            if let Some(count) = count {
                let lost = self.lost.entry(event.cpu).or_default();
                *lost = lost.saturating_add(count);
            }
            return Ok(false);
        }
        let Perfetto { body, message, .. } = self;
        body.clear();
        let Some(number) = event::body(body, &event.kind) else { return Ok(false) };
        message.clear();
        message.integer(numbers::TIMESTAMP, event.time.get());
        message.integer(numbers::PID, event.current.0.into());
        message.put(number, body.bytes());
        bundle.put(bundle::EVENT, message.bytes());
        if bundle.bytes().len() >= BUNDLE {
            self.packets.bundle(event.cpu, bundle.bytes())?;
            bundle.clear();
        }
        Ok(true)
    }
}

impl<W: Write> TraceSink for Perfetto<W> {
    fn event(&mut self, event: &Event<'_>) {
        let Ok(written) = self.written else { return };
        self.written = self.put(event).map(|put| written + u64::from(put));
    }
}
