//! The generalised extreme value distribution: of the largest of many values (Fisher and Tippett 1928).
//!
//! ```text
//! F(x) = exp(-e^-t),   t = ln(1 + ξ (x - μ)/σ) / ξ        (ξ = 0: t = (x - μ)/σ, the Gumbel distribution)
//! ```
//!
//! Fitted by maximum likelihood from the L-moment estimates of Hosking, Wallis and Wood (Technometrics 27,
//! 1985), with the shape above -1, below which the likelihood has no maximum. Levels have profile likelihood
//! intervals: the location is written through the level, and scale and shape are searched anew for each.

use super::Level;
use super::goodness::{Goodness, anderson_darling, bootstrap};
use super::minimise::{allowed_fall, minimise, profile_end};

/// A generalised extreme value distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gev {
    /// `μ`, in the unit of the values.
    pub location: f64,
    /// `σ > 0`, in the unit of the values.
    pub scale: f64,
    /// `ξ`: positive for a heavy tail, negative for one that ends.
    pub shape: f64,
}

/// `ln(1 + ξ s)/ξ`; `None` outside the support.
pub(super) fn reduced(s: f64, shape: f64) -> Option<f64> {
    if shape.abs() < 1e-9 {
        return Some(s);
    }
    (1.0 + shape * s > 0.0).then(|| libm::log1p(shape * s) / shape)
}

/// The inverse: `(e^(ξ t) - 1)/ξ`.
pub(super) fn unreduced(t: f64, shape: f64) -> f64 {
    if shape.abs() < 1e-9 { t } else { libm::expm1(shape * t) / shape }
}

impl Gev {
    /// The probability that the maximum is at most `x`.
    pub fn cdf(&self, x: f64) -> f64 {
        match reduced((x - self.location) / self.scale, self.shape) {
            Some(t) => libm::exp(-libm::exp(-t)),
            None if self.shape > 0.0 => 0.0,
            None => 1.0,
        }
    }

    /// The level the maximum of a block exceeds with this probability, strictly between 0 and 1.
    pub fn level(&self, probability: f64) -> f64 {
        let t = -libm::log(-libm::log1p(-probability));
        self.location + self.scale * unreduced(t, self.shape)
    }

    fn negative_log_likelihood(&self, maxima: &[f64]) -> f64 {
        if self.shape <= -1.0 {
            return f64::INFINITY;
        }
        let mut sum = maxima.len() as f64 * libm::log(self.scale);
        for &x in maxima {
            let Some(t) = reduced((x - self.location) / self.scale, self.shape) else {
                return f64::INFINITY;
            };
            sum += (1.0 + self.shape) * t + libm::exp(-t);
        }
        sum
    }
}

/// A generalised extreme value distribution fitted to maxima.
#[derive(Clone, Debug, PartialEq)]
pub struct GevFit {
    /// The distribution of greatest likelihood.
    pub gev: Gev,
    pub log_likelihood: f64,
    /// The maxima, ascending.
    maxima: Vec<f64>,
}

/// The first three L-moments of ascending values: `λ1`, `λ2`, and the ratio `τ3 = λ3/λ2`.
fn l_moments(sorted: &[f64]) -> (f64, f64, f64) {
    let n = sorted.len() as f64;
    let (mut b0, mut b1, mut b2) = (0.0, 0.0, 0.0);
    for (i, x) in sorted.iter().enumerate() {
        let i = i as f64;
        b0 += x / n;
        b1 += x * i / (n - 1.0) / n;
        b2 += x * i * (i - 1.0) / ((n - 1.0) * (n - 2.0)) / n;
    }
    let second = 2.0 * b1 - b0;
    (b0, second, (6.0 * b2 - 6.0 * b1 + b0) / second)
}

