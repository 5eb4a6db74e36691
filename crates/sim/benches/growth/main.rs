//! What an event costs as threads and CPUs become many: a flat line is the aim.
//!
//! The items per second divan prints are events per second, as in `events`. Threads together want four fifths of the CPUs there
//! are, whatever their number, and their periods grow with it: so the number of events in a second of a CPU is the same
//! everywhere, and what differs is what one costs. Of `crowds` all threads want a CPU all the time, which fills the queues.
//! Of `asleep` ten threads work and all others sleep to the end: what is more there is the number alone, and what `threads` has
//! beyond it is waiting for memory, as the processor's caches hold the state of some thousand threads. Of `cpus` each CPU more has eight
//! threads more, of `alone` there are as many threads on every number of CPUs.
//!
//! Without a filter the ratios are printed last: each row's sizes in turn, the fastest of ten rounds, and what the dearest size costs over
//! what the first does, so that no size between the first and the last is hidden.

mod partsim;

use std::time::{Duration, Instant};

use divan::Bencher;
use divan::counter::ItemsCount;
use surety_model::platform::Platform;
use surety_model::reservation::Reservation;
use surety_model::workload::PolicySpec;
use surety_model::world::Unobserved;
use surety_sim::cpu::hardware::Scheduling;
use surety_sim::cpu::machine::{Machine, MachineSpec, ThreadSpec};
use surety_sim::cpu::policies;
use surety_sim::cpu::program::{Moment, Programs, Step};
use surety_sim::engine::Simulation as _;
use surety_stats::random::Pcg;
use surety_units::{CpuId, Nanos};

const THREADS: [u32; 4] = [10, 100, 1_000, 10_000];
const CPUS: [u32; 5] = [1, 4, 16, 64, 256];

/// Threads for each CPU of the benches that grow by CPUs.
const PER_CPU: u32 = 8;

/// Events of a run, more or less.
const EVENTS: i64 = 200_000;

#[derive(Clone, Copy)]
enum Kind {
    Fair,
    Fifo,
    Reserved,
    /// One in four is reserved, one FIFO, the others fair.
    Mixed,
}

/// The jobs of a thread: work on each point of a grid, and how far it is.
struct Jobs {
    period: Nanos,
    work: Nanos,
    job: u32,
    works: bool,
}

/// Threads that have such jobs, or work all the time.
struct Loaded {
    threads: Vec<Jobs>,
    always: bool,
}

impl Programs for Loaded {
    fn next(&mut self, at: Moment, _mark: &mut dyn FnMut(surety_model::event::JobMarker)) -> Step {
        if self.always {
            return Step::RunForever;
        }
        let jobs = &mut self.threads[at.thread.index()];
        jobs.works = !jobs.works;
        if jobs.works {
            return Step::Run(jobs.work);
        }
        jobs.job += 1;
        Step::SleepUntil(jobs.period * i64::from(jobs.job))
    }
}

fn scheduling(kind: Kind, place: u32, period: Nanos, work: Nanos) -> Scheduling {
    let fair = Scheduling::Policy(PolicySpec::Fair { nice: 0, slice: None });
    let fifo = Scheduling::Policy(PolicySpec::Fifo { priority: 10 });
    // Room for what is booked on the tick.
    let reserved = Scheduling::Deadline(Reservation::implicit(work * 9 / 8, period));
    match kind {
        Kind::Fair => fair,
        Kind::Fifo => fifo,
        Kind::Reserved => reserved,
        Kind::Mixed => [reserved, fifo, fair, fair][place as usize % 4],
    }
}

/// What a run is of.
#[derive(Clone, Copy)]
struct Case {
    kind: Kind,
    threads: u32,
    cpus: u32,
    /// Whether all want a CPU all the time.
    always: bool,
    /// Threads beside these that sleep to the end.
    asleep: u32,
}

