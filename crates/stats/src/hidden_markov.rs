//! [`HiddenMarkov`]: values that come from modes nobody sees, and modes that follow each other as a Markov chain.
//!
//! In mode g a value is normal with mean `means[g]` and deviation `deviations[g]`. Times are skewed to the right and differ by
//! factors, so their logarithms are what is fed in. The normal density serves to tell the modes apart and keeps the number of
//! parameters at two for each mode; what values a mode has is then read off the values themselves, weighted by how
//! probably they belong to it ([`Decoded`]), so that a density that fits badly costs nothing there. A mode with two
//! humps turns into two modes that change quickly.
//!
//! Forward and backward probabilities are scaled at every value (Rabiner, Proc. IEEE 77(2), 1989), so that runs of any length
//! keep their digits. [`learn()`] finds parameters and [`choose()`] how many modes there are.

pub mod choose;
pub mod learn;

use crate::special::{normal_cdf, normal_quantile};

pub use choose::{Choice, Order, Residuals, choose};
pub use learn::{Learned, learn};

/// What a cumulative probability is kept away from 0 and 1 by.
const EDGE: f64 = 1e-12;

/// Modes, their chain and their normal values.
#[derive(Clone, Debug, PartialEq)]
pub struct HiddenMarkov {
    /// Probability that the first value belongs to each mode.
    pub initial: Vec<f64>,
    /// `transitions[g][g']`: probability that mode g is followed by mode g'.
    pub transitions: Vec<Vec<f64>>,
    /// Mean in each mode.
    pub means: Vec<f64>,
    /// Standard deviation in each mode, positive.
    pub deviations: Vec<f64>,
}

/// How probably each value belongs to each mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// `probabilities[t * modes + g]`, all values considered.
    pub probabilities: Vec<f64>,
    /// Expected number of times that mode g is followed by mode g'.
    pub followed: Vec<Vec<f64>>,
    /// Logarithm of the likelihood of all values.
    pub log_likelihood: f64,
}

/// Buffers for sequences of one length and chains of one order; passes allocate nothing.
#[derive(Clone, Debug)]
pub struct Passes {
    modes: usize,
    /// Densities of each value in each mode, the largest of a value 1.
    densities: Vec<f64>,
    /// Forward probabilities, scaled to sum to 1 at each value.
    forward: Vec<f64>,
    /// Backward probabilities, scaled alike; then, multiplied in place, those of the modes.
    backward: Vec<f64>,
    scales: Vec<f64>,
    followed: Vec<f64>,
    log_likelihood: f64,
}

impl Passes {
    /// For so many values and modes.
    pub fn new(values: usize, modes: usize) -> Passes {
        Passes {
            modes,
            densities: vec![0.0; values * modes],
            forward: vec![0.0; values * modes],
            backward: vec![0.0; values * modes],
            scales: vec![0.0; values],
            followed: vec![0.0; modes * modes],
            log_likelihood: 0.0,
        }
    }

    /// How probably value t belongs to each mode, after [`HiddenMarkov::smooth`].
    pub fn at(&self, t: usize) -> &[f64] {
        &self.backward[t * self.modes..(t + 1) * self.modes]
    }

    /// Expected number of times that one mode is followed by another.
    pub fn followed(&self, from: usize, to: usize) -> f64 {
        self.followed[from * self.modes + to]
    }

    /// Logarithm of the likelihood.
    pub fn log_likelihood(&self) -> f64 {
        self.log_likelihood
    }
}

impl HiddenMarkov {
    /// How many modes.
    pub fn modes(&self) -> usize {
        self.means.len()
    }

    /// Parameters that are free: rows of the chain, its start, mean and deviation of each mode.
    pub fn parameters(&self) -> usize {
        let m = self.modes();
        m * (m - 1) + (m - 1) + 2 * m
    }

    /// Logarithm of the density of a value in a mode.
    pub fn log_density(&self, mode: usize, value: f64) -> f64 {
        let z = (value - self.means[mode]) / self.deviations[mode];
        -0.5 * z * z - libm::log(self.deviations[mode]) - 0.5 * libm::log(2.0 * std::f64::consts::PI)
    }

    /// Forward probabilities and the likelihood.
    fn filter(&self, values: &[f64], passes: &mut Passes) {
        let m = self.modes();
        assert!(passes.modes == m && passes.scales.len() == values.len(), "passes of the same size");
        let constants: Vec<(f64, f64)> =
            (0..m).map(|g| (1.0 / self.deviations[g], -libm::log(self.deviations[g]))).collect();
        let half_log = 0.5 * libm::log(2.0 * std::f64::consts::PI);
        passes.log_likelihood = 0.0;
        for (t, value) in values.iter().enumerate() {
            let (before, here) = passes.forward.split_at_mut(t * m);
            let density = &mut passes.densities[t * m..(t + 1) * m];
            let mut most = f64::NEG_INFINITY;
            for (g, place) in density.iter_mut().enumerate() {
                let z = (value - self.means[g]) * constants[g].0;
                *place = constants[g].1 - 0.5 * z * z;
                most = most.max(*place);
            }
            density.iter_mut().for_each(|place| *place = libm::exp(*place - most));
            let mut total = 0.0;
            for (to, place) in here[..m].iter_mut().enumerate() {
                let expected = match t {
                    0 => self.initial[to],
                    _ => {
                        before[(t - 1) * m..].iter().zip(&self.transitions).map(|(p, row)| p * row[to]).sum()
                    }
                };
                *place = expected * density[to];
                total += *place;
            }
            // No mode explains it: as if nothing had been seen of it.
            if total > 0.0 {
                here[..m].iter_mut().for_each(|p| *p /= total);
            } else {
                here[..m].fill(1.0 / m as f64);
            }
            passes.scales[t] = total;
            passes.log_likelihood += libm::log(total.max(f64::MIN_POSITIVE)) + most - half_log;
        }
    }

