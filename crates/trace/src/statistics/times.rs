//! [`Times`]: what of a job goes into series, which is less than half of it.

use surety_model::job::Job;
use surety_units::Nanos;

/// The times of a job that go into series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) release: Nanos,
    pub(super) response: Nanos,
    pub(super) latency: Nanos,
    pub(super) execution: Nanos,
    pub(super) interrupted: Nanos,
}

impl Times {
    #[inline]
    pub(super) fn of(job: &Job) -> Times {
        Times {
            release: job.release,
            response: job.response(),
            latency: job.latency(),
            execution: job.execution,
            interrupted: job.interrupted,
        }
    }

    /// Execution without interrupts.
    #[inline]
    pub(super) fn net(&self) -> Nanos {
        self.execution - self.interrupted
    }
}
