//! Fixed priorities on one CPU: published sets, and every answer against simulated schedules.

use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::generate::Deadlines;
use super::orders::{self, deadline_monotonic, in_order, optimal, rate_monotonic};
use super::twin::{self, HYPERPERIOD, Job, Rule, draw, play, task};
use crate::schedulability::fixed::{hyperbolic, response_times};
use crate::schedulability::{Outcome, SporadicTask, Verdict};

fn responses(verdict: &Verdict) -> Vec<i64> {
    verdict.responses.iter().map(|r| r.get()).collect()
}

/// What was simulated of a level.
enum Played {
    Kept,
    Missed,
    /// The analysis finds no end of its busy window.
    Endless,
}

/// Holds the verdict on a level against the longest response that was simulated.
fn held_against(verdict: &Verdict, tasks: &[SporadicTask], level: usize, seen: i64) -> Played {
    match verdict.responses.get(level) {
        Some(longest) => {
            assert_eq!(longest.get(), seen, "{tasks:?}, level {level}");
            Played::Kept
        }
        // A level that takes the whole CPU and has jitter or blocking is busy for ever.
        None if verdict.steps.iter().any(|s| s.contains("does not end")) => {
            assert_eq!(verdict.outcome, Outcome::NotShown);
            assert!(twin::utilisation(&tasks[..=level]) > 0.999_999, "{tasks:?}");
            Played::Endless
        }
        None => {
            assert!(seen > tasks[level].deadline.get(), "{tasks:?}, {:?}", verdict.steps);
            Played::Missed
        }
    }
}

#[test]
fn published_sets_have_their_published_responses() {
    let with = |t: SporadicTask, j: i64, b: i64| SporadicTask {
        jitter: Nanos::new(j),
        blocking: Nanos::new(b),
        ..t
    };
    // (source, tasks in order of priority, responses, deadlines kept)
    let table: [(&str, Vec<SporadicTask>, &[i64], bool); 6] = [
        (
            "Burns and Wellings, Real-Time Systems and Programming Languages: task set B (U = 0.775)",
            vec![task(5, 20, 20), task(10, 40, 40), task(40, 80, 80)],
            &[5, 15, 80],
            true,
        ),
        (
            "ibidem: the set with responses 3, 6, 20",
            vec![task(3, 7, 7), task(3, 12, 12), task(5, 20, 20)],
            &[3, 6, 20],
            true,
        ),
        (
            "ibidem: deadlines before the periods' ends, deadline-monotonic order",
            vec![task(3, 5, 20), task(3, 7, 15), task(4, 10, 10), task(3, 20, 20)],
            &[3, 6, 10, 20],
            true,
        ),
        (
            "ibidem: task set A (U = 0.82), whose lowest priority misses",
            vec![task(10, 30, 30), task(10, 40, 40), task(12, 50, 50)],
            &[10, 20],
            false,
        ),
        (
            "Lehoczky, RTSS 1990: responses 114, 102, 116, 104, 118, 106, 94 of the second task",
            vec![task(26, 70, 70), task(62, 118, 100)],
            &[26, 118],
            true,
        ),
        (
            "by hand: jitter of the first task hits the second twice",
            vec![with(task(2, 8, 8), 3, 0), with(task(4, 12, 12), 0, 1)],
            &[5, 9],
            true,
        ),
    ];
    for (source, tasks, expected, kept) in table {
        let verdict = response_times(&tasks);
        assert_eq!(responses(&verdict), expected, "{source}: {:?}", verdict.steps);
        assert_eq!(verdict.holds(), kept, "{source}");
    }
}

#[test]
fn orders_of_priority_are_the_published_ones() {
    let set = [task(3, 5, 20), task(3, 7, 15), task(4, 10, 10), task(3, 20, 20)];
    assert_eq!(deadline_monotonic(&set), [0, 1, 2, 3]);
    assert_eq!(rate_monotonic(&set), [2, 1, 0, 3]);
    assert!(response_times(&in_order(&set, &deadline_monotonic(&set))).holds());
    assert!(!response_times(&in_order(&set, &rate_monotonic(&set))).holds());
    // Lehoczky 1990: neither order is optimal for deadlines beyond periods; (52, 100, 110), (52, 140, 154) is his.
    let beyond = [task(52, 110, 100), task(52, 154, 140)];
    assert!(!response_times(&in_order(&beyond, &deadline_monotonic(&beyond))).holds());
    let order = optimal(&beyond).expect("the other order");
    assert_eq!(order, [1, 0]);
    assert!(response_times(&in_order(&beyond, &order)).holds());
}

#[test]
fn what_a_test_does_not_cover_is_refused_in_words() {
    let suspended = SporadicTask { suspension: Nanos::new(1), ..task(1, 4, 4) };
    let verdict = response_times(&[suspended]);
    assert_eq!(verdict.outcome, Outcome::NotApplicable);
    assert!(verdict.steps[0].contains("task 0 has self-suspension"), "{:?}", verdict.steps);
    let verdict = response_times(&[task(1, 0, 4)]);
    assert!(verdict.steps[0].contains("deadline 0s is not positive"), "{:?}", verdict.steps);
    let verdict = hyperbolic(&[task(1, 8, 8), task(1, 4, 4)]);
    assert_eq!(verdict.outcome, Outcome::NotApplicable);
}

