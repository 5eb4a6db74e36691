//! Perfetto traces against the published schema: a decoder generated from Perfetto's own `.proto` files reads what we
//! write, and we read what its encoder writes.

use std::collections::BTreeMap;

use perfetto_protos::ftrace_event::FtraceEvent;
use perfetto_protos::ftrace_event::ftrace_event::Event as Body;
use perfetto_protos::ftrace_event_bundle::FtraceEventBundle;
use perfetto_protos::ftrace_event_bundle::ftrace_event_bundle::CompactSched;
use perfetto_protos::sched::{SchedSwitchFtraceEvent, SchedWakingFtraceEvent};
use perfetto_protos::trace::Trace;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::track_event::track_event;
use proptest::prelude::*;
use protobuf::{Message, MessageField};
use surety_model::event::{
    BlockEvent, BlockStep, Comm, DiskNumber, Event, EventKind, JobMarker, LeaveState, Rwbs, TimerFunction,
    TraceSink, Woken,
};
use surety_model::reservation::Reservation;
use surety_trace::write::perfetto::{Overlay, OverlayOf, Perfetto};
use surety_trace::{JobBuilder, PerfettoTrace, TraceDat, TraceReader};
use surety_units::{CpuId, Nanos, Tid};

/// Every event of the file with its CPU, in the file's order.
fn events(trace: &Trace) -> Vec<(u32, &FtraceEvent)> {
    let bundles = trace.packet.iter().filter(|packet| packet.has_ftrace_events());
    bundles
        .flat_map(|packet| {
            let bundle = packet.ftrace_events();
            bundle.event.iter().map(|event| (bundle.cpu(), event))
        })
        .collect()
}

/// A stretch of time a thread had a CPU: CPU, from, to, thread, name.
type Slice = (u32, u64, u64, i32, String);

/// The slices by the switches, as the viewer draws them.
fn slices(switches: impl Iterator<Item = (u32, u64, i32, String)>) -> Vec<Slice> {
    let mut open: BTreeMap<u32, (u64, i32, String)> = BTreeMap::new();
    let mut slices = Vec::new();
    for (cpu, time, next, name) in switches {
        if let Some((from, tid, name)) = open.insert(cpu, (time, next, name)) {
            slices.push((cpu, from, time, tid, name));
        }
    }
    slices.sort();
    slices
}

#[test]
fn a_recorded_trace_has_the_same_slices_in_the_published_schema() {
    let file = crate::support::tracedat::fixture();
    let (mut out, mut expected, mut kinds) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut sink = Perfetto::new(&mut out);
    let mut both = |event: &Event<'_>| {
        sink.event(event);
        let time = u64::try_from(event.time.get()).unwrap();
        if let EventKind::Switch { next, next_comm, .. } = event.kind {
            expected.push((event.cpu.0, time, next.0, next_comm.to_string()));
        }
        let line = crate::support::render(event).what;
        *kinds.entry(line.split([':', ' ']).next().unwrap().to_owned()).or_insert(0u32) += 1;
    };
    TraceDat::open(&file).unwrap().read(&mut both).unwrap();
    sink.finish("mono").unwrap();
    let trace = Trace::parse_from_bytes(&out).unwrap();
    let found = events(&trace).into_iter().filter_map(|(cpu, event)| match &event.event {
        Some(Body::SchedSwitch(m)) => Some((cpu, event.timestamp(), m.next_pid(), m.next_comm().to_owned())),
        _ => None,
    });
    let expected = slices(expected.into_iter());
    assert!(expected.len() > 20, "{} slices", expected.len());
    assert_eq!(slices(found), expected);
    // Nothing of it is unknown to the schema, and each kind is as often there.
    let mut found = BTreeMap::new();
    for (_, event) in events(&trace) {
        let name = match event.event.as_ref().unwrap() {
            Body::SchedSwitch(_) => "sched_switch",
            Body::SchedWaking(_) => "sched_waking",
            Body::SchedWakeup(_) => "sched_wakeup",
            Body::SchedWakeupNew(_) => "sched_wakeup_new",
            Body::SchedMigrateTask(_) => "sched_migrate_task",
            Body::SchedProcessFork(_) => "sched_process_fork",
            Body::SchedProcessExec(_) => "sched_process_exec",
            Body::SchedProcessExit(_) => "sched_process_exit",
            Body::IrqHandlerEntry(_) => "irq_handler_entry",
            Body::IrqHandlerExit(_) => "irq_handler_exit",
            Body::SoftirqRaise(_) => "softirq_raise",
            Body::SoftirqEntry(_) => "softirq_entry",
            Body::SoftirqExit(_) => "softirq_exit",
            Body::HrtimerStart(_) => "hrtimer_start",
            Body::HrtimerCancel(_) => "hrtimer_cancel",
            Body::HrtimerExpireEntry(_) => "hrtimer_expire_entry",
            Body::LocalTimerEntry(_) => "local_timer_entry",
            Body::LocalTimerExit(_) => "local_timer_exit",
            Body::Generic(generic) => generic.event_name(),
            Body::Print(_) => "tracing_mark_write",
            other => panic!("{other:?}"),
        };
        *found.entry(name.to_owned()).or_insert(0u32) += 1;
    }
    assert_eq!(found, kinds);
    assert!(found.len() > 12, "{found:?}");
}

