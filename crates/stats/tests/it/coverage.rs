//! The order-statistic interval of the 99.9 % quantile covers as often as the binomial distribution says.
//!
//! A run covers when the `l`-th smallest of `n` uniform values is at most 0.999 and the `h`-th at least that. The
//! largest values are drawn directly, each from the one above it: `U_(k) = U_(k+1) V^(1/k)`.

use surety_stats::bounds::{Bound, quantile_interval};
use surety_stats::intervals::{binomial_cdf, quantile_upper_rank};
use surety_stats::{Pcg, Sample};

use crate::assert_near;

const Q: f64 = 0.999;

fn judge(what: &str, covered: u64, runs: u64, exact: f64) {
    let rate = covered as f64 / runs as f64;
    let error = 3.0 * (exact * (1.0 - exact) / runs as f64).sqrt();
    assert!((rate - exact).abs() <= error, "{what}: {rate} is not {exact} within {error}");
    assert!(rate >= 0.95 - 3.0 * (0.95 * 0.05 / runs as f64).sqrt(), "{what}: {rate}");
}

/// The ranks between which the quantile lies: each end at half the risk, the lower one as the upper one of the mirrored values.
fn ranks(n: u64) -> (Option<u64>, Option<u64>) {
    (quantile_upper_rank(n, 1.0 - Q, 0.975).map(|rank| n + 1 - rank), quantile_upper_rank(n, Q, 0.975))
}

/// `P{l <= X < h}` for the number `X` of values below the quantile.
fn exact(n: u64) -> f64 {
    let (low, high) = ranks(n);
    let up_to = |rank: Option<u64>, otherwise| rank.map_or(otherwise, |rank| binomial_cdf(rank - 1, n, Q));
    up_to(high, 1.0) - up_to(low, 0.0)
}

#[test]
fn simulated_coverage_is_the_binomial_value() {
    // As sums of SciPy 1.17.1's `binom` give them.
    for (n, coverage) in
        [(5_000, 0.9796289355159518), (10_000, 0.9754574618536163), (100_000, 0.954789056801905)]
    {
        assert_near(exact(n), coverage, 1e-9, &n.to_string());
    }
    for n in [1_000u64, 10_000, 100_000] {
        let (low, high) = ranks(n);
        let low = low.unwrap();
        let runs = 4_000;
        let covered = (0..runs)
            .filter(|&run| {
                let mut pcg = Pcg::for_job(111, n, run);
                let mut log = 0.0;
                let mut inside = true;
                for rank in (low..=n).rev() {
                    log += libm::log(pcg.unit_open()) / rank as f64;
                    let below = log <= libm::log(Q);
                    inside &= (high != Some(rank) || !below) && (rank != low || below);
                }
                inside
            })
            .count() as u64;
        judge(&format!("n = {n}"), covered, runs, exact(n));
    }
}

/// Once with every value drawn, through the interval a user gets.
#[test]
fn a_thousand_real_samples_cover() {
    let (runs, n) = (2_000u64, 1_000u64);
    let quantile = (Q * (1u64 << 53) as f64) as u64;
    let covered = (0..runs)
        .filter(|&run| {
            let mut pcg = Pcg::for_job(112, n, run);
            let sample: Sample = (0..n).map(|_| pcg.next_u64() >> 11).collect();
            let interval = quantile_interval(&sample, Q, 0.95).unwrap();
            assert_eq!(interval.high, Bound::Unbounded { needs_more: Some(2_688) });
            interval.low.value().unwrap() <= quantile
        })
        .count() as u64;
    judge("real", covered, runs, exact(n));
}
