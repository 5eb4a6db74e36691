//! [`learn`]: parameters of a hidden Markov model by expectation and maximisation, from several starts.
//!
//! Each round replaces the parameters by those most likely if the modes were distributed as the last ones say (Baum, Petrie, Soules
//! and Weiss, Ann. Math. Stat. 41, 1970); the likelihood never falls. It may stop at a local maximum, so rounds are begun
//! from several starts, all made from the values and a fixed seed: modes at means of equal parts of the sorted values, with
//! long and with short stays, and at values drawn. A few rounds tell the best start, which is then followed to the end.
//! Same values, same answer, on every machine.

use crate::hidden_markov::{HiddenMarkov, Passes};
use crate::moments::Moments;
use crate::random::Pcg;

/// Starts beside those made from parts of the sorted values.
const DRAWN: u64 = 3;
/// Rounds that tell the best start.
const FIRST: u32 = 12;
/// Rounds at most.
const ROUNDS: u32 = 400;
/// A round that gains less than this, per value, is the last.
const GAIN: f64 = 1e-9;
/// No deviation is below this part of the deviation of all values: a mode of equal values would have infinite density.
pub const NARROWEST: f64 = 0.02;
/// Probability of staying in a mode at the start.
const STAYS: [f64; 3] = [0.98, 0.8, 0.5];

/// A model with what came of learning it.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// Modes in ascending order of their means.
    pub model: HiddenMarkov,
    /// Logarithm of the likelihood.
    pub log_likelihood: f64,
    /// Rounds of the start that was followed.
    pub rounds: u32,
    /// Whether rounds had stopped to gain anything.
    pub settled: bool,
    /// Expected number of values in the mode with the fewest.
    pub fewest: f64,
}

/// Learns a model with this many modes; `None` when there are fewer than two values for each mode, they do not vary, or one is
/// not finite.
pub fn learn(values: &[f64], modes: usize, seed: u64) -> Option<Learned> {
    if modes == 0 || values.len() < 2 * modes || values.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let deviation = values.iter().copied().collect::<Moments>().std_dev().filter(|d| *d > 0.0)?;
    let narrowest = NARROWEST * deviation;
    let mut passes = Passes::new(values.len(), modes);
    let mut best: Option<(f64, HiddenMarkov)> = None;
    for mut model in starts(values, modes, seed, deviation) {
        for _ in 0..FIRST {
            model.smooth(values, &mut passes);
            model.maximise(values, &passes, narrowest);
        }
        let reached = passes.log_likelihood();
        if best.as_ref().is_none_or(|(most, _)| reached > *most) {
            best = Some((reached, model));
        }
    }
    let (mut before, mut model) = best?;
    let (mut rounds, mut settled) = (FIRST, false);
    while rounds < ROUNDS && !settled {
        model.smooth(values, &mut passes);
        settled = passes.log_likelihood() - before <= GAIN * values.len() as f64;
        before = passes.log_likelihood();
        model.maximise(values, &passes, narrowest);
        rounds += 1;
    }
    model.smooth(values, &mut passes);
    let expected = |g: usize| (0..values.len()).map(|t| passes.at(t)[g]).sum::<f64>();
    let fewest = (0..modes).map(expected).fold(f64::INFINITY, f64::min);
    Some(Learned {
        model: model.in_order(),
        log_likelihood: passes.log_likelihood(),
        rounds,
        settled,
        fewest,
    })
}

fn starts(values: &[f64], modes: usize, seed: u64, deviation: f64) -> Vec<HiddenMarkov> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let part = |g: usize| &sorted[g * sorted.len() / modes..(g + 1) * sorted.len() / modes];
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let by_parts: Vec<f64> = (0..modes).map(|g| mean(part(g))).collect();
    let mut all: Vec<HiddenMarkov> =
        STAYS.iter().map(|stay| start(by_parts.clone(), *stay, deviation)).collect();
    if modes == 1 {
        all.truncate(1);
        return all;
    }
    let mut generator = Pcg::new(u128::from(seed), modes as u128);
    for k in 0..DRAWN {
        let drawn = (0..modes).map(|_| values[generator.below(values.len() as u64) as usize]).collect();
        all.push(start(drawn, STAYS[k as usize % STAYS.len()], deviation));
    }
    all
}

fn start(means: Vec<f64>, stay: f64, deviation: f64) -> HiddenMarkov {
    let m = means.len();
    let leave = if m > 1 { (1.0 - stay) / (m - 1) as f64 } else { 0.0 };
    let row = |g: usize| {
        (0..m)
            .map(|to| {
                if m == 1 {
                    1.0
                } else if to == g {
                    stay
                } else {
                    leave
                }
            })
            .collect()
    };
    HiddenMarkov {
        initial: vec![1.0 / m as f64; m],
        transitions: (0..m).map(row).collect(),
        means,
        deviations: vec![deviation / m as f64; m],
    }
}

impl HiddenMarkov {
    /// The parameters most likely for modes as the passes found them; none of the deviations below `narrowest`.
    pub fn maximise(&mut self, values: &[f64], passes: &Passes, narrowest: f64) {
        let m = self.modes();
        for g in 0..m {
            let (mut count, mut sum) = (0.0, 0.0);
            for (t, value) in values.iter().enumerate() {
                count += passes.at(t)[g];
                sum += passes.at(t)[g] * value;
            }
            self.initial[g] = passes.at(0)[g];
            // A mode without values keeps what it was.
            if count > 1e-6 {
                let mean = sum / count;
                let squares: f64 =
                    values.iter().enumerate().map(|(t, x)| passes.at(t)[g] * (x - mean) * (x - mean)).sum();
                self.means[g] = mean;
                self.deviations[g] = (squares / count).sqrt().max(narrowest);
            }
            let total: f64 = (0..m).map(|to| passes.followed(g, to)).sum();
            if total > 1e-9 {
                (0..m).for_each(|to| self.transitions[g][to] = passes.followed(g, to) / total);
            }
        }
    }

    /// The same with modes in ascending order of their means.
    pub fn in_order(&self) -> HiddenMarkov {
        let mut order: Vec<usize> = (0..self.modes()).collect();
        order.sort_by(|a, b| self.means[*a].total_cmp(&self.means[*b]));
        let pick = |of: &[f64]| order.iter().map(|g| of[*g]).collect();
        HiddenMarkov {
            initial: pick(&self.initial),
            transitions: order.iter().map(|g| pick(&self.transitions[*g])).collect(),
            means: pick(&self.means),
            deviations: pick(&self.deviations),
        }
    }
}
