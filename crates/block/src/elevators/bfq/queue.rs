//! [`Queue`]: the requests of one process, or of several that were merged, and what BFQ knows of it; [`Member`]: what it knows of a process.

use surety_units::Nanos;

use super::rate;
use crate::order::{ByArrival, BySector};
use crate::request::{IoClass, Priority, ProcessId, Request, RequestId};

/// How many times its weight a raised queue has, for interactive ones and for soft real-time ones (`bfq_wr_coeff`,
/// `BFQ_SOFTRT_WEIGHT_FACTOR`).
pub(super) const RAISED: u64 = 30;
pub(super) const RAISED_SOFT: u64 = 30 * 100;

/// Before any time that is compared with it.
pub(super) const LONG_AGO: Nanos = Nanos::new(i64::MIN / 4);

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
    /// When it began or ended last; of one that is not raised, its last request.
    pub since: Nanos,
    /// When the interactive period began that a soft real-time one interrupts.
    pub interactive_since: Option<Nanos>,
    /// Sectors served while raised.
    pub service: u64,
}

impl Raising {
    /// Not raised.
    pub(super) fn none(now: Nanos) -> Raising {
        Raising { coefficient: 1, longest: Nanos::ZERO, since: now, interactive_since: None, service: 0 }
    }
}

/// How much of other queues may go while this one is waited for (`bfq_update_inject_limit`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Injection {
    pub limit: u32,
    /// The service time of a lone request.
    pub alone: Option<Nanos>,
    pub decreased: Nanos,
}

/// Whether a queue has requests most of the time (`bfq_update_io_intensity`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Intensity {
    /// It has had nothing to do for at most a fifth of the time.
    pub is_io_bound: bool,
    began: Nanos,
    idle: Nanos,
}

impl Intensity {
    /// A request comes; `idle_since`: the end of the last one, where there is no other. A new queue is bound by I/O.
    fn add(&mut self, now: Nanos, idle_since: Option<Nanos>, is_new: bool) {
        let seen = now - self.began;
        if let Some(since) = idle_since {
            self.idle += now - since;
        }
        if is_new {
            return;
        }
        self.is_io_bound = self.idle.mul_ratio(5, 1) <= seen;
        if seen > Nanos::from_millis(200) {
            self.began = now - seen.mul_ratio(1, 2);
            self.idle = self.idle.mul_ratio(1, 2);
        }
    }
}

/// A queue after whose requests another's come, and how often that was seen (`bfq_check_waker`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub queue: usize,
    pub seen: u32,
    pub since: Nanos,
}

/// The requests that somebody waits for, of one process or of several, or those of one priority that nobody waits for
/// (`struct bfq_queue`).
#[derive(Debug)]
pub(super) struct Queue {
    pub priority: Priority,
    /// Somebody waits for its requests.
    pub sync: bool,
    pub sorted: BySector,
    pub fifo: ByArrival,
    pub next: Option<RequestId>,
    /// Where that begins, as it is known to those that look for queues close to them.
    pub begins: Option<u64>,
    /// That is not so any more.
    pub has_moved: bool,
    /// Requests in the device.
    pub dispatched: u32,
    pub max_budget: u64,
    /// When its slice ends; of an idle one, when it became idle (`budget_timeout`).
    pub timeout: Nanos,
    pub is_busy: bool,
    /// Its next request is waited for with the device idle.
    pub is_awaited: bool,
    /// It went idle of its own accord, with budget left.
    pub went_idle: bool,
    pub is_new: bool,
    pub in_large_burst: bool,
    pub has_short_think: bool,
    pub intensity: Intensity,
    pub think: Think,
    pub position: Option<u64>,
    /// A bit for each of the last 32 requests: it was a seek.
    pub seeks: u32,
    pub raising: Raising,
    pub soft_next: Nanos,
    pub backlogged_since: Nanos,
    pub backlog_service: u64,
    /// When it was first served since it is busy.
    pub first_service: Nanos,
    /// Its soft real-time start is computed when its last request ends.
    pub updates_soft: bool,
    pub injection: Injection,
    /// Whose request came last, of a queue that somebody waits for.
    pub process: Option<ProcessId>,
    pub created: Nanos,
    /// When it was last split from a shared one.
    pub split: Nanos,
    /// Processes whose requests come here, or are going to (`bfqq_process_refs`).
    pub processes: u32,
    /// Its only process, as long as it was not shared.
    pub owner: Option<ProcessId>,
    /// Processes share it, and are to have queues of their own again.
    pub is_shared: bool,
    pub splits: bool,
    /// The queue that takes its requests from now on.
    pub merges_into: Option<usize>,
    pub waker: Option<usize>,
    pub candidate: Option<Candidate>,
    /// The queues whose waker it is, the last first.
    pub woken: Vec<usize>,
    /// The weight under which it is counted among those that are not raised.
    pub counted: Option<u64>,
    /// It is counted among those of its group that have something to do, here or in the device.
    pub pends: bool,
}

