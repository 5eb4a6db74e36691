//! Self-suspension under fixed priorities on one CPU: jobs that wait, once begun, for a device or another CPU.
//!
//! - [`oblivious`]: waiting counts as work, `C + S`, for the task itself and for those below.
//! - [`as_jitter`]: the task itself has `C + S`; one above delays it as if released with a jitter of `R_i - C_i`, its own
//!   response less its work, where it suspends at all. A jitter of S_i alone, as several papers had it, is not safe.
//!
//! Both: Chen, Nelissen, Huang et al., "Many suspensions, many problems: a review of self-suspending tasks in real-time
//! systems", Real-Time Systems 55, 2019; that each task may be taken either way: Chen, Nelissen and Huang, "A unifying
//! response time analysis framework for dynamic self-suspending tasks", ECRTS 2016. Constrained deadlines, no release
//! jitter; tasks in order of falling priority.

use surety_units::Nanos;

use super::fixed::{Response, longest_response, response_times};
use super::task::{Takes, check, narrow, objection};
use super::{Outcome, SporadicTask, Strength, Theorem, Verdict};

/// Waiting as work.
pub const OBLIVIOUS: Theorem = Theorem {
    name: "suspension-oblivious response times",
    source: "Chen, Nelissen, Huang et al., Real-Time Systems 55, 2019",
    strength: Strength::Sufficient,
};

/// Waiting as jitter of those above.
pub const AS_JITTER: Theorem = Theorem {
    name: "response times with suspension as jitter",
    source: "Chen, Nelissen and Huang, ECRTS 2016; Chen, Nelissen, Huang et al., Real-Time Systems 55, 2019",
    strength: Strength::Sufficient,
};

/// The task with its suspension counted as work.
fn waiting_as_work(task: &SporadicTask) -> SporadicTask {
    SporadicTask { work: task.work + task.suspension, suspension: Nanos::ZERO, ..*task }
}

fn refusal(theorem: Theorem, tasks: &[SporadicTask]) -> Option<Verdict> {
    let without = |t: &SporadicTask| SporadicTask { suspension: Nanos::ZERO, ..*t };
    let plain: Vec<SporadicTask> = tasks.iter().map(without).collect();
    let why = check(tasks).err().map(|error| error.to_string());
    why.or_else(|| objection(&plain, Takes { blocking: true, ..Takes::default() }))
        .map(|why| Verdict::not_applicable(theorem, why))
}

/// Waiting as work.
pub fn oblivious(tasks: &[SporadicTask]) -> Verdict {
    if let Some(verdict) = refusal(OBLIVIOUS, tasks) {
        return verdict;
    }
    let tasks: Vec<SporadicTask> = tasks.iter().map(waiting_as_work).collect();
    let verdict = response_times(&tasks);
    let outcome = if verdict.holds() { Outcome::Holds } else { Outcome::NotShown };
    Verdict { theorem: OBLIVIOUS, outcome, ..verdict }
}

/// Waiting as jitter of those above.
pub fn as_jitter(tasks: &[SporadicTask]) -> Verdict {
    if let Some(verdict) = refusal(AS_JITTER, tasks) {
        return verdict;
    }
    let mut verdict =
        Verdict { theorem: AS_JITTER, outcome: Outcome::Holds, steps: Vec::new(), responses: Vec::new() };
    let mut above: Vec<SporadicTask> = Vec::with_capacity(tasks.len());
    for (level, task) in tasks.iter().enumerate() {
        match longest_response(&waiting_as_work(task), &above, |work| work) {
            Response::Within(longest) => {
                let response = narrow(longest);
                verdict
                    .steps
                    .push(format!("task {level}: response at most {response}, deadline {}", task.deadline));
                verdict.responses.push(response);
                let suspends = task.suspension.is_positive();
                let jitter = if suspends { response - task.work } else { task.jitter };
                above.push(SporadicTask { jitter, ..*task });
            }
            Response::Beyond(_) | Response::Open => {
                verdict.outcome = Outcome::NotShown;
                verdict.steps.push(format!("task {level}: no response within {} is shown", task.deadline));
                return verdict;
            }
        }
    }
    verdict
}
