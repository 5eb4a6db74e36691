//! [`ShareMeter`]: the CPU time a thread gets inside the observed window, read by the thread itself.
//!
//! A thread's CPU time stands still while it does not run, so a reading taken when it next runs after a border is
//! the reading at the border, however late it comes.

use surety_kernel::clock;
use surety_units::Nanos;

use crate::window::Window;

/// CPU time and the longest gap of one thread inside a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareMeter {
    window: Window,
    cpu_at_observe: Option<Nanos>,
    last_look: Nanos,
    longest_gap: Nanos,
}

impl ShareMeter {
    /// A meter for the calling thread.
    pub fn new(window: Window) -> ShareMeter {
        ShareMeter { window, cpu_at_observe: None, last_look: Nanos::MAX, longest_gap: Nanos::ZERO }
    }

    /// Notes that the thread runs at `now`. Gaps between successive looks count when the thread is busy all the
    /// time; whoever sleeps calls [`ShareMeter::slept`] before the next look.
    pub fn look(&mut self, now: Nanos) {
        if now < self.window.observe {
            return;
        }
        if self.cpu_at_observe.is_none() {
            self.cpu_at_observe = Some(clock::thread_cpu_time());
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

    /// CPU time inside the window, and the longest gap seen.
    pub fn finish(self) -> (Nanos, Nanos) {
        let used = self.cpu_at_observe.map_or(Nanos::ZERO, |start| clock::thread_cpu_time() - start);
        (used.min(self.window.observed()), self.longest_gap)
    }
}
