//! What changes nothing of a run, or changes it in a way that is known beforehand, for drawn workloads.

mod common;

use common::drawn::{Told, drawn};
use common::{Bench, FAIR, fifo, ms, reserved, round_robin, us};
use proptest::prelude::*;
use surety_model::platform::{PROFILES, Platform};
use surety_model::record::ActivityRecord;
use surety_model::world::Unobserved;
use surety_sim::cpu::hardware::Scheduling;
use surety_sim::cpu::program::Step;
use surety_units::Nanos;

/// A thread more important than a fair one, and what it does.
fn above_fair() -> impl Strategy<Value = (Scheduling, Vec<Step>)> {
    let policy = prop_oneof![
        (1u32..90).prop_map(fifo),
        (1u32..90).prop_map(round_robin),
        // Three of them leave the fair server its part.
        (1i64..25, 5i64..100).prop_map(|(percent, period)| reserved(us(percent * period * 10), ms(period))),
    ];
    let jobs = (1i64..40, 1i64..60, 1i64..100).prop_map(|(work, period, jobs)| {
        (1..=jobs).flat_map(|job| [Step::Run(ms(work)), Step::SleepUntil(ms(period * job))]).collect()
    });
    (policy, prop_oneof![jobs, Just(vec![Step::RunForever])])
}

/// What a record says of an activity, but for notes.
fn told(activity: &ActivityRecord) -> String {
    let times = activity.response.as_ref().and_then(|times| times.observed()).map(|times| &times.moments);
    let counts = (activity.completed, activity.skipped, activity.unfinished, activity.missed);
    let threads = activity.share.as_ref().map(|share| &share.threads);
    format!("{counts:?} {times:?} {threads:?} {:?}", activity.longest_gap)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The first half of a run is the run of half the length, event by event.
    #[test]
    fn a_run_is_the_beginning_of_every_longer_one(set in drawn(1..7), length in 20i64..250) {
        let (mut short, mut long) = (Told::default(), Told::default());
        let run = set.run(ms(length), &mut short);
        prop_assert!(run.is_ok(), "{:?}\n{}", run.err(), set.text());
        prop_assert!(set.run(ms(2 * length), &mut long).is_ok());
        let common = long.0.partition_point(|(time, _)| *time <= ms(length));
        let differs = short.0.iter().zip(&long.0[..common]).position(|(a, b)| a != b);
        if let Some(place) = differs {
            prop_assert!(false, "{:?} in the short run, {:?} in the long one\n{}", short.0[place], long.0[place], set.text());
        }
        prop_assert_eq!(short.0.len(), common, "one run says more\n{}", set.text());
    }

    /// A task that is released only after the end changes nothing of all others.
    #[test]
    fn a_task_that_never_becomes_ready_changes_nothing(set in drawn(1..2), length in 20i64..250, place in 0usize..12) {
        let mut more = set.clone();
        let never = "[[task]]\nname = \"never\"\nperiod = \"1s\"\nstart = \"1h\"\nwork = \"1ms\"\n";
        // In front of a section that keeps its own name.
        let place = place % (set.sections.len() + 1);
        let named = |(place, section): (usize, &String)| section.replace("NAME", &format!("a{place}"));
        more.sections = set.sections.iter().enumerate().map(named).collect();
        more.sections.insert(place, never.to_owned());
        let alone = set.run(ms(length), &mut Unobserved).expect("it can be simulated");
        let beside = more.run(ms(length), &mut Unobserved).expect("it can be simulated");
        for activity in &alone.activities {
            let other = beside.activity(&activity.name).expect("it is there");
            prop_assert_eq!(told(activity), told(other), "{} of\n{}", activity.name, more.text());
        }
    }

    /// The order of the sections in a file changes nothing, on several CPUs neither.
    #[test]
    fn the_order_of_the_file_changes_nothing(set in drawn(1..5), length in 20i64..250, turn in 1usize..12) {
        let mut turned = set.clone();
        let named = |(place, section): (usize, &String)| section.replace("NAME", &format!("a{place}"));
        turned.sections = set.sections.iter().enumerate().map(named).collect();
        let turn = turn % turned.sections.len();
        turned.sections.rotate_left(turn);
        turned.sections.reverse();
        let (mut first, mut second) = (Told::default(), Told::default());
        let one = set.run(ms(length), &mut first).expect("it can be simulated");
        let other = turned.run(ms(length), &mut second).expect("it can be simulated");
        prop_assert_eq!(first.0, second.0, "{}", set.text());
        prop_assert_eq!(one.hash, other.hash);
        for activity in &one.activities {
            let same = other.activity(&activity.name).expect("it is there");
            prop_assert_eq!(told(activity), told(same), "{}", set.text());
        }
    }

    /// One CPU works while anybody wants it: all time is used by a fair loop and what stands above it.
    #[test]
    fn one_cpu_never_idles_beside_a_loop(
        threads in proptest::collection::vec(above_fair(), 0..6),
        profile in proptest::sample::select(PROFILES),
    ) {
        let mut bench = Bench::new(profile.1(1));
        let mut ids = vec![bench.spawn(FAIR, ms(0), &[Step::RunForever])];
        ids.extend(threads.iter().map(|(scheduling, steps)| bench.spawn(*scheduling, ms(0), steps)));
        bench.run(ms(3000));
        let used: Nanos = ids.iter().map(|id| bench.run_of(*id)).sum();
        prop_assert_eq!(used, ms(3000), "{}", profile.0);
    }

    /// With a fair server the fair class of a CPU is not without it for longer than a period of the server and a tick.
    #[test]
    fn no_fair_class_is_unserved_for_longer_than_a_period_and_a_tick(
        threads in proptest::collection::vec(above_fair(), 0..4),
        wakes in 0i64..3000,
        exact: bool,
    ) {
        let platform = if exact { Platform::linux_7_2(1) } else { Platform::linux_6_18(1) };
        let bound = platform.fair_server.expect("it has one").period + platform.tick;
        let mut bench = Bench::new(platform);
        for (scheduling, steps) in &threads {
            bench.spawn(*scheduling, ms(0), steps);
        }
        let fair = bench.spawn(FAIR, ms(wakes), &[Step::RunForever]);
        bench.run(ms(8000));
        let (_, longest) = bench.machine.waits(fair);
        prop_assert!(longest <= bound, "{longest} of {bound}: {threads:?}");
    }
}
