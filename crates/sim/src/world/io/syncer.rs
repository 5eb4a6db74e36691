//! [`Syncer`]: a worker of `syncs`: every period, everything that was written to its disk is to be there.

use surety_model::record::loads::Counts;
use surety_units::Nanos;

use super::{CALL, Operation, Seat, Step, Storage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Rests,
    Called,
    At,
}

/// One worker.
pub(in crate::world) struct Syncer {
    seat: Seat,
    disk: usize,
    period: Nanos,
    /// From when on its work counts.
    observe: Nanos,
    stage: Stage,
    due: Nanos,
    begun: Nanos,
    done: Counts,
}

impl Syncer {
    pub(in crate::world) fn new(seat: Seat, disk: usize, period: Nanos, observe: Nanos) -> Syncer {
        let (due, begun) = (Nanos::ZERO, Nanos::ZERO);
        Syncer { seat, disk, period, observe, stage: Stage::Rests, due, begun, done: Counts::default() }
    }

    /// What it did while it was observed.
    pub(in crate::world) fn done(&self) -> Counts {
        self.done
    }

    pub(in crate::world) fn next(&mut self, now: Nanos, storage: &mut Storage) -> Step {
        loop {
            match self.stage {
                Stage::Rests if now < self.due => return Step::SleepUntil(self.due),
                Stage::Rests => {
                    (self.begun, self.stage) = (now, Stage::Called);
                    return Step::Run(CALL);
                }
                Stage::Called => {
                    self.seat.begin(storage, Operation::sync_disk(self.disk));
                    self.stage = Stage::At;
                }
                Stage::At => {
                    if let Some(wait) = self.seat.waits(now, storage) {
                        return wait;
                    }
                    if self.begun >= self.observe {
                        let taken = now - self.begun;
                        self.done = self.done.plus(Counts { rounds: 1, taken, ..Counts::default() });
                    }
                    let periods = now.get() / self.period.get() + 1;
                    (self.due, self.stage) = (Nanos::new(self.period.get() * periods), Stage::Rests);
                }
            }
        }
    }
}
