//! [`Elevator`]: an I/O scheduler, which decides what goes to the driver and when.
//!
//! The queue in front of it (legacy or blk-mq) makes and merges requests and counts them; the elevator orders them. It is told
//! of everything that happens to its requests, and answers what the driver may take now. One that holds requests back
//! (anticipation, idling) says when it will think again ([`Elevator::timer`]).

use std::collections::VecDeque;

use surety_units::Nanos;

use crate::request::{Bio, Process, ProcessId, Request, RequestId, Requests};
use crate::tunable::{Settings, Tunable};

/// What an elevator may know of the device and of what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceView {
    /// Its sectors.
    pub sectors: u64,
    /// Requests it takes at a time.
    pub depth: u32,
    /// Whether it turns (`queue/rotational`).
    pub rotational: bool,
    /// Requests in it now: issued and not completed.
    pub in_flight: u32,
    /// The first sector after the request issued last: where the head is taken to be.
    pub position: u64,
}

/// Says how long a request would take if the device began with it now: a reference elevator asks.
pub trait AccessTime {
    /// Time until it would be complete.
    fn access_time(&self, now: Nanos, request: &Request) -> Nanos;
}

/// What an elevator sees with each call.
pub struct Context<'a> {
    pub now: Nanos,
    /// Ticks per second of the kernel: legacy schedulers count in jiffies.
    pub hz: u32,
    pub requests: &'a mut Requests,
    pub processes: &'a [Process],
    pub device: &'a DeviceView,
    /// Where the device model can say it.
    pub access: Option<&'a dyn AccessTime>,
}

impl Context<'_> {
    /// Ticks since time 0.
    pub fn jiffies(&self) -> u64 {
        let ticks = u128::from(self.now.get_unsigned()) * u128::from(self.hz) / 1_000_000_000;
        u64::try_from(ticks).expect("an instant in nanoseconds has fewer ticks")
    }

    /// The instant of a tick.
    pub fn instant_of(&self, jiffies: u64) -> Nanos {
        let nanos = (u128::from(jiffies) * 1_000_000_000).div_ceil(u128::from(self.hz));
        Nanos::new(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// The process of a request.
    pub fn process_of(&self, id: RequestId) -> Process {
        self.processes[self.requests[id].process.index()]
    }
}

/// Whether a process may make a request (legacy `elv_may_queue`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MayQueue {
    /// Within `nr_requests`.
    #[default]
    Yes,
    /// Beyond it, too.
    Must,
    /// Not now.
    No,
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

/// What an elevator has given to the driver (`q->queue_head`): the driver takes it from the front.
///
/// Elevators of blk-mq append one request with each call. Legacy ones may append many and may sort.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    queue: VecDeque<(RequestId, Rule)>,
    /// Requests at the front that nothing may be sorted before: the driver has begun to take them in this order.
    fixed: usize,
}

impl Outgoing {
    /// At the end (`elv_dispatch_add_tail`).
    pub fn append(&mut self, id: RequestId, rule: Rule) {
        self.queue.push_back((id, rule));
    }

    /// By sector, in one sweep upwards from `boundary`, the sector issued last (`elv_dispatch_sort`).
    pub fn sort_in(&mut self, requests: &Requests, boundary: u64, id: RequestId, rule: Rule) {
        let sector = requests[id].sector;
        let mut place = self.queue.len();
        while place > self.fixed {
            let (other, _) = self.queue[place - 1];
            let other = &requests[other];
            if other.op != requests[id].op {
                break;
            }
            let goes_after = if sector >= boundary {
                other.sector >= boundary && sector >= other.sector
            } else {
                other.sector >= boundary || sector >= other.sector
            };
            if goes_after {
                break;
            }
            place -= 1;
        }
        self.queue.insert(place, (id, rule));
    }

    /// The next for the driver, and why.
    pub fn take(&mut self) -> Option<(RequestId, Rule)> {
        self.fixed = self.fixed.saturating_sub(1);
        self.queue.pop_front()
    }

    /// The next for the driver.
    pub fn first(&self) -> Option<RequestId> {
        self.queue.front().map(|(id, _)| *id)
    }

    /// Requests that wait for the driver.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// An I/O scheduler of one queue.
pub trait Elevator {
    /// Whether the submitter of a bio may make a request of it (legacy queues).
    fn may_queue(&mut self, _context: &mut Context<'_>, _bio: &Bio) -> MayQueue {
        MayQueue::Yes
    }

    /// Tags that requests like this bio's may have at a time, below those of the queue (blk-mq `limit_depth`).
    fn depth_limit(&mut self, _context: &mut Context<'_>, _bio: &Bio) -> Option<u32> {
        None
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

    /// A request comes; `at_head`: it goes before all others, as it came back from the driver.
    fn insert(&mut self, context: &mut Context<'_>, id: RequestId, at_head: bool);

    /// Appends what the driver is to take next; nothing, if it is held back. It is asked where it has requests ([`Elevator::queued`]).
    /// `force`: whatever there is, without waiting.
    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing, force: bool);

    /// The driver has taken a request.
    fn issued(&mut self, _context: &mut Context<'_>, _id: RequestId) {}

    /// The device is done with a request.
    fn completed(&mut self, _context: &mut Context<'_>, _id: RequestId) {}

    /// The instant at which it wants [`Elevator::expired`] to be called; `None`: never. It is asked after each call.
    fn timer(&self) -> Option<Nanos> {
        None
    }

    /// That instant has come; the queue asks for dispatch afterwards.
    fn expired(&mut self, _context: &mut Context<'_>) {}

    /// A process has ended: nothing more is to be waited for from it.
    fn exited(&mut self, _context: &mut Context<'_>, _process: ProcessId) {}

    /// Requests it has: inserted, and not dispatched.
    fn queued(&self) -> usize;
}

/// The queue an elevator stands behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// One queue with `nr_requests` in each direction, unplugged by a timer (2.6).
    Legacy,
    /// Tags (blk-mq).
    Mq,
    /// Either: a reference.
    Any,
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
    /// Its sectors.
    pub sectors: u64,
    /// Whether the device turns.
    pub rotational: bool,
    /// Weights of the groups, the root first.
    pub group_weights: Vec<u32>,
    pub settings: Settings,
}

/// An I/O scheduler of a kernel: what it is called, what can be set, how it is made.
pub struct ElevatorRow {
    /// Its word in workload files: the kernel's name where there is one version of it, else with the version (`cfq-2.6.20`).
    pub word: &'static str,
    /// Where its rules are from.
    pub source: &'static str,
    pub front: Front,
    pub tunables: &'static [Tunable],
    pub make: fn(&Making) -> Box<dyn Elevator>,
}
