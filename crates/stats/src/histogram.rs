//! [`Histogram`]: counts of durations in log-linear buckets, with a bounded relative error.
//!
//! Every octave above 128 is divided into 128 equal buckets; below 256 every integer has its own. A value of
//! a bucket is given back as the bucket's midpoint, so it is wrong by at most half a bucket: 1/256 = 0.39 %
//! of the value. With `s = max(0, floor(log2 v) - 7)` the bucket of `v` is
//!
//! ```text
//! index(v) = 128 s + (v >> s)          low(index) = (index - 128 s) << s,   s = max(0, index / 128 - 1)
//! ```
//!
//! which is continuous over the octaves: 33 of them from 2^7 to 2^40 ns (18 minutes) need 4352 counters, 34
//! KiB. A value from 2^40 on is counted as overflow, never dropped: it takes part in the count, in the ranks
//! and in the maximum. The extremes are exact, and no quantile is ever outside them. Merging adds counters,
//! so it is exact.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::rank::quantile_rank;

const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;
const RANGE_BITS: u32 = 40;
/// Counters of values below 2^40.
const IN_RANGE: usize = ((RANGE_BITS - SUB_BITS + 1) as usize) << SUB_BITS;
/// The last counter holds the overflow.
const COUNTERS: usize = IN_RANGE + 1;

/// A histogram of nanoseconds with a relative error of at most 1/256 below [`Histogram::LIMIT`].
///
/// Its size is fixed when it is made; recording allocates nothing. Counters stop at `u64::MAX` instead of
/// wrapping.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "HistogramForm", into = "HistogramForm")]
pub struct Histogram {
    counters: Box<[u64; COUNTERS]>,
    count: u64,
    min: u64,
    max: u64,
}

/// The bucket of a value; the overflow bucket for one beyond the range.
#[inline]
fn index_of(value: u64) -> usize {
    let shift = u64::BITS - 1 - SUB_BITS - (value | SUB).leading_zeros();
    let index = (u64::from(shift) << SUB_BITS) + (value >> shift);
    (index as usize).min(IN_RANGE)
}

/// The smallest value of an in-range bucket, and how many values share it.
fn bucket(index: usize) -> (u64, u64) {
    let index = index as u64;
    let shift = (index >> SUB_BITS).saturating_sub(1);
    ((index - (shift << SUB_BITS)) << shift, 1 << shift)
}

impl Histogram {
    /// Values from here on (2^40 ns) are counted as overflow.
    pub const LIMIT: u64 = 1 << RANGE_BITS;

    /// An empty histogram; the only allocation it ever makes.
    pub fn new() -> Histogram {
        let counters = vec![0; COUNTERS].into_boxed_slice();
        let counters = counters.try_into().expect("the vector was made with this very length");
        Histogram { counters, count: 0, min: u64::MAX, max: 0 }
    }

