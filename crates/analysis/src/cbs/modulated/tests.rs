//! Queues with modes against a closed form, against independent queues, against each other and played.

use proptest::prelude::*;
use surety_model::distribution::{Empirical, TimeDistribution};
use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::solution::ModulatedSolver;
use super::solution::by_modes::ByModes;
use super::solution::reduction::ModulatedReduction;
use super::*;
use crate::cbs::queue::Queue;
use crate::cbs::solver::{self, ERROR_MAX};
use crate::sampled::modes::MeasuredModes;

fn solvers() -> [Box<dyn ModulatedSolver>; 2] {
    [Box::new(ByModes::default()), Box::new(ModulatedReduction::default())]
}

fn queue(work: &[&[f64]], transitions: &[&[f64]], between: u32, budget: usize) -> ModulatedQueue {
    let work = work.iter().map(|w| w.to_vec()).collect();
    let rows: Vec<Vec<f64>> = transitions.iter().map(|r| r.to_vec()).collect();
    ModulatedQueue::new(work, &rows, between, budget).unwrap()
}

/// The fraction of jobs done within each number of budgets, played.
fn played(queue: &ModulatedQueue, jobs: u32, seed: u128) -> [f64; 3] {
    let mut generator = Pcg::new(seed, 5);
    let mut draw = |masses: &mut dyn Iterator<Item = f64>| {
        let mut left = generator.unit_open();
        let mut place = 0;
        for mass in masses {
            left -= mass;
            if left < 0.0 {
                break;
            }
            place += 1;
        }
        place
    };
    let (mut mode, mut backlog, mut done) = (0, 0usize, [0u32; 3]);
    for _ in 0..jobs {
        let work = draw(&mut queue.work(mode).iter().copied()).min(queue.work(mode).len() - 1);
        let all = backlog + work;
        for (k, count) in done.iter_mut().enumerate() {
            *count += u32::from(all <= (k + 1) * queue.budget());
        }
        backlog = all.saturating_sub(queue.supply());
        mode = draw(&mut (0..queue.modes()).map(|to| queue.transition(mode, to))).min(queue.modes() - 1);
    }
    done.map(|count| f64::from(count) / f64::from(jobs))
}

/// In mode on a job brings two cells, off it brings none, and one is served; p leads from off to on, q back. So the backlog
/// rises by one with each job in on and falls by one in off. With `a(x) = P{w = x, on}` and `b(x) = P{w = x, off}`: up from x is as
/// frequent as down from x + 1, `a(x) = b(x + 1)`, and on at x comes from on at x - 1 or from off at x + 1: `a(x) = (1 - q)
/// a(x - 1) + p b(x + 1)`. Hence `a(x) = a(0) r^x` with `r = (1 - q) / (1 - p)`.
#[test]
fn an_on_off_source_has_its_closed_form() {
    for (p, q) in [(0.1, 0.3), (0.02, 0.05), (0.3, 0.9), (0.35, 0.5)] {
        let queue = queue(&[&[1.0], &[0.0, 0.0, 1.0]], &[&[1.0 - p, p], &[q, 1.0 - q]], 1, 1);
        let r: f64 = (1.0 - q) / (1.0 - p);
        let on = p / (p + q);
        let a0 = on * (1.0 - r);
        for solver in solvers() {
            let found = solver.solve(&queue).unwrap();
            let error = found.certificate.as_ref().unwrap().error;
            for x in 0..40 {
                let known = on - a0 * r.powi(x + 1) / (1.0 - r);
                let fraction = found.backlog_at_most(1, x as usize);
                assert!(
                    (fraction.value - known).abs() < error + 1e-12,
                    "{} {p} {q} {x}: {fraction:?} {known}",
                    found.solver
                );
                assert!(fraction.at_least <= known + 1e-12 && fraction.at_least > known - 1e-6);
            }
            assert!(error < ERROR_MAX / 2.0, "{} {error:.1e}", found.solver);
            assert!(p > 0.3 || error < 1e-8, "{} {error:.1e}", found.solver);
        }
    }
}

