//! What is accepted, proven and planned, against what the simulator does with it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use surety_analysis::AnalysisWorld;
use surety_analysis::foundation::{Foundation, ReservedThread};
use surety_analysis::response::ServedTask;
use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::plan::Plan;
use surety_model::platform::{Enforcement, Platform};
use surety_model::promise::Promise;
use surety_model::record::{Evidence, Record};
use surety_model::reservation::Reservation;
use surety_model::workload::{Late, Load, LoadKind, Release, Task, TaskBody, Work, Workload};
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_plan::{PlanOptions, plan};
use surety_sim::SimWorld;
use surety_stats::intervals::failure_lower;
use surety_stats::random::Pcg;
use surety_units::Nanos;

fn ms(n: i64) -> Nanos {
    Nanos::from_millis(n)
}

fn us(n: i64) -> Nanos {
    Nanos::from_micros(n)
}

fn machine(cpus: u32, ideal: bool) -> Platform {
    let platform = Platform::linux_6_18(cpus);
    if ideal { Platform { enforcement: Enforcement::Exact, ..platform } } else { platform }
}

fn simulated(platform: &Platform, workload: &Workload, duration: Nanos) -> Record {
    let options = RunOptions { duration, warm_up: Nanos::ZERO, ..RunOptions::default() };
    SimWorld::new(platform.clone()).run(workload, &options, &mut Unobserved).unwrap_or_else(|e| panic!("{e}"))
}

fn busy(cpus: u32) -> Load {
    Load::new("busy", LoadKind::Spinners, cpus * 2)
}

/// A reserved thread: greedy ones want the CPU for ever, the others exactly their budget in every period.
fn thread(name: &str, reservation: Reservation, greedy: bool, start: Nanos) -> Task {
    let mut task = Task::periodic(name, reservation.period, TimeDistribution::Constant(reservation.runtime));
    task.release = Release::Periodic { period: reservation.period, jitter: Nanos::ZERO, start };
    task.reservation = Some(reservation);
    if greedy {
        (task.body, task.release) = (TaskBody::Synthetic(Work::Forever), Release::Unspecified);
    } else {
        let limit = reservation.deadline.to_exact_string();
        task.promises.push(Promise::parse(&format!("response <= {limit}")).unwrap());
    }
    task
}

type Raw = (i64, i64, i64, bool, i64);

fn reservation_of((part, shape, period, _, _): &Raw) -> Reservation {
    let period = us(*period);
    let runtime = period.mul_ratio(u64::try_from(*part).unwrap(), 100).max(us(2));
    let deadline = runtime + (period - runtime).mul_ratio(u64::try_from(*shape).unwrap(), 10);
    Reservation { deadline, ..Reservation::implicit(runtime, period) }
}

