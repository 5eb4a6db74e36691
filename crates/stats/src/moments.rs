//! [`Moments`]: mean, variance, skewness and kurtosis of a stream in constant memory.
//!
//! One value updates the central sums `Mk = Σ (x - mean)^k` without ever forming `Σ x²`, whose difference
//! from `n mean²` loses every digit when the values are large and close together. The update is Welford
//! (1962) for the variance, carried to the fourth order by Terriberry (2007):
//!
//! ```text
//! δ = x - mean;   r = δ / n;   t = δ r (n - 1)
//! M4 += t r² (n² - 3n + 3) + 6 r² M2 - 4 r M3
//! M3 += t r (n - 2) - 3 r M2
//! M2 += t;   mean += r
//! ```
//!
//! Two streams merge by the pairwise formulas of Chan, Golub and LeVeque (1979), to the fourth order by Pébay
//! (Sandia report SAND2008-6212). Merging is exact in real arithmetic; the split changes only rounding.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Count, mean and central sums up to the fourth power, with the exact extremes.
///
/// Values must be finite: one that is not makes the mean and everything after it not a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "MomentsForm", into = "MomentsForm")]
pub struct Moments {
    count: u64,
    mean: f64,
    m2: f64,
    m3: f64,
    m4: f64,
    min: f64,
    max: f64,
}

impl Moments {
    /// No values yet.
    pub const fn new() -> Moments {
        Moments { count: 0, mean: 0.0, m2: 0.0, m3: 0.0, m4: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }

    /// Takes one finite value.
    #[inline]
    pub fn record(&mut self, value: f64) {
        self.count = self.count.saturating_add(1);
        let n = self.count as f64;
        let delta = value - self.mean;
        // The reciprocal does not wait for the mean so far, so the slow division is off the path from value
        // to value.
        let r = delta * (1.0 / n);
        let r2 = r * r;
        let term = delta * r * (n - 1.0);
        self.m4 += term * r2 * (n * n - 3.0 * n + 3.0) + 6.0 * r2 * self.m2 - 4.0 * r * self.m3;
        self.m3 += term * r * (n - 2.0) - 3.0 * r * self.m2;
        self.m2 += term;
        self.mean += r;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Takes every value `other` took, as if they had been recorded here.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let n = a + b;
        let delta = other.mean - self.mean;
        let r = delta / n;
        let r2 = r * r;
        let m4 = self.m4
            + other.m4
            + delta * r * r2 * a * b * (a * a - a * b + b * b)
            + 6.0 * r2 * (a * a * other.m2 + b * b * self.m2)
            + 4.0 * r * (a * other.m3 - b * self.m3);
        let m3 = self.m3 + other.m3 + delta * r2 * a * b * (a - b) + 3.0 * r * (a * other.m2 - b * self.m2);
        *self = Moments {
            count: self.count.saturating_add(other.count),
            mean: self.mean + r * b,
            m2: self.m2 + other.m2 + delta * r * a * b,
            m3,
            m4,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        };
    }

    /// How many values were taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The arithmetic mean; `None` without a value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The smallest value, exact; `None` without a value.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value, exact; `None` without a value.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }

    /// The unbiased sample variance `M2 / (n - 1)`; `None` below two values.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.m2 / (self.count - 1) as f64)
    }

    /// The variance of exactly these values, `M2 / n`; `None` without a value.
    pub fn population_variance(&self) -> Option<f64> {
        (self.count > 0).then(|| self.m2 / self.count as f64)
    }

