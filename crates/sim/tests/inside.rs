//! Realtime threads inside the reservation of a group, against the reservation of a thread and against what budgets come to.

mod common;

use common::{Bench, FAIR, exact, fifo, ms, periodic, reserved, round_robin, us, workload};
use proptest::prelude::*;
use surety_model::platform::Platform;
use surety_model::reservation::Reservation;
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_sim::SimWorld;
use surety_sim::cpu::hardware::{GroupSpec, Scheduling};
use surety_sim::cpu::program::Step;
use surety_units::Nanos;

/// A group of which realtime threads have this.
fn group(runtime: Nanos, period: Nanos) -> GroupSpec {
    GroupSpec { reservation: Some(Reservation::implicit(runtime, period)), ..GroupSpec::default() }
}

fn platform() -> Platform {
    Platform { tick: ms(1), tick_phase: Some(ms(0)), ..Platform::linux_6_18(1) }
}

/// Of 5 in 20 ms a hog has a quarter of the CPU, whoever else runs and whether anybody does; what is outside has the rest.
#[test]
fn a_group_has_its_budget_and_no_more() {
    for others in [vec![], vec![FAIR], vec![fifo(99)], vec![FAIR, reserved(ms(10), ms(30))]] {
        let mut bench = Bench::with_groups(platform(), vec![group(ms(5), ms(20))]);
        let hog = bench.spawn_as(fifo(1), Some(0), None, ms(0), &[Step::RunForever]);
        for other in others {
            bench.spawn(other, ms(0), &[Step::RunForever]);
        }
        bench.run(Nanos::from_secs(20));
        let share = bench.run_of(hog).as_secs_f64() / 20.0;
        assert!((share - 0.25).abs() < 0.001, "{share}");
    }
}

/// Inside, priorities decide: of 5 in 20 ms one with 1 in 20 ms comes first and responds at once, two round-robin threads divide the rest.
#[test]
fn priorities_decide_inside() {
    let mut bench = Bench::with_groups(platform(), vec![group(ms(5), ms(20))]);
    let urgent = bench.spawn_as(fifo(90), Some(0), None, ms(0), &periodic(ms(20), ms(1), 990));
    let hogs = [(); 2].map(|()| bench.spawn_as(round_robin(10), Some(0), None, ms(0), &[Step::RunForever]));
    let fair = bench.spawn(FAIR, ms(0), &[Step::RunForever]);
    bench.run(Nanos::from_secs(19));
    for (job, end) in (0..).zip(bench.finished(urgent).iter().step_by(2)) {
        // The budget begins with its release; an overrun of a tick may put the next one off by as much.
        assert!(*end - ms(20) * job <= ms(3), "job {job}: {end}");
    }
    let [first, second] = hogs.map(|hog| bench.run_of(hog).as_secs_f64() / 19.0);
    assert!((first + second - 0.2).abs() < 0.002, "{first} {second}");
    // Turns of 100 ms of CPU time.
    assert!((first - second).abs() <= 0.1 / 19.0 + 0.001, "{first} {second}");
    assert!((bench.run_of(fair).as_secs_f64() / 19.0 - 0.75).abs() < 0.002);
}

/// Two groups and a reserved thread, 90 % in all, beside a realtime thread outside that never sleeps: each has its part, and the reserved
/// one keeps its deadlines.
#[test]
fn groups_and_threads_have_their_reservations_beside_each_other() {
    let groups = vec![group(ms(3), ms(10)), group(ms(12), ms(40))];
    let bare = Platform { fair_server: None, ..platform() };
    let mut bench = Bench::with_groups(bare, groups);
    let inside = [0, 1].map(|group| bench.spawn_as(fifo(1), Some(group), None, ms(0), &[Step::RunForever]));
    let reserved = bench.spawn(reserved(ms(6), ms(20)), ms(0), &periodic(ms(20), ms(5), 900));
    bench.spawn(fifo(99), ms(0), &[Step::RunForever]);
    bench.run(Nanos::from_secs(18));
    for thread in inside {
        let share = bench.run_of(thread).as_secs_f64() / 18.0;
        assert!((share - 0.3).abs() < 0.002, "{share}");
    }
    for (job, end) in (1..).zip(bench.finished(reserved).iter().step_by(2)) {
        assert!(*end <= ms(20) * job + ms(1), "job {job}: {end}");
    }
}

/// A thread of another policy of the same group, and one in a group below.
#[test]
fn only_realtime_threads_are_inside_and_groups_below_belong() {
    let below = GroupSpec { parent: Some(0), ..GroupSpec::default() };
    let mut bench = Bench::with_groups(platform(), vec![group(ms(5), ms(20)), below]);
    let hog = bench.spawn_as(fifo(1), Some(1), None, ms(0), &[Step::RunForever]);
    let fair = bench.spawn_as(FAIR, Some(0), None, ms(0), &[Step::RunForever]);
    bench.run(Nanos::from_secs(20));
    let of = |thread| bench.run_of(thread).as_secs_f64() / 20.0;
    assert!((of(hog) - 0.25).abs() < 0.001 && (of(fair) - 0.75).abs() < 0.001);
}

