//! Quotas of groups (`cpu.max`, CFS bandwidth control), after `kernel/sched/fair.c`.
//!
//! A group has a pool that a timer fills once in each period. Its queue on each CPU takes 5 ms at a time from it and pays with them
//! for the time its threads run, booked on ticks and when they leave, as all time is: what they ran beyond is paid back first. A queue that
//! gets nothing more is throttled when its CPU next chooses: its entity leaves the queue above until the timer hands out again, as little
//! to each throttled queue as makes it run, in the order in which they were throttled. A queue that gets empty gives back what it has
//! beyond 1 ms, and where that is more than a slice, a second timer hands it out to throttled ones 5 ms later.
//!
//! The timer runs while the pool is used; its grid has an origin drawn for each group. *A model*: threads are throttled with their queue at
//! once, as until 6.17; since then each leaves by itself when it is about to return to its program, which a thread that computes is
//! at once.

use surety_model::workload::Quota;
use surety_stats::random::Pcg;
use surety_units::Nanos;

use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::Arrival;
use crate::engine::Slot;

use super::Fair;
use super::queue::Rule;

/// What a queue takes at a time, ns (`sched_cfs_bandwidth_slice_us`).
const SLICE: i64 = 5_000_000;
/// What an empty queue keeps, ns (`min_cfs_rq_runtime`).
const KEPT: i64 = 1_000_000;
/// How long after it was given back unused time is handed out (`cfs_bandwidth_slack_period`).
const SLACK: Nanos = Nanos::from_millis(5);
/// It is not where the pool is filled so soon anyway (`min_bandwidth_expiration`).
const SOON: Nanos = Nanos::from_millis(2);
/// Stream of the chance by which grids begin.
const STREAM: u128 = 0x71_756f_7461;

/// The pool of a group.
#[derive(Clone, Debug)]
struct Pool {
    quota: Quota,
    /// ns left in it.
    left: i64,
    /// A point of the grid of its timer.
    origin: Nanos,
    timer: Slot,
    slack: Slot,
    /// Whether nobody has taken from it since it was filled.
    is_idle: bool,
    /// Queues that wait for it, in the order in which they were throttled.
    throttled: Vec<usize>,
}

impl Pool {
    /// The next point of the grid.
    fn next_fill(&self, hardware: &Hardware) -> Nanos {
        let period = self.quota.period;
        let passed = (hardware.now() - self.origin).div_floor(period);
        self.origin + period * (passed + 1)
    }

    fn period_timer(&self, hardware: &mut Hardware) {
        if !hardware.engine.is_armed(self.timer) {
            let next = self.next_fill(hardware);
            hardware.arm_timer(self.timer, 0, next);
        }
    }

    /// Whether it is filled within this time.
    fn is_filled_within(&self, hardware: &Hardware, time: Nanos) -> bool {
        self.next_fill(hardware) - hardware.now() < time
    }
}

/// Pools by group, and what is left in queues.
#[derive(Clone, Debug, Default)]
pub(super) struct Quotas {
    pools: Vec<Option<Pool>>,
    /// ns left to each queue; of those without a quota nothing is booked.
    left: Vec<i64>,
}

impl Quotas {
    /// Of the groups of a machine; its queues are numbered as those of the fair class.
    pub(super) fn new(hardware: &mut Hardware, rank: Rank, queues: usize) -> Quotas {
        let cpus = hardware.cpus.len();
        let quotas: Vec<Option<Quota>> = hardware.groups.iter().map(|group| group.quota).collect();
        if quotas.iter().all(Option::is_none) {
            return Quotas::default();
        }
        let mut chance = Pcg::new(hardware.seed.into(), STREAM);
        let mut pools = Vec::new();
        for (group, quota) in quotas.into_iter().enumerate() {
            let origin = chance.below(quota.map_or(1, |quota| quota.period.get_unsigned().max(1)));
            let number =
                |kind: usize| u32::try_from(cpus + 2 * group + kind).expect("fewer than 2^31 groups");
            pools.push(quota.map(|quota| Pool {
                quota,
                left: quota.runtime.get(),
                origin: Nanos::new(i64::try_from(origin).expect("within a period")),
                timer: hardware.add_timer(rank, number(0)),
                slack: hardware.add_timer(rank, number(1)),
                is_idle: false,
                throttled: Vec::new(),
            }));
        }
        Quotas { pools, left: vec![0; queues] }
    }

