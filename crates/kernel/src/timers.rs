//! [`TimerSet`]: many timers that fire, each at its own instants, waited for by one thread.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use surety_units::Nanos;

use crate::error::{KernelError, Operation, check, last_errno};

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
        let failed = |errno| KernelError::new(Operation::Open, format!("{count} timers"), errno);
        let own = |descriptor: libc::c_int| -> Result<OwnedFd, KernelError> {
            check(descriptor.into()).map_err(failed)?;
            // SAFETY: called only with descriptors the kernel just gave to us alone.
            Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
        };
        // SAFETY: takes a flag.
        let poll = own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let mut timers = Vec::with_capacity(count);
        for number in 0..count {
            let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
            // SAFETY: takes integers.
            let timer = own(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
            let mut wanted = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number as u64 };
            let (poll, timer_fd) = (poll.as_raw_fd(), timer.as_raw_fd());
            // SAFETY: both descriptors are open and the event lives over the call.
            let added = unsafe { libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, timer_fd, &raw mut wanted) };
            check(added.into()).map_err(failed)?;
            timers.push(timer);
        }
        Ok(TimerSet { poll, timers })
    }

    /// Starts them all: timer k fires first k/count of a period after `begin`, then each period.
    pub fn start(&self, begin: Nanos, period: Nanos) -> Result<(), KernelError> {
        let count = self.timers.len().max(1) as u64;
        let time =
            |t: Nanos| libc::timespec { tv_sec: t.get() / 1_000_000_000, tv_nsec: t.get() % 1_000_000_000 };
        for (number, timer) in (0_u64..).zip(&self.timers) {
            let first = begin + period.mul_ratio(number, count);
            let setting = libc::itimerspec { it_interval: time(period), it_value: time(first) };
            let (fd, flags) = (timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME);
            // SAFETY: the setting lives over the call; nothing is returned.
            let set = unsafe { libc::timerfd_settime(fd, flags, &raw const setting, std::ptr::null_mut()) };
            check(set.into()).map_err(|e| KernelError::new(Operation::Open, "a timer", e))?;
        }
        Ok(())
    }

    /// Waits for at most `longest` (whole milliseconds) until some have fired, and says how many.
    pub fn wait(&self, longest: Nanos) -> Result<Fired, KernelError> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let millis = i32::try_from(longest.div_ceil(Nanos::MILLISECOND).max(0)).unwrap_or(i32::MAX);
        let room = events.len() as i32;
        // SAFETY: the events are `room` structures that live over the call.
        let got = unsafe { libc::epoll_wait(self.poll.as_raw_fd(), events.as_mut_ptr(), room, millis) };
        let got = match got {
            -1 if last_errno() == libc::EINTR => 0,
            -1 => return Err(KernelError::new(Operation::Wait, "timers", last_errno())),
            got => usize::try_from(got).unwrap_or(0),
        };
        let mut fired = Fired::default();
        for event in &events[..got] {
            let Some(timer) = usize::try_from(event.u64).ok().and_then(|n| self.timers.get(n)) else {
                continue;
            };
            let mut count = 0_u64;
            // SAFETY: eight bytes are read into an integer of eight bytes.
            let read = unsafe { libc::read(timer.as_raw_fd(), (&raw mut count).cast(), 8) };
            if read == 8 {
                fired.wakeups += 1;
                fired.expirations += count;
            }
        }
        Ok(fired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

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
