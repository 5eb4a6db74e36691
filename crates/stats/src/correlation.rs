//! Dependence of samples on those before them: autocorrelations, Ljung-Box, and what a run is really worth.
//!
//! Samples are in the order they were taken. [`crate::goodness::independence`] is the cheap check of
//! neighbours alone; this looks at many lags.
//!
//! ```text
//! r_k = Σ (x_i - m)(x_(i+k) - m) / Σ (x_i - m)²        |r_k| <= z/√n for independent samples (Bartlett 1946)
//! Q   = n (n + 2) Σ r_k² / (n - k)                     chi-square with h degrees (Ljung and Box 1978)
//! n_e = n / (1 + 2 Σ r_k)                              summed by Geyer's initial positive sequence (1992)
//! ```

use std::fmt;

use crate::assumption::{Assumption, Finding};
use crate::goodness::autocorrelation;
use crate::moments::Moments;
use crate::special::{chi_square_tail, normal_quantile};

/// Neighbours correlated more than this are called dependent, however many samples there are.
pub const DEPENDENT: f64 = 0.1;

/// The longest lag the effective sample size looks at: a burst longer than this counts as a change.
const LONGEST_LAG: usize = 1_000;

/// The fewest samples the autocorrelations of a run are judged by.
pub const FEWEST: u64 = 20;

/// The autocorrelations `r_1..r_k` of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Correlogram {
    /// `r_1, r_2, ...`.
    pub correlations: Vec<f64>,
    /// Independent samples keep each of them within plus and minus this with the confidence asked.
    pub bound: f64,
    /// How many samples there were.
    pub count: u64,
}

/// The autocorrelations of lags 1 to `lags` (fewer for short runs: at most `n - 1`).
///
/// `None` below two samples or when they do not vary. Takes `n · lags` steps. Panics unless
/// `0 < confidence < 1`.
pub fn correlogram(samples: &[f64], lags: usize, confidence: f64) -> Option<Correlogram> {
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is strictly between 0 and 1, not {confidence}"
    );
    let (centred, square_sum) = centred(samples)?;
    let correlations = (1..=lags.min(samples.len() - 1)).map(|k| lagged(&centred, k) / square_sum).collect();
    let bound = normal_quantile(0.5 + confidence / 2.0) / (samples.len() as f64).sqrt();
    Some(Correlogram { correlations, bound, count: samples.len() as u64 })
}

/// The deviations from the mean and the sum of their squares.
fn centred(samples: &[f64]) -> Option<(Vec<f64>, f64)> {
    let mean = samples.iter().copied().collect::<Moments>().mean()?;
    let centred: Vec<f64> = samples.iter().map(|x| x - mean).collect();
    let square_sum: f64 = centred.iter().map(|d| d * d).sum();
    (samples.len() > 1 && square_sum > 0.0 && square_sum.is_finite()).then_some((centred, square_sum))
}

fn lagged(centred: &[f64], lag: usize) -> f64 {
    centred.iter().zip(centred.iter().skip(lag)).map(|(x, y)| x * y).sum()
}

/// The portmanteau test of several autocorrelations at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LjungBox {
    /// `Q`.
    pub statistic: f64,
    /// How many lags were taken: the degrees of freedom.
    pub lags: u64,
    /// The probability of a `Q` at least as large from independent samples.
    pub p_value: f64,
}

impl Correlogram {
    /// Ljung and Box's test that all these autocorrelations are zero; `None` when there is none.
    pub fn ljung_box(&self) -> Option<LjungBox> {
        let n = self.count as f64;
        let lags = self.correlations.len();
        let sum: f64 =
            self.correlations.iter().enumerate().map(|(i, r)| r * r / (n - (i as f64 + 1.0))).sum();
        let statistic = n * (n + 2.0) * sum;
        let p_value = chi_square_tail(statistic, lags as f64);
        (lags > 0).then_some(LjungBox { statistic, lags: lags as u64, p_value })
    }

    /// The lags whose autocorrelation lies outside the bound.
    pub fn outside(&self) -> impl Iterator<Item = usize> + '_ {
        self.correlations.iter().enumerate().filter(|(_, r)| r.abs() > self.bound).map(|(i, _)| i + 1)
    }
}

/// How many independent samples the mean of these is worth.
///
/// Pairs `r_(2k) + r_(2k+1)` are summed as long as they are positive (Geyer, Statistical Science 7, 1992), up
/// to lag 1000; never more than `n`. `None` below two samples or when they do not vary.
pub fn effective_samples(samples: &[f64]) -> Option<f64> {
    let (centred, square_sum) = centred(samples)?;
    let n = samples.len();
    let mut sum = 0.0;
    for k in (0..n.min(LONGEST_LAG)).step_by(2) {
        let pair = (lagged(&centred, k) + lagged(&centred, k + 1)) / square_sum;
        if pair <= 0.0 {
            break;
        }
        sum += pair;
    }
    // Σ over pairs counts r_0 = 1 once: 1 + 2 Σ r_k = 2 Σ pairs - 1.
    let inflation = (2.0 * sum - 1.0).max(1.0);
    Some(n as f64 / inflation)
}

/// The dependence of neighbours, in words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dependence {
    /// The autocorrelation of neighbours.
    pub lag_one: f64,
    /// How many independent samples the mean of these is worth.
    pub effective: f64,
    /// How many samples there were.
    pub count: u64,
}

