//! [`drifts`]: whether a thread keeps to a grid, or sleeps for a time and so moves all that follows by what it was late.
//!
//! Who sleeps until an instant is late for each instant anew: what its releases lie beside the line through them is independent
//! from one to the next. Who sleeps for a time adds what it was late to all that follow: the same deviations are a random walk.
//! Von Neumann's ratio tells them apart, the sum of squared differences of successive deviations over that of their squares ("Distribution of the
//! ratio of the mean square successive difference to the variance", Annals of Mathematical Statistics 12, 1941): near 2 for the
//! first, and of the order of `1 / n` for a walk of n steps, as a walk's deviations from its line grow with n (the integral of a
//! squared Brownian motion without its line is 1/15 in the mean, so the ratio is about `15 / n`).

use crate::line::Line;

/// A walk of n steps has a ratio below this over n in 99 % of all cases: simulated 4,000 times each for 45, 100 and 400 steps, exponential ones
/// and such with rare long ones.
const WALK: f64 = 60.0;
/// Few steps: independent deviations have a larger ratio in 95 % of all cases from 20 on.
const RATIO_MAX: f64 = 1.0;

/// Whether releases, each as (point of the grid, time), are such a walk. Lateness that lasts, as of a program that polls, is none
/// where it stays bounded for long enough to be seen.
pub(crate) fn drifts(places: &[(f64, f64)]) -> bool {
    let limit = RATIO_MAX.min(WALK / places.len().max(1) as f64);
    ratio(places).is_some_and(|ratio| ratio < limit)
}

/// Von Neumann's ratio of what releases lie beside the line through them; `None`: they lie on it, or there is none.
fn ratio(places: &[(f64, f64)]) -> Option<f64> {
    let (index, times): (Vec<f64>, Vec<f64>) = places.iter().copied().unzip();
    let residuals = Line::through(&index, &times)?.residuals(&index, &times);
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    let steps: f64 = residuals.windows(2).map(|pair| (pair[1] - pair[0]) * (pair[1] - pair[0])).sum();
    (squares > 0.0).then(|| steps / squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_stats::random::Pcg;

    const PERIOD: f64 = 10e6;

    /// Lateness of a wake-up in nanoseconds: mean 50 us, and two in a hundred a hundred times as long.
    fn late(generator: &mut Pcg) -> f64 {
        let unit = |generator: &mut Pcg| (generator.below(1 << 30) as f64 + 0.5) / (1u64 << 30) as f64;
        let usual = -unit(generator).ln() * 50e3;
        if generator.below(100) < 2 { usual * 100.0 } else { usual }
    }

    /// How many of a hundred series are said to drift.
    fn said(n: usize, series: impl Fn(&mut Pcg) -> Vec<f64>) -> usize {
        let is_walk = |seed: u64| {
            let times = series(&mut Pcg::new(seed.into(), n as u128));
            assert_eq!(times.len(), n);
            drifts(&times.into_iter().enumerate().map(|(k, time)| (k as f64, time)).collect::<Vec<_>>())
        };
        (0..100u64).filter(|seed| is_walk(*seed)).count()
    }

    #[test]
    fn who_sleeps_until_an_instant_keeps_to_the_grid() {
        for (n, at_most) in [(20, 5), (45, 2), (400, 0), (3000, 0)] {
            let grid = |generator: &mut Pcg| {
                (0..n).map(|k| k as f64 * PERIOD + late(generator)).collect::<Vec<f64>>()
            };
            let count = said(n, grid);
            assert!(count <= at_most, "{n} releases: {count}");
        }
    }

    #[test]
    fn who_sleeps_for_a_time_drifts() {
        for (n, at_least) in [(20, 60), (45, 94), (400, 97), (3000, 97)] {
            // After its work, as long as that is or not; and from when it looked.
            for work_varies in [0.0, 200e3] {
                let walk = |generator: &mut Pcg| {
                    let mut now = 0.0;
                    let step = |_| {
                        now += PERIOD + generator.below(1000) as f64 / 1000.0 * work_varies + late(generator);
                        now
                    };
                    (0..n).map(step).collect::<Vec<f64>>()
                };
                let count = said(n, walk);
                assert!(count >= at_least, "{n} releases: {count}");
            }
        }
    }

    /// A clock that ticks every millisecond brings each release of a grid of 16.667 ms late by what is left to the next tick.
    #[test]
    fn lateness_that_lasts_is_no_drift() {
        let ticks = |generator: &mut Pcg| {
            let release = |k: usize| (k as f64 * 16_667e3 / 1e6).ceil() * 1e6;
            (0..400).map(|k| release(k) + late(generator) / 10.0).collect::<Vec<f64>>()
        };
        assert_eq!(said(400, ticks), 0);
        // Half of what one is late the next is late, too, as beside a busy program.
        let lasting = |generator: &mut Pcg| {
            let mut behind = 0.0;
            let release = |k: usize| {
                behind = behind * 0.5 + late(generator);
                k as f64 * PERIOD + behind
            };
            (0..400).map(release).collect::<Vec<f64>>()
        };
        assert_eq!(said(400, lasting), 0);
        assert!(!drifts(&[]) && !drifts(&[(0.0, 0.0), (1.0, 5.0), (2.0, 10.0)]));
    }
}
