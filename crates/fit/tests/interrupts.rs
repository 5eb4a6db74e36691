//! Interrupts of a trace: arrivals of each kind come back, a handler's thread belongs to it, the kernel's own are named.

#![allow(clippy::unwrap_used)]

use surety_fit::{FitOptions, FittedWorkload, Kind, Left, TraceView, Why, fit_trace};
use surety_model::distribution::TimeDistribution;
use surety_model::event::{Comm, Event, EventKind, LeaveState, TraceSink, Woken};
use surety_model::workload::Arrivals;
use surety_trace::{InterruptBuilder, JobBuilder, Wanted};
use surety_units::{CpuId, Nanos, Tid};

const THREAD: Tid = Tid(70);

fn us(n: i64) -> Nanos {
    Nanos::from_micros(n)
}

/// A device on CPU 0: after each gap an interrupt of 5 us, then 20 us of its thread, and a softirq of 2 us.
fn events(gaps: &[Nanos]) -> Vec<(Nanos, Tid, EventKind<'static>)> {
    let comm = Comm::new("irq/9-disk");
    let woken = Woken { tid: THREAD, comm, prio: 49, target: CpuId(0) };
    let switch = |prev: Tid, next: Tid, prev_state| {
        let of = |tid: Tid| {
            if tid == THREAD { (comm, 49) } else { (Comm::new("swapper/0"), 120) }
        };
        let ((prev_comm, prev_prio), (next_comm, next_prio)) = (of(prev), of(next));
        EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio }
    };
    let ready = LeaveState::Runnable { preempted: false };
    let mut list = Vec::new();
    let mut now = Nanos::from_millis(1);
    for gap in gaps {
        now += *gap;
        list.push((now, Tid::IDLE, EventKind::IrqEntry { irq: 9, name: "disk0" }));
        list.push((now + us(5), Tid::IDLE, EventKind::IrqExit { irq: 9 }));
        list.push((now + us(6), Tid::IDLE, EventKind::SoftirqEntry { vector: 4 }));
        list.push((now + us(8), Tid::IDLE, EventKind::SoftirqExit { vector: 4 }));
        list.push((now + us(9), Tid::IDLE, EventKind::Waking(woken)));
        list.push((now + us(10), Tid::IDLE, switch(Tid::IDLE, THREAD, ready)));
        list.push((now + us(30), THREAD, switch(THREAD, Tid::IDLE, LeaveState::Sleeping)));
    }
    list
}

fn fitted(gaps: &[Nanos], interrupts: bool) -> FittedWorkload {
    let (mut jobs, mut builder) = (JobBuilder::new(), InterruptBuilder::new(Wanted::default()));
    let list = events(gaps);
    for (time, current, kind) in &list {
        let event = Event { time: *time, cpu: CpuId(0), current: *current, kind: *kind };
        jobs.event(&event);
        builder.event(&event);
    }
    let histories = jobs.finish().threads;
    let view = TraceView {
        histories: &histories,
        interrupts: &builder.finish(),
        cpus: 1,
        span: (list[0].0, list[list.len() - 1].0),
    };
    let options = FitOptions {
        share_min: "0.001%".parse().unwrap(),
        interrupts,
        tids: Vec::new(),
        names: Vec::new(),
        in_order: false,
        shortest: Nanos::ZERO,
    };
    fit_trace(&view, &options)
}

fn drawn(distances: &TimeDistribution) -> Vec<Nanos> {
    (0..2_000).map(|k| distances.draw(3, "gaps", k).max(us(60))).collect()
}

#[test]
fn arrivals_come_back_and_the_thread_is_part_of_the_work() {
    let periodic = fitted(&[us(1_000); 400], true);
    assert_eq!(periodic.workload.irqs.len(), 1);
    let irq = &periodic.workload.irqs[0];
    assert_eq!((irq.name.as_str(), irq.device.as_deref()), ("irq-9-disk0", Some("disk0")));
    // The series keep values within 1/256.
    let Arrivals::Periodic { period } = irq.arrivals else { panic!("{irq:?}") };
    assert!((period - us(1_000)).get().abs() <= 4_000, "{period}");
    // 5 us of handler and 20 us of thread.
    assert!((irq.work.mean_ns() - 25_000.0).abs() < 100.0, "{}", irq.work.mean_ns());
    assert!(periodic.workload.tasks.is_empty());
    let source = &periodic.sources[0];
    assert_eq!((source.kind, source.threads.as_slice(), source.jobs), (Kind::Interrupt, &[THREAD][..], 400));
    assert_eq!(periodic.accounts.interrupt_threads, us(20) * 400);
    assert_eq!(periodic.remainder.len(), 1);
    assert!(matches!(&periodic.remainder[0].what, Left::Interrupt { .. }));
    assert_eq!((&periodic.remainder[0].why, periodic.remainder[0].time), (&Why::Kernel, us(2) * 400));

    let poisson = fitted(&drawn(&TimeDistribution::Exponential { mean: us(8_000) }), true);
    let Arrivals::Poisson { rate } = poisson.workload.irqs[0].arrivals else {
        panic!("{:?}", poisson.workload.irqs[0].arrivals)
    };
    // 125 a second; the mean of 2000 exponential values has an error of 2.2 %.
    assert!((rate.per_second() / 125.0 - 1.0).abs() < 0.07, "{}", rate.per_second());

    let sporadic = fitted(&drawn(&TimeDistribution::Uniform { low: us(300), high: us(2_000) }), true);
    let Arrivals::Sporadic { gap } = sporadic.workload.irqs[0].arrivals else { panic!() };
    assert!((us(300)..us(310)).contains(&gap), "{gap}");
}

#[test]
fn without_interrupts_their_threads_are_tasks() {
    let fitted = fitted(&[us(1_000); 400], false);
    assert!(fitted.workload.irqs.is_empty());
    assert_eq!(fitted.workload.tasks.len(), 1);
    let task = &fitted.workload.tasks[0];
    assert_eq!((task.name.as_str(), task.policy.to_string()), ("irq-9-disk", "fifo:50".to_owned()));
    assert_eq!(task.release.interval(), Some(us(1_000)));
}

#[test]
fn a_few_arrivals_are_left_out() {
    let fitted = fitted(&[us(1_000); 5], true);
    assert!(fitted.workload.irqs.is_empty() && fitted.workload.tasks.is_empty());
    assert!(fitted.remainder.iter().any(|left| left.why == Why::TooFew(5)));
}
