//! [`Queue`]: the requests of one process at one priority, and what BFQ knows of it.

use surety_units::Nanos;

use super::rate::SEEK;
use crate::order::{ByArrival, BySector};
use crate::request::{Priority, Request, RequestId};

/// How many times its weight a raised queue has, for interactive ones and for soft real-time ones (`bfq_wr_coeff`,
/// `BFQ_SOFTRT_WEIGHT_FACTOR`).
pub(super) const RAISED: u64 = 30;
pub(super) const RAISED_SOFT: u64 = 30 * 100;

/// Before any time that is compared with it.
pub(super) const LONG_AGO: Nanos = Nanos::new(i64::MIN / 4);

/// Sectors below which a request of a device that does not turn is a seek (`BFQQ_SECT_THR_NONROT`).
pub(super) const LARGE: u32 = 64;

/// Think times, as a moving average with eight bits behind the point.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Think {
    samples: u64,
    total: u64,
    mean: u64,
    /// When its last request ended.
    pub last_end: Nanos,
}

impl Think {
    /// A request comes a while after the last ended.
    pub(super) fn add(&mut self, now: Nanos, idle: Nanos) {
        let elapsed = (now - self.last_end).max(Nanos::ZERO).min(idle + idle).get_unsigned();
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * elapsed) / 8;
        self.mean = (self.total + 128) / self.samples.max(1);
    }

    /// Whether it is known to be longer.
    pub(super) fn is_longer(&self, than: Nanos) -> bool {
        self.samples > 80 && self.mean > than.get_unsigned()
    }
}

/// Why a queue's weight is raised, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raising {
    /// 1: it is not.
    pub coefficient: u64,
    pub longest: Nanos,
    /// When it began or ended last.
    pub since: Nanos,
    /// When the interactive period began that a soft real-time one interrupts.
    pub interactive_since: Option<Nanos>,
    /// Sectors served while raised.
    pub service: u64,
}

/// How much of other queues may go while this one is waited for (`bfq_update_inject_limit`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Injection {
    pub limit: u32,
    /// The service time of a lone request.
    pub alone: Option<Nanos>,
    pub decreased: Nanos,
    /// Since when the request is waited for whose time is being taken.
    pub since: Nanos,
}

/// The requests of one process that somebody waits for, or of one priority that nobody waits for (`struct bfq_queue`).
#[derive(Debug)]
pub(super) struct Queue {
    pub priority: Priority,
    /// Somebody waits for its requests.
    pub sync: bool,
    pub sorted: BySector,
    pub fifo: ByArrival,
    pub next: Option<RequestId>,
    /// Requests in the device.
    pub dispatched: u32,
    pub max_budget: u64,
    /// When its slice ends; of an idle one, when it became idle.
    pub slice_end: Nanos,
    pub idle_since: Nanos,
    pub is_busy: bool,
    /// Its next request is waited for with the device idle.
    pub is_awaited: bool,
    /// It went idle of its own accord, with budget left.
    pub went_idle: bool,
    pub is_new: bool,
    pub in_large_burst: bool,
    pub has_short_think: bool,
    pub is_io_bound: bool,
    /// Requests that came in time, in a row.
    pub in_time: u32,
    pub think: Think,
    pub position: Option<u64>,
    /// A bit for each of the last 32 requests: it was a seek.
    pub seeks: u32,
    pub raising: Raising,
    pub soft_next: Nanos,
    pub backlogged_since: Nanos,
    pub backlog_service: u64,
    /// Its soft real-time start is computed when its last request ends.
    pub updates_soft: bool,
    pub injection: Injection,
}

impl Queue {
    pub(super) fn new(priority: Priority, sync: bool, now: Nanos, max_budget: u64) -> Queue {
        Queue {
            priority,
            sync,
            sorted: BySector::default(),
            fifo: ByArrival::default(),
            next: None,
            dispatched: 0,
            max_budget,
            slice_end: Nanos::ZERO,
            // A queue is made as if it had been idle for long.
            idle_since: LONG_AGO,
            is_busy: false,
            is_awaited: false,
            went_idle: false,
            is_new: true,
            in_large_burst: false,
            has_short_think: sync,
            is_io_bound: sync,
            in_time: 0,
            think: Think { last_end: now, ..Think::default() },
            position: None,
            // Half of a new one's requests count as seeks.
            seeks: 1,
            raising: Raising {
                coefficient: 1,
                longest: Nanos::ZERO,
                since: LONG_AGO,
                interactive_since: None,
                service: 0,
            },
            soft_next: Nanos::MAX,
            backlogged_since: now,
            backlog_service: 0,
            updates_soft: false,
            injection: Injection { limit: 0, alone: None, decreased: now, since: now },
        }
    }

    /// The weight of its priority: 10 for level 7 to 80 for level 0.
    pub(super) fn weight(&self) -> u64 {
        (8 - u64::from(self.priority.level.min(7))) * 10 * self.raising.coefficient
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raising.coefficient > 1
    }

    pub(super) fn has_requests(&self) -> bool {
        !self.sorted.is_empty()
    }

    /// Whether most of its last requests were seeks (`BFQQ_SEEKY`), or all (`BFQQ_TOTALLY_SEEKY`).
    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.count_ones() > 19
    }

    pub(super) fn is_totally_seeky(&self) -> bool {
        self.seeks == u32::MAX
    }

    /// A request has come: was it a seek?
    pub(super) fn look_at_seek(&mut self, request: &Request, rotational: bool) {
        let distance = self.position.map_or(0, |position| position.abs_diff(request.sector));
        let is_seek = distance > SEEK && (rotational || request.sectors < LARGE);
        self.seeks = self.seeks << 1 | u32::from(is_seek);
        self.position = Some(request.end());
    }

    pub(super) fn ends_raising(&mut self, now: Nanos) {
        self.raising.coefficient = 1;
        self.raising.longest = Nanos::ZERO;
        self.raising.since = now;
    }
}
