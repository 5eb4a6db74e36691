//! A scheduler that no table knows takes part in a machine by its row alone.

mod common;

use std::collections::VecDeque;

use common::{Bench, FAIR, Script, fifo, ms, reserved};
use surety_model::platform::Platform;
use surety_model::schedulers::SchedulerRow;
use surety_model::workload::PolicySpec;
use surety_sim::cpu::hardware::{Hardware, Rank, Scheduling, ThreadId};
use surety_sim::cpu::machine::{Machine, MachineSpec};
use surety_sim::cpu::policies;
use surety_sim::cpu::policy::{Arrival, CpuPolicy, Departure, Pick, Scheduler};
use surety_sim::cpu::program::Step;
use surety_units::{CpuId, Nanos};

/// First come, first served, on the CPU where a thread is.
struct InTurn {
    queues: Vec<VecDeque<ThreadId>>,
}

impl InTurn {
    fn make(hardware: &mut Hardware, _rank: Rank) -> Box<dyn CpuPolicy> {
        Box::new(InTurn { queues: vec![VecDeque::new(); hardware.cpus.len()] })
    }
}

impl CpuPolicy for InTurn {
    fn admit(&mut self, _hardware: &mut Hardware, _thread: ThreadId) {}

    fn select_cpu(&mut self, hardware: &mut Hardware, thread: ThreadId, _arrival: Arrival) -> usize {
        hardware.thread(thread).cpu
    }

    fn enqueue(&mut self, _hardware: &mut Hardware, cpu: usize, thread: ThreadId, _arrival: Arrival) {
        self.queues[cpu].push_back(thread);
    }

    fn dequeue(&mut self, _hardware: &mut Hardware, cpu: usize, thread: ThreadId, _departure: Departure) {
        self.queues[cpu].retain(|queued| *queued != thread);
    }

    fn pick(&mut self, _hardware: &mut Hardware, cpu: usize) -> Pick {
        self.queues[cpu].front().map_or(Pick::Nothing, |first| Pick::Thread(*first))
    }

    fn switch(&mut self, _: &mut Hardware, _: usize, _: Option<ThreadId>, _: Option<ThreadId>) {}

    fn account(&mut self, _hardware: &mut Hardware, _cpu: usize, _thread: ThreadId, _ran: Nanos) {}

    fn wakeup_preempt(&mut self, _: &mut Hardware, _: usize, _: ThreadId, _: ThreadId) {}

    fn is_queued(&self, thread: ThreadId) -> bool {
        self.queues.iter().any(|queue| queue.contains(&thread))
    }
}

const fn in_turn(row: &'static SchedulerRow) -> Scheduler {
    Scheduler { row, make: InTurn::make }
}

const ROW: SchedulerRow =
    SchedulerRow { word: "in-turn", takes: &["in-turn"], brings: None, is_of_kernels: false, fair: None };
const BETWEEN: Scheduler = in_turn(&ROW);
const INSTEAD: Scheduler = in_turn(&SchedulerRow { takes: &["fair", "batch", "idle"], ..ROW });

/// A machine of one CPU whose schedulers are `deadline`, `realtime` and these.
fn machine(rows: &[Scheduler]) -> Bench {
    let platform = Platform::linux_6_18(1);
    let known = policies::in_order(&platform.schedulers).expect("a platform names what there is");
    let mut schedulers = known[..2].to_vec();
    for row in rows {
        schedulers.push(*row);
    }
    if !rows.iter().any(|row| row.takes.contains(&"fair")) {
        schedulers.push(known[2]);
    }
    let (cpus, tick_phases, groups) = (vec![CpuId(0)], Vec::new(), Vec::new());
    let spec = MachineSpec { platform, schedulers, cpus, tick_phases, groups, seed: 1, events: false };
    Bench { machine: Machine::new(spec, Script::default()) }
}

fn done(bench: &Bench, thread: ThreadId) -> i64 {
    bench.finished(thread)[0].get() / 1_000_000
}

#[test]
fn one_between_realtime_and_fair_has_its_place() {
    let mut bench = machine(&[BETWEEN]);
    let in_turn = Scheduling::Policy(PolicySpec::Simulated { word: "in-turn", priority: 0, nice: 0 });
    let fair = bench.spawn(FAIR, ms(0), &[Step::Run(ms(10))]);
    let first = bench.spawn(in_turn, ms(1), &[Step::Run(ms(10))]);
    let second = bench.spawn(in_turn, ms(2), &[Step::Run(ms(10))]);
    let realtime = bench.spawn(fifo(1), ms(3), &[Step::Run(ms(10))]);
    bench.run(ms(100));
    let ends = [realtime, first, second, fair].map(|thread| done(&bench, thread));
    assert_eq!(ends, [13, 21, 31, 40]);
}

/// The fair server serves whoever takes ordinary threads, and whoever is demoted goes there.
#[test]
fn one_instead_of_the_fair_one_is_served_by_the_fair_server() {
    let mut bench = machine(&[INSTEAD]);
    let hog = bench.spawn(fifo(50), ms(0), &[Step::RunForever]);
    let served = bench.spawn(FAIR, ms(0), &[Step::RunForever]);
    let waits = bench.spawn(FAIR, ms(1), &[Step::RunForever]);
    bench.run(Nanos::from_secs(20));
    assert!((bench.run_of(served).as_secs_f64() / 20.0 - 0.05).abs() < 0.001);
    assert_eq!(bench.run_of(hog) + bench.run_of(served), Nanos::from_secs(20));
    assert_eq!(bench.run_of(waits), Nanos::ZERO);

    let mut bench = machine(&[INSTEAD]);
    let Scheduling::Deadline(reservation) = reserved(ms(2), ms(10)) else { unreachable!() };
    let demoted =
        Scheduling::Deadline(surety_model::reservation::Reservation { demote: true, ..reservation });
    let demoted = bench.spawn(demoted, ms(0), &[Step::RunForever]);
    let ordinary = bench.spawn(FAIR, ms(0), &[Step::RunForever]);
    bench.run(Nanos::from_secs(1));
    // It came first, and goes behind the other at each demotion; so it has its budgets.
    assert!((bench.run_of(demoted).as_secs_f64() - 0.2).abs() < 0.02, "{}", bench.run_of(demoted));
    assert_eq!(bench.run_of(demoted) + bench.run_of(ordinary), Nanos::from_secs(1));
}
