//! An empirical distribution small enough for a workload file: quantiles on a grid, each group of neighbouring values
//! replaced by the one that asks more of a guarantee.
//!
//! Groups end at the ranks of 2 %, 4 %, ... 98 % and of 99, 99.5, 99.9 and 99.99 %, so the tail keeps its detail. Every
//! quantile of the result is on the safe side of the measured one, and the means differ by what [`Condensed::bias`]
//! says.

use surety_model::distribution::Empirical;
use surety_units::Nanos;

/// Up to this many different values are kept as they are.
const KEPT: usize = 32;
/// Parts of equal count.
const PARTS: u64 = 50;
/// Further ranks above the last part, in parts per 10 000.
const TAIL: [u64; 4] = [9_900, 9_950, 9_990, 9_999];

/// Which way values are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// To the largest of their group: work.
    Up,
    /// To the smallest of their group: distances of releases.
    Down,
}

/// A condensed distribution with what that did to its mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Condensed {
    /// At most 55 values, or the original where it has few.
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
    let rank = |part: u64, of: u64| {
        let wide = (u128::from(n) * u128::from(part)).div_ceil(u128::from(of));
        u64::try_from(wide).unwrap_or(n)
    };
    let mut ends: Vec<u64> = (1..PARTS).map(|k| rank(k, PARTS)).collect();
    ends.extend(TAIL.map(|part| rank(part, 10_000)));
    ends.push(n);
    let mut groups: Vec<(Nanos, u64)> = Vec::new();
    let mut ends = ends.into_iter().peekable();
    // The group that is open: its smallest value and its count.
    let mut open: Option<(Nanos, u64)> = None;
    let (mut seen, mut bias) = (0u64, 0.0);
    let mut members: Vec<(Nanos, u64)> = Vec::new();
    for (value, count) in pairs {
        seen += count;
        let (first, so_far) = open.unwrap_or((value, 0));
        open = Some((first, so_far + count));
        members.push((value, count));
        if ends.peek().is_some_and(|end| *end <= seen) {
            while ends.next_if(|end| *end <= seen).is_some() {}
            let kept = if side == Side::Up { value } else { first };
            let moved = members.drain(..).map(|(v, c)| (kept - v).get() as f64 * c as f64);
            bias += moved.sum::<f64>();
            groups.extend(open.take().map(|(_, count)| (kept, count)));
        }
    }
    let values = Empirical::new(groups).unwrap_or_else(|_| samples.clone());
    Condensed { values, bias: bias / n as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use surety_model::distribution::TimeDistribution;

    proptest! {
        #[test]
        fn every_quantile_is_on_the_safe_side_and_the_mean_is_off_by_the_bias(
            pairs in proptest::collection::vec((0i64..1_000_000_000, 1u64..50), 1..400),
        ) {
            let samples = Empirical::new(pairs.into_iter().map(|(v, c)| (Nanos::new(v), c)).collect()).unwrap();
            for side in [Side::Up, Side::Down] {
                let condensed = condense(&samples, side);
                prop_assert_eq!(condensed.values.total(), samples.total());
                prop_assert!(condensed.values.pairs().count() <= 55);
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
