//! [`IntervalBuilder`]: what threads waited for in one interval after the other, while a trace is being recorded.
//!
//! The rules of who waits are [`crate::jobs`]' own. Beside them stand the last switches of each CPU, which say who had it while a
//! thread waited in its queue, and the threads that wait now: a wait that does not end shows in every interval, and is not first
//! known when it is over.

use std::collections::{BTreeMap, VecDeque};

use surety_model::event::{Comm, Event, EventKind, LeaveState, TraceSink, Woken};
use surety_model::job::Job;
use surety_model::top::{Instead, Traced, rank_p99};
use surety_units::{CpuId, Nanos, Tid};

use crate::jobs::JobBuilder;
use crate::jobs::sink::{JobSink, ThreadKey, ThreadTotals, Wait};

/// Switches of a CPU that are remembered; what a thread waited for before them is not known.
pub const SWITCHES_MAX: usize = 1 << 14;
/// Who had the CPU, of one thread: this number at most is told.
pub const INSTEAD_MAX: usize = 4;
/// Wake-ups of a thread in one interval of which each latency is kept; of more the maximum is still exact.
pub const WAKEUPS_MAX: usize = 1 << 17;

/// Builds [`Traced`] of every thread, from events in order of time.
#[derive(Debug)]
pub struct IntervalBuilder {
    jobs: JobBuilder<Waits>,
    waiting: BTreeMap<Tid, Waiting>,
}

/// A thread that wants a CPU and has none.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Nanos,
    cpu: CpuId,
    /// It was woken, and not preempted.
    is_woken: bool,
}

/// The sink beside the state machine.
#[derive(Debug)]
struct Waits {
    /// Wake-ups later than this are missed, where no deadline is known.
    late: Nanos,
    deadlines: BTreeMap<Tid, Nanos>,
    begin: Nanos,
    cpus: Vec<Cpu>,
    threads: BTreeMap<Tid, Thread>,
}

/// Who had a CPU, from when on, oldest first.
type Cpu = VecDeque<(Nanos, Tid, Comm)>;

/// A thread in this interval.
#[derive(Debug, Default)]
struct Thread {
    latencies: Vec<Nanos>,
    wakeups: u64,
    latency_max: Option<Nanos>,
    wait_max: Nanos,
    missed: u64,
    response_max: Option<Nanos>,
    instead: BTreeMap<Tid, (Comm, Nanos)>,
}

impl IntervalBuilder {
    /// Nothing seen yet; the first interval begins at `begin`, on the trace's clock. A wake-up of a thread without a deadline is missed
    /// when it is later than `late`.
    pub fn new(begin: Nanos, late: Nanos) -> IntervalBuilder {
        let (deadlines, threads) = (BTreeMap::new(), BTreeMap::new());
        let sink = Waits { late, deadlines, begin, cpus: Vec::new(), threads };
        IntervalBuilder { jobs: JobBuilder::into_sink(sink), waiting: BTreeMap::new() }
    }

    /// The relative deadlines of reservations, from now on.
    pub fn set_deadlines(&mut self, deadlines: BTreeMap<Tid, Nanos>) {
        self.jobs.sink_mut().deadlines = deadlines;
    }

    /// Forgets waits that go on but for which `waits` says no: of threads that got a CPU and left it unrecorded, as some kernels record
    /// no switches out of idle. What is asked later than the interval ends may be over by then; it is told when its end is recorded.
    pub fn retain_waits(&mut self, mut waits: impl FnMut(Tid) -> bool) {
        self.waiting.retain(|tid, _| waits(*tid));
    }

    /// Ends the interval: what was seen of each thread in it. All events before `end` must have been handed in.
    pub fn take(&mut self, end: Nanos) -> BTreeMap<Tid, Traced> {
        let sink = self.jobs.sink_mut();
        for (tid, waiting) in &self.waiting {
            if waiting.since < end {
                sink.wait(*tid, waiting.cpu, waiting.since, end);
            }
        }
        sink.begin = end;
        let threads = std::mem::take(&mut sink.threads);
        threads.into_iter().map(|(tid, thread)| (tid, thread.told())).collect()
    }

    /// Who is to be woken sleeps, or was preempted on its way to sleep: one that had been woken ran and slept unrecorded.
    fn is_to_wake(&mut self, tid: Tid) {
        if self.waiting.get(&tid).is_some_and(|waiting| waiting.is_woken) {
            self.waiting.remove(&tid);
        }
    }

    fn wakes(&mut self, at: Nanos, woken: &Woken) {
        // A thread that was on its way to sleep may be woken on its CPU, and waits for nothing.
        let last = self.jobs.sink().cpus.get(woken.target.index()).and_then(VecDeque::back);
        if last.is_none_or(|(_, current, _)| *current != woken.tid) {
            let waiting = Waiting { since: at, cpu: woken.target, is_woken: true };
            self.waiting.entry(woken.tid).or_insert(waiting).cpu = woken.target;
        }
    }
}

