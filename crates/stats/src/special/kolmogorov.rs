//! The limiting distribution of `sqrt(n)` times the Kolmogorov-Smirnov statistic (Kolmogorov 1933, Smirnov
//! 1948).

use std::f64::consts::PI;

/// The probability that Kolmogorov's limiting variable exceeds `x`.
///
/// Two series of the same theta function are used, each where it converges in a handful of terms:
///
/// ```text
/// x >= 1.18:  2 Σ (-1)^(k-1) exp(-2 k² x²)
/// x <  1.18:  1 - sqrt(2π)/x Σ exp(-(2k-1)² π² / (8 x²))
/// ```
pub fn kolmogorov_tail(x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    if x < 1.18 {
        let scale = -PI * PI / (8.0 * x * x);
        let sum: f64 = [1.0, 9.0, 25.0, 49.0].iter().map(|odd_squared| libm::exp(odd_squared * scale)).sum();
        return 1.0 - (2.0 * PI).sqrt() / x * sum;
    }
    let term = |k: f64| libm::exp(-2.0 * k * k * x * x);
    2.0 * (term(1.0) - term(2.0) + term(3.0) - term(4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defining alternating series, summed with 30 digits on both sides of the point where the formulas
    /// change.
    #[test]
    fn the_defining_series() {
        for (x, tail) in [
            (0.28, 0.999_998_688_149_990_2),
            (0.50, 0.963_945_243_664_875_1),
            (0.75, 0.627_167_041_776_261_6),
            (1.00, 0.269_999_671_677_354_5),
            (1.17, 0.129_390_042_185_618_8),
            (1.18, 0.123_453_809_429_765_7),
            (1.36, 0.049_485_876_755_377_91),
            (2.00, 6.709_252_557_796_954e-4),
            (2.50, 7.453_306_344_157_342e-6),
        ] {
            let actual = kolmogorov_tail(x);
            assert!((actual - tail).abs() < 1e-14 * tail.max(0.1), "x = {x}: {actual} != {tail}");
        }
    }

    /// F. J. Massey, "The Kolmogorov-Smirnov test for goodness of fit", JASA 46 (1951), table 1: the last
    /// row.
    #[test]
    fn masseys_critical_values() {
        for (x, tail) in [(1.07, 0.20), (1.14, 0.15), (1.22, 0.10), (1.36, 0.05), (1.63, 0.01)] {
            assert!(kolmogorov_tail(x - 0.006) > tail && kolmogorov_tail(x + 0.006) < tail, "{x}");
        }
    }

    #[test]
    fn the_series_meet_and_the_ends_are_certain() {
        assert!((kolmogorov_tail(1.18) - kolmogorov_tail(1.18 - 1e-13)).abs() < 1e-12);
        assert_eq!((kolmogorov_tail(0.0), kolmogorov_tail(-1.0), kolmogorov_tail(0.01)), (1.0, 1.0, 1.0));
        assert_eq!(kolmogorov_tail(40.0), 0.0);
        assert!(kolmogorov_tail(f64::NAN).is_nan());
    }
}