#[test]
fn every_field_is_the_schemas() {
    let woken = Woken { tid: Tid(5), comm: Comm::new("d"), prio: -1, target: CpuId(3) };
    let kinds = [
        EventKind::Switch {
            prev: Tid(7),
            prev_comm: Comm::new("a"),
            prev_prio: -1,
            prev_state: LeaveState::Runnable { preempted: true },
            next: Tid(8),
            next_comm: Comm::new("b"),
            next_prio: 120,
        },
        EventKind::Waking(woken),
        EventKind::Migrate { tid: Tid(5), comm: Comm::new("d"), from: CpuId(1), to: CpuId(2) },
        EventKind::Fork { parent: Tid(1), child: Tid(2), child_comm: Comm::new("c") },
        EventKind::Exec { tid: Tid(3), old: Tid(4) },
        EventKind::Exit { tid: Tid(6), comm: Comm::new("e") },
        EventKind::TimerStart {
            timer: 9,
            function: TimerFunction::DeadlineReplenish,
            expires: Nanos::new(-3),
        },
        EventKind::TimerExpire { timer: 9, function: TimerFunction::Wakeup },
        EventKind::Frequency { of: CpuId(2), khz: 3_200_000 },
        EventKind::Marker { text: "hello" },
        EventKind::IrqEntry { irq: 33, name: "nvme" },
        EventKind::VectorEntry { name: "reschedule" },
    ];
    let mut out = Vec::new();
    let mut sink = Perfetto::new(&mut out);
    for (time, kind) in (1..).zip(kinds) {
        sink.event(&Event { time: Nanos::new(time), cpu: CpuId(1), current: Tid(7), kind });
    }
    sink.event(&Event {
        time: Nanos::new(99),
        cpu: CpuId(1),
        current: Tid(7),
        kind: EventKind::Lost { count: Some(5) },
    });
    sink.finish("mono").unwrap();
    let trace = Trace::parse_from_bytes(&out).unwrap();
    let found = events(&trace);
    assert!(found.iter().zip(1..).all(|((cpu, e), time)| *cpu == 1 && e.pid() == 7 && e.timestamp() == time));
    let mut bodies = found.iter().map(|(_, event)| event.event.clone().unwrap());
    let mut next = || bodies.next().unwrap();
    let Body::SchedSwitch(m) = next() else { panic!() };
    assert_eq!((m.prev_comm(), m.prev_pid(), m.prev_prio(), m.prev_state()), ("a", 7, -1, 0x100));
    assert_eq!((m.next_comm(), m.next_pid(), m.next_prio()), ("b", 8, 120));
    let Body::SchedWaking(m) = next() else { panic!() };
    assert_eq!((m.comm(), m.pid(), m.prio(), m.success(), m.target_cpu()), ("d", 5, -1, 1, 3));
    let Body::SchedMigrateTask(m) = next() else { panic!() };
    assert_eq!((m.comm(), m.pid(), m.orig_cpu(), m.dest_cpu()), ("d", 5, 1, 2));
    let Body::SchedProcessFork(m) = next() else { panic!() };
    assert_eq!((m.parent_pid(), m.child_comm(), m.child_pid()), (1, "c", 2));
    let Body::SchedProcessExec(m) = next() else { panic!() };
    assert_eq!((m.pid(), m.old_pid()), (3, 4));
    let Body::SchedProcessExit(m) = next() else { panic!() };
    assert_eq!((m.comm(), m.pid()), ("e", 6));
    let Body::HrtimerStart(start) = next() else { panic!() };
    assert_eq!((start.hrtimer(), start.expires()), (9, -3));
    let Body::HrtimerExpireEntry(expire) = next() else { panic!() };
    let symbols =
        &trace.packet.iter().find(|p| p.interned_data.is_some()).unwrap().interned_data.kernel_symbols;
    let symbol =
        |iid| String::from_utf8(symbols.iter().find(|s| s.iid() == iid).unwrap().str().to_vec()).unwrap();
    assert_eq!(
        (symbol(start.function()), symbol(expire.function())),
        ("dl_task_timer".to_owned(), "hrtimer_wakeup".to_owned())
    );
    let Body::CpuFrequency(m) = next() else { panic!() };
    assert_eq!((m.cpu_id(), m.state()), (2, 3_200_000));
    let Body::Print(m) = next() else { panic!() };
    assert_eq!(m.buf(), "hello");
    let Body::IrqHandlerEntry(m) = next() else { panic!() };
    assert_eq!((m.irq(), m.name()), (33, "nvme"));
    let Body::Generic(m) = next() else { panic!() };
    assert_eq!(m.event_name(), "reschedule_entry");
    let lost: Vec<&TracePacket> =
        trace.packet.iter().filter(|p| p.has_ftrace_events() && p.ftrace_events().lost_events()).collect();
    assert_eq!(lost.len(), 1);
    let stats = trace.packet.iter().find(|p| p.has_ftrace_stats()).unwrap().ftrace_stats();
    assert_eq!((stats.cpu_stats[0].cpu(), stats.cpu_stats[0].overrun()), (1, 5));
}

