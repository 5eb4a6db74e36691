//! [`RootDomain`]: what the kernel will answer to `sched_setattr(SCHED_DEADLINE)`, to the last bit.
//!
//! Follows `__checkparam_dl`, `sched_dl_overflow` and `__dl_overflow` in `kernel/sched/deadline.c` and the
//! affinity rule of `__sched_setscheduler` in `kernel/sched/syscalls.c`, in the kernel's order: parameters
//! (`EINVAL`), then affinity (`EPERM`), then bandwidth (`EBUSY`). Bandwidths are 20-bit fixed point, each
//! rounded down:
//!
//! ```text
//! runtime * 2^20 / period + admitted + servers of all CPUs  <=  cap of all CPUs
//! ```
//!
//! where the cap of `cpus` CPUs is `cap * capacity / 2^10`, capacity the sum of what the kernel gives each CPU (1024 for
//! the fastest; `dl_bw_capacity`, `cap_scale`). With the defaults the cap is 996147 (95 %) and the fair server 52428 (5 %): tasks may reserve 90 % of each
//! CPU; 6.12 charges no fair server, and they may reserve 95 %. The kernel compares runtime / period, not runtime / deadline: an admitted set with deadlines below
//! the periods may still miss them ([`crate::edf`] decides that).

pub mod request;

use surety_model::platform::Platform;
use surety_model::reservation::{Reservation, ReservationError};
use surety_units::bandwidth::KERNEL_BANDWIDTH_SHIFT;
use surety_units::{CpuSet, Nanos};
use thiserror::Error;

pub use request::{Request, RequestError};

/// The kernel's capacity of the fastest CPU (`SCHED_CAPACITY_SCALE`).
const FULL_CAPACITY: u64 = 1 << 10;

/// The CPUs over which the kernel admits deadline tasks as one pool, with what is booked on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootDomain {
    pub span: CpuSet,
    /// The sum of its CPUs' capacities in 1/1024 of the fastest: 1024 each where all are alike.
    pub capacity: u64,
    /// What each CPU of full capacity may give deadline tasks, in kernel units; [`RootDomain::UNLIMITED`] where
    /// `sched_rt_runtime_us` is -1.
    pub cap: u64,
    /// What servers of all its CPUs book, in kernel units: those of fair threads, which are not charged on 6.12, and of sched_ext.
    pub servers: u64,
    /// Whose these are, in words: `fair servers`.
    pub servers_in_words: &'static str,
    /// What deadline tasks have booked already, in kernel units.
    pub admitted: u64,
}

/// Why the kernel would refuse, in words, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// `EINVAL`.
    #[error("the kernel would refuse with EINVAL: {0}; change the parameter named")]
    Parameters(#[from] ReservationError),
    /// `EINVAL`, for what only a raw request can hold.
    #[error("the kernel would refuse with EINVAL: {0}")]
    Request(#[from] RequestError),
    /// `EPERM`: not allowed to ask.
    #[error(
        "the kernel would refuse with EPERM: only a process with CAP_SYS_NICE may set SCHED_DEADLINE; run it as root or \
         give it that capability"
    )]
    Privilege,
    /// `EPERM`: deadline bandwidth is switched off.
    #[error(
        "the kernel would refuse with EPERM: sched_rt_runtime_us is 0, which leaves deadline threads nothing; set it to \
         950000"
    )]
    Disabled,
    /// `EPERM`.
    #[error(
        "the kernel would refuse with EPERM: the thread may run on CPUs {affinity} but deadline threads are admitted \
         for all of {span} at once; let it run on all of them, or give it a cpuset partition of its own"
    )]
    Affinity {
        /// Where the thread may run.
        affinity: Box<CpuSet>,
        /// The root domain.
        span: Box<CpuSet>,
    },
    /// `EBUSY`.
    #[error(
        "{}; at most {} in each {} would be admitted",
        too_much(*.asked, *.admitted, *.available, (*.cpus, *.servers)), .largest.to_exact_string(), .period.to_exact_string()
    )]
    Bandwidth {
        /// Bandwidth asked for, kernel units.
        asked: u64,
        /// Booked by tasks, kernel units.
        admitted: u64,
        /// What tasks may book in all, kernel units.
        available: u64,
        /// CPUs of the root domain.
        cpus: usize,
        /// Whose servers are deducted from what there is, in words; empty: nobody's.
        servers: &'static str,
        /// Largest runtime that would be admitted.
        largest: Nanos,
        period: Nanos,
    },
}

