//! `cfq` of 2.6.20 (`block/cfq-iosched.c`), the third of its versions: slices of time for each process, and idling within them.
//!
//! What somebody waits for stands in a queue of its process, the rest in one for each priority level. The queue in service is served for its
//! slice, `base + base / 5 * (4 - level)` with a base of 100 ms, or 40 ms for what nobody waits for, from its first dispatch on; up to
//! `quantum` requests are dispatched at a time. When it is empty the disk is kept idle for it for up to `slice_idle`, 2 ms where it
//! seeks; not where its process thinks for longer on average. Without idling a queue is served once and goes to the end.
//!
//! Levels have their turn in the order 0; 0, 1; 0, 1, 2; and so on: with each turn all queues of the level stand in line. Realtime goes
//! first, idle after 100 ms without other requests. A request that somebody waits for takes the disk from a queue that nobody
//! waits for, and one of metadata from one without.

use std::collections::VecDeque;

use surety_units::Nanos;

use super::habit::{Mean, Seeks};
use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Rule, Side};
use crate::order::Lane;
use crate::request::{Bio, IoClass, Priority, ProcessId, RequestId, Requests};
use crate::tunable::Tunable;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "cfq",
    source: "block/cfq-iosched.c of Linux 2.6.20",
    front: Front::Legacy,
    tunables: &[
        Tunable::positive("quantum", 4, "requests", "requests dispatched at a time"),
        Tunable::positive(
            "fifo_expire_sync",
            125,
            "ms",
            "a request somebody waits for has expired after this",
        ),
        Tunable::positive(
            "fifo_expire_async",
            250,
            "ms",
            "a request nobody waits for has expired after this",
        ),
        Tunable::positive("slice_sync", 100, "ms", "slice of a process at level 4"),
        Tunable::positive("slice_async", 40, "ms", "slice of what nobody waits for, at level 4"),
        Tunable::positive("slice_async_rq", 2, "requests", "base for the requests of such a slice"),
        Tunable::number("slice_idle", 8, "ms", "the disk is kept idle for a process for this long; 0: never"),
        Tunable::number("back_seek_max", 16 * 1024, "KiB", "how far below its last request one may lie"),
    ],
    make: |making| Box::new(Cfq::new(making)),
};

const EXPIRED: Rule = Rule("expired, of the queue in service");
const NEAREST: Rule = Rule("nearest, of the queue in service");

const LEVELS: usize = 8;
/// The class idle is served after so long without other requests (`CFQ_IDLE_GRACE`).
const GRACE: Nanos = Nanos::from_millis(100);
/// A process seeks that goes further than this on average, in sectors.
const SEEKY: u64 = 128 * 1024;
const SEEKY_IDLE: Nanos = Nanos::from_millis(2);
/// A mean is believed that weighs more.
const VALID: u64 = 80;
/// From this depth on a device orders requests itself.
const TAGGED: u32 = 4;

/// Where a queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Nowhere,
    /// Has its turn with its level.
    Level(usize),
    /// In line.
    Current,
    /// With requests in the device, behind all.
    Busy,
    Idle,
}

#[derive(Clone, Debug)]
struct Queue {
    lane: Lane,
    is_sync: bool,
    priority: Priority,
    stand: Stand,
    in_device: u32,
    /// When its slice ends, once it has dispatched.
    slice_end: Option<Nanos>,
    slice_left: Nanos,
    is_new: bool,
    looked_at_fifo: bool,
    /// Must not lose the disk before it has dispatched.
    must_dispatch: bool,
    idles: bool,
    metadata: u32,
    last_served: Nanos,
    last_end: Option<Nanos>,
    thought: Mean,
    seeks: Seeks,
}

impl Queue {
    fn new(priority: Priority, is_sync: bool) -> Queue {
        Queue {
            lane: Lane::default(),
            is_sync,
            priority,
            stand: Stand::Nowhere,
            in_device: 0,
            slice_end: None,
            slice_left: Nanos::ZERO,
            is_new: true,
            looked_at_fifo: false,
            must_dispatch: false,
            idles: is_sync && priority.class != IoClass::Idle,
            metadata: 0,
            last_served: Nanos::ZERO,
            last_end: None,
            thought: Mean::default(),
            seeks: Seeks::default(),
        }
    }
}

