//! [`schedulable`]: does every reservation of a set keep its scheduling deadlines on M CPUs?
//!
//! The budgets of a reservation are the jobs of a sporadic task as long as no waking of its thread falls inside a period in
//! which a budget is begun: a thread that never sleeps again once it has begun; one whose jobs do not wait inside, are
//! released on a grid of whole server periods, or are always done with less than the budgets between two releases
//! ([`crate::response::ServedTask::wakes_inside`]). Then every test of [`crate::schedulability`] for EDF decides. Any other
//! thread, one that goes through steps with sleeps, a program of which nothing else is known, an interrupt thread, a queueing
//! task that is released off the grid, may sleep inside a budget and wake to what is left of it; its reservation is a
//! [`crate::schedulability::Server`], which only some of the tests take:
//!
//! 1. No contention: with no more reserved threads than CPUs each has a CPU to itself (global EDF runs the M threads with
//!    the earliest deadlines).
//! 2. One CPU: utilisation, density, processor demand ([`crate::schedulability::uniprocessor`]).
//! 3. Several CPUs: GFB, and without such servers BAK, BCL, BCL iterated, response times, FF-DBF
//!    ([`crate::schedulability::global_edf`]).
//!
//! Where budgets are looked at on the tick, a thread may overrun its budget by less than one tick `h`, and pays it back.
//! On one CPU a window therefore sees at most `h` more of it: a further task of work `h` with the same deadline, whose
//! jobs come as far apart as a task's may ([`LONGEST`]). On several CPUs a budget counts as `Q + h`, since what is overrun
//! cannot run beside it. A thread whose jobs never need more than one budget never overruns. What a thread that may sleep inside
//! a budget overruns, others see however near their deadlines: see [`crate::schedulability::Server`].
//!
//! The kernel's admission implies none of these for deadlines below periods, nor for more threads than CPUs. Verdicts are
//! reached without rounding.

use surety_model::platform::Platform;
use surety_model::reservation::Reservation;
use surety_units::{Bandwidth, Nanos};

use crate::schedulability::catalogue::{Answer, Question, Scheduler, TOO_MANY, answers, least_pessimistic};
use crate::schedulability::grub::{GRUB, as_if_greedy, reclaiming};
use crate::schedulability::task::LONGEST;
use crate::schedulability::{Outcome, SporadicTask, Verdict};

/// One reserved thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedThread {
    /// (Q, D, T).
    pub reservation: Reservation,
    /// Whether no job of its thread ever needs more than one budget, so that it never overruns one.
    pub bounded: bool,
    /// Whether its thread may wake to what is left of a budget (see the module); where nothing is known it may.
    pub sleeps: bool,
}

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
    /// Its thread may wake to what is left of a budget.
    pub sleeps: bool,
    /// It reclaims what others leave, up to this share of a CPU.
    pub reclaims: Option<Bandwidth>,
}

impl Demand {
    /// Of a reservation; `bounded`: no job of its thread ever needs more than one budget, so it never
    /// overruns and asks for nothing that others leave; one that reclaims with more than the cap loses by it, bounded or not.
    /// `sleeps`: its thread may wake to what is left of a budget.
    pub fn of(reservation: &Reservation, platform: &Platform, bounded: bool, sleeps: bool) -> Demand {
        let greedy = !bounded || reservation.bandwidth() > platform.deadline_cap;
        Demand {
            runtime: reservation.runtime,
            deadline: reservation.deadline,
            period: reservation.period,
            overrun: if bounded { Nanos::ZERO } else { platform.enforcement.overrun_max() },
            sleeps,
            reclaims: (reservation.reclaim && greedy).then_some(platform.deadline_cap),
        }
    }

    /// Its budgets as a task, the overruns of one that sleeps included.
    fn budgets(&self) -> SporadicTask {
        let plain = SporadicTask::new(self.runtime, self.deadline, self.period);
        if self.sleeps { plain.served(self.overrun) } else { plain }
    }

    /// What comes on top of its budgets where these are jobs.
    fn late(&self) -> Nanos {
        if self.sleeps { Nanos::ZERO } else { self.overrun }
    }

