//! `apedf`: reserved threads change their CPU only where one has more than it can keep (`cpu::policies::deadline::adaptive`).

mod common;

use common::{Bench, exact, ms, periodic, reserved, us};
use surety_model::platform::Platform;
use surety_sim::cpu::hardware::ThreadId;
use surety_stats::Pcg;
use surety_units::Nanos;

fn platform(cpus: u32, scheduler: &str) -> Platform {
    let schedulers = [scheduler, "realtime", "fair"].map(str::to_owned).to_vec();
    Platform { schedulers, ..exact(cpus) }
}

/// Periodic threads `(work, period)`, each with a reservation of that, for this long.
fn bench(platform: Platform, set: &[(Nanos, Nanos)], end: Nanos) -> (Bench, Vec<ThreadId>) {
    let mut bench = Bench::new(platform);
    let threads = set.iter().map(|(work, period)| {
        let jobs = 2 * end.get() / period.get();
        bench.spawn(reserved(*work, *period), ms(0), &periodic(*period, *work, jobs))
    });
    let threads = threads.collect();
    bench.run(end);
    (bench, threads)
}

/// By how much the latest job of a thread ends after its period.
fn latest(bench: &Bench, thread: ThreadId, period: Nanos) -> Nanos {
    let ends = bench.finished(thread).iter().step_by(2);
    (1..).zip(ends).map(|(job, end)| *end - period * job).max().expect("a job ended")
}

/// Dhall: two threads of 0.2 beside one of 0.95 with a later deadline. Global EDF has both of them run first, on a CPU each, and the third is late; first fit puts
/// it on a CPU of its own.
#[test]
fn what_global_edf_does_not_keep_has_a_cpu_of_its_own() {
    let set = [(ms(2), ms(10)), (ms(2), ms(10)), (us(10_450), ms(11))];
    let late = |scheduler: &str| {
        let (bench, threads) = bench(platform(2, scheduler), &set, ms(1_100));
        latest(&bench, threads[2], set[2].1).is_positive()
    };
    assert!(late("deadline") && !late("apedf"));
}

/// A10, hard: first fit places every set whose sum is `(M + 1) / 2` at most (Lopez et al., with threads of up to a whole CPU), so after the moves of
/// the first jobs none is late, and each thread stays on its CPU.
#[test]
fn a10_sets_of_half_the_cpus_and_a_half_are_in_time() {
    let mut chance = Pcg::new(10, 1);
    for cpus in [2_u32, 4] {
        for _ in 0..100 {
            let mut room = i64::from(cpus + 1) * 500;
            let mut set = Vec::new();
            while room >= 50 && set.len() < 12 {
                let part = (50 + chance.below(850) as i64).min(room);
                let period = ms(10 + chance.below(90) as i64);
                set.push((period * part / 1_000, period));
                room -= part;
            }
            let (mut bench, threads) = bench(platform(cpus, "apedf"), &set, Nanos::from_secs(1));
            let on = |bench: &Bench| {
                threads.iter().map(|t| bench.machine.hardware().thread(*t).cpu).collect::<Vec<_>>()
            };
            for (thread, (_, period)) in threads.iter().zip(&set) {
                assert!(!latest(&bench, *thread, *period).is_positive(), "{cpus} CPUs: {set:?}");
            }
            let before = on(&bench);
            bench.run(Nanos::from_secs(2));
            assert_eq!(on(&bench), before, "{cpus} CPUs: {set:?}");
        }
    }
}

/// A10, soft: of three threads of 0.6 on two CPUs two have one that is booked for 1.2, so one goes where the latest deadline is. How late they are is
/// below the bound of global EDF (Devi and Anderson: `C + ((M - 1) C - C) / (M - (M - 2) U)` of equal threads, which is C = 6 ms).
#[test]
fn a10_what_does_not_fit_is_late_by_no_more_than_under_global_edf() {
    let set = [(ms(6), ms(10)); 3];
    let (bench, threads) = bench(platform(2, "apedf"), &set, Nanos::from_secs(10));
    for thread in threads {
        assert!(bench.finished(thread).len() >= 1_998, "{}", bench.finished(thread).len());
        assert!(latest(&bench, thread, ms(10)) < ms(6), "{}", latest(&bench, thread, ms(10)));
    }
}
