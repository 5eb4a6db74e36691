//! Does the distribution stay the same during a run? KPSS, and Mann-Kendall for a trend.
//!
//! *KPSS* (Kwiatkowski, Phillips, Schmidt and Shin, Journal of Econometrics 54, 1992), level form: with the
//! partial sums `S_t` of the deviations from the mean and the long-run variance `s²` with Bartlett weights,
//!
//! ```text
//! η = Σ S_t² / (n² s²),     s² = γ_0 + 2 Σ (1 - j/(l+1)) γ_j,     l = floor(4 (n/100)^(1/4))
//! ```
//!
//! Stationary runs exceed the points of their table 1 with the probability given there. It is the test of a
//! level that wanders; neighbours may be correlated.
//!
//! *Mann-Kendall* (Mann 1945; Kendall 1975) counts rising against falling pairs: `S = Σ sign(x_j - x_i)` over
//! `i < j`, with the variance corrected for ties and `S` moved one towards zero. It uses only order, so
//! outliers do not matter, and needs independence. Pairs are counted by merging: `n log n` steps.

use crate::assumption::{Assumption, Finding};
use crate::moments::Moments;
use crate::special::normal_cdf;

/// The fewest samples stationarity is judged by.
pub const FEWEST: u64 = 30;

/// The level form of KPSS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kpss {
    /// `η`.
    pub statistic: f64,
    /// How many autocovariances were taken into the long-run variance.
    pub lags: u64,
    /// The probability of an `η` at least as large from a stationary run, interpolated in the published
    /// points and therefore within 0.01 and 0.10: the ends mean "at most" and "at least".
    pub p_value: f64,
}

/// Table 1 of the paper, level form: the statistic exceeded with each probability.
pub const KPSS_POINTS: [(f64, f64); 4] = [(0.347, 0.10), (0.463, 0.05), (0.574, 0.025), (0.739, 0.01)];

impl Kpss {
    /// The published critical value of a level between 0.01 and 0.10, linear between the points.
    pub fn critical_value(level: f64) -> f64 {
        let level = level.clamp(0.01, 0.10);
        for pair in KPSS_POINTS.windows(2) {
            let ((low, more), (high, less)) = (pair[0], pair[1]);
            if level >= less {
                return high + (level - less) / (more - less) * (low - high);
            }
        }
        KPSS_POINTS[3].0
    }
}

/// The level form of KPSS with `l = floor(4 (n/100)^(1/4))` lags.
///
/// `None` below two samples or when they do not vary or are not finite.
pub fn kpss(samples: &[f64]) -> Option<Kpss> {
    let quarter = (samples.len() as f64 / 100.0).sqrt().sqrt();
    kpss_with_lags(samples, (4.0 * quarter).floor() as usize)
}

/// The level form of KPSS with a chosen number of lags in the long-run variance.
///
/// `None` below two samples or when they do not vary or are not finite.
pub fn kpss_with_lags(samples: &[f64], lags: usize) -> Option<Kpss> {
    let mean = samples.iter().copied().collect::<Moments>().mean()?;
    let deviations: Vec<f64> = samples.iter().map(|x| x - mean).collect();
    let n = samples.len() as f64;
    let lags = lags.min(samples.len() - 1);
    let covariance =
        |lag: usize| deviations.iter().zip(deviations.iter().skip(lag)).map(|(x, y)| x * y).sum::<f64>() / n;
    let mut long_run = covariance(0);
    for lag in 1..=lags {
        long_run += 2.0 * (1.0 - lag as f64 / (lags as f64 + 1.0)) * covariance(lag);
    }
    let mut partial = 0.0;
    let mut square_sum = 0.0;
    for deviation in &deviations {
        partial += deviation;
        square_sum += partial * partial;
    }
    let statistic = square_sum / (n * n * long_run);
    if !(long_run > 0.0 && statistic.is_finite()) {
        return None;
    }
    let mut p_value = if statistic <= KPSS_POINTS[0].0 { 0.10 } else { 0.01 };
    for pair in KPSS_POINTS.windows(2) {
        let ((low, more), (high, less)) = (pair[0], pair[1]);
        if (low..high).contains(&statistic) {
            p_value = more + (statistic - low) / (high - low) * (less - more);
        }
    }
    Some(Kpss { statistic, lags: lags as u64, p_value })
}

/// The trend test of Mann and Kendall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannKendall {
    /// Rising pairs less falling pairs.
    pub s: i64,
    /// Kendall's `tau`-a: `S` by the number of pairs, between -1 and 1.
    pub tau: f64,
    /// The normal deviate, with ties and continuity corrected.
    pub z: f64,
    /// The two-sided probability of a trend at least as strong in independent samples without one.
    pub p_value: f64,
}

/// The trend test of Mann and Kendall; `None` below four samples, or when one is not a number.
///
/// Samples that are all equal have no trend: p is 1. At most 2^31 samples are taken.
pub fn mann_kendall(samples: &[f64]) -> Option<MannKendall> {
    if samples.len() < 4 || samples.len() > 1 << 31 || samples.iter().any(|x| x.is_nan()) {
        return None;
    }
    let n = samples.len() as i64;
    let mut values = samples.to_vec();
    let mut spare = values.clone();
    let falling = count_falling(&mut values, &mut spare);
    // `values` is sorted now: the pairs that tie are those within runs of equal values.
    let (mut tied, mut tie_term) = (0i64, 0.0);
    for equal in values.chunk_by(|a, b| a == b) {
        let t = equal.len() as i64;
        tied += t * (t - 1) / 2;
        let t = t as f64;
        tie_term += t * (t - 1.0) * (2.0 * t + 5.0);
    }
    let pairs = n * (n - 1) / 2;
    let s = pairs - tied - 2 * falling;
    let m = n as f64;
    let variance = (m * (m - 1.0) * (2.0 * m + 5.0) - tie_term) / 18.0;
    let z = if variance > 0.0 { (s - s.signum()) as f64 / variance.sqrt() } else { 0.0 };
    let p_value = (2.0 * normal_cdf(-z.abs())).min(1.0);
    Some(MannKendall { s, tau: s as f64 / pairs as f64, z, p_value })
}

