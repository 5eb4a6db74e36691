//! Distributions of times: what a job needs, how far apart releases are. Drawn the same in every world.
//!
//! Job `k` of a task draws from a generator of its own, seeded by (seed, task name, k), so that a measured run and
//! a simulated one see the same work, whatever order jobs finish in. Only integer arithmetic and the pure-Rust
//! `libm` take part: the same bits on every machine.

use surety_stats::random::{Pcg, stream_of};
use surety_stats::special::normal_quantile;
use surety_units::Nanos;
use thiserror::Error;

/// The 0.99 quantile of the standard normal distribution.
const Z99: f64 = 2.326_347_874_040_841;

/// A distribution of times, none of them negative.
#[derive(Clone, Debug, PartialEq)]
pub enum TimeDistribution {
    /// Always the same.
    Constant(Nanos),
    /// Every time between two limits alike.
    Uniform {
        /// Lower limit.
        low: Nanos,
        /// Upper limit.
        high: Nanos,
    },
    /// Normal, cut at zero.
    Normal {
        /// Mean before the cut.
        mean: Nanos,
        /// Standard deviation before the cut.
        std_dev: Nanos,
    },
    /// Log-normal, given by what people know of it.
    LogNormal {
        mean: Nanos,
        /// 0.99 quantile, above the mean.
        p99: Nanos,
    },
    Exponential {
        mean: Nanos,
    },
    /// As measured: values with how often each was seen.
    Empirical(Empirical),
}

/// Values in ascending order, each with its count; what [`TimeDistribution::Empirical`] draws from.
///
/// Where the order in which they were measured is kept, job k needs the k-th of them, and after the last the first again: so a
/// recorded run is played again in every world. Analyses of independent work see the distribution alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Empirical {
    values: Vec<Nanos>,
    cumulative: Vec<u64>,
    /// Places in `values`, in the order measured; empty where that is not kept.
    order: Vec<u32>,
    /// Whether the values are samples of jobs, and not declared.
    measured: bool,
}

/// Why parameters make no distribution.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DistributionError {
    /// A negative time.
    #[error("{what} is negative: a time of work cannot be below zero")]
    Negative {
        /// Which parameter.
        what: &'static str,
    },
    /// Limits the wrong way round.
    #[error("low {} is above high {}", .low.to_exact_string(), .high.to_exact_string())]
    Reversed {
        /// Lower limit.
        low: Nanos,
        /// Upper limit.
        high: Nanos,
    },
    /// No log-normal distribution has such a 0.99 quantile.
    #[error(
        "no log-normal distribution has mean {} and 99 % quantile {}: the quantile lies between 1 and 14.96 means",
        .mean.to_exact_string(), .p99.to_exact_string()
    )]
    NoLogNormal {
        mean: Nanos,
        /// The impossible quantile.
        p99: Nanos,
    },
    /// Nothing measured.
    #[error(
        "an empirical distribution needs at least one value, and as many counts as values, none of them 0"
    )]
    Empty,
}

