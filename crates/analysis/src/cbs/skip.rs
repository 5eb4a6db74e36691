//! A task that gives up releases passing while a job runs: every job begins without backlog of its own.
//!
//! With exact enforcement a job of work c takes `n = ceil(c/Q)` budgets, the last of them given before the
//! n-th server period ends. With z budgets between releases it uses up `m = max(1, ceil(n/z))` planned
//! releases, itself included. By renewal (one success at most in each cycle of m releases):
//!
//! ```text
//! fraction of planned releases done within k budgets  >=  P{c <= kQ} / E[m]
//! ```
//!
//! On the tick an overrun is missing from the next job's budget even though the job before is done. Then
//! compare with the task that queues everything: its backlog is never smaller, and a release at which it is
//! zero is not skipped and has its whole budget. The same holds for releases inside server periods. So the
//! fraction is at least `P{W = 0} P{c <= kQ}`.

use surety_model::distribution::TimeDistribution;
use surety_units::Nanos;

use crate::cbs::backlog::Backlog;
use crate::work::{at_most, tail};

/// Budgets beyond this many between releases are summed up by the tail's mean.
const TERMS: i64 = 10_000;

/// Lower bound under exact enforcement; `between`: budgets between releases, `within`: budgets in the limit.
pub fn exact(work: &TimeDistribution, runtime: Nanos, between: u32, within: u32) -> f64 {
    let served = runtime * i64::from(between.max(1));
    // E[max(1, ceil(c / zQ))] = 1 + sum_{j >= 1} P{c > j zQ}, cut by P{c > j zQ} <= E[c; c > j zQ] / (j zQ).
    let mut releases = 1.0;
    for j in 1..=TERMS {
        let beyond = tail(work, served * j);
        if beyond.probability < 1e-15 || j == TERMS {
            releases += beyond.partial_mean / served.get() as f64;
            break;
        }
        releases += beyond.probability;
    }
    at_most(work, runtime * i64::from(within)) / releases
}

/// Lower bound from the jobs alone that find no backlog, for enforcement on the tick and wherever backlogs
/// are not trusted.
pub fn without_backlog(work: &TimeDistribution, runtime: Nanos, within: u32, queued: &Backlog) -> f64 {
    queued.none() * at_most(work, runtime * i64::from(within))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_stats::random::Pcg;

    /// Planned releases done within one budget when the rule is played; `tick` > 0 lets jobs overrun and pay
    /// back.
    fn played(work: &TimeDistribution, runtime: Nanos, tick: Nanos) -> f64 {
        let mut generator = Pcg::new(5, 9);
        let (mut planned, mut done, mut debt) = (0u64, 0u64, Nanos::ZERO);
        for _ in 0..300_000 {
            let work = work.draw_from(&mut generator);
            let need = work + debt;
            let overrun = need - runtime;
            if !overrun.is_positive() {
                (planned, done, debt) = (planned + 1, done + 1, Nanos::ZERO);
            } else if overrun < tick {
                // Done in its first period by overrunning; the next budget is short by that.
                (planned, done, debt) = (planned + 1, done + u64::from(work <= runtime), overrun);
            } else {
                planned += need.div_ceil(runtime).get_unsigned();
                debt = Nanos::ZERO;
            }
        }
        done as f64 / planned as f64
    }

    trait Unsigned {
        fn get_unsigned(self) -> u64;
    }

    impl Unsigned for i64 {
        fn get_unsigned(self) -> u64 {
            u64::try_from(self).unwrap()
        }
    }

    #[test]
    fn bounds_hold_and_the_exact_one_is_sharp() {
        let us = Nanos::from_micros;
        let player = TimeDistribution::LogNormal { mean: us(14_000), p99: us(22_000) };
        for runtime in [us(16_000), us(20_000), us(26_500)] {
            let seen = played(&player, runtime, Nanos::ZERO);
            let proven = exact(&player, runtime, 1, 1);
            assert!((proven - seen).abs() < 0.003, "{runtime}: {proven} {seen}");
            let queued = Backlog::stationary(&player, runtime, 1).unwrap();
            let tick = without_backlog(&player, runtime, 1, &queued);
            let seen = played(&player, runtime, us(4_000));
            assert!(tick <= seen + 0.002, "{runtime}: {tick} {seen}");
            assert!(tick > seen - 0.25, "{runtime}: {tick} {seen}");
        }
    }
}
