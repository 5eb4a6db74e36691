//! `mq-deadline` (`block/mq-deadline.c` of 6.1 to 7.2).
//!
//! For each I/O priority class (realtime, best effort, idle) and direction: requests in the order of sectors, and in the order of arrival
//! with a deadline. Classes are strict: nothing of a lower one goes while a higher one has requests queued or in the device;
//! but what waits for longer than `prio_aging_expire` goes first.
//!
//! A batch goes on upwards from the last sector of its direction, up to `fifo_batch` requests. A new batch reads, unless writes
//! wait and were passed over `writes_starved` times; it begins with the oldest request where that has expired or nothing lies
//! above, else goes on from where its direction was ([by kernel](crate::kernels): the
//! first request at or above that place, or what lay behind the last one). Expiry is looked at only there: the limits are soft.

use surety_units::Nanos;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Rule, Side};
use crate::kernels::Onward;
use crate::order::{ByArrival, BySector};
use crate::request::{Bio, IoClass, Op, RequestId, Requests};
use crate::tunable::Tunable;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "mq-deadline",
    source: "block/mq-deadline.c of Linux 6.1 to 7.2",
    front: Front::BlkMq,
    tunables: TUNABLES,
    make: |making| Box::new(MqDeadline::new(making)),
};

const TUNABLES: &[Tunable] = &[
    Tunable::number("read_expire", 500, "ms", "a read has expired after this"),
    Tunable::number("write_expire", 5000, "ms", "a write has expired after this"),
    Tunable::number("writes_starved", 2, "", "batches of reads that writes are passed over for"),
    Tunable::number("fifo_batch", 16, "requests", "requests of one batch"),
    Tunable::number("front_merges", 1, "", "whether bios are put in front of requests"),
    Tunable::number(
        "async_depth",
        0,
        "requests",
        "tags for writes and what nobody waits for; 0: all of the queue's",
    ),
    Tunable::number(
        "prio_aging_expire",
        10_000,
        "ms",
        "what has waited for longer goes before higher classes",
    ),
];

const AGED: Rule = Rule("waited for longer than prio_aging_expire");
const BATCH: Rule = Rule("next in the batch");
const EXPIRED: Rule = Rule("expired");
const FIRST: Rule = Rule("oldest, nothing lies above the last position");
const UPWARDS: Rule = Rule("first above the last position of its direction");

const READ: usize = 0;
const WRITE: usize = 1;

/// One priority class.
#[derive(Debug, Default)]
struct Class {
    /// Of each direction.
    sorted: [BySector; 2],
    fifo: [ByArrival; 2],
    /// Where the last request dispatched began.
    position: [u64; 2],
    /// What lay behind it then, where the kernel goes on with that ([`Onward::Remembered`]).
    behind: [Option<RequestId>; 2],
    /// Requests queued or in the device.
    open: u32,
}

#[derive(Debug)]
struct MqDeadline {
    classes: [Class; IoClass::COUNT],
    last: usize,
    batching: u64,
    starved: u64,
    queued: usize,
    expire: [Nanos; 2],
    writes_starved: u64,
    fifo_batch: u64,
    front_merges: bool,
    async_depth: Option<u32>,
    /// Whether it says that its least limit is one.
    says_one: bool,
    onward: Onward,
    aging: Nanos,
}

fn direction(op: Op) -> usize {
    if op == Op::Read { READ } else { WRITE }
}

impl MqDeadline {
    fn new(making: &Making) -> MqDeadline {
        let settings = &making.settings;
        MqDeadline {
            classes: Default::default(),
            last: WRITE,
            batching: 0,
            starved: 0,
            queued: 0,
            expire: [settings.millis("read_expire"), settings.millis("write_expire")],
            writes_starved: settings.get("writes_starved"),
            fifo_batch: settings.get("fifo_batch"),
            front_merges: settings.is_on("front_merges"),
            async_depth: u32::try_from(settings.get("async_depth"))
                .ok()
                .filter(|depth| *depth > 0)
                .map(|depth| making.rules.limit(making.requests, depth)),
            says_one: making.rules.deadline_says_one,
            onward: making.rules.deadline,
            aging: settings.millis("prio_aging_expire"),
        }
    }

    /// The class and the direction that a request waits in.
    fn of(&mut self, requests: &Requests, id: RequestId) -> (&mut Class, usize) {
        let request = &requests[id];
        (&mut self.classes[request.priority.class.place()], direction(request.op))
    }