    /// Whether its overruns are a task of their own behind the budgets on one CPU.
    pub fn has_overruns_apart(&self) -> bool {
        self.late().is_positive()
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

/// Decides whether a set of demands keeps its deadlines on `cpus` CPUs under global EDF: the first test that shows it is
/// named.
pub fn schedulable(demands: &[Demand], cpus: u32) -> Schedulability {
    if let Some(verdict) = above_the_cap(demands) {
        return named(&verdict, verdict.steps.clone());
    }
    if let Some(alone) = alone(demands.len(), cpus) {
        return alone;
    }
    if let Some(verdict) = reclaimed(demands, cpus) {
        return named(&verdict, verdict.steps.clone());
    }
    let tasks = tasks(demands, cpus);
    let question = question(&tasks, cpus);
    let mut verdicts: Vec<Verdict> = Vec::new();
    for test in question.tests().take(if question.is_of_too_many() { 1 } else { usize::MAX }) {
        let verdict = (test.ask)(&tasks, cpus);
        if verdict.holds() {
            return named(&verdict, verdict.steps.clone());
        }
        verdicts.push(verdict);
    }
    let (Some(first), Some(exact)) = (verdicts.first(), verdicts.last()) else {
        return none_applies();
    };
    if cpus == 1 {
        return named(exact, exact.steps.clone());
    }
    // None of several is exact: the words of the first, and that the others do not show it either.
    let said = first.steps.last().cloned().unwrap_or_default();
    let applies = verdicts.iter().skip(1).any(|verdict| verdict.outcome != Outcome::NotApplicable);
    if question.is_of_too_many() {
        return named(first, vec![format!("{said}; of more than {TOO_MANY} threads no other test is asked")]);
    }
    let others: Vec<&str> = question.tests().skip(1).map(|test| test.word).collect();
    named(
        first,
        vec![if applies {
            format!("{said}; nor do {} show it", others.join(", "))
        } else {
            format!("{said}; {} do not cover threads that may sleep inside a budget", others.join(", "))
        }],
    )
}

/// The same, named after the least pessimistic of the tests that hold: the one with which all budgets could be multiplied
/// by the most. Takes longer.
pub fn least_pessimistic_of(demands: &[Demand], cpus: u32) -> Schedulability {
    let decided = schedulable(demands, cpus);
    if decided.alone || !decided.holds || reclaimed(demands, cpus).is_some() {
        return decided;
    }
    let answers = compared(demands, cpus);
    let Some(best) = least_pessimistic(&answers) else { return decided };
    let mut steps = best.verdict.steps.clone();
    let words = |answer: &Answer| match (answer.verdict.outcome, answer.scale) {
        (Outcome::Holds, Some(scale)) => Some(format!("{} up to {}", answer.word, times(scale))),
        _ => None,
    };
    let all: Vec<String> = answers.iter().filter_map(words).collect();
    steps.push(format!("least pessimistic of the tests that hold, budgets multiplied: {}", all.join(", ")));
    named(&best.verdict, steps)
}

/// What every test made for this many CPUs says about a set of demands, one after the other.
pub fn compared(demands: &[Demand], cpus: u32) -> Vec<Answer> {
    let tasks = tasks(demands, cpus);
    answers(&question(&tasks, cpus))
}

/// A factor in thousandths, as `1.250x`.
pub fn times(permille: u64) -> String {
    format!("{}.{:03}x", permille / 1000, permille % 1000)
}

/// Decided without a test where each thread has a CPU.
fn alone(threads: usize, cpus: u32) -> Option<Schedulability> {
    (threads <= cpus as usize).then(|| Schedulability {
        holds: true,
        theorem: "no more reserved threads than CPUs",
        source: "global EDF runs the M earliest deadlines (kernel/sched/deadline.c)",
        steps: vec![format!(
            "{threads} reserved thread{} on {cpus} CPU{}: each has a CPU whenever it has budget",
            if threads == 1 { "" } else { "s" },
            if cpus == 1 { "" } else { "s" },
        )],
        alone: true,
    })
}

fn question(tasks: &[SporadicTask], cpus: u32) -> Question<'_> {
    Question { tasks, cpus, scheduler: Scheduler::Edf, migrate: true }
}

/// A reservation that reclaims and has more than the cap, which the kernel admits on several CPUs: its budget runs down at
/// `U / Umax`, faster than time passes, so that no test can promise it.
fn above_the_cap(demands: &[Demand]) -> Option<Verdict> {
    let (place, cap) = demands.iter().enumerate().find_map(|(place, demand)| {
        let own = Bandwidth::of(demand.runtime, demand.period)?;
        demand.reclaims.filter(|cap| own > *cap).map(|cap| (place, cap))
    })?;
    let step = format!(
        "thread {place} reclaims and has more than the {cap} that reservations may have of a CPU: its budget runs down faster \
         than time passes"
    );
    Some(Verdict::no(GRUB, false, step))
}

/// What GRUB's own theorem says where only it decides: of one CPU with reservations that reclaim and budgets that are enforced
/// exactly, and of one that reclaims with more than the cap; `None` elsewhere.
pub fn reclaimed(demands: &[Demand], cpus: u32) -> Option<Verdict> {
    let cap = demands.iter().find_map(|demand| demand.reclaims)?;
    if let Some(verdict) = above_the_cap(demands) {
        return Some(verdict);
    }
    if cpus > 1 {
        return None;
    }
    // An overrun the theorem does not count: there they count as all that can be taken, and the other tests decide.
    if demands.iter().any(|demand| demand.overrun.is_positive()) {
        return None;
    }
    Some(reclaiming(&tasks(demands, 1), cap))
}

/// The demands as sporadic tasks, overruns included: on one CPU the overruns stand behind the budgets as tasks of their own,
/// in the order of the demands that have one.
pub fn tasks(demands: &[Demand], cpus: u32) -> Vec<SporadicTask> {
    if cpus > 1 {
        let budget = |d: &Demand| {
            let plain = d.budgets();
            let task = d.reclaims.map_or(plain, |cap| as_if_greedy(&plain, cap));
            SporadicTask { work: task.work + d.late(), ..task }
        };
        return demands.iter().map(budget).collect();
    }
    let is_covered = demands.iter().all(|d| !d.overrun.is_positive());
    let budgets = demands.iter().map(|d| {
        let plain = d.budgets();
        d.reclaims.filter(|_| !is_covered).map_or(plain, |cap| as_if_greedy(&plain, cap))
    });
    let late = demands.iter().filter(|d| d.has_overruns_apart());
    budgets.chain(late.map(|d| SporadicTask::new(d.late(), d.deadline, LONGEST))).collect()
}

/// A verdict as the answer to the whole; a test's proof of a miss is none of a miss of the reservations, whose overruns are
/// counted at their most.
fn named(verdict: &Verdict, steps: Vec<String>) -> Schedulability {
    Schedulability {
        holds: verdict.holds(),
        theorem: verdict.theorem.name,
        source: verdict.theorem.source,
        steps,
        alone: false,
    }
}

fn none_applies() -> Schedulability {
    Schedulability {
        holds: false,
        theorem: "no test of EDF",
        source: "crates/analysis/src/schedulability/catalogue.rs",
        steps: vec!["none is made for this number of CPUs".to_owned()],
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
            sleeps: false,
            reclaims: None,
        }
    }

