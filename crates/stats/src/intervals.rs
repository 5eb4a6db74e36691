//! Exact, distribution-free confidence: of a failure probability from counts, and of a quantile from ranks.
//!
//! *Failures.* Of `n` independent activations `k` failed. The bounds of Clopper and Pearson (Biometrika 26,
//! 1934) are the probabilities at which `k` would just be too unlikely; they hold at least as often as they
//! say, for every true value: with `α = 1 - confidence`, the upper bound solves `P{X <= k} = α`, the lower
//! one `P{X >= k} = α`.
//!
//! *Quantiles.* Let `x(1) <= ... <= x(n)` be the sorted samples. How many of them lie below the true `q`
//! quantile is binomial with `n` and `q`, whatever the distribution (Wilks 1941; David and Nagaraja, Order
//! Statistics, 7.1). So `x(h)` is below it with probability at most `P{X >= h}`, and `x(l)` above it with at
//! most `P{X <= l-1}`. When even the largest sample is too likely to lie below, the interval has no upper
//! end, and that is the answer.
//!
//! Both need independence: check it with [`crate::goodness::independence`] first.
//!
//! Confidences are strictly between 0 and 1; every function here panics on others, as they are constants of a
//! program and not input. Comparisons of probabilities allow one part in 10^10, so that a run planned to fit
//! exactly is not refused by rounding.

use crate::special::{beta_lower, beta_upper, inverse_beta_lower, inverse_beta_upper};

/// A probability and what it is compared with count as equal within this fraction.
const ROUNDING: f64 = 1e-10;

/// `1 - confidence`, the probability of being wrong.
fn risk(confidence: f64) -> f64 {
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is strictly between 0 and 1, not {confidence}"
    );
    1.0 - confidence
}

fn at_most(probability: f64, limit: f64) -> bool {
    probability <= limit * (1.0 + ROUNDING)
}

/// `P{X <= k}` for a binomial `X` of `n` trials with success probability `p`.
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n { 1.0 } else { beta_upper(k as f64 + 1.0, (n - k) as f64, p) }
}

/// `P{X >= k}` for a binomial `X` of `n` trials with success probability `p`, with all its digits when small.
pub fn binomial_tail(k: u64, n: u64, p: f64) -> f64 {
    if k == 0 {
        1.0
    } else if k > n {
        0.0
    } else {
        beta_lower(k as f64, (n - k) as f64 + 1.0, p)
    }
}

/// The one-sided upper bound on the failure probability after `failures` in `n`; 1 when nothing was tried.
///
/// Panics unless `0 < confidence < 1`.
pub fn failure_upper(failures: u64, n: u64, confidence: f64) -> f64 {
    let risk = risk(confidence);
    if failures >= n {
        return 1.0;
    }
    if failures == 0 {
        return -libm::expm1(libm::log(risk) / n as f64);
    }
    inverse_beta_upper(failures as f64 + 1.0, (n - failures) as f64, risk)
}

/// The one-sided lower bound on the failure probability after `failures` in `n`; 0 when nothing was tried.
///
/// Panics unless `0 < confidence < 1`.
pub fn failure_lower(failures: u64, n: u64, confidence: f64) -> f64 {
    let risk = risk(confidence);
    if failures == 0 || n == 0 {
        return 0.0;
    }
    if failures >= n {
        return libm::exp(libm::log(risk) / n as f64);
    }
    inverse_beta_lower(failures as f64, (n - failures) as f64 + 1.0, risk)
}

/// The lowest rank whose sample is, with at least this confidence, not below the `q` quantile of `n`
/// independent samples.
///
/// `None`: `n` is below [`samples_needed_zero_failures`], no sample can bound it. Panics unless
/// `0 < confidence < 1`.
pub fn quantile_upper_rank(n: u64, q: f64, confidence: f64) -> Option<u64> {
    let risk = risk(confidence);
    // The smallest `h` in `1..=n` with `P{X >= h} <= risk`.
    let fits = |rank: u64| at_most(binomial_tail(rank, n, q), risk);
    (n > 0 && fits(n)).then(|| first_true(1, n, fits))
}