    /// Counts one value. Allocates nothing and branches on nothing.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value `times` times.
    #[inline]
    pub fn record_n(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let counter = &mut self.counters[index_of(value)];
        *counter = counter.saturating_add(times);
        self.count = self.count.saturating_add(times);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Counts all of these values.
    pub fn record_all<T: Copy + Into<u64>>(&mut self, values: &[T]) {
        let (mut min, mut max) = (self.min, self.max);
        for &value in values {
            let value = value.into();
            let counter = &mut self.counters[index_of(value)];
            *counter = counter.saturating_add(1);
            (min, max) = (min.min(value), max.max(value));
        }
        (self.min, self.max) = (min, max);
        self.count = self.count.saturating_add(values.len() as u64);
    }

    /// Empty again. Touches the counters between the extremes only.
    pub fn clear(&mut self) {
        if self.count > 0 {
            self.counters[index_of(self.min)..=index_of(self.max)].fill(0);
            (self.count, self.min, self.max) = (0, u64::MAX, 0);
        }
    }

    /// Becomes the same as `other`, without allocating.
    pub fn copy_from(&mut self, other: &Histogram) {
        self.counters.copy_from_slice(&other.counters[..]);
        (self.count, self.min, self.max) = (other.count, other.min, other.max);
    }

    /// Counts everything `other` counted, exactly.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counters.iter_mut().zip(other.counters.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count = self.count.saturating_add(other.count);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values were counted, overflow included.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value, exact; `None` without a value.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value, exact even when it overflowed; `None` without a value.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// How many values were at least [`Histogram::LIMIT`].
    pub fn overflow(&self) -> u64 {
        self.counters[IN_RANGE]
    }

    /// The `rank`-th smallest value, counted from 1, within the bucket error and between the extremes.
    ///
    /// A rank among the overflow gives the maximum: all that is known of it is that it lies between the limit
    /// and the maximum, and a latency must not be understated. `None` outside `1..=count`.
    pub fn value_at_rank(&self, rank: u64) -> Option<u64> {
        if rank == 0 || rank > self.count {
            return None;
        }
        // The extremes are known exactly, and the first and the last rank are them.
        if rank == 1 {
            return Some(self.min);
        }
        if rank == self.count {
            return Some(self.max);
        }
        let (mut at, mut below) = self.before(rank);
        while at < IN_RANGE {
            below = below.saturating_add(self.counters[at]);
            if below >= rank {
                let (low, width) = bucket(at);
                return Some((low + width / 2).clamp(self.min, self.max));
            }
            at += 1;
        }
        Some(self.max)
    }

    /// A bucket not behind that of the `rank`-th value, and how many values are before it: the nearest but a few.
    fn before(&self, rank: u64) -> (usize, u64) {
        // Nothing is counted before the bucket of the minimum, and memory there may never have been touched.
        let (mut at, mut below) = (index_of(self.min).min(IN_RANGE), 0);
        // Counters that never stopped do not add up to more than there are values.
        if self.count == u64::MAX {
            return (at, below);
        }
        for counters in self.counters[at..IN_RANGE].chunks_exact(16) {
            let within = counters.iter().fold(0, |sum: u64, counter| sum.wrapping_add(*counter));
            if below + within >= rank {
                break;
            }
            (at, below) = (at + counters.len(), below + within);
        }
        (at, below)
    }

    /// The least and the largest the `rank`-th smallest value (from 1) can have been: its bucket's ends, cut to
    /// the extremes.
    ///
    /// Exact for the first and the last rank. `None` outside `1..=count`.
    pub fn range_at_rank(&self, rank: u64) -> Option<(u64, u64)> {
        if rank == 0 || rank > self.count {
            return None;
        }
        if rank == 1 {
            return Some((self.min, self.min));
        }
        if rank == self.count {
            return Some((self.max, self.max));
        }
        let mut below = 0u64;
        let bucket = self.buckets().find(|&(_, _, count)| {
            below = below.saturating_add(count);
            below >= rank
        });
        bucket.map(|(low, high, _)| (low.max(self.min), high.min(self.max)))
    }

    /// The `q` quantile: the value of rank `ceil(q n)`, at least the first ([`crate::rank`]), never above the
    /// maximum. `None` when nothing was counted or `q` is not within 0 and 1.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        self.value_at_rank(quantile_rank(q, self.count)?)
    }

    /// How many values certainly were at most `value`.
    ///
    /// A bucket that reaches beyond `value` is left out (unless the maximum shows that all its values are
    /// within), so this never claims more than is true; it is exact for a `value` below 256, one that ends a
    /// bucket, and one not below the maximum. Whoever must count against an exact limit counts while
    /// recording, or keeps a [`crate::Sample`].
    pub fn count_at_most(&self, value: u64) -> u64 {
        if value >= self.max {
            return self.count;
        }
        // The bucket after `value`'s own ends beyond it, and so does its own unless `value + 1` starts
        // another.
        self.counters[..index_of(value + 1)].iter().fold(0, |sum: u64, &c| sum.saturating_add(c))
    }

    /// The buckets that hold something, ascending: smallest value, largest value (inclusive), count.
    ///
    /// The overflow, when there is any, is the last: from [`Histogram::LIMIT`] to the maximum.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counters.iter().enumerate().filter(|&(_, &count)| count > 0).map(|(index, &count)| {
            if index == IN_RANGE {
                return (Histogram::LIMIT, self.max, count);
            }
            let (low, width) = bucket(index);
            (low, low + (width - 1), count)
        })
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("min", &self.min())
            .field("max", &self.max())
            .field("buckets", &self.buckets().collect::<Vec<_>>())
            .finish()
    }
}

/// Why a stored form is not a histogram.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HistogramError {
    /// A bucket begins where none does.
    #[error("no histogram bucket begins at {low}: the file was written with other buckets, or is damaged")]
    NotABucket {
        /// The stored beginning.
        low: u64,
    },
    /// Buckets are stored in ascending order, once each.
    #[error("the histogram bucket at {low} does not follow the one before it in ascending order")]
    Order {
        /// The stored beginning.
        low: u64,
    },
    /// A stored bucket holds something.
    #[error("the histogram bucket at {low} is empty; empty buckets are not stored")]
    EmptyBucket {
        /// The stored beginning.
        low: u64,
    },
    /// The counts add up to more than a counter holds.
    #[error("the histogram counts more than 2^64 - 1 values")]
    TooMany,
    /// The extremes are there exactly when there are buckets, and lie in the first and the last.
    #[error("the histogram {name} does not lie in its {which} bucket")]
    Extreme {
        /// `min` or `max`.
        name: &'static str,
        /// `first` or `last`.
        which: &'static str,
    },
}

