//! The scheduler under which all miss by the same part, against what its rule says. No kernel has it.

mod common;

use common::{Bench, FAIR, exact, ms, options, overcommitted, periodic, reserved, workload};
use surety_model::platform::Platform;
use surety_model::world::{Unobserved, World as _};
use surety_sim::SimWorld;
use surety_sim::cpu::hardware::ThreadId;
use surety_sim::cpu::program::Step;
use surety_stats::Pcg;
use surety_units::{Bandwidth, Nanos};

fn machine(cpus: u32) -> Bench {
    let schedulers = ["deadline", "overcommit", "realtime", "fair"].map(str::to_owned).to_vec();
    Bench::new(Platform { schedulers, deadline_cap: Bandwidth::ONE, ..exact(cpus) })
}

/// Spinners that ask for `Q` in every `T`, ms.
fn greedy(bench: &mut Bench, requests: &[(i64, i64)]) -> Vec<ThreadId> {
    let mut spawn =
        |(q, t): &(i64, i64)| bench.spawn(overcommitted(ms(*q), ms(*t)), ms(0), &[Step::RunForever]);
    requests.iter().map(&mut spawn).collect()
}

/// What each got of what it asked for, from one instant to another.
fn parts(
    bench: &mut Bench,
    threads: &[ThreadId],
    requests: &[(i64, i64)],
    from: Nanos,
    to: Nanos,
) -> Vec<f64> {
    bench.run(from);
    let before: Vec<Nanos> = threads.iter().map(|thread| bench.run_of(*thread)).collect();
    bench.run(to);
    let got = threads.iter().zip(before).map(|(thread, before)| bench.run_of(*thread) - before);
    let part = |(got, (q, t)): (Nanos, &(i64, i64))| {
        got.as_secs_f64() / (to - from).as_secs_f64() / (*q as f64 / *t as f64)
    };
    got.zip(requests).map(part).collect()
}

/// The largest less the smallest.
fn spread(parts: &[f64]) -> f64 {
    parts.iter().copied().fold(f64::MIN, f64::max) - parts.iter().copied().fold(f64::MAX, f64::min)
}

/// A22: .3, .6 and .5 asked for, 1.4 in all, over 100 periods of the longest: .214, .429 and .357 got, each 71.4 %. (`cpu.md` 4.1 has .286 as
/// the third, which would be 71.4 % of .4.)
#[test]
fn a22_all_miss_by_the_same_part() {
    let requests = [(30, 100), (24, 40), (35, 70)];
    let mut bench = machine(1);
    let threads = greedy(&mut bench, &requests);
    let parts = parts(&mut bench, &threads, &requests, ms(0), ms(14_000));
    assert!(spread(&parts) <= 0.01, "{parts:?}");
    for ((thread, part), got) in threads.iter().zip(&parts).zip([0.214, 0.429, 0.357]) {
        assert!((bench.run_of(*thread).as_secs_f64() / 14.0 - got).abs() < 0.001, "{got}: {part}");
        assert!((part - 1.0 / 1.4).abs() < 0.002, "{part}");
    }
}

/// Drawn requests on one and several CPUs, on ticks too, from a half to three times what there is.
#[test]
fn drawn_requests_miss_by_the_same_part() {
    let mut random = Pcg::new(5, 22);
    let mut widest: f64 = 0.0;
    for case in 0..60 {
        let cpus = 1 + case % 3;
        let count = 2 * u64::from(cpus) + 1 + random.below(6);
        let request = |random: &mut Pcg| {
            let period = [20, 40, 50, 80, 100][random.below(5) as usize];
            (period * (1 + random.below(9) as i64) / 10, period)
        };
        let requests: Vec<(i64, i64)> = (0..count).map(|_| request(&mut random)).collect();
        let asked: f64 = requests.iter().map(|(q, t)| *q as f64 / *t as f64).sum();
        let mut bench = machine(cpus);
        let threads = greedy(&mut bench, &requests);
        let parts = parts(&mut bench, &threads, &requests, ms(400), ms(10_400));
        let expected = (f64::from(cpus) / asked).min(1.0);
        // Global EDF on several CPUs may be late by a budget; shares are had all the same.
        widest = widest.max(spread(&parts));
        for part in &parts {
            assert!(
                (part - expected).abs() < 0.01,
                "{cpus} CPUs, {requests:?}: {parts:?}, expected {expected}"
            );
        }
    }
    assert!(widest <= 0.01, "{widest}");
}

