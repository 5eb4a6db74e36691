//! [`ReleaseFit`]: the release rule behind a list of releases.
//!
//! Candidates for the period are low quantiles of the distances and halves of them; a distance conforms when
//! it lies within 15 % of a period of a whole multiple (multiples come from skipped or merged activations).
//! The largest candidate to which 90 % conform is taken, and made exact by a straight line through (index,
//! release), whose slope has the standard error `s / sqrt(sum (i - mean)^2)`. If releases leave that grid by
//! more than a tenth of the period, there is no grid: the thread is sporadic, with the smallest distance as
//! its gap.

use surety_model::workload::Release;
use surety_units::Nanos;

/// The fewest distances a rule is found from.
const DISTANCES_MIN: usize = 8;
/// A distance, with the jitter of both its ends, conforms to a period within this part of it.
const TOLERANCE: f64 = 0.15;
/// A declared interval this far from the one found is wrong.
const APART: f64 = 0.05;
/// This many distances have to conform.
const CONFORMING: f64 = 0.9;
/// A spread of residuals up to this part of the period still is a grid.
const GRID: f64 = 0.1;
/// More empty grid points than this are no grid.
const ABSENT_MAX: f64 = 0.1;
/// A spread of residuals up to this part of the period is the timer's noise, not the task's jitter.
const NOISE: f64 = 0.02;

/// A release rule with how well it fits.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseFit {
    /// The rule.
    pub release: Release,
    /// Distances it was found from.
    pub distances: usize,
    /// The slope's standard error: how far the period may be off. Zero for a sporadic rule.
    pub period_error: Nanos,
    /// Between the 1 % and the 99 % quantile of what releases deviate from the grid.
    pub spread: Nanos,
    /// Grid points without a release: skipped activations, or late ones that were not seen.
    pub absent: u64,
}

impl ReleaseFit {
    /// Whether hardly a grid point is without a release.
    pub(crate) fn is_full(&self) -> bool {
        let points = self.absent as f64 + self.distances as f64 + 1.0;
        self.absent as f64 <= ABSENT_MAX * points
    }

    /// The rule in one sentence.
    pub fn describe(&self) -> String {
        match self.release {
            Release::Periodic { period, .. } => format!(
                "periodic, {} (+- {}), releases within {} of the grid, {} grid points without a release",
                period.to_exact_string(),
                self.period_error,
                self.spread,
                self.absent
            ),
            Release::Sporadic { gap } => {
                format!("sporadic, at least {gap} apart in {} intervals", self.distances)
            }
            Release::BackToBack { .. } => "back to back".to_owned(),
            Release::Unspecified => "no release rule".to_owned(),
        }
    }

    /// A warning when the rule is not the declared interval.
    pub fn disagreement(&self, declared: Nanos) -> Option<String> {
        let found = self.release.interval()?;
        let apart = (found - declared).get().unsigned_abs() as f64 > APART * declared.get() as f64;
        let periodic = matches!(self.release, Release::Periodic { .. });
        (periodic && apart).then(|| {
            format!(
                "releases are {} apart, but {} was declared: the declaration is used; mend it if the trace is right",
                found.to_exact_string(),
                declared.to_exact_string()
            )
        })
    }
}

/// The rule behind releases in ascending order; `declared` is tried first. `None`: too few of them.
pub fn fit(releases: &[Nanos], declared: Option<Nanos>) -> Option<ReleaseFit> {
    let distances: Vec<f64> =
        releases.windows(2).map(|w| (w[1] - w[0]).get() as f64).filter(|d| *d > 0.0).collect();
    if distances.len() < DISTANCES_MIN {
        return None;
    }
    let mut sorted = distances.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |q: f64| sorted[((q * sorted.len() as f64) as usize).min(sorted.len() - 1)];
    let mut candidates: Vec<f64> =
        [0.05, 0.1, 0.25, 0.5].iter().flat_map(|q| [at(*q), at(*q) / 2.0]).collect();
    candidates.sort_unstable_by(|a, b| b.total_cmp(a));
    let declared = declared.map(|d| d.get() as f64);
    let conforming = |period: f64| {
        let near = |d: &&f64| ((*d / period).round().max(1.0) * period - **d).abs() <= TOLERANCE * period;
        distances.iter().filter(near).count() as f64 >= CONFORMING * distances.len() as f64
    };
    let sporadic = ReleaseFit {
        release: Release::Sporadic { gap: Nanos::from_f64_rounded(sorted[0]) },
        distances: distances.len(),
        period_error: Nanos::ZERO,
        spread: Nanos::from_f64_rounded(at(0.99) - at(0.01)),
        absent: 0,
    };
    let found = declared.into_iter().chain(candidates).find(|c| conforming(*c));
    Some(found.and_then(|start| grid(releases, start)).unwrap_or(sporadic))
}

