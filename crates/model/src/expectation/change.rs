//! [`Change`]: an expectation about the difference of two sides, `[ACTIVITY.][QUANTITY.]TERM OP CHANGE`.
//!
//! A change is a signed part (`+5%`) or a signed amount (`+50us`), of B against A. The difference of two sides is known to what equal
//! sides differ by: an expectation is *held* when both ends of that range meet it, *failed* when neither does, and
//! between them the runs cannot tell. `upper(p99)` and `lower(p99)` are of the interval of the difference as well.

use std::fmt;
use std::str::FromStr;

use surety_units::{Frequency, Nanos, Rate};

use super::check::{Known, compare};
use super::{Checked, ExpectationError, Finding, Head, QUANTITIES, Scope, Standing, Term};
use crate::promise::Comparison;

/// Quantiles that comparisons have.
const QUANTILES: [&str; 5] = ["p50", "p90", "p95", "p99", "p99.9"];

/// What is expected of the difference of two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    text: String,
    scope: Scope,
    /// The metric's last word, or all of it: `p99`, `missed`, `'read rate'`.
    metric: String,
    is_time: bool,
    end: End,
    comparison: Comparison,
    limit: Limit,
}

/// What of a difference is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Estimate,
    Upper,
    Lower,
}

/// How much more or less.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// A part of A; of a percentage, percentage points as a part of one.
    Part(f64),
    /// Nanoseconds, bytes a second, times a second, or a number: the unit, and how many.
    Amount(&'static str, f64),
}

/// How much more B is, in one measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    pub estimate: f64,
    /// The estimate less and more what equal sides differ by; `None` where that is not known.
    pub floor: Option<(f64, f64)>,
    /// The interval of the difference; `None` with too few runs for one.
    pub interval: Option<(f64, f64)>,
}

/// One metric of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    pub activity: String,
    /// `response p99`, `missed`, a figure's name.
    pub metric: String,
    /// `ns`, `B/s`, `/s`, `%` for a fraction of one, empty for a count.
    pub unit: String,
    /// As a part of A; of a percentage the difference itself. `None` where A is 0.
    pub part: Option<Shift>,
    /// In the unit.
    pub amount: Shift,
    /// The difference with its interval and floor.
    pub words: String,
    /// What is missing where there is no floor or no interval, in words: `too few runs: 4 more of each`.
    pub missing: String,
}

impl FromStr for Change {
    type Err = ExpectationError;

    fn from_str(text: &str) -> Result<Change, ExpectationError> {
        Change::parse(text)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Change {
    /// Parses `p99 <= +5%`, `player.response.p50 < +50us`, `"read rate" >= -2%`, `upper(p99) <= +5%`.
    ///
    /// # Errors
    /// [`ExpectationError`], with the place.
    pub fn parse(text: &str) -> Result<Change, ExpectationError> {
        let head = Head::parse(text)?;
        let (metric, end) = metric_of(&head.term).map_err(|message| head.wrong_term(message))?;
        let is_time = !head.term.is_of_activity();
        let limit = limit_of(&head.term, head.value).map_err(|message| head.wrong_value(message))?;
        let Head { text, scope, comparison, .. } = head;
        Ok(Change { text: text.to_owned(), scope, metric, is_time, end, comparison, limit })
    }

    /// Words that the names of the metrics meant have, so that a comparison has them.
    pub fn words(&self) -> String {
        let before = match &self.scope {
            Scope::Any => String::new(),
            Scope::Quantity(name) | Scope::Name(name) => format!("{name} "),
            Scope::Both(name, quantity) => format!("{name} {quantity} "),
        };
        before + &self.metric
    }

    /// Holds it against the metrics of a comparison.
    pub fn check(&self, metrics: &[Changed]) -> Checked {
        let meant: Vec<&Changed> = metrics.iter().filter(|row| self.is_meant(row, metrics)).collect();
        let mut findings: Vec<Finding> = meant.iter().map(|row| self.of(row)).collect();
        if findings.is_empty() {
            let names: Vec<String> = metrics.iter().map(|r| format!("{} {}", r.activity, r.metric)).collect();
            let there = match names.is_empty() {
                true => "nothing was compared".to_owned(),
                false => format!("there is {}", names.join(", ")),
            };
            findings.push(Finding {
                about: "comparison".to_owned(),
                standing: Standing::CannotTell,
                because: format!("no metric that is in every run is meant: {there}"),
            });
        }
        Checked::of(self.text.clone(), findings)
    }

    /// Whether a metric is meant: of a time without a name the response, else the latency, else the only one.
    fn is_meant(&self, row: &Changed, all: &[Changed]) -> bool {
        let names_activity = |name: &str| all.iter().any(|r| r.activity == name);
        let (activity, quantity) = match &self.scope {
            Scope::Any => (None, None),
            Scope::Quantity(quantity) => (None, Some(quantity.as_str())),
            Scope::Name(name) if names_activity(name) => (Some(name.as_str()), None),
            Scope::Name(name) => (None, Some(name.as_str())),
            Scope::Both(name, quantity) => (Some(name.as_str()), Some(quantity.as_str())),
        };
        if activity.is_some_and(|name| name != row.activity) {
            return false;
        }
        if !self.is_time {
            return quantity.is_none() && row.metric == self.metric;
        }
        let Some(time) = self.time_of(row) else { return false };
        if let Some(quantity) = quantity {
            return time == quantity;
        }
        let times: Vec<&str> =
            all.iter().filter(|r| r.activity == row.activity).filter_map(|r| self.time_of(r)).collect();
        let first = QUANTITIES[..2].iter().find(|name| times.contains(*name));
        first.map_or(times.len() == 1, |first| time == *first)
    }

    /// The time that a metric is of, where it has the term.
    fn time_of<'a>(&self, row: &'a Changed) -> Option<&'a str> {
        row.metric.strip_suffix(&self.metric)?.strip_suffix(' ')
    }

