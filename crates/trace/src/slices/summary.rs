//! [`SliceSummary`]: slices added up by thread and by CPU.

use std::collections::HashMap;

use surety_model::event::{Comm, LeaveState};
use surety_units::{CpuId, Nanos, Tid};

use super::{Slice, SliceSink};
use crate::wanted::{Wanted, Window};

/// Threads that are gone and are listed: those with the most time on a CPU. The rest is one row.
const GONE_MAX: usize = 1 << 15;

/// Threads that are alive at a time, at most (`PID_MAX_LIMIT`): a trace with more has lost the ends of some.
const ALIVE_MAX: usize = 1 << 22;

/// Times of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    pub count: u64,
    pub sum: Nanos,
    pub max: Nanos,
}

impl Spread {
    fn add(&mut self, time: Nanos) {
        *self = Spread { count: self.count + 1, sum: self.sum.saturating_add(time), max: self.max.max(time) };
    }

    fn merge(&mut self, other: &Spread) {
        *self = Spread {
            count: self.count + other.count,
            sum: self.sum.saturating_add(other.sum),
            max: self.max.max(other.max),
        };
    }

    /// Their mean; `None` of none.
    pub fn mean(&self) -> Option<Nanos> {
        let count = i64::try_from(self.count).ok().filter(|count| *count > 0)?;
        Some(Nanos::new(self.sum.get() / count))
    }
}

/// The slices of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceTimes {
    pub tid: Tid,
    /// Its last name.
    pub comm: Comm,
    /// Times on a CPU that began and ended in the trace, or at its end; cut to the wanted time.
    pub run: Spread,
    /// Slices whose beginning is not in the trace: their time is in no sum.
    pub cut: u64,
    /// Times from being ready to having a CPU.
    pub delay: Spread,
    /// The part of these after a preemption.
    pub preempted: Spread,
    /// Waits after it went to sleep: `S`, and what is none of the others.
    pub asleep: Spread,
    /// Waits after it blocked so that no signal wakes it: `D`, mostly for a disk or a lock of the kernel.
    pub blocked: Spread,
    /// Times it got another CPU than the one it left.
    pub moves: u64,
}

impl SliceTimes {
    fn merge(&mut self, other: &SliceTimes) {
        self.run.merge(&other.run);
        self.delay.merge(&other.delay);
        self.preempted.merge(&other.preempted);
        self.asleep.merge(&other.asleep);
        self.blocked.merge(&other.blocked);
        (self.cut, self.moves) = (self.cut + other.cut, self.moves + other.moves);
    }

    fn add(&mut self, slice: &Slice, window: Window) {
        self.comm = slice.comm;
        let Some(from) = slice.from else {
            self.cut += u64::from(window.contains(slice.until));
            return;
        };
        let run = window.overlap(from, slice.until);
        if run.is_positive() {
            self.run.add(run);
        }
        if !window.contains(from) {
            return;
        }
        let before = slice.before;
        before.delay.into_iter().for_each(|delay| self.delay.add(delay));
        self.moves += u64::from(before.cpu.is_some_and(|cpu| cpu != slice.cpu));
        if let (Some(wait), Some(left)) = (before.wait, before.left) {
            match left {
                LeaveState::Runnable { .. } => self.preempted.add(wait),
                LeaveState::Uninterruptible => self.blocked.add(wait),
                _ => self.asleep.add(wait),
            }
        }
    }
}

/// What a CPU did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    pub cpu: CpuId,
    /// Time in which a thread had it.
    pub busy: Nanos,
    /// Time in which none had.
    pub idle: Nanos,
    /// Switches to another thread.
    pub switches: u64,
}

/// Adds slices up: those of wanted threads on wanted CPUs in the wanted time.
#[derive(Clone, Debug)]
pub struct SliceSummary {
    wanted: Wanted,
    window: Window,
    alive: HashMap<Tid, SliceTimes>,
    gone: Vec<SliceTimes>,
    /// Threads that are gone and not listed, together, and how many.
    pub folded: (u64, SliceTimes),
    /// By number; `None` of those without a slice.
    cpus: Vec<Option<CpuTimes>>,
}

impl SliceSummary {
    /// Nothing seen yet.
    pub fn new(wanted: Wanted) -> SliceSummary {
        let (alive, gone, cpus) = (HashMap::new(), Vec::new(), Vec::new());
        SliceSummary { wanted, window: Window::ALL, alive, gone, folded: Default::default(), cpus }
    }

    /// The threads, those with the most time on a CPU first, and the CPUs by number.
    pub fn totals(&self) -> (Vec<SliceTimes>, Vec<CpuTimes>) {
        let mut threads: Vec<SliceTimes> = self.alive.values().chain(&self.gone).copied().collect();
        threads.sort_unstable_by_key(order);
        (threads, self.cpus.iter().flatten().copied().collect())
    }

