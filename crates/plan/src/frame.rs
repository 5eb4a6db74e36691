//! [`Frame`]: the deadline and the period of a reservation, and what they leave room for.

use surety_analysis::response::{ServedTask, on_grid};
use surety_model::distribution::TimeDistribution;
use surety_model::platform::Enforcement;
use surety_model::reservation::Reservation;
use surety_model::workload::Task;
use surety_units::Nanos;

/// D and T, and what they leave room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// D.
    pub deadline: Nanos,
    /// T.
    pub period: Nanos,
    /// Minimum inter-arrival time.
    pub gap: Nanos,
    /// Release jitter, with what a release may find its CPU busy with.
    pub jitter: Nanos,
    /// Over how many budgets the costs of a job may be spread.
    pub spread: u32,
}

impl Frame {
    /// Q every T with this deadline.
    pub fn reservation(&self, runtime: Nanos) -> Reservation {
        Reservation { deadline: self.deadline, ..Reservation::implicit(runtime, self.period) }
    }

    /// The task served by budgets worth `work`.
    pub fn served(
        &self,
        task: &Task,
        distribution: &TimeDistribution,
        work: Nanos,
        enforcement: Enforcement,
    ) -> ServedTask {
        ServedTask {
            work: distribution.clone(),
            modes: None,
            gap: self.gap,
            jitter: self.jitter,
            grid: on_grid(task),
            late: task.late,
            reservation: self.reservation(work),
            enforcement,
        }
    }

    /// Budgets between releases and within a limit.
    pub fn budgets(&self, task: &Task, limit: Nanos) -> (u32, u32) {
        let probe = self.probe(task, Enforcement::Exact);
        (probe.budgets_between(), probe.budgets_within(limit))
    }

    /// Over how many budgets the costs of a job may be spread where the first of these limits is promised.
    pub fn spread_over(&self, task: &Task, limit: Nanos) -> u32 {
        let (between, within) = self.budgets(task, limit);
        let counting = self.probe(task, Enforcement::Tick(Nanos::new(1))).counting();
        between.min(counting.whole(within)).max(1)
    }

    pub(crate) fn probe(&self, task: &Task, enforcement: Enforcement) -> ServedTask {
        self.served(task, &TimeDistribution::Constant(Nanos::ZERO), Nanos::new(1), enforcement)
    }
}
