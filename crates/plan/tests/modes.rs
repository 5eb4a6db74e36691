//! Work that comes in scenes: predicted with its modes and as if it were independent, against the simulator; planned and verified.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::collections::BTreeMap;

use surety_analysis::cbs::modulated::ModulatedBacklog;
use surety_analysis::sampled::modes::MeasuredModes;
use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::modes::modes;
use surety_model::platform::{Enforcement, Platform};
use surety_model::promise::Promise;
use surety_model::reservation::Reservation;
use surety_model::workload::{Load, LoadKind, Task, Workload};
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_plan::check::check;
use surety_plan::{PlanOptions, plan, plan_in_full};
use surety_sim::SimWorld;
use surety_stats::random::Pcg;
use surety_units::Nanos;

const PERIOD: Nanos = Nanos::from_millis(20);

/// Scenes of 40 jobs on average: still 1 ms, moving 4 ms, noise 7 ms, each with its spread.
fn film(jobs: usize, seed: u128) -> Vec<Nanos> {
    let mut generator = Pcg::new(seed, 1);
    let kinds = [(1.0, 0.3), (4.0, 0.2), (7.0, 0.1)];
    let mut kind = 0;
    (0..jobs)
        .map(|_| {
            if generator.below(40) == 0 {
                kind = (kind + 1 + generator.below(2) as usize) % 3;
            }
            let (mean, spread) = kinds[kind];
            Nanos::from_f64_rounded(1e6 * mean * libm::exp(spread * generator.normal()))
        })
        .collect()
}

fn player(work: TimeDistribution) -> Task {
    let mut task = Task::periodic("player", PERIOD, work);
    task.promises = vec![Promise::parse("response <= 20ms @ 90%").unwrap()];
    task
}

/// Which jobs are late, by the recursion of the backlog.
fn late(film: &[Nanos], runtime: Nanos) -> Vec<bool> {
    let mut backlog = Nanos::ZERO;
    film.iter()
        .map(|work| {
            let all = backlog + *work;
            backlog = (all - runtime).max(Nanos::ZERO);
            all > runtime
        })
        .collect()
}

