//! The I/O schedulers: a file and a row each.

mod abiss;
mod anticipatory;
mod bfq;
mod cfq;
mod cfq_v2;
mod deadline;
mod habit;
mod kyber;
mod mq_deadline;
mod none;
mod noop;

use crate::elevator::ElevatorRow;

/// All of them; first those of blk-mq.
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
];

/// The one of a word.
pub fn by_word(word: &str) -> Option<&'static ElevatorRow> {
    ELEVATORS.iter().copied().find(|row| row.word == word)
}
