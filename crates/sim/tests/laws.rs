//! What holds for every set of threads.

mod common;

use common::{Bench, FAIR, exact, fifo, ms, nice, overcommitted, reserved, round_robin, us};
use proptest::prelude::*;
use surety_model::platform::Platform;
use surety_model::workload::PolicySpec;
use surety_sim::cpu::hardware::{Scheduling, ThreadId};
use surety_sim::cpu::program::Step;
use surety_units::Nanos;

fn scheduling() -> impl Strategy<Value = Scheduling> {
    prop_oneof![
        (-20i32..20).prop_map(nice),
        Just(Scheduling::Policy(PolicySpec::Idle)),
        (-20i32..20).prop_map(|nice| Scheduling::Policy(PolicySpec::Batch { nice })),
        (100i64..20_000)
            .prop_map(|slice| Scheduling::Policy(PolicySpec::Fair { nice: 0, slice: Some(us(slice)) })),
        (1u32..4).prop_map(fifo),
        (1u32..4).prop_map(round_robin),
        (1i64..4, 10i64..50).prop_map(|(q, t)| reserved(ms(q), ms(t))),
    ]
}

/// Jobs of some work with sleeps between them.
fn jobs() -> impl Strategy<Value = Vec<(i64, i64)>> {
    proptest::collection::vec((10i64..9_000, 1i64..20_000), 5..60)
}

fn steps(jobs: &[(i64, i64)]) -> Vec<Step> {
    let mut at = Nanos::ZERO;
    let mut steps = Vec::new();
    for (work, gap) in jobs {
        at += us(work + gap);
        steps.extend([Step::Run(us(*work)), Step::SleepUntil(at)]);
    }
    steps
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One CPU is not idle while a thread waits: with a hog, all time is used. Of several, one idles for a moment where the threads that
    /// wait elsewhere have a warm cache there, as in the kernel. A thread's time is its running, its waiting and its sleeping.
    #[test]
    fn no_time_is_lost(
        threads in proptest::collection::vec((scheduling(), jobs()), 0..8),
        cpus in 1u32..4,
        order in 0usize..2,
    ) {
        let mut platform = Platform::linux_6_18(cpus);
        platform.schedulers.rotate_left(order);
        let mut bench = Bench::new(platform);
        let mut ids: Vec<ThreadId> =
            threads.iter().map(|(s, j)| bench.spawn(*s, ms(0), &steps(j))).collect();
        ids.extend((0..cpus).map(|_| bench.spawn(FAIR, ms(0), &[Step::RunForever])));
        let span = ms(500);
        bench.run(span);
        let used: Nanos = ids.iter().map(|id| bench.run_of(*id)).sum();
        let all = span * i64::from(cpus);
        prop_assert!(if cpus == 1 { used == all } else { used <= all && used >= all * 9 / 10 }, "{used} of {all}");
        for id in &ids {
            let (waited, longest) = bench.machine.waits(*id);
            prop_assert!(longest <= waited && bench.run_of(*id) + waited <= span);
        }
    }

    /// Nor is any by the schedulers that no kernel has, whatever their order.
    #[test]
    fn no_time_is_lost_by_those_that_no_kernel_has(
        threads in proptest::collection::vec((scheduling(), jobs(), 0u8..6), 0..10),
        cpus in 1u32..5,
        order in 0usize..4,
        is_served: bool,
    ) {
        let names = ["deadline", "overcommit", "realtime", "high", "muqss"];
        let mut platform = Platform { schedulers: names.map(str::to_owned).to_vec(), ..Platform::linux_6_18(cpus) };
        platform.schedulers[..4].rotate_left(order);
        platform.fair_server = platform.fair_server.filter(|_| is_served);
        let mut bench = Bench::new(platform);
        let simulated = |word, nice| Scheduling::Policy(PolicySpec::Simulated { word, priority: 0, nice });
        let of = |(scheduling, kind): (Scheduling, u8)| match kind {
            0 => simulated("high", 0),
            1 => simulated("high", -5),
            2 => simulated("iso", 3),
            3 => overcommitted(ms(30), ms(70)),
            4 => overcommitted(us(900), ms(5)),
            _ => scheduling,
        };
        let mut ids: Vec<ThreadId> =
            threads.iter().map(|(s, j, kind)| bench.spawn(of((*s, *kind)), ms(0), &steps(j))).collect();
        ids.extend((0..cpus).map(|_| bench.spawn(FAIR, ms(0), &[Step::RunForever])));
        let span = ms(500);
        bench.run(span);
        let used: Nanos = ids.iter().map(|id| bench.run_of(*id)).sum();
        let all = span * i64::from(cpus);
        prop_assert!(if cpus == 1 { used == all } else { used <= all && used >= all * 9 / 10 }, "{used} of {all}");
        for id in &ids {
            let (waited, longest) = bench.machine.waits(*id);
            prop_assert!(longest <= waited && bench.run_of(*id) + waited <= span);
        }
    }

    /// Jobs within their budgets meet every deadline while the reservations of one CPU sum up to at most 1 and are
    /// enforced exactly, whatever else wants the CPU.
    #[test]
    fn edf_with_full_utilisation_never_misses(
        set in proptest::collection::vec((5i64..60, 1u32..100), 1..7),
        seeds in proptest::collection::vec(1u32..=100, 7),
    ) {
        let whole: u32 = set.iter().map(|(_, part)| *part).sum();
        let mut bench = Bench::new(exact(1));
        let mut tasks = Vec::new();
        for ((period, part), fill) in set.iter().zip(&seeds) {
            let period = ms(*period);
            let runtime = period.mul_ratio(u64::from(*part), u64::from(whole));
            if runtime < us(2) {
                continue;
            }
            let count = Nanos::from_secs(1).div_floor(period);
            let mut steps = Vec::new();
            for job in 0..count {
                // Every third job takes the whole budget.
                let work = if job % 3 == 0 { runtime } else { runtime.mul_ratio(u64::from(*fill), 100) };
                steps.extend([Step::Run(work), Step::SleepUntil(period * (job + 1))]);
            }
            tasks.push((period, bench.spawn(reserved(runtime, period), ms(0), &steps)));
        }
        bench.spawn(fifo(99), ms(0), &[Step::RunForever]);
        bench.run(Nanos::from_secs(1));
        for (period, id) in tasks {
            for (job, done) in bench.finished(id).iter().step_by(2).enumerate() {
                let deadline = period * (job as i64 + 1);
                prop_assert!(*done <= deadline, "job {job} of period {period} done at {done}");
            }
        }
    }

    /// A reservation gets its share in the long run however coarsely it is enforced, never behind by more than a
    /// budget.
    ///
    /// It is ahead by at most Q + 2 o with an overrun of at most o: an overrun of o postpones the deadline by
    /// `floor(o / Q) + 1` periods at the next replenishment, and the last of the budgets until there runs at once,
    /// over by o again.
    #[test]
    fn a_reservation_gets_its_share_and_no_more(q in 1i64..30, t in 4i64..100, phase in 0i64..4000, coarse: bool) {
        prop_assume!(q < t);
        let platform = if coarse { Platform { fair_server: None, ..Platform::linux_6_18(1) } } else { exact(1) };
        let overrun = platform.enforcement.overrun_max();
        let mut bench = Bench::new(platform);
        let id = bench.spawn(reserved(ms(q), ms(t)), us(phase), &[Step::RunForever]);
        bench.spawn(FAIR, ms(0), &[Step::RunForever]);
        for seconds in 1..=4 {
            let now = Nanos::from_secs(seconds * 5);
            bench.run(now);
            let owed = (now - us(phase)).mul_ratio(q as u64, t as u64);
            let got = bench.run_of(id);
            prop_assert!(got <= owed + ms(q) + overrun * 2, "{got} of {owed}");
            prop_assert!(got + ms(q) >= owed, "{got} of {owed}");
        }
    }

    /// Fair hogs stay near what their weights are worth, at every instant looked at: the difference does not grow.
    ///
    /// EEVDF bounds it by one request (Stoica et al. 1996); protecting the running thread's slice (run to parity) and
    /// the kernel's rounding of averages cost up to one more, and what runs over until the tick sees it comes on top.
    #[test]
    fn lag_stays_bounded(nices in proptest::collection::vec(-10i32..10, 2..7), coarse: bool) {
        let tick = if coarse { ms(4) } else { us(10) };
        let platform = Platform { fair_server: None, tick, ..Platform::linux_6_18(1) };
        let over = tick * nices.len() as i64;
        let bound = platform.base_slice * 2 + over;
        let weight = |n: i32| {
            let table = [
                9548i64, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215,
                172, 137,
            ];
            table[(n + 10) as usize]
        };
        let whole: i64 = nices.iter().map(|n| weight(*n)).sum();
        let mut bench = Bench::new(platform);
        let ids: Vec<ThreadId> =
            nices.iter().map(|n| bench.spawn(nice(*n), ms(0), &[Step::RunForever])).collect();
        for look in 1..=40 {
            let now = us(99_700) * look;
            bench.run(now);
            for (id, n) in ids.iter().zip(&nices) {
                let owed = now.mul_ratio(weight(*n) as u64, whole as u64);
                let lag = owed - bench.run_of(*id);
                prop_assert!(lag <= bound && lag >= -bound, "lag {lag} of nice {n} at {now}");
            }
        }
    }
}

