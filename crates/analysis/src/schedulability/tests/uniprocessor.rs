//! EDF on one CPU: published sets, exhaustive deadlines, and simulated schedules.

use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::generate::Deadlines;
use super::twin::{self, HYPERPERIOD, Job, Rule, draw, in_time, play, task};
use crate::schedulability::uniprocessor::{density, processor_demand, utilisation};
use crate::schedulability::{Outcome, SporadicTask};

#[test]
fn published_sets_are_judged_as_published() {
    for (source, tasks, outcome) in [
        ("Liu and Layland 1973: full utilisation holds", vec![task(2, 4, 4), task(3, 6, 6)], Outcome::Holds),
        // Buttazzo, Hard Real-Time Computing Systems, processor demand: (2, 4, 6), (2, 5, 8), (3, 7, 9).
        (
            "Buttazzo, processor demand example",
            vec![task(2, 4, 6), task(2, 5, 8), task(3, 7, 9)],
            Outcome::Holds,
        ),
        ("by hand: both due at 2", vec![task(1, 2, 4), task(2, 2, 8)], Outcome::Fails),
        ("more than the whole", vec![task(3, 5, 5), task(3, 7, 7)], Outcome::Fails),
        ("jitter up to the deadline", vec![jittered(1, 4, 4, 4)], Outcome::Fails),
        ("jitter that leaves the work", vec![jittered(1, 4, 4, 3)], Outcome::Holds),
    ] {
        let verdict = processor_demand(&tasks);
        assert_eq!(verdict.outcome, outcome, "{source}: {:?}", verdict.steps);
    }
    // Three thirds are one, exactly.
    let third = SporadicTask::implicit(Nanos::new(1_000_000_007), Nanos::new(3_000_000_021));
    assert_eq!(utilisation(&[third; 3]).outcome, Outcome::Holds);
    assert_eq!(processor_demand(&[third; 3]).outcome, Outcome::Holds);
    let more = SporadicTask { work: third.work + Nanos::new(1), ..third };
    assert_eq!(utilisation(&[third, third, more]).outcome, Outcome::Fails);
    assert_eq!(processor_demand(&[third, third, more]).outcome, Outcome::Fails);
    assert_eq!(utilisation(&[task(1, 2, 4)]).outcome, Outcome::NotApplicable);
}

fn jittered(c: i64, d: i64, t: i64, j: i64) -> SporadicTask {
    SporadicTask { jitter: Nanos::new(j), ..task(c, d, t) }
}

#[test]
fn processor_demand_agrees_with_every_deadline_and_with_the_played_schedule() {
    let mut random = Pcg::for_job(9, 11, 0);
    let (mut held, mut failed) = (0, 0);
    for round in 0..5_000 {
        let count = 1 + random.below(5) as usize;
        let deadlines =
            [Deadlines::Implicit, Deadlines::Constrained, Deadlines::Arbitrary][random.below(3) as usize];
        let total = (0.4 + 0.65 * random.unit_open()).min(count as f64);
        let mut tasks = draw(count, total, deadlines, &mut random);
        if round % 2 == 1 {
            tasks.iter_mut().for_each(|t| {
                t.jitter = Nanos::new(random.below(2) as i64 * random.below(6) as i64);
            });
        }
        let verdict = processor_demand(&tasks);
        // Above full utilisation the first miss can be late; its demand grows by at least one in a hyperperiod.
        let end = 8 * HYPERPERIOD;
        let jobs: Vec<Job> = (0..count).flat_map(|i| twin::densest(i, &tasks[i], end)).collect();
        let demand = |t: i64| jobs.iter().filter(|j| j.due <= t).map(|j| j.work).sum::<i64>();
        let by_deadlines = (0..=end - HYPERPERIOD).all(|t| demand(t) <= t);
        let simulated = in_time(&tasks, &play(&jobs, count, 1, Rule::Edf, true, end));
        match verdict.outcome {
            Outcome::Holds => {
                assert!(by_deadlines && simulated, "{round}: {tasks:?}");
                held += 1;
            }
            Outcome::Fails => {
                let slowly = verdict.steps.last().is_some_and(|s| s.contains("whole"));
                assert!(slowly || (!by_deadlines && !simulated), "{round}: {tasks:?} {:?}", verdict.steps);
                failed += 1;
            }
            other => panic!("{round}: {other:?} {:?}", verdict.steps),
        }
        for sufficient in [density(&tasks), utilisation(&tasks)] {
            assert!(!sufficient.holds() || verdict.holds(), "{tasks:?} {sufficient:?}");
        }
        if let Outcome::Fails = utilisation(&tasks).outcome {
            assert_eq!(verdict.outcome, Outcome::Fails, "{tasks:?}");
        }
    }
    assert!(held > 1_500 && failed > 1_500, "{held} {failed}");
}

#[test]
fn blocking_by_a_later_deadline_is_covered() {
    // A non-preemptible section of the task with the longest deadline blocks the others by its length less one unit:
    // simulated with the section begun one unit before everything else.
    let mut random = Pcg::for_job(9, 12, 0);
    let (mut held, mut refused) = (0, 0);
    for _ in 0..2_000 {
        let count = 2 + random.below(3) as usize;
        let mut tasks = draw(count, 0.2 + 0.7 * random.unit_open(), Deadlines::Constrained, &mut random);
        tasks.sort_by_key(|t| t.deadline);
        let last = count - 1;
        let section = tasks[last].work.get();
        if tasks[..last].iter().any(|t| t.deadline == tasks[last].deadline) {
            continue;
        }
        tasks[..last].iter_mut().for_each(|t| t.blocking = Nanos::new(section - 1));
        let verdict = processor_demand(&tasks);
        if !verdict.holds() {
            refused += 1;
            continue;
        }
        held += 1;
        let end = 4 * HYPERPERIOD;
        let mut jobs: Vec<Job> = (0..last).flat_map(|i| twin::densest(i, &tasks[i], end)).collect();
        // Begun at -1, then in nobody's power: as if it were due at once.
        jobs.push(Job { task: last, planned: -1, release: -1, work: section, due: -1 });
        let seen = play(&jobs, count, 1, Rule::Edf, true, end);
        assert!(in_time(&tasks[..last], &seen[..last]), "{tasks:?} {seen:?}");
    }
    assert!(held > 300 && refused > 300, "{held} {refused}");
}
