//! Global EDF on m CPUs: sufficient tests, none of which covers all others.
//!
//! With `l_k = C_k/D_k` and constrained deadlines (`D <= T`):
//!
//! - [`density`] (GFB): `sum l_i <= m - (m-1) l_max` (Goossens, Funk and Baruah, Real-Time Systems 25, 2003; densities:
//!   Bertogna, Cirinei and Lipari, ECRTS 2005).
//! - [`baker`] (BAK): for each k, `sum_i min(1, b_i) <= m (1 - l_k) + l_k` with `b_i = U_i (1 + (T_i - D_i)/D_k) + (C_i -
//!   l_k T_i)+ / D_k` (Baker, RTSS 2003, in the form of Bertogna, Cirinei and Lipari 2005).
//! - [`interference`] (BCL): for each k, `sum_{i != k} min(W_i, D_k - C_k) < m (D_k - C_k)`, or equal with some `0 < W_i <=
//!   D_k - C_k`; `W_i = N_i C_i + min(C_i, (D_k - N_i T_i)+)`, `N_i = floor((D_k - D_i)/T_i) + 1` (ibidem).
//! - [`iterated_interference`]: the same with slacks found so far: a job that ends S_i before its deadline carries less
//!   into the window; time is integer, so `D_k - C_k + 1` bounds (Bertogna, Cirinei and Lipari, IEEE Trans. Parallel and
//!   Distributed Systems 20(4), 2009).
//! - [`response_times`]: the window is the response itself (Bertogna and Cirinei, RTSS 2007).
//! - [`forced_forward`]: demand of the forced-forward work.
//!
//! Budgets in which a thread may sleep ([`super::task::Server`]) are taken by GFB alone. Its proof needs no tasks, only jobs:
//! EDF on m CPUs is never behind a CPU of speed `l_i` for each task as long as `sum l_i <= m - (m-1) l_max` (Phillips, Stein,
//! Torng and Wein, STOC 1997, lemma 2.6, in Goossens, Funk and Baruah 2003; for servers: Baruah, Goossens and Lipari, RTAS
//! 2002). Take as the jobs of a server what it runs from each waking or replenishment to the sleep or exhaustion that ends it.
//! They come one after the other, their demand in any window t is at most `l_i t` with `l_i = Q/D` (the kernel's rule, too, see
//! there), so a CPU of speed `l_i` does them in time, and so does EDF. Where budgets are overrun by up to `h_i`, these CPUs are
//! together at most `L = sum h_i` behind at a deadline, and so is EDF; a job of task k that had L more to do, which `l_k + L/D_k`
//! in place of `l_k` covers as its window is D_k, has then done all but that: it is in time. (A leftover may end late by L; the
//! budget that then follows at once counts as part of the same job, which wants a CPU throughout, all that the lemma asks.)
//!
//! BAK, BCL, RTA and FF-DBF count the work of sporadic jobs that carry into a window; that bound does not hold for such a
//! server, so they do not apply.

pub mod forced_forward;

use super::exact::Sum;
use super::interference::{Interference, Piece, least_response};
use super::recheck::{keeps_deadlines, responds_within};
use super::task::{Takes, narrow, objection, overruns, wide};
use super::{Outcome, SporadicTask, Strength, Theorem, Verdict};

/// GFB.
pub const GFB: Theorem = Theorem {
    name: "density test of global EDF (GFB)",
    source: "Goossens, Funk and Baruah, Real-Time Systems 25, 2003; Bertogna, Cirinei and Lipari, ECRTS 2005",
    strength: Strength::Sufficient,
};

/// BAK.
pub const BAK: Theorem = Theorem {
    name: "Baker's test of global EDF (BAK)",
    source: "Baker, RTSS 2003; Bertogna, Cirinei and Lipari, ECRTS 2005",
    strength: Strength::Sufficient,
};

/// BCL.
pub const BCL: Theorem = Theorem {
    name: "interference test of global EDF (BCL)",
    source: "Bertogna, Cirinei and Lipari, ECRTS 2005",
    strength: Strength::Sufficient,
};

/// BCL with slacks.
pub const BCL_ITERATED: Theorem = Theorem {
    name: "iterated interference test of global EDF (BCL with slacks)",
    source: "Bertogna, Cirinei and Lipari, IEEE Trans. Parallel and Distributed Systems 20(4), 2009",
    strength: Strength::Sufficient,
};

/// Response times.
pub const RTA: Theorem = Theorem {
    name: "response-time analysis of global EDF",
    source: "Bertogna and Cirinei, RTSS 2007",
    strength: Strength::Sufficient,
};

/// Every task has a CPU.
pub const ALONE: Theorem = Theorem {
    name: "no more tasks than CPUs",
    source: "a work-conserving scheduler leaves no ready job without a CPU; jobs of a task do not overlap for D <= T",
    strength: Strength::Exact,
};

/// Rounds over all slacks before the search is given up.
const LIMIT: u32 = 1_000;

/// A test of global EDF: a set and the number of CPUs to a verdict.
pub type Test = fn(&[SporadicTask], u32) -> Verdict;

