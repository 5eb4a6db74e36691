//! `abiss`: the elevator of ABISS (B. van den Brink and W. Almesberger, 2004): three strict classes, realtime above best effort above idle.
//!
//! Published is that realtime goes before best effort. That each class is served in the order of arrival, and that nothing but the
//! request in the device delays a realtime one, is assumed. With `realtime` 0 all classes are one, which is the row *ABISS BE* of the
//! measurements.

use std::collections::VecDeque;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Outgoing, Rule};
use crate::request::{IoClass, RequestId};
use crate::tunable::Tunable;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "abiss",
    source: "B. van den Brink and W. Almesberger, The Active Block I/O Scheduling System (2004)",
    front: Front::Legacy,
    tunables: &[Tunable::switch("realtime", 1, "whether the priority classes are told apart")],
    make: |making| {
        Box::new(Abiss { is_realtime: making.settings.is_on("realtime"), classes: Default::default() })
    },
};

const CLASS: Rule = Rule("oldest of the highest class");

#[derive(Clone, Debug)]
struct Abiss {
    is_realtime: bool,
    classes: [VecDeque<RequestId>; IoClass::COUNT],
}

impl Elevator for Abiss {
    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        let class = if self.is_realtime { context.requests[id].priority.class.place() } else { 0 };
        self.classes[class].push_back(id);
    }

    /// A request is of one class.
    fn may_merge(&mut self, context: &mut Context<'_>, into: RequestId, bio: &crate::request::Bio) -> bool {
        context.requests[into].priority == context.processes[bio.process.index()].priority
    }

    fn dispatch(&mut self, _context: &mut Context<'_>, out: &mut Outgoing) {
        if let Some(id) = self.classes.iter_mut().find_map(VecDeque::pop_front) {
            out.append(id, CLASS);
        }
    }

    fn queued(&self) -> usize {
        self.classes.iter().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::script::Script;

    const TEXT: &str = "0ms b r 100 8\n0ms zi r 50 8\n100us b r 10 8\n200us A r 700 8";

    #[test]
    fn realtime_waits_for_the_request_in_the_device_only() {
        assert_eq!(Script::of(&super::ROW).text(TEXT).run().sectors(), [100, 700, 10, 50]);
    }

    #[test]
    fn without_classes_all_go_in_the_order_of_arrival() {
        let order = Script::of(&super::ROW).set("realtime", 0).text(TEXT).run();
        assert_eq!(order.sectors(), [100, 50, 10, 700]);
    }
}
