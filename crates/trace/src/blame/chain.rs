//! [`stretches`]: a chain as a person tells it, interrupts within what they interrupted.

use surety_units::{CpuId, Nanos};

use super::{Cause, Part, Piece};

/// A time in which one thing went on, with the interrupts on top of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// Its beginning.
    pub from: Nanos,
    /// Its end.
    pub until: Nanos,
    /// Where, as in [`Piece::cpu`].
    pub cpu: Option<CpuId>,
    /// What went on; an interrupt only where nothing else is known to lie under it.
    pub cause: Cause,
    /// Interrupts on top, each kind once with its time, which [`Stretch::time`] includes.
    pub interrupts: Vec<Part>,
}

impl Stretch {
    /// Its length, interrupts included.
    pub fn time(&self) -> Nanos {
        self.until - self.from
    }

    fn add_interrupt(&mut self, cause: Cause, time: Nanos) {
        match self.interrupts.iter_mut().find(|part| part.cause == cause) {
            Some(part) => part.time += time,
            None => self.interrupts.push(Part { cause, time }),
        }
    }
}

/// The pieces of a chain with every interrupt inside the stretch it interrupted: the one before it on the same CPU.
/// The stretches follow each other without a gap, as the pieces do.
pub fn stretches(pieces: &[Piece]) -> Vec<Stretch> {
    let mut told: Vec<Stretch> = Vec::new();
    for piece in pieces {
        if let Some(last) = told.last_mut().filter(|last| last.cpu == piece.cpu) {
            if last.cause == piece.cause {
                last.until = piece.until;
                continue;
            }
            if piece.cause.is_interrupt() && !last.cause.is_interrupt() {
                last.until = piece.until;
                last.add_interrupt(piece.cause, piece.time());
                continue;
            }
        }
        told.push(Stretch {
            from: piece.from,
            until: piece.until,
            cpu: piece.cpu,
            cause: piece.cause,
            interrupts: Vec::new(),
        });
    }
    told
}

/// Pieces with the same cause together.
pub(super) fn parts(pieces: &[Piece]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for piece in pieces {
        match parts.iter_mut().find(|part| part.cause == piece.cause) {
            Some(part) => part.time += piece.time(),
            None => parts.push(Part { cause: piece.cause, time: piece.time() }),
        }
    }
    parts
}
