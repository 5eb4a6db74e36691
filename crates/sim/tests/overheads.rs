//! What the kernel's own work takes: on whose account it is, what it puts off, and that without it there is theory.

mod common;

use common::drawn::drawn;
use common::{Bench, FAIR, fifo, ms, options, us, workload};
use proptest::prelude::*;
use surety_model::platform::{Overheads, Platform};
use surety_model::record::{Distribution, Record};
use surety_model::world::{Unobserved, World as _};
use surety_sim::SimWorld;
use surety_sim::cpu::hardware::ThreadId;
use surety_sim::cpu::program::Step;
use surety_units::Nanos;

const COSTS: Overheads = Overheads {
    switch: Nanos::from_micros(2),
    wakeup: Nanos::from_micros(5),
    sleep: Nanos::from_micros(7),
    tick: Nanos::from_micros(11),
    timer: Nanos::from_micros(3),
};

fn on_one_cpu(overheads: Overheads, text: &str) -> Record {
    // Ticks at 2 ms and every 4 ms from there.
    let platform = Platform { overheads, tick_phase: Some(ms(2)), ..Platform::linux_6_18(1) };
    SimWorld::new(platform)
        .run(&workload(text), &options(1, 1), &mut Unobserved)
        .expect("it can be simulated")
}

fn run_of(record: &Record, name: &str) -> Nanos {
    let share = record.activity(name).and_then(|activity| activity.share.as_ref());
    share.expect("the activity is there").threads[0].0
}

/// The shortest and the longest of some times, in ns.
fn limits(times: &Option<Distribution>) -> (f64, f64) {
    let moments = times.as_ref().and_then(|times| times.observed()).map(|times| &times.moments);
    moments.and_then(|moments| moments.min().zip(moments.max())).expect("times were observed")
}

const PERIODIC: &str = "[[task]]\nname = \"t\"\nperiod = \"10ms\"\nwork = \"1ms\"\npolicy = \"fifo:1\"\n";
const SPINNER: &str = "[[load]]\nname = \"s\"\nkind = \"spinners\"\n";

/// 100 jobs a second: each is woken at the spinner's cost, and pays its switch and its way to sleep itself.
#[test]
fn each_cost_is_on_the_account_of_who_causes_or_meets_it() {
    let record = on_one_cpu(COSTS, &format!("{PERIODIC}{SPINNER}"));
    let task = record.activity("t").unwrap();
    assert_eq!(run_of(&record, "t"), (ms(1) + us(2 + 7)) * 100);
    assert_eq!(run_of(&record, "s"), Nanos::from_secs(1) - (ms(1) + us(2 + 7)) * 100);
    assert_eq!(limits(&task.latency), (7e3, 7e3), "woken and switched to");
    assert_eq!(limits(&task.execution), (1e6, 1e6), "its work alone");
    assert_eq!(limits(&task.response), (1.007e6, 1.007e6));
    // An idle CPU wakes no faster.
    let alone = on_one_cpu(COSTS, PERIODIC);
    assert_eq!(limits(&alone.activity("t").unwrap().latency), (7e3, 7e3));
    assert_eq!(run_of(&alone, "t"), (ms(1) + us(2 + 7)) * 100);
}

/// A wake-up whose timer is due inside a tick comes behind it.
#[test]
fn interrupts_wait_for_each_other() {
    // Every second release comes 5 us behind a tick.
    let text = format!("{}{SPINNER}", PERIODIC.replace("name = \"t\"", "name = \"t\"\nstart = \"2005us\""));
    let record = on_one_cpu(COSTS, &text);
    let task = record.activity("t").unwrap();
    assert_eq!(limits(&task.latency), (7e3, 13e3));
    assert_eq!(limits(&task.execution), (1e6, 1e6), "work is CPU time, with the ticks that are in it");
    let reserved = "[[task]]\nname = \"t\"\nperiod = \"10ms\"\nwork = \"3ms\"\n\
                    reservation = { runtime = \"2ms\", period = \"10ms\" }\n";
    let exact = |overheads| {
        let platform = Platform { overheads, ..common::exact(1) };
        let world = SimWorld::new(platform);
        let record = world.run(&workload(&format!("{reserved}{SPINNER}")), &options(1, 1), &mut Unobserved);
        run_of(&record.unwrap(), "t")
    };
    // Its budget ends each period; the interrupt that ends it is on its account.
    assert_eq!(exact(Overheads::NONE), ms(2) * 100);
    assert!(exact(COSTS) >= ms(2) * 100 && exact(COSTS) <= (ms(2) + us(11 + 3)) * 100, "{}", exact(COSTS));
}

/// Who wakes another thread pays for it and goes on behind.
#[test]
fn waking_by_a_thread_is_on_its_account() {
    let times = |overheads| {
        let mut bench = Bench::new(Platform { overheads, ..Platform::linux_6_18(1) });
        let signal = bench.machine.add_signal();
        let steps = [Step::Run(us(100)), Step::Signal(signal), Step::Run(us(100))];
        let high = bench.spawn(fifo(2), us(50), &steps);
        let low = bench.spawn(fifo(1), us(0), &[Step::Wait(signal), Step::Run(us(50))]);
        bench.run(ms(1));
        (*bench.finished(high).last().unwrap(), *bench.finished(low).last().unwrap(), bench.run_of(high))
    };
    assert_eq!(times(Overheads::NONE), (us(250), us(300), us(200)));
    let wakeup = Overheads { wakeup: us(5), ..Overheads::NONE };
    assert_eq!(times(wakeup), (us(260), us(310), us(205)));
}

