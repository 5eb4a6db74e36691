//! [`Series`]: times of one kind, any number of them in bounded memory.
//!
//! Count, extremes, sum and mean are exact. Quantiles are exact for up to [`FEW`] values; of more they are those of a
//! histogram, within 1/256 of the values.
//!
//! Values are kept as they come and counted together: a series among thousands is not in the cache when the next value
//! comes, and its counters are on more pages of memory than the values of a short series.

use std::borrow::Cow;

use surety_stats::{Histogram, Sample};
use surety_units::Nanos;

/// Up to this many values quantiles are exact. Beside a histogram no more values are kept.
pub const FEW: usize = 256;

/// Values that are kept without a histogram, at most.
const LOOSE_MAX: usize = 2048;

/// Bytes a series takes on the heap at most: its histogram, and the values that are not in it yet.
pub const SERIES_BYTES_MAX: usize = 37 << 10;

/// A series of times.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Values that are not counted yet.
    loose: Vec<u64>,
    /// Those that are, and their sum.
    histogram: Option<Histogram>,
    sum: u128,
}

impl Series {
    /// Counts a time; a negative one counts as 0.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        let most = if self.histogram.is_some() { FEW } else { LOOSE_MAX };
        if self.loose.len() >= most {
            self.count_loose();
        }
        self.loose.push(value.get_unsigned());
    }

    /// Counts up to [`FEW`] times together.
    #[inline]
    pub(crate) fn record_all(&mut self, values: impl ExactSizeIterator<Item = Nanos>) {
        let most = if self.histogram.is_some() { FEW } else { LOOSE_MAX };
        let kept = self.loose.len() + values.len();
        if kept > most {
            self.count_loose();
        } else if kept > self.loose.capacity() {
            // A series of four times as many costs no more than two allocations.
            self.loose.reserve_exact((4 * kept).min(most) - self.loose.len());
        }
        self.loose.extend(values.map(Nanos::get_unsigned));
    }

    #[cold]
    fn count_loose(&mut self) {
        let loose = std::mem::take(&mut self.loose);
        self.sum += sum(&loose);
        self.histogram.get_or_insert_default().record_all(&loose);
        self.loose = if loose.capacity() == FEW { loose } else { Vec::with_capacity(FEW) };
        self.loose.clear();
    }

    /// Counts what is kept, where quantiles are the histogram's: to be done before a series is asked for them, which
    /// counts it in a copy otherwise.
    pub(crate) fn settle(&mut self) {
        if self.count() > FEW as u64 {
            self.count_loose();
        }
    }

    /// All values in a histogram.
    fn counted(&self) -> Cow<'_, Histogram> {
        match &self.histogram {
            Some(histogram) if self.loose.is_empty() => Cow::Borrowed(histogram),
            known => {
                let mut histogram = known.clone().unwrap_or_default();
                histogram.record_all(&self.loose);
                Cow::Owned(histogram)
            }
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::count) + self.loose.len() as u64
    }

    /// The smallest; `None` when there is none.
    pub fn min(&self) -> Option<Nanos> {
        let counted = self.histogram.as_ref().and_then(Histogram::min);
        self.loose.iter().copied().chain(counted).min().map(time)
    }

    /// The largest.
    pub fn max(&self) -> Option<Nanos> {
        let counted = self.histogram.as_ref().and_then(Histogram::max);
        self.loose.iter().copied().chain(counted).max().map(time)
    }

    /// The mean, rounded down.
    pub fn mean(&self) -> Option<Nanos> {
        let mean = self.exact_sum().checked_div(u128::from(self.count()))?;
        u64::try_from(mean).ok().map(time)
    }

    /// The value of rank `ceil(q n)`: exact for up to [`FEW`] values, else within 1/256.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        self.quantiles([q]).map(|[value]| value)
    }

    /// Several quantiles at once.
    pub fn quantiles<const N: usize>(&self, q: [f64; N]) -> Option<[Nanos; N]> {
        let mut values = [Nanos::ZERO; N];
        if self.count() <= FEW as u64 {
            let few = Sample::new(self.loose.clone());
            for (value, q) in values.iter_mut().zip(q) {
                *value = time(few.quantile(q)?);
            }
        } else {
            let histogram = self.counted();
            for (value, q) in values.iter_mut().zip(q) {
                *value = time(histogram.quantile(q)?);
            }
        }
        Some(values)
    }

    /// The distinct values, ascending, each with its count. Of more than [`FEW`] values each stands for the upper end
    /// of its bucket: at most 1/256 above what was seen, and never above the maximum.
    pub fn values(&self) -> Vec<(Nanos, u64)> {
        if self.count() > FEW as u64 {
            let (histogram, max) = (self.counted(), self.max().unwrap_or_default());
            return histogram.buckets().map(|(_, high, count)| (time(high).min(max), count)).collect();
        }
        let mut few = self.loose.clone();
        few.sort_unstable();
        few.chunk_by(|a, b| a == b).map(|equal| (time(equal[0]), equal.len() as u64)).collect()
    }

    /// All of them together.
    pub fn sum(&self) -> Nanos {
        time(u64::try_from(self.exact_sum()).unwrap_or(u64::MAX))
    }

    fn exact_sum(&self) -> u128 {
        self.sum + sum(&self.loose)
    }
}

fn sum(values: &[u64]) -> u128 {
    values.iter().copied().map(u128::from).sum()
}

fn time(ns: u64) -> Nanos {
    Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_for_few_and_close_for_many() {
        for (many, settled) in
            [FEW, FEW + 1, LOOSE_MAX, LOOSE_MAX + 1, 20_000].map(|n| [(n, false), (n, true)]).concat()
        {
            let mut series = Series::default();
            (0..many).rev().for_each(|k| series.record(Nanos::new(1000 * k as i64)));
            if settled {
                series.settle();
            }
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
}
