//! [`Family`]: the parametric family of a sample, where a test does not reject it at 5 %.
//!
//! Parameters come from the sample itself, so the plain Kolmogorov-Smirnov test would accept nearly
//! everything. Used are: for normal and log-normal Lilliefors' test; for the exponential Stephens'
//! modification `(D - 0.2/n)(sqrt n + 0.26 + 0.5/sqrt n)` with his points (JASA 69, 1974); for the uniform
//! the samples strictly between the extremes, which given these are uniform between them, so that the plain
//! test is exact. Of the families that stand the likeliest is taken, one with a tail before the uniform.

use surety_model::distribution::TimeDistribution;
use surety_stats::Moments;
use surety_stats::goodness::{ks_p_value, ks_statistic, lilliefors};
use surety_stats::special::normal_quantile;
use surety_units::Nanos;

/// A family is rejected below this p-value.
pub const SIGNIFICANCE: f64 = 0.05;
/// Values this close together are constant: clocks and interrupt accounting are no better.
const CONSTANT: f64 = 5e-4;
/// Log-normal deviations from here on have no mean and 99 % quantile that give them back.
const LOG_DEVIATION_MAX: f64 = 2.3;

/// A family with its estimated parameters, in ns or ln ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Family {
    /// Always the same, up to what clocks show; the largest seen.
    Constant {
        /// Largest value.
        value: f64,
    },
    /// Between two limits.
    Uniform {
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    Normal {
        mean: f64,
        /// Standard deviation.
        std_dev: f64,
    },
    /// Normal logarithm.
    LogNormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    Exponential {
        mean: f64,
    },
}

/// A family that was not rejected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FamilyFit {
    pub family: Family,
    /// Probability of a distance at least as large if the family is true.
    pub p_value: f64,
    /// Samples the parameters come from.
    pub n: u64,
}

impl Family {
    /// Its word.
    pub fn word(&self) -> &'static str {
        match self {
            Family::Constant { .. } => "constant",
            Family::Uniform { .. } => "uniform",
            Family::Normal { .. } => "normal",
            Family::LogNormal { .. } => "log-normal",
            Family::Exponential { .. } => "exponential",
        }
    }

    /// The model's distribution with these parameters.
    pub fn distribution(&self) -> TimeDistribution {
        let ns = Nanos::from_f64_rounded;
        match *self {
            Family::Constant { value } => TimeDistribution::Constant(ns(value)),
            Family::Uniform { low, high } => TimeDistribution::Uniform { low: ns(low), high: ns(high) },
            Family::Normal { mean, std_dev } => {
                TimeDistribution::Normal { mean: ns(mean), std_dev: ns(std_dev) }
            }
            Family::LogNormal { mu, sigma } => TimeDistribution::LogNormal {
                mean: ns(libm::exp(mu + sigma * sigma / 2.0)),
                p99: ns(libm::exp(mu + sigma * normal_quantile(0.99))),
            },
            Family::Exponential { mean } => TimeDistribution::Exponential { mean: ns(mean) },
        }
    }
}

impl FamilyFit {
    /// The distribution with the estimated parameters.
    pub fn distribution(&self) -> TimeDistribution {
        self.family.distribution()
    }

    /// The distribution with every parameter at the one-sided upper limit of its own confidence interval: at
    /// least the truth at every quantile above the median, with about this confidence.
    ///
    /// Mean: `z s / sqrt n`; deviation: `z s / sqrt(2n)`, both of the large-sample normal law. Uniform: the
    /// largest of n is below `low + r (high - low)` with probability `r^n`.
    pub fn pessimistic(&self, confidence: f64) -> TimeDistribution {
        let n = self.n as f64;
        let z = normal_quantile(confidence);
        let (of_mean, of_deviation) = (z / n.sqrt(), 1.0 + z / (2.0 * n).sqrt());
        let family = match self.family {
            Family::Constant { value } => Family::Constant { value },
            Family::Uniform { low, high } => {
                Family::Uniform { low, high: low + (high - low) / libm::pow(1.0 - confidence, 1.0 / n) }
            }
            Family::Normal { mean, std_dev } => {
                Family::Normal { mean: mean + of_mean * std_dev, std_dev: std_dev * of_deviation }
            }
            Family::LogNormal { mu, sigma } => Family::LogNormal {
                mu: mu + of_mean * sigma,
                sigma: (sigma * of_deviation).min(LOG_DEVIATION_MAX),
            },
            Family::Exponential { mean } => Family::Exponential { mean: mean / (1.0 - of_mean).max(0.1) },
        };
        family.distribution()
    }
}

