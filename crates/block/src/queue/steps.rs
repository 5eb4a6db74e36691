//! [`Steps`]: what a queue does with bios and requests, for whoever asks to be told; nothing is kept otherwise.

use crate::request::{Bio, Op, Priority, ProcessId, Request};

/// What a queue did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A bio was appended to a request.
    Appended,
    /// A bio was put in front of a request.
    Prepended,
    /// A request was made of a bio.
    Made,
    /// A request went to the elevator.
    Inserted,
    /// A request became a part of another.
    Joined,
}

/// Something that a queue did, with the bio or the request as it was then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub kind: StepKind,
    pub op: Op,
    pub sync: bool,
    pub meta: bool,
    pub sector: u64,
    pub sectors: u32,
    pub process: ProcessId,
    pub priority: Priority,
}

/// The steps since somebody last took them.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    are_wanted: bool,
    steps: Vec<Step>,
}

impl Steps {
    /// From here on they are kept.
    pub(super) fn keep(&mut self) {
        self.are_wanted = true;
    }

    /// Moves them behind those in `into`.
    pub(super) fn take(&mut self, into: &mut Vec<Step>) {
        into.append(&mut self.steps);
    }

    #[inline]
    pub(super) fn bio(&mut self, kind: StepKind, bio: &Bio, priority: Priority) {
        if self.are_wanted {
            let Bio { op, sync, meta, sector, sectors, process, .. } = *bio;
            self.steps.push(Step { kind, op, sync, meta, sector, sectors, process, priority });
        }
    }

    #[inline]
    pub(super) fn request(&mut self, kind: StepKind, request: &Request) {
        if self.are_wanted {
            let Request { op, sync, meta, sector, sectors, process, priority, .. } = *request;
            self.steps.push(Step { kind, op, sync, meta, sector, sectors, process, priority });
        }
    }
}
