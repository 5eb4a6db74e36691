//! Extreme values: how far may the tail reach beyond what was seen? An answer, or a refusal with its reason.
//!
//! | file | what |
//! |---|---|
//! | `gev` | the generalised extreme value distribution and its fit to block maxima |
//! | `gpd` | the generalised Pareto distribution and its fit to excesses over a threshold |
//! | `cluster` | the extremal index and the declustering of exceedances |
//! | `goodness` | Anderson-Darling with estimated parameters |
//! | `minimise` | the search both fits and both profile likelihoods use |
//!
//! A fit always gives numbers; they mean something only when the run is stationary, its maxima are independent
//! and the distribution fits. [`peaks_over_threshold`] and [`block_maxima`] check these three in this order and
//! refuse at the first that fails ([`Refusal`]): an extrapolation without them is worse than none. Theory: S.
//! Coles, An Introduction to Statistical Modeling of Extreme Values, 2001, chapters 3 to 5.
//!
//! *Threshold.* Candidates leave a tenth, a twentieth, a fortieth ... of the samples above, at most
//! [`MOST_PEAKS`] and at least [`FEWEST_PEAKS`] clusters of them; the lowest whose fit is not rejected is taken
//! (after Choulakian and Stephens, Technometrics 43, 2001).
//!
//! Even when nothing is rejected the tail is *modelled* there, not observed: no verdict of Surety is built on
//! it, as [`crate::bounds`] needs no model.

mod cluster;
mod gev;
mod goodness;
mod gpd;
mod minimise;

pub use cluster::{Clusters, decluster, extremal_index};
pub use gev::{Gev, GevFit};
pub use goodness::{Goodness, REPLICATES};
pub use gpd::{Gpd, GpdFit};

use std::fmt;

use thiserror::Error;

use crate::assumption::{Assumption, Finding};
use crate::correlation::independence_finding;
use crate::stationarity::stationarity_finding;

/// The fewest clusters of exceedances, or block maxima, a tail is fitted to.
pub const FEWEST_PEAKS: usize = 50;

/// The most exceedances a tail is fitted to; a higher threshold is taken instead.
pub const MOST_PEAKS: usize = 1_000;

/// Why there is no extrapolation.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("no extrapolation beyond the largest value seen: {finding}")]
pub struct Refusal {
    /// The assumption that failed, or could not be checked.
    pub finding: Finding,
}

impl Refusal {
    fn unless(finding: Finding) -> Result<Finding, Refusal> {
        if finding.holds() { Ok(finding) } else { Err(Refusal { finding }) }
    }
}

/// A level of the tail with its profile likelihood interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The level.
    pub estimate: f64,
    /// The lower end; `None` when the likelihood never falls far enough.
    pub low: Option<f64>,
    /// The upper end; `None` when the likelihood never falls far enough: unbounded.
    pub high: Option<f64>,
    /// The confidence asked.
    pub confidence: f64,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |end: Option<f64>| end.map_or("unbounded".to_string(), |end| format!("{end:.4}"));
        write!(
            f,
            "{:.4}, with {} % confidence between {} and {} (profile likelihood)",
            self.estimate,
            (self.confidence * 1e4 + 1e-6).floor() / 100.0,
            text(self.low),
            text(self.high)
        )
    }
}

/// A tail fitted to the peaks over a threshold, with the checks that let it stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail {
    /// The fit to the excesses of the peaks.
    pub fit: GpdFit,
    /// How many samples there were.
    pub samples: u64,
    /// How many exceeded the threshold.
    pub exceedances: u64,
    /// How many clusters they came in; the fit has one peak of each.
    pub clusters: u64,
    /// The extremal index: one over the mean size of clusters.
    pub extremal_index: f64,
    /// The checks that were passed.
    pub findings: Vec<Finding>,
}

