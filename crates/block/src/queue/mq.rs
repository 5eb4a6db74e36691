//! [`Mq`]: a blk-mq queue with one hardware queue (`block/blk-mq.c`, `block/blk-mq-sched.c`).
//!
//! A bio joins the request that its process plugged last, else a request of the elevator that ends (or begins) where it begins (or
//! ends); else it takes a tag, or its process waits for one. A plug holds up to 32 requests and goes to the elevator when the process
//! unplugs or blocks, or when its last request (by kernel: its first) has 128 KiB. The driver has `depth` tags of its own; one request more is taken from
//! the elevator and waits for the next of them (`hctx->dispatch`), unless the driver is asked first.
//!
//! Where writes of the page cache are throttled a bio of those waits for a place of theirs before it takes a tag (`throttle`).
//!
//! The elevator is asked when the queue is *run*, until it holds back what it has or the driver takes no more. It is run when requests come and before a process
//! waits for a tag; at the elevator's timer; when a request is complete, where the driver took no more before or the elevator wants it; and some ticks after the elevator
//! held back what it had. So what an elevator holds back without a timer may leave the device idle, as in the kernel. Timers and
//! completions have it run by the kernel's worker, which waits for its CPU where [`Queue::holds_worker`] says so.

use std::collections::VecDeque;

use surety_units::Nanos;

use super::ends::Ends;
use super::sleepers::Sleepers;
use super::steps::{Step, StepKind, Steps};
use super::tags::Tags;
use super::throttle::Throttle;
use super::{Queue, Submitted};
use crate::elevator::{Context, Elevator, ElevatorRow, Making, Outgoing, Rule, Side};
use crate::kernels::{Alone, Measured};
use crate::request::{Bio, BioId, Op, Process, ProcessId, Request, RequestId, Requests};
use crate::tick::Tick;

/// Requests of a plug before it is flushed (`BLK_MAX_REQUEST_COUNT`).
const PLUG_REQUESTS: usize = 32;
/// Sectors of one request of it, by kernel the last or the first, before it is flushed (`BLK_PLUG_FLUSH_SIZE`).
const PLUG_SECTORS: u32 = 256;

/// A queue whose elevator holds back what it has is run again after this (`BLK_MQ_BUDGET_DELAY`), on a tick.
const HELD_BACK: Nanos = Nanos::from_millis(3);
/// How often the driver took no more, as a moving average: its weight, and what one such run adds (`blk_mq_update_dispatch_busy`).
const BUSY_WEIGHT: u32 = 8;
const BUSY: u32 = 16;

/// What a process holds together.
#[derive(Clone, Debug, Default)]
struct Plug {
    is_open: bool,
    requests: Vec<RequestId>,
}

/// A blk-mq queue.
pub struct Mq {
    elevator: Box<dyn Elevator>,
    requests: Requests,
    processes: Vec<Process>,
    plugs: Vec<Plug>,
    /// Requests that the device takes at a time, and that are in it.
    depth: u32,
    in_flight: u32,
    asks_first: bool,
    /// The latest instant that it was told. A process may ask at one that is yet to come, when the kernel's own work before it is done:
    /// what it asks for is not younger than the run that follows.
    latest: Nanos,
    /// It is to be run.
    runs: bool,
    /// The driver took no more (`BLK_MQ_S_SCHED_RESTART`, or the `restarts` of SCSI): it is run when a request is complete.
    restarts: bool,
    /// When it is run because the elevator held back what it had.
    again: Option<Nanos>,
    /// The worker has no CPU, and is to run it once it has one.
    is_held: bool,
    is_due: bool,
    tick: Tick,
    /// While it is not 0, requests leave the elevator one at a time.
    busy: u32,
    /// Left the elevator and waits for a tag.
    parked: Option<(RequestId, Rule)>,
    /// Have their tags: the driver takes them now.
    ready: VecDeque<(RequestId, Rule)>,
    max_sectors: u32,
    /// A request has one of them.
    tags: Tags,
    /// Of each process that waits for a tag the limit under which it began to: it holds until it has one (`blk_mq_get_tag`).
    limits: Vec<Option<Option<u32>>>,
    measured: Measured,
    alone: Alone,
    /// Queued requests by the sector behind them.
    ends: Ends,
    out: Outgoing,
    steps: Steps,
    sleepers: Sleepers,
    throttle: Option<Throttle>,
}

