//! Does a model fit the samples, and are the samples independent at all?
//!
//! *Fit.* The Kolmogorov-Smirnov statistic `D` is the largest distance between the empirical and the model's
//! distribution function. [`ks_p_value`] is for a model fixed in advance. Parameters estimated from the same
//! samples pull the model towards them: then `D` is smaller and that p-value far too large, so bad fits would
//! pass. [`lilliefors`] is the test of a normal distribution with estimated mean and variance (Lilliefors
//! 1967); take logarithms first for a log-normal one.
//!
//! *Independence.* Every interval of [`crate::intervals`] assumes it. [`independence`] checks the first
//! autocorrelation.

use std::cmp::Ordering;

use crate::moments::Moments;
use crate::special::{kolmogorov_tail, normal_cdf, normal_quantile};

/// The Kolmogorov-Smirnov statistic of ascending samples against a continuous distribution function.
///
/// `None` without samples, or when one of them or the function is not a number.
pub fn ks_statistic(sorted: &[f64], cdf: impl Fn(f64) -> f64) -> Option<f64> {
    debug_assert!(
        sorted.is_sorted_by(|a, b| a.partial_cmp(b) != Some(Ordering::Greater)),
        "the statistic needs ascending samples"
    );
    let n = sorted.len() as f64;
    let mut largest = None;
    for (below, &value) in sorted.iter().enumerate() {
        let model = cdf(value);
        if model.is_nan() {
            return None;
        }
        // The empirical function steps from `below / n` to `(below + 1) / n` here.
        let distance = ((below as f64 + 1.0) / n - model).max(model - below as f64 / n);
        largest = Some(distance.max(largest.unwrap_or(0.0)));
    }
    largest
}

/// The probability of a Kolmogorov-Smirnov statistic of at least `d` from `n` samples of the model itself.
///
/// Kolmogorov's limit with the small-sample argument `d (√n + 0.12 + 0.11/√n)` of M. A. Stephens (JASA 69,
/// 1974), which he gives for five samples and more. Only for a model without estimated parameters.
pub fn ks_p_value(d: f64, n: u64) -> f64 {
    let root = (n.max(1) as f64).sqrt();
    kolmogorov_tail(d * (root + 0.12 + 0.11 / root))
}

/// A test of the hypothesis that samples come from a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The Kolmogorov-Smirnov statistic: the largest distance between the two distribution functions.
    pub statistic: f64,
    /// The probability of a distance at least as large if the hypothesis is true.
    pub p_value: f64,
}

/// Lilliefors' test of ascending samples against the normal distribution with their own mean and standard
/// deviation.
///
/// `None` below four samples, or when they are all equal or not finite.
pub fn lilliefors(sorted: &[f64]) -> Option<Fit> {
    if sorted.len() < 4 {
        return None;
    }
    let moments: Moments = sorted.iter().copied().collect();
    let (mean, std_dev) = (moments.mean()?, moments.std_dev().filter(|&s| s > 0.0)?);
    let statistic = ks_statistic(sorted, |x| normal_cdf((x - mean) / std_dev))?;
    Some(Fit { statistic, p_value: lilliefors_p_value(statistic, sorted.len() as u64) })
}

/// The null distribution of `d (√n - 0.01 + 0.85/√n)`, the statistic as Stephens (1974) modifies it for
/// estimated mean and variance: the value exceeded with each probability. From a million simulated normal
/// samples of 200; his paper prints five of these points. The argument makes the distribution nearly the same
/// for all `n`: the values of 20 to 1000 samples differ from these by 3 % at most.
const LILLIEFORS: [(f64, f64); 20] = [
    (0.3671, 0.99),
    (0.4205, 0.95),
    (0.4540, 0.90),
    (0.5004, 0.80),
    (0.5380, 0.70),
    (0.5730, 0.60),
    (0.6083, 0.50),
    (0.6462, 0.40),
    (0.6894, 0.30),
    (0.7439, 0.20),
    (0.7790, 0.15),
    (0.8255, 0.10),
    (0.8993, 0.05),
    (0.9661, 0.025),
    (1.0466, 0.01),
    (1.1054, 0.005),
    (1.1616, 0.0025),
    (1.2283, 0.001),
    (1.2791, 0.0005),
    (1.3928, 0.0001),
];

