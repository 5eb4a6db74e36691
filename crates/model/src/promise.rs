//! [`Promise`]: `METRIC OP VALUE [@ PERCENT] [over DURATION]`.

use std::fmt;
use std::ops::Range;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use surety_units::{Bandwidth, Frequency, Nanos, Probability, QuantityError, Rate};
use thiserror::Error;

pub use crate::metric::Metric;
use crate::metric::{Dimension, METRICS, MetricRow};

/// How the metric is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `>`
    Above,
    /// `==`
    Equal,
}

const COMPARISONS: &[(&str, Comparison)] = &[
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("<", Comparison::Below),
    (">", Comparison::Above),
];

impl Comparison {
    /// Its sign.
    pub fn sign(self) -> &'static str {
        COMPARISONS
            .iter()
            .find(|(_, c)| *c == self)
            .map(|(s, _)| *s)
            .expect("every comparison is in the table")
    }

    /// Whether `left SIGN right` holds.
    pub fn holds<T: PartialOrd>(self, left: &T, right: &T) -> bool {
        match self {
            Comparison::AtMost => left <= right,
            Comparison::AtLeast => left >= right,
            Comparison::Below => left < right,
            Comparison::Above => left > right,
            Comparison::Equal => left == right,
        }
    }
}

/// What the metric is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    Time(Nanos),
    /// A count of things.
    Count(u64),
    /// A share of one CPU.
    Share(Bandwidth),
    /// Bytes per second.
    Rate(Rate),
    /// Events per second.
    Frequency(Frequency),
    /// This many thousandths of what the idle machine gives: `1.2x idle` is 1200.
    TimesIdle(u64),
}

/// What was promised about one activity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    pub metric: Metric,
    /// In which direction.
    pub comparison: Comparison,
    /// How much.
    pub bound: Bound,
    /// For which fraction of the planned activations in the long run; `None`: for every one.
    pub at: Option<Probability>,
    /// In every window of this length; `None`: over the run.
    pub over: Option<Nanos>,
}

/// In files a promise is its text.
impl Serialize for Promise {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From its text.
impl<'de> Deserialize<'de> for Promise {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Promise, D::Error> {
        let text = String::deserialize(deserializer)?;
        Promise::parse(&text).map_err(|error| D::Error::custom(format!("the promise `{text}`: {error}")))
    }
}

/// Why a text is no promise, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct PromiseError {
    /// What is wrong, in one sentence.
    pub message: String,
    /// Bytes of the promise's text this is about.
    pub span: Range<usize>,
}

impl Promise {
    /// Parses `"response <= 40ms @ 99%"`, `"share >= 25% over 1s"`, `"lost == 0"`, `"startup <= 1.2x idle"`.
    pub fn parse(text: &str) -> Result<Promise, PromiseError> {
        let mut cursor = Cursor { text, at: 0 };
        let (word, span) = cursor.take_while(|c| c.is_ascii_alphabetic());
        let Some(MetricRow { metric, dimension, .. }) = METRICS.iter().find(|row| row.word == word) else {
            let words: Vec<&str> = METRICS.iter().map(|row| row.word).collect();
            let message = if word.is_empty() {
                format!("a promise starts with what is measured: one of {}", words.join(", "))
            } else {
                format!("`{word}` is nothing a promise can be about: use one of {}", words.join(", "))
            };
            return Err(PromiseError { message, span });
        };
        let (sign, span) = cursor.take_while(|c| "<>=!".contains(c));
        let Some((_, comparison)) = COMPARISONS.iter().find(|(s, _)| *s == sign) else {
            return Err(PromiseError {
                message: format!("after `{word}` comes one of <=, >=, <, >, ==, not `{sign}`"),
                span,
            });
        };
        let (value, span) = cursor.take_until(&["@", " over "]);
        let bound =
            parse_bound(*metric, value).map_err(|message| PromiseError { message, span: span.clone() })?;
        if value.contains("idle") && *dimension != (Dimension::Time { idle: true }) {
            return Err(PromiseError {
                message: format!("`{word}` has no idle reference to compare with"),
                span,
            });
        }
        let mut at = None;
        if cursor.eat("@") {
            let (percent, span) = cursor.take_until(&[" over "]);
            let parsed: Result<Probability, _> = percent.parse();
            let probability =
                parsed.map_err(|e| PromiseError { message: e.to_string(), span: span.clone() })?;
            if probability == Probability::ZERO {
                let message = "a promise at 0% promises nothing".to_owned();
                return Err(PromiseError { message, span });
            }
            at = (probability != Probability::ONE).then_some(probability);
        }
        let mut over = None;
        if cursor.eat("over ") {
            let (duration, span) = cursor.take_until(&[]);
            let parsed: Result<Nanos, QuantityError> = duration.parse();
            let window = parsed.map_err(|e| PromiseError { message: e.to_string(), span: span.clone() })?;
            if !window.is_positive() {
                let message = "a window has to be longer than nothing".to_owned();
                return Err(PromiseError { message, span });
            }
            over = Some(window);
        }
        let (rest, span) = cursor.take_until(&[]);
        if !rest.is_empty() {
            return Err(PromiseError { message: format!("`{rest}` after the promise's end"), span });
        }
        Ok(Promise { metric: *metric, comparison: *comparison, bound, at, over })
    }

    /// `response <= T`, of every activation.
    pub const fn response_within(limit: Nanos) -> Promise {
        let (metric, comparison) = (Metric::Response, Comparison::AtMost);
        Promise { metric, comparison, bound: Bound::Time(limit), at: None, over: None }
    }

