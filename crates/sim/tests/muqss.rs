//! MuQSS against what its rules say by hand. No kernel of the lab has it.

mod common;

use common::{Bench, FAIR, fifo, ms, nice, periodic};
use surety_model::platform::Platform;
use surety_model::workload::PolicySpec;
use surety_sim::cpu::hardware::{Scheduling, ThreadId};
use surety_sim::cpu::policies::{self, muqss::deadline_ahead};
use surety_sim::cpu::program::Step;
use surety_units::Nanos;

const SLICE: Nanos = Nanos::from_micros(6_144);

const ISO: Scheduling = Scheduling::Policy(PolicySpec::Simulated { word: "iso", priority: 0, nice: 0 });
const BATCH: Scheduling = Scheduling::Policy(PolicySpec::Batch { nice: 0 });
const IDLE: Scheduling = Scheduling::Policy(PolicySpec::Idle);

fn machine(cpus: u32) -> Bench {
    let schedulers = ["deadline", "realtime", "muqss"].map(str::to_owned).to_vec();
    let tick = ms(1);
    Bench::new(Platform { schedulers, tick, fair_server: None, ..Platform::linux_6_18(cpus) })
}

fn spinners(bench: &mut Bench, count: usize, scheduling: Scheduling) -> Vec<ThreadId> {
    (0..count).map(|_| bench.spawn(scheduling, ms(0), &[Step::RunForever])).collect()
}

/// The figures of `cpu.md` 3.7, in units of 1.048576 ms.
#[test]
fn deadlines_lie_ahead_by_the_ratio_of_a_nice_value() {
    for (nice, units) in [(-20, 6.0), (-10, 15.19), (-8, 18.33), (0, 39.19), (19, 238.5)] {
        let found = deadline_ahead(nice) as f64 / 1_048_576.0;
        assert!((found - units).abs() < 0.05, "nice {nice}: {found}");
    }
}

#[test]
fn threads_of_one_nice_value_take_slices_in_turn() {
    let mut bench = machine(1);
    let all = spinners(&mut bench, 3, FAIR);
    bench.run(SLICE * 9);
    for thread in &all {
        assert_eq!(bench.run_of(*thread), SLICE * 3);
        assert_eq!(bench.machine.waits(*thread).1, SLICE * 2);
    }
}

/// A thread that sleeps keeps its deadline, so one that has slept comes before those that ran; what it left of a slice it has then.
#[test]
fn slices_and_deadlines_are_kept_while_a_thread_sleeps() {
    let mut bench = machine(1);
    let steps = [Step::Run(ms(2)), Step::SleepUntil(ms(20)), Step::Run(ms(8))];
    let sleeper = bench.spawn(FAIR, ms(0), &steps);
    let spinner = spinners(&mut bench, 1, FAIR)[0];
    bench.run(ms(60));
    // At 20 ms its deadline of 41.09 comes first: 4.144 ms of its slice are left. It has the rest of its work a slice later, since its
    // new deadline is then behind the spinner's of some instant before.
    let done = bench.finished(sleeper);
    assert_eq!((done[0], done[1]), (ms(2), ms(20)));
    let gap = done[2] - (ms(20) + ms(8));
    assert!(gap.is_positive() && gap <= SLICE, "{gap}");
    assert_eq!(bench.run_of(spinner), ms(50));
}

/// A19. On two CPUs eight spinners of nice 0 come round in 24.6 ms, before their deadlines of 41.1 ms; one of nice -10, with 15.9 ms, takes
/// over at once. On one CPU they come round in 49.2 ms, all of them late: up to three with earlier deadlines and the one that runs go first.
#[test]
fn a19_nice_minus_10_beside_eight_spinners_waits_no_longer_than_its_deadline() {
    let longest = |cpus: u32| {
        (0..50).map(move |phase| {
            let mut bench = machine(cpus);
            spinners(&mut bench, 8, FAIR);
            let start = ms(500) + Nanos::from_micros(613) * phase;
            let high = bench.spawn(nice(-10), start, &[Step::Run(ms(1))]);
            bench.run(ms(700));
            bench.finished(high)[0] - start - ms(1)
        })
    };
    let deadline = Nanos::new(deadline_ahead(-10));
    let (two, one) = (longest(2).max().unwrap(), longest(1).max().unwrap());
    assert!(deadline < ms(16) && two < ms(16), "{two}");
    assert!(one > ms(16) && one <= SLICE * 4, "{one}");
}

