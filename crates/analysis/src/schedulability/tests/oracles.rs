//! Against two implementations by others: the crate `response-time-analysis`, and pyRTA by stored answers (`pyrta.py`).
//!
//! Both count a response from the release; here it counts from the planned release, up to one jitter earlier. So a task
//! with jitter of its own is held between the two, and all others, jitter above them or not, to the digit.

use response_time_analysis::arrival::Sporadic;
use response_time_analysis::demand::RBF;
use response_time_analysis::fixed_priority::fully_preemptive;
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::{edf, wcet};
use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::generate::Deadlines;
use super::twin::{self, task};
use crate::schedulability::SporadicTask;
use crate::schedulability::fixed::response_times;
use crate::schedulability::task::LONGEST;
use crate::schedulability::uniprocessor::processor_demand;

const PYRTA: &str = include_str!("pyrta.txt");

/// Holds a response from the planned release against another's from the release.
fn agrees(own: Option<i64>, other: i64, task: &SporadicTask) -> bool {
    own.is_some_and(|own| (other..=other + task.jitter.get()).contains(&own))
}

/// Responses of all levels whatever their deadlines, from the planned release; fewer where a level is busy for ever.
fn responses(tasks: &[SporadicTask]) -> Vec<i64> {
    let endless: Vec<SporadicTask> =
        tasks.iter().map(|task| SporadicTask { deadline: LONGEST, ..*task }).collect();
    response_times(&endless).responses.iter().map(|response| response.get()).collect()
}

#[test]
fn responses_and_verdicts_are_those_of_pyrta() {
    let (mut compared, mut kept) = (0, 0);
    for line in PYRTA.lines().filter(|line| !line.starts_with('#')) {
        let (question, answer) = line.split_once(" = ").expect("a question and its answer");
        let mut words = question.split_whitespace();
        let kind = words.next().expect("a scheduler");
        let tasks: Vec<SporadicTask> = words
            .map(|word| {
                let n: Vec<i64> = word.split('/').map(|n| n.parse().expect("a number")).collect();
                SporadicTask { jitter: Nanos::new(n[3]), ..task(n[0], n[1], n[2]) }
            })
            .collect();
        let answers: Vec<Option<i64>> = answer.split_whitespace().map(|word| word.parse().ok()).collect();
        assert_eq!(tasks.len(), answers.len(), "{line}");
        if kind == "edf" {
            // The whole set is in time where each response is.
            let known: Option<Vec<i64>> = answers.iter().copied().collect();
            let in_time =
                known.map(|r| r.iter().zip(&tasks).all(|(response, task)| *response <= task.deadline.get()));
            if let Some(in_time) = in_time {
                assert_eq!(processor_demand(&tasks).holds(), in_time, "{line}");
                compared += 1;
                kept += usize::from(in_time);
            }
            continue;
        }
        let own = responses(&tasks);
        for (level, known) in answers.into_iter().enumerate() {
            let Some(known) = known else { break };
            let own = own.get(level).copied();
            assert!(agrees(own, known, &tasks[level]), "{line}: level {level}: {own:?}");
            compared += 1;
        }
    }
    assert!(compared > 1_500 && (100..300).contains(&kept), "{compared} {kept}");
}

#[test]
fn responses_and_verdicts_are_those_of_the_other_crate() {
    let mut random = Pcg::for_job(9, 60, 0);
    let limit = Duration::from(5_000u64);
    let span = |time: Nanos| Duration::from(time.get_unsigned());
    let (mut compared, mut kept) = (0, 0);
    for round in 0..1_000 {
        let count = 1 + random.below(5) as usize;
        let total = (0.3 + 0.65 * random.unit_open()).min(count as f64);
        let mut tasks = twin::draw(count, total, Deadlines::Arbitrary, &mut random);
        // The bound that others give counts from the release: what jitter there is must not reach into that.
        if round % 2 == 0 {
            tasks.iter_mut().for_each(|t| t.jitter = Nanos::new(random.below(5) as i64));
        }
        let arrivals: Vec<Sporadic> =
            tasks.iter().map(|t| Sporadic::new(span(t.period), span(t.jitter))).collect();
        let cost = |t: &SporadicTask| wcet::Scalar::new(Service::from(t.work.get_unsigned()));
        let demands: Vec<RBF<_, _>> =
            tasks.iter().zip(&arrivals).map(|(t, arrivals)| RBF::new(arrivals, cost(t))).collect();
        let preemptive = responses(&tasks);
        for level in 0..count {
            let task = &tasks[level];
            let above = &demands[..level];
            let found = fully_preemptive::dedicated_uniproc_rta(&demands[level], above, limit);
            if let Ok(found) = found {
                let found = i64::try_from(u64::from(found)).expect("small");
                let own = preemptive.get(level).copied();
                assert!(agrees(own, found, task), "{tasks:?} level {level}: {own:?}, {found}");
                compared += 1;
            }
        }
        if round % 2 == 1 {
            let under = |level: usize| edf::fully_preemptive::TaskUnderAnalysis {
                rbf: &demands[level],
                deadline: span(tasks[level].deadline),
            };
            let bound = |level: usize| {
                let others: Vec<_> = (0..count).filter(|other| *other != level).map(under).collect();
                edf::fully_preemptive::dedicated_uniproc_rta(&under(level), &others, limit)
            };
            let bounds: Result<Vec<Duration>, _> = (0..count).map(bound).collect();
            if let Ok(bounds) = bounds {
                let in_time = bounds.iter().zip(&tasks).all(|(bound, task)| *bound <= span(task.deadline));
                assert_eq!(processor_demand(&tasks).holds(), in_time, "{tasks:?}: {bounds:?}");
                compared += 1;
                kept += usize::from(in_time);
            }
        }
    }
    assert!(compared > 3_000 && (100..450).contains(&kept), "{compared} {kept}");
}
