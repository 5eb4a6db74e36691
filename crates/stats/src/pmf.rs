//! [`Pmf`]: a distribution on the grid of whole multiples of a step, for analyses that convolve and solve.
//!
//! Rounding samples onto the grid moves probability, and the direction decides what a result proves:
//! execution times rounded up ([`Pmf::from_samples_ceil`]) never make a bound too good, and supply or gaps
//! between arrivals are rounded down ([`Pmf::from_samples_floor`]). No mass is lost either way.

use thiserror::Error;

use crate::histogram::Histogram;

/// The most grid points a distribution may span, so that a step chosen too fine is refused and does not fill
/// the memory.
pub const POINTS_LIMIT: u64 = 1 << 24;

/// Masses may miss a total of 1 by this much.
const TOTAL_TOLERANCE: f64 = 1e-9;

/// A distribution on `{0, Δ, 2Δ, ...}` with the step `Δ` in nanoseconds.
///
/// Never empty; the masses are finite, not negative and sum to 1 within 10^-9; the largest value fits a
/// `u64`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pmf {
    step: u64,
    /// The grid index of the first mass.
    first: u64,
    masses: Vec<f64>,
}

/// Why numbers are not a distribution on a grid.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PmfError {
    /// The grid has no step.
    #[error("the grid step is 0 ns; it must be at least 1 ns")]
    ZeroStep,
    /// Nothing to make a distribution of.
    #[error("a distribution needs at least one sample or mass")]
    Empty,
    /// A mass is negative, infinite or not a number.
    #[error("mass {index} is {mass}; a probability is finite and not negative")]
    Mass {
        /// Its place in the list, from 0.
        index: usize,
        /// The mass.
        mass: f64,
    },
    /// The masses are not a whole distribution.
    #[error("the masses sum to {total}, not to 1")]
    Total {
        /// Their sum.
        total: f64,
    },
    /// The grid would have too many points.
    #[error(
        "the distribution spans {points} grid points of {step} ns, limit {POINTS_LIMIT}: take a coarser step"
    )]
    TooWide {
        /// How many points it would need.
        points: u64,
        /// The step in nanoseconds.
        step: u64,
    },
    /// A grid value is larger than any time.
    #[error("grid point {index} of {step} ns is beyond 2^64 - 1 ns")]
    TooLarge {
        /// The index of the point.
        index: u64,
        /// The step in nanoseconds.
        step: u64,
    },
    /// Two distributions on different grids.
    #[error("distributions with steps of {left} ns and {right} ns cannot be combined: put both on one grid")]
    Steps {
        /// The step of one.
        left: u64,
        /// The step of the other.
        right: u64,
    },
}

impl Pmf {
    /// The distribution of samples (in nanoseconds), each rounded up to the grid: it is never below theirs.
    pub fn from_samples_ceil(samples: &[u64], step: u64) -> Result<Pmf, PmfError> {
        Pmf::from_samples(samples, step, u64::div_ceil)
    }

    /// The distribution of samples (in nanoseconds), each rounded down to the grid: it is never above theirs.
    pub fn from_samples_floor(samples: &[u64], step: u64) -> Result<Pmf, PmfError> {
        Pmf::from_samples(samples, step, |sample, step| sample / step)
    }

    /// The distribution of counted values (in nanoseconds, with how often each occurred), rounded up.
    pub fn from_counts_ceil(counts: &[(u64, u64)], step: u64) -> Result<Pmf, PmfError> {
        Pmf::from_counts(counts, step, u64::div_ceil)
    }

    /// The distribution of counted values (in nanoseconds, with how often each occurred), rounded down.
    pub fn from_counts_floor(counts: &[(u64, u64)], step: u64) -> Result<Pmf, PmfError> {
        Pmf::from_counts(counts, step, |value, step| value / step)
    }

    /// The distribution of a histogram with each value taken as the largest of its bucket and rounded up: it is
    /// never below the distribution of what was recorded.
    pub fn from_histogram_ceil(histogram: &Histogram, step: u64) -> Result<Pmf, PmfError> {
        let max = histogram.max().unwrap_or(0);
        let counts: Vec<_> = histogram.buckets().map(|(_, high, count)| (high.min(max), count)).collect();
        Pmf::from_counts_ceil(&counts, step)
    }

