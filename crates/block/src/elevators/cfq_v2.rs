//! `cfq` of 2.6.9 to 2.6.11, the second of its three versions (`drivers/block/cfq-iosched.c`): a queue for each process, no time slices
//! and no idling.
//!
//! Queues stand in the order of the service they have had, which is the time their requests took in the device, in milliseconds, or
//! the number of requests where the device takes four at a time or more; it is divided by eight every second. When the driver
//! wants something up to `quantum` requests are chosen, one of each queue, in the first round only of queues with nothing in the
//! device; a queue gives its oldest request where that has expired, once in `fifo_expire_r` / 4, else the one nearest to its last. The
//! chosen ones go in the order of sectors.

use std::collections::BTreeSet;

use surety_units::Nanos;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Rule, Side};
use crate::order::Lane;
use crate::request::{Bio, Op, ProcessId, RequestId, Requests};
use crate::tunable::Tunable;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "cfq-v2",
    source: "drivers/block/cfq-iosched.c of Linux 2.6.10",
    front: Front::Legacy,
    tunables: &[
        Tunable::number("quantum", 4, "requests", "requests chosen at a time"),
        Tunable::number("fifo_expire_r", 500, "ms", "a read has expired after this"),
        Tunable::number("fifo_expire_w", 5000, "ms", "a write has expired after this"),
        Tunable::number("fifo_batch_expire", 125, "ms", "between two expired requests of one queue"),
        Tunable::number("back_seek_max", 16 * 1024, "KiB", "how far below its last request one may lie"),
    ],
    make: |making| Box::new(CfqV2::new(making)),
};

const EXPIRED: Rule = Rule("expired, of the queue with the least service");
const NEAREST: Rule = Rule("nearest, of the queue with the least service");

/// The service that was had counts an eighth after each of these (`cfq_service`).
const SERVICE_PERIOD: Nanos = Nanos::SECOND;
/// From this depth of the device on service is counted in requests (`cfq_max_depth`).
const TAGGED: u32 = 4;

/// The requests of one process.
#[derive(Clone, Debug, Default)]
struct Queue {
    lanes: [Lane; 2],
    in_flight: u32,
    fifo_checked: Nanos,
    last_end: u64,
}

impl Queue {
    fn is_busy(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.is_empty())
    }
}

/// The service that a queue has had.
#[derive(Clone, Copy, Debug, Default)]
struct Service {
    had: u64,
    /// Since when that counts.
    since: Nanos,
}

#[derive(Debug)]
struct CfqV2 {
    queues: Vec<Queue>,
    /// By queue.
    services: Vec<Service>,
    /// When the first of them is divided again, or earlier.
    divides: Nanos,
    /// Queues with requests: by service, then by requests in the device.
    busy: BTreeSet<(u64, u32, usize)>,
    is_tagged: bool,
    queued: usize,
    quantum: u64,
    expire: [Nanos; 2],
    fifo_pause: Nanos,
    back: u64,
    /// The queues of a choice.
    chosen: Vec<usize>,
}

fn direction(op: Op) -> usize {
    usize::from(op != Op::Read)
}

impl CfqV2 {
    fn new(making: &Making) -> CfqV2 {
        let settings = &making.settings;
        CfqV2 {
            queues: Vec::new(),
            services: Vec::new(),
            divides: Nanos::ZERO,
            busy: BTreeSet::new(),
            is_tagged: making.tags >= TAGGED,
            queued: 0,
            quantum: settings.get("quantum").max(1),
            expire: [settings.millis("fifo_expire_r"), settings.millis("fifo_expire_w")],
            fifo_pause: settings.millis("fifo_batch_expire"),
            back: settings.get("back_seek_max") * 2,
            chosen: Vec::new(),
        }
    }

    fn queue(&mut self, process: ProcessId) -> &mut Queue {
        if self.queues.len() <= process.index() {
            self.queues.resize_with(process.index() + 1, Queue::default);
            self.services.resize(process.index() + 1, Service::default());
            self.divides = Nanos::ZERO;
        }
        &mut self.queues[process.index()]
    }

    /// Changes a queue, or its service, which may have it stand elsewhere.
    fn change<T>(&mut self, index: usize, what: impl FnOnce(&mut Queue, &mut Service) -> T) -> T {
        let place = |queue: &Queue, service: &Service| {
            queue.is_busy().then_some((service.had, queue.in_flight, index))
        };
        let (queue, service) = (&mut self.queues[index], &mut self.services[index]);
        let before = place(queue, service);
        let answer = what(queue, service);
        let behind = place(queue, service);
        if before != behind {
            before.map(|before| self.busy.remove(&before));
            behind.map(|behind| self.busy.insert(behind));
        }
        answer
    }

    /// One request of a queue goes to the driver.
    fn take(&mut self, now: Nanos, requests: &mut Requests, index: usize, out: &mut Outgoing) {
        let (pause, back) = (self.fifo_pause, self.back);
        let taken = self.change(index, |queue, _| {
            let is_due = now >= queue.fifo_checked + pause;
            let expired = queue.lanes.iter().find_map(|lane| lane.expired(requests, now)).filter(|_| is_due);
            let (id, rule) = match expired {
                Some(id) => {
                    queue.fifo_checked = now;
                    (id, EXPIRED)
                }
                None => {
                    let near = |lane: &Lane| lane.nearest(requests, queue.last_end, back);
                    // A queue's reads and writes are in one order of sectors.
                    let away = |id: &RequestId| {
                        let sector = requests[*id].sector;
                        if sector >= queue.last_end { sector - queue.last_end } else { u64::MAX - sector }
                    };
                    (queue.lanes.iter().filter_map(near).min_by_key(away)?, NEAREST)
                }
            };
            queue.lanes[direction(requests[id].op)].remove(requests, id);
            queue.last_end = requests[id].end();
            queue.in_flight += 1;
            Some((id, rule))
        });
        if let Some((id, rule)) = taken {
            self.queued -= 1;
            out.sort_in(requests, id, rule);
        }
    }