impl Queue {
    pub(super) fn new(priority: Priority, sync: bool, now: Nanos, max_budget: u64) -> Queue {
        Queue {
            priority,
            sync,
            sorted: BySector::default(),
            fifo: ByArrival::default(),
            next: None,
            begins: None,
            has_moved: false,
            dispatched: 0,
            max_budget,
            // A queue is made as if it had been idle for long.
            timeout: LONG_AGO,
            is_busy: false,
            is_awaited: false,
            went_idle: false,
            is_new: sync,
            in_large_burst: false,
            has_short_think: sync && priority.class != IoClass::Idle,
            intensity: Intensity { is_io_bound: true, began: now, idle: Nanos::ZERO },
            think: Think { last_end: now, ..Think::default() },
            position: None,
            // The first is almost certainly a seek.
            seeks: 1,
            raising: Raising::none(now),
            // It has consumed nothing so far.
            soft_next: now,
            backlogged_since: now,
            backlog_service: 0,
            first_service: now,
            updates_soft: false,
            injection: Injection { limit: 0, alone: None, decreased: now },
            process: None,
            created: now,
            split: LONG_AGO,
            processes: 1,
            owner: None,
            is_shared: false,
            splits: false,
            merges_into: None,
            waker: None,
            candidate: None,
            woken: Vec::new(),
            counted: None,
            pends: false,
        }
    }

    /// Its level, which is 7 in the idle class (`bfq_set_next_ioprio_data`).
    pub(super) fn level(&self) -> u8 {
        if self.priority.class == IoClass::Idle { 7 } else { self.priority.level.min(7) }
    }

    /// The weight of its priority: 10 for level 7 to 80 for level 0; raised.
    pub(super) fn weight(&self) -> u64 {
        (8 - u64::from(self.level())) * 10 * self.raising.coefficient
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raising.coefficient > 1
    }

    /// Goes on with the interactive raising that a soft real-time one interrupted (`switch_back_to_interactive_wr`).
    pub(super) fn is_interactive_again(&mut self, since: Nanos, longest: Nanos) {
        (self.raising.coefficient, self.raising.longest, self.raising.since) = (RAISED, longest, since);
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
        let is_seek = rate::is_seek(distance, request.sectors, rotational);
        self.seeks = self.seeks << 1 | u32::from(is_seek);
    }

    /// A request comes: is it bound by I/O?
    pub(super) fn look_at_intensity(&mut self, now: Nanos) {
        let is_idle = !self.has_requests() && self.dispatched == 0;
        self.intensity.add(now, is_idle.then_some(self.think.last_end), self.is_new);
    }
}

/// A process, and what its queue was like before it was merged (`struct bfq_io_cq`).
#[derive(Debug, Default)]
pub(super) struct Member {
    pub queue: Option<usize>,
    /// Its requests that are not complete.
    pub requests: u32,
    /// The queue that its own is to be merged with once it is known whether that pays.
    pub merges_later: Option<usize>,
    /// It was merged because it was made together with others, and is not split again.
    pub is_stable: bool,
    pub saved: Option<Saved>,
}

/// What of a queue is kept while it is merged (`bfq_bfqq_save_state`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    pub injection: Injection,
    pub think: Think,
    pub has_short_think: bool,
    pub intensity: Intensity,
    pub in_large_burst: bool,
    pub was_in_burst: bool,
    pub raising: Raising,
}
