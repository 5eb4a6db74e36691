//! The solvers against closed forms, against each other, against the chain itself and against simulated queues.

use proptest::prelude::*;
use surety_stats::random::Pcg;

use super::solver::analytic::Analytic;
use super::solver::exponential::Exponential;
use super::solver::iteration::Iteration;
use super::solver::reduction::{CyclicReduction, LogReduction};
use super::solver::wiener_hopf::WienerHopf;
use super::solver::{ERROR_MAX, in_turn};
use super::*;

fn exact_solvers() -> Vec<Box<dyn Solver>> {
    vec![
        Box::new(WienerHopf::default()),
        Box::new(CyclicReduction::default()),
        Box::new(LogReduction::default()),
    ]
}

fn bounds() -> Vec<Box<dyn Solver>> {
    vec![
        Box::new(Exponential),
        Box::new(Iteration::default()),
        Box::new(Analytic::default()),
        Box::new(Analytic { unit: Some(1) }),
    ]
}

/// Every exact solver gives these values of `P{v <= k Q}`, k = 1, 2, ..., and no lower bound exceeds them.
fn check(queue: &Queue, expected: &[f64], tolerance: f64) {
    for solver in exact_solvers() {
        let solution = solver.solve(queue).unwrap();
        assert!(matches!(solution.worth, Worth::Exact(c) if c.error <= ERROR_MAX), "{:?}", solution.worth);
        for (k, p) in expected.iter().enumerate() {
            let found = solution.within(k as u32 + 1);
            let name = solver.name();
            assert!((found.value - p).abs() < tolerance, "{name}, k = {}: {} not {p}", k + 1, found.value);
            assert!(
                found.at_least <= p + 1e-12 && found.at_least > p - tolerance - 1e-6,
                "{name}: {found:?} {p}"
            );
        }
    }
    for solver in bounds() {
        let solution = solver.solve(queue).unwrap();
        for (k, p) in expected.iter().enumerate() {
            let found = solution.within(k as u32 + 1);
            assert_eq!(found.value, found.at_least);
            assert!(found.at_least <= p + 1e-9, "{}: {} > {p}", solver.name(), found.at_least);
        }
    }
}

#[test]
fn single_steps_are_geometric() {
    // Work of 0 or 2 budgets: the backlog is geometric with ratio p / (1 - p) in budgets, whatever the grid.
    for (p, cells) in [(0.3, 1), (0.3, 7), (0.1, 50), (0.45, 4)] {
        let mut work = vec![0.0; 2 * cells + 1];
        (work[0], work[2 * cells]) = (1.0 - p, p);
        let queue = Queue::periodic(work, 1, cells).unwrap();
        let ratio: f64 = p / (1.0 - p);
        let waiting = |k: i32| if k < 0 { 0.0 } else { 1.0 - ratio.powi(k + 1) };
        let expected: Vec<f64> = (1..6).map(|k| (1.0 - p) * waiting(k) + p * waiting(k - 2)).collect();
        check(&queue, &expected, 1e-12);
    }
}

/// With Poisson work of mean rho and a budget of 1 the backlog before service is the number in an M/D/1 queue (Erlang
/// 1909; the formula as in Gross and Harris, "Fundamentals of queueing theory", 5.1.5).
fn erlang(rho: f64, n: i32) -> f64 {
    let factorial = |n: i32| (1..=n).map(f64::from).product::<f64>();
    let term = |k: i32| {
        let a = f64::from(k) * rho;
        let second = if k < n { a.powi(n - k - 1) / factorial(n - k - 1) } else { 0.0 };
        let sign = if (n - k) % 2 == 0 { 1.0 } else { -1.0 };
        sign * a.exp() * (a.powi(n - k) / factorial(n - k) + second)
    };
    match n {
        0 => 1.0 - rho,
        1 => (1.0 - rho) * (rho.exp() - 1.0),
        _ => (1.0 - rho) * (1..=n).map(term).sum::<f64>(),
    }
}

