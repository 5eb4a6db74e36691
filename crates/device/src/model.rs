//! [`Model`]: what every model of a disk does, and the words it is spoken to in.
//!
//! A model has no clock of its own. Whoever drives it says at which instant a request comes and asks when the model wants to be
//! looked at again; a simulator and a server that emulates a disk drive it the same way:
//!
//! ```text
//! accept(now, tag, request)          while queued() < depth()
//! while let Some(at) = next() { while let Some(done) = advance(at) { ... } }
//! ```
//!
//! Instants never go back. A model may finish requests in another order than they came in; which is next is its own decision,
//! as it is that of a drive with a command queue.

use surety_units::Nanos;

/// Bytes of a sector.
pub const SECTOR: u64 = 512;
/// Requests that a device takes at a time at most: a queue of NVMe.
pub const DEPTH_MAX: u32 = 1 << 16;

/// What is done to the sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    Read,
    Write,
    /// What the device holds in its volatile cache goes to the medium; the sectors are not looked at.
    Flush,
    /// The contents are not needed any more.
    Discard,
}

/// What a device is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub op: Op,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Above zero, unless it is a flush.
    pub sectors: u32,
    /// The write is complete only when it is on the medium (`REQ_FUA`).
    pub through: bool,
}

impl Request {
    /// A request without force-unit-access.
    pub const fn new(op: Op, sector: u64, sectors: u32) -> Request {
        Request { op, sector, sectors, through: false }
    }

    /// The first sector after it.
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR
    }
}

/// How the device came to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hit {
    /// The medium was needed for all of it.
    Miss,
    /// Some was in the buffer, or came in while the medium streamed past anyway.
    Partial,
    /// The buffer had it, or took it.
    Whole,
}

/// Where the time of one request went, from its acceptance to its completion; the parts sum to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// It waited in the device for others, and for the device's own work.
    pub queue: Nanos,
    /// The controller was at it.
    pub overhead: Nanos,
    /// The arm moved, or another head was chosen.
    pub seek: Nanos,
    /// The medium turned until the sectors came; on flash: the cells were read or written.
    pub rotation: Nanos,
    /// The data moved.
    pub transfer: Nanos,
}

impl Service {
    /// The time from acceptance to completion.
    pub fn total(&self) -> Nanos {
        self.queue + self.overhead + self.seek + self.rotation + self.transfer
    }
}

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// As given to [`Model::accept`].
    pub tag: u32,
    pub accepted: Nanos,
    pub completed: Nanos,
    pub hit: Hit,
    /// Sums to `completed - accepted`.
    pub service: Service,
}

/// A model of a disk.
pub trait Model {
    /// How many requests it takes at a time: at least 1.
    fn depth(&self) -> usize;

    /// How many sectors it has.
    fn sectors(&self) -> u64;

    /// How many requests it has taken and not completed.
    fn queued(&self) -> usize;

    /// Takes a request at an instant. `tag` names it in its completion.
    ///
    /// # Panics
    /// With [`Model::depth`] requests inside, beyond its sectors, at an instant before an earlier one.
    fn accept(&mut self, now: Nanos, tag: u32, request: &Request);

    /// When something happens in it next, a completion or work of its own; `None`: never, unless a request comes.
    fn next(&self) -> Option<Nanos>;

    /// Does what is due until an instant; returns the first completion of that time, until there is none.
    fn advance(&mut self, now: Nanos) -> Option<Completion>;

    /// The tag and instant of a completion that is certain already, though its time may not have come: the first one, or the one after that many others.
    /// A request that comes later may be complete before it. `None` where it is not decided yet, or the model cannot say.
    fn foreseen(&self, after: usize) -> Option<(u32, Nanos)> {
        let _ = after;
        None
    }

    /// How long the access would take if it came now, before all others that wait, for elevators that go by positioning time; `None`: it
    /// cannot say. Asking changes nothing.
    fn estimate(&self, now: Nanos, request: &Request) -> Option<Nanos>;

    /// A disk in the same state, which goes on by itself: what it is asked changes nothing of this one.
    fn fork(&self) -> Box<dyn Model + Send>;

    /// A digest of all that it took and gave: the same for the same seed, requests and instants on every machine.
    fn digest(&self) -> u64;
}

/// Has a model that is doing nothing else serve a request from an instant on.
///
/// # Panics
/// As [`Model::accept`].
pub fn serve<M: Model + ?Sized>(model: &mut M, now: Nanos, tag: u32, request: &Request) -> Completion {
    model.accept(now, tag, request);
    loop {
        let at = model.next().expect("a model completes what it accepts");
        if let Some(done) = model.advance(at) {
            return done;
        }
    }
}

