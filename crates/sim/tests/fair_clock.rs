//! CFS as it came in with 2.6.23: each test has the instants at which threads end their work, worked out by hand from the fair clock, what threads
//! are owed, and their keys.

mod common;

use common::{Bench, FAIR, ms, nice, us};
use proptest::prelude::*;
use surety_model::formats::toml;
use surety_model::platform::Platform;
use surety_model::workload::PolicySpec;
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_sim::SimWorld;
use surety_sim::cpu::hardware::{Scheduling, ThreadId};
use surety_sim::cpu::program::Step;
use surety_units::Nanos;

const BATCH: Scheduling = Scheduling::Policy(PolicySpec::Batch { nice: 0 });

/// One CPU with ticks of 1 ms from 0 on: a granularity of 2 ms, a latency of 20, and 1 ms for who wakes.
fn bench(features: &str) -> Bench {
    bench_with(ms(1), features)
}

fn bench_with(tick: Nanos, features: &str) -> Bench {
    let mut platform = Platform { tick, tick_phase: Some(Nanos::ZERO), ..Platform::linux_2_6_23(1) };
    let words: Vec<&str> = features.split('+').filter(|word| !word.is_empty()).collect();
    platform.set_features(&words).expect("the version has them");
    Bench::new(platform)
}

/// Sleeps until `at`, and works for `work`.
fn wakes(at: Nanos, work: Nanos) -> [Step; 2] {
    [Step::SleepUntil(at), Step::Run(work)]
}

/// Two run: the key of the running one goes on as its time does, half for the fair clock and half for what it owes. The granularity is
/// `20 / 2 - 20 / 4 = 5` ms, so the first gives way at 6 ms. The second has waited for 3 of the fair clock: from 0 on its key gets to 11
/// when it has run for longer than `20 / 2`, the other's being 6. And so on in turns of 11 ms.
#[test]
fn two_spinners_take_turns_of_eleven_ms() {
    let mut bench = bench("");
    let steps = [10, 11, 1].map(|work| Step::Run(ms(work)));
    let threads = [(); 2].map(|()| bench.spawn(FAIR, ms(0), &steps));
    bench.run(ms(100));
    // 0-6, 17-28, 39-44 and 6-17, 28-39.
    assert_eq!(bench.finished(threads[0]), [ms(21), ms(43), ms(44)]);
    assert_eq!(bench.finished(threads[1]), [ms(16), ms(38), ms(39)]);
}

/// At 100.5 ms the spinner's key is 100, of its last tick. Who has slept is owed 20 ms, so its key is 80.5, and of that bonus it pays what its
/// part is: with 20 owed there is no room, then up to the tick of 103 its key is 81, 82.25 and 83.75, and 1.5 ms more each ms. It is past 100 at that of 114,
/// having run for longer than 10 ms. The spinner, with 6.75 owed, pays too: its key is 106.5 at 118, more than 5 ahead of 100.25. Nobody
/// pays what is not given: with `NO_FAIR_SLEEPERS` the key is 100.5, and the spinner, past its 10 ms, gives way at 101.
#[test]
fn sleepers_are_owed_their_sleep_and_who_runs_pays_for_it() {
    for (features, work, end) in [
        ("", us(200), us(100_700)),
        ("", ms(13), us(113_500)),
        ("", ms(20), us(124_500)),
        ("NO_FAIR_SLEEPERS", us(200), us(101_200)),
        // 101-107, 118-129, 140-143.
        ("NO_FAIR_SLEEPERS", ms(20), ms(143)),
    ] {
        let mut bench = bench(features);
        let thread = bench.spawn(FAIR, ms(0), &wakes(us(100_500), work));
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        bench.run(ms(200));
        assert_eq!(bench.finished(thread)[1], end, "{features} {work}");
    }
}

