//! [`Series`]: times of one kind, any number of them in bounded memory.
//!
//! Count, extremes, sum and mean are exact. Quantiles are exact for up to [`FEW`] values; of more they are those of a
//! histogram, within 1/256 of the values.
//!
//! Values are kept as they come and counted together: a series among thousands is not in the cache when the next value
//! comes, and its counters are on more pages of memory than the values of a short series. Most times are shorter than the
//! 4.29 s that 32 bits of nanoseconds hold, so that is what most take; the others are kept beside them.

use surety_stats::{Histogram, quantile_rank};
use surety_units::Nanos;

/// Up to this many values quantiles are exact.
pub const FEW: usize = 256;

/// Values that are kept without a histogram, and beside one, at most.
const LOOSE_MAX: usize = 2048;
const BESIDE_MAX: usize = 512;

/// Bytes a series takes on the heap at most: its histogram, and the values that are not in it yet.
pub const SERIES_BYTES_MAX: usize = 37 << 10;

/// A series of times.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Values that are not counted yet, those of 32 bits.
    loose: Vec<u32>,
    rest: Option<Box<Rest>>,
}

/// What short series of short times do not have.
#[derive(Clone, Debug, Default)]
struct Rest {
    /// Values that are not counted yet, those of more than 32 bits; none beside a histogram.
    long: Vec<u64>,
    /// Those that are, and their sum.
    histogram: Option<Histogram>,
    sum: u128,
}

/// Where quantiles are worked out, of one series after the other.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    few: Vec<u64>,
    histogram: Option<Histogram>,
}