fn machine(case: Case) -> Machine<Loaded> {
    let Case { kind, threads, cpus, always, asleep } = case;
    let mut chance = Pcg::new(7, 1);
    let mut specs = Vec::new();
    for place in 0..threads {
        // A job in each millisecond of a CPU.
        let crowd = i64::from(threads) * 1_000_000 / i64::from(cpus);
        let drawn = i64::try_from(chance.below(1_000)).expect("below a thousand");
        let period = Nanos::new(crowd / 1_000 * (500 + drawn));
        let work = period * 4 / 5 * i64::from(cpus) / i64::from(threads);
        specs.push((scheduling(kind, place, period, work), (period, work)));
    }
    let platform = Platform::linux_6_18(cpus);
    let spec = MachineSpec {
        schedulers: policies::in_order(&platform.schedulers).expect("its own names"),
        platform,
        cpus: (0..cpus).map(CpuId).collect(),
        tick_phases: Vec::new(),
        groups: Vec::new(),
        seed: 1,
        events: false,
    };
    let jobs =
        specs.iter().map(|(_, (period, work))| Jobs { period: *period, work: *work, job: 0, works: false });
    let loaded = Loaded { threads: jobs.collect(), always };
    let mut machine = Machine::new(spec, loaded);
    for (scheduling, (period, _)) in specs {
        let start = Nanos::new(i64::try_from(chance.below(period.get_unsigned())).expect("below a period"));
        let spec =
            ThreadSpec { name: "t".to_owned(), scheduling, group: None, allowed: None, slept_on: None };
        machine.spawn(&spec, if always { Nanos::ZERO } else { start });
    }
    for place in 0..asleep {
        let scheduling = scheduling(kind, place, Nanos::SECOND, Nanos::MICROSECOND);
        let spec =
            ThreadSpec { name: "t".to_owned(), scheduling, group: None, allowed: None, slept_on: None };
        machine.spawn(&spec, Nanos::MAX);
    }
    machine
}

/// A run in which nobody is new any more, its end, and the events until then.
fn begun(case: Case) -> (Machine<Loaded>, Nanos, u64) {
    // Some three events in a millisecond of a CPU; nobody is new after the first few.
    let length = Nanos::from_millis((EVENTS / 3 / i64::from(case.cpus)).max(100));
    let begun = || {
        let mut machine = machine(case);
        machine.run_until(length / 4, &mut Unobserved);
        machine
    };
    let mut counted = begun();
    let before = counted.counts();
    counted.run_until(length, &mut Unobserved);
    let after = counted.counts();
    (begun(), length, after.events + after.switches - before.events - before.switches)
}

fn run(bencher: Bencher<'_, '_>, kind: Kind, threads: u32, cpus: u32, always: bool) {
    bench(bencher, Case { kind, threads, cpus, always, asleep: 0 });
}

fn bench(bencher: Bencher<'_, '_>, case: Case) {
    let (_, length, events) = begun(case);
    bencher.with_inputs(|| begun(case).0).counter(ItemsCount::new(events)).bench_values(|mut machine| {
        machine.run_until(length, &mut Unobserved);
        machine
    });
}

/// ns for an event of each case: the fastest of some rounds in turn.
fn fastest(cases: &[Case]) -> Vec<f64> {
    const ROUNDS: usize = 10;
    let mut fastest = vec![(Duration::MAX, 1); cases.len()];
    for _ in 0..ROUNDS {
        for (case, fastest) in cases.iter().zip(&mut fastest) {
            let (mut machine, length, events) = begun(*case);
            let start = Instant::now();
            machine.run_until(length, &mut Unobserved);
            *fastest = (fastest.0.min(start.elapsed()), events);
        }
    }
    fastest.into_iter().map(|(time, events)| time.as_secs_f64() * 1e9 / events as f64).collect()
}

