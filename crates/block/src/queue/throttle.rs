//! [`Throttle`]: how many writes of the page cache a queue has at a time (`block/blk-wbt.c`, `rq_depth_*` in `block/blk-rq-qos.c`).
//!
//! Requests are watched in windows of a tenth of a second, shorter ones while the limit is lowered. A window in which the shortest read took longer than
//! the target lowers the limit by half; one with good reads, or with writes alone, raises it, up to 3/4 of the requests that the
//! queue had when it was made.
//! Who finds no place waits in the order of coming; with a write cache behind the queue nobody is woken before the last of them is complete.
//!
//! What the kernel writes for itself in the background has a quarter of the limit; what somebody waits for (`fsync`) has all of it, and so has everything
//! while a process waits, or has within a second, because too much is dirty. Writes of programs past the page cache are not counted.
//! A place that comes free without a completion (requests merged, a window's end) is given at once, and who has it is told with the next completion.

use std::collections::VecDeque;

use surety_units::Nanos;

use crate::elevator::Throttling;
use crate::request::{Bio, Op, ProcessId, Request, RequestId};

/// `RWB_WINDOW_NSEC`, `RWB_DEF_DEPTH`, `RWB_MIN_WRITE_SAMPLES`, `RWB_UNKNOWN_BUMP`.
const WINDOW: Nanos = Nanos::from_millis(100);
const DEPTH: u32 = 16;
const WRITES_LEAST: u32 = 3;
const UNKNOWN_MOST: u32 = 5;
/// Since a process waited because too much is dirty (`wb_recent_wait`).
const RECENT: Nanos = Nanos::from_secs(1);

/// What a window has seen of completed requests.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    shortest_read: Option<Nanos>,
    writes: u32,
}

/// What a window says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    Good,
    Exceeded,
    OnlyWrites,
    Unknown,
}

/// Writes of the page cache in a queue.
#[derive(Clone, Debug)]
pub(super) struct Throttle {
    by: Throttling,
    /// Above zero: lowered so often; below: raised.
    step: i32,
    is_at_most: bool,
    most: u32,
    in_flight: u32,
    unknown: u32,
    /// The end of the window, and how long it is.
    until: Option<Nanos>,
    window: Nanos,
    seen: Seen,
    /// The read that was issued first of those under way when none was, and when.
    oldest: Option<(RequestId, Nanos)>,
    /// Processes that wait because too much is dirty, and until when that counts after the last.
    dirtiers: bool,
    recent: Option<Nanos>,
    waiting: VecDeque<(ProcessId, bool)>,
    /// Have a place and no request yet; the first `told` of them know it.
    given: Vec<ProcessId>,
    told: usize,
}

/// The highest limit; `tags` are the requests that the queue had when its throttle was made (`rq_depth_calc_max_depth`).
fn highest(tags: u32) -> u32 {
    tags * 3 / 4
}

/// The most writes let by at once at any step, of a queue with these tags.
pub fn most_writes(tags: u32) -> u32 {
    if tags <= 1 { 2 } else { highest(tags).max(DEPTH.min(tags)) }
}

impl Throttle {
    pub(super) fn new(by: Throttling) -> Throttle {
        let mut throttle = Throttle {
            by,
            step: 0,
            is_at_most: false,
            most: 0,
            in_flight: 0,
            unknown: 0,
            until: None,
            window: WINDOW,
            seen: Seen::default(),
            oldest: None,
            dirtiers: false,
            recent: None,
            waiting: VecDeque::new(),
            given: Vec::new(),
            told: 0,
        };
        throttle.limit();
        throttle
    }

    /// Computes the limit of a step; whether it can be raised no further (`rq_depth_calc_max_depth`).
    fn limit(&mut self) -> bool {
        if self.by.tags <= 1 {
            self.most = if self.step > 0 { 1 } else { 2 };
            return self.step <= 0;
        }
        let depth = DEPTH.min(self.by.tags);
        if self.step >= 0 {
            self.most = 1 + (depth - 1).checked_shr(self.step.unsigned_abs()).unwrap_or(0);
            return false;
        }
        let highest = highest(self.by.tags);
        let raised = u64::from(depth - 1) << self.step.unsigned_abs().min(31);
        self.most = u32::try_from(1 + raised).unwrap_or(u32::MAX).min(highest);
        1 + raised > u64::from(highest)
    }