    /// The distribution of a histogram with each value taken as the smallest of its bucket and rounded down: it
    /// is never above the distribution of what was recorded.
    pub fn from_histogram_floor(histogram: &Histogram, step: u64) -> Result<Pmf, PmfError> {
        let min = histogram.min().unwrap_or(0);
        let counts: Vec<_> = histogram.buckets().map(|(low, _, count)| (low.max(min), count)).collect();
        Pmf::from_counts_floor(&counts, step)
    }

    fn from_samples(samples: &[u64], step: u64, index_of: fn(u64, u64) -> u64) -> Result<Pmf, PmfError> {
        Pmf::gather(samples.iter().map(|&sample| (sample, 1)), step, index_of)
    }

    fn from_counts(counts: &[(u64, u64)], step: u64, index_of: fn(u64, u64) -> u64) -> Result<Pmf, PmfError> {
        Pmf::gather(counts.iter().copied().filter(|&(_, count)| count > 0), step, index_of)
    }

    /// Counts are added as integers and divided once, so no mass is lost.
    fn gather(
        counted: impl Iterator<Item = (u64, u64)> + Clone,
        step: u64,
        index_of: fn(u64, u64) -> u64,
    ) -> Result<Pmf, PmfError> {
        if step == 0 {
            return Err(PmfError::ZeroStep);
        }
        let values = counted.clone().map(|(value, _)| value);
        let (Some(min), Some(max)) = (values.clone().min(), values.max()) else {
            return Err(PmfError::Empty);
        };
        let (first, last) = (index_of(min, step), index_of(max, step));
        check_span(step, first, last - first)?;
        let mut counts = vec![0u128; (last - first) as usize + 1];
        let mut total = 0u128;
        for (value, count) in counted {
            counts[(index_of(value, step) - first) as usize] += u128::from(count);
            total += u128::from(count);
        }
        let total = total as f64;
        Ok(Pmf { step, first, masses: counts.into_iter().map(|count| count as f64 / total).collect() })
    }

    /// The distribution with `masses[i]` at `(first + i) step`.
    pub fn from_masses(step: u64, first: u64, masses: Vec<f64>) -> Result<Pmf, PmfError> {
        if step == 0 {
            return Err(PmfError::ZeroStep);
        }
        if masses.is_empty() {
            return Err(PmfError::Empty);
        }
        if let Some((index, &mass)) = masses.iter().enumerate().find(|(_, m)| !(m.is_finite() && **m >= 0.0))
        {
            return Err(PmfError::Mass { index, mass });
        }
        check_span(step, first, masses.len() as u64 - 1)?;
        let pmf = Pmf { step, first, masses };
        let total = pmf.total();
        if (total - 1.0).abs() > TOTAL_TOLERANCE {
            return Err(PmfError::Total { total });
        }
        Ok(pmf)
    }

    /// The grid step in nanoseconds.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The grid index of the first mass.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The masses of the grid points from [`Pmf::first`] on.
    pub fn masses(&self) -> &[f64] {
        &self.masses
    }

    /// The grid values in nanoseconds with their masses, ascending.
    pub fn points(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.masses.iter().enumerate().map(|(i, &mass)| (self.value(i), mass))
    }

    /// In range: every constructor has checked the last value.
    fn value(&self, i: usize) -> u64 {
        (self.first + i as u64) * self.step
    }

    /// The sum of the masses: 1 within 10^-9.
    pub fn total(&self) -> f64 {
        self.masses.iter().sum()
    }

    /// The mean in nanoseconds.
    pub fn mean(&self) -> f64 {
        // Around the first point: the products stay small and the offset is added once.
        let beyond: f64 = self.masses.iter().enumerate().map(|(i, mass)| i as f64 * mass).sum();
        (self.first as f64 * self.total() + beyond) * self.step as f64
    }

