//! Fair queueing: known answers, laws that hold for all schedulers, and the bounds of each.

mod answers;
mod bounds;
mod drive;
mod kernel;
mod laws;
