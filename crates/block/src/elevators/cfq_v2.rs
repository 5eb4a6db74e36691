//! `cfq` of 2.6.9 to 2.6.11, the second of its three versions (`drivers/block/cfq-iosched.c`): a queue for each process, no time slices
//! and no idling.
//!
//! Queues stand in the order of the service they have had, which is the time their requests took in the device, in milliseconds, or
//! the number of requests where the device takes four at a time or more; it is divided by eight every second. When the driver
//! wants something up to `quantum` requests are chosen, one of each queue, in the first round only of queues with nothing in the
//! device; a queue gives its oldest request where that has expired, once in `fifo_expire_r` / 4, else the one nearest to its last. The
//! chosen ones go in the order of sectors.

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
    service: u64,
    /// Since when that counts.
    service_from: Nanos,
    fifo_checked: Nanos,
    last_end: u64,
}

impl Queue {
    fn is_busy(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.is_empty())
    }
}

#[derive(Debug)]
struct CfqV2 {
    queues: Vec<Queue>,
    is_tagged: bool,
    queued: usize,
    quantum: u64,
    expire: [Nanos; 2],
    fifo_pause: Nanos,
    back: u64,
    /// Busy queues in their order, made anew for each choice.
    order: Vec<(u64, u32, usize)>,
}

fn direction(op: Op) -> usize {
    usize::from(op != Op::Read)
}

impl CfqV2 {
    fn new(making: &Making) -> CfqV2 {
        let settings = &making.settings;
        CfqV2 {
            queues: Vec::new(),
            is_tagged: making.tags >= TAGGED,
            queued: 0,
            quantum: settings.get("quantum").max(1),
            expire: [settings.millis("fifo_expire_r"), settings.millis("fifo_expire_w")],
            fifo_pause: settings.millis("fifo_batch_expire"),
            back: settings.get("back_seek_max") * 2,
            order: Vec::new(),
        }
    }

    fn queue(&mut self, process: ProcessId) -> &mut Queue {
        let count = self.queues.len().max(process.index() + 1);
        self.queues.resize_with(count, Queue::default);
        &mut self.queues[process.index()]
    }

    /// One request of a queue goes to the driver.
    fn take(&mut self, now: Nanos, requests: &mut Requests, index: usize, out: &mut Outgoing) {
        let (pause, back) = (self.fifo_pause, self.back);
        let queue = &mut self.queues[index];
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
                let Some(id) = queue.lanes.iter().filter_map(near).min_by_key(away) else { return };
                (id, NEAREST)
            }
        };
        queue.lanes[direction(requests[id].op)].remove(requests, id);
        queue.last_end = requests[id].end();
        queue.in_flight += 1;
        self.queued -= 1;
        out.sort_in(requests, id, rule);
    }

    fn round(&mut self, context: &mut Context<'_>, out: &mut Outgoing, is_first: bool) -> u64 {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        for (index, queue) in self.queues.iter_mut().enumerate() {
            while context.now >= queue.service_from + SERVICE_PERIOD {
                queue.service >>= 3;
                queue.service_from =
                    if queue.service == 0 { context.now } else { queue.service_from + SERVICE_PERIOD };
            }
            if queue.is_busy() && !(is_first && queue.in_flight > 0) {
                order.push((queue.service, queue.in_flight, index));
            }
        }
        order.sort_unstable();
        let mut taken = 0;
        for (_, _, index) in &order {
            if out.len() as u64 >= self.quantum {
                break;
            }
            self.take(context.now, context.requests, *index, out);
            taken += 1;
        }
        self.order = order;
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
        self.queue(request.process).lanes[direction(request.op)].join(context.requests, kept, gone);
        self.queued -= 1;
    }

    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        let request = &context.requests[id];
        let direction = direction(request.op);
        let expires = context.now + self.expire[direction];
        self.queue(request.process).lanes[direction].insert(context.requests, id, expires);
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
        let service = if self.is_tagged { 1 } else { took.get_unsigned() / 1_000_000 };
        let queue = self.queue(request.process);
        queue.service += service;
        queue.in_flight -= 1;
    }

    fn exited(&mut self, _context: &mut Context<'_>, process: ProcessId) {
        let queue = self.queue(process);
        if queue.in_flight == 0 && queue.lanes.iter().all(Lane::is_empty) {
            *queue = Queue::default();
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