impl Tail {
    /// The value one sample exceeds with this probability, and its interval.
    ///
    /// The fraction of samples above the threshold is taken as known. `None` when the value would lie below the
    /// threshold or the probability is not positive. Panics unless `0 < confidence < 1`.
    pub fn level(&self, probability: f64, confidence: f64) -> Option<Level> {
        let above = self.exceedances as f64 / self.samples as f64;
        (probability > 0.0 && probability < above).then(|| self.fit.level(above / probability, confidence))
    }

    /// The probability that one sample exceeds a value above the threshold; `None` below it.
    pub fn exceedance(&self, value: f64) -> Option<f64> {
        let above = self.exceedances as f64 / self.samples as f64;
        let excess = value - self.fit.threshold;
        (excess >= 0.0).then(|| above * self.fit.gpd.tail(excess))
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "generalised Pareto tail above {} ({} of {} samples in {} clusters): scale {:.4}, shape {:.4}",
            self.fit.threshold,
            self.exceedances,
            self.samples,
            self.clusters,
            self.fit.gpd.scale,
            self.fit.gpd.shape
        )
    }
}

/// Fits the tail of a run, in the order it was taken, beyond a threshold the samples choose.
///
/// The seed is for the goodness of fit. Takes a few seconds at most, whatever the run. Panics unless
/// `0 < confidence < 1`.
pub fn peaks_over_threshold(samples: &[f64], confidence: f64, seed: u64) -> Result<Tail, Refusal> {
    let have = samples.len() as u64;
    let need = 10 * FEWEST_PEAKS as u64;
    if have < need {
        return Err(Refusal { finding: Finding::too_few(Assumption::Fit, have, need) });
    }
    let stationary = Refusal::unless(stationarity_finding(samples, confidence))?;
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut refusal = None;
    let mut above = (samples.len() / 10).min(MOST_PEAKS);
    while above >= FEWEST_PEAKS {
        match tail_above(samples, sorted[above], confidence, seed) {
            Ok(mut tail) => {
                tail.findings.insert(0, stationary);
                return Ok(tail);
            }
            // The reason at the highest threshold that could be judged is the one that counts.
            Err(failed) if refusal.is_none() || failed.finding.assumption != Assumption::Fit => {
                refusal = Some(failed);
            }
            Err(failed) if failed.finding.outcome == crate::assumption::Outcome::Rejected => {
                refusal = Some(failed);
            }
            Err(_) => {}
        }
        above /= 2;
    }
    Err(refusal.unwrap_or(Refusal { finding: Finding::too_few(Assumption::Fit, have, need) }))
}

fn tail_above(samples: &[f64], threshold: f64, confidence: f64, seed: u64) -> Result<Tail, Refusal> {
    let clusters = decluster(samples, threshold);
    let peaks = clusters.peaks.len() as u64;
    let too_few = || Refusal { finding: Finding::too_few(Assumption::Fit, peaks, FEWEST_PEAKS as u64) };
    if clusters.peaks.len() < FEWEST_PEAKS {
        return Err(too_few());
    }
    let independent = Refusal::unless(independence_finding(&clusters.peaks, confidence))?;
    let fit = GpdFit::new(&clusters.peaks, threshold).ok_or_else(too_few)?;
    let fits = Refusal::unless(fit.goodness(seed).finding(confidence))?;
    Ok(Tail {
        fit,
        samples: samples.len() as u64,
        exceedances: clusters.exceedances,
        clusters: peaks,
        extremal_index: clusters.extremal_index,
        findings: vec![independent, fits],
    })
}

/// A distribution fitted to the maxima of blocks, with the checks that let it stand.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockMaxima {
    pub fit: GevFit,
    /// How many samples make a block.
    pub block: u64,
    /// The checks that were passed.
    pub findings: Vec<Finding>,
}