#[derive(Debug)]
struct Cfq {
    queues: Vec<Queue>,
    of_process: Vec<Option<usize>>,
    /// Queues of what nobody waits for, by class and level.
    of_level: [[Option<usize>; LEVELS]; IoClass::COUNT],
    levels: [VecDeque<usize>; LEVELS],
    current: VecDeque<usize>,
    busy: VecDeque<usize>,
    idle: VecDeque<usize>,
    level: usize,
    last_level: usize,
    active: Option<usize>,
    /// Requests that the active queue has dispatched in this slice.
    dispatched: u64,
    /// The disk is kept idle for the active queue until then; or for the class idle.
    waits: Option<Nanos>,
    grace: Option<Nanos>,
    last_end: Nanos,
    last_sector: u64,
    queued: usize,
    is_tagged: bool,
    quantum: u64,
    expire: [Nanos; 2],
    slice: [Nanos; 2],
    async_requests: u64,
    slice_idle: Nanos,
    back: u64,
}

impl Cfq {
    fn new(making: &Making) -> Cfq {
        let settings = &making.settings;
        Cfq {
            queues: Vec::new(),
            of_process: Vec::new(),
            of_level: Default::default(),
            levels: Default::default(),
            current: VecDeque::new(),
            busy: VecDeque::new(),
            idle: VecDeque::new(),
            level: 0,
            last_level: 0,
            active: None,
            dispatched: 0,
            waits: None,
            grace: None,
            last_end: Nanos::ZERO,
            last_sector: 0,
            queued: 0,
            is_tagged: making.tags >= TAGGED,
            quantum: settings.get("quantum").max(1),
            expire: [settings.millis("fifo_expire_async"), settings.millis("fifo_expire_sync")],
            slice: [settings.millis("slice_async"), settings.millis("slice_sync")],
            async_requests: settings.get("slice_async_rq").max(1),
            slice_idle: settings.millis("slice_idle"),
            back: settings.get("back_seek_max") * 2,
        }
    }

    /// The queue that a request like this is in, or would be in.
    fn queue_of(&mut self, process: ProcessId, priority: Priority, sync: bool) -> usize {
        let count = self.of_process.len().max(process.index() + 1);
        self.of_process.resize(count, None);
        let place = if sync {
            &mut self.of_process[process.index()]
        } else {
            &mut self.of_level[priority.class.place()][usize::from(priority.level.min(7))]
        };
        *place.get_or_insert_with(|| {
            self.queues.push(Queue::new(priority, sync));
            self.queues.len() - 1
        })
    }

    fn queue_of_request(&mut self, requests: &Requests, id: RequestId) -> usize {
        let request = &requests[id];
        self.queue_of(request.process, request.priority, request.sync)
    }

    fn slice_of(&self, q: usize) -> Nanos {
        let queue = &self.queues[q];
        let base = self.slice[usize::from(queue.is_sync)];
        base + base / 5 * (4 - i64::from(queue.priority.level))
    }

    /// Takes a queue out of where it stands.
    fn leave(&mut self, q: usize) {
        let list = match std::mem::replace(&mut self.queues[q].stand, Stand::Nowhere) {
            Stand::Nowhere => return,
            Stand::Level(level) => &mut self.levels[level],
            Stand::Current => &mut self.current,
            Stand::Busy => &mut self.busy,
            Stand::Idle => &mut self.idle,
        };
        if list.front() == Some(&q) {
            list.pop_front();
        } else if let Some(place) = list.iter().position(|other| *other == q) {
            list.remove(place);
        }
    }

    /// A queue with requests stands in the list of its kind, behind those served before it; new ones, and one that lost the disk, in front
    /// (`cfq_resort_rr_list`).
    fn stand(&mut self, q: usize, lost_disk: bool) {
        self.leave(q);
        let queue = &self.queues[q];
        let stand = match queue.priority.class {
            IoClass::Realtime => Stand::Current,
            IoClass::Idle => Stand::Idle,
            IoClass::BestEffort if queue.in_device > 0 => Stand::Busy,
            IoClass::BestEffort => Stand::Level(usize::from(queue.priority.level.min(7))),
        };
        let queues = &self.queues;
        let list = match stand {
            Stand::Level(level) => &mut self.levels[level],
            Stand::Busy => &mut self.busy,
            Stand::Idle => &mut self.idle,
            _ => &mut self.current,
        };
        let place = if queue.priority.class == IoClass::Realtime {
            list.iter().take_while(|other| queues[**other].priority.class == IoClass::Realtime).count()
        } else if lost_disk || queue.is_new {
            list.iter().take_while(|other| queues[**other].is_new).count()
        } else {
            let later = list.iter().rev().take_while(|other| queues[**other].last_served > queue.last_served);
            list.len() - later.count()
        };
        list.insert(place, q);
        self.queues[q].stand = stand;
    }

