//! Is one of two runs slower than the other? Mann-Whitney, the Hodges-Lehmann shift and Cliff's delta.
//!
//! `U` counts the pairs in which the value of `B` is larger, ties as halves (Mann and Whitney 1947). Nothing
//! is assumed of the distributions but that values of each run are independent.
//!
//! *Exact.* Given the pooled values, ties included, every choice of which `m` of the `N` belong to `A` is
//! equally likely under the hypothesis. The choices are counted by dynamic programming over the groups of
//! tied values: how many ways there are to have taken `j` values with a given sum of (doubled) midranks
//! (Streitberg and Röhmel 1986). Taken when neither run has more than [`EXACT_LIMIT`] values.
//!
//! *Approximate* beyond: normal with mean `mn/2`, the variance corrected for ties of `t` values each,
//! `mn/12 (N + 1 - Σ(t³ - t)/(N(N - 1)))`, and `U` moved one half towards the mean.
//!
//! *Shift* (Hodges and Lehmann 1963): the median of all differences `b - a`; its interval lies between the two
//! differences whose ranks the distribution of `U` gives (Moses; Hollander and Wolfe, Nonparametric
//! Statistical Methods, 4.3). The differences are never listed: the one of a given rank is found by bisecting
//! over all floats and counting in `m + n` steps.
//!
//! *Effect* (Cliff 1993; McGraw and Wong 1992): `P{b > a} + P{b = a}/2 = U/(mn)`, and Cliff's delta `2U/(mn) - 1`.

use std::fmt;

use thiserror::Error;

use crate::special::{normal_cdf, normal_quantile};

/// Up to this many values in either run the distribution of `U` is counted exactly.
pub const EXACT_LIMIT: usize = 50;

/// Why two runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A run without values.
    #[error("run {run} has no values: there is nothing to compare")]
    Empty {
        /// `A` or `B`.
        run: char,
    },
    /// A value that has no place in an order.
    #[error("value {index} of run {run} is not finite")]
    NotFinite {
        /// `A` or `B`.
        run: char,
        /// Its index, from 0.
        index: usize,
    },
}

/// Refuses runs that have no values or hold one that is not finite.
pub(crate) fn check(a: &[f64], b: &[f64]) -> Result<(), CompareError> {
    for (run, values) in [('A', a), ('B', b)] {
        if values.is_empty() {
            return Err(CompareError::Empty { run });
        }
        if let Some(index) = values.iter().position(|x| !x.is_finite()) {
            return Err(CompareError::NotFinite { run, index });
        }
    }
    Ok(())
}

/// The test of Mann and Whitney.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// Pairs in which the value of `B` is larger, ties as halves: 0 to `m n`.
    pub u: f64,
    /// Values of `A`.
    pub m: u64,
    /// Values of `B`.
    pub n: u64,
    /// The two-sided probability of a `U` at least as extreme when both runs have one distribution: twice the
    /// smaller tail, at most 1.
    pub p_value: f64,
    /// The probability of a `U` at least as large: small when `B` is larger.
    pub p_larger: f64,
    /// The probability of a `U` at most as large: small when `B` is smaller.
    pub p_smaller: f64,
    /// Whether the probabilities are exact.
    pub exact: bool,
}

impl MannWhitney {
    /// The common-language effect: the probability that a value of `B` is larger than one of `A`, ties as half.
    pub fn probability_larger(&self) -> f64 {
        self.u / (self.m as f64 * self.n as f64)
    }

    /// Cliff's delta: -1 when every value of `B` is smaller, 0 without a difference, 1 when every one is larger.
    pub fn cliffs_delta(&self) -> f64 {
        2.0 * self.probability_larger() - 1.0
    }
}

impl fmt::Display for MannWhitney {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = if self.exact { "exact" } else { "normal approximation" };
        write!(
            f,
            "a value of B is larger than one of A with probability {:.3} (Cliff's delta {:+.3}), Mann-Whitney \
             p = {:.4} ({method})",
            self.probability_larger(),
            self.cliffs_delta(),
            self.p_value
        )
    }
}

