//! [`schedulable`]: does every reservation of a set keep its scheduling deadlines on M CPUs?
//!
//! Three tests, each sufficient, the first that applies decides:
//!
//! 1. No contention: with no more reserved threads than CPUs each has a CPU to itself (global EDF runs the M
//!    threads with the earliest deadlines).
//! 2. One CPU: the demand of all budgets with their deadline in any window fits into it,
//!    `dbf(t) = sum_i (floor((t - D_i)/T_i) + 1) Q_i <= t` (Baruah, Mok and Rosier, RTSS 1990), looked at
//!    from the far end as in QPA; exact below full utilisation (Zhang and Burns, "Schedulability analysis for
//!    real-time systems with EDF scheduling", 2009).
//! 3. Several CPUs: density, `sum_i d_i <= M - (M-1) d_max`, `d_i = Q_i/D_i` (Goossens, Funk and Baruah,
//!    "Priority-driven scheduling of periodic task systems on multiprocessors", 2003, with densities for
//!    deadlines below periods).
//!
//! Where budgets are looked at on the tick, a thread may overrun its budget by less than one tick `h`, and
//! pays it back. So a window sees at most `h` more of it (test 2: `dbf_i(t) + h` from its first deadline on),
//! and a single budget takes at most `Q + h` (test 3). A thread whose work never exceeds Q never overruns.
//!
//! The kernel's admission implies none of these for deadlines below periods, nor for more threads than CPUs.

use surety_model::platform::Enforcement;
use surety_model::reservation::Reservation;
use surety_units::Nanos;

use crate::schedulability::uniprocessor::{Demanded, backwards};

/// What one reserved thread may ask of the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Q.
    pub runtime: Nanos,
    /// D.
    pub deadline: Nanos,
    /// T.
    pub period: Nanos,
    /// The longest overrun of a budget.
    pub overrun: Nanos,
}

impl Demand {
    /// Of a reservation; `bounded`: no job of its thread ever needs more than one budget, so it never
    /// overruns.
    pub fn of(reservation: &Reservation, enforcement: Enforcement, bounded: bool) -> Demand {
        Demand {
            runtime: reservation.runtime,
            deadline: reservation.deadline,
            period: reservation.period,
            overrun: if bounded { Nanos::ZERO } else { enforcement.overrun_max() },
        }
    }
}

/// Which test decided, and how, in words an engineer can follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedulability {
    /// Whether every scheduling deadline is kept: `true` is a proof, `false` means that no test shows it.
    pub holds: bool,
    /// The test.
    pub theorem: &'static str,
    /// Where the test comes from.
    pub source: &'static str,
    /// The numbers, line by line; the last one is the result.
    pub steps: Vec<String>,
    /// Whether every reserved thread has a CPU whenever it wants one.
    pub alone: bool,
}

/// Decides whether a set of demands keeps its deadlines on `cpus` CPUs under global EDF.
pub fn schedulable(demands: &[Demand], cpus: u32) -> Schedulability {
    let threads = demands.len();
    if threads <= cpus as usize {
        return Schedulability {
            holds: true,
            theorem: "no more reserved threads than CPUs",
            source: "global EDF runs the M earliest deadlines (kernel/sched/deadline.c)",
            steps: vec![format!(
                "{threads} reserved thread{} on {cpus} CPU{}: each has a CPU whenever it has budget",
                if threads == 1 { "" } else { "s" },
                if cpus == 1 { "" } else { "s" },
            )],
            alone: true,
        };
    }
    if cpus == 1 { one_cpu(demands) } else { density(demands, cpus) }
}

/// The processor demand of all budgets with their deadline within `t` of a common start, overruns included.
fn demand_within(demands: &[Demand], t: i128) -> i128 {
    demands
        .iter()
        .map(|d| {
            let (q, deadline, period) = parameters(d);
            if t < deadline { 0 } else { ((t - deadline) / period + 1) * q + i128::from(d.overrun.get()) }
        })
        .sum()
}