    /// The square root of [`Moments::variance`]; `None` below two values.
    pub fn std_dev(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// The moment coefficient of skewness `g1 = (M3/n) / (M2/n)^(3/2)`; `None` when all values are equal.
    pub fn skewness(&self) -> Option<f64> {
        (self.m2 > 0.0).then(|| (self.count as f64).sqrt() * self.m3 / (self.m2 * self.m2.sqrt()))
    }

    /// The excess kurtosis `g2 = (M4/n) / (M2/n)² - 3`, zero for a normal distribution; `None` when all
    /// values are equal.
    pub fn excess_kurtosis(&self) -> Option<f64> {
        (self.m2 > 0.0).then(|| self.count as f64 * self.m4 / (self.m2 * self.m2) - 3.0)
    }
}

impl Default for Moments {
    fn default() -> Moments {
        Moments::new()
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Moments {
        let mut moments = Moments::new();
        values.into_iter().for_each(|value| moments.record(value));
        moments
    }
}

/// Why a stored form is not the moments of any values.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MomentsError {
    /// The extremes are there exactly when there are values.
    #[error("moments of {count} values must have a minimum and a maximum exactly when there are values")]
    Extremes {
        /// The stored number of values.
        count: u64,
    },
    /// The mean of values lies between the smallest and the largest of them.
    #[error("the mean {mean} does not lie between the minimum {min} and the maximum {max}")]
    Mean {
        /// The stored mean.
        mean: f64,
        /// The stored minimum.
        min: f64,
        /// The stored maximum.
        max: f64,
    },
    /// A sum of even powers is negative or not a number.
    #[error("the central sum {name} is {value}, but a sum of even powers is never negative")]
    Negative {
        /// `m2` or `m4`.
        name: &'static str,
        /// The stored sum.
        value: f64,
    },
}

/// The stored form: infinities have no place in JSON, so the extremes of nothing are absent.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MomentsForm {
    count: u64,
    mean: f64,
    m2: f64,
    m3: f64,
    m4: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
}

impl From<Moments> for MomentsForm {
    fn from(moments: Moments) -> MomentsForm {
        let Moments { count, mean, m2, m3, m4, .. } = moments;
        MomentsForm { count, mean, m2, m3, m4, min: moments.min(), max: moments.max() }
    }
}

impl TryFrom<MomentsForm> for Moments {
    type Error = MomentsError;

