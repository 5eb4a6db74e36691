//! Averages of a stream while it runs: of all values, of the latest ones, and with fading weights.
//!
//! Memory is fixed when a recorder is made, recording allocates nothing. Sums are integers wherever values
//! are, so a window forgets exactly what leaves it and no rounding drifts along. Averages depend on order and
//! do not merge; [`crate::Moments`] and [`crate::Histogram`] do.

use std::collections::VecDeque;

/// The most values a window may hold.
pub const WINDOW_LIMIT: usize = 1 << 24;

/// The mean of all values so far, exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CumulativeMean {
    sum: u128,
    count: u64,
}

impl CumulativeMean {
    /// No values yet.
    pub const fn new() -> CumulativeMean {
        CumulativeMean { sum: 0, count: 0 }
    }

    /// Takes one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        // 2^64 values of 2^64 each fit.
        self.sum += u128::from(value);
        self.count = self.count.saturating_add(1);
    }

    /// How many values were taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; `None` without a value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// The mean of the latest values, a fixed number of them, exact.
#[derive(Clone, Debug)]
pub struct CountWindow {
    values: VecDeque<u64>,
    length: usize,
    sum: u128,
}

impl CountWindow {
    /// A window over the latest `length` values, between 1 and [`WINDOW_LIMIT`].
    pub fn new(length: usize) -> CountWindow {
        let length = length.clamp(1, WINDOW_LIMIT);
        CountWindow { values: VecDeque::with_capacity(length), length, sum: 0 }
    }

    /// Takes one value; the oldest leaves when the window is full.
    #[inline]
    pub fn record(&mut self, value: u64) {
        if self.values.len() == self.length {
            self.sum -= self.values.pop_front().map_or(0, u128::from);
        }
        self.values.push_back(value);
        self.sum += u128::from(value);
    }

    /// How many values are in the window.
    pub fn count(&self) -> u64 {
        self.values.len() as u64
    }

    /// Whether the window is full: before, the mean is of fewer values than asked.
    pub fn is_full(&self) -> bool {
        self.values.len() == self.length
    }

    /// The mean of the window; `None` without a value.
    pub fn mean(&self) -> Option<f64> {
        (!self.values.is_empty()).then(|| self.sum as f64 / self.values.len() as f64)
    }
}

/// The mean of the values of the latest span of time, exact as long as they fit.
///
/// A value is in the window at `now` when it was taken after `now - span`.
#[derive(Clone, Debug)]
pub struct TimeWindow {
    values: VecDeque<(u64, u64)>,
    span: u64,
    capacity: usize,
    sum: u128,
    latest: u64,
    pushed_out: u64,
}

impl TimeWindow {
    /// A window over the latest `span` nanoseconds with room for `capacity` values, between 1 and
    /// [`WINDOW_LIMIT`].
    pub fn new(span: u64, capacity: usize) -> TimeWindow {
        let capacity = capacity.clamp(1, WINDOW_LIMIT);
        let values = VecDeque::with_capacity(capacity);
        TimeWindow { values, span, capacity, sum: 0, latest: 0, pushed_out: 0 }
    }

    /// Takes a value at a time in nanoseconds; a time before the latest counts as the latest.
    ///
    /// When there is no room the oldest leaves early and is counted in [`TimeWindow::pushed_out`].
    #[inline]
    pub fn record(&mut self, at: u64, value: u64) {
        self.advance(at);
        if self.values.len() == self.capacity {
            self.forget_oldest();
            self.pushed_out = self.pushed_out.saturating_add(1);
        }
        self.values.push_back((self.latest, value));
        self.sum += u128::from(value);
    }

    /// Lets time pass without a value.
    #[inline]
    pub fn advance(&mut self, now: u64) {
        self.latest = self.latest.max(now);
        while self.values.front().is_some_and(|&(at, _)| self.latest - at >= self.span) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        self.sum -= self.values.pop_front().map_or(0, |(_, value)| u128::from(value));
    }

    /// How many values are in the window.
    pub fn count(&self) -> u64 {
        self.values.len() as u64
    }

    /// How many values left before their time because there was no room.
    pub fn pushed_out(&self) -> u64 {
        self.pushed_out
    }

    /// The mean of the window; `None` without a value.
    pub fn mean(&self) -> Option<f64> {
        (!self.values.is_empty()).then(|| self.sum as f64 / self.values.len() as f64)
    }
}

/// The exponentially weighted mean of a stream of equally spaced values: `m <- m + a (x - m)`.
///
/// It begins at the first value (Roberts, Technometrics 1, 1959).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FadingMean {
    weight: f64,
    mean: Option<f64>,
}

