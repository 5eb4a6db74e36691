//! An expectation held against a record.
//!
//! Times come from histograms, so a value is known to a bucket only: an expectation is *held* when both ends of the
//! bucket meet it, *failed* when neither does, and between them the record cannot tell. Activations that were skipped
//! or lost stand above every value; one that is unfinished may be anywhere. A bound of a quantile is the order statistic of `surety_stats::bounds`; where the values are too few for one, the expectation is not met and
//! the finding says how many more it takes.

use std::fmt;

use surety_stats::Failures;
use surety_stats::bounds::{Bound, Ranked, quantile_interval, quantile_lower, quantile_upper};
use surety_stats::quantile_rank;
use surety_units::{Nanos, Probability};

use super::{Expectation, QUANTITIES, Scope, Term, Value};
use crate::percent::{Rounding, at_most, percent};
use crate::promise::Comparison;
use crate::record::{ActivityRecord, Basis, Distribution, Figure, Observed, Record, time};
use crate::verdict::CONFIDENCE;

/// What became of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Met.
    Held,
    /// The record does not say.
    CannotTell,
    /// Not met.
    Failed,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Standing::Held => "held",
            Standing::CannotTell => "cannot tell",
            Standing::Failed => "failed",
        })
    }
}

/// What one activity says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The activity and, where a time is meant, which: `player response`.
    pub about: String,
    /// What became of it.
    pub standing: Standing,
    /// The observed value with its interval, or why there is none.
    pub because: String,
}

/// An expectation with what a record says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// What was expected, as it was written.
    pub expectation: String,
    /// The worst of the findings: failed, then cannot tell, then held.
    pub standing: Standing,
    /// One for each activity that has the term; one that says why when none has. Never empty.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// The worst of the findings decides.
    pub(super) fn of(expectation: String, findings: Vec<Finding>) -> Checked {
        let standing = findings.iter().map(|f| f.standing).max().unwrap_or(Standing::CannotTell);
        Checked { expectation, standing, findings }
    }

    /// The same where something was not seen: what is held there cannot be told, what failed has failed.
    #[must_use]
    pub fn doubted(self, why: &str) -> Checked {
        let doubt = |finding: Finding| match finding.standing {
            Standing::Held => Finding {
                standing: Standing::CannotTell,
                because: format!("{}, but {why}", finding.because),
                ..finding
            },
            _ => finding,
        };
        Checked::of(self.expectation, self.findings.into_iter().map(doubt).collect())
    }
}

/// What is known of a number: it lies between two values.
pub(super) struct Known<T> {
    pub(super) low: T,
    pub(super) high: T,
    /// The value with its interval.
    pub(super) words: String,
}

impl<T: Copy> Known<T> {
    fn exactly(value: T, words: String) -> Known<T> {
        Known { low: value, high: value, words }
    }
}

/// A standing with the words for it.
type Said = (Standing, String);

fn unknown(why: impl Into<String>) -> Said {
    (Standing::CannotTell, why.into())
}

/// Holds a number that is known to a range against a limit.
pub(super) fn compare<T: PartialOrd + Copy>(known: &Known<T>, comparison: Comparison, limit: T) -> Standing {
    let at = |end: T| comparison.holds(&end, &limit);
    match comparison {
        Comparison::Equal if known.low < limit && limit < known.high => Standing::CannotTell,
        _ => match (at(known.low), at(known.high)) {
            (true, true) => Standing::Held,
            (false, false) => Standing::Failed,
            _ => Standing::CannotTell,
        },
    }
}

impl Expectation {
    /// Holds it against a record.
    pub fn check(&self, record: &Record) -> Checked {
        let of = |activity| Some(heeding_caveats(self.of_activity(activity, record)?, activity));
        let mut findings: Vec<Finding> = record.activities.iter().filter_map(of).collect();
        if findings.is_empty() {
            findings.push(Finding {
                about: record.world.clone(),
                standing: Standing::CannotTell,
                because: self.nothing_found(record),
            });
        }
        Checked::of(self.to_string(), findings)
    }

