//! Runs made by chance, with the drifts and bursts of real machines: how often equal sides are called different, and
//! how often a shift of 10 % of the median is called.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use surety_compare::order::interleaved;
use surety_compare::{Comparison, Options, Side, Verdict, Warning, compare};
use surety_model::record::{ActivityRecord, Basis, Distribution, Figure, InForce, Observed, Record};
use surety_model::workload::ActivityKind;
use surety_stats::Pcg;
use surety_stats::intervals::failure_lower;
use surety_units::Nanos;

/// Pairs of runs that `surety run --ab` takes by default.
const PAIRS: usize = 8;
/// Deviation of a run's level from the next, as a part of it.
const RUN_TO_RUN: f64 = 0.03;

/// A record of a task whose activations take about `level` ns, and of a load with a rate.
fn record(level: f64, rate: f64, pcg: &mut Pcg) -> Record {
    let mut task = ActivityRecord::new("player", ActivityKind::Task, Basis::Sample);
    let (mut response, mut latency) = (Observed::default(), Observed::default());
    let mut slow = 0.0;
    for _ in 0..150 {
        // Slow spells: neighbours are alike.
        slow = 0.9 * slow + 0.1 * pcg.normal();
        let wait = level * 0.05 * libm::exp(0.8 * pcg.normal() + slow);
        latency.record(Nanos::from_f64_rounded(wait));
        response.record(Nanos::from_f64_rounded(level + wait));
        task.missed += u64::from(wait > 0.4 * level);
    }
    task.activations = 150;
    task.completed = 150;
    task.deadline = Some(Nanos::from_f64_rounded(1.4e6));
    task.response = Some(Distribution::from(response));
    task.latency = Some(Distribution::from(latency));
    let mut load = ActivityRecord::new("busy", ActivityKind::Load, Basis::Sample);
    load.figures.push(Figure { name: "rate".to_owned(), value: rate, unit: "/s".into() });
    Record {
        world: "host".to_owned(),
        reserved: false,
        seed: Some(1),
        duration: Some(Nanos::SECOND),
        in_force: InForce::default(),
        degraded: Vec::new(),
        activities: vec![task, load],
        trace: None,
        hash: None,
    }
}

/// How the machine's speed goes from run to run, as a factor.
#[derive(Clone, Copy, Debug)]
enum Machine {
    Steady,
    Drifting,
    Remembering,
    Bursting,
    InStep,
}

const MACHINES: [Machine; 5] =
    [Machine::Steady, Machine::Drifting, Machine::Remembering, Machine::Bursting, Machine::InStep];

/// Compares sides of `PAIRS` interleaved runs; the response of `B` is `factor` times as long.
fn trial(machine: Machine, factor: f64, trial: u64, options: &Options) -> Comparison {
    let mut pcg = Pcg::for_job(91, machine as u64, trial);
    let mut sides: [Vec<Record>; 2] = [Vec::new(), Vec::new()];
    let mut memory = pcg.normal();
    for (place, side) in interleaved(2, PAIRS, trial).into_iter().flatten().enumerate() {
        memory = 0.8 * memory + 0.6 * pcg.normal();
        let chance = RUN_TO_RUN * pcg.normal();
        let level = match machine {
            Machine::Steady => chance,
            Machine::Drifting => chance + 0.01 * place as f64,
            Machine::Remembering => RUN_TO_RUN * memory,
            Machine::Bursting if pcg.below(5) == 0 => chance.abs() * 10.0,
            Machine::Bursting => chance,
            // Every fourth run and the next meet something else: the period of A B B A.
            Machine::InStep => chance + if place % 4 < 2 { 0.05 } else { 0.0 },
        };
        let rate = 1e6 * (1.0 - level);
        let of_side = if side == 1 { factor } else { 1.0 };
        sides[side].push(record(1e6 * (1.0 + level) * of_side, rate, &mut pcg));
    }
    compare(&side("A", &sides[0]), &side("B", &sides[1]), options)
}

fn side<'a>(label: &str, runs: &'a [Record]) -> Side<'a> {
    Side { label: label.to_owned(), runs: runs.iter().collect(), workload: None }
}

/// Equal sides are called different in any metric in at most 5 % of 200 comparisons; more than that with 95 %
/// confidence fails.
#[test]
fn equal_sides_are_called_different_in_at_most_five_percent() {
    for machine in MACHINES {
        let called = (0..200).filter(|&t| trial(machine, 1.0, t, &Options::default()).differs()).count();
        eprintln!("{machine:?}: {called} of 200 equal sides called different");
        assert!(failure_lower(called as u64, 200, 0.95) <= 0.05, "{machine:?}: {called} of 200");
    }
}

/// A response 10 % longer is called worse in the median in at least 95 %, with 8 pairs and runs that differ by 3 %.
#[test]
fn a_shift_of_a_tenth_is_called() {
    let called = (0..200)
        .filter(|&t| {
            let comparison = trial(Machine::Steady, 1.1, t, &Options::default());
            let row = comparison.rows.iter().find(|r| r.metric == "response p50").unwrap();
            row.verdict == Verdict::Worse
        })
        .count();
    eprintln!("{called} of 200 shifts of 10 % called");
    assert!(called >= 190, "{called} of 200");
}

