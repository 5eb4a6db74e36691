//! What is known of a distribution of work beyond the model's quantiles: distribution function, maximum,
//! tail.
//!
//! The tail `P{c > x}` and `E[c; c > x]` of unbounded families in closed form let an analysis cut them and
//! account for what it cut. Normal work is cut at zero, as the model draws it: that lowers the variance and
//! raises the mean.

use surety_model::distribution::{TimeDistribution, log_normal_parameters};
use surety_model::workload::{Task, TaskBody, Work};
use surety_stats::special::normal_cdf;
use surety_units::Nanos;

/// What lies above a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// `P{c > x}`.
    pub probability: f64,
    /// `E[c; c > x]` in ns.
    pub partial_mean: f64,
}

/// The largest time it can give, where there is one.
pub fn maximum(work: &TimeDistribution) -> Option<Nanos> {
    match work {
        TimeDistribution::Constant(value) => Some(*value),
        TimeDistribution::Uniform { high, .. } => Some(*high),
        TimeDistribution::Empirical(empirical) => empirical.pairs().last().map(|(value, _)| value),
        TimeDistribution::Normal { mean, std_dev } if *std_dev == Nanos::ZERO => Some(*mean),
        TimeDistribution::LogNormal { mean, p99 } if mean == p99 => Some(*mean),
        TimeDistribution::Exponential { mean } if *mean == Nanos::ZERO => Some(Nanos::ZERO),
        _ => None,
    }
}

/// The largest work that is declared; `None` of values that were seen ([`TimeDistribution::Empirical`]), whose largest bounds
/// nothing, unless every job is declared in its order and not measured.
pub fn declared_bound(work: &TimeDistribution) -> Option<Nanos> {
    match work {
        TimeDistribution::Empirical(empirical) if !empirical.declares_every_job() => None,
        _ => maximum(work),
    }
}

/// The least time it can give.
pub fn least(work: &TimeDistribution) -> Nanos {
    match work {
        TimeDistribution::Constant(value) => *value,
        TimeDistribution::Uniform { low, .. } => *low,
        TimeDistribution::Empirical(empirical) if empirical.declares_every_job() => {
            empirical.pairs().next().map_or(Nanos::ZERO, |(value, _)| value)
        }
        TimeDistribution::Normal { mean, std_dev } if *std_dev == Nanos::ZERO => *mean,
        TimeDistribution::LogNormal { mean, p99 } if mean == p99 => *mean,
        _ => Nanos::ZERO,
    }
}

/// A family's word, for sentences.
pub fn family(work: &TimeDistribution) -> &'static str {
    match work {
        TimeDistribution::Constant(_) => "constant",
        TimeDistribution::Uniform { .. } => "uniform",
        TimeDistribution::Normal { .. } => "normal",
        TimeDistribution::LogNormal { .. } => "log-normal",
        TimeDistribution::Exponential { .. } => "exponential",
        TimeDistribution::Empirical(_) => "empirical",
    }
}

/// `P{c <= x}`.
pub fn at_most(work: &TimeDistribution, x: Nanos) -> f64 {
    if x.is_negative() {
        return 0.0;
    }
    match work {
        TimeDistribution::Empirical(empirical) => {
            let below: u64 = empirical.pairs().take_while(|(v, _)| *v <= x).map(|(_, count)| count).sum();
            below as f64 / empirical.total() as f64
        }
        _ => 1.0 - tail(work, x).probability,
    }
}

/// What lies above `x`, which is not negative.
pub fn tail(work: &TimeDistribution, x: Nanos) -> Tail {
    const NONE: Tail = Tail { probability: 0.0, partial_mean: 0.0 };
    if maximum(work).is_some_and(|most| most <= x) {
        return NONE;
    }
    let at = x.get() as f64;
    match work {
        TimeDistribution::Constant(value) => Tail { probability: 1.0, partial_mean: value.get() as f64 },
        TimeDistribution::Uniform { low, high } => {
            let (low, high) = (low.get() as f64, high.get() as f64);
            let from = at.max(low);
            let probability = (high - from) / (high - low);
            Tail { probability, partial_mean: probability * (from + high) / 2.0 }
        }
        TimeDistribution::Normal { mean, std_dev } => {
            let (mean, std_dev) = (mean.get() as f64, std_dev.get() as f64);
            let z = (at - mean) / std_dev;
            let probability = normal_cdf(-z);
            let density = libm::exp(-z * z / 2.0) / (2.0 * std::f64::consts::PI).sqrt();
            Tail { probability, partial_mean: mean * probability + std_dev * density }
        }
        TimeDistribution::LogNormal { mean, p99 } => {
            let (mu, sigma) = log_normal_parameters(*mean, *p99).unwrap_or((0.0, 0.0));
            let z = (libm::log(at) - mu) / sigma;
            Tail { probability: normal_cdf(-z), partial_mean: mean.get() as f64 * normal_cdf(sigma - z) }
        }
        TimeDistribution::Exponential { mean } => {
            let mean = mean.get() as f64;
            let probability = libm::exp(-at / mean);
            Tail { probability, partial_mean: (at + mean) * probability }
        }
        TimeDistribution::Empirical(empirical) => {
            let n = empirical.total() as f64;
            empirical.pairs().filter(|(v, _)| *v > x).fold(NONE, |sum, (v, count)| Tail {
                probability: sum.probability + count as f64 / n,
                partial_mean: sum.partial_mean + v.get() as f64 * count as f64 / n,
            })
        }
    }
}