    /// What a class would dispatch, of what was inserted up to `latest`.
    fn select(
        &mut self,
        requests: &Requests,
        class: usize,
        now: Nanos,
        latest: Nanos,
    ) -> Option<(RequestId, Rule)> {
        let of = &self.classes[class];
        let above = |direction: usize| match self.onward {
            Onward::Remembered => of.behind[direction],
            Onward::FromPosition => of.sorted[direction].from(of.position[direction]),
        };
        let goes_on = above(self.last).filter(|_| self.batching < self.fifo_batch);
        let (id, rule, direction) = match goes_on {
            Some(id) => (id, BATCH, self.last),
            None => {
                let has = |direction: usize| !of.fifo[direction].is_empty();
                let direction = match (has(READ), has(WRITE)) {
                    (true, true) if self.starved >= self.writes_starved => WRITE,
                    (true, _) => READ,
                    (false, true) => WRITE,
                    (false, false) => return None,
                };
                if has(READ) && has(WRITE) && direction == READ {
                    self.starved += 1;
                } else if direction == WRITE {
                    self.starved = 0;
                }
                let (oldest, expires) = of.fifo[direction].oldest().expect("it has one");
                let (id, rule) = match above(direction) {
                    _ if expires <= now => (oldest, EXPIRED),
                    None => (oldest, FIRST),
                    Some(id) => (id, UPWARDS),
                };
                (self.last, self.batching) = (direction, 0);
                (id, rule, direction)
            }
        };
        if requests[id].inserted > latest {
            return None;
        }
        self.batching += 1;
        let of = &mut self.classes[class];
        of.position[direction] = requests[id].sector;
        if self.onward == Onward::Remembered {
            of.behind[direction] = of.sorted[direction].beside(requests, id, Side::Back);
        }
        of.sorted[direction].remove(requests, id);
        of.fifo[direction].remove(id);
        Some((id, rule))
    }

    fn choose(&mut self, requests: &Requests, now: Nanos) -> Option<(RequestId, Rule)> {
        let waiting = self.classes.iter().filter(|class| class.open > 0).count();
        if waiting > 1 {
            for class in 1..IoClass::COUNT {
                if let Some((id, _)) = self.select(requests, class, now, now - self.aging) {
                    return Some((id, AGED));
                }
            }
        }
        for class in 0..IoClass::COUNT {
            let found = self.select(requests, class, now, now);
            if found.is_some() || self.classes[class].open > 0 {
                return found;
            }
        }
        None
    }
}

impl Elevator for MqDeadline {
    fn depth_limit(&mut self, _context: &mut Context<'_>, bio: &Bio) -> Option<u32> {
        self.async_depth.filter(|_| !bio.sync || bio.op != Op::Read)
    }

    fn least_limit(&self) -> u32 {
        if self.says_one { 1 } else { self.async_depth.unwrap_or(u32::MAX) }
    }

    fn front_merge(&mut self, context: &mut Context<'_>, bio: &Bio) -> Option<RequestId> {
        if !self.front_merges {
            return None;
        }
        let class = context.processes[bio.process.index()].priority.class.place();
        self.classes[class].sorted[direction(bio.op)].at(bio.end())
    }

    fn neighbour(&self, requests: &Requests, id: RequestId, side: Side) -> Option<RequestId> {
        let request = &requests[id];
        self.classes[request.priority.class.place()].sorted[direction(request.op)].beside(requests, id, side)
    }

    fn merged(&mut self, context: &mut Context<'_>, id: RequestId, side: Side) {
        if side == Side::Front {
            let (class, direction) = self.of(context.requests, id);
            class.sorted[direction].grown_at_front(context.requests, id);
        }
    }

    fn joining(&mut self, context: &mut Context<'_>, kept: RequestId, gone: RequestId) {
        let (class, direction) = self.of(context.requests, gone);
        class.fifo[direction].join(kept, gone);
        if class.behind[direction] == Some(gone) {
            class.behind[direction] = class.sorted[direction].beside(context.requests, gone, Side::Back);
        }
        class.sorted[direction].remove(context.requests, gone);
        class.open -= 1;
        self.queued -= 1;
    }

    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        let (now, expire) = (context.now, self.expire);
        let (class, direction) = self.of(context.requests, id);
        class.open += 1;
        class.sorted[direction].insert(context.requests, id);
        class.fifo[direction].push(id, now + expire[direction]);
        self.queued += 1;
    }

    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing) {
        if let Some((id, rule)) = self.choose(context.requests, context.now) {
            self.queued -= 1;
            out.append(id, rule);
        }
    }

    fn completed(&mut self, context: &mut Context<'_>, id: RequestId) {
        self.of(context.requests, id).0.open -= 1;
    }

    /// What waits because a request of a higher class is in the device waits on until the queue is run for another reason.
    fn runs_queue(&mut self) -> bool {
        false
    }

    fn queued(&self) -> usize {
        self.queued
    }
}