/// The likeliest family that is not rejected.
pub fn choose(values: &[Nanos]) -> Option<FamilyFit> {
    let mut sorted: Vec<f64> = values.iter().map(|v| v.get() as f64).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let (low, high) = (*sorted.first()?, *sorted.last()?);
    let fit = |family, p_value| FamilyFit { family, p_value, n: values.len() as u64 };
    if high - low <= (CONSTANT * high).max(1_000.0) {
        return Some(fit(Family::Constant { value: high }, 1.0));
    }
    let moments: Moments = sorted.iter().copied().collect();
    let (mean, std_dev) = (moments.mean()?, moments.std_dev()?);
    let mut standing: Vec<(f64, FamilyFit)> = Vec::new();
    let mut consider = |likelihood: f64, family: Family, p_value: f64| {
        if p_value >= SIGNIFICANCE {
            standing.push((likelihood, fit(family, p_value)));
        }
    };

    let inner: Vec<f64> = sorted.iter().copied().filter(|v| *v > low && *v < high).collect();
    if let Some(d) = ks_statistic(&inner, |x| (x - low) / (high - low)) {
        consider(
            -n * libm::log(high - low),
            Family::Uniform { low, high },
            ks_p_value(d, inner.len() as u64),
        );
    }
    // ln of sqrt(2 pi e), the constant of a normal likelihood at its own deviation.
    let normal = |deviation: f64| -n * (libm::log(deviation) + 1.418_938_533_204_672_7);
    if let Some(test) = lilliefors(&sorted) {
        consider(normal(std_dev), Family::Normal { mean, std_dev }, test.p_value);
    }
    if low > 0.0 {
        let logs: Vec<f64> = sorted.iter().map(|v| libm::log(*v)).collect();
        let moments: Moments = logs.iter().copied().collect();
        let (mu, sigma) = (moments.mean()?, moments.std_dev()?);
        if let Some(test) = lilliefors(&logs).filter(|_| sigma < LOG_DEVIATION_MAX) {
            consider(normal(sigma) - n * mu, Family::LogNormal { mu, sigma }, test.p_value);
        }
    }
    if let Some(d) = ks_statistic(&sorted, |x| -libm::expm1(-x / mean)) {
        consider(-n * (1.0 + libm::log(mean)), Family::Exponential { mean }, exponential_p_value(d, n));
    }
    // A uniform ends at the largest value seen, and few values look uniform by chance: where a family with a tail stands
    // too, it is taken, because a reservation is sized by the tail.
    let has_tail = |fit: &FamilyFit| !matches!(fit.family, Family::Uniform { .. });
    let likelier = |a: &(f64, FamilyFit), b: &(f64, FamilyFit)| {
        has_tail(&a.1).cmp(&has_tail(&b.1)).then(a.0.total_cmp(&b.0))
    };
    standing.into_iter().max_by(likelier).map(|(_, fit)| fit)
}

/// Stephens' points of the exponential test with estimated mean: statistic, probability.
const EXPONENTIAL: [(f64, f64); 5] =
    [(0.926, 0.15), (0.990, 0.10), (1.094, 0.05), (1.190, 0.025), (1.308, 0.01)];

/// Interpolated in the logarithm; beyond the points continued in a straight line, up to one.
pub(crate) fn exponential_p_value(d: f64, n: f64) -> f64 {
    let x = (d - 0.2 / n) * (n.sqrt() + 0.26 + 0.5 / n.sqrt());
    let above = EXPONENTIAL.partition_point(|(point, _)| *point < x).clamp(1, EXPONENTIAL.len() - 1);
    let ((x0, p0), (x1, p1)) = (EXPONENTIAL[above - 1], EXPONENTIAL[above]);
    let (ln0, ln1) = (libm::log(p0), libm::log(p1));
    libm::exp(ln0 + (x - x0) / (x1 - x0) * (ln1 - ln0)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(work: &TimeDistribution, seed: u64, n: u64) -> Vec<Nanos> {
        (0..n).map(|k| work.draw(seed, "t", k)).collect()
    }

    #[test]
    fn few_values_are_not_taken_to_end_where_they_were_seen_to_end() {
        let ms = Nanos::from_millis;
        let work = TimeDistribution::LogNormal { mean: ms(14), p99: ms(22) };
        let bounded = (0..200).filter(|seed| {
            let fit = choose(&drawn(&work, *seed, 50));
            fit.is_some_and(|f| matches!(f.family, Family::Uniform { .. }))
        });
        assert!(bounded.count() <= 4);
    }

    #[test]
    fn each_family_is_recognised_and_a_mixture_is_none() {
        let ms = Nanos::from_millis;
        for (work, word) in [
            (TimeDistribution::Constant(ms(5)), "constant"),
            (TimeDistribution::Uniform { low: ms(5), high: ms(20) }, "uniform"),
            (TimeDistribution::Normal { mean: ms(14), std_dev: ms(2) }, "normal"),
            (TimeDistribution::LogNormal { mean: ms(14), p99: ms(40) }, "log-normal"),
            (TimeDistribution::Exponential { mean: ms(6) }, "exponential"),
        ] {
            let found = choose(&drawn(&work, 3, 1_000)).expect("not rejected");
            assert_eq!(found.family.word(), word, "{found:?}");
            let at = |w: &TimeDistribution| w.quantile(0.9).get() as f64;
            assert!((at(&found.distribution()) / at(&work) - 1.0).abs() < 0.08, "{found:?}");
            assert!(at(&found.pessimistic(0.95)) >= at(&found.distribution()));
        }
        let two: Vec<Nanos> =
            (0..600).map(|k| ms(if k % 3 == 0 { 20 } else { 5 }) + Nanos::from_micros(k % 97)).collect();
        assert_eq!(choose(&two), None);
    }

    #[test]
    fn a_true_family_is_rejected_about_as_often_as_said() {
        // 200 samples of 200: 5 % is 10, with a deviation of 3.1.
        for work in [
            TimeDistribution::Normal { mean: Nanos::from_millis(14), std_dev: Nanos::from_millis(2) },
            TimeDistribution::Exponential { mean: Nanos::from_millis(6) },
        ] {
            let rejected = (0..200).filter(|seed| choose(&drawn(&work, *seed, 200)).is_none()).count();
            assert!(rejected <= 20, "{work:?}: {rejected} of 200");
        }
    }

    #[test]
    fn pessimistic_quantiles_cover_the_truth() {
        let work = TimeDistribution::LogNormal { mean: Nanos::from_millis(14), p99: Nanos::from_millis(22) };
        let covered = |seed: &u64| {
            let fit = choose(&drawn(&work, *seed, 300)).map(|f| f.pessimistic(0.95));
            fit.is_none_or(|f| f.quantile(0.999) >= work.quantile(0.999))
        };
        let n = (0..100).filter(covered).count();
        assert!(n >= 93, "{n} of 100");
    }
}