    /// Of the limit, what the kernel's own writes in the background have (`wb_background`), and below what somebody is woken (`wb_normal`).
    fn background(&self) -> u32 {
        if self.most <= 2 { 1 } else { self.most.div_ceil(4) }
    }

    fn normal(&self) -> u32 {
        if self.most <= 2 { self.most } else { self.most.div_ceil(2) }
    }

    fn is_recent(&self, now: Nanos) -> bool {
        self.dirtiers || self.recent.is_some_and(|until| now < until)
    }

    fn has_place(&self, now: Nanos, is_waited_for: bool) -> bool {
        let all = is_waited_for || self.is_recent(now);
        self.in_flight < if all { self.most } else { self.background() }
    }

    /// Whether a bio has a place, or may go on without one; else its process waits until it is among the woken.
    pub(super) fn admits(&mut self, now: Nanos, bio: &Bio) -> bool {
        if !bio.cached || bio.op != Op::Write {
            return true;
        }
        if self.take(bio.process) {
            return true;
        }
        if !self.waiting.is_empty() || !self.has_place(now, bio.sync) {
            if self.waiting.iter().all(|(process, _)| *process != bio.process) {
                self.waiting.push_back((bio.process, bio.sync));
            }
            return false;
        }
        self.in_flight += 1;
        if self.until.is_none() {
            self.begin_window(now);
        }
        true
    }

    /// Takes the place that a process was given while it waited, if it was.
    fn take(&mut self, process: ProcessId) -> bool {
        let Some(at) = self.given.iter().position(|given| *given == process) else { return false };
        self.given.remove(at);
        self.told = if at < self.told { self.told - 1 } else { self.told };
        true
    }

    /// A process has a place and no request is to be had: it keeps it until it comes again.
    pub(super) fn keep(&mut self, bio: &Bio) {
        if bio.cached && bio.op == Op::Write {
            self.given.insert(0, bio.process);
            self.told += 1;
        }
    }

    /// A bio has become a part of a request: its process needs no place of its own.
    pub(super) fn joined(&mut self, now: Nanos, bio: &Bio) {
        if bio.cached && self.take(bio.process) {
            self.gone(now);
        }
    }

    /// The driver takes a request.
    pub(super) fn issued(&mut self, now: Nanos, id: RequestId, op: Op) {
        if op == Op::Read && self.oldest.is_none() {
            self.oldest = Some((id, now));
        }
    }

    /// A request is complete, or has joined another one where `is_served` says so.
    pub(super) fn ended(&mut self, now: Nanos, id: RequestId, request: &Request, is_served: bool) {
        self.oldest = self.oldest.filter(|(oldest, _)| *oldest != id);
        if is_served && self.until.is_some() {
            let took = now - request.issued;
            match request.op {
                Op::Read => {
                    self.seen.shortest_read =
                        Some(self.seen.shortest_read.map_or(took, |least| least.min(took)));
                }
                Op::Write => self.seen.writes += 1,
                Op::Discard | Op::Flush => {}
            }
        }
        if request.cached && request.op == Op::Write {
            self.gone(now);
        }
    }

    /// One less is under way (`wbt_rqw_done`).
    fn gone(&mut self, now: Nanos) {
        self.in_flight -= 1;
        let limit = if self.by.write_cache && !self.is_recent(now) { 0 } else { self.normal() };
        if self.in_flight > 0 && self.in_flight >= limit {
            return;
        }
        if self.in_flight == 0 || limit - self.in_flight >= self.background() / 2 {
            self.give(now);
        }
    }

    /// Gives places to those that wait, in their order.
    fn give(&mut self, now: Nanos) {
        while let Some((process, is_waited_for)) = self.waiting.front().copied()
            && self.has_place(now, is_waited_for)
        {
            self.waiting.pop_front();
            self.in_flight += 1;
            self.given.push(process);
        }
    }

    /// Appends those that have a place and do not know it.
    pub(super) fn woken(&mut self, woken: &mut Vec<ProcessId>) {
        woken.extend_from_slice(&self.given[self.told..]);
        self.told = self.given.len();
    }

    /// Processes wait, or do no more, because too much is dirty.
    pub(super) fn dirtiers(&mut self, now: Nanos, wait: bool) {
        if self.dirtiers && !wait {
            self.recent = Some(now + RECENT);
        }
        self.dirtiers = wait;
    }

