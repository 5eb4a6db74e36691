//! [`JobBuilder`]: from events to each thread's jobs.
//!
//! **Without markers** a job is a busy period: released by `sched_waking` (by `sched_wakeup` where no waking was seen),
//! started at the first switch-in, complete when the thread is switched out for any reason but wanting the CPU. A late
//! periodic thread does not sleep between jobs, so one busy period may hold several. A thread that does the work of
//! interrupts (`irq/N-NAME`, `napi/DEV-N`, `ksoftirqd/N`, `ktimers/N`) is not done when it waits uninterruptibly: with PREEMPT_RT
//! it meets locks of its driver as sleeping ones, whose owner it lends its priority. Its job goes on when it has the lock. So does
//! that of any thread that sleeps in a futex call that waits for a lock ([`waits_for_lock`]), where these calls are recorded.
//!
//! **With markers** ([`JobMarker`], written by the thread itself) jobs are exact. From a thread's first `Begin` on only
//! marked jobs count; busy periods before it were set-up and are dropped.
//! - release: the planned release the marker names;
//! - start: the first switch-in of the busy period, when that came at or after the planned release and no job of the
//!   thread has begun or ended in this busy period; otherwise the thread was on the CPU already, and the job starts
//!   where it says so, at its `Begin`;
//! - completion: the `End` marker;
//! - execution and interruption: between `Begin` and `End` (the wake-up path is not the job's work);
//! - preemptions and throttling: between start and `End`.
//!
//! A `Begin` before its own planned release cannot be on the trace's clock: the job is given up and counted
//! ([`Anomalies::misdated`]).
//!
//! **Interrupts** are what runs on top of a thread: hard handlers, x86 vectors and softirqs, nested ones once
//! ([`interrupts`]). **Throttling** of deadline threads looks like preemption in `sched_switch`; the replenishment
//! timer tells ([`throttle`]). A throttle is not counted as a preemption.
//!
//! **What cannot be known is not invented.** A job is *censored* (counted, not listed) when the trace begins or ends
//! inside it, when its release was not seen, and when events were lost on the CPU its thread was last seen on. A
//! switch-in recorded up to [`REORDER_MAX`] before its own wake-up is clock skew between CPUs: the job is released at
//! its start.
//!
//! **A switch that was not recorded** shows in the next event of its CPU, which names another current thread. When it was
//! is known within bounds only ([`inference`]): narrow ones are used and counted, the time between wide ones is nobody's, and
//! a job it is part of is censored, though its response is told ([`JobSink::doubtful`]). Where another thread was on the CPU,
//! that one's open job is censored too.
//!
//! Events must come in one order of time ([`crate::merge`]). The builder itself holds open jobs and totals, of the threads
//! alive at one time; complete jobs go to a [`JobSink`]. Nothing is allocated per event or job.

use surety_model::event::{
    Comm, Event, EventKind, JobMarker, LeaveState, SpanMarker, TraceSink, Woken, waits_for_lock,
};
use surety_model::job::ThreadHistory;
use surety_units::{CpuId, Nanos, Tid};

use inference::FromIdle;
use interrupts::{Context, InterruptStack};
use sink::{Histories, JobSink};
use thread::{NOWHERE, Place};
use threads::ThreadTable;
use throttle::Replenishments;
use watch::{Occupant, Unwatched, Waker, Watch};

pub mod inference;
pub mod interrupts;
pub mod sink;
mod thread;
mod threads;
pub mod throttle;
pub(crate) mod watch;

/// How much later than the switch-in a wake-up may be recorded and still be taken as its cause.
pub const REORDER_MAX: Nanos = Nanos::from_micros(100);
/// CPU numbers from here on are no CPU's: their events are passed over and counted.
const CPUS_MAX: usize = 1 << 16;