/// The pooled values: doubled rank sum of `B`, and the sizes of the groups of equal values, ascending.
fn pool(a: &[f64], b: &[f64]) -> (u64, Vec<u64>) {
    let mut pooled: Vec<(f64, bool)> = a.iter().map(|&x| (x, false)).collect();
    pooled.extend(b.iter().map(|&x| (x, true)));
    pooled.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut below, mut doubled_sum, mut groups) = (0u64, 0u64, Vec::new());
    for equal in pooled.chunk_by(|x, y| x.0 == y.0) {
        let size = equal.len() as u64;
        let of_b = equal.iter().filter(|(_, is_b)| *is_b).count() as u64;
        doubled_sum += of_b * (2 * below + size + 1);
        below += size;
        groups.push(size);
    }
    (doubled_sum, groups)
}

/// The exact distribution of `2U` for `n` values of `B` among groups of equal values: its probabilities from 0.
fn exact_distribution(n: u64, groups: &[u64]) -> Vec<f64> {
    let total: u64 = groups.iter().sum();
    let m = total - n;
    // `ways[j][s]`: probability-weighted ways to have given B `j` values with 2U-contribution `s`; a value of B
    // beats (twice over) every value of A in lower groups and half of those in its own.
    let most = (2 * m * n) as usize;
    let mut ways = vec![vec![0.0f64; most + 1]; n as usize + 1];
    ways[0][0] = 1.0;
    let mut below = 0u64;
    for &size in groups {
        let mut next = vec![vec![0.0f64; most + 1]; n as usize + 1];
        for taken in 0..=n.min(below) {
            let Some(of_a_below) = (below - taken <= m).then(|| below - taken) else { continue };
            let mut choices = 1.0;
            for of_b in 0..=size.min(n - taken) {
                if of_b > 0 {
                    choices *= (size - of_b + 1) as f64 / of_b as f64;
                }
                let of_a = size - of_b;
                let gain = (of_b * (2 * of_a_below + of_a)) as usize;
                let (from, to) = (&ways[taken as usize], &mut next[(taken + of_b) as usize]);
                let room = (most + 1).saturating_sub(gain);
                for (sum, &count) in from.iter().take(room).enumerate() {
                    if count > 0.0 {
                        to[sum + gain] += count * choices;
                    }
                }
            }
        }
        ways = next;
        below += size;
    }
    let mut counts = ways.pop().unwrap_or_default();
    let all: f64 = counts.iter().sum();
    counts.iter_mut().for_each(|count| *count /= all);
    counts
}

/// Variance of `U` under the hypothesis.
fn variance(m: f64, n: f64, groups: &[u64]) -> f64 {
    let total = m + n;
    let ties: f64 = groups.iter().map(|&t| t as f64).map(|t| t * t * t - t).sum();
    m * n / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)))
}

/// Compares two runs by the test of Mann and Whitney.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Result<MannWhitney, CompareError> {
    check(a, b)?;
    let (m, n) = (a.len() as u64, b.len() as u64);
    let (doubled_sum, groups) = pool(a, b);
    let doubled_u = doubled_sum - n * (n + 1);
    let u = doubled_u as f64 / 2.0;
    let exact = a.len().max(b.len()) <= EXACT_LIMIT;
    let (p_smaller, p_larger) = if exact {
        let probabilities = exact_distribution(n, &groups);
        let at = doubled_u as usize;
        // Summed from the far ends, so that small tails keep their digits.
        let up_to = probabilities.iter().take(at + 1).sum::<f64>();
        let from = probabilities.iter().skip(at).rev().sum::<f64>();
        (up_to.min(1.0), from.min(1.0))
    } else {
        let middle = m as f64 * n as f64 / 2.0;
        let deviation = variance(m as f64, n as f64, &groups).sqrt();
        if deviation > 0.0 {
            let tail = |distance: f64| normal_cdf((distance + 0.5) / deviation);
            (tail(u - middle), tail(middle - u))
        } else {
            (1.0, 1.0)
        }
    };
    let p_value = (2.0 * p_smaller.min(p_larger)).min(1.0);
    Ok(MannWhitney { u, m, n, p_value, p_larger, p_smaller, exact })
}

