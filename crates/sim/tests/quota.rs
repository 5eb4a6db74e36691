//! Groups with a quota, and idle groups, against what the kernel's rules come to.

mod common;

use common::{Bench, FAIR, ms};
use proptest::prelude::*;
use surety_model::platform::Platform;
use surety_model::workload::Quota;
use surety_sim::cpu::hardware::GroupSpec;
use surety_sim::cpu::program::Step;
use surety_units::Nanos;

fn limited(runtime: i64, period: i64, burst: i64) -> GroupSpec {
    let quota = Quota { runtime: ms(runtime), period: ms(period), burst: ms(burst) };
    GroupSpec { quota: Some(quota), ..GroupSpec::default() }
}

/// Every thread that runs for ever, by its group and CPU, gets this part of a CPU.
fn shares(cpus: u32, groups: Vec<GroupSpec>, threads: &[(Option<usize>, Option<usize>)]) -> Vec<f64> {
    let mut bench = Bench::with_groups(Platform::linux_6_18(cpus), groups);
    let ids: Vec<_> = threads
        .iter()
        .map(|(group, cpu)| bench.spawn_as(FAIR, *group, *cpu, ms(0), &[Step::RunForever]))
        .collect();
    bench.run(Nanos::from_secs(60));
    ids.iter().map(|id| bench.run_of(*id).as_secs_f64() / 60.0).collect()
}

fn assert_near(found: &[f64], expected: &[f64]) {
    let near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.005);
    assert!(near && found.len() == expected.len(), "{found:?}, {expected:?} expected");
}

#[test]
fn a_group_gets_its_quota_and_no_more() {
    let all = |threads: usize| vec![(Some(0), None); threads];
    assert_near(&shares(1, vec![limited(20, 100, 0)], &all(1)), &[0.2]);
    // What is beyond a quota on the tick is paid back, however short the period.
    assert_near(&shares(1, vec![limited(2, 10, 0)], &all(1)), &[0.2]);
    // Of all CPUs together.
    let both: f64 = shares(2, vec![limited(150, 100, 0)], &all(2)).iter().sum();
    assert_near(&[both], &[1.5]);
    // The rest is for others.
    assert_near(&shares(1, vec![limited(20, 100, 0)], &[(Some(0), None), (None, None)]), &[0.2, 0.8]);
    // A quota above what weight gives takes nothing away.
    assert_near(&shares(1, vec![limited(60, 100, 0)], &[(Some(0), None), (None, None)]), &[0.5, 0.5]);
}

#[test]
fn the_group_above_limits_those_in_it() {
    let inner = |parent| GroupSpec { parent: Some(parent), ..limited(40, 100, 0) };
    let groups = vec![limited(30, 100, 0), inner(0), GroupSpec { parent: Some(0), ..GroupSpec::default() }];
    assert_near(&shares(1, groups, &[(Some(1), None), (Some(2), None)]), &[0.15, 0.15]);
    let groups = vec![limited(50, 100, 0), GroupSpec { parent: Some(0), ..limited(10, 100, 0) }];
    assert_near(&shares(1, groups, &[(Some(1), None), (Some(0), None)]), &[0.1, 0.4]);
}

#[test]
fn an_idle_group_has_what_nobody_else_wants() {
    let idle = GroupSpec { idle: true, ..GroupSpec::default() };
    let found = shares(1, vec![idle.clone()], &[(Some(0), None), (None, None)]);
    assert_near(&found, &[3.0 / 1027.0, 1024.0 / 1027.0]);
    assert_near(&shares(1, vec![idle], &[(Some(0), None)]), &[1.0]);
}

