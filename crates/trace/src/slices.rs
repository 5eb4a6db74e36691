//! [`SliceBuilder`]: who had which CPU from when to when, and how long each waited for it.
//!
//! One [`Slice`] is the time from a switch-in of a thread to its switch-out, from `sched_switch` alone. What came before it
//! stands beside it: the **wait** since the thread last left a CPU, and the **delay**, the part of that in which it was ready:
//! from the wake-up (`sched_waking`, else `sched_wakeup`), or from the switch-out where it was preempted. The words are those
//! of `perf sched timehist` (tools/perf/builtin-sched.c of Linux), with two differences: a preempted thread is ready, so that its wait is
//! a delay; and what a trace does not say is `None`, and not 0 or a guess.
//!
//! After a gap in the events of a CPU nothing is known of its thread, nor of those that were off a CPU then.

mod summary;

use std::collections::HashMap;

use surety_model::event::{Comm, Event, EventKind, LeaveState, TraceSink};
use surety_units::{CpuId, Nanos, Tid};

pub use summary::{CpuTimes, SliceSummary, SliceTimes, Spread};

/// Threads that are known at a time; of more, all begin anew.
pub const THREADS_MAX: usize = 1 << 20;
/// CPUs with a number below this are followed.
const CPUS_MAX: usize = 1 << 16;

/// A thread's time on a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    pub tid: Tid,
    /// Its name when it left.
    pub comm: Comm,
    /// The kernel's internal priority when it left; of an open one when it came.
    pub prio: i32,
    pub cpu: CpuId,
    /// The switch-in; `None` where it is not in the trace.
    pub from: Option<Nanos>,
    /// The switch-out, or the end of the trace.
    pub until: Nanos,
    /// Why it left; `None`: it has the CPU at the end of the trace.
    pub left: Option<LeaveState>,
    /// Who has the CPU next; of an open one itself.
    pub next: Tid,
    /// That one's name.
    pub next_comm: Comm,
    /// What was before the switch-in.
    pub before: Before,
}

impl Slice {
    /// Time on the CPU.
    pub fn run(&self) -> Option<Nanos> {
        self.from.map(|from| self.until - from)
    }
}

/// What was before a switch-in. Idle threads wait for nothing and have no delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Before {
    /// Time since it last left a CPU.
    pub wait: Option<Nanos>,
    /// Why it left that.
    pub left: Option<LeaveState>,
    /// The CPU that it left.
    pub cpu: Option<CpuId>,
    /// The part of the wait in which it was ready.
    pub delay: Option<Nanos>,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug)]
enum Place {
    On(CpuId),
    Off(Off),
}

#[derive(Clone, Copy, Debug)]
struct Off {
    /// When, where and why it left its CPU.
    left: Option<(Nanos, CpuId, LeaveState)>,
    ready: Option<Nanos>,
    /// It was woken on its CPU, and so was ready all the time where no wake-up comes after it left.
    was_woken: bool,
    /// Gaps before that.
    gaps: u64,
}

/// Who has a CPU.
#[derive(Clone, Copy, Debug)]
struct On {
    tid: Tid,
    comm: Comm,
    prio: i32,
    from: Nanos,
    before: Before,
    /// It was woken since it has the CPU: it may have been on its way to sleep.
    woken: bool,
}

/// Who takes slices, each at its switch-out.
pub trait SliceSink {
    /// The trace's first event came then.
    fn begin(&mut self, _first: Nanos) {}

    /// Takes one slice.
    fn slice(&mut self, slice: &Slice);
}

impl<F: FnMut(&Slice)> SliceSink for F {
    fn slice(&mut self, slice: &Slice) {
        self(slice);
    }
}

/// Makes [`Slice`]s of events in order of time.
#[derive(Clone, Debug)]
pub struct SliceBuilder<K> {
    sink: K,
    threads: HashMap<Tid, Place>,
    cpus: Vec<Option<On>>,
    /// When a CPU's idle thread last left it.
    idle: Vec<Option<Nanos>>,
    gaps: u64,
    last: Option<Nanos>,
}

impl<K: SliceSink> SliceBuilder<K> {
    /// Nothing seen yet; slices go to `sink`.
    pub fn new(sink: K) -> SliceBuilder<K> {
        let (cpus, idle) = (Vec::new(), Vec::new());
        SliceBuilder { sink, threads: HashMap::new(), cpus, idle, gaps: 0, last: None }
    }

    /// Who takes them.
    pub fn sink(&self) -> &K {
        &self.sink
    }

