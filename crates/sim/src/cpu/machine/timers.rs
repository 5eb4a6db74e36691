//! Timers of a [`Machine`]'s threads expire: at their time, with others' within their slack, or on ticks.

use surety_model::platform::Overheads;
use surety_units::Nanos;

use super::Machine;
use crate::cpu::hardware::{Occasion, ThreadId};
use crate::cpu::program::Programs;
use crate::cpu::recorder::Kept;
use crate::cpu::timers::{TimerCounts, on_grid};

/// Whether it is a timer of a thread or a scheduler: those of an instant expire in one interrupt, the tick's if there is one, behind
/// which CPUs choose.
pub(super) fn is_timer(occasion: Occasion) -> bool {
    matches!(occasion, Occasion::Alarm(_) | Occasion::Policy(..))
}

impl<P: Programs> Machine<P> {
    /// Gives a thread a timer slack of its own; it has an effect where the platform has rules of timers.
    pub fn set_timer_slack(&mut self, thread: ThreadId, slack: Nanos) {
        if let Some(timers) = &mut self.hardware.timers {
            timers.set_slack(thread.0, slack);
        }
    }

    /// What timers did to each CPU since observation began; none where the platform has no rules of timers.
    pub fn timer_counts(&self) -> Vec<TimerCounts> {
        self.hardware.timers.as_ref().map_or_else(Vec::new, |timers| timers.counts())
    }

    /// Arms the alarm of a thread that goes to sleep on a CPU until an instant.
    #[inline]
    pub(super) fn arm_alarm(&mut self, cpu: usize, thread: ThreadId, until: Nanos) {
        let at = if self.hardware.timers.is_none() { until } else { self.alarm_instant(cpu, thread, until) };
        self.hardware.engine.arm(self.hardware.threads[thread.index()].alarm, at);
    }

    /// When the alarm of a thread comes on a machine with rules for it.
    fn alarm_instant(&mut self, cpu: usize, thread: ThreadId, until: Nanos) -> Nanos {
        let hardware = &mut self.hardware;
        // The kernel's internal priorities of realtime and deadline threads.
        let is_exact = hardware.threads[thread.index()].scheduling.prio() < 100;
        let hard =
            hardware.timers.as_mut().map_or(until, |timers| timers.begin(cpu, thread.0, until, is_exact));
        if self.is_in_ticks() { self.hardware.timer_instant(cpu, until) } else { hard }
    }

    /// Whether timers expire in ticks.
    fn is_in_ticks(&self) -> bool {
        self.hardware.timers.as_ref().is_some_and(|timers| !timers.rules.high_resolution)
    }

    /// A thread is woken before its time.
    pub(super) fn disarm_alarm(&mut self, thread: ThreadId) {
        let t = self.hardware.thread(thread);
        let (cpu, alarm) = (t.cpu, t.alarm);
        self.hardware.engine.cancel(alarm);
        if let Some(timers) = &mut self.hardware.timers {
            timers.end(cpu, thread.0);
        }
    }

    /// The timer of a thread has expired.
    pub(super) fn alarm(&mut self, thread: ThreadId) {
        let (waker, overheads) = (self.hardware.thread(thread).cpu, self.hardware.platform.overheads);
        self.count_timer(waker, false);
        let is_in_ticks = self.is_in_ticks();
        if is_in_ticks && self.hardware.timers.as_ref().is_some_and(|timers| timers.is_pending(thread.0)) {
            self.expire_in_tick(waker);
            // One that stands before it and is yet to come keeps it.
            if self.hardware.timers.as_ref().is_some_and(|timers| timers.is_pending(thread.0)) {
                let next = self.hardware.timer_instant(waker, self.hardware.now() + Nanos::new(1));
                self.hardware.engine.arm(self.hardware.threads[thread.index()].alarm, next);
            }
            return;
        }
        // A thread begins without a timer.
        self.wake_by_timer(thread, waker, if is_in_ticks { waking(&overheads) } else { overheads.wakeup });
        self.expire_others(waker);
    }

    /// Wakes all whose timers wait for this tick of a CPU, in the order of their hard expiries, whichever was armed first.
    fn expire_in_tick(&mut self, cpu: usize) {
        let (now, cost) = (self.hardware.now(), waking(&self.hardware.platform.overheads));
        loop {
            let next = self.hardware.timers.as_ref().and_then(|timers| timers.first_due(cpu, now));
            let Some(thread) = next.map(ThreadId) else { return };
            let alarm = self.hardware.thread(thread).alarm;
            self.hardware.engine.cancel(alarm);
            self.wake_by_timer(thread, cpu, cost);
        }
    }

    #[inline(always)]
    fn wake_by_timer(&mut self, thread: ThreadId, waker: usize, cost: Nanos) {
        if let Some(timers) = &mut self.hardware.timers {
            timers.end(waker, thread.0);
            timers.count_woken(waker);
        }
        self.interrupted_by_timer(waker, cost);
        // The timer's interrupt wakes it, not the thread below.
        self.hardware.keep(waker, Kept::Tick { entry: true });
        self.wake(thread, waker);
        self.hardware.keep(waker, Kept::Tick { entry: false });
    }

    /// The interrupt of a timer of this CPU takes those with it whose soft expiry has passed. One of them costs what waking a thread does without an
    /// interrupt.
    #[inline]
    pub(super) fn expire_others(&mut self, cpu: usize) {
        if self.hardware.timers.is_some() && !self.is_in_ticks() {
            self.expire_pending(cpu);
        }
    }

    fn expire_pending(&mut self, cpu: usize) {
        let cost = waking(&self.hardware.platform.overheads);
        loop {
            let now = self.hardware.now();
            let of_cpu = &self.hardware.cpus[cpu];
            let is_ticking = self.hardware.engine.is_armed(of_cpu.tick);
            let after = now + Nanos::new(1);
            let tick = is_ticking.then(|| on_grid(after, of_cpu.tick_phase, self.hardware.platform.tick));
            let next = self.hardware.timers.as_mut().and_then(|timers| timers.next_expired(cpu, now, tick));
            let Some(thread) = next.map(ThreadId) else { return };
            let alarm = self.hardware.thread(thread).alarm;
            self.hardware.engine.cancel(alarm);
            self.wake_by_timer(thread, cpu, cost);
        }
    }

    /// Counts an interrupt of a timer, or a tick.
    #[inline]
    pub(super) fn count_timer(&mut self, cpu: usize, is_tick: bool) {
        if let Some(timers) = &mut self.hardware.timers {
            let (now, is_idle) = (self.hardware.engine.now(), self.hardware.cpus[cpu].current.is_none());
            timers.count_interrupt(cpu, now, is_tick);
            if is_idle {
                timers.count_idle_exit(cpu, now);
            }
        }
    }

    /// A tick, a timer or what it wakes takes this long of a CPU.
    #[inline]
    pub(super) fn interrupted_by_timer(&mut self, cpu: usize, cost: Nanos) {
        if let Some(timers) = &mut self.hardware.timers {
            timers.charge(cpu, cost);
        }
        self.interrupted_for(cpu, cost);
    }
}

/// What waking a thread costs in an interrupt that has come for something else.
fn waking(overheads: &Overheads) -> Nanos {
    (overheads.wakeup - overheads.timer).max(Nanos::ZERO)
}
