//! Skewness and kurtosis in the three conventions programs print, each with what a sample of its size can show.
//!
//! With the central moments `m_k = Σ (x - m)^k / n` (Joanes and Gill, The Statistician 47, 1998):
//!
//! | convention | skewness | excess kurtosis |
//! |---|---|---|
//! | population (moment) | `g1 = m3 / m2^(3/2)` | `g2 = m4 / m2² - 3` |
//! | sample-adjusted (Fisher-Pearson) | `G1 = g1 √(n(n-1)) / (n-2)` | `G2 = (n-1)/((n-2)(n-3)) ((n+1) g2 + 6)` |
//! | Minitab | `b1 = g1 ((n-1)/n)^(3/2)` | `b2 = (g2 + 3) ((n-1)/n)² - 3` |
//!
//! Whatever the values, `|g1| <= (n-2)/√(n-1) < √n` and `g2 + 3 <= (n² - 3n + 3)/(n-1) < n`, both reached by
//! one value that differs from all others (Johnson and Lowe, Biometrika 66, 1979; Cox, Stata Journal 10,
//! 2010). A heavy tail has a kurtosis near this bound however long the run: then the figure tells `n`, not
//! the tail, so the bound stands beside it.

use std::fmt;

use crate::moments::Moments;

/// Which definition of skewness and kurtosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// Ratios of central moments, `g1` and `g2`: of exactly these values.
    Population,
    /// Ratios of unbiased cumulants, `G1` and `G2`: spreadsheets and most statistics programs.
    SampleAdjusted,
    /// Moments by the sample standard deviation, `b1` and `b2`.
    Minitab,
}

/// A figure of shape and the largest size it can have in a sample this large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The figure.
    pub value: f64,
    /// No sample of this size exceeds it.
    pub bound: f64,
}

impl Shape {
    /// The figure as a part of its bound; near 1 it tells the size of the sample, not its shape.
    pub fn part_of_bound(&self) -> f64 {
        if self.bound > 0.0 { self.value.abs() / self.bound } else { 1.0 }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4} (at most {:.4} in a sample this large)", self.value, self.bound)
    }
}

/// `((n-1)/n)^(1/2)`, by which the sample standard deviation is the larger one.
fn shrink(n: f64) -> f64 {
    ((n - 1.0) / n).sqrt()
}

fn skewness(g1: f64, n: f64, convention: Convention) -> f64 {
    match convention {
        Convention::Population => g1,
        Convention::SampleAdjusted => g1 * (n * (n - 1.0)).sqrt() / (n - 2.0),
        Convention::Minitab => g1 * shrink(n) * ((n - 1.0) / n),
    }
}

fn excess_kurtosis(g2: f64, n: f64, convention: Convention) -> f64 {
    match convention {
        Convention::Population => g2,
        Convention::SampleAdjusted => (n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * g2 + 6.0),
        Convention::Minitab => {
            let ratio = (n - 1.0) / n;
            (g2 + 3.0) * ratio * ratio - 3.0
        }
    }
}

impl Moments {
    /// The skewness in one convention, with its bound.
    ///
    /// `None` when all values are equal, or below three values for the sample-adjusted one.
    pub fn skewness_as(&self, convention: Convention) -> Option<Shape> {
        let fewest = if convention == Convention::SampleAdjusted { 3 } else { 2 };
        let n = self.count() as f64;
        let g1 = self.skewness().filter(|_| self.count() >= fewest)?;
        let largest = (n - 2.0) / (n - 1.0).sqrt();
        Some(Shape { value: skewness(g1, n, convention), bound: skewness(largest, n, convention) })
    }

    /// The excess kurtosis in one convention, with its bound.
    ///
    /// `None` when all values are equal, or below four values for the sample-adjusted one.
    pub fn excess_kurtosis_as(&self, convention: Convention) -> Option<Shape> {
        let fewest = if convention == Convention::SampleAdjusted { 4 } else { 2 };
        let n = self.count() as f64;
        let g2 = self.excess_kurtosis().filter(|_| self.count() >= fewest)?;
        let largest = (n * n - 3.0 * n + 3.0) / (n - 1.0) - 3.0;
        Some(Shape {
            value: excess_kurtosis(g2, n, convention),
            bound: excess_kurtosis(largest, n, convention),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Convention; 3] = [Convention::Population, Convention::SampleAdjusted, Convention::Minitab];

    /// The textbook sums of powers of deviations, in two passes.
    #[test]
    fn the_conventions_by_their_definitions() {
        let values = [2.0, 3.0, 5.0, 9.0, 30.0f64];
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let sum = |k: i32| values.iter().map(|x| (x - mean).powi(k)).sum::<f64>();
        let s = (sum(2) / (n - 1.0)).sqrt();
        let moments: Moments = values.into_iter().collect();
        let skewness = ALL.map(|convention| moments.skewness_as(convention).unwrap().value);
        let kurtosis = ALL.map(|convention| moments.excess_kurtosis_as(convention).unwrap().value);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12 * b.abs().max(1.0);
        assert!(near(skewness[0], sum(3) / n / (sum(2) / n).powf(1.5)));
        assert!(near(skewness[1], n / ((n - 1.0) * (n - 2.0)) * sum(3) / s.powi(3)));
        assert!(near(skewness[2], sum(3) / n / s.powi(3)));
        assert!(near(kurtosis[0], sum(4) / n / (sum(2) / n).powi(2) - 3.0));
        let scaled = n * (n + 1.0) / ((n - 1.0) * (n - 2.0) * (n - 3.0)) * sum(4) / s.powi(4);
        assert!(near(kurtosis[1], scaled - 3.0 * (n - 1.0) * (n - 1.0) / ((n - 2.0) * (n - 3.0))));
        assert!(near(kurtosis[2], sum(4) / n / s.powi(4) - 3.0));
    }

    #[test]
    fn one_value_apart_reaches_the_bound() {
        for n in [4usize, 10, 1_000] {
            let mut values = vec![1.0; n];
            values[n / 2] = 100.0;
            let moments: Moments = values.into_iter().collect();
            for convention in ALL {
                let skewness = moments.skewness_as(convention).unwrap();
                let kurtosis = moments.excess_kurtosis_as(convention).unwrap();
                assert!((skewness.part_of_bound() - 1.0).abs() < 1e-9, "{n} {convention:?} {skewness}");
                assert!(
                    (kurtosis.value / kurtosis.bound - 1.0).abs() < 1e-9,
                    "{n} {convention:?} {kurtosis}"
                );
            }
        }
        let two: Moments = [1.0, 2.0].into_iter().collect();
        assert_eq!(two.skewness_as(Convention::SampleAdjusted), None);
        assert_eq!(two.excess_kurtosis_as(Convention::SampleAdjusted), None);
    }

    proptest! {
        #[test]
        fn no_sample_exceeds_the_bound(values in prop::collection::vec(-100i32..100, 4..40)) {
            let moments: Moments = values.into_iter().map(f64::from).collect();
            for convention in ALL {
                if let (Some(skewness), Some(kurtosis)) =
                    (moments.skewness_as(convention), moments.excess_kurtosis_as(convention))
                {
                    prop_assert!(skewness.value.abs() <= skewness.bound + 1e-9, "{}", skewness);
                    prop_assert!(kurtosis.value <= kurtosis.bound + 1e-9, "{}", kurtosis);
                }
            }
            if let Some(g1) = moments.skewness_as(Convention::Population) {
                prop_assert!(g1.bound <= (moments.count() as f64).sqrt());
            }
        }
    }
}
