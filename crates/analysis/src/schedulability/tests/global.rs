//! Several CPUs, one queue: published sets, simulated schedules of thousands of sets, and the order of the tests.

use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::generate::{Deadlines, random_set};
use super::orders::{deadline_monotonic, in_order, slack_monotonic};
use super::twin::{self, HYPERPERIOD, Job, Rule, draw, in_time, play, task, utilisation};
use crate::schedulability::tardiness::tardiness;
use crate::schedulability::{Outcome, SporadicTask, global_edf, global_fixed};

/// Which tests of global EDF accept: GFB, BAK, BCL, iterated BCL, RTA, FF-DBF.
fn accepted(tasks: &[SporadicTask], cpus: u32) -> [bool; 6] {
    global_edf::TESTS.map(|(_, test)| test(tasks, cpus).holds())
}

#[test]
fn known_sets_are_judged_as_known() {
    let (no, yes) = (false, true);
    for (source, tasks, cpus, expected) in [
        // Dhall and Liu 1978: m light tasks and a heavy one miss on m CPUs, though they take little more than one.
        ("Dhall's effect", vec![task(2, 10, 10), task(2, 10, 10), task(19, 20, 20)], 2, [no; 6]),
        ("as many tasks as CPUs", vec![task(2, 3, 3); 3], 3, [yes; 6]),
        // The others may fill a window of each just so, which BCL takes for enough (its condition with equality).
        ("GFB at its bound", vec![task(1, 2, 2), task(1, 2, 2), task(1, 2, 2)], 2, [yes; 6]),
        // Two heavy and a light one, m = 2: 1.5 is above the bound 4/3 of GFB, yet no window can be filled.
        (
            "heavy tasks",
            vec![task(20, 30, 30), task(20, 30, 30), task(5, 30, 30)],
            2,
            [no, no, yes, yes, yes, no],
        ),
    ] {
        assert_eq!(accepted(&tasks, cpus), expected, "{source}");
    }
    // With priorities by slack Dhall's set is kept; by deadlines it is not.
    let dhall = [task(2, 10, 10), task(2, 10, 10), task(19, 20, 20)];
    let by_slack = in_order(&dhall, &slack_monotonic(&dhall));
    assert!(global_fixed::response_times(&by_slack, 2).holds());
    assert!(!global_fixed::response_times(&dhall, 2).holds());
    // A job longer than its deadline is a proof of a miss, an unknown set is not.
    assert_eq!(global_edf::density(&[task(3, 2, 4); 5], 4).outcome, Outcome::Fails);
    assert_eq!(global_edf::baker(&[task(1, 5, 4); 5], 4).outcome, Outcome::NotApplicable);
    assert_eq!(global_edf::baker(&dhall, 0).outcome, Outcome::NotApplicable);
}

/// Patterns to play: all released at once, and three legal ones drawn at random.
fn patterns(tasks: &[SporadicTask], end: i64, random: &mut Pcg) -> Vec<Vec<Job>> {
    let at_once = (0..tasks.len()).flat_map(|i| twin::densest(i, &tasks[i], end)).collect();
    let mut patterns = vec![at_once];
    for _ in 0..3 {
        let drawn = (0..tasks.len()).flat_map(|i| twin::sporadic(i, &tasks[i], end, random)).collect();
        patterns.push(drawn);
    }
    patterns
}

#[test]
fn no_accepted_set_misses_and_the_tests_stand_in_the_proven_order() {
    let mut random = Pcg::for_job(9, 31, 0);
    let mut counts = [0; 6];
    let (mut fixed, mut survived, mut checked) = (0, 0, 0);
    for round in 0..3_000 {
        let cpus = 2 + random.below(3) as u32;
        let count = cpus as usize + 1 + random.below(5) as usize;
        let deadlines = [Deadlines::Implicit, Deadlines::Constrained][round % 2];
        let total = f64::from(cpus) * (0.2 + 0.7 * random.unit_open());
        let tasks = draw(count, total, deadlines, &mut random);
        let end = 2 * HYPERPERIOD;
        let patterns = patterns(&tasks, end, &mut random);
        let kept = |tasks: &[SporadicTask], rule: Rule| {
            let mut longest = vec![0; count];
            for jobs in &patterns {
                let seen = play(jobs, count, cpus as usize, rule, true, end);
                longest.iter_mut().zip(seen).for_each(|(l, s)| *l = s.max(*l));
            }
            (in_time(tasks, &longest), longest)
        };
        let (simulated, longest) = kept(&tasks, Rule::Edf);
        survived += i32::from(simulated);
        let seen = accepted(&tasks, cpus);
        for (which, (theorem, test)) in global_edf::TESTS.iter().enumerate() {
            counts[which] += i32::from(seen[which]);
            assert!(!seen[which] || simulated, "{round}: {} accepted {tasks:?} on {cpus}", theorem.name);
            for (bound, seen) in test(&tasks, cpus).responses.iter().zip(&longest) {
                assert!(bound.get() >= *seen, "{round}: {} {tasks:?}", theorem.name);
                checked += 1;
            }
        }
        let [gfb, _, bcl, iterated, rta, forced] = seen;
        assert!(!gfb || forced, "{round}: the forced-forward demand is below the densities: {tasks:?}");
        assert!(!bcl || iterated, "{round}: slacks only help: {tasks:?}");
        assert!(!iterated || rta, "{round}: a window of the response only helps: {tasks:?}");
        // Fixed priorities: the tasks as they stand are in no order, so every order is as good.
        let verdict = global_fixed::response_times(&tasks, cpus);
        let (simulated, longest) = kept(&tasks, Rule::Fixed);
        assert!(!verdict.holds() || simulated, "{round}: {tasks:?} {:?}", verdict.steps);
        for (bound, seen) in verdict.responses.iter().zip(&longest) {
            assert!(bound.get() >= *seen, "{round}: {tasks:?} {:?} {longest:?}", verdict.steps);
        }
        fixed += i32::from(verdict.holds());
    }
    let [gfb, bak, bcl, iterated, rta, forced] = counts;
    assert!(bak > 100 && bcl > 100 && gfb > 100 && fixed > 200, "{counts:?} {fixed}");
    assert!(iterated > bcl && rta >= iterated && forced > gfb && survived > rta, "{counts:?} {survived}");
    assert!(checked > 10_000, "{checked}");
}

