//! The load of a CPU as balancing sees it where all threads are of one session (autogroup): that of the entity which stands for the
//! session there (`calc_group_shares`, `update_cfs_rq_h_load` in `kernel/sched/fair.c`).
//!
//! The entity of CPU `i` weighs `1024 m_i / (T - L_i + m_i)`, where `L_i` is the average load of the session's threads there, `T` the sum
//! of all `L`, and `m_i` the greater of `L_i` and the weight of those that want the CPU at this instant. So a CPU counts as busier while
//! a thread that mostly sleeps runs there than its average tells, and gives threads then that it keeps without a session.
//!
//! What a thread has wanted goes with it to another CPU, and is thought to have been wanted of the entities (`update_tg_cfs_load`): that
//! where it comes to gains it, up to all of the time, and that which it left has no more than its threads have on average. Neither has
//! less than it ran, which with the share of a thread that ran elsewhere is more than all of the time: for some tens of
//! milliseconds the CPU that took a thread is the busier one.
//!
//! *A model*: the kernel renews the weight when a thread joins or leaves and on ticks, and `T` once a millisecond.

use surety_units::Nanos;

use super::imbalance::CAPACITY;
use super::{Average, Balance, CpuState};
use crate::cpu::hardware::ThreadId;
use crate::cpu::policies::fair::average::Instant;

/// The least that an entity weighs (`MIN_SHARES`).
const WEIGHT_MIN: u64 = 2;

/// The session of all threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    /// The sum of what its threads load CPUs with.
    load: Average,
}

/// What groups load CPUs with at an instant, each told by those in it once: recursion would go through the lowest of nested groups for
/// each of those above.
#[derive(Clone, Debug, Default)]
pub(super) struct Loads {
    /// By group, on all CPUs.
    pub(super) all: Vec<u64>,
    /// Of groups with groups in them, CPU by CPU: the average load in them, and the weight of what wants it at this instant.
    pub(super) within: Vec<(u64, u64)>,
}

/// The load on all CPUs at an instant: of the session, and of each group.
#[derive(Clone, Debug)]
pub(super) struct Totals {
    session: u64,
    groups: Option<Loads>,
}

impl Session {
    /// The load of a CPU goes from one level to another.
    pub(super) fn step(&mut self, now: Nanos, from: u64, to: u64) {
        self.load.step(now, (self.load.level() + to).saturating_sub(from));
    }
}

/// What an entity has wanted, where a thread has come that wanted its CPU for `part`, and threads there ran for `used`.
pub(super) fn gains(wanted: &mut Average, part: &Average, used: &Average, now: Nanos) {
    let (part, used) = (part.sum(now), used.sum(now));
    wanted.replace(now, |wanted, whole| (wanted + part).min(whole).max(used));
}

/// The same where one has gone, and those that are left wanted it for `each`, told by what always would come to.
pub(super) fn loses(wanted: &mut Average, each: impl FnOnce(u64) -> u64, used: &Average, now: Nanos) {
    let used = used.sum(now);
    wanted.replace(now, |wanted, whole| wanted.min(each(whole)).max(used));
}

/// For how long threads that load a CPU so wanted it on average.
fn each(load: &Average, now: Nanos) -> u64 {
    load.sum(now).checked_div(load.level()).unwrap_or(0)
}

/// A thread's part of a CPU's averages, which wanted it for `part`, has gone to another one's.
pub(super) fn moves(from: &mut CpuState, to: &mut CpuState, part: &Average, now: Nanos) {
    gains(&mut to.wanted, part, &to.used, now);
    loses(&mut from.wanted, |_| each(&from.load, now), &from.used, now);
}

/// What the entity of a group of weight `group` weighs on a CPU (`calc_group_shares`): by the average load in it there, the weight of those
/// that want the CPU at this instant, and the average load on all CPUs.
pub(super) fn weight(group: u64, own: u64, level: u64, total: u64) -> u64 {
    let here = own.max(level);
    let whole = total.saturating_sub(own) + here;
    (group * here).checked_div(whole).unwrap_or(group).clamp(WEIGHT_MIN, group)
}

impl Balance {
    /// The load of the session on all CPUs, which that of each is told by.
    pub(super) fn total(&self, at: Instant) -> u64 {
        self.session.as_ref().map_or(0, |session| session.load.at(at, 1))
    }

    /// The same, and that of groups.
    #[inline]
    pub(super) fn totals(&self, at: Instant) -> Totals {
        let groups = self.shares.as_ref().map(|shares| shares.loads(at));
        Totals { session: self.total(at), groups }
    }