/// A queue with an elevator.
pub(super) fn make(row: &'static ElevatorRow, making: &Making) -> Box<dyn Queue> {
    let elevator = (row.make)(making);
    let sleepers = Sleepers::of_tags(making.requests, elevator.least_limit(), making.rules);
    Box::new(Mq {
        elevator,
        requests: Requests::default(),
        processes: Vec::new(),
        plugs: Vec::new(),
        depth: making.tags,
        in_flight: 0,
        asks_first: making.asks_first,
        latest: Nanos::ZERO,
        runs: false,
        restarts: false,
        again: None,
        is_held: false,
        is_due: false,
        tick: Tick::at(making.hz),
        busy: 0,
        parked: None,
        ready: VecDeque::new(),
        max_sectors: making.max_sectors.min(making.rules.max_sectors),
        tags: Tags::new(making.requests, making.rules),
        limits: Vec::new(),
        measured: making.rules.plug,
        alone: making.rules.alone,
        ends: Ends::default(),
        out: Outgoing::default(),
        steps: Steps::default(),
        sleepers,
        throttle: making.throttling.map(Throttle::new),
    })
}

impl Mq {
    /// Asks the elevator something.
    fn ask<T>(&mut self, now: Nanos, question: impl FnOnce(&mut dyn Elevator, &mut Context<'_>) -> T) -> T {
        self.latest = self.latest.max(now);
        let now = self.latest;
        let mut context = Context { now, requests: &mut self.requests, processes: &self.processes };
        question(self.elevator.as_mut(), &mut context)
    }

    fn tell(&mut self, kind: StepKind, bio: &Bio) {
        self.steps.bio(kind, bio, self.processes[bio.process.index()].priority);
    }

    /// Whether a bio may become a part of a request, as far as the queue is concerned (`blk_rq_merge_ok`).
    fn fits(&self, id: RequestId, bio: &Bio) -> bool {
        let request = &self.requests[id];
        request.op == bio.op
            && request.sync == bio.sync
            && request.priority == self.processes[bio.process.index()].priority
            && request.sectors + bio.sectors <= self.max_sectors
    }

    fn joins_plug(&mut self, bio: &Bio, id: BioId) -> bool {
        let Some(last) = self.plugs[bio.process.index()].requests.last().copied() else { return false };
        if !self.fits(last, bio) {
            return false;
        }
        let (sector, end) = (self.requests[last].sector, self.requests[last].end());
        if end == bio.sector {
            self.requests.append(last, bio, id);
            self.tell(StepKind::Appended, bio);
        } else if sector == bio.end() {
            self.requests.prepend(last, bio, id);
            self.tell(StepKind::Prepended, bio);
        } else {
            return false;
        }
        true
    }

    fn joins_queued(&mut self, now: Nanos, bio: &Bio, id: BioId) -> bool {
        if let Some(before) = self.ends.get(bio.sector)
            && self.fits(before, bio)
            && self.ask(now, |elevator, context| elevator.may_merge(context, before, bio))
        {
            self.ends.remove(bio.sector, before);
            self.requests.append(before, bio, id);
            self.tell(StepKind::Appended, bio);
            self.ends.insert(bio.end(), before);
            self.ask(now, |elevator, context| elevator.merged(context, before, Side::Back));
            self.join_neighbour(now, before, Side::Back);
            return true;
        }
        let behind = self.ask(now, |elevator, context| elevator.front_merge(context, bio));
        let Some(behind) = behind.filter(|behind| self.fits(*behind, bio)) else { return false };
        if !self.ask(now, |elevator, context| elevator.may_merge(context, behind, bio)) {
            return false;
        }
        self.requests.prepend(behind, bio, id);
        self.tell(StepKind::Prepended, bio);
        self.ask(now, |elevator, context| elevator.merged(context, behind, Side::Front));
        self.join_neighbour(now, behind, Side::Front);
        true
    }

    /// A request has grown at an end: joins the one it now touches.
    fn join_neighbour(&mut self, now: Nanos, id: RequestId, side: Side) {
        let Some(other) = self.elevator.neighbour(&self.requests, id, side) else { return };
        let (kept, gone) = if side == Side::Back { (id, other) } else { (other, id) };
        let (first, second) = (&self.requests[kept], &self.requests[gone]);
        let touch = first.end() == second.sector && first.op == second.op && first.sync == second.sync;
        if !touch || first.priority != second.priority || first.sectors + second.sectors > self.max_sectors {
            return;
        }
        let (middle, end) = (first.end(), second.end());
        self.ask(now, |elevator, context| elevator.joining(context, kept, gone));
        self.ends.remove(middle, kept);
        self.steps.request(StepKind::Joined, &self.requests[gone]);
        if let Some(throttle) = &mut self.throttle {
            throttle.ended(now, gone, &self.requests[gone], false);
        }
        self.requests.join(kept, gone);
        self.tags.free(gone);
        self.ends.insert(end, kept);
        self.sleepers.add_spare();
    }

    fn insert(&mut self, now: Nanos, id: RequestId) {
        self.requests[id].inserted = now;
        self.steps.request(StepKind::Inserted, &self.requests[id]);
        if self.requests[id].op != Op::Flush {
            let end = self.requests[id].end();
            self.ends.insert(end, id);
        }
        self.ask(now, |elevator, context| elevator.insert(context, id));
    }

    fn flush(&mut self, now: Nanos, process: ProcessId) {
        let mut requests = std::mem::take(&mut self.plugs[process.index()].requests);
        let came = !requests.is_empty();
        for id in requests.drain(..) {
            self.insert(now, id);
        }
        self.plugs[process.index()].requests = requests;
        if came {
            self.run(now);
        }
    }

    /// The queue is run by a worker, whose next run is this one, as soon as it has a CPU.
    fn run_by_worker(&mut self, now: Nanos) {
        self.again = None;
        self.is_due = self.is_held;
        if !self.is_held {
            self.run(now);
        }
    }

    /// The queue is run: at once where the driver is full, else when it asks, at the same instant.
    fn run(&mut self, now: Nanos) {
        self.runs = true;
        if self.in_flight >= self.depth {
            self.go_on(now);
        }
    }

    /// What a run does (`__blk_mq_sched_dispatch_requests`, `blk_mq_do_dispatch_sched`).
    fn go_on(&mut self, now: Nanos) {
        self.runs = false;
        if let Some(one) = self.parked.take() {
            self.restarts = true;
            if !self.gives(Some(one)) {
                return;
            }
        }
        loop {
            let most = if self.busy > 0 { 1 } else { usize::MAX };
            let (mut given, mut untagged, mut holds_back) = (0, None, false);
            while given < most && untagged.is_none() && self.elevator.queued() > 0 {
                if self.asks_first && self.in_flight >= self.depth {
                    self.restarts = true;
                    break;
                }
                let Some(one) = self.dispatched(now) else {
                    holds_back = true;
                    break;
                };
                given += 1;
                untagged = self.admits(one);
            }
            if given == 0 {
                if holds_back && self.again.is_none() && !self.is_due {
                    self.again = Some(self.tick.timer(now, HELD_BACK));
                }
                return;
            }
            if !self.gives(untagged) {
                return;
            }
        }
    }

    /// Gives a request a tag of the driver, which takes it; the request where there is none.
    fn admits(&mut self, one: (RequestId, Rule)) -> Option<(RequestId, Rule)> {
        if self.in_flight >= self.depth {
            return Some(one);
        }
        self.in_flight += 1;
        self.ready.push_back(one);
        None
    }

    /// Gives the driver what has left the elevator and has no tag yet; false: it takes no more.
    fn gives(&mut self, untagged: Option<(RequestId, Rule)>) -> bool {
        let parked = untagged.and_then(|one| self.admits(one));
        let is_full = parked.is_some();
        if is_full {
            (self.parked, self.restarts) = (parked, true);
        }
        self.busy = (self.busy * (BUSY_WEIGHT - 1) + if is_full { BUSY } else { 0 }) / BUSY_WEIGHT;
        !is_full
    }

    /// What the elevator gives, one request at most.
    fn dispatched(&mut self, now: Nanos) -> Option<(RequestId, Rule)> {
        let mut out = std::mem::take(&mut self.out);
        self.ask(now, |elevator, context| elevator.dispatch(context, &mut out));
        let given = out.take();
        self.out = out;
        let (id, _) = given?;
        let end = self.requests[id].end();
        self.ends.remove(end, id);
        given
    }
}

impl Queue for Mq {
    fn add_process(&mut self, process: Process) {
        self.processes.push(process);
        self.plugs.push(Plug::default());
        self.limits.push(None);
        self.sleepers.add_process();
    }

