//! [`Window`]: when a run begins, when it is observed, when it ends; and the gate its threads wait at.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use surety_enforce::ThreadState;
use surety_kernel::{Kernel as _, RealKernel, clock, thread};
use surety_model::first_cpus::Turn;
use surety_model::workload::Workload;
use surety_units::{CpuSet, Nanos, Tid};

/// Between the gate's opening and time 0: every thread reaches its first sleep.
pub(crate) const RUN_UP: Nanos = surety_model::activation::RUN_UP;

/// How long a thread has, at most, to go to the CPU where it sleeps until time 0.
const TURN: Nanos = Nanos::from_micros(100);

/// [`RUN_UP`], or longer than the longest period of a reservation whose deadline is before the period's end. Such a thread that
/// wakes within a period of its last budget gets what is left of that one, or is throttled to the period's end
/// (`dl_check_constrained_dl`): it would begin out of step with its releases, and where these come once in a period stay so.
pub(crate) fn run_up(workload: &Workload) -> Nanos {
    let tasks = workload.tasks.iter().filter_map(|task| task.reservation);
    let constrained = tasks.filter(|r| r.deadline < r.period).map(|r| r.period + RUN_UP / 4);
    constrained.max().unwrap_or(RUN_UP).max(RUN_UP)
}

/// The instants of one run on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Time 0 of the workload.
    pub begin: Nanos,
    /// Observation starts.
    pub observe: Nanos,
    /// Everything ends.
    pub end: Nanos,
}

impl Window {
    /// A run that begins at `begin`.
    pub fn new(begin: Nanos, warm_up: Nanos, duration: Nanos) -> Window {
        Window { begin, observe: begin + warm_up, end: begin + warm_up + duration }
    }

    /// The first instant from `earliest` on at which a run may begin so that its first tick comes `phase` later.
    ///
    /// Ticks come at multiples of their length on CLOCK_MONOTONIC (`tick_setup_sched_timer` in
    /// `kernel/time/tick-sched.c`, without `skew_tick`).
    pub fn aligned_begin(earliest: Nanos, tick: Nanos, phase: Nanos) -> Nanos {
        tick * (earliest + phase).div_ceil(tick) - phase
    }

    /// An instant in workload time.
    pub fn since_begin(&self, instant: Nanos) -> Nanos {
        instant - self.begin
    }

    /// How long activity is observed.
    pub fn observed(&self) -> Nanos {
        self.end - self.observe
    }
}

/// Where the threads of a run wait until all of them are set up, and how they learn that it is over.
#[derive(Debug, Default)]
pub struct Gate {
    window: Mutex<Option<Window>>,
    opened: Condvar,
    stopped: Arc<AtomicBool>,
    /// What threads that are done had until then.
    left: Mutex<Vec<(Tid, ThreadState)>>,
}

impl Gate {
    /// A closed gate whose stop flag is shared with whoever cancels the run.
    pub fn new(stopped: Arc<AtomicBool>) -> Gate {
        Gate { stopped, ..Gate::default() }
    }

    /// Lets every thread through, into this window.
    pub fn open(&self, window: Window) {
        *self.window.lock().expect("no thread panics inside the lock") = Some(window);
        self.opened.notify_all();
    }