#[test]
fn poisson_work_gives_erlangs_numbers() {
    for rho in [0.1f64, 0.5, 0.8, 0.9] {
        let mut mass = (-rho).exp();
        let work: Vec<f64> = (1..60)
            .map(|n| {
                let now = mass;
                mass *= rho / f64::from(n);
                now
            })
            .collect();
        let queue = Queue::periodic(work, 1, 1).unwrap();
        let mut sum = erlang(rho, 0);
        let expected: Vec<f64> = (1..9)
            .map(|n| {
                sum += erlang(rho, n);
                sum
            })
            .collect();
        check(&queue, &expected, 1e-10);
        // The mean of Pollaczek and Khinchine: rho + rho^2 / (2 (1 - rho)).
        let solution = solve(&queue);
        let mean: f64 = (0..2_000).map(|k| 1.0 - solution.within(k).value).sum();
        let known = rho + rho * rho / (2.0 * (1.0 - rho));
        assert!((mean - known).abs() < 1e-7 * known, "{rho}: {mean} {known}");
    }
}

/// Geometric work, `P{c >= j} = a^j`: what a walk goes up by at a time has no memory, so `P{W >= j} = eta g^(j-1)` with g
/// the reciprocal of the root gamma of `gamma^-Q (1 - a) / (1 - a gamma) = 1` and `eta = (g - a) / (1 - a)` (the
/// discrete GI/M/1 queue).
#[test]
fn geometric_work_has_a_geometric_backlog() {
    for (a, budget) in [(0.5f64, 2usize), (0.8, 6), (0.9, 10), (0.95, 20)] {
        let work: Vec<f64> = (0..2_000).map(|j| (1.0 - a) * a.powi(j)).collect();
        let queue = Queue::periodic(work, 1, budget).unwrap();
        let grows = |gamma: f64| gamma.powi(-(budget as i32)) * (1.0 - a) / (1.0 - a * gamma) > 1.0;
        let (mut low, mut high) = (1.0 + 1e-9, 1.0 / a);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if grows(middle) { high = middle } else { low = middle }
        }
        let g = 1.0 / low;
        let eta = (g - a) / (1.0 - a);
        let solution = solve(&queue);
        assert_eq!((solution.solver, solution.passed_over.clone()), ("wiener-hopf", Vec::new()), "{a}");
        for x in [0usize, 1, 2, 5, 20, 100] {
            let found = solution.backlog_at_most(x);
            let known = 1.0 - eta * g.powi(x as i32);
            assert!((found.value - known).abs() < 1e-10, "{a} {x}: {} {known}", found.value);
            assert!(found.at_least <= known && found.at_least > known - 1e-8);
        }
    }
}

/// A mass of next to nothing far out rules the decay, not the answer.
#[test]
fn a_distant_mass_of_next_to_nothing_is_no_obstacle() {
    for tiny in [1e-10, 1e-16, 1e-100, 5e-324] {
        let mut work: Vec<f64> = (0..60).map(|j| 0.5f64.powi(j + 1)).collect();
        work.resize(1_001, 0.0);
        work[1_000] = tiny;
        work[0] -= tiny;
        let solution = WienerHopf::default().solve(&Queue::periodic(work, 1, 2).unwrap()).unwrap();
        assert!(solution.residual().unwrap() < 1e-12, "{tiny}: {:?}", solution.worth);
        // Without that mass the root is (1 + sqrt 5) / 2 and P{W = 0} = 1 - (2 / gamma - 1).
        let known = 2.0 - 4.0 / (1.0 + 5f64.sqrt());
        let found = solution.backlog_at_most(0).value;
        assert!((found - known).abs() < 1_000.0 * 1_000.0 * tiny + 1e-12, "{tiny}: {found} {known}");
    }
}

/// The chain itself, by power iteration from an empty queue: approaches the truth from above.
fn by_power(queue: &Queue, k: u32, cells: usize) -> f64 {
    let mut now = vec![0.0; cells];
    now[0] = 1.0;
    for _ in 0..4_000 {
        let mut next = vec![0.0; cells];
        for (from, mass) in now.iter().enumerate().filter(|(_, p)| **p > 1e-18) {
            for (step, p) in queue.walk().steps() {
                let to = (from as i64 + step).clamp(0, cells as i64 - 1);
                next[to as usize] += mass * p;
            }
        }
        let change: f64 = now.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
        now = next;
        if change < 1e-13 {
            break;
        }
    }
    assert!((now.iter().sum::<f64>() - 1.0).abs() < 1e-9, "no mass is lost");
    let reach = queue.budget() * k as usize;
    let at_most = |x: usize| now.iter().take(x + 1).sum::<f64>();
    queue.work().iter().enumerate().take(reach + 1).map(|(h, p)| p * at_most(reach - h)).sum()
}