/// Soundness: a set that admission, EDF and the fair server's argument accept misses no deadline in the simulator, beside busy
/// loops, on the ideal machine and on the tick, whoever else of the set is greedy. How many sets are refused that would not
/// have missed is printed: the price of the proof.
#[test]
fn what_is_accepted_never_misses() {
    let one = (2i64..45, 3i64..=10, 8_000i64..60_000, any::<bool>(), 0i64..20_000);
    let sets = (prop::collection::vec(one, 1..5), 1u32..3, any::<bool>());
    let (accepted, refused, needless) = (Cell::new(0u32), Cell::new(0u32), Cell::new(0u32));
    let config = ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&sets, |(raw, cpus, ideal)| {
        let platform = machine(cpus, ideal);
        let threads: Vec<ReservedThread> = raw
            .iter()
            .map(|r| ReservedThread { reservation: reservation_of(r), bounded: !r.3, sleeps: false })
            .collect();
        let foundation = Foundation::of(&threads, &platform);
        if foundation.refused.is_some() {
            return Ok(());
        }
        let tasks = raw.iter().enumerate();
        let tasks = tasks.map(|(i, r)| thread(&format!("t{i}"), reservation_of(r), r.3, us(r.4))).collect();
        let workload = Workload { tasks, loads: vec![busy(cpus)], ..Workload::default() };
        let record = simulated(&platform, &workload, ms(800));
        let mut missed = false;
        for i in raw.iter().enumerate().filter(|(_, r)| !r.3).map(|(i, _)| i) {
            let evidence = &record.activity(&format!("t{i}")).unwrap().promised[0].evidence;
            let (within, of) = evidence.counted().ok_or_else(|| TestCaseError::fail("not counted"))?;
            missed |= within < of;
        }
        if foundation.holds() {
            accepted.set(accepted.get() + 1);
            prop_assert!(!missed, "{platform:?} {raw:?}");
        } else {
            refused.set(refused.get() + 1);
            needless.set(needless.get() + u32::from(!missed));
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let (accepted, refused, needless) = (accepted.get(), refused.get(), needless.get());
    println!(
        "{accepted} accepted, none missed; {refused} refused, {needless} of them without a miss in 0.8 s"
    );
    assert!(accepted > 800 && refused > needless, "{accepted} {refused} {needless}");
}

fn works() -> impl Strategy<Value = TimeDistribution> {
    prop_oneof![
        (3_000i64..15_000, 11i64..22).prop_map(|(mean, spread)| TimeDistribution::LogNormal {
            mean: us(mean),
            p99: us(mean * spread / 10)
        }),
        (500i64..5_000, 8_000i64..30_000)
            .prop_map(|(low, more)| TimeDistribution::Uniform { low: us(low), high: us(low + more) }),
        (2_000i64..9_000).prop_map(|mean| TimeDistribution::Exponential { mean: us(mean) }),
        (prop::collection::vec((1_000i64..30_000, 1u64..20), 2..6)).prop_map(|pairs| {
            let pairs = pairs.into_iter().map(|(value, count)| (us(value), count)).collect();
            TimeDistribution::Empirical(Empirical::new(pairs).unwrap())
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// bound <= exact <= the simulation's upper confidence limit, on both machines and for whole fractions of the period.
    #[test]
    fn the_bound_is_below_the_exact_fraction_and_that_below_the_simulated_one(
        work in works(), load in 55i64..97, parts in 1i64..3, periods in 1i64..3, ideal: bool,
    ) {
        prop_assume!(work.check().is_ok());
        let platform = machine(1, ideal);
        let period = ms(40) / parts;
        let mean = surety_analysis::work::mean(&work) as i64;
        let runtime = Nanos::new(mean * 100 / load / parts);
        prop_assume!(runtime < period.mul_ratio(85, 100));
        let reservation = Reservation::implicit(runtime, period);
        let served = ServedTask {
            work: work.clone(), gap: ms(40), jitter: Nanos::ZERO, grid: true, late: Late::Queue, reservation,
            modes: None,
            enforcement: platform.enforcement,
        };
        let limit = ms(40 * periods);
        let within = served.budgets_within(limit);
        let Ok(response) = served.solve() else { return Ok(()) };
        let (bound, exact) = (response.probability(within), response.exact(within));
        let exact = exact.unwrap_or(bound);
        prop_assert!(bound <= exact + 1e-12, "{bound} {exact}");
        let mut task = Task::periodic("t", ms(40), work);
        task.late = Late::Queue;
        task.promises.push(Promise::parse(&format!("response <= {}ms @ 50%", 40 * periods)).unwrap());
        task.reservation = Some(reservation);
        let workload = Workload { tasks: vec![task], loads: vec![busy(1)], ..Workload::default() };
        let record = simulated(&platform, &workload, ms(40) * 4_000);
        let Some((within, of)) = record.activity("t").unwrap().promised[0].evidence.counted() else {
            return Err(TestCaseError::fail("not counted"));
        };
        // Near saturation late jobs come in clusters of dozens: what they are worth shrinks with the slack squared.
        let cluster = (400 / (100 - load).pow(2) + 10).unsigned_abs();
        let upper = 1.0 - failure_lower((of - within).div_ceil(cluster), of / cluster, 0.9999);
        prop_assert!(exact <= upper + 1e-9, "{exact} > {upper}: {within} of {of}");
    }
}

/// The smallest runtime with which the simulator keeps a promise, on 0.1 ms.
fn least_in_the_simulator(platform: &Platform, task: &Task, promised: f64) -> Nanos {
    let keeps = |runtime: Nanos| {
        let mut task = task.clone();
        task.reservation = Some(Reservation::implicit(runtime, ms(40)));
        let workload = Workload { tasks: vec![task], loads: vec![busy(1)], ..Workload::default() };
        let record = simulated(platform, &workload, ms(40) * 5_000);
        let (within, of) = record.activity("task").unwrap().promised[0].evidence.counted().unwrap();
        within as f64 >= promised * of as f64
    };
    let (mut low, mut high) = (Nanos::ZERO, us(36_000));
    assert!(keeps(high));
    while high - low > us(100) {
        let middle = us(100) * (low + (high - low) / 2).div_ceil(us(100));
        if middle >= high {
            break;
        }
        if keeps(middle) { high = middle } else { low = middle }
    }
    high
}

/// For server periods of ten ticks and more the planned bandwidth is at most 1.25 times the least with which the tick-aware
/// simulator keeps the promise.
#[test]
fn planned_bandwidth_is_at_most_a_quarter_above_the_simulated_minimum() {
    let log_normal = |mean, p99| TimeDistribution::LogNormal { mean: ms(mean), p99: ms(p99) };
    let two = Empirical::new(vec![(ms(5), 92), (ms(18), 8)]).unwrap();
    let platform = Platform::linux_6_18(1);
    assert!(ms(40) >= platform.tick * 10);
    for (name, work, percent) in [
        ("log-normal 14/22", log_normal(14, 22), 99.0),
        ("log-normal 14/22", log_normal(14, 22), 90.0),
        ("log-normal 8/24", log_normal(8, 24), 95.0),
        ("uniform 4..20", TimeDistribution::Uniform { low: ms(4), high: ms(20) }, 95.0),
        ("normal 12, 3", TimeDistribution::Normal { mean: ms(12), std_dev: ms(3) }, 99.0),
        ("exponential 5", TimeDistribution::Exponential { mean: ms(5) }, 95.0),
        ("5 or 18", TimeDistribution::Empirical(two), 95.0),
    ] {
        let mut task = Task::periodic("task", ms(40), work);
        task.late = Late::Queue;
        task.promises.push(Promise::parse(&format!("response <= 40ms @ {percent}%")).unwrap());
        let workload = Workload { tasks: vec![task.clone()], ..Workload::default() };
        let plan = plan(&workload, &BTreeMap::new(), &PlanOptions::new(platform.clone()));
        let planned =
            plan.reservation_of("task").unwrap_or_else(|| panic!("{:?}", plan.refusals)).reservation;
        let least = least_in_the_simulator(&platform, &task, percent / 100.0);
        let ratio = planned.bandwidth().as_f64() / (least.get() as f64 / ms(40).get() as f64);
        println!(
            "{name} @ {percent} %: planned {} in {}, least {least}: ratio {ratio:.3}",
            planned.runtime, planned.period
        );
        assert!((0.97..=1.25).contains(&ratio), "{name}: {ratio}");
    }
}

/// Off the grid of server periods, with the deadline before the period's end, a job that needs more than its budgets puts the
/// server out of step with the releases, and jobs behind it wait though nothing is left over when they come. (All that
/// find no backlog were counted: 85.4 % where 40.3 % are in time, in one of these.)
#[test]
fn a_server_out_of_step_is_counted() {
    let mut random = Pcg::new(7, 1);
    for round in 0..16 {
        let part = |low: u64, more: u64, random: &mut Pcg| i64::try_from(low + random.below(more)).unwrap();
        let (gap, period, deadline, runtime, more) = match round {
            0 => (50_000, 40_000, 20_000, 10_000, 1_000),
            _ => {
                let gap = part(30_000, 40_000, &mut random);
                let period = gap / part(1, 2, &mut random) * part(60, 40, &mut random) / 100;
                let deadline = period * part(30, 60, &mut random) / 100;
                let runtime = deadline * part(20, 70, &mut random) / 100;
                (gap, period, deadline, runtime, runtime * part(5, 80, &mut random) / 100)
            }
        };
        let between = gap / period;
        let heavy = between * runtime + more;
        let values = vec![(us(between * runtime - runtime / 10), 95), (us(heavy), 5)];
        let work = TimeDistribution::Empirical(Empirical::new(values).unwrap());
        let reservation =
            Reservation { deadline: us(deadline), ..Reservation::implicit(us(runtime), us(period)) };
        let platform = Platform { enforcement: Enforcement::Exact, ..Platform::linux_6_18(1) };
        let mut task = Task::periodic("t", us(gap), work.clone());
        (task.late, task.release) = (Late::Queue, Release::Sporadic { gap: us(gap) });
        task.reservation = Some(reservation);
        let served = ServedTask {
            work,
            gap: us(gap),
            jitter: Nanos::ZERO,
            grid: false,
            late: Late::Queue,
            reservation,
            modes: None,
            enforcement: platform.enforcement,
        };
        let Ok(response) = served.solve() else { continue };
        for budgets in 1..4 {
            let limit = us(deadline + (budgets - 1) * period);
            task.promises =
                vec![Promise::parse(&format!("response <= {} @ 50%", limit.to_exact_string())).unwrap()];
            let workload =
                Workload { tasks: vec![task.clone()], loads: vec![busy(1)], ..Workload::default() };
            let record = simulated(&platform, &workload, us(gap) * 3_000);
            let (within, of) = record.activity("t").unwrap().promised[0].evidence.counted().unwrap();
            let upper = 1.0 - failure_lower((of - within).div_ceil(8), of / 8, 0.9999);
            let bound = response.within(limit).probability;
            assert!(bound <= upper + 1e-9, "{reservation:?} {limit}: {bound} > {upper}: {within} of {of}");
        }
    }
}

/// What is planned for threads that may be reserved at any moment is in time whatever phase their budgets begin in: here a long
/// first job leaves each server out of step with the releases behind it.
#[test]
fn what_is_planned_for_any_phase_needs_no_phase() {
    let mut random = Pcg::new(15, 2);
    let (mut planned, mut early) = (0, 0);
    for round in 0..40u64 {
        let mut tasks = Vec::new();
        for name in ["a", "b", "c"] {
            let mut part = |low: u64, more: u64| i64::try_from(low + random.below(more)).unwrap();
            let period = ms(part(10, 90));
            let work = period * part(5, 15) / 100;
            let limit = (period * part(25, 75) / 100).max(work * 2);
            let mut task = Task::periodic(name, period, TimeDistribution::Constant(work));
            task.late = Late::Queue;
            task.promises.push(Promise::parse(&format!("response <= {}", limit.to_exact_string())).unwrap());
            tasks.push(task);
        }
        let workload = Workload { tasks, ..Workload::default() };
        let mut options = PlanOptions::new(Platform::linux_6_18(1));
        let in_step = plan(&workload, &BTreeMap::new(), &options);
        let is_early =
            |plan: &Plan| plan.reservations.iter().any(|p| p.reservation.deadline < p.reservation.period);
        early += u32::from(is_early(&in_step));
        options.any_phase = true;
        let plan = plan(&workload, &BTreeMap::new(), &options);
        assert!(!is_early(&plan), "{plan:?}");
        if plan.reservations.is_empty() {
            continue;
        }
        planned += 1;
        let mut reserved = plan.apply_to(&workload);
        reserved.tasks.retain(|task| task.reservation.is_some());
        for task in &mut reserved.tasks {
            let TaskBody::Synthetic(Work::Drawn(TimeDistribution::Constant(work))) = task.body else {
                continue;
            };
            // The first job is longer by a part of the budget, the others are as declared.
            let budget = task.reservation.unwrap().runtime;
            let first = work + budget.mul_ratio(1 + random.below(999), 1000);
            let jobs: Vec<Nanos> = std::iter::once(first).chain(std::iter::repeat_n(work, 2_000)).collect();
            let sequence = TimeDistribution::Empirical(Empirical::in_order(&jobs).unwrap());
            task.body = TaskBody::Synthetic(Work::Drawn(sequence));
        }
        reserved.loads.push(busy(1));
        // The long jobs are over long before the half of it.
        let run =
            RunOptions { duration: ms(10_000), warm_up: ms(8_000), seed: round, ..RunOptions::default() };
        let record = SimWorld::new(options.platform.clone()).run(&reserved, &run, &mut Unobserved).unwrap();
        for task in &reserved.tasks {
            let (within, of) = record.activity(&task.name).unwrap().promised[0].evidence.counted().unwrap();
            assert_eq!(within, of, "{}: {:?} of {:?}", task.name, task.reservation, workload.tasks);
        }
    }
    assert!(planned > 15 && early > 15, "{planned} planned, {early} with early deadlines otherwise");
}

/// Releases farther apart than their gap: the analysis counts the distances that `spacing` draws, and is below the simulator.
#[test]
fn drawn_distances_are_analysed_and_simulated() {
    let player = |mean: i64, p99: i64| TimeDistribution::LogNormal { mean: ms(mean), p99: ms(p99) };
    let exponential = |mean: i64| TimeDistribution::Exponential { mean: ms(mean) };
    let uniform = |low: i64, high: i64| TimeDistribution::Uniform { low: ms(low), high: ms(high) };
    let platform = machine(1, true);
    for (gap, spacing, work, runtime, deadline, period, limit, least) in [
        // Of the gap alone nothing follows: it is below the server's period.
        (1, exponential(60), player(14, 22), 20, 40, 40, 120, 0.5),
        (10, uniform(20, 90), player(8, 14), 10, 20, 20, 60, 0.9),
        (10, uniform(20, 90), player(8, 14), 10, 12, 20, 72, 0.9),
        (30, exponential(20), player(9, 12), 13, 30, 30, 30, 0.9),
    ] {
        let reservation =
            Reservation { deadline: ms(deadline), ..Reservation::implicit(ms(runtime), ms(period)) };
        let mut task = Task::periodic("t", ms(gap), work);
        (task.release, task.spacing) = (Release::Sporadic { gap: ms(gap) }, Some(spacing));
        (task.late, task.reservation) = (Late::Queue, Some(reservation));
        task.promises.push(Promise::parse(&format!("response <= {limit}ms @ 50%")).unwrap());
        let workload = Workload { tasks: vec![task], loads: vec![busy(1)], ..Workload::default() };
        let options = RunOptions::default();
        let analysed =
            AnalysisWorld::new(platform.clone()).run(&workload, &options, &mut Unobserved).unwrap();
        let Evidence::Proven { at_least, because } = analysed.activities[0].promised[0].evidence.clone()
        else {
            panic!("{:?}", analysed.activities[0].promised)
        };
        assert!(at_least >= least, "{at_least}: {because}");
        let record = simulated(&platform, &workload, ms(60) * 20_000);
        let (within, of) = record.activity("t").unwrap().promised[0].evidence.counted().unwrap();
        let upper = 1.0 - failure_lower((of - within).div_ceil(8), of / 8, 0.9999);
        assert!(at_least <= upper + 1e-9, "{reservation:?}: {at_least} > {upper}: {within} of {of}");
        // A task that gives up releases is not covered.
        let mut skipping = workload.clone();
        skipping.tasks[0].late = Late::Skip;
        let seen = AnalysisWorld::new(platform.clone()).run(&skipping, &options, &mut Unobserved).unwrap();
        let is_spaced =
            |e: &Evidence| matches!(e, Evidence::Proven { because, .. } if because.contains("aperiodic"));
        assert!(!is_spaced(&seen.activities[0].promised[0].evidence));
    }
}