/// How much larger the values of `B` are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The Hodges-Lehmann estimate: the median of all differences `b - a`.
    pub estimate: f64,
    /// The lower end; `None` when the runs are too short for the confidence.
    pub low: Option<f64>,
    /// The upper end; `None` when the runs are too short for the confidence.
    pub high: Option<f64>,
    /// The confidence asked.
    pub confidence: f64,
}

/// The Hodges-Lehmann shift from `A` to `B` with its interval.
///
/// Panics unless `0 < confidence < 1`.
pub fn hodges_lehmann(a: &[f64], b: &[f64], confidence: f64) -> Result<Shift, CompareError> {
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is strictly between 0 and 1, not {confidence}"
    );
    check(a, b)?;
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let pairs = a.len() as u64 * b.len() as u64;
    let nth = |rank: u64| difference_at_rank(&a, &b, rank);
    let upper_middle = nth(pairs / 2 + 1);
    let estimate = if pairs % 2 == 1 {
        upper_middle
    } else {
        let lower_middle = nth(pairs / 2);
        lower_middle + (upper_middle - lower_middle) / 2.0
    };
    let rank = interval_rank(&a, &b, (1.0 - confidence) / 2.0);
    let (low, high) = (rank.map(nth), rank.map(|rank| nth(pairs + 1 - rank)));
    Ok(Shift { estimate, low, high, confidence })
}

/// The largest `k >= 1` with `P{U <= k - 1} <= risk`.
fn interval_rank(a: &[f64], b: &[f64], risk: f64) -> Option<u64> {
    let (m, n) = (a.len() as u64, b.len() as u64);
    if a.len().max(b.len()) <= EXACT_LIMIT {
        // The interval is made for a continuous shift: without ties.
        let untied = vec![1; a.len() + b.len()];
        let probabilities = exact_distribution(n, &untied);
        let mut sum = 0.0;
        let mut rank = 0;
        for probability in probabilities.iter().step_by(2) {
            sum += probability;
            if sum > risk * (1.0 + 1e-10) {
                break;
            }
            rank += 1;
        }
        return Some(rank).filter(|&rank| rank > 0);
    }
    let (m, n) = (m as f64, n as f64);
    let deviation = (m * n * (m + n + 1.0) / 12.0).sqrt();
    let rank = (m * n / 2.0 + 0.5 + normal_quantile(risk) * deviation).floor();
    (rank >= 1.0).then_some(rank as u64)
}