#[test]
fn weights_become_shares_within_a_hundredth() {
    let platform = Platform { fair_server: None, ..Platform::linux_6_18(1) };
    let mut bench = Bench::new(platform);
    let set = [(-20, 88761.0), (0, 1024.0), (0, 1024.0), (5, 335.0), (19, 15.0)];
    let ids: Vec<_> = set.iter().map(|(n, _)| bench.spawn(nice(*n), ms(0), &[Step::RunForever])).collect();
    let span = Nanos::from_secs(600);
    bench.run(span);
    let whole: f64 = set.iter().map(|(_, w)| w).sum();
    for (id, (n, w)) in ids.iter().zip(&set) {
        let share = bench.run_of(*id).as_secs_f64() / span.as_secs_f64();
        // A hundredth of what it is worth, or one tick of the span for the very light.
        let allowed = (w / whole * 0.01).max(8e-3 / span.as_secs_f64());
        assert!((share - w / whole).abs() < allowed, "nice {n}: {share} of {}", w / whole);
    }
}

#[test]
fn three_hogs_on_two_cpus_take_turns() {
    let mut bench = Bench::new(Platform { fair_server: None, ..Platform::linux_6_18(2) });
    let ids: Vec<_> = (0..3).map(|_| bench.spawn(FAIR, ms(0), &[Step::RunForever])).collect();
    bench.run(Nanos::from_secs(60));
    for id in ids {
        let share = bench.run_of(id).as_secs_f64() / 60.0;
        assert!((share - 2.0 / 3.0).abs() < 0.05, "{share}");
    }
}