/// The stored form: only buckets that hold something, each as its smallest value and its count.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistogramForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
    buckets: Vec<(u64, u64)>,
}

impl From<Histogram> for HistogramForm {
    fn from(histogram: Histogram) -> HistogramForm {
        let buckets = histogram.buckets().map(|(low, _, count)| (low, count)).collect();
        HistogramForm { min: histogram.min(), max: histogram.max(), buckets }
    }
}

impl TryFrom<HistogramForm> for Histogram {
    type Error = HistogramError;

    fn try_from(form: HistogramForm) -> Result<Histogram, HistogramError> {
        let mut histogram = Histogram::new();
        let mut previous = None;
        for &(low, count) in &form.buckets {
            let index = index_of(low);
            let begins = if index == IN_RANGE { Histogram::LIMIT } else { bucket(index).0 };
            if low != begins {
                return Err(HistogramError::NotABucket { low });
            }
            if previous.is_some_and(|previous| previous >= low) {
                return Err(HistogramError::Order { low });
            }
            if count == 0 {
                return Err(HistogramError::EmptyBucket { low });
            }
            previous = Some(low);
            histogram.counters[index] = count;
            histogram.count = histogram.count.checked_add(count).ok_or(HistogramError::TooMany)?;
        }
        let bucket_of = |extreme: Option<u64>| extreme.map(index_of);
        let bucket_at = |entry: Option<&(u64, u64)>| entry.map(|&(low, _)| index_of(low));
        if bucket_of(form.min) != bucket_at(form.buckets.first()) {
            return Err(HistogramError::Extreme { name: "min", which: "first" });
        }
        if bucket_of(form.max) != bucket_at(form.buckets.last()) || form.max < form.min {
            return Err(HistogramError::Extreme { name: "max", which: "last" });
        }
        if let (Some(min), Some(max)) = (form.min, form.max) {
            (histogram.min, histogram.max) = (min, max);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        histogram
    }

    /// Values of every magnitude, overflow included.
    fn any_value() -> impl Strategy<Value = u64> {
        (0u32..64).prop_flat_map(|bits| (0..=u64::MAX >> bits).boxed())
    }

    #[test]
    fn buckets_tile_the_range_without_gap_or_overlap() {
        let mut next = 0;
        for index in 0..IN_RANGE {
            let (low, width) = bucket(index);
            assert_eq!(low, next, "bucket {index}");
            assert_eq!((index_of(low), index_of(low + width - 1)), (index, index));
            next = low + width;
        }
        assert_eq!(next, Histogram::LIMIT);
        assert_eq!((index_of(next), index_of(u64::MAX)), (IN_RANGE, IN_RANGE));
    }

    #[test]
    fn small_values_are_exact() {
        let histogram = of(&[0, 1, 127, 128, 255]);
        for (rank, value) in [(1, 0), (2, 1), (3, 127), (4, 128), (5, 255)] {
            assert_eq!(histogram.value_at_rank(rank), Some(value));
        }
        assert_eq!((histogram.value_at_rank(0), histogram.value_at_rank(6)), (None, None));
    }

    #[test]
    fn overflow_is_counted_and_the_maximum_is_exact() {
        let histogram = of(&[5, Histogram::LIMIT - 1, Histogram::LIMIT, u64::MAX - 3]);
        assert_eq!((histogram.count(), histogram.overflow()), (4, 2));
        assert_eq!((histogram.min(), histogram.max()), (Some(5), Some(u64::MAX - 3)));
        assert_eq!(histogram.value_at_rank(3), Some(u64::MAX - 3));
        assert_eq!(histogram.quantile(1.0), Some(u64::MAX - 3));
        assert_eq!(histogram.buckets().last(), Some((Histogram::LIMIT, u64::MAX - 3, 2)));
    }

    #[test]
    fn a_cleared_histogram_is_an_empty_one() {
        for values in [&[][..], &[0], &[7, 1 << 20], &[3, Histogram::LIMIT, u64::MAX]] {
            let mut histogram = of(values);
            histogram.clear();
            assert_eq!(histogram, Histogram::new(), "{values:?}");
        }
    }

    #[test]
    fn an_empty_histogram_answers_nothing() {
        let empty = Histogram::new();
        assert_eq!((empty.count(), empty.min(), empty.max(), empty.quantile(0.5)), (0, None, None, None));
        assert_eq!((empty.count_at_most(u64::MAX), empty.buckets().count()), (0, 0));
        assert_eq!(of(&[1]).quantile(f64::NAN), None);
    }

    /// A midpoint lies above the only value of a bucket; the quantile must not.
    #[test]
    fn a_quantile_never_exceeds_the_maximum() {
        let low = 1 << 30;
        let histogram = of(&[low, low, low]);
        for q in [0.0, 0.5, 0.99, 1.0] {
            assert_eq!(histogram.quantile(q), Some(low));
        }
    }

    #[test]
    fn count_at_most_leaves_out_what_may_be_beyond() {
        // 1024 to 1031 share a bucket.
        let histogram = of(&[10, 1024, 1031, 5000]);
        for (value, count) in
            [(9, 0), (10, 1), (1023, 1), (1024, 1), (1030, 1), (1031, 3), (4999, 3), (5000, 4)]
        {
            assert_eq!(histogram.count_at_most(value), count, "at most {value}");
        }
        assert_eq!(histogram.count_at_most(u64::MAX), 4);
    }

    #[test]
    fn counters_stop_instead_of_wrapping() {
        let mut histogram = Histogram::new();
        histogram.record_n(7, u64::MAX);
        histogram.record(7);
        histogram.record_n(9, 0);
        assert_eq!((histogram.count(), histogram.max()), (u64::MAX, Some(7)));
    }

    #[test]
    fn damaged_stored_forms_are_refused() {
        for (text, error) in [
            (r#"{"min":1,"max":1,"buckets":[[257,1]]}"#, HistogramError::NotABucket { low: 257 }),
            (r#"{"min":1,"max":9,"buckets":[[9,1],[1,1]]}"#, HistogramError::Order { low: 1 }),
            (r#"{"min":1,"max":1,"buckets":[[1,0]]}"#, HistogramError::EmptyBucket { low: 1 }),
            (r#"{"min":1,"max":2,"buckets":[[1,18446744073709551615],[2,1]]}"#, HistogramError::TooMany),
            (r#"{"max":1,"buckets":[[1,1]]}"#, HistogramError::Extreme { name: "min", which: "first" }),
            (
                r#"{"min":1,"max":3,"buckets":[[1,1],[2,1]]}"#,
                HistogramError::Extreme { name: "max", which: "last" },
            ),
            (
                r#"{"min":1031,"max":1024,"buckets":[[1024,2]]}"#,
                HistogramError::Extreme { name: "max", which: "last" },
            ),
            (r#"{"min":1,"max":1,"buckets":[]}"#, HistogramError::Extreme { name: "min", which: "first" }),
        ] {
            let refused = serde_json::from_str::<Histogram>(text).unwrap_err().to_string();
            assert!(refused.starts_with(&error.to_string()), "{text}: {refused}");
        }
    }

    proptest! {
        /// Every value below the limit comes back within 1/256 of itself: the worst case of any bucket.
        #[test]
        fn the_relative_error_is_bounded(value in any_value(), rank in 2u64..4) {
            let value = value % Histogram::LIMIT;
            let mut histogram = of(&[0, value, value, value]);
            histogram.record(Histogram::LIMIT - 1);
            let given = histogram.value_at_rank(rank).unwrap();
            prop_assert!(given.abs_diff(value) as f64 <= value as f64 / 256.0, "{value} as {given}");
        }

        #[test]
        fn values_together_equal_one_by_one(
            before in prop::collection::vec(any_value(), 0..60),
            values in prop::collection::vec(any_value(), 0..60),
        ) {
            let mut together = of(&before);
            together.record_all(&values);
            prop_assert_eq!(together, of(&[before, values].concat()));
        }

        #[test]
        fn merging_equals_recording_everything(
            a in prop::collection::vec(any_value(), 0..60),
            b in prop::collection::vec(any_value(), 0..60),
        ) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }

        #[test]
        fn quantiles_ascend_between_the_extremes(
            values in prop::collection::vec(any_value(), 1..60),
            mut qs in prop::collection::vec(0.0..=1.0, 2..20),
        ) {
            let histogram = of(&values);
            qs.sort_by(f64::total_cmp);
            let given: Vec<u64> = qs.iter().map(|&q| histogram.quantile(q).unwrap()).collect();
            prop_assert!(given.is_sorted());
            prop_assert!(given.iter().all(|v| histogram.min() <= Some(*v) && Some(*v) <= histogram.max()));
        }

        #[test]
        fn count_at_most_never_claims_too_much(
            values in prop::collection::vec(any_value(), 1..60),
            limit in any_value(),
        ) {
            let truth = values.iter().filter(|&&v| v <= limit).count() as u64;
            let histogram = of(&values);
            prop_assert!(histogram.count_at_most(limit) <= truth);
            // Half a percent further every one of them is within, as long as no overflow is in play.
            if limit < Histogram::LIMIT / 2 {
                prop_assert!(histogram.count_at_most(limit + limit / 128) >= truth);
            }
        }

        #[test]
        fn the_stored_form_is_the_same_histogram(values in prop::collection::vec(any_value(), 0..60)) {
            let histogram = of(&values);
            let text = serde_json::to_string(&histogram).unwrap();
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        }
    }
}