#[test]
fn readers_are_told_bits_clocks_and_processes() {
    let comm = Comm::new;
    let fork =
        |parent, child| EventKind::Fork { parent: Tid(parent), child: Tid(child), child_comm: comm("sh") };
    let exec = |tid| EventKind::Exec { tid: Tid(tid), old: Tid(tid) };
    let leave = |tid, name| EventKind::Switch {
        prev: Tid(tid),
        prev_comm: comm(name),
        prev_prio: 120,
        prev_state: LeaveState::Runnable { preempted: true },
        next: Tid(0),
        next_comm: comm("swapper/0"),
        next_prio: 120,
    };
    // 10 is a shell; 11 becomes a program of it; 12 is forked by that and never calls exec: a thread or a process.
    let kinds = [
        exec(10),
        fork(10, 11),
        exec(11),
        fork(11, 12),
        leave(11, "player"),
        leave(12, "worker"),
        leave(10, "sh"),
    ];
    let write = |clock: &str| {
        let mut out = Vec::new();
        let mut sink = Perfetto::new(&mut out);
        for (time, kind) in (7..).zip(kinds) {
            sink.event(&Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(10), kind });
        }
        sink.finish(clock).unwrap();
        out
    };
    let out = write("mono");
    let trace = Trace::parse_from_bytes(&out).unwrap();
    assert!(trace.packet[0].has_system_info(), "before the first event");
    let utsname = &trace.packet[0].system_info().utsname;
    assert_eq!((utsname.sysname(), utsname.release()), ("Linux", "4.14"));
    let snapshot = trace.packet.iter().find(|p| p.has_clock_snapshot()).unwrap().clock_snapshot();
    let clocks: Vec<(u32, u64)> = snapshot.clocks.iter().map(|c| (c.clock_id(), c.timestamp())).collect();
    assert_eq!(clocks, [(6, 7), (3, 7)], "boot and monotonic at the first event");
    let tree = trace.packet.iter().find(|p| p.has_process_tree()).unwrap().process_tree();
    let processes: Vec<(i32, i32, &str)> =
        tree.processes.iter().map(|p| (p.pid(), p.ppid(), p.cmdline[0].as_str())).collect();
    assert_eq!(processes, [(10, 0, "sh"), (11, 10, "player")]);
    let unnamed = Trace::parse_from_bytes(&write("x86-tsc")).unwrap();
    assert!(!unnamed.packet.iter().any(|p| p.has_clock_snapshot()), "a counter is no clock of the format");
    // Read back, the bits mean what was written.
    let mut states = Vec::new();
    let mut sink = |event: &Event<'_>| {
        if let EventKind::Switch { prev_state, .. } = event.kind {
            states.push(prev_state);
        }
    };
    let mut reader = surety_trace::open(out).unwrap();
    reader.read(&mut sink).unwrap();
    assert_eq!(states, [LeaveState::Runnable { preempted: true }; 3]);
    assert_eq!(reader.unread(), [] as [&str; 0]);
}

