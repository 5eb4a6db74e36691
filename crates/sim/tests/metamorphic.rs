//! What changes nothing of a run, or changes it in a way that is known beforehand, for drawn workloads.

mod common;

use common::drawn::{Told, drawn};
use common::{Bench, FAIR, fifo, ms, nice, reserved, round_robin, us};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use surety_model::event::{Event, EventKind};
use surety_model::platform::{Enforcement, FairServer, Overheads, PROFILES, Platform, RealtimeLimit};
use surety_model::record::ActivityRecord;
use surety_model::reservation::Reservation;
use surety_model::workload::PolicySpec;
use surety_model::world::{Observer, Unobserved};
use surety_sim::cpu::hardware::Scheduling;
use surety_sim::cpu::program::Step;
use surety_sim::cpu::times::Times;
use surety_sim::engine::Simulation as _;
use surety_units::Nanos;

/// What rounding may move an instant by in the course of a run, ns.
const ROUNDING: i64 = 20;

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

/// A thread by all that scales: how it is scheduled, when it begins, the steps it takes.
#[derive(Clone, Debug)]
struct Timed {
    scheduling: Scheduling,
    start: Nanos,
    steps: Vec<Step>,
}

impl Timed {
    fn scaled(&self, factor: i64) -> Timed {
        let scheduling = match self.scheduling {
            Scheduling::Policy(PolicySpec::Fair { nice, slice }) => {
                Scheduling::Policy(PolicySpec::Fair { nice, slice: slice.map(|slice| slice * factor) })
            }
            Scheduling::Deadline(r) => Scheduling::Deadline(Reservation {
                runtime: r.runtime * factor,
                deadline: r.deadline * factor,
                period: r.period * factor,
                ..r
            }),
            other => other,
        };
        let step = |step: &Step| match *step {
            Step::Run(time) => Step::Run(time * factor),
            Step::SleepUntil(time) => Step::SleepUntil(time * factor),
            other => other,
        };
        Timed { scheduling, start: self.start * factor, steps: self.steps.iter().map(step).collect() }
    }
}

fn timed() -> impl Strategy<Value = Timed> {
    let demoting = |runtime, period| Reservation { demote: true, ..Reservation::implicit(runtime, period) };
    let scheduling = prop_oneof![
        3 => Just(FAIR),
        1 => (50i64..120_000).prop_map(|slice| Scheduling::Policy(PolicySpec::Fair { nice: 0, slice: Some(us(slice)) })),
        1 => Just(Scheduling::Policy(PolicySpec::Batch { nice: 0 })),
        1 => (1u32..4).prop_map(fifo),
        1 => (1u32..4).prop_map(round_robin),
        2 => (1i64..25, 5i64..100, any::<bool>()).prop_map(move |(percent, period, demotes)| {
            let (runtime, period) = (us(percent * period * 10), ms(period));
            if demotes { Scheduling::Deadline(demoting(runtime, period)) } else { reserved(runtime, period) }
        }),
    ];
    let jobs = (50i64..20_000, 1_000i64..60_000, 1i64..60).prop_map(|(work, period, jobs)| {
        (1..=jobs).flat_map(|job| [Step::Run(us(work)), Step::SleepUntil(us(period * job))]).collect()
    });
    let steps = prop_oneof![3 => jobs, 1 => Just(vec![Step::RunForever])];
    (scheduling, 0i64..50_000, steps).prop_map(|(scheduling, start, steps)| Timed {
        scheduling,
        start: us(start),
        steps,
    })
}

/// Overheads times a factor.
fn scaled(costs: Overheads, factor: i64) -> Overheads {
    let Overheads { switch, wakeup, sleep, tick, timer } = costs;
    let [switch, wakeup, sleep, tick, timer] = [switch, wakeup, sleep, tick, timer].map(|cost| cost * factor);
    Overheads { switch, wakeup, sleep, tick, timer }
}

/// Costs of a kernel by that of a switch.
fn costs(switch: Nanos) -> Overheads {
    Overheads { switch, wakeup: switch * 2, sleep: switch, tick: switch * 3, timer: switch }
}