/// A thread that needs 10 ms of each 100 ms and once 40 ms: with burst it has saved enough, without it waits for two periods more.
#[test]
fn what_was_saved_serves_a_burst() {
    let longest = |burst| {
        let mut bench = Bench::with_groups(Platform::linux_6_18(1), vec![limited(20, 100, burst)]);
        let mut steps: Vec<Step> =
            (1..10).flat_map(|k| [Step::Run(ms(10)), Step::SleepUntil(ms(100 * k))]).collect();
        steps.extend([Step::Run(ms(40)), Step::SleepUntil(ms(5_000))]);
        let id = bench.spawn_as(FAIR, Some(0), None, ms(0), &steps);
        bench.run(Nanos::from_secs(2));
        let waits = bench.machine.waits(id).1;
        assert_eq!(bench.run_of(id), ms(130));
        waits
    };
    assert!(longest(0) > ms(50), "{}", longest(0));
    assert!(longest(20) < ms(5), "{}", longest(20));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In no window does a group get more than its quota of the periods in it, what it had saved and what each CPU may hold: a slice, and a
    /// tick booked late; and what runs for ever without others gets it.
    #[test]
    fn no_group_has_more_than_its_quota_for_long(
        cpus in 1u32..4,
        threads in 1usize..6,
        runtime in 1i64..60,
        period in 5i64..120,
        seconds in 1i64..4,
    ) {
        let mut bench = Bench::with_groups(Platform::linux_6_18(cpus), vec![limited(runtime, period, 0)]);
        let ids: Vec<_> =
            (0..threads).map(|_| bench.spawn_as(FAIR, Some(0), None, ms(0), &[Step::RunForever])).collect();
        bench.run(Nanos::from_secs(seconds));
        let got: Nanos = ids.iter().map(|id| bench.run_of(*id)).sum();
        let periods = Nanos::from_secs(seconds).div_ceil(ms(period)) + 1;
        let held = ms(4 + 5) * i64::from(cpus);
        prop_assert!(got <= ms(runtime) * periods + held, "{got} in {periods} periods");
        let wanted = Nanos::from_secs(seconds) * i64::from(cpus.min(threads as u32));
        let least = (ms(runtime) * (periods - 2)).min(wanted) - held;
        prop_assert!(got >= least, "{got} of {least}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Threads that sleep and wake, in groups inside of groups, beside realtime threads: nobody is forgotten. When all quotas are more than
    /// is wanted everybody gets what it asks for, and else no group more than it may.
    #[test]
    fn groups_inside_of_groups_hold_and_let_go(
        cpus in 1u32..4,
        quotas in proptest::collection::vec((prop_oneof![1i64..30, Just(1_000)], 4i64..60), 3..4),
        threads in proptest::collection::vec((0usize..4, 1i64..12, 8i64..60), 1..7),
        realtime in proptest::option::of(10i64..30),
        seed in 0i64..1000,
    ) {
        let mut groups: Vec<GroupSpec> =
            quotas.iter().map(|(runtime, period)| limited(*runtime, *period, runtime / 2)).collect();
        groups[1].parent = Some(0);
        groups[2].parent = Some(1);
        let mut bench = Bench::with_groups(Platform::linux_6_18(cpus), groups);
        if let Some(work) = realtime {
            let steps: Vec<Step> =
                (1..40).flat_map(|k| [Step::Run(ms(work)), Step::SleepUntil(ms(50 * k))]).collect();
            bench.spawn(common::fifo(5), ms(3), &steps);
        }
        let mut spawned = Vec::new();
        for (place, (group, work, period)) in threads.iter().enumerate() {
            let start = ms((seed + 7 * place as i64) % 40);
            let jobs = (Nanos::from_secs(2) - start).div_floor(ms(*period));
            let steps: Vec<Step> =
                (1..jobs).flat_map(|k| [Step::Run(ms(*work)), Step::SleepUntil(start + ms(period * k))]).collect();
            let group = Some(*group).filter(|group| *group < 3);
            let id = bench.spawn_as(FAIR, group, None, start, &steps);
            spawned.push((id, group, ms(*work) * (jobs - 1)));
        }
        bench.run(Nanos::from_secs(2));
        for (group, (runtime, period)) in quotas.iter().enumerate() {
            let inside = spawned.iter().filter(|(_, of, _)| of.is_some_and(|of| of >= group));
            let got: Nanos = inside.map(|(id, ..)| bench.run_of(*id)).sum();
            let periods = Nanos::from_secs(2).div_ceil(ms(*period)) + 1;
            let most = ms(*runtime) * periods + ms(runtime / 2) + ms(4 + 5) * i64::from(cpus);
            prop_assert!(got <= most, "group {group}: {got} of {most}");
        }
        // Long afterwards all have done their work: six threads want 17 s at most, and the least quota has 1 ms of 59.
        bench.run(Nanos::from_secs(1_200));
        for (id, _, wanted) in &spawned {
            prop_assert_eq!(bench.run_of(*id), *wanted);
        }
    }
}
