//! Blocking by shared resources: how long sections of lower priority keep a job waiting.
//!
//! With a lock's ceiling the highest priority of a task that takes it, a section of a task below i can block i only where
//! the ceiling is at or above i's priority. Then, for sections that are not nested and tasks that do not suspend:
//!
//! [`inheritance`] (PI, as the kernel's PI futexes): at most one section for each lower task and at most one for each
//! lock, so `B_i` is the lesser of the sums of the longest of each (Sha, Rajkumar and Lehoczky, "Priority inheritance
//! protocols", IEEE Trans. Computers 39(9), 1990).
//!
//! Tasks stand in order of falling priority; for EDF with SRP in order of rising relative deadlines.

use surety_units::Nanos;

use super::SporadicTask;

/// A critical section: one task holds one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// The place of the task in order of falling priority.
    pub task: usize,
    pub lock: usize,
    /// The longest time it is held.
    pub length: Nanos,
}

/// Sections that can block task i: of a task below it, on a lock that it or a task above it takes, too.
fn blocking(i: usize, sections: &[Section]) -> Vec<Section> {
    let taken = |lock: usize| sections.iter().any(|s| s.lock == lock && s.task <= i);
    sections.iter().filter(|s| s.task > i && taken(s.lock)).copied().collect()
}

/// The sum over all values of a key of the longest section with it.
fn sum_of_longest(sections: &[Section], key: impl Fn(&Section) -> usize) -> Nanos {
    let mut keys: Vec<usize> = sections.iter().map(&key).collect();
    keys.sort_unstable();
    keys.dedup();
    let longest = |k: usize| sections.iter().filter(|s| key(s) == k).map(|s| s.length).max();
    keys.into_iter().filter_map(longest).fold(Nanos::ZERO, Nanos::saturating_add)
}

/// B of each of `tasks` tasks under priority inheritance.
pub fn inheritance(tasks: usize, sections: &[Section]) -> Vec<Nanos> {
    let bound = |i: usize| {
        let sections = blocking(i, sections);
        sum_of_longest(&sections, |s| s.task).min(sum_of_longest(&sections, |s| s.lock))
    };
    (0..tasks).map(bound).collect()
}

/// The tasks with these blocking times, on top of what they had.
pub fn blocked(tasks: &[SporadicTask], blocking: &[Nanos]) -> Vec<SporadicTask> {
    let none = std::iter::repeat(&Nanos::ZERO);
    (tasks.iter().zip(blocking.iter().chain(none)))
        .map(|(task, more)| SporadicTask { blocking: task.blocking.saturating_add(*more), ..*task })
        .collect()
}