/// A fair thread of the group that is lent a priority by a realtime thread outside runs with it outside of the group's budget: the waiter has the lock as
/// soon as that work is done.
#[test]
fn what_is_lent_is_not_used_up_by_the_group() {
    let mut bench = Bench::with_groups(platform(), vec![group(ms(5), ms(20))]);
    let lock = bench.machine.add_lock(true);
    let low = [Step::Lock(lock), Step::Run(ms(15)), Step::Unlock(lock), Step::Run(ms(100))];
    bench.spawn_as(FAIR, Some(0), None, ms(0), &low);
    let high = bench.spawn(fifo(50), ms(5), &[Step::Lock(lock), Step::Run(ms(1)), Step::Exit]);
    bench.spawn(FAIR, ms(6), &[Step::RunForever]);
    bench.run(ms(100));
    assert_eq!(bench.finished(high).last(), Some(&ms(16)));
}

/// A file: admitted with what each CPU has for it, refused beyond, on several CPUs and elsewhere than simulated.
#[test]
fn files_name_groups_with_a_reservation() {
    let text = |runtime, cpus: &str| {
        workload(&format!(
            "[[group]]\nname = 'control'\nreservation = {{ runtime = '{runtime}', period = '20ms' }}\n\
             [[task]]\nname = 'loop'\nperiod = '20ms'\nwork = '4ms'\npolicy = 'fifo:80'\ngroup = 'control'\n{cpus}\n\
             [[task]]\nname = 'hog'\nwork = 'forever'\npolicy = 'fifo:99'\n"
        ))
    };
    let run = |runtime, cpus, count: u32| {
        let options = RunOptions { duration: Nanos::from_secs(2), ..RunOptions::default() };
        let platform = Platform { cpus: count, ..platform() };
        SimWorld { platform }.run(&text(runtime, cpus), &options, &mut Unobserved)
    };
    let record = run("5ms", "", 1).unwrap();
    let task = record.activity("loop").unwrap();
    assert_eq!((task.activations, task.miss_ratio()), (100, Some(0.0)));
    run("5ms", "cpus = '1'", 2).unwrap();
    for (runtime, cpus, count, says) in [
        ("19ms", "", 1, "group.control"),
        ("5ms", "", 2, "stays on one CPU"),
        ("19ms", "cpus = '1'", 2, "admits"),
    ] {
        let error = run(runtime, cpus, count).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(text("5ms", "").beyond_kernels().is_some());
}

proptest! {
    /// One realtime thread inside has what a thread with that reservation has, to the nanosecond, whatever it does and whenever budgets end. (Of equal
    /// deadlines either may be first: that of the one beside is equal to none. Where another reserved thread wakes the CPU chooses anew, as it runs a
    /// thread of a lesser class, and sees an end of a budget that is to be seen on the tick.)
    #[test]
    fn one_thread_inside_is_as_a_reserved_one(
        (runtime, period) in (1i64..30, 2i64..60).prop_filter("a reservation", |(q, t)| q * 10 <= t * 9),
        jobs in proptest::collection::vec((50i64..40_000, 0i64..60_000), 1..30),
        start in 0i64..10_000,
        ends_exactly in any::<bool>(),
        beside in prop_oneof![Just(FAIR), Just(fifo(50)), Just(reserved(us(1_003), us(17_389)))],
    ) {
        let ends_exactly = ends_exactly || matches!(beside, Scheduling::Deadline(_));
        let reservation = (ms(runtime), ms(period));
        let mut steps = Vec::new();
        let mut at = us(start);
        for (work, gap) in &jobs {
            at += us(*work + *gap);
            steps.extend([Step::Run(us(*work)), Step::SleepUntil(at)]);
        }
        let ends = |is_inside: bool| {
            let bare = Platform { fair_server: None, ..platform() };
            let platform = if ends_exactly { exact(1) } else { bare };
            let groups = if is_inside { vec![group(reservation.0, reservation.1)] } else { vec![GroupSpec::default()] };
            let mut bench = Bench::with_groups(platform, groups);
            let thread = if is_inside {
                bench.spawn_as(fifo(1), Some(0), None, us(start), &steps)
            } else {
                bench.spawn(reserved(reservation.0, reservation.1), us(start), &steps)
            };
            bench.spawn(beside, ms(0), &[Step::RunForever]);
            bench.run(Nanos::from_secs(10));
            bench.finished(thread).to_vec()
        };
        prop_assert_eq!(ends(true), ends(false));
    }
}