    /// The load of a CPU: that of its threads and of groups, or of a session.
    #[inline]
    pub(super) fn load(&self, cpu: usize, at: Instant, totals: &Totals) -> u64 {
        let state = &self.cpus[cpu];
        let own = state.load.at(at, 1);
        if let Some((shares, loads)) = self.shares.as_ref().zip(totals.groups.as_ref()) {
            return own + shares.load(cpu, at, loads);
        }
        if self.session.is_none() {
            return own;
        }
        state.wanted.at(at, weight(CAPACITY, own, state.load.level(), totals.session))
    }

    /// No less than the load of a CPU until the end of a period, where the session's on all CPUs is at least `total`.
    pub(super) fn load_in_period(&self, cpu: usize, at: Instant, total: u64) -> u64 {
        let state = &self.cpus[cpu];
        let own = state.load.at_most_in_period(at, 1);
        if let Some(shares) = &self.shares {
            return own + shares.load_in_period(cpu, at);
        }
        if self.session.is_none() {
            return own;
        }
        state.wanted.at_most_in_period(at, weight(CAPACITY, own, state.load.level(), total))
    }

    /// What a thread's own load on a CPU is of the CPU's, which is `load` (`task_h_load`).
    pub(super) fn part_of_load(
        &self,
        (thread, cpu): (ThreadId, usize),
        now: Nanos,
        load: u64,
        own: u64,
    ) -> u64 {
        if let Some((shares, group)) = self.shares.as_ref().zip(self.threads[thread.index()].group) {
            return shares.part((group, cpu), Instant::new(now), load, own);
        }
        if self.session.is_none() {
            return own * load / (load + 1);
        }
        own * load / (self.cpus[cpu].load.get(now, 1) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_millis(500);

    /// An average whose mean is then this part of 1,024.
    fn of(of_1024: u64) -> Average {
        let mut average = Average::default();
        average.replace(NOW, |_, whole| whole * of_1024 / 1024);
        average
    }

    /// Queues of Linux 6.18 (`/sys/kernel/debug/sched/debug`) while two spinners and two periodic threads of nice 0 and 5 ran on two CPUs:
    /// weight of the threads there, their average load, that of the session, and the weight that the kernel gave its entity. By the
    /// averages alone it would be 465 to 573 where another thread wants the CPU.
    #[test]
    fn weights_are_the_kernels() {
        for (level, own, total, kernels) in [
            (1024, 1604, 2922, 564),
            (2383, 1327, 2866, 623),
            (2048, 1589, 2956, 615),
            (1024, 1618, 2869, 572),
            (2048, 1546, 2922, 612),
            (2048, 1518, 2851, 622),
            (2383, 2334, 2858, 836),
        ] {
            // The kernel leaves changes of a CPU's load below a 64th out of its sum.
            assert!(
                weight(CAPACITY, own, level, total).abs_diff(kernels) <= 6,
                "{}, {kernels}",
                weight(CAPACITY, own, level, total)
            );
        }
        assert_eq!((weight(CAPACITY, 0, 0, 0), weight(CAPACITY, 0, 0, 5000)), (CAPACITY, WEIGHT_MIN));
    }

    /// The same while four spinners went to and fro: weight of an entity whose CPU has just taken one, 1,024 times what threads ran there on
    /// average, and the entity's load by the kernel, which is above its weight.
    #[test]
    fn an_entity_has_wanted_no_less_than_it_ran() {
        for (weight, used, kernels) in
            [(660, 1139, 733), (649, 1209, 765), (758, 1114, 824), (624, 1257, 764)]
        {
            let mut wanted = of(900);
            gains(&mut wanted, &of(1000), &of(used), NOW);
            assert!(wanted.get(NOW, weight).abs_diff(kernels) <= 2, "{}, {kernels}", wanted.get(NOW, weight));
        }
        let mut wanted = of(1024);
        gains(&mut wanted, &of(700), &of(300), NOW);
        assert_eq!(wanted.get(NOW, CAPACITY), 1024, "no more than all of the time");
    }

    /// Threads of weight 3072 that were there for half of the time.
    #[test]
    fn an_entity_that_lost_a_thread_has_wanted_what_the_others_did() {
        let mut load = Average::default();
        load.step(NOW, 3072);
        load.replace(NOW, |_, whole| whole * 1536);
        for (wanted, used, left) in [(1024, 100, 512), (400, 100, 400), (1024, 800, 800)] {
            let mut average = of(wanted);
            loses(&mut average, |_| each(&load, NOW), &of(used), NOW);
            assert!(average.get(NOW, CAPACITY).abs_diff(left) <= 1, "{} {left}", average.get(NOW, CAPACITY));
        }
        let mut average = of(1024);
        loses(&mut average, |_| each(&Average::default(), NOW), &of(100), NOW);
        assert!(average.get(NOW, CAPACITY) <= 100, "nobody is left");
    }
}
