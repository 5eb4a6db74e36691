//! Numbers of a model for which it is nearest to what was measured, by trying.

use super::rehearse::replay;
use super::samples::{Group, Part, quantile};
use crate::model::Model;

/// Requests of a group that a trial replays.
const TRIED: usize = 300;
/// Rounds of one step.
const ROUNDS_MAX: usize = 30;
/// Numbers are tried larger and smaller by these factors, the next when none of the one before gains.
const STEPS: [f64; 5] = [2.0, 1.3, 1.1, 1.03, 1.01];

/// Nanoseconds of a request in a group: with one at a time the median of what counts, since single stalls are no model's; in a
/// sequence, and with more at a time, the mean. `None` with fewer than four.
pub fn pace(group: &Group) -> Option<f64> {
    let interval = group.interval()?;
    let is_sequence = matches!(group.part, Part::Sequential(_));
    Some(if group.depth > 1 || is_sequence { interval } else { quantile(&group.responses(), 0.5) })
}

/// How far a model is from the paces of groups: the root mean square of the logarithms of their ratios, about a relative error.
pub fn error(groups: &[&Group], model: &mut dyn Model) -> f64 {
    let replayed = replay(groups, model, TRIED);
    let ratios = groups.iter().zip(&replayed).filter_map(|(group, replayed)| {
        let (measured, modelled) = (pace(group)?.max(1.0), pace(replayed)?.max(1.0));
        Some(libm::log(modelled / measured))
    });
    let (sum, count) = ratios.fold((0.0, 0.0), |(sum, count), ratio| (sum + ratio * ratio, count + 1.0));
    if count > 0.0 { libm::sqrt(sum / count) } else { f64::INFINITY }
}

/// Changes one number at a time while the error falls; returns the numbers and their error.
pub fn descend(start: Vec<f64>, mut error: impl FnMut(&[f64]) -> f64) -> (Vec<f64>, f64) {
    let (mut best, mut least) = (start.clone(), error(&start));
    for step in STEPS {
        for _ in 0..ROUNDS_MAX {
            let before = least;
            for number in 0..best.len() {
                for factor in [step, 1.0 / step] {
                    let mut tried = best.clone();
                    tried[number] *= factor;
                    let found = error(&tried);
                    if found < least {
                        (best, least) = (tried, found);
                        break;
                    }
                }
            }
            // Less than a hundredth of what is left is not worth a round.
            if least > 0.99 * before {
                break;
            }
        }
    }
    (best, least)
}
