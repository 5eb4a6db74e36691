//! Fixed priorities on one CPU: response times, exact for independent tasks.
//!
//! Preemption at any time ([`response_times`]): the q-th job of a busy window of a priority is done at the least w with
//! `w = q C_i + B_i + sum_hp ceil((w + J_j)/T_j) C_j`; it responds `w + J_i - (q-1) T_i` after its planned release, and
//! jobs are looked at until one is done before the next is released (Joseph and Pandya, "Finding response times in a
//! real-time system", Computer Journal 29(5), 1986, and Audsley et al., "Applying new scheduling theory to static
//! priority pre-emptive scheduling", Software Engineering Journal 8(5), 1993; jobs beyond the first where deadlines are
//! beyond periods: Lehoczky, "Fixed priority scheduling of periodic task sets with arbitrary deadlines", RTSS 1990;
//! jitter: Tindell, Burns and Wellings, "An extendible approach for analyzing fixed priority hard real-time tasks",
//! Real-Time Systems 6, 1994).
//!
//! A level that takes the whole CPU and has jitter or blocking is busy for ever; it gets no answer.
//!
//! Tasks stand in order of falling priority.

use super::task::{Takes, narrow, objection, wide};
use super::{Outcome, SporadicTask, Strength, Theorem, Verdict};

/// Steps of one task's fixed points before the search is given up.
const LIMIT: u32 = 200_000;

/// The preemptive analysis.
pub const RESPONSE_TIMES: Theorem = Theorem {
    name: "response-time analysis of fixed priorities",
    source: "Joseph and Pandya, 1986; Audsley et al., 1993; Lehoczky, RTSS 1990; Tindell, Burns and Wellings, 1994",
    strength: Strength::Exact,
};

/// How far the search for a longest response came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    /// The longest response, within the deadline.
    Within(i128),
    /// Some response is at least this long, beyond the deadline.
    Beyond(i128),
    /// The busy window did not end within [`LIMIT`] steps.
    Open,
}

/// The longest response of a task below others where an amount of work takes `time_for` (the identity on a CPU of its
/// own). Debug builds walk the busy window from release to release.
pub(crate) fn longest_response(
    task: &SporadicTask,
    above: &[SporadicTask],
    time_for: impl Fn(i128) -> i128,
) -> Response {
    let found = search(task, above, &time_for);
    debug_assert!(walked_agrees(task, above, &time_for, found), "{task:?} below {above:?}: {found:?}");
    found
}

/// The twin: the first instant at which each job of the busy window is done, looked for in every stretch between releases.
fn walked_agrees(
    task: &SporadicTask,
    above: &[SporadicTask],
    time_for: &impl Fn(i128) -> i128,
    found: Response,
) -> bool {
    /// Stretches of one busy window.
    const SMALL: u32 = 2_000;
    let (work, deadline, period) = task.cdt();
    let (mut at, mut seen, mut left) = (0i128, 0, SMALL);
    for job in 1.. {
        let own = work * job + wide(task.blocking);
        // What was released does not change up to the next instant k T - J.
        at = loop {
            if left == 0 {
                return match found {
                    Response::Within(longest) => seen <= longest,
                    Response::Beyond(_) | Response::Open => true,
                };
            }
            left -= 1;
            let last = (above.iter())
                .map(|a| {
                    let (_, _, t) = a.cdt();
                    (at + wide(a.jitter) + t - 1).div_euclid(t) * t - wide(a.jitter)
                })
                .min()
                .unwrap_or(i128::MAX >> 2);
            let released: i128 = above
                .iter()
                .map(|a| {
                    (last + wide(a.jitter) + wide(a.period) - 1).div_euclid(wide(a.period)) * wide(a.work)
                })
                .sum();
            let need = time_for(own + if above.is_empty() { 0 } else { released });
            if need <= last {
                break need.max(at);
            }
            at = last + 1;
        };
        seen = seen.max(at + wide(task.jitter) - period * (job - 1));
        match found {
            Response::Beyond(least) if seen >= least => return seen > deadline,
            _ => {}
        }
        if at + wide(task.jitter) <= period * job {
            break;
        }
    }
    match found {
        Response::Within(longest) => seen == longest && seen <= deadline,
        Response::Beyond(_) => false,
        Response::Open => true,
    }
}