/// The probability of a statistic of at least `d` from `n` normal samples whose mean and variance were
/// estimated.
///
/// Interpolated in the logarithm of the probability; beyond the last point, 0.0001, continued in a straight
/// line, which overstates it.
pub fn lilliefors_p_value(d: f64, n: u64) -> f64 {
    let root = (n.max(1) as f64).sqrt();
    let x = d * (root - 0.01 + 0.85 / root);
    if x <= LILLIEFORS[0].0 {
        return 1.0;
    }
    let above = LILLIEFORS.partition_point(|&(point, _)| point < x).min(LILLIEFORS.len() - 1);
    let ((x0, p0), (x1, p1)) = (LILLIEFORS[above - 1], LILLIEFORS[above]);
    let (ln_p0, ln_p1) = (libm::log(p0), libm::log(p1));
    libm::exp(ln_p0 + (x - x0) / (x1 - x0) * (ln_p1 - ln_p0))
}

/// The autocorrelation `r_k = Σ (x_i - m)(x_(i+k) - m) / Σ (x_i - m)²` of samples in the order they were
/// taken.
///
/// `None` when there are not more than `lag` samples or they do not vary.
pub fn autocorrelation(samples: &[f64], lag: usize) -> Option<f64> {
    let moments: Moments = samples.iter().copied().collect();
    let mean = moments.mean()?;
    let later = samples.get(lag..).filter(|later| !later.is_empty())?;
    let square_sum: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
    let lagged_sum: f64 = samples.iter().zip(later).map(|(x, y)| (x - mean) * (y - mean)).sum();
    (square_sum > 0.0).then(|| lagged_sum / square_sum)
}

/// What the first autocorrelation says about a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Independence {
    /// The autocorrelation of neighbours.
    pub lag_one: f64,
    /// Independent samples stay within plus and minus this with the confidence asked.
    pub bound: f64,
    /// How many independent samples the mean of these is worth.
    pub effective_samples: f64,
}

impl Independence {
    /// Whether neighbours are no more alike than chance makes them.
    pub fn holds(&self) -> bool {
        self.lag_one.abs() <= self.bound
    }
}

