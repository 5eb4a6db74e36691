//! [`ByModes`]: the backlog by factorising the walk of each mode, and passing between the modes until nothing changes.
//!
//! As long as the chain stays in one mode the backlog is a plain walk, killed when the mode ends: its tail solves `(I - M(g, g)
//! T_g) V_g = r_g` on the half-line, where `r_g` is what comes from the other modes. The symbol `1 - M(g, g) E[z^X_g]` has no zero
//! on the circle `|z| = exp(theta/2)`, since there `M(g, g) E[|z|^X_g] < 1`; so its logarithm splits into powers above and below 0,
//! and two divisions by transforms solve the equation exactly (Wiener and Hopf; Krein 1958). Solving for one mode after the
//! other is block Gauss and Seidel's iteration of a matrix whose spectral radius is below 1; it needs about as many rounds as
//! modes change in one busy period. What is left is seen by the certificate.

use surety_stats::fourier::{RealFft, Spectrum};

use crate::cbs::CbsError;
use crate::cbs::modulated::certificate::{Room, Step};
use crate::cbs::modulated::queue::ModulatedQueue;
use crate::cbs::modulated::solution::{ModulatedSolution, ModulatedSolver, is_good_enough};

/// Rounds through all modes at most.
const ROUNDS: u64 = 4_000;
/// Rounds are over when nothing changes by more than this part.
const SETTLED: f64 = 1e-14;
/// `exp(-REACH)` is what a tail may have left beyond its last cell, tilted half way.
const REACH: f64 = 40.0;

/// The solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByModes {
    /// The most cells of a tail.
    pub cells_max: usize,
}

impl Default for ByModes {
    /// 2^15 cells: a backlog that reaches farther keeps no promise worth a search.
    fn default() -> ByModes {
        ByModes { cells_max: 1 << 15 }
    }
}

/// Both factors of a mode's symbol, inverted: powers from 0 up, and below 0.
struct Factors {
    rising: Spectrum,
    falling: Spectrum,
}

impl ModulatedSolver for ByModes {
    fn name(&self) -> &'static str {
        "wiener-hopf-by-modes"
    }

    fn theorem(&self) -> &'static str {
        "Wiener-Hopf factorisation of each mode's walk, block Gauss-Seidel over the modes"
    }

    fn source(&self) -> &'static str {
        "Villalba Frias, Palopoli, Abeni and Fontanelli, RTAS 2017; Krein 1958"
    }

    fn solve(&self, queue: &ModulatedQueue) -> Result<ModulatedSolution, CbsError> {
        let Some(decay) = queue.decay() else {
            return Ok(ModulatedSolution::no_backlog(self, queue));
        };
        let least = queue.up() + queue.down() + 2;
        let wanted = 2.0 * REACH / decay.tilt;
        if wanted.max(least as f64) > self.cells_max as f64 {
            let points = if wanted < 1e15 { wanted as usize } else { usize::MAX };
            return Err(CbsError::TooManyCells { points: points.max(least), limit: self.cells_max });
        }
        let step = Step::new(queue, queue.weights(decay.tilt / 2.0), (wanted as usize).max(least));
        let mut room = step.room();
        let (tails, rounds) = settle(&step, &mut room);
        let certificate = step.certify(&tails, &mut room);
        is_good_enough(&certificate)?;
        Ok(ModulatedSolution::exact(self, queue, &tails, certificate, decay, rounds))
    }
}

/// Splits the logarithm of `1 - share E[z^X]` and inverts both parts.
fn factors(fft: &RealFft, walk: &Spectrum, share: f64) -> Factors {
    let len = fft.sequence_len();
    let mut spectrum = walk.clone();
    let mut sequence = vec![0.0; len];
    fft.map(&mut spectrum, |_, (re, im)| {
        let (a, b) = (1.0 - share * re, -share * im);
        (libm::log((a * a + b * b).sqrt()), libm::atan2(b, a))
    });
    fft.inverse(&mut spectrum, &mut sequence);
    let inverted = |keep: &dyn Fn(usize) -> bool| {
        let part: Vec<f64> =
            sequence.iter().enumerate().map(|(k, a)| if keep(k) { -a } else { 0.0 }).collect();
        let mut spectrum = fft.spectrum();
        fft.forward(&part, &mut spectrum);
        fft.map(&mut spectrum, |_, (re, im)| {
            let (sin, cos) = libm::sincos(im);
            let size = libm::exp(re);
            (size * cos, size * sin)
        });
        spectrum
    };
    Factors { rising: inverted(&|k| k < len / 2), falling: inverted(&|k| k >= len / 2) }
}

/// Goes round the modes until nothing changes; a round allocates nothing.
fn settle(step: &Step<'_>, room: &mut Room) -> (Vec<Vec<f64>>, u64) {
    let (queue, cells) = (step.queue, step.cells);
    let m = queue.modes();
    let factors: Vec<Factors> =
        (0..m).map(|mode| factors(&step.fft, &step.walks[mode], queue.transition(mode, mode))).collect();
    let mut sources: Vec<Vec<f64>> = vec![vec![0.0; cells]; m];
    let mut tails = sources.clone();
    room.spectra.iter_mut().for_each(Spectrum::clear);
    let (mut rounds, mut is_last) = (0, m == 1);
    // `room.spectra[g]` holds what mode g leads to, `T_g V_g`.
    loop {
        rounds += 1;
        let (mut change, mut size) = (0.0f64, 0.0f64);
        for mode in 0..m {
            room.sum.clear();
            for from in (0..m).filter(|from| *from != mode) {
                room.sum.add_scaled(queue.transition(from, mode), &room.spectra[from]);
            }
            step.fft.inverse(&mut room.sum, &mut room.sequence);
            room.sequence[cells..].fill(0.0);
            let fresh = &step.fresh[mode];
            for ((now, fresh), old) in room.sequence.iter_mut().zip(fresh).zip(&mut sources[mode]) {
                *now += fresh;
                change = change.max((*now - *old).abs());
                size = size.max(now.abs());
                *old = *now;
            }
            step.fft.forward(&room.sequence, &mut room.sum);
            room.sum.multiply(&factors[mode].falling);
            step.fft.inverse(&mut room.sum, &mut room.sequence);
            room.sequence[cells..].fill(0.0);
            step.fft.forward(&room.sequence, &mut room.sum);
            room.sum.multiply(&factors[mode].rising);
            room.spectra[mode].copy_from(&room.sum);
            room.spectra[mode].multiply(&step.walks[mode]);
            if is_last {
                step.fft.inverse(&mut room.sum, &mut room.sequence);
                tails[mode].copy_from_slice(&room.sequence[..cells]);
            }
        }
        if is_last {
            return (tails, rounds);
        }
        // What is no number ends it too; the certificate will say so.
        is_last = change <= SETTLED * size || !size.is_finite() || rounds >= ROUNDS;
    }
}
