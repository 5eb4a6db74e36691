//! [`Attribution`]: what the kernel did on a CPU while a busy thread was away.
//!
//! Between two events of a CPU one thing goes on there: the innermost interrupt that is open, or else the current thread.
//! That time, as far as it lies inside a gap, belongs to that thing. What is left of a gap is time in which the probe's own
//! thread was current and no interrupt open, and yet it did not run: entry and exit of an interrupt and the switch itself,
//! which the events do not cover, or somebody below the kernel. Up to [`EDGES`] beside something seen it is taken for the
//! former and goes to the largest thing in the gap; all else is unseen.
//!
//! A gap begins at a reading of the clock, so the probe ran then: whatever an earlier event says of another thread is out of
//! date. Some kernels record no switch out of idle on some CPUs; without this rule all that follows a pause of the probe
//! would be called idle.

use std::collections::BTreeMap;

use surety_model::event::{Comm, Event, EventKind, TraceSink};
use surety_model::noise::{Cause, CauseKind, Gap};
use surety_trace::jobs::interrupts::softirq_name;
use surety_units::{CpuId, Nanos, Tid};

/// What entering and leaving the kernel may take around what its events cover.
const EDGES: Nanos = Nanos::from_micros(5);
/// How much earlier than the reading that it follows an event may be dated: the tracer's clock is read without a lock.
const SKEW: Nanos = Nanos::from_micros(1);
/// Deeper nesting than any kernel's.
const DEPTH_MAX: usize = 16;
/// One thing that goes on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Vector(&'static str),
    Irq(u32, String),
    Softirq(u32),
    Thread(Comm),
    Idle,
}

impl Doing {
    fn kind(&self) -> CauseKind {
        match self {
            Doing::Vector("local_timer") | Doing::Softirq(1 | 7..=9) => CauseKind::Timer,
            Doing::Vector(_) | Doing::Irq(..) | Doing::Softirq(_) => CauseKind::Interrupt,
            Doing::Thread(_) | Doing::Idle => CauseKind::Thread,
        }
    }

    fn name(&self) -> String {
        match self {
            Doing::Vector("local_timer") => "local timer, the tick".to_owned(),
            Doing::Vector(name) => name.replace('_', " "),
            Doing::Irq(number, name) => format!("irq {number} {name}"),
            Doing::Softirq(number) => format!("softirq {}", softirq_name(*number)),
            Doing::Thread(comm) => format!("thread {comm}"),
            Doing::Idle => "idle, though the probe wanted to run".to_owned(),
        }
    }
}

/// One CPU with its probe.
#[derive(Debug)]
struct CpuState {
    probe: Tid,
    gaps: std::iter::Peekable<std::vec::IntoIter<Gap>>,
    /// The last event.
    since: Nanos,
    /// The current thread, when it is not the probe.
    other: Option<Doing>,
    open: Vec<Doing>,
    /// What was in the gap that is being looked at.
    inside: BTreeMap<Doing, Nanos>,
    causes: BTreeMap<Doing, Cause>,
    unseen: Cause,
}

/// Adds up what was in the gaps of several probes.
#[derive(Debug)]
pub(super) struct Attribution {
    cpus: BTreeMap<CpuId, CpuState>,
}

fn cause(name: String, kind: CauseKind) -> Cause {
    Cause { name, kind, gaps: 0, time: Nanos::ZERO, longest: Nanos::ZERO }
}

fn add(cause: &mut Cause, time: Nanos) {
    cause.gaps += 1;
    cause.time += time;
    cause.longest = cause.longest.max(time);
}

impl CpuState {
    /// What goes on; `None` when it is the probe itself.
    fn doing(&self) -> Option<&Doing> {
        self.open.last().or(self.other.as_ref())
    }

    /// Lets time pass up to `now`.
    fn advance(&mut self, now: Nanos) {
        while let Some(gap) = self.gaps.peek().copied().filter(|gap| gap.start < now) {
            if gap.start > self.since + SKEW {
                self.other = None;
                self.open.clear();
            }
            let (from, to) = (gap.start.max(self.since), gap.end.min(now));
            if to > from
                && let Some(doing) = self.doing().cloned()
            {
                *self.inside.entry(doing).or_insert(Nanos::ZERO) += to - from;
            }
            if gap.end > now {
                break;
            }
            self.gaps.next();
            self.close(gap);
        }
        self.since = self.since.max(now);
    }

