//! [`NoiseAccount`]: what a thread that does nothing but read the clock has measured: the gaps in which it was away.
//!
//! Two readings of the clock that are further apart than a threshold had something between them: an interrupt, another
//! thread, or nothing the kernel knows of. The account keeps every gap in a histogram, and the times of the first ones so
//! that a trace can say what was in them. It is kept apart from the clock and the thread it runs in.

use surety_units::Nanos;

use crate::record::Observed;

/// The series of gaps in a record.
pub const GAPS: &str = "gap";
/// The figure that holds which part of the time was gaps.
pub const NOISE: &str = "noise";

/// A time in which the thread was away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last reading before it.
    pub start: Nanos,
    /// The first reading after it.
    pub end: Nanos,
}

impl Gap {
    /// How long it was.
    pub fn length(&self) -> Nanos {
        self.end - self.start
    }
}

/// The gaps of one thread, in memory made before it began: looking allocates nothing.
#[derive(Clone, Debug)]
pub struct NoiseAccount {
    threshold: Nanos,
    last: Option<Nanos>,
    /// Time between the first and the last reading, pauses taken off.
    pub observed: Nanos,
    /// Readings of the clock.
    pub readings: u64,
    /// The shortest time between two readings: what the clock itself costs.
    pub shortest: Nanos,
    /// Time in gaps.
    pub away: Nanos,
    /// Every gap's length.
    pub lengths: Observed,
    /// The first gaps, with their times.
    pub gaps: Vec<Gap>,
    room: usize,
}

impl NoiseAccount {
    /// An empty account of gaps of at least `threshold`, with room for the times of `room` of them.
    pub fn new(threshold: Nanos, room: usize) -> NoiseAccount {
        NoiseAccount {
            threshold,
            last: None,
            observed: Nanos::ZERO,
            readings: 0,
            shortest: Nanos::MAX,
            away: Nanos::ZERO,
            lengths: Observed::default(),
            gaps: Vec::with_capacity(room),
            room,
        }
    }

    /// Takes a reading of the clock.
    #[inline]
    pub fn look(&mut self, now: Nanos) {
        self.readings += 1;
        let Some(last) = self.last.replace(now) else { return };
        let length = now - last;
        self.observed += length;
        if length < self.shortest {
            self.shortest = length;
        }
        if length >= self.threshold {
            self.away += length;
            self.lengths.record(length);
            if self.gaps.len() < self.room {
                self.gaps.push(Gap { start: last, end: now });
            }
        }
    }

    /// The time until the next reading is a pause of the thread's own, no gap.
    pub fn pause(&mut self) {
        self.last = None;
    }

    /// Which part of the time was gaps.
    pub fn share(&self) -> f64 {
        if self.observed.is_positive() { self.away.get() as f64 / self.observed.get() as f64 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_and_pauses_are_not() {
        let mut account = NoiseAccount::new(Nanos::new(1000), 2);
        let ns = Nanos::new;
        for now in [100, 150, 1150, 1200, 2199] {
            account.look(ns(now));
        }
        account.pause();
        for now in [90_000, 90_050, 95_050, 97_050] {
            account.look(ns(now));
        }
        assert_eq!((account.lengths.histogram.count(), account.away), (3, ns(8000)));
        assert_eq!(
            account.gaps,
            [Gap { start: ns(150), end: ns(1150) }, Gap { start: ns(90_050), end: ns(95_050) }]
        );
        assert_eq!((account.observed, account.readings, account.shortest), (ns(2099 + 7050), 9, ns(50)));
        assert!((account.share() - 8000.0 / 9149.0).abs() < 1e-12);
        assert_eq!(NoiseAccount::new(ns(1), 0).share(), 0.0);
    }
}
