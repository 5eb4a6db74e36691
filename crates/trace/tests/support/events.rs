//! Streams of events, any that a trace could hold, for tests of formats that keep them all.

use proptest::prelude::*;
use surety_model::event::{
    BlockEvent, BlockStep, Comm, DiskNumber, Event, EventKind, LeaveState, Rwbs, TimerFunction, Woken,
};
use surety_units::{CpuId, Nanos, Tid};

/// Names of threads; some fill the kernel's 15 bytes, some are no ASCII.
const NAMES: &[&str] = &["", "swapper/0", "player", "a:b c", "irq/33-nvme0q1x", "ünïcödé"];
const HANDLERS: &[&str] = &["", "nvme0q1", "eth0-TxRx-0"];
const VECTORS: &[&str] =
    &["local_timer", "reschedule", "call_function", "irq_work", "x86_platform_ipi", "ipi"];
const TEXTS: &[&str] = &["", "surety:b:1:1000", "surety:e:1", "surety:u:1:77", "B|7|späte Arbeit"];
const STATES: &[LeaveState] = &[
    LeaveState::Runnable { preempted: false },
    LeaveState::Runnable { preempted: true },
    LeaveState::Sleeping,
    LeaveState::Uninterruptible,
    LeaveState::Stopped,
    LeaveState::Dead,
    LeaveState::Other(b'P'),
    LeaveState::Other(b'I'),
];
const FUNCTIONS: &[TimerFunction] =
    &[TimerFunction::DeadlineReplenish, TimerFunction::Wakeup, TimerFunction::Tick, TimerFunction::Other];

fn one_of<T: Copy + std::fmt::Debug + 'static>(list: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(list)
}

fn tid() -> impl Strategy<Value = Tid> {
    (0..12i32).prop_map(Tid)
}

fn comm() -> impl Strategy<Value = Comm> {
    one_of(NAMES).prop_map(Comm::new)
}

fn prio() -> impl Strategy<Value = i32> {
    prop_oneof![Just(-1), Just(0), Just(49), Just(120), any::<i32>()]
}

fn cpu() -> impl Strategy<Value = CpuId> {
    (0..4u32).prop_map(CpuId)
}

fn woken() -> impl Strategy<Value = Woken> {
    (tid(), comm(), prio(), cpu()).prop_map(|(tid, comm, prio, target)| Woken { tid, comm, prio, target })
}

/// An event of the block layer with all that its step says.
pub fn block() -> impl Strategy<Value = BlockEvent> {
    let steps: Vec<BlockStep> = BlockStep::all().collect();
    let disk = (0..4096u32, 0..1u32 << 20).prop_map(|(major, minor)| DiskNumber { major, minor });
    let letters = prop::sample::select(vec!["R", "WS", "FWFSM", "D", "RAMEFUABCD", ""]);
    // The kernel prints classes that it knows.
    let priority = (prop::sample::select(vec![0u16, 1, 2, 3, 7]), 0..1u16 << 13);
    let place = (0..1u64 << 62, any::<u32>(), any::<u32>());
    let drawn = (prop::sample::select(steps), disk, place, priority, letters, comm(), any::<i32>());
    drawn.prop_map(|(step, disk, (sector, sectors, bytes), (class, rest), letters, comm, error)| BlockEvent {
        step,
        disk,
        sector,
        sectors,
        bytes: if step.has_bytes() { bytes } else { 0 },
        priority: if step.has_priority() { class << 13 | rest } else { 0 },
        rwbs: Rwbs::new(letters.as_bytes()),
        comm: if step.has_name() { comm } else { Comm::default() },
        error: if step.has_error() { error } else { 0 },
    })
}

/// Any kind but a loss.
pub fn kind() -> impl Strategy<Value = EventKind<'static>> {
    let switch = (tid(), comm(), prio(), one_of(STATES), tid(), comm(), prio()).prop_map(
        |(prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio)| EventKind::Switch {
            prev,
            prev_comm,
            prev_prio,
            prev_state,
            next,
            next_comm,
            next_prio,
        },
    );
    let migrate = (tid(), comm(), cpu(), cpu()).prop_map(|(tid, comm, from, to)| EventKind::Migrate {
        tid,
        comm,
        from,
        to,
    });
    let start = (any::<u64>(), one_of(FUNCTIONS), any::<i64>()).prop_map(|(timer, function, expires)| {
        EventKind::TimerStart { timer, function, expires: Nanos::new(expires) }
    });
    let others = prop_oneof![
        woken().prop_map(EventKind::Wakeup),
        woken().prop_map(EventKind::WakeupNew),
        migrate,
        (tid(), tid(), comm()).prop_map(|(parent, child, child_comm)| EventKind::Fork {
            parent,
            child,
            child_comm
        }),
        (tid(), tid()).prop_map(|(tid, old)| EventKind::Exec { tid, old }),
        (tid(), comm()).prop_map(|(tid, comm)| EventKind::Exit { tid, comm }),
        (0..1u32 << 31, one_of(HANDLERS)).prop_map(|(irq, name)| EventKind::IrqEntry { irq, name }),
        (0..1u32 << 31).prop_map(|irq| EventKind::IrqExit { irq }),
        one_of(VECTORS).prop_map(|name| EventKind::VectorEntry { name }),
        one_of(VECTORS).prop_map(|name| EventKind::VectorExit { name }),
        any::<u32>().prop_map(|vector| EventKind::SoftirqRaise { vector }),
        any::<u32>().prop_map(|vector| EventKind::SoftirqEntry { vector }),
        any::<u32>().prop_map(|vector| EventKind::SoftirqExit { vector }),
        start,
        any::<u64>().prop_map(|timer| EventKind::TimerCancel { timer }),
        (any::<u64>(), one_of(FUNCTIONS))
            .prop_map(|(timer, function)| EventKind::TimerExpire { timer, function }),
        (cpu(), any::<u32>()).prop_map(|(of, khz)| EventKind::Frequency { of, khz }),
        // Perfetto has no place for I/O priorities.
        block().prop_map(|event| EventKind::Block(BlockEvent { priority: 0, ..event })),
        one_of(TEXTS).prop_map(|text| EventKind::Marker { text }),
    ];
    prop_oneof![1 => switch, 1 => woken().prop_map(EventKind::Waking), 4 => others]
}

/// A stream of at most `most` events of four CPUs in order of time and CPU. Before some of them events were lost.
pub fn stream(most: usize) -> impl Strategy<Value = Vec<Event<'static>>> {
    let step = prop_oneof![Just(0i64), 1..5000i64, Just(1i64 << 40)];
    let one = (step, cpu(), tid(), kind(), prop::bool::weighted(0.05));
    prop::collection::vec(one, 0..most).prop_map(|drawn| {
        let mut time = 0;
        let mut events = Vec::new();
        for (step, cpu, current, kind, lost) in drawn {
            time += step;
            let at = Nanos::new(time);
            if lost {
                let kind = EventKind::Lost { count: None };
                events.push(Event { time: at, cpu, current: Tid::IDLE, kind });
            }
            events.push(Event { time: at, cpu, current, kind });
        }
        events.sort_by_key(|event| (event.time, event.cpu));
        events
    })
}
