//! An empirical distribution small enough for a workload file: groups of neighbouring values, each replaced by the one
//! that asks more of a guarantee.
//!
//! A group moves the mean by the sum of what its values move. Groups are filled in ascending order up to an allowance of
//! that, and up to a 32nd of all values; the allowance is the smallest, found by bisection, that gives at most 64 groups.
//! So quantiles are kept within 3 % of probability, long tails keep their detail, every quantile of the result is on the
//! safe side of the measured one, and the means differ by what [`Condensed::bias`] says.

use surety_model::distribution::Empirical;
use surety_units::Nanos;

/// Up to this many different values are kept as they are.
const KEPT: usize = 32;
/// The most groups.
const GROUPS: usize = 64;
/// The largest part of all values in one group of several.
const PARTS: u64 = 32;
/// Halvings of the allowance.
const STEPS: u32 = 40;

/// Which way values are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// To the largest of their group: work.
    Up,
    /// To the smallest of their group: inter-arrival times.
    Down,
}

/// A condensed distribution with what that did to its mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Condensed {
    /// At most 64 values.
    pub values: Empirical,
    /// Mean of the result less mean of the original, in ns; never negative for [`Side::Up`], never positive for
    /// [`Side::Down`].
    pub bias: f64,
}

/// Condenses measured values.
pub fn condense(samples: &Empirical, side: Side) -> Condensed {
    let pairs: Vec<(Nanos, u64)> = samples.pairs().collect();
    if pairs.len() <= KEPT {
        return Condensed { values: samples.clone(), bias: 0.0 };
    }
    let n = samples.total();
    let spread = pairs.last().map_or(0.0, |(last, _)| last.get() as f64);
    // All in one group would cost less than this.
    let mut high = spread * n as f64;
    let mut low = 0.0;
    let mut best = grouped(&pairs, side, n, high);
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        let groups = grouped(&pairs, side, n, middle);
        if groups.0.len() <= GROUPS {
            (best, high) = (groups, middle);
        } else {
            low = middle;
        }
    }
    let (groups, moved) = best;
    let values = Empirical::new(groups).unwrap_or_else(|_| samples.clone());
    Condensed { values, bias: moved / n as f64 }
}

/// The groups under an allowance, and by how much they move the sum of all values.
fn grouped(pairs: &[(Nanos, u64)], side: Side, n: u64, allowance: f64) -> (Vec<(Nanos, u64)>, f64) {
    let mut groups: Vec<(Nanos, u64)> = Vec::new();
    let (mut moved, mut moved_in_group, mut first) = (0.0, 0.0, Nanos::ZERO);
    for (value, count) in pairs.iter().copied() {
        if let Some((kept, members)) = groups.last_mut() {
            let further = match side {
                Side::Up => (value - *kept).get() as f64 * *members as f64,
                Side::Down => (value - first).get() as f64 * count as f64,
            };
            let room = *members + count <= (n / PARTS).max(1);
            if room && moved_in_group + further <= allowance {
                moved_in_group += further;
                *members += count;
                if side == Side::Up {
                    *kept = value;
                }
                continue;
            }
        }
        moved += moved_in_group;
        (moved_in_group, first) = (0.0, value);
        groups.push((value, count));
    }
    moved += moved_in_group;
    (groups, if side == Side::Up { moved } else { -moved })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use surety_model::distribution::TimeDistribution;

    #[test]
    fn a_long_tail_costs_little() {
        let work = TimeDistribution::LogNormal { mean: Nanos::from_millis(1), p99: Nanos::from_millis(12) };
        let pairs = (0..5_000).map(|k| (work.draw(1, "t", k), 1)).collect();
        let samples = Empirical::new(pairs).unwrap();
        let mean = TimeDistribution::Empirical(samples.clone()).mean_ns();
        for side in [Side::Up, Side::Down] {
            let bias = condense(&samples, side).bias;
            assert!(bias.abs() < 0.06 * mean, "{side:?} {bias} of {mean}");
        }
    }

    proptest! {
        #[test]
        fn every_quantile_is_on_the_safe_side_and_the_mean_is_off_by_the_bias(
            pairs in proptest::collection::vec((0i64..1_000_000_000, 1u64..50), 1..400),
        ) {
            let samples = Empirical::new(pairs.into_iter().map(|(v, c)| (Nanos::new(v), c)).collect()).unwrap();
            for side in [Side::Up, Side::Down] {
                let condensed = condense(&samples, side);
                prop_assert_eq!(condensed.values.total(), samples.total());
                prop_assert!(condensed.values.pairs().count() <= 64);
                for k in 1..200 {
                    let q = f64::from(k) / 200.0;
                    let (is, was) = (condensed.values.quantile(q), samples.quantile(q));
                    prop_assert!(if side == Side::Up { is >= was } else { is <= was }, "{q}: {is} {was}");
                }
                let mean = |e: &Empirical| TimeDistribution::Empirical(e.clone()).mean_ns();
                let off = mean(&condensed.values) - mean(&samples) - condensed.bias;
                prop_assert!(off.abs() <= 1e-9 * mean(&samples).max(1.0), "{off}");
            }
        }
    }
}
