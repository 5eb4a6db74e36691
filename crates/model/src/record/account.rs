//! [`Account`]: the activations of one activity added up into its record. The one place where planned, late, missed and lost
//! activations are counted and held against limits, whichever section the activity is of and whichever world saw it.

use surety_stats::Failures;
use surety_stats::bounds::Ranked;
use surety_units::Nanos;

use super::{ActivityRecord, Basis, Distribution, Evidence, JobOutcome, Observed, Share};
use crate::promise::{Bound, Comparison, Metric, Promise};
use crate::workload::{Activity, ActivityKind, Task};

/// What went through an activity in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Throughput {
    /// Requests, which have no size.
    Requests(f64),
    /// Bytes.
    Bytes(f64),
}

/// Adds up the activations of one activity.
#[derive(Clone, Debug)]
pub struct Account {
    record: ActivityRecord,
    /// Each promise with the activations outside of its limit of time.
    promises: Vec<(Promise, Failures)>,
    response: Observed,
    latency: Observed,
    execution: Observed,
    throughput: Option<Throughput>,
    /// Why there are no times, where activations were only counted.
    unstamped: Option<&'static str>,
}

impl Account {
    /// An empty account. An activation misses when it is not done within `deadline` of its release; without one, when it is
    /// given up or lost.
    pub fn new(activity: Activity<'_>, deadline: Option<Nanos>, basis: Basis) -> Account {
        let mut record = ActivityRecord::new(activity.name, activity.kind, basis);
        record.deadline = deadline;
        Account {
            record,
            promises: activity.promises.iter().map(|promise| (*promise, Failures::new())).collect(),
            response: Observed::default(),
            latency: Observed::default(),
            execution: Observed::default(),
            throughput: None,
            unstamped: None,
        }
    }

    /// An empty account for a task.
    pub fn of_task(task: &Task, basis: Basis) -> Account {
        let activity = Activity { kind: ActivityKind::Task, name: &task.name, promises: &task.promises };
        Account::new(activity, task.relative_deadline(), basis)
    }

    /// Takes one activation.
    pub fn add(&mut self, outcome: JobOutcome) {
        let record = &mut self.record;
        record.activations += 1;
        let missed;
        match outcome {
            JobOutcome::Completed { release, start, completion, execution } => {
                record.completed += 1;
                let (response, latency) = (completion - release, start - release);
                self.response.record(response);
                self.latency.record(latency);
                self.execution.record(execution);
                missed = record.deadline.is_some_and(|d| response > d);
                self.count(|metric| match metric {
                    Metric::Response => Some(Seen::Exactly(response)),
                    Metric::Latency => Some(Seen::Exactly(latency)),
                    _ => None,
                });
            }
            JobOutcome::Skipped { .. } => {
                record.skipped += 1;
                missed = true;
                self.response.record_never();
                self.latency.record_never();
                // A skipped activation never responded: it is outside every limit.
                self.count(|metric| per_job(metric).then_some(Seen::Exactly(Nanos::MAX)));
            }
            JobOutcome::Unfinished { release, until } => {
                record.unfinished += 1;
                let open = until - release;
                missed = record.deadline.is_some_and(|d| open > d);
                self.response.record_open();
                self.latency.record_open();
                self.count(|metric| per_job(metric).then_some(Seen::AtLeast(open)));
            }
        }
        self.record.missed += u64::from(missed);
        self.record.misses.record(missed);
    }

    /// Takes the activations of several threads in the order of their release: what makes jobs of all of them late is one burst.
    pub fn add_all(&mut self, outcomes: impl IntoIterator<Item = JobOutcome>) {
        let mut outcomes: Vec<JobOutcome> = outcomes.into_iter().collect();
        outcomes.sort_by_key(JobOutcome::release);
        outcomes.into_iter().for_each(|outcome| self.add(outcome));
    }

    /// Takes activations of which only the numbers are known, not their times, nor their order; `why` there are no times.
    pub fn add_counted(&mut self, completed: u64, lost: u64, why: &'static str) {
        self.record.activations += completed + lost;
        self.record.completed += completed;
        self.record.skipped += lost;
        self.record.missed += lost;
        self.unstamped = Some(why);
    }

    /// Says what went through it in a second.
    pub fn passed(&mut self, throughput: Throughput) {
        self.throughput = Some(throughput);
    }

    fn count(&mut self, seen: impl Fn(Metric) -> Option<Seen>) {
        for (promise, outside) in &mut self.promises {
            let Bound::Time(limit) = promise.bound else { continue };
            match seen(promise.metric) {
                Some(Seen::Exactly(value)) => outside.record(!promise.comparison.holds(&value, &limit)),
                // Open longer than the limit: certainly outside. Open for less: nobody knows, so not counted.
                Some(Seen::AtLeast(value)) if value > limit => outside.record(true),
                _ => {}
            }
        }
    }

    /// The record of all activations taken so far, with the CPU time its threads received.
    pub fn finish(mut self, share: Option<Share>) -> ActivityRecord {
        let promises = std::mem::take(&mut self.promises);
        self.record.share = share;
        self.record.evidence =
            promises.into_iter().map(|(promise, outside)| self.evidence(&promise, outside)).collect();
        let distribution = |o: Observed| (o.count() > 0).then(|| Distribution::Observed(Box::new(o)));
        self.record.response = distribution(self.response);
        self.record.latency = distribution(self.latency);
        self.record.execution = distribution(self.execution);
        self.record
    }