/// A number that orders as the float does, and back.
fn key_of(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn value_of(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

/// The `rank`-th smallest (from 1) of all differences `b - a` of two sorted runs.
fn difference_at_rank(a: &[f64], b: &[f64], rank: u64) -> f64 {
    // For each b from the smallest, those a with b - a <= limit are the largest ones, and their first moves up.
    let at_most = |limit: f64| {
        let mut first = 0;
        let mut count = 0u64;
        for &y in b {
            while first < a.len() && y - a[first] > limit {
                first += 1;
            }
            count += (a.len() - first) as u64;
        }
        count
    };
    let (mut low, mut high) = (key_of(f64::NEG_INFINITY), key_of(f64::INFINITY));
    while low < high {
        let middle = low + (high - low) / 2;
        if at_most(value_of(middle)) >= rank {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    // Both zeros are one difference.
    value_of(low) + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Pcg;
    use proptest::prelude::*;

    fn floats(values: &[i32]) -> Vec<f64> {
        values.iter().map(|&v| f64::from(v)).collect()
    }

    /// All choices of which pooled values are A, by their bits.
    fn brute_force(a: &[f64], b: &[f64]) -> (f64, f64) {
        let pooled: Vec<f64> = a.iter().chain(b).copied().collect();
        let u_of = |a: &[f64], b: &[f64]| -> i64 {
            let score = |x: f64, y: f64| if y > x { 2 } else { i64::from(y == x) };
            a.iter().flat_map(|&x| b.iter().map(move |&y| score(x, y))).sum()
        };
        let seen = u_of(a, b);
        let (mut at_most, mut at_least, mut all) = (0.0, 0.0, 0.0);
        for bits in 0u32..1 << pooled.len() {
            if bits.count_ones() as usize != b.len() {
                continue;
            }
            let part = |of_b: bool| -> Vec<f64> {
                (0..pooled.len()).filter(|i| (bits >> i & 1 == 1) == of_b).map(|i| pooled[i]).collect()
            };
            let u = u_of(&part(false), &part(true));
            all += 1.0;
            at_most += f64::from(u8::from(u <= seen));
            at_least += f64::from(u8::from(u >= seen));
        }
        (at_most / all, at_least / all)
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        assert_eq!(mann_whitney(&[], &[1.0]), Err(CompareError::Empty { run: 'A' }));
        let error = hodges_lehmann(&[1.0], &[0.0, f64::NAN], 0.9).unwrap_err();
        assert_eq!(error.to_string(), "value 1 of run B is not finite");
        assert_eq!(mann_whitney(&[1.0; 9], &[1.0; 8]).unwrap().p_value, 1.0);
        assert_eq!(mann_whitney(&[1.0; 90], &[1.0; 80]).unwrap().p_value, 1.0);
        assert_eq!(hodges_lehmann(&[1.0; 2], &[1.0; 2], 0.95).unwrap().low, None);
    }

    /// At the border the approximation agrees with the exact distribution.
    #[test]
    fn exact_and_approximate_meet() {
        let mut pcg = Pcg::for_job(61, 1, 1);
        let a: Vec<f64> = (0..50).map(|_| (4.0 * pcg.normal()).round()).collect();
        let b: Vec<f64> = (0..50).map(|_| (4.0 * pcg.normal() + 1.5).round()).collect();
        let exact = mann_whitney(&a, &b).unwrap();
        let (_, groups) = pool(&a, &b);
        let deviation = variance(50.0, 50.0, &groups).sqrt();
        let approximate = 2.0 * normal_cdf(-((exact.u - 1_250.0).abs() - 0.5) / deviation);
        assert!(exact.exact && (exact.p_value - approximate).abs() < 0.002, "{exact} {approximate}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// With ties and without, the counted distribution is the enumeration of all choices.
        #[test]
        fn exact_is_brute_force(
            a in prop::collection::vec(0..6i32, 1..7),
            b in prop::collection::vec(0..6i32, 1..7),
        ) {
            let (a, b) = (floats(&a), floats(&b));
            let test = mann_whitney(&a, &b).unwrap();
            let (at_most, at_least) = brute_force(&a, &b);
            prop_assert!((test.p_smaller - at_most).abs() < 1e-12, "{} {}", test.p_smaller, at_most);
            prop_assert!((test.p_larger - at_least).abs() < 1e-12);
        }

        /// Swapping the runs mirrors everything; order within a run does not matter.
        #[test]
        fn the_test_is_symmetric(
            a in prop::collection::vec(-50..50i32, 1..70),
            b in prop::collection::vec(-50..50i32, 1..70),
        ) {
            let (a, b) = (floats(&a), floats(&b));
            let (there, back) = (mann_whitney(&a, &b).unwrap(), mann_whitney(&b, &a).unwrap());
            prop_assert!((there.p_value - back.p_value).abs() < 1e-12);
            prop_assert!((there.p_larger - back.p_smaller).abs() < 1e-12);
            prop_assert!((there.cliffs_delta() + back.cliffs_delta()).abs() < 1e-12);
            let mut reversed = a.clone();
            reversed.reverse();
            prop_assert_eq!(mann_whitney(&reversed, &b).unwrap(), there);
        }

        /// The bisection finds what sorting all differences finds.
        #[test]
        fn ranks_of_differences(
            a in prop::collection::vec(-20..20i32, 1..20),
            b in prop::collection::vec(-20..20i32, 1..20),
            at in any::<prop::sample::Index>(),
        ) {
            let (mut a, mut b) = (floats(&a), floats(&b));
            let mut all: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| y - x)).collect();
            all.sort_by(f64::total_cmp);
            a.sort_by(f64::total_cmp);
            b.sort_by(f64::total_cmp);
            let index = at.index(all.len());
            prop_assert_eq!(difference_at_rank(&a, &b, index as u64 + 1), all[index]);
        }
    }
}
