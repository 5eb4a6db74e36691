//! `sptf`: shortest positioning time first, with an age limit: a reference, which asks the disk itself (M. Seltzer, P. Chen and
//! J. Ousterhout, "Disk scheduling revisited", USENIX Winter 1990; D. Jacobson and J. Wilkes, "Disk scheduling algorithms based on rotational
//! position", HPL-CSP-91-7, 1991).
//!
//! Next is the request whose first sector would be there soonest, seek and rotation together; of equal ones the oldest. One that has waited for
//! longer than `age_limit` goes before all others. The order within tracks that kernels guess at from sector numbers is known here, so what this
//! gains over them is what they lose by guessing. It is greedy, not the optimum.
//!
//! It decides only when the device has room for a request, since it asks from where the arm is then: the queue takes no request ahead of
//! that. A device that cannot say where it is is taken for one on which sectors that are near each other are near in time: next is the request
//! nearest to the end of the last one. On one whose requests all take the same time all are equal, and the order is that of arrival.

use std::rc::Rc;

use surety_units::Nanos;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Positioning, Rule};
use crate::order::ByArrival;
use crate::request::{Request, RequestId, Requests};
use crate::tunable::Tunable;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "sptf",
    source: "Seltzer, Chen and Ousterhout (1990), Jacobson and Wilkes (1991); asks the disk's model",
    front: Front::BlkMq,
    tunables: &[Tunable::number(
        "age_limit",
        500,
        "ms",
        "what has waited for longer goes first, the oldest of it",
    )],
    make: |making| Box::new(Sptf::new(making)),
};

const SOONEST: Rule = Rule("shortest positioning time");
const NEAREST: Rule = Rule("nearest sector");
const AGED: Rule = Rule("waited for longer than age_limit");

#[derive(Debug)]
struct Sptf {
    device: Option<Rc<dyn Positioning>>,
    age_limit: Nanos,
    waiting: Vec<RequestId>,
    fifo: ByArrival,
    /// Requests that the device takes at a time, and that are in it.
    room: u32,
    in_device: u32,
    /// The sector behind the last request.
    position: u64,
}

impl Sptf {
    fn new(making: &Making) -> Sptf {
        Sptf {
            device: making.device.clone(),
            age_limit: making.settings.millis("age_limit"),
            waiting: Vec::new(),
            fifo: ByArrival::default(),
            room: making.tags,
            in_device: 0,
            position: 0,
        }
    }

    fn ask(&self, now: Nanos, request: &Request) -> Option<Nanos> {
        self.device.as_ref()?.positioning(now, request.op, request.sector)
    }

    /// The place among those that wait of the one that is next.
    fn choose(&self, requests: &Requests, now: Nanos) -> Option<(usize, Rule)> {
        if let Some((oldest, expires)) = self.fifo.oldest()
            && expires < now
        {
            return self.waiting.iter().position(|id| *id == oldest).map(|place| (place, AGED));
        }
        let is_asked = self.waiting.first().is_some_and(|id| self.ask(now, &requests[*id]).is_some());
        let cost = |id: &RequestId| {
            let request = &requests[*id];
            match self.ask(now, request) {
                Some(time) if is_asked => time.get_unsigned(),
                _ => request.sector.abs_diff(self.position),
            }
        };
        let costs = self.waiting.iter().map(|id| (cost(id), requests[*id].sequence)).enumerate();
        let rule = if is_asked { SOONEST } else { NEAREST };
        costs.min_by_key(|(_, cost)| *cost).map(|(place, _)| (place, rule))
    }
}

impl Elevator for Sptf {
    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        self.waiting.push(id);
        self.fifo.push(id, context.now + self.age_limit);
    }

    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing) {
        if self.in_device >= self.room {
            return;
        }
        let Some((place, rule)) = self.choose(context.requests, context.now) else { return };
        let id = self.waiting.swap_remove(place);
        self.fifo.remove(id);
        self.position = context.requests[id].end();
        self.in_device += 1;
        out.append(id, rule);
    }

    fn completed(&mut self, _context: &mut Context<'_>, _id: RequestId) {
        self.in_device -= 1;
    }

    fn queued(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;
    use crate::script::Script;

    /// Three tracks of 12 sectors, from the outer one, each sector a millisecond; the head stays over the end of sector 30, on the inner one.
    #[derive(Debug)]
    struct Platter {
        /// From one track to the next.
        seek: u64,
    }

    impl Positioning for Platter {
        fn positioning(&self, _now: Nanos, _op: Op, sector: u64) -> Option<Nanos> {
            let seek = self.seek * (2 - sector / 12);
            let angle = (7 + seek) % 12;
            Some(Nanos::from_millis(i64::try_from(seek + (sector + 12 - angle) % 12).expect("few")))
        }
    }

    fn on(seek: u64, age_limit: u64, text: &str) -> Vec<u64> {
        let script = Script::of(&ROW).device(Platter { seek }).set("age_limit", age_limit);
        script.text(text).run().sectors()
    }

    /// R. and A. Arpaci-Dusseau, Operating Systems: Three Easy Pieces, chapter 37, figure 37.8: from sector 30 of the inner track, 16 on the
    /// middle one or 8 on the outer one? Where seeks are slow 16, which is a track nearer; where they are fast 8, since 16 has just passed.
    #[test]
    fn a_near_sector_that_has_just_passed_waits_for_a_farther_one() {
        let text = "0ms a r 16 1\n0ms a r 8 1";
        // 16: 1 of seek, 8 of rotation. 8: 2 of seek, and it passes beneath the head a revolution less 1 later.
        assert_eq!(on(0, 500, text), [8, 16]);
        // 16: 4 of seek, 5 of rotation. 8: 8 of seek, 5 of rotation.
        assert_eq!(on(4, 500, text), [16, 8]);
    }

    /// A request takes 1 ms, and 30 is the farthest at all times.
    #[test]
    fn what_has_waited_for_too_long_goes_first() {
        let text = "0ms a r 31 1\n0ms a r 30 1\n0ms a r 32 1\n1ms a r 33 1\n2ms a r 34 1\n3ms a r 33 1\n5ms a r 32 1";
        assert_eq!(on(0, 500, text), [31, 32, 33, 33, 34, 32, 30]);
        assert_eq!(on(0, 3, text), [31, 32, 33, 33, 30, 32, 34]);
    }

    #[test]
    fn a_device_that_cannot_say_is_served_by_distance() {
        let order = Script::of(&ROW).text("0ms a r 100 8\n0ms a r 10 8\n0ms a w 30 8\n0ms a w 190 8").run();
        assert_eq!(order.sectors(), [10, 30, 100, 190]);
        assert!(order.0.iter().all(|taken| taken.rule == NEAREST));
    }
}