/// What an event costs at each size of each row, and at the dearest over the first.
fn ratios() {
    let row = |name: &str, cases: Vec<Case>| {
        let costs = fastest(&cases);
        let dearest = costs.iter().copied().fold(0.0, f64::max);
        let told: Vec<String> = costs.iter().map(|cost| format!("{cost:7.1}")).collect();
        println!("{name:<18} {}   ratio {:.2}", told.join(" "), dearest / costs[0]);
    };
    let kinds = [("fair", Kind::Fair), ("fifo", Kind::Fifo), ("edf", Kind::Reserved)];
    println!("\nns for an event, {THREADS:?} threads on 1 CPU");
    for (name, kind) in kinds {
        let case = |threads| Case { kind, threads, cpus: 1, always: false, asleep: 0 };
        row(&format!("threads {name}"), THREADS.map(case).to_vec());
        let case = |all| Case { asleep: all - 10, ..case(10) };
        row(&format!("asleep {name}"), THREADS.map(case).to_vec());
    }
    println!("ns for an event, {CPUS:?} CPUs");
    for (name, kind, always) in
        [("fair", Kind::Fair, false), ("fair_crowd", Kind::Fair, true), ("fifo", Kind::Fifo, false)]
            .into_iter()
            .chain([("edf", Kind::Reserved, false), ("mixed", Kind::Mixed, false)])
    {
        let case = |cpus| Case { kind, threads: PER_CPU * cpus, cpus, always, asleep: 0 };
        row(&format!("cpus {name}"), CPUS.map(case).to_vec());
        // As many threads everywhere: what is left is the number of CPUs alone.
        let case = |cpus| Case { threads: PER_CPU * CPUS[CPUS.len() - 1], ..case(cpus) };
        row(&format!("alone {name}"), CPUS.map(case).to_vec());
    }
}

#[divan::bench_group(sample_count = 10)]
mod threads {
    use super::{Bencher, Kind, THREADS, run};

    #[divan::bench(args = THREADS)]
    fn fair(bencher: Bencher<'_, '_>, threads: u32) {
        run(bencher, Kind::Fair, threads, 1, false);
    }

    #[divan::bench(args = THREADS)]
    fn fifo(bencher: Bencher<'_, '_>, threads: u32) {
        run(bencher, Kind::Fifo, threads, 1, false);
    }

    #[divan::bench(args = THREADS)]
    fn edf(bencher: Bencher<'_, '_>, threads: u32) {
        run(bencher, Kind::Reserved, threads, 1, false);
    }
}

#[divan::bench_group(sample_count = 10)]
mod asleep {
    use super::{Bencher, Case, Kind, THREADS, bench};

    #[divan::bench(args = THREADS)]
    fn edf(bencher: Bencher<'_, '_>, threads: u32) {
        let kind = Kind::Reserved;
        bench(bencher, Case { kind, threads: 10, cpus: 1, always: false, asleep: threads - 10 });
    }
}

#[divan::bench_group(sample_count = 10)]
mod crowds {
    use super::{Bencher, Kind, THREADS, run};

    #[divan::bench(args = THREADS)]
    fn fair(bencher: Bencher<'_, '_>, threads: u32) {
        run(bencher, Kind::Fair, threads, 1, true);
    }

    #[divan::bench(args = THREADS)]
    fn edf(bencher: Bencher<'_, '_>, threads: u32) {
        run(bencher, Kind::Reserved, threads, 1, true);
    }
}

#[divan::bench_group(sample_count = 10)]
mod cpus {
    use super::{Bencher, CPUS, Kind, PER_CPU, run};

    #[divan::bench(args = CPUS)]
    fn fair(bencher: Bencher<'_, '_>, cpus: u32) {
        run(bencher, Kind::Fair, PER_CPU * cpus, cpus, false);
    }

    #[divan::bench(args = CPUS)]
    fn fair_crowd(bencher: Bencher<'_, '_>, cpus: u32) {
        run(bencher, Kind::Fair, PER_CPU * cpus, cpus, true);
    }

    #[divan::bench(args = CPUS)]
    fn fifo(bencher: Bencher<'_, '_>, cpus: u32) {
        run(bencher, Kind::Fifo, PER_CPU * cpus, cpus, false);
    }

    #[divan::bench(args = CPUS)]
    fn edf(bencher: Bencher<'_, '_>, cpus: u32) {
        run(bencher, Kind::Reserved, PER_CPU * cpus, cpus, false);
    }

    #[divan::bench(args = CPUS)]
    fn mixed(bencher: Bencher<'_, '_>, cpus: u32) {
        run(bencher, Kind::Mixed, PER_CPU * cpus, cpus, false);
    }
}

fn main() {
    partsim::announce();
    divan::main();
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        ratios();
    }
}
