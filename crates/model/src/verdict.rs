//! [`Verdict`]: each promise held against what a world saw.
//!
//! *Kept* needs the one-sided 95 % bound on the right side, or a proof. *Broken* needs the opposite bound on the
//! wrong side. Between them nothing is decided, and the verdict says how many more activations would do. Bounds count
//! bursts of late activations, not the activations in them ([`surety_stats::failures`]). A value of one run alone has no
//! bound: on the right side it is observed, and decides nothing.
//!
//! A proof decides what watching left open; one that a measurement contradicts is named: [`decide`].

use std::fmt;

use serde::Serialize;
use surety_stats::Failures;
use surety_stats::bounds::mean_interval;
use surety_stats::failures::Effective;
use surety_units::Nanos;

use crate::percent::{Rounding, at_least, at_most, percent};
use crate::promise::{Bound, Comparison, Metric, Promise};
use crate::record::{ActivityRecord, Caveat, Effect, Evidence, Promised, bound_value};

/// Confidence of the one-sided bounds.
pub const CONFIDENCE: f64 = 0.95;

/// What is to be said of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
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
    /// Whether a caveat left it undecided: then no proof decides it either, since the run was not what was proven.
    pub is_withheld: bool,
    /// Whether it comes from a proof, not from counts or a measured value.
    pub is_proven: bool,
}

impl Verdict {
    /// Whether a proof may decide what the counts of this run did not.
    pub fn is_open_to_proof(&self) -> bool {
        !self.is_withheld && matches!(self.outcome, Outcome::Undecided | Outcome::NotObservable)
    }
}

/// Holds every promise of an activity against its evidence.
pub fn judge(record: &ActivityRecord) -> Vec<Verdict> {
    record
        .promised
        .iter()
        .map(|Promised { promise, evidence }| {
            let (outcome, because) = in_every_window(promise, evidence, judge_one(promise, evidence));
            let verdict = Verdict {
                activity: record.name.clone(),
                promise: *promise,
                outcome,
                because,
                is_withheld: false,
                is_proven: matches!(evidence, Evidence::Proven { .. }),
            };
            with_caveats(verdict, &record.caveats)
        })
        .collect()
}

/// What became of a promise when proofs of the same state count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'p> {
    /// What is to be said.
    pub outcome: Outcome,
    /// The label of the proof that keeps what watching alone left open.
    pub kept_by: Option<&'p str>,
    /// The label of the proof that says it is kept, while it was seen broken.
    pub contradicts: Option<&'p str>,
}

/// Decides a verdict with the verdicts of others about the same state, each with its label.
///
/// A promise about every activation is never decided by watching: where a verdict is open, a proof keeps it. A promise
/// seen broken stays broken whatever is proven, and the proof is contradicted: something it assumes does not hold. One
/// that was withheld is undecided.
pub fn decide<'p>(
    verdict: &Verdict,
    others: impl IntoIterator<Item = (&'p str, &'p Verdict)>,
) -> Decision<'p> {
    let proves = |other: &Verdict| {
        let is_same = other.activity == verdict.activity && other.promise == verdict.promise;
        is_same && other.is_proven && other.outcome == Outcome::Kept
    };
    let proof = others.into_iter().find(|(_, other)| proves(other)).map(|(label, _)| label);
    let (mut outcome, mut kept_by, mut contradicts) = (verdict.outcome, None, None);
    if verdict.is_open_to_proof() && proof.is_some() {
        (outcome, kept_by) = (Outcome::Kept, proof);
    } else if verdict.outcome == Outcome::Broken && !verdict.is_proven {
        contradicts = proof;
    }
    Decision { outcome, kept_by, contradicts }
}