/// The mean in ns, the cut of a normal at zero included.
pub fn mean(work: &TimeDistribution) -> f64 {
    match work {
        TimeDistribution::Normal { std_dev, .. } if std_dev.is_positive() => {
            tail(work, Nanos::ZERO).partial_mean
        }
        _ => work.mean_ns(),
    }
}

/// An upper bound of the variance in ns², exact but for the cut of a normal at zero.
pub fn variance_at_most(work: &TimeDistribution) -> f64 {
    let square = |x: f64| x * x;
    match work {
        TimeDistribution::Constant(_) => 0.0,
        TimeDistribution::Uniform { low, high } => square((*high - *low).get() as f64) / 12.0,
        TimeDistribution::Normal { std_dev, .. } => square(std_dev.get() as f64),
        TimeDistribution::LogNormal { mean, p99 } => {
            let (_, sigma) = log_normal_parameters(*mean, *p99).unwrap_or((0.0, 0.0));
            square(mean.get() as f64) * libm::expm1(sigma * sigma)
        }
        TimeDistribution::Exponential { mean } => square(mean.get() as f64),
        TimeDistribution::Empirical(empirical) => {
            let mean = work.mean_ns();
            let n = empirical.total() as f64;
            empirical.pairs().map(|(v, count)| square(v.get() as f64 - mean) * count as f64 / n).sum()
        }
    }
}

/// The declared distribution of a task's work.
pub fn drawn_work(task: &Task) -> Option<&TimeDistribution> {
    match &task.body {
        TaskBody::Synthetic(Work::Drawn(work)) => Some(work),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::Empirical;
    use surety_stats::random::Pcg;

    fn families() -> Vec<TimeDistribution> {
        let ms = Nanos::from_millis;
        vec![
            TimeDistribution::Constant(ms(14)),
            TimeDistribution::Uniform { low: ms(5), high: ms(20) },
            TimeDistribution::Normal { mean: ms(14), std_dev: ms(3) },
            TimeDistribution::Normal { mean: ms(2), std_dev: ms(3) },
            TimeDistribution::LogNormal { mean: ms(14), p99: ms(22) },
            TimeDistribution::Exponential { mean: ms(6) },
            TimeDistribution::Empirical(Empirical::new(vec![(ms(3), 5), (ms(9), 4), (ms(40), 1)]).unwrap()),
        ]
    }

    #[test]
    fn tails_means_and_variances_agree_with_a_hundred_thousand_draws() {
        for work in families() {
            let mut generator = Pcg::new(7, 1);
            let n = 100_000;
            let draws: Vec<f64> = (0..n).map(|_| work.draw_from(&mut generator).as_millis_f64()).collect();
            let average = draws.iter().sum::<f64>() / n as f64;
            let spread = draws.iter().map(|d| (d - average).powi(2)).sum::<f64>() / n as f64;
            assert!((average - mean(&work) / 1e6).abs() < 0.08, "{work:?}: {average}");
            let limit = variance_at_most(&work) / 1e12;
            assert!(spread < limit * 1.05 + 1e-9, "{work:?}: {spread} {limit}");
            for at in [0i64, 4, 10, 15, 25] {
                let x = Nanos::from_millis(at);
                let above: Vec<f64> = draws.iter().copied().filter(|d| *d > at as f64).collect();
                let found = tail(&work, x);
                assert!((found.probability - above.len() as f64 / n as f64).abs() < 0.008, "{work:?} {at}");
                let partial = above.iter().sum::<f64>() / n as f64;
                assert!((found.partial_mean / 1e6 - partial).abs() < 0.12, "{work:?} {at} {partial}");
                assert!((at_most(&work, x) + found.probability - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn only_bounded_work_has_a_maximum() {
        let found: Vec<Option<i64>> =
            families().iter().map(|w| maximum(w).map(|m| m.get() / 1_000_000)).collect();
        assert_eq!(found, [Some(14), Some(20), None, None, None, None, Some(40)]);
    }
}