impl Empirical {
    /// From (value, count) pairs in any order; equal values are added up.
    pub fn new(mut pairs: Vec<(Nanos, u64)>) -> Result<Empirical, DistributionError> {
        if pairs.is_empty() || pairs.iter().any(|(_, count)| *count == 0) {
            return Err(DistributionError::Empty);
        }
        if pairs.iter().any(|(value, _)| value.is_negative()) {
            return Err(DistributionError::Negative { what: "an empirical value" });
        }
        pairs.sort_unstable();
        let (mut values, mut cumulative): (Vec<Nanos>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut total = 0u64;
        for (value, count) in pairs {
            total = total.checked_add(count).ok_or(DistributionError::Empty)?;
            if values.last() == Some(&value) {
                *cumulative.last_mut().expect("as long as values") = total;
            } else {
                values.push(value);
                cumulative.push(total);
            }
        }
        Ok(Empirical { values, cumulative, order: Vec::new(), measured: false })
    }

    /// Values in the order they were measured, which is kept.
    pub fn in_order(sequence: &[Nanos]) -> Result<Empirical, DistributionError> {
        let mut empirical = Empirical::new(sequence.iter().map(|value| (*value, 1)).collect())?;
        let place = |value: &Nanos| empirical.values.partition_point(|v| v < value);
        let order: Result<Vec<u32>, _> = sequence.iter().map(|value| u32::try_from(place(value))).collect();
        empirical.order = order.map_err(|_| DistributionError::Empty)?;
        Ok(empirical)
    }

    /// The values in the order they were measured; `None` where that is not kept.
    pub fn sequence(&self) -> Option<Vec<Nanos>> {
        (!self.order.is_empty())
            .then(|| self.order.iter().map(|place| self.values[*place as usize]).collect())
    }

    /// The same, as samples of jobs.
    pub fn measured(self) -> Empirical {
        Empirical { measured: true, ..self }
    }

    /// Whether the values are samples of jobs: then a bound is one at a confidence, from their number, and the largest bounds no other job.
    pub fn is_measured(&self) -> bool {
        self.measured
    }

    /// Whether it declares what every job needs: values in their order that were not measured.
    pub fn declares_every_job(&self) -> bool {
        !self.order.is_empty() && !self.measured
    }

    /// What job `job` needs, where the order is kept.
    fn of_job(&self, job: u64) -> Option<Nanos> {
        let n = self.order.len() as u64;
        (n > 0).then(|| self.values[self.order[(job % n) as usize] as usize])
    }

    /// The pairs, in ascending order of value.
    pub fn pairs(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.values.iter().enumerate().map(|(i, v)| {
            let before = if i == 0 { 0 } else { self.cumulative[i - 1] };
            (*v, self.cumulative[i] - before)
        })
    }

    /// How many were measured.
    pub fn total(&self) -> u64 {
        *self.cumulative.last().expect("not empty by construction")
    }

    /// The value of rank `ceil(q n)`.
    pub fn quantile(&self, q: f64) -> Nanos {
        let n = self.total();
        let rank = (libm::ceil(q * n as f64) as u64).clamp(1, n);
        self.values[self.cumulative.partition_point(|c| *c < rank)]
    }
}

/// `ln` mean and `ln` standard deviation of the log-normal with this mean and 0.99 quantile.
///
/// From `mean = exp(mu + s^2/2)` and `p99 = exp(mu + z s)`: `s = z - sqrt(z^2 - 2 ln(p99/mean))`, the smaller
/// root, which exists for `1 <= p99/mean <= exp(z^2/2)`.
pub fn log_normal_parameters(mean: Nanos, p99: Nanos) -> Option<(f64, f64)> {
    if !mean.is_positive() || p99 < mean {
        return None;
    }
    let ratio = libm::log(p99.get() as f64 / mean.get() as f64);
    let discriminant = Z99 * Z99 - 2.0 * ratio;
    if discriminant < 0.0 {
        return None;
    }
    let sigma = Z99 - discriminant.sqrt();
    Some((libm::log(mean.get() as f64) - sigma * sigma / 2.0, sigma))
}

impl TimeDistribution {
    /// Says why the parameters make no distribution.
    pub fn check(&self) -> Result<(), DistributionError> {
        let not_negative = |what, time: Nanos| {
            if time.is_negative() { Err(DistributionError::Negative { what }) } else { Ok(()) }
        };
        match self {
            TimeDistribution::Constant(value) => not_negative("the value", *value),
            TimeDistribution::Uniform { low, high } => {
                not_negative("low", *low)?;
                if low > high {
                    return Err(DistributionError::Reversed { low: *low, high: *high });
                }
                Ok(())
            }
            TimeDistribution::Normal { mean, std_dev } => {
                not_negative("mean", *mean)?;
                not_negative("std_dev", *std_dev)
            }
            TimeDistribution::LogNormal { mean, p99 } => match log_normal_parameters(*mean, *p99) {
                Some(_) => Ok(()),
                None => Err(DistributionError::NoLogNormal { mean: *mean, p99: *p99 }),
            },
            TimeDistribution::Exponential { mean } => not_negative("mean", *mean),
            TimeDistribution::Empirical(_) => Ok(()),
        }
    }

    /// The mean, in ns. Of a normal: before the cut at zero.
    pub fn mean_ns(&self) -> f64 {
        match self {
            TimeDistribution::Constant(value) => value.get() as f64,
            TimeDistribution::Uniform { low, high } => (low.get() as f64 + high.get() as f64) / 2.0,
            TimeDistribution::Normal { mean, .. }
            | TimeDistribution::LogNormal { mean, .. }
            | TimeDistribution::Exponential { mean } => mean.get() as f64,
            TimeDistribution::Empirical(empirical) => {
                let sum: f64 = empirical.pairs().map(|(v, c)| v.get() as f64 * c as f64).sum();
                sum / empirical.total() as f64
            }
        }
    }