    /// Books what was in a gap that is over.
    fn close(&mut self, gap: Gap) {
        let mut inside = std::mem::take(&mut self.inside);
        let seen: Nanos = inside.values().copied().sum();
        let rest = (gap.length() - seen).max(Nanos::ZERO);
        let largest = inside.iter_mut().max_by_key(|(_, time)| **time);
        match largest {
            Some((_, time)) if rest <= EDGES => *time += rest,
            _ => add(&mut self.unseen, rest),
        }
        for (doing, time) in inside {
            let entry = self.causes.entry(doing);
            let key = entry.key().clone();
            add(entry.or_insert_with(|| cause(key.name(), key.kind())), time);
        }
    }

    /// The event names the thread that was current: where the switch to it was not recorded, this is the first sign of it.
    fn is_current(&mut self, current: Tid) {
        let was_idle = matches!(self.other, Some(Doing::Idle));
        if was_idle && current == self.probe {
            self.other = None;
        } else if was_idle && current != Tid::IDLE {
            self.other = Some(Doing::Thread(Comm::new(&current.to_string())));
        }
    }

    fn begin(&mut self, doing: Doing) {
        if self.open.len() < DEPTH_MAX {
            self.open.push(doing);
        }
    }

    /// Ends the innermost thing that `is_it`, and what was not closed inside it.
    fn end(&mut self, is_it: impl Fn(&Doing) -> bool) {
        if let Some(at) = self.open.iter().rposition(is_it) {
            self.open.truncate(at);
        }
    }
}

impl Attribution {
    /// Of these CPUs, each with the probe's thread and its gaps in order of time.
    pub fn new(probes: Vec<(CpuId, Tid, Vec<Gap>)>) -> Attribution {
        let cpus = probes.into_iter().map(|(cpu, probe, gaps)| {
            let state = CpuState {
                probe,
                gaps: gaps.into_iter().peekable(),
                since: Nanos::ZERO,
                other: None,
                open: Vec::new(),
                inside: BTreeMap::new(),
                causes: BTreeMap::new(),
                unseen: cause("not in the trace".to_owned(), CauseKind::Unseen),
            };
            (cpu, state)
        });
        Attribution { cpus: cpus.collect() }
    }

    /// The causes of each CPU, those that took most time first.
    pub fn finish(mut self) -> Vec<(CpuId, Vec<Cause>)> {
        let causes_of = |state: &mut CpuState| {
            state.advance(Nanos::MAX);
            let unseen = std::iter::once(state.unseen.clone()).filter(|c| c.gaps > 0);
            let mut causes: Vec<Cause> = state.causes.values().cloned().chain(unseen).collect();
            causes.sort_by_key(|c| std::cmp::Reverse(c.time));
            causes
        };
        self.cpus.iter_mut().map(|(cpu, state)| (*cpu, causes_of(state))).collect()
    }
}

