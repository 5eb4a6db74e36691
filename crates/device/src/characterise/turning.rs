//! Whether a device turns, and how fast, from reads alone.
//!
//! The data of a sector come when it passes under the head. Two reads of the same sector that both reach the medium are therefore
//! completed a whole number of revolutions apart, whatever else the drive did in between. So each period from `SHORTEST` to
//! `LONGEST` is tried on the times between such reads: the mean of `cos(2 pi time / period)` is 1 for the revolution (and for
//! its halves, thirds, ...), and nearer to 0 for what it does not divide. The longest multiple of what fits best is the revolution.
//!
//! A device that takes one constant time fits too. But a random access to what turns waits for anything between no revolution and
//! a whole one: random reads that spread over less than `SPREAD` of it did not wait for it.

use std::collections::BTreeMap;

use surety_units::Nanos;

use super::samples::{Group, Part, quantile};

/// Milliseconds of the shortest revolution that is looked for: 30000 a minute.
const SHORTEST: f64 = 2.0;
/// Milliseconds of the longest: 2400 a minute.
const LONGEST: f64 = 25.0;
/// Fewer times say nothing.
const TIMES_MIN: usize = 24;
/// A mean cosine from which on the period is there. Of 24 random times one of the 20000 periods tried exceeds 0.85 by chance less than
/// once in a million.
const COHERENT: f64 = 0.85;
/// From the 10th to the 90th percentile a uniform wait has 0.8 revolutions; seeks make it more.
const SPREAD: f64 = 0.6;
/// Kept of the drive's own jitter: times longer than this many revolutions say nothing about its length.
const TURNS_MAX: f64 = 400.0;

/// What turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turning {
    /// Nanoseconds.
    pub revolution: f64,
    /// Times it was found in.
    pub times: usize,
    /// Mean cosine, 1 at best.
    pub coherence: f64,
}

/// Nanoseconds between two reads of the same sector that both reached the medium, by the groups [`Part::Again`].
fn times(groups: &[Group], held_below: f64) -> Vec<f64> {
    let mut times = Vec::new();
    for group in groups {
        if !matches!(group.part, Part::Again(_)) {
            continue;
        }
        let mut last: BTreeMap<u64, Nanos> = BTreeMap::new();
        for sample in &group.samples {
            let place = sample.request.sector;
            if sample.response() < held_below {
                last.remove(&place);
            } else if let Some(before) = last.insert(place, sample.completed) {
                times.push((sample.completed - before).get() as f64);
            }
        }
    }
    times
}

/// Reads faster than this share of the median random read were held in a buffer.
pub const HELD: f64 = 0.2;

/// Nanoseconds below which a read came from a buffer.
pub fn held_below(groups: &[Group]) -> f64 {
    let random = groups.iter().find(|group| group.part == Part::Random);
    random.map_or(0.0, |group| HELD * quantile(&group.responses(), 0.5))
}

/// The revolution, if there is one.
pub fn turning(groups: &[Group]) -> Option<Turning> {
    let random = groups.iter().find(|group| group.part == Part::Random)?.responses();
    let spread = quantile(&random, 0.9) - quantile(&random, 0.1);
    let longest = (spread / SPREAD).min(LONGEST * 1e6);
    let mut times = times(groups, held_below(groups));
    times.retain(|time| *time < TURNS_MAX * longest);
    if times.len() < TIMES_MIN || longest <= SHORTEST * 1e6 {
        return None;
    }
    let far = times.iter().copied().fold(0.0, f64::max);
    // A step moves the latest time by a tenth of a revolution at most.
    let mut tried = Vec::new();
    let mut period = SHORTEST * 1e6;
    while period <= longest {
        tried.push((period, coherence(&times, period)));
        period += 0.1 * period * period / far;
    }
    let best = tried.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    // A half or a third of the revolution fits as well as it does.
    let most = (longest / best.0) as u32;
    let multiples = (1..=most.max(1)).rev().map(|multiple| refined(&times, f64::from(multiple) * best.0));
    let revolution = multiples.into_iter().find(|period| coherence(&times, *period) >= 0.9 * best.1)?;
    let coherence = coherence(&times, revolution);
    (coherence >= COHERENT && !is_constant(&times, revolution)).then_some(Turning {
        revolution,
        times: times.len(),
        coherence,
    })
}

/// The mean of `cos(2 pi time / period)`.
fn coherence(times: &[f64], period: f64) -> f64 {
    let turn = 2.0 * std::f64::consts::PI;
    times.iter().map(|time| libm::cos(turn * time / period)).sum::<f64>() / times.len() as f64
}

/// The period by least squares, with the whole numbers that a near one gives.
fn refined(times: &[f64], period: f64) -> f64 {
    let (mut product, mut square) = (0.0, 0.0);
    for time in times {
        let turns = (time / period).round();
        // Retries and other loads: far from a whole number.
        if (time / period - turns).abs() < 0.25 {
            product += time * turns;
            square += turns * turns;
        }
    }
    if square > 0.0 { product / square } else { period }
}

/// Whether all times are the same number of revolutions, which says nothing.
fn is_constant(times: &[f64], period: f64) -> bool {
    let turns = |time: &f64| (time / period).round();
    times.iter().all(|time| turns(time) == turns(&times[0]))
}