/// A machine with every time of it times a factor.
fn slower(platform: &Platform, factor: i64) -> Platform {
    Platform {
        tick: platform.tick * factor,
        tick_phase: platform.tick_phase.map(|phase| phase * factor),
        enforcement: match platform.enforcement {
            Enforcement::Tick(tick) => Enforcement::Tick(tick * factor),
            exact => exact,
        },
        base_slice: platform.base_slice * factor,
        fair_server: platform
            .fair_server
            .map(|server| FairServer { runtime: server.runtime * factor, period: server.period * factor }),
        realtime_limit: platform
            .realtime_limit
            .map(|limit| RealtimeLimit { runtime: limit.runtime * factor, period: limit.period * factor }),
        round_robin_slice: platform.round_robin_slice * factor,
        overheads: scaled(platform.overheads, factor),
        ..platform.clone()
    }
}

/// Changes of the running thread: when, who leaves and who comes.
#[derive(Default)]
struct Switches(Vec<(i64, i32, i32)>);

impl Observer for Switches {
    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event<'_>) {
        if let EventKind::Switch { prev, next, .. } = event.kind {
            self.0.push((event.time.get(), prev.0, next.0));
        }
    }
}

/// A run with all times times a factor: its switches, and what each thread has had.
fn stretched(
    threads: &[Timed],
    platform: &Platform,
    factor: i64,
    end: Nanos,
) -> (Vec<(i64, i32, i32)>, Vec<Nanos>) {
    let times = Times::KERNEL.scaled(factor);
    let mut bench = Bench::with_times(slower(platform, factor), times, Vec::new(), true);
    let spawned = threads.iter().map(|thread| thread.scaled(factor));
    let ids: Vec<_> = spawned.map(|t| bench.spawn(t.scheduling, t.start, &t.steps)).collect();
    let mut switches = Switches::default();
    bench.machine.run_until(end * factor, &mut switches);
    (switches.0, ids.into_iter().map(|id| bench.run_of(id)).collect())
}

/// Whether a thread may be one of the fair class: those are chosen by averages, whose divisions round.
fn may_be_fair(thread: &Timed) -> bool {
    match thread.scheduling {
        Scheduling::Deadline(reservation) => reservation.demote,
        Scheduling::Reserved(..) | Scheduling::Within(..) => false,
        Scheduling::Policy(policy) => policy.realtime_priority().is_none(),
    }
}

/// With every time of threads and machine `k` times as long the schedule is the same, `k` times as long: the simulator has no
/// time of its own. Where no two threads can be fair this is so switch by switch. The averages of the fair class are rounded to
/// nanoseconds, and now and then one decides between two threads: in one run of fifty at most, and no thread has two ticks
/// more or less by it. The sets are the same every time.
#[test]
fn times_that_are_longer_alike_make_the_schedule_longer() {
    let mut runner = TestRunner::deterministic();
    let drawn = (proptest::collection::vec(timed(), 1..8), 0i64..4_000, 0i64..20, 0usize..3);
    for (name, make) in PROFILES {
        // Throttling of realtime threads has a period of a second.
        let end = if make(1).realtime_limit.is_some() { ms(1_500) } else { ms(400) };
        let (mut sets, mut rounded) = (0, 0);
        while sets < 150 {
            let (threads, phase, cost, factor) = drawn.new_tree(&mut runner).unwrap().current();
            let factor = [2, 3, 10][factor];
            let platform = Platform { tick_phase: Some(us(phase)), overheads: costs(us(cost)), ..make(1) };
            let (once, had) = stretched(&threads, &platform, 1, end);
            let (longer, has) = stretched(&threads, &platform, factor, end);
            let alike = |(a, b): (&(i64, i32, i32), &(i64, i32, i32))| {
                (a.1, a.2) == (b.1, b.2) && (a.0 * factor - b.0).abs() <= ROUNDING * factor
            };
            let place = once.iter().zip(&longer).position(|pair| !alike(pair));
            sets += 1;
            if place.is_none() && once.len() == longer.len() {
                continue;
            }
            rounded += 1;
            let at = place.map(|place| (once[place], longer[place]));
            let told = format!("{name}, {factor} times as long: {at:?} of {threads:?}");
            assert!(threads.iter().filter(|thread| may_be_fair(thread)).count() > 1, "{told}");
            for (had, has) in had.iter().zip(&has) {
                let apart = (*had * factor - *has).max(*has - *had * factor);
                assert!(apart <= platform.tick * 2 * factor, "{had} and {has}: {told}");
            }
        }
        assert!(rounded * 50 <= sets, "{name}: {rounded} of {sets} differ");
    }
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

    /// A task that is released only after the end changes nothing of all others, on several CPUs neither.
    #[test]
    fn a_task_that_never_becomes_ready_changes_nothing(set in drawn(1..5), length in 20i64..250, place in 0usize..12) {
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
        cpus in 1u32..4,
        profile in proptest::sample::select(&PROFILES[..3]),
    ) {
        let platform = profile.1(cpus);
        let bound = platform.fair_server.expect("it has one").period + platform.tick;
        let mut bench = Bench::new(platform);
        for (scheduling, steps) in &threads {
            bench.spawn(*scheduling, ms(0), steps);
        }
        let bound_to = |cpu| bench.spawn_as(FAIR, None, Some(cpu), ms(wakes), &[Step::RunForever]);
        let fair: Vec<_> = (0..cpus as usize).map(bound_to).collect();
        bench.run(ms(8000));
        for (cpu, fair) in fair.into_iter().enumerate() {
            let (_, longest) = bench.machine.waits(fair);
            prop_assert!(longest <= bound, "CPU {cpu}: {longest} of {bound}: {threads:?}");
        }
    }
}

