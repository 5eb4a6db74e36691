//! The A/A floor: how far two halves of the runs of the same side are apart.
//!
//! The same statistic that compares the sides, the median of all differences (Hodges and Lehmann 1963), is taken
//! between the halves of one side, for every way to split it, and the floor is a high quantile of its sizes. A half
//! has half as many runs as a side, so its shift varies as the square root of 2 times that of two whole sides; the
//! floor is divided by it. A difference above it stands out of what the machine does to equal things.

use std::f64::consts::FRAC_1_SQRT_2;

use surety_stats::{Pcg, quantile_rank, stream_of};

/// Up to this many runs every split is taken; beyond, as many as [`SPLITS`], by chance.
const EVERY_SPLIT: usize = 12;
const SPLITS: usize = 500;

/// The quantile of the split shifts that is the floor.
pub const FLOOR_QUANTILE: f64 = 0.95;

/// The stream of chance that splits runs.
const STREAM: &str = "the halves of a side";

/// The median of all differences `b - a`; `None` when a side is empty.
pub fn median_difference(a: &[f64], b: &[f64]) -> Option<f64> {
    let mut all: Vec<f64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
    all.sort_by(f64::total_cmp);
    let upper = all.get(all.len() / 2)?;
    let lower = all.get((all.len() - 1) / 2)?;
    Some(lower + (upper - lower) / 2.0)
}

/// The floor of one side. `None` below four runs: halves of one run each have no statistic.
pub fn of_side(values: &[f64], seed: u64) -> Option<f64> {
    let n = values.len();
    if n < 4 {
        return None;
    }
    let mut shifts: Vec<f64> = if n <= EVERY_SPLIT {
        (0u32..1 << n)
            .filter(|bits| bits.count_ones() as usize == n / 2)
            .filter_map(|bits| split_shift(values, |i| bits >> i & 1 == 1))
            .collect()
    } else {
        (0..SPLITS as u64)
            .filter_map(|split| {
                let mut pcg = Pcg::for_job(seed, stream_of(STREAM), split);
                let mut chosen: Vec<bool> = (0..n).map(|i| i < n / 2).collect();
                for last in (1..n).rev() {
                    chosen.swap(last, pcg.below(last as u64 + 1) as usize);
                }
                split_shift(values, |i| chosen.get(i).copied().unwrap_or(false))
            })
            .collect()
    };
    shifts.sort_by(f64::total_cmp);
    let rank = quantile_rank(FLOOR_QUANTILE, shifts.len() as u64)? as usize;
    shifts.get(rank - 1).map(|shift| shift * FRAC_1_SQRT_2)
}

/// How far apart the chosen runs and the others are.
fn split_shift(values: &[f64], is_chosen: impl Fn(usize) -> bool) -> Option<f64> {
    let part = |wanted: bool| -> Vec<f64> {
        let chosen = values.iter().enumerate().filter(|(i, _)| is_chosen(*i) == wanted);
        chosen.map(|(_, value)| *value).collect()
    };
    median_difference(&part(true), &part(false)).map(f64::abs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_runs_have_no_floor_and_few_runs_none_at_all() {
        assert_eq!(of_side(&[3.0; 8], 1), Some(0.0));
        assert_eq!(of_side(&[3.0; 3], 1), None);
    }

    /// Halves of 0 1 10 11: the widest split is {0, 1} against {10, 11}, 10 apart.
    #[test]
    fn the_floor_is_the_widest_split_of_four() {
        assert_eq!(of_side(&[0.0, 10.0, 1.0, 11.0], 1), Some(10.0 * FRAC_1_SQRT_2));
    }

    #[test]
    fn splits_by_chance_agree_with_all_splits() {
        let values: Vec<f64> = (0..13).map(|i| f64::from(i * i % 13)).collect();
        let by_chance = of_side(&values, 1).unwrap();
        let all = of_side(&values[..12], 1).unwrap();
        assert!((by_chance / all - 1.0).abs() < 0.35, "{by_chance} {all}");
    }

    #[test]
    fn the_median_difference_is_that_of_all_pairs() {
        assert_eq!(median_difference(&[1.0, 2.0], &[5.0, 9.0]), Some(5.5));
        assert_eq!(median_difference(&[], &[5.0]), None);
    }
}
