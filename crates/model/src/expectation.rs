//! [`Expectation`]: `[ACTIVITY.][QUANTITY.]TERM OP VALUE`, held against records: the gate of a build.
//!
//! A promise is part of a workload and asks for evidence; an expectation is asked of any record, an imported one too,
//! and about what that record holds. [`Expectation::parse`] reads one, [`Expectation::check`] holds it against a
//! record: every activity that has the term must meet it.
//!
//! ```
//! use surety_model::expectation::Expectation;
//!
//! let gate: Expectation = "player.latency.upper(p99.9) < 60us".parse()?;
//! assert_eq!(gate.to_string(), "player.latency.upper(p99.9) < 60us");
//! assert!("p99.9 < 60".parse::<Expectation>().is_err());
//! # Ok::<(), surety_model::expectation::ExpectationError>(())
//! ```

mod change;
mod check;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use surety_units::{Bandwidth, Frequency, Nanos, Probability, QuantityError, Rate};
use thiserror::Error;

use crate::promise::Comparison;
use crate::source::nearest;

pub use change::{Change, Changed, Shift};
pub use check::{Checked, Finding, Standing};

/// What is expected of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// As it was written, without the blanks around it.
    text: String,
    scope: Scope,
    term: Term,
    comparison: Comparison,
    value: Value,
}

/// Which times of which activity.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    /// Every activity that has the term.
    Any,
    /// One time of every activity: `latency.p99`.
    Quantity(String),
    /// The name of an activity, or where there is none of that name, of a series: `clat.p99`.
    Name(String),
    /// Both: `player.latency.p99`.
    Both(String, String),
}

/// One number of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Quantile(Probability),
    Mean,
    Min,
    Max,
    StdDev,
    /// The one-sided 95 % upper bound of a quantile.
    Upper(Probability),
    /// The one-sided 95 % lower bound of a quantile.
    Lower(Probability),
    /// Values of a time.
    Count,
    Missed,
    Skipped,
    Completed,
    Share,
    /// The one-sided 95 % upper bound of the part of the activations that is missed.
    UpperMissed,
    /// A named number.
    Figure(String),
}

impl Term {
    /// Whether it is of an activity, and not of one of its times.
    fn is_of_activity(&self) -> bool {
        use Term::{Completed, Figure, Missed, Share, Skipped, UpperMissed};
        matches!(self, Missed | Skipped | Completed | Share | UpperMissed | Figure(_))
    }
}

/// What it is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Time(Nanos),
    Count(u64),
    Part(Bandwidth),
    Rate(Rate),
    Frequency(Frequency),
    /// A number without a unit.
    Number(f64),
}

/// Why a text is no expectation, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}\n    {text}\n    {caret}", caret = caret(text, span))]
pub struct ExpectationError {
    /// What is wrong, in one sentence.
    pub message: String,
    pub text: String,
    /// Bytes of the text this is about.
    pub span: Range<usize>,
}

/// Marks below a text.
fn caret(text: &str, span: &Range<usize>) -> String {
    let columns = |range: Range<usize>| text.get(range).map_or(0, |part| part.chars().count());
    " ".repeat(columns(0..span.start)) + &"^".repeat(columns(span.clone()).max(1))
}

/// Words of the terms that take no further part.
const WORDS: [(&str, Term); 9] = [
    ("mean", Term::Mean),
    ("min", Term::Min),
    ("max", Term::Max),
    ("stddev", Term::StdDev),
    ("count", Term::Count),
    ("missed", Term::Missed),
    ("skipped", Term::Skipped),
    ("completed", Term::Completed),
    ("share", Term::Share),
];

/// Times every record calls by the same word.
const QUANTITIES: [&str; 3] = ["response", "latency", "execution"];

const COMPARISONS: [Comparison; 5] =
    [Comparison::AtMost, Comparison::AtLeast, Comparison::Equal, Comparison::Below, Comparison::Above];

/// A name or word on the left of the sign.
struct Part {
    text: String,
    quoted: bool,
    span: Range<usize>,
}

impl FromStr for Expectation {
    type Err = ExpectationError;