/// The dependence of neighbours and the effective sample size; `None` below two samples or when they do not
/// vary.
pub fn dependence(samples: &[f64]) -> Option<Dependence> {
    let lag_one = autocorrelation(samples, 1)?;
    Some(Dependence { lag_one, effective: effective_samples(samples)?, count: samples.len() as u64 })
}

impl Dependence {
    /// Whether neighbours are correlated by more than [`DEPENDENT`].
    pub fn is_dependent(&self) -> bool {
        self.lag_one > DEPENDENT
    }
}

impl fmt::Display for Dependence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dependence { lag_one, effective, count } = self;
        if self.is_dependent() {
            write!(
                f,
                "dependent data: lag-1 autocorrelation {lag_one:.3}, {count} samples count as about \
                 {effective:.0} independent ones, intervals for independent samples are too narrow"
            )
        } else {
            write!(f, "lag-1 autocorrelation {lag_one:.3}, not above {DEPENDENT}")
        }
    }
}

/// Whether samples, in the order they were taken, may be called independent.
///
/// Rejected when the lag-1 autocorrelation exceeds [`DEPENDENT`] and its bound, or when Ljung-Box over
/// `min(20, n/5)` lags is rejected at this confidence. Samples that do not vary are independent. Panics
/// unless `0 < confidence < 1`.
pub fn independence_finding(samples: &[f64], confidence: f64) -> Finding {
    let n = samples.len() as u64;
    if n < FEWEST {
        return Finding::too_few(Assumption::Independence, n, FEWEST);
    }
    if samples.iter().any(|x| !x.is_finite()) {
        return Finding::checked(Assumption::Independence, false, "a sample is not finite".to_string());
    }
    let tested = correlogram(samples, (samples.len() / 5).min(20), confidence);
    let Some((correlogram, test)) = tested.and_then(|c| c.ljung_box().map(|test| (c, test))) else {
        let reason = format!("all {n} samples are equal");
        return Finding::checked(Assumption::Independence, true, reason);
    };
    let lag_one = correlogram.correlations.first().copied().unwrap_or(0.0);
    let strong = lag_one > DEPENDENT && lag_one > correlogram.bound;
    let words = if strong { "dependent data: " } else { "" };
    let reason = format!(
        "{words}lag-1 autocorrelation {lag_one:.3} (bound {:.3}), Ljung-Box over {} lags p = {:.4}",
        correlogram.bound, test.lags, test.p_value
    );
    let holds = !strong && test.p_value >= 1.0 - confidence;
    Finding::checked(Assumption::Independence, holds, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assumption::Outcome;
    use crate::random::Pcg;

    fn autoregression(n: u64, coefficient: f64, run: u64) -> Vec<f64> {
        let mut pcg = Pcg::for_job(31, 2, run);
        let mut last = 0.0;
        (0..n)
            .map(|_| {
                last = coefficient * last + pcg.normal();
                last
            })
            .collect()
    }

    #[test]
    fn the_effective_number_of_an_autoregression() {
        for coefficient in [0.0, 0.3, 0.5, 0.9] {
            let samples = autoregression(40_000, coefficient, 1);
            let expected = 40_000.0 * (1.0 - coefficient) / (1.0 + coefficient);
            let found = effective_samples(&samples).unwrap();
            assert!((found / expected - 1.0).abs() < 0.2, "{coefficient}: {found} != {expected}");
        }
        let alternating: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert_eq!(effective_samples(&alternating), Some(100.0));
    }

    #[test]
    fn dependent_data_is_said_above_a_tenth() {
        let dependent = dependence(&autoregression(5_000, 0.3, 2)).unwrap();
        assert!(dependent.to_string().starts_with("dependent data: lag-1 autocorrelation 0."), "{dependent}");
        let chance = dependence(&autoregression(5_000, 0.0, 3)).unwrap();
        assert!(!chance.to_string().contains("dependent data"), "{chance}");
        let finding = independence_finding(&autoregression(5_000, 0.3, 2), 0.95);
        assert!(!finding.holds() && finding.to_string().contains("dependent data"), "{finding}");
        assert_eq!(independence_finding(&[1.0; 5], 0.95).outcome, Outcome::TooFew { needs_more: 15 });
        assert!(independence_finding(&[1.0; 50], 0.95).holds());
        assert!(!independence_finding(&[f64::NAN; 50], 0.95).holds());
        assert_eq!(dependence(&[]), None);
    }

    /// Dependence at a longer lag alone: neighbours are unrelated, Ljung-Box sees it.
    #[test]
    fn a_period_of_seven_is_seen() {
        let mut pcg = Pcg::for_job(4, 4, 4);
        let samples: Vec<f64> = (0..700).map(|i| pcg.normal() + if i % 7 == 0 { 2.0 } else { 0.0 }).collect();
        assert!(crate::goodness::independence(&samples, 0.99).unwrap().holds());
        assert!(!independence_finding(&samples, 0.99).holds());
        assert!(correlogram(&samples, 20, 0.99).unwrap().outside().any(|lag| lag == 7));
    }

    #[test]
    fn independent_runs_are_rejected_as_often_as_said() {
        let runs = 1_000u64;
        let p_values = (0..runs).map(|run| {
            let samples = autoregression(200, 0.0, run + 10);
            correlogram(&samples, 10, 0.95).unwrap().ljung_box().unwrap().p_value
        });
        let rejected = p_values.filter(|&p| p < 0.05).count() as f64 / runs as f64;
        assert!((rejected - 0.05).abs() < 0.025, "{rejected}");
    }
}