fn parameters(d: &Demand) -> (i128, i128, i128) {
    (i128::from(d.runtime.get()), i128::from(d.deadline.get()), i128::from(d.period.get()))
}

/// The latest deadline strictly before `t`, if any.
fn deadline_before(demands: &[Demand], t: i128) -> Option<i128> {
    demands
        .iter()
        .filter_map(|d| {
            let (_, deadline, period) = parameters(d);
            (t > deadline).then(|| (t - 1 - deadline) / period * period + deadline)
        })
        .max()
}

/// Bits after the point of utilisations and densities here, always rounded against the claim.
const SHIFT: u32 = 40;

fn ratio_up(numerator: i128, denominator: i128) -> i128 {
    ((numerator << SHIFT) + denominator - 1) / denominator
}

fn in_words(fixed: i128) -> String {
    format!("{:.4}", fixed as f64 / (1u64 << SHIFT) as f64)
}

/// Processor demand on one CPU.
///
/// Above `L = (sum U_i (T_i - D_i) + sum h_i) / (1 - U)` the demand is below the window, since
/// `dbf_i(t) <= U_i (t + T_i - D_i)`; so only deadlines up to there are looked at.
fn one_cpu(demands: &[Demand]) -> Schedulability {
    const ONE: i128 = 1 << SHIFT;
    let mut result = Schedulability {
        holds: false,
        theorem: "processor demand criterion of EDF on one CPU",
        source: "Baruah, Mok and Rosier, RTSS 1990; Zhang and Burns, IEEE Trans. Computers 58(9), 2009 (QPA)",
        steps: Vec::new(),
        alone: false,
    };
    let mut utilisation = 0i128;
    let mut constant = 0i128;
    for demand in demands {
        let (q, deadline, period) = parameters(demand);
        let share = ratio_up(q, period);
        utilisation += share;
        constant += share * (period - deadline) + (i128::from(demand.overrun.get()) << SHIFT);
    }
    result.steps.push(format!("utilisation {} of the CPU", in_words(utilisation)));
    let simple = demands.iter().all(|d| d.deadline == d.period && d.overrun == Nanos::ZERO);
    if simple {
        result.holds = utilisation <= ONE;
        result.steps.push(
            "every deadline is its period's end: utilisation at most 1 is enough (Liu and Layland)".into(),
        );
        return result;
    }
    if utilisation >= ONE {
        result.steps.push("no room is left for deadlines before the periods' ends or for overruns".into());
        return result;
    }
    let longest = demands.iter().map(|d| parameters(d).1).max().unwrap_or(0);
    let limit = (constant / (ONE - utilisation) + 1).max(longest + 1);
    result.steps.push(format!("windows up to {} have to be looked at", in_time(limit)));
    let asked = |t| demand_within(demands, t);
    let before = |t| deadline_before(demands, t);
    match backwards(before(limit), asked, |amount| amount, before) {
        Demanded::Fits { .. } => {
            result.holds = true;
            result.steps.push("no window is asked for more than its length".into());
        }
        Demanded::Exceeded { window, asked } => {
            let (window, asked) = (in_time(window), in_time(asked));
            result.steps.push(format!("a window of {window} may be asked for {asked}"));
        }
        Demanded::Overloaded | Demanded::Open => {
            result.steps.push("more windows would have to be looked at than is done".into());
        }
    }
    result
}

fn in_time(ns: i128) -> String {
    Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX)).to_string()
}