/// Jobs done within k budgets when Lindley's recursion is played in cells.
fn played(queue: &Queue, k: u32, jobs: u32, seed: u128) -> f64 {
    let draw = |masses: &[f64], pcg: &mut Pcg| {
        let mut left = pcg.unit_open();
        masses.iter().position(|p| {
            left -= p;
            left < 0.0
        })
    };
    let mut pcg = Pcg::new(seed, 17);
    let (mut backlog, mut done) = (0usize, 0u32);
    for _ in 0..jobs {
        let v = backlog + draw(queue.work(), &mut pcg).unwrap_or(queue.work().len() - 1);
        done += u32::from(v <= queue.budget() * k as usize);
        let z = draw(queue.spacing(), &mut pcg).unwrap_or(0);
        backlog = v.saturating_sub(z * queue.budget());
    }
    f64::from(done) / f64::from(jobs)
}

fn queue_of(work: &[u32], spacing: &[u32], budget: usize) -> Option<Queue> {
    let share = |counts: &[u32]| {
        let total: u32 = counts.iter().sum();
        counts.iter().map(|c| f64::from(*c) / f64::from(total.max(1))).collect::<Vec<f64>>()
    };
    Queue::new(share(work), share(spacing), budget).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn exact_solvers_agree_and_nothing_promises_more(
        work in prop::collection::vec(0u32..20, 2..40),
        spacing in prop::collection::vec(0u32..5, 1..4),
        budget in 1usize..24,
        k in 1u32..5,
    ) {
        let Some(queue) = queue_of(&work, &spacing, budget) else { return Ok(()) };
        // Few enough cells and steps for the chain itself.
        let decay = queue.walk().decay().unwrap_or(1.0);
        prop_assume!(queue.load() < 0.85 && decay > 0.03);
        let truth = by_power(&queue, k, 60 + (30.0 / decay) as usize);
        let found = solve(&queue);
        prop_assert!((found.within(k).value - truth).abs() < 1e-9, "{} {truth}", found.within(k).value);
        for solver in exact_solvers() {
            let solution = solver.solve(&queue).unwrap();
            let fraction = solution.within(k);
            prop_assert!((fraction.value - found.within(k).value).abs() < 1e-10, "{}", solver.name());
            prop_assert!(fraction.at_least <= truth + 1e-11 && fraction.at_least >= truth - 1e-6);
            prop_assert!(solution.residual().unwrap() < 1e-10);
        }
        for solver in bounds() {
            let fraction = solver.solve(&queue).unwrap().within(k);
            prop_assert!(fraction.at_least <= truth + 1e-9, "{}: {} {truth}", solver.name(), fraction.at_least);
        }
        // Late jobs come in clusters: the standard error of far fewer jobs is generous.
        let seen = played(&queue, k, 20_000, 5);
        let spread = 5.0 * (seen * (1.0 - seen) / 500.0).sqrt() + 0.02;
        prop_assert!(found.within(k).at_least <= seen + spread, "{truth} {seen}");
    }

    #[test]
    fn more_budget_time_and_finer_grids_never_promise_less(
        work in prop::collection::vec(0u32..20, 2..30), spacing in prop::collection::vec(0u32..5, 2..4),
        half in 1usize..12, more in 1usize..6, k in 1u32..4,
    ) {
        let budget = 2 * half;
        let Some(queue) = queue_of(&work, &spacing, budget) else { return Ok(()) };
        let larger = queue_of(&work, &spacing, budget + more).unwrap();
        let at = |queue: &Queue, k| solve(queue).within(k);
        prop_assert!(at(&queue, k).value <= at(&larger, k).value + 1e-9);
        prop_assert!(at(&queue, k).at_least <= at(&queue, k + 1).at_least + 1e-9);
        if let Ok(coarse) = queue.coarser(2) {
            prop_assert!(at(&coarse, k).value <= at(&queue, k).value + 1e-9);
        }
        prop_assert!((queue.walk().steps().map(|(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

/// 752 values near multiples of 1 ms on a grid of 1 us: `1 - E[z^X]` has zeros just inside the unit circle, where
/// factorisation on that circle stalls at any number of points.
#[test]
fn work_that_nearly_keeps_to_a_lattice_is_solved() {
    let mut pcg = Pcg::new(752, 1);
    let mut work = vec![0.0; 16_001];
    for _ in 0..752 {
        let whole = 1 + pcg.below(12) as usize;
        work[whole * 1_000 + pcg.below(7) as usize] += 1.0 / 752.0;
    }
    let queue = Queue::periodic(work, 1, 8_000).unwrap();
    assert!(queue.load() > 0.7 && queue.load() < 0.95, "{}", queue.load());
    let solution = solve(&queue);
    assert_eq!(solution.solver, "wiener-hopf");
    assert!(solution.residual().unwrap() < 1e-10, "{:?}", solution.worth);
    // The same on the lattice itself, rounded up and down, encloses it.
    let on_lattice = |up: usize| {
        let mut coarse = vec![0.0; 18];
        for (h, p) in queue.work().iter().enumerate() {
            coarse[(h + up * 999) / 1_000] += p;
        }
        CyclicReduction::default().solve(&Queue::periodic(coarse, 1, 8).unwrap()).unwrap().within(1).value
    };
    let found = solution.within(1);
    assert!(on_lattice(1) <= found.value && found.value <= on_lattice(0), "{found:?}");
    assert!(on_lattice(0) - on_lattice(1) < 0.6 && found.at_least > found.value - 1e-6);
}

#[test]
fn wide_levels_near_full_load_are_solved_with_a_small_error() {
    // Work evenly spread over 0..=2M cells: mean M.
    for (load, block) in [(0.5, 300), (0.9, 700), (0.98, 700), (0.998, 700)] {
        let budget = block;
        let most = (2.0 * load * budget as f64) as usize;
        let work = vec![1.0 / (most + 1) as f64; most + 1];
        let queue = Queue::periodic(work, 1, budget).unwrap();
        assert_eq!(queue.walk().block(), block);
        let solution = WienerHopf::default().solve(&queue).unwrap();
        let found = solution.within(1);
        assert!(found.at_least <= found.value && found.at_least > found.value - 1e-6, "{load}: {found:?}");
        assert!(solution.residual().unwrap() < 1e-9);
        let below = Iteration::default().bound(&queue).within(1).value;
        assert!(below <= found.value + 1e-9, "{load}: {below} {found:?}");
    }
}

#[test]
fn what_does_not_converge_is_passed_over_and_said() {
    let work: Vec<f64> = vec![1.0 / 199.0; 199];
    let queue = Queue::periodic(work, 1, 100).unwrap();
    let (small, narrow) = (WienerHopf { points_max: 64 }, CyclicReduction { block_max: 10 });
    let error = small.solve(&queue).unwrap_err();
    assert!(error.to_string().contains("limit 64"), "{error}");
    let solution = in_turn(&[&small, &narrow, &LogReduction::default()], &queue);
    assert_eq!(solution.solver, "log-reduction");
    let names: Vec<&str> = solution.passed_over.iter().map(|p| p.solver).collect();
    assert_eq!(names, ["wiener-hopf", "cyclic-reduction"]);
    let exact = solution.within(1);
    let bound = in_turn(&[&small, &narrow], &queue);
    assert_eq!((bound.solver, bound.worth), ("iteration", Worth::Bound));
    assert!(bound.within(1).at_least <= exact.value + 1e-9);
    let words = bound.steps().join("; ");
    assert!(
        words.contains("wiener-hopf gave no answer") && words.contains("a bound, not the value"),
        "{words}"
    );
}

/// As the load nears 1 an honest answer gets worse or is refused, it never is a guess.
#[test]
fn at_the_edge_of_stability_the_error_says_so() {
    for short in [1e-3, 1e-5, 1e-7] {
        let queue = Queue::periodic(vec![0.5 + short, 0.0, 0.5 - short], 1, 1).unwrap();
        let ratio = (0.5 - short) / (0.5 + short);
        let solution = solve(&queue);
        let found = solution.backlog_at_most(0);
        assert!(found.at_least <= 1.0 - ratio + 1e-12, "{short}: {found:?}");
        if solution.residual().is_some() {
            assert!((found.value - (1.0 - ratio)).abs() < 1e-6, "{short}: {found:?}");
        }
    }
}

#[test]
fn the_family_is_named() {
    for solver in solvers() {
        assert!(!solver.name().is_empty() && solver.theorem().len() > 20 && solver.source().len() > 8);
        let none = solver.solve(&Queue::periodic(vec![0.0, 1.0], 1, 2).unwrap()).unwrap();
        assert_eq!(none.within(1), Fraction { value: 1.0, at_least: 1.0 }, "{}", solver.name());
        assert_eq!(none.within(0).value, 0.0);
    }
}

/// Regressions of other tools: mass below the grid's first cell dropped when a distribution is put on a coarser
/// grid, a distribution of samples with a total other than 1, a lower limit used for the upper one so that only one
/// of the distances between releases counts.
#[test]
fn nothing_is_lost_on_the_way_to_the_grid() {
    use surety_model::distribution::{Empirical, TimeDistribution};
    use surety_units::Nanos;
    let us = Nanos::from_micros;
    let work = Empirical::new(vec![(us(3), 1), (us(950), 2), (us(7_700), 1)]).unwrap();
    let grid = WorkGrid::new(&TimeDistribution::Empirical(work), us(1_000), 50).unwrap();
    assert!((grid.masses.iter().sum::<f64>() - 1.0).abs() < 1e-15);
    assert!((grid.masses[1] - 0.25).abs() < 1e-15, "what is below the first cell is rounded up into it");
    let distance = Empirical::new(vec![(us(500), 1), (us(1_000), 1), (us(3_999), 2)]).unwrap();
    let found =
        grid::budgets_between(&TimeDistribution::Empirical(distance), Nanos::ZERO, us(1_000)).unwrap();
    assert_eq!(found, [0.25, 0.25, 0.0, 0.5]);
    let endless = TimeDistribution::Exponential { mean: us(100_000) };
    let found = grid::budgets_between(&endless, Nanos::ZERO, us(1_000)).unwrap();
    assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12 && found.len() == 129);
}

#[test]
fn batches_and_long_gaps_of_times_are_bounded() {
    use surety_model::distribution::TimeDistribution;
    use surety_units::Nanos;
    let us = Nanos::from_micros;
    let work = TimeDistribution::Uniform { low: us(200), high: us(900) };
    let gaps = TimeDistribution::Exponential { mean: us(10_000) };
    let backlog = Backlog::aperiodic(&work, us(1_000), (&gaps, Nanos::ZERO), us(2_000)).unwrap();
    let mut pcg = Pcg::new(3, 4);
    let (mut waiting, mut done, jobs) = (Nanos::ZERO, 0u32, 400_000);
    for _ in 0..jobs {
        let v = waiting + work.draw_from(&mut pcg);
        done += u32::from(v <= us(1_000));
        waiting = (v - us(1_000) * gaps.draw_from(&mut pcg).div_floor(us(2_000))).max(Nanos::ZERO);
    }
    let seen = f64::from(done) / f64::from(jobs);
    assert!(
        backlog.within(1) <= seen + 0.005 && backlog.within(1) > seen - 0.02,
        "{} {seen}",
        backlog.within(1)
    );
    let error = Backlog::aperiodic(&work, us(100), (&gaps, Nanos::ZERO), us(2_000)).unwrap_err();
    assert!(error.to_string().contains("is not below"), "{error}");
    assert!(Backlog::stationary(&work, Nanos::ZERO, 1).unwrap_err().to_string().contains("budget is 0"));
    assert_eq!(Backlog::stationary(&work, us(500), 0).unwrap_err(), CbsError::NoBudget);
}