    fn cpu(&mut self, slice: &Slice) {
        let index = slice.cpu.index();
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, None);
        }
        let none = CpuTimes { cpu: slice.cpu, busy: Nanos::ZERO, idle: Nanos::ZERO, switches: 0 };
        let cpu = self.cpus[index].get_or_insert(none);
        let run = slice.from.map_or(Nanos::ZERO, |from| self.window.overlap(from, slice.until));
        if slice.tid == Tid::IDLE {
            cpu.idle = cpu.idle.saturating_add(run);
        } else {
            cpu.busy = cpu.busy.saturating_add(run);
        }
        cpu.switches += u64::from(slice.left.is_some() && self.window.contains(slice.until));
    }

    /// The thread with the least time on a CPU counts as gone.
    fn forget_one(&mut self) {
        if let Some(tid) = self.alive.values().max_by_key(|thread| order(thread)).map(|thread| thread.tid) {
            self.bury(tid);
        }
    }

    /// A thread is gone; where too many are, those with the least time become one.
    fn bury(&mut self, tid: Tid) {
        self.gone.extend(self.alive.remove(&tid));
        if self.gone.len() > 2 * GONE_MAX {
            self.gone.sort_unstable_by_key(order);
            for gone in self.gone.drain(GONE_MAX..) {
                self.folded.0 += 1;
                self.folded.1.merge(&gone);
            }
        }
    }
}

/// Most time on a CPU first.
fn order(thread: &SliceTimes) -> (std::cmp::Reverse<Nanos>, Tid, Comm) {
    (std::cmp::Reverse(thread.run.sum), thread.tid, thread.comm)
}

impl SliceSink for SliceSummary {
    fn begin(&mut self, first: Nanos) {
        self.window = self.wanted.window(first);
    }

    fn slice(&mut self, slice: &Slice) {
        if !self.wanted.cpu(slice.cpu) {
            return;
        }
        self.cpu(slice);
        let is_inside = self.window.overlap(slice.from.unwrap_or(slice.until), slice.until).is_positive()
            || self.window.contains(slice.until);
        if slice.tid == Tid::IDLE || !is_inside || !self.wanted.thread(slice.tid, slice.comm) {
            return;
        }
        if self.alive.len() >= ALIVE_MAX && !self.alive.contains_key(&slice.tid) {
            self.forget_one();
        }
        let empty = SliceTimes { tid: slice.tid, ..SliceTimes::default() };
        self.alive.entry(slice.tid).or_insert(empty).add(slice, self.window);
        if slice.left == Some(LeaveState::Dead) {
            self.bury(slice.tid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::feed;
    use crate::slices::SliceBuilder;

    fn us(value: i64) -> Nanos {
        Nanos::from_micros(value)
    }

    fn of(script: &str, wanted: Wanted) -> SliceSummary {
        let mut builder = SliceBuilder::new(SliceSummary::new(wanted));
        feed(script, &mut builder);
        builder.finish()
    }

    const SCRIPT: &str = "0 0 sw 0 7
        10 0 sw 7:D 0
        14 0 waking 7
        16 0 sw 0 7
        20 0 sw 7:R+ 8
        23 1 sw 0 7
        30 0 sw 8:X 0
        40 1 waking 9";

    #[test]
    fn waits_are_told_apart_and_the_end_of_the_trace_ends_runs() {
        let (threads, cpus) = of(SCRIPT, Wanted::default()).totals();
        let once = |time: i64| Spread { count: 1, sum: us(time), max: us(time) };
        let seven = SliceTimes {
            tid: Tid(7),
            comm: Comm::new("t7"),
            run: Spread { count: 3, sum: us(10 + 4 + 17), max: us(17) },
            delay: Spread { count: 2, sum: us(2 + 3), max: us(3) },
            preempted: once(3),
            blocked: once(6),
            moves: 1,
            ..SliceTimes::default()
        };
        let eight = SliceTimes { tid: Tid(8), comm: Comm::new("t8"), run: once(10), ..SliceTimes::default() };
        assert_eq!(threads, [seven, eight]);
        let cpu = |cpu, busy, idle, switches| CpuTimes {
            cpu: CpuId(cpu),
            busy: us(busy),
            idle: us(idle),
            switches,
        };
        assert_eq!(cpus, [cpu(0, 24, 16, 5), cpu(1, 17, 0, 1)]);
    }

    #[test]
    fn a_part_of_the_time_cuts_runs_and_counts_waits_that_end_in_it() {
        let wanted = Wanted { from: Some(us(18)), to: Some(us(25)), ..Wanted::default() };
        let (threads, cpus) = of(SCRIPT, wanted).totals();
        assert_eq!((threads[0].tid, threads[0].run.sum, threads[0].delay.sum), (Tid(8), us(5), Nanos::ZERO));
        assert_eq!((threads[1].tid, threads[1].run.sum, threads[1].delay.sum), (Tid(7), us(4), us(3)));
        assert_eq!((cpus[0].busy, cpus[0].idle, cpus[1].busy), (us(7), Nanos::ZERO, us(2)));
    }
}