/// A drawn set with jitter and blocking on some tasks, in a drawn order.
fn drawn(random: &mut Pcg, extras: bool) -> Vec<SporadicTask> {
    let count = 1 + random.below(4) as usize;
    let deadlines =
        [Deadlines::Implicit, Deadlines::Constrained, Deadlines::Arbitrary][random.below(3) as usize];
    let total = (0.3 + 0.7 * random.unit_open()).min(count as f64);
    let mut tasks = draw(count, total, deadlines, random);
    if extras {
        for task in &mut tasks {
            task.jitter = Nanos::new(random.below(2) as i64 * random.below(9) as i64);
            task.blocking = Nanos::new(random.below(3) as i64 / 2 * random.below(5) as i64);
        }
    }
    tasks
}

#[test]
fn response_times_are_those_of_the_densest_releases() {
    let mut random = Pcg::for_job(9, 1, 0);
    let (mut kept, mut missed) = (0, 0);
    for round in 0..4_000 {
        let tasks = drawn(&mut random, round % 2 == 1);
        let verdict = response_times(&tasks);
        assert_ne!(verdict.outcome, Outcome::NotApplicable);
        let end = 6 * HYPERPERIOD;
        // Each level by itself: one shot of blocking before everything, and all that is above.
        for (level, task) in tasks.iter().enumerate() {
            let mut jobs: Vec<Job> = (0..=level).flat_map(|i| twin::densest(i + 1, &tasks[i], end)).collect();
            let blocking = task.blocking.get();
            if blocking > 0 {
                jobs.push(Job { task: 0, planned: 0, release: 0, work: blocking, due: end });
            }
            let seen = play(&jobs, level + 2, 1, Rule::Fixed, true, end)[level + 1];
            match held_against(&verdict, &tasks, level, seen) {
                Played::Kept => kept += 1,
                Played::Endless => break,
                Played::Missed => {
                    missed += 1;
                    break;
                }
            }
        }
    }
    assert!(kept > 3_000 && missed > 800, "{kept} {missed}");
}

#[test]
fn no_legal_releases_take_longer_than_the_responses() {
    let mut random = Pcg::for_job(9, 2, 0);
    let mut reached = 0;
    for _ in 0..1_500 {
        let tasks: Vec<SporadicTask> = (drawn(&mut random, true).into_iter())
            .map(|t| SporadicTask { blocking: Nanos::ZERO, ..t })
            .collect();
        let verdict = response_times(&tasks);
        if !verdict.holds() {
            continue;
        }
        let end = 400;
        let jobs: Vec<Job> =
            (0..tasks.len()).flat_map(|i| twin::sporadic(i, &tasks[i], end, &mut random)).collect();
        let seen = play(&jobs, tasks.len(), 1, Rule::Fixed, true, end);
        for (seen, longest) in seen.iter().zip(&verdict.responses) {
            assert!(*seen <= longest.get(), "{tasks:?}: {seen} above {longest}");
            reached += i32::from(*seen == longest.get());
        }
    }
    assert!(reached > 500, "{reached}");
}

#[test]
fn the_optimal_assignment_is_found_when_any_order_holds() {
    fn permutations(n: usize) -> Vec<Vec<usize>> {
        if n == 0 {
            return vec![Vec::new()];
        }
        let shorter = permutations(n - 1);
        (shorter.iter())
            .flat_map(|p| {
                (0..n).map(|at| {
                    let mut longer = p.clone();
                    longer.insert(at, n - 1);
                    longer
                })
            })
            .collect()
    }
    let mut random = Pcg::for_job(9, 4, 0);
    let (mut found, mut none, mut beyond_monotonic) = (0, 0, 0);
    for round in 0..1_500 {
        let tasks = drawn(&mut random, round % 2 == 1);
        let holds = |order: &[usize]| response_times(&in_order(&tasks, order)).holds();
        let any = permutations(tasks.len()).iter().any(|order| holds(order));
        let order = optimal(&tasks);
        assert_eq!(order.is_some(), any, "{tasks:?}");
        match order {
            Some(order) => {
                assert!(holds(&order), "{tasks:?} {order:?}");
                found += 1;
                beyond_monotonic += i32::from(!holds(&deadline_monotonic(&tasks)));
            }
            None => none += 1,
        }
        // Deadlines within periods, no blocking: deadlines less jitter are optimal.
        if tasks.iter().all(|t| t.deadline <= t.period && !t.blocking.is_positive()) {
            assert_eq!(holds(&orders::deadline_less_jitter_monotonic(&tasks)), any, "{tasks:?}");
        }
    }
    assert!(found > 400 && none > 400 && beyond_monotonic > 10, "{found} {none} {beyond_monotonic}");
}

#[test]
fn the_hyperbolic_bound_never_promises_what_responses_do_not_keep() {
    let mut random = Pcg::for_job(9, 5, 0);
    let (mut bound, mut exact) = (0, 0);
    for _ in 0..2_000 {
        let count = 2 + random.below(4) as usize;
        let tasks = draw(count, 0.6 + 0.4 * random.unit_open(), Deadlines::Implicit, &mut random);
        let tasks = in_order(&tasks, &rate_monotonic(&tasks));
        let (by_bound, by_responses) = (hyperbolic(&tasks).holds(), response_times(&tasks).holds());
        assert!(!by_bound || by_responses, "{tasks:?}");
        bound += i32::from(by_bound);
        exact += i32::from(by_responses);
    }
    assert!(0 < bound && bound < exact, "{bound} {exact}");
    // Exactly at the bound: (1 + 1)(1 + 0) with one task, and 2^(1/2) never reached in integers from below.
    assert!(hyperbolic(&[task(1, 1, 1)]).holds());
    assert!(!hyperbolic(&[task(1, 2, 2), task(334, 1000, 1000)]).holds());
}
