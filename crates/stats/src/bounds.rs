//! Quantiles with their confidence, and what the largest value of a run says: in values and in words.
//!
//! [`crate::intervals`] names the ranks; here they become values of a [`Sample`] or a [`Histogram`]. A bound
//! that the samples cannot give is not left out but a value of its own, [`Bound::Unbounded`], which says how
//! many samples more it takes. Of a histogram the outer edges of the buckets are taken, so the interval
//! covers whatever the bucket hides.
//!
//! *The largest value* (Wilks, Annals of Mathematical Statistics 12, 1941): of `n` independent samples, at
//! least the fraction `α^(1/n)` of the distribution is no later than the largest, with confidence `1 - α`.
//!
//! Values in bursts count as fewer: [`Ranked::design_effect`]. The statement about the largest value needs independent
//! samples: see [`crate::correlation`].

use std::fmt;

use crate::failures::Effective;
use crate::histogram::Histogram;
use crate::intervals::{quantile_upper_rank, samples_needed_zero_failures};
use crate::moments::Moments;
use crate::rank::quantile_rank;
use crate::sample::Sample;
use crate::special::student_quantile;

/// Values that can be asked by rank.
pub trait Ranked {
    /// How many values there are.
    fn count(&self) -> u64;

    /// The least and the largest the `rank`-th smallest value (from 1) can have been; `None` outside
    /// `1..=count`.
    fn range_at_rank(&self, rank: u64) -> Option<(u64, u64)>;

    /// By how much the number of values beyond the `q` quantile varies more than of independent ones: 1 where nothing is
    /// known of their order. See [`crate::failures`].
    fn design_effect(&self, q: f64) -> f64 {
        let _ = q;
        1.0
    }
}

impl Ranked for Sample {
    fn count(&self) -> u64 {
        Sample::count(self)
    }

    fn range_at_rank(&self, rank: u64) -> Option<(u64, u64)> {
        self.value_at_rank(rank).map(|value| (value, value))
    }
}

impl Ranked for Histogram {
    fn count(&self) -> u64 {
        Histogram::count(self)
    }

    fn range_at_rank(&self, rank: u64) -> Option<(u64, u64)> {
        Histogram::range_at_rank(self, rank)
    }
}

/// One end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The quantile is not beyond this value.
    At(u64),
    /// The samples give no bound.
    Unbounded {
        /// How many samples more give one; `None` when no number does.
        needs_more: Option<u64>,
    },
}

impl Bound {
    /// The value; `None` when there is no bound.
    pub fn value(self) -> Option<u64> {
        match self {
            Bound::At(value) => Some(value),
            Bound::Unbounded { .. } => None,
        }
    }

    fn new(value: Option<u64>, have: u64, need: Option<u64>) -> Bound {
        value.map_or(Bound::Unbounded { needs_more: need.map(|need| need.saturating_sub(have)) }, Bound::At)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::At(value) => write!(f, "{value}"),
            Bound::Unbounded { needs_more: Some(1) } => f.write_str("unbounded: needs 1 more sample"),
            Bound::Unbounded { needs_more: Some(more) } => {
                write!(f, "unbounded: needs {more} more samples")
            }
            Bound::Unbounded { needs_more: None } => f.write_str("unbounded by any number of samples"),
        }
    }
}

/// A quantile between two of the values, with at least this confidence whatever the distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileInterval {
    /// Which quantile: 0.999 is the 99.9 % quantile.
    pub q: f64,
    /// The confidence asked.
    pub confidence: f64,
    /// How many values there were.
    pub count: u64,
    /// The quantile of the values themselves, by the rank rule; `None` without values.
    pub estimate: Option<u64>,
    /// The quantile is not below this.
    pub low: Bound,
    /// The quantile is not above this.
    pub high: Bound,
}

/// The two-sided interval of the `q` quantile: each end at half the risk.
///
/// `None` unless `0 <= q <= 1`. Panics unless `0 < confidence < 1`.
pub fn quantile_interval(values: &impl Ranked, q: f64, confidence: f64) -> Option<QuantileInterval> {
    if !(0.0..=1.0).contains(&q) {
        return None;
    }
    let count = values.count();
    let each_side = 0.5 + confidence / 2.0;
    let (low, high) = (quantile_lower(values, q, each_side), quantile_upper(values, q, each_side));
    Some(QuantileInterval { q, confidence, count, estimate: estimate(values, q), low, high })
}

