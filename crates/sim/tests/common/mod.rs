//! Machines with scripted threads, and workloads read from text, for the tests of this folder.

#![allow(dead_code, reason = "each test file uses what it needs")]

pub mod drawn;

use surety_model::event::JobMarker;
use surety_model::formats::toml;
use surety_model::platform::{Enforcement, Platform};
use surety_model::record::Record;
use surety_model::reservation::Reservation;
use surety_model::workload::{PolicySpec, Workload};
use surety_model::world::{RunOptions, Unobserved, World as _, WorldError};
use surety_sim::SimWorld;
use surety_sim::cpu::hardware::{GroupSpec, Scheduling, ThreadId};
use surety_sim::cpu::machine::{Machine, MachineSpec, ThreadSpec};
use surety_sim::cpu::policies;
use surety_sim::cpu::program::{Moment, Programs, Step};
use surety_sim::cpu::times::Times;
use surety_sim::engine::Simulation as _;
use surety_units::{CpuId, CpuSet, Nanos};

pub fn ms(n: i64) -> Nanos {
    Nanos::from_millis(n)
}

pub fn us(n: i64) -> Nanos {
    Nanos::from_micros(n)
}

pub const FAIR: Scheduling = Scheduling::Policy(PolicySpec::Fair { nice: 0, slice: None });

pub fn nice(nice: i32) -> Scheduling {
    Scheduling::Policy(PolicySpec::Fair { nice, slice: None })
}

pub fn fifo(priority: u32) -> Scheduling {
    Scheduling::Policy(PolicySpec::Fifo { priority })
}

pub fn round_robin(priority: u32) -> Scheduling {
    Scheduling::Policy(PolicySpec::RoundRobin { priority })
}

pub fn reserved(runtime: Nanos, period: Nanos) -> Scheduling {
    Scheduling::Deadline(Reservation::implicit(runtime, period))
}

/// Threads that take their steps one after another and then end; the instant of each question is kept.
#[derive(Default)]
pub struct Script {
    pub steps: Vec<Vec<Step>>,
    pub asked: Vec<Vec<Nanos>>,
}

impl Programs for Script {
    fn next(&mut self, at: Moment, _mark: &mut dyn FnMut(JobMarker)) -> Step {
        let place = at.thread.index();
        self.asked[place].push(at.now);
        let done = self.asked[place].len() - 1;
        self.steps[place].get(done).copied().unwrap_or(Step::Exit)
    }
}

/// A machine of `cpus` with scripted threads.
pub struct Bench {
    pub machine: Machine<Script>,
}

impl Bench {
    pub fn new(platform: Platform) -> Bench {
        Bench::with_groups(platform, Vec::new())
    }

    pub fn with_groups(platform: Platform, groups: Vec<GroupSpec>) -> Bench {
        Bench::with_times(platform, Times::KERNEL, groups, false)
    }

    pub fn with_times(platform: Platform, times: Times, groups: Vec<GroupSpec>, events: bool) -> Bench {
        let cpus = (0..platform.cpus).map(CpuId).collect();
        let schedulers = policies::in_order(&platform.schedulers).expect("a platform names what there is");
        let tick_phases = platform.tick_phase.into_iter().collect();
        let spec = MachineSpec { platform, schedulers, cpus, tick_phases, groups, seed: 1, events };
        Bench { machine: Machine::with_times(spec, times, Script::default()) }
    }

    pub fn spawn(&mut self, scheduling: Scheduling, start: Nanos, steps: &[Step]) -> ThreadId {
        self.spawn_as(scheduling, None, None, start, steps)
    }

    pub fn spawn_as(
        &mut self,
        scheduling: Scheduling,
        group: Option<usize>,
        pinned: Option<usize>,
        start: Nanos,
        steps: &[Step],
    ) -> ThreadId {
        let script = self.machine.programs_mut();
        script.steps.push(steps.to_vec());
        script.asked.push(Vec::new());
        let allowed = pinned.map(|place| CpuSet::single(CpuId(place as u32)));
        self.machine
            .spawn(&ThreadSpec { name: "t".to_owned(), scheduling, group, allowed, slept_on: None }, start)
    }

    pub fn run(&mut self, end: Nanos) {
        self.machine.run_until(end, &mut Unobserved);
    }

    pub fn run_of(&self, thread: ThreadId) -> Nanos {
        self.machine.run_of(thread)
    }

    /// The instants at which a thread finished its steps.
    pub fn finished(&self, thread: ThreadId) -> &[Nanos] {
        &self.machine.programs().asked[thread.index()][1..]
    }
}

/// A request of the scheduler for too many of them.
pub fn overcommitted(runtime: Nanos, period: Nanos) -> Scheduling {
    let policy = PolicySpec::Simulated { word: "overcommit", priority: 0, nice: 0 };
    let reservation = Reservation::implicit(runtime, period);
    Scheduling::of(policy, Some(reservation)).expect("it has its reservation")
}

/// Steps of jobs of constant work on a grid.
pub fn periodic(period: Nanos, work: Nanos, jobs: i64) -> Vec<Step> {
    (1..=jobs).flat_map(|job| [Step::Run(work), Step::SleepUntil(period * job)]).collect()
}

/// A platform without fair server whose budgets are enforced exactly.
pub fn exact(cpus: u32) -> Platform {
    Platform { enforcement: Enforcement::Exact, fair_server: None, ..Platform::linux_6_18(cpus) }
}

pub fn workload(text: &str) -> Workload {
    toml::read("test", &format!("format = 1\n{text}")).unwrap_or_else(|e| panic!("{e:?}"))
}

pub fn options(seconds: i64, cpus: u32) -> RunOptions {
    RunOptions {
        duration: Nanos::from_secs(seconds),
        cpus: Some(CpuSet::first(cpus)),
        ..RunOptions::default()
    }
}

/// A world like the development machine: two CPUs, 250 Hz, ticks half a millisecond after the start.
pub fn world() -> SimWorld {
    // Named as a machine is, by its whole release: disks have the rules of no kernel in particular.
    let name = "linux-6.18.0".to_owned();
    SimWorld::new(Platform { name, tick_phase: Some(us(500)), ..Platform::linux_6_18(2) })
}

pub fn simulate(text: &str, seconds: i64, cpus: u32) -> Record {
    try_simulate(text, seconds, cpus).unwrap_or_else(|e| panic!("{e}"))
}

pub fn try_simulate(text: &str, seconds: i64, cpus: u32) -> Result<Record, WorldError> {
    world().run(&workload(text), &options(seconds, cpus), &mut Unobserved)
}

/// Share of one CPU an activity received.
pub fn share(record: &Record, name: &str) -> f64 {
    record.activity(name).and_then(|a| a.share_received()).expect("the activity is there")
}
