//! [`PerfettoTrace`]: Perfetto traces (protobuf), as Android, ChromeOS and `tracebox` record them and
//! [`crate::write::perfetto`] makes them.
//!
//! A trace is a list of packets; those with `ftrace_events` hold bundles of kernel events, each of one CPU. The file is
//! walked twice: the first walk notes where each CPU's bundles are (`index.rs`), the second holds one bundle of each CPU
//! and merges them by time (`bundle.rs`). So memory is 32 bytes for each bundle of the file and one bundle for each CPU.
//! Packets of other data sources (track events, process lists, counters) are passed over.
//!
//! **Times** are the tracer's own. Where bundles are of several clocks, those with another clock than boot are moved by
//! the pair of times that the first such bundle carries; the rate of the clocks is taken to be the same.
//!
//! **The compact form** of switches does not say who leaves. That is who entered last on that CPU, with the name and
//! priority of then. Before its first switch, and after a loss, it is the thread that an event with a message names as current,
//! with the name it was last woken by; where there is none either, the CPU counts as idle.
//!
//! **`prev_state`** is stored as bits without the kernel's table; they are read as those of Linux 4.14 and later.
//!
//! Damage is never an error: it is counted with its place, what stands before is kept, and the CPUs concerned get a mark
//! of loss.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::rc::Rc;

use surety_model::event::{Comm, Event, EventKind, TimerFunction, TraceSink, Woken};
use surety_units::{CpuId, Nanos, Tid};

use crate::perfetto::{PACKET, event as numbers, packet};
use crate::read::{Description, EventCount, ReadSummary, TraceError, TraceReader};
use crate::source::ReadAt;

use bundle::{Bundle, Item, Row};
use event::{Counts, Decoded, decode, state};
use index::{FAULTS_MAX, Index, Place, UNPACKED_LEAST};
use packets::{Ahead, Inflater, field};
use wire::{Fields, signed32, unsigned32};

mod bundle;
mod event;
mod index;
pub(super) mod packets;
mod wire;

/// All bundles that are held at one time, in bytes.
const HELD_MAX: u64 = 128 << 20;
/// How much is read of a bundle's packet before its length matters.
const AHEAD: usize = 1 << 12;
/// Packed packets may be unpacked again so often, on average, for CPUs that are far behind others.
const UNPACKED_AGAIN: u64 = 8;
/// Times are instants of 63 bits.
const TIME_MAX: u64 = i64::MAX as u64;
/// Threads whose names are remembered for switches that do not tell them.
const NAMES_MAX: usize = 1 << 16;

/// A Perfetto trace that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfettoError {
    /// Another kind of file.
    #[error("byte 0: this is no Perfetto trace, it does not begin with a packet of one")]
    Foreign,
    /// The medium failed.
    #[error("byte {offset}: {source}")]
    Read {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
}

/// An opened Perfetto trace: its bundles are indexed, its events not yet read.
#[derive(Clone, Debug)]
pub struct PerfettoTrace<S> {
    source: S,
    index: Index,
}

impl<S: ReadAt> PerfettoTrace<S> {
    /// Walks over the file once.
    ///
    /// # Errors
    /// [`PerfettoError`]: a file that does not begin as a trace does, or that cannot be read.
    pub fn open(source: S) -> Result<PerfettoTrace<S>, PerfettoError> {
        let failed = |(offset, source)| PerfettoError::Read { offset, source };
        let mut ahead = Ahead::new(&source, AHEAD);
        let beginning = ahead.bytes(0, AHEAD).map_err(|error| failed((0, error)))?;
        if !packets::is_trace(beginning) {
            return Err(PerfettoError::Foreign);
        }
        let index = Index::build(&source).map_err(failed)?;
        Ok(PerfettoTrace { source, index })
    }

