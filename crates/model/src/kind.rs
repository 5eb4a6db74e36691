//! [`ActivityKind`], one row for each kind of activity.
//!
//! The word of a kind is what workload files and records hold: `[[task]]`, `"kind": "task"`, the path `task.player`.

use std::fmt;

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
    /// `[[flow]]`.
    Flow,
    /// `[[load]]`.
    Load,
    /// `[[chain]]`.
    Chain,
    /// A measurement of the machine, or of another program: in records only.
    Probe,
}

/// What is the same for every activity of a kind.
#[derive(Debug)]
pub struct KindRow {
    pub kind: ActivityKind,
    /// Its word in files.
    pub word: &'static str,
    /// One of it in a sentence.
    pub noun: &'static str,
    /// Whether it has jobs: activations with a release and an end.
    pub has_jobs: bool,
    /// Why the simulator refuses it; `None`: it does not.
    pub simulator: Option<&'static str>,
    /// Why no running kernel is asked for it, this machine's or the lab's.
    pub kernels: Option<&'static str>,
    /// Why a guest of the lab refuses it.
    pub guest: Option<&'static str>,
    /// Why nothing is proven of tasks beside it.
    pub analysis: Option<&'static str>,
}

const COMMON: KindRow = KindRow {
    kind: ActivityKind::Task,
    word: "task",
    noun: "a task",
    has_jobs: false,
    simulator: None,
    kernels: None,
    guest: None,
    analysis: None,
};

/// It runs before every thread, reserved or not, and the supply of a reservation does not count it.
pub(crate) const INTERRUPTS: &str =
    "has interrupts work for it, and their time is not analysed; leave it out, or measure";

/// Every kind in the order of a record.
const KINDS: [KindRow; 8] = [
    KindRow { has_jobs: true, ..COMMON },
    KindRow { kind: ActivityKind::Irq, word: "irq", noun: "an interrupt source", has_jobs: true, ..COMMON },
    KindRow {
        kind: ActivityKind::Stream,
        word: "stream",
        noun: "a stream",
        has_jobs: true,
        analysis: Some(INTERRUPTS),
        ..COMMON
    },
    KindRow {
        kind: ActivityKind::Startup,
        word: "startup",
        noun: "a start-up",
        analysis: Some(INTERRUPTS),
        ..COMMON
    },
    KindRow {
        kind: ActivityKind::Flow,
        word: "flow",
        noun: "a flow",
        has_jobs: true,
        kernels: Some(
            "links are simulated only; try `--on sim` (on Linux `tc qdisc` puts a scheduler on a network device)",
        ),
        ..COMMON
    },
    KindRow { kind: ActivityKind::Load, word: "load", noun: "a load", ..COMMON },
    KindRow { kind: ActivityKind::Chain, word: "chain", noun: "a chain", has_jobs: true, ..COMMON },
    KindRow { kind: ActivityKind::Probe, word: "probe", noun: "a probe", ..COMMON },
];

impl ActivityKind {
    /// Its row in the table of kinds.
    pub fn row(self) -> &'static KindRow {
        KINDS.iter().find(|row| row.kind == self).expect("every kind is in the table")
    }

    /// Its word in files.
    pub fn word(self) -> &'static str {
        self.row().word
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