/// The first number of `low..=high` for which a condition holds that goes on holding and holds at `high`.
fn first_true(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// How many independent activations without a failure show, one-sided, that the fraction `promised` is kept:
/// `ceil(ln α / ln promised)`.
///
/// For 95 %: 29 956 for 99.99 %. `None` when no number does (`promised` is 1 or not a probability). Panics
/// unless `0 < confidence < 1`.
pub fn samples_needed_zero_failures(promised: f64, confidence: f64) -> Option<u64> {
    samples_needed(promised, risk(confidence))
}

/// The smallest `n >= 1` with `p^n <= risk`.
fn samples_needed(p: f64, risk: f64) -> Option<u64> {
    if !(0.0..1.0).contains(&p) {
        return None;
    }
    // libm::log(0) is minus infinity, which makes the ratio 0 and the answer 1.
    let exact = libm::log(risk * (1.0 + ROUNDING)) / libm::log(p);
    Some((exact.ceil() as u64).max(1))
}

/// The most failures in `n` activations after which the one-sided upper bound on the failure probability
/// still is at most `1 - promised`.
///
/// `None` when not even a run without failures would do: it is too short. Panics unless `0 < confidence < 1`.
pub fn max_failures(n: u64, promised: f64, confidence: f64) -> Option<u64> {
    let risk = risk(confidence);
    let allowed = 1.0 - promised;
    if n == 0 || allowed.is_nan() || allowed <= 0.0 {
        return None;
    }
    // The bound after k failures is at most `allowed` exactly when k or fewer are that unlikely at `allowed`.
    let too_many = |failures: u64| !at_most(binomial_cdf(failures, n, allowed.min(1.0)), risk);
    first_true(0, n, too_many).checked_sub(1)
}

/// The largest true failure probability with which a run of `n` independent activations passes with
/// probability at least `power`, where passing means at most [`max_failures`]; 0 when no run of `n` can pass.
///
/// A plan has to aim at this, not at the promise itself: with a true failure probability of exactly
/// `1 - promised` a run passes only with probability `1 - confidence`. Panics unless `confidence` and `power`
/// are between 0 and 1.
pub fn design_failure_probability(n: u64, promised: f64, confidence: f64, power: f64) -> f64 {
    // P{X <= k} = power at p is P{X >= k+1} = 1 - power: where the lower bound of k+1 failures lies.
    max_failures(n, promised, confidence).map_or(0.0, |most| failure_lower(most + 1, n, power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17
    /// (1998), table I, method 5 (Clopper-Pearson), to the printed four decimals.
    #[test]
    fn newcombes_examples() {
        for (failures, n, low, high) in [
            (81, 263, 0.2527, 0.3676),
            (15, 148, 0.0578, 0.1617),
            (0, 20, 0.0, 0.1684),
            (1, 29, 0.0009, 0.1776),
        ] {
            // Each end of the two-sided interval has half the risk.
            let ends = [failure_lower(failures, n, 0.975), failure_upper(failures, n, 0.975)];
            assert!(
                ends.iter().zip([low, high]).all(|(a, b)| (a - b).abs() < 5e-5),
                "{failures}/{n}: {ends:?}"
            );
        }
    }

    #[test]
    fn bounds_at_the_ends() {
        assert_eq!((failure_lower(0, 0, 0.95), failure_upper(0, 0, 0.95)), (0.0, 1.0));
        assert_eq!((failure_lower(0, 9, 0.95), failure_upper(9, 9, 0.95)), (0.0, 1.0));
        // The rule of three: 0 in n is about 3/n.
        assert!((failure_upper(0, 1_000_000_000, 0.95) * 1e9 - 2.995_732_273_553_991).abs() < 1e-8);
        assert!((failure_lower(10, 10, 0.95) - 0.05f64.powf(0.1)).abs() < 1e-14);
    }

    #[test]
    #[should_panic(expected = "a confidence is strictly between 0 and 1")]
    fn a_confidence_of_one_is_a_mistake() {
        failure_upper(0, 10, 1.0);
    }

    /// Binomial sums of small integers.
    #[test]
    fn binomial_distribution_function() {
        for (k, n, p, cdf) in [
            (0, 3, 0.5, 0.125),
            (1, 3, 0.5, 0.5),
            (2, 3, 0.5, 0.875),
            (3, 3, 0.5, 1.0),
            (9, 3, 0.5, 1.0),
            (1, 10, 0.1, 0.736_098_929_1),
        ] {
            assert!((binomial_cdf(k, n, p) - cdf).abs() < 1e-14, "{k} {n} {p}");
            assert!((binomial_tail(k + 1, n, p) - (1.0 - cdf)).abs() < 1e-14, "{k} {n} {p}");
        }
        assert_eq!(
            (binomial_cdf(0, 5, 0.0), binomial_cdf(4, 5, 1.0), binomial_tail(0, 5, 0.3)),
            (1.0, 0.0, 1.0)
        );
    }

    #[test]
    fn how_many_samples_a_quantile_needs() {
        for (q, one_sided) in [(0.99, 299), (0.999, 2_995), (0.9999, 29_956)] {
            assert_eq!(samples_needed_zero_failures(q, 0.95), Some(one_sided));
            // One fewer gives no bound, this many give the maximum as the bound.
            assert_eq!(quantile_upper_rank(one_sided - 1, q, 0.95), None);
            assert_eq!(quantile_upper_rank(one_sided, q, 0.95), Some(one_sided));
            assert_eq!(max_failures(one_sided - 1, q, 0.95), None);
            assert_eq!(max_failures(one_sided, q, 0.95), Some(0));
        }
        // Powers of one half fit exactly: rounding must not ask for one more.
        assert_eq!(samples_needed_zero_failures(0.5, 0.875), Some(3));
        let needed = [1.0, 0.0, f64::NAN].map(|promised| samples_needed_zero_failures(promised, 0.95));
        assert_eq!(needed, [None, Some(1), None]);
    }

    /// The upper end of the sign test's interval of the median at 95 %: sums of binomial coefficients over 2^n.
    #[test]
    fn bounds_of_the_median() {
        for (n, high) in [(0, None), (5, None), (6, Some(6)), (10, Some(9)), (20, Some(15))] {
            assert_eq!(quantile_upper_rank(n, 0.5, 0.975), high, "n = {n}");
        }
    }

    #[test]
    fn failures_that_still_pass() {
        // Wilks' sample sizes of the first three orders: for 95 % of a population, as reactor safety uses
        // them, and 99 %.
        for (n, most) in
            [(58, None), (59, Some(0)), (92, Some(0)), (93, Some(1)), (123, Some(1)), (124, Some(2))]
        {
            assert_eq!(max_failures(n, 0.95, 0.95), most, "n = {n}");
        }
        for (n, most) in
            [(0, None), (298, None), (299, Some(0)), (472, Some(0)), (473, Some(1)), (628, Some(2))]
        {
            assert_eq!(max_failures(n, 0.99, 0.95), most, "n = {n}");
        }
        assert_eq!((max_failures(1000, 1.0, 0.95), max_failures(1000, f64::NAN, 0.95)), (None, None));
        // A billion activations: the count is the normal approximation to a few.
        let most = max_failures(1_000_000_000, 0.9999, 0.95).unwrap() as f64;
        assert!((most - (1e5 - 1.644_853_6 * 1e5f64.sqrt())).abs() < 5.0, "{most}");
    }

    #[test]
    fn the_design_probability_passes_with_the_power_asked() {
        assert_eq!(design_failure_probability(298, 0.99, 0.95, 0.9), 0.0);
        // With no failure allowed: (1-p)^299 = 0.9.
        let p = design_failure_probability(299, 0.99, 0.95, 0.9);
        assert!((p - (1.0 - 0.9f64.powf(1.0 / 299.0))).abs() < 1e-15);
        for n in [473, 5_000, 1_000_000] {
            let p = design_failure_probability(n, 0.99, 0.95, 0.9);
            let most = max_failures(n, 0.99, 0.95).unwrap();
            assert!((binomial_cdf(most, n, p) - 0.9).abs() < 1e-9, "n = {n}");
            assert!(p < 0.01);
        }
    }

    proptest! {
        /// The bounds are where the definition puts them, and order around the observed fraction.
        #[test]
        fn bounds_solve_their_definition(
            n in 1u64..100_000,
            part in 0.0..=1.0f64,
            confidence in 0.5..0.9999f64,
        ) {
            let failures = (part * n as f64) as u64;
            let low = failure_lower(failures, n, confidence);
            let high = failure_upper(failures, n, confidence);
            let fraction = failures as f64 / n as f64;
            prop_assert!(low <= fraction && fraction <= high, "{low} {fraction} {high}");
            let risk = 1.0 - confidence;
            if failures < n {
                prop_assert!((binomial_cdf(failures, n, high) / risk - 1.0).abs() < 1e-8);
            }
            if failures > 0 {
                prop_assert!((binomial_tail(failures, n, low) / risk - 1.0).abs() < 1e-8);
            }
        }

        /// The count that passes agrees with the bound it is defined by: one more failure would not pass.
        #[test]
        fn max_failures_agrees_with_the_bound(n in 1u64..50_000, promised in 0.5..0.9999f64) {
            let allowed = 1.0 - promised;
            match max_failures(n, promised, 0.95) {
                Some(most) => {
                    prop_assert!(failure_upper(most, n, 0.95) <= allowed * (1.0 + 1e-8));
                    prop_assert!(failure_upper(most + 1, n, 0.95) > allowed * (1.0 - 1e-8));
                }
                None => prop_assert!(failure_upper(0, n, 0.95) > allowed * (1.0 - 1e-8)),
            }
        }

        /// The bound covers, and is the lowest that does.
        #[test]
        fn rank_bounds_cover_tightly(n in 1u64..20_000, q in 0.001..0.9999f64, confidence in 0.5..0.999f64) {
            let risk = 1.0 - confidence;
            match quantile_upper_rank(n, q, confidence) {
                Some(high) => {
                    prop_assert!(binomial_tail(high, n, q) <= risk * (1.0 + 1e-9));
                    prop_assert!(binomial_tail(high - 1, n, q) > risk * (1.0 - 1e-9));
                }
                None => prop_assert!(binomial_tail(n, n, q) > risk * (1.0 - 1e-9)),
            }
        }
    }
}
