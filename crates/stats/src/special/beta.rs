//! The regularised incomplete beta function `I_x(a, b)`, its complement, and the inverses of both.
//!
//! It is every tail of a binomial distribution: `P{X >= k} = I_p(k, n-k+1)`. With `y = 1 - x` the smaller
//! tail is
//!
//! ```text
//! I_x(a, b) = x^a y^b / B(a, b) · 1/(β0 + α1/(β1 + α2/(β2 + ...)))         for x <= a / (a+b)
//! αm = (a+m-1) (a+b+m-1) m (b-m) x² / (a+2m-1)²
//! βm = m + m (b-m) x / (a+2m-1) + (a+m) (a y - b x + 1 + m (1+y)) / (a+2m+1)
//! ```
//!
//! by DiDonato and Morris ("Algorithm 708", ACM TOMS 18, 1992), evaluated by the modified Lentz method
//! (Thompson and Barnett 1986) in at most about `5 (a+b)^(1/3)` steps; beyond `a / (a+b)` the symmetry
//! `I_x(a, b) = 1 - I_y(b, a)` gives the complement. Because `x` and `y` enter through `a y - b x`, nothing
//! cancels when `b` is a billion and `x` one in a billion, where the more common fraction (DLMF 8.17.22)
//! loses eight digits. The factor before it is a binomial mass, formed without a difference of large
//! logarithms (`gamma.rs`).

use super::gamma::binomial_mass;

/// `I_x(a, b)`: the probability that a beta variable with `a, b > 0` is at most `x`.
pub fn beta_lower(a: f64, b: f64, x: f64) -> f64 {
    tails(a, b, x).0
}

/// `1 - I_x(a, b)`, with all its digits however small it is.
pub fn beta_upper(a: f64, b: f64, x: f64) -> f64 {
    tails(a, b, x).1
}

/// The `x` with `I_x(a, b) = p`, for `p` between 0 and 1.
pub fn inverse_beta_lower(a: f64, b: f64, p: f64) -> f64 {
    invert(a, b, p, Tail::Lower)
}

/// The `x` with `1 - I_x(a, b) = q`, for `q` between 0 and 1.
pub fn inverse_beta_upper(a: f64, b: f64, q: f64) -> f64 {
    invert(a, b, q, Tail::Upper)
}

/// Both tails at `x`; the smaller one by the fraction, the other as its complement.
fn tails(a: f64, b: f64, x: f64) -> (f64, f64) {
    if x.is_nan() {
        return (f64::NAN, f64::NAN);
    }
    if x <= 0.0 {
        return (0.0, 1.0);
    }
    let y = 1.0 - x;
    if y <= 0.0 {
        return (1.0, 0.0);
    }
    // 1 / B(a, b) is a b / (a+b) times the binomial coefficient in the mass.
    let factor = binomial_mass(a, b, x, y) * a / (a + b) * b;
    if a * y >= b * x {
        let lower = (factor / fraction(a, b, x, y)).min(1.0);
        (lower, 1.0 - lower)
    } else {
        let upper = (factor / fraction(b, a, y, x)).min(1.0);
        (1.0 - upper, upper)
    }
}

/// The continued fraction `β0 + α1/(β1 + α2/(β2 + ...))` of the header.
fn fraction(a: f64, b: f64, x: f64, y: f64) -> f64 {
    /// Stands in for a denominator that happens to vanish.
    const TINY: f64 = 1e-300;
    /// Far beyond what counts up to 10^12 need.
    const STEPS: u32 = 10_000_000;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut value = a * (a * y - b * x + 1.0) / (a + 1.0);
    let mut c = value;
    let mut d = 0.0;
    for step in 1..STEPS {
        let m = f64::from(step);
        let odd = a + 2.0 * m - 1.0;
        let shared = m * (b - m) * x / odd;
        let alpha = (a + m - 1.0) * (a + b + m - 1.0) / odd * x * shared;
        let beta = m + shared + (a + m) * (a * y - b * x + 1.0 + m * (1.0 + y)) / (odd + 2.0);
        d = 1.0 / away_from_zero(beta + alpha * d);
        c = away_from_zero(beta + alpha / c);
        let change = c * d;
        value *= change;
        if (change - 1.0).abs() <= 2.0 * f64::EPSILON {
            break;
        }
    }
    value
}

