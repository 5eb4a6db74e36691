//! [`Tick`]: what kernels keep in jiffies is known to them by the tick.

use surety_units::Nanos;

/// The time between two ticks; there is one at 0.
#[derive(Clone, Copy, Debug)]
pub struct Tick(Nanos);

impl Tick {
    /// Of a kernel with this `HZ`.
    pub fn at(hz: u32) -> Tick {
        Tick(Nanos::new(1_000_000_000 / i64::from(hz.max(1))))
    }

    /// The length of `count` ticks.
    pub fn of(self, count: i64) -> Nanos {
        Nanos::new(self.0.get() * count)
    }

    /// Ticks until an instant (`jiffies`).
    pub fn number(self, now: Nanos) -> i64 {
        now.get() / self.0.get()
    }

    /// The tick at an instant, or before it; a time in whole ticks, rounded down.
    pub fn before(self, now: Nanos) -> Nanos {
        self.of(self.number(now))
    }

    /// A time in whole ticks, rounded up (`msecs_to_jiffies`).
    pub fn up(self, time: Nanos) -> Nanos {
        self.of((time.get() + self.0.get() - 1) / self.0.get())
    }

    /// When a timer set now for this time expires: one tick later than it says, for it is not early by what is left of the tick it was set in
    /// (`calc_index` in `kernel/time/timer.c`).
    pub fn timer(self, now: Nanos, time: Nanos) -> Nanos {
        self.before(now) + self.up(time) + self.0
    }
}
