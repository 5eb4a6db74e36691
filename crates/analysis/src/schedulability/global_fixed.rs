//! Global fixed priorities on m CPUs: response times, sufficient.
//!
//! `R_k = C_k + floor(sum_{hp} min(W_i(R_k), R_k - C_k + 1) / m)`, W_i the most work of task i in a window given its own
//! response (Bertogna and Cirinei, RTSS 2007). Of the tasks above, at most m - 1 carry work into the window: it may be
//! begun where a CPU was idle before (Guan, Stigge, Yi and Yu, "New response time bounds for fixed priority multiprocessor
//! scheduling", RTSS 2009); the others have `floor(R/T) C + min(C, R mod T)`.
//!
//! Constrained deadlines; tasks in order of falling priority.

use super::global_edf::early;
use super::interference::{Interference, Piece, least_response};
use super::task::{narrow, wide};
use super::{Outcome, SporadicTask, Strength, Theorem, Verdict};

/// The analysis.
pub const RTA: Theorem = Theorem {
    name: "response-time analysis of global fixed priorities with limited carry-in",
    source: "Bertogna and Cirinei, RTSS 2007; Guan, Stigge, Yi and Yu, RTSS 2009",
    strength: Strength::Sufficient,
};

/// Response times of tasks in order of falling priority.
pub fn response_times(tasks: &[SporadicTask], cpus: u32) -> Verdict {
    if let Some(verdict) = early(RTA, tasks, cpus) {
        return verdict;
    }
    let mut responses: Vec<i128> = Vec::with_capacity(tasks.len());
    let mut steps = Vec::new();
    for (level, task) in tasks.iter().enumerate() {
        let deadline = task.deadline;
        let Some(response) = response(task, &tasks[..level], &responses, i128::from(cpus)) else {
            steps.push(format!("task {level}: no response within its deadline {deadline} is shown"));
            let responses = responses.into_iter().map(narrow).collect();
            return Verdict { theorem: RTA, outcome: Outcome::NotShown, steps, responses };
        };
        steps.push(format!("task {level}: response at most {}, deadline {deadline}", narrow(response)));
        responses.push(response);
    }
    let responses = responses.into_iter().map(narrow).collect();
    Verdict { theorem: RTA, outcome: Outcome::Holds, steps, responses }
}

fn response(task: &SporadicTask, above: &[SporadicTask], responses: &[i128], cpus: i128) -> Option<i128> {
    let (work, deadline, _) = task.cdt();
    least_response(work, deadline, cpus, |window| {
        let own = above.iter().map(|other| Piece::without_carry(other, window));
        let carried = (above.iter().zip(responses))
            .map(|(other, response)| Piece::with_carry(other, window, wide(other.deadline) - response));
        Interference { own: own.collect(), carried: carried.collect() }
    })
}