/// What a CPU idled before a fair thread came does not use its server's budget up, though a FIFO loop comes at the same instant and the
/// fair thread never had the CPU.
#[test]
fn a_fair_thread_that_comes_to_an_idle_cpu_with_a_fifo_hog_is_served() {
    for (profile, fair_first) in PROFILES[..3].iter().flat_map(|profile| [(profile, true), (profile, false)])
    {
        let mut bench = Bench::new(profile.1(1));
        let mut comes = |scheduling| bench.spawn(scheduling, ms(500), &[Step::RunForever]);
        let fair = if fair_first { comes(FAIR) } else { (comes(fifo(50)), comes(FAIR)).1 };
        if fair_first {
            comes(fifo(50));
        }
        bench.run(ms(10_000));
        let (_, longest) = bench.machine.waits(fair);
        assert!(longest <= ms(954), "{}, fair first {fair_first}: {longest}", profile.0);
    }
}

/// Switches where a thread does its work in pieces, one after another without a call of the kernel, as one does whose jobs are late.
fn in_pieces(platform: &Platform, scheduling: Scheduling, piece: Nanos) -> Vec<(i64, i32, i32)> {
    let mut bench = Bench::with_times(platform.clone(), Times::KERNEL, Vec::new(), true);
    let count = ms(60).get() / piece.get();
    let pieces: Vec<Step> = (0..count).map(|_| Step::Run(piece)).collect();
    bench.spawn(scheduling, Nanos::ZERO, &pieces);
    bench.spawn(FAIR, Nanos::ZERO, &[Step::RunForever]);
    bench.spawn(
        FAIR,
        us(300),
        &(1..40).flat_map(|k| [Step::Run(us(700)), Step::SleepUntil(us(5_100 * k))]).collect::<Vec<_>>(),
    );
    let mut switches = Switches::default();
    bench.machine.run_until(ms(200), &mut switches);
    switches.0
}

/// The end of a job is nothing that the kernel sees where the next one is due already.
#[test]
fn late_jobs_share_as_one_long_one() {
    for (name, make) in PROFILES {
        for scheduling in [FAIR, nice(5), nice(-5), fifo(3), round_robin(3), reserved(ms(3), ms(10))] {
            let platform = Platform { tick_phase: Some(us(130)), ..make(1) };
            let whole = in_pieces(&platform, scheduling, ms(60));
            for piece in [us(240), us(750), ms(5)] {
                assert_eq!(in_pieces(&platform, scheduling, piece), whole, "{name}, {scheduling}, {piece}");
            }
        }
    }
}
