//! [`WorkFit`]: how much CPU time jobs need, as measured, with its sampling error.

use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::modes::ModeFit;
use surety_stats::Moments;
use surety_stats::goodness::Independence;
use surety_stats::intervals::quantile_upper_rank;
use surety_stats::special::normal_quantile;
use surety_units::Nanos;

use crate::family::{FamilyFit, choose};

/// The work of a thread's jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkFit {
    /// The thread's own CPU time.
    pub net: Series,
    /// With the interrupts that ran on top: what a budget has to pay for.
    pub gross: Series,
    /// Jobs of unknown work, known to be above the rest ([`crate::separation`]).
    pub beyond: u64,
    /// Whether the thread wakes between its jobs, to what is left of a budget; what it uses then is in the work.
    pub wakes_between: bool,
    /// Whether neighbouring jobs are independent; `None` when the work does not vary.
    pub independence: Option<Independence>,
    /// The modes that the gross work comes in, where it is not independent and modes were found.
    pub modes: Option<ModeFit>,
}

/// One measured quantity of every job.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Every value with its count.
    pub samples: Empirical,
    pub n: u64,
    /// Mean in ns.
    pub mean: f64,
    /// Standard deviation in ns.
    pub std_dev: f64,
    /// Two-sided 95 % confidence interval of the mean, in ns.
    pub mean_interval: (f64, f64),
    /// The parametric family that fits, if one does.
    pub family: Option<FamilyFit>,
}

impl Series {
    /// The series of these values.
    ///
    /// # Panics
    /// Without values, or with a negative one.
    pub fn new(values: &[Nanos]) -> Series {
        let moments: Moments = values.iter().map(|v| v.get() as f64).collect();
        let n = values.len() as u64;
        let mean = moments.mean().expect("a series has values");
        let std_dev = moments.std_dev().unwrap_or(0.0);
        let half = normal_quantile(0.975) * std_dev / (n as f64).sqrt();
        let pairs = values.iter().map(|v| (*v, 1)).collect();
        let samples = Empirical::new(pairs).expect("there are values, each counted once, none negative");
        Series {
            family: choose(values),
            samples,
            n,
            mean,
            std_dev,
            mean_interval: (mean - half, mean + half),
        }
    }

    /// The family that fits, else the values themselves.
    pub fn distribution(&self) -> TimeDistribution {
        match &self.family {
            Some(family) => family.distribution(),
            None => TimeDistribution::Empirical(self.samples.clone()),
        }
    }

    /// The largest value.
    pub fn maximum(&self) -> Nanos {
        self.samples.quantile(1.0)
    }

    /// A value that with this confidence is not below the `q` quantile, whatever the distribution: the sample
    /// of rank h, smallest h with `P{Binomial(n, q) >= h} <= 1 - confidence`. `beyond` jobs count above all
    /// samples. `None`: too few samples, or the rank lies among those beyond.
    pub fn quantile_upper(&self, q: f64, confidence: f64, beyond: u64) -> Option<Nanos> {
        let rank = quantile_upper_rank(self.n + beyond, q, confidence).filter(|rank| *rank <= self.n)?;
        let mut below = 0;
        self.samples.pairs().find_map(|(value, count)| {
            below += count;
            (below >= rank).then_some(value)
        })
    }

    /// The distribution in one sentence.
    pub fn describe(&self) -> String {
        let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
        let (low, high) = self.mean_interval;
        let shape = match &self.family {
            Some(family) => format!("{} (p = {:.2})", family.family.word(), family.p_value),
            None => "no known family, kept as measured".to_owned(),
        };
        format!(
            "work of {} jobs: mean {} ({} to {} with 95 % confidence), deviation {}, largest {}: {shape}",
            self.n,
            ms(self.mean),
            ms(low),
            ms(high),
            ms(self.std_dev),
            self.maximum()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_bounds_follow_the_ranks() {
        let values: Vec<Nanos> = (1..=1000).map(Nanos::from_micros).collect();
        let series = Series::new(&values);
        // P{Bin(1000, 0.99) >= 996} is 2.9 %, of 995 6.6 %: the 996th sample, shifted by those beyond.
        assert_eq!(series.quantile_upper(0.99, 0.95, 0), Some(Nanos::from_micros(996)));
        assert_eq!(series.quantile_upper(0.99, 0.95, 4), Some(Nanos::from_micros(1000)));
        assert_eq!(series.quantile_upper(0.99, 0.95, 6), None);
        assert_eq!(series.quantile_upper(0.999, 0.95, 0), None, "2995 samples are needed");
        assert_eq!(series.maximum(), Nanos::from_millis(1));
        assert!((series.mean - 500_500.0).abs() < 1e-6);
    }
}