    fn of(&self, row: &Changed) -> Finding {
        let about = format!("{} {}", row.activity, row.metric);
        let said = |standing, because| Finding { about: about.clone(), standing, because };
        let unknown = |why: String| said(Standing::CannotTell, format!("{}: {why}", row.words));
        let (shift, limit) = match self.limit {
            Limit::Part(limit) => match row.part {
                Some(part) => (part, limit),
                None => return unknown("A is 0, so there is no part of it: expect an amount".to_owned()),
            },
            Limit::Amount(unit, limit) if unit == row.unit => (row.amount, limit),
            Limit::Amount(..) if row.unit == "%" => {
                return unknown("it is a percentage: expect points of it, such as +0.1%".to_owned());
            }
            Limit::Amount(..) => {
                return unknown("it is in another unit: expect a part, such as +5%".to_owned());
            }
        };
        let (low, high) = match (self.end, shift.floor, shift.interval) {
            (End::Estimate, Some(range), _) => range,
            (End::Estimate, None, _) => return unknown(row.missing.clone()),
            (End::Upper, Some((_, above)), Some((_, high))) => (above.max(high), above.max(high)),
            (End::Lower, Some((below, _)), Some((low, _))) => (below.min(low), below.min(low)),
            // As everywhere, a bound that so few runs do not give is not met.
            _ => return said(Standing::Failed, format!("{}: {}", row.words, row.missing)),
        };
        let known = Known { low, high, words: row.words.clone() };
        let standing = compare(&known, self.comparison, limit);
        match standing {
            Standing::CannotTell => unknown("the limit is within what equal runs differ by here".to_owned()),
            _ => said(standing, known.words),
        }
    }
}

/// The word of a term in the names of metrics.
fn metric_of(term: &Term) -> Result<(String, End), String> {
    let quantile = |q: &surety_units::Probability| {
        let word = format!("p{}", q.to_string().trim_end_matches(['%', ' ']));
        match QUANTILES.contains(&word.as_str()) {
            true => Ok(word),
            false => Err(format!("comparisons have {}, not {word}", QUANTILES.join(", "))),
        }
    };
    let none = |word: &str| Err(format!("comparisons have no {word}"));
    match term {
        Term::Quantile(q) => Ok((quantile(q)?, End::Estimate)),
        Term::Upper(q) => Ok((quantile(q)?, End::Upper)),
        Term::Lower(q) => Ok((quantile(q)?, End::Lower)),
        Term::Mean => Ok(("mean".to_owned(), End::Estimate)),
        Term::Max => Ok(("max".to_owned(), End::Estimate)),
        Term::Missed => Ok(("missed".to_owned(), End::Estimate)),
        Term::UpperMissed => Ok(("missed".to_owned(), End::Upper)),
        Term::Share => Ok(("share".to_owned(), End::Estimate)),
        Term::Figure(name) => Ok((name.clone(), End::Estimate)),
        Term::Min => none("min"),
        Term::StdDev => none("stddev"),
        Term::Count => none("count"),
        Term::Skipped => none("skipped"),
        Term::Completed => none("completed"),
    }
}

