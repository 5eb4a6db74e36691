//! Clocks, absolute sleeping, and work of an exact amount of CPU time.
//!
//! These are free functions because they are called in measured loops; nothing here allocates or locks.

use std::sync::atomic::{AtomicBool, Ordering};

use surety_units::{Nanos, Tid};

use crate::error::{KernelError, Operation};

fn now(clock: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer. The clocks used below exist on every kernel since 2.6.39,
    // so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    from_timespec(time)
}

fn from_timespec(time: libc::timespec) -> Nanos {
    Nanos::new(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

pub(crate) fn to_timespec(time: Nanos) -> libc::timespec {
    let ns = time.get().max(0);
    libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 }
}

/// The same for calls made through `rustix`.
pub(crate) fn timespec(time: Nanos) -> rustix::time::Timespec {
    let libc::timespec { tv_sec, tv_nsec } = to_timespec(time);
    rustix::time::Timespec { tv_sec, tv_nsec }
}

/// CLOCK_MONOTONIC: stands still while the machine is suspended. No system call where the vDSO serves it.
pub fn monotonic() -> Nanos {
    now(libc::CLOCK_MONOTONIC)
}

/// CPU time the calling thread has used, user and kernel. One system call.
pub fn thread_cpu_time() -> Nanos {
    now(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of a process: all its threads, those that have ended included, to the nanosecond; `None` when there is no
/// such process. Time of its children is not in it.
pub fn process_cpu_time(pid: Tid) -> Option<Nanos> {
    /// The low bits of a process's clock that count what the scheduler counts (`CPUCLOCK_SCHED` of
    /// `include/linux/posix-timers.h`).
    const SCHEDULED: libc::clockid_t = 2;
    // Only for process 0 this would be one of the numbered clocks: the caller's own.
    let clock = (!pid.0 << 3) | SCHEDULED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer; a clock of no process is refused.
    let found = unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
    (found && pid.0 > 0).then(|| from_timespec(time))
}

/// The length of the scheduler's tick, by the resolution of the coarse clock: budgets without a
/// high-resolution timer are enforced on it.
pub fn tick_length() -> Nanos {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `resolution` is a valid place for the answer; the coarse clock exists since 2.6.32.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    from_timespec(resolution)
}

/// To what timers of threads are rounded: 1 ns where they expire at their time, a tick where they wait for it (`hrtimer_resolution`).
pub fn timer_resolution() -> Nanos {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `resolution` is a valid place for the answer; the clock exists since 2.6.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &raw mut resolution) };
    from_timespec(resolution)
}

/// Why [`sleep_until`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The instant came.
    OnTime,
    /// The flag was set when a signal came, or before.
    Cancelled,
}

/// Sleeps until an instant of CLOCK_MONOTONIC; one that has passed returns at once without sleeping.
///
/// A signal restarts the sleep for the same instant unless `cancel` is set by then. Setting the flag alone does
/// not wake the sleeper: send it a signal too, or keep sleeps short.
///
/// # Errors
/// Only what the kernel answers beside EINTR, such as EINVAL for a clock it lacks.
pub fn sleep_until(instant: Nanos, cancel: Option<&AtomicBool>) -> Result<Woken, KernelError> {
    let time = to_timespec(instant);
    loop {
        if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Ok(Woken::Cancelled);
        }
        // SAFETY: `time` is valid over the call; with TIMER_ABSTIME the remaining time is not written.
        let result = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const time,
                std::ptr::null_mut(),
            )
        };
        match result {
            0 => return Ok(Woken::OnTime),
            libc::EINTR => {}
            errno => return Err(KernelError::new(Operation::Sleep, "CLOCK_MONOTONIC", errno)),
        }
    }
}

/// A gap between two looks at the wall clock that may be time without a CPU. A tick or a device interrupt takes
/// less and counts as the thread's own, as the kernel counts it unless it accounts interrupt time apart.
const GAP: Nanos = Nanos::from_micros(20);

/// A gap without leaving the CPU that is longer than an interrupt: the hypervisor may have taken the CPU, which the
/// kernel charges or not (CONFIG_PARAVIRT_TIME_ACCOUNTING).
const STOLEN: Nanos = Nanos::from_micros(100);