/// What did not go by the book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Anomalies {
    /// Switch-ins recorded before their own wake-up.
    pub reordered: u64,
    /// Switch-ins of a sleeping thread with no wake-up in sight; their jobs are censored.
    pub unreleased: u64,
    /// Switches out of idle that were not recorded and were inferred from the next event.
    pub inferred: u64,
    /// Switch-ins that were not recorded and lie between bounds too wide to be used; the jobs they are part of are
    /// censored.
    pub doubtful: u64,
    /// Events that contradict what was seen before: a thread on two CPUs, or leaving one it was not on.
    pub inconsistent: u64,
    /// Interrupt exits without their entry.
    pub unmatched_exits: u64,
    /// Begin markers before their own planned release.
    pub misdated: u64,
    /// End markers of jobs that did not begin, and begin markers of jobs before the last one's end.
    pub unmatched_markers: u64,
    /// Places where events were lost.
    pub gaps: u64,
    /// Events on impossible CPUs.
    pub impossible: u64,
}

/// Everything a trace shows about threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jobs {
    /// One history for each thread, by thread id; a reused id has several, in order of time.
    pub threads: Vec<ThreadHistory>,
    /// What did not go by the book.
    pub anomalies: Anomalies,
}

/// One CPU as the events show it.
#[derive(Clone, Debug)]
struct Cpu {
    occupant: Occupant,
    /// Time of its last event.
    last: Nanos,
    interrupts: InterruptStack,
    replenishments: Replenishments,
    from_idle: FromIdle,
}

/// Builds the jobs of all threads from events in order of time and hands them to a sink, without another word to one
/// that keeps them all.
#[derive(Clone, Debug, Default)]
pub struct JobBuilder<S = Histories> {
    machine: Machine<Unwatched<S>>,
}

impl JobBuilder {
    /// Nothing seen yet; all jobs are kept.
    pub fn new() -> JobBuilder {
        JobBuilder::default()
    }

    /// Ends the trace: what is still open is censored.
    pub fn finish(self) -> Jobs {
        let (histories, anomalies) = self.end();
        Jobs { threads: histories.finish(), anomalies }
    }
}

impl<S: JobSink> JobBuilder<S> {
    /// Nothing seen yet; jobs go to `sink`.
    pub fn into_sink(sink: S) -> JobBuilder<S> {
        JobBuilder { machine: Machine::new(Unwatched(sink)) }
    }

    /// Who takes the jobs.
    pub fn sink(&self) -> &S {
        &self.machine.watch.0
    }

    /// The same, to be changed between events.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.machine.watch.0
    }

    /// Ends the trace, what is still open is censored, and gives the sink back.
    pub fn end(self) -> (S, Anomalies) {
        let (Unwatched(sink), anomalies) = self.machine.finish();
        (sink, anomalies)
    }
}

impl<S: JobSink> TraceSink for JobBuilder<S> {
    fn event(&mut self, event: &Event<'_>) {
        self.machine.event(event);
    }
}

/// All CPUs and threads as the events show them, and somebody who watches them change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine<W> {
    threads: ThreadTable,
    cpus: Vec<Cpu>,
    throttles: throttle::Throttles,
    anomalies: Anomalies,
    last: Nanos,
    watch: W,
}

impl<W: Watch> Machine<W> {
    /// Nothing seen yet.
    pub(crate) fn new(watch: W) -> Machine<W> {
        Machine {
            threads: ThreadTable::default(),
            cpus: Vec::new(),
            throttles: throttle::Throttles::default(),
            anomalies: Anomalies::default(),
            last: Nanos::ZERO,
            watch,
        }
    }

    /// Ends the trace: what is still open is censored.
    pub(crate) fn finish(mut self) -> (W, Anomalies) {
        let end = self.last;
        // In the order of birth.
        self.threads.slots.sort_by_key(|thread| thread.key.life);
        for thread in &mut self.threads.slots {
            thread.report(end, self.watch.sink());
        }
        (self.watch, self.anomalies)
    }

    /// The watcher, to be changed between events.
    pub(crate) fn watch_mut(&mut self) -> &mut W {
        &mut self.watch
    }

    /// Tells the watcher what the CPU does from `at` on.
    #[inline]
    fn tell_cpu(&mut self, cpu: CpuId, at: Nanos) {
        if W::WATCHES {
            let state = &self.cpus[cpu.index()];
            let prio = match state.occupant {
                Occupant::Thread(slot) => self.threads.slots[slot].prio,
                _ => 0,
            };
            self.watch.cpu(cpu, at, state.occupant, prio, state.interrupts.innermost());
        }
    }

