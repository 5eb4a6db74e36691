//! [`Legacy`]: the request queue before blk-mq (`block/ll_rw_blk.c` and `block/elevator.c` of 2.6.20).
//!
//! A bio joins a request that ends (or begins) where it begins (or ends), else it takes a request: of each direction there are
//! `nr_requests`. Who takes the last of them may take 32 more within HZ/50 (`ioc_batching`), others sleep; nobody has more than half as
//! many again. An empty queue is plugged by the first request that comes: the driver takes nothing until a process waits, four
//! requests are queued, or 3 ms have passed.

use surety_units::Nanos;

use super::ends::Ends;
use super::sleepers::Sleepers;
use super::steps::{Step, StepKind, Steps};
use super::{Queue, Submitted};
use crate::elevator::{Context, Elevator, ElevatorRow, Making, Outgoing, Rule, Side};
use crate::request::{Bio, BioId, Op, Process, ProcessId, Request, RequestId, Requests};

/// Requests that unplug the queue (`q->unplug_thresh`).
const UNPLUG_REQUESTS: usize = 4;
/// A plug ends by itself after this (`q->unplug_delay`).
const UNPLUG_AFTER: Nanos = Nanos::from_millis(3);
/// Requests of a process that batches (`q->nr_batching`, `BLK_BATCH_REQ`).
const BATCH_REQUESTS: u32 = 32;
/// For how long it does (`BLK_BATCH_TIME`, HZ/50).
const BATCH_TIME: Nanos = Nanos::from_millis(20);
/// Sectors of a request: what a queue of an IDE disk without 48-bit addresses takes (`ide_init_queue`): 128 KiB.
const MAX_SECTORS: u32 = 256;

/// What a process may take although the queue is full (`struct io_context`).
#[derive(Clone, Copy, Debug, Default)]
struct Batching {
    left: u32,
    since: Nanos,
}

impl Batching {
    fn is_on(&self, now: Nanos) -> bool {
        self.left == BATCH_REQUESTS || (self.left > 0 && now < self.since + BATCH_TIME)
    }
}

/// The requests of one direction (`struct request_list`).
#[derive(Clone, Debug, Default)]
struct Direction {
    count: u32,
    is_full: bool,
    sleepers: Sleepers,
}

/// A queue of 2.6.
pub struct Legacy {
    elevator: Box<dyn Elevator>,
    requests: Requests,
    processes: Vec<Process>,
    batching: Vec<Batching>,
    directions: [Direction; 2],
    /// Requests of each direction (`nr_requests`).
    most: u32,
    /// Requests that the device takes at a time, and that are in it.
    depth: u32,
    in_flight: u32,
    /// When the plug ends by itself; `None`: the queue is not plugged.
    plugged: Option<Nanos>,
    /// Queued requests by the sector behind them.
    ends: Ends,
    out: Outgoing,
    steps: Steps,
}

fn direction(op: Op) -> usize {
    usize::from(op != Op::Read)
}

/// A queue with an elevator.
pub(super) fn make(row: &'static ElevatorRow, making: &Making) -> Box<dyn Queue> {
    Box::new(Legacy {
        elevator: (row.make)(making),
        requests: Requests::default(),
        processes: Vec::new(),
        batching: Vec::new(),
        directions: Default::default(),
        most: making.requests,
        depth: making.tags,
        in_flight: 0,
        plugged: None,
        ends: Ends::default(),
        out: Outgoing::default(),
        steps: Steps::default(),
    })
}