    /// Ends the trace: who has a CPU has it until the last event.
    pub fn finish(mut self) -> K {
        for (cpu, on) in (0..).map(CpuId).zip(std::mem::take(&mut self.cpus)) {
            let (Some(on), Some(until)) = (on, self.last) else { continue };
            let On { tid, comm, prio, from, before, .. } = on;
            let (from, left) = (Some(from), None);
            self.sink.slice(&Slice {
                tid,
                comm,
                prio,
                cpu,
                from,
                until,
                left,
                next: tid,
                next_comm: comm,
                before,
            });
        }
        self.sink
    }

    fn room(&mut self, cpu: CpuId) -> bool {
        let index = cpu.index();
        if index >= CPUS_MAX {
            return false;
        }
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, None);
            self.idle.resize(index + 1, None);
        }
        true
    }

    /// The thread of `at` and `cpu` gets the CPU: what was before.
    fn before(&mut self, tid: Tid, cpu: CpuId, at: Nanos) -> Before {
        if tid == Tid::IDLE {
            let wait = self.idle[cpu.index()].map(|since| at - since);
            return Before { wait, cpu: wait.map(|_| cpu), ..Before::default() };
        }
        if self.threads.len() >= THREADS_MAX {
            self.threads.clear();
        }
        let Some(Place::Off(off)) = self.threads.insert(tid, Place::On(cpu)) else {
            return Before::default();
        };
        let left = off.left.filter(|_| off.gaps == self.gaps);
        let early = left.filter(|_| off.was_woken).map(|(since, ..)| since);
        let ready = off.ready.filter(|_| off.gaps == self.gaps).or(early);
        Before {
            wait: left.map(|(since, ..)| at - since),
            left: left.map(|(.., state)| state),
            cpu: left.map(|(_, cpu, _)| cpu),
            delay: ready.map(|since| at - since),
        }
    }

    fn leaves(&mut self, tid: Tid, cpu: CpuId, at: Nanos, state: LeaveState, was_woken: bool) {
        if tid == Tid::IDLE {
            self.idle[cpu.index()] = Some(at);
        } else if state == LeaveState::Dead {
            self.threads.remove(&tid);
        } else {
            let ready = (!state.is_blocked()).then_some(at);
            let off = Off { left: Some((at, cpu, state)), ready, was_woken, gaps: self.gaps };
            self.threads.insert(tid, Place::Off(off));
        }
    }

    fn wakes(&mut self, tid: Tid, at: Nanos) {
        let gaps = self.gaps;
        let fresh = Off { left: None, ready: Some(at), was_woken: false, gaps };
        match self.threads.entry(tid).or_insert(Place::Off(fresh)) {
            Place::On(cpu) => {
                let on = self.cpus[cpu.index()].as_mut().filter(|on| on.tid == tid);
                match on {
                    Some(on) => on.woken = true,
                    None => drop(self.threads.insert(tid, Place::Off(fresh))),
                }
            }
            Place::Off(off) if off.gaps != gaps => *off = fresh,
            Place::Off(off) => drop(off.ready.get_or_insert(at)),
        }
    }
}

