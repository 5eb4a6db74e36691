//! `SCHED_HIGH` against what its rules say by hand. No kernel has it.

mod common;

use common::{FAIR, Script, ms, periodic, simulate, us};
use surety_model::platform::Platform;
use surety_model::weight::nice_weight;
use surety_model::workload::PolicySpec;
use surety_sim::cpu::hardware::{Scheduling, ThreadId};
use surety_sim::cpu::machine::{Machine, MachineSpec};
use surety_sim::cpu::policies;
use surety_sim::cpu::program::Step;
use surety_units::{CpuId, Nanos};

fn high(nice: i32) -> Scheduling {
    Scheduling::Policy(PolicySpec::Simulated { word: "high", priority: 0, nice })
}

/// A machine that has the class, in the place where the table has it.
fn machine(cpus: u32) -> common::Bench {
    let platform = Platform { fair_server: None, ..Platform::linux_6_18(cpus) };
    let used = PolicySpec::Simulated { word: "high", priority: 0, nice: 0 };
    let schedulers = policies::for_policies(&platform.schedulers, [used]).expect("the table has it");
    let words: Vec<&str> = schedulers.iter().map(|row| row.word).collect();
    assert_eq!(words, ["deadline", "realtime", "high", "fair"]);
    let cpus = (0..platform.cpus).map(CpuId).collect();
    let (tick_phases, groups) = (vec![us(1_300)], Vec::new());
    let spec = MachineSpec { platform, schedulers, cpus, tick_phases, groups, seed: 1, events: false };
    common::Bench { machine: Machine::new(spec, Script::default()) }
}

fn spinner(bench: &mut common::Bench, scheduling: Scheduling) -> ThreadId {
    bench.spawn(scheduling, ms(0), &[Step::RunForever])
}

/// A20.
#[test]
fn a20_three_nice_values_share_by_weight_and_fair_threads_have_the_guard() {
    let mut bench = machine(1);
    let nices = [-10, 0, 5];
    let threads = nices.map(|nice| spinner(&mut bench, high(nice)));
    let fair = spinner(&mut bench, FAIR);
    bench.run(Nanos::from_secs(60));
    let share = |thread: ThreadId| bench.run_of(thread).as_secs_f64() / 60.0;
    let sum: i64 = nices.map(nice_weight).iter().sum();
    for (thread, nice) in threads.into_iter().zip(nices) {
        let weight = 0.95 * nice_weight(nice) as f64 / sum as f64;
        assert!((share(thread) - weight).abs() < 0.005, "nice {nice}: {} of {weight}", share(thread));
    }
    assert!((share(fair) - 0.05).abs() < 0.001, "{}", share(fair));
    // Served when 95 ms have passed, and 19 times what it had too much the last time, which is less than a tick; seen on a tick.
    let gap = bench.machine.waits(fair).1;
    assert!(gap >= ms(95) && gap <= ms(95 + 19 * 4 + 4), "{gap}");
}

/// The guard acts only where fair threads starve: one that leaves them a tenth is never kept waiting.
#[test]
fn the_guard_acts_only_where_fair_threads_starve() {
    let mut bench = machine(1);
    let jobs = bench.spawn(high(0), ms(0), &periodic(ms(20), ms(18), 500));
    let fair = spinner(&mut bench, FAIR);
    bench.run(Nanos::from_secs(10));
    assert_eq!(bench.machine.waits(jobs).1, Nanos::ZERO);
    assert_eq!(bench.run_of(fair), Nanos::from_secs(1));
    // Nobody else: it has all of the CPU.
    let mut bench = machine(1);
    let alone = spinner(&mut bench, high(0));
    bench.run(Nanos::from_secs(3));
    assert_eq!(bench.run_of(alone), Nanos::from_secs(3));
}

/// It comes before fair threads at once, of whatever nice value, and behind realtime ones; of two CPUs it takes the one with fair threads.
#[test]
fn it_stands_between_realtime_and_fair() {
    let mut bench = machine(1);
    spinner(&mut bench, common::nice(-20));
    let woken = bench.spawn(high(19), us(5_500), &[Step::Run(ms(1))]);
    let fifo = bench.spawn(common::fifo(1), us(5_800), &[Step::Run(ms(2))]);
    bench.run(ms(50));
    assert_eq!((bench.finished(woken)[0], bench.finished(fifo)[0]), (us(8_500), us(7_800)));

    let mut bench = machine(2);
    let first = spinner(&mut bench, high(0));
    spinner(&mut bench, FAIR);
    let second = bench.spawn(high(0), us(5_500), &[Step::RunForever]);
    bench.run(ms(50));
    assert_eq!((bench.run_of(first), bench.run_of(second)), (ms(50), ms(50) - us(5_500)));
}

/// By a file: the policy's word with its nice value is all that is needed. The guard is the fair server of that machine.
#[test]
fn a_workload_names_it() {
    let text = "[[load]]\nname = \"high\"\nkind = \"spinners\"\ncount = 1\npolicy = \"high\"\nnice = -5\n\
                [[load]]\nname = \"fair\"\nkind = \"spinners\"\ncount = 1\n";
    let record = simulate(text, 20, 1);
    let share = common::share(&record, "high");
    assert!((share - 0.95).abs() < 0.002, "{share}");
    assert_eq!(record.in_force.environment["class order"], "deadline > realtime > high > fair");
}