/// All tests of global EDF, cheap ones first.
pub const TESTS: [(Theorem, Test); 6] = [
    (GFB, density),
    (BAK, baker),
    (BCL, interference),
    (BCL_ITERATED, iterated_interference),
    (RTA, response_times),
    (forced_forward::FF_DBF, forced_forward::demand),
];

/// What every test of this family answers without looking further: no CPU, a set it is not made for, a job that takes
/// longer than its deadline, or a CPU for each task.
pub(crate) fn early(theorem: Theorem, tasks: &[SporadicTask], cpus: u32) -> Option<Verdict> {
    early_for(Takes::default(), theorem, tasks, cpus)
}

/// The same of a test that takes this much.
fn early_for(takes: Takes, theorem: Theorem, tasks: &[SporadicTask], cpus: u32) -> Option<Verdict> {
    if let Some(why) = objection(tasks, takes) {
        return Some(Verdict::not_applicable(theorem, why));
    }
    if cpus == 0 {
        return Some(Verdict::not_applicable(theorem, "there is no CPU"));
    }
    if let Some(place) = tasks.iter().position(|t| t.work > t.deadline) {
        let step = format!("task {place} takes longer than its deadline by itself");
        return Some(Verdict::of(theorem, Outcome::Fails, step));
    }
    if tasks.len() <= cpus as usize {
        let step = format!("{} tasks on {cpus} CPUs: each has one whenever it is ready", tasks.len());
        let responses = tasks.iter().map(|t| t.work).collect();
        return Some(Verdict { responses, ..Verdict::of(ALONE, Outcome::Holds, step) });
    }
    None
}

/// GFB.
pub fn density(tasks: &[SporadicTask], cpus: u32) -> Verdict {
    let takes = Takes { servers: true, ..Takes::default() };
    if let Some(verdict) = early_for(takes, GFB, tasks, cpus) {
        return verdict;
    }
    if overruns(tasks) > 0 {
        return with_overruns(tasks, cpus);
    }
    let largest = tasks.iter().max_by_key(|t| ratio_key(t)).copied().unwrap_or(tasks[0]);
    let mut sum = Sum::new();
    for task in tasks {
        sum.add(wide(task.work), task.deadline.get());
    }
    let total = sum.approximate();
    sum.add(wide(largest.work) * i128::from(cpus - 1), largest.deadline.get());
    let step = format!(
        "densities {total:.4} in all, {:.4} the largest, on {cpus} CPUs",
        largest.work.get() as f64 / largest.deadline.get() as f64
    );
    if sum.at_most(i128::from(cpus)) {
        debug_assert!(keeps_deadlines(tasks, cpus), "{tasks:?} on {cpus}");
        return Verdict::of(GFB, Outcome::Holds, step);
    }
    Verdict::no(GFB, false, step)
}

/// GFB with servers that overrun their budgets.
fn with_overruns(tasks: &[SporadicTask], cpus: u32) -> Verdict {
    let mut sum = Sum::new();
    for task in tasks {
        sum.add(wide(task.work), task.deadline.get());
    }
    let late = overruns(tasks);
    let m = i128::from(cpus);
    let largest = tasks.iter().max_by_key(|t| ratio_key(t)).copied().unwrap_or(tasks[0]);
    for (k, under) in tasks.iter().enumerate() {
        let (work, deadline) = (wide(under.work), under.deadline.get());
        let (mut own, mut other) = (sum.clone(), sum.clone());
        own.add(late * m + work * (m - 1), deadline);
        other.add(late, deadline);
        other.add(wide(largest.work) * (m - 1), largest.deadline.get());
        if !(own.at_most(m) && other.at_most(m)) {
            let step = format!(
                "task {k}: densities {:.4} in all, and up to {} of overruns by threads that sleep inside budgets in a \
                 window of {}, on {cpus} CPUs",
                sum.approximate(),
                narrow(late),
                under.deadline
            );
            return Verdict::no(GFB, false, step);
        }
    }
    debug_assert!(keeps_deadlines(tasks, cpus), "{tasks:?} on {cpus}");
    let step = format!(
        "densities {:.4} in all, and up to {} of overruns by threads that sleep inside budgets, on {cpus} CPUs",
        sum.approximate(),
        narrow(late)
    );
    Verdict::of(GFB, Outcome::Holds, step)
}

/// A key in the order of densities: exact, since two different ratios of numbers up to 2^40 differ by at least 2^-80.
pub(crate) fn ratio_key(task: &SporadicTask) -> i128 {
    (wide(task.work) << 82) / wide(task.deadline)
}

