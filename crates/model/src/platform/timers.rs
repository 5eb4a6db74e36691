//! [`TimerRules`]: how timers of threads expire, and whether the tick of an idle CPU stops.

use serde::{Deserialize, Serialize};
use surety_units::Nanos;

/// Rules of `kernel/time/hrtimer.c` and `tick-sched.c` that a simulated machine can have otherwise. The default is that of a machine of
/// which nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimerRules {
    /// How much later than asked a sleep of a thread may end that says nothing of it (PR_SET_TIMERSLACK). Realtime and deadline threads
    /// have none.
    pub slack: Nanos,
    /// Timers expire at their time (CONFIG_HIGH_RES_TIMERS); else on the first tick from then on.
    pub high_resolution: bool,
    /// An idle CPU has no ticks (NO_HZ_IDLE).
    pub stops_idle_tick: bool,
    /// It has the first one still: the tick stops when one has come while the CPU was idle (`cpuidle_idle_call` in `kernel/sched/idle.c`
    /// since f4c31b07b136, without a cpuidle driver).
    pub idle_tick_comes_once: bool,
}

impl TimerRules {
    /// The most that a thread may ask for here.
    pub const SLACK_MAX: Nanos = Nanos::from_secs(1);
}

impl Default for TimerRules {
    fn default() -> TimerRules {
        TimerRules {
            slack: Nanos::ZERO,
            high_resolution: true,
            stops_idle_tick: true,
            idle_tick_comes_once: false,
        }
    }
}
