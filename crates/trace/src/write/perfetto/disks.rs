//! [`DiskTracks`]: requests of disks as tracks beside the events.
//!
//! Every disk gets a group, `disk MAJOR:MINOR`, once one of its requests is seen:
//! - *in the device 1*, *2*, ...: a slice for each request from issue to completion, named by what is done where, on the first of
//!   these tracks that is free: as many as the device has at a time. Its annotations say how long it was queued, whose it is,
//!   and what became of it;
//! - *queued 1*, *2*, ...: the same from insertion to issue;
//! - *requests queued*: how many there are.
//!
//! Slices are written when they end, so what is open at the trace's end is not drawn.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use surety_model::event::{BlockEvent, BlockStep, DiskNumber, Event, EventKind, Rwbs};
use surety_units::{Nanos, Tid};

use super::Packets;
use crate::perfetto::{packet, track};

/// Disks with tracks, and requests that are drawn side by side; further ones are passed over.
const DISKS_MAX: u64 = 64;
const LANES_MAX: usize = 256;
/// Tracks have ids from here on, [`IDS`] for each disk: its group, the counter, lanes of the device, lanes of the queue.
const FIRST_TRACK: u64 = 0x5375_7265_6469_0000;
const IDS: u64 = 1024;
const GROUP: u64 = 0;
const COUNTER: u64 = 1;
const DEVICE: u64 = 2;
const QUEUE: u64 = DEVICE + LANES_MAX as u64;

/// A request that is drawn when its stretch ends.
#[derive(Clone, Copy, Debug)]
struct Open {
    since: Nanos,
    /// `None`: there were too many.
    lane: Option<usize>,
    by: Tid,
    /// How long it was queued before.
    queued: Nanos,
}

/// Which lanes are in use.
#[derive(Clone, Debug, Default)]
struct Lanes(Vec<bool>);

impl Lanes {
    /// The first that is free.
    fn take(&mut self) -> Option<usize> {
        let free = self.0.iter().position(|used| !used).unwrap_or(self.0.len());
        if free >= LANES_MAX {
            return None;
        }
        if free == self.0.len() {
            self.0.push(false);
        }
        self.0[free] = true;
        Some(free)
    }

    fn give_back(&mut self, lane: Option<usize>) {
        if let Some(used) = lane.and_then(|lane| self.0.get_mut(lane)) {
            *used = false;
        }
    }
}

/// What is drawn of one disk.
#[derive(Debug, Default)]
struct Drawn {
    place: u64,
    /// By first sector and letters.
    queued: BTreeMap<(u64, Rwbs), Open>,
    flying: BTreeMap<(u64, Rwbs), Open>,
    queue_lanes: Lanes,
    device_lanes: Lanes,
    described: Vec<u64>,
}

/// The tracks of all disks.
#[derive(Debug, Default)]
pub(super) struct DiskTracks {
    disks: BTreeMap<DiskNumber, Drawn>,
}

impl DiskTracks {
    /// Takes an event, and writes what it ends.
    pub(super) fn event<W: Write>(&mut self, event: &Event<'_>, out: &mut Packets<W>) -> io::Result<()> {
        let EventKind::Block(block) = &event.kind else { return Ok(()) };
        let count = self.disks.len() as u64;
        if count >= DISKS_MAX && !self.disks.contains_key(&block.disk) {
            return Ok(());
        }
        let disk = self.disks.entry(block.disk).or_insert_with(|| Drawn { place: count, ..Drawn::default() });
        disk.event(event, block, out)
    }
}

