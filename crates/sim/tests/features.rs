//! Features of the fair class, one at a time: each test has the instants at which threads end their work, worked out by hand, as the
//! kernel starts and with the feature the other way.

mod common;

use common::{Bench, FAIR, ms, nice, us};
use surety_model::platform::Platform;
use surety_model::workload::PolicySpec;
use surety_model::world::{Unobserved, World as _};
use surety_sim::cpu::hardware::{GroupSpec, Scheduling};
use surety_sim::cpu::program::Step;
use surety_units::Nanos;

/// One CPU with ticks of 1 ms from 0 on, without fair server.
fn platform(of: fn(u32) -> Platform, base_slice: Nanos, features: &str) -> Platform {
    let platform = Platform { base_slice, tick: ms(1), tick_phase: Some(Nanos::ZERO), ..of(1) };
    let mut platform = Platform { fair_server: None, realtime_limit: None, ..platform };
    let words: Vec<&str> = features.split('+').filter(|word| !word.is_empty()).collect();
    platform.set_features(&words).expect("the version has them");
    platform
}

fn with_slice(slice: Nanos) -> Scheduling {
    Scheduling::Policy(PolicySpec::Fair { nice: 0, slice: Some(slice) })
}

/// Sleeps until `at`, and works for `work`.
fn wakes(at: Nanos, work: Nanos) -> [Step; 2] {
    [Step::SleepUntil(at), Step::Run(work)]
}

/// When one that wakes at 0.5 ms ends its 0.2 ms beside a spinner, on EEVDF with a slice of 3 ms.
fn ends_beside_a_spinner(of: fn(u32) -> Platform, features: &str, scheduling: Scheduling) -> Nanos {
    let mut bench = Bench::new(platform(of, ms(3), features));
    let thread = bench.spawn(scheduling, ms(0), &wakes(us(500), us(200)));
    bench.spawn(FAIR, ms(0), &[Step::RunForever]);
    bench.run(ms(20));
    bench.finished(thread)[1]
}

/// The spinner is placed at 0 with a deadline of 1.5 ms (half a slice): the tick at 2 ms is the first that finds it over. What wakes at
/// 0.5 ms has its deadline at 3.5 ms, with a slice of 0.1 ms at 0.6 ms, with nice -20 at `0.5 + 3 * 1024 / 88761`, and is eligible.
#[test]
fn who_wakes_beside_a_protected_thread() {
    let short = with_slice(us(100));
    for (of, features, scheduling, end) in [
        (Platform::linux_6_18 as fn(u32) -> Platform, "", FAIR, us(2200)),
        (Platform::linux_6_18, "NEXT_BUDDY", FAIR, us(700)),
        (Platform::linux_6_18, "NEXT_BUDDY+NO_PICK_BUDDY", FAIR, us(2200)),
        (Platform::linux_6_18, "", short, us(700)),
        (Platform::linux_6_18, "NO_PREEMPT_SHORT", short, us(2200)),
        (Platform::linux_6_12, "", short, us(700)),
        (Platform::linux_6_12, "NO_PREEMPT_SHORT", short, us(2200)),
        // 6.6 knows no slices of threads.
        (Platform::linux_6_6, "", short, us(2200)),
        (Platform::linux_6_12, "", nice(-20), us(2200)),
        (Platform::linux_6_12, "NO_RUN_TO_PARITY", nice(-20), us(700)),
        (Platform::linux_6_6, "NO_RUN_TO_PARITY", nice(-20), us(700)),
        (Platform::linux_6_6, "NO_RUN_TO_PARITY+NO_WAKEUP_PREEMPTION", nice(-20), us(2200)),
        // Nominated, and picked when the CPU next chooses, which the end of the slice is.
        (Platform::linux_6_12, "NEXT_BUDDY", FAIR, us(2200)),
    ] {
        assert_eq!(
            ends_beside_a_spinner(of, features, scheduling),
            end,
            "{} {features} {scheduling:?}",
            of(1).name
        );
    }
}