    #[inline]
    fn are_none(&self) -> bool {
        self.pools.is_empty()
    }

    /// A queue gets up to `target` ns if the pool has them; whether it may run then (`__assign_cfs_rq_runtime`).
    fn assign(&mut self, hardware: &mut Hardware, (group, queue): (usize, usize), target: i64) -> bool {
        let Some(pool) = &mut self.pools[group] else { return true };
        pool.period_timer(hardware);
        if pool.left > 0 {
            let taken = pool.left.min(target - self.left[queue]);
            pool.left -= taken;
            pool.is_idle = false;
            self.left[queue] += taken;
        }
        self.left[queue] > 0
    }
}

impl<R: Rule> Fair<R> {
    /// The group that a queue is of, where that has a quota.
    #[inline]
    fn limited(&self, queue: usize) -> Option<usize> {
        if self.quotas.are_none() || queue < self.cpus {
            return None;
        }
        let group = queue / self.cpus - 1;
        self.quotas.pools[group].is_some().then_some(group)
    }

    /// Threads of a queue have run; whether it has nothing left to pay with (`account_cfs_rq_runtime`).
    #[inline]
    pub(super) fn pay(&mut self, hardware: &mut Hardware, queue: usize, ran: Nanos) -> bool {
        self.limited(queue).is_some_and(|group| self.pay_of(hardware, (group, queue), ran))
    }

    fn pay_of(&mut self, hardware: &mut Hardware, (group, queue): (usize, usize), ran: Nanos) -> bool {
        let left = &mut self.quotas.left[queue];
        *left -= ran.get();
        *left <= 0
            && !self.queues.queues[queue].throttled
            && !self.quotas.assign(hardware, (group, queue), SLICE)
    }

    /// Throttles a queue that may not run (`check_cfs_rq_runtime`); whether it is now. `joins`: its only thread is about to join.
    #[inline]
    pub(super) fn throttle_if_due(&mut self, hardware: &mut Hardware, queue: usize, joins: bool) -> bool {
        self.limited(queue).is_some_and(|group| self.is_throttled(hardware, (group, queue), joins))
    }

    fn is_throttled(&mut self, hardware: &mut Hardware, (group, queue): (usize, usize), joins: bool) -> bool {
        if self.queues.queues[queue].throttled {
            return true;
        }
        // One nanosecond that somebody has given back would do.
        if self.quotas.left[queue] > 0 || self.quotas.assign(hardware, (group, queue), 1) {
            return false;
        }
        if let Some(pool) = &mut self.quotas.pools[group] {
            pool.throttled.push(queue);
        }
        // Who has just joined, and so made it not empty, is not known there yet.
        if !joins {
            self.tell_balance(hardware, queue, false);
        }
        self.queues.set_throttled(queue, true);
        let entity = self.queues.queues[queue].entity.expect("a group has an entity");
        if self.queues.entities[entity].queued {
            self.let_go(hardware, entity, (true, false), false);
        }
        true
    }

    /// The groups of the thread that a CPU runs, when it chooses.
    #[inline]
    pub(super) fn throttle_current(&mut self, hardware: &mut Hardware, cpu: usize) {
        if !self.quotas.are_none() {
            self.throttle_groups(hardware, cpu);
        }
    }

    fn throttle_groups(&mut self, hardware: &mut Hardware, cpu: usize) {
        let current = hardware.current_of(cpu, self.rank).map(|current| self.of_thread[current.index()]);
        let mut next = current.filter(|entity| self.queues.entities[*entity].queued);
        while let Some(entity) = next {
            self.throttle_if_due(hardware, self.queues.entities[entity].queue, false);
            next = self.queues.parent(entity);
        }
    }

    /// A queue that was empty has got a member: it may run only with something left (`check_enqueue_throttle`).
    pub(super) fn may_begin(&mut self, hardware: &mut Hardware, queue: usize) -> bool {
        let is_first = self.queues.queues[queue].count == 1;
        if is_first && self.limited(queue).is_some() && self.queues.queues[queue].current.is_none() {
            self.pay(hardware, queue, Nanos::ZERO);
            self.throttle_if_due(hardware, queue, true);
        }
        !self.queues.queues[queue].throttled
    }