impl Drawn {
    fn event<W: Write>(
        &mut self,
        event: &Event<'_>,
        block: &BlockEvent,
        out: &mut Packets<W>,
    ) -> io::Result<()> {
        // A flush has no place, and the kernel tells one or another.
        let sector = if block.sectors == 0 { 0 } else { block.sector };
        let (now, key) = (event.time, (sector, block.rwbs));
        match block.step {
            BlockStep::Inserted => {
                let lane = self.queue_lanes.take();
                let open = Open { since: now, lane, by: event.current, queued: Nanos::ZERO };
                if let Some(old) = self.queued.insert(key, open) {
                    self.queue_lanes.give_back(old.lane);
                }
                self.count(now, block, out)
            }
            BlockStep::Joined => self.leave_queue(now, block, &key, out).map(|_| ()),
            BlockStep::Issued => {
                let (by, queued) = match self.leave_queue(now, block, &key, out)? {
                    Some(open) => (open.by, now - open.since),
                    None => (event.current, Nanos::ZERO),
                };
                let open = Open { since: now, lane: self.device_lanes.take(), by, queued };
                if let Some(old) = self.flying.insert(key, open) {
                    self.device_lanes.give_back(old.lane);
                }
                Ok(())
            }
            BlockStep::Returned | BlockStep::Completed => {
                let Some(open) = self.flying.remove(&key) else { return Ok(()) };
                self.device_lanes.give_back(open.lane);
                let numbers = [
                    ("queued_ns", open.queued.get()),
                    ("submitter_tid", open.by.0.into()),
                    ("error", block.error.into()),
                ];
                self.slice((DEVICE, "in the device"), &open, now, (block, &numbers), out)
            }
            _ => Ok(()),
        }
    }

    /// A request is no longer queued: under the sector it has now, or had before bios were put in front.
    fn leave_queue<W: Write>(
        &mut self,
        now: Nanos,
        block: &BlockEvent,
        key: &(u64, Rwbs),
        out: &mut Packets<W>,
    ) -> io::Result<Option<Open>> {
        let none = Rwbs::default();
        let inside = (key.0, none)..(block.end().max(key.0.saturating_add(1)), none);
        let found = self.queued.range(inside).find(|((_, letters), _)| *letters == key.1);
        let Some(found) = found.map(|(key, _)| *key) else { return Ok(None) };
        let Some(open) = self.queued.remove(&found) else { return Ok(None) };
        self.queue_lanes.give_back(open.lane);
        let numbers = [("submitter_tid", open.by.0.into())];
        self.slice((QUEUE, "queued"), &open, now, (block, &numbers), out)?;
        self.count(now, block, out)?;
        Ok(Some(open))
    }

    /// Draws how many requests are queued from now on.
    fn count<W: Write>(&mut self, now: Nanos, block: &BlockEvent, out: &mut Packets<W>) -> io::Result<()> {
        self.describe(COUNTER, format_args!("requests queued"), block, out)?;
        out.counted(now, self.id(COUNTER), self.queued.len() as i64)
    }

    fn slice<W: Write>(
        &mut self,
        (first, title): (u64, &str),
        open: &Open,
        until: Nanos,
        (block, numbers): (&BlockEvent, &[(&str, i64)]),
        out: &mut Packets<W>,
    ) -> io::Result<()> {
        let Some(lane) = open.lane else { return Ok(()) };
        let which = first + lane as u64;
        self.describe(which, format_args!("{title} {}", lane + 1), block, out)?;
        let name = format!("{} {} + {}", block.rwbs.text(), block.sector, block.sectors);
        out.slice(self.id(which), (open.since, until), &name, numbers)
    }

    fn id(&self, which: u64) -> u64 {
        FIRST_TRACK + self.place * IDS + which
    }

    /// Writes the descriptor of a track once, and of the disk's group before the first.
    fn describe<W: Write>(
        &mut self,
        which: u64,
        name: fmt::Arguments<'_>,
        block: &BlockEvent,
        out: &mut Packets<W>,
    ) -> io::Result<()> {
        if self.described.contains(&which) {
            return Ok(());
        }
        if self.described.is_empty() {
            self.descriptor(GROUP, format_args!("disk {}", block.disk), out)?;
        }
        self.described.push(which);
        self.descriptor(which, name, out)
    }

    fn descriptor<W: Write>(
        &self,
        which: u64,
        name: fmt::Arguments<'_>,
        out: &mut Packets<W>,
    ) -> io::Result<()> {
        out.track(|m| {
            m.message(packet::TRACK_DESCRIPTOR, |m| {
                m.count(track::UUID, self.id(which));
                m.put(track::NAME, name.to_string().as_bytes());
                if which != GROUP {
                    m.count(track::PARENT, self.id(GROUP));
                }
                if which == COUNTER {
                    m.message(track::COUNTER, |_| {});
                }
            });
        })
    }
}
