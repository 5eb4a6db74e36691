//! [`Mover`]: a worker of `readers`, `writers` or `file-copy`: block after block, at most at a rate, again and again.
//!
//! After each pass a reader forgets what is cached of its file; a writer waits until its file is on the disk; a copier does both.

use surety_model::record::loads::Counts;
use surety_model::workload::Load;
use surety_stats::Pcg;
use surety_units::{Nanos, Rate};

use super::{Operation, Seat, Step, Storage, cost};
use crate::disk::{FileId, PAGE};

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world) enum Moves {
    Reads(FileId),
    Writes(FileId),
    /// From the first to the second.
    Copies(FileId, FileId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Is to begin the next block.
    Rests,
    Moving,
    /// The second half of a copy.
    Writing,
    /// The block is moved.
    Moved,
    Syncing,
    Over,
}

/// One worker.
pub(in crate::world) struct Mover {
    seat: Seat,
    moves: Moves,
    /// Bytes of a block, and how many blocks the file has.
    block: u64,
    blocks: u64,
    direct: bool,
    rate: Option<Rate>,
    once: bool,
    /// Draws the blocks, where they are moved at random.
    chance: Option<Pcg>,
    /// From when on its work counts.
    observe: Nanos,
    stage: Stage,
    number: u64,
    /// When the block, and the pass, began.
    block_begun: Nanos,
    pass_begun: Nanos,
    done: Counts,
}

impl Mover {
    /// Worker `instance` of a load.
    pub(in crate::world) fn new(
        seat: Seat,
        moves: Moves,
        load: &Load,
        instance: u32,
        observe: Nanos,
    ) -> Mover {
        let block = load.block().0;
        let stream = if matches!(moves, Moves::Writes(_)) { 3 } else { 1 };
        Mover {
            seat,
            moves,
            block,
            blocks: load.size().0 / block,
            direct: load.direct,
            rate: load.rate(),
            once: load.once,
            // The blocks that the host world's worker draws.
            chance: load.random.then(|| Pcg::for_job(0, u64::from(instance), stream)),
            observe,
            stage: Stage::Rests,
            number: 0,
            block_begun: Nanos::ZERO,
            pass_begun: Nanos::ZERO,
            done: Counts::default(),
        }
    }

    /// What it did while it was observed.
    pub(in crate::world) fn done(&self) -> Counts {
        self.done
    }

    pub(in crate::world) fn next(&mut self, now: Nanos, storage: &mut Storage) -> Step {
        loop {
            match self.stage {
                Stage::Over => return Step::Exit,
                Stage::Rests => {
                    let moved = self.number * self.block;
                    let due = self.rate.filter(|rate| rate.0 > 0);
                    let due = due.map(|rate| Nanos::SECOND.mul_ratio(moved, rate.0));
                    if let Some(due) = due.filter(|due| *due > now) {
                        return Step::SleepUntil(due);
                    }
                    self.block_begun = now;
                    let (file, writes) = match self.moves {
                        Moves::Reads(file) | Moves::Copies(file, _) => (file, false),
                        Moves::Writes(file) => (file, true),
                    };
                    let block = match &mut self.chance {
                        Some(chance) => chance.below(self.blocks),
                        None => self.number % self.blocks,
                    };
                    self.seat.begin(storage, self.access(file, writes, block));
                    self.stage = Stage::Moving;
                }
                Stage::Moving | Stage::Writing => {
                    if let Some(wait) = self.seat.waits(now, storage) {
                        return wait;
                    }
                    match (self.stage, self.moves) {
                        (Stage::Moving, Moves::Copies(_, to)) => {
                            self.seat.begin(storage, self.access(to, true, self.number % self.blocks));
                            self.stage = Stage::Writing;
                        }
                        _ => self.stage = Stage::Moved,
                    }
                    return Step::Run(cost(self.block, self.direct));
                }
                Stage::Moved => {
                    self.number += 1;
                    let is_pass = self.number.is_multiple_of(self.blocks);
                    match self.moves {
                        Moves::Reads(file) if is_pass => storage.evict(file),
                        Moves::Writes(file) | Moves::Copies(_, file) if is_pass => {
                            self.seat.begin(storage, Operation::sync(file));
                            self.stage = Stage::Syncing;
                            continue;
                        }
                        _ => {}
                    }
                    self.account(now, is_pass);
                }
                Stage::Syncing => {
                    if let Some(wait) = self.seat.waits(now, storage) {
                        return wait;
                    }
                    if let Moves::Copies(from, to) = self.moves {
                        storage.evict(from);
                        storage.evict(to);
                    }
                    self.account(now, true);
                }
            }
        }
    }

    fn access(&self, file: FileId, writes: bool, block: u64) -> Operation {
        let (first, end) = (block * self.block / PAGE, ((block + 1) * self.block).div_ceil(PAGE));
        match (self.direct, writes) {
            (true, _) => Operation::direct(file, writes, first, end),
            (false, true) => Operation::Write { file, first, end },
            (false, false) => Operation::Read { file, first, end },
        }
    }

    /// A block is done, and with it maybe a pass: counts both.
    fn account(&mut self, now: Nanos, is_pass: bool) {
        let is_copy = matches!(self.moves, Moves::Copies(..));
        let is_round = is_pass || !is_copy;
        let is_last = is_pass && is_copy && self.once;
        let mut counted = Counts { bytes: self.block, rounds: u64::from(is_round), ..Counts::default() };
        if is_round {
            counted.taken = now - std::mem::replace(&mut self.pass_begun, now);
        }
        if self.block_begun >= self.observe {
            self.done = self.done.plus(counted);
        } else if is_last {
            // Done once, in the warm-up: its bytes are not of the observed time, that it was done is.
            self.done = self.done.plus(Counts { bytes: 0, ..counted });
        }
        self.stage = if is_last { Stage::Over } else { Stage::Rests };
    }
}
