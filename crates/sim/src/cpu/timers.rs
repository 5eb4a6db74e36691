//! [`Timers`]: range timers of sleeping threads, and what timer interrupts do to CPUs, counted.
//!
//! A timer has a soft and a hard expiry (`hrtimer_set_expires_range_ns`). The interrupt is programmed for the earliest hard one of a CPU; whatever
//! interrupt of a timer comes, it takes timers in the order of their hard expiries and stops at the first whose soft one is yet to
//! come (`__hrtimer_run_queues` in `kernel/time/hrtimer.c`); the next tick is a timer among them, with no slack, as long as it is not stopped. Without high resolution timers expire on ticks by their soft expiry.

use std::collections::BTreeMap;

use surety_model::platform::TimerRules;
use surety_units::Nanos;

/// Of a machine that says how its timers expire.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    pub(crate) rules: TimerRules,
    /// By the number of a thread: the slack that its task asks for, and the place of its pending timer.
    threads: Vec<(Option<Nanos>, Option<Place>)>,
    cpus: Vec<CpuTimers>,
    /// Timers begun so far.
    begun: u64,
}

/// Where a timer stands in the queue of a CPU: its hard expiry, and among equal ones when it was begun (`timerqueue_add`).
type Place = (Nanos, u64);

/// Timers of a CPU.
#[derive(Clone, Debug, Default)]
struct CpuTimers {
    /// Soft expiries and threads.
    pending: BTreeMap<Place, (Nanos, u32)>,
    counts: TimerCounts,
    /// When it last took an interrupt of a timer, when it last had nothing to run, and when that last ended.
    interrupted: Option<Nanos>,
    entered_idle: Option<Nanos>,
    left_idle: Option<Nanos>,
}

/// What happened to a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerCounts {
    /// Interrupts in which timers of threads or schedulers expired, without those that had a tick in them.
    pub interrupts: u64,
    pub ticks: u64,
    /// Threads woken by timers.
    pub woken: u64,
    pub idle_exits: u64,
    /// CPU time that all of them took, with what they woke.
    pub cost: Nanos,
}

impl Timers {
    pub(crate) fn new(rules: TimerRules, cpus: usize) -> Timers {
        Timers { rules, threads: Vec::new(), cpus: vec![CpuTimers::default(); cpus], begun: 0 }
    }

    fn of(&mut self, thread: u32) -> &mut (Option<Nanos>, Option<Place>) {
        if self.threads.len() <= thread as usize {
            self.threads.resize(thread as usize + 1, (None, None));
        }
        &mut self.threads[thread as usize]
    }

    /// Gives a thread a slack of its own.
    pub(crate) fn set_slack(&mut self, thread: u32, slack: Nanos) {
        self.of(thread).0 = Some(slack);
    }

    /// A thread goes to sleep on a CPU until an instant: when the interrupt for it is due by itself.
    pub(crate) fn begin(&mut self, cpu: usize, thread: u32, soft: Nanos, is_exact: bool) -> Nanos {
        let slack = self.of(thread).0.unwrap_or(self.rules.slack);
        let slack = if is_exact { Nanos::ZERO } else { slack };
        let hard = soft.saturating_add(slack);
        self.begun += 1;
        let place = (hard, self.begun);
        self.of(thread).1 = Some(place);
        self.cpus[cpu].pending.insert(place, (soft, thread));
        hard
    }

    /// The timer of a thread has expired, or is not needed any more.
    pub(crate) fn end(&mut self, cpu: usize, thread: u32) {
        if let Some(place) = self.of(thread).1.take() {
            self.cpus[cpu].pending.remove(&place);
        }
    }

    /// The next thread whose timer an interrupt at this instant takes with it; those whose hard expiry it is have interrupts of their own.
    ///
    /// `tick`: when the next tick of the CPU comes, if it has any. It is a timer without slack, and keeps those behind it.
    pub(crate) fn next_expired(&mut self, cpu: usize, now: Nanos, tick: Option<Nanos>) -> Option<u32> {
        let pending = &self.cpus[cpu].pending;
        let later = (Nanos::new(now.get() + 1), 0)..;
        let (&(hard, _), &(_, thread)) = pending.range(later).next().filter(|(_, (soft, _))| *soft <= now)?;
        tick.is_none_or(|tick| hard < tick).then_some(thread)
    }

