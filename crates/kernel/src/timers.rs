//! [`TimerSet`]: many timers that fire, each at its own instants, waited for by one thread; [`UnheardTimer`]: one that nobody waits
//! for.

use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{self, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use surety_units::Nanos;

use crate::clock::timespec;
use crate::error::{KernelError, Operation};

/// Timers of CLOCK_MONOTONIC (`timerfd`), all of one period, spread evenly over it.
#[derive(Debug)]
pub struct TimerSet {
    poll: OwnedFd,
    timers: Vec<OwnedFd>,
}

/// What fired while the set was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// Timers found to have fired.
    pub wakeups: u64,
    /// Expirations, those included that passed before anybody looked.
    pub expirations: u64,
}

impl TimerSet {
    /// Makes `count` timers that are not started yet.
    ///
    /// # Errors
    /// EMFILE where so many descriptors are not allowed.
    pub fn new(count: usize) -> Result<TimerSet, KernelError> {
        let failed =
            |e: Errno| KernelError::new(Operation::Open, format!("{count} timers"), e.raw_os_error());
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let mut timers = Vec::with_capacity(count);
        for number in 0..count {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = time::timerfd_create(TimerfdClockId::Monotonic, flags).map_err(failed)?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&poll, &timer, data, epoll::EventFlags::IN).map_err(failed)?;
            timers.push(timer);
        }
        Ok(TimerSet { poll, timers })
    }

    /// Starts them all: timer k fires first k/count of a period after `begin`, then each period.
    pub fn start(&self, begin: Nanos, period: Nanos) -> Result<(), KernelError> {
        let count = self.timers.len().max(1) as u64;
        for (number, timer) in (0_u64..).zip(&self.timers) {
            let first = begin + period.mul_ratio(number, count);
            let setting = Itimerspec { it_interval: timespec(period), it_value: timespec(first) };
            time::timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &setting)
                .map_err(|e| KernelError::new(Operation::Open, "a timer", e.raw_os_error()))?;
        }
        Ok(())
    }

    /// Waits for at most `longest` (whole milliseconds) until some have fired, and says how many.
    pub fn wait(&self, longest: Nanos) -> Result<Fired, KernelError> {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 64];
        let millis = Nanos::MILLISECOND * longest.div_ceil(Nanos::MILLISECOND).max(0);
        let got = match epoll::wait(&self.poll, &mut events, Some(&timespec(millis))) {
            Err(Errno::INTR) => 0,
            got => got.map_err(|e| KernelError::new(Operation::Wait, "timers", e.raw_os_error()))?,
        };
        let mut fired = Fired::default();
        for event in &events[..got] {
            let Some(timer) = usize::try_from(event.data.u64()).ok().and_then(|n| self.timers.get(n)) else {
                continue;
            };
            let mut count = [0; 8];
            if rustix::io::read(timer, &mut count) == Ok(count.len()) {
                fired.wakeups += 1;
                fired.expirations += u64::from_ne_bytes(count);
            }
        }
        Ok(fired)
    }
}

/// A timer of CLOCK_MONOTONIC that interrupts and wakes nobody.
#[derive(Debug)]
pub struct UnheardTimer(OwnedFd);

impl UnheardTimer {
    /// One that is not started.
    ///
    /// # Errors
    /// EMFILE where no more descriptors are allowed.
    pub fn new() -> Result<UnheardTimer, KernelError> {
        let made = time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        made.map(UnheardTimer).map_err(|e| KernelError::new(Operation::Open, "a timer", e.raw_os_error()))
    }

    /// Has it interrupt the CPU of the calling thread once, at an instant; an earlier one is forgotten.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn start(&self, at: Nanos) -> Result<(), KernelError> {
        let setting = Itimerspec { it_interval: timespec(Nanos::ZERO), it_value: timespec(at) };
        let set = time::timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &setting);
        set.map(drop).map_err(|e| KernelError::new(Operation::Open, "a timer", e.raw_os_error()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_timer_that_nobody_waits_for_is_started_again_and_again() {
        let timer = UnheardTimer::new().unwrap();
        for _ in 0..3 {
            timer.start(clock::monotonic() + Nanos::from_micros(50)).unwrap();
        }
    }

    #[test]
    fn every_expiration_is_counted_once() {
        let set = TimerSet::new(10).unwrap();
        let begin = clock::monotonic() + Nanos::from_millis(5);
        let period = Nanos::from_millis(2);
        set.start(begin, period).unwrap();
        let mut expirations = 0;
        while clock::monotonic() < begin + period * 20 {
            let fired = set.wait(Nanos::from_millis(1)).unwrap();
            assert!(fired.expirations >= fired.wakeups);
            expirations += fired.expirations;
        }
        // Each timer fires once a period since its first time. The interrupt that says so may be late on another CPU, so
        // looks go on until all that is planned up to here has come; more than planned by then never comes.
        let before = clock::monotonic();
        let planned = |now: Nanos| -> u64 {
            (0..10_u64)
                .map(|k| (now - begin - period.mul_ratio(k, 10)).div_floor(period).max(-1) + 1)
                .map(|n| u64::try_from(n).unwrap())
                .sum()
        };
        while expirations < planned(before) && clock::monotonic() < before + Nanos::from_secs(5) {
            expirations += set.wait(Nanos::from_millis(1)).unwrap().expirations;
        }
        let after = clock::monotonic();
        assert!((planned(before)..=planned(after)).contains(&expirations), "{expirations}");
    }
}
