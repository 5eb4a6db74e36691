//! `edf-scan`: earliest deadline first, and SCAN among equal deadlines: a reference, SCAN-EDF (A. L. N. Reddy and J. C. Wyllie, "Disk scheduling in a
//! multimedia I/O system", ACM Multimedia 1993).
//!
//! Deadlines fall into groups of `window` milliseconds. A request of the earliest group is next: the nearest in the direction in which
//! the arm moves, until none of the group lies there; then it turns. The paper has deadlines that are multiples of a common period, which
//! groups are where `window` is that period; 0 makes groups of deadlines that are the same to the nanosecond, which is plain EDF.
//!
//! Streams say when they are late. What has no deadline gets one when it comes, by the class of its I/O priority: `rt_expire`,
//! `be_expire` or `idle_expire` from then on. So nothing starves, which the paper leaves to a server for aperiodic requests.

use surety_units::Nanos;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Rule, Side};
use crate::order::Sorted;
use crate::request::{IoClass, RequestId, Requests};
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

/// Deadlines of one window, in their order; the first of all is 0.
type Group = u64;

/// What requests are sorted by: the group of the deadline, and the sector.
fn key(group: Group, sector: u64) -> u128 {
    u128::from(group) << 64 | u128::from(sector)
}

/// Whether a request is in a group, by its key.
fn is_in(key: u128, group: Group) -> bool {
    key >> 64 == u128::from(group)
}

#[derive(Debug)]
struct EdfScan {
    window: Nanos,
    expire: [Nanos; IoClass::COUNT],
    waiting: Sorted<u128>,
    /// By the number of the request.
    groups: Vec<Group>,
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
            waiting: Sorted::default(),
            groups: Vec::new(),
            position: 0,
            is_upwards: true,
        }
    }

    fn group(&self, deadline: Nanos) -> Group {
        let deadline = deadline.get();
        let group =
            if self.window == Nanos::ZERO { deadline } else { deadline.div_euclid(self.window.get()) };
        group.cast_unsigned() ^ 1 << 63
    }

    fn put(&mut self, group: Group, requests: &Requests, id: RequestId) {
        self.groups.resize(self.groups.len().max(id.index() + 1), 0);
        self.groups[id.index()] = group;
        self.waiting.add(requests, key(group, requests[id].sector), id);
    }

    /// The next of a group in a direction.
    fn next(&self, group: Group, is_upwards: bool) -> Option<(u128, RequestId)> {
        let here = key(group, self.position);
        let next = if is_upwards { self.waiting.at_or_above(here) } else { self.waiting.under(here) };
        next.filter(|(key, _)| is_in(*key, group))
    }
}

impl Elevator for EdfScan {
    /// At its back, with a bio that is perhaps more urgent.
    fn merged(&mut self, context: &mut Context<'_>, id: RequestId, _side: Side) {
        let (request, group) = (&context.requests[id], self.groups[id.index()]);
        self.waiting.cut(context.requests, id, || key(group, request.sector));
        let group = request.deadline().map_or(group, |deadline| group.min(self.group(deadline)));
        self.put(group, context.requests, id);
    }

    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        let request = &context.requests[id];
        let expires = context.now + self.expire[request.priority.class.place()];
        self.put(self.group(request.deadline().unwrap_or(expires)), context.requests, id);
    }

    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing) {
        let Some((_, earliest)) = self.waiting.lowest() else { return };
        let group = self.groups[earliest.index()];
        let onwards = self.next(group, self.is_upwards);
        let (key, id) = onwards.or_else(|| self.next(group, !self.is_upwards)).expect("the group has one");
        self.is_upwards = self.is_upwards == onwards.is_some();
        let is_alone = || self.waiting.second().is_none_or(|(key, _)| !is_in(key, group));
        let rule = match self.is_upwards {
            _ if id == earliest && is_alone() => EARLIEST,
            true => UPWARDS,
            false => DOWNWARDS,
        };
        self.waiting.cut(context.requests, id, || key);
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