impl TraceSink for Attribution {
    fn event(&mut self, event: &Event<'_>) {
        let Some(state) = self.cpus.get_mut(&event.cpu) else { return };
        state.advance(event.time);
        state.is_current(event.current);
        match event.kind {
            EventKind::Switch { next, next_comm, .. } => {
                state.open.clear();
                state.other = match next {
                    next if next == state.probe => None,
                    Tid(0) => Some(Doing::Idle),
                    _ => Some(Doing::Thread(next_comm)),
                };
            }
            EventKind::VectorEntry { name } => state.begin(Doing::Vector(name)),
            EventKind::VectorExit { name } => state.end(|doing| *doing == Doing::Vector(name)),
            EventKind::IrqEntry { irq, name } => state.begin(Doing::Irq(irq, name.to_owned())),
            EventKind::IrqExit { irq } => {
                state.end(|doing| matches!(doing, Doing::Irq(number, _) if *number == irq));
            }
            EventKind::SoftirqEntry { vector } => state.begin(Doing::Softirq(vector)),
            EventKind::SoftirqExit { vector } => state.end(|doing| *doing == Doing::Softirq(vector)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::event::LeaveState;

    const CPU: CpuId = CpuId(3);
    const PROBE: Tid = Tid(77);

    fn us(micros: i64) -> Nanos {
        Nanos::from_micros(micros)
    }

    fn switch(prev: Tid, next: Tid, next_comm: &str) -> EventKind<'static> {
        EventKind::Switch {
            prev,
            prev_comm: Comm::default(),
            prev_prio: 120,
            prev_state: LeaveState::Runnable { preempted: true },
            next,
            next_comm: Comm::new(next_comm),
            next_prio: 120,
        }
    }

    fn attribute(gaps: &[(i64, i64)], events: &[(i64, EventKind<'_>)]) -> Vec<(String, u64, Nanos)> {
        let events: Vec<_> = events.iter().map(|(time, kind)| (*time, PROBE, *kind)).collect();
        attribute_with(gaps, &events)
    }

    /// The same with the thread that each event finds current.
    fn attribute_with(
        gaps: &[(i64, i64)],
        events: &[(i64, Tid, EventKind<'_>)],
    ) -> Vec<(String, u64, Nanos)> {
        let gaps = gaps.iter().map(|(start, end)| Gap { start: us(*start), end: us(*end) }).collect();
        let mut attribution = Attribution::new(vec![(CPU, PROBE, gaps)]);
        for (time, current, kind) in events {
            attribution.event(&Event { time: us(*time), cpu: CPU, current: *current, kind: *kind });
            // Another CPU says nothing about this one.
            attribution.event(&Event {
                time: us(*time),
                cpu: CpuId(0),
                current: PROBE,
                kind: switch(PROBE, Tid(5), "x"),
            });
        }
        let [(cpu, causes)] = attribution.finish().try_into().unwrap();
        assert_eq!(cpu, CPU);
        causes.into_iter().map(|c| (c.name, c.gaps, c.time)).collect()
    }

    #[test]
    fn each_piece_of_a_gap_goes_to_what_went_on() {
        let found = attribute(
            &[(9, 14), (100, 160), (300, 400)],
            &[
                (10, EventKind::VectorEntry { name: "local_timer" }),
                (13, EventKind::VectorExit { name: "local_timer" }),
                (101, EventKind::VectorEntry { name: "local_timer" }),
                (103, EventKind::VectorExit { name: "local_timer" }),
                (103, EventKind::SoftirqEntry { vector: 9 }),
                (105, EventKind::IrqEntry { irq: 24, name: "eth0" }),
                (108, EventKind::IrqExit { irq: 24 }),
                (109, EventKind::SoftirqExit { vector: 9 }),
                (110, switch(PROBE, Tid(9), "make")),
                (158, switch(Tid(9), PROBE, "probe")),
            ],
        );
        // Edges: 2 us of the first gap to the tick; 1 + 1 + 2 us of the second to its largest part.
        let expected = [
            ("not in the trace", 1, 100),
            ("thread make", 1, 48 + 4),
            ("local timer, the tick", 2, 5 + 2),
            ("softirq RCU", 1, 3),
            ("irq 24 eth0", 1, 3),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(n, g, t)| ((*n).to_owned(), *g as u64, us(*t))).collect();
        let sorted = |mut v: Vec<(String, u64, Nanos)>| {
            v.sort();
            v
        };
        assert_eq!(sorted(found), sorted(expected));
    }

    #[test]
    fn a_long_rest_beside_a_short_interrupt_is_unseen() {
        let found = attribute(
            &[(10, 2010)],
            &[
                (20, EventKind::VectorEntry { name: "local_timer" }),
                (23, EventKind::VectorExit { name: "local_timer" }),
            ],
        );
        assert_eq!(
            found,
            [("not in the trace".to_owned(), 1, us(1997)), ("local timer, the tick".to_owned(), 1, us(3)),]
        );
    }

    #[test]
    fn a_switch_out_of_idle_that_is_not_recorded_is_not_the_schedulers_fault() {
        let timer = EventKind::VectorEntry { name: "local_timer" };
        let done = EventKind::VectorExit { name: "local_timer" };
        let found = attribute_with(
            &[(150, 160), (200, 2200), (2300, 2308)],
            &[
                // The probe pauses and comes back without a word; then one gap holds a tick, one nothing, one a tick.
                (50, PROBE, switch(PROBE, Tid::IDLE, "swapper")),
                (100, Tid::IDLE, timer),
                (104, Tid::IDLE, done),
                (151, PROBE, timer),
                (159, PROBE, done),
                (2301, PROBE, timer),
                (2307, PROBE, done),
            ],
        );
        let expected = [
            ("not in the trace".to_owned(), 1, us(2000)),
            ("local timer, the tick".to_owned(), 2, us(10 + 8)),
        ];
        assert_eq!(found, expected);
        // Idle inside a gap, as under throttling, is idle until the probe reads the clock again.
        let found = attribute_with(
            &[(100, 5100)],
            &[(101, PROBE, switch(PROBE, Tid::IDLE, "swapper")), (6000, PROBE, timer)],
        );
        assert_eq!(found, [("idle, though the probe wanted to run".to_owned(), 1, us(5000))]);
    }

    #[test]
    fn exits_without_entries_and_endless_entries_do_no_harm() {
        let mut events = vec![(1, EventKind::IrqExit { irq: 1 }), (2, EventKind::SoftirqExit { vector: 40 })];
        events.extend((3..40).map(|t| (t, EventKind::SoftirqEntry { vector: 40 })));
        let found = attribute(&[(20, 60)], &events);
        assert_eq!(found, [("softirq 40".to_owned(), 1, us(40))]);
        assert_eq!(attribute(&[], &events), []);
    }
}
