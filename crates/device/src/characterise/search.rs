//! Numbers of a model for which it is nearest to what was measured, by trying.

use super::rehearse::replay;
use super::samples::{Group, Part, quantile};
use crate::model::Model;

/// Of random reads one at a time, beside other groups: what one request takes is what is asked of a disk first.
const ALONE: f64 = 4.0;
/// Rounds of one step.
const ROUNDS_MAX: usize = 30;
/// Numbers are tried larger and smaller by these factors, the next when none of the one before gains.
const STEPS: [f64; 5] = [2.0, 1.3, 1.1, 1.03, 1.01];

/// Nanoseconds that say how fast a group went: the median response of what counts, since single stalls are no model's; of writes
/// with many at a time the mean time from one completion to the next, since a buffer that fills divides them in two. `None` with
/// fewer than four.
pub fn pace(group: &Group) -> Option<f64> {
    let interval = group.interval()?;
    let fills = matches!(group.part, Part::Write(2..) | Part::WriteStream);
    Some(if fills { interval } else { quantile(&group.responses(), 0.5) })
}

/// Of each group as many requests as a trial needs: those of many at a time are short, and their pace has to settle.
pub fn trial(groups: &[&Group]) -> Vec<Group> {
    let most = |part| match part {
        Part::Depth(_) => 1500,
        Part::Stream => 200,
        // What the buffer has taken decides what comes later.
        Part::Write(_) | Part::WriteStream | Part::Flush => usize::MAX,
        _ => 60,
    };
    let first = |group: &&Group| Group {
        samples: group.samples.iter().take(most(group.part)).copied().collect(),
        ..**group
    };
    groups.iter().map(first).collect()
}

/// How far a model is from groups: the root mean square of the logarithms of the ratios of their paces, and with many reads at a
/// time of their 90th percentiles, about a relative error.
pub fn error(groups: &[Group], model: &mut dyn Model) -> f64 {
    let all: Vec<&Group> = groups.iter().collect();
    let replayed = replay(&all, model);
    let tail = |group: &Group| {
        matches!(group.part, Part::Depth(_)).then(|| quantile(&group.responses(), 0.9).max(1.0))
    };
    let ratios = groups.iter().zip(&replayed).flat_map(|(group, replayed)| {
        let weight = if group.part == Part::Random { ALONE } else { 1.0 };
        let paces = pace(group).zip(pace(replayed));
        let tails = tail(group).zip(tail(replayed));
        [paces, tails]
            .into_iter()
            .flatten()
            .map(move |(measured, modelled)| (libm::log(modelled.max(1.0) / measured.max(1.0)), weight))
    });
    let add = |(sum, all): (f64, f64), (ratio, weight)| (sum + weight * ratio * ratio, all + weight);
    let (sum, all) = ratios.fold((0.0, 0.0), add);
    if all > 0.0 { libm::sqrt(sum / all) } else { f64::INFINITY }
}

/// From each start changes one number at a time while the error falls; returns the numbers with the least, and it.
pub fn descend(starts: Vec<Vec<f64>>, mut error: impl FnMut(&[f64]) -> f64) -> (Vec<f64>, f64) {
    let ends: Vec<(Vec<f64>, f64)> =
        starts.into_iter().map(|start| descend_from(start, &mut error)).collect();
    ends.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("there is a start")
}

fn descend_from(start: Vec<f64>, error: &mut impl FnMut(&[f64]) -> f64) -> (Vec<f64>, f64) {
    let mut least = error(&start);
    let mut best = start;
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