    /// What an activity says; `None` where it is not meant or does not have the term.
    fn of_activity(&self, activity: &ActivityRecord, record: &Record) -> Option<Finding> {
        let finding = |about: String, (standing, because): Said| Finding { about, standing, because };
        let (wanted, quantity) = match &self.scope {
            Scope::Any => (None, None),
            Scope::Quantity(quantity) => (None, Some(quantity.as_str())),
            Scope::Name(name) if record.activity(name).is_some() => (Some(name.as_str()), None),
            Scope::Name(name) => (None, Some(name.as_str())),
            Scope::Both(name, quantity) => (Some(name.as_str()), Some(quantity.as_str())),
        };
        if wanted.is_some_and(|name| name != activity.name) {
            return None;
        }
        let name = activity.name.clone();
        let counted = |count: u64| {
            (activity.activations > 0).then(|| {
                let words = format!("{count} of {} activations", activity.activations);
                finding(name.clone(), self.of_count(count, activity.activations, words))
            })
        };
        match &self.term {
            // A name that is no activity's says which time is meant, and these are not of a time.
            term if term.is_of_activity() && quantity.is_some() => None,
            Term::Missed | Term::UpperMissed if activity.deadline.is_none() && activity.missed == 0 => None,
            Term::Missed => counted(activity.missed),
            Term::Skipped => counted(activity.skipped),
            Term::Completed => counted(activity.completed),
            Term::UpperMissed => (activity.activations > 0).then(|| finding(name, self.of_misses(activity))),
            Term::Share => activity.share.as_ref().map(|share| {
                let fraction = share.fraction();
                let words = format!("{} of a CPU", percent(fraction, Rounding::Nearest));
                let known = Known::exactly(fraction, words);
                finding(name, self.of_part(known))
            }),
            Term::Figure(wanted) => activity
                .figures
                .iter()
                .find(|figure| figure.name == *wanted)
                .map(|figure| finding(name, self.of_figure(figure))),
            _ => {
                let (which, distribution) = time_of(activity, quantity)?;
                let about = format!("{name} {which}");
                Some(finding(about, self.of_time(distribution, activity.basis)))
            }
        }
    }

    fn of_count(&self, count: u64, of: u64, words: String) -> Said {
        match self.value {
            Value::Count(limit) => {
                (compare(&Known::exactly(count, String::new()), self.comparison, limit), words)
            }
            // Counts in 64 bits and percent to nine decimals: the quotient's rounding is far below both.
            _ => self.of_part(Known::exactly(count as f64 / of as f64, words)),
        }
    }

    fn of_part(&self, known: Known<f64>) -> Said {
        match self.value {
            Value::Part(limit) => (compare(&known, self.comparison, limit.as_f64()), known.words),
            _ => unknown("it is compared with a percentage"),
        }
    }

    fn of_misses(&self, activity: &ActivityRecord) -> Said {
        if activity.basis != Basis::Sample {
            return unknown("misses that were computed, not sampled, have no confidence bound");
        }
        let (missed, of) = (activity.missed, activity.activations);
        let misses = match activity.misses.trials() == of {
            true => activity.misses.clone(),
            false => Failures::unordered(missed, of),
        };
        let bound = misses.effective().upper(1.0 - CONFIDENCE);
        let words = format!("{missed} of {of} missed: at most {} with 95 % confidence", at_most(bound));
        self.of_part(Known::exactly(bound, words))
    }

    fn of_figure(&self, figure: &Figure) -> Said {
        let unit = figure.unit.as_ref();
        let limit = match (self.value, unit) {
            (Value::Time(time), "ns") => time.get() as f64,
            (Value::Rate(rate), "B/s") => rate.0 as f64,
            (Value::Frequency(frequency), "/s") => frequency.per_second(),
            (Value::Part(part), "%") => part.as_f64() * 100.0,
            (Value::Number(number), "") => number,
            _ => {
                let unit = match unit {
                    "" => "a plain number",
                    "ns" => "a time",
                    unit => unit,
                };
                return unknown(format!("`{}` is {unit}: compare it with one", figure.name));
            }
        };
        if !figure.value.is_finite() {
            return unknown(format!("the value of `{}` is not known", figure.name));
        }
        let words = match unit {
            "ns" => Nanos::from_f64_rounded(figure.value).to_string(),
            unit => format!("{} {unit}", figure.value).trim_end().to_owned(),
        };
        (compare(&Known::exactly(figure.value, String::new()), self.comparison, limit), words)
    }

    fn of_time(&self, distribution: &Distribution, basis: Basis) -> Said {
        match distribution {
            Distribution::Observed(observed) => self.of_observed(observed, basis),
            Distribution::Limits(limits) => self.of_limits(limits),
        }
    }