    fn from_str(text: &str) -> Result<Expectation, ExpectationError> {
        Expectation::parse(text)
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Expectation {
    /// Parses `p99.9 < 50us`, `missed == 0`, `player.latency.upper(p99) <= 1ms`, `"read rate" >= 10MB/s`. Names with
    /// blanks or points stand in quotes; a name in quotes at the term's place is a figure's.
    ///
    /// # Errors
    /// [`ExpectationError`], with the place.
    pub fn parse(text: &str) -> Result<Expectation, ExpectationError> {
        let head = Head::parse(text)?;
        let value = value_of(&head.term, head.value).map_err(|message| head.wrong_value(message))?;
        let Head { text, scope, term, comparison, .. } = head;
        Ok(Expectation { text: text.to_owned(), scope, term, comparison, value })
    }
}

/// All of an expectation but its value.
struct Head<'a> {
    text: &'a str,
    scope: Scope,
    term: Term,
    /// Where the term stands.
    term_at: Range<usize>,
    comparison: Comparison,
    /// What stands behind the sign.
    value: &'a str,
}

impl<'a> Head<'a> {
    fn parse(text: &'a str) -> Result<Head<'a>, ExpectationError> {
        let text = text.trim();
        let wrong =
            |message: String, span: Range<usize>| ExpectationError { message, text: text.to_owned(), span };
        let (mut parts, end) = left_side(text).map_err(|(message, span)| wrong(message, span))?;
        let right = &text[end..];
        let blanks = right.len() - right.trim_start().len();
        let sign_at = end + blanks;
        let sign_length = text[sign_at..].find(|c| !"<>=!".contains(c)).unwrap_or(text.len() - sign_at);
        let sign = &text[sign_at..sign_at + sign_length];
        let Some(comparison) = COMPARISONS.into_iter().find(|c| c.sign() == sign) else {
            let message = format!("after the term comes one of <=, >=, <, >, ==, not `{sign}`");
            return Err(wrong(message, sign_at..sign_at + sign_length));
        };
        let value = text[sign_at + sign_length..].trim_start();
        let Some(last) = parts.pop() else {
            return Err(wrong("an expectation starts with what is measured, such as p99".to_owned(), 0..0));
        };
        let term = term_of(&last).map_err(|message| wrong(message, last.span.clone()))?;
        let is_quantity = |part: &Part| !part.quoted && QUANTITIES.contains(&part.text.as_str());
        let (scope, quantity) = match parts.as_slice() {
            [] => (Scope::Any, None),
            [one] if is_quantity(one) => (Scope::Quantity(one.text.clone()), Some(one)),
            [one] => (Scope::Name(one.text.clone()), None),
            [activity, quantity] => {
                (Scope::Both(activity.text.clone(), quantity.text.clone()), Some(quantity))
            }
            [_, _, third, ..] => {
                let message = "at most an activity and a quantity stand before the term; names with points \
                               are put in quotes"
                    .to_owned();
                return Err(wrong(message, third.span.clone()));
            }
        };
        if let (Some(quantity), true) = (quantity, term.is_of_activity()) {
            let message = format!("`{}` is of an activity, not of one of its times", last.text);
            return Err(wrong(message, quantity.span.clone()));
        }
        Ok(Head { text, scope, term, term_at: last.span, comparison, value })
    }

    fn wrong_value(&self, message: String) -> ExpectationError {
        let span = self.text.len() - self.value.len()..self.text.len();
        ExpectationError { message, text: self.text.to_owned(), span }
    }

    fn wrong_term(&self, message: String) -> ExpectationError {
        ExpectationError { message, text: self.text.to_owned(), span: self.term_at.clone() }
    }
}

/// The names and words before the sign, and where they end.
fn left_side(text: &str) -> Result<(Vec<Part>, usize), (String, Range<usize>)> {
    let mut parts = Vec::new();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let start = at + (rest.len() - rest.trim_start().len());
        let rest = &text[start..];
        let quote = rest.chars().next().filter(|c| *c == '"' || *c == '\'');
        if let Some(quote) = quote {
            let Some(length) = rest[1..].find(quote) else {
                return Err(("this quote has no end".to_owned(), start..text.len()));
            };
            at = start + length + 2;
            let name = rest[1..=length].to_owned();
            parts.push(Part { text: name, quoted: true, span: start..at });
        } else {
            let length = word_length(rest);
            at = start + length;
            if length == 0 {
                let found = rest.chars().next().map_or(0, char::len_utf8);
                let message = "here stands what is measured: p50 to p99.999, median, mean, min, max, stddev, count, \
                               missed, skipped, completed, share, upper(p99), lower(p99), or a name in quotes";
                return Err((message.to_owned(), start..start + found));
            }
            if rest[..length].contains('(') && !rest[..length].ends_with(')') {
                return Err(("this bracket is not closed".to_owned(), start..at));
            }
            parts.push(Part { text: rest[..length].to_owned(), quoted: false, span: start..at });
        }
        let after = text[at..].trim_start();
        match after.strip_prefix('.') {
            Some(beyond) => at = text.len() - beyond.len(),
            None => return Ok((parts, at)),
        }
    }
}

/// Bytes of the word at the start: a quantile takes its point along, a bound its brackets.
fn word_length(text: &str) -> usize {
    let is_plain = |c: char| c.is_alphanumeric() || "_-+/:".contains(c);
    let end = text.find(|c| !is_plain(c)).unwrap_or(text.len());
    let rest = &text[end..];
    if rest.starts_with('(') {
        return end + rest.find(')').map_or(rest.len(), |close| close + 1);
    }
    let digits = |t: &str| t.bytes().take_while(u8::is_ascii_digit).count();
    let is_quantile = text[..end].strip_prefix('p').is_some_and(|d| !d.is_empty() && digits(d) == d.len());
    match rest.strip_prefix('.') {
        Some(fraction) if is_quantile && digits(fraction) > 0 => end + 1 + digits(fraction),
        _ => end,
    }
}

fn quantile_of(word: &str) -> Option<Result<Probability, String>> {
    let digits = word.strip_prefix('p')?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let parsed: Result<Probability, QuantityError> = format!("{digits}%").parse();
    Some(parsed.map_err(|_| format!("`{word}` is no quantile: they go from p0 to p100")))
}

fn term_of(part: &Part) -> Result<Term, String> {
    let word = part.text.as_str();
    if part.quoted {
        return Ok(Term::Figure(word.to_owned()));
    }
    if let Some(quantile) = quantile_of(word) {
        return quantile.map(Term::Quantile);
    }
    if word == "median" {
        return "50%".parse().map(Term::Quantile).map_err(|e: QuantityError| e.to_string());
    }
    if let Some((_, term)) = WORDS.iter().find(|(w, _)| *w == word) {
        return Ok(term.clone());
    }
    if let Some((bound, inner)) = word.strip_suffix(')').and_then(|w| w.split_once('(')) {
        let inner = inner.trim();
        let quantile = quantile_of(inner);
        return match (bound.trim_end(), quantile) {
            ("upper", Some(q)) => q.map(Term::Upper),
            ("lower", Some(q)) => q.map(Term::Lower),
            ("upper", None) if inner == "missed" => Ok(Term::UpperMissed),
            _ => Err("there are upper(pN), lower(pN) and upper(missed)".to_owned()),
        };
    }
    let words = WORDS.iter().map(|(w, _)| *w).chain(["median"]);
    let help = nearest(word, words).map_or_else(
        || {
            "use p50 to p99.999, median, mean, min, max, stddev, count, missed, skipped, completed, share, \
             upper(p99), lower(p99), or a figure's name in quotes"
                .to_owned()
        },
        |near| format!("did you mean {near}?"),
    );
    Err(format!("there is no term `{word}`: {help}"))
}

/// Reads the value a term takes; the error is one sentence.
fn value_of(term: &Term, text: &str) -> Result<Value, String> {
    let words = |e: QuantityError| e.to_string();
    match term {
        Term::Quantile(_)
        | Term::Mean
        | Term::Min
        | Term::Max
        | Term::StdDev
        | Term::Upper(_)
        | Term::Lower(_) => text.parse().map(Value::Time).map_err(words),
        Term::Missed if text.ends_with('%') => text.parse().map(Value::Part).map_err(words),
        Term::Count | Term::Missed | Term::Skipped | Term::Completed => {
            let parsed = text.parse().map(Value::Count);
            parsed.map_err(|_| format!("`{text}` is not a count: this term is compared with a whole number"))
        }
        Term::Share | Term::UpperMissed => text.parse().map(Value::Part).map_err(words),
        Term::Figure(_) => figure_value(text),
    }
}

fn figure_value(text: &str) -> Result<Value, String> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && !text.is_empty();
    if is_number && let Ok(number) = text.parse::<f64>() {
        return Ok(Value::Number(number));
    }
    let time = text.parse().map(Value::Time).ok();
    let rate = || text.parse().map(Value::Rate).ok();
    let frequency = || text.parse().map(Value::Frequency).ok();
    let part = || text.parse().map(Value::Part).ok();
    time.or_else(rate).or_else(frequency).or_else(part).ok_or_else(|| {
        format!("`{text}` is no value: a figure is compared with a time, a rate such as 10MB/s or 5/s, a percentage or a number")
    })
}
