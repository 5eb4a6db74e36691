//! The regularised incomplete gamma function and the chi-square tail made of it.
//!
//! Two expansions, each where it converges fast (Abramowitz and Stegun 6.5.29 and 6.5.31):
//!
//! ```text
//! x < a + 1:   P(a, x) = x^a e^-x / Γ(a + 1) Σ x^k / ((a + 1) ... (a + k))
//! otherwise:   Q(a, x) = x^a e^-x / Γ(a) · 1/(x + 1 - a - 1(1 - a)/(x + 3 - a - 2(2 - a)/(x + 5 - a - ...)))
//! ```
//!
//! The fraction is evaluated by the method of Lentz. Both need about `√a` terms.

use super::gamma::ln_gamma;

const TERMS: u32 = 100_000;

/// `P(a, x)`: the probability that a gamma variable of shape `a > 0` is at most `x`; not a number outside.
pub fn gamma_lower(a: f64, x: f64) -> f64 {
    if x <= 0.0 && a > 0.0 {
        return 0.0;
    }
    if x < a + 1.0 { series(a, x) } else { 1.0 - fraction(a, x) }
}

/// `1 - P(a, x)`, with all its digits however small it is.
pub fn gamma_upper(a: f64, x: f64) -> f64 {
    if x <= 0.0 && a > 0.0 {
        return 1.0;
    }
    if x < a + 1.0 { 1.0 - series(a, x) } else { fraction(a, x) }
}

/// The probability that a chi-square variable with `degrees` of freedom is at least `x`.
pub fn chi_square_tail(x: f64, degrees: f64) -> f64 {
    gamma_upper(degrees / 2.0, x / 2.0)
}

/// `x^a e^-x / Γ(a)`.
fn factor(a: f64, x: f64) -> f64 {
    libm::exp(a * libm::log(x) - x - ln_gamma(a))
}

fn series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut denominator) = (1.0 / a, 1.0 / a, a);
    for _ in 0..TERMS {
        denominator += 1.0;
        term *= x / denominator;
        sum += term;
        if term < sum * f64::EPSILON {
            break;
        }
    }
    factor(a, x) * sum
}

fn fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut b = x + 1.0 - a;
    let mut d = 1.0 / away_from_zero(b);
    let mut c = 1.0 / TINY;
    let mut value = d;
    for k in 1..=TERMS {
        let k = f64::from(k);
        let numerator = -k * (k - a);
        b += 2.0;
        d = 1.0 / away_from_zero(numerator * d + b);
        c = away_from_zero(b + numerator / c);
        let step = c * d;
        value *= step;
        if (step - 1.0).abs() < 2.0 * f64::EPSILON {
            break;
        }
    }
    factor(a, x) * value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms() {
        for x in [0.001, 0.3, 1.0, 2.5, 9.0, 40.0f64] {
            // Shape 1 is the exponential distribution, shape 2 a sum of two; chi square with 1 degree is z².
            let exponential = (-x).exp();
            assert!((gamma_upper(1.0, x) / exponential - 1.0).abs() < 1e-13, "{x}");
            assert!((gamma_upper(2.0, x) / ((1.0 + x) * exponential) - 1.0).abs() < 1e-13, "{x}");
            let two_sided = libm::erfc((x / 2.0).sqrt());
            assert!((chi_square_tail(x, 1.0) / two_sided - 1.0).abs() < 1e-12, "{x}");
            assert!((gamma_lower(3.5, x) + gamma_upper(3.5, x) - 1.0).abs() < 1e-14, "{x}");
        }
        assert_eq!((gamma_lower(2.0, 0.0), gamma_upper(2.0, -1.0)), (0.0, 1.0));
    }

    /// Percentage points every table of the chi-square distribution prints.
    #[test]
    fn chi_square_percentage_points() {
        for (x, degrees, p) in [
            (3.841_459, 1.0, 0.05),
            (18.307_04, 10.0, 0.05),
            (37.566_23, 20.0, 0.01),
            (124.342_1, 100.0, 0.05),
        ] {
            assert!((chi_square_tail(x, degrees) / p - 1.0f64).abs() < 1e-5, "{x}");
        }
    }
}