/// Reads a change; the error is one sentence.
fn limit_of(term: &Term, text: &str) -> Result<Limit, String> {
    let (sign, amount) = match text.as_bytes().first() {
        Some(b'-') => (-1.0, &text[1..]),
        Some(b'+') => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let plain = |text: &str| text.starts_with(|c: char| c.is_ascii_digit()).then(|| text.parse::<f64>().ok());
    let number = |text: &str| plain(text).flatten().filter(|n| n.is_finite());
    if let Some(percent) = amount.strip_suffix('%').and_then(|t| number(t.trim_end())) {
        return Ok(Limit::Part(sign * percent / 100.0));
    }
    let time = || amount.parse::<Nanos>().ok().map(|time| Limit::Amount("ns", sign * time.get() as f64));
    let rate = || amount.parse::<Rate>().ok().map(|rate| Limit::Amount("B/s", sign * rate.0 as f64));
    let often = || amount.parse::<Frequency>().ok().map(|rate| Limit::Amount("/s", sign * rate.per_second()));
    let count = || number(amount).map(|n| Limit::Amount("", sign * n));
    let found = match term {
        Term::Figure(_) => count().or_else(time).or_else(rate).or_else(often),
        Term::Missed | Term::UpperMissed | Term::Share => None,
        _ => time(),
    };
    found.ok_or_else(|| {
        let or = match term {
            Term::Figure(_) => ", or an amount with its unit, such as +50us or -2MB/s",
            Term::Missed | Term::UpperMissed | Term::Share => " (points)",
            _ => ", or a time, such as +50us",
        };
        format!("`{text}` is no change: it is a part, such as +5%{or}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(activity: &str, metric: &str, estimate: f64, floor: f64, interval: Option<(f64, f64)>) -> Changed {
        let part = Shift { estimate, floor: Some((estimate - floor, estimate + floor)), interval };
        let scaled = |(a, b): (f64, f64)| (a * 1e6, b * 1e6);
        Changed {
            activity: activity.to_owned(),
            metric: metric.to_owned(),
            unit: "ns".to_owned(),
            part: Some(part),
            amount: Shift {
                estimate: estimate * 1e6,
                floor: part.floor.map(scaled),
                interval: interval.map(scaled),
            },
            words: "words".to_owned(),
            missing: "too few runs".to_owned(),
        }
    }

    fn standing(text: &str, rows: &[Changed]) -> Standing {
        text.parse::<Change>().unwrap_or_else(|e| panic!("{e}")).check(rows).standing
    }

    /// Held and failed need both ends beside the limit; a limit between them cannot be told.
    #[test]
    fn a_change_is_known_to_the_floor() {
        use Standing::{CannotTell, Failed, Held};
        let rows = [row("a", "response p99", 0.04, 0.008, Some((0.01, 0.07)))];
        for (text, expected) in [
            ("p99 <= +5%", Held),
            ("p99 <= 5%", Held),
            ("p99 <= +3%", Failed),
            ("p99 <= +4%", CannotTell),
            ("p99 < +50us", Held),
            ("p99 <= +30us", Failed),
            ("p99 >= -5%", Held),
            ("upper(p99) <= +5%", Failed),
            ("upper(p99) <= +7.1%", Held),
            ("lower(p99) >= +0.9%", Held),
            ("a.response.p99 <= +5%", Held),
            ("b.response.p99 <= +5%", CannotTell),
            ("latency.p99 <= +5%", CannotTell),
            ("p50 <= +5%", CannotTell),
            ("missed <= +1%", CannotTell),
        ] {
            assert_eq!(standing(text, &rows), expected, "{text}");
        }
        let few =
            [Changed { part: Some(Shift { estimate: 0.0, floor: None, interval: None }), ..rows[0].clone() }];
        assert_eq!(standing("p99 <= +5%", &few), CannotTell);
        assert_eq!(standing("upper(p99) <= +5%", &few), Failed);
        let of_nothing = [Changed { part: None, ..rows[0].clone() }];
        assert_eq!(standing("p99 <= +5%", &of_nothing), CannotTell);
        assert_eq!(standing("p99 <= +50us", &of_nothing), Held);
    }

    /// Without a name the response is meant, else the latency, else the only time there is; every activity has to hold.
    #[test]
    fn which_metrics_are_meant() {
        let rows = [
            row("a", "response p99", 0.0, 0.0, None),
            row("a", "latency p99", 9.0, 0.0, None),
            row("b", "latency p99", 0.0, 0.0, None),
            row("c", "read clat p99", 0.0, 0.0, None),
            row("d", "x p99", 9.0, 0.0, None),
            row("d", "y p99", 9.0, 0.0, None),
        ];
        let checked = "p99 <= +5%".parse::<Change>().unwrap().check(&rows);
        let about: Vec<&str> = checked.findings.iter().map(|f| f.about.as_str()).collect();
        assert_eq!(about, ["a response p99", "b latency p99", "c read clat p99"]);
        assert_eq!(checked.standing, Standing::Held);
        assert_eq!(standing("latency.p99 <= +5%", &rows), Standing::Failed);
        assert_eq!(standing("'read clat'.p99 <= +5%", &rows), Standing::Held);
    }

    #[test]
    fn slips_are_refused_with_their_place() {
        for (text, said, at) in [
            ("p99 <= 5", "`5` is no change: it is a part, such as +5%, or a time", 7..8),
            ("p98 <= +5%", "comparisons have p50, p90, p95, p99, p99.9, not p98", 0..3),
            ("count == 0", "comparisons have no count", 0..5),
            ("missed <= +5", "(points)", 10..12),
            ("p99 <= +-5%", "is no change", 7..11),
        ] {
            let error = text.parse::<Change>().unwrap_err();
            assert!(error.message.contains(said), "{text}: {error}");
            assert_eq!(error.span, at, "{text}");
        }
        assert_eq!("a.latency.p99 < +1%".parse::<Change>().unwrap().words(), "a latency p99");
    }
}