/// The EEVDF series: beside the spinner a slice of 34.6 us ends its protection where `PREEMPT_SHORT` has it, one of 204.8 ms does not.
#[test]
fn latency_nice_of_eevdf_is_a_slice() {
    for (of, latency_nice, end) in [
        (Platform::linux_6_18 as fn(u32) -> Platform, -20, us(700)),
        (Platform::linux_6_18, 0, us(2200)),
        (Platform::linux_6_18, 19, us(2200)),
        (Platform::linux_6_12, -20, us(700)),
        (Platform::linux_6_6, -20, us(2200)),
    ] {
        let scheduling = Scheduling::Policy(PolicySpec::LatencyNice { nice: 0, latency_nice });
        assert_eq!(ends_beside_a_spinner(of, "", scheduling), end, "{} {latency_nice}", of(1).name);
    }
}

/// The CFS series, with 4 ms as what a sleeper is placed before the least virtual time. One that ran to 2 ms wakes where the spinner is at
/// 0.5, 1.5 ms ahead: with -20 it preempts up to `4 - 4/3` ms ahead, else it waits for the tick of 7 ms, when the slice of 4 ms is over. One
/// that wakes 4 ms behind preempts unless its offset and 4/3 ms are more than that: 2 ms with 10, 3.8 ms with 19.
#[test]
fn latency_nice_of_cfs_shifts_wakeup_preemption() {
    let scheduling = |latency_nice| Scheduling::Policy(PolicySpec::LatencyNice { nice: 0, latency_nice });
    for (latency_nice, end) in [(-20, us(2700)), (0, us(7200))] {
        let mut bench = Bench::new(platform(Platform::linux_6_1, ms(1), "NO_START_DEBIT"));
        let [sleep, work] = wakes(us(2500), us(200));
        let thread = bench.spawn(scheduling(latency_nice), ms(0), &[Step::Run(ms(2)), sleep, work]);
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        bench.run(ms(30));
        assert_eq!(bench.finished(thread)[2], end, "{latency_nice}");
    }
    for (latency_nice, end) in [(0, us(20_700)), (10, us(20_700)), (19, us(21_200))] {
        let mut bench = Bench::new(platform(Platform::linux_6_1, ms(1), ""));
        let thread = bench.spawn(scheduling(latency_nice), ms(0), &wakes(us(20_500), us(200)));
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        bench.run(ms(60));
        assert_eq!(bench.finished(thread)[1], end, "{latency_nice}");
    }
}

/// Slices of 8 ms where the base slice is 3 ms: two spinners take turns of 8 ms, and of 3 ms where only that much is protected.
#[test]
fn run_to_parity_protects_the_shortest_slice_of_the_queue() {
    for (features, longest) in [("", ms(8)), ("NO_RUN_TO_PARITY", ms(3))] {
        let mut bench = Bench::new(platform(Platform::linux_6_18, ms(3), features));
        let threads = [(); 2].map(|()| bench.spawn(with_slice(ms(8)), ms(0), &[Step::RunForever]));
        bench.run(ms(400));
        for thread in threads {
            assert_eq!(bench.machine.waits(thread).1, longest, "{features}");
        }
    }
}

/// The spinner runs to the tick at 2 ms, the other one then for 0.5 ms and sleeps with `(2 + 0.5) / 2 - 0.5 = 0.75` ms owed. It wakes at
/// 10.4 ms, where the spinner has got to 9.9: placed `2 * 0.75` before that it is the only eligible one; placed at that it is eligible
/// like the spinner, whose deadline is 11.5, and follows at the tick of 11, where the spinner is not eligible, or in 6.6, which looks at
/// nothing but the deadline, at that of 12.
#[test]
fn lag_and_initial_deadlines() {
    for (of, features, ends) in [
        (Platform::linux_6_18 as fn(u32) -> Platform, "", [us(2500), us(10_600)]),
        (Platform::linux_6_18, "NO_PLACE_LAG", [us(2500), us(11_200)]),
        (Platform::linux_6_18, "NO_WAKEUP_PREEMPTION", [us(2500), us(11_200)]),
        (Platform::linux_7_2, "NO_HRTICK", [us(2500), us(10_600)]),
        (Platform::linux_6_12, "NO_PLACE_LAG", [us(2500), us(11_200)]),
        (Platform::linux_6_6, "", [us(2500), us(10_600)]),
        (Platform::linux_6_6, "NO_PLACE_LAG", [us(2500), us(12_200)]),
    ] {
        let mut bench = Bench::new(platform(of, ms(3), features));
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        let [sleep, work] = wakes(us(10_400), us(200));
        let thread = bench.spawn(FAIR, ms(0), &[Step::Run(us(500)), sleep, work]);
        bench.run(ms(30));
        let finished = bench.finished(thread);
        assert_eq!([finished[0], finished[2]], ends, "{} {features}", of(1).name);
    }
    // A whole slice at first: the tick at 3 ms finds the spinner's over.
    let mut bench = Bench::new(platform(Platform::linux_6_18, ms(3), "NO_PLACE_DEADLINE_INITIAL"));
    bench.spawn(FAIR, ms(0), &[Step::RunForever]);
    let thread = bench.spawn(FAIR, ms(0), &[Step::Run(us(500))]);
    bench.run(ms(30));
    assert_eq!(bench.finished(thread), [us(3500)]);
}

