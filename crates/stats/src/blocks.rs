//! [`Blocks`]: how the values of consecutive parts of a run are distributed, roughly, in bounded memory.
//!
//! A quantile of a run is as sure as the number of values beyond it is, and that varies by more than chance where
//! late values come together ([`crate::failures`]). So a run is cut into 32 to 64 blocks of equal length, each with a histogram of four
//! buckets to the octave: how many values of each block lie beyond any of the borders is known, and with it the variance of
//! that number.

use crate::failures::Failures;

/// Two bits below the leading one: four buckets to the octave.
const SUB_BITS: u32 = 2;
/// Values from 2^40 on share a bucket with those that never came.
const RANGE_BITS: u32 = 40;
const BUCKETS: usize = (((RANGE_BITS - SUB_BITS + 1) as usize) << SUB_BITS) + 1;
const MOST: usize = 64;

/// Rough histograms of the parts of a run. Its size is fixed: recording allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// A row of [`BUCKETS`] for each block.
    counts: Box<[u32]>,
    /// Values of a block.
    every: u64,
    count: u64,
}

/// The bucket of a value, the last one from 2^40 on.
fn bucket_of(value: u64) -> usize {
    let shift = u64::BITS - 1 - SUB_BITS - (value | 1 << SUB_BITS).leading_zeros();
    let index = (u64::from(shift) << SUB_BITS) + (value >> shift);
    usize::try_from(index).map_or(BUCKETS - 1, |index| index.min(BUCKETS - 1))
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks::new()
    }
}

impl Blocks {
    /// No value yet, and room for all that will ever be kept.
    pub fn new() -> Blocks {
        Blocks { counts: vec![0; MOST * BUCKETS].into_boxed_slice(), every: 1, count: 0 }
    }

    /// What was kept before: for each bucket that holds something its block, its place in it and its count.
    ///
    /// `None` where that cannot be: a place that does not exist, or a block with more values than it has room for.
    pub fn of_kept(cells: &[(u64, u64, u32)], every: u64, count: u64) -> Option<Blocks> {
        if every == 0 || count.div_ceil(every) > MOST as u64 {
            return None;
        }
        let mut blocks = Blocks { every, count, ..Blocks::new() };
        for &(block, bucket, count) in cells {
            let (row, column) = (usize::try_from(block).ok()?, usize::try_from(bucket).ok()?);
            if column >= BUCKETS || row >= MOST {
                return None;
            }
            blocks.counts[row * BUCKETS + column] = count;
        }
        let fits = |(place, row): (u64, &[u32])| {
            let held: u64 = row.iter().map(|count| u64::from(*count)).sum();
            held == count.saturating_sub(place.saturating_mul(every)).min(every)
        };
        (0..).zip(blocks.counts.chunks(BUCKETS)).all(fits).then_some(blocks)
    }

