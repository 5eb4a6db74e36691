//! [`Hdd`]: a hard disk, from its platters to its command queue.
//!
//! What it has, after the ladder of models by which DiskSim's authors showed what each part is worth (Worthington, Ganger, Patt
//! and Wilkes, "On-line extraction of SCSI disk drive parameters", SIGMETRICS 1995; Ruemmler and Wilkes, "An introduction to disk
//! drive modeling", IEEE Computer 27(3), 1994):
//!
//! | part | file |
//! |---|---|
//! | zones, skews, spare and skipped sectors | [`geometry`] |
//! | seek curve, head switch, exact rotation, zero-latency access | [`seek`], [`mechanism`] |
//! | read segments and read-ahead, cut short by the next command | [`buffer`], `reading` |
//! | writes reported at once, written in the background | `writing` |
//! | commands in the order of their positioning time, none older than a limit left waiting | `queue` |
//! | accesses that fail and are tried again, by chance | `Retries` |
//! | what an access would take, for who chooses between some | `estimate` |
//!
//! The moving parts do one thing at a time (`Work`). Between commands they read ahead, which the next command cuts short, or
//! write what the buffer has taken. Nothing is stepped sector by sector: the instants of an access follow from where the arm is and what time it is.

pub mod buffer;
mod estimate;
pub mod geometry;
pub mod mechanism;
mod parameters;
mod queue;
mod reading;
pub mod seek;
mod writing;

pub use parameters::{
    Overheads, Parameters, RUNS_MAX, ReadAhead, Retries, SEGMENT_MAX, SEGMENTS_MAX, WriteBack,
};

use std::sync::Arc;

use surety_stats::random::Pcg;
use surety_units::Nanos;

use crate::model::{Completion, Hit, Ledger, Model, Op, Parts, Request};
use buffer::{Buffer, SegmentId};
use mechanism::{Arm, Mechanism, Run};

/// A command that waits in the drive.
#[derive(Clone, Copy, Debug)]
struct Pending {
    tag: u32,
    request: Request,
    accepted: Nanos,
}

/// Written data that are not on the medium.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    start: u64,
    end: u64,
    /// When the command was understood, so that the arm could move.
    known: f64,
    /// When all of its data were there.
    arrived: f64,
    segment: Option<SegmentId>,
}

/// What the moving parts do.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Nothing, or reading ahead.
    Free,
    Busy {
        until: f64,
        then: Then,
    },
}

/// What follows when the moving parts are done.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    /// Reading ahead from the end of a segment.
    ReadAhead(SegmentId, u64),
    /// The first of `dirty` is on the medium.
    Written,
}

/// Reading ahead: the sectors it takes, and when. It mostly ends early, so its runs are computed as far as somebody asks.
#[derive(Clone, Debug, Default)]
struct Stream {
    segment: Option<SegmentId>,
    from: u64,
    /// The first sector that is not read; 0: nothing is.
    limit: u64,
    /// When it was told to read that far.
    begin: f64,
    /// Its first runs.
    runs: Vec<Run>,
}

impl Stream {
    fn clear(&mut self) {
        (self.segment, self.limit) = (None, 0);
        self.runs.clear();
    }
}

/// A hard disk.
#[derive(Clone, Debug)]
pub struct Hdd {
    // Shared with its copies.
    parameters: Arc<Parameters>,
    mechanism: Arc<Mechanism>,
    retries: Option<Retries>,
    arm: Arm,
    work: Work,
    stream: Stream,
    buffer: Buffer,
    pending: Vec<Pending>,
    /// In the order in which they are written; the first may be under way.
    dirty: Vec<Dirty>,
    dirty_sectors: u64,
    /// The interface carries data until then.
    wire_free: f64,
    /// The latest instant it was looked at; nothing is completed before.
    now: Nanos,
    /// The last command was a read.
    after_read: bool,
    /// The latest forced write-back let a command by.
    spared: bool,
    chance: Pcg,
    ledger: Ledger,
    /// Scratch of one access.
    runs: Vec<Run>,
}

