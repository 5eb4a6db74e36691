//! When a CPU balances: intervals and who has others do it (`get_sd_balance_interval`, `nohz_balancer_kick` in `kernel/sched/fair.c`).

use std::ops::Range;

use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::Balance;
use super::imbalance::{CAPACITY, Looks, MARGIN, is_reduced};
use crate::cpu::hardware::Hardware;

/// The interval of a busy CPU in those of an idle one (`busy_factor`).
const BUSY_FACTOR: u64 = 16;

/// Times its number of CPUs, in ms: how long intervals are at least and at most.
pub(super) const INTERVALS: (u64, u64) = (1, 2);

/// The interval, in ms, up to which one doubles that found only threads which may not come (`MAX_PINNED_INTERVAL`).
pub(super) const LONGEST_BOUND: u64 = 512;

impl Balance {
    /// Whether the interval of a CPU is over at some level.
    fn is_due(&self, hardware: &Hardware, cpu: usize, looks: Looks) -> bool {
        self.next_due(hardware, (cpu, 0), looks).is_some()
    }

    /// Whether the tick of a busy CPU finds its own interval over (`sched_balance_trigger`).
    fn is_due_on_tick(&self, hardware: &Hardware, cpu: usize) -> bool {
        self.is_due(hardware, cpu, Looks::Busy) && !is_early(hardware, cpu)
    }

    /// The first level from one on at which it is.
    #[inline]
    pub(in crate::cpu::policies::fair) fn next_due(
        &self,
        hardware: &Hardware,
        (cpu, level): (usize, usize),
        looks: Looks,
    ) -> Option<usize> {
        (level..=self.cpus[cpu].above.len()).find(|level| self.is_due_at(hardware, (cpu, *level), looks))
    }

    fn is_due_at(&self, hardware: &Hardware, (cpu, level): (usize, usize), looks: Looks) -> bool {
        let state = self.cpus[cpu].domain(level);
        let ticks = match looks {
            Looks::Busy => in_ticks(hardware, state.interval * BUSY_FACTOR).saturating_sub(1),
            _ => in_ticks(hardware, state.interval),
        };
        ticks_of(hardware) >= state.balanced + ticks.clamp(1, self.longest(hardware))
    }

    /// Ticks after which any CPU looks (`max_load_balance_interval`): by the CPUs that were online when the last one started.
    pub(super) fn longest(&self, hardware: &Hardware) -> u64 {
        in_ticks(hardware, 100 * (self.cpus.len() as u64 - 1).max(1)).max(1)
    }

    /// Whether the tick of a busy CPU has something to balance, there or on an idle one.
    pub(in crate::cpu::policies::fair) fn wants_balance(&mut self, hardware: &Hardware, cpu: usize) -> bool {
        let is_uneven = self.is_crowded(hardware);
        if self.is_due_on_tick(hardware, cpu) {
            if is_uneven {
                return true;
            }
            self.balances_even(hardware, cpu);
        }
        self.kicks(hardware, cpu) && self.first_idle_due(hardware).is_some()
    }

    /// A busy CPU balances where nobody waits, so that it takes nothing.
    fn balances_even(&mut self, hardware: &Hardware, cpu: usize) {
        let mut from = 0;
        while let Some(level) = self.next_due(hardware, (cpu, from), Looks::Busy) {
            let goes_on = self.is_responsible(hardware, (cpu, level), Looks::Busy);
            if goes_on {
                self.begin(hardware, cpu, level);
            } else {
                self.leaves_to_others(hardware, cpu, level);
            }
            self.even(cpu, level, 0);
            if !goes_on {
                return;
            }
            from = level + 1;
        }
    }

    /// A CPU leaves balancing of a domain to another one.
    pub(super) fn leaves_to_others(&mut self, hardware: &Hardware, cpu: usize, level: usize) {
        self.cpus[cpu].domain_mut(level).balanced = ticks_of(hardware);
    }

    /// Whether a busy CPU has idle ones balance.
    fn kicks(&self, hardware: &Hardware, cpu: usize) -> bool {
        let fair = self.fair(cpu);
        self.spare(hardware, cpu) > 0
            || fair > 0 && is_reduced(self.cpus[cpu].capacity)
            || self.has_busy_neighbour(hardware, cpu)
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
        let own = self.is_due_on_tick(hardware, cpu).then_some((cpu, Looks::Busy));
        let idle = self.kicks(hardware, cpu).then(|| {
            let idle = self.idle(hardware).filter(|cpu| self.is_due(hardware, *cpu, Looks::Idle));
            idle.map(|cpu| (cpu, Looks::Idle))
        });
        own.into_iter().chain(idle.into_iter().flatten()).collect()
    }

    /// A CPU balances: what it could give, and how many are looked at from now on.
    pub(super) fn begin(&mut self, hardware: &Hardware, cpu: usize, level: usize) {
        self.cpus[cpu].domain_mut(level).balanced = ticks_of(hardware);
        if level == 0 {
            self.weigh(hardware, cpu);
        }
        if self.levels.is_some() {
            return self.begins_at(hardware, cpu, level);
        }
        self.is_overloaded = self.is_crowded(hardware);
        if self.scans_by_use {
            self.scanned = self.scanned_of(hardware, 0..self.cpus.len(), MARGIN);
        }
    }

    /// How many of some CPUs a woken thread looks at, by how much of their time was used.
    pub(super) fn scanned_of(&self, hardware: &Hardware, cpus: Range<usize>, margin: u64) -> u64 {
        let (now, count) = (hardware.now(), cpus.len() as u64);
        let used = self.cpus[cpus].iter().map(|cpu| cpu.used.get(now, CAPACITY)).sum::<u64>() / count;
        let crowd = used * used * margin * margin / (10_000 * CAPACITY);
        CAPACITY.saturating_sub(crowd) * count / CAPACITY
    }

    /// A CPU took nothing, and did not fail: its interval doubles while it is below that of its domain, or below `bound` ms.
    pub(super) fn even(&mut self, cpu: usize, level: usize, bound: u64) {
        let longest = bound.max(INTERVALS.1 * self.size(level) as u64);
        let state = self.cpus[cpu].domain_mut(level);
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

/// Whether the tick of a CPU reads `jiffies` before the first CPU, whose tick comes at the same instant and which counts them
/// (`tick_do_timer_cpu`), has counted this one. None does but where the platform has that by chance.
fn is_early(hardware: &Hardware, cpu: usize) -> bool {
    let phases = [0, cpu].map(|cpu| hardware.cpus[cpu].tick_phase);
    hardware.platform.ticks_by_chance
        && cpu != 0
        && phases[0] == phases[1]
        && Pcg::for_job(hardware.seed, cpu as u64, ticks_of(hardware)).below(2) == 0
}

/// Milliseconds in ticks, rounded up (`msecs_to_jiffies`).
pub(super) fn in_ticks(hardware: &Hardware, ms: u64) -> u64 {
    let tick = hardware.platform.tick.get_unsigned().max(1);
    Nanos::from_millis(1).get_unsigned().saturating_mul(ms).div_ceil(tick)
}