    /// Tells the watcher of the thread as it is from `at` on.
    #[inline]
    fn tell_thread(&mut self, slot: usize, at: Nanos) {
        if W::WATCHES {
            self.watch.thread(slot, at, self.threads.slots[slot].seen_as());
        }
    }

    /// Tells the watcher who wakes the thread of `slot`: the current one, or the interrupt on top of it.
    #[inline]
    fn tell_waker(&mut self, slot: usize, event: &Event<'_>) {
        if !W::WATCHES {
            return;
        }
        let cpu = &self.cpus[event.cpu.index()];
        match (cpu.interrupts.innermost(), cpu.occupant) {
            (Some(context), _) => self.watch.woken_in(slot, event.time, context),
            (None, Occupant::Thread(by)) => {
                let (waker, woken) = (&self.threads.slots[by], &self.threads.slots[slot]);
                let (tid, comm) = (waker.key.tid, waker.key.comm);
                let waker = Waker { slot: by, tid, comm, prio: waker.prio, lock: woken.wants_lock };
                self.watch.woken(slot, event.time, waker);
            }
            _ => {}
        }
    }

    /// The living thread that bears this id, or a new one that was running or sleeping before the trace saw it.
    #[inline]
    fn slot(&mut self, tid: Tid, at: Nanos) -> usize {
        self.threads.living(tid).unwrap_or_else(|| self.life(tid, at))
    }

    /// A thread that has just been made. `fork` and the first wake-up tell of the same one: the second of the two finds
    /// it untouched.
    fn newborn(&mut self, tid: Tid, at: Nanos, woken: bool) -> usize {
        let slot = self.threads.unborn(tid).unwrap_or_else(|| self.life(tid, at));
        self.threads.slots[slot].unborn = !woken;
        slot
    }

    /// A life begins.
    #[cold]
    fn life(&mut self, tid: Tid, at: Nanos) -> usize {
        let cpus = &self.cpus;
        let held = |slot| cpus.iter().any(|cpu| cpu.occupant == Occupant::Thread(slot));
        let free = self.threads.exhume(W::REMEMBERED, held);
        if let Some(slot) = free {
            self.throttles.end_of(slot);
            self.threads.slots[slot].report(at, self.watch.sink());
        }
        self.threads.insert(tid, at, free, self.watch.sink())
    }

    /// Makes room for the CPU's state at its first event; `false` for a number no CPU has.
    fn has_cpu(&mut self, cpu: CpuId) -> bool {
        let index = cpu.index();
        if index >= self.cpus.len() && index < CPUS_MAX {
            self.cpus.resize_with(index + 1, Cpu::new);
        }
        index < CPUS_MAX
    }

    /// A CPU nothing is known of runs the thread that was current at its first event.
    fn adopt(&mut self, cpu: CpuId, current: Tid, at: Nanos) {
        let occupant = if current == Tid::IDLE {
            Occupant::Idle
        } else {
            let slot = self.slot(current, at);
            let thread = &mut self.threads.slots[slot];
            if thread.on_cpu_elsewhere(cpu) {
                self.anomalies.inconsistent += 1;
                return;
            }
            thread.adopt(at, cpu, self.watch.sink());
            self.tell_thread(slot, at);
            Occupant::Thread(slot)
        };
        self.cpus[cpu.index()].occupant = occupant;
        self.tell_cpu(cpu, at);
    }

