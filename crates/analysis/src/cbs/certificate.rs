//! [`Tilted`]: how far a computed backlog can be from the true one, proven from its own residual.
//!
//! Let `T F(x) = sum_k P{X = k} F(x - k)` be Lindley's step on distribution functions (F is 0 below 0) and F_W
//! its fixed point. For any `rho` with `E[rho^X] < 1` the step is a contraction in the norm `sup_x |f(x)|
//! rho^x`, since `sum_k P{X = k} |f(x - k)| rho^x <= E[rho^X] |f|`. So a computed F with total mass 1 obeys
//!
//! ```text
//! |F_W(x) - F(x)| <= rho^-x sup_y |T F(y) - F(y)| rho^y / (1 - E[rho^X])
//! ```
//!
//! (Banach's fixed-point theorem). Here `rho = exp(theta/2)`, half way to the decay of the backlog. The step is
//! computed by transforms of the tilted sequences `w(k) rho^k` and `P{X = k} rho^k`, and the worst rounding of those
//! ([`surety_stats::fourier::convolution_error`]) is counted as residual.

use surety_stats::fourier::{RealFft, Spectrum, convolution_error};

use crate::cbs::walk::Walk;

/// A backlog: `head[k] = P{W = k}`, and beyond the head each mass is `ratio` times the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Masses {
    /// Not empty.
    pub head: Vec<f64>,
    /// Below 1.
    pub ratio: f64,
}

impl Masses {
    /// Scaled to a total of 1, negative rounding cut off.
    ///
    /// The head ends where it is so small that tilting it back would leave the range of numbers.
    pub fn normalised(mut head: Vec<f64>, ratio: f64) -> Masses {
        let range = 600.0 / -libm::log(ratio);
        if (head.len() as f64) > range {
            head.truncate((range as usize).max(1));
        }
        head.iter_mut().for_each(|p| *p = p.max(0.0));
        let last = head.last().copied().unwrap_or(0.0);
        let total: f64 = head.iter().sum::<f64>() + last * ratio / (1.0 - ratio);
        head.iter_mut().for_each(|p| *p /= total);
        Masses { head, ratio }
    }

    /// `P{W <= x}` for every x of the head.
    pub fn at_most(&self) -> Vec<f64> {
        // Summed from the far end, where the small ones are.
        let last = self.head.last().copied().unwrap_or(0.0);
        let mut above = last * self.ratio / (1.0 - self.ratio);
        let mut at_most = vec![0.0; self.head.len()];
        for (place, mass) in self.head.iter().enumerate().rev() {
            at_most[place] = (1.0 - above).max(0.0);
            above += mass;
        }
        at_most
    }
}

/// The error of a computed backlog.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Certificate {
    /// `sum_k |P{W = k} - P{max(0, W + X) = k}|`.
    pub residual: f64,
    /// `|F_W(x) - F(x)| <= error exp(-tilt x)`.
    pub error: f64,
    /// `theta / 2`, per cell.
    pub tilt: f64,
}

/// The steps of a walk, each mass multiplied by `exp(theta X / 2)`, transformed.
pub struct Tilted {
    /// Half the decay.
    pub tilt: f64,
    /// The plan for all transforms.
    pub fft: RealFft,
    /// The transform of the tilted steps.
    pub steps: Spectrum,
    norm: f64,
    /// `1 - E[exp(tilt X)]`.
    gap: f64,
    up: usize,
    down: usize,
}

impl Tilted {
    /// For transforms of `len` points, a power of two of at least `2 (up + down + 2)`; `theta`: the walk's decay.
    pub fn new(walk: &Walk, theta: f64, len: usize) -> Tilted {
        let tilt = theta / 2.0;
        let fft = RealFft::new(len);
        let mut sequence = vec![0.0; len];
        for (step, mass) in walk.steps() {
            let place = step.rem_euclid(len as i64) as usize;
            sequence[place] += mass * libm::exp(tilt * step as f64);
        }
        let mut steps = fft.spectrum();
        fft.forward(&sequence, &mut steps);
        let norm = sequence.iter().map(|p| p * p).sum::<f64>().sqrt();
        Tilted { tilt, fft, steps, norm, gap: -walk.growth(tilt), up: walk.up(), down: walk.down() }
    }

    /// How long a head may be for [`Tilted::certify`].
    pub fn longest_head(&self) -> usize {
        self.fft.sequence_len() - 2 * (self.up + self.down)
    }