/// The search of [`longest_response`].
fn search(task: &SporadicTask, above: &[SporadicTask], time_for: &impl Fn(i128) -> i128) -> Response {
    let (work, deadline, period) = task.cdt();
    let (jitter, blocking) = (wide(task.jitter), wide(task.blocking));
    let (mut longest, mut done, mut steps) = (0, 0, 0u32);
    for job in 1.. {
        let own = work * job + blocking;
        let before = jitter - period * (job - 1);
        done = done.max(time_for(own));
        loop {
            if done + before > deadline {
                return Response::Beyond(done + before);
            }
            steps += 1;
            if steps > LIMIT {
                return Response::Open;
            }
            let next = time_for(own + above.iter().map(|t| t.released(done)).sum::<i128>());
            if next <= done {
                break;
            }
            done = next;
        }
        longest = longest.max(done + before);
        if done + jitter <= period * job {
            break;
        }
    }
    Response::Within(longest)
}

/// Response times of tasks in order of falling priority, preempted at any time.
///
/// Exact where no task has blocking. Takes jitter, blocking and deadlines beyond periods.
pub fn response_times(tasks: &[SporadicTask]) -> Verdict {
    of_levels(tasks, RESPONSE_TIMES, |level| longest_response(&tasks[level], &tasks[..level], |work| work))
}

/// One verdict from the longest response of each level.
fn of_levels(tasks: &[SporadicTask], theorem: Theorem, response: impl Fn(usize) -> Response) -> Verdict {
    let takes = Takes { jitter: true, blocking: true, long_deadlines: true, servers: false };
    if let Some(why) = objection(tasks, takes) {
        return Verdict::not_applicable(theorem, why);
    }
    let mut verdict = Verdict { theorem, outcome: Outcome::Holds, steps: Vec::new(), responses: Vec::new() };
    for (level, task) in tasks.iter().enumerate() {
        let deadline = task.deadline;
        let (outcome, step) = match response(level) {
            Response::Within(longest) => {
                verdict.responses.push(narrow(longest));
                let longest = narrow(longest);
                verdict.steps.push(format!("task {level}: response at most {longest}, deadline {deadline}"));
                continue;
            }
            Response::Beyond(least) => {
                let exact = !task.blocking.is_positive();
                let least = narrow(least);
                let step = format!("task {level}: response up to {least} or more, deadline {deadline}");
                (if exact { Outcome::Fails } else { Outcome::NotShown }, step)
            }
            Response::Open => {
                let step = format!("task {level}: its busy window does not end within {LIMIT} steps");
                (Outcome::NotShown, step)
            }
        };
        verdict.outcome = outcome;
        verdict.steps.push(step);
        break;
    }
    verdict
}

/// The utilisation bound of rate-monotonic priorities in the form that needs no roots: `prod (U_i + 1) <= 2`.
///
/// In fixed point rounded against the claim. Sufficient, for deadlines at the periods' ends.
pub fn hyperbolic(tasks: &[SporadicTask]) -> Verdict {
    const ONE: u128 = 1 << 60;
    if let Some(why) = objection(tasks, Takes { long_deadlines: true, ..Takes::default() }) {
        return Verdict::not_applicable(HYPERBOLIC, why);
    }
    if tasks.iter().any(|t| t.deadline < t.period) {
        return Verdict::not_applicable(HYPERBOLIC, "a deadline is before its period's end");
    }
    if tasks.windows(2).any(|pair| pair[0].period > pair[1].period) {
        return Verdict::not_applicable(HYPERBOLIC, "the tasks are not in order of rising periods");
    }
    let mut product = ONE;
    for task in tasks {
        let share = (task.work.get_unsigned() as u128 * ONE).div_ceil(task.period.get_unsigned() as u128);
        product = (product * (ONE + share)).div_ceil(ONE);
        if product > 2 * ONE {
            break;
        }
    }
    let step = format!("product of (U + 1) is {:.4}, the bound 2", product as f64 / ONE as f64);
    if product <= 2 * ONE {
        return Verdict::of(HYPERBOLIC, Outcome::Holds, step);
    }
    Verdict::no(HYPERBOLIC, false, step)
}

/// The hyperbolic bound.
pub const HYPERBOLIC: Theorem = Theorem {
    name: "hyperbolic bound of rate-monotonic priorities",
    source: "Bini, Buttazzo and Buttazzo, IEEE Trans. Computers 52(7), 2003",
    strength: Strength::Sufficient,
};
