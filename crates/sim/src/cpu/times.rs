//! [`Times`]: the times that stand in the kernel's code and that no platform sets.
//!
//! They are here, and nowhere else, so that a machine on which every time is `k` times as long is one whose schedule is the
//! same `k` times as long (`tests/metamorphic.rs`). Times of balancing between CPUs stand with it.

use surety_model::activation::RUN_UP;
use surety_units::Nanos;

/// Times of the kernel's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The shortest slice that a fair thread may ask for (`sched_attr::sched_runtime`).
    pub slice_min: Nanos,
    /// The longest one.
    pub slice_max: Nanos,
    /// The least time for which a timer is set to the end of a slice (`hrtick_start`).
    pub slice_timer_min: Nanos,
    /// The longest latency of the fair class of 2.6.23 (`sched_init_granularity`).
    pub latency_max: Nanos,
    /// How much a thread of `SCHED_BATCH` must be before the running one there (`sched_batch_wakeup_granularity`).
    pub batch_granularity: Nanos,
    /// A fair server's timer is set forward only by at least this much (`dl_server_min_res`).
    pub server_resolution: Nanos,
    /// How long before the run threads are made: a period of realtime throttling has lasted that long.
    pub made_before: Nanos,
}

impl Times {
    /// The kernel's.
    pub const KERNEL: Times = Times {
        slice_min: Nanos::from_micros(100),
        slice_max: Nanos::from_millis(100),
        slice_timer_min: Nanos::from_micros(10),
        latency_max: Nanos::from_millis(100),
        batch_granularity: Nanos::from_millis(25),
        server_resolution: Nanos::from_millis(1),
        made_before: RUN_UP,
    };

    /// Each of them times a factor.
    pub fn scaled(self, factor: i64) -> Times {
        Times {
            slice_min: self.slice_min * factor,
            slice_max: self.slice_max * factor,
            slice_timer_min: self.slice_timer_min * factor,
            latency_max: self.latency_max * factor,
            batch_granularity: self.batch_granularity * factor,
            server_resolution: self.server_resolution * factor,
            made_before: self.made_before * factor,
        }
    }
}
