//! [`Claim`]: what a plan says of one promise, in numbers, so that somebody else can redo it.
//!
//! A proof is written for people; a claim holds the same numbers for a machine: which work was reckoned with, what a budget is
//! worth, which fraction is proven. `surety plan --check` starts from nothing else.

use serde::{Deserialize, Serialize};
use surety_units::{Bandwidth, Nanos};
use thiserror::Error;

use crate::distribution::{Empirical, TimeDistribution};
use crate::promise::Promise;

/// Masses are read back as counts of this many parts.
const PARTS: f64 = 1e12;
/// The sum of masses may differ from 1 by this.
const TOTAL_ERROR: f64 = 1e-6;

/// What a plan says of one promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Whose.
    pub activity: String,
    pub promise: Promise,
    /// Threads with this reservation each.
    pub threads: u32,
    /// Whether they may sleep inside a budget and wake to what is left of it.
    #[serde(default = "unknown_is_yes")]
    pub wakes_inside: bool,
    /// The numbers.
    pub about: Subject,
}

/// Of a thread of which nothing is known: it may.
fn unknown_is_yes() -> bool {
    true
}

/// What is claimed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A fraction of jobs in time.
    Response(ResponseClaim),
    /// A share of one CPU.
    Share {
        share: Bandwidth,
        /// In every window of this length; none: in the long run.
        over: Option<Nanos>,
    },
    /// Requests of a device.
    Requests(RequestClaim),
}

/// A fraction of jobs in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseClaim {
    /// The work reckoned with.
    pub work: ClaimedWork,
    /// It was measured: the fraction holds with the confidence of the plan, and no largest work is relied on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub measured: bool,
    /// The modes it comes in, where it was not taken to be independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<ClaimedModes>,
    /// Releases are at least this far apart.
    pub gap: Nanos,
    /// A release comes up to this much late.
    pub jitter: Nanos,
    /// Releases stand on a grid.
    pub grid: bool,
    /// A late job costs the releases it runs over; else they queue.
    pub skips: bool,
    /// R.
    pub limit: Nanos,
    /// p.
    pub promised: f64,
    /// Lower bound of the fraction.
    pub proven: f64,
    /// What a budget pays beside work.
    pub beside: Nanos,
    /// What it pays in proportion to work, in thousandths.
    pub permille: u32,
    /// What is left of it for work.
    pub worth: Nanos,
    /// Who found the backlog; none where there never is one.
    pub solver: Option<String>,
}

/// Requests of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestClaim {
    /// How interrupts come.
    pub arrivals: ClaimedArrivals,
    /// CPU time of a request.
    pub work: ClaimedWork,
    /// CPU time of the hard handler.
    pub hard: Nanos,
    /// Requests the device holds; none: any number.
    pub buffer: Option<u64>,
    /// What is left of a budget for requests.
    pub worth: Nanos,
    /// Requests a second that get through; none where none is lost is what is claimed.
    pub rate: Option<f64>,
}

/// How interrupts come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimedArrivals {
    /// This far apart, or farther.
    Apart(Nanos),
    /// Independent, this many a second on average.
    Independent(f64),
    /// In flight, each this long in the device.
    Closed(u32, Nanos),
}

/// Work in modes that follow each other as a Markov chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimedModes {
    /// Work in each mode.
    pub work: Vec<ClaimedWork>,
    /// Rows of probabilities: from a mode to each mode.
    pub transitions: Vec<Vec<f64>>,
}

/// A distribution in a plan file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimedWork {
    /// Always the same.
    Constant(Nanos),
    /// Every time between two alike.
    Uniform(Nanos, Nanos),
    /// Mean and standard deviation, cut at zero.
    Normal(Nanos, Nanos),
    /// Mean and 0.99 quantile.
    LogNormal(Nanos, Nanos),
    /// Mean.
    Exponential(Nanos),
    /// Values with their probabilities.
    Masses(Vec<(Nanos, f64)>),
    /// Every job, in the order they come, over and over.
    Sequence(Vec<Nanos>),
}

/// Why numbers are no distribution.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ClaimedWorkError {
    /// A mass that is no probability.
    #[error("mass {index} of its work is {mass}: a probability is finite and above 0")]
    Mass {
        /// Its place, from 0.
        index: usize,
        /// As given.
        mass: f64,
    },
    /// The masses are not a whole distribution.
    #[error("the masses of its work sum to {0}, not to 1")]
    Total(f64),
    /// Parameters no distribution has.
    #[error("its work cannot be: {0}")]
    Parameters(#[from] crate::distribution::DistributionError),
}

