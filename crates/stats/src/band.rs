//! [`lower_band`]: what independent samples say about the whole distribution function at once, from below.
//!
//! An analysis that is fed a distribution needs every probability of it to be safe together. Two ways, both whatever the
//! distribution:
//!
//! - [`Method::Dkw`]: everywhere `F(x) >= F_n(x) - sqrt(ln(1/α) / (2n))` with confidence `1 - α >= 1/2` (Dvoretzky, Kiefer
//!   and Wolfowitz 1956, one-sided, with the constant of Massart, Annals of Probability 18, 1990). Equally wide
//!   everywhere, so it says nothing about a tail smaller than that.
//! - [`Method::ClopperPearson`]: at ranks fixed beforehand, `F(x(r)) >= 1 - u` with u the upper limit of Clopper and
//!   Pearson (Biometrika 26, 1934) after `n - r` failures in n, each at `α/m` for m ranks (Bonferroni). Narrow in the
//!   tail, where promises are decided.
//!
//! Which of them is used must not depend on the samples: [`Method::sharper_at`] chooses by their number alone.

use crate::bounds::Ranked;
use crate::intervals::failure_upper;

/// Ranks of the body that a band keeps beside those of the tail.
const BODY_RANKS: u64 = 256;
/// The same for [`Method::ClopperPearson`], where each rank costs confidence.
const BODY_RANKS_BOUGHT: u64 = 16;

/// How a band is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Dvoretzky, Kiefer, Wolfowitz, with Massart's constant.
    Dkw,
    /// Clopper and Pearson at chosen ranks.
    ClopperPearson,
}

/// One point of a band.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// A value of the samples; of a histogram the largest it can have been.
    pub value: u64,
    /// With the confidence of the band: `P{X <= value}` is at least this.
    pub at_least: f64,
}

impl Method {
    /// Its name, for results.
    pub fn name(self) -> &'static str {
        match self {
            Method::Dkw => "Dvoretzky-Kiefer-Wolfowitz (Massart)",
            Method::ClopperPearson => "Clopper-Pearson at fixed ranks (Bonferroni)",
        }
    }

    /// The method that leaves the smaller doubt about the fraction `q` of `n` samples.
    ///
    /// Panics unless `0 < confidence < 1`.
    pub fn sharper_at(n: u64, q: f64, confidence: f64) -> Method {
        let failures = ((1.0 - q).clamp(0.0, 1.0) * n as f64).round() as u64;
        let count = ranks(n, BODY_RANKS_BOUGHT).len().max(1) as f64;
        let doubt =
            failure_upper(failures, n, 1.0 - (1.0 - confidence) / count) - failures as f64 / n.max(1) as f64;
        if dkw_one_sided(n, confidence) < doubt { Method::Dkw } else { Method::ClopperPearson }
    }
}

/// `sqrt(ln(1/α) / (2n))`; for confidences below one half the two-sided width, which always holds.
fn dkw_one_sided(n: u64, confidence: f64) -> f64 {
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is strictly between 0 and 1, not {confidence}"
    );
    if n == 0 {
        return 1.0;
    }
    let sides = if confidence >= 0.5 { 1.0 } else { 2.0 };
    (libm::log(sides / (1.0 - confidence)) / (2.0 * n as f64)).sqrt().min(1.0)
}

/// Ranks from low to high: the largest samples at distances that double, and the body evenly.
fn ranks(n: u64, body: u64) -> Vec<u64> {
    let mut ranks: Vec<u64> =
        (1..=body).map(|i| (u128::from(n) * u128::from(i) / u128::from(body + 1)) as u64).collect();
    let mut below = 0u64;
    while below < n / 4 + 1 {
        ranks.push(n.saturating_sub(below));
        below = 2 * below + 1;
    }
    ranks.retain(|rank| (1..=n).contains(rank));
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// The band of the samples, ascending in value and probability; empty when it says nothing at all.
///
/// All points hold together with this confidence. Panics unless `0 < confidence < 1`.
pub fn lower_band(values: &impl Ranked, method: Method, confidence: f64) -> Vec<Point> {
    let n = values.count();
    let ranks = match method {
        Method::Dkw => ranks(n, BODY_RANKS),
        Method::ClopperPearson => ranks(n, BODY_RANKS_BOUGHT),
    };
    let width = dkw_one_sided(n, confidence);
    let each = 1.0 - (1.0 - confidence) / ranks.len().max(1) as f64;
    let mut points: Vec<Point> = Vec::with_capacity(ranks.len());
    for rank in ranks {
        let at_least = match method {
            Method::Dkw => rank as f64 / n as f64 - width,
            Method::ClopperPearson => 1.0 - failure_upper(n - rank, n, each),
        };
        let Some((_, value)) = values.range_at_rank(rank) else { continue };
        if at_least <= 0.0 {
            continue;
        }
        match points.last_mut().filter(|last| last.value == value) {
            Some(last) => last.at_least = last.at_least.max(at_least),
            None => points.push(Point { value, at_least }),
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Pcg;
    use crate::sample::Sample;

    #[test]
    fn both_methods_cover_as_often_as_they_say() {
        // Uniform samples: F(x) = x / 2^32.
        for method in [Method::Dkw, Method::ClopperPearson] {
            let mut broken = 0;
            for run in 0..600 {
                let mut pcg = Pcg::new(run, 2);
                let sample: Sample = (0..300).map(|_| pcg.below(1 << 32)).collect();
                let whole = (1u64 << 32) as f64;
                let band = lower_band(&sample, method, 0.9);
                assert!(band.len() > 10);
                broken += u32::from(band.iter().any(|p| p.at_least > (p.value + 1) as f64 / whole));
            }
            // 60 expected at most; 5 standard deviations of a binomial above.
            assert!(broken < 97, "{method:?}: {broken}");
        }
    }

    #[test]
    fn the_method_follows_from_the_number_of_samples_and_the_fraction_alone() {
        assert_eq!(Method::sharper_at(1_000, 0.5, 0.95), Method::Dkw);
        assert_eq!(Method::sharper_at(1_000, 0.999, 0.95), Method::ClopperPearson);
        assert_eq!(Method::sharper_at(0, 0.99, 0.95), Method::ClopperPearson);
        assert!(lower_band(&Sample::default(), Method::Dkw, 0.95).is_empty());
        // One value: F(x(1)) is at least 1 - 0.95.
        let one = lower_band(&Sample::new(vec![7]), Method::ClopperPearson, 0.95);
        assert!((one[0].at_least - 0.05).abs() < 1e-12 && one.len() == 1, "{one:?}");
    }
}
