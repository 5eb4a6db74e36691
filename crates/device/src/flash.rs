//! [`Flash`]: a solid state disk, or a memory card.
//!
//! ```text
//! host -- link -- controller -- buffer -- channels -- dies (a thing at a time, reads first)
//! ```
//!
//! A read takes the controller, its pages' dies (beside each other), their channels and the link. A write takes the link and is
//! complete when the buffer has it; pages are programmed from the buffer, one die after the other, and the buffer's room comes
//! back as they are. Cells that are not free must be cleaned first ([`space`]): page copies and an erase, on the same dies. Fast
//! cells (SLC) take writes sooner until they are full, and are emptied when a die has been idle.
//!
//! Logical pages lie on the dies in turn. Times are whole nanoseconds; chance is only in how many pages of a cleaned block are
//! valid. The structure is that of MQSim (A. Tavakkol et al., FAST 2018), without its address mapping cache and with a law in the place of its page map.

mod die;
mod runs;
mod schedule;
pub mod space;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use surety_stats::random::{Pcg, stream_of};
use surety_units::{Nanos, Rate};

use crate::fixed::transfer;
use crate::model::{Completion, Hit, Ledger, Model, Op, Parts, Request, SECTOR};
use die::{Die, Program};
use space::Space;

/// Fast cells in front of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastCells {
    pub sectors: u64,
    /// To program a page of them.
    pub program: Nanos,
}

/// What a flash disk is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    pub sectors: u64,
    pub channels: u32,
    pub dies_per_channel: u32,
    /// Sectors programmed at once on a die, over all its planes.
    pub page_sectors: u32,
    pub pages_per_block: u32,
    /// From the cells to the die's register.
    pub read: Nanos,
    /// From the register to the cells.
    pub program: Nanos,
    pub erase: Nanos,
    /// Between dies and controller, of each channel.
    pub channel: Rate,
    /// Between host and controller.
    pub link: Rate,
    /// Of the link for each command's frames, beside the data.
    pub frame: Nanos,
    /// Of the controller for each command, one after the other.
    pub command: Nanos,
    /// From a command's coming to its data's, in addition, beside others.
    pub latency: Nanos,
    /// Sectors of writes that the buffer takes; 0: a write is complete when it is in the cells.
    pub buffer_sectors: u64,
    /// The buffer outlives a loss of power, so a flush has nothing to do.
    pub protected: bool,
    /// Of a flush, after the cells have everything: the map is written.
    pub flush: Nanos,
    /// An interrupted program or erase lets a read by after so long; `None`: it is not interrupted.
    pub suspend: Option<Nanos>,
    pub fast: Option<FastCells>,
    /// Cells beyond the logical sectors, as a share of them.
    pub spare: f64,
    /// Share of the logical sectors that is in use at first.
    pub filled: f64,
    /// All cells have been written: cleaning begins at once.
    pub worn_in: bool,
    /// Sequential runs of writes that are followed beside each other.
    pub streams: u32,
    pub depth: usize,
}

/// A request inside.
#[derive(Clone, Copy, Debug)]
struct Slot {
    tag: u32,
    request: Request,
    accepted: Nanos,
    /// Pages still to come, or to be programmed.
    pages: u32,
    /// Sectors of a write that the buffer has not.
    waiting: u64,
    /// When its last data had moved.
    last: Nanos,
    hit: Hit,
    is_used: bool,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The command, and of a write the data, have come.
    Arrived(usize),
    /// A die is done with what it began in a turn.
    Die(usize, u64),
    /// A die may have been idle for long.
    Idle(usize, u64),
}

/// A flash disk.
#[derive(Clone, Debug)]
pub struct Flash {
    parameters: Parameters,
    dies: Vec<Die>,
    channel_free: Vec<Nanos>,
    controller_free: Nanos,
    link_free: Nanos,
    slots: Vec<Slot>,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    sequence: u64,
    /// Sectors in the buffer.
    buffered: u64,
    /// Sectors in the buffer that do not fill a page yet.
    open: u64,
    /// Writes that wait for the buffer.
    waiting: VecDeque<usize>,
    /// The die the next page goes to.
    next_die: usize,
    /// Programs under way by epoch, the first of which is `first_epoch`; a flush begins a new one.
    epochs: VecDeque<u64>,
    first_epoch: u64,
    flushes: VecDeque<(usize, u64)>,
    fast_used: u64,
    space: Space,
    chance: Pcg,
    ledger: Ledger,
}