impl Series {
    /// Counts a time; a negative one counts as 0.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.make_room(1);
        self.keep(value.get_unsigned());
    }

    /// Counts up to [`FEW`] times together.
    #[inline]
    pub(crate) fn record_all(&mut self, values: impl ExactSizeIterator<Item = Nanos>) {
        self.make_room(values.len());
        values.for_each(|value| self.keep(value.get_unsigned()));
    }

    /// Counts a time of 0, `times` times.
    pub(crate) fn record_zeros(&mut self, times: u64) {
        match usize::try_from(times) {
            Ok(times) if self.kept() + times <= self.most() => {
                self.loose.resize(self.loose.len() + times, 0);
            }
            _ => {
                self.count_loose();
                let rest = self.rest.get_or_insert_default();
                rest.histogram.get_or_insert_default().record_n(0, times);
            }
        }
    }

    fn long(&self) -> &[u64] {
        self.rest.as_ref().map_or(&[], |rest| &rest.long)
    }

    fn histogram(&self) -> Option<&Histogram> {
        self.rest.as_ref()?.histogram.as_ref()
    }

    /// Values that are not counted yet.
    #[inline]
    fn kept(&self) -> usize {
        self.loose.len() + self.long().len()
    }

    /// How many these may be.
    #[inline]
    fn most(&self) -> usize {
        if self.histogram().is_some() { BESIDE_MAX } else { LOOSE_MAX }
    }

    #[inline]
    fn make_room(&mut self, values: usize) {
        let most = self.most();
        if self.kept() + values > most {
            self.count_loose();
        } else if self.loose.len() + values > self.loose.capacity() {
            // A series of four times as many costs no more than two allocations.
            let capacity = (4 * (self.loose.len() + values)).min(most);
            self.loose.reserve_exact(capacity - self.loose.len());
        }
    }

    #[inline]
    fn keep(&mut self, value: u64) {
        match u32::try_from(value) {
            Ok(value) => self.loose.push(value),
            Err(_) => self.keep_long(value),
        }
    }

    #[cold]
    fn keep_long(&mut self, value: u64) {
        let rest = self.rest.get_or_insert_default();
        match &mut rest.histogram {
            Some(histogram) => {
                histogram.record(value);
                rest.sum += u128::from(value);
            }
            None => rest.long.push(value),
        }
    }

    #[cold]
    fn count_loose(&mut self) {
        let rest = self.rest.get_or_insert_default();
        rest.sum += sum(&self.loose) + sum(&rest.long);
        let histogram = rest.histogram.get_or_insert_default();
        histogram.record_all(&self.loose);
        histogram.record_all(&rest.long);
        rest.long = Vec::new();
        if self.loose.capacity() != BESIDE_MAX {
            self.loose = Vec::with_capacity(BESIDE_MAX);
        }
        self.loose.clear();
    }

    /// All values in a histogram: the series' own, or the workspace's.
    fn counted<'a>(&'a self, workspace: &'a mut Option<Histogram>) -> &'a Histogram {
        let own = self.histogram();
        if let Some(own) = own.filter(|_| self.kept() == 0) {
            return own;
        }
        let all = workspace.get_or_insert_default();
        match own {
            Some(own) => all.copy_from(own),
            None => all.clear(),
        }
        all.record_all(&self.loose);
        all.record_all(self.long());
        all
    }

    /// All values, in any order, where none is counted yet.
    fn few(&self) -> impl Iterator<Item = u64> {
        self.loose.iter().copied().map(u64::from).chain(self.long().iter().copied())
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram().map_or(0, Histogram::count) + self.kept() as u64
    }

    /// The smallest; `None` when there is none.
    pub fn min(&self) -> Option<Nanos> {
        let loose = self.loose.iter().copied().min().map(u64::from);
        let others = self.long().iter().copied().chain(self.histogram().and_then(Histogram::min));
        others.chain(loose).min().map(time)
    }

    /// The largest.
    pub fn max(&self) -> Option<Nanos> {
        let loose = self.loose.iter().copied().max().map(u64::from);
        let others = self.long().iter().copied().chain(self.histogram().and_then(Histogram::max));
        others.chain(loose).max().map(time)
    }

    /// The mean, rounded down.
    pub fn mean(&self) -> Option<Nanos> {
        let mean = self.exact_sum().checked_div(u128::from(self.count()))?;
        u64::try_from(mean).ok().map(time)
    }

    /// The value of rank `ceil(q n)`: exact for up to [`FEW`] values, else within 1/256.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        self.quantiles([q], &mut Workspace::default()).map(|[value]| value)
    }

    /// Several quantiles at once.
    pub(crate) fn quantiles<const N: usize>(
        &self,
        q: [f64; N],
        workspace: &mut Workspace,
    ) -> Option<[Nanos; N]> {
        let mut values = [Nanos::ZERO; N];
        if self.count() > FEW as u64 {
            let histogram = self.counted(&mut workspace.histogram);
            for (value, q) in values.iter_mut().zip(q) {
                *value = time(histogram.quantile(q)?);
            }
            return Some(values);
        }
        let few = &mut workspace.few;
        few.clear();
        few.extend(self.few());
        // What is before the last one sought is no larger, so it is not looked at for a later one.
        let mut from = 0;
        for (value, q) in values.iter_mut().zip(q) {
            let place = usize::try_from(quantile_rank(q, few.len() as u64)? - 1).ok()?;
            from = if place < from { 0 } else { from };
            *value = time(*few[from..].select_nth_unstable(place - from).1);
            from = place;
        }
        Some(values)
    }

    /// The distinct values, ascending, each with its count. Of more than [`FEW`] values each stands for the upper end
    /// of its bucket: at most 1/256 above what was seen, and never above the maximum.
    pub fn values(&self) -> Vec<(Nanos, u64)> {
        if self.count() > FEW as u64 {
            let (mut workspace, max) = (None, self.max().unwrap_or_default());
            let histogram = self.counted(&mut workspace);
            return histogram.buckets().map(|(_, high, count)| (time(high).min(max), count)).collect();
        }
        let mut few: Vec<u64> = self.few().collect();
        few.sort_unstable();
        few.chunk_by(|a, b| a == b).map(|equal| (time(equal[0]), equal.len() as u64)).collect()
    }

    /// All of them together.
    pub fn sum(&self) -> Nanos {
        time(u64::try_from(self.exact_sum()).unwrap_or(u64::MAX))
    }

    fn exact_sum(&self) -> u128 {
        sum(&self.loose) + sum(self.long()) + self.rest.as_ref().map_or(0, |rest| rest.sum)
    }
}

