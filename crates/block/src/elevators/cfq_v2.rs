//! `cfq` of 2.6.9 to 2.6.11, the second of its three versions (`drivers/block/cfq-iosched.c`): a queue for each process, no time slices
//! and no idling.
//!
//! When the driver wants something requests are chosen in rounds. A round has one request of each queue, however many queues there
//! are, the first only of queues with nothing in the device; another follows while fewer than `quantum` are chosen
//! (`cfq_dispatch_requests`). A queue gives its oldest request where that has expired, once in `fifo_expire_r` / 4, else the one nearest
//! to its last. The chosen ones go in the order of sectors.
//!
//! In a round queues stand in the order of the service they have had. That is the time their requests took in the device, as a
//! difference of two numbers of ticks: a request that is shorter than a tick counts one where a tick came while it was there, which is
//! right on average. Where the device takes four requests at a time or more it is their number. It is divided by eight every
//! second. Of equal queues the one that was put in its place last is the first: `cfq_sort_rr_list` looks for the place from the end, and
//! goes on to the first of the equal ones.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use surety_units::Nanos;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Rule, Side};
use crate::order::Lane;
use crate::request::{Bio, Op, ProcessId, RequestId, Requests};
use crate::tick::Tick;
use crate::tunable::Tunable;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "cfq-v2",
    source: "drivers/block/cfq-iosched.c of Linux 2.6.10",
    front: Front::Legacy,
    tunables: &[
        Tunable::positive("quantum", 4, "requests", "another round follows while fewer are chosen"),
        Tunable::positive("fifo_expire_r", 500, "ms", "a read has expired after this"),
        Tunable::positive("fifo_expire_w", 5000, "ms", "a write has expired after this"),
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
    /// Where it stands among those with requests.
    place: Option<Place>,
}

