//! [`ShareMeter`]: the CPU time a thread gets inside the observed window, read by the thread itself.
//!
//! A thread's CPU time stands still while it does not run, so a reading taken when it next runs after a border is
//! the reading at the border, however late it comes.

use surety_kernel::{clock, thread};
use surety_units::Nanos;

use crate::window::Window;

/// CPU time and the longest gap of one thread inside a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareMeter {
    window: Window,
    at_observe: Option<(Nanos, Option<Nanos>)>,
    last_look: Nanos,
    longest_gap: Nanos,
}

impl ShareMeter {
    /// A meter for the calling thread.
    pub fn new(window: Window) -> ShareMeter {
        ShareMeter { window, at_observe: None, last_look: Nanos::MAX, longest_gap: Nanos::ZERO }
    }

    /// Notes that the thread runs at `now`. Gaps between successive looks count when the thread is busy all the
    /// time; whoever sleeps calls [`ShareMeter::slept`] before the next look.
    pub fn look(&mut self, now: Nanos) {
        if now < self.window.observe {
            return;
        }
        if self.at_observe.is_none() {
            self.at_observe = Some((clock::thread_cpu_time(), thread::own_wait_time()));
        }
        let gap = now - self.last_look.min(now);
        if gap > self.longest_gap {
            self.longest_gap = gap;
        }
        self.last_look = now;
    }

    /// The time until the next look is sleep, no gap.
    pub fn slept(&mut self) {
        self.last_look = Nanos::MAX;
    }

    /// What the thread got inside the window.
    pub fn finish(self) -> Metered {
        let Some((cpu, waited)) = self.at_observe else { return Metered::default() };
        let run = (clock::thread_cpu_time() - cpu).min(self.window.observed());
        let waited = thread::own_wait_time().zip(waited).map(|(end, start)| end - start);
        Metered { run, waited, longest_gap: self.longest_gap }
    }
}

/// What a thread got inside the observed window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metered {
    /// CPU time.
    pub run: Nanos,
    /// Time it wanted a CPU and had none, where the kernel counts that.
    pub waited: Option<Nanos>,
    /// Longest time between two looks.
    pub longest_gap: Nanos,
}
