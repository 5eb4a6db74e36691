//! What an event costs as threads and CPUs become many: a flat line is the aim.
//!
//! The items per second divan prints are events per second, as in `events`. Threads together want four fifths of the CPUs there
//! are, whatever their number, and their periods grow with it: so the number of events in a second of a CPU is the same
//! everywhere, and what differs is what one costs. Of `crowds` all threads want a CPU all the time, which fills the queues.

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

/// Threads that work for `work` on each point of their grids, or all the time.
struct Loaded {
    threads: Vec<(Nanos, Nanos)>,
    jobs: Vec<(u32, bool)>,
    always: bool,
}

impl Programs for Loaded {
    fn next(&mut self, at: Moment, _mark: &mut dyn FnMut(surety_model::event::JobMarker)) -> Step {
        if self.always {
            return Step::RunForever;
        }
        let place = at.thread.index();
        let (period, work) = self.threads[place];
        let (job, works) = &mut self.jobs[place];
        *works = !*works;
        if *works {
            return Step::Run(work);
        }
        *job += 1;
        Step::SleepUntil(period * i64::from(*job))
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

fn machine(kind: Kind, threads: u32, cpus: u32, always: bool) -> Machine<Loaded> {
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
        events: false,
    };
    let loaded = Loaded {
        threads: specs.iter().map(|(_, times)| *times).collect(),
        jobs: vec![(0, false); specs.len()],
        always,
    };
    let mut machine = Machine::new(spec, loaded);
    for (scheduling, (period, _)) in specs {
        let start = Nanos::new(i64::try_from(chance.below(period.get_unsigned())).expect("below a period"));
        let spec = ThreadSpec { name: "t".to_owned(), scheduling, group: None, allowed: None };
        machine.spawn(&spec, if always { Nanos::ZERO } else { start });
    }
    machine
}

fn run(bencher: Bencher<'_, '_>, kind: Kind, threads: u32, cpus: u32, always: bool) {
    // Some three events in a millisecond of a CPU; nobody is new after the first few.
    let length = Nanos::from_millis((EVENTS / 3 / i64::from(cpus)).max(100));
    let begun = || {
        let mut machine = machine(kind, threads, cpus, always);
        machine.run_until(length / 4, &mut Unobserved);
        machine
    };
    let mut counted = begun();
    let before = counted.counts();
    counted.run_until(length, &mut Unobserved);
    let after = counted.counts();
    let events = after.events + after.switches - before.events - before.switches;
    bencher.with_inputs(begun).counter(ItemsCount::new(events)).bench_values(|mut machine| {
        machine.run_until(length, &mut Unobserved);
        machine
    });
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
    divan::main();
}