#[cfg(test)]
mod tests {
    use crate::script::Script;

    fn sectors(text: &str) -> Vec<u64> {
        Script::of(&super::ROW).text(text).run().sectors()
    }

    /// The first has the position at 0; then upwards, and from the oldest where nothing lies above.
    #[test]
    fn reads_go_upwards_and_begin_anew_with_the_oldest() {
        assert_eq!(
            sectors("0ms a r 500 8\n0ms a r 900 8\n0ms a r 100 8\n0ms a r 700 8"),
            [100, 500, 700, 900]
        );
        // After 900 nothing lies above: the oldest of what is left, and on from there.
        assert_eq!(
            sectors("0ms a r 900 8\n500us a r 300 8\n600us a r 100 8\n700us a r 200 8"),
            [900, 300, 100, 200]
        );
    }

    /// 500 comes while 400 is in the device, between it and 900: 6.1 has 900 as the next of the batch (`next_rq`), and after it the oldest;
    /// what comes behind all others it does not see, either.
    #[test]
    fn what_comes_into_a_batch_is_passed_by_in_6_1() {
        let text = "0ms a r 400 8\n0ms a r 900 8\n500us a r 500 8\n1500us a r 950 8\n1600us a r 450 8";
        for (kernel, order) in [
            ("6.1", [400, 900, 500, 950, 450]),
            ("6.12", [400, 500, 900, 950, 450]),
            ("6.18", [400, 500, 900, 950, 450]),
            ("7.2", [400, 500, 900, 950, 450]),
        ] {
            assert_eq!(Script::of(&super::ROW).kernel(kernel).text(text).run().sectors(), order, "{kernel}");
        }
    }

    /// `writes_starved`: two batches of reads go before a write; `fifo_batch` 1 makes each request a batch. A queue begins as if it had
    /// written (`last_dir` is `DD_WRITE`).
    #[test]
    fn writes_are_passed_over_twice() {
        let text = "0ms a r 10 1\n0ms a r 20 1\n0ms a r 30 1\n0ms a r 40 1\n0ms a r 50 1\n0ms b w 1000 1\n0ms b w 1010 1";
        let order = Script::of(&super::ROW).set("fifo_batch", 1).text(text).run().sectors();
        assert_eq!(order, [1000, 10, 20, 1010, 30, 40, 50]);
    }

    /// A batch is 16 requests: one that has expired meanwhile waits for its end.
    #[test]
    fn what_has_expired_waits_for_the_end_of_the_batch() {
        let mut text = String::from("0ms a r 1000 1\n");
        for number in 0..20 {
            text.push_str(&format!("500us a r {} 1\n", 2000 + number));
        }
        text.push_str("0ms b r 5 1\n");
        let order = Script::of(&super::ROW).set("read_expire", 3).text(&text).run().sectors();
        // 5 lies first; then upwards: 1000 and 14 of those above it, which makes 16; the oldest goes on, expired or not.
        assert_eq!(order[0], 5);
        assert_eq!(order[1], 1000);
        assert_eq!(order.len(), 22);
    }

    /// A class waits for all of a higher one, those in the device included; but not for longer than `prio_aging_expire`.
    #[test]
    fn classes_are_strict_but_for_aging() {
        let text = "0ms b r 100 1\n0ms A r 900 1\n0ms zi r 10 1\n0ms b r 200 1";
        assert_eq!(sectors(text), [900, 100, 200, 10]);
        let mut text = String::from("0ms b r 5000 1\n");
        for number in 0..30 {
            text.push_str(&format!("0ms A r {} 1\n", 100 * number + 100));
        }
        let order = Script::of(&super::ROW).set("prio_aging_expire", 10).text(&text).run();
        let place = order.sectors().iter().position(|sector| *sector == 5000).unwrap();
        assert_eq!(place, 10, "{:?}", order.sectors());
    }
}
