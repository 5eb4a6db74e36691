//! [`Account`]: the activations of one activity added up into its record. The one place where planned, late, missed and lost
//! activations are counted and held against limits, whichever section the activity is of and whichever world saw it.

use std::borrow::Cow;

use surety_stats::Failures;
use surety_stats::bounds::Ranked;
use surety_units::Nanos;

use super::{ActivityRecord, Basis, Distribution, Evidence, JobOutcome, Observed, Promised, Share};
use crate::metric::Counts;
use crate::promise::{Bound, Comparison, Metric, Promise};
use crate::workload::{Activity, ActivityKind, Load, Task};

/// A result of the whole run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Total {
    /// Requests a second, which have no size.
    Requests(f64),
    /// Bytes a second.
    Bytes(f64),
    /// Mean time of a whole round, in ns.
    Completion(f64),
    /// What was sent and did not arrive.
    Lost(u64),
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
    totals: Vec<Total>,
    /// Why there are no times, where activations were only counted.
    unstamped: Option<&'static str>,
    /// What has none of the other results, in a sentence.
    noun: Cow<'static, str>,
    /// Whether rounds are wholes that may be completed.
    is_completed: bool,
}

impl Account {
    /// An empty account. An activation misses when it is not done within `deadline` of its release; without one, when it is
    /// given up or lost.
    pub fn new(activity: Activity<'_>, deadline: Option<Nanos>, basis: Basis) -> Account {
        let record = ActivityRecord { deadline, ..ActivityRecord::new(activity.name, activity.kind, basis) };
        Account {
            promises: activity.promises.iter().map(|promise| (*promise, Failures::new())).collect(),
            noun: Cow::Borrowed(record.kind.row().noun),
            record,
            response: Observed::default(),
            latency: Observed::default(),
            execution: Observed::default(),
            totals: Vec::new(),
            unstamped: None,
            is_completed: false,
        }
    }

    /// An empty account for a task.
    pub fn of_task(task: &Task, basis: Basis) -> Account {
        let activity = Activity { kind: ActivityKind::Task, name: &task.name, promises: &task.promises };
        Account::new(activity, task.relative_deadline(), basis)
    }

    /// An empty account for a load, whose activations are its threads.
    pub fn of_load(load: &Load, basis: Basis) -> Account {
        let activity = Activity { kind: ActivityKind::Load, name: &load.name, promises: &load.promises };
        let noun = format!("a load of kind `{}`", load.kind.word()).into();
        Account { noun, is_completed: load.kind.row().is_completed, ..Account::new(activity, None, basis) }
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
                    Metric::Response | Metric::Startup => Some(Seen::Exactly(response)),
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

    /// Takes activations of which only the numbers are known, not their times, nor their order; `why` there are no
    /// times, where an activity of this kind may have some.
    pub fn add_counted(&mut self, completed: u64, lost: u64, why: Option<&'static str>) {
        self.record.activations += completed + lost;
        self.record.completed += completed;
        self.record.skipped += lost;
        self.record.missed += lost;
        self.unstamped = why;
    }

    /// Takes a result of the whole run.
    pub fn add_total(&mut self, total: Total) {
        self.totals.push(total);
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
        self.record.promised = promises
            .into_iter()
            .map(|(promise, outside)| Promised { promise, evidence: self.evidence(&promise, outside) })
            .collect();
        let distribution = |o: Observed| (o.count() > 0).then(|| Distribution::from(o));
        self.record.response = distribution(self.response);
        self.record.latency = distribution(self.latency);
        self.record.execution = distribution(self.execution);
        self.record
    }

    fn evidence(&self, promise: &Promise, outside: Failures) -> Evidence {
        let record = &self.record;
        let unseen = |because: &str| Evidence::NotObservable { because: because.to_owned() };
        let value = |value| Evidence::Value { value, of_demand: None };
        let total = |of: fn(&Total) -> Option<f64>| self.totals.iter().find_map(of);
        let of_completion =
            |total: &Total| if let Total::Completion(time) = total { Some(*time) } else { None };
        let of_lost = |total: &Total| if let Total::Lost(count) = total { Some(*count as f64) } else { None };
        let here = if self.unstamped.is_some() { " here" } else { "" };
        let counts = Counts {
            kind: record.kind,
            planned: record.activations,
            completed: record.completed,
            skipped: record.skipped,
            missed: record.missed,
            is_stamped: self.unstamped.is_none(),
        };
        let none = || unseen(&format!("{} has no such result{here}", self.noun));
        match (promise.metric, promise.bound) {
            (metric, _) if !metric.is_of(record.kind) => none(),
            (Metric::Response | Metric::Latency, _) if let Some(why) = self.unstamped => unseen(why),
            (Metric::Response | Metric::Latency | Metric::Startup, Bound::Time(_)) => {
                match promise.comparison {
                    Comparison::Equal => unseen("a time is never exactly equal to another"),
                    _ => Evidence::Counted(outside),
                }
            }
            (_, Bound::TimesIdle(_)) => unseen("there was no run on the idle machine to compare with"),
            (Metric::Share, _) => match &record.share {
                Some(share) => Evidence::Value { value: share.fraction(), of_demand: share.of_demand() },
                None => unseen("no CPU time or activation was seen"),
            },
            (metric, _) if let Some(count) = (metric.row().count)(counts) => value(count as f64),
            (Metric::Lost, _) => total(of_lost).map_or_else(none, value),
            (Metric::Completion, _) => match total(of_completion) {
                None if self.is_completed => unseen("none was completed in the run"),
                found => found.map_or_else(none, value),
            },
            (Metric::Rate, bound) => {
                self.rate(bound).map_or_else(none, |rate| rate.map_or_else(unseen, value))
            }
            _ => none(),
        }
    }

    /// The rate in the unit of a bound; the error says that it has the other one. `None`: it has no rate.
    fn rate(&self, bound: Bound) -> Option<Result<f64, &'static str>> {
        let is_of_requests = matches!(bound, Bound::Frequency(_));
        let mut other = None;
        for total in &self.totals {
            match *total {
                Total::Requests(rate) if is_of_requests => return Some(Ok(rate)),
                Total::Bytes(rate) if !is_of_requests => return Some(Ok(rate)),
                Total::Requests(_) => {
                    other = Some("a request has no size; promise requests per second: `rate >= 1000/s`");
                }
                Total::Bytes(_) => {
                    other = Some("its rate is in bytes; promise bytes per second: `rate >= 1MB/s`")
                }
                Total::Completion(_) | Total::Lost(_) => {}
            }
        }
        other.map(Err)
    }
}

