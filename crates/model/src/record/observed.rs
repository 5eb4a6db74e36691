//! [`Distribution`]: times of an activity, with those that never came.
//!
//! An activation that was skipped or lost has no response, and one that is open has none yet. Both stand above every
//! time that was seen: a quantile of the others alone would say that an overloaded task which skips half of its work
//! is in time. What is open may also turn out short, so it widens a quantile downwards.

use std::sync::Arc;

use surety_stats::bounds::Ranked;
use surety_stats::{Blocks, Histogram, Moments, Sequence, quantile_rank};
use surety_units::Nanos;

/// A distribution of times.
#[derive(Clone, Debug)]
pub enum Distribution {
    /// Values that occurred, in one place for all copies: they have some ten thousand bytes.
    Observed(Arc<Observed>),
    /// Proven limits: with at least this probability the value is at most this time, ascending.
    Limits(Vec<(f64, Nanos)>),
}

impl From<Observed> for Distribution {
    fn from(observed: Observed) -> Distribution {
        Distribution::Observed(Arc::new(observed))
    }
}

/// Values that occurred, and how many never did.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Every value, to 0.4 %.
    pub histogram: Histogram,
    /// Mean, deviation and the exact extremes of the values.
    pub moments: Moments,
    /// The order of the values, thinned: see [`Observed::in_order`].
    pub sequence: Sequence,
    /// The distribution of consecutive parts of the run, those that never came and open ones included; of as many as
    /// there are, or empty where the order is not known.
    pub blocks: Blocks,
    /// Activations that never had the value: skipped or lost.
    pub never: u64,
    /// Activations that did not have it yet when the observation ended, or that were lost to the tracer.
    pub open: u64,
}

impl Observed {
    /// Of a histogram alone: for the moments each value is taken to be the middle of its bucket, and the extremes are
    /// the histogram's own.
    pub fn of_histogram(histogram: Histogram) -> Observed {
        let mut moments = Moments::new();
        let (min, max) = (histogram.min().unwrap_or(0), histogram.max().unwrap_or(0));
        for (low, high, count) in histogram.buckets() {
            let (low, high) = (low.clamp(min, max), high.clamp(min, max));
            moments.merge(&repeated(low as f64 + (high - low) as f64 / 2.0, count));
        }
        Observed { histogram, moments, ..Observed::default() }
    }

    /// The values in the order they were taken, thinned; `None` where it is not known: of values that were counted
    /// elsewhere, or of several runs.
    pub fn in_order(&self) -> Option<&Sequence> {
        (self.sequence.count() == self.histogram.count()).then_some(&self.sequence)
    }

    /// Whether it is known which values came together, so that bounds count bursts and not values.
    pub fn has_order(&self) -> bool {
        self.blocks.count() == self.count()
    }

    /// Takes over the values of another, without allocating.
    pub fn copy_from(&mut self, other: &Observed) {
        self.histogram.copy_from(&other.histogram);
        self.moments = other.moments;
        self.sequence.copy_from(&other.sequence);
        self.blocks.copy_from(&other.blocks);
        (self.never, self.open) = (other.never, other.open);
    }

    /// Takes a value; a negative one counts as 0.
    pub fn record(&mut self, value: Nanos) {
        self.histogram.record(value.get_unsigned());
        self.moments.record(value.get_unsigned() as f64);
        self.sequence.record(value.get_unsigned());
        self.blocks.record(value.get_unsigned());
    }

    /// Takes an activation that never had the value.
    pub fn record_never(&mut self) {
        self.never += 1;
        self.blocks.record(u64::MAX);
    }

    /// Takes an activation that does not have it yet.
    pub fn record_open(&mut self) {
        self.open += 1;
        self.blocks.record(u64::MAX);
    }