    /// Reads all of it into `sink`. The trait's method is this one for a sink behind a pointer.
    ///
    /// # Errors
    /// A source that fails.
    pub fn read_into<K: TraceSink + ?Sized>(&mut self, sink: &mut K) -> Result<ReadSummary, TraceError> {
        let PerfettoTrace { source, index } = self;
        let mut loader = Loader {
            ahead: Ahead::new(source, AHEAD),
            inflater: Inflater::default(),
            most: index.unpacked.saturating_mul(UNPACKED_AGAIN).max(UNPACKED_LEAST),
            held: 0,
            faults: index.faults.clone(),
            damaged: index.damaged,
            malformed: 0,
            disordered: 0,
            disorder_max: 0,
        };
        let (summary, names) = (ReadSummary::default(), Names::default());
        let mut reading = Reading { index, sink, counts: Counts::new(), summary, names };
        let mut streams: Vec<Stream<'_>> =
            index.cpus.iter().map(|(cpu, bundles)| Stream::new(*cpu, &bundles.places)).collect();
        let mut heap = BinaryHeap::with_capacity(streams.len());
        for (position, stream) in streams.iter_mut().enumerate() {
            if stream.advance(index, &mut loader)? {
                heap.push(Reverse((stream.time, position)));
            }
        }
        while let Some(Reverse((_, position))) = heap.pop() {
            let limit = heap.peek().map(|Reverse(next)| *next);
            let stream = &mut streams[position];
            loop {
                reading.show(stream);
                if !stream.advance(index, &mut loader)? {
                    break;
                }
                if limit.is_some_and(|limit| (stream.time, position) > limit) {
                    heap.push(Reverse((stream.time, position)));
                    break;
                }
            }
        }
        let Reading { counts, mut summary, .. } = reading;
        summary.events = counts.occurred().map(|(event, count)| EventCount { event, count }).collect();
        summary.unknown = counts.unknown;
        summary.malformed += loader.malformed;
        summary.counted_lost = index.counted_lost();
        summary.disordered = loader.disordered;
        summary.disorder_max = instant(loader.disorder_max);
        summary.damaged_pages = loader.damaged;
        summary.truncated = u64::from(index.truncated);
        summary.faults = loader.faults;
        Ok(summary)
    }
}

impl<S: ReadAt> TraceReader for PerfettoTrace<S> {
    fn description(&self) -> Description {
        Description {
            format: "Perfetto trace".to_owned(),
            cpus: u32::try_from(self.index.cpus.len()).ok(),
            clock: self.index.clock().map(str::to_owned),
        }
    }

    fn unread(&self) -> Vec<String> {
        let old = |release| {
            format!(
                "the states that threads of Linux {release} leave in: their bits are read as those of Linux 4.14"
            )
        };
        self.index.old_release().map(old).into_iter().collect()
    }

    fn read(&mut self, sink: &mut dyn TraceSink) -> Result<ReadSummary, TraceError> {
        self.read_into(sink)
    }
}

/// What loads bundles, and what it met.
struct Loader<'s, S> {
    ahead: Ahead<'s, S>,
    inflater: Inflater,
    /// So many bytes may be unpacked.
    most: u64,
    /// Bytes of all bundles that are held.
    held: u64,
    faults: Vec<String>,
    damaged: u64,
    malformed: u64,
    disordered: u64,
    disorder_max: u64,
}

impl<S: ReadAt> Loader<'_, S> {
    fn damage(&mut self, offset: u64, what: &str) {
        self.damaged += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(format!("byte {offset}: {what}"));
        }
    }

    /// Opens the bundle at a place; `false` when it cannot be had.
    fn load(&mut self, place: &Place, bundle: &mut Bundle) -> Result<bool, TraceError> {
        let failed = |source| TraceError::Source { offset: place.packet, source };
        self.held = self.held.saturating_sub(bundle.held());
        let kept = if place.inner == 0 { None } else { self.inflater.kept(place.packet) };
        let unpacked: Rc<Vec<u8>>;
        let packet = if let Some(kept) = kept {
            unpacked = kept;
            inner_packet(&unpacked, place.inner)
        } else {
            // Both are no longer than the longest packet.
            let bytes = self.ahead.bytes(place.packet, place.length as usize).map_err(failed)?;
            if place.inner == 0 {
                bytes
            } else if self.inflater.made > self.most {
                let what = "packed packets of CPUs are too far apart to be unpacked again";
                self.damage(place.packet, what);
                return Ok(false);
            } else {
                let packed = field(bytes, packet::COMPRESSED).unwrap_or_default();
                match self.inflater.inflate(place.packet, packed) {
                    Ok(bytes) => unpacked = bytes,
                    Err(what) => {
                        self.damage(place.packet, &what);
                        return Ok(false);
                    }
                }
                inner_packet(&unpacked, place.inner)
            }
        };
        let message = field(packet, packet::FTRACE_EVENTS).unwrap_or_default();
        if self.held.saturating_add(message.len() as u64) > HELD_MAX {
            *bundle = Bundle::default();
            let what = format!("bundles of so many CPUs at one time are more than the {HELD_MAX} bytes held");
            self.damage(place.packet, &what);
            return Ok(false);
        }
        bundle.open(message);
        self.held += bundle.held();
        Ok(true)
    }
}