/// Which tail an inverse is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Tail {
    Lower,
    Upper,
}

impl Tail {
    fn at(self, a: f64, b: f64, x: f64) -> f64 {
        let (lower, upper) = tails(a, b, x);
        if self == Tail::Lower { lower } else { upper }
    }

    /// Whether a tail of this size is cut by an `x` below the one that cuts `target`.
    fn is_before(self, reached: f64, target: f64) -> bool {
        if self == Tail::Lower { reached < target } else { reached > target }
    }

    fn mirrored(self) -> Tail {
        if self == Tail::Lower { Tail::Upper } else { Tail::Lower }
    }
}

fn invert(a: f64, b: f64, target: f64, tail: Tail) -> f64 {
    if !(0.0..=1.0).contains(&target) {
        return f64::NAN;
    }
    if target == 0.0 || target == 1.0 {
        return if (target == 0.0) == (tail == Tail::Lower) { 0.0 } else { 1.0 };
    }
    // Floats are dense near 0 and not near 1: the search is for whichever of x and 1 - x is the smaller.
    if tail.is_before(tail.at(a, b, 0.5), target) {
        1.0 - invert_below_half(b, a, target, tail.mirrored())
    } else {
        invert_below_half(a, b, target, tail)
    }
}

/// Newton's method on the logarithm of the tail, kept inside a bracket that shrinks at every step.
fn invert_below_half(a: f64, b: f64, target: f64, tail: Tail) -> f64 {
    let (mut low, mut high) = (0.0, 0.5);
    let mut x = (a / (a + b)).min(0.25);
    for _ in 0..200 {
        let reached = tail.at(a, b, x);
        if tail.is_before(reached, target) {
            low = x;
        } else {
            high = x;
        }
        // The density is x^a y^b / B(a, b) / (x y).
        let density = binomial_mass(a, b, x, 1.0 - x) * a / (a + b) * b / (x * (1.0 - x));
        let slope = if tail == Tail::Lower { density } else { -density };
        let newton = x + reached * libm::log(target / reached) / slope;
        let next = if newton > low && newton < high { newton } else { middle(low, high) };
        if (next - x).abs() <= 2.0 * f64::EPSILON * x || next <= low || next >= high {
            return next;
        }
        x = next;
    }
    x
}