impl Hdd {
    /// A drive at rest, its arm on cylinder 0, sector 0 of an unskewed track under the head at instant 0.
    pub fn new(parameters: Parameters, seed: u64) -> Hdd {
        let mechanism = Mechanism {
            geometry: parameters.geometry.clone(),
            seek: parameters.seek.clone(),
            head_switch: parameters.head_switch,
            write_settle: parameters.write_settle,
            revolution: parameters.revolution * 1e6,
        };
        let buffer = Buffer::new(parameters.segments, parameters.segment_sectors);
        Hdd {
            mechanism: Arc::new(mechanism),
            retries: parameters.retries,
            arm: Arm::default(),
            work: Work::Free,
            stream: Stream::default(),
            buffer,
            pending: Vec::with_capacity(parameters.depth),
            dirty: Vec::new(),
            dirty_sectors: 0,
            wire_free: 0.0,
            now: Nanos::ZERO,
            after_read: true,
            spared: false,
            chance: Pcg::for_job(seed, surety_stats::random::stream_of("hdd"), 0),
            ledger: Ledger::default(),
            runs: Vec::new(),
            parameters: Arc::new(parameters),
        }
    }

    /// What it was made from.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Notes a completion at an instant, with where the time went.
    fn finish(&mut self, command: &Pending, at: f64, hit: Hit, parts: Parts) {
        let completed = Nanos::from_f64_rounded(at).max(self.now);
        let service = parts.into_service(completed - command.accepted);
        let done = Completion { tag: command.tag, accepted: command.accepted, completed, hit, service };
        self.ledger.complete(done);
        self.after_read = command.request.op == Op::Read;
    }

    /// What a retried access adds, in nanoseconds.
    fn retries(&mut self) -> f64 {
        let Some(retries) = self.retries else { return 0.0 };
        if self.chance.unit_open() >= retries.probability {
            return 0.0;
        }
        let turns = 1 + self.chance.below(u64::from(retries.most_revolutions));
        turns as f64 * self.mechanism.revolution
    }

    /// Ends what the moving parts have done by an instant, and lets them go on.
    fn settle(&mut self, now: Nanos) {
        while let Work::Busy { until, then } = self.work {
            if instant_of(until) > now {
                break;
            }
            self.now = self.now.max(instant_of(until));
            self.work = Work::Free;
            match then {
                Then::Nothing => {}
                Then::ReadAhead(segment, limit) => self.read_ahead(segment, limit, until),
                Then::Written => self.written(),
            }
            self.start(until);
        }
        self.now = now;
    }
}

/// The first whole nanosecond at which something of the moving parts is over.
fn instant_of(at: f64) -> Nanos {
    let whole = at as i64;
    Nanos::new(whole.saturating_add(i64::from((whole as f64) < at)))
}

impl Model for Hdd {
    fn depth(&self) -> usize {
        self.parameters.depth
    }

    fn sectors(&self) -> u64 {
        self.mechanism.geometry.sectors()
    }

    fn queued(&self) -> usize {
        self.ledger.inside()
    }

    fn accept(&mut self, now: Nanos, tag: u32, request: &Request) {
        self.settle(now);
        self.ledger.enter(now, tag, request, self.parameters.depth, self.mechanism.geometry.sectors());
        self.pending.push(Pending { tag, request: *request, accepted: now });
        match self.work {
            Work::Free => self.start(now.get() as f64),
            Work::Busy { .. } => self.answer_from_buffer(now.get() as f64),
        }
    }

    fn next(&self) -> Option<Nanos> {
        let work = match self.work {
            Work::Free => None,
            Work::Busy { until, .. } => Some(instant_of(until)),
        };
        [work, self.ledger.next()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        self.settle(now);
        self.ledger.take(now)
    }

    fn foreseen(&self, after: usize) -> Option<(u32, Nanos)> {
        self.ledger.foreseen(after)
    }

    fn estimate(&self, now: Nanos, request: &Request) -> Option<Nanos> {
        Some(self.estimated(now, request))
    }

    fn fork(&self) -> Box<dyn Model + Send> {
        Box::new(self.clone())
    }

    fn digest(&self) -> u64 {
        self.ledger.digest()
    }
}

#[cfg(test)]
mod tests;