/// Fits the distribution of the largest of `block` samples to the maxima of the whole blocks of a run.
///
/// The seed is for the goodness of fit. Panics unless `0 < confidence < 1`.
pub fn block_maxima(
    samples: &[f64],
    block: usize,
    confidence: f64,
    seed: u64,
) -> Result<BlockMaxima, Refusal> {
    let block = block.max(1);
    let blocks = samples.chunks_exact(block);
    let maxima: Vec<f64> =
        blocks.map(|values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
    let too_few = || {
        let need = (FEWEST_PEAKS as u64).saturating_mul(block as u64);
        Refusal { finding: Finding::too_few(Assumption::Fit, samples.len() as u64, need) }
    };
    if maxima.len() < FEWEST_PEAKS {
        return Err(too_few());
    }
    let stationary = Refusal::unless(stationarity_finding(&maxima, confidence))?;
    let independent = Refusal::unless(independence_finding(&maxima, confidence))?;
    let fit = GevFit::new(&maxima).ok_or_else(too_few)?;
    let fits = Refusal::unless(fit.goodness(seed).finding(confidence))?;
    Ok(BlockMaxima { fit, block: block as u64, findings: vec![stationary, independent, fits] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Pcg;

    fn exponential(n: usize, run: u64) -> Vec<f64> {
        let mut pcg = Pcg::for_job(91, 6, run);
        (0..n).map(|_| -libm::log(pcg.unit_open())).collect()
    }

    /// An exponential tail has shape 0 and a known level.
    #[test]
    fn an_exponential_tail_is_extrapolated() {
        let runs = 8;
        let mut covered = 0;
        let mut answered = 0;
        for run in 0..runs {
            if let Ok(tail) = peaks_over_threshold(&exponential(2_000, run), 0.99, 1) {
                let level = tail.level(1e-5, 0.95).unwrap();
                let truth = -libm::log(1e-5);
                answered += 1;
                covered +=
                    u32::from(level.low.unwrap() <= truth && level.high.is_none_or(|high| truth <= high));
                assert!(tail.extremal_index > 0.7 && tail.findings.len() == 3, "{tail}");
                let back = tail.exceedance(level.estimate).unwrap();
                assert!((back / 1e-5 - 1.0).abs() < 1e-9, "{back}");
                assert!(tail.level(0.9, 0.95).is_none() && tail.exceedance(-1.0).is_none());
            }
        }
        assert!(answered >= 6 && covered + 1 >= answered, "{answered} {covered}");
    }

    #[test]
    fn refusals_name_the_gate() {
        let short = peaks_over_threshold(&exponential(100, 1), 0.95, 1).unwrap_err().to_string();
        assert!(short.contains("needs 400 more samples"), "{short}");
        let drifting: Vec<f64> =
            exponential(2_000, 2).iter().enumerate().map(|(i, x)| x + i as f64 / 500.0).collect();
        let refused = peaks_over_threshold(&drifting, 0.95, 1).unwrap_err().to_string();
        assert!(refused.contains("stationarity is rejected"), "{refused}");
        // A tail in two lumps: nothing between 5 and 9, nothing above 10.
        let lumps: Vec<f64> = exponential(4_000, 3)
            .iter()
            .map(|x| if *x > 3.5 { 9.0 + (x - 3.5).min(1.0) } else { *x })
            .collect();
        let refused = peaks_over_threshold(&lumps, 0.95, 1).unwrap_err().to_string();
        assert!(refused.contains("goodness of fit"), "{refused}");
        let constant = peaks_over_threshold(&[3.0; 1_000], 0.95, 1).unwrap_err().to_string();
        assert!(constant.starts_with("no extrapolation beyond the largest value seen"), "{constant}");
        assert!(peaks_over_threshold(&[f64::NAN; 1_000], 0.95, 1).is_err());
        assert!(block_maxima(&exponential(100, 1), 10, 0.95, 1).is_err());
    }

    #[test]
    fn block_maxima_of_exponential_values() {
        let fitted =
            (0..5).find_map(|run| block_maxima(&exponential(4_000, run + 20), 40, 0.99, 1).ok()).unwrap();
        // The largest of 40 is Gumbel at ln 40 with scale 1.
        let Gev { location, scale, shape } = fitted.fit.gev;
        assert!((location - libm::log(40.0)).abs() < 0.4 && (scale - 1.0).abs() < 0.3, "{fitted:?}");
        assert!(shape.abs() < 0.3 && fitted.block == 40 && fitted.findings.len() == 3);
    }
}