    fn try_from(form: MomentsForm) -> Result<Moments, MomentsError> {
        let MomentsForm { count, mean, m2, m3, m4, .. } = form;
        let (min, max) = match (count, form.min, form.max) {
            (0, None, None) => return Ok(Moments::new()),
            (1.., Some(min), Some(max)) => (min, max),
            _ => return Err(MomentsError::Extremes { count }),
        };
        // Rounding may carry the running mean of nearly equal values a little past an extreme.
        let slack = 1e-9 * min.abs().max(max.abs());
        if !(min - slack <= mean && mean <= max + slack && min <= max) {
            return Err(MomentsError::Mean { mean, min, max });
        }
        for (name, value) in [("m2", m2), ("m4", m4)] {
            if value.is_nan() || value < 0.0 {
                return Err(MomentsError::Negative { name, value });
            }
        }
        Ok(Moments { count, mean, m2, m3, m4, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assert_near(actual: f64, expected: f64, tolerance: f64, what: &str) {
        assert!(
            (actual - expected).abs() <= tolerance * expected.abs().max(1.0),
            "{what}: {actual} != {expected}"
        );
    }

    /// NIST Statistical Reference Datasets, univariate summary statistics: the certified values of the four
    /// sets made to defeat the textbook formula. Each of 2 to 4 is one centre value, then 500 pairs around
    /// it.
    #[test]
    fn nist_certified_values() {
        let alternating = |centre: f64, low: f64, high: f64| {
            let pairs = (0..1000).map(move |i| if i % 2 == 0 { low } else { high });
            std::iter::once(centre).chain(pairs).collect::<Moments>()
        };
        for (name, moments, mean, std_dev) in [
            ("NumAcc1", [10_000_001.0, 10_000_003.0, 10_000_002.0].into_iter().collect(), 10_000_002.0, 1.0),
            ("NumAcc2", alternating(1.2, 1.1, 1.3), 1.2, 0.1),
            ("NumAcc3", alternating(1_000_000.2, 1_000_000.1, 1_000_000.3), 1_000_000.2, 0.1),
            ("NumAcc4", alternating(10_000_000.2, 10_000_000.1, 10_000_000.3), 10_000_000.2, 0.1),
        ] {
            let moments: Moments = moments;
            assert_near(moments.mean().unwrap(), mean, 1e-14, name);
            // The data are decimals near 10^7, so their own rounding limits the deviation to about 8 digits.
            assert_near(moments.std_dev().unwrap(), std_dev, 2e-8, name);
        }
    }

    /// Zeros and ones are a Bernoulli variable, whose moments are closed forms of `p`.
    #[test]
    fn higher_moments_of_bernoulli_values() {
        for (ones, total) in [(1u32, 4u32), (1, 2), (2, 7), (99, 100)] {
            let p = f64::from(ones) / f64::from(total);
            let pq = p * (1.0 - p);
            let moments: Moments = (0..total).map(|i| f64::from(u8::from(i < ones))).collect();
            assert_near(moments.population_variance().unwrap(), pq, 1e-14, "variance");
            assert_near(moments.skewness().unwrap(), (1.0 - 2.0 * p) / pq.sqrt(), 1e-12, "skewness");
            assert_near(moments.excess_kurtosis().unwrap(), (1.0 - 6.0 * pq) / pq, 1e-12, "kurtosis");
        }
    }

    #[test]
    fn what_is_undefined_is_none() {
        let mut moments = Moments::new();
        assert_eq!((moments.mean(), moments.min(), moments.max()), (None, None, None));
        assert_eq!((moments.variance(), moments.population_variance()), (None, None));
        moments.record(3.0);
        assert_eq!((moments.mean(), moments.variance()), (Some(3.0), None));
        assert_eq!(moments.population_variance(), Some(0.0));
        moments.record(3.0);
        assert_eq!((moments.std_dev(), moments.skewness()), (Some(0.0), None));
        assert_eq!(moments.excess_kurtosis(), None);
    }

    #[test]
    fn stored_forms_are_read_back_or_refused() {
        for moments in [Moments::new(), [1.0, 2.5, -4.0].into_iter().collect()] {
            let text = serde_json::to_string(&moments).unwrap();
            assert_eq!(serde_json::from_str::<Moments>(&text).unwrap(), moments, "{text}");
        }
        for (text, why) in [
            (r#"{"count":1,"mean":0,"m2":0,"m3":0,"m4":0}"#, "must have a minimum"),
            (r#"{"count":0,"mean":0,"m2":0,"m3":0,"m4":0,"min":1,"max":1}"#, "must have a minimum"),
            (r#"{"count":2,"mean":9,"m2":0,"m3":0,"m4":0,"min":1,"max":2}"#, "the mean 9 does not lie"),
            (r#"{"count":2,"mean":1,"m2":-1,"m3":0,"m4":0,"min":1,"max":2}"#, "m2 is -1"),
        ] {
            let error = serde_json::from_str::<Moments>(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    /// The definition, in two passes, as the independent reference.
    fn central_sums(values: &[f64]) -> (f64, [f64; 3]) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let sum = |k: i32| values.iter().map(|x| (x - mean).powi(k)).sum::<f64>();
        (mean, [sum(2), sum(3), sum(4)])
    }

    proptest! {
        /// One pass equals the two-pass definition, and so does a merge of any two parts.
        #[test]
        fn any_split_merges_to_the_whole(
            values in prop::collection::vec(-1e3..1e6f64, 1..120),
            at in any::<prop::sample::Index>(),
        ) {
            let (left, right) = values.split_at(at.index(values.len() + 1));
            let mut merged: Moments = left.iter().copied().collect();
            merged.merge(&right.iter().copied().collect());
            let (mean, sums) = central_sums(&values);
            let scale = values.iter().fold(1.0f64, |m, x| m.max(x.abs()));
            let n = values.len() as f64;
            for moments in [merged, values.iter().copied().collect()] {
                prop_assert_eq!(moments.count, values.len() as u64);
                prop_assert!((moments.mean - mean).abs() <= 1e-13 * scale * n);
                let powers = [scale * scale, scale.powi(3), scale.powi(4)];
                let actual = [moments.m2, moments.m3, moments.m4];
                for ((actual, expected), power) in actual.iter().zip(sums).zip(powers) {
                    prop_assert!((actual - expected).abs() <= 1e-12 * power * n, "{} {}", actual, expected);
                }
                prop_assert_eq!(moments.min, values.iter().copied().fold(f64::INFINITY, f64::min));
                prop_assert_eq!(moments.max, values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            }
        }
    }
}
