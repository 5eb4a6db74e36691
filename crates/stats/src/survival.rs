//! Times some of which were cut short: Kaplan-Meier, and its quantiles.
//!
//! A start-up that hits the time-out did take longer than the time-out; leaving it out, or counting it as the
//! time-out, makes the result too good. It is *right-censored*: known to be later than its time.
//!
//! With `d` events among the `n` still at risk at each event time (Kaplan and Meier, JASA 53, 1958):
//!
//! ```text
//! S(t) = Π (1 - d/n)          var S = S² Σ d/(n (n - d))                                       (Greenwood 1926)
//! interval:  S^exp(±z σ),     σ = sqrt(Σ d/(n (n - d))) / |ln S|         (log-log; Kalbfleisch and Prentice)
//! ```
//!
//! A quantile's interval holds the times at which the interval of `S` does not exclude it (Brookmeyer and
//! Crowley, Biometrics 38, 1982, here on the log-log scale). When the curve ends too high there is no such
//! time, and the answer is `None`: unbounded. Censored times count as at risk at events of the same time.

use std::fmt;

use crate::special::normal_quantile;

/// One time, and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Observation {
    /// The time in nanoseconds.
    pub time: u64,
    /// True when it was watched no longer than this, false when it ended.
    pub censored: bool,
}

impl Observation {
    /// It ended at this time.
    pub fn ended(time: u64) -> Observation {
        Observation { time, censored: false }
    }

    /// It had not ended when it was given up at this time.
    pub fn given_up(time: u64) -> Observation {
        Observation { time, censored: true }
    }
}

/// The curve just after one event time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The event time in nanoseconds.
    pub time: u64,
    /// How many were at risk just before.
    pub at_risk: u64,
    /// How many ended at this time.
    pub events: u64,
    /// The probability of lasting longer than this time.
    pub survival: f64,
    /// Greenwood's sum `Σ d/(n (n - d))`; infinite once nothing is left.
    pub greenwood: f64,
}

impl Step {
    /// The standard error of the survival probability; zero once nothing is left.
    pub fn standard_error(&self) -> f64 {
        if self.survival > 0.0 { self.survival * self.greenwood.sqrt() } else { 0.0 }
    }

    /// The interval of the survival probability at normal deviate `z`, on the log-log scale.
    fn interval(&self, z: f64) -> (f64, f64) {
        if self.survival <= 0.0 {
            return (0.0, 0.0);
        }
        let log = libm::log(self.survival);
        let sigma = self.greenwood.sqrt() / log.abs();
        (libm::exp(log * libm::exp(z * sigma)), libm::exp(log * libm::exp(-z * sigma)))
    }
}

/// A quantile of times some of which were cut short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeQuantile {
    /// Which quantile.
    pub q: f64,
    /// The first time by which at least this fraction has ended; `None` when the curve ends before.
    pub estimate: Option<u64>,
    /// The lower end of the interval; `None`: the quantile may be later than every event.
    pub low: Option<u64>,
    /// The upper end of the interval; `None`: unbounded.
    pub high: Option<u64>,
    /// The confidence asked.
    pub confidence: f64,
}

impl fmt::Display for TimeQuantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |time: Option<u64>| time.map_or("unbounded".to_string(), |time| time.to_string());
        let percent = |fraction: f64| (fraction * 1e4 + 1e-6).floor() / 100.0;
        write!(
            f,
            "{} % end by {}, with {} % confidence between {} and {}",
            percent(self.q),
            self.estimate.map_or("no time seen (too many were given up)".to_string(), |t| t.to_string()),
            percent(self.confidence),
            text(self.low),
            text(self.high)
        )
    }
}

/// The curve of Kaplan and Meier.
#[derive(Clone, Debug, PartialEq)]
pub struct KaplanMeier {
    steps: Vec<Step>,
    count: u64,
    censored: u64,
}

impl KaplanMeier {
    /// The curve of these times, in any order.
    pub fn new(observations: &[Observation]) -> KaplanMeier {
        let mut sorted = observations.to_vec();
        sorted.sort_unstable();
        let mut at_risk = sorted.len() as u64;
        let (mut survival, mut greenwood, mut steps) = (1.0, 0.0, Vec::new());
        for same in sorted.chunk_by(|a, b| a.time == b.time) {
            let events = same.iter().filter(|o| !o.censored).count() as u64;
            if events > 0 {
                let (n, d) = (at_risk as f64, events as f64);
                survival *= (n - d) / n;
                greenwood += d / (n * (n - d));
                steps.push(Step { time: same[0].time, at_risk, events, survival, greenwood });
            }
            at_risk -= same.len() as u64;
        }
        let censored = sorted.iter().filter(|o| o.censored).count() as u64;
        KaplanMeier { steps, count: sorted.len() as u64, censored }
    }

