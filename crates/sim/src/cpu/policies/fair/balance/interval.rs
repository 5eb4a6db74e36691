//! When a CPU balances: intervals and who has others do it (`get_sd_balance_interval`, `nohz_balancer_kick` in `kernel/sched/fair.c`).

use surety_units::Nanos;

use super::Balance;
use super::imbalance::{CAPACITY, Looks, MARGIN, is_reduced};
use crate::cpu::hardware::Hardware;

/// The interval of a busy CPU in those of an idle one (`busy_factor`).
const BUSY_FACTOR: u64 = 16;

/// Times its number of CPUs, in ms: how long intervals are at least and at most.
pub(super) const INTERVALS: (u64, u64) = (1, 2);

impl Balance {
    /// Whether the interval of a CPU is over.
    fn is_due(&self, hardware: &Hardware, cpu: usize, looks: Looks) -> bool {
        let state = &self.cpus[cpu];
        let ticks = match looks {
            Looks::Busy => in_ticks(hardware, state.interval * BUSY_FACTOR).saturating_sub(1),
            _ => in_ticks(hardware, state.interval),
        };
        ticks_of(hardware) >= state.balanced + ticks.clamp(1, self.longest(hardware))
    }

    /// Ticks after which any CPU looks (`max_load_balance_interval`).
    pub(super) fn longest(&self, hardware: &Hardware) -> u64 {
        in_ticks(hardware, 100 * self.cpus.len() as u64).max(1)
    }

    /// Whether the tick of a busy CPU has something to balance, there or on an idle one.
    pub(in crate::cpu::policies::fair) fn wants_balance(&mut self, hardware: &Hardware, cpu: usize) -> bool {
        let is_uneven = self.is_crowded(hardware);
        if self.is_due(hardware, cpu, Looks::Busy) {
            if is_uneven {
                return true;
            }
            self.begin(hardware, cpu);
            self.even(cpu);
        }
        self.kicks(hardware, cpu) && self.first_idle_due(hardware).is_some()
    }

    /// Whether a busy CPU has idle ones balance.
    fn kicks(&self, hardware: &Hardware, cpu: usize) -> bool {
        let fair = self.cpus[cpu].wanting.len();
        self.spare(hardware, cpu) > 0 || fair > 0 && is_reduced(self.cpus[cpu].capacity)
    }

    fn first_idle_due(&self, hardware: &Hardware) -> Option<usize> {
        self.idle(hardware).next().filter(|cpu| self.is_due(hardware, *cpu, Looks::Idle))
    }

    /// The CPUs that balance on the tick of a busy one, and how.
    pub(in crate::cpu::policies::fair) fn balancing(
        &self,
        hardware: &Hardware,
        cpu: usize,
    ) -> Vec<(usize, Looks)> {
        let own = self.is_due(hardware, cpu, Looks::Busy).then_some((cpu, Looks::Busy));
        let idle = self.kicks(hardware, cpu).then(|| {
            let idle = self.idle(hardware).filter(|cpu| self.is_due(hardware, *cpu, Looks::Idle));
            idle.map(|cpu| (cpu, Looks::Idle))
        });
        own.into_iter().chain(idle.into_iter().flatten()).collect()
    }

    /// A CPU balances: what it could give, and how many are looked at from now on.
    pub(super) fn begin(&mut self, hardware: &Hardware, cpu: usize) {
        self.weigh(hardware, cpu);
        self.is_overloaded = self.is_crowded(hardware);
        let now = hardware.now();
        self.cpus[cpu].balanced = ticks_of(hardware);
        if !self.scans_by_use {
            return;
        }
        let cpus = self.cpus.len() as u64;
        let used = self.cpus.iter().map(|cpu| cpu.used.get(now, CAPACITY)).sum::<u64>() / cpus;
        let crowd = used * used * MARGIN * MARGIN / (10_000 * CAPACITY);
        self.scanned = CAPACITY.saturating_sub(crowd) * cpus / CAPACITY;
    }

    pub(super) fn even(&mut self, cpu: usize) {
        let longest = INTERVALS.1 * self.cpus.len() as u64;
        let state = &mut self.cpus[cpu];
        state.failures = 0;
        if state.interval < longest {
            state.interval *= 2;
        }
    }
}

/// Ticks of the first CPU up to now (`jiffies`).
pub(super) fn ticks_of(hardware: &Hardware) -> u64 {
    let since = hardware.now() - hardware.cpus[0].tick_phase;
    since.max(Nanos::ZERO).get_unsigned() / hardware.platform.tick.get_unsigned().max(1)
}

/// Milliseconds in ticks, rounded up (`msecs_to_jiffies`).
pub(super) fn in_ticks(hardware: &Hardware, ms: u64) -> u64 {
    let tick = hardware.platform.tick.get_unsigned().max(1);
    Nanos::from_millis(1).get_unsigned().saturating_mul(ms).div_ceil(tick)
}
