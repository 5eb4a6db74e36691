//! [`Request`]: everything `sched_setattr(SCHED_DEADLINE)` is given, and the kernel's answer to it in its own order.
//!
//! `__sched_setscheduler` in `kernel/sched/syscalls.c`: unknown flags and wrong parameters (`EINVAL`), privilege
//! (`EPERM`), a thread that has exactly these parameters already (0, nothing else is looked at), affinity
//! (`EPERM`), bandwidth (`EBUSY`). Parameters are unsigned, a period of 0 stands for the deadline, and the sign bit must
//! be clear (`__checkparam_dl`). Changing a thread that is in the class already gives back what it had; asking for the
//! same bandwidth again always succeeds.

use surety_model::reservation::Reservation;
use surety_units::{CpuSet, Nanos};
use thiserror::Error;

use crate::admission::{AdmissionError, RootDomain};

/// Flags the kernel knows (`SCHED_FLAG_ALL`): reset on fork, reclaim, overrun signal, keep policy and parameters,
/// utilisation clamps.
pub const FLAGS_KNOWN: u64 = 0x7f;

/// What the system call is given, and who gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `sched_runtime`, ns.
    pub runtime: u64,
    /// `sched_deadline`, ns.
    pub deadline: u64,
    /// `sched_period`, ns; 0 stands for the deadline.
    pub period: u64,
    /// `sched_flags`.
    pub flags: u64,
    /// `sched_priority`, which has to be 0.
    pub priority: u32,
    /// Whether the caller has `CAP_SYS_NICE`.
    pub privileged: bool,
    /// Where the thread may run.
    pub affinity: CpuSet,
    /// What the thread has already, if it is in the class.
    pub current: Option<Reservation>,
}

/// Why the kernel takes parameters for invalid, beyond the rules of [`Reservation::check`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Flags no kernel knows.
    #[error("flags {0:#x} are not known to it; clear them")]
    Flags(u64),
    /// A priority beside a deadline.
    #[error("priority {0} is given, and deadline threads have none; set it to 0")]
    Priority(u32),
    /// No deadline.
    #[error("the deadline is 0; give one between the runtime and the period")]
    NoDeadline,
    /// A time with the sign bit.
    #[error("{what} {value} has its highest bit set; take one below 2^63 ns")]
    SignBit {
        what: &'static str,
        /// As given.
        value: u64,
    },
}

impl Request {
    /// By a privileged process, for a thread that is not in the class yet.
    pub fn of(reservation: &Reservation, affinity: CpuSet) -> Request {
        const RECLAIM: u64 = 2;
        Request {
            runtime: reservation.runtime.get_unsigned(),
            deadline: reservation.deadline.get_unsigned(),
            period: reservation.period.get_unsigned(),
            flags: if reservation.reclaim { RECLAIM } else { 0 },
            priority: 0,
            privileged: true,
            affinity,
            current: None,
        }
    }

    /// The parameters as a reservation, or the first rule they break.
    fn parameters(&self) -> Result<Reservation, AdmissionError> {
        if self.flags & !FLAGS_KNOWN != 0 {
            return Err(RequestError::Flags(self.flags & !FLAGS_KNOWN).into());
        }
        if self.deadline == 0 {
            return Err(RequestError::NoDeadline.into());
        }
        let named = [("deadline", self.deadline), ("period", self.period), ("runtime", self.runtime)];
        if let Some((what, value)) = named.into_iter().find(|(_, value)| *value >> 63 != 0) {
            // A runtime with that bit is above every deadline without it, which is as invalid.
            return Err(RequestError::SignBit { what, value }.into());
        }
        let time = |ns: u64| Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX));
        let period = if self.period == 0 { self.deadline } else { self.period };
        let reservation = Reservation {
            deadline: time(self.deadline),
            ..Reservation::implicit(time(self.runtime), time(period))
        };
        reservation.check()?;
        if self.priority != 0 {
            return Err(RequestError::Priority(self.priority).into());
        }
        Ok(reservation)
    }
}

impl RootDomain {
    /// What the kernel would answer: the bandwidth the thread would then have booked, in kernel units, or the refusal
    /// in words. Nothing is booked.
    pub fn answer(&self, request: &Request) -> Result<u64, AdmissionError> {
        let reservation = request.parameters()?;
        if !request.privileged {
            return Err(AdmissionError::Privilege);
        }
        let asked = reservation.bandwidth().to_kernel();
        // `dl_param_changed` compares what is given: a period of 0 is another one than the deadline it stands for.
        let same = |r: &Reservation| {
            (r.runtime, r.deadline) == (reservation.runtime, reservation.deadline)
                && r.period.get_unsigned() == request.period
                && r.reclaim == (request.flags & 2 != 0)
        };
        if request.current.as_ref().is_some_and(same) {
            return Ok(asked);
        }
        self.check_permission(&request.affinity)?;
        let old = request.current.map(|r| r.bandwidth().to_kernel());
        if old == Some(asked) {
            return Ok(asked);
        }
        self.check_bandwidth(&reservation, old.unwrap_or(0))
    }