/// One runs for 1.4 ms and sleeps owing 0.7 ms to a spinner. Delayed, it is let go at the tick of 3 ms, owed 0.1 ms by then, which
/// `DELAY_ZERO` forgets. It wakes at 10.4 ms where the spinner is at 9.0 with a deadline of 10.6: at 9.0 it follows at the tick of 11, at
/// `9 - 2 * 0.1` at once, and at `9 + 2 * 0.7` when the spinner's slice is over at 12.
#[test]
fn what_a_sleeper_owes() {
    for (of, features, end) in [
        (Platform::linux_6_18 as fn(u32) -> Platform, "", us(11_200)),
        (Platform::linux_6_18, "NO_DELAY_ZERO", us(10_600)),
        (Platform::linux_6_18, "NO_DELAY_DEQUEUE", us(12_200)),
        (Platform::linux_6_12, "NO_DELAY_DEQUEUE", us(12_200)),
        (Platform::linux_6_6, "", us(12_200)),
    ] {
        let mut bench = Bench::new(platform(of, ms(3), features));
        let [sleep, work] = wakes(us(10_400), us(200));
        let thread = bench.spawn(FAIR, ms(0), &[Step::Run(us(1400)), sleep, work]);
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        bench.run(ms(30));
        assert_eq!(bench.finished(thread)[2], end, "{} {features}", of(1).name);
    }
}

/// Two wake behind a protected spinner, at 0.5 and 0.6 ms: in this order, and the last one first where it is nominated.
#[test]
fn in_6_12_the_one_woken_last_goes_first_with_next_buddy() {
    for (features, ends) in [("", [us(2200), us(2400)]), ("NEXT_BUDDY", [us(2400), us(2200)])] {
        let mut bench = Bench::new(platform(Platform::linux_6_12, ms(3), features));
        let threads = [500, 600].map(|at| bench.spawn(FAIR, ms(0), &wakes(us(at), us(200))));
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        bench.run(ms(20));
        assert_eq!(threads.map(|thread| bench.finished(thread)[1]), ends, "{features}");
    }
}

/// CFS with a granularity of 1 ms: a period of 8 ms. At 20.5 ms the spinner is at 20.5, and who wakes is placed 4 ms before it, or 8 ms with
/// `NO_GENTLE_FAIR_SLEEPERS`. Of 6 ms of work, 4.5 are done at the tick of 25, when its slice of 4 ms is over and it is past the
/// spinner, which then runs to the tick of 30; placed at 12.5 it is never past it.
#[test]
fn gentle_sleepers() {
    for (features, work, end) in [
        ("", us(6000), us(31_500)),
        ("NO_GENTLE_FAIR_SLEEPERS", us(6000), us(26_500)),
        ("", us(200), us(20_700)),
        ("NO_WAKEUP_PREEMPTION", us(200), us(21_200)),
    ] {
        let mut bench = Bench::new(platform(Platform::linux_6_1, ms(1), features));
        let thread = bench.spawn(FAIR, ms(0), &wakes(us(20_500), work));
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        bench.run(ms(60));
        assert_eq!(bench.finished(thread)[1], end, "{features}");
    }
}

/// A new thread comes where the spinner is at 10.5 ms: a slice of 4 ms behind it, which it gets to at the tick of 15, or beside it.
#[test]
fn start_debit() {
    for (features, end) in [("", us(15_200)), ("NO_START_DEBIT", us(11_200))] {
        let mut bench = Bench::new(platform(Platform::linux_6_1, ms(1), features));
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        let thread = bench.spawn(FAIR, us(10_500), &[Step::Run(us(200))]);
        bench.run(ms(60));
        assert_eq!(bench.finished(thread), [end], "{features}");
    }
}

