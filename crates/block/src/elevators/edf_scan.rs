//! `edf-scan`: earliest deadline first, and SCAN among equal deadlines: a reference, SCAN-EDF (A. L. N. Reddy and J. C. Wyllie, "Disk scheduling in a
//! multimedia I/O system", ACM Multimedia 1993).
//!
//! Deadlines fall into groups of `window` milliseconds. A request of the earliest group is next: the nearest in the direction in which
//! the arm moves, until none of the group lies there; then it turns. The paper has deadlines that are multiples of a common period, which
//! groups are where `window` is that period; 0 makes groups of deadlines that are the same to the nanosecond, which is plain EDF.
//!
//! Streams say when they are late. What has no deadline gets one when it comes, by the class of its I/O priority: `rt_expire`,
//! `be_expire` or `idle_expire` from then on. So nothing starves, which the paper leaves to a server for aperiodic requests.

use std::collections::BTreeSet;

use surety_units::Nanos;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Rule, Side};
use crate::request::{IoClass, Request, RequestId};
use crate::tunable::Tunable;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "edf-scan",
    source: "Reddy and Wyllie, Disk scheduling in a multimedia I/O system (1993)",
    front: Front::BlkMq,
    tunables: &[
        Tunable::number("window", 100, "ms", "deadlines within one such window are equal; 0: none are"),
        Tunable::number("rt_expire", 100, "ms", "deadline of a realtime request that has none"),
        Tunable::number("be_expire", 500, "ms", "deadline of a best-effort request that has none"),
        Tunable::number("idle_expire", 5000, "ms", "deadline of a request of the class idle that has none"),
    ],
    make: |making| Box::new(EdfScan::new(making)),
};

const EARLIEST: Rule = Rule("earliest deadline");
const UPWARDS: Rule = Rule("of about equal deadlines the next above");
const DOWNWARDS: Rule = Rule("of about equal deadlines the next below");

/// Where a request waits: the group of its deadline, its sector, its place in the order in which requests were made.
type Place = (i64, u64, u64);

#[derive(Debug)]
struct EdfScan {
    window: Nanos,
    expire: [Nanos; IoClass::COUNT],
    waiting: BTreeSet<(Place, RequestId)>,
    /// By the number of the request.
    places: Vec<Place>,
    /// Where the arm is, and whether it moves upwards.
    position: u64,
    is_upwards: bool,
}

impl EdfScan {
    fn new(making: &Making) -> EdfScan {
        let millis = |name| making.settings.millis(name);
        EdfScan {
            window: millis("window"),
            expire: [millis("rt_expire"), millis("be_expire"), millis("idle_expire")],
            waiting: BTreeSet::new(),
            places: Vec::new(),
            position: 0,
            is_upwards: true,
        }
    }

    fn group(&self, deadline: Nanos) -> i64 {
        if self.window == Nanos::ZERO { deadline.get() } else { deadline.get().div_euclid(self.window.get()) }
    }

    fn put(&mut self, group: i64, request: &Request, id: RequestId) {
        let place = (group, request.sector, request.sequence);
        self.places.resize(self.places.len().max(id.index() + 1), Place::default());
        self.places[id.index()] = place;
        self.waiting.insert((place, id));
    }

    /// The next of a group in a direction.
    fn next(&self, group: i64, is_upwards: bool) -> Option<(Place, RequestId)> {
        let none = RequestId(0);
        let here = ((group, self.position, 0), none);
        if is_upwards {
            self.waiting.range(here..).next().copied().filter(|((of, _, _), _)| *of == group)
        } else {
            self.waiting.range(((group, 0, 0), none)..here).next_back().copied()
        }
    }
}

impl Elevator for EdfScan {
    /// At its back, with a bio that is perhaps more urgent.
    fn merged(&mut self, context: &mut Context<'_>, id: RequestId, _side: Side) {
        let (request, place) = (&context.requests[id], self.places[id.index()]);
        self.waiting.remove(&(place, id));
        let group = request.deadline().map_or(place.0, |deadline| place.0.min(self.group(deadline)));
        self.put(group, request, id);
    }

    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        let request = &context.requests[id];
        let deadline =
            request.deadline().unwrap_or(context.now + self.expire[request.priority.class.place()]);
        self.put(self.group(deadline), request, id);
    }

    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing) {
        let Some(((group, _, _), earliest)) = self.waiting.first().copied() else { return };
        let onwards = self.next(group, self.is_upwards);
        let (place, id) = onwards.or_else(|| self.next(group, !self.is_upwards)).expect("the group has one");
        self.is_upwards = self.is_upwards == onwards.is_some();
        let is_alone = self.waiting.iter().nth(1).is_none_or(|((next, _, _), _)| *next != group);
        let rule = match self.is_upwards {
            _ if is_alone && id == earliest => EARLIEST,
            true => UPWARDS,
            false => DOWNWARDS,
        };
        self.waiting.remove(&(place, id));
        self.position = context.requests[id].end();
        out.append(id, rule);
    }

    fn queued(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;

    fn taken(window: u64, text: &str) -> Vec<(u64, Rule)> {
        let order = Script::of(&ROW).set("window", window).text(text).run();
        order.0.iter().map(|taken| (taken.sector, taken.rule)).collect()
    }

    fn sectors(window: u64, text: &str) -> Vec<u64> {
        taken(window, text).into_iter().map(|(sector, _)| sector).collect()
    }

    /// The rule of the paper, on deadlines that are multiples of 100 ms: by deadline, and within one sweep by sweep, up first.
    #[test]
    fn equal_deadlines_are_served_sweep_by_sweep() {
        let text = "0ms a r 500 1 by 200ms\n0ms a r 900 1 by 100ms\n0ms a r 100 1 by 200ms\n0ms a r 300 1 by 100ms\n\
                    0ms a r 700 1 by 200ms\n0ms a r 50 1 by 300ms";
        let order = taken(100, text);
        // Up to 900; none of the next group lies above, so the arm turns. The last of a group has no other beside it.
        let expected = [
            (300, UPWARDS),
            (900, EARLIEST),
            (700, DOWNWARDS),
            (500, DOWNWARDS),
            (100, EARLIEST),
            (50, EARLIEST),
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn without_a_window_it_is_earliest_deadline_first() {
        let text =
            "0ms a r 500 1 by 103ms\n0ms a r 900 1 by 101ms\n0ms a r 100 1 by 102ms\n0ms a r 300 1 by 104ms";
        assert_eq!(sectors(0, text), [900, 100, 500, 300]);
        assert_eq!(sectors(100, text), [100, 300, 500, 900]);
    }

    /// A stream's read within 150 ms goes before best effort, which has half a second, and behind real time, which has a tenth.
    #[test]
    fn what_has_no_deadline_has_that_of_its_class() {
        let text = "0ms b r 100 1\n0ms zi r 50 1\n0ms s r 900 1 by 150ms\n0ms A r 700 1";
        assert_eq!(sectors(10, text), [700, 900, 100, 50]);
    }

    /// What comes meanwhile and is due earlier goes first, wherever the arm is.
    #[test]
    fn an_earlier_deadline_interrupts_a_sweep() {
        let text = "0ms a r 100 1 by 200ms\n0ms a r 200 1 by 200ms\n0ms a r 300 1 by 200ms\n1500us b r 900 1 by 100ms";
        assert_eq!(sectors(100, text), [100, 200, 900, 300]);
    }
}
