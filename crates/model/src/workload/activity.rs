//! [`ActivityKind`], one row for each kind of activity, and [`Activity`]: what every one of them has, whatever its kind.
//!
//! The word of a kind is what workload files and records hold: `[[task]]`, `"kind": "task"`, the path `task.player`.

use std::fmt;

use super::Workload;
use crate::promise::{Metric, Promise};

/// What an activity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ActivityKind {
    /// `[[task]]`.
    Task,
    /// `[[irq]]`.
    Irq,
    /// `[[stream]]`.
    Stream,
    /// `[[startup]]`.
    Startup,
    /// `[[load]]`.
    Load,
    /// `[[chain]]`.
    Chain,
    /// A measurement of the machine, or of another program: in records only.
    Probe,
}

struct KindRow {
    kind: ActivityKind,
    word: &'static str,
    noun: &'static str,
    metrics: &'static [Metric],
}

/// Every kind in the order of a record, with its word, its noun in sentences and the metrics its account has.
const KINDS: [KindRow; 7] = {
    use ActivityKind::*;
    use Metric::*;
    const fn row(
        kind: ActivityKind,
        word: &'static str,
        noun: &'static str,
        metrics: &'static [Metric],
    ) -> KindRow {
        KindRow { kind, word, noun, metrics }
    }
    [
        row(Task, "task", "a task", &[Response, Latency, Share, Missed, Late, Dropped]),
        row(
            Irq,
            "irq",
            "an interrupt source",
            &[Response, Latency, Share, Missed, Late, Dropped, Lost, Rate],
        ),
        row(Stream, "stream", "a stream", &[Response, Latency, Share, Missed, Late, Dropped, Rate]),
        row(ActivityKind::Startup, "startup", "a start-up", &[Metric::Startup]),
        row(Load, "load", "a load", &[Share, Rate, Completion, Lost]),
        row(Chain, "chain", "a chain", &[]),
        row(Probe, "probe", "a probe", &[]),
    ]
};

impl ActivityKind {
    fn row(self) -> &'static KindRow {
        KINDS.iter().find(|row| row.kind == self).expect("every kind is in the table")
    }

    /// Its word in files.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// One of it in a sentence.
    pub fn noun(self) -> &'static str {
        self.row().noun
    }

    /// Whether an activity of this kind has a result of this metric.
    pub fn has(self, metric: Metric) -> bool {
        self.row().metrics.contains(&metric)
    }

    /// The kind of this word.
    pub fn of_word(word: &str) -> Option<ActivityKind> {
        KINDS.iter().find(|row| row.word == word).map(|row| row.kind)
    }

    /// Whether a workload has a section of this kind.
    pub fn is_section(self) -> bool {
        self != ActivityKind::Probe
    }

    /// Whether a plan finds reservations for its promises.
    pub fn is_planned(self) -> bool {
        matches!(self, ActivityKind::Task | ActivityKind::Irq)
    }

    /// An object of a workload by its path: `task.player`.
    pub fn path(self, name: &str) -> String {
        format!("{}.{name}", self.word())
    }
}

/// Its word.
impl fmt::Display for ActivityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// An activity of a workload: what has results of its own.
#[derive(Clone, Copy, Debug)]
pub struct Activity<'w> {
    /// What it is.
    pub kind: ActivityKind,
    /// Its role.
    pub name: &'w str,
    /// What was promised about it.
    pub promises: &'w [Promise],
}

impl Workload {
    /// Everything that has results, in the order of a record.
    pub fn activities(&self) -> Vec<Activity<'_>> {
        fn all<'w, T>(
            kind: ActivityKind,
            list: &'w [T],
            of: impl Fn(&'w T) -> (&'w String, &'w Vec<Promise>),
        ) -> impl Iterator<Item = Activity<'w>> {
            list.iter().map(of).map(move |(name, promises)| Activity { kind, name, promises })
        }
        let mut found: Vec<Activity<'_>> = Vec::new();
        found.extend(all(ActivityKind::Task, &self.tasks, |a| (&a.name, &a.promises)));
        found.extend(all(ActivityKind::Irq, &self.irqs, |a| (&a.name, &a.promises)));
        found.extend(all(ActivityKind::Stream, &self.streams, |a| (&a.name, &a.promises)));
        found.extend(all(ActivityKind::Startup, &self.startups, |a| (&a.name, &a.promises)));
        found.extend(all(ActivityKind::Load, &self.loads, |a| (&a.name, &a.promises)));
        found.extend(all(ActivityKind::Chain, &self.chains, |a| (&a.name, &a.promises)));
        found
    }

    /// The promises of an activity.
    pub fn promises_of(&self, name: &str) -> &[Promise] {
        self.activities().into_iter().find(|a| a.name == name).map(|a| a.promises).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_word_and_no_other() {
        for KindRow { kind, word, .. } in KINDS {
            assert_eq!((ActivityKind::of_word(word), kind.word()), (Some(kind), word));
        }
        assert_eq!(ActivityKind::of_word("disk"), None);
        assert_eq!(ActivityKind::Task.path("player"), "task.player");
    }
}