    /// The smallest grid value that is not exceeded with probability at least `q`; one part in 10^12 of
    /// rounding in the sum of the masses is forgiven. `None` when `q` is not within 0 and 1.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        let enough = q * (1.0 - 1e-12);
        let mut sum = 0.0;
        let reached = self.masses.iter().position(|&mass| {
            sum += mass;
            mass > 0.0 && sum >= enough
        });
        // A total a little below 1 may never reach `q`: then it is the last value that has any mass.
        let last = || {
            self.masses.iter().rposition(|&mass| mass > 0.0).expect("the masses sum to 1, so one is positive")
        };
        Some(self.value(reached.unwrap_or_else(last)))
    }

    /// How many masses are at grid values of at most `value`.
    fn points_at_most(&self, value: u64) -> usize {
        let index = value / self.step;
        if index < self.first { 0 } else { self.masses.len().min((index - self.first) as usize + 1) }
    }

    /// `P{X <= value}`, `value` in nanoseconds.
    pub fn cdf(&self, value: u64) -> f64 {
        self.masses[..self.points_at_most(value)].iter().fold(0.0, |sum, mass| sum + mass)
    }

    /// `P{X > value}`, `value` in nanoseconds; summed from the far end, so a small tail keeps its digits.
    pub fn tail(&self, value: u64) -> f64 {
        self.masses[self.points_at_most(value)..].iter().rev().fold(0.0, |sum, mass| sum + mass)
    }

    /// The distribution of the sum of two independent variables on the same grid, term by term.
    pub fn convolve(&self, other: &Pmf) -> Result<Pmf, PmfError> {
        let step = self.step;
        if step != other.step {
            return Err(PmfError::Steps { left: step, right: other.step });
        }
        let first =
            self.first.checked_add(other.first).ok_or(PmfError::TooLarge { index: u64::MAX, step })?;
        let span = self.masses.len() + other.masses.len() - 2;
        check_span(step, first, span as u64)?;
        let mut masses = vec![0.0; span + 1];
        for (i, &mine) in self.masses.iter().enumerate().filter(|&(_, &mass)| mass > 0.0) {
            for (sum, &theirs) in masses[i..].iter_mut().zip(&other.masses) {
                *sum += mine * theirs;
            }
        }
        Ok(Pmf { step, first, masses })
    }
}