/// A place in the list of a round: by service, then the last put there first.
type Place = (u64, Reverse<u64>);

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
    /// Queues with requests, in the order of a round.
    busy: BTreeSet<(Place, usize)>,
    /// How often a queue was put in a place.
    puts: u64,
    tick: Tick,
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
            puts: 0,
            tick: Tick::at(making.hz),
            is_tagged: making.tags >= TAGGED,
            queued: 0,
            quantum: settings.get("quantum"),
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
        let (queue, service) = (&mut self.queues[index], &mut self.services[index]);
        let answer = what(queue, service);
        let had = queue.is_busy().then_some(service.had);
        if had != queue.place.map(|(had, _)| had) {
            if let Some(before) = queue.place.take() {
                self.busy.remove(&(before, index));
            }
            if let Some(had) = had {
                self.puts += 1;
                let place = (had, Reverse(self.puts));
                queue.place = Some(place);
                self.busy.insert((place, index));
            }
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

    /// Chooses one request of each queue; returns how many.
    fn round(&mut self, context: &mut Context<'_>, out: &mut Outgoing, is_first: bool) -> u64 {
        self.divide(context.now);
        let mut chosen = std::mem::take(&mut self.chosen);
        let all = self.busy.iter().map(|(_, index)| *index);
        chosen.extend(all.filter(|index| !is_first || self.queues[*index].in_flight == 0));
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
        let took = self.tick.number(context.now) - self.tick.number(request.issued);
        let more = if self.is_tagged { 1 } else { took.unsigned_abs() };
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
    use surety_units::Nanos;

    use crate::elevator::Making;
    use crate::queue::{self, Queue, Submitted};
    use crate::request::{Bio, BioId, Op, Process, ProcessId};
    use crate::script::Script;
    use crate::tunable::Settings;

    /// One request of each queue in a choice, and they go in the order of sectors, upwards from the last one and round the end.
    #[test]
    fn a_choice_has_one_request_of_each_queue() {
        let text = "0ms z r 9000 1\n100us a r 500 1\n100us a r 501 1\n100us b r 300 1\n100us b r 301 1";
        let order = Script::of(&super::ROW).set("quantum", 2).text(text).run();
        assert_eq!(order.sectors(), [9000, 300, 500, 501, 301]);
    }

    /// Which of two sectors is served first. Requests of one choice show the order of their queues where their directions differ, for then
    /// neither passes the other.
    fn first_of(text: &str, sectors: [u64; 2]) -> u64 {
        let order = Script::of(&super::ROW).set("quantum", 1).takes(Nanos::from_micros(300)).text(text).run();
        let found = order.sectors().into_iter().find(|sector| sectors.contains(sector));
        found.expect("every request is served")
    }

    /// A round has a request of each queue, also where `quantum` is less.
    #[test]
    fn a_round_leaves_no_queue_out() {
        let text = "0ms z r 9000 1\n100us a r 700 1\n100us a r 701 1\n100us b r 500 1\n100us c r 300 1";
        let order = Script::of(&super::ROW).set("quantum", 1).text(text).run();
        assert_eq!(order.sectors(), [9000, 300, 500, 700, 701]);
    }

    /// 4 of `a` were served when `b` comes with one: that goes before the fifth of `a`.
    #[test]
    fn the_queue_with_the_least_service_is_first() {
        let text =
            "0ms a r 1 1\n0ms a r 2 1\n0ms a r 3 1\n0ms a r 4 1\n0ms a r 5 1\n0ms a r 6 1\n3500us b w 9 1";
        let order = Script::of(&super::ROW).set("quantum", 1).text(text).run();
        assert_eq!(order.sectors(), [1, 2, 3, 4, 9, 5, 6]);
    }

    /// In 1.5 ms `a` has five requests of 0.3 ms: one tick. `a` comes again after `b`, and would be the first of two equal ones.
    #[test]
    fn requests_that_are_shorter_than_a_tick_count() {
        let five = "0ms a r 1 1\n0ms a r 2 1\n0ms a r 3 1\n0ms a r 4 1\n0ms a r 5 1\n";
        let text = format!("{five}1400us z r 9000 1\n1600us b w 50 1\n1700us a r 60 1");
        assert_eq!(first_of(&text, [50, 60]), 50);
    }

    #[test]
    fn of_equal_queues_the_one_that_came_last_is_first() {
        let text = "0ms z r 9000 1\n100us a r 300 1\n200us b w 500 1";
        assert_eq!(first_of(text, [300, 500]), 500);
        let text = "0ms z r 9000 1\n100us b w 500 1\n200us a r 300 1";
        assert_eq!(first_of(text, [300, 500]), 300);
    }

    /// 20 processes read one request after the other on a device that takes one at a time, 0.2 ms for each: all have as much.
    #[test]
    fn no_process_is_starved() {
        const PROCESSES: u32 = 20;
        for quantum in [1, 4, 8, 20] {
            let mut settings = Settings::new(super::ROW.tunables);
            settings.set("quantum", quantum).expect("a tunable");
            let making = Making::new(128, 1, settings);
            let mut queue = queue::make(&super::ROW, &making);
            let mut served = [0_u32; PROCESSES as usize];
            for _ in 0..PROCESSES {
                queue.add_process(Process::default());
            }
            let submit = |queue: &mut dyn Queue, now: Nanos, process: u32, round: u32| {
                let sector = u64::from(process) * 1_000_000 + u64::from(round) * 64;
                let process = ProcessId(process);
                let bio = Bio {
                    op: Op::Read,
                    sync: true,
                    meta: false,
                    cached: false,
                    sector,
                    sectors: 32,
                    process,
                    deadline: None,
                };
                let answer = queue.submit(now, bio, BioId(process.0));
                assert!(answer == Submitted::Accepted, "128 requests are enough");
            };
            let mut now = Nanos::ZERO;
            (0..PROCESSES).for_each(|process| submit(queue.as_mut(), now, process, 0));
            queue.blocks();
            for _ in 0..2000 {
                let (id, _) = queue.next(now).expect("19 wait at least");
                now += Nanos::from_micros(200);
                let mut done = Vec::new();
                queue.complete(now, id, &mut done, &mut Vec::new());
                for bio in done {
                    served[bio.0 as usize] += 1;
                    submit(queue.as_mut(), now, bio.0, served[bio.0 as usize]);
                }
            }
            assert!(served.iter().all(|of| (98..=102).contains(of)), "quantum {quantum}: {served:?}");
        }
    }
}