    fn submit(&mut self, now: Nanos, bio: Bio, id: BioId) -> Submitted {
        let resumes = self.sleepers.resumes(bio.process);
        if self.joins_plug(&bio, id) || self.joins_queued(now, &bio, id) {
            if resumes {
                self.sleepers.add_spare();
            }
            self.limits[bio.process.index()] = None;
            if let Some(throttle) = &mut self.throttle {
                throttle.joined(now, &bio);
            }
            return Submitted::Accepted;
        }
        if let Some(throttle) = &mut self.throttle
            && !throttle.admits(now, &bio)
        {
            self.flush(now, bio.process);
            return Submitted::Wait;
        }
        let waited = self.limits[bio.process.index()].take();
        let limit =
            waited.unwrap_or_else(|| self.ask(now, |elevator, context| elevator.depth_limit(context, &bio)));
        let Some(tag) = self.tags.take(limit) else {
            self.limits[bio.process.index()] = Some(limit);
            self.flush(now, bio.process);
            self.run(now);
            self.sleepers.sleep(bio.process);
            if let Some(throttle) = &mut self.throttle {
                throttle.keep(&bio);
            }
            return Submitted::Wait;
        };
        let priority = self.processes[bio.process.index()].priority;
        let request = self.requests.make(&bio, id, priority, now);
        self.tags.give(tag, request);
        self.steps.bio(StepKind::Made, &bio, priority);
        let plug = &self.plugs[bio.process.index()];
        if !plug.is_open {
            self.insert(now, request);
            match self.alone {
                Alone::Process => self.run(now),
                Alone::Worker => self.run_by_worker(now),
            }
            return Submitted::Accepted;
        }
        let measured = match self.measured {
            Measured::Last => plug.requests.last(),
            Measured::First => plug.requests.first(),
        };
        let is_long = measured.is_some_and(|id| self.requests[*id].sectors >= PLUG_SECTORS);
        if plug.requests.len() >= PLUG_REQUESTS || is_long {
            self.flush(now, bio.process);
        }
        self.plugs[bio.process.index()].requests.push(request);
        Submitted::Accepted
    }

