//! [`Queue`]: what stands between processes and the driver: it makes requests of bios, merges them, limits their number, and
//! asks its elevator which goes next.

mod ends;
mod legacy;
mod mq;
mod sleepers;
mod steps;
pub(crate) mod tags;
mod throttle;

use surety_units::Nanos;

use crate::elevator::{ElevatorRow, Front, Making, Rule};
use crate::request::{Bio, BioId, Process, ProcessId, Request, RequestId};

pub use steps::{Step, StepKind};
pub use throttle::most_writes;

/// What became of a bio that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is in the queue, or in the process's plug.
    Accepted,
    /// There is no request (no tag) for it: the process sleeps until it is among the woken, and submits it again.
    Wait,
}

/// A queue with an I/O scheduler, of the block layer it was written for.
pub fn make(row: &'static ElevatorRow, making: &Making) -> Box<dyn Queue> {
    match row.front {
        Front::BlkMq => mq::make(row, making),
        Front::Legacy => legacy::make(row, making),
    }
}

/// A request queue of one disk.
pub trait Queue {
    /// Another process, numbered from 0 on in the order in which they are added.
    fn add_process(&mut self, process: Process);

    /// A process submits a bio.
    fn submit(&mut self, now: Nanos, bio: Bio, id: BioId) -> Submitted;

    /// From here on what the process submits is held together until it unplugs, blocks (which unplugs), or has too much.
    fn plug(&mut self, now: Nanos, process: ProcessId);

    /// What a process holds goes to the elevator.
    fn unplug(&mut self, now: Nanos, process: ProcessId);

    /// A process is no more; its number is a new one's from here on.
    fn exits(&mut self, _now: Nanos, _process: ProcessId) {}

    /// What [`Elevator::raised`](crate::Elevator::raised) says of its elevator.
    fn raised(&mut self) -> Option<(ProcessId, Nanos)> {
        None
    }

    /// A process is going to wait for the disk: a queue that is plugged as a whole has its driver begin.
    fn blocks(&mut self) {}

    /// Whether processes wait because too many pages of the disk are dirty.
    fn dirtiers(&mut self, _now: Nanos, _wait: bool) {}

    /// The longest bio it takes, in sectors.
    fn max_sectors(&self) -> u32;

    /// The request that the driver takes now and why it is this one, while the device has room; it counts as issued.
    fn next(&mut self, now: Nanos) -> Option<(RequestId, Rule)>;

    /// The device is done with a request: its bios are appended to `done`, and to `woken` those processes that have waited
    /// for a request and may go on.
    fn complete(&mut self, now: Nanos, id: RequestId, done: &mut Vec<BioId>, woken: &mut Vec<ProcessId>);

    /// The instant at which [`Queue::expired`] is to be called: the elevator's, or the queue's own (unplugging).
    fn timer(&self) -> Option<Nanos>;

    /// That instant has come; [`Queue::next`] is asked afterwards.
    fn expired(&mut self, now: Nanos);

    /// Whether the queue's worker has to wait for a CPU: what it is to do it does when it has one.
    fn holds_worker(&mut self, _now: Nanos, _holds: bool) {}

    /// A request that is issued and not complete.
    fn request(&self, id: RequestId) -> &Request;

    /// From here on its steps are kept for [`Queue::take_steps`]; a queue may have none to tell.
    fn keep_steps(&mut self) {}

    /// Appends what it did since this was last asked.
    fn take_steps(&mut self, _into: &mut Vec<Step>) {}
}