fn estimate(values: &impl Ranked, q: f64) -> Option<u64> {
    let (low, high) = values.range_at_rank(quantile_rank(q, values.count())?)?;
    Some(low + (high - low) / 2)
}

/// The one-sided upper bound of the `q` quantile: the promise "the quantile is not above".
///
/// Panics unless `0 < confidence < 1`.
pub fn quantile_upper(values: &impl Ranked, q: f64, confidence: f64) -> Bound {
    let (count, effect) = (values.count(), values.design_effect(q));
    let rank = upper_rank(count, q, confidence, effect);
    let value = rank.and_then(|rank| values.range_at_rank(rank)).map(|(_, high)| high);
    Bound::new(value, count, needed(q, confidence, effect))
}

/// The one-sided lower bound of the `q` quantile: the quantile is not below.
///
/// Panics unless `0 < confidence < 1`.
pub fn quantile_lower(values: &impl Ranked, q: f64, confidence: f64) -> Bound {
    // P{X <= l-1} <= α for binomial(n, q) is P{Y >= n+1-l} <= α for binomial(n, 1-q).
    let (count, effect) = (values.count(), values.design_effect(q));
    let rank = upper_rank(count, 1.0 - q, confidence, effect).map(|rank| count + 1 - rank);
    let value = rank.and_then(|rank| values.range_at_rank(rank)).map(|(low, _)| low);
    Bound::new(value, count, needed(1.0 - q, confidence, effect))
}

/// [`quantile_upper_rank`] of `n` values that say as much as `n / effect` independent ones.
fn upper_rank(n: u64, q: f64, confidence: f64, effect: f64) -> Option<u64> {
    let independent = quantile_upper_rank(n, q, confidence);
    if effect <= 1.0 {
        return independent;
    }
    // The value of a rank is a bound where the values beyond it are not more than the quantile leaves.
    let fits = |rank: u64| {
        let beyond = Effective { failures: (n - rank) as f64, trials: n as f64 };
        beyond.times(1.0 / effect).upper(1.0 - confidence) <= (1.0 - q) * (1.0 + 1e-10)
    };
    let (mut low, mut high) = (independent?, n);
    if !fits(high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

/// How many values give the `q` quantile an upper bound.
fn needed(q: f64, confidence: f64, effect: f64) -> Option<u64> {
    let independent = samples_needed_zero_failures(q, confidence)?;
    Some(if effect > 1.0 { (independent as f64 * effect).ceil() as u64 } else { independent })
}

/// The mean of what values are drawn from, each end with this confidence for itself, by Student's distribution: for values
/// that are means themselves, such as those of whole runs. `None` below two values, or when one is not finite.
pub fn mean_interval(values: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let moments: Moments = values.iter().copied().collect();
    let (mean, deviation) = (moments.mean()?, moments.std_dev()?);
    let n = values.len() as f64;
    let half = student_quantile(n - 1.0, 1.0 - confidence) * deviation / n.sqrt();
    half.is_finite().then_some((mean - half, mean + half))
}

/// A fraction as a percentage that is never rounded up, with digits up to the first that tells it from 0 or 1.
fn percent(fraction: f64) -> String {
    let distance = fraction.min(1.0 - fraction);
    let (mut digits, mut scale) = (0, 100.0);
    // One part in 10^9 makes up for a decimal fraction not being a float.
    while digits < 10 && distance > 0.0 && distance * scale < 1.0 - 1e-9 {
        digits += 1;
        scale *= 10.0;
    }
    let floored = (fraction * scale * (1.0 + 1e-12)).floor() / scale * 100.0;
    format!("{floored:.digits$} %")
}

impl fmt::Display for QuantileInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuantileInterval { q, confidence, count, estimate, low, high } = self;
        write!(f, "{} quantile of {count} samples: ", percent(*q))?;
        match estimate {
            Some(estimate) => write!(f, "{estimate}")?,
            None => f.write_str("none")?,
        }
        write!(f, ", with {} confidence from {low} to {high}", percent(*confidence))
    }
}

/// What the largest of `n` independent samples says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargestValue {
    /// How many values there were, at least one.
    pub count: u64,
    pub largest: u64,
    /// The confidence asked.
    pub confidence: f64,
    /// At least this fraction of all values is no later than the largest.
    pub covered: f64,
}