    /// Whether a thread has a timer that is to come.
    pub(crate) fn is_pending(&self, thread: u32) -> bool {
        self.threads.get(thread as usize).is_some_and(|(_, place)| place.is_some())
    }

    /// The thread whose timer stands first by its hard expiry, if its soft one has passed at this instant.
    pub(crate) fn first_due(&self, cpu: usize, now: Nanos) -> Option<u32> {
        self.cpus[cpu].pending.values().next().filter(|(soft, _)| *soft <= now).map(|(_, thread)| *thread)
    }

    /// An interrupt of a timer or a tick; several of one instant are one.
    pub(crate) fn count_interrupt(&mut self, cpu: usize, now: Nanos, is_tick: bool) {
        let state = &mut self.cpus[cpu];
        let is_first = state.interrupted.replace(now) != Some(now);
        match (is_tick, is_first) {
            (true, true) => state.counts.ticks += 1,
            (true, false) => {
                state.counts.ticks += 1;
                state.counts.interrupts -= 1;
            }
            (false, true) => state.counts.interrupts += 1,
            (false, false) => {}
        }
    }

    /// A CPU has nothing to run.
    pub(crate) fn enters_idle(&mut self, cpu: usize, now: Nanos) {
        self.cpus[cpu].entered_idle = Some(now);
    }

    /// An idle CPU has something to do. One that was stopped between two threads was not idle.
    pub(crate) fn count_idle_exit(&mut self, cpu: usize, now: Nanos) {
        let state = &mut self.cpus[cpu];
        let was_idle = state.entered_idle != Some(now);
        if was_idle && state.left_idle.replace(now) != Some(now) {
            state.counts.idle_exits += 1;
        }
    }

    pub(crate) fn count_woken(&mut self, cpu: usize) {
        self.cpus[cpu].counts.woken += 1;
    }

    /// So much of a CPU's time went into one.
    pub(crate) fn charge(&mut self, cpu: usize, cost: Nanos) {
        self.cpus[cpu].counts.cost += cost;
    }

    /// Counts anew from here.
    pub(crate) fn observe_from_here(&mut self) {
        self.cpus.iter_mut().for_each(|cpu| cpu.counts = TimerCounts::default());
    }

    pub(crate) fn counts(&self) -> Vec<TimerCounts> {
        self.cpus.iter().map(|cpu| cpu.counts).collect()
    }
}