    fn switch(
        &mut self,
        event: &Event<'_>,
        (prev, prev_comm, prev_prio, prev_state): (Tid, Comm, i32, LeaveState),
        (next, next_comm, next_prio): (Tid, Comm, i32),
    ) {
        let (at, cpu) = (event.time, event.cpu);
        let state = &mut self.cpus[cpu.index()];
        let interrupted = state.interrupts.clear(at);
        let occupant = state.occupant;
        let timer = state.replenishments.at_switch(&self.throttles, prev_prio, next_prio, next_comm);
        self.charge_interrupt(occupant, interrupted);

        if prev != Tid::IDLE {
            let slot = match occupant {
                Occupant::Thread(slot) if self.threads.slots[slot].is_living(prev) => slot,
                other => {
                    // Somebody else was thought to be here: that one's whereabouts are unknown from here on.
                    if let Occupant::Thread(slot) = other {
                        self.anomalies.inconsistent += 1;
                        self.threads.slots[slot].lose(at, self.watch.sink());
                        self.tell_thread(slot, at);
                    }
                    self.slot(prev, at)
                }
            };
            let thread = &mut self.threads.slots[slot];
            thread.name(prev_comm);
            thread.prio = prev_prio;
            let throttled = match prev_state {
                LeaveState::Runnable { .. } if prev_prio < 0 => timer.of(thread.replenishment),
                _ => None,
            };
            let outcome = thread.switch_out(at, cpu, prev_state, throttled.is_some(), self.watch.sink());
            self.anomalies.inconsistent += u64::from(outcome.inconsistent);
            self.anomalies.unreleased += u64::from(outcome.unreleased);
            match prev_state {
                LeaveState::Runnable { .. } if throttled.is_none() => {
                    self.watch.sink().preempted(&thread.key, at, next, next_comm);
                }
                LeaveState::Dead => self.threads.bury(slot),
                _ => {}
            }
            if let Some(throttled) = throttled {
                self.throttles.begin(throttled.timer, slot);
                if throttled.certain {
                    self.threads.slots[slot].replenishment = Some(throttled.timer);
                    self.throttles.own(throttled.timer);
                }
            }
            self.tell_thread(slot, at);
        } else if let Occupant::Thread(slot) = occupant {
            self.anomalies.inconsistent += 1;
            self.threads.slots[slot].lose(at, self.watch.sink());
            self.tell_thread(slot, at);
        } else if next != Tid::IDLE {
            self.cpus[cpu.index()].from_idle.recorded += 1;
        }

        self.cpus[cpu.index()].occupant = if next == Tid::IDLE {
            Occupant::Idle
        } else {
            let slot = self.slot(next, at);
            let thread = &mut self.threads.slots[slot];
            thread.name(next_comm);
            thread.prio = next_prio;
            let outcome = thread.switch_in(at, cpu, self.watch.sink());
            self.anomalies.inconsistent += u64::from(outcome.inconsistent);
            self.throttles.end_of(slot);
            self.tell_thread(slot, at);
            Occupant::Thread(slot)
        };
        self.tell_cpu(cpu, at);
    }

    /// Charges `(since, until)` of interrupts to who was under them.
    fn charge_interrupt(&mut self, occupant: Occupant, span: Option<(Nanos, Nanos)>) {
        if let (Occupant::Thread(slot), Some((since, until))) = (occupant, span) {
            self.threads.slots[slot].interrupt(since, until);
        }
    }

    fn enter(&mut self, event: &Event<'_>, context: Context) {
        let cpu = event.cpu.index();
        // A thread whose own work softirqs are is not interrupted by them.
        if let (Context::Softirq(_), Occupant::Thread(slot)) = (context, self.cpus[cpu].occupant)
            && self.cpus[cpu].interrupts.is_empty()
            && self.threads.slots[slot].serves_interrupts
        {
            return;
        }
        self.cpus[cpu].interrupts.enter(context, event.time);
        self.tell_cpu(event.cpu, event.time);
    }

    fn leave(&mut self, event: &Event<'_>, context: Context) {
        let state = &mut self.cpus[event.cpu.index()];
        let occupant = state.occupant;
        match state.interrupts.leave(context, event.time) {
            Ok(span) => {
                self.charge_interrupt(occupant, span);
                self.tell_cpu(event.cpu, event.time);
            }
            Err(interrupts::Unmatched) => {
                let own = matches!((context, occupant), (Context::Softirq(_), Occupant::Thread(slot))
                    if self.threads.slots[slot].serves_interrupts);
                self.anomalies.unmatched_exits += u64::from(!own);
            }
        }
    }