#[test]
fn one_mode_and_modes_alike_are_the_independent_answer() {
    let work: Vec<f64> = vec![0.1, 0.2, 0.25, 0.2, 0.1, 0.1, 0.05];
    let independent = solver::solve(&Queue::periodic(work.clone(), 1, 3).unwrap());
    let one = queue(&[&work], &[&[1.0]], 1, 3);
    let alike =
        queue(&[&work, &work, &work], &[&[0.98, 0.01, 0.01], &[0.3, 0.4, 0.3], &[0.0, 0.9, 0.1]], 1, 3);
    // Rows alike: the next mode does not depend on this one, so nor does work.
    let light: &[f64] = &[0.4, 0.3, 0.3];
    let heavy: &[f64] = &[0.0, 0.0, 0.1, 0.2, 0.2, 0.5];
    let rows: &[&[f64]] = &[&[0.7, 0.3], &[0.7, 0.3]];
    let forgetful = queue(&[light, heavy], rows, 1, 3);
    let mixed = solver::solve(&Queue::periodic(forgetful.mixture(), 1, 3).unwrap());
    for (queue, known) in [(&one, &independent), (&alike, &independent), (&forgetful, &mixed)] {
        for solver in solvers() {
            let found = solver.solve(queue).unwrap();
            for k in 1..6 {
                let (is, should) = (found.within(k), known.within(k));
                assert!((is.value - should.value).abs() < 1e-9, "{} {k}: {is:?} {should:?}", found.solver);
                assert!(is.at_least <= should.value && is.at_least > should.value - 1e-6);
            }
        }
    }
}

#[test]
fn a_million_jobs_played_agree_and_memory_costs() {
    let light: &[f64] = &[0.0, 0.2, 0.5, 0.3];
    let heavy: &[f64] = &[0.0, 0.0, 0.0, 0.0, 0.1, 0.4, 0.3, 0.2];
    let middle: &[f64] = &[0.0, 0.0, 0.3, 0.4, 0.3];
    for (queue, k) in [
        (queue(&[light, heavy], &[&[0.95, 0.05], &[0.2, 0.8]], 1, 5), 0),
        (queue(&[light, heavy], &[&[0.98, 0.02], &[0.1, 0.9]], 2, 2), 1),
        (queue(&[light, middle, heavy], &[&[0.9, 0.1, 0.0], &[0.1, 0.8, 0.1], &[0.0, 0.3, 0.7]], 1, 5), 0),
    ] {
        let seen = played(&queue, 1_000_000, 3);
        let independent =
            solver::solve(&Queue::periodic(queue.mixture(), queue.between(), queue.budget()).unwrap());
        let found = solve(&queue);
        assert_eq!(found.passed_over, []);
        for (k, seen) in seen.iter().enumerate() {
            let proven = found.within(k as u32 + 1);
            let noise = 4.0 * (seen * (1.0 - seen) / 2e4).sqrt() + 1e-5;
            assert!((proven.value - seen).abs() < noise, "{k}: {proven:?} {seen}");
            assert!(proven.at_least <= proven.value && proven.at_least > proven.value - 1e-6);
        }
        let without = independent.within(k + 1).value;
        assert!(found.within(k + 1).value < without - 0.003, "{} {without}", found.within(k + 1).value);
    }
}

#[test]
fn the_bound_alone_holds_and_wide_levels_are_left_to_it() {
    let light: &[f64] = &[0.0, 0.2, 0.5, 0.3];
    let heavy: &[f64] = &[0.0, 0.0, 0.0, 0.0, 0.1, 0.4, 0.3, 0.2];
    let queue = queue(&[light, heavy], &[&[0.95, 0.05], &[0.2, 0.8]], 1, 5);
    let exact = solve(&queue);
    let bound = solution::in_turn(&[&ModulatedReduction { block_max: 4 }], &queue);
    assert!(bound.certificate.is_none() && bound.passed_over.len() == 1, "{bound:?}");
    for k in 1..20 {
        let (b, e) = (bound.within(k), exact.within(k));
        assert!(b.value <= e.value + 1e-12 && b.value == b.at_least, "{k}: {b:?} {e:?}");
    }
    assert!(bound.within(12).value > 0.9);
    assert!(bound.steps().iter().any(|s| s.contains("gave no answer")));
}

