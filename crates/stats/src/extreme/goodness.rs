//! Does an extreme value distribution fit? Anderson-Darling with estimated parameters.
//!
//! ```text
//! A² = -n - 1/n Σ (2i - 1)(ln F(x_i) + ln(1 - F(x_(n+1-i))))
//! ```
//!
//! It weighs the tails most, where the extrapolation happens. The parameters come from the same values, so its
//! distribution is found by drawing from the fit, fitting again and looking how often `A²` is as large (the
//! parametric bootstrap of Stute, González Manteiga and Presedo Quindimil, Metrika 40, 1993). Chance is seeded.

use crate::assumption::{Assumption, Finding};
use crate::random::Pcg;

/// How many times the fit is drawn from: the smallest p-value is 1/200.
pub const REPLICATES: u64 = 199;

/// The test of Anderson and Darling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goodness {
    /// `A²`.
    pub statistic: f64,
    /// The probability of an `A²` at least as large when the distribution is the fitted one.
    pub p_value: f64,
    /// How many values were fitted.
    pub count: u64,
}

impl Goodness {
    /// Whether the fit is rejected at this confidence.
    pub fn finding(&self, confidence: f64) -> Finding {
        let reason = format!(
            "Anderson-Darling A² {:.3} over {} values, p = {:.3}",
            self.statistic, self.count, self.p_value
        );
        Finding::checked(Assumption::Fit, self.p_value >= 1.0 - confidence, reason)
    }
}

/// `A²` of ascending values, with the logarithms of both tails of the distribution.
pub(super) fn anderson_darling(sorted: &[f64], log_tails: impl Fn(f64) -> (f64, f64)) -> f64 {
    let n = sorted.len();
    let tails: Vec<(f64, f64)> = sorted.iter().map(|&x| log_tails(x)).collect();
    let sum: f64 = tails
        .iter()
        .zip(tails.iter().rev())
        .enumerate()
        .map(|(i, (low, high))| (2.0 * i as f64 + 1.0) * (low.0 + high.1))
        .sum();
    -(n as f64) - sum / n as f64
}

/// The p-value of a statistic by drawing `n` values through `quantile` and judging them by `refit`.
pub(super) fn bootstrap(
    n: usize,
    seed: u64,
    statistic: f64,
    quantile: impl Fn(f64) -> f64,
    refit: impl Fn(&[f64]) -> Option<f64>,
) -> Goodness {
    let mut drawn = vec![0.0; n];
    let mut as_large = 0u64;
    for replicate in 0..REPLICATES {
        let mut pcg = Pcg::for_job(seed, 1, replicate);
        drawn.iter_mut().for_each(|x| *x = quantile(pcg.unit_open()));
        // A draw that cannot be fitted speaks for neither; a statistic that is no number is as bad as any.
        if let Some(other) = refit(&drawn)
            && other >= statistic
        {
            as_large += 1;
        }
    }
    Goodness { statistic, p_value: (as_large + 1) as f64 / (REPLICATES + 1) as f64, count: n as u64 }
}