/// One runs from 0 to 1.5 ms and sleeps owing 0.75; when it wakes its key is 1.5, whenever that is. The other's is 2.5 at the tick of 4 and
/// 3.5 at that of 5: not more than 1 ms behind it, and more. With the first it goes on to the tick of 7, where it pays for the
/// bonus of 3 ms and its key is 6.75. Who asked for `SCHED_BATCH` would have to be 25 ms before it and is given nothing: its key is 5.5 when it wakes
/// at 5.5, and the other gives way at 12, having run for longer than 10 ms.
#[test]
fn who_wakes_has_to_be_half_a_granularity_before_the_running_one() {
    for (scheduling, at, end) in [
        (FAIR, us(4_500), us(7_200)),
        (FAIR, us(5_500), us(5_700)),
        (BATCH, us(4_500), us(12_200)),
        (BATCH, us(5_500), us(12_200)),
    ] {
        let mut bench = bench("");
        let [sleep, work] = wakes(at, us(200));
        let thread = bench.spawn(scheduling, ms(0), &[Step::Run(us(1_500)), sleep, work]);
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        bench.run(ms(50));
        assert_eq!(bench.finished(thread)[2], end, "{scheduling} {at}");
    }
}

/// What a step asks for counts from there on. Who changes its policy lets the other go first, to 6 ms, works to 7.5 and wakes at 11.5: there it takes over at once,
/// or as `SCHED_BATCH` on the tick of 13.
#[test]
fn who_becomes_batch_wakes_as_batch() {
    let longest = |policy: &str, step: &str| {
        let text = format!(
            "format = 1\n[[task]]\nname = 'a'\nperiod = '1s'\npolicy = '{policy}'\n\
             phases = [{step} {{ run = '1500us' }}, {{ sleep = '4ms' }}, {{ run = '200us' }}]\n\
             [[load]]\nname = 'l'\nkind = 'spinners'\ncount = 1\n"
        );
        let workload = toml::read("test", &text).unwrap();
        let platform = Platform { tick: ms(1), tick_phase: Some(Nanos::ZERO), ..Platform::linux_2_6_23(1) };
        let options = RunOptions { duration: ms(900), warm_up: Nanos::ZERO, ..RunOptions::default() };
        let record = SimWorld::new(platform).run(&workload, &options, &mut Unobserved).unwrap();
        record.activity("a").unwrap().response.as_ref().unwrap().quantile(1.0).unwrap()
    };
    let becomes = |policy, step: &str| longest(policy, &format!("{{ policy = '{step}' }},"));
    assert_eq!((longest("fair", ""), longest("batch", "")), (us(5_700), us(12_200)));
    assert_eq!((becomes("batch", "fair"), becomes("fair", "batch")), (us(11_700), us(13_200)));
}

/// A new thread is owed nothing: its key is the fair clock, 10.5, where the spinner's is 10. It waits for the next tick, where the spinner,
/// past 20 / 2 ms, is at 11.
#[test]
fn new_threads_begin_at_the_fair_clock() {
    for (start, end) in [(us(10_500), us(11_200)), (us(3_500), us(9_200))] {
        let mut bench = bench("");
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        let thread = bench.spawn(FAIR, start, &[Step::Run(us(200))]);
        bench.run(ms(50));
        assert_eq!(bench.finished(thread), [end]);
    }
}

/// Who gives way gets the key that it has by now, and the least of both runs.
#[test]
fn yielding_takes_a_new_key() {
    let mut bench = bench("");
    let thread = bench.spawn(FAIR, ms(0), &[Step::Run(us(500)), Step::Yield, Step::Run(us(500))]);
    let other = bench.spawn(FAIR, ms(0), &[Step::Run(us(700))]);
    bench.run(ms(50));
    assert_eq!((bench.finished(thread)[2], bench.finished(other)), (us(1_700), &[us(1_200)][..]));
}

/// A thread of `SCHED_IDLE` is one of weight 2 and competes as others do. Its key is 0.25 when it comes, the other's 6 at 6 ms, when it gets the CPU. It has it for a
/// tick, which makes its key 512 ms more, and has it again when the other's is beyond 512.25: that is 512 at 513 ms.
#[test]
fn idle_threads_have_weight_two() {
    let mut bench = bench("");
    bench.spawn(FAIR, ms(0), &[Step::RunForever]);
    let idle = Scheduling::Policy(PolicySpec::Idle);
    let idle = bench.spawn(idle, us(250), &[Step::Run(us(900)), Step::Run(us(900))]);
    bench.run(Nanos::from_secs(1));
    assert_eq!(bench.finished(idle), [us(6_900), us(514_800)]);
}

