//! [`Index`]: the first walk over a file: where the bundles of each CPU are, and what the file says of itself.
//!
//! Bundles of different CPUs stand in the file in any order, so they are put in order by CPU here and merged by time
//! later. The index costs 32 bytes for each bundle and is the only memory that grows with a file: [`BUNDLES_MAX`] of them
//! take 128 MiB, and a recorder writes a bundle of some kilobytes at least every drain of its buffers.

use std::collections::BTreeMap;
use std::io;

use surety_model::event::TimerFunction;

use super::event::text;
use super::packets::{Ahead, Found, Inflater, PACKET_MAX, find};
use super::wire::{Fields, Value, unsigned32, varint};
use crate::perfetto::{PACKET, bundle, compact, event, interned, packet, stats, system};
use crate::source::ReadAt;
use crate::symbols::timer_function;

/// Bundles that are indexed.
const BUNDLES_MAX: usize = 1 << 22;
/// Symbols of timer functions that are kept.
const SYMBOLS_MAX: usize = 1 << 12;
/// CPU numbers from here on are no CPU's.
const CPUS_MAX: u32 = 1 << 16;
/// So many faults are described.
pub(super) const FAULTS_MAX: usize = 16;
/// How far is read ahead.
const AHEAD: usize = 1 << 18;
/// Packed packets may become so many times longer than the file, or 256 MiB.
const UNPACKED_RATIO: u64 = 64;
pub(super) const UNPACKED_LEAST: u64 = 256 << 20;
/// The tracer's clocks by their number; 0 is the one that is assumed where none is named.
const CLOCKS: [&str; 5] = ["boot", "unknown", "global", "local", "mono_raw"];

/// Where a bundle is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Time of its first event.
    pub(super) first: u64,
    /// Offset of its packet's first byte in the file.
    pub(super) packet: u64,
    /// Length of that packet.
    pub(super) length: u32,
    /// For a packed one: 1 + offset of its packet's key among the unpacked bytes.
    pub(super) inner: u32,
    /// The sequence that its symbols' indexes are of.
    pub(super) sequence: u32,
    pub(super) clock: u8,
    /// Events are missing before it.
    pub(super) lost: bool,
    /// Events are missing behind it.
    pub(super) errors: bool,
}

/// The packet of the file that holds a packet, itself or packed.
#[derive(Clone, Copy)]
struct Outer {
    place: u64,
    length: u32,
    /// As in [`Place`].
    inner: u32,
}

/// The bundles of one CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuBundles {
    pub(super) places: Vec<Place>,
    /// Dropped packets that were met before its last bundle.
    drops: u64,
}

/// Everything the first walk finds.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    pub(super) cpus: BTreeMap<u32, CpuBundles>,
    bundles: usize,
    /// Functions of timers by sequence and index; `None` for an index with two meanings.
    pub(super) symbols: BTreeMap<(u32, u64), Option<TimerFunction>>,
    /// What to add to the times of a clock to make them boot times.
    shifts: [Option<i64>; CLOCKS.len()],
    clocks: [bool; CLOCKS.len()],
    /// Events lost by the tracer's own counters, at the start and at the end.
    lost: [Option<u64>; 2],
    drops: u64,
    pub(super) release: Option<String>,
    pub(super) faults: Vec<String>,
    /// Packets or bundles that cannot be read.
    pub(super) damaged: u64,
    pub(super) truncated: bool,
    /// Bytes unpacked.
    pub(super) unpacked: u64,
}

impl Index {
    /// Walks over the whole file.
    pub(super) fn build<S: ReadAt + ?Sized>(source: &S) -> Result<Index, (u64, io::Error)> {
        let mut index = Index::default();
        let length = source.len();
        let mut ahead = Ahead::new(source, AHEAD);
        let mut inflater = Inflater::default();
        let mut offset = 0;
        loop {
            match find(&mut ahead, length, offset).map_err(|error| (offset, error))? {
                Found::End => break,
                Found::Other { next } => offset = next,
                Found::Damage(what) => {
                    index.fault(offset, &what);
                    index.truncated = true;
                    break;
                }
                Found::Packet { start, length } => {
                    let end = start + length;
                    if length > PACKET_MAX {
                        index
                            .damage(offset, &format!("a packet of {length} bytes is more than {PACKET_MAX}"));
                    } else {
                        // Bounded by the line above.
                        let bytes = ahead.bytes(start, length as usize).map_err(|error| (start, error))?;
                        if (bytes.len() as u64) < length {
                            index.fault(start, "the file ends inside this packet");
                            index.truncated = true;
                            break;
                        }
                        let outer = Outer { place: start, length: length as u32, inner: 0 };
                        index.packet(source.len(), outer, bytes, &mut inflater);
                    }
                    offset = end;
                }
            }
            if index.bundles >= BUNDLES_MAX {
                index.fault(offset, &format!("only the first {BUNDLES_MAX} bundles are read"));
                index.truncated = true;
                break;
            }
        }
        index.unpacked = inflater.made;
        for cpu in index.cpus.values_mut() {
            // Bundles are in order, unless two recordings wrote the file.
            cpu.places.sort_by_key(|place| place.first);
        }
        index.tell_clocks();
        Ok(index)
    }