impl Legacy {
    /// Asks the elevator something.
    fn ask<T>(&mut self, now: Nanos, question: impl FnOnce(&mut dyn Elevator, &mut Context<'_>) -> T) -> T {
        let mut context = Context { now, requests: &mut self.requests, processes: &self.processes };
        question(self.elevator.as_mut(), &mut context)
    }

    fn tell(&mut self, kind: StepKind, bio: &Bio) {
        self.steps.bio(kind, bio, self.processes[bio.process.index()].priority);
    }

    /// Whether a bio may become a part of a request (`elv_rq_merge_ok`, `ll_back_merge_fn`).
    fn fits(&self, id: RequestId, bio: &Bio) -> bool {
        let request = &self.requests[id];
        request.op == bio.op && request.op != Op::Flush && request.sectors + bio.sectors <= MAX_SECTORS
    }

    fn joins(&mut self, now: Nanos, bio: &Bio, id: BioId) -> bool {
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

    /// A request has grown at an end: joins the one it now touches (`attempt_merge`).
    fn join_neighbour(&mut self, now: Nanos, id: RequestId, side: Side) {
        let Some(other) = self.elevator.neighbour(&self.requests, id, side) else { return };
        let (kept, gone) = if side == Side::Back { (id, other) } else { (other, id) };
        let (first, second) = (&self.requests[kept], &self.requests[gone]);
        let touch = first.end() == second.sector && first.op == second.op;
        if !touch || first.sectors + second.sectors > MAX_SECTORS {
            return;
        }
        let (middle, end, op) = (first.end(), second.end(), first.op);
        self.ask(now, |elevator, context| elevator.joining(context, kept, gone));
        self.ends.remove(middle, kept);
        self.steps.request(StepKind::Joined, &self.requests[gone]);
        self.requests.join(kept, gone);
        self.ends.insert(end, kept);
        self.free(op);
        self.directions[direction(op)].sleepers.add_spare();
    }

    /// A request of a direction is no more (`freed_request`).
    fn free(&mut self, op: Op) {
        let of = &mut self.directions[direction(op)];
        of.count -= 1;
        of.is_full &= of.count >= self.most;
    }

    /// Whether a process gets a request now (`get_request`).
    fn may_take(&mut self, now: Nanos, process: ProcessId, op: Op) -> bool {
        let (of, batching) = (&mut self.directions[direction(op)], &mut self.batching[process.index()]);
        if of.count + 1 >= self.most {
            if !of.is_full {
                of.is_full = true;
                *batching = Batching { left: BATCH_REQUESTS, since: now };
            } else if !batching.is_on(now) {
                return false;
            }
        }
        if of.count >= self.most + self.most / 2 {
            return false;
        }
        of.count += 1;
        if batching.is_on(now) {
            batching.left -= 1;
        }
        true
    }

    /// Takes from the elevator what the driver takes next.
    fn refill(&mut self, now: Nanos) {
        if !self.out.is_empty() || self.elevator.queued() == 0 {
            return;
        }
        let mut out = std::mem::take(&mut self.out);
        self.ask(now, |elevator, context| elevator.dispatch(context, &mut out));
        for id in out.ids() {
            let end = self.requests[id].end();
            self.ends.remove(end, id);
        }
        self.out = out;
    }
}

impl Queue for Legacy {
    fn add_process(&mut self, process: Process) {
        self.processes.push(process);
        self.batching.push(Batching::default());
        self.directions.iter_mut().for_each(|direction| direction.sleepers.add_process());
    }

    fn submit(&mut self, now: Nanos, bio: Bio, id: BioId) -> Submitted {
        let place = direction(bio.op);
        let resumes = self.directions[place].sleepers.resumes(bio.process);
        if self.joins(now, &bio, id) {
            if resumes {
                self.directions[place].sleepers.add_spare();
            }
            return Submitted::Accepted;
        }
        if resumes {
            self.batching[bio.process.index()] = Batching { left: BATCH_REQUESTS, since: now };
        }
        if !self.may_take(now, bio.process, bio.op) {
            self.plugged = None;
            self.directions[place].sleepers.sleep(bio.process);
            return Submitted::Wait;
        }
        if self.elevator.queued() == 0 && self.out.is_empty() && self.plugged.is_none() {
            self.plugged = Some(now + UNPLUG_AFTER);
        }
        let priority = self.processes[bio.process.index()].priority;
        let request = self.requests.make(&bio, id, priority, now);
        self.steps.bio(StepKind::Made, &bio, priority);
        if bio.op != Op::Flush {
            self.ends.insert(bio.end(), request);
        }
        self.steps.request(StepKind::Inserted, &self.requests[request]);
        self.ask(now, |elevator, context| elevator.insert(context, request));
        if self.requests.len() - self.in_flight as usize >= UNPLUG_REQUESTS {
            self.plugged = None;
        }
        Submitted::Accepted
    }

    fn plug(&mut self, _now: Nanos, _process: ProcessId) {}

    fn unplug(&mut self, _now: Nanos, _process: ProcessId) {}

    fn blocks(&mut self) {
        self.plugged = None;
    }

    fn exits(&mut self, now: Nanos, process: ProcessId) {
        self.ask(now, |elevator, context| elevator.exited(context, process));
    }

    fn raised(&mut self) -> Option<(ProcessId, Nanos)> {
        self.elevator.raised()
    }

    fn max_sectors(&self) -> u32 {
        MAX_SECTORS
    }

    fn next(&mut self, now: Nanos) -> Option<(RequestId, Rule)> {
        if self.in_flight >= self.depth || self.plugged.is_some() {
            return None;
        }
        self.refill(now);
        let (id, rule) = self.out.take()?;
        self.out.set_boundary(self.requests[id].end());
        self.requests[id].issued = now;
        self.in_flight += 1;
        Some((id, rule))
    }

    fn complete(&mut self, now: Nanos, id: RequestId, done: &mut Vec<BioId>, woken: &mut Vec<ProcessId>) {
        self.in_flight -= 1;
        self.ask(now, |elevator, context| elevator.completed(context, id));
        done.extend_from_slice(self.requests.bios(id));
        let op = self.requests[id].op;
        self.requests.release(id);
        self.free(op);
        self.directions[direction(op)].sleepers.wake(woken);
    }

    fn timer(&self) -> Option<Nanos> {
        [self.plugged, self.elevator.timer()].into_iter().flatten().min()
    }

    fn expired(&mut self, now: Nanos) {
        if self.elevator.timer().is_some_and(|at| at <= now) {
            self.ask(now, |elevator, context| elevator.expired(context));
            self.plugged = None;
        }
        if self.plugged.is_some_and(|at| at <= now) {
            self.plugged = None;
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