    /// Ends the run: threads that wait go home, threads that run stop at their next look.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Whoever waits must look again; the lock orders the store before the look.
        drop(self.window.lock());
        self.opened.notify_all();
    }

    /// Has every thread that waits look once, and wait again: then it is on a CPU that it may use. A sleeping one stays in the books
    /// of the CPU it was on, and the kernel asks that one's root domain.
    pub fn rouse(&self) {
        drop(self.window.lock());
        self.opened.notify_all();
    }

    /// Waits for the gate to open; `None` when the run is given up before.
    pub fn wait(&self) -> Option<Window> {
        let mut window = self.window.lock().expect("no thread panics inside the lock");
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(window) = *window {
                return Some(window);
            }
            window = self.opened.wait(window).expect("no thread panics inside the lock");
        }
    }

    /// Waits for the gate to open, and goes to the CPU where it is to sleep until time 0: threads one after another, so that each finds its
    /// CPU idle and the earlier ones have their timers set first. Where that cannot be done it sleeps where it is.
    pub fn wait_on(&self, turn: Option<Turn>) -> Option<Window> {
        let window = self.wait()?;
        if let Some(turn) = turn {
            let (kernel, number) = (RealKernel::new(), turn.number as i64);
            let step = TURN.min(RUN_UP / 4 / turn.of.max(1) as i64);
            let allowed = kernel.affinity(Tid(0)).ok().filter(|allowed| allowed.contains(turn.cpu));
            if let Some(allowed) = allowed
                && self.sleep_until(window.begin - RUN_UP / 2 + step * number)
                && kernel.set_affinity(Tid(0), &CpuSet::single(turn.cpu)).is_ok()
            {
                let _ = kernel.set_affinity(Tid(0), &allowed);
            }
        }
        Some(window)
    }

    /// Says what a thread of ours still has when it is done: a moment later nobody can ask for it.
    pub fn leave(&self) {
        let kernel = RealKernel::new();
        if let Ok(state) = ThreadState::read(&kernel, Tid(0)) {
            self.left.lock().unwrap_or_else(PoisonError::into_inner).push((thread::own_tid(), state));
        }
    }

    /// What the threads had that are done, since this was last asked.
    pub fn take_left(&self) -> Vec<(Tid, ThreadState)> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the run was ended before its time.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Whether a thread should stop now: given up, or at the end.
    pub fn is_over(&self, window: &Window, now: Nanos) -> bool {
        now >= window.end || self.is_stopped()
    }

    /// Sleeps until an instant, looking at the stop flag at least every 50 ms; false when the run was given up. For an instant that
    /// has passed the kernel is not asked: it would set a timer and take its interrupt.
    pub fn sleep_until(&self, instant: Nanos) -> bool {
        const LOOK: Nanos = Nanos::from_millis(50);
        loop {
            if self.is_stopped() {
                return false;
            }
            let now = clock::monotonic();
            if now >= instant {
                return true;
            }
            // The last stretch is one sleep to the exact instant: every earlier wake-up ends well before it.
            let next = if instant - now > LOOK * 2 { now + LOOK } else { instant };
            if clock::sleep_until(next, None).is_err() {
                return false;
            }
            if next == instant {
                return !self.is_stopped();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;
    use surety_model::reservation::Reservation;
    use surety_model::workload::Task;
    use surety_units::CpuId;

    /// 140 ms in 700 with the deadline at 200, released 100 ms after it was reserved: every job of 130 ms took 660 ms.
    #[test]
    fn a_deadline_before_the_periods_end_is_released_in_step() {
        let of = |runtime, deadline, period| {
            let [runtime, deadline, period] = [runtime, deadline, period].map(Nanos::from_millis);
            let mut task = Task::periodic("t", period, TimeDistribution::Constant(runtime));
            task.reservation = Some(Reservation { deadline, ..Reservation::implicit(runtime, period) });
            run_up(&Workload { tasks: vec![task], ..Workload::default() })
        };
        assert_eq!(of(140, 200, 700), Nanos::from_millis(725));
        assert_eq!(of(140, 700, 700), RUN_UP, "one with its deadline there begins anew whenever it wakes");
        assert_eq!(of(5, 10, 20), RUN_UP);
    }

    #[test]
    fn a_run_begins_at_its_place_between_two_ticks() {
        let ms = Nanos::from_millis;
        for (earliest, phase, begin) in [(100, 1, 103), (103, 1, 103), (104, 1, 107), (100, 0, 100)] {
            assert_eq!(Window::aligned_begin(ms(earliest), ms(4), ms(phase)), ms(begin));
        }
    }

    /// Where the calling thread runs, the 39th word of its state.
    fn own_cpu() -> CpuId {
        let state = std::fs::read_to_string("/proc/thread-self/stat").expect("one's own");
        let (_, behind_name) = state.rsplit_once(')').expect("a name");
        CpuId(behind_name.split_whitespace().nth(36).and_then(|word| word.parse().ok()).expect("a number"))
    }

    /// Each thread is on its CPU when it goes to sleep, and may use all that it could before. Others may have it moved in that
    /// instant: once in three times it is there.
    #[test]
    fn threads_sleep_on_the_cpus_of_their_turns() {
        let allowed = RealKernel::new().affinity(Tid(0)).expect("one's own");
        let cpus: Vec<CpuId> = allowed.iter().collect();
        let goes_there = |number: usize| {
            let gate = Arc::new(Gate::default());
            let turn = Turn { number, of: cpus.len(), cpu: cpus[number] };
            let waiting = {
                let gate = Arc::clone(&gate);
                std::thread::spawn(move || {
                    gate.wait_on(Some(turn));
                    (own_cpu(), RealKernel::new().affinity(Tid(0)).expect("one's own"))
                })
            };
            gate.open(Window::new(clock::monotonic() + RUN_UP / 2, Nanos::ZERO, Nanos::SECOND));
            let (cpu, after) = waiting.join().expect("it ends");
            assert_eq!(after, allowed);
            cpu == turn.cpu
        };
        for (number, cpu) in cpus.iter().enumerate() {
            assert!((0..3).any(|_| goes_there(number)), "CPU {cpu}");
        }
    }

    #[test]
    fn the_gate_lets_through_or_sends_home() {
        let gate = Arc::new(Gate::default());
        let waiting = {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || gate.wait())
        };
        let window = Window::new(Nanos::new(5), Nanos::new(10), Nanos::new(100));
        gate.open(window);
        assert_eq!(waiting.join().unwrap(), Some(window));
        assert_eq!(window.observed(), Nanos::new(100));
        gate.stop();
        assert_eq!(gate.wait(), None);
        assert!(!gate.sleep_until(Nanos::MAX));
    }
}
