//! [`Bounds`]: how busy CPUs are at most, so that whoever looks for the busiest one looks at a few.
//!
//! A mean goes one way between steps of its level, and falls with the end of a period alone ([`Average`]): so what it is at most until
//! then is known at once. Each CPU's rank is bounded in that way when its averages, its threads or its capacity have changed, and all
//! are when a period is over; a CPU that looks computes those only whose bounds are above what it has found.

use super::imbalance::{CAPACITY, Kind, Looks, Seen};
use super::{Average, Balance};
use crate::cpu::hardware::Hardware;
use crate::cpu::places::{Places, Ranking};
use crate::cpu::policies::fair::average::{Instant, period_of};

/// The figure of a CPU that has nothing to give.
pub(super) const NOTHING: i64 = i64::MIN + 1;

/// Bits of what decides among CPUs of one kind.
const FIGURE_BITS: u32 = 56;

/// The part of a session's load that it may lose until all bounds are renewed.
const ROOM: u64 = 256;

/// What CPUs are at most, until the end of a period.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// CPUs by their ranks at most ([`figure`]).
    pub(super) ranking: Ranking,
    /// Those that have changed since they were ranked.
    changed: Places,
    period: u64,
    /// What the load of the session is at least, as long as nobody sees that it is less.
    total: u64,
}

impl Bounds {
    pub(super) fn new(cpus: usize) -> Bounds {
        let ranking = Ranking::new(cpus, NOTHING);
        Bounds { ranking, changed: Places::none(cpus), period: 0, total: 0 }
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
    /// Renews the bounds of CPUs that have changed, and of all that are wanted when a period begins or the session has less load.
    pub(in crate::cpu::policies::fair) fn bound(&mut self, hardware: &Hardware) {
        let (at, period) = (Instant::new(hardware.now()), period_of(hardware.now()));
        let total = self.total(at);
        if self.bounds.period != period || total < self.bounds.total {
            self.bounds.period = period;
            self.bounds.total = total - total / ROOM;
            self.bounds.changed.add(&self.by_one);
            self.bounds.changed.add(&self.by_several);
        }
        if self.bounds.changed.is_empty() {
            return;
        }
        while let Some(cpu) = self.bounds.changed.pop() {
            let runs = &hardware.sets.by_rank()[self.rank.0];
            let most = match self.fair(cpu) {
                0 => NOTHING,
                // A fair thread that runs there is one of them: when it does no more, the CPU has changed.
                fair => {
                    let all = self.cpus[cpu].wanting.len() + usize::from(!runs.contains(cpu));
                    figure(self.at_most(cpu, (fair, all), at))
                }
            };
            self.bounds.ranking.set(cpu, most);
        }
    }

    /// The rank of a CPU with fair threads and threads of all schedulers at most until the end of the period, whoever looks.
    fn at_most(&self, cpu: usize, threads: (usize, usize), at: Instant) -> (Kind, u64) {
        let state = &self.cpus[cpu];
        let of = |average: &Average| average.at_most_in_period(at, CAPACITY);
        let seen = Seen::without_load(of(&state.runnable), || of(&state.used), threads, state.capacity);
        let load = || self.load_in_period(cpu, at, self.bounds.total);
        seen.with_load(Looks::NewlyIdle, load).rank(Looks::NewlyIdle)
    }
}