    fn evidence(&self, promise: &Promise, outside: Failures) -> Evidence {
        let record = &self.record;
        let unseen = |because: &str| Evidence::NotObservable { because: because.to_owned() };
        let value = |value| Evidence::Value { value, of_demand: None };
        match (promise.metric, promise.bound, self.throughput) {
            (Metric::Response | Metric::Latency, ..) if let Some(why) = self.unstamped => unseen(why),
            (Metric::Response | Metric::Latency, Bound::Time(_), _) => match promise.comparison {
                Comparison::Equal => unseen("a time is never exactly equal to another"),
                _ => Evidence::Counted(outside),
            },
            (_, Bound::TimesIdle(_), _) => unseen("there was no run on the idle machine to compare with"),
            (Metric::Share, ..) => match &record.share {
                Some(share) => Evidence::Value { value: share.fraction(), of_demand: share.of_demand() },
                None => unseen("no CPU time or activation was seen"),
            },
            (Metric::Missed, ..) => value(record.missed as f64),
            (Metric::Late, ..) if self.unstamped.is_none() => value(record.missed as f64),
            (Metric::Dropped, ..) if self.unstamped.is_none() => value(record.skipped as f64),
            (Metric::Lost, ..) if record.kind == ActivityKind::Irq => value(record.skipped as f64),
            (Metric::Rate, Bound::Frequency(_), Some(Throughput::Requests(rate))) => value(rate),
            (Metric::Rate, _, Some(Throughput::Bytes(rate))) => value(rate),
            (Metric::Rate, _, Some(Throughput::Requests(_))) => {
                unseen("a request has no size; promise requests per second: `rate >= 1000/s`")
            }
            _ => {
                let here = if self.unstamped.is_some() { " here" } else { "" };
                unseen(&format!("{} has no such result{here}", record.kind.noun()))
            }
        }
    }
}

/// What an activation shows of a time.
enum Seen {
    Exactly(Nanos),
    AtLeast(Nanos),
}

fn per_job(metric: Metric) -> bool {
    matches!(metric, Metric::Response | Metric::Latency)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::TimeDistribution;
    use crate::workload::{Arrivals, Irq};

    #[test]
    fn late_skipped_and_open_jobs_are_misses_and_unknown_ones_are_not_counted() {
        let ms = Nanos::from_millis;
        let mut task = Task::periodic("t", ms(40), TimeDistribution::Constant(ms(10)));
        task.promises = vec![Promise::parse("response <= 40ms @ 99%").unwrap()];
        let mut account = Account::of_task(&task, Basis::Sample);
        let done = |release, completion| JobOutcome::Completed {
            release: ms(release),
            start: ms(release),
            completion: ms(completion),
            execution: ms(10),
        };
        account.add(done(0, 40));
        account.add(done(40, 81));
        account.add(JobOutcome::Skipped { release: ms(80) });
        account.add(JobOutcome::Unfinished { release: ms(120), until: ms(130) });
        account.add(JobOutcome::Unfinished { release: ms(120), until: ms(190) });
        let record = account.finish(None);
        assert_eq!((record.activations, record.completed, record.skipped, record.unfinished), (5, 2, 1, 2));
        assert_eq!(record.missed, 3);
        let outside: Failures = [false, true, true, true].into_iter().collect();
        assert_eq!(record.evidence, [Evidence::Counted(outside)]);
        let response = record.response.unwrap();
        let seen = response.observed().unwrap();
        assert_eq!((seen.histogram.count(), seen.never, seen.open, seen.count()), (2, 1, 2, 5));
        assert_eq!(record.misses, [false, true, true, false, true].into_iter().collect());
    }

    #[test]
    fn activations_that_are_only_counted_are_lost_and_missed_by_the_same_rule() {
        let work = TimeDistribution::Constant(Nanos::MILLISECOND);
        let mut irq = Irq::new("net", Arrivals::Periodic { period: Nanos::MILLISECOND }, work);
        let texts =
            ["lost == 0", "missed == 0", "response <= 5ms", "dropped == 0", "rate >= 1/s", "share >= 1%"];
        irq.promises = texts.iter().map(|text| Promise::parse(text).unwrap()).collect();
        let activity = Activity { kind: ActivityKind::Irq, name: &irq.name, promises: &irq.promises };
        let mut account = Account::new(activity, None, Basis::Sample);
        account.add_counted(97, 3, "nothing stamps them");
        account.passed(Throughput::Requests(97.0));
        let record = account.finish(None);
        assert_eq!((record.activations, record.completed, record.skipped, record.missed), (100, 97, 3, 3));
        assert_eq!(record.misses.trials(), 0);
        let value = |value| Evidence::Value { value, of_demand: None };
        let not = |because: &str| Evidence::NotObservable { because: because.to_owned() };
        assert_eq!(
            record.evidence,
            [
                value(3.0),
                value(3.0),
                not("nothing stamps them"),
                not("an interrupt source has no such result here"),
                value(97.0),
                not("no CPU time or activation was seen"),
            ]
        );
    }
}
