//! [`StatisticsBuilder`]: what the jobs of threads amount to, in memory that does not follow the trace's length.
//!
//! Events go through [`crate::jobs`]; every job that completes is added to its thread's recorder and gone. See
//! [`recorder`] for what is kept and its bounds.

use serde::Serialize;
use surety_model::event::{Comm, Event, TraceSink};
use surety_units::{Nanos, Tid};

use crate::jobs::sink::Throughout;
use crate::jobs::{Anomalies, JobBuilder};
use crate::wanted::Wanted;
use series::Workspace;

mod interruptions;
pub mod recorder;
pub(crate) mod releases;
pub mod series;
mod times;

pub use recorder::{Recorded, Recorders};
pub use series::Series;

/// Mean and quantiles of one quantity of a thread's jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// How many values.
    pub count: u64,
    /// Smallest.
    pub min: Nanos,
    /// Arithmetic mean, rounded down to the nanosecond.
    pub mean: Nanos,
    /// Half the values are at most this.
    pub median: Nanos,
    /// 90 % are at most this.
    pub p90: Nanos,
    /// 99 % are at most this.
    pub p99: Nanos,
    /// Largest.
    pub max: Nanos,
}

impl Spread {
    /// Of a series; `None` when it is empty. Quantiles are as exact as the series' own.
    fn of(series: &Series, workspace: &mut Workspace) -> Option<Spread> {
        let [median, p90, p99] = series.quantiles([0.5, 0.9, 0.99], workspace)?;
        Some(Spread {
            count: series.count(),
            min: series.min()?,
            mean: series.mean()?,
            median,
            p90,
            p99,
            max: series.max()?,
        })
    }

    /// Of `count` times of 0.
    fn of_zeros(count: u64) -> Spread {
        let zero = Nanos::ZERO;
        Spread { count, min: zero, mean: zero, median: zero, p90: zero, p99: zero, max: zero }
    }
}

/// A thread's jobs in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadStatistics {
    /// Thread id.
    pub tid: Tid,
    /// Its last name.
    pub comm: Comm,
    /// Whether its jobs are exact: separated by markers.
    pub exact: bool,
    /// Whether its jobs are activations told apart by switches alone, as no wake-up is in the trace: response and latency are
    /// not known, and arrivals are starts.
    pub by_switches: bool,
    /// Complete jobs.
    pub jobs: u64,
    /// Jobs given up.
    pub censored: u64,
    /// Complete jobs with a switch-in that was not recorded and is known within narrow bounds.
    pub inferred: u64,
    /// Jobs given up because the bounds of such a switch-in are wide.
    pub doubtful: u64,
    /// The longest response of these, which is exact.
    pub doubtful_response_max: Option<Nanos>,
    /// Time between bounds of switch-ins that were not recorded, in the whole trace: it ran in part of it.
    pub unknown: Nanos,
    /// CPU time.
    pub run: Nanos,
    /// Time without a CPU it wanted, throttling included.
    pub waited: Nanos,
    /// Longest such time.
    pub longest_wait: Nanos,
    /// From the first to the last event that names it.
    pub observed: Nanos,
    /// What it did for all of the trace without a change.
    pub throughout: Option<Throughout>,
    /// Preemptions in complete jobs.
    pub preemptions: u64,
    /// Time without budget in complete jobs.
    pub throttled: Nanos,
    /// Release to completion.
    pub response: Option<Spread>,
    /// Release to start.
    pub latency: Option<Spread>,
    /// From losing a CPU it still wanted, each time, to having one again.
    pub preemption: Option<Spread>,
    /// CPU time of a job, interrupts on top of it included.
    pub execution: Option<Spread>,
    /// The same without them.
    pub execution_net: Option<Spread>,
    /// Interrupts on top of a job.
    pub interrupted: Option<Spread>,
    /// From one release to the next, not across jobs that were given up. Releases, not starts: those would show the
    /// scheduler, not the arrivals.
    pub inter_arrival: Option<Spread>,
}

/// Threads of one name that are too many to be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Folded {
    /// Their name; empty for those of further names.
    pub name: Comm,
    pub threads: u64,
    /// Complete jobs.
    pub jobs: u64,
    /// Jobs given up.
    pub censored: u64,
    /// Of these, jobs that completed and of which nobody knows when they got their CPU.
    pub doubtful: u64,
    /// The longest response of these.
    pub doubtful_response_max: Option<Nanos>,
    /// CPU time.
    pub run: Nanos,
    /// Time without a CPU they wanted.
    pub waited: Nanos,
    /// The longest response.
    pub response_max: Option<Nanos>,
    /// The longest time from release to start.
    pub latency_max: Option<Nanos>,
}

/// Condenses the wanted part of a trace from events in order of time.
#[derive(Debug)]
pub struct StatisticsBuilder {
    jobs: JobBuilder<Recorders>,
    begun: bool,
}

impl StatisticsBuilder {
    /// Nothing seen yet.
    pub fn new(wanted: Wanted) -> StatisticsBuilder {
        StatisticsBuilder::into(Recorders::new(wanted))
    }

    /// The same of threads to whose names `records` agrees only.
    pub fn of_names(wanted: Wanted, records: fn(Comm) -> bool) -> StatisticsBuilder {
        StatisticsBuilder::into(Recorders::of_names(wanted, records))
    }

    fn into(recorders: Recorders) -> StatisticsBuilder {
        StatisticsBuilder { jobs: JobBuilder::into_sink(recorders), begun: false }
    }

    /// Ends the trace.
    pub fn finish(self) -> (Recorded, Anomalies) {
        let (recorders, anomalies) = self.jobs.end();
        (recorders.finish(), anomalies)
    }
}

impl TraceSink for StatisticsBuilder {
    fn event(&mut self, event: &Event<'_>) {
        if !self.begun {
            self.begun = true;
            self.jobs.sink_mut().begin(event.time);
        }
        self.jobs.event(event);
    }
}

#[cfg(test)]
mod tests;
