//! The order in which the runs of two or more sides are taken, so that a drift of the machine falls on all alike.
//!
//! Runs are taken in rounds, each side once a round. The second round of two goes backwards: `A B B A`. A steady
//! drift then adds the same to the sum of each side. Whether a block of two rounds goes forth first or back first is
//! a coin's decision: whatever comes and goes on the machine at regular times cannot stay in step with one side.

use surety_stats::{Pcg, stream_of};

/// The stream of chance that orders runs.
const STREAM: &str = "the order of runs";

/// For each round the sides in the order in which they are run: indices below `sides`.
pub fn interleaved(sides: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
    let forth: Vec<usize> = (0..sides).collect();
    let back: Vec<usize> = (0..sides).rev().collect();
    let mut list = Vec::with_capacity(rounds);
    for block in 0..rounds.div_ceil(2) {
        let heads = Pcg::for_job(seed, stream_of(STREAM), block as u64).below(2) == 0;
        let (first, second) = if heads { (&forth, &back) } else { (&back, &forth) };
        list.extend([first.clone(), second.clone()]);
    }
    list.truncate(rounds);
    list
}

/// Which of the rounds taken are compared: the `wanted` least disturbed, in the order in which they were taken.
///
/// A round is as disturbed as the worst of its runs. That is known apart from what is compared, and it drops the
/// runs of all sides together, so the choice favours none.
pub fn least_disturbed(rounds: &[f64], wanted: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..rounds.len()).collect();
    places.sort_by(|x, y| rounds[*x].total_cmp(&rounds[*y]));
    places.truncate(wanted);
    places.sort_unstable();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_disturbed_rounds_are_kept_in_their_order() {
        assert_eq!(least_disturbed(&[0.3, 0.0, 0.2, 0.0, 0.1], 3), [1, 3, 4]);
        assert_eq!(least_disturbed(&[0.0; 4], 2), [0, 1]);
        assert_eq!(least_disturbed(&[0.5], 3), [0]);
    }

    #[test]
    fn a_steady_drift_falls_on_both_sides_alike() {
        for seed in 0..20 {
            let rounds = interleaved(2, 8, seed);
            let mut sums = [0, 0];
            rounds.iter().flatten().enumerate().for_each(|(place, side)| sums[*side] += place);
            assert_eq!(sums[0], sums[1], "{rounds:?}");
        }
    }

    #[test]
    fn both_orders_come_and_the_seed_decides() {
        let firsts: Vec<usize> = (0..40).map(|seed| interleaved(2, 1, seed)[0][0]).collect();
        assert!(firsts.contains(&0) && firsts.contains(&1));
        assert_eq!(interleaved(3, 5, 7), interleaved(3, 5, 7));
        assert_eq!(interleaved(3, 5, 7).len(), 5);
    }
}