    fn of_limits(&self, limits: &[(f64, Nanos)]) -> Said {
        let (Term::Quantile(q) | Term::Upper(q), Value::Time(limit)) = (&self.term, self.value) else {
            return unknown("a proof gives upper limits of quantiles, nothing else");
        };
        let Some((_, proven)) = limits.iter().find(|(p, _)| *p >= q.as_f64()) else {
            return unknown(format!("no proof covers the {q} quantile"));
        };
        let words = format!("at most {proven} by proof");
        let known = Known { low: Nanos::new(i64::MIN), high: *proven, words };
        (compare(&known, self.comparison, limit), known.words)
    }

    fn of_observed(&self, observed: &Observed, basis: Basis) -> Said {
        let histogram = &observed.histogram;
        let values = histogram.count();
        if let (Term::Count, Value::Count(limit)) = (&self.term, self.value) {
            let known = Known::exactly(values, String::new());
            return (compare(&known, self.comparison, limit), format!("{values} values"));
        }
        let Value::Time(limit) = self.value else { return unknown("it is compared with a time") };
        if observed.count() == 0 {
            return unknown("there is no value");
        }
        let of_values = |words: String| format!("{words} of {}", values_of(observed));
        let known = match &self.term {
            Term::Quantile(q) => return self.of_quantile(observed, *q, basis, limit),
            Term::Upper(q) | Term::Lower(q) if basis == Basis::Exact => {
                return self.of_quantile(observed, *q, basis, limit);
            }
            Term::Upper(q) | Term::Lower(q) => {
                let (bound, word) = match self.term {
                    Term::Upper(_) => (quantile_upper(observed, q.as_f64(), CONFIDENCE), "at most"),
                    _ => (quantile_lower(observed, q.as_f64(), CONFIDENCE), "at least"),
                };
                match bound {
                    Bound::At(value) => {
                        let order =
                            if observed.has_order() { "" } else { ", their order not known: as independent" };
                        let words = format!("{} with 95 % confidence", end(word, time(value)));
                        Known::exactly(time(value), of_values(words) + order)
                    }
                    Bound::Unbounded { .. } => {
                        return (Standing::Failed, format!("{}: {bound}", values_of(observed)));
                    }
                }
            }
            Term::Max => {
                let (low, high) = observed.range_at_rank(observed.count()).unwrap_or_default();
                Known { low: time(low), high: time(high), words: of_values(came(time(high))) }
            }
            Term::Min => {
                let value = histogram.min().map_or(Nanos::MAX, time);
                Known::exactly(value, of_values(came(value)))
            }
            _ if observed.without_value() > 0 => {
                return unknown(format!("{}: no mean or deviation of all", values_of(observed)));
            }
            _ => {
                let moments = &observed.moments;
                let value = if self.term == Term::Mean { moments.mean() } else { moments.std_dev() };
                let Some(value) = value else { return unknown("one value has no deviation") };
                let words = of_values(Nanos::from_f64_rounded(value).to_string());
                let standing =
                    compare(&Known::exactly(value, String::new()), self.comparison, limit.get() as f64);
                return (standing, words);
            }
        };
        (compare(&known, self.comparison, limit), known.words)
    }

    /// A quantile of the activations themselves, with its two-sided interval beside it where they are a sample.
    fn of_quantile(&self, observed: &Observed, q: Probability, basis: Basis, limit: Nanos) -> Said {
        let q = q.as_f64();
        let range = quantile_rank(q, observed.count()).and_then(|rank| observed.range_at_rank(rank));
        let (Some((low, high)), Some(value)) = (range, observed.quantile(q)) else {
            return unknown("there is no value");
        };
        let mut words = format!("{} of {}", came(value), values_of(observed));
        if basis == Basis::Sample
            && let Some(interval) = quantile_interval(observed, q, CONFIDENCE)
        {
            let end = |bound: Bound| bound.value().map_or("unbounded".to_owned(), |v| came(time(v)));
            words += &format!(" (95 %: {} to {})", end(interval.low), end(interval.high));
        }
        let known = Known { low: time(low), high: time(high), words };
        let standing = compare(&known, self.comparison, limit);
        if standing == Standing::CannotTell {
            let words = format!("{}; it lies between {} and {}", known.words, known.low, came(known.high));
            return (standing, words);
        }
        (standing, known.words)
    }

