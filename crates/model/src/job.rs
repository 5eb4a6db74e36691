//! [`Job`]: one activation of a thread as a trace shows it.

use surety_units::{CpuId, Nanos, Tid};

use crate::event::Comm;

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
    pub cpu: CpuId,
    /// Last instant on a CPU before it slept, or its end marker.
    pub completion: Nanos,
    /// Time on CPUs between start and completion (between the markers, where those separate), nested interrupts
    /// included.
    pub execution: Nanos,
    /// Of that, hard and soft interrupts that ran on top.
    pub interrupted: Nanos,
    /// Times it lost a CPU while it still wanted to run.
    pub preemptions: u32,
    /// Time from losing a CPU so to having one again, all such times together.
    pub preempted: Nanos,
    /// Time without budget: from a throttle to its replenishment.
    pub throttled: Nanos,
    /// Width of the bounds of switch-ins that were not recorded and were taken at their earliest: `start` may be too early
    /// and `execution` too long by so much. Zero where every switch-in was recorded.
    pub inferred: Nanos,
    /// Time between bounds of unrecorded switch-ins that are too wide to be used: the thread got its CPU somewhere in it.
    /// Neither execution nor waiting.
    pub unknown: Nanos,
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

    /// The same job with the most it can have executed: all unknown time is taken as execution.
    pub fn at_most(&self) -> Job {
        Job {
            execution: self.execution + self.unknown,
            inferred: self.inferred + self.unknown,
            unknown: Nanos::ZERO,
            ..*self
        }
    }
}

/// A job that was not done when the trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenJob {
    /// Waking request, or the planned release a marker names.
    pub release: Nanos,
    /// Time on CPUs until then, nested interrupts included.
    pub execution: Nanos,
}

/// All a trace shows of one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadHistory {
    /// Thread id.
    pub tid: Tid,
    /// Its last name.
    pub comm: Comm,
    /// The kernel's priority it last had: below 0 deadline, 0 to 98 realtime, 100 to 139 fair. 120 where no event says.
    pub prio: i32,
    /// How its jobs were separated.
    pub separation: Separation,
    /// Complete jobs in the order of completion.
    pub jobs: Vec<Job>,
    /// The job that was open when the trace ended; `None`: there was none, or its release was not seen.
    pub open: Option<OpenJob>,
    /// Jobs given up because events were lost while they were open, or because the trace began or ended inside.
    pub censored: u64,
    /// Complete jobs of which a switch-in was not recorded and is not known closely enough ([`Job::unknown`]), in the order
    /// of completion; `censored` counts them too. Their responses are exact, their starts are the latest possible.
    pub doubtful: Vec<Job>,
    /// CPU time in the trace, complete jobs or not.
    pub run: Nanos,
    /// Of that, interrupts that ran on top.
    pub interrupted: Nanos,
    /// Time it wanted a CPU and had none.
    pub waited: Nanos,
    /// Longest single such time.
    pub longest_wait: Nanos,
    /// Time between bounds of unrecorded switch-ins: it ran in part of it, nobody knows which.
    pub unknown: Nanos,
    /// First and last event of the thread.
    pub seen: (Nanos, Nanos),
}

impl ThreadHistory {
    /// The same history with the doubtful jobs among the complete ones, each with the most it can have executed. Left out,
    /// they would take the long jobs with them: the longer a job, the wider are the bounds of its start.
    pub fn at_most(mut self) -> ThreadHistory {
        if !self.doubtful.is_empty() {
            let many = u64::try_from(self.doubtful.len()).unwrap_or(u64::MAX);
            self.censored = self.censored.saturating_sub(many);
            self.jobs.extend(self.doubtful.drain(..).map(|job| job.at_most()));
            self.jobs.sort_by_key(|job| job.completion);
        }
        self
    }
}
