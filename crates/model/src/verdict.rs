//! [`Verdict`]: each promise held against what a world saw.
//!
//! *Kept* needs the one-sided 95 % bound on the right side, or a proof. *Broken* needs the opposite bound on the
//! wrong side. Between them nothing is decided, and the verdict says how many more activations would do.

use std::fmt;

use surety_stats::intervals::{failure_lower, failure_upper, samples_needed_zero_failures};
use surety_units::Nanos;

use crate::promise::{Bound, Comparison, Metric, Promise};
use crate::record::{ActivityRecord, Evidence, bound_value};

/// Confidence of the one-sided bounds.
pub const CONFIDENCE: f64 = 0.95;

/// What is to be said of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The bound, or a proof, is on the right side.
    Kept,
    /// The bound is on the wrong side.
    Broken,
    /// Neither: more activations are needed.
    Undecided,
    /// This world cannot see it.
    NotObservable,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Kept => "kept",
            Outcome::Broken => "broken",
            Outcome::Undecided => "undecided",
            Outcome::NotObservable => "not observable",
        })
    }
}

/// A promise with its outcome and the reason in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whose.
    pub activity: String,
    /// What was promised.
    pub promise: Promise,
    /// What is to be said.
    pub outcome: Outcome,
    /// Why, with the numbers.
    pub because: String,
}

/// Holds every promise of an activity against its record.
pub fn judge(promises: &[Promise], record: &ActivityRecord) -> Vec<Verdict> {
    promises
        .iter()
        .zip(&record.evidence)
        .map(|(promise, evidence)| {
            let (outcome, because) = in_every_window(promise, evidence, judge_one(promise, evidence));
            Verdict { activity: record.name.clone(), promise: *promise, outcome, because }
        })
        .collect()
}

/// A run as a whole can break a promise about every window, but only a proof can keep it: worlds count over the run.
fn in_every_window(
    promise: &Promise,
    evidence: &Evidence,
    (outcome, because): (Outcome, String),
) -> (Outcome, String) {
    match (promise.over, outcome, evidence) {
        (Some(window), Outcome::Kept, Evidence::Counted { .. } | Evidence::Value { .. }) => {
            let why = format!("{because} over the whole run; that it holds in every {window} needs a proof");
            (Outcome::Undecided, why)
        }
        _ => (outcome, because),
    }
}

fn judge_one(promise: &Promise, evidence: &Evidence) -> (Outcome, String) {
    match evidence {
        Evidence::NotObservable { because } => (Outcome::NotObservable, because.clone()),
        Evidence::Proven { at_least, because } => {
            let promised = promise.at.map_or(1.0, |p| p.as_f64());
            let text = format!("at least {} by proof: {because}", percent(*at_least));
            if *at_least >= promised {
                (Outcome::Kept, text)
            } else {
                (Outcome::Undecided, format!("{text}; the bound does not reach {}", percent(promised)))
            }
        }
        Evidence::Counted { of: 0, .. } => (Outcome::Undecided, "no activation was seen".to_owned()),
        Evidence::Counted { within, of } => judge_count(promise, *within, *of),
        Evidence::Value { value, of_demand } => judge_value(promise, *value, *of_demand),
    }
}

fn judge_count(promise: &Promise, within: u64, of: u64) -> (Outcome, String) {
    let failures = of - within;
    let Some(at) = promise.at else {
        return if failures > 0 {
            (
                Outcome::Broken,
                format!("{failures} of {of} activations are outside, and every one was promised"),
            )
        } else {
            let bound = failure_upper(0, of, CONFIDENCE);
            let text = format!(
                "none of {of} is outside (fewer than {} with 95 % confidence); that every one is needs a proof",
                percent(bound)
            );
            (Outcome::Undecided, text)
        };
    };
    let allowed = at.complement().as_f64();
    let upper = failure_upper(failures, of, CONFIDENCE);
    let lower = failure_lower(failures, of, CONFIDENCE);
    let seen = format!("{failures} of {of} outside");
    if upper <= allowed {
        (
            Outcome::Kept,
            format!("{seen}: at most {} with 95 % confidence, {} allowed", percent(upper), percent(allowed)),
        )
    } else if lower > allowed {
        (
            Outcome::Broken,
            format!("{seen}: at least {} with 95 % confidence, {} allowed", percent(lower), percent(allowed)),
        )
    } else {
        let needed = samples_to_decide(failures, of, allowed);
        let remedy = match needed {
            Some(n) => format!("at this rate {} more activations would decide", n.saturating_sub(of)),
            None => "the observed fraction is at the limit: no number of activations decides".to_owned(),
        };
        (
            Outcome::Undecided,
            format!(
                "{seen}: between {} and {}, {} allowed; {remedy}",
                percent(lower),
                percent(upper),
                percent(allowed)
            ),
        )
    }
}

