//! [`Job`]: one activation of a thread as a trace shows it, and the rule by which the next one is released.

use surety_units::{Nanos, Tid};

use crate::distribution::TimeDistribution;
use crate::event::Comm;
use crate::workload::{Late, Release};

/// How a job's borders were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separation {
    /// From waking to sleeping: a whole busy period. Late jobs run on without sleeping, so it may hold several.
    BusyPeriod,
    /// By markers the program wrote at begin and end: exactly one job.
    Markers,
}

/// One activation of a thread, on the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Waking request, or the planned release a marker names.
    pub release: Nanos,
    /// First instant on a CPU.
    pub start: Nanos,
    /// Last instant on a CPU before it slept, or its end marker.
    pub completion: Nanos,
    /// Time on CPUs between start and completion (between the markers, where those separate), nested interrupts
    /// included.
    pub execution: Nanos,
    /// Of that, hard and soft interrupts that ran on top.
    pub interrupted: Nanos,
    /// Times it lost a CPU while it still wanted to run.
    pub preemptions: u32,
    /// Time without budget: from a throttle to its replenishment.
    pub throttled: Nanos,
    /// The marker's index, where markers separate.
    pub index: Option<u64>,
}

impl Job {
    /// Release to completion.
    pub fn response(&self) -> Nanos {
        self.completion - self.release
    }

    /// Release to start.
    pub fn latency(&self) -> Nanos {
        self.start - self.release
    }

    /// CPU time of the thread itself, interrupts excluded.
    pub fn execution_net(&self) -> Nanos {
        self.execution - self.interrupted
    }
}

/// All a trace shows of one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadHistory {
    /// Thread id.
    pub tid: Tid,
    /// Its last name.
    pub comm: Comm,
    /// How its jobs were separated.
    pub separation: Separation,
    /// Complete jobs in the order of completion.
    pub jobs: Vec<Job>,
    /// Jobs given up because events were lost while they were open, or because the trace began or ended inside.
    pub censored: u64,
    /// CPU time in the trace, complete jobs or not.
    pub run: Nanos,
    /// Time it wanted a CPU and had none.
    pub waited: Nanos,
    /// Longest single such time.
    pub longest_wait: Nanos,
    /// First and last event of the thread.
    pub seen: (Nanos, Nanos),
}

/// The activation that follows job `job`, which completed at `completion`: its index and planned release.
///
/// Every world obeys this one rule. `queue`: the next point of the grid, passed or not. `skip`: the first point
/// of the grid that is not before the completion; those between are given up.
/// Times count from the start of the run. Jitter is not in it: it delays the release a world makes, not the grid.
///
/// # Panics
/// When the release has no interval.
pub fn next_activation(release: &Release, late: Late, job: u64, completion: Nanos) -> (u64, Nanos) {
    let interval = release.interval().expect("an activation rule needs a period or a gap");
    let start = match release {
        Release::Periodic { start, .. } => *start,
        _ => Nanos::ZERO,
    };
    let follower = job + 1;
    let index = match late {
        Late::Queue => follower,
        Late::Skip => {
            let reached = (completion - start).div_ceil(interval).max(0);
            follower.max(u64::try_from(reached).expect("not negative"))
        }
    };
    (index, planned_release(start, interval, index))
}

/// Grid point `index`.
pub fn planned_release(start: Nanos, interval: Nanos, index: u64) -> Nanos {
    start + interval * i64::try_from(index).expect("a run holds fewer than 2^63 activations")
}

/// How much later than its grid point job `job` is released: even between 0 and `jitter`, drawn like work.
pub fn release_jitter(jitter: Nanos, seed: u64, name: &str, job: u64) -> Nanos {
    if !jitter.is_positive() {
        return Nanos::ZERO;
    }
    let delay = TimeDistribution::Uniform { low: Nanos::ZERO, high: jitter };
    delay.draw(seed, &format!("{name}~jitter"), job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_keeps_every_point_and_skip_drops_those_passed() {
        let ms = Nanos::from_millis;
        let grid = Release::Periodic { period: ms(40), start: ms(5), jitter: Nanos::ZERO };
        for (late, completion, expected) in [
            (Late::Queue, 30, (1, 45)),
            (Late::Queue, 300, (1, 45)),
            (Late::Skip, 30, (1, 45)),
            (Late::Skip, 45, (1, 45)),
            (Late::Skip, 46, (2, 85)),
            (Late::Skip, 200, (5, 205)),
        ] {
            let (index, release) = next_activation(&grid, late, 0, ms(completion));
            assert_eq!((index, release), (expected.0, ms(expected.1)), "{late:?} {completion}");
        }
    }
}
