//! [`Disks`]: what bios and requests went through, and which of them a sleeping thread waited for.
//!
//! Bios belong to the thread that was current when they were queued; a request takes with it the bios whose sectors it has. What a sleep was
//! a wait for, the first of these that holds:
//! - a request to be free: it slept uninterruptibly (`D`), and when it was woken there was none yet for the bio that it had queued last. A
//!   thread queues nothing while it waits so, and waits for nothing else;
//! - the request whose completion woke it: it was woken where that was told. It may be another's: pages that another
//!   thread has read for it, or writes it waited for. Of completions at one instant its own;
//! - the last of its own that completed in the sleep, where it slept uninterruptibly.
//!
//! *Where a completion was told*: on its CPU and inside the interrupt that told it, or, outside of an interrupt, at the same instant.
//! There an interruptible sleep ends by it only before another thread has the CPU: whom a thread wakes that ran again because of a completion
//! has waited for that thread, not for a disk; nor one by the timer's interrupt on top of it. An uninterruptible one is ended by nobody else.

use std::collections::{BTreeMap, VecDeque};

use surety_model::event::{
    BlockEvent, BlockStep, Comm, DiskNumber, Event, EventKind, GuestDisk, LeaveState, RequestServed,
};
use surety_units::{CpuId, Nanos, Tid};

use crate::jobs::interrupts::Context;

use super::past::{keep, room};
use super::{CPU_CHANGES_MIN, THREAD_CHANGES_MAX};

mod account;
mod guests;

use guests::Guests;

/// Bios of a disk that are under way and remembered, and disks and words that are.
const BIOS_MAX: usize = 1 << 16;
const DISKS_MAX: usize = 256;
const RULES_MAX: usize = 256;

/// Whose a request is: the thread that submitted its first bio. Where the trace names no thread the id is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Submitter {
    /// Its id.
    pub tid: Tid,
    /// Its name then; empty: the device works for nobody's request.
    pub comm: Comm,
}

/// A rule of an I/O scheduler, by its place in [`super::Blames::rules`]; the first of them is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u16);

/// What a request waited for, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskCause {
    /// It slept, and this one had not yet submitted what it waited for.
    Unsubmitted(Submitter),
    /// A bio before it goes to the I/O scheduler. In a plug: nobody. There is no request for it: while the disk was at this one's, which
    /// may be had by others once that is complete.
    Unscheduled(Option<Submitter>),
    /// In the I/O scheduler, while the disk was at this one's request, which had been dispatched by this rule.
    Scheduler(Submitter, RuleId),
    /// In the I/O scheduler, while the disk had nothing: held back. The rule is the one it was dispatched by in the end.
    Held(RuleId),
    /// In the device, which was at this one's request.
    Device(Submitter),
    /// In the device's controller.
    Overhead,
    /// The arm moves.
    Seek,
    /// The medium turns; of flash: cells are read or programmed.
    Rotation,
    /// Data moves.
    Transfer,
    /// The device does the request; the trace does not say how.
    Service,
    /// The request is complete and who waits has not been woken.
    Completed,
}

/// A bio that is under way.
#[derive(Clone, Copy, Debug)]
struct Bio {
    by: Submitter,
    end: u64,
    queued: Nanos,
    /// When there was a request for it.
    made: Option<Nanos>,
    /// When its request went to the I/O scheduler, or it joined one there.
    scheduled: Option<Nanos>,
}

/// A request that the device has.
#[derive(Clone, Debug)]
struct Flying {
    serial: u64,
    issued: Nanos,
    end: u64,
    bios: Vec<(u64, Bio)>,
    /// Of a guest's disk: the last of the host's requests for it that is complete.
    host: Option<Way>,
}

/// A request that the device is done with.
#[derive(Clone, Copy, Debug)]
struct Done {
    serial: u64,
    by: Submitter,
    rule: RuleId,
    issued: Nanos,
    completed: Nanos,
}