/// A thread is on its CPU from the beginning of the trace, or again after a loss, and only other events name it until it leaves.
#[test]
fn the_first_segment_is_of_the_thread_that_other_events_name() {
    let waking = |time, pid: i32, tid: i32| {
        let mut body = SchedWakingFtraceEvent::new();
        body.set_comm(name(tid));
        body.set_pid(tid);
        body.set_prio(98);
        body.set_target_cpu(0);
        let mut message = FtraceEvent::new();
        message.set_timestamp(time);
        message.set_pid(pid as u32);
        message.event = Some(Body::SchedWaking(body));
        message
    };
    let bundle = |events: Vec<FtraceEvent>, switch: (u64, i32), lost| {
        let mut columns = CompactSched::new();
        columns.intern_table.push(name(switch.1));
        columns.switch_timestamp.push(switch.0);
        columns.switch_prev_state.push(1);
        columns.switch_next_pid.push(switch.1);
        columns.switch_next_prio.push(120);
        columns.switch_next_comm_index.push(0);
        let mut bundle = FtraceEventBundle::new();
        bundle.set_cpu(0);
        bundle.set_lost_events(lost);
        bundle.event = events;
        bundle.compact_sched = MessageField::some(columns);
        let mut packet = TracePacket::new();
        packet.set_ftrace_events(bundle);
        packet
    };
    let mut trace = Trace::new();
    trace.packet.push(bundle(vec![waking(1_000, 7, 5), waking(2_000, 7, 6)], (5_000, 5), false));
    trace.packet.push(bundle(vec![waking(9_000, 6, 8)], (10_000, 0), true));
    let mut jobs = JobBuilder::new();
    let mut left = Vec::new();
    let mut sink = |event: &Event<'_>| {
        if let EventKind::Switch { prev, prev_comm, prev_prio, .. } = event.kind {
            left.push((event.current.0, prev.0, prev_comm.text().into_owned(), prev_prio));
        }
        jobs.event(event);
    };
    PerfettoTrace::open(trace.write_to_bytes().unwrap()).unwrap().read(&mut sink).unwrap();
    // Nobody tells the name of 7; that of 6 is known from its waking before the loss.
    assert_eq!(left, [(7, 7, String::new(), 120), (6, 6, name(6), 98)]);
    let jobs = jobs.finish();
    let run = |tid| jobs.threads.iter().find(|t| t.tid == Tid(tid)).unwrap().run;
    assert_eq!((run(7), run(6)), (Nanos::new(4_000), Nanos::new(1_000)));
    assert_eq!(jobs.anomalies.inconsistent, 0);
}

