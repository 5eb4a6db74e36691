//! The I/O schedulers: a file and a row each.

mod abiss;
mod anticipatory;
mod bfq;
mod cfq;
mod cfq_v2;
mod deadline;
mod edf_scan;
mod habit;
mod kyber;
mod mq_deadline;
mod none;
mod noop;
mod sptf;

use crate::elevator::ElevatorRow;

/// All of them: those of blk-mq, those of 2.6, and references that no kernel has.
pub const ELEVATORS: &[&ElevatorRow] = &[
    &none::ROW,
    &mq_deadline::ROW,
    &kyber::ROW,
    &bfq::ROW,
    &noop::ROW,
    &deadline::ROW,
    &anticipatory::ROW,
    &cfq_v2::ROW,
    &cfq::ROW,
    &abiss::ROW,
    &sptf::ROW,
    &edf_scan::ROW,
];

/// The one of a word.
pub fn by_word(word: &str) -> Option<&'static ElevatorRow> {
    ELEVATORS.iter().copied().find(|row| row.word == word)
}

/// The words of those that have a tunable of this name.
pub fn with_tunable(name: &str) -> Vec<&'static str> {
    let has = |row: &&&ElevatorRow| row.tunables.iter().any(|tunable| tunable.name == name);
    ELEVATORS.iter().filter(has).map(|row| row.word).collect()
}
