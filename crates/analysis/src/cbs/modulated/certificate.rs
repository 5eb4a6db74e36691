//! [`Step`]: one step of the recursion on tails by cell and mode, and how far a computed tail can be from the true one.
//!
//! For weights h with `sum_g M(g, g') E[rho^X_g] h_g <= (1 - gap) h_g'` the step is a contraction by `1 - gap` in the norm
//! `max_g sup_x |f_g(x)| rho^x / h_g`, since functions that agree below cell 0 differ after a step by at most
//!
//! ```text
//! |T f - T f'|_g'(x) rho^x  <=  sum_g M(g, g') sum_k P{X_g = k} rho^k |f_g(x - k) - f'_g(x - k)| rho^(x - k)
//! ```
//!
//! So whatever V was computed as, the true tail is within `|T V - V| / gap` of it in that norm (Banach). Here `rho = exp(theta/2)`,
//! half way to the decay theta. Steps are taken by transforms of tilted sequences, and the worst rounding of those counts as
//! residual.

use surety_stats::fourier::{RealFft, Spectrum, convolution_error};

use crate::cbs::modulated::queue::{ModulatedQueue, Weights};

/// The error of a computed tail.
#[derive(Clone, Debug, PartialEq)]
pub struct ModulatedCertificate {
    /// The largest `|T V - V|` of any cell and mode.
    pub residual: f64,
    /// `|P{w > x, mode g} - V_g(x)| <= error weights_g exp(-tilt x)`.
    pub error: f64,
    /// Half the decay, with its weights.
    pub at: Weights,
}

/// A queue prepared for steps on tails of a given length.
pub struct Step<'a> {
    pub(super) queue: &'a ModulatedQueue,
    pub(super) at: Weights,
    pub(super) fft: RealFft,
    /// For each mode its tilted walk, transformed.
    pub(super) walks: Vec<Spectrum>,
    norms: Vec<f64>,
    /// For each mode `sum_g M(g, mode) P{g} P{X_g > x}`, tilted: what a backlog of 0 leads to.
    pub(super) fresh: Vec<Vec<f64>>,
    pub(super) cells: usize,
}

/// Room of a step: buffers that live as long as the solver works.
pub struct Room {
    pub(super) spectra: Vec<Spectrum>,
    pub(super) sum: Spectrum,
    pub(super) sequence: Vec<f64>,
}

impl<'a> Step<'a> {
    /// For tails of `cells` cells (zero beyond), in the norm of these weights.
    pub fn new(queue: &'a ModulatedQueue, at: Weights, cells: usize) -> Step<'a> {
        let (up, down) = (queue.up(), queue.down());
        let len = (2 * cells + up + down + 2).next_power_of_two().max(4);
        let fft = RealFft::new(len);
        let m = queue.modes();
        let mut walks = Vec::with_capacity(m);
        let mut norms = Vec::with_capacity(m);
        let mut above = Vec::with_capacity(m);
        for mode in 0..m {
            let walk = queue.walk(mode);
            let mut sequence = vec![0.0; len];
            for (step, mass) in walk.steps() {
                sequence[step.rem_euclid(len as i64) as usize] += mass * libm::exp(at.tilt * step as f64);
            }
            norms.push(sequence.iter().map(|p| p * p).sum::<f64>().sqrt());
            let mut spectrum = fft.spectrum();
            fft.forward(&sequence, &mut spectrum);
            walks.push(spectrum);
            // P{X > x} for x from 0 on, summed from the far end.
            let mut beyond = vec![0.0; cells + up];
            let mut sum = 0.0;
            for x in (0..walk.up()).rev() {
                sum += walk.mass(x as i64 + 1);
                beyond[x] = sum * libm::exp(at.tilt * x as f64);
            }
            above.push(beyond);
        }
        let fresh = (0..m)
            .map(|to| {
                let mut all = vec![0.0; cells + up];
                for (from, beyond) in above.iter().enumerate() {
                    let factor = queue.transition(from, to) * queue.shares()[from];
                    all.iter_mut().zip(beyond).for_each(|(sum, p)| *sum += factor * p);
                }
                all
            })
            .collect();
        Step { queue, at, fft, walks, norms, fresh, cells }
    }

    /// Buffers for this length.
    pub fn room(&self) -> Room {
        Room {
            spectra: (0..self.queue.modes()).map(|_| self.fft.spectrum()).collect(),
            sum: self.fft.spectrum(),
            sequence: vec![0.0; self.fft.sequence_len()],
        }
    }

    /// Bounds the error of tilted tails, `tails[g][x] = V_g(x) exp(tilt x)`, each of `cells` cells.
    pub fn certify(&self, tails: &[Vec<f64>], room: &mut Room) -> ModulatedCertificate {
        let m = self.queue.modes();
        let len = self.fft.sequence_len();
        let mut roundings = Vec::with_capacity(m);
        for (mode, tail) in tails.iter().enumerate() {
            room.sequence.fill(0.0);
            room.sequence[..self.cells].copy_from_slice(&tail[..self.cells]);
            let norm = tail.iter().map(|p| p * p).sum::<f64>().sqrt();
            roundings.push(convolution_error(len, norm, self.norms[mode]));
            self.fft.forward(&room.sequence, &mut room.spectra[mode]);
            room.spectra[mode].multiply(&self.walks[mode]);
        }
        let (mut largest, mut residual) = (0.0f64, 0.0f64);
        for (to, tail) in tails.iter().enumerate() {
            room.sum.clear();
            let mut rounding = 0.0;
            for (from, here) in roundings.iter().enumerate() {
                let factor = self.queue.transition(from, to);
                room.sum.add_scaled(factor, &room.spectra[from]);
                rounding += factor * here;
            }
            self.fft.inverse(&mut room.sum, &mut room.sequence);
            let weight = self.at.weights[to];
            for x in 0..self.fresh[to].len() {
                let is = tail.get(x).copied().unwrap_or(0.0);
                let off = (room.sequence[x] + self.fresh[to][x] - is).abs() + rounding;
                let plain = off * libm::exp(-self.at.tilt * x as f64);
                if !off.is_finite() {
                    return ModulatedCertificate {
                        residual: f64::INFINITY,
                        error: f64::INFINITY,
                        at: self.at.clone(),
                    };
                }
                largest = largest.max(off / weight);
                residual = residual.max(plain);
            }
        }
        let gap = self.at.gap.max(f64::MIN_POSITIVE);
        ModulatedCertificate { residual, error: (largest + 8.0 * f64::EPSILON) / gap, at: self.at.clone() }
    }
}