/// One switch or waking of a CPU.
#[derive(Clone, Debug)]
struct Drawn {
    step: u64,
    waking: bool,
    tid: i32,
    prio: i32,
    state: i64,
    target: i32,
}

fn name(tid: i32) -> String {
    if tid == 0 { "swapper".to_owned() } else { format!("t{tid}") }
}

/// The two forms of the same bundles.
fn both_forms(cpus: &[Vec<Drawn>], per_bundle: usize) -> [Vec<u8>; 2] {
    let (mut compact, mut plain) = (Trace::new(), Trace::new());
    for (cpu, drawn) in (0u32..).zip(cpus) {
        let (mut time, mut last) = (1000, (0, 120));
        for chunk in drawn.chunks(per_bundle) {
            let (mut columns, mut bundle) = (CompactSched::new(), FtraceEventBundle::new());
            bundle.set_cpu(cpu);
            let (mut switched, mut woken) = (0, 0);
            for event in chunk {
                time += event.step;
                let mut position = |name: String| {
                    let found = columns.intern_table.iter().position(|known| *known == name);
                    found.unwrap_or_else(|| {
                        columns.intern_table.push(name);
                        columns.intern_table.len() - 1
                    }) as u32
                };
                let index = position(name(event.tid));
                let mut message = FtraceEvent::new();
                message.set_timestamp(time);
                message.set_pid(last.0 as u32);
                if event.waking {
                    columns.waking_timestamp.push(time - woken);
                    woken = time;
                    columns.waking_pid.push(event.tid);
                    columns.waking_target_cpu.push(event.target);
                    columns.waking_prio.push(event.prio);
                    columns.waking_comm_index.push(index);
                    columns.waking_common_flags.push(1);
                    let mut body = SchedWakingFtraceEvent::new();
                    body.set_comm(name(event.tid));
                    body.set_pid(event.tid);
                    body.set_prio(event.prio);
                    body.set_target_cpu(event.target);
                    message.event = Some(Body::SchedWaking(body));
                } else {
                    columns.switch_timestamp.push(time - switched);
                    switched = time;
                    columns.switch_prev_state.push(event.state);
                    columns.switch_next_pid.push(event.tid);
                    columns.switch_next_prio.push(event.prio);
                    columns.switch_next_comm_index.push(index);
                    let mut body = SchedSwitchFtraceEvent::new();
                    // Before its first switch a CPU counts as idle, and nobody named the idle thread.
                    let first = time
                        == 1000
                            + drawn.iter().take_while(|d| d.waking).map(|d| d.step).sum::<u64>()
                            + drawn.iter().find(|d| !d.waking).map_or(0, |d| d.step);
                    body.set_prev_comm(if first { String::new() } else { name(last.0) });
                    body.set_prev_pid(last.0);
                    body.set_prev_prio(last.1);
                    body.set_prev_state(event.state);
                    body.set_next_comm(name(event.tid));
                    body.set_next_pid(event.tid);
                    body.set_next_prio(event.prio);
                    message.event = Some(Body::SchedSwitch(body));
                    last = (event.tid, event.prio);
                }
                bundle.event.push(message);
            }
            let mut packet = TracePacket::new();
            packet.set_ftrace_events(bundle);
            plain.packet.push(packet);
            let mut bundle = FtraceEventBundle::new();
            bundle.set_cpu(cpu);
            bundle.compact_sched = MessageField::some(columns);
            let mut packet = TracePacket::new();
            packet.set_ftrace_events(bundle);
            compact.packet.push(packet);
        }
    }
    [compact, plain].map(|trace| trace.write_to_bytes().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_compact_form_says_what_the_plain_one_says(
        cpus in prop::collection::vec(
            prop::collection::vec(
                (1..5000u64, any::<bool>(), 0..6i32, prop_oneof![Just(-1), 0..139i32],
                    prop::sample::select(vec![0i64, 1, 2, 0x100, 0x80]), 0..4i32),
                1..60,
            ),
            1..4,
        ),
        per_bundle in 1..20usize,
    ) {
        let cpus: Vec<Vec<Drawn>> = cpus.into_iter().map(|drawn| {
            drawn.into_iter().map(|(step, waking, tid, prio, state, target)| {
                Drawn { step, waking, tid, prio, state, target }
            }).collect()
        }).collect();
        let [compact, plain] = both_forms(&cpus, per_bundle).map(|file| {
            let mut seen = Vec::new();
            let summary = PerfettoTrace::open(file).unwrap()
                .read(&mut |event: &Event<'_>| seen.push(format!("{event:?}"))).unwrap();
            assert!(summary.is_complete(), "{summary:?}");
            (seen, summary.events)
        });
        prop_assert_eq!(compact.0.len(), cpus.iter().map(Vec::len).sum::<usize>());
        prop_assert_eq!(compact, plain);
    }
}

/// Tracks by name, each with its slices, instants and counter values in the order of the file.
fn tracks(trace: &Trace) -> BTreeMap<String, Vec<(u64, String, i64)>> {
    let mut names: BTreeMap<u64, (String, u64)> = BTreeMap::new();
    for packet in trace.packet.iter().filter(|packet| packet.has_track_descriptor()) {
        let track = packet.track_descriptor();
        names.insert(track.uuid(), (track.name().to_owned(), track.parent_uuid()));
    }
    let mut found: BTreeMap<String, Vec<(u64, String, i64)>> = BTreeMap::new();
    for packet in trace.packet.iter().filter(|packet| packet.has_track_event()) {
        assert_eq!(packet.trusted_packet_sequence_id(), 2);
        let event = packet.track_event();
        let (name, parent) = &names[&event.track_uuid()];
        let value = match event.type_() {
            track_event::Type::TYPE_SLICE_BEGIN => 1,
            track_event::Type::TYPE_SLICE_END => -1,
            track_event::Type::TYPE_INSTANT => 0,
            _ => event.counter_value(),
        };
        let group = &names[parent].0;
        let text = event.name().to_owned();
        found.entry(format!("{group}/{name}")).or_default().push((packet.timestamp(), text, value));
    }
    found
}

#[test]
fn promises_become_tracks() {
    let ms = Nanos::from_millis;
    let (mut out, mut jobs) = (Vec::new(), JobBuilder::new());
    let reservation = Reservation { deadline: ms(8), ..Reservation::implicit(ms(4), ms(10)) };
    let overlay = Overlay {
        of: OverlayOf::Named("player".to_owned()),
        reservation: Some(reservation),
        response_limit: Some(ms(6)),
    };
    let mut sink = Perfetto::with_overlays(&mut out, vec![overlay]);
    let (idle, player) = ((Tid(0), Comm::new("swapper/0"), 120), (Tid(9), Comm::new("player"), -1));
    let sleeping = LeaveState::Sleeping;
    let runnable = LeaveState::Runnable { preempted: false };
    let mut at = |time: i64, current: i32, kind| {
        let event = Event { time: Nanos::new(time * 1_000_000), cpu: CpuId(0), current: Tid(current), kind };
        sink.event(&event);
        jobs.event(&event);
    };
    let switch = |prev: (Tid, Comm, i32), prev_state, next: (Tid, Comm, i32)| EventKind::Switch {
        prev: prev.0,
        prev_comm: prev.1,
        prev_prio: prev.2,
        prev_state,
        next: next.0,
        next_comm: next.1,
        next_prio: next.2,
    };
    let waking = EventKind::Waking(Woken { tid: Tid(9), comm: player.1, prio: -1, target: CpuId(0) });
    let timer = |timer| EventKind::TimerStart {
        timer,
        function: TimerFunction::DeadlineReplenish,
        expires: Nanos::new(40_000_000),
    };
    at(1, 0, EventKind::SoftirqRaise { vector: 1 });
    at(10, 0, waking);
    at(10, 0, switch(idle, runnable, player));
    at(13, 9, switch(player, sleeping, idle)); // in time, 3 ms of 4
    at(30, 0, waking);
    at(30, 0, switch(idle, runnable, player));
    at(35, 9, timer(77)); // 5 ms: out of budget
    at(35, 9, switch(player, runnable, idle));
    at(40, 0, EventKind::TimerExpire { timer: 77, function: TimerFunction::DeadlineReplenish });
    at(40, 0, switch(idle, runnable, player));
    at(41, 9, switch(player, sleeping, idle)); // 11 ms after its release
    sink.finish("mono").unwrap();
    let trace = Trace::parse_from_bytes(&out).unwrap();
    let found = tracks(&trace);
    let of = |name: &str| -> Vec<(u64, &str, i64)> {
        let marks = found.get(&format!("player 9/{name}")).unwrap_or_else(|| panic!("{name} in {found:?}"));
        marks.iter().map(|(time, text, value)| (time / 1_000_000, text.as_str(), *value)).collect()
    };
    let jobs = jobs.finish();
    let history = jobs.threads.iter().find(|thread| thread.tid == Tid(9)).unwrap();
    assert_eq!(history.jobs.len(), 2);
    let late = format!("job 1 late by {}", ms(5));
    let reserved = format!("{} / {} / {}", ms(4), ms(8), ms(10));
    assert_eq!(of("jobs"), [(10, "job 0", 1), (13, "", -1), (30, "job 1", 1), (41, "", -1)]);
    assert_eq!(of("deadlines"), [(16, "deadline of job 0", 0), (36, "deadline of job 1", 0)]);
    assert_eq!(of("misses"), [(36, late.as_str(), 1), (41, "", -1)]);
    assert_eq!(of("throttled"), [(35, "throttled", 1), (40, "", -1)]);
    assert_eq!(of("reservation"), [(10, reserved.as_str(), 1), (41, "", -1)]);
    let ms = 1_000_000;
    assert_eq!(
        of("budget"),
        [(10, "", 4 * ms), (13, "", ms), (30, "", 4 * ms), (35, "", -ms), (40, "", 3 * ms), (41, "", 2 * ms)]
    );
    // The tracks do not hide the events.
    let mut again = JobBuilder::new();
    PerfettoTrace::open(out).unwrap().read(&mut again).unwrap();
    assert_eq!(again.finish(), jobs);
}

#[test]
fn marked_jobs_that_overlap_are_drawn_one_after_the_other() {
    let mut out = Vec::new();
    let overlay =
        Overlay { of: OverlayOf::Thread(Tid(9)), reservation: None, response_limit: Some(Nanos::new(5)) };
    let mut sink = Perfetto::with_overlays(&mut out, vec![overlay]);
    let event = |time, kind| Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(9), kind };
    let woken = Woken { tid: Tid(9), comm: Comm::new("p"), prio: 120, target: CpuId(0) };
    sink.event(&event(1, EventKind::Waking(woken)));
    for (job, release, begin, end) in [(0, 10, 12, 30), (1, 20, 31, 40)] {
        let mut marker = |time, marker: JobMarker| {
            let mut text = [0; 64];
            let length = marker.write(&mut text);
            let text = std::str::from_utf8(&text[..length]).unwrap();
            let kind = EventKind::Marker { text };
            sink.event(&Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(9), kind });
        };
        marker(begin, JobMarker::Begin { job, release: Nanos::new(release) });
        marker(end, JobMarker::End { job });
    }
    sink.finish("mono").unwrap();
    let found = tracks(&Trace::parse_from_bytes(&out).unwrap());
    let edges = |name: &str| -> Vec<(u64, i64)> { found[name].iter().map(|(t, _, v)| (*t, *v)).collect() };
    assert_eq!(edges("p 9/jobs"), [(10, 1), (30, -1), (30, 1), (40, -1)]);
    assert_eq!(edges("p 9/misses"), [(15, 1), (30, -1), (30, 1), (40, -1)]);
}