    /// Bounds the error of a backlog whose head is at most [`Tilted::longest_head`] long and whose ratio is
    /// `exp(-theta)`.
    pub fn certify(&self, backlog: &Masses) -> Certificate {
        let len = self.fft.sequence_len();
        let head = backlog.head.len();
        let mut tilted = vec![0.0; len];
        let last = backlog.head[head - 1];
        for (k, place) in tilted.iter_mut().take(head + self.up + self.down).enumerate() {
            *place = match backlog.head.get(k) {
                Some(mass) => mass * libm::exp(self.tilt * k as f64),
                None => last * libm::exp(self.tilt * (2.0 * (head as f64 - 1.0) - k as f64)),
            };
        }
        let norm = tilted.iter().map(|p| p * p).sum::<f64>().sqrt();
        let mut spectrum = self.fft.spectrum();
        let mut stepped = vec![0.0; len];
        self.fft.forward(&tilted, &mut spectrum);
        spectrum.multiply(&self.steps);
        self.fft.inverse(&mut spectrum, &mut stepped);
        let rounding = convolution_error(len, norm, self.norm);
        self.weigh(&tilted[..head + self.up], &stepped, rounding)
    }

    /// From the differences of masses to the largest weighted difference of distribution functions.
    fn weigh(&self, tilted: &[f64], stepped: &[f64], rounding: f64) -> Certificate {
        let back = libm::exp(-self.tilt);
        let last = tilted.len() - 1;
        // Beyond the head a step changes nothing but the last digits of a geometric tail.
        let mut above = 16.0 * f64::EPSILON * tilted[last] / (1.0 - back).max(f64::MIN_POSITIVE);
        let (mut largest, mut residual, mut total) = (above, 0.0, 0.0);
        for k in (1..=last).rev() {
            let difference = tilted[k] - stepped[k];
            above = (above + difference.abs() + rounding) * back;
            largest = largest.max(above);
            let plain = difference * libm::exp(-self.tilt * k as f64);
            residual += plain.abs();
            total += plain;
        }
        // The largest of numbers passes over what is none; the sum does not.
        if !total.is_finite() {
            return Certificate { residual: f64::INFINITY, error: f64::INFINITY, tilt: self.tilt };
        }
        // Sums of a whole distribution are good to some units in the last place.
        let error = (largest + 8.0 * f64::EPSILON) / self.gap.max(f64::MIN_POSITIVE);
        Certificate { residual: residual + f64::abs(total), error, tilt: self.tilt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A walk of single steps, its geometric backlog, and the certificate of a backlog that is off by `by` at one place.
    fn certificate_of(p: f64, place: usize, by: f64) -> (Certificate, Vec<f64>) {
        let walk = Walk::new(&[1.0 - p, 0.0, p], &[0.0, 1.0], 1);
        let theta = walk.decay().unwrap();
        let ratio: f64 = p / (1.0 - p);
        let truth: Vec<f64> = (0..200).map(|k| (1.0 - ratio) * ratio.powi(k)).collect();
        let mut off = truth.clone();
        off[place] += by;
        let masses = Masses::normalised(off, libm::exp(-theta));
        let known: Vec<f64> = (0..200).map(|k| 1.0 - ratio.powi(k + 1)).collect();
        let differences = masses.at_most().iter().zip(known).map(|(a, b)| (a - b).abs()).collect();
        (Tilted::new(&walk, theta, 1024).certify(&masses), differences)
    }

    proptest! {
        #[test]
        fn no_error_is_larger_than_the_certificate_says(p in 0.05f64..0.45, place in 0usize..30, small in 1u32..9) {
            let by = 0.1f64.powi(small as i32);
            let (certificate, differences) = certificate_of(p, place, by);
            for (x, difference) in differences.iter().enumerate() {
                let allowed = certificate.error * libm::exp(-certificate.tilt * x as f64);
                prop_assert!(*difference <= allowed + 1e-14, "{x}: {difference} > {allowed}");
            }
            // Nor is a good answer called a bad one.
            prop_assert!(certificate_of(p, place, 0.0).0.error < 1e-10);
        }
    }

    #[test]
    fn what_is_no_number_is_no_answer() {
        let walk = Walk::new(&[0.7, 0.0, 0.3], &[0.0, 1.0], 1);
        let theta = walk.decay().unwrap();
        let masses = Masses { head: vec![0.5, f64::NAN, 0.25], ratio: libm::exp(-theta) };
        assert_eq!(Tilted::new(&walk, theta, 64).certify(&masses).error, f64::INFINITY);
    }
}
