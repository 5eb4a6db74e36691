//! From buckets and extremes to distributions, and from those to a record.

use std::collections::BTreeMap;

use surety_model::record::{ActivityRecord, Basis, Distribution, Figure, InForce, Observed, Record};
use surety_model::workload::ActivityKind;
use surety_stats::Histogram;
use surety_units::Nanos;

/// More columns, threads or jobs than this are no result of a measurement. Bounds memory: a histogram takes 34 KiB.
pub(crate) const COLUMNS_MAX: usize = 1024;

/// What a program counted of one time.
#[derive(Default)]
pub(crate) struct Counts {
    /// Smallest value, largest value (nanoseconds, inclusive), how many.
    pub(crate) buckets: Vec<(u64, u64, u64)>,
    /// Samples counted beyond the last bucket.
    pub(crate) beyond: u64,
    /// The exact extremes, where the program tells them.
    pub(crate) min: Option<u64>,
    pub(crate) max: Option<u64>,
}

impl Counts {
    /// How many values there are, those beyond the last bucket included.
    pub(crate) fn total(&self) -> Result<u64, String> {
        let counts = self.buckets.iter().map(|(_, _, count)| *count).chain([self.beyond]);
        counts
            .into_iter()
            .try_fold(0u64, u64::checked_add)
            .ok_or_else(|| "more than 2^64 - 1 values".to_owned())
    }

    /// The distribution; `None` without a value. What degrades it goes to `degraded`.
    pub(crate) fn distribution(
        mut self,
        what: &str,
        degraded: &mut Vec<String>,
    ) -> Result<Option<Distribution>, String> {
        let total = self.total()?;
        if total == 0 {
            return Ok(None);
        }
        if total == self.beyond {
            degraded.push(format!(
                "{what}: all {total} samples lie beyond the last bucket: no quantile is known"
            ));
            return Ok(None);
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            return Err(format!("{what}: its smallest value, {min} ns, is above its largest, {max} ns"));
        }
        self.buckets.retain(|(_, _, count)| *count > 0);
        self.buckets.sort_unstable();
        let (first, last) = (self.buckets.first().copied(), self.buckets.last().copied());
        let (least, most) = (self.min.unwrap_or(0), self.max.unwrap_or(u64::MAX));
        let fits =
            first.is_none_or(|(_, high, _)| least <= high) && last.is_none_or(|(low, _, _)| low <= most);
        if !fits {
            return Err(format!("{what}: its buckets and its extremes contradict each other"));
        }
        let mut histogram = Histogram::new();
        for (index, (low, high, count)) in self.buckets.into_iter().enumerate() {
            let mut rest = count;
            // The smallest value is known exactly and lies in the first bucket.
            if index == 0 && self.min.is_some_and(|min| low <= min) {
                histogram.record(least);
                rest -= 1;
            }
            histogram.record_n(high.clamp(least, most), rest);
        }
        if self.beyond > 0 {
            let (value, known) = match self.max {
                Some(max) => (max, format!("each counts as the largest, {}", shown(max))),
                None => (Histogram::LIMIT.max(least), "not even their largest is known".to_owned()),
            };
            histogram.record_n(value, self.beyond);
            degraded.push(format!(
                "{what}: {} of {total} samples lie beyond the last bucket, so the tail is not known: {known}",
                self.beyond
            ));
        }
        Ok(Some(Distribution::from(Observed::of_histogram(histogram))))
    }

    /// Adds what another thread counted.
    pub(crate) fn merge(&mut self, other: &Counts) {
        self.buckets.extend(&other.buckets);
        self.beyond = self.beyond.saturating_add(other.beyond);
        // Extremes of all are known where those of each are; a part without values has none.
        if other.buckets.iter().any(|(_, _, count)| *count > 0) || other.beyond > 0 {
            self.min = min_of(self.min, other.min);
            self.max = self.max.max(other.max);
        }
    }
}

fn min_of(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

fn nanos(ns: u64) -> Nanos {
    Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX))
}

fn shown(ns: u64) -> String {
    nanos(ns).to_string()
}

/// A record in the making.
pub(crate) struct Assembly {
    tool: String,
    duration: Option<Nanos>,
    kernel: String,
    environment: BTreeMap<String, String>,
    degraded: Vec<String>,
    activities: Vec<ActivityRecord>,
}

