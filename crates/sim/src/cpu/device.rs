//! [`Device`]: something that interrupts: when, with how many requests waiting, and what becomes of each.
//!
//! A request arrives with its interrupt and waits in the device's buffer until the handling thread takes it; the one
//! in service has left the buffer. One that finds the buffer full is lost. Request `k` of a device needs CPU time drawn
//! under (seed, device, k), lost ones included in the count: what is lost changes nobody else's work.
//!
//! Open sources interrupt at their own times: on a grid from 0, or at drawn distances. Of a sporadic source the densest
//! arrivals are simulated, its gap being the only thing known of it. A closed source has a fixed number of requests in
//! flight: the device serves one at a time and then interrupts; when the thread has handled one, or the buffer had no
//! room for it, whoever waited for it issues the next.
//!
//! A device decides nothing about CPUs. The machine asks it at each interrupt and whenever its thread has nothing left
//! to do, and arms its slot for what it answers.

use std::collections::VecDeque;

use surety_model::distribution::TimeDistribution;
use surety_model::record::JobOutcome;
use surety_stats::random::{Pcg, stream_of};
use surety_units::Nanos;

use crate::cpu::hardware::ThreadId;
use crate::engine::Slot;

/// When a device interrupts.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// On a grid from 0; the distance is above zero.
    Grid(Nanos),
    /// At distances drawn from the first request on.
    Drawn(TimeDistribution),
    /// Never by itself: [`Machine::raise`](crate::cpu::machine::Machine::raise).
    Driven,
    /// So many requests in flight, each in the device for this long, above zero.
    Closed {
        outstanding: u32,
        /// How long.
        service: Nanos,
    },
}

/// What a device is made from.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// Its handler's name in events.
    pub name: String,
    /// Its interrupt's number in events.
    pub irq: u32,
    /// The place of the CPU that takes its interrupts.
    pub cpu: usize,
    /// When it interrupts.
    pub source: Source,
    /// CPU time of a request in the thread.
    pub work: TimeDistribution,
    /// CPU time of the hard handler.
    pub hard: Nanos,
    /// Requests it holds; `None`: any number.
    pub buffer: Option<u64>,
    /// Seed of everything drawn.
    pub seed: u64,
    /// Name of the stream that work is drawn from; distances come from `KEY~spacing`.
    pub key: String,
}

/// A request as it waits or is in service.
#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    arrival: Nanos,
}

/// A request the thread is busy with.
#[derive(Clone, Copy, Debug)]
struct InService {
    request: Request,
    start: Nanos,
    run_before: Nanos,
}

/// Counts of requests since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Interrupts that brought a request.
    pub arrived: u64,
    /// Requests the thread is done with.
    pub handled: u64,
    /// Requests the buffer had no room for.
    pub lost: u64,
}

/// A device of a machine.
#[derive(Clone, Debug)]
pub struct Device {
    spec: DeviceSpec,
    work_stream: u64,
    spacing_stream: u64,
    pending: VecDeque<Request>,
    in_service: Option<InService>,
    /// Requests of a closed source that wait for the device itself.
    issued: u32,
    counts: Requests,
    longest: usize,
    outcomes: Vec<JobOutcome>,
    /// The thread, while it waits for a request.
    pub(crate) waiting: Option<ThreadId>,
    /// Events to raise when the hard handler is over.
    pub(crate) raises: VecDeque<usize>,
    /// Its next interrupt.
    pub(crate) slot: Slot,
}

impl Device {
    pub(crate) fn new(spec: DeviceSpec, slot: Slot) -> Device {
        let issued = match spec.source {
            Source::Closed { outstanding, .. } => outstanding.saturating_sub(1),
            _ => 0,
        };
        Device {
            work_stream: stream_of(&spec.key),
            spacing_stream: stream_of(&format!("{}~spacing", spec.key)),
            spec,
            pending: VecDeque::new(),
            in_service: None,
            issued,
            counts: Requests::default(),
            longest: 0,
            outcomes: Vec::new(),
            waiting: None,
            raises: VecDeque::new(),
            slot,
        }
    }

