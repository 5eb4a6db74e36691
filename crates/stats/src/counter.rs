//! [`ExactCounter`]: how often each value occurred, exactly, in memory fixed beforehand.
//!
//! A histogram hides values in buckets; a list of samples grows with the run. Quantities that take few
//! different values (execution times on a coarse clock, sizes, queue lengths) are counted exactly here: an
//! open-addressed table whose slots are made once, so recording allocates nothing. A value that comes when
//! the table is full is not lost silently but counted as refused, and an exact distribution is then denied.

use thiserror::Error;

use crate::pmf::{Pmf, PmfError};

/// The most different values a counter may be made for.
pub const DISTINCT_LIMIT: usize = 1 << 24;

/// Counts of different values.
///
/// Merging two counters is exact as long as the values fit.
#[derive(Clone, Debug)]
pub struct ExactCounter {
    /// A value and its count; a count of 0 marks a free slot. The number of slots is a power of two, at least
    /// twice the number of values.
    slots: Vec<(u64, u64)>,
    distinct: usize,
    limit: usize,
    refused: u64,
}

/// Why a counter has no exact distribution.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CounterError {
    /// More different values came than there was room for.
    #[error(
        "{refused} values came after {limit} different ones had filled the counter: \
         make it for more values, or use a histogram"
    )]
    Refused {
        /// How many values were not counted.
        refused: u64,
        /// How many different values it holds.
        limit: usize,
    },
    /// The counts are no distribution on the grid asked.
    #[error(transparent)]
    Grid(#[from] PmfError),
}

impl ExactCounter {
    /// A counter for up to `distinct` different values, at most [`DISTINCT_LIMIT`]; the only allocation.
    pub fn new(distinct: usize) -> ExactCounter {
        let limit = distinct.clamp(1, DISTINCT_LIMIT);
        ExactCounter { slots: vec![(0, 0); (2 * limit).next_power_of_two()], distinct: 0, limit, refused: 0 }
    }

    /// Counts a value once; false when it was refused.
    #[inline]
    pub fn record(&mut self, value: u64) -> bool {
        self.record_n(value, 1)
    }

    /// Counts a value `times` times; false when it was refused.
    #[inline]
    pub fn record_n(&mut self, value: u64, times: u64) -> bool {
        if times == 0 {
            return true;
        }
        let mask = self.slots.len() - 1;
        // Fibonacci hashing: the high half of the product depends on every bit.
        let mut at = (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            let (held, count) = self.slots[at];
            if count > 0 && held == value {
                self.slots[at].1 = count.saturating_add(times);
                return true;
            }
            if count == 0 {
                break;
            }
            at = (at + 1) & mask;
        }
        if self.distinct == self.limit {
            self.refused = self.refused.saturating_add(times);
            return false;
        }
        self.distinct += 1;
        self.slots[at] = (value, times);
        true
    }

    /// Counts everything `other` counted.
    pub fn merge(&mut self, other: &ExactCounter) {
        for &(value, count) in &other.slots {
            self.record_n(value, count);
        }
        self.refused = self.refused.saturating_add(other.refused);
    }

    /// How many values were counted, without the refused.
    pub fn count(&self) -> u64 {
        self.slots.iter().fold(0, |sum: u64, &(_, count)| sum.saturating_add(count))
    }

    /// How many values came when the counter was full.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The values that were counted and how often, ascending.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let mut counts: Vec<_> = self.slots.iter().copied().filter(|&(_, count)| count > 0).collect();
        counts.sort_unstable();
        counts
    }

    fn complete(&self) -> Result<(), CounterError> {
        match self.refused {
            0 => Ok(()),
            refused => Err(CounterError::Refused { refused, limit: self.limit }),
        }
    }

    /// The distribution on a grid of `step` ns, each value rounded up; refused when values were.
    pub fn pmf_ceil(&self, step: u64) -> Result<Pmf, CounterError> {
        self.complete()?;
        Ok(Pmf::from_counts_ceil(&self.counts(), step)?)
    }

    /// The distribution on a grid of `step` ns, each value rounded down; refused when values were.
    pub fn pmf_floor(&self, step: u64) -> Result<Pmf, CounterError> {
        self.complete()?;
        Ok(Pmf::from_counts_floor(&self.counts(), step)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_counter_refuses_and_says_so() {
        let mut counter = ExactCounter::new(2);
        assert!(counter.record(5) && counter.record_n(7, 3) && counter.record(5));
        assert!(!counter.record(9));
        assert_eq!((counter.count(), counter.refused()), (5, 1));
        assert_eq!(counter.counts(), [(5, 2), (7, 3)]);
        let error = counter.pmf_ceil(1).unwrap_err().to_string();
        assert!(error.contains("1 values came after 2 different ones"), "{error}");
        assert_eq!(ExactCounter::new(0).pmf_ceil(1), Err(CounterError::Grid(PmfError::Empty)));
    }

    proptest! {
        /// Counting, in any split, is the distribution of the samples.
        #[test]
        fn counts_are_the_samples(
            values in prop::collection::vec(0..2_000u64, 1..300),
            at in any::<prop::sample::Index>(),
            step in 1..50u64,
        ) {
            let (left, right) = values.split_at(at.index(values.len() + 1));
            let mut counter = ExactCounter::new(300);
            left.iter().for_each(|&v| assert!(counter.record(v)));
            let mut other = ExactCounter::new(300);
            right.iter().for_each(|&v| assert!(other.record(v)));
            counter.merge(&other);
            prop_assert_eq!(counter.pmf_ceil(step).unwrap(), Pmf::from_samples_ceil(&values, step).unwrap());
            prop_assert_eq!(counter.pmf_floor(step).unwrap(), Pmf::from_samples_floor(&values, step).unwrap());
        }
    }
}
