//! `deadline` (`block/deadline-iosched.c` of 2.6.20).
//!
//! For each direction: requests in the order of sectors, and in the order of arrival with a deadline. A batch goes on with the next
//! request upwards, but only where that begins right behind the last one: a gap adds `fifo_batch` to the count and so ends it. Then
//! a direction is chosen: reads, unless writes wait and were passed over `writes_starved` times. It begins with its oldest request where
//! that has expired, else with the next upwards of the last one, else with the lowest. Only the first and the third of these
//! begin to count anew, so that after a gap each request chooses its direction again.

use surety_units::Nanos;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Rule, Side};
use crate::order::Lane;
use crate::request::{Bio, Op, RequestId, Requests};
use crate::tunable::Tunable;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "deadline",
    source: "block/deadline-iosched.c of Linux 2.6.20",
    front: Front::Legacy,
    tunables: &[
        Tunable::number("read_expire", 500, "ms", "a read has expired after this"),
        Tunable::number("write_expire", 5000, "ms", "a write has expired after this"),
        Tunable::number("writes_starved", 2, "", "choices of reads that writes are passed over for"),
        Tunable::number("fifo_batch", 16, "requests", "requests of one batch"),
        Tunable::switch("front_merges", 1, "whether bios are put in front of requests"),
    ],
    make: |making| Box::new(Deadline::new(making)),
};

const BATCH: Rule = Rule("next in the batch");
const EXPIRED: Rule = Rule("expired");
const UPWARDS: Rule = Rule("next above the last of its direction");
const LOWEST: Rule = Rule("lowest sector of its direction");

const READ: usize = 0;
const WRITE: usize = 1;

#[derive(Debug)]
struct Deadline {
    lanes: [Lane; 2],
    /// The direction served last with the request above it, if there is any, and where the last one ended.
    next: Option<(usize, RequestId)>,
    last_end: u64,
    batching: u64,
    starved: u64,
    expire: [Nanos; 2],
    writes_starved: u64,
    fifo_batch: u64,
    front_merges: bool,
}

fn direction(op: Op) -> usize {
    if op == Op::Read { READ } else { WRITE }
}

impl Deadline {
    fn new(making: &Making) -> Deadline {
        let settings = &making.settings;
        Deadline {
            lanes: Default::default(),
            next: None,
            last_end: 0,
            batching: 0,
            starved: 0,
            expire: [settings.millis("read_expire"), settings.millis("write_expire")],
            writes_starved: settings.get("writes_starved"),
            fifo_batch: settings.get("fifo_batch"),
            front_merges: settings.is_on("front_merges"),
        }
    }

    fn choose(&mut self, now: Nanos, requests: &Requests) -> Option<(usize, RequestId, Rule)> {
        if let Some((direction, id)) = self.next {
            if requests[id].sector != self.last_end {
                self.batching += self.fifo_batch;
            }
            if self.batching < self.fifo_batch {
                return Some((direction, id, BATCH));
            }
        }
        let (reads, writes) = (!self.lanes[READ].is_empty(), !self.lanes[WRITE].is_empty());
        let mut direction = if reads { READ } else { WRITE };
        if reads && writes {
            if self.starved >= self.writes_starved {
                direction = WRITE;
            }
            self.starved += 1;
        }
        if direction == WRITE {
            self.starved = 0;
        }
        if let Some(id) = self.lanes[direction].expired(requests, now) {
            self.batching = 0;
            return Some((direction, id, EXPIRED));
        }
        if let Some((_, id)) = self.next.filter(|(of, _)| *of == direction) {
            return Some((direction, id, UPWARDS));
        }
        self.batching = 0;
        self.lanes[direction].sorted.first().map(|id| (direction, id, LOWEST))
    }
}

impl Elevator for Deadline {
    fn front_merge(&mut self, _context: &mut Context<'_>, bio: &Bio) -> Option<RequestId> {
        self.front_merges.then(|| self.lanes[direction(bio.op)].sorted.at(bio.end())).flatten()
    }

    fn neighbour(&self, requests: &Requests, id: RequestId, side: Side) -> Option<RequestId> {
        self.lanes[direction(requests[id].op)].sorted.beside(requests, id, side)
    }

    fn merged(&mut self, context: &mut Context<'_>, id: RequestId, side: Side) {
        if side == Side::Front {
            let lane = &mut self.lanes[direction(context.requests[id].op)];
            lane.sorted.grown_at_front(context.requests, id);
        }
    }

    fn joining(&mut self, context: &mut Context<'_>, kept: RequestId, gone: RequestId) {
        self.next = self.next.filter(|(_, id)| *id != gone);
        self.lanes[direction(context.requests[gone].op)].join(context.requests, kept, gone);
    }

    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        let direction = direction(context.requests[id].op);
        self.lanes[direction].insert(context.requests, id, context.now + self.expire[direction]);
    }

    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing) {
        let Some((direction, id, rule)) = self.choose(context.now, context.requests) else { return };
        self.batching += 1;
        let lane = &mut self.lanes[direction];
        self.next = lane.sorted.beside(context.requests, id, Side::Back).map(|next| (direction, next));
        self.last_end = context.requests[id].end();
        lane.remove(context.requests, id);
        out.append(id, rule);
    }

    fn queued(&self) -> usize {
        self.lanes.iter().map(Lane::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::script::Script;

    fn sectors(text: &str) -> Vec<u64> {
        Script::of(&super::ROW).text(text).run().sectors()
    }

    /// A gap ends the batch: the request chooses its direction again, and goes on upwards all the same.
    #[test]
    fn reads_go_upwards_and_begin_anew_with_the_lowest() {
        assert_eq!(
            sectors("0ms a r 500 8\n0ms a r 900 8\n0ms a r 100 8\n0ms a r 700 8"),
            [100, 500, 700, 900]
        );
        assert_eq!(sectors("0ms a r 900 8\n500us a r 300 8\n600us a r 100 8"), [900, 100, 300]);
    }

    /// Each of reads that do not touch is a choice of direction, of which writes are passed over twice; reads that touch are one batch.
    #[test]
    fn a_gap_ends_the_batch() {
        let apart = "0ms b w 1000 1\n0ms a r 10 1\n0ms a r 20 1\n0ms a r 30 1\n0ms a r 40 1";
        assert_eq!(sectors(apart), [10, 20, 1000, 30, 40]);
        let touching = "0ms b w 1000 1\n0ms a r 10 1\n0ms a r 11 1\n0ms a r 12 1\n0ms a r 13 1";
        assert_eq!(sectors(touching), [10, 11, 12, 13, 1000]);
    }

    /// A read that has expired goes before those above the last one.
    #[test]
    fn the_oldest_goes_first_once_it_has_expired() {
        let mut text = String::from("0ms a r 1000 1\n0ms a r 2000 1\n100us a r 5 1\n");
        for number in 1..6 {
            text.push_str(&format!("200us a r {} 1\n", 2000 + 10 * number));
        }
        let order = Script::of(&super::ROW).set("read_expire", 3).text(&text).run().sectors();
        assert_eq!(order[..5], [1000, 2000, 2010, 2020, 5], "{order:?}");
    }
}