/// What an activation shows of a time.
enum Seen {
    Exactly(Nanos),
    AtLeast(Nanos),
}

fn per_job(metric: Metric) -> bool {
    matches!(metric, Metric::Response | Metric::Latency | Metric::Startup)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::TimeDistribution;
    use crate::workload::{Arrivals, Irq};
    use crate::workload::{Load, LoadKind};

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
        assert_eq!(record.promised[0].evidence, Evidence::Counted(outside));
        let response = record.response.unwrap();
        let seen = response.observed().unwrap();
        assert_eq!((seen.histogram.count(), seen.never, seen.open, seen.count()), (2, 1, 2, 5));
        assert_eq!(record.misses, [false, true, true, false, true].into_iter().collect());
    }

    /// A rate in one unit says nothing about a promise in the other.
    #[test]
    fn results_of_a_run_are_held_against_promises_in_their_unit_only() {
        let mut load = Load::new("l", LoadKind::FileCopy, 2);
        let texts = ["rate >= 10/s", "rate >= 10B/s", "completion <= 3s", "lost == 0", "late == 0"];
        load.promises = texts.iter().map(|text| Promise::parse(text).unwrap()).collect();
        let judged = |totals: &[Total]| {
            let mut account = Account::of_load(&load, Basis::Sample);
            totals.iter().for_each(|total| account.add_total(*total));
            let record = account.finish(None);
            let word = |evidence: &Evidence| match evidence {
                Evidence::Value { value, .. } => value.to_string(),
                Evidence::NotObservable { because } => because.split(';').next().unwrap().to_owned(),
                other => format!("{other:?}"),
            };
            record.evidence().into_iter().map(word).collect::<Vec<_>>()
        };
        let none = "a load of kind `file-copy` has no such result";
        let open = "none was completed in the run";
        assert_eq!(judged(&[Total::Bytes(50.0)]), ["its rate is in bytes", "50", open, none, none]);
        assert_eq!(judged(&[Total::Requests(9.0)])[..2], ["9", "a request has no size"]);
        let both = [Total::Bytes(50.0), Total::Requests(9.0), Total::Completion(2e9), Total::Lost(4)];
        assert_eq!(judged(&both), ["9", "50", "2000000000", "4", none]);
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
        account.add_counted(97, 3, Some("nothing stamps them"));
        account.add_total(Total::Requests(97.0));
        let record = account.finish(None);
        assert_eq!((record.activations, record.completed, record.skipped, record.missed), (100, 97, 3, 3));
        assert_eq!(record.misses.trials(), 0);
        let value = |value| Evidence::Value { value, of_demand: None };
        let not = |because: &str| Evidence::NotObservable { because: because.to_owned() };
        let expected = [
            value(3.0),
            value(3.0),
            not("nothing stamps them"),
            not("an interrupt source has no such result here"),
            value(97.0),
            not("no CPU time or activation was seen"),
        ];
        assert_eq!(record.evidence(), expected.iter().collect::<Vec<_>>());
    }
}