/// Of a wait no more than twice the latency of the fair clock is given, and nobody owes more than the latency: of two threads a light one gets less than by its weight, which
/// for nice 19 is 1.44 %. It owes 20 ms after some turns of a tick, and then has one in `20 * 1024 / 15` ms of its key.
#[test]
fn light_threads_get_less_than_by_their_weight() {
    for tick in [1, 4] {
        let mut bench = bench_with(ms(tick), "");
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        let light = bench.spawn(nice(19), ms(0), &[Step::RunForever]);
        bench.run(Nanos::from_secs(100));
        let before = bench.run_of(light);
        bench.run(Nanos::from_secs(500));
        let got = (bench.run_of(light) - before).as_secs_f64() / 400.0;
        let by_rule = tick as f64 * 15.0 / 1024.0 / 20.0;
        assert!((got / by_rule - 1.0).abs() < 0.01, "{got} {by_rule}");
    }
}

/// More CPUs make its times longer, without end but for 100 ms.
#[test]
fn granularity_grows_with_cpus() {
    for (cpus, granularity) in [(1, 2), (2, 4), (8, 8), (16, 10), (64, 14)] {
        assert_eq!(Platform::linux_2_6_23(cpus).base_slice, ms(granularity));
        let changes: surety_model::platform::PlatformChanges = format!("cpus={cpus}").parse().unwrap();
        assert_eq!(changes.on(&Platform::linux_2_6_23(2)).unwrap().base_slice, ms(granularity));
    }
}

/// What that kernel does not have is refused, with what to change.
#[test]
fn what_came_later_is_refused() {
    let task = "format = 1\n[[task]]\nname = 't'\nperiod = '10ms'\nwork = '1ms'\n";
    for (text, why) in [
        (format!("{task}group = 'g'\n[[group]]\nname = 'g'\n"), "no control groups"),
        (format!("{task}latency_nice = 3\n"), "no latency nice"),
        (format!("{task}reservation = {{ runtime = '2ms', period = '10ms' }}\n"), "no SCHED_DEADLINE"),
    ] {
        let workload = toml::read("test", &text).unwrap();
        let world = SimWorld::new(Platform::linux_2_6_23(1));
        let said = world.objections(&workload);
        assert!(said.len() == 1 && said[0].to_string().contains(why), "{said:?}");
        assert!(SimWorld::new(Platform::linux_6_1(1)).objections(&workload).is_empty());
    }
    let mut platform = Platform::linux_2_6_23(1);
    assert!(platform.set_features(&["SLEEPER_AVG"]).unwrap_err().contains("SLEEPER_AVG is off"));
    assert!(platform.set_features(&["NO_START_DEBIT"]).unwrap_err().contains("START_DEBIT is on"));
    assert!(platform.in_words().contains("fair class unvalidated"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A sleeper that asks for less than its part has what it asks for. Threads that want the CPU all the time have the rest by weight, but for what the sleeper
    /// was given: whoever runs then pays for that, and may be the same one each time.
    #[test]
    fn sleepers_have_their_part_and_spinners_share_the_rest(
        nices in proptest::collection::vec(-5i32..6, 2..5),
        sleeper in (200i64..2_000, 1i64..9),
    ) {
        let mut bench = bench("");
        let spinners: Vec<ThreadId> =
            nices.iter().map(|value| bench.spawn(nice(*value), ms(0), &[Step::RunForever])).collect();
        let (work, many) = sleeper;
        let period = us(work * (spinners.len() as i64 + 1) * many * 4);
        let count = Nanos::from_secs(20).div_floor(period);
        let steps: Vec<Step> =
            (1..=count).flat_map(|job| [Step::Run(us(work)), Step::SleepUntil(period * job)]).collect();
        let sleeper = bench.spawn(nice(-5), ms(0), &steps);
        bench.run(Nanos::from_secs(20));
        let had: Vec<f64> = spinners.iter().map(|id| bench.run_of(*id).as_secs_f64()).collect();
        let weights: Vec<f64> =
            nices.iter().map(|value| surety_model::weight::nice_weight(*value) as f64).collect();
        let (whole, sum) = (had.iter().sum::<f64>(), weights.iter().sum::<f64>());
        let asked = us(work) * count;
        let got = bench.run_of(sleeper);
        // A turn of each is 11 ms at most.
        let paid = got.as_secs_f64() + 0.011 * had.len() as f64;
        for (had, weight) in had.iter().zip(&weights) {
            prop_assert!((had - whole * weight / sum).abs() <= paid, "{had} of {whole}, {weight} of {sum}, {paid}");
        }
        prop_assert!(got <= asked && got >= asked - us(work), "{got} of {asked}");
    }
}
