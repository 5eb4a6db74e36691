//! Proven fractions of known cases, and what is refused.

use super::*;

fn served(
    work: TimeDistribution,
    q: i64,
    d: i64,
    t: i64,
    late: Late,
    enforcement: Enforcement,
) -> ServedTask {
    let ms = Nanos::from_millis;
    ServedTask {
        work,
        modes: None,
        gap: ms(40),
        jitter: Nanos::ZERO,
        grid: true,
        late,
        reservation: Reservation { deadline: ms(d), ..Reservation::implicit(ms(q), ms(t)) },
        enforcement,
    }
}

#[test]
fn bounded_work_is_certain_and_unbounded_work_never_is() {
    let ms = Nanos::from_millis;
    let tick = Enforcement::Tick(ms(4));
    let uniform = TimeDistribution::Uniform { low: ms(10), high: ms(20) };
    let player = TimeDistribution::LogNormal { mean: ms(14), p99: ms(22) };
    for (task, limit, low, high) in [
        (served(uniform.clone(), 20, 40, 40, Late::Queue, tick), 40, 1.0, 1.0),
        (served(uniform.clone(), 20, 30, 40, Late::Queue, tick), 30, 1.0, 1.0),
        (served(uniform.clone(), 20, 40, 40, Late::Queue, tick), 39, 0.0, 0.0),
        // Half a budget is complete by the first of two deadlines.
        (served(uniform.clone(), 10, 20, 20, Late::Queue, tick), 40, 1.0, 1.0),
        (served(uniform, 15, 20, 20, Late::Queue, tick), 20, 0.5, 0.5),
        (served(player.clone(), 27, 40, 40, Late::Queue, tick), 40, 0.999, 0.9999),
        (served(player.clone(), 27, 40, 40, Late::Skip, tick), 40, 0.999, 0.9999),
        (served(player.clone(), 27, 40, 40, Late::Skip, Enforcement::Exact), 40, 0.999, 0.9999),
        (served(player, 16, 40, 40, Late::Queue, tick), 80, 0.8, 0.99999),
    ] {
        let bound = task.clone().solve().unwrap().within(ms(limit));
        let p = bound.probability;
        assert!((low..=high).contains(&p), "{task:?} {limit}: {p}");
        assert!(!bound.theorem.is_empty() && !bound.source.is_empty());
        assert!(bound.steps.last().unwrap().contains("P{response"));
    }
}

#[test]
fn jitter_shortens_both_the_gap_and_the_limit() {
    let ms = Nanos::from_millis;
    let mut task = served(TimeDistribution::Constant(ms(10)), 10, 30, 30, Late::Queue, Enforcement::Exact);
    (task.gap, task.jitter) = (ms(30), ms(10));
    let response = task.solve().unwrap();
    assert_eq!(response.within(ms(40)).probability, 1.0);
    assert_eq!(response.within(ms(39)).probability, 0.0);
    assert_eq!(response.limit(1.0), Some(ms(40)));
    // Off the grid, with a deadline before the period, a job may have to wait for the next whole budget.
    let player = TimeDistribution::LogNormal { mean: ms(14), p99: ms(22) };
    let mut task = served(player, 18, 30, 40, Late::Queue, Enforcement::Exact);
    let on_the_grid = task.clone().solve().unwrap().probability(1);
    task.grid = false;
    let off_it = task.clone().solve().unwrap();
    assert_eq!((off_it.probability(1), off_it.probability(2)), (0.0, on_the_grid));
    assert_eq!(off_it.exact(2), None);
    assert!(
        off_it.within(ms(70)).steps[1].contains("the n-th by n x 40"),
        "{:?}",
        off_it.within(ms(70)).steps
    );
    // Where no job ever needs more than its budgets the server stays in step.
    let bounded = TimeDistribution::Uniform { low: ms(10), high: ms(17) };
    assert_eq!(ServedTask { work: bounded, ..task.clone() }.solve().unwrap().probability(1), 1.0);
    task.reservation.deadline = ms(40);
    assert_eq!(task.solve().unwrap().probability(1), on_the_grid);
    let late = served(TimeDistribution::Constant(ms(10)), 10, 50, 50, Late::Queue, Enforcement::Exact);
    assert_eq!(late.solve().unwrap_err(), CbsError::NoBudget);
}

/// A constant distance is a period, and chance in it costs.
#[test]
fn aperiodic_releases_are_bounded_by_the_same_rules() {
    let ms = Nanos::from_millis;
    let player = TimeDistribution::LogNormal { mean: ms(14), p99: ms(22) };
    let reservation = Reservation::implicit(ms(20), ms(40));
    let at = |distance: &TimeDistribution, reservation, limit| {
        aperiodic(&player, (distance, Nanos::ZERO), reservation, ms(limit)).unwrap()
    };
    let constant = TimeDistribution::Constant(ms(40));
    let on_grid = served(player.clone(), 20, 40, 40, Late::Queue, Enforcement::Exact).solve().unwrap();
    let bound = at(&constant, reservation, 40);
    assert!((bound.probability - on_grid.probability(1)).abs() < 1e-12);
    assert!(bound.residual.is_some_and(|r| r < 1e-9) && bound.steps.len() >= 4);
    let spread = TimeDistribution::Uniform { low: ms(20), high: ms(100) };
    assert!(at(&spread, reservation, 40).probability < bound.probability);
    assert!(at(&spread, reservation, 80).probability > at(&spread, reservation, 40).probability);
    assert_eq!(at(&spread, reservation, 39).probability, 0.0);
    // Done 10 ms earlier, but perhaps not begun before the next period.
    let early = Reservation { deadline: ms(30), ..reservation };
    assert_eq!(at(&spread, early, 69).probability, 0.0);
    assert_eq!(at(&spread, early, 70).probability, at(&spread, reservation, 40).probability);
}

#[test]
fn budgets_that_no_time_holds_are_refused() {
    let hours = |hours: i64| Nanos::from_secs(3600 * hours);
    let work = TimeDistribution::Exponential { mean: hours(1) };
    let modes =
        ModulatedWork { work: vec![TimeDistribution::Constant(hours(1))], transitions: vec![vec![1.0]] };
    let counting = Counting::All { inside: false };
    for (runtime, counts) in [(hours(24), (1 << 16, 1)), (hours(24), (1, 1 << 16)), (Nanos::MAX, (1, 1))] {
        let of = [
            proven_fraction(&work, runtime, counts, counting, Fineness::Rough),
            proven_fraction_with_modes(&modes, runtime, counts, counting, Fineness::Rough),
            proven_fraction_in_order(&[hours(1), hours(2)], runtime, counts, counting),
        ];
        assert!(of.iter().all(|found| matches!(found, Err(CbsError::TooLong { .. }))), "{of:?}");
    }
}
