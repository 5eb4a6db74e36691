//! Orders of priority: rate-monotonic, deadline-monotonic, and Audsley's optimal assignment.
//!
//! Rate-monotonic order is optimal for synchronous sets with deadlines at the periods' ends (Liu and Layland, Journal of
//! the ACM 20(1), 1973), deadline-monotonic order for deadlines within the periods (Leung and Whitehead, Performance
//! Evaluation 2(4), 1982), both for preemptive scheduling without jitter and blocking. [`optimal`] finds an order whenever
//! one exists that the test can show, also for jitter, deadlines beyond periods and jobs that are not preempted: a task
//! that keeps its deadline below all others may have the lowest priority, whichever else could (Audsley, "On priority
//! assignment in fixed priority scheduling", Information Processing Letters 79(1), 2001). It needs a test that looks at
//! which tasks are above and below, not at their order; both of [`super::fixed`] are such.

use super::SporadicTask;
use super::fixed::{keeps, longest_response, non_preemptive};
use super::task::{TaskError, check};

/// Whether jobs may be preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// At any time.
    Anytime,
    /// Never: jobs run to their end.
    Never,
}

/// Places of the tasks in order of rising periods.
pub fn rate_monotonic(tasks: &[SporadicTask]) -> Vec<usize> {
    by(tasks, |task| task.period)
}

/// Places of the tasks in order of rising deadlines.
pub fn deadline_monotonic(tasks: &[SporadicTask]) -> Vec<usize> {
    by(tasks, |task| task.deadline)
}

/// Places in order of rising deadlines less jitter: optimal with jitter for deadlines within periods (Zuhily and Burns,
/// "Optimal (D-J)-monotonic priority assignment", Information Processing Letters 103(6), 2007).
pub fn deadline_less_jitter_monotonic(tasks: &[SporadicTask]) -> Vec<usize> {
    by(tasks, |task| task.deadline - task.jitter)
}

fn by<K: Ord>(tasks: &[SporadicTask], key: impl Fn(&SporadicTask) -> K) -> Vec<usize> {
    let mut places: Vec<usize> = (0..tasks.len()).collect();
    // Stable: of equals the first stays first.
    places.sort_by_key(|place| key(&tasks[*place]));
    places
}

/// The tasks in an order of their places.
pub fn in_order(tasks: &[SporadicTask], order: &[usize]) -> Vec<SporadicTask> {
    order.iter().filter_map(|place| tasks.get(*place).copied()).collect()
}

/// Places in order of falling priority in which every task keeps its deadline, or `None` where no order is shown to; no
/// order is left out for exact tests.
///
/// # Errors
/// What makes no set of tasks.
pub fn optimal(tasks: &[SporadicTask], preemption: Preemption) -> Result<Option<Vec<usize>>, TaskError> {
    check(tasks)?;
    // Long deadlines first: they are the likeliest to hold at the bottom.
    let mut open = deadline_monotonic(tasks);
    let mut from_below: Vec<usize> = Vec::with_capacity(tasks.len());
    while !open.is_empty() {
        let below = in_order(tasks, &from_below);
        let lowest = (0..open.len()).rev().find(|candidate| {
            let above: Vec<SporadicTask> = (open.iter().enumerate())
                .filter(|(at, _)| at != candidate)
                .map(|(_, place)| tasks[*place])
                .collect();
            let task = &tasks[open[*candidate]];
            keeps(match preemption {
                Preemption::Anytime => longest_response(task, &above, |work| work),
                Preemption::Never => non_preemptive(task, &above, &below),
            })
        });
        let Some(lowest) = lowest else { return Ok(None) };
        from_below.push(open.remove(lowest));
    }
    from_below.reverse();
    Ok(Some(from_below))
}