    #[test]
    fn what_reclaims_is_counted_at_its_most() {
        let cap = Bandwidth::new(95, 100);
        let greedy = |demand: Demand| Demand { reclaims: cap, ..demand };
        // One CPU: bandwidths within the cap are enough, deadlines before the periods' ends and overruns are not covered.
        for (demands, holds) in [
            (vec![greedy(of(5, 10, 10, 0)), greedy(of(9, 20, 20, 0))], true),
            (vec![greedy(of(5, 10, 10, 0)), of(10, 20, 20, 0)], false),
            (vec![greedy(of(1, 5, 10, 0)), of(2, 20, 20, 0)], false),
            // On the tick one that reclaims counts as 95 % of its period, and an overrun.
            (vec![greedy(of(1, 10, 10, 1)), of(2, 20, 20, 0)], false),
            (vec![greedy(of(100, 1000, 1000, 1)), of(2, 1000, 1000, 0)], true),
        ] {
            let result = schedulable(&demands, 1);
            assert_eq!(result.holds, holds, "{demands:?}: {:?}", result.steps);
            let exact = demands.iter().all(|d| !d.overrun.is_positive());
            assert!(result.theorem.contains("GRUB") == exact && !result.steps.is_empty());
        }
        // Two CPUs: one that takes up to 95 % of its period leaves two small ones no proof unless it does not reclaim.
        let small = [of(1, 10, 10, 0), of(1, 10, 10, 0)];
        for (large, holds) in [(of(2, 20, 20, 0), true), (greedy(of(2, 20, 20, 0)), false)] {
            let result = schedulable(&[small[0], small[1], large], 2);
            assert_eq!(result.holds, holds, "{large:?}: {:?}", result.steps);
        }
        assert!(schedulable(&[greedy(of(2, 20, 20, 4)); 2], 2).holds, "a CPU each");
        // One with more than the cap runs out of budget early even on a CPU of its own, whatever its jobs need.
        let platform = surety_model::platform::Platform::linux_6_18(2);
        for (runtime, reclaim, holds) in [(95, true, true), (96, true, false), (96, false, true)] {
            let of = Reservation::implicit(Nanos::from_millis(runtime), Nanos::from_millis(100));
            let demand = Demand::of(&Reservation { reclaim, ..of }, &platform, true, false);
            assert_eq!(schedulable(&[demand], 2).holds, holds, "{demand:?}");
            assert_eq!(reclaimed(&[demand], 2).is_some(), !holds);
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