impl Flash {
    /// A disk at rest.
    pub fn new(parameters: Parameters, seed: u64) -> Flash {
        let count = (parameters.channels * parameters.dies_per_channel) as usize;
        let reserve = RESERVE_BLOCKS * parameters.pages_per_block;
        let memory = u64::from(reserve) * u64::from(parameters.page_sectors) * count as u64;
        let share = (parameters.spare, parameters.filled);
        let space = Space::new(parameters.sectors, share, parameters.streams, memory);
        let pages = space.unused() / f64::from(parameters.page_sectors) / count as f64;
        let free = if parameters.worn_in { reserve } else { (pages as u32).max(reserve) };
        Flash {
            dies: vec![Die { free, ..Die::default() }; count],
            channel_free: vec![Nanos::ZERO; parameters.channels as usize],
            controller_free: Nanos::ZERO,
            link_free: Nanos::ZERO,
            slots: Vec::with_capacity(parameters.depth),
            events: BinaryHeap::new(),
            sequence: 0,
            buffered: 0,
            open: 0,
            waiting: VecDeque::new(),
            next_die: 0,
            epochs: VecDeque::from([0]),
            first_epoch: 0,
            flushes: VecDeque::new(),
            fast_used: 0,
            space,
            chance: Pcg::for_job(seed, stream_of("flash"), 0),
            ledger: Ledger::default(),
            parameters,
        }
    }