/// Mean and half of a 95 % interval by the means of twenty batches (Student, 19 degrees of freedom).
fn by_batches(late: &[bool]) -> (f64, f64) {
    let batches: Vec<f64> = late
        .chunks_exact(late.len() / 20)
        .map(|batch| batch.iter().filter(|l| **l).count() as f64 / batch.len() as f64)
        .collect();
    let n = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / n;
    let variance = batches.iter().map(|b| (b - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, 2.093 * (variance / n).sqrt())
}

#[test]
fn modes_predict_what_the_simulator_measures_and_independence_does_not() {
    let runtime = Nanos::from_micros(6_900);
    let learnt = modes(&film(8_000, 1)).unwrap();
    assert!(learnt.modes() >= 3, "{}", learnt.describe());
    let measured = MeasuredModes::of(&learnt).as_measured();
    let backlog = ModulatedBacklog::stationary(&measured, runtime, 1).unwrap();
    let predicted = 1.0 - backlog.solution.within(1).value;
    let independent = 1.0 - backlog.independent.within(1).value;
    // Another film of the same kind.
    let shown = film(40_000, 2);
    let late = late(&shown, runtime);
    let (mean, half) = by_batches(&late);
    let exact = Platform { enforcement: Enforcement::Exact, ..Platform::linux_6_18(1) };
    let mut task = player(TimeDistribution::Empirical(Empirical::in_order(&shown).unwrap()));
    task.reservation = Some(Reservation::implicit(runtime, PERIOD));
    let busy = Load::new("busy", LoadKind::Spinners, 2);
    let workload = Workload { tasks: vec![task], loads: vec![busy], ..Workload::default() };
    let options =
        RunOptions { duration: PERIOD * shown.len() as i64, warm_up: Nanos::ZERO, ..RunOptions::default() };
    let record = SimWorld::new(exact).run(&workload, &options, &mut Unobserved).unwrap();
    let (within, of) = record.activity("player").unwrap().promised[0].evidence.counted().unwrap();
    let simulated = 1.0 - within as f64 / of as f64;
    assert!((simulated - mean).abs() < 0.01 * mean + 1e-3, "{simulated} {mean}");
    assert!((predicted - mean).abs() <= half, "{predicted} is not {mean} +- {half}");
    assert!(independent < mean - half, "{independent} is inside {mean} +- {half}");
    assert!(independent < 0.75 * predicted, "{independent} {predicted}");
}

#[test]
fn a_film_is_planned_for_its_modes_and_the_plan_is_verified() {
    let shown = film(3_000, 3);
    let work = TimeDistribution::Empirical(Empirical::in_order(&shown).unwrap());
    let mut shuffled = shown.clone();
    let mut generator = Pcg::new(4, 4);
    for place in (1..shuffled.len()).rev() {
        shuffled.swap(place, generator.below(place as u64 + 1) as usize);
    }
    let without = TimeDistribution::Empirical(Empirical::in_order(&shuffled).unwrap());
    let options = PlanOptions::new(Platform::linux_6_18(1));
    let of = |work: &TimeDistribution| Workload { tasks: vec![player(work.clone())], ..Workload::default() };
    let planned = plan_in_full(&of(&work), &BTreeMap::new(), &options, false);
    assert!(planned.plan.refusals.is_empty(), "{:?}", planned.plan.refusals);
    let with = planned.plan.reservation_of("player").unwrap();
    let independent = plan(&of(&without), &BTreeMap::new(), &options);
    let independent = independent.reservation_of("player").unwrap();
    assert!(
        with.reservation.bandwidth() > independent.reservation.bandwidth(),
        "{:?} {:?}",
        with.reservation,
        independent.reservation
    );
    let proof = &with.proof;
    assert!(proof.theorem.contains("modes"), "{}", proof.theorem);
    for name in
        ["work in mode 2", "transitions between modes", "BIC by number of modes", "residuals of the modes"]
    {
        assert!(proof.inputs.iter().any(|input| input.name == name), "{name}: {:?}", proof.inputs);
    }
    for words in ["as if it were", "with modes: P{", "as if work were independent"] {
        assert!(proof.steps.iter().any(|step| step.contains(words)), "{words}: {:?}", proof.steps);
    }
    assert!(!independent.proof.theorem.contains("modes"));
    let checked = check(&planned.plan, &planned.claims).unwrap();
    assert!(checked.iter().all(surety_plan::check::Checked::agrees), "{checked:?}");
    assert!(checked[0].findings.iter().any(|f| f.by.contains("modes")), "{checked:?}");
    // The sampling error costs, too.
    let sampled = PlanOptions { empirical_are_samples: true, ..options };
    let sampled = plan(&of(&work), &BTreeMap::new(), &sampled);
    assert!(sampled.refusals.is_empty(), "{:?}", sampled.refusals);
    let sampled = sampled.reservation_of("player").unwrap();
    assert!(sampled.reservation.bandwidth() > with.reservation.bandwidth());
    // Nothing is taken to be independent but jobs inside a mode.
    let assumed = &sampled.proof.assumptions;
    assert!(assumed.iter().any(|words| words.contains("inside a mode")), "{assumed:?}");
    assert!(!assumed.iter().any(|words| words.starts_with("jobs are independent")), "{assumed:?}");
}

/// Light work near a mean, then heavy work.
fn light_then_heavy(light: usize, heavy: usize) -> Vec<Nanos> {
    let mut generator = Pcg::new(6, 2);
    let mut near = |mean: f64| Nanos::from_f64_rounded(1e6 * mean * libm::exp(0.02 * generator.normal()));
    let mut jobs: Vec<Nanos> = (0..light).map(|_| near(1.0)).collect();
    jobs.extend((0..heavy).map(|_| near(19.0)));
    jobs
}

/// Nothing below 100 jobs is learnt from, and no stretch that is looked at may hide another: every job counts.
#[test]
fn declared_jobs_are_never_claimed_to_be_independent() {
    let options = PlanOptions::new(Platform::linux_6_18(1));
    for jobs in [light_then_heavy(84, 6), light_then_heavy(700, 50)] {
        let mut turned = jobs.clone();
        turned.rotate_left(jobs.len() - jobs.len() / 15);
        let mut budgets = Vec::new();
        for jobs in [jobs, turned] {
            let work = TimeDistribution::Empirical(Empirical::in_order(&jobs).unwrap());
            let workload = Workload { tasks: vec![player(work)], ..Workload::default() };
            let planned = plan_in_full(&workload, &BTreeMap::new(), &options, false);
            assert!(planned.plan.refusals.is_empty(), "{:?}", planned.plan.refusals);
            let reserved = planned.plan.reservation_of("player").unwrap();
            let proven = reserved.proof.probability.unwrap();
            assert!(reserved.proof.steps.iter().any(|step| step.contains("jobs in their order")));
            // In the simulator, without the costs of a budget, at least as many are in time as are proven.
            let mut task = workload.tasks[0].clone();
            task.reservation = Some(reserved.reservation);
            let busy = Load::new("busy", LoadKind::Spinners, 2);
            let run = Workload { tasks: vec![task], loads: vec![busy], ..Workload::default() };
            let duration = PERIOD * (3 * jobs.len() as i64);
            let run_options = RunOptions { duration, warm_up: Nanos::ZERO, ..RunOptions::default() };
            let record =
                SimWorld::new(Platform::linux_6_18(1)).run(&run, &run_options, &mut Unobserved).unwrap();
            let (within, of) = record.activity("player").unwrap().promised[0].evidence.counted().unwrap();
            let seen = within as f64 / of as f64;
            assert!(seen >= proven - 1.0 / of as f64 && seen >= 0.9, "{seen} {proven}");
            let checked = check(&planned.plan, &planned.claims).unwrap();
            assert!(checked.iter().all(surety_plan::check::Checked::agrees), "{checked:?}");
            assert!(checked[0].findings.iter().any(|f| f.by.contains("in their order")), "{checked:?}");
            budgets.push(reserved.reservation.runtime);
        }
        // Where the heavy ones stand is no matter.
        assert_eq!(budgets[0], budgets[1]);
        // As if independent less would do.
        assert!(budgets[0] > Nanos::from_millis(11), "{budgets:?}");
    }
}

/// A second half unlike the first is a chain: after the last job comes the first.
#[test]
fn modes_that_never_repeat_are_planned() {
    let options = PlanOptions::new(Platform::linux_6_18(1));
    let mut generator = Pcg::new(8, 2);
    let mut near = |mean: f64| Nanos::from_f64_rounded(1e6 * mean * libm::exp(0.1 * generator.normal()));
    let mut jobs: Vec<Nanos> = (0..300).map(|_| near(1.0)).collect();
    jobs.extend((0..300).map(|_| near(9.0)));
    let work = TimeDistribution::Empirical(Empirical::in_order(&jobs).unwrap());
    let planned =
        plan(&Workload { tasks: vec![player(work)], ..Workload::default() }, &BTreeMap::new(), &options);
    assert!(planned.refusals.is_empty(), "{:?}", planned.refusals);
    let most = jobs.iter().max().copied().unwrap();
    let runtime = planned.reservation_of("player").unwrap().reservation.runtime;
    // A tenth may be late, so less than the largest is enough, and not less than the heavy half needs on average.
    assert!(runtime > Nanos::from_millis(9) && runtime < most + Nanos::from_millis(1), "{runtime} {most}");
}