    /// Why no activity has the term, with what there is.
    fn nothing_found(&self, record: &Record) -> String {
        let names: Vec<&str> = record.activities.iter().map(|a| a.name.as_str()).collect();
        let there = |what: &str, names: &[&str]| match names {
            [] => format!("there is no {what}"),
            _ => format!("there is {}", names.join(", ")),
        };
        // Whose term is wanted; a name alone may be that of a time too, where a time is wanted.
        let (wanted, is_activity) = match &self.scope {
            Scope::Any => (None, true),
            Scope::Both(name, _) => (Some(name.as_str()), true),
            Scope::Name(name) | Scope::Quantity(name) => (Some(name.as_str()), self.term.is_of_activity()),
        };
        let known = wanted.is_none_or(|name| names.contains(&name));
        if let (Some(name), true, false) = (wanted, is_activity, known) {
            return format!("no activity `{name}`: {}", there("activity", &names));
        }
        let meant =
            || record.activities.iter().filter(|a| !known || wanted.is_none_or(|name| name == a.name));
        let nobody_counts = |what: &str| match wanted {
            Some(name) => format!("`{name}` counts no {what}"),
            None => format!("no activity counts {what}"),
        };
        match &self.term {
            Term::Figure(figure) => {
                let figures: Vec<&str> = meant().flat_map(|a| &a.figures).map(|f| f.name.as_str()).collect();
                format!("no figure `{figure}`: {}", there("figure", &figures))
            }
            Term::Missed | Term::UpperMissed => {
                nobody_counts("misses") + ": only activations with a deadline are, and where they are run"
            }
            Term::Skipped | Term::Completed => nobody_counts("activations"),
            Term::Share => match wanted {
                Some(name) => format!("the CPU time of `{name}` was not measured"),
                None => "no activity's CPU time was measured".to_owned(),
            },
            _ => {
                let mut times: Vec<&str> = if known { Vec::new() } else { names.clone() };
                for (word, _) in meant().flat_map(times_of) {
                    if !times.contains(&word) {
                        times.push(word);
                    }
                }
                let said = match &self.scope {
                    Scope::Both(name, time) => format!("no time `{time}` of `{name}`"),
                    Scope::Name(name) if known => format!("it does not say which time of `{name}` is meant"),
                    Scope::Quantity(name) | Scope::Name(name) => format!("no activity or time `{name}`"),
                    Scope::Any => "it does not say which time is meant".to_owned(),
                };
                format!("{said}: {}", there("distribution of times", &times))
            }
        }
    }
}

/// A time, or that it never came.
fn came(value: Nanos) -> String {
    if value == Nanos::MAX { "never".to_owned() } else { value.to_string() }
}

/// A bound in words.
fn end(word: &str, value: Nanos) -> String {
    if value == Nanos::MAX { "without a limit".to_owned() } else { format!("{word} {value}") }
}

/// What a time is taken over: `625 activations, 346 of them skipped or unfinished`.
fn values_of(observed: &Observed) -> String {
    match (observed.never, observed.open) {
        (0, 0) => format!("{} values", observed.count()),
        (never, 0) => format!("{} activations, {never} of them skipped", observed.count()),
        (0, open) => format!("{} activations, {open} of them unfinished", observed.count()),
        (never, open) => {
            format!("{} activations, {never} of them skipped and {open} unfinished", observed.count())
        }
    }
}

/// Every time of an activity with its name.
fn times_of(activity: &ActivityRecord) -> impl Iterator<Item = (&str, &Distribution)> {
    let own = [&activity.response, &activity.latency, &activity.execution];
    let own = QUANTITIES.into_iter().zip(own).filter_map(|(name, d)| Some((name, d.as_ref()?)));
    own.chain(activity.series.iter().map(|(name, d)| (name.as_str(), d)))
}

/// The time that is meant: by its name, else the response, else the latency, else the only one there is.
fn time_of<'a>(activity: &'a ActivityRecord, name: Option<&str>) -> Option<(&'a str, &'a Distribution)> {
    let named = |wanted: &str| times_of(activity).find(|(name, _)| *name == wanted);
    if let Some(name) = name {
        return named(name);
    }
    let only = || {
        let mut times = times_of(activity);
        times.next().filter(|_| times.next().is_none())
    };
    named("response").or_else(|| named("latency")).or_else(only)
}

/// What cannot be said of an activity whose verdicts are withheld.
fn heeding_caveats(finding: Finding, activity: &ActivityRecord) -> Finding {
    match activity.withheld() {
        Some(caveat) => Finding {
            standing: Standing::CannotTell,
            because: format!("{}, but {}", finding.because, caveat.because),
            ..finding
        },
        None => finding,
    }
}