/// BAK.
pub fn baker(tasks: &[SporadicTask], cpus: u32) -> Verdict {
    if let Some(verdict) = early(BAK, tasks, cpus) {
        return verdict;
    }
    for (k, under) in tasks.iter().enumerate() {
        let (work, window, _) = under.cdt();
        let mut sum = Sum::new();
        for task in tasks {
            let (c, d, t) = task.cdt();
            let body = c * (window + t - d);
            let carry = (c * window - work * t).max(0);
            if body * window + carry * t >= window * window * t {
                sum.add(window, 1);
            } else {
                sum.add(body, task.period.get());
                sum.add(carry, under.deadline.get());
            }
        }
        let limit = i128::from(cpus) * (window - work) + work;
        if !sum.at_most(limit) {
            let load = sum.approximate() / window as f64;
            let limit = limit as f64 / window as f64;
            let step = format!("task {k}: a load of {load:.4} may be on its window, {limit:.4} can");
            return Verdict::no(BAK, false, step);
        }
    }
    debug_assert!(keeps_deadlines(tasks, cpus), "{tasks:?} on {cpus}");
    Verdict::of(BAK, Outcome::Holds, "the load on every task's window is within the bound")
}

/// The most work of task i in a window of length D_k whose end is a deadline of both, where its jobs end `slack` before
/// their deadlines.
fn work_by_deadline(task: &SporadicTask, window: i128, slack: i128) -> i128 {
    let (c, _, t) = task.cdt();
    let whole = window / t;
    whole * c + (window % t - slack).clamp(0, c)
}

fn others(tasks: &[SporadicTask], k: usize) -> impl Iterator<Item = (usize, &SporadicTask)> {
    tasks.iter().enumerate().filter(move |(i, _)| *i != k)
}

/// BCL.
pub fn interference(tasks: &[SporadicTask], cpus: u32) -> Verdict {
    if let Some(verdict) = early(BCL, tasks, cpus) {
        return verdict;
    }
    for (k, under) in tasks.iter().enumerate() {
        let (work, window, _) = under.cdt();
        let room = window - work;
        let limit = i128::from(cpus) * room;
        let works: Vec<i128> = others(tasks, k).map(|(_, task)| work_by_deadline(task, window, 0)).collect();
        let sum: i128 = works.iter().map(|w| *w.min(&room)).sum();
        let equal = sum == limit && works.iter().any(|w| (1..=room).contains(w));
        if sum >= limit && !equal {
            let (sum, limit) = (narrow(sum), narrow(limit));
            let step = format!("task {k}: others may take {sum} of its window, less than {limit} would do");
            return Verdict::no(BCL, false, step);
        }
    }
    debug_assert!(keeps_deadlines(tasks, cpus), "{tasks:?} on {cpus}");
    Verdict::of(BCL, Outcome::Holds, "no task's window can be filled by the others")
}

/// Slacks of all tasks that hold together, raised round by round until every task has one or nothing changes.
fn slacks(
    theorem: Theorem,
    tasks: &[SporadicTask],
    cpus: u32,
    response: impl Fn(usize, &[i128]) -> Option<i128>,
) -> Verdict {
    if let Some(verdict) = early(theorem, tasks, cpus) {
        return verdict;
    }
    let mut slacks = vec![0i128; tasks.len()];
    for round in 1..=LIMIT {
        let (mut changed, mut late) = (false, None);
        for (k, task) in tasks.iter().enumerate() {
            match response(k, &slacks) {
                Some(longest) => {
                    let slack = wide(task.deadline) - longest;
                    changed |= slack > slacks[k];
                    slacks[k] = slacks[k].max(slack);
                }
                None => late = Some(k),
            }
        }
        let Some(late) = late else {
            let limit = |k: usize| wide(tasks[k].deadline) - slacks[k];
            debug_assert!(responds_within(tasks, cpus, limit), "{tasks:?} on {cpus}: {slacks:?}");
            let responses =
                tasks.iter().zip(&slacks).map(|(task, slack)| narrow(wide(task.deadline) - slack)).collect();
            let step = format!("every task has its response within the deadline after {round} rounds");
            return Verdict { responses, ..Verdict::of(theorem, Outcome::Holds, step) };
        };
        if !changed {
            let step = format!("task {late}: no response within its deadline is shown after {round} rounds");
            return Verdict::no(theorem, false, step);
        }
    }
    Verdict::no(theorem, false, format!("not decided after {LIMIT} rounds"))
}

/// BCL with slacks. Gives responses.
pub fn iterated_interference(tasks: &[SporadicTask], cpus: u32) -> Verdict {
    slacks(BCL_ITERATED, tasks, cpus, |k, slacks| {
        let (work, window, _) = tasks[k].cdt();
        let most = window - work + 1;
        let sum: i128 =
            others(tasks, k).map(|(i, task)| work_by_deadline(task, window, slacks[i]).min(most)).sum();
        let response = work + sum / i128::from(cpus);
        (response <= window).then_some(response)
    })
}

/// Response times. Gives responses.
pub fn response_times(tasks: &[SporadicTask], cpus: u32) -> Verdict {
    slacks(RTA, tasks, cpus, |k, slacks| {
        let (work, deadline, _) = tasks[k].cdt();
        least_response(work, deadline, i128::from(cpus), |window| {
            let own = others(tasks, k).map(|(i, task)| {
                let by_deadline = work_by_deadline(task, deadline, slacks[i]);
                Piece::with_carry(task, window, slacks[i]).at_most(by_deadline)
            });
            Interference { own: own.collect(), carried: Vec::new() }
        })
    })
}