/// The sum of at most [`LOOSE_MAX`] values.
fn sum<T: Copy + Into<u64>>(values: &[T]) -> u128 {
    // Sums of so few halves of 32 bits do not wrap; what cannot fail is added several at once.
    let (low, high) = values.iter().fold((0u64, 0u64), |(low, high), value| {
        let value: u64 = (*value).into();
        (low.wrapping_add(value & u64::from(u32::MAX)), high.wrapping_add(value >> 32))
    });
    u128::from(low) + (u128::from(high) << 32)
}

fn time(ns: u64) -> Nanos {
    Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surety_stats::Sample;

    use super::*;

    #[test]
    fn quantiles_are_exact_for_few_and_close_for_many() {
        for many in [FEW, FEW + 1, LOOSE_MAX, LOOSE_MAX + 1, 20_000] {
            let mut series = Series::default();
            (0..many).rev().for_each(|k| series.record(Nanos::new(1000 * k as i64)));
            let median = 1000 * (many.div_ceil(2) as i64 - 1);
            let found = series.quantile(0.5).unwrap().get();
            let error = if many <= FEW { 0 } else { median / 256 };
            assert!((found - median).abs() <= error, "{many}: {found} for {median}");
            assert_eq!((series.count(), series.min()), (many as u64, Some(Nanos::ZERO)));
            assert_eq!(series.max(), Some(Nanos::new(1000 * (many as i64 - 1))));
            assert_eq!(series.mean(), Some(Nanos::new(500 * (many as i64 - 1))));
        }
        assert_eq!(Series::default().quantile(0.5), None);
        assert_eq!((Series::default().mean(), Series::default().min()), (None, None));
    }

    #[test]
    fn zeros_are_values_like_any_other() {
        for (before, zeros) in [(0, 0), (3, FEW - 3), (3, FEW), (3, 5000), (5000, 3), (5000, 5000)] {
            let (mut one, mut all) = (Series::default(), Series::default());
            for k in 0..before {
                one.record(Nanos::new(k));
                all.record(Nanos::new(k));
            }
            all.record_zeros(zeros as u64);
            (0..zeros).for_each(|_| one.record(Nanos::ZERO));
            assert_eq!((one.count(), one.sum(), one.values()), (all.count(), all.sum(), all.values()));
            assert_eq!((one.min(), one.quantile(0.5)), (all.min(), all.quantile(0.5)));
        }
    }

    proptest! {
        /// However long times are and however they come, alone or together, a series says of them what all of them in order,
        /// or all of them in one histogram, say; in a workspace that served others before, too.
        #[test]
        fn a_series_is_its_values(
            values in prop::collection::vec(
                prop_oneof![4 => 0..5_000_000i64, 1 => 0..i64::MAX / 8192, 1 => (1i64 << 32) - 2..(1 << 32) + 2],
                1..3 * LOOSE_MAX,
            ),
            together in 1usize..20,
        ) {
            let mut workspace = Workspace::default();
            for values in [&values[..], &values[values.len() / 2..], &values[values.len() * 15 / 16..]] {
                let mut series = Series::default();
                for chunk in values.chunks(together) {
                    match chunk {
                        [value] => series.record(Nanos::new(*value)),
                        _ => series.record_all(chunk.iter().copied().map(Nanos::new)),
                    }
                }
                let plain: Vec<u64> = values.iter().map(|value| value.cast_unsigned()).collect();
                let mut histogram = Histogram::new();
                histogram.record_all(&plain);
                let sample = Sample::new(plain);
                prop_assert_eq!(series.count(), sample.count());
                prop_assert_eq!((series.min(), series.max()), (sample.min().map(time), sample.max().map(time)));
                prop_assert_eq!(series.sum(), values.iter().copied().map(Nanos::new).sum::<Nanos>());
                let asked = [0.9, 0.0, 0.5, 0.99, 1.0];
                let expected = asked.map(|q| {
                    time(if values.len() <= FEW { sample.quantile(q) } else { histogram.quantile(q) }.unwrap())
                });
                prop_assert_eq!(series.quantiles(asked, &mut workspace), Some(expected));
            }
        }
    }
}