    fn begin_window(&mut self, now: Nanos) {
        self.window = match u64::try_from(self.step) {
            Ok(step) if step > 0 => Nanos::new((WINDOW.get() << 4) / ((step + 1) << 8).isqrt() as i64),
            _ => WINDOW,
        };
        self.until = Some(now + self.window);
        self.seen = Seen::default();
    }

    /// When its window ends.
    pub(super) fn timer(&self) -> Option<Nanos> {
        self.until
    }

    /// What the window says (`latency_exceeded`).
    fn found(&self, now: Nanos) -> Finding {
        if let Some((_, since)) = self.oldest {
            let waits = now - since;
            if waits > self.window || (waits > self.by.target && self.seen.shortest_read.is_none()) {
                return Finding::Exceeded;
            }
        }
        match self.seen.shortest_read {
            Some(shortest) if self.seen.writes >= WRITES_LEAST && shortest > self.by.target => {
                Finding::Exceeded
            }
            Some(_) if self.seen.writes >= WRITES_LEAST => Finding::Good,
            _ if self.seen.writes > 0 || self.is_recent(now) || self.in_flight > 0 => Finding::OnlyWrites,
            _ => Finding::Unknown,
        }
    }

    /// The window may have ended: the limit follows what it says (`wb_timer_fn`).
    pub(super) fn expired(&mut self, now: Nanos) {
        if self.until.is_none_or(|until| now < until) {
            return;
        }
        match self.found(now) {
            Finding::Exceeded => self.lower(true),
            Finding::Good | Finding::OnlyWrites => self.raise(now),
            Finding::Unknown => {
                self.unknown += 1;
                match self.step.signum() {
                    1 if self.unknown >= UNKNOWN_MOST => self.raise(now),
                    -1 if self.unknown >= UNKNOWN_MOST => self.lower(false),
                    _ => {}
                }
            }
        }
        self.until = None;
        if self.step != 0 || self.in_flight > 0 {
            self.begin_window(now);
        }
    }

    fn raise(&mut self, now: Nanos) {
        if self.is_at_most {
            return;
        }
        self.step -= 1;
        self.is_at_most = self.limit();
        self.unknown = 0;
        self.give(now);
    }

    /// `at_once`: reads took too long, so that what was raised is taken back whole.
    fn lower(&mut self, at_once: bool) {
        if self.most == 1 {
            return;
        }
        self.step = if self.step < 0 && at_once { 0 } else { self.step + 1 };
        self.is_at_most = false;
        self.limit();
        self.unknown = 0;
    }
}

#[cfg(test)]
mod tests {
    use surety_units::Nanos;

    use super::*;
    use crate::request::{Priority, Requests};

    const BY: Throttling = Throttling { target: Nanos::from_millis(1), tags: 128, write_cache: true };

    fn ms(of: i64) -> Nanos {
        Nanos::from_millis(of)
    }

    fn write(process: u32, sync: bool) -> Bio {
        let (op, meta, cached, sector, sectors) = (Op::Write, false, true, 0, 8);
        Bio { op, sync, meta, cached, sector, sectors, process: ProcessId(process), deadline: None }
    }

    fn at(by: Throttling, step: i32) -> Throttle {
        let mut throttle = Throttle::new(by);
        throttle.step = step;
        throttle.limit();
        throttle
    }

    /// 16 at first, halved with each step down, doubled up to 3/4 of 128 with each up; 2 of a device that takes one request.
    #[test]
    fn limits_follow_steps() {
        for (tags, step, most, background, normal) in [
            (128, 0, 16, 4, 8),
            (128, 1, 8, 2, 4),
            (128, 3, 2, 1, 2),
            (128, 4, 1, 1, 1),
            (128, 40, 1, 1, 1),
            (128, -1, 31, 8, 16),
            (128, -3, 96, 24, 48),
            (32, -1, 24, 6, 12),
            (1, 0, 2, 1, 2),
            (1, 1, 1, 1, 1),
        ] {
            let throttle = at(Throttling { tags, ..BY }, step);
            let found = (throttle.most, throttle.background(), throttle.normal());
            assert_eq!(found, (most, background, normal), "{tags} tags, step {step}");
        }
    }