impl FadingMean {
    /// The weight of the newest value; `None` unless `0 < weight <= 1`.
    pub fn new(weight: f64) -> Option<FadingMean> {
        (weight > 0.0 && weight <= 1.0).then_some(FadingMean { weight, mean: None })
    }

    /// The weight `2/(length + 1)`, with which values are as old on average as in a window of this length.
    pub fn like_window(length: u64) -> FadingMean {
        FadingMean { weight: 2.0 / (length.max(1) as f64 + 1.0), mean: None }
    }

    /// Takes one value.
    #[inline]
    pub fn record(&mut self, value: f64) {
        self.mean = Some(match self.mean {
            Some(mean) => mean + self.weight * (value - mean),
            None => value,
        });
    }

    /// The mean; `None` without a value.
    pub fn mean(&self) -> Option<f64> {
        self.mean
    }
}

/// The exponentially weighted mean of values at any times: a value's weight falls by `e` every `span`.
///
/// ```text
/// S <- S exp(-Δt/span) + x      W <- W exp(-Δt/span) + 1      mean = S / W
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecayingMean {
    span: u64,
    latest: u64,
    sum: f64,
    weight: f64,
}

impl DecayingMean {
    /// Weights fall by `e` every `span` nanoseconds, at least one.
    pub fn new(span: u64) -> DecayingMean {
        DecayingMean { span: span.max(1), latest: 0, sum: 0.0, weight: 0.0 }
    }

    /// Takes a value at a time in nanoseconds; a time before the latest counts as the latest.
    #[inline]
    pub fn record(&mut self, at: u64, value: f64) {
        let passed = at.saturating_sub(self.latest);
        let faded = libm::exp(-(passed as f64 / self.span as f64));
        self.latest = self.latest.max(at);
        self.sum = self.sum * faded + value;
        self.weight = self.weight * faded + 1.0;
    }

    /// The mean; `None` without a value.
    pub fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!((CumulativeMean::new().mean(), CountWindow::new(0).mean()), (None, None));
        assert_eq!((TimeWindow::new(5, 0).mean(), DecayingMean::new(0).mean()), (None, None));
        assert_eq!((FadingMean::new(0.0), FadingMean::new(f64::NAN)), (None, None));
    }

    #[test]
    fn a_full_time_window_counts_what_it_pushes_out() {
        let mut window = TimeWindow::new(10, 2);
        [(0, 4), (1, 6), (2, 8)].into_iter().for_each(|(at, value)| window.record(at, value));
        assert_eq!((window.mean(), window.pushed_out()), (Some(7.0), 1));
        window.advance(11);
        assert_eq!((window.mean(), window.count()), (Some(8.0), 1));
        // A clock that steps back does not bring anything back.
        window.record(3, 2);
        assert_eq!(window.mean(), Some(5.0));
        window.advance(u64::MAX);
        assert_eq!(window.mean(), None);
    }

    #[test]
    fn fading_means_approach_the_level() {
        let mut fading = FadingMean::like_window(9);
        let mut decaying = DecayingMean::new(10);
        fading.record(0.0);
        decaying.record(0, 0.0);
        for k in 1..=100u64 {
            fading.record(1.0);
            decaying.record(k, 1.0);
        }
        assert!((fading.mean().unwrap() - (1.0 - 0.8f64.powi(100))).abs() < 1e-12);
        // Weights e^(-k/10): all but the first belong to ones.
        let weights: f64 = (0..=100).map(|k| (-f64::from(k) / 10.0).exp()).sum();
        assert!((decaying.mean().unwrap() - (1.0 - (-10.0f64).exp() / weights)).abs() < 1e-12);
    }

    proptest! {
        /// Windows are the means of the slices they stand for, exactly.
        #[test]
        fn windows_are_slices(
            values in prop::collection::vec(any::<u64>(), 1..100),
            length in 1usize..20,
        ) {
            let (mut window, mut timed, mut all) =
                (CountWindow::new(length), TimeWindow::new(length as u64, 100), CumulativeMean::new());
            for (i, &value) in values.iter().enumerate() {
                window.record(value);
                timed.record(i as u64, value);
                all.record(value);
                let latest = &values[(i + 1).saturating_sub(length)..=i];
                let mean = |slice: &[u64]| {
                    slice.iter().map(|&v| u128::from(v)).sum::<u128>() as f64 / slice.len() as f64
                };
                prop_assert_eq!(window.mean(), Some(mean(latest)));
                prop_assert_eq!(timed.mean(), Some(mean(latest)));
                prop_assert_eq!(all.mean(), Some(mean(&values[..=i])));
                prop_assert_eq!(window.is_full(), i + 1 >= length);
            }
        }
    }
}
