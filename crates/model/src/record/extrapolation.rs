//! [`NextLargest`]: the largest value that is still to come, extrapolated from values in their order, or why it cannot be.
//!
//! The values' largest in the next hour is a random number. Its median is told: with `m` peaks expected in that time it is
//! the level that one peak in `m / ln 2` exceeds, by the tail that is fitted to the peaks
//! ([`surety_stats::extreme::peaks_over_threshold`]). A tail is a model: what is told is no bound.

use std::fmt;

use serde::{Deserialize, Serialize};
use surety_stats::assumption::{Assumption, Outcome};
use surety_stats::extreme::{Refusal, peaks_over_threshold};
use surety_units::Nanos;

/// How far ahead is looked.
pub const HORIZON: Nanos = Nanos::from_secs(3600);

/// Of the checks, and of the interval.
const CONFIDENCE: f64 = 0.95;
/// An interval whose upper end is more than this many times the lower tells nothing.
const WIDEST: i64 = 100;

/// The largest value of the time to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextLargest {
    /// The time to come.
    pub horizon_ns: Nanos,
    /// The number of values that it is extrapolated from.
    pub values: u64,
    /// How many peaks the tail is fitted to; `None` where there is none.
    pub peaks: Option<u64>,
    /// What the largest is as likely above as below; `None` where that cannot be told.
    pub median_ns: Option<Nanos>,
    /// The ends of its interval at 95 %, where it is too wide, too; `None`: none, or none below the horizon.
    pub low_ns: Option<Nanos>,
    /// The upper end of the interval.
    pub high_ns: Option<Nanos>,
    /// Why it cannot be told.
    pub because: Option<String>,
}

impl NextLargest {
    /// Nothing can be told of it.
    pub fn untold(values: u64, because: impl Into<String>) -> NextLargest {
        NextLargest {
            horizon_ns: HORIZON,
            values,
            peaks: None,
            median_ns: None,
            low_ns: None,
            high_ns: None,
            because: Some(because.into()),
        }
    }

    /// Of values in nanoseconds in the order they were taken, one each `period`.
    ///
    /// Takes up to some seconds. The seed is for the goodness of fit.
    pub fn of(values: &[u64], period: Nanos, seed: u64) -> NextLargest {
        let count = values.len() as u64;
        let numbers: Vec<f64> = values.iter().map(|ns| *ns as f64).collect();
        let tail = match peaks_over_threshold(&numbers, CONFIDENCE, seed) {
            Ok(tail) => tail,
            Err(refusal) => return NextLargest::untold(count, in_words(&refusal)),
        };
        let to_come = HORIZON.get() as f64 / period.get().max(1) as f64;
        let peaks = to_come * tail.clusters as f64 / tail.samples.max(1) as f64;
        let ratio = peaks / std::f64::consts::LN_2;
        if ratio <= 1.0 {
            return NextLargest::untold(count, "fewer than one peak is expected in an hour");
        }
        let level = tail.fit.level(ratio, CONFIDENCE);
        let time = |ns: f64| {
            let is_time = ns.is_finite() && ns < HORIZON.get() as f64;
            is_time.then(|| Nanos::from_f64_rounded(ns.max(0.0)))
        };
        let (low, high) = (level.low.and_then(time), level.high.and_then(time));
        let because = match (low, high) {
            (Some(low), Some(high)) if low.checked_mul(WIDEST).is_none_or(|widest| high <= widest) => None,
            (Some(low), Some(high)) => Some(format!("the values leave it anywhere from {low} to {high}")),
            _ => Some("the fitted tail gives no finite confidence interval".to_owned()),
        };
        NextLargest {
            peaks: Some(tail.clusters),
            median_ns: time(level.estimate).filter(|_| because.is_none()),
            low_ns: low,
            high_ns: high,
            because,
            ..NextLargest::untold(count, "")
        }
    }
}