    /// No step has a higher limit than is said for all, and one has that.
    #[test]
    fn no_step_lets_more_by() {
        for tags in [1, 2, 4, 16, 20, 32, 128] {
            let most = (-10..10).map(|step| at(Throttling { tags, ..BY }, step).most).max();
            assert_eq!(most, Some(most_writes(tags)), "{tags} tags");
        }
        assert_eq!([1, 2, 4, 16, 20, 32, 128].map(most_writes), [2, 2, 4, 16, 16, 24, 96]);
    }

    /// A request of a bio, complete.
    fn ends(throttle: &mut Throttle, now: Nanos, bio: &Bio, issued: Nanos) -> Vec<ProcessId> {
        let mut requests = Requests::default();
        let id = requests.make(bio, crate::request::BioId(0), Priority::default(), issued);
        throttle.ended(now, id, &requests[id], true);
        let mut woken = Vec::new();
        throttle.woken(&mut woken);
        woken
    }

    /// Four in the background at first. Behind a write cache who waits is woken when the last of them is complete; without one, from the first on that leaves less than `wb_normal`.
    #[test]
    fn those_that_wait_are_woken_in_order() {
        for (write_cache, wakes_at) in [(true, 4), (false, 1)] {
            let mut throttle = Throttle::new(Throttling { write_cache, ..BY });
            let admitted = (0..6).filter(|n| throttle.admits(ms(0), &write(*n, false))).count();
            assert_eq!(admitted, 4);
            let woken: Vec<usize> =
                (0..4).map(|n| ends(&mut throttle, ms(1), &write(n, false), ms(0)).len()).collect();
            let before: usize = woken[..wakes_at - 1].iter().sum();
            assert_eq!(before, 0, "{woken:?}");
            assert!(woken[wakes_at - 1] > 0, "{woken:?}");
            assert_eq!(woken.iter().sum::<usize>(), 2);
            assert!(throttle.admits(ms(2), &write(4, false)) && throttle.admits(ms(2), &write(5, false)));
            assert_eq!(throttle.in_flight, 2);
        }
    }

    /// What an `fsync` waits for has all places, and so has everything while somebody waits because too much is dirty, and a second longer.
    #[test]
    fn a_hurry_has_all_places() {
        let count = |throttle: &mut Throttle, now, sync| {
            (0..100).take_while(|n| throttle.admits(now, &write(*n, sync))).count()
        };
        assert_eq!(count(&mut Throttle::new(BY), ms(0), true), 16);
        let mut dirty = Throttle::new(BY);
        dirty.dirtiers(ms(0), true);
        dirty.dirtiers(ms(10), false);
        assert_eq!(count(&mut dirty.clone(), ms(1009), false), 16);
        assert_eq!(count(&mut dirty, ms(1010), false), 4);
    }

    /// Reads that take 2 ms halve the limit with each window down to one; without any it is raised up to 96.
    #[test]
    fn windows_move_the_limit() {
        let mut throttle = Throttle::new(BY);
        let mut now = ms(0);
        let mut limits = Vec::new();
        let windows = |throttle: &mut Throttle, now: &mut Nanos, reads: bool| {
            for process in 0..3 {
                let bio = write(process, true);
                if throttle.admits(*now, &bio) {
                    ends(throttle, *now + ms(1), &bio, *now);
                } else {
                    throttle.waiting.clear();
                }
                throttle.seen.writes = 3;
            }
            if reads {
                let read = Bio { op: Op::Read, sync: true, cached: false, ..write(9, true) };
                ends(throttle, *now + ms(2), &read, *now);
            }
            *now = throttle.timer().expect("a window is open");
            throttle.expired(*now);
            throttle.most
        };
        assert!(throttle.admits(now, &write(7, true)));
        for _ in 0..5 {
            limits.push(windows(&mut throttle, &mut now, true));
        }
        assert_eq!(limits, [8, 4, 2, 1, 1]);
        assert_eq!(throttle.window, Nanos::new(1_600_000_000 / 35), "35 is the root of 5 << 8, rounded down");
        limits.clear();
        for _ in 0..8 {
            limits.push(windows(&mut throttle, &mut now, false));
        }
        assert_eq!(limits, [2, 4, 8, 16, 31, 61, 96, 96]);
    }
}