    /// The number the system call would return: 0, or `errno`.
    pub fn errno(&self, request: &Request) -> i32 {
        self.answer(request).map_or_else(|error| error.errno(), |_| 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::platform::Platform;

    fn ms(q: u64, d: u64, t: u64) -> Request {
        Request {
            runtime: q * 1_000_000,
            deadline: d * 1_000_000,
            period: t * 1_000_000,
            flags: 0,
            priority: 0,
            privileged: true,
            affinity: CpuSet::first(2),
            current: None,
        }
    }

    /// Every way to be refused, in the kernel's order, on two CPUs of 6.18 with 0.9 of a CPU booked.
    #[test]
    fn every_answer_of_the_kernel() {
        let domain = RootDomain { admitted: 943_718, ..RootDomain::of(&Platform::linux_6_18(2)) };
        let ns = |runtime, deadline, period| Request { runtime, deadline, period, ..ms(0, 0, 0) };
        let held = |q: i64| Some(Reservation::implicit(Nanos::from_millis(q), Nanos::from_millis(100)));
        for (request, errno, word) in [
            (ms(10, 100, 100), 0, ""),
            (ms(90, 100, 100), 0, ""),
            (ms(91, 100, 100), 16, "at most 90000247ns"),
            // A period of 0 is the deadline's.
            (ms(10, 100, 0), 0, ""),
            (ms(10, 0, 100), 22, "deadline is 0"),
            (ms(10, 0, 0), 22, "deadline is 0"),
            (ns(1_023, 1_000_000, 1_000_000), 22, "1023ns"),
            (ns(1_024, 1_000_000, 1_000_000), 0, ""),
            (ns(50_000, 99_999, 99_999), 22, "99999ns"),
            (ns(50_000, 100_000, 100_000), 0, ""),
            (ns(1_000_000, 4_194_304_000, 4_194_304_000), 0, ""),
            (ns(1_000_000, 4_194_304_001, 4_194_304_001), 22, "4194304001ns"),
            (ns(1_000_000, 4_194_304_000, 4_194_304_001), 22, "4194304001ns"),
            (ms(50, 40, 100), 22, "longer than the deadline"),
            (ms(50, 120, 100), 22, "longer than the period"),
            (ns(1 << 63, 1 << 62, 1 << 62), 22, "runtime 9223372036854775808"),
            (ns(1_024, 1 << 63, 0), 22, "deadline 9223372036854775808"),
            (ns(1_024, 1_000_000, u64::MAX), 22, "period 18446744073709551615"),
            (Request { flags: 0x80, ..ms(10, 100, 100) }, 22, "0x80"),
            (Request { flags: 0x1000_0000, ..ms(10, 100, 100) }, 22, "0x10000000"),
            (Request { flags: 0x7, ..ms(10, 100, 100) }, 0, ""),
            (Request { priority: 1, ..ms(10, 100, 100) }, 22, "priority 1"),
            (Request { privileged: false, ..ms(10, 100, 100) }, 1, "CAP_SYS_NICE"),
            // Parameters come before privilege, privilege before affinity, affinity before bandwidth.
            (Request { privileged: false, ..ms(50, 40, 100) }, 22, "longer"),
            (
                Request { privileged: false, affinity: CpuSet::first(1), ..ms(10, 100, 100) },
                1,
                "CAP_SYS_NICE",
            ),
            (Request { affinity: CpuSet::first(1), ..ms(99, 100, 100) }, 1, "0-1"),
            (Request { affinity: CpuSet::first(4), ..ms(10, 100, 100) }, 0, ""),
            // A thread of the class gives back what it had: 0.9 booked, 0.9 free.
            (Request { current: held(90), ..ms(100, 100, 100) }, 0, ""),
            (Request { current: held(90), affinity: CpuSet::first(1), ..ms(90, 100, 100) }, 0, ""),
            (Request { current: held(90), affinity: CpuSet::first(1), ..ms(45, 50, 50) }, 1, "0-1"),
        ] {
            let answer = domain.answer(&request);
            assert_eq!(domain.errno(&request), errno, "{request:?}: {answer:?}");
            if let Err(error) = answer {
                let text = error.to_string();
                assert!(text.contains(word) && text.len() > 40, "{text} ({word})");
            }
        }
        // Overbooked after CPUs went away: the same bandwidth in another shape is still taken.
        let full = RootDomain { admitted: 3 << 20, ..domain };
        assert_eq!(full.errno(&Request { current: held(90), ..ms(45, 50, 50) }), 0);
        assert_eq!(full.errno(&Request { current: held(90), ..ms(44, 50, 50) }), 16);
    }

    #[test]
    fn a_reservation_asks_for_what_it_says() {
        let domain = RootDomain::of(&Platform::linux_6_18(2));
        let mut reservation = Reservation::implicit(Nanos::from_millis(10), Nanos::from_millis(40));
        reservation.reclaim = true;
        let request = Request::of(&reservation, CpuSet::first(2));
        assert_eq!((request.flags, domain.errno(&request)), (2, 0));
        assert_eq!(domain.answer(&request), domain.check(&reservation, &CpuSet::first(2)));
        let again = Request { current: Some(reservation), affinity: CpuSet::first(1), ..request };
        assert_eq!(domain.errno(&again), 0);
    }
}