    /// All queues of the next level that has any stand in line (`cfq_get_next_prio_level`).
    fn next_level(&mut self) -> bool {
        if self.levels.iter().all(VecDeque::is_empty) {
            return false;
        }
        loop {
            let found = (self.level..=self.last_level).find(|level| !self.levels[*level].is_empty());
            if let Some(level) = found {
                while let Some(q) = self.levels[level].pop_front() {
                    self.queues[q].stand = Stand::Current;
                    self.current.push_back(q);
                }
                self.level = level + 1;
                if self.level > self.last_level {
                    (self.last_level, self.level) = (self.level, 0);
                }
                if self.last_level == LEVELS {
                    (self.level, self.last_level) = (0, 0);
                }
                return true;
            }
            (self.level, self.last_level) = (0, (self.last_level + 1) % LEVELS);
        }
    }

    /// Chooses the queue to be served next; `None`: there is none, or only of the class idle and too early.
    fn activate(&mut self, now: Nanos) -> Option<usize> {
        let mut next = None;
        if !self.current.is_empty() || self.next_level() {
            next = self.current.front().copied();
        }
        next = next.or_else(|| self.busy.front().copied());
        if next.is_none() && !self.idle.is_empty() {
            let from = self.last_end + GRACE;
            if now < from {
                self.grace = Some(from);
                return None;
            }
            next = self.idle.front().copied();
        }
        let q = next?;
        let queue = &mut self.queues[q];
        (queue.slice_end, queue.looked_at_fifo, queue.is_new) = (None, false, false);
        (self.active, self.dispatched) = (Some(q), 0);
        Some(q)
    }

    /// The queue in service loses the disk (`cfq_slice_expired`).
    fn expire(&mut self, now: Nanos, lost_disk: bool) {
        let Some(q) = self.active.take() else { return };
        self.waits = None;
        let queue = &mut self.queues[q];
        queue.must_dispatch = false;
        queue.last_served = now;
        queue.slice_left = queue.slice_end.map_or(Nanos::ZERO, |end| (end - now).max(Nanos::ZERO));
        if queue.lane.is_empty() {
            self.leave(q);
        } else {
            self.stand(q, lost_disk);
        }
    }

    /// Keeps the disk idle for the queue in service, if that is worth it (`cfq_arm_slice_timer`).
    fn idles(&mut self, now: Nanos, q: usize) -> bool {
        let queue = &mut self.queues[q];
        if self.slice_idle == Nanos::ZERO || !queue.idles {
            return false;
        }
        let seeks = queue.seeks.mean();
        let is_seeky = seeks.weight() > VALID && seeks.get() > SEEKY;
        let most = if is_seeky { self.slice_idle.min(SEEKY_IDLE) } else { self.slice_idle };
        let end = queue.slice_end.unwrap_or(now + most);
        queue.must_dispatch = true;
        self.waits.get_or_insert(end.min(now + most).max(now));
        true
    }

    /// The queue to be served now; `None`: nothing is dispatched (`cfq_select_queue`).
    fn select(&mut self, now: Nanos) -> Option<usize> {
        let Some(q) = self.active else { return self.activate(now) };
        let queue = &self.queues[q];
        let is_over = !queue.must_dispatch && queue.slice_end.is_some_and(|end| now > end);
        if !is_over {
            if !queue.lane.is_empty() {
                return Some(q);
            }
            if queue.in_device > 0 || (queue.is_sync && self.idles(now, q)) {
                return None;
            }
        }
        self.expire(now, false);
        self.activate(now)
    }

    /// Requests of a queue go to the driver, up to so many.
    fn give(&mut self, context: &mut Context<'_>, out: &mut Outgoing, q: usize, most: u64) {
        let now = context.now;
        for _ in 0..most {
            let queue = &mut self.queues[q];
            let expired = queue.lane.expired(context.requests, now).filter(|_| !queue.looked_at_fifo);
            queue.looked_at_fifo = true;
            let nearest = || queue.lane.nearest(context.requests, self.last_sector, self.back);
            let Some(id) = expired.or_else(nearest) else { break };
            queue.lane.remove(context.requests, id);
            queue.in_device += 1;
            queue.metadata -= u32::from(context.requests[id].meta);
            self.last_sector = context.requests[id].end();
            (self.queued, self.dispatched) = (self.queued - 1, self.dispatched + 1);
            out.sort_in(context.requests, id, if expired.is_some() { EXPIRED } else { NEAREST });
        }
        if self.queues[q].slice_end.is_none() {
            let slice = self.slice_of(q) + self.queues[q].slice_left;
            self.queues[q].slice_end = Some(now + slice);
        }
        let queue = &self.queues[q];
        let base = self.async_requests;
        let most = 2 * (base + base * (7 - u64::from(queue.priority.level.min(7))));
        let is_used_up = !queue.is_sync && self.dispatched >= most;
        if is_used_up || queue.priority.class == IoClass::Idle || !queue.idles {
            self.expire(now, false);
        }
    }

