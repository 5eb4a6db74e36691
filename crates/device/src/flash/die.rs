//! [`Die`]: one chip's cells: a thing at a time, reads first.
//!
//! A read that comes while the die programs or erases interrupts it where the drive can (*program suspend*): the rest of the
//! program is done when no read waits, or after [`READS_IN_A_ROW`].

use std::collections::VecDeque;

use surety_units::Nanos;

/// After so many reads one interrupted program goes on.
pub const READS_IN_A_ROW: u32 = 16;

/// What a die does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A page for the request of a slot, with the sectors wanted of it.
    Read {
        slot: usize,
        sectors: u32,
    },
    Program(Program),
    /// A valid page of a block that is cleaned goes to another.
    Copy,
    Erase,
    /// A page goes from the fast cells to the others.
    Fold,
}

/// A page to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Sectors of the buffer that are free afterwards.
    pub sectors: u64,
    /// A page in the buffer that is on the medium afterwards, first and last of those it is made of.
    pub epoch: u64,
    /// Whose write waits for it, if it does.
    pub slot: Option<usize>,
    /// To the fast cells.
    pub fast: bool,
}

/// A block that is being cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaning {
    /// Pages still to copy.
    pub copies: u32,
    /// Pages free afterwards.
    pub gain: u32,
}

/// One die.
#[derive(Clone, Debug, Default)]
pub struct Die {
    pub work: Option<(Nanos, Work)>,
    /// Interrupted, with what is left of it.
    pub paused: Option<(Nanos, Work)>,
    pub reads: VecDeque<(usize, u32)>,
    pub programs: VecDeque<Program>,
    pub cleaning: Option<Cleaning>,
    /// Pages that can be programmed before one must be cleaned.
    pub free: u32,
    pub reads_in_a_row: u32,
    /// Counts what it began: an event of an earlier beginning is void.
    pub turn: u64,
    /// The last step was a cleaning one.
    pub cleaned: bool,
}

impl Die {
    /// Interrupts what is not a read; says whether it did.
    pub fn interrupt(&mut self, now: Nanos) -> bool {
        match self.work {
            Some((until, work))
                if !matches!(work, Work::Read { .. })
                    && self.paused.is_none()
                    && self.reads_in_a_row < READS_IN_A_ROW =>
            {
                self.paused = Some((until - now, work));
                self.work = None;
                self.turn += 1;
                true
            }
            _ => false,
        }
    }

    /// Whether it has anything to do for the host.
    pub fn is_wanted(&self) -> bool {
        self.work.is_some() || !self.reads.is_empty() || !self.programs.is_empty() || self.paused.is_some()
    }
}
