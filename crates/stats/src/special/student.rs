//! Quantiles of Student's distribution.

use super::inverse_beta_lower;

/// The value of Student's distribution with so many degrees of freedom that is exceeded with this probability, below
/// one half.
///
/// With `x = v / (v + t²)`, the probability beyond `±t` is the incomplete beta function `I_x(v/2, 1/2)`.
pub fn student_quantile(freedom: f64, tail: f64) -> f64 {
    let x = inverse_beta_lower(freedom / 2.0, 0.5, 2.0 * tail);
    libm::sqrt(freedom * (1.0 - x) / x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any table of Student's distribution.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, tail, t) in [
            (1.0, 0.05, 6.3138),
            (2.0, 0.05, 2.9200),
            (4.0, 0.05, 2.1318),
            (9.0, 0.025, 2.2622),
            (30.0, 0.01, 2.4573),
        ] {
            assert!((student_quantile(freedom, tail) - t).abs() < 5e-5, "{freedom} {tail}");
        }
    }
}
