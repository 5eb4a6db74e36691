//! The logarithm of the gamma function, and binomial masses that do not lose digits to it.
//!
//! `ln Γ(10^9)` is 2·10^10: a difference of three such logarithms has lost ten digits. C. Loader ("Fast and
//! accurate computation of binomial probabilities", 2000) writes the mass as a product of small terms
//! instead, with `n = a + b`:
//!
//! ```text
//! Γ(n+1)/(Γ(a+1)Γ(b+1)) x^a (1-x)^b = sqrt(n / (2π a b)) exp(δ(n) - δ(a) - δ(b) - D(a, n x) - D(b, n (1-x)))
//! δ(z)    = ln Γ(z+1) - (z + 1/2) ln z + z - ln(2π)/2        the error of Stirling's formula
//! D(x, m) = x ln(x/m) + m - x                                the deviance, zero at x = m
//! ```

use std::f64::consts::PI;

/// `ln Γ(x)` for `x > 0`.
pub fn ln_gamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// The error of Stirling's formula for `ln Γ(z+1)`, `z > 0`.
fn stirling_error(mut z: f64) -> f64 {
    // δ(z) = δ(z+1) + (z + 1/2) ln(1 + 1/z) - 1 climbs to where the series is accurate, without any large
    // logarithm.
    let mut climbed = 0.0;
    while z < 16.0 {
        climbed += (z + 0.5) * libm::log1p(1.0 / z) - 1.0;
        z += 1.0;
    }
    // The asymptotic series of B(2k) / (2k (2k-1) z^(2k-1)), B the Bernoulli numbers; what is left out is
    // below 1e-17.
    let r = 1.0 / (z * z);
    let terms = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
    ];
    climbed + terms.iter().rev().fold(0.0, |sum, term| sum * r + term) / z
}

/// The deviance `x ln(x/m) + m - x` for `x, m > 0`.
fn deviance(x: f64, m: f64) -> f64 {
    let difference = x - m;
    let v = difference / (x + m);
    if v.abs() >= 0.1 {
        return x * libm::log(x / m) - difference;
    }
    // ln(x/m) = 2 atanh v, whose first term takes the difference away exactly: the rest is positive and
    // small.
    let v2 = v * v;
    let mut power = 2.0 * x * v;
    let mut sum = difference * v;
    for odd in (3u32..60).step_by(2) {
        power *= v2;
        let next = sum + power / f64::from(odd);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}

/// `Γ(a+b+1)/(Γ(a+1)Γ(b+1)) x^a y^b` for `a, b > 0`, where `x + y = 1` and neither is 0.
pub(super) fn binomial_mass(a: f64, b: f64, x: f64, y: f64) -> f64 {
    let n = a + b;
    let exponent =
        stirling_error(n) - stirling_error(a) - stirling_error(b) - deviance(a, n * x) - deviance(b, n * y);
    libm::exp(exponent) * (n / (2.0 * PI * a)).sqrt() / b.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Γ(1/2) = sqrt π`, factorials, and `ln Γ(10^9)` to 20 digits by Stirling's series.
    #[test]
    fn ln_gamma_at_known_points() {
        for (x, expected) in [
            (0.5, 0.5 * PI.ln()),
            (1.0, 0.0),
            (2.0, 0.0),
            (11.0, 3_628_800f64.ln()),
            (1e9, 19_723_265_827.503_72),
        ] {
            let actual = ln_gamma(x);
            assert!(
                (actual - expected).abs() <= 4e-16 * expected.abs().max(1.0),
                "{x}: {actual} != {expected}"
            );
        }
    }

    /// The definition, which for small arguments loses only a few digits.
    #[test]
    fn stirling_error_is_what_it_is_defined_to_be() {
        for z in [0.01, 0.5, 1.0, 2.5, 10.0, 15.9, 16.0, 16.1, 20.0] {
            let definition = ln_gamma(z + 1.0) - (z + 0.5) * z.ln() + z - 0.5 * (2.0 * PI).ln();
            assert!((stirling_error(z) - definition).abs() < 3e-14, "{z}");
        }
    }

    #[test]
    fn deviance_is_continuous_where_the_series_takes_over() {
        for ratio in [0.81, 0.82, 1.22, 1.23, 1.0, 0.999] {
            let (x, m) = (1000.0 * ratio, 1000.0f64);
            let definition = x * (x / m).ln() + m - x;
            assert!((deviance(x, m) - definition).abs() < 2e-12, "{ratio}");
            assert!(deviance(x, m) >= 0.0);
        }
    }

    /// Small masses are ratios of integers.
    #[test]
    fn masses_of_small_binomials_are_exact() {
        for (a, b, x, mass) in [
            (1.0, 1.0, 0.5, 0.5),
            (5.0, 5.0, 0.5, 252.0 / 1024.0),
            (2.0, 3.0, 0.1, 10.0 * 0.01 * 0.729),
            (10.0, 20.0, 0.25, 30_045_015.0 * 0.25f64.powi(10) * 0.75f64.powi(20)),
        ] {
            let actual = binomial_mass(a, b, x, 1.0 - x);
            assert!((actual - mass).abs() <= 1e-14 * mass, "{a} {b} {x}: {actual} != {mass}");
        }
    }
}