/// Why there is no extrapolation, in plain words.
fn in_words(refusal: &Refusal) -> String {
    let finding = &refusal.finding;
    let what = match (finding.outcome, finding.assumption) {
        (Outcome::TooFew { .. }, _) => "too few values",
        (_, Assumption::Stationarity) => "the run is not stationary",
        (_, Assumption::Independence) => "its peaks depend on each other",
        (_, Assumption::Fit) => "no tail fits its peaks",
    };
    format!("{what} ({})", finding.reason)
}

impl fmt::Display for NextLargest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(median) = self.median_ns else {
            let because = self.because.as_deref().unwrap_or("nothing is known of it");
            return write!(f, "the maximum of the next hour cannot be told: {because}");
        };
        let end = |end: Option<Nanos>| end.map_or("unknown".to_owned(), |end| end.to_string());
        write!(
            f,
            "median of the maximum of the next hour: {median} (95 %: {} to {}), extrapolated from {} values; not a bound",
            end(self.low_ns),
            end(self.high_ns),
            self.values
        )
    }
}

#[cfg(test)]
mod tests {
    use surety_stats::Pcg;

    use super::*;

    const PERIOD: Nanos = Nanos::from_millis(1);

    /// Exponential latencies of 20 us and 10 us more on average.
    fn exponential(count: usize, run: u64) -> Vec<u64> {
        let mut pcg = Pcg::for_job(21, 7, run);
        (0..count).map(|_| 20_000 + (-libm::log(pcg.unit_open()) * 10_000.0) as u64).collect()
    }

    /// The largest of n exponential values has its median at ln(n / ln 2) means: 20 us + 154.6 us for an hour of 1 ms.
    #[test]
    fn the_largest_of_an_hour_of_exponential_values_is_found() {
        let truth = 20_000.0 + 10_000.0 * libm::log(3_600_000.0 / std::f64::consts::LN_2);
        let found: Vec<NextLargest> =
            (0..6).map(|run| NextLargest::of(&exponential(4_000, run), PERIOD, 1)).collect();
        let told: Vec<&NextLargest> = found.iter().filter(|next| next.median_ns.is_some()).collect();
        assert!(told.len() >= 4, "{found:?}");
        let covers = |next: &&&NextLargest| {
            let end = |end: Option<Nanos>, none: f64| end.map_or(none, |ns| ns.get() as f64);
            end(next.low_ns, 0.0) <= truth && truth <= end(next.high_ns, f64::INFINITY)
        };
        assert!(told.iter().filter(covers).count() + 1 >= told.len(), "{truth} {told:?}");
        let text = told[0].to_string();
        assert!(text.starts_with("median of the maximum of the next hour: "), "{text}");
        assert!(text.contains("extrapolated from 4000 values; not a bound"), "{text}");
    }

    #[test]
    fn what_cannot_be_told_has_its_reason() {
        let why = |values: &[u64]| NextLargest::of(values, PERIOD, 1).to_string();
        let few = why(&exponential(100, 1));
        assert_eq!(
            few,
            "the maximum of the next hour cannot be told: too few values (100 usable samples, the check takes at \
             least 500)"
        );
        let drifting: Vec<u64> =
            exponential(2_000, 2).iter().zip(0..).map(|(ns, index): (&u64, u64)| ns + index * 50).collect();
        assert!(why(&drifting).contains("the run is not stationary ("), "{}", why(&drifting));
        let lumps: Vec<u64> = exponential(4_000, 3)
            .into_iter()
            .map(|ns| if ns > 55_000 { 110_000 + (ns - 55_000).min(10_000) } else { ns })
            .collect();
        assert!(why(&lumps).contains("no tail fits its peaks ("), "{}", why(&lumps));
        // A tail with an infinite variance, in few values: an end is known to orders of magnitude only.
        let heavy: Vec<u64> = exponential(600, 4)
            .into_iter()
            .map(|ns| 20_000 + libm::exp((ns - 20_000) as f64 / 10_000.0 * 0.8) as u64 * 10_000)
            .collect();
        assert!(why(&heavy).contains("the maximum of the next hour cannot be told"), "{}", why(&heavy));
        assert!(why(&[30_000; 2_000]).starts_with("the maximum of the next hour cannot be told"));
    }
}
