//! [`Bandwidth`]: how fast a disk is written back, as its flusher reckons (`wb_update_write_bandwidth` in `mm/page-writeback.c`, alike in 6.1
//! and 6.12).
//!
//! Every 200 ms (`BANDWIDTH_INTERVAL`) the rate since the last time is averaged into one over 4.096 s, and a smoother one follows that by an
//! eighth of the difference where that goes away from it and does not come back. A disk that nobody wrote for a second is reckoned from its next write on.

use surety_units::Nanos;

use super::PAGE;

/// Pages a second before anything was written (`INIT_BW`): 100 MiB/s.
const FIRST: u64 = (100 << 20) / PAGE;
const INTERVAL: Nanos = Nanos::from_millis(200);
/// What is averaged over: 3 s in ticks of 4 ms or 1 ms, rounded up to a power of two.
const SPAN: Nanos = Nanos::from_millis(4096);
const IDLE: Nanos = Nanos::from_secs(1);
const SECOND: u128 = 1_000_000_000;

/// How fast a disk is written back.
#[derive(Clone, Debug)]
pub(super) struct Bandwidth {
    since: Nanos,
    /// Pages written since then.
    written: u64,
    /// Pages a second.
    lately: u64,
    smooth: u64,
}

impl Default for Bandwidth {
    fn default() -> Bandwidth {
        Bandwidth { since: Nanos::ZERO, written: 0, lately: FIRST, smooth: FIRST }
    }
}

fn nanos(span: Nanos) -> u128 {
    u128::try_from(span.get()).unwrap_or_default()
}

impl Bandwidth {
    /// Something is written where nothing was.
    pub(super) fn begins(&mut self, now: Nanos) {
        if now - self.since > IDLE {
            (self.since, self.written) = (now, 0);
        }
    }

    /// `pages` were written since the last call.
    pub(super) fn wrote(&mut self, now: Nanos, pages: u64) {
        self.written += pages;
        let elapsed = now - self.since;
        if elapsed < INTERVAL {
            return;
        }
        let pages = u128::from(std::mem::take(&mut self.written)) * SECOND;
        self.since = now;
        if elapsed > SPAN {
            self.lately = (pages / nanos(elapsed)) as u64;
            self.smooth = self.lately;
            return;
        }
        let kept = u128::from(self.lately) * nanos(SPAN - elapsed);
        let next = ((pages + kept) / nanos(SPAN)) as u64;
        let before = std::mem::replace(&mut self.lately, next);
        if self.smooth > before && before >= next {
            self.smooth -= (self.smooth - before) / 8;
        } else if self.smooth < before && before <= next {
            self.smooth += (before - self.smooth) / 8;
        }
    }

    /// Pages a second, smoothed (`avg_write_bandwidth`).
    pub(super) fn smooth(&self) -> u64 {
        self.smooth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 MiB/s in steps of 100 ms for 60 s; 100 MiB/s before. After 10 s it is between the two, then within a tenth.
    #[test]
    fn it_comes_to_what_is_written() {
        let mut bandwidth = Bandwidth::default();
        let slow = FIRST / 10;
        for step in 1..=600 {
            bandwidth.wrote(Nanos::from_millis(100 * step), slow / 10);
            if step == 50 {
                assert!((2 * slow..FIRST).contains(&bandwidth.smooth()), "{}", bandwidth.smooth());
            }
        }
        assert!((slow..slow + slow / 10).contains(&bandwidth.smooth()), "{}", bandwidth.smooth());
    }

    /// What an idle disk does not write is not slowness; a long write without a look is the rate itself.
    #[test]
    fn an_idle_disk_is_not_a_slow_one() {
        let mut bandwidth = Bandwidth::default();
        bandwidth.begins(Nanos::from_secs(60));
        bandwidth.wrote(Nanos::from_millis(60_250), FIRST / 4);
        assert_eq!(bandwidth.smooth(), FIRST);
        bandwidth.wrote(Nanos::from_millis(65_250), 5 * 1000);
        assert_eq!(bandwidth.smooth(), 1000);
    }
}
