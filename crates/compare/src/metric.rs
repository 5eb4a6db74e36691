//! [`values_of`]: what one record says, as named numbers that can be compared from run to run.

use surety_model::record::{ActivityRecord, Basis, Distribution, Record};
use surety_stats::bounds::Ranked;
use surety_units::Nanos;

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Times, misses.
    Smaller,
    /// Rates, what a load got.
    Larger,
    /// Nobody said.
    Unknown,
}

/// One number of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub activity: String,
    /// Which: `response p50`.
    pub metric: String,
    /// How much.
    pub value: f64,
    /// In which unit: `ns`, `B/s`, `/s`, `%` for a fraction of one, empty for a count.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Whether it is judged when nobody asked for metrics.
    pub is_default: bool,
    /// The largest relative error it is recorded with.
    pub resolution: f64,
    /// Whether it stands for a time that never came, and is as long as the run.
    pub is_never: bool,
}

impl Value {
    /// Whether the name holds every word of one of the filters: words in any order, in any part of it.
    pub fn is_wanted(&self, filters: &[String]) -> bool {
        if filters.is_empty() {
            return self.is_default;
        }
        let name = format!("{} {}", self.activity, self.metric);
        let holds =
            |filter: &String| filter.split_whitespace().all(|word| name.split(' ').any(|part| part == word));
        filters.iter().any(holds)
    }
}

/// Two neighbouring buckets of a histogram are this far apart: 1/128 of an octave.
const BUCKET: f64 = 1.0 / 128.0;

/// The quantiles there are, and how many activations make them more than a maximum.
pub(crate) const QUANTILES: [(&str, f64, u64); 5] =
    [("p50", 0.5, 2), ("p90", 0.9, 10), ("p95", 0.95, 20), ("p99", 0.99, 100), ("p99.9", 0.999, 1_000)];

/// Every number of a record.
///
/// By default are judged: the quantiles 50, 95 and 99 % of response times, 50 and 99 % of latencies and other series,
/// the median CPU time of a job, the missed part, the share, and every figure. Means, maxima and other quantiles are
/// there for those who ask. Activations that never had a time stand above those that had one.
pub fn values_of(record: &Record) -> Vec<Value> {
    let mut list = Vec::new();
    let never = record.duration.map_or(f64::INFINITY, |duration| duration.get() as f64);
    for activity in &record.activities {
        let mut of = Of { never, activity, list: &mut list };
        of.times("response", activity.response.as_ref(), &["p50", "p95", "p99"]);
        of.times("latency", activity.latency.as_ref(), &["p50", "p99"]);
        of.times("execution", activity.execution.as_ref(), &["p50"]);
        for (name, series) in &activity.series {
            of.times(name, Some(series), &["p50", "p99"]);
        }
        if activity.deadline.is_some() {
            of.add("missed", activity.miss_ratio(), "%", Direction::Smaller, true);
        }
        // Of CPU time a periodic task wants what its jobs need: neither more nor less of it is better.
        let wants_more = activity.activations == 0;
        let direction = if wants_more { Direction::Larger } else { Direction::Unknown };
        of.add("share", activity.share_received(), "%", direction, true);
        let gap = activity.longest_gap.map(|gap| gap.get() as f64);
        of.add("longest gap", gap, "ns", Direction::Smaller, false);
        for figure in &activity.figures {
            let direction = match figure.unit.as_ref() {
                "ns" => Direction::Smaller,
                unit if unit.ends_with("/s") => Direction::Larger,
                _ => Direction::Unknown,
            };
            of.add(&figure.name, Some(figure.value), &figure.unit, direction, true);
        }
    }
    list
}

/// Adds the numbers of one activity.
struct Of<'a, 'l> {
    /// What an activation that never had a time counts as: it is late by as much as the run was long.
    never: f64,
    activity: &'a ActivityRecord,
    list: &'l mut Vec<Value>,
}

impl Of<'_, '_> {
    fn add(&mut self, metric: &str, value: Option<f64>, unit: &str, direction: Direction, is_default: bool) {
        let Some(value) = value.filter(|v| v.is_finite()) else { return };
        self.list.push(Value {
            activity: self.activity.name.clone(),
            metric: metric.to_owned(),
            value,
            unit: unit.to_owned(),
            direction,
            is_default,
            resolution: 0.0,
            is_never: false,
        });
    }

    /// A time; `None`: it never came.
    fn add_time(&mut self, metric: &str, time: Option<f64>, is_default: bool) {
        let before = self.list.len();
        self.add(metric, Some(time.unwrap_or(self.never)), "ns", Direction::Smaller, is_default);
        self.list.iter_mut().skip(before).for_each(|value| value.is_never = time.is_none());
    }

    fn times(&mut self, name: &str, distribution: Option<&Distribution>, default: &[&str]) {
        let Some(distribution) = distribution else { return };
        let observed = distribution.observed();
        let count = observed.map(Ranked::count);
        for (word, q, needs) in QUANTILES {
            let enough = self.activity.basis != Basis::Sample || count.is_none_or(|count| count >= needs);
            let Some(value) = distribution.quantile(q) else { continue };
            let is_default = enough && default.contains(&word);
            let before = self.list.len();
            let time = Some(value.get() as f64).filter(|_| value != Nanos::MAX);
            self.add_time(&format!("{name} {word}"), time, is_default);
            if observed.is_some() {
                self.list.iter_mut().skip(before).for_each(|value| value.resolution = BUCKET);
            }
        }
        // There is no mean of what never came.
        let whole = observed.filter(|o| o.without_value() == 0);
        let mean = whole.and_then(|o| o.moments.mean());
        self.add(&format!("{name} mean"), mean, "ns", Direction::Smaller, false);
        if let Some(observed) = observed.filter(|observed| Ranked::count(*observed) > 0) {
            let max = observed.moments.max().filter(|_| observed.without_value() == 0);
            self.add_time(&format!("{name} max"), max, false);
        }
    }
}

/// The distribution a metric is a quantile of, with the quantile.
pub(crate) fn quantile_of<'a>(activity: &'a ActivityRecord, metric: &str) -> Option<(&'a Distribution, f64)> {
    let (name, word) = metric.rsplit_once(' ')?;
    let (_, q, _) = QUANTILES.into_iter().find(|(known, _, _)| *known == word)?;
    let distribution = match name {
        "response" => activity.response.as_ref(),
        "latency" => activity.latency.as_ref(),
        "execution" => activity.execution.as_ref(),
        name => activity.series.get(name),
    };
    Some((distribution?, q))
}