    /// Adds the values of another run. The order of single values is not known any more.
    pub fn merge(&mut self, other: &Observed) {
        let has_order = self.has_order() && other.has_order();
        self.histogram.merge(&other.histogram);
        self.moments.merge(&other.moments);
        self.never = self.never.saturating_add(other.never);
        self.open = self.open.saturating_add(other.open);
        self.sequence = Sequence::default();
        match has_order {
            true => self.blocks.append(&other.blocks),
            false => self.blocks = Blocks::default(),
        }
    }

    /// How many activations never had the value, or not yet.
    pub fn without_value(&self) -> u64 {
        self.never.saturating_add(self.open)
    }

    /// The `q` quantile of all activations: [`Nanos::MAX`] where so many never had the value.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        let rank = quantile_rank(q, self.count())?;
        Some(self.histogram.value_at_rank(rank).map_or(Nanos::MAX, time))
    }
}

/// A time of so many nanoseconds: no time of 2^63 ns was ever waited for.
pub(crate) fn time(ns: u64) -> Nanos {
    Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX))
}

impl Ranked for Observed {
    fn count(&self) -> u64 {
        self.histogram.count().saturating_add(self.without_value())
    }

    /// An open activation is anywhere from 0 to never, one that was skipped is never: `u64::MAX`.
    fn range_at_rank(&self, rank: u64) -> Option<(u64, u64)> {
        if rank == 0 || rank > self.count() {
            return None;
        }
        let high = self.histogram.range_at_rank(rank).map_or(u64::MAX, |(_, high)| high);
        let low = match rank.checked_sub(self.open) {
            None | Some(0) => 0,
            Some(rank) => self.histogram.range_at_rank(rank).map_or(u64::MAX, |(low, _)| low),
        };
        Some((low, high))
    }

    fn design_effect(&self, q: f64) -> f64 {
        if self.has_order() { self.blocks.design_effect(q) } else { 1.0 }
    }
}

/// Moments of `count` equal values, by doubling.
fn repeated(value: f64, mut count: u64) -> Moments {
    let mut power = Moments::new();
    power.record(value);
    let mut sum = Moments::new();
    while count > 0 {
        if count & 1 == 1 {
            sum.merge(&power);
        }
        let half = power;
        power.merge(&half);
        count >>= 1;
    }
    sum
}

impl Distribution {
    /// The values, where they were observed.
    pub fn observed(&self) -> Option<&Observed> {
        match self {
            Distribution::Observed(observed) => Some(observed),
            Distribution::Limits(_) => None,
        }
    }

    /// The `q` quantile: observed, [`Nanos::MAX`] where so many activations never had the value; or the smallest proven
    /// limit that covers it.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        match self {
            Distribution::Observed(observed) => observed.quantile(q),
            Distribution::Limits(limits) => limits.iter().find(|(p, _)| *p >= q).map(|(_, value)| *value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_stats::bounds::quantile_upper;

    /// 346 of 625 activations skipped: more than half never came, whatever the others took.
    #[test]
    fn skipped_and_open_activations_stand_above_every_value() {
        let ms = Nanos::from_millis;
        let mut seen = Observed::default();
        for i in 0..625 {
            match (i + 1) * 346 / 625 > i * 346 / 625 {
                true => seen.record_never(),
                false => seen.record(ms(100)),
            }
        }
        assert_eq!((seen.quantile(0.4), seen.quantile(0.5)), (Some(ms(100)), Some(Nanos::MAX)));
        assert_eq!(seen.range_at_rank(625), Some((u64::MAX, u64::MAX)));
        assert_eq!(quantile_upper(&seen, 0.5, 0.95).value(), Some(u64::MAX));
        // One that is open may be short or long.
        let mut open = Observed::default();
        [1, 2, 3].into_iter().for_each(|value| open.record(ms(value)));
        open.record_open();
        let ns = |value| ms(value).get_unsigned();
        let ranges: Vec<_> =
            (1..=4).filter_map(|rank| open.range_at_rank(rank)).map(|(low, _)| low).collect();
        assert_eq!((ranges[0], ranges[1]), (0, ns(1)));
        assert_eq!(open.range_at_rank(4), Some((ns(3), u64::MAX)));
    }
}
