//! [`Io`]: what the threads of a run do with disks and sockets: loads, streams and start-ups, as the host world's threads do it.
//!
//! An actor is asked for its next step whenever its thread is on a CPU and has nothing left to do. It begins operations of the
//! [`Storage`], polls them, and waits for its own event where they are not done.

mod mover;
mod player;
mod playout;
mod replay;
mod station;
mod syncer;
mod talker;

use surety_block::ProcessId;
use surety_units::Nanos;

use crate::cpu::program::{Moment, Step};
use crate::disk::{Operation, Storage};

pub(super) use mover::{Mover, Moves};
pub(super) use player::Player;
pub(super) use playout::{Fetcher, Playout, Viewer};
pub(super) use replay::{Replayer, Starter, Starts, Subject, startup_record};
pub(super) use station::{IN_DEVICE, OVERLAPPING, Station};
pub(super) use syncer::Syncer;
pub(super) use talker::{BLOCK_MAX, Socket, Talker};

/// CPU time of a system call that reads or writes, without the copy: some 1 us on a machine of today.
const CALL: Nanos = Nanos::from_micros(1);
/// Bytes that a CPU copies in a nanosecond between the page cache and a program: 8 GB/s.
const COPIED: u64 = 8;

/// CPU time of one access.
fn cost(bytes: u64, is_direct: bool) -> Nanos {
    let copied = if is_direct { 0 } else { bytes / COPIED };
    CALL + Nanos::new(i64::try_from(copied).expect("fewer than 2^63 bytes"))
}

/// How an actor does I/O and waits for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub process: ProcessId,
    /// The event that is raised when it may go on.
    pub signal: usize,
}

impl Seat {
    /// Whether its operation goes on later: the step to take until then.
    fn waits(&self, now: Nanos, storage: &mut Storage) -> Option<Step> {
        (!storage.poll(now, self.process)).then_some(Step::Block(self.signal))
    }

    fn begin(&self, storage: &mut Storage, operation: Operation) {
        storage.begin(self.process, operation, None);
    }
}

/// What one thread does.
pub(super) enum Actor {
    Mover(Mover),
    Syncer(Syncer),
    Player(Player),
    Fetcher(Fetcher),
    Station(Station),
    Viewer(Viewer),
    Replayer(Replayer),
    Starter(Starter),
    Talker(Talker),
}

/// Disks and sockets, and who uses them.
#[derive(Default)]
pub(super) struct Io {
    pub storage: Storage,
    pub actors: Vec<Actor>,
    pub starts: Starts,
    pub playouts: Vec<Playout>,
    pub sockets: Vec<Socket>,
}

impl Io {
    /// The run is over.
    pub fn close(&mut self, now: Nanos) {
        self.starts.close(now, &self.storage);
    }

    /// Of the stream with a buffer, when each batch was wanted and when it was there.
    pub fn batches(&self, playout: usize) -> &[(Nanos, Nanos)] {
        let mut actors = self.actors.iter();
        let found = actors.find_map(|actor| match actor {
            Actor::Fetcher(fetcher) => fetcher.batches(playout, &self.storage),
            Actor::Station(station) => station.batches(playout),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// Of the stream with a buffer, since when the batch is waited for that is not there yet.
    pub fn open(&self, playout: usize) -> Option<Nanos> {
        self.actors.iter().find_map(|actor| match actor {
            Actor::Fetcher(fetcher) => fetcher.open(playout, &self.storage),
            Actor::Station(station) => station.open(playout),
            _ => None,
        })
    }

    /// The station of the stream with a buffer, where it has one.
    pub fn station(&self, playout: usize) -> Option<&Station> {
        let stations = self.actors.iter().filter_map(|actor| match actor {
            Actor::Station(station) => Some(station),
            _ => None,
        });
        stations.into_iter().find(|station| station.buffer(playout).is_some())
    }

    /// The next step of an actor.
    pub fn next(&mut self, actor: usize, at: Moment) -> Step {
        match &mut self.actors[actor] {
            Actor::Mover(mover) => mover.next(at.now, &mut self.storage),
            Actor::Syncer(syncer) => syncer.next(at.now, &mut self.storage),
            Actor::Player(player) => player.next(at.now, &mut self.storage),
            Actor::Fetcher(fetcher) => fetcher.next(at.now, &mut self.storage, &mut self.playouts),
            Actor::Station(station) => station.next(at.now, &mut self.storage, &mut self.playouts),
            Actor::Viewer(viewer) => viewer.next(at.now, &mut self.storage, &mut self.playouts),
            Actor::Replayer(replayer) => replayer.next(at.now, &mut self.storage, &mut self.starts),
            Actor::Starter(starter) => starter.next(at.now, &mut self.storage, &mut self.starts),
            Actor::Talker(talker) => talker.next(at, &mut self.sockets),
        }
    }
}
