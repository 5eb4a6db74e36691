//! What a load did, as its record; the same in every world.

use surety_units::Nanos;

use super::{Account, ActivityRecord, Basis, Figure, Share, Total};
use crate::workload::{FileUse, Load, LoadKind};

/// The figure of a kind whose operations are wholes: how long one took, on average.
const COMPLETION: &str = "completion";

/// Units of work inside the observed window; what they are is said where they are turned into figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes moved.
    pub bytes: u64,
    /// Operations done: accesses, packets, rounds, processes.
    pub rounds: u64,
    /// Operations that failed or whose result was lost.
    pub lost: u64,
    /// From the beginning of each operation to its end, added up: of those that are wholes, a copy or a program.
    pub taken: Nanos,
}

impl Counts {
    /// Both together.
    pub fn plus(self, other: Counts) -> Counts {
        Counts {
            bytes: self.bytes + other.bytes,
            rounds: self.rounds + other.rounds,
            lost: self.lost + other.lost,
            taken: self.taken.saturating_add(other.taken),
        }
    }

    /// What came on top since.
    pub fn since(self, before: Counts) -> Counts {
        Counts {
            bytes: self.bytes.saturating_sub(before.bytes),
            rounds: self.rounds.saturating_sub(before.rounds),
            lost: self.lost.saturating_sub(before.lost),
            taken: (self.taken - before.taken).max(Nanos::ZERO),
        }
    }
}

/// A number of things per second.
pub fn per_second(name: &str, number: u64, unit: &'static str, observed: Nanos) -> Figure {
    Figure { name: name.to_owned(), value: number as f64 / observed.as_secs_f64(), unit: unit.into() }
}

/// How long one took that was completed, if any was.
pub fn completion(done: &Counts) -> Option<Figure> {
    let mean = (done.rounds > 0).then(|| done.taken.get() as f64 / done.rounds as f64)?;
    Some(Figure { name: COMPLETION.to_owned(), value: mean, unit: "ns".into() })
}

/// A plain number of things.
pub fn number(name: &str, number: u64) -> Figure {
    Figure { name: name.to_owned(), value: number as f64, unit: "".into() }
}

/// The figures of a kind that uses files; of one that has none of its own without a rate.
pub fn file_figures(kind: LoadKind, done: &Counts, observed: Nanos) -> Vec<Figure> {
    let row = kind.row();
    let rate = (row.files > 0).then(|| per_second("rate", done.bytes, "B/s", observed));
    let rounds = row.file_use.map_or("rounds", FileUse::rounds);
    match row.is_completed {
        true => rate.into_iter().chain([number(rounds, done.rounds)]).chain(completion(done)).collect(),
        false => rate.into_iter().chain([per_second(rounds, done.rounds, "/s", observed)]).collect(),
    }
}

/// The figures of messages that were received.
pub fn message_figures(done: &Counts, observed: Nanos) -> Vec<Figure> {
    vec![per_second("messages", done.rounds, "/s", observed), per_second("rate", done.bytes, "B/s", observed)]
}

/// The record of a load of which so many workers were planned and so many ran.
pub fn load_account(
    load: &Load,
    (planned, ran): (u64, u64),
    done: &Counts,
    figures: Vec<Figure>,
    share: Share,
) -> ActivityRecord {
    let mut account = Account::of_load(load, Basis::Sample);
    account.add_counted(ran, planned.saturating_sub(ran), None);
    for figure in &figures {
        match (&*figure.name, &*figure.unit) {
            (_, "/s") => account.add_total(Total::Requests(figure.value)),
            (_, "B/s") => account.add_total(Total::Bytes(figure.value)),
            (COMPLETION, _) => account.add_total(Total::Completion(figure.value)),
            _ => {}
        }
    }
    if load.kind.row().is_lossy {
        account.add_total(Total::Lost(done.lost));
    }
    let mut record = account.finish(Some(share));
    record.figures = figures;
    record
}