    /// An empty queue gives back what it will not need (`return_cfs_rq_runtime`).
    #[inline]
    pub(super) fn give_back(&mut self, hardware: &mut Hardware, queue: usize) {
        if let Some(group) = self.limited(queue) {
            self.give_back_to(hardware, (group, queue));
        }
    }

    fn give_back_to(&mut self, hardware: &mut Hardware, (group, queue): (usize, usize)) {
        let unused = self.quotas.left[queue] - KEPT;
        if self.queues.queues[queue].count > 0 || unused <= 0 {
            return;
        }
        self.quotas.left[queue] -= unused;
        let Some(pool) = &mut self.quotas.pools[group] else { return };
        pool.left += unused;
        let waits = pool.left > SLICE && !pool.throttled.is_empty();
        if waits && !pool.is_filled_within(hardware, SLACK + SOON) && !hardware.engine.is_armed(pool.slack) {
            let at = hardware.now() + SLACK;
            hardware.arm_timer(pool.slack, 0, at);
        }
    }

    /// One of the two timers of a group, behind those of CPUs.
    pub(super) fn quota_timer(&mut self, hardware: &mut Hardware, number: usize) {
        let (group, is_slack) = (number / 2, number % 2 == 1);
        let Some(pool) = &mut self.quotas.pools[group] else { return };
        if is_slack {
            if !pool.is_filled_within(hardware, SOON) && pool.left > SLICE {
                self.hand_out(hardware, group);
            }
            return;
        }
        let Quota { runtime, burst, .. } = pool.quota;
        pool.left = (pool.left + runtime.get()).min((runtime + burst).get());
        let is_wanted = !pool.throttled.is_empty();
        if pool.is_idle && !is_wanted {
            return;
        }
        pool.is_idle = !is_wanted;
        pool.period_timer(hardware);
        self.hand_out(hardware, group);
    }

    /// Throttled queues get as much as makes them run, while there is something (`distribute_cfs_runtime`).
    fn hand_out(&mut self, hardware: &mut Hardware, group: usize) {
        let waiting = match &mut self.quotas.pools[group] {
            Some(pool) => std::mem::take(&mut pool.throttled),
            None => return,
        };
        let mut still = Vec::new();
        for queue in waiting {
            let Some(pool) = &mut self.quotas.pools[group] else { return };
            let given = (1 - self.quotas.left[queue]).min(pool.left).max(0);
            pool.left -= given;
            self.quotas.left[queue] += given;
            if self.quotas.left[queue] > 0 {
                self.unthrottle(hardware, queue);
            } else {
                still.push(queue);
            }
        }
        if let Some(pool) = &mut self.quotas.pools[group] {
            still.append(&mut pool.throttled);
            pool.throttled = still;
        }
    }

    /// A queue may run again (`unthrottle_cfs_rq`): a CPU without a thread chooses, one that runs goes on.
    fn unthrottle(&mut self, hardware: &mut Hardware, queue: usize) {
        let cpu = queue % self.cpus;
        self.queues.set_throttled(queue, false);
        let entity = self.queues.queues[queue].entity.expect("a group has an entity");
        if self.queues.queues[queue].count > 0 {
            self.join(hardware, entity, Arrival::Woken);
        }
        self.tell_balance(hardware, queue, true);
        hardware.rejoins(cpu, self.rank);
        if hardware.current(cpu).is_none() && self.queues.queues[cpu].count > 0 {
            hardware.reschedule(cpu);
        }
    }

    /// Balancing hears of the threads in a queue and below that want the CPU from now on, or no longer.
    fn tell_balance(&mut self, hardware: &Hardware, queue: usize, wanted: bool) {
        if self.cpus == 1 || self.queues.queues[queue].is_held() {
            return;
        }
        let inside: Vec<_> = (self.of_thread.iter().copied())
            .filter(|entity| self.queues.is_below(self.queues.entities[*entity].queue, queue))
            .map(|entity| &self.queues.entities[entity])
            .filter(|e| e.queued && !self.queues.queues[e.queue].is_held())
            .filter_map(|e| Some((e.thread?, e.delayed)))
            .collect();
        for (thread, is_left) in inside {
            let load = self.load_beside(thread);
            if wanted {
                self.balance.joins(hardware, thread, self.weight_of(thread), load);
            }
            if is_left || !wanted {
                self.balance.leaves(hardware, thread, is_left && wanted, load);
            }
        }
    }
}