/// What a thread waited for.
#[derive(Clone, Debug)]
pub(super) enum Awaited {
    /// A bio, whose request is complete.
    Bio(Way),
    /// One of a guest's disk, and the last of the host's that were made for its request.
    OfGuest(Box<[Way; 2]>),
    /// A request of this disk to be free for its bio, queued then.
    Free { disk: usize, queued: Nanos },
}

/// How a bio and its request came to be complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    disk: usize,
    by: Submitter,
    serial: u64,
    rule: RuleId,
    queued: Nanos,
    made: Option<Nanos>,
    scheduled: Option<Nanos>,
    issued: Nanos,
    completed: Nanos,
    /// Behind others in the device, overhead, seek, rotation, transfer.
    parts: Option<[Nanos; 5]>,
}

/// What is known of one disk.
#[derive(Clone, Debug)]
struct Disk {
    number: DiskNumber,
    /// Whether the trace tells when there is a request for a bio.
    tells_made: bool,
    /// Under way, by place, the first of one place first.
    bios: BTreeMap<BioKey, Bio>,
    /// Bios that were queued.
    queued: u64,
    flying: BTreeMap<Place, Flying>,
    /// In the order of completion.
    done: VecDeque<Done>,
    /// What the simulator said of the request that is complete next.
    served: Option<(u64, [Nanos; 5], RuleId)>,
}

/// Names a bio that is under way.
type BioKey = (Place, u64);

/// Where a request or a bio begins; of one place there may be a read and a write at a time.
type Place = (u64, Kind);

/// Requests of one kind alone are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Read,
    Write,
    Other,
    Flush,
}

/// The last completion that was told on a CPU, and how deep in interrupts.
#[derive(Clone, Copy, Debug)]
struct Told {
    way: Way,
    host: Option<Way>,
    depth: u32,
    /// Whether a thread got the CPU since, at the same instant.
    is_left: bool,
}

/// What is known of one CPU.
#[derive(Clone, Debug, Default)]
struct OnCpu {
    /// The name of its thread when it got the CPU.
    name: Comm,
    /// Interrupts that are open, since the last switch.
    depth: u32,
    /// How deep the timer's interrupt is that is the innermost.
    clock: Option<u32>,
    told: Option<Told>,
}

impl OnCpu {
    /// An interrupt begins.
    fn enter(&mut self, context: Context) {
        self.depth += 1;
        if context.is_clock() {
            self.clock = Some(self.depth);
        }
    }

    /// An interrupt ends.
    fn leave(&mut self) {
        self.told = self.told.filter(|told| told.depth < self.depth || told.depth == 0);
        self.depth = self.depth.saturating_sub(1);
        self.clock = self.clock.filter(|clock| *clock <= self.depth);
    }
}

/// All disks of a trace, and who waited for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Disks {
    disks: Vec<Disk>,
    serials: u64,
    /// The rules' words; the first is none.
    pub(super) rules: Vec<String>,
    cpus: Vec<OnCpu>,
    /// Since when a thread sleeps, and whether no signal wakes it.
    asleep: BTreeMap<Tid, (Nanos, bool)>,
    /// The last bio of a thread that is complete.
    own: BTreeMap<Tid, (Way, Option<Way>)>,
    /// The last one that a thread queued, by its disk.
    last: BTreeMap<Tid, (usize, BioKey)>,
    guests: Guests,
    /// What ended sleeps of a thread, and when.
    wakes: BTreeMap<Tid, VecDeque<(Nanos, Awaited)>>,
    /// A start-up is under way: more of what happens is remembered.
    pub(super) is_starting: bool,
}

