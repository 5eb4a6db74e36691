//! [`Sample`]: every value kept, sorted, for runs short enough to afford 8 bytes a value.
//!
//! It answers the same questions as [`crate::Histogram`] by the same rank rule ([`crate::rank`]), without the
//! histogram's bucket error, and hands the sorted values to the goodness-of-fit tests.

use crate::rank::quantile_rank;

/// The values of a run in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    sorted: Vec<u64>,
}

impl Sample {
    /// Sorts the values and keeps them.
    pub fn new(mut values: Vec<u64>) -> Sample {
        values.sort_unstable();
        Sample { sorted: values }
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.sorted.len() as u64
    }

    /// The smallest value; `None` when there is none.
    pub fn min(&self) -> Option<u64> {
        self.sorted.first().copied()
    }

    /// The largest value; `None` when there is none.
    pub fn max(&self) -> Option<u64> {
        self.sorted.last().copied()
    }

    /// The `rank`-th smallest value, counted from 1; `None` outside `1..=count`.
    pub fn value_at_rank(&self, rank: u64) -> Option<u64> {
        let index = usize::try_from(rank.checked_sub(1)?).ok()?;
        self.sorted.get(index).copied()
    }

    /// The `q` quantile: the value of rank `ceil(q n)`, at least the first.
    ///
    /// `None` when there are no values or `q` is not within 0 and 1.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        self.value_at_rank(quantile_rank(q, self.count())?)
    }

    /// How many values are at most `value`, exactly.
    pub fn count_at_most(&self, value: u64) -> u64 {
        self.sorted.partition_point(|&x| x <= value) as u64
    }

    /// The values, ascending.
    pub fn as_slice(&self) -> &[u64] {
        &self.sorted
    }
}

impl FromIterator<u64> for Sample {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Sample {
        Sample::new(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;
    use proptest::prelude::*;

    #[test]
    fn an_empty_sample_answers_nothing() {
        let empty = Sample::default();
        assert_eq!((empty.count(), empty.min(), empty.max()), (0, None, None));
        assert_eq!(empty.quantile(0.5), None);
        assert_eq!(empty.count_at_most(u64::MAX), 0);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let sample = Sample::new(vec![30, 10, 20, 40]);
        for (q, value) in [(0.0, 10), (0.25, 10), (0.26, 20), (0.5, 20), (0.75, 30), (0.76, 40), (1.0, 40)] {
            assert_eq!(sample.quantile(q), Some(value), "q = {q}");
        }
        assert_eq!((sample.value_at_rank(0), sample.value_at_rank(5)), (None, None));
        assert_eq!((sample.count_at_most(9), sample.count_at_most(30)), (0, 3));
    }

    proptest! {
        /// The histogram agrees with the exact answer within its promised error, at every rank.
        #[test]
        fn a_histogram_is_within_its_error_of_the_exact_sample(
            values in prop::collection::vec(0..(1u64 << 40), 1..200),
            q in 0.0..=1.0,
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|&v| histogram.record(v));
            let exact = Sample::new(values).quantile(q).unwrap();
            let rough = histogram.quantile(q).unwrap();
            prop_assert!(exact.abs_diff(rough) as f64 <= exact as f64 / 256.0, "{exact} {rough}");
        }
    }
}
