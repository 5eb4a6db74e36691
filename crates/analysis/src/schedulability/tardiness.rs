//! How late jobs can be under global EDF where only the total utilisation is bounded.
//!
//! With implicit deadlines, `U <= m` and every `U_i <= 1`, no job of task k ends more than `x + C_k` after its deadline,
//!
//! ```text
//! x = (sum of the L largest C - C_min) / (m - sum of the L-1 largest U),   L = ceil(U) - 1
//! ```
//!
//! (Devi and Anderson, "Tardiness bounds under global EDF scheduling on a multiprocessor", Real-Time Systems 38, 2008). With
//! `U <= 1` nothing is late. The kernel's documentation gives the coarser `((m-1) C_max - C_min) / (m - (m-2) U_max) +
//! C_max` for all tasks (Documentation/scheduler/sched-deadline.rst).

use surety_units::Nanos;

use super::exact::Sum;
use super::global_edf::density;
use super::recheck::responds_within;
use super::task::{Takes, narrow, objection, wide};
use super::uniprocessor::total_utilisation;
use super::{Outcome, SporadicTask, Strength, Theorem, Verdict};

/// The bound.
pub const TARDINESS: Theorem = Theorem {
    name: "tardiness bound of global EDF",
    source: "Devi and Anderson, Real-Time Systems 38, 2008",
    strength: Strength::Sufficient,
};

/// The most that each task can be late, rounded up to a nanosecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tardiness {
    /// The bound for each task in order; empty where none is shown.
    pub late: Vec<Nanos>,
    /// Holds where lateness is bounded, with the bounds of the responses.
    pub verdict: Verdict,
}

/// Bounds of lateness under global EDF.
pub fn tardiness(tasks: &[SporadicTask], cpus: u32) -> Tardiness {
    let without = |verdict| Tardiness { late: Vec::new(), verdict };
    if let Some(why) = objection(tasks, Takes::default()) {
        return without(Verdict::not_applicable(TARDINESS, why));
    }
    if cpus == 0 || tasks.iter().any(|t| t.deadline != t.period) {
        let why = "there is no CPU, or a deadline is not its period's end";
        return without(Verdict::not_applicable(TARDINESS, why));
    }
    let m = i128::from(cpus);
    let used = total_utilisation(tasks);
    let single = tasks.iter().position(|t| t.work > t.period);
    if !used.at_most(m) || single.is_some() {
        let step = format!(
            "utilisation {:.4} of {cpus} CPUs, or a task above 1: lateness grows without end",
            used.approximate()
        );
        return without(Verdict::of(TARDINESS, Outcome::Fails, step));
    }
    let on_time = density(tasks, cpus);
    let (late, step) = if used.at_most(1) || on_time.holds() {
        (vec![Nanos::ZERO; tasks.len()], "no deadline is missed".to_owned())
    } else {
        let x = common_part(tasks, m, &used);
        let step = format!("no job ends more than {} and its own work late", narrow(x));
        (tasks.iter().map(|t| narrow(x + wide(t.work))).collect::<Vec<Nanos>>(), step)
    };
    let limit = |k: usize| wide(tasks[k].deadline) + wide(late[k]);
    debug_assert!(responds_within(tasks, cpus, limit), "{tasks:?} on {cpus}: {late:?}");
    let responses = tasks.iter().zip(&late).map(|(t, late)| t.deadline + *late).collect();
    let verdict = Verdict { responses, ..Verdict::of(TARDINESS, Outcome::Holds, step) };
    Tardiness { late, verdict }
}

/// x, rounded up.
fn common_part(tasks: &[SporadicTask], m: i128, used: &Sum) -> i128 {
    let whole = (1..=m).find(|n| used.at_most(*n)).unwrap_or(m);
    let largest = usize::try_from(whole - 1).unwrap_or(0);
    let mut works: Vec<i128> = tasks.iter().map(|t| wide(t.work)).collect();
    works.sort_unstable_by(|a, b| b.cmp(a));
    let least = works.last().copied().unwrap_or(0);
    let numerator = works.iter().take(largest).sum::<i128>() - least;
    let mut by_share: Vec<&SporadicTask> = tasks.iter().collect();
    by_share.sort_by(|a, b| (wide(b.work) * wide(a.period)).cmp(&(wide(a.work) * wide(b.period))));
    let shares: Vec<SporadicTask> = by_share.into_iter().take(largest.saturating_sub(1)).copied().collect();
    // The least x with numerator <= x (m - shares), i.e. numerator + x shares <= m x; the denominator is at least 1.
    let enough = |x: i128| {
        let mut sum = Sum::new();
        sum.add(numerator, 1);
        for task in &shares {
            sum.add(x * wide(task.work), task.period.get());
        }
        sum.at_most(m * x)
    };
    let (mut low, mut high) = (-1, numerator.max(0));
    while high - low > 1 {
        let middle = (low + high).div_euclid(2);
        if enough(middle) { high = middle } else { low = middle }
    }
    high
}
