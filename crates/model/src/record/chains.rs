//! [`chain_record`]: what became of the events of a chain, and at which stage their time went.
//!
//! An event is an activation: it is released when it comes, starts with the job of the first stage that takes it, and is complete at the end
//! of the job of the last one. Its execution is that of the jobs that handled it, each whole, whatever else they took.

use std::ops::Range;

use surety_units::Nanos;

use super::{Account, ActivityRecord, Basis, Distribution, Figure, JobOutcome, Observed};
use crate::workload::{Activity, ActivityKind, Chain};

/// A completed job of a stage, and which events of one chain it handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// By their numbers from 0; never empty.
    pub events: Range<u64>,
    /// Begin of the job, which is when they were taken.
    pub start: Nanos,
    /// Its end, which is when they were handed on.
    pub completion: Nanos,
    /// CPU time of the job.
    pub execution: Nanos,
}

/// Parts of a response at one stage; their sum over the stages is the response.
#[derive(Clone, Debug, Default)]
struct Parts([Observed; 3]);

/// Words of the parts: from the delivery to the begin of the job; CPU time of the job; the rest of it, in which it had no CPU or stood still in
/// a phase.
const PARTS: [&str; 3] = ["wait", "run", "held up"];

/// The name of a part's series: place of the stage from 1, its task, the part.
fn series_name(place: usize, task: &str, part: &str) -> String {
    format!("{place} {task} {part}")
}

impl Parts {
    fn add(&mut self, delivered: Nanos, pass: &Pass) {
        let inside = pass.completion - pass.start;
        let run = pass.execution.min(inside);
        for (observed, part) in self.0.iter_mut().zip([pass.start - delivered, run, inside - run]) {
            observed.record(part);
        }
    }
}

/// Where the time of a chain's completed events went at one stage, on average, in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct StageTimes<'a> {
    pub task: &'a str,
    /// From the delivery to the begin of the job that takes it.
    pub wait: f64,
    /// CPU time of that job.
    pub run: f64,
    /// The rest of that job.
    pub held_up: f64,
}

impl StageTimes<'_> {
    /// All of it.
    pub fn all(&self) -> f64 {
        self.wait + self.run + self.held_up
    }
}

/// The stages of a chain's record in their order; none of another kind, and none where no event was completed.
pub fn stages_of(record: &ActivityRecord) -> Vec<StageTimes<'_>> {
    if record.kind != ActivityKind::Chain {
        return Vec::new();
    }
    let mut found: Vec<(usize, StageTimes<'_>)> = Vec::new();
    for name in record.series.keys() {
        let Some((place, task)) = name.strip_suffix(PARTS[0]).and_then(|of| of.trim_end().split_once(' '))
        else {
            continue;
        };
        let Ok(place) = place.parse() else { continue };
        let mean = |part| {
            let observed = record.series.get(&series_name(place, task, part))?.observed()?;
            observed.moments.mean()
        };
        if let [Some(wait), Some(run), Some(held_up)] = PARTS.map(mean) {
            found.push((place, StageTimes { task, wait, run, held_up }));
        }
    }
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, times)| times).collect()
}

/// The record of a chain.
///
/// `events` are the instants of all its events before the end of the run, `passes` the completed jobs of each stage in the order in which they
/// ran. Events in `[observe, end)` count. The series of a stage are [`StageTimes`].
pub fn chain_record(
    chain: &Chain,
    basis: Basis,
    (observe, end): (Nanos, Nanos),
    events: &[Nanos],
    passes: &[Vec<Pass>],
) -> ActivityRecord {
    let activity = Activity { kind: ActivityKind::Chain, name: &chain.name, promises: &chain.promises };
    let mut account = Account::new(activity, chain.deadline(), basis);
    let mut parts = vec![Parts::default(); passes.len()];
    let mut together = 0_u64;
    for (number, release) in (0_u64..).zip(events.iter().copied()) {
        if release < observe || release >= end {
            continue;
        }
        let Some(walked) = walk(number, passes, end) else {
            account.add(JobOutcome::Unfinished { release, until: end });
            continue;
        };
        let mut delivered = release;
        for (parts, pass) in parts.iter_mut().zip(&walked) {
            parts.add(delivered, pass);
            delivered = pass.completion;
        }
        together += u64::from(walked.iter().any(|pass| pass.events.end - pass.events.start > 1));
        account.add(JobOutcome::Completed {
            release,
            start: walked.first().map_or(release, |pass| pass.start),
            completion: delivered,
            execution: walked.iter().map(|pass| pass.execution).sum(),
        });
    }
    let mut record = account.finish(None);
    describe(chain, parts, together, &mut record);
    record
}

