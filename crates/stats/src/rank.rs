//! The rank rule: which of `n` sorted samples is the `q` quantile.
//!
//! Everything in Surety that names a quantile uses this one rule (the inverse of the empirical distribution
//! function, definition 1 of Hyndman and Fan 1996): the smallest sample that at least a fraction `q` of all
//! samples does not exceed. It is always a sample that really occurred, never an interpolation and never
//! above the maximum.

/// The rank, from 1 to `n`, of the `q` quantile of `n` samples: `ceil(q n)`, at least 1.
///
/// `None` when there are no samples or `q` is not within 0 and 1.
///
/// A decimal fraction is rarely a float: `0.07 * 100.0` is a little more than 7, yet the 7 % quantile of 100
/// samples is the 7th. A product within four units in the last place of a whole number therefore counts as
/// that number.
pub fn quantile_rank(q: f64, n: u64) -> Option<u64> {
    if n == 0 || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let product = q * n as f64;
    let nearest = product.round();
    let rank =
        if (product - nearest).abs() <= 4.0 * f64::EPSILON * product { nearest } else { product.ceil() };
    // A float-to-integer cast saturates, so the clamp also covers an `n` that the product rounded up.
    Some((rank as u64).clamp(1, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_what_the_decimal_fraction_says() {
        for (q, n, rank) in [
            (0.0, 10, 1),
            (0.5, 1, 1),
            (0.5, 2, 1),
            (0.5, 3, 2),
            (0.07, 100, 7),
            (0.29, 100, 29),
            (0.99, 100, 99),
            (0.99, 101, 100),
            (0.999, 1_000, 999),
            (0.9999, 1_000_000_000, 999_900_000),
            (0.99999, 10, 10),
            (1.0, 10, 10),
            (1.0, u64::MAX, u64::MAX),
        ] {
            assert_eq!(quantile_rank(q, n), Some(rank), "q = {q}, n = {n}");
        }
    }

    #[test]
    fn every_whole_percent_and_per_mille_is_exact() {
        for k in 1..=1000u64 {
            assert_eq!(quantile_rank(k as f64 / 1000.0, 1000), Some(k));
            assert_eq!(quantile_rank(k as f64 / 1000.0, 7_000), Some(7 * k));
        }
    }

    #[test]
    fn no_samples_or_no_probability_is_no_rank() {
        assert_eq!(quantile_rank(0.5, 0), None);
        for q in [-0.1, 1.1, f64::NAN] {
            assert_eq!(quantile_rank(q, 10), None);
        }
    }
}