/// The first instant of a grid from an instant on.
pub(crate) fn on_grid(at: Nanos, phase: Nanos, tick: Nanos) -> Nanos {
    phase + tick * (at - phase).div_ceil(tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(i64) -> Nanos = Nanos::from_micros;

    /// Soft and hard expiries of A 10 and 60, of B 20 and 40, of C 50 and 100: the interrupt at 40 is B's, and takes A with it; C is yet to come.
    #[test]
    fn an_interrupt_takes_with_it_whose_soft_expiry_has_passed() {
        let mut timers = Timers::new(TimerRules::default(), 1);
        for (thread, slack) in [(0, 50), (1, 20), (2, 50)] {
            timers.set_slack(thread, US(slack));
        }
        let hard = [(0, 10), (1, 20), (2, 50)].map(|(t, soft)| timers.begin(0, t, US(soft), false));
        assert_eq!(hard, [60, 40, 100].map(US));
        timers.end(0, 1);
        assert_eq!(timers.next_expired(0, US(40), None), Some(0));
        timers.end(0, 0);
        assert_eq!(timers.next_expired(0, US(40), None), None);
        assert_eq!(timers.next_expired(0, US(50), None), Some(2));
    }

    /// Of A 10 and 100, of B 50 and 60: A has expired at 40, and B, which stands before it, has not.
    #[test]
    fn the_first_that_is_yet_to_come_keeps_those_behind_it() {
        let mut timers = Timers::new(TimerRules::default(), 1);
        timers.set_slack(0, US(90));
        timers.set_slack(1, US(10));
        timers.begin(0, 0, US(10), false);
        timers.begin(0, 1, US(50), false);
        assert_eq!(timers.next_expired(0, US(40), None), None);
        assert_eq!(timers.next_expired(0, US(55), None), Some(1));
    }

    /// Of B 10 and 60, begun before A, 50 and 60: B has expired at 40, and A, which stands behind it, has not.
    #[test]
    fn of_equal_hard_expiries_the_timer_that_was_begun_first_stands_first() {
        let mut timers = Timers::new(TimerRules::default(), 1);
        timers.set_slack(0, US(10));
        timers.set_slack(1, US(50));
        timers.begin(0, 1, US(10), false);
        timers.begin(0, 0, US(50), false);
        assert_eq!(timers.next_expired(0, US(40), None), Some(1));
    }

    /// Of A 10 and 60, of B 20 and 90, and a tick at 80: B has expired at 40, and the tick, which stands before it, has not.
    #[test]
    fn the_next_tick_keeps_those_behind_it() {
        let mut timers = Timers::new(TimerRules::default(), 1);
        timers.set_slack(0, US(50));
        timers.set_slack(1, US(70));
        timers.begin(0, 0, US(10), false);
        timers.begin(0, 1, US(20), false);
        assert_eq!(timers.next_expired(0, US(40), Some(US(80))), Some(0));
        timers.end(0, 0);
        assert_eq!(timers.next_expired(0, US(40), Some(US(80))), None);
        assert_eq!(timers.next_expired(0, US(40), None), Some(1));
    }

    /// Of A 30 and 60, of B 20 and 40, of C 50: a tick at 45 takes B, and C, which stands before A and is yet to come, keeps A. One at 55 takes both.
    #[test]
    fn a_tick_takes_those_due_in_the_order_of_their_hard_expiries_up_to_the_first_to_come() {
        let mut timers = Timers::new(TimerRules { high_resolution: false, ..TimerRules::default() }, 1);
        timers.set_slack(0, US(30));
        timers.set_slack(1, US(20));
        for (thread, soft) in [(0, 30), (1, 20), (2, 50)] {
            timers.begin(0, thread, US(soft), false);
        }
        let mut taken = Vec::new();
        for tick in [45, 55] {
            while let Some(thread) = timers.first_due(0, US(tick)) {
                taken.push((tick, thread));
                timers.end(0, thread);
            }
        }
        assert_eq!(taken, [(45, 1), (55, 2), (55, 0)]);
    }

    #[test]
    fn timers_of_one_instant_are_one_interrupt_and_the_ticks() {
        let mut timers = Timers::new(TimerRules::default(), 1);
        for (at, is_tick) in [(1, false), (1, false), (2, true), (3, false), (3, true), (4, true), (4, false)]
        {
            timers.count_interrupt(0, US(at), is_tick);
        }
        let TimerCounts { interrupts, ticks, .. } = timers.counts()[0];
        assert_eq!((interrupts, ticks), (1, 3));
    }

    #[test]
    fn a_cpu_that_is_stopped_between_two_threads_leaves_no_idleness() {
        let mut timers = Timers::new(TimerRules::default(), 1);
        timers.enters_idle(0, US(5));
        timers.count_idle_exit(0, US(5));
        timers.enters_idle(0, US(7));
        timers.count_idle_exit(0, US(9));
        timers.count_idle_exit(0, US(9));
        assert_eq!(timers.counts()[0].idle_exits, 1);
    }

    #[test]
    fn instants_of_a_grid_are_not_before_what_is_asked_for() {
        let of = |at: i64| on_grid(US(at), US(300), US(4_000));
        assert_eq!([299, 300, 301, 4_300, 4_301].map(of), [300, 300, 4_300, 4_300, 8_300].map(US));
    }
}
