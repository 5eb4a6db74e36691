//! [`ActivityKind`], one row for each kind of activity, and [`Activity`]: what every one of them has, whatever its kind.
//!
//! The word of a kind is what workload files and records hold: `[[task]]`, `"kind": "task"`, the path `task.player`.

use std::fmt;

use super::Workload;
use crate::promise::Promise;

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

/// Every kind in the order of a record, with its word and the noun it has in sentences.
const KINDS: [(ActivityKind, &str, &str); 7] = [
    (ActivityKind::Task, "task", "a task"),
    (ActivityKind::Irq, "irq", "an interrupt source"),
    (ActivityKind::Stream, "stream", "a stream"),
    (ActivityKind::Startup, "startup", "a start-up"),
    (ActivityKind::Load, "load", "a load"),
    (ActivityKind::Chain, "chain", "a chain"),
    (ActivityKind::Probe, "probe", "a probe"),
];

impl ActivityKind {
    fn row(self) -> &'static (ActivityKind, &'static str, &'static str) {
        KINDS.iter().find(|(kind, ..)| *kind == self).expect("every kind is in the table")
    }

    /// Its word in files.
    pub fn word(self) -> &'static str {
        self.row().1
    }

    /// One of it in a sentence.
    pub fn noun(self) -> &'static str {
        self.row().2
    }

    /// The kind of this word.
    pub fn of_word(word: &str) -> Option<ActivityKind> {
        KINDS.iter().find(|(_, known, _)| *known == word).map(|(kind, ..)| *kind)
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
        for (kind, word, _) in KINDS {
            assert_eq!((ActivityKind::of_word(word), kind.word()), (Some(kind), word));
        }
        assert_eq!(ActivityKind::of_word("disk"), None);
        assert_eq!(ActivityKind::Task.path("player"), "task.player");
    }
}