impl Disks {
    /// Takes an event. Of a trace without disks nothing is kept.
    #[inline]
    pub(super) fn event(&mut self, event: &Event<'_>) {
        if let EventKind::Block(block) = &event.kind {
            return self.block(event, block);
        }
        if let EventKind::Marker { text } = event.kind {
            return self.marker(text);
        }
        if let EventKind::Switch { next_comm, .. } = event.kind {
            let cpu = self.cpu(event.cpu);
            let told = cpu.told.filter(|told| told.way.completed == event.time);
            *cpu = OnCpu {
                name: next_comm,
                depth: 0,
                clock: None,
                told: told.map(|told| Told { depth: 0, is_left: true, ..told }),
            };
        }
        if self.disks.is_empty() {
            return;
        }
        match event.kind {
            EventKind::Switch { prev, prev_state, .. } if prev_state.is_blocked() => {
                let is_deep = prev_state == LeaveState::Uninterruptible;
                self.asleep.insert(prev, (event.time, is_deep));
            }
            EventKind::Waking(woken) | EventKind::Wakeup(woken) => self.woken(woken.tid, event),
            EventKind::IrqEntry { irq, .. } => self.cpu(event.cpu).enter(Context::Irq(irq)),
            EventKind::SoftirqEntry { vector } => self.cpu(event.cpu).enter(Context::Softirq(vector)),
            EventKind::VectorEntry { name } => self.cpu(event.cpu).enter(Context::Vector(name)),
            EventKind::IrqExit { .. } | EventKind::SoftirqExit { .. } | EventKind::VectorExit { .. } => {
                self.cpu(event.cpu).leave();
            }
            EventKind::Exit { tid, .. } => {
                self.own.remove(&tid);
                self.last.remove(&tid);
                self.asleep.remove(&tid);
            }
            EventKind::Lost { .. } => *self.cpu(event.cpu) = OnCpu::default(),
            _ => {}
        }
    }

    /// What a simulated disk says.
    fn marker(&mut self, text: &str) {
        if let Some(served) = RequestServed::parse(text) {
            let rule = self.rule(served.rule);
            if let Some(at) = self.disk(served.disk) {
                self.disks[at].served = Some((served.sector, served.parts, rule));
            }
        } else if let Some(guest) = GuestDisk::parse(text)
            && let (Some(disk), Some(host)) = (self.disk(guest.disk), self.disk(guest.host))
        {
            self.guests.add(disk, host, &guest);
        }
    }

    /// What ended the sleep of a thread that was woken in this time; `None`: no disk did.
    pub(super) fn awaited(&self, tid: Tid, (from, until): (Nanos, Nanos)) -> Option<&Awaited> {
        let wakes = self.wakes.get(&tid)?;
        let behind = wakes.partition_point(|(at, _)| *at <= until);
        let (at, awaited) = wakes.get(behind.checked_sub(1)?)?;
        (*at > from).then_some(awaited)
    }

    #[inline]
    fn cpu(&mut self, cpu: CpuId) -> &mut OnCpu {
        if self.cpus.len() <= cpu.index() {
            self.cpus.resize_with(cpu.index() + 1, OnCpu::default);
        }
        &mut self.cpus[cpu.index()]
    }

    /// Who submits: the current thread, unless the event names another, which has no id then.
    fn submitter(&mut self, event: &Event<'_>, block: &BlockEvent) -> Submitter {
        let name = self.cpu(event.cpu).name;
        let is_another = name != Comm::default() && name != block.comm;
        Submitter { tid: if is_another { Tid::IDLE } else { event.current }, comm: block.comm }
    }

    /// The place of a disk; `None`: there are too many.
    fn disk(&mut self, number: DiskNumber) -> Option<usize> {
        if let Some(at) = self.disks.iter().position(|disk| disk.number == number) {
            return Some(at);
        }
        (self.disks.len() < DISKS_MAX).then(|| {
            self.disks.push(Disk {
                number,
                tells_made: false,
                bios: BTreeMap::new(),
                queued: 0,
                flying: BTreeMap::new(),
                done: VecDeque::new(),
                served: None,
            });
            self.disks.len() - 1
        })
    }

    fn rule(&mut self, words: &str) -> RuleId {
        if self.rules.is_empty() {
            self.rules.push(String::new());
        }
        let at = self.rules.iter().position(|known| known == words).unwrap_or_else(|| {
            if self.rules.len() >= RULES_MAX {
                return 0;
            }
            self.rules.push(words.to_owned());
            self.rules.len() - 1
        });
        RuleId(u16::try_from(at).unwrap_or(0))
    }