/// How many activations in all would put a one-sided bound on one side, if failures go on at the rate seen.
fn samples_to_decide(failures: u64, of: u64, allowed: f64) -> Option<u64> {
    if failures == 0 {
        return samples_needed_zero_failures(1.0 - allowed, CONFIDENCE);
    }
    let rate = failures as f64 / of as f64;
    let mut n = of;
    for _ in 0..64 {
        n = n.checked_mul(5)? / 4 + 1;
        let expected = (rate * n as f64).round() as u64;
        let decided = failure_upper(expected, n, CONFIDENCE) <= allowed
            || failure_lower(expected, n, CONFIDENCE) > allowed;
        if decided {
            return Some(n);
        }
        if n > 1 << 40 {
            return None;
        }
    }
    None
}

/// A share is a ratio of two measured times; the kernel's accounting and the run's edges blur it by this much.
const SHARE_RESOLUTION: f64 = 0.002;

fn judge_value(promise: &Promise, value: f64, of_demand: Option<f64>) -> (Outcome, String) {
    let limit = bound_value(promise.bound);
    let shown = |v: f64| match promise.metric {
        Metric::Share => percent(v),
        Metric::Rate if matches!(promise.bound, Bound::Rate(_)) => byte_rate(v),
        Metric::Rate => format!("{v:.0}/s"),
        _ if matches!(promise.bound, Bound::Time(_)) => Nanos::from_f64_rounded(v).to_string(),
        _ => format!("{v:.0}"),
    };
    let text = format!("{} measured, {} {} promised", shown(value), promise.comparison.sign(), shown(limit));
    let counts_jobs =
        matches!(promise.metric, Metric::Missed | Metric::Late | Metric::Dropped | Metric::Lost);
    if counts_jobs && limit == 0.0 && value == 0.0 {
        // The same promise as a response without a percentage: watching never decides it.
        return (Outcome::Undecided, format!("{text}; that there never is one needs a proof"));
    }
    let blur = if promise.metric == Metric::Share { SHARE_RESOLUTION } else { 0.0 };
    let holds = match promise.comparison {
        Comparison::AtLeast => value + blur >= limit,
        Comparison::AtMost => value - blur <= limit,
        Comparison::Above => value + blur > limit,
        Comparison::Below => value - blur < limit,
        Comparison::Equal => (value - limit).abs() <= blur,
    };
    if holds {
        return (Outcome::Kept, text);
    }
    match (promise.comparison, of_demand) {
        (Comparison::AtLeast | Comparison::Above, Some(part)) if part >= limit => (
            Outcome::Kept,
            format!("{text}; it asked for no more: it got {} of the time it wanted a CPU", percent(part)),
        ),
        _ => (Outcome::Broken, text),
    }
}

/// Bytes per second for people.
fn byte_rate(bytes: f64) -> String {
    match bytes {
        b if b >= 1e9 => format!("{:.2} GB/s", b / 1e9),
        b if b >= 1e6 => format!("{:.2} MB/s", b / 1e6),
        b if b >= 1e3 => format!("{:.2} kB/s", b / 1e3),
        b => format!("{b:.0} B/s"),
    }
}

fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    match percent {
        p if p == 0.0 || p >= 10.0 => format!("{p:.2} %"),
        p if p >= 0.01 => format!("{p:.3} %"),
        p => format!("{p:.2e} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Basis;

    #[test]
    fn outcomes_follow_the_one_sided_bounds() {
        let hard = "response <= 40ms";
        let soft = "response <= 40ms @ 99%";
        // The Clopper-Pearson 95 % upper bounds behind these: 1 of 625 is 0.757 %, 2 of 625 is 1.005 %.
        for (text, within, of, outcome) in [
            (soft, 624, 625, Outcome::Kept),
            (soft, 623, 625, Outcome::Undecided),
            (soft, 298, 298, Outcome::Undecided),
            (soft, 299, 299, Outcome::Kept),
            (soft, 500, 625, Outcome::Broken),
            (soft, 0, 0, Outcome::Undecided),
            (hard, 625, 625, Outcome::Undecided),
            (hard, 624, 625, Outcome::Broken),
        ] {
            let promise = Promise::parse(text).unwrap();
            let (found, because) = judge_one(&promise, &Evidence::Counted { within, of });
            assert_eq!(found, outcome, "{text} {within}/{of}: {because}");
        }
    }

    #[test]
    fn an_undecided_verdict_asks_for_the_activations_that_are_missing() {
        // ln 0.05 / ln 0.99 = 298.07: 299 without a failure show 99 %.
        let promise = Promise::parse("response <= 40ms @ 99%").unwrap();
        let (outcome, because) = judge_one(&promise, &Evidence::Counted { within: 100, of: 100 });
        assert_eq!(outcome, Outcome::Undecided);
        assert!(because.contains(" 199 more activations"), "{because}");
    }

    #[test]
    fn a_mean_over_the_run_does_not_keep_a_promise_about_every_window() {
        let promise = Promise::parse("share >= 25% over 1s").unwrap();
        for (evidence, outcome) in [
            (Evidence::Value { value: 0.4, of_demand: None }, Outcome::Undecided),
            (Evidence::Value { value: 0.1, of_demand: None }, Outcome::Broken),
            (Evidence::Proven { at_least: 1.0, because: "CBS".to_owned() }, Outcome::Kept),
        ] {
            let mut record = ActivityRecord::new("a", "task", Basis::Sample);
            record.evidence = vec![evidence.clone()];
            let verdicts = judge(&[promise], &record);
            assert_eq!(verdicts[0].outcome, outcome, "{evidence:?}: {}", verdicts[0].because);
        }
    }

    #[test]
    fn proofs_and_values_decide() {
        let hard = Promise::parse("response <= 40ms").unwrap();
        let proof = |at_least| Evidence::Proven { at_least, because: "EDF".to_owned() };
        assert_eq!(judge_one(&hard, &proof(1.0)).0, Outcome::Kept);
        assert_eq!(judge_one(&hard, &proof(0.999)).0, Outcome::Undecided);
        let share = Promise::parse("share >= 25%").unwrap();
        let value = |value, of_demand| Evidence::Value { value, of_demand };
        for (text, seen, outcome) in [
            ("missed == 0", 0.0, Outcome::Undecided),
            ("missed == 0", 1.0, Outcome::Broken),
            ("missed <= 3", 3.0, Outcome::Kept),
        ] {
            let promise = Promise::parse(text).unwrap();
            assert_eq!(judge_one(&promise, &value(seen, None)).0, outcome, "{text} {seen}");
        }
        let rate = Promise::parse("rate >= 20MB/s").unwrap();
        let (outcome, because) = judge_one(&rate, &value(103.7e6, None));
        assert_eq!(
            (outcome, because.as_str()),
            (Outcome::Kept, "103.70 MB/s measured, >= 20.00 MB/s promised")
        );
        assert_eq!(judge_one(&share, &value(0.2495, None)).0, Outcome::Kept);
        assert_eq!(judge_one(&share, &value(0.12, Some(0.5))).0, Outcome::Kept);
        assert_eq!(judge_one(&share, &value(0.12, Some(0.2))).0, Outcome::Broken);
    }
}