    /// The `q` quantile, for `0 < q < 1`.
    pub fn quantile(&self, q: f64) -> Nanos {
        let value = match self {
            TimeDistribution::Constant(value) => return *value,
            TimeDistribution::Uniform { low, high } => {
                low.get() as f64 + q * (high.get() as f64 - low.get() as f64)
            }
            TimeDistribution::Normal { mean, std_dev } => {
                mean.get() as f64 + normal_quantile(q) * std_dev.get() as f64
            }
            TimeDistribution::LogNormal { mean, p99 } => {
                let (mu, sigma) = log_normal_parameters(*mean, *p99).unwrap_or((0.0, 0.0));
                libm::exp(mu + sigma * normal_quantile(q))
            }
            TimeDistribution::Exponential { mean } => -libm::log1p(-q) * mean.get() as f64,
            TimeDistribution::Empirical(empirical) => return empirical.quantile(q),
        };
        // A log-normal reaches any length; no run is longer than this.
        Nanos::from_f64_rounded(value.max(0.0)).min(Nanos::ASKED_MAX)
    }

    /// What job `job` of the activity `name` draws under `seed`: by inversion, one uniform number a job; of values kept in
    /// order the one of that job.
    pub fn draw(&self, seed: u64, name: &str, job: u64) -> Nanos {
        self.draw_of_job(seed, stream_of(name), job)
    }

    /// The same for the stream of a name.
    pub fn draw_of_job(&self, seed: u64, stream: u64, job: u64) -> Nanos {
        match self {
            TimeDistribution::Empirical(empirical) => empirical.of_job(job),
            _ => None,
        }
        .unwrap_or_else(|| self.draw_from(&mut Pcg::for_job(seed, stream, job)))
    }

    /// One draw from a generator.
    pub fn draw_from(&self, generator: &mut Pcg) -> Nanos {
        match self {
            TimeDistribution::Constant(value) => *value,
            _ => self.quantile(generator.unit_open()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_normal_has_the_mean_and_quantile_asked_for() {
        let work = TimeDistribution::LogNormal { mean: Nanos::from_millis(14), p99: Nanos::from_millis(22) };
        let p99 = work.quantile(0.99).as_millis_f64();
        assert!((p99 - 22.0).abs() < 1e-6, "{p99}");
        let n = 200_000;
        let sum: f64 = (0..n).map(|k| work.draw(1, "player", k).as_millis_f64()).sum();
        // Standard error of the mean is 2.9 ms / sqrt(n) = 0.0065 ms.
        assert!((sum / n as f64 - 14.0).abs() < 0.03, "{}", sum / n as f64);
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let ms = Nanos::from_millis;
        for bad in [
            TimeDistribution::LogNormal { mean: ms(14), p99: ms(13) },
            TimeDistribution::LogNormal { mean: ms(14), p99: ms(300) },
            TimeDistribution::Uniform { low: ms(2), high: ms(1) },
            TimeDistribution::Constant(ms(-1)),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn values_kept_in_order_are_played_again() {
        let ms = Nanos::from_millis;
        let sequence = [ms(5), ms(3), ms(5), ms(9)];
        let kept = Empirical::in_order(&sequence).unwrap();
        assert_eq!(kept.sequence().unwrap(), sequence);
        assert_eq!(kept.pairs().collect::<Vec<_>>(), [(ms(3), 1), (ms(5), 2), (ms(9), 1)]);
        let work = TimeDistribution::Empirical(kept);
        let drawn: Vec<Nanos> = (0..6).map(|job| work.draw(3, "t", job)).collect();
        assert_eq!(drawn, [ms(5), ms(3), ms(5), ms(9), ms(5), ms(3)]);
        assert!(
            Empirical::in_order(&[]).is_err()
                && Empirical::new(vec![(ms(1), 1)]).unwrap().sequence().is_none()
        );
    }

    #[test]
    fn empirical_draws_what_was_measured() {
        let ms = Nanos::from_millis;
        let empirical = Empirical::new(vec![(ms(3), 1), (ms(1), 2), (ms(3), 1)]).unwrap();
        assert_eq!(empirical.pairs().collect::<Vec<_>>(), [(ms(1), 2), (ms(3), 2)]);
        let work = TimeDistribution::Empirical(empirical);
        let threes = (0..10_000).filter(|k| work.draw(7, "t", *k) == ms(3)).count();
        assert!((4_700..5_300).contains(&threes), "{threes}");
    }
}