/// Checks the first autocorrelation of samples, in the order they were taken, against `z / √n` (Bartlett
/// 1946).
///
/// The effective number is `n (1 - r)/(1 + r)`, that of a first-order autoregression, never more than `n`. It
/// is the cheap check for the usual fault, a slow drift or a burst that spans activations; it does not see
/// dependence at longer lags only. `None` below two samples or when they do not vary. Panics unless
/// `0 < confidence < 1`.
pub fn independence(samples: &[f64], confidence: f64) -> Option<Independence> {
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is strictly between 0 and 1, not {confidence}"
    );
    let lag_one = autocorrelation(samples, 1)?;
    let n = samples.len() as f64;
    let bound = normal_quantile(0.5 + confidence / 2.0) / n.sqrt();
    let effective_samples = n * ((1.0 - lag_one) / (1.0 + lag_one)).min(1.0);
    Some(Independence { lag_one, bound, effective_samples })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Pcg;

    fn normal_sample(n: u64, run: u64) -> Vec<f64> {
        let mut pcg = Pcg::for_job(11, n, run);
        let mut sample: Vec<f64> = (0..n).map(|_| pcg.normal()).collect();
        sample.sort_by(f64::total_cmp);
        sample
    }

    #[test]
    fn the_statistic_is_the_largest_distance_on_either_side() {
        let uniform = |x: f64| x.clamp(0.0, 1.0);
        for (sample, d) in [
            (vec![0.5], 0.5),
            (vec![0.9], 0.9),
            (vec![0.25, 0.75], 0.25),
            (vec![0.1, 0.2, 0.3], 0.7),
            (vec![0.5, 0.5, 0.5, 0.5], 0.5),
        ] {
            assert!((ks_statistic(&sample, uniform).unwrap() - d).abs() < 1e-15, "{sample:?}");
        }
        assert_eq!(ks_statistic(&[], uniform), None);
        assert_eq!(ks_statistic(&[0.5, f64::NAN], uniform), None);
    }

    /// Stephens (1974), table 1: the percentage points of the statistic for a fixed model (case 0).
    #[test]
    fn fixed_model_percentage_points() {
        for (point, p) in [(1.138, 0.15), (1.224, 0.10), (1.358, 0.05), (1.480, 0.025), (1.628, 0.01)] {
            let n = 400u64;
            let d = point / (20.0 + 0.12 + 0.11 / 20.0);
            assert!((ks_p_value(d, n) - p).abs() < 0.01 * p, "{point}");
        }
    }

    /// Stephens (1974), table 1: the same for estimated mean and variance (case 3).
    #[test]
    fn estimated_normal_percentage_points() {
        for (point, p) in [(0.775, 0.15), (0.819, 0.10), (0.895, 0.05), (0.955, 0.025), (1.035, 0.01)] {
            let d = point / (10.0 - 0.01 + 0.85 / 10.0);
            let actual = lilliefors_p_value(d, 100);
            assert!((actual / p - 1.0).abs() < 0.16, "{point}: {actual} != {p}");
        }
    }

    /// p-values of true hypotheses are uniform, for short and for long runs: the two p-value functions are
    /// calibrated.
    #[test]
    fn p_values_of_true_hypotheses_are_uniform() {
        for n in [20u64, 200] {
            let runs = 3_000u64;
            let (mut fixed, mut estimated) = (Vec::new(), Vec::new());
            for run in 0..runs {
                let sample = normal_sample(n, run);
                fixed.push(ks_p_value(ks_statistic(&sample, normal_cdf).unwrap(), n));
                estimated.push(lilliefors(&sample).unwrap().p_value);
            }
            for (name, p_values) in [("fixed", fixed), ("estimated", estimated)] {
                for level in [0.01, 0.05, 0.1, 0.3, 0.5, 0.9] {
                    let rejected = p_values.iter().filter(|&&p| p <= level).count() as f64 / runs as f64;
                    let noise = 4.0 * (level * (1.0 - level) / runs as f64).sqrt();
                    assert!(
                        (rejected - level).abs() < noise + 0.02,
                        "{name}, n = {n}: {rejected} at {level}"
                    );
                }
            }
        }
    }

    /// The trap the correction is there for: with estimated parameters the uncorrected p-value hardly ever
    /// rejects.
    #[test]
    fn a_wrong_model_is_rejected_only_with_the_correction() {
        let mut pcg = Pcg::for_job(5, 5, 5);
        let mut sample: Vec<f64> = (0..60).map(|_| -libm::log(pcg.unit_open())).collect();
        sample.sort_by(f64::total_cmp);
        let fit = lilliefors(&sample).unwrap();
        assert!(fit.p_value < 0.01, "an exponential sample is not normal: {fit:?}");
        assert!(ks_p_value(fit.statistic, 60) > 5.0 * fit.p_value);
    }

    #[test]
    fn p_values_descend_between_one_and_zero() {
        for p_value in [ks_p_value, lilliefors_p_value] {
            let values: Vec<f64> = (0..=1000).map(|i| p_value(f64::from(i) / 1000.0, 50)).collect();
            assert!(values.is_sorted_by(|a, b| a >= b));
            assert!(
                values[0] == 1.0 && values[1000] < 1e-9 && values.iter().all(|p| (0.0..=1.0).contains(p))
            );
        }
    }

    #[test]
    fn too_few_or_equal_samples_have_no_fit() {
        assert_eq!((lilliefors(&[1.0, 2.0, 3.0]), lilliefors(&[2.0; 10])), (None, None));
        assert_eq!(lilliefors(&[1.0, 2.0, 3.0, f64::INFINITY]), None);
    }

    /// NIST Statistical Reference Datasets: the certified first autocorrelations of NumAcc1 and NumAcc2.
    #[test]
    fn nist_certified_autocorrelations() {
        let first = [10_000_001.0, 10_000_003.0, 10_000_002.0];
        let mut second = vec![1.2];
        (0..1000).for_each(|i| second.push(if i % 2 == 0 { 1.1 } else { 1.3 }));
        assert!((autocorrelation(&first, 1).unwrap() + 0.5).abs() < 1e-12);
        assert!((autocorrelation(&second, 1).unwrap() + 0.999).abs() < 1e-12);
        assert!((autocorrelation(&second, 0).unwrap() - 1.0).abs() < 1e-15);
        assert_eq!(
            (autocorrelation(&first, 3), autocorrelation(&[], 0), autocorrelation(&[1.0; 5], 1)),
            (None, None, None)
        );
    }

    #[test]
    fn a_drift_is_not_independent_and_chance_is() {
        let mut pcg = Pcg::for_job(3, 1, 4);
        let chance: Vec<f64> = (0..5_000).map(|_| pcg.normal()).collect();
        assert!(independence(&chance, 0.99).unwrap().holds());
        // A first-order autoregression with coefficient 1/2 is worth a third of its samples.
        let mut last = 0.0;
        let dependent: Vec<f64> = chance
            .iter()
            .map(|x| {
                last = 0.5 * last + x;
                last
            })
            .collect();
        let found = independence(&dependent, 0.99).unwrap();
        assert!(!found.holds() && (found.lag_one - 0.5).abs() < 0.05);
        assert!((found.effective_samples / 5_000.0 - 1.0 / 3.0).abs() < 0.05, "{found:?}");
        assert!(independence(&[1.0], 0.99).is_none());
    }
}