/// The job of each stage that handled an event; `None` where one did not by the end of the run.
fn walk(number: u64, passes: &[Vec<Pass>], end: Nanos) -> Option<Vec<&Pass>> {
    let of_stage = |stage: &Vec<Pass>| -> Option<usize> {
        let place = stage.partition_point(|pass| pass.events.end <= number);
        let pass = stage.get(place)?;
        (pass.events.contains(&number) && pass.completion <= end).then_some(place)
    };
    passes.iter().map(|stage| of_stage(stage).map(|place| &stage[place])).collect()
}

/// Where the time of completed events went, as series, and how many were taken together with others.
fn describe(chain: &Chain, parts: Vec<Parts>, together: u64, record: &mut ActivityRecord) {
    if record.completed == 0 {
        return;
    }
    for (place, (parts, task)) in (1..).zip(parts.into_iter().zip(&chain.through)) {
        for (part, observed) in PARTS.into_iter().zip(parts.0) {
            record.series.insert(series_name(place, task, part), Distribution::from(observed));
        }
    }
    record.figures.push(Figure::new("taken together", together as f64, ""));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::Promise;
    use crate::record::Evidence;
    use crate::workload::Arrivals;

    fn ms(time: i64) -> Nanos {
        Nanos::from_millis(time)
    }

    fn pass(events: Range<u64>, start: i64, completion: i64, execution: i64) -> Pass {
        Pass { events, start: ms(start), completion: ms(completion), execution: ms(execution) }
    }

    /// Five events every 10 ms: the first before observation, the second and third taken by one job of the second stage, the fourth handled
    /// there after the end, the fifth never taken.
    #[test]
    fn an_event_is_followed_from_stage_to_stage_and_its_time_is_shared_out() {
        let chain = Chain {
            name: "key".to_owned(),
            start: Arrivals::Periodic { period: ms(10) },
            through: vec!["ui".to_owned(), "present".to_owned()],
            promises: vec![Promise::parse("response <= 20ms @ 50%").unwrap()],
        };
        let events: Vec<Nanos> = (0..5).map(|k| ms(10 * k)).collect();
        let first =
            vec![pass(0..1, 0, 2, 2), pass(1..2, 11, 14, 2), pass(2..3, 22, 24, 2), pass(3..4, 30, 32, 2)];
        let second = vec![pass(0..1, 5, 6, 1), pass(1..3, 26, 29, 1), pass(3..4, 46, 51, 1)];
        let record = chain_record(&chain, Basis::Sample, (ms(5), ms(50)), &events, &[first, second]);
        let counts = (record.activations, record.completed, record.unfinished, record.missed);
        assert_eq!(counts, (4, 2, 2, 0), "20 ms at the end of the run are not beyond the limit");
        let response = record.response.as_ref().unwrap().observed().unwrap();
        assert_eq!((response.moments.min(), response.moments.max()), (Some(9e6), Some(19e6)));
        assert_eq!(record.promised[0].evidence, Evidence::Counted([false, false].into_iter().collect()));
        let largest = |name: &str| record.series[name].observed().unwrap().moments.max().unwrap();
        assert_eq!([largest("1 ui wait"), largest("1 ui run"), largest("1 ui held up")], [2e6, 2e6, 1e6]);
        assert_eq!([largest("2 present wait"), largest("2 present held up")], [12e6, 2e6]);
        let stages = stages_of(&record);
        assert_eq!(stages[0], StageTimes { task: "ui", wait: 1.5e6, run: 2e6, held_up: 0.5e6 });
        assert_eq!(stages[1], StageTimes { task: "present", wait: 7e6, run: 1e6, held_up: 2e6 });
        assert_eq!(stages[0].all() + stages[1].all(), 14e6);
        assert_eq!(record.figures, [Figure::new("taken together", 2.0, "")]);
    }

    #[test]
    fn an_event_that_no_stage_takes_is_open_and_late_when_its_limit_has_passed() {
        let chain = Chain {
            name: "key".to_owned(),
            start: Arrivals::Periodic { period: ms(10) },
            through: vec!["ui".to_owned()],
            promises: vec![Promise::parse("response <= 20ms @ 50%").unwrap()],
        };
        let record = chain_record(&chain, Basis::Sample, (ms(0), ms(25)), &[ms(0), ms(10)], &[Vec::new()]);
        assert_eq!((record.activations, record.unfinished, record.missed), (2, 2, 1));
        assert!(record.series.is_empty() && record.figures.is_empty());
    }
}