/// One of nice 0 has slice after slice until its next deadline is behind that of one of nice 19, (250.1 - 41.1) / 6.144 = 34.01 of them,
/// and then this has one: 1 / 36. The scheduler's own words are "3 % CPU compared to nice 0".
#[test]
fn nice_19_has_three_percent_beside_nice_0() {
    let mut bench = machine(1);
    let low = spinners(&mut bench, 1, nice(19))[0];
    spinners(&mut bench, 1, FAIR);
    bench.run(SLICE * 36 * 100);
    let share = bench.run_of(low).as_secs_f64() / (SLICE * 36 * 100).as_secs_f64();
    assert!((share - 1.0 / 36.0).abs() < 0.001, "{share}");
}

/// `iso` stands above the others until it has had 70 % of a CPU in the mean of 5 s: `5 s ln(1 / 0.3)` after it began, 6.0 s. Then both
/// have half until the mean is below 62 %: `5 s ln(70 / 62)` = 0.61 s, and it is above again for `5 s ln(38 / 30)` = 1.18 s, so it has
/// (0.30 + 1.18) / 1.79 = 83 %.
#[test]
fn iso_has_seventy_percent() {
    let mut bench = machine(1);
    let iso = spinners(&mut bench, 1, ISO)[0];
    let other = spinners(&mut bench, 1, FAIR)[0];
    bench.run(ms(5_900));
    assert_eq!((bench.run_of(iso), bench.run_of(other)), (ms(5_900), ms(0)));
    bench.run(Nanos::from_secs(6));
    let begin = bench.run_of(iso);
    bench.run(Nanos::from_secs(7));
    assert!(bench.run_of(other) > ms(300), "{begin}");
    bench.run(Nanos::from_secs(106));
    let share = (bench.run_of(iso) - begin).as_secs_f64() / 100.0;
    assert!((share - 0.83).abs() < 0.01, "{share}");
}

#[test]
fn idle_threads_run_where_nobody_else_does_and_batch_takes_over_from_nobody() {
    let mut bench = machine(1);
    let idle = spinners(&mut bench, 1, IDLE)[0];
    let jobs = bench.spawn(FAIR, ms(0), &periodic(ms(20), ms(5), 50));
    bench.run(Nanos::from_secs(1));
    assert_eq!(bench.run_of(idle), ms(750));
    assert_eq!(bench.machine.waits(jobs).1, Nanos::ZERO);

    // With an earlier deadline than the spinner's, one of nice 0 takes over at once and a batch one waits for the slice's end.
    for (scheduling, waits) in
        [(nice(-15), false), (Scheduling::Policy(PolicySpec::Batch { nice: -15 }), true)]
    {
        let mut bench = machine(1);
        spinners(&mut bench, 1, BATCH);
        let woken = bench.spawn(scheduling, ms(2), &[Step::Run(ms(1))]);
        bench.run(ms(40));
        assert_eq!(bench.finished(woken)[0], if waits { SLICE + ms(1) } else { ms(3) });
    }
}

/// A CPU that chooses takes the earliest deadline of all: three spinners on two CPUs have two thirds each.
#[test]
fn a_cpu_that_chooses_takes_the_earliest_deadline_of_all() {
    let mut bench = machine(2);
    // Of two that come at one instant neither is earlier.
    let all: Vec<ThreadId> = (0..3).map(|n| bench.spawn(FAIR, ms(n), &[Step::RunForever])).collect();
    bench.run(Nanos::from_secs(30));
    for thread in all {
        let share = bench.run_of(thread).as_secs_f64() / 30.0;
        assert!((share - 2.0 / 3.0).abs() < 0.005, "{share}");
    }
}

/// A realtime thread takes one of two CPUs: who ran there goes on at the other one as soon as that idles.
#[test]
fn who_is_preempted_goes_to_an_idle_cpu() {
    let mut bench = machine(2);
    let spinner = spinners(&mut bench, 1, FAIR)[0];
    bench.spawn_as(fifo(1), None, Some(0), ms(5), &[Step::RunForever]);
    bench.spawn_as(fifo(1), None, Some(1), ms(5), &[Step::Run(ms(10))]);
    bench.run(ms(100));
    assert_eq!(bench.run_of(spinner), ms(90));
}

#[test]
fn a_policy_that_only_it_takes_names_it() {
    let iso = PolicySpec::Simulated { word: "iso", priority: 0, nice: 0 };
    let kernel = Platform::linux_6_18(1).schedulers;
    let error = policies::for_policies(&kernel, [iso]).unwrap_err().to_string();
    assert!(error.contains("`iso`"), "{error}");
    let with = policies::for_policies(&["muqss".to_owned()], [iso]).unwrap();
    let words: Vec<&str> = with.iter().map(|row| row.word).collect();
    assert_eq!(words, ["deadline", "realtime", "muqss"]);
}