/// Inside the bracket: halving while its ends are of a size, by magnitude while they are not.
fn middle(low: f64, high: f64) -> f64 {
    if low == 0.0 {
        high / 1024.0
    } else if high > 4.0 * low {
        (low * high).sqrt()
    } else {
        low + (high - low) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::f64::consts::PI;

    fn assert_near(actual: f64, expected: f64, tolerance: f64, what: &str) {
        let error = (actual - expected).abs() / expected.abs();
        assert!(error <= tolerance, "{what}: {actual:e} != {expected:e}, relative error {error:e}");
    }

    /// The closed forms of DLMF 8.17(ii): powers, and the arcsine law.
    #[test]
    fn closed_forms() {
        for x in [1e-12, 0.001, 0.1, 0.5, 0.9, 0.999] {
            for b in [1.0, 2.5, 40.0] {
                let expected = -libm::expm1(b * libm::log1p(-x));
                assert_near(beta_lower(1.0, b, x), expected, 1e-14, "I_x(1, b)");
                // The exponent 40 ln x itself is rounded.
                assert_near(beta_lower(b, 1.0, x) + 1e-300, libm::pow(x, b) + 1e-300, 1e-12, "I_x(a, 1)");
            }
            let arcsine = 2.0 / PI * libm::asin(x.sqrt());
            assert_near(beta_lower(0.5, 0.5, x), arcsine, 1e-13, "I_x(1/2, 1/2)");
        }
    }

    /// Sums of binomial masses in 50-digit arithmetic, from tiny shapes to a billion trials.
    #[test]
    fn binomial_sums() {
        for (a, b, x, lower, tolerance) in [
            (3.0, 4.0, 0.25, 0.169_433_593_75, 1e-14),
            (5.0, 16.0, 0.5, 0.994_091_033_935_546_9, 1e-14),
            (1.0, 1e9, 3e-9, 0.950_212_931_856_178, 1e-13),
            (10.0, 999_999_991.0, 1e-8, 0.542_070_286_153_698, 1e-13),
            (20.0, 999_999_981.0, 1e-8, 3.454_341_807_909_492e-3, 1e-13),
            (100_050.0, 999_899_951.0, 1e-4, 0.437_600_914_563_354_3, 1e-12),
            (101_000.0, 999_899_001.0, 1e-4, 7.993_672_710_692_958e-4, 1e-12),
            (500_030_000.0, 499_970_001.0, 0.5, 0.028_891_870_952_254_27, 1e-12),
        ] {
            let what = format!("I_{x}({a}, {b})");
            assert_near(beta_lower(a, b, x), lower, tolerance, &what);
            assert_near(inverse_beta_lower(a, b, lower), x, 1e-12, &format!("inverse of {what}"));
        }
        assert_near(beta_upper(50.0, 951.0, 0.1), 2.786_710_302_457e-9, 1e-7, "an upper tail");
    }

    #[test]
    fn ends_and_nonsense() {
        assert_eq!((beta_lower(2.0, 3.0, 0.0), beta_upper(2.0, 3.0, 0.0)), (0.0, 1.0));
        assert_eq!((beta_lower(2.0, 3.0, 1.0), beta_upper(2.0, 3.0, 1.0)), (1.0, 0.0));
        assert!(beta_lower(2.0, 3.0, f64::NAN).is_nan());
        assert_eq!((inverse_beta_lower(2.0, 3.0, 0.0), inverse_beta_lower(2.0, 3.0, 1.0)), (0.0, 1.0));
        assert_eq!((inverse_beta_upper(2.0, 3.0, 0.0), inverse_beta_upper(2.0, 3.0, 1.0)), (1.0, 0.0));
        assert!(inverse_beta_lower(2.0, 3.0, 1.5).is_nan());
    }

    proptest! {
        #[test]
        fn the_inverses_invert(
            log_a in 0.0..16.0f64,
            log_b in 0.0..16.0f64,
            log_tail in -60.0..-0.01f64,
        ) {
            let (a, b, tail) = (log_a.exp(), log_b.exp(), log_tail.exp());
            // The tail at a rounded x differs from the target by the density times the rounding of x or 1 -
            // x.
            let slack = |x: f64| {
                let density = binomial_mass(a, b, x, 1.0 - x) * a * b / (a + b) / (x * (1.0 - x));
                4.0 * f64::EPSILON * density * x + 1e-11 * tail
            };
            let x = inverse_beta_lower(a, b, tail);
            prop_assert!((beta_lower(a, b, x) - tail).abs() <= slack(x), "lower {a} {b} {tail} {x}");
            let x = inverse_beta_upper(a, b, tail);
            if x < 1.0 {
                prop_assert!((beta_upper(a, b, x) - tail).abs() <= slack(x), "upper {a} {b} {tail} {x}");
            }
        }

        #[test]
        fn the_tails_are_complements_and_mirror_each_other(
            a in 0.1..500.0f64,
            b in 0.1..500.0f64,
            x in 0.0..1.0f64,
        ) {
            prop_assert!((beta_lower(a, b, x) + beta_upper(a, b, x) - 1.0).abs() < 1e-15);
            prop_assert!((beta_lower(a, b, x) - beta_upper(b, a, 1.0 - x)).abs() < 1e-13);
        }
    }
}