/// The packet whose key is at `inner` - 1.
fn inner_packet(unpacked: &[u8], inner: u32) -> &[u8] {
    let mut fields = Fields::from(unpacked, (inner as usize).saturating_sub(1));
    fields.next().filter(|(number, _)| *number == PACKET).map_or(&[], |(_, value)| value.bytes())
}

/// The events of one CPU.
struct Stream<'i> {
    cpu: CpuId,
    places: std::slice::Iter<'i, Place>,
    place: Option<&'i Place>,
    bundle: Bundle,
    /// What is added to its times.
    shift: i64,
    /// Time of the head, never before an earlier head's.
    time: u64,
    head: Head,
    /// Events are missing before the next one.
    lost: bool,
    /// Who entered last.
    last: Option<(Tid, Comm, i32)>,
}

/// What stands first in a stream.
#[derive(Clone, Copy)]
enum Head {
    End,
    Item(Item),
    /// Then the item, if there is one.
    Lost(Option<Item>),
}

impl<'i> Stream<'i> {
    fn new(cpu: u32, places: &'i [Place]) -> Stream<'i> {
        Stream {
            cpu: CpuId(cpu),
            places: places.iter(),
            place: None,
            bundle: Bundle::default(),
            shift: 0,
            time: 0,
            head: Head::End,
            lost: false,
            last: None,
        }
    }

    /// Moves the head on; `false` at the end.
    #[inline]
    fn advance<S: ReadAt>(&mut self, index: &Index, loader: &mut Loader<'_, S>) -> Result<bool, TraceError> {
        if let Head::Lost(Some(item)) = self.head {
            self.head = Head::Item(item);
            return Ok(true);
        }
        loop {
            if let Some((time, item)) = self.bundle.next() {
                self.set_time(time, loader);
                self.head =
                    if std::mem::take(&mut self.lost) { Head::Lost(Some(item)) } else { Head::Item(item) };
                return Ok(true);
            }
            if !self.next_bundle(index, loader)? {
                let untold = std::mem::take(&mut self.lost);
                self.head = if untold { Head::Lost(None) } else { Head::End };
                return Ok(untold);
            }
        }
    }

    #[inline]
    fn set_time<S>(&mut self, time: u64, loader: &mut Loader<'_, S>) {
        let time = time.saturating_add_signed(self.shift).min(TIME_MAX);
        if time < self.time {
            loader.disordered += 1;
            loader.disorder_max = loader.disorder_max.max(self.time - time);
        } else {
            self.time = time;
        }
    }

    /// Opens the next bundle; `false` when there is none.
    fn next_bundle<S: ReadAt>(
        &mut self,
        index: &Index,
        loader: &mut Loader<'_, S>,
    ) -> Result<bool, TraceError> {
        loader.malformed += std::mem::take(&mut self.bundle.malformed);
        if let Some(place) = self.place.take() {
            if let Some((at, what)) = self.bundle.fault() {
                loader.damage(place.packet, &format!("byte {at} of the bundle in this packet: {what}"));
                self.lost = true;
            }
            self.lost |= place.errors;
        }
        let Some(place) = self.places.next() else { return Ok(false) };
        self.lost |= place.lost | place.errors;
        self.shift = index.shift(place.clock);
        if loader.load(place, &mut self.bundle)? {
            self.place = Some(place);
        } else {
            self.bundle = Bundle::default();
            self.lost = true;
        }
        Ok(true)
    }
}

/// What hands events on.
struct Reading<'i, 'k, K: ?Sized> {
    index: &'i Index,
    sink: &'k mut K,
    counts: Counts,
    summary: ReadSummary,
    names: Names,
}

impl<K: TraceSink + ?Sized> Reading<'_, '_, K> {
    /// Hands the head of a stream on.
    #[inline]
    fn show(&mut self, stream: &mut Stream<'_>) {
        let time = instant(stream.time);
        let first = self.summary.span.map_or(time, |(first, _)| first);
        self.summary.span = Some((first, time));
        let (cpu, idle) = (stream.cpu, (Tid::IDLE, Comm::default(), 120));
        let current = stream.last.unwrap_or(idle).0;
        let (current, kind) = match stream.head {
            Head::End => return,
            Head::Lost(_) => {
                self.summary.gaps += 1;
                stream.last = None;
                self.sink.event(&Event {
                    time,
                    cpu,
                    current: Tid::IDLE,
                    kind: EventKind::Lost { count: None },
                });
                return;
            }
            Head::Item(Item::Plain(plain)) => {
                self.found(stream, Tid(plain.pid));
                let sequence = stream.place.map_or(0, |place| place.sequence);
                let function = |position| self.index.function(sequence, position);
                let message = stream.bundle.message(&plain);
                let kind = match decode(plain.number, message, &mut self.counts, function) {
                    Decoded::Event(kind) => kind,
                    Decoded::Passed => return,
                    Decoded::Malformed => {
                        self.summary.malformed += 1;
                        return;
                    }
                };
                match kind {
                    EventKind::Switch { next, next_comm, next_prio, .. } => {
                        stream.last = Some((next, next_comm, next_prio));
                    }
                    EventKind::Waking(Woken { tid, comm, prio, .. })
                    | EventKind::Wakeup(Woken { tid, comm, prio, .. }) => self.names.learn(tid, comm, prio),
                    _ => {}
                }
                (Tid(plain.pid), kind)
            }
            Head::Item(Item::Switch([_, left, tid, prio, name])) => {
                self.counts.add(numbers::SCHED_SWITCH);
                let (prev, prev_comm, prev_prio) = stream.last.unwrap_or(idle);
                let next = (Tid(signed32(tid)), stream.bundle.name(name), signed32(prio));
                stream.last = Some(next);
                let (next, next_comm, next_prio) = next;
                self.names.learn(next, next_comm, next_prio);
                let prev_state = state(left);
                let kind =
                    EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio };
                (prev, kind)
            }
            Head::Item(Item::Waking(row)) => {
                self.counts.add(numbers::SCHED_WAKING);
                let woken = woken(row, &stream.bundle);
                self.names.learn(woken.tid, woken.comm, woken.prio);
                (current, EventKind::Waking(woken))
            }
        };
        self.summary.delivered += 1;
        self.sink.event(&Event { time, cpu, current, kind });
    }

