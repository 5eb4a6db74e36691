//! [`Player`]: a thread of a stream, which reads or writes its file access after access at a rate.
//!
//! What it does and what counts as dropped is the host world's rule ([`surety_model::record::stream_record`]).

use surety_model::event::{Span, SpanFate, SpanMarker};
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

/// The accesses of a stream, one after another.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub rate: Rate,
    /// Bytes of an access.
    pub access: u64,
    /// From the release of an access to the instant from which on it is late.
    pub deadline: Nanos,
    /// The next access.
    pub number: u64,
}

impl Plan {
    pub(in crate::world) fn new(stream: &Stream) -> Plan {
        Plan { rate: stream.rate, access: stream.access_bytes(), deadline: stream.deadline(), number: 0 }
    }

    /// When the next access is released.
    pub(in crate::world) fn release(&self) -> Nanos {
        release_of(self.rate, self.access, self.number)
    }
}

/// What became of the accesses that are over.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// The stream's number where the trace names it.
    activity: usize,
    accesses: Vec<StreamAccess>,
}

impl Log {
    pub(in crate::world) fn new(activity: usize) -> Log {
        Log { activity, accesses: Vec::new() }
    }

    /// Takes the access of a plan that is over now, begun then; `None`: it is dropped. The trace says so where it was not in time.
    pub(in crate::world) fn add(
        &mut self,
        plan: &Plan,
        start: Option<Nanos>,
        now: Nanos,
        storage: &mut Storage,
    ) {
        let release = plan.release();
        let is_late = now > release + plan.deadline;
        if is_late {
            let fate = if start.is_some() { SpanFate::Late } else { SpanFate::Dropped };
            let (number, name) = (plan.number, self.activity);
            storage.say(SpanMarker::Over(Span {
                fate,
                number,
                begin: release,
                end: now,
                thread: None,
                name,
            }));
        }
        self.accesses.push(StreamAccess { release, done: start.map(|start| (start, now)) });
    }

    /// All that were released before the run's end; the next of the plan, at which the thread may have been since an instant, and those
    /// it did not come to are open.
    pub(in crate::world) fn close(
        &self,
        plan: &Plan,
        begun: Option<Nanos>,
        end: Nanos,
        (run, waited): (Nanos, Nanos),
    ) -> StreamThread {
        let released = self.accesses.iter().filter(|access| access.release < end);
        let mut accesses: Vec<StreamAccess> = released.copied().collect();
        let mut start = begun.unwrap_or(end);
        let mut open = plan.clone();
        while open.release() < end {
            accesses.push(StreamAccess { release: open.release(), done: Some((start, Nanos::MAX)) });
            (start, open.number) = (end, open.number + 1);
        }
        StreamThread { accesses, run, waited: Some(waited), ..StreamThread::default() }
    }
}

/// One thread of a stream.
pub(in crate::world) struct Player {
    seat: Seat,
    file: FileId,
    accesses_in_file: u64,
    writes: bool,
    direct: bool,
    plan: Plan,
    stage: Stage,
    log: Log,
}

impl Player {
    /// A thread of a stream on its file.
    pub(in crate::world) fn new(
        seat: Seat,
        (stream, activity): (&Stream, usize),
        file: FileId,
        bytes: u64,
    ) -> Player {
        let plan = Plan::new(stream);
        Player {
            seat,
            file,
            accesses_in_file: bytes / plan.access,
            writes: stream.direction == Direction::Write,
            direct: plan.access.is_multiple_of(PAGE),
            plan,
            stage: Stage::Planned,
            log: Log::new(activity),
        }
    }

    pub(in crate::world) fn next(&mut self, now: Nanos, storage: &mut Storage) -> Step {
        loop {
            let (number, access, release) = (self.plan.number, self.plan.access, self.plan.release());
            match self.stage {
                Stage::Planned => {
                    self.stage = Stage::Due;
                    return Step::SleepUntil(release);
                }
                Stage::Due => {
                    if now > release + self.plan.deadline {
                        self.log.add(&self.plan, None, now, storage);
                        self.go_on();
                        continue;
                    }
                    let first = number % self.accesses_in_file * access;
                    let (file, first, end) = (self.file, first / PAGE, (first + access).div_ceil(PAGE));
                    let operation = match (self.direct, self.writes) {
                        (true, writes) => Operation::direct(file, writes, first, end),
                        (false, true) => Operation::Write { file, first, end },
                        (false, false) => Operation::Read { file, first, end },
                    };
                    storage.begin(self.seat.process, operation, Some(release + self.plan.deadline));
                    self.stage = Stage::At(now);
                }
                Stage::At(start) => {
                    if let Some(wait) = self.seat.waits(now, storage) {
                        return wait;
                    }
                    self.stage = Stage::Done(start);
                    return Step::Run(cost(access, self.direct));
                }
                Stage::Done(start) => {
                    self.log.add(&self.plan, Some(start), now, storage);
                    if !self.direct && (number + 1).is_multiple_of(self.accesses_in_file) {
                        storage.evict(self.file);
                    }
                    self.go_on();
                }
            }
        }
    }

    fn go_on(&mut self) {
        (self.plan.number, self.stage) = (self.plan.number + 1, Stage::Planned);
    }

    /// What it did until the run's end, with its CPU time and the time it waited for one.
    pub(in crate::world) fn close(&self, end: Nanos, got: (Nanos, Nanos)) -> StreamThread {
        let begun = match self.stage {
            Stage::At(start) | Stage::Done(start) => Some(start),
            Stage::Planned | Stage::Due => None,
        };
        self.log.close(&self.plan, begun, end, got)
    }
}