    /// A request of a process comes: what it thought and how far it goes decide whether the disk is kept idle for it.
    fn learn(&mut self, now: Nanos, q: usize, sector: u64, end: u64) {
        let queue = &mut self.queues[q];
        if queue.seeks.add(sector, end)
            && let Some(last) = queue.last_end
        {
            let thought = (now - last).clamp(Nanos::ZERO, self.slice_idle * 2);
            queue.thought.add(thought.get_unsigned() / 1_000_000);
        }
        let seeks = queue.seeks.mean();
        if self.slice_idle == Nanos::ZERO || (self.is_tagged && seeks.weight() > VALID && seeks.get() > SEEKY)
        {
            queue.idles = false;
        } else if queue.thought.weight() > VALID {
            let most = self.slice_idle.get_unsigned() / 1_000_000;
            queue.idles = queue.priority.class != IoClass::Idle && queue.thought.get() <= most;
        }
    }

    /// Whether a queue that has a new request takes the disk from the one in service (`cfq_should_preempt`).
    fn preempts(&self, q: usize, meta: bool) -> bool {
        let Some(active) = self.active.map(|active| &self.queues[active]) else { return false };
        let queue = &self.queues[q];
        if queue.priority.class == IoClass::Idle {
            return false;
        }
        active.priority.class == IoClass::Idle
            || (queue.priority.class == IoClass::Realtime && active.priority.class != IoClass::Realtime)
            || (queue.is_sync && !active.is_sync)
            || (queue.is_sync && meta && active.metadata == 0)
    }
}

impl Elevator for Cfq {
    fn may_merge(&mut self, context: &mut Context<'_>, into: RequestId, bio: &Bio) -> bool {
        let request = &context.requests[into];
        let priority = context.processes[bio.process.index()].priority;
        let is_same = if bio.sync { request.process == bio.process } else { request.priority == priority };
        request.sync == bio.sync && is_same
    }

    fn front_merge(&mut self, context: &mut Context<'_>, bio: &Bio) -> Option<RequestId> {
        let priority = context.processes[bio.process.index()].priority;
        let q = self.queue_of(bio.process, priority, bio.sync);
        self.queues[q].lane.sorted.at(bio.end())
    }

    fn neighbour(&self, requests: &Requests, id: RequestId, side: Side) -> Option<RequestId> {
        let request = &requests[id];
        let q = if request.sync {
            *self.of_process.get(request.process.index())?
        } else {
            self.of_level[request.priority.class.place()][usize::from(request.priority.level.min(7))]
        };
        self.queues[q?].lane.sorted.beside(requests, id, side)
    }

    fn merged(&mut self, context: &mut Context<'_>, id: RequestId, side: Side) {
        if side == Side::Front {
            let q = self.queue_of_request(context.requests, id);
            self.queues[q].lane.sorted.grown_at_front(context.requests, id);
        }
    }