impl TraceSink for IntervalBuilder {
    fn event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Switch { prev, prev_state, next, next_comm, .. } => {
                // First, so that the wait that ends here finds who leaves.
                self.jobs.sink_mut().switched(event.cpu, event.time, next, next_comm);
                self.jobs.event(event);
                self.waiting.remove(&next);
                match prev_state {
                    LeaveState::Runnable { .. } if prev != Tid::IDLE && prev != next => {
                        let waiting = Waiting { since: event.time, cpu: event.cpu, is_woken: false };
                        self.waiting.insert(prev, waiting);
                    }
                    _ => drop(self.waiting.remove(&prev)),
                }
                return;
            }
            EventKind::Waking(woken) => self.is_to_wake(woken.tid),
            EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => self.wakes(event.time, &woken),
            EventKind::Migrate { tid, to, .. } => {
                if let Some(waiting) = self.waiting.get_mut(&tid) {
                    waiting.cpu = to;
                }
            }
            EventKind::Exit { tid, .. } => drop(self.waiting.remove(&tid)),
            // Events are missing: who waits is not known any more.
            EventKind::Lost { .. } => self.waiting.clear(),
            _ => {}
        }
        self.jobs.event(event);
    }
}

impl Thread {
    fn told(mut self) -> Traced {
        self.latencies.sort_unstable();
        let mut instead: Vec<Instead> = self
            .instead
            .into_iter()
            .map(|(tid, (comm, time))| Instead { tid, name: comm.text().into_owned(), time })
            .collect();
        instead.sort_by_key(|one| (std::cmp::Reverse(one.time), one.tid));
        instead.truncate(INSTEAD_MAX);
        Traced {
            wakeups: self.wakeups,
            latency_p99: rank_p99(self.latencies.len()).map(|rank| self.latencies[rank]),
            latency_max: self.latency_max,
            wait_max: self.wait_max,
            missed: self.missed,
            response_max: self.response_max,
            instead,
        }
    }
}

impl Waits {
    fn switched(&mut self, cpu: CpuId, at: Nanos, next: Tid, comm: Comm) {
        let index = cpu.index();
        // As many as the state machine takes.
        if index >= 1 << 16 {
            return;
        }
        if index >= self.cpus.len() {
            self.cpus.resize_with(index + 1, Cpu::default);
        }
        let switches = &mut self.cpus[index];
        if switches.len() == SWITCHES_MAX {
            switches.pop_front();
        }
        switches.push_back((at, next, comm));
    }

    /// A wait, over or not: who had the CPU in the part of it that is in this interval.
    fn wait(&mut self, tid: Tid, cpu: CpuId, from: Nanos, until: Nanos) {
        let thread = self.threads.entry(tid).or_default();
        thread.wait_max = thread.wait_max.max(until - from);
        let from = from.max(self.begin);
        let mut end = until;
        for (since, other, comm) in self.cpus.get(cpu.index()).into_iter().flatten().rev() {
            if end <= from {
                break;
            }
            let begin = (*since).max(from);
            if begin < end {
                if *other != tid {
                    let sum = thread.instead.entry(*other).or_default();
                    *sum = (*comm, sum.1 + (end - begin));
                }
                end = begin;
            }
        }
    }
}