impl AdmissionError {
    /// Why, without what would be admitted: for whoever has looked for what is feasible.
    pub fn reason(&self) -> String {
        match self {
            AdmissionError::Bandwidth { asked, admitted, available, cpus, servers, .. } => {
                too_much(*asked, *admitted, *available, (*cpus, *servers))
            }
            other => other.to_string(),
        }
    }

    /// The number the system call would set `errno` to.
    pub fn errno(&self) -> i32 {
        match self {
            AdmissionError::Parameters(_) | AdmissionError::Request(_) => 22,
            AdmissionError::Affinity { .. } | AdmissionError::Privilege | AdmissionError::Disabled => 1,
            AdmissionError::Bandwidth { .. } => 16,
        }
    }
}

/// What is asked for beside what is admitted and what there is, in percent of a CPU with as many decimals as show which is more.
fn too_much(asked: u64, admitted: u64, available: u64, (cpus, servers): (usize, &str)) -> String {
    let part = |units: u64| units as f64 / (1u64 << KERNEL_BANDWIDTH_SHIFT) as f64 * 100.0;
    let shown = |units: u64, decimals: usize| (part(units) * 10f64.powi(decimals as i32)).round();
    let is_seen =
        |decimals: &usize| shown(asked, *decimals) + shown(admitted, *decimals) > shown(available, *decimals);
    // Six tell units of 2^-20 apart.
    let decimals = (2..6).find(is_seen).unwrap_or(6);
    let percent = |units: u64| format!("{:.decimals$} %", part(units));
    format!(
        "the kernel would refuse with EBUSY: {} more on top of {} admitted exceeds {} ({cpus} CPU{}{}{servers}{})",
        percent(asked),
        percent(admitted),
        percent(available),
        if cpus == 1 { "" } else { "s" },
        if servers.is_empty() { "" } else { ", " },
        if servers.is_empty() { "" } else { " deducted" }
    )
}

impl RootDomain {
    /// The cap where the kernel checks neither affinity nor bandwidth.
    pub const UNLIMITED: u64 = u64::MAX;

    /// All CPUs of a platform with nothing admitted but what others have reserved on it.
    pub fn of(platform: &Platform) -> RootDomain {
        let servers = platform.booked_for_servers();
        RootDomain {
            span: CpuSet::first(platform.cpus),
            capacity: u64::from(platform.cpus) * FULL_CAPACITY,
            cap: platform.admitted_per_cpu().unwrap_or(RootDomain::UNLIMITED),
            servers,
            servers_in_words: platform.servers_in_words(),
            admitted: platform.others.iter().fold(0, |sum, other| {
                let each = other.reservation.bandwidth().to_kernel();
                each.saturating_mul(u64::from(other.threads)).saturating_add(sum)
            }),
        }
    }

    /// The same, of which whole CPUs are shared out where the kernel sets no limit.
    pub fn to_share(platform: &Platform) -> RootDomain {
        RootDomain { cap: platform.deadline_cap.to_kernel(), ..RootDomain::of(platform) }
    }

    /// What tasks may book in all, kernel units: the cap of every CPU without its servers.
    pub fn available(&self) -> u64 {
        if self.cap == RootDomain::UNLIMITED {
            return u64::MAX;
        }
        let all = (u128::from(self.cap) * u128::from(self.capacity)) >> FULL_CAPACITY.ilog2();
        u64::try_from(all.saturating_sub(u128::from(self.servers))).unwrap_or(u64::MAX)
    }

    /// What is not booked yet, kernel units.
    pub fn free(&self) -> u64 {
        self.available().saturating_sub(self.admitted)
    }

    /// The largest runtime the kernel would admit with this period; may be below what it takes at all.
    pub fn largest_runtime(&self, period: Nanos) -> Nanos {
        // runtime * 2^20 / period, rounded down, is at most `free` up to runtime = ((free + 1) * period - 1)
        // / 2^20.
        let wide = (u128::from(self.free()) + 1) * u128::from(period.get_unsigned());
        let runtime = wide.saturating_sub(1) >> KERNEL_BANDWIDTH_SHIFT;
        Nanos::new(i64::try_from(runtime).unwrap_or(i64::MAX)).min(period)
    }

