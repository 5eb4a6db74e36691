//! Orders of priority: rate-monotonic, deadline-monotonic, and Audsley's optimal assignment: what the tests of fixed priorities are compared by.
//!
//! Rate-monotonic order is optimal for synchronous sets with deadlines at the periods' ends (Liu and Layland, Journal of
//! the ACM 20(1), 1973), deadline-monotonic order for deadlines within the periods (Leung and Whitehead, Performance
//! Evaluation 2(4), 1982), both for preemptive scheduling without jitter and blocking. [`optimal`] finds an order whenever
//! one exists that the test can show, also for jitter and deadlines beyond periods: a task
//! that keeps its deadline below all others may have the lowest priority, whichever else could (Audsley, "On priority
//! assignment in fixed priority scheduling", Information Processing Letters 79(1), 2001). It needs a test that looks at
//! which tasks are above, not at their order.

use crate::schedulability::SporadicTask;
use crate::schedulability::fixed::{Response, longest_response};

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
/// order is left out without blocking.
pub fn optimal(tasks: &[SporadicTask]) -> Option<Vec<usize>> {
    // Long deadlines first: they are the likeliest to hold at the bottom.
    let mut open = deadline_monotonic(tasks);
    let mut from_below: Vec<usize> = Vec::with_capacity(tasks.len());
    while !open.is_empty() {
        let lowest = (0..open.len()).rev().find(|candidate| {
            let above: Vec<SporadicTask> = (open.iter().enumerate())
                .filter(|(at, _)| at != candidate)
                .map(|(_, place)| tasks[*place])
                .collect();
            let found = longest_response(&tasks[open[*candidate]], &above, |work| work);
            matches!(found, Response::Within(_))
        })?;
        from_below.push(open.remove(lowest));
    }
    from_below.reverse();
    Some(from_below)
}

/// The order with which global fixed priorities escape Dhall's effect best of the simple ones: rising `D - C`, so that a
/// task with little slack stands above light ones (Davis and Burns, RTSS 2009, after Andersson and Jonsson, RTSS WiP 2000).
pub fn slack_monotonic(tasks: &[SporadicTask]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..tasks.len()).collect();
    places.sort_by_key(|place| tasks[*place].deadline - tasks[*place].work);
    places
}