/// Leaves undecided what a caveat speaks against.
fn with_caveats(verdict: Verdict, caveats: &[Caveat]) -> Verdict {
    let applies = |effect| match effect {
        Effect::Withholds => verdict.outcome != Outcome::NotObservable,
        Effect::Excuses => verdict.outcome == Outcome::Broken,
        // A share is one value: what is rare can have made it too small as well as too large.
        Effect::TooShort => match verdict.outcome {
            Outcome::Kept => !verdict.is_proven,
            Outcome::Broken => verdict.promise.metric == Metric::Share,
            _ => false,
        },
        Effect::TooShortForShare => {
            verdict.outcome == Outcome::Broken && verdict.promise.metric == Metric::Share
        }
    };
    let reasons: Vec<&str> =
        caveats.iter().filter(|c| applies(c.effect)).map(|c| c.because.as_str()).collect();
    if reasons.is_empty() {
        return verdict;
    }
    let because = format!("{}, but {}", verdict.because, reasons.join("; "));
    // A proof knows what is rare; it does not know what disturbed the run.
    let is_withheld = caveats.iter().any(|c| applies(c.effect) && !c.effect.is_of_length());
    Verdict { outcome: Outcome::Undecided, because, is_withheld, ..verdict }
}

/// A run as a whole can break a promise about every window, but only a proof can keep it: worlds count over the run.
fn in_every_window(
    promise: &Promise,
    evidence: &Evidence,
    (outcome, because): (Outcome, String),
) -> (Outcome, String) {
    match (promise.over, outcome, evidence) {
        (Some(window), Outcome::Kept, evidence) if !matches!(evidence, Evidence::Proven { .. }) => {
            let why = format!("{because} over the whole run; that it holds in every {window} needs a proof");
            (Outcome::Undecided, why)
        }
        _ => (outcome, because),
    }
}

fn judge_one(promise: &Promise, evidence: &Evidence) -> (Outcome, String) {
    match evidence {
        Evidence::NotObservable { because } => (Outcome::NotObservable, because.clone()),
        Evidence::Proven { at_least: proven, because } => {
            let promised = promise.at.map_or(1.0, |p| p.as_f64());
            let text = format!("at least {} by proof: {because}", at_least(*proven));
            if *proven >= promised {
                (Outcome::Kept, text)
            } else {
                (Outcome::Undecided, format!("{text}; the bound does not reach {}", at_least(promised)))
            }
        }
        Evidence::Counted(outside) if outside.trials() == 0 => {
            (Outcome::Undecided, "no activation was seen".to_owned())
        }
        Evidence::Counted(outside) => judge_count(promise, outside),
        Evidence::Value { value, of_demand } => judge_value(promise, *value, *of_demand),
        Evidence::Runs(values) => judge_runs(promise, values),
    }
}

/// `1 - CONFIDENCE`.
const RISK: f64 = 1.0 - CONFIDENCE;

/// Bursts of at least this many trials worth of one are said to be some.
const IN_BURSTS: f64 = 1.5;

/// With fewer bursts than this a run does not show how long bursts get.
const BURSTS_MIN: f64 = 10.0;

fn judge_count(promise: &Promise, outside: &Failures) -> (Outcome, String) {
    let (failures, of) = (outside.failures(), outside.trials());
    let effective = outside.effective();
    let (upper, lower) = (effective.upper(RISK), effective.lower(RISK));
    let Some(at) = promise.at else {
        return if failures > 0 {
            let text = format!("{failures} of {of} activations are outside, and every one was promised");
            (Outcome::Broken, text)
        } else {
            let text = format!(
                "none of {of} is outside (at most {} with 95 % confidence); that every one is within needs a proof",
                at_most(upper)
            );
            (Outcome::Undecided, text)
        };
    };
    let allowed = at.complement().as_f64();
    let effect = of as f64 / effective.trials;
    let bursts = if effect >= IN_BURSTS {
        format!(" in bursts (effective sample size {:.0})", effective.trials.floor())
    } else {
        String::new()
    };
    let is_few = effect >= IN_BURSTS && effective.trials < BURSTS_MIN;
    let seen = format!("{failures} of {of} outside{bursts}");
    let words = percent(allowed, Rounding::Nearest);
    if upper <= allowed {
        let excluded = if effective.failures < BURSTS_MIN {
            let longest = outside.longest_excluded(allowed);
            let plural = if longest == 1 { "" } else { "s" };
            format!("; bursts of more than {longest} activation{plural} are not excluded by so few")
        } else {
            String::new()
        };
        let text =
            format!("{seen}: at most {} with 95 % confidence, {words} allowed{excluded}", at_most(upper));
        (Outcome::Kept, text)
    } else if lower > allowed && !is_few {
        (
            Outcome::Broken,
            format!("{seen}: at least {} with 95 % confidence, {words} allowed", at_least(lower)),
        )
    } else {
        let remedy = match times_to_decide(effective, allowed) {
            Some(times) => {
                // Few bursts say little of how long they are: as many as a bound is given for have to be seen.
                let times = if is_few { times.max(BURSTS_MIN / effective.trials.max(1.0)) } else { times };
                let more = (of as f64 * (times - 1.0)).ceil().max(1.0);
                format!("at this rate {more:.0} more activations would decide")
            }
            None => "the observed fraction is at the limit: no number of activations decides".to_owned(),
        };
        let text =
            format!("{seen}: between {} and {}, {words} allowed; {remedy}", at_least(lower), at_most(upper));
        (Outcome::Undecided, text)
    }
}