/// How often the calling thread has left its CPU to another, or to none. Unlike the thread clock this has the kernel book nothing
/// (`getrusage` in kernel/sys.c reads what was booked last, but with CONFIG_VIRT_CPU_ACCOUNTING_GEN).
pub fn own_switches() -> u64 {
    // SAFETY: `rusage` is plain integers, for which zero bytes are a value; the place is valid over the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    u64::try_from(usage.ru_nvcsw.saturating_add(usage.ru_nivcsw)).unwrap_or(0)
}

/// CPU time of the calling thread that is followed without asking the kernel.
///
/// Reading the thread clock has the kernel book the time used so far, and then a slice or a budget that is used up
/// ends at once and not, as for a program that only computes, on the next tick (`update_curr` from
/// `task_sched_runtime`, kernel/sched/core.c). So the wall clock, which needs no system call, is watched instead, and the thread
/// clock is read in two cases only. After a gap in which the thread left its CPU, it has just got one and next to
/// nothing is booked. After a long one in which it did not, it is read when the work seems to be done: what the
/// kernel books then has been done, and only the thread's way to sleep comes after it.
#[derive(Clone, Copy, Debug)]
pub struct ThreadTime {
    known: Nanos,
    known_at: Nanos,
    last: Nanos,
    switches: u64,
    /// Whether some gap since `known_at` may be no time of the thread.
    doubtful: bool,
}

impl ThreadTime {
    /// Reads both clocks.
    pub fn read() -> ThreadTime {
        let switches = own_switches();
        let known = thread_cpu_time();
        let now = monotonic();
        ThreadTime { known, known_at: now, last: now, switches, doubtful: false }
    }

    /// The present instant, and the CPU time used until then. Good where the last look was less than 20 us ago, or the thread had
    /// no CPU since; at most too large otherwise.
    pub fn now(&mut self) -> (Nanos, Nanos) {
        let now = monotonic();
        if now - self.last > GAP {
            if own_switches() != self.switches {
                *self = ThreadTime::read();
                return (now, self.known);
            }
            self.doubtful |= now - self.last > STOLEN;
        }
        self.last = now;
        (now, self.known + (now - self.known_at))
    }

    /// Uses CPU time until it amounts to `target`, or `goes_on` denies it of the present instant; returns both as [`ThreadTime::now`],
    /// the CPU time to a microsecond. The instant is the one before the kernel was asked, which may end a budget.
    pub fn spin_until(&mut self, target: Nanos, mut goes_on: impl FnMut(Nanos) -> bool) -> (Nanos, Nanos) {
        loop {
            let (now, used) = self.now();
            let over = !goes_on(now);
            if used < target && !over {
                continue;
            }
            if !self.doubtful {
                return (now, used);
            }
            *self = ThreadTime::read();
            if self.known >= target || over {
                return (now, self.known);
            }
        }
    }
}

/// Uses `amount` of the calling thread's CPU time, preempted or not, and returns what was used.
pub fn spin_cpu_time(amount: Nanos) -> Nanos {
    let mut time = ThreadTime::read();
    let begin = time.known;
    time.spin_until(begin + amount, |_| true).1 - begin
}

/// Sleeps until an instant of CLOCK_MONOTONIC and reads that clock first of all when it is over: whatever else a thread
/// looked at after a wake-up would be measured with it, its cache misses included.
///
/// # Errors
/// As [`sleep_until`].
#[inline(never)]
pub fn wake_at(instant: Nanos) -> Result<Nanos, KernelError> {
    let time = to_timespec(instant);
    let mut woke = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        // SAFETY: both times are valid over the calls; with TIMER_ABSTIME the remaining time is not written.
        let result = unsafe {
            let result = libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const time,
                std::ptr::null_mut(),
            );
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut woke);
            result
        };
        match result {
            0 => return Ok(from_timespec(woke)),
            libc::EINTR => {}
            errno => return Err(KernelError::new(Operation::Sleep, "CLOCK_MONOTONIC", errno)),
        }
    }
}

