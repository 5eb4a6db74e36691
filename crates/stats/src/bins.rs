//! The histogram bins of other programs, so that their counts are read with the right edges.
//!
//! A count of a bin stands for any value between its edges. A program that prints a bin's midpoint, as fio
//! does, may print a percentile above the maximum; whoever imports counts must take the edges, and the upper ones where a
//! result must not become too good.
//!
//! *fio* (`stat.c`, its latency bins): 64 bins an octave, 29 groups, 1856 in all; from 2^34 ns on everything is
//! in the last. With `e = max(0, floor(log2 v) - 6)`:
//!
//! ```text
//! v < 64: index = v       else: index = 64 (e + 1) + ((v >> e) mod 64)
//! ```
//!
//! *HdrHistogram* of `d` decimal digits above a lowest value: `2^k >= 2·10^d` sub-buckets (`k` the smallest), each
//! further bucket twice as wide with half as many new sub-buckets.

/// How many bins fio has.
pub const FIO_BINS: usize = 1856;

const FIO_BITS: u32 = 6;

/// The bin of fio a value in nanoseconds is counted in.
pub fn fio_index(value: u64) -> usize {
    let Some(log) = value.checked_ilog2().filter(|&log| log > FIO_BITS) else { return value as usize };
    let shift = log - FIO_BITS;
    let index = (u64::from(shift + 1) << FIO_BITS) + ((value >> shift) & 63);
    (index as usize).min(FIO_BINS - 1)
}

/// The smallest and the largest value of a bin of fio; the last reaches to `u64::MAX`. `None` beyond the last.
pub fn fio_range(index: usize) -> Option<(u64, u64)> {
    if index >= FIO_BINS {
        return None;
    }
    let shift = (index >> FIO_BITS).saturating_sub(1);
    let low = ((index - (shift << FIO_BITS)) as u64) << shift;
    let high = if index == FIO_BINS - 1 { u64::MAX } else { low + ((1 << shift) - 1) };
    Some((low, high))
}

/// The bins of an HdrHistogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HdrBins {
    /// `floor(log2(lowest))`.
    unit: u32,
    /// `k - 1`.
    half: u32,
}

impl HdrBins {
    /// The bins for values from `lowest >= 1` with 1 to 5 significant decimal digits; `None` otherwise, or when
    /// a sub-bucket would not fit 62 bits.
    pub fn new(lowest: u64, digits: u32) -> Option<HdrBins> {
        if !(1..=5).contains(&digits) {
            return None;
        }
        let unit = lowest.checked_ilog2()?;
        let half = (2 * 10u64.pow(digits)).next_power_of_two().ilog2() - 1;
        (unit + half < 62).then_some(HdrBins { unit, half })
    }

    /// How far the values of a bucket are shifted to become sub-buckets.
    fn shift(self, value: u64) -> u32 {
        let least = self.unit + self.half;
        value.checked_ilog2().unwrap_or(0).max(least) - self.half
    }

    /// The index of the counter of a value.
    pub fn index(self, value: u64) -> u64 {
        let shift = self.shift(value);
        (u64::from(shift - self.unit) << self.half) + (value >> shift)
    }

    /// The smallest and the largest value counted together with this one.
    pub fn range(self, value: u64) -> (u64, u64) {
        let shift = self.shift(value);
        let low = value >> shift << shift;
        (low, low + ((1 << shift) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// fio documents a relative error of at most 1/128 of the midpoint and a range of 17.2 s.
    #[test]
    fn bins_of_fio() {
        for (value, index, range) in [
            (0, 0, (0, 0)),
            (63, 63, (63, 63)),
            (64, 64, (64, 64)),
            (127, 127, (127, 127)),
            (128, 128, (128, 129)),
            (255, 191, (254, 255)),
            (256, 192, (256, 259)),
            (1_000_000, 954, (999_424, 1_007_615)),
            (1 << 34, 1855, (127 << 27, u64::MAX)),
            (u64::MAX, 1855, (127 << 27, u64::MAX)),
        ] {
            assert_eq!(fio_index(value), index, "{value}");
            assert_eq!(fio_range(index), Some(range), "{value}");
        }
        assert_eq!(fio_range(FIO_BINS), None);
        assert!((17.0e9..17.2e9).contains(&((127u64 << 27) as f64)));
    }

    /// The widths HdrHistogram's own unit tests state: of 1, 2500, 8191, 8192 and 10000 with three digits, and
    /// of the same times 1024 above a lowest value of 1024.
    #[test]
    fn bins_of_hdr_histogram() {
        for unit in [1u64, 1_024] {
            let bins = HdrBins::new(unit, 3).unwrap();
            for (value, width) in [(1, 1), (2_500, 2), (8_191, 4), (8_192, 8), (10_000, 8)] {
                let (low, high) = bins.range(value * unit);
                assert_eq!(high - low + 1, width * unit, "{value} times {unit}");
            }
            assert_eq!(bins.range(10_007 * unit).0, 10_000 * unit);
            assert_eq!(bins.range(10_009 * unit).0, 10_008 * unit);
        }
        assert_eq!((HdrBins::new(0, 3), HdrBins::new(1, 0), HdrBins::new(1 << 60, 3)), (None, None, None));
    }

    proptest! {
        /// Bins tile the range: each value is inside its own, and the next bin begins where it ends.
        #[test]
        fn bins_tile(value in prop_oneof![0..10_000u64, any::<u64>()], digits in 1u32..=5) {
            let (low, high) = fio_range(fio_index(value)).unwrap();
            prop_assert!(low <= value && value <= high);
            if high < u64::MAX {
                prop_assert_eq!(fio_index(high + 1), fio_index(value) + 1);
                prop_assert!((high - low) as f64 <= value as f64 / 64.0);
            }
            let bins = HdrBins::new(1, digits).unwrap();
            let (low, high) = bins.range(value);
            prop_assert!(low <= value && value <= high && bins.index(low) == bins.index(high));
            prop_assert!((high - low) as f64 <= value as f64 / 10f64.powi(digits as i32));
            if high < u64::MAX {
                prop_assert_eq!(bins.index(high + 1), bins.index(value) + 1);
            }
        }
    }
}