/// A thread of nice 19 has `8 * 15 / 1039 = 0.12` ms of a period: a tick of 0.25 ms, or four of them where 1 ms is the least.
#[test]
fn base_slice() {
    for (features, longest) in [("", us(1000)), ("NO_BASE_SLICE", us(250))] {
        let machine = Platform { tick: us(250), ..platform(Platform::linux_6_1, ms(1), features) };
        let mut bench = Bench::new(machine);
        let heavy = bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        bench.spawn(nice(19), ms(0), &[Step::RunForever]);
        bench.run(ms(2000));
        assert_eq!(bench.machine.waits(heavy).1, longest, "{features}");
    }
}

/// A spinner beside a group of nine: a period is 10 ms for ten threads of the CPU, and 8 for two entities of the queue. Half of that is over at
/// the tick after it.
#[test]
fn alt_period_counts_the_threads_of_the_cpu() {
    for (features, longest) in [("", ms(6)), ("NO_ALT_PERIOD", ms(5))] {
        let group = GroupSpec { weight: 100, ..GroupSpec::default() };
        let mut bench = Bench::with_groups(platform(Platform::linux_6_1, ms(1), features), vec![group]);
        let alone = bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        for _ in 0..9 {
            bench.spawn_as(FAIR, Some(0), None, ms(0), &[Step::RunForever]);
        }
        bench.run(ms(100));
        bench.machine.observe_from_here();
        bench.run(ms(2000));
        assert_eq!(bench.machine.waits(alone).1, longest, "{features}");
    }
}

/// Eight spinners and one that wakes: the preempted one goes on behind it, being at most a granularity ahead of the first.
#[test]
fn last_buddy() {
    for (features, goes_on) in [("", true), ("NO_LAST_BUDDY", false)] {
        let mut bench = Bench::new(platform(Platform::linux_6_1, ms(1), features));
        bench.spawn(FAIR, ms(0), &wakes(us(100_700), us(100)));
        let spinners = [(); 8].map(|()| bench.spawn(FAIR, ms(0), &[Step::RunForever]));
        let mut ran = |from: Nanos, to: Nanos| {
            bench.run(from);
            let before = spinners.map(|thread| bench.run_of(thread));
            bench.run(to);
            spinners.iter().position(|thread| bench.run_of(*thread) > before[thread.index() - 1])
        };
        let before = ran(us(100_600), us(100_690));
        let behind = ran(us(100_810), us(100_900));
        assert_eq!(before == behind, goes_on, "{features}: {before:?} {behind:?}");
    }
}

#[test]
fn muqss_refuses_a_latency_nice() {
    let text = "[[task]]\nname = 't'\nwork = 'forever'\nlatency_nice = -5\n";
    let record = common::simulate(text, 1, 1);
    assert_eq!(record.in_force.environment["latency_nice"], "a slice");
    let said = &record.in_force.unvalidated[0];
    assert!(said.starts_with("latency_nice: no kernel of the lab has it"), "{said}");
    let schedulers = ["deadline", "realtime", "muqss"].map(str::to_owned).to_vec();
    let world = surety_sim::SimWorld::new(Platform { schedulers, ..Platform::linux_6_18(1) });
    let workload = common::workload(text);
    let refused = world.run(&workload, &common::options(1, 1), &mut Unobserved).unwrap_err().to_string();
    assert!(refused.contains("`muqss` has no latency nice"), "{refused}");
    assert_eq!(world.objections(&workload).len(), 1);
}

/// Two CPUs in use all the time, of which the second goes idle at 400 ms. With what balancing saw last, beyond 85 %, who wakes on the
/// first looks at no other and waits for its spinner's slice; without `SIS_UTIL` it finds the idle one at once.
#[test]
fn sis_util() {
    let ends = |features: &str| {
        let machine = Platform { cpus: 2, ..platform(Platform::linux_6_18, ms(3), features) };
        let mut bench = Bench::new(machine);
        let thread = bench.spawn(FAIR, ms(0), &wakes(us(401_300), us(100)));
        bench.spawn_as(FAIR, None, Some(0), ms(0), &[Step::RunForever]);
        bench.spawn_as(FAIR, None, Some(1), ms(0), &[Step::Run(ms(400))]);
        bench.run(ms(500));
        bench.finished(thread)[1]
    };
    assert_eq!(ends("NO_SIS_UTIL"), us(401_400));
    assert!(ends("") >= ms(402), "{}", ends(""));
}
