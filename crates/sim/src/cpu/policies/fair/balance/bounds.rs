//! [`Bounds`]: how busy CPUs are at most, so that whoever looks for the busiest one looks at a few.
//!
//! A mean goes one way between steps of its level, and falls with the end of a period alone ([`Average`]): so what it is at most until
//! then is known at once. Each CPU's rank is bounded in that way when its averages, its threads or its capacity have changed, and all
//! are when a period is over; a CPU that looks computes those only whose bounds are above what it has found.

use surety_units::Nanos;

use super::imbalance::{CAPACITY, Kind, Looks, Seen};
use super::{Average, Balance, CpuState};
use crate::cpu::hardware::Hardware;
use crate::cpu::places::{Places, Ranking};
use crate::cpu::policies::fair::average::{Instant, period_of};

/// The figure of a CPU that has nothing to give.
pub(super) const NOTHING: i64 = i64::MIN + 1;

/// Bits of what decides among CPUs of one kind.
const FIGURE_BITS: u32 = 56;

/// What CPUs are at most, until the end of a period.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// CPUs by their ranks at most ([`figure`]).
    pub(super) ranking: Ranking,
    /// Those that have changed since they were ranked.
    changed: Places,
    period: u64,
    /// What the load of the session is at least.
    total: u64,
    /// How many times a CPU was ranked that has something to give, or had.
    changes: u64,
}

/// What the busiest CPU is known from: an instant, and all that has happened to those that have something to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    now: Nanos,
    changes: u64,
    left_idle: u64,
}

/// The busiest of the others, as a CPU about to idle last saw it.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    at: Option<At>,
    busiest: Option<(Seen, usize)>,
}

impl Bounds {
    pub(super) fn new(cpus: usize) -> Bounds {
        let ranking = Ranking::new(cpus, NOTHING);
        Bounds { ranking, changed: Places::none(cpus), period: 0, total: 0, changes: 0 }
    }

    /// The averages, the threads or the capacity of a CPU have changed.
    #[inline]
    pub(super) fn change(&mut self, cpu: usize) {
        self.changed.set(cpu, true);
    }
}

/// A rank as one number: greater where the rank is, of all figures below 2^56.
#[inline]
pub(super) fn figure((kind, figure): (Kind, u64)) -> i64 {
    let kind = match kind {
        Kind::Spare => 0,
        Kind::FullyBusy => 1,
        Kind::Reduced => 2,
        Kind::Overloaded => 3,
    };
    kind << FIGURE_BITS | figure.min((1 << FIGURE_BITS) - 1).cast_signed()
}

impl Balance {
    /// Renews the bounds of CPUs that have changed, and of all that are wanted when a period begins.
    pub(super) fn bound(&mut self, hardware: &Hardware) {
        let (now, period) = (hardware.now(), period_of(hardware.now()));
        if self.bounds.period != period {
            self.bounds.period = period;
            self.bounds.total = self.total_in_period(now);
            self.bounds.changed.add(&self.by_one);
            self.bounds.changed.add(&self.by_several);
        }
        if self.bounds.changed.is_empty() {
            return;
        }
        let at = Instant::new(now);
        while let Some(cpu) = self.bounds.changed.pop() {
            let (state, runs) = (&self.cpus[cpu], &hardware.sets.by_rank()[self.rank.0]);
            let most = match state.wanting.len() {
                0 => NOTHING,
                // It runs there: when it does no more, the CPU has changed.
                1 if runs.contains(cpu) && !self.reduced.contains(cpu) => NOTHING,
                fair => figure(self.at_most(state, fair, at)),
            };
            self.bounds.changes += u64::from(most != NOTHING || self.bounds.ranking.get(cpu) != NOTHING);
            self.bounds.ranking.set(cpu, most);
        }
    }

    /// Finds the busiest other CPU for one about to idle. The last answer stands while the time, the bounds and how often CPUs left idle are the
    /// same: a CPU that a fair thread waits for goes from another scheduler's thread to that one and never to none.
    pub(in crate::cpu::policies::fair) fn find_busiest(&mut self, hardware: &Hardware, cpu: usize) {
        self.bound(hardware);
        let at = At { now: hardware.now(), changes: self.bounds.changes, left_idle: hardware.sets.left_idle };
        if self.cpus[cpu].known.at != Some(at) {
            let busiest = self.busiest(hardware, cpu, Looks::NewlyIdle);
            self.cpus[cpu].known = Known { at: Some(at), busiest };
        }
    }

    /// What [`Balance::find_busiest`] has found.
    pub(super) fn known_busiest(&self, hardware: &Hardware, cpu: usize) -> Option<(Seen, usize)> {
        let busiest = self.cpus[cpu].known.busiest;
        debug_assert_eq!(busiest, self.busiest(hardware, cpu, Looks::NewlyIdle), "nothing has changed");
        busiest
    }

    /// The rank of a CPU at most until the end of the period, whoever looks and whatever else runs there.
    fn at_most(&self, state: &CpuState, fair: usize, at: Instant) -> (Kind, u64) {
        let of = |average: &Average, scale| average.at_most_in_period(at, scale);
        let (runnable, used) = (of(&state.runnable, CAPACITY), of(&state.used, CAPACITY));
        let seen = Seen::without_load(runnable, used, (fair, fair + 1), state.capacity);
        let load = || self.load_in_period(state, at, self.bounds.total);
        seen.with_load(Looks::NewlyIdle, load).rank(Looks::NewlyIdle)
    }
}