impl ClaimedWork {
    /// A distribution as it is written down.
    pub fn of(work: &TimeDistribution) -> ClaimedWork {
        match work {
            TimeDistribution::Constant(value) => ClaimedWork::Constant(*value),
            TimeDistribution::Uniform { low, high } => ClaimedWork::Uniform(*low, *high),
            TimeDistribution::Normal { mean, std_dev } => ClaimedWork::Normal(*mean, *std_dev),
            TimeDistribution::LogNormal { mean, p99 } => ClaimedWork::LogNormal(*mean, *p99),
            TimeDistribution::Exponential { mean } => ClaimedWork::Exponential(*mean),
            TimeDistribution::Empirical(empirical) => {
                if let Some(jobs) = empirical.sequence() {
                    return ClaimedWork::Sequence(jobs);
                }
                let total = empirical.total() as f64;
                ClaimedWork::Masses(empirical.pairs().map(|(v, count)| (v, count as f64 / total)).collect())
            }
        }
    }

    /// The distribution again.
    pub fn distribution(&self) -> Result<TimeDistribution, ClaimedWorkError> {
        let work = match self {
            ClaimedWork::Constant(value) => TimeDistribution::Constant(*value),
            ClaimedWork::Uniform(low, high) => TimeDistribution::Uniform { low: *low, high: *high },
            ClaimedWork::Normal(mean, std_dev) => TimeDistribution::Normal { mean: *mean, std_dev: *std_dev },
            ClaimedWork::LogNormal(mean, p99) => TimeDistribution::LogNormal { mean: *mean, p99: *p99 },
            ClaimedWork::Exponential(mean) => TimeDistribution::Exponential { mean: *mean },
            ClaimedWork::Sequence(jobs) => TimeDistribution::Empirical(Empirical::in_order(jobs)?),
            ClaimedWork::Masses(masses) => {
                let wrong = masses.iter().position(|(_, mass)| !(mass.is_finite() && *mass > 0.0));
                if let Some(index) = wrong {
                    return Err(ClaimedWorkError::Mass { index, mass: masses[index].1 });
                }
                let total = masses.iter().fold(0.0, |sum, (_, mass)| sum + mass);
                if (total - 1.0).abs() > TOTAL_ERROR {
                    return Err(ClaimedWorkError::Total(total));
                }
                let count = |mass: f64| ((mass * PARTS).round() as u64).max(1);
                let pairs = masses.iter().map(|(value, mass)| (*value, count(*mass))).collect();
                TimeDistribution::Empirical(Empirical::new(pairs)?)
            }
        };
        work.check()?;
        Ok(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_survive_and_nonsense_is_named() {
        let ms = Nanos::from_millis;
        let empirical = Empirical::new(vec![(ms(3), 1), (ms(5), 2)]).unwrap();
        for work in [
            TimeDistribution::Constant(ms(3)),
            TimeDistribution::Uniform { low: ms(1), high: ms(3) },
            TimeDistribution::Normal { mean: ms(3), std_dev: ms(1) },
            TimeDistribution::LogNormal { mean: ms(14), p99: ms(22) },
            TimeDistribution::Exponential { mean: ms(3) },
            TimeDistribution::Empirical(empirical),
            TimeDistribution::Empirical(Empirical::in_order(&[ms(4), ms(2), ms(4)]).unwrap()),
        ] {
            let back = ClaimedWork::of(&work).distribution().unwrap();
            assert_eq!(work.draw(1, "a", 4), back.draw(1, "a", 4), "an order is kept");
            for q in [0.1, 0.33, 0.5, 0.9, 1.0 - 1e-9] {
                assert_eq!(work.quantile(q), back.quantile(q), "{work:?} {q}");
            }
        }
        for (work, word) in [
            (ClaimedWork::Masses(vec![(ms(1), 0.5), (ms(2), 0.4)]), "sum to 0.9,"),
            (ClaimedWork::Masses(vec![(ms(1), 1.5), (ms(2), -0.5)]), "mass 1 of its work is -0.5"),
            (ClaimedWork::Masses(vec![]), "sum to 0,"),
            (ClaimedWork::Uniform(ms(3), ms(1)), "3ms"),
            (ClaimedWork::LogNormal(ms(3), ms(1)), "1ms"),
        ] {
            let error = work.distribution().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