    /// What it was made from.
    pub fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    /// Requests so far.
    pub fn counts(&self) -> Requests {
        self.counts
    }

    /// Requests in the buffer.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether its thread is busy with a request.
    pub fn is_in_service(&self) -> bool {
        self.in_service.is_some()
    }

    /// The most requests that were in the buffer at a time, since observation began.
    pub fn longest_queue(&self) -> usize {
        self.longest
    }

    pub(crate) fn observe_from_here(&mut self) {
        self.longest = self.pending.len();
    }

    /// What became of requests since this was asked last, in the order in which it became known.
    pub fn take_outcomes(&mut self) -> Vec<JobOutcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// The requests that wait or are in service.
    pub fn open(&self, until: Nanos) -> impl Iterator<Item = JobOutcome> + '_ {
        let served = self.in_service.iter().map(|s| &s.request);
        let unfinished = move |r: &Request| JobOutcome::Unfinished { release: r.arrival, until };
        served.chain(&self.pending).map(unfinished)
    }

    /// When it interrupts for the first time; `None`: never.
    pub(crate) fn first_interrupt(&self) -> Option<Nanos> {
        match &self.spec.source {
            Source::Grid(_) => Some(Nanos::ZERO),
            Source::Drawn(_) => self.distance_before(0),
            Source::Driven | Source::Closed { outstanding: 0, .. } => None,
            Source::Closed { service, .. } => Some(*service),
        }
    }

    /// Time between the interrupt before an open source's `number`-th and this one.
    fn distance_before(&self, number: u64) -> Option<Nanos> {
        match &self.spec.source {
            Source::Grid(period) => Some(*period),
            Source::Drawn(distances) => {
                let mut chance = Pcg::for_job(self.spec.seed, self.spacing_stream, number);
                Some(distances.draw_from(&mut chance))
            }
            Source::Driven | Source::Closed { .. } => None,
        }
    }

    /// It interrupts: a request arrives. Says when the next interrupt comes, if that is known, and whether the buffer
    /// had room.
    pub(crate) fn interrupt(&mut self, now: Nanos) -> (Option<Nanos>, bool) {
        let request = Request { number: self.counts.arrived, arrival: now };
        self.counts.arrived += 1;
        let has_room = self.spec.buffer.is_none_or(|room| (self.pending.len() as u64) < room);
        if has_room {
            self.pending.push_back(request);
            self.longest = self.longest.max(self.pending.len());
        } else {
            self.counts.lost += 1;
            self.outcomes.push(JobOutcome::Skipped { release: now });
        }
        let next = match self.spec.source {
            Source::Closed { service, .. } => {
                // The device goes on with the next request it has; one that was lost is issued anew.
                self.issued += u32::from(!has_room);
                let goes_on = self.issued > 0;
                self.issued -= u32::from(goes_on);
                goes_on.then_some(now + service)
            }
            _ => self.distance_before(self.counts.arrived).map(|distance| now + distance),
        };
        (next, has_room)
    }

    /// The thread is done with its request, if it had one, having used `run` CPU time in all. Of a closed source the
    /// requester issues the next: an idle device begins with it at once and interrupts when this says, another keeps it.
    pub(crate) fn finish(&mut self, now: Nanos, run: Nanos, is_idle: bool) -> Option<Nanos> {
        let done = self.in_service.take()?;
        self.counts.handled += 1;
        self.outcomes.push(JobOutcome::Completed {
            release: done.request.arrival,
            start: done.start,
            completion: now,
            execution: run - done.run_before,
        });
        let Source::Closed { service, .. } = self.spec.source else { return None };
        self.issued += u32::from(!is_idle);
        is_idle.then_some(now + service)
    }

    /// The thread takes the next request, having used `run` CPU time so far: the CPU time it needs.
    pub(crate) fn take(&mut self, now: Nanos, run: Nanos) -> Option<Nanos> {
        let request = self.pending.pop_front()?;
        self.in_service = Some(InService { request, start: now, run_before: run });
        let mut chance = Pcg::for_job(self.spec.seed, self.work_stream, request.number);
        Some(self.spec.work.draw_from(&mut chance))
    }
}
