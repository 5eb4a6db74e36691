//! [`Disks`]: what bios and requests went through, and which of them a sleeping thread waited for.
//!
//! Bios belong to the thread that was current when they were queued; a request takes with it the bios whose sectors it has. A
//! sleep is a wait for a disk where a request completed in it and
//! - a bio of the thread was in that request, and the thread slept uninterruptibly (`D`), or was woken where a completion
//!   was told: then it is the last of its own;
//! - or none was, and it was woken where a completion was told: pages that another thread has read for it, or writes it
//!   waited for. Then it is that completion's request.
//!
//! *Where a completion was told*: on its CPU and inside the interrupt that told it, or, outside of an interrupt, at the same instant.
//! There an interruptible sleep ends by it only before another thread has the CPU: whom a thread wakes that ran again because of a completion
//! has waited for that thread, not for a disk. An uninterruptible one is ended by nobody else.

use std::collections::{BTreeMap, VecDeque};

use surety_model::event::{
    BlockEvent, BlockStep, Comm, DiskNumber, Event, EventKind, LeaveState, RequestServed,
};
use surety_units::{CpuId, Nanos, Tid};

use super::{CPU_CHANGES_MAX, THREAD_CHANGES_MAX};

mod account;

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
    /// A bio before it goes to the I/O scheduler: in a plug, or there is no request for it.
    Unscheduled,
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

/// A bio and its request, whose completion ended a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    disk: usize,
    serial: u64,
    rule: RuleId,
    queued: Nanos,
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
    /// Under way, by place, the first of one place first.
    bios: BTreeMap<(Place, u64), Bio>,
    /// Bios that were queued.
    queued: u64,
    flying: BTreeMap<Place, Flying>,
    /// In the order of completion.
    done: VecDeque<Done>,
    /// What the simulator said of the request that is complete next.
    served: Option<(u64, [Nanos; 5], RuleId)>,
}

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
    awaited: Awaited,
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
    told: Option<Told>,
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
    own: BTreeMap<Tid, Awaited>,
    /// What ended sleeps of a thread, and when.
    wakes: BTreeMap<Tid, VecDeque<(Nanos, Awaited)>>,
}

impl Disks {
    /// Takes an event. Of a trace without disks nothing is kept.
    #[inline]
    pub(super) fn event(&mut self, event: &Event<'_>) {
        if let EventKind::Block(block) = &event.kind {
            return self.block(event, block);
        }
        if let EventKind::Switch { next_comm, .. } = event.kind {
            let cpu = self.cpu(event.cpu);
            let told = cpu.told.filter(|told| told.awaited.completed == event.time);
            *cpu = OnCpu {
                name: next_comm,
                depth: 0,
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
            EventKind::IrqEntry { .. } | EventKind::SoftirqEntry { .. } | EventKind::VectorEntry { .. } => {
                self.cpu(event.cpu).depth += 1;
            }
            EventKind::IrqExit { .. } | EventKind::SoftirqExit { .. } | EventKind::VectorExit { .. } => {
                let cpu = self.cpu(event.cpu);
                cpu.told = cpu.told.filter(|told| told.depth < cpu.depth || told.depth == 0);
                cpu.depth = cpu.depth.saturating_sub(1);
            }
            EventKind::Exit { tid, .. } => {
                self.own.remove(&tid);
                self.asleep.remove(&tid);
            }
            EventKind::Lost { .. } => *self.cpu(event.cpu) = OnCpu::default(),
            EventKind::Marker { text } => {
                if let Some(served) = RequestServed::parse(text) {
                    let rule = self.rule(served.rule);
                    if let Some(at) = self.disk(served.disk) {
                        self.disks[at].served = Some((served.sector, served.parts, rule));
                    }
                }
            }
            _ => {}
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
        let inside = |awaited: &Awaited| awaited.completed >= slept;
        let cpu = self.cpu(event.cpu);
        let is_here = |told: &Told| {
            let is_there = cpu.depth > 0 || !told.is_left || is_deep;
            let is_now = told.awaited.completed == event.time && is_there;
            told.depth > 0 || is_now
        };
        let told = cpu.told.filter(is_here).map(|told| told.awaited).filter(inside);
        let is_told = |own: &Awaited| told.is_some_and(|told| told.serial == own.serial);
        let own = self.own.get(&tid).copied().filter(|own| inside(own) && (is_deep || is_told(own)));
        if let Some(awaited) = own.or(told) {
            let wakes = self.wakes.entry(tid).or_default();
            if wakes.len() >= THREAD_CHANGES_MAX {
                wakes.pop_front();
            }
            wakes.push_back((event.time, awaited));
        }
    }

    fn block(&mut self, event: &Event<'_>, block: &BlockEvent) {
        let Some(at) = self.disk(block.disk) else { return };
        let by = self.submitter(event, block);
        let disk = &mut self.disks[at];
        let place = place(block);
        let now = event.time;
        match block.step {
            BlockStep::BioQueued => disk.begin(place, block.end(), by, now),
            BlockStep::BioAppended | BlockStep::BioPrepended => {
                if let Some((_, bio)) = disk.bios.range_mut((place, 0)..=(place, u64::MAX)).next_back() {
                    bio.scheduled.get_or_insert(now);
                }
            }
            BlockStep::RequestMade => {
                if disk.bios.range((place, 0)..=(place, u64::MAX)).next().is_none() {
                    disk.begin(place, block.end(), by, now);
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
                let flying = Flying { serial: self.serials, issued: now, end: block.end(), bios };
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
        let Flying { serial, issued, bios, .. } = flying;
        let served = disk.served.take().filter(|(sector, ..)| *sector == block.sector);
        let (parts, rule) = served.map_or((None, RuleId(0)), |(_, parts, rule)| (Some(parts), rule));
        let by = bios.first().map_or(Submitter::default(), |(_, bio)| bio.by);
        if disk.done.len() >= CPU_CHANGES_MAX {
            disk.done.pop_front();
        }
        disk.done.push_back(Done { serial, by, rule, issued, completed: event.time });
        let mut first = None;
        for (_, bio) in &bios {
            let Bio { by, queued, scheduled, .. } = *bio;
            let awaited =
                Awaited { disk: at, serial, rule, queued, scheduled, issued, completed: event.time, parts };
            first.get_or_insert(awaited);
            if by.tid != Tid::IDLE {
                self.own.insert(by.tid, awaited);
            }
        }
        if let Some(awaited) = first {
            let cpu = self.cpu(event.cpu);
            cpu.told = Some(Told { awaited, depth: cpu.depth, is_left: false });
        }
    }
}

impl Disk {
    fn begin(&mut self, place: Place, end: u64, by: Submitter, now: Nanos) {
        if self.bios.len() < BIOS_MAX {
            self.queued += 1;
            self.bios.insert((place, self.queued), Bio { by, end, queued: now, scheduled: None });
        }
    }

    /// Keys of the bios of a request; where none was seen it counts as one.
    fn bios_of(&mut self, place: Place, end: u64, by: Submitter, now: Nanos) -> Vec<(Place, u64)> {
        if self.inside(place, end).next().is_none() {
            self.begin(place, end, by, now);
        }
        self.inside(place, end).collect()
    }

    /// Keys of the bios of a kind that lie from this place up to that sector; of flushes the first.
    fn inside(&self, (sector, kind): Place, end: u64) -> impl Iterator<Item = (Place, u64)> + '_ {
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
mod tests;
