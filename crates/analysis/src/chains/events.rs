//! [`EventStream`]: how many events may come in a window, and how soon the n-th.

use surety_units::Nanos;

use crate::schedulability::task::{ceil, wide};

/// Events of which at most `min(ceil((t + J)/P), ceil(t/d))` come in a half-open window of length t, which begins with one of them (Richter, Jersak
/// and Ernst, "Scheduling analysis integration for heterogeneous multiprocessor SoC", RTSS 2003: period, jitter, least distance).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventStream {
    /// P: their planned instants are at least this far apart; positive.
    pub period: Nanos,
    /// J: each comes up to this much after its planned instant.
    pub jitter: Nanos,
    /// d: none is nearer to the one before; 0: they may come at once.
    pub distance: Nanos,
}

impl EventStream {
    /// Events at least a gap apart.
    pub fn sporadic(gap: Nanos) -> EventStream {
        EventStream { period: gap, jitter: Nanos::ZERO, distance: gap }
    }

    /// Events on a grid, each up to `jitter` after its point.
    pub fn on_grid(period: Nanos, jitter: Nanos) -> EventStream {
        EventStream { period, jitter, distance: (period - jitter).max(Nanos::ZERO) }
    }

    /// The most in a half-open window of this length.
    pub fn most(&self, window: i128) -> i128 {
        if window <= 0 {
            return 0;
        }
        let by_jitter = ceil(window + wide(self.jitter), wide(self.period));
        if self.distance.is_positive() { by_jitter.min(ceil(window, wide(self.distance))) } else { by_jitter }
    }

    /// When the event of this number, from 0, comes at the earliest after the first of a window.
    pub fn earliest(&self, number: i128) -> i128 {
        let by_jitter = number * wide(self.period) - wide(self.jitter);
        by_jitter.max(number * wide(self.distance)).max(0)
    }

    /// What becomes of the events behind a thread that handles each for itself: between `least` and `most` after it came, one after the other.
    pub fn behind(&self, least: Nanos, most: Nanos) -> EventStream {
        EventStream { jitter: self.jitter.saturating_add(most - least), distance: least, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `most` and `earliest` say the same: the n-th event is in a window that is longer than its earliest instant, and in no shorter one.
    #[test]
    fn counts_and_instants_agree() {
        for (period, jitter, distance) in
            [(10, 0, 10), (10, 0, 0), (10, 7, 3), (10, 35, 2), (10, 35, 0), (7, 7, 0)]
        {
            let of = Nanos::new;
            let stream = EventStream { period: of(period), jitter: of(jitter), distance: of(distance) };
            for number in 0..20 {
                let at = stream.earliest(number);
                assert!(stream.most(at + 1) > number, "{stream:?} {number}");
                assert!(stream.most(at) <= number || at == 0, "{stream:?} {number}");
            }
        }
    }
}
