//! What debug builds hold the verdicts against: schedules played from event to event, with nothing assumed but the rule of the
//! scheduler. They take as long as there are jobs, not units of time, so sets in nanoseconds are played, too.

use super::SporadicTask;
use super::task::wide;

/// Jobs of one play before it is given up; what was seen up to there counts.
pub(crate) const JOBS: usize = 400;

#[derive(Clone, Copy, Debug)]
struct Job {
    planned: i128,
    left: i128,
}

/// What was seen: the longest response of each task from the planned release. A job that is not done counts as one unit longer
/// than it got.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub longest: Vec<i128>,
    /// Whether it was played to the end.
    pub whole: bool,
}

impl Seen {
    /// Whether some job was late.
    pub fn is_late(&self, tasks: &[SporadicTask]) -> bool {
        self.longest.iter().zip(tasks).any(|(longest, task)| *longest > wide(task.deadline))
    }
}

/// When a task's first job is planned, and before when none of its jobs is released; the others are planned a period apart.
pub(crate) type First = (i128, i128);

/// Plays tasks under global EDF with these first jobs up to `end`.
pub(crate) fn play(tasks: &[SporadicTask], cpus: usize, first: &[First], end: i128) -> Seen {
    let mut planned: Vec<i128> = first.iter().map(|(planned, _)| *planned).collect();
    let release = |place: usize, planned: i128| planned.max(first[place].1);
    let mut open: Vec<std::collections::VecDeque<Job>> = vec![Default::default(); tasks.len()];
    let mut longest = vec![0i128; tasks.len()];
    let mut now = (0..tasks.len()).map(|place| release(place, planned[place])).min().unwrap_or(end).min(end);
    let mut jobs = 0;
    while now < end && jobs <= JOBS {
        for (place, task) in tasks.iter().enumerate() {
            while release(place, planned[place]) <= now && jobs <= JOBS {
                open[place].push_back(Job { planned: planned[place], left: wide(task.work) });
                planned[place] += wide(task.period);
                jobs += 1;
            }
        }
        let mut ready: Vec<usize> = (0..tasks.len()).filter(|place| !open[*place].is_empty()).collect();
        ready.sort_by_key(|place| open[*place][0].planned + wide(tasks[*place].deadline));
        ready.truncate(cpus);
        let coming = (0..tasks.len()).map(|place| release(place, planned[place])).min().unwrap_or(end);
        let done = ready.iter().map(|place| now + open[*place][0].left).min().unwrap_or(end);
        let next = coming.max(now + 1).min(done).min(end);
        for place in ready {
            let job = &mut open[place][0];
            job.left -= next - now;
            if job.left == 0 {
                longest[place] = longest[place].max(next - job.planned);
                open[place].pop_front();
            }
        }
        now = next;
    }
    for (longest, open) in longest.iter_mut().zip(&open) {
        for job in open {
            *longest = (*longest).max(now - job.planned + 1);
        }
    }
    Seen { longest, whole: now >= end }
}

/// The first planned releases of the pattern with the most work from time 0 on: first jobs as late as they may be, all others
/// as early.
pub(crate) fn densest(tasks: &[SporadicTask]) -> Vec<First> {
    tasks.iter().map(|task| (-wide(task.jitter), 0)).collect()
}

/// What global EDF is seen to do with an accepted set: all tasks released at once, and one after the other.
pub(crate) fn global_edf(tasks: &[SporadicTask], cpus: u32) -> [Seen; 2] {
    let longest = tasks.iter().map(|task| wide(task.period)).max().unwrap_or(0);
    let apart: Vec<First> =
        (tasks.iter().zip(1..)).map(|(task, n)| (wide(task.period) * n / (n + 2), 0)).collect();
    [densest(tasks), apart].map(|first| play(tasks, cpus as usize, &first, longest * 8))
}

/// Whether what is said to respond within these times under global EDF is seen to do so.
pub(crate) fn responds_within(tasks: &[SporadicTask], cpus: u32, limits: impl Fn(usize) -> i128) -> bool {
    // Debug builds of large sets stay usable.
    let is_within =
        |seen: &Seen| seen.longest.iter().enumerate().all(|(place, longest)| *longest <= limits(place));
    tasks.len() > 64 || global_edf(tasks, cpus).iter().all(is_within)
}

/// Whether what is said to keep its deadlines under global EDF is seen to keep them.
pub(crate) fn keeps_deadlines(tasks: &[SporadicTask], cpus: u32) -> bool {
    responds_within(tasks, cpus, |place| wide(tasks[place].deadline))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_units::Nanos;

    fn task(c: i64, d: i64, t: i64) -> SporadicTask {
        SporadicTask::new(Nanos::new(c), Nanos::new(d), Nanos::new(t))
    }

    #[test]
    fn a_play_sees_what_a_hand_draws() {
        // Dhall's effect: two short ones on two CPUs make the long one late, by its whole work less what fits.
        let tasks = [task(2, 10, 10), task(2, 10, 10), task(10, 11, 11)];
        let seen = play(&tasks, 2, &densest(&tasks), 11);
        assert_eq!((seen.longest.clone(), seen.whole), (vec![2, 2, 12], true));
        assert!(seen.is_late(&tasks) && !keeps_deadlines(&tasks, 2) && keeps_deadlines(&tasks[..2], 2));
    }

    #[test]
    fn the_twins_tell_a_wrong_answer() {
        use crate::schedulability::global_edf::{GFB, density};
        let late = [task(2, 10, 10), task(2, 10, 10), task(19, 20, 20)];
        assert!(!density(&late, 2).holds() && !keeps_deadlines(&late, 2), "{GFB:?}");
        assert!(!responds_within(&late[..2], 2, |_| 1));
    }
}
