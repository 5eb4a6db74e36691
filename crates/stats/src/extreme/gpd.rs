//! The generalised Pareto distribution: of excesses over a high threshold (Pickands, Annals of Statistics 3,
//! 1975).
//!
//! ```text
//! P{Y > y} = e^-t,   t = ln(1 + ξ y/σ) / ξ        (ξ = 0: t = y/σ, the exponential distribution)
//! ```
//!
//! Fitted by maximum likelihood from the probability-weighted moments of Hosking and Wallis (Technometrics 29,
//! 1987), with the shape above -1, below which the likelihood has no maximum. Levels have profile likelihood
//! intervals: the scale is written through the level, and the shape is searched anew for each.

use super::Level;
use super::gev::{reduced, unreduced};
use super::goodness::{Goodness, anderson_darling, bootstrap};
use super::minimise::{allowed_fall, minimise, profile_end};

/// A generalised Pareto distribution of excesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpd {
    /// `σ > 0`, in the unit of the values.
    pub scale: f64,
    /// `ξ`: positive for a heavy tail, negative for one that ends.
    pub shape: f64,
}

impl Gpd {
    /// The probability that an excess is larger than `y >= 0`.
    pub fn tail(&self, y: f64) -> f64 {
        reduced(y / self.scale, self.shape).map_or(0.0, |t| libm::exp(-t).min(1.0))
    }

    /// The excess that one in `ratio >= 1` exceeds.
    pub fn level(&self, ratio: f64) -> f64 {
        self.scale * unreduced(libm::log(ratio), self.shape)
    }

    fn negative_log_likelihood(&self, excesses: &[f64]) -> f64 {
        if self.shape <= -1.0 {
            return f64::INFINITY;
        }
        let mut sum = excesses.len() as f64 * libm::log(self.scale);
        for &y in excesses {
            let Some(t) = reduced(y / self.scale, self.shape) else { return f64::INFINITY };
            sum += (1.0 + self.shape) * t;
        }
        sum
    }
}

/// A generalised Pareto distribution fitted to the excesses of values over a threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct GpdFit {
    /// The distribution of greatest likelihood.
    pub gpd: Gpd,
    pub threshold: f64,
    pub log_likelihood: f64,
    /// The excesses, ascending.
    excesses: Vec<f64>,
}

/// By probability-weighted moments `a_s = Σ (1 - p_i)^s y_i / n` with `p_i = (i - 0.35)/n`.
fn from_weighted_moments(sorted: &[f64]) -> Gpd {
    let n = sorted.len() as f64;
    let (mut a0, mut a1) = (0.0, 0.0);
    for (i, y) in sorted.iter().enumerate() {
        a0 += y / n;
        a1 += y * (1.0 - (i as f64 + 0.65) / n) / n;
    }
    let shape = (2.0 - a0 / (a0 - 2.0 * a1)).clamp(-0.5, 0.9);
    Gpd { scale: (a0 * (1.0 - shape)).max(f64::MIN_POSITIVE), shape }
}

impl GpdFit {
    /// Fits the values above the threshold; `None` below ten of them, or when their excesses are equal or not
    /// finite.
    pub fn new(values: &[f64], threshold: f64) -> Option<GpdFit> {
        let excesses = values.iter().filter(|&&x| x > threshold).map(|x| x - threshold);
        GpdFit::of_excesses(excesses.collect(), threshold)
    }

    fn of_excesses(mut sorted: Vec<f64>, threshold: f64) -> Option<GpdFit> {
        sorted.sort_by(f64::total_cmp);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        if sorted.len() < 10 || !last.is_finite() || first >= last {
            return None;
        }
        let start = from_weighted_moments(&sorted);
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        let start = if start.negative_log_likelihood(&sorted).is_finite() {
            start
        } else {
            Gpd { scale: mean, shape: 0.01 }
        };
        let at = |x: &[f64; 2]| Gpd { scale: libm::exp(x[0]), shape: x[1] };
        let (best, value) = minimise([libm::log(start.scale), start.shape], [0.2, 0.1], |x| {
            at(x).negative_log_likelihood(&sorted)
        });
        let fit = GpdFit { gpd: at(&best), threshold, log_likelihood: -value, excesses: sorted };
        value.is_finite().then_some(fit)
    }

    /// How many excesses were fitted.
    pub fn count(&self) -> u64 {
        self.excesses.len() as u64
    }

    /// The value that one in `ratio > 1` of those above the threshold exceeds, with its profile likelihood
    /// interval.
    ///
    /// Panics unless `0 < confidence < 1`.
    pub fn level(&self, ratio: f64, confidence: f64) -> Level {
        let limit = allowed_fall(confidence) - self.log_likelihood;
        let t = libm::log(ratio);
        let profile = |excess: f64| {
            if excess <= 0.0 {
                return f64::INFINITY;
            }
            let at = |x: &[f64; 1]| Gpd { scale: excess / unreduced(t, x[0]), shape: x[0] };
            // The shape that fits depends strongly on the level: begin from the best of a coarse row.
            let row = (-9..=20).map(|i| [f64::from(i) * 0.1]);
            let start = row
                .map(|x| (at(&x).negative_log_likelihood(&self.excesses), x))
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .map_or([self.gpd.shape], |(_, x)| x);
            minimise(start, [0.03], |x| at(x).negative_log_likelihood(&self.excesses)).1
        };
        let excess = self.gpd.level(ratio);
        let step = 0.05 * excess;
        let end = |step: f64| profile_end(excess, step, limit, profile).map(|y| self.threshold + y);
        Level { estimate: self.threshold + excess, low: end(-step), high: end(step), confidence }
    }

    /// Does the distribution fit the excesses?
    pub fn goodness(&self, seed: u64) -> Goodness {
        let statistic = |gpd: &Gpd, sorted: &[f64]| {
            anderson_darling(sorted, |y| {
                let t = reduced(y / gpd.scale, gpd.shape).unwrap_or(f64::NAN);
                (libm::log(-libm::expm1(-t)), -t)
            })
        };
        let gpd = self.gpd;
        bootstrap(
            self.excesses.len(),
            seed,
            statistic(&gpd, &self.excesses),
            |u| gpd.scale * unreduced(-libm::log(u), gpd.shape),
            |drawn| GpdFit::of_excesses(drawn.to_vec(), 0.0).map(|fit| statistic(&fit.gpd, &fit.excesses)),
        )
    }
}
