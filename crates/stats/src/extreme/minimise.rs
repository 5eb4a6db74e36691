//! The downhill simplex of Nelder and Mead (Computer Journal 7, 1965), and the ends of profile intervals.
//!
//! Likelihoods of extreme value distributions end at walls where a sample leaves the support: there the
//! function is infinite, which a simplex needs no derivative to walk away from.

use crate::special::normal_quantile;

const STEPS: u32 = 600;

/// Where the function is least, and its value there.
pub(super) fn minimise<const N: usize>(
    start: [f64; N],
    step: [f64; N],
    function: impl Fn(&[f64; N]) -> f64,
) -> ([f64; N], f64) {
    let first = descend(start, step, &function);
    // A second simplex from the end: the first may have folded flat before the bottom.
    descend(first.0, step.map(|s| s * 0.1), &function)
}

fn descend<const N: usize>(
    start: [f64; N],
    step: [f64; N],
    function: &impl Fn(&[f64; N]) -> f64,
) -> ([f64; N], f64) {
    let value = |at: [f64; N]| {
        let found = function(&at);
        (at, if found.is_nan() { f64::INFINITY } else { found })
    };
    let mut corners = vec![value(start)];
    for axis in 0..N {
        let mut corner = start;
        corner[axis] += step[axis];
        corners.push(value(corner));
    }
    for _ in 0..STEPS {
        corners.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (best, worst) = (corners[0], corners[N]);
        let wide = (0..N).any(|axis| {
            corners.iter().any(|c| (c.0[axis] - best.0[axis]).abs() > 1e-9 * (1.0 + best.0[axis].abs()))
        });
        if !wide || (worst.1 - best.1).abs() <= 1e-13 * (1.0 + best.1.abs()) {
            break;
        }
        let mut centre = [0.0; N];
        for corner in &corners[..N] {
            centre.iter_mut().zip(corner.0).for_each(|(c, x)| *c += x / N as f64);
        }
        let along = |factor: f64| {
            let mut at = centre;
            at.iter_mut().zip(worst.0).for_each(|(c, w)| *c += factor * (*c - w));
            value(at)
        };
        let reflected = along(1.0);
        if reflected.1 < best.1 {
            let expanded = along(2.0);
            corners[N] = if expanded.1 < reflected.1 { expanded } else { reflected };
        } else if reflected.1 < corners[N - 1].1 || (N == 1 && reflected.1 < worst.1) {
            corners[N] = reflected;
        } else {
            let contracted = if reflected.1 < worst.1 { along(0.5) } else { along(-0.5) };
            if contracted.1 < worst.1.min(reflected.1) {
                corners[N] = contracted;
            } else {
                for corner in &mut corners[1..] {
                    let mut at = corner.0;
                    at.iter_mut().zip(best.0).for_each(|(x, b)| *x = b + 0.5 * (*x - b));
                    *corner = value(at);
                }
            }
        }
    }
    corners.sort_by(|a, b| a.1.total_cmp(&b.1));
    corners[0]
}

/// Half the chi-square point with one degree of freedom: how far the log-likelihood may fall.
pub(super) fn allowed_fall(confidence: f64) -> f64 {
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is strictly between 0 and 1, not {confidence}"
    );
    let z = normal_quantile(0.5 + confidence / 2.0);
    z * z / 2.0
}

/// Where, going from `from` by growing steps, a profile first exceeds `limit`; `None` when it does not within
/// a million first steps.
pub(super) fn profile_end(
    from: f64,
    first_step: f64,
    limit: f64,
    profile: impl Fn(f64) -> f64,
) -> Option<f64> {
    let (mut inside, mut step) = (from, first_step);
    let mut outside = None;
    for _ in 0..20 {
        let at = inside + step;
        // A place without any likelihood is outside too.
        if profile(at).partial_cmp(&limit) != Some(std::cmp::Ordering::Less) {
            outside = Some(at);
            break;
        }
        inside = at;
        step *= 2.0;
    }
    let mut outside = outside?;
    for _ in 0..40 {
        let middle = inside + (outside - inside) / 2.0;
        if profile(middle) < limit {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    Some(outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rosenbrock's valley (1960), and a parabola beside a wall.
    #[test]
    fn known_minima_are_found() {
        let valley = |x: &[f64; 2]| 100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2);
        let (at, value) = minimise([-1.2, 1.0], [0.5, 0.5], valley);
        assert!((at[0] - 1.0).abs() < 1e-4 && (at[1] - 1.0).abs() < 1e-4 && value < 1e-9, "{at:?}");
        let wall = |x: &[f64; 1]| if x[0] < 1.0 { f64::INFINITY } else { (x[0] - 2.0).powi(2) };
        assert!((minimise([5.0], [1.0], wall).0[0] - 2.0).abs() < 1e-5);
    }

    #[test]
    fn profile_ends_are_bisected() {
        let end = profile_end(0.0, 0.1, 4.0, |x| x * x).unwrap();
        assert!((end - 2.0).abs() < 1e-9);
        assert_eq!(profile_end(0.0, 0.1, 4.0, |_| 0.0), None);
        assert!((allowed_fall(0.95) - 1.920_729).abs() < 1e-6);
    }
}
