//! [`Reservation`]: guaranteed time on a CPU, `(Q, D, T)`; [`DiskReservation`]: a guaranteed rate from a disk.

use serde::{Deserialize, Serialize};
use surety_units::{Bandwidth, Bytes, Nanos, Rate};
use thiserror::Error;

/// Runtime Q within deadline D in every period T: the parameters of `SCHED_DEADLINE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Q: CPU time in each period.
    pub runtime: Nanos,
    /// D: within this span of the period's start.
    pub deadline: Nanos,
    /// T: one budget in each of these.
    pub period: Nanos,
    /// Takes bandwidth others leave unused (GRUB, `SCHED_FLAG_RECLAIM`).
    #[serde(default)]
    pub reclaim: bool,
    /// Runs on as a fair task when the budget is used up instead of waiting. No kernel offers this today.
    #[serde(default)]
    pub demote: bool,
}

/// Bytes a second from a disk, in batches that are in the buffer before they are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskReservation {
    /// What the application takes or gives.
    pub rate: Rate,
    /// Bytes of one request.
    pub batch: Bytes,
    /// Bytes held for the application.
    pub buffer: Bytes,
    /// What its credit allows beyond a batch, as a time at its rate.
    pub jitter: Nanos,
    /// Whether its next batch is asked for while one is under way, two at a time at most.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overlap: bool,
    /// Level of the real-time I/O class (`IOPRIO_CLASS_RT`), 0 first to 7.
    pub priority: u8,
    /// The longest from wanting a batch until it is there: W, with the CPU's part.
    pub bound: Nanos,
}

/// Shortest period the kernel takes by default (`sched_deadline_period_min_us`).
pub const KERNEL_PERIOD_MIN: Nanos = Nanos::from_micros(100);
/// Longest period the kernel takes by default (`sched_deadline_period_max_us`, 2^22 us).
pub const KERNEL_PERIOD_MAX: Nanos = Nanos::from_micros(1 << 22);
/// Smallest runtime the kernel takes (`1 << DL_SCALE` ns in `kernel/sched/deadline.c`).
pub const KERNEL_RUNTIME_MIN: Nanos = Nanos::new(1024);

/// Why three numbers are no reservation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReservationError {
    /// Q is no time.
    #[error("a reservation without runtime")]
    NoRuntime,
    /// Q below the kernel's granularity.
    #[error("runtime {} is below the kernel's minimum of 1024ns", .0.to_exact_string())]
    RuntimeTooSmall(Nanos),
    /// Q above D.
    #[error("runtime {} is longer than the deadline {}", .runtime.to_exact_string(), .deadline.to_exact_string())]
    RuntimeAboveDeadline {
        /// Q.
        runtime: Nanos,
        /// D.
        deadline: Nanos,
    },
    /// Q above T.
    #[error("runtime {} is longer than the period {}", .runtime.to_exact_string(), .period.to_exact_string())]
    RuntimeAbovePeriod {
        /// Q.
        runtime: Nanos,
        /// T.
        period: Nanos,
    },
    /// D above T.
    #[error("deadline {} is longer than the period {}", .deadline.to_exact_string(), .period.to_exact_string())]
    DeadlineAbovePeriod {
        /// D.
        deadline: Nanos,
        /// T.
        period: Nanos,
    },
    /// T outside what the kernel takes.
    #[error("period {} is outside the kernel's range of 100us to 4194304us", .0.to_exact_string())]
    PeriodOutOfRange(Nanos),
}

impl Reservation {
    /// Q every T with the deadline at the period's end.
    pub fn implicit(runtime: Nanos, period: Nanos) -> Reservation {
        Reservation { runtime, deadline: period, period, reclaim: false, demote: false }
    }

    /// Q/T.
    ///
    /// # Panics
    /// When the period is not positive; [`Reservation::check`] rules that out.
    pub fn bandwidth(&self) -> Bandwidth {
        Bandwidth::of(self.runtime, self.period).expect("a checked reservation has a positive period")
    }

    /// The parameter rules of `__checkparam_dl` in `kernel/sched/deadline.c`, with the default period limits.
    pub fn check(&self) -> Result<(), ReservationError> {
        let (runtime, period) = (self.runtime, self.period);
        if period < KERNEL_PERIOD_MIN || period > KERNEL_PERIOD_MAX {
            return Err(ReservationError::PeriodOutOfRange(period));
        }
        if runtime < KERNEL_RUNTIME_MIN {
            return Err(ReservationError::RuntimeTooSmall(runtime));
        }
        self.check_order()
    }

    /// Those that hold without a kernel's limits: 0 < Q <= D <= T.
    pub fn check_order(&self) -> Result<(), ReservationError> {
        if !self.runtime.is_positive() {
            return Err(ReservationError::NoRuntime);
        }
        let (runtime, deadline, period) = (self.runtime, self.deadline, self.period);
        if runtime > period {
            return Err(ReservationError::RuntimeAbovePeriod { runtime, period });
        }
        if deadline > period {
            return Err(ReservationError::DeadlineAbovePeriod { deadline, period });
        }
        if runtime > deadline {
            return Err(ReservationError::RuntimeAboveDeadline { runtime, deadline });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_parameter_rules() {
        let of = |q, d, t| Reservation {
            runtime: Nanos::new(q),
            deadline: Nanos::new(d),
            period: Nanos::new(t),
            reclaim: false,
            demote: false,
        };
        assert_eq!(of(1024, 100_000, 100_000).check(), Ok(()));
        assert_eq!(of(1024, 4_194_304_000, 4_194_304_000).check(), Ok(()));
        for (q, d, t) in [
            (1023, 100_000, 100_000),
            (1024, 99_999, 99_999),
            (1024, 4_194_304_001, 4_194_304_001),
            (3_000_000, 2_000_000, 4_000_000),
            (3_000_000, 5_000_000, 4_000_000),
            (5_000_000, 4_000_000, 4_000_000),
        ] {
            assert!(of(q, d, t).check().is_err(), "({q}, {d}, {t})");
        }
    }
}