/// A22: a hard reservation has its budgets to the nanosecond, whatever comes and goes below it.
#[test]
fn a22_entering_and_leaving_overload_leaves_hard_reservations_alone() {
    let mut bench = machine(1);
    let hard = bench.spawn(reserved(ms(3), ms(10)), ms(0), &periodic(ms(10), ms(3), 1_000));
    let stays = bench.spawn(overcommitted(ms(40), ms(100)), ms(0), &[Step::RunForever]);
    for n in 0..6 {
        let start = ms(1_000 + 1_137 * n);
        bench.spawn(overcommitted(ms(25), ms(50)), start, &[Step::Run(ms(300))]);
    }
    bench.run(ms(10_000));
    let done: Vec<Nanos> = bench.finished(hard).iter().step_by(2).copied().collect();
    assert_eq!(done.len(), 1_000);
    for (job, done) in (0..).zip(done) {
        assert_eq!(done, ms(10) * job + ms(3));
    }
    // Room for 0.7: alone it has all of its 0.4, beside one of 0.5 seven ninths.
    assert!(bench.run_of(stays) > ms(3_111) && bench.run_of(stays) < ms(4_000), "{}", bench.run_of(stays));
}

/// Below the cap it is a constant-bandwidth server: budgets and deadlines are kept, and what is left goes to fair threads.
#[test]
fn requests_that_fit_are_plain_reservations() {
    let mut bench = machine(1);
    let jobs = [(2, 5), (4, 7)]
        .map(|(q, t)| bench.spawn(overcommitted(ms(q), ms(t)), ms(0), &periodic(ms(t), ms(q), 200)));
    let fair = bench.spawn(FAIR, ms(0), &[Step::RunForever]);
    bench.run(ms(1_000));
    for (thread, t) in jobs.into_iter().zip([5, 7]) {
        for (job, done) in (1..).zip(bench.finished(thread).iter().step_by(2)) {
            assert!(*done <= ms(t) * job, "{job}: {done}");
        }
    }
    let left = bench.run_of(fair);
    assert!(left >= ms(28) && left < ms(36), "{left}");
}

/// By a file, on the kernel's tick: what a machine with a fair server leaves is 90 % of a CPU. Beside reservations of the kernel's nothing else is
/// needed than the word.
#[test]
fn a_workload_names_it_with_the_tasks_reservation() {
    let task = |name: &str, q: i64, t: i64| {
        format!(
            "[[task]]\nname = \"{name}\"\nwork = \"forever\"\npolicy = \"overcommit\"\n\
             reservation = {{ runtime = \"{q}ms\", period = \"{t}ms\" }}\n"
        )
    };
    let text = task("a", 30, 100) + &task("b", 24, 40) + &task("c", 35, 70);
    let record = SimWorld::new(Platform::linux_6_18(1))
        .run(&workload(&text), &options(30, 1), &mut Unobserved)
        .unwrap();
    for (name, asked) in [("a", 0.3), ("b", 0.6), ("c", 0.5)] {
        let part = common::share(&record, name) / asked;
        assert!((part - 0.9 / 1.4).abs() < 0.01, "{name}: {part}");
    }
    assert_eq!(record.in_force.environment["class order"], "deadline > overcommit > realtime > fair");
    let text = "[[task]]\nname = \"a\"\nwork = \"forever\"\npolicy = \"overcommit\"\n";
    let error = surety_model::formats::toml::read("test", &format!("format = 1\n{text}")).unwrap_err();
    assert!(format!("{error:?}").contains("policy `overcommit` needs a reservation"), "{error:?}");
}

/// Budgets are divided by periods.
#[test]
fn a_deadline_before_the_period_is_refused() {
    let text = "[[task]]\nname = \"a\"\npolicy = \"overcommit\"\nwork = \"forever\"\n\
                reservation = { runtime = \"5ms\", deadline = \"8ms\", period = \"10ms\" }\n";
    let error = common::try_simulate(text, 1, 2).unwrap_err().to_string();
    assert!(error.contains("`overcommit` has the period for a deadline"), "{error}");
}