#[test]
fn too_few_runs_tell_nothing_and_say_how_many_are_missing() {
    let mut pcg = Pcg::for_job(1, 1, 1);
    let (a, b) = ([record(1e6, 1e6, &mut pcg)], [record(2e6, 1e6, &mut pcg)]);
    let comparison = compare(&side("A", &a), &side("B", &b), &Options::default());
    assert!(!comparison.differs());
    let median = comparison.rows.iter().find(|r| r.metric == "response p50").unwrap();
    assert_eq!(median.verdict, Verdict::CannotTell);
    // Twice as long beyond any doubt, within these two runs.
    assert!(median.within.unwrap().interval.0 > 0.8e6, "{median:?}");
    // Five metrics vary; 2/C(10,5) times 5 is 0.04.
    assert_eq!((comparison.family, comparison.more_runs), (5, (4, 4)));
}

#[test]
fn what_is_asked_for_is_judged_and_nothing_else() {
    let options =
        Options { metrics: vec!["p50 response".to_owned(), "rate".to_owned()], ..Options::default() };
    let comparison = trial(Machine::Steady, 1.0, 1, &options);
    let names: Vec<&str> = comparison.rows.iter().map(|r| r.metric.as_str()).collect();
    assert_eq!(names, ["response p50", "rate"]);
    assert_eq!(comparison.family, 2);
}

#[test]
fn what_differs_besides_the_variable_is_told() {
    let mut pcg = Pcg::for_job(1, 1, 2);
    let a = record(1e6, 1e6, &mut pcg);
    let mut b = record(1e6, 1e6, &mut pcg);
    b.in_force.kernel = "6.12".to_owned();
    b.seed = Some(2);
    b.in_force.environment.insert("governor".to_owned(), "powersave".to_owned());
    b.reserved = true;
    b.degraded = vec!["3 events were lost".to_owned()];
    let options = Options { studied: Some("task.player.reservation".to_owned()), ..Options::default() };
    let comparison = compare(&side("A", &[a]), &side("B", &[b]), &options);
    let words: Vec<String> = comparison.warnings.iter().map(ToString::to_string).collect();
    for wanted in ["kernel", "seed", "governor", "events were lost"] {
        assert!(words.iter().any(|w| w.contains(wanted)), "{wanted}: {words:?}");
    }
    assert!(!words.iter().any(|w| w.contains("reservations")), "{words:?}");
    assert_eq!(comparison.studied.len(), 1);
}

/// A record whose responses go up and down slowly: an autoregression with this correlation of neighbours.
fn autoregressive(correlation: f64, run: u64) -> Record {
    let mut pcg = Pcg::for_job(17, 23, run);
    let mut level = pcg.normal() / libm::sqrt(1.0 - correlation * correlation);
    let mut response = Observed::default();
    for _ in 0..1_500 {
        level = correlation * level + pcg.normal();
        response.record(Nanos::from_f64_rounded(2e6 + 1e5 * level));
    }
    let mut whole = record(1e6, 1e6, &mut pcg);
    whole.activities[0].response = Some(Distribution::from(response));
    whole
}

/// The interval within two single runs of the same thing covers 0 about as often as said, though neighbours are
/// alike; drawn one by one it would in about half of the runs only (correlation 0.8: nine activations are worth one).
#[test]
fn the_interval_within_dependent_runs_is_honest() {
    let options = Options { metrics: vec!["response p50".to_owned()], ..Options::default() };
    for correlation in [0.0, 0.8] {
        let mut covered = 0;
        for run in 0..100 {
            let (a, b) = (autoregressive(correlation, 2 * run), autoregressive(correlation, 2 * run + 1));
            let comparison = compare(&side("A", &[a]), &side("B", &[b]), &options);
            // Where both medians fall into one bucket, they are the same and nothing is tested.
            let Some(within) = comparison.rows[0].within else {
                covered += 1;
                continue;
            };
            assert_eq!(within.blocks.0 > 10, correlation > 0.0, "{within:?}");
            covered += u64::from(within.interval.0 <= 0.0 && within.interval.1 >= 0.0);
        }
        eprintln!("correlation {correlation}: {covered} of 100 intervals cover no difference");
        // A percentile interval of blocks is a little narrow: 90 % are asked of one that says 95 %.
        assert!(failure_lower(100 - covered, 100, 0.95) <= 0.1, "{correlation}: {covered} of 100");
    }
}

/// A run of values whose order is not known, as an import has it, gets no interval, and it is said.
#[test]
fn without_the_order_there_is_no_interval() {
    let mut pcg = Pcg::for_job(1, 1, 1);
    let (a, mut b) = (record(1e6, 1e6, &mut pcg), record(2e6, 1e6, &mut pcg));
    let forget = |d: &mut Option<Distribution>| {
        let histogram = d.as_ref().unwrap().observed().unwrap().histogram.clone();
        *d = Some(Distribution::from(Observed::of_histogram(histogram)));
    };
    forget(&mut b.activities[0].response);
    let comparison = compare(&side("A", &[a]), &side("B", &[b]), &Options::default());
    let within = |metric: &str| comparison.rows.iter().find(|r| r.metric == metric).unwrap().within;
    assert!(within("response p50").is_none() && within("latency p50").is_some());
    let told = comparison.warnings.iter().find(|w| matches!(w, Warning::Unordered { metrics: 1.. })).unwrap();
    assert!(told.to_string().contains("order of its activations"), "{told}");
}
