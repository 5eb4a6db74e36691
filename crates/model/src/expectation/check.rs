//! An expectation held against a record.
//!
//! Times come from histograms, so a value is known to a bucket only: an expectation is *held* when both ends of the
//! bucket meet it, *failed* when neither does, and between them the record cannot tell. A bound of a quantile is
//! the order statistic of `surety_stats::bounds`; where the values are too few for one, the expectation is not met and
//! the finding says how many more it takes.

use std::fmt;

use surety_stats::bounds::{Bound, quantile_interval, quantile_lower, quantile_upper};
use surety_stats::intervals::failure_upper;
use surety_stats::quantile_rank;
use surety_units::{Nanos, Probability};

use super::{Expectation, QUANTITIES, Scope, Term, Value};
use crate::promise::Comparison;
use crate::record::{ActivityRecord, Basis, Distribution, Figure, Observed, Record};
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
    /// What was expected.
    pub expectation: Expectation,
    /// The worst of the findings: failed, then cannot tell, then held.
    pub standing: Standing,
    /// One for each activity that has the term; one that says why when none has. Never empty.
    pub findings: Vec<Finding>,
}

/// What is known of a number: it lies between two values.
struct Known<T> {
    low: T,
    high: T,
    /// The value with its interval.
    words: String,
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
fn compare<T: PartialOrd + Copy>(known: &Known<T>, comparison: Comparison, limit: T) -> Standing {
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
        let mut findings: Vec<Finding> =
            record.activities.iter().filter_map(|activity| self.of_activity(activity, record)).collect();
        if findings.is_empty() {
            findings.push(Finding {
                about: record.world.clone(),
                standing: Standing::CannotTell,
                because: self.nothing_found(record),
            });
        }
        let standing = findings.iter().map(|f| f.standing).max().unwrap_or(Standing::CannotTell);
        Checked { expectation: self.clone(), standing, findings }
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
            Term::Missed
            | Term::Skipped
            | Term::Completed
            | Term::Share
            | Term::UpperMissed
            | Term::Figure(_)
                if quantity.is_some() =>
            {
                None
            }
            Term::Missed | Term::UpperMissed if activity.deadline.is_none() && activity.missed == 0 => None,
            Term::Missed => counted(activity.missed),
            Term::Skipped => counted(activity.skipped),
            Term::Completed => counted(activity.completed),
            Term::UpperMissed => (activity.activations > 0).then(|| finding(name, self.of_misses(activity))),
            Term::Share => activity.share.as_ref().map(|share| {
                let fraction = share.fraction();
                let known = Known::exactly(fraction, format!("{:.2} % of a CPU", fraction * 100.0));
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
        let bound = failure_upper(missed, of, CONFIDENCE);
        let words = format!("{missed} of {of} missed: at most {:.4} % with 95 % confidence", bound * 100.0);
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
        let known = match self.term {
            Term::Upper(_) => Known::exactly(*proven, format!("at most {proven} by proof")),
            _ => Known {
                low: Nanos::new(i64::MIN),
                high: *proven,
                words: format!("at most {proven} by proof"),
            },
        };
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
        if values == 0 {
            return unknown("there is no value");
        }
        // No time of 2^63 ns was ever waited for.
        let time = |ns: u64| Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX));
        let of_values = |words: String| format!("{words} of {values} values");
        let known = match &self.term {
            Term::Quantile(q) => return self.of_quantile(observed, *q, basis, limit),
            Term::Upper(q) | Term::Lower(q) if basis == Basis::Exact => {
                return self.of_quantile(observed, *q, basis, limit);
            }
            Term::Upper(q) | Term::Lower(q) => {
                let (bound, word) = match self.term {
                    Term::Upper(_) => (quantile_upper(histogram, q.as_f64(), CONFIDENCE), "most"),
                    _ => (quantile_lower(histogram, q.as_f64(), CONFIDENCE), "least"),
                };
                match bound {
                    Bound::At(value) => Known::exactly(
                        time(value),
                        of_values(format!("at {word} {} with 95 % confidence", time(value))),
                    ),
                    Bound::Unbounded { .. } => {
                        return (Standing::Failed, format!("{values} values: {bound}"));
                    }
                }
            }
            Term::Min | Term::Max => {
                let value = if self.term == Term::Min { histogram.min() } else { histogram.max() };
                let value = time(value.unwrap_or_default());
                Known::exactly(value, of_values(value.to_string()))
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

    /// A quantile of the values themselves, with its two-sided interval beside it where they are a sample.
    fn of_quantile(&self, observed: &Observed, q: Probability, basis: Basis, limit: Nanos) -> Said {
        let histogram = &observed.histogram;
        let q = q.as_f64();
        let range = quantile_rank(q, histogram.count()).and_then(|rank| histogram.range_at_rank(rank));
        let (Some((low, high)), Some(value)) = (range, histogram.quantile(q)) else {
            return unknown("there is no value");
        };
        let time = |ns: u64| Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX));
        let mut words = format!("{} of {} values", time(value), histogram.count());
        if basis == Basis::Sample
            && let Some(interval) = quantile_interval(histogram, q, CONFIDENCE)
        {
            let end = |bound: Bound| bound.value().map_or("unbounded".to_owned(), |v| time(v).to_string());
            words += &format!(" (95 %: {} to {})", end(interval.low), end(interval.high));
        }
        let known = Known { low: time(low), high: time(high), words };
        let standing = compare(&known, self.comparison, limit);
        if standing == Standing::CannotTell {
            let words = format!("{}; it lies between {} and {}", known.words, known.low, known.high);
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
        if let Scope::Both(name, _) = &self.scope
            && !names.contains(&name.as_str())
        {
            return format!("no activity `{name}`: {}", there("activity", &names));
        }
        match (&self.scope, &self.term) {
            (_, Term::Figure(figure)) => {
                let figures: Vec<&str> =
                    record.activities.iter().flat_map(|a| &a.figures).map(|f| f.name.as_str()).collect();
                format!("no figure `{figure}`: {}", there("figure", &figures))
            }
            (_, Term::Missed | Term::UpperMissed) => {
                "no activity counts misses: activations without a deadline cannot miss it".to_owned()
            }
            (_, Term::Skipped | Term::Completed) => "no activity counts activations".to_owned(),
            (_, Term::Share) => "no activity's CPU time was measured".to_owned(),
            _ => {
                let mut times: Vec<&str> = Vec::new();
                for activity in &record.activities {
                    for (word, _) in times_of(activity) {
                        if !times.contains(&word) {
                            times.push(word);
                        }
                    }
                }
                let wanted = match &self.scope {
                    Scope::Quantity(name) | Scope::Name(name) | Scope::Both(_, name) => {
                        format!("no activity or time `{name}`")
                    }
                    Scope::Any => "it does not say which time is meant".to_owned(),
                };
                format!("{wanted}: {}", there("distribution of times", &times))
            }
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
