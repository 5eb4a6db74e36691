//! [`Elevator`]: an I/O scheduler, which decides what goes to the driver and when.
//!
//! The queue in front of it makes and merges requests and counts them; the elevator orders them. It is told
//! of everything that happens to its requests, and answers what the driver may take now. One that holds requests back
//! (anticipation, idling) says when it will think again ([`Elevator::timer`]).

mod outgoing;

use std::fmt::Debug;
use std::rc::Rc;

use surety_units::Nanos;

pub use outgoing::Outgoing;

use crate::kernels::{self, Rules};
use crate::request::{Bio, IoGroup, Op, Process, ProcessId, RequestId, Requests};
use crate::tunable::{Settings, Tunable};

/// What an elevator sees with each call.
pub struct Context<'a> {
    pub now: Nanos,
    pub requests: &'a mut Requests,
    pub processes: &'a [Process],
}

/// An end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Front,
    Back,
}

/// Why a request was dispatched before the others: a word for people, from a table of the elevator's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule(pub &'static str);

/// An I/O scheduler of one queue.
pub trait Elevator {
    /// The limit on the numbers of tags that a request like this bio's may have (`shallow_depth`, which blk-mq `limit_depth` sets).
    fn depth_limit(&mut self, _context: &mut Context<'_>, _bio: &Bio) -> Option<u32> {
        None
    }

    /// The least limit that it says it has (`min_shallow_depth`), told in the same way.
    fn least_limit(&self) -> u32 {
        u32::MAX
    }

    /// Whether a bio may become a part of a request it is adjacent to.
    fn may_merge(&mut self, _context: &mut Context<'_>, _into: RequestId, _bio: &Bio) -> bool {
        true
    }

    /// A queued request that begins where this bio ends, if front merges are looked for.
    fn front_merge(&mut self, _context: &mut Context<'_>, _bio: &Bio) -> Option<RequestId> {
        None
    }

    /// The queued request before or after a request in the order of sectors, to be joined where they meet.
    fn neighbour(&self, _requests: &Requests, _id: RequestId, _side: Side) -> Option<RequestId> {
        None
    }

    /// A queued request has grown at an end.
    fn merged(&mut self, _context: &mut Context<'_>, _id: RequestId, _side: Side) {}

    /// `gone` is about to be appended to `kept`; both still stand as they were.
    fn joining(&mut self, _context: &mut Context<'_>, _kept: RequestId, _gone: RequestId) {}

    /// A request comes.
    fn insert(&mut self, context: &mut Context<'_>, id: RequestId);

    /// Appends what the driver is to take next; nothing, if it is held back. It is asked where it has requests ([`Elevator::queued`]).
    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing);

    /// The device is done with a request.
    fn completed(&mut self, _context: &mut Context<'_>, _id: RequestId) {}

    /// Whether it has a queue of blk-mq run because a request is complete; asked once after [`Elevator::completed`].
    fn runs_queue(&mut self) -> bool {
        true
    }

    /// A process is no more: what comes under its number from here on is of a new one.
    fn exited(&mut self, _context: &mut Context<'_>, _process: ProcessId) {}

    /// Of the periods that have ended in which a process's weight was raised because its application starts, the next: whose, and how
    /// long it was.
    fn raised(&mut self) -> Option<(ProcessId, Nanos)> {
        None
    }

    /// The instant at which it wants [`Elevator::expired`] to be called; `None`: never. It is asked after each call.
    fn timer(&self) -> Option<Nanos> {
        None
    }

    /// That instant has come. Whether a queue of blk-mq is run because of it.
    fn expired(&mut self, _context: &mut Context<'_>) -> bool {
        true
    }

    /// Requests it has: inserted, and not dispatched.
    fn queued(&self) -> usize;
}

/// What a device tells of itself to an I/O scheduler that asks. No kernel has it: it is for references that others are compared with.
pub trait Positioning: Debug {
    /// Time until the first sector of an access would be there, if the access began now, or as soon as the device is through with what it
    /// is at; `None`: the device cannot say. Asking changes nothing.
    fn positioning(&self, now: Nanos, op: Op, sector: u64) -> Option<Nanos>;
}

/// By what writes of the page cache are throttled (`blk-wbt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttling {
    /// No read is to take longer (`wbt_lat_usec`); above zero.
    pub target: Nanos,
    /// Requests that the queue had when it was made: the driver's tags.
    pub tags: u32,
    /// Whether the device says that it has a volatile cache.
    pub write_cache: bool,
}

/// What an elevator is made for.
#[derive(Clone, Debug)]
pub struct Making {
    /// Ticks per second.
    pub hz: u32,
    /// Requests of the queue (`nr_requests`).
    pub requests: u32,
    /// Requests that the device takes at a time.
    pub tags: u32,
    /// Whether the driver is asked for room before a request leaves the elevator: that of SCSI and ATA disks (`scsi_mq_get_budget`). Others
    /// have one request wait outside of it for a tag.
    pub asks_first: bool,
    /// Sectors of a request at most, as far as the device is concerned; the kernel has a limit of its own.
    pub max_sectors: u32,
    /// Whether the device turns.
    pub rotational: bool,
    /// The device, for those that ask it; `None`: there is none to ask.
    pub device: Option<Rc<dyn Positioning>>,
    pub settings: Settings,
    /// Control groups, for those that know them.
    pub groups: Vec<IoGroup>,
    /// What differs by kernel.
    pub rules: &'static Rules,
    /// How writes of the page cache are throttled; `None`: they are not.
    pub throttling: Option<Throttling>,
}

impl Making {
    /// For a disk that turns, with so many requests in its queue and so many at a time in the device, at 1000 ticks a second, of no kernel
    /// in particular.
    pub fn new(requests: u32, tags: u32, settings: Settings) -> Making {
        let (asks_first, max_sectors, rotational) = (false, u32::MAX, true);
        let rules = &kernels::UNNAMED;
        Making {
            hz: 1000,
            requests,
            tags,
            asks_first,
            max_sectors,
            rotational,
            device: None,
            settings,
            groups: Vec::new(),
            rules,
            throttling: None,
        }
    }
}

/// The block layer that an I/O scheduler was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// With tags and plugs of processes, from 3.13 on.
    BlkMq,
    /// One queue with a number of requests for each direction, plugged as a whole: 2.6.
    Legacy,
}

/// An I/O scheduler of a kernel: what it is called, what can be set, how it is made.
pub struct ElevatorRow {
    /// Its word in workload files: the kernel's name.
    pub word: &'static str,
    /// Where its rules are from.
    pub source: &'static str,
    pub front: Front,
    pub tunables: &'static [Tunable],
    pub make: fn(&Making) -> Box<dyn Elevator>,
}