    /// The clock of all times, in words.
    pub(super) fn clock(&self) -> Option<&'static str> {
        let mut used = self.clocks.iter().zip(CLOCKS).filter(|(used, _)| **used).map(|(_, name)| name);
        match (used.next(), used.next()) {
            (Some(only), None) => Some(only),
            (Some(_), Some(_)) => Some("boot"),
            _ => None,
        }
    }

    /// What to add to times of a clock: nothing where all are of one.
    pub(super) fn shift(&self, clock: u8) -> i64 {
        let mixed = self.clocks.iter().filter(|used| **used).count() > 1;
        let shift = self.shifts.get(usize::from(clock)).copied().flatten();
        if mixed && clock != 0 { shift.unwrap_or(0) } else { 0 }
    }

    /// Events lost by the tracer's own counters.
    pub(super) fn counted_lost(&self) -> Option<u64> {
        self.lost[1].map(|end| end.saturating_sub(self.lost[0].unwrap_or(0)))
    }

    pub(super) fn fault(&mut self, offset: u64, what: &str) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(format!("byte {offset}: {what}"));
        }
    }

    fn damage(&mut self, offset: u64, what: &str) {
        self.damaged += 1;
        // Nobody knows whose events it held.
        self.drops += 1;
        self.fault(offset, what);
    }

    fn tell_clocks(&mut self) {
        if self.clocks.iter().filter(|used| **used).count() < 2 {
            return;
        }
        for (clock, name) in CLOCKS.iter().enumerate().skip(1) {
            if self.clocks[clock] && self.shifts[clock].is_none() {
                self.fault(
                    0,
                    &format!("no bundle says how the clock {name} stands to boot; its times are as they are"),
                );
            }
        }
    }

    /// One packet.
    fn packet(&mut self, file: u64, outer: Outer, bytes: &[u8], inflater: &mut Inflater) {
        let Outer { place, length, inner } = outer;
        let mut sequence = 0;
        let (mut ftrace, mut packed, mut symbols, mut dropped) = (None, None, None, false);
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            match number {
                packet::FTRACE_EVENTS => ftrace = Some(value.bytes()),
                packet::COMPRESSED if inner == 0 => packed = Some(value.bytes()),
                packet::INTERNED_DATA => symbols = Some(value.bytes()),
                packet::SEQUENCE_ID => sequence = unsigned32(value.integer()),
                packet::PREVIOUS_DROPPED => dropped = value.integer() != 0,
                packet::FTRACE_STATS => self.statistics(value.bytes()),
                packet::SYSTEM_INFO => self.system(value.bytes()),
                _ => {}
            }
        }
        if fields.is_broken() {
            let offset = place + if inner == 0 { fields.at() as u64 } else { 0 };
            self.damage(offset, "a packet is damaged");
        }
        if let Some(symbols) = symbols {
            self.symbols(sequence, symbols);
        }
        if let Some(message) = ftrace {
            self.drops += u64::from(dropped && self.bundles > 0);
            self.bundle(Place { packet: place, length, inner, sequence, ..NOWHERE }, message);
        }
        let Some(packed) = packed else { return };
        let most = file.saturating_mul(UNPACKED_RATIO).max(UNPACKED_LEAST);
        if inflater.made > most {
            self.damage(place, &format!("packed packets make more than {most} bytes, these are not read"));
            return;
        }
        match inflater.inflate(place, packed) {
            Ok(unpacked) => self.unpacked(file, outer, &unpacked, inflater),
            Err(what) => self.damage(place, &what),
        }
    }

    /// Packets that were packed in another.
    fn unpacked(&mut self, file: u64, outer: Outer, bytes: &[u8], inflater: &mut Inflater) {
        let place = outer.place;
        let mut at = 0;
        while at < bytes.len() && self.bundles < BUNDLES_MAX {
            let inner = at;
            let mut fields = Fields::from(bytes, at);
            let Some((number, value)) = fields.next() else {
                self.damage(place, &format!("byte {at} of what is packed here is damaged"));
                return;
            };
            at = fields.at();
            if let (PACKET, Value::Bytes(message)) = (number, value) {
                // What is unpacked is no longer than PACKET_MAX.
                self.packet(file, Outer { inner: inner as u32 + 1, ..outer }, message, inflater);
            }
        }
    }

    fn bundle(&mut self, mut place: Place, message: &[u8]) {
        let (mut cpu, mut clock, mut pair, mut holds) = (0, 0, (None, None), false);
        let mut first: Option<u64> = None;
        let mut earliest = |time: u64| first = Some(first.map_or(time, |first| first.min(time)));
        let mut met_event = false;
        let mut fields = Fields::new(message);
        for (number, value) in fields.by_ref() {
            match number {
                bundle::CPU => cpu = unsigned32(value.integer()),
                bundle::EVENT => {
                    holds = true;
                    if !met_event {
                        let mut inside = Fields::new(value.bytes());
                        let time = inside.find(|(number, _)| *number == event::TIMESTAMP);
                        if let Some((_, time)) = time {
                            earliest(time.integer());
                            met_event = true;
                        }
                    }
                }
                bundle::LOST => place.lost |= value.integer() != 0,
                bundle::COMPACT => {
                    holds = true;
                    for (number, value) in Fields::new(value.bytes()) {
                        if matches!(number, compact::SWITCH_TIME | compact::WAKING_TIME)
                            && let Some(time) = varint(value.bytes(), &mut 0)
                        {
                            earliest(time);
                        }
                    }
                }
                bundle::CLOCK => clock = unsigned32(value.integer()),
                bundle::CLOCK_TIME => pair.0 = Some(value.integer().cast_signed()),
                bundle::BOOT_TIME => pair.1 = Some(value.integer().cast_signed()),
                bundle::ERROR => place.errors = true,
                _ => {}
            }
        }
        if fields.is_broken() {
            // Counted when it is read.
            holds = true;
        }
        if !holds && !place.lost && !place.errors {
            return;
        }
        if cpu >= CPUS_MAX {
            self.damage(place.packet, &format!("no machine has a CPU {cpu}"));
            return;
        }
        let clock = if (clock as usize) < CLOCKS.len() { clock as usize } else { 1 };
        self.clocks[clock] = true;
        if let (None, (Some(own), Some(boot))) = (self.shifts[clock], pair) {
            self.shifts[clock] = boot.checked_sub(own);
        }
        // Five clocks.
        place.clock = clock as u8;
        let entry = self.cpus.entry(cpu).or_default();
        place.lost |= !entry.places.is_empty() && entry.drops < self.drops;
        entry.drops = self.drops;
        place.first = first.unwrap_or_else(|| entry.places.last().map_or(0, |last| last.first));
        entry.places.push(place);
        self.bundles += 1;
    }

    fn symbols(&mut self, sequence: u32, message: &[u8]) {
        for (number, symbol) in Fields::new(message) {
            if number != interned::KERNEL_SYMBOLS {
                continue;
            }
            let (mut position, mut name) = (None, "");
            for (number, value) in Fields::new(symbol.bytes()) {
                match number {
                    interned::INDEX => position = Some(value.integer()),
                    interned::TEXT => name = text(value.bytes()),
                    _ => {}
                }
            }
            let function = timer_function(name);
            let Some(key) = position.map(|position| (sequence, position)) else { continue };
            let room = self.symbols.len() < SYMBOLS_MAX;
            match self.symbols.get_mut(&key) {
                Some(known) if *known == Some(function) => {}
                Some(known) => *known = None,
                None if function != TimerFunction::Other && room => {
                    self.symbols.insert(key, Some(function));
                }
                None => {}
            }
        }
    }

    fn statistics(&mut self, message: &[u8]) {
        let (mut end, mut sum) = (false, 0u64);
        for (number, value) in Fields::new(message) {
            match number {
                stats::PHASE => end = value.integer() == stats::PHASE_END,
                stats::CPU => {
                    for (number, value) in Fields::new(value.bytes()) {
                        if matches!(number, stats::OVERRUN | stats::COMMIT_OVERRUN | stats::DROPPED) {
                            sum = sum.saturating_add(value.integer());
                        }
                    }
                }
                _ => {}
            }
        }
        let slot = &mut self.lost[usize::from(end)];
        *slot = Some(slot.unwrap_or(0).saturating_add(sum));
    }

    fn system(&mut self, message: &[u8]) {
        let utsname = Fields::new(message).find(|(number, _)| *number == system::UTSNAME);
        let release =
            utsname.and_then(|(_, name)| Fields::new(name.bytes()).find(|(n, _)| *n == system::RELEASE));
        self.release = release.map(|(_, value)| text(value.bytes()).chars().take(64).collect());
    }

    /// The kernel's version when it is one whose `prev_state` has other bits than those of Linux 4.14.
    pub(super) fn old_release(&self) -> Option<&str> {
        let release = self.release.as_deref()?;
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        let version = (numbers.next()?, numbers.next()?);
        (version < (4, 14)).then_some(release)
    }
}

const NOWHERE: Place =
    Place { first: 0, packet: 0, length: 0, inner: 0, sequence: 0, clock: 0, lost: false, errors: false };