/// Two requests side by side in a disk: each is a slice from issue to completion on a track of its own, with the time it was queued; the
/// events are those of the published schema.
#[test]
fn requests_of_a_disk_are_slices() {
    let step = |time: i64, step, sector| {
        let has_name = BlockStep::has_name(step);
        let kind = EventKind::Block(BlockEvent {
            step,
            disk: DiskNumber { major: 8, minor: 16 },
            sector,
            sectors: 8,
            bytes: if step.has_bytes() { 4096 } else { 0 },
            priority: 0,
            rwbs: Rwbs::new(b"R"),
            comm: if has_name { Comm::new("reader") } else { Comm::default() },
            error: 0,
        });
        Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(7), kind }
    };
    let mut out = Vec::new();
    let mut sink = Perfetto::new(&mut out);
    for event in [
        step(10, BlockStep::Inserted, 100),
        step(20, BlockStep::Inserted, 300),
        step(30, BlockStep::Issued, 100),
        step(50, BlockStep::Issued, 300),
        step(70, BlockStep::Completed, 300),
        step(90, BlockStep::Completed, 100),
    ] {
        sink.event(&event);
    }
    sink.finish("mono").unwrap();
    let trace = Trace::parse_from_bytes(&out).unwrap();
    let issued = events(&trace).into_iter().find_map(|(_, event)| match &event.event {
        Some(Body::BlockRqIssue(m)) => Some((m.dev(), m.sector(), m.nr_sector(), m.rwbs().to_owned())),
        _ => None,
    });
    assert_eq!(issued, Some((0x810, 100, 8, "R".to_owned())));
    let mut names = BTreeMap::new();
    for packet in trace.packet.iter().filter(|packet| packet.has_track_descriptor()) {
        let track = packet.track_descriptor();
        assert!(names.insert(track.uuid(), track.name().to_owned()).is_none(), "once each");
    }
    let mut open: BTreeMap<u64, (u64, String, Vec<i64>)> = BTreeMap::new();
    let mut slices = Vec::new();
    for packet in trace.packet.iter().filter(|packet| packet.has_track_event()) {
        let event = packet.track_event();
        let (track, time) = (event.track_uuid(), packet.timestamp());
        match event.type_() {
            track_event::Type::TYPE_SLICE_BEGIN => {
                let numbers = event.debug_annotations.iter().map(|a| a.int_value()).collect();
                open.insert(track, (time, event.name().to_owned(), numbers));
            }
            track_event::Type::TYPE_SLICE_END => {
                let (from, name, numbers) = open.remove(&track).unwrap();
                slices.push((names[&track].clone(), from, time, name, numbers));
            }
            _ => {}
        }
    }
    slices.sort();
    let slice = |track: &str, from, to, name: &str, numbers: &[i64]| {
        (track.to_owned(), from, to, name.to_owned(), numbers.to_vec())
    };
    assert_eq!(
        slices,
        [
            slice("in the device 1", 30, 90, "R 100 + 8", &[20, 7, 0]),
            slice("in the device 2", 50, 70, "R 300 + 8", &[30, 7, 0]),
            slice("queued 1", 10, 30, "R 100 + 8", &[7]),
            slice("queued 2", 20, 50, "R 300 + 8", &[7]),
        ]
    );
    assert!(
        names.values().any(|name| name == "disk 8:16")
            && names.values().any(|name| name == "requests queued")
    );
}