impl JobSink for Waits {
    fn job(&mut self, thread: &ThreadKey, job: &Job) {
        let deadline = self.deadlines.get(&thread.tid);
        let seen = self.threads.entry(thread.tid).or_default();
        seen.response_max = seen.response_max.max(Some(job.response()));
        seen.missed += u64::from(deadline.is_some_and(|deadline| job.response() > *deadline));
    }

    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        // Its response is exact.
        self.job(thread, job);
    }

    fn forget(&mut self, _: &ThreadKey) {}

    fn waited(&mut self, thread: &ThreadKey, cpu: CpuId, from: Nanos, until: Nanos, why: Wait) {
        self.wait(thread.tid, cpu, from, until);
        let has_deadline = self.deadlines.contains_key(&thread.tid);
        let late = self.late;
        let seen = self.threads.entry(thread.tid).or_default();
        if why == Wait::Woken {
            let latency = until - from;
            seen.wakeups += 1;
            seen.latency_max = seen.latency_max.max(Some(latency));
            seen.missed += u64::from(!has_deadline && latency > late);
            if seen.latencies.len() < WAKEUPS_MAX {
                seen.latencies.push(latency);
            }
        }
    }

    fn ended(&mut self, _: &ThreadKey, _: &ThreadTotals) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOG: Tid = Tid(10);
    const PLAYER: Tid = Tid(20);

    fn us(n: i64) -> Nanos {
        Nanos::from_micros(n)
    }

    fn switch(at: i64, prev: Tid, prev_state: LeaveState, next: Tid) -> Event<'static> {
        let name = |tid: Tid| Comm::new(if tid == HOG { "hog" } else { "player" });
        let (prev_comm, next_comm) = (name(prev), name(next));
        let kind = EventKind::Switch {
            prev,
            prev_comm,
            prev_prio: 120,
            prev_state,
            next,
            next_comm,
            next_prio: 120,
        };
        Event { time: us(at), cpu: CpuId(0), current: prev, kind }
    }

    fn wakes(at: i64, current: Tid, tid: Tid) -> [Event<'static>; 2] {
        let woken = Woken { tid, comm: Comm::new("player"), prio: 120, target: CpuId(0) };
        [EventKind::Waking(woken), EventKind::Wakeup(woken)].map(|kind| Event {
            time: us(at),
            cpu: CpuId(0),
            current,
            kind,
        })
    }

    const PREEMPTED: LeaveState = LeaveState::Runnable { preempted: true };

    /// The hog runs from 0; the player wakes at 100, gets the CPU at 300, sleeps at 400.
    #[test]
    fn a_wait_is_charged_to_who_had_the_cpu() {
        let mut interval = IntervalBuilder::new(us(0), us(150));
        interval.event(&switch(0, Tid::IDLE, PREEMPTED, HOG));
        wakes(100, HOG, PLAYER).iter().for_each(|event| interval.event(event));
        interval.event(&switch(300, HOG, PREEMPTED, PLAYER));
        interval.event(&switch(400, PLAYER, LeaveState::Sleeping, HOG));
        let seen = interval.take(us(1000));
        let player = &seen[&PLAYER];
        assert_eq!((player.wakeups, player.missed), (1, 1));
        assert_eq!((player.latency_max, player.latency_p99), (Some(us(200)), Some(us(200))));
        assert_eq!((player.wait_max, player.response_max), (us(200), Some(us(300))));
        assert_eq!(player.instead, [Instead { tid: HOG, name: "hog".to_owned(), time: us(200) }]);
        assert_eq!((seen[&HOG].wait_max, seen[&HOG].instead[0].tid), (us(100), PLAYER));
        assert!(interval.take(us(2000)).is_empty());
    }

    /// A thread that gets no CPU shows in each interval with all of its wait, and what others had only once.
    #[test]
    fn a_wait_that_goes_on_is_seen_before_it_ends() {
        let mut interval = IntervalBuilder::new(us(0), us(150));
        interval.event(&switch(0, Tid::IDLE, PREEMPTED, HOG));
        wakes(100, HOG, PLAYER).iter().for_each(|event| interval.event(event));
        let [first, second] = [us(1000), us(2000)].map(|end| interval.take(end).remove(&PLAYER).unwrap());
        assert_eq!((first.wait_max, first.instead[0].time), (us(900), us(900)));
        assert_eq!((second.wait_max, second.instead[0].time, second.wakeups), (us(1900), us(1000), 0));
        interval.event(&switch(2100, HOG, PREEMPTED, PLAYER));
        let third = interval.take(us(3000)).remove(&PLAYER).unwrap();
        assert_eq!((third.wait_max, third.instead[0].time, third.wakeups), (us(2000), us(100), 1));
    }

    /// Woken between saying that it sleeps and leaving its CPU, it runs on.
    #[test]
    fn a_thread_that_is_woken_on_its_cpu_waits_for_nothing() {
        let mut interval = IntervalBuilder::new(us(0), us(150));
        interval.event(&switch(0, Tid::IDLE, PREEMPTED, PLAYER));
        wakes(100, PLAYER, PLAYER).iter().for_each(|event| interval.event(event));
        assert!(interval.take(us(1000)).get(&PLAYER).is_none_or(|seen| seen.wait_max == Nanos::ZERO));
    }

    /// The player is woken on an idle CPU, whose switches are not recorded, and again at 1100.
    #[test]
    fn a_thread_whose_switches_are_not_recorded_waits_no_longer_than_it_did() {
        let mut interval = IntervalBuilder::new(us(0), us(150));
        wakes(100, Tid::IDLE, PLAYER).iter().for_each(|event| interval.event(event));
        interval.retain_waits(|tid| tid != PLAYER);
        assert!(interval.take(us(1000)).is_empty(), "the kernel says that it sleeps");
        wakes(1100, Tid::IDLE, PLAYER).iter().for_each(|event| interval.event(event));
        wakes(1700, Tid::IDLE, PLAYER).iter().for_each(|event| interval.event(event));
        let player = interval.take(us(2000)).remove(&PLAYER).unwrap();
        assert_eq!((player.wait_max, player.missed), (us(300), 0));
    }

    #[test]
    fn a_reservation_misses_its_own_deadline_and_no_limit_of_others() {
        let mut interval = IntervalBuilder::new(us(0), us(150));
        interval.set_deadlines(BTreeMap::from([(PLAYER, us(250))]));
        interval.event(&switch(0, Tid::IDLE, PREEMPTED, HOG));
        for (woken, on, off) in [(100, 300, 340), (1000, 1100, 1300)] {
            wakes(woken, HOG, PLAYER).iter().for_each(|event| interval.event(event));
            interval.event(&switch(on, HOG, PREEMPTED, PLAYER));
            interval.event(&switch(off, PLAYER, LeaveState::Sleeping, HOG));
        }
        let player = interval.take(us(2000)).remove(&PLAYER).unwrap();
        assert_eq!((player.missed, player.response_max), (1, Some(us(300))));
    }
}