    fn waking(&mut self, event: &Event<'_>, woken: &Woken) {
        if woken.tid == Tid::IDLE {
            return;
        }
        let at = event.time;
        let slot = self.slot(woken.tid, at);
        self.tell_waker(slot, event);
        let gaps = self.anomalies.gaps;
        let thread = &mut self.threads.slots[slot];
        thread.name(woken.comm);
        thread.prio = woken.prio;
        if thread.last_cpu == NOWHERE {
            // The request names the CPU it slept on; the queue it is put in comes with the wake-up.
            thread.last_cpu = woken.target;
        }
        let reordered = thread.waking(at, gaps, self.watch.sink());
        self.anomalies.reordered += u64::from(reordered);
        self.tell_thread(slot, at);
    }

    fn wakeup(&mut self, at: Nanos, woken: &Woken) {
        if woken.tid == Tid::IDLE {
            return;
        }
        let slot = self.slot(woken.tid, at);
        let gaps = self.anomalies.gaps;
        let thread = &mut self.threads.slots[slot];
        thread.name(woken.comm);
        thread.prio = woken.prio;
        let reordered = thread.wakeup(at, woken.target, gaps);
        self.anomalies.reordered += u64::from(reordered);
        self.tell_thread(slot, at);
    }

    fn marker(&mut self, event: &Event<'_>, marker: JobMarker) {
        if event.current == Tid::IDLE {
            return;
        }
        let slot = self.slot(event.current, event.time);
        let thread = &mut self.threads.slots[slot];
        match marker {
            JobMarker::Begin { job, release } => {
                let begun = thread.begin(event.time, job, release, self.watch.sink());
                self.anomalies.misdated += u64::from(begun.misdated);
                self.anomalies.unmatched_markers += u64::from(begun.unmatched);
            }
            JobMarker::End { job } => {
                let matched = thread.end(event.time, job, self.watch.sink());
                self.anomalies.unmatched_markers += u64::from(!matched);
            }
        }
        self.tell_thread(slot, event.time);
    }

    fn span(&mut self, event: &Event<'_>, marker: &SpanMarker<&str>) {
        let slot = self.slot(event.current, event.time);
        let worker = match marker {
            SpanMarker::Over(span) => span.thread.and_then(|tid| self.threads.last(tid)),
            _ => None,
        };
        self.watch.span(slot, worker, marker);
    }

    /// Events of this CPU are missing: who was last seen here is nowhere, and the open jobs of all of them are given up.
    fn lost(&mut self, event: &Event<'_>) {
        self.anomalies.gaps += 1;
        let state = &mut self.cpus[event.cpu.index()];
        state.interrupts.clear(state.last);
        state.replenishments = Replenishments::default();
        state.occupant = Occupant::Unknown;
        // What ran here is known up to the last event before the gap.
        let until = state.last;
        for slot in 0..self.threads.slots.len() {
            let thread = &self.threads.slots[slot];
            if thread.last_cpu == event.cpu && !thread.ended {
                self.threads.slots[slot].lose(until, self.watch.sink());
                self.tell_thread(slot, until);
            }
        }
        self.tell_cpu(event.cpu, until);
    }

    fn exec(&mut self, at: Nanos, tid: Tid, old: Tid) {
        let slot = self.slot(old, at);
        if tid != old {
            // Only the caller survives, under its leader's id.
            self.threads.rename(slot, tid, self.watch.sink());
        }
        self.threads.slots[slot].touch(at);
        self.tell_thread(slot, at);
    }
}

impl Cpu {
    fn new() -> Cpu {
        Cpu {
            occupant: Occupant::Unknown,
            last: Nanos::ZERO,
            interrupts: InterruptStack::default(),
            replenishments: Replenishments::default(),
            from_idle: FromIdle::default(),
        }
    }
}