    /// Divides service whose period is over; that of a queue which has none begins anew.
    fn divide(&mut self, now: Nanos) {
        if now < self.divides {
            return;
        }
        let mut first = Nanos::MAX;
        for index in 0..self.services.len() {
            let mut service = self.services[index];
            while now >= service.since + SERVICE_PERIOD {
                service.had >>= 3;
                service.since = if service.had == 0 { now } else { service.since + SERVICE_PERIOD };
            }
            first = first.min(service.since);
            if service.had == self.services[index].had {
                self.services[index] = service;
            } else {
                self.change(index, |_, of| *of = service);
            }
        }
        self.divides = first.min(now) + SERVICE_PERIOD;
    }

    fn round(&mut self, context: &mut Context<'_>, out: &mut Outgoing, is_first: bool) -> u64 {
        self.divide(context.now);
        let mut chosen = std::mem::take(&mut self.chosen);
        let room = self.quantum.saturating_sub(out.len() as u64);
        let may = self.busy.iter().filter(|(_, in_flight, _)| !(is_first && *in_flight > 0));
        chosen.extend(may.map(|(_, _, index)| *index).take(usize::try_from(room).unwrap_or(usize::MAX)));
        for index in &chosen {
            self.take(context.now, context.requests, *index, out);
        }
        let taken = chosen.len() as u64;
        chosen.clear();
        self.chosen = chosen;
        taken
    }
}

impl Elevator for CfqV2 {
    fn may_merge(&mut self, context: &mut Context<'_>, into: RequestId, bio: &Bio) -> bool {
        context.requests[into].process == bio.process
    }

    fn front_merge(&mut self, _context: &mut Context<'_>, bio: &Bio) -> Option<RequestId> {
        self.queue(bio.process).lanes[direction(bio.op)].sorted.at(bio.end())
    }

    fn neighbour(&self, requests: &Requests, id: RequestId, side: Side) -> Option<RequestId> {
        let request = &requests[id];
        let lane = &self.queues.get(request.process.index())?.lanes[direction(request.op)];
        lane.sorted.beside(requests, id, side)
    }

    fn merged(&mut self, context: &mut Context<'_>, id: RequestId, side: Side) {
        if side == Side::Front {
            let request = &context.requests[id];
            let lane = &mut self.queue(request.process).lanes[direction(request.op)];
            lane.sorted.grown_at_front(context.requests, id);
        }
    }

    fn joining(&mut self, context: &mut Context<'_>, kept: RequestId, gone: RequestId) {
        let request = &context.requests[gone];
        let (process, direction) = (request.process, direction(request.op));
        self.change(process.index(), |queue, _| queue.lanes[direction].join(context.requests, kept, gone));
        self.queued -= 1;
    }

    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        let request = &context.requests[id];
        let (process, direction) = (request.process, direction(request.op));
        let expires = context.now + self.expire[direction];
        self.queue(process);
        self.change(process.index(), |queue, _| queue.lanes[direction].insert(context.requests, id, expires));
        self.queued += 1;
    }

    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing) {
        let mut taken = self.round(context, out, true);
        while taken < self.quantum && self.queued > 0 {
            match self.round(context, out, false) {
                0 => break,
                more => taken += more,
            }
        }
    }

    fn completed(&mut self, context: &mut Context<'_>, id: RequestId) {
        let request = &context.requests[id];
        let took = context.now - request.issued;
        let more = if self.is_tagged { 1 } else { took.get_unsigned() / 1_000_000 };
        self.change(request.process.index(), |queue, service| {
            service.had += more;
            queue.in_flight -= 1;
        });
    }

    fn exited(&mut self, _context: &mut Context<'_>, process: ProcessId) {
        let queue = self.queue(process);
        if queue.in_flight == 0 && queue.lanes.iter().all(Lane::is_empty) {
            *queue = Queue::default();
            self.services[process.index()] = Service::default();
            self.divides = Nanos::ZERO;
        }
    }

    fn queued(&self) -> usize {
        self.queued
    }
}

#[cfg(test)]
mod tests {
    use crate::script::Script;

    /// One request of each queue in a choice, and they go in the order of sectors, upwards from the last one and round the end.
    #[test]
    fn a_choice_has_one_request_of_each_queue() {
        let text = "0ms z r 9000 1\n100us a r 500 1\n100us a r 501 1\n100us b r 300 1\n100us b r 301 1";
        let order = Script::of(&super::ROW).set("quantum", 2).text(text).run();
        assert_eq!(order.sectors(), [9000, 300, 500, 501, 301]);
    }

    /// Who has had more waits: 4 of `a` were served when `b` comes with one.
    #[test]
    fn the_queue_with_the_least_service_is_first() {
        let text =
            "0ms a r 1 1\n0ms a r 2 1\n0ms a r 3 1\n0ms a r 4 1\n0ms a r 5 1\n0ms a r 6 1\n3500us b r 9 1";
        let order = Script::of(&super::ROW).set("quantum", 1).text(text).run();
        assert_eq!(order.sectors(), [1, 2, 3, 4, 9, 5, 6]);
    }
}
