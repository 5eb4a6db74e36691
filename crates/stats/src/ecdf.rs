//! [`Ecdf`]: the empirical distribution function and the band the true one lies in.
//!
//! The band is that of Dvoretzky, Kiefer and Wolfowitz (1956) with the constant of Massart (Annals of
//! Probability 18, 1990): with probability `confidence` the true function of independent samples is nowhere
//! farther than
//!
//! ```text
//! ε = sqrt(ln(2 / (1 - confidence)) / (2 n))
//! ```
//!
//! from the empirical one. It holds for every distribution and for all values at once. For one quantile named
//! in advance the intervals of [`crate::bounds`] are far narrower in the tail.

use crate::sample::Sample;

/// The empirical distribution function of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ecdf {
    sample: Sample,
}

/// The half-width of the band that holds the whole distribution function with this confidence.
///
/// 1 without samples: nothing is known. Panics unless `0 < confidence < 1`.
pub fn dkw_half_width(n: u64, confidence: f64) -> f64 {
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is strictly between 0 and 1, not {confidence}"
    );
    if n == 0 {
        return 1.0;
    }
    (libm::log(2.0 / (1.0 - confidence)) / (2.0 * n as f64)).sqrt().min(1.0)
}

impl Ecdf {
    /// The empirical distribution function of these values.
    pub fn new(sample: Sample) -> Ecdf {
        Ecdf { sample }
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.sample.count()
    }

    /// The fraction of values that are at most `value`; 0 without values.
    pub fn at(&self, value: u64) -> f64 {
        self.sample.count_at_most(value) as f64 / self.count().max(1) as f64
    }

    /// The lower and the upper end of the band at `value`, within 0 and 1.
    ///
    /// Panics unless `0 < confidence < 1`.
    pub fn band(&self, value: u64, confidence: f64) -> (f64, f64) {
        let half_width = dkw_half_width(self.count(), confidence);
        let at = self.at(value);
        ((at - half_width).max(0.0), (at + half_width).min(1.0))
    }

    /// The steps, ascending: each value that occurred, and the fraction of values that are at most it.
    pub fn steps(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let n = self.count() as f64;
        let mut up_to = 0usize;
        self.sample.as_slice().chunk_by(|a, b| a == b).map(move |equal| {
            up_to += equal.len();
            (equal[0], up_to as f64 / n)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::ks_statistic;
    use crate::random::Pcg;

    #[test]
    fn steps_rise_to_one() {
        let ecdf = Ecdf::new([3u64, 1, 3, 7].into_iter().collect());
        assert_eq!(ecdf.steps().collect::<Vec<_>>(), [(1, 0.25), (3, 0.75), (7, 1.0)]);
        assert_eq!((ecdf.at(0), ecdf.at(2), ecdf.at(7)), (0.0, 0.25, 1.0));
        let empty = Ecdf::new(Sample::default());
        assert_eq!((empty.at(9), empty.band(9, 0.95), empty.steps().count()), (0.0, (0.0, 1.0), 0));
    }

    /// The figure that makes the band useless for a miss probability of 10^-4.
    #[test]
    fn the_band_needs_many_samples() {
        assert!((dkw_half_width(184_443_973, 0.95) - 1e-4).abs() < 1e-12);
        assert_eq!((dkw_half_width(0, 0.95), dkw_half_width(1, 0.95)), (1.0, 1.0));
    }

    /// The band misses the true function in at most 5 % of runs, with 3 standard errors of slack.
    #[test]
    fn the_band_covers() {
        let (runs, n) = (2_000u64, 50u64);
        let half_width = dkw_half_width(n, 0.95);
        let missed = (0..runs)
            .filter(|&run| {
                let mut pcg = Pcg::for_job(21, 7, run);
                let mut sample: Vec<f64> = (0..n).map(|_| pcg.unit_open()).collect();
                sample.sort_by(f64::total_cmp);
                ks_statistic(&sample, |x| x).unwrap() > half_width
            })
            .count() as f64;
        let allowed = 0.05 + 3.0 * (0.05 * 0.95 / runs as f64).sqrt();
        assert!(missed / runs as f64 <= allowed && missed > 0.0, "{missed}");
    }
}