impl<W: Watch> Machine<W> {
    /// Takes one event.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        if event.time < self.last {
            // A sink that is handed events out of order sees them at the latest time so far.
            self.take(&Event { time: self.last, ..*event });
        } else {
            self.last = event.time;
            self.take(event);
        }
    }

    /// Takes one event in order of time.
    fn take(&mut self, event: &Event<'_>) {
        if !self.has_cpu(event.cpu) {
            self.anomalies.impossible += 1;
            return;
        }
        if let EventKind::Lost { .. } = event.kind {
            self.lost(event);
            self.cpus[event.cpu.index()].last = event.time;
            return;
        }
        if let EventKind::Exec { tid, old } = event.kind {
            // First: the event's current thread bears its new id already.
            self.exec(event.time, tid, old);
        }
        let as_switched = match self.cpus[event.cpu.index()].occupant {
            Occupant::Unknown => None,
            Occupant::Idle => Some(event.current == Tid::IDLE),
            Occupant::Thread(slot) => Some(self.threads.slots[slot].key.tid == event.current),
        };
        match as_switched {
            Some(true) => {}
            Some(false) => self.infer(event),
            None => self.adopt(event.cpu, event.current, event.time),
        }
        self.cpus[event.cpu.index()].last = event.time;
        match event.kind {
            EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio } => {
                self.switch(event, (prev, prev_comm, prev_prio, prev_state), (next, next_comm, next_prio));
            }
            EventKind::Waking(woken) => self.waking(event, &woken),
            EventKind::Wakeup(woken) => self.wakeup(event.time, &woken),
            EventKind::WakeupNew(woken) => {
                let slot = self.newborn(woken.tid, event.time, true);
                self.threads.slots[slot].last_cpu = woken.target;
                self.waking(event, &woken);
            }
            EventKind::Fork { child, child_comm, .. } => {
                let slot = self.newborn(child, event.time, false);
                self.threads.slots[slot].name(child_comm);
            }
            EventKind::Exit { tid, comm } => {
                let slot = self.slot(tid, event.time);
                self.threads.slots[slot].name(comm);
                self.threads.slots[slot].touch(event.time);
            }
            EventKind::Migrate { tid, comm, to, .. } => {
                let slot = self.slot(tid, event.time);
                let thread = &mut self.threads.slots[slot];
                thread.name(comm);
                thread.touch(event.time);
                if !matches!(thread.place, Place::Running { .. }) {
                    thread.last_cpu = to;
                }
                self.tell_thread(slot, event.time);
            }
            EventKind::IrqEntry { irq, .. } => self.enter(event, Context::Irq(irq)),
            EventKind::IrqExit { irq } => self.leave(event, Context::Irq(irq)),
            EventKind::VectorEntry { name } => self.enter(event, Context::Vector(name)),
            EventKind::VectorExit { name } => self.leave(event, Context::Vector(name)),
            EventKind::SoftirqEntry { vector } => self.enter(event, Context::Softirq(vector)),
            EventKind::SoftirqExit { vector } => self.leave(event, Context::Softirq(vector)),
            EventKind::TimerStart { timer, function, .. } => {
                let cpu = &mut self.cpus[event.cpu.index()];
                let deadline = match cpu.occupant {
                    Occupant::Thread(slot) => self.threads.slots[slot].prio < 0,
                    _ => false,
                };
                cpu.replenishments.start(&mut self.throttles, timer, function, deadline);
            }
            EventKind::TimerExpire { timer, function } => {
                self.cpus[event.cpu.index()].replenishments.expire(&mut self.throttles, timer, function);
                self.replenish(timer, event.time);
            }
            EventKind::TimerCancel { timer } => self.replenish(timer, event.time),
            EventKind::FutexEnter { operation, value, .. } => {
                self.futex(event, waits_for_lock(operation, value));
            }
            EventKind::FutexExit => self.futex(event, false),
            EventKind::Marker { text } => {
                if let Some(marker) = JobMarker::parse(text) {
                    self.marker(event, marker);
                } else if W::WATCHES
                    && event.current != Tid::IDLE
                    && let Some(marker) = SpanMarker::parse(text)
                {
                    self.span(event, &marker);
                }
            }
            _ => {}
        }
    }

    fn futex(&mut self, event: &Event<'_>, wants_lock: bool) {
        if event.current != Tid::IDLE {
            let slot = self.slot(event.current, event.time);
            self.threads.slots[slot].wants_lock = wants_lock;
            self.threads.slots[slot].touch(event.time);
        }
    }

    fn replenish(&mut self, timer: u64, at: Nanos) {
        if let Some(slot) = self.throttles.end(timer) {
            self.threads.slots[slot].replenish(at);
            self.tell_thread(slot, at);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