impl Assembly {
    pub(crate) fn new(tool: &str) -> Assembly {
        Assembly {
            tool: tool.to_owned(),
            duration: None,
            kernel: String::new(),
            environment: BTreeMap::new(),
            degraded: Vec::new(),
            activities: Vec::new(),
        }
    }

    /// Something a reader needs to judge the numbers.
    pub(crate) fn say(&mut self, name: &str, value: impl Into<String>) {
        self.environment.insert(name.to_owned(), value.into());
    }

    /// Something that degrades the record.
    pub(crate) fn doubt(&mut self, why: impl Into<String>) {
        self.degraded.push(why.into());
    }

    pub(crate) fn kernel(&mut self, release: &str) {
        release.clone_into(&mut self.kernel);
    }

    /// The longest of the durations told.
    pub(crate) fn lasted(&mut self, seconds: f64) {
        if seconds.is_finite() && seconds > 0.0 {
            self.duration = self.duration.max(Some(Nanos::from_f64_rounded(seconds * 1e9)));
        }
    }

    /// The activity of that name, made where there is none.
    pub(crate) fn activity(&mut self, name: &str) -> &mut ActivityRecord {
        let at = self.activities.iter().position(|a| a.name == name).unwrap_or_else(|| {
            self.activities.push(ActivityRecord::new(name, ActivityKind::Probe, Basis::Sample));
            self.activities.len() - 1
        });
        &mut self.activities[at]
    }

    /// One time that is the latency of an activity: a wake-up for each value.
    pub(crate) fn latency(&mut self, name: &str, counts: Counts) -> Result<(), String> {
        let total = counts.total()?;
        let distribution = counts.distribution(name, &mut self.degraded)?;
        let activity = self.activity(name);
        activity.activations = total;
        activity.completed = total;
        activity.latency = distribution;
        Ok(())
    }

    /// One time that is the response of an activity: an activation for each value.
    pub(crate) fn response(&mut self, name: &str, counts: Counts) -> Result<(), String> {
        let total = counts.total()?;
        let distribution = counts.distribution(name, &mut self.degraded)?;
        let activity = self.activity(name);
        activity.activations = total;
        activity.completed = total;
        activity.response = distribution;
        Ok(())
    }

    /// Every response of an activity, in the order they were taken. Without a value there is none.
    pub(crate) fn responses(&mut self, name: &str, values: &[u64]) {
        let mut observed = Observed::default();
        values.iter().for_each(|ns| observed.record(nanos(*ns)));
        let activity = self.activity(name);
        activity.activations = values.len() as u64;
        activity.completed = activity.activations;
        activity.response = (!values.is_empty()).then(|| Distribution::from(observed));
    }

    /// One of several times of an activity. A series without a value is left out.
    pub(crate) fn series(&mut self, name: &str, series: &str, counts: Counts) -> Result<(), String> {
        let distribution = counts.distribution(&format!("{name}, {series}"), &mut self.degraded)?;
        let activity = self.activity(name);
        if let Some(distribution) = distribution {
            activity.series.insert(series.to_owned(), distribution);
        }
        Ok(())
    }

    /// A named number; one that is not finite is left out.
    pub(crate) fn figure(&mut self, name: &str, figure: &str, value: f64, unit: &'static str) {
        if value.is_finite() {
            let figure = Figure { name: figure.to_owned(), value, unit: unit.into() };
            self.activity(name).figures.push(figure);
        }
    }

    /// Threads of one program: an activity for each, and before them one for all, where there are several.
    pub(crate) fn threads(&mut self, threads: Vec<(String, Counts)>) -> Result<(), String> {
        if threads.len() > 1 {
            let mut all = Counts::default();
            threads.iter().for_each(|(_, counts)| all.merge(counts));
            // The doubts are said once, by the threads they are about.
            let doubts = self.degraded.len();
            self.latency("all threads", all)?;
            self.degraded.truncate(doubts);
        }
        threads.into_iter().try_for_each(|(name, counts)| self.latency(&name, counts))
    }

    pub(crate) fn record(self) -> Record {
        let in_force = InForce { kernel: self.kernel, environment: self.environment, ..InForce::default() };
        Record {
            world: self.tool,
            reserved: false,
            seed: None,
            duration: self.duration,
            in_force,
            degraded: self.degraded,
            activities: self.activities,
            trace: None,
            hash: None,
        }
    }
}