    /// The logarithm of the likelihood of values in the order they came.
    pub fn log_likelihood(&self, values: &[f64]) -> f64 {
        let mut passes = Passes::new(values.len(), self.modes());
        self.filter(values, &mut passes);
        passes.log_likelihood
    }

    /// How probably each value belongs to each mode, and how often one mode follows another, all values considered.
    pub fn smooth(&self, values: &[f64], passes: &mut Passes) {
        self.filter(values, passes);
        let m = self.modes();
        let n = values.len();
        passes.followed.fill(0.0);
        if n == 0 {
            return;
        }
        passes.backward[(n - 1) * m..].fill(1.0);
        for t in (1..n).rev() {
            let (before, here) = passes.backward.split_at_mut(t * m);
            let scale = 1.0 / passes.scales[t].max(f64::MIN_POSITIVE);
            for from in 0..m {
                let mut sum = 0.0;
                for (to, later) in here[..m].iter().enumerate() {
                    let ahead = self.transitions[from][to] * passes.densities[t * m + to] * later * scale;
                    passes.followed[from * m + to] += passes.forward[(t - 1) * m + from] * ahead;
                    sum += ahead;
                }
                before[(t - 1) * m + from] = sum;
            }
            here[..m].iter_mut().zip(&passes.forward[t * m..]).for_each(|(b, f)| *b *= f);
            normalise(&mut here[..m]);
        }
        passes.backward[..m].iter_mut().zip(&passes.forward).for_each(|(b, f)| *b *= f);
        normalise(&mut passes.backward[..m]);
    }

    /// [`HiddenMarkov::smooth`], kept.
    pub fn decode(&self, values: &[f64]) -> Decoded {
        let m = self.modes();
        let mut passes = Passes::new(values.len(), m);
        self.smooth(values, &mut passes);
        Decoded {
            followed: passes.followed.chunks(m).map(<[f64]>::to_vec).collect(),
            log_likelihood: passes.log_likelihood,
            probabilities: passes.backward,
        }
    }

    /// What is left of each value when all before it are known: normal and independent if the model is right.
    ///
    /// The value's cumulative probability in the forecast made from those before it, as a normal quantile (pseudo-residuals of
    /// Zucchini and MacDonald, "Hidden Markov models for time series", 2009).
    pub fn residuals(&self, values: &[f64]) -> Vec<f64> {
        let m = self.modes();
        let mut passes = Passes::new(values.len(), m);
        self.filter(values, &mut passes);
        let forecast = |t: usize, to: usize| -> f64 {
            match t {
                0 => self.initial[to],
                _ => (0..m).map(|from| passes.forward[(t - 1) * m + from] * self.transitions[from][to]).sum(),
            }
        };
        let below = |t: usize, value: f64| -> f64 {
            let cumulated = |g: usize| normal_cdf((value - self.means[g]) / self.deviations[g]);
            (0..m).map(|g| forecast(t, g) * cumulated(g)).sum()
        };
        values
            .iter()
            .enumerate()
            .map(|(t, value)| normal_quantile(below(t, *value).clamp(EDGE, 1.0 - EDGE)))
            .collect()
    }

    /// The fraction of values in each mode in the long run.
    pub fn shares(&self) -> Vec<f64> {
        let m = self.modes();
        let mut now = vec![1.0 / m as f64; m];
        // Half a step each time settles chains that take turns, too; the modes of a run change often enough for this.
        for _ in 0..100_000 {
            let mut next = vec![0.0; m];
            for (p, row) in now.iter().zip(&self.transitions) {
                next.iter_mut().zip(row).for_each(|(sum, q)| *sum += p * q);
            }
            let change: f64 = now.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
            now.iter_mut().zip(&next).for_each(|(a, b)| *a = (*a + b) / 2.0);
            if change < 1e-14 {
                break;
            }
        }
        now
    }
}

fn normalise(masses: &mut [f64]) {
    let total: f64 = masses.iter().sum();
    if total > 0.0 {
        masses.iter_mut().for_each(|p| *p /= total);
    } else {
        let even = 1.0 / masses.len() as f64;
        masses.fill(even);
    }
}

#[cfg(test)]
mod tests;