/// How many times as many activations would put a one-sided bound on one side, if failures go on as they were seen.
fn times_to_decide(effective: Effective, allowed: f64) -> Option<f64> {
    let decided = |times: f64| {
        let more = effective.times(times);
        more.upper(RISK) <= allowed || more.lower(RISK) > allowed
    };
    let (mut low, mut high) = (1.0, 1.0);
    while !decided(high) {
        (low, high) = (high, high * 2.0);
        if effective.trials * high > 1e12 {
            return None;
        }
    }
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if decided(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// A share is a ratio of two measured times; the kernel's accounting and the run's edges blur it by this much.
const SHARE_RESOLUTION: f64 = 0.002;

/// A value in the words of its promise.
fn shown(promise: &Promise, value: f64, rounding: Rounding) -> String {
    match promise.metric {
        Metric::Share => percent(value, rounding),
        Metric::Rate if matches!(promise.bound, Bound::Rate(_)) => byte_rate(value),
        Metric::Rate => format!("{value:.0}/s"),
        _ if matches!(promise.bound, Bound::Time(_)) => Nanos::from_f64_rounded(value).to_string(),
        _ => format!("{value:.0}"),
    }
}

/// What was promised, behind a value.
fn promised(promise: &Promise) -> String {
    let limit = shown(promise, bound_value(promise.bound), Rounding::Nearest);
    format!("{} {limit} promised", promise.comparison.sign())
}

/// Things that are counted, not measured over time.
fn is_count(promise: &Promise) -> bool {
    matches!(promise.metric, Metric::Missed | Metric::Late | Metric::Dropped | Metric::Lost)
}

/// Whether a value is on the right side of what was promised.
pub fn holds(promise: &Promise, value: f64) -> bool {
    promise.comparison.holds(&value, &bound_value(promise.bound))
}

/// Whether a value is below what was promised because nobody asked for more.
pub fn asked_for_no_more(promise: &Promise, value: f64, of_demand: Option<f64>) -> bool {
    let limit = bound_value(promise.bound);
    matches!(promise.comparison, Comparison::AtLeast | Comparison::Above)
        && !promise.comparison.holds(&value, &limit)
        && of_demand.is_some_and(|part| part >= limit)
}

/// One run on the wrong side breaks a promise about it; on the right side it says nothing of the next.
fn judge_value(promise: &Promise, value: f64, of_demand: Option<f64>) -> (Outcome, String) {
    let limit = bound_value(promise.bound);
    let rounding = match promise.comparison {
        Comparison::AtLeast | Comparison::Above => Rounding::Down,
        _ => Rounding::Up,
    };
    let text = format!("{} observed, {}", shown(promise, value, rounding), promised(promise));
    if promise.comparison.holds(&value, &limit) {
        let why = match promise.metric {
            _ if is_count(promise) && limit == 0.0 => "that there never is one needs a proof",
            _ if is_count(promise) => "one run does not bound the count of the next; a proof does",
            _ => "one run has no confidence interval: repeat it, such as with --repeat 5, or prove it",
        };
        return (Outcome::Undecided, format!("{text}; {why}"));
    }
    if let Some(part) = of_demand.filter(|_| asked_for_no_more(promise, value, of_demand)) {
        let why = format!("it asked for no more: it got {} of the time it wanted a CPU", at_least(part));
        return (Outcome::Undecided, format!("{text}; {why}"));
    }
    if promise.metric == Metric::Share && (value - limit).abs() <= SHARE_RESOLUTION {
        let blur = percent(SHARE_RESOLUTION, Rounding::Nearest);
        return (Outcome::Undecided, format!("{text}; a share is known to {blur} of a CPU"));
    }
    (Outcome::Broken, text)
}

/// The same value of several runs: their mean has an interval, counts stay counts.
fn judge_runs(promise: &Promise, values: &[f64]) -> (Outcome, String) {
    let limit = bound_value(promise.bound);
    let (least, most) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (v.min(l), v.max(m)));
    let worst = match promise.comparison {
        Comparison::AtLeast | Comparison::Above => least,
        _ => most,
    };
    let interval = mean_interval(values, CONFIDENCE);
    let (Some((low, high)), false) = (interval, is_count(promise) || promise.comparison == Comparison::Equal)
    else {
        let (outcome, text) = judge_value(promise, worst, None);
        return (outcome, format!("worst of {} runs: {text}", values.len()));
    };
    let text = format!(
        "mean of {} runs between {} and {} with 95 % confidence on either side, {}",
        values.len(),
        shown(promise, low, Rounding::Down),
        shown(promise, high, Rounding::Up),
        promised(promise),
    );
    match (promise.comparison.holds(&low, &limit), promise.comparison.holds(&high, &limit)) {
        (true, true) => (Outcome::Kept, text),
        (false, false) => (Outcome::Broken, text),
        _ => (Outcome::Undecided, format!("{text}; more runs would decide")),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Basis;
    use crate::workload::ActivityKind;

    /// Single failures, as far apart as can be.
    fn spread(within: u64, of: u64) -> Evidence {
        let outside = of - within;
        Evidence::Counted((0..of).map(|i| (i + 1) * outside / of > i * outside / of).collect())
    }

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
            let (found, because) = judge_one(&promise, &spread(within, of));
            assert_eq!(found, outcome, "{text} {within}/{of}: {because}");
        }
    }

    #[test]
    fn an_undecided_verdict_asks_for_the_activations_that_are_missing() {
        // ln 0.05 / ln 0.99 = 298.07: 299 without a failure show 99 %.
        let promise = Promise::parse("response <= 40ms @ 99%").unwrap();
        let (outcome, because) = judge_one(&promise, &spread(100, 100));
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
            let mut record = ActivityRecord::new("a", ActivityKind::Task, Basis::Sample);
            record.promised = vec![Promised { promise, evidence: evidence.clone() }];
            let verdicts = judge(&record);
            assert_eq!(verdicts[0].outcome, outcome, "{evidence:?}: {}", verdicts[0].because);
        }
    }

    #[test]
    fn a_caveat_leaves_undecided_what_it_speaks_against() {
        let promise = Promise::parse("response <= 40ms @ 99%").unwrap();
        let (kept, broken) = (spread(625, 625), spread(500, 625));
        let steal = Caveat::excuses("the hypervisor took 9 % of CPU 0");
        let moved = Caveat::withholds("its thread was moved to CPU 1");
        for (evidence, caveats, outcome, is_open) in [
            (&kept, vec![], Outcome::Kept, false),
            (&kept, vec![steal.clone()], Outcome::Kept, false),
            (&broken, vec![steal.clone()], Outcome::Undecided, false),
            (&kept, vec![moved.clone()], Outcome::Undecided, false),
            (&broken, vec![steal, moved], Outcome::Undecided, false),
            (&kept, vec![Caveat::too_short("`backup` acts every hour")], Outcome::Undecided, true),
            (&broken, vec![Caveat::too_short("`backup` acts every hour")], Outcome::Broken, false),
            (&spread(9, 9), vec![], Outcome::Undecided, true),
        ] {
            let mut record = ActivityRecord::new("a", ActivityKind::Task, Basis::Sample);
            record.promised = vec![Promised { promise, evidence: evidence.clone() }];
            record.caveats = caveats;
            let verdict = judge(&record).remove(0);
            assert_eq!((verdict.outcome, verdict.is_open_to_proof()), (outcome, is_open), "{verdict:?}");
            let is_applied = record.caveats.is_empty() || outcome != Outcome::Undecided;
            assert!(is_applied || verdict.because.contains(", but "), "{verdict:?}");
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
            ("missed <= 3", 3.0, Outcome::Undecided),
            ("missed <= 3", 4.0, Outcome::Broken),
        ] {
            let promise = Promise::parse(text).unwrap();
            assert_eq!(judge_one(&promise, &value(seen, None)).0, outcome, "{text} {seen}");
        }
        let rate = Promise::parse("rate >= 20MB/s").unwrap();
        let (outcome, because) = judge_one(&rate, &value(103.7e6, None));
        assert_eq!(outcome, Outcome::Undecided);
        assert!(
            because.starts_with("103.70 MB/s observed, >= 20.00 MB/s promised; one run has no"),
            "{because}"
        );
        for (seen, of_demand, outcome) in [
            (0.3, None, Outcome::Undecided),
            (0.2495, None, Outcome::Undecided),
            (0.2465, None, Outcome::Broken),
            (0.12, Some(0.5), Outcome::Undecided),
            (0.12, Some(0.2), Outcome::Broken),
        ] {
            assert_eq!(judge_one(&share, &value(seen, of_demand)).0, outcome, "{seen}");
        }
    }

    /// Means of several runs have an interval, counts do not.
    #[test]
    fn several_runs_decide_what_one_only_shows() {
        for (text, values, outcome) in [
            ("share >= 25%", vec![0.26, 0.27, 0.26, 0.27], Outcome::Kept),
            ("share >= 25%", vec![0.22, 0.26, 0.28, 0.29], Outcome::Undecided),
            ("share >= 25%", vec![0.22, 0.21, 0.22, 0.22], Outcome::Broken),
            ("share >= 25%", vec![0.3], Outcome::Undecided),
            ("missed <= 3", vec![0.0, 1.0, 3.0], Outcome::Undecided),
            ("missed <= 3", vec![0.0, 1.0, 4.0], Outcome::Broken),
        ] {
            let (found, because) = judge_one(&Promise::parse(text).unwrap(), &Evidence::Runs(values));
            assert_eq!(found, outcome, "{text}: {because}");
        }
    }

    /// 15 of 3,000 activations in one burst: as independent ones 0.8 % at most, as one burst 2.4 %.
    #[test]
    fn a_burst_counts_once() {
        let promise = Promise::parse("response <= 40ms @ 99%").unwrap();
        let burst = Evidence::Counted((0..3_000).map(|i| (500..515).contains(&i)).collect());
        assert_eq!(judge_one(&promise, &spread(2_985, 3_000)).0, Outcome::Kept);
        let (outcome, because) = judge_one(&promise, &burst);
        assert_eq!(outcome, Outcome::Undecided, "{because}");
        assert!(because.contains("in bursts (effective sample size"), "{because}");
        // The same counts without their order.
        let unordered = Evidence::Counted(Failures::unordered(15, 3_000));
        assert_eq!(judge_one(&promise, &unordered).0, Outcome::Undecided);
        let (_, because) = judge_one(&promise, &spread(3_000, 3_000));
        assert!(
            because.ends_with("bursts of more than 10 activations are not excluded by so few"),
            "{because}"
        );
    }

    /// A proof keeps what is open, is contradicted by what was seen broken, and has no say in what was withheld.
    #[test]
    fn proofs_decide_or_are_contradicted() {
        let promise = Promise::parse("response <= 40ms @ 99%").unwrap();
        let verdict = |evidence: Evidence, caveats: Vec<Caveat>| {
            let mut record = ActivityRecord::new("a", ActivityKind::Task, Basis::Sample);
            record.promised = vec![Promised { promise, evidence }];
            record.caveats = caveats;
            judge(&record).remove(0)
        };
        let proof = verdict(Evidence::Proven { at_least: 0.999, because: "EDF".to_owned() }, vec![]);
        let excused = vec![Caveat::excuses("steal")];
        let (kept, broken) = (Outcome::Kept, Outcome::Broken);
        for (seen, outcome, kept_by, contradicts) in [
            (verdict(spread(625, 625), vec![]), kept, None, None),
            (verdict(spread(9, 9), vec![]), kept, Some("analysis"), None),
            (verdict(spread(500, 625), vec![]), broken, None, Some("analysis")),
            (verdict(spread(500, 625), excused), Outcome::Undecided, None, None),
        ] {
            let decision = decide(&seen, [("analysis", &proof)]);
            assert_eq!(decision, Decision { outcome, kept_by, contradicts }, "{seen:?}");
            assert_eq!(decide(&seen, []).outcome, seen.outcome);
        }
    }
}