#[test]
fn times_are_rounded_against_the_claim() {
    let ms = Nanos::from_millis;
    let of = |values: &[(i64, u64)]| {
        TimeDistribution::Empirical(
            Empirical::new(values.iter().map(|(v, n)| (ms(*v), *n)).collect()).unwrap(),
        )
    };
    let work = ModulatedWork {
        work: vec![of(&[(3, 4), (4, 5), (7, 1)]), of(&[(9, 3), (11, 4), (13, 1)])],
        transitions: vec![vec![0.96, 0.04], vec![0.2, 0.8]],
    };
    let exact = work.queue(ms(10), 1, 10).unwrap().0;
    let truth = solve(&exact).within(1).value;
    let found = ModulatedBacklog::stationary(&work, Nanos::new(10_000_000), 1).unwrap();
    assert!(found.within(1) <= truth && found.within(1) > truth - 0.01, "{} {truth}", found.within(1));
    assert!(found.independent.within(1).value > truth + 0.005);
    assert!((found.shares()[1] - 1.0 / 6.0).abs() < 1e-12 && found.step() == Nanos::from_micros(25));
    let error = ModulatedBacklog::stationary(&work, ms(4), 1).unwrap_err();
    assert!(error.to_string().contains("larger runtime"), "{error}");
    let unbounded = ModulatedWork { work: vec![TimeDistribution::Exponential { mean: ms(1) }; 2], ..work };
    assert!(matches!(
        ModulatedBacklog::stationary(&unbounded, ms(10), 1),
        Err(crate::cbs::CbsError::UnboundedMode { .. })
    ));
}

#[test]
fn limits_are_worse_than_what_was_measured_and_narrow() {
    let ms = Nanos::from_millis;
    let of =
        |values: &[(i64, u64)]| Empirical::new(values.iter().map(|(v, n)| (ms(*v), *n)).collect()).unwrap();
    let at = |scale: f64| {
        let n = (100.0 * scale) as u64;
        let measured = MeasuredModes {
            // Heaviest first: the order is found.
            work: vec![of(&[(9, 3 * n), (11, 4 * n), (13, n)]), of(&[(3, 4 * n), (4, 5 * n), (7, n)])],
            jobs: vec![8.0 * n as f64, 10.0 * n as f64],
            followed: vec![vec![160.0 * scale, 40.0 * scale], vec![40.0 * scale, 960.0 * scale]],
            returned: Vec::new(),
        };
        let plain = ModulatedBacklog::stationary(&measured.as_measured(), ms(11), 1).unwrap().within(1);
        let worst = measured.worst(ms(16), 0.95).unwrap();
        assert_eq!(worst.work.len(), 2);
        assert!(worst.transitions[0][1] > 0.04 && worst.transitions[1][0] < 0.2, "{:?}", worst.transitions);
        (plain, ModulatedBacklog::stationary(&worst, ms(11), 1).unwrap().within(1))
    };
    let (few, many) = (at(1.0), at(100.0));
    assert!((few.0 - many.0).abs() < 1e-9 && few.1 < many.1 && many.1 < many.0, "{few:?} {many:?}");
    assert!(many.1 > many.0 - 0.02, "{many:?}");
    // A heavy mode that was never left stays for ever.
    let stuck = MeasuredModes {
        work: vec![of(&[(3, 50)]), of(&[(9, 50)])],
        jobs: vec![50.0, 50.0],
        followed: vec![vec![49.0, 1.0], vec![0.0, 49.0]],
        returned: Vec::new(),
    };
    assert_eq!(stuck.worst(ms(20), 0.95).unwrap().transitions, [[1.0]]);
    // As measured it is left where the jobs begin anew; else it is all there is in the long run.
    assert_eq!(stuck.as_measured().transitions, [[1.0]]);
    let again = MeasuredModes { returned: vec![vec![0.0, 0.0], vec![1.0, 0.0]], ..stuck };
    assert_eq!(again.as_measured().transitions, [[0.98, 0.02], [0.02, 0.98]]);
    let found = ModulatedBacklog::stationary(&again.as_measured(), ms(10), 1).unwrap();
    assert!((found.within(1) - 1.0).abs() < 1e-9 && found.shares() == [0.5, 0.5]);
}

