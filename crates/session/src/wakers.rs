//! [`Wakers`]: which thread woke which, interrupts told apart.

use std::collections::BTreeMap;

use surety_model::event::{Event, EventKind, TraceSink};
use surety_units::Tid;

/// More pairs of threads than this are not told apart.
const PAIRS_MAX: usize = 100_000;

/// How often each thread was woken, and by whom.
#[derive(Default)]
pub struct Wakers {
    /// Interrupts that are handled on each CPU, one on top of the other.
    handling: BTreeMap<usize, u32>,
    /// All wake-ups of a thread.
    woken: BTreeMap<Tid, u64>,
    /// Those a thread asked for: by (woken, waker).
    by: BTreeMap<(Tid, Tid), u64>,
}

impl Wakers {
    /// Of the wake-ups of these threads, the part that `wakers` asked for, and which of those did so most often.
    pub fn part_by(&self, threads: &[Tid], wakers: &[Tid]) -> Option<(f64, Tid)> {
        let all: u64 = threads.iter().filter_map(|tid| self.woken.get(tid)).sum();
        let by = |waker: &Tid| -> u64 { threads.iter().filter_map(|tid| self.by.get(&(*tid, *waker))).sum() };
        let others = || wakers.iter().filter(|waker| !threads.contains(waker));
        let asked: u64 = others().map(by).sum();
        let first = others().max_by_key(|waker| by(waker))?;
        (all > 0).then(|| (asked as f64 / all as f64, *first))
    }
}

impl TraceSink for Wakers {
    fn event(&mut self, event: &Event<'_>) {
        let cpu = event.cpu.index();
        match event.kind {
            EventKind::IrqEntry { .. } | EventKind::VectorEntry { .. } | EventKind::SoftirqEntry { .. } => {
                *self.handling.entry(cpu).or_default() += 1;
            }
            EventKind::IrqExit { .. } | EventKind::VectorExit { .. } | EventKind::SoftirqExit { .. } => {
                let handling = self.handling.entry(cpu).or_default();
                *handling = handling.saturating_sub(1);
            }
            // No interrupt switches threads: an exit was not recorded.
            EventKind::Switch { .. } => drop(self.handling.insert(cpu, 0)),
            EventKind::Waking(woken) => {
                *self.woken.entry(woken.tid).or_default() += 1;
                let is_asked = self.handling.get(&cpu).is_none_or(|depth| *depth == 0);
                if is_asked && self.by.len() < PAIRS_MAX {
                    *self.by.entry((woken.tid, event.current)).or_default() += 1;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::event::{Comm, Woken};
    use surety_units::{CpuId, Nanos};

    #[test]
    fn a_wake_up_from_an_interrupt_is_nobody_s() {
        let mut wakers = Wakers::default();
        let mut event = |current, kind| {
            wakers.event(&Event { time: Nanos::ZERO, cpu: CpuId(1), current: Tid(current), kind });
        };
        let wake = |tid| {
            EventKind::Waking(Woken { tid: Tid(tid), comm: Comm::new("t"), prio: 120, target: CpuId(0) })
        };
        for _ in 0..3 {
            event(8, wake(7));
            event(8, EventKind::SoftirqEntry { vector: 1 });
            event(8, wake(7));
            event(8, EventKind::SoftirqExit { vector: 1 });
        }
        event(9, wake(7));
        event(50, wake(7));
        assert_eq!(wakers.part_by(&[Tid(7)], &[Tid(7), Tid(8), Tid(9)]), Some((0.5, Tid(8))));
        assert_eq!(wakers.part_by(&[Tid(6)], &[Tid(7)]), None);
    }
}