/// Sorts, and counts the pairs that stood in falling order.
fn count_falling(values: &mut [f64], spare: &mut [f64]) -> i64 {
    if values.len() < 2 {
        return 0;
    }
    let middle = values.len() / 2;
    let (left, right) = values.split_at_mut(middle);
    let (spare_left, spare_right) = spare.split_at_mut(middle);
    let mut falling = count_falling(left, spare_left) + count_falling(right, spare_right);
    let (mut i, mut j) = (0, 0);
    for slot in spare.iter_mut() {
        let take_right = i == left.len() || (j < right.len() && right[j] < left[i]);
        if take_right {
            falling += (left.len() - i) as i64;
            *slot = right[j];
            j += 1;
        } else {
            *slot = left[i];
            i += 1;
        }
    }
    values.copy_from_slice(spare);
    falling
}

/// Whether a run, in the order it was taken, may be called stationary.
///
/// Rejected when KPSS or Mann-Kendall is, each at half the risk, so that a stationary run of independent
/// samples is rejected with at most `1 - confidence`. KPSS has published points for 0.10 to 0.01 only; a risk
/// beyond is taken as the nearest of them. Panics unless `0 < confidence < 1`.
pub fn stationarity_finding(samples: &[f64], confidence: f64) -> Finding {
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is strictly between 0 and 1, not {confidence}"
    );
    let n = samples.len() as u64;
    if n < FEWEST {
        return Finding::too_few(Assumption::Stationarity, n, FEWEST);
    }
    if samples.iter().any(|x| !x.is_finite()) {
        return Finding::checked(Assumption::Stationarity, false, "a sample is not finite".to_string());
    }
    let (Some(kpss), Some(trend)) = (kpss(samples), mann_kendall(samples)) else {
        let reason = format!("all {n} samples are equal");
        return Finding::checked(Assumption::Stationarity, true, reason);
    };
    let level = (1.0 - confidence) / 2.0;
    let critical = Kpss::critical_value(level);
    let holds = kpss.statistic < critical && trend.p_value >= level;
    let direction = match trend.s {
        _ if trend.p_value >= level => "no trend",
        s if s > 0 => "rising",
        _ => "falling",
    };
    let reason = format!(
        "KPSS {:.3} (critical value {critical:.3}, {} lags), Mann-Kendall tau {:.3}, p = {:.4} ({direction})",
        kpss.statistic, kpss.lags, trend.tau, trend.p_value
    );
    Finding::checked(Assumption::Stationarity, holds, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assumption::Outcome;
    use crate::random::Pcg;
    use proptest::prelude::*;

    fn chance(n: u64, run: u64) -> Vec<f64> {
        let mut pcg = Pcg::for_job(41, 3, run);
        (0..n).map(|_| pcg.normal()).collect()
    }

    #[test]
    fn chance_holds_a_trend_and_a_walk_do_not() {
        assert!(stationarity_finding(&chance(500, 1), 0.95).holds());
        let trend: Vec<f64> = chance(500, 2).iter().enumerate().map(|(i, x)| x + i as f64 / 250.0).collect();
        let finding = stationarity_finding(&trend, 0.95);
        assert!(!finding.holds() && finding.to_string().contains("(rising)"), "{finding}");
        let mut level = 0.0;
        let walk: Vec<f64> = chance(500, 3)
            .iter()
            .map(|x| {
                level += x;
                level
            })
            .collect();
        assert!(!stationarity_finding(&walk, 0.95).holds());
        assert_eq!(stationarity_finding(&[1.0; 9], 0.95).outcome, Outcome::TooFew { needs_more: 21 });
        assert!(stationarity_finding(&[1.0; 30], 0.95).holds());
    }

    #[test]
    fn stationary_runs_are_rejected_as_often_as_said() {
        let runs = 1_000u64;
        let rejected =
            (0..runs).filter(|&run| !stationarity_finding(&chance(200, run + 10), 0.95).holds()).count();
        assert!((10..75).contains(&rejected), "{rejected}");
    }

    #[test]
    fn critical_values_are_the_published_points() {
        for (value, level) in KPSS_POINTS {
            assert!((Kpss::critical_value(level) - value).abs() < 1e-12, "{level}");
        }
        assert_eq!(Kpss::critical_value(0.001), 0.739);
        assert_eq!(Kpss::critical_value(0.5), 0.347);
    }

    proptest! {
        /// The merge count is the definition.
        #[test]
        fn mann_kendall_is_the_sum_of_signs(values in prop::collection::vec(-4i8..4, 4..60)) {
            let samples: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
            let mut s = 0i64;
            for (i, a) in samples.iter().enumerate() {
                for b in &samples[i + 1..] {
                    s += i64::from(b > a) - i64::from(b < a);
                }
            }
            prop_assert_eq!(mann_kendall(&samples).unwrap().s, s);
        }
    }
}
