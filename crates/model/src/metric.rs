//! [`Metric`]: what a promise can be about, one row for each.

use crate::kind::ActivityKind;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Metric {
    /// Release to completion of a job.
    Response,
    /// Release to start of a job.
    Latency,
    /// Part of one CPU.
    Share,
    /// Bytes or events per second.
    Rate,
    /// Time until the whole is done.
    Completion,
    /// Time until a started program is ready.
    Startup,
    /// Reads or jobs that came too late.
    Late,
    /// Requests a device had to drop.
    Lost,
    /// Activations whose deadline passed, skipped ones included.
    Missed,
    /// Frames or activations given up.
    Dropped,
}

/// What a metric is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A time; of one that may have been measured on the idle machine also a multiple of that.
    Time {
        /// Whether it may.
        idle: bool,
    },
    /// A share of one CPU.
    Share,
    /// Bytes or events per second.
    Rate,
    /// A whole number.
    Count,
}

/// What was counted of an activity.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub kind: ActivityKind,
    /// Planned activations.
    pub planned: u64,
    /// Of those, done before the end of the run.
    pub completed: u64,
    /// Of those, given up or lost.
    pub skipped: u64,
    /// Of those, past their deadline: late, skipped, or open beyond it.
    pub missed: u64,
    /// Whether each activation has its times.
    pub is_stamped: bool,
}

/// A metric with everything that is its own.
#[derive(Debug)]
pub struct MetricRow {
    pub metric: Metric,
    /// Its word in a promise.
    pub word: &'static str,
    /// What it is compared with.
    pub dimension: Dimension,
    /// Whether every activity with jobs has it.
    pub of_jobs: bool,
    /// The other kinds of activity that have it.
    pub kinds: &'static [ActivityKind],
    /// A count, from those of an activity; `None`: it is none of them.
    pub count: fn(Counts) -> Option<u64>,
}

const fn row(
    metric: Metric,
    word: &'static str,
    dimension: Dimension,
    of_jobs: bool,
    kinds: &'static [ActivityKind],
) -> MetricRow {
    MetricRow { metric, word, dimension, of_jobs, kinds, count: |_| None }
}

/// Every metric.
pub const METRICS: &[MetricRow] = {
    use ActivityKind::{Flow, Irq, Load, Stream};
    &[
        row(Metric::Response, "response", Dimension::Time { idle: true }, true, &[]),
        row(Metric::Latency, "latency", Dimension::Time { idle: false }, true, &[]),
        row(Metric::Share, "share", Dimension::Share, true, &[Load]),
        row(Metric::Rate, "rate", Dimension::Rate, false, &[Irq, Stream, Flow, Load]),
        row(Metric::Completion, "completion", Dimension::Time { idle: true }, false, &[Load]),
        row(Metric::Startup, "startup", Dimension::Time { idle: true }, false, &[ActivityKind::Startup]),
        MetricRow {
            count: |seen| seen.is_stamped.then_some(seen.missed),
            ..row(Metric::Late, "late", Dimension::Count, true, &[])
        },
        MetricRow {
            count: |seen| (seen.kind == Irq).then_some(seen.skipped),
            ..row(Metric::Lost, "lost", Dimension::Count, false, &[Irq, Load])
        },
        MetricRow {
            count: |seen| Some(seen.missed),
            ..row(Metric::Missed, "missed", Dimension::Count, true, &[])
        },
        MetricRow {
            count: |seen| seen.is_stamped.then_some(seen.skipped),
            ..row(Metric::Dropped, "dropped", Dimension::Count, true, &[])
        },
    ]
};

impl Metric {
    /// Its row.
    pub fn row(self) -> &'static MetricRow {
        METRICS.iter().find(|row| row.metric == self).expect("every metric is in the table")
    }

    /// Whether activities of a kind have it.
    pub fn is_of(self, kind: ActivityKind) -> bool {
        let row = self.row();
        (row.of_jobs && kind.row().has_jobs) || row.kinds.contains(&kind)
    }

    /// Its word in a promise.
    pub fn word(self) -> &'static str {
        self.row().word
    }
}
