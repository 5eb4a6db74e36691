//! [`RequestAccount`]: the requests of an interrupt source added up into its record.
//!
//! A request is an activation: it is released by its interrupt and completed when the thread has handled it. One that
//! the device had no room for counts as skipped and as missed, and is outside every limit of time. So
//! `activations = completed + skipped + unfinished` holds for interrupts as it does for tasks.

use surety_units::Nanos;

use super::{Account, ActivityRecord, Basis, Figure, JobOutcome, Share, Total};
use crate::promise::Promise;
use crate::workload::{Activity, ActivityKind, Irq};

/// Adds up the requests of one interrupt source.
#[derive(Clone, Debug)]
pub struct RequestAccount {
    jobs: Account,
    handled: u64,
}

impl RequestAccount {
    /// An empty account for an interrupt source. Its deadline is the shortest limit promised for its response.
    pub fn new(irq: &Irq, basis: Basis) -> RequestAccount {
        let deadline = irq.promises.iter().filter_map(Promise::response_limit).min();
        let activity = Activity { kind: ActivityKind::Irq, name: &irq.name, promises: &irq.promises };
        let jobs = Account::new(activity, deadline, basis);
        RequestAccount { jobs, handled: 0 }
    }

    /// Takes one request that arrived in `[from, to)`; one that was lost is [`JobOutcome::Skipped`]. Whenever it
    /// arrived, it counts for the rate when it was handled after `from` and not after `to`.
    pub fn add(&mut self, outcome: JobOutcome, from: Nanos, to: Nanos) {
        if let JobOutcome::Completed { completion, .. } = outcome {
            self.handled += u64::from(completion > from && completion <= to);
        }
        let release = outcome.release();
        if release >= from && release < to {
            self.jobs.add(outcome);
        }
    }

    /// The record of all requests taken, with the CPU time of the thread and the most requests that were in the
    /// device at a time.
    pub fn finish(mut self, share: Share, longest_queue: u64) -> ActivityRecord {
        let span = share.span.as_secs_f64();
        let rate = if span > 0.0 { self.handled as f64 / span } else { 0.0 };
        self.jobs.add_total(Total::Requests(rate));
        let mut record = self.jobs.finish(Some(share));
        record.figures = vec![
            Figure::new("rate", rate, "/s"),
            Figure::new("lost", record.skipped as f64, ""),
            Figure::new("longest queue", longest_queue as f64, ""),
        ];
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::TimeDistribution;
    use crate::record::Evidence;
    use crate::workload::Arrivals;

    #[test]
    fn lost_requests_are_activations_outside_every_limit() {
        let ms = Nanos::from_millis;
        let work = TimeDistribution::Constant(ms(1));
        let mut irq = Irq::new("net", Arrivals::Periodic { period: ms(10) }, work);
        let texts = ["lost == 0", "response <= 5ms @ 50%", "rate >= 10/s", "rate >= 1MB/s", "startup <= 1s"];
        irq.promises = texts.iter().map(|text| Promise::parse(text).unwrap()).collect();
        let mut account = RequestAccount::new(&irq, Basis::Sample);
        let done = |release, completion| JobOutcome::Completed {
            release: ms(release),
            start: ms(release),
            completion: ms(completion),
            execution: ms(1),
        };
        let outcomes = [
            done(90, 101), // arrived before, handled in time for the rate
            done(90, 100), // neither
            done(100, 104),
            done(110, 118),
            JobOutcome::Skipped { release: ms(120) },
            JobOutcome::Skipped { release: ms(200) }, // after the end
            JobOutcome::Unfinished { release: ms(190), until: ms(200) },
        ];
        outcomes.into_iter().for_each(|outcome| account.add(outcome, ms(100), ms(200)));
        let share = Share { threads: vec![(ms(3), None)], span: ms(100) };
        let record = account.finish(share, 7);
        assert_eq!((record.activations, record.completed, record.skipped, record.unfinished), (4, 2, 1, 1));
        // One came late, one was lost, one is open beyond the limit.
        assert_eq!(record.missed, 3);
        let value = |value| Evidence::Value { value, of_demand: None };
        let evidence = record.evidence();
        let outside = Evidence::Counted([false, true, true, true].into_iter().collect());
        assert_eq!(evidence[..3], [&value(1.0), &outside, &value(30.0)]);
        for unseen in &evidence[3..] {
            assert!(matches!(unseen, Evidence::NotObservable { .. }), "{unseen:?}");
        }
        let figures: Vec<f64> = record.figures.iter().map(|f| f.value).collect();
        assert_eq!(figures, [30.0, 1.0, 7.0]);
    }
}