    /// An event with a message names the thread that was current. Before a CPU's first compact switch, and after a loss, that is
    /// the only sign of who is there. The idle thread's number may just be one that is not given.
    #[inline]
    fn found(&self, stream: &mut Stream<'_>, current: Tid) {
        if current != Tid::IDLE && stream.last.is_none_or(|(tid, ..)| tid != current) {
            let (comm, prio) = self.names.0.get(&current).copied().unwrap_or((Comm::default(), 120));
            stream.last = Some((current, comm, prio));
        }
    }
}

/// Names and priorities of threads by what events told last, of [`NAMES_MAX`] at most.
#[derive(Debug, Default)]
struct Names(BTreeMap<Tid, (Comm, i32)>);

impl Names {
    fn learn(&mut self, tid: Tid, comm: Comm, prio: i32) {
        if self.0.len() < NAMES_MAX || self.0.contains_key(&tid) {
            self.0.insert(tid, (comm, prio));
        }
    }
}

fn woken([_, tid, cpu, prio, name]: Row, bundle: &Bundle) -> Woken {
    Woken {
        tid: Tid(signed32(tid)),
        comm: bundle.name(name),
        prio: signed32(prio),
        target: CpuId(unsigned32(cpu)),
    }
}

impl Index {
    /// The function of a timer by its interned symbol.
    fn function(&self, sequence: u32, position: u64) -> TimerFunction {
        self.symbols.get(&(sequence, position)).copied().flatten().unwrap_or(TimerFunction::Other)
    }
}

#[inline]
fn instant(time: u64) -> Nanos {
    Nanos::new(i64::try_from(time).unwrap_or(i64::MAX))
}
