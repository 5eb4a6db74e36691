//! [`Player`]: a thread of a stream, which reads or writes its file access after access at a rate.
//!
//! What it does and what counts as dropped is the host world's rule ([`surety_model::record::stream_record`]).

use surety_model::record::{StreamAccess, StreamThread};
use surety_model::workload::{Direction, Stream, release_of};
use surety_units::{Nanos, Rate};

use super::{Operation, Seat, Step, Storage, cost};
use crate::disk::{FileId, PAGE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Sleeps until the release of its next access.
    Planned,
    Due,
    /// Is at the access that it began then.
    At(Nanos),
    /// The access that was begun then is done.
    Done(Nanos),
}

/// One thread of a stream.
pub(in crate::world) struct Player {
    seat: Seat,
    file: FileId,
    access: u64,
    accesses_in_file: u64,
    rate: Rate,
    writes: bool,
    direct: bool,
    deadline: Nanos,
    stage: Stage,
    number: u64,
    accesses: Vec<StreamAccess>,
}

impl Player {
    /// A thread of a stream on its file.
    pub fn new(seat: Seat, stream: &Stream, file: FileId, bytes: u64) -> Player {
        let access = stream.access_bytes();
        Player {
            seat,
            file,
            access,
            accesses_in_file: bytes / access,
            rate: stream.rate,
            writes: stream.direction == Direction::Write,
            direct: access.is_multiple_of(PAGE),
            deadline: stream.deadline(),
            stage: Stage::Planned,
            number: 0,
            accesses: Vec::new(),
        }
    }

    fn release(&self) -> Nanos {
        release_of(self.rate, self.access, self.number)
    }

    pub fn next(&mut self, now: Nanos, storage: &mut Storage) -> Step {
        loop {
            match self.stage {
                Stage::Planned => {
                    self.stage = Stage::Due;
                    return Step::SleepUntil(self.release());
                }
                Stage::Due => {
                    let release = self.release();
                    if now > release + self.deadline {
                        self.accesses.push(StreamAccess { release, done: None });
                        self.go_on();
                        continue;
                    }
                    let first = self.number % self.accesses_in_file * self.access;
                    let (file, first, end) = (self.file, first / PAGE, (first + self.access).div_ceil(PAGE));
                    let operation = match (self.direct, self.writes) {
                        (true, writes) => Operation::direct(file, writes, first, end),
                        (false, true) => Operation::Write { file, first, end },
                        (false, false) => Operation::Read { file, first, end },
                    };
                    self.seat.begin(storage, operation);
                    self.stage = Stage::At(now);
                }
                Stage::At(start) => {
                    if let Some(wait) = self.seat.waits(now, storage) {
                        return wait;
                    }
                    self.stage = Stage::Done(start);
                    return Step::Run(cost(self.access, self.direct));
                }
                Stage::Done(start) => {
                    let release = self.release();
                    self.accesses.push(StreamAccess { release, done: Some((start, now)) });
                    if !self.direct && (self.number + 1).is_multiple_of(self.accesses_in_file) {
                        storage.evict(self.file);
                    }
                    self.go_on();
                }
            }
        }
    }

    fn go_on(&mut self) {
        (self.number, self.stage) = (self.number + 1, Stage::Planned);
    }

    /// What it did until the run's end; accesses released before that it did not come to are open.
    pub fn close(&self, end: Nanos, run: Nanos, waited: Nanos) -> StreamThread {
        let released = self.accesses.iter().filter(|access| access.release < end);
        let mut accesses: Vec<StreamAccess> = released.copied().collect();
        let begun = match self.stage {
            Stage::At(start) | Stage::Done(start) => start,
            Stage::Planned | Stage::Due => end,
        };
        let mut start = begun;
        for number in self.number.. {
            let release = release_of(self.rate, self.access, number);
            if release >= end {
                break;
            }
            accesses.push(StreamAccess { release, done: Some((start, Nanos::MAX)) });
            start = end;
        }
        StreamThread { accesses, run, waited: Some(waited) }
    }
}
