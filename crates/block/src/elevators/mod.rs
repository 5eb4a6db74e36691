//! The I/O schedulers: a file and a row each.

mod bfq;
mod kyber;
mod mq_deadline;
mod none;

use crate::elevator::ElevatorRow;

/// All of them.
pub const ELEVATORS: &[&ElevatorRow] = &[&none::ROW, &mq_deadline::ROW, &kyber::ROW, &bfq::ROW];

/// The one of a word.
pub fn by_word(word: &str) -> Option<&'static ElevatorRow> {
    ELEVATORS.iter().copied().find(|row| row.word == word)
}