    /// A sleeper is woken.
    fn woken(&mut self, tid: Tid, event: &Event<'_>) {
        let Some((slept, is_deep)) = self.asleep.remove(&tid) else { return };
        if is_deep {
            // Whoever waits for a flush waits for no other; the kernel lets one flush do for several threads.
            for disk in &mut self.disks {
                disk.bios.retain(|(place, _), bio| place.1 != Kind::Flush || bio.by.tid != tid);
            }
        }
        if let Some(awaited) = self.ended_by(tid, (slept, is_deep), event) {
            let most = room(THREAD_CHANGES_MAX, self.is_starting);
            keep(self.wakes.entry(tid).or_default(), (event.time, awaited), most);
        }
    }

    /// What a thread waited for that is woken now.
    fn ended_by(&self, tid: Tid, (slept, is_deep): (Nanos, bool), event: &Event<'_>) -> Option<Awaited> {
        if let Some(free) = self.without_request(tid).filter(|_| is_deep) {
            return Some(free);
        }
        let inside = |way: &Way| way.completed >= slept;
        let told = self.cpus.get(event.cpu.index()).and_then(|cpu| {
            if !is_deep && cpu.clock == Some(cpu.depth) {
                return None;
            }
            let told = cpu.told.filter(|told| inside(&told.way))?;
            let is_there = cpu.depth > 0 || !told.is_left || is_deep;
            let is_now = told.way.completed == event.time && is_there;
            (told.depth > 0 || is_now).then_some((told.way, told.host))
        });
        let own = self.own.get(&tid).copied().filter(|(own, _)| match told {
            Some((told, _)) if is_deep => own.completed >= told.completed,
            Some((told, _)) => own.serial == told.serial,
            None => is_deep && inside(own),
        });
        own.or(told).map(|(way, host)| match host {
            Some(host) => Awaited::OfGuest(Box::new([way, host])),
            None => Awaited::Bio(way),
        })
    }

    /// The bio that a thread queued last, where there is no request for it yet.
    fn without_request(&self, tid: Tid) -> Option<Awaited> {
        let (disk, key) = *self.last.get(&tid)?;
        let bio = self.disks[disk].bios.get(&key).filter(|_| self.disks[disk].tells_made)?;
        let is_without = bio.made.is_none() && bio.scheduled.is_none();
        is_without.then_some(Awaited::Free { disk, queued: bio.queued })
    }

    fn block(&mut self, event: &Event<'_>, block: &BlockEvent) {
        let Some(at) = self.disk(block.disk) else { return };
        let by = self.submitter(event, block);
        let disk = &mut self.disks[at];
        let place = place(block);
        let now = event.time;
        match block.step {
            BlockStep::BioQueued => {
                let key = disk.begin(place, block.end(), by, now);
                // A device is told to flush without a request.
                let is_counted = by.tid != Tid::IDLE && place.1 != Kind::Flush;
                if let Some(key) = key.filter(|_| is_counted) {
                    self.last.insert(by.tid, (at, key));
                }
            }
            BlockStep::BioAppended | BlockStep::BioPrepended => {
                if let Some((_, bio)) = disk.bios.range_mut((place, 0)..=(place, u64::MAX)).next_back() {
                    bio.made.get_or_insert(now);
                    bio.scheduled.get_or_insert(now);
                }
            }
            BlockStep::RequestMade => {
                disk.tells_made = true;
                if disk.bios.range((place, 0)..=(place, u64::MAX)).next().is_none() {
                    disk.begin(place, block.end(), by, now);
                }
                let mut bios = disk.bios.range_mut((place, 0)..=(place, u64::MAX));
                if let Some((_, bio)) = bios.find(|(_, bio)| bio.made.is_none()) {
                    bio.made = Some(now);
                }
            }
            BlockStep::Inserted => {
                for at in disk.bios_of(place, block.end(), by, now) {
                    if let Some(bio) = disk.bios.get_mut(&at) {
                        bio.scheduled = Some(now);
                    }
                }
            }
            BlockStep::Joined => {}
            BlockStep::Issued => {
                let bios = disk.bios_of(place, block.end(), by, now).into_iter();
                let bios = bios.filter_map(|at| Some((at.0.0, disk.bios.remove(&at)?))).collect();
                self.serials += 1;
                let (serial, end) = (self.serials, block.end());
                let flying = Flying { serial, issued: now, end, bios, host: None };
                disk.flying.insert(place, flying);
            }
            BlockStep::Returned => {
                if let Some(flying) = disk.flying.remove(&place) {
                    for (sector, bio) in flying.bios {
                        disk.queued += 1;
                        disk.bios.insert(((sector, place.1), disk.queued), bio);
                    }
                }
            }
            BlockStep::Completed => self.completed(at, event, block),
        }
    }