    /// The time limit of a `response <= T` or `< T` promise.
    pub fn response_limit(&self) -> Option<Nanos> {
        match (self.metric, self.comparison, self.bound) {
            (Metric::Response, Comparison::AtMost | Comparison::Below, Bound::Time(limit)) => Some(limit),
            _ => None,
        }
    }
}

/// Reads the value a metric takes; the error is one sentence.
fn parse_bound(metric: Metric, value: &str) -> Result<Bound, String> {
    if let Some(factor) = value.strip_suffix("idle") {
        let factor = factor.trim_end();
        let digits = factor.strip_suffix('x').ok_or("write the factor as `1.2x idle`")?;
        return parse_thousandths(digits.trim()).map(Bound::TimesIdle);
    }
    let text = |e: QuantityError| e.to_string();
    match metric.row().dimension {
        Dimension::Time { .. } => value.parse().map(Bound::Time).map_err(text),
        Dimension::Share => value.parse().map(Bound::Share).map_err(text),
        Dimension::Rate if value.ends_with("B/s") || value.ends_with("bit/s") => {
            value.parse().map(Bound::Rate).map_err(text)
        }
        Dimension::Rate => value.parse().map(Bound::Frequency).map_err(text),
        Dimension::Count => value.parse().map(Bound::Count).map_err(|_| {
            format!("`{value}` is not a count: `{}` is compared with a whole number", metric.word())
        }),
    }
}

fn parse_thousandths(digits: &str) -> Result<u64, String> {
    let wrong = || format!("`{digits}` is not a factor such as 1.2");
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 3 || !is_number(whole) || !is_number(fraction) {
        return Err(wrong());
    }
    format!("{whole}{fraction:0<3}").parse().map_err(|_| wrong())
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> (&'a str, Range<usize>) {
        self.skip_space();
        let rest = &self.text[self.at..];
        let length = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        let span = self.at..self.at + length;
        self.at = span.end;
        (&self.text[span.clone()], span)
    }

    fn take_until(&mut self, stops: &[&str]) -> (&'a str, Range<usize>) {
        self.skip_space();
        let rest = &self.text[self.at..];
        let length = stops.iter().filter_map(|s| rest.find(s)).min().unwrap_or(rest.len());
        let kept = rest[..length].trim_end();
        let span = self.at..self.at + kept.len();
        self.at += length;
        (kept, span)
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Time(time) => f.write_str(&time.to_exact_string()),
            Bound::Count(count) => write!(f, "{count}"),
            Bound::Share(share) => {
                f.write_str(&share.to_exact_percent().unwrap_or_else(|| format!("{share}").replace(' ', "")))
            }
            Bound::Rate(rate) => f.write_str(&rate.to_exact_string()),
            Bound::Frequency(frequency) => f.write_str(&frequency.to_exact_string()),
            Bound::TimesIdle(thousandths) => {
                let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
                write!(f, "{}x idle", text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

impl fmt::Display for Promise {
    /// The text that parses to the same promise.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.metric.word(), self.comparison.sign(), self.bound)?;
        if let Some(at) = self.at {
            write!(f, " @ {at}")?;
        }
        if let Some(over) = self.over {
            write!(f, " over {}", over.to_exact_string())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_files_a_promise_is_its_text_and_no_other_text_is_one() {
        for text in ["response <= 40ms @ 99%", "share >= 25% over 1s", "lost == 0", "startup <= 1.2x idle"] {
            let json = serde_json::to_string(&Promise::parse(text).unwrap()).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Promise>(&json).unwrap().to_string(), text);
        }
        let error = serde_json::from_str::<Promise>("\"respons <= 1ms\"").unwrap_err().to_string();
        assert!(error.contains("the promise `respons <= 1ms`"), "{error}");
    }

    #[test]
    fn promises_read_back() {
        for text in [
            "response <= 40ms @ 99%",
            "share >= 25%",
            "share >= 33.3% over 1s",
            "lost == 0",
            "late == 0",
            "startup <= 1.2x idle",
            "rate >= 1MB/s",
            "rate >= 30/s @ 95% over 2s",
            "latency < 50us @ 99.9%",
            "completion <= 3s",
        ] {
            let promise = Promise::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(promise.to_string(), text);
        }
        let within = Promise::response_within(Nanos::from_millis(40));
        assert_eq!(Promise::parse("response <= 40ms").unwrap(), within);
        let spaced = Promise::parse("  response<=40ms@99%  ").unwrap();
        assert_eq!(spaced.to_string(), "response <= 40ms @ 99%");
    }

    #[test]
    fn errors_point_at_the_word() {
        for (text, span, word) in [
            ("respons <= 40ms", 0..7, "respons"),
            ("response = 40ms", 9..10, "<="),
            ("response <= 40", 12..14, "unit"),
            ("response <= 40ms @ 101%", 19..23, "100%"),
            ("response <= 40ms @ 99% often", 19..28, "unit"),
            ("lost == none", 8..12, "count"),
            ("share >= 25% over 0s", 18..20, "longer"),
            ("share >= 1.2x idle", 9..18, "idle"),
            ("", 0..0, "starts"),
        ] {
            let error = Promise::parse(text).unwrap_err();
            assert_eq!(error.span, span, "{text}: {error}");
            assert!(error.message.contains(word), "{text}: {error}");
        }
    }
}