/// Scenes of a hundred jobs that do not fit leave tails too long for the usual grids: coarser ones say more than a bound.
#[test]
fn long_tails_are_solved_on_a_coarser_grid() {
    let ms = Nanos::from_millis;
    let us = Nanos::from_micros;
    let of = |values: &[i64]| {
        TimeDistribution::Empirical(Empirical::new(values.iter().map(|v| (us(*v), 1)).collect()).unwrap())
    };
    let work = ModulatedWork {
        work: vec![of(&[800, 1_000, 1_200]), of(&[7_000, 8_000, 9_000])],
        transitions: vec![vec![0.995, 0.005], vec![0.01, 0.99]],
    };
    let found = ModulatedBacklog::stationary(&work, us(6_500), 1).unwrap();
    assert!(found.solution.certificate.is_some(), "{:?}", found.solution.steps());
    // The chain itself, played: 57 % are in time.
    let mut generator = surety_stats::random::Pcg::new(5, 1);
    let (mut mode, mut backlog, mut done) = (0, Nanos::ZERO, 0);
    let jobs = 1_000_000;
    for _ in 0..jobs {
        let all = backlog + work.work[mode].draw_from(&mut generator);
        done += i32::from(all <= us(6_500));
        backlog = (all - us(6_500)).max(Nanos::ZERO);
        if generator.unit_open() < work.transitions[mode][1 - mode] {
            mode = 1 - mode;
        }
    }
    let played = f64::from(done) / f64::from(jobs);
    let proven = found.within(1);
    assert!(proven <= played + 0.01 && proven > played - 0.1, "{proven} {played}");
    // A little more budget proves more, without a cliff between.
    let more = ModulatedBacklog::stationary(&work, ms(7), 1).unwrap().within(1);
    assert!(more > proven && more - proven < 0.2, "{proven} {more}");
}

fn distribution() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(0u32..10, 2..9).prop_filter_map("no mass", |weights| {
        let total: u32 = weights.iter().sum();
        (total > 0).then(|| weights.iter().map(|w| f64::from(*w) / f64::from(total)).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    /// Both solvers agree within their proven errors, and no bound is above them.
    #[test]
    fn twins_agree(
        work in proptest::collection::vec(distribution(), 1..4),
        rows in proptest::collection::vec(proptest::collection::vec(1u32..20, 3), 3),
        between in 1u32..3, budget in 2usize..6,
    ) {
        let m = work.len();
        let row = |r: &Vec<u32>| {
            let total: u32 = r[..m].iter().sum();
            r[..m].iter().map(|w| f64::from(*w) / f64::from(total)).collect::<Vec<f64>>()
        };
        let transitions: Vec<Vec<f64>> = rows[..m].iter().map(row).collect();
        let Ok(queue) = ModulatedQueue::new(work, &transitions, between, budget) else { return Ok(()) };
        prop_assume!(queue.load() < 0.85);
        let [a, b] = solvers().map(|solver| solver.solve(&queue).unwrap());
        let bound = solution::in_turn(&[], &queue);
        for k in 1..8 {
            let (x, y, low) = (a.within(k), b.within(k), bound.within(k));
            prop_assert!((x.value - y.value).abs() < 2e-8, "{k}: {x:?} {y:?}");
            prop_assert!(x.at_least <= y.value + 1e-12 && y.at_least <= x.value + 1e-12);
            prop_assert!(low.value <= x.value + 1e-9);
        }
    }
}