    /// What the kernel would answer, without booking: the bandwidth in kernel units, or its refusal.
    pub fn check(&self, reservation: &Reservation, affinity: &CpuSet) -> Result<u64, AdmissionError> {
        reservation.check()?;
        self.check_permission(affinity)?;
        self.check_bandwidth(reservation, 0)
    }

    /// `EPERM` of a thread that may not run everywhere, or where nothing may be booked.
    fn check_permission(&self, affinity: &CpuSet) -> Result<(), AdmissionError> {
        if self.cap == RootDomain::UNLIMITED {
            return Ok(());
        }
        if !self.span.is_subset(affinity) {
            return Err(AdmissionError::Affinity {
                affinity: Box::new(*affinity),
                span: Box::new(self.span),
            });
        }
        if self.cap == 0 { Err(AdmissionError::Disabled) } else { Ok(()) }
    }

    /// `EBUSY`; `old`: what the thread has booked itself.
    fn check_bandwidth(&self, reservation: &Reservation, old: u64) -> Result<u64, AdmissionError> {
        let asked = reservation.bandwidth().to_kernel();
        let others = RootDomain { admitted: self.admitted.saturating_sub(old), ..self.clone() };
        if asked > others.free() {
            return Err(AdmissionError::Bandwidth {
                asked,
                admitted: others.admitted,
                available: others.available(),
                cpus: others.span.len(),
                servers: if others.servers > 0 { others.servers_in_words } else { "" },
                largest: others.largest_runtime(reservation.period),
                period: reservation.period,
            });
        }
        Ok(asked)
    }