/// Sleeps for a span from the present; one that is not positive returns at once. A signal does not shorten it, apart
/// from the rounding of the remainder that the kernel tells.
///
/// # Errors
/// Only what the kernel answers beside EINTR.
pub fn sleep_for(span: Nanos) -> Result<(), KernelError> {
    let mut time = to_timespec(span);
    loop {
        let request = time;
        // SAFETY: both times are valid over the call; the remainder is written when a signal came.
        let result =
            unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const request, &raw mut time) };
        match result {
            0 => return Ok(()),
            libc::EINTR => {}
            errno => return Err(KernelError::new(Operation::Sleep, "CLOCK_MONOTONIC", errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_for_a_span_takes_at_least_that() {
        let begin = monotonic();
        assert_eq!(sleep_for(Nanos::MILLISECOND), Ok(()));
        assert!(monotonic() - begin >= Nanos::MILLISECOND);
        assert_eq!(sleep_for(Nanos::new(-1)), Ok(()));
        let due = monotonic() + Nanos::MILLISECOND;
        assert!(wake_at(due).unwrap() >= due);
    }

    #[test]
    fn spinning_uses_what_was_asked_and_no_more_than_the_wall_clock_saw() {
        for micros in [0, 1, 50, 2_000] {
            let amount = Nanos::from_micros(micros);
            let (wall, cpu) = (monotonic(), thread_cpu_time());
            let used = spin_cpu_time(amount);
            let (cpu, wall) = (thread_cpu_time() - cpu, monotonic() - wall);
            assert!(used >= amount, "{used:?} of {amount:?}");
            // The two clocks may differ by parts per million.
            let close = Nanos::from_micros(50);
            assert!(used <= cpu + close && cpu <= wall + close, "{used:?} {cpu:?} {wall:?}");
        }
    }

    /// A budget that was used up ended in the middle of a job, when the hypervisor had taken the CPU for 30 us.
    #[test]
    fn the_thread_clock_is_read_only_after_the_thread_left_its_cpu() {
        let waste = |time| {
            let until = monotonic() + time;
            while monotonic() < until {}
        };
        let undisturbed = (0..1_000).any(|_| {
            let mut time = ThreadTime::read();
            let (known, before) = (time.known, time.switches);
            waste(GAP * 2);
            time.now();
            let stayed = own_switches() == before;
            assert!(!stayed || time.known == known, "it was read after an interrupt's time");
            stayed && !time.doubtful
        });
        assert!(undisturbed);
        let in_doubt = (0..1_000).find_map(|_| {
            let mut time = ThreadTime::read();
            let before = time.switches;
            waste(STOLEN * 2);
            time.now();
            assert!(time.doubtful || time.switches != before, "{time:?}, {before} switches before");
            time.doubtful.then_some(time)
        });
        let mut time = in_doubt.unwrap();
        let known = time.known;
        sleep_for(Nanos::MILLISECOND).unwrap();
        let (_, used) = time.now();
        assert!(!time.doubtful && used == time.known && used > known, "{time:?}");
    }

    #[test]
    fn spinning_ends_when_told_to() {
        let end = monotonic() + Nanos::from_millis(2);
        let begin = thread_cpu_time();
        let (now, used) = ThreadTime::read().spin_until(Nanos::MAX, |now| now < end);
        assert!(now >= end);
        assert!(used - begin <= Nanos::from_millis(2) + Nanos::from_micros(500), "{used:?}");
    }

    #[test]
    fn overshoot_is_small_in_the_undisturbed_case() {
        // Noise can only add; the least of many runs is the undisturbed one.
        let least =
            (0..200).map(|_| spin_cpu_time(Nanos::from_micros(20)) - Nanos::from_micros(20)).min().unwrap();
        eprintln!("least overshoot {} ns", least.get());
        assert!(least < Nanos::from_micros(20), "{least:?}");
    }

    #[test]
    fn sleeping_ends_no_earlier_than_asked_and_obeys_the_flag() {
        let instant = monotonic() + Nanos::MILLISECOND;
        assert_eq!(sleep_until(instant, None), Ok(Woken::OnTime));
        assert!(monotonic() >= instant);
        let flag = AtomicBool::new(true);
        assert_eq!(sleep_until(Nanos::MAX, Some(&flag)), Ok(Woken::Cancelled));
        assert_eq!(sleep_until(Nanos::ZERO, None), Ok(Woken::OnTime));
    }

    #[test]
    fn the_tick_is_one_of_the_kernels_choices() {
        let hz = 1_000_000_000 / tick_length().get();
        assert!([100, 250, 300, 1000].contains(&hz), "HZ {hz}");
    }

    #[test]
    fn timers_are_rounded_to_a_nanosecond_or_to_the_tick() {
        assert!([Nanos::new(1), tick_length()].contains(&timer_resolution()), "{}", timer_resolution());
    }

    #[test]
    fn a_thread_that_sleeps_has_left_its_cpu() {
        let before = own_switches();
        crate::thread::give_way();
        sleep_for(Nanos::MILLISECOND).unwrap();
        assert!(own_switches() > before);
    }
}