/// Whether the grid points `first..=first + span` are few enough and all of them times.
fn check_span(step: u64, first: u64, span: u64) -> Result<(), PmfError> {
    if span >= POINTS_LIMIT {
        return Err(PmfError::TooWide { points: span.saturating_add(1), step });
    }
    let last = first.saturating_add(span);
    last.checked_mul(step).map(|_| ()).ok_or(PmfError::TooLarge { index: last, step })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn die() -> Pmf {
        Pmf::from_masses(10, 1, vec![1.0 / 6.0; 6]).unwrap()
    }

    #[test]
    fn a_die() {
        let die = die();
        assert!((die.mean() - 35.0).abs() < 1e-12);
        for (value, at_most) in [(0, 0), (9, 0), (10, 1), (19, 1), (59, 5), (60, 6), (u64::MAX, 6)] {
            assert!((die.cdf(value) - f64::from(at_most) / 6.0).abs() < 1e-15, "{value}");
            assert!((die.tail(value) - f64::from(6 - at_most) / 6.0).abs() < 1e-15, "{value}");
        }
        for (q, value) in [(0.0, 10), (0.16, 10), (0.17, 20), (0.5, 30), (1.0, 60)] {
            assert_eq!(die.quantile(q), Some(value), "q = {q}");
        }
        assert_eq!(die.quantile(1.5), None);
        // The sum of no floats is minus zero to the standard library, which would be printed as such.
        assert!(die.cdf(0).is_sign_positive() && die.tail(60).is_sign_positive());
        assert_eq!(die.points().nth(2), Some((30, 1.0 / 6.0)));
    }

    #[test]
    fn two_dice() {
        let two = die().convolve(&die()).unwrap();
        let ways: Vec<f64> = two.masses().iter().map(|mass| (mass * 36.0 * 1e9).round() / 1e9).collect();
        assert_eq!(ways, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
        assert_eq!((two.first(), two.step()), (2, 10));
    }

    #[test]
    fn what_is_not_a_distribution_is_refused_by_its_number() {
        for (result, message) in [
            (Pmf::from_masses(0, 0, vec![1.0]), "the grid step is 0 ns"),
            (Pmf::from_masses(1, 0, vec![]), "at least one sample or mass"),
            (Pmf::from_masses(1, 0, vec![1.5, -0.5]), "mass 1 is -0.5"),
            (Pmf::from_masses(1, 0, vec![f64::NAN]), "mass 0 is NaN"),
            (Pmf::from_masses(1, 0, vec![0.5, 0.25]), "the masses sum to 0.75"),
            (
                Pmf::from_masses(1 << 40, 1 << 30, vec![1.0]),
                "grid point 1073741824 of 1099511627776 ns is beyond",
            ),
            (Pmf::from_samples_ceil(&[0, 1 << 40], 1), "spans 1099511627777 grid points of 1 ns"),
            (Pmf::from_samples_ceil(&[u64::MAX], 2), "is beyond"),
            (Pmf::from_samples_floor(&[], 1), "at least one sample or mass"),
            (Pmf::from_samples_floor(&[1], 0), "the grid step is 0 ns"),
            (die().convolve(&Pmf::from_samples_ceil(&[1], 7).unwrap()), "steps of 10 ns and 7 ns"),
        ] {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    /// Empty grid points at the ends are no values: a quantile is one that can occur.
    #[test]
    fn quantiles_have_mass() {
        let pmf = Pmf::from_masses(1, 0, vec![0.0, 1.0 - 1e-10, 0.0]).unwrap();
        assert_eq!((pmf.quantile(0.0), pmf.quantile(1.0)), (Some(1), Some(1)));
    }

    proptest! {
        /// Rounding up never lowers, rounding down never raises, neither moves by a step or more, and no mass
        /// is lost.
        #[test]
        fn rounding_is_conservative(
            samples in prop::collection::vec(0u64..100_000, 1..100),
            step in 1u64..5_000,
        ) {
            let up = Pmf::from_samples_ceil(&samples, step).unwrap();
            let down = Pmf::from_samples_floor(&samples, step).unwrap();
            let mean = samples.iter().sum::<u64>() as f64 / samples.len() as f64;
            let slack = 1e-9 * (mean + 1.0);
            prop_assert!(up.mean() >= mean - slack && up.mean() < mean + step as f64 + slack);
            prop_assert!(down.mean() <= mean + slack && down.mean() > mean - step as f64 - slack);
            for pmf in [&up, &down] {
                prop_assert!((pmf.total() - 1.0).abs() < 1e-12);
            }
            for &limit in &samples {
                let within = samples.iter().filter(|&&s| s <= limit).count() as f64 / samples.len() as f64;
                prop_assert!(up.cdf(limit) <= within + 1e-12 && down.cdf(limit) >= within - 1e-12);
            }
        }

        /// The mean of a sum is the sum of the means, the order does not matter and mass is conserved.
        #[test]
        fn convolution_adds(
            a in prop::collection::vec(0u64..1_000, 1..40),
            b in prop::collection::vec(500u64..3_000, 1..40),
            step in 1u64..50,
        ) {
            let a = Pmf::from_samples_ceil(&a, step).unwrap();
            let b = Pmf::from_samples_ceil(&b, step).unwrap();
            let (ab, ba) = (a.convolve(&b).unwrap(), b.convolve(&a).unwrap());
            prop_assert!((ab.total() - 1.0).abs() < 1e-12);
            prop_assert!((ab.mean() - a.mean() - b.mean()).abs() < 1e-9 * (ab.mean() + 1.0));
            prop_assert!(ab.masses().iter().zip(ba.masses()).all(|(x, y)| (x - y).abs() < 1e-14));
            prop_assert_eq!(ab.first(), ba.first());
        }

        #[test]
        fn quantile_and_distribution_function_agree(
            samples in prop::collection::vec(0u64..5_000, 1..60),
            q in 0.0..=1.0,
        ) {
            let pmf = Pmf::from_samples_ceil(&samples, 10).unwrap();
            let value = pmf.quantile(q).unwrap();
            prop_assert!(pmf.cdf(value) >= q - 1e-9);
            prop_assert!(value == 0 || pmf.cdf(value - 1) < q + 1e-9);
            prop_assert!((pmf.cdf(value) + pmf.tail(value) - 1.0).abs() < 1e-12);
        }
    }
}
