//! How many events of simulated time the machine works off in a second.
//!
//! An event is an entry of the agenda (tick, completion, alarm, timer) or a context switch. Every benchmark
//! simulates one minute of eight threads on one CPU; the items per second divan prints are events per second.

use divan::Bencher;
use divan::counter::ItemsCount;
use surety_model::distribution::TimeDistribution;
use surety_model::platform::Platform;
use surety_model::reservation::Reservation;
use surety_model::workload::PolicySpec;
use surety_model::world::Unobserved;
use surety_sim::cpu::hardware::Scheduling;
use surety_sim::cpu::machine::{Counts, Machine, MachineSpec, ThreadSpec};
use surety_sim::cpu::policies;
use surety_sim::cpu::program::{Moment, Programs, Step};
use surety_sim::engine::Simulation as _;
use surety_stats::random::Pcg;
use surety_units::{CpuId, Nanos};

const FAIR: Scheduling = Scheduling::Policy(PolicySpec::Fair { nice: 0, slice: None });
const FIFO: Scheduling = Scheduling::Policy(PolicySpec::Fifo { priority: 10 });

/// Every thread works for a drawn time on each point of its grid.
struct Periodic {
    threads: Vec<(Nanos, TimeDistribution)>,
    state: Vec<(u64, bool)>,
}

impl Programs for Periodic {
    fn next(&mut self, at: Moment, _mark: &mut dyn FnMut(surety_model::event::JobMarker)) -> Step {
        let place = at.thread.0 as usize;
        let (period, work) = &self.threads[place];
        let (job, works) = &mut self.state[place];
        *works = !*works;
        if *works {
            return Step::Run(work.draw_from(&mut Pcg::for_job(1, place as u64, *job)));
        }
        *job += 1;
        Step::SleepUntil(*period * i64::try_from(*job).expect("few jobs"))
    }
}

fn minute(scheduling: &[Scheduling]) -> Counts {
    let periods = [5, 7, 10, 13, 16, 20, 33, 40].map(Nanos::from_millis);
    let threads: Vec<_> = scheduling
        .iter()
        .zip(periods)
        .map(|(_, period)| {
            // A tenth of the CPU each.
            let (low, high) = (period / 20, period * 3 / 20);
            (period, TimeDistribution::Uniform { low, high })
        })
        .collect();
    let state = vec![(0, false); threads.len()];
    let platform = Platform::linux_6_18(1);
    let spec = MachineSpec {
        schedulers: policies::in_order(&platform.schedulers).expect("its own names"),
        platform,
        cpus: vec![CpuId(0)],
        tick_phases: vec![Nanos::new(1)],
        groups: Vec::new(),
        events: false,
    };
    let mut machine = Machine::new(spec, Periodic { threads, state });
    for scheduling in scheduling {
        let spec = ThreadSpec { name: "t".to_owned(), scheduling: *scheduling, group: None, allowed: None };
        machine.spawn(&spec, Nanos::ZERO);
    }
    machine.run_until(Nanos::from_secs(60), &mut Unobserved);
    machine.counts()
}

fn run(bencher: Bencher<'_, '_>, scheduling: &[Scheduling]) {
    let counts = minute(scheduling);
    bencher
        .counter(ItemsCount::new(counts.events + counts.switches))
        .bench(|| minute(divan::black_box(scheduling)));
}

#[divan::bench]
fn eight_fair_threads(bencher: Bencher<'_, '_>) {
    run(bencher, &[FAIR; 8]);
}

#[divan::bench]
fn eight_fifo_threads(bencher: Bencher<'_, '_>) {
    run(bencher, &[FIFO; 8]);
}

#[divan::bench]
fn two_reserved_two_fifo_and_four_fair_threads(bencher: Bencher<'_, '_>) {
    let ms = Nanos::from_millis;
    let reserved = |q, t| Scheduling::Deadline(Reservation::implicit(ms(q), ms(t)));
    run(bencher, &[reserved(1, 5), reserved(2, 7), FIFO, FIFO, FAIR, FAIR, FAIR, FAIR]);
}

fn main() {
    divan::main();
}