    fn push(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// A free slot for a request.
    fn slot(&mut self, slot: Slot) -> usize {
        match self.slots.iter().position(|slot| !slot.is_used) {
            Some(free) => {
                self.slots[free] = slot;
                free
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        }
    }

    /// Completes the request of a slot at an instant, with the time its cells took.
    fn finish(&mut self, slot: usize, completed: Nanos, cells: Nanos) {
        let done = self.slots[slot];
        self.slots[slot].is_used = false;
        let whole = completed - done.accepted;
        let moved = if matches!(done.request.op, Op::Read | Op::Write) { done.request.bytes() } else { 0 };
        let overhead = self.parameters.command + self.parameters.latency;
        let moving = self.parameters.frame + transfer(moved, self.parameters.link);
        let queue = (whole - overhead - cells - moving).max(Nanos::ZERO);
        let parts = Parts {
            queue: queue.get() as f64,
            overhead: overhead.get() as f64,
            rotation: cells.get() as f64,
            ..Parts::default()
        };
        let service = parts.into_service(whole);
        let (tag, accepted) = (done.tag, done.accepted);
        self.ledger.complete(Completion { tag, accepted, completed, hit: done.hit, service });
    }

    /// A command has come, and of a write the data.
    fn arrive(&mut self, slot: usize, now: Nanos) {
        let request = self.slots[slot].request;
        match request.op {
            Op::Read => self.read(slot, &request, now),
            Op::Write => {
                self.space.write(request.sector, request.sectors);
                self.slots[slot].waiting = u64::from(request.sectors);
                self.waiting.push_back(slot);
                self.admit(now);
            }
            Op::Discard => {
                self.space.discard(request.sectors);
                self.finish(slot, now, Nanos::ZERO);
            }
            Op::Flush if self.parameters.protected => self.finish(slot, now, Nanos::ZERO),
            Op::Flush => {
                self.close_page(None, now);
                self.flushes.push_back((slot, self.first_epoch + self.epochs.len() as u64 - 1));
                self.epochs.push_back(0);
                self.end_flushes(now);
            }
        }
    }

    /// Asks the dies for the pages of a read.
    fn read(&mut self, slot: usize, request: &Request, now: Nanos) {
        let page = u64::from(self.parameters.page_sectors);
        let (first, last) = (request.sector / page, (request.end() - 1) / page);
        self.slots[slot].pages = (last - first + 1) as u32;
        for number in first..=last {
            let from = request.sector.max(number * page);
            let sectors = request.end().min((number + 1) * page) - from;
            let die = (number % self.dies.len() as u64) as usize;
            self.dies[die].reads.push_back((slot, sectors as u32));
            self.kick(die, now);
        }
    }

    /// Lets the buffer take what waits for it, in the order it came.
    fn admit(&mut self, now: Nanos) {
        while let Some(&slot) = self.waiting.front() {
            let waiting = self.slots[slot].waiting;
            let is_through = self.slots[slot].request.through || self.parameters.buffer_sectors == 0;
            let room = self.parameters.buffer_sectors.saturating_sub(self.buffered);
            let taken = if self.parameters.buffer_sectors == 0 { waiting } else { waiting.min(room) };
            if taken == 0 {
                return;
            }
            self.buffered += taken;
            self.open += taken;
            self.slots[slot].waiting -= taken;
            self.slots[slot].pages += u32::from(is_through && self.slots[slot].pages == 0);
            while self.open >= u64::from(self.parameters.page_sectors) {
                self.program(u64::from(self.parameters.page_sectors), is_through.then_some(slot), now);
            }
            if self.slots[slot].waiting > 0 {
                continue;
            }
            self.waiting.pop_front();
            if !is_through {
                self.finish(slot, now, Nanos::ZERO);
                continue;
            }
            self.close_page(Some(slot), now);
            // The one that held it open.
            self.slots[slot].pages -= 1;
            if self.slots[slot].pages == 0 {
                self.finish(slot, now, Nanos::ZERO);
            }
        }
    }

    /// Programs what does not fill a page, if there is anything.
    fn close_page(&mut self, slot: Option<usize>, now: Nanos) {
        if self.open > 0 {
            self.program(self.open, slot, now);
        }
    }

    /// Sends a page of the open sectors to the next die.
    fn program(&mut self, sectors: u64, slot: Option<usize>, now: Nanos) {
        self.open -= sectors;
        let fast = self.parameters.fast.is_some_and(|fast| self.fast_used + sectors <= fast.sectors);
        if fast {
            self.fast_used += u64::from(self.parameters.page_sectors);
        }
        let epoch = self.first_epoch + self.epochs.len() as u64 - 1;
        if let Some(count) = self.epochs.back_mut() {
            *count += 1;
        }
        if let Some(slot) = slot {
            self.slots[slot].pages += 1;
        }
        let die = self.next_die;
        self.next_die = (die + 1) % self.dies.len();
        self.dies[die].programs.push_back(Program { sectors, epoch, slot, fast });
        self.kick(die, now);
    }

    /// A page is in the cells.
    fn programmed(&mut self, program: Program, now: Nanos) {
        self.buffered -= program.sectors;
        self.epochs[(program.epoch - self.first_epoch) as usize] -= 1;
        if let Some(slot) = program.slot {
            self.slots[slot].pages -= 1;
            if self.slots[slot].pages == 0 {
                self.finish(slot, now, self.program_time(program.fast));
            }
        }
        self.end_flushes(now);
        self.admit(now);
    }

    /// Completes the flushes of which all that came before is in the cells.
    fn end_flushes(&mut self, now: Nanos) {
        while let Some(&(slot, epoch)) = self.flushes.front() {
            // Of the epochs up to the flush's, the first is the front's.
            if epoch != self.first_epoch || self.epochs[0] > 0 {
                return;
            }
            self.flushes.pop_front();
            self.epochs.pop_front();
            self.first_epoch += 1;
            let cells = self.parameters.flush;
            self.finish(slot, now + cells, cells);
        }
    }

    fn program_time(&self, fast: bool) -> Nanos {
        match self.parameters.fast {
            Some(cells) if fast => cells.program,
            _ => self.parameters.program,
        }
    }

    /// Does everything up to an instant, in order.
    fn settle(&mut self, now: Nanos) {
        while let Some(Reverse((at, _, event))) = self.events.peek().copied() {
            if at > now {
                return;
            }
            self.events.pop();
            match event {
                Event::Arrived(slot) => self.arrive(slot, at),
                Event::Die(die, turn) => self.die_done(die, turn, at),
                Event::Idle(die, turn) => self.die_idle(die, turn, at),
            }
        }
    }
}

/// Blocks of a die that are kept free to clean into.
const RESERVE_BLOCKS: u32 = 2;

impl Model for Flash {
    fn depth(&self) -> usize {
        self.parameters.depth
    }

    fn sectors(&self) -> u64 {
        self.parameters.sectors
    }

    fn queued(&self) -> usize {
        self.ledger.inside()
    }

    fn accept(&mut self, now: Nanos, tag: u32, request: &Request) {
        self.settle(now);
        self.ledger.enter(now, tag, request, self.parameters.depth, self.parameters.sectors);
        let hit = if request.op == Op::Read || request.through { Hit::Miss } else { Hit::Whole };
        let slot = self.slot(Slot {
            tag,
            request: *request,
            accepted: now,
            pages: 0,
            waiting: 0,
            last: now,
            hit,
            is_used: true,
        });
        let understood = now.max(self.controller_free) + self.parameters.command;
        self.controller_free = understood;
        let mut ready = understood + self.parameters.latency;
        if request.op == Op::Write {
            ready = ready.max(self.link_free)
                + self.parameters.frame
                + transfer(request.bytes(), self.parameters.link);
            self.link_free = ready;
        }
        self.push(ready, Event::Arrived(slot));
    }

    fn next(&self) -> Option<Nanos> {
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        [event, self.ledger.next()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        self.settle(now);
        self.ledger.take(now)
    }

    fn foreseen(&self, after: usize) -> Option<(u32, Nanos)> {
        self.ledger.foreseen(after)
    }

    fn estimate(&self, now: Nanos, request: &Request) -> Option<Nanos> {
        let command = self.controller_free.max(now) - now + self.parameters.command + self.parameters.latency;
        let data = self.parameters.frame + transfer(request.bytes(), self.parameters.link);
        Some(match request.op {
            Op::Read => {
                let page = u64::from(self.parameters.page_sectors);
                let die = &self.dies[(request.sector / page % self.dies.len() as u64) as usize];
                let busy = die.work.map_or(Nanos::ZERO, |(until, _)| (until - now).max(Nanos::ZERO));
                let first = u64::from(request.sectors).min(page) * SECTOR;
                command + busy + self.parameters.read + transfer(first, self.parameters.channel) + data
            }
            Op::Write => command + data,
            Op::Flush | Op::Discard => command,
        })
    }

    fn fork(&self) -> Box<dyn Model + Send> {
        Box::new(self.clone())
    }

    fn digest(&self) -> u64 {
        self.ledger.digest()
    }
}

#[cfg(test)]
mod tests;