/// What every model keeps of its requests: the completions by instant, the number inside, the digest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Not yet handed out, the latest first; equal instants in the order they were entered, from the back.
    done: Vec<Completion>,
    inside: usize,
    digest: u64,
    clock: Nanos,
}

impl Ledger {
    /// Counts a request in. See [`Model::accept`] for when it panics.
    pub fn enter(&mut self, now: Nanos, tag: u32, request: &Request, depth: usize, sectors: u64) {
        assert!(self.inside < depth, "the device takes {depth} requests at a time");
        assert!(now >= self.clock, "{now:?} is before {:?}", self.clock);
        if request.op != Op::Flush {
            assert!(
                request.sectors > 0 && request.end() <= sectors,
                "{request:?} is beyond {sectors} sectors"
            );
        }
        self.clock = now;
        self.inside += 1;
        let op = request.op as u64;
        for word in [now.get_unsigned(), u64::from(tag), request.sector, u64::from(request.sectors) << 8 | op]
        {
            self.mix(word);
        }
    }

    /// Notes a completion of the future, or of now.
    pub fn complete(&mut self, done: Completion) {
        debug_assert_eq!(done.service.total(), done.completed - done.accepted);
        let at = self.done.partition_point(|other| other.completed > done.completed);
        self.done.insert(at, done);
    }

    /// The instant of the first completion.
    pub fn next(&self) -> Option<Nanos> {
        self.done.last().map(|done| done.completed)
    }

    /// The completion after that many others.
    pub fn foreseen(&self, after: usize) -> Option<(u32, Nanos)> {
        self.done.iter().rev().nth(after).map(|done| (done.tag, done.completed))
    }

    /// The first completion, if it is due.
    pub fn take(&mut self, now: Nanos) -> Option<Completion> {
        if self.next()? > now {
            return None;
        }
        let done = self.done.pop()?;
        self.clock = self.clock.max(now);
        self.inside -= 1;
        for word in [done.completed.get_unsigned(), u64::from(done.tag)] {
            self.mix(word);
        }
        Some(done)
    }

    /// Requests taken and not handed out.
    pub fn inside(&self) -> usize {
        self.inside
    }

    /// Of all entered and handed out, in order.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// One step of a 64-bit FNV-1a-like chain over words.
    fn mix(&mut self, word: u64) {
        self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }
}

/// The parts of a request's time as fractions of nanoseconds, made whole so that they sum exactly.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts {
    pub queue: f64,
    pub overhead: f64,
    pub seek: f64,
    pub rotation: f64,
}

impl Parts {
    /// Rounds each part; what is left of the whole is transfer.
    pub fn into_service(self, whole: Nanos) -> Service {
        let mut left = whole;
        let mut part = |ns: f64| {
            let ns = Nanos::from_f64_rounded(ns).max(Nanos::ZERO).min(left);
            left -= ns;
            ns
        };
        let (queue, overhead) = (part(self.queue), part(self.overhead));
        let (seek, rotation) = (part(self.seek), part(self.rotation));
        Service { queue, overhead, seek, rotation, transfer: left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(tag: u32, at: i64) -> Completion {
        let service = Service { transfer: Nanos::new(at), ..Service::default() };
        Completion { tag, accepted: Nanos::ZERO, completed: Nanos::new(at), hit: Hit::Miss, service }
    }

    #[test]
    fn completions_come_by_instant_and_then_in_order() {
        let mut ledger = Ledger::default();
        for (tag, at) in [(0, 5), (1, 3), (2, 5), (3, 1)] {
            ledger.enter(Nanos::ZERO, tag, &Request::new(Op::Read, 0, 1), 4, 1);
            ledger.complete(done(tag, at));
        }
        assert_eq!(ledger.take(Nanos::ZERO), None);
        let order: Vec<u32> =
            std::iter::from_fn(|| ledger.take(Nanos::new(9))).map(|done| done.tag).collect();
        assert_eq!(order, [3, 1, 0, 2]);
        assert_eq!(ledger.inside(), 0);
    }

    #[test]
    fn parts_sum_to_the_whole_whatever_is_rounded() {
        let parts = Parts { queue: 0.6, overhead: 1.6, seek: 2.6, rotation: 3.6 };
        for whole in 0..20 {
            assert_eq!(parts.into_service(Nanos::new(whole)).total(), Nanos::new(whole));
        }
    }
}