impl<K: SliceSink> TraceSink for SliceBuilder<K> {
    fn event(&mut self, event: &Event<'_>) {
        let (at, cpu) = (event.time, event.cpu);
        if self.last.is_none() {
            self.sink.begin(at);
        }
        self.last = self.last.max(Some(at));
        match event.kind {
            EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio } => {
                if !self.room(cpu) {
                    return;
                }
                // Where another thread had the CPU by the last switch, one is missing.
                let on = self.cpus[cpu.index()].take().filter(|on| on.tid == prev);
                let (from, before) = on.map(|on| (on.from, on.before)).unzip();
                self.sink.slice(&Slice {
                    tid: prev,
                    comm: prev_comm,
                    prio: prev_prio,
                    cpu,
                    from,
                    until: at,
                    left: Some(prev_state),
                    next,
                    next_comm,
                    before: before.unwrap_or_default(),
                });
                self.leaves(prev, cpu, at, prev_state, on.is_some_and(|on| on.woken));
                let before = self.before(next, cpu, at);
                let on = On { tid: next, comm: next_comm, prio: next_prio, from: at, before, woken: false };
                self.cpus[cpu.index()] = Some(on);
            }
            EventKind::Waking(woken) | EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => {
                self.wakes(woken.tid, at);
            }
            EventKind::Exec { tid, old } if tid != old && self.room(cpu) => {
                if let Some(on) = self.cpus[cpu.index()].as_mut().filter(|on| on.tid == old) {
                    on.tid = tid;
                    self.threads.remove(&old);
                    self.threads.insert(tid, Place::On(cpu));
                }
            }
            EventKind::Lost { .. } if self.room(cpu) => {
                (self.cpus[cpu.index()], self.idle[cpu.index()]) = (None, None);
                self.gaps += 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::feed;
    use proptest::prelude::*;

    /// `TID:CPU FROM-UNTIL LEFT wait W delay D` in microseconds.
    fn told(script: &str) -> Vec<String> {
        let mut told = Vec::new();
        let mut builder = SliceBuilder::new(|slice: &Slice| {
            let us = |time: Option<Nanos>| time.map_or("?".to_owned(), |t| (t.get() / 1000).to_string());
            let (run, wait, delay) = (us(slice.run()), us(slice.before.wait), us(slice.before.delay));
            told.push(format!(
                "{}@{} {} run {run} wait {wait} delay {delay}",
                slice.tid,
                us(Some(slice.until)),
                slice.cpu.0
            ));
        });
        feed(script, &mut builder);
        let _ = builder.finish();
        told
    }

    #[test]
    fn a_sleeper_waits_since_it_left_and_is_delayed_since_it_woke() {
        let script = "0 0 sw 0 7
            5 0 sw 7:S 0
            20 0 waking 7
            22 0 wakeup 7
            26 0 sw 0 7
            30 0 sw 7:R+ 8
            34 0 sw 8:S 7
            39 0 sw 7:X 0";
        assert_eq!(
            told(script),
            [
                "0@0 0 run ? wait ? delay ?",
                "7@5 0 run 5 wait ? delay ?",
                "0@26 0 run 21 wait 5 delay ?",
                "7@30 0 run 4 wait 21 delay 6",
                "8@34 0 run 4 wait ? delay ?",
                "7@39 0 run 5 wait 4 delay 4",
                "0@39 0 run 0 wait 13 delay ?",
            ]
        );
    }

    /// Its waker came between its decision to sleep and the switch; a wake-up before an earlier sleep is no such.
    #[test]
    fn a_wake_up_on_the_way_to_sleep_makes_it_ready_at_once() {
        let script = "0 0 sw 0 7
            4 1 waking 7
            5 0 sw 7:S 8
            9 0 sw 8:S 7
            10 1 waking 7
            12 0 sw 7:S 0
            18 1 waking 7
            20 0 sw 0 7
            21 0 sw 7:S 0
            25 0 sw 0 7
            26 0 sw 7:S 0";
        let told: Vec<String> = told(script).into_iter().filter(|line| line.starts_with('7')).collect();
        assert_eq!(
            told,
            [
                "7@5 0 run 5 wait ? delay ?",
                "7@12 0 run 3 wait 4 delay 4",
                "7@21 0 run 1 wait 8 delay 2",
                // No wake-up is in the trace: since when it was ready is not known.
                "7@26 0 run 1 wait 4 delay ?",
            ]
        );
    }

    #[test]
    fn nothing_is_said_over_a_gap() {
        let script = "0 0 sw 0 7
            1 1 sw 0 9
            5 0 sw 7:S 8
            6 0 lost
            20 0 sw 7:R+ 8
            22 0 sw 8:S 7
            25 1 sw 9:S 0
            27 0 sw 7:S 0";
        let told = told(script);
        assert_eq!(
            told[3..7],
            [
                "7@20 0 run ? wait ? delay ?",
                "8@22 0 run 2 wait ? delay ?",
                "9@25 1 run 24 wait ? delay ?",
                "7@27 0 run 5 wait 2 delay 2",
            ]
        );
    }

    #[test]
    fn a_switch_that_is_missing_is_no_run_of_another() {
        assert_eq!(told("0 0 sw 0 7\n9 0 sw 8:S 0")[1], "8@9 0 run ? wait ? delay ?");
    }

    proptest! {
        /// Slices of a CPU follow each other without a gap and without overlap, and a delay is part of its wait.
        #[test]
        fn slices_fill_a_cpu(steps in proptest::collection::vec((1i64..9, 0i32..4, 0i32..4, any::<bool>()), 1..60)) {
            let (mut script, mut at, mut on) = (String::new(), 0, 0);
            for (step, next, woken, sleeps) in steps {
                at += step;
                if next == on {
                    script += &format!("{at} 0 waking {}\n", woken + 1);
                } else {
                    script += &format!("{at} 0 sw {on}:{} {next}\n", if sleeps { "S" } else { "R+" });
                    on = next;
                }
            }
            let mut slices: Vec<Slice> = Vec::new();
            let mut builder = SliceBuilder::new(|slice: &Slice| slices.push(*slice));
            feed(&script, &mut builder);
            let _ = builder.finish();
            for pair in slices.windows(2) {
                prop_assert_eq!(pair[1].from, Some(pair[0].until));
                prop_assert_eq!(pair[1].tid, pair[0].next);
            }
            for Before { wait, delay, .. } in slices.iter().map(|slice| slice.before) {
                prop_assert!(wait.is_none() || delay.is_none() || delay <= wait);
            }
        }
    }
}
