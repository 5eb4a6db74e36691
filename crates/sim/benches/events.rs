//! How many events of simulated time the machine, and its disks, work off in a second. The items per second divan prints are events per
//! second.
//!
//! Of the machine an event is an entry of the agenda (tick, completion, alarm, timer) or a context switch: one minute of eight threads on
//! one CPU. Of a disk it is a bio that comes, a request that the driver takes, or one that is complete: so many processes, each with one
//! read at a time past the page cache, or reading ahead through it, and all of them wait.

use std::rc::Rc;

use divan::Bencher;
use divan::counter::ItemsCount;
use surety_block::elevators::{ELEVATORS, by_word};
use surety_block::{Making, Process, ProcessId, Settings, queue};
use surety_device::profile::Profile;
use surety_model::distribution::TimeDistribution;
use surety_model::platform::Platform;
use surety_model::reservation::Reservation;
use surety_model::workload::PolicySpec;
use surety_model::world::Unobserved;
use surety_sim::cpu::hardware::Scheduling;
use surety_sim::cpu::machine::{Counts, Machine, MachineSpec, ThreadSpec};
use surety_sim::cpu::policies;
use surety_sim::cpu::program::{Moment, Programs, Step};
use surety_sim::disk::{Device, FileId, Operation, PAGE, Storage, Unit};
use surety_sim::engine::{Engine, Simulation as _};
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
        seed: 1,
        events: false,
    };
    let mut machine = Machine::new(spec, Periodic { threads, state });
    for scheduling in scheduling {
        let spec = ThreadSpec {
            name: "t".to_owned(),
            scheduling: *scheduling,
            group: None,
            allowed: None,
            slept_on: None,
        };
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

/// Processes that wait for a disk, and the completions that are worked off.
const WAITING: [u32; 4] = [10, 100, 1_000, 10_000];
const COMPLETIONS: u64 = 20_000;
/// Pages of a file.
const PAGES: u64 = 1 << 9;

/// Processes on one disk, without CPUs: each begins its next read as soon as it is woken.
struct Disk {
    engine: Engine,
    storage: Storage,
    files: Vec<FileId>,
    chance: Pcg,
    direct: bool,
    /// Where each process reads on.
    next: Vec<u64>,
    woken: Vec<ProcessId>,
}

impl Disk {
    fn new(model: &str, word: &str, processes: u32, direct: bool) -> Disk {
        // `bfq` makes one queue of those that come together on a device that does not turn.
        let (word, is_apart) = word.split_once(", ").map_or((word, false), |(word, _)| (word, true));
        let row = by_word(word).expect("an I/O scheduler");
        let mut settings = Settings::new(row.tunables);
        if is_apart {
            settings.set("merging", 0).expect("a tunable of bfq");
        }
        let device = Device::new(Profile::named(model).expect("a disk").build(1));
        let making = Making {
            hz: 1000,
            rotational: false,
            device: Some(Rc::new(device.clone())),
            ..Making::new(2 * processes + 64, 1, settings)
        };
        let (mut engine, mut storage) = (Engine::default(), Storage::default());
        storage
            .add_disk(&mut engine, |slot, timer| Unit::new(queue::make(row, &making), device, (slot, timer)));
        let files = (0..processes).map(|_| storage.add_file(0, PAGES * PAGE).expect("room")).collect();
        for _ in 0..processes {
            storage.add_process(Process::default());
        }
        let next = vec![0; processes as usize];
        let chance = Pcg::for_job(1, 1, 1);
        let mut disk = Disk { engine, storage, files, chance, direct, next, woken: Vec::new() };
        (0..processes).for_each(|process| disk.go(ProcessId(process)));
        disk
    }

    /// The process reads until it waits.
    fn go(&mut self, process: ProcessId) {
        let now = self.engine.now();
        while self.storage.poll(now, process) {
            let file = self.files[process.index()];
            let next = &mut self.next[process.index()];
            let operation = if self.direct {
                let page = self.chance.below(PAGES);
                Operation::direct(file, false, page, page + 1)
            } else {
                let first = *next % PAGES;
                *next += 4;
                if first == 0 {
                    self.storage.evict(file);
                }
                Operation::Read { file, first, end: first + 4 }
            };
            self.storage.begin(process, operation, None);
        }
    }

    /// Works off so many completions of the disk.
    fn run(&mut self, completions: u64) {
        let end = self.storage.unit(0).served().0 + completions;
        while self.storage.unit(0).served().0 < end {
            let now = self.engine.now();
            let arms = self.storage.settle(now);
            for (slot, at) in &arms {
                match at {
                    Some(at) => self.engine.arm(*slot, *at),
                    None => self.engine.cancel(*slot),
                }
            }
            self.storage.take_back(arms);
            let event = self.engine.next(Nanos::MAX).expect("a process waits");
            self.woken.clear();
            let woken = self.storage.occur(self.engine.now(), event);
            self.woken.extend(woken.iter().map(|woken| woken.process));
            for place in 0..self.woken.len() {
                self.go(self.woken[place]);
            }
        }
    }
}

fn disk<const N: u32>(bencher: Bencher<'_, '_>, model: &str, word: &str, direct: bool) {
    let mut disk = Disk::new(model, word, N, direct);
    bencher.counter(ItemsCount::new(3 * COMPLETIONS)).bench_local(|| disk.run(COMPLETIONS));
}

/// The I/O schedulers, but for the one that asks the disk about each request that waits.
fn words() -> impl Iterator<Item = &'static str> {
    ELEVATORS.iter().map(|row| row.word).filter(|word| *word != "sptf")
}

#[divan::bench(args = words(), consts = WAITING)]
fn direct_reads_of_a_disk_of_fixed_time<const N: u32>(bencher: Bencher<'_, '_>, word: &str) {
    disk::<N>(bencher, "null", word, true);
}

#[divan::bench(args = ["none", "mq-deadline", "bfq"], consts = WAITING)]
fn direct_reads_of_a_hard_disk<const N: u32>(bencher: Bencher<'_, '_>, word: &str) {
    disk::<N>(bencher, "hdd-2004", word, true);
}

/// Each with a queue of its own.
#[divan::bench(args = ["bfq, apart"], consts = WAITING)]
fn direct_reads_of_as_many_queues<const N: u32>(bencher: Bencher<'_, '_>, word: &str) {
    disk::<N>(bencher, "null", word, true);
}

#[divan::bench(args = ["none", "mq-deadline", "bfq"], consts = WAITING)]
fn reads_through_the_page_cache<const N: u32>(bencher: Bencher<'_, '_>, word: &str) {
    disk::<N>(bencher, "null", word, false);
}

fn main() {
    divan::main();
}
