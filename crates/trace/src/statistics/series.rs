//! [`Series`]: times of one kind, any number of them in bounded memory.
//!
//! Count, extremes, sum and mean are exact. Quantiles are exact for the first [`FEW`] values; beyond, the values move into
//! a histogram and quantiles are within 1/256 of theirs.

use surety_stats::{Histogram, Sample};
use surety_units::Nanos;

/// So many values are kept as they are: 2 KiB at most.
pub const FEW: usize = 256;

/// Bytes a series takes on the heap at most: its histogram, and the values that went into it.
pub const SERIES_BYTES_MAX: usize = 37 << 10;

/// A series of times.
#[derive(Clone, Debug, Default)]
pub struct Series {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    few: Vec<u64>,
    histogram: Option<Histogram>,
}

impl Series {
    /// Counts a time; a negative one counts as 0.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        let value = value.get_unsigned();
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        match &mut self.histogram {
            Some(histogram) => histogram.record(value),
            None if self.few.len() < FEW => self.few.push(value),
            None => self.spill(value),
        }
    }

    #[cold]
    fn spill(&mut self, value: u64) {
        let mut histogram = Histogram::new();
        for value in std::mem::take(&mut self.few) {
            histogram.record(value);
        }
        histogram.record(value);
        self.histogram = Some(histogram);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest; `None` when there is none.
    pub fn min(&self) -> Option<Nanos> {
        (self.count > 0).then(|| time(self.min))
    }

    /// The largest.
    pub fn max(&self) -> Option<Nanos> {
        (self.count > 0).then(|| time(self.max))
    }

    /// The mean, rounded down.
    pub fn mean(&self) -> Option<Nanos> {
        let mean = self.sum.checked_div(u128::from(self.count))?;
        u64::try_from(mean).ok().map(time)
    }

    /// The value of rank `ceil(q n)`: exact for up to [`FEW`] values, else within 1/256.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        self.quantiles([q]).map(|[value]| value)
    }

    /// Several quantiles at once.
    pub fn quantiles<const N: usize>(&self, q: [f64; N]) -> Option<[Nanos; N]> {
        let few = self.histogram.is_none().then(|| Sample::new(self.few.clone()));
        let mut values = [Nanos::ZERO; N];
        for (value, q) in values.iter_mut().zip(q) {
            *value = match (&few, &self.histogram) {
                (Some(few), _) => time(few.quantile(q)?),
                (None, Some(histogram)) => time(histogram.quantile(q)?),
                (None, None) => return None,
            };
        }
        Some(values)
    }

    /// The distinct values, ascending, each with its count. Beyond the first [`FEW`] values each stands for the upper end
    /// of its bucket: at most 1/256 above what was seen, and never above the maximum.
    pub fn values(&self) -> Vec<(Nanos, u64)> {
        if let Some(histogram) = &self.histogram {
            return histogram.buckets().map(|(_, high, count)| (time(high.min(self.max)), count)).collect();
        }
        let mut few = self.few.clone();
        few.sort_unstable();
        few.chunk_by(|a, b| a == b).map(|equal| (time(equal[0]), equal.len() as u64)).collect()
    }

    /// All of them together.
    pub fn sum(&self) -> Nanos {
        time(u64::try_from(self.sum).unwrap_or(u64::MAX))
    }
}

fn time(ns: u64) -> Nanos {
    Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_for_few_and_close_for_many() {
        for many in [FEW, FEW + 1, 20_000] {
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
}