/// A work that is an exact half of what the spinner beside it gets in a period ends with no lag at all, and one that has none does not
/// preempt: theory waits for the tick. Any cost breaks the tie.
#[test]
fn costs_end_the_waiting_of_exact_fractions() {
    let text = |period: &str, work: &str| {
        format!("[[task]]\nname = \"t\"\nperiod = \"{period}\"\nwork = \"{work}\"\n{SPINNER}")
    };
    let small = Overheads { switch: us(1), wakeup: us(2), sleep: us(2), tick: us(2), timer: us(1) };
    let late = |overheads, period: &str, work: &str| {
        let record = on_one_cpu(overheads, &text(period, work));
        let task = record.activity("t").unwrap();
        let latency = task.latency.as_ref().unwrap();
        latency.quantile(0.5).unwrap()
    };
    for (period, work) in [("1ms", "250us"), ("2ms", "500us"), ("4ms", "1ms")] {
        eprintln!("{period} {work}: {} {}", late(Overheads::NONE, period, work), late(small, period, work));
        assert!(late(small, period, work) < us(10), "{period}");
    }
}

/// When each job of each task is done: work in us and period in ms, the least important first, with a spinner below.
fn finished(tasks: &[(i64, i64)], overheads: Overheads) -> Vec<Vec<Nanos>> {
    let mut bench = Bench::new(Platform { overheads, fair_server: None, ..Platform::linux_6_18(1) });
    let spawn = |((work, period), priority): (&(i64, i64), u32)| {
        bench.spawn(fifo(priority), us(0), &common::periodic(ms(*period), us(*work), 400 / period))
    };
    let mut threads: Vec<ThreadId> = tasks.iter().zip(1..).map(spawn).collect();
    threads.push(bench.spawn(FAIR, us(0), &[Step::RunForever]));
    bench.run(ms(400));
    let all: Nanos = threads.iter().map(|thread| bench.run_of(*thread)).sum();
    assert!(all <= ms(400), "more than there is: {all}");
    // Every other step is a job's work.
    let asked = &bench.machine.programs().asked;
    threads.iter().map(|t| asked[t.index()].iter().skip(1).step_by(2).copied().collect()).collect()
}

/// Work that ends in the interrupt that has another thread take over is done when its own thread runs again.
#[test]
fn nobody_is_done_inside_an_interrupt() {
    let wakeup = Overheads { wakeup: us(1), ..Overheads::NONE };
    let jobs = finished(&[(2001, 5), (50, 6), (50, 6)], wakeup);
    // It is released at 10 ms and wakes 1 us later; the others come at 12 ms.
    assert_eq!(jobs[0][2], ms(12) + us(2 + 50 + 50));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Threads of different fixed priorities on one CPU: no job is done earlier than in theory. (Of two machines with costs the one
    /// with larger ones may be earlier: what comes too late to sleep saves the costs of that.)
    #[test]
    fn overheads_finish_no_job_earlier_than_theory(
        tasks in prop::collection::vec((50i64..3000, 2i64..40), 1..6),
        costs in prop::array::uniform5(0i64..30),
    ) {
        let [switch, wakeup, sleep, tick, timer] = costs.map(us);
        let theory = finished(&tasks, Overheads::NONE);
        let real = finished(&tasks, Overheads { switch, wakeup, sleep, tick, timer });
        for (theory, real) in theory.iter().zip(&real) {
            prop_assert!(real.len() <= theory.len(), "more jobs are done");
            for (theory, real) in theory.iter().zip(real) {
                prop_assert!(real >= theory, "{real} and in theory {theory}");
            }
        }
    }

    /// A run is the beginning of every longer one with costs, too, and no CPU gives more time than it has.
    #[test]
    fn costs_keep_a_run_the_beginning_of_every_longer_one(set in drawn(1..6), length in 20i64..120) {
        let platform = Platform { overheads: COSTS, ..set.platform() };
        let (mut short, mut long) = (common::drawn::Told::default(), common::drawn::Told::default());
        let record = set.run_on(platform.clone(), ms(length), &mut short).expect("it can be simulated");
        set.run_on(platform, ms(2 * length), &mut long).expect("it can be simulated");
        let common = long.0.partition_point(|(time, _)| *time <= ms(length));
        prop_assert_eq!(&short.0[..], &long.0[..common], "{}", set.text());
        let shares = record.activities.iter().filter_map(|a| a.share.as_ref());
        let all: Nanos = shares.flat_map(|share| share.threads.iter().map(|(run, _)| *run)).sum();
// What is booked ahead at the end may be on the account of a thread whose CPU has another by then.
        let ahead = COSTS.per_job() + COSTS.tick + COSTS.timer;
        let most = (ms(length) + ahead) * i64::from(set.cpus);
        prop_assert!(all <= most, "{all} of {most}\n{}", set.text());
    }
}
