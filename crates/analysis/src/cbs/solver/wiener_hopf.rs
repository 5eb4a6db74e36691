//! [`WienerHopf`]: the backlog from the logarithm of `1 - E[z^X]`, by fast transforms.
//!
//! Spitzer ("A combinatorial lemma and its application to probability theory", 1956): with `log(1 - E[z^X]) =
//! sum_k a(k) z^k` the stationary backlog has
//!
//! ```text
//! E[z^W] = exp(sum_{k >= 1} a(k) (1 - z^k))
//! ```
//!
//! The series converges for `1 < |z| < gamma`, gamma the root of `E[z^X] = 1` beyond 1, and there `|E[z^X]| <=
//! E[|z|^X] < 1`: the logarithm has no branch to lose. On the unit circle, where this is usually done, zeros of `1 -
//! E[z^X]` just inside it (work that nearly keeps to a lattice) make any number of points too few; none of them
//! comes near the circle `|z| = sqrt(gamma)` used here. On that circle the two real zeros, 1 and gamma, are
//! divided out, `(1 - 1/z)(1 - z/gamma) = |1 - z/gamma|^2`, so that the points needed depend on the other zeros
//! alone and not on how near the load is to 1; the division by `1 - z/gamma` is made good in the time domain. What
//! remains wrong is seen by the certificate, and the points are doubled until it is small.

use crate::cbs::CbsError;
use crate::cbs::certificate::{Masses, Tilted};
use crate::cbs::queue::Queue;
use crate::cbs::solver::{ERROR_MAX, Solution, Solver};

/// Points are doubled until the proven error is below this.
const ERROR_WANTED: f64 = 1e-9;
/// Fewer improvement than this factor by a doubling means that the rest is rounding.
const WORTH_DOUBLING: f64 = 4.0;

/// The solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WienerHopf {
    /// The most points of a transform.
    pub points_max: usize,
}

impl Default for WienerHopf {
    /// Up to 2^20 points.
    fn default() -> WienerHopf {
        WienerHopf { points_max: 1 << 20 }
    }
}

impl Solver for WienerHopf {
    fn name(&self) -> &'static str {
        "wiener-hopf"
    }

    fn theorem(&self) -> &'static str {
        "Wiener-Hopf factorisation of the backlog's walk on a circle inside its annulus of convergence"
    }

    fn source(&self) -> &'static str {
        "Spitzer 1956; Cooley and Tukey 1965"
    }

    fn solve(&self, queue: &Queue) -> Result<Solution, CbsError> {
        let walk = queue.walk();
        let Some(theta) = walk.decay() else {
            return Ok(Solution::no_backlog(self, queue));
        };
        let span = walk.up() + walk.down() + 2;
        let mut points = (8 * span).next_power_of_two();
        if points > self.points_max {
            return Err(CbsError::TooManyCells { points, limit: self.points_max });
        }
        let mut best: Option<(Masses, crate::cbs::certificate::Certificate, usize)> = None;
        while points <= self.points_max && theta > 0.0 {
            let tilted = Tilted::new(walk, theta, points);
            let masses = factor(&tilted);
            let certificate = tilted.certify(&masses);
            let before = best.as_ref().map_or(f64::INFINITY, |(_, c, _)| c.error);
            // Not a number is worse than any.
            if certificate.error < before {
                best = Some((masses, certificate, points));
            }
            let stuck = before < ERROR_MAX && certificate.error > before / WORTH_DOUBLING;
            if certificate.error < ERROR_WANTED || stuck {
                break;
            }
            points *= 2;
        }
        match best {
            Some((masses, certificate, points)) if certificate.error <= ERROR_MAX => {
                let mut solution = Solution::exact(self, queue, &masses, certificate, theta);
                solution.effort = points as u64;
                Ok(solution)
            }
            best => Err(CbsError::NoConvergence {
                error: best.map_or(f64::INFINITY, |(_, certificate, _)| certificate.error),
                limit: ERROR_MAX,
            }),
        }
    }
}

/// The backlog by transforms of one length, not checked.
fn factor(tilted: &Tilted) -> Masses {
    let len = tilted.fft.sequence_len();
    let kappa = libm::exp(-tilted.tilt);
    let mut spectrum = tilted.steps.clone();
    let mut sequence = vec![0.0; len];
    tilted.fft.map(&mut spectrum, |(cos, _), (re, im)| {
        let (a, b) = (1.0 - re, -im);
        let zeros = (1.0 - kappa) * (1.0 - kappa) + 2.0 * kappa * (1.0 - cos);
        (libm::log((a * a + b * b).sqrt() / zeros), libm::atan2(b, a))
    });
    tilted.fft.inverse(&mut spectrum, &mut sequence);
    // The part with positive powers, its sign turned.
    sequence[0] = 0.0;
    sequence[len / 2..].fill(0.0);
    sequence.iter_mut().for_each(|a| *a = -*a);
    tilted.fft.forward(&sequence, &mut spectrum);
    tilted.fft.map(&mut spectrum, |_, (re, im)| {
        let (sin, cos) = libm::sincos(im);
        let size = libm::exp(re);
        (size * cos, size * sin)
    });
    tilted.fft.inverse(&mut spectrum, &mut sequence);
    sequence.truncate((len / 2).min(tilted.longest_head()));
    let mut before = 0.0;
    for (k, mass) in sequence.iter_mut().enumerate() {
        before = *mass + kappa * before;
        *mass = before * libm::exp(-tilted.tilt * k as f64);
    }
    Masses::normalised(sequence, kappa * kappa)
}