    /// The curve at each event time, ascending.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many of them were given up.
    pub fn censored(&self) -> u64 {
        self.censored
    }

    /// The step in force at a time; `None` before the first event.
    fn step_at(&self, time: u64) -> Option<&Step> {
        self.steps.partition_point(|step| step.time <= time).checked_sub(1).map(|i| &self.steps[i])
    }

    /// The probability of lasting longer than this time.
    pub fn survival(&self, time: u64) -> f64 {
        self.step_at(time).map_or(1.0, |step| step.survival)
    }

    /// The interval of the survival probability at a time, on the log-log scale; (1, 1) before the first event.
    ///
    /// Panics unless `0 < confidence < 1`.
    pub fn survival_interval(&self, time: u64, confidence: f64) -> (f64, f64) {
        let z = deviate(confidence);
        self.step_at(time).map_or((1.0, 1.0), |step| step.interval(z))
    }

    /// The first time by which at least the fraction `q` has ended, with its interval.
    ///
    /// Panics unless `0 < confidence < 1`.
    pub fn quantile(&self, q: f64, confidence: f64) -> TimeQuantile {
        let z = deviate(confidence);
        // One part in 10^12: the curve is a product of rounded ratios.
        let enough = (1.0 - q) * (1.0 + 1e-12) + 1e-15;
        let first = |lasting: &dyn Fn(&Step) -> f64| {
            self.steps.iter().find(|step| lasting(step) <= enough).map(|step| step.time)
        };
        TimeQuantile {
            q,
            estimate: first(&|step| step.survival),
            low: first(&|step| step.interval(z).0),
            high: first(&|step| step.interval(z).1),
            confidence,
        }
    }

    /// The median with its interval.
    ///
    /// Panics unless `0 < confidence < 1`.
    pub fn median(&self, confidence: f64) -> TimeQuantile {
        self.quantile(0.5, confidence)
    }
}

fn deviate(confidence: f64) -> f64 {
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is strictly between 0 and 1, not {confidence}"
    );
    normal_quantile(0.5 + confidence / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn everything_given_up_is_unbounded() {
        let curve = KaplanMeier::new(&[Observation::given_up(10), Observation::given_up(20)]);
        let median = curve.median(0.95);
        assert_eq!((curve.survival(99), median.estimate, median.high), (1.0, None, None));
        assert_eq!(
            median.to_string(),
            "50 % end by no time seen (too many were given up), with 95 % confidence between unbounded and \
             unbounded"
        );
        assert_eq!(KaplanMeier::new(&[]).median(0.9).estimate, None);
    }

    /// A time-out at 20 ends no run, yet moves the curve.
    #[test]
    fn giving_up_is_neither_ending_nor_absent() {
        let curve = KaplanMeier::new(&[
            Observation::ended(10),
            Observation::given_up(20),
            Observation::ended(20),
            Observation::ended(30),
        ]);
        let survival: Vec<f64> = curve.steps().iter().map(|step| step.survival).collect();
        assert_eq!(survival, [0.75, 0.5, 0.0]);
        assert_eq!((curve.steps()[1].at_risk, curve.censored(), curve.count()), (3, 1, 4));
    }

    proptest! {
        /// Without censoring the curve is one minus the empirical distribution function, and its quantiles
        /// those of the rank rule.
        #[test]
        fn without_censoring_it_is_the_ecdf(times in prop::collection::vec(0..50u64, 1..80), q in 0.01..1.0f64) {
            let observations: Vec<_> = times.iter().map(|&t| Observation::ended(t)).collect();
            let curve = KaplanMeier::new(&observations);
            let sample: crate::Sample = times.iter().copied().collect();
            prop_assert_eq!(curve.quantile(q, 0.95).estimate, sample.quantile(q));
            for time in 0..51 {
                prop_assert!((curve.survival(time) - (1.0 - sample.count_at_most(time) as f64 / sample.count() as f64)).abs() < 1e-12);
            }
        }

        /// The order of the times does not matter, the intervals hold the estimate.
        #[test]
        fn order_and_names_do_not_matter(
            times in prop::collection::vec((0..40u64, any::<bool>()), 2..60),
        ) {
            let all: Vec<_> =
                times.iter().map(|&(time, censored)| Observation { time, censored }).collect();
            let mut reversed = all.clone();
            reversed.reverse();
            let curve = KaplanMeier::new(&all);
            prop_assert_eq!(&curve, &KaplanMeier::new(&reversed));
            for time in 0..41 {
                let (low, high) = curve.survival_interval(time, 0.9);
                let survival = curve.survival(time);
                prop_assert!(low <= survival + 1e-12 && survival <= high + 1e-12);
            }
        }
    }
}