#[test]
fn on_one_cpu_global_is_the_same_as_local() {
    use crate::schedulability::{fixed, uniprocessor};
    let mut random = Pcg::for_job(9, 32, 0);
    for _ in 0..1_000 {
        let tasks = draw(3, 0.5 + 0.5 * random.unit_open(), Deadlines::Constrained, &mut random);
        let exact = uniprocessor::processor_demand(&tasks).holds();
        assert!(accepted(&tasks, 1).iter().all(|a| !a || exact), "{tasks:?}");
        let tasks = in_order(&tasks, &deadline_monotonic(&tasks));
        // Without carry-in and with one CPU the bound is the exact analysis but for work that ends at the window's end.
        let global = global_fixed::response_times(&tasks, 1);
        let local = fixed::response_times(&tasks);
        assert!(!global.holds() || local.holds());
        for (global, local) in global.responses.iter().zip(&local.responses) {
            assert!(global >= local, "{tasks:?}");
        }
    }
}

#[test]
fn no_job_is_later_than_the_tardiness_bound() {
    // Devi and Anderson's running example has three tasks (2, 3) on two CPUs: U = 2, L = 1: x = (2 - 2)/2 = 0, so at most
    // 2 late; simulated, the third task is one late.
    let known = tardiness(&[task(2, 3, 3); 3], 2);
    assert_eq!(known.late, [Nanos::new(2); 3]);
    // L = 2: x = (6 + 5 - 1) / (3 - 6/7) = 10 * 7/15 = 4.67, rounded up.
    let mixed =
        [task(6, 7, 7), task(5, 6, 6), task(4, 5, 5), task(1, 12, 12), task(1, 12, 12), task(1, 12, 12)];
    assert_eq!(tardiness(&mixed, 3).late[0], Nanos::new(5 + 6));
    assert_eq!(tardiness(&[task(1, 2, 2); 5], 2).verdict.outcome, Outcome::Fails);
    assert_eq!(tardiness(&[task(1, 2, 3); 2], 2).verdict.outcome, Outcome::NotApplicable);
    let mut random = Pcg::for_job(9, 33, 0);
    let (mut late, mut bounded) = (0, 0);
    for _ in 0..2_000 {
        let cpus = 2 + random.below(3) as u32;
        let count = cpus as usize + 1 + random.below(4) as usize;
        let total = f64::from(cpus) * (0.85 + 0.15 * random.unit_open());
        let tasks = draw(count, total, Deadlines::Implicit, &mut random);
        let bound = tardiness(&tasks, cpus);
        if !bound.verdict.holds() {
            assert!(utilisation(&tasks) > f64::from(cpus) - 1e-9, "{tasks:?}");
            continue;
        }
        let end = 5 * HYPERPERIOD;
        for jobs in patterns(&tasks, end, &mut random) {
            let seen = play(&jobs, count, cpus as usize, Rule::Edf, true, end);
            for ((task, seen), most) in tasks.iter().zip(seen).zip(&bound.late) {
                assert!(seen - task.deadline.get() <= most.get(), "{tasks:?} {bound:?}");
                late += i32::from(seen > task.deadline.get());
                bounded += i32::from(most.is_positive());
            }
        }
    }
    assert!(late > 500 && bounded > late, "{late} {bounded}");
}

#[test]
fn responses_are_found_in_nanoseconds_too() {
    // Fixed points that step unit by unit would give up here: windows are 10^7 units and more long.
    let mut random = Pcg::for_job(9, 25, 0);
    let periods: Vec<Nanos> =
        (0..50).map(|_| Nanos::new(10_000_000 + random.below(90_000_000) as i64)).collect();
    let mut counts = [0; 3];
    for round in 0..300 {
        let total = 0.3 + 1.2 * random.unit_open();
        let deadlines = [Deadlines::Implicit, Deadlines::Constrained][round % 2];
        let tasks = random_set(6, total, &periods, Nanos::new(1), deadlines, &mut random).expect("drawn");
        let [_, _, bcl, iterated, rta, _] = accepted(&tasks, 2);
        assert!(bcl <= iterated && iterated <= rta, "{round}: {tasks:?}");
        let order = slack_monotonic(&tasks);
        let fixed = crate::schedulability::global_fixed::response_times(&in_order(&tasks, &order), 2);
        for (count, holds) in counts.iter_mut().zip([iterated, rta, fixed.holds()]) {
            *count += usize::from(holds);
        }
    }
    assert!(counts[0] > 50 && counts[1] > counts[0] && counts[2] > counts[1], "{counts:?}");
}
