//! The exponential bound of a backlog: `P{w > x} <= exp(-theta (x + 1))` for whole x.
//!
//! For the steps `X = c - z Q` of a random walk with negative mean and any `theta > 0` with `E[exp(theta X)]
//! <= 1` (Kingman 1964 after Lundberg): the walk's maximum, which is the stationary backlog, exceeds x with
//! at most this probability; on whole numbers to exceed x is to reach x + 1. The largest such theta gives the
//! best bound.

/// The largest decay, by bisection, that provably keeps `E[exp(theta (c - budget))] <= 1`.
///
/// `masses[h]` is the probability of work h; their sum may fall short of 1, the rest counts as no work.
/// `None`: the work never exceeds the budget, so there never is a backlog.
pub fn decay(masses: &[f64], budget: usize) -> Option<f64> {
    let highest = masses.iter().rposition(|p| *p > 0.0).filter(|h| *h > budget)?;
    let at_rest = (1.0 - masses.iter().sum::<f64>()).max(0.0);
    let grows = |theta: f64| {
        let mean: f64 = masses
            .iter()
            .enumerate()
            .filter(|(_, p)| **p > 0.0)
            .map(|(h, p)| p * libm::exp(theta * (h as f64 - budget as f64)))
            .sum();
        let all = mean + at_rest * libm::exp(-theta * budget as f64);
        // The margin is far above the rounding of a sum of at most 2^15 terms.
        all.is_nan() || all > 1.0 - 1e-11
    };
    // A single term may not exceed 1 either.
    let mut high = -libm::log(masses[highest]) / (highest - budget) as f64;
    let mut low = 0.0;
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if grows(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_of_single_steps_has_the_known_decay() {
        // Up by one with 0.3, down by one with 0.7: the maximum is geometric with ratio 3/7.
        let theta = decay(&[0.7, 0.0, 0.3], 1).unwrap();
        assert!((libm::exp(-theta) - 3.0 / 7.0).abs() < 1e-6, "{theta}");
        assert_eq!(decay(&[0.5, 0.5], 1), None);
        // Without negative drift nothing decays.
        assert!(decay(&[0.4, 0.0, 0.6], 1).unwrap() < 1e-6);
    }
}
