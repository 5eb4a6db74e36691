//! A disk beside the CPUs: a component of another kind on the same engine, made here, which the machine does not know.

mod common;

use std::collections::VecDeque;

use common::{FAIR, ms, us};
use surety_model::distribution::TimeDistribution;
use surety_model::event::{Event as Traced, EventKind, JobMarker};
use surety_model::platform::Platform;
use surety_model::world::{Observer, Unobserved};
use surety_sim::cpu::device::{DeviceSpec, Source};
use surety_sim::cpu::machine::{Machine, MachineSpec, ThreadSpec};
use surety_sim::cpu::policies;
use surety_sim::cpu::program::{Moment, Programs, Step};
use surety_sim::engine::{ComponentId, Engine, Event, Simulation, Slot};
use surety_units::{CpuId, Nanos};

/// A disk that serves one request at a time; its one event is the end of the request in service.
struct Disk {
    component: ComponentId,
    end: Slot,
    waiting: VecDeque<usize>,
    in_service: Option<usize>,
    time: Nanos,
}

impl Disk {
    fn new(engine: &mut Engine, time: Nanos) -> Disk {
        let component = engine.add_component();
        let end = engine.add_slot(component, 0);
        Disk { component, end, waiting: VecDeque::new(), in_service: None, time }
    }

    fn submit(&mut self, engine: &mut Engine, reader: usize) {
        self.waiting.push_back(reader);
        self.begin(engine);
    }

    fn begin(&mut self, engine: &mut Engine) {
        if self.in_service.is_none() {
            self.in_service = self.waiting.pop_front();
            if self.in_service.is_some() {
                engine.arm(self.end, engine.now() + self.time);
            }
        }
    }

    /// The request in service is complete: whose it was.
    fn complete(&mut self, engine: &mut Engine) -> usize {
        let reader = self.in_service.take().expect("its end was armed");
        self.begin(engine);
        reader
    }
}

/// Every thread works, reads, and waits for what it reads.
#[derive(Default)]
struct Readers {
    work: Nanos,
    steps: Vec<u32>,
    /// When each thread went on after a read.
    went_on: Vec<Vec<Nanos>>,
    /// Reads that have not reached the disk.
    submitted: Vec<usize>,
}

impl Programs for Readers {
    fn next(&mut self, at: Moment, _mark: &mut dyn FnMut(JobMarker)) -> Step {
        let reader = at.thread.index();
        self.steps[reader] += 1;
        if self.steps[reader] % 2 == 1 {
            self.went_on[reader].push(at.now);
            return Step::Run(self.work);
        }
        self.submitted.push(reader);
        // Each thread's own event has its number.
        Step::Wait(reader)
    }
}

/// One CPU and one disk.
struct Computer {
    machine: Machine<Readers>,
    disk: Disk,
}

impl Simulation for Computer {
    fn engine(&mut self) -> &mut Engine {
        self.machine.engine()
    }

    fn occur(&mut self, event: Event, observer: &mut dyn Observer) {
        if event.component == self.disk.component {
            let reader = self.disk.complete(self.machine.engine());
            self.machine.raise(0, [reader], observer);
        } else {
            self.machine.occur(event, observer);
        }
        while let Some(reader) = self.machine.programs_mut().submitted.pop() {
            self.disk.submit(self.machine.engine(), reader);
        }
    }
}

fn computer(readers: usize, work: Nanos, hard: Nanos, events: bool) -> Computer {
    let platform = Platform::linux_6_18(1);
    let schedulers = policies::in_order(&platform.schedulers).expect("a platform names what there is");
    let (cpus, tick_phases, groups) = (vec![CpuId(0)], vec![us(1)], Vec::new());
    let spec = MachineSpec { platform, schedulers, cpus, tick_phases, groups, seed: 1, events };
    let mut machine = Machine::new(spec, Readers { work, ..Readers::default() });
    let disk = Disk::new(machine.engine(), ms(3));
    machine.add_device(DeviceSpec {
        name: "disk".to_owned(),
        irq: 14,
        cpu: 0,
        source: Source::Driven,
        work: TimeDistribution::Constant(Nanos::ZERO),
        hard,
        buffer: None,
        seed: 1,
        key: "disk".to_owned(),
    });
    for reader in 0..readers {
        machine.add_signal();
        let programs = machine.programs_mut();
        programs.steps.push(0);
        programs.went_on.push(Vec::new());
        let name = format!("reader{reader}");
        machine.spawn(
            &ThreadSpec { name, scheduling: FAIR, group: None, allowed: None, slept_on: None },
            Nanos::ZERO,
        );
    }
    Computer { machine, disk }
}

/// One reader: 1 ms of work, 3 ms on the disk, 10 us in the interrupt's handler.
#[test]
fn a_thread_waits_for_its_disk_and_goes_on_after_the_interrupt() {
    let mut computer = computer(1, ms(1), us(10), false);
    computer.run_until(ms(20), &mut Unobserved);
    let went_on = &computer.machine.programs().went_on[0];
    let expected: Vec<Nanos> = (0..5).map(|n| (ms(4) + us(10)) * n).collect();
    assert_eq!(went_on, &expected);
    assert_eq!(computer.engine().now(), ms(20));
}

/// Two readers share the disk, which is never idle: a request every 3 ms, whatever the pieces the run is cut into.
#[test]
fn a_busy_disk_sets_the_pace_of_its_readers() {
    let runs = [ms(1000), ms(7)].map(|stride| {
        let mut computer = computer(2, ms(1), Nanos::ZERO, false);
        let mut now = Nanos::ZERO;
        while now < ms(1000) {
            now = (now + stride).min(ms(1000));
            computer.run_until(now, &mut Unobserved);
        }
        // Each went on at the start, and then after one read each.
        let reads: usize = computer.machine.programs().went_on.iter().map(|at| at.len() - 1).sum();
        assert_eq!(reads, 333);
        (computer.machine.programs().went_on.clone(), computer.machine.recorder_mut().hash())
    });
    assert_eq!(runs[0], runs[1]);
}

/// The trace has the disk's interrupts between the events of the CPUs, in the order of time.
#[test]
fn interrupts_of_a_disk_are_in_the_trace() {
    #[derive(Default)]
    struct Kept(Vec<(Nanos, bool)>);
    impl Observer for Kept {
        fn wants_events(&self) -> bool {
            true
        }
        fn event(&mut self, event: &Traced<'_>) {
            self.0.push((event.time, matches!(event.kind, EventKind::IrqEntry { irq: 14, .. })));
        }
    }
    let mut kept = Kept::default();
    computer(1, ms(1), us(10), true).run_until(ms(20), &mut kept);
    assert!(kept.0.is_sorted_by_key(|(time, _)| *time));
    let interrupts: Vec<Nanos> =
        kept.0.iter().filter(|(_, is_entry)| *is_entry).map(|(time, _)| *time).collect();
    let expected: Vec<Nanos> = (0..4).map(|n| ms(4) + (ms(4) + us(10)) * n).collect();
    assert_eq!(interrupts, expected);
}