/// The statement about the largest value; `None` without values.
///
/// Panics unless `0 < confidence < 1`.
pub fn largest_value(values: &impl Ranked, confidence: f64) -> Option<LargestValue> {
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is strictly between 0 and 1, not {confidence}"
    );
    let count = values.count();
    let (_, largest) = values.range_at_rank(count)?;
    let covered = libm::exp(libm::log(1.0 - confidence) / count as f64);
    Some(LargestValue { count, largest, confidence, covered })
}

impl fmt::Display for LargestValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "with {} confidence at least {} are no later than {}, the largest of {}",
            percent(self.confidence),
            percent(self.covered),
            self.largest,
            self.count
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counting(n: u64) -> Sample {
        (1..=n).collect()
    }

    #[test]
    fn too_few_samples_say_how_many_more() {
        let interval = quantile_interval(&counting(1_000), 0.999, 0.95).unwrap();
        assert_eq!(interval.high, Bound::Unbounded { needs_more: Some(2_688) });
        assert_eq!(
            interval.to_string(),
            "99.9 % quantile of 1000 samples: 999, with 95 % confidence from 997 to unbounded: needs 2688 more \
             samples"
        );
        assert_eq!(
            quantile_upper(&counting(2_994), 0.999, 0.95).to_string(),
            "unbounded: needs 1 more sample"
        );
        assert_eq!(quantile_upper(&counting(2_995), 0.999, 0.95), Bound::At(2_995));
        assert_eq!(quantile_lower(&counting(2_995), 0.001, 0.95), Bound::At(1));
        assert_eq!(quantile_upper(&counting(9), 1.0, 0.95).to_string(), "unbounded by any number of samples");
        let empty = quantile_interval(&Sample::default(), 0.5, 0.95).unwrap();
        assert_eq!((empty.estimate, empty.low), (None, Bound::Unbounded { needs_more: Some(6) }));
        assert_eq!(quantile_interval(&counting(9), f64::NAN, 0.95), None);
    }

    #[test]
    fn the_statement_of_wilks() {
        let said = largest_value(&counting(29_956), 0.95).unwrap().to_string();
        assert_eq!(
            said,
            "with 95 % confidence at least 99.990 % are no later than 29956, the largest of 29956"
        );
        let one_fewer = largest_value(&counting(29_955), 0.95).unwrap();
        assert!(one_fewer.covered < 0.9999 && one_fewer.to_string().contains("99.98 %"), "{one_fewer}");
        assert_eq!(largest_value(&Sample::default(), 0.95), None);
    }

    #[test]
    fn percentages_are_not_rounded_up() {
        for (fraction, text) in [
            (0.5, "50 %"),
            (0.95, "95 %"),
            (0.999, "99.9 %"),
            (0.9999, "99.99 %"),
            (0.99999, "99.999 %"),
            (0.99899, "99.8 %"),
            (0.001, "0.1 %"),
            (0.0, "0 %"),
            (1.0, "100 %"),
        ] {
            assert_eq!(percent(fraction), text);
        }
    }

    proptest! {
        /// The interval of a histogram covers the interval of the exact values.
        #[test]
        fn a_histogram_widens_the_interval(
            values in prop::collection::vec(0..(1u64 << 39), 1..300),
            q in 0.0..=1.0f64,
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|&v| histogram.record(v));
            let exact = quantile_interval(&Sample::new(values), q, 0.9).unwrap();
            let rough = quantile_interval(&histogram, q, 0.9).unwrap();
            for (rough, exact, outward) in [(rough.low, exact.low, -1i8), (rough.high, exact.high, 1)] {
                match (rough.value(), exact.value()) {
                    (Some(rough), Some(exact)) if outward < 0 => prop_assert!(rough <= exact),
                    (Some(rough), Some(exact)) => prop_assert!(rough >= exact),
                    (rough, exact) => prop_assert_eq!(rough, exact),
                }
            }
        }

        /// The two one-sided bounds mirror each other.
        #[test]
        fn lower_bounds_mirror_upper_ones(n in 1u64..2_000, q in 0.01..0.99f64) {
            let values = counting(n);
            let mirrored = quantile_upper(&values, 1.0 - q, 0.95).value().map(|value| n + 1 - value);
            prop_assert_eq!(quantile_lower(&values, q, 0.95).value(), mirrored);
        }
    }
}