    fn joining(&mut self, context: &mut Context<'_>, kept: RequestId, gone: RequestId) {
        let q = self.queue_of_request(context.requests, gone);
        self.queues[q].lane.join(context.requests, kept, gone);
        self.queues[q].metadata -= u32::from(context.requests[gone].meta);
        self.queued -= 1;
    }

    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        let now = context.now;
        let q = self.queue_of_request(context.requests, id);
        let request = &context.requests[id];
        let (meta, sync) = (request.meta, request.sync);
        if sync {
            self.learn(now, q, request.sector, request.end());
        }
        let expires = now + self.expire[usize::from(sync)];
        self.queues[q].lane.insert(context.requests, id, expires);
        self.queues[q].metadata += u32::from(meta);
        self.queued += 1;
        if self.active == Some(q) {
            self.waits = None;
            return;
        }
        if self.queues[q].stand == Stand::Nowhere {
            self.stand(q, false);
        }
        if self.preempts(q, meta) {
            self.expire(now, true);
            self.leave(q);
            self.current.push_front(q);
            self.queues[q].stand = Stand::Current;
            self.queues[q].must_dispatch = true;
        }
    }

    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing) {
        let mut previous = None;
        while let Some(q) = self.select(context.now) {
            self.queues[q].must_dispatch = false;
            (self.waits, self.grace) = (None, None);
            let is_idle = self.queues[q].priority.class == IoClass::Idle;
            self.give(context, out, q, if is_idle { 1 } else { self.quantum });
            if self.active.is_some() || previous == Some(q) || self.queued == 0 {
                break;
            }
            previous = Some(q);
        }
    }

    fn completed(&mut self, context: &mut Context<'_>, id: RequestId) {
        let now = context.now;
        let q = self.queue_of_request(context.requests, id);
        let queue = &mut self.queues[q];
        queue.in_device -= 1;
        if queue.is_sync {
            queue.last_end = Some(now);
        }
        if queue.priority.class != IoClass::Idle {
            self.last_end = now;
        }
        if self.active == Some(q) {
            let is_over = queue.slice_end.is_some_and(|end| now > end) && !queue.must_dispatch;
            let is_out = queue.is_sync && queue.lane.is_empty();
            if is_over || (is_out && !self.idles(now, q)) {
                self.expire(now, false);
            }
        } else if queue.in_device == 0 && queue.stand != Stand::Nowhere {
            queue.last_served = now;
            self.stand(q, false);
        }
    }

    fn exited(&mut self, context: &mut Context<'_>, process: ProcessId) {
        let Some(q) = self.of_process.get(process.index()).copied().flatten() else { return };
        if self.active == Some(q) {
            self.expire(context.now, false);
        }
        let queue = &self.queues[q];
        if queue.in_device == 0 && queue.lane.is_empty() {
            self.leave(q);
            self.queues[q] = Queue::new(self.queues[q].priority, true);
        }
    }

    fn timer(&self) -> Option<Nanos> {
        [self.waits, self.grace].into_iter().flatten().min()
    }

    fn expired(&mut self, context: &mut Context<'_>) -> bool {
        if self.grace.is_some_and(|at| at <= context.now) {
            self.grace = None;
        }
        if self.waits.is_some_and(|at| at <= context.now) {
            self.waits = None;
            let is_empty = self.active.is_some_and(|q| self.queues[q].lane.is_empty());
            if is_empty {
                self.expire(context.now, false);
            }
        }
        true
    }

    fn queued(&self) -> usize {
        self.queued
    }
}

#[cfg(test)]
mod tests {
    use crate::script::Script;

    fn sectors(text: &str) -> Vec<u64> {
        Script::of(&super::ROW).text(text).run().sectors()
    }

    /// Requests of `a` every 2 ms, each 1 ms after the last is complete, and one of `b`, which waits for the end of the slice of 100 ms.
    fn readers(name: &str) -> usize {
        let mut text = String::from("500us b r 900000 8\n");
        for number in 0..120 {
            text.push_str(&format!("{}ms {name} r {} 8\n", 2 * number, 100 + 8 * number));
        }
        sectors(&text).iter().position(|sector| *sector == 900_000).expect("it is served")
    }

    /// At level 4 a slice has 100 ms, at level 0 180 ms, at level 7 40 ms.
    #[test]
    fn a_slice_is_as_long_as_its_level_says() {
        assert_eq!([readers("a4"), readers("a0"), readers("a7")], [51, 91, 21]);
    }

    /// The disk is kept idle for 8 ms.
    #[test]
    fn it_waits_no_longer_than_slice_idle() {
        let order = Script::of(&super::ROW).text("0ms a r 100 8\n500us b r 900000 8").run();
        assert_eq!(order.0[1].completed.get(), 1_000_000 + 8_000_000 + 1_000_000);
        let none = Script::of(&super::ROW).set("slice_idle", 0);
        let order = none.text("0ms a r 100 8\n500us b r 900000 8").run();
        assert_eq!(order.0[1].completed.get(), 2_000_000);
    }

    /// Realtime takes the disk at once; idle has it when nobody else had for 100 ms.
    #[test]
    fn classes_are_strict() {
        let text = "0ms a r 100 8\n0ms zi r 300 8\n500us A r 900000 8\n2ms a r 108 8";
        assert_eq!(sectors(text), [100, 900_000, 108, 300]);
        let order = Script::of(&super::ROW).text("0ms a r 100 8\n0ms zi r 300 8").run();
        assert_eq!(order.0[1].completed.get(), 1_000_000 + 100_000_000 + 1_000_000);
    }

    /// A read takes the disk from writes that nobody waits for.
    #[test]
    fn a_read_goes_before_writes_nobody_waits_for() {
        let mut text = String::from("4500us r r 5 8\n");
        for number in 0..20 {
            text.push_str(&format!("0ms w w {} 8\n", 1000 + 100 * number));
        }
        let place = sectors(&text).iter().position(|sector| *sector == 5).expect("it is served");
        assert!(place <= 8, "{place}");
    }
}
