//! [`Interruptions`]: how long the jobs of a thread were interrupted, and what they executed apart from that.
//!
//! A trace without events of interrupts, and most threads of one with them, have no interrupted job. The net execution is the
//! execution then and the time of interrupts zero, so the two series are kept from the first interrupted job on only: they
//! are two of the seven of a thread.

use surety_units::Nanos;

use super::Spread;
use super::series::{Series, Workspace};
use super::times::Times;

/// Net execution and time under interrupts of jobs whose execution is in a series of its own.
#[derive(Debug, Default)]
pub(super) struct Interruptions(Option<Box<Kept>>);

#[derive(Debug)]
struct Kept {
    net: Series,
    interrupted: Series,
}

impl Interruptions {
    /// Takes jobs, before `execution` has theirs.
    #[inline]
    pub(super) fn take(&mut self, jobs: &[Times], execution: &Series) {
        if self.0.is_none() && jobs.iter().all(|job| job.interrupted == Nanos::ZERO) {
            return;
        }
        let kept = self.0.get_or_insert_with(|| Box::new(Kept::after(execution)));
        kept.net.record_all(jobs.iter().map(Times::net));
        kept.interrupted.record_all(jobs.iter().map(|job| job.interrupted));
    }

    /// Spreads of both, the one of all execution being known.
    pub(super) fn spreads(
        &self,
        execution: Option<Spread>,
        workspace: &mut Workspace,
    ) -> (Option<Spread>, Option<Spread>) {
        match &self.0 {
            Some(kept) => (Spread::of(&kept.net, workspace), Spread::of(&kept.interrupted, workspace)),
            None => (execution, execution.map(|spread| Spread::of_zeros(spread.count))),
        }
    }
}

impl Kept {
    /// After jobs of this execution, none of which was interrupted.
    #[cold]
    fn after(execution: &Series) -> Kept {
        let mut interrupted = Series::default();
        interrupted.record_zeros(execution.count());
        Kept { net: execution.clone(), interrupted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(execution: i64, interrupted: i64) -> Times {
        let (zero, execution) = (Nanos::ZERO, Nanos::new(execution));
        Times {
            release: zero,
            response: execution,
            latency: zero,
            execution,
            interrupted: Nanos::new(interrupted),
        }
    }

    /// However many jobs come before the first interrupted one, and after it.
    #[test]
    fn series_kept_late_say_what_those_kept_from_the_beginning_say() {
        for before in [0, 1, 15, 16, 300, 2048, 5000] {
            for after in [0, 1, 17, 3000] {
                let jobs: Vec<Times> = (0..before)
                    .map(|k| job(1000 + k, 0))
                    .chain((0..after).map(|k| job(2000 + 3 * k, k % 5 * 100 + 7)))
                    .collect();
                let (mut execution, mut late) = (Series::default(), Interruptions::default());
                let (mut net, mut interrupted) = (Series::default(), Series::default());
                for batch in jobs.chunks(16) {
                    late.take(batch, &execution);
                    execution.record_all(batch.iter().map(|job| job.execution));
                    net.record_all(batch.iter().map(Times::net));
                    interrupted.record_all(batch.iter().map(|job| job.interrupted));
                }
                let workspace = &mut Workspace::default();
                let all = Spread::of(&execution, workspace);
                let expected = (Spread::of(&net, workspace), Spread::of(&interrupted, workspace));
                assert_eq!(late.spreads(all, workspace), expected, "{before} and {after} jobs");
                assert_eq!(late.0.is_some(), after > 0);
            }
        }
    }
}