    fn plug(&mut self, _now: Nanos, process: ProcessId) {
        self.plugs[process.index()].is_open = true;
    }

    fn unplug(&mut self, now: Nanos, process: ProcessId) {
        self.plugs[process.index()].is_open = false;
        self.flush(now, process);
    }

    fn exits(&mut self, now: Nanos, process: ProcessId) {
        self.unplug(now, process);
        self.ask(now, |elevator, context| elevator.exited(context, process));
        if self.elevator.runs_queue() {
            self.run_by_worker(now);
        }
    }

    fn raised(&mut self) -> Option<(ProcessId, Nanos)> {
        self.elevator.raised()
    }

    fn dirtiers(&mut self, now: Nanos, wait: bool) {
        if let Some(throttle) = &mut self.throttle {
            throttle.dirtiers(now, wait);
        }
    }

    fn max_sectors(&self) -> u32 {
        self.max_sectors
    }

    fn next(&mut self, now: Nanos) -> Option<(RequestId, Rule)> {
        if self.runs {
            self.go_on(now);
        }
        let (id, rule) = self.ready.pop_front()?;
        self.requests[id].issued = now;
        if let Some(throttle) = &mut self.throttle {
            throttle.issued(now, id, self.requests[id].op);
        }
        Some((id, rule))
    }

    fn complete(&mut self, now: Nanos, id: RequestId, done: &mut Vec<BioId>, woken: &mut Vec<ProcessId>) {
        self.in_flight -= 1;
        self.ask(now, |elevator, context| elevator.completed(context, id));
        done.extend_from_slice(self.requests.bios(id));
        if let Some(throttle) = &mut self.throttle {
            throttle.ended(now, id, &self.requests[id], true);
            throttle.woken(woken);
        }
        self.requests.release(id);
        self.tags.free(id);
        self.sleepers.wake(woken);
        if self.elevator.runs_queue() | std::mem::take(&mut self.restarts) {
            self.run_by_worker(now);
        }
    }

    fn timer(&self) -> Option<Nanos> {
        let window = self.throttle.as_ref().and_then(Throttle::timer);
        [self.elevator.timer(), self.again, window].into_iter().flatten().min()
    }

    fn expired(&mut self, now: Nanos) {
        if let Some(throttle) = &mut self.throttle {
            throttle.expired(now);
        }
        let mut runs = self.again.is_some_and(|at| at <= now);
        if self.elevator.timer().is_some_and(|at| at <= now) {
            runs |= self.ask(now, |elevator, context| elevator.expired(context));
        }
        if runs {
            self.run_by_worker(now);
        }
    }

    fn holds_worker(&mut self, now: Nanos, holds: bool) {
        self.is_held = holds;
        if !holds && self.is_due {
            self.run_by_worker(now);
        }
    }

    fn request(&self, id: RequestId) -> &Request {
        &self.requests[id]
    }

    fn keep_steps(&mut self) {
        self.steps.keep();
    }

    fn take_steps(&mut self, into: &mut Vec<Step>) {
        self.steps.take(into);
    }
}

#[cfg(test)]
mod tests;