/// Density on several CPUs.
fn density(demands: &[Demand], cpus: u32) -> Schedulability {
    let mut sum = 0;
    let mut largest = 0;
    let mut steps = Vec::new();
    for demand in demands {
        let (q, deadline, _) = parameters(demand);
        let own = ratio_up(q + i128::from(demand.overrun.get()), deadline);
        let overrun = if demand.overrun.is_positive() {
            format!(" + {} overrun", demand.overrun)
        } else {
            String::new()
        };
        steps.push(format!(
            "density ({}{overrun}) / {} = {}",
            demand.runtime,
            demand.deadline,
            in_words(own)
        ));
        sum += own;
        largest = largest.max(own);
    }
    let limit = (i128::from(cpus) << SHIFT) - i128::from(cpus - 1) * largest;
    let holds = sum <= limit;
    let sign = if holds { "<=" } else { ">" };
    steps.push(format!(
        "sum {} {sign} {cpus} - {} x {} = {}",
        in_words(sum),
        cpus - 1,
        in_words(largest),
        in_words(limit)
    ));
    Schedulability {
        holds,
        theorem: "density test of global EDF",
        source: "Goossens, Funk and Baruah, Real-Time Systems 25, 2003",
        steps,
        alone: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(q: i64, d: i64, t: i64, h: i64) -> Demand {
        Demand {
            runtime: Nanos::new(q),
            deadline: Nanos::new(d),
            period: Nanos::new(t),
            overrun: Nanos::new(h),
        }
    }

    #[test]
    fn known_sets() {
        for (demands, cpus, holds) in [
            (vec![of(2, 4, 4, 0), of(3, 6, 6, 0)], 1, true),
            (vec![of(2, 4, 4, 0), of(3, 6, 6, 1)], 1, false),
            (vec![of(1, 2, 4, 0), of(2, 3, 8, 0)], 1, true),
            (vec![of(1, 2, 4, 0), of(2, 2, 8, 0)], 1, false),
            (vec![of(5, 10, 10, 4), of(5, 10, 10, 4)], 1, false),
            (vec![of(2, 3, 3, 0); 3], 3, true),
            // Dhall's effect: a little of two short ones and a long one miss on two CPUs.
            (vec![of(2, 10, 10, 0), of(2, 10, 10, 0), of(19, 20, 20, 0)], 2, false),
            (vec![of(2, 10, 10, 0), of(2, 10, 10, 0), of(10, 20, 20, 0)], 2, true),
            (vec![of(9, 10, 10, 4), of(9, 10, 10, 4)], 2, true),
        ] {
            let result = schedulable(&demands, cpus);
            assert_eq!(result.holds, holds, "{demands:?} on {cpus}: {:?}", result.steps);
            assert!(!result.steps.is_empty());
        }
    }

    /// Lets every budget arrive as early and as often as it may and runs the earliest deadline: true if none
    /// is missed.
    fn replay(demands: &[Demand], length: i64) -> bool {
        let mut open: Vec<(i64, i64)> = Vec::new();
        for now in 0..length {
            for d in demands {
                if now % d.period.get() == 0 {
                    open.push((now + d.deadline.get(), d.runtime.get()));
                }
            }
            open.sort_unstable();
            if let Some(first) = open.first_mut() {
                first.1 -= 1;
            }
            open.retain(|o| o.1 > 0);
            if open.iter().any(|o| o.0 <= now + 1) {
                return false;
            }
        }
        true
    }

    proptest! {
        #[test]
        fn one_cpu_is_exact_below_full_utilisation(
            raw in proptest::collection::vec((1i64..5, 0i64..6, 0i64..6), 2..4),
        ) {
            let demands: Vec<Demand> =
                raw.iter().map(|(q, d, t)| of(*q, q + d, q + d + t, 0)).collect();
            let utilisation: f64 =
                demands.iter().map(|d| d.runtime.get() as f64 / d.period.get() as f64).sum();
            prop_assume!((utilisation - 1.0).abs() > 1e-9);
            let periods: Vec<i64> = demands.iter().map(|d| d.period.get()).collect();
            let length = 2 * periods.iter().product::<i64>() + 20;
            let result = schedulable(&demands, 1);
            prop_assert_eq!(result.holds, replay(&demands, length.min(20_000)), "{:?}", result.steps);
        }
    }
}