/// The straight line through releases whose distances are near multiples of `period`; `None` when they leave
/// it.
fn grid(releases: &[Nanos], period: f64) -> Option<ReleaseFit> {
    let origin = releases[0].get();
    let times: Vec<f64> = releases.iter().map(|r| (r.get() - origin) as f64).collect();
    let mut index = 0.0;
    let mut points = vec![(0.0, 0.0)];
    for pair in times.windows(2) {
        index += ((pair[1] - pair[0]) / period).round().max(1.0);
        points.push((index, pair[1]));
    }
    let n = points.len() as f64;
    let mean_i = points.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_t = points.iter().map(|p| p.1).sum::<f64>() / n;
    let square: f64 = points.iter().map(|p| (p.0 - mean_i) * (p.0 - mean_i)).sum();
    let cross: f64 = points.iter().map(|p| (p.0 - mean_i) * (p.1 - mean_t)).sum();
    let slope = cross / square;
    let mut residuals: Vec<f64> = points.iter().map(|p| p.1 - mean_t - slope * (p.0 - mean_i)).collect();
    let variance = residuals.iter().map(|r| r * r).sum::<f64>() / (n - 2.0).max(1.0);
    let error = (variance / square).sqrt();
    residuals.sort_unstable_by(f64::total_cmp);
    let at = |q: f64| residuals[((q * n) as usize).min(residuals.len() - 1)];
    let spread = at(0.99) - at(0.01);
    if spread > GRID * slope {
        return None;
    }
    let jitter = if spread > NOISE * slope { spread } else { 0.0 };
    let release = Release::Periodic {
        period: rounded(slope, error),
        start: Nanos::ZERO,
        jitter: Nanos::from_f64_rounded(jitter),
    };
    Some(ReleaseFit {
        release,
        distances: releases.len() - 1,
        period_error: Nanos::from_f64_rounded(error),
        spread: Nanos::from_f64_rounded(spread),
        absent: (index as u64 + 1).saturating_sub(releases.len() as u64),
    })
}

/// The roundest time that the measured slope cannot be told from: within three standard errors, or 50 parts
/// per million, which is what two clocks of a machine may differ by.
pub(crate) fn rounded(slope: f64, error: f64) -> Nanos {
    let margin = (3.0 * error).max(50e-6 * slope);
    let round_units = [10e6, 1e6, 100e3, 10e3, 1e3];
    let candidate =
        round_units.iter().map(|unit| (slope / unit).round() * unit).find(|t| (t - slope).abs() <= margin);
    Nanos::from_f64_rounded(candidate.filter(|t| *t > 0.0).unwrap_or(slope))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_stats::random::Pcg;

    fn releases(period_us: f64, noise_us: u64, skip: u64, n: u64) -> Vec<Nanos> {
        let mut generator = Pcg::new(1, 2);
        let mut list: Vec<Nanos> = (0..n)
            .filter(|k| skip == 0 || k % skip != skip - 1)
            .map(|k| {
                Nanos::from_f64_rounded(
                    k as f64 * period_us * 1e3 + generator.below(noise_us * 1000 + 1) as f64,
                )
            })
            .collect();
        list.sort_unstable();
        list
    }

    #[test]
    fn periods_are_found_through_noise_and_gaps() {
        for (period_us, noise, skip, expected_us, absent) in [
            (40_000.0, 60, 0, 40_000, 0),
            (16_666.667, 60, 0, 16_667, 0),
            (5_000.0, 100, 7, 5_000, 71),
            (1_000.0, 2, 2, 2_000, 0),
        ] {
            let found = fit(&releases(period_us, noise, skip, 500), None).unwrap();
            let Release::Periodic { period, .. } = found.release else { panic!("{found:?}") };
            let off = (period - Nanos::from_micros(expected_us)).get().abs();
            assert!(off <= 1_000, "{period_us}: {period}");
            assert_eq!(found.absent, absent, "{period_us}");
        }
    }

    #[test]
    fn jitter_is_told_from_noise_and_no_grid_is_sporadic() {
        let jittered = fit(&releases(10_000.0, 900, 0, 500), None).unwrap();
        let Release::Periodic { jitter, .. } = jittered.release else { panic!("{jittered:?}") };
        assert!(jitter > Nanos::from_micros(700), "{jitter}");
        let mut generator = Pcg::new(8, 8);
        let mut now = Nanos::ZERO;
        let random: Vec<Nanos> = (0..300)
            .map(|_| {
                now += Nanos::from_millis(5) + Nanos::new(generator.below(30_000_000) as i64);
                now
            })
            .collect();
        let found = fit(&random, None).unwrap();
        let Release::Sporadic { gap } = found.release else { panic!("{found:?}") };
        assert!(gap >= Nanos::from_millis(5) && gap < Nanos::from_millis(6));
        assert!(fit(&random[..5], None).is_none());
    }
}