    /// Books a reservation of a thread that may run on every CPU, or says why the kernel would not.
    pub fn admit(&mut self, reservation: &Reservation) -> Result<(), AdmissionError> {
        let span = self.span;
        self.admitted += self.check(reservation, &span)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(runtime: i64, period: i64) -> Reservation {
        Reservation::implicit(Nanos::new(runtime), Nanos::new(period))
    }

    #[test]
    fn two_cpus_admit_what_the_running_kernel_admitted() {
        // Measured on 6.18 with two CPUs: 0.900 + 0.900 accepted, 0.900 + 0.905 EBUSY.
        let domain = RootDomain::of(&Platform::linux_6_18(2));
        for (second, errno) in [(90_000_000, None), (90_500_000, Some(16))] {
            let mut domain = domain.clone();
            domain.admit(&of(90_000_000, 100_000_000)).unwrap();
            let answer = domain.admit(&of(second, 100_000_000));
            assert_eq!(answer.err().map(|e| e.errno()), errno, "{second}");
        }
    }

    /// Measured on 6.12 with one CPU: 95.0 % accepted, 95.1 % EBUSY, although its fair server acts.
    #[test]
    fn a_fair_server_that_is_not_charged_leaves_all_of_the_cap() {
        for (runtime, errno) in [(95_000_000, None), (95_100_000, Some(16))] {
            let mut domain = RootDomain::of(&Platform::linux_6_12(1));
            let answer =
                domain.admit(&of(runtime, 100_000_000)).map_err(|error| (error.errno(), error.to_string()));
            assert_eq!(answer.as_ref().err().map(|(errno, _)| *errno), errno, "{runtime}");
            assert!(answer.err().is_none_or(|(_, words)| !words.contains("deducted")));
        }
    }

    /// Measured on 7.2.13 with one CPU and no scheduler of BPF: 94.8 % accepted, 95.1 % EBUSY, though it has a server of sched_ext. 7.1 books
    /// that from the boot on.
    #[test]
    fn the_server_of_sched_ext_leaves_less_where_it_is_booked() {
        for (release, runtime, errno) in [
            ("7.2.13", 94_800_000, None),
            ("7.2.13", 95_100_000, Some(16)),
            ("7.1.0", 90_000_000, None),
            ("7.1.0", 90_100_000, Some(16)),
            ("7.0.0", 85_000_000, None),
            ("7.0.0", 85_100_000, Some(16)),
        ] {
            let mut domain = RootDomain::of(&Platform::of_release(release, 1));
            let answer =
                domain.admit(&of(runtime, 100_000_000)).map_err(|error| (error.errno(), error.to_string()));
            assert_eq!(answer.as_ref().err().map(|(errno, _)| *errno), errno, "{release} {runtime}");
            let whose = if release == "7.2.13" { "CPU, fair servers" } else { "CPU, fair and ext servers" };
            assert!(answer.err().is_none_or(|(_, words)| words.contains(whose)), "{release}");
        }
    }

    #[test]
    fn refusals_come_in_the_kernels_order_and_say_what_to_do() {
        let domain = RootDomain::of(&Platform::linux_6_18(2));
        let one = CpuSet::first(1);
        let both = CpuSet::first(2);
        for (runtime, affinity, errno, word) in [
            (1023, one, 22, "1024ns"),
            (1_000_000, one, 1, "0-1"),
            (10_000_000, both, 0, ""),
            (1_000_000, both, 0, ""),
        ] {
            match domain.check(&of(runtime, 10_000_000), &affinity) {
                Ok(_) => assert_eq!(errno, 0),
                Err(error) => {
                    assert_eq!(error.errno(), errno);
                    assert!(error.to_string().contains(word), "{error}");
                }
            }
        }
        let full = RootDomain { admitted: domain.available(), ..domain };
        let busy = full.check(&of(1_000_000, 10_000_000), &both).unwrap_err();
        assert_eq!(busy.errno(), 16);
        assert!(busy.to_string().contains("180.00 %"), "{busy}");
        // A ratio below the kernel's resolution is always admitted.
        assert_eq!(full.check(&of(1024, 4_194_304_000), &both), Ok(0));
    }

    /// A log of a kernel with two CPUs of 446 and 1024: cap 996147, capacity 446 alone gives 433868 (`cap_scale`).
    #[test]
    fn slower_cpus_count_for_less() {
        let little = RootDomain { capacity: 446, servers: 0, ..RootDomain::of(&Platform::linux_6_18(1)) };
        assert_eq!((little.cap, little.available()), (996_147, 433_868));
        let both = RootDomain { capacity: 446 + 1024, ..RootDomain::of(&Platform::linux_6_18(2)) };
        assert_eq!(both.available(), ((996_147 * 1_470) >> 10) - 2 * 52_428);
        assert!(both.check(&of(90_000_000, 100_000_000), &both.span).is_ok());
        let mut full = both.clone();
        full.admit(&of(90_000_000, 100_000_000)).unwrap();
        assert_eq!(full.admit(&of(90_000_000, 100_000_000)).unwrap_err().errno(), 16);
    }

    #[test]
    fn limits_switched_off_or_down_to_nothing() {
        let domain = RootDomain::of(&Platform::linux_6_18(2));
        let off = RootDomain { cap: RootDomain::UNLIMITED, ..domain.clone() };
        assert!(off.check(&of(100_000_000, 100_000_000), &CpuSet::first(1)).is_ok());
        let none = RootDomain { cap: 0, ..domain };
        let error = none.check(&of(1_000_000, 100_000_000), &none.span).unwrap_err();
        assert_eq!((error.errno(), error), (1, AdmissionError::Disabled));
    }

    proptest! {
        #[test]
        fn the_largest_runtime_is_admitted_and_one_more_is_not(
            admitted in 0u64..1_700_000, period in 1_000_000i64..4_194_304_000,
        ) {
            let domain = RootDomain { admitted, ..RootDomain::of(&Platform::linux_6_18(2)) };
            let largest = domain.largest_runtime(Nanos::new(period));
            prop_assume!(largest >= Nanos::new(1024));
            prop_assert!(domain.check(&of(largest.get(), period), &domain.span).is_ok());
            if largest.get() < period {
                let more = domain.check(&of(largest.get() + 1, period), &domain.span);
                prop_assert_eq!(more.unwrap_err().errno(), 16);
            }
        }

        #[test]
        fn what_is_admitted_never_exceeds_what_is_available(
            runtimes in proptest::collection::vec(1_000_000i64..90_000_000, 1..20),
        ) {
            let mut domain = RootDomain::of(&Platform::linux_6_18(2));
            for runtime in runtimes {
                let _ = domain.admit(&of(runtime, 100_000_000));
                prop_assert!(domain.admitted <= domain.available());
            }
        }
    }
}
