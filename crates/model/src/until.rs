//! [`Until`]: a run goes on until a quantile is known well enough, `ci(p99.9) < 5%`.
//!
//! The width of the order-statistic interval of the quantile, relative to its estimate, is looked at while the run goes
//! on. Whoever looks often and stops at the first good sight is wrong more often than the confidence says, so every look
//! spends part of the risk: look `k` uses the risk `α / (k (k + 1))`, and these add up to less than `α` however many looks
//! there are (the union bound). Looks are rare, one each time the samples have grown by a quarter, so that the price is
//! small: after a million samples some 40 looks. The interval of the look that ended the run therefore holds with
//! confidence `1 - α`, for independent samples.

use std::fmt;
use std::str::FromStr;

use surety_stats::Histogram;
use surety_stats::bounds::{Bound, QuantileInterval, quantile_interval};
use thiserror::Error;

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// Which quantile, strictly between 0 and 1.
    q: f64,
    /// The widest interval that will do, relative to the quantile's estimate.
    width: f64,
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is no rule such as ci(p99.9) < 5%: {why}")]
pub struct UntilError {
    text: String,
    /// What is wrong.
    why: &'static str,
}

impl FromStr for Until {
    type Err = UntilError;

    fn from_str(text: &str) -> Result<Until, UntilError> {
        let wrong = |why| UntilError { text: text.to_owned(), why };
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let inner = compact.strip_prefix("ci(p").ok_or_else(|| wrong("it begins with ci(pNN)"))?;
        let (quantile, rest) = inner.split_once(')').ok_or_else(|| wrong("the bracket is not closed"))?;
        let width = rest.strip_prefix('<').and_then(|w| w.strip_suffix('%'));
        let width = width.ok_or_else(|| wrong("after it come < and a percentage"))?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|v| *v > 0.0 && v.is_finite());
        let quantile = number(quantile).filter(|q| *q < 100.0);
        let quantile = quantile.ok_or_else(|| wrong("a quantile lies between p0 and p100"))?;
        let width = number(width).ok_or_else(|| wrong("the width is a percentage above 0"))?;
        Ok(Until { q: quantile / 100.0, width: width / 100.0 })
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ci(p{}) < {}%", rounded(self.q * 100.0), rounded(self.width * 100.0))
    }
}

/// Without the last digits that multiplying left.
fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

/// The looks at one series of samples.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    rule: Until,
    confidence: f64,
    /// Looks so far.
    count: u32,
    /// Samples at the last look.
    samples: u64,
}

/// What a look saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Which it was, from 1.
    pub number: u32,
    /// The interval, at the confidence that is left for this look.
    pub interval: QuantileInterval,
    /// Its width relative to the estimate; `None` where it is unbounded.
    pub width: Option<f64>,
    /// Whether the rule is met.
    pub is_met: bool,
}

/// The fewest samples a look is taken at.
const SAMPLES_MIN: u64 = 100;

impl Looks {
    /// No look yet. The confidence lies strictly between 0 and 1.
    pub fn new(rule: Until, confidence: f64) -> Looks {
        Looks { rule, confidence: confidence.clamp(1e-9, 1.0 - 1e-9), count: 0, samples: 0 }
    }

    /// Looks, when there are a quarter more samples than at the last look.
    pub fn look(&mut self, values: &Histogram) -> Option<Look> {
        let samples = values.count();
        if samples < SAMPLES_MIN || samples < self.samples.saturating_add(self.samples.div_ceil(4)) {
            return None;
        }
        (self.count, self.samples) = (self.count.saturating_add(1), samples);
        let k = f64::from(self.count);
        let risk = (1.0 - self.confidence) / (k * (k + 1.0));
        let interval = quantile_interval(values, self.rule.q, 1.0 - risk)?;
        let width = match (interval.low, interval.high, interval.estimate) {
            (Bound::At(low), Bound::At(high), Some(estimate)) if estimate > 0 => {
                Some(high.saturating_sub(low) as f64 / estimate as f64)
            }
            _ => None,
        };
        let is_met = width.is_some_and(|width| width < self.rule.width);
        Some(Look { number: self.count, interval, width, is_met })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_stats::Pcg;

    #[test]
    fn rules_are_read_and_written() {
        for (text, shown) in [("ci(p99.9) < 5%", "ci(p99.9) < 5%"), (" ci ( p50 )<0.5 %", "ci(p50) < 0.5%")] {
            assert_eq!(text.parse::<Until>().unwrap().to_string(), shown);
        }
        for bad in [
            "",
            "ci(99) < 5%",
            "ci(p99.9 < 5%",
            "ci(p100) < 5%",
            "ci(p0) < 5%",
            "ci(p99) > 5%",
            "ci(p99) < 5",
            "ci(p99) < -5%",
            "ci(pNaN) < 5%",
            "ci(p99) < inf%",
            "ci(p) < %",
        ] {
            assert!(bad.parse::<Until>().is_err(), "{bad}");
        }
    }

    fn uniform(random: &mut Pcg, values: &mut Histogram, count: u64) {
        for _ in 0..count {
            values.record(1_000_000 + random.next_u64() % 1_000_000);
        }
    }

    #[test]
    fn a_tail_takes_more_samples_than_its_interval_is_unbounded_without() {
        let mut looks = Looks::new("ci(p99.9) < 5%".parse().unwrap(), 0.95);
        let (mut random, mut values) = (Pcg::new(1, 1), Histogram::new());
        uniform(&mut random, &mut values, 99);
        assert_eq!(looks.look(&values), None);
        let (mut met_at, mut unbounded) = (None, 0);
        while met_at.is_none() {
            uniform(&mut random, &mut values, 500);
            if let Some(look) = looks.look(&values) {
                unbounded += u32::from(look.width.is_none());
                met_at = look.is_met.then_some(values.count());
            }
        }
        assert!(unbounded > 3 && met_at > Some(3_688), "{unbounded} {met_at:?}");
        assert_eq!(looks.look(&values), None, "no look before there are a quarter more");
    }

    /// The stopped interval covers the true quantile at least as often as promised.
    #[test]
    fn stopping_at_a_good_sight_keeps_the_confidence() {
        let (mut covered, runs) = (0u128, 200);
        for run in 0..runs {
            let mut looks = Looks::new("ci(p90) < 2%".parse().unwrap(), 0.95);
            let (mut random, mut values) = (Pcg::new(7, run), Histogram::new());
            let interval = loop {
                uniform(&mut random, &mut values, 100);
                match looks.look(&values) {
                    Some(look) if look.is_met => break look.interval,
                    _ => {}
                }
            };
            let (low, high) = (interval.low.value().unwrap(), interval.high.value().unwrap());
            covered += u128::from((low..=high).contains(&1_900_000));
        }
        assert!(covered * 100 >= runs * 95, "{covered} of {runs}");
    }
}