    /// The device is done with a request, or with the beginning of one.
    fn completed(&mut self, at: usize, event: &Event<'_>, block: &BlockEvent) {
        let disk = &mut self.disks[at];
        let place = place(block);
        let Some(flying) = disk.flying.remove(&place) else { return };
        if place.1 != Kind::Flush && flying.end > block.end() {
            disk.flying.insert((block.end(), place.1), flying);
            return;
        }
        let Flying { serial, issued, bios, host, .. } = flying;
        let served = disk.served.take().filter(|(sector, ..)| *sector == block.sector);
        let (parts, rule) = served.map_or((None, RuleId(0)), |(_, parts, rule)| (Some(parts), rule));
        let by = bios.first().map_or(Submitter::default(), |(_, bio)| bio.by);
        let most = room(CPU_CHANGES_MIN, self.is_starting);
        keep(&mut disk.done, Done { serial, by, rule, issued, completed: event.time }, most);
        let (mut first, completed) = (None, event.time);
        for (sector, bio) in &bios {
            let Bio { by, queued, made, scheduled, .. } = *bio;
            let way = Way { disk: at, by, serial, rule, queued, made, scheduled, issued, completed, parts };
            first.get_or_insert(way);
            if by.tid != Tid::IDLE {
                self.own.insert(by.tid, (way, host));
            }
            self.guests.carried(&mut self.disks, (*sector, place.1), &by, way);
        }
        if let Some(way) = first {
            let cpu = self.cpu(event.cpu);
            cpu.told = Some(Told { way, host, depth: cpu.depth, is_left: false });
        }
    }
}

impl Disk {
    fn begin(&mut self, place: Place, end: u64, by: Submitter, now: Nanos) -> Option<BioKey> {
        (self.bios.len() < BIOS_MAX).then(|| {
            self.queued += 1;
            let key = (place, self.queued);
            self.bios.insert(key, Bio { by, end, queued: now, made: None, scheduled: None });
            key
        })
    }

    /// Keys of the bios of a request; where none was seen it counts as one.
    fn bios_of(&mut self, place: Place, end: u64, by: Submitter, now: Nanos) -> Vec<BioKey> {
        if self.inside(place, end).next().is_none() {
            self.begin(place, end, by, now);
        }
        self.inside(place, end).collect()
    }

    /// Keys of the bios of a kind that lie from this place up to that sector; of flushes the first.
    fn inside(&self, (sector, kind): Place, end: u64) -> impl Iterator<Item = BioKey> + '_ {
        let end = end.max(sector);
        let bios = self.bios.range(((sector, Kind::Read), 0)..=((end, Kind::Flush), u64::MAX));
        let most = if kind == Kind::Flush { 1 } else { usize::MAX };
        bios.filter(move |((place, _), bio)| place.1 == kind && bio.end <= end).map(|(at, _)| *at).take(most)
    }
}

/// Where it begins; a flush has no place, and the kernel tells one or another.
fn place(block: &BlockEvent) -> Place {
    let kind = kind(block);
    (if kind == Kind::Flush { 0 } else { block.sector }, kind)
}

fn kind(block: &BlockEvent) -> Kind {
    // A flush before an operation stands before its letter; without sectors it is all there is.
    let letters = block.rwbs.text();
    match letters.trim_start_matches('F').chars().next() {
        _ if block.sectors == 0 && letters.starts_with('F') => Kind::Flush,
        Some('R') => Kind::Read,
        Some('W') => Kind::Write,
        _ => Kind::Other,
    }
}

#[cfg(test)]
pub(super) mod tests;