    /// The buckets that hold something, as [`Blocks::of_kept`] takes them.
    pub fn kept(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        let cells = (0..).zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0);
        cells.map(|(place, count): (u64, u32)| (place / BUCKETS as u64, place % BUCKETS as u64, count))
    }

    /// Takes the next value; `u64::MAX` where it never came. Allocates nothing.
    pub fn record(&mut self, value: u64) {
        let mut block = (self.count / self.every) as usize;
        if block == MOST {
            self.halve();
            block = MOST / 2;
        }
        let cell = &mut self.counts[block * BUCKETS + bucket_of(value)];
        *cell = cell.saturating_add(1);
        self.count += 1;
    }

    /// Two neighbouring blocks become one.
    fn halve(&mut self) {
        for block in 0..MOST / 2 {
            for bucket in 0..BUCKETS {
                let (first, second) = (2 * block * BUCKETS + bucket, (2 * block + 1) * BUCKETS + bucket);
                self.counts[block * BUCKETS + bucket] =
                    self.counts[first].saturating_add(self.counts[second]);
            }
        }
        self.counts[MOST / 2 * BUCKETS..].fill(0);
        self.every = self.every.saturating_mul(2);
    }

    /// Adds a run that was made after this one. A block at the border may hold values of both.
    pub fn append(&mut self, other: &Blocks) {
        let total = self.count.saturating_add(other.count);
        let every = self.every.max(other.every).max(total.div_ceil(MOST as u64));
        let mut sum = Blocks { every, count: total, ..Blocks::new() };
        for (run, before) in [(&*self, 0), (other, self.count)] {
            for (block, bucket, count) in run.kept() {
                let place = before.saturating_add(block.saturating_mul(run.every)) / every;
                let row = usize::try_from(place).unwrap_or(MOST).min(MOST - 1);
                let cell = &mut sum.counts[row * BUCKETS + bucket as usize];
                *cell = cell.saturating_add(count);
            }
        }
        *self = sum;
    }

    /// Takes over another, without allocating.
    pub fn copy_from(&mut self, other: &Blocks) {
        self.counts.copy_from_slice(&other.counts);
        (self.every, self.count) = (other.every, other.count);
    }

    /// How many values were taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Values of a block.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// By how much the number of values beyond the `q` quantile varies more than of independent values: see
    /// [`Failures::design_effect`]. Taken at the border of buckets that parts the run most nearly there.
    pub fn design_effect(&self, q: f64) -> f64 {
        let column = |bucket: usize| self.counts.iter().skip(bucket).step_by(BUCKETS);
        let wanted = (1.0 - q) * self.count as f64;
        let (mut beyond, mut best) = (0.0f64, (f64::INFINITY, BUCKETS));
        for bucket in (1..BUCKETS).rev() {
            beyond += column(bucket).map(|count| f64::from(*count)).sum::<f64>();
            let off = (beyond - wanted).abs();
            if beyond > 0.0 && beyond < self.count as f64 && off < best.0 {
                best = (off, bucket);
            }
        }
        let beyond = self.counts.chunks(BUCKETS).map(|row| row[best.1..].iter().map(|c| u64::from(*c)).sum());
        let cells: Vec<(u64, u64)> = (0..).zip(beyond).filter(|(_, count)| *count > 0).collect();
        Failures::of_kept(&cells, self.every, self.count).map_or(1.0, |beyond| beyond.design_effect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Pcg;

    fn of(values: impl IntoIterator<Item = u64>) -> Blocks {
        let mut blocks = Blocks::new();
        values.into_iter().for_each(|value| blocks.record(value));
        blocks
    }

    #[test]
    fn buckets_ascend_and_hold_every_value() {
        let values: Vec<u64> =
            (0..40).flat_map(|bits| [1u64 << bits, (1 << bits) + (1 << bits) / 3]).collect();
        assert!(values.iter().map(|v| bucket_of(*v)).collect::<Vec<_>>().is_sorted());
        assert_eq!((bucket_of(0), bucket_of(u64::MAX), bucket_of(1 << 40)), (0, BUCKETS - 1, BUCKETS - 1));
        assert!(bucket_of((1 << 40) - 1) < BUCKETS - 1);
    }

    /// Bursts of 100 late values count about a hundredth, whatever the length of the run; independent ones in full.
    #[test]
    fn late_values_that_come_together_count_as_one() {
        for n in [3_000u64, 50_000, 1_000_000] {
            let mut pcg = Pcg::for_job(1, 2, n);
            let bursts = of((0..n).map(|i| if i % (n / 20) < 100 { 50_000 } else { 1_000 }));
            let chance = of((0..n).map(|_| if pcg.below(1_000) == 0 { 50_000 } else { 1_000 }));
            let q = 1.0 - 2_000.0 / n as f64;
            let (together, apart) = (bursts.design_effect(q), chance.design_effect(0.999));
            assert!(together > 20.0 && together < 400.0, "{n}: {together}");
            assert!(apart < 3.5, "{n}: {apart}");
        }
    }

    #[test]
    fn what_was_kept_is_the_same_and_runs_are_appended() {
        for n in [0u64, 1, 64, 65, 10_001] {
            let blocks = of((0..n).map(|i| i * 37 % 100_000));
            let cells: Vec<_> = blocks.kept().collect();
            assert_eq!(Blocks::of_kept(&cells, blocks.every(), blocks.count()), Some(blocks.clone()));
            let mut twice = blocks.clone();
            twice.append(&of((0..500).map(|i| i * 11)));
            assert_eq!(twice.count(), n + 500);
            assert_eq!(twice.kept().map(|(_, _, count)| u64::from(count)).sum::<u64>(), n + 500);
        }
        assert_eq!(Blocks::of_kept(&[(0, 0, 3)], 2, 3), None);
        assert_eq!(Blocks::of_kept(&[(64, 0, 1)], 1, 1), None);
        assert_eq!(Blocks::of_kept(&[(0, BUCKETS as u64, 1)], 1, 1), None);
    }
}
