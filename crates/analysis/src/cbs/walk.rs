//! [`Walk`]: the steps `X = c - z Q` by which a backlog goes up and down, in cells of the grid.

/// Up to this many cells of steps; what is wider needs a coarser grid.
pub const WIDEST: usize = 1 << 20;

/// The distribution of a step, between `-down` and `up`, with mass at both ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    down: usize,
    masses: Vec<f64>,
}

impl Walk {
    /// `c - z Q` for independent c (`work[h]` at h) and z (`spacing[z]`); at least one mass of each is
    /// positive.
    pub fn new(work: &[f64], spacing: &[f64], budget: usize) -> Walk {
        let most = spacing.len() - 1;
        let mut masses = vec![0.0; work.len() + most * budget];
        for (z, share) in spacing.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            let from = (most - z) * budget;
            for (sum, mass) in masses[from..].iter_mut().zip(work) {
                *sum += share * mass;
            }
        }
        let first = masses.iter().position(|p| *p > 0.0).unwrap_or(0);
        let last = masses.iter().rposition(|p| *p > 0.0).unwrap_or(0);
        let zero = most * budget;
        // Zero stays in range, so that both directions can be asked for.
        let (first, last) = (first.min(zero), last.max(zero));
        Walk { down: zero - first, masses: masses[first..=last].to_vec() }
    }

    /// The longest step down.
    pub fn down(&self) -> usize {
        self.down
    }

    /// The longest step up.
    pub fn up(&self) -> usize {
        self.masses.len() - 1 - self.down
    }

    /// `P{X = step}`.
    pub fn mass(&self, step: i64) -> f64 {
        let place = step + self.down as i64;
        usize::try_from(place).ok().and_then(|p| self.masses.get(p)).copied().unwrap_or(0.0)
    }

    /// Every step with its mass.
    pub fn steps(&self) -> impl Iterator<Item = (i64, f64)> + '_ {
        self.masses.iter().enumerate().map(|(place, mass)| (place as i64 - self.down as i64, *mass))
    }

    /// The mean of a step, negative where the server keeps up.
    pub fn mean(&self) -> f64 {
        self.steps().map(|(step, mass)| step as f64 * mass).sum()
    }

    /// Levels of the quasi-birth-death process that the backlog is: `max(up, down, 1)` cells each.
    pub fn block(&self) -> usize {
        self.up().max(self.down()).max(1)
    }

    /// `E[exp(theta X)] - 1`, summed with compensation for rounding.
    pub fn growth(&self, theta: f64) -> f64 {
        let (mut sum, mut lost) = (0.0f64, 0.0f64);
        for (step, mass) in self.steps().filter(|(_, mass)| *mass > 0.0) {
            let term = mass * libm::expm1(theta * step as f64);
            let next = sum + term;
            lost += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
            sum = next;
        }
        sum + lost
    }

    /// The same as [`Walk::growth`] by Horner's rule, quick and within some 10^-12.
    fn growth_roughly(&self, theta: f64) -> f64 {
        let (up, down) = (libm::exp(theta), libm::exp(-theta));
        let (low, high) = self.masses.split_at(self.down);
        let rising = high.iter().rev().fold(0.0, |sum, mass| sum * up + mass);
        let falling = low.iter().fold(0.0, |sum, mass| (sum + mass) * down);
        rising + falling - 1.0
    }

    /// `E[X exp(theta X)]`.
    fn slope(&self, theta: f64) -> f64 {
        self.steps().map(|(step, mass)| step as f64 * mass * libm::exp(theta * step as f64)).sum()
    }

    /// The largest `theta` with `E[exp(theta X)] <= 1`, from below and to the last digits; `None` when no step
    /// goes up, so that there never is a backlog.
    pub fn decay(&self) -> Option<f64> {
        let highest = self.up();
        if highest == 0 {
            return None;
        }
        // A single term may not exceed 1 either.
        let mut high = -libm::log(self.mass(highest as i64)) / highest as f64;
        let mut low = 0.0;
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            let all = self.growth_roughly(middle);
            if all.is_nan() || all > 0.0 {
                high = middle;
            } else {
                low = middle;
            }
        }
        let mut theta = (low + high) / 2.0;
        let mut slope = self.slope(theta);
        if !(slope > 0.0 && slope.is_finite()) {
            return Some(low.max(0.0));
        }
        theta = (theta - self.growth(theta) / slope).max(0.0);
        slope = slope.max(f64::MIN_POSITIVE);
        // Stepping below the rounding of the sum makes it a proof.
        let mut margin = 4.0 * f64::EPSILON / slope + 4.0 * f64::EPSILON * theta;
        while theta > 0.0 && self.growth(theta) > -f64::EPSILON {
            theta = (theta - margin).max(0.0);
            margin *= 2.0;
        }
        Some(theta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_decays_to_the_last_digits() {
        // Up one with p, down one with 1 - p: ratio p / (1 - p).
        for p in [0.1, 0.3, 0.45, 0.499] {
            let walk = Walk::new(&[1.0 - p, 0.0, p], &[0.0, 1.0], 1);
            assert_eq!((walk.down(), walk.up(), walk.block()), (1, 1, 1));
            let gamma = libm::exp(walk.decay().unwrap());
            assert!((gamma - (1.0 - p) / p).abs() < 1e-12 * gamma / (1.0 - 2.0 * p), "{p}: {gamma}");
            assert!(walk.growth(walk.decay().unwrap()) <= 0.0);
        }
        // gamma to 1e-14: 0.7 / g + 0.3 g = 1 has the root 7/3.
        let gamma = libm::exp(Walk::new(&[0.7, 0.0, 0.3], &[0.0, 1.0], 1).decay().unwrap());
        assert!((gamma - 7.0 / 3.0).abs() <= 1e-14, "{gamma}");
        assert_eq!(Walk::new(&[0.5, 0.5], &[0.0, 1.0], 1).decay(), None);
        // Without drift nothing decays.
        assert!(Walk::new(&[0.4, 0.0, 0.6], &[0.0, 1.0], 1).decay().unwrap() < 1e-6);
    }

    #[test]
    fn releases_in_batches_and_far_apart_mix() {
        let walk = Walk::new(&[0.0, 0.5, 0.5], &[0.25, 0.25, 0.5], 3);
        assert_eq!((walk.down(), walk.up()), (5, 2));
        assert!((walk.mean() - (1.5 - 3.75)).abs() < 1e-15);
        assert!((walk.mass(2) - 0.125).abs() < 1e-15 && (walk.mass(-5) - 0.25).abs() < 1e-15);
        assert_eq!(walk.mass(9), 0.0);
        assert!((walk.steps().map(|(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-15);
    }
}