fn from_l_moments(sorted: &[f64]) -> Gev {
    let (mean, second, third) = l_moments(sorted);
    let c = 2.0 / (3.0 + third) - std::f64::consts::LN_2 / libm::log(3.0);
    // Hosking's k is the negative shape; a little off zero, where the formulas divide by it.
    let k = (7.8590 * c + 2.9554 * c * c).clamp(-0.9, 0.9);
    let k = if k.abs() < 1e-6 { 1e-6 } else { k };
    let gamma = libm::tgamma(1.0 + k);
    let scale = second * k / ((1.0 - libm::exp(-k * std::f64::consts::LN_2)) * gamma);
    Gev { location: mean - scale * (1.0 - gamma) / k, scale, shape: -k }
}

impl GevFit {
    /// Fits maxima; `None` below ten, or when they are equal or not finite.
    pub fn new(maxima: &[f64]) -> Option<GevFit> {
        let mut sorted = maxima.to_vec();
        sorted.sort_by(f64::total_cmp);
        let spread = sorted.last()? - sorted.first()?;
        if sorted.len() < 10 || !spread.is_finite() || spread <= 0.0 {
            return None;
        }
        let start = from_l_moments(&sorted);
        // A support that leaves out a value has no likelihood: then start from a Gumbel distribution.
        let (mean, second, _) = l_moments(&sorted);
        let gumbel_scale = second / std::f64::consts::LN_2;
        let gumbel =
            Gev { location: mean - 0.577_215_664_901_532_9 * gumbel_scale, scale: gumbel_scale, shape: 0.01 };
        let start = if start.negative_log_likelihood(&sorted).is_finite() { start } else { gumbel };
        let at = |x: &[f64; 3]| Gev { location: x[0], scale: libm::exp(x[1]), shape: x[2] };
        let (best, value) = minimise(
            [start.location, libm::log(start.scale), start.shape],
            [start.scale * 0.2, 0.2, 0.1],
            |x| at(x).negative_log_likelihood(&sorted),
        );
        value.is_finite().then(|| GevFit { gev: at(&best), log_likelihood: -value, maxima: sorted })
    }

    /// How many maxima were fitted.
    pub fn count(&self) -> u64 {
        self.maxima.len() as u64
    }

    /// The level the maximum of a block exceeds with this probability, with its profile likelihood interval.
    ///
    /// `None` unless the probability is strictly between 0 and 1. Panics unless `0 < confidence < 1`.
    pub fn level(&self, probability: f64, confidence: f64) -> Option<Level> {
        if !(probability > 0.0 && probability < 1.0) {
            return None;
        }
        let limit = allowed_fall(confidence) - self.log_likelihood;
        let t = -libm::log(-libm::log1p(-probability));
        let Gev { scale, shape, .. } = self.gev;
        let profile = |level: f64| {
            let at = |x: &[f64; 2]| {
                let scale = libm::exp(x[0]);
                Gev { location: level - scale * unreduced(t, x[1]), scale, shape: x[1] }
            };
            let start = [libm::log(scale), shape];
            minimise(start, [0.2, 0.1], |x| at(x).negative_log_likelihood(&self.maxima)).1
        };
        let estimate = self.gev.level(probability);
        let step = 0.05 * scale;
        Some(Level {
            estimate,
            low: profile_end(estimate, -step, limit, profile),
            high: profile_end(estimate, step, limit, profile),
            confidence,
        })
    }

    /// Does the distribution fit the maxima?
    pub fn goodness(&self, seed: u64) -> Goodness {
        let statistic = |gev: &Gev, sorted: &[f64]| {
            anderson_darling(sorted, |x| {
                let t = reduced((x - gev.location) / gev.scale, gev.shape).unwrap_or(f64::NAN);
                let below = -libm::exp(-t);
                (below, libm::log(-libm::expm1(below)))
            })
        };
        let gev = self.gev;
        bootstrap(
            self.maxima.len(),
            seed,
            statistic(&gev, &self.maxima),
            |u| gev.location + gev.scale * unreduced(-libm::log(-libm::log(u)), gev.shape),
            |drawn| GevFit::new(drawn).map(|fit| statistic(&fit.gev, &fit.maxima)),
        )
    }
}
